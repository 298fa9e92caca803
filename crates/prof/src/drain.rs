//! From the rings to records, in the order of time.
//!
//! In: the per-CPU buffers of a session, and the span in which faults are wanted. Out: [`Record`]s with the
//! access decoded and the stack unwound, the number of faults, and the number of records that the rings lost.
//!
//! It does not pair entries with ends (`trace`), or unwind (`unwind`).

use std::collections::BTreeSet;
use std::ops::Range;

use faultless_os::counters::now_ns;
use faultless_os::ring::{Raw, Sample, records};
use faultless_trace::file::Line;
use faultless_trace::observation::{KernelSamples, Map, Record, SourceNote, What};
use faultless_trace::pairer::Pairer;
use faultless_trace::recording::{Loss, Mark};
use rustc_hash::FxHashMap;

use crate::allocations::Allocations;
use crate::calls::Begun;
use crate::decode::{Decoder, Fault};
use crate::kernel::KernelStacks;
use crate::members::{Members, Task};
use crate::samples::Samples;
use crate::session::{CpuBuffer, Role, Roles};
use crate::shape::Flushes;
use crate::symbols::NameCache;
use crate::thinning::Thinning;
use crate::tuning as t;
use crate::unwind::{Unwinder, UserStack};
use crate::write_cost::WriteCosts;

/// All records so far.
#[derive(Debug, Default)]
pub(crate) struct Drain {
    roles: Roles,
    decoder: Decoder,
    pub(crate) samples: Samples,
    /// Of faults of bursts: they are kept at the end, which has the registers.
    entries: Pairer<Record>,
    /// What each thread's last record was, and its time.
    last: FxHashMap<u32, (Role, u64)>,
    /// See [`Digest`].
    waited: u64,
    thinning: Thinning,
    pub(crate) write_costs: WriteCosts,
    /// Samples of faults end with the size of the mapped page.
    tells_pages: bool,
    /// One per buffer.
    copied: Vec<Copied>,
    records: Vec<Record>,
    task_records: usize,
    /// Mappings and tasks left out because there were too many.
    pub(crate) omitted: u64,
    /// Whose records are kept.
    pub(crate) members: Members,
    /// System calls that have not ended.
    calls: Begun,
    losses: Vec<Loss>,
    /// All records before this time have been copied. Later ones are missing for some processors.
    settled_ns: u64,
    /// Present if samples have stacks.
    stacks: Option<StackState>,
}

/// Bytes copied from one ring and not digested yet.
#[derive(Debug, Default)]
struct Copied {
    cpu: u32,
    bytes: Vec<u8>,
    /// Time of the last digested record.
    last_ns: u64,
}

/// What stacks need.
#[derive(Debug)]
struct StackState {
    unwinder: Unwinder,
    /// Those of the CPU clock in the kernel.
    kernel: KernelStacks,
    chain: Vec<u64>,
    kernel_chain: Vec<u64>,
    /// Threads that have asked for `mmap_lock`, and when.
    lock_wanted: FxHashMap<u32, u64>,
    /// Processes whose exit has been read. Their last allocations have not been.
    ended: Vec<u32>,
    allocations: Option<Allocations>,
    /// The processes of threads.
    pids: FxHashMap<u32, u32>,
    /// Allocations lost by the last reading, and when that was.
    allocations_lost: (u64, u64),
}

/// Options of a recording with stacks.
#[derive(Debug)]
pub(crate) struct StackOptions {
    /// Samples of the CPU clock per second, 0 for none.
    pub(crate) cpu_hertz: u64,
    /// What programs tell of their allocations.
    pub(crate) allocations: Option<Allocations>,
    /// Names of earlier recordings.
    pub(crate) names: Option<NameCache>,
    /// Files are left without names.
    pub(crate) leaves_files: bool,
}

/// What was copied from the rings.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct CopyCounts {
    /// Entries of faults, wanted or not: each has cost the program time.
    pub(crate) faults: u64,
    /// Entries of samples.
    pub(crate) samples: u64,
    /// Thread switches.
    pub(crate) switches: u64,
    /// Records lost.
    pub(crate) lost: u64,
}

