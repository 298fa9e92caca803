//! Who is calling, and how much may be read above its stack pointer: both without a system call once they are known.
//!
//! In: a stack pointer. Out: process and thread, and a number of bytes. [`prepare`] comes first. Nothing here allocates, locks
//! or changes what the program sees; errno may change.
//!
//! A thread's number is remembered under a thread-specific key, with the process's beside it: it is asked for again (gettid:
//! 120 ns) in the child of a fork. The process's number lies in a page that the kernel wipes in every such child
//! (MADV_WIPEONFORK, Linux 4.14), also in those of which no handler is told; a child of vfork has its parent's, whose memory it uses.
//!
//! The rest of the page at the stack pointer can always be read. What is above can where it is known to belong to the thread's own
//! stack, which stays for as long as the thread runs: below the thread control block, which both C libraries put at the top of the stacks of
//! threads, and below the program's name, which the kernel puts at the top of the first one (AT_EXECFN). Whether nothing else, such as the stack of a
//! coroutine and a hole, is in between is asked of the kernel page by page, once for each depth of a thread: rt_sigprocmask(2) with a
//! wrong first argument answers EFAULT or EINVAL. To have the kernel copy the stack instead (process_vm_readv) costs 1.5 us.

use std::ptr;
use std::sync::atomic::{
    AtomicPtr, AtomicU32, AtomicUsize,
    Ordering::{Acquire, Relaxed, Release},
};

use crate::journal::Writer;
use crate::processor::thread_pointer;
use crate::{map, page};

/// How far below the top of its stack a thread's stack pointer may be for more than a page to be read, bytes. Deeper stacks are rare,
/// and each of these pages has to be asked for once (110 ns).
const REACH_BYTES: usize = 1 << 20;
/// Keys below this need no memory when they are set: glibc has room for so many in the thread control block, musl for all.
const KEYS_IN_PLACE: libc::pthread_key_t = 32;
/// No key.
const NONE: u32 = u32::MAX;

/// Key of a thread's [`Writer`], as one word.
static WRITER: AtomicU32 = AtomicU32::new(NONE);
/// Key of the lowest page of its stack from which on all is known to be readable.
static LOW: AtomicU32 = AtomicU32::new(NONE);
/// The word that is zero in a new process.
static PROCESS: AtomicPtr<AtomicU32> = AtomicPtr::new(ptr::null_mut());
/// Top of the first thread's stack.
static FIRST_TOP: AtomicUsize = AtomicUsize::new(0);

/// Makes ready; what can't be had is asked for at every call.
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
        // SAFETY: just mapped, and known to nobody.
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
        return std::process::id();
    }
    // SAFETY: `prepare` mapped it for good; the kernel only zeroes it, in another process.
    let word = unsafe { &*word };
    match word.load(Relaxed) {
        0 => {
            let pid = std::process::id();
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
    let tid = unsafe { libc::syscall(libc::SYS_gettid) } as u32;
    set(&WRITER, (u64::from(pid) << 32 | u64::from(tid)) as usize);
    Writer { pid, tid }
}

/// How many bytes from `sp`, which must be the writer's own stack pointer or one of its callers', can be read; at most `limit`,
/// which must be below a page.
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
    // Elsewhere than where it was asked for: of another thread, before a fork.
    let known = if (1..=top).contains(&low) && top - low <= REACH_BYTES { low } else { top };
    if here < known {
        // No `step_by`: it would panic if a page had no bytes, and the interposer has no path to a panic.
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
