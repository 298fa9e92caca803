//! Guest-warm memory before each run of a comparison.
//!
//! In a virtual machine whose host takes free memory back, the next touch of a page costs several faults, and
//! the arm that runs next pays. Before each run, this module touches as much memory as the program needs and
//! frees it. All arms then pay for the guest's fault only.

use faultless_os::host::Memory;
use faultless_os::touch::{Advice, Region};

/// Warm the largest resident set seen so far times this factor ...
const HEADROOM: f64 = 1.25;
/// ... plus this many bytes, for the page cache and the pool's slabs ...
const EXTRA_BYTES: usize = 64 << 20;
/// ... but at most this share of the free memory.
const FREE_SHARE: f64 = 0.5;

/// The amount to warm, learnt from the runs.
pub(crate) struct Warm {
    virtual_machine: bool,
    need_bytes: usize,
}

impl Warm {
    /// Acts only in a virtual machine.
    pub(crate) fn new(virtual_machine: bool) -> Self {
        Self { virtual_machine, need_bytes: 0 }
    }

    /// Takes the peak of a run.
    pub(crate) fn learn(&mut self, peak_rss_bytes: u64) {
        let need = peak_rss_bytes as f64 * HEADROOM;
        self.need_bytes = self.need_bytes.max(need as usize + EXTRA_BYTES);
    }

    /// Touches that much memory and frees it. If the kernel refuses, runs are not warmed, and the rounds
    /// average the effect.
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
