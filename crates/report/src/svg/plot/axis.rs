//! An axis: values -> coordinates, and the ticks along it.

use super::super::bars::tick_step;

/// Values from `low` to `high` along a line between two coordinates. `low` is less than `high`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Axis {
    low: f64,
    high: f64,
    is_log: bool,
    from: f64,
    to: f64,
}

/// Arithmetic on values between these can't overflow.
const LEAST: f64 = 1e-30;
const MOST: f64 = 1e30;

impl Axis {
    /// An axis that holds these values with some room; logarithmic if all of `decisive` are positive. It
    /// spans at least a factor of two, so that noise does not fill the whole height.
    pub(super) fn of(decisive: &[f64], others: &[f64], (from, to): (f64, f64)) -> Self {
        let is_log = decisive.iter().all(|value| *value > 0.0);
        let is_usable =
            |value: &f64| value.is_finite() && value.abs() <= MOST && (!is_log || *value >= LEAST);
        let usable: Vec<f64> = decisive.iter().chain(others).copied().filter(is_usable).collect();
        let low = usable.iter().copied().fold(f64::INFINITY, f64::min);
        let high = usable.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let (low, high) = if usable.is_empty() {
            (1.0, 10.0)
        } else if is_log {
            let wanting = (2.0 / (high / low)).max(1.0).sqrt();
            let room = (high / low).powf(0.05).max(1.06);
            (low / wanting / room, high * wanting * room)
        } else {
            let room = ((high - low) * 0.06).max(high.abs().max(1.0) * 0.02);
            (if low == 0.0 { 0.0 } else { low - room }, high + room)
        };
        Self { low, high, is_log, from, to }
    }

    /// The coordinate of a value. A value beyond an end is at that end.
    pub(super) fn place(&self, value: f64) -> f64 {
        let scaled = |value: f64| if self.is_log { value.max(LEAST).ln() } else { value };
        let share = (scaled(value) - scaled(self.low)) / (scaled(self.high) - scaled(self.low));
        let share = if share.is_nan() { 0.0 } else { share.clamp(0.0, 1.0) };
        self.from + share * (self.to - self.from)
    }

    /// Round values along the axis: three to seven if possible.
    pub(super) fn ticks(&self) -> Vec<f64> {
        const DIGITS: [&[f64]; 3] = [&[1.0], &[1.0, 2.0, 5.0], &[1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 7.0]];
        let is_inside = |value: &f64| *value >= self.low && *value <= self.high;
        if self.is_log {
            let (first, last) = (self.low.log10().floor() as i32, self.high.log10().ceil() as i32);
            for digits in DIGITS {
                let decades = (first..=last).map(|power| 10_f64.powi(power));
                let ticks: Vec<f64> = decades
                    .flat_map(|decade| digits.iter().map(move |digit| digit * decade))
                    .filter(is_inside)
                    .collect();
                if ticks.len() > 7 {
                    let step = ticks.len().div_ceil(7);
                    return ticks.into_iter().step_by(step).collect();
                }
                if ticks.len() >= 3 {
                    return ticks;
                }
            }
        }
        let step = tick_step(self.high - self.low);
        if step <= 0.0 {
            return vec![self.low];
        }
        let first = (self.low / step).ceil();
        (0..12).map(|n| (first + f64::from(n)) * step).filter(is_inside).collect()
    }
}

/// A short number: three significant digits, `k` and `M` for thousands and millions.
pub(super) fn short(value: f64) -> String {
    let size = value.abs();
    if size >= 1e15 || (size > 0.0 && size < 1e-6) {
        format!("{value:.0e}")
    } else if size >= 1e6 {
        trimmed(value / 1e6) + "M"
    } else if size >= 1e4 {
        trimmed(value / 1e3) + "k"
    } else {
        trimmed(value)
    }
}

fn trimmed(value: f64) -> String {
    let whole_digits = value.abs().max(1e-9).log10().floor() as i32;
    let decimals = (2 - whole_digits).clamp(0, 9) as usize;
    let text = format!("{value:.decimals$}");
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_few_and_on_the_axis() {
        for (low, high) in [(0.5, 0.8), (1.0, 1.1), (1.0, 1e6), (3.0, 47.0), (1e-9, 1e12), (360.0, 380.0)] {
            let axis = Axis::of(&[low, high], &[], (0.0, 100.0));
            let ticks = axis.ticks();
            assert!((3..=8).contains(&ticks.len()), "{low} to {high}: {ticks:?}");
            assert!(ticks.iter().all(|tick| (0.0..=100.0).contains(&axis.place(*tick))));
        }
    }

    #[test]
    fn equal_ratios_are_equally_long() {
        let axis = Axis::of(&[1.0, 100.0], &[], (0.0, 100.0));
        let [one, ten, hundred] = [1.0, 10.0, 100.0].map(|value| axis.place(value));
        assert!((ten - one - (hundred - ten)).abs() < 1e-9 && ten > one);
    }

    #[test]
    fn a_zero_makes_the_axis_linear() {
        let axis = Axis::of(&[0.0, 10.0], &[], (0.0, 100.0));
        assert_eq!(axis.place(0.0), 0.0);
        assert!((axis.place(5.0) * 2.0 - axis.place(10.0)).abs() < 1e-9);
    }

    #[test]
    fn numbers_are_short() {
        let shown = [0.0, 0.5, 0.0123, 1.0, 1234.0, 65_536.0, 1.5e6, 1e300].map(short);
        assert_eq!(shown, ["0", "0.5", "0.0123", "1", "1234", "65.5k", "1.5M", "1e300"]);
    }
}
