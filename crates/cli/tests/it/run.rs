//! The options and the reports of `faultless run`. Guards against options without effect, reports that no
//! program can read, and an interposer with parts that it must never need.

use std::process::Command;

use faultless_wants as wants;

use crate::interposed::{Case, compile, run};
use crate::text;

fn refused(options: &[&str]) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_faultless"));
    let output = command.arg("run").args(options).args(["--", "true"]).output().unwrap();
    assert_eq!(output.status.code(), Some(2), "{options:?}");
    String::from_utf8_lossy(&output.stderr).lines().next().unwrap_or_default().to_owned()
}

/// Times to be idle for, ms: on a busy machine whoever works meanwhile may get a processor only in the longer ones.
const IDLE_MS: [&str; 3] = ["1200", "6000", "30000"];

fn bursts(options: &[&str], idle_ms: &str) -> String {
    let faultless = env!("CARGO_BIN_EXE_faultless");
    let words = ["workload", "idle-bursts", "--bursts", "2", "--blocks", "90", "--idle-ms", idle_ms];
    run(Case::pooled(faultless, options).args(&words)).stderr
}

#[test]
fn a_wrong_value_is_answered_with_what_was_expected() {
    for (options, expected) in [
        (["--decay", "3m"], "a time such as 200ms or 1s, or never"),
        (["--stock", "64M"], "two sizes, such as 64M-256M"),
        (["--stock", "2M-1M"], "at most the second"),
        (["--stock", "1M-2M"], "add --prefault ahead or --scrub ahead"),
        (["--prewarm", "much"], "a size such as 65536, 64K or 2G"),
        (["--policy", "huge"], "'huge'"),
        (["--summary-format", "xml"], "'xml'"),
    ] {
        let answer = refused(&options);
        assert!(answer.contains(expected), "{options:?}: {answer}");
    }
}

#[test]
fn a_program_and_its_children_have_no_huge_pages_if_that_is_wanted_and_no_pool() {
    let shown = "grep THP_enabled /proc/self/status; echo pool $LD_PRELOAD";
    let words = ["run", "--no-huge-pages", "--", "sh", "-c", shown];
    let output = Command::new(env!("CARGO_BIN_EXE_faultless")).args(words).output().unwrap();
    let said = text(&output.stdout);
    match said.strip_prefix("THP_enabled:\t") {
        Some(rest) => assert_eq!(rest, "0\npool\n"),
        None => wants::missing_feature("THP", "/proc/self/status does not tell"),
    }
}

/// What the JSON report of a run says, by name.
fn report(options: &[&str], idle_ms: &str) -> serde_json::Value {
    read(&bursts(&[options, &["--summary-format", "json"]].concat(), idle_ms))
}

/// The report of the shortest idle time in which `enough` was done, or of the longest.
fn first(
    enough: impl Fn(&serde_json::Value) -> bool,
    report: impl Fn(&str) -> serde_json::Value,
) -> serde_json::Value {
    let [short, long, longest] = IDLE_MS;
    let found = [short, long].into_iter().map(&report).find(enough);
    found.unwrap_or_else(|| report(longest))
}

fn read(stderr: &str) -> serde_json::Value {
    let line = stderr.lines().find(|line| line.starts_with('{')).unwrap_or_else(|| panic!("{stderr}"));
    serde_json::from_str(line).unwrap()
}

/// Large blocks that a run has taken.
fn blocks(report: &serde_json::Value) -> u64 {
    ["dirty_hits", "zeroed_hits", "fresh"].map(|name| report[name].as_u64().unwrap()).iter().sum()
}

#[test]
fn an_idle_program_gives_its_memory_back_without_being_asked() {
    let has_purged = |report: &serde_json::Value| report["purged_bytes"].as_u64() >= Some(40 << 20);
    let quick = first(has_purged, |idle_ms| report(&["--decay", "200ms"], idle_ms));
    assert!(has_purged(&quick), "{quick}");
    assert_eq!(quick["thread_refused"], 0);
    // 180 blocks and their list, beside the program's own needs to read its words.
    let faultless = env!("CARGO_BIN_EXE_faultless");
    let words = run(Case::pooled(faultless, &["--summary-format", "json"]).args(&["--version"]));
    assert_eq!(blocks(&quick), 181 + blocks(&read(&words.stderr)), "{quick}");
    assert_eq!(report(&["--decay", "never"], IDLE_MS[0])["purged_bytes"], 0);
}

