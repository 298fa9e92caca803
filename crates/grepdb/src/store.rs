//! The folder of a database: which segments it consists of, and which of their files are out of date.
//!
//! ```text
//! manifest          what there is: replaced whole, by renaming
//! 00000007.segment  never changed; gone once no manifest names it
//! lock              held by who changes the database
//! ```
//! In: a folder. Out: its [`Manifest`], and its replacement by the next. A crash at any point leaves the manifest from before or the
//! one from after, and segments that no manifest names, which the next change removes.
//!
//! What it does not do: read or write what is in segments.

use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use crate::bytes::{Bytes, checksum, put};
use crate::damage;
use crate::error::{Error, Result};
use crate::segment::Segment;
use crate::source::{Group, Rules};

const MAGIC: [u8; 8] = *b"\x89flgman\n";
const VERSION: u32 = 2;
const NAME: &str = "manifest";

/// What a database consists of.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Manifest {
    /// The tree.
    pub(crate) root: PathBuf,
    pub(crate) rules: Rules,
    /// Rises with every change.
    pub(crate) generation: u64,
    /// Number of the next segment: none is ever used twice, or a reader could open another than its manifest names.
    pub(crate) next: u64,
    /// When the tree was last walked, ns since 1970.
    pub(crate) walked_ns: u64,
    pub(crate) segments: Vec<Part>,
}

/// A segment of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Part {
    pub(crate) number: u64,
    pub(crate) files: u32,
    pub(crate) text_bytes: u64,
    /// Numbers of the files that are out of date, ascending.
    pub(crate) dead: Vec<u32>,
}

/// The folder.
#[derive(Clone, Debug)]
pub(crate) struct Store(PathBuf);

impl Store {
    pub(crate) fn at(folder: &Path) -> Self {
        Self(folder.to_path_buf())
    }

    /// Where it is.
    pub(crate) fn folder(&self) -> &Path {
        &self.0
    }

    /// Where segment `number` lies.
    pub(crate) fn segment(&self, number: u64) -> PathBuf {
        self.0.join(format!("{number:08}.segment"))
    }

    /// A number above those of all segments in the folder, named or not.
    pub(crate) fn next(&self) -> u64 {
        self.segments().filter_map(|path| number(&path)).max().map_or(1, |last| last.saturating_add(1))
    }

    /// Opens a segment, which has to be the one that the manifest means.
    ///
    /// # Errors
    /// As [`Segment::open`]; one that is gone is damaged.
    pub(crate) fn open(&self, part: &Part) -> Result<Segment> {
        let path = self.segment(part.number);
        let damaged = || Error::Damaged { path: path.clone(), part: damage::Part::Segment };
        let segment = match Segment::open(&path) {
            Err(Error::Io { source, .. }) if source.kind() == std::io::ErrorKind::NotFound => {
                return Err(damaged());
            }
            opened => opened?,
        };
        if (segment.files(), segment.text_bytes()) != (part.files, part.text_bytes) {
            return Err(damaged());
        }
        Ok(segment)
    }

