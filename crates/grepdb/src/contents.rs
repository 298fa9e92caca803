//! What a database holds, by path.
//!
//! In: folders below the root. Out: whether there is anything below them, in which chunks, and which files have no text.
//!
//! What it does not do: look at the tree.

use std::cmp::Ordering;
use std::collections::HashSet;
use std::ops::Range;

use crate::database::Database;
use crate::error::Result;
use crate::files::{FileEntry, Kind, by_path};
use crate::index::Units;
use crate::segment::Segment;

impl Database {
    /// Whether files below `folder`, a path below the root without a slash at its end, belong to it.
    ///
    /// # Errors
    /// It is damaged.
    pub fn holds(&self, folder: &[u8]) -> Result<bool> {
        if folder.is_empty() {
            return Ok(self.segments.iter().any(|segment| segment.files() > 0));
        }
        for segment in &self.segments {
            for chunk in segment.chunks_within(folder)? {
                if segment.group(chunk)?.iter().any(|file| is_within(&file.path, folder)) {
                    return Ok(true);
                }
            }
        }
        Ok(false)
    }

    /// The paths of its files that are of one of `kinds`.
    ///
    /// # Errors
    /// It is damaged.
    pub fn paths(&self, kinds: &[Kind]) -> Result<HashSet<Vec<u8>>> {
        let mut paths = HashSet::new();
        for (at, segment) in self.segments.iter().enumerate() {
            for (chunk, group) in (0..).zip(segment.groups()?) {
                let files = segment.numbers(chunk)?.zip(group?);
                let live = files.filter(|(number, file)| {
                    kinds.contains(&file.kind) && !self.is_dead(at, *number) && !self.live.has(&file.path)
                });
                paths.extend(live.map(|(_, file)| file.path));
            }
        }
        Ok(paths)
    }
}

impl Segment {
    /// Takes the chunks out of `units` that have no file below one of `folders`; none where damage hides which these are.
    pub(crate) fn only_within(&self, folders: &[Vec<u8>], units: &mut Units) {
        let mut is_within = vec![false; units.len()];
        for folder in folders {
            let Range { start, end } = self.chunks_within(folder).unwrap_or(0..self.chunks());
            is_within[start as usize..end as usize].fill(true);
        }
        units.iter_mut().zip(is_within).filter(|(_, within)| !within).for_each(|(units, _)| *units = 0);
    }

    /// The chunks with the files below `folder`, and at most a few more before and after.
    fn chunks_within(&self, folder: &[u8]) -> Result<Range<u32>> {
        if folder.is_empty() {
            return Ok(0..self.chunks());
        }
        let begins: Vec<u32> = (0..self.chunks()).filter(|&chunk| !self.run(chunk).is_empty()).collect();
        let from = self.first(&begins, |file| by_path(&file.path, folder).is_ge())?;
        let to = self.first(&begins, |file| {
            by_path(&file.path, folder) == Ordering::Greater && !is_within(&file.path, folder)
        })?;
        let chunk = |at: usize| begins.get(at).copied().unwrap_or(self.chunks());
        // The chunk before may end with files of the folder.
        Ok(chunk(from.saturating_sub(1))..chunk(to))
    }

    /// The first of `begins` whose chunk begins with a file that is `beyond`, as are all after it.
    fn first(&self, begins: &[u32], beyond: impl Fn(&FileEntry) -> bool) -> Result<usize> {
        let (mut low, mut high) = (0, begins.len());
        while low < high {
            let middle = low.midpoint(high);
            let is_beyond = self.group(begins[middle])?.first().is_some_and(&beyond);
            if is_beyond { high = middle } else { low = middle + 1 }
        }
        Ok(low)
    }
}

fn is_within(path: &[u8], folder: &[u8]) -> bool {
    folder.is_empty() || path.strip_prefix(folder).is_some_and(|rest| rest.first() == Some(&b'/'))
}
