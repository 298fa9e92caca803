//! `export` of a made-up program. Each format has the marks that its readers look for, and wrong input gets a
//! clear line. That all formats add up to the same is tested in `report`.

use std::fs;
use std::io::Read;
use std::process::{Command, Stdio};

use crate::traced::Traces;
use serde_json::Value;

#[test]
fn formats_go_into_a_file_that_begins_as_they_do() {
    let traces = Traces::new();
    fs::rename(traces.path("old"), traces.path("faultless.trace")).unwrap();
    assert_eq!(traces.out("export --format firefox -o profile.json"), "");
    let profile: Value = serde_json::from_slice(&fs::read(traces.path("profile.json")).unwrap()).unwrap();
    assert!(profile["meta"]["product"].is_string() && !profile["threads"].as_array().unwrap().is_empty());
    for (format, begin) in [
        ("pprof", &[0x1f, 0x8b][..]),
        ("perfetto", &[0x0a]),
        ("jsonl", b"{"),
        ("csv", b"time_ns,pid,tid,"),
        ("csv-stacks", b"stack_id,"),
        ("folded", b"program;"),
    ] {
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
