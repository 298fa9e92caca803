//! The malloc behind the interposer, for programs of many small objects: mimalloc, in memory that the interposer supplies.
//!
//! In: `LD_PRELOAD`, behind the interposer, which asks for blocks below its threshold here. Out: the C functions below,
//! each a jump to mimalloc's with glibc's answer in the corners: errno, and `realloc` to nothing.

#![cfg_attr(panic = "abort", no_std)]

mod fork;

use core::ffi::{c_int, c_void};
use core::ptr;

use libmimalloc_sys as mi;

type Void = *mut c_void;

/// Bytes of the first arena, which the interposer supplies; beyond, mimalloc takes from the kernel a GiB at a time. Its
/// own description takes 0.25 % of an arena, and part of that is touched at every start.
const REGION_BYTES: usize = 256 << 20;
/// Alignments above this many bytes mimalloc serves by a mapping of each block's own.
const MAPPED_ALIGN_BYTES: usize = 64 << 10;
/// The least length asked for then; addresses only. mimalloc (3.3, 3.4) takes shorter ones for 64 KiB longer than they are
/// and so forgets a page that lies behind: where it could make no arena, blocks there get lost.
const MAPPED_BYTES: usize = (4 << 20) + (64 << 10);
/// The longest block that C can count.
const MAX_BYTES: usize = isize::MAX as usize;

#[used]
#[unsafe(link_section = ".init_array")]
static CONSTRUCTOR: extern "C" fn() = constructor;

/// Takes the region, and has the interposer call it around fork. What was allocated before is in memory of mimalloc's own: it makes no arena before constructors run.
extern "C" fn constructor() {
    type Region = extern "C" fn(usize, extern "C" fn(), extern "C" fn()) -> Void;
    // SAFETY: the name is a C string.
    let found = unsafe { libc::dlsym(libc::RTLD_DEFAULT, c"faultless_region".as_ptr()) };
    if found.is_null() {
        return;
    }
    // SAFETY: the interposer exports a function of this type under that name.
    let region = unsafe { core::mem::transmute::<Void, Region>(found) };
    let region = region(REGION_BYTES, fork::before, fork::after);
    if region.is_null() {
        return;
    }
    // SAFETY: no preconditions.
    unsafe { mi::mi_process_init() };
    let (usable, pinned, zero, exclusive, any_node) = (true, false, true, false, -1);
    // SAFETY: the region is writable, zero and from now on mimalloc's alone.
    unsafe {
        mi::mi_manage_os_memory_ex(
            region,
            REGION_BYTES,
            usable,
            pinned,
            zero,
            any_node,
            exclusive,
            ptr::null_mut(),
        )
    };
}

#[cold]
fn refuse() -> Void {
    // SAFETY: the C library returns a valid pointer to this thread's errno.
    unsafe { *libc::__errno_location() = libc::ENOMEM };
    ptr::null_mut()
}

/// malloc(3).
///
/// # Safety
/// None beyond C's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn malloc(len: usize) -> Void {
    if len > MAX_BYTES {
        return refuse();
    }
    // SAFETY: forwarded.
    unsafe { mi::mi_malloc(len) }
}

/// calloc(3).
///
/// # Safety
/// None beyond C's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn calloc(count: usize, len: usize) -> Void {
    match count.checked_mul(len) {
        // SAFETY: forwarded.
        Some(bytes) if bytes <= MAX_BYTES => unsafe { mi::mi_zalloc(bytes) },
        _ => refuse(),
    }
}

/// realloc(3); a length of 0 frees, as in glibc.
///
/// # Safety
/// `block` must be null or a live block.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn realloc(block: Void, len: usize) -> Void {
    if len > MAX_BYTES {
        return refuse();
    }
    if len == 0 && !block.is_null() {
        // SAFETY: the caller gives the block up.
        unsafe { mi::mi_free(block) };
        return ptr::null_mut();
    }
    // SAFETY: forwarded.
    unsafe { mi::mi_realloc(block, len) }
}

/// free(3).
///
/// # Safety
/// `block` must be null or a live block that nobody uses again.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn free(block: Void) {
    // SAFETY: forwarded.
    unsafe { mi::mi_free(block) }
}

/// posix_memalign(3).
///
/// # Safety
/// `to` must be valid for a write of one pointer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn posix_memalign(to: *mut Void, align: usize, len: usize) -> c_int {
    if !align.is_power_of_two() || align < size_of::<Void>() {
        return libc::EINVAL;
    }
    // SAFETY: no preconditions.
    let block = unsafe { memalign(align, len) };
    if block.is_null() {
        return libc::ENOMEM;
    }
    // SAFETY: the caller passes a place for one pointer.
    unsafe { *to = block };
    0
}

/// aligned_alloc(3).
///
/// # Safety
/// None beyond C's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn aligned_alloc(align: usize, len: usize) -> Void {
    // SAFETY: no preconditions.
    unsafe { memalign(align, len) }
}

/// memalign(3); the alignment is rounded up to a power of two, as in glibc.
///
/// # Safety
/// None beyond C's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn memalign(align: usize, len: usize) -> Void {
    let len = if align > MAPPED_ALIGN_BYTES { len.max(MAPPED_BYTES) } else { len };
    match align.checked_next_power_of_two() {
        // SAFETY: a power of two.
        Some(align) if len <= MAX_BYTES - align => unsafe { mi::mi_malloc_aligned(len, align) },
        _ => refuse(),
    }
}

/// valloc(3).
///
/// # Safety
/// None beyond C's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn valloc(len: usize) -> Void {
    // SAFETY: no preconditions.
    unsafe { memalign(page_bytes(), len) }
}

/// pvalloc(3): whole pages.
///
/// # Safety
/// None beyond C's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pvalloc(len: usize) -> Void {
    let page = page_bytes();
    match len.checked_next_multiple_of(page) {
        // SAFETY: no preconditions.
        Some(bytes) => unsafe { memalign(page, bytes) },
        None => refuse(),
    }
}

/// malloc_usable_size(3).
///
/// # Safety
/// `block` must be null or a live block.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn malloc_usable_size(block: Void) -> usize {
    // SAFETY: forwarded.
    unsafe { mi::mi_usable_size(block) }
}

fn page_bytes() -> usize {
    // SAFETY: no preconditions.
    unsafe { libc::sysconf(libc::_SC_PAGESIZE) as usize }
}

#[cfg(panic = "abort")]
#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    // SAFETY: no preconditions.
    unsafe { libc::abort() }
}
