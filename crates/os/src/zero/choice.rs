//! Which engine zeroes cold memory fastest on this processor, measured once.
//!
//! In: nothing. Out: an engine. The trial uses its own 256 KiB, flushed from the cache before every trial,
//! like the memory that a scrubber finds. The first call takes about half a millisecond, half of it for page
//! faults. Call it only if work ahead of need is wanted.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use super::{CACHED, Engine, engines};
use crate::{counters, map};

/// Bytes zeroed per trial: larger than most first-level caches, and 5 us of work at 50 GB/s.
pub const TRIAL_BYTES: usize = 256 << 10;
/// Trials of each engine; the best one counts, since the others may have been interrupted.
const TRIALS: usize = 3;
/// Most engines of one architecture.
const MOST_ENGINES: usize = 4;
/// Bytes per line to flush from the cache: the least of today's processors.
const LINE: usize = 64;
/// An engine that fills the program's cache with zeroes has to be this much faster than one that does not, in
/// percent. Re-reading a working set of 512 KiB afterwards took 2.0 times as long on a Zen 5 guest.
const EVICTS_PERCENT: u64 = 150;

/// The engine for zeroing memory that nothing is waiting for.
pub fn ahead() -> &'static dyn Engine {
    /// Index + 1 into `engines`; 0 before the measurement.
    static CHOSEN: AtomicUsize = AtomicUsize::new(0);
    if CHOSEN.load(Relaxed) == 0 {
        CHOSEN.store(fastest() + 1, Relaxed);
    }
    engines().get(CHOSEN.load(Relaxed).wrapping_sub(1)).copied().unwrap_or(CACHED)
}

/// Two concurrent threads both measure. Either answer is right.
fn fastest() -> usize {
    let Ok(memory) = map::anonymous(TRIAL_BYTES) else { return 0 };
    let start = memory as *mut u8;
    // Faulted in before anything is timed.
    // SAFETY: mapped above, not shared.
    unsafe { start.write_bytes(1, TRIAL_BYTES) };
    let mut best = [u64::MAX; MOST_ENGINES];
    for _ in 0..TRIALS {
        for (engine, best) in engines().iter().zip(&mut best).filter(|(engine, _)| engine.is_present()) {
            put_out_of_cache(start, TRIAL_BYTES);
            let begin = counters::tick();
            // SAFETY: mapped above, not shared, and the engine is present.
            unsafe { engine.zero(start, TRIAL_BYTES) };
            *best = (*best).min(counters::tick().wrapping_sub(begin));
        }
    }
    // SAFETY: nothing uses it any more.
    let _ = unsafe { map::release(memory, TRIAL_BYTES) };
    let evicts = engines().iter().map(|engine| engine.evicts());
    choose(best.into_iter().zip(evicts))
}

/// The index of the least time. Times of engines that evict count as [`EVICTS_PERCENT`] of their value.
fn choose(timed: impl Iterator<Item = (u64, bool)>) -> usize {
    let weighed = |(ticks, evicts): (u64, bool)| {
        if evicts { ticks.saturating_mul(EVICTS_PERCENT) / 100 } else { ticks }
    };
    let weighed = timed.enumerate().map(|(index, timed)| (weighed(timed), index));
    weighed.min().map_or(0, |(_, index)| index)
}

/// Writes the lines of a range back and invalidates them.
fn put_out_of_cache(start: *mut u8, len: usize) {
    for at in (0..len).step_by(LINE) {
        let line = start.wrapping_add(at);
        #[cfg(target_arch = "x86_64")]
        // SAFETY: CLFLUSH is part of SSE2 and changes no content; the line is mapped.
        unsafe {
            std::arch::x86_64::_mm_clflush(line)
        };
        #[cfg(target_arch = "aarch64")]
        // SAFETY: Linux allows DC CIVAC in user mode (SCTLR_EL1.UCI); it changes no content, and the line is mapped.
        unsafe {
            std::arch::asm!("dc civac, {}", in(reg) line, options(nostack, preserves_flags))
        };
    }
    std::sync::atomic::fence(std::sync::atomic::Ordering::SeqCst);
}

#[cfg(all(test, not(miri)))]
mod tests {
    use super::*;

    #[test]
    fn an_engine_that_evicts_must_be_much_faster() {
        let choose = |timed: &[(u64, bool)]| super::choose(timed.iter().copied());
        assert_eq!(choose(&[(100, true), (140, false), (u64::MAX, false)]), 1);
        assert_eq!(choose(&[(100, true), (160, false), (u64::MAX, false)]), 0);
        assert_eq!(choose(&[(100, true), (120, false), (110, false), (90, true)]), 2);
        assert_eq!(choose(&[(100, true)]), 0, "the only one");
    }

    #[test]
    fn the_choice_is_present_and_stays() {
        let first = ahead();
        assert!(first.is_present());
        assert_eq!(ahead().name(), first.name());
    }
}
