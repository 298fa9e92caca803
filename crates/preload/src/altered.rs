//! Reports to the pool which pages the program protects, locks, advises, unmaps, replaces or puts into a pipe.
//!
//! In: the program's calls. Out: the same calls. If a call may change pages of the pool for good, the pool is told
//! the range first. Elsewhere a call costs two comparisons more. glibc unmaps a large block when it is freed, which
//! undoes such changes; the pool reuses the pages and must undo the changes itself.
//!
//! The pool goes to the kernel directly (`os::map`), so its own calls are not seen here.
//!
//! Not seen: calls through syscall(2), among them mbind(2) and mseal(2); shmat(2) with SHM_REMAP.

use std::ffi::{c_int, c_long, c_uint};

use crate::{Void, calls, next, pool};

const READ_WRITE: c_int = libc::PROT_READ | libc::PROT_WRITE;

/// mprotect(2)
///
/// # Safety
/// As the C function of that name.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn mprotect(address: usize, len: usize, rights: c_int) -> c_int {
    if rights != READ_WRITE {
        pool::altered(address, len);
    }
    // SAFETY: forwarded.
    unsafe { calls::mprotect(address, len, rights) }
}

/// pkey_mprotect(2)
///
/// # Safety
/// As the C function of that name.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn pkey_mprotect(
    address: usize,
    len: usize,
    rights: c_int,
    key: c_int,
) -> c_int {
    // A key above 0 stays with the pages.
    if rights != READ_WRITE || key > 0 {
        pool::altered(address, len);
    }
    // SAFETY: forwarded.
    unsafe {
        next::system_call(libc::SYS_pkey_mprotect, [address, len, rights as usize, key as usize]) as c_int
    }
}

/// madvise(2)
///
/// # Safety
/// As the C function of that name.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn madvise(address: usize, len: usize, advice: c_int) -> c_int {
    if stays(advice) {
        pool::altered(address, len);
    }
    // SAFETY: forwarded.
    unsafe { calls::madvise(address, len, advice) }
}

/// Whether an advice changes more than residency. Unknown ones count as such.
fn stays(advice: c_int) -> bool {
    const MADV_COLLAPSE: c_int = 25;
    const MADV_GUARD_REMOVE: c_int = 103;
    !matches!(
        advice,
        libc::MADV_NORMAL
            | libc::MADV_WILLNEED
            | libc::MADV_DONTNEED
            | libc::MADV_FREE
            | libc::MADV_DOFORK
            | libc::MADV_HUGEPAGE
            | libc::MADV_DODUMP
            | libc::MADV_KEEPONFORK
            | libc::MADV_COLD
            | libc::MADV_PAGEOUT
            | libc::MADV_POPULATE_READ
            | libc::MADV_POPULATE_WRITE
            | libc::MADV_DONTNEED_LOCKED
            | MADV_COLLAPSE
            | MADV_GUARD_REMOVE
    )
}

/// posix_madvise(3). It returns the error, and POSIX_MADV_DONTNEED does nothing.
///
/// # Safety
/// As the C function of that name.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn posix_madvise(address: usize, len: usize, advice: c_int) -> c_int {
    if advice == libc::POSIX_MADV_DONTNEED {
        return 0;
    }
    let errno = next::errno();
    // SAFETY: forwarded; the other advices have the numbers of madvise(2).
    let rc = unsafe { madvise(address, len, advice) };
    let error = if rc == 0 { 0 } else { next::errno() };
    next::set_errno(errno);
    error
}

/// mlock(2)
///
/// # Safety
/// As the C function of that name.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn mlock(address: usize, len: usize) -> c_int {
    pool::altered(address, len);
    // SAFETY: forwarded.
    unsafe { calls::mlock(address, len) }
}

/// mlock2(2)
///
/// # Safety
/// As the C function of that name.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn mlock2(address: usize, len: usize, flags: c_int) -> c_int {
    if flags == 0 {
        // SAFETY: forwarded.
        return unsafe { mlock(address, len) };
    }
    pool::altered(address, len);
    // SAFETY: forwarded.
    unsafe { next::system_call(libc::SYS_mlock2, [address, len, flags as usize]) as c_int }
}

/// mmap(2)
///
/// # Safety
/// As the C function of that name.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn mmap(
    address: usize,
    len: usize,
    rights: c_int,
    flags: c_int,
    file: c_int,
    offset: c_long,
) -> Void {
    if flags & libc::MAP_FIXED != 0 {
        pool::altered(address, len);
    }
    // SAFETY: forwarded.
    let ask = || unsafe { calls::mmap(address, len, rights, flags, file, offset) };
    pool::forwarded(ask, |mapped| *mapped == libc::MAP_FAILED)
}

/// mmap(2); `off_t` has 64 bits.
///
/// # Safety
/// As the C function of that name.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn mmap64(
    address: usize,
    len: usize,
    rights: c_int,
    flags: c_int,
    file: c_int,
    offset: c_long,
) -> Void {
    // SAFETY: forwarded.
    unsafe { mmap(address, len, rights, flags, file, offset) }
}

/// munmap(2)
///
/// # Safety
/// As the C function of that name.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn munmap(address: usize, len: usize) -> c_int {
    pool::altered(address, len);
    // SAFETY: forwarded.
    unsafe { calls::munmap(address, len) }
}

/// mremap(2). The C function is variadic; the fifth argument is read only if the flags need it.
///
/// # Safety
/// As the C function of that name.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn mremap(
    from: usize,
    len: usize,
    new_len: usize,
    flags: c_int,
    to: usize,
) -> Void {
    pool::altered(from, len);
    if flags & libc::MREMAP_FIXED != 0 {
        pool::altered(to, new_len);
    }
    // SAFETY: forwarded.
    unsafe { calls::mremap(from, len, new_len, flags, to) }
}

/// vmsplice(2). The pipe holds the pages themselves, so the next user of a freed block must not get them.
///
/// # Safety
/// As the C function of that name.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn vmsplice(
    pipe: c_int,
    parts: *const libc::iovec,
    count: usize,
    flags: c_uint,
) -> isize {
    // SAFETY: forwarded.
    let spliced = unsafe { calls::vmsplice(pipe, parts, count, flags) };
    if spliced > 0 {
        // SAFETY: the kernel has just read them.
        let parts = unsafe { std::slice::from_raw_parts(parts, count) };
        parts.iter().for_each(|part| pool::altered(part.iov_base as usize, part.iov_len));
    }
    spliced
}
