//! A figure and its interval, as printed.
//!
//! In: an [`Interval`]. Out: `626 ± 44 ms` if the interval is narrow, `24 (12 to 40) ms` if it is wide,
//! `626 ms` if the figure is exact. All texts of this crate print estimates this way, so an interval reads the
//! same everywhere. Printed ends are rounded outward: the printed interval holds the real one. The choice of
//! form depends on the printed digits. This module does not know what a figure means.

use faultless_trace::measurement::{Count, Nanos, Percent};
use faultless_trace::stat::Interval;

use crate::tuning::{NEGLIGIBLE_BELOW, NEGLIGIBLE_TIME, NOTHING_RATIO, SPREAD_MAX, SPREAD_SHOWN};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Unit {
    /// Nanoseconds, printed in ns, us, ms or s.
    Time,
    /// 0 to 1, printed in percent.
    Share,
    Count,
    /// How many times as much.
    Ratio,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Figure {
    /// The digits of the figure, or of the lower end of a range.
    first: String,
    second: Second,
    /// With a leading blank; empty for counts.
    unit: &'static str,
}

/// What follows the first digits.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Second {
    Nothing,
    /// `± 44`.
    Spread(String),
    /// `(12 to 40)`.
    Ends(String, String),
    /// `to 40`.
    To(String),
}

impl Figure {
    pub(crate) fn nanos(interval: Interval) -> Self {
        Self::of(interval, Unit::Time, f64::MAX)
    }

    /// The time of a part of at most `most` ns: the printed interval ends there.
    pub(crate) fn nanos_within(interval: Interval, most: f64) -> Self {
        Self::of(interval, Unit::Time, most)
    }

    pub(crate) fn seconds(interval: Interval) -> Self {
        Self::nanos(interval.times(1e9))
    }

    /// The time of a part in seconds, with its ends, of at most `most` seconds. With ends alone it was not timed, and is
    /// no part of the sum.
    pub(crate) fn seconds_within(value: Option<f64>, ends: Option<(f64, f64)>, most: f64) -> Self {
        match (value, ends) {
            (Some(value), Some((low, high))) => {
                Self::nanos_within(Interval { value, low, high }.times(1e9), most * 1e9)
            }
            (Some(value), None) => Self::seconds(Self::exact(value)),
            (None, Some((low, high))) => Self::seconds(Interval { value: low, low, high }),
            (None, None) => Self::unknown(),
        }
    }

    /// A share from 0 to 1.
    pub(crate) fn share(interval: Interval) -> Self {
        Self::of(interval, Unit::Share, 1.0)
    }

    pub(crate) fn count(interval: Interval) -> Self {
        Self::of(interval, Unit::Count, f64::MAX)
    }

    /// The number of a part of at most `most` things.
    pub(crate) fn count_within(interval: Interval, most: f64) -> Self {
        Self::of(interval, Unit::Count, most)
    }

    /// How many times as much.
    pub(crate) fn ratio(interval: Interval) -> Self {
        Self::of(interval, Unit::Ratio, f64::MAX)
    }

    /// A time as a range, whatever its width: the true time may be anywhere in it.
    pub(crate) fn nanos_range(interval: Interval) -> Self {
        Self::range(interval, Unit::Time)
    }

    /// A number of things as a range, whatever its width.
    pub(crate) fn count_range(interval: Interval) -> Self {
        Self::range(interval, Unit::Count)
    }

    /// The interval of an exact figure.
    pub(crate) fn exact(value: f64) -> Interval {
        Interval { value, low: value, high: value }
    }

    pub(crate) fn unknown() -> Self {
        Self { first: "-".to_owned(), second: Second::Nothing, unit: "" }
    }

    fn of(interval: Interval, unit: Unit, most: f64) -> Self {
        let Interval { value, low, high } = interval;
        let (low, high) = (low.min(value).max(0.0), high.max(value));
        let half = (high - value).max(value - low);
        if half <= SPREAD_SHOWN * value || (unit == Unit::Count && half < 0.5) {
            return Self::alone(value, unit);
        }
        let within = value + half <= most * (1.0 + SPREAD_SHOWN);
        let spread = if within { Self::spread(value, half, unit) } else { None };
        // A spread cut off at the whole is narrow: it gets one more digit than a wide range.
        let digits_more = if !within && half <= SPREAD_MAX * value { 0.1 } else { 1.0 };
        spread.unwrap_or_else(|| {
            Self::range_of(low, high, digits_more * (high - low), unit, most)
                .about(Interval { value: value.min(most), low, high }, unit)
        })
    }

