//! Records -> faults, each with its duration, its mapping and its kind.
//!
//! A file each: `read` runs over the records in the order of time and pairs entries with ends, `mappings` follows
//! every process's mappings, `kind` classifies. This file adds what only all faults together tell. It does not
//! correct durations or scale to exact counts. Faults without an explanation are kept as `Unplaced`.

mod kind;
mod mappings;
mod read;

pub(crate) use mappings::MapRecord;

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};

use crate::kind::Kind;
use crate::observation::{Access, Observation, Record, What, Window};
use crate::tuning::{PIECE_FAULTS, READING_BEHIND_NS, READING_HARMS_NS, READING_NS};

/// One recorded fault.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Fault {
    /// Entry, CLOCK_MONOTONIC.
    pub(crate) enter_ns: u64,
    /// Entry to end as read, uncorrected; `None` if the end was not seen or can't be trusted.
    pub(crate) duration_ns: Option<u64>,
    /// The recorder may have interrupted it to read a counter, so its duration is too long.
    pub(crate) interrupted: bool,
    /// Part of the duration in which the thread was preempted; 0 if switches are not recorded.
    pub(crate) preempted_ns: u64,
    /// Part of it in which the thread was blocked.
    pub(crate) blocked_ns: u64,
    /// Process.
    pub(crate) pid: u32,
    /// Thread.
    pub(crate) tid: u32,
    /// Faulting data address.
    pub(crate) addr: u64,
    /// Faulting instruction address.
    pub(crate) ip: u64,
    /// The touching stack, if stacks are recorded and its end was seen.
    pub(crate) stack: Option<u32>,
    /// Taken in kernel mode.
    pub(crate) kernel: bool,
    /// Read, write or fetch, if known.
    pub(crate) access: Option<Access>,
    /// Its kind.
    pub(crate) kind: Kind,
    /// Its kind judged by mapping and access alone.
    pub(crate) kind_without_past: Kind,
    /// The kernel reported the page that was mapped before, so the kind needs no other evidence. For a sample
    /// out of step, it is the page of a fault of the same instruction in the same mapping a moment before.
    pub(crate) is_certain: bool,
    /// At its end a transparent huge page was mapped there.
    pub(crate) huge: bool,
    /// Lower bound of the probability that this mapping had the page before: the program gave it back and
    /// kept the mapping (MADV_DONTNEED).
    pub(crate) again: f64,
    /// The last record of its mapping.
    pub(crate) map_record: MapRecord,
    /// Index into [`Faults::mappings`].
    pub(crate) mapping: u32,
    /// Index into [`Faults::windows`]; `None` outside all windows.
    pub(crate) window: Option<usize>,
    /// Faults of this process in flight at its entry, itself included. Not counted over its whole length: a
    /// long fault meets more others, which would look like waiting.
    pub(crate) in_flight: u32,
}

/// All recorded faults of a run, by time of entry.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Faults {
    /// The faults.
    pub(crate) faults: Vec<Fault>,
    /// The windows by begin; without windows, one that holds all faults.
    pub(crate) windows: Vec<Window>,
    /// Sampled faults, and the number that each represents. The kind of an uncertain one is
    /// `kind_without_past`.
    pub(crate) samples: Vec<(Fault, u64)>,
    /// Names of mappings.
    pub(crate) mappings: Vec<String>,
    /// The kernel reported the sizes of the pages mapped before and after a fault.
    pub(crate) tells_pages: bool,
    /// Switches were recorded: what a fault waited is known.
    pub(crate) tells_switches: bool,
    /// Entries without an end: signals, lost records, the end of a window.
    pub(crate) unmatched_enters: u64,
    /// Ends without an entry.
    pub(crate) unmatched_ends: u64,
    /// Pairs that began in one window and ended in another while records were lost: not timed.
    pub(crate) dropped_pairs: u64,
}

impl Faults {
    /// Pairs, places and classifies everything that was recorded.
    pub(crate) fn from_observation(observation: &Observation) -> Self {
        let mut reader = read::Reader::new(observation, windows(observation));
        by_time(&observation.records).into_iter().for_each(|record| reader.take(record));
        let mut found = reader.finish();
        let page_bytes = observation.host.page_bytes.max(1);
        found.unplace_gone(page_bytes);
        find_again(&mut found.faults, &mut found.samples, page_bytes);
        count_in_flight(&mut found.faults);
        found.find_interrupted(observation);
        found
    }

