//! From text of `/proc` and `/sys` to values.
//!
//! It does not read files.

use std::collections::BTreeMap;
use std::fmt;

/// PSI: the share of the last 10 s in which tasks waited for memory.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Pressure {
    /// Some task waited, per cent.
    pub some_avg10: f64,
}

/// One swap area.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Swap {
    /// Device or file.
    pub name: String,
    /// Size.
    pub len_bytes: u64,
    /// In use.
    pub used_bytes: u64,
}

/// The numbers at the beginning of `uname -r`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Release {
    /// 6 of 6.18.44.
    pub major: u32,
    /// 18 of 6.18.44.
    pub minor: u32,
    /// 44 of 6.18.44; 0 where there is none.
    pub patch: u32,
}

impl Release {
    /// Reads `6.18.44-fc-v657`, `6.1.0-18-amd64` or `6.9-rc1`.
    ///
    /// ```
    /// use faultless_os::host::Release;
    /// let release = Release::parse("6.18.44-fc-v657").unwrap();
    /// assert!(release.at_least(6, 4) && !release.at_least(7, 0));
    /// ```
    pub fn parse(text: &str) -> Option<Self> {
        let numbers = text.split(|c: char| c != '.' && !c.is_ascii_digit()).next()?;
        let mut numbers = numbers.split('.').filter(|part| !part.is_empty()).map(str::parse::<u32>);
        Some(Self {
            major: numbers.next()?.ok()?,
            minor: numbers.next()?.ok()?,
            patch: numbers.next().and_then(Result::ok).unwrap_or(0),
        })
    }

    /// Whether this is `major.minor` or later. Distributions backport, so "no" is weaker than "yes".
    pub fn at_least(self, major: u32, minor: u32) -> bool {
        (self.major, self.minor) >= (major, minor)
    }
}

impl fmt::Display for Release {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.major, self.minor, self.patch)
    }
}

/// The word in brackets of `always [madvise] never`; the whole text if it is one word without brackets.
///
/// ```
/// use faultless_os::host::chosen;
/// assert_eq!(chosen("always [madvise] never"), Some("madvise"));
/// ```
pub fn chosen(text: &str) -> Option<&str> {
    let bracketed = text.split_once('[').and_then(|(_, rest)| rest.split_once(']')).map(|(word, _)| word);
    let mut words = text.split_whitespace();
    let only = words.next().filter(|_| words.next().is_none());
    bracketed.or(only)
}

/// The rest of the line that begins with `name`.
pub(super) fn field<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    text.lines().find_map(|line| line.strip_prefix(name)).map(str::trim)
}

/// `MemTotal: 123 kB` in bytes.
pub(crate) fn kib(text: &str, name: &str) -> Option<u64> {
    let number = field(text, name)?.split_whitespace().next()?;
    number.parse::<u64>().ok()?.checked_mul(1024)
}

/// A limit file of a cgroup: a number, or `max` (and v1's huge number) for none.
pub(super) fn limit(text: &str) -> Option<u64> {
    // v1 prints PAGE_COUNTER_MAX in bytes, just below 2^63, for no limit.
    text.parse::<u64>().ok().filter(|bytes| *bytes < 1 << 62)
}

/// `name number` lines.
pub(super) fn counters(text: &str) -> BTreeMap<String, u64> {
    let pair = |line: &str| {
        let (name, value) = line.split_once(' ')?;
        Some((name.to_owned(), value.trim().parse().ok()?))
    };
    text.lines().filter_map(pair).collect()
}

/// `/proc/pressure/memory`.
pub(super) fn pressure(text: &str) -> Option<Pressure> {
    let avg10 = |kind| {
        let line = field(text, kind)?;
        line.split_whitespace().find_map(|word| word.strip_prefix("avg10="))?.parse().ok()
    };
    Some(Pressure { some_avg10: avg10("some ")? })
}

/// `/proc/swaps`.
pub(super) fn swaps(text: &str) -> Vec<Swap> {
    let swap = |line: &str| {
        let mut words = line.split_whitespace();
        let name = words.next()?.to_owned();
        let mut sizes = words.skip(1).filter_map(|word| word.parse::<u64>().ok());
        Some(Swap { name, len_bytes: sizes.next()? * 1024, used_bytes: sizes.next()? * 1024 })
    };
    text.lines().skip(1).filter_map(swap).collect()
}

