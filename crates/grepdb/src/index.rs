//! Which chunks hold a gram: lists of chunks in the order of the grams, in blocks that are read and checked one by one.
//!
//! In: the grams of chunks. Out: the section of a segment, and its directory; and for one gram the units that may hold it.
//!
//! A list names chunks, or where its length is worth it (`tuning::FINE_UNITS`) sixteenths of chunks.
//!
//! What it does not do: combine lists (`select`).

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use crate::bytes::{Bytes, checksum, put};
use crate::grams::{GRAMS, Gram};
use crate::postings;
use crate::tuning::{FINE_UNITS, INDEX_BLOCK_BYTES, UNITS};

/// For each chunk of a segment the units that are meant, as bits.
pub(crate) type Units = Vec<u16>;

/// Grams by their upper bits: so many parts are sorted one by one.
const PARTS: usize = 1 << 9;
const LOW_BITS: u32 = GRAMS.ilog2() - PARTS.ilog2();
/// Parts of which lists are made at once. A block has lists of one such group.
const GROUP_PARTS: usize = 1 << 5;

/// Lists that are being collected.
#[derive(Debug)]
pub(crate) struct Collector {
    parts: Vec<Part>,
}

/// Grams that have the upper bits in common.
#[derive(Clone, Debug, Default)]
struct Part {
    /// Lower bits of a gram, and units: chunk after chunk.
    entries: Vec<u32>,
    /// How many of them are of each chunk.
    counts: Vec<u16>,
    counted: usize,
}

/// One gram of one chunk.
#[derive(Clone, Copy, Debug, Default)]
struct Entry {
    chunk: u32,
    units: u16,
}

impl Collector {
    pub(crate) fn new() -> Self {
        Self { parts: vec![Part::default(); PARTS] }
    }

    /// Takes the grams of the next chunk.
    pub(crate) fn add(&mut self, grams: impl Iterator<Item = (Gram, u16)>) {
        for (Gram(gram), units) in grams {
            let low = gram & ((1 << LOW_BITS) - 1);
            self.parts[(gram >> LOW_BITS) as usize].entries.push(low << UNITS | u32::from(units));
        }
        for part in &mut self.parts {
            part.counts.push((part.entries.len() - part.counted) as u16);
            part.counted = part.entries.len();
        }
    }

    /// The section of lists and its directory, for `chunks` chunks, made by so many threads.
    pub(crate) fn finish(self, chunks: u32, threads: usize) -> (Vec<u8>, Directory) {
        let groups: Vec<(usize, &[Part])> =
            (0..).step_by(GROUP_PARTS).zip(self.parts.chunks(GROUP_PARTS)).collect();
        let (next, made) = (AtomicUsize::new(0), Mutex::new(BTreeMap::new()));
        let make = || {
            while let Some((first, parts)) = groups.get(next.fetch_add(1, Ordering::Relaxed)) {
                let mut writer = Writer { chunks, ..Writer::default() };
                (*first..).zip(*parts).for_each(|(high, part)| part.write(high as u32, &mut writer));
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
            directory.extend(blocks.into_iter().map(|block| Block { begin: begin + block.begin, ..block }));
            section.extend(lists);
        }
        let directory = Directory::new(&directory, section.len() as u64);
        (section, directory)
    }
}

impl Part {
    /// Its lists in the order of their grams, whose upper bits are `high`; in each the chunks are in order.
    fn write(&self, high: u32, writer: &mut Writer) {
        let low = |entry: u32| (entry >> UNITS) as usize;
        let mut ends = vec![0; (1 << LOW_BITS) + 1];
        self.entries.iter().for_each(|&entry| ends[low(entry) + 1] += 1);
        (1..ends.len()).for_each(|at| ends[at] += ends[at - 1]);
        // Until its entries have come to their places, the end of a list is its begin.
        let mut sorted = vec![Entry::default(); self.entries.len()];
        let mut rest = &self.entries[..];
        for (chunk, &count) in (0..).zip(&self.counts) {
            let (entries, further) = rest.split_at(count.into());
            for &entry in entries {
                let end = &mut ends[low(entry)];
                sorted[*end] = Entry { chunk, units: entry as u16 };
                *end += 1;
            }
            rest = further;
        }
        let mut begin = 0;
        for (low, &end) in (0..).zip(&ends[..1 << LOW_BITS]) {
            if begin < end {
                writer.list(Gram(high << LOW_BITS | low), &sorted[begin..end]);
            }
            begin = end;
        }
    }
}

#[derive(Debug, Default)]
struct Writer {
    chunks: u32,
    section: Vec<u8>,
    directory: Vec<Block>,
    block: Vec<u8>,
    first: Option<Gram>,
    last: u32,
    numbers: Vec<u32>,
    list: Vec<u8>,
}

impl Writer {
    /// A list: how far its gram is from the one before, its length twice, odd where it names units, its bytes and their number.
    fn list(&mut self, gram: Gram, entries: &[Entry]) {
        if self.first.is_none() {
            (self.first, self.last) = (Some(gram), gram.0);
        }
        let units: usize = entries.iter().map(|entry| entry.units.count_ones() as usize).sum();
        let fine = FINE_UNITS.contains(&units);
        self.numbers.clear();
        if fine {
            for entry in entries {
                let mut left = entry.units;
                while left != 0 {
                    self.numbers.push(entry.chunk * UNITS as u32 + left.trailing_zeros());
                    left &= left - 1;
                }
            }
        } else {
            self.numbers.extend(entries.iter().map(|entry| entry.chunk));
        }
        self.list.clear();
        postings::encode(&self.numbers, bound(self.chunks, fine), &mut self.list);
        put(&mut self.block, u64::from(gram.0 - self.last));
        put(&mut self.block, (self.numbers.len() as u64) << 1 | u64::from(fine));
        put(&mut self.block, self.list.len() as u64);
        self.block.extend_from_slice(&self.list);
        self.last = gram.0;
        if self.block.len() >= INDEX_BLOCK_BYTES {
            self.end_block();
        }
    }