    /// All single faults, and the samples.
    fn each(&mut self) -> impl Iterator<Item = &mut Fault> {
        self.faults.iter_mut().chain(self.samples.iter_mut().map(|(fault, _)| fault))
    }

    /// Faults in mappings of shared memory that are no longer there lie in unknown ones.
    fn unplace_gone(&mut self, page_bytes: u64) {
        let gone = [
            gone(self.faults.iter().map(|fault| (fault, 1)), &self.mappings, page_bytes),
            gone(self.samples.iter().map(|(fault, weight)| (fault, *weight)), &self.mappings, page_bytes),
        ];
        for fault in self.each() {
            let since_ns =
                gone.iter().filter_map(|gone| gone.get(&(fault.pid, fault.tid, fault.map_record))).min();
            if since_ns.is_some_and(|since_ns| fault.enter_ns >= *since_ns) {
                (fault.kind, fault.mapping) = (kind::without_past(fault.access, None), mappings::UNKNOWN);
            }
        }
    }

    /// Sets `interrupted` if a counter may have been read: reading one interrupts the processor that runs the
    /// program. Long faults are kept: leaving them out would leave out the longest most often.
    fn find_interrupted(&mut self, observation: &Observation) {
        let edges = observation.windows.iter().flat_map(|window| [window.begin_ns, window.end_ns]);
        let mut read_ns: Vec<u64> =
            edges.chain(observation.levels.iter().map(|level| level.time_ns)).collect();
        read_ns.sort_unstable();
        for fault in self.each() {
            let Some(duration_ns) = fault.duration_ns.filter(|_| fault.on_cpu_ns() < READING_HARMS_NS) else {
                continue;
            };
            let end_ns = fault.enter_ns.saturating_add(duration_ns);
            let next = read_ns.partition_point(|&ns| ns.saturating_add(READING_BEHIND_NS) < fault.enter_ns);
            fault.interrupted = read_ns.get(next).is_some_and(|&ns| ns <= end_ns.saturating_add(READING_NS));
        }
    }

    /// Recorded user-mode faults of each window with an end.
    pub(crate) fn ended_by_window(&self) -> Vec<u64> {
        let mut ended = vec![0; self.windows.len()];
        for fault in self.faults.iter().filter(|fault| !fault.kernel && fault.duration_ns.is_some()) {
            if let Some(window) = fault.window {
                ended[window] += 1;
            }
        }
        ended
    }
}

impl Fault {
    /// Entry to end as read, if the time is representative of other faults.
    pub(crate) fn reading_ns(&self) -> Option<u64> {
        self.duration_ns.filter(|_| !self.interrupted)
    }

    /// The part of its duration that it had a processor, as far as thread switches show.
    pub(crate) fn on_cpu_ns(&self) -> u64 {
        self.duration_ns.unwrap_or(0).saturating_sub(self.preempted_ns).saturating_sub(self.blocked_ns)
    }
}

#[cfg(test)]
impl Fault {
    /// A fault of a program with one thread, for tests.
    pub(crate) fn timed(kind: Kind, enter_ns: u64, duration_ns: u64) -> Self {
        Self {
            enter_ns,
            duration_ns: Some(duration_ns),
            pid: 1,
            tid: 1,
            kind,
            kind_without_past: kind,
            in_flight: 1,
            ..Self::default()
        }
    }
}

/// The records in the order of time; records of the same instant keep their order.
pub(crate) fn by_time(records: &[Record]) -> Vec<&Record> {
    let mut sorted: Vec<&Record> = records.iter().collect();
    if !records.is_sorted_by_key(|r| r.time_ns) {
        sorted.sort_by_key(|r| r.time_ns);
    }
    sorted
}

fn windows(observation: &Observation) -> Vec<Window> {
    let mut windows = observation.windows.clone();
    windows.sort_by_key(|w| (w.begin_ns, w.end_ns));
    let entries = || observation.records.iter().filter(|r| matches!(r.what, What::Enter { .. }));
    if windows.is_empty()
        && let Some(begin_ns) = entries().map(|r| r.time_ns).min()
    {
        let user = entries().filter(|r| !matches!(r.what, What::Enter { kernel: true, .. })).count() as u64;
        let faults = observation.counts.user_faults.unwrap_or(user);
        windows.push(Window { begin_ns, end_ns: u64::MAX, faults, recorded: true, lost: 0 });
    }
    let mut entry_ns: Vec<u64> = entries().map(|r| r.time_ns).collect();
    entry_ns.sort_unstable();
    windows.into_iter().flat_map(|window| split(window, &entry_ns)).collect()
}

