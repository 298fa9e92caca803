//! `stat` and `record` on running processes, and `stat -r`, as a user types them.

use std::io::Read;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use faultless_wants as wants;

use crate::{FAULTLESS, machine, text};

/// A process that faults from now on, until it is dropped.
struct Faulting(Child);

impl Faulting {
    fn begin() -> Self {
        let mut child = Command::new("sh")
            .args(["-c", "echo ready; while :; do (:); done"])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        child.stdout.take().unwrap().read_exact(&mut [0; 6]).unwrap();
        Self(child)
    }

    fn pid(&self) -> String {
        self.0.id().to_string()
    }
}

impl Drop for Faulting {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn faultless(words: &[&str]) -> Output {
    Command::new(FAULTLESS).args(words).output().unwrap()
}

/// The JSON document, unless this machine has no perf events.
fn answer(out: &Output) -> Option<serde_json::Value> {
    let said = text(&out.stderr);
    if said.contains("perf_event_open") && !out.status.success() {
        wants::missing_feature("perf events", said);
        return None;
    }
    let begin = said.find('{').unwrap_or_else(|| panic!("{said}"));
    Some(serde_json::from_str(&said[begin..]).unwrap())
}

fn faults(stat: &serde_json::Value) -> u64 {
    stat["rows"].as_array().unwrap().iter().map(|row| row["faults"].as_u64().unwrap()).sum()
}

#[test]
fn running_processes_are_measured_for_a_time_or_beside_a_command() {
    let processes = [Faulting::begin(), Faulting::begin()];
    let [one, two] = processes.each_ref().map(Faulting::pid);
    // Ids are words, or have blanks or commas between them.
    let (blank, comma) = (format!("{one} {two}"), format!("{one}, {two}\n"));
    for words in [
        &["-p", &one, &two, "sleep", "0.3"][..],
        &["-p", &comma, "--for", "300ms"],
        &["--for", "300ms", "-p", &blank],
        &["-p", &comma, "--", "sleep", "0.3"],
    ] {
        let out = faultless(&[&["stat", "--json"], words].concat());
        let Some(stat) = answer(&out) else { return };
        assert_eq!(out.status.code(), Some(0));
        assert!(faults(&stat) > 100, "{stat}");
        let names = stat["command"].to_string();
        assert!(names.contains(&format!("sh[{one}]")) && names.contains(&two), "{names}");
        let wall_ns = stat["usage"]["wall_ns"].as_u64().unwrap();
        assert!(wall_ns >= 300_000_000, "{wall_ns}");
    }
    let late = faultless(&["stat", "-p", &one, &two, "--for", "1s"]);
    let said = text(&late.stderr);
    assert_eq!(late.status.code(), Some(2));
    assert!(said.contains("--for: write options before the process ids"), "{said}");
}

/// A server's workers come and go between `pidof` and here.
#[test]
fn one_of_several_processes_may_have_ended() {
    let one = Faulting::begin();
    let pids = format!("{},4194305", one.pid());
    let out = faultless(&["stat", "--json", "-p", &pids, "--for", "100ms"]);
    let Some(stat) = answer(&out) else { return };
    assert!(faults(&stat) > 10, "{stat}");
    let gone = |source: &&serde_json::Value| source["source"] == "process 4194305" && source["used"] == false;
    assert!(stat["sources"].as_array().unwrap().iter().any(|source| gone(&source)), "{stat}");
    let none = faultless(&["stat", "-p", "4194305,4194306"]);
    assert_eq!(none.status.code(), Some(2));
    assert!(text(&none.stderr).contains("4194305: no such process"));
}

/// As process 1 of some virtual machines is. A mount stands for the missing right: in a place of its own another file
/// lies over the mappings, and no read of that succeeds.
#[test]
fn a_process_whose_first_thread_has_ended_is_watched() {
    if !wants::program("cc", "gcc") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let (source, program) = (folder.path().join("program.c"), folder.path().join("program"));
    std::fs::write(&source, FIRST_ENDS).unwrap();
    assert!(
        Command::new("cc").args(["-pthread", "-o"]).args([&program, &source]).status().unwrap().success()
    );
    let mut child = Command::new(&program).stdout(Stdio::piped()).spawn().unwrap();
    child.stdout.take().unwrap().read_exact(&mut [0; 6]).unwrap();
    let process = Faulting(child);
    let has_ended = || faultless_os::procfs::stat(process.0.id()).unwrap().has_ended();
    let begin = Instant::now();
    while !has_ended() {
        assert!(begin.elapsed() < Duration::from_secs(60), "its first thread does not end");
        std::thread::sleep(Duration::from_millis(1));
    }
    let Some(stat) = answer(&faultless(&["stat", "--json", "-p", &process.pid(), "--for", "500ms"])) else {
        return;
    };
    assert!(faults(&stat) > 100, "{stat}");
    assert!(stat["command"].to_string().contains("program"), "{stat}");
    let shown = text(&faultless(&["top", "--once", "-p", &process.pid()]).stdout);
    assert!(shown.lines().any(|line| line.trim_start().starts_with(&process.pid())), "{shown}");
}

/// Its second thread faults from the begin on.
const FIRST_ENDS: &str = r#"
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
static void *fault(void *unused) {
    for (;;) {
        void *block = mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        memset(block, 1, 1 << 20);
        munmap(block, 1 << 20);
    }
    return unused;
}
int main(void) {
    pthread_t thread;
    pthread_create(&thread, NULL, fault, NULL);
    puts("ready");
    fflush(stdout);
    pthread_exit(NULL);
}
"#;

#[test]
fn a_process_whose_mappings_cannot_be_read_is_watched_and_one_line_says_what_is_missing() {
    if !machine::root("only root can hide the mappings of a process") {
        return;
    }
    let (one, folder) = (Faulting::begin(), tempfile::tempdir().unwrap());
    let pid = one.pid();
    let script = format!("mount --bind /proc/{pid}/mem /proc/{pid}/maps && exec \"$@\"");
    let watch = |verb: &[&str]| {
        let words = [&["-m", "sh", "-c", &script, "sh", FAULTLESS], verb, &["-p", &pid, "--for", "300ms"]];
        Command::new("unshare").args(words.concat()).current_dir(folder.path()).output().unwrap()
    };
    let out = watch(&["stat", "--json"]);
    let Some(stat) = answer(&out) else { return };
    assert!(faults(&stat) > 100, "{stat}");
    let missing = format!("no right to read /proc/{pid}/maps: ");
    let told = stat["notes"].as_array().unwrap().iter().filter(|note| note.to_string().contains(&missing));
    assert_eq!(told.count(), 1, "{stat}");
    let said = text(&watch(&["stat"]).stderr);
    assert!(said.contains(&missing), "{said}");
    let said = text(&watch(&["record"]).stderr);
    assert_eq!(said.lines().filter(|line| line.contains(&missing)).count(), 1, "{said}");
    let report = faultless(&["report", folder.path().join("faultless.trace").to_str().unwrap()]);
    assert_eq!(report.status.code(), Some(0), "{}", text(&report.stderr));
}

#[test]
fn lines_come_while_a_program_runs() {
    let out =
        faultless(&["stat", "-I", "100ms", "--", "sh", "-c", "for i in 1 2 3 4 5; do (:); sleep 0.1; done"]);
    let said = text(&out.stderr);
    assert_eq!(out.status.code(), Some(0), "{said}");
    assert!(said.starts_with("       time       faults     faults/s"), "{said}");
    let ticks = said.lines().skip(1).take_while(|line| line.contains(" s ")).count();
    assert!(ticks >= 2, "{said}");
    assert!(said.contains("faultless stat: "), "the whole answer comes at the end: {said}");
    let out = faultless(&["stat", "-I", "100", "--json", "--", "sleep", "0.35"]);
    let lines: Vec<serde_json::Value> =
        text(&out.stderr).lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let (last, ticks) = lines.split_last().unwrap();
    assert!(ticks.len() >= 2 && ticks.iter().all(|line| line["tick"]["time_ns"].as_u64().is_some()));
    assert!(last["stat"]["usage"]["wall_ns"].as_u64().is_some(), "{last}");
    let out = faultless(&["stat", "-I", "1", "--", "true"]);
    assert!(text(&out.stderr).contains("the least is 10ms"), "{}", text(&out.stderr));
}

#[test]
fn the_whole_machine_is_measured_or_one_line_says_why_not() {
    let _busy = Faulting::begin();
    let out = faultless(&["stat", "-a", "--json", "--", "sleep", "0.3"]);
    let said = text(&out.stderr);
    if !out.status.success() {
        assert!(said.contains("the whole machine can't be watched: ") && said.lines().count() == 1, "{said}");
        return wants::missing_feature("perf events of the whole machine", said);
    }
    let stat: serde_json::Value = serde_json::from_str(&said).unwrap();
    assert!(faults(&stat) > 100, "{stat}");
    assert_eq!(stat["command"], serde_json::json!(["all", "processes"]));
    let none = faultless(&["stat", "-a", "-p", "1"]);
    assert_eq!(none.status.code(), Some(2));
}

#[test]
fn all_processes_have_one_flag_and_record_says_that_it_takes_none() {
    for flag in ["-a", "--all-cpus"] {
        let out = faultless(&["record", flag, "--", "true"]);
        assert_eq!(out.status.code(), Some(2));
        let said = text(&out.stderr);
        assert!(
            said.starts_with("faultless: record takes no whole machine: ") && said.lines().count() == 1,
            "{said}"
        );
        assert!(faultless(&["stat", flag, "-p", "1"]).status.code() == Some(2));
    }
    let said = text(&faultless(&["stat", "--all", "--", "true"]).stderr);
    assert!(said.contains("--all-cpus"), "{said}");
}

/// A record of it goes to standard output, and the program's own output beside it.
#[test]
fn a_recording_goes_to_standard_output_and_is_read_from_standard_input() {
    let out = faultless(&["record", "-o", "-", "--", "sh", "-c", "echo data; (:)"]);
    let said = text(&out.stderr);
    if said.contains("perf_event_open") && !out.status.success() {
        return wants::missing_feature("perf events", said);
    }
    assert!(out.status.success() && said.starts_with("data\n"), "{said}");
    let mut report = Command::new(FAULTLESS)
        .args(["report", "--json", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    std::io::Write::write_all(&mut report.stdin.take().unwrap(), &out.stdout).unwrap();
    let found = report.wait_with_output().unwrap();
    let found: serde_json::Value = serde_json::from_slice(&found.stdout).unwrap();
    assert_eq!(found["command"][0], "sh");
}

#[test]
fn what_names_no_process_is_said_in_one_line() {
    let said = |words: &[&str]| {
        let out = faultless(words);
        assert_eq!(out.status.code(), Some(2), "{words:?}");
        text(&out.stderr)
    };
    assert!(said(&["stat", "-p", "x"]).contains("not a process id"));
    assert!(said(&["stat", "-p", "4294967295"]).contains("no such process"));
    assert!(said(&["stat", "--cgroup", "nosuch"]).contains("no such control group"));
    assert!(said(&["stat", "--for", "1s", "--cgroup", "nosuch"]).contains("no such control group"));
    assert!(said(&["record", "-p", "1,x"]).contains("not a process id"));
    assert!(said(&["top", "-p", "x"]).contains("not a process id"));
}

/// Starts the words as a script's background job, with SIGINT ignored, and sends SIGINT until it ends, once
/// `ready` exists.
fn interrupted(words: &[&str], folder: &Path, ready: &str) -> Output {
    let mut job = Command::new("sh")
        .args(["-c", "trap '' INT; exec \"$@\"", "sh", FAULTLESS])
        .args(words)
        .current_dir(folder)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let (begin, id) = (Instant::now(), job.id().to_string());
    while job.try_wait().unwrap().is_none() {
        if begin.elapsed() > Duration::from_secs(60) {
            job.kill().unwrap();
            panic!("{words:?} never ended");
        }
        std::thread::sleep(Duration::from_millis(300));
        if folder.join(ready).exists() {
            let _ = Command::new("kill").args(["-INT", &id]).stderr(Stdio::null()).status();
        }
    }
    job.wait_with_output().unwrap()
}

#[test]
fn every_verb_in_the_background_of_a_script_ends_on_interrupt() {
    // The program says which signals it ignores, and would hang.
    let program = ["sh", "-c", "grep SigIgn /proc/self/status >>ignored; exec sleep 200"];
    let verbs: [(&[&str], &[i32]); 7] = [
        (&["stat", "--"], &[143]),
        (&["stat", "-r", "3", "--"], &[143]),
        (&["record", "--"], &[143]),
        (&["advise", "--"], &[130]),
        (&["compare", "true", "sleep 200"], &[130]),
        // The program may have ended first.
        (&["top", "--json", "--"], &[0, 143]),
        (&["top", "--json"], &[0]),
    ];
    for (verb, statuses) in verbs {
        let folder = tempfile::tempdir().unwrap();
        let runs = verb.last() == Some(&"--");
        let words = if runs { [verb, &program].concat() } else { verb.to_vec() };
        let out = interrupted(&words, folder.path(), if runs { "ignored" } else { "." });
        if text(&out.stderr).contains("perf_event_open") {
            wants::missing_feature("perf events", text(&out.stderr));
            continue;
        }
        let status = out.status.code().unwrap();
        assert!(statuses.contains(&status), "{verb:?}: {status}: {}", text(&out.stderr));
        if runs {
            let ignored = std::fs::read_to_string(folder.path().join("ignored")).unwrap();
            let bits = u64::from_str_radix(ignored.split_whitespace().last().unwrap(), 16).unwrap();
            assert_eq!(bits & 0b10, 0b10, "{verb:?}: the program ignores SIGINT as without us: {ignored}");
        }
    }
}

#[test]
fn a_recorder_in_the_background_of_a_script_ends_on_interrupt() {
    let program = Faulting::begin();
    let folder = tempfile::tempdir().unwrap();
    let out = interrupted(&["record", "-p", &program.pid()], folder.path(), ".");
    let said = text(&out.stderr);
    if said.contains("perf_event_open") && !out.status.success() {
        return wants::missing_feature("perf events", said);
    }
    assert_eq!(out.status.code(), Some(0), "{said}");
    assert!(folder.path().join("faultless.trace").exists());
}

#[test]
fn several_runs_have_a_median_and_ends() {
    let out = faultless(&["stat", "-r", "3", "--json", "--", "sh", "-c", "exit 4"]);
    assert_eq!(out.status.code(), Some(4));
    let found: serde_json::Value = serde_json::from_slice(&out.stderr).unwrap();
    assert_eq!(found["runs"].as_array().unwrap().len(), 3);
    let [min, median, max] = ["min", "median", "max"].map(|end| found["faults"][end].as_f64().unwrap());
    assert!(0.0 < min && min <= median && median <= max, "{}", found["faults"]);
    let out = faultless(&["stat", "-r", "2", "--", "true"]);
    let said = text(&out.stderr);
    assert!(said.contains("the median of 2 runs") && said.contains("smallest"), "{said}");
}

#[test]
fn a_run_that_was_killed_is_in_no_figure_of_several_runs() {
    let folder = tempfile::tempdir().unwrap();
    let runs = |program: &str| {
        let mut stat = Command::new(FAULTLESS);
        stat.args(["stat", "-r", "3", "--", "sh", "-c", program]).current_dir(folder.path());
        stat.output().unwrap()
    };
    // The second run.
    let out = runs("echo run >>log; [ $(wc -l <log) != 2 ] || kill -KILL $$");
    let said = text(&out.stderr);
    assert_eq!(out.status.code(), Some(128 + 9), "{said}");
    let said = said.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(said.contains("the median of 2 runs. 1 run was ended by a signal: in no figure."), "{said}");
    let out = runs("kill -KILL $$");
    assert_eq!(out.status.code(), Some(128 + 9));
    assert_eq!(text(&out.stderr), "faultless: no run ended by itself: nothing was measured\n");
}
