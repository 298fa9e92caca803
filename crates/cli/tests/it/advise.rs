//! `advise` as a user runs it. Guards against comparisons of incomparable runs, and against verdicts from
//! noise.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use faultless_wants as wants;
use serde_json::Value;

use crate::interposed::compile;
use crate::{machine, text};

/// Without a recording, so that the number of runs is known.
fn advise(options: &[&str], command: &[&str], input: &str) -> Output {
    let mut child = Command::new(env!("CARGO_BIN_EXE_faultless"))
        .args(["advise", "--every-cure"])
        .args(options)
        .arg("--")
        .args(command)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    child.wait_with_output().unwrap()
}

/// The status, and the document of `advise --json` with these words, in this environment.
#[track_caller]
fn advised(words: &[&str], environment: &[(&str, &str)]) -> (Option<i32>, Value) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_faultless"));
    command.args(["advise", "--json"]).args(words).envs(environment.iter().copied());
    let output = command.stdin(Stdio::null()).output().unwrap();
    let document = serde_json::from_slice(&output.stdout);
    (output.status.code(), document.unwrap_or_else(|_| panic!("{}", text(&output.stderr))))
}

/// The program of one mechanism at a time, built with these options.
fn mechanisms(options: &[&str]) -> Option<String> {
    let plain = ["-pthread", "-g", "-O1", "-fno-builtin"];
    let program = compile("mechanisms.c", &[&plain, options].concat())?;
    machine::recorder().then(|| program.to_str().unwrap().to_owned())
}

fn arms(advice: &Value) -> Vec<&Value> {
    advice["scores"].as_array().unwrap().iter().collect()
}

fn has_arm(advice: &Value, name: &str) -> bool {
    arms(advice).iter().any(|score| score["arm"]["name"].as_str().unwrap().starts_with(name))
}

fn said(advice: &Value, part: &str) -> bool {
    advice["notes"].as_array().unwrap().iter().any(|note| note.as_str().unwrap().contains(part))
}

#[test]
fn only_cures_of_a_mechanism_that_the_first_run_shows_are_tried_and_keep_what_the_user_has_set() {
    let Some(program) = mechanisms(&[]) else { return };
    let own = ("GLIBC_TUNABLES", "glibc.malloc.arena_max=3");
    let (status, advice) = advised(&["--runs", "5", "--", &program, "heap_top", "200"], &[own]);
    assert_eq!((status, &advice["mechanisms"][0]["id"]), (Some(0), &"heap_top_trimmed".into()), "{advice}");
    let score = &advice["scores"][1];
    let line = score["arm"]["adopt"].as_str().unwrap();
    let set = "GLIBC_TUNABLES=glibc.malloc.arena_max=3:glibc.malloc.mmap_threshold=33554432:";
    assert!(line.starts_with(set) && line.contains("trim_threshold=4294967296"), "{line}");
    let end = |name: &str, end: usize| score[name][end].as_f64().unwrap();
    assert!(0.0 < end("estimate_ns", 0) && end("estimate_ns", 0) <= end("estimate_ns", 1), "{score}");
    assert!(0.0 < end("measured_ns", 0) && end("measured_ns", 0) <= end("measured_ns", 1), "{score}");
    let (status, advice) =
        advised(&["--runs", "5", "--max-rss-increase", "400", "--", &program, "unmaps", "400"], &[]);
    assert_eq!((status, &advice["mechanisms"][0]["id"]), (Some(0), &"own_mapping".into()), "{advice}");
    let acts = |score: &&Value| score["arm"]["name"].as_str().unwrap().starts_with("run --mappings");
    assert!(has_arm(&advice, "run --mappings=recycle"), "{advice}");
    assert!(arms(&advice)[1..].iter().all(acts), "no other acts: {advice}");
}

