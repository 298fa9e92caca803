//! A database and a tree -> what has to be read.
//!
//! In: the files of both, in the same order. Out: which files of the database are out of date, and which of the tree are to be read.
//! Small segments that have become many are read again as one, as is one of which a third is out of date.
//!
//! What it does not do: write.

use std::path::Path;

use crate::content::Content;
use crate::damage::Damage;
use crate::database::Database;
use crate::error::{Error, Result};
use crate::files::{FileEntry, Kind, by_path};
use crate::folders::{Folders, Remembered};
use crate::rewalk::rewalk;
use crate::store::Part;
use crate::tuning as t;
use crate::walk::{Found, Walked, full, walk};

/// What an update is to do.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Change {
    /// The segments that stay, with what is out of date in them now.
    pub(crate) kept: Vec<Part>,
    /// In the order of paths.
    pub(crate) read: Vec<Found>,
    /// Files that are gone.
    pub(crate) removed: u64,
}

/// A file of the database that is not out of date.
pub(crate) struct Known {
    pub(crate) segment: usize,
    pub(crate) number: u32,
    pub(crate) entry: FileEntry,
}

/// What of a database is as it was written.
pub(crate) struct Sound {
    /// Its files, in order.
    pub(crate) known: Vec<Known>,
    /// Its segments, with all other files as out of date.
    pub(crate) segments: Vec<Part>,
    /// There are no others.
    is_all: bool,
}

/// The files of `database`. Those whose text or name is damaged are out of date.
///
/// # Errors
/// It can't be read.
pub(crate) fn sound(database: &Database, damage: &Damage) -> Result<Sound> {
    let mut known = Vec::new();
    let mut segments = database.manifest.segments.clone();
    let mut is_all = true;
    for (at, segment) in database.segments.iter().enumerate() {
        for (chunk, group) in (0..).zip(segment.groups()?) {
            let all = segment.numbers(chunk)?;
            let has_text = !segment.run(chunk).any(|part| damage.has_chunk(segment.path(), part));
            let is_live = |number: &u32| !database.is_dead(at, *number);
            match group {
                Ok(group) if has_text => known.extend(
                    all.zip(group).filter(|(number, _)| is_live(number)).map(|(number, entry)| Known {
                        segment: at,
                        number,
                        entry,
                    }),
                ),
                Ok(_) | Err(Error::Damaged { .. }) => {
                    is_all = false;
                    segments[at].dead.extend(all.filter(is_live));
                }
                Err(error) => return Err(error),
            }
        }
    }
    if database.segments.len() > 1 {
        known.sort_by(|a, b| by_path(&a.entry.path, &b.entry.path));
    }
    Ok(Sound { known, segments, is_all })
}

/// The tree of `database` as it is now, of which `sound` is known.
///
/// # Errors
/// As `walk`.
pub(crate) fn look(database: &Database, sound: &Sound, threads: usize) -> Result<Walked> {
    let (place, rules) = (&database.place, &database.manifest.rules);
    let remembered = Folders::load(&place.folder, database.manifest.generation);
    // Of a folder that has not changed nobody asks for files that are not known.
    if let Some(Remembered { folders, .. }) = remembered.filter(|_| sound.is_all && !database.is_cut) {
        let files: Vec<&[u8]> = sound.known.iter().map(|known| known.entry.path.as_slice()).collect();
        if let Some(walked) = rewalk(&place.root, rules, &files, &folders, threads)? {
            return Ok(walked);
        }
    }
    walk(&place.root, rules, threads)
}

/// Paths of files that are new, other or gone, in order; and those that are `marked`.
pub(crate) fn differences(root: &Path, known: &[Known], files: &[Found], marked: &[Vec<u8>]) -> Vec<Vec<u8>> {
    let mut paths = marked.to_vec();
    let mut known = known.iter().map(|known| &known.entry).peekable();
    for found in files {
        let is_before = |entry: &&FileEntry| by_path(&entry.path, &found.path).is_lt();
        paths.extend(std::iter::from_fn(|| known.next_if(is_before)).map(|gone| gone.path.clone()));
        match known.next_if(|entry| entry.path == found.path) {
            Some(entry) if is_same(root, entry, found) => {}
            _ => paths.push(found.path.clone()),
        }
    }
    paths.extend(known.map(|gone| gone.path.clone()));
    paths
}

