//! Limits on addresses and memory: RLIMIT_AS, RLIMIT_DATA, strict commit accounting, memory that is locked once it is
//! mapped.
//!
//! In: that there is such a limit. Out: a pool that retains little, maps no more than it needs, and unmaps purged
//! memory. So the program gets nearly as much memory as without a pool, also by other ways than malloc.
//!
//! The highest addresses go first, because the end of the range can be mapped again. Holes between blocks cannot:
//! somebody else may map them. The pool never reuses them, since there are plenty of new addresses.

use std::sync::atomic::Ordering::Relaxed;

use crate::backend::{Backend, Span};
use crate::front;
use crate::pool::Pool;
use crate::tuning::{GRANULE_BYTES, LIMITED_SHARE, SLAB_GRANULES};

impl<B: Backend> Pool<B> {
    /// Reads the limits on this process's addresses and private memory. If there are any, the pool retains less from
    /// now on and purges the excess. Call it again after a limit was changed. Not for the background thread.
    pub fn apply_limits(&self) {
        let Some(limit) = self.backend.limit_bytes() else { return };
        let is_stopped = self.stop_thread(); // what it is purging still counts against the limit
        let kept = self.policy.retain.bytes.min(limit / LIMITED_SHARE);
        let share = front::share(kept);
        self.front.limit(share);
        if let Some(mut core) = self.core.lock() {
            core.retain_at_most((kept - share) / GRANULE_BYTES);
        }
        self.limit_addresses();
        self.purge_to_bound();
        if is_stopped {
            self.allow_thread();
        }
    }

    /// Makes no more of the range usable than is needed: addresses are limited, or every mapping is resident at once
    /// (MCL_FUTURE of mlockall(2)).
    pub fn limit_addresses(&self) {
        self.limits_addresses.store(true, Relaxed);
        if let Some(mut core) = self.core.lock() {
            core.highest_first = true;
        }
        self.release_holes();
    }

    /// Keeps all pages where they are from now on, and gives none back: a registration cache knows their frames.
    pub fn keep(&self) {
        self.backend.keep();
    }

    /// Whether [`Pool::keep`] was called.
    pub fn keeps(&self) -> bool {
        self.backend.keeps()
    }

    /// Whether addresses, or the memory behind them, are limited: by a limit, by strict commit accounting, or because
    /// every mapping is resident at once.
    pub fn addresses_are_limited(&self) -> bool {
        !self.addresses_are_free()
    }

    /// Gives back all free memory and its addresses, because somebody could not get any. Not for the background thread.
    pub fn release_idle(&self) {
        let is_stopped = self.stop_thread(); // what it is purging is not given back yet
        self.purge_idle(usize::MAX);
        self.release_holes();
        if is_stopped {
            self.allow_thread();
        }
    }

    /// Gives up the addresses of all slabs that are free and not resident.
    pub(in crate::pool) fn release_holes(&self) {
        self.retreat();
        while let Some((begin, count)) = self.core.lock().and_then(|mut core| core.slabs.take_hole()) {
            self.has_holes.store(true, Relaxed);
            self.backend.abandon(Span::of((begin * SLAB_GRANULES, count * SLAB_GRANULES)));
        }
    }

    /// Gives up the addresses behind the last slab that is in use or resident.
    fn retreat(&self) {
        let Some(mut core) = self.core.lock() else { return };
        let Some(slabs) = core.retreat() else { return };
        drop(core);
        self.backend.cut(slabs);
        if let Some(mut core) = self.core.lock() {
            core.end_extending(None);
        }
    }
}
