//! The pool of this process: shared by all callers that need no pool of their own, opened at the first use.
//!
//! In: the policy of the first caller. Out: a reference that lives as long as the process. [`Global`](crate::Global),
//! the C ABI and the Python package share it. A child of `fork` has a consistent pool, or none; then it opens its own.
//!
//! No thread waits for the pool. While one thread opens it, and for good if that failed, other threads get `None` and
//! use another allocator.
//!
//! Out of scope: in a child, the addresses of a pool that the parent had only half opened. They stay reserved.

use std::sync::OnceLock;
use std::sync::atomic::{
    AtomicBool,
    Ordering::{AcqRel, Acquire, Release},
};

use faultless_os::lock::Mutex;
use faultless_os::thread::Quiet;

use crate::kernel::Kernel;
use crate::policy::Policy;
use crate::pool::Pool;
use crate::tuning;

static POOL: OnceLock<Pool<Kernel>> = OnceLock::new();
/// Whether a thread is opening the pool, has opened it, or has failed to.
static ASKED: AtomicBool = AtomicBool::new(false);
/// Held while the opened pool is published, and across `fork`.
static GATE: Mutex<()> = Mutex::new(());

/// The pool of this process, if it is open.
pub fn opened() -> Option<&'static Pool<Kernel>> {
    POOL.get()
}

/// The pool of this process. The first call opens it with its policy. `None` while another thread is opening it, and if
/// it could not be opened.
///
/// ```
/// # #[cfg(not(miri))] {
/// use faultless_pool::process;
/// let pool = process::pool(process::policy).ok_or("no pool here")?;
/// let block = pool.alloc(1 << 20).ok_or("refused")?;
/// assert_eq!(block.len(), 1 << 20);
/// # }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn pool(policy: impl FnOnce() -> Policy) -> Option<&'static Pool<Kernel>> {
    POOL.get().or_else(|| open(policy()))
}

/// Makes a call of a pool, then starts the pool's background thread if the call made work for it.
#[inline]
pub fn serve<T>(pool: &'static Pool<Kernel>, call: impl FnOnce(&Pool<Kernel>) -> T) -> T {
    let result = call(pool);
    if pool.wants_thread() {
        pool.start_thread();
    }
    result
}

/// The default policy for this machine. A small machine retains at most a quarter of its memory. A guest that gives
/// free pages back to its host retains them longer, because their next touch faults in two kernels.
pub fn policy() -> Policy {
    let share = faultless_os::map::memory_bytes().map_or(usize::MAX, |bytes| bytes / tuning::RETAIN_SHARE);
    let mut policy = Policy::default();
    policy.retain.bytes = policy.retain.bytes.min(share);
    if faultless_os::balloon::reports_free_pages() {
        policy.retain.decay_ns = Some(tuning::DECAY_REPORTING_NS);
    }
    policy
}

#[cold]
fn open(policy: Policy) -> Option<&'static Pool<Kernel>> {
    // Without the fork handlers, a thread that does not exist in the child could hold the pool's lock there.
    if ASKED.load(Acquire) || !has_handlers() || ASKED.swap(true, AcqRel) {
        return None;
    }
    let pool = Pool::open(Kernel::default(), policy).ok()?;
    let Some(_gate) = GATE.lock() else {
        // This thread is forking.
        ASKED.store(false, Release);
        return None;
    };
    let _ = POOL.set(pool);
    POOL.get()
}

/// Whether the fork handlers are registered. Several threads may register them at the same time: see `before_fork`.
fn has_handlers() -> bool {
    static REGISTERED: AtomicBool = AtomicBool::new(false);
    if !REGISTERED.load(Acquire) {
        let registered = faultless_os::fork::register(before_fork, after_fork_in_parent, after_fork_in_child);
        REGISTERED.store(registered.is_ok(), Release);
    }
    REGISTERED.load(Acquire)
}

/// Registered twice, it does nothing the second time, and so do the handlers after it.
extern "C" fn before_fork() {
    // A signal handler that forks now would wait for its own thread. Signals wait until everything is held.
    let _quiet = Quiet::begin();
    if GATE.hold()
        && let Some(pool) = opened()
    {
        pool.before_fork();
    }
}

extern "C" fn after_fork_in_parent() {
    let Some(gate) = GATE.resume() else { return };
    drop(gate);
    if let Some(pool) = opened() {
        serve(pool, Pool::after_fork_in_parent);
    }
}

extern "C" fn after_fork_in_child() {
    let Some(_gate) = GATE.resume() else { return };
    match opened() {
        Some(pool) => pool.after_fork_in_child(),
        // The thread that was opening it is not in this process.
        None => ASKED.store(false, Release),
    }
}