/// Compares what is `sound` of `database` with `files`; all are in order, as are those that are `marked` as changed.
pub(crate) fn compare(
    database: &Database,
    sound: Sound,
    files: &[Found],
    marked: &[Vec<u8>],
    damage: &Damage,
) -> Change {
    let is_marked = |path: &Vec<u8>| marked.binary_search_by(|marked| by_path(marked, path)).is_ok();
    let Sound { known, segments: mut kept, .. } = sound;
    let root = &database.place.root;
    let (mut read, mut same) = (Vec::new(), Vec::new());
    let mut removed = 0;
    let mut known = known.into_iter().peekable();
    for found in files {
        while let Some(gone) = known.next_if(|known| by_path(&known.entry.path, &found.path).is_lt()) {
            kept[gone.segment].dead.push(gone.number);
            removed += 1;
        }
        match known.next_if(|known| known.entry.path == found.path) {
            Some(known) if is_same(root, &known.entry, found) && !is_marked(&found.path) => {
                same.push((known.segment, found));
            }
            Some(known) => {
                kept[known.segment].dead.push(known.number);
                read.push(found.clone());
            }
            None => read.push(found.clone()),
        }
    }
    for gone in known {
        kept[gone.segment].dead.push(gone.number);
        removed += 1;
    }
    kept.iter_mut().for_each(|part| part.dead.sort_unstable());
    let mut again = again(&kept);
    let lost = database.segments.iter().map(|segment| damage.has_all_of(segment.path()));
    again.iter_mut().zip(lost).for_each(|(again, lost)| *again |= lost);
    read.extend(same.into_iter().filter(|(at, _)| again[*at]).map(|(_, found)| found.clone()));
    read.sort_unstable_by(|a, b| by_path(&a.path, &b.path));
    let mut again = again.into_iter();
    kept.retain(|_| again.next() != Some(true));
    Change { kept, read, removed }
}

/// The file need not be read again. One that could not be read has to be as unreadable as it was: who may read it now does not show.
fn is_same(root: &Path, entry: &FileEntry, found: &Found) -> bool {
    let is_unreadable = || Content::open(&full(root, &entry.path)).is_err();
    entry.size_bytes == found.size_bytes
        && entry.mtime_ns == found.mtime_ns
        && entry.mtime_ns != 0
        && (entry.kind != Kind::Unreadable || is_unreadable())
}

/// Which segments are better written anew: where there are too many small ones the smallest, and what is not much larger than all of these
/// together, so that a few changed files never make much be written.
fn again(parts: &[Part]) -> Vec<bool> {
    let worn = |part: &Part| part.dead.len() as f64 > t::DEAD_SHARE_MAX * f64::from(part.files);
    let mut again: Vec<bool> = parts.iter().map(worn).collect();
    let is_small = |at: &usize| parts[*at].text_bytes < t::SMALL_SEGMENT_BYTES;
    let mut small: Vec<usize> = (0..parts.len()).filter(is_small).collect();
    if small.len() > t::SMALL_SEGMENTS_MAX {
        small.sort_by_key(|&at| parts[at].text_bytes);
        let mut bytes = 0;
        for (count, at) in small.into_iter().enumerate() {
            if count >= 2 && parts[at].text_bytes > 2 * bytes {
                break;
            }
            again[at] = true;
            bytes += parts[at].text_bytes;
        }
    }
    again
}

#[cfg(test)]
mod tests {
    use super::*;

    fn again_of(text_bytes: &[u64]) -> Vec<bool> {
        let part = |&text_bytes: &u64| Part { text_bytes, files: 3, ..Part::default() };
        again(&text_bytes.iter().map(part).collect::<Vec<_>>())
    }

    #[test]
    fn many_small_segments_become_one_and_larger_ones_stay() {
        let most = t::SMALL_SEGMENTS_MAX;
        assert_eq!(again_of(&vec![5; most]), vec![false; most]);
        assert_eq!(again_of(&vec![5; most + 1]), vec![true; most + 1]);
        let (large, middle) = (t::SMALL_SEGMENT_BYTES, t::SMALL_SEGMENT_BYTES / 2);
        let mut parts = vec![5; most];
        parts.extend([middle, large]);
        let mut expected = vec![true; most];
        expected.extend([false, false]);
        assert_eq!(again_of(&parts), expected);
    }

    #[test]
    fn a_segment_that_is_mostly_out_of_date_is_written_anew() {
        let part = |dead: Vec<u32>| Part { text_bytes: 1 << 40, files: 3, dead, ..Part::default() };
        assert_eq!(again(&[part(vec![]), part(vec![0, 1])]), [false, true]);
    }

    #[test]
    fn a_file_that_could_not_be_read_is_tried_again_once_it_can_be() {
        let root = tempfile::tempdir().unwrap();
        let found = Found { path: b"file".to_vec(), size_bytes: 4, mtime_ns: 7 };
        let entry = |kind| FileEntry {
            path: b"file".to_vec(),
            size_bytes: 4,
            mtime_ns: 7,
            kind,
            text_bytes: 0,
            ends_open: false,
        };
        assert!(is_same(root.path(), &entry(Kind::Unreadable), &found));
        std::fs::write(root.path().join("file"), "text").unwrap();
        assert!(!is_same(root.path(), &entry(Kind::Unreadable), &found));
        assert!(is_same(root.path(), &entry(Kind::Binary), &found));
    }
}
