//! The tables of generated code that a recording made runtimes write: removed when it has read them.
//!
//! In: the processes of a recording. Out: how many of them had such a table. Only a table that belongs to
//! this user, was written since the recording began, and is of a runtime that was asked for is removed.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::UNIX_EPOCH;

use crate::tuning as t;

/// Where runtimes write them (Linux, tools/perf/Documentation/jit-interface.txt).
pub(crate) const FOLDER: &str = "/tmp";

/// Runtimes that can name the code that they generate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Runtimes {
    /// CPython 3.12 and later, by trampolines.
    pub python: bool,
    /// Node and Java, by their options.
    pub jit: bool,
}

impl Runtimes {
    /// Whether a table that begins like this is of one of them.
    fn wrote(self, begin: &str) -> bool {
        let is_python = begin.contains(" py::");
        if is_python { self.python } else { self.jit }
    }
}

/// Removes the tables of these processes. Returns how many were Python's, and how many others'.
pub(crate) fn remove(
    folder: &Path,
    pids: &BTreeSet<u32>,
    begin_unix_ms: u64,
    runtimes: Runtimes,
) -> (u64, u64) {
    let mut removed = (0, 0);
    for pid in pids {
        let path = folder.join(format!("perf-{pid}.map"));
        let Some(begin) = own_begin(&path, begin_unix_ms) else { continue };
        if !runtimes.wrote(&begin) || std::fs::remove_file(&path).is_err() {
            continue;
        }
        match begin.contains(" py::") {
            true => removed.0 += 1,
            false => removed.1 += 1,
        }
    }
    removed
}

/// The begin of a plain file that this user has written since then.
fn own_begin(path: &Path, since_unix_ms: u64) -> Option<String> {
    let found = std::fs::symlink_metadata(path).ok()?;
    let changed = found.modified().ok()?.duration_since(UNIX_EPOCH).ok()?;
    let is_own = found.is_file() && found.uid() == faultless_os::host::user().0;
    if !is_own || changed.as_millis() < u128::from(since_unix_ms) {
        return None;
    }
    let mut bytes = Vec::new();
    File::open(path).ok()?.take(t::MAP_BEGIN_BYTES).read_to_end(&mut bytes).ok()?;
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_tables_that_the_recording_asked_for_are_removed() {
        let folder = tempfile::tempdir().unwrap();
        let write = |pid: u32, text: &str| {
            std::fs::write(folder.path().join(format!("perf-{pid}.map")), text).unwrap();
        };
        write(1, "7f00 10 py::main:/srv/a.py\n");
        write(2, "7f00 10 LazyCompile:~hot app.js:3\n");
        write(3, "7f00 10 py::main:/srv/a.py\n");
        std::os::unix::fs::symlink("perf-3.map", folder.path().join("perf-4.map")).unwrap();
        let pids = BTreeSet::from([1, 2, 4, 5]);
        let python = Runtimes { python: true, jit: false };
        assert_eq!(remove(folder.path(), &pids, u64::MAX, python), (0, 0), "written before");
        assert_eq!(remove(folder.path(), &pids, 0, python), (1, 0));
        assert!(folder.path().join("perf-2.map").exists(), "Node's own");
        assert!(folder.path().join("perf-4.map").exists(), "a link");
        assert_eq!(remove(folder.path(), &pids, 0, Runtimes { python: true, jit: true }), (0, 1));
    }
}
