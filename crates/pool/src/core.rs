//! The state behind the pool's lock: finds runs for blocks, changes their states and keeps the counts.
//!
//! In: counts of granules. Out: first granules, or an [`Obstacle`] to remove first. Nothing here calls the backend, so
//! no thread makes a system call while it holds the lock.

use crate::backend::Backend;
use crate::class::{Run, pieces};
use crate::density::Density;
use crate::doubt::Doubts;
use crate::slabs::placement::Query;
use crate::slabs::{Counts, Slab, SlabTable};
use crate::sparsity::Sparsity;
use crate::stats::Stats;
use crate::tuning::{
    FULL_SHARE, GRANULE_BYTES, GROUP_SHARE, HEAD_SLABS, LARGE_GRANULES, MOVES, PEAK_SHARE, SLAB_GRANULES,
    SLACK_BYTES, SPARSE_GRANULES, STEP_SLABS,
};
use crate::wakeup::Wakeup;

/// Everything behind the lock.
pub(crate) struct Core<B: Backend> {
    pub(crate) slabs: SlabTable<B::Slabs, B::Words>,
    /// Free granules that the policy lets the slabs retain.
    keep: usize,
    base: usize,
    moves: u16,
    /// Whether a thread is making the usable part of the range longer or shorter.
    pub(crate) is_extending: bool,
    /// Whether children do not get the retained slabs.
    pub(crate) withheld: bool,
    /// When to wake the background thread.
    pub(crate) wakeup: Wakeup,
    /// Whether the stock is being filled up to its high watermark.
    pub(crate) stocking: bool,
    in_use: usize,
    /// Granules of these that were in the front when a block was last requested.
    pub(crate) in_front: usize,
    pub(crate) retained: usize,
    /// Retained granules that are zeroed.
    pub(crate) zeroed: usize,
    /// Retained granules that are offered to the kernel.
    pub(crate) offered: usize,
    /// What may still be charged to the control group, in granules: as it was told, less what became resident here since.
    pub(crate) group_left: Option<usize>,
    /// The least that was retained since [`Core::idle_since_last_call`].
    low: usize,
    peak_in_use: usize,
    /// The most granules that the program has had, without the front; or that somebody expects to need.
    pub(crate) needed: usize,
    /// The high watermark of the stock, in granules.
    pub(crate) stock: usize,
    /// Fresh memory that is part of `needed` and may be untouched.
    pub(crate) doubts: Doubts,
    pub(crate) sparsity: Sparsity,
    pub(crate) density: Density,
    /// Whether to purge the highest addresses first, instead of the memory that has been free for longest.
    pub(crate) highest_first: bool,
    pub(crate) stats: Stats,
}

/// Why a request cannot be served right now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Obstacle {
    /// Slabs `from ..` must become usable: up to `to` if possible, at least up to `least`.
    Extend { from: usize, to: usize, least: usize },
    /// Another thread is extending the usable range. Wait for it.
    Wait,
    /// No suitable free run is resident.
    NotRetained,
    /// There is no suitable free run.
    Full,
}

/// The properties of a request besides its length.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Request {
    /// Alignment in granules, a power of two.
    pub(crate) align: usize,
    pub(crate) zeroed: bool,
    /// Whether `density` chooses the pages of new slabs.
    pub(crate) by_density: bool,
}

/// A run that was taken.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Allocation {
    pub(crate) start: usize,
    /// Granules of it that are dirty.
    pub(crate) dirty: usize,
    /// Granules of it that were not resident.
    pub(crate) fresh: usize,
    /// Whether the density of some of its slabs is still unknown.
    pub(crate) is_unknown: bool,
    /// Whether the pool retains more than its bound now.
    pub(crate) excess: bool,
    /// Whether there is work for the background thread now.
    pub(crate) wakes: bool,
}

