//! Reclaim: everything that gives memory back to the kernel.
//!
//! | module | gives back |
//! |---|---|
//! | this one | what exceeds the bound (`purge_to_bound`), what is idle (`purge_idle`), wherever it lies |
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
use crate::pool::Pool;
use crate::tuning::GRANULE_BYTES;

impl<B: Backend> Pool<B> {
    /// The bytes that were retained, and needed by nobody, all through the time since the last call.
    pub fn idle_since_last_call(&self) -> usize {
        self.empty_front();
        self.core.lock().map_or(0, |mut core| core.idle_since_last_call()) * GRANULE_BYTES
    }

    /// Purges about `bytes` of free memory, the longest free first: wholly free slabs, then parts of slabs. Returns the
    /// bytes purged.
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

    /// Purges what exceeds the policy's bound, the front's part included.
    pub fn purge_to_bound(&self) {
        self.empty_front();
        self.settle_doubts((0, 0));
        self.purge_excess();
    }

    /// Purges until no more is retained than allowed, and offers to the kernel what the control group may need.
    pub(super) fn purge_excess(&self) {
        while let Some(claim) = self.core.lock().and_then(|mut core| core.claim_excess()) {
            let done = match claim.is_offer() {
                true => self.run(claim, |backend| backend.offer(claim.span()).is_ok()),
                false => self.purge(claim),
            };
            // What it refused to purge is not claimed again.
            if !done && claim.is_offer() {
                return;
            }
        }
    }

    fn purge(&self, claim: Claim) -> bool {
        let done = self.run(claim, |backend| {
            let done = backend.purge(claim.span()).is_ok();
            // A huge page at the next touch, or by khugepaged, would bring more back than the touched pages.
            if done && claim.is_huge && !backend.is_confined() {
                let (begin, end) = claim.slabs();
                self.advise(begin, end, false);
            }
            done
        });
        if done && !self.addresses_are_free() {
            self.release_holes();
        }
        done
    }
}