    fn alone(value: f64, unit: Unit) -> Self {
        let text = match unit {
            Unit::Time => Nanos(value).to_string(),
            Unit::Share => Percent(value).to_string(),
            Unit::Count => Count(value.round() as u64).to_string(),
            Unit::Ratio => format!("{value:.2}"),
        };
        let scale = unit.scale(value);
        match text.strip_suffix(scale.1) {
            Some(digits) => Self { first: digits.to_owned(), second: Second::Nothing, unit: scale.1 },
            None => Self { first: text, second: Second::Nothing, unit: "" },
        }
    }

    /// `626 ± 44 ms`; `None` if the interval is too wide.
    fn spread(value: f64, half: f64, unit: Unit) -> Option<Self> {
        let (size, name) = unit.scale(value);
        let (value, half) = (value / size, half / size);
        let decimals = unit.decimals(value);
        // One more decimal if the spread would round to nothing.
        let finer =
            decimals + usize::from(matches!(unit, Unit::Time | Unit::Share) && half < 0.95 * step(decimals));
        let half = up(half, finer);
        let finer = if half < step(decimals) { finer } else { decimals };
        let printed = (value / step(decimals)).round() * step(decimals);
        let fits = half <= SPREAD_MAX * printed && (unit != Unit::Share || printed + half <= 100.0);
        fits.then(|| Self {
            first: digits(printed, decimals),
            second: Second::Spread(digits(half, finer)),
            unit: name,
        })
    }

    /// `12 to 40 ms`: two digits, or as many as distinguish the ends.
    fn range(Interval { low, high, .. }: Interval, unit: Unit) -> Self {
        Self::range_of(low, high, high - low, unit, f64::MAX)
    }

    /// A range with as many digits as distinguish two values `apart`, and no end above `most`.
    fn range_of(low: f64, high: f64, apart: f64, unit: Unit, most: f64) -> Self {
        let (size, name) = unit.scale(high);
        let (low, high, width) = (low / size, high / size, apart / size);
        let (low, mut high) = (outward(low, width, false, unit), outward(high, width, true, unit));
        if matches!(unit, Unit::Share | Unit::Count) {
            high.0 = high.0.min(most / size);
        }
        Self { first: digits(low.0, low.1), second: Second::To(digits(high.0, high.1)), unit: name }
    }

    /// The range behind its best estimate, which has two digits, or as many as its wider half leaves certain. An
    /// estimate of nothing has no place of its own.
    fn about(self, Interval { value, low, high }: Interval, unit: Unit) -> Self {
        let size = unit.scale(high).0;
        let value = value / size;
        let certain = power_of((high / size - value).max(value - low / size) / 5.0);
        let step = certain.min(power_of(value) / 10.0).max(unit.finest());
        let decimals = match unit {
            Unit::Share => usize::from(value < 9.95),
            _ => (-step.log10().floor()).max(0.0) as usize,
        };
        let value = digits((value / step).round() * step, decimals);
        match self.second {
            Second::To(high) if value != digits(0.0, decimals) => {
                Self { first: value, second: Second::Ends(self.first, high), unit: self.unit }
            }
            second => Self { second, ..self },
        }
    }

    /// The best estimate of a wide interval without its range.
    pub(crate) fn without_range(self) -> Self {
        match self.second {
            Second::Ends(..) => Self { second: Second::Nothing, ..self },
            _ => self,
        }
    }

    /// In a sentence: `about 24 ms`, `at most 8 ms`, `626 ± 44 ms`.
    pub(crate) fn phrase(&self) -> String {
        let (first, unit) = (&self.first, self.unit);
        match &self.second {
            Second::Ends(..) => format!("about {first}{unit}"),
            Second::To(high) => format!("at most {high}{unit}"),
            Second::Nothing | Second::Spread(_) => self.to_string(),
        }
    }

    /// In brackets: `24 %, 12 to 40`.
    pub(crate) fn aside(&self) -> String {
        match &self.second {
            Second::Ends(low, high) => format!("{}{}, {low} to {high}", self.first, self.unit),
            _ => self.to_string(),
        }
    }

    /// The upper bound alone: `below 10 %`.
    pub(crate) fn below(&self) -> String {
        let (Second::Ends(_, most) | Second::To(most)) = &self.second else {
            return format!("below {}{}", self.first, self.unit);
        };
        format!("below {most}{}", self.unit)
    }

    /// Everything after the first digits.
    fn rest(&self) -> String {
        match &self.second {
            Second::Nothing => self.unit.to_owned(),
            Second::Spread(half) => format!(" ± {half}{}", self.unit),
            Second::Ends(low, high) => format!(" ({low} to {high}){}", self.unit),
            Second::To(high) => format!(" to {high}{}", self.unit),
        }
    }

    /// Cells of equal width, aligned at the end of the first digits.
    pub(crate) fn column(figures: &[Self]) -> Vec<String> {
        let width = |text: &str| text.chars().count();
        let first = figures.iter().map(|figure| width(&figure.first)).max().unwrap_or(0);
        let rest = figures.iter().map(|figure| width(&figure.rest())).max().unwrap_or(0);
        figures.iter().map(|figure| format!("{:>first$}{:<rest$}", figure.first, figure.rest())).collect()
    }
}

