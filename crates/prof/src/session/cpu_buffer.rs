//! The per-CPU buffer: one ring, and all events of that processor that write into it.
//!
//! In: whom to watch, and a [`Shape`]. Out: a [`CpuBuffer`]. The stack of a fault is recorded at its end. The
//! kernel takes the time stamp before it copies the stack, so stacks don't lengthen the measured interval.
//!
//! It does not read the ring (`drain`).

use std::os::fd::{AsFd, BorrowedFd};

use faultless_os::perf::{Event, Output, Software, Spec, Target};
use faultless_os::ring::Ring;
use faultless_os::{Error, Result};
use faultless_trace::observation::EventLoss;

use super::copier::BufferedRing;
use super::{COUNT, Watched};
use crate::calls::{Fields, Points};
use crate::in_kernel::{Point, Timer};
use crate::remedy::remedy;
use crate::shape::{Flushes, Shape, entry};
use crate::tuning as t;

/// No such process (errno(3)).
const ESRCH: i32 = 3;

/// What a record means, by the event it came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// A fault's entry.
    Entry,
    /// The same entry a second time, for one fault in [`t::WRITE_COST_PERIOD`].
    Again,
    /// End of a minor fault.
    Minor,
    /// End of a major fault.
    Major,
    /// The entry of one fault in so many.
    SampleEntry(u64),
    /// The end of one minor fault in so many.
    Sample(u64),
    /// A major fault, also outside bursts.
    MajorSample,
    /// The CPU clock.
    Cpu,
    /// A thread asks for the lock of the address space.
    LockWanted,
    /// The thread has got it; the byte offset of the "write" flag in the sample.
    LockTaken(usize),
    /// A call begins that changes the address space.
    CallBegin(Fields),
    /// It ends.
    CallEnd(Fields),
    /// A processor is told to flush its TLB; the byte offset of the reason in the sample.
    Flush(usize),
    /// Thread switches; no samples.
    Switches,
    /// A program times faults; no samples.
    Timing,
    /// Mappings and tasks; no samples.
    Tasks,
}

impl Role {
    /// As a trace file names it.
    fn name(self) -> &'static str {
        match self {
            Self::Entry => "entry",
            Self::Again => "entry again",
            Self::Minor => "minor end",
            Self::Major => "major end",
            Self::SampleEntry(_) => "sample entry",
            Self::Sample(_) => "sample",
            Self::MajorSample => "major sample",
            Self::Cpu => "cpu clock",
            Self::LockWanted => "lock wanted",
            Self::LockTaken(_) => "lock taken",
            Self::CallBegin(_) => "call begin",
            Self::CallEnd(_) => "call end",
            Self::Flush(_) => "TLB flush",
            Self::Switches => "switches",
            Self::Timing => "timing",
            Self::Tasks => "tasks",
        }
    }
}

/// What sampled events count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sampled {
    All,
    Minor,
    Major,
}

/// The ring and the events of one processor.
#[derive(Debug)]
pub(crate) struct CpuBuffer {
    /// Everything.
    pub(crate) ring: BufferedRing,
    /// The processor.
    pub(crate) cpu: u32,
    /// All events. The first owns the ring. Its descriptor is readable once another 1/[`t::WAKE_PART`] of the
    /// ring is full.
    events: Vec<(Role, Event)>,
}

impl CpuBuffer {
    /// Opens the events of `shape` for every watched task.
    pub(super) fn open(
        watched: Watched<'_>,
        cpu: u32,
        pages: usize,
        user_only: bool,
        shape: &Shape,
    ) -> Result<Self> {
        let target = |pid| Target { pid, cpu: Some(cpu) };
        let mut buffer = Self::owner(watched, cpu, pages)?;
        for &pid in watched.tasks() {
            watched.unless_gone(buffer.add_faults(watched, target(pid), user_only, shape)).transpose()?;
        }
        Ok(buffer)
    }

