//! Huge pages: finds out how densely a program touches fresh memory, and advises THP accordingly.
//!
//! In: the steps of [`density`](crate::density). Out: residency checks and advice. A thread that takes fresh memory
//! makes the steps that need no waiting. The background thread makes the others, and inspects again while the program
//! touches its memory.
//!
//! Out of scope: anything in a process that confines its system calls, or on a kernel without a choice of pages.

use crate::backend::{Backend, Span};
use crate::class::{Run, pieces};
use crate::density::{Evidence, Inspection, Step, is_dense};
use crate::pool::Pool;
use crate::tuning::{
    BEGUN_SHARE, GRANULE_BYTES, HEAD_SLABS, POLL_END_NS, POLL_MAX_NS, POLL_MIN_NS, SLAB_BYTES, SLAB_GRANULES,
};

/// When to inspect fresh memory again.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Poll {
    /// The time of the last new evidence, in ns; 0 if nothing is being polled.
    new_ns: u64,
    pause_ns: u64,
}

/// The state after everything that could be decided was decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    /// Nothing is left to decide.
    Settled,
    /// Some extent waits for touches.
    Waiting {
        /// Whether there was new evidence.
        is_new: bool,
    },
}

impl<B: Backend> Pool<B> {
    /// Whether `density` chooses the pages of fresh memory.
    pub(super) fn chooses_pages(&self) -> bool {
        self.backend.can_advise_thp()
    }

    /// Decides what can be decided about fresh memory, and wakes the background thread for the rest.
    pub(super) fn decide_pages(&self) {
        if self.decide(false) != Outcome::Settled {
            self.wake_thread();
        }
    }

    /// Decides what can be decided at `now_ns`, for the background thread. Returns how long to wait before the next
    /// call, if there should be one.
    pub(super) fn poll_density(&self, poll: &mut Poll, now_ns: u64) -> Option<u64> {
        let Outcome::Waiting { is_new } = self.decide(true) else {
            *poll = Poll::default();
            return None;
        };
        // A quarter of the time that the last step has taken so far. Each inspection is at most that late.
        let is_first = poll.new_ns == 0;
        let quarter_ns = if is_first { 0 } else { now_ns.saturating_sub(poll.new_ns) / 4 };
        let least_ns = if is_new { POLL_MIN_NS } else { poll.pause_ns };
        poll.pause_ns = quarter_ns.max(least_ns).clamp(POLL_MIN_NS, POLL_MAX_NS);
        if is_first || is_new {
            poll.new_ns = now_ns;
        }
        if now_ns.saturating_sub(poll.new_ns) > POLL_END_NS {
            *poll = Poll::default();
            return None;
        }
        Some(poll.pause_ns)
    }

    /// `thorough`: also where the program does not touch its memory from front to back.
    fn decide(&self, thorough: bool) -> Outcome {
        let (mut from, mut waits, mut is_new) = (0, false, false);
        loop {
            let Some(step) = self.core.lock().and_then(|mut core| core.density.step(from)) else {
                return if waits { Outcome::Waiting { is_new } } else { Outcome::Settled };
            };
            let advice = match step {
                advice @ Step::Advise { .. } => Some(advice),
                Step::Inspect(inspection) => {
                    let found = self.inspect(inspection, thorough);
                    let Some(mut core) = self.core.lock() else { return Outcome::Settled };
                    let (advice, is_concluded) = core.density.conclude(inspection, found);
                    is_new |= is_concluded;
                    if !is_concluded {
                        waits = true;
                        from = inspection.next();
                    }
                    advice
                }
            };
            if let Some(Step::Advise { begin, end, huge }) = advice {
                self.advise(begin, end, huge);
            }
        }
    }

    /// Advises slabs `begin .. end`, and records that.
    pub(super) fn advise(&self, begin: usize, end: usize, huge: bool) {
        if begin >= end {
            return;
        }
        let run = (begin * SLAB_GRANULES, (end - begin) * SLAB_GRANULES);
        if self.backend.advise(Span::of(run), huge).is_ok()
            && let Some(mut core) = self.core.lock()
        {
            for (slab, ..) in pieces(run) {
                core.slabs.slab_mut(slab).huge = huge;
            }
        }
    }

    /// Advises huge pages for the whole slabs of a span that is about to be populated.
    pub(super) fn advise_for(&self, span: Span) {
        let (begin, end) = (span.offset.div_ceil(SLAB_BYTES), (span.offset + span.len) / SLAB_BYTES);
        if self.backend.can_advise_thp() {
            self.advise(begin.max(HEAD_SLABS), end, true);
        }
    }

    /// Gives all slabs of a run the advice that most of them have, since only the pages of one mapping can move.
    /// Returns whether they take huge pages then.
    pub(super) fn unify_advice(&self, run: Run) -> bool {
        let slabs = run.1.div_ceil(SLAB_GRANULES);
        let first = run.0 / SLAB_GRANULES;
        let Some(core) = self.core.lock() else { return false };
        let huge = (first..first + slabs).filter(|&at| core.slabs.slab(at).huge).count();
        drop(core);
        let is_huge = 2 * huge >= slabs;
        if self.backend.can_advise_thp() && huge > 0 && huge < slabs {
            self.advise(first, first + slabs, is_huge);
        }
        is_huge && huge > 0
    }

    fn inspect(&self, inspection: Inspection, thorough: bool) -> Evidence {
        // The slab behind the probe comes first. Otherwise the program could fill the probe between the two checks, and
        // the probe would look skipped.
        let is_passed = self.is_begun(inspection.probe + 1, GRANULE_BYTES);
        let mut found = Evidence::default();
        self.judge(inspection.probe, is_passed, &mut found);
        found.is_skipped = is_passed && found.partial > 0;
        for sample in inspection.samples().filter(|_| thorough) {
            let is_passed = self.is_begun(sample + 1, GRANULE_BYTES);
            self.judge(sample, is_passed, &mut found);
        }
        if found.dense > found.partial {
            let is_touched = |&slab: &usize| self.is_begun(slab, GRANULE_BYTES);
            found.touched = (inspection.from..inspection.to).take_while(is_touched).count();
        }
        found
    }

    /// Judges a slab. If its first part is resident, the program is filling it; unless it `is_passed`, since then it may
    /// be one of many blocks of which only the first part is used. That is no evidence yet.
    fn judge(&self, slab: usize, is_passed: bool, found: &mut Evidence) {
        match self.backend.resident_bytes(Span::of((slab * SLAB_GRANULES, SLAB_GRANULES))) {
            0 => {}
            bytes if is_dense(bytes, SLAB_BYTES) => found.dense += 1,
            _ if self.is_begun(slab, SLAB_BYTES / BEGUN_SHARE) => found.dense += !is_passed as usize,
            _ => found.partial += 1,
        }
    }

    /// Whether all of the first `bytes` of a slab are resident.
    fn is_begun(&self, slab: usize, bytes: usize) -> bool {
        let begin = Span::of((slab * SLAB_GRANULES, bytes / GRANULE_BYTES));
        self.backend.resident_bytes(begin) == bytes
    }
}