#[test]
fn arms_that_cannot_win_are_dropped_and_the_others_get_their_time() {
    let Some(program) = mechanisms(&[]) else { return };
    let (status, advice) = advised(&["--time", "2s", "--", &program, "heap_top", "200"], &[]);
    let rounds = advice["rounds"].as_u64().unwrap();
    let winner = advice["winner"].as_u64().unwrap_or_else(|| panic!("{advice}")) as usize;
    assert!(status == Some(0) && rounds >= 3 && arms(&advice)[winner]["dropped_after"].is_null(), "{advice}");
    for score in arms(&advice) {
        let runs = score["runs"].as_array().unwrap().len() as u64;
        match score["dropped_after"].as_u64() {
            None => assert_eq!(runs, rounds, "{score}"),
            Some(after) => assert!(
                runs == after.max(1) && score["label"].as_str().unwrap().contains("dropped after"),
                "{score}"
            ),
        }
    }
}

#[test]
fn a_cure_that_breaks_the_program_or_leaves_its_faults_gets_no_round() {
    let line =
        "case $LD_PRELOAD in *preload-*) exit 3;; esac; i=0; while [ $i -lt 999 ]; do i=$((i+1)); done";
    let (status, advice) = advised(&["--time", "1s", "--every-cure", "--", "sh", "-c", line], &[]);
    assert_eq!((status, &advice["rounds"]), (Some(1), &3.into()), "{advice}");
    for score in &arms(&advice)[1..] {
        let pooled = score["arm"]["name"].as_str().unwrap().starts_with("pool");
        assert_eq!(score["reason"], if pooled { "differs" } else { "same_faults" }, "{score}");
        assert_eq!(
            (&score["dropped_after"], &score["wall_ns"]["ratio"]),
            (&0.into(), &Value::Null),
            "{score}"
        );
    }
}

#[test]
fn under_another_allocator_and_in_a_static_program_only_what_acts_is_tried() {
    if let Some(program) = mechanisms(&["-Wl,--no-as-needed", "-ljemalloc"]) {
        let at_once = ("MALLOC_CONF", "dirty_decay_ms:0,muzzy_decay_ms:0");
        let (_, advice) = advised(&["--runs", "3", "--", &program, "heap_top", "200"], &[at_once]);
        let ours = |score: &&Value| {
            score["arm"]["adopt"].as_str().unwrap().starts_with("MALLOC_CONF=dirty_decay_ms:0,")
        };
        assert_eq!(advice["mechanisms"][0]["id"], "allocator_purge", "{advice}");
        assert!(arms(&advice).len() > 1 && arms(&advice)[1..].iter().all(ours), "{advice}");
    }
    if let Some(program) = mechanisms(&["-static"]) {
        let (_, advice) = advised(&["--runs", "3", "--", &program, "heap_top", "200"], &[]);
        assert!(
            !has_arm(&advice, "pool") && !has_arm(&advice, "jemalloc") && said(&advice, "statically linked"),
            "{advice}"
        );
    }
}

#[test]
fn a_program_that_fails_at_once_costs_one_run_and_its_status_is_said() {
    if !machine::recorder() {
        return;
    }
    let (status, advice) = advised(&["--", "false"], &[]);
    assert_eq!((status, arms(&advice).len()), (Some(1), 0), "{advice}");
    assert!(said(&advice, "ends with status 1") && said(&advice, "give it more work"), "{advice}");
}

