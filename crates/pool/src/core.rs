//! What happens under the pool's lock: places are found, states change, accounts are kept, pages are given back.
//!
//! In: counts of granules. Out: first granules. No content is touched here except through [`Backend::populate`] and
//! [`Backend::purge`]; zeroing and copying happen outside the lock, in `pool`.

use crate::backend::{Backend, Span};
use crate::class::{run, runs};
use crate::lists::Lists;
use crate::place::{Recent, Wish};
use crate::policy::tuning::{
    GRANULE_BYTES, GROWN_OFTEN, HEAD_SLABS, MOVES, RECENT_GRANULES, SLAB_GRANULES, SLACK_BYTES, STEP_SLABS,
};
use crate::policy::{Policy, Prefault};
use crate::state::Counts;
use crate::stats::Stats;

/// The growth count sits above the length in the table of blocks: 2^26 granules are 1 TiB, the largest range.
const GROWN_SHIFT: u32 = 28;
const LEN_MASK: u32 = (1 << GROWN_SHIFT) - 1;
const GROWN_MAX: u32 = 3;

/// Everything behind the lock.
pub(crate) struct Core<B: Backend> {
    pub(crate) lists: Lists<B::Slabs, B::Words>,
    recent: Recent,
    policy: Policy,
    base: usize,
    roomy: Option<bool>,
    moves: u16,
    in_use: usize,
    retained: usize,
    peak_in_use: usize,
    pub(crate) stats: Stats,
}

/// A block as the tables know it.
#[derive(Clone, Copy)]
pub(crate) struct Found {
    pub(crate) count: usize,
    pub(crate) grown: u32,
}

fn span(start: usize, count: usize) -> Span {
    Span { offset: start * GRANULE_BYTES, len: count * GRANULE_BYTES }
}

impl<B: Backend> Core<B> {
    pub(crate) fn new(lists: Lists<B::Slabs, B::Words>, policy: Policy, base_bytes: usize) -> Self {
        Self {
            lists,
            recent: Recent::new(),
            policy,
            base: base_bytes / GRANULE_BYTES,
            roomy: None,
            moves: 0,
            in_use: 0,
            retained: 0,
            peak_in_use: 0,
            stats: Stats::default(),
        }
    }

    /// The block that begins at a granule.
    pub(crate) fn block(&self, start: usize) -> Option<Found> {
        let entry = self.lists.slab(start / SLAB_GRANULES).blocks[start % SLAB_GRANULES];
        let found = Found { count: (entry & LEN_MASK) as usize, grown: entry >> GROWN_SHIFT };
        (found.count > 0).then_some(found)
    }

    fn set_block(&mut self, start: usize, count: usize, grown: u32) {
        let entry = count as u32 | grown.min(GROWN_MAX) << GROWN_SHIFT;
        self.lists.slab_mut(start / SLAB_GRANULES).blocks[start % SLAB_GRANULES] = entry;
    }

    /// A new block; the first granule and how many of its granules are dirty.
    pub(crate) fn alloc(
        &mut self,
        backend: &B,
        count: usize,
        align: usize,
        zeroed: bool,
    ) -> Option<(usize, usize)> {
        let wish = Wish { count, align, zeroed, base: self.base };
        let place = self.lists.place(wish, &mut self.recent);
        let start = self.counted(place)?;
        self.reach(backend, start + count)?;
        let dirty = self.take(backend, start, count, 0);
        Some((start, dirty))
    }

    /// A new place for a block that grew; one that grows often gets room behind it.
    pub(crate) fn alloc_grown(&mut self, backend: &B, count: usize, grown: u32) -> Option<usize> {
        if grown >= GROWN_OFTEN
            && count >= SLAB_GRANULES / 2
            && *self.roomy.get_or_insert_with(|| backend.is_roomy())
            && let Some((start, next)) = self.lists.place_with_room(count)
            && self.reach(backend, start + count).is_some()
        {
            self.take(backend, start, count, grown);
            self.lists.top = next;
            self.keep_room(start, count);
            return Some(start);
        }
        let (start, _) = self.alloc(backend, count, 1, false)?;
        self.set_block(start, count, grown);
        Some(start)
    }

