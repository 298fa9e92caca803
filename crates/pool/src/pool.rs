//! The pool: requests in bytes on one side, a [`Backend`] on the other; a front without locks, and one lock behind it.
//!
//! In: lengths and alignments. Out: offsets into the reserved range (inside this crate), from which `block` makes
//! memory where the backend has some. Whatever the backend has to do for it, in front or behind, happens outside the lock:
//! the granules concerned are taken or claimed meanwhile, so nobody waits for a system call of another thread.
//!
//! What it does not do: threads of its own, small blocks; changing the length of a block is in `resize`.

use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, AtomicUsize, Ordering::Relaxed};

use faultless_os::lock::{Guard, Mutex};
use faultless_os::thread::pause;

use crate::backend::{Backend, Span};
use crate::blocks::{Blocks, Found, Misuse};
use crate::class::granules;
use crate::core::{Core, Lack, Run, Taken, Wanted};
use crate::front::{self, Front};
use crate::keeper::{Keeper, Watch};
use crate::lists::Lists;
use crate::policy::tuning::{
    ALIGN_BYTES, GRANULE_BYTES, LEFT_SLABS, SLAB_BYTES, SLAB_GRANULES, SPARSE_GRANULES,
};
use crate::policy::{Policy, Prefault, Scrub};
use crate::stats::Stats;

/// A pool of large blocks that keep their pages.
pub struct Pool<B: Backend> {
    pub(crate) front: Front<B::Slots>,
    pub(crate) blocks: Blocks<B::Blocks>,
    pub(crate) backend: B,
    pub(crate) policy: Policy,
    pub(crate) keeper: Keeper,
    /// Whether unusual system calls are to be avoided.
    pub(crate) confined: AtomicBool,
    /// Whether addresses are free of charge; 0 before anybody asked.
    roomy: AtomicU8,
    /// Whether there may be zeroed memory behind the front.
    pub(crate) zeroed: AtomicBool,
    /// Whether part of the range may be somebody else's.
    pub(crate) has_holes: AtomicBool,
    /// Slabs in which the program has changed mappings.
    pub(crate) altered_slabs: AtomicUsize,
    /// Whether addresses count: no more of the range is made usable than is needed.
    pub(crate) is_thrifty: AtomicBool,
    /// Granules of the longest block that the kernel would let a program have.
    pub(crate) most: usize,
    base: usize,
    len: usize,
    pub(crate) core: Mutex<Core<B>>,
    /// What is counted without the lock.
    cleared_bytes: AtomicU64,
    wiped_bytes: AtomicU64,
    double_frees: AtomicU64,
    unknown_frees: AtomicU64,
}

const ROOMY: u8 = 1;
const NOT_ROOMY: u8 = 2;

impl<B: Backend> Pool<B> {
    /// Reserves a range, and makes as much of it resident as [`Policy::prewarm`] says.
    ///
    /// # Errors
    /// The backend could not reserve anything worth having.
    pub fn open(backend: B, policy: Policy) -> crate::Result<Self> {
        let range = backend.reserve(policy.page).inspect_err(|_| backend.release())?;
        let lists = Lists::new(range.slabs, range.words, range.len / GRANULE_BYTES / SLAB_GRANULES);
        let keep = policy.retain.bytes - front::share(policy.retain.bytes);
        let most = backend.most_bytes() / GRANULE_BYTES;
        let mut core = Core::new(lists, keep, range.base);
        core.watch = Watch::of(policy);
        let pool = Self {
            front: Front::new(range.slots, policy.retain.bytes),
            blocks: Blocks::new(range.blocks),
            backend,
            policy,
            keeper: Keeper::new(),
            confined: AtomicBool::new(false),
            roomy: AtomicU8::new(0),
            zeroed: AtomicBool::new(false),
            has_holes: AtomicBool::new(false),
            altered_slabs: AtomicUsize::new(0),
            is_thrifty: AtomicBool::new(false),
            most,
            base: range.base,
            len: range.len,
            core: Mutex::new(core),
            cleared_bytes: AtomicU64::new(0),
            wiped_bytes: AtomicU64::new(0),
            double_frees: AtomicU64::new(0),
            unknown_frees: AtomicU64::new(0),
        };
        pool.front.watch(Watch::of(policy).kept_above < usize::MAX);
        pool.heed_limits();
        pool.prewarm(policy.prewarm);
        Ok(pool)
    }

    /// The addresses of the range: (start, length in bytes).
    pub fn range(&self) -> (usize, usize) {
        (self.base, self.len)
    }

    /// Whether an address in the range where no block begins may be somebody else's.
    pub fn may_be_foreign(&self, address: usize) -> bool {
        let slab = address.wrapping_sub(self.base) / SLAB_BYTES;
        self.has_holes.load(Relaxed) || self.core.lock().is_none_or(|core| slab >= core.lists.usable)
    }

