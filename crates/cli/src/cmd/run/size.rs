//! Sizes, pairs of sizes and the decay time, as people write them.
//!
//! In: a word. Out: bytes or milliseconds, or one line that names the expected form.

use std::time::Duration;

use faultless_console::span;
use faultless_pool::tuning;

/// A size in bytes, or with one of the suffixes K, M, G, T.
pub(crate) fn size(text: &str) -> Result<u64, String> {
    let bare = text.strip_suffix("iB").or_else(|| text.strip_suffix('B')).unwrap_or(text);
    let (number, shift) = match bare.chars().last().map(|unit| unit.to_ascii_uppercase()) {
        Some('K') => (&bare[..bare.len() - 1], 10),
        Some('M') => (&bare[..bare.len() - 1], 20),
        Some('G') => (&bare[..bare.len() - 1], 30),
        Some('T') => (&bare[..bare.len() - 1], 40),
        _ => (bare, 0),
    };
    let number: u64 = number.parse().map_err(|_| "expected a size such as 65536, 64K or 2G".to_string())?;
    number.checked_mul(1 << shift).ok_or_else(|| "too large".to_string())
}

/// A size of at least a granule.
pub(super) fn threshold(text: &str) -> Result<u64, String> {
    let least = tuning::GRANULE_BYTES as u64;
    size(text).and_then(|bytes| if bytes < least { Err("the least is 16K".into()) } else { Ok(bytes) })
}

/// Two watermarks: filling begins below the low one and ends at the high one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Marks {
    pub(super) low: u64,
    pub(super) high: u64,
}

/// `64M-256M`.
pub(super) fn marks(text: &str) -> Result<Marks, String> {
    let (low, high) = text.split_once('-').ok_or("expected two sizes, such as 64M-256M")?;
    let marks = Marks { low: size(low)?, high: size(high)? };
    if marks.low > 0 && marks.low <= marks.high {
        Ok(marks)
    } else {
        Err("the first size is where filling begins: more than 0, and at most the second".into())
    }
}

/// The decay time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Decay {
    Never,
    After(Duration),
}

/// `200ms`, `1s` or `never`.
pub(super) fn decay(text: &str) -> Result<Decay, String> {
    if text == "never" {
        return Ok(Decay::Never);
    }
    span(text).map(Decay::After).map_err(|expected| expected + ", or never")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_take_binary_suffixes_and_nothing_else() {
        assert_eq!(size("0"), Ok(0));
        assert_eq!(size("64K"), Ok(65536));
        assert_eq!(size("2GiB"), Ok(2 << 30));
        assert!(["", "K", "-1", "1.5G", "12X", "99999999999T"].iter().all(|text| size(text).is_err()));
        assert!(threshold("8K").is_err());
    }

    #[test]
    fn watermarks_are_two_sizes_in_order() {
        assert_eq!(marks("64K-1M"), Ok(Marks { low: 65536, high: 1 << 20 }));
        assert!(["", "64M", "2M-1M", "0-1M", "-1M", "1M-"].iter().all(|text| marks(text).is_err()));
    }

    #[test]
    fn times_have_a_unit() {
        assert_eq!(decay("200ms"), Ok(Decay::After(Duration::from_millis(200))));
        assert_eq!(decay("10s"), Ok(Decay::After(Duration::from_secs(10))));
        assert_eq!(decay("never"), Ok(Decay::Never));
        assert!(["", "1", "s", "ms", "-1s", "1.5s", "1m"].iter().all(|text| decay(text).is_err()));
    }
}