#[test]
fn a_recording_or_a_running_process_has_mechanisms_and_cures_without_a_run() {
    let Some(program) = mechanisms(&[]) else { return };
    let folder = tempfile::tempdir().unwrap();
    let trace = folder.path().join("a.trace");
    let trace = trace.to_str().unwrap();
    let own = env!("CARGO_BIN_EXE_faultless");
    let recorded =
        Command::new(own).args(["record", "-o", trace, "--", &program, "heap_top", "200"]).output();
    assert!(recorded.as_ref().unwrap().status.success(), "{}", text(&recorded.unwrap().stderr));
    let (status, advice) = advised(&[trace], &[]);
    let first = &advice["mechanisms"][0];
    assert_eq!(
        (status, arms(&advice).len(), &first["id"]),
        (Some(0), 0, &"heap_top_trimmed".into()),
        "{advice}"
    );
    let shown = Command::new(own).args(["advise", trace]).output().unwrap();
    let shown = text(&shown.stdout).replace('\n', " ");
    assert!(shown.starts_with("GLIBC_TUNABLES=") && shown.contains(" should save "), "{shown}");
    let reported = Command::new(own).args(["report", "--json", trace]).output().unwrap();
    let reported: Value = serde_json::from_slice(&reported.stdout).unwrap();
    assert_eq!(&reported["mechanisms"], &advice["mechanisms"], "the same as report's");
    for (words, says) in [(&["none.trace"][..], "none.trace"), (&["a", "b"], "write -- before a command")] {
        let out = Command::new(own).arg("advise").args(words).current_dir(&folder).output().unwrap();
        assert!(out.status.code() == Some(2) && text(&out.stderr).contains(says), "{}", text(&out.stderr));
    }
    if !machine::root("who gives memory back in a running process is told by tracepoints, which are for root")
    {
        return;
    }
    let mut child = Command::new(&program).args(["heap_top", "100000000"]).spawn().unwrap();
    let (status, advice) = advised(&["-p", &child.id().to_string(), "--for", "1s"], &[]);
    child.kill().unwrap();
    child.wait().unwrap();
    let first = &advice["mechanisms"][0];
    assert_eq!(
        (status, arms(&advice).len(), &first["id"]),
        (Some(0), 0, &"heap_top_trimmed".into()),
        "{advice}"
    );
}

#[test]
fn a_program_that_faults_in_large_blocks_gets_a_cure_and_its_faults_go() {
    let own = env!("CARGO_BIN_EXE_faultless");
    let output = advise(
        &["--runs", "5", "--json", "--max-rss-increase", "400"],
        &[own, "workload", "--quiet", "chunk-pipeline", "--chunks", "400"],
        "",
    );
    let advice: serde_json::Value =
        serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{}", text(&output.stderr)));
    assert_eq!(advice["rounds"], 5);
    let scores = advice["scores"].as_array().unwrap();
    let faults = |name: &str| {
        let score = scores.iter().find(|score| score["arm"]["name"] == name);
        score.map(|score| score["faults"]["median"]["value"].as_f64().unwrap())
    };
    let (plain, pool) = (faults("as it is").unwrap(), faults("pool, base pages").unwrap());
    assert!(pool < plain / 1.5, "{pool} of {plain} faults are left");
    assert!(scores.iter().all(|score| score["reason"] != "differs"));
    let mut timed = 0;
    for score in scores.iter().filter(|score| !score["fault_time"].is_null()) {
        let time = &score["fault_time"];
        timed += 1;
        let end = |name: &str| time["seconds"][name].as_f64().unwrap();
        assert_eq!(time["runs"], 3, "{score}");
        assert!(end("low") <= end("value") && end("value") <= end("high"), "{score}");
    }
    if timed == 0 {
        wants::missing_feature("perf events", "no fault of any arm was timed");
    }
    let winner = advice["winner"].as_u64();
    assert_eq!(output.status.code(), Some(i32::from(winner.is_none())));
}

#[test]
fn every_run_reads_the_same_input_and_output_of_any_length_is_compared() {
    // More than a pipe holds.
    let program = ["sh", "-c", "wc -l; head -c 3000000 /dev/zero"];
    let output = advise(&["--runs", "3", "--json"], &program, "one\ntwo\n");
    let advice: serde_json::Value =
        serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{}", text(&output.stderr)));
    let scores = advice["scores"].as_array().unwrap();
    assert!(scores.len() > 1 && scores.iter().all(|score| score["reason"] != "differs"), "{advice}");
    assert!(scores.iter().all(|score| score["runs"][0]["stdout_bytes"] == 3_000_002), "{advice}");
}

