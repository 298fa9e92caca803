//! Mappings: blocks that serve mmap(2) for private anonymous memory.
//!
//! In: addresses and lengths, whole pages. Out: zeroed blocks, which the table of blocks tells from those of malloc. A
//! mapping that is unmapped whole is freed as a block is. Of one that is unmapped in part, or moved, nobody knows later
//! where it is still mapped: it leaves the pool for good, with its addresses. So does free memory where the program
//! demands another mapping.
//!
//! Out of scope: seeing the calls. The malloc interposer reports them.

use std::sync::atomic::Ordering::Relaxed;

use crate::backend::{Backend, Span};
use crate::class::{Run, granule_at, granules};
use crate::pool::Pool;
use crate::slabs::Slab;
use crate::tuning::{GAP_GRANULES, GRANULE_BYTES, LARGE_GRANULES, SLAB_BYTES, SLAB_GRANULES, SPARSE_SHARE};

/// A quarter of a granule: the smallest page.
const QUARTER_BYTES: usize = GRANULE_BYTES / 4;

/// The granules of a mapping, and the quarters that it lacks of the last one.
fn length(len: usize) -> Option<(usize, u32)> {
    let count = granules(len)?;
    Some((count, ((count * GRANULE_BYTES - len) / QUARTER_BYTES) as u32))
}

impl<B: Backend> Pool<B> {
    /// The offset of a new mapping: zeroed, and aligned to a slab if it consists of whole slabs. `None` where the pool
    /// would keep nothing of it: from 32 MiB on, and under a limit on addresses.
    pub(crate) fn map_at(&self, len: usize) -> Option<usize> {
        let (_, lacking) = length(len).filter(|&(count, _)| count < LARGE_GRANULES)?;
        if !self.addresses_are_free() {
            return None;
        }
        let align = if len.is_multiple_of(SLAB_BYTES) { SLAB_BYTES } else { 1 };
        let offset = self.alloc_at(len, align, true)?;
        self.blocks.mark_mapping(offset / GRANULE_BYTES, lacking);
        Some(offset)
    }

    /// Frees the mapping of exactly this length; false if there is none. `anew`: its pages are not used again.
    pub(crate) fn unmap_at(&self, offset: usize, len: usize, anew: bool) -> bool {
        let Some(start) = granule_at(offset) else { return false };
        let Some(block) = length(len).and_then(|length| self.blocks.seize_mapping(start, length)) else {
            return false;
        };
        let run = (start, block.count);
        if anew || self.stays_altered(run) {
            self.blocks.clear(start);
            self.free_altered(run);
        } else if block.fresh && block.count >= GAP_GRANULES {
            self.free_fresh(run);
        } else if !(block.fresh && self.free_sparse(run)) {
            self.free_touched(run);
        }
        true
    }

    /// Frees a short run of which the program touched little: the next mapping must not pay for zeroing all of it.
    /// False if it touched more.
    fn free_sparse(&self, run: Run) -> bool {
        let span = Span::of(run);
        if self.backend.resident_bytes(span) * SPARSE_SHARE >= span.len || self.backend.purge(span).is_err() {
            return false;
        }
        self.blocks.clear(run.0);
        if let Some(mut core) = self.core.lock() {
            core.give(run, true);
            self.after_free(core);
        }
        true
    }

    /// The granules of a range of addresses, as (begin, end).
    fn granules_of(&self, address: usize, len: usize) -> (usize, usize) {
        let (base, size) = self.range();
        let usable = self.core.lock().map_or(0, |core| core.slabs.usable * SLAB_GRANULES);
        let end = address.saturating_add(len).saturating_sub(base).min(size).div_ceil(GRANULE_BYTES);
        (address.saturating_sub(base) / GRANULE_BYTES, end.min(usable))
    }

    /// Gives up the mappings in a range for good, since part of it is about to be unmapped or moved. `each` gets their
    /// lengths in granules.
    pub fn lose_mappings(&self, address: usize, len: usize, mut each: impl FnMut(usize)) {
        let (begin, end) = self.granules_of(address, len);
        let mut at = self.blocks.covering(begin, LARGE_GRANULES).map_or(begin, |(start, _)| start);
        while at < end {
            let Some(block) = self.blocks.any(at) else {
                at += 1;
                continue;
            };
            if self.blocks.lose_mapping(at)
                && let Some(mut core) = self.core.lock()
            {
                core.lose(block.count);
                self.has_holes.store(true, Relaxed);
                each(block.count);
            }
            at += block.count;
        }
    }

    /// Whether all of a range is free memory of the pool.
    pub fn is_unused(&self, address: usize, len: usize) -> bool {
        self.empty_front();
        let (begin, end) = self.granules_of(address, len);
        let offset = address.wrapping_sub(self.base);
        let is_inside = offset < self.len && offset.saturating_add(len) <= end * GRANULE_BYTES && begin < end;
        is_inside && self.core.lock().is_some_and(|core| core.slabs.is_free((begin, end - begin)))
    }

