//! Guest-warm memory before each run of a comparison.
//!
//! In a virtual machine whose host takes free memory back, the next touch of a page costs several times a fault, and
//! falls on whichever arm runs next. Touching as much as the program needs, and giving it back, right before each run
//! makes all arms pay for the guest's fault alone.

use faultless_os::host::Memory;
use faultless_os::touch::{Advice, Region};

/// More than the largest resident set seen so far by this factor ...
const HEADROOM: f64 = 1.25;
/// ... and by so many bytes, for the page cache and the pool's slabs.
const EXTRA_BYTES: usize = 64 << 20;
/// Never more than this share of the memory that is free.
const FREE_SHARE: f64 = 0.5;

/// How much to warm, learnt from the runs.
pub(crate) struct Warm {
    virtual_machine: bool,
    need_bytes: usize,
}

impl Warm {
    /// Does something only in a virtual machine.
    pub(crate) fn new(virtual_machine: bool) -> Self {
        Self { virtual_machine, need_bytes: 0 }
    }

    /// A run has had this peak.
    pub(crate) fn learn(&mut self, peak_rss_bytes: u64) {
        let need = peak_rss_bytes as f64 * HEADROOM;
        self.need_bytes = self.need_bytes.max(need as usize + EXTRA_BYTES);
    }

    /// Touches that much and gives it back. Where the kernel refuses, runs are not warmed; the rounds average it out.
    pub(crate) fn touch(&self) {
        if !self.virtual_machine {
            return;
        }
        let free = Memory::now().available_bytes.unwrap_or(0) as f64 * FREE_SHARE;
        let len = self.need_bytes.min(free as usize);
        if let Ok(mut region) = Region::new(len, faultless_os::page::size()) {
            let _ = region.advise(0..region.len_bytes(), Advice::HugePage);
            region.touch_write(faultless_os::page::size());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_run_decides_and_bare_metal_needs_nothing() {
        let mut warm = Warm::new(false);
        warm.learn(100 << 20);
        warm.learn(10 << 20);
        assert_eq!(warm.need_bytes, (125 << 20) + EXTRA_BYTES);
        warm.touch();
        assert!(Memory::now().available_bytes.is_some_and(|bytes| bytes > 1 << 20));
    }
}
