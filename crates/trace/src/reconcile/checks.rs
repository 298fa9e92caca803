//! The checks: each compares two figures of a run. Without both of them it says nothing.
//!
//! Counts of the kernel are believed first, then bounds of an estimate, then the estimate. Each check allows
//! for the known error of both sources.

use std::collections::HashSet;

use super::bound::{TimeBound, processes};
use super::{Believed, Check, Disagreement, SourceFigure, Unit};
use crate::fault::Faults;
use crate::kind::{Kind, KindRow};
use crate::levels::{disturbed, lifecycle};
use crate::measurement::Interval;
use crate::observation::Observation;
use crate::tuning::{COUNTERS_APART, COUNTERS_APART_SHARE, RSS_NOISE_PAGES};

/// Possible difference between sums of rounded figures, as a share.
const ROUNDED_SHARE: f64 = 0.01;

/// A run and what was found out about it.
#[derive(Clone, Copy)]
pub(crate) struct Facts<'a> {
    pub(crate) observation: &'a Observation,
    pub(crate) found: &'a Faults,
    pub(crate) rows: &'a [KindRow],
    /// Major faults that were recorded one by one.
    pub(crate) major_seen: u64,
    /// Faults beyond `wait4`, as the rows have them.
    pub(crate) beyond: u64,
    /// Time in faults, ns.
    pub(crate) time_ns: Option<Interval>,
    pub(crate) bound: Option<TimeBound>,
}

/// All disagreements, by check.
pub(crate) fn check(facts: &Facts<'_>) -> Vec<Disagreement> {
    CHECKS.iter().filter_map(|check| check(facts)).collect()
}

