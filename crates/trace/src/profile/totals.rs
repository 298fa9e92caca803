//! The figures of the whole run: faults by kind, time, CPU time. One place, so no two views disagree.
//!
//! In: an observation, its faults, and their profile. Out: [`Totals`], stored in the profile; and the profile
//! scaled to add up to them, its faults to the exact counts, its times to the CPU time. Faults that no fault
//! of the profile represents (a user's kernel mode, populated pages) are in [`Totals::beyond`]. `reconcile`
//! reports the disagreements found on the way.

use super::in_kernel;
use super::kinds::Kinds;
use super::rows::{self, BeyondWait4};
use super::strata::Strata;
use super::time::{self, FaultTime};
use super::{Profile, Weighted};
use crate::fault::Faults;
use crate::kind::{Kind, KindRow};
use crate::measurement::{Bytes, Count};
use crate::observation::{Calibration, Observation};
use crate::reconcile::{self, Check, Disagreement, Facts, time_bound};

/// The figures of the whole run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Totals {
    /// One row per kind, the dearest first.
    pub rows: Vec<KindRow>,
    /// Counted by the events, but missing from `wait4`.
    pub beyond_wait4: Option<BeyondWait4>,
    /// Time of the faults; `None` if nothing is known.
    pub time: Option<FaultTime>,
    /// How long faults waited: for a disk, for a lock, ns. It is no CPU time and not in `time`.
    pub wait_ns: f64,
    /// CPU time that recording has added to the program's, as calibrated, ns.
    pub recorder_ns: u64,
    /// CPU time of all processes without that, ns.
    pub cpu_ns: u64,
    /// Faults of the rows that no fault of the profile stands for, with their seconds.
    pub beyond: Vec<(Kind, u64, Option<f64>)>,
    /// Sources that can't both be right.
    pub disagreements: Vec<Disagreement>,
    /// Notes that a reader of these figures needs.
    pub notes: Vec<String>,
    /// The notes about method.
    pub details: Vec<String>,
}

impl Totals {
    /// Faults of all rows.
    pub fn faults(&self) -> u64 {
        self.rows.iter().fold(0, |sum, row| sum.saturating_add(row.faults))
    }

    /// CPU time in faults, ns; 0 if no time is known.
    pub fn time_ns(&self) -> f64 {
        self.time.as_ref().map_or(0.0, |time| time.seconds.value * 1e9)
    }

