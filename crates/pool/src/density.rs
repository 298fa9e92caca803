//! Huge pages where a program touches its memory densely, base pages elsewhere.
//!
//! In: slabs that are handed out for the first time, and what of single slabs is resident. Out: which slabs to advise.
//! A huge page makes 2 MiB resident for one touch, and afterwards nobody can tell how much of it was used. So of an extent, a run of
//! such slabs, only a first window gets huge pages on trust. In its middle one slab keeps base pages: the probe. Once that is dense the
//! next window follows, four times as long as all that is known to be dense, at least 64 MiB; once it was skipped, the rest of the
//! extent keeps base pages, and the window loses its advice.
//!
//! ```text
//! begin       confirmed          probe        decided = horizon             end
//!   | huge, dense |  huge, on trust  | base |  huge, on trust | base, waiting |
//! ```
//! Trust is used up: what was given to extents of which nothing is known, or no good, is missing in the next one's first window, but
//! for an eighth of what was found to be dense. At the end a new extent begins with a probe. So a thousand sparse blocks waste no
//! more than the first of them did.
//!
//! A program that fills its memory from front to back in one pass so takes base pages for one slab in 8, 40, 200, at most. One that
//! touches a page here and there pays for the first window: a sixteenth of the extent, from 16 to 128 MiB. Of large zeroed memory,
//! which is what hash tables and sparse matrices ask for, the first window has 6 MiB.
//!
//! What it does not do: system calls. Those who ask [`Density::step`] make them, outside the pool's lock; the same step twice is harmless.

use core::mem::take;

use crate::policy::tuning::{
    HEAD_SLABS, PROVEN_SHARE, SAMPLES, TRUST_SHARE, TRUST_SLABS_MAX, TRUST_SLABS_MIN, TRUST_SLABS_ZEROED,
    WINDOW_FACTOR, WINDOW_SLABS_MIN,
};

/// Extents that are looked after at a time; the oldest gives way and keeps the pages it has.
const EXTENTS: usize = 8;

/// Small blocks that follow a sparse extent keep base pages for so many slabs: what a wrong window makes resident, 8 slabs, is then
/// an eighth.
const CHANCE_SLABS: usize = 8 * TRUST_SLABS_MIN;

/// All extents.
#[derive(Debug)]
pub(crate) struct Density {
    extents: [Extent; EXTENTS],
    /// The extent that gives way next.
    oldest: usize,
    /// Slabs that were found to be dense.
    proven: usize,
    /// Slabs that got huge pages on trust and were not found to be dense, or not yet.
    unproven: usize,
}

/// A run of slabs that were handed out for the first time, one after the other.
#[derive(Clone, Copy, Debug)]
struct Extent {
    begin: usize,
    /// What was handed out ends here.
    end: usize,
    /// The slabs before are known to be dense.
    confirmed: usize,
    /// Nothing was decided about the slabs from here on: they have base pages.
    decided: usize,
    /// So far advice may go at the moment.
    horizon: usize,
    /// The slab whose pages tell how the program touches the extent.
    probe: Option<usize>,
    /// Slabs of its first window, as long as they are unproven.
    trust: usize,
    /// Whether it is about zeroed memory.
    zeroed: bool,
    /// Whether one large block began it.
    is_large: bool,
    /// Whether it was found sparse, so that nothing is decided about it any more.
    is_over: bool,
}

/// What is to be done next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// Advise slabs `begin .. end`: huge pages, or base pages.
    Advise { begin: usize, end: usize, huge: bool },
    /// Look at some slabs and say what was found ([`Density::answer`]).
    Look(Question),
}

/// Which slabs to look at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Question {
    extent: usize,
    pub(crate) probe: usize,
    /// The slabs that have base pages and may have been touched.
    pub(crate) from: usize,
    pub(crate) to: usize,
}

/// What was found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Evidence {
    /// Slabs with base pages that are resident for the most part, or from their beginning on.
    pub(crate) dense: usize,
    /// Slabs of which a little is resident.
    pub(crate) partial: usize,
    /// Whether the probe has a little and the slab behind it has been touched.
    pub(crate) is_skipped: bool,
    /// Slabs from `from` on that have been touched, without a gap.
    pub(crate) touched: usize,
}