    /// What the pool did so far. All zero while this thread holds the pool for `fork`.
    pub fn stats(&self) -> Stats {
        let Some(core) = self.core.lock() else { return Stats::default() };
        let (stats, tally) = (core.stats(), self.front.tally());
        drop(core);
        let held_bytes = tally.held * GRANULE_BYTES;
        let retained_bytes = stats.retained_bytes + held_bytes;
        Stats {
            dirty_hits: stats.dirty_hits + tally.hits,
            front_hits: tally.hits,
            reused_bytes: stats.reused_bytes + tally.reused * GRANULE_BYTES as u64,
            cleared_bytes: stats.cleared_bytes + self.cleared_bytes.load(Relaxed),
            scrubbed_bytes: stats.scrubbed_bytes + self.wiped_bytes.load(Relaxed),
            in_use_bytes: stats.in_use_bytes.saturating_sub(held_bytes),
            retained_bytes,
            peak_retained_bytes: stats.peak_retained_bytes.max(retained_bytes),
            fallback_bytes: self.backend.fallback_bytes(),
            double_frees: self.double_frees.load(Relaxed),
            unknown_frees: self.unknown_frees.load(Relaxed),
            ..stats
        }
    }

    /// A block of at least `len` bytes aligned to `align` (a power of two).
    #[inline]
    pub(crate) fn take(&self, len: usize, align: usize, zeroed: bool) -> Option<usize> {
        let (count, align) = (granules(len)?, align.div_ceil(GRANULE_BYTES).max(1));
        // What is behind may be zero already, or cheap to make so.
        let behind = zeroed && (count >= SPARSE_GRANULES || self.zeroed.load(Relaxed));
        let in_front = align == 1 && !behind && self.front.suits(count);
        let Some(start) = in_front.then(|| self.front.take(count)).flatten() else {
            return self.take_behind(count, align, zeroed);
        };
        self.blocks.release(start, Found { count, grown: 0, fresh: false });
        if zeroed {
            let span = span((start, count));
            self.backend.zero(span);
            self.cleared_bytes.fetch_add(span.len as u64, Relaxed);
        }
        Some(start * GRANULE_BYTES)
    }

    #[inline(never)]
    fn take_behind(&self, count: usize, align: usize, zeroed: bool) -> Option<usize> {
        if align > ALIGN_BYTES / GRANULE_BYTES || count > self.most {
            return self.refused();
        }
        let wanted = self.wanted(count, align, zeroed);
        let taken = self.served(|core, warm| core.alloc(count, wanted, warm)).or_else(|| self.refused())?;
        self.settle(taken, count);
        if wanted.zeroed && taken.dirty + taken.fresh == count {
            self.zeroed.store(false, Relaxed);
        }
        let mut fresh = taken.fresh > 0;
        if wanted.zeroed && taken.dirty > 0 {
            fresh |= self.clear((taken.start, count))?;
        }
        self.blocks.release(taken.start, Found { count, grown: 0, fresh });
        Some(taken.start * GRANULE_BYTES)
    }

    /// What a request for `count` granules asks for besides its length.
    pub(crate) fn wanted(&self, count: usize, align: usize, zeroed: bool) -> Wanted {
        let trusted = if self.policy.prefault.is_at_get() { 0 } else { self.trusted(count) };
        Wanted { align, zeroed, trusted }
    }

    /// Takes a block back; false if none begins there, or if it was freed before.
    #[inline]
    pub(crate) fn give(&self, offset: usize) -> bool {
        let seized = start_of(offset).ok_or(Misuse::Unknown).and_then(|start| {
            let block = self.blocks.seize(start)?;
            Ok((start, block))
        });
        match seized {
            Ok((start, block)) if self.is_altered((start, block.count)) => {
                self.blocks.clear(start);
                self.give_altered((start, block.count));
                true
            }
            Ok((start, block)) if self.is_checked(block.fresh, block.count) => {
                self.give_checked((start, block.count));
                true
            }
            Ok((start, block)) => {
                let run = (start, block.count);
                self.wipe(run);
                if !(self.front.suits(run.1) && self.front.put(run)) {
                    self.give_behind(run);
                }
                true
            }
            Err(misuse) => self.misused(misuse),
        }
    }

    /// Zeroes what is about to be freed, where the policy wants that.
    #[inline]
    pub(crate) fn wipe(&self, run: Run) {
        if self.policy.scrub == Scrub::OnFree {
            self.backend.scrub(span(run));
            self.wiped_bytes.fetch_add(span(run).len as u64, Relaxed);
        }
    }

    /// Whether it is looked up, of so much that is no longer used, what was ever touched.
    #[inline]
    pub(crate) fn is_checked(&self, fresh: bool, count: usize) -> bool {
        fresh && count >= SPARSE_GRANULES && !self.confined.load(Relaxed)
    }