#[test]
fn a_program_without_large_blocks_is_told_that_nothing_helps() {
    let program = ["sh", "-c", "i=0; while [ $i -lt 3000 ]; do i=$((i+1)); done"];
    // Of intervals at 95 % one in twenty misses: a verdict that comes again is none of chance.
    for _ in 0..3 {
        let output = advise(&["--runs", "5"], &program, "");
        let shown = text(&output.stdout);
        assert_eq!(output.status.code(), Some(i32::from(shown.starts_with("Nothing "))), "{shown}");
        if shown.starts_with("Nothing ") {
            return;
        }
    }
    panic!("something helps, three times");
}

#[test]
fn outputs_are_compared_as_far_as_those_of_the_program_as_it_is_agree() {
    let said = |options: &[&str], line: &str| {
        let output = advise(&[&["--runs", "3"], options].concat(), &["sh", "-c", line], "");
        assert_eq!(output.status.code(), Some(1), "{}", text(&output.stderr));
        text(&output.stdout).split_whitespace().collect::<Vec<_>>().join(" ")
    };
    let of_time = "echo took $(date +%N) ns";
    assert!(said(&[], of_time).contains("numbers in the program's output differ from run to run"));
    assert!(said(&[], "head -c 8 /dev/urandom").contains("it was not compared"));
    assert!(!said(&["--any-output"], of_time).contains("output"));
    let pooled = "echo took $(date +%N) ns ${FAULTLESS_POLICY:+more}";
    assert!(said(&[], pooled).contains("printed something else"));
}

#[test]
fn a_cure_under_which_the_program_dies_or_prints_something_else_has_no_ratio_and_does_not_win() {
    let line = "case $LD_PRELOAD in *preload-*) kill -SEGV $$;; esac
                case $GLIBC_TUNABLES in *mmap_max*) echo other;; *) i=0; while [ $i -lt 9999 ]; do i=$((i+1)); done;; esac";
    let program = ["sh", "-c", line];
    let output = advise(&["--runs", "3", "--json"], &program, "");
    let advice: serde_json::Value =
        serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{}", text(&output.stderr)));
    for score in &advice["scores"].as_array().unwrap()[1..] {
        let exit = match score["arm"]["name"].as_str().unwrap() {
            "glibc thresholds" => serde_json::Value::Null,
            name if name.starts_with("pool") => serde_json::json!({ "signal": 11 }),
            _ => continue,
        };
        assert!(score["reason"] == "differs" && score["mismatch"]["runs"] == 3, "{score}");
        assert!(score["mismatch"]["exit"] == exit && score["wall_ns"]["ratio"].is_null(), "{score}");
    }
    let shown = text(&advise(&["--runs", "3"], &program, "").stdout);
    assert!(shown.contains("failed: signal 11") && shown.contains("other output"), "{shown}");
    assert!(shown.contains("not compared: 3 of 3 runs ended with signal 11"), "{shown}");
    assert!(!shown.starts_with("pool") && !shown.starts_with("glibc thresholds"), "{shown}");
}

#[test]
fn memory_that_a_cure_keeps_is_in_the_figures_of_the_end() {
    let Some(program) = compile("rests.c", &[]) else { return };
    let output = advise(&["--runs", "3", "--json"], &[program.to_str().unwrap()], "");
    let advice: serde_json::Value =
        serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{}", text(&output.stderr)));
    let end_mib = |name: &str| {
        let mut scores = advice["scores"].as_array().unwrap().iter();
        let score = scores.find(|score| score["arm"]["name"] == name).unwrap();
        score["end_bytes"].as_f64().unwrap() / f64::from(1 << 20)
    };
    let (plain, pool) = (end_mib("as it is"), end_mib("pool, base pages"));
    assert!(plain < 4.0 && pool > plain + 16.0, "{plain} and {pool} MiB");
}

