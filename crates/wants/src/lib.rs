//! A test that lacks something -> a line in the list of skips at the end of `cargo test`.
//!
//! With `FAULTLESS_TEST_REQUIRE=all` the test fails instead, unless `missing.txt` says that the package or feature may
//! be missing. This crate detects programs; the test itself detects features.

#![forbid(unsafe_code)]
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "it speaks to who runs the tests")]

use std::collections::BTreeSet;
use std::env;
use std::fmt::Display;
use std::fs::{self, OpenOptions};
use std::io::Write;
use std::os::unix::process::parent_id;
use std::panic::Location;
use std::path::{Path, PathBuf};

/// The variable that turns skips into failures. Its one value is `all`.
const REQUIRE: &str = "FAULTLESS_TEST_REQUIRE";
/// `kind | name | reason` of each thing that may be missing nevertheless.
const ALLOWED: &str = include_str!("../missing.txt");
/// The begin of the name of a file with skips. The process id of cargo follows.
const PREFIX: &str = "faultless-skipped-";

/// Whether a program is on the PATH. If not, the test skips. `package` is Debian's name of its package.
#[track_caller]
#[must_use]
pub fn program(name: &str, package: &str) -> bool {
    path_of(name, package).is_some()
}

/// The path of a program, as [`program`] finds it.
#[track_caller]
#[must_use]
pub fn path_of(name: &str, package: &str) -> Option<PathBuf> {
    let found = find(name);
    if found.is_none() {
        missing_package(package, format_args!("no program {name} on the PATH"));
    }
    found
}

/// Notes that the test, or a part of it, skips because a package is missing. `why` says what was tried, and the result.
#[track_caller]
pub fn missing_package(package: &str, why: impl Display) {
    skip("package", package, &why);
}

/// Notes that the test, or a part of it, skips because the kernel, the hardware or a right is missing. `feature` is a
/// name in `missing.txt`; `why` is the observation.
#[track_caller]
pub fn missing_feature(feature: &str, why: impl Display) {
    skip("feature", feature, &why);
}

/// Whether the environment asks for a test that takes long or changes the machine. If not, the test skips.
#[track_caller]
#[must_use]
pub fn asked(variable: &str, why: &str) -> bool {
    let is_asked = env::var_os(variable).is_some();
    if !is_asked {
        skip("request", variable, &why);
    }
    is_asked
}

/// Prints what tests skipped since this `cargo test` began, grouped by what they lack.
pub fn summary() {
    let file = file(parent_id());
    print!("{}", listed(&fs::read_to_string(&file).unwrap_or_default()));
    let _ = fs::remove_file(file);
    // Runs of single packages end without a summary.
    for entry in fs::read_dir(env::temp_dir()).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let run = name.to_str().and_then(|name| name.strip_prefix(PREFIX));
        if run.is_some_and(|pid| !Path::new("/proc").join(pid).exists()) {
            let _ = fs::remove_file(entry.path());
        }
    }
}

fn listed(text: &str) -> String {
    let skips: BTreeSet<(&str, &str)> = text.lines().filter_map(|line| line.split_once('\t')).collect();
    let mut said = match skips.len() {
        0 => "nothing was skipped\n".to_owned(),
        count => format!("tests, or parts of them, skipped: {count}\n"),
    };
    let mut last = "";
    for (what, test) in skips {
        if what != last {
            said += &format!("  no {what}\n");
            last = what;
        }
        said += &format!("    {test}\n");
    }
    said
}

#[track_caller]
fn skip(kind: &str, what: &str, why: &dyn Display) {
    let package = env::var("CARGO_PKG_NAME").unwrap_or_default();
    let thread = std::thread::current();
    // The harness names a thread after its test, unless all tests share one.
    let test = thread.name().filter(|name| *name != "main").unwrap_or("a test");
    let test = format!("{package} {test} ({}): {why}", Location::caller());
    let test = test.split_whitespace().collect::<Vec<_>>().join(" ");
    eprintln!("skipped: {test}: no {kind} {what}");
    let file = file(parent_id());
    // In one write, because test processes run in parallel.
    let line = format!("{kind} {what}\t{test}\n");
    let written = OpenOptions::new().create(true).append(true).open(&file);
    if let Err(error) = written.and_then(|mut to| to.write_all(line.as_bytes())) {
        eprintln!("{}: {error}: the summary will lack this", file.display());
    }
    let require = env::var_os(REQUIRE).unwrap_or_default();
    assert!(require.is_empty() || require == "all", "{REQUIRE}={require:?}: the one value is all");
    assert!(require.is_empty() || allows(kind, what), "{REQUIRE}=all: {test}: no {kind} {what}");
}

/// Whether it may be missing: what has no line in `missing.txt` may not, and nobody must ask for a test.
fn allows(kind: &str, what: &str) -> bool {
    kind == "request" || ALLOWED.lines().any(|line| line.starts_with(&format!("{kind} | {what} | ")))
}

/// The skips of the tests that this process of cargo started.
fn file(cargo: u32) -> PathBuf {
    env::temp_dir().join(format!("{PREFIX}{cargo}"))
}

/// An executable file of this name on the PATH.
fn find(name: &str) -> Option<PathBuf> {
    use std::os::unix::fs::PermissionsExt;
    let is_program = |path: &PathBuf| {
        path.metadata().is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
    };
    env::split_paths(&env::var_os("PATH")?).map(|folder| folder.join(name)).find(is_program)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_is_found_where_the_path_has_it() {
        assert!(find("sh").is_some_and(|path| path.ends_with("sh")));
        assert_eq!(find("no-such-program-of-faultless"), None);
        assert_eq!(find("etc/passwd"), None, "no right to execute");
    }

    #[test]
    fn each_thing_that_may_be_missing_has_one_line_with_a_reason() {
        let lines = ALLOWED.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
        let cells: Vec<Vec<&str>> = lines.map(|line| line.split(" | ").collect()).collect();
        assert!(cells.iter().all(|cells| cells.len() == 3 && ["package", "feature"].contains(&cells[0])));
        let names: BTreeSet<_> = cells.iter().map(|cells| &cells[..2]).collect();
        assert!(names.len() == cells.len() && names.len() > 10);
    }

    /// What the next test runs in a process of its own.
    #[test]
    #[ignore = "it skips"]
    fn skips() {
        let what = env::var("FIXTURE").unwrap_or_default();
        missing_feature(&what, "out of\ndilithium");
        let _ = asked("FIXTURE_LONG", "it takes hours");
    }

    #[test]
    fn a_skip_passes_and_is_listed_or_fails_where_all_is_required() {
        let run = |what: &str, require: &str| {
            let mut command = std::process::Command::new(env::current_exe().unwrap());
            command.args(["--ignored", "--exact", "tests::skips"]).env("FIXTURE", what).env(REQUIRE, require);
            let has_passed = command.output().unwrap().status.success();
            let file = file(std::process::id());
            let said = listed(&fs::read_to_string(&file).unwrap());
            fs::remove_file(file).unwrap();
            (has_passed, said)
        };
        let (has_passed, said) = run("a warp drive", "");
        assert!(
            has_passed
                && said.starts_with("tests, or parts of them, skipped: 2\n  no feature a warp drive\n")
        );
        assert!(
            said.contains("lib.rs:") && said.contains("): out of dilithium\n  no request FIXTURE_LONG\n"),
            "{said}"
        );
        assert!(!run("a warp drive", "all").0);
        assert!(run("vdso", "all").0, "missing.txt has it");
        assert!(!run("vdso", "1").0, "the one value is all");
        assert_eq!(listed(""), "nothing was skipped\n");
    }
}
