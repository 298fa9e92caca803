//! The pool: requests in bytes on one side, a [`Backend`] on the other, one lock between.
//!
//! In: lengths and alignments. Out: offsets into the reserved range (inside this crate), from which `block` makes
//! memory where the backend has some. Whatever the backend has to do for it, in front or behind, happens outside the lock:
//! the granules concerned are taken or claimed meanwhile, so nobody waits for a system call of another thread.
//!
//! What it does not do: threads of its own, small blocks, a cache per thread.

use std::sync::atomic::{AtomicU8, Ordering::Relaxed};

use faultless_os::lock::Mutex;

use crate::backend::{Backend, Moved, Span};
use crate::class::{granules, run, runs};
use crate::core::{Core, Lack, Run, Taken};
use crate::lists::Lists;
use crate::policy::tuning::{GRANULE_BYTES, GROWN_OFTEN, SLAB_GRANULES};
use crate::policy::{Policy, Prefault};
use crate::stats::Stats;

/// A pool of large blocks that keep their pages.
pub struct Pool<B: Backend> {
    pub(crate) core: Mutex<Core<B>>,
    pub(crate) backend: B,
    prefault: Prefault,
    /// Whether addresses are free of charge; 0 before anybody asked.
    roomy: AtomicU8,
    base: usize,
    len: usize,
}

const ROOMY: u8 = 1;
const NOT_ROOMY: u8 = 2;

impl<B: Backend> Pool<B> {
    /// Reserves a range.
    ///
    /// # Errors
    /// The backend could not reserve anything worth having.
    pub fn open(backend: B, policy: Policy) -> crate::Result<Self> {
        let range = backend.reserve(policy.page)?;
        let lists = Lists::new(range.slabs, range.words, range.len / GRANULE_BYTES / SLAB_GRANULES);
        let core = Mutex::new(Core::new(lists, policy, range.base));
        let (prefault, roomy) = (policy.prefault, AtomicU8::new(0));
        Ok(Self { core, backend, prefault, roomy, base: range.base, len: range.len })
    }

    /// The addresses of the range: (start, length in bytes).
    pub fn range(&self) -> (usize, usize) {
        (self.base, self.len)
    }

    /// Gives up all addresses that were never used, for a process that is about to limit its address space. `publish`
    /// hears how long the range will be before the rest of it can become somebody else's. Nothing is given up while another
    /// thread is making more of it usable.
    pub fn narrow(&self, publish: impl FnOnce(usize)) {
        let Some(mut core) = self.core.lock() else { return };
        let Some(slabs) = core.narrow() else { return };
        publish(slabs * SLAB_GRANULES * GRANULE_BYTES);
        drop(core);
        self.backend.narrow(slabs);
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
        let taken = self.served(|core| core.alloc(count, align, zeroed)).or_else(|| self.refused())?;
        self.settle(taken, count);
        if zeroed && taken.dirty > 0 && !self.clear(taken.start, count) {
            return None;
        }
        Some(taken.start * GRANULE_BYTES)
    }

    /// Takes a block back; false if none begins there.
    pub(crate) fn give(&self, offset: usize) -> bool {
        let Some(start) = start_of(offset) else { return false };
        let Some(mut core) = self.core.lock() else { return true };
        let Some(freed) = core.free(start, false) else { return false };
        let excess = core.keeps_too_much();
        drop(core);
        if excess {
            self.purge_excess(freed);
        }
        true
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
            let excess = count < old.count && core.shrink(start, old, count);
            drop(core);
            if excess {
                self.purge_excess((start + count, old.count - count));
            }
            return Some(offset);
        }
        drop(core);
        if let Some(Some(taken)) = self.served(|core| core.grow(start, old, count)) {
            self.settle(taken, count - old.count);
            return Some(offset);
        }
        let grown = old.grown + 1;
        let roomy = grown >= GROWN_OFTEN && count >= SLAB_GRANULES / 2 && self.is_roomy();
        let place = |roomy| {
            self.served(|core| {
                let taken = core.alloc_grown(count, grown, roomy)?;
                Ok((taken, taken.start % SLAB_GRANULES == 0 && core.movable(start, old.count)))
            })
        };
        let found = roomy.then(|| place(true)).flatten().or_else(|| place(false));
        let (taken, by_pages) = found.or_else(|| self.refused())?;
        self.settle(taken, count);
        self.relocate((start, old.count), taken.start, by_pages)
    }

    /// What `attempt` finds, with as much of the range made usable as it takes.
    pub(crate) fn served<T>(&self, mut attempt: impl FnMut(&mut Core<B>) -> Result<T, Lack>) -> Option<T> {
        loop {
            let mut core = self.core.lock()?;
            let (from, to, least) = match attempt(&mut core) {
                Ok(found) => return Some(found),
                Err(Lack::Place) => return None,
                Err(Lack::Usable { from, to, least }) => (from, to, least),
            };
            drop(core);
            let reached = [to, least].into_iter().find(|&to| self.backend.extend(from, to).is_ok());
            self.core.lock()?.reached(reached);
            reached?;
        }
    }

    fn refused<T>(&self) -> Option<T> {
        self.core.lock()?.stats.refused += 1;
        None
    }

    fn is_roomy(&self) -> bool {
        if self.roomy.load(Relaxed) == 0 {
            self.roomy.store(if self.backend.is_roomy() { ROOMY } else { NOT_ROOMY }, Relaxed);
        }
        self.roomy.load(Relaxed) == ROOMY
    }

    /// What is left to do for `count` granules that were just taken.
    fn settle(&self, taken: Taken, count: usize) {
        if self.prefault == Prefault::Populate && taken.fresh > 0 {
            self.populate(Span { offset: taken.start * GRANULE_BYTES, len: count * GRANULE_BYTES });
        }
        if taken.excess {
            self.purge_excess((taken.start, 0));
        }
    }

    /// Moves the content of a block that this thread owns to another one, and frees the first.
    fn relocate(&self, (start, count): Run, to: usize, by_pages: bool) -> Option<usize> {
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
        let freed = core.free(start, moved == Moved::Pages);
        let excess = core.keeps_too_much();
        drop(core);
        if let Some(freed) = freed.filter(|_| excess) {
            self.purge_excess(freed);
        }
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
