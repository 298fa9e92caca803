//! `cargo test` of a small crate whose tests lack a program, features and a request: its exit status and its
//! list.
//!
//! Guards against: a skip that nobody sees, a missing package that CI takes for a pass, the list of another
//! run.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::process::Command;
use std::sync::Mutex;

const MANIFEST: &str = r#"
[package]
name = "fixture"
edition = "2024"

[dependencies]
faultless-wants = { path = "WANTS" }

[[test]]
name = "a"

[[test]]
name = "summary"
harness = false

[workspace]
"#;

const TESTS: &str = r#"
use faultless_wants as wants;

#[test]
fn lines_are_ripgreps() {
    let _ = wants::program("rg", "ripgrep");
}

#[test]
fn one_needs_a_feature_that_is_listed_once() {
    wants::missing_feature("vdso", "it is not mapped");
}

#[test]
fn another_needs_it_too() {
    wants::missing_feature("vdso", "not here\neither");
}

#[test]
fn a_feature_that_nobody_listed_is_needed() {
    wants::missing_feature("a warp drive", "out of dilithium");
}

#[test]
fn a_long_test_is_asked_for() {
    let _ = wants::asked("FIXTURE_LONG", "it takes hours");
}
"#;

const SUMMARY: &str = "fn main() -> std::process::ExitCode { faultless_wants::summary::main() }";

/// One at a time: they share the crate.
static ONE: Mutex<()> = Mutex::new(());

/// The output of `cargo test`, and whether it passed.
struct Run {
    has_passed: bool,
    said: String,
}

impl Run {
    fn has(&self, line: &str) -> bool {
        self.said.lines().any(|said| said.contains(line))
    }
}

/// Runs some tests of the crate, chosen by a part of their names, and the summary.
fn cargo_test(only: &[&str], path: OsString, require: Option<&str>) -> Run {
    let _one = ONE.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("wants-fixture");
    let files = [
        ("Cargo.toml", MANIFEST.replace("WANTS", env!("CARGO_MANIFEST_DIR"))),
        ("src/lib.rs", String::new()),
        ("tests/a.rs", TESTS.to_owned()),
        ("tests/summary.rs", SUMMARY.to_owned()),
    ];
    for (name, text) in files {
        let file = folder.join(name);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        // A rewritten file is compiled again.
        if fs::read_to_string(&file).ok().as_ref() != Some(&text) {
            fs::write(file, text).unwrap();
        }
    }
    let mut command = Command::new(std::env::var_os("CARGO").unwrap());
    command.args(["test", "--offline", "--no-fail-fast", "--target-dir", "target", "--tests", "--"]);
    command.args(only).current_dir(&folder).env("PATH", path).env_remove("FAULTLESS_TEST_REQUIRE");
    command.envs(require.map(|value| ("FAULTLESS_TEST_REQUIRE", value)));
    let output = command.output().unwrap();
    let [out, err] = [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes));
    Run { has_passed: output.status.success(), said: format!("{out}{err}") }
}

/// The PATH as one folder of links, without ripgrep, or with a fake one.
fn path(folder: &Path, has_ripgrep: bool) -> OsString {
    let mut seen = BTreeSet::from([OsString::from("rg")]);
    for entry in std::env::split_paths(&std::env::var_os("PATH").unwrap())
        .filter_map(|folder| fs::read_dir(folder).ok())
        .flatten()
    {
        let entry = entry.unwrap();
        if seen.insert(entry.file_name()) {
            symlink(entry.path(), folder.join(entry.file_name())).unwrap();
        }
    }
    if has_ripgrep {
        fs::write(folder.join("rg"), "#!/bin/sh\n").unwrap();
        fs::set_permissions(folder.join("rg"), fs::Permissions::from_mode(0o755)).unwrap();
    }
    folder.into()
}

#[test]
fn without_ripgrep_a_test_passes_and_the_end_of_the_run_lists_it() {
    let folder = tempfile::tempdir().unwrap();
    let run = cargo_test(&[], path(folder.path(), false), None);
    assert!(run.has_passed, "{}", run.said);
    assert!(run.has("5 tests skipped all or a part of them"), "{}", run.said);
    for line in [
        "  no package ripgrep",
        "    fixture lines_are_ripgreps (tests/a.rs:6:13): no program rg on the PATH",
        "  no feature vdso",
        "    fixture another_needs_it_too (tests/a.rs:16:5): not here either",
        "  no request FIXTURE_LONG",
        "    fixture a_long_test_is_asked_for (tests/a.rs:26:13): it takes hours",
    ] {
        assert!(run.has(line), "{line}: {}", run.said);
    }
}

#[test]
fn without_ripgrep_where_all_is_required_the_run_fails_and_names_test_and_package() {
    let folder = tempfile::tempdir().unwrap();
    let run = cargo_test(&["lines_are_ripgreps"], path(folder.path(), false), Some("all"));
    assert!(!run.has_passed, "{}", run.said);
    assert!(run.has("test lines_are_ripgreps ... FAILED"), "{}", run.said);
    assert!(run.has("FAULTLESS_TEST_REQUIRE=all: fixture lines_are_ripgreps"), "{}", run.said);
    assert!(run.has("no package ripgrep: no program rg on the PATH"), "{}", run.said);
}

#[test]
fn with_ripgrep_where_all_is_required_nothing_is_skipped() {
    let folder = tempfile::tempdir().unwrap();
    let run = cargo_test(&["lines_are_ripgreps"], path(folder.path(), true), Some("all"));
    assert!(run.has_passed && run.has("nothing was skipped"), "{}", run.said);
}

#[test]
fn a_feature_may_be_missing_where_the_list_has_it_and_a_request_always() {
    let folder = tempfile::tempdir().unwrap();
    let path = path(folder.path(), false);
    let run = cargo_test(&["listed_once", "asked_for"], path, Some("all"));
    assert!(run.has_passed && run.has("2 tests skipped"), "{}", run.said);
}

#[test]
fn a_missing_feature_that_is_not_on_the_list_fails() {
    let folder = tempfile::tempdir().unwrap();
    let run = cargo_test(&["nobody_listed"], path(folder.path(), false), Some("all"));
    assert!(!run.has_passed && run.has("no feature a warp drive: out of dilithium"), "{}", run.said);
    // The summary counts it too.
    assert!(run.has("feature a warp drive is missing in 1 tests, missing.txt allows 0"), "{}", run.said);
}

#[test]
fn a_feature_that_more_tests_lack_than_the_list_allows_fails() {
    let folder = tempfile::tempdir().unwrap();
    let run = cargo_test(&["listed_once", "needs_it_too"], path(folder.path(), false), Some("all"));
    let line = "feature vdso is missing in 2 tests, missing.txt allows 1: another_needs_it_too, one_needs";
    assert!(!run.has_passed && run.has(line), "{}", run.said);
}

#[test]
fn a_value_other_than_all_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let run = cargo_test(&["lines_are_ripgreps"], path(folder.path(), false), Some("1"));
    assert!(!run.has_passed && run.has("the one value is all"), "{}", run.said);
}
