//! What happens under the pool's lock: places are found, states change, accounts are kept.
//!
//! In: counts of granules. Out: first granules, or what has to be done first ([`Lack`]). Nothing here asks the backend for
//! anything: no system call is made under the lock, see `pool`.

use crate::backend::Backend;
use crate::density::Density;
use crate::keeper::Watch;
use crate::lists::Lists;
use crate::place::Wish;
use crate::policy::tuning::{
    GRANULE_BYTES, HEAD_SLABS, MOVES, SLAB_GRANULES, SLACK_BYTES, STEP_SLABS, UNATTENDED,
};
use crate::state::{Counts, Slab};
use crate::stats::Stats;
use crate::touch::Touch;

/// Everything behind the lock.
pub(crate) struct Core<B: Backend> {
    pub(crate) lists: Lists<B::Slabs, B::Words>,
    /// How many free granules the policy lets these tables keep.
    keep: usize,
    base: usize,
    pub(crate) moves: u16,
    /// Whether a thread is making more of the range usable, or less.
    pub(crate) is_reaching: bool,
    /// Whether children do not get the warm slabs.
    pub(crate) withheld: bool,
    /// Whether somebody gives back regularly what is too much.
    pub(crate) attended: bool,
    /// When to call the keeper.
    pub(crate) watch: Watch,
    /// Whether the stock is being filled up to its high mark.
    pub(crate) stocking: bool,
    in_use: usize,
    pub(crate) retained: usize,
    /// How many of the retained granules are zeroed.
    pub(crate) zeroed: usize,
    /// The least that was retained since [`Core::window`] was last asked.
    pub(crate) low: usize,
    peak_in_use: usize,
    /// How many granules somebody expects to need.
    pub(crate) expected: usize,
    pub(crate) touch: Touch,
    pub(crate) density: Density,
    /// Whether free memory with the highest addresses goes back first, and not what has been free for longest.
    pub(crate) highest_first: bool,
    pub(crate) stats: Stats,
}

/// Why a request could not be served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lack {
    /// Slabs `from ..` have to be made usable, best up to `to`, at least up to `least`.
    Usable { from: usize, to: usize, least: usize },
    /// Another thread is doing so, which has to end first.
    Turn,
    /// There is no place that is resident.
    Warm,
    /// There is no place.
    Place,
}

/// What a request asks for besides a length.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wanted {
    /// Alignment in granules, a power of two.
    pub(crate) align: usize,
    pub(crate) zeroed: bool,
    /// Slabs that may get huge pages before anything is known of them.
    pub(crate) trusted: usize,
}

/// A run that was taken.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Taken {
    pub(crate) start: usize,
    /// How many of its granules are dirty.
    pub(crate) dirty: usize,
    /// How many were not resident.
    pub(crate) fresh: usize,
    /// Whether something has to be found out about slabs that are handed out for the first time.
    pub(crate) is_unknown: bool,
    /// Whether more is kept now than may be.
    pub(crate) excess: bool,
    /// Whether there is work for the keeper now.
    pub(crate) calls: bool,
}

/// A run of granules: the first, and how many.
pub(crate) type Run = (usize, usize);

impl<B: Backend> Core<B> {
    pub(crate) fn new(lists: Lists<B::Slabs, B::Words>, keep_bytes: usize, base_bytes: usize) -> Self {
        Self {
            lists,
            keep: keep_bytes / GRANULE_BYTES,
            base: base_bytes / GRANULE_BYTES,
            moves: 0,
            is_reaching: false,
            in_use: 0,
            retained: 0,
            zeroed: 0,
            low: 0,
            withheld: false,
            attended: false,
            watch: Watch::NEVER,
            stocking: false,
            peak_in_use: 0,
            expected: 0,
            touch: Touch::new(),
            density: Density::new(),
            highest_first: false,
            stats: Stats::default(),
        }
    }

