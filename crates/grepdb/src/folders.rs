//! What a walk remembers for the next: folders with their times, and the files whose rules it followed.
//!
//! In: folders as they are walked. Out: a file beside the manifest, and back. A folder that has the time it had has the names it had,
//! so only its files are looked at; one file of rules that is not as it was, and all is walked anew.
//!
//! What it does not do: walk.

use std::ffi::OsStr;
use std::fs::Metadata;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use crate::bytes::{Bytes, checksum, put};
use crate::files::by_path;
use crate::source::{Rules, Source};
use crate::walk::{full, settled_ctime_ns};

const MAGIC: [u8; 8] = *b"\x89flgfld\n";
const NAME: &str = "folders";
/// Names that say which others are left out.
const RULES: [&str; 4] = [".gitignore", ".ignore", ".rgignore", ".git"];

/// Where a walk has been.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Folders {
    /// In the order of paths.
    pub(crate) folders: Vec<Folder>,
    /// Files of rules that there are in them.
    rules: Vec<Stamp>,
    /// Files of rules that count for them but lie elsewhere, whether there are any or not.
    outside: Vec<Stamp>,
}

/// What was remembered.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Remembered {
    pub(crate) folders: Folders,
    /// When all was last looked at, ns since 1970.
    pub(crate) walked_ns: u64,
}

/// A folder that was walked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Folder {
    /// Below the root.
    pub(crate) path: Vec<u8>,
    /// When it last got or lost a name, ns since 1970: nobody can set this time back. 0 where it may get another within the same tick.
    pub(crate) ctime_ns: u64,
}

/// How a file of rules was.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Stamp {
    path: PathBuf,
    /// Its size and time, where it is there. Time 0 is nobody's: whoever has it is looked at again.
    state: Option<(u64, u64)>,
}

impl Folders {
    /// None yet, but what lies above the `sources` and counts for them.
    pub(crate) fn outside(rules: &Rules, sources: &[Source], begin_ns: u64) -> Self {
        let mut outside = Vec::new();
        if !rules.no_ignore {
            for folder in sources.iter().flat_map(|source| source.root.ancestors().skip(1)) {
                outside.extend(RULES.iter().flat_map(|name| Stamp::of(&folder.join(name), begin_ns)));
            }
            let everywhere = ignore::gitignore::gitconfig_excludes_path();
            outside.extend(everywhere.iter().flat_map(|path| Stamp::of(path, begin_ns)));
        }
        outside.dedup();
        Self { outside, ..Self::default() }
    }

    /// Takes a folder and what rules it has.
    pub(crate) fn note(
        &mut self,
        root: &Path,
        path: Vec<u8>,
        metadata: &Metadata,
        rules: &Rules,
        begin_ns: u64,
    ) {
        if !rules.no_ignore {
            let folder = full(root, &path);
            let stamps = RULES.map(|name| Stamp::of(&folder.join(name), begin_ns));
            let there = stamps.into_iter().filter(|of| of.first().is_some_and(|stamp| stamp.state.is_some()));
            self.rules.extend(there.flatten());
        }
        self.folders.push(Folder { path, ctime_ns: settled_ctime_ns(metadata, begin_ns) });
    }

    pub(crate) fn append(&mut self, other: &mut Self) {
        self.folders.append(&mut other.folders);
        self.rules.append(&mut other.rules);
    }

    pub(crate) fn sort(&mut self) {
        self.folders.sort_unstable_by(|a, b| by_path(&a.path, &b.path));
        self.folders.dedup_by(|a, b| a.path == b.path);
        self.rules.sort_unstable_by(|a, b| a.path.cmp(&b.path));
        self.rules.dedup_by(|a, b| a.path == b.path);
    }

    /// Whether the same rules hold as then, and the stamps that say so.
    pub(crate) fn same_rules(&self, rules: &Rules, sources: &[Source], begin_ns: u64) -> Option<Self> {
        let now = Self::outside(rules, sources, begin_ns);
        let settled = |stamp: &Stamp| stamp.state.is_none_or(|(_, mtime_ns)| mtime_ns != 0);
        let as_then = |stamp: &Stamp| settled(stamp) && Stamp::state(&stamp.path, begin_ns) == stamp.state;
        let same = now.outside == self.outside && self.outside.iter().all(settled);
        (same && self.rules.iter().all(as_then)).then(|| Self { rules: self.rules.clone(), ..now })
    }

    /// Whether a file of this name says which others are left out.
    pub(crate) fn is_rule(name: &OsStr) -> bool {
        RULES.iter().any(|rule| name == *rule)
    }

    /// Whether `path` is a file of rules that no walk has seen.
    pub(crate) fn is_new_rule(&self, path: &Path) -> bool {
        path.file_name().is_some_and(Self::is_rule)
            && self.rules.binary_search_by(|stamp| stamp.path.as_path().cmp(path)).is_err()
    }

    /// Whether the folder at `path` below the root was walked.
    pub(crate) fn has(&self, path: &[u8]) -> bool {
        self.folders.binary_search_by(|folder| by_path(&folder.path, path)).is_ok()
    }

