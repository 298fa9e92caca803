//! The slab table: every slab's description, which slabs are wholly free, and the longest run in each.
//!
//! - Bitmaps `Idle` (wholly free, below the top), `Retained` (idle, and some of it resident) and `Zeroed` (retained,
//!   and none of it dirty). They find runs of slabs.
//! - For each partly used slab the longest free run and the longest resident free run, one byte each. A search tests
//!   eight slabs at a time and finds the lowest one. A run that crosses into the next slab counts for the first slab.
//! - Two lists, oldest last: the purge order of wholly free slabs, and that of partly used ones.
//!
//! An index beyond the range leads to a spare slab instead of a panic.

pub(crate) mod placement;
mod state;

use std::ops::DerefMut;

use crate::class::{Run, longest, pieces, run};
use crate::tuning::SLAB_GRANULES;
pub(crate) use state::{Counts, Listed};
pub use state::{Slab, State};

/// A bitmap with one bit per slab.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Map {
    /// Wholly free.
    Idle,
    /// Wholly free, and some of it resident.
    Retained,
    /// Retained, and none of it dirty.
    Zeroed,
    /// Retained, and some of it dirty. Computed from the others.
    Dirty,
    /// Wholly free, and none of it resident. Computed from the others.
    Reserved,
}

/// A table of the longest run in each slab.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Runs {
    /// Free and resident.
    Retained,
    /// Free.
    Free,
}

/// Words per 64 slabs: three bitmaps, and twice 64 bytes.
pub(crate) const WORDS: usize = 3 + 2 * 8;
/// The longest run that is recorded. A run takes one byte, and the search needs its highest bit.
const LONGEST: usize = 127;
/// A one in every byte.
const ONES: u64 = u64::MAX / 255;

/// The ends of a purge order, as index + 1: the slab into which something was freed last, and the one that was left
/// alone for longest.
#[derive(Clone, Copy, Default)]
struct Order {
    newest: u32,
    oldest: u32,
}

/// Slabs, bitmaps, runs and the purge orders.
pub(crate) struct SlabTable<S, W> {
    slabs: S,
    words: W,
    spare: Slab,
    idle: Order,
    part: Order,
    /// Slabs in the range.
    pub(crate) count: usize,
    /// Slabs with usable table entries and addresses. Beyond them every slab is Reserved.
    pub(crate) usable: usize,
    /// Slabs from here on were never handed out.
    pub(crate) top: usize,
}

impl<S: DerefMut<Target = [Slab]>, W: DerefMut<Target = [u64]>> SlabTable<S, W> {
    pub(crate) fn new(slabs: S, words: W, count: usize) -> Self {
        let (idle, part) = Default::default();
        Self { slabs, words, spare: Slab::RESERVED, idle, part, count, usable: 0, top: 0 }
    }

    pub(crate) fn slab(&self, index: usize) -> &Slab {
        if index < self.usable { self.slabs.get(index).unwrap_or(&self.spare) } else { &self.spare }
    }

    pub(crate) fn slab_mut(&mut self, index: usize) -> &mut Slab {
        if index < self.usable {
            self.slabs.get_mut(index).unwrap_or(&mut self.spare)
        } else {
            &mut self.spare
        }
    }

    fn order(&mut self, listed: Listed) -> &mut Order {
        if listed == Listed::Idle { &mut self.idle } else { &mut self.part }
    }

    /// The retained slab that has been wholly free for longest.
    pub(crate) fn oldest_idle(&self) -> Option<usize> {
        (self.idle.oldest as usize).checked_sub(1)
    }

    /// The partly used slab with retained granules into which nothing was freed for longest.
    pub(crate) fn oldest_part(&self) -> Option<usize> {
        (self.part.oldest as usize).checked_sub(1)
    }

    /// The retained slabs, the one freed last first: wholly free ones, then partly used ones.
    pub(crate) fn newest_first(&self) -> impl Iterator<Item = usize> {
        [self.idle, self.part].into_iter().flat_map(|order| {
            let older = |&slab: &usize| (self.slab(slab).older as usize).checked_sub(1);
            std::iter::successors((order.newest as usize).checked_sub(1), older)
        })
    }

