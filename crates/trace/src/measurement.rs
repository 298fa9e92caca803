//! Samples -> medians, spreads and 95 % intervals; and the types that print figures with their units.
//!
//! Everything is deterministic: the same samples give the same interval. Values that are not finite are left
//! out. Nothing here measures, or knows the meaning of a value.

mod bootstrap;
mod rank;
mod unit;

use serde::{Deserialize, Serialize};

pub use bootstrap::{Rng, median_interval, ratio_of_independent, share_interval};
pub(crate) use bootstrap::{ratio_of_medians, student_t, welch_freedom};
pub(crate) use rank::{paired_estimate, paired_interval};
pub use unit::{Bytes, Count, Nanos, Percent, Seconds};

/// A figure with the interval that holds it with 95 % confidence.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Interval {
    /// Best estimate.
    pub value: f64,
    /// Lower end.
    pub low: f64,
    /// Upper end.
    pub high: f64,
}

impl Interval {
    /// `value` plus and minus `half`.
    pub fn around(value: f64, half: f64) -> Self {
        Self { value, low: value - half, high: value + half }
    }

    /// The same function applied to the estimate and to both ends.
    pub fn map(self, of: impl Fn(f64) -> f64) -> Self {
        Self { value: of(self.value), low: of(self.low), high: of(self.high) }
    }

    /// The interval of `factor` times the figure.
    pub fn times(self, factor: f64) -> Self {
        self.map(|end| end * factor)
    }
}

/// Median, spread, minimum and number of some samples, in the samples' own unit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Summary {
    /// The middle value.
    pub median: f64,
    /// Median absolute deviation from the median; not scaled to a standard deviation.
    pub mad: f64,
    /// The smallest value: the undisturbed machine.
    pub min: f64,
    /// Number of samples.
    pub n: usize,
}

/// Summarises samples; `None` without finite ones.
///
/// ```
/// let s = faultless_trace::measurement::summary(&[3.0, 1.0, 2.0, 10.0, 2.0]).unwrap();
/// assert_eq!((s.median, s.mad, s.min, s.n), (2.0, 1.0, 1.0, 5));
/// ```
pub fn summary(values: &[f64]) -> Option<Summary> {
    let sorted = sorted(values);
    let median = percentile_of_sorted(&sorted, 0.5)?;
    let deviations: Vec<f64> = sorted.iter().map(|v| (v - median).abs()).collect();
    Some(Summary { median, mad: self::median(&deviations)?, min: sorted[0], n: sorted.len() })
}

/// The middle value, or the mean of the two middle ones; `None` without finite values.
pub fn median(values: &[f64]) -> Option<f64> {
    percentile(values, 0.5)
}

/// The value below which a share `p` (0 to 1) of the samples lies, interpolated linearly.
pub fn percentile(values: &[f64], p: f64) -> Option<f64> {
    percentile_of_sorted(&sorted(values), p)
}

/// The finite values in rising order.
pub(crate) fn sorted(values: &[f64]) -> Vec<f64> {
    let mut sorted: Vec<f64> = values.iter().copied().filter(|v| v.is_finite()).collect();
    sorted.sort_by(f64::total_cmp);
    sorted
}

/// [`percentile`] of values that are sorted and finite already.
pub(crate) fn percentile_of_sorted(sorted: &[f64], p: f64) -> Option<f64> {
    let last = sorted.len().checked_sub(1)?;
    let at = p.clamp(0.0, 1.0) * last as f64;
    let (below, above) = (sorted[at.floor() as usize], sorted[(at.ceil() as usize).min(last)]);
    // Halves first: the difference of two huge values of opposite sign would overflow.
    let part = at.fract();
    Some(below * (1.0 - part) + above * part)
}

/// The smallest value whose weight, with all smaller values, reaches a share `p` of the total weight.
///
/// `samples` are (value, weight), sorted by value; weights are at least 0. `None` if the weights add up to 0.
pub(crate) fn weighted_percentile(samples: &[(f64, f64)], p: f64) -> Option<f64> {
    let whole: f64 = samples.iter().map(|s| s.1).sum();
    if !whole.is_finite() || whole <= 0.0 {
        return None;
    }
    let mut below = 0.0;
    for (value, weight) in samples {
        below += weight;
        if below >= p * whole && *weight > 0.0 {
            return Some(*value);
        }
    }
    samples.last().map(|s| s.0)
}

