//! What was found out about a claim, and how figures are printed.
//!
//! In: an interval and the bounds that a claim sets. Out: a verdict, our figure as text, one line of explanation.

use faultless_trace::stat::Interval;
use faultless_trace::verdict::Verdict;

/// What was found out about a claim.
#[derive(Clone, Debug, PartialEq)]
pub struct Finding {
    /// The verdict.
    pub verdict: Verdict,
    /// Our figure as text, with its interval; empty where there is none.
    pub ours: String,
    /// One line: why ours differs, or what was not measured.
    pub why: String,
}

impl Finding {
    /// Nothing was measured that would tell. The reason says what would decide: see [`DECIDED_BY`].
    pub(super) fn unknown(why: impl Into<String>) -> Self {
        Self { verdict: Verdict::CannotSay, ours: String::new(), why: why.into() }
    }
}

/// The range in which a claim holds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Bounds {
    /// [`f64::MIN`] where there is no lower bound.
    pub(super) low: f64,
    /// [`f64::MAX`] where there is no upper bound.
    pub(super) high: f64,
}

/// On which side of the bounds an interval lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    /// Wholly within them.
    Within,
    /// Wholly below.
    Below,
    /// Wholly above.
    Above,
    /// Across one of them, or both.
    Across,
}

impl Bounds {
    /// Where an interval lies.
    pub(super) fn side(self, found: &Interval) -> Side {
        if found.low >= self.low && found.high <= self.high {
            Side::Within
        } else if found.high < self.low {
            Side::Below
        } else if found.low > self.high {
            Side::Above
        } else {
            Side::Across
        }
    }

    /// As text: `holds from 0.75 to 1.30 times`.
    pub(super) fn text(self, unit: &str) -> String {
        let [low, high] = [self.low, self.high].map(short);
        match (self.low <= 0.0, self.high == f64::MAX) {
            (_, true) => format!("holds from {low} {unit} on"),
            (true, _) => format!("holds up to {high} {unit}"),
            _ => format!("holds from {low} to {high} {unit}"),
        }
    }
}

impl Side {
    /// The verdict of this side.
    pub(super) fn verdict(self) -> Verdict {
        match self {
            Self::Within => Verdict::Reproduced,
            Self::Below | Self::Above => Verdict::Refuted,
            Self::Across => Verdict::CannotSay,
        }
    }
}

/// Every finding without a verdict has these words.
pub(super) const DECIDED_BY: &str = "decided by";

/// What decides a claim whose interval reaches across a bound.
pub(super) const MORE_ROUNDS: &str = "decided by more rounds, which narrow it";

/// A reason, and what would decide.
pub(super) fn decided_by(why: &str, decides: &str) -> String {
    joined(&[why, &format!("{DECIDED_BY} {decides}")])
}

/// The parts that are not empty, with semicolons between.
pub(super) fn joined(parts: &[&str]) -> String {
    let parts = parts.iter().copied().filter(|part| !part.is_empty());
    parts.collect::<Vec<_>>().join("; ")
}

/// A figure with its interval, in a unit.
pub(super) fn with_interval(found: &Interval, unit: &str) -> String {
    let [value, low, high] = [found.value, found.low, found.high].map(short);
    if found.high >= f64::MAX {
        format!("{value} {unit} (one sample)")
    } else if low == high {
        format!("{value} {unit}")
    } else {
        format!("{value} {unit} [{low} {high}]")
    }
}

/// Three significant digits.
pub(super) fn short(value: f64) -> String {
    let size = value.abs();
    if size > f64::MAX / 1e6 {
        // The end of an interval of a single round.
        "any".into()
    } else if (1000.0..1e6).contains(&size) {
        let digits = format!("{value:.0}");
        let (head, tail) = digits.split_at(digits.len() - 3);
        format!("{head},{tail}")
    } else if size >= 100.0 {
        format!("{value:.0}")
    } else if size >= 10.0 {
        format!("{value:.1}")
    } else if size == 0.0 {
        "0".into()
    } else {
        format!("{value:.2}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interval_that_reaches_a_bound_can_not_say() {
        let side = |low, high| {
            let found = Interval { value: f64::midpoint(low, high), low, high };
            Bounds { low: 1.0, high: 2.0 }.side(&found)
        };
        assert_eq!(
            [side(1.1, 1.9), side(0.1, 0.9), side(2.1, 2.2), side(0.9, 1.1), side(0.9, 2.1)],
            [Side::Within, Side::Below, Side::Above, Side::Across, Side::Across]
        );
        // 1.323 [0.62 1.48], "at most 1.05".
        let found = Interval { value: 1.323, low: 0.62, high: 1.48 };
        let at_most = Bounds { low: f64::MIN, high: 1.05 };
        assert_eq!(at_most.side(&found).verdict(), Verdict::CannotSay);
    }

    #[test]
    fn bounds_are_printed_with_their_unit() {
        let text = |low, high| Bounds { low, high }.text("times");
        assert_eq!(text(1.5, 2.0), "holds from 1.50 to 2.00 times");
        assert_eq!(text(1.5, f64::MAX), "holds from 1.50 times on");
        assert_eq!(text(f64::MIN, 2.0), "holds up to 2.00 times");
    }

    #[test]
    fn figures_are_short() {
        assert_eq!(
            [131_145.0, 1234.5, 175.0, 12.34, 0.68, 0.0, f64::MAX].map(short),
            ["131,145", "1,234", "175", "12.3", "0.68", "0", "any"]
        );
    }
}
