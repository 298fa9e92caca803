//! The manifest: the segments of a database and their tombstones.
//!
//! ```text
//! manifest          replaced as a whole, by renaming
//! 00000007.segment  never changed; removed once no manifest names it
//! lock              held by the process that changes the database
//! ```
//! In: a folder. Out: its [`Manifest`], and its replacement by the next. A crash leaves the old manifest or the new
//! one, and perhaps segments that no manifest names. The next change removes those.
//!
//! It does not read or write segments.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::encoding::{seal, unseal};
use crate::error::{DamagedPart, Error, Result};
use crate::store::file_lock::FileLock;
use crate::store::segment::Segment;
use crate::tree::rules::Rules;

const MAGIC: [u8; 8] = *b"\x89flgman\n";
const VERSION: u32 = 3;
const NAME: &str = "manifest";

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Manifest {
    pub(crate) root: OsString,
    pub(crate) rules: Rules,
    /// Grows with every change.
    pub(crate) generation: u64,
    /// Number of the next segment. No number is used twice: a reader with an old manifest could open the wrong
    /// segment.
    pub(crate) next: u64,
    /// When the tree was last walked, ns since 1970.
    pub(crate) walked_ns: u64,
    pub(crate) segments: Vec<SegmentMeta>,
}

/// A segment, and what changed in it since it was written.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SegmentMeta {
    pub(crate) number: u64,
    pub(crate) files: u32,
    pub(crate) text_bytes: u64,
    /// Numbers of the files that are out of date, ascending.
    pub(crate) tombstones: Vec<u32>,
}

#[derive(Clone, Debug)]
pub(crate) struct DatabaseFolder(PathBuf);

impl DatabaseFolder {
    pub(crate) fn at(folder: &Path) -> Self {
        Self(folder.to_path_buf())
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    pub(crate) fn segment_path(&self, number: u64) -> PathBuf {
        self.0.join(format!("{number:08}.segment"))
    }

    /// A number higher than that of any segment in the folder.
    pub(crate) fn next(&self) -> u64 {
        self.segments().filter_map(|path| number(&path)).max().map_or(1, |last| last.saturating_add(1))
    }

    /// Opens the segment that the manifest describes with `meta`.
    /// A missing segment, or another one, counts as damaged.
    pub(crate) fn open(&self, meta: &SegmentMeta) -> Result<Segment> {
        let path = self.segment_path(meta.number);
        let damaged = || Error::Damaged { path: path.clone(), part: DamagedPart::Segment };
        let segment = match Segment::open(&path) {
            Err(Error::Io { source, .. }) if source.kind() == std::io::ErrorKind::NotFound => {
                return Err(damaged());
            }
            opened => opened?,
        };
        if (segment.files(), segment.text_bytes()) != (meta.files, meta.text_bytes) {
            return Err(damaged());
        }
        Ok(segment)
    }

    /// Reads the manifest. Returns `None` if there is no database.
    pub(crate) fn manifest(&self) -> Result<Option<Manifest>> {
        let path = self.0.join(NAME);
        let bytes = match fs::read(&path) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            read => read.map_err(Error::io("read", &path))?,
        };
        let damaged = || Error::Damaged { path: path.clone(), part: DamagedPart::Manifest };
        let mut bytes = unseal(&bytes).ok_or_else(damaged)?;
        if bytes.take(MAGIC.len()) != Some(&MAGIC) {
            return Err(damaged());
        }
        match bytes.u32() {
            Some(VERSION) => bytes.value().filter(Manifest::is_sound).map(Some).ok_or_else(damaged),
            Some(found) => Err(Error::Version { path: path.clone(), found }),
            None => Err(damaged()),
        }
    }

    /// Creates the folder if necessary. Locks the database against other changes until the lock is dropped.
    /// Fails if another process holds it.
    pub(crate) fn lock(&self) -> Result<FileLock> {
        // The database holds the text of files that other users may not be allowed to read.
        let private = fs::DirBuilder::new().recursive(true).mode(0o700).create(&self.0);
        private.map_err(Error::io("create", &self.0))?;
        let path = self.0.join("lock");
        let lock = FileLock::try_at(&path).map_err(Error::io("lock", &path))?;
        lock.ok_or_else(|| Error::Locked(self.0.clone()))
    }

