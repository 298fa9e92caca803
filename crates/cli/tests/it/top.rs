//! `faultless top` on real processes.

use std::process::{Child, Output, Stdio};
use std::time::Duration;

use faultless_wants as wants;

use crate::{faultless, text};

fn top(words: &[&str]) -> Output {
    faultless(&["top"]).args(words).stdin(Stdio::null()).output().unwrap()
}

/// A program that faults for longer than any test lasts, killed on drop.
struct Busy(Child);

impl Busy {
    fn start() -> Self {
        let bursts = ["--bursts", "1000000", "--blocks", "20", "--idle-ms", "20"];
        let words = [&["workload", "--quiet", "idle-bursts"][..], &bursts].concat();
        Self(faultless(&words).stdout(Stdio::null()).spawn().unwrap())
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// What one frame of so many seconds shows, until it is `enough`: on a busy machine nobody gets much of a short one.
fn frame(words: &[&str], enough: impl Fn(&str) -> bool) -> String {
    let mut shown = String::new();
    for seconds in ["0.6", "3", "12"] {
        let output = top(&[&["--once", "-d", seconds], words].concat());
        assert!(output.status.success(), "{}", text(&output.stderr));
        shown = text(&output.stdout);
        if enough(&shown) {
            return shown;
        }
    }
    panic!("{words:?}: {shown}");
}

#[test]
fn once_on_a_busy_process_shows_its_rate_and_what_it_costs() {
    let busy = Busy::start();
    let pid = busy.0.id().to_string();
    frame(&["-p", &pid], |shown| {
        assert!(!shown.starts_with("faultless top  ended") && shown.contains("of CPU"), "{shown}");
        let row = shown.lines().find(|line| line.trim_start().starts_with(&pid));
        row.is_some_and(|row| row.contains("faultless") && (row.contains(" ms") || row.contains(" us")))
    });
}

#[test]
fn json_of_a_busy_process_is_a_line_with_figures_that_fit_together() {
    /// Faults for each sample of a program.
    const PERIOD: f64 = 31.0;
    let busy = Busy::start();
    let pid = busy.0.id();
    let shown = frame(&["--json", "-p", &pid.to_string()], |shown| {
        assert_eq!(shown.lines().count(), 1, "{shown}");
        let line: serde_json::Value = serde_json::from_str(shown).unwrap();
        let row = &line["processes"][0];
        assert!(row.is_null() || row["pid"] == pid, "{shown}");
        let number = |value: &serde_json::Value| value.as_f64().unwrap_or(0.0);
        let (rate, time) = (number(&row["faults_per_s"]), number(&row["fault_ns_per_s"]));
        let sampled: f64 =
            line["sites"].as_array().unwrap().iter().map(|site| number(&site["faults_per_s"])).sum();
        let seconds = (number(&line["end_ns"]) - number(&line["begin_ns"])) / 1e9;
        let lost = number(&line["lost"]) * PERIOD / seconds;
        let adds_up = !line["missing"].as_array().unwrap().is_empty()
            || sampled < 2.0 * rate && sampled + lost > 0.5 * rate;
        rate > 100.0 && time / rate > 50.0 && adds_up
    });
    let line: serde_json::Value = serde_json::from_str(&shown).unwrap();
    if !line["missing"].as_array().unwrap().is_empty() {
        wants::missing_feature("perf events", format_args!("no sites: {}", line["missing"]));
    }
}

#[test]
fn a_busy_process_is_among_the_first_of_the_whole_system() {
    let busy = Busy::start();
    frame(&["--json"], |shown| {
        let line: serde_json::Value = serde_json::from_str(shown).unwrap();
        let rows = line["processes"].as_array().unwrap();
        let rate = |row: &serde_json::Value| row["faults_per_s"].as_f64().unwrap();
        let all = line["faults_per_s"].as_f64().unwrap();
        assert!(rows.iter().all(|row| rate(row) <= all * 1.001), "{shown}");
        rows.iter().any(|row| row["pid"] == busy.0.id() && rate(row) > 0.0)
    });
}

#[test]
fn a_command_gives_its_status_and_its_output_stays_out_of_the_data() {
    // On a busy machine a short command has ended before the first poll.
    for seconds in ["0.5", "3", "12"] {
        let script = format!("echo said; sleep {seconds}; exit 3");
        let output = top(&["--json", "-d", "0.2", "--", "sh", "-c", &script]);
        assert_eq!(output.status.code(), Some(3));
        assert_eq!(text(&output.stderr), "said\n");
        let lines: Vec<serde_json::Value> =
            text(&output.stdout).lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!(lines.last().unwrap()["ended"], true);
        if lines.len() >= 2 {
            return;
        }
    }
    panic!("one line in 12 s");
}

#[test]
fn a_command_ends_with_the_view() {
    let begin = std::time::Instant::now();
    let output = top(&["--once", "-d", "0.2", "--", "sleep", "1000"]);
    assert!(output.status.success() && begin.elapsed() < Duration::from_secs(500));
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
        let status = if expected == "no such command" { 127 } else { 2 };
        assert_eq!(output.status.code(), Some(status), "{words:?}: {error}");
        assert!(error.contains(expected) && output.stdout.is_empty(), "{words:?}: {error}");
    }
}

/// Watching takes faults as well, and nobody asks for them. Code without a name is its file.
#[test]
fn the_view_of_the_system_leaves_itself_out_and_names_code_by_function_or_file() {
    let busy = Busy::start();
    let watching = faultless(&["top", "--once", "--json", "-d", "1"]).stdout(Stdio::piped()).spawn().unwrap();
    let own = watching.id();
    let shown: serde_json::Value =
        serde_json::from_slice(&watching.wait_with_output().unwrap().stdout).unwrap();
    let pids: Vec<u64> =
        shown["processes"].as_array().unwrap().iter().map(|row| row["pid"].as_u64().unwrap()).collect();
    assert!(pids.contains(&u64::from(busy.0.id())) && !pids.contains(&u64::from(own)), "{own}: {shown}");
    for site in shown["sites"].as_array().unwrap() {
        assert_ne!(site["pid"], own);
        let function = site["function"].as_str().unwrap();
        assert!(!function.starts_with("+0x") && !function.is_empty(), "{site}");
    }
}