    /// A place for a new block. `warm`: only if all of it is resident.
    pub(crate) fn alloc(&mut self, count: usize, wanted: Wanted, warm: bool) -> Result<Taken, Lack> {
        let zeroed = wanted.zeroed && self.zeroed >= count;
        let wish = Wish { count, align: wanted.align, zeroed, base: self.base };
        let start = self.lists.place(wish).ok_or(Lack::Place)?;
        if warm && !self.lists.is_warm(start, count) {
            return Err(Lack::Warm);
        }
        self.reach(start + count)?;
        Ok(self.take(start, count, wanted))
    }

    /// A place with room behind it for a block that grows often.
    pub(crate) fn alloc_roomy(&mut self, count: usize, wanted: Wanted) -> Result<Taken, Lack> {
        let (start, next) = self.lists.place_with_room(count).ok_or(Lack::Place)?;
        self.reach(start + count)?;
        let taken = self.take(start, count, wanted);
        self.lists.leave_room((start + count).div_ceil(SLAB_GRANULES), next);
        self.keep_room(start, count);
        Ok(taken)
    }

    /// Takes what follows a block of `old` granules that is to have `count`; `None` if that is not free. `often`: it grows
    /// often, so it should keep the rest of a slab that it enters.
    pub(crate) fn grow(
        &mut self,
        start: usize,
        old: usize,
        count: usize,
        often: bool,
        wanted: Wanted,
    ) -> Result<Option<Taken>, Lack> {
        let (tail, more) = (start + old, count - old);
        if !self.lists.is_free(tail, more) {
            return Ok(None);
        }
        self.reach(start + count)?;
        let last = (start + count - 1) / SLAB_GRANULES;
        let untouched = self.lists.slab(last).free() == u128::MAX;
        let taken = self.take(tail, more, wanted);
        if untouched && often {
            self.keep_room(start, count);
        }
        self.stats.grown_in_place += 1;
        Ok(Some(taken))
    }

