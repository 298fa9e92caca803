//! The front: blocks that were freed a moment ago, handed out again without the lock.
//!
//! In: runs of granules that were blocks. Out: the same runs, last in first out. There is a shard for each group of
//! processors. A shard has a set per length: one cache line of slots. A slot is one word that is swapped in or out. So
//! there is no lock that a fork could lose or another thread could hold.
//!
//! Blocks in the front count as free, although the slab table has them as used. The pool empties the front before it
//! makes anything resident, purges, or looks at all free memory. While the background thread sleeps, a shard takes only
//! a little at a time. Then the freeing thread takes the lock and checks whether to wake the background thread.

use std::ops::Deref;
use std::sync::atomic::{
    AtomicU64, AtomicUsize,
    Ordering::{AcqRel, Acquire, Relaxed, Release},
};

use faultless_os::processor::Processors;

use crate::class::Run;
use crate::tuning::{
    FRONT_BLOCK_BYTES, FRONT_BYTES, FRONT_LENGTHS, FRONT_SHARE, FRONT_STEP_BYTES, GRANULE_BYTES, SHARDS,
    SLOTS,
};

/// Sets of a shard: one per length, and one per doubling above.
const SETS: usize =
    FRONT_LENGTHS + (FRONT_BLOCK_BYTES / GRANULE_BYTES).ilog2() as usize - FRONT_LENGTHS.ilog2() as usize + 1;
/// The number of words that all slots take.
pub const FRONT_WORDS: usize = SHARDS * SETS * SLOTS;

/// One cache line of slots. A slot packs a run: the first granule in the high half, the count in the low half; 0 is
/// empty.
type Set = [AtomicU64; SLOTS];

/// The counters of a shard. x86-64 fetches two cache lines at a time, hence the alignment.
#[repr(align(128))]
#[derive(Default)]
struct Account {
    hits: AtomicU64,
    /// Granules that ever came in.
    put: AtomicU64,
    /// Granules of these that were handed out again.
    reused: AtomicU64,
    /// Granules of these that went back to the slabs.
    retired: AtomicU64,
    /// Granules that the shard may hold before a freeing thread must take the lock.
    allowed: AtomicUsize,
}

/// Slots by shard and length.
pub(crate) struct Front<L> {
    slots: L,
    accounts: [Account; SHARDS],
    processors: Processors,
    /// The most bytes that it takes, unless it is narrower for a while.
    limit: AtomicUsize,
    /// Granules that one shard may hold.
    room: AtomicUsize,
    /// Granules of the largest block.
    largest: AtomicUsize,
}

/// The part of the front that a group of processors uses.
#[derive(Clone, Copy)]
struct Shard<'a> {
    sets: &'a [Set],
    account: &'a Account,
}

/// Sums over all shards: blocks and granules handed out, granules held.
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

/// The set of a length in granules.
#[inline]
fn set_of(count: usize) -> usize {
    if count < FRONT_LENGTHS { count } else { FRONT_LENGTHS + (count / FRONT_LENGTHS).ilog2() as usize }
}

/// The front's part of the bytes that may be retained.
pub(crate) fn share(retain_bytes: usize) -> usize {
    FRONT_BYTES.min(retain_bytes / FRONT_SHARE)
}

impl<L: Deref<Target = [AtomicU64]>> Front<L> {
    /// A front of [`FRONT_WORDS`] empty slots, for a pool that may retain `retain_bytes`.
    pub(crate) fn new(slots: L, retain_bytes: usize) -> Self {
        let front = Self {
            slots,
            accounts: Default::default(),
            processors: Processors::find(),
            limit: AtomicUsize::new(0),
            room: AtomicUsize::new(0),
            largest: AtomicUsize::new(0),
        };
        front.limit(share(retain_bytes));
        front.meter(false);
        front
    }

    /// Sets the most bytes that it takes. Blocks in it stay.
    pub(crate) fn limit(&self, bytes: usize) {
        self.limit.store(bytes, Relaxed);
        self.narrow(usize::MAX);
    }

