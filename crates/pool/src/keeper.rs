//! The keeper: one thread per pool that gives back what nobody needs, and works ahead of need where that is asked for.
//!
//! In: a pool that lives as long as the program. Out: calls of its chores, a few times per decay time, each outside every lock.
//! ```text
//! free: more is kept than is worth a thread -> wanted -> Pool::keep -> thread
//! every look: short of memory? -> all that is idle goes back at once
//!             else                -> what was unneeded for long goes back in parts (decay), what exceeds the bound at once
//!             a processor is idle? -> stock and scrub, between their watermarks
//! fresh memory is being touched? -> looks how, several times a millisecond (discover)
//! nothing left to do -> the thread ends, until free or alloc sees work (one comparison under the lock they hold)
//! ```
//! Who can have no thread (RLIMIT_NPROC, a namespace, a sandbox) has a pool as without a keeper: `free` gives back what
//! exceeds the bound.
//!
//! Fork: [`Pool::before_fork`] ends the keeper, so the child finds nothing half done and a program that counts its threads
//! before it forks finds those it made. What is idle goes back then, so that mostly no keeper is needed right after it either; where
//! there is still work both sides want one again, and whoever looks after the pool starts it: the parent at once.
//!
//! A child of vfork(2) has this memory while its parent waits, and starts none: the thread would be the child's, and end with it.
//!
//! What it does not do: measure memory bandwidth, for which there is no count without rights; running tasks and PSI stand for
//! it. See threads that a raw clone(2) makes or loses.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};

use faultless_os::lock::Mutex;
use faultless_os::pressure::{self, Group, Waiting};
use faultless_os::thread::{Background, Work, is_last};

use crate::backend::Backend;
use crate::decay::Decay;
use crate::discover::Lookout;
use crate::policy::tuning::{
    AHEAD_BYTES, CPU_WAITING, ERRAND_SLABS, FLOOR_BYTES, MEMORY_WAITING, NEAR_SHARE, SCRUB_STEPS, SLAB_BYTES,
    TICK_MIN_NS, TICK_NS, TICKS,
};
use crate::policy::{Policy, Prefault, Scrub};
use crate::pool::Pool;

/// The keeper's part of a pool.
#[derive(Debug)]
pub(crate) struct Keeper {
    thread: Background,
    /// Whether somebody saw work for a keeper that there is not.
    wanted: AtomicBool,
    /// Whether there will never be one.
    refused: AtomicBool,
    /// The process whose memory this is.
    owner: AtomicU32,
    /// What the keeper that was ended last remembered: a program that forks again and again gives its memory back all the same.
    left: Mutex<Option<Round>>,
}

impl Keeper {
    pub(crate) fn new() -> Self {
        Self {
            thread: Background::new(),
            wanted: AtomicBool::new(false),
            refused: AtomicBool::new(false),
            owner: AtomicU32::new(std::process::id()),
            left: Mutex::new(None),
        }
    }

    /// This is a child of `fork`, and its memory its own.
    pub(crate) fn inherit(&self) {
        self.owner.store(std::process::id(), Relaxed);
    }
}

/// What the machine allows at a look.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Signs {
    /// Somebody waits for memory, or the control group is near its limit.
    pub(crate) memory_is_short: bool,
    /// A processor has nothing to do.
    pub(crate) cpu_is_idle: bool,
}

/// What a keeper remembers from one look to the next.
#[derive(Debug)]
pub(crate) struct Round {
    decay: Decay,
    /// Looks so far: where work is done ahead of need there are several to a tick of the decay.
    looks: u64,
    /// Whether the stock of zeroed memory is being filled up to its high mark.
    scrubs: bool,
    /// When it looked last, in ns.
    looked_ns: u64,
    /// How often it had been woken then.
    seen: u32,
    /// Whether that left something to do later.
    is_left: bool,
}

impl Round {
    pub(crate) const fn new() -> Self {
        Self { decay: Decay::new(), looks: 0, scrubs: false, looked_ns: 0, seen: 0, is_left: false }
    }
}

