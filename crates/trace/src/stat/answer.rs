//! Observation -> [`Stat`]: runs the analyses one after another and collects what must be said about them.

use super::missing::{self, missing};
use super::mix::Mix;
use super::strata::{Strata, is_fresh};
use super::{Curve, Kind, Row, Stat, kernel, rows, serial, time};
use crate::avoid::{self, Growth, Lifecycle, Memory, anonymous_bytes, lifecycle};
use crate::fault::{Faults, find_window};
use crate::measurement::Count;
use crate::observation::{Observation, Window};
use crate::profile::Profile;
use crate::reconcile::Check;
use crate::recording::Stacks;
use crate::totals::Totals;
use crate::tuning::{POOL_FAULTS, WIDE_BOUNDS};

/// Share of recorded faults without an end from which on it is worth a note.
const NOTE_FROM: f64 = 0.01;

/// Before Linux 5.11.
const PAGES_UNKNOWN: &str = "what pages were mapped is not known (Linux tells from 5.11 on): a fault that mapped a huge page counts as \
                             one of a base page, and copies after a fork are told by the faults recorded before";
/// Why the bounds of the avoidable curve are far apart.
const WIDE: &str = "the bounds of the avoidable share are far apart: too little is known of which faults take new pages, or of what \
                    processes held at their end";

impl Stat {
    /// Version of the JSON document; rises when a field changes its meaning or goes.
    pub const SCHEMA: u32 = 2;

    /// What an observation means. Never fails: what can't be known is `None`, with a note.
    pub fn from_observation(observation: &Observation) -> Self {
        let faults = Faults::from_observation(observation);
        let profile = Profile::of(&faults, observation, &Stacks::default());
        Self::of(observation, &faults, &profile)
    }

    /// What an observation means whose faults have been found and weighed.
    pub(crate) fn of(observation: &Observation, faults: &Faults, profile: &Profile) -> Self {
        let strata = Strata::new(faults, rows::failed(&observation.counts) > 0);
        let calibration = observation.calibration.filter(time::is_sound);
        let offset_ns = calibration.map_or(0.0, |found| found.offset_ns());
        let Totals { rows, beyond_wait4, time, recorder_ns, disagreements, mut notes, mut details, .. } =
            profile.totals.clone();
        let pages = (!faults.tells_pages && !faults.faults.is_empty()).then(|| PAGES_UNKNOWN.to_owned());
        details.extend(pages.clone());
        notes.extend(pages);
        notes.extend(recording_notes(faults, observation));
        let is_unread = disagreements.iter().any(|one| one.check == Check::Readings);
        let (avoidable, avoid_notes) = avoidable(observation, faults, profile, &strata, is_unread);
        // A range shows that already, and where there is no curve that is missing, not noted.
        let told = |note: &&String| avoidable.is_none() || note.as_str() == WIDE;
        details.extend(avoid_notes.iter().filter(told).cloned());
        let no_curve = avoid_notes.first().filter(|_| avoidable.is_none()).cloned();
        notes.extend(avoid_notes);
        let (kernel, no_phases) = observation.kernel.as_ref().map(kernel::kernel_time).unzip();
        let no_phases = no_phases.flatten();
        details.extend(no_phases.clone());
        notes.extend(no_phases.clone());
        let row_notes = row_notes(&rows, time.is_some());
        details.extend(row_notes.iter().cloned());
        notes.extend(row_notes);
        let serialisation = serial::serialisation(faults, offset_ns);
        let missing = missing(&missing::Known {
            observation,
            rows: &rows,
            time: time.as_ref(),
            no_curve,
            has_curve: avoidable.is_some(),
            serialisation: &serialisation,
            has_kernel: kernel.is_some(),
            no_phases,
        });
        // Without times the answer is a range, and the reader asks why.
        let untimed = missing.iter().find(|missing| missing.part == missing::Part::Time);
        notes.extend(untimed.map(|missing| format!("faults could not be timed: {}", missing.why)));
        Stat {
            schema: Self::SCHEMA,
            command: observation.command.clone(),
            exit: observation.exit,
            host: observation.host.clone(),
            usage: observation.usage,
            beyond_wait4,
            recorder_ns,
            rows,
            time,
            avoidable,
            serialisation,
            kernel,
            sources: observation.sources.clone(),
            disagreements,
            notes,
            details,
            missing,
        }
    }
}