#[test]
fn what_was_populated_is_reported_as_the_kernel_has_it() {
    for (options, word) in [
        (["--prefault", "populate", "--summary"], "populated, as the kernel says: "),
        (["--prewarm", "64M", "--summary"], "ahead of need: 64.0 MiB made resident"),
        (["--policy", "hugetlb", "--summary"], "large blocks: "),
    ] {
        let stderr = bursts(&options, IDLE_MS[0]);
        assert!(stderr.contains(word), "{options:?}: {stderr}");
        let verified = stderr.lines().find(|line| line.contains("as the kernel says"));
        assert!(verified.is_none_or(|line| line.ends_with(" resident, 0.0 MiB not")), "{stderr}");
    }
}

/// Checks an OpenMetrics document as its readers do: a type before every sample, and one end mark, at the
/// end.
fn read_open_metrics(document: &str) {
    let report: Vec<&str> = document.lines().collect();
    assert_eq!(report.last(), Some(&"# EOF"), "{document}");
    let mut family = ("", "");
    for line in &report[..report.len() - 1] {
        if line.starts_with("# HELP ") || line.starts_with("# UNIT ") {
            continue;
        }
        if let Some(kind) = line.strip_prefix("# TYPE ") {
            family = kind.split_once(' ').unwrap();
            continue;
        }
        let suffix = if family.1 == "counter" { "_total" } else { "" };
        let rest = line.strip_prefix(&format!("{}{suffix}{{", family.0)).unwrap_or_else(|| panic!("{line}"));
        let value = rest.rsplit(' ').next().unwrap();
        assert!(value.parse::<f64>().is_ok(), "{line}");
    }
}

#[test]
fn the_openmetrics_report_has_a_type_for_every_sample_and_an_end() {
    let stderr = bursts(&["--summary-format", "openmetrics"], IDLE_MS[0]);
    let begin = stderr.find("# TYPE").unwrap_or_else(|| panic!("{stderr}"));
    read_open_metrics(&stderr[begin..]);
}

#[test]
fn every_process_leaves_a_whole_document_in_a_file_of_its_own_wherever_it_went() {
    let folder = tempfile::tempdir().unwrap();
    for format in ["openmetrics", "json", "text"] {
        let path = format!("%p-{format}");
        let options = ["--summary-format", format, "--summary-file", &path];
        let script = "cd / && sort /etc/passwd >/dev/null && sort /etc/passwd >/dev/null; true";
        let case = Case::pooled("sh", &options).args(&["-c", script]).directory(folder.path());
        assert_eq!(run(case).stderr, "", "{format}");
    }
    let names: Vec<_> = std::fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    let names: Vec<_> = names.iter().map(|name| name.to_str().unwrap()).collect();
    for (format, begin) in [("openmetrics", "# TYPE "), ("json", "{"), ("text", "faultless: ")] {
        let of_format: Vec<_> = names.iter().filter(|name| name.ends_with(format)).collect();
        assert!(of_format.len() >= 2, "twice sort, and shells that end through exit: {names:?}");
        for name in of_format {
            let document = std::fs::read_to_string(folder.path().join(name)).unwrap();
            assert!(document.starts_with(begin) && document.ends_with('\n'), "{document}");
            let pid = name.split('-').next().unwrap();
            assert!(document.contains(pid), "{name}: {document}");
            match format {
                "openmetrics" => read_open_metrics(&document),
                "json" => drop(serde_json::from_str::<serde_json::Value>(&document).unwrap()),
                _ => {}
            }
        }
    }
    assert!(!names.iter().any(|name| name.ends_with(".part")), "nothing lies aside: {names:?}");
}

#[test]
fn a_report_that_cannot_be_written_is_found_out_before_the_command_starts() {
    let folder = tempfile::tempdir().unwrap();
    let proof = folder.path().join("ran");
    let long = "x".repeat(250);
    for file in ["/proc/self/report", "/nowhere/report", "/dev/null", "/etc/", &long] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_faultless"));
        let output =
            command.args(["run", "--summary-file", file, "--", "touch"]).arg(&proof).output().unwrap();
        let message = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!((output.status.code(), message.lines().count()), (Some(2), 1), "{file}: {message}");
        assert!(message.contains(file) && message.contains("name a FILE"), "{message}");
        assert!(!proof.exists(), "{file}");
    }
}