    /// Unmaps the free memory in a range and gives its addresses up for good: the program is about to map something
    /// there, or expects nothing there. Returns whether there was any.
    pub fn cede(&self, address: usize, len: usize) -> bool {
        let (begin, end) = self.granules_of(address, len);
        let is_in_use = |&(start, _): &(usize, usize)| self.blocks.find(start).is_some();
        let block = self.blocks.covering(begin, LARGE_GRANULES).filter(is_in_use);
        if begin >= end || block.is_some_and(|(start, count)| end <= start + count) {
            return false;
        }
        self.empty_front();
        let mut at = begin;
        while let Some(mut core) = self.core.lock() {
            let slabs = &core.slabs;
            let Some(start) = (at..end).find(|&granule| slabs.is_free((granule, 1))) else { break };
            let count = (start..end).take_while(|&granule| slabs.is_free((granule, 1))).count();
            core.slabs.rise((start + count).div_ceil(SLAB_GRANULES));
            let counts = core.slabs.change((start, count), Slab::take);
            core.retain_less(counts);
            drop(core);
            self.has_holes.store(true, Relaxed);
            self.backend.abandon(Span::of((start, count)));
            at = start + count;
        }
        at > begin
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Fake, Policy};

    const LEN: usize = 5 * GRANULE_BYTES - QUARTER_BYTES;

    fn pool() -> Pool<Fake> {
        Pool::open(Fake::new(4), Policy::default()).unwrap()
    }

    /// A pool with dirty memory of this length.
    fn used() -> Pool<Fake> {
        let pool = pool();
        pool.alloc(LEN).unwrap().fill(1);
        pool
    }

    #[test]
    fn a_mapping_comes_back_zeroed_and_only_by_its_own_length() {
        let pool = used();
        let first = pool.map_at(LEN).unwrap();
        assert_eq!(pool.backend.residency(Span { offset: first, len: 5 * GRANULE_BYTES }).bytes, 0, "zero");
        let others = [LEN - QUARTER_BYTES, LEN + QUARTER_BYTES];
        assert_eq!(others.map(|len| pool.unmap_at(first, len, false)), [false; 2]);
        assert!(pool.unmap_at(first, LEN, false) && !pool.unmap_at(first, LEN, false));
        assert_eq!(pool.map_at(LEN), Some(first));
        assert_eq!(pool.stats().cleared_bytes, 10 * GRANULE_BYTES as u64);
    }

    #[test]
    fn what_a_short_mapping_did_not_touch_is_not_zeroed_later() {
        let pool = pool();
        let first = pool.map_at(LEN).unwrap();
        pool.backend.ignore_populate();
        assert!(pool.unmap_at(first, LEN, false));
        assert_eq!(pool.stats().retained_bytes, 0);
        assert!(pool.map_at(LEN).is_some());
        assert_eq!(pool.stats().cleared_bytes, 0);
    }

    #[test]
    fn a_block_of_malloc_is_no_mapping() {
        let pool = pool();
        let block = pool.alloc_at(LEN, 1, true).unwrap();
        assert!(!pool.unmap_at(block, LEN, false) && !pool.unmap_at(block, 5 * GRANULE_BYTES, false));
        assert!(pool.free_at(block));
    }

    #[test]
    fn a_mapping_that_is_unmapped_in_part_never_comes_back() {
        let pool = pool();
        let first = pool.map_at(LEN).unwrap();
        let mut lost = Vec::new();
        pool.lose_mappings(pool.range().0 + first + GRANULE_BYTES, 1, |count| lost.push(count));
        assert_eq!((lost, pool.stats().in_use_bytes), (vec![5], 0));
        assert!(!pool.unmap_at(first, LEN, false));
        assert_ne!(pool.map_at(LEN), Some(first));
    }

    #[test]
    fn free_memory_where_something_else_is_mapped_never_comes_back() {
        let pool = used();
        let [first, second] = [(); 2].map(|()| pool.map_at(LEN).unwrap());
        let at = pool.range().0 + first;
        assert!(!pool.is_unused(at, LEN) && !pool.cede(at, LEN), "in use");
        assert!(pool.unmap_at(first, LEN, false));
        assert!(pool.is_unused(at, LEN) && !pool.is_unused(at, 2 * LEN), "the second is in use");
        assert!(pool.cede(at, LEN) && !pool.cede(at, LEN) && !pool.is_unused(at, LEN));
        assert_eq!(pool.stats().retained_bytes, 0);
        let third = pool.map_at(LEN).unwrap();
        assert!(third > second || third + LEN <= first, "{third}");
    }

    #[test]
    fn mappings_of_whole_slabs_are_aligned_and_long_ones_are_refused() {
        let pool = pool();
        assert!(pool.map_at(LEN).is_some());
        assert!(pool.map_at(SLAB_BYTES).is_some_and(|offset| offset.is_multiple_of(SLAB_BYTES)));
        assert_eq!(pool.map_at(LARGE_GRANULES * GRANULE_BYTES), None);
    }
}
