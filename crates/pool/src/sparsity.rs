//! Whether programs touch all of their large blocks, and what follows for `alloc_zeroed`.
//!
//! In: how much of each large block was touched when it ended. Out: whether to zero a dirty block or to purge it. Purging
//! costs less if the program will touch little of the block. The estimate comes from earlier blocks of about the same
//! length. Pure: nothing is timed, because a sandbox may forbid the clock.
//!
//! Pages count as the kernel maps them: one touch of a huge page counts as a touch of all of it.

use crate::tuning::{SPARSE_GRANULES, SPARSE_SHARE};

/// Length classes, by the power of two.
const CLASSES: usize = 32;
/// The share of a block that was touched throughout.
const ALL: u32 = 1 << 8;

/// The shares touched of earlier blocks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sparsity {
    /// The share touched, of 256, by the log2 of the length.
    shares: [u32; CLASSES],
}

impl Sparsity {
    pub(crate) const fn new() -> Self {
        Self { shares: [ALL; CLASSES] }
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
        let share = self.shares.get(count.checked_ilog2().unwrap_or(0) as usize).copied().unwrap_or(ALL);
        count >= SPARSE_GRANULES && (share as usize) < ALL as usize / SPARSE_SHARE
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
}
