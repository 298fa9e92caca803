//! The malloc interposer: large blocks from the pool, all others from the next malloc.
//!
//! In: `LD_PRELOAD` and the variables of `settings`. Out: the C functions below. Allocating a small block costs one
//! comparison and one jump more than without; so does freeing it.
//!
//! ```text
//! malloc(640 KiB) -> recorded -> plain -> is_large -> large::alloc -> pool -> kernel
//!                       |             \-> next::malloc (glibc, or an allocator preloaded behind)
//!                       \-> record -> journal
//! ```
//! It never allocates, never panics and has no thread-local variables. The recorder has two thread-specific keys
//! (`os::caller`). C++ `new` and `delete` reach it through `malloc`.
//!
//! It has no effect in setuid programs, where ld.so ignores `LD_PRELOAD`, and in static programs. It forwards every
//! call in a program that defines malloc itself or has a sanitizer (`owner`).

mod altered;
mod behind;
mod calls;
mod entry;
mod environment;
mod large;
mod limits;
mod line;
mod loader;
mod mappings;
mod next;
mod objects;
mod once;
mod owner;
mod plain;
mod pool;
mod record;
mod recorded;
mod region;
mod registration;
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

/// Starts the interposer, once. The constructor of an allocator behind this library may call it before ours runs. The
/// passive interposer only finds the next definitions.
fn begin() {
    static BEGUN: AtomicBool = AtomicBool::new(false);
    if BEGUN.swap(true, AcqRel) {
        return;
    }
    next::resolve();
    calls::find();
    objects::find();
    loader::find();
    single::find();
    owner::tell();
    if owner::is_passive() {
        // A sanitizer would see the calls of a report.
        if !owner::is_behind_sanitizer() {
            summary::start();
        }
        return;
    }
    let settings = settings::Settings::from_environment();
    summary::start();
    record::start();
    pool::start(settings);
    mappings::start(settings.mappings);
    registration::look(std::ptr::null());
    limits::start();
}

/// The function that pthread_atfork(3) of glibc calls. Constructors of the program's libraries run before ours, and may
/// register fork handlers. Ours must be registered first.
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
    /// pvalloc(3). Large blocks are whole granules, hence whole pages.
    ///
    /// # Safety
    /// None beyond C's.
    pvalloc(len: usize) -> Void
}

/// free(3). Keeps errno.
///
/// # Safety
/// `block` must be null or a live block that nobody uses again.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn free(block: Void) {
    record::dies(block);
    // SAFETY: forwarded.
    unsafe { plain::free(block) }
}

/// C23 free_sized. A C library that has it would free the block itself, and bypass this library.
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
