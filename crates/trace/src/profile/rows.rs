//! Counters and kinds -> one row per kind, adding up to `wait4`'s total exactly.
//!
//! If the events counted more than `wait4`, their count is the total: the kernel drops the usage of
//! unwaited-for children. Accesses that ended in a signal are no faults to `wait4`, and are in no row.
//!
//! The total is divided in this order, each part limited to the remainder:
//!
//! - major faults and faults before exec, which `wait4` and the recorder know exactly;
//! - user mode, split by kind as sampled (largest remainder);
//! - kernel mode, if all modes were counted;
//! - the rest, under a name of its own.
//!
//! Major faults are taken from user mode first. The few of kernel mode make the kernel's row too small by
//! their number.

use serde::{Deserialize, Serialize};

use super::kinds::Kinds;
use crate::fault::Faults;
use crate::kind::{ALL, Kind, KindRow, Source};
use crate::measurement::{Count, apportion};
use crate::observation::{Counts, Observation, Usage};

/// Unwaited-for processes, such as children of a program that ignores SIGCHLD: the kernel drops their usage.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct BeyondWait4 {
    /// Faults, at least.
    pub faults: u64,
    /// CPU time, if it was counted.
    pub cpu_ns: u64,
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
    beyond: u64,
    /// Accesses that ended in a signal.
    failed: u64,
    /// Faults of user mode were counted, even if there were none.
    is_counted: bool,
}

/// From this share of faults outside all counted rows on, a note names their possible origin.
const REST_FROM: f64 = 0.1;

/// From this share of accesses that ended in a signal on, a note reports them. A thread that ends within a
/// fault leaves one.
const FAILED_FROM: f64 = 0.001;

/// The notes on a run's counts.
pub(crate) struct RowNotes {
    pub(crate) notes: Vec<String>,
    /// The one of `notes` that changes nothing for a reader.
    pub(crate) detail: Option<String>,
}

