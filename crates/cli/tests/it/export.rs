//! `export` of a made-up program. Each format has the marks that its readers look for, all formats add up to
//! the same, and wrong input gets a clear line.

use std::fs;
use std::io::Read;
use std::process::{Command, Stdio};

use crate::traced::{OLD, Traces};
use serde_json::Value;

#[test]
fn formats_of_text_hold_every_fault_once() {
    let traces = Traces::new();
    let all: u64 = OLD.iter().map(|(_, faults, _)| faults).sum();
    let folded = traces.out("export --format folded --weight faults old");
    let of_line = |line: &str| line.rsplit(' ').next().unwrap().parse::<u64>().unwrap();
    assert_eq!(folded.lines().map(of_line).sum::<u64>(), all, "{folded}");
    assert!(folded.contains(";main;decode 600\n"), "{folded}");
    let lines = traces.out("export --format jsonl old");
    let faults: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let sum = |field: &str| faults.iter().map(|fault| fault[field].as_f64().unwrap()).sum::<f64>();
    assert_eq!((faults.len() as u64, sum("faults")), (all, all as f64));
    let table = traces.out("export --format csv old");
    assert_eq!(table.lines().count() as u64, all + 1);
    assert!(table.starts_with("time_ns,pid,tid,"), "{}", &table[..80]);
    let cost = table.lines().next().unwrap().split(',').position(|field| field == "cost_ns").unwrap();
    let costs = table.lines().skip(1).map(|row| row.split(',').nth(cost).unwrap().parse::<f64>().unwrap());
    assert_eq!(costs.sum::<f64>().round(), sum("cost_ns").round());
    let stacks = traces.out("export --format csv-stacks old");
    assert_eq!(stacks.lines().count(), 1 + 2 * OLD.len(), "{stacks}");
}

#[test]
fn formats_of_viewers_go_into_a_file_that_begins_as_they_do() {
    let traces = Traces::new();
    fs::rename(traces.path("old"), traces.path("faultless.trace")).unwrap();
    assert_eq!(traces.out("export --format firefox -o profile.json"), "");
    let profile: Value = serde_json::from_slice(&fs::read(traces.path("profile.json")).unwrap()).unwrap();
    assert!(profile["meta"]["product"].is_string() && !profile["threads"].as_array().unwrap().is_empty());
    for (format, begin) in [("pprof", &[0x1f, 0x8b][..]), ("perfetto", &[0x0a])] {
        assert_eq!(traces.out(&format!("export --format {format} -o {format}")), "");
        let bytes = fs::read(traces.path(format)).unwrap();
        assert!(bytes.starts_with(begin) && bytes.len() > 100, "{format}: {:x?}", &bytes[..8]);
    }
}

#[test]
fn a_reader_that_has_seen_enough_is_no_failure() {
    let traces = Traces::new();
    for format in ["jsonl", "csv", "firefox"] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_faultless"));
        command.args(["export", "--format", format, "old"]).current_dir(traces.path(""));
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        child.stdout.take().unwrap().read_exact(&mut [0; 100]).unwrap();
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success() && output.stderr.is_empty(), "{format}: {output:?}");
    }
}

#[test]
fn wrong_input_is_one_line_with_a_remedy() {
    let traces = Traces::new();
    fs::write(traces.path("text"), "hello").unwrap();
    for (words, remedy) in [
        ("nowhere", "name a trace FILE"),
        ("text", "no trace file"),
        ("-o missing/x old", "name a FILE"),
        ("-o old/x old", "name a FILE"),
    ] {
        let said = traces.refused(&format!("export --format folded {words}"));
        assert!(said.contains(remedy), "{words}: {said}");
    }
    assert!(!traces.path("missing").exists());
}
