//! From the rings to records, in the order of time.
//!
//! In: the lanes of a session and the span in which faults are wanted. Out: [`Record`]s with the access decoded and the stack
//! unwound, how many faults there were, and how many records the rings lost.
//!
//! What it does not do: pair entries with ends (`trace`), or unwind (`unwind`).

use std::collections::HashMap;
use std::ops::Range;

use faultless_os::counters::now_ns;
use faultless_os::ring::{Raw, Sample, records};
use faultless_trace::file::Line;
use faultless_trace::observation::{KernelSamples, Map, Record, SourceNote, What};
use faultless_trace::recording::Loss;

use crate::allocations::Allocations;
use crate::decode::{Decoder, Fault};
use crate::drift::Drift;
use crate::kernel;
use crate::session::{Lane, Role};
use crate::symbols::Kept;
use crate::thinned::Thinned;
use crate::tuning as t;
use crate::unwind::{Unwinder, UserStack};
use crate::writing::Writing;

/// All records so far.
#[derive(Debug, Default)]
pub(crate) struct Drain {
    /// By id, ascending: looked up for every record.
    roles: Vec<(u64, Role)>,
    decoder: Decoder,
    /// The program's first thread, address and instruction of its last sampled entry, and samples since that were of another fault.
    first: u32,
    sampled: (u64, u64),
    apart: u32,
    /// Entries whose end has not been read, of samples and of other faults, by thread: with it come the registers.
    sampled_entries: HashMap<u32, Record>,
    entries: HashMap<u32, Record>,
    /// What each thread wrote last, and when.
    last: HashMap<u32, (Role, u64)>,
    thinned: Thinned,
    pub(crate) drift: Drift,
    pub(crate) writing: Writing,
    /// Samples of faults end with the size of the page that is mapped.
    tells_pages: bool,
    /// One per lane.
    copied: Vec<Copied>,
    records: Vec<Record>,
    task_records: usize,
    /// Mappings and tasks that were left out because there were too many.
    pub(crate) omitted: u64,
    losses: Vec<Loss>,
    /// Up to here all records have been copied: from here on those of some processors are there, of others not.
    settled_ns: u64,
    /// Where stacks come along.
    stacks: Option<Stacks>,
}

/// What was copied from one lane's ring and is not digested yet.
#[derive(Debug, Default)]
struct Copied {
    cpu: u32,
    bytes: Vec<u8>,
    /// When the last record digested was written.
    last_ns: u64,
}

/// What stacks need.
#[derive(Debug)]
struct Stacks {
    unwinder: Unwinder,
    /// Those of the CPU clock in the kernel.
    kernel: kernel::Stacks,
    chain: Vec<u64>,
    kernel_chain: Vec<u64>,
    /// Threads that have asked for `mmap_lock`, and when.
    lock_wanted: HashMap<u32, u64>,
    /// Processes whose end has been read: what they allocated just before has not.
    ended: Vec<u32>,
    allocations: Option<Allocations>,
    /// Allocations lost by the last reading, and when that was.
    allocations_lost: (u64, u64),
}

/// What goes with stacks.
#[derive(Debug)]
pub(crate) struct Beside {
    /// Samples of the CPU clock per second, 0 for none.
    pub(crate) cpu_hertz: u64,
    /// What programs tell of their allocations.
    pub(crate) allocations: Option<Allocations>,
    /// Names of earlier recordings.
    pub(crate) kept: Option<Kept>,
}

/// What was copied from the rings.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Found {
    /// Entries of faults, wanted or not: each has cost the program its time.
    pub(crate) faults: u64,
    /// Entries of samples.
    pub(crate) samples: u64,
    /// Records lost.
    pub(crate) lost: u64,
}

/// What digested records tell the recorder.
#[derive(Debug, Default)]
pub(crate) struct Digest {
    /// Forks, execs and exits of whole processes, in order.
    pub(crate) tasks: Vec<Task>,
    /// Records lost: how many, and when the last before them was written.
    pub(crate) losses: Vec<(u64, u64)>,
}

/// What happened to a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Task {
    Fork(u32),
    Exec(u32),
    Exit(u32),
}

impl Drain {
    /// Knows the events of these lanes by their ids.
    pub(crate) fn new(lanes: &[Lane], first: u32) -> Self {
        let mut roles: Vec<_> = lanes.iter().flat_map(Lane::roles).collect();
        roles.sort_by_key(|&(id, _)| id);
        let last_ns = now_ns();
        let copied =
            lanes.iter().map(|lane| Copied { cpu: lane.cpu, last_ns, ..Copied::default() }).collect();
        let tells_pages = lanes.iter().all(Lane::tells_pages);
        Self { roles, copied, tells_pages, first, ..Self::default() }
    }

