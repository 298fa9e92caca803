//! The front: a few blocks that were freed a moment ago, where they are found again without the lock.
//!
//! In: runs of granules that were blocks. Out: the same runs, the last one put in first. A shard per processor, more or
//! less; a shard is one cache line of slots, a slot is one word that is swapped in or out, so there is no lock that a fork
//! could lose or another thread could hold.
//!
//! What is in the front counts as free, although the tables behind it do not know: before anything is made resident, given
//! back or looked at as a whole, the pool empties it.

use std::sync::atomic::{
    AtomicU64,
    Ordering::{AcqRel, Acquire, Relaxed},
};

use faultless_os::processor::Processors;

use crate::core::Run;
use crate::policy::tuning::{FRONT_BLOCK_BYTES, FRONT_BYTES, FRONT_SHARE, GRANULE_BYTES, SHARDS, SLOTS};

/// One cache line of slots, one of counts; two lines are fetched at a time on x86-64.
#[repr(align(128))]
struct Shard {
    /// A run: the first granule above, how many below; 0: empty.
    slots: [AtomicU64; SLOTS],
    hits: AtomicU64,
    reused: AtomicU64,
}

/// What the front is: empty slots by processor.
pub(crate) struct Front {
    shards: [Shard; SHARDS],
    processors: Processors,
    /// Granules that one shard may hold.
    room: usize,
    /// Granules of the largest block.
    largest: usize,
}

/// What blocks the front handed out, and what it holds.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Tally {
    pub(crate) hits: u64,
    pub(crate) reused: u64,
    pub(crate) held: usize,
}

fn pack((start, count): Run) -> u64 {
    (start as u64) << 32 | count as u64
}

fn unpack(word: u64) -> Run {
    ((word >> 32) as usize, word as u32 as usize)
}

impl Front {
    /// A front for a pool that may keep `retain_bytes`.
    pub(crate) fn new(retain_bytes: usize) -> Self {
        let room = Self::share(retain_bytes) / GRANULE_BYTES / SHARDS;
        let shard = || Shard {
            slots: [const { AtomicU64::new(0) }; SLOTS],
            hits: AtomicU64::new(0),
            reused: AtomicU64::new(0),
        };
        Self {
            shards: std::array::from_fn(|_| shard()),
            processors: Processors::find(),
            room,
            largest: room.min(FRONT_BLOCK_BYTES / GRANULE_BYTES),
        }
    }

    /// How many of the bytes that may be kept are the front's.
    pub(crate) fn share(retain_bytes: usize) -> usize {
        FRONT_BYTES.min(retain_bytes / FRONT_SHARE)
    }

    /// Whether blocks of that many granules may be in it.
    #[inline]
    pub(crate) fn suits(&self, count: usize) -> bool {
        count <= self.largest
    }

    #[inline]
    fn home(&self) -> &Shard {
        &self.shards[self.processors.current() % SHARDS]
    }

    /// The last block of that many granules that was put in here, or else elsewhere.
    #[inline]
    pub(crate) fn take(&self, count: usize) -> Option<usize> {
        let at = self.processors.current();
        (at..at + SHARDS).find_map(|at| self.shards[at % SHARDS].take(count))
    }

    /// Puts a block in; false if there is no room.
    #[inline]
    pub(crate) fn put(&self, run: Run) -> bool {
        self.home().put(run, self.room)
    }

    /// Empties the shard that [`Front::put`] uses now.
    pub(crate) fn flush(&self, each: impl FnMut(Run)) {
        self.home().runs().for_each(each);
    }

    /// Empties it; whether anything was in.
    pub(crate) fn empty(&self, mut each: impl FnMut(Run)) -> bool {
        let mut any = false;
        self.shards.iter().flat_map(Shard::runs).for_each(|run| {
            any = true;
            each(run);
        });
        any
    }

    /// Whether nothing is in it.
    pub(crate) fn is_empty(&self) -> bool {
        self.shards.iter().flat_map(|shard| &shard.slots).all(|slot| slot.load(Relaxed) == 0)
    }

    pub(crate) fn tally(&self) -> Tally {
        let mut tally = Tally::default();
        for shard in &self.shards {
            tally.hits += shard.hits.load(Relaxed);
            tally.reused += shard.reused.load(Relaxed);
            tally.held += shard.slots.iter().map(|slot| unpack(slot.load(Relaxed)).1).sum::<usize>();
        }
        tally
    }
}

