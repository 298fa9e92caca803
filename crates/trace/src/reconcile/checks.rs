//! The checks: each compares two figures of [`Facts`].
//!
//! Counts of the kernel are believed first, then bounds of an estimate, then the estimate. Each check allows
//! for the known error of both sources.

use super::{Believed, Check, Disagreement, Facts, SourceFigure, Unit};
use crate::tuning::{COUNTERS_APART, COUNTERS_APART_SHARE, ROUNDED_SHARE};

/// All disagreements, by check.
pub(crate) fn check(facts: &Facts) -> Vec<Disagreement> {
    CHECKS.iter().filter_map(|check| check(facts)).collect()
}

const CHECKS: [fn(&Facts) -> Option<Disagreement>; 8] =
    [events_total, readings, samples, major, growth, time, cpu_time, losses];

/// The possible difference between counters that are read one after another.
fn apart(counted: u64) -> f64 {
    COUNTERS_APART as f64 + counted as f64 * COUNTERS_APART_SHARE
}

/// Whether a count exceeds another by more than the counters' possible difference and `more`.
fn exceeds(count: u64, other: u64, more: u64) -> bool {
    count as f64 > other as f64 + apart(other) + more as f64
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

fn events_total(f: &Facts) -> Option<Disagreement> {
    // More events than wait4's faults are usual with unwaited-for children, and if accesses that end in
    // signals can't be told apart.
    let (waited, _) = f.waited.zip(f.minor.zip(f.major))?;
    let counted = f.all.or(f.user)?.saturating_sub(f.failed).saturating_add(f.before_exec);
    (f.processes == Some(1) && waited > 0 && exceeds(counted, waited, 0)).then_some(())?;
    let figures = [(EVENTS, counted as f64), (WAIT4, waited as f64)];
    let why = "There was one process only, so both count the same faults. The larger total is shown.";
    found(Check::EventsTotal, Unit::Faults, figures, Believed::First, why)
}

fn readings(f: &Facts) -> Option<Disagreement> {
    let (user, last) = (f.all.or(f.user)?, f.last_reading?);
    exceeds(last, user, 0).then_some(())?;
    let figures = [("readings beside memory", last as f64), (USER, user as f64)];
    let why = "The avoidable share rests on those readings and is not given.";
    found(Check::Readings, Unit::Faults, figures, Believed::Second, why)
}

fn samples(f: &Facts) -> Option<Disagreement> {
    // A thread has a period under way on each processor; a sample never comes early.
    let (user, (sum, most, lanes)) = (f.user?, f.samples?);
    exceeds(sum, user, most.saturating_mul(lanes)).then_some(())?;
    let figures = [("samples times their period", sum as f64), (USER, user as f64)];
    let why = "Samples give shares, the counter the total; intervals of the kinds hold both.";
    found(Check::Samples, Unit::Faults, figures, Believed::Second, why)
}

fn major(f: &Facts) -> Option<Disagreement> {
    let events = f.major.unwrap_or(0).max(f.major_seen);
    (f.waited.is_some() && f.beyond == 0 && events > f.waited_major).then_some(())?;
    let figures = [("events of major faults", events as f64), (WAIT4, f.waited_major as f64)];
    let why = "Every process was waited for, so wait4 has them all. The larger number is shown.";
    found(Check::Major, Unit::Faults, figures, Believed::First, why)
}

fn growth(f: &Facts) -> Option<Disagreement> {
    let faulted = f.faulted_bytes?;
    (f.grown_bytes > faulted).then_some(())?;
    let figures = [
        ("memory that the faults of these kinds can have made resident", faulted),
        ("growth of resident memory", f.grown_bytes),
    ];
    let why = "Growth is read from the kernel: more of the faults took memory than their kinds say. Intervals of the kinds hold both.";
    found(Check::Growth, Unit::Bytes, figures, Believed::Second, why)
}

fn time(f: &Facts) -> Option<Disagreement> {
    let (time, bound) = (f.time_ns?, f.bound?);
    (time.low > bound.ns).then_some(())?;
    let figures = [("times of the faults", time.value), (bound.source, bound.ns)];
    let why = "The faults waited (locks, reclaim, the hypervisor), or were read too long. All times are cut to it alike.";
    found(Check::Time, Unit::Ns, figures, Believed::Second, why)
}

fn cpu_time(f: &Facts) -> Option<Disagreement> {
    let most = f.processors_ns?;
    (f.cpu_ns > most * (1.0 + ROUNDED_SHARE)).then_some(())?;
    let figures = [("CPU time (wait4)", f.cpu_ns), ("elapsed time of all processors", most)];
    let why = "Children that ran before were waited for, or processors came later: shares of the CPU time are too small.";
    found(Check::CpuTime, Unit::Ns, figures, Believed::Neither, why)
}

fn losses(f: &Facts) -> Option<Disagreement> {
    if let Some(lost) = f.lost_but_whole {
        let figures = [("the stretches lost", 0.0), ("what each event lost", lost as f64)];
        let why = "Not every fault was recorded, though every stretch looks whole. The counts hold, the rest is scaled.";
        return found(Check::Losses, Unit::Records, figures, Believed::Second, why);
    }
    let by_events = f.lost_by_events?;
    (f.lost_in_rings > by_events).then_some(())?;
    let figures = [("the rings lost", f.lost_in_rings as f64), ("what each event lost", by_events as f64)];
    found(Check::Losses, Unit::Records, figures, Believed::First, "The larger loss is reckoned with.")
}