    /// The same for lanes whose samples hold stacks.
    pub(crate) fn with_stacks(lanes: &[Lane], first: u32, beside: Beside) -> Self {
        let Beside { cpu_hertz, allocations, kept } = beside;
        let stacks = Stacks {
            unwinder: Unwinder::new(kept),
            kernel: kernel::Stacks::at(cpu_hertz),
            chain: Vec::new(),
            kernel_chain: Vec::new(),
            lock_wanted: HashMap::new(),
            ended: Vec::new(),
            allocations,
            allocations_lost: (0, now_ns()),
        };
        Self { stacks: Some(stacks), ..Self::new(lanes, first) }
    }

    /// Copies what the rings hold, so that they have room again. What it means is for [`digest`](Self::digest), which may take long: the
    /// first stack in a large file is 30 ms of work.
    pub(crate) fn copy(&mut self, lanes: &[Lane]) -> Found {
        let mut found = Found::default();
        self.settled_ns = now_ns();
        let begins: Vec<usize> = self.copied.iter().map(|copied| copied.bytes.len()).collect();
        for (lane, copied) in lanes.iter().zip(&mut self.copied) {
            lane.ring.drain_into(&mut copied.bytes);
        }
        for (copied, begin) in self.copied.iter().zip(begins) {
            for raw in records(&copied.bytes[begin..]) {
                match raw {
                    Raw::Lost { lost, .. } => found.lost += lost,
                    Raw::Sample(sample) => match role(&self.roles, sample.id) {
                        Some(Role::Entry) => found.faults += 1,
                        Some(Role::SampleEntry(_)) => found.samples += 1,
                        _ => {}
                    },
                    _ => {}
                }
            }
        }
        found
    }

    /// Nothing more is written: all that was copied can be digested.
    pub(crate) fn settle(&mut self) {
        self.settled_ns = u64::MAX;
    }

    /// Makes records of what was copied; faults are kept where their time lies in `span`. What was written while the rings were copied one
    /// after the other waits for the next time: a child's records may be on another processor than its fork.
    pub(crate) fn digest(&mut self, span: Range<u64>) -> Digest {
        let mut digest = Digest::default();
        if let Some(Stacks { unwinder, ended, .. }) = &mut self.stacks {
            ended.drain(..).for_each(|pid| unwinder.exit(pid));
        }
        let mut all = std::mem::take(&mut self.copied);
        let mut unread = Vec::with_capacity(all.len());
        let mut batch = Vec::new();
        for Copied { cpu, bytes, last_ns } in &mut all {
            let mut raws = records(bytes);
            let mut rest = raws.rest().len();
            while let Some(raw) = raws.next() {
                let time_ns = raw.time_ns().unwrap_or(*last_ns);
                if time_ns >= self.settled_ns {
                    break;
                }
                rest = raws.rest().len();
                if let Raw::Lost { lost, .. } = raw {
                    // The ring was full from its last record on.
                    digest.losses.push((lost, *last_ns));
                    self.losses.push(Loss { cpu: Some(*cpu), begin_ns: *last_ns, end_ns: time_ns, lost });
                } else {
                    sort_in(raw, &self.roles, self.tells_pages, &span, &mut batch);
                    *last_ns = time_ns;
                }
            }
            unread.push(rest);
        }
        batch.sort_by_key(|(record, _)| record.time_ns);
        for (record, source) in batch {
            // Linux 6.18 gives the second of two events of one fault the id of the first: here a sample in a burst that of the pair. It may
            // have been written when the rings had just been copied, and so come in the next batch.
            if let Some((role, _)) = source
                && self.last.insert(record.tid, (role, record.time_ns)) == Some((role, record.time_ns))
            {
                if role == Role::Entry {
                    self.writing.again(record.tid, record.time_ns);
                }
                continue;
            }
            match (source.map(|(role, _)| role), &record.what) {
                (Some(Role::Again), _) => {
                    self.writing.again(record.tid, record.time_ns);
                    continue;
                }
                (Some(Role::SampleEntry(_)), _) => self.writing.again(record.tid, record.time_ns),
                (_, What::Enter { addr, .. }) => self.writing.enter(record.tid, *addr, record.time_ns),
                (_, What::End { addr, .. }) => {
                    self.writing.end(record.tid, *addr, record.time_ns);
                }
                (_, What::Exit) => {
                    self.writing.exit(record.tid);
                    self.last.remove(&record.tid);
                }
                _ => {}
            }
            self.note_drift(&record);
            match source {
                Some((Role::LockWanted, _)) => self.lock_wanted(&record),
                Some((_, sample)) => self.keep(record, Some(sample), &mut digest.tasks),
                None => self.keep(record, None, &mut digest.tasks),
            }
        }
        for (Copied { bytes, .. }, rest) in all.iter_mut().zip(unread) {
            bytes.drain(..bytes.len() - rest);
            bytes.shrink_to(t::COPIED_BYTES_KEPT);
        }
        self.copied = all;
        if self.settled_ns == u64::MAX {
            let endless: Vec<Record> = self.entries.drain().map(|(_, entry)| entry).collect();
            endless.into_iter().for_each(|entry| self.keep_entry(entry, None));
        }
        digest
    }

