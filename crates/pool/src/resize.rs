//! Changing the length of a block: where it is, by moving page tables, or by copying.
//!
//! In: an offset and a length. Out: the offset afterwards. In the meantime the pool holds the block, so that a thread that
//! frees it by mistake is told so.
//!
//! What it does not do: shrink by moving, so a block that shrank keeps its place.

use std::sync::atomic::Ordering::Relaxed;

use crate::backend::{Backend, Moved};
use crate::blocks::Found;
use crate::class::granules;
use crate::core::{Core, Lack, Run};
use crate::policy::Scrub;
use crate::policy::tuning::{GRANULE_BYTES, GROWN_OFTEN, SLAB_GRANULES};
use crate::pool::{Pool, span, start_of};

impl<B: Backend> Pool<B> {
    /// Changes the length of a block; its offset afterwards. On `None` nothing changed.
    pub(crate) fn resize(&self, offset: usize, len: usize) -> Option<usize> {
        let (start, count) = (start_of(offset)?, granules(len).filter(|&count| count <= self.most)?);
        let old = self.blocks.seize(start).ok()?;
        let grown = old.grown + (count > old.count) as u32;
        let changed = if count <= old.count {
            self.shrink(start, old, count).then_some((start, false))
        } else {
            let grown = self.grow(start, old, count).map(|fresh| (start, fresh));
            grown.or_else(|| self.grow_elsewhere(start, old, count))
        };
        match changed {
            Some((start, fresh)) => {
                self.blocks.release(start, Found { count, grown, fresh: old.fresh | fresh });
                Some(start * GRANULE_BYTES)
            }
            None => {
                self.blocks.release(start, old);
                None
            }
        }
    }

    fn shrink(&self, start: usize, old: Found, count: usize) -> bool {
        let tail = (start + count, old.count - count);
        if tail.1 == 0 {
            return true;
        }
        // While this thread holds the pool for `fork` the content must stay too.
        if self.core.lock().is_none() {
            return false;
        }
        if self.is_altered(tail) {
            self.give_altered(tail);
            return true;
        }
        if self.is_checked(old.fresh, tail.1) {
            self.give_touched(tail);
            return true;
        }
        self.wipe(tail);
        let Some(mut core) = self.core.lock() else { return false };
        core.give(tail, false);
        self.gave(core, tail);
        true
    }

    /// Grows a block where it is, if what follows is free; whether some of that was not resident.
    fn grow(&self, start: usize, old: Found, count: usize) -> Option<bool> {
        let often = old.grown + 1 >= GROWN_OFTEN;
        let wanted = self.wanted(count - old.count, 1, false);
        let grown = self.served(|core, warm| match core.grow(start, old.count, count, often, wanted)? {
            Some(taken) => Ok(taken),
            // What follows may be in the front.
            None => Err(if warm { Lack::Warm } else { Lack::Place }),
        });
        let taken = grown?;
        self.settle(taken, count - old.count);
        Some(taken.fresh > 0)
    }

    /// Moves a block to a place where it can be longer; that place, and whether some of it was not resident.
    fn grow_elsewhere(&self, start: usize, old: Found, count: usize) -> Option<(usize, bool)> {
        let roomy = old.grown + 1 >= GROWN_OFTEN && count >= SLAB_GRANULES / 2 && self.is_roomy();
        let wanted = self.wanted(count, 1, false);
        let place = |roomy| {
            self.served(|core, warm| {
                let taken = match roomy {
                    true => core.alloc_roomy(count, wanted)?,
                    false => core.alloc(count, wanted, warm)?,
                };
                Ok((taken, taken.start % SLAB_GRANULES == 0 && core.movable(start, old.count)))
            })
        };
        let found = roomy.then(|| place(true)).flatten().or_else(|| place(false));
        let (taken, by_pages) = found.or_else(|| self.refused())?;
        self.settle(taken, count);
        let by_pages = by_pages && !self.confined.load(Relaxed) && !self.is_altered((start, old.count));
        let huge = by_pages && self.unify((start, old.count));
        let moved = self.backend.relocate(span((start, old.count)), taken.start * GRANULE_BYTES, by_pages);
        let is_empty = match moved {
            Moved::Copied => self.wipe_copied((start, old.count), old.fresh),
            Moved::Pages | Moved::Lost => true,
        };
        let is_altered = !is_empty && self.is_altered((start, old.count));
        let mut core = self.core.lock()?;
        match moved {
            Moved::Lost => {
                core.lose(count);
                self.has_holes.store(true, Relaxed);
                return None;
            }
            Moved::Pages => {
                core.stats.grown_by_pages += 1;
                core.arrived(taken.start, old.count, huge);
            }
            Moved::Copied => core.stats.grown_by_copy += 1,
        }
        self.blocks.clear(start);
        if is_altered {
            drop(core);
            self.give_altered((start, old.count));
        } else {
            core.give((start, old.count), is_empty);
            self.gave(core, (start, old.count));
        }
        Some((taken.start, taken.fresh > 0))
    }

    /// Makes one mapping of a run whose slabs have different advice, which the pages of only one mapping can move with; whether they take
    /// huge pages then. What most of them have counts.
    fn unify(&self, run: Run) -> bool {
        let slabs = run.1.div_ceil(SLAB_GRANULES);
        let first = run.0 / SLAB_GRANULES;
        let count = |core: &Core<B>| (first..first + slabs).filter(|&at| core.lists.slab(at).huge).count();
        let Some(huge) = self.core.lock().map(|core| count(&core)) else { return false };
        let is_huge = 2 * huge >= slabs;
        if self.backend.chooses_pages() && huge > 0 && huge < slabs {
            self.advise(first, first + slabs, is_huge);
        }
        is_huge && huge > 0
    }

    /// Zeroes where a block was, if the policy wants that; whether by giving it back: copying has touched all of it, so what the
    /// program had touched can't be told any more.
    fn wipe_copied(&self, run: Run, fresh: bool) -> bool {
        let is_sparse = self.policy.scrub == Scrub::OnFree && self.is_checked(fresh, run.1);
        let purged = is_sparse && self.backend.purge(span(run)).is_ok();
        if !purged {
            self.wipe(run);
        }
        purged
    }
}

#[cfg(test)]
mod tests {
    use crate::policy::tuning::{FLOOR_BYTES, SLAB_BYTES};
    use crate::{Fake, Policy, Pool};

    const LEN: usize = FLOOR_BYTES + 8 * SLAB_BYTES;

    #[cfg_attr(miri, ignore = "more memory than Miri likes")]
    #[test]
    fn what_a_block_leaves_behind_wants_a_keeper() {
        for new in [SLAB_BYTES, LEN + SLAB_BYTES] {
            let pool = Pool::open(Fake::new(3 * LEN / SLAB_BYTES), Policy::default()).unwrap();
            let mut block = pool.alloc(LEN).unwrap();
            block.fill(1);
            let offset = block.as_ptr().addr() - pool.range().0;
            std::mem::forget(block);
            let _neighbour = pool.alloc(SLAB_BYTES).unwrap();
            assert!(!pool.wants_keeper());
            assert_eq!(pool.resize(offset, new) == Some(offset), new < LEN);
            assert!(pool.wants_keeper(), "{new}");
        }
    }
}
