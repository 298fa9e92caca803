//! `faultless lab kernel` from outside, on two small records: no kernel is built, no machine is booted.
//!
//! `before` and `after` are parts of records of Linux 6.1 (a trial, without jump labels) and 6.12. The texts beside
//! them are what the verbs must print. If the output changes on purpose, run the verb and replace the text.

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests").join(name)
}

fn program() -> Command {
    Command::new(env!("CARGO_BIN_EXE_faultless-kernel-lab"))
}

/// Status, output and errors of the program.
fn said(words: &[&str]) -> (Option<i32>, String, String) {
    let output = program().args(words).output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code(), text(&output.stdout), text(&output.stderr))
}

fn path(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// What the program prints where it must succeed and say nothing else.
fn printed(words: &[&str]) -> String {
    let (code, text, errors) = said(words);
    assert_eq!((code, errors.as_str()), (Some(0), ""), "{words:?}");
    text
}

/// Checks an output against a text of the fixture.
fn is_text(expected: &str, words: &[&str]) {
    let (text, expected) = (printed(words), fs::read_to_string(fixture(expected)).unwrap());
    assert!(text == expected, "expected:\n{expected}\ngot:\n{text}");
}

fn json(words: &[&str]) -> serde_json::Value {
    serde_json::from_str(&printed(&[words, &["--json"]].concat())).unwrap()
}

/// One line on stderr, and status 2.
fn refuses(words: &[&str], with: &str) {
    let (code, _, errors) = said(words);
    assert_eq!(code, Some(2), "{words:?}: {errors}");
    assert!(errors.contains(with) && errors.trim_end().lines().count() == 1, "{words:?}: {errors}");
}

/// A copy of the fixture `after` that a test may break.
fn copy(folder: &Path) {
    fs::create_dir(folder).unwrap();
    for name in ["samples.csv", "notes.csv", "host.txt", "functions.csv"] {
        fs::copy(fixture("after").join(name), folder.join(name)).unwrap();
    }
}

#[test]
fn a_record_has_its_tables_also_when_it_is_compressed() {
    let (before, after) = (fixture("before"), fixture("after"));
    is_text("report.txt", &["report", path(&after)]);
    let folder = tempfile::tempdir().unwrap();
    let packed = folder.path().join("packed");
    copy(&packed);
    for name in ["samples.csv", "functions.csv"] {
        let file = fs::File::create(packed.join(format!("{name}.gz"))).unwrap();
        let mut encoder = flate2::write::GzEncoder::new(file, flate2::Compression::best());
        encoder.write_all(&fs::read(packed.join(name)).unwrap()).unwrap();
        encoder.finish().unwrap();
        fs::remove_file(packed.join(name)).unwrap();
    }
    is_text("report.txt", &["report", path(&packed)]);
    is_text("diff.txt", &["diff", path(&before), path(&packed)]);
}

#[test]
fn a_record_in_json_has_limits_and_figures() {
    let json = json(&["report", path(&fixture("after"))]);
    let limit = &json["limits"]["misses-line-1"];
    let (most, figure) = (limit["range"][1].as_f64().unwrap(), limit["figure"].as_f64().unwrap());
    assert_eq!(limit["verdict"] == "holds", figure <= most, "{limit}");
    assert!(limit["hits"].as_f64().unwrap() > 0.9 && limit["scrubbed_before"].as_f64().unwrap() > 0.0);
    assert_eq!(json["limits"]["misses-line-64"]["verdict"], "cannot-say");
    let figures = &json["figures"]["pft_mib=64_lines=1_pcp=short"];
    let of = |arm: &str, what: &str| figures[arm][what].as_f64().unwrap();
    assert!(of("on", "llc_misses") / of("base", "llc_misses") - figure < 1e-9);
    assert!(of("base", "cleared_bytes") >= 4096.0 && of("on", "cleared_bytes") < 100.0, "{figures}");
}

#[test]
fn our_records_hold_the_figures_that_their_report_prints() {
    let records = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../record/kernel");
    let records = fs::read_dir(records).unwrap().map(|entry| entry.unwrap().path());
    let mut count = 0;
    for (record, kept) in records.map(|record| (record.clone(), record.join("figures.json.gz"))) {
        let printed = json(&["report", path(&record)]);
        let kept = flate2::read::GzDecoder::new(fs::File::open(kept).unwrap());
        let kept: serde_json::Value = serde_json::from_reader(kept).unwrap();
        for part in ["limits", "figures"] {
            assert!(kept[part] == printed[part], "{}: {part}", record.display());
        }
        count += 1;
    }
    assert!(count > 0);
}

#[test]
fn two_kernels_differ_in_named_functions_and_one_in_none() {
    let (before, after) = (fixture("before"), fixture("after"));
    is_text("diff.txt", &["diff", path(&before), path(&after)]);
    let itself = printed(&["diff", path(&after), path(&after)]);
    assert!(itself.contains("no function differs") && !itself.contains("grown"), "{itself}");
    let json = json(&["diff", path(&after), path(&after)]);
    let functions = json["cells"][0]["functions"].as_array().unwrap();
    assert!(!functions.is_empty() && functions.iter().all(|function| function["class"] == "unchanged"));
}

#[test]
fn only_some_classes_are_shown_as_text_and_as_json() {
    let (before, after) = (fixture("before"), fixture("after"));
    let words = ["diff", "--only", "added,removed", path(&before), path(&after)];
    let whole = printed(&["diff", path(&before), path(&after)]);
    let kept = |line: &&str| ![" grown ", " shrunk "].iter().any(|class| line.contains(&format!(" {class}")));
    let names = |text: &str| -> Vec<String> {
        let rows = text.lines().filter(|line| line.starts_with("  ")).filter(kept);
        rows.map(|line| line.split_whitespace().next().unwrap().to_owned()).collect()
    };
    let only = printed(&words);
    assert_eq!(names(&only), names(&whole));
    assert!(only.contains("lock_vma_under_rcu") && !only.contains("get_page_from_freelist"), "{only}");
    assert!(only.contains(" grown, "), "all are counted: {only}");
    let json = json(&words);
    let cells = json["cells"].as_array().unwrap().iter();
    let mut classes: Vec<_> =
        cells.flat_map(|cell| cell["functions"].as_array().unwrap()).map(|found| &found["class"]).collect();
    classes.dedup();
    assert!(!classes.is_empty() && classes.iter().all(|class| *class == "added" || *class == "removed"));
    refuses(
        &["diff", "--only", "new", path(&before)],
        "expected one of added, removed, grown, shrunk, unchanged",
    );
}

#[test]
fn arms_of_one_record_are_compared_too() {
    let after = fixture("after");
    let text = printed(&["diff", path(&after), "--arms", "base,init-on-alloc", "--cell", "kind=thp"]);
    let line = text.lines().find(|line| line.contains("clear_page_erms")).unwrap_or_default();
    assert!(line.contains("grown") && line.contains("8200.0"), "a huge page is cleared twice: {text}");
}

#[test]
fn wrong_words_are_told_in_one_line_with_a_remedy() {
    let folder = tempfile::tempdir().unwrap();
    let (none, after) = (folder.path().join("none"), fixture("after"));
    refuses(&["report", path(&none)], "name the folder of a record");
    refuses(&["diff", path(&none), path(&after)], "name the folder of a record");
    refuses(&["diff", path(&after)], "name a second record, or two arms");
    refuses(&["diff", path(&after), "--arms", "base,none"], "expected one of base, off, on, on-large");
    refuses(&["diff", path(&after), "--arms", "base,on-large"], "no cell of arm base and arm on-large fits");
    refuses(&["diff", path(&after), path(&after), "--cell", "kind"], "NAME=VALUE");
    refuses(&["build"], "--source <PATH> is missing");
    refuses(&["run", "--plans", "none"], "expected one of lines, kinds");
    assert_eq!(said(&["run", "--work", path(&none)]).0, Some(2), "nothing is built there");
    let output = program().args(["build", "--fetch"]).current_dir(folder.path()).output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.code() == Some(2) && errors.contains("no checkout of the repository"), "{errors}");
}

