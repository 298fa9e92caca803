//! What a database leaves out of its tree, and why.
//!
//! In: a database and its tree. Out: paths with a [`SkipReason`].
//!
//! It does not search or count them.

use std::collections::HashSet;
use std::fs::FileType;
use std::os::unix::ffi::OsStrExt;

use crate::error::Result;
use crate::fresh::plan::walk_again;
use crate::path::{FOLDER, disk_path, path_order, tree_path};
use crate::store::database::Database;
use crate::store::file_entry::FileKind;
use crate::store::inventory::Inventory;
use crate::tree::snapshot::FolderSnapshot;

/// Why a path of the tree is not searched.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum SkipReason {
    /// The name begins with a dot.
    Hidden,
    /// An ignore file, a glob or an expression excludes it.
    Ignored,
    /// A NUL byte in the first 64 KiB.
    Binary,
    /// It could not be read.
    Unreadable,
    /// It is a symbolic link. Links are not followed.
    Link,
    /// Neither a file nor a folder.
    Special,
}

impl Database {
    /// Walks the tree again. Returns the paths that are not searched, in path order. A skipped folder stands for everything in
    /// it.
    ///
    /// # Errors
    /// The tree can't be walked, or the database is damaged.
    pub fn skipped(&self, threads: usize) -> Result<Vec<(SkipReason, Vec<u8>)>> {
        let inventory = self.inventory()?;
        let walked = walk_again(self, &inventory, threads)?;
        let files = walked.files.iter().map(|file| &file.path);
        Ok(self.skipped_beside(&inventory, files, &walked.folders))
    }

    /// As [`skipped`](Self::skipped), for a caller that has just built or updated the database: it uses that walk if
    /// it can.
    ///
    /// # Errors
    /// As [`skipped`](Self::skipped).
    pub fn skipped_at_last_walk(&self, threads: usize) -> Result<Vec<(SkipReason, Vec<u8>)>> {
        let saved = FolderSnapshot::load(&self.location.folder, self.manifest.generation);
        let Some(folders) = saved else { return self.skipped(threads) };
        let inventory = self.inventory()?;
        let files = inventory.files.iter().map(|file| &file.entry.path);
        Ok(self.skipped_beside(&inventory, files, &folders))
    }

    /// The entries of `folders` that are neither in `files` nor in `folders`, and the files of `inventory` without
    /// text.
    fn skipped_beside<'f>(
        &self,
        inventory: &Inventory,
        files: impl Iterator<Item = &'f Vec<u8>>,
        folders: &FolderSnapshot,
    ) -> Vec<(SkipReason, Vec<u8>)> {
        let mut skipped: Vec<(SkipReason, Vec<u8>)> = Vec::new();
        for file in &inventory.files {
            match file.entry.kind {
                FileKind::Binary => skipped.push((SkipReason::Binary, file.entry.path.clone())),
                FileKind::Unreadable => skipped.push((SkipReason::Unreadable, file.entry.path.clone())),
                FileKind::Text | FileKind::LateBinary => {}
            }
        }
        let files: HashSet<&[u8]> = files.map(Vec::as_slice).collect();
        let root = &self.location.root;
        for folder in &folders.folders {
            let Ok(entries) = std::fs::read_dir(disk_path(root, &folder.path)) else {
                skipped.push((SkipReason::Unreadable, folder.path.clone()));
                continue;
            };
            for entry in entries.flatten() {
                let path = tree_path(root, &entry.path());
                let Ok(kind) = entry.file_type() else { continue };
                let is_known =
                    if kind.is_dir() { folders.contains(&path) } else { files.contains(&path[..]) };
                if is_known || entry.file_name() == FOLDER {
                    continue;
                }
                let is_hidden = entry.file_name().as_bytes().first() == Some(&b'.');
                skipped.push((self.skip_reason(is_hidden, kind), path));
            }
        }
        skipped.sort_by(|a, b| path_order(&a.1, &b.1));
        skipped
    }

    fn skip_reason(&self, is_hidden: bool, kind: FileType) -> SkipReason {
        if is_hidden && !self.manifest.rules.hidden {
            SkipReason::Hidden
        } else if kind.is_symlink() {
            SkipReason::Link
        } else if kind.is_dir() || kind.is_file() {
            SkipReason::Ignored
        } else {
            SkipReason::Special
        }
    }
}
