//! Records, one by one -> faults with duration, mapping and kind so far.
//!
//! Entries with their ends are the faults of bursts; sampled ends, with an entry or without, are the samples. A pair
//! that crosses the border of a window with losses is not timed.
//!
//! It does not look ahead: what later faults tell of earlier ones is added at the end.

use super::kind::{self, History, Touch};
use super::mappings::{self, Mapping, Processes};
use super::{Fault, Faults, MapRecord, find_window};
use crate::kind::Kind;
use crate::observation::{Access, Observation, Record, What, Window};
use crate::pairer::{Entry, Pairer};

/// Base pages in a transparent huge page of unknown size: 2 MiB of 4 KiB.
const HUGE_PAGES: u64 = 512;

/// Where and how memory was touched.
#[derive(Clone, Copy)]
struct At {
    addr: u64,
    ip: u64,
    kernel: bool,
    access: Option<Access>,
}

/// The entry of a sample.
#[derive(Clone, Copy)]
struct Sampled {
    ip: u64,
    was_mapped: Option<bool>,
}

/// What the records so far tell.
pub(super) struct Reader {
    huge_bytes: u64,
    processes: Processes,
    history: History,
    /// Faults that wait for their end, by number.
    pairs: Pairer<usize>,
    sampled: Pairer<Sampled>,
    found: Faults,
}

impl Reader {
    pub(super) fn new(observation: &Observation, windows: Vec<Window>) -> Self {
        let page_bytes = observation.host.page_bytes.max(1);
        let huge_bytes = match observation.host.thp_bytes {
            0 => page_bytes.saturating_mul(HUGE_PAGES),
            thp_bytes => thp_bytes,
        };
        Self {
            huge_bytes,
            processes: Processes::default(),
            history: History::new(page_bytes),
            pairs: Pairer::default(),
            sampled: Pairer::default(),
            found: Faults { windows, ..Faults::default() },
        }
    }

    /// The next record.
    pub(super) fn take(&mut self, record: &Record) {
        let &Record { time_ns, pid, tid, ref what } = record;
        match *what {
            What::Enter { addr, ip, kernel, access, mapped_bytes } => {
                self.enter(record, At { addr, ip, kernel, access }, mapped_bytes);
            }
            What::End { addr, major, stack, mapped_bytes } => {
                self.end(record, addr, major, stack, mapped_bytes);
            }
            What::SampleEnter { addr, ip, mapped_bytes } => {
                let was_mapped = mapped_bytes.map(|bytes| bytes > 0);
                self.sampled.enter(tid, time_ns, addr, Sampled { ip, was_mapped });
            }
            What::Sample { addr, ip, kernel, major, access, stack, weight, mapped_bytes } => {
                let fault = self.sample(record, At { addr, ip, kernel, access }, major, mapped_bytes);
                self.found.samples.push((Fault { stack, ..fault }, weight));
            }
            What::Switch { out, preempted } => {
                self.found.tells_switches = true;
                self.pairs.switch(tid, time_ns, out, preempted);
                self.sampled.switch(tid, time_ns, out, preempted);
            }
            What::Map(ref map) => self.processes.map(pid, time_ns, map),
            What::Fork { parent } => {
                self.processes.fork(pid, parent, time_ns);
                self.history.fork(pid, parent);
            }
            What::Exec => {
                self.processes.exec(pid);
                self.history.forget(pid);
            }
            What::Exit if self.processes.exit(pid) => self.history.forget(pid),
            What::Exit
            | What::Cpu { .. }
            | What::LockWait { .. }
            | What::Flush { .. }
            | What::Call { .. } => {}
            What::Alloc { .. }
            | What::Free { .. }
            | What::Move { .. }
            | What::Name(_)
            | What::Settings(_)
            | What::NoHugePages => {}
        }
    }

    fn enter(&mut self, record: &Record, at: At, mapped_bytes: Option<u64>) {
        let number = self.found.faults.len();
        let was_mapped = mapped_bytes.map(|bytes| bytes > 0);
        let mapping = self.processes.mapping(record.pid, at.addr);
        let touch = Touch { time_ns: record.time_ns, access: at.access, fault: number };
        let (kind, again) = self.history.touch(record.pid, at.addr, touch, mapping.as_ref(), was_mapped);
        self.found.tells_pages |= was_mapped.is_some();
        if self.pairs.enter(record.tid, record.time_ns, at.addr, number).is_some() {
            self.found.unmatched_enters += 1;
        }
        let fault = self.fault(record, at, mapping);
        let is_certain = was_mapped.is_some();
        self.found.faults.push(Fault { kind, is_certain, again: f64::from(again), ..fault });
    }

