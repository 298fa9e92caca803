//! The header of a segment: format version, counts, and the position of each section.
//!
//! In: a [`Header`]. Out: its bytes, and back.
//!
//! It does not read files.

use super::chunk::ChunkMeta;
use crate::encoding::{ByteReader, checksum};
use crate::tuning::SUBCHUNKS;

const MAGIC: [u8; 8] = *b"\x89flgrep\n";
/// Format version. A reader accepts no other.
pub(super) const VERSION: u32 = 5;
pub(super) const HEADER_BYTES: usize = 192;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Section {
    pub(super) begin: u64,
    pub(super) len_bytes: u64,
    /// 0 if its parts have checksums of their own.
    pub(super) crc: u32,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Header {
    pub(super) files: u32,
    pub(super) chunks: u32,
    pub(super) text_bytes: u64,
    pub(super) file_tables: Section,
    pub(super) lists: Section,
    pub(super) table: Section,
    pub(super) large_files: Section,
    pub(super) long_lines: Section,
    pub(super) directory: Section,
    pub(super) dictionary: Section,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum HeaderError {
    Damaged,
    Version(u32),
}

impl Header {
    pub(super) fn encode(&self) -> [u8; HEADER_BYTES] {
        let mut out = Vec::with_capacity(HEADER_BYTES);
        out.extend(MAGIC);
        [VERSION, self.files, self.chunks].into_iter().for_each(|word| out.extend(word.to_le_bytes()));
        out.extend(self.text_bytes.to_le_bytes());
        for section in self.sections() {
            out.extend(section.begin.to_le_bytes());
            out.extend(section.len_bytes.to_le_bytes());
            out.extend(section.crc.to_le_bytes());
        }
        out.resize(HEADER_BYTES - 4, 0);
        let crc = checksum(&out);
        out.extend(crc.to_le_bytes());
        std::array::from_fn(|at| out[at])
    }

    pub(super) fn decode(bytes: &[u8; HEADER_BYTES]) -> Result<Self, HeaderError> {
        let (body, crc) = bytes.split_at(HEADER_BYTES - 4);
        let mut bytes = ByteReader(body);
        if bytes.take(MAGIC.len()) != Some(&MAGIC) {
            return Err(HeaderError::Damaged);
        }
        let sound = checksum(body).to_le_bytes() == crc;
        match bytes.u32() {
            Some(VERSION) if sound => Self::body(&mut bytes).ok_or(HeaderError::Damaged),
            Some(version) if sound => Err(HeaderError::Version(version)),
            _ => Err(HeaderError::Damaged),
        }
    }

    fn body(bytes: &mut ByteReader<'_>) -> Option<Self> {
        let (files, chunks, text_bytes) = (bytes.u32()?, bytes.u32()?, bytes.u64()?);
        let mut section =
            || Some(Section { begin: bytes.u64()?, len_bytes: bytes.u64()?, crc: bytes.u32()? });
        Some(Self {
            files,
            chunks,
            text_bytes,
            file_tables: section()?,
            lists: section()?,
            table: section()?,
            large_files: section()?,
            long_lines: section()?,
            directory: section()?,
            dictionary: section()?,
        })
    }

    /// Whether every section fits into a file of `len` bytes, and the chunk table has a row for each chunk.
    pub(super) fn fits(&self, len: u64) -> bool {
        let ends = |section: Section| section.begin.checked_add(section.len_bytes);
        self.sections().into_iter().all(|section| ends(section).is_some_and(|end| end <= len))
            && self.table.len_bytes == ChunkMeta::table_bytes(self.chunks)
            // The index numbers subchunks in u32 as well.
            && self.chunks <= u32::MAX / SUBCHUNKS as u32
    }

    fn sections(&self) -> [Section; 7] {
        [
            self.file_tables,
            self.lists,
            self.table,
            self.large_files,
            self.long_lines,
            self.directory,
            self.dictionary,
        ]
    }
}
