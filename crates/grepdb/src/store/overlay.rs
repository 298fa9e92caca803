//! The overlay: files that changed since the database read them. A search reads these on disk instead.
//!
//! In: paths that were marked or found to have changed. Out: whether a path is one of them.
//!
//! It does not detect changes (`fresh`), or read files (`search`).

use std::collections::HashSet;

use crate::path::path_order;

/// Tree paths whose text in the database is out of date.
#[derive(Debug, Default)]
pub(crate) struct Overlay {
    /// In path order. Some of these files may no longer exist.
    paths: Vec<Vec<u8>>,
    /// Those that are no longer part of the tree. A file may still exist there.
    removed: HashSet<Vec<u8>>,
    is_complete: bool,
}

impl Overlay {
    /// `paths`, in order, are known to have changed. Other files may have changed too.
    pub(crate) fn marked(paths: Vec<Vec<u8>>) -> Self {
        Self { paths, ..Self::default() }
    }

    /// `paths` are all files that changed. `is_in_tree` says which of them the tree still has.
    pub(crate) fn complete(mut paths: Vec<Vec<u8>>, is_in_tree: impl Fn(&Vec<u8>) -> bool) -> Self {
        paths.sort_unstable_by(|a, b| path_order(a, b));
        paths.dedup();
        let removed = paths.iter().filter(|path| !is_in_tree(path)).cloned().collect();
        Self { paths, removed, is_complete: true }
    }

    /// Whether every file outside the overlay is as the database holds it.
    pub(crate) fn is_complete(&self) -> bool {
        self.is_complete
    }

    pub(crate) fn len(&self) -> usize {
        self.paths.len()
    }

    /// The paths to read on disk, in order.
    pub(crate) fn in_tree(&self) -> impl Iterator<Item = &Vec<u8>> {
        self.paths.iter().filter(|path| !self.removed.contains(*path))
    }

    pub(crate) fn has_removed(&self, path: &[u8]) -> bool {
        self.removed.contains(path)
    }

    pub(crate) fn contains(&self, path: &[u8]) -> bool {
        !self.paths.is_empty() && self.paths.binary_search_by(|known| path_order(known, path)).is_ok()
    }
}
