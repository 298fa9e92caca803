//! The tables: slabs, which of them are wholly free, and how long a run each has.
//!
//! - Bitmaps `Idle` (wholly free, below the top), `Warm` (idle, some of it resident) and `Zeroed` (warm, nothing in
//!   it dirty), to find runs of slabs.
//! - For each partly used slab the longest free and the longest resident free run, a byte each: a search looks at eight
//!   slabs at a time, and finds the lowest place. A run across the border to the next slab counts for the first.
//! - One list of the warm slabs, oldest last: the order of purging.
//!
//! Table indices beyond the range fall on a spare slab instead of panicking.

use std::ops::DerefMut;

use crate::class::{longest, run};
use crate::policy::tuning::SLAB_GRANULES;
use crate::state::{Counts, Slab};

/// Which bitmap.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Map {
    /// Wholly free.
    Idle,
    /// Wholly free, and some of it resident.
    Warm,
    /// Warm, and nothing in it is dirty.
    Zeroed,
    /// Warm, and something in it is dirty; follows from the others.
    Dirty,
}

/// Which table of runs.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Runs {
    /// Free and resident.
    Warm,
    /// Free.
    Free,
}

/// Words per 64 slabs: three bitmaps, and twice 64 bytes.
pub(crate) const WORDS: usize = 3 + 2 * 8;
/// The longest run that is written down: one byte, and its highest bit is for the search.
const LONGEST: usize = 127;
/// A one in every byte.
const ONES: u64 = u64::MAX / 255;

/// Slabs, bitmaps, runs, the order of purging.
pub(crate) struct Lists<S, W> {
    slabs: S,
    words: W,
    spare: Slab,
    /// Of the warm slabs: the one freed last, and the one free for longest, as index + 1.
    newest: u32,
    oldest: u32,
    /// Slabs in the range.
    pub(crate) count: usize,
    /// Slabs whose entries and addresses can be used; beyond, every slab is Reserved.
    pub(crate) usable: usize,
    /// Slabs from here on were never handed out.
    pub(crate) top: usize,
}

impl<S: DerefMut<Target = [Slab]>, W: DerefMut<Target = [u64]>> Lists<S, W> {
    pub(crate) fn new(slabs: S, words: W, count: usize) -> Self {
        Self { slabs, words, spare: Slab::RESERVED, newest: 0, oldest: 0, count, usable: 0, top: 0 }
    }

    pub(crate) fn slab(&self, index: usize) -> &Slab {
        match index < self.usable {
            true => self.slabs.get(index).unwrap_or(&self.spare),
            false => &self.spare,
        }
    }

    pub(crate) fn slab_mut(&mut self, index: usize) -> &mut Slab {
        match index < self.usable {
            true => self.slabs.get_mut(index).unwrap_or(&mut self.spare),
            false => &mut self.spare,
        }
    }

    /// The warm slab that has been free for longest.
    pub(crate) fn oldest_warm(&self) -> Option<usize> {
        (self.oldest as usize).checked_sub(1)
    }

    /// The warm slabs with the highest addresses, a run of at most `most`.
    pub(crate) fn highest_warm(&self, most: usize) -> Option<(usize, usize)> {
        let is_warm = |&at: &usize| self.slab(at).free() == u128::MAX && self.slab(at).retained() != 0;
        let last = (0..self.usable).rev().find(is_warm)?;
        let count = (0..=last).rev().take(most).take_while(is_warm).count();
        Some((last + 1 - count, last + 1))
    }

    /// The warm slab that became free after `index`.
    pub(crate) fn newer(&self, index: usize) -> Option<usize> {
        (self.slab(index).newer as usize).checked_sub(1)
    }

    /// From now on the slabs below `top` may be looked for by their bits.
    pub(crate) fn rise(&mut self, top: usize) {
        while self.top < top {
            self.top += 1;
            self.file(self.top - 1);
        }
    }

    /// Forgets the usable slabs behind the last one that is in use, resident or room; whether there are any.
    pub(crate) fn retreat(&mut self) -> bool {
        let had = self.usable;
        while let Some(last) = self.usable.checked_sub(1).filter(|&last| self.is_hole(last)) {
            *self.slab_mut(last) = Slab::RESERVED;
            self.usable = last;
        }
        self.usable < had
    }

    /// Whether all of a usable slab is free and not resident, be it room or not.
    fn is_hole(&self, index: usize) -> bool {
        let slab = self.slab(index);
        slab.free() == u128::MAX && slab.retained() == 0
    }

    /// Takes the first usable slabs that are free and not resident, for good; the first, and how many.
    pub(crate) fn take_hole(&mut self) -> Option<(usize, usize)> {
        let begin = (0..self.usable).find(|&at| self.is_hole(at))?;
        let count = (begin..self.usable).take_while(|&at| self.is_hole(at)).count();
        self.change((begin * SLAB_GRANULES, count * SLAB_GRANULES), Slab::take);
        Some((begin, count))
    }

