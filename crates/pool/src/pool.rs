//! The pool: allocates, frees and resizes blocks. A lock-free front serves most requests, one lock serves the rest.
//!
//! In: lengths, alignments and offsets into the reserved range. Out: offsets. `block` makes memory of them if the
//! backend has memory. Every system call is made outside the lock. The granules concerned are taken or claimed
//! meanwhile, so no thread waits for another thread's system call.
//!
//! Out of scope: threads of its own; small blocks. `reclaim` gives memory back, `ahead` prepares memory ahead of need.

mod ahead;
mod altered;
mod fork;
mod hugepages;
mod mappings;
mod reclaim;
mod zeroing;

use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, AtomicUsize, Ordering::Relaxed};

use faultless_os::lock::{Guard, Mutex};
use faultless_os::thread::pause;

use crate::backend::{Backend, Moved, Reserved, Span};
use crate::blocks::{Blocks, Entry, Misuse};
use crate::class::{Run, granule_at, granules};
use crate::core::{Allocation, Core, Obstacle, Request};
use crate::front::{self, Front};
use crate::policy::{Policy, Prefault, Scrub};
use crate::slabs::SlabTable;
use crate::stats::Stats;
use crate::tuning::{
    ALIGN_BYTES, AVAILABLE_SLABS, GRANULE_BYTES, GROWN_OFTEN, SLAB_BYTES, SLAB_GRANULES, SPARSE_GRANULES,
};
use crate::wakeup::Wakeup;
use reclaim::background::Background;

/// A pool of large blocks that keep their pages.
pub struct Pool<B: Backend> {
    front: Front<B::Slots>,
    blocks: Blocks<B::Blocks>,
    backend: B,
    policy: Policy,
    background: Background,
    /// What the backend said about address space; 0 before it was asked.
    addresses: AtomicU8,
    /// Whether the slabs may have zeroed memory.
    zeroed: AtomicBool,
    /// Whether somebody else may have mapped part of the range.
    has_holes: AtomicBool,
    /// Slabs in which the program has changed mappings.
    altered_slabs: AtomicUsize,
    /// Whether address space is limited: no more of the range becomes usable than is needed.
    limits_addresses: AtomicBool,
    /// Granules of the longest block that the kernel would grant a program.
    max_granules: usize,
    base: usize,
    len: usize,
    core: Mutex<Core<B>>,
    counters: Counters,
}

/// What the pool counts without the lock.
#[derive(Debug, Default)]
struct Counters {
    cleared_bytes: AtomicU64,
    wiped_bytes: AtomicU64,
    double_frees: AtomicU64,
    unknown_frees: AtomicU64,
}

const FREE: u8 = 1;
const LIMITED: u8 = 2;

/// Opening and inspection.
impl<B: Backend> Pool<B> {
    /// Reserves a range, and makes as much of it resident as [`Policy::prewarm`] says.
    ///
    /// # Errors
    /// The backend could not reserve a range of useful length.
    pub fn open(backend: B, policy: Policy) -> crate::Result<Self> {
        let range = backend.reserve(policy.page).inspect_err(|_| backend.release())?;
        let pool = Self::new(backend, policy, range);
        pool.begin();
        Ok(pool)
    }

    /// The same at a place of the caller's: a pool has 2 KiB, and the caller may have little stack.
    ///
    /// # Errors
    /// As [`Pool::open`]; nothing was written then.
    pub fn open_at(place: &mut MaybeUninit<Self>, backend: B, policy: Policy) -> crate::Result<&mut Self> {
        let range = backend.reserve(policy.page).inspect_err(|_| backend.release())?;
        let pool = place.write(Self::new(backend, policy, range));
        pool.begin();
        Ok(pool)
    }

    #[inline(always)]
    fn new(backend: B, policy: Policy, range: Reserved<B>) -> Self {
        let slabs = SlabTable::new(range.slabs, range.words, range.len / GRANULE_BYTES / SLAB_GRANULES);
        let keep = policy.retain.bytes - front::share(policy.retain.bytes);
        Self {
            front: Front::new(range.slots, policy.retain.bytes),
            blocks: Blocks::new(range.blocks),
            max_granules: backend.max_block_bytes() / GRANULE_BYTES,
            backend,
            policy,
            background: Background::new(),
            addresses: AtomicU8::new(0),
            zeroed: AtomicBool::new(false),
            has_holes: AtomicBool::new(false),
            altered_slabs: AtomicUsize::new(0),
            limits_addresses: AtomicBool::new(false),
            base: range.base,
            len: range.len,
            core: Mutex::new(Core::new(slabs, keep, range.base, Wakeup::of(policy))),
            counters: Counters::default(),
        }
    }

