//! Lanes -> what their lives were spent on. The parts of a life add up to it.

use std::collections::HashMap;

use super::{Lane, State, Timeline};
use crate::sites::stem;

/// What a life can be spent on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// In page faults on a processor: corrected, and estimated where they were not recorded one by one.
    Faults,
    /// In page faults without a processor.
    Blocked,
    /// Giving memory back and changing mappings, from samples.
    Managing,
    /// On a processor otherwise.
    Computing,
    /// Without a processor by its own wish.
    Waiting,
    /// Able to run, without a processor.
    Preempted,
    /// Nothing tells.
    Unknown,
}

/// A life by [`Part`], ns. The times add up to it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Spent(pub [u64; 7]);

impl Spent {
    /// The life, ns.
    pub fn life_ns(&self) -> u64 {
        self.0.iter().sum()
    }

    /// One part, ns.
    pub fn of(&self, part: Part) -> u64 {
        self.0[part as usize]
    }

    /// With this time in faults. What was thought to be another part of the time on a processor, or unknown, gives way.
    fn with_faults(mut self, faults_ns: f64) -> Self {
        let others = [Part::Unknown, Part::Managing, Part::Computing];
        let mut left_ns = self.of(Part::Faults) + others.iter().map(|part| self.of(*part)).sum::<u64>();
        self.0[Part::Faults as usize] = left_ns.min(faults_ns.max(0.0).round() as u64);
        left_ns -= self.of(Part::Faults);
        for part in others {
            let keeps_ns = if part == Part::Computing { left_ns } else { left_ns.min(self.of(part)) };
            self.0[part as usize] = keeps_ns;
            left_ns -= keeps_ns;
        }
        self
    }
}

impl Lane {
    /// What its life was spent on.
    pub fn spent(&self) -> Spent {
        let of = |state: State| self.totals_ns[state as usize];
        let share = self.managing as f64 / self.cpu.len().max(1) as f64;
        let managing_ns = (share * self.on_ns() as f64) as u64;
        let computing_ns = self.on_ns() - managing_ns;
        let waits = [of(State::Waiting), of(State::Preempted), of(State::Unknown)];
        let [waiting_ns, preempted_ns, unknown_ns] = waits;
        let parts = [0, of(State::Blocked), managing_ns, computing_ns, waiting_ns, preempted_ns, unknown_ns];
        Spent(parts).with_faults(self.fault_ns)
    }

    /// Time on a processor, ns.
    fn on_ns(&self) -> u64 {
        let on = [State::Running, State::Minor, State::Major, State::Unrecorded];
        on.iter().map(|&state| self.totals_ns[state as usize]).sum()
    }
}

impl Timeline {
    /// What all lives were spent on, with the faults of no thread: the time in faults is [`Timeline::fault_ns`].
    pub fn spent(&self) -> Spent {
        self.lanes.iter().map(Lane::spent).sum::<Spent>().with_faults(self.fault_ns)
    }
}

impl std::iter::Sum for Spent {
    fn sum<I: Iterator<Item = Self>>(all: I) -> Self {
        all.fold(Self::default(), |sum, one| Self(std::array::from_fn(|part| sum.0[part] + one.0[part])))
    }
}

/// A fault stands for others of threads that nobody recorded, and these had the processor, not its own thread. So what
/// exceeds the time that a thread had a processor goes to the other threads of its name. It stays if they
/// have no room for it.
pub(super) fn settle(lanes: &mut [Lane]) {
    let room_ns = |lane: &Lane| (lane.on_ns() + lane.totals_ns[State::Unknown as usize]) as f64;
    let mut names: HashMap<String, (f64, f64)> = HashMap::new();
    for lane in lanes.iter() {
        let (excess_ns, free_ns) = names.entry(stem(&lane.name)).or_default();
        *excess_ns += (lane.fault_ns - room_ns(lane)).max(0.0);
        *free_ns += (room_ns(lane) - lane.fault_ns).max(0.0);
    }
    for lane in lanes {
        let (excess_ns, free_ns) = names[&stem(&lane.name)];
        let (over_ns, moved_ns) = (lane.fault_ns - room_ns(lane), excess_ns.min(free_ns));
        lane.fault_ns -= over_ns * moved_ns / if over_ns > 0.0 { excess_ns } else { free_ns.max(1.0) };
        lane.recorded_ns = lane.recorded_ns.min(lane.fault_ns);
    }
}
