//! What of large blocks was ever touched, and what follows for `alloc_zeroed`.
//!
//! In: a large block, part of which was not resident when it was taken. Out: what was touched of it is Dirty, the rest is
//! Reserved again; and a dirty block that is to be zero is zeroed, or its pages are given back. The latter costs less if
//! the program will touch little of it: so thinks who saw that of earlier blocks of about that length, and has measured both
//! prices. Pages are counted as the kernel maps them, so one touch of a THP is a touch of all of it. A slab that was hardly
//! touched goes back whole, and takes base pages from then on.
//!
//! What it does not do: look at blocks that were wholly resident; of those nobody can tell.

use crate::backend::Backend;
use crate::class::{run, runs};
use crate::core::Run;
use crate::discover::is_dense;
use crate::lists::Lists;
use crate::policy::tuning::{GAP_GRANULES, GRANULE_BYTES, SLAB_GRANULES, SPARSE_GRANULES, SPARSE_SHARE};
use crate::pool::{Pool, span};

/// Sizes by the power of two.
const CLASSES: usize = 32;
/// All of a block was touched.
const ALL: u32 = 1 << 8;

/// What was seen so far.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Touch {
    /// Share of blocks that was touched, of 256, by the log2 of their length.
    shares: [u32; CLASSES],
    /// Nanoseconds per granule: of zeroing, of giving back. 0: never measured.
    zero_ns: u64,
    purge_ns: u64,
}

impl Touch {
    pub(crate) const fn new() -> Self {
        Self { shares: [ALL; CLASSES], zero_ns: 0, purge_ns: 0 }
    }

    /// A block of `count` granules ended, `touched` of which were.
    fn saw(&mut self, count: usize, touched: usize) {
        if let Some(share) = self.shares.get_mut(count.ilog2() as usize) {
            let new = (touched * ALL as usize / count) as u32;
            // The last few decide: a program changes its ways between phases.
            *share = (*share + new) / 2;
        }
    }

    /// Whether it costs less to give the pages of so long a dirty block back than to zero them.
    fn is_sparse(&self, count: usize) -> bool {
        let share = self.shares.get(count.checked_ilog2().unwrap_or(0) as usize).copied().unwrap_or(ALL);
        let cheaper = self.purge_ns == 0 || self.zero_ns == 0 || self.purge_ns * 2 < self.zero_ns;
        count >= SPARSE_GRANULES && (share as usize) < ALL as usize / SPARSE_SHARE && cheaper
    }

    fn price(&mut self, purged: bool, granules: usize, ns: u64) {
        if granules >= SLAB_GRANULES {
            let price = if purged { &mut self.purge_ns } else { &mut self.zero_ns };
            let new = (ns / granules as u64).max(1);
            *price = if *price == 0 { new } else { (*price + new) / 2 };
        }
    }
}

impl<B: Backend> Pool<B> {
    /// Takes a block back of which perhaps not all was touched.
    #[cold]
    pub(crate) fn give_checked(&self, (start, count): Run) {
        self.blocks.clear(start);
        let touched = self.give_touched((start, count));
        if let Some(mut core) = self.core.lock() {
            core.touch.saw(count, touched);
        }
    }

    /// Gives back what is no longer used and where no block begins: what was touched as dirty memory, the rest to the kernel;
    /// how much was touched. Without effect while this thread holds the pool for `fork`.
    pub(crate) fn give_touched(&self, (start, count): Run) -> usize {
        let mut touched = 0;
        let mut at = start;
        let end = start + count;
        while at < end {
            let (run_end, mut resident) = self.alike(at, end);
            // A page that was swapped out is not resident either: only after this call all of it reads as zero for sure.
            resident = resident || self.backend.purge(span((at, run_end - at))).is_err();
            if resident {
                self.wipe((at, run_end - at));
            }
            let Some(mut core) = self.core.lock() else { return touched };
            core.give((at, run_end - at), !resident);
            match resident {
                true => touched += run_end - at,
                false => core.stats.untouched_bytes += ((run_end - at) * GRANULE_BYTES) as u64,
            }
            self.gave(core, (at, run_end - at));
            at = run_end;
        }
        if touched < count && !self.is_roomy() {
            self.give_up_holes();
        }
        touched
    }

