//! Doubt: fresh memory that the program was given and may not have touched yet.
//!
//! In: runs that were not resident when they were handed out; later, how much of them is still untouched. Out: the
//! granules to leave out of what the program needed. A vector that grows frees its old half while the new half is
//! untouched. Counted as needed, that half would let the pool keep the old one, and the program would have more memory
//! than with any other malloc. Pure.

use crate::class::Run;
use crate::tuning::DOUBT_SHARE;

/// Runs in doubt at a time. The oldest gives way, and counts as touched. With 4, ten vectors that grow in turn had a
/// fifth more memory at the peak than with glibc; each run costs a `free` of a large block up to 8 residency checks.
const RUNS: usize = 16;

/// The runs in doubt.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Doubts {
    /// Each run, and its untouched granules; 0 if there is no doubt.
    runs: [(Run, usize); RUNS],
    /// The entry that gives way next.
    oldest: usize,
}

impl Doubts {
    pub(crate) const NONE: Self = Self { runs: [((0, 0), 0); RUNS], oldest: 0 };

    /// Records a run that was handed out and is not resident.
    pub(crate) fn enter(&mut self, run: Run) {
        if let Some(entry) = self.runs.get_mut(self.oldest) {
            *entry = (run, run.1);
        }
        self.oldest = (self.oldest + 1) % RUNS;
    }

    /// The granules that count as untouched.
    pub(crate) fn untouched(&self) -> usize {
        self.runs.iter().map(|(_, untouched)| untouched).sum()
    }

    /// The runs to look at.
    pub(crate) fn runs(self) -> impl Iterator<Item = Run> {
        self.runs.into_iter().filter(|&(_, untouched)| untouched > 0).map(|(run, _)| run)
    }

    /// Records that so many granules of a run are untouched. Few are no doubt.
    pub(crate) fn settle(&mut self, run: Run, untouched: usize) {
        let untouched = if untouched < run.1 / DOUBT_SHARE { 0 } else { untouched };
        self.runs.iter_mut().filter(|(other, _)| *other == run).for_each(|entry| entry.1 = untouched);
    }

    /// Records that a run is free, or moved.
    pub(crate) fn end(&mut self, (start, count): Run) {
        let overlaps = |&&mut ((at, len), _): &&mut (Run, usize)| at < start + count && start < at + len;
        self.runs.iter_mut().filter(overlaps).for_each(|entry| entry.1 = 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_found_touched_is_no_doubt() {
        let mut doubts = Doubts::NONE;
        doubts.enter((0, 100));
        doubts.enter((100, 800));
        assert_eq!((doubts.untouched(), doubts.runs().count()), (900, 2));
        doubts.settle((100, 800), 400);
        doubts.settle((0, 100), 3);
        assert_eq!((doubts.untouched(), doubts.runs().next()), (400, Some((100, 800))));
        doubts.end((850, 20));
        assert_eq!((doubts.untouched(), doubts.runs().next()), (0, None));
    }

    #[test]
    fn the_oldest_gives_way() {
        let mut doubts = Doubts::NONE;
        (0..=RUNS).for_each(|at| doubts.enter((at * 10, 10)));
        assert_eq!(doubts.untouched(), 10 * RUNS);
        assert!(doubts.runs().all(|run| run != (0, 10)));
    }
}