    fn begin(&self) {
        self.front.meter(Wakeup::of(self.policy).decays());
        self.apply_limits();
        self.tell_group_left(self.backend.group_left_bytes());
        self.prewarm(self.policy.prewarm);
    }

    /// The addresses of the range: (start, length in bytes).
    pub fn range(&self) -> (usize, usize) {
        (self.base, self.len)
    }

    /// Whether an address in the range at which no block begins may belong to somebody else.
    pub fn may_be_foreign(&self, address: usize) -> bool {
        let slab = address.wrapping_sub(self.base) / SLAB_BYTES;
        self.has_holes.load(Relaxed) || self.core.lock().is_none_or(|core| slab >= core.slabs.usable)
    }

    /// What the pool did so far. All counters are zero while this thread holds the pool for `fork`.
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
            cleared_bytes: stats.cleared_bytes + self.counters.cleared_bytes.load(Relaxed),
            scrubbed_bytes: stats.scrubbed_bytes + self.counters.wiped_bytes.load(Relaxed),
            in_use_bytes: stats.in_use_bytes.saturating_sub(held_bytes),
            retained_bytes,
            peak_retained_bytes: stats.peak_retained_bytes.max(retained_bytes),
            fallback_bytes: self.backend.fallback_bytes(),
            double_frees: self.counters.double_frees.load(Relaxed),
            unknown_frees: self.counters.unknown_frees.load(Relaxed),
            ..stats
        }
    }

    pub(crate) fn backend(&self) -> &B {
        &self.backend
    }

    /// The length in bytes of the block that begins at `offset`.
    pub(crate) fn len_at(&self, offset: usize) -> Option<usize> {
        Some(self.blocks.find(granule_at(offset)?)?.count * GRANULE_BYTES)
    }

    /// Whether address space costs nothing.
    fn addresses_are_free(&self) -> bool {
        if self.limits_addresses.load(Relaxed) {
            return false;
        }
        if self.addresses.load(Relaxed) == 0 {
            self.addresses.store(if self.backend.addresses_are_free() { FREE } else { LIMITED }, Relaxed);
        }
        self.addresses.load(Relaxed) == FREE
    }
}

/// Allocating.
impl<B: Backend> Pool<B> {
    /// The offset of a new block of at least `len` bytes, aligned to `align` (a power of two).
    #[inline]
    pub(crate) fn alloc_at(&self, len: usize, align: usize, zeroed: bool) -> Option<usize> {
        let (count, align) = (granules(len)?, align.div_ceil(GRANULE_BYTES).max(1));
        // The slabs may have zeroed memory, or purging may be cheaper than zeroing.
        let prefers_slabs = zeroed && (count >= SPARSE_GRANULES || self.zeroed.load(Relaxed));
        let in_front = align == 1 && !prefers_slabs && self.front.suits(count);
        let Some(start) = in_front.then(|| self.front.take(count)).flatten() else {
            return self.alloc_behind_front(count, align, zeroed);
        };
        self.blocks.release(start, Entry { count, grown: 0, fresh: false });
        if zeroed {
            let span = Span::of((start, count));
            self.backend.zero(span);
            self.counters.cleared_bytes.fetch_add(span.len as u64, Relaxed);
        }
        Some(start * GRANULE_BYTES)
    }

    #[inline(never)]
    fn alloc_behind_front(&self, count: usize, align: usize, zeroed: bool) -> Option<usize> {
        if align > ALIGN_BYTES / GRANULE_BYTES || count > self.max_granules {
            return self.refused();
        }
        let request = self.request(align, zeroed);
        let taken = self.served(|core, only_retained| core.alloc(count, request, only_retained));
        let taken = taken.or_else(|| self.refused())?;
        self.after_alloc(taken, count);
        if zeroed && taken.dirty + taken.fresh == count {
            self.zeroed.store(false, Relaxed);
        }
        let mut fresh = taken.fresh > 0;
        if zeroed && taken.dirty > 0 {
            fresh |= self.clear((taken.start, count))?;
        }
        self.blocks.release(taken.start, Entry { count, grown: 0, fresh });
        Some(taken.start * GRANULE_BYTES)
    }

