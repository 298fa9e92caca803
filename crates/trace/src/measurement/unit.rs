//! Figures with a unit: each type stores one unit, and its `Display` chooses prefix and digits. Three
//! significant digits, a space before the unit, and `us` to stay within ASCII. Parses nothing.

use std::fmt;

/// Nanoseconds. `6.28 ns`, `812 ns`, `1.31 us`, `20.4 ms`, `1.90 s`.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
pub struct Nanos(pub f64);

/// Seconds: the same figures from the other end.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
pub struct Seconds(pub f64);

/// Bytes, in powers of 1024. `512 B`, `640 KiB`, `24 MiB`, `1.5 GiB`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Bytes(pub u64);

/// A share from 0 to 1. `0.3 %`, `4.2 %`, `45 %`; `100 %` and `0 %` only if exact.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
pub struct Percent(pub f64);

/// A number of things, in groups of three digits. `131 134`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Count(pub u64);

impl fmt::Display for Nanos {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let size = self.0.abs();
        let text = match size {
            0.0 => "0 ns".to_owned(),
            s if s < 9.995 => format!("{:.2} ns", self.0),
            s if s < 999.5 => format!("{:.0} ns", self.0),
            s if s < 999.5e3 => format!("{} us", three_digits(self.0 / 1e3)),
            s if s < 999.5e6 => format!("{} ms", three_digits(self.0 / 1e6)),
            _ => format!("{} s", three_digits(self.0 / 1e9)),
        };
        f.pad(&text)
    }
}

impl fmt::Display for Seconds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Nanos(self.0 * 1e9).fmt(f)
    }
}

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const NAMES: [&str; 7] = ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
        let mut value = self.0 as f64;
        let mut name = 0;
        while value >= 1024.0 && name + 1 < NAMES.len() {
            value /= 1024.0;
            name += 1;
        }
        let digits = usize::from(value.fract() != 0.0 && value < 99.95);
        f.pad(&format!("{value:.digits$} {}", NAMES[name]))
    }
}

impl fmt::Display for Percent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let percent = self.0 * 100.0;
        let text = match percent {
            0.0 => "0 %".to_owned(),
            p if p.abs() < 0.1 => "<0.1 %".to_owned(),
            p if p.abs() < 9.95 => format!("{p:.1} %"),
            p if p > 99.0 && p < 100.0 => format!("{:.1} %", (p * 10.0).floor() / 10.0),
            p => format!("{p:.0} %"),
        };
        f.pad(&text)
    }
}

impl Count {
    /// The count with its noun: `1 sample`, `2 samples`.
    pub fn of(self, noun: &str) -> String {
        let ending = match self.0 {
            1 => "",
            _ if noun.ends_with(['s', 'h']) => "es",
            _ => "s",
        };
        format!("{self} {noun}{ending}")
    }

    /// With a verb: `1 sample is`, `2 samples are`.
    pub fn are(self, noun: &str) -> String {
        format!("{} {}", self.of(noun), if self.0 == 1 { "is" } else { "are" })
    }

    /// In the past: `1 sample was`, `2 samples were`.
    pub fn were(self, noun: &str) -> String {
        format!("{} {}", self.of(noun), if self.0 == 1 { "was" } else { "were" })
    }
}

impl fmt::Display for Count {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let digits = self.0.to_string();
        let mut text = String::with_capacity(digits.len() + digits.len() / 3);
        for (i, digit) in digits.chars().enumerate() {
            if i > 0 && (digits.len() - i).is_multiple_of(3) {
                text.push(' ');
            }
            text.push(digit);
        }
        f.pad(&text)
    }
}

fn three_digits(value: f64) -> String {
    let digits = match value.abs() {
        v if v < 9.995 => 2,
        v if v < 99.95 => 1,
        _ => 0,
    };
    format!("{value:.digits$}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_three_digits_and_a_fitting_unit() {
        let shown =
            [0.0, 6.284, 812.0, 999.6, 1310.0, 20_400_000.0, 1.9e9, 4.2e12].map(|n| Nanos(n).to_string());
        assert_eq!(shown, ["0 ns", "6.28 ns", "812 ns", "1.00 us", "1.31 us", "20.4 ms", "1.90 s", "4200 s"]);
        assert_eq!(Seconds(0.0123).to_string(), "12.3 ms");
    }

    #[test]
    fn bytes_are_binary_and_whole_where_they_are_whole() {
        let shown = [0, 512, 640 << 10, 24 << 20, 3 << 29, u64::MAX].map(|b| Bytes(b).to_string());
        assert_eq!(shown, ["0 B", "512 B", "640 KiB", "24 MiB", "1.5 GiB", "16 EiB"]);
    }

    #[test]
    fn percent_never_rounds_to_all_or_nothing() {
        let shown = [0.0, 0.0004, 0.042, 0.451, 0.9996, 1.0].map(|p| Percent(p).to_string());
        assert_eq!(shown, ["0 %", "<0.1 %", "4.2 %", "45 %", "99.9 %", "100 %"]);
    }

    #[test]
    fn counts_are_grouped_and_padded() {
        assert_eq!(format!("{:>9}|", Count(131_134)), "  131 134|");
        assert_eq!(Count(u64::MAX).to_string(), "18 446 744 073 709 551 615");
    }

    #[test]
    fn one_thing_is_singular() {
        let said =
            [0, 1, 2000].map(|n| [Count(n).of("process"), Count(n).are("match"), Count(n).were("fault")]);
        assert_eq!(
            said.concat().join(", "),
            "0 processes, 0 matches are, 0 faults were, 1 process, 1 match is, 1 fault was, \
             2 000 processes, 2 000 matches are, 2 000 faults were"
        );
    }
}
