//! `flame` and `diff` on trace files of made-up programs: changes are named, and wrong input gets a clear
//! line.

use std::fs;
use std::path::Path;
use std::process::Command;

use faultless_wants as wants;

use crate::machine;
use crate::traced::{OLD, Traces, trace, trace_with_kernel};

#[test]
fn what_changed_between_two_files_is_named() {
    let traces = Traces::new();
    let text = traces.out("diff old new");
    for line in [
        "3 of 5 call sites changed",
        " grown     decode <- main  (more faults)",
        " removed   index <- main",
        " added     rank <- main",
        " and 2 other call sites that cannot be told apart",
    ] {
        assert!(text.contains(line), "{line}: {text}");
    }
    assert!(!text.contains("load"), "{text}");
    let only = traces.out("diff --only added,removed old new");
    assert!(only.contains(" added     rank") && !only.contains("decode"), "{only}");
    assert!(traces.out("diff old old").contains("None of 4 call sites changed"));
    let repeated = traces.out("diff old old old --against new new new");
    assert!(repeated.contains("3 recordings before") && repeated.contains(" added     rank"), "{repeated}");
}

#[test]
fn one_recording_a_side_of_two_builds_names_the_caller_that_was_added() {
    if !machine::recorder() {
        return;
    }
    if !wants::program("cc", "gcc") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs/callers.c");
    for (program, define) in [("first", "-DAS_IT_IS"), ("second", "-DAS_IT_IS"), ("more", "-DADDED")] {
        let words = ["-O1", "-g", define, "-o", program];
        let status = Command::new("cc").args(words).arg(&source).current_dir(&folder).status().unwrap();
        assert!(status.success(), "callers.c does not compile");
    }
    let faultless = |words: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_faultless"));
        let out = command.args(words).current_dir(&folder).output().unwrap();
        assert!(out.status.success(), "{words:?}: {}", String::from_utf8_lossy(&out.stderr));
        out.stdout
    };
    let counted = |program: &str| {
        let file = format!("{program}.trace");
        faultless(&["record", "-o", &file, "--", &format!("./{program}")]);
        let recording = faultless_trace::file::read(&fs::read(folder.path().join(&file)).unwrap()).unwrap();
        recording.observation.counts.user_faults
    };
    let diff = |other: &str| -> serde_json::Value {
        serde_json::from_slice(&faultless(&["diff", "--json", "first.trace", other])).unwrap()
    };
    // One recording a side. On a busy machine some faults are only sampled.
    let (Some(before), Some(after)) = (counted("first"), counted("more")) else {
        return wants::missing_feature("perf events", "this user can not count faults");
    };
    let found = diff("more.trace");
    let row = &found["rows"][0];
    assert_eq!((&row["name"], &row["class"]), (&"grab <- added".into(), &"added".into()), "{found:#}");
    let of = |pair: &serde_json::Value, end: &str| pair["difference"][end].as_f64().unwrap();
    let added = &row["faults"];
    assert!(of(added, "low") < 2200.0 && of(added, "high") > 1800.0, "{added:#}");
    let whole = &found["faults"];
    // As root, the total includes the few faults in kernel mode.
    assert!((of(whole, "value") - (after as f64 - before as f64)).abs() < 20.0, "{whole:#}");
    assert!(of(whole, "high") - of(whole, "low") < 0.01, "{whole:#}");
    counted("second");
    let same = diff("second.trace");
    let rows = same["rows"].as_array().unwrap();
    assert!(!rows.is_empty() && rows.iter().all(|row| row["class"] == "unchanged"), "{same:#}");
}

