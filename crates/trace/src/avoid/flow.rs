//! Sampled counters -> pages faulted in and given back per interval.
//!
//! What is given back is not counted by anyone; it follows from what is: pages in - change of resident memory.
//! Four things would spoil that and are dealt with:
//!
//! - resident memory is read with an error of some dozens of pages per CPU: only a new maximum of "given back so far"
//!   counts as a release, so an error is counted once and not at every reading;
//! - memory that appears without a counted fault (kernel mode, populate) and beyond that error counts as faulted in;
//! - when a process forks, runs another program or ends, the sum over the tree jumps without a fault or a release, and what a
//!   process did after its last reading is not in it. That interval's change says nothing: its faults are all growth for the
//!   lower bound, and all avoidable for the upper one;
//! - a fault takes a page, a huge page, or none (a file's, the zero page, a copy after a fork, which only replaces one).
//!   [`Memory::growth`] says how much, by time, with bounds: where single faults were not recorded it is not known. The
//!   flows are made for both bounds; what resident memory grows by has faulted in at least.

use crate::levels::{Lifecycle, disturbed, noise_pages};
use crate::observation::Level;

/// A program's memory over time, and what is needed to read it.
pub struct Memory<'a> {
    /// Readings of the counters; taken in the order of time whatever their order here.
    pub levels: &'a [Level],
    /// Base page size.
    pub page_bytes: u64,
    /// Processors, for the error of a reading.
    pub cpus: u32,
    /// Starts and ends of processes.
    pub lifecycle: Vec<Lifecycle>,
    /// What a fault at this time adds to resident anonymous memory.
    pub growth: &'a dyn Fn(u64) -> Growth,
    /// All faults of the run, each as many pages as one that takes memory takes on average.
    pub all_pages: f64,
    /// The most that was resident at once, bytes, where one process was all there was; else more than any program has. What was kept
    /// and what was in use together never need more: so to keep as much is to keep all.
    pub peak_bytes: u64,
    /// Bounds of what keeping all avoids, as shares of all faults, where counts tell them (`plateau`).
    pub plateau: (Option<f64>, Option<f64>),
    /// Share of those faults that take a page which can have been kept, at most, 0 to 1: not those of files, stacks, copies.
    pub fresh_share: f64,
}

/// What one fault adds to resident anonymous memory, on average.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Growth {
    /// At least, in bytes.
    pub low_bytes: f64,
    /// At most, in bytes.
    pub high_bytes: f64,
    /// Share of the growth that a kept page could have served, 0 to 1: not stacks, and not what is copied from files.
    pub fresh_share: f64,
}

/// Which of the bounds of [`Growth`] holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bound {
    /// As little as can have been faulted in, and so given back.
    Low,
    /// As much.
    High,
}

/// Pages in and out between each two readings; the first from nothing.
pub fn flows(memory: &Memory<'_>, bound: Bound) -> Vec<super::Flow> {
    let mut levels = memory.levels.to_vec();
    levels.sort_by_key(|l| l.time_ns);
    let disturbed = disturbed(&levels, &memory.lifecycle);
    let page_bytes = memory.page_bytes.max(1);
    let noise = i128::from(noise_pages(memory.cpus));
    let (mut before, mut part, mut fresh_part) = (Level::default(), 0.0, 0.0);
    // Pages in so far, corrected for jumps, less those resident, must equal pages given back so far.
    let (mut taken, mut released) = (0_i128, 0_i128);
    let mut flows = Vec::with_capacity(levels.len());
    for (level, disturbed) in levels.iter().zip(disturbed) {
        let growth = (memory.growth)(level.time_ns);
        let bytes = if bound == Bound::Low { growth.low_bytes } else { growth.high_bytes };
        let faults = level.faults.saturating_sub(before.faults);
        let mut pages = whole(faults as f64 * bytes.max(0.0) / page_bytes as f64, &mut part);
        taken += i128::from(pages);
        let resident = i128::from(level.anon_bytes / page_bytes);
        let missing = taken - resident - released;
        let mut releases = 0;
        if disturbed {
            taken -= missing;
            releases = if bound == Bound::High { pages } else { 0 };
        } else if missing > 0 {
            releases = u64::try_from(missing).unwrap_or(u64::MAX);
            released += missing;
        } else if -missing > noise {
            pages = pages.saturating_add(u64::try_from(-missing).unwrap_or(u64::MAX));
            taken -= missing;
        }
        let faults = whole(pages as f64 * growth.fresh_share.clamp(0.0, 1.0), &mut fresh_part);
        flows.push(super::Flow { faults, releases });
        before = Level { faults: level.faults.max(before.faults), ..*level };
    }
    flows
}

/// The whole part of `value` and what was left over from the last time; the rest is left over.
fn whole(value: f64, part: &mut f64) -> u64 {
    let value = value + *part;
    *part = if value.is_finite() { value.fract() } else { 0.0 };
    value as u64
}
