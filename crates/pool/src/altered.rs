//! Mappings that the program has changed inside its own blocks.
//!
//! In: the addresses of such a call: mprotect(2), mlock(2), madvise(2) that lasts, mmap(2) on top. Out: when what lies there is freed it
//! is mapped anew, so that the next block has no page that can't be written, is locked, or is missing in children.
//!
//! What it does not do: see the calls; whoever stands in for malloc tells of them.

use std::sync::atomic::Ordering::Relaxed;

use crate::backend::Backend;
use crate::core::Run;
use crate::lists::Lists;
use crate::policy::tuning::SLAB_BYTES;
use crate::pool::{Pool, span};

impl<B: Backend> Pool<B> {
    /// The program is about to change mappings inside its blocks, in a way that lasts: from now on these addresses are mapped anew when
    /// they are freed.
    pub fn altered(&self, address: usize, len: usize) {
        let (base, size) = self.range();
        let begin = address.saturating_sub(base) / SLAB_BYTES;
        let end = address.saturating_add(len).saturating_sub(base).min(size).div_ceil(SLAB_BYTES);
        let Some(mut core) = self.core.lock() else { return };
        for at in begin..end.min(core.lists.usable) {
            let slab = core.lists.slab_mut(at);
            if !slab.altered && slab.free() != u128::MAX {
                slab.altered = true;
                self.altered_slabs.fetch_add(1, Relaxed);
            }
        }
    }

    /// Whether part of a run may have been changed.
    #[inline]
    pub(crate) fn is_altered(&self, run: Run) -> bool {
        self.altered_slabs.load(Relaxed) > 0 && self.has_altered(run)
    }

    #[cold]
    fn has_altered(&self, run: Run) -> bool {
        let Some(core) = self.core.lock() else { return false };
        Lists::<B::Slabs, B::Words>::pieces(run.0, run.1).any(|(slab, ..)| core.lists.slab(slab).altered)
    }

    /// Takes back what is no longer used, where no block begins, and maps it anew. Where the kernel refuses, nobody ever gets it again.
    #[cold]
    pub(crate) fn give_altered(&self, run: Run) {
        let is_new = self.backend.renew(span(run)).is_ok();
        let Some(mut core) = self.core.lock() else { return };
        if !is_new {
            core.lose(run.1);
            self.has_holes.store(true, Relaxed);
            return;
        }
        core.give(run, true);
        core.arrived(run.0, run.1, false);
        for (at, ..) in Lists::<B::Slabs, B::Words>::pieces(run.0, run.1) {
            let slab = core.lists.slab_mut(at);
            // What else was used of it has been mapped anew before.
            if slab.altered && slab.free() == u128::MAX {
                slab.altered = false;
                self.altered_slabs.fetch_sub(1, Relaxed);
            }
        }
        self.gave(core, run);
        if !self.is_roomy() {
            self.give_up_holes();
        }
    }
}