impl Question {
    /// A few slabs among those with base pages.
    pub(crate) fn samples(self) -> impl Iterator<Item = usize> {
        let count = self.to.saturating_sub(self.from);
        let step = count.div_ceil(SAMPLES).max(1);
        (0..SAMPLES.min(count)).map(move |at| self.from + at * step).filter(move |&slab| slab < self.to)
    }
}

impl Density {
    pub(crate) const fn new() -> Self {
        Self { extents: [Extent::NONE; EXTENTS], oldest: 0, proven: 0, unproven: 0 }
    }

    /// Slabs `begin .. end` are handed out for the first time, to be `zeroed` or not. `most`: the slabs that may get huge pages on trust.
    pub(crate) fn enter(&mut self, begin: usize, end: usize, zeroed: bool, most: usize) {
        let begin = begin.max(HEAD_SLABS);
        if begin >= end {
            return;
        }
        let is_large = end - begin >= TRUST_SLABS_MIN;
        let zeroed = zeroed && is_large;
        let found = self.extents.iter_mut().find(|extent| extent.is_followed(begin, zeroed, is_large));
        if let Some(extent) = found {
            extent.end = end;
            return;
        }
        // What was there before is gone.
        let overlaps = |extent: &&mut Extent| extent.begin < end && begin < extent.end;
        self.extents.iter_mut().filter(overlaps).for_each(|extent| *extent = Extent::NONE);
        let first = match zeroed {
            true => TRUST_SLABS_ZEROED,
            false => ((end - begin) / TRUST_SHARE).clamp(TRUST_SLABS_MIN, TRUST_SLABS_MAX),
        };
        let doubt = self.unproven.saturating_sub(self.proven / PROVEN_SHARE);
        let trust = first.saturating_sub(doubt).min(most);
        self.unproven += trust;
        let empty = self.extents.iter().position(|extent| extent.begin == extent.end);
        let place = empty.unwrap_or(self.oldest);
        if let Some(extent) = self.extents.get_mut(place) {
            let (confirmed, decided, horizon) = (begin, begin, begin + trust);
            let (probe, is_over) = (None, false);
            *extent =
                Extent { begin, end, confirmed, decided, horizon, probe, trust, zeroed, is_large, is_over };
        }
        self.oldest = (place + 1) % EXTENTS;
    }

    /// What to do next; nothing where all is decided. After `Look` the same question comes again until it is answered otherwise than
    /// by nothing new, so ask for steps from extent `from` on, and go on behind the one that is waiting.
    pub(crate) fn step(&mut self, from: usize) -> Option<Step> {
        let extents = self.extents.iter_mut().enumerate().skip(from);
        extents.filter(|(_, extent)| !extent.is_over).find_map(|(at, extent)| extent.step(at))
    }

    /// Takes note of what was found. An advice that follows at once, and whether anything is new.
    pub(crate) fn answer(&mut self, question: Question, found: Evidence) -> (Option<Step>, bool) {
        let extent = self.extents.get_mut(question.extent).filter(|extent| {
            !extent.is_over && extent.probe == Some(question.probe) && extent.decided == question.from
        });
        let Some(extent) = extent else { return (None, true) };
        if found.dense > found.partial {
            let known = extent.confirmed;
            extent.confirm(found.touched);
            self.unproven -= take(&mut extent.trust);
            self.proven += extent.confirmed - known;
            // One mapping, so that pages can be moved; what is resident already stays as it is.
            return (Some(Step::Advise { begin: known, end: extent.decided, huge: true }), true);
        }
        if found.is_skipped || (found.dense == 0 && found.partial > 2) {
            extent.is_over = true;
            let (begin, end) = (extent.confirmed, extent.decided);
            // Of a later window only this is left.
            self.unproven += (end - begin).saturating_sub(extent.trust + 1);
            return ((begin < end).then_some(Step::Advise { begin, end, huge: false }), true);
        }
        (None, false)
    }
}