impl<B: Backend> Core<B> {
    pub(crate) fn new(
        slabs: SlabTable<B::Slabs, B::Words>,
        keep_bytes: usize,
        base_bytes: usize,
        wakeup: Wakeup,
    ) -> Self {
        Self {
            slabs,
            keep: keep_bytes / GRANULE_BYTES,
            base: base_bytes / GRANULE_BYTES,
            moves: 0,
            is_extending: false,
            in_use: 0,
            in_front: 0,
            retained: 0,
            zeroed: 0,
            offered: 0,
            group_left: None,
            low: 0,
            withheld: false,
            wakeup,
            stocking: false,
            peak_in_use: 0,
            needed: 0,
            stock: 0,
            doubts: Doubts::NONE,
            sparsity: Sparsity::new(),
            density: Density::new(),
            highest_first: false,
            stats: Stats::default(),
        }
    }

    /// A run for a new block. With `only_retained`, all of it must be resident.
    pub(crate) fn alloc(
        &mut self,
        count: usize,
        request: Request,
        only_retained: bool,
    ) -> Result<Allocation, Obstacle> {
        let zeroed = request.zeroed && self.zeroed >= count;
        // Programs touch large zeroed memory here and there. To zero what is dirty would make all of it resident.
        let fresh = request.zeroed && count >= LARGE_GRANULES && !self.highest_first;
        let query = Query { count, align: request.align, zeroed, fresh, base: self.base };
        let start = self.slabs.place(query).ok_or(Obstacle::Full)?;
        if only_retained && !self.slabs.is_retained((start, count)) {
            return Err(Obstacle::NotRetained);
        }
        self.require_usable(start + count)?;
        Ok(self.take((start, count), request))
    }

    /// A run with room behind it, for a block that grows often.
    pub(crate) fn alloc_with_room(&mut self, count: usize, request: Request) -> Result<Allocation, Obstacle> {
        let (start, next) = self.slabs.place_with_room(count).ok_or(Obstacle::Full)?;
        self.require_usable(start + count)?;
        let taken = self.take((start, count), request);
        self.slabs.leave_room((start + count).div_ceil(SLAB_GRANULES), next);
        self.keep_room(start, count);
        Ok(taken)
    }

    /// Takes the granules behind a block of `old` granules, so that it has `count`; `None` if they are not free. A
    /// block that grows `often` keeps the rest of a slab that it enters.
    pub(crate) fn grow(
        &mut self,
        start: usize,
        old: usize,
        count: usize,
        often: bool,
        request: Request,
    ) -> Result<Option<Allocation>, Obstacle> {
        let tail = (start + old, count - old);
        if !self.slabs.is_free(tail) {
            return Ok(None);
        }
        self.require_usable(start + count)?;
        let last = (start + count - 1) / SLAB_GRANULES;
        let enters_slab = self.slabs.slab(last).is_idle();
        let taken = self.take(tail, request);
        if enters_slab && often {
            self.keep_room(start, count);
        }
        self.stats.grown_in_place += 1;
        Ok(Some(taken))
    }

    /// Gives up a block whose addresses are lost. Its granules stay taken, so nobody ever gets them again.
    pub(crate) fn lose(&mut self, count: usize) {
        self.in_use -= count;
    }

    /// Whether a block can move by page tables: it begins at a slab, and its pages are one mapping. The mapping of the
    /// first slabs ends behind them, because they have no THP.
    pub(crate) fn movable(&self, (start, count): Run) -> bool {
        let origin = self.slabs.slab(start / SLAB_GRANULES).origin;
        self.moves < MOVES
            && count >= SLAB_GRANULES
            && start >= HEAD_SLABS * SLAB_GRANULES
            && start.is_multiple_of(SLAB_GRANULES)
            && pieces((start, count)).all(|(slab, ..)| self.slabs.slab(slab).origin == origin)
    }

    /// Records that a run is a mapping of its own now, and whether it takes huge pages.
    pub(crate) fn arrived(&mut self, run: Run, huge: bool) {
        self.moves = self.moves.saturating_add(1);
        let moves = self.moves;
        for (slab, ..) in pieces(run) {
            let slab = self.slabs.slab_mut(slab);
            (slab.origin, slab.huge) = (moves, huge);
        }
    }