#[test]
fn broken_records_are_told_in_one_line_with_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let (broken, after) = (folder.path().join("broken"), fixture("after"));
    copy(&broken);
    let functions = fs::read_to_string(after.join("functions.csv")).unwrap();
    fs::write(broken.join("functions.csv"), &functions[..functions.rfind(',').unwrap()]).unwrap();
    refuses(&["diff", path(&broken), path(&after)], "functions.csv");
    fs::write(broken.join("functions.csv"), "cell,function\n").unwrap();
    refuses(&["diff", path(&broken), path(&after)], "no cell of arm base and arm base fits");
    fs::write(broken.join("samples.csv"), "experiment,cell\nkernel\n").unwrap();
    refuses(&["report", path(&broken)], "samples.csv");
    fs::write(broken.join("samples.csv"), "experiment,cell,round,phase,quantity,value\n").unwrap();
    refuses(&["report", path(&broken)], "has no cell of the kernel lab");
    fs::remove_file(broken.join("samples.csv")).unwrap();
    fs::write(broken.join("samples.csv.gz"), "no gzip").unwrap();
    refuses(&["report", path(&broken)], "samples.csv");
}

/// A work folder with an unpatched kernel, and a QEMU that only writes what a machine would, on its PATH.
fn work(folder: &Path) -> Command {
    const QEMU: &str = r#"#!/bin/sh
case $1 in --version) echo QEMU of the test; exit;; esac
for word; do case $word in
file:*) printf 'begin\nabsent /x\ncell kinds kind=thp mib=32 : pages=2 zero_hit=0\nend\n' >"${word#file:}";;
*,out=*) out=${word##*,out=}
    printf 'cache,small\nfunction,1,f,9,0,0,0,0,0,0,0,0,0,0,0,0\nend,1\nsections,1\n' >"${out%,cpus=1}";;
esac; done
"#;
    for name in ["bin", "base/arch/x86/boot", "guest"] {
        fs::create_dir_all(folder.join(name)).unwrap();
    }
    for name in ["base/arch/x86/boot/bzImage", "guest/init", "guest/pft", "guest/kinds", "guest/pool"] {
        fs::write(folder.join(name), "").unwrap();
    }
    fs::write(folder.join("build.txt"), "kernel: 6.12.1\n").unwrap();
    let qemu = folder.join("bin/qemu-system-x86_64");
    fs::write(&qemu, QEMU).unwrap();
    fs::set_permissions(&qemu, fs::Permissions::from_mode(0o755)).unwrap();
    let mut command = program();
    command.env("PATH", format!("{}:/usr/bin:/bin", folder.join("bin").display())).arg("run");
    command.args(["--plans", "kinds", "--work", path(folder), "-o", path(&folder.join("record"))]);
    command
}