impl Question {
    /// The extent to go on with when this one is waiting.
    pub(crate) fn next(self) -> usize {
        self.extent + 1
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
        zeroed: false,
        is_large: false,
        is_over: true,
    };

    /// Whether what is handed out from `begin` on belongs to it. After a sparse extent a large block has a chance of its own, and so
    /// have small ones after enough of them that one window of base pages more or less does not matter.
    fn is_followed(&self, begin: usize, zeroed: bool, is_large: bool) -> bool {
        let is_next = self.begin < self.end && self.end == begin && self.zeroed == zeroed;
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
                return Some(Step::Look(Question { extent: at, probe, from: self.decided, to: self.end }));
            }
            if self.probe.is_none() && self.end > self.horizon {
                self.probe = Some(self.decided + (limit - self.decided) / 2);
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

    /// What was decided so far is dense, and so are the next `touched` slabs, which nobody has waited with.
    fn confirm(&mut self, touched: usize) {
        self.decided = (self.decided + touched).min(self.end);
        self.confirmed = self.decided;
        let window = WINDOW_FACTOR * (self.confirmed - self.begin);
        self.horizon = self.confirmed + window.max(WINDOW_SLABS_MIN);
        self.probe = None;
    }
}

#[cfg(test)]
mod tests {
    use std::ops::Range;

    use super::*;

    const DENSE: Evidence = Evidence { dense: 1, partial: 0, is_skipped: false, touched: 0 };
    const NOTHING: Evidence = Evidence { dense: 0, partial: 0, is_skipped: false, touched: 0 };
    const SKIPPED: Evidence = Evidence { dense: 0, partial: 1, is_skipped: true, touched: 0 };