fn recording_notes(faults: &Faults, observation: &Observation) -> Vec<String> {
    let mut notes = Vec::new();
    let in_windows =
        faults.windows.iter().filter(|w| w.recorded).map(|w| w.lost).fold(0, u64::saturating_add);
    // Of what it lost last a ring holds no word: that takes another record behind it.
    let by_events = observation.event_losses.iter().flatten();
    let lost = by_events.map(|loss| loss.lost).fold(0, u64::saturating_add).max(in_windows);
    if lost > 0 {
        notes.push(format!(
            "the rings lost {}; the windows' exact counts make up for them",
            Count(lost).of("record")
        ));
    }
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

fn row_notes(rows: &[Row], timed: bool) -> Vec<String> {
    let mut notes = Vec::new();
    let priced = |r: &&Row| {
        matches!(r.kind, Kind::KernelMode | Kind::Populate | Kind::KernelOrPopulate) && r.p50_ns.is_none()
    };
    if timed && rows.iter().any(|r| priced(&r)) {
        notes.push(
            "faults in kernel mode and populated pages are priced like the program's own first touches"
                .to_owned(),
        );
    }
    if timed && rows.iter().any(|r| r.kind == Kind::Major) {
        notes.push(
            "major faults wait for the disk: their time is not CPU time and not in the seconds".to_owned(),
        );
    }
    notes
}

fn avoidable(
    observation: &Observation,
    faults: &Faults,
    profile: &Profile,
    strata: &Strata,
    is_unread: bool,
) -> (Option<Curve>, Vec<String>) {
    let rows = &profile.totals.rows;
    if observation.levels.is_empty() || is_unread {
        return (None, Vec::new());
    }
    let host = &observation.host;
    let page_bytes = host.page_bytes.max(1);
    let page = page_bytes as f64;
    let bytes_of = |kind| anonymous_bytes(kind, page_bytes, host.thp_bytes);
    let lifecycle = lifecycle(observation);
    let forks =
        lifecycle.iter().filter_map(|event| if let Lifecycle::Fork(ns) = event { Some(*ns) } else { None });
    let forked_ns = forks.min().unwrap_or(u64::MAX);
    let mix = Mix::new(profile);
    let growth_in = |(index, window): (usize, &Window)| {
        let sampled = if window.recorded { None } else { mix.growth(window, &bytes_of) };
        sampled.or_else(|| strata.growth_in_window(index, &bytes_of, page, forked_ns < window.end_ns))
    };
    let in_window: Vec<Option<Growth>> = faults.windows.iter().enumerate().map(growth_in).collect();
    let unknown = Growth { low_bytes: 0.0, high_bytes: page, fresh_share: 1.0 };
    let growth =
        |time_ns: u64| find_window(&faults.windows, time_ns).and_then(|w| in_window[w]).unwrap_or(unknown);
    let is_end = |event: &Lifecycle| matches!(event, Lifecycle::End(_));
    let is_single = lifecycle.iter().filter(|event| !is_end(event)).count() == 0;
    let peak_bytes = Some(observation.usage.peak_rss_bytes).filter(|peak| *peak > 0 && is_single);
    // Rows of few looks at the program are no shares of it.
    let sampled = profile.basis.iter().filter(|basis| basis.burst.is_none()).count() as u64;
    let is_told = strata.is_complete() || sampled >= POOL_FAULTS;
    let plateau = avoid::plateau(rows, &profile.faults, observation);
    let memory = Memory {
        peak_bytes: peak_bytes.unwrap_or(u64::MAX),
        plateau: plateau.map_or((None, None), |[low, high]| (Some(low).filter(|_| is_told), Some(high))),
        levels: &observation.levels,
        page_bytes,
        cpus: host.cpus,
        lifecycle,
        growth: &growth,
        all_pages: rows.iter().map(|r| r.faults as f64).sum::<f64>() * fresh_bytes(rows, &bytes_of, page)
            / page,
        fresh_share: fresh_share(rows),
    };
    match avoid::curve(&memory) {
        Err(why) => (None, vec![why]),
        Ok(curve) => {
            let wide = curve.points.iter().any(|point| point.high - point.low > WIDE_BOUNDS);
            (Some(curve), Vec::from_iter(wide.then(|| WIDE.to_owned())))
        }
    }
}

/// Share of all faults that kept memory could have served at most.
fn fresh_share(rows: &[Row]) -> f64 {
    let high = |row: &Row| row.interval.map_or(row.faults, |(_, high)| high) as f64;
    let fresh: f64 = rows.iter().filter(|row| is_fresh(row.kind)).map(high).sum();
    let all: f64 = rows.iter().map(|row| row.faults as f64).sum();
    if all > 0.0 { (fresh / all).min(1.0) } else { 0.0 }
}

/// What a fault takes that takes anonymous memory at all, on average; `page` where there is none.
fn fresh_bytes(rows: &[Row], bytes_of: &impl Fn(Kind) -> f64, page: f64) -> f64 {
    let fresh = rows.iter().filter(|r| is_fresh(r.kind)).map(|r| (bytes_of(r.kind), r.faults as f64));
    let (sum, faults) =
        fresh.fold((0.0, 0.0), |(sum, n), (bytes, faults)| (sum + bytes * faults, n + faults));
    if faults > 0.0 { sum / faults } else { page }
}
