//! Mechanisms by which a thread waits or another one pays, of programs that each have one, as root and as a user.

use std::path::Path;
use std::process::{Command, Output};

use faultless_wants as wants;
use serde_json::Value;

use crate::interposed::compile;
use crate::{FAULTLESS, machine, text};

/// Who records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum As {
    Root,
    User,
}

/// A program, its mechanism, and a part of what is said of it or of who causes it.
type Program = (&'static str, &'static str, &'static str);

/// Those of which a user's recording tells as much as root's.
const FORKS: [Program; 2] =
    [("forks", "fork_page_tables", "frozen"), ("spawns", "fork_page_tables", "frozen")];
/// A user's recording bounds them, if both threads run at its calls.
const VICTIMS: [Program; 2] =
    [("madvise", "tlb_victim", "madvise <- giver"), ("munmap", "tlb_victim", "munmap <- giver")];
const DISK: [Program; 3] = [
    ("in_order", "cold_file", "madvise <- cold"),
    ("ahead", "cold_file", "read-ahead"),
    ("at_random", "cold_file", "at random"),
];
const FILLED: [Program; 2] = [("copied", "userfaultfd", "filled"), ("zeroed", "userfaultfd", "filled")];

/// A folder that everybody may use, with the program and a copy of the recorder.
fn folder() -> Option<tempfile::TempDir> {
    let program = compile("waits.c", &["-pthread", "-g", "-O1", "-fno-builtin"])?;
    let folder = tempfile::tempdir().unwrap();
    let all = std::os::unix::fs::PermissionsExt::from_mode(0o777);
    std::fs::set_permissions(folder.path(), all).unwrap();
    machine::copy_program(FAULTLESS, folder.path().join("faultless"));
    machine::copy_program(program, folder.path().join("waits"));
    Some(folder)
}

fn run(folder: &Path, who: As, words: &[&str]) -> Output {
    let user = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "--", "./faultless"];
    let all: Vec<&str> = match who {
        As::Root => ["./faultless"].iter().chain(words).copied().collect(),
        As::User => user.iter().chain(words).copied().collect(),
    };
    Command::new(all[0]).args(&all[1..]).env("HOME", folder).current_dir(folder).output().unwrap()
}

/// The mechanisms that `report` names of a command; `None` if the machine can't run it.
fn mechanisms(folder: &Path, who: As, command: &[&str]) -> Option<Vec<Value>> {
    let trace = format!("{who:?}.trace");
    let record = run(folder, who, &[&["record", "-o", &trace, "--"], command].concat());
    if record.status.code() == Some(3) {
        return None;
    }
    assert_eq!(record.status.code(), Some(0), "{command:?} {who:?}: {}", text(&record.stderr));
    let report = run(folder, who, &["report", "--json", &trace]);
    let findings: Value =
        serde_json::from_slice(&report.stdout).unwrap_or_else(|_| panic!("{}", text(&report.stderr)));
    Some(findings["mechanisms"].as_array().cloned().unwrap_or_default())
}

/// What is wrong with the mechanism of a program.
fn wrong(folder: &Path, who: As, (name, id, part): Program, needs: &str) -> Option<String> {
    let Some(found) = mechanisms(folder, who, &["./waits", name]) else {
        wants::missing_feature(needs, format_args!("`waits {name}` can't run here"));
        return None;
    };
    let mine = found.iter().find(|mechanism| mechanism["id"] == id);
    let says = |mechanism: &Value| {
        ["what", "caller"]
            .iter()
            .any(|field| mechanism[field].as_str().is_some_and(|text| text.contains(part)))
    };
    (!mine.is_some_and(says)).then(|| format!("{name} {who:?}: {found:#?}\n"))
}

/// `needs`: what a machine lacks that can't run the programs.
fn check(all: &[As], programs: &[Program], needs: &str) {
    if !machine::recorder() || !machine::other_users() {
        return;
    }
    let Some(folder) = folder() else { return };
    let each = all.iter().flat_map(|who| programs.iter().map(move |program| (*who, *program)));
    let wrong: String = each.filter_map(|(who, program)| wrong(folder.path(), who, program, needs)).collect();
    assert!(wrong.is_empty(), "{wrong}");
}

#[test]
fn victims_and_forks_are_named() {
    check(&[As::Root, As::User], &FORKS, "ptrace");
    check(&[As::Root], &VICTIMS, "two processors");
}

#[test]
fn files_that_are_not_in_memory_are_named_by_how_they_are_read() {
    check(&[As::Root, As::User], &DISK, "a disk");
}

#[test]
fn memory_that_another_thread_fills_is_named() {
    check(&[As::Root, As::User], &FILLED, "userfaultfd");
}
