//! `stat` and `top` on running processes, whose every fault the kernel times for root.

use std::process::{Child, Command, Output, Stdio};

use faultless_wants as wants;
use serde_json::Value;

use crate::{FAULTLESS, machine, text};

/// A program that faults for longer than any test lasts, killed on drop.
struct Busy(Child);

impl Busy {
    fn start() -> Self {
        let words = ["workload", "--quiet", "idle-bursts", "--bursts", "1000000", "--idle-ms", "20"];
        Self(Command::new(FAULTLESS).args(words).stdout(Stdio::null()).spawn().unwrap())
    }

    fn pid(&self) -> String {
        self.0.id().to_string()
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn run(words: &[&str]) -> Output {
    Command::new(words[0]).args(&words[1..]).output().unwrap()
}

fn json(out: &Output) -> Value {
    serde_json::from_slice(&out.stderr).unwrap_or_else(|_| panic!("{}", text(&out.stderr)))
}

/// Whether faults were timed in the kernel; and the note.
fn in_kernel(stat: &Value) -> (bool, &str) {
    let sources = stat["sources"].as_array().unwrap();
    let found = sources.iter().find(|source| source["source"] == "BPF").unwrap_or_else(|| panic!("{stat}"));
    (found["used"] == true, found["note"].as_str().unwrap())
}

#[test]
fn every_fault_of_a_process_is_timed_for_root_and_rows_add_up() {
    let busy = Busy::start();
    for whom in [&["-p", &busy.pid(), "--for", "500ms"][..], &["-a", "--", "sleep", "0.5"]] {
        let stat = json(&run(&[&[FAULTLESS, "stat", "--json"], whom].concat()));
        let (is_used, note) = in_kernel(&stat);
        if !is_used {
            return wants::missing_feature("BPF", note);
        }
        assert!(note.contains("timed in the kernel by BPF"), "{note}");
        assert_eq!(stat["time"]["source"], "measured", "{stat}");
        let rows = stat["rows"].as_array().unwrap();
        let faults: u64 = rows.iter().map(|row| row["faults"].as_u64().unwrap()).sum();
        let [minor, major] = ["minor_faults", "major_faults"].map(|of| stat["usage"][of].as_u64().unwrap());
        assert_eq!(faults, minor + major + stat["beyond_wait4"]["faults"].as_u64().unwrap_or(0), "{stat}");
        let timed = stat["time"]["timed"].as_u64().unwrap();
        // Of the whole machine, others may populate.
        let least = if whom[0] == "-p" { 0.8 * faults as f64 } else { 1000.0 };
        assert!(timed > 1000 && timed as f64 > least, "{timed} of {faults}: {stat}");
        let seconds: f64 = rows.iter().filter_map(|row| row["seconds"].as_f64()).sum();
        let all = stat["time"]["seconds"]["value"].as_f64().unwrap();
        assert!((seconds - all).abs() < 1e-6 * all, "{seconds} of {all}: {stat}");
    }
    let said = text(&run(&[FAULTLESS, "stat", "--explain", "-p", &busy.pid(), "--for", "300ms"]).stderr);
    assert!(said.contains("timed in the kernel by BPF"), "{said}");
    let sources = ["--sources", "counters,pairs", "-p", &busy.pid(), "--for", "300ms"];
    let stat = json(&run(&[&[FAULTLESS, "stat", "--json"], &sources[..]].concat()));
    assert_eq!(stat["time"]["source"], "sampled", "{stat}");
    assert!(stat["sources"].as_array().unwrap().iter().all(|source| source["source"] != "BPF"), "{stat}");
}

#[test]
fn without_the_rights_faults_are_sampled_and_one_line_says_what_they_would_add() {
    if !machine::other_users() {
        return;
    }
    let busy = Busy::start();
    let less = ["setpriv", "--bounding-set=-sys_admin,-perfmon,-bpf", "--inh-caps=-all", FAULTLESS, "stat"];
    let whom = ["-p", &busy.pid(), "--for", "500ms"];
    let out = run(&[&less[..], &["--json"], &whom].concat());
    let said = text(&out.stderr);
    if said.contains("perf_event_open") && !out.status.success() {
        return wants::missing_feature("perf events", said);
    }
    let stat = json(&out);
    let (is_used, note) = in_kernel(&stat);
    assert!(!is_used && note.starts_with("needs CAP_BPF and CAP_PERFMON"), "{note}");
    assert!(stat["time"]["timed"].as_u64().unwrap() > 100, "{stat}");
    let said = text(&run(&[&less[..], &["--explain"], &whom].concat()).stderr);
    assert_eq!(said.matches("CAP_BPF").count(), 1, "{said}");
}

#[test]
fn top_shows_what_the_kernel_timed() {
    let busy = Busy::start();
    let out = run(&[FAULTLESS, "top", "--once", "--json", "-d", "1", "-p", &busy.pid()]);
    let line: Value = serde_json::from_slice(&out.stdout).unwrap();
    let stat = json(&run(&[FAULTLESS, "stat", "--json", "-p", &busy.pid(), "--for", "500ms"]));
    if !in_kernel(&stat).0 {
        return wants::missing_feature("BPF", in_kernel(&stat).1);
    }
    let row = &line["processes"][0];
    let (faults, time) = (row["faults_per_s"].as_f64().unwrap(), row["fault_ns_per_s"].as_f64().unwrap());
    let each_ns =
        stat["time"]["seconds"]["value"].as_f64().unwrap() * 1e9 / stat["time"]["timed"].as_f64().unwrap();
    assert!((0.5..2.0).contains(&(time / faults / each_ns)), "{line} beside {stat}");
}

#[test]
fn a_recording_of_a_running_process_has_the_kernels_times_and_samples_with_stacks() {
    let busy = Busy::start();
    // Whose records are in the rings too.
    let _stranger = Busy::start();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("x.trace");
    let file = file.to_str().unwrap();
    let out = run(&[FAULTLESS, "record", "-o", file, "-p", &busy.pid(), "--for", "1s"]);
    assert!(out.status.success(), "{}", text(&out.stderr));
    let report: Value = serde_json::from_slice(&run(&[FAULTLESS, "report", "--json", file]).stdout).unwrap();
    let (is_used, note) = in_kernel(&report);
    if !is_used {
        return wants::missing_feature("BPF", note);
    }
    let stat = json(&run(&[FAULTLESS, "stat", "--json", "-p", &busy.pid(), "--for", "1s"]));
    let all = report["faults"].as_f64().unwrap();
    let each_ns = report["time_ns"]["value"].as_f64().unwrap() / all;
    let of_stat_ns =
        stat["time"]["seconds"]["value"].as_f64().unwrap() * 1e9 / stat["time"]["timed"].as_f64().unwrap();
    assert!((0.5..2.0).contains(&(each_ns / of_stat_ns)), "{each_ns} beside {of_stat_ns}: {report}");
    let first = &report["tables"][0]["sites"]["rows"][0];
    assert!(first["label"].as_str().unwrap().contains("workload"), "{first}");
    let by_process = run(&[FAULTLESS, "report", "--json", "--by", "process", file]);
    let by_process: Value = serde_json::from_slice(&by_process.stdout).unwrap();
    // Without the stranger.
    let [row] = &by_process["tables"][0]["sites"]["rows"].as_array().unwrap()[..] else {
        panic!("{by_process}")
    };
    assert_eq!(row["label"], format!("faultless ({})", busy.pid()));
    // A sum of estimates is rounded.
    assert!((0.95..1.000_001).contains(&(row["faults"]["value"].as_f64().unwrap() / all)), "{row} of {all}");
}