/// The limits beyond which a pool calls for its keeper while that sleeps, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Watch {
    /// More than this is kept.
    pub(crate) kept_above: usize,
    /// Less than this is kept.
    pub(crate) kept_below: usize,
    /// Less than this is zeroed, of more that is kept.
    pub(crate) zeroed_below: usize,
}

impl Watch {
    /// It doesn't: the keeper is awake, or there is none.
    pub(crate) const NEVER: Self = Self { kept_above: usize::MAX, kept_below: 0, zeroed_below: 0 };

    /// What a policy lets a keeper do; nothing, and no keeper is ever wanted.
    pub(crate) fn of(policy: Policy) -> Self {
        let kept_above = if policy.retain.decay_ns.is_some() { floor(policy) } else { usize::MAX };
        let kept_below = if let Prefault::Ahead { low, .. } = policy.prefault { low } else { 0 };
        let zeroed_below = if let Scrub::Ahead { start, .. } = policy.scrub { start } else { 0 };
        Self { kept_above, kept_below, zeroed_below }
    }

    /// Whether the keeper is called where so many bytes are kept, so many of them zeroed.
    pub(crate) fn calls(self, kept: usize, zeroed: usize) -> bool {
        kept > self.kept_above || kept < self.kept_below || (zeroed < self.zeroed_below && kept > zeroed)
    }

    /// Whether anything is to be done ahead of need.
    fn is_ahead(self) -> bool {
        self.kept_below > 0 || self.zeroed_below > 0
    }
}

/// Bytes that do not decay: what is not worth a thread, and what was made resident on purpose.
fn floor(policy: Policy) -> usize {
    let stock = if let Prefault::Ahead { high, .. } = policy.prefault { high } else { 0 };
    FLOOR_BYTES.max(stock).max(policy.prewarm)
}

impl<B: Backend> Pool<B> {
    /// Whether there is work for a keeper and none to do it: call [`Pool::keep`].
    pub fn wants_keeper(&self) -> bool {
        self.keeper.wanted.load(Relaxed)
    }

    /// Ends the keeper, if there is one, and lets none begin before [`Pool::allow_keeper`], which has to follow if this is true:
    /// for a program that has to have one thread for a moment. Waits for the end of the step at hand.
    pub fn stop_keeper(&self) -> bool {
        // A handler of a signal may have interrupted the unlock that the keeper waits for.
        self.core.rouse();
        self.keeper.thread.stop()
    }

    /// After [`Pool::stop_keeper`]: there may be a keeper again, and one is wanted if there is work for it.
    pub fn allow_keeper(&self) {
        self.unattended();
        self.keeper.thread.allow();
    }

    /// From now on there is no keeper, for a program that forbids itself what keepers do.
    pub fn refuse_keeper(&self) {
        self.keeper.refused.store(true, Relaxed);
        self.keeper.wanted.store(false, Relaxed);
        if self.stop_keeper() {
            self.allow_keeper();
        }
    }

    /// From now on this process makes no system calls but those that every malloc makes, for a program that is about to lock
    /// itself in: no keeper, no questions to the kernel about what is resident or possible.
    pub fn confine(&self) {
        self.is_roomy();
        self.confined.store(true, Relaxed);
        self.refuse_keeper();
    }

    /// Whether a keeper could not be had or was dismissed for good.
    pub fn is_keeper_refused(&self) -> bool {
        self.keeper.refused.load(Relaxed)
    }

    /// Whether a keeper runs or sleeps.
    pub fn has_keeper(&self) -> bool {
        self.keeper.thread.is_started()
    }

    /// The pool has seen work: wakes the keeper, or asks for one.
    #[cold]
    pub(crate) fn call_keeper(&self) {
        self.front.watch(false);
        if !self.keeper.thread.wake() {
            self.keeper.wanted.store(!self.is_keeper_refused(), Relaxed);
        }
    }