    /// Opens events of all tasks of a processor: samples, and those at which `timer` runs. The program at the entry is
    /// opened first and so runs last, those at the end run first: samples don't lengthen what they measure.
    pub(super) fn open_timed(
        cpu: u32,
        pages: usize,
        shape: &Shape,
        timer: &Timer,
    ) -> std::result::Result<Self, String> {
        let watched = Watched::Machine(std::slice::from_ref(&cpu));
        let target = Target { pid: super::ALL_TASKS, cpu: Some(cpu) };
        let mut buffer = Self::owner(watched, cpu, pages).map_err(remedy)?;
        let begun = watched.begin(COUNT);
        let spec = Spec { output: Output::Program, ..begun };
        let entry = Event::open(&spec, target, None).map_err(remedy)?;
        timer.run_at(&entry, Point::Begin)?;
        let watches = |buffer: &mut Self| {
            buffer.add_tracepoints(watched, target, shape)?;
            buffer.add_clock(begun, target, shape.hertz(false), shape.stack_bytes)?;
            buffer.add_samples_of(begun, target, shape)
        };
        watches(&mut buffer).map_err(remedy)?;
        let end = |event, point| {
            let spec = Spec { event, disabled: false, ..spec };
            let event = Event::open(&spec, target, Some(&entry)).map_err(remedy)?;
            timer.run_at(&event, point).map(|()| (Role::Timing, event))
        };
        let ends =
            [end(Software::MinorFaults, Point::MinorEnd)?, end(Software::MajorFaults, Point::MajorEnd)?];
        buffer.events.push((Role::Timing, entry));
        buffer.events.extend(ends);
        Ok(buffer)
    }

    /// Opens the event that owns the ring.
    fn owner(watched: Watched<'_>, cpu: u32, pages: usize) -> Result<Self> {
        let wake_bytes = (pages * faultless_os::page::size() / t::WAKE_PART) as u32;
        let spec =
            Spec { event: Software::Dummy, output: Output::Tasks { wake_bytes }, user_only: true, ..COUNT };
        let spec = watched.begin(spec);
        let mut opened = watched
            .tasks()
            .iter()
            .filter_map(|&pid| watched.unless_gone(Event::open(&spec, Target { pid, cpu: Some(cpu) }, None)));
        // Every task that was listed has ended.
        let first = opened.next().unwrap_or(Err(Error::new("perf_event_open", ESRCH)))?;
        let ring = BufferedRing::new(Ring::map(&first, pages)?);
        let mut buffer = Self { ring, cpu, events: vec![(Role::Tasks, first)] };
        for event in opened {
            let event = event?;
            event.redirect_to(&buffer.events[0].1)?;
            buffer.events.push((Role::Tasks, event));
        }
        Ok(buffer)
    }

    /// Opens the events of one task. The event opened first is counted last. So the end of a pair is written
    /// before a sample's, and samples don't lengthen the pair's reading, except by one entry in so many
    /// faults.
    fn add_faults(
        &mut self,
        watched: Watched<'_>,
        target: Target,
        user_only: bool,
        shape: &Shape,
    ) -> Result<()> {
        let begun = watched.begin(Spec { user_only, ..COUNT });
        self.add_tracepoints(watched, target, shape)?;
        if shape.switches {
            let spec = Spec { event: Software::Dummy, output: Output::Switches, user_only: true, ..begun };
            self.add(Role::Switches, &spec, target, None)?;
        }
        self.add_clock(begun, target, shape.hertz(user_only), shape.stack_bytes)?;
        self.add_samples_of(begun, target, shape)?;
        // The leader is counted last, so its record follows the entry's, inside the interval that the pair
        // measures.
        let again = Spec { output: entry(t::WRITE_COST_PERIOD), ..begun };
        let again = if shape.live { Spec { on_exec: false, disabled: true, ..again } } else { again };
        let leader = self.add(Role::Again, &again, target, None)?;
        let entry = Spec { output: entry(1), on_exec: false, disabled: false, ..begun };
        self.add(Role::Entry, &entry, target, Some(leader))?;
        let end = |event| Spec { event, output: shape.end(1), ..entry };
        self.add(Role::Minor, &end(Software::MinorFaults), target, Some(leader))?;
        self.add(Role::Major, &end(Software::MajorFaults), target, Some(leader))?;
        Ok(())
    }

