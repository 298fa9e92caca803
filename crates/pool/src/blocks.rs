//! The block table: one word per granule that says whether a block begins there, how long it is, and who has it.
//!
//! ```text
//! 0 -release-> the program's -seize-> held by the pool -release-> the program's
//!                                                      -clear-> 0
//! ```
//! Seizing is one atomic step. Of two threads that free the same block, the second one is refused. The owner of a block
//! reads its length without a lock. In: granules. Out: lengths in granules.
//!
//! Out of scope: which granules are free; `slabs` knows.

use std::ops::Deref;
use std::sync::atomic::{
    AtomicU32, AtomicUsize,
    Ordering::{Acquire, Relaxed, Release},
};

/// 2^26 granules are 1 TiB, the largest range.
const LEN_MASK: u32 = (1 << 27) - 1;
const FRESH: u32 = 1 << 27;
const GROWN_SHIFT: u32 = 28;
const GROWN_MAX: u32 = 3;
/// The block serves mmap(2). Then the field of `grown` has the quarters of the last granule that the mapping lacks.
const MAPPED: u32 = 1 << 30;
/// The pool has the block: it is in the front, or being resized.
const HELD: u32 = 1 << 31;

/// One block of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    /// Granules.
    pub(crate) count: usize,
    /// How often it grew, up to 3.
    pub(crate) grown: u32,
    /// Whether some of it was not resident when it was taken.
    pub(crate) fresh: bool,
}

impl Entry {
    fn pack(self) -> u32 {
        let fresh = if self.fresh { FRESH } else { 0 };
        self.count as u32 & LEN_MASK | fresh | self.grown.min(GROWN_MAX) << GROWN_SHIFT
    }

    #[inline]
    fn unpack(word: u32) -> Option<Self> {
        let count = (word & LEN_MASK) as usize;
        let entry = Self { count, grown: word >> GROWN_SHIFT & GROWN_MAX, fresh: word & FRESH != 0 };
        (count > 0).then_some(entry)
    }
}

/// Why a block could not be seized.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Misuse {
    /// No block begins there.
    Unknown,
    /// The pool has the block: it was freed before, or another thread is resizing it.
    Held,
}

/// The table.
pub(crate) struct Blocks<L> {
    words: L,
    /// Granules with usable words.
    usable: AtomicUsize,
}

impl<L: Deref<Target = [AtomicU32]>> Blocks<L> {
    pub(crate) fn new(words: L) -> Self {
        Self { words, usable: AtomicUsize::new(0) }
    }

    /// Makes the words of the first `granules` usable.
    pub(crate) fn extend_to(&self, granules: usize) {
        self.usable.fetch_max(granules, Release);
    }

    #[inline]
    fn word(&self, start: usize) -> Option<&AtomicU32> {
        if start < self.usable.load(Acquire) { self.words.get(word_index(start)) } else { None }
    }

    /// The program's block that begins at a granule.
    #[inline]
    pub(crate) fn find(&self, start: usize) -> Option<Entry> {
        let word = self.word(start)?.load(Relaxed);
        if word & HELD == 0 { Entry::unpack(word) } else { None }
    }

    /// Takes the block that begins at a granule from the program.
    #[inline]
    pub(crate) fn seize(&self, start: usize) -> Result<Entry, Misuse> {
        let slot = self.word(start).ok_or(Misuse::Unknown)?;
        let word = slot.load(Relaxed);
        let block = Entry::unpack(word).ok_or(Misuse::Unknown)?;
        // Relaxed: the front, or the lock, orders the block's content before its next use.
        if word & HELD == 0 && slot.compare_exchange(word, word | HELD, Relaxed, Relaxed).is_ok() {
            Ok(block)
        } else {
            Err(Misuse::Held)
        }
    }

    /// Gives a held or a new block to the program.
    #[inline]
    pub(crate) fn release(&self, start: usize, block: Entry) {
        if let Some(slot) = self.word(start) {
            slot.store(block.pack(), Relaxed);
        }
    }

    /// Makes a block that nobody knows yet a mapping that lacks `lacking` quarters of its last granule.
    pub(crate) fn mark_mapping(&self, start: usize, lacking: u32) {
        if let Some(slot) = self.word(start) {
            slot.fetch_or(MAPPED | lacking.min(GROWN_MAX) << GROWN_SHIFT, Relaxed);
        }
    }

    /// Takes the mapping of exactly this length from the program: granules, and the quarters that the last one lacks. It
    /// is a block then.
    pub(crate) fn seize_mapping(&self, start: usize, length: (usize, u32)) -> Option<Entry> {
        let block = Entry { grown: 0, ..self.find(start)? };
        let mapping = block.pack() | MAPPED | length.1 << GROWN_SHIFT;
        let seize = |slot: &AtomicU32| {
            length.0 == block.count
                && slot.compare_exchange(mapping, block.pack() | HELD, Relaxed, Relaxed).is_ok()
        };
        self.word(start).is_some_and(seize).then_some(block)
    }