    #[inline(never)]
    fn give_behind(&self, run: Run) {
        let Some(mut core) = self.core.lock() else { return };
        let suits = self.front.suits(run.1);
        let mut is_in = suits && self.front.allow(run.1) && self.front.put(run);
        if suits && !is_in {
            self.front.make_room(run.1, |old| self.retire(&mut core, old));
            is_in = self.front.put(run);
        }
        if !is_in {
            self.retire(&mut core, run);
        }
        self.gave(core, run);
    }

    /// What is left to do after free memory became more, by a run among others.
    pub(crate) fn gave(&self, mut core: Guard<'_, Core<B>>, run: Run) {
        let (excess, calls) = (core.keeps_too_much(), core.calls(self.front.tally().held));
        drop(core);
        if calls {
            self.call_keeper();
        }
        if excess {
            self.purge_excess(run);
        }
    }

    #[cold]
    fn misused(&self, misuse: Misuse) -> bool {
        match misuse {
            Misuse::Unknown => self.unknown_frees.fetch_add(1, Relaxed),
            Misuse::Held => self.double_frees.fetch_add(1, Relaxed),
        };
        false
    }

    /// A held block becomes free memory.
    fn retire(&self, core: &mut Core<B>, run: Run) {
        self.blocks.clear(run.0);
        core.give(run, false);
    }

    /// Everything in the front becomes free memory behind it; whether there was anything.
    pub(crate) fn empty_front(&self) -> bool {
        if self.front.is_empty() {
            return false;
        }
        let Some(mut core) = self.core.lock() else { return false };
        self.front.empty(|run| self.retire(&mut core, run))
    }

    /// The length in bytes of the block that begins at `offset`.
    pub(crate) fn len_at(&self, offset: usize) -> Option<usize> {
        Some(self.blocks.find(start_of(offset)?)?.count * GRANULE_BYTES)
    }

    /// What `attempt` finds, with the front emptied if that may help, and as much of the range made usable as it takes. It
    /// hears whether only resident memory will do.
    pub(crate) fn served<T>(
        &self,
        mut attempt: impl FnMut(&mut Core<B>, bool) -> Result<T, Lack>,
    ) -> Option<T> {
        let mut warm = !self.front.is_empty();
        loop {
            let mut core = self.core.lock()?;
            let (from, to, least) = match attempt(&mut core, warm) {
                Ok(found) => return Some(found),
                Err(Lack::Usable { from, to, least }) => (from, to, least),
                Err(Lack::Warm | Lack::Place) if warm => {
                    warm = false;
                    self.front.empty(|run| self.retire(&mut core, run));
                    continue;
                }
                Err(Lack::Warm | Lack::Place) => return None,
                Err(Lack::Turn) => {
                    drop(core);
                    pause();
                    continue;
                }
            };
            drop(core);
            let to = if self.is_thrifty.load(Relaxed) { least } else { to };
            let reached = [to, least].into_iter().find(|&to| self.backend.extend(from, to).is_ok());
            self.blocks.reach(reached.unwrap_or(0) * SLAB_GRANULES);
            self.core.lock()?.reached(reached);
            reached?;
        }
    }

    pub(crate) fn refused<T>(&self) -> Option<T> {
        self.core.lock()?.stats.refused += 1;
        None
    }

    pub(crate) fn is_roomy(&self) -> bool {
        if self.is_thrifty.load(Relaxed) {
            return false;
        }
        if self.roomy.load(Relaxed) == 0 {
            self.roomy.store(if self.backend.is_roomy() { ROOMY } else { NOT_ROOMY }, Relaxed);
        }
        self.roomy.load(Relaxed) == ROOMY
    }

    /// Whether there is so much memory that making this many granules resident takes no more than half of what is left.
    fn is_affordable(&self, count: usize) -> bool {
        let is_small = count < LEFT_SLABS * SLAB_GRANULES || self.confined.load(Relaxed);
        is_small || count * GRANULE_BYTES <= self.backend.left_bytes() / 2
    }

    /// What is left to do for `count` granules that were just taken.
    pub(crate) fn settle(&self, taken: Taken, count: usize) {
        if taken.calls {
            self.call_keeper();
        }
        if taken.is_unknown {
            self.discover();
        }
        if self.policy.prefault.is_at_get() && taken.fresh > 0 && self.is_affordable(count) {
            let span = span((taken.start, count));
            self.advise_for(span);
            // A touch makes no call.
            let way = if self.confined.load(Relaxed) { Prefault::Touch } else { self.policy.prefault };
            self.populate(span, way);
        }
        if taken.excess {
            self.purge_excess((taken.start, 0));
        }
    }
}

impl<B: Backend> Drop for Pool<B> {
    fn drop(&mut self) {
        self.backend.release();
    }
}

pub(crate) fn span((start, count): Run) -> Span {
    Span { offset: start * GRANULE_BYTES, len: count * GRANULE_BYTES }
}

pub(crate) fn start_of(offset: usize) -> Option<usize> {
    offset.is_multiple_of(GRANULE_BYTES).then_some(offset / GRANULE_BYTES)
}