    fn end(
        &mut self,
        record: &Record,
        addr: u64,
        major: bool,
        stack: Option<u32>,
        mapped_bytes: Option<u64>,
    ) {
        let Some((Entry { time_ns, with: number, .. }, off_cpu)) = self.pairs.end(record.tid, addr) else {
            self.found.unmatched_ends += 1;
            return;
        };
        let crosses_loss = self.crosses_loss(time_ns, record.time_ns);
        self.found.dropped_pairs += u64::from(crosses_loss);
        let huge = self.is_huge(mapped_bytes);
        let fault = &mut self.found.faults[number];
        (fault.stack, fault.huge) = (stack, huge);
        (fault.preempted_ns, fault.blocked_ns) = (off_cpu.preempted_ns, off_cpu.blocked_ns);
        if major {
            fault.kind = Kind::Major;
        }
        fault.duration_ns = (!crosses_loss).then(|| record.time_ns.saturating_sub(time_ns));
    }

    fn sample(&mut self, record: &Record, at: At, major: bool, mapped_bytes: Option<u64>) -> Fault {
        let mapping = self.processes.mapping(record.pid, at.addr);
        let (last, off_cpu) = self.sampled.take(record.tid);
        let own = last.filter(|last| (last.addr, last.with.ip) == (at.addr, at.ip));
        // Out of step, the entry is of another fault: a sample of its own that stands for this one if the same
        // instruction took it in the same mapping.
        let is_alike = |last: &Entry<Sampled>| {
            let there = self.processes.mapping(record.pid, last.addr);
            last.with.ip == at.ip && there.zip(mapping).is_some_and(|(a, b)| a.record == b.record)
        };
        let was_mapped = own.or_else(|| last.filter(is_alike)).and_then(|told| told.with.was_mapped);
        let kind = match mapping.as_ref() {
            _ if major => Kind::Major,
            Some(mapping) => self.history.kind(record.pid, at.addr, at.access, mapping, was_mapped),
            None => kind::without_past(at.access, None),
        };
        let huge = self.is_huge(mapped_bytes);
        let (preempted_ns, blocked_ns) = match own {
            Some(_) => (off_cpu.preempted_ns, off_cpu.blocked_ns),
            // A major fault of which only the end is recorded ends with its own wait.
            None if major => (0, off_cpu.last_ns),
            None => (0, 0),
        };
        Fault {
            enter_ns: own.map_or(record.time_ns, |own| own.time_ns),
            duration_ns: own.map(|own| record.time_ns.saturating_sub(own.time_ns)),
            preempted_ns,
            blocked_ns,
            kind: if huge { kind::of_huge_page(kind) } else { kind },
            is_certain: was_mapped.is_some(),
            huge,
            ..self.fault(record, at, mapping)
        }
    }

    /// A fault with the facts of its own record and mapping.
    fn fault(&self, record: &Record, at: At, mapping: Option<Mapping>) -> Fault {
        let At { addr, ip, kernel, access } = at;
        let kind = kind::without_past(access, mapping.as_ref());
        Fault {
            enter_ns: record.time_ns,
            pid: record.pid,
            tid: record.tid,
            addr,
            ip,
            kernel,
            access,
            kind,
            kind_without_past: kind,
            map_record: mapping.map_or_else(MapRecord::default, |mapping| mapping.record),
            mapping: mapping.map_or(mappings::UNKNOWN, |mapping| mapping.name),
            window: find_window(&self.found.windows, record.time_ns),
            in_flight: 1,
            ..Fault::default()
        }
    }

    fn is_huge(&self, mapped_bytes: Option<u64>) -> bool {
        mapped_bytes.is_some_and(|bytes| bytes >= self.huge_bytes)
    }

    /// Whether a fault began in one window and ended in another while records were lost.
    fn crosses_loss(&self, enter_ns: u64, end_ns: u64) -> bool {
        let windows = &self.found.windows;
        let (from, to) = (find_window(windows, enter_ns), find_window(windows, end_ns));
        let first = from.or(to).unwrap_or(0);
        let last = to.or(from).unwrap_or(first);
        from != to && windows.get(first..=last).is_some_and(|w| w.iter().any(|w| w.lost > 0))
    }

    /// The faults, with what later ones tell of earlier ones.
    pub(super) fn finish(self) -> Faults {
        let mut found = self.found;
        self.history.settle(&mut found.faults);
        found.mappings = self.processes.into_names();
        found.unmatched_enters += self.pairs.into_open().count() as u64;
        found
    }
}