    fn request(&self, align: usize, zeroed: bool) -> Request {
        let populates = self.policy.prefault == Prefault::Populate;
        Request { align, zeroed, by_density: !populates && self.chooses_pages() }
    }

    /// Calls `attempt` until it succeeds or nothing helps. In between it empties the front, and extends the usable
    /// range. `attempt` learns whether only resident memory will do.
    fn served<T>(&self, mut attempt: impl FnMut(&mut Core<B>, bool) -> Result<T, Obstacle>) -> Option<T> {
        let mut only_retained = !self.front.is_empty();
        loop {
            let mut core = self.core.lock()?;
            core.in_front = self.front.tally().held;
            let (from, to, least) = match attempt(&mut core, only_retained) {
                Ok(found) => {
                    if core.group_left.is_some() {
                        self.narrow_front(&core);
                    }
                    return Some(found);
                }
                Err(Obstacle::Extend { from, to, least }) => (from, to, least),
                Err(Obstacle::NotRetained | Obstacle::Full) if only_retained => {
                    only_retained = false;
                    self.front.empty(|run| self.retire(&mut core, run));
                    continue;
                }
                Err(Obstacle::NotRetained | Obstacle::Full) => return None,
                Err(Obstacle::Wait) => {
                    drop(core);
                    pause();
                    continue;
                }
            };
            drop(core);
            let to = if self.limits_addresses.load(Relaxed) { least } else { to };
            let reached = [to, least].into_iter().find(|&to| self.backend.extend(from, to).is_ok());
            self.blocks.extend_to(reached.unwrap_or(0) * SLAB_GRANULES);
            self.core.lock()?.end_extending(reached);
            reached?;
        }
    }

    /// Keeps what the front holds below a part of what the control group leaves.
    fn narrow_front(&self, core: &Core<B>) {
        self.front.narrow(front::share(core.share_of_group().saturating_mul(GRANULE_BYTES)));
    }

    fn refused<T>(&self) -> Option<T> {
        self.core.lock()?.stats.refused += 1;
        None
    }

    /// Follow-up work for `count` granules that were just taken.
    fn after_alloc(&self, taken: Allocation, count: usize) {
        if taken.wakes {
            self.wake_thread();
        }
        if taken.is_unknown {
            self.decide_pages();
        }
        let populates = self.policy.prefault == Prefault::Populate && !self.backend.is_confined();
        if populates && taken.fresh > 0 && self.is_affordable(count) {
            let span = Span::of((taken.start, count));
            self.advise_for(span);
            self.populate(span);
        }
        if taken.excess {
            self.purge_excess();
        }
    }

    /// Whether making so many granules resident takes at most half of the available memory.
    fn is_affordable(&self, count: usize) -> bool {
        count < AVAILABLE_SLABS * SLAB_GRANULES || count * GRANULE_BYTES <= self.backend.available_bytes() / 2
    }
}

/// Freeing.
impl<B: Backend> Pool<B> {
    /// Frees the block at `offset`; false if no block begins there, or if it was freed before.
    #[inline]
    pub(crate) fn free_at(&self, offset: usize) -> bool {
        let seized = granule_at(offset).ok_or(Misuse::Unknown).and_then(|start| {
            let block = self.blocks.seize(start)?;
            Ok((start, block))
        });
        let (start, block) = match seized {
            Ok(seized) => seized,
            Err(misuse) => return self.misused(misuse),
        };
        let run = (start, block.count);
        if self.stays_altered(run) {
            self.blocks.clear(start);
            self.free_altered(run);
        } else if self.needs_inspection(block.fresh, block.count) {
            self.free_fresh(run);
        } else {
            self.free_touched(run);
        }
        true
    }

    /// Frees a held block that counts as touched.
    #[inline]
    fn free_touched(&self, run: Run) {
        self.wipe(run);
        if !(self.front.suits(run.1) && self.front.put(run)) {
            self.free_behind_front(run);
        }
    }

