//! Calls that ask for a process of one thread, or that narrow what one thread may do: the keeper ends before them.
//!
//! In: the program's calls. Out: the same system calls. The kernel refuses `unshare(CLONE_NEWUSER)` and `setns` into a user or
//! mount namespace to a process with other threads, and what stays behind in the old namespaces is not the program's idea.
//! A sandbox (seccomp, Landlock) holds for the calling thread alone: another one, of which the program knows nothing, would be
//! outside, or be killed for a call that the filter doesn't know. Such programs say PR_SET_NO_NEW_PRIVS first.
//!
//! It ends before `fork` too, by the handlers of that (`large`), and begins again when `fork` returns: while the handlers run that
//! an allocator behind us may have registered, its locks are taken, and starting a thread asks it for memory.
//!
//! What it does not see: seccomp(2) by root through syscall(2), without either. A `fork` that the C library calls itself, for
//! forkpty(3) say: then the keeper begins again with the next request.

use std::ffi::{c_int, c_ulong, c_void};
use std::sync::atomic::{
    AtomicPtr,
    Ordering::{Acquire, Release},
};

use crate::{large, next};

/// The next `fork`.
static FORK: AtomicPtr<c_void> = AtomicPtr::new(std::ptr::null_mut());

/// Finds the next `fork`, before a handler of a signal calls it, who could not.
pub(crate) fn find_fork() {
    // SAFETY: the name is a C string; RTLD_NEXT asks for the definition after the object this code is in.
    FORK.store(unsafe { libc::dlsym(libc::RTLD_NEXT, c"fork".as_ptr()) }, Release);
}

/// fork(2)
///
/// # Safety
/// As the C function of that name.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn fork() -> libc::pid_t {
    if FORK.load(Acquire).is_null() {
        find_fork();
    }
    let function = FORK.load(Acquire);
    if function.is_null() {
        next::set_errno(libc::ENOSYS);
        return -1;
    }
    // SAFETY: found under the name `fork`.
    let function: unsafe extern "C" fn() -> libc::pid_t = unsafe { std::mem::transmute(function) };
    let was_kept = large::has_keeper();
    // SAFETY: the caller keeps the contract of the C function.
    let pid = unsafe { function() };
    // Without a keeper before, this may be a handler of a signal that interrupted malloc.
    if pid != 0 && was_kept {
        large::attend();
    }
    pid
}

/// unshare(2)
///
/// # Safety
/// As the C function of that name.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn unshare(flags: c_int) -> c_int {
    // SAFETY: the system call takes an integer.
    large::alone(|| unsafe { libc::syscall(libc::SYS_unshare, flags) as c_int })
}

/// setns(2)
///
/// # Safety
/// As the C function of that name.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn setns(descriptor: c_int, kind: c_int) -> c_int {
    // SAFETY: the system call takes two integers.
    large::alone(|| unsafe { libc::syscall(libc::SYS_setns, descriptor, kind) as c_int })
}

/// prctl(2); the C function takes as many arguments as the option needs, all of which go through registers.
///
/// # Safety
/// As the C function of that name.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn prctl(
    option: c_int,
    second: c_ulong,
    third: c_ulong,
    fourth: c_ulong,
    fifth: c_ulong,
) -> c_int {
    if option == libc::PR_SET_NO_NEW_PRIVS || option == libc::PR_SET_SECCOMP {
        large::refuse_keeper();
    }
    // SAFETY: the caller keeps the contract of the system call.
    unsafe { libc::syscall(libc::SYS_prctl, option, second, third, fourth, fifth) as c_int }
}