    /// Changes the granules of a run, slab by slab, and puts all that was touched where it belongs; what they were.
    pub(crate) fn change(
        &mut self,
        (start, count): (usize, usize),
        mut each: impl FnMut(&mut Slab, u128) -> Counts,
    ) -> Counts {
        let mut counts = Counts::default();
        for (slab, first, len) in Self::pieces(start, count) {
            counts.add(each(self.slab_mut(slab), run(first, len)));
            self.top = self.top.max(slab + 1);
        }
        // The slab before may have a run that goes on into the first, unless something in use lies between.
        let (first, inside) = (start / SLAB_GRANULES, run(0, start % SLAB_GRANULES));
        let reached = self.slab(first).free() & inside == inside;
        let first = if reached { first.saturating_sub(1) } else { first };
        (first..(start + count).div_ceil(SLAB_GRANULES)).for_each(|slab| self.file(slab));
        counts
    }

    /// The run that begins in a slab and ends in the next one, both partly used: its parts in granules, as `mask` sees it.
    pub(crate) fn across(&self, index: usize, mask: impl Fn(&Slab) -> u128) -> Option<(usize, usize)> {
        let (slab, next) = (self.slab(index), self.slab(index + 1));
        let end = mask(slab).leading_ones() as usize;
        let usable = end > 0 && index + 1 < self.top && next.free() != u128::MAX && !next.room && !slab.room;
        let begin = if usable { mask(next).trailing_ones() as usize } else { 0 };
        (begin > 0).then_some((end, begin))
    }

    /// Puts a slab where it belongs after a change: bits, runs, order of purging.
    pub(crate) fn file(&mut self, index: usize) {
        let slab = self.slab_mut(index);
        let (free, kept, dirty) = (slab.free(), slab.retained(), slab.free_dirty() != 0);
        let (idle, warm) = (free == u128::MAX, kept != 0);
        slab.room &= !idle;
        let searched = free != 0 && !idle && !slab.room;
        let (listed, wanted) = (slab.listed, idle && warm && !slab.pinned);
        let run = |mask: fn(&Slab) -> u128| {
            let joint = self.across(index, mask).map_or(0, |(end, begin)| end + begin);
            longest(mask(self.slab(index))).max(joint)
        };
        let free_run = if searched { run(Slab::free) } else { 0 };
        // Mostly all that is free is resident, here and in the next slab.
        let alike = kept == free && self.slab(index + 1).retained() == self.slab(index + 1).free();
        let warm_run = if alike || free_run == 0 { free_run } else { run(Slab::retained) };
        self.set_run(Runs::Warm, index, warm_run);
        self.set_run(Runs::Free, index, free_run);
        self.set(Map::Idle, index, idle);
        self.set(Map::Warm, index, idle && warm);
        self.set(Map::Zeroed, index, idle && warm && !dirty);
        match (listed, wanted) {
            (false, true) => self.link(index),
            (true, false) => self.unlink(index),
            _ => {}
        }
    }

    /// From now on nobody finds a slab that is wholly free and not resident.
    pub(crate) fn hide(&mut self, index: usize) {
        self.set(Map::Idle, index, false);
    }

    fn link(&mut self, index: usize) {
        let name = index as u32 + 1;
        let before = std::mem::replace(&mut self.newest, name);
        let slab = self.slab_mut(index);
        (slab.older, slab.newer, slab.listed) = (before, 0, true);
        match (before as usize).checked_sub(1) {
            Some(before) => self.slab_mut(before).newer = name,
            None => self.oldest = name,
        }
    }

    fn unlink(&mut self, index: usize) {
        let slab = self.slab_mut(index);
        let (older, newer) = (slab.older, slab.newer);
        (slab.older, slab.newer, slab.listed) = (0, 0, false);
        match (newer as usize).checked_sub(1) {
            Some(newer) => self.slab_mut(newer).older = older,
            None => self.newest = older,
        }
        match (older as usize).checked_sub(1) {
            Some(older) => self.slab_mut(older).newer = newer,
            None => self.oldest = newer,
        }
    }

