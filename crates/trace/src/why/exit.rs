//! The end of a large process gives all its memory back.

use std::collections::{HashMap, HashSet};

use super::{Claim, Proposed, Rule, Scene};
use crate::measurement::Nanos;
use crate::observation::{Call, What};

/// Least share of the CPU time: every program ends.
const SHARE: f64 = 0.05;
/// The end of a process that is smaller at its peak takes other time, bytes.
const LARGE_BYTES: u64 = 64 << 20;
/// Most that a page takes, ns; what is beyond is other work, or a wait.
const PAGE_NS: u64 = 500;
/// A shorter end is no large process's, ns.
const LONG_NS: u64 = 1_000_000;

pub(super) const RULE: Rule = Rule {
    id: "exit_teardown",
    title: "The end of a large process",
    about: "exit_group(2) unmaps what the process has left: some 0.05 to 0.2 us for each page of 4 KiB, and the process that waits \
            for it goes on only afterwards.",
    by_hand: "As root: `perf record -g -e cpu-clock PROGRAM`, exit_mmap.",
    cures: &[
        ["keep the process, or start fewer ones", "its memory", "-"],
        ["huge pages: one page to free for 512", "memory that is used sparsely grows", "madvise(2)"],
    ],
    find: |scene| {
        let peak_bytes = scene.recording.observation.usage.peak_rss_bytes;
        let most_ns = peak_bytes / scene.recording.observation.host.page_bytes.max(1) * PAGE_NS;
        let ends: Vec<u64> = ends(scene).into_iter().map(|ns| ns.min(most_ns)).collect();
        let ns: u64 = ends.iter().sum();
        if (ns as f64) < SHARE * scene.run.cpu_ns || ends.is_empty() || peak_bytes < LARGE_BYTES {
            return Vec::new();
        }
        vec![Claim {
            what: format!(
                "processes give all their memory back at their end: {} each",
                Nanos(ns as f64 / ends.len() as f64)
            ),
            calls: (ends.len() as u64, ns as f64),
            cures: vec![Proposed::new(
                "keep the process, or use huge pages: they are freed 512 times faster",
                [0.0, 0.8],
            )],
            ..Claim::default()
        }]
    },
};

/// CPU time of each long end of a process that was not only a fork's copy, ns.
fn ends(scene: &Scene<'_>) -> Vec<u64> {
    let mut copies: HashSet<u32> = HashSet::new();
    // Threads that are ending: since when, off the processor since when, and how long.
    let mut open: HashMap<u32, (u64, Option<u64>, u64)> = HashMap::new();
    let mut ends = Vec::new();
    let mut ended = |ns: u64| ends.extend(Some(ns).filter(|ns| *ns >= LONG_NS));
    for record in &scene.recording.observation.records {
        let (tid, now_ns) = (record.tid, record.time_ns);
        match record.what {
            What::Fork { .. } if record.begins_process() => _ = copies.insert(record.pid),
            What::Exec => _ = copies.remove(&record.pid),
            What::Call { call: Call::ExitGroup, .. } if copies.contains(&record.pid) => {}
            What::Call { call: Call::ExitGroup, ns: Some(ns), off_ns, .. } => {
                ended(ns.saturating_sub(off_ns))
            }
            What::Call { call: Call::ExitGroup, .. } => _ = open.insert(tid, (now_ns, None, 0)),
            What::Switch { out, .. } => {
                let Some((_, since, off_ns)) = open.get_mut(&tid) else { continue };
                *off_ns += since.take().map_or(0, |since| now_ns.saturating_sub(since));
                *since = out.then_some(now_ns);
            }
            What::Exit => {
                if let Some((begin_ns, _, off_ns)) = open.remove(&tid) {
                    ended(now_ns.saturating_sub(begin_ns).saturating_sub(off_ns));
                }
            }
            _ => {}
        }
    }
    ends
}
