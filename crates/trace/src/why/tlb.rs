//! A thread's change of the address space interrupts the others.

use std::collections::HashMap;

use super::given::{MADV_DONTNEED, MADV_DONTNEED_LOCKED, MADV_FREE, MADV_PAGEOUT, MADV_REMOVE};
use super::{Claim, Proposed, Rule, Scene};
use crate::measurement::Count;
use crate::observation::{Call, Record, TLB_INTERRUPTS, What};

/// What a flush takes the thread that is interrupted, ns. Measured on a guest: 2.3 us; less without a hypervisor.
const FLUSH_NS: f64 = 2_000.0;
/// Victims that are named.
const VICTIMS: usize = 3;
/// A call that ended so long before its request, ns, is not its sender's: clocks of two processors differ.
const SLACK_NS: u64 = 2_000;

pub(super) const RULE: Rule = Rule {
    id: "tlb_victim",
    title: "Threads are interrupted to flush their TLB",
    about: "munmap, madvise(MADV_DONTNEED), mprotect and mremap take translations away. Each processor that runs \
            another thread of the process is interrupted to forget them: 1 to 4 us, and misses afterwards. That thread \
            faults nothing, and is slower.",
    by_hand: "The line TLB of /proc/interrupts; as root `perf trace -e tlb:tlb_flush -p PID`.",
    cures: &[
        [
            "give memory back less often and in larger pieces, or keep it: the cure of the sender's own mechanism",
            "memory",
            "-",
        ],
        ["processes instead of threads for what changes mappings often", "-", "-"],
    ],
    find: |scene| {
        let seen = scene
            .recording
            .observation
            .records
            .iter()
            .any(|record| matches!(record.what, What::Flush { .. }));
        let found = if seen { Flushes::seen(scene) } else { Flushes::judged(scene) };
        found.claims(scene, seen)
    },
};

/// Requests to flush.
#[derive(Default)]
struct Flushes {
    /// By process and interrupted thread.
    received: HashMap<(u32, u32), f64>,
    /// By process, call and stack of the sender.
    sent: HashMap<(u32, Call, Option<u32>), f64>,
}

impl Flushes {
    /// As the kernel tells them.
    fn seen(scene: &Scene<'_>) -> Self {
        let mut found = Self::default();
        let mut calls: HashMap<u32, &Record> = HashMap::new();
        for record in &scene.recording.observation.records {
            match record.what {
                What::Call { .. } => _ = calls.insert(record.tid, record),
                What::Flush { sent: false, weight } => {
                    *found.received.entry((record.pid, record.tid)).or_default() += weight as f64;
                }
                What::Flush { sent: true, weight } => {
                    let Some(sender) = calls.get(&record.tid) else { continue };
                    let What::Call { call, ns, stack, .. } = sender.what else { continue };
                    let end_ns =
                        sender.time_ns.saturating_add(ns.unwrap_or(u64::MAX)).saturating_add(SLACK_NS);
                    if record.time_ns <= end_ns {
                        *found.sent.entry((record.pid, call, stack)).or_default() += weight as f64;
                    }
                }
                _ => {}
            }
        }
        let all: f64 = found.received.values().sum();
        // What the rings lost, by the machine's count: nearly all of a busy machine's are the program's.
        let machine = if scene.run.lost { scene.machine(TLB_INTERRUPTS) as f64 / all.max(1.0) } else { 0.0 };
        let whole = whole(scene).max(machine);
        found.received.values_mut().for_each(|count| *count *= whole);
        found
    }

