//! Counters + strata -> one row per kind, adding up to `wait4`'s total exactly.
//!
//! The total is given out in this order, each part limited to what is left: major faults and faults before exec, which
//! `wait4` and the recorder know exactly; user mode, split by kind as sampled (largest remainder); kernel mode, where
//! all modes were counted; the rest has a name. Major faults are taken from user mode first: the few of kernel mode
//! then make the kernel's row that much too small.

use super::strata::{KINDS, Strata};
use super::{Kind, Row, Source};
use crate::measurement::{Count, apportion};
use crate::observation::{Counts, Observation, Usage};

/// All kinds, by index.
pub(super) const ALL: [Kind; KINDS] = [
    Kind::MmapFirstWrite,
    Kind::HeapFirstWrite,
    Kind::BssFirstWrite,
    Kind::FirstTouch,
    Kind::Thp,
    Kind::ZeroPageRead,
    Kind::WriteAfterZeroRead,
    Kind::CowAfterFork,
    Kind::Stack,
    Kind::FileRead,
    Kind::FilePrivateWrite,
    Kind::Shared,
    Kind::Unplaced,
    Kind::UserUnknown,
    Kind::KernelMode,
    Kind::Populate,
    Kind::KernelOrPopulate,
    Kind::Major,
    Kind::Unknown,
    Kind::BeforeExec,
];

/// `wait4`'s total of a run.
pub(super) fn total(usage: &Usage) -> u64 {
    usage.minor_faults.saturating_add(usage.major_faults)
}

/// The exact parts of the total.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Parts {
    major: u64,
    before_exec: u64,
    user: u64,
    kernel: u64,
    rest: u64,
    rest_kind: Option<Kind>,
    /// Counted by the events beyond `wait4`'s total.
    over: u64,
}

/// The rows, largest first, and what must be said about them. Times are not filled in yet.
pub(super) fn rows(
    observation: &Observation,
    strata: &Strata,
    counted_in_windows: u64,
) -> (Vec<Row>, Vec<String>) {
    let parts = parts(&observation.usage, &observation.counts, counted_in_windows);
    let mut rows = user_rows(parts.user, strata);
    let mut push = |kind, faults, source| {
        if faults > 0 {
            rows.push(Row { kind, faults, interval: None, seconds: None, p50_ns: None, source });
        }
    };
    push(Kind::Major, parts.major, Source::Counted);
    push(Kind::BeforeExec, parts.before_exec, Source::Counted);
    push(Kind::KernelMode, parts.kernel, Source::Counted);
    match parts.rest_kind {
        Some(Kind::Unknown) => push(Kind::Unknown, parts.rest, Source::Counted),
        Some(kind) => push(kind, parts.rest, Source::Remainder),
        None => {}
    }
    rows.sort_by_key(|row| (std::cmp::Reverse(row.faults), row.kind));
    let mut notes = notes(&parts, total(&observation.usage));
    let assumed = strata.on_one_window();
    if assumed > 0 {
        notes.push(format!(
            "{} faults came after the only stretch that was recorded: they are taken to be like its end, unchecked",
            Count(assumed)
        ));
    }
    (rows, notes)
}

fn parts(usage: &Usage, counts: &Counts, counted_in_windows: u64) -> Parts {
    let mut left = total(usage);
    let mut over = 0_u64;
    let mut take = |wanted: u64| {
        let taken = wanted.min(left);
        left -= taken;
        over = over.saturating_add(wanted - taken);
        taken
    };
    let major = take(usage.major_faults);
    let user = counts.user_faults.or((counted_in_windows > 0).then_some(counted_in_windows));
    let user_major = major.min(counts.major_faults.unwrap_or(major)).min(user.unwrap_or(0));
    let before_exec = take(counts.before_exec_faults);
    let user_minor = take(user.unwrap_or(0) - user_major);
    let kernel_known = counts.all_faults.filter(|_| user.is_some());
    let kernel =
        kernel_known.map(|all| all.saturating_sub(user.unwrap_or(0)).saturating_sub(major - user_major));
    let kernel = take(kernel.unwrap_or(0));
    let rest_kind = match (user, kernel_known) {
        (None, _) => Kind::Unknown,
        (Some(_), Some(_)) => Kind::Populate,
        (Some(_), None) => Kind::KernelOrPopulate,
    };
    Parts { major, before_exec, user: user_minor, kernel, rest: left, rest_kind: Some(rest_kind), over }
}

