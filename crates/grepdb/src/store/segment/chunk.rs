//! The records of a segment's tables: rows of the chunk table, and the runs of chunks that hold a large file or a long
//! line.
//!
//! In: records. Out: their bytes, and back.

use std::ops::Range;

use serde::{Deserialize, Serialize};

use crate::encoding::ByteReader;
use crate::tuning::{HALF_BYTES, HALVES};

/// A row of the chunk table. A chunk holds several files, or a part of a large one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ChunkMeta {
    /// Offset of its first block in the file.
    pub(crate) begin: u64,
    pub(super) halves: [HalfBlock; HALVES],
    pub(crate) text_bytes: u32,
    /// Offset of its file table in the section.
    pub(super) files_begin: u32,
    pub(super) files_bytes: u32,
    pub(super) files_crc: u32,
    /// Number of the first file that begins in the chunk.
    pub(crate) first_file: u32,
}

/// The compressed half of a chunk. Empty if the text of the chunk ends before it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct HalfBlock {
    pub(super) packed_bytes: u32,
    pub(super) crc: u32,
}

/// The chunks of a large file, or of a line that crosses the end of a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ChunkRun {
    pub(crate) first: u32,
    pub(crate) chunks: u32,
}

impl ChunkRun {
    pub(crate) fn numbers(&self) -> Range<u32> {
        self.first..self.first + self.chunks
    }

    /// The run among `runs`, ascending, that chunk `at` is part of, if one is.
    pub(super) fn containing(runs: &[Self], at: u32) -> Option<Self> {
        let before = runs.partition_point(|run| run.first <= at);
        before.checked_sub(1).map(|before| runs[before]).filter(|run| run.numbers().contains(&at))
    }

    /// Adds chunk `at`, which goes on with what the chunk before it holds, to `runs`.
    pub(super) fn go_on(runs: &mut Vec<Self>, at: u32) {
        match runs.last_mut().filter(|run| run.numbers().end == at) {
            Some(run) => run.chunks += 1,
            None => runs.push(Self { first: at - 1, chunks: 2 }),
        }
    }

    /// Decodes runs of chunks below `chunks`.
    pub(super) fn decode(bytes: &[u8], chunks: u32) -> Option<Vec<Self>> {
        let runs: Vec<Self> = postcard::from_bytes(bytes).ok()?;
        let mut end = 0;
        for run in &runs {
            let is_behind = run.first >= end && run.chunks > 0;
            end = run.first.checked_add(run.chunks).filter(|end| is_behind && *end <= chunks)?;
        }
        Some(runs)
    }
}

impl ChunkMeta {
    /// Rows in a block of the table. A block is read and checked as a whole.
    pub(super) const BLOCK: u32 = 64;
    pub(super) const BYTES: usize = 28 + 8 * HALVES;
    /// Length of the checksum at the end of a block.
    pub(super) const CRC_BYTES: usize = 4;

    pub(super) fn table_bytes(rows: u32) -> u64 {
        u64::from(rows) * Self::BYTES as u64 + u64::from(rows.div_ceil(Self::BLOCK)) * Self::CRC_BYTES as u64
    }

    /// The range of half number `at` in the text of the chunk.
    pub(super) fn half(&self, at: usize) -> Range<usize> {
        let end = self.text_bytes as usize;
        (at * HALF_BYTES).min(end)..((at + 1) * HALF_BYTES).min(end)
    }

    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        out.extend(self.begin.to_le_bytes());
        let mut words = |words: &[u32]| words.iter().for_each(|word| out.extend(word.to_le_bytes()));
        self.halves.iter().for_each(|half| words(&[half.packed_bytes, half.crc]));
        words(&[self.text_bytes, self.files_begin, self.files_bytes, self.files_crc, self.first_file]);
    }

    pub(super) fn decode(bytes: &mut ByteReader<'_>) -> Option<Self> {
        let begin = bytes.u64()?;
        let mut word = || bytes.u32();
        let mut halves = [HalfBlock::default(); HALVES];
        for half in &mut halves {
            *half = HalfBlock { packed_bytes: word()?, crc: word()? };
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
