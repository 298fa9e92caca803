//! The fork handlers of the small-block allocator behind this library, if there is one.
//!
//! In: two functions. Out: calls of them, nearer to `fork` than the pool's own handlers.

use std::ffi::c_void;
use std::sync::atomic::{
    AtomicBool, AtomicUsize,
    Ordering::{Acquire, Relaxed, Release},
};

static BEFORE: AtomicUsize = AtomicUsize::new(0);
static AFTER: AtomicUsize = AtomicUsize::new(0);
/// Whether `before` was called for the `fork` under way.
static WAS_CALLED: AtomicBool = AtomicBool::new(false);

/// Registers the two functions.
pub(crate) fn register(before: unsafe extern "C" fn(), after: unsafe extern "C" fn()) {
    AFTER.store(after as usize, Relaxed);
    BEFORE.store(before as usize, Release);
}

/// Whether functions were registered. Then the allocator behind is ours, and not a glibc that would learn.
pub(crate) fn is_registered() -> bool {
    BEFORE.load(Acquire) != 0
}

pub(crate) fn before_fork() {
    if call(&BEFORE) {
        WAS_CALLED.store(true, Relaxed);
    }
}

/// Call it in the parent and in the child.
pub(crate) fn after_fork() {
    if WAS_CALLED.swap(false, Relaxed) {
        call(&AFTER);
    }
}

fn call(function: &AtomicUsize) -> bool {
    let address = function.load(Acquire) as *const c_void;
    if address.is_null() {
        return false;
    }
    // SAFETY: `register` stored a function of this type there.
    let function: unsafe extern "C" fn() = unsafe { std::mem::transmute(address) };
    // SAFETY: it has no preconditions around `fork`.
    unsafe { function() };
    true
}
