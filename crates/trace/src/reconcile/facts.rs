//! Observation, faults and rows -> the figures that the checks compare.
//!
//! `None`: no source reports the figure. A check without both of its figures says nothing.

use std::collections::HashSet;

use crate::clock::fault_share;
use crate::fault::Faults;
use crate::kind::{Kind, KindRow};
use crate::measurement::Interval;
use crate::observation::{Level, Observation, What};
use crate::tuning::{RECORDER_CERTAIN, RSS_NOISE_PAGES, TICK_NS, TICK_SPREADS, TICKS_A_PROCESS};

/// Every figure of a run that a second source bounds.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Facts {
    /// `wait4`: minor and major faults; `None` if no process was waited for.
    pub(crate) waited: Option<u64>,
    pub(crate) waited_major: u64,
    /// Events: in user mode, in all modes, handled minor and major ones, before exec.
    pub(crate) user: Option<u64>,
    pub(crate) all: Option<u64>,
    pub(crate) minor: Option<u64>,
    pub(crate) major: Option<u64>,
    /// Major faults that were recorded one by one.
    pub(crate) major_seen: u64,
    pub(crate) before_exec: u64,
    /// Accesses that ended in a signal.
    pub(crate) failed: u64,
    /// Beyond `wait4`, as the rows have it.
    pub(crate) beyond: u64,
    /// Processes seen; `None` without records of forks.
    pub(crate) processes: Option<u64>,
    /// The counter at the last reading of memory.
    pub(crate) last_reading: Option<u64>,
    /// Faults that user-mode samples represent, the largest of them, and threads times processors: each may
    /// have one sample under way.
    pub(crate) samples: Option<(u64, u64, u64)>,
    /// Anonymous memory, bytes: faulted in at most; grown between readings at least.
    pub(crate) faulted_bytes: Option<f64>,
    pub(crate) grown_bytes: f64,
    /// Time in faults, ns.
    pub(crate) time_ns: Option<Interval>,
    pub(crate) bound: Option<TimeBound>,
    /// CPU time, and the elapsed time of all processors, ns.
    pub(crate) cpu_ns: f64,
    pub(crate) processors_ns: Option<f64>,
    /// Records lost, according to the rings and to the events.
    pub(crate) lost_in_rings: u64,
    pub(crate) lost_by_events: Option<u64>,
    /// Records were lost, and yet every fault counts as recorded.
    pub(crate) lost_but_whole: Option<u64>,
}

/// The most time that faults can have had.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct TimeBound {
    pub(crate) ns: f64,
    /// What times beyond it are cut to: the bound itself, or the estimate behind it.
    pub(crate) likely_ns: f64,
    pub(crate) source: &'static str,
}

/// Faults run in the kernel, except for the trap, so their time is part of the system time, and of what samples of the CPU
/// clock show in the fault path. The kernel is assumed to split CPU time by its tick. Then two ticks of each process may be on the wrong side, and ticks
/// scatter as draws do. The sum of user and system time is always exact.
pub(crate) fn time_bound(
    observation: &Observation,
    cpu_ns: f64,
    recorder_ns: f64,
    faults: f64,
) -> Option<TimeBound> {
    if cpu_ns <= 0.0 {
        return None;
    }
    let usage = observation.usage;
    let all_ns = usage.cpu_ns() as f64;
    let unwaited_ns = (observation.counts.cpu_ns.unwrap_or(0) as f64 - all_ns).max(0.0);
    let offset_ns = observation.calibration.map_or(0.0, |found| found.offset_ns());
    let trap_ns = faults * (-offset_ns).max(0.0);
    let system_ns = usage.system_ns as f64;
    let part = if all_ns > 0.0 { system_ns / all_ns } else { 1.0 };
    let scatter_ns = TICK_SPREADS * (part * (1.0 - part) * all_ns * TICK_NS).sqrt();
    // Without records of forks the processes are not known, and the ticks scatter at least.
    let ticks_ns = processes(observation).unwrap_or(1) as f64 * TICKS_A_PROCESS * TICK_NS;
    let ns = system_ns - RECORDER_CERTAIN * recorder_ns + unwaited_ns + trap_ns + ticks_ns.max(scatter_ns);
    let clock_ns = observation.kernel.as_ref().and_then(fault_share).map(|share| share.times(all_ns));
    let bound = |ns: f64, source| TimeBound { ns: ns.max(0.0), likely_ns: ns.max(0.0), source };
    let bounds = [
        Some(bound(cpu_ns, "the CPU time")),
        Some(bound(ns, "the system time, with the traps and the error of the kernel's clock")),
        clock_ns.map(|clock_ns| TimeBound {
            ns: clock_ns.high + trap_ns,
            likely_ns: clock_ns.value + trap_ns,
            source: "the samples of the CPU clock in the fault path",
        }),
    ];
    bounds.into_iter().flatten().min_by(|a, b| a.ns.total_cmp(&b.ns))
}

