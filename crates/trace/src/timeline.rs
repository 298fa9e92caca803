//! Recording and profile -> a lane per thread, with its state at each time and all its faults.
//!
//! The spans of a lane cover the thread's life without a gap, so their totals add up to its life. Times of
//! spans are uncorrected: a recorded fault takes longer than an unrecorded one by [`Timeline::offset_ns`].
//! The number of faults and their time come from the profile, as in every view. Outside recorded windows
//! running is [`State::Unrecorded`], and sampled faults are points with a weight. Waiting includes the time
//! from wakeup to running: no record separates them.
//!
//! Nothing here draws or judges. `threads` follows a thread's switches, `spans` merges switches and faults,
//! `spent` splits lives.

mod cut;
mod spans;
mod spent;
#[cfg(test)]
mod tests;
mod threads;

use std::collections::HashMap;

use serde::Serialize;

pub use spent::{Part, Spent};

use crate::fault::{Fault, Faults};
use crate::filter::Filter;
use crate::findings::lost_of;
use crate::kind::Kind;
use crate::measurement::Count;
use crate::observation::{Level, What};
use crate::profile::{Profile, Selected, Weighted};
use crate::recording::{Frame, Loss, Recording, Stacks};
use crate::stat::lost_clause;

/// What a thread was doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// On a processor, in no fault.
    Running,
    /// In a fault that needed no I/O, on a processor.
    Minor,
    /// In a fault that needed I/O, on a processor.
    Major,
    /// In a fault, waiting for a lock, I/O or memory.
    Blocked,
    /// Waiting for something else.
    Waiting,
    /// Able to run, without a processor.
    Preempted,
    /// On a processor while faults were not recorded one by one.
    Unrecorded,
    /// Nothing tells.
    Unknown,
}

impl State {
    /// All, in the order of [`Lane::totals_ns`].
    pub const ALL: [Self; 8] = [
        Self::Running,
        Self::Minor,
        Self::Major,
        Self::Blocked,
        Self::Waiting,
        Self::Preempted,
        Self::Unrecorded,
        Self::Unknown,
    ];
}

/// A recorded run by thread and time.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Timeline {
    /// The command and its arguments.
    pub command: Vec<String>,
    /// First time of anything recorded, ns of CLOCK_MONOTONIC.
    pub begin_ns: u64,
    /// Last time of anything recorded, ns.
    pub end_ns: u64,
    /// Names of the states, in the order of [`Lane::totals_ns`].
    pub states: Vec<State>,
    /// Threads: processes by begin, in each the first thread first, the others by begin.
    pub lanes: Vec<Lane>,
    /// Processes in the order of their lanes.
    pub processes: Vec<Process>,
    /// What faults have in common.
    pub classes: Vec<Class>,
    /// Names of mappings.
    pub mappings: Vec<String>,
    /// Begin and end, ns, of the times in which every fault was recorded.
    pub recorded: Vec<(u64, u64)>,
    /// Where records were lost.
    pub losses: Vec<Loss>,
    /// What that means for shares, if it was much.
    #[serde(skip)]
    pub lost: Option<String>,
    /// Faults and resident memory over time, all processes together.
    pub levels: Vec<Level>,
    /// Excess of recorded over unrecorded faults, ns.
    pub offset_ns: f64,
    /// Faults of the run.
    pub faults: u64,
    /// CPU time in them, ns.
    pub fault_ns: f64,
    /// Their waits for the disk, ns.
    pub wait_ns: f64,
    /// The faults of no thread, and their time in ns.
    pub elsewhere: (u64, f64),
    /// What the filter left of the run; `None` without one.
    pub selected: Option<Selected>,
    /// Notes for the reader.
    pub notes: Vec<String>,
}

/// A process.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Process {
    /// Process.
    pub pid: u32,
    /// Name of its first thread.
    pub name: String,
    /// Time in which at least one thread was in a recorded fault, ns.
    pub fault_ns: u64,
    /// Time in which two or more were at once, ns.
    pub shared_ns: u64,
    /// Most threads in faults at once.
    pub most: u32,
}

