//! Values by round: the only form in which samples of two cells can be combined.
//!
//! In: a quantity of a cell. Out: one value per round. Two of them pair by the number of the round, and a round that
//! only one of them has is left out. There is no access by position, so nothing pairs by order.

use std::collections::BTreeMap;

use faultless_trace::measurement::{median, median_interval};
use faultless_trace::stat::Interval;

use crate::cell::Cell;
use crate::results::Results;

/// One value per round.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Rounds(BTreeMap<u32, f64>);

impl Rounds {
    /// The samples of a quantity of a cell: of the first of these names that the phase has.
    pub(super) fn of(results: &Results, cell: &Cell, phase: &str, names: &[&str]) -> Option<Self> {
        let quantities = results.cell(cell)?;
        let found = |name: &&str| quantities.get(&(phase.to_owned(), (*name).to_owned()));
        let (name, values) = names.iter().find_map(|name| Some((*name, found(name)?)))?;
        let rounds = results.rounds(cell, phase, name);
        Some(rounds.iter().copied().zip(values.iter().copied()).collect())
    }

    /// An operation on the values of each round that both have.
    pub(super) fn with(&self, other: &Self, operation: impl Fn(f64, f64) -> f64) -> Self {
        let both = self.0.iter().filter_map(|(round, a)| Some((*round, *a, *other.0.get(round)?)));
        both.map(|(round, a, b)| (round, operation(a, b))).collect()
    }

    /// `self / other`, of the rounds in which both are positive.
    pub(super) fn ratio(&self, other: &Self) -> Self {
        let is_positive = |value: f64| if value > 0.0 { value } else { f64::NAN };
        self.with(other, |a, b| is_positive(a) / is_positive(b)).finite()
    }

    /// An operation on each value.
    pub(super) fn map(self, operation: impl Fn(f64) -> f64) -> Self {
        self.0.into_iter().map(|(round, value)| (round, operation(value))).collect()
    }

    /// The larger value of each round that at least one of them has.
    pub(super) fn or_larger(mut self, other: &Self) -> Self {
        for (round, value) in &other.0 {
            self.0.entry(*round).and_modify(|most| *most = most.max(*value)).or_insert(*value);
        }
        self
    }

    /// Without values that are not finite.
    pub(super) fn finite(mut self) -> Self {
        self.0.retain(|_, value| value.is_finite());
        self
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Rounds with their values.
    pub(super) fn iter(&self) -> impl Iterator<Item = (u32, f64)> {
        self.0.iter().map(|(round, value)| (*round, *value))
    }

    fn values(&self) -> Vec<f64> {
        self.0.values().copied().collect()
    }

    pub(super) fn median(&self) -> Option<f64> {
        median(&self.values())
    }

    /// The median with its 95 % interval.
    pub(super) fn interval(&self) -> Option<Interval> {
        median_interval(&self.values())
    }
}

impl FromIterator<(u32, f64)> for Rounds {
    fn from_iter<I: IntoIterator<Item = (u32, f64)>>(rounds: I) -> Self {
        Self(rounds.into_iter().collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_cells_pair_by_round_and_a_round_of_one_is_left_out() {
        let [a, b]: [Rounds; 2] =
            [[(1, 6.0), (2, 8.0)].into_iter().collect(), [(2, 2.0), (3, 1.0)].into_iter().collect()];
        assert_eq!(a.ratio(&b).iter().collect::<Vec<_>>(), [(2, 4.0)]);
        assert_eq!(a.or_larger(&b).iter().collect::<Vec<_>>(), [(1, 6.0), (2, 8.0), (3, 1.0)]);
    }
}
