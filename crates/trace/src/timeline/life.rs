//! Records -> threads: when each lived, its name, and whether it had a processor.

use std::collections::HashMap;

use super::{Class, Lane, spans};
use crate::observation::{Record, What};
use crate::recording::Recording;

/// Whether a thread has a processor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    On,
    Waiting,
    /// Able to run.
    Ready,
    Unknown,
}

struct Life {
    lane: Lane,
    /// Changes, by time.
    places: Vec<(u64, Place)>,
    has_ended: bool,
}

impl Life {
    fn place(&mut self, time_ns: u64, place: Place) {
        if self.places.last().is_none_or(|last| last.1 != place) {
            self.places.push((time_ns, place));
        }
    }
}

/// Threads by process and number; a number can be used again.
pub(super) struct Lives {
    lives: Vec<Life>,
    numbers: HashMap<(u32, u32), Vec<usize>>,
}

impl Lives {
    pub(super) fn new(begin_ns: u64, end_ns: u64, recording: &Recording) -> Self {
        let records = crate::fault::by_time(&recording.observation.records);
        let has_switches = records.iter().any(|record| matches!(record.what, What::Switch { .. }));
        let mut lives = Self { lives: Vec::new(), numbers: HashMap::new() };
        for record in records {
            lives.follow(record, begin_ns, end_ns, has_switches);
        }
        lives.name(&recording.header.command);
        lives
    }

    /// The thread's lane at a time.
    pub(super) fn at(&mut self, pid: u32, tid: u32, time_ns: u64) -> Option<&mut Lane> {
        let numbers = self.numbers.get(&(pid, tid))?;
        let inside = |&&number: &&usize| self.lives[number].lane.begin_ns <= time_ns;
        let number = *numbers.iter().rev().find(inside)?;
        Some(&mut self.lives[number].lane)
    }

    /// The lanes with their spans, by process and begin.
    pub(super) fn finish(self, recorded: &[(u64, u64)], classes: &[Class]) -> Vec<Lane> {
        let mut lanes: Vec<Lane> = self
            .lives
            .into_iter()
            .map(|life| {
                let mut lane = life.lane;
                lane.faults.sort_by_key(|fault| fault.0);
                spans::fill(&mut lane, &life.places, recorded, classes);
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
            // What follows the exit is its own last switch.
            Some(number) if self.lives[number].has_ended && !is_birth => return,
            Some(number) if !self.lives[number].has_ended => number,
            None if !is_task => return,
            _ => {
                let from_ns = if is_birth { time_ns } else { begin_ns };
                let name = match what {
                    // A new process has its parent's name until it is given one.
                    What::Fork { parent } if *parent != pid => self.name_of(*parent),
                    _ => String::new(),
                };
                let lane = Lane { pid, tid, name, begin_ns: from_ns, end_ns, ..Lane::default() };
                let place = match what {
                    _ if !has_switches => Place::Unknown,
                    What::Fork { .. } => Place::Ready,
                    What::Switch { out: false, .. } => Place::Unknown,
                    _ => Place::On,
                };
                self.lives.push(Life { lane, places: vec![(from_ns, place)], has_ended: false });
                let number = self.lives.len() - 1;
                self.numbers.entry((pid, tid)).or_default().push(number);
                number
            }
        };
        let life = &mut self.lives[number];
        match what {
            What::Switch { out: false, .. } => life.place(time_ns, Place::On),
            What::Switch { preempted: true, .. } => life.place(time_ns, Place::Ready),
            What::Switch { .. } => life.place(time_ns, Place::Waiting),
            // It runs, so the record of its switch was lost.
            What::Enter { .. } if has_switches => life.place(time_ns, Place::On),
            What::Name(name) => life.lane.name.clone_from(name),
            What::LockWait { write, wait_ns } => life.lane.lock_waits.push((time_ns, *wait_ns, *write)),
            What::Cpu { stack, .. } => life.lane.cpu.push((time_ns, *stack)),
            What::Exit => {
                life.lane.end_ns = time_ns;
                life.has_ended = true;
            }
            _ => {}
        }
    }

    fn name_of(&self, pid: u32) -> String {
        let last = self.numbers.get(&(pid, pid)).and_then(|numbers| numbers.last());
        last.map(|&number| self.lives[number].lane.name.clone()).unwrap_or_default()
    }

    /// A thread that was given no name has that of its process, and that one its program's.
    fn name(&mut self, command: &[String]) {
        let program = command.first().and_then(|path| path.rsplit('/').next()).unwrap_or_default();
        let mut first: HashMap<u32, String> = HashMap::new();
        for Life { lane, .. } in &self.lives {
            if lane.pid == lane.tid && !lane.name.is_empty() {
                first.insert(lane.pid, lane.name.clone());
            }
        }
        for Life { lane, .. } in self.lives.iter_mut().filter(|life| life.lane.name.is_empty()) {
            lane.name = first.get(&lane.pid).cloned().unwrap_or_else(|| program.to_owned());
        }
    }
}
