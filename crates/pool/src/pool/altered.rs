//! Alterations: what the program has changed for good about pages of its blocks.
//!
//! In: the addresses and the kind of such a call: madvise(2), mprotect(2), mlock(2), mmap(2) on top. Out: when a block is
//! freed, its pages are as the pool had made them. So the next block has no page that is write-protected, locked, or
//! missing in children.
//!
//! An advice has an inverse, one call for the whole block, and the block keeps its pages. Where there is no inverse, or
//! where the process confines its system calls, the block is mapped anew.
//!
//! A slab remembers kinds, not pages: the inverse of an advice that a page does not have changes nothing. The slab
//! forgets them once nothing else in it is in use. Until then each `free` in it takes a call more.
//!
//! Out of scope: seeing the calls. The malloc interposer reports them.

use std::sync::atomic::Ordering::Relaxed;

use crate::backend::{Alteration, Backend, Span};
use crate::class::{Run, pieces, run};
use crate::pool::Pool;
use crate::tuning::{SLAB_BYTES, SLAB_GRANULES};

impl<B: Backend> Pool<B> {
    /// Records that the program is about to change pages inside its blocks in a lasting way.
    pub fn mark_altered(&self, address: usize, len: usize, alteration: Alteration) {
        let (base, size) = self.range();
        let begin = address.saturating_sub(base) / SLAB_BYTES;
        let end = address.saturating_add(len).saturating_sub(base).min(size).div_ceil(SLAB_BYTES);
        let Some(mut core) = self.core.lock() else { return };
        for at in begin..end.min(core.slabs.usable) {
            let slab = core.slabs.slab_mut(at);
            if !slab.is_idle() {
                self.altered_slabs.fetch_add((slab.altered == 0).into(), Relaxed);
                slab.altered |= alteration as u8;
            }
        }
    }

    /// Whether part of a run may be altered.
    #[inline]
    pub(super) fn is_altered(&self, run: Run) -> bool {
        self.altered_slabs.load(Relaxed) > 0 && self.alterations(run) != 0
    }

    /// Undoes what the program has changed about a run that is being freed. Returns whether something is left, so that
    /// the run must be mapped anew.
    #[inline]
    pub(super) fn stays_altered(&self, run: Run) -> bool {
        self.altered_slabs.load(Relaxed) > 0 && !self.restore(run)
    }

    #[cold]
    fn alterations(&self, run: Run) -> u8 {
        let Some(core) = self.core.lock() else { return 0 };
        pieces(run).fold(0, |all, (slab, ..)| all | core.slabs.slab(slab).altered)
    }

    #[cold]
    fn restore(&self, run: Run) -> bool {
        let altered = self.alterations(run);
        if altered == 0 {
            return true;
        }
        let is_restored = altered & Alteration::Mapping as u8 == 0
            && !self.backend.is_confined()
            && self.backend.restore(Span::of(run), altered).is_ok()
            && (altered & Alteration::PageSize as u8 == 0 || self.restore_advice(run));
        if is_restored {
            self.forget_alterations(run);
        }
        is_restored
    }

    /// Gives the slabs of a run the advice that the pool had chosen for them.
    fn restore_advice(&self, run: Run) -> bool {
        if !self.backend.can_advise_thp() {
            return true;
        }
        let (mut at, end) = (run.0 / SLAB_GRANULES, (run.0 + run.1).div_ceil(SLAB_GRANULES));
        while at < end {
            let Some(core) = self.core.lock() else { return false };
            let huge = core.slabs.slab(at).huge;
            let count = (at..end).take_while(|&at| core.slabs.slab(at).huge == huge).count();
            drop(core);
            let span = Span::of((at * SLAB_GRANULES, count * SLAB_GRANULES));
            if self.backend.advise(span, huge).is_err() {
                return false;
            }
            at += count;
        }
        true
    }

    /// Forgets the alterations of slabs in which nothing else is in use.
    fn forget_alterations(&self, freed: Run) {
        let Some(mut core) = self.core.lock() else { return };
        for (at, first, len) in pieces(freed) {
            let slab = core.slabs.slab_mut(at);
            if slab.altered != 0 && slab.is_idle_beside(run(first, len)) {
                slab.altered = 0;
                self.altered_slabs.fetch_sub(1, Relaxed);
            }
        }
    }

    /// Frees a run in which no block begins, and maps it anew. If the kernel refuses, nobody ever gets the run again.
    #[cold]
    pub(super) fn free_altered(&self, run: Run) {
        let is_new = self.backend.renew(Span::of(run)).is_ok();
        if is_new {
            self.forget_alterations(run);
        }
        let Some(mut core) = self.core.lock() else { return };
        if !is_new {
            core.lose(run.1);
            self.has_holes.store(true, Relaxed);
            return;
        }
        core.give(run, true);
        core.arrived(run, false);
        self.after_free(core);
        if !self.addresses_are_free() {
            self.release_holes();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Fake, Policy};

    /// A pool with two blocks in one slab, of which the program has altered the first; its address is the second value.
    fn altered(alteration: Alteration) -> (Pool<Fake>, [usize; 2]) {
        let pool = Pool::open(Fake::new(2), Policy::default()).unwrap();
        let [first, second] = [(); 2].map(|()| pool.alloc_at(SLAB_BYTES / 4, 1, false).unwrap());
        pool.mark_altered(pool.range().0 + first, 1, alteration);
        (pool, [first, second])
    }

    #[test]
    fn an_advice_is_undone_and_the_pages_stay() {
        let (pool, [first, second]) = altered(Alteration::NotInherited);
        assert!(pool.free_at(first));
        assert_eq!(pool.altered_slabs.load(Relaxed), 1, "the neighbour may be altered too");
        assert_eq!(pool.alloc_at(SLAB_BYTES / 4, 1, false), Some(first));
        assert_eq!(pool.stats().dirty_hits, 1);
        assert!(pool.free_at(first) && pool.free_at(second));
        pool.empty_front();
        let again = pool.alloc_at(SLAB_BYTES, 1, false).unwrap();
        assert!(pool.free_at(again));
        assert_eq!(pool.altered_slabs.load(Relaxed), 0);
    }

    #[test]
    fn another_mapping_is_mapped_anew() {
        let (pool, [first, _]) = altered(Alteration::Mapping);
        assert!(pool.free_at(first));
        assert_eq!(pool.stats().retained_bytes, 0);
    }

    #[test]
    fn a_confined_process_makes_no_unusual_call() {
        let (pool, [first, _]) = altered(Alteration::Guarded);
        pool.confine();
        assert!(pool.free_at(first));
        assert_eq!(pool.stats().retained_bytes, 0, "mapped anew, as every malloc does");
    }
}