    /// Replaces the manifest, then removes all segments that it does not name. The new segments must be complete and
    /// synced, and the caller must hold the lock.
    /// If it can't be written, the old one stays in force.
    pub(crate) fn commit(&self, manifest: &Manifest) -> Result<()> {
        let path = self.0.join(NAME);
        let aside = self.0.join("manifest.new");
        let write = || -> std::io::Result<()> {
            // First the directory entries of the new segments: no manifest may name a segment that a crash could
            // still lose.
            File::open(&self.0)?.sync_all()?;
            let mut file = File::create(&aside)?;
            file.write_all(&encode(manifest))?;
            file.sync_data()?;
            fs::rename(&aside, &path)?;
            File::open(&self.0)?.sync_all()
        };
        write().map_err(Error::io("write", &path))?;
        // A reader that has one open can go on reading it.
        let named: Vec<_> = manifest.segments.iter().map(|meta| self.segment_path(meta.number)).collect();
        remove(self.segments().filter(|path| !named.contains(path)));
        Ok(())
    }

    /// Returns `written`. If it is an error, removes all segments from number `first` on: they may have filled the
    /// disk.
    pub(crate) fn remove_on_error<T>(&self, first: u64, written: Result<T>) -> Result<T> {
        if written.is_err() {
            remove(self.segments().filter(|path| number(path).is_none_or(|number| number >= first)));
        }
        written
    }

    fn segments(&self) -> impl Iterator<Item = PathBuf> {
        let entries = fs::read_dir(&self.0).into_iter().flatten().flatten().map(|entry| entry.path());
        entries.filter(|path| path.extension().is_some_and(|ending| ending == "segment"))
    }
}

fn number(path: &Path) -> Option<u64> {
    path.file_stem()?.to_str()?.parse().ok()
}

fn remove(paths: impl Iterator<Item = PathBuf>) {
    for path in paths {
        // The next change tries again.
        let _ = fs::remove_file(path);
    }
}

fn encode(manifest: &Manifest) -> Vec<u8> {
    seal(&[&MAGIC[..], &VERSION.to_le_bytes()].concat(), manifest)
}

impl Manifest {
    /// Whether the numbers in it fit together.
    fn is_sound(&self) -> bool {
        self.segments.iter().all(|meta| {
            meta.number < self.next
                && meta.tombstones.is_sorted_by(|a, b| a < b)
                && meta.tombstones.last().is_none_or(|last| *last < meta.files)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::rules::RuleGroup;

    fn manifest() -> Manifest {
        Manifest {
            root: "/tree".into(),
            rules: Rules {
                hidden: true,
                no_ignore: false,
                globs: vec!["*.c".into(), "!x".into()],
                groups: vec![RuleGroup {
                    folders: vec!["/tree".into()],
                    files: vec!["/tree/x".into()],
                    include: vec![vec!["c$".into()], vec![]],
                    exclude: vec!["o".into()],
                }],
            },
            generation: 7,
            next: 12,
            walked_ns: 1 << 60,
            segments: vec![
                SegmentMeta { number: 1, files: 500, text_bytes: 1 << 33, tombstones: vec![0, 3, 4, 499] },
                SegmentMeta { number: 9, files: 1, text_bytes: 10, tombstones: vec![] },
            ],
        }
    }

    #[test]
    fn what_was_committed_is_read_and_the_rest_removed() {
        let folder = tempfile::tempdir().unwrap();
        let store = DatabaseFolder::at(folder.path());
        assert_eq!(store.manifest().unwrap(), None);
        let lock = store.lock().unwrap();
        for number in [1, 2, 9] {
            fs::write(store.segment_path(number), "").unwrap();
        }
        store.commit(&manifest()).unwrap();
        drop(lock);
        assert_eq!(store.manifest().unwrap(), Some(manifest()));
        let there = |number| store.segment_path(number).exists();
        assert!(there(1) && !there(2) && there(9));
    }

    #[test]
    fn any_other_bit_of_a_manifest_is_noticed() {
        let folder = tempfile::tempdir().unwrap();
        let store = DatabaseFolder::at(folder.path());
        let bytes = encode(&manifest());
        for at in 0..bytes.len() * 8 {
            let mut bytes = bytes.clone();
            bytes[at / 8] ^= 1 << (at % 8);
            fs::write(folder.path().join(NAME), &bytes).unwrap();
            assert!(matches!(store.manifest(), Err(Error::Damaged { .. })), "bit {at}");
        }
        for len in 0..bytes.len() {
            fs::write(folder.path().join(NAME), &bytes[..len]).unwrap();
            assert!(matches!(store.manifest(), Err(Error::Damaged { .. })), "{len} bytes");
        }
    }
}
