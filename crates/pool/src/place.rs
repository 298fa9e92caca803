//! Where a block goes.
//!
//! In: a count of granules, an alignment. Out: the first granule, counted over the whole range, or nothing. The order:
//! 1. a run in a partly used slab, or across the border of two, resident granules first;
//! 2. whole slabs: resident ones in the wanted state, then resident ones, then any that were used before, then never used ones. The block begins in the free
//!    end of the slab before, so that blocks slightly larger than a fraction of a slab leave no holes.
//!
//! It changes no state; the pool takes what was found.

use std::ops::DerefMut;

use crate::class::{aligned, run, starts};
use crate::lists::{Lists, Map, Runs};
use crate::policy::tuning::{ROOM_FACTOR, ROOM_SHARE, SLAB_GRANULES, TRIES};
use crate::state::Slab;

/// What to look for.
#[derive(Clone, Copy)]
pub(crate) struct Wish {
    /// Granules.
    pub(crate) count: usize,
    /// Alignment in granules, a power of two.
    pub(crate) align: usize,
    /// Whether zeroed granules are better than dirty ones.
    pub(crate) zeroed: bool,
    /// The number of granules from address 0 to the start of the range, for alignments above a slab.
    pub(crate) base: usize,
}

impl<S: DerefMut<Target = [Slab]>, W: DerefMut<Target = [u64]>> Lists<S, W> {
    /// A place for a block, see the module's documentation.
    pub(crate) fn place(&self, wish: Wish) -> Option<usize> {
        let small = wish.count < SLAB_GRANULES && wish.align <= SLAB_GRANULES;
        small.then(|| self.in_part(wish)).flatten().or_else(|| self.whole_slabs(wish))
    }

    /// A place for a growing block, and the slab that others may begin at: everything up to there is left to it. It is behind
    /// everything in use, so that one growing block after the other finds the same place.
    pub(crate) fn place_with_room(&self, count: usize) -> Option<(usize, usize)> {
        let slabs = count.div_ceil(SLAB_GRANULES);
        let lowest = self.top.saturating_sub(slabs * (1 + ROOM_FACTOR));
        let begin = (lowest..self.top).rev().take_while(|&at| self.bit(Map::Idle, at)).last();
        let begin = begin.unwrap_or(self.top);
        let left = self.count.checked_sub(begin + slabs)?;
        let room = (slabs * ROOM_FACTOR).min(left / ROOM_SHARE);
        Some((begin * SLAB_GRANULES, begin + slabs + room))
    }

    /// Leaves slabs to the block that ends before `from`: nobody finds them any more, up to the first one that is resident.
    pub(crate) fn leave_room(&mut self, from: usize, to: usize) {
        let kept = (from..self.top.min(to)).find(|&at| !self.is_cold(at));
        let end = kept.unwrap_or(to);
        (from..end.min(self.top)).for_each(|at| self.hide(at));
        self.top = self.top.max(end);
    }

    /// The slabs from `from` on that were left to a block, which is gone or shorter now, are anybody's again.
    pub(crate) fn end_room(&mut self, from: usize) {
        let is_room = |lists: &Self, at| !lists.bit(Map::Idle, at) && lists.slab(at).free() == u128::MAX;
        let mut at = from;
        while at < self.top && is_room(self, at) {
            self.file(at);
            at += 1;
        }
    }

    /// Whether a run of granules is free.
    pub(crate) fn is_free(&self, start: usize, count: usize) -> bool {
        start + count <= self.count * SLAB_GRANULES
            && Self::pieces(start, count).all(|(slab, first, len)| {
                slab >= self.top || self.slab(slab).free() & run(first, len) == run(first, len)
            })
    }

    /// A place in partly used slabs: the lowest that is resident, or else the lowest. Somebody who wants zeroes gets the
    /// lowest zeroed one of the first few.
    fn in_part(&self, wish: Wish) -> Option<usize> {
        let from = |table| {
            let slab_from = move |from| self.seek_run(table, wish.count, from);
            std::iter::successors(slab_from(0), move |&slab| slab_from(slab + 1))
        };
        let at = |slab: usize| Some(slab * SLAB_GRANULES + self.best_start(slab, wish)?);
        if wish.zeroed {
            let places = from(Runs::Warm).take(TRIES).filter_map(at);
            let zeroed = places.into_iter().find(|&place| self.is_zeroed(place, wish.count));
            if let Some(place) =
                zeroed.or_else(|| self.slab_run(wish, Map::Zeroed).map(|slab| slab * SLAB_GRANULES))
            {
                return Some(place);
            }
        }
        from(Runs::Warm).find_map(at).or_else(|| from(Runs::Free).find_map(at))
    }

    fn is_zeroed(&self, start: usize, count: usize) -> bool {
        Self::pieces(start, count)
            .all(|(slab, first, len)| self.slab(slab).free_zeroed() & run(first, len) == run(first, len))
    }