    /// Reads what was remembered with change number `generation` of the database in `folder`.
    pub(crate) fn load(folder: &Path, generation: u64) -> Option<Remembered> {
        decode(&std::fs::read(folder.join(NAME)).ok()?, generation)
    }

    /// From here on nothing is remembered.
    ///
    /// # Errors
    /// It can't be removed: then nothing may change.
    pub(crate) fn forget(folder: &Path) -> std::io::Result<()> {
        match std::fs::remove_file(folder.join(NAME)) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }

    /// Writes what the next walk may rely on. It is no loss where that fails.
    pub(crate) fn save(&self, folder: &Path, generation: u64, walked_ns: u64) {
        let aside = folder.join("folders.new");
        if std::fs::write(&aside, self.encode(generation, walked_ns)).is_ok() {
            let _ = std::fs::rename(&aside, folder.join(NAME));
        }
    }

    fn encode(&self, generation: u64, walked_ns: u64) -> Vec<u8> {
        let mut out = Vec::from(MAGIC);
        put(&mut out, generation);
        put(&mut out, walked_ns);
        put(&mut out, self.folders.len() as u64);
        let mut before: &[u8] = &[];
        for Folder { path, ctime_ns } in &self.folders {
            let shared = before.iter().zip(path).take_while(|(a, b)| a == b).count();
            put(&mut out, shared as u64);
            put(&mut out, (path.len() - shared) as u64);
            out.extend_from_slice(&path[shared..]);
            put(&mut out, *ctime_ns);
            before = path;
        }
        for stamps in [&self.rules, &self.outside] {
            put(&mut out, stamps.len() as u64);
            for Stamp { path, state } in stamps {
                let path = path.as_os_str().as_bytes();
                put(&mut out, path.len() as u64);
                out.extend_from_slice(path);
                put(&mut out, state.map_or(0, |(size, _)| size + 1));
                put(&mut out, state.map_or(0, |(_, mtime_ns)| mtime_ns));
            }
        }
        let crc = checksum(&out);
        out.extend(crc.to_le_bytes());
        out
    }
}

fn decode(bytes: &[u8], wanted: u64) -> Option<Remembered> {
    let (body, crc) = bytes.split_last_chunk::<4>()?;
    let mut bytes = Bytes(body);
    let sound = checksum(body).to_le_bytes() == *crc && bytes.take(MAGIC.len())? == MAGIC;
    if !sound || bytes.number()? != wanted {
        return None;
    }
    let walked_ns = bytes.number()?;
    let mut folders: Vec<Folder> = Vec::new();
    for _ in 0..bytes.len()? {
        let (shared, more) = (bytes.len()?, bytes.len()?);
        let before = folders.last().map_or(&[][..], |folder| &folder.path);
        let mut path = before.get(..shared)?.to_vec();
        path.extend_from_slice(bytes.take(more)?);
        folders.push(Folder { path, ctime_ns: bytes.number()? });
    }
    let mut stamps = || {
        let count = bytes.len()?;
        let one = |_| {
            let len = bytes.len()?;
            let path = std::ffi::OsString::from_vec(bytes.take(len)?.to_vec()).into();
            let (size, mtime_ns) = (bytes.number()?, bytes.number()?);
            Some(Stamp { path, state: size.checked_sub(1).map(|size| (size, mtime_ns)) })
        };
        (0..count).map(one).collect::<Option<Vec<_>>>()
    };
    let folders = Folders { folders, rules: stamps()?, outside: stamps()? };
    Some(Remembered { folders, walked_ns })
}

impl Stamp {
    /// Of a file of rules; of a repository also its list of what to leave out, there or not.
    fn of(path: &Path, begin_ns: u64) -> Vec<Self> {
        let of = |path: PathBuf| Self { state: Self::state(&path, begin_ns), path };
        let exclude = path.ends_with(".git").then(|| path.join("info/exclude"));
        std::iter::once(path.to_path_buf()).chain(exclude).map(of).collect()
    }

    fn state(path: &Path, begin_ns: u64) -> Option<(u64, u64)> {
        let metadata = std::fs::metadata(path).ok()?;
        match path.ends_with(".git") {
            // That it is there counts; what git does in it does not.
            true if metadata.is_dir() => Some((0, 1)),
            // The repository is elsewhere, and so is its list.
            true => Some((0, 0)),
            false => Some((metadata.len(), settled_ctime_ns(&metadata, begin_ns))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_remembered_comes_back_and_any_other_bit_is_noticed() {
        let folder = |path: &str, ctime_ns| Folder { path: path.into(), ctime_ns };
        let folders = Folders {
            folders: vec![folder("", 7), folder("a", 0), folder("a/b", 1 << 60)],
            rules: vec![Stamp { path: "/t/a/.ignore".into(), state: Some((3, 9)) }],
            outside: vec![Stamp { path: "/.git".into(), state: None }],
        };
        let bytes = folders.encode(5, 8);
        assert_eq!(decode(&bytes, 5), Some(Remembered { folders, walked_ns: 8 }));
        assert_eq!(decode(&bytes, 6), None);
        for at in 0..bytes.len() * 8 {
            let mut bytes = bytes.clone();
            bytes[at / 8] ^= 1 << (at % 8);
            assert_eq!(decode(&bytes, 5), None, "bit {at}");
        }
    }
}
