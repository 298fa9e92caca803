//! The background thread: gives idle memory back, and prepares memory ahead of need if the policy says so.
//!
//! In: a pool that lives as long as the program. Out: a few rounds per decay time, each outside every lock.
//! ```text
//! free: more is retained than is worth a thread -> wanted -> Pool::start_thread -> thread
//! round: memory is short?         -> purges everything idle at once
//!        else                     -> purges what was idle for long in parts (decay), and what exceeds the bound at once
//!        a processor is idle?     -> stocks and scrubs, between the watermarks
//! fresh memory is being touched?  -> inspects it several times a millisecond (hugepages)
//! nothing left to do              -> the thread ends, until free or alloc finds work (one comparison under their lock)
//! last of the process, signalled? -> the thread ends: looked up every TICK_NS
//! ```
//! A process may be unable to have a thread: RLIMIT_NPROC, a namespace, a sandbox. Then `free` purges what exceeds the
//! bound, and nothing decays.
//!
//! Fork: [`Pool::before_fork`] ends the thread. So the child finds no half-done work, and a program that counts its
//! threads before it forks finds only its own. The pool also purges idle memory then, so that it rarely needs a thread
//! right after the fork. If work is left, parent and child each want a thread again, and their callers start it.
//!
//! A child of vfork(2) runs in its waiting parent's memory. It starts no thread, because the thread would end with the
//! child.
//!
//! Out of scope: threads that a raw clone(2) makes or loses.

use std::sync::atomic::Ordering::Relaxed;

use faultless_os::thread::{Work, has_signal, last_status};

use super::background::Progress;
use super::pressure::Pressure;
use crate::backend::Backend;
use crate::policy::{Prefault, Scrub};
use crate::pool::Pool;
use crate::pool::hugepages::Poll;
use crate::tuning::{
    AHEAD_BYTES, CLAIM_SLABS, GRANULE_BYTES, SCRUB_STEPS, SLAB_BYTES, TICK_MIN_NS, TICK_NS, TICKS,
};
use crate::wakeup::{Wakeup, floor_bytes};

impl<B: Backend> Pool<B> {
    /// Whether there is work for a background thread, and no thread: call [`Pool::start_thread`].
    pub fn wants_thread(&self) -> bool {
        self.background.wanted.load(Relaxed)
    }

    /// Ends the background thread, if there is one, and waits for its current step. None starts before
    /// [`Pool::allow_thread`], which the caller must call if this returns true.
    pub fn stop_thread(&self) -> bool {
        // A sandbox may forbid futex(2) as well.
        if self.is_thread_refused() && !self.has_thread() {
            return false;
        }
        // A signal handler may have interrupted the unlock that the thread waits for.
        self.core.rouse();
        self.background.thread.stop()
    }

    /// Permits a background thread again, after [`Pool::stop_thread`]. It is wanted if there is work.
    pub fn allow_thread(&self) {
        self.run_without_thread();
        self.background.thread.allow();
    }

    /// Ends the background thread for good.
    pub fn refuse_thread(&self) {
        self.background.refused.store(true, Relaxed);
        self.background.wanted.store(false, Relaxed);
        if self.stop_thread() {
            self.allow_thread();
        }
    }

    /// Restricts the pool to the system calls that every malloc makes, for a program that is about to confine itself.
    /// There is no background thread then.
    pub fn confine(&self) {
        self.addresses_are_free();
        self.refuse_thread();
        self.backend.confine();
    }

    /// Whether a background thread could not start, or was refused for good.
    pub fn is_thread_refused(&self) -> bool {
        self.background.refused.load(Relaxed)
    }

    /// Whether there is a background thread, working or asleep.
    pub fn has_thread(&self) -> bool {
        self.background.thread.is_started()
    }

    /// Wakes the background thread, or else asks for one.
    #[cold]
    pub(in crate::pool) fn wake_thread(&self) {
        self.front.meter(false);
        if !self.background.thread.wake() {
            self.background.wanted.store(!self.is_thread_refused(), Relaxed);
        }
    }

    /// Makes `free` keep the bound, and ask for a thread once there is work.
    fn run_without_thread(&self) {
        if !self.set_wakeup(Wakeup::of(self.policy)) {
            self.wake_thread();
        }
    }