/// Processes of the run; `None` without records of forks.
fn processes(observation: &Observation) -> Option<u64> {
    let forks = observation
        .records
        .iter()
        .filter(|record| matches!(record.what, What::Fork { parent } if parent != record.pid));
    (!observation.records.is_empty()).then(|| 1 + forks.count() as u64)
}

impl Facts {
    /// Collects them; time and its bound are filled in later.
    pub(crate) fn new(observation: &Observation, found: &Faults, rows: &[KindRow]) -> Self {
        let (usage, counts) = (observation.usage, observation.counts);
        let waited = usage.minor_faults.saturating_add(usage.major_faults);
        let is_waited = waited > 0 || usage.cpu_ns() > 0;
        let memory = Resident::new(observation, rows);
        let processors_ns = (observation.host.cpus > 0 && usage.wall_ns > 0)
            .then(|| usage.wall_ns as f64 * f64::from(observation.host.cpus));
        let losses = observation.event_losses.as_ref();
        let of_faults = |event: &str| !["cpu clock", "tasks", "switches"].contains(&event);
        let lost_by_events = losses.map(|losses| sum(losses.iter().map(|loss| loss.lost)));
        let lost_faults: Option<u64> = losses
            .map(|losses| sum(losses.iter().filter(|loss| of_faults(&loss.event)).map(|loss| loss.lost)));
        let in_windows = observation.windows.iter().filter(|window| window.recorded);
        Self {
            waited: is_waited.then_some(waited),
            waited_major: usage.major_faults,
            user: counts.user_faults,
            all: counts.all_faults,
            minor: counts.minor_faults,
            major: counts.major_faults,
            before_exec: counts.before_exec_faults,
            failed: counts.failed(),
            processes: processes(observation),
            last_reading: observation.levels.iter().map(|level| level.faults).max(),
            samples: samples(observation, found),
            faulted_bytes: memory.faulted_bytes,
            grown_bytes: memory.grown_bytes,
            cpu_ns: usage.cpu_ns() as f64,
            processors_ns,
            lost_in_rings: sum(in_windows.map(|window| window.lost)),
            lost_by_events,
            lost_but_whole: lost_faults.filter(|lost| *lost > 0 && is_whole(observation, found)),
            ..Self::default()
        }
    }
}

fn sum(numbers: impl Iterator<Item = u64>) -> u64 {
    numbers.fold(0, u64::saturating_add)
}

/// Every window claims to hold all of its faults, and they are all there.
fn is_whole(observation: &Observation, found: &Faults) -> bool {
    let counted = sum(observation.windows.iter().map(|window| window.faults));
    let all = observation.windows.iter().all(|window| window.recorded && window.lost == 0);
    all && counted > 0 && found.faults.iter().filter(|fault| !fault.kernel).count() as u64 >= counted
}

