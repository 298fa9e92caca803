//! `fork`: the lock is held over it, and children do not get what is free.
//!
//! In: the three moments of pthread_atfork(3). Out: a child that finds the pool whole. Copying the page tables of a large
//! idle pool takes milliseconds, and every page written afterwards is a CoW fault in the parent; so while it forks, wholly
//! free slabs are withheld. The child maps those addresses anew: they are Reserved there.
//!
//! What it does not do: give back what another thread was about to free or purge at that moment; that memory is in use in
//! the child for ever. Here alone are system calls made under the lock.

use std::sync::atomic::Ordering::Relaxed;

use crate::backend::Backend;
use crate::core::{Core, Run};
use crate::lists::Map;
use crate::policy::tuning::{GRANULE_BYTES, SLAB_BYTES, SLAB_GRANULES, WITHHOLD_BYTES, WITHHOLD_RUNS};
use crate::pool::{Pool, span};
use crate::state::{Counts, Slab};

/// What became of a withheld run after `fork`.
enum After {
    Kept,
    Renewed,
    Lost,
}

impl<B: Backend> Pool<B> {
    /// Call before `fork`: nothing behind the front changes until one of the two calls after it, and there is no keeper.
    ///
    /// Without effect in a signal handler that interrupted this pool: the same thread goes on in the child where it was.
    pub fn before_fork(&self) {
        if self.core.is_mine() {
            return;
        }
        let was_kept = self.has_keeper();
        self.stop_keeper();
        if was_kept {
            self.give_back_before_fork();
        }
        self.empty_front();
        let Some(mut core) = self.core.lock() else { return };
        core.withheld = core.warm_slabs() * SLAB_BYTES >= WITHHOLD_BYTES;
        if core.withheld {
            core.each_withheld(|core, run| {
                // Where the kernel refuses, the child gets the pages and drops them.
                if self.backend.withhold(span(run)).is_ok() {
                    core.stats.withheld_bytes += (run.1 * GRANULE_BYTES) as u64;
                }
            });
        }
        core.hold();
    }

    /// Call after `fork` in the parent.
    pub fn after_fork_in_parent(&self) {
        if let Some(mut core) = self.core.resume() {
            self.end_fork(&mut core, |run| match self.backend.share(span(run)) {
                Ok(()) => After::Kept,
                // Another child must not miss what will be in use by then.
                Err(_) => self.renew(run),
            });
        }
        self.allow_keeper_after_fork();
    }

    /// Call after `fork` in the child.
    pub fn after_fork_in_child(&self) {
        self.keeper.inherit();
        self.front.recount();
        if let Some(mut core) = self.core.resume() {
            // Whoever was making more of the range usable is not in this process, and may have done so or not:
            // its range ends where it is known to.
            if std::mem::take(&mut core.is_reaching) {
                core.lists.count = core.lists.usable;
            }
            self.end_fork(&mut core, |run| self.renew(run));
        }
        self.allow_keeper_after_fork();
    }

    fn renew(&self, run: Run) -> After {
        if self.backend.renew(span(run)).is_ok() { After::Renewed } else { After::Lost }
    }

    fn end_fork(&self, core: &mut Core<B>, mut each: impl FnMut(Run) -> After) {
        if !std::mem::take(&mut core.withheld) {
            return;
        }
        core.each_withheld(|core, run| match each(run) {
            After::Kept => {}
            After::Renewed => core.renewed(run),
            After::Lost => {
                self.has_holes.store(true, Relaxed);
                let counts = core.lists.change(run, Slab::take);
                core.keep_less(counts);
            }
        });
    }
}

impl<B: Backend> Core<B> {
    fn warm_slabs(&self) -> usize {
        let runs = std::iter::successors(self.warm_run(0), |&(_, end)| self.warm_run(end));
        runs.take(WITHHOLD_RUNS).map(|(begin, end)| end - begin).sum()
    }

    /// The first run of warm slabs from a slab on: where it begins and ends.
    fn warm_run(&self, from: usize) -> Option<(usize, usize)> {
        let top = self.lists.top;
        let begin = self.lists.seek(Map::Warm, true, from, top);
        (begin < top).then(|| (begin, self.lists.seek(Map::Warm, false, begin, top)))
    }

    /// Calls with each run that is withheld: the same ones each time while the lock is held, whatever is done to them.
    fn each_withheld(&mut self, mut each: impl FnMut(&mut Self, Run)) {
        let mut from = 0;
        for _ in 0..WITHHOLD_RUNS {
            let Some((begin, end)) = self.warm_run(from) else { return };
            each(self, (begin * SLAB_GRANULES, (end - begin) * SLAB_GRANULES));
            from = end;
        }
    }

    /// The pages of free slabs are gone, and they are a mapping of their own.
    fn renewed(&mut self, run: Run) {
        let counts = self.lists.change(run, Slab::claim);
        self.keep_less(counts);
        self.lists.change(run, |slab, mask| {
            slab.purged(mask);
            Counts::default()
        });
        self.arrived(run.0, run.1, false);
    }
}
