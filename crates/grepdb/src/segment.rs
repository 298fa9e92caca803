//! A file of the database: texts, files and index of one build or update. It never changes once it is written.
//!
//! ```text
//! header | blocks of text ... | groups of files | lists of grams | chunks | large files | directory of the lists | dictionary
//! ```
//! The header is at the beginning, of fixed length, and tells where the rest is. It has a checksum, as has each section that is read
//! whole; of what is read in parts every part has one: a block of text, a group of files, a block of lists. A search that finds nothing
//! in the index reads no table.
//!
//! In: chunks, in order. Out: a file; and from a file its chunks.
//!
//! What it does not do: know of other segments, or which of its files are out of date (`store`).

mod header;
mod reader;
mod writer;

pub(crate) use reader::{Segment, Unpacked};
pub(crate) use writer::{Packed, Writer};

use std::ops::Range;

use crate::bytes::{Bytes, put};
use crate::tuning::{HALF_BYTES, HALVES};

/// A part of the text: some files, or a part of a large one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Chunk {
    /// Where its blocks begin in the file.
    pub(crate) begin: u64,
    halves: [Half; HALVES],
    pub(crate) text_bytes: u32,
    /// Where its group of files begins in their section.
    files_begin: u32,
    files_bytes: u32,
    files_crc: u32,
    /// Number of the first file that begins in it.
    pub(crate) first_file: u32,
}

/// The block of half a chunk; empty where the text ends before.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Half {
    packed_bytes: u32,
    crc: u32,
}

/// The chunks of a large file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Run {
    pub(crate) first: u32,
    pub(crate) chunks: u32,
    /// A line is cut between them: the grams of a chunk alone do not tell whether there is a match.
    pub(crate) cuts_line: bool,
}

impl Run {
    /// Its chunks, by their numbers.
    pub(crate) fn numbers(&self) -> Range<u32> {
        self.first..self.first + self.chunks
    }

    fn encode(runs: &[Self]) -> Vec<u8> {
        let mut out = Vec::new();
        let mut end = 0;
        for run in runs {
            put(&mut out, u64::from(run.first - end));
            put(&mut out, u64::from(run.chunks) << 1 | u64::from(run.cuts_line));
            end = run.first + run.chunks;
        }
        out
    }

    /// Those of `bytes`, all of chunks below `chunks`.
    fn decode(bytes: &[u8], chunks: u32) -> Option<Vec<Self>> {
        let mut bytes = Bytes(bytes);
        let (mut runs, mut end) = (Vec::new(), 0_u32);
        while !bytes.0.is_empty() {
            let first = end.checked_add(bytes.number()?.try_into().ok()?)?;
            let (count, cuts_line) = {
                let number = bytes.number()?;
                (u32::try_from(number >> 1).ok()?, number & 1 == 1)
            };
            end = first.checked_add(count).filter(|end| count > 0 && *end <= chunks)?;
            runs.push(Self { first, chunks: count, cuts_line });
        }
        Some(runs)
    }
}

impl Chunk {
    /// Rows of the table that are read and checked together.
    const BLOCK: u32 = 64;
    /// Length of a row.
    const BYTES: usize = 28 + 8 * HALVES;
    /// Length of what checks a block, which it follows.
    const CRC_BYTES: usize = 4;

    /// Length of a table of so many rows.
    fn table_bytes(rows: u32) -> u64 {
        u64::from(rows) * Self::BYTES as u64 + u64::from(rows.div_ceil(Self::BLOCK)) * Self::CRC_BYTES as u64
    }

    /// Where in the text half number `at` is.
    fn half(&self, at: usize) -> Range<usize> {
        let end = self.text_bytes as usize;
        (at * HALF_BYTES).min(end)..((at + 1) * HALF_BYTES).min(end)
    }

    fn encode(&self, out: &mut Vec<u8>) {
        out.extend(self.begin.to_le_bytes());
        let mut words = |words: &[u32]| words.iter().for_each(|word| out.extend(word.to_le_bytes()));
        self.halves.iter().for_each(|half| words(&[half.packed_bytes, half.crc]));
        words(&[self.text_bytes, self.files_begin, self.files_bytes, self.files_crc, self.first_file]);
    }

    fn decode(bytes: &mut Bytes<'_>) -> Option<Self> {
        let begin = bytes.u64()?;
        let mut word = || bytes.u32();
        let mut halves = [Half::default(); HALVES];
        for half in &mut halves {
            *half = Half { packed_bytes: word()?, crc: word()? };
        }
        Some(Self {
            begin,
            halves,
            text_bytes: word()?,
            files_begin: word()?,
            files_bytes: word()?,
            files_crc: word()?,
            first_file: word()?,
        })
    }
}

#[cfg(test)]
mod tests;
