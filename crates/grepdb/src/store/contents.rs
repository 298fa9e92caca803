//! Lookup of stored files by path.
//!
//! In: folders, as tree paths. Out: whether a database has files below them, and in which chunks.
//!
//! It does not look at the tree.

use std::cmp::Ordering;
use std::collections::HashSet;
use std::ops::Range;

use crate::error::Result;
use crate::index::posting_list::Candidates;
use crate::path::{is_below, path_order};
use crate::store::database::Database;
use crate::store::file_entry::{FileEntry, FileKind};
use crate::store::segment::Segment;

impl Database {
    /// Whether the database has files below `folder`, a tree path. Files that the tree has no longer do not count.
    ///
    /// # Errors
    /// The database is damaged.
    pub fn has_files_below(&self, folder: &[u8]) -> Result<bool> {
        if folder.is_empty() {
            return Ok(self.segments.iter().any(|segment| segment.files() > 0));
        }
        for (at, segment) in self.segments.iter().enumerate() {
            for chunk in segment.chunks_below(folder)? {
                let mut files = segment.file_numbers(chunk)?.zip(segment.files_of_chunk(chunk)?);
                let is_in_tree =
                    |number, path: &[u8]| !self.has_tombstone(at, number) && !self.overlay.has_removed(path);
                if files.any(|(number, file)| is_below(&file.path, folder) && is_in_tree(number, &file.path))
                {
                    return Ok(true);
                }
            }
        }
        Ok(false)
    }

    /// The tree paths of all files of these `kinds`, without the overlay.
    ///
    /// # Errors
    /// The database is damaged.
    pub fn paths(&self, kinds: &[FileKind]) -> Result<HashSet<Vec<u8>>> {
        let mut paths = HashSet::new();
        for (at, segment) in self.segments.iter().enumerate() {
            for (chunk, entries) in (0..).zip(segment.files_by_chunk()?) {
                let files = segment.file_numbers(chunk)?.zip(entries?);
                let current = files.filter(|(number, file)| {
                    kinds.contains(&file.kind)
                        && !self.has_tombstone(at, *number)
                        && !self.overlay.contains(&file.path)
                });
                paths.extend(current.map(|(_, file)| file.path));
            }
        }
        Ok(paths)
    }
}

impl Segment {
    /// Removes the candidates in chunks without a file below one of `folders`. Keeps all if damage hides which files
    /// a chunk has.
    pub(crate) fn retain_below(&self, folders: &[Vec<u8>], candidates: &mut Candidates) {
        let mut is_within = vec![false; candidates.len()];
        for folder in folders {
            let Range { start, end } = self.chunks_below(folder).unwrap_or(0..self.chunks());
            is_within[start as usize..end as usize].fill(true);
        }
        candidates
            .iter_mut()
            .zip(is_within)
            .filter(|(_, within)| !within)
            .for_each(|(candidates, _)| *candidates = 0);
    }

    /// A range of chunks with every file below `folder`. It may begin one chunk too early.
    fn chunks_below(&self, folder: &[u8]) -> Result<Range<u32>> {
        if folder.is_empty() {
            return Ok(0..self.chunks());
        }
        let begins: Vec<u32> =
            (0..self.chunks()).filter(|&chunk| !self.chunks_of_file(chunk).is_empty()).collect();
        let from = self.first(&begins, |file| path_order(&file.path, folder).is_ge())?;
        let to = self.first(&begins, |file| {
            path_order(&file.path, folder) == Ordering::Greater && !is_below(&file.path, folder)
        })?;
        let chunk = |at: usize| begins.get(at).copied().unwrap_or(self.chunks());
        // The chunk before may end with files of the folder.
        Ok(chunk(from.saturating_sub(1))..chunk(to))
    }

    /// The index of the first chunk in `begins` whose first file is `beyond`. If a file is beyond, so are all after
    /// it.
    fn first(&self, begins: &[u32], beyond: impl Fn(&FileEntry) -> bool) -> Result<usize> {
        let (mut low, mut high) = (0, begins.len());
        while low < high {
            let middle = low.midpoint(high);
            let is_beyond = self.files_of_chunk(begins[middle])?.first().is_some_and(&beyond);
            if is_beyond { high = middle } else { low = middle + 1 }
        }
        Ok(low)
    }
}
