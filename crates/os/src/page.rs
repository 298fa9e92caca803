//! Page sizes of this machine, and orders: log2 of base pages.
//!
//! In: nothing, or a length. Out: sizes in bytes.

use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// The base page size in bytes, `sysconf(_SC_PAGESIZE)`; asked once.
pub fn size() -> usize {
    static SIZE: AtomicUsize = AtomicUsize::new(0);
    match SIZE.load(Relaxed) {
        0 => {
            // SAFETY: sysconf has no preconditions; _SC_PAGESIZE is always supported (POSIX).
            let size = unsafe { libc::sysconf(libc::_SC_PAGESIZE) } as usize;
            SIZE.store(size, Relaxed);
            size
        }
        size => size,
    }
}

/// `len` rounded up to whole base pages.
pub(crate) fn round_up(len: usize) -> usize {
    // A power of two; `next_multiple_of` would bring a panic for 0 into the interposer.
    (len + size() - 1) & !(size() - 1)
}

/// log2 of base pages: `Order(9)` is 2 MiB on 4 KiB pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Order(pub u8);

impl Order {
    /// The size of a block of this order.
    pub fn len_bytes(self) -> usize {
        size() << self.0
    }
}

/// A length printed in the largest binary unit that divides it, else with one decimal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Bytes(pub(crate) usize);

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const UNITS: [(&str, u32); 4] = [("TiB", 40), ("GiB", 30), ("MiB", 20), ("KiB", 10)];
        for (name, bits) in UNITS {
            let unit = 1_usize << bits;
            if self.0 >= unit {
                return match self.0 % unit {
                    0 => write!(f, "{} {name}", self.0 / unit),
                    _ => write!(f, "{:.1} {name}", self.0 as f64 / unit as f64),
                };
            }
        }
        write!(f, "{} B", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounds_up_to_whole_pages() {
        assert_eq!(round_up(1), size());
        assert_eq!(round_up(size()), size());
    }

    #[test]
    fn prints_binary_units() {
        assert_eq!(Bytes(640 << 10).to_string(), "640 KiB");
        assert_eq!(Bytes(3 << 19).to_string(), "1.5 MiB");
        assert_eq!(Bytes(7).to_string(), "7 B");
    }
}
