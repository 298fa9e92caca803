//! Sampled counters -> pages faulted in and given back per interval.
//!
//! What is given back is not counted by anyone; it follows from what is: pages in - change of resident memory.
//! Four things would spoil that and are dealt with:
//!
//! - resident memory is read with an error of some dozens of pages per CPU: only a new maximum of "given back so far"
//!   counts as a release, so an error is counted once and not at every reading;
//! - memory that appears without a counted fault (kernel mode, populate) and beyond that error counts as faulted in;
//! - when a process forks, runs another program or ends, the sum over the tree jumps without a fault or a release:
//!   that interval's change says nothing and is left out. No pool could have kept a page beyond its process;
//! - a fault takes a page, a huge page, or none (file-backed): [`Memory::bytes_per_fault`] says how much, by time.

use crate::observation::Level;
use crate::tuning::{RSS_NOISE_PAGES, TEARDOWN_NS};

/// What happened to a process, and when: CLOCK_MONOTONIC in ns.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Lifecycle {
    /// A process came from another.
    Fork(u64),
    /// It replaced its program.
    Exec(u64),
    /// It ended; its memory went some time before this was recorded.
    End(u64),
}

/// A program's memory over time, and what is needed to read it.
pub struct Memory<'a> {
    /// Readings of the counters; taken in the order of time whatever their order here.
    pub levels: &'a [Level],
    /// Base page size.
    pub page_bytes: u64,
    /// Processors, for the error of a reading.
    pub cpus: u32,
    /// Starts and ends of processes other than the first one's.
    pub lifecycle: Vec<Lifecycle>,
    /// Anonymous bytes that a fault at this time made resident, on average.
    pub bytes_per_fault: &'a dyn Fn(u64) -> f64,
    /// Pages faulted in after the last reading: can not be avoided, as far as one can see.
    pub unseen_pages: f64,
    /// Share of all faults, 0 to 1, that take anonymous memory: only those can be avoided.
    pub anonymous_share: f64,
}

/// Pages in and out between each two readings; the first from nothing.
pub fn flows(memory: &Memory<'_>) -> Vec<super::Flow> {
    let mut levels = memory.levels.to_vec();
    levels.sort_by_key(|l| l.time_ns);
    let disturbed = disturbed(&levels, &memory.lifecycle);
    let page_bytes = memory.page_bytes.max(1);
    let noise = i128::from(noise_pages(memory.cpus));
    let (mut before, mut part) = (Level::default(), 0.0);
    // Pages in so far, corrected for jumps, less those resident, must equal pages given back so far.
    let (mut taken, mut released) = (0_i128, 0_i128);
    let mut flows = Vec::with_capacity(levels.len());
    for (level, disturbed) in levels.iter().zip(disturbed) {
        let faults = level.faults.saturating_sub(before.faults);
        let bytes = faults as f64 * (memory.bytes_per_fault)(level.time_ns).max(0.0);
        let pages = bytes / page_bytes as f64 + part;
        part = if pages.is_finite() { pages.fract() } else { 0.0 };
        let mut flow = super::Flow { faults: pages as u64, releases: 0 };
        taken += i128::from(flow.faults);
        let resident = i128::from(level.anon_bytes / page_bytes);
        let missing = taken - resident - released;
        if disturbed {
            taken -= missing;
        } else if missing > 0 {
            flow.releases = u64::try_from(missing).unwrap_or(u64::MAX);
            released += missing;
        } else if -missing > noise {
            flow.faults = flow.faults.saturating_add(u64::try_from(-missing).unwrap_or(u64::MAX));
            taken -= missing;
        }
        flows.push(flow);
        before = Level { faults: level.faults.max(before.faults), ..*level };
    }
    flows
}

/// Share of the intervals whose change of memory says nothing because processes came or went.
pub(crate) fn disturbed_share(memory: &Memory<'_>) -> f64 {
    let mut levels = memory.levels.to_vec();
    levels.sort_by_key(|l| l.time_ns);
    let disturbed = disturbed(&levels, &memory.lifecycle);
    disturbed.iter().filter(|d| **d).count() as f64 / disturbed.len().max(1) as f64
}

fn noise_pages(cpus: u32) -> u64 {
    let cpus = u64::from(cpus.max(1));
    (cpus * 32.max(2 * cpus)).min(RSS_NOISE_PAGES)
}

/// For each reading whether a process came or went since the one before. A fork or exec may be seen a reading late; a
/// process's memory goes before its end is recorded: the largest drop in the time a teardown may take is taken for it.
fn disturbed(levels: &[Level], lifecycle: &[Lifecycle]) -> Vec<bool> {
    let mut disturbed = vec![false; levels.len()];
    let mut mark = |index: usize| {
        if let Some(d) = disturbed.get_mut(index) {
            *d = true;
        }
    };
    let after = |time_ns: u64| levels.partition_point(|l| l.time_ns < time_ns);
    for event in lifecycle {
        match *event {
            Lifecycle::Fork(ns) => {
                mark(after(ns));
                mark(after(ns) + 1);
            }
            Lifecycle::Exec(ns) => {
                after(ns).checked_sub(1).into_iter().for_each(&mut mark);
                mark(after(ns));
                mark(after(ns) + 1);
            }
            Lifecycle::End(ns) => {
                mark(after(ns));
                let drop = |i: &usize| levels[i - 1].anon_bytes.saturating_sub(levels[*i].anon_bytes);
                let teardown = after(ns.saturating_sub(TEARDOWN_NS)).max(1)..levels.len().min(after(ns) + 1);
                teardown.max_by_key(drop).into_iter().for_each(&mut mark);
            }
        }
    }
    disturbed
}
