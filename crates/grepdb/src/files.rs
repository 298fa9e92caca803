//! The files of a chunk: what is known of each but its text.
//!
//! In: files in the order of their texts. Out: a group of bytes, and back. Paths share their beginnings with the path before.
//!
//! What it does not do: look at a disk.

use std::cmp::Ordering;

use crate::bytes::{Bytes, put};
use crate::tuning::CHUNK_FILES_MAX;

/// What became of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Its text is in the database.
    Text,
    /// So is it, but a NUL byte comes after the first 64 KiB: matches before it are shown, as ripgrep does.
    LateBinary,
    /// A NUL byte in the first 64 KiB: left out.
    Binary,
    /// It could not be read: left out.
    Unreadable,
}

/// No file with a longer path could have been opened (PATH_MAX).
const PATH_BYTES_MAX: usize = 1 << 12;

impl Kind {
    const ALL: [Self; 4] = [Self::Text, Self::LateBinary, Self::Binary, Self::Unreadable];
}

/// A file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileEntry {
    /// Below the root, as bytes of the file system.
    pub path: Vec<u8>,
    /// On disk, when it was read.
    pub size_bytes: u64,
    /// Its time of modification, ns since 1970; 0 where it may have been written again unnoticed.
    pub mtime_ns: u64,
    /// What became of it.
    pub kind: Kind,
    /// Its text in the chunks, as UTF-8 where it was UTF-16 or UTF-32.
    pub text_bytes: u64,
    /// The chunks hold a line end after it that it does not have.
    pub ends_open: bool,
}

/// The order of files: by the names of their folders, then by their own.
pub(crate) fn by_path(a: &[u8], b: &[u8]) -> Ordering {
    let key = |byte: &u8| if *byte == b'/' { 0 } else { *byte };
    // Neighbours have much in common.
    let shared = a.iter().zip(b).take_while(|(a, b)| a == b).count();
    a[shared..].iter().map(key).cmp(b[shared..].iter().map(key))
}

/// Appends `files` to `out`.
pub(crate) fn encode(files: &[FileEntry], out: &mut Vec<u8>) {
    put(out, files.len() as u64);
    let (mut path, mut mtime_ns): (&[u8], u64) = (&[], 0);
    for file in files {
        let shared = path.iter().zip(&file.path).take_while(|(a, b)| a == b).count();
        put(out, shared as u64);
        put(out, (file.path.len() - shared) as u64);
        out.extend_from_slice(&file.path[shared..]);
        put(out, file.size_bytes);
        let later = file.mtime_ns.wrapping_sub(mtime_ns) as i64;
        put(out, (later << 1 ^ later >> 63) as u64);
        let kind = Kind::ALL.iter().position(|&kind| kind == file.kind).unwrap_or_default();
        put(out, (kind as u64) << 1 | u64::from(file.ends_open));
        put(out, file.text_bytes);
        (path, mtime_ns) = (&file.path, file.mtime_ns);
    }
}

/// The files of a group.
pub(crate) fn decode(bytes: &[u8]) -> Option<Vec<FileEntry>> {
    let mut bytes = Bytes(bytes);
    let count = bytes.len().filter(|&count| count <= CHUNK_FILES_MAX)?;
    let mut files: Vec<FileEntry> = Vec::with_capacity(count.min(bytes.0.len()));
    for _ in 0..count {
        let (shared, more) = (bytes.len()?, bytes.len()?);
        let before = files.last();
        let mut path = before.map_or(&[][..], |file| &file.path).get(..shared)?.to_vec();
        if more > PATH_BYTES_MAX - shared.min(PATH_BYTES_MAX) {
            return None;
        }
        let mtime_ns = before.map_or(0, |file| file.mtime_ns);
        path.extend_from_slice(bytes.take(more)?);
        let size_bytes = bytes.number()?;
        let later = bytes.number()?;
        let later = (later >> 1) as i64 ^ -((later & 1) as i64);
        let flags = bytes.len()?;
        files.push(FileEntry {
            path,
            size_bytes,
            mtime_ns: mtime_ns.wrapping_add(later as u64),
            kind: *Kind::ALL.get(flags >> 1)?,
            text_bytes: bytes.number()?,
            ends_open: flags & 1 == 1,
        });
    }
    Some(files)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn file() -> impl Strategy<Value = FileEntry> {
        let kind = proptest::sample::select(&Kind::ALL[..]);
        let path = proptest::collection::vec(any::<u8>(), 0..20);
        (path, any::<u64>(), any::<u64>(), kind, any::<u64>(), any::<bool>()).prop_map(
            |(path, size_bytes, mtime_ns, kind, text_bytes, ends_open)| FileEntry {
                path,
                size_bytes,
                mtime_ns,
                kind,
                text_bytes,
                ends_open,
            },
        )
    }

    #[test]
    fn a_folder_comes_with_all_that_is_in_it() {
        let mut paths = ["a/c", "a-b", "a/b/c", "a/b", "a"];
        paths.sort_by(|a, b| by_path(a.as_bytes(), b.as_bytes()));
        assert_eq!(paths, ["a", "a/b", "a/b/c", "a/c", "a-b"]);
    }

    proptest! {
        #[test]
        fn every_file_comes_back(files in proptest::collection::vec(file(), 0..20)) {
            let mut out = Vec::new();
            encode(&files, &mut out);
            prop_assert_eq!(decode(&out), Some(files));
        }

        #[test]
        fn damaged_groups_do_no_harm(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = decode(&bytes);
        }
    }
}
