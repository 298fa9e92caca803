//! Posting lists: for each trigram the chunks that hold it.
//!
//! In: the trigrams of chunks. Out: a section of lists in trigram order, in blocks that are read and checked one by
//! one, and the directory of these blocks. Later, for one trigram, the subchunks that may hold it.
//!
//! A list names chunks, or subchunks if its length is in `tuning::FINE_LIST_SUBCHUNKS`.
//!
//! It does not combine lists (`search`).

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use crate::encoding::{ByteReader, checksum, put_varint};
use crate::index::interpolative;
use crate::index::trigram::{TRIGRAMS, Trigram};
use crate::tuning::{FINE_LIST_CHUNKS_PART, FINE_LIST_SUBCHUNKS, INDEX_BLOCK_BYTES, SUBCHUNKS};

/// For each chunk of a segment its candidate subchunks, as bits.
pub(crate) type Candidates = Vec<u16>;

/// Buckets of trigrams with the same upper bits. Each bucket is sorted separately.
const BUCKETS: usize = 1 << 9;
const LOW_BITS: u32 = TRIGRAMS.ilog2() - BUCKETS.ilog2();
/// Buckets whose lists one thread writes at a time. A block holds lists of one such group.
const BUCKETS_PER_GROUP: usize = 1 << 5;

/// Collects the postings of a segment.
#[derive(Debug)]
pub(crate) struct PostingCollector {
    buckets: Vec<TrigramBucket>,
}

/// Postings of trigrams with the same upper bits.
#[derive(Clone, Debug, Default)]
struct TrigramBucket {
    /// The lower bits of a trigram and its subchunk mask, chunk after chunk.
    entries: Vec<u32>,
    /// Number of entries of each chunk.
    counts: Vec<u16>,
    /// Total of `counts`.
    counted: usize,
}

/// A chunk that holds a trigram, and the subchunks.
#[derive(Clone, Copy, Debug, Default)]
struct Posting {
    chunk: u32,
    mask: u16,
}

impl PostingCollector {
    pub(crate) fn new() -> Self {
        Self { buckets: vec![TrigramBucket::default(); BUCKETS] }
    }

    /// Adds the trigrams of the next chunk.
    pub(crate) fn add(&mut self, trigrams: impl Iterator<Item = (Trigram, u16)>) {
        for (Trigram(trigram), mask) in trigrams {
            let low = trigram & ((1 << LOW_BITS) - 1);
            self.buckets[(trigram >> LOW_BITS) as usize].entries.push(low << SUBCHUNKS | u32::from(mask));
        }
        for bucket in &mut self.buckets {
            bucket.counts.push((bucket.entries.len() - bucket.counted) as u16);
            bucket.counted = bucket.entries.len();
        }
    }

    /// The section of lists for `chunks` chunks, and its directory. `threads` threads write it.
    pub(crate) fn finish(self, chunks: u32, threads: usize) -> (Vec<u8>, BlockDirectory) {
        let groups: Vec<(usize, &[TrigramBucket])> =
            (0..).step_by(BUCKETS_PER_GROUP).zip(self.buckets.chunks(BUCKETS_PER_GROUP)).collect();
        let (next, made) = (AtomicUsize::new(0), Mutex::new(BTreeMap::new()));
        let make = || {
            while let Some((first, buckets)) = groups.get(next.fetch_add(1, Ordering::Relaxed)) {
                let mut writer = ListWriter { chunks, ..ListWriter::default() };
                (*first..).zip(*buckets).for_each(|(high, bucket)| bucket.write(high as u32, &mut writer));
                writer.end_block();
                let made = &mut made.lock().unwrap_or_else(PoisonError::into_inner);
                made.insert(*first, (writer.section, writer.directory));
            }
        };
        std::thread::scope(|scope| {
            (1..threads.min(groups.len())).for_each(|_| drop(scope.spawn(make)));
            make();
        });
        let (mut section, mut directory) = (Vec::new(), Vec::new());
        for (lists, blocks) in made.into_inner().unwrap_or_else(PoisonError::into_inner).into_values() {
            let begin = section.len() as u64;
            directory
                .extend(blocks.into_iter().map(|block| ListBlock { begin: begin + block.begin, ..block }));
            section.extend(lists);
        }
        let directory = BlockDirectory::new(&directory, section.len() as u64);
        (section, directory)
    }
}

