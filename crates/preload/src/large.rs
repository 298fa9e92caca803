//! Large blocks: requests to the pool, and the way to the next malloc if the pool refuses.
//!
//! In: lengths and pointers of C callers. Out: pointers.

use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

use probe::probe;

use crate::line::Text;
use crate::pool::{self, State, forwarded, is_large, serve};
use crate::{Void, next};

/// Large requests that went to the next malloc.
pub(crate) static FORWARDED: AtomicU64 = AtomicU64::new(0);

/// Tells profilers of a block, with its address, its length and the bytes that it stands for: itself, because none is left
/// out. An instruction that does nothing, until a profiler attaches.
/// (<https://github.com/open-telemetry/opentelemetry-ebpf-profiler/tree/main/design-docs/00003-memory-profiling>)
fn taken(block: Void, len: usize) {
    probe!(otel_memory, alloc, block, len, len);
}

/// A large block. Null, with errno unchanged, if the pool cannot serve it.
#[cold]
#[inline(never)]
pub(crate) fn alloc(len: usize, align: usize, zeroed: bool) -> Void {
    let errno = next::errno();
    let block = pool::pool().and_then(|pool| serve(pool, |pool| pool.alloc_raw(len, align, zeroed)));
    next::set_errno(errno);
    match block {
        Some(block) => {
            taken(block.as_ptr().cast(), len);
            block.as_ptr().cast()
        }
        None => {
            FORWARDED.fetch_add(1, Relaxed);
            ptr::null_mut()
        }
    }
}

/// Frees a block in the pool's range. If no block begins there, reports that once and does nothing.
///
/// # Safety
/// As free(3).
#[cold]
#[inline(never)]
pub(crate) unsafe fn free(block: Void) {
    let errno = next::errno();
    probe!(otel_memory, free, block);
    let known = pool::pool().is_some_and(|pool| {
        // SAFETY: the caller gives the block up.
        serve(pool, |pool| unsafe { pool.free_raw(block as usize) })
    });
    next::set_errno(errno);
    if !known && !is_nobodys(block, b"free") {
        // SAFETY: forwarded.
        unsafe { next::free(block) };
    }
}

/// Whether an address in the pool's range, at which no block begins, cannot be the next malloc's either. The next
/// malloc would take the bytes before it for its own header. The program has freed a block twice, or made the address
/// up. The first such call is reported. With `FAULTLESS_STRICT` the program is aborted then, as glibc would do.
#[cold]
fn is_nobodys(block: Void, call: &[u8]) -> bool {
    static REPORTED: AtomicBool = AtomicBool::new(false);
    let State::Open(pool) = pool::state() else { return false };
    if pool.may_be_foreign(block as usize) {
        return false;
    }
    if !REPORTED.swap(true, Relaxed) {
        let is_strict = pool::settings().is_some_and(|settings| settings.strict);
        let end: &[u8] = if is_strict { b"aborting" } else { b"ignored" };
        let mut line = Text::<128>::new();
        line.text(b"faultless: ")
            .text(call)
            .text(b" of a large block that was freed before, or of none: ")
            .text(end);
        line.write_to(2);
        if is_strict {
            // SAFETY: no preconditions.
            unsafe { libc::abort() };
        }
    }
    true
}

/// The usable length of a block in the pool's range.
#[cold]
#[inline(never)]
pub(crate) fn usable(block: Void) -> Option<usize> {
    pool::pool()?.len_raw(block as usize)
}

/// realloc(3) of a block in the pool's range.
///
/// # Safety
/// As realloc(3).
#[cold]
#[inline(never)]
pub(crate) unsafe fn realloc(block: Void, len: usize) -> Void {
    let known = pool::pool().and_then(|pool| Some((pool, pool.len_raw(block as usize)?)));
    let Some((pool, old)) = known else {
        if is_nobodys(block, b"realloc") {
            next::set_errno(libc::ENOMEM);
            return ptr::null_mut();
        }
        // SAFETY: forwarded; the pool does not know the block.
        return unsafe { next::realloc(block, len) };
    };
    if len == 0 {
        // SAFETY: the caller gives the block up.
        return unsafe { realloc_to_nothing(block) };
    }
    // A block that shrinks below half the threshold goes back to the next malloc. Between the two bounds it stays in
    // the pool. Otherwise a length that swings around the threshold would be copied at every call.
    if len >= pool::threshold() / 2 {
        let errno = next::errno();
        // SAFETY: the caller allows the block to move.
        let resized = serve(pool, |pool| unsafe { pool.resize_raw(block as usize, len) });
        next::set_errno(errno);
        if let Some(resized) = resized {
            probe!(otel_memory, free, block);
            taken(resized.as_ptr().cast(), len);
            return resized.as_ptr().cast();
        }
        FORWARDED.fetch_add(1, Relaxed);
    }
    // SAFETY: malloc has no preconditions.
    let new = forwarded(|| unsafe { next::malloc(len) }, |block| block.is_null());
    if new.is_null() {
        return if len <= old { block } else { new };
    }
    // SAFETY: `block` has `old` bytes, `new` has `len`, and they come from different allocators.
    unsafe { ptr::copy_nonoverlapping(block.cast::<u8>(), new.cast::<u8>(), old.min(len)) };
    // SAFETY: the content is copied and the caller gives the old block up.
    unsafe { free(block) };
    new
}

/// Frees a block and answers as the C library does: glibc with null, musl with a block of no bytes.
///
/// # Safety
/// As free(3).
unsafe fn realloc_to_nothing(block: Void) -> Void {
    // SAFETY: malloc has no preconditions.
    let shortest = unsafe { next::malloc(1) };
    // SAFETY: the caller gives the block up.
    unsafe { free(block) };
    // SAFETY: allocated above, nobody knows it.
    unsafe { next::realloc(shortest, 0) }
}

/// realloc(3) to a large length, of a block that is not the pool's.
///
/// # Safety
/// As realloc(3); `block` is not null.
#[cold]
#[inline(never)]
pub(crate) unsafe fn adopt(block: Void, len: usize) -> Void {
    // SAFETY: the block is the next malloc's.
    let old = unsafe { next::malloc_usable_size(block) };
    // A large block stays with its allocator, which may be able to grow it without copying. Allocators round lengths up
    // by at most a quarter, so a block just above the threshold was a small request.
    let new = if is_large(old - old / 5) { ptr::null_mut() } else { alloc(len, 1, false) };
    if new.is_null() {
        // SAFETY: forwarded; if refused, the block is unchanged.
        return forwarded(|| unsafe { next::realloc(block, len) }, |block| block.is_null());
    }
    // SAFETY: `block` has `old` usable bytes, `new` has `len`, and they come from different allocators.
    unsafe { ptr::copy_nonoverlapping(block.cast::<u8>(), new.cast::<u8>(), old.min(len)) };
    // SAFETY: the content is copied and the caller gives the old block up.
    unsafe { next::free(block) };
    new
}
