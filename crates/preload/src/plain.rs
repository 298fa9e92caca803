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
        let block = large::alloc(len, 1, false);
        if !block.is_null() {
            return block;
        }
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
        let block = large::alloc(bytes, 1, true);
        if !block.is_null() {
            return block;
        }
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

/// A large aligned block, or null: not large, no proper alignment, or refused.
fn aligned(align: usize, len: usize) -> Void {
    match large::is_large(len) && align.is_power_of_two() {
        true => large::alloc(len, align, false),
        false => std::ptr::null_mut(),
    }
}

/// posix_memalign(3).
///
/// # Safety
/// `to` must be valid for a write of one pointer.
pub(crate) unsafe fn posix_memalign(to: *mut Void, align: usize, len: usize) -> c_int {
    if align.is_multiple_of(size_of::<Void>()) {
        let block = aligned(align, len);
        if !block.is_null() {
            // SAFETY: the caller passes a place for one pointer.
            unsafe { *to = block };
            return 0;
        }
    }
    // SAFETY: forwarded; wrong arguments are refused there.
    unsafe { next::posix_memalign(to, align, len) }
}

/// aligned_alloc(3).
///
/// # Safety
/// None beyond C's.
pub(crate) unsafe fn aligned_alloc(align: usize, len: usize) -> Void {
    if large::is_large(len) && !next::has_aligned_new() {
        let block = aligned(align, len);
        if !block.is_null() {
            return block;
        }
    }
    // SAFETY: forwarded.
    unsafe { next::aligned_alloc(align, len) }
}

/// memalign(3).
///
/// # Safety
/// None beyond C's.
pub(crate) unsafe fn memalign(align: usize, len: usize) -> Void {
    let block = aligned(align, len);
    if !block.is_null() {
        return block;
    }
    // SAFETY: forwarded.
    unsafe { next::memalign(align, len) }
}

/// valloc(3).
///
/// # Safety
/// None beyond C's.
pub(crate) unsafe fn valloc(len: usize) -> Void {
    let block = aligned(faultless_os::page::size(), len);
    if !block.is_null() {
        return block;
    }
    // SAFETY: forwarded.
    unsafe { next::valloc(len) }
}

/// pvalloc(3); large blocks are whole granules, hence whole pages.
///
/// # Safety
/// None beyond C's.
pub(crate) unsafe fn pvalloc(len: usize) -> Void {
    let block = aligned(faultless_os::page::size(), len);
    if !block.is_null() {
        return block;
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
