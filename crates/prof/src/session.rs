//! The events of one run: which could be opened, and a note on each.
//!
//! In: whom to watch, the allowed sources, and the shape of the records. Out: a [`Session`]. Every source is
//! tried by opening it, from the most detailed form down: with kernel mode, else user mode only; the largest
//! ring that can be mapped, else smaller ones.
//!
//! It does not read the rings (`drain`), or decide when to record (`budget`).

mod copier;
mod cpu_buffer;
mod timed;

use std::collections::BTreeMap;
use std::os::fd::BorrowedFd;

use faultless_os::close::close_later;
use faultless_os::perf::{Event, Output, Software, Spec, Target};
use faultless_os::ring::Ring;
use faultless_os::spawn::allow_many_descriptors;
use faultless_os::{Error, Result};
use faultless_trace::observation::{Counts, EventLoss, SourceNote};

use crate::in_kernel::Timed;
use crate::machine::Machine;
use crate::remedy::remedy;
use crate::request::{Kernel, Sources};
use crate::shape::Shape;
use crate::{calibrate, facts, tuning as t};

pub(crate) use copier::Copier;
use cpu_buffer::Sampled;
pub(crate) use cpu_buffer::{CpuBuffer, Role};
pub(crate) use timed::{Attempt, BPF};

/// Whom to watch.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Watched<'a> {
    /// A child that waits before its exec; events start with the exec.
    Held(i32),
    /// Running threads; events start with [`Session::begin`].
    Running(&'a [i32]),
    /// All tasks of these processors; events start with [`Session::begin`].
    Machine(&'a [u32]),
}

/// Stands for all tasks of a processor, in perf_event_open(2).
const ALL_TASKS: i32 = -1;

impl<'a> Watched<'a> {
    fn tasks(&'a self) -> &'a [i32] {
        match self {
            Self::Held(pid) => std::slice::from_ref(pid),
            Self::Running(tids) => tids,
            Self::Machine(_) => &[ALL_TASKS],
        }
    }

    /// Counts an event of all tasks.
    fn count(self, event: Software, user_only: bool) -> Result<Counter> {
        let spec = self.begin(Spec { event, user_only, ..COUNT });
        let open = |target| Event::open(&spec, target, None);
        let events: Result<_> = match self {
            Self::Machine(cpus) => {
                cpus.iter().map(|&cpu| open(Target { pid: ALL_TASKS, cpu: Some(cpu) })).collect()
            }
            _ => {
                let tasks = self.tasks().iter().map(|&pid| open(Target { pid, cpu: None }));
                tasks.filter_map(|opened| self.unless_gone(opened)).collect()
            }
        };
        Ok(Counter(events?))
    }

    /// Leaves out a thread that has ended since it was listed, if others are watched.
    fn unless_gone<T>(self, opened: Result<T>) -> Option<Result<T>> {
        let is_gone = |error: &Error| error.is_gone() && self.tasks().len() > 1;
        if opened.as_ref().is_err_and(is_gone) { None } else { Some(opened) }
    }

    /// The same, with kernel mode if that is allowed.
    fn in_any_mode(self, event: Software) -> Result<Counter> {
        self.count(event, false).or_else(|_| self.count(event, true))
    }

    /// Puts the begin into `spec`.
    fn begin(self, spec: Spec) -> Spec {
        let held = matches!(self, Self::Held(_));
        Spec { on_exec: held, disabled: !held, ..spec }
    }
}

/// The same event on every watched task.
#[derive(Debug, Default)]
struct Counter(Vec<Event>);

impl Counter {
    fn count(&self) -> Option<u64> {
        if self.0.is_empty() { None } else { self.0.iter().map(|event| event.count().ok()).sum() }
    }
}

/// Everything that is open on the program.
#[derive(Debug, Default)]
pub(crate) struct Session {
    /// PAGE_FAULTS in user mode, the whole tree.
    user: Counter,
    /// PAGE_FAULTS in all modes.
    all: Counter,
    /// PAGE_FAULTS_MIN.
    minor: Counter,
    /// PAGE_FAULTS_MAJ.
    major: Counter,
    /// CPU time of the tree.
    clock: Counter,
    /// Faults that the kernel times itself, in place of the counters.
    pub(crate) timed: Option<Timed>,
    /// Counters of the machine at the start.
    machine: Machine,
    /// One per processor.
    pub(crate) buffers: Vec<CpuBuffer>,
    /// One per processor; empty without the rights.
    pub(crate) kernel: Vec<KernelBuffer>,
    /// What became of each source.
    pub(crate) notes: Vec<SourceNote>,
    /// Single faults of user mode only.
    pub(crate) user_only: bool,
    /// Samples of the CPU clock per second in the buffers, 0 for none.
    pub(crate) cpu_hertz: u64,
    /// Waits for `mmap_lock` are recorded.
    pub(crate) sees_locks: bool,
    /// Calls that change the address space are recorded.
    pub(crate) sees_calls: bool,
    /// TLB flushes are recorded.
    pub(crate) sees_flushes: bool,
    /// Faults per sample, and that figure at first; 0: no samples, or no denser ones at first.
    period: u64,
    early_period: u64,
    /// User-mode faults that no sampled event counted: the events were off for long.
    uncounted: u64,
}

/// What the records of each event mean, by its id, ascending: every record is looked up.
#[derive(Debug, Default)]
pub(crate) struct Roles(Vec<(u64, Role)>);

impl Roles {
    pub(crate) fn of(buffers: &[CpuBuffer]) -> Self {
        let mut roles: Vec<_> = buffers.iter().flat_map(CpuBuffer::roles).collect();
        roles.sort_by_key(|&(id, _)| id);
        Self(roles)
    }

    pub(crate) fn get(&self, id: u64) -> Option<Role> {
        self.0.binary_search_by_key(&id, |&(id, _)| id).ok().map(|at| self.0[at].1)
    }
}

/// Kernel stacks of one processor.
#[derive(Debug)]
pub(crate) struct KernelBuffer {
    pub(crate) ring: Ring,
    _event: Event,
}

impl Session {
    /// Opens every allowed source that works.
    pub(crate) fn open(watched: Watched<'_>, allow: Sources, shape: &Shape) -> Self {
        allow_many_descriptors();
        let mut session = Self::default();
        if allow.counters {
            session.machine = Machine::now(shape.stack_bytes > 0);
            session.open_counters(watched);
        } else {
            session.note(COUNTER, false, "not asked for");
        }
        let counts = !session.user.0.is_empty();
        let cpus = online_cpus(watched.tasks().first().copied().unwrap_or(0));
        if !allow.pairs {
            session.note(PAIRS, false, "not asked for");
        } else if counts {
            session.open_buffers(watched, &cpus, shape);
        } else {
            session.note(PAIRS, false, NEED_COUNTER);
        }
        if counts && (shape.period == 0 || session.buffers.is_empty()) {
            session.open_whole(watched);
        }
        if allow.kernel == Kernel::No {
            session.note(KERNEL, false, "not asked for");
        } else if allow.counters && !counts {
            // Refused for the same reason, which is said once.
            session.note(KERNEL, false, NEED_COUNTER);
        } else {
            session.open_kernel(watched, &cpus, allow.kernel.hertz());
        }
        session
    }

    /// Why no single fault is recorded.
    pub(crate) fn denied(&self) -> String {
        let denied = |note: &&SourceNote| {
            [COUNTER, PAIRS].contains(&note.source.as_str()) && !note.used && note.note != NEED_COUNTER
        };
        self.notes.iter().find(denied).map(|note| note.note.clone()).unwrap_or_default()
    }

    fn open_counters(&mut self, watched: Watched<'_>) {
        self.user = self.noted(COUNTER, watched.count(Software::PageFaults, true));
        // The clock of a processor counts its idle time too.
        if !matches!(watched, Watched::Machine(_)) {
            self.clock = watched.count(Software::TaskClock, true).unwrap_or_default();
        }
    }

    /// Opens the counters that sampled events replace otherwise: every open event costs every fault.
    fn open_whole(&mut self, watched: Watched<'_>) {
        self.all = self.noted("page-faults in kernel mode too", watched.count(Software::PageFaults, false));
        self.minor = watched.in_any_mode(Software::MinorFaults).unwrap_or_default();
        self.major = self.noted("major-faults", watched.in_any_mode(Software::MajorFaults));
    }

    fn open_buffers(&mut self, watched: Watched<'_>, cpus: &[u32], shape: &Shape) {
        let opened = |pages, user_only, shape: &Shape| -> Result<Vec<CpuBuffer>> {
            cpus.iter().map(|&cpu| CpuBuffer::open(watched, cpu, pages, user_only, shape)).collect()
        };
        let mut shape = *shape;
        let mut pages = shape.ring_pages;
        let mut user_only = false;
        loop {
            match opened(pages, user_only, &shape) {
                Ok(buffers) => {
                    let kib = buffers.first().map_or(0, |buffer| buffer.ring.data_bytes() >> 10);
                    let modes = if user_only { "user mode only" } else { "user and kernel mode" };
                    let mut note = format!("{modes}, {kib} KiB of ring per processor");
                    if pages < shape.ring_pages.min(t::RING_PAGES_MAX) {
                        note += ", which is little: raise kernel.perf_event_mlock_kb or RLIMIT_MEMLOCK";
                    }
                    self.note(PAIRS, true, &note);
                    (self.buffers, self.user_only) = (buffers, user_only);
                    return self.takes(&shape, user_only);
                }
                Err(error) if error.call == "perf_event_open" && error.is_denied() && shape.traces() => {
                    (shape.locks, shape.calls, shape.flushes) = (None, None, None);
                }
                Err(error) if error.call == "perf_event_open" && error.is_denied() && !user_only => {
                    self.note("page-faults in kernel mode too", false, &remedy(error));
                    user_only = true;
                }
                Err(error) if error.call.starts_with("mmap") && pages > t::RING_PAGES_MIN => pages /= 2,
                Err(error) => return self.note(PAIRS, false, &remedy(error)),
            }
        }
    }

    /// Notes what its buffers were opened with.
    fn takes(&mut self, shape: &Shape, user_only: bool) {
        self.cpu_hertz = shape.hertz(user_only);
        self.sees_locks = shape.locks.is_some();
        self.sees_calls = shape.calls.is_some();
        self.sees_flushes = shape.flushes.is_some();
        (self.period, self.early_period) = (shape.period, shape.early_period);
    }

    fn open_kernel(&mut self, watched: Watched<'_>, cpus: &[u32], hertz: u64) {
        let Watched::Held(pid) = watched else { return self.note(KERNEL, false, "not of a running process") };
        let buffers: Result<Vec<KernelBuffer>> = cpus
            .iter()
            .map(|&cpu| {
                let spec =
                    Spec { event: Software::CpuClock, output: Output::KernelStacks { hertz }, ..COUNT };
                let event = Event::open(&spec, Target { pid, cpu: Some(cpu) }, None)?;
                Ok(KernelBuffer { ring: Ring::map(&event, t::KERNEL_RING_PAGES)?, _event: event })
            })
            .collect();
        self.kernel = self.noted(KERNEL, buffers);
    }

    /// Switches on what was opened on running threads.
    pub(crate) fn begin(&self) {
        self.buffers.iter().for_each(|buffer| buffer.begin(self.sample_period()));
        // Counters last, so that they count no fault that the sampled events have missed.
        for event in self.counters() {
            // As in `record_faults`.
            let _ = event.enable();
        }
    }

    /// Switches everything off for good, so that counts and records end together.
    pub(crate) fn end(&self) {
        for event in self.counters() {
            // An event of a task that has ended is off already.
            let _ = event.disable();
        }
        self.buffers.iter().for_each(CpuBuffer::end);
    }

    /// Closes the slow descriptors without waiting.
    pub(crate) fn close_tracepoints(&mut self) {
        close_later(self.buffers.iter_mut().flat_map(CpuBuffer::take_tracepoints).map(Into::into).collect());
    }

    fn counters(&self) -> impl Iterator<Item = &Event> {
        [&self.user, &self.all, &self.minor, &self.major, &self.clock]
            .into_iter()
            .flat_map(|counter| &counter.0)
    }

    /// What each event lost; `None` where the kernel does not tell.
    pub(crate) fn event_losses(&self) -> Option<Vec<EventLoss>> {
        let losses: Option<Vec<_>> = self.buffers.iter().map(CpuBuffer::losses).collect();
        losses.map(|losses| losses.into_iter().flatten().collect())
    }

    /// Descriptors that become readable when the fault rings need a poll.
    pub(crate) fn wakers(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.buffers.iter().map(CpuBuffer::waker)
    }

    /// Faults in user mode so far.
    pub(crate) fn user_faults(&self) -> Option<u64> {
        self.timed_sums().map(|sums| sums.user()).or_else(|| self.user.count())
    }

    /// Faults so far: of all modes if those can be counted, else of user mode.
    pub(crate) fn faults(&self) -> Option<u64> {
        let sampled = || self.sampled(Sampled::All).filter(|_| !self.user_only);
        if let Some(sums) = self.timed_sums() {
            return Some(sums.all());
        }
        self.all.count().or_else(sampled).or_else(|| self.user_faults())
    }

    /// CPU time of the tree so far.
    pub(crate) fn cpu_ns(&self) -> Option<u64> {
        self.clock.count()
    }

    /// How far the machine's counters have risen.
    pub(crate) fn machine(&self) -> BTreeMap<String, u64> {
        self.machine.risen()
    }

    /// The exact counts so far, and those of the machine.
    pub(crate) fn counts(&self, before_exec_faults: u64, machine: &BTreeMap<String, u64>) -> Counts {
        let [huge, collapsed] = facts::HUGE_PAGES.map(|name| machine.get(name).copied());
        Counts {
            huge_at_most: huge,
            huge_collapsed: collapsed,
            huge_ns: huge.filter(|huge| *huge > 0).and_then(|_| calibrate::huge_ns()),
            cpu_ns: self.clock.count(),
            before_exec_faults,
            running: 0,
            ..self.fault_counts()
        }
    }

    /// Only those of faults.
    fn fault_counts(&self) -> Counts {
        if let Some(sums) = self.timed_sums() {
            return Counts {
                user_faults: Some(sums.user()),
                all_faults: Some(sums.all()),
                minor_faults: Some(sums.all_minor().faults),
                major_faults: Some(sums.all_major().faults),
                ..Counts::default()
            };
        }
        let all = || Some(self.sampled(Sampled::All).filter(|_| !self.user_only)? + self.unsampled());
        let minor = || Some(self.sampled(Sampled::Minor)? + self.unsampled());
        Counts {
            user_faults: self.user.count(),
            all_faults: self.all.count().or_else(all),
            minor_faults: self.minor.count().or_else(minor),
            major_faults: self.major.count().or_else(|| self.sampled(Sampled::Major)),
            ..Counts::default()
        }
    }

    /// Faults that the sampled events of all processors have counted; `None` without such events.
    fn sampled(&self, of: Sampled) -> Option<u64> {
        let counts = self.buffers.iter().map(|buffer| buffer.sampled(of)).sum::<Option<u64>>();
        counts.filter(|_| !self.buffers.is_empty())
    }

    /// Faults that happened while the sampled events were off. Without them these faults would look like failed
    /// accesses.
    fn unsampled(&self) -> u64 {
        let counted = self.user.count().zip(self.sampled(Sampled::All));
        // Sampled events also see kernel-mode faults, so the counter never exceeds them for another reason.
        counted.map_or(0, |(user, sampled)| user.saturating_sub(sampled)).max(self.uncounted)
    }

    /// Runs work that switches the sampled events off for a moment: 50 us, or longer if this thread loses its
    /// processor. The counter of user mode says how many faults they missed.
    fn with_samples_off(&mut self, work: impl FnOnce(&Self)) {
        let (sampled, user) = (self.sampled(Sampled::All), self.user.count());
        work(self);
        let since =
            |now: Option<u64>, then: Option<u64>| now.zip(then).map(|(now, then)| now.saturating_sub(then));
        let user = since(self.user.count(), user);
        let sampled = since(self.sampled(Sampled::All), sampled);
        self.uncounted += user.zip(sampled).map_or(0, |(user, sampled)| user.saturating_sub(sampled));
    }

    /// Whether faults are counted at least.
    pub(crate) fn counts_faults(&self) -> bool {
        !self.user.0.is_empty() || self.timed.is_some()
    }

    /// Whether faults are recorded, or samples of them at least.
    pub(crate) fn samples_faults(&self) -> bool {
        !self.buffers.is_empty()
    }

    /// Whether single faults can be recorded, all of them for a while.
    pub(crate) fn records_faults(&self) -> bool {
        self.samples_faults() && self.timed.is_none()
    }

    /// Switches the recording of single faults, in all processes of the tree.
    pub(crate) fn record_faults(&self, on: bool) {
        self.buffers.iter().for_each(|buffer| buffer.record_faults(on));
    }

    /// The same for thread switches.
    pub(crate) fn record_switches(&self, on: bool) {
        self.buffers.iter().for_each(|buffer| buffer.record_switches(on));
    }

    /// Begins samples anew, see [`CpuBuffer::align_samples`].
    pub(crate) fn align_samples(&mut self) {
        self.with_samples_off(|session| {
            session.buffers.iter().for_each(|buffer| buffer.align_samples(session.sample_period()));
        });
    }

    /// Faults per sample now.
    fn sample_period(&self) -> u64 {
        if self.samples_densely() { self.early_period } else { self.period }
    }

    /// Samples are still denser than they will be.
    pub(crate) fn samples_densely(&self) -> bool {
        self.early_period > 0
    }

    /// Samples are rarer from now on.
    pub(crate) fn thin_samples(&mut self) {
        let early_period = std::mem::take(&mut self.early_period);
        self.with_samples_off(|session| {
            session.buffers.iter().for_each(|buffer| buffer.sample(session.period, early_period));
        });
    }

    /// Notes what became of a source; once if two attempts failed alike.
    pub(crate) fn note(&mut self, source: &str, used: bool, note: &str) {
        if self.notes.iter().any(|known| known.source == source && known.used == used && known.note == note) {
            return;
        }
        self.notes.push(SourceNote { source: source.into(), used, note: note.into() });
    }

    /// Adds to the note of a source that is used.
    pub(crate) fn add_to_note(&mut self, source: &str, more: &str) {
        if let Some(known) = self.notes.iter_mut().find(|known| known.source == source && known.used) {
            known.note = format!("{}; {more}", known.note);
        }
    }

    fn noted<T: Default>(&mut self, source: &str, opened: Result<T>) -> T {
        match &opened {
            Ok(_) => self.note(source, true, ""),
            Err(error) => self.note(source, false, &remedy(*error)),
        }
        opened.unwrap_or_default()
    }
}

/// Name of the source that counts.
const COUNTER: &str = "page-faults:u";
/// Name of the source of single faults.
pub(crate) const PAIRS: &str = "fault pairs";
/// Why other sources are not tried without it.
const NEED_COUNTER: &str = "not without the counter page-faults:u";

/// Name of the source of kernel stacks.
pub(crate) const KERNEL: &str = "cpu-clock with kernel stacks";

const COUNT: Spec = Spec {
    event: Software::PageFaults,
    output: Output::Count,
    user_only: false,
    inherit: true,
    on_exec: true,
    disabled: false,
};

/// Processors online, from sysfs. If that is hidden: those that an event on `pid` can be opened for, at least
/// processor 0.
pub(crate) fn online_cpus(pid: i32) -> Vec<u32> {
    let list = std::fs::read_to_string("/sys/devices/system/cpu/online").unwrap_or_default();
    let mut cpus = parse_cpus(&list);
    if cpus.is_empty() {
        let spec = Spec { event: Software::Dummy, user_only: true, ..COUNT };
        let known = |cpu: &u32| Event::open(&spec, Target { pid, cpu: Some(*cpu) }, None).is_ok();
        cpus = (0..t::CPUS_MAX).take_while(known).collect();
    }
    if cpus.is_empty() { vec![0] } else { cpus }
}

/// `0-3,8` as numbers.
fn parse_cpus(list: &str) -> Vec<u32> {
    let range = |part: &str| -> Option<std::ops::RangeInclusive<u32>> {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        Some(first.parse().ok()?..=last.parse().ok()?)
    };
    list.trim().split(',').filter_map(range).flatten().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_processors_are_read() {
        assert_eq!(parse_cpus("0-2,8\n"), [0, 1, 2, 8]);
        assert_eq!(parse_cpus("0\n"), [0]);
        assert!(parse_cpus("").is_empty());
    }
}
