//! Calls that limit addresses, memory or threads: `setrlimit`, `prlimit` and `mlockall`.
//!
//! In: the program's calls. Out: the same system calls. Under a limit on addresses or private memory the pool retains
//! little and maps no more than it needs. Under a limit on threads (RLIMIT_NPROC) it has no background thread. A limit
//! that was set before the program began is read later: one on addresses when the pool is opened, one on threads at the
//! start.
//!
//! Not seen: the same calls through syscall(2), or by another process.

use std::ffi::c_int;

use faultless_os::call::process_id;

use crate::{mappings, next, pool};

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
    let rc = unsafe { kernel_prlimit(pid, resource, new, old) };
    let is_own = pid == 0 || pid.cast_unsigned() == process_id();
    let is_limit = [libc::RLIMIT_AS, libc::RLIMIT_DATA].map(|limit| limit as c_int).contains(&resource);
    // The pool reads the limit from the kernel. `new` may have been overwritten, if `old` is the same.
    if rc == 0 && !new.is_null() && is_own {
        if is_limit {
            pool::apply_limits();
        } else if resource == libc::RLIMIT_NPROC as c_int {
            pool::count_threads();
        }
    }
    rc
}

/// The system call.
///
/// # Safety
/// As prlimit(2).
unsafe fn kernel_prlimit(pid: libc::pid_t, resource: c_int, new: *const Limit, old: *mut Limit) -> c_int {
    let arguments = [pid as usize, resource as usize, new as usize, old as usize];
    // SAFETY: forwarded.
    unsafe { next::system_call(libc::SYS_prlimit64, arguments) as c_int }
}

/// With fewer threads than this, each one counts. Many systems limit users to some ten thousand.
const FEW_THREADS: libc::rlim_t = 256;

/// Reads the limit on threads that the program was started with.
pub(crate) fn start() {
    let mut limit = libc::rlimit { rlim_cur: libc::RLIM_INFINITY, rlim_max: libc::RLIM_INFINITY };
    // SAFETY: the pointer is valid for one rlimit.
    unsafe { kernel_prlimit(0, libc::RLIMIT_NPROC as c_int, std::ptr::null(), &raw mut limit) };
    if limit.rlim_cur < FEW_THREADS {
        pool::count_threads();
    }
}

/// mlockall(2). Idle memory would be locked too, and count against RLIMIT_MEMLOCK.
///
/// # Safety
/// As the C function of that name.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn mlockall(flags: c_int) -> c_int {
    mappings::end();
    pool::is_about_to_lock(flags & libc::MCL_FUTURE != 0);
    // SAFETY: the system call takes an integer.
    unsafe { next::system_call(libc::SYS_mlockall, [flags as usize]) as c_int }
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
