//! Files whose text on disk counts, and not that of the database.
//!
//! In: files that are marked or were found to have changed. Out: which they are. A search
//! also looks at the files that it is about to name, so that what it shows of them is not out of date.
//!
//! What it does not do: find out which have changed (`update`), or read them (`search`).

use std::collections::HashSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::database::Place;
use crate::files::{FileEntry, by_path};
use crate::search;
use crate::tuning::{CHECKS_FOR, CHECKS_PART};
use crate::walk::{full, mtime_ns};

/// Files that are searched on disk.
#[derive(Debug, Default)]
pub(crate) struct Live {
    /// Below the root, in order. Some may be gone.
    paths: Vec<Vec<u8>>,
    /// Of them those that are not searched, for they have left the tree.
    gone: HashSet<Vec<u8>>,
    /// All others are as they were.
    is_fresh: bool,
}

impl Live {
    /// `paths` have changed; perhaps others have too.
    pub(crate) fn marked(paths: Vec<Vec<u8>>) -> Self {
        Self { paths, ..Self::default() }
    }

    /// `paths` are all that have changed; those of which `is_there` does not hold belong to the tree no more, though a file may be there.
    pub(crate) fn fresh(mut paths: Vec<Vec<u8>>, is_there: impl Fn(&Vec<u8>) -> bool) -> Self {
        paths.sort_unstable_by(|a, b| by_path(a, b));
        paths.dedup();
        let gone = paths.iter().filter(|path| !is_there(path)).cloned().collect();
        Self { paths, gone, is_fresh: true }
    }

    pub(crate) fn len(&self) -> usize {
        self.paths.len()
    }

    /// Those that are there and `wanted`, in order.
    pub(crate) fn on_disk(
        &self,
        place: &Place,
        wanted: &dyn Fn(&[u8]) -> bool,
        shown: &dyn Fn(&[u8]) -> Vec<u8>,
    ) -> impl Iterator<Item = search::Live> {
        let paths = self.paths.iter().filter(move |path| !self.gone.contains(*path) && wanted(path));
        paths.filter_map(move |path| search::Live::at(place, path, shown))
    }

    /// Their paths, there or not.
    pub(crate) fn paths(&self) -> &[Vec<u8>] {
        &self.paths
    }

    /// Whether the text of the database does not count for `path`.
    pub(crate) fn has(&self, path: &[u8]) -> bool {
        !self.paths.is_empty() && self.paths.binary_search_by(|live| by_path(live, path)).is_ok()
    }
}

/// What a search found out about the files that it was about to name.
#[derive(Debug)]
pub(crate) struct Checks {
    /// None: there is nothing to find out.
    begin: Option<Instant>,
    spent_ns: AtomicU64,
    stale: AtomicU64,
    unlooked: AtomicU64,
}

impl Checks {
    pub(crate) fn new(live: &Live) -> Self {
        let begin = (!live.is_fresh).then(Instant::now);
        Self { begin, spent_ns: 0.into(), stale: 0.into(), unlooked: 0.into() }
    }

    /// Files that are not what the database holds.
    pub(crate) fn stale(&self) -> u64 {
        self.stale.load(Ordering::Relaxed)
    }

    /// Files that were named without a look at them: there was no time.
    pub(crate) fn unlooked(&self) -> u64 {
        self.unlooked.load(Ordering::Relaxed)
    }

    /// Whether the file of `entry` may be another by now.
    pub(crate) fn is_stale(&self, place: &Place, entry: &FileEntry) -> bool {
        let Some(begin) = self.begin else { return false };
        let look = Instant::now();
        let most = CHECKS_FOR.max((look - begin) / CHECKS_PART);
        if Duration::from_nanos(self.spent_ns.load(Ordering::Relaxed)) >= most {
            self.unlooked.fetch_add(1, Ordering::Relaxed);
            return false;
        }
        let same = std::fs::symlink_metadata(full(&place.root, &entry.path)).is_ok_and(|metadata| {
            metadata.len() == entry.size_bytes && [mtime_ns(&metadata), 0].contains(&entry.mtime_ns)
        });
        self.spent_ns.fetch_add(look.elapsed().as_nanos() as u64, Ordering::Relaxed);
        self.stale.fetch_add(u64::from(!same), Ordering::Relaxed);
        // One that may have been written again within a tick is no reason to speak, but one to look.
        !same || entry.mtime_ns == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::files::Kind;

    #[test]
    fn files_are_looked_at_while_there_is_time_and_the_others_are_counted() {
        let root = tempfile::tempdir().unwrap();
        let place = Place::of(root.path());
        let gone = FileEntry {
            path: b"gone".to_vec(),
            kind: Kind::Text,
            size_bytes: 1,
            mtime_ns: 1,
            text_bytes: 1,
            ends_open: false,
        };
        let live = Live::default();
        let checks = Checks::new(&live);
        assert!(checks.is_stale(&place, &gone));
        assert_eq!((checks.stale(), checks.unlooked()), (1, 0));
        checks.spent_ns.store(u64::MAX, Ordering::Relaxed);
        assert!(!checks.is_stale(&place, &gone));
        assert_eq!((checks.stale(), checks.unlooked()), (1, 1));
        let checks = Checks::new(&Live::fresh(Vec::new(), |_| true));
        assert!(!checks.is_stale(&place, &gone));
        assert_eq!((checks.stale(), checks.unlooked()), (0, 0));
        assert_eq!(Checks::new(&live).unlooked(), 0, "those of the last search count");
    }
}