    /// The retained slabs with the highest addresses: a run of at most `most` slabs, as (begin, end).
    pub(crate) fn highest_retained(&self, most: usize) -> Option<(usize, usize)> {
        let is_retained = |&at: &usize| self.slab(at).listed == Listed::Idle;
        let last = (0..self.usable).rev().find(is_retained)?;
        let count = (0..=last).rev().take(most).take_while(is_retained).count();
        Some((last + 1 - count, last + 1))
    }

    /// The retained slab that became free after `index`.
    pub(crate) fn newer(&self, index: usize) -> Option<usize> {
        (self.slab(index).newer as usize).checked_sub(1)
    }

    /// Raises the top: the slabs below it can be found by their bits.
    pub(crate) fn rise(&mut self, top: usize) {
        while self.top < top {
            self.top += 1;
            self.file(self.top - 1);
        }
    }

    /// Makes the usable slabs behind the last one that is in use or resident unusable. Returns whether there are any.
    pub(crate) fn retreat(&mut self) -> bool {
        let had = self.usable;
        while let Some(last) = self.usable.checked_sub(1).filter(|&last| self.is_hole(last)) {
            *self.slab_mut(last) = Slab::RESERVED;
            self.usable = last;
        }
        self.usable < had
    }

    /// Whether all of a usable slab is free and not resident. It may be room of a growing block.
    fn is_hole(&self, index: usize) -> bool {
        let slab = self.slab(index);
        slab.is_idle() && slab.retained() == 0
    }

    /// Takes the first usable slabs that are free and not resident, for good; as (begin, count).
    pub(crate) fn take_hole(&mut self) -> Option<(usize, usize)> {
        let begin = (0..self.usable).find(|&at| self.is_hole(at))?;
        let count = (begin..self.usable).take_while(|&at| self.is_hole(at)).count();
        self.change((begin * SLAB_GRANULES, count * SLAB_GRANULES), Slab::take);
        Some((begin, count))
    }

    /// Changes the granules of a run, slab by slab, and files every changed slab. Returns the previous states.
    pub(crate) fn change(
        &mut self,
        (start, count): Run,
        mut each: impl FnMut(&mut Slab, u128) -> Counts,
    ) -> Counts {
        let mut counts = Counts::default();
        for (slab, first, len) in pieces((start, count)) {
            counts.add(each(self.slab_mut(slab), run(first, len)));
            self.top = self.top.max(slab + 1);
        }
        // A run in the slab before may continue into the first slab, unless granules in use lie between.
        let (first, inside) = (start / SLAB_GRANULES, run(0, start % SLAB_GRANULES));
        let reached = self.slab(first).free() & inside == inside;
        let first = if reached { first.saturating_sub(1) } else { first };
        (first..(start + count).div_ceil(SLAB_GRANULES)).for_each(|slab| self.file(slab));
        counts
    }

    /// The granules of `mask` in a run that begins in a slab and ends in the next one, both partly used; its part in
    /// each.
    pub(crate) fn across(&self, index: usize, mask: impl Fn(&Slab) -> u128) -> Option<(usize, usize)> {
        let (slab, next) = (self.slab(index), self.slab(index + 1));
        let end = mask(slab).leading_ones() as usize;
        let usable = end > 0 && index + 1 < self.top && !next.is_idle() && !next.room && !slab.room;
        let begin = if usable { mask(next).trailing_ones() as usize } else { 0 };
        (begin > 0).then_some((end, begin))
    }

    /// Makes a slab the newest of its purge order: something in it was just freed.
    pub(crate) fn renew(&mut self, index: usize) {
        let listed = self.slab(index).listed;
        if listed != Listed::No {
            self.unlink(index);
            self.link(index, listed);
        }
    }

