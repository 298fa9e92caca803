//! What a database knows of its files and of itself.
//!
//! In: an open database. Out: its files in order; figures; and what of the tree is not in it.
//!
//! What it does not do: look whether it is up to date (`database`).

use std::collections::HashSet;
use std::os::unix::ffi::OsStrExt;

use crate::database::Database;
use crate::error::Result;
use crate::files::{FileEntry, Kind};
use crate::folders::{Folders, Remembered};
use crate::update::{self, Sound};
use crate::walk::{below, full};

/// Figures of a database.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Info {
    /// Files whose text it holds.
    pub files: u64,
    /// Of them those of which only the text before a NUL byte is shown.
    pub late_binary: u64,
    /// Files that it knows and left out, for a NUL byte near the beginning.
    pub binary: u64,
    /// Files that it knows and could not read.
    pub unreadable: u64,
    /// Files that are marked as changed.
    pub marked: u64,
    /// Text in it, bytes; also what is out of date.
    pub text_bytes: u64,
    /// Bytes on disk.
    pub disk_bytes: u64,
    /// Of them the index.
    pub index_bytes: u64,
    /// Files of the database.
    pub segments: u64,
    /// Chunks.
    pub chunks: u64,
    /// Files in it that are out of date.
    pub dead: u64,
    /// When the tree was last looked at, ns since 1970.
    pub walked_ns: u64,
}

/// Why something of the tree is not searched.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Skip {
    /// Its name begins with a dot.
    Hidden,
    /// A file of rules, a glob or an expression says so.
    Ignored,
    /// A NUL byte in its first 64 KiB.
    Binary,
    /// It could not be read.
    Unreadable,
    /// It is a link; what it leads to may be searched where it is.
    Link,
    /// No file and no folder.
    Special,
}

impl Database {
    /// Its files in order, with what became of them. Those of the tree that are marked as changed or, after [`refresh`](Self::refresh),
    /// have changed are there if they are there on disk.
    ///
    /// # Errors
    /// It is damaged.
    pub fn files(&self) -> Result<impl Iterator<Item = FileEntry> + use<>> {
        let mut files: Vec<FileEntry> = self.sound()?.known.into_iter().map(|known| known.entry).collect();
        if self.live.len() > 0 {
            files.retain(|entry| !self.live.has(&entry.path));
            let live = self.live.on_disk(&self.place, &|_| true, &<[u8]>::to_vec);
            files.extend(live.map(|live| FileEntry {
                path: live.place,
                size_bytes: 0,
                mtime_ns: 0,
                kind: Kind::Text,
                text_bytes: 0,
                ends_open: false,
            }));
            files.sort_by(|a, b| crate::files::by_path(&a.path, &b.path));
        }
        Ok(files.into_iter())
    }

    /// The paths of files that are searched on disk because they have changed, there or not.
    pub fn changed(&self) -> &[Vec<u8>] {
        self.live.paths()
    }

    /// Its figures.
    ///
    /// # Errors
    /// It is damaged.
    pub fn info(&self) -> Result<Info> {
        let mut info =
            Info { segments: self.segments.len() as u64, walked_ns: self.walked_ns(), ..Info::default() };
        for known in self.sound()?.known {
            *match known.entry.kind {
                Kind::Text => &mut info.files,
                Kind::LateBinary => &mut info.late_binary,
                Kind::Binary => &mut info.binary,
                Kind::Unreadable => &mut info.unreadable,
            } += 1;
        }
        info.files += info.late_binary;
        info.marked = self.live.len() as u64;
        for (segment, part) in self.segments.iter().zip(&self.manifest.segments) {
            info.chunks += u64::from(segment.chunks());
            info.text_bytes += segment.text_bytes();
            info.dead += part.dead.len() as u64;
            info.index_bytes += segment.index_bytes();
        }
        let entries = std::fs::read_dir(&self.place.folder).into_iter().flatten().flatten();
        info.disk_bytes =
            entries.filter_map(|entry| entry.metadata().ok()).map(|metadata| metadata.len()).sum();
        Ok(info)
    }

    /// When the tree was last looked at, ns since 1970.
    pub fn walked_ns(&self) -> u64 {
        let remembered = Folders::load(&self.place.folder, self.manifest.generation);
        remembered.map_or(self.manifest.walked_ns, |remembered| remembered.walked_ns)
    }

    /// What of its folders is not searched and why, in order: folders that were not walked stand for all that is in them.
    ///
    /// # Errors
    /// It is damaged.
    pub fn skipped(&self, threads: usize) -> Result<Vec<(Skip, Vec<u8>)>> {
        let sound = self.sound()?;
        let walked = update::look(self, &sound, threads)?;
        Ok(self.others(&sound, walked.files.iter().map(|found| &found.path), &walked.folders))
    }

    /// As [`skipped`](Self::skipped), of the tree as it was when it was last looked at: for who has just done that.
    ///
    /// # Errors
    /// It is damaged.
    pub fn skipped_then(&self, threads: usize) -> Result<Vec<(Skip, Vec<u8>)>> {
        match Folders::load(&self.place.folder, self.manifest.generation) {
            Some(Remembered { folders, .. }) => {
                let sound = self.sound()?;
                Ok(self.others(&sound, sound.known.iter().map(|known| &known.entry.path), &folders))
            }
            None => self.skipped(threads),
        }
    }

    /// What is neither one of `files` nor of `folders`, and which of what is `sound` has no text.
    fn others<'f>(
        &self,
        sound: &Sound,
        files: impl Iterator<Item = &'f Vec<u8>>,
        folders: &Folders,
    ) -> Vec<(Skip, Vec<u8>)> {
        let mut skipped: Vec<(Skip, Vec<u8>)> = Vec::new();
        for known in &sound.known {
            match known.entry.kind {
                Kind::Binary => skipped.push((Skip::Binary, known.entry.path.clone())),
                Kind::Unreadable => skipped.push((Skip::Unreadable, known.entry.path.clone())),
                Kind::Text | Kind::LateBinary => {}
            }
        }
        let files: HashSet<&[u8]> = files.map(Vec::as_slice).collect();
        for folder in &folders.folders {
            let Ok(entries) = std::fs::read_dir(full(&self.place.root, &folder.path)) else {
                skipped.push((Skip::Unreadable, folder.path.clone()));
                continue;
            };
            for entry in entries.flatten() {
                let path = below(&self.place.root, &entry.path());
                let Ok(kind) = entry.file_type() else { continue };
                let is_taken = if kind.is_dir() { folders.has(&path) } else { files.contains(&path[..]) };
                let is_ours = entry.file_name() == crate::walk::FOLDER;
                if is_taken || is_ours {
                    continue;
                }
                let is_hidden = entry.file_name().as_bytes().first() == Some(&b'.');
                let why = match () {
                    () if is_hidden && !self.manifest.rules.hidden => Skip::Hidden,
                    () if kind.is_symlink() => Skip::Link,
                    () if kind.is_dir() || kind.is_file() => Skip::Ignored,
                    () => Skip::Special,
                };
                skipped.push((why, path));
            }
        }
        skipped.sort_by(|a, b| crate::files::by_path(&a.1, &b.1));
        skipped
    }
}
