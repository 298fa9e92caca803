//! Density: huge pages for memory that a program touches densely, base pages for the rest.
//!
//! In: slabs that are handed out for the first time, and the residency of single slabs. Out: which slabs to advise. A
//! huge page makes 2 MiB resident for one touch, and afterwards its residency no longer tells how much was touched. So
//! only a first window of an extent (a run of new slabs) takes huge pages on trust. One slab in the middle of the
//! window, the probe, keeps base pages. Once the probe is dense, the next window follows: four times as long as the
//! dense part, at least 64 MiB. If the program skips the probe, the rest of the extent keeps base pages and the window
//! loses its advice.
//!
//! ```text
//! begin       confirmed          probe        decided = horizon             end
//!   | huge, dense |  huge, on trust  | base |  huge, on trust | base, waiting |
//! ```
//! Trust is limited. The slabs that took huge pages in undecided and sparse extents count against the first window of
//! the next extent, except for an eighth of all dense slabs. Once the trust is used up, an extent begins with a probe.
//! So a thousand sparse blocks waste no more than the first ones.
//!
//! A program that fills an extent from front to back takes base pages for at most one slab in 4, 36, 180 and so on. A
//! program that touches single pages pays for the first window: 8 MiB. Slabs whose pages went back to the kernel are new
//! again, so evidence does not outlive the memory.
//!
//! Out of scope: system calls. The callers of [`Density::step`] make them outside the lock. Repeating a step is
//! harmless.

use core::mem::take;

use crate::tuning::{
    DENSE_SHARE, HEAD_SLABS, PROVEN_SHARE, SAMPLES, TRUST_SLABS, WINDOW_FACTOR, WINDOW_SLABS_MIN,
};

/// Extents tracked at a time. The oldest gives way and keeps its pages.
const EXTENTS: usize = 8;

/// Slabs of base pages after a sparse extent before small blocks may begin a new one. A wrong window makes 4 slabs
/// resident, which is then an eighth.
const CHANCE_SLABS: usize = 8 * TRUST_SLABS;
/// Slabs of a block that begins a new extent after a sparse one.
const LARGE_SLABS: usize = 8;

/// Whether nearly all of `len` bytes is resident.
pub(crate) fn is_dense(resident: usize, len: usize) -> bool {
    resident >= len - len / DENSE_SHARE
}

/// All extents.
#[derive(Debug)]
pub(crate) struct Density {
    extents: [Extent; EXTENTS],
    /// The extent that gives way next.
    oldest: usize,
    /// Slabs that were found dense.
    proven: usize,
    /// Slabs that took huge pages on trust and were not found dense, or not yet.
    unproven: usize,
}

/// A run of slabs that were handed out for the first time, one after the other.
#[derive(Clone, Copy, Debug)]
struct Extent {
    begin: usize,
    /// The end of the slabs handed out so far.
    end: usize,
    /// The slabs before this one are known to be dense.
    confirmed: usize,
    /// The slabs from here on are undecided and have base pages.
    decided: usize,
    /// The end of the current window.
    horizon: usize,
    /// The slab whose pages show how the program touches the extent.
    probe: Option<usize>,
    /// Slabs of its first window while they are unproven.
    trust: usize,
    /// Whether it began with one large block.
    is_large: bool,
    /// Whether it was found sparse, so that nothing more is decided.
    is_over: bool,
}

/// The next action.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// Advise slabs `begin .. end`: huge pages, or base pages.
    Advise { begin: usize, end: usize, huge: bool },
    /// Inspect some slabs and pass the evidence to [`Density::conclude`].
    Inspect(Inspection),
}

/// The slabs to inspect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Inspection {
    extent: usize,
    pub(crate) probe: usize,
    /// The first slab with base pages that may have been touched.
    pub(crate) from: usize,
    /// The end of these slabs.
    pub(crate) to: usize,
}

/// The result of an inspection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Evidence {
    /// Slabs with base pages that are mostly resident, or resident from their start on.
    pub(crate) dense: usize,
    /// Slabs with a few resident pages.
    pub(crate) partial: usize,
    /// Whether the probe has a few resident pages and the slab behind it has been touched.
    pub(crate) is_skipped: bool,
    /// Touched slabs from `from` on, without a gap.
    pub(crate) touched: usize,
}

