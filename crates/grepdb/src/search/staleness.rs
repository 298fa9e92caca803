//! Checks whether a file with a match changed since the database read it.
//!
//! In: entries of files that a search is about to print. Out: whether to read them on disk instead.
//!
//! A search checks so many files at most. Those beyond the limit are printed unchecked, and counted.

use std::fs::{File, Metadata};
use std::sync::atomic::{AtomicU64, Ordering};

use faultless_os::file::open_regular;

use crate::path::disk_path;
use crate::store::database::Location;
use crate::store::file_entry::FileEntry;
use crate::tree::time::mtime_ns;
use crate::tuning::{CHECKS_MIN, CHECKS_PER_CHUNK};

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

#[derive(Debug)]
pub(crate) struct StalenessChecks {
    /// Files that may be checked. `None` if no check is needed.
    most: Option<u64>,
    asked: AtomicU64,
    stale: AtomicU64,
}

impl StalenessChecks {
    /// For a search of so many `chunks`. With `all_known` the database has just been compared with the tree: no file is
    /// checked.
    pub(crate) fn new(all_known: bool, chunks: u64) -> Self {
        let most = (!all_known).then_some(CHECKS_MIN + chunks * CHECKS_PER_CHUNK);
        Self { most, asked: 0.into(), stale: 0.into() }
    }

    /// Files that differ from their entries.
    pub(crate) fn stale(&self) -> u64 {
        self.stale.load(Ordering::Relaxed)
    }

    /// Files that were not checked, because too many had a match.
    pub(crate) fn unchecked(&self) -> u64 {
        self.most.map_or(0, |most| self.asked.load(Ordering::Relaxed).saturating_sub(most))
    }

    /// Whether the file of `entry` may have changed.
    pub(crate) fn is_stale(&self, location: &Location, entry: &FileEntry) -> bool {
        if self.most.is_none_or(|most| self.asked.fetch_add(1, Ordering::Relaxed) >= most) {
            return false;
        }
        let metadata = std::fs::symlink_metadata(disk_path(&location.root, &entry.path));
        let same = metadata.is_ok_and(|metadata| {
            metadata.len() == entry.size_bytes && [mtime_ns(&metadata), 0].contains(&entry.mtime_ns)
        });
        self.stale.fetch_add(u64::from(!same), Ordering::Relaxed);
        // Without a settled time the file may have changed. It is read again, but not reported.
        !same || entry.mtime_ns == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn so_many_files_are_checked_and_the_others_are_counted() {
        let root = tempfile::tempdir().unwrap();
        let location = Location::in_tree(root.path());
        let gone = FileEntry { path: b"gone".to_vec(), mtime_ns: 1, ..FileEntry::default() };
        let checks = StalenessChecks::new(false, 2);
        let most = CHECKS_MIN + 2 * CHECKS_PER_CHUNK;
        let found = (0..most + 3).filter(|_| checks.is_stale(&location, &gone)).count() as u64;
        assert_eq!((found, checks.stale(), checks.unchecked()), (most, most, 3));
        let checks = StalenessChecks::new(true, 2);
        assert!(!checks.is_stale(&location, &gone));
        assert_eq!((checks.stale(), checks.unchecked()), (0, 0));
    }
}
