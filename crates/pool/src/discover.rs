//! Finding out how a program touches memory that it has for the first time, and advising huge pages accordingly.
//!
//! In: the steps of [`density`](crate::density). Out: looks at what is resident, and advice. Whoever takes fresh memory makes the steps
//! that need no waiting; the rest is for the keeper, which looks again while the program touches its memory.
//!
//! What it does not do: anything in a process that confines its system calls, or where the kernel has no choice of pages.

use std::sync::atomic::Ordering::Relaxed;

use crate::backend::{Backend, Span};
use crate::core::Run;
use crate::density::{Evidence, Question, Step};
use crate::lists::Lists;
use crate::policy::tuning::{
    BEGUN_SHARE, DENSE_SHARE, GRANULE_BYTES, HEAD_SLABS, LEFT_SHARE, LEFT_SLABS, SLAB_BYTES, SLAB_GRANULES,
    WATCH_END_NS, WATCH_MAX_NS, WATCH_MIN_NS,
};
use crate::pool::{Pool, span};

/// When to look again at a program that touches fresh memory.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Lookout {
    /// When something was new last, in ns; 0: nobody looks.
    new_ns: u64,
    pause_ns: u64,
}

/// What became of everything that could be decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Found {
    /// Nothing is left to decide.
    All,
    /// Something waits for touches.
    Waits {
        /// Whether something was new.
        is_new: bool,
    },
}

impl<B: Backend> Pool<B> {
    /// The slabs that may get huge pages before anything is known of them, of a request for `count` granules; 0 where the pool does
    /// not choose pages.
    pub(crate) fn trusted(&self, count: usize) -> usize {
        match () {
            () if !self.backend.chooses_pages() || self.confined.load(Relaxed) => 0,
            () if count < LEFT_SLABS * SLAB_GRANULES => usize::MAX,
            () => (self.backend.left_bytes() / LEFT_SHARE / SLAB_BYTES).max(1),
        }
    }

    /// Decides what can be decided about fresh memory; calls the keeper where something has to be waited for.
    pub(crate) fn discover(&self) {
        if self.decide() != Found::All {
            self.call_keeper();
        }
    }

    /// For the keeper: decides what can be decided at `now_ns`. How long to wait before the next look, if there is to be one.
    pub(crate) fn watch_touches(&self, lookout: &mut Lookout, now_ns: u64) -> Option<u64> {
        let Found::Waits { is_new } = self.decide() else {
            *lookout = Lookout::default();
            return None;
        };
        // A quarter of what the last step has taken, or takes already: that late a look comes at most.
        let is_first = lookout.new_ns == 0;
        let quarter_ns = if is_first { 0 } else { now_ns.saturating_sub(lookout.new_ns) / 4 };
        let least_ns = if is_new { WATCH_MIN_NS } else { lookout.pause_ns };
        lookout.pause_ns = quarter_ns.max(least_ns).clamp(WATCH_MIN_NS, WATCH_MAX_NS);
        if is_first || is_new {
            lookout.new_ns = now_ns;
        }
        if now_ns.saturating_sub(lookout.new_ns) > WATCH_END_NS {
            *lookout = Lookout::default();
            return None;
        }
        Some(lookout.pause_ns)
    }

    fn decide(&self) -> Found {
        let (mut from, mut waits, mut is_new) = (0, false, false);
        loop {
            let Some(step) = self.core.lock().and_then(|mut core| core.density.step(from)) else {
                return if waits { Found::Waits { is_new } } else { Found::All };
            };
            let advice = match step {
                advice @ Step::Advise { .. } => Some(advice),
                Step::Look(question) => {
                    let found = self.look_at(question);
                    let Some(mut core) = self.core.lock() else { return Found::All };
                    let (advice, is_answered) = core.density.answer(question, found);
                    is_new |= is_answered;
                    if !is_answered {
                        waits = true;
                        from = question.next();
                    }
                    advice
                }
            };
            if let Some(Step::Advise { begin, end, huge }) = advice {
                self.advise(begin, end, huge);
            }
        }
    }

    /// Advises slabs, and remembers it.
    pub(crate) fn advise(&self, begin: usize, end: usize, huge: bool) {
        if begin >= end {
            return;
        }
        let run = (begin * SLAB_GRANULES, (end - begin) * SLAB_GRANULES);
        if self.backend.advise(span(run), huge).is_ok() {
            self.remember(run, huge);
        }
    }

    /// A span is about to be made resident as a whole: its slabs take huge pages.
    pub(crate) fn advise_for(&self, span: Span) {
        let (begin, end) = (span.offset.div_ceil(SLAB_BYTES), (span.offset + span.len) / SLAB_BYTES);
        if self.backend.chooses_pages() {
            self.advise(begin.max(HEAD_SLABS), end, true);
        }
    }

    /// Slabs have this advice now.
    pub(crate) fn remember(&self, run: Run, huge: bool) {
        let Some(mut core) = self.core.lock() else { return };
        for (slab, ..) in Lists::<B::Slabs, B::Words>::pieces(run.0, run.1) {
            core.lists.slab_mut(slab).huge = huge;
        }
    }

    fn look_at(&self, question: Question) -> Evidence {
        // What lies behind first: the probe may be filled between the two looks, and must not look skipped then.
        let is_passed = self.is_begun(question.probe + 1, GRANULE_BYTES);
        let mut found = Evidence::default();
        self.judge(question.probe, &mut found);
        found.is_skipped = is_passed && found.partial > 0;
        for sample in question.samples() {
            self.judge(sample, &mut found);
        }
        if found.dense > found.partial {
            let is_touched = |&slab: &usize| self.is_begun(slab, GRANULE_BYTES);
            found.touched = (question.from..question.to).take_while(is_touched).count();
        }
        found
    }

    fn judge(&self, slab: usize, found: &mut Evidence) {
        match self.backend.resident_bytes(span((slab * SLAB_GRANULES, SLAB_GRANULES))) {
            0 => {}
            bytes if is_dense(bytes, SLAB_BYTES) => found.dense += 1,
            _ if self.is_begun(slab, SLAB_BYTES / BEGUN_SHARE) => found.dense += 1,
            _ => found.partial += 1,
        }
    }

    /// Whether the first bytes of a slab are resident, all of them.
    fn is_begun(&self, slab: usize, bytes: usize) -> bool {
        let begin = span((slab * SLAB_GRANULES, bytes / GRANULE_BYTES));
        self.backend.resident_bytes(begin) == bytes
    }
}

/// Whether so many resident bytes of `len` are nearly all.
pub(crate) fn is_dense(bytes: usize, len: usize) -> bool {
    bytes >= len - len / DENSE_SHARE
}