#[test]
fn wrong_input_is_one_clear_line_and_status_2() {
    for (options, command, says) in [
        (vec!["--max-rss-increase", "-5"], vec!["true"], "max-rss-increase"),
        (vec!["--svg", "/no/such/folder/a.svg"], vec!["true"], "/no/such/folder/a.svg"),
        (vec!["--runs", "1"], vec!["true"], "--runs"),
        (vec!["--runs", "0"], vec!["true"], "--runs"),
    ] {
        let output = advise(&options, &command, "");
        let stderr = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{options:?} {command:?}: {stderr}");
        assert!(stderr.contains(says), "{stderr}");
    }
}

#[test]
fn a_short_program_and_few_rounds_come_with_a_warning_one_line_on_stderr_and_a_whole_picture() {
    let folder = tempfile::tempdir().unwrap();
    let svg = folder.path().join("advise.svg");
    let output = advise(&["--runs", "3", "--svg", svg.to_str().unwrap()], &["true"], "");
    let (shown, stderr) = (text(&output.stdout), text(&output.stderr));
    assert!(shown.contains("note: 3 rounds are few") && shown.contains("note: a run takes"), "{shown}");
    assert_eq!(output.status.code(), Some(1), "{shown}");
    assert!(stderr.starts_with("faultless: true as it is and under "), "{stderr}");
    let (_, rest) =
        stderr.split_once(" cures: 3 rounds, at most about ").unwrap_or_else(|| panic!("{stderr}"));
    let (seconds, rest) = rest.split_once(' ').unwrap();
    assert!((0.1..=60.0).contains(&seconds.parse().unwrap()), "{stderr}");
    assert_eq!(rest, "s more; --runs sets their number\n", "nothing else is said");
    let svg = std::fs::read_to_string(svg).unwrap();
    assert!(svg.starts_with("<svg") && svg.trim_end().ends_with("</svg>"), "{svg}");
}

#[test]
fn a_program_that_fails_each_time_in_the_same_way_is_compared_and_the_user_told() {
    let output = advise(&["--runs", "3"], &["sh", "-c", "echo the reason >&2; exit 3"], "");
    let stderr = text(&output.stderr);
    assert!(stderr.contains("ends with status 3") && stderr.contains("the reason"), "{stderr}");
}

#[test]
fn a_process_left_behind_with_the_output_ends_in_one_line_not_in_waiting() {
    let begin = Instant::now();
    let left = log("left");
    let output =
        advise(&["--runs", "3"], &["sh", "-c", "sleep 1000 & echo $! >>$0", left.to_str().unwrap()], "");
    for pid in std::fs::read_to_string(&left).unwrap().lines() {
        let _ = Command::new("kill").arg(pid).stderr(Stdio::null()).status();
    }
    std::fs::remove_file(&left).unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("left a process running"), "{}", text(&output.stderr));
    assert!(begin.elapsed() < Duration::from_secs(500));
}

/// The file to which a program writes one line for each of its runs.
fn log(name: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("advise-{name}-{}", std::process::id()));
    let _ = std::fs::remove_file(&path);
    path
}

fn runs(log: &Path) -> usize {
    std::fs::read_to_string(log).unwrap_or_default().lines().count()
}

/// Compares a program that hangs in its `stuck`th run, and sends SIGINT in that run. `None` if SIGINT is
/// ignored here.
#[track_caller]
fn interrupted_in_run(stuck: usize, options: &[&str]) -> Option<Output> {
    if !machine::sigint() {
        return None;
    }
    let log = log(&format!("{stuck}-{}", options.len()));
    let program = format!("echo run >>$0; [ $(wc -l <$0) -lt {stuck} ] || exec sleep 1000");
    let child = Command::new(env!("CARGO_BIN_EXE_faultless"))
        .args(["advise", "--every-cure", "--runs", "9"])
        .args(options)
        .args(["--", "sh", "-c", &program, log.to_str().unwrap()])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let begin = Instant::now();
    while runs(&log) < stuck && begin.elapsed() < Duration::from_secs(500) {
        std::thread::sleep(Duration::from_millis(5));
    }
    assert!(Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap().success());
    let output = child.wait_with_output().unwrap();
    assert_eq!(runs(&log), stuck, "no run after the signal: {}", text(&output.stderr));
    let _ = std::fs::remove_file(&log);
    assert_eq!(output.status.code(), Some(130), "{}", text(&output.stderr));
    Some(output)
}

