//! What is recorded on one processor: one ring, and all events that write into it.
//!
//! In: whom to watch, and a [`Shape`]. Out: a [`Lane`]. The stack of a fault goes with its end, whose time the kernel takes
//! before it copies the stack: so what lies between entry and end is no longer than without.
//!
//! What it does not do: read the ring (`drain`).

use std::os::fd::{AsFd, BorrowedFd};

use faultless_os::Result;
use faultless_os::counters::now_ns;
use faultless_os::perf::{Event, Output, Software, Spec, Target};
use faultless_os::ring::Ring;
use faultless_os::tracepoint::Tracepoint;
use faultless_trace::observation::EventLoss;

use super::spool::Spool;
use super::{COUNT, Watched};
use crate::tuning as t;

/// What is recorded beside single faults, and how much of each.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    /// Bytes of stack copied with a fault's end; 0: no stacks.
    pub(crate) stack_bytes: u32,
    /// Faults per sample that is also taken outside bursts, and every major one; 0: none.
    pub(crate) period: u64,
    /// The same at first, until [`Session::thin_samples`](super::Session::thin_samples); 0: no other.
    pub(crate) early_period: u64,
    /// Samples of the CPU clock per second, 0 for none; `None`: [`t::KERNEL_CHEAP_HERTZ`] where the kernel may be seen, else none.
    pub(crate) cpu_hertz: Option<u64>,
    /// Where waits for the lock of the address space can be seen.
    pub(crate) locks: Option<Locks>,
    /// Whether threads get or give up processors.
    pub(crate) switches: bool,
    /// Largest ring, pages.
    pub(crate) ring_pages: usize,
}

impl Shape {
    /// Bare faults.
    pub(crate) const BARE: Self = Self {
        stack_bytes: 0,
        period: 0,
        early_period: 0,
        cpu_hertz: Some(0),
        locks: None,
        switches: false,
        ring_pages: t::RING_PAGES_MAX,
    };

    /// With samples, as many as are cheap where a fault takes `fault_ns`.
    pub(crate) fn sampled(self, fault_ns: f64) -> Self {
        let cost_ns = if self.stack_bytes > 0 { t::STACK_SAMPLE_COST_NS } else { t::SAMPLE_COST_NS };
        let cheap = |period: &u64| cost_ns / *period as f64 <= t::SAMPLE_SHARE * fault_ns;
        let [.., last] = t::SAMPLE_PERIODS;
        let least = t::SAMPLE_PERIODS.into_iter().find(cheap).unwrap_or(last);
        let early_period = if self.stack_bytes > 0 { t::EARLY_STACK_PERIOD } else { t::EARLY_SAMPLE_PERIOD };
        Self { period: period_from(least, now_ns()), early_period, ..self }
    }

    /// Samples of the CPU clock per second, without or with the kernel.
    pub(super) fn hertz(&self, user_only: bool) -> u64 {
        self.cpu_hertz.unwrap_or(if user_only { 0 } else { t::KERNEL_CHEAP_HERTZ })
    }

    /// What the end of one fault of so many writes. Registers come with it, not with the entry, where they would lengthen what lies
    /// between the two.
    pub(crate) fn end(&self, period: u64) -> Output {
        match self.stack_bytes {
            0 => Output::Faults { period, registers: true },
            stack_bytes => Output::FaultStacks { period, stack_bytes },
        }
    }
}

/// A prime between `least` and 5/4 of it, or a little more.
fn period_from(least: u64, seed: u64) -> u64 {
    let is_prime = |n: &u64| (2..).take_while(|d| d * d <= *n).all(|d| !n.is_multiple_of(d));
    let from = least + seed % (least / 4);
    (from..).find(is_prime).unwrap_or(least)
}

/// The tracepoints of `mmap_lock`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Locks {
    wanted: u32,
    taken: u32,
    /// Where the latter says whether it is for writing, bytes.
    write_at: usize,
}

impl Locks {
    /// Finds them (Linux 5.11, CONFIG_TRACING, root).
    pub(crate) fn find() -> Option<Self> {
        let wanted = Tracepoint::find("mmap_lock/mmap_lock_start_locking")?;
        let taken = Tracepoint::find("mmap_lock/mmap_lock_acquire_returned")?;
        Some(Self { wanted: wanted.id, taken: taken.id, write_at: taken.offset("write")? })
    }
}

