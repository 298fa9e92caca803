//! A session on all tasks of all processors, in which the kernel times every fault itself.
//!
//! In: a [`Timer`] and the watched processes. Out: a [`Session`] without counters, whose rings hold samples of the whole
//! machine. Whose records they are, [`crate::members`] tells.
//!
//! No event belongs to a task, so threads pay nothing at a switch.

use faultless_os::spawn::allow_many_descriptors;
use faultless_trace::observation::FaultSums;

use super::{CpuBuffer, KERNEL, Kernel, PAIRS, Session, Sources, online_cpus};
use crate::calibrate;
use crate::in_kernel::{Timed, Timer};
use crate::machine::Machine;
use crate::members::Task;
use crate::shape::Shape;
use crate::tuning as t;

/// Name of the source of faults that the kernel times itself.
pub(crate) const BPF: &str = "BPF";

/// What became of the attempt to time faults in the kernel.
pub(crate) enum Attempt {
    /// Not made: it was not asked for.
    No,
    /// The timer.
    Loaded(Box<Timer>),
    /// Why there is none.
    Refused(String),
}

impl Attempt {
    /// Tries it if `allow` says so.
    pub(crate) fn make(allow: Sources) -> Self {
        if !allow.bpf || !allow.counters {
            return Self::No;
        }
        Timer::load(&online_cpus(0)).map_or_else(Self::Refused, |timer| Self::Loaded(Box::new(timer)))
    }
}

impl Session {
    /// Opens a timed session on these processes (`None`: on all) if the attempt was made and succeeds; else what `otherwise`
    /// opens, with a note.
    pub(crate) fn timed_or(
        attempt: Attempt,
        pids: Option<&[u32]>,
        allow: Sources,
        shape: &Shape,
        otherwise: impl FnOnce() -> Self,
    ) -> Self {
        let refused = match attempt {
            Attempt::No => return otherwise(),
            Attempt::Loaded(timer) => match Self::open_timed(*timer, pids, allow, shape) {
                Ok(session) => return session,
                Err(why) => why,
            },
            Attempt::Refused(why) => why,
        };
        let mut session = otherwise();
        session.note(BPF, false, &refused);
        session
    }

    fn open_timed(timer: Timer, pids: Option<&[u32]>, allow: Sources, shape: &Shape) -> Result<Self, String> {
        allow_many_descriptors();
        let cost = calibrate::timing_cost(&timer)?;
        let cpus = online_cpus(0);
        let shape = if allow.pairs { *shape } else { Shape { period: 0, early_period: 0, ..*shape } };
        // Every fault of the machine may ask for the lock of an address space.
        let shape = Shape { locks: None, ..shape };
        let mut session = Self { machine: Machine::now(shape.stack_bytes > 0), ..Self::default() };
        let mut pages = shape.ring_pages;
        session.buffers = loop {
            let open = |&cpu| CpuBuffer::open_timed(cpu, pages, &shape, &timer);
            match cpus.iter().map(open).collect::<Result<Vec<_>, _>>() {
                Ok(buffers) => break buffers,
                Err(_) if pages > t::RING_PAGES_MIN => pages /= 2,
                Err(why) => return Err(why),
            }
        };
        session.timed = Some(Timed::new(timer, cost, pids));
        session.takes(&shape, false);
        session.note(
            BPF,
            true,
            &format!("every fault timed in the kernel by BPF, on {} processors", cpus.len()),
        );
        match shape.period {
            0 => session.note(PAIRS, false, "not asked for"),
            period => {
                session.note(PAIRS, true, &format!("one fault in {period} of each processor, for kinds"))
            }
        }
        let no_stacks = if allow.kernel == Kernel::No { "not asked for" } else { "not of a running process" };
        session.note(KERNEL, false, no_stacks);
        Ok(session)
    }

    /// Follows a process that begins or ends.
    pub(crate) fn follow(&mut self, task: Task) {
        match (&mut self.timed, task) {
            (Some(timed), Task::Fork(pid)) => timed.began(pid),
            (Some(timed), Task::Exit(pid) | Task::StrangerExit(pid)) => timed.ended(pid),
            (Some(_), Task::Exec(_)) | (None, _) => {}
        }
    }

    /// Faults of the watched processes so far, if the kernel times them.
    pub(super) fn timed_sums(&self) -> Option<FaultSums> {
        self.timed.as_ref().map(Timed::sums)
    }
}
