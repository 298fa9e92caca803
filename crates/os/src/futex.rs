//! Sleeping on a word, and waking sleepers.
//!
//! In: a word of this process's memory. Out: nothing. A sleeper may wake for other reasons (a signal, a
//! change before it slept), so callers must check again. errno stays as it is.
//!
//! Reference: futex(2).

use std::sync::atomic::AtomicU32;

use crate::call::call;

/// Sleeps while the word is `value`, at most for `limit_ns`.
pub(crate) fn wait(word: &AtomicU32, value: u32, limit_ns: Option<u64>) {
    const SECOND_NS: u64 = 1_000_000_000;
    let limit = limit_ns.map(|ns| libc::timespec {
        tv_sec: (ns / SECOND_NS) as libc::time_t,
        tv_nsec: (ns % SECOND_NS) as libc::c_long,
    });
    let limit = limit.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
    // SAFETY: the word and the time outlive the call, which reads them.
    unsafe { call!(libc::SYS_futex, word.as_ptr(), WAIT, value, limit) };
}

/// Wakes one sleeper.
pub(crate) fn wake_one(word: &AtomicU32) {
    wake(word, 1);
}

/// Wakes all sleepers.
pub(crate) fn wake_all(word: &AtomicU32) {
    wake(word, i32::MAX);
}

const WAIT: i32 = libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG;
const WAKE: i32 = libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG;

fn wake(word: &AtomicU32, count: i32) {
    // SAFETY: only the address of the word is used.
    unsafe { call!(libc::SYS_futex, word.as_ptr(), WAKE, count) };
}