    /// Takes at most so many bytes until the next call, and never more than the limit.
    pub(crate) fn narrow(&self, bytes: usize) {
        let room = bytes.min(self.limit.load(Relaxed)) / GRANULE_BYTES / SHARDS;
        self.room.store(room, Relaxed);
        self.largest.store(room.min(FRONT_BLOCK_BYTES / GRANULE_BYTES), Relaxed);
    }

    fn room(&self) -> usize {
        self.room.load(Relaxed)
    }

    /// Says whether to limit how much comes in without the lock: the background thread sleeps and must be woken in
    /// time.
    pub(crate) fn meter(&self, is_metered: bool) {
        let allowed = if is_metered { 0 } else { usize::MAX };
        self.accounts.iter().for_each(|account| account.allowed.store(allowed, Relaxed));
    }

    /// Raises the allowance of this thread's shard so that a block of `count` granules fits; false if the allowance was
    /// no obstacle.
    pub(crate) fn raise_allowance(&self, count: usize) -> bool {
        let account = self.home().account;
        let needed = account.held() + count;
        let is_exceeded = needed > account.allowed.load(Relaxed);
        if is_exceeded {
            account.allowed.store(needed + FRONT_STEP_BYTES / GRANULE_BYTES, Relaxed);
        }
        is_exceeded
    }

    /// Whether blocks of so many granules may be in it.
    #[inline]
    pub(crate) fn suits(&self, count: usize) -> bool {
        count <= self.largest.load(Relaxed)
    }

    /// The shard of a processor.
    #[inline]
    fn shard(&self, processor: usize) -> Shard<'_> {
        let (sets, at) = (self.slots.as_chunks().0, processor % SHARDS);
        Shard { sets: sets.get(at * SETS..(at + 1) * SETS).unwrap_or_default(), account: &self.accounts[at] }
    }

    fn shards(&self) -> impl Iterator<Item = Shard<'_>> {
        (0..SHARDS).map(|at| self.shard(at))
    }

    #[inline]
    fn home(&self) -> Shard<'_> {
        self.shard(self.processors.current())
    }

    /// The block of `count` granules that came in last: from this thread's shard, or else from another one.
    #[inline]
    pub(crate) fn take(&self, count: usize) -> Option<usize> {
        let at = self.processors.current();
        (at..at + SHARDS).find_map(|at| self.shard(at).take(count))
    }

    /// Puts a block into this thread's shard; false if there is no room.
    #[inline]
    pub(crate) fn put(&self, run: Run) -> bool {
        self.home().put(run, self.room())
    }

    /// Makes room for a block in this thread's shard.
    pub(crate) fn make_room(&self, count: usize, each: impl FnMut(Run)) {
        let shard = self.home();
        let sets = if shard.held() + count > self.room() {
            shard.sets
        } else {
            shard.sets.get(set_of(count)..).and_then(|sets| sets.get(..1)).unwrap_or_default()
        };
        shard.retire(sets, each);
    }

    /// Empties all shards. Returns whether there was anything.
    pub(crate) fn empty(&self, mut each: impl FnMut(Run)) -> bool {
        let mut any = false;
        for shard in self.shards().filter(|shard| shard.held() > 0) {
            if shard.account.allowed.load(Relaxed) != usize::MAX {
                shard.account.allowed.store(0, Relaxed);
            }
            shard.retire(shard.sets, |run| {
                any = true;
                each(run);
            });
        }
        any
    }

    /// Whether no shard holds anything.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.accounts.iter().all(|account| account.held() == 0)
    }

    /// Corrects the counters in a child of `fork`: a thread that was putting a block in does not exist there.
    pub(crate) fn recount(&self) {
        for Shard { sets, account } in self.shards() {
            let held: usize = sets.iter().flatten().map(|slot| unpack(slot.load(Relaxed)).1).sum();
            let gone = account.reused.load(Relaxed) + account.retired.load(Relaxed);
            account.put.store(gone + held as u64, Relaxed);
        }
    }

    pub(crate) fn tally(&self) -> Tally {
        let mut tally = Tally::default();
        for account in &self.accounts {
            tally.hits += account.hits.load(Relaxed);
            tally.reused += account.reused.load(Relaxed);
            tally.held += account.held();
        }
        tally
    }
}

