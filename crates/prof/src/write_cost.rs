//! What it costs to write one more record between a fault's entry and its end, measured in the watched
//! program's own faults.
//!
//! In: the pairs of all threads, and which entries were written twice. Out: the median
//! of how much longer those faults read than their neighbours. Nearly all of a reading's offset is the
//! writing of records. If the machine, or a neighbour on its caches, makes writing slower than in the
//! calibration, this shows by how much.
//!
//! It does not correct a reading.

use std::collections::VecDeque;

use faultless_trace::measurement::{Interval, median};
use faultless_trace::observation::Calibration;
use rustc_hash::FxHashMap;

use crate::tuning as t;

/// Readings so far.
#[derive(Clone, Debug, Default)]
pub(crate) struct WriteCosts {
    threads: FxHashMap<u32, Thread>,
    /// By how much a fault read longer because its entry was written twice, ns.
    longer_ns: Vec<f64>,
    /// Faults read, and extra entries among them.
    read: u64,
    twice: u64,
}

#[derive(Clone, Debug, Default)]
struct Thread {
    /// Time of the last repeated entry, and how often it was repeated.
    again: (u64, u32),
    /// Whether its entry was written twice, and the reading, ns.
    recent: VecDeque<(bool, f64)>,
    end_ns: u64,
}

/// Of one record, ns.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct WriteCost {
    pub(crate) ns: f64,
    /// Standard error, ns.
    pub(crate) error_ns: f64,
}

impl WriteCosts {
    /// The entry at this time was written once more. Call it before [`add`](Self::add).
    pub(crate) fn again(&mut self, tid: u32, time_ns: u64) {
        let again = &mut self.threads.entry(tid).or_default().again;
        *again = (time_ns, if again.0 == time_ns { again.1 + 1 } else { 1 });
    }

    /// A fault that has ended. Returns its reading, and how often its entry was repeated.
    pub(crate) fn add(&mut self, tid: u32, enter_ns: u64, end_ns: u64) -> (u64, u32) {
        let thread = self.threads.entry(tid).or_default();
        if enter_ns.saturating_sub(thread.end_ns) > t::WRITE_COST_GAP_NS {
            thread.recent.clear();
        }
        thread.end_ns = end_ns;
        let again = if thread.again.0 == enter_ns { thread.again.1 } else { 0 };
        let reading_ns = end_ns.saturating_sub(enter_ns);
        self.read += 1;
        self.twice += u64::from(again);
        if again <= 1 {
            thread.recent.push_back((again == 1, reading_ns as f64));
            self.longer_ns.extend(thread.longer_ns().filter(|_| self.longer_ns.len() < t::WRITE_COST_MAX));
        }
        (reading_ns, again)
    }

    /// A thread that has ended.
    pub(crate) fn exit(&mut self, tid: u32) {
        self.threads.remove(&tid);
    }

    /// Extra entries per fault.
    pub(crate) fn share(&self) -> f64 {
        self.twice as f64 / self.read.max(1) as f64
    }

    /// `None`: too few to say.
    pub(crate) fn cost(&self) -> Option<WriteCost> {
        let mut sorted = self.longer_ns.clone();
        sorted.sort_by(f64::total_cmp);
        let at = |share: f64| sorted.get((share * sorted.len() as f64) as usize).copied();
        if sorted.len() < t::WRITE_COST_MIN {
            return None;
        }
        // The median of n varies by 1.25 sd / sqrt(n); half of a normal distribution lies within 1.35 sd.
        let sd = (at(0.75)? - at(0.25)?) / 1.35;
        Some(WriteCost { ns: at(0.5)?, error_ns: 1.25 * sd / (sorted.len() as f64).sqrt() })
    }
}

impl Thread {
    /// If the middle one of the last few faults has a repeated entry: by how much it read longer than the
    /// others.
    fn longer_ns(&mut self) -> Option<f64> {
        if self.recent.len() <= 2 * t::WRITE_COST_NEIGHBOURS {
            return None;
        }
        let (is_twice, middle_ns) = self.recent[t::WRITE_COST_NEIGHBOURS];
        let once: Vec<f64> =
            self.recent.iter().filter(|(is_twice, _)| !is_twice).map(|(_, ns)| *ns).collect();
        self.recent.pop_front();
        is_twice.then(|| Some(middle_ns - median(&once)?))?
    }
}

/// A calibration adjusted to a run.
pub(crate) fn in_run(
    calibration: Calibration,
    calibrated: Option<WriteCost>,
    run: &WriteCosts,
) -> Calibration {
    let slower = slower(run.cost(), calibrated);
    let written_ns = calibrated.map_or(0.0, |written| written.ns.max(0.0));
    calibration.in_run(slower, written_ns, run.share())
}

/// By how much writing is slower in a run than it was in the calibration. The ratio is shrunk towards 1 in
/// proportion to its uncertainty. The rest of that uncertainty is in its interval.
fn slower(run: Option<WriteCost>, calibration: Option<WriteCost>) -> Interval {
    let known = run.zip(calibration).filter(|(run, calibration)| run.ns > 0.0 && calibration.ns > 0.0);
    let Some((run, calibration)) = known else { return within(1.0, t::WRITE_COST_SPREAD) };
    let (least, most) = t::WRITE_COST_SLOWER;
    let ratio = run.ns / calibration.ns;
    let error = ratio * (run.error_ns / run.ns).hypot(calibration.error_ns / calibration.ns);
    let trust = t::WRITE_COST_SPREAD.powi(2) / (t::WRITE_COST_SPREAD.powi(2) + error.powi(2));
    within((1.0 + trust * (ratio - 1.0)).clamp(least, most), trust.sqrt() * error)
}

/// The 95 % interval around a value with this standard deviation.
fn within(value: f64, deviation: f64) -> Interval {
    Interval::around(value, 1.96 * deviation)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Faults of some 1,000 ns; each seventh is written twice and takes `longer_ns` more.
    fn watched(faults: u64, longer_ns: u64) -> WriteCosts {
        let mut writing = WriteCosts::default();
        for n in 0..faults {
            let (time_ns, twice) = (n * 3_000, n % 7 == 0);
            if twice {
                writing.again(1, time_ns);
            }
            let reading_ns = 1_000 + n * 37 % 100 + if twice { longer_ns } else { 0 };
            assert_eq!(writing.add(1, time_ns, time_ns + reading_ns), (reading_ns, u32::from(twice)));
        }
        writing
    }

    #[test]
    fn what_a_second_record_takes_is_found() {
        let writing = watched(7_000, 400);
        let found = writing.cost().unwrap();
        assert!((found.ns - 400.0).abs() < 10.0 && found.error_ns < 4.0, "{found:?}");
        assert!((writing.share() - 1.0 / 7.0).abs() < 1e-3);
        assert_eq!(watched(100, 400).cost(), None);
    }
}