    /// Reads the manifest; `None` where there is no database.
    ///
    /// # Errors
    /// It can't be read, is damaged, or of another version.
    pub(crate) fn manifest(&self) -> Result<Option<Manifest>> {
        let path = self.0.join(NAME);
        let bytes = match fs::read(&path) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            read => read.map_err(Error::io("read", &path))?,
        };
        let damaged = || Error::Damaged { path: path.clone(), part: damage::Part::Manifest };
        let (body, crc) = bytes.split_last_chunk::<4>().ok_or_else(damaged)?;
        if checksum(body).to_le_bytes() != *crc {
            return Err(damaged());
        }
        let mut bytes = Bytes(body);
        if bytes.take(MAGIC.len()) != Some(&MAGIC) {
            return Err(damaged());
        }
        match bytes.u32() {
            Some(VERSION) => decode(&mut bytes).map(Some).ok_or_else(damaged),
            Some(found) => Err(Error::Version { path: path.clone(), found }),
            None => Err(damaged()),
        }
    }

    /// Makes the folder if need be, and keeps others from changing the database until the lock is dropped.
    ///
    /// # Errors
    /// Another process has it; the folder can't be written.
    pub(crate) fn lock(&self) -> Result<File> {
        // It holds the text of files that not everybody may read.
        let private = fs::DirBuilder::new().recursive(true).mode(0o700).create(&self.0);
        private.map_err(Error::io("create", &self.0))?;
        let path = self.0.join("lock");
        let open = OpenOptions::new().create(true).truncate(false).write(true).open(&path);
        let lock = open.map_err(Error::io("open", &path))?;
        match lock.try_lock() {
            Ok(()) => Ok(lock),
            Err(fs::TryLockError::WouldBlock) => Err(Error::Locked(self.0.clone())),
            Err(fs::TryLockError::Error(error)) => Err(Error::io("lock", &path)(error)),
        }
    }

    /// Replaces the manifest and then removes what it does not name. The segments that it names are complete and on the disk. Only with
    /// the lock.
    ///
    /// # Errors
    /// It can't be written; then the old one holds.
    pub(crate) fn commit(&self, manifest: &Manifest) -> Result<()> {
        let path = self.0.join(NAME);
        let aside = self.0.join("manifest.new");
        let write = || -> std::io::Result<()> {
            // The names of new segments first: a manifest that names them must not survive them.
            File::open(&self.0)?.sync_all()?;
            let mut file = File::create(&aside)?;
            file.write_all(&encode(manifest))?;
            file.sync_data()?;
            fs::rename(&aside, &path)?;
            File::open(&self.0)?.sync_all()
        };
        write().map_err(Error::io("write", &path))?;
        self.sweep(manifest);
        Ok(())
    }

    /// What `written` says. Where writing failed, segments from number `first` on are removed: the disk may be full of them.
    ///
    /// # Errors
    /// That of `written`.
    pub(crate) fn undone<T>(&self, first: u64, written: Result<T>) -> Result<T> {
        if written.is_err() {
            remove(self.segments().filter(|path| number(path).is_none_or(|number| number >= first)));
        }
        written
    }

    /// Segments in the folder.
    fn segments(&self) -> impl Iterator<Item = PathBuf> {
        let entries = fs::read_dir(&self.0).into_iter().flatten().flatten().map(|entry| entry.path());
        entries.filter(|path| path.extension().is_some_and(|ending| ending == "segment"))
    }

    /// Removes segments that `manifest` does not name. Readers that have them open keep them.
    fn sweep(&self, manifest: &Manifest) {
        let named: Vec<_> = manifest.segments.iter().map(|part| self.segment(part.number)).collect();
        remove(self.segments().filter(|path| !named.contains(path)));
    }
}

/// The number of the segment at `path`.
fn number(path: &Path) -> Option<u64> {
    path.file_stem()?.to_str()?.parse().ok()
}

fn remove(paths: impl Iterator<Item = PathBuf>) {
    for path in paths {
        // What can't be removed now will be with the next change.
        let _ = fs::remove_file(path);
    }
}

fn encode(manifest: &Manifest) -> Vec<u8> {
    let mut out = Vec::from(MAGIC);
    out.extend(VERSION.to_le_bytes());
    text(&mut out, manifest.root.as_os_str().as_encoded_bytes());
    put(&mut out, u64::from(manifest.rules.hidden) | u64::from(manifest.rules.no_ignore) << 1);
    put(&mut out, manifest.rules.globs.len() as u64);
    manifest.rules.globs.iter().for_each(|glob| text(&mut out, glob.as_bytes()));
    put(&mut out, manifest.rules.groups.len() as u64);
    manifest.rules.groups.iter().for_each(|group| encode_group(&mut out, group));
    put(&mut out, manifest.generation);
    put(&mut out, manifest.next);
    put(&mut out, manifest.walked_ns);
    put(&mut out, manifest.segments.len() as u64);
    for part in &manifest.segments {
        put(&mut out, part.number);
        put(&mut out, u64::from(part.files));
        put(&mut out, part.text_bytes);
        put(&mut out, part.dead.len() as u64);
        let after = std::iter::once(0).chain(part.dead.iter().map(|dead| dead + 1));
        after.zip(&part.dead).for_each(|(after, dead)| put(&mut out, u64::from(dead - after)));
    }
    let crc = checksum(&out);
    out.extend(crc.to_le_bytes());
    out
}

