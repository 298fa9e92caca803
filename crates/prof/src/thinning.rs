//! How many samples a long run keeps in memory.
//!
//! In: samples, one by one. Out: which are kept, and how many each stands for.

use crate::tuning as t;

/// Decides which samples are kept in memory: all at first, then half of them, then a quarter. Those kept
/// stand for the rest.
#[derive(Debug)]
pub(crate) struct Thinning {
    random: fastrand::Rng,
    kept: u64,
    every: u64,
}

impl Thinning {
    /// How many samples the next one stands for, if it is kept.
    pub(crate) fn keep(&mut self) -> Option<u64> {
        let every = self.every;
        // At random: a fixed stride could run in step with a loop.
        if self.random.u64(..every) != 0 {
            return None;
        }
        self.kept += 1;
        if self.kept >= t::SAMPLES_BEFORE_THINNING {
            (self.kept, self.every) = (0, every.saturating_mul(2));
        }
        Some(every)
    }
}

impl Default for Thinning {
    fn default() -> Self {
        Self { random: fastrand::Rng::with_seed(1), kept: 0, every: 1 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_become_rarer_and_stand_for_all() {
        let mut thinning = Thinning::default();
        let (mut kept, mut stood_for) = (0, 0);
        let all = 10 * t::SAMPLES_BEFORE_THINNING;
        for _ in 0..all {
            if let Some(every) = thinning.keep() {
                (kept, stood_for) = (kept + 1, stood_for + every);
            }
        }
        assert!(kept < 4 * t::SAMPLES_BEFORE_THINNING, "{kept}");
        assert!((stood_for as f64 / all as f64 - 1.0).abs() < 0.02, "{stood_for}");
    }
}
