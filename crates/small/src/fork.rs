//! fork: one lock replaces all locks of mimalloc and is held across fork. mimalloc (3.3) has no fork handlers. If
//! another thread of the parent was beginning or ending, the child would inherit a lock that nobody releases, and hang
//! at its first new thread.
//!
//! In: mimalloc's calls of `pthread_mutex_lock` and `pthread_mutex_unlock`; the linker redirects them (`--wrap`).
//! mimalloc locks when threads begin and end and when it makes an arena, never for a block. Not covered: mimalloc's
//! waits without a lock.

use core::cell::UnsafeCell;
use core::ffi::c_int;
use core::ptr;
use core::sync::atomic::{AtomicPtr, AtomicUsize, Ordering::Relaxed};

type Mutex = libc::pthread_mutex_t;

struct Lock(UnsafeCell<Mutex>);

// SAFETY: only pthread functions touch it.
unsafe impl Sync for Lock {}

static LOCK: Lock = Lock(UnsafeCell::new(libc::PTHREAD_MUTEX_INITIALIZER));
/// The thread that holds the lock, identified by the address of its errno. The address is the same in a child.
static OWNER: AtomicPtr<c_int> = AtomicPtr::new(ptr::null_mut());
/// How often the owner holds it. mimalloc takes one of its locks inside another.
static DEPTH: AtomicUsize = AtomicUsize::new(0);

unsafe extern "C" {
    fn __real_pthread_mutex_lock(mutex: *mut Mutex) -> c_int;
    fn __real_pthread_mutex_unlock(mutex: *mut Mutex) -> c_int;
}

/// Call it before fork. Afterwards no other thread holds the lock.
pub(crate) extern "C" fn before() {
    let me = crate::errno::location();
    if OWNER.load(Relaxed) != me {
        // SAFETY: a static mutex; unlike errno's place it is the same for all threads.
        unsafe { __real_pthread_mutex_lock(LOCK.0.get()) };
        OWNER.store(me, Relaxed);
    }
    DEPTH.fetch_add(1, Relaxed);
}

/// Call it after fork, in the parent and in the child.
pub(crate) extern "C" fn after() {
    if DEPTH.fetch_sub(1, Relaxed) == 1 {
        OWNER.store(ptr::null_mut(), Relaxed);
        // SAFETY: this thread holds it, or is the child's copy of the one that does; a normal mutex doesn't ask.
        unsafe { __real_pthread_mutex_unlock(LOCK.0.get()) };
    }
}

/// mimalloc's `pthread_mutex_lock`.
#[unsafe(no_mangle)]
extern "C" fn __wrap_pthread_mutex_lock(_mutex: *mut Mutex) -> c_int {
    before();
    0
}

/// mimalloc's `pthread_mutex_unlock`.
#[unsafe(no_mangle)]
extern "C" fn __wrap_pthread_mutex_unlock(_mutex: *mut Mutex) -> c_int {
    after();
    0
}
