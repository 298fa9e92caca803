//! Messages when means are short: events denied, few rings and descriptors, short-lived processes.

mod events;
mod lives;
mod means;

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use faultless_wants as wants;
use serde_json::Value;

use crate::{FAULTLESS, machine, text};

/// A folder with compiled programs, open to all users, removed on drop.
struct Place(tempfile::TempDir);

impl Place {
    /// `None`, with a reason, if there is no compiler.
    #[track_caller]
    fn with(programs: &[&str]) -> Option<Self> {
        if !programs.is_empty() && !wants::program("cc", "gcc") {
            return None;
        }
        let place = Self(tempfile::tempdir().unwrap());
        std::fs::set_permissions(place.0.path(), PermissionsExt::from_mode(0o777)).unwrap();
        for name in programs {
            let source =
                Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/programs/denied/{name}.c"));
            let built = Command::new("cc")
                .args(["-O1", "-w", "-pthread", "-o"])
                .args([&place.path(name), &source])
                .status();
            assert!(built.unwrap().success(), "{name}.c does not compile");
        }
        Some(place)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// Names of the files in one of its folders.
    fn names(&self, folder: &str) -> Vec<PathBuf> {
        std::fs::read_dir(self.path(folder)).unwrap().map(|entry| entry.unwrap().path()).collect()
    }

    /// A command that runs in the folder.
    fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(words[0]);
        command.args(&words[1..]).current_dir(self.0.path());
        command
    }

    fn run(&self, words: &[&str]) -> Output {
        self.command(words).output().unwrap()
    }

    /// The same, with a standard input that ends only when it has ended.
    fn run_held(&self, words: &[&str]) -> Output {
        let (stdin, _held) = std::io::pipe().unwrap();
        self.command(words).stdin(stdin).output().unwrap()
    }

    /// Runs `stat --json` behind the words of `before`: the answer and the status.
    fn stat(&self, before: &[&str], faultless: &str, program: &[&str]) -> (Value, Option<i32>) {
        let own = [faultless, "stat", "--json", "-o", "stat.json", "--"];
        let out = self.run_held(&[before, &own, program].concat());
        let file = self.path("stat.json");
        let json = std::fs::read(&file).unwrap_or_else(|_| panic!("{program:?}: {}", text(&out.stderr)));
        std::fs::remove_file(file).unwrap();
        (serde_json::from_slice(&json).unwrap(), out.status.code())
    }
}

/// Words that run a command as a user without other processes. `None`, with a reason, unless this process is
/// root.
#[track_caller]
fn as_user(which: u32) -> Option<Vec<String>> {
    let user = 50_000 + 10 * (std::process::id() % 1000) + which;
    if !machine::other_users() {
        return None;
    }
    Some(vec![
        "setpriv".into(),
        format!("--reuid={user}"),
        format!("--regid={user}"),
        "--clear-groups".into(),
        "--".into(),
    ])
}

/// Faults by `wait4`, and those that the events counted beyond.
fn total(stat: &Value) -> u64 {
    let usage = &stat["usage"];
    let waited = usage["minor_faults"].as_u64().unwrap() + usage["major_faults"].as_u64().unwrap();
    waited + stat["beyond_wait4"]["faults"].as_u64().unwrap_or(0)
}

/// Checks that the rows add up to the total, and that it holds `pages` touches and few other faults.
fn assert_counts(stat: &Value, pages: u64, more: u64) {
    let rows = stat["rows"].as_array().unwrap().iter();
    let sum: u64 = rows.map(|row| row["faults"].as_u64().unwrap()).sum();
    assert_eq!(sum, total(stat), "{stat}");
    assert!((pages..pages + more).contains(&sum), "{sum} for {pages} touches: {stat}");
}

/// The note of a source and whether it was used.
fn source<'a>(stat: &'a Value, name: &str) -> (bool, &'a str) {
    let sources = stat["sources"].as_array().unwrap();
    let found = sources.iter().find(|source| source["source"] == name);
    let found = found.unwrap_or_else(|| panic!("no source {name}: {stat}"));
    (found["used"] == true, found["note"].as_str().unwrap())
}

/// Whether single faults can be recorded here at all.
#[track_caller]
fn has_events(place: &Place) -> bool {
    let (stat, _) = place.stat(&[], FAULTLESS, &["true"]);
    let (used, note) = source(&stat, "fault pairs");
    if !used {
        wants::missing_feature("perf events", format_args!("no fault pairs: {note}"));
    }
    used
}
