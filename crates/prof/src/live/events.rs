//! Which code touches, and what that takes: one fault in so many with its call chain, and in short bursts entry and end
//! of every fault.
//!
//! In: whom to watch. Out: [`Hit`]s: how often each pair of addresses occurred in a process; and readings. Major faults
//! are left out of these, because they wait.
//!
//! It does not name addresses (`names`), or unwind without frame pointers: it takes the kernel's chain as is.

use std::collections::HashMap;
use std::time::Duration;

use faultless_os::ring::{Raw, Sample, records};
use faultless_trace::pairer::Pairer;

use crate::request::Sources;
use crate::session::{CpuBuffer, Role, Roles, Session, Watched};
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
    bytes: Vec<u8>,
}

impl Events {
    /// Opens them, with a chain for one fault in `period`. What is refused is missing.
    pub(super) fn open(watched: Watched<'_>, period: u64) -> Self {
        let session =
            Session::open(watched, Sources { pairs: true, ..Sources::COUNTERS }, &Shape::live(period));
        if !matches!(watched, Watched::Held(_)) {
            session.begin();
            session.record_faults(false);
        }
        let roles = Roles::of(&session.buffers);
        Self { session, roles, ..Self::default() }
    }

    /// `None`: single faults can be seen; else why not.
    pub(super) fn refusal(&self) -> Option<String> {
        (!self.session.records_faults()).then(|| self.session.denied())
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
        for CpuBuffer { ring, .. } in &self.session.buffers {
            self.bytes.clear();
            ring.drain_into(&mut self.bytes);
            let mut pairer = Pairer::default();
            for raw in records(&self.bytes) {
                let sample = match raw {
                    Raw::Sample(sample) => sample,
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
