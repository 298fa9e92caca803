//! Values of several runs with their errors -> their mean, its error, and the spread between runs; and the test
//! of two such means (Welch 1947).
//!
//! It does not know the meaning of the values; `judge` does.

use crate::measurement::{Interval, welch_freedom};
use crate::tuning::DIFF_PRIOR_RUNS;

/// A value of a run, and the standard deviations of its error below and above.
pub(super) type Value = (f64, [f64; 2]);

/// A mean and its variance: the known part, below and above, and the part estimated from the spread between runs
/// with its degrees of freedom.
#[derive(Clone, Copy, Debug)]
pub(super) struct Spread {
    runs: usize,
    pub(super) mean: f64,
    known: [f64; 2],
    guessed: f64,
    freedom: f64,
    /// The mean is not below this.
    pub(super) least: f64,
}

impl Spread {
    /// The spread of values. `allowed` is the variance from run to run to allow at a mean. It counts like
    /// [`DIFF_PRIOR_RUNS`] runs, and without repeats has the freedom `freedom_of_one`.
    pub(super) fn new(runs: &[Value], allowed: impl Fn(f64) -> f64, freedom_of_one: f64) -> Self {
        let n = runs.len() as f64;
        let mean = runs.iter().map(|run| run.0).sum::<f64>() / n;
        let within = [0, 1].map(|end| runs.iter().map(|run| run.1[end].powi(2)).sum::<f64>() / n);
        let squares: f64 = runs.iter().map(|run| (run.0 - mean).powi(2)).sum();
        // Spread between runs beyond the error of each.
        let between = (squares - (n - 1.0) * 0.5 * (within[0] + within[1])).max(0.0);
        let freedom = DIFF_PRIOR_RUNS + n - 1.0;
        let guessed = (DIFF_PRIOR_RUNS * allowed(mean) + between) / freedom;
        let freedom = if runs.len() == 1 { freedom_of_one } else { freedom };
        let known = within.map(|known| known / n);
        Self { runs: runs.len(), mean, known, guessed: guessed / n, freedom, least: 0.0 }
    }

    /// The measured part: a single run shows no spread between runs.
    pub(super) fn measured(&self) -> Self {
        Self { guessed: if self.runs == 1 { 0.0 } else { self.guessed }, ..*self }
    }

    pub(super) fn less(&self, other: &Self) -> Self {
        Self {
            runs: self.runs.min(other.runs),
            mean: self.mean - other.mean,
            known: [self.known[0] + other.known[1], self.known[1] + other.known[0]],
            guessed: self.guessed + other.guessed,
            freedom: welch_freedom([(self.guessed, self.freedom), (other.guessed, other.freedom)]),
            least: f64::NEG_INFINITY,
        }
    }

    pub(super) fn interval(&self, tail: f64) -> Interval {
        let off = self.known.map(|known| {
            let variance = known + self.guessed;
            // The known part has infinite degrees of freedom.
            let is_known = self.guessed <= 0.0;
            let freedom =
                if is_known { f64::INFINITY } else { self.freedom * (variance / self.guessed).powi(2) };
            student(tail, freedom) * variance.sqrt()
        });
        Interval { value: self.mean, low: self.mean - off[0], high: self.mean + off[1] }
    }
}

/// Relative standard deviation from run to run over all rows, beyond the error of each run; 0 without
/// repeats.
pub(super) fn common_spread<'a>(sides: impl Iterator<Item = &'a Vec<Value>>) -> f64 {
    let repeated = sides.filter(|side| side.len() > 1 && side.iter().all(|run| run.0 > 0.0));
    let (squares, freedom) = repeated.fold((0.0, 0.0), |sum, side| {
        let Spread { mean, guessed, .. } = Spread::new(side, |_| 0.0, 0.0);
        let n = side.len() as f64;
        // Back from the variance of a mean, with a prior that allows nothing, to squares.
        (sum.0 + guessed * n * (DIFF_PRIOR_RUNS + n - 1.0) / (mean * mean), sum.1 + n - 1.0)
    });
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
