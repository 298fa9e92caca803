//! `faultless_policy`: the policy of a pool in C.
//!
//! In: a structure of the size that the caller was compiled with. Out: a [`Policy`], or `None` for values unknown to
//! this version.

use faultless_os::page::Order;
use faultless_pool::{Page, Policy, Prefault, Scrub, process};

/// The longest policy that will ever exist. A larger size is garbage, and reading that far would leave the caller's
/// memory.
const POLICY_BYTES: usize = 1024;
/// The value for 0, if 0 means the default.
const NOTHING: u64 = u64::MAX;

/// `faultless_watermarks`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
struct Watermarks {
    low_bytes: u64,
    high_bytes: u64,
}

/// `faultless_policy`. Members that the caller does not have are zero.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct CPolicy {
    size: usize,
    page: u32,
    page_order: u32,
    prefault: u32,
    scrub: u32,
    stock: Watermarks,
    zeroed: Watermarks,
    prewarm_bytes: u64,
    retain_bytes: u64,
    decay_ns: u64,
}

impl Watermarks {
    fn low_and_high(self) -> Option<(usize, usize)> {
        let ordered = self.low_bytes <= self.high_bytes && self.high_bytes > 0;
        ordered.then_some((bytes(self.low_bytes), bytes(self.high_bytes)))
    }
}

fn bytes(number: u64) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}

impl CPolicy {
    /// Reads as much of a policy as the caller has. `None` if the caller's policy is longer and the rest is not zero.
    ///
    /// # Safety
    /// `from` is null or points to a policy of the size that it begins with.
    pub(crate) unsafe fn read(from: *const Self) -> Option<Self> {
        let mut policy = Self::default();
        if from.is_null() {
            return Some(policy);
        }
        // SAFETY: the caller's policy begins with its size.
        let size = unsafe { from.cast::<usize>().read() };
        if !(size_of::<usize>()..=POLICY_BYTES).contains(&size) {
            return None;
        }
        let known = size.min(size_of::<Self>());
        // SAFETY: both have at least `known` bytes, and every bit pattern is a valid policy.
        unsafe { (&raw mut policy).cast::<u8>().copy_from_nonoverlapping(from.cast(), known) };
        for at in known..size {
            // SAFETY: inside the caller's policy.
            if unsafe { from.cast::<u8>().add(at).read() } != 0 {
                return None;
            }
        }
        Some(policy)
    }

    pub(crate) fn policy(self) -> Option<Policy> {
        let mut policy = process::policy();
        policy.page = self.page()?;
        policy.prefault = self.prefault()?;
        policy.scrub = self.scrub()?;
        policy.prewarm = bytes(self.prewarm_bytes);
        policy.retain.bytes = match self.retain_bytes {
            0 => policy.retain.bytes,
            NOTHING => 0,
            number => bytes(number),
        };
        policy.retain.decay_ns = match self.decay_ns {
            0 => policy.retain.decay_ns,
            NOTHING => None,
            time => Some(time),
        };
        Some(policy)
    }

    fn page(self) -> Option<Page> {
        match self.page {
            0 => Some(Page::Thp),
            1 => Some(Page::Base),
            2 => u8::try_from(self.page_order)
                .ok()
                .filter(|&order| order > 0)
                .map(|order| Page::Mthp(Order(order))),
            3 => Some(Page::Hugetlb),
            _ => None,
        }
    }

    fn prefault(self) -> Option<Prefault> {
        match self.prefault {
            0 => Some(Prefault::None),
            1 => Some(Prefault::Populate),
            2 => self.stock.low_and_high().map(|(low, high)| Prefault::Ahead { low, high }),
            _ => None,
        }
    }

    fn scrub(self) -> Option<Scrub> {
        match self.scrub {
            0 => Some(Scrub::OnGet),
            1 => Some(Scrub::OnFree),
            2 => self.zeroed.low_and_high().map(|(start, stop)| Scrub::Ahead { start, stop }),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zero_is_the_default_of_every_member() {
        assert_eq!(CPolicy::default().policy(), Some(process::policy()));
        let none = CPolicy { retain_bytes: NOTHING, decay_ns: NOTHING, ..CPolicy::default() };
        let retain = none.policy().unwrap().retain;
        assert_eq!((retain.bytes, retain.decay_ns), (0, None));
    }

    #[test]
    fn watermarks_have_an_order_and_belong_to_work_ahead_only() {
        let watermarks = |low_bytes, high_bytes| Watermarks { low_bytes, high_bytes };
        let ahead = |stock| CPolicy { prefault: 2, stock, ..CPolicy::default() }.policy();
        assert_eq!(ahead(watermarks(1, 2)).unwrap().prefault, Prefault::Ahead { low: 1, high: 2 });
        assert!(ahead(watermarks(2, 1)).is_none() && ahead(watermarks(0, 0)).is_none());
        assert!(CPolicy { stock: watermarks(2, 1), ..CPolicy::default() }.policy().is_some());
        assert!(CPolicy { scrub: 2, ..CPolicy::default() }.policy().is_none());
        assert!(CPolicy { page: 2, ..CPolicy::default() }.policy().is_none());
    }

    #[test]
    fn the_structure_is_as_long_as_the_c_compiler_makes_it() {
        // tests/abi.c prints the same size.
        assert_eq!(size_of::<CPolicy>(), 80);
    }
}
