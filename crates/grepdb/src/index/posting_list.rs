//! Posting lists: for each trigram the chunks that hold it.
//!
//! In: the postings of each trigram, in order. Out: a section of lists in trigram order, in blocks that are read and
//! checked one by one, and the directory of these blocks. Later, for one trigram, the subchunks that may hold it.
//!
//! A list names subchunks, or chunks if it would be longer than `tuning::FINE_LIST_SUBCHUNKS_MAX`.
//!
//! It does not collect and sort postings (`posting_collector`), or combine lists (`search`).

use crate::encoding::{ByteReader, checksum, put_varint};
use crate::index::interpolative;
use crate::index::trigram::Trigram;
use crate::tuning::{FINE_LIST_SUBCHUNKS_MAX, INDEX_BLOCK_BYTES, SUBCHUNKS};

/// For each chunk of a segment its candidate subchunks, as bits.
pub(crate) type Candidates = Vec<u16>;

/// A chunk that holds a trigram, and the subchunks.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Posting {
    pub(super) chunk: u32,
    pub(super) mask: u16,
}

#[derive(Debug, Default)]
pub(super) struct ListWriter {
    chunks: u32,
    section: Vec<u8>,
    directory: Vec<ListBlock>,
    block: Vec<u8>,
    first: Option<Trigram>,
    /// The trigram before.
    last: u32,
    /// Buffers for one list.
    numbers: Vec<u32>,
    list: Vec<u8>,
}

impl ListWriter {
    pub(super) fn new(chunks: u32) -> Self {
        Self { chunks, ..Self::default() }
    }

    /// The lists, and the blocks that hold them.
    pub(super) fn finish(mut self) -> (Vec<u8>, Vec<ListBlock>) {
        self.end_block();
        (self.section, self.directory)
    }

    /// Writes a list: the distance to the trigram before; twice the number of entries, plus one if they are
    /// subchunks; the length in bytes; and the entries.
    pub(super) fn list(&mut self, trigram: Trigram, entries: &[Posting]) {
        if self.first.is_none() {
            (self.first, self.last) = (Some(trigram), trigram.0);
        }
        let subchunks: usize = entries.iter().map(|entry| entry.mask.count_ones() as usize).sum();
        let is_fine = subchunks <= FINE_LIST_SUBCHUNKS_MAX;
        self.numbers.clear();
        if is_fine {
            for entry in entries {
                let mut left = entry.mask;
                while left != 0 {
                    self.numbers.push(entry.chunk * SUBCHUNKS as u32 + left.trailing_zeros());
                    left &= left - 1;
                }
            }
        } else {
            self.numbers.extend(entries.iter().map(|entry| entry.chunk));
        }
        self.list.clear();
        interpolative::encode(&self.numbers, bound(self.chunks, is_fine), &mut self.list);
        put_varint(&mut self.block, u64::from(trigram.0 - self.last));
        put_varint(&mut self.block, (self.numbers.len() as u64) << 1 | u64::from(is_fine));
        put_varint(&mut self.block, self.list.len() as u64);
        self.block.extend_from_slice(&self.list);
        self.last = trigram.0;
        if self.block.len() >= INDEX_BLOCK_BYTES {
            self.end_block();
        }
    }

    fn end_block(&mut self) {
        if let Some(first) = self.first.take() {
            self.directory.push(ListBlock {
                first: first.0,
                begin: self.section.len() as u64,
                len_bytes: self.block.len() as u32,
                crc: checksum(&self.block),
            });
            self.section.append(&mut self.block);
        }
    }
}

/// All entries of a list are below this.
fn bound(chunks: u32, is_fine: bool) -> u32 {
    if is_fine { chunks * SUBCHUNKS as u32 } else { chunks }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ListBlock {
    first: u32,
    /// Offset in the section.
    pub(crate) begin: u64,
    pub(crate) len_bytes: u32,
    crc: u32,
}

/// The directory of the blocks, as it is on disk. A row holds a block's first trigram, its checksum and its offset.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct BlockDirectory {
    rows: Vec<u8>,
    section_bytes: u64,
}

impl BlockDirectory {
    const BYTES: usize = 16;

    pub(super) fn append(&mut self, section: &[u8], blocks: &[ListBlock]) {
        for block in blocks {
            self.rows.extend(block.first.to_le_bytes());
            self.rows.extend(block.crc.to_le_bytes());
            self.rows.extend((self.section_bytes + block.begin).to_le_bytes());
        }
        self.section_bytes += section.len() as u64;
    }

    pub(crate) fn decode(rows: Vec<u8>, section_bytes: u64) -> Option<Self> {
        rows.len().is_multiple_of(Self::BYTES).then_some(Self { rows, section_bytes })
    }