    /// Grows a block where it is, if what follows is free.
    pub(crate) fn grow(&mut self, backend: &B, start: usize, old: Found, count: usize) -> bool {
        let (tail, more) = (start + old.count, count - old.count);
        if !self.lists.is_free(tail, more) || self.reach(backend, start + count).is_none() {
            return false;
        }
        let last = (start + count - 1) / SLAB_GRANULES;
        let untouched = self.lists.slab(last).free() == u128::MAX;
        self.take(backend, tail, more, 0);
        self.set_block(tail, 0, 0);
        self.set_block(start, count, old.grown + 1);
        if untouched && old.grown + 1 >= GROWN_OFTEN {
            self.keep_room(start, count);
        }
        self.stats.grown_in_place += 1;
        true
    }

    /// Cuts the end of a block off.
    pub(crate) fn shrink(&mut self, backend: &B, start: usize, old: Found, count: usize) {
        self.set_block(start, count, old.grown);
        self.give_run(backend, start + count, old.count - count, false);
    }

    /// Takes a block back. `moved`: its pages went elsewhere.
    pub(crate) fn free(&mut self, backend: &B, start: usize, moved: bool) -> bool {
        let Some(found) = self.block(start) else { return false };
        self.set_block(start, 0, 0);
        self.give_run(backend, start, found.count, moved);
        true
    }

    /// Forgets a block without ever using its place again: it stays taken, but is no longer anybody's.
    pub(crate) fn lose(&mut self, start: usize) {
        let count = self.block(start).map_or(0, |found| found.count);
        self.set_block(start, 0, 0);
        self.in_use -= count;
    }

    /// Whether the pages of a block may move as page tables: whole slabs' alignment, and one mapping. Where the first
    /// slabs end, a mapping ends: they have no THP.
    pub(crate) fn movable(&self, start: usize, count: usize) -> bool {
        let origin = self.lists.slab(start / SLAB_GRANULES).origin;
        self.moves < MOVES
            && count >= SLAB_GRANULES
            && start >= HEAD_SLABS * SLAB_GRANULES
            && start.is_multiple_of(SLAB_GRANULES)
            && Lists::<B::Slabs, B::Words>::pieces(start, count)
                .all(|(slab, ..)| self.lists.slab(slab).origin == origin)
    }

    /// Records that a block's pages came from elsewhere.
    pub(crate) fn arrived(&mut self, start: usize, count: usize) {
        self.moves += 1;
        let moves = self.moves;
        for (slab, ..) in Lists::<B::Slabs, B::Words>::pieces(start, count) {
            self.lists.slab_mut(slab).origin = moves;
        }
    }

    pub(crate) fn stats(&self) -> Stats {
        Stats {
            in_use_bytes: self.in_use * GRANULE_BYTES,
            peak_in_use_bytes: self.peak_in_use * GRANULE_BYTES,
            retained_bytes: self.retained * GRANULE_BYTES,
            ..self.stats
        }
    }

    fn counted<T>(&mut self, found: Option<T>) -> Option<T> {
        self.stats.refused += found.is_none() as u64;
        found
    }

    /// From now on the range ends where it has been made usable; the number of slabs that are left.
    pub(crate) fn narrow(&mut self) -> usize {
        self.lists.count = self.lists.usable;
        self.lists.count
    }

    /// Makes the range usable up to a granule.
    fn reach(&mut self, backend: &B, end: usize) -> Option<()> {
        let needed = end.div_ceil(SLAB_GRANULES);
        if needed <= self.lists.usable {
            return Some(());
        }
        let step = needed.next_multiple_of(STEP_SLABS).min(self.lists.count);
        let reached = [step, needed].into_iter().find(|&to| backend.extend(self.lists.usable, to).is_ok());
        self.lists.usable = self.counted(reached)?;
        Some(())
    }

    /// Takes a free, usable run; how many of its granules are dirty.
    fn take(&mut self, backend: &B, start: usize, count: usize, grown: u32) -> usize {
        let mut counts = Counts::default();
        if self.policy.prefault == Prefault::Populate {
            self.populate(backend, start, count);
        }
        while self.lists.top * SLAB_GRANULES < start {
            self.lists.top += 1;
            self.lists.file(self.lists.top - 1);
        }
        for (slab, first, len) in Lists::<B::Slabs, B::Words>::pieces(start, count) {
            counts.add(self.lists.take(slab, run(first, len)));
            self.lists.top = self.lists.top.max(slab + 1);
            self.lists.mark_stale(slab);
        }
        self.set_block(start, count, grown);
        self.in_use += count;
        self.retained -= counts.resident();
        self.peak_in_use = self.peak_in_use.max(self.in_use);
        match () {
            () if counts.reserved > 0 => self.stats.fresh += 1,
            () if counts.zeroed > 0 => self.stats.zeroed_hits += 1,
            () => self.stats.dirty_hits += 1,
        }
        self.stats.reused_bytes += (counts.resident() * GRANULE_BYTES) as u64;
        if counts.reserved > 0 {
            self.keep_bound(backend);
        }
        counts.dirty
    }

