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
use crate::kernel;
use crate::session::{Lane, Role};
use crate::tuning as t;
use crate::unwind::{Unwinder, UserStack};

/// All records so far.
#[derive(Debug, Default)]
pub(crate) struct Drain {
    /// By id, ascending: looked up for every record.
    roles: Vec<(u64, Role)>,
    decoder: Decoder,
    records: Vec<Record>,
    task_records: usize,
    /// Mappings and tasks that were left out because there were too many.
    pub(crate) omitted: u64,
    bytes: Vec<u8>,
    /// When the last record of each lane was written.
    last_ns: Vec<u64>,
    losses: Vec<Loss>,
    /// Where stacks come along.
    stacks: Option<Stacks>,
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

/// What one look at the rings found.
#[derive(Clone, Debug, Default)]
pub(crate) struct Drained {
    /// Entries of faults, wanted or not: each has cost the program its time.
    pub(crate) faults: u64,
    /// Records lost.
    pub(crate) lost: u64,
    /// Forks, execs and exits of whole processes, in order.
    pub(crate) tasks: Vec<Task>,
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
    pub(crate) fn new(lanes: &[Lane]) -> Self {
        let mut roles: Vec<_> = lanes.iter().flat_map(Lane::roles).collect();
        roles.sort_by_key(|&(id, _)| id);
        Self { roles, last_ns: vec![0; lanes.len()], ..Self::default() }
    }

    /// The same for lanes whose samples hold stacks. `hertz`: of the CPU clock.
    pub(crate) fn with_stacks(lanes: &[Lane], hertz: u64, allocations: Option<Allocations>) -> Self {
        let stacks = Stacks {
            unwinder: Unwinder::new(),
            kernel: kernel::Stacks::at(hertz),
            chain: Vec::new(),
            kernel_chain: Vec::new(),
            lock_wanted: HashMap::new(),
            ended: Vec::new(),
            allocations,
            allocations_lost: (0, now_ns()),
        };
        Self { stacks: Some(stacks), ..Self::new(lanes) }
    }

    /// Takes what the rings hold. Faults are kept where their time lies in `span`.
    pub(crate) fn take(&mut self, lanes: &mut [Lane], span: Range<u64>) -> Drained {
        let mut drained = Drained::default();
        if let Some(Stacks { unwinder, ended, .. }) = &mut self.stacks {
            ended.drain(..).for_each(|pid| unwinder.exit(pid));
        }
        let mut bytes = std::mem::take(&mut self.bytes);
        bytes.clear();
        let mut ends = Vec::with_capacity(lanes.len());
        for lane in &mut *lanes {
            lane.ring.drain_into(&mut bytes);
            ends.push(bytes.len());
        }
        let mut batch = Vec::new();
        let mut begin = 0;
        for (lane, (end, last_ns)) in lanes.iter().zip(ends.into_iter().zip(&mut self.last_ns)) {
            for raw in records(&bytes[begin..end]) {
                if let Raw::Lost { lost, time_ns } = raw {
                    // The ring was full from its last record on.
                    let loss = Loss { cpu: Some(lane.cpu), begin_ns: *last_ns, end_ns: time_ns, lost };
                    self.losses.push(loss);
                    drained.lost += lost;
                } else {
                    let before = batch.len();
                    sort_in(raw, &self.roles, &span, &mut drained, &mut batch);
                    *last_ns = batch[before..].last().map_or(*last_ns, |(record, _)| record.time_ns);
                }
            }
            begin = end;
        }
        batch.sort_by_key(|(record, _)| record.time_ns);
        for (record, source) in batch {
            match source {
                Some((Role::LockWanted, _)) => self.lock_wanted(&record),
                Some((_, sample)) => self.keep(record, Some(sample), &mut drained.tasks),
                None => self.keep(record, None, &mut drained.tasks),
            }
        }
        self.bytes = bytes;
        drained
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

    /// The names of all that was on stacks.
    pub(crate) fn name_stacks(&mut self) -> (Vec<Line>, Option<SourceNote>) {
        let Some(stacks) = &mut self.stacks else { return Default::default() };
        (stacks.unwinder.name(), stacks.unwinder.note())
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
        match &mut record.what {
            What::Enter { addr, ip, kernel, access } => {
                if !*kernel {
                    let registers = sample.and_then(|sample| sample.string_registers());
                    *access = self.decoder.access(Fault { pid, ip: *ip, addr: *addr, registers });
                }
                return self.records.push(record);
            }
            What::Sample { addr, ip, kernel, access, stack, .. } => {
                if !*kernel {
                    let registers = sample.and_then(|sample| sample.stack()?.registers);
                    let registers = registers.map(|registers| registers.string);
                    *access = self.decoder.access(Fault { pid, ip: *ip, addr: *addr, registers });
                }
                *stack = self.unwind(pid, sample);
                return self.records.push(record);
            }
            What::End { stack, .. } => {
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

fn sort_in<'a>(
    raw: Raw<'a>,
    roles: &[(u64, Role)],
    span: &Range<u64>,
    drained: &mut Drained,
    batch: &mut Vec<Pending<'a>>,
) {
    let record = match raw {
        Raw::Sample(sample) => {
            let Ok(at) = roles.binary_search_by_key(&sample.id, |&(id, _)| id) else { return };
            let role = roles[at].1;
            let is_fault = matches!(role, Role::Entry | Role::Minor | Role::Major);
            drained.faults += u64::from(role == Role::Entry);
            if !is_fault || span.contains(&sample.time_ns) {
                batch.extend(from_sample(sample, role));
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

fn from_sample(sample: Sample<'_>, role: Role) -> Option<Pending<'_>> {
    let (addr, ip, kernel) = (sample.addr, sample.ip, sample.kernel);
    let (access, stack) = (None, None);
    let what = match role {
        Role::Entry => What::Enter { addr, ip, kernel, access },
        Role::Minor => What::End { addr, major: false, stack },
        Role::Major => What::End { addr, major: true, stack },
        Role::Sample(weight) => What::Sample { addr, ip, kernel, major: false, access, stack, weight },
        Role::MajorSample => What::Sample { addr, ip, kernel, major: true, access, stack, weight: 1 },
        Role::Cpu => What::Cpu { kernel, stack },
        Role::LockWanted => What::LockWait { write: false, wait_ns: 0 },
        Role::LockTaken(at) => What::LockWait { write: *sample.fields()?.get(at)? != 0, wait_ns: 0 },
        Role::Tasks => return None,
    };
    let record = Record { time_ns: sample.time_ns, pid: sample.pid, tid: sample.tid, what };
    Some((record, Some((role, sample))))
}
