//! A database and its tree -> the work of an update.
//!
//! In: the files of both, in path order. Out: which files to read, which segments stay, and their new tombstones.
//! Small segments that became many are merged, and a segment with a third of its files out of date is rewritten.
//!
//! It does not write anything (`build`).

use std::path::Path;

use crate::error::Result;
use crate::path::{disk_path, path_order};
use crate::store::damage_log::DamageLog;
use crate::store::database::Database;
use crate::store::file_entry::{FileEntry, FileKind};
use crate::store::inventory::{Inventory, InventoryFile};
use crate::store::manifest::SegmentMeta;
use crate::tree::content::open_text;
use crate::tree::rewalk::rewalk;
use crate::tree::snapshot::FolderSnapshot;
use crate::tree::walk::{TreeFile, WalkResult, walk};
use crate::tuning as t;

#[derive(Debug, PartialEq, Eq)]
pub(crate) struct UpdatePlan {
    /// The segments that stay, with all their tombstones.
    pub(crate) kept: Vec<SegmentMeta>,
    /// The files to read, in path order.
    pub(crate) read: Vec<TreeFile>,
    /// Number of files that left the tree.
    pub(crate) removed: u64,
}

/// Walks the tree of `database`, and skips unchanged folders if it can.
pub(crate) fn walk_again(database: &Database, inventory: &Inventory, threads: usize) -> Result<WalkResult> {
    let (location, rules) = (&database.location, &database.manifest.rules);
    let saved = FolderSnapshot::load(&location.folder, database.manifest.generation);
    // A rewalk does not list unchanged folders. It would miss files that are in the tree but not in the inventory.
    let may_rewalk = inventory.is_complete && !database.lacks_segments;
    if let Some(folders) = saved.filter(|_| may_rewalk) {
        let files: Vec<&[u8]> = inventory.files.iter().map(|file| file.entry.path.as_slice()).collect();
        if let Some(walked) = rewalk(&location.root, rules, &files, &folders, threads)? {
            return Ok(walked);
        }
    }
    walk(&location.root, rules, threads)
}

/// The paths of new, changed and removed files in path order, after those that are `marked`.
pub(crate) fn changed_paths(
    root: &Path,
    known: &[InventoryFile],
    files: &[TreeFile],
    marked: &[Vec<u8>],
) -> Vec<Vec<u8>> {
    let mut paths = marked.to_vec();
    let mut known = known.iter().map(|known| &known.entry).peekable();
    for file in files {
        let is_before = |entry: &&FileEntry| path_order(&entry.path, &file.path).is_lt();
        paths.extend(std::iter::from_fn(|| known.next_if(is_before)).map(|removed| removed.path.clone()));
        match known.next_if(|entry| entry.path == file.path) {
            Some(entry) if is_unchanged(root, entry, file) => {}
            _ => paths.push(file.path.clone()),
        }
    }
    paths.extend(known.map(|removed| removed.path.clone()));
    paths
}

/// Compares `inventory` with the `files` of the tree. `marked` lists files that must be read again. All three are in
/// path order.
pub(crate) fn plan_update(
    database: &Database,
    inventory: Inventory,
    files: &[TreeFile],
    marked: &[Vec<u8>],
    damage: &DamageLog,
) -> UpdatePlan {
    let is_marked = |path: &Vec<u8>| marked.binary_search_by(|marked| path_order(marked, path)).is_ok();
    let Inventory { files: known, segments: mut kept, .. } = inventory;
    let root = &database.location.root;
    let (mut read, mut unchanged) = (Vec::new(), Vec::new());
    let mut removed = 0;
    let mut known = known.into_iter().peekable();
    for file in files {
        while let Some(gone) = known.next_if(|known| path_order(&known.entry.path, &file.path).is_lt()) {
            kept[gone.segment].tombstones.push(gone.number);
            removed += 1;
        }
        match known.next_if(|known| known.entry.path == file.path) {
            Some(known) if is_unchanged(root, &known.entry, file) && !is_marked(&file.path) => {
                unchanged.push((known.segment, file));
            }
            Some(known) => {
                kept[known.segment].tombstones.push(known.number);
                read.push(file.clone());
            }
            None => read.push(file.clone()),
        }
    }
    for gone in known {
        kept[gone.segment].tombstones.push(gone.number);
        removed += 1;
    }
    kept.iter_mut().for_each(|meta| meta.tombstones.sort_unstable());
    let mut rewritten = segments_to_rewrite(&kept);
    let damaged = database.segments.iter().map(|segment| damage.has(segment.path(), None));
    rewritten.iter_mut().zip(damaged).for_each(|(rewritten, damaged)| *rewritten |= damaged);
    read.extend(unchanged.into_iter().filter(|(at, _)| rewritten[*at]).map(|(_, file)| file.clone()));
    read.sort_unstable_by(|a, b| path_order(&a.path, &b.path));
    let mut rewritten = rewritten.into_iter();
    kept.retain(|_| rewritten.next() != Some(true));
    UpdatePlan { kept, read, removed }
}

