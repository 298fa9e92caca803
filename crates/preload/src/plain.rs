//! The C functions as they are without a recorder: large blocks from the pool, all others from the next malloc.
//!
//! In: C's arguments. Out: C's results.

use std::ffi::c_int;

use crate::{Void, large, next};

/// malloc(3).
///
/// # Safety
/// None beyond C's.
#[inline(always)]
pub(crate) unsafe fn malloc(len: usize) -> Void {
    if large::is_large(len) {
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
    if let Some(bytes) = count.checked_mul(len).filter(|&bytes| large::is_large(bytes)) {
        // SAFETY: calloc has no preconditions.
        return pooled(1, bytes, true, || unsafe { next::calloc(count, len) });
    }
    // SAFETY: forwarded.
    unsafe { next::calloc(count, len) }
}

/// realloc(3); a length of 0 frees, as in glibc.
///
/// # Safety
/// `block` must be null or a live block.
pub(crate) unsafe fn realloc(block: Void, len: usize) -> Void {
    if large::is_ours(block) {
        // SAFETY: forwarded.
        return unsafe { large::realloc(block, len) };
    }
    if !large::is_large(len) {
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

/// free(3); errno is kept.
///
/// # Safety
/// `block` must be null or a live block that nobody uses again.
pub(crate) unsafe fn free(block: Void) {
    if large::is_ours(block) {
        // SAFETY: forwarded.
        unsafe { large::free(block) }
    } else {
        // SAFETY: forwarded.
        unsafe { next::free(block) }
    }
}

/// A large block from the pool, or from the next malloc where the pool refuses. Never inlined: what is small must be a jump, so that
/// a trace of the program's calls has no frame of ours.
#[cold]
#[inline(never)]
fn pooled(align: usize, len: usize, zeroed: bool, next: impl Fn() -> Void) -> Void {
    let block = if align.is_power_of_two() { large::alloc(len, align, zeroed) } else { std::ptr::null_mut() };
    if block.is_null() { large::forwarded(next, |block| block.is_null()) } else { block }
}

/// The next power of two, as C libraries' memalign takes other alignments; 0 where there is none.
fn rounded(align: usize) -> usize {
    align.checked_next_power_of_two().unwrap_or(0)
}

/// posix_memalign(3).
///
/// # Safety
/// `to` must be valid for a write of one pointer.
pub(crate) unsafe fn posix_memalign(to: *mut Void, align: usize, len: usize) -> c_int {
    if large::is_large(len) && align.is_multiple_of(size_of::<Void>()) && align.is_power_of_two() {
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
        return large::forwarded(
            || unsafe { next::posix_memalign(to, align, len) },
            |rc| *rc == libc::ENOMEM,
        );
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
    if large::is_large(len) && !next::has_aligned_new() {
        // Other alignments each version of a C library takes or refuses in its own way. mimalloc takes all of them, but writes into what
        // is freed, which the program may have protected.
        let taken = if large::is_anyone_behind() { rounded(align) } else { align };
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
    if large::is_large(len) {
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
    if large::is_large(len) {
        // SAFETY: forwarded.
        return pooled(faultless_os::page::size(), len, false, || unsafe { next::valloc(len) });
    }
    // SAFETY: forwarded.
    unsafe { next::valloc(len) }
}

/// pvalloc(3); large blocks are whole granules, hence whole pages.
///
/// # Safety
/// None beyond C's.
pub(crate) unsafe fn pvalloc(len: usize) -> Void {
    if large::is_large(len) {
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
    if let Some(len) = large::is_ours(block).then(|| large::usable(block)).flatten() {
        return len;
    }
    // SAFETY: forwarded.
    unsafe { next::malloc_usable_size(block) }
}
