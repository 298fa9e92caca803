//! Which code touches, and what that takes: one fault in so many with its call chain, and in short bursts entry and end
//! of every fault.
//!
//! In: whom to watch. Out: [`Hit`]s: how often each pair of addresses occurred in a process; and readings. Major faults
//! are left out of these, because they wait. As root the kernel times every fault, and there are no bursts.
//!
//! It does not name addresses (`names`), or unwind without frame pointers: it takes the kernel's chain as is.

use std::collections::HashMap;
use std::time::Duration;

use faultless_os::ring::{Raw, Sample, records};
use faultless_trace::observation::FaultSums;
use faultless_trace::pairer::Pairer;
use rustc_hash::FxHashMap;

use crate::request::Sources;
use crate::session::{Attempt, BPF, CpuBuffer, Role, Roles, Session, Watched};
use crate::shape::Shape;
use crate::tuning as t;

/// Where a fault came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Hit {
    /// Process.
    pub(super) pid: u32,
    /// The instruction that touched; 0 if the kernel touched for the program.
    pub(super) ip: u64,
    /// The address that called that function or system call; 0 if unknown.
    pub(super) caller: u64,
}

/// How often something was hit.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Hits {
    /// Samples.
    pub(super) count: u64,
    /// The data address of the last one.
    pub(super) addr: u64,
}

/// Open events, and what was read from them.
#[derive(Debug, Default)]
pub(super) struct Events {
    session: Session,
    roles: Roles,
    hits: HashMap<Hit, Hits>,
    /// Records that the rings lost since the last [`Events::take`].
    lost: u64,
    /// Faults of each process at the last [`Events::timed`].
    sums: FxHashMap<u32, FaultSums>,
    bytes: Vec<u8>,
}

impl Events {
    /// Opens them, with a chain for one fault in `period`. What is refused is missing. `times_all`: the kernel may time
    /// every fault.
    pub(super) fn open(watched: Watched<'_>, period: u64, times_all: bool) -> Self {
        let is_command = matches!(watched, Watched::Held(_));
        let allow = Sources { pairs: true, bpf: times_all && !is_command, ..Sources::COUNTERS };
        let shape = Shape::live(period);
        let plain = || Session::open(watched, allow, &shape);
        let session = Session::timed_or(Attempt::make(allow), None, allow, &shape, plain);
        if !is_command {
            session.begin();
            session.record_faults(false);
        }
        let roles = Roles::of(&session.buffers);
        Self { session, roles, ..Self::default() }
    }

    /// `None`: single faults can be seen; else why not.
    pub(super) fn refusal(&self) -> Option<String> {
        (!self.session.records_faults() && !self.times_all()).then(|| self.session.denied())
    }

    /// Why the kernel does not time every fault, if that was tried.
    pub(super) fn no_bpf(&self) -> Option<&str> {
        self.session.notes.iter().find(|note| note.source == BPF && !note.used).map(|note| note.note.as_str())
    }

    /// Whether the kernel times every fault.
    pub(super) fn times_all(&self) -> bool {
        self.session.timed.is_some()
    }

    /// If so, of each process how many minor faults were timed since the last call, and how long these took, ns.
    pub(super) fn timed(&mut self) -> Option<Vec<(u32, u64, f64)>> {
        let timed = self.session.timed.as_ref()?;
        let before = std::mem::replace(&mut self.sums, timed.by_process());
        let since = self.sums.iter().filter_map(|(&pid, sums)| {
            let (now, then) = (sums.all_minor(), before.get(&pid).copied().unwrap_or_default().all_minor());
            let faults = now.timed.checked_sub(then.timed).filter(|faults| *faults > 0)?;
            let ns = now.ns.saturating_sub(then.ns) as f64 - faults as f64 * timed.offset_ns();
            Some((pid, faults, ns.max(0.0)))
        });
        Some(since.collect())
    }

    /// Faults of all that is watched, in kernel mode too if that may be seen.
    pub(super) fn faults(&self) -> Option<u64> {
        self.session.faults()
    }

    /// Sleeps for some milliseconds while faults are recorded. Returns process and duration in ns of each
    /// minor fault.
    pub(super) fn burst(&mut self) -> Vec<(u32, f64)> {
        self.session.record_faults(true);
        std::thread::sleep(Duration::from_nanos(t::LIVE_BURST_NS));
        self.session.record_faults(false);
        self.drain()
    }

    /// Takes what the rings hold; returns the readings among it.
    pub(super) fn drain(&mut self) -> Vec<(u32, f64)> {
        let mut readings = Vec::new();
        let mut ended = Vec::new();
        for CpuBuffer { ring, .. } in &self.session.buffers {
            self.bytes.clear();
            ring.drain_into(&mut self.bytes);
            let mut pairer = Pairer::default();
            for raw in records(&self.bytes) {
                let sample = match raw {
                    Raw::Sample(sample) => sample,
                    Raw::Exit(task) if task.pid == task.tid => {
                        ended.push(task.pid);
                        continue;
                    }
                    Raw::Lost { lost, .. } => {
                        self.lost += lost;
                        continue;
                    }
                    _ => continue,
                };
                match self.roles.get(sample.id) {
                    Some(Role::SampleEntry(_)) => {
                        let hits = self.hits.entry(hit(&sample)).or_default();
                        *hits = Hits { count: hits.count + 1, addr: sample.addr };
                    }
                    Some(Role::Entry) => {
                        pairer.enter(sample.tid, sample.time_ns, sample.addr, ());
                    }
                    Some(Role::Minor) => {
                        let pair = pairer.end(sample.tid, sample.addr);
                        let ns = pair.map(|(entry, _)| sample.time_ns.saturating_sub(entry.time_ns) as f64);
                        readings.extend(ns.map(|ns| (sample.pid, ns)));
                    }
                    _ => {}
                }
            }
        }
        if let Some(timed) = &mut self.session.timed {
            ended.into_iter().for_each(|pid| timed.ended(pid));
        }
        readings
    }

    /// The hits since the last call, and how many records were lost.
    pub(super) fn take(&mut self) -> (HashMap<Hit, Hits>, u64) {
        self.drain();
        (std::mem::take(&mut self.hits), std::mem::take(&mut self.lost))
    }
}

fn hit(sample: &Sample<'_>) -> Hit {
    let mut chain = sample.chain();
    let ip = if sample.kernel { 0 } else { chain.next().unwrap_or(sample.ip) };
    Hit { pid: sample.pid, ip, caller: chain.next().unwrap_or(0) }
}