    pub(crate) fn encode(&self) -> &[u8] {
        &self.rows
    }

    /// The block that holds the list of `trigram`, if there is a list. The inner `None` means that the directory is
    /// damaged.
    pub(crate) fn block(&self, trigram: Trigram) -> Option<Option<ListBlock>> {
        let rows = self.rows.as_chunks::<{ Self::BYTES }>().0;
        let after = rows.partition_point(|row| ByteReader(row).u32().is_some_and(|first| first <= trigram.0));
        after.checked_sub(1).map(|at| self.at(at))
    }

    /// All blocks. `None` stands for a damaged row.
    #[cfg(any(fuzzing, test))]
    pub(crate) fn blocks(&self) -> impl Iterator<Item = Option<ListBlock>> {
        (0..self.rows.len() / Self::BYTES).map(|at| self.at(at))
    }

    fn at(&self, at: usize) -> Option<ListBlock> {
        let mut row = ByteReader(self.rows.get(at * Self::BYTES..)?);
        let (first, crc, begin) = (row.u32()?, row.u32()?, row.u64()?);
        let mut next = ByteReader(row.0.get(8..).unwrap_or_default());
        let end = next.u64().unwrap_or(self.section_bytes);
        let len_bytes = end.checked_sub(begin)?.try_into().ok()?;
        (end <= self.section_bytes).then_some(ListBlock { first, begin, len_bytes, crc })
    }
}

/// The posting list of one trigram, still encoded.
#[derive(Debug)]
pub(crate) struct PostingList {
    bytes: Vec<u8>,
    head: ListHead,
}

/// The list of `trigram` in `block`, if the block has one. The outer `None` means that the block is damaged.
pub(crate) fn find_list(block: ListBlock, bytes: &[u8], trigram: Trigram) -> Option<Option<PostingList>> {
    (checksum(bytes) == block.crc).then_some(())?;
    let mut rest = ByteReader(bytes);
    let mut here = u64::from(block.first);
    while !rest.0.is_empty() {
        let (further, head) = head(&mut rest)?;
        here = here.checked_add(further)?;
        if here > u64::from(trigram.0) {
            break;
        }
        let list = rest.take(head.len_bytes)?;
        if here == u64::from(trigram.0) {
            return Some(Some(PostingList { bytes: list.to_vec(), head }));
        }
    }
    Some(None)
}

#[derive(Clone, Copy, Debug)]
struct ListHead {
    count: u32,
    is_fine: bool,
    len_bytes: usize,
}

/// Reads the distance to the trigram before and the header. Returns `None` if the list would not fit into the rest.
fn head(rest: &mut ByteReader<'_>) -> Option<(u64, ListHead)> {
    let (further, head, len_bytes) = (rest.varint()?, rest.varint()?, rest.len()?);
    let count = u32::try_from(head >> 1).ok()?;
    (len_bytes <= rest.0.len()).then_some((further, ListHead { count, is_fine: head & 1 == 1, len_bytes }))
}

/// Whether every list of a block can be decoded.
#[cfg(any(fuzzing, test))]
pub(crate) fn is_valid(block: ListBlock, bytes: &[u8], chunks: u32) -> bool {
    let mut rest = ByteReader(bytes);
    let mut next = || {
        let (_, head) = head(&mut rest)?;
        decode(rest.take(head.len_bytes)?, head, chunks, |_, _| {})?;
        Some(rest.0.is_empty())
    };
    checksum(bytes) == block.crc
        && loop {
            match next() {
                Some(true) => break true,
                Some(false) => {}
                None => break false,
            }
        }
}

/// Calls `each` with every chunk in the list, all below `chunks`, and a mask of its subchunks.
fn decode(list: &[u8], head: ListHead, chunks: u32, mut each: impl FnMut(u32, u16)) -> Option<()> {
    interpolative::decode(list, head.count, bound(chunks, head.is_fine), &mut |number| {
        if head.is_fine {
            each(number / SUBCHUNKS as u32, 1 << (number % SUBCHUNKS as u32));
        } else {
            each(number, u16::MAX);
        }
    })
}

impl PostingList {
    pub(crate) fn count(&self) -> u32 {
        self.head.count
    }

    /// Sets the bits of the list in `masks`, which covers `chunks` chunks. Returns `None` if the list is damaged.
    pub(crate) fn mark(&self, chunks: u32, masks: &mut Candidates) -> Option<()> {
        decode(&self.bytes, self.head, chunks, |chunk, mask| masks[chunk as usize] |= mask)
    }
}