const CHECKS: [fn(&Facts<'_>) -> Option<Disagreement>; 8] =
    [events_total, readings, samples, major, growth, time, cpu_time, losses];

/// Whether a count exceeds another by more than the counters' possible difference and `more`.
fn exceeds(count: u64, other: u64, more: u64) -> bool {
    let apart = COUNTERS_APART as f64 + other as f64 * COUNTERS_APART_SHARE;
    count as f64 > other as f64 + apart + more as f64
}

fn found(
    check: Check,
    unit: Unit,
    figures: [(&str, f64); 2],
    believed: Believed,
    why: &str,
) -> Option<Disagreement> {
    let [first, second] =
        figures.map(|(source, value)| SourceFigure { source: source.to_owned(), value, unit });
    Some(Disagreement { check, first, second, believed, why: why.to_owned() })
}

const WAIT4: &str = "wait4";
const USER: &str = "the counter of user mode";
const EVENTS: &str = "the events";

fn events_total(f: &Facts<'_>) -> Option<Disagreement> {
    // More events than wait4's faults are usual with unwaited-for children, and if accesses that end in
    // signals can't be told apart.
    let (usage, counts) = (&f.observation.usage, &f.observation.counts);
    counts.minor_faults.zip(counts.major_faults)?;
    let waited = usage.minor_faults.saturating_add(usage.major_faults);
    let counted = counts.all_faults.or(counts.user_faults)?.saturating_sub(counts.failed());
    let counted = counted.saturating_add(counts.before_exec_faults);
    (processes(f.observation) == Some(1) && waited > 0 && exceeds(counted, waited, 0)).then_some(())?;
    let figures = [(EVENTS, counted as f64), (WAIT4, waited as f64)];
    let why = "There was one process only, so both count the same faults. The larger total is shown.";
    found(Check::EventsTotal, Unit::Faults, figures, Believed::First, why)
}

fn readings(f: &Facts<'_>) -> Option<Disagreement> {
    let Observation { counts, levels, .. } = f.observation;
    let (user, last) = (counts.all_faults.or(counts.user_faults)?, levels.iter().map(|l| l.faults).max()?);
    exceeds(last, user, 0).then_some(())?;
    let figures = [("readings beside memory", last as f64), (USER, user as f64)];
    let why = "The avoidable share rests on those readings and is not given.";
    found(Check::Readings, Unit::Faults, figures, Believed::Second, why)
}

fn samples(f: &Facts<'_>) -> Option<Disagreement> {
    let user = f.observation.counts.user_faults?;
    // There the period is of a processor's faults, those of other programs among them.
    f.observation.in_kernel.is_none().then_some(())?;
    let minor = f.found.samples.iter().filter(|(fault, _)| !fault.kernel && fault.kind != Kind::Major);
    let (mut sum, mut most, mut threads) = (0_u64, 0, HashSet::new());
    for (fault, weight) in minor {
        (sum, most) = (sum.saturating_add(*weight), most.max(*weight));
        threads.insert((fault.pid, fault.tid));
    }
    // A thread has a period under way on each processor; a sample never comes early.
    let under_way = threads.len() as u64 * u64::from(f.observation.host.cpus.max(1));
    exceeds(sum, user, most.saturating_mul(under_way)).then_some(())?;
    let figures = [("samples times their period", sum as f64), (USER, user as f64)];
    let why = "Samples give shares, the counter the total; intervals of the kinds hold both.";
    found(Check::Samples, Unit::Faults, figures, Believed::Second, why)
}

fn major(f: &Facts<'_>) -> Option<Disagreement> {
    let usage = &f.observation.usage;
    let is_waited = usage.minor_faults > 0 || usage.major_faults > 0 || usage.cpu_ns() > 0;
    let events = f.observation.counts.major_faults.unwrap_or(0).max(f.major_seen);
    (is_waited && f.beyond == 0 && events > usage.major_faults).then_some(())?;
    let figures = [("events of major faults", events as f64), (WAIT4, usage.major_faults as f64)];
    let why = "Every process was waited for, so wait4 has them all. The larger number is shown.";
    found(Check::Major, Unit::Faults, figures, Believed::First, why)
}

fn growth(f: &Facts<'_>) -> Option<Disagreement> {
    let (faulted, grown) = (faulted_bytes(f)?, grown_bytes(f.observation));
    (grown > faulted).then_some(())?;
    let figures = [
        ("memory that the faults of these kinds can have made resident", faulted),
        ("growth of resident memory", grown),
    ];
    let why = "Growth is read from the kernel: more of the faults took memory than their kinds say. Intervals of the kinds hold both.";
    found(Check::Growth, Unit::Bytes, figures, Believed::Second, why)
}

fn time(f: &Facts<'_>) -> Option<Disagreement> {
    let (time, bound) = (f.time_ns?, f.bound?);
    (time.low > bound.ns).then_some(())?;
    let figures = [("times of the faults", time.value), (bound.source, bound.ns)];
    let why = "The faults waited (locks, reclaim, the hypervisor), or were read too long. All times are cut to it alike.";
    found(Check::Time, Unit::Ns, figures, Believed::Second, why)
}

fn cpu_time(f: &Facts<'_>) -> Option<Disagreement> {
    let cpu_ns = f.observation.usage.cpu_ns() as f64;
    let most = f.observation.usage.wall_ns as f64 * f64::from(f.observation.host.cpus);
    (most > 0.0 && cpu_ns > most * (1.0 + ROUNDED_SHARE)).then_some(())?;
    let figures = [("CPU time (wait4)", cpu_ns), ("elapsed time of all processors", most)];
    let why = "Children that ran before were waited for, or processors came later: shares of the CPU time are too small.";
    found(Check::CpuTime, Unit::Ns, figures, Believed::Neither, why)
}

fn losses(f: &Facts<'_>) -> Option<Disagreement> {
    let (windows, losses) = (&f.observation.windows, f.observation.event_losses.as_ref()?);
    let is_of_faults = |event: &str| !["cpu clock", "tasks", "switches"].contains(&event);
    let lost_faults = sum(losses.iter().filter(|loss| is_of_faults(&loss.event)).map(|loss| loss.lost));
    let counted = sum(windows.iter().map(|window| window.faults));
    let seen = f.found.faults.iter().filter(|fault| !fault.kernel).count() as u64;
    let is_whole = windows.iter().all(|window| window.recorded && window.lost == 0);
    if lost_faults > 0 && is_whole && counted > 0 && seen >= counted {
        let figures = [("the stretches lost", 0.0), ("what each event lost", lost_faults as f64)];
        let why = "Not every fault was recorded, though every stretch looks whole. The counts hold, the rest is scaled.";
        return found(Check::Losses, Unit::Records, figures, Believed::Second, why);
    }
    let by_events = sum(losses.iter().map(|loss| loss.lost));
    let in_rings = sum(windows.iter().filter(|window| window.recorded).map(|window| window.lost));
    (in_rings > by_events).then_some(())?;
    let figures = [("the rings lost", in_rings as f64), ("what each event lost", by_events as f64)];
    found(Check::Losses, Unit::Records, figures, Believed::First, "The larger loss is reckoned with.")
}

fn sum(numbers: impl Iterator<Item = u64>) -> u64 {
    numbers.fold(0, u64::saturating_add)
}

/// Memory that faults and khugepaged made resident at most.
fn faulted_bytes(f: &Facts<'_>) -> Option<f64> {
    let (host, counts) = (&f.observation.host, &f.observation.counts);
    let page = host.page_bytes.max(1) as f64;
    // One fault brings a folio of mTHP at most.
    let folio = host.mthp_bytes.iter().copied().max().map_or(page, |bytes| (bytes as f64).max(page));
    let has_huge = host.thp_bytes > 0 && !host.thp.is_empty() && host.thp != "never";
    let huge_pages = match counts.huge_at_most {
        Some(faults) => faults.saturating_add(counts.huge_collapsed.unwrap_or(0)) as f64,
        None if has_huge => return None,
        None => 0.0,
    };
    let most = |row: &KindRow| row.interval.map_or(row.faults, |(_, high)| high) as f64;
    let takes_memory = |row: &&KindRow| {
        host.bytes_made_resident(row.kind).is_some()
            || matches!(row.kind, Kind::UserUnknown | Kind::Unplaced | Kind::Unknown | Kind::Major)
    };
    let anonymous = f.rows.iter().filter(|row| !matches!(row.kind, Kind::Thp | Kind::BeforeExec));
    let anonymous: f64 = anonymous.filter(takes_memory).map(|row| most(row) * folio).sum();
    Some(huge_pages * host.thp_bytes as f64 + anonymous)
}

/// Bytes by which resident memory rose in all, ignoring falls, between readings that no start or end of a process
/// disturbed.
fn grown_bytes(observation: &Observation) -> f64 {
    let noise = RSS_NOISE_PAGES as f64 * observation.host.page_bytes.max(1) as f64;
    let mut levels = observation.levels.clone();
    levels.sort_by_key(|level| level.time_ns);
    let disturbed = disturbed(&levels, &lifecycle(observation));
    // The lowest and the highest reading since the last fall, corrected for disturbed ones. A process that was
    // attached to had memory before.
    let first = levels.first().map_or(0.0, |level| level.anon_bytes as f64);
    let (mut low, mut high, mut before, mut shift, mut grown) = (first, first, first, 0.0, 0.0);
    for (level, disturbed) in levels.iter().zip(disturbed) {
        let bytes = level.anon_bytes as f64;
        shift += if disturbed { bytes - before } else { 0.0 };
        before = bytes;
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
