//! A futex mutex that can be held across `fork`.
//!
//! In: a value. Out: a guard. It never allocates or panics, and has no poisoning and no thread-local state,
//! so a malloc can use it. [`Mutex::hold`] takes it for the time of a `fork`. [`Mutex::resume`] gets it back,
//! in the parent and in the child.
//!
//! It does not offer fairness, time limits or recursion.
//!
//! The three states of the word follow Ulrich Drepper, "Futexes Are Tricky" (2011), section "Mutex, Take 2".
//! The word also names the owner, so a thread always knows whether it has the lock, even in a signal handler
//! that interrupted it.

use std::cell::UnsafeCell;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{
    AtomicBool, AtomicU32,
    Ordering::{Acquire, Relaxed, Release},
};

use crate::futex;
use crate::processor::thread_pointer;

const FREE: u32 = 0;
/// Flag beside the owner: a thread may be sleeping.
const AWAITED: u32 = 1;

/// How often a taken lock is checked before sleeping. A sleep and its wake-up cost some 5 us, the sections
/// that this lock guards some 50 ns. 100 checks take about 3 us (measured on x86-64).
const SPINS: u32 = 100;

/// A mutual exclusion lock around a value.
#[derive(Debug)]
pub struct Mutex<T> {
    /// [`FREE`], or the owner, see [`me`], with or without [`AWAITED`].
    word: AtomicU32,
    /// Whether it is held for `fork`; then there is no guard.
    held: AtomicBool,
    value: UnsafeCell<T>,
}

// SAFETY: the value is reached by one thread at a time, the one that has the guard, so T: Send is enough.
unsafe impl<T: Send> Sync for Mutex<T> {}

/// The right to use the value; dropping it unlocks.
#[derive(Debug)]
pub struct Guard<'a, T>(&'a Mutex<T>);

impl<T> Mutex<T> {
    /// A free lock.
    pub const fn new(value: T) -> Self {
        Self { word: AtomicU32::new(FREE), held: AtomicBool::new(false), value: UnsafeCell::new(value) }
    }

    /// Waits for the lock. `None` only if this thread has it already, for `fork` or in code that a signal
    /// handler interrupted: waiting would never end.
    pub fn lock(&self) -> Option<Guard<'_, T>> {
        let me = me();
        if self.word.compare_exchange(FREE, me, Acquire, Relaxed).is_err() && !self.wait(me) {
            return None;
        }
        Some(Guard(self))
    }

    /// Whether this very thread has it.
    pub fn is_mine(&self) -> bool {
        self.word.load(Relaxed) & !AWAITED == me()
    }

    /// Wakes every sleeper; those that still have to wait sleep again. Call it before waiting for one of
    /// them. A signal handler may have come between an unlock and its wake-up, and delay the wake-up until
    /// the handler returns.
    pub fn rouse(&self) {
        futex::wake_all(&self.word);
    }

    /// Takes the lock before `fork`, so that the child finds the value consistent. False if this thread has
    /// it already.
    pub fn hold(&self) -> bool {
        self.lock().map(Guard::hold).is_some()
    }

    /// Gets back what [`Mutex::hold`] or [`Guard::hold`] took, in the parent and in the child; `None` without a hold.
    ///
    /// Sound from any thread: a hold has no guard, and only one of several callers gets it.
    pub fn resume(&self) -> Option<Guard<'_, T>> {
        self.held.swap(false, Relaxed).then(|| Guard(self))
    }

    /// Gives back what [`Mutex::hold`] took; without a hold, does nothing.
    pub fn let_go(&self) {
        drop(self.resume());
    }

    #[cold]
    fn wait(&self, me: u32) -> bool {
        let take = |word| self.word.compare_exchange(FREE, word, Acquire, Relaxed).is_ok();
        for _ in 0..SPINS {
            std::hint::spin_loop();
            if self.word.load(Relaxed) == FREE && take(me) {
                return true;
            }
        }
        loop {
            let word = self.word.load(Relaxed);
            if word & !AWAITED == me {
                return false;
            }
            if word == FREE {
                // Others may sleep too, so the unlock has to wake one.
                if take(me | AWAITED) {
                    return true;
                }
                continue;
            }
            let marked = self.word.compare_exchange(word, word | AWAITED, Relaxed, Relaxed).is_ok();
            if marked {
                futex::wait(&self.word, word | AWAITED, None);
            }
        }
    }

    fn unlock(&self) {
        if self.word.swap(FREE, Release) & AWAITED != 0 {
            futex::wake_one(&self.word);
        }
    }
}

