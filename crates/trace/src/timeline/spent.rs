//! Lanes -> what their lives were spent on. The parts of a life add up to it.

use std::collections::HashMap;

use super::{Lane, State, Timeline};

/// A life by what it was spent on, ns. The times add up to the life.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Spent {
    /// In page faults on a processor: corrected, and estimated where they were not recorded one by one.
    pub faults_ns: u64,
    /// In page faults without a processor.
    pub blocked_ns: u64,
    /// Giving memory back and changing mappings, from samples.
    pub managing_ns: u64,
    /// On a processor otherwise.
    pub computing_ns: u64,
    /// Without a processor by its own wish.
    pub waiting_ns: u64,
    /// Able to run, without a processor.
    pub preempted_ns: u64,
    /// Nothing tells.
    pub unknown_ns: u64,
}

impl Spent {
    /// The life.
    pub fn life_ns(&self) -> u64 {
        let on_ns = self.faults_ns + self.managing_ns + self.computing_ns;
        on_ns + self.blocked_ns + self.waiting_ns + self.preempted_ns + self.unknown_ns
    }
}

impl Lane {
    /// What its life was spent on.
    pub fn spent(&self) -> Spent {
        let of = |state: State| self.totals_ns[state as usize];
        let (on_ns, unknown_ns) = (self.on_ns(), of(State::Unknown));
        let faults_ns = (self.fault_ns.max(0.0) as u64).min(on_ns + unknown_ns);
        let left_ns = on_ns + unknown_ns - faults_ns;
        let unknown_ns = unknown_ns.min(left_ns);
        let share = self.managing as f64 / self.cpu.len().max(1) as f64;
        let managing_ns = ((share * on_ns as f64) as u64).min(left_ns - unknown_ns);
        Spent {
            faults_ns,
            blocked_ns: of(State::Blocked),
            managing_ns,
            computing_ns: left_ns - unknown_ns - managing_ns,
            waiting_ns: of(State::Waiting),
            preempted_ns: of(State::Preempted),
            unknown_ns,
        }
    }

    /// Time on a processor, ns.
    fn on_ns(&self) -> u64 {
        let on = [State::Running, State::Minor, State::Major, State::Unrecorded];
        on.iter().map(|&state| self.totals_ns[state as usize]).sum()
    }

    /// Its name with a star for each number: what `worker-1` and `worker-2` have in common.
    pub fn stem(&self) -> String {
        let mut stem = String::new();
        for c in self.name.chars() {
            match c {
                '0'..='9' if stem.ends_with('*') => {}
                '0'..='9' => stem.push('*'),
                _ => stem.push(c),
            }
        }
        stem
    }
}

impl Timeline {
    /// What all lives were spent on, with the faults of no thread: the time in faults is [`Timeline::fault_ns`].
    pub fn spent(&self) -> Spent {
        let mut all: Spent = self.lanes.iter().map(Lane::spent).sum();
        let on_ns = all.faults_ns + all.managing_ns + all.computing_ns + all.unknown_ns;
        all.faults_ns = (self.fault_ns.max(0.0).round() as u64).min(on_ns);
        let mut left_ns = on_ns - all.faults_ns;
        for part in [&mut all.unknown_ns, &mut all.managing_ns] {
            *part = left_ns.min(*part);
            left_ns -= *part;
        }
        all.computing_ns = left_ns;
        all
    }
}

impl std::iter::Sum for Spent {
    fn sum<I: Iterator<Item = Self>>(all: I) -> Self {
        all.fold(Self::default(), |sum, one| Self {
            faults_ns: sum.faults_ns + one.faults_ns,
            blocked_ns: sum.blocked_ns + one.blocked_ns,
            managing_ns: sum.managing_ns + one.managing_ns,
            computing_ns: sum.computing_ns + one.computing_ns,
            waiting_ns: sum.waiting_ns + one.waiting_ns,
            preempted_ns: sum.preempted_ns + one.preempted_ns,
            unknown_ns: sum.unknown_ns + one.unknown_ns,
        })
    }
}

/// A fault stands for others of threads that nobody recorded, and these had the processor, not its own thread. So what
/// exceeds the time that a thread had a processor goes to the other threads of its name. It stays if they
/// have no room for it.
pub(super) fn settle(lanes: &mut [Lane]) {
    let room_ns = |lane: &Lane| (lane.on_ns() + lane.totals_ns[State::Unknown as usize]) as f64;
    let mut names: HashMap<String, (f64, f64)> = HashMap::new();
    for lane in lanes.iter() {
        let (excess_ns, free_ns) = names.entry(lane.stem()).or_default();
        *excess_ns += (lane.fault_ns - room_ns(lane)).max(0.0);
        *free_ns += (room_ns(lane) - lane.fault_ns).max(0.0);
    }
    for lane in lanes {
        let (excess_ns, free_ns) = names[&lane.stem()];
        let (over_ns, moved_ns) = (lane.fault_ns - room_ns(lane), excess_ns.min(free_ns));
        lane.fault_ns -= over_ns * moved_ns / if over_ns > 0.0 { excess_ns } else { free_ns.max(1.0) };
        lane.recorded_ns = lane.recorded_ns.min(lane.fault_ns);
    }
}