    /// From now on `free` keeps the bound, and asks for a keeper when there is work for one.
    fn unattended(&self) {
        self.attend(false);
        if !self.watch(Watch::of(self.policy)) {
            self.call_keeper();
        }
    }

    /// One look at the pool; whether anything is left to do later.
    pub(crate) fn look(&self, round: &mut Round, signs: &dyn Fn() -> Signs) -> bool {
        let floor = floor(self.policy);
        self.trim();
        let is_tick = round.looks.is_multiple_of(self.looks_per_tick());
        round.looks += 1;
        round.looked_ns = self.backend.now();
        let is_short = signs().memory_is_short;
        let wanted = match self.policy.retain.decay_ns {
            _ if is_short => usize::MAX,
            Some(_) if is_tick => round.decay.tick(self.window(), floor),
            _ => 0,
        };
        let gone = self.give_back(wanted);
        round.decay.gone(gone);
        // What can't go back now, lying in partly used slabs, can't until more is freed: then the pool calls.
        let decays = Watch::of(self.policy).kept_above < usize::MAX && self.stats().retained_bytes > floor;
        let is_behind = !is_short && self.work_ahead(round, signs);
        (decays && (gone > 0 || wanted == 0)) || is_behind
    }

    /// How long to wait before the next look, if there has to be one: after a first one where something was left to do, or somebody has
    /// woken the keeper since, for the `seen`-th time.
    fn next_look(&self, round: &Round, seen: u32, now_ns: u64) -> Option<u64> {
        match round.looks {
            0 => Some(0),
            _ if !round.is_left && round.seen == seen => None,
            _ => Some((round.looked_ns + self.pause_ns()).saturating_sub(now_ns)),
        }
    }

    /// Gives back so many bytes of idle slabs, in steps; what went.
    fn give_back(&self, bytes: usize) -> usize {
        let mut gone = 0;
        while gone < bytes && !self.keeper.thread.must_stop() {
            let most = (bytes - gone).min(ERRAND_SLABS * SLAB_BYTES);
            match self.purge_idle(most) {
                0 => break,
                some => gone += some,
            }
        }
        gone
    }

    /// Works ahead of need, as long as a processor is idle; whether it had to leave off.
    fn work_ahead(&self, round: &mut Round, signs: &dyn Fn() -> Signs) -> bool {
        let watch = Watch { kept_above: usize::MAX, ..Watch::of(self.policy) };
        let mut done = 0;
        while watch.is_ahead() {
            let now = signs();
            let ends = self.keeper.thread.must_stop() || done >= AHEAD_BYTES;
            if !now.cpu_is_idle || now.memory_is_short || ends {
                let stats = self.stats();
                return watch.calls(stats.retained_bytes, stats.zeroed_bytes);
            }
            let scrubbed: usize = (0..SCRUB_STEPS).map(|_| self.scrub_ahead(round)).sum();
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
            _ => 0,
        }
    }

    fn scrub_ahead(&self, round: &mut Round) -> usize {
        let Scrub::Ahead { start, stop } = self.policy.scrub else { return 0 };
        let zeroed = self.stats().zeroed_bytes;
        round.scrubs = zeroed < start || (round.scrubs && zeroed < stop);
        if round.scrubs { self.scrub_step(SLAB_BYTES) } else { 0 }
    }

    /// What the machine says; `sighted`: whether files may be opened.
    fn signs(&self, sighted: bool) -> Signs {
        let waits =
            |waiting: Option<Waiting>, limit| waiting.is_some_and(|waiting| waiting >= Waiting(limit));
        let is_near = |group: Group| group.left_bytes() < group.limit_bytes / NEAR_SHARE;
        let is_ahead = Watch::of(self.policy).is_ahead();
        Signs {
            memory_is_short: sighted
                && (waits(pressure::memory(), MEMORY_WAITING)
                    || waits(pressure::group_memory(), MEMORY_WAITING)
                    || pressure::group().is_some_and(is_near)),
            cpu_is_idle: sighted
                && is_ahead
                && !waits(pressure::cpu(), CPU_WAITING)
                && pressure::idle_cpus().is_some_and(|idle| idle > 0),
        }
    }