    /// Files a slab after a change: its bits, its runs, the purge order that it is in.
    pub(crate) fn file(&mut self, index: usize) {
        let slab = self.slab_mut(index);
        let (free, kept, dirty) = (slab.free(), slab.retained(), slab.free_dirty() != 0);
        let (idle, retained) = (free == u128::MAX, kept != 0);
        slab.room &= !idle;
        let searched = free != 0 && !idle && !slab.room;
        let listed = slab.listed;
        let wanted = match retained && !slab.pinned {
            true if idle => Listed::Idle,
            true => Listed::Part,
            false => Listed::No,
        };
        let run = |mask: fn(&Slab) -> u128| {
            let joint = self.across(index, mask).map_or(0, |(end, begin)| end + begin);
            longest(mask(self.slab(index))).max(joint)
        };
        let free_run = if searched { run(Slab::free) } else { 0 };
        // In most slabs all free granules are resident. Then both runs are the same.
        let alike = kept == free && self.slab(index + 1).retained() == self.slab(index + 1).free();
        let retained_run = if alike || free_run == 0 { free_run } else { run(Slab::retained) };
        self.set_run(Runs::Retained, index, retained_run);
        self.set_run(Runs::Free, index, free_run);
        self.set(Map::Idle, index, idle);
        self.set(Map::Retained, index, idle && retained);
        self.set(Map::Zeroed, index, idle && retained && !dirty);
        if listed != wanted {
            self.unlink(index);
            self.link(index, wanted);
        }
    }

    /// Hides a wholly free slab from searches.
    pub(crate) fn hide(&mut self, index: usize) {
        self.set(Map::Idle, index, false);
    }

    fn link(&mut self, index: usize, listed: Listed) {
        if listed == Listed::No {
            return;
        }
        let name = index as u32 + 1;
        // What is offered to the kernel goes first.
        let (older, newer) = if self.slab(index).held() == 0 {
            (0, std::mem::replace(&mut self.order(listed).oldest, name))
        } else {
            (std::mem::replace(&mut self.order(listed).newest, name), 0)
        };
        let slab = self.slab_mut(index);
        (slab.older, slab.newer, slab.listed) = (older, newer, listed);
        match ((older as usize).checked_sub(1), (newer as usize).checked_sub(1)) {
            (Some(older), _) => self.slab_mut(older).newer = name,
            (None, Some(newer)) => self.slab_mut(newer).older = name,
            (None, None) => {
                *self.order(listed) = Order { newest: name, oldest: name };
            }
        }
    }

    fn unlink(&mut self, index: usize) {
        let slab = self.slab_mut(index);
        let (older, newer, listed) = (slab.older, slab.newer, slab.listed);
        if listed == Listed::No {
            return;
        }
        (slab.older, slab.newer, slab.listed) = (0, 0, Listed::No);
        match (newer as usize).checked_sub(1) {
            Some(newer) => self.slab_mut(newer).older = older,
            None => self.order(listed).newest = older,
        }
        match (older as usize).checked_sub(1) {
            Some(older) => self.slab_mut(older).newer = newer,
            None => self.order(listed).oldest = newer,
        }
    }

    /// The first slab from `from` on that has a run of `count` granules, fewer than a slab's.
    pub(crate) fn seek_run(&self, table: Runs, count: usize, from: usize) -> Option<usize> {
        let mut at = from;
        while at < self.top {
            let word = self.words.get(Self::run_word(table, at)).copied().unwrap_or(0);
            // Bytes are at most 127, so the high bit of a byte survives exactly if the byte is at least `count`.
            let fits = ((word | ONES << 7) - ONES * count as u64) & ONES << 7;
            let fits = fits >> (at % 8 * 8);
            if fits != 0 {
                return Some(at + fits.trailing_zeros() as usize / 8).filter(|&found| found < self.top);
            }
            at = (at / 8 + 1) * 8;
        }
        None
    }

    fn run_word(table: Runs, index: usize) -> usize {
        index / 64 * WORDS + 3 + table as usize * 8 + index % 64 / 8
    }

    fn set_run(&mut self, table: Runs, index: usize, longest: usize) {
        if let Some(word) = self.words.get_mut(Self::run_word(table, index)) {
            let shift = index % 8 * 8;
            *word = *word & !(0xff << shift) | (longest.min(LONGEST) as u64) << shift;
        }
    }

    /// Whether the bit of a slab is set.
    pub(crate) fn bit(&self, map: Map, index: usize) -> bool {
        self.word(map, index / 64) >> (index % 64) & 1 == 1
    }

