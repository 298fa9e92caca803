//! The C functions without the recorder: large blocks come from the pool, all others from the next malloc.
//!
//! In: C's arguments. Out: C's results.

use std::ffi::c_int;

use crate::pool::{forwarded, is_large, is_ours};
use crate::{Void, behind, large, next};

/// malloc(3).
///
/// # Safety
/// None beyond C's.
#[inline(always)]
pub(crate) unsafe fn malloc(len: usize) -> Void {
    if is_large(len) {
        // SAFETY: malloc has no preconditions.
        return pooled(1, len, false, || unsafe { next::malloc(len) });
    }
    // SAFETY: forwarded.
    unsafe { next::malloc(len) }
}

/// calloc(3): the memory is zero, always.
///
/// # Safety
/// None beyond C's.
pub(crate) unsafe fn calloc(count: usize, len: usize) -> Void {
    // On overflow the next calloc refuses.
    if let Some(bytes) = count.checked_mul(len).filter(|&bytes| is_large(bytes)) {
        // SAFETY: calloc has no preconditions.
        return pooled(1, bytes, true, || unsafe { next::calloc(count, len) });
    }
    // SAFETY: forwarded.
    unsafe { next::calloc(count, len) }
}

/// realloc(3). A length of 0 frees, as in glibc.
///
/// # Safety
/// `block` must be null or a live block.
pub(crate) unsafe fn realloc(block: Void, len: usize) -> Void {
    if is_ours(block) {
        // SAFETY: forwarded.
        return unsafe { large::realloc(block, len) };
    }
    if !is_large(len) {
        // SAFETY: forwarded.
        return unsafe { next::realloc(block, len) };
    }
    if block.is_null() {
        // SAFETY: malloc has no preconditions.
        return unsafe { malloc(len) };
    }
    // SAFETY: forwarded, not null.
    unsafe { large::adopt(block, len) }
}

/// free(3). Keeps errno.
///
/// # Safety
/// `block` must be null or a live block that nobody uses again.
pub(crate) unsafe fn free(block: Void) {
    if is_ours(block) {
        // SAFETY: forwarded.
        unsafe { large::free(block) }
    } else {
        // SAFETY: forwarded.
        unsafe { next::free(block) }
    }
}

/// A large block from the pool, or from the next malloc if the pool refuses. Never inlined: the path of small blocks
/// must end in a jump, so that stack traces have no frame of this library.
#[cold]
#[inline(never)]
fn pooled(align: usize, len: usize, zeroed: bool, next: impl Fn() -> Void) -> Void {
    let block = if align.is_power_of_two() { large::alloc(len, align, zeroed) } else { std::ptr::null_mut() };
    if block.is_null() { forwarded(next, |block| block.is_null()) } else { block }
}

/// The next power of two, since memalign of C libraries rounds alignments up; 0 if there is none.
fn rounded(align: usize) -> usize {
    align.checked_next_power_of_two().unwrap_or(0)
}

/// posix_memalign(3).
///
/// # Safety
/// `to` must be valid for a write of one pointer.
pub(crate) unsafe fn posix_memalign(to: *mut Void, align: usize, len: usize) -> c_int {
    if is_large(len) && align.is_multiple_of(size_of::<Void>()) && align.is_power_of_two() {
        // SAFETY: the caller's promise.
        return unsafe { pooled_to(to, align, len) };
    }
    // SAFETY: forwarded; wrong arguments are refused there.
    unsafe { next::posix_memalign(to, align, len) }
}

/// As [`pooled`], for posix_memalign.
///
/// # Safety
/// `to` must be valid for a write of one pointer.
#[cold]
#[inline(never)]
unsafe fn pooled_to(to: *mut Void, align: usize, len: usize) -> c_int {
    let block = large::alloc(len, align, false);
    if block.is_null() {
        // SAFETY: forwarded.
        return forwarded(|| unsafe { next::posix_memalign(to, align, len) }, |rc| *rc == libc::ENOMEM);
    }
    // SAFETY: the caller passes a place for one pointer.
    unsafe { *to = block };
    0
}

/// aligned_alloc(3).
///
/// # Safety
/// None beyond C's.
pub(crate) unsafe fn aligned_alloc(align: usize, len: usize) -> Void {
    if is_large(len) && !next::has_aligned_new() {
        // Each C library has its own rule for an alignment that is no power of two. mimalloc accepts every alignment.
        // But it writes into freed blocks, which the program may have protected.
        let taken = if behind::is_registered() { rounded(align) } else { align };
        // SAFETY: forwarded.
        return pooled(taken, len, false, || unsafe { next::aligned_alloc(align, len) });
    }
    // SAFETY: forwarded.
    unsafe { next::aligned_alloc(align, len) }
}

/// memalign(3).
///
/// # Safety
/// None beyond C's.
pub(crate) unsafe fn memalign(align: usize, len: usize) -> Void {
    if is_large(len) {
        // SAFETY: forwarded.
        return pooled(rounded(align), len, false, || unsafe { next::memalign(align, len) });
    }
    // SAFETY: forwarded.
    unsafe { next::memalign(align, len) }
}

/// valloc(3).
///
/// # Safety
/// None beyond C's.
pub(crate) unsafe fn valloc(len: usize) -> Void {
    if is_large(len) {
        // SAFETY: forwarded.
        return pooled(faultless_os::page::size(), len, false, || unsafe { next::valloc(len) });
    }
    // SAFETY: forwarded.
    unsafe { next::valloc(len) }
}

/// pvalloc(3). Large blocks are whole granules, hence whole pages.
///
/// # Safety
/// None beyond C's.
pub(crate) unsafe fn pvalloc(len: usize) -> Void {
    if is_large(len) {
        // SAFETY: forwarded.
        return pooled(faultless_os::page::size(), len, false, || unsafe { next::pvalloc(len) });
    }
    // SAFETY: forwarded.
    unsafe { next::pvalloc(len) }
}

/// malloc_usable_size(3).
///
/// # Safety
/// `block` must be null or a live block.
pub(crate) unsafe fn malloc_usable_size(block: Void) -> usize {
    if let Some(len) = is_ours(block).then(|| large::usable(block)).flatten() {
        return len;
    }
    // SAFETY: forwarded.
    unsafe { next::malloc_usable_size(block) }
}