/// Whether a row may be left out: it may be nothing, and its best estimates are a small part of all faults
/// and of the time.
pub(crate) fn is_negligible(count: &Interval, all: f64, of_time: f64) -> bool {
    is_nothing(count) && count.value < NEGLIGIBLE_BELOW * all && of_time < NEGLIGIBLE_TIME
}

/// Whether the count may be 0: its interval reaches 0, or is too wide to say anything.
fn is_nothing(count: &Interval) -> bool {
    let is_exact = count.low >= count.high;
    !is_exact && (count.low < 0.5 || count.high > NOTHING_RATIO * count.low)
}

impl std::fmt::Display for Figure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(&format!("{}{}", self.first, self.rest()))
    }
}

impl Unit {
    /// The size and name of the printed unit.
    fn scale(self, value: f64) -> (f64, &'static str) {
        match self {
            Self::Time => match value {
                v if v < 999.5 => (1.0, " ns"),
                v if v < 999.5e3 => (1e3, " us"),
                v if v < 999.5e6 => (1e6, " ms"),
                _ => (1e9, " s"),
            },
            Self::Share => (0.01, " %"),
            Self::Count | Self::Ratio => (1.0, ""),
        }
    }

    /// The finest step of a range and its estimate, in the printed unit.
    fn finest(self) -> f64 {
        match self {
            Self::Count => 1.0,
            Self::Share => 0.1,
            Self::Time | Self::Ratio => 0.01,
        }
    }

    /// Decimals in the printed unit, as for an exact figure.
    fn decimals(self, value: f64) -> usize {
        match (self, value) {
            (Self::Count, _) => 0,
            (Self::Ratio, _) => 2,
            (Self::Share, v) => usize::from(v < 9.95),
            (_, v) if v < 9.995 => 2,
            (_, v) if v < 99.95 => 1,
            _ => 0,
        }
    }
}

/// The value of the last of so many decimals.
fn step(decimals: usize) -> f64 {
    10_f64.powi(-(decimals as i32))
}

/// The power of ten that is not above it.
fn power_of(value: f64) -> f64 {
    10_f64.powf(value.max(f64::MIN_POSITIVE).log10().floor())
}

/// Rounded up to so many decimals, with a tolerance for floating-point error.
fn up(value: f64, decimals: usize) -> f64 {
    (value / step(decimals) - 1e-6).ceil() * step(decimals)
}

/// Rounds up or down to two digits, or to as many as distinguish values `width` apart. Returns the decimals
/// too. Counts are whole; a share has at most one decimal, everything else at most two.
fn outward(value: f64, width: f64, upward: bool, unit: Unit) -> (f64, usize) {
    let step_of = |value: f64| power_of(value) / 10.0;
    let finest = unit.finest();
    let wide = power_of(width);
    let step = step_of(value).min(wide).max(finest);
    let steps = value / step;
    let value = if upward { (steps - 1e-6).ceil() } else { (steps + 1e-6).floor() } * step;
    // 9.96 has become 10.
    let step = step_of(value * (1.0 + 1e-9)).min(wide).max(finest);
    let decimals = if value == 0.0 || step >= 1.0 { 0 } else { (-step.log10()).round() as usize };
    (value, decimals)
}

