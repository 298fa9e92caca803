//! Calls that need a process of one thread, or that apply to the calling thread only: the background thread ends before
//! them.
//!
//! In: the program's calls. Out: the same system calls.
//! - The kernel refuses `unshare(CLONE_NEWUSER)`, and `setns` into a user or mount namespace, to a process with other
//!   threads. A background thread would also stay behind in the old namespaces.
//! - A sandbox (seccomp, Landlock) applies to the calling thread alone. The background thread would be outside the
//!   sandbox, or be killed for a call that the filter does not know. Such programs call PR_SET_NO_NEW_PRIVS first.
//! - The C library changes the user and groups of all threads that it knows. It does not know the background thread,
//!   which would keep the old ones.
//!
//! The thread also ends before `fork`, by the handlers in `pool`.
//!
//! Not seen: the same calls through syscall(2), and clone(2).

use std::ffi::{c_char, c_int, c_ulong, c_void};
use std::sync::atomic::{
    AtomicPtr,
    Ordering::{Acquire, Release},
};

use crate::{calls, next, owner, pool, summary};

/// Defines C functions that call their next definitions without a background thread.
macro_rules! alone {
    ($($name:ident($($arg:ident: $kind:ty),*) $text:literal;)*) => {$(
        #[doc = $text]
        ///
        /// # Safety
        /// As the C function of that name.
        #[unsafe(no_mangle)]
        pub(crate) unsafe extern "C" fn $name($($arg: $kind),*) -> c_int {
            const NAME: &str = concat!(stringify!($name), "\0");
            // SAFETY: a C string; RTLD_NEXT asks for the definition after the object this code is in.
            let found = unsafe { libc::dlsym(libc::RTLD_NEXT, NAME.as_ptr().cast()) };
            if found.is_null() {
                next::set_errno(libc::ENOSYS);
                return -1;
            }
            // SAFETY: found under the name of a function of this type.
            let function: unsafe extern "C" fn($($kind),*) -> c_int = unsafe { std::mem::transmute(found) };
            // SAFETY: the caller keeps the contract of the C function.
            pool::without_thread(|| unsafe { function($($arg),*) })
        }
    )*};
}

alone! {
    setuid(user: libc::uid_t) "setuid(2)";
    seteuid(user: libc::uid_t) "seteuid(2)";
    setreuid(real: libc::uid_t, effective: libc::uid_t) "setreuid(2)";
    setresuid(real: libc::uid_t, effective: libc::uid_t, saved: libc::uid_t) "setresuid(2)";
    setgid(group: libc::gid_t) "setgid(2)";
    setegid(group: libc::gid_t) "setegid(2)";
    setregid(real: libc::gid_t, effective: libc::gid_t) "setregid(2)";
    setresgid(real: libc::gid_t, effective: libc::gid_t, saved: libc::gid_t) "setresgid(2)";
    setgroups(count: usize, groups: *const libc::gid_t) "setgroups(2)";
    initgroups(user: *const c_char, group: libc::gid_t) "initgroups(3)";
}

static FORK: AtomicPtr<c_void> = AtomicPtr::new(std::ptr::null_mut());

/// Finds the next `_Fork`. A signal handler may call `_Fork`; a lookup at the first call would happen there.
pub(crate) fn find() {
    // SAFETY: a C string; RTLD_NEXT asks for the definition after the object this code is in.
    FORK.store(unsafe { libc::dlsym(libc::RTLD_NEXT, c"_Fork".as_ptr()) }, Release);
    owner::forget_error();
}

/// _Fork(3) (glibc 2.34, musl 1.2.2), which calls no fork handlers.
///
/// # Safety
/// As the C function of that name.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn _Fork() -> libc::pid_t {
    let found = FORK.load(Acquire);
    if found.is_null() {
        // SAFETY: no preconditions beyond those of `_Fork`.
        return unsafe { libc::fork() };
    }
    // SAFETY: found under the name of a function of this type.
    let function: unsafe extern "C" fn() -> libc::pid_t = unsafe { std::mem::transmute(found) };
    // SAFETY: the caller keeps the contract of the C function.
    pool::around_fork(|| unsafe { function() })
}

/// unshare(2)
///
/// # Safety
/// As the C function of that name.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn unshare(flags: c_int) -> c_int {
    // SAFETY: the system call takes an integer.
    pool::without_thread(|| unsafe { libc::syscall(libc::SYS_unshare, flags) as c_int })
}

/// setns(2)
///
/// # Safety
/// As the C function of that name.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn setns(descriptor: c_int, kind: c_int) -> c_int {
    // SAFETY: the system call takes two integers.
    pool::without_thread(|| unsafe { libc::syscall(libc::SYS_setns, descriptor, kind) as c_int })
}

/// prctl(2). The C function is variadic; all arguments are passed in registers.
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
        if owner::is_passive() {
            summary::give_up();
        } else {
            pool::confine();
        }
    }
    // SAFETY: forwarded.
    unsafe { calls::prctl(option, second, third, fourth, fifth) }
}
