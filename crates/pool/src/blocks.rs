//! The blocks: one word per granule that says whether a block begins there, how long it is, and whose it is.
//!
//! ```text
//! 0 -create-> the program's -seize-> held by the pool -release-> the program's
//!                                                     -clear-> 0
//! ```
//! Seizing is one atomic step, so of two threads that free the same block one is told that it is not theirs; and the owner
//! of a block reads its length without a lock. In: granules. Out: lengths in granules.
//!
//! What it does not do: know what is free; that is in `state`.

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
/// The pool has the block: it is in the front, or being resized.
const HELD: u32 = 1 << 31;

/// A block as the table knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Found {
    /// Granules.
    pub(crate) count: usize,
    /// How often it grew, up to 3.
    pub(crate) grown: u32,
    /// Whether some of it was not resident when it was taken.
    pub(crate) fresh: bool,
}

impl Found {
    fn word(self) -> u32 {
        let fresh = if self.fresh { FRESH } else { 0 };
        self.count as u32 & LEN_MASK | fresh | self.grown.min(GROWN_MAX) << GROWN_SHIFT
    }
}

/// Why a block could not be seized.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Misuse {
    /// No block begins there.
    Unknown,
    /// The pool has it: it was freed before, or another thread is resizing it.
    Held,
}

/// The table.
pub(crate) struct Blocks<L> {
    words: L,
    /// Granules whose words can be used.
    usable: AtomicUsize,
}

impl<L: Deref<Target = [AtomicU32]>> Blocks<L> {
    pub(crate) fn new(words: L) -> Self {
        Self { words, usable: AtomicUsize::new(0) }
    }

    /// From now on the words of the first `granules` can be used.
    pub(crate) fn reach(&self, granules: usize) {
        self.usable.fetch_max(granules, Release);
    }

    #[inline]
    fn word(&self, start: usize) -> Option<&AtomicU32> {
        if start < self.usable.load(Acquire) { self.words.get(place(start)) } else { None }
    }

    /// The program's block that begins at a granule.
    #[inline]
    pub(crate) fn find(&self, start: usize) -> Option<Found> {
        let word = self.word(start)?.load(Relaxed);
        if word & HELD == 0 { found(word) } else { None }
    }

    /// Takes the program's block that begins at a granule away from it.
    #[inline]
    pub(crate) fn seize(&self, start: usize) -> Result<Found, Misuse> {
        let place = self.word(start).ok_or(Misuse::Unknown)?;
        let word = place.load(Relaxed);
        let block = found(word).ok_or(Misuse::Unknown)?;
        // Relaxed: content is passed on by whoever puts the block up for others, see `front` and the lock.
        match word & HELD == 0 && place.compare_exchange(word, word | HELD, Relaxed, Relaxed).is_ok() {
            true => Ok(block),
            false => Err(Misuse::Held),
        }
    }

    /// Gives a held block, or one that was not there, to the program.
    #[inline]
    pub(crate) fn release(&self, start: usize, block: Found) {
        if let Some(place) = self.word(start) {
            place.store(block.word(), Relaxed);
        }
    }

    /// Forgets a held block.
    pub(crate) fn clear(&self, start: usize) {
        if let Some(place) = self.word(start) {
            place.store(0, Relaxed);
        }
    }
}

/// Where the word of a granule lies: among those of its slab, on another cache line than those of the blocks next to it, so
/// that threads with neighbouring blocks do not wait for each other.
#[inline]
fn place(start: usize) -> usize {
    let line = (start >> 2 ^ start >> 5) & 7;
    start & !127 | line << 4 | (start >> 5 & 3) << 2 | start & 3
}

#[inline]
fn found(word: u32) -> Option<Found> {
    let count = (word & LEN_MASK) as usize;
    let found = Found { count, grown: (word & !HELD) >> GROWN_SHIFT, fresh: word & FRESH != 0 };
    (found.count > 0).then_some(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn blocks() -> Blocks<Vec<AtomicU32>> {
        let blocks = Blocks::new((0..128).map(|_| AtomicU32::new(0)).collect::<Vec<_>>());
        blocks.reach(6);
        blocks
    }

    const BLOCK: Found = Found { count: 1 << 26, grown: 2, fresh: true };

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
    fn every_word_has_a_place_and_neighbours_have_lines_of_their_own() {
        let places: std::collections::BTreeSet<_> = (256..384).map(place).collect();
        assert!(places.into_iter().eq(256..384));
        for step in [4, 8, 16, 32, 64] {
            assert_ne!(place(256) / 16, place(256 + step) / 16, "{step}");
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