    /// How far the granules from `at` on are all touched, or all not, and which.
    fn alike(&self, at: usize, end: usize) -> (usize, bool) {
        let mut kind = None;
        for (slab, first, len) in Lists::<B::Slabs, B::Words>::pieces(at, end - at) {
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

    /// The granules of a run inside one slab that were touched; none where that is so little that it is better given back than kept, or
    /// made resident as a whole by whoever zeroes it. The slab remembers which.
    fn worth_keeping(&self, run: Run) -> u128 {
        let (found, len) = (self.backend.touched(span(run)), span(run).len);
        let is_sparse = found.bytes * SPARSE_SHARE < len;
        if found.bytes > 0
            && (is_sparse || is_dense(found.bytes, len))
            && 2 * run.1 >= SLAB_GRANULES
            && let Some(mut core) = self.core.lock()
        {
            core.lists.slab_mut(run.0 / SLAB_GRANULES).sparse = is_sparse;
        }
        if is_sparse { 0 } else { found.granules }
    }

    /// Makes the granules of a block zero that were dirty when it was taken; whether some are not resident then. `None`
    /// while this thread holds the pool for `fork`.
    pub(crate) fn clear(&self, (start, count): Run) -> Option<bool> {
        let sparse = self.core.lock()?.touch.is_sparse(count);
        let mut purged = false;
        for (slab, first, len) in Lists::<B::Slabs, B::Words>::pieces(start, count) {
            let dirty = self.core.lock()?.lists.slab(slab).taken_dirty(run(first, len));
            for (at, len) in runs(dirty) {
                purged |= self.clear_run((slab * SLAB_GRANULES + at, len), sparse)?;
            }
        }
        Some(purged)
    }

    /// Makes a run inside one slab zero; whether by giving it back, which is for whole slabs only, lest a THP be split.
    fn clear_run(&self, run: Run, sparse: bool) -> Option<bool> {
        let (granules, span) = (run.1, span(run));
        let begin = self.backend.now();
        let purged = sparse && granules == SLAB_GRANULES && self.backend.purge(span).is_ok();
        if !purged {
            self.backend.zero(span);
        }
        let ns = self.backend.now().saturating_sub(begin);
        let mut core = self.core.lock()?;
        core.touch.price(purged, granules, ns);
        match purged {
            true => core.stats.renewed_bytes += span.len as u64,
            false => core.stats.cleared_bytes += span.len as u64,
        }
        Some(purged)
    }
}

/// What was touched, and what lies between and is too short to be told apart.
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

    #[test]
    fn a_length_is_sparse_after_blocks_that_were_hardly_touched() {
        let mut touch = Touch::new();
        assert!(!touch.is_sparse(1024), "nothing was seen yet");
        touch.saw(1024, 0);
        assert!(!touch.is_sparse(1024), "one block may be a chance");
        touch.saw(1024, 10);
        touch.saw(1500, 10);
        assert!(touch.is_sparse(1024));
        assert!(!touch.is_sparse(4096), "another length");
        touch.saw(1024, 1024);
        assert!(!touch.is_sparse(1024));
    }

    #[test]
    fn giving_back_must_be_cheaper_than_zeroing() {
        let mut touch = Touch::new();
        (0..5).for_each(|_| touch.saw(1024, 0));
        touch.price(false, 128, 128 * 500);
        touch.price(true, 128, 128 * 400);
        assert!(!touch.is_sparse(1024));
        (0..9).for_each(|_| touch.price(true, 128, 128 * 80));
        assert!(touch.is_sparse(1024));
    }
}
