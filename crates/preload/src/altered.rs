//! Reports to the pool which pages the program protects, locks, advises, unmaps, replaces or puts into a pipe.
//!
//! In: the program's calls. Out: the same calls. If a call may change pages of the pool for good, the pool is told
//! the range and the kind of change first. Elsewhere a call costs two comparisons more. glibc unmaps a large block when
//! it is freed, which undoes such changes; the pool reuses the pages and must undo the changes itself.
//!
//! The pool goes to the kernel directly (`os::map`), so its own calls are not seen here.
//!
//! Calls through syscall(2) are seen too (`single`). Not seen: a program's own instructions, among them those of Go; shmat(2) with
//! SHM_REMAP. To compare /proc/self/maps at each `free` would cost every program for the few that do this.

use std::ffi::{c_int, c_long, c_uint};

use faultless_os::advise::{GUARD_INSTALL, GUARD_REMOVE};
use faultless_pool::Alteration;

use crate::{Void, calls, mappings, next, pool};

const READ_WRITE: c_int = libc::PROT_READ | libc::PROT_WRITE;

/// mprotect(2)
///
/// # Safety
/// As the C function of that name.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn mprotect(address: usize, len: usize, rights: c_int) -> c_int {
    // SAFETY: the arguments of that call.
    unsafe { seen(libc::SYS_mprotect, [address, len, rights as usize, 0, 0]) };
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
    // SAFETY: the arguments of that call.
    unsafe { seen(libc::SYS_pkey_mprotect, [address, len, rights as usize, key as usize, 0]) };
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
    // SAFETY: the arguments of that call.
    unsafe { seen(libc::SYS_madvise, [address, len, advice as usize, 0, 0]) };
    // SAFETY: forwarded.
    unsafe { calls::madvise(address, len, advice) }
}

/// process_madvise(2). On itself a process may give any advice since Linux 6.13. The descriptor of another process is
/// not told apart: then blocks at these addresses are restored for nothing.
///
/// # Safety
/// As the C function of that name.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn process_madvise(
    process: c_int,
    ranges: *const libc::iovec,
    count: usize,
    advice: c_int,
    flags: c_uint,
) -> isize {
    let arguments = [process as usize, ranges.addr(), count, advice as usize, flags as usize];
    // SAFETY: the arguments of that call.
    unsafe { seen(libc::SYS_process_madvise, arguments) };
    // SAFETY: forwarded.
    unsafe { next::system_call(libc::SYS_process_madvise, arguments) as isize }
}

/// Tells the pool of each of `count` ranges.
///
/// # Safety
/// They must be valid, as for process_madvise(2).
unsafe fn ranges_altered(ranges: *const libc::iovec, count: usize, alteration: Option<Alteration>) {
    let Some(alteration) = alteration.filter(|_| !ranges.is_null() && count <= libc::UIO_MAXIOV as usize)
    else {
        return;
    };
    for at in 0..count {
        // SAFETY: the caller passes so many ranges.
        let range = unsafe { &*ranges.add(at) };
        pool::altered(range.iov_base.addr(), range.iov_len, alteration);
    }
}

/// The numbers of such calls.
pub(crate) const NUMBERS: [c_long; 13] = [
    libc::SYS_mprotect,
    libc::SYS_pkey_mprotect,
    libc::SYS_madvise,
    libc::SYS_process_madvise,
    libc::SYS_mlock,
    libc::SYS_mlock2,
    libc::SYS_mmap,
    libc::SYS_munmap,
    libc::SYS_mremap,
    libc::SYS_remap_file_pages,
    libc::SYS_mbind,
    SYS_MSEAL,
    libc::SYS_userfaultfd,
];
/// mseal(2), Linux 6.10.
const SYS_MSEAL: c_long = 462;

/// Tells the pool of such a call, by its number and its arguments: the rules for the C functions and for syscall(2).
///
/// # Safety
/// The arguments must be those of that call.
#[inline]
pub(crate) unsafe fn seen(number: c_long, [first, second, third, fourth, fifth]: [usize; 5]) {
    let kind = |advice: usize| alteration(advice as c_int);
    match number {
        libc::SYS_madvise => {
            if let Some(alteration) = kind(third) {
                pool::altered(first, second, alteration);
            }
        }
        // SAFETY: the arguments of process_madvise(2).
        libc::SYS_process_madvise => unsafe {
            ranges_altered(second as *const libc::iovec, third, kind(fourth))
        },
        // Its registrations end with a mapping, and a mapping that is kept never ends.
        libc::SYS_userfaultfd => mappings::end(),
        libc::SYS_mprotect if third as c_int == READ_WRITE => {}
        // A key above 0 stays with the pages.
        libc::SYS_pkey_mprotect if third as c_int == READ_WRITE && fourth as c_int <= 0 => {}
        libc::SYS_mmap if fourth as c_int & libc::MAP_FIXED == 0 => pool::named(first, second),
        libc::SYS_mremap if fourth as c_int & libc::MREMAP_FIXED != 0 => {
            pool::altered(first, second, Alteration::Mapping);
            pool::altered(fifth, third, Alteration::Mapping);
        }
        _ => pool::altered(first, second, Alteration::Mapping),
    }
}

