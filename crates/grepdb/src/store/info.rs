//! The files and the figures of an open database.
//!
//! In: a database. Out: its files in order; counts and sizes.
//!
//! It does not compare the database with the tree (`fresh`).

use crate::error::Result;
use crate::path::{disk_path, path_order};
use crate::store::database::Database;
use crate::store::file_entry::{FileEntry, FileKind};
use crate::tree::snapshot::FolderSnapshot;

/// Counts and sizes of a database.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DatabaseInfo {
    /// Files with text in the database, `late_binary` included.
    pub files: u64,
    /// Files with a NUL byte after the first 64 KiB. A search shows the text before it.
    pub late_binary: u64,
    /// Files marked as changed.
    pub marked: u64,
    /// Text in the database, out-of-date text included, bytes.
    pub text_bytes: u64,
    /// Size on disk, bytes.
    pub disk_bytes: u64,
    /// Size of the index on disk, bytes.
    pub index_bytes: u64,
    /// Segments.
    pub segments: u64,
    /// Chunks.
    pub chunks: u64,
    /// Files in the segments that are out of date.
    pub dead: u64,
    /// When the tree was last walked, ns since 1970.
    pub walked_ns: u64,
}

impl Database {
    /// All files in path order. A file in the overlay is listed if it exists on disk, as text of unknown size.
    ///
    /// # Errors
    /// The database is damaged.
    pub fn files(&self) -> Result<impl Iterator<Item = FileEntry> + use<>> {
        let mut files: Vec<FileEntry> = self.inventory()?.files.into_iter().map(|file| file.entry).collect();
        if self.overlay.len() > 0 {
            files.retain(|entry| !self.overlay.contains(&entry.path));
            let exists = |path: &&Vec<u8>| {
                let metadata = disk_path(&self.location.root, path).symlink_metadata();
                metadata.is_ok_and(|metadata| metadata.is_file())
            };
            let entry = |path: &Vec<u8>| FileEntry { path: path.clone(), ..FileEntry::default() };
            files.extend(self.overlay.in_tree().filter(exists).map(entry));
            files.sort_by(|a, b| path_order(&a.path, &b.path));
        }
        Ok(files.into_iter())
    }

    /// The tree paths of files that are searched on disk because they changed. Some may no longer exist.
    pub fn changed_paths(&self) -> impl Iterator<Item = &Vec<u8>> {
        self.overlay.in_tree()
    }

    /// Its counts and sizes.
    ///
    /// # Errors
    /// The database is damaged.
    pub fn info(&self) -> Result<DatabaseInfo> {
        let mut info = DatabaseInfo {
            segments: self.segments.len() as u64,
            walked_ns: self.walked_ns(),
            ..DatabaseInfo::default()
        };
        for file in self.inventory()?.files {
            info.files += u64::from(file.entry.kind.has_text());
            info.late_binary += u64::from(file.entry.kind == FileKind::LateBinary);
        }
        info.marked = self.overlay.len() as u64;
        for (segment, meta) in self.segments.iter().zip(&self.manifest.segments) {
            info.chunks += u64::from(segment.chunks());
            info.text_bytes += segment.text_bytes();
            info.dead += meta.tombstones.len() as u64;
            info.index_bytes += segment.index_bytes();
        }
        let entries = std::fs::read_dir(&self.location.folder).into_iter().flatten().flatten();
        info.disk_bytes =
            entries.filter_map(|entry| entry.metadata().ok()).map(|metadata| metadata.len()).sum();
        Ok(info)
    }

    /// When the tree was last walked, ns since 1970.
    pub fn walked_ns(&self) -> u64 {
        let saved = FolderSnapshot::load(&self.location.folder, self.manifest.generation);
        saved.map_or(self.manifest.walked_ns, |saved| saved.walked_ns)
    }
}
