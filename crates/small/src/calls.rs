//! mimalloc's calls of the C library that end in the kernel, made by `os::call` instead.
//!
//! In: the calls, and mimalloc's accesses to `errno`; the linker redirects both (`--wrap`). Out: the same calls, whose
//! errors mimalloc finds in a word of its own. A library that is preloaded or linked may define the C library's
//! functions (faketime, uid_wrapper), and such functions call malloc. errno stays as it is, as under glibc's malloc. Some
//! of mimalloc's system calls may fail without harm.
//!
//! All threads share the word. After a failed call it is never 0, so mimalloc sees every failure. If two calls fail
//! at once, one may be taken for the other; that only affects how mimalloc retries.

use core::ffi::{c_int, c_long, c_uint, c_void};
use core::sync::atomic::{AtomicI32, Ordering::Relaxed};

use faultless_os::call;

use crate::limit;

type Void = *mut c_void;

/// mimalloc's errno.
static ERROR: AtomicI32 = AtomicI32::new(0);

/// The longest mapping that mimalloc may make without a commit charge: the length of its arenas.
const UNCHARGED_BYTES: usize = 1 << 30;

unsafe extern "C" {
    fn __real___errno_location() -> *mut c_int;
}

/// Sets the calling thread's errno.
pub(crate) fn set_errno(value: c_int) {
    // SAFETY: the C library's location of this thread's errno is valid.
    unsafe { *__real___errno_location() = value };
}

#[unsafe(no_mangle)]
extern "C" fn __wrap___errno_location() -> *mut c_int {
    ERROR.as_ptr()
}

/// Makes a system call. Returns -1 if it fails; mimalloc's errno then says why.
fn made<const COUNT: usize>(number: c_long, arguments: [usize; COUNT]) -> c_long {
    // SAFETY: mimalloc keeps the contract of the call.
    let answer = unsafe { call::raw(number, arguments) };
    call::errno(answer).map_or(answer as c_long, |errno| {
        ERROR.store(errno, Relaxed);
        -1
    })
}

/// Defines C functions: the system call of each, and its arguments.
macro_rules! calls {
    ($($name:ident($($arg:ident: $kind:ty),*) -> $result:ty = $number:expr, [$($value:expr),*];)*) => {
        $(#[unsafe(no_mangle)]
        extern "C" fn $name($($arg: $kind),*) -> $result {
            made($number, [$($value as usize),*]) as $result
        })*
    };
}

calls! {
    __wrap_syscall(number: c_long, a: usize, b: usize, c: usize, d: usize, e: usize, f: usize) -> c_long = number, [a, b, c, d, e, f];
    __wrap_munmap(at: Void, len: usize) -> c_int = libc::SYS_munmap, [at, len];
    __wrap_mprotect(at: Void, len: usize, rights: c_int) -> c_int = libc::SYS_mprotect, [at, len, rights];
    __wrap_clock_gettime(clock: c_int, to: Void) -> c_int = libc::SYS_clock_gettime, [clock, to];
    __wrap_sysinfo(to: Void) -> c_int = libc::SYS_sysinfo, [to];
    __wrap_getrusage(whose: c_int, to: Void) -> c_int = libc::SYS_getrusage, [whose, to];
    // Where there is no SYS_open.
    __wrap_open(path: Void, flags: c_int) -> c_int = libc::SYS_openat, [libc::AT_FDCWD, path, flags];
    __wrap_access(path: Void, rights: c_int) -> c_int = libc::SYS_faccessat, [libc::AT_FDCWD, path, rights];
    __wrap_read(file: c_int, to: Void, len: usize) -> isize = libc::SYS_read, [file, to, len];
    __wrap_close(file: c_int) -> c_int = libc::SYS_close, [file];
    // mimalloc waits for another thread: the shortest time, as `sleep(0)`.
    __wrap_sleep(_s: c_uint) -> c_uint = libc::SYS_nanosleep, [&raw const NO_TIME, 0];
}

static NO_TIME: libc::timespec = libc::timespec { tv_sec: 0, tv_nsec: 0 };

#[unsafe(no_mangle)]
extern "C" fn __wrap_prctl(option: c_int, a: usize, b: usize, c: usize, d: usize) -> c_int {
    // A name for a mapping is worth no call that a sandbox may forbid.
    if option == libc::PR_SET_VMA { 0 } else { made(libc::SYS_prctl, [option as usize, a, b, c, d]) as c_int }
}

#[unsafe(no_mangle)]
extern "C" fn __wrap_mmap(
    at: Void,
    len: usize,
    rights: c_int,
    flags: c_int,
    file: c_int,
    offset: usize,
) -> Void {
    if limit::refuses(len) {
        ERROR.store(libc::ENOMEM, Relaxed);
        return libc::MAP_FAILED;
    }
    // Without the flag the kernel refuses a mapping that exceeds the machine's memory, as it does for glibc.
    let flags = if len > UNCHARGED_BYTES { flags & !libc::MAP_NORESERVE } else { flags };
    made(libc::SYS_mmap, [at as usize, len, rights as usize, flags as usize, file as usize, offset]) as Void
}

/// mimalloc advises huge pages for each arena of 1 GiB, as a whole: every page that is touched would make 2 MiB
/// resident, whatever `--policy` says. The advice becomes its opposite, also for kernels that always use huge pages. The
/// interposer chooses the pages of the first arena.
///
/// Any other advice is a purge. mimalloc never takes purged memory for zero, so a purge may be skipped: a program that
/// confined its system calls may be killed for one that glibc's `free` does not make.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn __wrap_madvise(at: Void, len: usize, advice: c_int) -> c_int {
    if crate::is_confined() {
        return 0;
    }
    let advice = if advice == libc::MADV_HUGEPAGE { libc::MADV_NOHUGEPAGE } else { advice };
    made(libc::SYS_madvise, [at as usize, len, advice as usize]) as c_int
}
