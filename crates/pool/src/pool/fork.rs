//! `fork`: the pool's lock is held across it, and children do not get free memory.
//!
//! In: the three moments of pthread_atfork(3). Out: a child whose pool is consistent. Copying the page tables of a
//! large idle pool takes milliseconds, and every page that the parent writes afterwards is a CoW fault. So wholly free
//! slabs are withheld from the child, which maps their addresses anew: they are Reserved there.
//!
//! Out of scope: memory that another thread was freeing or purging at that moment. It stays in use in the
//! child. Only here are system calls made under the lock.

use std::sync::atomic::Ordering::Relaxed;

use crate::backend::{Backend, Span};
use crate::class::Run;
use crate::core::Core;
use crate::pool::Pool;
use crate::slabs::{Counts, Map, Slab};
use crate::tuning::{GRANULE_BYTES, SLAB_BYTES, SLAB_GRANULES, WITHHOLD_BYTES, WITHHOLD_RUNS};

/// The state of a withheld run after `fork`.
enum After {
    Retained,
    Renewed,
    Lost,
}

impl<B: Backend> Pool<B> {
    /// Call before `fork`. Until one of the two calls after it, nothing behind the front changes and there is no
    /// background thread.
    ///
    /// It does nothing in a signal handler that interrupted this pool: in the child the same thread continues in the
    /// pool.
    pub fn before_fork(&self) {
        if self.core.is_mine() {
            return;
        }
        let had_thread = self.has_thread();
        self.stop_thread();
        if had_thread {
            self.purge_before_fork();
        }
        self.empty_front();
        let Some(mut core) = self.core.lock() else { return };
        core.withheld = !self.backend.keeps() && core.retained_slabs() * SLAB_BYTES >= WITHHOLD_BYTES;
        if core.withheld {
            core.each_withheld(|core, run| {
                // If the kernel refuses, the child gets the pages and drops them.
                if self.backend.withhold(Span::of(run)).is_ok() {
                    core.stats.withheld_bytes += (run.1 * GRANULE_BYTES) as u64;
                }
            });
        }
        core.hold();
    }

    /// Call after `fork` in the parent.
    pub fn after_fork_in_parent(&self) {
        if let Some(mut core) = self.core.resume() {
            self.end_fork(&mut core, |run| match self.backend.share(Span::of(run)) {
                Ok(()) => After::Retained,
                // By the next fork this memory may be in use, and that child must get it.
                Err(_) => self.renew(run),
            });
        }
        self.allow_thread_after_fork();
    }

    /// Call after `fork` in the child.
    pub fn after_fork_in_child(&self) {
        self.background.inherit();
        self.front.recount();
        if let Some(mut core) = self.core.resume() {
            // The thread that was extending the range is not in this process, and may or may not have done so. The
            // range ends at its known end.
            if std::mem::take(&mut core.is_extending) {
                core.slabs.count = core.slabs.usable;
            }
            self.end_fork(&mut core, |run| self.renew(run));
        }
        self.allow_thread_after_fork();
    }

    fn renew(&self, run: Run) -> After {
        if self.backend.renew(Span::of(run)).is_ok() { After::Renewed } else { After::Lost }
    }

    fn end_fork(&self, core: &mut Core<B>, mut each: impl FnMut(Run) -> After) {
        if !std::mem::take(&mut core.withheld) {
            return;
        }
        core.each_withheld(|core, run| match each(run) {
            After::Retained => {}
            After::Renewed => core.renewed(run),
            After::Lost => {
                self.has_holes.store(true, Relaxed);
                let counts = core.slabs.change(run, Slab::take);
                core.retain_less(counts);
            }
        });
    }
}

impl<B: Backend> Core<B> {
    fn retained_slabs(&self) -> usize {
        let runs = std::iter::successors(self.retained_run(0), |&(_, end)| self.retained_run(end));
        runs.take(WITHHOLD_RUNS).map(|(begin, end)| end - begin).sum()
    }

    /// The first run of retained slabs from a slab on, as (begin, end).
    fn retained_run(&self, from: usize) -> Option<(usize, usize)> {
        let top = self.slabs.top;
        let begin = self.slabs.seek(Map::Retained, true, from, top);
        (begin < top).then(|| (begin, self.slabs.seek(Map::Retained, false, begin, top)))
    }

    /// Calls `each` with every withheld run. While the lock is held, these are the same runs each time, whatever `each`
    /// does.
    fn each_withheld(&mut self, mut each: impl FnMut(&mut Self, Run)) {
        let mut from = 0;
        for _ in 0..WITHHOLD_RUNS {
            let Some((begin, end)) = self.retained_run(from) else { return };
            each(self, (begin * SLAB_GRANULES, (end - begin) * SLAB_GRANULES));
            from = end;
        }
    }

    /// Records that free slabs lost their pages and are a mapping of their own now.
    fn renewed(&mut self, run: Run) {
        let counts = self.slabs.change(run, Slab::claim);
        self.retain_less(counts);
        self.slabs.change(run, |slab, mask| {
            slab.purged(mask);
            Counts::default()
        });
        self.arrived(run, false);
    }
}
