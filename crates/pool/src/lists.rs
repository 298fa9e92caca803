//! The tables: slabs, the lists that slabs are in, and bitmaps of wholly free ones.
//!
//! - Seven bins by the log2 of a partly used slab's longest free run, most recently changed first.
//! - One list of wholly free slabs with resident pages, oldest last: the order of purging.
//! - Bitmaps `Idle` (wholly free, below the top), `Warm` (idle, some of it resident) and `Zeroed` (warm, nothing in
//!   it dirty), to find runs of slabs.
//!
//! A bin is a promise from the past: it is put right when a search finds it broken, or by [`Lists::settle`]. The bitmaps
//! only err on the safe side: a set bit is always true.
//!
//! Table indices beyond the range fall on a spare slab instead of panicking.

use std::ops::DerefMut;

use crate::class::{longest_log2, run};
use crate::policy::tuning::SLAB_GRANULES;
use crate::state::{Counts, Slab};

/// Number of bins.
pub(crate) const BINS: usize = 7;
/// The list of idle slabs with resident pages.
const WARM: usize = BINS;
const STALE: usize = 64;

/// Which bitmap.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Map {
    /// Wholly free.
    Idle,
    /// Wholly free, and some of it resident.
    Warm,
    /// Warm, and nothing in it is dirty.
    Zeroed,
    /// Warm, and something in it is dirty.
    Dirty,
}

/// How many bitmaps are kept, words per 64 slabs; the last one follows from others.
pub(crate) const MAPS: usize = 3;

/// Slabs, lists, bitmaps.
pub(crate) struct Lists<S, W> {
    slabs: S,
    words: W,
    spare: Slab,
    heads: [u32; BINS + 1],
    oldest: u32,
    stale: [u32; STALE],
    stale_len: usize,
    /// Slabs in the range.
    pub(crate) count: usize,
    /// Slabs whose entries and addresses can be used; beyond, every slab is Reserved.
    pub(crate) usable: usize,
    /// Slabs from here on were never handed out.
    pub(crate) top: usize,
}