#[test]
fn a_report_that_can_no_longer_be_written_leaves_the_old_one_and_a_word() {
    let folder = tempfile::tempdir().unwrap();
    let (inside, kept) = (folder.path().join("inside"), folder.path().join("kept"));
    std::fs::create_dir(&inside).unwrap();
    let file = inside.join("report");
    let options = ["--summary-file", file.to_str().unwrap()];
    let output = run(Case::pooled("mv", &options).args(&[&inside, &kept]));
    assert!(output.stderr.contains("the file of the summary could not be written"), "{}", output.stderr);
    assert_eq!(std::fs::read_dir(&kept).unwrap().count(), 0);
}

#[test]
fn a_report_has_the_rights_of_the_old_one_and_replaces_nothing_but_a_file() {
    use std::os::unix::fs::{FileTypeExt, PermissionsExt};
    let folder = tempfile::tempdir().unwrap();
    let (file, pipe) = (folder.path().join("report"), folder.path().join("pipe"));
    std::fs::write(&file, "old").unwrap();
    std::fs::set_permissions(&file, PermissionsExt::from_mode(0o600)).unwrap();
    run(Case::pooled("sort", &["--summary-file", file.to_str().unwrap()]).args(&["/etc/passwd"]));
    assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o7777, 0o600);
    assert!(std::fs::read_to_string(&file).unwrap().starts_with("faultless: "));

    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let tells = "FAULTLESS_SUMMARY_FILE=\"$0\" exec sort /etc/passwd";
    let output = run(Case::pooled("sh", &["--summary"]).args(&["-c", tells, pipe.to_str().unwrap()]));
    assert!(output.stderr.contains("the file of the summary could not be written"), "{}", output.stderr);
    assert!(std::fs::symlink_metadata(&pipe).unwrap().file_type().is_fifo());
}

#[test]
fn a_process_that_confined_itself_opens_no_file() {
    let folder = tempfile::tempdir().unwrap();
    let (source, file) = (folder.path().join("confined.c"), folder.path().join("report"));
    let text = "#include <sys/prctl.h>\nint main(void) { return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); }\n";
    std::fs::write(&source, text).unwrap();
    let Some(program) = compile(source.to_str().unwrap(), &[]) else { return };
    let output = run(Case::pooled(&program, &["--summary-file", file.to_str().unwrap()]));
    assert!(output.stderr.contains("the file of the summary could not be written"), "{}", output.stderr);
    assert!(!file.exists());
}

/// The report of a run on a made-up machine: idle, with this much memory pressure. `None` if the machine
/// can't be made up here.
#[track_caller]
fn told(
    waiting_percent: &str,
    options: &[&str],
    enough: impl Fn(&serde_json::Value) -> bool,
) -> Option<serde_json::Value> {
    let waiting = |percent: &str| format!("some avg10={percent} avg60=0.00 avg300=0.00 total=0\n");
    let files = [
        ("/proc/loadavg", "0.00 0.00 0.00 1/9 9\n".to_owned()),
        ("/proc/pressure/cpu", waiting("0.00")),
        ("/proc/pressure/memory", waiting(waiting_percent)),
    ];
    let mut script = String::new();
    let folder = tempfile::tempdir().unwrap();
    for (at, (path, text)) in files.into_iter().enumerate() {
        let file = folder.path().join(at.to_string());
        std::fs::write(&file, text).unwrap();
        script += &format!("mount --bind {} {path} && ", file.display());
    }
    let allowed = Command::new("unshare").args(["-m", "sh", "-c", &format!("{script}true")]).output();
    let failure = match allowed {
        Ok(output) if output.status.success() => None,
        Ok(output) => Some(text(&output.stderr)),
        Err(error) => Some(error.to_string()),
    };
    if let Some(why) = failure {
        wants::missing_feature("mount namespaces", why);
        return None;
    }
    let faultless = env!("CARGO_BIN_EXE_faultless");
    script += "exec \"$0\" \"$@\"";
    let report = |idle_ms: &str| {
        let words = ["workload", "idle-bursts", "--bursts", "2", "--blocks", "90", "--idle-ms", idle_ms];
        let case = Case::plain("unshare").args(&["-m", "sh", "-c", &script, faultless, "run"]);
        let case = case.args(options).args(&["--summary-format", "json", "--", faultless]).args(&words);
        read(&run(case).stderr)
    };
    Some(first(enough, report))
}