#[test]
fn two_kernels_are_compared_function_by_function() {
    let traces = Traces::new();
    trace_with_kernel(&traces.path("6.1"), &[("clear_page_erms", 6000), ("mt_find", 500), ("rmqueue", 3500)]);
    trace_with_kernel(
        &traces.path("6.12"),
        &[("clear_page_erms", 6000), ("lock_vma_under_rcu", 500), ("rmqueue", 3500)],
    );
    let text = traces.out("diff --by kernel 6.1 6.12");
    for line in ["2 of 4 functions of the kernel", " added ", "lock_vma_under_rcu", " removed ", "mt_find"] {
        assert!(text.contains(line), "{line}: {text}");
    }
    assert!(!text.contains("rmqueue"), "{text}");
    assert!(traces.out("diff --by kernel 6.1 6.1").contains("None of 3 functions of the kernel changed"));
    let mut command = Command::new(env!("CARGO_BIN_EXE_faultless"));
    command.args(["diff", "--by", "kernel", "6.1", "6.12"]).env("COLUMNS", "60").current_dir(traces.path(""));
    let narrow = String::from_utf8(command.output().unwrap().stdout).unwrap();
    assert!(
        narrow.contains("function\n") && narrow.lines().all(|line| line.chars().count() <= 60),
        "{narrow}"
    );
    let json = traces.out("diff --by kernel --json --only added 6.1 6.12");
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    let functions = json["functions"].as_array().unwrap();
    assert_eq!((functions.len(), &functions[0]["function"]), (1, &"lock_vma_under_rcu".into()));
}

#[test]
fn the_kernels_functions_in_faults_are_drawn_as_work_and_locks() {
    let traces = Traces::new();
    trace_with_kernel(
        &traces.path("run"),
        &[("clear_page_erms", 600), ("_raw_spin_lock", 300), ("rmqueue", 100)],
    );
    let json: serde_json::Value = serde_json::from_str(&traces.out("flame --kernel --json run")).unwrap();
    assert_eq!((&json["samples"], &json["unit"]), (&1000.into(), &"ns".into()));
    let stacks = json["stacks"].as_array().unwrap();
    let leaves: Vec<_> =
        stacks.iter().map(|stack| stack["frames"].as_array().unwrap().last().unwrap()).collect();
    assert_eq!(leaves, ["_raw_spin_lock", "clear_page_erms", "rmqueue"]);
    assert!(stacks.iter().all(|stack| stack["frames"][0] != "clear_page_erms"), "the entry is the root");
    let picture = traces.out("flame --kernel run");
    assert!(picture.contains("locks 30 %") && picture.contains("clear_page_erms"), "{picture}");
    assert!(traces.refused("flame --kernel --by bytes run").contains("--kernel"));
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
fn a_flame_graph_as_json_has_the_frames_and_totals_of_the_picture() {
    let traces = Traces::new();
    let json = |words: &str| -> serde_json::Value { serde_json::from_str(&traces.out(words)).unwrap() };
    let flame = json("flame --json --by faults old");
    assert_eq!((&flame["schema"], &flame["unit"]), (&1.into(), &"faults".into()));
    let stacks = flame["stacks"].as_array().unwrap();
    let width = |stack: &serde_json::Value| stack["width"].as_f64().unwrap();
    let leaf = |stack: &serde_json::Value| stack["frames"].as_array().unwrap().last().unwrap().clone();
    let decode: f64 = stacks.iter().filter(|stack| leaf(stack) == "decode").map(width).sum();
    assert_eq!(decode, 600.0, "{flame}");
    let whole: f64 = stacks.iter().map(width).sum();
    assert!((flame["whole"].as_f64().unwrap() - whole).abs() < 1e-6 && flame["faults"] == flame["whole"]);
    assert_eq!(json("flame --json old")["unit"], "ns");
    assert!(traces.refused("flame --json --diff new old").contains("--diff"));
    assert!(traces.refused("flame --json nowhere").contains("name a trace FILE"));
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
        ("diff --by kernel old new", "record as root"),
        ("diff --by kernel --html page.html old new", "leave --html out"),
        ("diff -o missing/x old new", "name a FILE"),
        ("flame --stack both old", "--alloc"),
        ("flame --kernel old", "record as root"),
        ("flame empty", "record a program that touches memory"),
        ("flame nowhere", "name a trace FILE"),
        ("timeline -o x.svg old", "FILE.html"),
    ] {
        let said = traces.refused(words);
        assert!(said.contains(remedy), "{words}: {said}");
    }
    assert!(traces.out("diff --user-only old user").contains("user mode only (:u)"));
    assert!(traces.out("diff empty empty").contains("No page fault was recorded in either"));
}