/// A thread.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Lane {
    /// Process.
    pub pid: u32,
    /// Thread.
    pub tid: u32,
    /// Its last name.
    pub name: String,
    /// Begin of its life, or of the recording, ns.
    pub begin_ns: u64,
    /// End of either, ns.
    pub end_ns: u64,
    /// Time in each state, in the order of [`State::ALL`], ns. They add up to its life.
    pub totals_ns: [u64; State::ALL.len()],
    /// Its states in order: length in ns, state.
    pub spans: Vec<(u64, State)>,
    /// Its faults, including those that samples represent.
    pub fault_count: f64,
    /// CPU time in them, corrected, ns.
    pub fault_ns: f64,
    /// The part of it that faults recorded one by one stand for, ns; samples stand for the rest, and faults of
    /// other threads of its name.
    pub recorded_ns: f64,
    /// Its faults in the order in which they began: time in ns, duration in ns if the end was seen, address, index into
    /// [`Timeline::classes`].
    pub faults: Vec<(u64, Option<u64>, u64, u32)>,
    /// Waits for the lock of the address space: end in ns, length in ns, whether for writing.
    pub lock_waits: Vec<(u64, u64, bool)>,
    /// Samples of the CPU clock: time in ns, stack.
    pub cpu: Vec<(u64, Option<u32>)>,
    /// Those of them inside munmap, madvise and the like.
    pub managing: u64,
}

/// Functions of the kernel in which a thread gives memory back or changes its mappings.
const MANAGING: [&str; 10] = [
    "munmap",
    "madvise",
    "mremap",
    "mprotect",
    "sys_brk",
    "sys_mmap",
    "exit_mmap",
    "unmap_region",
    "unmap_vmas",
    "zap_page_range",
];

/// For each stack whether it leads through the kernel's management of memory.
pub fn managing(stacks: &Stacks) -> Vec<bool> {
    let is_kernel =
        |frame: &Frame| stacks.module(frame).is_some_and(|module| module.path.starts_with("[kernel"));
    let is_managing = |name: &str| MANAGING.iter().any(|part| name.contains(part));
    let of = |stack: u32| {
        let names = stacks.frames_of(stack).filter(|frame| is_kernel(frame)).flat_map(|frame| &frame.names);
        let mut names = names.map(|name| name.function.as_str());
        names.any(is_managing)
    };
    (0..stacks.stacks.len() as u32).map(of).collect()
}

/// What faults have in common.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize)]
pub struct Class {
    /// Their kind.
    pub kind: Kind,
    /// They needed I/O.
    pub major: bool,
    /// Taken in kernel mode.
    pub kernel: bool,
    /// Who touched.
    pub stack: Option<u32>,
    /// Who allocated what was touched.
    pub owner: Option<u32>,
    /// Index into [`Timeline::mappings`].
    pub mapping: Option<u32>,
    /// Threads of the process in faults when it began, itself included; 0 for samples.
    pub in_flight: u32,
    /// Faults that each represents.
    pub weight: u64,
    /// Time of samples, ns.
    pub cost_ns: u64,
}

impl Timeline {
    /// Lays out a recording; `profile` comes from [`Profile::new`].
    pub fn new(recording: &Recording, profile: &Profile) -> Self {
        Self::of(recording, profile, &Filter::default())
    }

