//! The states of granules. Only this file changes one.
//!
//! ```text
//! Reserved | Zeroed | Dirty -take-> InUse -give-> Dirty        InUse -vacate-> Reserved (its pages moved away)
//! free -claim-> InUse by a claim -purged-> Reserved
//!                                -populated, scrubbed-> Zeroed
//!                                -put back, offered-> as before
//! ```
//! The taker of a Reserved or Zeroed granule may rely on zeroes; the taker of a Dirty one may not.
//!
//! In: masks with one bit per granule of a slab. Out: the previous states, as counts. The all-zero [`Slab`] is a slab
//! of Reserved granules in no list, so fresh kernel memory is a valid table.

/// The state of one granule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Address space only. The pool believes it is not resident; it reads as zero.
    Reserved,
    /// Free, resident, all zero.
    Zeroed,
    /// Part of a block.
    InUse,
    /// Free, resident, content unknown.
    Dirty,
}

/// The number of granules in each free state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) dirty: usize,
    pub(crate) zeroed: usize,
    pub(crate) reserved: usize,
    /// Dirty or zeroed ones that are offered to the kernel.
    pub(crate) offered: usize,
}

/// The purge order that a slab is in.
#[repr(u8)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Listed {
    No,
    /// Wholly free, and some of it resident.
    Idle,
    /// Partly used, and some of the rest resident.
    Part,
}

impl Counts {
    pub(crate) fn add(&mut self, other: Self) {
        self.dirty += other.dirty;
        self.zeroed += other.zeroed;
        self.reserved += other.reserved;
        self.offered += other.offered;
    }

    pub(crate) fn resident(self) -> usize {
        self.dirty + self.zeroed
    }
}

/// The description of one slab. It lies out of line: the pool never writes the slab's own pages.
#[repr(C)]
#[derive(Debug)]
pub struct Slab {
    used: u128,
    /// Content unknown. The bits stay set while the granules are in use: `alloc_zeroed` zeroes only these.
    dirty: u128,
    zeroed: u128,
    /// Free and resident, and the kernel may take the pages when memory is short.
    offered: u128,
    /// Neighbours in the purge order as index + 1; 0 is none.
    pub(crate) newer: u32,
    pub(crate) older: u32,
    /// The number of the move that brought its pages here; 0 if they never moved. Equal neighbours are one mapping.
    pub(crate) origin: u16,
    pub(crate) listed: Listed,
    /// Whether its free granules are reserved for the growing block in it.
    pub(crate) room: bool,
    /// Whether the kernel refused to purge it since it was last used.
    pub(crate) pinned: bool,
    /// Whether a first touch in it takes a huge page.
    pub(crate) huge: bool,
    /// Whether little of it had been touched when a block in it ended.
    pub(crate) sparse: bool,
    /// What the program has changed about its pages: bits of [`Alteration`](crate::Alteration).
    pub(crate) altered: u8,
}

impl Slab {
    /// A slab of Reserved granules.
    pub const RESERVED: Self = Self {
        used: 0,
        dirty: 0,
        zeroed: 0,
        offered: 0,
        newer: 0,
        older: 0,
        origin: 0,
        listed: Listed::No,
        room: false,
        pinned: false,
        huge: false,
        sparse: false,
        altered: 0,
    };

    /// The state of granule `at`.
    pub fn state(&self, at: usize) -> State {
        let has = |mask: u128| mask & crate::class::run(at, 1) != 0;
        if has(self.used) {
            State::InUse
        } else if has(self.dirty) {
            State::Dirty
        } else if has(self.zeroed) {
            State::Zeroed
        } else {
            State::Reserved
        }
    }

    /// Whether all of it is free.
    pub(crate) fn is_idle(&self) -> bool {
        self.used == 0
    }

    pub(crate) fn free(&self) -> u128 {
        !self.used
    }

    /// Whether nothing outside `mask` is in use.
    pub(crate) fn is_idle_beside(&self, mask: u128) -> bool {
        self.used & !mask == 0
    }

    pub(crate) fn free_dirty(&self) -> u128 {
        !self.used & self.dirty
    }

    pub(crate) fn free_zeroed(&self) -> u128 {
        !self.used & self.zeroed
    }

    /// Free and possibly resident.
    pub(crate) fn retained(&self) -> u128 {
        !self.used & (self.dirty | self.zeroed)
    }

    /// Free, resident, and not offered to the kernel.
    pub(crate) fn held(&self) -> u128 {
        self.retained() & !self.offered
    }

    /// Granules of `mask` whose content was unknown when they were taken.
    pub(crate) fn taken_dirty(&self, mask: u128) -> u128 {
        self.used & self.dirty & mask
    }