/// What a record is for, by the event it came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// A fault's entry.
    Entry,
    /// The same once more, of one in [`t::WRITING_PERIOD`].
    Again,
    /// End of a minor fault.
    Minor,
    /// End of a major fault.
    Major,
    /// The entry of one fault of so many.
    SampleEntry(u64),
    /// The end of one minor fault of so many.
    Sample(u64),
    /// A major fault, also outside bursts.
    MajorSample,
    /// The CPU clock.
    Cpu,
    /// The lock of the address space is asked for.
    LockWanted,
    /// It was given; where the sample says whether for writing, bytes.
    LockTaken(usize),
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
            Self::Tasks => "tasks",
        }
    }
}

/// What the entry of one fault of so many writes.
pub(crate) fn entry(period: u64) -> Output {
    Output::Faults { period, registers: false }
}

/// What sampled events count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sampled {
    All,
    Minor,
    Major,
}

/// What is recorded on one processor.
#[derive(Debug)]
pub(crate) struct Lane {
    /// Everything.
    pub(crate) ring: Spool,
    /// The processor.
    pub(crate) cpu: u32,
    /// All events. The first owns the ring, and is readable once a [`t::WAKE_PART`]th more of that is full.
    events: Vec<(Role, Event)>,
}

impl Lane {
    /// Opens the events of `shape` for every watched task.
    pub(super) fn open(
        watched: Watched<'_>,
        cpu: u32,
        pages: usize,
        user_only: bool,
        shape: &Shape,
    ) -> Result<Self> {
        let tasks = watched.tasks();
        let target = |pid| Target { pid, cpu: Some(cpu) };
        let wake_bytes = (pages * faultless_os::page::size() / t::WAKE_PART) as u32;
        let output = Output::Tasks { wake_bytes, switches: shape.switches };
        let owner = Spec { event: Software::Dummy, output, user_only: true, ..COUNT };
        let owner = watched.begin(owner);
        let (first, rest) = tasks.split_first().unwrap_or((&0, &[]));
        let first = Event::open(&owner, target(*first), None)?;
        let ring = Spool::new(Ring::map(&first, pages)?);
        let mut lane = Self { ring, cpu, events: vec![(Role::Tasks, first)] };
        for &pid in rest {
            lane.add(Role::Tasks, &owner, target(pid), None)?;
        }
        for &pid in tasks {
            lane.add_faults(watched, target(pid), user_only, shape)?;
        }
        Ok(lane)
    }

    /// The events of one task. What is opened first is counted last: the end of a pair is written before that of a sample, and what a
    /// sample writes does not lengthen what the pair reads, but for its entry in one fault of so many.
    fn add_faults(
        &mut self,
        watched: Watched<'_>,
        target: Target,
        user_only: bool,
        shape: &Shape,
    ) -> Result<()> {
        let begun = watched.begin(Spec { user_only, ..COUNT });
        let stack_bytes = shape.stack_bytes;
        for (role, id) in shape.locks.iter().flat_map(|locks| {
            [(Role::LockWanted, locks.wanted), (Role::LockTaken(locks.write_at), locks.taken)]
        }) {
            let begun = watched.begin(COUNT);
            let spec = Spec { event: Software::Tracepoint(id), output: Output::Fields, ..begun };
            self.add(role, &spec, target, None)?;
        }
        let hertz = shape.hertz(user_only);
        if hertz > 0 {
            let output = Output::CpuStacks { hertz, stack_bytes };
            let spec = Spec { event: Software::CpuClock, output, ..begun };
            self.add(Role::Cpu, &spec, target, None)?;
        }
        if shape.period > 0 {
            let spec = Spec { event: Software::MajorFaults, output: shape.end(1), ..begun };
            self.add(Role::MajorSample, &spec, target, None)?;
            self.add_samples(begun, target, shape, shape.period)?;
            if shape.early_period > 0 {
                self.add_samples(begun, target, shape, shape.early_period)?;
            }
        }
        // The leader is counted last, so its record comes behind that of the entry, and is part of what the pair reads.
        let again = Spec { output: entry(t::WRITING_PERIOD), ..begun };
        let leader = self.add(Role::Again, &again, target, None)?;
        let entry = Spec { output: entry(1), on_exec: false, disabled: false, ..begun };
        self.add(Role::Entry, &entry, target, Some(leader))?;
        let end = |event| Spec { event, output: shape.end(1), ..entry };
        self.add(Role::Minor, &end(Software::MinorFaults), target, Some(leader))?;
        self.add(Role::Major, &end(Software::MajorFaults), target, Some(leader))?;
        Ok(())
    }