    /// Zeroes a run that is about to be freed, if the policy asks for that.
    #[inline]
    fn wipe(&self, run: Run) {
        if self.policy.scrub == Scrub::OnFree {
            self.backend.scrub(Span::of(run));
            self.counters.wiped_bytes.fetch_add(Span::of(run).len as u64, Relaxed);
        }
    }

    #[inline(never)]
    fn free_behind_front(&self, run: Run) {
        if run.1 >= SPARSE_GRANULES {
            self.settle_doubts(run);
        }
        let Some(mut core) = self.core.lock() else { return };
        let suits = self.front.suits(run.1);
        let mut is_in = suits && self.front.raise_allowance(run.1) && self.front.put(run);
        if suits && !is_in {
            self.front.make_room(run.1, |old| self.retire(&mut core, old));
            is_in = self.front.put(run);
        }
        if !is_in {
            self.retire(&mut core, run);
        }
        self.after_free(core);
    }

    /// Follow-up work after a run was freed.
    fn after_free(&self, mut core: Guard<'_, Core<B>>) {
        let (excess, wakes) = (core.retains_too_much(), core.wakes(self.front.tally().held));
        drop(core);
        if wakes {
            self.wake_thread();
        }
        if excess {
            self.purge_excess();
        }
    }

    #[cold]
    fn misused(&self, misuse: Misuse) -> bool {
        match misuse {
            Misuse::Unknown => self.counters.unknown_frees.fetch_add(1, Relaxed),
            Misuse::Held => self.counters.double_frees.fetch_add(1, Relaxed),
        };
        false
    }

    /// Turns a block of the front into free granules.
    fn retire(&self, core: &mut Core<B>, run: Run) {
        self.blocks.clear(run.0);
        core.give(run, false);
    }

    /// Turns all blocks of the front into free granules. Returns whether there were any.
    fn empty_front(&self) -> bool {
        if self.front.is_empty() {
            return false;
        }
        let Some(mut core) = self.core.lock() else { return false };
        self.front.empty(|run| self.retire(&mut core, run))
    }
}

/// Resizing: in place, by moving page tables, or by copying. The pool holds the block meanwhile, so a thread that frees
/// it by mistake is refused. A block that shrinks stays in place.
impl<B: Backend> Pool<B> {
    /// Changes the length of a block; its offset afterwards. On `None` nothing changed.
    pub(crate) fn resize_at(&self, offset: usize, len: usize) -> Option<usize> {
        let start = granule_at(offset)?;
        let count = granules(len).filter(|&count| count <= self.max_granules)?;
        let old = self.blocks.seize(start).ok()?;
        let grown = old.grown + (count > old.count) as u32;
        let changed = if count <= old.count {
            self.shrink(start, old, count).then_some((start, false))
        } else {
            let grown = self.grow_in_place(start, old, count).map(|fresh| (start, fresh));
            grown.or_else(|| self.grow_elsewhere(start, old, count))
        };
        let Some((start, fresh)) = changed else {
            self.blocks.release(start, old);
            return None;
        };
        self.blocks.release(start, Entry { count, grown, fresh: old.fresh | fresh });
        Some(start * GRANULE_BYTES)
    }

    fn shrink(&self, start: usize, old: Entry, count: usize) -> bool {
        let tail = (start + count, old.count - count);
        if tail.1 == 0 {
            return true;
        }
        // While this thread holds the pool for `fork`, the block must keep its content too.
        if self.core.lock().is_none() {
            return false;
        }
        if self.stays_altered(tail) {
            self.free_altered(tail);
            return true;
        }
        if self.needs_inspection(old.fresh, tail.1) {
            self.free_by_residency(tail);
            return true;
        }
        self.wipe(tail);
        let Some(mut core) = self.core.lock() else { return false };
        core.give(tail, false);
        self.after_free(core);
        true
    }

    /// Grows a block in place if the granules behind it are free. Returns whether some of these were not resident.
    fn grow_in_place(&self, start: usize, old: Entry, count: usize) -> Option<bool> {
        let often = old.grown + 1 >= GROWN_OFTEN;
        let request = self.request(1, false);
        let taken = self.served(|core, only_retained| {
            let taken = core.grow(start, old.count, count, often, request)?;
            // The front may hold the granules behind the block.
            taken.ok_or(if only_retained { Obstacle::NotRetained } else { Obstacle::Full })
        })?;
        self.after_alloc(taken, count - old.count);
        Some(taken.fresh > 0)
    }