/// `0x0007` or `7`, base 16.
pub(super) fn hex(text: &str) -> Option<u64> {
    u64::from_str_radix(text.trim_start_matches("0x"), 16).ok()
}

/// Number of processors in `0-3,8,10-11`.
pub(super) fn cpu_list(text: &str) -> Option<u32> {
    text.split(',').try_fold(0_u32, |sum, part| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last) = (first.trim().parse::<u32>().ok()?, last.trim().parse::<u32>().ok()?);
        sum.checked_add(last.checked_sub(first)?.checked_add(1)?)
    })
}

/// The value of `name=value` on a kernel command line; empty for a bare `name`. The last one counts, as in the kernel.
pub(super) fn parameter<'a>(cmdline: &'a str, name: &str) -> Option<&'a str> {
    cmdline.split_whitespace().rev().find_map(|word| match word.split_once('=') {
        Some((found, value)) if found == name => Some(value),
        None if word == name => Some(""),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn releases_of_several_distributions() {
        let of = |text| Release::parse(text).map(|r| (r.major, r.minor, r.patch));
        assert_eq!(of("6.18.44-fc-v657"), Some((6, 18, 44)));
        assert_eq!(of("5.14.0-427.el9.x86_64"), Some((5, 14, 0)));
        assert_eq!(of("6.9-rc1"), Some((6, 9, 0)));
        assert_eq!(of("5.15.146.1-microsoft-standard-WSL2"), Some((5, 15, 146)));
        assert_eq!(of("generic"), None);
        assert_eq!(of(""), None);
    }

    #[test]
    fn chosen_word_needs_brackets_or_solitude() {
        assert_eq!(chosen("[always] madvise never"), Some("always"));
        assert_eq!(chosen("never"), Some("never"));
        assert_eq!(chosen("a b"), None);
        assert_eq!(chosen(""), None);
    }

    #[test]
    fn pressure_of_one_machine() {
        let text = "some avg10=1.25 avg60=0.50 avg300=0.00 total=9\nfull avg10=0.75 avg60=0 avg300=0 total=3";
        assert_eq!(pressure(text), Some(Pressure { some_avg10: 1.25 }));
        assert_eq!(pressure("nonsense"), None);
    }

    #[test]
    fn swaps_with_and_without_devices() {
        let text = "Filename\tType\t\tSize\tUsed\tPriority\n/dev/dm-1  partition\t1000\t24\t-2";
        assert_eq!(
            swaps(text),
            [Swap { name: "/dev/dm-1".into(), len_bytes: 1_024_000, used_bytes: 24 * 1024 }]
        );
        assert!(swaps("Filename\tType").is_empty());
    }

    #[test]
    fn no_limit_is_none_in_both_cgroup_versions() {
        assert_eq!(limit("max"), None);
        assert_eq!(limit("9223372036854771712"), None);
        assert_eq!(limit("1073741824"), Some(1 << 30));
    }

    #[test]
    fn processors_are_counted_in_ranges() {
        assert_eq!(cpu_list("0-3,8,10-11"), Some(7));
        assert_eq!(cpu_list("0"), Some(1));
        assert_eq!(cpu_list("3-1"), None);
        assert_eq!(cpu_list(""), None);
    }

    #[test]
    fn last_boot_parameter_wins() {
        assert_eq!(parameter("quiet init_on_alloc=1 x init_on_alloc=0", "init_on_alloc"), Some("0"));
        assert_eq!(parameter("quiet nopti", "nopti"), Some(""));
        assert_eq!(parameter("xnopti", "nopti"), None);
    }

    #[test]
    fn counters_skip_lines_without_numbers() {
        let found = counters("pgfault 12\nbroken\nthp_fault_alloc 3");
        assert_eq!(found.get("pgfault"), Some(&12));
        assert_eq!(found.len(), 2);
    }

    #[test]
    fn kibibytes_become_bytes() {
        assert_eq!(kib("MemTotal:  24 kB\nMemFree: 1 kB", "MemTotal:"), Some(24 * 1024));
        assert_eq!(kib("MemTotal:  x kB", "MemTotal:"), None);
    }
}
