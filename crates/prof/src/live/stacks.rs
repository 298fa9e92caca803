//! Which code touches: one in so many faults, with its call chain.
//!
//! In: the whole machine, or the threads of a program. Out: [`Hit`]s: how often each pair of addresses
//! occurred in a process.
//!
//! It does not name addresses (`names`), or unwind without frame pointers: it takes the kernel's
//! chain as is.

use std::collections::HashMap;

use faultless_os::Result;
use faultless_os::perf::{Event, Output, Software, Spec, Target};
use faultless_os::ring::{Raw, Ring, Sample, records};

use crate::tuning as t;

/// Whose events.
#[derive(Clone, Debug)]
pub(super) enum Scope {
    /// All tasks of the machine; needs rights.
    System,
    /// These threads and what they start.
    Threads(Vec<u32>),
    /// A child that is held before its exec, and its descendants.
    Held(u32),
}

impl Scope {
    /// Tasks to open an event for on each processor.
    pub(super) fn tasks(&self) -> Vec<i32> {
        match self {
            Self::System => vec![-1],
            Self::Threads(threads) => threads.iter().map(|&tid| tid as i32).collect(),
            Self::Held(pid) => vec![*pid as i32],
        }
    }

    /// The common part of their events.
    pub(super) fn spec(&self, output: Output, user_only: bool) -> Spec {
        Spec {
            event: Software::PageFaults,
            output,
            user_only,
            inherit: !matches!(self, Self::System),
            on_exec: matches!(self, Self::Held(_)),
            disabled: false,
        }
    }
}

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

/// Open events, one ring per processor.
#[derive(Debug)]
pub(super) struct Stacks {
    rings: Vec<Ring>,
    _events: Vec<Event>,
    hits: HashMap<Hit, Hits>,
    /// Records that the rings lost since the last [`Stacks::take`].
    lost: u64,
    bytes: Vec<u8>,
}

impl Stacks {
    /// Opens the events, with kernel mode if that is allowed.
    pub(super) fn open(scope: &Scope, cpus: &[u32]) -> Result<Self> {
        let period = match scope {
            Scope::System => t::LIVE_PERIOD_SYSTEM,
            Scope::Threads(_) | Scope::Held(_) => t::LIVE_PERIOD_PROGRAM,
        };
        let open = |user_only| Self::with(scope, cpus, &scope.spec(Output::UserStacks { period }, user_only));
        open(false).or_else(|error| if error.is_denied() { open(true) } else { Err(error) })
    }

    fn with(scope: &Scope, cpus: &[u32], spec: &Spec) -> Result<Self> {
        let (mut rings, mut events) = (Vec::new(), Vec::new());
        let mut tasks = scope.tasks();
        tasks.truncate((t::LIVE_EVENTS_MAX / cpus.len().max(1)).max(1));
        for &cpu in cpus {
            let mut owner: Option<Event> = None;
            for (index, &pid) in tasks.iter().enumerate() {
                let event = match Event::open(spec, Target { pid, cpu: Some(cpu) }, None) {
                    Ok(event) => event,
                    // A thread that has just ended.
                    Err(error) if error.is_gone() && (owner.is_some() || index + 1 < tasks.len()) => continue,
                    Err(error) => return Err(error),
                };
                match &owner {
                    Some(owner) => {
                        event.redirect_to(owner)?;
                        events.push(event);
                    }
                    None => {
                        rings.push(ring(&event, t::LIVE_STACK_RING_PAGES)?);
                        owner = Some(event);
                    }
                }
            }
            events.extend(owner);
        }
        Ok(Self { rings, _events: events, hits: HashMap::new(), lost: 0, bytes: Vec::new() })
    }

    /// Takes what the rings hold.
    pub(super) fn drain(&mut self) {
        for ring in &mut self.rings {
            self.bytes.clear();
            ring.drain_into(&mut self.bytes);
            for raw in records(&self.bytes) {
                match raw {
                    Raw::Sample(sample) => {
                        let hits = self.hits.entry(hit(&sample)).or_default();
                        *hits = Hits { count: hits.count + 1, addr: sample.addr };
                    }
                    Raw::Lost { lost, .. } => self.lost += lost,
                    _ => {}
                }
            }
        }
    }

    /// The hits since the last call, and how many samples were lost.
    pub(super) fn take(&mut self) -> (HashMap<Hit, Hits>, u64) {
        self.drain();
        (std::mem::take(&mut self.hits), std::mem::take(&mut self.lost))
    }
}

/// The largest ring up to `pages` that the kernel allows.
pub(super) fn ring(event: &Event, mut pages: usize) -> Result<Ring> {
    loop {
        match Ring::map(event, pages) {
            Err(_) if pages > t::RING_PAGES_MIN => pages /= 2,
            result => return result,
        }
    }
}

fn hit(sample: &Sample<'_>) -> Hit {
    let mut chain = sample.chain();
    let ip = if sample.kernel { 0 } else { chain.next().unwrap_or(sample.ip) };
    Hit { pid: sample.pid, ip, caller: chain.next().unwrap_or(0) }
}