fn notes(parts: &Parts, total: u64) -> Vec<String> {
    let mut notes = Vec::new();
    if parts.over > 0 {
        notes.push(format!(
            "the events counted {} faults more than wait4's {}: processes that nobody waited for; rows are cut to wait4's total",
            Count(parts.over),
            Count(total)
        ));
    }
    if parts.before_exec > 0 {
        notes.push(format!(
            "{} faults were taken by faultless's own child before it ran the command; wait4 counts them, no time is charged for them",
            Count(parts.before_exec)
        ));
    }
    notes
}

/// Kinds whose rule can be wrong about the page's past.
fn is_inferred(kind: Kind) -> bool {
    matches!(kind, Kind::CowAfterFork | Kind::Thp | Kind::WriteAfterZeroRead)
}

fn user_rows(user: u64, strata: &Strata) -> Vec<Row> {
    let mut weights = strata.by_kind();
    weights[Kind::Major as usize] = 0.0;
    let sampled: f64 = weights.iter().sum();
    let bare =
        |kind, faults, source| Row { kind, faults, interval: None, seconds: None, p50_ns: None, source };
    if sampled <= 0.0 {
        return if user > 0 { vec![bare(Kind::UserUnknown, user, Source::Counted)] } else { Vec::new() };
    }
    let complete = strata.is_complete();
    let intervals = if complete { None } else { count_intervals(strata) };
    let mut rows = Vec::new();
    for (kind, faults) in ALL.into_iter().zip(apportion(user, &weights)) {
        if faults == 0 {
            continue;
        }
        let source = match complete {
            _ if is_inferred(kind) => Source::Inferred,
            true => Source::Counted,
            false => Source::Sampled,
        };
        let scale = user as f64 / sampled;
        let interval = intervals.as_ref().map(|all| all[kind as usize]).map(|i| {
            let (low, high) = ((i.low * scale).floor() as u64, (i.high * scale).ceil() as u64);
            (low.min(faults), high.clamp(faults, user))
        });
        rows.push(Row { interval, ..bare(kind, faults, source) });
    }
    rows
}

fn count_intervals(strata: &Strata) -> Option<[super::Interval; KINDS]> {
    let share = |s: &super::strata::Stratum| s.kinds.map(|n| n as f64 / s.recorded as f64);
    strata.intervals(&strata.strata.iter().map(share).collect::<Vec<_>>())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn usage(minor_faults: u64, major_faults: u64) -> Usage {
        Usage { minor_faults, major_faults, ..Usage::default() }
    }

    #[test]
    fn every_kind_is_at_its_index() {
        assert!(ALL.iter().enumerate().all(|(index, kind)| *kind as usize == index));
    }

    #[test]
    fn root_sees_kernel_mode_apart_from_populate() {
        let counts = Counts {
            user_faults: Some(54),
            all_faults: Some(8247),
            major_faults: Some(2),
            before_exec_faults: 6,
        };
        let parts = parts(&usage(8263, 2), &counts, 0);
        assert_eq!((parts.major, parts.user, parts.kernel, parts.before_exec), (2, 52, 8193, 6));
        assert_eq!((parts.rest, parts.rest_kind, parts.over), (12, Some(Kind::Populate), 0));
    }

    #[test]
    fn a_user_gets_kernel_mode_and_populate_together() {
        let counts = Counts { user_faults: Some(54), ..Counts::default() };
        let parts = parts(&usage(8263, 0), &counts, 0);
        assert_eq!((parts.user, parts.rest, parts.rest_kind), (54, 8209, Some(Kind::KernelOrPopulate)));
    }

    #[test]
    fn counters_that_exceed_wait4_are_cut_and_told() {
        let counts = Counts { user_faults: Some(500), all_faults: Some(700), ..Counts::default() };
        let parts = parts(&usage(300, 10), &counts, 0);
        assert_eq!((parts.major, parts.user, parts.kernel, parts.rest), (10, 300, 0, 0));
        assert_eq!(parts.over, 390);
        assert!(notes(&parts, 310)[0].contains("390 faults more"));
    }

    #[test]
    fn with_all_events_denied_the_total_is_one_row() {
        let parts = parts(&usage(300, 10), &Counts::default(), 0);
        assert_eq!((parts.major, parts.rest, parts.rest_kind), (10, 300, Some(Kind::Unknown)));
    }
}