    /// One round. Returns whether anything is left to do later.
    fn round(&self, progress: &mut Progress, pressure: &dyn Fn() -> Pressure) -> bool {
        let floor = floor_bytes(self.policy);
        let now = pressure();
        self.tell_group_left(now.group_left_bytes);
        self.purge_to_bound();
        let is_tick = progress.rounds.is_multiple_of(self.rounds_per_tick());
        progress.rounds += 1;
        progress.round_ns = self.backend.now();
        let is_short = now.memory_is_short;
        let excess = if is_short {
            usize::MAX
        } else if is_tick && self.policy.retain.decay_ns.is_some() {
            progress.decay.tick(self.idle_since_last_call(), floor)
        } else {
            0
        };
        let purged = self.purge_in_steps(excess);
        progress.decay.purged(purged);
        let wakeup = Wakeup::of(self.policy);
        // What the kernel refuses cannot go before more is freed. Then the pool wakes the thread.
        let decays = wakeup.decays() && self.stats().retained_bytes > floor;
        let is_behind = !is_short && self.work_ahead(progress, pressure);
        (decays && (purged > 0 || excess == 0)) || is_behind
    }

    /// Records what the control group leaves, for `free`: it opens no file.
    pub(in crate::pool) fn tell_group_left(&self, bytes: Option<u64>) {
        if let Some(mut core) = self.core.lock() {
            core.group_left = bytes.map(|bytes| bytes as usize / GRANULE_BYTES);
            self.narrow_front(&core);
        }
    }

    /// How long to wait before the next round; `None` if there need not be one. There is one if the last round left
    /// something to do, or if somebody has woken the thread since: `wakes` times in all.
    fn until_next_round(&self, progress: &Progress, wakes: u32, now_ns: u64) -> Option<u64> {
        match progress.rounds {
            0 => Some(0),
            _ if !progress.is_unfinished && progress.wakes == wakes => None,
            _ => Some((progress.round_ns + self.round_ns()).saturating_sub(now_ns)),
        }
    }

    /// Purges so many bytes of free memory, in steps. Returns the bytes purged.
    fn purge_in_steps(&self, bytes: usize) -> usize {
        let mut purged = 0;
        while purged < bytes && !self.background.thread.must_stop() {
            let most = (bytes - purged).min(CLAIM_SLABS * SLAB_BYTES);
            match self.purge_idle(most) {
                0 => break,
                some => purged += some,
            }
        }
        purged
    }

    /// Works ahead of need while a processor is idle. Returns whether it had to stop early.
    fn work_ahead(&self, progress: &mut Progress, pressure: &dyn Fn() -> Pressure) -> bool {
        let wakeup = Wakeup { retained_above: usize::MAX, ..Wakeup::of(self.policy) };
        let mut done = 0;
        while wakeup.is_ahead() {
            let now = pressure();
            let ends = self.background.thread.must_stop() || done >= AHEAD_BYTES;
            if !now.cpu_is_idle || now.memory_is_short || ends {
                let stats = self.stats();
                return wakeup.is_due(stats.retained_bytes, stats.zeroed_bytes);
            }
            let scrubbed: usize = (0..SCRUB_STEPS).map(|_| self.scrub_ahead(progress)).sum();
            match scrubbed + self.stock_ahead() {
                0 => return false,
                some => done += some,
            }
        }
        false
    }

    fn stock_ahead(&self) -> usize {
        match self.policy.prefault {
            Prefault::Ahead { low, high } => self.stock_step(low, high),
            Prefault::None | Prefault::Populate => 0,
        }
    }

    fn scrub_ahead(&self, progress: &mut Progress) -> usize {
        let Scrub::Ahead { start, stop } = self.policy.scrub else { return 0 };
        let zeroed = self.stats().zeroed_bytes;
        progress.scrubs = zeroed < start || (progress.scrubs && zeroed < stop);
        if progress.scrubs { self.scrub_step(SLAB_BYTES) } else { 0 }
    }