impl Inspection {
    /// A few of the slabs with base pages.
    pub(crate) fn samples(self) -> impl Iterator<Item = usize> {
        let count = self.to.saturating_sub(self.from);
        let step = count.div_ceil(SAMPLES).max(1);
        (0..SAMPLES.min(count)).map(move |at| self.from + at * step).filter(move |&slab| slab < self.to)
    }

    /// The extent to continue with if this one has to wait.
    pub(crate) fn next(self) -> usize {
        self.extent + 1
    }
}

impl Density {
    pub(crate) const fn new() -> Self {
        Self { extents: [Extent::NONE; EXTENTS], oldest: 0, proven: 0, unproven: 0 }
    }

    /// Records that slabs `begin .. end` are handed out for the first time.
    pub(crate) fn enter(&mut self, begin: usize, end: usize) {
        let begin = begin.max(HEAD_SLABS);
        if begin >= end {
            return;
        }
        let is_large = end - begin >= LARGE_SLABS;
        let found = self.extents.iter_mut().find(|extent| extent.is_followed(begin, is_large));
        if let Some(extent) = found {
            extent.end = end;
            return;
        }
        // Earlier extents at these addresses are gone.
        let overlaps = |extent: &&mut Extent| extent.begin < end && begin < extent.end;
        self.extents.iter_mut().filter(overlaps).for_each(|extent| *extent = Extent::NONE);
        let doubt = self.unproven.saturating_sub(self.proven / PROVEN_SHARE);
        let trust = TRUST_SLABS.saturating_sub(doubt);
        self.unproven += trust;
        let empty = self.extents.iter().position(|extent| extent.begin == extent.end);
        let slot = empty.unwrap_or(self.oldest);
        if let Some(extent) = self.extents.get_mut(slot) {
            let (confirmed, decided) = (begin, begin);
            *extent =
                Extent { begin, end, confirmed, decided, trust, is_large, is_over: false, ..Extent::NONE };
            extent.open(trust);
        }
        self.oldest = (slot + 1) % EXTENTS;
    }

    /// The next action; `None` if everything is decided. An `Inspect` repeats until its evidence is conclusive. So ask
    /// for the steps from extent `from` on, and continue behind the extent that has to wait.
    pub(crate) fn step(&mut self, from: usize) -> Option<Step> {
        let extents = self.extents.iter_mut().enumerate().skip(from);
        extents.filter(|(_, extent)| !extent.is_over).find_map(|(at, extent)| extent.step(at))
    }

    /// Evaluates the evidence of an inspection. Returns advice to give at once, and whether the evidence was
    /// conclusive.
    pub(crate) fn conclude(&mut self, inspection: Inspection, found: Evidence) -> (Option<Step>, bool) {
        let extent = self.extents.get_mut(inspection.extent).filter(|extent| {
            !extent.is_over && extent.probe == Some(inspection.probe) && extent.decided == inspection.from
        });
        let Some(extent) = extent else { return (None, true) };
        if found.dense > found.partial {
            let known = extent.confirmed;
            extent.confirm(found.touched);
            self.unproven -= take(&mut extent.trust);
            self.proven += extent.confirmed - known;
            // One advice makes one mapping, so that pages can move. Resident pages stay as they are.
            return (Some(Step::Advise { begin: known, end: extent.decided, huge: true }), true);
        }
        if found.is_skipped || (found.dense == 0 && found.partial > 2) {
            extent.is_over = true;
            let (begin, end) = (extent.confirmed, extent.decided);
            // Only this part of a later window is wasted.
            self.unproven += (end - begin).saturating_sub(extent.trust + 1);
            return ((begin < end).then_some(Step::Advise { begin, end, huge: false }), true);
        }
        (None, false)
    }
}

impl Extent {
    const NONE: Self = Self {
        begin: 0,
        end: 0,
        confirmed: 0,
        decided: 0,
        horizon: 0,
        probe: None,
        trust: 0,
        is_large: false,
        is_over: true,
    };