/// Digits in groups of three.
fn digits(value: f64, decimals: usize) -> String {
    match decimals {
        0 => Count(value.round() as u64).to_string(),
        _ => format!("{value:.decimals$}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nanos(value: f64, low: f64, high: f64) -> String {
        Figure::nanos(Interval { value, low, high }).to_string()
    }
    fn share(value: f64, low: f64, high: f64) -> String {
        Figure::share(Interval { value, low, high }).to_string()
    }
    fn count(value: f64, low: f64, high: f64) -> String {
        Figure::count(Interval { value, low, high }).to_string()
    }

    #[test]
    fn a_narrow_interval_follows_its_figure() {
        assert_eq!(nanos(626e6, 582e6, 670e6), "626 ± 44 ms");
        assert_eq!(nanos(1.9e9, 1.8e9, 2.0e9), "1.90 ± 0.10 s");
        assert_eq!(share(0.45, 0.42, 0.48), "45 ± 3 %");
        assert_eq!(share(0.45, 0.449, 0.451), "45 ± 0.1 %");
        assert_eq!(share(0.06, 0.052, 0.068), "6.0 ± 0.8 %");
        assert_eq!(count(6287.0, 5600.0, 6900.0), "6 287 ± 687");
        assert_eq!(
            Figure::ratio(Interval { value: 2.17, low: 2.165, high: 2.18 }).to_string(),
            "2.17 ± 0.01"
        );
    }

    #[test]
    fn a_wide_one_has_its_range_behind_it() {
        assert_eq!(nanos(24e6, 12.4e6, 39.2e6), "24 (12 to 40) ms");
        assert_eq!(nanos(5e6, 0.0, 8.31e6), "5.0 (0 to 8.4) ms");
        assert_eq!(nanos(3e6, 2e3, 12e6), "3.0 (0 to 12) ms");
        assert_eq!(
            nanos(24.6e6, 12.4e6, 25e6),
            "25 (12 to 25) ms",
            "an end is no reason to hide the estimate"
        );
        assert_eq!(nanos(0.5e9, 160e6, 1.2e9), "0.50 (0.16 to 1.2) s");
        assert_eq!(share(0.43, 0.0, 1.0), "43 (0 to 100) %");
        assert_eq!(share(0.44, 0.22, 0.88), "44 (22 to 88) %");
        assert_eq!(share(0.02, 0.005, 0.032), "2.0 (0.5 to 3.2) %");
        assert_eq!(count(9000.0, 1516.0, 154_421.0), "9 000 (1 500 to 160 000)");
        assert_eq!(count(3.0, 0.0, 7.2), "3 (0 to 8)");
    }

    #[test]
    fn a_range_that_is_asked_for_has_digits_that_tell_its_ends_apart() {
        let saved = |low, high| Figure::count_range(Interval { value: low, low, high }).to_string();
        assert_eq!([saved(9952.0, 10_016.0), saved(1635.0, 2044.0)], ["9 950 to 10 020", "1 600 to 2 100"]);
        let saved = Figure::nanos_range(Interval { value: 1e7, low: 9.09e6, high: 10.8e6 });
        assert_eq!(saved.to_string(), "9.0 to 11 ms");
    }

    #[test]
    fn an_exact_one_stands_alone() {
        assert_eq!(nanos(1.9e9, 1.9e9, 1.9e9), "1.90 s");
        assert_eq!(share(0.0004, 0.0004, 0.0004), "<0.1 %");
        assert_eq!(count(131_134.0, 131_134.0, 131_134.2), "131 134");
        assert_eq!(Figure::unknown().to_string(), "-");
    }

    #[test]
    fn the_limit_is_that_of_the_printed_digits() {
        assert_eq!(nanos(100e6, 70e6, 130e6), "100 ± 30 ms");
        assert_eq!(nanos(100e6, 69.9e6, 130e6), "100 (69 to 130) ms");
        assert_eq!(count(4.0, 2.9, 5.1), "4 (2 to 6)", "4 ± 2 would be half of it");
        assert_eq!(share(0.95, 0.85, 1.0), "95 (85 to 100) %", "95 ± 10 would be more than all");
    }

    #[test]
    fn a_part_of_a_known_whole_is_not_said_to_be_more() {
        let part = |low, high| Figure::count_within(Interval { value: 40_011.0, low, high }, 40_102.0);
        assert_eq!(part(39_869.0, 40_102.0).to_string(), "40 010 (39 860 to 40 102)");
        assert_eq!(part(39_950.0, 40_072.0).to_string(), "40 011 ± 61");
        let time = Figure::nanos_within(Interval { value: 57.1e6, low: 38.6e6, high: 62.9e6 }, 62.9e6);
        assert_eq!(time.to_string(), "57 (38 to 63) ms");
    }

    #[test]
    fn few_dear_faults_are_not_negligible() {
        let count = Interval { value: 21.0, low: 0.0, high: 841.0 };
        assert!(is_negligible(&count, 13_169.0, 0.01));
        assert!(!is_negligible(&count, 13_169.0, 0.71), "most of the time");
        assert!(!is_negligible(&count, 100.0, 0.01), "many of the faults");
    }

    #[test]
    fn in_a_sentence_a_range_has_words() {
        let phrase = |low, high| Figure::nanos(Interval { value: 20e6, low, high }).phrase();
        assert_eq!(phrase(12e6, 40e6), "about 20 ms");
        assert_eq!(phrase(20e6, 40e6), "about 20 ms");
        assert_eq!(Figure::nanos(Interval { value: 0.0, low: 0.0, high: 40e6 }).phrase(), "at most 40 ms");
        assert_eq!(phrase(19e6, 21e6), "20.0 ± 1.0 ms");
    }

    #[test]
    fn a_column_is_aligned_at_the_end_of_the_first_digits() {
        let figures = [(626e6, 582e6, 670e6), (24e6, 12e6, 40e6), (1.5e6, 1.5e6, 1.5e6)];
        let figures = figures.map(|(value, low, high)| Figure::nanos(Interval { value, low, high }));
        assert_eq!(
            Figure::column(&figures),
            [" 626 ± 44 ms      ", "  24 (12 to 40) ms", "1.50 ms           "]
        );
    }
}