    /// The records, sorted by time.
    pub(crate) fn finish(mut self) -> Vec<Record> {
        self.records.sort_by_key(|record| record.time_ns);
        self.records
    }

    /// What is new as lines of a trace file, what others refer to first.
    pub(crate) fn take_lines(&mut self) -> impl Iterator<Item = Line> {
        self.take_allocations();
        let stacks = self.stacks.as_mut().map(|stacks| stacks.unwinder.take_lines());
        let losses = self.losses.drain(..).map(Line::Loss);
        stacks.into_iter().flatten().chain(losses).chain(self.records.drain(..).map(Line::from))
    }

    /// What programs have told of their allocations. The rings were read before, so that the mappings are known.
    fn take_allocations(&mut self) {
        let Some(stacks) = &mut self.stacks else { return };
        let Some(allocations) = &mut stacks.allocations else { return };
        let unwinder = &mut stacks.unwinder;
        self.records.extend(allocations.take(|pid, stack| unwinder.stack(pid, stack)));
        let (lost, end_ns) = (allocations.lost(), now_ns());
        let (before, begin_ns) = std::mem::replace(&mut stacks.allocations_lost, (lost, end_ns));
        if lost > before {
            self.losses.push(Loss { cpu: None, begin_ns, end_ns, lost: lost - before });
        }
    }

    /// The names of all that was on stacks, and what became of them.
    pub(crate) fn name_stacks(&mut self) -> (Vec<Line>, Vec<SourceNote>) {
        self.stacks.as_mut().map(|stacks| stacks.unwinder.name()).unwrap_or_default()
    }

    /// Samples of the CPU clock in the kernel.
    ///
    /// # Errors
    /// As [`kernel::Stacks::finish`].
    pub(crate) fn kernel_samples(&mut self) -> Result<KernelSamples, String> {
        let kernel = self.stacks.as_mut().map(|stacks| std::mem::take(&mut stacks.kernel));
        kernel.unwrap_or_default().finish(true)
    }

    /// A record that no ring held: what a running process was when we came.
    pub(crate) fn add(&mut self, record: Record) {
        self.keep(record, None, &mut Vec::new());
    }