impl<T> Guard<'_, T> {
    /// Keeps the lock over a `fork`, until [`Mutex::resume`].
    pub fn hold(self) {
        self.0.held.store(true, Relaxed);
        std::mem::forget(self);
    }
}

impl<T> Deref for Guard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        // SAFETY: the guard exists only while its thread has the lock, see `lock`.
        unsafe { &*self.0.value.get() }
    }
}

impl<T> DerefMut for Guard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: as in `deref`; `&mut self` excludes a second borrow through this guard.
        unsafe { &mut *self.0.value.get() }
    }
}

impl<T> Drop for Guard<'_, T> {
    fn drop(&mut self) {
        self.0.unlock();
    }
}

/// Identifies this thread by the page of its thread pointer: no system call, and the same in a child of `fork`.
/// Stacks are larger than a page, so no two threads share a value within 4 TiB of addresses. Neither [`FREE`] nor
/// [`AWAITED`].
fn me() -> u32 {
    (thread_pointer() >> 12 << 2) as u32 | 2
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg(not(miri))]
    fn who_sleeps_on_a_lock_that_was_freed_without_a_wake_up_is_roused() {
        let lock = Mutex::new(());
        let waited_for = &lock;
        lock.hold();
        std::thread::scope(|scope| {
            let (tell, told) = std::sync::mpsc::channel();
            let waiter = scope.spawn(move || {
                // SAFETY: gettid has no arguments and cannot fail.
                tell.send(unsafe { libc::syscall(libc::SYS_gettid) }).unwrap();
                drop(waited_for.lock());
            });
            let status = format!("/proc/self/task/{}/status", told.recv().unwrap());
            let sleeps = || std::fs::read_to_string(&status).unwrap().contains("State:\tS");
            // Once it says that it waits it sleeps nowhere else.
            while lock.word.load(Relaxed) & AWAITED == 0 || !sleeps() {
                std::thread::yield_now();
            }
            // An unlock that was interrupted before it woke anybody.
            lock.held.store(false, Relaxed);
            lock.word.store(FREE, Release);
            std::thread::sleep(std::time::Duration::from_millis(20));
            assert!(!waiter.is_finished());
            lock.rouse();
        });
    }

    #[test]
    fn two_threads_never_meet_inside() {
        let sum = Mutex::new(0_u64);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..20_000 {
                        *sum.lock().unwrap() += 1;
                    }
                });
            }
        });
        assert_eq!(*sum.lock().unwrap(), 80_000);
    }

    #[test]
    fn the_holder_is_refused_instead_of_waiting_forever() {
        let lock = Mutex::new(());
        assert!(lock.hold());
        assert!(lock.lock().is_none());
        assert!(!lock.hold());
        lock.let_go();
        assert!(lock.lock().is_some());
        lock.lock().unwrap().hold();
        assert!(lock.lock().is_none());
        assert!(lock.resume().is_some());
        assert!(lock.resume().is_none(), "one caller gets it");
        lock.let_go();
        assert!(lock.lock().is_some(), "letting go without a hold changes nothing");
    }

    #[test]
    fn who_holds_nothing_lets_nobody_else_go() {
        let lock = Mutex::new(());
        let inside = lock.lock().unwrap();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                assert!(lock.resume().is_none());
                lock.let_go();
                assert!(!lock.is_mine());
            });
        });
        assert_ne!(lock.word.load(Relaxed), FREE, "the thread inside still has it");
        assert!(lock.is_mine() && lock.lock().is_none(), "and is not made to wait for itself");
        drop(inside);
        assert!(!lock.is_mine() && lock.lock().is_some());
    }

    #[test]
    fn others_wait_for_the_holder() {
        let lock = Mutex::new(1);
        lock.hold();
        std::thread::scope(|scope| {
            let other = scope.spawn(|| *lock.lock().unwrap());
            std::thread::sleep(std::time::Duration::from_millis(20));
            assert!(!other.is_finished());
            lock.let_go();
            assert_eq!(other.join().unwrap(), 1);
        });
    }
}