    /// Adds up a profile, reconciles it with the exact counts and the CPU time, and stores the totals in it.
    pub(crate) fn settle(profile: &mut Profile, found: &Faults, observation: &Observation) {
        let is_complete = Strata::new(found, observation.counts.failed() > 0).is_complete();
        let calibration = observation.calibration.filter(Calibration::is_sound);
        let offset_ns = calibration.map_or(0.0, |found| found.offset_ns());
        let offset_doubt_ns = calibration.map_or(0.0, |found| found.offset_doubt_ns());
        let major_seen = faults_of(profile, Mode::Major).round() as u64;
        let kinds = Kinds::new(profile, offset_doubt_ns);
        let (mut rows, beyond_wait4, said) = rows::rows(observation, &kinds, found, is_complete);
        let (mut notes, details) = (said.notes, Vec::from_iter(said.detail));
        fit(profile, &rows);
        let kinds = Kinds::new(profile, offset_doubt_ns);
        let collapsed_bytes = profile.collapsed * observation.host.thp_bytes as f64;
        notes.extend((collapsed_bytes >= 1.0).then(|| {
            format!("khugepaged added {} in huge pages, without faults", Bytes(collapsed_bytes as u64))
        }));

        let recorder_ns = recorder_ns(observation, found);
        let beyond_ns = beyond_wait4.map_or(0, |beyond| beyond.cpu_ns);
        let cpu_ns = observation.usage.cpu_ns().saturating_add(beyond_ns).saturating_sub(recorder_ns);
        let basis = time::Inputs {
            kinds: &kinds,
            complete: is_complete,
            truth_ns: calibration.map(|found| found.truth_p50_ns).filter(|ns| *ns > 0.0),
            offset_ns,
            huge: profile.huge,
            huge_ns: observation.counts.huge_ns.map(|ns| ns as f64),
            host: &observation.host,
            cpu_ns: cpu_ns as f64,
        };
        let (mut time, mut note) = time::time(&basis, &mut rows);
        if let Some(found) = observation.in_kernel.filter(|found| found.sums.all_minor().timed > 0) {
            let host = &observation.host;
            time = Some(in_kernel::settle(&found, profile, &mut rows, time, host, cpu_ns as f64));
            note = (found.beyond > 0).then(|| no_room(found.beyond));
        }
        notes.extend(note.filter(|_| !rows.is_empty()));

        let faults = rows.iter().map(|row| row.faults as f64).sum();
        let bound = time_bound(observation, cpu_ns as f64, recorder_ns as f64, faults);
        let facts = Facts {
            observation,
            found,
            rows: &rows,
            major_seen,
            beyond: beyond_wait4.map_or(0, |beyond| beyond.faults),
            time_ns: time.as_ref().map(|time| time.seconds.times(1e9)),
            bound,
        };
        let disagreements = reconcile::check(&facts);
        if let (Some(time), Some(bound)) = (&mut time, bound) {
            let part = time.cut(&bound, cpu_ns as f64);
            if part < 1.0 {
                cut(profile, &mut rows, part);
            }
            time.us_per_mib = time::us_per_mib(&rows, &observation.host);
        }
        if let Some(time) = &time {
            let left = bound.map_or(f64::MAX, |bound| bound.ns / 1e9 - time.seconds.low);
            bound_rows(&mut rows, time.seconds.high, left.max(0.0));
        }
        widen(&mut rows, &disagreements, observation);
        // Highest time first; rows without a time stay sorted by count.
        let seconds = |row: &KindRow| row.seconds.unwrap_or(0.0);
        rows.sort_by(|a, b| seconds(b).total_cmp(&seconds(a)));
        notes.extend(disagreements.iter().map(Disagreement::to_string));
        let beyond = beyond(profile, &rows);
        let in_kernel_ns = observation.in_kernel.and_then(|found| found.wait_ns());
        let wait_ns = in_kernel_ns.unwrap_or_else(|| profile.faults.iter().map(|fault| fault.wait_ns).sum());
        profile.totals = Self {
            rows,
            beyond_wait4,
            time,
            wait_ns,
            recorder_ns,
            cpu_ns,
            beyond,
            disagreements,
            notes,
            details,
        };
    }

    /// [`Totals::beyond`] as faults without a stack, at the time of `last` and of its thread.
    pub(crate) fn unplaced(&self, last: Option<&Weighted>) -> Vec<Weighted> {
        let unplaced = |(kind, faults, seconds): &(Kind, u64, Option<f64>)| Weighted {
            time_ns: last.map_or(0, |last| last.time_ns),
            pid: last.map_or(0, |last| last.pid),
            tid: last.map_or(0, |last| last.tid),
            kind: *kind,
            kernel: matches!(kind, Kind::KernelMode | Kind::KernelOrPopulate | Kind::Populate),
            faults: *faults as f64,
            cost_ns: seconds.unwrap_or(0.0) * 1e9,
            ..Weighted::default()
        };
        self.beyond.iter().map(unplaced).collect()
    }
}

/// Which exact count a fault is part of.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Mode {
    User,
    Kernel,
    Major,
}

pub(super) fn mode(kind: Kind, kernel: bool) -> Mode {
    match (kind, kernel) {
        (Kind::Major, _) => Mode::Major,
        (_, true) => Mode::Kernel,
        (_, false) => Mode::User,
    }
}

fn faults_of(profile: &Profile, of: Mode) -> f64 {
    let faults = profile.faults.iter().filter(|fault| mode(fault.kind, fault.kernel) == of);
    faults.map(|fault| fault.faults).sum()
}

fn row_faults(rows: &[KindRow], of: Mode) -> u64 {
    let is_of = |kind: Kind| match of {
        Mode::User => kind.is_user(),
        Mode::Kernel => kind == Kind::KernelMode,
        Mode::Major => kind == Kind::Major,
    };
    rows.iter().filter(|row| is_of(row.kind)).map(|row| row.faults).sum()
}

/// Scales the faults of the profile to the rows. Major faults beyond the seen ones go to `beyond`.
fn fit(profile: &mut Profile, rows: &[KindRow]) {
    for of in [Mode::User, Mode::Kernel, Mode::Major] {
        let (seen, counted) = (faults_of(profile, of), row_faults(rows, of) as f64);
        let part = counted / seen;
        let is_off = seen > 0.0 && (counted - seen).abs() > 1e-9 * seen;
        if !is_off || (of == Mode::Major && part > 1.0) {
            continue;
        }
        for (fault, basis) in profile.faults.iter_mut().zip(&mut profile.basis) {
            if mode(fault.kind, fault.kernel) == of {
                (fault.faults, fault.cost_ns) = (fault.faults * part, fault.cost_ns * part);
                fault.wait_ns *= part;
                (basis.exact, basis.alike) = (basis.exact * part, basis.alike * part);
                basis.assumed_ns *= part;
            }
        }
    }
}