/// What digested records tell the recorder.
#[derive(Debug, Default)]
pub(crate) struct Digest {
    /// Forks, execs and exits of whole processes, in order.
    pub(crate) tasks: Vec<Task>,
    /// Faults whose thread lost its processor, as far as switches are recorded, and major ones.
    pub(crate) waited: u64,
    /// Records lost: how many, and the time of the last record before them.
    pub(crate) losses: Vec<(u64, u64)>,
}

impl Drain {
    /// Knows the events of these buffers by their ids. `first`: the program's first thread, if the events belong to threads.
    pub(crate) fn new(buffers: &[CpuBuffer], first: Option<u32>) -> Self {
        let roles = Roles::of(buffers);
        let last_ns = now_ns();
        let copied =
            buffers.iter().map(|buffer| Copied { cpu: buffer.cpu, last_ns, ..Copied::default() }).collect();
        let tells_pages = buffers.iter().all(CpuBuffer::tells_pages);
        Self { roles, copied, tells_pages, samples: Samples::of(first), ..Self::default() }
    }

    /// The same for buffers whose samples hold stacks.
    pub(crate) fn with_stacks(buffers: &[CpuBuffer], first: Option<u32>, options: StackOptions) -> Self {
        let StackOptions { cpu_hertz, allocations, names, leaves_files } = options;
        let stacks = StackState {
            unwinder: Unwinder::new(names, leaves_files),
            kernel: KernelStacks::at(cpu_hertz),
            chain: Vec::new(),
            kernel_chain: Vec::new(),
            lock_wanted: FxHashMap::default(),
            ended: Vec::new(),
            allocations,
            pids: FxHashMap::default(),
            allocations_lost: (0, now_ns()),
        };
        Self { stacks: Some(stacks), ..Self::new(buffers, first) }
    }

