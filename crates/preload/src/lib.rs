//! The malloc interposer: large blocks from the pool, all others from the next malloc.
//!
//! In: `LD_PRELOAD` and the variables of `settings`. Out: the C functions below. A small block costs a comparison and a
//! jump more than without; freeing one, the same.
//!
//! ```text
//! malloc(640 KiB) -> recorded -> plain -> is_large -> large::alloc -> pool -> kernel
//!                       |             \-> next::malloc (glibc, or an allocator preloaded behind)
//!                       \-> record -> journal
//! ```
//! It never allocates, never panics and keeps no thread-local variables (the recorder: two thread-specific keys, `os::caller`). C++ `new` and `delete` come here through `malloc`.
//!
//! It does nothing in setuid programs, where ld.so ignores `LD_PRELOAD`, and in static ones. It forwards every call
//! in a program that defines malloc itself or is built with a sanitizer (`owner`).

mod altered;
mod calls;
mod entry;
mod large;
mod limits;
mod line;
mod next;
mod objects;
mod owner;
mod plain;
mod record;
mod recorded;
mod region;
mod settings;
mod single;
mod summary;
#[cfg(panic = "abort")]
mod unwind;

use std::ffi::{c_int, c_void};
use std::sync::atomic::{AtomicBool, Ordering::AcqRel};

use entry::entry;

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

/// What has to be done once; the constructor of an allocator behind this library may come before ours. The passive
/// interposer only finds the next definitions.
fn begin() {
    static BEGUN: AtomicBool = AtomicBool::new(false);
    if BEGUN.swap(true, AcqRel) {
        return;
    }
    next::resolve();
    calls::find();
    objects::find();
    single::find();
    owner::tell();
    if owner::is_passive() {
        return;
    }
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

entry! {
    /// malloc(3).
    ///
    /// # Safety
    /// None beyond C's.
    malloc(len: usize) -> Void
}

entry! {
    /// calloc(3): the memory is zero, always.
    ///
    /// # Safety
    /// None beyond C's.
    calloc(count: usize, len: usize) -> Void
}

entry! {
    /// realloc(3); a length of 0 frees, as in glibc.
    ///
    /// # Safety
    /// `block` must be null or a live block.
    realloc(block: Void, len: usize) -> Void
}

entry! {
    /// reallocarray(3).
    ///
    /// # Safety
    /// As [`realloc`].
    reallocarray(block: Void, count: usize, len: usize) -> Void
}

entry! {
    /// posix_memalign(3).
    ///
    /// # Safety
    /// `to` must be valid for a write of one pointer.
    posix_memalign(to: *mut Void, align: usize, len: usize) -> c_int
}

entry! {
    /// aligned_alloc(3).
    ///
    /// # Safety
    /// None beyond C's.
    aligned_alloc(align: usize, len: usize) -> Void
}

entry! {
    /// memalign(3).
    ///
    /// # Safety
    /// None beyond C's.
    memalign(align: usize, len: usize) -> Void
}

entry! {
    /// valloc(3).
    ///
    /// # Safety
    /// None beyond C's.
    valloc(len: usize) -> Void
}

entry! {
    /// pvalloc(3); large blocks are whole granules, hence whole pages.
    ///
    /// # Safety
    /// None beyond C's.
    pvalloc(len: usize) -> Void
}

/// free(3); errno is kept.
///
/// # Safety
/// `block` must be null or a live block that nobody uses again.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn free(block: Void) {
    record::dies(block);
    // SAFETY: forwarded.
    unsafe { plain::free(block) }
}

/// C23 free_sized: a C library that has it would free the block itself, without asking us.
///
/// # Safety
/// As [`free`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn free_sized(block: Void, len: usize) {
    if owner::is_passive() {
        // SAFETY: forwarded.
        return unsafe { next::free_sized(block, len) };
    }
    // SAFETY: forwarded.
    unsafe { free(block) }
}

/// C23 free_aligned_sized, for the same reason.
///
/// # Safety
/// As [`free`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn free_aligned_sized(block: Void, align: usize, len: usize) {
    if owner::is_passive() {
        // SAFETY: forwarded.
        return unsafe { next::free_aligned_sized(block, align, len) };
    }
    // SAFETY: forwarded.
    unsafe { free(block) }
}

/// malloc_usable_size(3).
///
/// # Safety
/// `block` must be null or a live block.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn malloc_usable_size(block: Void) -> usize {
    // SAFETY: forwarded.
    unsafe { plain::malloc_usable_size(block) }
}
