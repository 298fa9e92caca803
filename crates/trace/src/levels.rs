//! Readings of memory and the lives of processes -> the error of a reading, and the readings that say
//! nothing.
//!
//! `avoid` and `profile::huge` interpret the readings.

use std::collections::HashMap;

use crate::observation::{Level, Observation, What};
use crate::tuning::RSS_NOISE_PAGES;

/// An event in the life of a process, with its time: CLOCK_MONOTONIC in ns.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Lifecycle {
    /// A process came from another.
    Fork(u64),
    /// It replaced its program.
    Exec(u64),
    /// It ended.
    End(u64),
}

/// When processes came, changed and went, the first one's first exec left out.
pub(crate) fn lifecycle(observation: &Observation) -> Vec<Lifecycle> {
    let mut threads: HashMap<u32, u32> = HashMap::new();
    let first = observation.records.iter().min_by_key(|r| r.time_ns).map(|r| r.pid);
    let mut events = Vec::new();
    let mut started = false;
    for record in &observation.records {
        let others = threads.entry(record.pid).or_default();
        match record.what {
            What::Fork { parent } if parent == record.pid => *others = others.saturating_add(1),
            What::Fork { .. } => events.push(Lifecycle::Fork(record.time_ns)),
            What::Exec if started || Some(record.pid) != first => {
                events.push(Lifecycle::Exec(record.time_ns))
            }
            What::Exec => started = true,
            What::Exit if *others > 0 => *others -= 1,
            What::Exit => events.push(Lifecycle::End(record.time_ns)),
            _ => {}
        }
    }
    events
}

/// Largest error of a reading of resident memory, in pages: each processor holds back a batch.
pub(crate) fn noise_pages(cpus: u32) -> u64 {
    let cpus = u64::from(cpus.max(1));
    (cpus * 32.max(2 * cpus)).min(RSS_NOISE_PAGES)
}

/// For each reading whether a process came or went since the one before. A fork or exec may be seen a reading late; a process
/// can't be read from some time before its end is recorded.
pub(crate) fn disturbed(levels: &[Level], lifecycle: &[Lifecycle]) -> Vec<bool> {
    let mut disturbed = vec![false; levels.len()];
    for event in lifecycle {
        let (ns, before, behind) = match *event {
            Lifecycle::Fork(ns) => (ns, 0, 1),
            Lifecycle::Exec(ns) => (ns, 1, 1),
            Lifecycle::End(ns) => (ns, 1, 0),
        };
        let after = levels.partition_point(|level| level.time_ns < ns);
        let range = after.saturating_sub(before)..(after + behind + 1).min(levels.len());
        disturbed[range].fill(true);
    }
    disturbed
}
