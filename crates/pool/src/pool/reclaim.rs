//! Reclaim: everything that gives memory back to the kernel.
//!
//! | module | gives back |
//! |---|---|
//! | this one | what exceeds the bound (`purge_to_bound`), what is idle (`purge_idle`) |
//! | `decay` | decides how much idle memory goes per tick |
//! | `pressure` | decides whether memory is short, so that all idle memory goes at once |
//! | `maintain` | the background thread: decay, pressure, and work ahead of need |
//! | `background` | the state of that thread |
//! | `untouched` | pages of large blocks that the program never touched |
//! | `limits` | addresses and memory under limits (`ulimit -v`) |
//!
//! In: how much. Out: how much was given back. No step holds a lock while it takes time.

pub(super) mod background;
mod decay;
mod limits;
mod maintain;
mod pressure;
mod untouched;

use crate::backend::Backend;
use crate::claim::Claim;
use crate::class::Run;
use crate::pool::Pool;
use crate::tuning::GRANULE_BYTES;

impl<B: Backend> Pool<B> {
    /// The bytes that were retained, and needed by nobody, all through the time since the last call.
    pub fn idle_since_last_call(&self) -> usize {
        self.empty_front();
        self.core.lock().map_or(0, |mut core| core.idle_since_last_call()) * GRANULE_BYTES
    }

    /// Purges about `bytes` of wholly free slabs, those free for longest first. Returns the bytes purged.
    pub fn purge_idle(&self, bytes: usize) -> usize {
        self.empty_front();
        let mut done = 0;
        while done < bytes {
            let left = (bytes - done).div_ceil(GRANULE_BYTES);
            let Some(mut core) = self.core.lock() else { break };
            let Some(claim) = core.claim_idle(left) else { break };
            drop(core);
            if !self.purge(claim) {
                break;
            }
            done += claim.resident_bytes();
        }
        done
    }

    /// Purges what exceeds the policy's bound. Needed only after [`Pool::defer_purge`]; otherwise `free` does it.
    pub fn purge_to_bound(&self) {
        self.empty_front();
        self.purge_excess((0, 0));
    }

    /// Says whether somebody calls [`Pool::purge_to_bound`] regularly from now on. If so, `free` makes no system call
    /// unless far more is retained than allowed.
    pub fn defer_purge(&self, deferred: bool) {
        if let Some(mut core) = self.core.lock() {
            core.defers_purge = deferred;
        }
    }

    /// Purges until no more is retained than allowed. `freed`: a run that was just freed.
    pub(super) fn purge_excess(&self, freed: Run) {
        loop {
            let Some(mut core) = self.core.lock() else { return };
            let Some(claim) = core.claim_excess(freed) else { return };
            drop(core);
            // If the kernel refuses a part of a slab, nothing else is left to purge.
            if !self.purge(claim) && !claim.is_slabs() {
                return;
            }
        }
    }

    fn purge(&self, claim: Claim) -> bool {
        if claim.is_slabs() && self.backend.can_advise_thp() {
            self.learn_density(claim.span());
        }
        let done = self.run(claim, |backend| backend.purge(claim.span()).is_ok());
        if done && !self.addresses_are_free() {
            self.release_holes();
        }
        done
    }
}
