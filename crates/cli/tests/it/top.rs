//! `faultless top` on real processes.

use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use faultless_wants as wants;

use crate::text;

fn faultless(words: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_faultless"));
    command.args(words);
    command
}

fn top(words: &[&str]) -> Output {
    faultless(&["top"]).args(words).stdin(Stdio::null()).output().unwrap()
}

/// A program that faults for longer than any test lasts, killed on drop.
struct Busy(Child);

impl Busy {
    fn start() -> Self {
        let words = ["workload", "--quiet", "chunk-pipeline", "--chunks", "1000000"];
        let child = faultless(&words).stdout(Stdio::null()).spawn().unwrap();
        std::thread::sleep(Duration::from_millis(200));
        Self(child)
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn once_on_a_busy_process_shows_its_rate_and_what_it_costs() {
    let busy = Busy::start();
    let output = top(&["--once", "-d", "0.6", "-p", &busy.0.id().to_string()]);
    let shown = text(&output.stdout);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let row = shown.lines().find(|line| line.trim_start().starts_with(&busy.0.id().to_string())).unwrap();
    assert!(row.contains("faultless") && (row.contains(" ms") || row.contains(" us")), "{shown}");
    assert!(!shown.starts_with("faultless top  ended") && shown.contains("of CPU"), "{shown}");
}

#[test]
fn json_of_a_busy_process_is_a_line_with_figures_that_fit_together() {
    let busy = Busy::start();
    let output = top(&["--json", "--once", "-d", "0.8", "-p", &busy.0.id().to_string()]);
    let shown = text(&output.stdout);
    assert_eq!(shown.lines().count(), 1, "{shown}");
    let line: serde_json::Value = serde_json::from_str(&shown).unwrap();
    let row = &line["processes"][0];
    assert_eq!(row["pid"], busy.0.id());
    let (rate, time) = (row["faults_per_s"].as_f64().unwrap(), row["fault_ns_per_s"].as_f64().unwrap());
    assert!(rate > 100.0 && time / rate > 50.0, "{shown}");
    if line["missing"].as_array().unwrap().is_empty() {
        let sites = line["sites"].as_array().unwrap();
        let sampled: f64 = sites.iter().map(|site| site["faults_per_s"].as_f64().unwrap()).sum();
        assert!((0.5..2.0).contains(&(sampled / rate)), "sites add up to {sampled} of {rate}");
    } else {
        wants::missing_feature("perf events", format_args!("no sites: {}", line["missing"]));
    }
}

#[test]
fn a_busy_process_is_among_the_first_of_the_whole_system() {
    let busy = Busy::start();
    let output = top(&["--json", "--once", "-d", "0.5"]);
    let line: serde_json::Value = serde_json::from_str(&text(&output.stdout)).unwrap();
    let rows = line["processes"].as_array().unwrap();
    let row = rows.iter().find(|row| row["pid"] == busy.0.id()).expect("it is listed");
    assert!(row["faults_per_s"].as_f64().unwrap() > 0.0);
    let all = line["faults_per_s"].as_f64().unwrap();
    assert!(rows.iter().all(|row| row["faults_per_s"].as_f64().unwrap() <= all * 1.001));
}

#[test]
fn a_command_gives_its_status_and_its_output_stays_out_of_the_data() {
    let output = top(&["--json", "-d", "0.2", "--", "sh", "-c", "echo said; sleep 0.5; exit 3"]);
    assert_eq!(output.status.code(), Some(3));
    assert_eq!(text(&output.stderr), "said\n");
    let lines: Vec<serde_json::Value> =
        text(&output.stdout).lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert!(lines.len() >= 2);
    assert_eq!(lines.last().unwrap()["ended"], true);
}

#[test]
fn a_command_ends_with_the_view() {
    let begin = std::time::Instant::now();
    let output = top(&["--once", "-d", "0.2", "--", "sleep", "60"]);
    assert!(output.status.success() && begin.elapsed() < Duration::from_secs(10));
    assert!(text(&output.stdout).contains("sleep"), "{}", text(&output.stdout));
}

#[test]
fn wrong_input_is_told_in_one_line_with_a_remedy() {
    let cases: [(&[&str], &str); 4] = [
        (&["-p", "999999999"], "needs a terminal"),
        (&["--once", "-p", "999999999"], "there is none"),
        (&["--once", "--", "no-such-command-here"], "no such command"),
        (&["--once", "-d", "0"], "from 0.2 to 3600"),
    ];
    for (words, expected) in cases {
        let output = top(words);
        let error = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{words:?}: {error}");
        assert!(error.contains(expected) && output.stdout.is_empty(), "{words:?}: {error}");
    }
}