    fn keep(&mut self, mut record: Record, sample: Option<Sample<'_>>, tasks: &mut Vec<Task>) {
        let pid = record.pid;
        self.drift.saw(self.sampled_entries.get(&record.tid), &record);
        match &mut record.what {
            What::Enter { .. } => {
                if let Some(endless) = self.entries.insert(record.tid, record) {
                    self.keep_entry(endless, None);
                }
                return;
            }
            What::Sample { addr, ip, kernel, major, access, stack, weight, .. } => {
                let entry = self.sampled_entries.remove(&record.tid);
                if self.stacks.is_none() && !*major {
                    let Some(every) = self.thinned.keep() else { return };
                    *weight *= every;
                }
                self.records.extend(entry);
                if !*kernel {
                    let registers = self.registers(sample);
                    *access = self.decoder.access(Fault { pid, ip: *ip, addr: *addr, registers });
                }
                *stack = self.unwind(pid, sample);
                return self.records.push(record);
            }
            What::SampleEnter { .. } => {
                self.sampled_entries.insert(record.tid, record);
                return;
            }
            What::End { stack, .. } => {
                if let Some(entry) = self.entries.remove(&record.tid) {
                    self.keep_entry(entry, sample);
                }
                *stack = self.unwind(pid, sample);
                return self.records.push(record);
            }
            What::Cpu { kernel, stack } => {
                *stack = self.unwind(pid, sample);
                if let Some(stacks) = &mut self.stacks {
                    let ip = sample.map_or(0, |sample| sample.ip);
                    stacks.kernel.count(*kernel, &stacks.kernel_chain, ip);
                }
                return self.records.push(record);
            }
            What::LockWait { wait_ns, .. } => {
                let wanted_ns =
                    self.stacks.as_mut().and_then(|stacks| stacks.lock_wanted.remove(&record.tid));
                *wait_ns = wanted_ns.map_or(0, |wanted_ns| record.time_ns.saturating_sub(wanted_ns));
                if *wait_ns < t::LOCK_WAIT_NS {
                    return;
                }
            }
            What::Map(map) => {
                self.decoder.map(pid, map);
                if let Some(stacks) = &mut self.stacks {
                    stacks.unwinder.map(pid, map);
                }
            }
            What::Fork { parent } if *parent != pid => {
                self.decoder.fork(pid, *parent);
                if let Some(stacks) = &mut self.stacks {
                    stacks.unwinder.fork(pid, *parent);
                }
                tasks.push(Task::Fork(pid));
            }
            What::Exec => {
                self.decoder.forget(pid);
                if let Some(stacks) = &mut self.stacks {
                    stacks.unwinder.exec(pid);
                }
                tasks.push(Task::Exec(pid));
            }
            What::Exit if record.tid != pid => {
                if let Some(stacks) = &mut self.stacks {
                    stacks.lock_wanted.remove(&record.tid);
                }
            }
            What::Exit => {
                self.decoder.forget(pid);
                if let Some(stacks) = &mut self.stacks {
                    stacks.ended.push(pid);
                }
                tasks.push(Task::Exit(pid));
            }
            // They mean something only to who keeps stacks; there they are written and not kept.
            What::Name(_) if self.stacks.is_none() => return,
            _ => {}
        }
        if self.stacks.is_some() {
            self.records.push(record);
        } else if self.task_records < t::TASK_RECORDS_MAX {
            self.task_records += 1;
            self.records.push(record);
        } else {
            self.omitted += 1;
        }
    }

    /// Keeps the entry of a fault; `end`: what came with the fault's end.
    fn keep_entry(&mut self, mut record: Record, end: Option<Sample<'_>>) {
        if let What::Enter { addr, ip, kernel: false, access, .. } = &mut record.what {
            let end = end.filter(|end| end.addr == *addr);
            let fault = Fault { pid: record.pid, ip: *ip, addr: *addr, registers: self.registers(end) };
            *access = self.decoder.access(fault);
        }
        self.records.push(record);
    }

    /// The registers of string instructions.
    fn registers(&self, end: Option<Sample<'_>>) -> Option<(u64, u64)> {
        match self.stacks {
            Some(_) => Some(end?.stack()?.registers?.string),
            None => end?.string_registers(),
        }
    }

    /// Counts samples of the first thread whose entry was of another fault, since the last that matched.
    fn note_drift(&mut self, record: &Record) {
        match record.what {
            _ if record.tid != self.first => {}
            What::SampleEnter { addr, ip, .. } => self.sampled = (addr, ip),
            What::Sample { addr, ip, major: false, .. } if (addr, ip) == self.sampled => self.apart = 0,
            What::Sample { major: false, .. } => self.apart += 1,
            _ => {}
        }
    }

    /// Whether samples of the first thread no longer match; asked anew after so many more.
    pub(crate) fn is_apart(&mut self) -> bool {
        let is_apart = self.apart >= t::APART_SAMPLES;
        if is_apart {
            self.apart = 0;
        }
        is_apart
    }

    fn lock_wanted(&mut self, record: &Record) {
        if let Some(stacks) = &mut self.stacks {
            stacks.lock_wanted.insert(record.tid, record.time_ns);
        }
    }

    fn unwind(&mut self, pid: u32, sample: Option<Sample<'_>>) -> Option<u32> {
        let stacks = self.stacks.as_mut()?;
        let sample = sample?;
        let copy = sample.stack()?;
        stacks.chain.clear();
        stacks.kernel_chain.clear();
        sample.split_chain(&mut stacks.kernel_chain, &mut stacks.chain);
        let registers = copy.registers.unwrap_or_default();
        stacks.unwinder.stack(
            pid,
            &UserStack {
                ip: registers.ip,
                sp: registers.sp,
                bp: registers.bp,
                lr: registers.lr,
                dump: copy.dump,
                chain: &stacks.chain,
                kernel_chain: &stacks.kernel_chain,
            },
        )
    }
}

