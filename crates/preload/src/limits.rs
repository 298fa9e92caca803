//! Calls after which addresses count: `setrlimit` and `prlimit` where they limit addresses or private memory, and `mlockall`; and after
//! which threads do: where they limit these (RLIMIT_NPROC).
//!
//! In: the program's calls. Out: the same system calls; and a pool that keeps little and maps no more than it needs. A limit of addresses
//! that was there before the program began is looked at when the pool is opened, one of threads at the start.
//!
//! What it does not see: the same by syscall(2), or by another process.

use std::ffi::c_int;

use crate::large;

/// On 64-bit Linux `struct rlimit` and `struct rlimit64` are the same (getrlimit(2)).
type Limit = libc::rlimit;

/// setrlimit(2)
///
/// # Safety
/// As the C function of that name.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn setrlimit(resource: c_int, new: *const Limit) -> c_int {
    // SAFETY: forwarded.
    unsafe { prlimit(0, resource, new, std::ptr::null_mut()) }
}

/// setrlimit(2)
///
/// # Safety
/// As the C function of that name.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn setrlimit64(resource: c_int, new: *const Limit) -> c_int {
    // SAFETY: forwarded.
    unsafe { prlimit(0, resource, new, std::ptr::null_mut()) }
}

/// prlimit(2)
///
/// # Safety
/// As the C function of that name.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn prlimit(
    pid: libc::pid_t,
    resource: c_int,
    new: *const Limit,
    old: *mut Limit,
) -> c_int {
    // SAFETY: the caller keeps the contract of the system call, which checks its pointers.
    let rc = unsafe { libc::syscall(libc::SYS_prlimit64, pid, resource, new, old) as c_int };
    let is_own = pid == 0 || pid.cast_unsigned() == std::process::id();
    let is_limit = [libc::RLIMIT_AS, libc::RLIMIT_DATA].map(|limit| limit as c_int).contains(&resource);
    // The kernel is asked, not `new`: that may be `old` too.
    if rc == 0 && !new.is_null() && is_own {
        if is_limit {
            large::heed_limits();
        } else if resource == libc::RLIMIT_NPROC as c_int {
            large::count_threads();
        }
    }
    rc
}

/// With fewer threads allowed than this each of them counts. Many systems limit users to some ten thousand.
const FEW_THREADS: libc::rlim_t = 256;

/// Looks at the limit of threads that the program was started with.
pub(crate) fn look() {
    let mut limit = libc::rlimit { rlim_cur: libc::RLIM_INFINITY, rlim_max: libc::RLIM_INFINITY };
    // SAFETY: the pointer is valid for one rlimit.
    unsafe { libc::getrlimit(libc::RLIMIT_NPROC, &raw mut limit) };
    if limit.rlim_cur < FEW_THREADS {
        large::count_threads();
    }
}

/// mlockall(2): what is idle would be locked too, and count against RLIMIT_MEMLOCK.
///
/// # Safety
/// As the C function of that name.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn mlockall(flags: c_int) -> c_int {
    large::is_about_to_lock(flags & libc::MCL_FUTURE != 0);
    // SAFETY: the system call takes an integer.
    unsafe { libc::syscall(libc::SYS_mlockall, flags) as c_int }
}

/// prlimit(2)
///
/// # Safety
/// As the C function of that name.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn prlimit64(
    pid: libc::pid_t,
    resource: c_int,
    new: *const Limit,
    old: *mut Limit,
) -> c_int {
    // SAFETY: forwarded.
    unsafe { prlimit(pid, resource, new, old) }
}
