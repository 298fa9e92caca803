//! Where a block goes.
//!
//! In: a count of granules, an alignment. Out: the first granule, counted over the whole range, or nothing. The order:
//! 1. the place of a recently freed block of that size, if it is still free and resident (a look at one list, no search);
//! 2. a run inside a partly used slab, resident granules first;
//! 3. whole slabs: resident ones in the wanted state, then resident ones, then any that were used before, then never used ones. The block begins in the free
//!    end of the slab before, so that blocks slightly larger than a fraction of a slab leave no holes.
//!
//! It changes no state; the pool takes what was found.

use std::ops::DerefMut;

use crate::class::{aligned, run, starts};
use crate::lists::{BINS, Lists, Map};
use crate::policy::tuning::{RECENT, RECENT_GRANULES, ROOM_FACTOR, ROOM_SHARE, SLAB_GRANULES, TRIES};
use crate::state::Slab;

/// Recently freed blocks: the first granule + 1 of the last few of each size, newest last.
pub(crate) struct Recent([[u32; RECENT]; RECENT_GRANULES]);

impl Recent {
    pub(crate) const fn new() -> Self {
        Self([[0; RECENT]; RECENT_GRANULES])
    }

    pub(crate) fn push(&mut self, start: usize, count: usize) -> bool {
        let Some(places) = self.0.get_mut(count - 1) else { return false };
        places.rotate_right(1);
        places[0] = start as u32 + 1;
        true
    }

