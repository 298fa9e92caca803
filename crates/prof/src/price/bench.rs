//! What the measurements share.
//!
//! In: lengths and calls. Out: regions in a known state, times, and fault counts that verify them.

use faultless_os::counters::{self, Who};
use faultless_os::host::Host;
use faultless_os::page;
use faultless_os::touch::{Advice, Region, empty_ticks, time_write};
use faultless_trace::measurement::median;

/// Memory for cache-cold clearing: more than a core's share of the last-level cache.
const COLD_BYTES: usize = 64 << 20;
/// Faults from other causes (the stack, the harness) that a round may have.
const STRAY_FAULTS: u64 = 16;

/// What all cells need.
pub(super) struct Bench {
    tick_ns: f64,
    /// The step of the tick counter: 10 to 40 ns if it counts a slow clock.
    pub(super) step_ns: f64,
    /// Base pages for cache-cold work, and the page where its next round begins.
    pub(super) cold: Option<Region>,
    pub(super) cold_at: usize,
}

impl Bench {
    pub(super) fn new(host: &Host) -> Self {
        let affordable = host.memory.available_bytes.is_none_or(|bytes| bytes / 8 > COLD_BYTES as u64);
        let tick_ns = counters::tick_ns();
        Self {
            tick_ns,
            step_ns: tick_step() as f64 * tick_ns,
            cold: affordable.then(cold_region).and_then(Result::ok),
            cold_at: 0,
        }
    }

    /// Median of single times just taken, in ns, less the cost of reading the counter. That cost is measured
    /// anew each time: another job on the processor can multiply it.
    pub(super) fn p50_ns(&self, ticks: &[f64]) -> f64 {
        (median(ticks).unwrap_or(0.0) - empty_ticks() as f64).max(0.0) * self.tick_ns
    }
}

/// The greatest common divisor of all readings of the counter.
fn tick_step() -> u64 {
    const READINGS: usize = 1000;
    let begin = counters::tick();
    (0..READINGS).fold(0, |step, _| divisor(step, counters::tick().wrapping_sub(begin)))
}

/// The greatest common divisor.
fn divisor(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { divisor(b, a % b) }
}

/// Lives through all rounds. It is kept out of forks, because a page that a child has seen is write-protected
/// and faults again.
fn cold_region() -> Result<Region, String> {
    let mut region = resident(COLD_BYTES)?;
    advise(&mut region, Advice::DontFork)?;
    Ok(region)
}

/// Base pages only, none resident.
pub(super) fn fresh(len: usize) -> Result<Region, String> {
    fresh_aligned(len, page::size())
}

pub(super) fn fresh_aligned(len: usize, align: usize) -> Result<Region, String> {
    Region::base_pages(len, align).map_err(|error| error.to_string())
}

/// Base pages only, all resident and written.
pub(super) fn resident(len: usize) -> Result<Region, String> {
    let mut region = fresh(len)?;
    region.touch_write(page::size());
    Ok(region)
}

pub(super) fn advise(region: &mut Region, advice: Advice) -> Result<(), String> {
    let all = 0..region.len_bytes();
    region.advise(all, advice).map_err(|error| error.to_string())
}

/// Times `count` writes, one per `step`, and fails unless each was a fault.
pub(super) fn timed_writes(
    bench: &Bench,
    region: &mut Region,
    step: usize,
    count: usize,
) -> Result<f64, String> {
    let mut ticks = Vec::with_capacity(count);
    let slots = region.bytes_mut().iter_mut().step_by(step).take(count);
    let before = faults();
    ticks.extend(slots.map(|slot| time_write(slot, 1) as f64));
    expect_faults(before, count)?;
    Ok(bench.p50_ns(&ticks))
}

pub(super) fn expect_faults(before: u64, count: usize) -> Result<(), String> {
    let found = faults() - before;
    if found >= count as u64 { Ok(()) } else { Err(format!("expected {count} faults, counted {found}")) }
}

pub(super) fn expect_no_faults(before: u64) -> Result<(), String> {
    let found = faults().saturating_sub(before);
    if found <= STRAY_FAULTS { Ok(()) } else { Err(format!("expected no faults, counted {found}")) }
}

/// CPU time of `call` per page, in ns.
pub(super) fn timed_call(pages: usize, call: impl FnOnce() -> Result<(), String>) -> Result<f64, String> {
    let begin = counters::process_cpu_ns();
    call()?;
    Ok((counters::process_cpu_ns() - begin) as f64 / pages as f64)
}

pub(super) fn faults() -> u64 {
    counters::rusage(Who::Thread).map(|usage| usage.minor_faults).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_step_is_what_all_readings_share() {
        assert_eq!([30, 50, 20].into_iter().fold(0, divisor), 10);
        assert!(tick_step() > 0);
    }
}