    /// The time between two ticks of the decay.
    fn tick_ns(&self) -> u64 {
        self.policy.retain.decay_ns.map_or(TICK_NS, |decay| (decay / TICKS).max(TICK_MIN_NS))
    }

    /// The time between two looks.
    fn pause_ns(&self) -> u64 {
        self.tick_ns().checked_div(self.looks_per_tick()).unwrap_or(TICK_NS)
    }

    /// What the last keeper left, or a new beginning.
    fn resumed(&self) -> Round {
        let left = self.keeper.left.lock().and_then(|mut left| left.take());
        left.unwrap_or_else(|| {
            self.window();
            Round::new()
        })
    }

    /// A keeper has ended for `fork`. One that begins again right after it would be seen by a program that counts its threads then, as
    /// Python does; so what is idle goes back now.
    pub(crate) fn give_back_before_fork(&self) {
        self.purge_idle(self.stats().retained_bytes.saturating_sub(floor(self.policy)));
    }

    /// After `fork`: there may be a keeper again. One is wanted if more is left than the floor, and than what could not go before.
    pub(crate) fn allow_keeper_after_fork(&self) {
        self.attend(false);
        if !self.rest() {
            self.call_keeper();
        }
        self.keeper.thread.allow();
    }

    fn leave(&self, round: Round) {
        if let Some(mut left) = self.keeper.left.lock() {
            *left = Some(round);
        }
    }

    /// Looks per tick of the decay: a processor is not idle for long.
    fn looks_per_tick(&self) -> u64 {
        if Watch::of(self.policy).is_ahead() { (self.tick_ns() / TICK_NS).max(1) } else { 1 }
    }

    /// Lets the pool call when there is work again; false if there is already. What could not be done now can't be before more
    /// is freed.
    fn rest(&self) -> bool {
        let (stats, watch) = (self.stats(), Watch::of(self.policy));
        let kept_above = watch.kept_above.max(stats.retained_bytes);
        let watch = Watch { kept_above, ..watch };
        match watch.calls(stats.retained_bytes, stats.zeroed_bytes) {
            true => self.watch(Watch { kept_above: stats.retained_bytes, ..Watch::NEVER }),
            false => self.watch(watch),
        }
    }

    /// When to call the keeper from now on; false if that is now.
    fn watch(&self, watch: Watch) -> bool {
        let is_called = self.core.lock().is_none_or(|mut core| {
            core.watch = watch;
            self.front.watch(watch.kept_above < usize::MAX);
            core.calls(self.front.tally().held)
        });
        if is_called {
            self.front.watch(false);
        }
        !is_called
    }
}

impl<B: Backend + 'static> Pool<B>
where
    Self: Sync,
{
    /// Starts the keeper, unless there is one or can be none, or this is a child of vfork(2). errno may change.
    pub fn keep(&'static self) {
        if self.keeper.owner.load(Relaxed) != std::process::id() {
            return;
        }
        self.keeper.wanted.store(false, Relaxed);
        if !self.is_keeper_refused() && self.keeper.thread.start(self).is_err() {
            self.keeper.refused.store(true, Relaxed);
            self.unattended();
        }
    }
}

