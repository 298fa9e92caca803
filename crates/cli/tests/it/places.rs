//! Places that lack what most have: /proc, a disk that can be written, an environment, open descriptors, stack.
//!
//! In each place each verb works, or ends with 2 after one line that says why. Guards against panics and against wrong
//! reasons.

use std::path::Path;
use std::process::{Command, Output, Stdio};

use faultless_wants as wants;

use crate::{FAULTLESS, faultless, machine, text};

/// Shell commands that make a place of the shell's own. In the first two it has mounts of its own.
const MOUNTS: [(&str, &str); 2] = [
    ("without /proc", "mount -t tmpfs none /proc"),
    (
        "read-only",
        "mount --make-rprivate /; for folder in / /tmp /var /dev/shm /run \"$PWD\"; do \
             mount --bind $folder $folder && mount -o remount,bind,ro $folder; done 2>/dev/null; ! touch \"$PWD/x\" 2>/dev/null",
    ),
];
const SHELLS: [(&str, &str); 6] = [
    ("plain", "true"),
    ("without an environment", "unset HOME PATH TMPDIR TERM LANG; set -- /usr/bin/env -i \"$@\""),
    ("on a dumb terminal", "export TERM=dumb LANG=C COLUMNS=1"),
    ("without standard files", "exec <&- >&-"),
    ("with few descriptors", "ulimit -n 16"),
    // A build without optimizations takes more to read its words than the 128 KiB that an optimized one needs.
    ("with a small stack", "ulimit -s 1024"),
];

/// Words of a verb, and the status of a run that works.
const VERBS: [(&[&str], i32); 8] = [
    (&["stat", "--", "true"], 0),
    (&["record", "-o", "new.trace", "--", "true"], 0),
    (&["report", "old.trace"], 0),
    (&["flame", "old.trace", "-o", "-"], 0),
    (&["export", "--format", "folded", "-o", "-", "old.trace"], 0),
    (&["run", "--", "true"], 0),
    (&["top", "--once", "-d", "0.3"], 0),
    (&["advise", "--every-cure", "-n", "3", "--", "true"], 1),
];

fn run(before: &[&str], script: &str, words: &[&str], folder: &Path) -> Output {
    let script = format!("{script} && exec \"$@\"");
    let all = [before, &["sh", "-c", &script, "sh", FAULTLESS], words].concat();
    Command::new(all[0]).args(&all[1..]).current_dir(folder).stdin(Stdio::null()).output().unwrap()
}

/// Runs every verb in a place. All that is wrong.
fn wrong(before: &[&str], (place, script): (&str, &str)) -> Vec<String> {
    let folder = tempfile::tempdir().unwrap();
    let out =
        faultless(&["record", "-o", "old.trace", "--", "ls", "/"]).current_dir(&folder).output().unwrap();
    assert!(out.status.success(), "{}", text(&out.stderr));
    let tried = VERBS.iter().map(|(words, works)| (words, works, run(before, script, words, folder.path())));
    let is_right = |works: i32, out: &Output| {
        let said = text(&out.stderr);
        let refuses =
            out.status.code() == Some(2) && said.lines().count() == 1 && said.starts_with("faultless: ");
        (out.status.code() == Some(works) || refuses) && !said.contains("panicked")
    };
    let wrong = tried.filter(|(_, works, out)| !is_right(**works, out));
    wrong
        .map(|(words, _, out)| format!("{place}: {words:?}: {}: {}", out.status, text(&out.stderr)))
        .collect()
}

#[test]
fn in_every_place_a_verb_works_or_says_in_a_line_why_not() {
    if !machine::recorder() {
        return;
    }
    let mut found: Vec<String> = SHELLS.into_iter().flat_map(|place| wrong(&[], place)).collect();
    let allowed = Command::new("unshare").args(["-m", "mount", "--make-rprivate", "/"]).output();
    if allowed.as_ref().is_ok_and(|out| out.status.success()) {
        found.extend(MOUNTS.into_iter().flat_map(|place| wrong(&["unshare", "-m"], place)));
    } else {
        wants::missing_feature("mount namespaces", format_args!("unshare -m: {allowed:?}"));
    }
    assert_eq!(found, [""; 0]);
}
