//! Limits on addresses and memory: RLIMIT_AS, RLIMIT_DATA, commit accounting, memory that is locked as soon as it is mapped.
//!
//! In: that there is such a limit. Out: a pool that keeps little, maps no more than it needs, and unmaps what goes back to the kernel, so
//! that a program gets nearly as much memory as without a pool, also by other ways than malloc.
//!
//! The highest addresses go back first, since the end of the range can be mapped again. Holes between blocks can't: addresses to come
//! are plenty.

use std::sync::atomic::Ordering::Relaxed;

use crate::backend::Backend;
use crate::front;
use crate::policy::tuning::{GRANULE_BYTES, LIMITED_SHARE, SLAB_GRANULES};
use crate::pool::{Pool, span};

impl<B: Backend> Pool<B> {
    /// Looks at the limits on this process's addresses and private memory, which may have been changed. Where there are any, less free
    /// memory is kept from now on, and what is too much goes back.
    pub fn heed_limits(&self) {
        let Some(limit) = self.backend.limit_bytes() else { return };
        let kept = self.policy.retain.bytes.min(limit / LIMITED_SHARE);
        let share = front::share(kept);
        self.front.limit(share);
        if let Some(mut core) = self.core.lock() {
            core.keep_at_most((kept - share) / GRANULE_BYTES);
        }
        self.be_thrifty();
        self.trim();
    }

    /// From now on no more of the range is made usable than is needed: addresses are limited, or whatever is mapped is resident at once
    /// (MCL_FUTURE of mlockall(2)).
    pub fn be_thrifty(&self) {
        self.is_thrifty.store(true, Relaxed);
        if let Some(mut core) = self.core.lock() {
            core.highest_first = true;
        }
        self.give_up_holes();
    }

    /// Whether addresses or the memory behind them count: by a limit, by strict commit accounting, or since they are resident at once.
    pub fn counts_addresses(&self) -> bool {
        !self.is_roomy()
    }

    /// Gives back all memory that nobody uses, and its addresses: somebody could not get any.
    pub fn give_up_idle(&self) {
        self.purge_idle(usize::MAX);
        self.give_up_holes();
    }

    /// Gives up the addresses of all slabs that are free and not resident.
    pub(crate) fn give_up_holes(&self) {
        self.retreat();
        while let Some(run) = self.core.lock().and_then(|mut core| core.lists.take_hole()) {
            self.has_holes.store(true, Relaxed);
            self.backend.abandon(span((run.0 * SLAB_GRANULES, run.1 * SLAB_GRANULES)));
        }
    }

    /// Gives up the addresses behind the last slab that is in use or resident.
    pub(crate) fn retreat(&self) {
        let Some(mut core) = self.core.lock() else { return };
        let Some(slabs) = core.retreat() else { return };
        drop(core);
        self.backend.cut(slabs);
        if let Some(mut core) = self.core.lock() {
            core.reached(None);
        }
    }
}