    /// At most those that the machine's processors had, one for each call and each other thread that ran. Each takes a page
    /// that was touched since the last one.
    fn judged(scene: &Scene<'_>) -> Self {
        let mut found = Self::default();
        let mut running: HashMap<u32, HashMap<u32, bool>> = HashMap::new();
        let mut has_switches = false;
        for record in &scene.recording.observation.records {
            let threads = running.entry(record.pid).or_default();
            match record.what {
                What::Switch { out, .. } => {
                    has_switches = true;
                    threads.insert(record.tid, !out);
                }
                What::Exit => _ = threads.remove(&record.tid),
                What::Call { call, ref args, stack, .. } if takes_away(call, args) => {
                    let others = threads.iter().filter(|(tid, runs)| **tid != record.tid && **runs);
                    for (tid, _) in others {
                        *found.received.entry((record.pid, *tid)).or_default() += 1.0;
                        *found.sent.entry((record.pid, call, stack)).or_default() += 1.0;
                    }
                }
                _ => {}
            }
        }
        let touched: f64 = scene.profile.faults.iter().map(|fault| fault.faults).sum();
        let most = touched.min(scene.machine(TLB_INTERRUPTS) as f64);
        let all: f64 = found.received.values().sum();
        let part = if has_switches { (most / all.max(1.0)).min(1.0) } else { 0.0 };
        found.received.values_mut().chain(found.sent.values_mut()).for_each(|count| *count *= part);
        found
    }

    /// One for each process.
    fn claims(&self, scene: &Scene<'_>, seen: bool) -> Vec<Claim<'static>> {
        let names = scene.threads();
        let mut processes: HashMap<u32, Vec<(u32, f64)>> = HashMap::new();
        for (&(pid, tid), &count) in &self.received {
            processes.entry(pid).or_default().push((tid, count));
        }
        let claim = |(pid, mut victims): (u32, Vec<(u32, f64)>)| {
            victims.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
            let all: f64 = victims.iter().map(|(_, count)| count).sum();
            let senders = self.sent.iter().filter(|((of, ..), _)| *of == pid);
            let (&(_, call, stack), _) = senders.max_by(|a, b| a.1.total_cmp(b.1).then(a.0.2.cmp(&b.0.2)))?;
            let victim = |(tid, count): &(u32, f64)| {
                let name = names.get(tid).copied().unwrap_or("thread");
                format!("{name} ({tid}): {}", Count(count.round() as u64).of("flush"))
            };
            let most = if seen { "" } else { "; as often at most, by the machine's count" };
            Some(Claim {
                what: format!(
                    "{} interrupts other threads to flush their TLB, some {:.0} us each{most}",
                    call.name(),
                    FLUSH_NS / 1e3
                ),
                calls: (all.round() as u64, 0.0),
                wait_ns: all * FLUSH_NS,
                victims: victims.iter().take(VICTIMS).map(victim).collect(),
                caller: Some(scene.called(call, stack)),
                cures: vec![Proposed::new(
                    "give memory back less often and in larger pieces, or keep it: each piece interrupts every running thread",
                    [0.0, 0.0],
                )],
                ..Claim::default()
            })
        };
        processes.into_iter().filter_map(claim).collect()
    }
}

/// Records of flushes, and those that the rings lost, beside the former.
fn whole(scene: &Scene<'_>) -> f64 {
    let observation = &scene.recording.observation;
    let kept =
        observation.records.iter().filter(|record| matches!(record.what, What::Flush { .. })).count() as f64;
    let losses = observation.event_losses.iter().flatten().filter(|loss| loss.event == "TLB flush");
    let lost: f64 = losses.map(|loss| loss.lost as f64).sum();
    (kept + lost) / kept.max(1.0)
}

/// Whether a call takes translations away. New rights of memory that had none do not.
fn takes_away(call: Call, args: &[u64; 4]) -> bool {
    const ADVICE: [u64; 5] = [MADV_DONTNEED, MADV_FREE, MADV_REMOVE, MADV_PAGEOUT, MADV_DONTNEED_LOCKED];
    const PROT_WRITE: u64 = 2;
    match call {
        Call::Munmap | Call::Mremap => true,
        Call::Madvise => ADVICE.contains(&args[2]),
        Call::Mprotect => args[2] & PROT_WRITE == 0,
        _ => false,
    }
}
