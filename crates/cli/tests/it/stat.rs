//! `faultless stat` as a user meets it.

use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Output, Stdio};

use faultless_wants as wants;

use crate::{FAULTLESS, machine, text};

fn stat(words: &[&str]) -> Output {
    Command::new(FAULTLESS).arg("stat").args(words).output().unwrap()
}

#[test]
fn stdout_and_status_are_the_programs_and_the_report_goes_to_stderr() {
    let out = stat(&["--", "sh", "-c", "echo data; echo error >&2; exit 3"]);
    assert_eq!(out.status.code(), Some(3));
    assert_eq!(text(&out.stdout), "data\n");
    let report = text(&out.stderr);
    assert!(report.starts_with("error\n") && report.contains("faultless stat: "), "{report}");
}

#[test]
fn stdin_reaches_the_program() {
    let mut child = Command::new(FAULTLESS)
        .args(["stat", "--", "cat"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    std::io::Write::write_all(child.stdin.as_mut().unwrap(), b"through").unwrap();
    assert_eq!(child.wait_with_output().unwrap().stdout, b"through");
}

#[test]
fn a_signal_that_ends_the_program_shows_in_the_status() {
    assert_eq!(stat(&["--", "sh", "-c", "kill -KILL $$"]).status.code(), Some(128 + 9));
}

#[test]
fn a_signal_to_faultless_reaches_the_program_and_the_report_still_comes() {
    for (signal, number) in [("TERM", 15), ("INT", 2)] {
        if signal == "INT" && !machine::sigint() {
            continue;
        }
        let child = Command::new(FAULTLESS)
            .args(["stat", "--", "sh", "-c", "echo ready; exec sleep 60"])
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut child = child;
        let mut ready = [0; 6];
        std::io::Read::read_exact(child.stdout.as_mut().unwrap(), &mut ready).unwrap();
        let pid = child.id().to_string();
        assert!(Command::new("kill").args(["-s", signal, &pid]).status().unwrap().success());
        let out = child.wait_with_output().unwrap();
        assert_eq!(out.status.code(), Some(128 + number), "{signal}");
        assert!(text(&out.stderr).contains("faultless stat: "), "{}", text(&out.stderr));
    }
}

#[test]
fn a_program_that_cannot_start_is_the_same_line_and_status_under_every_verb() {
    let folder = tempfile::tempdir().unwrap();
    let no_interpreter = folder.path().join("no-interpreter");
    std::fs::write(&no_interpreter, "#!/no/such/interpreter\n").unwrap();
    std::fs::set_permissions(&no_interpreter, std::fs::Permissions::from_mode(0o755)).unwrap();
    for (command, word, status) in [
        ("faultless-no-such", "no such command", 127),
        ("./faultless-no-such", "no such command", 127),
        ("/etc/passwd", "no right to execute", 126),
        ("/etc", "a folder", 126),
        (no_interpreter.to_str().unwrap(), "its interpreter", 126),
    ] {
        let mut lines = Vec::new();
        let verbs =
            ["stat", "stat -r 2", "record", "run", "top --once", "advise", "compare true", "check --update"];
        for verb in verbs {
            let mut words = Command::new(FAULTLESS);
            words.args(verb.split(' ')).arg("--").arg(command).current_dir(folder.path());
            let out = words.stdin(std::process::Stdio::null()).output().unwrap();
            let status = if verb.starts_with("check") { 2 } else { status };
            let error = text(&out.stderr);
            assert_eq!(out.status.code(), Some(status), "{verb}, as a shell has it: {error}");
            lines.extend(error.lines().last().map(str::to_owned));
            assert_eq!(error.lines().count(), 1, "{verb}: {error}");
        }
        assert!(
            lines[0].starts_with(&format!("faultless: {command}: ")) && lines[0].contains(word),
            "{lines:?}"
        );
        lines.dedup();
        assert_eq!(lines.len(), 1, "{lines:?}");
    }
}

#[test]
fn a_missing_command_is_one_line_for_every_verb_that_needs_one() {
    for words in [&["stat"][..], &["stat", "--json"], &["stat", "--"], &["run"], &["run", "--summary"]] {
        let out = Command::new(FAULTLESS).args(words).output().unwrap();
        let error = text(&out.stderr);
        assert_eq!((out.status.code(), error.lines().count()), (Some(2), 1), "{words:?}: {error}");
        let told = error.starts_with("faultless: <CMD>... is missing; write it like this: faultless ");
        assert!(told && error.contains(words[0]), "{error}");
    }
}

#[test]
fn pairs_alone_bring_the_counters_that_they_are_scaled_by() {
    let out = stat(&["--explain", "--sources", "pairs", "--", "true"]);
    assert!(out.status.success());
    let report = text(&out.stderr);
    let state = |source: &str| report.lines().find(|line| line.contains(source)).map(|line| &line[..12]);
    if state(" page-faults:u").is_some_and(|state| state.contains("not used")) {
        wants::missing_feature("perf events", "no counter: its pairs say that they lack it");
    } else {
        assert!(!report.contains("not without the counter"), "{report}");
    }
    assert_eq!(
        state(" fault pairs "),
        state(" page-faults:u"),
        "both or, where perf is denied, neither: {report}"
    );
}

#[test]
fn children_of_a_program_that_ignores_sigchld_are_in_the_rows() {
    // A shell can't be made to ignore the end of its own children; python can. To wait is then to wait for the last, whose usage is lost.
    let script = "import mmap,os,signal\nsignal.signal(signal.SIGCHLD, signal.SIG_IGN)\n\
        if os.fork() == 0:\n  m = mmap.mmap(-1, 40 << 20)\n  for i in range(0, 40 << 20, 4096): m[i] = 1\n  os._exit(0)\n\
        try: os.wait()\nexcept ChildProcessError: pass";
    if !wants::program("python3", "python3") {
        return;
    }
    let out = stat(&["--json", "--", "python3", "-c", script]);
    let report: serde_json::Value = serde_json::from_slice(&out.stderr).unwrap();
    if report["sources"]
        .as_array()
        .unwrap()
        .iter()
        .any(|s| s["source"] == "page-faults:u" && s["used"] == false)
    {
        return wants::missing_feature("perf events", "they alone know those faults");
    }
    let beyond = report["beyond_wait4"]["faults"].as_u64().unwrap_or(0);
    let rows: u64 =
        report["rows"].as_array().unwrap().iter().map(|row| row["faults"].as_u64().unwrap()).sum();
    let waited =
        report["usage"]["minor_faults"].as_u64().unwrap() + report["usage"]["major_faults"].as_u64().unwrap();
    assert!(beyond > 500, "{report}");
    assert_eq!(rows, waited + beyond);
}

/// Runs faultless in its own mount namespace, where `hidden` is an empty folder. `None` if that is refused.
#[track_caller]
fn hiding(hidden: &str, words: &[&str]) -> Option<Output> {
    let script = format!("mount -t tmpfs none {hidden} && exec \"$@\"");
    let run = |words: &[&str]| {
        Command::new("unshare")
            .args(["--user", "--map-root-user", "--mount", "sh", "-c", &script, "sh"])
            .args(words)
            .output()
    };
    match run(&["true"]) {
        Ok(out) if out.status.success() => run(&[&[FAULTLESS], words].concat()).ok(),
        Ok(out) => {
            wants::missing_feature("user namespaces", text(&out.stderr));
            None
        }
        Err(error) => {
            wants::missing_package("util-linux", format_args!("unshare: {error}"));
            None
        }
    }
}

#[test]
fn where_proc_is_hidden_there_is_no_avoidable_curve_and_a_line_says_why() {
    let words = ["stat", "--json", "--", FAULTLESS, "workload", "--quiet", "calloc-full"];
    let Some(out) = hiding("/proc", &words) else { return };
    assert!(out.status.success(), "{}", text(&out.stderr));
    let report: serde_json::Value = serde_json::from_slice(&out.stderr).unwrap();
    assert!(report["avoidable"].is_null(), "{report}");
    assert!(report["sources"].to_string().contains("/proc is hidden"), "{report}");
}

#[test]
fn where_sys_is_hidden_faults_are_recorded_on_every_processor() {
    let words = ["stat", "--json", "--", FAULTLESS, "workload", "--quiet", "calloc-full"];
    let Some(out) = hiding("/sys", &words) else { return };
    let hidden: serde_json::Value = serde_json::from_slice(&out.stderr).unwrap();
    // An empty folder mounted over an empty folder.
    let out = hiding("/mnt", &words).unwrap();
    let plain: serde_json::Value = serde_json::from_slice(&out.stderr).unwrap();
    let used = |report: &serde_json::Value| {
        let sources = report["sources"].as_array().unwrap().iter();
        sources.filter(|source| source["source"] == "fault pairs").any(|source| source["used"] == true)
    };
    if used(&hidden) {
        assert!(hidden["time"]["timed"].as_u64().is_some_and(|timed| timed > 300), "{hidden}");
    } else {
        wants::missing_feature("perf events", format_args!("no fault pairs: {}", plain["sources"]));
    }
    assert_eq!(used(&hidden), used(&plain), "{hidden}");
}

#[test]
fn where_proc_or_sys_is_hidden_the_other_verbs_say_so_and_go_on() {
    let Some(out) = hiding("/proc", &["run", "--", "echo", "ran"]) else { return };
    let error = text(&out.stderr);
    assert_eq!((out.status.code(), text(&out.stdout).as_str()), (Some(0), "ran\n"), "{error}");
    assert!(error.starts_with("faultless: /proc is hidden") && error.lines().count() == 1, "{error}");
    let Some(out) = hiding("/sys", &["advise", "-n", "3", "--", "true"]) else { return };
    let advice = text(&out.stdout) + &text(&out.stderr);
    assert!(advice.contains("/sys is hidden"), "{advice}");
    for hidden in ["/proc", "/sys"] {
        let Some(out) = hiding(hidden, &["doctor"]) else { return };
        let report = text(&out.stdout);
        assert!(out.status.success() && report.contains(&format!("{hidden} = hidden")), "{report}");
        assert!(!report.contains("this kernel has no THP"), "{report}");
    }
}

#[test]
fn what_is_missing_and_how_figures_came_about_is_told_when_asked_for() {
    let plain = text(&stat(&["--", "true"]).stderr);
    let is_short = |explained: &String| explained.contains("avoidable faults: memory was read");
    // A run of a millisecond is too short for the avoidable share, whoever runs it; on a busy machine few are so short.
    let mut runs = (0..20).map(|_| text(&stat(&["--explain", "--", "true"]).stderr));
    let explained = runs.find(is_short).expect("no run of 20 is short");
    for head in [" Missing", " Where the counts come from", " Sources", " How the figures came about"] {
        assert!(explained.contains(head) && !plain.contains(head), "{head}: {plain}\n{explained}");
    }
    assert!(plain.trim_end().ends_with("--explain says what is missing and why"), "{plain}");
    let both = stat(&["--explain", "--json", "--", "true"]);
    assert_eq!(both.status.code(), Some(2), "{}", text(&both.stderr));
}
