//! Observation -> [`Stat`]: runs the analyses in order and collects their notes.

use super::missing::{Part, denied, missing};
use super::{FaultTime, Kind, KindRow, Source, Stat, kernel_time, serial};
use crate::avoid;
use crate::fault::Faults;
use crate::measurement::{Count, Percent};
use crate::observation::{Calibration, Observation, SourceNote};
use crate::profile::{Profile, Totals};
use crate::recording::Stacks;
use crate::tuning::LOST_SHARE;

/// High end of a time over its low end, from which on a note says what narrows it.
const WIDE_FROM: f64 = 3.0;

/// Share of recorded faults without an end that is worth a note.
const NOTE_FROM: f64 = 0.01;

/// Before Linux 5.11.
const PAGES_UNKNOWN: &str = "what pages were mapped is not known (Linux tells from 5.11 on): a fault that mapped a huge page counts as \
                             one of a base page, and copies after a fork are told by the faults recorded before";

impl Stat {
    /// Version of the JSON document; rises when a field changes its meaning or goes.
    pub const SCHEMA: u32 = 2;

    /// The answer for an observation. Never fails: an unknown part is `None`, with a note.
    pub fn from_observation(observation: &Observation) -> Self {
        let faults = Faults::from_observation(observation);
        let profile = Profile::of(&faults, observation, &Stacks::default());
        Self::of(observation, &faults, &profile)
    }

    /// The answer for an observation whose faults have been weighed.
    pub(crate) fn of(observation: &Observation, faults: &Faults, profile: &Profile) -> Self {
        let calibration = observation.calibration.filter(Calibration::is_sound);
        let offset_ns = calibration.map_or(0.0, |found| found.offset_ns());
        let Totals {
            rows,
            beyond_wait4,
            time,
            wait_ns,
            recorder_ns,
            disagreements,
            mut notes,
            mut details,
            ..
        } = profile.totals.clone();
        let tells_waits = observation.in_kernel.map_or(faults.tells_switches, |found| found.tells_switches);
        let wait_ns = tells_waits.then_some(wait_ns);
        let pages = (!faults.tells_pages && !faults.faults.is_empty()).then(|| PAGES_UNKNOWN.to_owned());
        details.extend(pages.clone());
        notes.extend(pages);
        notes.extend(recording_notes(faults, observation));
        let (avoidable, avoid_notes) = avoid::avoidable(observation, faults, profile);
        // A range shows that already. A missing curve is listed as missing, not as a note.
        let told = |note: &&String| avoidable.is_none() || note.as_str() == avoid::WIDE;
        details.extend(avoid_notes.iter().filter(told).cloned());
        let no_curve = avoid_notes.first().filter(|_| avoidable.is_none()).cloned();
        notes.extend(avoid_notes);
        let (kernel, no_phases) = observation.kernel.as_ref().map(kernel_time).unzip();
        let no_phases = no_phases.flatten();
        details.extend(no_phases.clone());
        notes.extend(no_phases.clone());
        let row_notes = row_notes(&rows, time.is_some(), wait_ns.is_some());
        details.extend(row_notes.iter().cloned());
        notes.extend(row_notes);
        let serialisation = serial::serialisation(faults, offset_ns);
        notes.extend(time.as_ref().and_then(wide));
        let mut stat = Self {
            schema: Self::SCHEMA,
            command: observation.command.clone(),
            exit: observation.exit,
            host: observation.host.clone(),
            usage: observation.usage,
            beyond_wait4,
            recorder_ns,
            rows,
            time,
            wait_ns,
            avoidable,
            serialisation,
            kernel,
            sources: observation.sources.clone(),
            disagreements,
            notes,
            details,
            immune: None,
            missing: Vec::new(),
        };
        stat.missing = missing(&stat, no_curve, no_phases);
        // Without times the answer is a range, and the reader asks why.
        let untimed = stat.missing.iter().find(|missing| missing.part == Part::Time);
        let untimed = untimed.map(|missing| format!("faults could not be timed: {}", missing.why));
        stat.notes.extend(untimed);
        stat
    }
}

