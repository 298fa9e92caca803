//! Ranges of parameters, samples of them, and the interval of what follows.
//!
//! In: a range for each parameter. Out: stratified samples (each range is cut into as many strata as there
//! are samples, and every stratum is used once), and percentiles of the results.

use faultless_trace::stat::Interval;
use serde::{Deserialize, Serialize};

/// A parameter that is known from `low` to `high`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(from = "Written", into = "(f64, f64)")]
pub struct Range {
    /// Lower end.
    pub low: f64,
    /// Upper end.
    pub high: f64,
}

/// How a file writes a range: a number, or both ends.
#[derive(Deserialize)]
#[serde(untagged)]
enum Written {
    One(f64),
    Both(f64, f64),
}

impl From<Written> for Range {
    fn from(written: Written) -> Self {
        match written {
            Written::One(value) => Self::new(value, value),
            Written::Both(low, high) => Self::new(low, high),
        }
    }
}

impl From<Range> for (f64, f64) {
    fn from(range: Range) -> Self {
        (range.low, range.high)
    }
}

impl Range {
    /// From `low` to `high`.
    pub const fn new(low: f64, high: f64) -> Self {
        Self { low, high }
    }

    /// The value at a share of the range. If both ends are positive and differ by more than a factor of 4,
    /// equal shares are equal factors.
    pub fn at(self, share: f64) -> f64 {
        if self.low > 0.0 && self.high / self.low > 4.0 {
            self.low * (self.high / self.low).powf(share)
        } else {
            self.low + (self.high - self.low) * share
        }
    }

    /// Whether both ends are numbers, in order, and at least `least`.
    pub fn is_valid(self, least: f64) -> bool {
        self.low.is_finite() && self.high.is_finite() && self.low >= least && self.high >= self.low
    }
}

/// Stratified samples of several parameters, as shares of their ranges.
#[derive(Clone, Debug)]
pub(super) struct Draws {
    shares: Vec<Vec<f64>>,
}

impl Draws {
    /// `samples` samples of `dimensions` parameters.
    pub(super) fn new(samples: usize, dimensions: usize, seed: u64) -> Self {
        let mut random = fastrand::Rng::with_seed(seed);
        let dimension = |_| {
            let mut shares: Vec<f64> =
                (0..samples).map(|at| (at as f64 + random.f64()) / samples as f64).collect();
            random.shuffle(&mut shares);
            shares
        };
        Self { shares: (0..dimensions).map(dimension).collect() }
    }

    /// One sample.
    pub(super) fn sample(&self, index: usize) -> Sample<'_> {
        Sample { draws: self, index, next: 0 }
    }
}

/// One sample; its parameters are taken in a fixed order.
#[derive(Clone, Debug)]
pub(super) struct Sample<'a> {
    draws: &'a Draws,
    index: usize,
    next: usize,
}

impl Sample<'_> {
    /// The next parameter.
    pub(super) fn take(&mut self, range: Range) -> f64 {
        let share = self.draws.shares.get(self.next).map_or(0.5, |shares| shares[self.index]);
        self.next += 1;
        range.at(share)
    }

    /// The next parameter, one of several choices.
    pub(super) fn choose<T: Copy>(&mut self, choices: &[T]) -> T {
        let share = self.take(Range::new(0.0, 1.0));
        choices[((share * choices.len() as f64) as usize).min(choices.len() - 1)]
    }
}

/// The median, and the interval that holds the central `share` of the values. `None` without values.
pub(crate) fn interval(values: &[f64], share: f64) -> Option<Interval> {
    let equal: Vec<_> = values.iter().map(|value| (*value, 1.0)).collect();
    weighted_interval(&equal, share)
}

/// The same of values with weights. Between two values it interpolates.
pub(super) fn weighted_interval(values: &[(f64, f64)], share: f64) -> Option<Interval> {
    let mut sorted: Vec<_> =
        values.iter().copied().filter(|(value, weight)| value.is_finite() && *weight > 0.0).collect();
    sorted.sort_unstable_by(|a, b| a.0.total_cmp(&b.0));
    let (first, last) = (*sorted.first()?, *sorted.last()?);
    // A value stands in the middle of its weight, and the outermost values are the ends.
    let all: f64 = sorted.iter().map(|(_, weight)| weight).sum::<f64>() - (first.1 + last.1) / 2.0;
    let at = |share: f64| {
        let (goal, mut passed) = (share * all, 0.0);
        for pair in sorted.windows(2) {
            let step = (pair[0].1 + pair[1].1) / 2.0;
            if passed + step >= goal {
                return pair[0].0 + (pair[1].0 - pair[0].0) * ((goal - passed) / step).clamp(0.0, 1.0);
            }
            passed += step;
        }
        last.0
    };
    let tail = (1.0 - share) / 2.0;
    Some(Interval { value: at(0.5), low: at(tail), high: at(1.0 - tail) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_stratum_is_used_once() {
        let draws = Draws::new(10, 3, 1);
        for shares in &draws.shares {
            let mut strata: Vec<usize> = shares.iter().map(|share| (share * 10.0) as usize).collect();
            strata.sort_unstable();
            assert_eq!(strata, (0..10).collect::<Vec<_>>());
        }
        let mut sample = draws.sample(3);
        let first = sample.take(Range::new(2.0, 3.0));
        assert!((2.0..3.0).contains(&first) && first != sample.take(Range::new(2.0, 3.0)));
    }

    #[test]
    fn wide_ranges_are_cut_by_factors() {
        assert_eq!((Range::new(1.0, 100.0).at(0.5), Range::new(0.0, 100.0).at(0.5)), (10.0, 50.0));
        assert_eq!((Range::new(2.0, 3.0).at(0.5), Range::new(7.0, 7.0).at(0.9)), (2.5, 7.0));
    }

    #[test]
    fn a_range_is_written_as_a_number_or_as_both_ends() {
        let read = |text: &str| serde_json::from_str::<Range>(text).ok();
        assert_eq!((read("3"), read("[1, 2.5]")), (Some(Range::new(3.0, 3.0)), Some(Range::new(1.0, 2.5))));
        assert_eq!(read("\"3\""), None);
        assert!(!Range::new(2.0, 1.0).is_valid(0.0) && !Range::new(-1.0, 1.0).is_valid(0.0));
    }

    #[test]
    fn an_interval_leaves_out_both_tails() {
        let values: Vec<f64> = (0..=100).map(f64::from).collect();
        let found = interval(&values, 0.9).unwrap();
        assert!((found.low - 5.0).abs() < 1e-9 && (found.value - 50.0).abs() < 1e-9);
        assert!((found.high - 95.0).abs() < 1e-9 && interval(&[], 0.9).is_none());
        let found = weighted_interval(&[(3.0, 1.0), (1.0, 1e-9), (2.0, 1e-9), (4.0, 1.0)], 1.0).unwrap();
        assert_eq!((found.low, found.high), (1.0, 4.0));
        assert!((found.value - 3.0).abs() < 0.6, "values of no weight don't move the median: {found:?}");
        assert_eq!(interval(&[7.0], 0.9).unwrap().high, 7.0);
    }
}
