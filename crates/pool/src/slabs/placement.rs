//! Placement: chooses where a block lies.
//!
//! In: a count of granules and an alignment. Out: the first granule, counted over the whole range, or nothing. The
//! order:
//! 1. A run in a partly used slab, or across the border of two. Resident granules come first.
//! 2. Whole slabs: resident ones in the preferred state, other resident ones, slabs that were used before, new slabs.
//!    The block begins in the free end of the slab before. So blocks slightly longer than a fraction of a slab leave no
//!    holes.
//!
//! Placement changes no state, except for the room of growing blocks. The pool takes the granules.

use std::ops::DerefMut;

use super::{Map, Runs, Slab, SlabTable};
use crate::class::{Run, aligned, pieces, run, starts};
use crate::tuning::{ROOM_FACTOR, ROOM_SHARE, SLAB_GRANULES, TRIES};

/// The shape of the block to place.
#[derive(Clone, Copy)]
pub(crate) struct Query {
    /// Granules.
    pub(crate) count: usize,
    /// Alignment in granules, a power of two.
    pub(crate) align: usize,
    /// Whether zeroed granules are better than dirty ones.
    pub(crate) zeroed: bool,
    /// Whether memory that is not resident is better than dirty granules.
    pub(crate) fresh: bool,
    /// The number of granules from address 0 to the start of the range, for alignments above a slab.
    pub(crate) base: usize,
}

impl<S: DerefMut<Target = [Slab]>, W: DerefMut<Target = [u64]>> SlabTable<S, W> {
    /// The first granule for a block.
    pub(crate) fn place(&self, query: Query) -> Option<usize> {
        let small = query.count < SLAB_GRANULES && query.align <= SLAB_GRANULES;
        small.then(|| self.in_part(query)).flatten().or_else(|| self.whole_slabs(query))
    }

    /// The first granule for a growing block, and the first slab behind its room. The block lies behind everything in
    /// use, so one growing block after the other gets the same addresses.
    pub(crate) fn place_with_room(&self, count: usize) -> Option<(usize, usize)> {
        let slabs = count.div_ceil(SLAB_GRANULES);
        let lowest = self.top.saturating_sub(slabs * (1 + ROOM_FACTOR));
        let begin = (lowest..self.top).rev().take_while(|&at| self.bit(Map::Idle, at)).last();
        let begin = begin.unwrap_or(self.top);
        let left = self.count.checked_sub(begin + slabs)?;
        let room = (slabs * ROOM_FACTOR).min(left / ROOM_SHARE);
        Some((begin * SLAB_GRANULES, begin + slabs + room))
    }

    /// Leaves slabs `from .. to` to the block that ends before them, up to the first resident slab. Searches no longer
    /// find them.
    pub(crate) fn leave_room(&mut self, from: usize, to: usize) {
        let kept = (from..self.top.min(to)).find(|&at| !self.is_reserved(at));
        let end = kept.unwrap_or(to);
        (from..end.min(self.top)).for_each(|at| self.hide(at));
        self.top = self.top.max(end);
    }

    /// Ends the room that begins at slab `from`: its block is gone or shorter now.
    pub(crate) fn end_room(&mut self, from: usize) {
        let is_room = |slabs: &Self, at| !slabs.bit(Map::Idle, at) && slabs.slab(at).is_idle();
        let mut at = from;
        while at < self.top && is_room(self, at) {
            self.file(at);
            at += 1;
        }
    }

    /// Whether a run of granules is free and inside the range.
    pub(crate) fn is_free(&self, of: Run) -> bool {
        of.0 + of.1 <= self.count * SLAB_GRANULES
            && pieces(of).all(|(slab, first, len)| {
                slab >= self.top || self.slab(slab).free() & run(first, len) == run(first, len)
            })
    }