    /// The tracepoints of `shape`.
    fn add_tracepoints(&mut self, watched: Watched<'_>, target: Target, shape: &Shape) -> Result<()> {
        let stack_bytes = shape.stack_bytes;
        for (role, id) in shape.locks.iter().flat_map(|locks| {
            [(Role::LockWanted, locks.wanted), (Role::LockTaken(locks.write_at), locks.taken)]
        }) {
            let begun = watched.begin(COUNT);
            let output = Output::Fields { period: 1 };
            let spec = Spec { event: Software::Tracepoint(id), output, ..begun };
            self.add(role, &spec, target, None)?;
        }
        if let Some(flushes) = shape.flushes {
            let output = Output::Fields { period: t::FLUSH_PERIOD };
            let event = Software::Tracepoint(flushes.id);
            let spec = Spec { event, output, ..watched.begin(COUNT) };
            let at = self.add(Role::Flush(flushes.reason_at), &spec, target, None)?;
            self.events[at].1.filter(Flushes::FILTER)?;
        }
        if let Some(calls) = shape.calls {
            for (role, id, output) in [
                (Role::CallBegin(calls.fields), calls.begin, Output::FieldStacks { stack_bytes }),
                (Role::CallEnd(calls.fields), calls.end, Output::Fields { period: 1 }),
            ] {
                let spec = Spec { event: Software::Tracepoint(id), output, ..watched.begin(COUNT) };
                let at = self.add(role, &spec, target, None)?;
                self.events[at].1.filter(&Points::filter())?;
            }
        }
        Ok(())
    }

    /// Samples of the CPU clock.
    fn add_clock(&mut self, begun: Spec, target: Target, hertz: u64, stack_bytes: u32) -> Result<()> {
        if hertz > 0 {
            let output = Output::CpuStacks { hertz, stack_bytes };
            let spec = Spec { event: Software::CpuClock, output, ..begun };
            self.add(Role::Cpu, &spec, target, None)?;
        }
        Ok(())
    }

    /// The samples of `shape`.
    fn add_samples_of(&mut self, begun: Spec, target: Target, shape: &Shape) -> Result<()> {
        if shape.live {
            let chains = Spec { output: Output::UserStacks { period: shape.period }, ..begun };
            self.add(Role::SampleEntry(shape.period), &chains, target, None)?;
        } else if shape.period > 0 {
            let spec = Spec { event: Software::MajorFaults, output: shape.end(1), ..begun };
            self.add(Role::MajorSample, &spec, target, None)?;
            self.add_samples(begun, target, shape, shape.period)?;
            if shape.early_period > 0 {
                self.add_samples(begun, target, shape, shape.early_period)?;
            }
        }
        Ok(())
    }

    /// Entry and end of one fault in `period`. With the same period and a common start, both sample the same
    /// faults.
    fn add_samples(&mut self, begun: Spec, target: Target, shape: &Shape, period: u64) -> Result<()> {
        let waits = shape.early_period > 0 && period != shape.early_period;
        let begun = if waits { Spec { on_exec: false, disabled: true, ..begun } } else { begun };
        let spec = Spec { output: entry(period), ..begun };
        let leader = self.add(Role::SampleEntry(period), &spec, target, None)?;
        let end = Spec { event: Software::MinorFaults, output: shape.end(period), ..begun };
        let end = Spec { on_exec: false, disabled: false, ..end };
        self.add(Role::Sample(period), &end, target, Some(leader))?;
        Ok(())
    }

    /// Opens an event that writes into this ring. Returns its index.
    fn add(&mut self, role: Role, spec: &Spec, target: Target, group: Option<usize>) -> Result<usize> {
        let event = Event::open(spec, target, group.map(|leader| &self.events[leader].1))?;
        event.redirect_to(&self.events[0].1)?;
        self.events.push((role, event));
        Ok(self.events.len() - 1)
    }

