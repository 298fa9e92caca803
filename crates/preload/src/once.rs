//! A value that is written once, before the threads that read it can know of it.

use std::cell::UnsafeCell;
use std::mem::MaybeUninit;

/// A static value that is written at run time. An atomic beside it tells readers that it was written.
pub(crate) struct Once<T>(UnsafeCell<MaybeUninit<T>>);

// SAFETY: written once, before an atomic beside it says so; afterwards only shared references are made.
unsafe impl<T: Sync> Sync for Once<T> {}

impl<T> Once<T> {
    pub(crate) const fn new() -> Self {
        Self(UnsafeCell::new(MaybeUninit::uninit()))
    }

    /// Writes the value.
    ///
    /// # Safety
    /// Nobody has written it before, and nobody reads it before this call has ended.
    pub(crate) unsafe fn write(&self, value: T) -> &T {
        // SAFETY: the caller excludes other references.
        unsafe { (*self.0.get()).write(value) }
    }

    /// The place of the value, for writing it there.
    ///
    /// # Safety
    /// As [`Once::write`].
    #[allow(clippy::mut_from_ref)]
    pub(crate) unsafe fn place(&self) -> &mut MaybeUninit<T> {
        // SAFETY: the caller excludes other references.
        unsafe { &mut *self.0.get() }
    }

    /// The value.
    ///
    /// # Safety
    /// It was written.
    pub(crate) unsafe fn get(&self) -> &T {
        // SAFETY: the caller knows that it was written. Only shared references exist since.
        unsafe { (*self.0.get()).assume_init_ref() }
    }
}