    pub(crate) fn stats(&self) -> Stats {
        Stats {
            in_use_bytes: self.in_use * GRANULE_BYTES,
            peak_in_use_bytes: self.peak_in_use * GRANULE_BYTES,
            retained_bytes: self.retained * GRANULE_BYTES,
            zeroed_bytes: self.zeroed * GRANULE_BYTES,
            ..self.stats
        }
    }

    /// Demands that the granules before `end` are usable.
    pub(crate) fn require_usable(&mut self, end: usize) -> Result<(), Obstacle> {
        let least = end.div_ceil(SLAB_GRANULES);
        let from = self.slabs.usable;
        if least <= from {
            return Ok(());
        }
        if self.is_extending {
            return Err(Obstacle::Wait);
        }
        self.is_extending = true;
        Err(Obstacle::Extend { from, to: least.next_multiple_of(STEP_SLABS).min(self.slabs.count), least })
    }

    /// Ends an extension: the range is usable up to slab `to`, or the kernel refused.
    pub(crate) fn end_extending(&mut self, to: Option<usize>) {
        self.is_extending = false;
        self.slabs.usable = self.slabs.usable.max(to.unwrap_or(0));
    }

    /// Makes the slabs behind the last one that is in use or resident unusable, and returns the first of them. The
    /// caller gives up their addresses and then calls [`Core::end_extending`].
    pub(crate) fn retreat(&mut self) -> Option<usize> {
        if self.is_extending || !self.slabs.retreat() {
            return None;
        }
        self.is_extending = true;
        Some(self.slabs.usable)
    }

    /// Takes a free, usable run.
    fn take(&mut self, run: Run, request: Request) -> Allocation {
        self.slabs.rise(run.0 / SLAB_GRANULES);
        let takes_huge = request.by_density && !self.sparsity.is_sparse(run.1);
        let is_unknown = takes_huge && self.enter(run, request);
        let counts = self.slabs.change(run, Slab::take);
        self.in_use += run.1;
        self.retain_less(counts);
        self.peak_in_use = self.peak_in_use.max(self.in_use);
        self.needed = self.needed.max(self.in_use.saturating_sub(self.in_front));
        // As far as one knows before it is touched.
        self.group_left = self.group_left.map(|left| left.saturating_sub(counts.reserved));
        if counts.reserved >= SPARSE_GRANULES {
            self.doubts.enter(run);
        }
        if counts.reserved > 0 {
            self.stats.fresh += 1;
        } else if counts.zeroed > 0 {
            self.stats.zeroed_hits += 1;
        } else {
            self.stats.dirty_hits += 1;
        }
        self.stats.reused_bytes += (counts.resident() * GRANULE_BYTES) as u64;
        let excess = counts.reserved > 0 && self.retains_too_much();
        let wakes = self.wakes(0);
        Allocation { start: run.0, dirty: counts.dirty, fresh: counts.reserved, is_unknown, excess, wakes }
    }

    /// Tells `density` of the run's slabs that are new, or not resident any more, and whose density is unknown. Returns
    /// whether there are any.
    fn enter(&mut self, (start, count): Run, request: Request) -> bool {
        let is_new = |slab: &Slab| slab.is_idle() && slab.retained() == 0;
        // Other blocks rarely fill the gaps behind aligned ones.
        // A power of two; `next_multiple_of` would bring a panic for 0 into the interposer.
        let whole = (count + request.align - 1) & !(request.align - 1);
        let leaves_gap = count < whole / FULL_SHARE * (FULL_SHARE - 1);
        for (at, ..) in pieces((start, count)).filter(|&(.., len)| leaves_gap && len < SLAB_GRANULES) {
            let slab = self.slabs.slab_mut(at);
            slab.sparse |= is_new(slab);
        }
        let (mut at, end) = (start / SLAB_GRANULES, (start + count).div_ceil(SLAB_GRANULES));
        let mut is_any = false;
        while at < end {
            let is_unknown = |slab: &Slab| is_new(slab) && !slab.huge && !slab.sparse;
            let new = (at..end).take_while(|&at| is_unknown(self.slabs.slab(at))).count();
            if new > 0 {
                self.density.enter(at, at + new);
                is_any = true;
            }
            at += new.max(1);
        }
        is_any
    }

