//! `flame` and `diff` on trace files of programs that are made up: what changed is named, wrong input is a clear line.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use faultless_trace::file::{Line, Writer};
use faultless_trace::observation::{Calibration, Exit, Host, Record, What};
use faultless_trace::recording::{Footer, Frame, Header, Module, Name, Settings, Stacks};

type Site = (&'static str, u64, u64);

const OLD: [Site; 4] = [("decode", 600, 900), ("index", 300, 800), ("load", 200, 1500), ("rest", 300, 700)];
const NEW: [Site; 4] = [("decode", 1200, 900), ("rank", 300, 800), ("load", 200, 1500), ("rest", 300, 700)];

/// Writes a recording of every fault of functions that fault so often, each so many ns long.
fn trace(path: &Path, sites: &[Site], user_only: bool) {
    let calibration =
        Calibration { truth_p50_ns: 700.0, pair_p50_ns: 900.0, record_cost_ns: 600.0, pages: 100 };
    let header = Header {
        tool: "test".into(),
        command: vec!["./program".into()],
        host: Host { page_bytes: 4096, ..Host::default() },
        calibration: Some(calibration),
        settings: Settings { every_fault: true, user_only, ..Settings::default() },
        ..Header::default()
    };
    let frame = |name: &str| Frame {
        module: Some(0),
        address: 16,
        names: vec![Name { function: name.into(), ..Name::default() }],
    };
    let mut stacks = Stacks {
        modules: vec![Module { path: "/opt/program".into(), build_id: None }],
        frames: vec![frame("main")],
        stacks: vec![],
    };
    for (at, site) in sites.iter().enumerate() {
        stacks.frames.push(frame(site.0));
        stacks.stacks.push(vec![at as u32 + 1, 0]);
    }
    let mut writer = Writer::new(fs::File::create(path).unwrap(), header).unwrap();
    writer.stacks(&stacks).unwrap();
    let (mut time_ns, mut addr) = (1_000_000, 0x7f00_0000_0000);
    for (at, (_, faults, price_ns)) in sites.iter().enumerate() {
        for _ in 0..*faults {
            let mut record = |time_ns, what| writer.record(Record { time_ns, pid: 7, tid: 7, what }).unwrap();
            record(time_ns, What::Enter { addr, ip: 16, kernel: false, access: None });
            record(time_ns + price_ns + 200, What::End { addr, major: false, stack: Some(at as u32) });
            time_ns += 5000;
            addr += 4096;
        }
    }
    let footer = Footer { exit: Exit::Status(0), ..Footer::default() };
    writer.line(&Line::Footer(Box::new(footer))).unwrap();
    writer.finish().unwrap();
}

struct Traces(tempfile::TempDir);

impl Traces {
    fn new() -> Self {
        let traces = Self(tempfile::tempdir().unwrap());
        trace(&traces.path("old"), &OLD, false);
        trace(&traces.path("new"), &NEW, false);
        traces
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn faultless(&self, words: &str) -> Output {
        let words = words.split_whitespace();
        Command::new(env!("CARGO_BIN_EXE_faultless")).args(words).current_dir(self.0.path()).output().unwrap()
    }

    fn out(&self, words: &str) -> String {
        let output = self.faultless(words);
        assert!(output.status.success(), "{words}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }

    fn refused(&self, words: &str) -> String {
        let output = self.faultless(words);
        assert_eq!(output.status.code(), Some(2), "{words}");
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(output.stdout.is_empty() && said.lines().count() == 1, "{words}: {said}");
        said
    }
}

#[test]
fn what_changed_between_two_files_is_named() {
    let traces = Traces::new();
    let text = traces.out("diff old new");
    for line in [
        "3 of 5 functions changed",
        " grown     decode  (more faults)",
        " removed   index",
        " added     rank",
    ] {
        assert!(text.contains(line), "{line}: {text}");
    }
    assert!(!text.contains("load"), "{text}");
    let only = traces.out("diff --only added,removed old new");
    assert!(only.contains(" added     rank") && !only.contains("decode"), "{only}");
    assert!(traces.out("diff old old").contains("None of 4 functions changed"));
    let repeated = traces.out("diff old old old --against new new new");
    assert!(repeated.contains("3 recordings before") && repeated.contains(" added     rank"), "{repeated}");
}

#[test]
fn the_document_the_page_and_the_picture_say_the_same() {
    let traces = Traces::new();
    let json = traces.out("diff --json --by stack --html page.html --flame change.svg old new");
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    let rows = json["rows"].as_array().unwrap();
    assert_eq!(
        (rows.len(), &rows[0]["name"], &rows[0]["class"]),
        (5, &"decode <- main".into(), &"grown".into())
    );
    let page = fs::read_to_string(traces.path("page.html")).unwrap();
    assert!(page.contains("decode &lt;- main") && page.contains("class=\"row added\""));
    let picture = fs::read_to_string(traces.path("change.svg")).unwrap();
    assert!(picture.contains("rank [added]") && picture.contains("index [removed]"));
}

#[test]
fn a_flame_graph_goes_to_stdout_or_into_a_file() {
    let traces = Traces::new();
    fs::copy(traces.path("old"), traces.path("faultless.trace")).unwrap();
    let picture = traces.out("flame --by faults");
    assert!(picture.starts_with("<?xml") && picture.contains("decode (600 faults,"), "{}", &picture[..80]);
    assert_eq!(traces.out("flame --diff new -o change.svg old"), "");
    assert!(fs::read_to_string(traces.path("change.svg")).unwrap().contains("decode [+100%]"));
}

#[test]
fn wrong_input_is_one_line_with_a_remedy() {
    let traces = Traces::new();
    trace(&traces.path("user"), &OLD, true);
    trace(&traces.path("empty"), &[], false);
    for (words, remedy) in [
        ("diff old user", "--user-only"),
        ("diff old", "--against"),
        ("diff old new user", "--against"),
        ("diff old nowhere", "name a trace FILE"),
        ("diff --by alloc old new", "--alloc"),
        ("diff -o missing/x old new", "name a FILE"),
        ("flame --stack both old", "--alloc"),
        ("flame empty", "--by faults"),
        ("flame nowhere", "name a trace FILE"),
    ] {
        let said = traces.refused(words);
        assert!(said.contains(remedy), "{words}: {said}");
    }
    assert!(traces.out("diff --user-only old user").contains("user mode only (:u)"));
    assert!(traces.out("diff empty empty").contains("no page faults in either"));
}