/// [`weighted_percentile`] of the middle, of samples in any order.
pub(crate) fn weighted_median(mut samples: Vec<(f64, f64)>) -> Option<f64> {
    samples.sort_by(|a, b| a.0.total_cmp(&b.0));
    weighted_percentile(&samples, 0.5)
}

/// Splits `total` in proportion to `weights` so that the parts add up to it exactly (largest remainder;
/// Hamilton's method). Ties go to the earlier part. Weights that are not positive get nothing; without a
/// positive weight the first part gets all.
pub(crate) fn apportion(total: u64, weights: &[f64]) -> Vec<u64> {
    let largest = weights.iter().copied().filter(|w| w.is_finite()).fold(0.0, f64::max);
    if weights.is_empty() {
        return Vec::new();
    }
    // Integers below 2^40 each: times a total below 2^64 they fit 128 bits, summed as well.
    let whole: Vec<u128> = weights.iter().map(|w| integer_weight(*w, largest)).collect();
    let sum: u128 = whole.iter().sum();
    if sum == 0 {
        let mut parts = vec![0; weights.len()];
        parts[0] = total;
        return parts;
    }
    let mut parts: Vec<u64> = whole.iter().map(|w| (u128::from(total) * w / sum) as u64).collect();
    let mut by_remainder: Vec<usize> = (0..parts.len()).collect();
    by_remainder.sort_by_key(|&i| (std::cmp::Reverse(u128::from(total) * whole[i] % sum), i));
    let left = total - parts.iter().sum::<u64>();
    for &i in by_remainder.iter().take(left as usize) {
        parts[i] += 1;
    }
    parts
}

fn integer_weight(weight: f64, largest: f64) -> u128 {
    const ONE: f64 = (1u64 << 40) as f64;
    if weight.is_finite() && weight > 0.0 { (weight / largest * ONE).round() as u128 } else { 0 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn nothing_has_no_summary() {
        assert_eq!(summary(&[]), None);
        assert_eq!(summary(&[f64::NAN, f64::INFINITY]), None);
    }

    #[test]
    fn percentile_interpolates_between_neighbours() {
        assert_eq!(percentile(&[40.0, 10.0, 20.0, 30.0], 0.5), Some(25.0));
        assert_eq!(percentile(&[1.0, 2.0], 2.0), Some(2.0));
    }

    #[test]
    fn weight_moves_the_median() {
        let samples = [(1.0, 1.0), (2.0, 1.0), (3.0, 10.0)];
        assert_eq!(weighted_percentile(&samples, 0.5), Some(3.0));
        assert_eq!(weighted_percentile(&[(1.0, 0.0)], 0.5), None);
    }

    #[test]
    fn the_largest_remainder_gets_the_rest_and_the_first_one_of_equals() {
        assert_eq!(apportion(10, &[1.0, 1.0, 1.0]), [4, 3, 3]);
        assert_eq!(apportion(u64::MAX, &[0.0, 1.0]), [0, u64::MAX]);
    }

    proptest! {
        #[test]
        fn parts_add_up_and_are_within_one_of_their_quota(
            total in any::<u64>(),
            weights in prop::collection::vec(prop_oneof![0.0..1e6f64, Just(0.0), Just(f64::NAN)], 1..20),
        ) {
            let parts = apportion(total, &weights);
            prop_assert_eq!(parts.iter().map(|p| u128::from(*p)).sum::<u128>(), u128::from(total));
            let sum: f64 = weights.iter().filter(|w| w.is_finite()).sum();
            if sum > 0.0 && total < 1 << 30 {
                for (part, weight) in parts.iter().zip(&weights).filter(|(_, w)| w.is_finite()) {
                    prop_assert!((*part as f64 - total as f64 * weight / sum).abs() < 1.01);
                }
            }
        }
    }
}