/// Whether the entry still describes the file on disk. An unreadable file must still be unreadable: a change of
/// permissions leaves size and time as they were.
fn is_unchanged(root: &Path, entry: &FileEntry, file: &TreeFile) -> bool {
    let is_unreadable = || open_text(&disk_path(root, &entry.path)).is_err();
    entry.size_bytes == file.size_bytes
        && entry.mtime_ns == file.mtime_ns
        && entry.mtime_ns != 0
        && (entry.kind != FileKind::Unreadable || is_unreadable())
}

/// Which segments to rewrite: those with too many tombstones, and the smallest ones if there are too many small ones.
/// Merging stops at a segment much larger than all smaller ones together, so that a few changed files never rewrite
/// much text.
fn segments_to_rewrite(metas: &[SegmentMeta]) -> Vec<bool> {
    let is_stale =
        |meta: &SegmentMeta| meta.tombstones.len() as f64 > t::DEAD_SHARE_MAX * f64::from(meta.files);
    let mut rewritten: Vec<bool> = metas.iter().map(is_stale).collect();
    let is_small = |at: &usize| metas[*at].text_bytes < t::SMALL_SEGMENT_BYTES;
    let mut small: Vec<usize> = (0..metas.len()).filter(is_small).collect();
    if small.len() > t::SMALL_SEGMENTS_MAX {
        small.sort_by_key(|&at| metas[at].text_bytes);
        let mut bytes = 0;
        for (count, at) in small.into_iter().enumerate() {
            if count >= 2 && metas[at].text_bytes > 2 * bytes {
                break;
            }
            rewritten[at] = true;
            bytes += metas[at].text_bytes;
        }
    }
    rewritten
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rewritten(text_bytes: &[u64]) -> Vec<bool> {
        let meta = |&text_bytes: &u64| SegmentMeta { text_bytes, files: 3, ..SegmentMeta::default() };
        segments_to_rewrite(&text_bytes.iter().map(meta).collect::<Vec<_>>())
    }

    #[test]
    fn many_small_segments_become_one_and_larger_ones_stay() {
        let most = t::SMALL_SEGMENTS_MAX;
        assert_eq!(rewritten(&vec![5; most]), vec![false; most]);
        assert_eq!(rewritten(&vec![5; most + 1]), vec![true; most + 1]);
        let (large, middle) = (t::SMALL_SEGMENT_BYTES, t::SMALL_SEGMENT_BYTES / 2);
        let mut sizes = vec![5; most];
        sizes.extend([middle, large]);
        let mut expected = vec![true; most];
        expected.extend([false, false]);
        assert_eq!(rewritten(&sizes), expected);
    }

    #[test]
    fn a_segment_that_is_mostly_out_of_date_is_written_anew() {
        let meta =
            |tombstones| SegmentMeta { text_bytes: 1 << 40, files: 3, tombstones, ..SegmentMeta::default() };
        assert_eq!(segments_to_rewrite(&[meta(vec![]), meta(vec![0, 1])]), [false, true]);
    }

    #[test]
    fn a_file_that_could_not_be_read_is_tried_again_once_it_can_be() {
        let root = tempfile::tempdir().unwrap();
        let file = TreeFile { path: b"file".to_vec(), size_bytes: 4, mtime_ns: 7 };
        let path = b"file".to_vec();
        let entry =
            |kind| FileEntry { path: path.clone(), size_bytes: 4, mtime_ns: 7, kind, ..FileEntry::default() };
        assert!(is_unchanged(root.path(), &entry(FileKind::Unreadable), &file));
        std::fs::write(root.path().join("file"), "text").unwrap();
        assert!(!is_unchanged(root.path(), &entry(FileKind::Unreadable), &file));
        assert!(is_unchanged(root.path(), &entry(FileKind::Binary), &file));
    }
}
