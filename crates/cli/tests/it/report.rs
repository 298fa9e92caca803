//! `faultless report` on a trace file, and on files that are none.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use faultless_trace::file::{Line, Writer};
use faultless_trace::observation::{Access, Exit, Record, SourceNote, Usage, What};
use faultless_trace::recording::{Footer, Frame, Header, Name, Stacks};

/// A trace of 100 faults by `fill` of thread `main`, and 300 by `parse` of thread `worker`, cut off before its end.
fn two_threads() -> Vec<u8> {
    let header = Header { version: 1, command: vec!["program".to_owned()], ..Header::default() };
    let mut writer = Writer::new(Vec::new(), header).unwrap();
    let name = |function: &str| Name {
        function: function.to_owned(),
        file: Some("program.c".to_owned()),
        line: Some(3),
    };
    let frames =
        ["fill", "parse"].map(|function| Frame { module: None, address: 1, names: vec![name(function)] });
    writer
        .stacks(&Stacks { modules: Vec::new(), frames: frames.to_vec(), stacks: vec![vec![0], vec![1]] })
        .unwrap();
    for (tid, name) in [(1, "main"), (2, "worker")] {
        writer.record(Record { time_ns: 0, pid: 1, tid, what: What::Name(name.to_owned()) }).unwrap();
    }
    for n in 0..400 {
        let (tid, stack) = if n % 4 == 0 { (1, 0) } else { (2, 1) };
        let addr = 0x10_0000 * (n + 1);
        let enter =
            What::Enter { addr, ip: 1, kernel: false, access: Some(Access::Write), mapped_bytes: None };
        writer.record(Record { time_ns: 1_000_000 * n, pid: 1, tid, what: enter }).unwrap();
        let end = What::End { addr, major: false, stack: Some(stack), mapped_bytes: None };
        writer.record(Record { time_ns: 1_000_000 * n + 1000, pid: 1, tid, what: end }).unwrap();
    }
    writer.finish().unwrap()
}

fn faultless(words: &str, folder: &Path) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_faultless"));
    command.args(words.split(' ')).current_dir(folder).env_remove("COLUMNS").output().unwrap()
}

#[test]
fn the_short_help_fits_a_screen_and_the_long_one_tells_the_rest() {
    let help = |flag: &str| {
        let output =
            Command::new(crate::FAULTLESS).args(["report", flag]).env("COLUMNS", "80").output().unwrap();
        crate::text(&output.stdout).to_owned()
    };
    let (short, long) = (help("-h"), help("--help"));
    assert!(short.lines().count() <= 40, "{}: {short}", short.lines().count());
    assert!(short.lines().all(|line| line.chars().count() <= 80), "{short}");
    let flags = |text: &str| {
        let options = text.lines().filter(|line| {
            let line = line.trim_start();
            line.starts_with("--") || line.starts_with('-') && line.get(2..6) == Some(", --")
        });
        let flag =
            |line: &str| line.split_whitespace().find(|word| word.starts_with("--")).map(str::to_owned);
        options.filter_map(flag).collect()
    };
    let (named, all): (Vec<String>, Vec<String>) = (flags(&short), flags(&long));
    assert!(named == all && named.len() > 15, "no option is hidden: {named:?} {all:?}");
    for told in
        ["FIGURES", "atomically", "frames of language runtimes", "how it was computed", "perf record -e"]
    {
        assert!(long.contains(told), "{told}: {long}");
    }
}

#[test]
fn every_view_takes_the_same_filters_and_states_its_part_of_the_run() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("faultless.trace"), two_threads()).unwrap();
    for filter in ["--thread worker", "--site parse", "--thread 2", "--process 1 --site PARSE"] {
        for view in [
            "report",
            "flame --by faults",
            "flame --json --by faults",
            "export --format jsonl",
            "timeline --json",
            "timeline",
        ] {
            let words = match view {
                "timeline" => format!("timeline -o - {filter}"),
                _ => format!("{view} {filter}"),
            };
            let output = faultless(&words, folder.path());
            let [out, said] = [output.stdout, output.stderr].map(|text| String::from_utf8(text).unwrap());
            assert!(output.status.success(), "{words}: {said}");
            let part = if view.ends_with("--json") { "\"faults\":300" } else { "300 of 400 faults" };
            assert!(out.contains(part) || said.contains(part), "{words}: {said} {out}");
        }
    }
    let output = faultless("diff faultless.trace faultless.trace --thread worker", folder.path());
    let out = String::from_utf8(output.stdout).unwrap();
    assert!(out.contains("Shown: thread worker: before ") && out.contains("300 of 400 faults"), "{out}");
}

#[test]
fn the_views_of_all_parts_add_up_to_the_run() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("faultless.trace"), two_threads()).unwrap();
    let sum = |filter: &str| {
        let output = faultless(&format!("report --json --by site {filter}"), folder.path());
        let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        let rows = json["tables"][0]["sites"]["rows"].as_array().unwrap().clone();
        let of = |name: &str| rows.iter().map(|row| row[name].as_f64().unwrap()).sum::<f64>();
        (rows.iter().map(|row| row["faults"]["value"].as_f64().unwrap()).sum::<f64>(), of("share"))
    };
    for parts in [["--thread main", "--thread worker"], ["--time ..100ms", "--time 100ms.."]] {
        let [(a, share_a), (b, share_b)] = parts.map(sum);
        assert!((a + b - 400.0).abs() < 1e-6 && (share_a + share_b - 1.0).abs() < 1e-6, "{parts:?}: {a} {b}");
    }
}

