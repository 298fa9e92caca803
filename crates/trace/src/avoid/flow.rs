//! Sampled counters -> pages faulted in and given back per interval.
//!
//! Nothing counts the pages given back. They are computed: pages faulted in less the change of resident
//! memory. Four errors are dealt with:
//!
//! - A reading of resident memory is off by some dozens of pages per CPU. Only a new maximum of "given back
//!   so far" counts as a release, so an error counts once, not at every reading.
//! - Memory that appears without a counted fault (kernel mode, populate), beyond that error, counts as
//!   faulted in.
//! - If a process forks, runs another program or ends, the sum over the tree jumps without a fault or a
//!   release, and faults after a process's last reading are missing. The change in that interval says
//!   nothing. Its faults are all growth for the lower bound, and all avoidable for the upper one.
//! - A fault takes a page, a huge page, or none: a file's page, the zero page, or a copy after a fork, which
//!   replaces one. [`Memory::growth`] gives bounds by time, because single faults are recorded only in some
//!   windows. Flows are computed for both bounds; growth of resident memory was faulted in at least.

use crate::levels::{Lifecycle, disturbed, noise_pages};
use crate::observation::Level;

/// A program's memory over time, with everything needed to interpret it.
pub struct Memory<'a> {
    /// Readings of the counters; taken in the order of time whatever their order here.
    pub levels: &'a [Level],
    /// Base page size.
    pub page_bytes: u64,
    /// Processors, for the error of a reading.
    pub cpus: u32,
    /// Starts and ends of processes.
    pub lifecycle: Vec<Lifecycle>,
    /// Resident anonymous memory that a fault at this time adds.
    pub growth: &'a dyn Fn(u64) -> Growth,
    /// All faults of the run, in pages: each counts the average of those that take memory.
    pub all_pages: f64,
    /// The most that all processes held at once; `u64::MAX` if unknown. Kept memory and memory in use together
    /// never need more, so keeping this much is keeping all.
    pub held_bytes: u64,
    /// Bounds of the share of all faults that keeping everything avoids, if counts give them (`plateau`).
    pub plateau: (Option<f64>, Option<f64>),
    /// Upper bound of the share of faults whose page can have been kept, 0 to 1: not files, stacks or copies.
    pub fresh_share: f64,
}

/// Resident anonymous memory that one fault adds, on average.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Growth {
    /// At least, in bytes.
    pub low_bytes: f64,
    /// At most, in bytes.
    pub high_bytes: f64,
    /// Share of the growth that a kept page could have served, 0 to 1: not stacks, and not copies of files.
    pub fresh_share: f64,
}

/// One of the two bounds of [`Growth`].
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
    // Pages in so far, corrected for jumps, less resident pages, must equal pages given back so far.
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

/// The whole part of `value` plus the remainder of the last call; `part` keeps the new remainder.
fn whole(value: f64, part: &mut f64) -> u64 {
    let value = value + *part;
    *part = if value.is_finite() { value.fract() } else { 0.0 };
    value as u64
}