    /// All advice that follows where every question gets the same answer.
    fn advice(density: &mut Density, found: Evidence) -> Vec<(Range<usize>, bool)> {
        let (mut all, mut from) = (Vec::new(), 0);
        while let Some(step) = density.step(from) {
            let advice = match step {
                Step::Look(question) => {
                    let (advice, is_new) = density.answer(question, found);
                    from = if is_new { 0 } else { question.next() };
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

    /// The first question, after the advice on trust.
    fn question(density: &mut Density) -> Question {
        loop {
            match density.step(0) {
                Some(Step::Look(question)) => return question,
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
        for (len, zeroed) in [(5, false), (40, false), (1500, false), (1500, true)] {
            let mut density = Density::new();
            density.enter(10, 10 + len, zeroed, usize::MAX);
            let found = huge(&mut density, 10 + len, DENSE);
            assert!(count(&found) + 1 >= len, "{len} {zeroed}: but for a last probe, {}", count(&found));
            assert_eq!(density.step(0), None);
        }
    }

    #[test]
    fn on_trust_there_is_one_window_with_a_probe_in_it_and_a_short_one_for_large_zeroed_memory() {
        let mut density = Density::new();
        density.enter(1, 1501, false, usize::MAX);
        assert_eq!(count(&huge(&mut density, 1501, NOTHING)), TRUST_SLABS_MAX - 1);
        assert!(density.step(0).is_some());
        let mut density = Density::new();
        density.enter(1, 1501, true, usize::MAX);
        assert_eq!(count(&huge(&mut density, 1501, NOTHING)), TRUST_SLABS_ZEROED - 1);
        let mut density = Density::new();
        density.enter(1501, 1503, true, usize::MAX);
        assert_eq!(count(&huge(&mut density, 1503, NOTHING)), 2, "a small one is as good as not zeroed");
        let mut density = Density::new();
        density.enter(1, 1501, false, 3);
        assert_eq!(count(&huge(&mut density, 1501, NOTHING)), 2, "no more than may be");
    }

    #[test]
    fn memory_that_is_skipped_through_keeps_base_pages_and_loses_the_window() {
        let mut density = Density::new();
        density.enter(1, 1501, false, usize::MAX);
        assert_eq!(count(&huge(&mut density, 1501, SKIPPED)), 0);
        assert_eq!(density.step(0), None);
        density.enter(1501, 1600, false, usize::MAX);
        assert!(count(&huge(&mut density, 1600, DENSE)) > 95, "another block is another matter");
    }

    /// The slabs that ever had huge pages, of blocks of so many slabs, one after the other, each of which is `found` to be so.
    fn ever_huge(
        density: &mut Density,
        slabs: usize,
        zeroed: bool,
        found: impl Fn(usize) -> Evidence,
    ) -> usize {
        let mut ever = vec![false; 4000];
        for (number, begin) in (1..4000 - slabs).step_by(slabs).enumerate() {
            density.enter(begin, begin + slabs, zeroed, usize::MAX);
            for (run, is_huge) in advice(density, found(number)) {
                ever[run].iter_mut().for_each(|ever| *ever |= is_huge);
            }
        }
        count(&ever)
    }

    #[test]
    fn many_blocks_that_are_skipped_through_waste_no_more_than_the_first() {
        for (slabs, zeroed, most) in
            [(1, false, 8), (2, false, 8), (10, false, 8), (10, true, 3), (200, false, 12), (200, true, 3)]
        {
            let wasted = ever_huge(&mut Density::new(), slabs, zeroed, |_| SKIPPED);
            assert!((1..=most).contains(&wasted), "{slabs} {zeroed}: {wasted}");
        }
    }

    #[test]
    fn dense_blocks_get_huge_pages_between_sparse_ones() {
        for (slabs, zeroed) in [(10, false), (10, true), (100, false), (100, true)] {
            let is_sparse = |number: usize| number.is_multiple_of(2);
            let found = |number| if is_sparse(number) { SKIPPED } else { DENSE };
            let huge = ever_huge(&mut Density::new(), slabs, zeroed, found);
            // But for a probe in each, and what a window takes to begin.
            assert!(huge + 4000 / slabs + 100 >= 2000, "{slabs} {zeroed}: {huge}");
        }
    }

    #[test]
    fn small_blocks_one_after_the_other_make_one_extent() {
        let mut density = Density::new();
        let mut found = vec![false; 200];
        for at in 1..200 {
            density.enter(at, at + 1, false, usize::MAX);
            let now = huge(&mut density, 200, DENSE);
            found.iter_mut().zip(now).for_each(|(found, now)| *found |= now);
        }
        assert!(count(&found) >= 195, "{}", count(&found));
    }

    #[test]
    fn who_outran_the_windows_gets_the_next_one_ahead() {
        let mut density = Density::new();
        density.enter(1, 1501, true, usize::MAX);
        let question = question(&mut density);
        assert_eq!((question.probe, question.from, question.samples().count()), (2, 4, SAMPLES));
        let ahead = Evidence { touched: 96, ..DENSE };
        let known = density.answer(question, ahead);
        assert_eq!(known, (Some(Step::Advise { begin: 1, end: 100, huge: true }), true));
        let Some(Step::Advise { begin, huge: true, .. }) = density.step(0) else { panic!("the next window") };
        assert_eq!(begin, 100);
    }

    #[test]
    fn an_answer_that_comes_late_changes_nothing() {
        let mut density = Density::new();
        density.enter(1, 1501, true, usize::MAX);
        let question = question(&mut density);
        density.answer(question, DENSE);
        let before = format!("{density:?}");
        assert_eq!(density.answer(question, SKIPPED), (None, true));
        assert_eq!(format!("{density:?}"), before);
    }

    #[test]
    fn what_is_handed_out_anew_is_a_new_extent() {
        let mut density = Density::new();
        density.enter(1, 1501, false, usize::MAX);
        huge(&mut density, 1501, SKIPPED);
        density.enter(1, 1501, false, usize::MAX);
        assert!(count(&huge(&mut density, 1501, DENSE)) > 1490);
        for at in 0..20 {
            density.enter(2000 + at * 100, 2090 + at * 100, false, usize::MAX);
        }
        assert!(density.step(0).is_some(), "the oldest have given way");
    }
}
