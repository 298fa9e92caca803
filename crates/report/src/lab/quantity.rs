//! Quantities with their intervals, printed in the unit that ends the quantity's name.

use faultless_trace::measurement::{Bytes, Count, Nanos, Percent};
use faultless_trace::stat::Interval;

/// A quantity of a phase.
#[derive(Clone, Debug, PartialEq)]
pub struct Quantity {
    /// The name, which ends with the unit: `wall_ns`.
    pub name: String,
    /// Median and interval.
    pub interval: Interval,
}

/// A value of a quantity, for people.
pub fn shown(quantity: &str, value: f64) -> String {
    let ends = |unit: &str| quantity.ends_with(unit);
    if !value.is_finite() {
        "-".to_owned()
    } else if ends("_ns") {
        Nanos(value).to_string()
    } else if ends("_share") {
        Percent(value).to_string()
    } else if ends("_bytes") && value >= 0.0 {
        Bytes(value.round() as u64).to_string()
    } else if value >= 0.0 && value.fract() == 0.0 && value < 1e15 {
        Count(value as u64).to_string()
    } else if value.abs() >= 1e15 {
        format!("{value:.2e}")
    } else if value.abs() >= 100.0 {
        format!("{value:.0}")
    } else if value.abs() >= 10.0 {
        format!("{value:.1}")
    } else {
        format!("{value:.3}")
    }
}

/// A quantity's name without the unit that [`shown`] prints: `wall_ns` is `wall`.
pub(super) fn name(quantity: &str) -> String {
    let bare = ["_ns", "_bytes"].iter().find_map(|unit| quantity.strip_suffix(unit)).unwrap_or(quantity);
    bare.replace('_', " ")
}

/// `low to high`. Empty if both ends print the same; `one sample` if there is no interval.
pub(super) fn range(quantity: &str, found: &Interval) -> String {
    if found.high >= f64::MAX {
        return "one sample".to_owned();
    }
    // A count is whole and not negative, however its interval is computed.
    let [low, high] = if quantity.ends_with("_faults") {
        [found.low.floor().max(0.0), found.high.ceil()]
    } else {
        [found.low, found.high]
    };
    let (low, high) = (shown(quantity, low), shown(quantity, high));
    let unit = |text: &str| text.split_once(' ').map(|(_, unit)| unit.to_owned());
    let has_unit = high.ends_with(|c: char| !c.is_ascii_digit());
    match low.split_once(' ') {
        _ if low == high => String::new(),
        Some((bare, unit_of_low)) if has_unit && unit(&high).as_deref() == Some(unit_of_low) => {
            format!("{bare} to {high}")
        }
        _ => format!("{low} to {high}"),
    }
}

/// A ratio.
pub(super) fn times(value: f64) -> String {
    match value {
        v if v >= 1e6 => "huge".to_owned(),
        v if v >= 99.95 => format!("{v:.0}"),
        v if v >= 9.995 => format!("{v:.1}"),
        v if v >= 0.0995 || v <= 0.0 => format!("{v:.2}"),
        v => format!("{v:.decimals$}", decimals = (1 - v.log10().floor() as i32).clamp(2, 9) as usize),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_unit_ends_the_name() {
        let of = |(quantity, value)| shown(quantity, value);
        let shown = [
            ("wall_ns", 1_310.0),
            ("peak_rss_bytes", 3_145_728.0),
            ("minor_faults", 16_384.0),
            ("others_share", 0.04),
            ("gb_per_s", 12.345),
            ("x", f64::NAN),
        ];
        assert_eq!(shown.map(of), ["1.31 us", "3 MiB", "16 384", "4.0 %", "12.3", "-"]);
        assert_eq!([name("wall_ns"), name("minor_faults")], ["wall", "minor faults"]);
    }

    #[test]
    fn small_ratios_keep_two_digits() {
        assert_eq!(
            [123.4, 12.34, 1.234, 0.1, 0.0123, 1e9].map(times),
            ["123", "12.3", "1.23", "0.10", "0.012", "huge"]
        );
    }

    #[test]
    fn an_interval_that_is_a_point_is_not_said() {
        let found = Interval { value: 5.0, low: 5.0, high: 5.0 };
        assert_eq!(range("minor_faults", &found), "");
        assert_eq!(range("minor_faults", &Interval { low: 0.0, high: f64::MAX, ..found }), "one sample");
        assert_eq!(range("wall_ns", &Interval { high: 7.0, ..found }), "5.00 to 7.00 ns");
        assert_eq!(range("wall_ns", &Interval { high: 7e3, ..found }), "5.00 ns to 7.00 us");
        assert_eq!(range("minor_faults", &Interval { low: 1e3, high: 2e3, ..found }), "1 000 to 2 000");
        assert_eq!(range("minor_faults", &Interval { low: -0.4, high: 7.2, ..found }), "0 to 8");
    }
}
