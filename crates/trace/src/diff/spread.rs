//! Values of several runs with their variances -> their mean, its error, and the spread between runs.
//!
//! It does not know the meaning of the values; `judge` does.

use crate::measurement::{Interval, welch_freedom};
use crate::tuning::DIFF_PRIOR_RUNS;

/// A mean and its variance: the known part, and the part estimated from the spread between runs with its
/// degrees of freedom.
#[derive(Clone, Copy, Debug)]
pub(super) struct Spread {
    runs: usize,
    mean: f64,
    known: f64,
    guessed: f64,
    freedom: f64,
}

impl Spread {
    /// The spread of values with their variances. `spread` is the relative standard deviation to allow from
    /// run to run. Without repeats it counts like `freedom_of_one` runs.
    pub(super) fn new(runs: &[(f64, f64)], spread: f64, freedom_of_one: f64) -> Self {
        let n = runs.len() as f64;
        let mean = runs.iter().map(|run| run.0).sum::<f64>() / n;
        let within = runs.iter().map(|run| run.1).sum::<f64>() / n;
        let squares: f64 = runs.iter().map(|run| (run.0 - mean).powi(2)).sum();
        // Spread between runs beyond the error of each.
        let between = (squares - (n - 1.0) * within).max(0.0);
        let allowed = (spread * mean).powi(2);
        let freedom = DIFF_PRIOR_RUNS + n - 1.0;
        let guessed = (DIFF_PRIOR_RUNS * allowed + between) / freedom;
        let freedom = if runs.len() == 1 { freedom_of_one } else { freedom };
        Self { runs: runs.len(), mean, known: within / n, guessed: guessed / n, freedom }
    }

    /// The measured part: a single run shows no spread between runs.
    pub(super) fn measured(&self) -> Self {
        Self { guessed: if self.runs == 1 { 0.0 } else { self.guessed }, ..*self }
    }

    pub(super) fn less(&self, other: &Self) -> Self {
        Self {
            runs: self.runs.min(other.runs),
            mean: self.mean - other.mean,
            known: self.known + other.known,
            guessed: self.guessed + other.guessed,
            freedom: welch_freedom([(self.guessed, self.freedom), (other.guessed, other.freedom)]),
        }
    }

    pub(super) fn interval(&self, tail: f64) -> Interval {
        let variance = self.known + self.guessed;
        // The known part has infinite degrees of freedom.
        let freedom =
            if self.guessed > 0.0 { self.freedom * (variance / self.guessed).powi(2) } else { f64::INFINITY };
        Interval::around(self.mean, student(tail, freedom) * variance.sqrt())
    }
}

/// Relative standard deviation from run to run over all rows, beyond the error of each run; 0 without
/// repeats.
pub(super) fn common_spread<'a>(sides: impl Iterator<Item = &'a Vec<(f64, f64)>>) -> f64 {
    let (squares, freedom) = sides.filter(|side| side.len() > 1 && side.iter().all(|run| run.0 > 0.0)).fold(
        (0.0, 0.0),
        |sum, side| {
            let Spread { mean, guessed, .. } = Spread::new(side, 0.0, DIFF_PRIOR_RUNS);
            let n = side.len() as f64;
            // Back from the variance of a mean, with a prior that allows nothing, to squares.
            (sum.0 + guessed * n * (DIFF_PRIOR_RUNS + n - 1.0) / (mean * mean), sum.1 + n - 1.0)
        },
    );
    if freedom > 0.0 { (squares / freedom).sqrt() } else { 0.0 }
}

/// The value that Student's t exceeds with probability `tail` below 0.5. An expansion in 1 / freedom around
/// the normal quantile (Abramowitz & Stegun 26.7.5), good to 2 % from 4 degrees of freedom on.
fn student(tail: f64, freedom: f64) -> f64 {
    let z = normal(tail);
    let square = z * z;
    let terms = [
        (square + 1.0) / 4.0,
        ((5.0 * square + 16.0) * square + 3.0) / 96.0,
        (((3.0 * square + 19.0) * square + 17.0) * square - 15.0) / 384.0,
        ((((79.0 * square + 776.0) * square + 1482.0) * square - 1920.0) * square - 945.0) / 92160.0,
    ];
    let sum = terms.iter().rev().fold(0.0, |sum, term| (sum + term) / freedom);
    z + z * sum
}

/// The same of the normal distribution (Abramowitz & Stegun 26.2.23), good to 0.0005.
pub(super) fn normal(tail: f64) -> f64 {
    let t = (-2.0 * tail.max(f64::MIN_POSITIVE).ln()).sqrt();
    let above = (0.010_328 * t + 0.802_853) * t + 2.515_517;
    let below = ((0.001_308 * t + 0.189_269) * t + 1.432_788) * t + 1.0;
    t - above / below
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_those_of_the_tables() {
        for (tail, freedom, expected) in
            [(0.025, f64::INFINITY, 1.960), (0.025, 10.0, 2.228), (0.0005, 8.0, 5.041), (0.0005, 4.0, 8.610)]
        {
            let found = student(tail, freedom);
            assert!((found / expected - 1.0_f64).abs() < 0.02, "{found} for {expected}");
        }
    }
}