impl<S: DerefMut<Target = [Slab]>, W: DerefMut<Target = [u64]>> Lists<S, W> {
    pub(crate) fn new(slabs: S, words: W, count: usize) -> Self {
        Self {
            slabs,
            words,
            spare: Slab::RESERVED,
            heads: [0; BINS + 1],
            oldest: 0,
            stale: [0; STALE],
            stale_len: 0,
            count,
            usable: 0,
            top: 0,
        }
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

    /// The first slab of a bin.
    pub(crate) fn first(&self, bin: usize) -> Option<usize> {
        self.heads.get(bin).and_then(|&head| (head as usize).checked_sub(1))
    }

    /// The slab after `index` in its list.
    pub(crate) fn next(&self, index: usize) -> Option<usize> {
        (self.slab(index).next as usize).checked_sub(1)
    }

    /// The wholly free slab with resident pages that has been free for longest.
    pub(crate) fn oldest_warm(&self) -> Option<usize> {
        (self.oldest as usize).checked_sub(1)
    }

    /// The slab before `index` in its list: free for a shorter time.
    pub(crate) fn newer(&self, index: usize) -> Option<usize> {
        (self.slab(index).prev as usize).checked_sub(1)
    }

    /// From now on the slabs below `top` may be looked for by their bits.
    pub(crate) fn rise(&mut self, top: usize) {
        while self.top < top {
            self.top += 1;
            self.file(self.top - 1);
        }
    }

    /// The run that begins in a slab and ends in the next one, both partly used: its parts in granules, as `mask` sees it.
    pub(crate) fn across(&self, index: usize, mask: impl Fn(&Slab) -> u128) -> Option<(usize, usize)> {
        let (slab, next) = (self.slab(index), self.slab(index + 1));
        let end = mask(slab).leading_ones() as usize;
        let usable = end > 0 && index + 1 < self.top && next.free() != u128::MAX && !next.room && !slab.room;
        let begin = if usable { mask(next).trailing_ones() as usize } else { 0 };
        (begin > 0).then_some((end, begin))
    }

    /// Remembers that part of a slab was taken or given.
    pub(crate) fn touched(&mut self, index: usize, first: usize) {
        self.mark_stale(index);
        if let Some(before) = index.checked_sub(1).filter(|_| first == 0)
            && self.slab(before).free().leading_ones() > 0
        {
            self.mark_stale(before);
        }
    }

    /// Takes `mask` of a slab.
    pub(crate) fn take(&mut self, index: usize, mask: u128) -> Counts {
        self.leave_idle(index);
        self.slab_mut(index).take(mask)
    }

    /// Sets free granules of a slab aside for an errand; what they are.
    pub(crate) fn claim(&mut self, index: usize, mask: u128) -> Counts {
        self.leave_idle(index);
        self.mark_stale(index);
        self.slab_mut(index).claim(mask)
    }

    fn leave_idle(&mut self, index: usize) {
        if self.bit(Map::Idle, index) {
            self.unlink(index);
            self.set(Map::Idle, index, false);
            self.set(Map::Warm, index, false);
            self.set(Map::Zeroed, index, false);
            self.mark_stale(index);
        }
    }

    /// Remembers that a slab may be in the wrong list.
    pub(crate) fn mark_stale(&mut self, index: usize) {
        if self.slab(index).stale {
            return;
        }
        if self.stale_len == STALE {
            self.settle();
        }
        if let Some(place) = self.stale.get_mut(self.stale_len) {
            *place = index as u32;
            self.stale_len += 1;
            self.slab_mut(index).stale = true;
        }
    }

    /// Puts every stale slab into the right list, in the order they became so; whether there was one.
    pub(crate) fn settle(&mut self) -> bool {
        let len = std::mem::take(&mut self.stale_len);
        for at in 0..len {
            if let Some(index) = self.stale.get(at).map(|&index| index as usize) {
                self.slab_mut(index).stale = false;
                self.file(index);
            }
        }
        len > 0
    }

    /// Puts a slab into the list it belongs to.
    pub(crate) fn file(&mut self, index: usize) {
        let joint = self.across(index, Slab::free).map_or(0, |(end, begin)| end + begin);
        let slab = self.slab_mut(index);
        let (free, warm) = (slab.free(), slab.retained() != 0);
        let dirty = slab.free_dirty() != 0;
        if free == u128::MAX {
            slab.room = false;
        }
        let wanted = match free {
            u128::MAX if warm && !slab.pinned => Some(WARM),
            u128::MAX | 0 => None,
            _ if slab.room => None,
            _ => longest_log2(free).max(joint.checked_ilog2().map(|log2| (log2 as usize).min(BINS - 1))),
        };
        let listed = (slab.list as usize).checked_sub(1);
        let idle = free == u128::MAX;
        self.set(Map::Idle, index, idle);
        self.set(Map::Warm, index, idle && warm);
        self.set(Map::Zeroed, index, idle && warm && !dirty);
        if listed != wanted {
            self.unlink(index);
            if let Some(list) = wanted {
                self.link(index, list);
            }
        }
    }

    fn link(&mut self, index: usize, list: usize) {
        let Some(head) = self.heads.get_mut(list) else { return };
        let first = std::mem::replace(head, index as u32 + 1);
        let slab = self.slab_mut(index);
        slab.next = first;
        slab.prev = 0;
        slab.list = list as u8 + 1;
        if let Some(behind) = (first as usize).checked_sub(1) {
            self.slab_mut(behind).prev = index as u32 + 1;
        } else if list == WARM {
            self.oldest = index as u32 + 1;
        }
    }

    fn unlink(&mut self, index: usize) {
        let slab = self.slab_mut(index);
        let Some(list) = (slab.list as usize).checked_sub(1) else { return };
        let (next, prev) = (slab.next, slab.prev);
        slab.list = 0;
        slab.next = 0;
        slab.prev = 0;
        match (prev as usize).checked_sub(1) {
            Some(before) => self.slab_mut(before).next = next,
            None => {
                if let Some(head) = self.heads.get_mut(list) {
                    *head = next;
                }
            }
        }
        match (next as usize).checked_sub(1) {
            Some(behind) => self.slab_mut(behind).prev = prev,
            None if list == WARM => self.oldest = prev,
            None => {}
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
        let word = |map: Map| self.words.get(at * MAPS + map as usize).copied().unwrap_or(0);
        if map == Map::Dirty { word(Map::Warm) & !word(Map::Zeroed) } else { word(map) }
    }

    fn set(&mut self, map: Map, index: usize, on: bool) {
        if let Some(word) = self.words.get_mut(index / 64 * MAPS + map as usize) {
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

    fn lists() -> Lists<Vec<Slab>, Vec<u64>> {
        let slabs = (0..130).map(|_| Slab::RESERVED).collect();
        let mut lists = Lists::new(slabs, vec![0; 3 * MAPS], 130);
        (lists.top, lists.usable) = (130, 130);
        lists
    }

    #[test]
    fn the_slab_free_for_longest_is_purged_first() {
        let mut lists = lists();
        for index in [3, 70, 5] {
            lists.take(index, 1);
            lists.slab_mut(index).give(1);
            lists.file(index);
        }
        assert_eq!(lists.oldest_warm(), Some(3));
        lists.take(3, 1);
        assert_eq!(lists.oldest_warm(), Some(70));
        assert_eq!(lists.seek(Map::Warm, true, 0, 130), 5);
        assert_eq!(lists.seek(Map::Warm, true, 6, 130), 70);
        assert_eq!(lists.seek(Map::Warm, true, 71, 130), 130);
    }

    #[test]
    fn a_slab_moves_to_the_bin_of_its_longest_run() {
        let mut lists = lists();
        lists.take(1, run(0, 100));
        lists.file(1);
        assert_eq!(lists.first(4), Some(1), "28 free granules");
        lists.slab_mut(1).give(run(0, 64));
        lists.mark_stale(1);
        assert!(lists.settle());
        assert_eq!((lists.first(4), lists.first(6)), (None, Some(1)));
        lists.take(1, run(0, 64) | run(100, 28));
        lists.file(1);
        assert!((0..BINS).all(|bin| lists.first(bin).is_none()), "a full slab is in no list");
    }

    #[test]
    fn a_run_is_cut_at_slab_borders() {
        let pieces: Vec<_> = Lists::<Vec<Slab>, Vec<u64>>::pieces(127, 130).collect();
        assert_eq!(pieces, [(0, 127, 1), (1, 0, 128), (2, 0, 1)]);
    }
}
