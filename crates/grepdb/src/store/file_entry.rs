//! File entries: what the database knows of a file besides its text.
//!
//! In: the entries of a chunk, in the order of their texts. Out: the bytes of a file table, and back. A path is
//! stored without the prefix that it shares with the path before.
//!
//! It does not look at the disk.

use crate::encoding::{ByteReader, put_varint};
use crate::path::shared_prefix_bytes;
use crate::tuning::CHUNK_FILES_MAX;

/// How a file is stored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FileKind {
    /// With its text.
    #[default]
    Text,
    /// With its text, but a NUL byte comes after the first 64 KiB. A search shows the matches before it, as ripgrep
    /// does.
    LateBinary,
    /// Without text: a NUL byte in the first 64 KiB.
    Binary,
    /// Without text: it could not be read.
    Unreadable,
}

/// PATH_MAX: no file with a longer path can be opened.
const PATH_BYTES_MAX: usize = 1 << 12;

impl FileKind {
    /// Every kind.
    pub const ALL: [Self; 4] = [Self::Text, Self::LateBinary, Self::Binary, Self::Unreadable];

    /// Whether the database has the text of the file.
    #[must_use]
    pub fn has_text(self) -> bool {
        matches!(self, Self::Text | Self::LateBinary)
    }
}

/// A file in the database.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FileEntry {
    /// Tree path.
    pub path: Vec<u8>,
    /// Size on disk when it was read.
    pub size_bytes: u64,
    /// Modification time, ns since 1970. 0 if it was not settled: the file may have changed unnoticed.
    pub mtime_ns: u64,
    /// How the file is stored.
    pub kind: FileKind,
    /// Size of its text in the chunks. Text in UTF-16 or UTF-32 is stored as UTF-8.
    pub text_bytes: u64,
    /// The file does not end with a line end. The chunk has one after it nevertheless.
    pub ends_open: bool,
}

pub(crate) fn encode_entries(files: &[FileEntry], out: &mut Vec<u8>) {
    put_varint(out, files.len() as u64);
    let (mut path, mut mtime_ns): (&[u8], u64) = (&[], 0);
    for file in files {
        let shared = shared_prefix_bytes(path, &file.path);
        put_varint(out, shared as u64);
        put_varint(out, (file.path.len() - shared) as u64);
        out.extend_from_slice(&file.path[shared..]);
        put_varint(out, file.size_bytes);
        let later = file.mtime_ns.wrapping_sub(mtime_ns) as i64;
        put_varint(out, (later << 1 ^ later >> 63) as u64);
        let kind = FileKind::ALL.iter().position(|&kind| kind == file.kind).unwrap_or_default();
        put_varint(out, (kind as u64) << 1 | u64::from(file.ends_open));
        put_varint(out, file.text_bytes);
        (path, mtime_ns) = (&file.path, file.mtime_ns);
    }
}

pub(crate) fn decode_entries(bytes: &[u8]) -> Option<Vec<FileEntry>> {
    let mut bytes = ByteReader(bytes);
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
        let size_bytes = bytes.varint()?;
        let later = bytes.varint()?;
        let later = (later >> 1) as i64 ^ -((later & 1) as i64);
        let flags = bytes.len()?;
        files.push(FileEntry {
            path,
            size_bytes,
            mtime_ns: mtime_ns.wrapping_add(later as u64),
            kind: *FileKind::ALL.get(flags >> 1)?,
            text_bytes: bytes.varint()?,
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
        let kind = proptest::sample::select(&FileKind::ALL[..]);
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

    proptest! {
        #[test]
        fn every_file_comes_back(files in proptest::collection::vec(file(), 0..20)) {
            let mut out = Vec::new();
            encode_entries(&files, &mut out);
            prop_assert_eq!(decode_entries(&out), Some(files));
        }

        #[test]
        fn damaged_groups_do_no_harm(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = decode_entries(&bytes);
        }
    }
}
