//! When the faults of a mechanism happen.

use super::Scene;
use crate::measurement::{Count, Nanos, Percent};

/// Parts of the run that [`when`] looks at.
const PARTS: usize = 64;
/// Share of the faults that is nearly all of them.
const NEARLY_ALL: f64 = 0.97;

/// A rate rises or falls if that of the last quarter of the run and that of the second one differ so many times, with the
/// third one between them. The first one has the start in it.
const TREND: f64 = 2.0;
/// Fewest faults in the larger of the two.
const TREND_FAULTS: f64 = 500.0;

/// When faults happen, if not all the time alike.
pub(super) struct When {
    /// `97 % before 0.4 s, hardly any since`.
    pub(super) text: String,
    /// They end early ...
    pub(super) is_over: bool,
    /// ... in the first half of the run.
    pub(super) is_start: bool,
}

impl When {
    /// `at`: the part of the run, 0 to 1, by whose end this share of the faults of `what` have happened.
    fn new(share: f64, what: &str, at: f64, run_ns: u64) -> Option<Self> {
        let share = Percent(share);
        let time = Nanos(run_ns as f64 * at);
        let text = format!("{share}{what} before {time}, hardly any since");
        (at <= EARLY).then_some(Self { text, is_over: true, is_start: at <= 0.5 })
    }

    /// Of the faults in each part of the run: a rate that rises or falls.
    fn trend(parts: &[f64; PARTS], run_ns: u64) -> Option<Self> {
        let quarter = |number: usize| parts[number * PARTS / 4..(number + 1) * PARTS / 4].iter().sum::<f64>();
        let [before, between, after] = [quarter(1), quarter(2), quarter(3)];
        let how = match () {
            () if after.max(before) < TREND_FAULTS => return None,
            () if after >= TREND * before && (before..=after).contains(&between) => "rises",
            () if before >= TREND * after && (after..=before).contains(&between) => "falls",
            () => return None,
        };
        let per_s = |faults: f64| Count((faults * 4e9 / run_ns.max(1) as f64).round() as u64);
        let text = format!("its rate {how}: {} a second, later {}", per_s(before).of("fault"), per_s(after));
        Some(Self { text, is_over: false, is_start: false })
    }
}

/// A part of the run is worth a word up to here.
const EARLY: f64 = 0.75;

/// When these faults happen, if not all the time alike.
pub(super) fn when(scene: &Scene<'_>, of: &[bool]) -> Option<When> {
    // Where records were lost, silence says nothing, but the counter does.
    if scene.run.lost {
        return when_of_all(scene, of);
    }
    let begin_ns = scene.run.run_ns.0;
    let last_ns = scene.recording.observation.records.iter().map(|record| record.time_ns).max()?;
    let run_ns = last_ns.saturating_sub(begin_ns);
    let mut parts = [0.0; PARTS];
    for (fault, _) in scene.profile.faults.iter().zip(of).filter(|(_, of)| **of) {
        let at = fault.time_ns.saturating_sub(begin_ns) as f64 / run_ns.max(1) as f64;
        parts[((at * PARTS as f64) as usize).min(PARTS - 1)] += fault.faults;
    }
    let all: f64 = parts.iter().sum();
    let mut sum = 0.0;
    let end = parts.iter().position(|part| {
        sum += part;
        sum >= NEARLY_ALL * all
    })? + 1;
    if all <= 0.0 {
        return None;
    }
    When::new(sum / all, "", end as f64 / PARTS as f64, run_ns).or_else(|| When::trend(&parts, run_ns))
}

/// The same of all faults, by the readings of their counter, if most of them are these.
fn when_of_all(scene: &Scene<'_>, of: &[bool]) -> Option<When> {
    let levels = &scene.recording.observation.levels;
    let last = levels.last()?;
    let all = scene.profile.faults.iter().zip(of);
    let (these, sum) = all.fold((0.0, 0.0), |(these, sum), (fault, of)| {
        (these + if *of { fault.faults } else { 0.0 }, sum + fault.faults)
    });
    let reached = levels.iter().find(|level| level.faults as f64 >= NEARLY_ALL * last.faults as f64)?;
    let since = |ns: u64| ns.saturating_sub(scene.run.run_ns.0);
    let share = reached.faults as f64 / last.faults.max(1) as f64;
    let run_ns = since(last.time_ns).max(1);
    let at = since(reached.time_ns) as f64 / run_ns as f64;
    if 2.0 * these >= sum && these > 0.0 { When::new(share, " of all faults", at, run_ns) } else { None }
}