    /// Takes the mapping that begins at a granule for good: nobody ever gets it.
    pub(crate) fn lose_mapping(&self, start: usize) -> bool {
        self.word(start).is_some_and(|slot| {
            let word = slot.load(Relaxed);
            is_mapping(word) && slot.compare_exchange(word, word | HELD, Relaxed, Relaxed).is_ok()
        })
    }

    /// The first granule and the length of the block that a granule is in, also of one that the pool has. Not of blocks
    /// that begin `most` or more granules before.
    pub(crate) fn covering(&self, granule: usize, most: usize) -> Option<(usize, usize)> {
        let starts = (0..most).map_while(|back| granule.checked_sub(back));
        let (start, block) = starts.filter_map(|start| Some((start, self.any(start)?))).next()?;
        (granule < start + block.count).then_some((start, block.count))
    }

    /// The block that begins at a granule, whoever has it.
    pub(crate) fn any(&self, start: usize) -> Option<Entry> {
        Entry::unpack(self.word(start)?.load(Relaxed))
    }

    /// Removes a held block from the table.
    pub(crate) fn clear(&self, start: usize) {
        if let Some(slot) = self.word(start) {
            slot.store(0, Relaxed);
        }
    }
}

/// Whether the word is that of a mapping of the program's.
fn is_mapping(word: u32) -> bool {
    word & (MAPPED | HELD) == MAPPED
}

/// The index of a granule's word, among the words of the same slab. Neighbouring blocks have their words on different
/// cache lines, so that their threads do not slow each other down.
#[inline]
fn word_index(start: usize) -> usize {
    let line = (start >> 2 ^ start >> 5) & 7;
    start & !127 | line << 4 | (start >> 5 & 3) << 2 | start & 3
}

#[cfg(test)]
mod tests {
    use super::*;

    fn blocks() -> Blocks<Vec<AtomicU32>> {
        let blocks = Blocks::new((0..128).map(|_| AtomicU32::new(0)).collect::<Vec<_>>());
        blocks.extend_to(6);
        blocks
    }

    const BLOCK: Entry = Entry { count: 1 << 26, grown: 2, fresh: true };

    #[test]
    fn a_block_is_seized_once() {
        let blocks = blocks();
        blocks.release(5, BLOCK);
        assert_eq!(blocks.find(5), Some(BLOCK));
        assert_eq!(blocks.seize(5), Ok(BLOCK));
        assert_eq!((blocks.seize(5), blocks.find(5)), (Err(Misuse::Held), None));
        blocks.release(5, BLOCK);
        assert_eq!(blocks.seize(5), Ok(BLOCK));
        blocks.clear(5);
        assert_eq!(blocks.seize(5), Err(Misuse::Unknown));
    }

    #[test]
    fn a_mapping_is_seized_by_its_whole_length() {
        let blocks = blocks();
        let mapping = Entry { count: 3, grown: 0, fresh: true };
        blocks.release(1, mapping);
        assert_eq!(blocks.seize_mapping(1, (3, 0)), None, "no mapping");
        blocks.mark_mapping(1, 2);
        assert_eq!([0, 1, 3].map(|lacking| blocks.seize_mapping(1, (3, lacking))), [None; 3]);
        assert_eq!(
            (blocks.covering(3, 9), blocks.covering(3, 2), blocks.covering(4, 9)),
            (Some((1, 3)), None, None)
        );
        assert_eq!(blocks.seize_mapping(1, (3, 2)), Some(mapping));
        assert_eq!(
            (blocks.seize_mapping(1, (3, 2)), blocks.lose_mapping(1)),
            (None, false),
            "a block, and held"
        );
        blocks.release(1, mapping);
        blocks.mark_mapping(1, 0);
        assert!(blocks.lose_mapping(1) && !blocks.lose_mapping(1));
        assert_eq!((blocks.find(1), blocks.any(1).is_some()), (None, true));
    }

    #[test]
    fn every_word_has_an_index_and_neighbours_have_lines_of_their_own() {
        let indices: std::collections::BTreeSet<_> = (256..384).map(word_index).collect();
        assert!(indices.into_iter().eq(256..384));
        for step in [4, 8, 16, 32, 64] {
            assert_ne!(word_index(256) / 16, word_index(256 + step) / 16, "{step}");
        }
    }

    #[test]
    fn nothing_begins_where_the_table_is_not_usable() {
        let blocks = blocks();
        blocks.release(6, BLOCK);
        assert_eq!((blocks.seize(6), blocks.seize(usize::MAX)), (Err(Misuse::Unknown), Err(Misuse::Unknown)));
    }

    #[test]
    fn one_of_many_threads_gets_the_block() {
        let blocks = blocks();
        blocks.release(0, BLOCK);
        let seized = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..4).map(|_| scope.spawn(|| blocks.seize(0).is_ok())).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).filter(|&got| got).count()
        });
        assert_eq!(seized, 1);
    }
}
