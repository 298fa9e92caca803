//! Records -> threads: when each lived, its name, and whether it had a processor.

use std::collections::HashMap;

use super::spans::{self, SchedState};
use super::{Class, Lane};
use crate::observation::{Record, What};
use crate::recording::Recording;

struct Thread {
    lane: Lane,
    /// Changes, by time.
    scheduled: Vec<(u64, SchedState)>,
    has_ended: bool,
}

impl Thread {
    fn switch_to(&mut self, time_ns: u64, state: SchedState) {
        if self.scheduled.last().is_none_or(|last| last.1 != state) {
            self.scheduled.push((time_ns, state));
        }
    }
}

/// Threads by process and number; a number can be used again.
pub(super) struct Threads {
    threads: Vec<Thread>,
    numbers: HashMap<(u32, u32), Vec<usize>>,
}

impl Threads {
    pub(super) fn new(begin_ns: u64, end_ns: u64, recording: &Recording) -> Self {
        let records = crate::fault::by_time(&recording.observation.records);
        let has_switches = records.iter().any(|record| matches!(record.what, What::Switch { .. }));
        let mut threads = Self { threads: Vec::new(), numbers: HashMap::new() };
        for record in records {
            threads.follow(record, begin_ns, end_ns, has_switches);
        }
        threads.name(&recording.header.command);
        threads
    }

    /// The thread's lane at a time.
    pub(super) fn at(&mut self, pid: u32, tid: u32, time_ns: u64) -> Option<&mut Lane> {
        let numbers = self.numbers.get(&(pid, tid))?;
        let inside = |&&number: &&usize| self.threads[number].lane.begin_ns <= time_ns;
        let number = *numbers.iter().rev().find(inside)?;
        Some(&mut self.threads[number].lane)
    }

    /// The lanes with their spans, by process and begin.
    pub(super) fn finish(self, recorded: &[(u64, u64)], classes: &[Class]) -> Vec<Lane> {
        let mut lanes: Vec<Lane> = self
            .threads
            .into_iter()
            .map(|thread| {
                let mut lane = thread.lane;
                lane.faults.sort_by_key(|fault| fault.0);
                spans::fill(&mut lane, &thread.scheduled, recorded, classes);
                lane
            })
            .collect();
        let mut born: HashMap<u32, u64> = HashMap::new();
        for lane in &lanes {
            let begin = born.entry(lane.pid).or_insert(lane.begin_ns);
            *begin = lane.begin_ns.min(*begin);
        }
        lanes.sort_by_key(|lane| (born[&lane.pid], lane.pid, lane.tid != lane.pid, lane.begin_ns, lane.tid));
        lanes
    }

    fn follow(&mut self, record: &Record, begin_ns: u64, end_ns: u64, has_switches: bool) {
        let Record { time_ns, pid, tid, ref what } = *record;
        let is_task = !matches!(what, What::Alloc { .. } | What::Free { .. } | What::Move { .. });
        let is_birth = matches!(what, What::Fork { .. });
        let last = self.numbers.get(&(pid, tid)).and_then(|numbers| numbers.last().copied());
        let number = match last {
            // A record after the exit is the thread's own last switch.
            Some(number) if self.threads[number].has_ended && !is_birth => return,
            Some(number) if !self.threads[number].has_ended => number,
            None if !is_task => return,
            _ => {
                let from_ns = if is_birth { time_ns } else { begin_ns };
                let name = match what {
                    // A new process has its parent's name until it is given one.
                    What::Fork { parent } if *parent != pid => self.name_of(*parent),
                    _ => String::new(),
                };
                let lane = Lane { pid, tid, name, begin_ns: from_ns, end_ns, ..Lane::default() };
                let state = match what {
                    _ if !has_switches => SchedState::Unknown,
                    What::Fork { .. } => SchedState::Ready,
                    What::Switch { out: false, .. } => SchedState::Unknown,
                    _ => SchedState::On,
                };
                self.threads.push(Thread { lane, scheduled: vec![(from_ns, state)], has_ended: false });
                let number = self.threads.len() - 1;
                self.numbers.entry((pid, tid)).or_default().push(number);
                number
            }
        };
        let thread = &mut self.threads[number];
        match what {
            What::Switch { out: false, .. } => thread.switch_to(time_ns, SchedState::On),
            What::Switch { preempted: true, .. } => thread.switch_to(time_ns, SchedState::Ready),
            What::Switch { .. } => thread.switch_to(time_ns, SchedState::Waiting),
            // It runs, so the record of its switch was lost.
            What::Enter { .. } if has_switches => thread.switch_to(time_ns, SchedState::On),
            What::Name(name) => thread.lane.name.clone_from(name),
            What::LockWait { write, wait_ns, .. } => thread.lane.lock_waits.push((time_ns, *wait_ns, *write)),
            What::Cpu { stack, .. } => thread.lane.cpu.push((time_ns, *stack)),
            What::Exit => {
                thread.lane.end_ns = time_ns;
                thread.has_ended = true;
            }
            _ => {}
        }
    }

    fn name_of(&self, pid: u32) -> String {
        let last = self.numbers.get(&(pid, pid)).and_then(|numbers| numbers.last());
        last.map(|&number| self.threads[number].lane.name.clone()).unwrap_or_default()
    }

    /// A thread without a name gets its process's name, and a process without one its program's.
    fn name(&mut self, command: &[String]) {
        let program = command.first().and_then(|path| path.rsplit('/').next()).unwrap_or_default();
        let mut first: HashMap<u32, String> = HashMap::new();
        for Thread { lane, .. } in &self.threads {
            if lane.pid == lane.tid && !lane.name.is_empty() {
                first.insert(lane.pid, lane.name.clone());
            }
        }
        for Thread { lane, .. } in self.threads.iter_mut().filter(|thread| thread.lane.name.is_empty()) {
            lane.name = first.get(&lane.pid).cloned().unwrap_or_else(|| program.to_owned());
        }
    }
}
