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

const CHECKS: [fn(&Facts) -> Option<Disagreement>; 17] = [
    rows_total,
    events_total,
    rows_user,
    handled,
    windows,
    records,
    readings,
    kernel_mode,
    samples,
    major,
    huge_pages,
    growth,
    peak_memory,
    kinds_time,
    time,
    cpu_time,
    losses,
];

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

const ROWS: &str = "the kinds";
const WAIT4: &str = "wait4";
const USER: &str = "the counter of user mode";
const EVENTS: &str = "the events";

fn rows_total(f: &Facts) -> Option<Disagreement> {
    let total = f.waited?.saturating_add(f.beyond);
    (f.rows != total).then_some(())?;
    let figures = [(ROWS, f.rows as f64), ("wait4 and the events beyond it", total as f64)];
    found(
        Check::RowsTotal,
        Unit::Faults,
        figures,
        Believed::Second,
        "The kinds do not add up to the total: use the total only.",
    )
}

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

fn rows_user(f: &Facts) -> Option<Disagreement> {
    // Major faults are a row of their own.
    let (user, major) =
        (f.user?.saturating_sub(f.failed), f.major.unwrap_or(f.waited_major).max(f.major_seen));
    let off = f.rows_user.abs_diff(user);
    exceeds(off, 0, major.saturating_add(apart(user) as u64)).then_some(())?;
    let figures = [(ROWS, f.rows_user as f64), (USER, user as f64)];
    found(
        Check::RowsUser,
        Unit::Faults,
        figures,
        Believed::Second,
        "The kinds are shares of a wrong total: use shares only.",
    )
}

fn handled(f: &Facts) -> Option<Disagreement> {
    let begun = f.all.or(f.user)?;
    let handled = f.minor?.saturating_add(f.major?);
    exceeds(handled, begun, 0).then_some(())?;
    let figures = [("events of faults handled", handled as f64), ("events of faults begun", begun as f64)];
    let why = "No fault is handled that did not begin. The rows follow what began.";
    found(Check::Handled, Unit::Faults, figures, Believed::Second, why)
}

fn windows(f: &Facts) -> Option<Disagreement> {
    let (user, (sum, number)) = (f.user?, f.windows?);
    exceeds(sum, user, number).then_some(())?;
    let figures = [("counts of the recorded and unrecorded stretches", sum as f64), (USER, user as f64)];
    let why = "The stretches only share out what the counter has.";
    found(Check::Windows, Unit::Faults, figures, Believed::Second, why)
}

fn records(f: &Facts) -> Option<Disagreement> {
    let (beyond, counted) = f.recorded_beyond;
    let edges = f.windows.map_or(0, |(_, number)| number);
    (f.windows.is_some() && beyond as f64 > apart(counted) + edges as f64).then_some(())?;
    let figures = [
        ("single records", counted as f64 + beyond as f64),
        ("the counts of their stretches", counted as f64),
    ];
    found(
        Check::Records,
        Unit::Faults,
        figures,
        Believed::Second,
        "Records count as shares of their stretch.",
    )
}

fn readings(f: &Facts) -> Option<Disagreement> {
    let (user, last) = (f.all.or(f.user)?, f.last_reading?);
    exceeds(last, user, 0).then_some(())?;
    let figures = [("readings beside memory", last as f64), (USER, user as f64)];
    let why = "The avoidable share rests on those readings and is not given.";
    found(Check::Readings, Unit::Faults, figures, Believed::Second, why)
}

fn kernel_mode(f: &Facts) -> Option<Disagreement> {
    let (all, user) = (f.all?, f.user?);
    exceeds(user, all, 0).then_some(())?;
    let figures = [("the counter of all modes", all as f64), (USER, user as f64)];
    let why = "User mode is part of all modes. Faults of kernel mode are not told apart.";
    found(Check::KernelMode, Unit::Faults, figures, Believed::Second, why)
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

fn huge_pages(f: &Facts) -> Option<Disagreement> {
    let machine = f.huge_machine? as f64;
    (f.huge_found > machine + COUNTERS_APART as f64).then_some(())?;
    let figures = [("faults of huge pages found", f.huge_found), ("those of the whole machine", machine)];
    let why = "The program has at most what the machine has. The interval of that kind holds both.";
    found(Check::HugePages, Unit::Faults, figures, Believed::Second, why)
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

fn peak_memory(f: &Facts) -> Option<Disagreement> {
    let mapped = f.mapped_bytes?;
    (f.peak_bytes > mapped).then_some(())?;
    let figures =
        [("memory that the faults can have mapped", mapped), ("largest resident size (wait4)", f.peak_bytes)];
    let why = "Faults are missing from the total, or memory came without one.";
    found(Check::PeakMemory, Unit::Bytes, figures, Believed::Second, why)
}

fn kinds_time(f: &Facts) -> Option<Disagreement> {
    let all = f.time_ns?.value;
    ((f.rows_time_ns - all).abs() > ROUNDED_SHARE * all).then_some(())?;
    let figures = [("times of the kinds", f.rows_time_ns), ("time of all faults", all)];
    found(Check::KindsTime, Unit::Ns, figures, Believed::Second, "Use the time of all faults only.")
}

fn time(f: &Facts) -> Option<Disagreement> {
    let (time, bound) = (f.time_ns?, f.bound?);
    (time.low > bound.ns).then_some(())?;
    let source = if bound.is_cpu {
        "the CPU time"
    } else {
        "the system time, with the traps and the error of the kernel's clock"
    };
    let figures = [("times of the faults", time.value), (source, bound.ns)];
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
