//! How fast memory that nobody needs goes back.
//!
//! In: once per tick of the keeper, the bytes that were kept all through the time since the last one. Out: the bytes to give back now.
//! Nothing goes back before it was unneeded for [`QUIET_TICKS`] ticks, so a program that swings faster than that never faults
//! its memory in again; then it goes in equal parts, lest one tick take long. What is below the floor stays.
//!
//! What it does not do: read a clock, or give anything back.

use crate::policy::tuning::{PARTS, QUIET_TICKS};

/// What was unneeded lately.
#[derive(Debug)]
pub(crate) struct Decay {
    lows: [usize; QUIET_TICKS],
    next: usize,
    /// In how many parts the rest goes back.
    parts: usize,
}

impl Decay {
    /// Nothing is known to be unneeded.
    pub(crate) const fn new() -> Self {
        Self { lows: [0; QUIET_TICKS], next: 0, parts: PARTS }
    }

    /// What to give back now, after a time in which never less than `low` bytes were kept.
    pub(crate) fn tick(&mut self, low: usize, floor: usize) -> usize {
        if let Some(place) = self.lows.get_mut(self.next) {
            *place = low;
        }
        self.next = (self.next + 1) % QUIET_TICKS;
        let unneeded = self.lows.iter().fold(usize::MAX, |least, &low| least.min(low));
        let excess = unneeded.saturating_sub(floor);
        let part = excess.div_ceil(self.parts.max(1));
        self.parts = if excess == 0 { PARTS } else { self.parts.saturating_sub(1) };
        part
    }

    /// So much went back: it was kept then, but is no longer.
    pub(crate) fn gone(&mut self, bytes: usize) {
        self.lows.iter_mut().for_each(|low| *low = low.saturating_sub(bytes));
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
            decay.gone(part);
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
        assert!(count as u64 + 2 <= crate::policy::tuning::TICKS, "the first window and the last may be cut");
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
