//! The pool: requests in bytes on one side, a [`Backend`] on the other, one lock between.
//!
//! In: lengths and alignments. Out: offsets into the reserved range (inside this crate), from which `block` makes
//! memory where the backend has some. Zeroing and copying happen outside the lock.
//!
//! What it does not do: threads of its own, small blocks, a cache per thread.

use faultless_os::lock::Mutex;

use crate::backend::{Backend, Moved, Span};
use crate::class::{granules, run, runs};
use crate::core::Core;
use crate::lists::Lists;
use crate::policy::Policy;
use crate::policy::tuning::{GRANULE_BYTES, SLAB_GRANULES};
use crate::stats::Stats;

/// A pool of large blocks that keep their pages.
pub struct Pool<B: Backend> {
    core: Mutex<Core<B>>,
    pub(crate) backend: B,
    base: usize,
    len: usize,
}

/// A place for `count` granules and where the block came from.
type Relocation = (usize, usize, bool);

impl<B: Backend> Pool<B> {
    /// Reserves a range.
    ///
    /// # Errors
    /// The backend could not reserve anything worth having.
    pub fn open(backend: B, policy: Policy) -> crate::Result<Self> {
        let range = backend.reserve(policy.page)?;
        let lists = Lists::new(range.slabs, range.words, range.len / GRANULE_BYTES / SLAB_GRANULES);
        let core = Core::new(lists, policy, range.base);
        Ok(Self { core: Mutex::new(core), backend, base: range.base, len: range.len })
    }

    /// The addresses of the range: (start, length in bytes).
    pub fn range(&self) -> (usize, usize) {
        (self.base, self.len)
    }

    /// Gives up all addresses that were never used, for a process that is about to limit its address space. `publish`
    /// hears how long the range will be before the rest of it can become somebody else's.
    pub fn narrow(&self, publish: impl FnOnce(usize)) {
        if let Some(mut core) = self.core.lock() {
            let slabs = core.narrow();
            publish(slabs * SLAB_GRANULES * GRANULE_BYTES);
            self.backend.narrow(slabs);
        }
    }

    /// What the pool did so far. All zero while this thread holds the pool for `fork`.
    pub fn stats(&self) -> Stats {
        self.core.lock().map(|core| core.stats()).unwrap_or_default()
    }

    /// Call before `fork`: nothing changes until [`Pool::after_fork`].
    pub fn before_fork(&self) {
        self.core.hold();
    }

    /// Call after `fork`, in the parent and in the child.
    pub fn after_fork(&self) {
        self.core.let_go();
    }

    /// A block of at least `len` bytes aligned to `align` (a power of two).
    pub(crate) fn take(&self, len: usize, align: usize, zeroed: bool) -> Option<usize> {
        let (count, align) = (granules(len)?, align.div_ceil(GRANULE_BYTES).max(1));
        let (start, dirty) = self.core.lock()?.alloc(&self.backend, count, align, zeroed)?;
        if zeroed && dirty > 0 && !self.clear(start, count) {
            return None;
        }
        Some(start * GRANULE_BYTES)
    }

    /// Takes a block back; false if none begins there.
    pub(crate) fn give(&self, offset: usize) -> bool {
        let Some(start) = start_of(offset) else { return false };
        match self.core.lock() {
            Some(mut core) => core.free(&self.backend, start, false),
            None => true,
        }
    }

    /// The length in bytes of the block that begins at `offset`.
    pub(crate) fn len_at(&self, offset: usize) -> Option<usize> {
        let found = self.core.lock()?.block(start_of(offset)?)?;
        Some(found.count * GRANULE_BYTES)
    }

    /// Changes the length of a block; its offset afterwards. On `None` nothing changed.
    pub(crate) fn resize(&self, offset: usize, len: usize) -> Option<usize> {
        let (start, count) = (start_of(offset)?, granules(len)?);
        let mut core = self.core.lock()?;
        let old = core.block(start)?;
        if count <= old.count {
            if count < old.count {
                core.shrink(&self.backend, start, old, count);
            }
            return Some(offset);
        }
        if core.grow(&self.backend, start, old, count) {
            return Some(offset);
        }
        let to = core.alloc_grown(&self.backend, count, old.grown + 1)?;
        let by_pages = core.movable(start, old.count) && to % SLAB_GRANULES == 0;
        drop(core);
        self.relocate((start, old.count, by_pages), to)
    }

    /// Moves the content of a block that this thread owns to another one, and frees the first.
    fn relocate(&self, (start, count, by_pages): Relocation, to: usize) -> Option<usize> {
        let from = Span { offset: start * GRANULE_BYTES, len: count * GRANULE_BYTES };
        let moved = self.backend.relocate(from, to * GRANULE_BYTES, by_pages);
        let mut core = self.core.lock()?;
        match moved {
            Moved::Lost => {
                core.lose(to);
                return None;
            }
            Moved::Pages => {
                core.stats.grown_by_pages += 1;
                core.arrived(to, count);
            }
            Moved::Copied => core.stats.grown_by_copy += 1,
        }
        core.free(&self.backend, start, moved == Moved::Pages);
        Some(to * GRANULE_BYTES)
    }

    /// Zeroes the granules of a block that were dirty when it was taken.
    fn clear(&self, start: usize, count: usize) -> bool {
        for (slab, first, len) in Lists::<B::Slabs, B::Words>::pieces(start, count) {
            let Some(mut core) = self.core.lock() else { return false };
            let dirty = core.lists.slab(slab).taken_dirty(run(first, len));
            core.stats.cleared_bytes += (dirty.count_ones() as usize * GRANULE_BYTES) as u64;
            drop(core);
            for (at, len) in runs(dirty) {
                let offset = (slab * SLAB_GRANULES + at) * GRANULE_BYTES;
                self.backend.zero(Span { offset, len: len * GRANULE_BYTES });
            }
        }
        true
    }
}

impl<B: Backend> Drop for Pool<B> {
    fn drop(&mut self) {
        self.backend.release();
    }
}

fn start_of(offset: usize) -> Option<usize> {
    offset.is_multiple_of(GRANULE_BYTES).then_some(offset / GRANULE_BYTES)
}
