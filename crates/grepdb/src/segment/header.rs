//! The first bytes of a segment: what it is, and where its sections are.
//!
//! In: a [`Header`]. Out: its bytes, and back.
//!
//! What it does not do: read a file.

use super::Chunk;
use crate::bytes::{Bytes, checksum};
use crate::tuning::UNITS;

/// The first eight bytes.
const MAGIC: [u8; 8] = *b"\x89flgrep\n";
/// Of the format: a reader reads its own and no other.
pub(super) const VERSION: u32 = 2;
/// Length of a header.
pub(super) const HEADER_BYTES: usize = 192;

/// A part of the file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Section {
    pub(super) begin: u64,
    pub(super) len_bytes: u64,
    /// 0 where its parts have their own.
    pub(super) crc: u32,
}

/// What is known of a segment at its beginning.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Header {
    pub(super) files: u32,
    pub(super) chunks: u32,
    pub(super) text_bytes: u64,
    pub(super) groups: Section,
    pub(super) lists: Section,
    pub(super) table: Section,
    pub(super) runs: Section,
    pub(super) directory: Section,
    pub(super) dictionary: Section,
}

/// Why bytes are no header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wrong {
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

    pub(super) fn decode(bytes: &[u8; HEADER_BYTES]) -> Result<Self, Wrong> {
        let (body, crc) = bytes.split_at(HEADER_BYTES - 4);
        let mut bytes = Bytes(body);
        if bytes.take(MAGIC.len()) != Some(&MAGIC) {
            return Err(Wrong::Damaged);
        }
        let sound = checksum(body).to_le_bytes() == crc;
        match bytes.u32() {
            Some(VERSION) if sound => Self::body(&mut bytes).ok_or(Wrong::Damaged),
            Some(version) if sound => Err(Wrong::Version(version)),
            _ => Err(Wrong::Damaged),
        }
    }

    fn body(bytes: &mut Bytes<'_>) -> Option<Self> {
        let (files, chunks, text_bytes) = (bytes.u32()?, bytes.u32()?, bytes.u64()?);
        let mut section =
            || Some(Section { begin: bytes.u64()?, len_bytes: bytes.u64()?, crc: bytes.u32()? });
        Some(Self {
            files,
            chunks,
            text_bytes,
            groups: section()?,
            lists: section()?,
            table: section()?,
            runs: section()?,
            directory: section()?,
            dictionary: section()?,
        })
    }

    /// Every section can lie in a file of `len` bytes, and the table has a row for each chunk.
    pub(super) fn fits(&self, len: u64) -> bool {
        let ends = |section: Section| section.begin.checked_add(section.len_bytes);
        self.sections().into_iter().all(|section| ends(section).is_some_and(|end| end <= len))
            && self.table.len_bytes == Chunk::table_bytes(self.chunks)
            // Their sixteenths are counted in the same numbers.
            && self.chunks <= u32::MAX / UNITS as u32
    }

    fn sections(&self) -> [Section; 6] {
        [self.groups, self.lists, self.table, self.runs, self.directory, self.dictionary]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header() -> Header {
        let section = |begin| Section { begin, len_bytes: 2 * begin, crc: 7 };
        Header {
            files: 3,
            chunks: 4,
            text_bytes: 1 << 40,
            groups: section(1),
            lists: section(2),
            table: section(3),
            runs: section(4),
            directory: section(5),
            dictionary: section(6),
        }
    }

    #[test]
    fn a_header_comes_back_and_any_other_bit_is_noticed() {
        let bytes = header().encode();
        assert_eq!(Header::decode(&bytes), Ok(header()));
        for at in 0..HEADER_BYTES * 8 {
            let mut bytes = bytes;
            bytes[at / 8] ^= 1 << (at % 8);
            assert_eq!(Header::decode(&bytes), Err(Wrong::Damaged), "bit {at}");
        }
    }

    #[test]
    fn another_version_is_named() {
        let mut bytes = header().encode();
        bytes[8] = 9;
        let crc = checksum(&bytes[..HEADER_BYTES - 4]).to_le_bytes();
        bytes[HEADER_BYTES - 4..].copy_from_slice(&crc);
        assert_eq!(Header::decode(&bytes), Err(Wrong::Version(9)));
    }
}
