//! The bootstrap: samples -> the 95 % interval of a median or a ratio. Percentile method, fixed seed. It does not check
//! that samples are independent.

use super::{median, percentile_of_sorted, sorted};
use crate::measurement::Interval;

/// Draws of a bootstrap. 1000 puts about 25 draws beyond each end of a 95 % interval (Efron & Tibshirani 1993, ch. 13).
const RESAMPLES: usize = 1000;
/// Values above which a median's bootstrap draws ranks (normal approximation, exact to a rank or two) and not values.
const RANK_BOOTSTRAP_FROM: usize = 256;
/// Seed of every bootstrap: the same input gives the same interval. No meaning.
const SEED: u64 = 0x00fa_0117_1e55;

/// SplitMix64 (Steele, Lea, Flood 2014): small, seeded, good enough to draw resamples; not for secrets.
#[derive(Clone, Debug)]
pub struct Rng(u64);

impl Rng {
    /// The generator that every interval of this crate starts from.
    pub(crate) fn seeded() -> Self {
        Rng(SEED)
    }

    /// A generator of its own sequence.
    pub fn from_seed(seed: u64) -> Self {
        Rng(seed)
    }

    /// The next 64 random bits.
    pub fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number from 0 to `n` - 1; 0 when `n` is 0.
    pub fn below(&mut self, n: usize) -> usize {
        // The high half of the product: no division, bias below n / 2^64 (Lemire 2019).
        ((u128::from(self.next_u64()) * n as u128) >> 64) as usize
    }

    /// Puts items into a random order (Fisher and Yates; Knuth, The Art of Computer Programming 2, 3.4.2).
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for at in (1..items.len()).rev() {
            items.swap(at, self.below(at + 1));
        }
    }

    /// A number from 0 to 1, both excluded.
    fn unit(&mut self) -> f64 {
        ((self.next_u64() >> 11) as f64 + 0.5) / (1u64 << 53) as f64
    }

    /// A number from the standard normal distribution (Box & Muller 1958).
    pub(crate) fn normal(&mut self) -> f64 {
        (-2.0 * self.unit().ln()).sqrt() * (std::f64::consts::TAU * self.unit()).cos()
    }
}

/// `value` with the 2.5th and 97.5th percentiles of what `draw` finds in resamples, widened to contain `value`.
fn interval(value: f64, mut draw: impl FnMut(&mut Rng) -> f64) -> Interval {
    let mut rng = Rng::seeded();
    let draws = sorted(&(0..RESAMPLES).map(|_| draw(&mut rng)).collect::<Vec<f64>>());
    let low = percentile_of_sorted(&draws, 0.025).unwrap_or(value);
    let high = percentile_of_sorted(&draws, 0.975).unwrap_or(value);
    Interval { value, low: low.min(value), high: high.max(value) }
}

/// Median with its 95 % interval.
///
/// The median of a resample of n sorted values is the value at a random rank. For many values that rank is
/// drawn from its normal approximation (mean n/2, deviation sqrt(n)/2), without sorting again.
///
/// Few values cannot carry a bootstrap: the range of n values contains the true median with probability 1 -
/// 2^(1-n) only. So below eight values the interval is joined with Student's t, on the logarithms if all are
/// positive. With three values its ends lie 2.5 deviations off, as they must. A single value has the interval
/// 0 to `f64::MAX`, which says nothing. Equal values have no width.
pub fn median_interval(values: &[f64]) -> Option<Interval> {
    let sorted = sorted(values);
    let value = percentile_of_sorted(&sorted, 0.5)?;
    match sorted.len() {
        1 => return Some(Interval { value, low: 0.0, high: f64::MAX }),
        n if sorted[0] == sorted[n - 1] => return Some(Interval { value, low: value, high: value }),
        _ => {}
    }
    let bootstrap = interval(value, |rng| median_of_draw(&sorted, rng));
    if sorted.len() >= ENOUGH_ROUNDS {
        return Some(bootstrap);
    }
    let (low, high) = t_interval(&sorted);
    Some(Interval { value, low: low.min(bootstrap.low), high: high.max(bootstrap.high) })
}

/// The median of one resample of sorted, finite values; there is at least one.
fn median_of_draw(sorted: &[f64], rng: &mut Rng) -> f64 {
    let n = sorted.len();
    if n >= RANK_BOOTSTRAP_FROM {
        let rank = n as f64 / 2.0 + rng.normal() * (n as f64).sqrt() / 2.0;
        return sorted[(rank.max(0.0) as usize).min(n - 1)];
    }
    let mut ranks: Vec<usize> = (0..n).map(|_| rng.below(n)).collect();
    ranks.sort_unstable();
    f64::midpoint(sorted[ranks[(n - 1) / 2]], sorted[ranks[n / 2]])
}

/// How many times `a` is `b`, from INDEPENDENT samples, such as two days or two machines.
///
/// The value is the ratio of the medians, the interval the bootstrap of both. If one sample has fewer than
/// eight values, the interval is joined with Welch's on the logarithms. `None` if a median is not positive.
/// With a single value in one sample the interval is 0 to `f64::MAX`. Two constants have a ratio without
/// width. The interval contains the variation within a sample, not differences between days.
///
/// ```
/// use faultless_trace::measurement::ratio_of_independent;
/// let ratio = ratio_of_independent(&[2.0, 2.1, 1.9], &[1.0, 1.05, 0.98]).unwrap();
/// assert!(ratio.value == 2.0 && ratio.low > 1.5);
/// ```
pub fn ratio_of_independent(a: &[f64], b: &[f64]) -> Option<Interval> {
    let bootstrap = ratio_of_medians(a, b).filter(|found| found.value > 0.0)?;
    let [a, b] = [a, b].map(|values| {
        values.iter().filter(|v| v.is_finite() && **v > 0.0).map(|v| v.ln()).collect::<Vec<f64>>()
    });
    if a.len() < 2 || b.len() < 2 {
        return Some(Interval { low: 0.0, high: f64::MAX, ..bootstrap });
    }
    if a.len() >= ENOUGH_ROUNDS && b.len() >= ENOUGH_ROUNDS {
        return Some(bootstrap);
    }
    let (centre, half) = welch(&a, &b);
    let (low, high) = ((centre - half).exp(), (centre + half).exp().min(f64::MAX));
    Some(Interval { low: low.min(bootstrap.low), high: high.max(bootstrap.high), ..bootstrap })
}

