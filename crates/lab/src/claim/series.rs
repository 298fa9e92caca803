//! Values by round: the only form in which samples of two cells are combined.
//!
//! In: the samples of a quantity, or a number. Out: arithmetic round by round, a median and its interval. A round that
//! only one side has is left out, and so is a value that is not finite. There is no access by position, so nothing
//! pairs by order. What was not measured stays a text that says what is lacking.

use std::collections::BTreeMap;
use std::ops::{Add, Div, Mul, Sub};

use faultless_trace::measurement::{Interval, median_interval};

/// A figure that is still one value per round.
#[derive(Clone, Debug, PartialEq)]
pub enum Series {
    /// Which cell or quantity is missing, and the command that measures it.
    Lacking(String),
    /// The same in every round.
    Number(f64),
    /// Times, and what rests on them, by the number of the round.
    Rounds(BTreeMap<u32, f64>),
    /// Counts, in which a single round is exact.
    Counts(BTreeMap<u32, f64>),
}

impl Series {
    /// The median with its 95 % interval; a number has an interval without width.
    ///
    /// # Errors
    /// What is lacking.
    pub fn interval(&self) -> Result<Interval, String> {
        match self {
            Self::Lacking(what) => Err(what.clone()),
            Self::Number(value) => Ok(Interval { value: *value, low: *value, high: *value }),
            Self::Counts(rounds) if rounds.len() == 1 => Self::Number(rounds.values().sum()).interval(),
            Self::Rounds(rounds) | Self::Counts(rounds) => {
                let values: Vec<f64> = rounds.values().copied().collect();
                median_interval(&values).ok_or_else(|| "no round has all of its samples".into())
            }
        }
    }

    /// The median, where it was measured.
    pub fn median(&self) -> Option<f64> {
        self.interval().ok().map(|found| found.value)
    }

    /// An operation on each value.
    #[must_use]
    pub fn map(self, operation: impl Fn(f64) -> f64) -> Self {
        match self {
            Self::Lacking(what) => Self::Lacking(what),
            Self::Number(value) => Self::Number(operation(value)),
            Self::Rounds(rounds) => Self::Rounds(finite(rounds, |_, value| Some(operation(value)))),
            Self::Counts(rounds) => Self::Counts(finite(rounds, |_, value| Some(operation(value)))),
        }
    }

    /// An operation on the values of each round that both have.
    #[must_use]
    pub fn with(self, other: Self, operation: impl Fn(f64, f64) -> f64) -> Self {
        match (self, other) {
            (Self::Lacking(what), _) | (_, Self::Lacking(what)) => Self::Lacking(what),
            (Self::Number(a), b) => b.map(|b| operation(a, b)),
            (a, Self::Number(b)) => a.map(|a| operation(a, b)),
            (Self::Counts(a), Self::Counts(b)) => {
                Self::Counts(finite(a, |round, a| Some(operation(a, *b.get(&round)?))))
            }
            (Self::Rounds(a) | Self::Counts(a), Self::Rounds(b) | Self::Counts(b)) => {
                Self::Rounds(finite(a, |round, a| Some(operation(a, *b.get(&round)?))))
            }
        }
    }

    /// The larger value of each round.
    #[must_use]
    pub fn max(self, other: impl Into<Self>) -> Self {
        self.with(other.into(), f64::max)
    }

    /// This figure where it was measured, else the other.
    #[must_use]
    pub fn or(self, other: impl Into<Self>) -> Self {
        if let Self::Lacking(_) = self { other.into() } else { self }
    }

    /// The largest value of each round that at least one of them has.
    #[must_use]
    pub fn largest(of: impl IntoIterator<Item = Self>) -> Self {
        Self::union(of, f64::max)
    }

    /// The value of each round of the last of them that has it.
    #[must_use]
    pub fn latest(of: impl IntoIterator<Item = Self>) -> Self {
        Self::union(of, |_, later| later)
    }

    fn union(of: impl IntoIterator<Item = Self>, choose: fn(f64, f64) -> f64) -> Self {
        let join = |mut a: Self, b: Self| match (&mut a, b) {
            (Self::Rounds(own), Self::Rounds(b)) | (Self::Counts(own), Self::Counts(b)) => {
                for (round, value) in b {
                    own.entry(round).and_modify(|own| *own = choose(*own, value)).or_insert(value);
                }
                a
            }
            (Self::Lacking(_), other) => other,
            (_, Self::Lacking(_)) => a,
            (_, b) => a.with(b, choose),
        };
        of.into_iter().reduce(join).unwrap_or_else(|| Self::Lacking("no such cell".into()))
    }
}

fn finite(rounds: BTreeMap<u32, f64>, of: impl Fn(u32, f64) -> Option<f64>) -> BTreeMap<u32, f64> {
    let values = rounds.into_iter().filter_map(|(round, value)| Some((round, of(round, value)?)));
    values.filter(|(_, value)| value.is_finite()).collect()
}

impl From<f64> for Series {
    fn from(value: f64) -> Self {
        Self::Number(value)
    }
}

macro_rules! round_by_round {
    ($($operation:ident $name:ident),*) => {$(
        impl<T: Into<Series>> $operation<T> for Series {
            type Output = Series;
            fn $name(self, other: T) -> Series {
                self.with(other.into(), f64::$name)
            }
        }
        impl $operation<Series> for f64 {
            type Output = Series;
            fn $name(self, other: Series) -> Series {
                Series::Number(self).with(other, f64::$name)
            }
        }
    )*};
}
round_by_round!(Add add, Sub sub, Mul mul, Div div);

#[cfg(test)]
mod tests {
    use super::*;

    fn rounds(values: &[(u32, f64)]) -> Series {
        Series::Rounds(values.iter().copied().collect())
    }

    #[test]
    fn two_figures_pair_by_round_and_a_round_of_one_is_left_out() {
        let (a, b) = (rounds(&[(1, 6.0), (2, 8.0)]), rounds(&[(2, 2.0), (3, 1.0)]));
        assert_eq!(a.clone() / b.clone(), rounds(&[(2, 4.0)]));
        assert_eq!(1.0 + a.clone() * 2.0, rounds(&[(1, 13.0), (2, 17.0)]));
        assert_eq!(Series::largest([a.clone(), b]), rounds(&[(1, 6.0), (2, 8.0), (3, 1.0)]));
        assert_eq!(a / rounds(&[(1, 0.0), (2, 4.0)]), rounds(&[(2, 2.0)]), "nothing is divided by zero");
    }

    #[test]
    fn what_lacks_is_passed_on_until_something_stands_in() {
        let lacking = Series::Lacking("touch threads=9".into());
        assert_eq!((2.0 * lacking.clone()).interval(), Err("touch threads=9".into()));
        assert_eq!(lacking.or(3.0).median(), Some(3.0));
    }
}
