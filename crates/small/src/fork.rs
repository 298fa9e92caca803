//! fork: one lock replaces all locks of mimalloc and is held across fork. mimalloc (3.3) has no fork handlers. If
//! another thread of the parent was beginning or ending, the child would inherit a lock that nobody releases, and hang
//! at its first new thread.
//!
//! In: mimalloc's calls of `pthread_mutex_lock` and others; the linker redirects them (`--wrap`). mimalloc locks when
//! threads begin and end and when it makes an arena, never for a block. Not covered: mimalloc's waits without a lock.

use core::ffi::{c_int, c_void};
use core::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use faultless_os::lock::Mutex;

static LOCK: Mutex<()> = Mutex::new(());
/// How often its thread holds it. mimalloc takes one of its locks inside another.
static DEPTH: AtomicUsize = AtomicUsize::new(0);

/// Call it before fork. Afterwards no other thread holds the lock.
pub(crate) extern "C" fn before() {
    // False if this thread holds it already.
    LOCK.hold();
    DEPTH.fetch_add(1, Relaxed);
}

/// Call it after fork, in the parent and in the child.
pub(crate) extern "C" fn after() {
    if DEPTH.fetch_sub(1, Relaxed) == 1 {
        LOCK.let_go();
    }
}

#[unsafe(no_mangle)]
extern "C" fn __wrap_pthread_mutex_lock(_mutex: *mut c_void) -> c_int {
    before();
    0
}

#[unsafe(no_mangle)]
extern "C" fn __wrap_pthread_mutex_unlock(_mutex: *mut c_void) -> c_int {
    after();
    0
}

#[unsafe(no_mangle)]
extern "C" fn __wrap_pthread_mutex_destroy(_mutex: *mut c_void) -> c_int {
    0
}
