//! `faultless lab kernel` from outside, on two small records: no kernel is built, no machine is booted.
//!
//! `tests/kernel/before` and `tests/kernel/after` are parts of records of Linux 6.1 and 6.12. The texts beside them
//! are what the verbs must print. If the output changes on purpose, run the verb and replace the text.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/kernel").join(name)
}

fn said(words: &[&str]) -> (Option<i32>, String, String) {
    let output =
        Command::new(env!("CARGO_BIN_EXE_faultless-lab")).arg("kernel").args(words).output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code(), text(&output.stdout), text(&output.stderr))
}

fn path(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// Checks a verb's output against a text of the fixture.
fn prints(expected: &str, words: &[&str]) {
    let (code, text, errors) = said(words);
    assert_eq!(code, Some(0), "{errors}");
    let expected = fs::read_to_string(fixture(expected)).unwrap();
    assert!(text == expected, "expected:\n{expected}\ngot:\n{text}");
}

/// One line on stderr, and status 2.
fn refuses(words: &[&str], with: &str) {
    let (code, _, errors) = said(words);
    assert_eq!(code, Some(2), "{words:?}: {errors}");
    assert!(errors.contains(with) && errors.trim_end().lines().count() == 1, "{words:?}: {errors}");
}

#[test]
fn a_record_has_its_tables_as_text_as_json_and_as_a_page() {
    let folder = tempfile::tempdir().unwrap();
    let page = folder.path().join("page.html");
    let after = fixture("after");
    let words = ["report", path(&after), "-o", path(&page)];
    prints("report.txt", &words);
    let html = fs::read_to_string(page).unwrap();
    assert!(
        html.contains("cache lines touched, with ours") && !html.contains("0 claims"),
        "the page has no table"
    );
    let (_, json, _) = said(&[&words[..], &["--json"]].concat());
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    let tables: Vec<&str> =
        json["tables"].as_array().unwrap().iter().map(|t| t["id"].as_str().unwrap()).collect();
    assert_eq!(tables, ["kernel-lines", "kernel-kinds", "kernel-latency"]);
}

#[test]
fn two_kernels_differ_in_named_functions_and_one_in_none() {
    let (before, after) = (fixture("before"), fixture("after"));
    prints("diff.txt", &["diff", path(&before), path(&after)]);
    let (_, text, _) = said(&["diff", path(&before), path(&after)]);
    let added = text.lines().find(|line| line.trim_start().starts_with("lock_vma_under_rcu"));
    assert!(added.is_some_and(|line| line.contains(" added ")), "{text}");
    let (_, itself, _) = said(&["diff", path(&after), path(&after)]);
    assert!(itself.contains("no function differs") && !itself.contains("grown"), "{itself}");
    let (_, json, _) = said(&["diff", path(&after), path(&after), "--json"]);
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    let functions = json["cells"][0]["functions"].as_array().unwrap();
    assert!(!functions.is_empty() && functions.iter().all(|function| function["class"] == "unchanged"));
}

#[test]
fn arms_of_one_record_are_compared_too() {
    let after = fixture("after");
    let (code, text, errors) =
        said(&["diff", path(&after), "--arms", "base,init-on-alloc", "--cell", "kind=thp"]);
    assert_eq!(code, Some(0), "{errors}");
    let line = text.lines().find(|line| line.contains("clear_page_erms")).unwrap_or_default();
    assert!(line.contains("grown") && line.contains("8200.0"), "a huge page is cleared twice: {text}");
}

#[test]
fn wrong_words_are_told_in_one_line_with_a_remedy() {
    let folder = tempfile::tempdir().unwrap();
    let (none, after) = (folder.path().join("none"), fixture("after"));
    refuses(&["report", path(&none)], "name the folder of a record");
    refuses(&["diff", path(&after)], "name a second record, or two arms");
    refuses(&["diff", path(&after), "--arms", "base,none"], "there is no arm none");
    refuses(&["diff", path(&after), "--arms", "base,on"], "no cell of arm base and arm on fits");
    refuses(&["diff", path(&after), path(&after), "--cell", "kind"], "NAME=VALUE");
    refuses(&["build", "--source", path(&none), "--checkout", path(folder.path())], "name a checkout");
    refuses(&["build"], "--source");
    refuses(&["run", "--work", path(&none)], "");
    let broken = folder.path().join("broken");
    fs::create_dir(&broken).unwrap();
    for name in ["plan.json", "samples.csv", "notes.csv", "host.txt"] {
        fs::copy(after.join(name), broken.join(name)).unwrap();
    }
    fs::write(broken.join("functions.csv"), "cell,function\n").unwrap();
    refuses(&["diff", path(&broken), path(&after)], "no cell of arm base and arm base fits");
    fs::write(broken.join("samples.csv"), "experiment,cell\nkernel\n").unwrap();
    refuses(&["report", path(&broken)], "samples.csv");
}
