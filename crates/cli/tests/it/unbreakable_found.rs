//! Findings of the random programs in `fuzzed.rs`, as short programs: altered pages that are freed, limits
//! met in the middle of a run, sandboxes, errno.
//!
//! Each program first runs unchanged; that run defines the right result.

use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::interposed::{Case, SMALL, compile, faultless, finish, how};

const LIMIT: Duration = Duration::from_secs(600);

fn program(name: &str) -> Option<PathBuf> {
    compile(&format!("unbreakable/{name}.c"), &["-pthread"])
}

/// A program's output, and its exit if it failed.
fn said(case: Case) -> String {
    let (status, output) = finish(case, LIMIT);
    match how(status).as_str() {
        "status 0" => output.stdout,
        how => format!("{}ended: {how}", output.stdout),
    }
}

/// Runs a program in all ways and with all options, and fails with all differences from the unchanged run.
fn same(program: &Path, ways: &[&str], all: &[&[&str]]) {
    let mut wrong = Vec::new();
    for way in ways {
        let plain = said(Case::plain(program).args(&[way]));
        assert!(!plain.contains("ended: "), "{way}: {plain}");
        for options in all {
            let here = said(Case::pooled(program, options).args(&[way]));
            if here != plain {
                wrong.push(format!("{way} {options:?}: {here:?} instead of {plain:?}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{} differences\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn pages_that_are_freed_as_they_were_left_are_new_again() {
    let Some(program) = program("left") else { return };
    let ways = [
        "no-access",
        "read-only",
        "guarded",
        "not-forked",
        "wiped",
        "private-file",
        "shared-file",
        "hole",
        "locked",
    ];
    same(
        &program,
        &ways,
        &[&[], &["--policy", "base", "--retain", "0"], &["--decay", "20ms", "--scrub", "on-free"]],
    );
}

#[test]
fn what_is_free_does_not_count_against_a_limit_that_a_program_sets() {
    let Some(program) = program("meets_limits") else { return };
    let ways = ["block-addresses", "block-data", "own-addresses", "own-data", "thread", "thread-before"];
    same(&program, &ways, &[&[], &["--retain", "0"], SMALL]);
}

#[test]
fn descriptors_that_are_closed_and_an_ignored_signal_are_inherited() {
    let Some(program) = program("inherits") else { return };
    let program = program.to_str().unwrap();
    for start in ["", "trap '' PIPE; "] {
        for closed in ["", " <&-", " 2>&-", " <&- 2>&-"] {
            let script = format!("{start}exec \"$@\"{closed}");
            let plain = said(Case::plain("sh").args(&["-c", &script, "sh", program]));
            assert!(plain.contains("SIGPIPE") && !plain.contains("ended: "), "{script}: {plain}");
            let run = faultless();
            let words = ["-c", &script, "sh", run.to_str().unwrap(), "run", "--", program];
            assert_eq!(said(Case::plain("sh").args(&words)), plain, "{script}");
        }
    }
}

#[test]
fn a_child_of_a_fork_without_handlers_uses_malloc() {
    let Some(program) = program("forks_bare") else { return };
    same(&program, &[""], &[&["--decay", "20ms"], &["--decay", "20ms", "--small=mimalloc"]]);
}

#[test]
fn a_library_that_prefers_its_own_symbols_shares_blocks_with_its_program() {
    let source = "unbreakable/deepbind.c";
    let Some(library) = compile(source, &["-DLIBRARY", "-shared", "-fPIC"]) else { return };
    let [folder, name] =
        [library.parent().unwrap().to_str(), library.file_name().unwrap().to_str()].map(Option::unwrap);
    let name = format!("-DLIBRARY_NAME=\"{name}\"");
    let Some(program) = compile(source, &[&name, &format!("-Wl,-rpath={folder}"), "-ldl"]) else { return };
    assert!(said(Case::plain(&program).args(&["50"])).starts_with("7 8\n"));
    same(&program, &["50", "300000", "5000000"], &[&[], SMALL]);
}

#[test]
fn errno_stays_after_a_success() {
    let Some(program) = program("keeps_errno") else { return };
    let base = ["--policy", "base", "--prefault", "populate"];
    same(&program, &["16", "6445", "300000"], &[&[], &base, &["--policy", "hugetlb"], SMALL]);
}
