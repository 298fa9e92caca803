//! The calling thread, and how much may be read above its stack pointer; after the first call mostly without
//! a system call.
//!
//! In: a stack pointer. Out: process and thread, and a number of bytes. Call [`prepare`] first. Nothing here
//! allocates, locks or changes the program's state; errno may change.
//!
//! The thread's number is cached under a thread-specific key, together with the process's. In the child of a
//! fork it is asked for again (gettid: 120 ns). The process's number lies in a page that the kernel wipes in
//! every such child (MADV_WIPEONFORK, Linux 4.14), even if no atfork handler runs. A child of vfork uses its
//! parent's memory, and so its parent's number.
//!
//! The rest of the page at the stack pointer is always readable. Memory above it is safe only within the
//! thread's own stack, which lives as long as the thread. Two markers bound that stack. Both C libraries put
//! the thread control block at the top of a thread's stack. The kernel puts the program's name (AT_EXECFN) at
//! the top of the first thread's.
//!
//! A coroutine's stack and a hole could lie in between. So the kernel is asked about each page, once for each
//! depth of a thread: rt_sigprocmask(2) with an invalid first argument answers EFAULT or EINVAL. Copying by
//! process_vm_readv instead would cost 1.5 us.

use std::ptr;
use std::sync::atomic::{
    AtomicPtr, AtomicU32, AtomicUsize,
    Ordering::{Acquire, Relaxed, Release},
};

use crate::call::{call, process_id};
use crate::journal::Writer;
use crate::processor::thread_pointer;
use crate::{map, page};

/// How far below the top of its stack a stack pointer may be for more than a page to be read, bytes. Deeper
/// stacks are rare, and each page costs one query (110 ns).
const REACH_BYTES: usize = 1 << 20;
/// Setting keys below this needs no memory: glibc keeps that many in the thread control block, musl all.
const KEYS_IN_PLACE: libc::pthread_key_t = 32;
/// No key.
const NONE: u32 = u32::MAX;

/// Key of a thread's [`Writer`], as one word.
static WRITER: AtomicU32 = AtomicU32::new(NONE);
/// Key of the lowest stack page from which on everything is known to be readable.
static LOW: AtomicU32 = AtomicU32::new(NONE);
/// A word that is zero in a new process.
static PROCESS: AtomicPtr<AtomicU32> = AtomicPtr::new(ptr::null_mut());
/// Top of the first thread's stack.
static FIRST_TOP: AtomicUsize = AtomicUsize::new(0);

/// Creates the keys and the page. Where that fails, the answer is asked for at every call.
pub fn prepare() {
    for place in [&WRITER, &LOW] {
        let mut key = 0;
        // SAFETY: the place is valid for a key; no destructor.
        if unsafe { libc::pthread_key_create(&raw mut key, None) } == 0 && key < KEYS_IN_PLACE {
            place.store(key, Release);
        }
    }
    // SAFETY: no preconditions.
    FIRST_TOP.store(unsafe { libc::getauxval(libc::AT_EXECFN) } as usize, Relaxed);
    let Ok(start) = map::anonymous(page::size()) else { return };
    // SAFETY: just mapped, and nothing is in it.
    let rc = unsafe { libc::madvise(start as *mut libc::c_void, page::size(), libc::MADV_WIPEONFORK) };
    if rc == 0 {
        PROCESS.store(start as *mut AtomicU32, Release);
    } else {
        // SAFETY: just mapped, and not shared.
        let _ = unsafe { map::release(start, page::size()) };
    }
}

fn get(place: &AtomicU32) -> usize {
    match place.load(Acquire) {
        NONE => 0,
        // SAFETY: `prepare` made the key.
        key => unsafe { libc::pthread_getspecific(key) }.addr(),
    }
}

fn set(place: &AtomicU32, value: usize) {
    let key = place.load(Acquire);
    if key != NONE {
        // SAFETY: `prepare` made the key. Below KEYS_IN_PLACE it can't fail.
        unsafe { libc::pthread_setspecific(key, ptr::without_provenance(value)) };
    }
}

fn process() -> u32 {
    let word = PROCESS.load(Acquire);
    if word.is_null() {
        return process_id();
    }
    // SAFETY: `prepare` mapped it for good; the kernel only zeroes it, in another process.
    let word = unsafe { &*word };
    match word.load(Relaxed) {
        0 => {
            let pid = process_id();
            word.store(pid, Relaxed);
            pid
        }
        pid => pid,
    }
}

/// Process and thread that call.
pub fn writer() -> Writer {
    let (pid, known) = (process(), get(&WRITER) as u64);
    if (known >> 32) as u32 == pid && known != 0 {
        return Writer { pid, tid: known as u32 };
    }
    // SAFETY: gettid has no arguments and cannot fail.
    let tid = unsafe { call!(libc::SYS_gettid) } as u32;
    set(&WRITER, (u64::from(pid) << 32 | u64::from(tid)) as usize);
    Writer { pid, tid }
}

/// How many bytes from `sp` on can be read, at most `limit`. `sp` must be the stack pointer of the writer or
/// of one of its callers; `limit` must be below a page.
pub fn stack_bytes(writer: Writer, sp: usize, limit: usize) -> usize {
    let page = page::size();
    let here = sp & !(page - 1);
    let certain = here + page - sp;
    if certain >= limit {
        return limit;
    }
    let top = if writer.pid == writer.tid { FIRST_TOP.load(Relaxed) } else { thread_pointer() };
    if top.wrapping_sub(sp) > REACH_BYTES {
        return certain;
    }
    let low = get(&LOW);
    // A value from another stack: of another thread, before a fork.
    let known = if (1..=top).contains(&low) && top - low <= REACH_BYTES { low } else { top };
    if here < known {
        // No `step_by`: it could panic if a page had no bytes, and the interposer must not panic.
        let mut next = here + page;
        while next < known {
            if !is_readable(next) {
                return certain;
            }
            next += page;
        }
        set(&LOW, here);
    }
    limit.min(top - sp)
}

/// Whether the page that begins here can be read.
fn is_readable(start: usize) -> bool {
    const WRONG: libc::c_int = -1;
    let none = ptr::null_mut::<libc::c_void>();
    // SAFETY: the kernel reads 8 bytes at the address, if it can, and refuses the first argument.
    let rc = unsafe { libc::syscall(libc::SYS_rt_sigprocmask, WRONG, start, none, size_of::<u64>()) };
    // SAFETY: the C library returns a valid pointer to this thread's errno.
    rc == -1 && unsafe { *libc::__errno_location() } == libc::EINVAL
}