impl Account {
    /// Granules in the shard, including those that are coming in or going out right now.
    #[inline]
    fn held(&self) -> usize {
        // The outgoing counters are read first, because each granule came in before it went out. In a child whose
        // parent forked in a signal handler amid `put`, less may seem to have come in after `recount`. Hence the
        // saturating subtraction.
        let gone = self.reused.load(Acquire) + self.retired.load(Acquire);
        self.put.load(Relaxed).saturating_sub(gone) as usize
    }
}

impl Shard<'_> {
    #[inline]
    fn held(&self) -> usize {
        self.account.held()
    }

    #[inline]
    fn take(&self, count: usize) -> Option<usize> {
        for slot in self.sets.get(set_of(count))?.iter().rev() {
            let word = slot.load(Relaxed);
            // Acquire: the accesses of the freeing thread come before the accesses of the taker. If the same run left
            // and came back in between, it is just as free.
            if word as u32 as usize == count && slot.compare_exchange(word, 0, Acquire, Relaxed).is_ok() {
                self.account.hits.fetch_add(1, Relaxed);
                self.account.reused.fetch_add(count as u64, Release);
                return Some(unpack(word).0);
            }
        }
        None
    }

    #[inline]
    fn put(&self, run: Run, room: usize) -> bool {
        let Some(set) = self.sets.get(set_of(run.1)) else { return false };
        let Some(empty) = set.iter().position(|slot| slot.load(Relaxed) == 0) else { return false };
        // Counted before it can be taken, so that the shard never holds more than allowed.
        self.account.put.fetch_add(run.1 as u64, Relaxed);
        let fits = self.held() <= room.min(self.account.allowed.load(Relaxed));
        // Release: see `take`.
        let mut slots = set.iter().skip(if fits { empty } else { SLOTS });
        let is_in = slots.any(|slot| slot.compare_exchange(0, pack(run), AcqRel, Relaxed).is_ok());
        if !is_in {
            self.account.put.fetch_sub(run.1 as u64, Relaxed);
        }
        is_in
    }

    /// Empties some sets.
    fn retire(&self, sets: &[Set], mut each: impl FnMut(Run)) {
        let full = sets.iter().flatten().filter(|slot| slot.load(Relaxed) != 0);
        for run in full.map(|slot| unpack(slot.swap(0, Acquire))).filter(|run| run.1 > 0) {
            self.account.retired.fetch_add(run.1 as u64, Release);
            each(run);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keeping(retain_bytes: usize) -> Front<Vec<AtomicU64>> {
        Front::new((0..FRONT_WORDS).map(|_| AtomicU64::new(0)).collect(), retain_bytes)
    }

    fn all(shard: Shard) -> Vec<Run> {
        let mut runs = Vec::new();
        shard.retire(shard.sets, |run| runs.push(run));
        runs
    }

    #[test]
    fn the_last_block_of_a_size_comes_out_first() {
        let front = keeping(1 << 30);
        let shard = front.shard(0);
        for run in [(7, 40), (0, 3), (50, 40)] {
            assert!(shard.put(run, 1000));
        }
        assert_eq!([shard.take(40), shard.take(40), shard.take(40)], [Some(50), Some(7), None]);
        assert_eq!((front.tally().hits, front.tally().reused), (2, 80));
        assert_eq!(all(shard), [(0, 3)]);
    }

    #[test]
    fn lengths_do_not_push_each_other_out() {
        let front = keeping(1 << 30);
        let shard = front.shard(0);
        let lengths = [1, 2, 31, 32, 63, 64, 127, 128, 511, 512];
        for (at, &count) in lengths.iter().cycle().take(4 * lengths.len()).enumerate() {
            assert!(shard.put((at, count), 1 << 20), "{count}");
        }
        assert_eq!(set_of(FRONT_BLOCK_BYTES / GRANULE_BYTES), SETS - 1, "each has a set");
        assert!(lengths.iter().all(|&count| shard.take(count).is_some_and(|at| lengths[at % 10] == count)));
        assert_eq!(shard.held(), 3 * lengths.iter().sum::<usize>());
    }

    #[test]
    fn room_is_made_in_one_set_or_in_all() {
        let front = keeping(1 << 30);
        let filled = |shard: Shard| (0..20).filter(|&at| shard.put((at, 1), front.room())).count();
        for shard in front.shards() {
            assert!(shard.put((100, 2), front.room()));
            assert_eq!(filled(shard), SLOTS);
        }
        let mut retired = 0;
        front.make_room(1, |_| retired += 1);
        assert_eq!(retired, SLOTS, "the set of these");
        front.make_room(front.room(), |_| retired += 1);
        assert!(retired > SLOTS, "all, should the processor have stayed the same");
    }

    #[test]
    fn a_child_of_fork_forgets_who_was_about_to_put_a_block_in() {
        let front = keeping(1 << 30);
        assert!(front.shard(1).put((7, 3), 100));
        front.accounts[1].put.fetch_add(50, Relaxed);
        front.recount();
        assert_eq!((front.tally().held, front.take(3), front.is_empty()), (3, Some(7), true));
    }

    #[test]
    fn a_put_that_is_undone_in_a_child_of_fork_leaves_no_debt() {
        let front = keeping(1 << 30);
        front.accounts[0].put.fetch_add(50, Relaxed);
        front.recount();
        front.accounts[0].retired.fetch_add(50, Relaxed);
        assert_eq!((front.tally().held, front.is_empty()), (0, true));
    }

    #[test]
    fn a_metered_front_asks_after_every_step() {
        let (front, step) = (keeping(1 << 30), FRONT_STEP_BYTES / GRANULE_BYTES);
        assert!(!front.raise_allowance(1), "nobody sleeps");
        front.meter(true);
        assert!(!front.put((0, 9)));
        let shard = front.shard(0);
        shard.account.allowed.store(9 + step, Relaxed);
        assert!(shard.put((0, 9), front.room()) && shard.put((9, step), front.room()));
        assert!(!shard.put((9 + step, 1), front.room()));
        assert!(front.empty(|_| {}) && !shard.put((0, 9), front.room()), "it begins anew");
        while !front.put((0, 9)) {
            front.raise_allowance(9);
        }
        assert_eq!(front.tally().held, 9);
    }

    #[test]
    fn a_shard_holds_no_more_than_its_room() {
        let front = keeping(1 << 30);
        let shard = front.shard(0);
        assert!(shard.put((0, 60), 100));
        assert!(!shard.put((60, 41), 100));
        assert!(shard.put((60, 40), 100));
        let front = keeping(1 << 30);
        let slots = front.shard(0);
        assert_eq!((0..20).filter(|&at| slots.put((at, 1), 100)).count(), SLOTS);
    }

    #[test]
    fn a_block_of_another_processor_is_found() {
        let front = keeping(1 << 30);
        for at in 0..SHARDS {
            assert!(front.shard(at).put((at, 5), 100));
        }
        let mut found: Vec<_> = (0..SHARDS).map(|_| front.take(5).unwrap()).collect();
        found.sort_unstable();
        assert_eq!(found, (0..SHARDS).collect::<Vec<_>>());
        assert!(front.is_empty());
    }

    #[test]
    fn a_pool_that_keeps_nothing_has_no_front() {
        let front = keeping(0);
        assert!(!front.suits(1));
        let small = keeping(FRONT_SHARE * SHARDS * 10 * GRANULE_BYTES);
        assert!(small.suits(10) && !small.suits(11));
    }

    #[test]
    fn no_run_is_handed_out_twice() {
        let front = keeping(1 << 30);
        let rounds = if cfg!(miri) { 30 } else { 20_000 };
        let owned: Vec<_> = (0..6).map(|_| std::sync::atomic::AtomicBool::new(false)).collect();
        for start in 0..6 {
            assert!(front.shard(start % SHARDS).put((start, 1), 100));
        }
        let work = || {
            for _ in 0..rounds {
                if let Some(start) = front.take(1) {
                    assert!(!owned[start].swap(true, Relaxed), "{start} was handed out twice");
                    owned[start].store(false, Relaxed);
                    // A thread that is interrupted while it reads an account may see more than there ever was. Then the
                    // block takes the slow path, as if there were no room.
                    while !front.put((start, 1)) {
                        std::thread::yield_now();
                    }
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