    /// Copies what the rings hold, to make room. [`digest`](Self::digest) interprets the bytes later, because
    /// that can be slow: the first stack in a large file takes 30 ms.
    pub(crate) fn copy(&mut self, buffers: &[CpuBuffer]) -> CopyCounts {
        let mut found = CopyCounts::default();
        self.settled_ns = now_ns();
        let begins: Vec<usize> = self.copied.iter().map(|copied| copied.bytes.len()).collect();
        for (buffer, copied) in buffers.iter().zip(&mut self.copied) {
            buffer.ring.drain_into(&mut copied.bytes);
        }
        for (copied, begin) in self.copied.iter().zip(begins) {
            for raw in records(&copied.bytes[begin..]) {
                match raw {
                    Raw::Lost { lost, .. } => found.lost += lost,
                    Raw::Switch(_) => found.switches += 1,
                    Raw::Sample(sample) => match self.roles.get(sample.id) {
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

    /// No more writes will come: everything copied can be digested.
    pub(crate) fn settle(&mut self) {
        self.settled_ns = u64::MAX;
    }

    /// Makes records of what was copied, and keeps the faults inside `span`. Records that arrived while the
    /// rings were being copied wait for the next call: a child's records may be on another processor than its
    /// fork.
    pub(crate) fn digest(&mut self, span: Range<u64>) -> Digest {
        let mut digest = Digest::default();
        if let Some(StackState { unwinder, ended, .. }) = &mut self.stacks {
            ended.drain(..).for_each(|pid| unwinder.exit(pid));
        }
        let mut all = std::mem::take(&mut self.copied);
        let mut unread = Vec::with_capacity(all.len());
        // Times and bytes: a record is many times as long.
        let mut batch = Vec::new();
        for Copied { cpu, bytes, last_ns } in &mut all {
            let mut raws = records(bytes);
            let mut rest = raws.rest();
            while let Some(raw) = raws.next() {
                let time_ns = raw.time_ns().unwrap_or(*last_ns);
                if time_ns >= self.settled_ns {
                    break;
                }
                let here = std::mem::replace(&mut rest, raws.rest());
                if let Raw::Lost { lost, .. } = raw {
                    // The ring was full from its last record on.
                    digest.losses.push((lost, *last_ns));
                    self.losses.push(Loss { cpu: Some(*cpu), begin_ns: *last_ns, end_ns: time_ns, lost });
                } else {
                    batch.push((time_ns, here));
                    *last_ns = time_ns;
                }
            }
            unread.push(rest.len());
        }
        batch.sort_by_key(|&(time_ns, _)| time_ns);
        let read = |(_, bytes)| records(bytes).next();
        let (roles, tells_pages) = (std::mem::take(&mut self.roles), self.tells_pages);
        let wanted = |raw| interpret(raw, &roles, tells_pages, &span);
        for (record, source) in batch.into_iter().filter_map(read).flat_map(wanted) {
            if !self.members.keep(&record, &mut digest.tasks) {
                continue;
            }
            // Linux 6.18 gives the second of two events of one fault the id of the first. Here, a sample in a
            // burst gets the id of the pair. It may arrive in the next batch, if it was written just after
            // the rings were copied.
            if let Some((role, _)) = source
                && self.last.insert(record.tid, (role, record.time_ns)) == Some((role, record.time_ns))
            {
                if role == Role::Entry {
                    self.write_costs.again(record.tid, record.time_ns);
                }
                continue;
            }
            match (source.map(|(role, _)| role), &record.what) {
                (Some(Role::Again), _) => {
                    self.write_costs.again(record.tid, record.time_ns);
                    continue;
                }
                (Some(Role::SampleEntry(_)), _) => self.write_costs.again(record.tid, record.time_ns),
                (_, What::Exit) => {
                    self.write_costs.exit(record.tid);
                    self.samples.exit(record.tid);
                    if let Some(endless) = self.entries.take(record.tid).0 {
                        self.keep_entry(endless.with, None);
                    }
                    self.last.remove(&record.tid);
                    self.records.extend(self.calls.end(record.clone()));
                }
                _ => {}
            }
            match source {
                Some((Role::LockWanted, _)) => self.lock_wanted(&record),
                Some((Role::CallBegin(_), sample)) => self.call_begins(record, sample),
                Some((Role::CallEnd(_), _)) => self.records.extend(self.calls.end(record)),
                Some((_, sample)) => self.keep(record, Some(sample), &mut digest.tasks),
                None => self.keep(record, None, &mut digest.tasks),
            }
        }
        self.roles = roles;
        for (Copied { bytes, .. }, rest) in all.iter_mut().zip(unread) {
            bytes.drain(..bytes.len() - rest);
            bytes.shrink_to(t::COPIED_BYTES_KEPT);
        }
        self.copied = all;
        if self.settled_ns == u64::MAX {
            let endless = std::mem::take(&mut self.entries).into_open();
            endless.for_each(|entry| self.keep_entry(entry.with, None));
            self.records.extend(std::mem::take(&mut self.calls).into_open());
        }
        digest.waited = std::mem::take(&mut self.waited);
        digest
    }

    /// The records, sorted by time.
    pub(crate) fn finish(mut self) -> Vec<Record> {
        self.records.sort_by_key(|record| record.time_ns);
        self.records
    }

    /// New lines of a trace file; each refers only to earlier ones.
    pub(crate) fn take_lines(&mut self) -> impl Iterator<Item = Line> {
        self.take_allocations();
        let stacks = self.stacks.as_mut().map(|stacks| stacks.unwinder.take_lines());
        let losses = self.losses.drain(..).map(Line::Loss);
        stacks.into_iter().flatten().chain(losses).chain(self.records.drain(..).map(Line::from))
    }

    /// Takes the allocations that programs have recorded. The rings were read before, so the mappings are
    /// known.
    fn take_allocations(&mut self) {
        let Some(stacks) = &mut self.stacks else { return };
        let Some(allocations) = &mut stacks.allocations else { return };
        let unwinder = &mut stacks.unwinder;
        let pid_of = |tid| stacks.pids.get(&tid).copied().unwrap_or(tid);
        self.records.extend(allocations.take(pid_of, |pid, stack| unwinder.stack(pid, stack)));
        let (lost, end_ns) = (allocations.lost(), now_ns());
        let (before, begin_ns) = std::mem::replace(&mut stacks.allocations_lost, (lost, end_ns));
        if lost > before {
            self.losses.push(Loss { cpu: None, begin_ns, end_ns, lost: lost - before });
        }
    }

    /// Faults of the programs in the journal of their allocations.
    pub(crate) fn journal_faults(&self) -> u64 {
        let allocations = self.stacks.as_ref().and_then(|stacks| stacks.allocations.as_ref());
        allocations.map_or(0, Allocations::populated_faults)
    }

    /// The names of all functions on stacks, and a note on each source of names.
    pub(crate) fn name_stacks(&mut self) -> (Vec<Line>, Vec<SourceNote>) {
        self.stacks.as_mut().map(|stacks| stacks.unwinder.name()).unwrap_or_default()
    }

    /// The allocators and runtimes in the files that were mapped, if stacks are recorded.
    pub(crate) fn marks(&self) -> Vec<Mark> {
        self.stacks.as_ref().map(|stacks| stacks.unwinder.marks()).unwrap_or_default()
    }

    /// All processes that were seen, if stacks are recorded.
    pub(crate) fn pids(&self) -> Option<&BTreeSet<u32>> {
        self.stacks.as_ref().map(|stacks| stacks.unwinder.pids())
    }

    /// Samples of the CPU clock in the kernel.
    ///
    /// # Errors
    /// As [`KernelStacks::finish`].
    pub(crate) fn kernel_samples(&mut self) -> Result<KernelSamples, String> {
        let kernel = self.stacks.as_mut().map(|stacks| std::mem::take(&mut stacks.kernel));
        kernel.unwrap_or_default().finish(true)
    }

    /// A record that no ring held: the state of a running process when we attached.
    pub(crate) fn add(&mut self, record: Record) {
        self.keep(record, None, &mut Vec::new());
    }

    fn keep(&mut self, mut record: Record, sample: Option<Sample<'_>>, tasks: &mut Vec<Task>) {
        let pid = record.pid;
        match &mut record.what {
            What::Enter { addr, .. } => {
                let addr = *addr;
                if let Some(endless) = self.entries.enter(record.tid, record.time_ns, addr, record) {
                    self.keep_entry(endless.with, None);
                }
                return;
            }
            What::Sample { .. } => return self.keep_sample(record, sample),
            What::SampleEnter { addr, .. } => return self.samples.enter(*addr, record),
            What::End { addr, stack, .. } => {
                let (entry, off_cpu) = self.entries.take(record.tid);
                if let Some(entry) = entry {
                    self.waited += u64::from(off_cpu.ns() > 0);
                    if entry.addr == *addr {
                        self.write_costs.add(record.tid, entry.time_ns, record.time_ns);
                    }
                    self.keep_entry(entry.with, sample);
                }
                *stack = self.unwind(pid, sample);
                return self.records.push(record);
            }
            What::Switch { out, preempted } => {
                self.entries.switch(record.tid, record.time_ns, *out, *preempted);
                self.samples.switch(record.tid, record.time_ns, *out, *preempted);
                self.calls.switch(record.tid, record.time_ns, *out);
            }
            What::Cpu { kernel, stack } => {
                *stack = self.unwind(pid, sample);
                if let Some(stacks) = &mut self.stacks {
                    let ip = sample.map_or(0, |sample| sample.ip);
                    stacks.kernel.count(*kernel, &stacks.kernel_chain, ip);
                }
                return self.records.push(record);
            }
            What::LockWait { wait_ns, by, .. } => {
                let wanted_ns =
                    self.stacks.as_mut().and_then(|stacks| stacks.lock_wanted.remove(&record.tid));
                *wait_ns = wanted_ns.map_or(0, |wanted_ns| record.time_ns.saturating_sub(wanted_ns));
                if *wait_ns < t::LOCK_WAIT_NS {
                    return;
                }
                let ip = sample.and_then(|sample| sample.user_ip());
                *by = ip.and_then(|ip| self.decoder.entry(pid, ip)).map(str::to_owned);
            }
            What::Map(map) => {
                self.decoder.map(pid, map);
                if let Some(stacks) = &mut self.stacks {
                    stacks.unwinder.map(pid, map);
                }
            }
            What::Fork { parent } if *parent == pid => {
                if let Some(stacks) = &mut self.stacks {
                    stacks.pids.insert(record.tid, pid);
                }
            }
            What::Fork { parent } => {
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
            // Only trace files with stacks need names; there they are written out, not kept in memory.
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

    /// Keeps a sample and its entry, in memory only some of them.
    fn keep_sample(&mut self, mut end: Record, sample: Option<Sample<'_>>) {
        let (entry, off_cpu) = self.samples.end(&end);
        let What::Sample { addr, ip, kernel, major, access, stack, weight, .. } = &mut end.what else {
            return;
        };
        self.waited += u64::from(*major || off_cpu.ns() > 0);
        if self.stacks.is_none() && !*major {
            let Some(every) = self.thinning.keep() else { return };
            *weight *= every;
        }
        self.records.extend(entry);
        if !*kernel {
            let registers = self.registers(sample);
            *access = self.decoder.access(Fault { pid: end.pid, ip: *ip, addr: *addr, registers });
        }
        *stack = self.unwind(end.pid, sample);
        self.records.push(end);
    }

    /// Keeps the entry of a fault; `end`: the sample at the fault's end.
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

    fn call_begins(&mut self, mut record: Record, sample: Sample<'_>) {
        if let (What::Call { stack, .. }, Some(copy)) = (&mut record.what, sample.stack_of_fields()) {
            *stack = self
                .stacks
                .as_mut()
                .and_then(|stacks| stacks.unwinder.stack(record.pid, &UserStack::of(copy)));
        }
        self.records.extend(self.calls.begin(record));
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
        let (chain, kernel_chain) = (stacks.chain.as_slice(), stacks.kernel_chain.as_slice());
        stacks.unwinder.stack(pid, &UserStack { chain, kernel_chain, ..UserStack::of(copy) })
    }
}

/// A record, with the sample it was made from.
type Made<'a> = (Record, Option<(Role, Sample<'a>)>);

/// The records that a raw one stands for; of faults only those in `span`.
fn interpret<'a>(
    raw: Raw<'a>,
    roles: &Roles,
    tells_pages: bool,
    span: &Range<u64>,
) -> impl Iterator<Item = Made<'a>> + use<'a> {
    let mut exec = None;
    let record = match raw {
        Raw::Sample(sample) => {
            let role = roles.get(sample.id);
            let is_wanted = |role: &Role| {
                let is_fault = matches!(role, Role::Entry | Role::Again | Role::Minor | Role::Major);
                !is_fault || span.contains(&sample.time_ns)
            };
            let made = role.filter(is_wanted).and_then(|role| from_sample(sample, role, tells_pages));
            return None.into_iter().chain(made);
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
            Some(Record { time_ns: map.time_ns, pid: map.pid, tid: map.tid, what })
        }
        Raw::Fork(task) => Some(from_task(task, What::Fork { parent: task.parent })),
        Raw::Exit(task) => Some(from_task(task, What::Exit)),
        Raw::Name(name) => {
            exec = name.exec.then(|| (from_task(name.task, What::Exec), None));
            Some(from_task(name.task, What::Name(String::from_utf8_lossy(name.name).into_owned())))
        }
        Raw::Switch(switch) => {
            let what = What::Switch { out: switch.out, preempted: switch.preempted };
            Some(Record { time_ns: switch.time_ns, pid: switch.pid, tid: switch.tid, what })
        }
        Raw::Lost { .. } | Raw::Other => None,
    };
    exec.into_iter().chain(record.map(|record| (record, None)))
}

fn from_task(task: faultless_os::ring::Task, what: What) -> Record {
    Record { time_ns: task.time_ns, pid: task.pid, tid: task.tid, what }
}

fn from_sample(sample: Sample<'_>, role: Role, tells_pages: bool) -> Option<Made<'_>> {
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
        Role::CallBegin(fields) => fields.begin(sample.fields()?)?,
        Role::CallEnd(fields) => fields.end(sample.fields()?)?,
        Role::Flush(at) => {
            let reason = sample.fields()?.get(at..at + 4)?.try_into().ok()?;
            What::Flush { sent: i32::from_ne_bytes(reason) == Flushes::SENT, weight: t::FLUSH_PERIOD }
        }
        Role::LockWanted => What::LockWait { write: false, wait_ns: 0, by: None },
        Role::LockTaken(at) => {
            What::LockWait { write: *sample.fields()?.get(at)? != 0, wait_ns: 0, by: None }
        }
        Role::Switches | Role::Timing | Role::Tasks => return None,
    };
    let record = Record { time_ns: sample.time_ns, pid: sample.pid, tid: sample.tid, what };
    Some((record, Some((role, sample))))
}