#[test]
fn an_idle_processor_works_ahead_of_need() {
    let has_scrubbed = |report: &serde_json::Value| report["scrubbed_bytes"].as_u64() >= Some(64 << 20);
    let options = ["--scrub", "ahead", "--stock", "32M-64M"];
    let Some(scrub) = told("0.00", &options, has_scrubbed) else { return };
    assert!(has_scrubbed(&scrub), "{scrub}");
    let has_stocked = |report: &serde_json::Value| report["stocked_bytes"].as_u64() > Some(0);
    let options = ["--prefault", "ahead", "--stock", "32M-64M"];
    let Some(stock) = told("0.00", &options, has_stocked) else { return };
    assert!(has_stocked(&stock), "{stock}");
    assert_eq!(stock["populate_missing_bytes"], 0, "{stock}");
}

#[test]
fn where_memory_is_short_nothing_is_kept_and_nothing_done_ahead() {
    let has_purged = |report: &serde_json::Value| report["purged_bytes"].as_u64() >= Some(85 << 20);
    let Some(short) = told("30.00", &["--scrub", "ahead", "--decay", "1000s"], has_purged) else { return };
    assert!(has_purged(&short), "long before the decay time: {short}");
    assert_eq!(short["scrubbed_bytes"], 0, "{short}");
}

/// A panic path links the standard library's printing and unwinding, which is larger than all of our code.
#[test]
fn the_interposer_has_no_path_to_a_panic() {
    let preload = run(Case::pooled("sh", &[]).args(&["-c", "echo ${LD_PRELOAD%%:*}"])).stdout;
    let bytes = std::fs::metadata(preload.trim()).unwrap().len();
    assert!(bytes < 256 << 10, "{bytes} bytes");
}

#[test]
fn the_environment_stays_as_it_is_but_for_our_variables_in_their_places() {
    let Some(program) = compile("odd_environment.c", &[]) else { return };
    let block = |verb: &[&str]| -> Vec<String> {
        let shown = ["/bin/cat", "/proc/self/environ"];
        let output = Command::new(&program).args(verb).args(shown).output().unwrap();
        assert!(output.status.success(), "{verb:?}: {}", text(&output.stderr));
        text(&output.stdout).split_terminator('\0').map(String::from).collect()
    };
    let plain = block(&[]);
    assert!(plain.len() == 14 && plain[1] == "no equals sign" && plain[9].is_empty(), "{plain:?}");
    let (preload, policy) = ([4, 10], 8);
    let folder = tempfile::tempdir().unwrap();
    let trace = folder.path().join("trace");
    let (own, trace) = (env!("CARGO_BIN_EXE_faultless"), trace.to_str().unwrap());
    for verb in [
        &[own, "run", "--"][..],
        &[own, "stat", "--"],
        &[own, "record", "-o", trace, "--"],
        &[own, "record", "--alloc", "-o", trace, "--"],
        &[own, "run", "--", own, "stat", "--"],
    ] {
        let mut found = block(verb);
        let ours: Vec<String> = found.split_off(plain.len());
        let is_ours =
            |entry: &String| entry.starts_with("FAULTLESS_") || entry.starts_with("PYTHONPERFSUPPORT=");
        assert!(ours.iter().all(is_ours), "{verb:?}: {ours:?}");
        assert!(preload.iter().all(|&at| found[at].starts_with("LD_PRELOAD=")), "{verb:?}: {found:?}");
        if verb.contains(&"run") {
            assert!(preload.iter().all(|&at| found[at].contains("/preload-")), "{verb:?}: {found:?}");
            assert_eq!(found[policy], "FAULTLESS_POLICY=thp", "{verb:?}");
        }
        for at in preload.into_iter().chain([policy]) {
            found[at].clone_from(&plain[at]);
        }
        assert_eq!(found, plain, "{verb:?}");
    }
}