    /// The first slab from `from` on that has a run of `count` granules, fewer than a slab's.
    pub(crate) fn seek_run(&self, table: Runs, count: usize, from: usize) -> Option<usize> {
        let mut at = from;
        while at < self.top {
            let word = self.words.get(Self::run_word(table, at)).copied().unwrap_or(0);
            // Bytes are at most 127, so the high bit of each survives just where the byte is no less than `count`.
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
    pub(crate) fn first_cold(&self) -> usize {
        let cold = |at: usize| self.word(Map::Idle, at) & !self.word(Map::Warm, at);
        let found = (0..self.top.div_ceil(64)).find(|&at| cold(at) != 0);
        found.map_or(self.top, |at| at * 64 + cold(at).trailing_zeros() as usize)
    }

    /// Whether all of a free run is resident.
    pub(crate) fn is_warm(&self, start: usize, count: usize) -> bool {
        Self::pieces(start, count)
            .all(|(slab, first, len)| self.slab(slab).retained() & run(first, len) == run(first, len))
    }

    /// Whether a slab is wholly free and not resident.
    pub(crate) fn is_cold(&self, index: usize) -> bool {
        index >= self.top || (self.bit(Map::Idle, index) && !self.bit(Map::Warm, index))
    }

    fn word(&self, map: Map, at: usize) -> u64 {
        let word = |map: Map| self.words.get(at * WORDS + map as usize).copied().unwrap_or(0);
        if map == Map::Dirty { word(Map::Warm) & !word(Map::Zeroed) } else { word(map) }
    }

    fn set(&mut self, map: Map, index: usize, on: bool) {
        if let Some(word) = self.words.get_mut(index / 64 * WORDS + map as usize) {
            let bit = 1 << (index % 64);
            if on { *word |= bit } else { *word &= !bit }
        }
    }

    /// The slabs that a run of granules lies in, each with the run's part as (slab, first, count).
    pub(crate) fn pieces(start: usize, count: usize) -> impl Iterator<Item = (usize, usize, usize)> {
        let end = start + count;
        let mut at = start;
        std::iter::from_fn(move || {
            if at >= end {
                return None;
            }
            let (slab, first) = (at / SLAB_GRANULES, at % SLAB_GRANULES);
            let len = (SLAB_GRANULES - first).min(end - at);
            at += len;
            Some((slab, first, len))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    type Table = Lists<Vec<Slab>, Vec<u64>>;

    fn lists() -> Table {
        let slabs = (0..130).map(|_| Slab::RESERVED).collect();
        let mut lists = Lists::new(slabs, vec![0; 3 * WORDS], 130);
        lists.usable = 130;
        lists.rise(130);
        lists
    }

    fn take(lists: &mut Table, run: (usize, usize)) {
        lists.change(run, Slab::take);
    }

    fn give(lists: &mut Table, run: (usize, usize)) {
        lists.change(run, |slab, mask| {
            slab.give(mask);
            Counts::default()
        });
    }

    #[test]
    fn the_slab_free_for_longest_is_purged_first() {
        let mut lists = lists();
        for index in [3, 70, 5] {
            take(&mut lists, (index * 128, 1));
            give(&mut lists, (index * 128, 1));
        }
        assert_eq!((lists.oldest_warm(), lists.newer(3), lists.newer(5)), (Some(3), Some(70), None));
        take(&mut lists, (3 * 128, 1));
        assert_eq!(lists.oldest_warm(), Some(70));
        assert_eq!(lists.seek(Map::Warm, true, 0, 130), 5);
        assert_eq!(lists.seek(Map::Warm, true, 6, 130), 70);
        assert_eq!(lists.seek(Map::Warm, true, 71, 130), 130);
        assert_eq!((lists.last(Map::Dirty), lists.first_cold()), (Some(70), 0));
    }

    #[test]
    fn the_lowest_slab_with_a_long_enough_run_is_found() {
        let mut lists = lists();
        take(&mut lists, (9 * 128, 100));
        take(&mut lists, (77 * 128, 60));
        assert_eq!(lists.seek_run(Runs::Free, 28, 0), Some(9));
        assert_eq!(lists.seek_run(Runs::Free, 29, 0), Some(77));
        assert_eq!(lists.seek_run(Runs::Free, 28, 10), Some(77));
        assert_eq!(lists.seek_run(Runs::Free, 69, 0), None);
        assert_eq!(lists.seek_run(Runs::Warm, 1, 0), None);
        give(&mut lists, (9 * 128 + 10, 20));
        assert_eq!((lists.seek_run(Runs::Warm, 20, 0), lists.seek_run(Runs::Warm, 21, 0)), (Some(9), None));
    }

    #[test]
    fn a_run_across_a_border_belongs_to_the_first_slab() {
        let mut lists = lists();
        take(&mut lists, (128, 100));
        take(&mut lists, (256 + 50, 78));
        assert_eq!((lists.seek_run(Runs::Free, 78, 0), lists.seek_run(Runs::Free, 79, 0)), (Some(1), None));
        take(&mut lists, (256, 1));
        assert_eq!(lists.seek_run(Runs::Free, 50, 0), None, "the slab before is told");
        assert_eq!(lists.seek_run(Runs::Free, 49, 0), Some(2));
    }

    #[test]
    fn a_run_is_cut_at_slab_borders() {
        let pieces: Vec<_> = Table::pieces(127, 130).collect();
        assert_eq!(pieces, [(0, 127, 1), (1, 0, 128), (2, 0, 1)]);
    }
}