/// Cuts the CPU time to a part of it.
fn cut(profile: &mut Profile, rows: &mut [KindRow], part: f64) {
    for row in rows.iter_mut().filter(|row| row.seconds.is_some()) {
        row.seconds = row.seconds.map(|seconds| seconds * part);
        row.seconds_interval = row.seconds_interval.map(|(low, high)| (low * part, high));
    }
    for (fault, basis) in profile.faults.iter_mut().zip(&mut profile.basis) {
        (fault.cost_ns, basis.assumed_ns) = (fault.cost_ns * part, basis.assumed_ns * part);
    }
}

/// No row takes more than all may take, and no untimed one more than these leave, in seconds.
fn bound_rows(rows: &mut [KindRow], bound: f64, left: f64) {
    for row in rows {
        row.seconds_interval = row.seconds_interval.map(|(low, high)| match row.seconds {
            Some(value) => (low.min(value), high.min(bound).max(value)),
            None => (low, high.min(left)),
        });
    }
}

/// Faults that no fault of the profile represents.
fn beyond(profile: &Profile, rows: &[KindRow]) -> Vec<(Kind, u64, Option<f64>)> {
    let [user, kernel, major] = [Mode::User, Mode::Kernel, Mode::Major].map(|of| faults_of(profile, of));
    let missing = |row: &KindRow| match row.kind {
        Kind::Major => row.faults.saturating_sub(major.round() as u64),
        Kind::KernelMode if kernel > 0.0 => 0,
        kind if kind.is_user() && user > 0.0 => 0,
        _ => row.faults,
    };
    let rows = rows.iter().map(|row| (row.kind, missing(row), row.seconds));
    rows.filter(|(_, faults, _)| *faults > 0).collect()
}

/// Widens the intervals of kinds as far as the disagreements demand.
fn widen(rows: &mut [KindRow], disagreements: &[Disagreement], observation: &Observation) {
    let page_bytes = observation.host.page_bytes.max(1) as f64;
    let user: u64 = row_faults(rows, Mode::User);
    for disagreement in disagreements {
        let off = (disagreement.second.value - disagreement.first.value).abs();
        match disagreement.check {
            Check::Samples => {
                let part = off / disagreement.second.value.max(1.0);
                for row in rows.iter_mut().filter(|row| row.interval.is_some()) {
                    let by = (row.faults as f64 * part).ceil() as u64;
                    stretch(row, by, by, user);
                }
            }
            Check::Growth => {
                let by = (off / page_bytes).ceil() as u64;
                for row in rows.iter_mut().filter(|row| row.kind.is_user()) {
                    let takes_memory = observation.host.bytes_made_resident(row.kind).is_some();
                    let (below, above) = if takes_memory { (0, by) } else { (by, 0) };
                    stretch(row, below, above, user);
                }
            }
            _ => {}
        }
    }
}

fn stretch(row: &mut KindRow, below: u64, above: u64, most: u64) {
    let (low, high) = row.interval.unwrap_or((row.faults, row.faults));
    let low = low.min(row.faults.saturating_sub(below));
    let high = high.max(row.faults.saturating_add(above).min(most.max(row.faults)));
    row.interval = Some((low, high));
}

/// What is not known where the kernel's table of processes was full.
fn no_room(faults: u64) -> String {
    format!(
        "{} of the machine are in no figure: the kernel's table had no room for their processes",
        Count(faults).of("fault")
    )
}

/// CPU time that recording added to the program's: the calibrated overhead of a fault times the recorded
/// faults, and of all faults what timing them in the kernel added.
fn recorder_ns(observation: &Observation, found: &Faults) -> u64 {
    let each_ns = observation.calibration.map_or(0.0, |found| found.record_cost_ns);
    let timed_ns = observation.in_kernel.map_or(0.0, |it| it.sums.all() as f64 * it.added_ns.max(0.0));
    let added_ns = (found.faults.len() + found.samples.len()) as f64 * each_ns.max(0.0) + timed_ns;
    // A calibration on a busy machine may say too much.
    (added_ns as u64).min(observation.usage.cpu_ns() / 2)
}