/// The rows, largest first, and their notes. Times are not filled in yet. `is_complete`: every fault was recorded.
pub(crate) fn rows(
    observation: &Observation,
    kinds: &Kinds,
    found: &Faults,
    is_complete: bool,
) -> (Vec<KindRow>, Option<BeyondWait4>, RowNotes) {
    // Without counts, as in a file of perf's, the recorded faults are the total.
    let counts = observation.counts;
    let counted_in_windows = found.windows.iter().map(|window| window.faults).fold(0, u64::saturating_add);
    let is_counted = counts.user_faults.is_some() || counts.all_faults.is_some() || counted_in_windows > 0;
    let (user, kernel, major) = kinds.modes();
    let counts = match is_counted {
        false if user + kernel > 0.0 => Counts {
            user_faults: Some((user + major).round() as u64),
            all_faults: Some((user + major + kernel).round() as u64),
            major_faults: Some(major.round() as u64),
            ..counts
        },
        _ => counts,
    };
    let parts = parts(&observation.usage, &counts, counted_in_windows, major.round() as u64);
    let mut rows = user_rows(parts.user, kinds, found.tells_pages, is_complete);
    let mut push = |kind, faults, source| {
        if faults > 0 {
            rows.push(KindRow::new(kind, faults, source));
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
    let cpu_ns = observation.counts.cpu_ns.unwrap_or(0).saturating_sub(observation.usage.cpu_ns());
    // A process that still runs has at most ticks in /proc. Its faults are counted, so its time is too.
    let running = observation.counts.running;
    let is_beyond = parts.beyond > 0 || running > 0 && cpu_ns > 0;
    let beyond = is_beyond.then_some(BeyondWait4 { faults: parts.beyond, cpu_ns });
    let is_waited = observation.usage.cpu_ns() > 0 || observation.usage.minor_faults > 0;
    let mut said = notes(&parts, is_waited, observation.attached);
    let later = if running == 1 { "it" } else { "they" };
    said.notes.extend((running > 0).then(|| {
        let processes = Count(running).of("process");
        format!("{processes} still ran when the command ended: what {later} did later is not counted")
    }));
    (rows, beyond, said)
}

fn parts(usage: &Usage, counts: &Counts, counted_in_windows: u64, major_seen: u64) -> Parts {
    let failed = counts.failed();
    let user = counts.user_faults.or((counted_in_windows > 0).then_some(counted_in_windows));
    let user = user.map(|user| user.saturating_sub(failed));
    let all = counts.all_faults.map(|all| all.saturating_sub(failed));
    let waited = usage.minor_faults.saturating_add(usage.major_faults);
    let counted = all.or(user).map_or(0, |counted| counted.saturating_add(counts.before_exec_faults));
    let beyond = counted.saturating_sub(waited);
    let mut left = waited.saturating_add(beyond);
    let mut take = |wanted: u64| {
        let taken = wanted.min(left);
        left -= taken;
        taken
    };
    let major = take(usage.major_faults.max(counts.major_faults.unwrap_or(0)).max(major_seen));
    let user_major = major.min(counts.major_faults.unwrap_or(major)).min(user.unwrap_or(0));
    let before_exec = take(counts.before_exec_faults);
    let user_minor = take(user.unwrap_or(0) - user_major);
    let kernel_known = all.filter(|_| user.is_some());
    let kernel =
        kernel_known.map(|all| all.saturating_sub(user.unwrap_or(0)).saturating_sub(major - user_major));
    let kernel = take(kernel.unwrap_or(0));
    let rest_kind = match (user, kernel_known) {
        (None, _) => Kind::Unknown,
        (Some(_), None) if left > waited / 2 && counts.were_taken_away(usage) => Kind::Unknown,
        (Some(_), Some(_)) => Kind::Populate,
        (Some(_), None) => Kind::KernelOrPopulate,
    };
    Parts {
        major,
        before_exec,
        user: user_minor,
        kernel,
        rest: left,
        rest_kind: Some(rest_kind),
        beyond,
        failed,
        is_counted: user.is_some(),
    }
}

fn notes(parts: &Parts, is_waited: bool, is_attached: bool) -> RowNotes {
    let mut notes = Vec::new();
    if parts.beyond > 0 && is_waited {
        notes.push(format!(
            "{} faults are in no figure of {}",
            Count(parts.beyond),
            if is_attached {
                "/proc, the events counted them: of children that nobody waited for, or the two were read at slightly different times"
            } else {
                "wait4, the events counted them: of processes that nobody waited for, such as children of a program that ignores SIGCHLD"
            }
        ));
    }
    let all = parts.major + parts.before_exec + parts.user + parts.kernel + parts.rest;
    if parts.failed > 1 && parts.failed as f64 > FAILED_FROM * all as f64 {
        notes.push(format!(
            "{} accesses ended in a signal (SIGSEGV, SIGBUS): no faults to wait4, and in no row",
            Count(parts.failed)
        ));
    }
    let rest = Count(parts.rest);
    match parts.rest_kind {
        Some(Kind::Unknown) if parts.is_counted => notes.push(format!(
            "the kernel took the events away, as from a set-user-ID program: of {rest} faults nothing more is known; run as root to see into it"
        )),
        Some(Kind::KernelOrPopulate) if parts.rest as f64 > REST_FROM * all as f64 => notes.push(format!(
            "{rest} faults were taken in kernel mode, by populating, or in a set-user-ID program, which the kernel does not show to a user: root tells them apart"
        )),
        _ => {}
    }
    let detail = (parts.before_exec > 0).then(|| {
        format!(
            "{} faults are faultless's own: of its child before it ran the command, and in the journal of record --alloc; wait4 counts them, no time is charged for them",
            Count(parts.before_exec)
        )
    });
    notes.extend(detail.clone());
    RowNotes { notes, detail }
}

/// Kinds that depend on the page's history.
fn has_past(kind: Kind) -> bool {
    matches!(kind, Kind::CowAfterFork | Kind::WriteAfterZeroRead)
}

fn user_rows(user: u64, kinds: &Kinds, tells_pages: bool, is_complete: bool) -> Vec<KindRow> {
    let weights = kinds.user_faults();
    let sampled: f64 = weights.iter().sum();
    if sampled <= 0.0 {
        return if user > 0 {
            vec![KindRow::new(Kind::UserUnknown, user, Source::Counted)]
        } else {
            Vec::new()
        };
    }
    let mut rows = Vec::new();
    for (kind, faults) in ALL.into_iter().zip(apportion(user, &weights)) {
        let source = if has_past(kind) && !tells_pages {
            Source::Inferred
        } else if is_complete {
            Source::Counted
        } else if kind == Kind::Thp {
            Source::Inferred
        } else {
            Source::Sampled
        };
        // The upper bound of huge pages is a count, not a share.
        let scale = if kind == Kind::Thp { 1.0 } else { user as f64 / sampled };
        let interval = (!is_complete).then(|| {
            let found = kinds.faults(kind);
            let (low, high) = ((found.low * scale).floor() as u64, (found.high * scale).ceil() as u64);
            (low.min(faults), high.clamp(faults, user))
        });
        if faults > 0 {
            rows.push(KindRow { interval, ..KindRow::new(kind, faults, source) });
        }
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_still_runs_is_told_and_has_its_cpu_time() {
        let usage = Usage { user_ns: 500_000, system_ns: 285_000, minor_faults: 20_082, ..Usage::default() };
        let counts =
            Counts { user_faults: Some(20_082), cpu_ns: Some(30_000_000), running: 1, ..Counts::default() };
        let observation = Observation { usage, counts, ..Observation::default() };
        let stat = crate::Stat::from_observation(&observation);
        assert_eq!(stat.cpu_ns(), 30_000_000);
        assert!(stat.notes.iter().any(|note| note.starts_with("1 process still ran")), "{:?}", stat.notes);
    }

    #[test]
    fn what_a_set_user_id_program_hides_from_a_user_is_of_unknown_kind_and_said() {
        let ran = Usage { system_ns: 9_000_000, minor_faults: 2494, ..Usage::default() };
        let counts = Counts { user_faults: Some(0), cpu_ns: Some(12_000), ..Counts::default() };
        let hidden = parts(&ran, &counts, 0, 0);
        assert_eq!((hidden.rest, hidden.rest_kind), (2494, Some(Kind::Unknown)));
        assert!(
            notes(&hidden, true, false).notes[0].contains("set-user-ID program: of 2 494 faults nothing")
        );
        // Populated memory takes the program's own time.
        let populated = parts(&ran, &Counts { cpu_ns: Some(8_900_000), ..counts }, 0, 0);
        assert_eq!(populated.rest_kind, Some(Kind::KernelOrPopulate));
        assert!(
            notes(&populated, true, false).notes[0]
                .starts_with("2 494 faults were taken in kernel mode, by populating, or")
        );
    }
}
