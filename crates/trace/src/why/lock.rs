//! Faults wait for another thread that changes the address space.

use std::collections::HashMap;

use super::{Claim, Proposed, Rule};
use crate::observation::{Call, What};

/// A call that held the lock for writing.
struct Writer {
    begin_ns: u64,
    end_ns: u64,
    tid: u32,
    call: Call,
    stack: Option<u32>,
}

/// Waits for one kind of call.
#[derive(Default)]
struct Waits {
    count: u64,
    ns: f64,
    /// How long because of each stack, ns.
    stacks: HashMap<Option<u32>, u64>,
}

pub(super) const RULE: Rule = Rule {
    id: "mmap_lock_writer",
    title: "A writer of mmap_lock",
    about: "mmap, munmap, mprotect, brk and mremap take the lock of the address space for writing. Faults \
            wait for it meanwhile; since Linux 6.4 only those in the mapping that changes. Usual writers: \
            glibc when an arena grows, a collector that protects pages, threads that start and end.",
    by_hand: "As root: `perf trace -e 'mmap_lock:*' -p PID`.",
    cures: &[["larger steps and kept mappings: the cure of the writer's own mechanism", "as there", "-"]],
    find: |scene| {
        let records = &scene.recording.observation.records;
        // Writers by process, in the order of their begins.
        let mut writers: HashMap<u32, Vec<Writer>> = HashMap::new();
        for record in records {
            if let What::Call { call, ns: Some(ns), stack, .. } = record.what
                && matches!(
                    call,
                    Call::Mmap | Call::Munmap | Call::Mprotect | Call::Brk | Call::Mremap | Call::Clone
                )
            {
                let (begin_ns, tid) = (record.time_ns, record.tid);
                let span = Writer { begin_ns, end_ns: begin_ns.saturating_add(ns), tid, call, stack };
                writers.entry(record.pid).or_default().push(span);
            }
        }
        writers.values_mut().for_each(|spans| spans.sort_unstable_by_key(|span| span.begin_ns));
        let mut waits: HashMap<Call, Waits> = HashMap::new();
        for record in records {
            let What::LockWait { wait_ns, .. } = record.what else { continue };
            let begin_ns = record.time_ns.saturating_sub(wait_ns);
            let Some(spans) = writers.get(&record.pid) else { continue };
            let last = spans.partition_point(|span| span.begin_ns < record.time_ns);
            let overlaps = |span: &&Writer| span.end_ns > begin_ns && span.tid != record.tid;
            let Some(&Writer { call, stack, .. }) = spans[..last].iter().rev().take(64).find(overlaps) else {
                continue;
            };
            let waits = waits.entry(call).or_default();
            waits.count += 1;
            waits.ns += wait_ns as f64;
            *waits.stacks.entry(stack).or_default() += wait_ns;
        }
        let claim = |(call, Waits { count, ns, stacks }): (Call, Waits)| {
            let most = stacks.into_iter().max_by_key(|&(stack, ns)| (ns, stack));
            Claim {
                what: format!("threads wait for mmap_lock, held by {}", call.name()),
                calls: (count, 0.0),
                wait_ns: ns,
                caller: Some(scene.called(call, most.and_then(|(stack, _)| stack))),
                cures: vec![Proposed::new(
                    "change the address space less often: larger steps, kept mappings",
                    [0.0, 0.0],
                )],
                ..Claim::default()
            }
        };
        waits.into_iter().map(claim).collect()
    },
};