    /// Entry and end of one fault of `period`: with the same period, and begun together, both take the same faults.
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

    /// Opens an event that writes into this ring; its place among the events.
    fn add(&mut self, role: Role, spec: &Spec, target: Target, group: Option<usize>) -> Result<usize> {
        let event = Event::open(spec, target, group.map(|leader| &self.events[leader].1))?;
        event.redirect_to(&self.events[0].1)?;
        self.events.push((role, event));
        Ok(self.events.len() - 1)
    }

    /// Readable when there is something worth reading.
    pub(super) fn waker(&self) -> BorrowedFd<'_> {
        self.events[0].1.as_fd()
    }

    /// Switches everything on, of samples those of this period.
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
            // The kernel refuses this for no event that it has opened; were one to stay off, its window would hold too few
            // records, which shows against the window's exact count.
            let _ = if on { leader.enable() } else { leader.disable() };
        }
    }

    /// Begins samples anew, entries and ends together, after an entry whose end did not count had set them apart. Threads and children that
    /// inherited them keep their own count.
    pub(super) fn align_samples(&self, period: u64) {
        for pair in self.samples(period) {
            // As in `record_faults`; were one refused, its samples would have no partner, as before.
            let _ = pair[0].1.disable();
            let _ = pair.iter().try_for_each(|(_, event)| event.begin_period(period));
            let _ = pair[0].1.enable();
        }
    }

    /// From now on samples of this period, and no others.
    pub(super) fn sample(&self, period: u64, instead_of: u64) {
        for pair in self.samples(instead_of) {
            // As in `record_faults`.
            let _ = pair[0].1.disable();
        }
        for pair in self.samples(period) {
            let _ = pair[0].1.enable();
        }
    }

    /// Entry and end of the samples of a period, for each task.
    fn samples(&self, period: u64) -> impl Iterator<Item = &[(Role, Event)]> {
        self.events.windows(2).filter(move |pair| pair[0].0 == Role::SampleEntry(period))
    }

    /// Switches off all that writes samples, for good, but for the sampled events of faults, which count as well.
    pub(crate) fn silence(&self) {
        let counts = |role: &Role| {
            matches!(role, Role::Tasks | Role::SampleEntry(_) | Role::Sample(_) | Role::MajorSample)
        };
        for (_, event) in self.events.iter().filter(|(role, _)| !counts(role)) {
            let _ = event.disable();
        }
    }

    /// Takes out the events that are closed slowly.
    pub(super) fn take_tracepoints(&mut self) -> impl Iterator<Item = Event> {
        let is_slow = |(role, _): &mut (Role, Event)| matches!(role, Role::LockWanted | Role::LockTaken(_));
        self.events.extract_if(.., is_slow).map(|(_, event)| event)
    }

    /// The ids of all events that write samples.
    pub(crate) fn roles(&self) -> impl Iterator<Item = (u64, Role)> {
        let samples = self.events.iter().filter(|(role, _)| *role != Role::Tasks);
        samples.filter_map(|(role, event)| Some((event.id().ok()?, *role)))
    }

    /// Whether samples of faults tell what page is mapped.
    pub(crate) fn tells_pages(&self) -> bool {
        self.events.iter().any(|(role, event)| *role == Role::Entry && event.tells_pages())
    }

    /// Faults that sampled events have counted: all, the minor or the major ones; `None` where there are none.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn periods_are_primes_of_which_no_two_recordings_need_have_the_same() {
        for least in t::SAMPLE_PERIODS {
            let drawn: std::collections::BTreeSet<u64> =
                (0..1000).map(|seed| period_from(least, seed)).collect();
            assert!(drawn.len() >= 4, "{drawn:?}");
            assert!(drawn.iter().all(|&n| n >= least && n <= least * 4 / 3), "{drawn:?}");
            assert!(drawn.iter().all(|&n| (2..n).all(|d| !n.is_multiple_of(d))), "{drawn:?}");
        }
    }
}
