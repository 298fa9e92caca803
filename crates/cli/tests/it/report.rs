//! `faultless report` on a trace file, and on files that are none.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use faultless_trace::file::{Line, Writer};
use faultless_trace::observation::{Access, Exit, Record, SourceNote, Usage, What};
use faultless_trace::recording::{Footer, Frame, Header, Name, Stacks};

fn report(args: &[&str], folder: &Path) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_faultless"));
    command.arg("report").args(args).current_dir(folder).output().unwrap()
}

/// A trace of 100 faults by `fill`, cut off before its end.
fn trace() -> Vec<u8> {
    let header = Header { version: 1, command: vec!["program".to_owned()], ..Header::default() };
    let mut writer = Writer::new(Vec::new(), header).unwrap();
    let name = Name { function: "fill".to_owned(), file: Some("fill.c".to_owned()), line: Some(3) };
    let frame = Frame { module: None, address: 1, names: vec![name] };
    writer.stacks(&Stacks { modules: Vec::new(), frames: vec![frame], stacks: vec![vec![0]] }).unwrap();
    for n in 0..100 {
        let addr = 0x10_0000 * (n + 1);
        let enter =
            What::Enter { addr, ip: 1, kernel: false, access: Some(Access::Write), mapped_bytes: None };
        writer.record(Record { time_ns: 10_000 * n, pid: 1, tid: 1, what: enter }).unwrap();
        let end = What::End { addr, major: false, stack: Some(0), mapped_bytes: None };
        writer.record(Record { time_ns: 10_000 * n + 1000, pid: 1, tid: 1, what: end }).unwrap();
    }
    writer.finish().unwrap()
}

#[test]
fn a_trace_is_reported_as_text_json_and_into_a_file() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("faultless.trace"), trace()).unwrap();
    let text = report(&[], folder.path());
    let stdout = String::from_utf8(text.stdout).unwrap();
    assert!(text.status.success() && stdout.contains("fill  fill.c:3"), "{stdout}");
    assert!(stdout.contains("the recorder did not finish"), "{stdout}");
    let json = report(&["--json", "--by", "function", "faultless.trace"], folder.path());
    let json: serde_json::Value = serde_json::from_slice(&json.stdout).unwrap();
    assert_eq!(json["tables"][0]["sites"]["rows"][0]["faults"]["value"], 100.0);
    let into = report(&["-o", "report.txt", "--top", "1"], folder.path());
    assert!(into.status.success() && into.stdout.is_empty());
    assert!(fs::read_to_string(folder.path().join("report.txt")).unwrap().contains("fill.c:3"));
}

#[test]
fn a_trace_of_counts_alone_says_so_in_every_view() {
    let folder = tempfile::tempdir().unwrap();
    let mut writer = Writer::new(Vec::new(), Header::default()).unwrap();
    let source =
        SourceNote { source: "page-faults:u".into(), used: false, note: "a sandbox; allow them".into() };
    let usage = Usage { minor_faults: 1500, ..Usage::default() };
    let footer = Footer { exit: Exit::Status(0), usage, sources: vec![source], ..Footer::default() };
    writer.line(&Line::Footer(Box::new(footer))).unwrap();
    fs::write(folder.path().join("faultless.trace"), writer.finish().unwrap()).unwrap();
    for (words, status) in [
        ("report", 0),
        ("export --format csv", 0),
        ("timeline --json", 0),
        ("flame", 2),
        ("flame --by faults", 2),
    ] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_faultless"));
        let output = command.args(words.split(' ')).current_dir(folder.path()).output().unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(status), "{said}");
        let line =
            "single faults: 1 500 were counted and none was recorded; page-faults:u: a sandbox; allow them";
        assert!(said.contains(line) && !said.contains("try --by faults"), "{words}: {said}");
    }
}

#[test]
fn what_is_no_trace_is_one_line_with_the_remedy() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("text"), "hello").unwrap();
    fs::write(folder.path().join("empty"), "").unwrap();
    fs::write(folder.path().join("swapped"), "2ELIFREP").unwrap();
    for (file, said) in [
        ("missing", "faultless record -- CMD"),
        ("text", "no trace file"),
        ("empty", "record again"),
        ("swapped", "little-endian"),
    ] {
        let output = report(&[file], folder.path());
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{stderr}");
        assert!(stderr.contains(said) && stderr.trim_end().lines().count() == 1, "{stderr}");
    }
}
