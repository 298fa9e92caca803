//! `stat` and `record` on running processes, and `stat -r`, as a user types them.

use std::io::Read;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use faultless_wants as wants;

use crate::{FAULTLESS, text};

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
    let (one, two) = (Faulting::begin(), Faulting::begin());
    let pids = format!("{},{}", one.pid(), two.pid());
    for until in [&["--for", "300ms"][..], &["--", "sleep", "0.3"]] {
        let out = faultless(&[&["stat", "--json", "-p", &pids], until].concat());
        let Some(stat) = answer(&out) else { return };
        assert_eq!(out.status.code(), Some(0));
        assert!(faults(&stat) > 100, "{stat}");
        let names = stat["command"].to_string();
        assert!(names.contains(&format!("sh[{}]", one.pid())) && names.contains(&two.pid()), "{names}");
        let wall_ns = stat["usage"]["wall_ns"].as_u64().unwrap();
        assert!(wall_ns >= 300_000_000, "{wall_ns}");
    }
}

#[test]
fn further_numbers_are_process_ids_too() {
    let (one, two) = (Faulting::begin(), Faulting::begin());
    let out = faultless(&["stat", "--json", "-p", &one.pid(), &two.pid(), "sleep", "0.1"]);
    let Some(stat) = answer(&out) else { return };
    assert!(stat["command"].to_string().contains(&two.pid()), "{stat}");
    let late = faultless(&["stat", "-p", &one.pid(), &two.pid(), "--for", "1s"]);
    assert_eq!(late.status.code(), Some(2));
    assert!(
        text(&late.stderr).contains("--for: write options before the process ids"),
        "{}",
        text(&late.stderr)
    );
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
}

/// A script's background job starts with SIGINT ignored.
#[test]
fn a_recorder_in_the_background_of_a_script_ends_on_interrupt() {
    let program = Faulting::begin();
    let folder = tempfile::tempdir().unwrap();
    let script = "trap '' INT; exec \"$0\" record -p \"$1\"";
    let mut recorder = Command::new("sh")
        .args(["-c", script, FAULTLESS, &program.pid()])
        .current_dir(folder.path())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let begin = Instant::now();
    while recorder.try_wait().unwrap().is_none() {
        assert!(begin.elapsed() < Duration::from_secs(60), "it never ended");
        std::thread::sleep(Duration::from_millis(100));
        let id = recorder.id().to_string();
        let _ = Command::new("kill").args(["-INT", &id]).stderr(Stdio::null()).status();
    }
    let out = recorder.wait_with_output().unwrap();
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
