//! A futex mutex that can be held across `fork`.
//!
//! In: a value. Out: a guard. It never allocates, never panics, knows no poisoning and no thread-local state, so that
//! a malloc can stand on it. [`Mutex::hold`] takes it for the time of a `fork`; [`Mutex::resume`] gets it back, in the
//! parent and in the child.
//!
//! What it does not do: fairness, time limits, recursion.
//!
//! The three values of the word follow Ulrich Drepper, "Futexes Are Tricky" (2011), section "Mutex, Take 2".

use std::cell::UnsafeCell;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{
    AtomicU32,
    Ordering::{Acquire, Relaxed, Release},
};

use crate::futex;

const FREE: u32 = 0;
const TAKEN: u32 = 1;
/// Taken, and somebody may sleep.
const AWAITED: u32 = 2;

/// How often a taken lock is looked at before sleeping. A sleep and its wake-up cost some 5 us, the sections this
/// lock guards some 50 ns; 100 looks are about 3 us on the x86-64 machines tried.
const SPINS: u32 = 100;

/// A mutual exclusion lock around a value.
#[derive(Debug)]
pub struct Mutex<T> {
    word: AtomicU32,
    /// The thread that holds it for `fork`, or 0.
    holder: AtomicU32,
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
        Self { word: AtomicU32::new(FREE), holder: AtomicU32::new(0), value: UnsafeCell::new(value) }
    }

    /// Waits for the lock. `None` only if this very thread holds it for `fork`: waiting would never end.
    pub fn lock(&self) -> Option<Guard<'_, T>> {
        if self.word.compare_exchange(FREE, TAKEN, Acquire, Relaxed).is_err() && !self.wait() {
            return None;
        }
        Some(Guard(self))
    }

    /// Takes the lock before `fork`, so that the child finds the value whole. False if this thread has it already.
    pub fn hold(&self) -> bool {
        self.lock().map(Guard::hold).is_some()
    }

    /// Gets back what [`Mutex::hold`] or [`Guard::hold`] took, in the parent and in the child; `None` without a hold.
    ///
    /// Sound from any thread: a hold has no guard, and of several callers one gets it.
    pub fn resume(&self) -> Option<Guard<'_, T>> {
        (self.holder.swap(0, Relaxed) != 0).then_some(Guard(self))
    }

    /// Gives back what [`Mutex::hold`] took; without a hold, does nothing.
    pub fn let_go(&self) {
        drop(self.resume());
    }

    #[cold]
    fn wait(&self) -> bool {
        for _ in 0..SPINS {
            std::hint::spin_loop();
            if self.word.load(Relaxed) == FREE
                && self.word.compare_exchange(FREE, TAKEN, Acquire, Relaxed).is_ok()
            {
                return true;
            }
        }
        let holder = self.holder.load(Relaxed);
        if holder != 0 && holder == thread_id() {
            return false;
        }
        while self.word.swap(AWAITED, Acquire) != FREE {
            futex::wait(&self.word, AWAITED, None);
        }
        true
    }

    fn unlock(&self) {
        if self.word.swap(FREE, Release) == AWAITED {
            futex::wake_one(&self.word);
        }
    }
}

impl<T> Guard<'_, T> {
    /// Keeps the lock over a `fork`, until [`Mutex::resume`].
    pub fn hold(self) {
        self.0.holder.store(thread_id(), Relaxed);
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

fn thread_id() -> u32 {
    // SAFETY: gettid has no arguments and cannot fail.
    unsafe { libc::syscall(libc::SYS_gettid) as u32 }
}

#[cfg(test)]
mod tests {
    use super::*;

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