#[test]
fn interrupted_in_the_first_run_says_in_one_line_that_nothing_was_measured() {
    for options in [&[][..], &["--json"]] {
        let Some(output) = interrupted_in_run(1, options) else { return };
        let stderr = text(&output.stderr);
        assert!(output.stdout.is_empty() && stderr.lines().count() == 1, "{stderr}");
        assert!(
            stderr.ends_with("interrupted before the first run ended: nothing was measured\n"),
            "{stderr}"
        );
    }
}

#[test]
fn interrupted_in_the_warm_up_shows_the_runs_that_ended() {
    for stuck in [2, 3] {
        let Some(output) = interrupted_in_run(stuck, &[]) else { return };
        let shown = text(&output.stdout);
        assert!(shown.starts_with("No verdict, for no round was finished") && shown.contains("  as it is  "));
        assert!(shown.contains("note: interrupted in the warm-up: one run of 1 of "), "{shown}");
    }
}

#[test]
fn interrupted_after_the_warm_up_or_a_round_shows_what_there_is() {
    let plain = advise(&["--runs", "3", "--json"], &["true"], "");
    let advice: serde_json::Value = serde_json::from_slice(&plain.stdout).unwrap();
    let arms = advice["scores"].as_array().unwrap().len();
    // One unrecorded run, then a warm-up of every arm. Recorded runs follow the first round.
    let Some(output) = interrupted_in_run(1 + arms + 2, &["--json"]) else { return };
    let advice: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&advice["rounds"], advice["scores"].as_array().unwrap().len()), (&0.into(), arms));
    assert_eq!(advice["notes"][0], "interrupted after 0 of 9 rounds");
    assert!(
        advice["scores"][1]["reason"] == "not_judged" && advice["scores"][1]["wall_ns"]["ratio"].is_null()
    );
    for (stuck, rounds) in [(1 + 3 * arms + 2, 1), (1 + 4 * arms + 2, 2)] {
        let output = interrupted_in_run(stuck, &[]).unwrap();
        let shown = text(&output.stdout);
        assert!(shown.contains(&format!("note: interrupted after {rounds} of 9 rounds")), "{shown}");
        assert!(shown.contains("(one round has no interval)") == (rounds == 1), "{shown}");
    }
}

#[test]
fn only_cures_that_reach_the_programs_malloc_are_tried() {
    let arms = |program: &Path| {
        let output = advise(&["--runs", "3", "--json"], &[program.to_str().unwrap()], "");
        let said = text(&output.stderr);
        let advice: Option<serde_json::Value> = serde_json::from_slice(&output.stdout).ok();
        let names = advice.map(|advice| {
            let scores = advice["scores"].as_array().unwrap().clone();
            scores.iter().map(|score| score["arm"]["name"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
        });
        (names.unwrap_or_default(), said)
    };
    if let Some(own) = compile("own_malloc.c", &["-DARENA", "-ldl"]) {
        let (none, said) = arms(&own);
        assert!(none.is_empty() && said.contains("defines malloc itself; no cure"), "{said}");
    }
    // It takes malloc's address, and defines nothing.
    if let Some(plain) = compile("own_malloc.c", &["-DADDRESS", "-no-pie", "-fno-pie"]) {
        assert!(arms(&plain).0.contains(&"pool, base pages".to_owned()));
    }
    if let Some(other) = compile("own_malloc.c", &["-DADDRESS", "-Wl,--no-as-needed", "-ljemalloc"]) {
        let (none, said) = arms(&other);
        assert!(none.is_empty() && said.contains("is linked with libjemalloc"), "{said}");
    }
}