/// Cuts a long recorded window into pieces of [`PIECE_FAULTS`] recorded faults. A program's start is always
/// recorded, and must not stand for later phases. The pieces share the window's count by their recorded
/// faults. The window stays whole if records were lost or hardly any were seen.
fn split(window: Window, entry_ns: &[u64]) -> Vec<Window> {
    let from = entry_ns.partition_point(|ns| *ns < window.begin_ns);
    let to = entry_ns.partition_point(|ns| *ns < window.end_ns);
    let inside = &entry_ns[from..to.max(from)];
    let pieces = (inside.len() / PIECE_FAULTS) as u64;
    if !window.recorded || window.lost > 0 || pieces < 2 {
        return vec![window];
    }
    let cut = |piece: u64| (piece * inside.len() as u64 / pieces) as usize;
    let share = |piece: u64| (u128::from(window.faults) * u128::from(piece) / u128::from(pieces)) as u64;
    let edge = |piece: u64| match piece {
        0 => window.begin_ns,
        piece if piece == pieces => window.end_ns,
        piece => inside[cut(piece)],
    };
    (0..pieces)
        .map(|piece| Window {
            begin_ns: edge(piece),
            end_ns: edge(piece + 1),
            faults: share(piece + 1) - share(piece),
            ..window
        })
        .collect()
}

/// The window that contains a time; windows are sorted by begin.
pub(crate) fn find_window(windows: &[Window], time_ns: u64) -> Option<usize> {
    let index = windows.partition_point(|w| w.begin_ns <= time_ns).checked_sub(1)?;
    (time_ns < windows[index].end_ns).then_some(index)
}

/// By thread, the time from which a mapping of shared anonymous memory is gone. Each of its pages faults once
/// per thread, so further faults lie in memory that mremap moved there.
fn gone<'a>(
    faults: impl Iterator<Item = (&'a Fault, u64)>,
    mappings: &[String],
    page_bytes: u64,
) -> HashMap<(u32, u32, MapRecord), u64> {
    let is_shared = |fault: &Fault| {
        let name = mappings.get(fault.mapping as usize);
        fault.kind == Kind::Shared && name.is_some_and(|name| name.starts_with("/dev/zero"))
    };
    let (mut touched, mut gone) = (HashMap::<_, u64>::new(), HashMap::new());
    for (fault, weight) in faults.filter(|(fault, _)| is_shared(fault)) {
        let mapping = (fault.pid, fault.tid, fault.map_record);
        let touched = touched.entry(mapping).or_default();
        *touched = touched.saturating_add(weight);
        if *touched > fault.map_record.len_bytes / page_bytes {
            gone.entry(mapping).or_insert(fault.enter_ns);
        }
    }
    gone
}

/// If a mapping had more first touches than pages, the surplus touched pages again. Faults in bursts count as
/// recorded; the estimate from samples is reduced by two standard deviations.
fn find_again(faults: &mut [Fault], samples: &mut [(Fault, u64)], page_bytes: u64) {
    let mut touched: HashMap<(u32, MapRecord), [f64; 3]> = HashMap::new();
    let mapping = |fault: &Fault| (fault.pid, fault.map_record);
    let is_touch = |fault: &Fault| fault.map_record.len_bytes > 0 && fault.kind.is_first_touch();
    for fault in faults.iter().filter(|fault| is_touch(fault)) {
        touched.entry(mapping(fault)).or_default()[0] += 1.0;
    }
    for (fault, weight) in samples.iter().filter(|(fault, _)| is_touch(fault)) {
        let [_, weights, number] = touched.entry(mapping(fault)).or_default();
        (*weights, *number) = (*weights + *weight as f64, *number + 1.0);
    }
    for fault in
        faults.iter_mut().chain(samples.iter_mut().map(|(fault, _)| fault)).filter(|fault| is_touch(fault))
    {
        let [recorded, weights, number] = touched.get(&mapping(fault)).copied().unwrap_or_default();
        let least = recorded.max(weights * (1.0 - 2.0 / f64::max(number, 1.0).sqrt())).max(1.0);
        fault.again = fault.again.max(1.0 - fault.map_record.len_bytes as f64 / page_bytes as f64 / least);
    }
}