impl Shard {
    #[inline]
    fn take(&self, count: usize) -> Option<usize> {
        for slot in self.slots.iter().rev() {
            let word = slot.load(Relaxed);
            // Acquire: what the thread that put it in did to the block comes before what its taker does. Should the same
            // run have come back in between, it is free just as well.
            if word as u32 as usize == count && slot.compare_exchange(word, 0, Acquire, Relaxed).is_ok() {
                self.hits.fetch_add(1, Relaxed);
                self.reused.fetch_add(count as u64, Relaxed);
                return Some(unpack(word).0);
            }
        }
        None
    }

    #[inline]
    fn put(&self, run: Run, room: usize) -> bool {
        let words = self.slots.each_ref().map(|slot| slot.load(Relaxed));
        if words.iter().map(|&word| unpack(word).1).sum::<usize>() + run.1 > room {
            return false;
        }
        let empty = self.slots.iter().zip(words).filter(|&(_, word)| word == 0);
        // Release: see `take`.
        empty.map(|(slot, _)| slot).any(|slot| slot.compare_exchange(0, pack(run), AcqRel, Relaxed).is_ok())
    }

    /// Takes everything out.
    fn runs(&self) -> impl Iterator<Item = Run> {
        let full = self.slots.iter().filter(|slot| slot.load(Relaxed) != 0);
        full.map(|slot| unpack(slot.swap(0, Acquire))).filter(|run| run.1 > 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_block_of_a_size_comes_out_first() {
        let shard = &Front::new(1 << 30).shards[0];
        for run in [(7, 40), (0, 3), (50, 40)] {
            assert!(shard.put(run, 1000));
        }
        assert_eq!([shard.take(40), shard.take(40), shard.take(40)], [Some(50), Some(7), None]);
        assert_eq!((shard.hits.load(Relaxed), shard.reused.load(Relaxed)), (2, 80));
        assert_eq!(shard.runs().collect::<Vec<_>>(), [(0, 3)]);
    }

    #[test]
    fn a_shard_holds_no_more_than_its_room() {
        let shard = &Front::new(1 << 30).shards[0];
        assert!(shard.put((0, 60), 100));
        assert!(!shard.put((60, 41), 100));
        assert!(shard.put((60, 40), 100));
        let slots = &Front::new(1 << 30).shards[0];
        assert_eq!((0..20).filter(|&at| slots.put((at, 1), 100)).count(), SLOTS);
    }

    #[test]
    fn a_block_of_another_processor_is_found() {
        let front = Front::new(1 << 30);
        for at in 0..SHARDS {
            assert!(front.shards[at].put((at, 5), 100));
        }
        let mut found: Vec<_> = (0..SHARDS).map(|_| front.take(5).unwrap()).collect();
        found.sort_unstable();
        assert_eq!(found, (0..SHARDS).collect::<Vec<_>>());
        assert!(front.is_empty());
    }

    #[test]
    fn a_pool_that_keeps_nothing_has_no_front() {
        let front = Front::new(0);
        assert!(!front.suits(1));
        let small = Front::new(FRONT_SHARE * SHARDS * 10 * GRANULE_BYTES);
        assert!(small.suits(10) && !small.suits(11));
    }

    #[test]
    fn no_run_is_handed_out_twice() {
        let front = Front::new(1 << 30);
        let rounds = if cfg!(miri) { 30 } else { 20_000 };
        let owned: Vec<_> = (0..6).map(|_| std::sync::atomic::AtomicBool::new(false)).collect();
        for start in 0..6 {
            assert!(front.shards[start % SHARDS].put((start, 1), 100));
        }
        let work = || {
            for _ in 0..rounds {
                if let Some(start) = front.take(1) {
                    assert!(!owned[start].swap(true, Relaxed), "{start} was handed out twice");
                    owned[start].store(false, Relaxed);
                    assert!(front.put((start, 1)));
                }
            }
        };
        std::thread::scope(|scope| {
            (0..3).for_each(|_| {
                scope.spawn(work);
            });
        });
        assert_eq!(front.tally().held, 6);
    }
}
