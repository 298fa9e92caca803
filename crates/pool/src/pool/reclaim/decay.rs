//! Decay: how fast idle memory goes back.
//!
//! In: once per tick, the bytes that were idle since the last tick. Out: the bytes to purge now. Memory must be idle
//! for [`QUIET_TICKS`] ticks before any of it goes. So a program whose use swings faster than that never faults its
//! memory in again. Then the memory goes in equal parts, so that no tick takes long. The bytes below the floor stay.
//!
//! Out of scope: the clock, and purging.

use crate::tuning::{PARTS, QUIET_TICKS};

/// The idle bytes of the last ticks.
#[derive(Debug)]
pub(crate) struct Decay {
    idle: [usize; QUIET_TICKS],
    next: usize,
    /// The parts in which the rest goes.
    parts: usize,
}

impl Decay {
    /// Before the first tick.
    pub(crate) const fn new() -> Self {
        Self { idle: [0; QUIET_TICKS], next: 0, parts: PARTS }
    }

    /// The bytes to purge now, after a tick in which `idle` bytes were needed by nobody.
    pub(crate) fn tick(&mut self, idle: usize, floor: usize) -> usize {
        if let Some(slot) = self.idle.get_mut(self.next) {
            *slot = idle;
        }
        self.next = (self.next + 1) % QUIET_TICKS;
        let idle = self.idle.iter().fold(usize::MAX, |least, &idle| least.min(idle));
        let excess = idle.saturating_sub(floor);
        let part = excess.div_ceil(self.parts.max(1));
        self.parts = if excess == 0 { PARTS } else { self.parts.saturating_sub(1) };
        part
    }

    /// Records that so many idle bytes were purged.
    pub(crate) fn purged(&mut self, bytes: usize) {
        self.idle.iter_mut().for_each(|idle| *idle = idle.saturating_sub(bytes));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Ticks until nothing is left but the floor, of a program that keeps `kept` bytes and needs none of them.
    fn ticks(kept: usize, floor: usize) -> (usize, usize) {
        let (mut decay, mut left, mut most) = (Decay::new(), kept, 0);
        for tick in 1..100 {
            let part = decay.tick(left, floor);
            most = most.max(part);
            left -= part;
            decay.purged(part);
            if left <= floor {
                return (tick, most);
            }
        }
        panic!("it never went");
    }

    #[test]
    fn the_unneeded_goes_in_equal_parts_within_the_decay_time() {
        let (count, most) = ticks(500 << 20, 32 << 20);
        assert_eq!(count, QUIET_TICKS + PARTS - 1);
        assert!(count as u64 + 2 <= crate::tuning::TICKS, "the first window and the last may be cut");
        assert!(most <= (500 << 20) / PARTS + 1);
        assert_eq!(ticks(3, 2).1, 1);
    }

    #[test]
    fn a_program_that_swings_keeps_everything() {
        let mut decay = Decay::new();
        for tick in 0..1000 {
            let low = if tick % QUIET_TICKS == 0 { 0 } else { 1 << 30 };
            assert_eq!(decay.tick(low, 0), 0);
        }
    }

    #[test]
    fn what_is_needed_again_stops_the_decay() {
        let mut decay = Decay::new();
        (0..QUIET_TICKS - 1).for_each(|_| assert_eq!(decay.tick(100, 0), 0));
        assert_eq!(decay.tick(100, 0), 100_usize.div_ceil(PARTS));
        assert_eq!(decay.tick(10, 10), 0);
        (0..QUIET_TICKS - 1).for_each(|_| assert_eq!(decay.tick(90, 10), 0));
        assert_eq!(decay.tick(90, 10), 80_usize.div_ceil(PARTS), "in as many parts as the first time");
    }
}