    /// The best place that begins in a slab: in granules of the preferred state, then resident, then any.
    fn best_start(&self, index: usize, wish: Wish) -> Option<usize> {
        let slab = self.slab(index);
        let alone = index > 0 && self.slab(index - 1).free() == u128::MAX;
        let (first, second) = match wish.zeroed {
            true => (Slab::free_zeroed as fn(&Slab) -> u128, Slab::free_dirty as fn(&Slab) -> u128),
            false => (Slab::free_dirty as _, Slab::free_zeroed as _),
        };
        [first, second, Slab::free as _].into_iter().find_map(|mask| {
            let places = starts(mask(slab), wish.count) & aligned(wish.align);
            let inside = (places != 0).then(|| match places.trailing_zeros() as usize {
                // The run began in the slab before: its end is where a block lies next to another one.
                0 if alone && wish.align <= 1 => mask(slab).trailing_ones() as usize - wish.count,
                lowest => lowest,
            });
            let across = || {
                self.across(index, mask).filter(|&(end, begin)| end + begin >= wish.count && wish.align <= 1)
            };
            inside.or_else(|| across().map(|(end, _)| SLAB_GRANULES - end))
        })
    }

    fn whole_slabs(&self, wish: Wish) -> Option<usize> {
        let best = if wish.zeroed { Map::Zeroed } else { Map::Dirty };
        let at = [best, Map::Warm, Map::Idle].into_iter().find_map(|map| self.slab_run(wish, map))?;
        let start = at * SLAB_GRANULES;
        let Some(before) = at.checked_sub(1).filter(|_| wish.align <= 1) else { return Some(start) };
        let slab = self.slab(before);
        let end = slab.free().leading_ones() as usize;
        let fits = end < SLAB_GRANULES && end < wish.count && !slab.room;
        Some(if fits && !wish.count.is_multiple_of(SLAB_GRANULES) { start - end } else { start })
    }

    /// The first slab of a run that holds the block, its last slab perhaps in part. For `Map::Idle` every slab from
    /// the top on counts as idle.
    fn slab_run(&self, wish: Wish, map: Map) -> Option<usize> {
        let full = (wish.count / SLAB_GRANULES).max(1);
        let tail = if wish.count > SLAB_GRANULES { wish.count % SLAB_GRANULES } else { 0 };
        let mut at = 0;
        loop {
            at = self.seek(map, true, at, self.top);
            if wish.align > SLAB_GRANULES {
                let base = wish.base / SLAB_GRANULES;
                let slabs = wish.align / SLAB_GRANULES;
                at = ((base + at + slabs - 1) & !(slabs - 1)) - base;
            }
            let end = at.checked_add(full)?;
            if (map != Map::Idle && end > self.top) || end + (tail > 0) as usize > self.count {
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
    use crate::lists::WORDS;
    use crate::state::Counts;

    type Table = Lists<Vec<Slab>, Vec<u64>>;

    fn table(slabs: usize) -> Table {
        let entries = (0..slabs).map(|_| Slab::RESERVED).collect();
        let mut table = Lists::new(entries, vec![0; WORDS * slabs.div_ceil(64)], slabs);
        table.usable = slabs;
        table
    }

    fn wish(count: usize) -> Wish {
        Wish { count, align: 1, zeroed: false, base: 0 }
    }

    fn take(table: &mut Table, wish: Wish) -> Option<usize> {
        let start = table.place(wish)?;
        table.rise(start / SLAB_GRANULES);
        table.change((start, wish.count), Slab::take);
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
            let starts: Vec<_> = (0..5).map(|_| take(&mut table, wish(count)).unwrap()).collect();
            let end = starts.iter().max().unwrap() + count;
            assert!(end < 5 * count + SLAB_GRANULES, "{count}: {starts:?}");
        }
    }

    #[test]
    fn a_resident_place_is_preferred_to_a_new_one() {
        let mut table = table(8);
        let first = take(&mut table, wish(300)).unwrap();
        let second = take(&mut table, wish(20)).unwrap();
        give(&mut table, first, 300);
        assert_eq!(take(&mut table, wish(256)), Some(first));
        assert_ne!(first, second);
    }

    #[test]
    fn a_hole_across_a_border_is_found_again() {
        let mut table = table(8);
        let starts: Vec<_> = (0..10).map(|_| take(&mut table, wish(40)).unwrap()).collect();
        assert_eq!(starts[3], 120, "the fourth lies across the first border");
        give(&mut table, 120, 40);
        assert_eq!(take(&mut table, wish(41)), Some(400));
        assert_eq!(take(&mut table, wish(40)), Some(120));
        give(&mut table, 120, 40);
        assert_eq!(take(&mut table, Wish { align: 8, ..wish(40) }), Some(448), "not for aligned ones");
    }

    #[test]
    fn a_block_goes_where_it_leaves_no_hole() {
        let mut table = table(8);
        let starts: Vec<_> = (0..10).map(|_| take(&mut table, wish(40)).unwrap()).collect();
        for &start in &starts[..6] {
            give(&mut table, start, 40);
        }
        assert_eq!(take(&mut table, wish(40)), Some(200), "next to the one at 240, not at 128");
    }

    #[test]
    fn alignments_inside_and_above_a_slab_are_kept() {
        let mut table = table(64);
        take(&mut table, wish(3)).unwrap();
        let inside = take(&mut table, Wish { align: 32, ..wish(5) }).unwrap();
        assert_eq!(inside % 32, 0);
        let above = Wish { align: 4 * SLAB_GRANULES, base: 3 * SLAB_GRANULES, ..wish(5) };
        let start = take(&mut table, above).unwrap();
        assert_eq!((start + above.base) % above.align, 0);
    }

    #[test]
    fn a_full_range_refuses() {
        let mut table = table(2);
        assert_eq!(take(&mut table, wish(257)), None);
        assert_eq!(take(&mut table, wish(256)), Some(0));
        assert_eq!(take(&mut table, wish(1)), None);
    }
}