/// A record that waits for its turn, with the sample that it was made from.
type Pending<'a> = (Record, Option<(Role, Sample<'a>)>);

fn role(roles: &[(u64, Role)], id: u64) -> Option<Role> {
    roles.binary_search_by_key(&id, |&(id, _)| id).ok().map(|at| roles[at].1)
}

fn sort_in<'a>(
    raw: Raw<'a>,
    roles: &[(u64, Role)],
    tells_pages: bool,
    span: &Range<u64>,
    batch: &mut Vec<Pending<'a>>,
) {
    let record = match raw {
        Raw::Sample(sample) => {
            let Some(role) = role(roles, sample.id) else { return };
            let is_fault = matches!(role, Role::Entry | Role::Again | Role::Minor | Role::Major);
            if !is_fault || span.contains(&sample.time_ns) {
                batch.extend(from_sample(sample, role, tells_pages));
            }
            return;
        }
        Raw::Map(map) => {
            let what = What::Map(Map {
                begin: map.begin,
                len_bytes: map.len_bytes,
                prot: map.prot,
                flags: map.flags,
                name: map.name,
                file_offset: map.file_offset,
            });
            Record { time_ns: map.time_ns, pid: map.pid, tid: map.tid, what }
        }
        Raw::Fork(task) => from_task(task, What::Fork { parent: task.parent }),
        Raw::Exit(task) => from_task(task, What::Exit),
        Raw::Name(name) => {
            if name.exec {
                batch.push((from_task(name.task, What::Exec), None));
            }
            from_task(name.task, What::Name(String::from_utf8_lossy(name.name).into_owned()))
        }
        Raw::Switch(switch) => {
            let what = What::Switch { out: switch.out, preempted: switch.preempted };
            Record { time_ns: switch.time_ns, pid: switch.pid, tid: switch.tid, what }
        }
        Raw::Lost { .. } | Raw::Other => return,
    };
    batch.push((record, None));
}

fn from_task(task: faultless_os::ring::Task, what: What) -> Record {
    Record { time_ns: task.time_ns, pid: task.pid, tid: task.tid, what }
}

fn from_sample(sample: Sample<'_>, role: Role, tells_pages: bool) -> Option<Pending<'_>> {
    let (addr, ip, kernel) = (sample.addr, sample.ip, sample.kernel);
    let (access, stack) = (None, None);
    let mapped_bytes = if tells_pages { sample.mapped_bytes() } else { None };
    let what = match role {
        Role::Entry | Role::Again => What::Enter { addr, ip, kernel, access, mapped_bytes },
        Role::Minor => What::End { addr, major: false, stack, mapped_bytes },
        Role::Major => What::End { addr, major: true, stack, mapped_bytes },
        Role::SampleEntry(_) => What::SampleEnter { addr, ip, mapped_bytes },
        Role::Sample(weight) => {
            What::Sample { addr, ip, kernel, major: false, access, stack, weight, mapped_bytes }
        }
        Role::MajorSample => {
            What::Sample { addr, ip, kernel, major: true, access, stack, weight: 1, mapped_bytes }
        }
        Role::Cpu => What::Cpu { kernel, stack },
        Role::LockWanted => What::LockWait { write: false, wait_ns: 0 },
        Role::LockTaken(at) => What::LockWait { write: *sample.fields()?.get(at)? != 0, wait_ns: 0 },
        Role::Tasks => return None,
    };
    let record = Record { time_ns: sample.time_ns, pid: sample.pid, tid: sample.tid, what };
    Some((record, Some((role, sample))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_that_are_apart_are_told_once_and_those_of_others_do_not_count() {
        let mut drain = Drain { first: 7, ..Drain::default() };
        let mut sample = |tid, entry: u64, end: u64| {
            let record = |what| Record { time_ns: 1, pid: 7, tid, what };
            drain.note_drift(&record(What::SampleEnter { addr: entry, ip: 1, mapped_bytes: None }));
            let (kernel, major, access, stack, weight) = (false, false, None, None, 97);
            let what =
                What::Sample { addr: end, ip: 1, kernel, major, access, stack, weight, mapped_bytes: None };
            drain.note_drift(&record(what));
            drain.is_apart()
        };
        assert!(!sample(7, 1, 1) && !sample(7, 1, 2) && !sample(8, 1, 2) && !sample(8, 1, 2));
        assert!(sample(7, 3, 4) && !sample(7, 4, 5), "the second, and asked anew");
        assert!(!sample(7, 5, 5) && !sample(7, 5, 6), "one that matches begins anew");
    }
}
