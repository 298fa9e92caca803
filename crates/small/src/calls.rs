//! Keeps errno unchanged in calls that succeed, as glibc does. Some of mimalloc's system calls may fail without harm.
//!
//! In: mimalloc's system calls and its accesses to `errno`; the linker redirects both (`--wrap`). Out: the same
//! calls, whose errors mimalloc finds in a word of its own.
//!
//! All threads share the word. After a failed call it is never 0, so mimalloc sees every failure. If two calls fail
//! at once, one may be taken for the other; that only affects how mimalloc retries.

use core::ffi::{c_int, c_long, c_void};
use core::sync::atomic::{AtomicI32, Ordering::Relaxed};

use crate::errno::location;
use crate::limit;

type Void = *mut c_void;

/// mimalloc's errno.
static ERROR: AtomicI32 = AtomicI32::new(0);

/// The longest mapping that mimalloc may make without a commit charge: the length of its arenas.
const UNCHARGED_BYTES: usize = 1 << 30;

unsafe extern "C" {
    fn __real_syscall(
        number: c_long,
        a: c_long,
        b: c_long,
        c: c_long,
        d: c_long,
        e: c_long,
        f: c_long,
    ) -> c_long;
}

/// Makes a system call without changing errno. Returns -1 if it fails; mimalloc's errno then says why.
fn call(number: c_long, arguments: [c_long; 6]) -> c_long {
    let location = location();
    // SAFETY: the C library's location of this thread's errno is valid.
    let before = unsafe { *location };
    let [a, b, c, d, e, f] = arguments;
    // SAFETY: mimalloc keeps the contract of the call, which ignores arguments that it doesn't have.
    let answer = unsafe { __real_syscall(number, a, b, c, d, e, f) };
    if answer == -1 {
        // SAFETY: as above.
        ERROR.store(unsafe { *location }, Relaxed);
        // SAFETY: as above.
        unsafe { *location = before };
    }
    answer
}

#[unsafe(no_mangle)]
extern "C" fn __wrap___errno_location() -> *mut c_int {
    ERROR.as_ptr()
}

#[unsafe(no_mangle)]
extern "C" fn __wrap_syscall(
    number: c_long,
    a: c_long,
    b: c_long,
    c: c_long,
    d: c_long,
    e: c_long,
    f: c_long,
) -> c_long {
    call(number, [a, b, c, d, e, f])
}

#[unsafe(no_mangle)]
extern "C" fn __wrap_prctl(option: c_int, a: c_long, b: c_long, c: c_long, d: c_long) -> c_int {
    // A name for a mapping is worth no call that a sandbox may forbid.
    if option == libc::PR_SET_VMA {
        return 0;
    }
    call(libc::SYS_prctl, [c_long::from(option), a, b, c, d, 0]) as c_int
}

#[unsafe(no_mangle)]
extern "C" fn __wrap_mmap(
    at: Void,
    len: usize,
    rights: c_int,
    flags: c_int,
    file: c_int,
    offset: c_long,
) -> Void {
    if limit::refuses(len) {
        ERROR.store(libc::ENOMEM, Relaxed);
        return libc::MAP_FAILED;
    }
    // Without the flag the kernel refuses a mapping that exceeds the machine's memory, as it does for glibc.
    let flags = if len > UNCHARGED_BYTES { flags & !libc::MAP_NORESERVE } else { flags };
    let [rights, flags, file] = [rights, flags, file].map(c_long::from);
    call(libc::SYS_mmap, [at as c_long, len as c_long, rights, flags, file, offset]) as Void
}

#[unsafe(no_mangle)]
extern "C" fn __wrap_munmap(at: Void, len: usize) -> c_int {
    call(libc::SYS_munmap, [at as c_long, len as c_long, 0, 0, 0, 0]) as c_int
}

#[unsafe(no_mangle)]
extern "C" fn __wrap_mprotect(at: Void, len: usize, rights: c_int) -> c_int {
    call(libc::SYS_mprotect, [at as c_long, len as c_long, c_long::from(rights), 0, 0, 0]) as c_int
}

/// mimalloc advises huge pages for each arena of 1 GiB, as a whole: every page that is touched would make 2 MiB
/// resident, whatever `--policy` says. The advice becomes its opposite, also for kernels that always use huge pages. The
/// interposer chooses the pages of the first arena.
///
/// Any other advice is a purge. mimalloc never takes purged memory for zero, so a purge may be skipped: a program that
/// confined its system calls may be killed for one that glibc's `free` does not make.
#[unsafe(no_mangle)]
extern "C" fn __wrap_madvise(at: Void, len: usize, advice: c_int) -> c_int {
    if crate::is_confined() {
        return 0;
    }
    let advice = if advice == libc::MADV_HUGEPAGE { libc::MADV_NOHUGEPAGE } else { advice };
    call(libc::SYS_madvise, [at as c_long, len as c_long, c_long::from(advice), 0, 0, 0]) as c_int
}
