//! Paired rounds of two programs -> their ratio and its exact interval, by Wilcoxon's signed ranks (Hodges &
//! Lehmann 1963; Hollander, Wolfe & Chicken, Nonparametric Statistical Methods, 3.1 to 3.3).
//!
//! If both programs take the same time, the logarithm of a round's ratio is as likely above 0 as below,
//! whatever the distribution of the noise. Nothing else is assumed, and single slow rounds move the result
//! little.

use super::{percentile_of_sorted, sorted};
use crate::measurement::Interval;

/// How many times `a` is `b`: the median of the means of all pairs of rounds. 1 without usable rounds.
pub(crate) fn paired_estimate(a: &[f64], b: &[f64]) -> f64 {
    percentile_of_sorted(&pair_means(a, b), 0.5).unwrap_or(0.0).exp()
}

/// [`paired_estimate`] with an interval that misses the true ratio with probability `error` at most. `None`
/// with too few rounds.
pub(crate) fn paired_interval(a: &[f64], b: &[f64], error: f64) -> Option<Interval> {
    let means = pair_means(a, b);
    let rounds = ((2.0 * means.len() as f64 + 0.25).sqrt() - 0.5).round() as usize;
    let outside = largest_unlikely_sum(rounds, error)?;
    let (low, high) = (means[outside].exp(), means[means.len() - 1 - outside].exp());
    Some(Interval { value: paired_estimate(a, b), low, high })
}

/// The means of the logarithms of all pairs of rounds, in rising order; a round also pairs with itself.
fn pair_means(a: &[f64], b: &[f64]) -> Vec<f64> {
    let logs: Vec<f64> = a.iter().zip(b).map(|(a, b)| (a / b).ln()).filter(|log| log.is_finite()).collect();
    let pairs =
        logs.iter().enumerate().flat_map(|(i, x)| logs[i..].iter().map(move |y| f64::midpoint(*x, *y)));
    sorted(&pairs.collect::<Vec<f64>>())
}

/// The largest sum of ranks of one sign that is improbable: both tails together have at most `error`.
fn largest_unlikely_sum(rounds: usize, error: f64) -> Option<usize> {
    let half = rounds * (rounds + 1) / 4;
    let mut probability = vec![0.0; half + 1];
    probability[0] = 1.0;
    for rank in 1..=rounds {
        for sum in (0..=half).rev() {
            let without = if sum >= rank { probability[sum - rank] } else { 0.0 };
            probability[sum] = f64::midpoint(probability[sum], without);
        }
    }
    let mut both = 0.0;
    let unlikely = probability.iter().take_while(|one| {
        both += 2.0 * **one;
        both <= error
    });
    unlikely.count().checked_sub(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn critical_sums_are_those_of_the_printed_tables() {
        // Two-sided 5 %: Wilcoxon 1945 and every table since.
        let sums = [5, 6, 7, 8, 10, 15, 20].map(|rounds| largest_unlikely_sum(rounds, 0.05));
        assert_eq!(sums, [None, Some(0), Some(2), Some(3), Some(8), Some(25), Some(52)]);
        assert_eq!(largest_unlikely_sum(0, 0.05), None);
    }

    #[test]
    fn a_slow_round_moves_nothing_and_constants_have_no_width() {
        let a = [2.0, 2.0, 2.0, 2.0, 900.0, 2.0, 2.0, 2.0];
        assert!((paired_estimate(&a, &[1.0; 8]) - 2.0).abs() < 1e-9);
        let same = paired_interval(&[3.0; 8], &[3.0; 8], 0.03).unwrap();
        assert_eq!((same.value, same.low, same.high), (1.0, 1.0, 1.0));
        assert_eq!(paired_interval(&[3.0; 3], &[1.0; 3], 0.03), None);
        assert_eq!((paired_estimate(&[], &[]), paired_estimate(&[0.0], &[1.0])), (1.0, 1.0));
    }
}