    fn populate(&mut self, backend: &B, start: usize, count: usize) {
        for (slab, first, len) in Lists::<B::Slabs, B::Words>::pieces(start, count) {
            let entry = self.lists.slab(slab);
            let reserved = entry.free() & !entry.retained() & run(first, len);
            for (at, len) in runs(reserved) {
                match backend.populate(span(slab * SLAB_GRANULES + at, len)) {
                    Ok(()) => {
                        self.lists.slab_mut(slab).populated(run(at, len));
                        self.retained += len;
                    }
                    Err(_) => self.stats.populate_failures += 1,
                }
            }
        }
    }

    fn keep_room(&mut self, start: usize, count: usize) {
        let last = (start + count - 1) / SLAB_GRANULES;
        self.lists.slab_mut(last).room = true;
        self.lists.file(last);
    }

    fn give_run(&mut self, backend: &B, start: usize, count: usize, moved: bool) {
        for (slab, first, len) in Lists::<B::Slabs, B::Words>::pieces(start, count) {
            let mask = run(first, len);
            match moved {
                true => self.lists.slab_mut(slab).vacate(mask),
                false => self.lists.slab_mut(slab).give(mask),
            }
            if count <= RECENT_GRANULES { self.lists.mark_stale(slab) } else { self.lists.file(slab) }
        }
        self.in_use -= count;
        if !moved {
            self.retained += count;
            self.recent.push(start, count);
            self.keep_bound(backend);
            self.purge_run(backend, start, count);
            self.stats.peak_retained_bytes =
                self.stats.peak_retained_bytes.max(self.retained * GRANULE_BYTES);
        }
    }

    /// How many free granules may stay resident now.
    fn bound(&self) -> usize {
        let slack = SLACK_BYTES / GRANULE_BYTES + self.peak_in_use / 4;
        let below_peak = (self.peak_in_use + slack).saturating_sub(self.in_use);
        (self.policy.retain.bytes / GRANULE_BYTES).min(below_peak)
    }

    /// Purges wholly free slabs, the oldest first, until the bound is kept or none is left.
    fn keep_bound(&mut self, backend: &B) {
        let bound = self.bound();
        if self.retained <= bound {
            return;
        }
        self.lists.settle();
        while let Some(oldest) = self.lists.oldest_warm().filter(|_| self.retained > bound) {
            let excess = (self.retained - bound).div_ceil(SLAB_GRANULES);
            let end = self.lists.seek(crate::lists::Map::Warm, false, oldest, self.lists.top);
            let slabs = (end - oldest).min(excess).max(1);
            let purged = self.purge(backend, oldest * SLAB_GRANULES, slabs * SLAB_GRANULES);
            for slab in oldest..oldest + slabs {
                match purged {
                    true => self.mark_purged(slab, u128::MAX),
                    false => self.lists.give_up_purging(slab),
                }
            }
        }
    }

    /// Purges what is left of a run just given back while the bound is exceeded.
    fn purge_run(&mut self, backend: &B, start: usize, count: usize) {
        if self.retained <= self.bound() {
            return;
        }
        for (slab, first, len) in Lists::<B::Slabs, B::Words>::pieces(start, count) {
            for (at, len) in runs(self.lists.slab(slab).retained() & run(first, len)) {
                if self.purge(backend, slab * SLAB_GRANULES + at, len) {
                    self.mark_purged(slab, run(at, len));
                }
            }
        }
    }

    fn purge(&mut self, backend: &B, start: usize, count: usize) -> bool {
        let begin = backend.now();
        let done = backend.purge(span(start, count)).is_ok();
        self.stats.purge_ns += backend.now().saturating_sub(begin);
        self.stats.purges += done as u64;
        self.stats.purge_failures += !done as u64;
        done
    }

    fn mark_purged(&mut self, slab: usize, mask: u128) {
        let gone = self.lists.slab_mut(slab).purged(mask);
        self.retained -= gone;
        self.stats.purged_bytes += (gone * GRANULE_BYTES) as u64;
        self.lists.file(slab);
    }
}