    /// The time between two ticks of the decay.
    fn tick_ns(&self) -> u64 {
        self.policy.retain.decay_ns.map_or(TICK_NS, |decay| (decay / TICKS).max(TICK_MIN_NS))
    }

    /// The time between two rounds.
    fn round_ns(&self) -> u64 {
        self.tick_ns().checked_div(self.rounds_per_tick()).unwrap_or(TICK_NS)
    }

    /// Work ahead of need takes several rounds per tick, because a processor is not idle for long.
    fn rounds_per_tick(&self) -> u64 {
        if Wakeup::of(self.policy).is_ahead() { (self.tick_ns() / TICK_NS).max(1) } else { 1 }
    }

    /// The progress of the last thread, or none.
    fn resumed(&self) -> Progress {
        self.background.saved().unwrap_or_else(|| {
            self.idle_since_last_call();
            Progress::new()
        })
    }

    /// Purges idle memory, after the thread has ended for `fork`. A thread that starts right after the fork would be
    /// counted by programs that count their threads then, as Python does.
    pub(in crate::pool) fn purge_before_fork(&self) {
        self.purge_idle(self.stats().retained_bytes.saturating_sub(floor_bytes(self.policy)));
    }

    /// Permits a background thread again, after `fork`. It is wanted if more is retained than the floor, and than what
    /// could not be purged before.
    pub(in crate::pool) fn allow_thread_after_fork(&self) {
        if !self.rest() {
            self.wake_thread();
        }
        self.background.thread.allow();
    }

    /// Arms the wakeup before the thread sleeps or ends; false if there is work already. What could not be purged now
    /// cannot be purged before more is freed.
    fn rest(&self) -> bool {
        let (stats, wakeup) = (self.stats(), Wakeup::of(self.policy));
        let retained_above = wakeup.retained_above.max(stats.retained_bytes);
        let wakeup = Wakeup { retained_above, ..wakeup };
        if wakeup.is_due(stats.retained_bytes, stats.zeroed_bytes) {
            self.set_wakeup(Wakeup { retained_above: stats.retained_bytes, ..Wakeup::NEVER })
        } else {
            self.set_wakeup(wakeup)
        }
    }

    /// Sets when to wake the thread; false if that is now.
    fn set_wakeup(&self, wakeup: Wakeup) -> bool {
        let is_due = self.core.lock().is_none_or(|mut core| {
            core.wakeup = wakeup;
            self.front.meter(wakeup.decays());
            core.wakes(self.front.tally().held)
        });
        if is_due {
            self.front.meter(false);
        }
        !is_due
    }
}

impl<B: Backend + 'static> Pool<B>
where
    Self: Sync,
{
    /// Starts the background thread, unless there is one, or none can be, or this is a child of vfork(2). errno may
    /// change.
    pub fn start_thread(&'static self) {
        if !self.background.is_owner() {
            return;
        }
        self.background.wanted.store(false, Relaxed);
        if !self.is_thread_refused() && self.background.thread.start(self).is_err() {
            self.background.refused.store(true, Relaxed);
            self.run_without_thread();
        }
    }
}

