//! Work ahead of need: populating and zeroing free memory before somebody asks for it.
//!
//! In: how much. Out: how much was done; 0 if there is nothing to do. Each call is one step that holds no lock while it
//! takes time.
//!
//! Out of scope: deciding when. The background thread does (`reclaim::maintain`).

use std::sync::atomic::Ordering::Relaxed;

use crate::backend::{Backend, Span};
use crate::claim::Claim;
use crate::core::Core;
use crate::pool::Pool;
use crate::stats::Populated;
use crate::tuning::{GRANULE_BYTES, SLAB_BYTES, SLAB_GRANULES};

impl<B: Backend> Pool<B> {
    /// Makes at least `bytes` of free memory resident, in whole slabs, and expects them to be needed.
    ///
    /// The pool retains them even above the bound that follows from the program's peak. They decay, unless
    /// [`Policy::prewarm`](crate::Policy::prewarm) asked for them. Fewer bytes become resident if the range ends, if
    /// the kernel refuses, or beyond [`Retain::bytes`](crate::Retain::bytes) less the front's share (a quarter, at most
    /// 64 MiB).
    pub fn prewarm(&self, bytes: usize) -> Populated {
        let mut all = Populated::default();
        if let Some(mut core) = self.core.lock() {
            core.needed = core.needed.max(bytes / GRANULE_BYTES);
        }
        while all.asked < bytes {
            let slabs = (bytes - all.asked).div_ceil(SLAB_BYTES);
            let claim = |core: &mut Core<B>| core.claim_reserved(slabs.min(core.room() / SLAB_GRANULES));
            let Some(Some(claim)) = self.served(|core, _| claim(core)) else { break };
            let populated = self.stock(claim);
            all.asked += populated.asked;
            all.resident += populated.resident;
            if populated.resident < populated.asked {
                break;
            }
        }
        all
    }

    /// Zeroes dirty free memory, at most `bytes` and at most a slab. Returns the bytes zeroed.
    pub fn scrub_step(&self, bytes: usize) -> usize {
        let Some(mut core) = self.core.lock() else { return 0 };
        let Some(claim) = core.claim_dirty(bytes / GRANULE_BYTES) else { return 0 };
        drop(core);
        self.run(claim, |backend| {
            backend.scrub(claim.span());
            true
        });
        self.zeroed.store(true, Relaxed);
        claim.span().len
    }

    /// Makes a few slabs of free memory resident, once less than `low` bytes are retained and until `high` are. Returns
    /// the bytes that became resident.
    pub fn stock_step(&self, low: usize, high: usize) -> usize {
        let held = self.front.tally().held;
        let [low, high] = [low, high].map(|bytes| (bytes / GRANULE_BYTES).saturating_sub(held));
        let claim = self.served(|core, _| core.claim_stock(low, high)).flatten();
        claim.map_or(0, |claim| self.stock(claim).resident)
    }

    /// Populates claimed slabs. If some of them is not resident afterwards, all of them count as not resident.
    fn stock(&self, claim: Claim) -> Populated {
        let mut populated = Populated { asked: claim.span().len, resident: 0 };
        self.advise_for(claim.span());
        self.run(claim, |_| {
            populated.resident = self.populate(claim.span());
            populated.resident == populated.asked
        });
        self.zeroed.store(true, Relaxed);
        populated
    }

    /// Populates a span that nobody else uses. Returns the bytes that are resident afterwards.
    pub(super) fn populate(&self, span: Span) -> usize {
        let refused = self.backend.populate(span).is_err();
        let resident = self.backend.resident_bytes(span);
        if let Some(mut core) = self.core.lock() {
            core.stats.populated_bytes += resident as u64;
            core.stats.populate_failures += refused as u64;
            core.stats.populate_missing_bytes += (span.len - resident) as u64;
        }
        resident
    }

    /// Does the work of a claim and ends the claim.
    pub(super) fn run(&self, claim: Claim, work: impl FnOnce(&B) -> bool) -> bool {
        let begin = self.backend.now();
        let done = work(&self.backend);
        let ns = self.backend.now().saturating_sub(begin);
        if let Some(mut core) = self.core.lock() {
            core.finish(claim, done, ns);
        }
        done
    }
}