    /// Readable when the ring needs a poll.
    pub(super) fn waker(&self) -> BorrowedFd<'_> {
        self.events[0].1.as_fd()
    }

    /// Switches everything on; of the samples, only those with this period.
    pub(super) fn begin(&self, period: u64) {
        let leads = |role: &Role| match role {
            Role::SampleEntry(of) => *of == period,
            Role::Entry | Role::Minor | Role::Major | Role::Sample(_) => false,
            _ => true,
        };
        for (_, event) in self.events.iter().filter(|(role, _)| leads(role)) {
            let _ = event.enable();
        }
    }

    /// Switches everything off.
    pub(super) fn end(&self) {
        for (_, event) in &self.events {
            let _ = event.disable();
        }
    }

    /// Switches the recording of single faults.
    pub(super) fn record_faults(&self, on: bool) {
        // A leader takes its group along.
        for (_, leader) in self.events.iter().filter(|(role, _)| *role == Role::Again) {
            // The kernel refuses this for no event that it has opened. If one stayed off, its window would
            // hold too few records, which its exact count would show.
            let _ = if on { leader.enable() } else { leader.disable() };
        }
    }

    /// Switches the recording of thread switches.
    pub(super) fn record_switches(&self, on: bool) {
        for (_, event) in self.events.iter().filter(|(role, _)| *role == Role::Switches) {
            // As in `record_faults`.
            let _ = if on { event.enable() } else { event.disable() };
        }
    }

    /// Realigns entries and ends, after an entry whose end did not count has put them out of step. Threads
    /// and children that inherited the events keep their own count.
    pub(super) fn align_samples(&self, period: u64) {
        for pair in self.samples(period) {
            // As in `record_faults`. If it were refused, the samples would stay out of step.
            let _ = pair[0].1.disable();
            let _ = pair.iter().try_for_each(|(_, event)| event.begin_period(period));
            let _ = pair[0].1.enable();
        }
    }

    /// Switches samples from the period `instead_of` to this one.
    pub(super) fn sample(&self, period: u64, instead_of: u64) {
        for pair in self.samples(instead_of) {
            // As in `record_faults`.
            let _ = pair[0].1.disable();
        }
        for pair in self.samples(period) {
            let _ = pair[0].1.enable();
        }
    }

    /// Entry and end events of the samples of a period, for each task.
    fn samples(&self, period: u64) -> impl Iterator<Item = &[(Role, Event)]> {
        self.events.windows(2).filter(move |pair| pair[0].0 == Role::SampleEntry(period))
    }

    /// Switches off all events that write samples, for good. The sampled events of faults stay on, because
    /// they count as well.
    pub(crate) fn silence(&self) {
        let counts = |role: &Role| {
            use Role::{MajorSample, Sample, SampleEntry, Switches, Tasks, Timing};
            matches!(role, Tasks | Switches | Timing | SampleEntry(_) | Sample(_) | MajorSample)
        };
        for (_, event) in self.events.iter().filter(|(role, _)| !counts(role)) {
            let _ = event.disable();
        }
    }

    /// Takes out the events that are slow to close.
    pub(super) fn take_tracepoints(&mut self) -> impl Iterator<Item = Event> {
        use Role::{CallBegin, CallEnd, Flush, LockTaken, LockWanted};
        let is_slow = |(role, _): &mut (Role, Event)| {
            matches!(role, LockWanted | LockTaken(_) | CallBegin(_) | CallEnd(_) | Flush(_))
        };
        self.events.extract_if(.., is_slow).map(|(_, event)| event)
    }

    /// The ids of all events that write samples.
    pub(crate) fn roles(&self) -> impl Iterator<Item = (u64, Role)> {
        let samples = self.events.iter().filter(|(role, _)| *role != Role::Tasks);
        samples.filter_map(|(role, event)| Some((event.id().ok()?, *role)))
    }

    /// Whether samples of faults give the size of the mapped page.
    pub(crate) fn tells_pages(&self) -> bool {
        self.events.iter().any(|(role, event)| *role == Role::Entry && event.tells_pages())
    }

    /// Faults that the sampled events have counted: all, minor or major; `None` without such events.
    pub(super) fn sampled(&self, of: Sampled) -> Option<u64> {
        let counts = |role: &Role| match role {
            Role::SampleEntry(_) => of == Sampled::All,
            Role::Sample(_) => of == Sampled::Minor,
            Role::MajorSample => of == Sampled::Major,
            _ => false,
        };
        let mut events = self.events.iter().filter(|(role, _)| counts(role)).peekable();
        events.peek()?;
        events.map(|(_, event)| event.count().ok()).sum()
    }

    /// What each event has lost; `None` where the kernel does not tell.
    pub(super) fn losses(&self) -> Option<Vec<EventLoss>> {
        let mut losses: Vec<EventLoss> = Vec::new();
        for (role, event) in &self.events {
            let lost = event.lost()?;
            match losses.iter_mut().find(|loss| loss.event == role.name()) {
                Some(loss) => loss.lost += lost,
                None => losses.push(EventLoss { event: role.name().into(), cpu: self.cpu, lost }),
            }
        }
        Some(losses)
    }
}