impl TrigramBucket {
    /// Writes the lists of this bucket in trigram order. `high` are the upper bits. Within a list the chunks ascend.
    fn write(&self, high: u32, writer: &mut ListWriter) {
        let low = |entry: u32| (entry >> SUBCHUNKS) as usize;
        let mut ends = vec![0; (1 << LOW_BITS) + 1];
        self.entries.iter().for_each(|&entry| ends[low(entry) + 1] += 1);
        (1..ends.len()).for_each(|at| ends[at] += ends[at - 1]);
        // While the entries are distributed, `ends[x]` is the next free position of list `x`. Afterwards it is its
        // end.
        let mut sorted = vec![Posting::default(); self.entries.len()];
        let mut rest = &self.entries[..];
        for (chunk, &count) in (0..).zip(&self.counts) {
            let (entries, further) = rest.split_at(count.into());
            for &entry in entries {
                let end = &mut ends[low(entry)];
                sorted[*end] = Posting { chunk, mask: entry as u16 };
                *end += 1;
            }
            rest = further;
        }
        let mut begin = 0;
        for (low, &end) in (0..).zip(&ends[..1 << LOW_BITS]) {
            if begin < end {
                writer.list(Trigram(high << LOW_BITS | low), &sorted[begin..end]);
            }
            begin = end;
        }
    }
}

/// Writes the lists of a group of buckets.
#[derive(Debug, Default)]
struct ListWriter {
    /// Chunks in the segment.
    chunks: u32,
    section: Vec<u8>,
    directory: Vec<ListBlock>,
    /// The current block.
    block: Vec<u8>,
    /// The first trigram of the block.
    first: Option<Trigram>,
    /// The trigram before.
    last: u32,
    /// Buffers for one list.
    numbers: Vec<u32>,
    list: Vec<u8>,
}

