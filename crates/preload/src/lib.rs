//! The malloc interposer: large blocks from the pool, all others from the next malloc.
//!
//! In: `LD_PRELOAD` and the variables of `settings`. Out: the C functions below. A small block costs a comparison and a
//! jump more than without; freeing one, the same.
//!
//! ```text
//! malloc(640 KiB) -> is_large -> large::alloc -> pool -> kernel
//!                \-> next::malloc (glibc, or an allocator preloaded behind)
//! ```
//! It never allocates, never panics and keeps no thread-local state. C++ `new` and `delete` come here through `malloc`.
//!
//! What it does not do: setuid programs (ld.so ignores `LD_PRELOAD` there), static programs, programs with their own
//! allocator linked in.

mod large;
mod limits;
mod line;
mod next;
mod region;
mod settings;
mod single;
mod summary;
#[cfg(panic = "abort")]
mod unwind;

use std::ffi::{c_int, c_void};
use std::sync::atomic::{AtomicBool, Ordering::AcqRel};

type Void = *mut c_void;

#[used]
#[unsafe(link_section = ".init_array")]
static CONSTRUCTOR: extern "C" fn() = constructor;

#[used]
#[unsafe(link_section = ".fini_array")]
static DESTRUCTOR: extern "C" fn() = destructor;

extern "C" fn constructor() {
    begin();
}

/// What has to be done once; the constructor of an allocator behind this library may come before ours.
fn begin() {
    static BEGUN: AtomicBool = AtomicBool::new(false);
    if BEGUN.swap(true, AcqRel) {
        return;
    }
    next::resolve();
    single::find_fork();
    let settings = settings::Settings::from_environment();
    summary::ask(settings.summary, settings.format);
    large::start(settings);
}

/// What pthread_atfork(3) of glibc calls: libraries that the program is linked with have constructors that run before ours, and
/// our handlers have to be registered before theirs.
///
/// # Safety
/// The handlers are valid for as long as the object is loaded.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __register_atfork(
    before: next::Handler,
    in_parent: next::Handler,
    in_child: next::Handler,
    object: *const c_void,
) -> c_int {
    begin();
    next::at_fork(before, in_parent, in_child, object)
}

extern "C" fn destructor() {
    summary::write();
}

/// malloc(3).
///
/// # Safety
/// None beyond C's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn malloc(len: usize) -> Void {
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
#[unsafe(no_mangle)]
pub unsafe extern "C" fn calloc(count: usize, len: usize) -> Void {
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
#[unsafe(no_mangle)]
pub unsafe extern "C" fn realloc(block: Void, len: usize) -> Void {
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

/// reallocarray(3).
///
/// # Safety
/// As [`realloc`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn reallocarray(block: Void, count: usize, len: usize) -> Void {
    let Some(bytes) = count.checked_mul(len) else {
        next::set_errno(libc::ENOMEM);
        return std::ptr::null_mut();
    };
    // SAFETY: forwarded.
    unsafe { realloc(block, bytes) }
}

/// free(3); errno is kept.
///
/// # Safety
/// `block` must be null or a live block that nobody uses again.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn free(block: Void) {
    if large::is_ours(block) {
        // SAFETY: forwarded.
        unsafe { large::free(block) }
    } else {
        // SAFETY: forwarded.
        unsafe { next::free(block) }
    }
}

/// C23 free_sized: a C library that has it would free the block itself, without asking us.
///
/// # Safety
/// As [`free`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn free_sized(block: Void, _len: usize) {
    // SAFETY: forwarded.
    unsafe { free(block) }
}

/// C23 free_aligned_sized, for the same reason.
///
/// # Safety
/// As [`free`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn free_aligned_sized(block: Void, _align: usize, _len: usize) {
    // SAFETY: forwarded.
    unsafe { free(block) }
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
#[unsafe(no_mangle)]
pub unsafe extern "C" fn posix_memalign(to: *mut Void, align: usize, len: usize) -> c_int {
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
#[unsafe(no_mangle)]
pub unsafe extern "C" fn aligned_alloc(align: usize, len: usize) -> Void {
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
#[unsafe(no_mangle)]
pub unsafe extern "C" fn memalign(align: usize, len: usize) -> Void {
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
#[unsafe(no_mangle)]
pub unsafe extern "C" fn valloc(len: usize) -> Void {
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
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pvalloc(len: usize) -> Void {
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
#[unsafe(no_mangle)]
pub unsafe extern "C" fn malloc_usable_size(block: Void) -> usize {
    if let Some(len) = large::is_ours(block).then(|| large::usable(block)).flatten() {
        return len;
    }
    // SAFETY: forwarded.
    unsafe { next::malloc_usable_size(block) }
}