    /// The first slab in `from .. to` whose bit is `wanted`, or `to`.
    pub(crate) fn seek(&self, map: Map, wanted: bool, from: usize, to: usize) -> usize {
        let mut at = from;
        while at < to {
            let word = self.word(map, at / 64);
            let word = if wanted { word } else { !word } >> (at % 64);
            if word != 0 {
                return to.min(at + word.trailing_zeros() as usize);
            }
            at = (at / 64 + 1) * 64;
        }
        to
    }

    /// The highest slab whose bit is set.
    pub(crate) fn last(&self, map: Map) -> Option<usize> {
        let found =
            (0..self.top.div_ceil(64)).rev().map(|at| (at, self.word(map, at))).find(|&(_, word)| word != 0);
        found.map(|(at, word)| at * 64 + word.ilog2() as usize)
    }

    /// The first slab that is wholly free and not resident.
    pub(crate) fn first_reserved(&self) -> usize {
        self.seek(Map::Reserved, true, 0, self.top)
    }

    /// Whether all of a free run is resident.
    pub(crate) fn is_retained(&self, of: Run) -> bool {
        pieces(of).all(|(slab, first, len)| self.slab(slab).retained() & run(first, len) == run(first, len))
    }

    /// Whether a slab is wholly free and not resident.
    pub(crate) fn is_reserved(&self, index: usize) -> bool {
        index >= self.top || (self.bit(Map::Idle, index) && !self.bit(Map::Retained, index))
    }

    fn word(&self, map: Map, at: usize) -> u64 {
        let word = |map: Map| self.words.get(at * WORDS + map as usize).copied().unwrap_or(0);
        match map {
            Map::Dirty => word(Map::Retained) & !word(Map::Zeroed),
            Map::Reserved => word(Map::Idle) & !word(Map::Retained),
            _ => word(map),
        }
    }

    fn set(&mut self, map: Map, index: usize, on: bool) {
        if let Some(word) = self.words.get_mut(index / 64 * WORDS + map as usize) {
            let bit = 1 << (index % 64);
            if on { *word |= bit } else { *word &= !bit }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    type Table = SlabTable<Vec<Slab>, Vec<u64>>;

    fn slabs() -> Table {
        let slabs = (0..130).map(|_| Slab::RESERVED).collect();
        let mut slabs = SlabTable::new(slabs, vec![0; 3 * WORDS], 130);
        slabs.usable = 130;
        slabs.rise(130);
        slabs
    }

    fn take(slabs: &mut Table, run: (usize, usize)) {
        slabs.change(run, Slab::take);
    }

    fn give(slabs: &mut Table, run: (usize, usize)) {
        slabs.change(run, |slab, mask| {
            slab.give(mask);
            Counts::default()
        });
    }

    #[test]
    fn the_lowest_slab_with_a_long_enough_run_is_found() {
        let mut slabs = slabs();
        take(&mut slabs, (9 * 128, 100));
        take(&mut slabs, (77 * 128, 60));
        assert_eq!(slabs.seek_run(Runs::Free, 28, 0), Some(9));
        assert_eq!(slabs.seek_run(Runs::Free, 29, 0), Some(77));
        assert_eq!(slabs.seek_run(Runs::Free, 28, 10), Some(77));
        assert_eq!(slabs.seek_run(Runs::Free, 69, 0), None);
        assert_eq!(slabs.seek_run(Runs::Retained, 1, 0), None);
        give(&mut slabs, (9 * 128 + 10, 20));
        assert_eq!(
            (slabs.seek_run(Runs::Retained, 20, 0), slabs.seek_run(Runs::Retained, 21, 0)),
            (Some(9), None)
        );
    }

    #[test]
    fn a_run_across_a_border_belongs_to_the_first_slab() {
        let mut slabs = slabs();
        take(&mut slabs, (128, 100));
        take(&mut slabs, (256 + 50, 78));
        assert_eq!((slabs.seek_run(Runs::Free, 78, 0), slabs.seek_run(Runs::Free, 79, 0)), (Some(1), None));
        take(&mut slabs, (256, 1));
        assert_eq!(slabs.seek_run(Runs::Free, 50, 0), None, "the slab before is told");
        assert_eq!(slabs.seek_run(Runs::Free, 49, 0), Some(2));
    }
}