    fn end_block(&mut self) {
        if let Some(first) = self.first.take() {
            self.directory.push(Block {
                first: first.0,
                begin: self.section.len() as u64,
                len_bytes: self.block.len() as u32,
                crc: checksum(&self.block),
            });
            self.section.append(&mut self.block);
        }
    }
}

/// The numbers of a list lie below this.
fn bound(chunks: u32, fine: bool) -> u32 {
    if fine { chunks * UNITS as u32 } else { chunks }
}

/// A block of lists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Block {
    first: u32,
    /// Where it begins in the section, and how long it is.
    pub(crate) begin: u64,
    pub(crate) len_bytes: u32,
    crc: u32,
}

/// Where the blocks are, as it was written: of each its first gram, what checks it, and where it begins.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Directory {
    rows: Vec<u8>,
    section_bytes: u64,
}

impl Directory {
    /// Length of a row.
    const BYTES: usize = 16;

    fn new(blocks: &[Block], section_bytes: u64) -> Self {
        let mut rows = Vec::with_capacity(blocks.len() * Self::BYTES);
        for block in blocks {
            rows.extend(block.first.to_le_bytes());
            rows.extend(block.crc.to_le_bytes());
            rows.extend(block.begin.to_le_bytes());
        }
        Self { rows, section_bytes }
    }

    /// The directory of a section of so many bytes.
    pub(crate) fn decode(rows: Vec<u8>, section_bytes: u64) -> Option<Self> {
        rows.len().is_multiple_of(Self::BYTES).then_some(Self { rows, section_bytes })
    }

    pub(crate) fn encode(&self) -> &[u8] {
        &self.rows
    }

    /// The block that would hold the list of `gram`. `None` within where that is damaged.
    pub(crate) fn block(&self, gram: Gram) -> Option<Option<Block>> {
        let rows = self.rows.as_chunks::<{ Self::BYTES }>().0;
        let after = rows.partition_point(|row| Bytes(row).u32().is_some_and(|first| first <= gram.0));
        after.checked_sub(1).map(|at| self.at(at))
    }

    /// All; `None` for what is damaged.
    pub(crate) fn blocks(&self) -> impl Iterator<Item = Option<Block>> {
        (0..self.rows.len() / Self::BYTES).map(|at| self.at(at))
    }

    fn at(&self, at: usize) -> Option<Block> {
        let mut row = Bytes(self.rows.get(at * Self::BYTES..)?);
        let (first, crc, begin) = (row.u32()?, row.u32()?, row.u64()?);
        let mut next = Bytes(row.0.get(8..).unwrap_or_default());
        let end = next.u64().unwrap_or(self.section_bytes);
        let len_bytes = end.checked_sub(begin)?.try_into().ok()?;
        (end <= self.section_bytes).then_some(Block { first, begin, len_bytes, crc })
    }
}

/// A block is not what was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Damaged;

/// The list of one gram, as it was written.
#[derive(Debug)]
pub(crate) struct List {
    bytes: Vec<u8>,
    head: Head,
}

