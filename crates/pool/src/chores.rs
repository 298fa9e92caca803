//! Chores: what a pool does besides serving requests, each in steps that hold no lock while they take time.
//!
//! In: how much. Out: how much was done; 0 when there is nothing to do. Giving back what is too much or what nobody needs,
//! zeroing and populating ahead of need.
//!
//! What it does not do: decide when; without a keeper only `free` gives back what is too much.

use std::sync::atomic::Ordering::Relaxed;

use crate::backend::{Backend, Span};
use crate::core::{Core, Run};
use crate::discover::is_dense;
use crate::errand::Errand;
use crate::policy::Prefault;
use crate::policy::tuning::{GRANULE_BYTES, HEAD_SLABS, SLAB_BYTES, SLAB_GRANULES, SPARSE_SHARE};
use crate::pool::Pool;

/// What became of populating: the kernel's word is checked by residency.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Populated {
    /// Bytes that were to become resident.
    pub asked: usize,
    /// Bytes that are.
    pub resident: usize,
}

impl<B: Backend> Pool<B> {
    /// Makes at least `bytes` of free memory resident, in whole slabs, and expects them to be needed: beyond the bound that the
    /// program's peak explains they are kept, but a keeper lets them decay, unless [`Policy::prewarm`](crate::Policy::prewarm)
    /// says so. Less where the range ends, the kernel refuses, or more would be kept than
    /// [`Retain::bytes`](crate::Retain::bytes) allows, of which the front has a quarter, or 64 MiB, for what was just freed.
    pub fn prewarm(&self, bytes: usize) -> Populated {
        let mut all = Populated::default();
        if let Some(mut core) = self.core.lock() {
            core.expected = core.expected.max(bytes / GRANULE_BYTES);
        }
        while all.asked < bytes {
            let slabs = (bytes - all.asked).div_ceil(SLAB_BYTES);
            let claim = |core: &mut Core<B>| core.claim_reserved(slabs.min(core.room() / SLAB_GRANULES));
            let Some(Some(errand)) = self.served(|core, _| claim(core)) else { break };
            let populated = self.stock(errand);
            all.asked += populated.asked;
            all.resident += populated.resident;
            if populated.resident < populated.asked {
                break;
            }
        }
        all
    }

    /// Ends a window of time and begins the next: the bytes that were kept all through it and needed by nobody.
    pub fn window(&self) -> usize {
        self.empty_front();
        self.core.lock().map_or(0, |mut core| core.window()) * GRANULE_BYTES
    }

    /// Gives back about `bytes` of wholly free slabs, the longest unused first; the bytes given back.
    pub fn purge_idle(&self, bytes: usize) -> usize {
        self.empty_front();
        let mut done = 0;
        while done < bytes {
            let left = (bytes - done).div_ceil(GRANULE_BYTES);
            let Some(mut core) = self.core.lock() else { break };
            let Some(errand) = core.claim_idle(left) else { break };
            drop(core);
            if !self.purge(errand) {
                break;
            }
            done += errand.resident_bytes();
        }
        done
    }

    /// Gives pages back until no more is kept than may be. `freed`: a run that was just freed.
    pub(crate) fn purge_excess(&self, freed: Run) {
        loop {
            let Some(mut core) = self.core.lock() else { return };
            let Some(errand) = core.claim_excess(freed) else { return };
            drop(core);
            // Where the kernel refuses a part of a slab there is nothing else left to give back.
            if !self.purge(errand) && !errand.is_slabs() {
                return;
            }
        }
    }

    /// Gives back what is more than the policy allows, where `free` does not; see [`Pool::attend`].
    pub fn trim(&self) {
        self.empty_front();
        self.purge_excess((0, 0));
    }

    /// Says whether somebody calls [`Pool::trim`] regularly from now on: then `free` makes no system call unless far more
    /// is kept than may be.
    pub fn attend(&self, attended: bool) {
        if let Some(mut core) = self.core.lock() {
            core.attended = attended;
        }
    }

    /// Zeroes dirty free memory, at most `bytes` and a slab; the bytes zeroed.
    pub fn scrub_step(&self, bytes: usize) -> usize {
        let Some(mut core) = self.core.lock() else { return 0 };
        let Some(errand) = core.claim_dirty(bytes / GRANULE_BYTES) else { return 0 };
        drop(core);
        self.run(errand, |backend| {
            backend.scrub(errand.span());
            true
        });
        self.zeroed.store(true, Relaxed);
        errand.span().len
    }

    /// While less than `low` bytes are kept, and from then on until `high` are: makes a few slabs of free memory resident.
    /// The bytes that became so.
    pub fn stock_step(&self, low: usize, high: usize) -> usize {
        let held = self.front.tally().held;
        let [low, high] = [low, high].map(|bytes| (bytes / GRANULE_BYTES).saturating_sub(held));
        self.served(|core, _| core.claim_stock(low, high))
            .flatten()
            .map_or(0, |errand| self.stock(errand).resident)
    }

    fn purge(&self, errand: Errand) -> bool {
        if errand.is_slabs() && self.backend.chooses_pages() && !self.confined.load(Relaxed) {
            self.learn(errand.span());
        }
        let done = self.run(errand, |backend| backend.purge(errand.span()).is_ok());
        if done && !self.is_roomy() {
            self.give_up_holes();
        }
        done
    }

    /// Slabs are about to go back: those that were dense take huge pages the next time, those that were sparse never.
    fn learn(&self, span: Span) {
        let (begin, end) = (span.offset / SLAB_BYTES, (span.offset + span.len) / SLAB_BYTES);
        for slab in begin.max(HEAD_SLABS)..end {
            if self.core.lock().is_none_or(|core| core.lists.slab(slab).huge) {
                continue;
            }
            let resident = self.backend.resident_bytes(Span { offset: slab * SLAB_BYTES, len: SLAB_BYTES });
            if is_dense(resident, SLAB_BYTES) {
                self.advise(slab, slab + 1, true);
            }
            if let Some(mut core) = self.core.lock() {
                core.lists.slab_mut(slab).sparse = (1..SLAB_BYTES / SPARSE_SHARE).contains(&resident);
            }
        }
    }

    /// Populates. What is not wholly resident afterwards counts as not resident at all.
    fn stock(&self, errand: Errand) -> Populated {
        let mut populated = Populated { asked: errand.span().len, resident: 0 };
        self.advise_for(errand.span());
        self.run(errand, |_| {
            populated.resident = self.populate(errand.span(), Prefault::Populate);
            populated.resident == populated.asked
        });
        self.zeroed.store(true, Relaxed);
        populated
    }

    /// Populates a span that nobody else uses; the bytes that are resident afterwards.
    pub(crate) fn populate(&self, span: Span, way: Prefault) -> usize {
        let refused = self.backend.prefault(span, way).is_err();
        // A process that confines its system calls may not ask.
        let may_ask = !self.confined.load(Relaxed);
        let resident = if may_ask { self.backend.resident_bytes(span) } else { span.len };
        if let Some(mut core) = self.core.lock() {
            core.stats.populated_bytes += resident as u64;
            core.stats.populate_failures += refused as u64;
            core.stats.populate_missing_bytes += (span.len - resident) as u64;
        }
        resident
    }

    /// Does the work of an errand and puts its granules back.
    fn run(&self, errand: Errand, work: impl FnOnce(&B) -> bool) -> bool {
        let begin = self.backend.now();
        let done = work(&self.backend);
        let ns = self.backend.now().saturating_sub(begin);
        if let Some(mut core) = self.core.lock() {
            core.finish(errand, done, ns);
        }
        done
    }
}
