//! Altered mappings: pages of blocks that the program has protected, locked, advised or replaced.
//!
//! In: the addresses of such a call: mprotect(2), mlock(2), a lasting madvise(2), mmap(2) on top. Out: the pool maps
//! them anew when they are freed. So the next block has no page that is write-protected, locked, or missing in
//! children.
//!
//! Out of scope: seeing the calls. The malloc interposer reports them.

use std::sync::atomic::Ordering::Relaxed;

use crate::backend::{Backend, Span};
use crate::class::{Run, pieces};
use crate::pool::Pool;
use crate::tuning::SLAB_BYTES;

impl<B: Backend> Pool<B> {
    /// Records that the program is about to change mappings inside its blocks in a lasting way.
    pub fn mark_altered(&self, address: usize, len: usize) {
        let (base, size) = self.range();
        let begin = address.saturating_sub(base) / SLAB_BYTES;
        let end = address.saturating_add(len).saturating_sub(base).min(size).div_ceil(SLAB_BYTES);
        let Some(mut core) = self.core.lock() else { return };
        for at in begin..end.min(core.slabs.usable) {
            let slab = core.slabs.slab_mut(at);
            if !slab.altered && !slab.is_idle() {
                slab.altered = true;
                self.altered_slabs.fetch_add(1, Relaxed);
            }
        }
    }

    /// Whether part of a run may be altered.
    #[inline]
    pub(super) fn is_altered(&self, run: Run) -> bool {
        self.altered_slabs.load(Relaxed) > 0 && self.has_altered(run)
    }

    #[cold]
    fn has_altered(&self, run: Run) -> bool {
        let Some(core) = self.core.lock() else { return false };
        pieces(run).any(|(slab, ..)| core.slabs.slab(slab).altered)
    }

    /// Frees a run in which no block begins, and maps it anew. If the kernel refuses, nobody ever gets the run again.
    #[cold]
    pub(super) fn free_altered(&self, run: Run) {
        let is_new = self.backend.renew(Span::of(run)).is_ok();
        let Some(mut core) = self.core.lock() else { return };
        if !is_new {
            core.lose(run.1);
            self.has_holes.store(true, Relaxed);
            return;
        }
        core.give(run, true);
        core.arrived(run, false);
        for (at, ..) in pieces(run) {
            let slab = core.slabs.slab_mut(at);
            // Every other run of an idle slab has been mapped anew before.
            if slab.altered && slab.is_idle() {
                slab.altered = false;
                self.altered_slabs.fetch_sub(1, Relaxed);
            }
        }
        self.after_free(core);
        if !self.addresses_are_free() {
            self.release_holes();
        }
    }
}