    /// Takes free granules: all of `mask` become InUse.
    pub(crate) fn take(&mut self, mask: u128) -> Counts {
        debug_assert_eq!(self.used & mask, 0, "only free granules are taken");
        let counts = self.counts(mask);
        self.used |= mask;
        self.zeroed &= !mask;
        self.offered &= !mask;
        self.pinned = false;
        counts
    }

    /// Gives granules back after use: InUse becomes Dirty.
    pub(crate) fn give(&mut self, mask: u128) {
        debug_assert_eq!(self.used & mask, mask, "only granules in use are given back");
        self.used &= !mask;
        self.dirty |= mask;
    }

    /// Gives granules back whose pages moved away: InUse becomes Reserved.
    pub(crate) fn vacate(&mut self, mask: u128) {
        debug_assert_eq!(self.used & mask, mask, "only granules in use are vacated");
        self.used &= !mask;
        self.dirty &= !mask;
    }

    /// The states of granules, taken as free.
    fn counts(&self, mask: u128) -> Counts {
        let count = |mask: u128| mask.count_ones() as usize;
        Counts {
            dirty: count(self.dirty & mask),
            zeroed: count(self.zeroed & mask),
            reserved: count(mask & !self.dirty & !self.zeroed),
            offered: count(self.offered & mask),
        }
    }

    /// Sets free granules aside for a claim and returns their states. Nobody can take them meanwhile.
    pub(crate) fn claim(&mut self, mask: u128) -> Counts {
        debug_assert_eq!(self.used & mask, 0, "only free granules are claimed");
        self.used |= mask;
        self.counts(mask)
    }

    /// Ends a claim that changed nothing: the granules are free as before.
    pub(crate) fn put_back(&mut self, mask: u128) {
        self.used &= !mask;
    }

    /// Ends a claim that left the granules resident and zero: they become Zeroed.
    pub(crate) fn now_zero(&mut self, mask: u128) {
        self.used &= !mask;
        self.dirty &= !mask;
        self.offered &= !mask;
        self.zeroed |= mask;
    }

    /// Ends a claim that offered the granules to the kernel: they are free as before.
    pub(crate) fn now_offered(&mut self, mask: u128) {
        self.used &= !mask;
        self.offered |= mask;
    }

    /// Ends a claim that purged: the granules become Reserved.
    pub(crate) fn purged(&mut self, mask: u128) {
        self.used &= !mask;
        self.dirty &= !mask;
        self.zeroed &= !mask;
        self.offered &= !mask;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::class::run;

    #[test]
    fn a_given_back_granule_is_dirty_until_purged() {
        let mut slab = Slab::RESERVED;
        assert_eq!(slab.take(run(0, 4)), Counts { reserved: 4, ..Counts::default() });
        slab.give(run(0, 4));
        assert_eq!(slab.state(3), State::Dirty);
        assert_eq!(slab.take(run(2, 4)), Counts { dirty: 2, reserved: 2, ..Counts::default() });
        assert_eq!(slab.taken_dirty(run(2, 4)), run(2, 2));
        assert_eq!(slab.claim(run(0, 2)), Counts { dirty: 2, ..Counts::default() });
        slab.purged(run(0, 2));
        assert_eq!((slab.state(0), slab.state(2)), (State::Reserved, State::InUse));
    }

    #[test]
    fn a_claimed_granule_is_nobodys_until_it_is_put_back_as_it_was() {
        let mut slab = Slab::RESERVED;
        slab.claim(run(0, 1));
        slab.now_zero(run(0, 1));
        slab.take(run(1, 1));
        slab.give(run(1, 1));
        assert_eq!(slab.claim(run(0, 3)), Counts { dirty: 1, zeroed: 1, reserved: 1, offered: 0 });
        assert_eq!((slab.free() & run(0, 3), slab.retained()), (0, 0));
        slab.put_back(run(0, 3));
        assert_eq!(
            [slab.state(0), slab.state(1), slab.state(2)],
            [State::Zeroed, State::Dirty, State::Reserved]
        );
    }

    #[test]
    fn a_scrubbed_granule_is_zeroed_until_taken() {
        let mut slab = Slab::RESERVED;
        slab.take(run(0, 2));
        slab.give(run(0, 2));
        slab.claim(run(1, 1));
        slab.now_zero(run(1, 1));
        assert_eq!((slab.free_dirty(), slab.free_zeroed()), (run(0, 1), run(1, 1)));
        assert_eq!(slab.take(run(0, 2)), Counts { dirty: 1, zeroed: 1, ..Counts::default() });
        assert_eq!(slab.taken_dirty(run(0, 2)), run(0, 1), "only the first must be zeroed");
    }

    #[test]
    fn a_vacated_granule_reads_as_zero_again() {
        let mut slab = Slab::RESERVED;
        slab.take(run(5, 1));
        slab.give(run(5, 1));
        slab.take(run(5, 1));
        slab.vacate(run(5, 1));
        assert_eq!(slab.state(5), State::Reserved);
    }
}