    /// Lays out a part of a recording; `profile` holds what the filter selects ([`Profile::keep`]). The states
    /// of the threads are those of all faults.
    pub fn of(recording: &Recording, profile: &Profile, filter: &Filter) -> Self {
        let observation = &recording.observation;
        let (begin_ns, end_ns) = recording.bounds_ns();
        let found = Faults::from_observation(observation);
        let recorded = coverage(&found, begin_ns, end_ns);
        let mut threads = threads::Threads::new(begin_ns, end_ns, recording);
        let mut classes = Classes::new(profile);
        let class = |fault: &Fault, weighted: Option<&Weighted>| Class {
            kind: fault.kind,
            major: fault.kind == Kind::Major,
            kernel: fault.kernel,
            stack: fault.stack,
            owner: weighted.and_then(|w| profile.allocated_by(w)),
            mapping: weighted.map(|w| w.mapping),
            in_flight: fault.in_flight,
            weight: 1,
            cost_ns: 0,
        };
        for fault in &found.faults {
            if let Some(lane) = threads.at(fault.pid, fault.tid, fault.enter_ns) {
                let weighted = classes.weighted(fault.enter_ns, fault.tid);
                let is_timed = fault.kind != Kind::Major && fault.duration_ns.is_some();
                lane.recorded_ns += weighted.filter(|_| is_timed).map_or(0.0, |w| w.cost_ns);
                let class = classes.number(class(fault, weighted));
                lane.faults.push((fault.enter_ns, fault.duration_ns, fault.addr, class));
            }
        }
        let timed = || found.faults.iter().filter_map(|fault| fault.duration_ns);
        let mean_ns = timed().sum::<u64>() as f64 / timed().count().max(1) as f64;
        let is_recorded = |time_ns: u64| {
            let next = recorded.partition_point(|span| span.0 <= time_ns);
            next > 0 && time_ns < recorded[next - 1].1
        };
        for (fault, weight) in found.samples.iter().filter(|(fault, _)| !is_recorded(fault.enter_ns)) {
            let Some(lane) = threads.at(fault.pid, fault.tid, fault.enter_ns) else { continue };
            let weighted = classes.weighted(fault.enter_ns, fault.tid);
            let otherwise = if fault.kind == Kind::Major { Kind::Major } else { Kind::UserUnknown };
            let class = classes.number(Class {
                kind: weighted.map_or(otherwise, |w| w.kind),
                in_flight: 0,
                weight: weighted.map_or(*weight, |w| w.faults.round() as u64),
                cost_ns: two_digits(weighted.map_or(*weight as f64 * mean_ns, Weighted::time_ns)),
                ..class(fault, weighted)
            });
            lane.faults.push((fault.enter_ns, None, fault.addr, class));
        }
        for fault in &profile.faults {
            if let Some(lane) = threads.at(fault.pid, fault.tid, fault.time_ns) {
                lane.fault_count += fault.faults;
                lane.fault_ns += fault.cost_ns;
            }
        }
        let mut lanes = threads.finish(&recorded, &classes.classes);
        spent::settle(&mut lanes);
        let is_part = profile.selected.is_some();
        if is_part {
            cut::to_selection(&mut lanes, filter, begin_ns, |time_ns, tid| {
                classes.weighted(time_ns, tid).is_some()
            });
        }
        let (begin_ns, end_ns) = cut::bounds(filter, begin_ns, end_ns);
        let is_managing = managing(&recording.stacks);
        for lane in &mut lanes {
            let manages = |stack: Option<u32>| {
                stack.is_some_and(|stack| is_managing.get(stack as usize) == Some(&true))
            };
            lane.managing = lane.cpu.iter().filter(|sample| manages(sample.1)).count() as u64;
        }
        let in_lanes = |of: fn(&Lane) -> f64| lanes.iter().map(of).sum::<f64>();
        let totals = &profile.totals;
        let (faults, fault_ns, wait_ns) = match &profile.selected {
            Some(selected) => (selected.faults.round() as u64, selected.time_ns, selected.wait_ns),
            None => (totals.faults(), totals.time_ns(), totals.wait_ns),
        };
        let elsewhere = (
            faults.saturating_sub(in_lanes(|lane| lane.fault_count).round() as u64),
            (fault_ns - in_lanes(|lane| lane.fault_ns)).max(0.0).round(),
        );
        let processes = processes(&lanes);
        Self {
            command: recording.header.command.clone(),
            begin_ns,
            end_ns,
            states: State::ALL.into(),
            notes: notes(recording, &lanes, &recorded, (begin_ns, end_ns)),
            lanes,
            processes,
            classes: classes.classes,
            mappings: profile.mappings.clone(),
            recorded,
            losses: recording.losses.clone(),
            lost: lost_clause(lost_of(recording), profile.basis.len() as u64),
            levels: observation
                .levels
                .iter()
                .filter(|level| (begin_ns..=end_ns).contains(&level.time_ns))
                .copied()
                .collect(),
            faults,
            fault_ns,
            wait_ns,
            elsewhere,
            offset_ns: observation.calibration.map_or(0.0, |found| found.offset_ns()),
            selected: profile.selected.clone(),
        }
    }

