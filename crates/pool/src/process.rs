//! The pool of this process: one for all who need no pool of their own, opened at the first need.
//!
//! In: the policy of whoever comes first. Out: a reference that lives as long as the process. [`Global`](crate::Global),
//! the C ABI and the Python package share it. `fork` finds it whole, or not there: then the child opens its own.
//!
//! Nobody waits for it: while one thread opens it, and for ever when it could not be opened, others get `None` and go to
//! the memory they would use without it.
//!
//! What it does not do: give up in a child what the parent's half-opened pool had reserved. It is nobody's there.

use std::sync::OnceLock;
use std::sync::atomic::{
    AtomicBool,
    Ordering::{AcqRel, Acquire, Release},
};

use faultless_os::lock::Mutex;
use faultless_os::thread::Quiet;

use crate::kernel::Kernel;
use crate::policy::{Policy, tuning};
use crate::pool::Pool;

static POOL: OnceLock<Pool<Kernel>> = OnceLock::new();
/// Whether somebody opens the pool, has opened it, or failed to.
static ASKED: AtomicBool = AtomicBool::new(false);
/// Held while the opened pool is put where all find it, and across `fork`.
static GATE: Mutex<()> = Mutex::new(());

/// The pool of this process, if somebody has opened it.
pub fn opened() -> Option<&'static Pool<Kernel>> {
    POOL.get()
}

/// The pool of this process. The first call opens it, and its policy counts. `None` while another thread opens it, and where
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

/// Lets a pool do something for a caller, and starts its keeper if that made work for one.
#[inline]
pub fn attended<T>(pool: &'static Pool<Kernel>, call: impl FnOnce(&Pool<Kernel>) -> T) -> T {
    let result = call(pool);
    if pool.wants_keeper() {
        pool.keep();
    }
    result
}

/// The default policy for this machine: on a small one less free memory is kept, a quarter of what there is; in a guest that
/// gives free pages back to its host it is kept longer, since each is a fault in two kernels when it comes back.
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
    // Without its handlers a child could find the pool locked by a thread that it doesn't have.
    if ASKED.load(Acquire) || !has_handlers() || ASKED.swap(true, AcqRel) {
        return None;
    }
    let pool = Pool::open(Kernel::default(), policy).ok()?;
    let Some(_gate) = GATE.lock() else {
        // This thread is in the midst of a fork.
        ASKED.store(false, Release);
        return None;
    };
    let _ = POOL.set(pool);
    POOL.get()
}

/// Whether forks are looked after. Of threads that see to it at the same time each may: see `before_fork`.
fn has_handlers() -> bool {
    static REGISTERED: AtomicBool = AtomicBool::new(false);
    if !REGISTERED.load(Acquire) {
        let registered = faultless_os::fork::register(before_fork, after_fork_in_parent, after_fork_in_child);
        REGISTERED.store(registered.is_ok(), Release);
    }
    REGISTERED.load(Acquire)
}

/// Registered twice, it does nothing the second time, nor do those after it.
extern "C" fn before_fork() {
    // A handler that forks now would wait for this fork, and so for itself. Once all is held, it finds that.
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
        attended(pool, Pool::after_fork_in_parent);
    }
}

extern "C" fn after_fork_in_child() {
    let Some(_gate) = GATE.resume() else { return };
    match opened() {
        Some(pool) => pool.after_fork_in_child(),
        // Whoever was opening it is not in this process.
        None => ASKED.store(false, Release),
    }
}