impl ListWriter {
    /// Writes a list: the distance to the trigram before; twice the number of entries, plus one if they are
    /// subchunks; the length in bytes; and the entries.
    fn list(&mut self, trigram: Trigram, entries: &[Posting]) {
        if self.first.is_none() {
            (self.first, self.last) = (Some(trigram), trigram.0);
        }
        let subchunks: usize = entries.iter().map(|entry| entry.mask.count_ones() as usize).sum();
        let fine_min =
            FINE_LIST_SUBCHUNKS.start().min(&(self.chunks as usize / FINE_LIST_CHUNKS_PART)).to_owned();
        let is_fine = (fine_min..=*FINE_LIST_SUBCHUNKS.end()).contains(&subchunks);
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

/// A block of posting lists.
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
    /// Length of a row.
    const BYTES: usize = 16;

    fn new(blocks: &[ListBlock], section_bytes: u64) -> Self {
        let mut rows = Vec::with_capacity(blocks.len() * Self::BYTES);
        for block in blocks {
            rows.extend(block.first.to_le_bytes());
            rows.extend(block.crc.to_le_bytes());
            rows.extend(block.begin.to_le_bytes());
        }
        Self { rows, section_bytes }
    }

    /// The directory of a section of `section_bytes` bytes.
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

/// The block is damaged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DamagedBlock;

/// The posting list of one trigram, still encoded.
#[derive(Debug)]
pub(crate) struct PostingList {
    bytes: Vec<u8>,
    head: ListHead,
}

/// The list of `trigram` in `block`, if the block has one.
///
/// # Errors
/// The block is damaged.
pub(crate) fn find_list(
    block: ListBlock,
    bytes: &[u8],
    trigram: Trigram,
) -> Result<Option<PostingList>, DamagedBlock> {
    if checksum(bytes) != block.crc {
        return Err(DamagedBlock);
    }
    let mut rest = ByteReader(bytes);
    let mut here = u64::from(block.first);
    while !rest.0.is_empty() {
        let (further, head) = head(&mut rest).ok_or(DamagedBlock)?;
        here = here.checked_add(further).ok_or(DamagedBlock)?;
        if here > u64::from(trigram.0) {
            break;
        }
        let list = rest.take(head.len_bytes).ok_or(DamagedBlock)?;
        if here == u64::from(trigram.0) {
            return Ok(Some(PostingList { bytes: list.to_vec(), head }));
        }
    }
    Ok(None)
}

/// The header of a list.
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
    /// Number of chunks or subchunks in the list.
    pub(crate) fn count(&self) -> u32 {
        self.head.count
    }

    /// Sets the bits of the list in `masks`, which covers `chunks` chunks. Returns `None` if the list is damaged.
    pub(crate) fn mark(&self, chunks: u32, masks: &mut Candidates) -> Option<()> {
        decode(&self.bytes, self.head, chunks, |chunk, mask| masks[chunk as usize] |= mask)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    fn masks(section: &[u8], directory: &BlockDirectory, trigram: Trigram, chunks: u32) -> Candidates {
        let mut masks = vec![0; chunks as usize];
        if let Some(block) = directory.block(trigram).map(Option::unwrap) {
            let bytes = &section[block.begin as usize..][..block.len_bytes as usize];
            if let Some(list) = find_list(block, bytes, trigram).unwrap() {
                list.mark(chunks, &mut masks).unwrap();
            }
        }
        masks
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

        #[test]
        fn every_list_comes_back_or_more(
            chunks in proptest::collection::vec(proptest::collection::btree_map(0_u32..3_000, 1_u16.., 0..300), 1..20),
        ) {
            let mut collector = PostingCollector::new();
            for trigrams in &chunks {
                collector.add(trigrams.iter().map(|(&trigram, &mask)| (Trigram(trigram * 600), mask)));
            }
            let (section, directory) = collector.finish(chunks.len() as u32, 3);
            let directory = BlockDirectory::decode(directory.encode().to_vec(), section.len() as u64).unwrap();
            let all: BTreeMap<u32, ()> = chunks.iter().flatten().map(|(&trigram, _)| (trigram, ())).collect();
            for trigram in all.into_keys().chain([3_000]) {
                let found = masks(&section, &directory, Trigram(trigram * 600), chunks.len() as u32);
                for (chunk, trigrams) in chunks.iter().enumerate() {
                    let found = found[chunk];
                    let truth = trigrams.get(&trigram).copied().unwrap_or(0);
                    prop_assert_eq!(found & truth, truth, "trigram {} chunk {}", trigram, chunk);
                    prop_assert!(truth != 0 || found == 0);
                }
            }
        }
    }

    #[test]
    fn lists_of_middling_length_tell_the_units() {
        let trigrams = |chunk: u32| [(Trigram(5), 1 << (chunk % 16)), (Trigram(6), 1)].into_iter();
        let mut collector = PostingCollector::new();
        let chunks = *FINE_LIST_SUBCHUNKS.start() as u32;
        (0..chunks).for_each(|chunk| collector.add(trigrams(chunk)));
        let (section, directory) = collector.finish(chunks, 1);
        let found = masks(&section, &directory, Trigram(5), chunks);
        assert!(found.iter().enumerate().all(|(chunk, &mask)| mask == 1 << (chunk % 16)));
    }

    #[test]
    fn a_damaged_block_is_noticed() {
        let mut collector = PostingCollector::new();
        collector.add([(Trigram(7), 1)].into_iter());
        let (mut section, directory) = collector.finish(1, 1);
        let block = directory.block(Trigram(7)).unwrap().unwrap();
        assert!(find_list(block, &section, Trigram(7)).unwrap().is_some());
        section[0] ^= 4;
        assert!(find_list(block, &section, Trigram(7)).is_err());
    }
}