    /// Spans and faults in it.
    pub fn events(&self) -> usize {
        self.lanes.iter().map(|lane| lane.spans.len() + lane.faults.len()).sum()
    }
}

/// Interns classes, and finds the weighted fault of a time and thread.
struct Classes<'a> {
    classes: Vec<Class>,
    numbers: HashMap<Class, u32>,
    profile: &'a Profile,
}

impl<'a> Classes<'a> {
    fn new(profile: &'a Profile) -> Self {
        Self { classes: Vec::new(), numbers: HashMap::new(), profile }
    }

    fn weighted(&self, time_ns: u64, tid: u32) -> Option<&'a Weighted> {
        let faults = &self.profile.faults;
        let from = faults.partition_point(|fault| fault.time_ns < time_ns);
        faults[from..].iter().take_while(|fault| fault.time_ns == time_ns).find(|fault| fault.tid == tid)
    }

    fn number(&mut self, class: Class) -> u32 {
        *self.numbers.entry(class).or_insert_with_key(|class| {
            self.classes.push(class.clone());
            self.classes.len() as u32 - 1
        })
    }
}

/// Two significant digits: means of the same kind share a class then.
fn two_digits(value: f64) -> u64 {
    let step = 10_f64.powf((value.max(1.0).log10().floor() - 1.0).max(0.0));
    ((value / step).round() * step) as u64
}

/// The recorded windows; adjacent ones are merged.
fn coverage(found: &Faults, begin_ns: u64, end_ns: u64) -> Vec<(u64, u64)> {
    let mut spans: Vec<(u64, u64)> = Vec::new();
    for window in found.windows.iter().filter(|window| window.recorded) {
        let (from, to) = (window.begin_ns.max(begin_ns), window.end_ns.min(end_ns));
        match spans.last_mut() {
            Some(last) if from <= last.1 => last.1 = last.1.max(to),
            _ if from < to => spans.push((from, to)),
            _ => {}
        }
    }
    spans
}

/// How long threads of the same process were in faults at once.
fn processes(lanes: &[Lane]) -> Vec<Process> {
    let of = |own: &[Lane]| {
        let mut process = Process { pid: own[0].pid, name: own[0].name.clone(), ..Process::default() };
        let timed = own
            .iter()
            .flat_map(|lane| &lane.faults)
            .filter_map(|fault| Some((fault.0, fault.1.filter(|ns| *ns > 0)?)));
        let mut edges: Vec<(u64, bool)> =
            timed.flat_map(|(at, ns)| [(at, true), (at.saturating_add(ns), false)]).collect();
        // An end sorts before a begin of the same time: those two did not overlap.
        edges.sort_unstable();
        let (mut inside, mut before_ns) = (0_u32, 0);
        for (time_ns, is_begin) in edges {
            process.fault_ns += if inside > 0 { time_ns - before_ns } else { 0 };
            process.shared_ns += if inside > 1 { time_ns - before_ns } else { 0 };
            inside = if is_begin { inside + 1 } else { inside - 1 };
            process.most = process.most.max(inside);
            before_ns = time_ns;
        }
        process
    };
    lanes.chunk_by(|a, b| a.pid == b.pid).map(of).collect()
}

fn notes(recording: &Recording, lanes: &[Lane], recorded: &[(u64, u64)], bounds: (u64, u64)) -> Vec<String> {
    let mut notes = Vec::new();
    let covered: u64 = recorded.iter().map(|span| span.1 - span.0).sum();
    let life = bounds.1 - bounds.0;
    if !lanes.is_empty() && covered < life {
        let percent = 100.0 * covered as f64 / life as f64;
        notes.push(format!(
            "every fault was recorded in {percent:.1} % of the time; elsewhere faults are samples or not seen"
        ));
    }
    if !lanes.is_empty()
        && !recording.observation.records.iter().any(|r| matches!(r.what, What::Switch { .. }))
    {
        notes.push("no context switches were recorded: computing and waiting can't be told apart".to_owned());
    }
    let lost: u64 = recording.losses.iter().map(|loss| loss.lost).sum();
    if lost > 0 {
        notes.push(format!("{} lost: states near the red marks may be wrong", Count(lost).were("record")));
    }
    notes.extend(recording.missing.iter().cloned());
    notes
}
