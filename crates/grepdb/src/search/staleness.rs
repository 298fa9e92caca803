//! Checks whether a file with a match changed since the database read it.
//!
//! In: entries of files that a search is about to print. Out: whether to read them on disk instead.
//!
//! The checks of a search are limited in time. Files beyond the limit are printed unchecked, and counted.

use std::fs::{File, Metadata};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use faultless_os::file::open_regular;

use crate::path::disk_path;
use crate::store::database::Location;
use crate::store::file_entry::FileEntry;
use crate::tree::time::mtime_ns;
use crate::tuning::{CHECKS_FOR, CHECKS_PART};

/// Whether a file with this `metadata` is as `entry` says.
pub(super) fn is_as_known(entry: &FileEntry, metadata: &Metadata) -> bool {
    (metadata.len(), mtime_ns(metadata)) == (entry.size_bytes, entry.mtime_ns)
}

/// Opens the file of `entry` if it is as the entry says, and of the size of its text.
pub(super) fn open_as_known(location: &Location, entry: &FileEntry) -> Option<File> {
    let may_be_text = entry.size_bytes == entry.text_bytes && entry.mtime_ns != 0;
    let file = may_be_text.then(|| open_regular(&disk_path(&location.root, &entry.path)))?.ok()?;
    is_as_known(entry, &file.metadata().ok()?).then_some(file)
}

/// The checks of one search.
#[derive(Debug)]
pub(crate) struct StalenessChecks {
    /// Start of the search. `None` if no check is needed.
    begin: Option<Instant>,
    spent_ns: AtomicU64,
    stale: AtomicU64,
    unchecked: AtomicU64,
}

impl StalenessChecks {
    /// With `all_known` the database has just been compared with the tree, and no file is checked.
    pub(crate) fn new(all_known: bool) -> Self {
        let begin = (!all_known).then(Instant::now);
        Self { begin, spent_ns: 0.into(), stale: 0.into(), unchecked: 0.into() }
    }

    /// Files that differ from their entries.
    pub(crate) fn stale(&self) -> u64 {
        self.stale.load(Ordering::Relaxed)
    }

    /// Files that were not checked for lack of time.
    pub(crate) fn unchecked(&self) -> u64 {
        self.unchecked.load(Ordering::Relaxed)
    }

    /// Whether the file of `entry` may have changed.
    pub(crate) fn is_stale(&self, location: &Location, entry: &FileEntry) -> bool {
        let Some(begin) = self.begin else { return false };
        let now = Instant::now();
        let limit = CHECKS_FOR.max((now - begin) / CHECKS_PART);
        if Duration::from_nanos(self.spent_ns.load(Ordering::Relaxed)) >= limit {
            self.unchecked.fetch_add(1, Ordering::Relaxed);
            return false;
        }
        let metadata = std::fs::symlink_metadata(disk_path(&location.root, &entry.path));
        let same = metadata.is_ok_and(|metadata| {
            metadata.len() == entry.size_bytes && [mtime_ns(&metadata), 0].contains(&entry.mtime_ns)
        });
        self.spent_ns.fetch_add(now.elapsed().as_nanos() as u64, Ordering::Relaxed);
        self.stale.fetch_add(u64::from(!same), Ordering::Relaxed);
        // Without a settled time the file may have changed. It is read again, but not reported.
        !same || entry.mtime_ns == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::file_entry::FileKind;

    #[test]
    fn files_are_checked_while_there_is_time_and_the_others_are_counted() {
        let root = tempfile::tempdir().unwrap();
        let location = Location::in_tree(root.path());
        let gone = FileEntry {
            path: b"gone".to_vec(),
            kind: FileKind::Text,
            size_bytes: 1,
            mtime_ns: 1,
            text_bytes: 1,
            ends_open: false,
        };
        let checks = StalenessChecks::new(false);
        assert!(checks.is_stale(&location, &gone));
        assert_eq!((checks.stale(), checks.unchecked()), (1, 0));
        checks.spent_ns.store(u64::MAX, Ordering::Relaxed);
        assert!(!checks.is_stale(&location, &gone));
        assert_eq!((checks.stale(), checks.unchecked()), (1, 1));
        let checks = StalenessChecks::new(true);
        assert!(!checks.is_stale(&location, &gone));
        assert_eq!((checks.stale(), checks.unchecked()), (0, 0));
        assert_eq!(StalenessChecks::new(false).unchecked(), 0, "every search counts for itself");
    }
}
