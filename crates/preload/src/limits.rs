//! `setrlimit` and `prlimit`: a program that limits its own address space gets back what the pool has only reserved.
//!
//! In: the program's calls. Out: the same system call; where it set RLIMIT_AS of this process, which no mapping that is there
//! has to keep, the pool then gives up its unused addresses. A limit that was there before the program began is looked at when the pool is opened.

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
    let is_set = rc == 0 && !new.is_null() && resource == libc::RLIMIT_AS as c_int && is_own;
    // The kernel is asked, not `new`: that may be `old` too.
    if is_set && faultless_os::map::address_space_limit().is_some() {
        large::narrow();
    }
    rc
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