/// The list of `gram` in the block that would have it.
///
/// # Errors
/// The block is damaged.
pub(crate) fn list(block: Block, bytes: &[u8], gram: Gram) -> Result<Option<List>, Damaged> {
    if checksum(bytes) != block.crc {
        return Err(Damaged);
    }
    let mut rest = Bytes(bytes);
    let mut here = u64::from(block.first);
    while !rest.0.is_empty() {
        let (further, head) = head(&mut rest).ok_or(Damaged)?;
        here = here.checked_add(further).ok_or(Damaged)?;
        if here > u64::from(gram.0) {
            break;
        }
        let list = rest.take(head.len_bytes).ok_or(Damaged)?;
        if here == u64::from(gram.0) {
            return Ok(Some(List { bytes: list.to_vec(), head }));
        }
    }
    Ok(None)
}

/// What is known of a list before it is decoded.
#[derive(Clone, Copy, Debug)]
struct Head {
    count: u32,
    fine: bool,
    len_bytes: usize,
}

/// How far the next list's gram is from the one before, and its head; the list follows, whole.
fn head(rest: &mut Bytes<'_>) -> Option<(u64, Head)> {
    let (further, head, len_bytes) = (rest.number()?, rest.number()?, rest.len()?);
    let count = u32::try_from(head >> 1).ok()?;
    (len_bytes <= rest.0.len()).then_some((further, Head { count, fine: head & 1 == 1, len_bytes }))
}

/// Every list of a block can be read.
pub(crate) fn is_sound(block: Block, bytes: &[u8], chunks: u32) -> bool {
    let mut rest = Bytes(bytes);
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

/// Hands chunks to `each`, all below `chunks`, and which of their units.
fn decode(list: &[u8], head: Head, chunks: u32, mut each: impl FnMut(u32, u16)) -> Option<()> {
    postings::decode(list, head.count, bound(chunks, head.fine), &mut |number| match head.fine {
        true => each(number / UNITS as u32, 1 << (number % UNITS as u32)),
        false => each(number, u16::MAX),
    })
}

impl List {
    /// Chunks or units that it names.
    pub(crate) fn count(&self) -> u32 {
        self.head.count
    }

    /// Marks what it names in the units of `chunks` chunks. `None` where it is damaged.
    pub(crate) fn mark(&self, chunks: u32, units: &mut Units) -> Option<()> {
        decode(&self.bytes, self.head, chunks, |chunk, bits| units[chunk as usize] |= bits)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    fn units(section: &[u8], directory: &Directory, gram: Gram, chunks: u32) -> Units {
        let mut units = vec![0; chunks as usize];
        if let Some(block) = directory.block(gram).map(Option::unwrap) {
            let bytes = &section[block.begin as usize..][..block.len_bytes as usize];
            if let Some(list) = list(block, bytes, gram).unwrap() {
                list.mark(chunks, &mut units).unwrap();
            }
        }
        units
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

        #[test]
        fn every_list_comes_back_or_more(
            chunks in proptest::collection::vec(proptest::collection::btree_map(0_u32..3_000, 1_u16.., 0..300), 1..20),
        ) {
            let mut collector = Collector::new();
            for grams in &chunks {
                collector.add(grams.iter().map(|(&gram, &units)| (Gram(gram * 600), units)));
            }
            let (section, directory) = collector.finish(chunks.len() as u32, 3);
            let directory = Directory::decode(directory.encode().to_vec(), section.len() as u64).unwrap();
            let all: BTreeMap<u32, ()> = chunks.iter().flatten().map(|(&gram, _)| (gram, ())).collect();
            for gram in all.into_keys().chain([3_000]) {
                let found = units(&section, &directory, Gram(gram * 600), chunks.len() as u32);
                for (chunk, grams) in chunks.iter().enumerate() {
                    let found = found[chunk];
                    let truth = grams.get(&gram).copied().unwrap_or(0);
                    prop_assert_eq!(found & truth, truth, "gram {} chunk {}", gram, chunk);
                    prop_assert!(truth != 0 || found == 0);
                }
            }
        }
    }

    #[test]
    fn lists_of_middling_length_tell_the_units() {
        let grams = |chunk: u32| [(Gram(5), 1 << (chunk % 16)), (Gram(6), 1)].into_iter();
        let mut collector = Collector::new();
        let chunks = *FINE_UNITS.start() as u32;
        (0..chunks).for_each(|chunk| collector.add(grams(chunk)));
        let (section, directory) = collector.finish(chunks, 1);
        let found = units(&section, &directory, Gram(5), chunks);
        assert!(found.iter().enumerate().all(|(chunk, &units)| units == 1 << (chunk % 16)));
    }

    #[test]
    fn a_damaged_block_is_noticed() {
        let mut collector = Collector::new();
        collector.add([(Gram(7), 1)].into_iter());
        let (mut section, directory) = collector.finish(1, 1);
        let block = directory.block(Gram(7)).unwrap().unwrap();
        assert!(list(block, &section, Gram(7)).unwrap().is_some());
        section[0] ^= 4;
        assert!(list(block, &section, Gram(7)).is_err());
    }
}