fn decode(bytes: &mut Bytes<'_>) -> Option<Manifest> {
    let root = path(bytes)?;
    let flags = bytes.number()?;
    let globs = strings(bytes)?;
    let groups = (0..bytes.len()?).map(|_| decode_group(bytes)).collect::<Option<_>>()?;
    let rules = Rules { hidden: flags & 1 != 0, no_ignore: flags & 2 != 0, globs, groups };
    let (generation, next, walked_ns) = (bytes.number()?, bytes.number()?, bytes.number()?);
    let parts = (0..bytes.len()?).map(|_| {
        let (number, files, text_bytes) =
            (bytes.number()?, bytes.number()?.try_into().ok()?, bytes.number()?);
        let count = bytes.len()?;
        let mut after = 0_u32;
        let dead = (0..count).map(|_| {
            let dead = after.checked_add(bytes.number()?.try_into().ok()?).filter(|&dead| dead < files)?;
            after = dead + 1;
            Some(dead)
        });
        let dead = dead.collect::<Option<_>>()?;
        (number < next).then_some(Part { number, files, text_bytes, dead })
    });
    let segments = parts.collect::<Option<_>>()?;
    let is_all = bytes.0.is_empty();
    is_all.then_some(Manifest { root, rules, generation, next, walked_ns, segments })
}

fn encode_group(out: &mut Vec<u8>, group: &Group) {
    for paths in [&group.folders, &group.files] {
        put(out, paths.len() as u64);
        paths.iter().for_each(|path| text(out, path.as_os_str().as_encoded_bytes()));
    }
    put(out, group.include.len() as u64);
    for expressions in group.include.iter().chain([&group.exclude]) {
        put(out, expressions.len() as u64);
        expressions.iter().for_each(|expression| text(out, expression.as_bytes()));
    }
}

fn decode_group(bytes: &mut Bytes<'_>) -> Option<Group> {
    let mut paths = || (0..bytes.len()?).map(|_| path(bytes)).collect::<Option<Vec<_>>>();
    let (folders, files) = (paths()?, paths()?);
    let include = (0..bytes.len()?).map(|_| strings(bytes)).collect::<Option<_>>()?;
    Some(Group { folders, files, include, exclude: strings(bytes)? })
}

fn path(bytes: &mut Bytes<'_>) -> Option<PathBuf> {
    use std::os::unix::ffi::OsStringExt;

    Some(std::ffi::OsString::from_vec(taken(bytes)?.to_vec()).into())
}

fn strings(bytes: &mut Bytes<'_>) -> Option<Vec<String>> {
    (0..bytes.len()?).map(|_| String::from_utf8(taken(bytes)?.to_vec()).ok()).collect()
}

fn text(out: &mut Vec<u8>, bytes: &[u8]) {
    put(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

fn taken<'a>(bytes: &mut Bytes<'a>) -> Option<&'a [u8]> {
    let len = bytes.len()?;
    bytes.take(len)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn manifest() -> Manifest {
        Manifest {
            root: "/tree".into(),
            rules: Rules {
                hidden: true,
                no_ignore: false,
                globs: vec!["*.c".into(), "!x".into()],
                groups: vec![Group {
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
                Part { number: 1, files: 500, text_bytes: 1 << 33, dead: vec![0, 3, 4, 499] },
                Part { number: 9, files: 1, text_bytes: 10, dead: vec![] },
            ],
        }
    }

    #[test]
    fn what_was_committed_is_read_and_the_rest_removed() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::at(folder.path());
        assert_eq!(store.manifest().unwrap(), None);
        let lock = store.lock().unwrap();
        for number in [1, 2, 9] {
            fs::write(store.segment(number), "").unwrap();
        }
        store.commit(&manifest()).unwrap();
        drop(lock);
        assert_eq!(store.manifest().unwrap(), Some(manifest()));
        let there = |number| store.segment(number).exists();
        assert!(there(1) && !there(2) && there(9));
    }

    #[test]
    fn two_writers_are_one_too_many() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::at(folder.path());
        let _lock = store.lock().unwrap();
        assert!(store.lock().unwrap_err().to_string().contains("another process"));
    }

    #[test]
    fn any_other_bit_of_a_manifest_is_noticed() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::at(folder.path());
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
