//! Zeroing a dirty block for `alloc_zeroed`.
//!
//! In: a block that was just taken. Out: zeroes, by overwriting or by purging. Purging costs less if the program will
//! touch little of the block; `sparsity` estimates that.

use crate::backend::{Backend, Span};
use crate::class::{Run, pieces, run, runs};
use crate::pool::Pool;
use crate::tuning::SLAB_GRANULES;

impl<B: Backend> Pool<B> {
    /// Zeroes the granules of a block that were dirty when it was taken. Returns whether some are not resident then.
    /// `None` while this thread holds the pool for `fork`.
    pub(super) fn clear(&self, block: Run) -> Option<bool> {
        let sparse = self.core.lock()?.sparsity.is_sparse(block.1);
        let mut purged = false;
        for (slab, first, len) in pieces(block) {
            let dirty = self.core.lock()?.slabs.slab(slab).taken_dirty(run(first, len));
            for (at, len) in runs(dirty) {
                purged |= self.clear_run((slab * SLAB_GRANULES + at, len), sparse)?;
            }
        }
        Some(purged)
    }

    /// Zeroes a run inside one slab. Returns true if it purged the run instead of overwriting it. Only whole slabs are
    /// purged, so that no THP is split.
    fn clear_run(&self, run: Run, sparse: bool) -> Option<bool> {
        let (granules, span) = (run.1, Span::of(run));
        let purged = sparse && granules == SLAB_GRANULES && self.backend.purge(span).is_ok();
        if !purged {
            self.backend.zero(span);
        }
        let mut core = self.core.lock()?;
        if purged {
            core.stats.renewed_bytes += span.len as u64;
        } else {
            core.stats.cleared_bytes += span.len as u64;
        }
        Some(purged)
    }
}