    /// Forgets a block without ever using its place again: it stays taken, but is no longer anybody's.
    pub(crate) fn lose(&mut self, count: usize) {
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

    /// Records that the pages of a run came from elsewhere, or that it is a mapping of its own; whether it takes huge pages.
    pub(crate) fn arrived(&mut self, start: usize, count: usize, huge: bool) {
        self.moves = self.moves.saturating_add(1);
        let moves = self.moves;
        for (slab, ..) in Lists::<B::Slabs, B::Words>::pieces(start, count) {
            let slab = self.lists.slab_mut(slab);
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

    pub(crate) fn reach(&mut self, end: usize) -> Result<(), Lack> {
        let least = end.div_ceil(SLAB_GRANULES);
        let from = self.lists.usable;
        if least <= from {
            return Ok(());
        }
        if self.is_reaching {
            return Err(Lack::Turn);
        }
        self.is_reaching = true;
        Err(Lack::Usable { from, to: least.next_multiple_of(STEP_SLABS).min(self.lists.count), least })
    }

    /// The range has been made usable up to slab `to`, or the kernel refused.
    pub(crate) fn reached(&mut self, to: Option<usize>) {
        self.is_reaching = false;
        self.lists.usable = self.lists.usable.max(to.unwrap_or(0));
    }

    /// Makes the slabs behind the last one that is in use or resident unusable: where they begin, if there are any. They have to be given
    /// up before [`Core::reached`].
    pub(crate) fn retreat(&mut self) -> Option<usize> {
        if self.is_reaching || !self.lists.retreat() {
            return None;
        }
        self.is_reaching = true;
        Some(self.lists.usable)
    }

    /// Takes a free, usable run.
    fn take(&mut self, start: usize, count: usize, wanted: Wanted) -> Taken {
        self.lists.rise(start / SLAB_GRANULES);
        let is_unknown = wanted.trusted > 0 && self.enter(start, count, wanted);
        let counts = self.lists.change((start, count), Slab::take);
        self.in_use += count;
        self.keep_less(counts);
        self.peak_in_use = self.peak_in_use.max(self.in_use);
        match () {
            () if counts.reserved > 0 => self.stats.fresh += 1,
            () if counts.zeroed > 0 => self.stats.zeroed_hits += 1,
            () => self.stats.dirty_hits += 1,
        }
        self.stats.reused_bytes += (counts.resident() * GRANULE_BYTES) as u64;
        let excess = counts.reserved > 0 && self.keeps_too_much();
        let calls = self.calls(0);
        Taken { start, dirty: counts.dirty, fresh: counts.reserved, is_unknown, excess, calls }
    }

    /// Takes note of the slabs of a run that are handed out for the first time, or have been given back since, and of which nothing is
    /// known; whether there are any.
    fn enter(&mut self, start: usize, count: usize, wanted: Wanted) -> bool {
        let (mut at, end) = (start / SLAB_GRANULES, (start + count).div_ceil(SLAB_GRANULES));
        let mut is_any = false;
        while at < end {
            let is_new = |slab: &Slab| slab.free() == u128::MAX && slab.retained() == 0;
            let is_unknown = |slab: &Slab| is_new(slab) && !slab.huge && !slab.sparse;
            let new = (at..end).take_while(|&at| is_unknown(self.lists.slab(at))).count();
            if new > 0 {
                self.density.enter(at, at + new, wanted.zeroed, wanted.trusted);
                is_any = true;
            }
            at += new.max(1);
        }
        is_any
    }

    fn keep_room(&mut self, start: usize, count: usize) {
        let last = (start + count - 1) / SLAB_GRANULES;
        self.lists.slab_mut(last).room = true;
        self.lists.file(last);
    }

    /// Takes back what is no longer used. `moved`: its pages went elsewhere.
    pub(crate) fn give(&mut self, (start, count): Run, moved: bool) {
        self.lists.change((start, count), |slab, mask| {
            if moved {
                slab.vacate(mask)
            } else {
                slab.give(mask)
            }
            Counts::default()
        });
        self.lists.end_room((start + count).div_ceil(SLAB_GRANULES));
        self.in_use -= count;
        if !moved {
            self.keep_more(Counts { dirty: count, ..Counts::default() });
        }
    }

    /// That many free granules are resident no more.
    pub(crate) fn keep_less(&mut self, counts: Counts) {
        self.retained -= counts.resident();
        self.zeroed -= counts.zeroed;
        self.low = self.low.min(self.retained);
    }

    /// That many more free granules are resident.
    pub(crate) fn keep_more(&mut self, counts: Counts) {
        self.retained += counts.resident();
        self.zeroed += counts.zeroed;
        self.stats.peak_retained_bytes = self.stats.peak_retained_bytes.max(self.retained * GRANULE_BYTES);
    }

    /// From now on the policy lets these tables keep so many free granules.
    pub(crate) fn keep_at_most(&mut self, granules: usize) {
        self.keep = granules;
    }

    /// How many free granules may stay resident now.
    pub(crate) fn bound(&self) -> usize {
        let peak = self.peak_in_use.max(self.expected);
        let below_peak = (peak + SLACK_BYTES / GRANULE_BYTES + peak / 4).saturating_sub(self.in_use);
        self.keep.min(below_peak)
    }

    /// How many more free granules the policy lets these tables keep, whatever the peak explains.
    pub(crate) fn room(&self) -> usize {
        self.keep.saturating_sub(self.retained)
    }

    /// Whether there is work for the keeper now, which is said once. `front`: how many granules the front holds.
    pub(crate) fn calls(&mut self, front: usize) -> bool {
        let (kept, zeroed) = ((self.retained + front) * GRANULE_BYTES, self.zeroed * GRANULE_BYTES);
        let calls = self.watch.calls(kept, zeroed);
        if calls {
            self.watch = Watch::NEVER;
        }
        calls
    }

    /// Whether more is kept than may be.
    pub(crate) fn keeps_too_much(&self) -> bool {
        self.retained > self.bound() * if self.attended { UNATTENDED } else { 1 }
    }
}