    /// Moves a block to a longer run. Returns its first granule, and whether some of the run was not resident.
    fn grow_elsewhere(&self, start: usize, old: Entry, count: usize) -> Option<(usize, bool)> {
        let from = (start, old.count);
        let (taken, by_pages) = self.longer_run(from, old.grown, count)?;
        self.after_alloc(taken, count);
        let by_pages = by_pages && !self.is_altered(from);
        let huge = by_pages && self.unify_advice(from);
        let moved = self.backend.relocate(Span::of(from), taken.start * GRANULE_BYTES, by_pages);
        let is_empty = match moved {
            Moved::Copied => self.wipe_copied(from, old.fresh),
            Moved::Pages | Moved::Lost => true,
        };
        let is_altered = !is_empty && self.stays_altered(from);
        let mut core = self.core.lock()?;
        match moved {
            Moved::Lost => {
                core.lose(count);
                self.has_holes.store(true, Relaxed);
                return None;
            }
            Moved::Pages => {
                core.stats.grown_by_pages += 1;
                core.arrived((taken.start, old.count), huge);
            }
            Moved::Copied => core.stats.grown_by_copy += 1,
        }
        self.blocks.clear(start);
        if is_altered {
            drop(core);
            self.free_altered(from);
        } else {
            core.give(from, is_empty);
            self.after_free(core);
        }
        Some((taken.start, taken.fresh > 0))
    }

    /// Takes `count` granules for a block that has grown `grown` times. Returns also whether the block can move there
    /// by page tables.
    fn longer_run(&self, from: Run, grown: u32, count: usize) -> Option<(Allocation, bool)> {
        let often = grown + 1 >= GROWN_OFTEN && count >= SLAB_GRANULES / 2;
        let with_room = often && self.addresses_are_free();
        let request = self.request(1, false);
        let place = |with_room| {
            self.served(|core, only_retained| {
                let taken = if with_room {
                    core.alloc_with_room(count, request)?
                } else {
                    core.alloc(count, request, only_retained)?
                };
                Ok((taken, taken.start % SLAB_GRANULES == 0 && core.movable(from)))
            })
        };
        with_room.then(|| place(true)).flatten().or_else(|| place(false)).or_else(|| self.refused())
    }

    /// Zeroes the old run of a copied block, if the policy asks for that. Returns whether it did so by purging. Copying
    /// has touched the whole run, so residency no longer tells what the program had touched.
    fn wipe_copied(&self, run: Run, fresh: bool) -> bool {
        let is_sparse = self.policy.scrub == Scrub::OnFree && self.needs_inspection(fresh, run.1);
        let purged = is_sparse && self.backend.purge(Span::of(run)).is_ok();
        if !purged {
            self.wipe(run);
        }
        purged
    }
}

impl<B: Backend> Drop for Pool<B> {
    fn drop(&mut self) {
        self.backend.release();
    }
}

#[cfg(test)]
mod tests {
    use crate::tuning::{FLOOR_BYTES, SLAB_BYTES};
    use crate::{Fake, Policy, Pool};

    const LEN: usize = FLOOR_BYTES + 8 * SLAB_BYTES;

    #[cfg_attr(miri, ignore = "more memory than Miri likes")]
    #[test]
    fn what_a_block_leaves_behind_wants_a_thread() {
        for new in [SLAB_BYTES, LEN + SLAB_BYTES] {
            let pool = Pool::open(Fake::new(3 * LEN / SLAB_BYTES), Policy::default()).unwrap();
            let mut block = pool.alloc(LEN).unwrap();
            block.fill(1);
            let offset = block.as_ptr().addr() - pool.range().0;
            std::mem::forget(block);
            let _neighbour = pool.alloc(SLAB_BYTES).unwrap();
            assert!(!pool.wants_thread());
            assert_eq!(pool.resize_at(offset, new) == Some(offset), new < LEN);
            assert!(pool.wants_thread(), "{new}");
        }
    }
}