#[test]
fn what_the_machines_leave_is_compared_and_recorded_once() {
    let folder = tempfile::tempdir().unwrap();
    let run = |words: &[&str]| {
        let output = work(folder.path()).args(words).output().unwrap();
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let (code, errors) = run(&["--arms", "base,init-on-alloc", "--twice"]);
    assert!(
        code == Some(0) && errors.contains("4 boots in ") && errors.contains("byte-identical"),
        "{errors}"
    );
    let record = folder.path().join("record");
    let text = printed(&["report", path(&record)]);
    let arms = "base (the unpatched kernel), init-on-alloc (";
    for part in ["kernel: 6.12.1\nqemu: QEMU of the test\n", "cache: small\n", arms, "two, byte-identical\n"]
    {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert!(text.contains("\nleft out: arm=base plan=kinds: the kernel has no /x\n"), "{text}");
    assert!(text.contains("kinds kind=thp mib=32, init-on-alloc   4.5    1.000 "), "{text}");
    let diff = printed(&["diff", path(&record), path(&record)]);
    assert!(diff.contains("no function differs; 1 unchanged"), "{diff}");
    let (code, errors) = run(&[]);
    assert!(code == Some(2) && errors.contains("holds a record already"), "{errors}");
}

#[test]
fn a_machine_of_a_build_without_qemu_is_not_booted() {
    let folder = tempfile::tempdir().unwrap();
    let output = program()
        .args(["run", "--work", path(folder.path())])
        .env("PATH", folder.path())
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{errors}");
    assert!(errors.contains("apt-get install qemu-system-x86"), "{errors}");
}