    fn keep_room(&mut self, start: usize, count: usize) {
        let last = (start + count - 1) / SLAB_GRANULES;
        self.slabs.slab_mut(last).room = true;
        self.slabs.file(last);
    }

    /// Takes back a run that is no longer used: dirty, or not resident if its pages `moved` away.
    pub(crate) fn give(&mut self, (start, count): Run, moved: bool) {
        self.slabs.change((start, count), |slab, mask| {
            if moved {
                slab.vacate(mask)
            } else {
                slab.give(mask)
            }
            Counts::default()
        });
        self.slabs.end_room((start + count).div_ceil(SLAB_GRANULES));
        self.doubts.end((start, count));
        self.in_use -= count;
        if !moved {
            pieces((start, count)).for_each(|(slab, ..)| self.slabs.renew(slab));
            self.retain_more(Counts { dirty: count, ..Counts::default() });
        }
    }

    /// Counts free granules that are retained no more.
    pub(crate) fn retain_less(&mut self, counts: Counts) {
        self.retained -= counts.resident();
        self.zeroed -= counts.zeroed;
        self.offered -= counts.offered;
        self.low = self.low.min(self.retained);
    }

    /// Counts free granules that are retained from now on.
    pub(crate) fn retain_more(&mut self, counts: Counts) {
        self.retained += counts.resident();
        self.zeroed += counts.zeroed;
        self.offered += counts.offered;
        self.stats.peak_retained_bytes = self.stats.peak_retained_bytes.max(self.retained * GRANULE_BYTES);
    }

    /// Ends a window of time and begins the next: the granules that were retained, and not needed, all through it.
    pub(crate) fn idle_since_last_call(&mut self) -> usize {
        std::mem::replace(&mut self.low, self.retained)
    }

    /// Sets how many free granules the policy lets the slabs retain.
    pub(crate) fn retain_at_most(&mut self, granules: usize) {
        self.keep = granules;
    }

    /// The free granules that may stay resident now.
    pub(crate) fn bound(&self) -> usize {
        let needed = self.needed.saturating_sub(self.doubts.untouched());
        let most = needed + needed / PEAK_SHARE + SLACK_BYTES / GRANULE_BYTES;
        self.keep.min(most.saturating_sub(self.in_use).max(self.stock))
    }

    /// The retained granules that the kernel cannot take.
    pub(crate) fn held(&self) -> usize {
        self.retained - self.offered
    }

    /// The free granules that the control group lets the pool hold.
    pub(crate) fn share_of_group(&self) -> usize {
        self.group_left.map_or(usize::MAX, |left| left / GROUP_SHARE)
    }

    /// How many more free granules the policy lets the slabs retain, regardless of the peak.
    pub(crate) fn room(&self) -> usize {
        self.keep.saturating_sub(self.retained)
    }

    /// Whether there is work for the background thread now. It is reported once. `front`: the granules in the front.
    pub(crate) fn wakes(&mut self, front: usize) -> bool {
        let (retained, zeroed) = ((self.retained + front) * GRANULE_BYTES, self.zeroed * GRANULE_BYTES);
        let is_due = self.wakeup.is_due(retained, zeroed);
        if is_due {
            self.wakeup = Wakeup::NEVER;
        }
        is_due
    }

    /// Whether more is retained, or held, than allowed.
    pub(crate) fn retains_too_much(&self) -> bool {
        self.retained > self.bound() || self.held() > self.share_of_group()
    }
}