/// Sets `in_flight` of every fault from the timed ones of its process.
fn count_in_flight(faults: &mut [Fault]) {
    let mut open: HashMap<u32, BinaryHeap<Reverse<u64>>> = HashMap::new();
    for fault in faults.iter_mut() {
        let ends = open.entry(fault.pid).or_default();
        while ends.peek().is_some_and(|end| end.0 <= fault.enter_ns) {
            ends.pop();
        }
        fault.in_flight = u32::try_from(ends.len() + 1).unwrap_or(u32::MAX);
        if let Some(duration) = fault.duration_ns {
            ends.push(Reverse(fault.enter_ns.saturating_add(duration)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    pub(super) fn enter(time_ns: u64, tid: u32, addr: u64) -> Record {
        let what = What::Enter {
            addr,
            ip: 0x40_1000,
            kernel: false,
            access: Some(Access::Write),
            mapped_bytes: None,
        };
        Record { time_ns, pid: 1, tid, what }
    }

    pub(super) fn end(time_ns: u64, tid: u32, addr: u64) -> Record {
        Record {
            time_ns,
            pid: 1,
            tid,
            what: What::End { addr, major: false, stack: None, mapped_bytes: None },
        }
    }

    fn observe(records: Vec<Record>, windows: Vec<Window>) -> Faults {
        Faults::from_observation(&Observation { records, windows, ..Observation::default() })
    }

    #[test]
    fn records_out_of_order_are_paired_by_time() {
        let faults = observe(vec![end(900, 1, 0x5000), enter(100, 1, 0x5000)], vec![]);
        assert_eq!(faults.faults[0].duration_ns, Some(800));
        assert_eq!((faults.unmatched_enters, faults.unmatched_ends), (0, 0));
    }

    #[test]
    fn a_fault_near_a_reading_of_a_counter_is_timed_but_speaks_for_no_other() {
        let window =
            |begin_ns| Window { begin_ns, end_ns: begin_ns + 1_000_000, faults: 3, recorded: true, lost: 0 };
        let found = |ns| {
            let at = |time_ns, addr| [enter(time_ns, 1, addr), end(time_ns + ns, 1, addr)];
            let records = [at(500_000, 0x5000), at(995_000, 0x6000), at(1_500_000, 0x7000)].concat();
            let faults = observe(records, vec![window(0), window(1_000_000)]).faults;
            faults.iter().map(|fault| (fault.duration_ns, fault.reading_ns())).collect::<Vec<_>>()
        };
        let [short, long] = [1_000, 200_000].map(Some);
        assert_eq!(found(1_000), [(short, short), (short, None), (short, short)]);
        assert_eq!(found(200_000), [(long, long); 3], "a reading changes no long fault");
    }

    #[test]
    fn entry_and_end_without_partner_are_counted() {
        let records =
            vec![enter(10, 1, 0x5000), enter(20, 1, 0x6000), end(30, 1, 0x7000), end(40, 1, 0x6000)];
        let faults = observe(records, vec![]);
        assert_eq!((faults.unmatched_enters, faults.unmatched_ends), (1, 1));
        assert_eq!(faults.faults[1].duration_ns, Some(20));
    }

    #[test]
    fn a_pair_across_windows_that_lost_records_is_not_timed() {
        let window =
            |begin_ns, lost| Window { begin_ns, end_ns: begin_ns + 100, faults: 1, recorded: true, lost };
        let records =
            || vec![enter(90, 1, 0x5000), end(110, 1, 0x5000), enter(120, 1, 0x9000), end(130, 1, 0x9000)];
        let lossy = observe(records(), vec![window(0, 0), window(100, 7)]);
        assert_eq!((lossy.faults[0].duration_ns, lossy.dropped_pairs), (None, 1));
        assert_eq!(lossy.faults[1].duration_ns, Some(10), "inside one window a pair is kept");
        let whole = observe(records(), vec![window(0, 0), window(100, 0)]);
        assert_eq!((whole.faults[0].duration_ns, whole.dropped_pairs), (Some(20), 0));
    }
}