impl<B: Backend + 'static> Work for Pool<B>
where
    Self: Sync,
{
    fn work(&'static self) {
        let sighted = self.keeper.thread.settle();
        let mut round = self.resumed();
        let mut lookout = Lookout::default();
        self.attend(true);
        loop {
            let seen = self.keeper.thread.wakes();
            if self.keeper.thread.must_stop() {
                return self.leave(round);
            }
            let now_ns = self.backend.now();
            let touches_ns = self.watch_touches(&mut lookout, now_ns);
            let mut look_ns = self.next_look(&round, seen, now_ns);
            if look_ns == Some(0) {
                if sighted && is_last() {
                    return self.leave(round);
                }
                round.seen = seen;
                round.is_left = self.look(&mut round, &|| self.signs(sighted)) || !self.rest();
                look_ns = round.is_left.then(|| self.pause_ns());
            }
            match [touches_ns, look_ns].into_iter().flatten().min() {
                Some(pause_ns) => self.keeper.thread.sleep(seen, Some(pause_ns)),
                None if self.keeper.thread.retire(seen) => return self.attend(false),
                None => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::Fake;
    use crate::policy::Retain;
    use crate::policy::tuning::{GRANULE_BYTES, PARTS, QUIET_TICKS, SLAB_BYTES};

    const IDLE: Signs = Signs { memory_is_short: false, cpu_is_idle: true };
    const BUSY: Signs = Signs { memory_is_short: false, cpu_is_idle: false };
    const SHORT: Signs = Signs { memory_is_short: true, cpu_is_idle: true };
    const FLOOR: usize = FLOOR_BYTES / SLAB_BYTES;

    /// A pool that keeps that many slabs of free memory.
    fn keeping(slabs: usize, policy: Policy) -> Pool<Fake> {
        let pool = Pool::open(Fake::new(slabs + 1), policy).unwrap();
        pool.alloc(slabs * SLAB_BYTES).unwrap().fill(1);
        pool
    }

    fn looks(pool: &Pool<Fake>, round: &mut Round, signs: Signs, count: usize) -> bool {
        (0..count).fold(false, |_, _| pool.look(round, &|| signs))
    }

    fn kept(pool: &Pool<Fake>) -> usize {
        pool.stats().retained_bytes / SLAB_BYTES
    }

    #[cfg_attr(miri, ignore = "more memory than Miri likes")]
    #[test]
    fn what_nobody_needs_goes_down_to_the_floor_and_then_there_is_nothing_to_do() {
        let pool = keeping(FLOOR + 8, Policy::default());
        let mut round = Round::new();
        assert!(pool.wants_keeper(), "more is kept than the floor");
        assert!(looks(&pool, &mut round, BUSY, QUIET_TICKS), "it may still be needed");
        assert_eq!(kept(&pool), FLOOR + 8);
        looks(&pool, &mut round, BUSY, PARTS);
        assert_eq!(kept(&pool), FLOOR);
        assert!(!looks(&pool, &mut round, BUSY, 1));
        assert!(pool.rest());
    }

    #[cfg_attr(miri, ignore = "more memory than Miri likes")]
    #[test]
    fn a_small_program_never_wants_a_keeper() {
        assert!(!keeping(FLOOR, Policy::default()).wants_keeper());
        let never = Policy { retain: Retain { decay_ns: None, ..Retain::default() }, ..Policy::default() };
        assert!(!keeping(FLOOR + 8, never).wants_keeper());
    }

    #[cfg_attr(miri, ignore = "more memory than Miri likes")]
    #[test]
    fn what_lies_in_the_front_counts_and_decays_too() {
        let pool = Pool::open(Fake::new(2 * FLOOR), Policy::default()).unwrap();
        // What a block leaves that was fresh is looked at and goes behind the front.
        for _ in 0..2 {
            let blocks = [FLOOR - 1, 1, 1, 1].map(|slabs| pool.alloc(slabs * SLAB_BYTES).unwrap());
            for mut block in blocks {
                block.fill(1);
                drop(block);
            }
        }
        let stats = pool.stats();
        assert_eq!((kept(&pool), pool.front.tally().held * GRANULE_BYTES), (FLOOR + 2, 3 * SLAB_BYTES));
        assert!(pool.wants_keeper(), "{stats:?}");
        looks(&pool, &mut Round::new(), BUSY, 2 * PARTS);
        assert_eq!(kept(&pool), FLOOR);
    }

    #[cfg_attr(miri, ignore = "more memory than Miri likes")]
    #[test]
    fn when_memory_is_short_everything_idle_goes_at_once() {
        let pool = keeping(FLOOR + 8, Policy::default());
        assert!(!looks(&pool, &mut Round::new(), SHORT, 1));
        assert_eq!(kept(&pool), 0);
    }

    #[cfg_attr(miri, ignore = "more memory than Miri likes")]
    #[test]
    fn what_lies_in_partly_used_slabs_does_not_keep_the_keeper_awake() {
        let pool = Pool::open(Fake::new(2 * FLOOR + 2), Policy::default()).unwrap();
        let alloc = |len| {
            let mut block = pool.alloc(len).unwrap();
            block.fill(1);
            block
        };
        let parts = |_| [SLAB_BYTES / 8 * 7, SLAB_BYTES / 8].map(alloc);
        let (thick, thin): (Vec<_>, Vec<_>) = (0..2 * FLOOR).map(parts).map(|[a, b]| (a, b)).unzip();
        drop(thick);
        let mut round = Round::new();
        let slept = (0..4 * PARTS).any(|_| !pool.look(&mut round, &|| BUSY));
        assert!(slept && pool.rest());
        assert!(pool.stats().retained_bytes > FLOOR_BYTES);
        pool.keeper.wanted.store(false, Relaxed);
        drop(thin);
        pool.empty_front();
        drop(pool.alloc(2 * SLAB_BYTES));
        assert!(pool.wants_keeper(), "more is kept than when it went to sleep");
    }

    #[cfg_attr(miri, ignore = "more memory than Miri likes")]
    #[test]
    fn dirty_memory_is_zeroed_between_the_watermarks_on_an_idle_processor_only() {
        let scrub = Scrub::Ahead { start: 2 * SLAB_BYTES, stop: 4 * SLAB_BYTES };
        let pool = keeping(6, Policy { scrub, ..Policy::default() });
        let mut round = Round::new();
        assert!(pool.wants_keeper());
        assert!(looks(&pool, &mut round, BUSY, 1), "there is work, and no processor for it");
        assert_eq!(pool.stats().zeroed_bytes, 0);
        assert!(!looks(&pool, &mut round, IDLE, 1));
        assert_eq!(pool.stats().zeroed_bytes, 4 * SLAB_BYTES);
        assert!(pool.rest());
        let first = pool.alloc_zeroed(SLAB_BYTES);
        assert!(!looks(&pool, &mut round, IDLE, 1));
        assert_eq!(pool.stats().zeroed_bytes, 3 * SLAB_BYTES, "not below the lower mark");
        drop(first);
    }

    #[cfg_attr(miri, ignore = "more memory than Miri likes")]
    #[test]
    fn stock_is_filled_up_and_does_not_decay() {
        let prefault = Prefault::Ahead { low: SLAB_BYTES, high: (FLOOR + 4) * SLAB_BYTES };
        let pool = Pool::open(Fake::new(2 * FLOOR), Policy { prefault, ..Policy::default() }).unwrap();
        drop(pool.alloc(SLAB_BYTES / 2));
        assert!(pool.wants_keeper());
        let mut round = Round::new();
        assert!(!looks(&pool, &mut round, IDLE, 3 * QUIET_TICKS));
        assert!(kept(&pool) >= FLOOR + 4 && kept(&pool) <= FLOOR + 5, "{}", kept(&pool));
        assert!(pool.rest());
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

    #[test]
    fn watches_call_at_their_limits() {
        let watch = Watch { kept_above: 10, kept_below: 3, zeroed_below: 2 };
        assert!(!watch.calls(10, 2) && watch.calls(11, 2) && watch.calls(2, 2) && watch.calls(5, 1));
        assert!(!watch.calls(3, 3), "nothing is left to zero");
        assert!(!Watch::NEVER.calls(0, 0) && !Watch::NEVER.calls(usize::MAX, 0));
    }
}