    /// A run in partly used slabs: the lowest resident one, else the lowest. A request for zeroes gets the lowest
    /// zeroed run among the first few.
    fn in_part(&self, query: Query) -> Option<usize> {
        let from = |table| {
            let slab_from = move |from| self.seek_run(table, query.count, from);
            std::iter::successors(slab_from(0), move |&slab| slab_from(slab + 1))
        };
        let at = |slab: usize| Some(slab * SLAB_GRANULES + self.best_start(slab, query)?);
        if query.zeroed {
            let found = from(Runs::Retained).take(TRIES).filter_map(at);
            let zeroed = found.into_iter().find(|&start| self.is_zeroed((start, query.count)));
            let whole = || self.slab_run(query, Map::Zeroed).map(|slab| slab * SLAB_GRANULES);
            if let Some(start) = zeroed.or_else(whole) {
                return Some(start);
            }
        }
        from(Runs::Retained).find_map(at).or_else(|| from(Runs::Free).find_map(at))
    }

    fn is_zeroed(&self, of: Run) -> bool {
        pieces(of)
            .all(|(slab, first, len)| self.slab(slab).free_zeroed() & run(first, len) == run(first, len))
    }

    /// The best start inside a slab: granules of the preferred state, else resident ones, else any.
    fn best_start(&self, index: usize, query: Query) -> Option<usize> {
        let slab = self.slab(index);
        let alone = index > 0 && self.slab(index - 1).is_idle();
        let mut states: [fn(&Slab) -> u128; 3] = [Slab::free_dirty, Slab::free_zeroed, Slab::free];
        if query.zeroed {
            states.swap(0, 1);
        }
        states.into_iter().find_map(|mask| {
            let found = starts(mask(slab), query.count) & aligned(query.align);
            let inside = (found != 0).then(|| match found.trailing_zeros() as usize {
                // The run began in the slab before. At the end of the run the block lies next to another block.
                0 if alone && query.align <= 1 => mask(slab).trailing_ones() as usize - query.count,
                lowest => lowest,
            });
            let fits = |&(end, begin): &(usize, usize)| end + begin >= query.count && query.align <= 1;
            let across = || self.across(index, mask).filter(fits);
            inside.or_else(|| across().map(|(end, _)| SLAB_GRANULES - end))
        })
    }

    fn whole_slabs(&self, query: Query) -> Option<usize> {
        let maps = match query.zeroed {
            true => [Map::Zeroed, Map::Retained, Map::Idle],
            false if query.fresh => [Map::Reserved, Map::Idle, Map::Idle],
            false => [Map::Dirty, Map::Retained, Map::Idle],
        };
        let at = maps.into_iter().find_map(|map| self.slab_run(query, map))?;
        let start = at * SLAB_GRANULES;
        let Some(before) = at.checked_sub(1).filter(|_| query.align <= 1) else { return Some(start) };
        let slab = self.slab(before);
        let end = slab.free().leading_ones() as usize;
        let fits = end < SLAB_GRANULES && end < query.count && !slab.room;
        Some(if fits && !query.count.is_multiple_of(SLAB_GRANULES) { start - end } else { start })
    }