fn samples(observation: &Observation, found: &Faults) -> Option<(u64, u64, u64)> {
    let minor = found.samples.iter().filter(|(fault, _)| !fault.kernel && fault.kind != Kind::Major);
    let (mut all, mut most) = (0_u64, 0);
    let mut threads = HashSet::new();
    for (fault, weight) in minor {
        (all, most) = (all.saturating_add(*weight), most.max(*weight));
        threads.insert((fault.pid, fault.tid));
    }
    let lanes = threads.len() as u64 * u64::from(observation.host.cpus.max(1));
    (most > 0).then_some((all, most, lanes))
}

/// Memory that faults made resident, and its readings.
struct Resident {
    faulted_bytes: Option<f64>,
    grown_bytes: f64,
}

impl Resident {
    fn new(observation: &Observation, rows: &[KindRow]) -> Self {
        let host = &observation.host;
        let page = host.page_bytes.max(1) as f64;
        // One fault brings a folio of mTHP at most.
        let folio = host.mthp_bytes.iter().copied().max().map_or(page, |bytes| (bytes as f64).max(page));
        let huge = host.thp_bytes as f64;
        let has_huge = host.thp_bytes > 0 && !host.thp.is_empty() && host.thp != "never";
        let counts = observation.counts;
        // By faults, and by khugepaged without a fault.
        let huge_bytes = match counts.huge_at_most {
            Some(faults) => Some(faults.saturating_add(counts.huge_collapsed.unwrap_or(0)) as f64 * huge),
            None => (!has_huge).then_some(0.0),
        };
        let most = |row: &KindRow| row.interval.map_or(row.faults, |(_, high)| high) as f64;
        let takes_memory = |row: &&KindRow| {
            host.bytes_made_resident(row.kind).is_some()
                || matches!(row.kind, Kind::UserUnknown | Kind::Unplaced | Kind::Unknown | Kind::Major)
        };
        let anonymous = rows.iter().filter(|row| !matches!(row.kind, Kind::Thp | Kind::BeforeExec));
        let anonymous: f64 = anonymous.filter(takes_memory).map(|row| most(row) * folio).sum();
        let noise = RSS_NOISE_PAGES as f64 * page;
        let faulted_bytes = huge_bytes.map(|bytes| bytes + anonymous);
        Self { faulted_bytes, grown_bytes: grown(observation, noise) }
    }
}

/// Bytes by which resident memory rose in all, ignoring falls, between readings undisturbed by starts and
/// ends of processes.
fn grown(observation: &Observation, noise: f64) -> f64 {
    let mut levels: Vec<&Level> = observation.levels.iter().collect();
    levels.sort_by_key(|level| level.time_ns);
    let is_event = |what: &What, pid, tid| match what {
        What::Fork { parent } => *parent != pid,
        What::Exec => true,
        What::Exit => pid == tid,
        _ => false,
    };
    let records = observation.records.iter();
    let mut events: Vec<u64> =
        records.filter(|r| is_event(&r.what, r.pid, r.tid)).map(|r| r.time_ns).collect();
    events.sort_unstable();
    let mut grown = 0.0;
    // The lowest and the highest reading since the last fall, corrected for disturbed ones. A process that was
    // attached to had memory before.
    let first = levels.first().map_or(0.0, |level| level.anon_bytes as f64);
    let (mut low, mut high, mut shift) = (first, first, 0.0);
    for (index, level) in levels.iter().enumerate() {
        let bytes = level.anon_bytes as f64;
        let from_ns = if index < 2 { 0 } else { levels[index - 2].time_ns };
        let next = events.partition_point(|ns| *ns < from_ns);
        let until_ns = levels.get(index + 1).map_or(u64::MAX, |next| next.time_ns);
        let before = index.checked_sub(1).map_or(first, |before| levels[before].anon_bytes as f64);
        if events.get(next).is_some_and(|ns| *ns <= until_ns) {
            shift += bytes - before;
        }
        let now = bytes - shift;
        if now > high {
            high = now;
        } else if high - now > noise {
            grown += (high - low - noise).max(0.0);
            (low, high) = (now, now);
        }
    }
    grown + (high - low - noise).max(0.0)
}
