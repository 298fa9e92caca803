//! Page faults that the kernel times itself, of the watched processes.
//!
//! In: the watched processes, then who begins and who ends. Out: sums of their faults so far ([`InKernel`]).
//!
//! The programs add up the faults of every process of the machine (`timer`). So a child's faults are known from its first
//! one on, although its fork is read only later.

mod timer;

use faultless_trace::observation::{FaultSums, InKernel};
use rustc_hash::{FxHashMap, FxHashSet};

use crate::tuning as t;

pub(crate) use timer::{Point, Timer};

/// What timing a fault in the kernel does to the figures.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct TimingCost {
    /// What a time exceeds the time of a fault by, ns; may be negative.
    pub(crate) offset_ns: f64,
    /// Half-width of its 95 % interval, ns.
    pub(crate) offset_error_ns: f64,
    /// What a fault takes longer, ns.
    pub(crate) added_ns: f64,
}

/// A timer, and whom it is for.
#[derive(Debug)]
pub(crate) struct Timed {
    timer: Timer,
    cost: TimingCost,
    /// Watched processes that run; `None`: all of the machine.
    members: Option<FxHashSet<u32>>,
    /// Faults of watched processes that have ended.
    ended: FaultSums,
    /// Ended processes that are in the timer's table still.
    gone: FxHashSet<u32>,
}

impl Timed {
    /// Watches these processes; `None`: all.
    pub(crate) fn new(timer: Timer, cost: TimingCost, pids: Option<&[u32]>) -> Self {
        let members = pids.map(|pids| pids.iter().copied().collect());
        Self { timer, cost, members, ended: FaultSums::default(), gone: FxHashSet::default() }
    }

    /// A watched process has begun.
    pub(crate) fn began(&mut self, pid: u32) {
        if let Some(members) = &mut self.members {
            members.insert(pid);
        }
    }

    /// A process has ended, watched or not: it must not fill the table for ever.
    pub(crate) fn ended(&mut self, pid: u32) {
        if self.members.as_mut().is_some_and(|members| members.remove(&pid)) {
            self.ended = self.ended.plus(self.timer.take(pid));
            return;
        }
        self.gone.insert(pid);
        if self.gone.len() >= t::TIMED_GONE_MAX {
            let taken = self.timer.take_all(&std::mem::take(&mut self.gone));
            if self.members.is_none() {
                self.ended = self.ended.plus(taken);
            }
        }
    }

    /// Faults of all watched processes so far.
    pub(crate) fn sums(&self) -> FaultSums {
        let running = match &self.members {
            Some(members) => {
                members.iter().map(|&pid| self.timer.of(pid)).fold(FaultSums::default(), FaultSums::plus)
            }
            None => self.timer.by_process().into_values().fold(FaultSums::default(), FaultSums::plus),
        };
        self.ended.plus(running)
    }

    /// Faults so far of each process that runs, or has ended lately.
    pub(crate) fn by_process(&self) -> FxHashMap<u32, FaultSums> {
        self.timer.by_process()
    }

    /// What a time exceeds the time of a fault by, ns.
    pub(crate) fn offset_ns(&self) -> f64 {
        self.cost.offset_ns
    }

    /// What was seen in all.
    pub(crate) fn found(&self) -> InKernel {
        let TimingCost { offset_ns, offset_error_ns, added_ns } = self.cost;
        let tells_switches = self.timer.tells_switches;
        InKernel {
            sums: self.sums(),
            tells_switches,
            beyond: self.timer.beyond(),
            offset_ns,
            offset_error_ns,
            added_ns,
        }
    }
}