/// The answer to a call through syscall(2) that may need no kernel, where mappings are served: that of the C function.
///
/// # Safety
/// The arguments must be those of that call.
pub(crate) unsafe fn answered(
    number: c_long,
    [first, second, third, fourth, fifth, sixth]: [usize; 6],
) -> Option<c_long> {
    if !mappings::is_on() {
        return None;
    }
    let rights = third as c_int;
    Some(match number {
        // SAFETY: forwarded.
        libc::SYS_mmap => unsafe {
            mmap(first, second, rights, fourth as c_int, fifth as c_int, sixth as c_long) as c_long
        },
        // SAFETY: forwarded.
        libc::SYS_munmap => unsafe { munmap(first, second).into() },
        // SAFETY: forwarded.
        libc::SYS_mremap => unsafe { mremap(first, second, third, fourth as c_int, fifth) as c_long },
        _ => return None,
    })
}

/// What an advice changes for good, if it changes more than residency. Unknown ones count as such.
fn alteration(advice: c_int) -> Option<Alteration> {
    const MADV_COLLAPSE: c_int = 25;
    match advice {
        libc::MADV_NORMAL
        | libc::MADV_WILLNEED
        | libc::MADV_DONTNEED
        | libc::MADV_FREE
        | libc::MADV_DOFORK
        | libc::MADV_DODUMP
        | libc::MADV_KEEPONFORK
        | libc::MADV_UNMERGEABLE
        | libc::MADV_COLD
        | libc::MADV_PAGEOUT
        | libc::MADV_POPULATE_READ
        | libc::MADV_POPULATE_WRITE
        | libc::MADV_DONTNEED_LOCKED
        | MADV_COLLAPSE
        | GUARD_REMOVE => None,
        libc::MADV_DONTFORK => Some(Alteration::NotInherited),
        libc::MADV_WIPEONFORK => Some(Alteration::WipedInChildren),
        libc::MADV_DONTDUMP => Some(Alteration::NotDumped),
        libc::MADV_MERGEABLE => Some(Alteration::Merged),
        libc::MADV_RANDOM | libc::MADV_SEQUENTIAL => Some(Alteration::Order),
        libc::MADV_HUGEPAGE | libc::MADV_NOHUGEPAGE => Some(Alteration::PageSize),
        GUARD_INSTALL => Some(Alteration::Guarded),
        _ => Some(Alteration::Mapping),
    }
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
    // SAFETY: the arguments of that call.
    unsafe { seen(libc::SYS_mlock, [address, len, 0, 0, 0]) };
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
    // SAFETY: the arguments of that call.
    unsafe { seen(libc::SYS_mlock2, [address, len, flags as usize, 0, 0]) };
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
    let is_plain = mappings::is_plain(address, len, rights, flags, file);
    if is_plain && let Some(mapping) = mappings::recycled(len) {
        return mapping;
    }
    // SAFETY: the arguments of that call.
    unsafe { seen(libc::SYS_mmap, [address, len, rights as usize, flags as usize, 0]) };
    // SAFETY: forwarded.
    let ask = || unsafe { calls::mmap(address, len, rights, flags, file, offset) };
    let mapped = pool::forwarded(ask, |mapped| *mapped == libc::MAP_FAILED);
    if is_plain && mapped != libc::MAP_FAILED { mappings::advised(mapped, len) } else { mapped }
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
    if mappings::unmapped(address, len) {
        return 0;
    }
    // SAFETY: the arguments of that call.
    unsafe { seen(libc::SYS_munmap, [address, len, 0, 0, 0]) };
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
    // SAFETY: the arguments of that call.
    unsafe { seen(libc::SYS_mremap, [from, len, new_len, flags as usize, to]) };
    // SAFETY: forwarded.
    unsafe { mappings::remap(from, len, new_len, flags, to) }
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
        parts
            .iter()
            .for_each(|part| pool::altered(part.iov_base as usize, part.iov_len, Alteration::Mapping));
    }
    spliced
}
