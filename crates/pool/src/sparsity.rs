//! Whether programs touch all of their large blocks, and what follows for `alloc_zeroed`.
//!
//! In: how much of each large block was touched when it ended; how long zeroing and purging took. Out: whether to zero
//! a dirty block or to purge it. Purging costs less if the program will touch little of the block. The estimate comes
//! from earlier blocks of about the same length, and both prices are measured. Pure.
//!
//! Pages count as the kernel maps them: one touch of a huge page counts as a touch of all of it.

use crate::tuning::{SLAB_GRANULES, SPARSE_GRANULES, SPARSE_SHARE};

/// Length classes, by the power of two.
const CLASSES: usize = 32;
/// The share of a block that was touched throughout.
const ALL: u32 = 1 << 8;

/// The shares touched of earlier blocks, and the prices of zeroing and purging.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sparsity {
    /// The share touched, of 256, by the log2 of the length.
    shares: [u32; CLASSES],
    /// Nanoseconds per granule of zeroing; 0 before the first measurement.
    zero_ns: u64,
    /// The same of purging.
    purge_ns: u64,
}

impl Sparsity {
    pub(crate) const fn new() -> Self {
        Self { shares: [ALL; CLASSES], zero_ns: 0, purge_ns: 0 }
    }

    /// Records that a block of `count` granules ended, `touched` of them touched.
    pub(crate) fn record(&mut self, count: usize, touched: usize) {
        if let Some(share) = self.shares.get_mut(count.ilog2() as usize) {
            let new = (touched * ALL as usize / count) as u32;
            // Recent blocks weigh most: a program behaves differently in each phase.
            *share = (*share + new) / 2;
        }
    }

    /// Whether purging a dirty block of this length costs less than zeroing it.
    pub(crate) fn is_sparse(&self, count: usize) -> bool {
        let cheaper = self.purge_ns == 0 || self.zero_ns == 0 || self.purge_ns * 2 < self.zero_ns;
        self.is_hardly_touched(count) && cheaper
    }

    /// Whether the last blocks of about this length were hardly touched.
    pub(crate) fn is_hardly_touched(&self, count: usize) -> bool {
        let share = self.shares.get(count.checked_ilog2().unwrap_or(0) as usize).copied().unwrap_or(ALL);
        count >= SPARSE_GRANULES && (share as usize) < ALL as usize / SPARSE_SHARE
    }

    /// Records how long it took to purge, or else to zero, a run. Short runs are no measurement.
    pub(crate) fn price(&mut self, purged: bool, granules: usize, ns: u64) {
        if granules >= SLAB_GRANULES {
            let price = if purged { &mut self.purge_ns } else { &mut self.zero_ns };
            let new = (ns / granules as u64).max(1);
            *price = if *price == 0 { new } else { (*price + new) / 2 };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_length_is_sparse_after_blocks_that_were_hardly_touched() {
        let mut sparsity = Sparsity::new();
        assert!(!sparsity.is_sparse(1024), "nothing was seen yet");
        sparsity.record(1024, 0);
        assert!(!sparsity.is_sparse(1024), "one block may be a chance");
        sparsity.record(1024, 10);
        sparsity.record(1500, 10);
        assert!(sparsity.is_sparse(1024));
        assert!(!sparsity.is_sparse(4096), "another length");
        sparsity.record(1024, 1024);
        assert!(!sparsity.is_sparse(1024));
    }

    #[test]
    fn purging_must_be_cheaper_than_zeroing() {
        let mut sparsity = Sparsity::new();
        (0..5).for_each(|_| sparsity.record(1024, 0));
        sparsity.price(false, 128, 128 * 500);
        sparsity.price(true, 128, 128 * 400);
        assert!(!sparsity.is_sparse(1024));
        (0..9).for_each(|_| sparsity.price(true, 128, 128 * 80));
        assert!(sparsity.is_sparse(1024));
    }
}
