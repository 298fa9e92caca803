//! fork: mimalloc (3.3) has no handlers for it, and a child whose parent's other thread was just beginning or ending
//! inherits a lock that nobody opens: it hangs at its first new thread. So all locks of mimalloc's are one, held over fork.
//!
//! In: mimalloc's calls of `pthread_mutex_lock` and `pthread_mutex_unlock`, which the linker leads here (`--wrap`). It takes
//! locks when threads begin and end and when an arena is made, never for a block. Not covered: its waits without a lock.

use core::cell::UnsafeCell;
use core::ffi::c_int;
use core::ptr;
use core::sync::atomic::{AtomicPtr, AtomicUsize, Ordering::Relaxed};

type Mutex = libc::pthread_mutex_t;

struct Lock(UnsafeCell<Mutex>);

// SAFETY: only pthread functions touch it.
unsafe impl Sync for Lock {}

static LOCK: Lock = Lock(UnsafeCell::new(libc::PTHREAD_MUTEX_INITIALIZER));
/// The thread that holds the lock, known by the place of its errno, which is the same in a child.
static OWNER: AtomicPtr<c_int> = AtomicPtr::new(ptr::null_mut());
/// How often the owner holds it: mimalloc takes one of its locks inside another.
static DEPTH: AtomicUsize = AtomicUsize::new(0);

unsafe extern "C" {
    fn __real_pthread_mutex_lock(mutex: *mut Mutex) -> c_int;
    fn __real_pthread_mutex_unlock(mutex: *mut Mutex) -> c_int;
}

/// Before fork: no other thread is inside.
pub(crate) extern "C" fn before() {
    let me = crate::errno::place();
    if OWNER.load(Relaxed) != me {
        // SAFETY: a static mutex; unlike errno's place it is the same for all threads.
        unsafe { __real_pthread_mutex_lock(LOCK.0.get()) };
        OWNER.store(me, Relaxed);
    }
    DEPTH.fetch_add(1, Relaxed);
}

/// After fork, in the parent and in the child.
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