/// Difference of two means, and half of its 95 % interval (Welch 1947); at least two values of each.
fn welch(a: &[f64], b: &[f64]) -> (f64, f64) {
    let [(mean_a, variance_a), (mean_b, variance_b)] = [a, b].map(mean_with_variance);
    let freedom = welch_freedom([(variance_a, a.len() as f64 - 1.0), (variance_b, b.len() as f64 - 1.0)]);
    (mean_a - mean_b, student_t(freedom.max(1.0) as usize) * (variance_a + variance_b).sqrt())
}

/// Degrees of freedom of the sum of two variances, each with its own (Welch 1947).
pub(crate) fn welch_freedom([a, b]: [(f64, f64); 2]) -> f64 {
    let part = |(variance, freedom): (f64, f64)| variance * variance / freedom;
    let parts = part(a) + part(b);
    if parts > 0.0 { (a.0 + b.0).powi(2) / parts } else { a.1 + b.1 }
}

/// The mean of two or more values, and the variance of that mean.
fn mean_with_variance(values: &[f64]) -> (f64, f64) {
    let n = values.len() as f64;
    let mean = values.iter().sum::<f64>() / n;
    let variance = values.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / (n - 1.0);
    (mean, variance / n)
}

/// Enough values for a bootstrap.
const ENOUGH_ROUNDS: usize = 8;

/// Student's 95 % interval of the mean of 2 to 7 values, of the geometric mean if all are positive.
fn t_interval(values: &[f64]) -> (f64, f64) {
    let is_positive = values.iter().all(|v| *v > 0.0);
    let used: Vec<f64> = values.iter().map(|v| if is_positive { v.ln() } else { *v }).collect();
    let (mean, variance) = mean_with_variance(&used);
    let half = student_t(used.len() - 1) * variance.sqrt();
    if is_positive {
        ((mean - half).exp(), (mean + half).exp().min(f64::MAX))
    } else {
        (mean - half, mean + half)
    }
}

/// The 97.5th percentile of Student's t for `freedom` degrees of freedom; any table.
pub(crate) fn student_t(freedom: usize) -> f64 {
    const TABLE: [f64; 10] = [12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228];
    match freedom {
        0 => f64::MAX,
        1..=10 => TABLE[freedom - 1],
        // The series 1.96 + 2.4 / freedom is within 0.01 from here on.
        _ => 1.96 + 2.4 / freedom as f64,
    }
}

/// Wilson's 95 % interval of a share: `hits` of `total` (Wilson 1927). Sane at 0 and at `total`, unlike the normal one.
pub fn share_interval(hits: f64, total: f64) -> Interval {
    if total <= 0.0 {
        return Interval::default();
    }
    const Z: f64 = 1.96;
    let (n, value) = (total, (hits / total).min(1.0));
    let centre = (value + Z * Z / (2.0 * n)) / (1.0 + Z * Z / n);
    let half = Z / (1.0 + Z * Z / n) * (value * (1.0 - value) / n + Z * Z / (4.0 * n * n)).sqrt();
    Interval { value, low: (centre - half).clamp(0.0, value), high: (centre + half).clamp(value, 1.0) }
}

/// The median of `a` over the median of `b`, two independent samples, each resampled.
pub(crate) fn ratio_of_medians(a: &[f64], b: &[f64]) -> Option<Interval> {
    let (value_a, value_b) = (median(a)?, median(b)?);
    if value_b <= 0.0 {
        return None;
    }
    let (a, b) = (sorted(a), sorted(b));
    Some(interval(value_a / value_b, |rng| median_of_draw(&a, rng) / median_of_draw(&b, rng)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn independent_samples_of_one_value_or_of_zeros_say_nothing() {
        assert_eq!(ratio_of_independent(&[0.0, 0.0], &[1.0, 1.0]), None);
        let alone = ratio_of_independent(&[3.0], &[1.5, 1.5]).unwrap();
        assert_eq!((alone.value, alone.low, alone.high), (2.0, 0.0, f64::MAX));
        let constant = ratio_of_independent(&[4.0; 3], &[2.0; 3]).unwrap();
        assert!((constant.low - 2.0).abs() < 1e-9 && (constant.high - 2.0).abs() < 1e-9);
    }

    #[test]
    fn one_value_has_no_interval_and_constant_ones_a_point() {
        let one = Interval { value: 3.0, low: 0.0, high: f64::MAX };
        assert_eq!(median_interval(&[3.0]), Some(one));
        let constant = Interval { value: 65_536.0, low: 65_536.0, high: 65_536.0 };
        assert_eq!(median_interval(&[65_536.0; 3]), Some(constant));
    }

    #[test]
    fn share_of_nothing_is_not_certain() {
        let share = share_interval(0.0, 30.0);
        assert!(share.value == 0.0 && share.low == 0.0 && (0.08..0.15).contains(&share.high), "{share:?}");
        assert_eq!(share_interval(5.0, 0.0), Interval::default());
    }
}
