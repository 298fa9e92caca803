//! `faultless lab kernel` from outside, on two small records: no kernel is built, no machine is booted.
//!
//! `tests/kernel/before` and `tests/kernel/after` are parts of records of Linux 6.1 (a trial, without jump labels)
//! and 6.12. The texts beside them are what the verbs must print. If the output changes on purpose, run the verb and
//! replace the text.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/kernel").join(name)
}

/// Status, output and errors of the program.
fn lab(words: &[&str]) -> (Option<i32>, String, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_faultless-lab")).args(words).output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code(), text(&output.stdout), text(&output.stderr))
}

fn said(words: &[&str]) -> (Option<i32>, String, String) {
    lab(&[&["kernel"], words].concat())
}

fn path(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// Checks an output against a text of the fixture.
fn is_text(expected: &str, (code, text, errors): (Option<i32>, String, String)) {
    assert_eq!(code, Some(0), "{errors}");
    let expected = fs::read_to_string(fixture(expected)).unwrap();
    assert!(text == expected, "expected:\n{expected}\ngot:\n{text}");
}

fn json(words: &[&str]) -> serde_json::Value {
    let (code, text, errors) = said(&[words, &["--json"]].concat());
    assert_eq!(code, Some(0), "{errors}");
    serde_json::from_str(&text).unwrap()
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
    for name in ["plan.json", "samples.csv", "notes.csv", "host.txt", "functions.csv"] {
        fs::copy(fixture("after").join(name), folder.join(name)).unwrap();
    }
}

#[test]
fn a_record_has_its_tables_as_text_and_as_a_page() {
    let folder = tempfile::tempdir().unwrap();
    let page = folder.path().join("page.html");
    is_text("report.txt", said(&["report", path(&fixture("after")), "-o", path(&page)]));
    let html = fs::read_to_string(page).unwrap();
    for part in ["cache lines touched, with ours", "The limits of the patch", "cannot say", "<svg"] {
        assert!(html.contains(part), "the page lacks {part}");
    }
    assert!(!html.contains("0 claims"), "{html}");
}

#[test]
fn a_record_in_json_has_limits_figures_and_tables() {
    let folder = tempfile::tempdir().unwrap();
    let page = folder.path().join("page.html");
    let after = fixture("after");
    let json = json(&["report", path(&after), "-o", path(&page)]);
    let tables: Vec<&str> =
        json["tables"].as_array().unwrap().iter().map(|table| table["id"].as_str().unwrap()).collect();
    let expected = [
        "kernel-limits",
        "kernel-lines",
        "kernel-ratios",
        "kernel-kinds",
        "kernel-stock",
        "kernel-work",
        "kernel-latency",
    ];
    assert_eq!(tables, expected);
    let limit = &json["limits"]["misses-line-1"];
    let (most, figure) = (limit["range"][1].as_f64().unwrap(), limit["figure"].as_f64().unwrap());
    assert_eq!(limit["verdict"] == "holds", figure <= most, "{limit}");
    assert!(limit["hits"].as_f64().unwrap() > 0.9 && limit["scrubbed_before"].as_f64().unwrap() > 0.0);
    assert_eq!(json["limits"]["misses-line-64"]["verdict"], "cannot-say");
    let figures = &json["figures"]["pft_mib=64_lines=1_pcp=short"];
    let of = |arm: &str, what: &str| figures[arm][what].as_f64().unwrap();
    assert!(of("on", "llc_misses") / of("base", "llc_misses") - figure < 1e-9);
    assert!(of("base", "cleared_bytes") >= 4096.0 && of("on", "cleared_bytes") < 100.0, "{figures}");
    assert_eq!(json["document"]["threads=1"]["without_patch"]["per_cpu_s"], 69584.896);
}

#[test]
fn a_compressed_record_has_the_same_report() {
    let folder = tempfile::tempdir().unwrap();
    let (packed, page) = (folder.path().join("packed"), folder.path().join("page.html"));
    copy(&packed);
    for name in ["samples.csv", "functions.csv"] {
        let file = fs::File::create(packed.join(format!("{name}.gz"))).unwrap();
        let mut encoder = flate2::write::GzEncoder::new(file, flate2::Compression::best());
        encoder.write_all(&fs::read(packed.join(name)).unwrap()).unwrap();
        encoder.finish().unwrap();
        fs::remove_file(packed.join(name)).unwrap();
    }
    is_text("report.txt", said(&["report", path(&packed), "-o", path(&page)]));
    is_text("diff.txt", said(&["diff", path(&fixture("before")), path(&packed)]));
}

#[test]
fn our_records_hold_the_figures_that_their_report_prints() {
    let page = tempfile::NamedTempFile::new().unwrap();
    let records = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../record/kernel");
    for record in fs::read_dir(records).unwrap().map(|entry| entry.unwrap().path()) {
        let printed = json(&["report", path(&record), "-o", path(page.path())]);
        let kept = fs::File::open(record.join("figures.json.gz")).unwrap();
        let kept: serde_json::Value = serde_json::from_reader(flate2::read::GzDecoder::new(kept)).unwrap();
        for part in ["limits", "figures", "document"] {
            assert!(kept[part] == printed[part], "{}: {part}", record.display());
        }
    }
}

#[test]
fn two_kernels_differ_in_named_functions_and_one_in_none() {
    let (before, after) = (fixture("before"), fixture("after"));
    is_text("diff.txt", said(&["diff", path(&before), path(&after)]));
    let (_, text, _) = said(&["diff", path(&before), path(&after)]);
    let added = text.lines().find(|line| line.trim_start().starts_with("lock_vma_under_rcu"));
    assert!(added.is_some_and(|line| line.contains(" added ")), "{text}");
    let (_, itself, _) = said(&["diff", path(&after), path(&after)]);
    assert!(itself.contains("no function differs") && !itself.contains("grown"), "{itself}");
    let json = json(&["diff", path(&after), path(&after)]);
    let functions = json["cells"][0]["functions"].as_array().unwrap();
    assert!(!functions.is_empty() && functions.iter().all(|function| function["class"] == "unchanged"));
}

#[test]
fn arms_of_one_record_are_compared_too() {
    let after = fixture("after");
    let words = ["diff", path(&after), "--arms", "base,init-on-alloc", "--cell", "kind=thp"];
    let (code, text, errors) = said(&words);
    assert_eq!(code, Some(0), "{errors}");
    let line = text.lines().find(|line| line.contains("clear_page_erms")).unwrap_or_default();
    assert!(line.contains("grown") && line.contains("8200.0"), "a huge page is cleared twice: {text}");
}

#[test]
fn two_records_are_compared_as_any_others() {
    let (before, after) = (fixture("before"), fixture("after"));
    is_text("compare.txt", lab(&["compare", path(&before), path(&after)]));
    let (_, itself, _) = lab(&["compare", path(&after), path(&after)]);
    assert!(itself.contains("0 of ") && itself.contains(" figures changed beyond noise"), "{itself}");
}

#[test]
fn wrong_words_are_told_in_one_line_with_a_remedy() {
    let folder = tempfile::tempdir().unwrap();
    let (none, after) = (folder.path().join("none"), fixture("after"));
    refuses(&["report", path(&none)], "name the folder of a record");
    refuses(&["diff", path(&none), path(&after)], "name the folder of a record");
    refuses(&["diff", path(&after)], "name a second record, or two arms");
    refuses(&["diff", path(&after), "--arms", "base,none"], "there is no arm none");
    refuses(&["diff", path(&after), "--arms", "base,on-large"], "no cell of arm base and arm on-large fits");
    refuses(&["diff", path(&after), path(&after), "--cell", "kind"], "NAME=VALUE");
    refuses(&["build", "--source", path(&none), "--checkout", path(folder.path())], "name a checkout");
    assert_eq!(said(&["build"]).0, Some(2), "a source is needed");
    assert_eq!(said(&["run", "--work", path(&none)]).0, Some(2), "nothing is built there");
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

#[test]
fn a_machine_of_a_build_without_qemu_is_not_booted() {
    let folder = tempfile::tempdir().unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_faultless-lab"))
        .args(["kernel", "run", "--work", path(folder.path())])
        .env("PATH", folder.path())
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{errors}");
    assert!(errors.contains("apt-get install qemu-system-x86"), "{errors}");
}
