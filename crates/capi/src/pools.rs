//! The pools of C callers: they live until they are destroyed, and are consistent in a child of `fork`.
//!
//! In: policies and handles. Out: handles, which are the pools' addresses. A handle that is not in the list is refused.

use std::ptr;
use std::sync::OnceLock;

use faultless_os::lock::Mutex;
use faultless_os::thread::Quiet;
use faultless_pool::{Kernel, Policy, Pool, process};

use crate::Handle;

/// The handle of no pool.
pub(crate) const NO_POOL: *mut Handle = ptr::null_mut();

/// Held while the list changes, and across `fork`.
static GATE: Mutex<()> = Mutex::new(());
static POOLS: Mutex<Vec<&'static Handle>> = Mutex::new(Vec::new());

/// A new pool, or [`NO_POOL`].
pub(crate) fn create(policy: Policy) -> *mut Handle {
    static FORKS: OnceLock<bool> = OnceLock::new();
    let prepared =
        || faultless_os::fork::register(before_fork, after_fork_in_parent, after_fork_in_child).is_ok();
    if !FORKS.get_or_init(prepared) {
        return NO_POOL;
    }
    let Ok(pool) = Pool::open(Kernel::default(), policy) else { return NO_POOL };
    let pool = Box::into_raw(Box::new(pool));
    // SAFETY: it lives until `destroy`, after which the caller's contract forbids every use.
    let shared: &'static Handle = unsafe { &*pool };
    let _gate = GATE.lock();
    if let Some(mut pools) = POOLS.lock() {
        pools.push(shared);
    }
    pool
}

/// Destroys a pool. If `handle` is not a live handle of `create`, returns false and does nothing.
///
/// # Safety
/// Nothing may use the pool or its blocks any more.
pub(crate) unsafe fn destroy(handle: *mut Handle) -> bool {
    let gate = GATE.lock();
    let Some(mut pools) = POOLS.lock() else { return false };
    let Some(at) = pools.iter().position(|&pool| ptr::eq(pool, handle)) else { return false };
    pools.swap_remove(at);
    drop((pools, gate));
    // SAFETY: it was in the list, so it is alive.
    unsafe { &*handle }.stop_thread();
    // SAFETY: it was made by `create`, is in the list no more, and the caller uses it no more.
    drop(unsafe { Box::from_raw(handle) });
    true
}

extern "C" fn before_fork() {
    // A signal handler that forks now would wait for its own thread.
    let _quiet = Quiet::begin();
    GATE.hold();
    if let Some(pools) = POOLS.lock() {
        pools.iter().for_each(|pool| pool.before_fork());
    }
}

extern "C" fn after_fork_in_parent() {
    if let Some(pools) = POOLS.lock() {
        // The allocator's handlers were registered before ours and have released its locks. So a thread may start.
        pools.iter().for_each(|pool| process::serve(pool, |pool| pool.after_fork_in_parent()));
    }
    GATE.let_go();
}

extern "C" fn after_fork_in_child() {
    if let Some(pools) = POOLS.lock() {
        pools.iter().for_each(|pool| pool.after_fork_in_child());
    }
    GATE.let_go();
}