    fn pop(&mut self, count: usize) -> Option<usize> {
        let places = self.0.get_mut(count - 1)?;
        let start = (places[0] as usize).checked_sub(1)?;
        places[0] = 0;
        places.rotate_left(1);
        Some(start)
    }
}

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
    pub(crate) fn place(&mut self, wish: Wish, recent: &mut Recent) -> Option<usize> {
        if wish.align <= 1 && !wish.zeroed {
            while let Some(start) = recent.pop(wish.count) {
                if self.is_dirty(start, wish.count) {
                    return Some(start);
                }
            }
        }
        let small = wish.count < SLAB_GRANULES && wish.align <= SLAB_GRANULES;
        if let Some(start) = small.then(|| self.in_bins(wish)).flatten() {
            return Some(start);
        }
        if let Some(start) = (self.settle() && small).then(|| self.in_bins(wish)).flatten() {
            return Some(start);
        }
        self.whole_slabs(wish)
    }

    /// A place for a growing block, and the slab that others may begin at: everything up to there is left to it.
    pub(crate) fn place_with_room(&mut self, count: usize) -> Option<(usize, usize)> {
        let slabs = count.div_ceil(SLAB_GRANULES);
        let left = self.count.checked_sub(self.top + slabs)?;
        let room = (slabs * ROOM_FACTOR).min(left / ROOM_SHARE);
        Some((self.top * SLAB_GRANULES, self.top + slabs + room))
    }

    /// Whether a run of granules is free.
    pub(crate) fn is_free(&self, start: usize, count: usize) -> bool {
        start + count <= self.count * SLAB_GRANULES
            && Self::pieces(start, count).all(|(slab, first, len)| {
                slab >= self.top || self.slab(slab).free() & run(first, len) == run(first, len)
            })
    }

    /// Whether a run of granules is free and resident, content unknown.
    fn is_dirty(&self, start: usize, count: usize) -> bool {
        Self::pieces(start, count)
            .all(|(slab, first, len)| self.slab(slab).free_dirty() & run(first, len) == run(first, len))
    }

    fn in_bins(&mut self, wish: Wish) -> Option<usize> {
        let log2 = wish.count.checked_ilog2().unwrap_or(0) as usize;
        for bin in log2..BINS {
            let mut next = self.first(bin);
            for _ in 0..TRIES {
                let Some(index) = next else { break };
                next = self.next(index);
                if let Some(at) = best_start(self.slab(index), wish) {
                    self.mark_stale(index);
                    return Some(index * SLAB_GRANULES + at);
                }
                self.file(index);
            }
        }
        None
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

/// The best place inside one slab: in granules of the preferred state, then resident, then any.
fn best_start(slab: &Slab, wish: Wish) -> Option<usize> {
    let (first, second) = match wish.zeroed {
        true => (slab.free_zeroed(), slab.free_dirty()),
        false => (slab.free_dirty(), slab.free_zeroed()),
    };
    [first, second, slab.free()]
        .into_iter()
        .map(|mask| starts(mask, wish.count) & aligned(wish.align))
        .find(|&places| places != 0)
        .map(|places| places.trailing_zeros() as usize)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lists::MAPS;

    type Table = Lists<Vec<Slab>, Vec<u64>>;

    fn table(slabs: usize) -> Table {
        let entries = (0..slabs).map(|_| Slab::RESERVED).collect();
        let mut table = Lists::new(entries, vec![0; MAPS * slabs.div_ceil(64)], slabs);
        table.usable = slabs;
        table
    }

    fn wish(count: usize) -> Wish {
        Wish { count, align: 1, zeroed: false, base: 0 }
    }

    fn take(table: &mut Table, recent: &mut Recent, wish: Wish) -> Option<usize> {
        let start = table.place(wish, recent)?;
        for (slab, first, len) in Table::pieces(start, wish.count) {
            table.top = table.top.max(slab + 1);
            table.take(slab, run(first, len));
            table.file(slab);
        }
        Some(start)
    }

    fn give(table: &mut Table, start: usize, count: usize) {
        for (slab, first, len) in Table::pieces(start, count) {
            table.slab_mut(slab).give(run(first, len));
            table.mark_stale(slab);
        }
    }

    #[test]
    fn blocks_of_any_size_lie_without_holes() {
        for count in [40, 65, 100, 128, 160, 300] {
            let (mut table, mut recent) = (table(64), Recent::new());
            let starts: Vec<_> =
                (0..5).map(|_| take(&mut table, &mut recent, wish(count)).unwrap()).collect();
            let end = starts.iter().max().unwrap() + count;
            assert!(end < 5 * count + SLAB_GRANULES, "{count}: {starts:?}");
        }
    }

    #[test]
    fn a_resident_place_is_preferred_to_a_new_one() {
        let (mut table, mut recent) = (table(8), Recent::new());
        let first = take(&mut table, &mut recent, wish(300)).unwrap();
        let second = take(&mut table, &mut recent, wish(20)).unwrap();
        give(&mut table, first, 300);
        assert_eq!(take(&mut table, &mut recent, wish(256)), Some(first));
        assert_ne!(first, second);
    }

    #[test]
    fn alignments_inside_and_above_a_slab_are_kept() {
        let (mut table, mut recent) = (table(64), Recent::new());
        take(&mut table, &mut recent, wish(3)).unwrap();
        let inside = take(&mut table, &mut recent, Wish { align: 32, ..wish(5) }).unwrap();
        assert_eq!(inside % 32, 0);
        let above = Wish { align: 4 * SLAB_GRANULES, base: 3 * SLAB_GRANULES, ..wish(5) };
        let start = take(&mut table, &mut recent, above).unwrap();
        assert_eq!((start + above.base) % above.align, 0);
    }

    #[test]
    fn a_full_range_refuses() {
        let (mut table, mut recent) = (table(2), Recent::new());
        assert_eq!(take(&mut table, &mut recent, wish(257)), None);
        assert_eq!(take(&mut table, &mut recent, wish(256)), Some(0));
        assert_eq!(take(&mut table, &mut recent, wish(1)), None);
    }

    #[test]
    fn the_last_freed_place_of_a_size_comes_first_and_only_while_free() {
        let mut recent = Recent::new();
        let mut table = table(4);
        let blocks: Vec<_> = (0..3).map(|_| take(&mut table, &mut recent, wish(10)).unwrap()).collect();
        for &start in &blocks[..2] {
            give(&mut table, start, 10);
            recent.push(start, 10);
        }
        assert_eq!(take(&mut table, &mut recent, wish(10)), Some(blocks[1]));
        assert_eq!(take(&mut table, &mut recent, wish(10)), Some(blocks[0]));
        recent.push(blocks[2], 10);
        assert_ne!(take(&mut table, &mut recent, wish(10)), Some(blocks[2]), "still in use");
    }
}