/// What narrows a range, if it is wide.
fn wide(time: &FaultTime) -> Option<String> {
    let is_wide = time.source == Source::Sampled && time.seconds.high > WIDE_FROM * time.seconds.low;
    is_wide.then(|| {
        let timed = Count(time.timed).were("fault");
        format!("{timed} timed, so the range of the time is wide: a longer run narrows it")
    })
}

fn recording_notes(faults: &Faults, observation: &Observation) -> Vec<String> {
    let mut notes: Vec<String> = denied(&observation.sources, SourceNote::MAPPINGS).into_iter().collect();
    let in_windows =
        faults.windows.iter().filter(|w| w.recorded).map(|w| w.lost).fold(0, u64::saturating_add);
    // A ring reports a loss with the next record, so the last loss is only in the events' counts.
    let by_events = observation.event_losses.iter().flatten();
    let lost = by_events.map(|loss| loss.lost).fold(0, u64::saturating_add).max(in_windows);
    notes.extend(lost_records(lost, (faults.faults.len() + faults.samples.len()) as u64));
    let untimed = faults.unmatched_enters.saturating_add(faults.dropped_pairs);
    if untimed as f64 > NOTE_FROM * faults.faults.len() as f64 {
        notes.push(format!(
            "{} of {} recorded faults have no end that can be trusted: counted, not timed",
            Count(untimed),
            Count(faults.faults.len() as u64)
        ));
    }
    notes
}

/// What lost records leave unknown, beside those that were kept.
pub fn lost_records(lost: u64, kept: u64) -> Option<String> {
    let share = lost_share(lost, kept);
    let records = Count(lost).of("record");
    (lost > 0).then(|| match share {
        share if share > LOST_SHARE => format!(
            "the rings lost {records} ({}): totals are exact, but as many faults may be of other kinds and places than the rows say; a quieter machine or a larger kernel.perf_event_mlock_kb loses fewer",
            Percent(share)
        ),
        _ => format!("the rings lost {records}; exact counts make up for them"),
    })
}

/// What the first sentence says of them: nothing of few.
pub fn lost_clause(lost: u64, kept: u64) -> Option<String> {
    let share = lost_share(lost, kept);
    (share > LOST_SHARE)
        .then(|| format!("{} of the records were lost: shares are of what was seen", Percent(share)))
}

fn lost_share(lost: u64, kept: u64) -> f64 {
    lost as f64 / lost.saturating_add(kept).max(1) as f64
}

fn row_notes(rows: &[KindRow], timed: bool, tells_waits: bool) -> Vec<String> {
    let mut notes = Vec::new();
    let priced = |r: &&KindRow| matches!(r.kind, Kind::KernelMode | Kind::Populate) && r.p50_ns.is_none();
    if timed && rows.iter().any(|r| priced(&r)) {
        notes.push(
            "faults in kernel mode and populated pages are priced like the program's own first touches"
                .to_owned(),
        );
    }
    if timed && !tells_waits && rows.iter().any(|r| r.kind == Kind::Major) {
        notes.push(
            "major faults wait for the disk: their time is not CPU time and not in the seconds".to_owned(),
        );
    }
    notes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_lost_records_leave_kinds_and_places_in_doubt() {
        assert_eq!(lost_records(0, 0), None);
        assert!(lost_records(10, 990).unwrap().ends_with("exact counts make up for them"));
        let said = lost_records(400, 600).unwrap();
        assert!(
            said.starts_with("the rings lost 400 records (40 %)") && said.contains("other kinds"),
            "{said}"
        );
        assert_eq!(lost_clause(10, 990), None);
        assert!(lost_clause(400, 600).unwrap().starts_with("40 % of the records were lost"));
    }
}