impl<B: Backend + 'static> Work for Pool<B>
where
    Self: Sync,
{
    fn work(&'static self) -> i32 {
        let thread = &self.background.thread;
        let may_read = thread.settle();
        let works_ahead = Wakeup::of(self.policy).is_ahead();
        let mut progress = self.resumed();
        let mut poll = Poll::default();
        let mut look_ns = 0;
        loop {
            let wakes = thread.wakes();
            if thread.must_stop() {
                self.background.save(progress);
                return 0;
            }
            let now_ns = self.backend.now();
            if may_read && now_ns >= look_ns {
                if let Some(status) = last_status() {
                    return status;
                }
                if has_signal() {
                    self.background.save(progress);
                    if thread.leave() {
                        self.run_without_thread();
                    }
                    return 0;
                }
                look_ns = now_ns + TICK_NS;
            }
            let poll_ns = self.poll_density(&mut poll, now_ns);
            let mut round_ns = self.until_next_round(&progress, wakes, now_ns);
            if round_ns == Some(0) {
                progress.wakes = wakes;
                let left = self.round(&mut progress, &|| Pressure::now(may_read, works_ahead));
                progress.is_unfinished = left || !self.rest();
                round_ns = progress.is_unfinished.then(|| self.round_ns());
            }
            match [poll_ns, round_ns].into_iter().flatten().min() {
                Some(pause_ns) => thread.sleep(wakes, Some(pause_ns.min(TICK_NS))),
                None if thread.retire(wakes) => return 0,
                None => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::Fake;
    use crate::policy::{Policy, Retain};
    use crate::tuning::{FLOOR_BYTES, PARTS, QUIET_TICKS, SLAB_BYTES, SLAB_GRANULES};

    const IDLE: Pressure = Pressure { memory_is_short: false, cpu_is_idle: true, group_left_bytes: None };
    const BUSY: Pressure = Pressure { cpu_is_idle: false, ..IDLE };
    const SHORT: Pressure = Pressure { memory_is_short: true, ..IDLE };
    const FLOOR: usize = FLOOR_BYTES / SLAB_BYTES;

    /// A pool that keeps that many slabs of free memory.
    fn keeping(slabs: usize, policy: Policy) -> Pool<Fake> {
        let pool = Pool::open(Fake::new(slabs + 1), policy).unwrap();
        pool.alloc(slabs * SLAB_BYTES).unwrap().fill(1);
        pool
    }

    fn rounds(pool: &Pool<Fake>, progress: &mut Progress, pressure: Pressure, count: usize) -> bool {
        (0..count).fold(false, |_, _| pool.round(progress, &|| pressure))
    }

    fn kept(pool: &Pool<Fake>) -> usize {
        pool.stats().retained_bytes / SLAB_BYTES
    }

    #[cfg_attr(miri, ignore = "more memory than Miri likes")]
    #[test]
    fn what_nobody_needs_goes_down_to_the_floor_and_then_there_is_nothing_to_do() {
        let pool = keeping(FLOOR + 8, Policy::default());
        let mut progress = Progress::new();
        assert!(pool.wants_thread(), "more is kept than the floor");
        assert!(rounds(&pool, &mut progress, BUSY, QUIET_TICKS), "it may still be needed");
        assert_eq!(kept(&pool), FLOOR + 8);
        rounds(&pool, &mut progress, BUSY, PARTS);
        assert_eq!(kept(&pool), FLOOR);
        assert!(!rounds(&pool, &mut progress, BUSY, 1));
        assert!(pool.rest());
    }

    #[cfg_attr(miri, ignore = "more memory than Miri likes")]
    #[test]
    fn a_small_program_never_wants_a_thread() {
        assert!(!keeping(FLOOR, Policy::default()).wants_thread());
        let never = Policy { retain: Retain { decay_ns: None, ..Retain::default() }, ..Policy::default() };
        assert!(!keeping(FLOOR + 8, never).wants_thread());
    }

    #[cfg_attr(miri, ignore = "more memory than Miri likes")]
    #[test]
    fn what_lies_in_the_front_counts_and_decays_too() {
        let pool = Pool::open(Fake::new(2 * FLOOR), Policy::default()).unwrap();
        // Fresh memory of an ended block is inspected and bypasses the front.
        for _ in 0..2 {
            let blocks = [FLOOR - 1, 1, 1, 1].map(|slabs| pool.alloc(slabs * SLAB_BYTES).unwrap());
            for mut block in blocks {
                block.fill(1);
                drop(block);
            }
        }
        let stats = pool.stats();
        assert_eq!((kept(&pool), pool.front.tally().held * GRANULE_BYTES), (FLOOR + 2, 3 * SLAB_BYTES));
        assert!(pool.wants_thread(), "{stats:?}");
        rounds(&pool, &mut Progress::new(), BUSY, 2 * PARTS);
        assert_eq!(kept(&pool), FLOOR);
    }

    #[cfg_attr(miri, ignore = "more memory than Miri likes")]
    #[test]
    fn when_memory_is_short_everything_idle_goes_at_once() {
        let pool = keeping(FLOOR + 8, Policy::default());
        assert!(!rounds(&pool, &mut Progress::new(), SHORT, 1));
        assert_eq!(kept(&pool), 0);
    }

    #[cfg_attr(miri, ignore = "more memory than Miri likes")]
    #[test]
    fn what_a_control_group_may_need_is_the_kernels() {
        let pool = keeping(FLOOR + 8, Policy::default());
        let near = Pressure { group_left_bytes: Some(32 * SLAB_BYTES as u64), ..BUSY };
        rounds(&pool, &mut Progress::new(), near, 1);
        let counts =
            || pool.core.lock().map(|core| (core.held() / SLAB_GRANULES, core.offered / SLAB_GRANULES));
        assert_eq!((kept(&pool), counts()), (FLOOR + 8, Some((2, FLOOR + 6))), "a sixteenth is held");
        pool.alloc(5 * SLAB_BYTES).unwrap().fill(1);
        assert_eq!(kept(&pool), FLOOR + 8);
        assert!(counts().is_some_and(|(held, _)| held <= 2), "also when it comes back from use");
        rounds(&pool, &mut Progress::new(), BUSY, 1);
        pool.alloc(5 * SLAB_BYTES).unwrap().fill(1);
        assert!(counts().is_some_and(|(held, _)| held >= 5), "without a limit it is held again");
        rounds(&pool, &mut Progress::new(), SHORT, 1);
        assert_eq!(counts(), Some((0, 0)));
    }

    #[cfg_attr(miri, ignore = "more memory than Miri likes")]
    #[test]
    fn what_the_kernel_refuses_does_not_keep_the_thread_awake() {
        let fake = Fake::new(2 * FLOOR + 2);
        fake.refuse_purge();
        let pool = Pool::open(fake, Policy::default()).unwrap();
        let alloc = |len| {
            let mut block = pool.alloc(len).unwrap();
            block.fill(1);
            block
        };
        let parts = |_| [SLAB_BYTES / 8 * 7, SLAB_BYTES / 8].map(alloc);
        let (thick, thin): (Vec<_>, Vec<_>) = (0..2 * FLOOR).map(parts).map(|[a, b]| (a, b)).unzip();
        drop(thick);
        let mut progress = Progress::new();
        let slept = (0..4 * PARTS).any(|_| !pool.round(&mut progress, &|| BUSY));
        assert!(slept && pool.rest());
        assert!(pool.stats().retained_bytes > FLOOR_BYTES);
        pool.background.wanted.store(false, Relaxed);
        drop(thin);
        pool.empty_front();
        drop(pool.alloc(2 * SLAB_BYTES));
        assert!(pool.wants_thread(), "more is kept than when it went to sleep");
    }

    #[cfg_attr(miri, ignore = "more memory than Miri likes")]
    #[test]
    fn dirty_memory_is_zeroed_between_the_watermarks_on_an_idle_processor_only() {
        let scrub = Scrub::Ahead { start: 2 * SLAB_BYTES, stop: 4 * SLAB_BYTES };
        let pool = keeping(6, Policy { scrub, ..Policy::default() });
        let mut progress = Progress::new();
        assert!(pool.wants_thread());
        assert!(rounds(&pool, &mut progress, BUSY, 1), "there is work, and no processor for it");
        assert_eq!(pool.stats().zeroed_bytes, 0);
        assert!(!rounds(&pool, &mut progress, IDLE, 1));
        assert_eq!(pool.stats().zeroed_bytes, 4 * SLAB_BYTES);
        assert!(pool.rest());
        let first = pool.alloc_zeroed(SLAB_BYTES);
        assert!(!rounds(&pool, &mut progress, IDLE, 1));
        assert_eq!(pool.stats().zeroed_bytes, 3 * SLAB_BYTES, "not below the lower mark");
        drop(first);
    }

    #[test]
    fn a_block_is_zero_as_soon_as_it_is_freed_where_that_is_asked_for() {
        let policy = Policy { scrub: Scrub::OnFree, ..Policy::default() };
        let pool = Pool::open(Fake::new(2), policy).unwrap();
        let mut secret = pool.alloc(SLAB_BYTES / 4).unwrap();
        secret.fill(7);
        drop(secret);
        assert!(*pool.alloc(SLAB_BYTES / 4).unwrap() == vec![0; SLAB_BYTES / 4][..]);
    }
}