    /// Whether slabs handed out from `begin` on continue this extent. After a sparse extent a large block begins a new
    /// one. Small blocks do so after enough of them that one wrong window does not matter.
    fn is_followed(&self, begin: usize, is_large: bool) -> bool {
        let is_next = self.begin < self.end && self.end == begin;
        let has_chance = is_large || self.is_large || begin - self.decided.min(begin) >= CHANCE_SLABS;
        is_next && !(self.is_over && has_chance)
    }

    fn step(&mut self, at: usize) -> Option<Step> {
        loop {
            if self.decided >= self.end {
                return None;
            }
            let limit = self.horizon.min(self.end);
            if self.decided >= limit {
                let Some(probe) = self.probe else {
                    self.probe = Some(self.decided);
                    self.decided += 1;
                    continue;
                };
                let (from, to) = (self.decided, self.end);
                return Some(Step::Inspect(Inspection { extent: at, probe, from, to }));
            }
            let begin = self.decided;
            let end = self.probe.filter(|probe| (begin..limit).contains(probe)).unwrap_or(limit);
            if begin == end {
                self.decided += 1;
                continue;
            }
            self.decided = end;
            return Some(Step::Advise { begin, end, huge: true });
        }
    }

    /// Confirms that the decided slabs are dense, and the next `touched` slabs too: the program ran ahead of the
    /// window.
    fn confirm(&mut self, touched: usize) {
        self.decided = (self.decided + touched).min(self.end);
        self.confirmed = self.decided;
        self.open((WINDOW_FACTOR * (self.confirmed - self.begin)).max(WINDOW_SLABS_MIN));
    }

    /// Opens a window of so many slabs behind the dense ones, with a probe in its middle.
    fn open(&mut self, slabs: usize) {
        self.horizon = self.confirmed + slabs;
        self.probe = (slabs > 1).then_some(self.confirmed + slabs / 2);
    }
}

#[cfg(test)]
mod tests {
    use std::ops::Range;

    use super::*;

    const DENSE: Evidence = Evidence { dense: 1, partial: 0, is_skipped: false, touched: 0 };
    const NOTHING: Evidence = Evidence { dense: 0, partial: 0, is_skipped: false, touched: 0 };
    const SKIPPED: Evidence = Evidence { dense: 0, partial: 1, is_skipped: true, touched: 0 };

    /// All advice that follows where every inspection gets the same answer.
    fn advice(density: &mut Density, found: Evidence) -> Vec<(Range<usize>, bool)> {
        let (mut all, mut from) = (Vec::new(), 0);
        while let Some(step) = density.step(from) {
            let advice = match step {
                Step::Inspect(inspection) => {
                    let (advice, is_new) = density.conclude(inspection, found);
                    from = if is_new { 0 } else { inspection.next() };
                    advice
                }
                advice @ Step::Advise { .. } => Some(advice),
            };
            if let Some(Step::Advise { begin, end, huge }) = advice {
                all.push((begin..end, huge));
            }
        }
        all
    }

    /// The slabs that have huge pages after all that advice.
    fn huge(density: &mut Density, slabs: usize, found: Evidence) -> Vec<bool> {
        let mut huge = vec![false; slabs];
        advice(density, found).into_iter().for_each(|(run, is_huge)| huge[run].fill(is_huge));
        huge
    }

    /// The first inspection, after the advice on trust.
    fn inspection(density: &mut Density) -> Inspection {
        loop {
            match density.step(0) {
                Some(Step::Inspect(inspection)) => return inspection,
                Some(Step::Advise { .. }) => {}
                None => panic!("there is a probe"),
            }
        }
    }

    fn count(huge: &[bool]) -> usize {
        huge.iter().filter(|&&is_huge| is_huge).count()
    }

    #[test]
    fn dense_memory_gets_huge_pages_to_its_end() {
        for len in [5, 40, 1500] {
            let mut density = Density::new();
            density.enter(10, 10 + len);
            let found = huge(&mut density, 10 + len, DENSE);
            assert!(count(&found) + 1 >= len, "{len}: but for a last probe, {}", count(&found));
            assert_eq!(density.step(0), None);
        }
    }