    /// The first slab of a run of slabs that holds the block; the block may take only part of the last one. For
    /// `Map::Idle` every slab from the top on counts as idle.
    fn slab_run(&self, query: Query, map: Map) -> Option<usize> {
        let full = (query.count / SLAB_GRANULES).max(1);
        let tail = if query.count > SLAB_GRANULES { query.count % SLAB_GRANULES } else { 0 };
        let mut at = 0;
        loop {
            at = self.seek(map, true, at, self.top);
            if query.align > SLAB_GRANULES {
                let base = query.base / SLAB_GRANULES;
                let slabs = query.align / SLAB_GRANULES;
                at = ((base + at + slabs - 1) & !(slabs - 1)) - base;
            }
            let end = at.checked_add(full)?;
            if (!matches!(map, Map::Idle | Map::Reserved) && end > self.top)
                || end + (tail > 0) as usize > self.count
            {
                return None;
            }
            let gap = self.seek(map, false, at.min(self.top), end.min(self.top));
            if gap < end.min(self.top) {
                at = gap + 1;
            } else if tail > 0 && end < self.top && self.slab(end).free() & run(0, tail) != run(0, tail) {
                at = end + 1;
            } else {
                return Some(at);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::slabs::{Counts, WORDS};

    type Table = SlabTable<Vec<Slab>, Vec<u64>>;

    fn table(slabs: usize) -> Table {
        let entries = (0..slabs).map(|_| Slab::RESERVED).collect();
        let mut table = SlabTable::new(entries, vec![0; WORDS * slabs.div_ceil(64)], slabs);
        table.usable = slabs;
        table
    }

    fn query(count: usize) -> Query {
        Query { count, align: 1, zeroed: false, fresh: false, base: 0 }
    }

    fn take(table: &mut Table, query: Query) -> Option<usize> {
        let start = table.place(query)?;
        table.rise(start / SLAB_GRANULES);
        table.change((start, query.count), Slab::take);
        Some(start)
    }

    fn give(table: &mut Table, start: usize, count: usize) {
        table.change((start, count), |slab, mask| {
            slab.give(mask);
            Counts::default()
        });
    }

    #[test]
    fn blocks_of_any_size_lie_without_holes() {
        for count in [40, 65, 100, 128, 160, 300] {
            let mut table = table(64);
            let starts: Vec<_> = (0..5).map(|_| take(&mut table, query(count)).unwrap()).collect();
            let end = starts.iter().max().unwrap() + count;
            assert!(end < 5 * count + SLAB_GRANULES, "{count}: {starts:?}");
        }
    }

    #[test]
    fn a_resident_place_is_preferred_to_a_new_one() {
        let mut table = table(8);
        let first = take(&mut table, query(300)).unwrap();
        let second = take(&mut table, query(20)).unwrap();
        give(&mut table, first, 300);
        assert_eq!(take(&mut table, query(256)), Some(first));
        assert_ne!(first, second);
    }

    #[test]
    fn a_hole_across_a_border_is_found_again() {
        let mut table = table(8);
        let starts: Vec<_> = (0..10).map(|_| take(&mut table, query(40)).unwrap()).collect();
        assert_eq!(starts[3], 120, "the fourth lies across the first border");
        give(&mut table, 120, 40);
        assert_eq!(take(&mut table, query(41)), Some(400));
        assert_eq!(take(&mut table, query(40)), Some(120));
        give(&mut table, 120, 40);
        assert_eq!(take(&mut table, Query { align: 8, ..query(40) }), Some(448), "not for aligned ones");
    }

    #[test]
    fn a_block_goes_where_it_leaves_no_hole() {
        let mut table = table(8);
        let starts: Vec<_> = (0..10).map(|_| take(&mut table, query(40)).unwrap()).collect();
        for &start in &starts[..6] {
            give(&mut table, start, 40);
        }
        assert_eq!(take(&mut table, query(40)), Some(200), "next to the one at 240, not at 128");
    }

    #[test]
    fn alignments_inside_and_above_a_slab_are_kept() {
        let mut table = table(64);
        take(&mut table, query(3)).unwrap();
        let inside = take(&mut table, Query { align: 32, ..query(5) }).unwrap();
        assert_eq!(inside % 32, 0);
        let above = Query { align: 4 * SLAB_GRANULES, base: 3 * SLAB_GRANULES, ..query(5) };
        let start = take(&mut table, above).unwrap();
        assert_eq!((start + above.base) % above.align, 0);
    }

    #[test]
    fn a_full_range_refuses() {
        let mut table = table(2);
        assert_eq!(take(&mut table, query(257)), None);
        assert_eq!(take(&mut table, query(256)), Some(0));
        assert_eq!(take(&mut table, query(1)), None);
    }
}