#[test]
fn a_filter_that_nothing_holds_is_one_line_with_the_names_there_are() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("faultless.trace"), two_threads()).unwrap();
    for view in ["report", "flame", "timeline", "export --format csv"] {
        let output = faultless(&format!("{view} --thread nosuch"), folder.path());
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{said}");
        let line =
            "no recorded fault is of thread nosuch; the recording has, most faults first: worker; main";
        // The trace has no end, which the first line says.
        assert!(said.contains(line) && said.trim_end().lines().count() == 2, "{view}: {said}");
    }
    for wrong in ["--time 5", "--time 2s..1s", "--time x..y"] {
        let output = faultless(&format!("report {wrong}"), folder.path());
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(said.contains("1s..2.5s") && said.trim_end().lines().count() == 1, "{wrong}: {said}");
    }
}

#[test]
fn by_prints_that_table_only_and_tree_a_call_tree() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("faultless.trace"), two_threads()).unwrap();
    let text = |words: &str| String::from_utf8(faultless(words, folder.path()).stdout).unwrap();
    let by = text("report --by thread");
    assert!(by.contains("By thread") && by.contains("worker"), "{by}");
    assert!(!by.contains("What to do") && !by.contains("By kind") && !by.contains("Waiting"), "{by}");
    let tree = text("report --tree");
    assert!(tree.contains("Call tree") && tree.contains("parse") && !tree.contains("By who"), "{tree}");
}

#[test]
fn the_width_of_the_reader_holds_for_pipes_too() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("faultless.trace"), two_threads()).unwrap();
    let report = ["time", "share", "faults", "memory", "site"].as_slice();
    let diff = ["before", "after", "difference"].as_slice();
    for columns in [60, 80, 120] {
        for (words, heads) in [
            ("report", report),
            ("report --explain", report),
            ("report --tree", &["time", "share", "faults", "function"]),
            ("diff --only unchanged faultless.trace faultless.trace", diff),
        ] {
            let mut command = Command::new(env!("CARGO_BIN_EXE_faultless"));
            command.args(words.split(' ')).env("COLUMNS", columns.to_string()).current_dir(folder.path());
            let text = String::from_utf8(command.output().unwrap().stdout).unwrap();
            assert!(text.lines().all(|line| line.chars().count() <= columns), "{columns}: {text}");
            assert!(heads.iter().all(|head| text.contains(head)), "{columns}: {text}");
        }
    }
}

#[test]
fn one_page_holds_everything_and_fetches_nothing() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("faultless.trace"), two_threads()).unwrap();
    let output = faultless("report --html", folder.path());
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let page = fs::read_to_string(folder.path().join("faultless-report.html")).unwrap();
    for part in [
        "Where the processor time went",
        "By who touched",
        "By thread",
        "data:image/svg+xml",
        "Where the threads' time goes",
        "id=\"view\"",
    ] {
        assert!(page.contains(part), "{part}");
    }
    for outside in ["http://", "https://", "src=", "@import", "url("] {
        assert!(!page.contains(outside), "{outside}");
    }
}

#[test]
fn a_trace_is_reported_as_text_json_and_into_a_file() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("faultless.trace"), two_threads()).unwrap();
    let text = faultless("report", folder.path());
    let stdout = String::from_utf8(text.stdout).unwrap();
    assert!(text.status.success() && stdout.contains("parse  program.c:3"), "{stdout}");
    assert!(stdout.contains("the recorder did not finish"), "{stdout}");
    let json = faultless("report --json --by function faultless.trace", folder.path());
    let json: serde_json::Value = serde_json::from_slice(&json.stdout).unwrap();
    assert_eq!(json["tables"][0]["sites"]["rows"][0]["faults"]["value"], 300.0);
    let into = faultless("report -o report.txt --top 1", folder.path());
    assert!(into.status.success() && into.stdout.is_empty());
    assert!(fs::read_to_string(folder.path().join("report.txt")).unwrap().contains("program.c:3"));
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
        let output = faultless(words, folder.path());
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(status), "{said}");
        let line =
            "single faults: 1 500 were counted and none was recorded; page-faults:u: a sandbox; allow them";
        assert!(said.contains(line) && !said.contains("try --by faults"), "{words}: {said}");
    }
}

#[test]
fn who_allocated_is_one_line_with_the_remedy_where_nobody_recorded_it() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("faultless.trace"), two_threads()).unwrap();
    for words in
        ["report --by alloc", "report --tree --by alloc", "report --json --by alloc", "flame --stack alloc"]
    {
        let output = faultless(words, folder.path());
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{words}: {said}");
        // The first line says that the trace was cut off.
        let line = "faultless: the recording holds no allocations; record it with faultless record --alloc";
        assert!(output.stdout.is_empty() && said.lines().count() == 2, "{words}: {said}");
        assert!(said.lines().nth(1).unwrap().starts_with(line), "{words}: {said}");
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
        let output = faultless(&format!("report {file}"), folder.path());
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{stderr}");
        assert!(stderr.contains(said) && stderr.trim_end().lines().count() == 1, "{stderr}");
    }
}