    #[test]
    fn on_trust_there_is_one_window_with_a_probe_in_it() {
        let mut density = Density::new();
        density.enter(1, 1501);
        assert_eq!(count(&huge(&mut density, 1501, NOTHING)), TRUST_SLABS - 1);
        assert!(density.step(0).is_some());
    }

    #[test]
    fn memory_that_is_skipped_through_keeps_base_pages_and_loses_the_window() {
        let mut density = Density::new();
        density.enter(1, 1501);
        assert_eq!(count(&huge(&mut density, 1501, SKIPPED)), 0);
        assert_eq!(density.step(0), None);
        density.enter(1501, 1600);
        assert!(count(&huge(&mut density, 1600, DENSE)) > 95, "another block is another matter");
    }

    /// Counts the slabs that ever had huge pages. Blocks of `slabs` slabs follow one another; `found` is the evidence
    /// for each.
    fn ever_huge(density: &mut Density, slabs: usize, found: impl Fn(usize) -> Evidence) -> usize {
        let mut ever = vec![false; 4000];
        for (number, begin) in (1..4000 - slabs).step_by(slabs).enumerate() {
            density.enter(begin, begin + slabs);
            for (run, is_huge) in advice(density, found(number)) {
                ever[run].iter_mut().for_each(|ever| *ever |= is_huge);
            }
        }
        count(&ever)
    }

    #[test]
    fn many_blocks_that_are_skipped_through_waste_no_more_than_the_first() {
        for slabs in [1, 2, 10, 200] {
            let wasted = ever_huge(&mut Density::new(), slabs, |_| SKIPPED);
            assert!((1..=TRUST_SLABS).contains(&wasted), "{slabs}: {wasted}");
        }
    }

    #[test]
    fn dense_blocks_get_huge_pages_between_sparse_ones() {
        for slabs in [10, 100] {
            let is_sparse = |number: usize| number.is_multiple_of(2);
            let found = |number| if is_sparse(number) { SKIPPED } else { DENSE };
            let huge = ever_huge(&mut Density::new(), slabs, found);
            // Each block loses a probe, and a window takes a while to begin.
            assert!(huge + 4000 / slabs + 100 >= 2000, "{slabs}: {huge}");
        }
    }

    #[test]
    fn small_blocks_one_after_the_other_make_one_extent() {
        let mut density = Density::new();
        let mut found = vec![false; 200];
        for at in 1..200 {
            density.enter(at, at + 1);
            let now = huge(&mut density, 200, DENSE);
            found.iter_mut().zip(now).for_each(|(found, now)| *found |= now);
        }
        assert!(count(&found) >= 195, "{}", count(&found));
    }

    #[test]
    fn who_outran_the_windows_gets_the_next_one_ahead() {
        let mut density = Density::new();
        density.enter(1, 1501);
        let inspection = inspection(&mut density);
        assert_eq!((inspection.probe, inspection.from, inspection.samples().count()), (3, 5, SAMPLES));
        let ahead = Evidence { touched: 96, ..DENSE };
        let known = density.conclude(inspection, ahead);
        assert_eq!(known, (Some(Step::Advise { begin: 1, end: 101, huge: true }), true));
        let Some(Step::Advise { begin, huge: true, .. }) = density.step(0) else { panic!("the next window") };
        assert_eq!(begin, 101);
    }

    #[test]
    fn an_answer_that_comes_late_changes_nothing() {
        let mut density = Density::new();
        density.enter(1, 1501);
        let inspection = inspection(&mut density);
        density.conclude(inspection, DENSE);
        let before = format!("{density:?}");
        assert_eq!(density.conclude(inspection, SKIPPED), (None, true));
        assert_eq!(format!("{density:?}"), before);
    }

    #[test]
    fn what_is_handed_out_anew_is_a_new_extent() {
        let mut density = Density::new();
        density.enter(1, 1501);
        huge(&mut density, 1501, SKIPPED);
        density.enter(1, 1501);
        assert!(count(&huge(&mut density, 1501, DENSE)) > 1490);
        for at in 0..20 {
            density.enter(2000 + at * 100, 2090 + at * 100);
        }
        assert!(density.step(0).is_some(), "the oldest have given way");
    }
}
