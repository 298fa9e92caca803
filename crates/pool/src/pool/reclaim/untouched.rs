//! Untouched memory: pages of large blocks that the program never touched go back when the block ends.
//!
//! In: a large block that was partly not resident when it was taken. Out: its touched granules become Dirty, the others
//! Reserved. A slab that was hardly touched goes back whole, and takes base pages from then on.
//!
//! Out of scope: blocks that were wholly resident. Their residency tells nothing about touches.

use crate::backend::{Backend, Span};
use crate::class::{Run, pieces, run, runs};
use crate::density::is_dense;
use crate::pool::Pool;
use crate::tuning::{GAP_GRANULES, GRANULE_BYTES, SAMPLES, SLAB_GRANULES, SPARSE_GRANULES, SPARSE_SHARE};

impl<B: Backend> Pool<B> {
    /// Whether to look up the residency of memory that is about to be freed.
    #[inline]
    pub(in crate::pool) fn needs_inspection(&self, fresh: bool, count: usize) -> bool {
        fresh && count >= SPARSE_GRANULES
    }

    /// Looks how much of the memory in doubt is still untouched. A run that is about to be freed is in doubt no more.
    #[cold]
    pub(in crate::pool) fn settle_doubts(&self, freed: Run) {
        let Some(mut core) = self.core.lock() else { return };
        core.doubts.end(freed);
        let doubts = core.doubts;
        drop(core);
        for run in doubts.runs() {
            let untouched = self.untouched(run);
            if let Some(mut core) = self.core.lock() {
                core.doubts.settle(run, untouched);
            }
        }
    }

    /// The untouched granules of a run, judged by a few of its slabs.
    fn untouched(&self, run: Run) -> usize {
        let step = pieces(run).count().div_ceil(SAMPLES).max(1);
        let samples = pieces(run).step_by(step).map(|(slab, first, len)| {
            let span = Span::of((slab * SLAB_GRANULES + first, len));
            (self.backend.resident_bytes(span), span.len)
        });
        let (resident, all) = samples.fold((0, 0), |sum, next| (sum.0 + next.0, sum.1 + next.1));
        run.1 - run.1 * resident / all.max(1)
    }

    /// Frees a block that was not wholly resident when it was taken.
    #[cold]
    pub(in crate::pool) fn free_fresh(&self, (start, count): Run) {
        self.blocks.clear(start);
        self.settle_doubts((start, count));
        let touched = self.free_by_residency((start, count));
        if let Some(mut core) = self.core.lock() {
            core.sparsity.record(count, touched);
        }
    }

    /// Frees a run in which no block begins: touched granules become dirty memory, the others go back to the kernel.
    /// Returns the number of touched granules. Without effect while this thread holds the pool for `fork`.
    pub(in crate::pool) fn free_by_residency(&self, (start, count): Run) -> usize {
        let mut touched = 0;
        let mut at = start;
        let end = start + count;
        let uniform = self.is_uniform((start, count));
        while at < end {
            let (run_end, mut resident) =
                uniform.map_or_else(|| self.uniform_run(at, end), |kind| (end, kind));
            // A page that was swapped out is not resident either. Only purging makes the whole run read as zero.
            resident = resident || self.backend.purge(Span::of((at, run_end - at))).is_err();
            if resident {
                self.wipe((at, run_end - at));
            }
            let Some(mut core) = self.core.lock() else { return touched };
            core.give((at, run_end - at), !resident);
            if resident {
                touched += run_end - at;
            } else {
                core.stats.untouched_bytes += ((run_end - at) * GRANULE_BYTES) as u64;
            }
            self.after_free(core);
            at = run_end;
        }
        if touched < count && !self.addresses_are_free() {
            self.release_holes();
        }
        touched
    }

    /// Whether all of a long run is touched, or none of it worth keeping, judged by a few of its slabs; `None` if these
    /// differ. A block of any size costs a few calls then: otherwise one per slab, of which a good part is touched.
    fn is_uniform(&self, (start, count): Run) -> Option<bool> {
        let (first, end) = (start.div_ceil(SLAB_GRANULES), (start + count) / SLAB_GRANULES);
        let step = end.saturating_sub(first) / SAMPLES;
        if step < 2 {
            return None;
        }
        let samples = (0..SAMPLES).map(|at| first + at * step).chain([end - 1]);
        let mut kinds = samples.map(|slab| {
            let touched = self.worth_keeping((slab * SLAB_GRANULES, SLAB_GRANULES));
            match without_short_gaps(touched, SLAB_GRANULES) {
                0 => Some(false),
                u128::MAX => Some(true),
                _ => None,
            }
        });
        let kind = kinds.next().flatten()?;
        kinds.all(|other| other == Some(kind)).then_some(kind)
    }

    /// The end of the granules from `at` on that are all touched, or all untouched; and which.
    fn uniform_run(&self, at: usize, end: usize) -> (usize, bool) {
        let mut kind = None;
        for (slab, first, len) in pieces((at, end - at)) {
            let begin = slab * SLAB_GRANULES + first;
            let touched = without_short_gaps(self.worth_keeping((begin, len)), len);
            let resident = *kind.get_or_insert(touched & 1 == 1);
            let same = if resident { touched.trailing_ones() } else { touched.trailing_zeros() } as usize;
            if same < len {
                return (begin + same, resident);
            }
        }
        (end, kind.unwrap_or(true))
    }

    /// The touched granules of a run inside one slab; none if these are so few that purging all of the run is better.
    /// Records in the slab whether it is sparse.
    fn worth_keeping(&self, run: Run) -> u128 {
        let (found, len) = (self.backend.residency(Span::of(run)), Span::of(run).len);
        let is_sparse = found.bytes * SPARSE_SHARE < len;
        if found.bytes > 0
            && (is_sparse || is_dense(found.bytes, len))
            && 2 * run.1 >= SLAB_GRANULES
            && let Some(mut core) = self.core.lock()
        {
            core.slabs.slab_mut(run.0 / SLAB_GRANULES).sparse = is_sparse;
        }
        if is_sparse { 0 } else { found.granules }
    }
}

/// The touched granules, and gaps between them that are too short to purge.
fn without_short_gaps(touched: u128, len: usize) -> u128 {
    let gaps = runs(!touched & run(0, len)).filter(|&(_, count)| count >= GAP_GRANULES);
    gaps.fold(run(0, len), |all, (first, count)| all & !run(first, count))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_long_gaps_were_never_touched() {
        let touched = run(0, 1) | run(GAP_GRANULES, 1) | run(3 * GAP_GRANULES, 2);
        let gap = run(GAP_GRANULES + 1, 2 * GAP_GRANULES - 1);
        assert_eq!(without_short_gaps(touched, 3 * GAP_GRANULES + 2), run(0, 3 * GAP_GRANULES + 2) & !gap);
        assert_eq!(without_short_gaps(0, 128), 0);
        assert_eq!(without_short_gaps(u128::MAX, 128), u128::MAX);
    }
}
