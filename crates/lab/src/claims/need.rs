//! How many rounds a verdict needs: the interval of a record and the bounds of a claim -> times the rounds.
//!
//! The width of an interval falls with the square root of the rounds. So a figure that lies `d` from a bound, and whose
//! interval reaches `h` towards it, needs `(h / d)^2` times the rounds until its interval ends at the bound. The figure
//! of other rounds may lie nearer, so [`Need::planned`] plans twice as many: their interval keeps off the bound about
//! four times in five. A pilot of fewer than eight rounds has wider intervals, and so plans more.
//!
//! It measures nothing and gives no verdict.

use std::collections::BTreeSet;

use faultless_trace::stat::Interval;

use super::finding::{Bounds, DECIDED_BY};
use crate::cell::Cell;

/// At most so many times the rounds of a record are taken for the sake of a claim.
pub(crate) const MOST_TIMES: f64 = 4.0;
/// Rounds that are planned, over those after which the interval would end at the bound: power 0.8 instead of 0.5 for a
/// normal distribution, `((1.96 + 0.84) / 1.96)^2`.
const SURE: f64 = 2.0;

/// What a claim needs that more rounds can decide.
#[derive(Clone, Debug, PartialEq)]
pub struct Need {
    /// The cells behind its figure.
    pub cells: BTreeSet<Cell>,
    /// Rounds that its figure rests on.
    pub rounds: u32,
    /// So many times these rounds narrow the interval until it ends at the bound; infinite where it never does.
    pub(super) times: f64,
}

impl Need {
    /// Rounds to plan, and no more than four times those of the record.
    pub fn planned(&self) -> u32 {
        let rounds = f64::from(self.rounds);
        (rounds * (SURE * self.times).min(MOST_TIMES)).ceil() as u32
    }

    /// Whether four times the rounds would still not decide the claim. One round has no interval that would tell.
    pub fn is_hopeless(&self) -> bool {
        self.rounds > 1 && self.times > MOST_TIMES
    }
}

/// So many times the rounds narrow an interval until it ends at the bounds that its figure must keep off.
pub(super) fn times(found: &Interval, bounds: Bounds) -> f64 {
    let to = |bound: f64| {
        let is_below = found.value < bound;
        let reach = if is_below { found.high - found.value } else { found.value - found.low };
        let distance = (found.value - bound).abs();
        // Without width an interval needs no further round, wherever it lies.
        if reach > 0.0 { (reach / distance).powi(2) } else { 0.0 }
    };
    if found.value < bounds.low {
        to(bounds.low)
    } else if found.value > bounds.high {
        to(bounds.high)
    } else {
        let ends = [bounds.low, bounds.high].into_iter().filter(|end| end.abs() < f64::MAX);
        ends.map(to).fold(0.0, f64::max)
    }
}

/// What decides a claim whose interval, of so many rounds, reaches across a bound.
pub(super) fn text(rounds: usize, times: f64) -> String {
    let by = |times: f64| format!("{DECIDED_BY} {:.0} times the rounds, which narrow it", times.ceil());
    let hopeless = "four times the rounds would not decide it";
    if rounds < 2 {
        format!("{DECIDED_BY} more rounds, which narrow it")
    } else if times <= MOST_TIMES {
        by((SURE * times).min(MOST_TIMES))
    } else if times < 1e4 {
        format!("{hopeless}; {}", by(times))
    } else {
        format!("{hopeless}: the figure lies at the bound; {DECIDED_BY} another machine")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FROM_1_TO_2: Bounds = Bounds { low: 1.0, high: 2.0 };

    fn of(value: f64, low: f64, high: f64) -> f64 {
        times(&Interval { value, low, high }, FROM_1_TO_2)
    }

    #[test]
    fn an_interval_narrows_with_the_square_root_of_the_rounds() {
        // It reaches 0.4 towards a bound that lies 0.2 away: half as wide, it ends there.
        assert!((of(1.2, 0.8, 1.3) - 4.0).abs() < 1e-9);
        assert!((of(0.8, 0.7, 1.2) - 4.0).abs() < 1e-9);
        assert!((of(2.5, 2.4, 2.6) - 0.04).abs() < 1e-9, "decided already");
        // Between the bounds the one that needs more.
        assert!((of(1.8, 1.4, 2.2) - 4.0).abs() < 1e-9);
        assert_eq!(of(1.0, 0.9, 1.1), f64::INFINITY, "at the bound no number of rounds decides");
        assert_eq!(of(1.0, 1.0, 1.0), 0.0, "a count has no width");
    }

    #[test]
    fn twice_as_many_are_planned_but_four_times_at_the_most() {
        let planned = |times| Need { cells: BTreeSet::new(), rounds: 9, times }.planned();
        assert_eq!([0.0, 0.5, 1.5, 3.0, 40.0, f64::INFINITY].map(planned), [0, 9, 27, 36, 36, 36]);
    }

    #[test]
    fn a_verdict_that_four_times_the_rounds_do_not_give_says_so() {
        let starts = |rounds, times, expected: &str| {
            let told = text(rounds, times);
            assert!(told.starts_with(expected), "{told}");
        };
        starts(9, 1.5, "decided by 3 times the rounds");
        starts(9, 12.2, "four times the rounds would not decide it; decided by 13 times");
        starts(9, f64::INFINITY, "four times the rounds would not decide it: the figure lies at the bound");
        starts(1, f64::INFINITY, "decided by more rounds");
    }
}
