//! The malloc behind the interposer, for programs of many small objects: mimalloc, in memory that the interposer
//! supplies.
//!
//! In: `LD_PRELOAD`, behind the interposer, which asks for blocks below its threshold here. Out: the C functions below,
//! each a jump to mimalloc's with glibc's answer in the corners: errno, alignment, and `realloc` to nothing.
//!
//! The interposer decides whether the program keeps another allocator than the C library's. In that case nothing here
//! is called, and mimalloc is not initialized.

mod calls;
mod fork;
mod limit;
mod region;
#[cfg(panic = "abort")]
mod unwind;

use core::ffi::{CStr, c_char, c_int, c_void};
use core::ptr;
use core::sync::atomic::{AtomicBool, AtomicPtr, Ordering::Relaxed};

use faultless_os::page;
use libmimalloc_sys as mi;

type Void = *mut c_void;

/// glibc's alignment of every block. mimalloc aligns blocks of up to 8 bytes to 8.
const ALIGN_BYTES: usize = 16;
/// Above this alignment in bytes, mimalloc gives each block a mapping of its own.
const MAPPED_ALIGN_BYTES: usize = 64 << 10;
/// Minimum length of such a mapping, in bytes. Only addresses are spent. mimalloc 3.3 and 3.4 treat a shorter one as
/// 64 KiB longer than it is, and lose track of the page after it. If it has no arena, blocks in that page are lost.
const MAPPED_BYTES: usize = (4 << 20) + (64 << 10);
/// The longest block in C.
const MAX_BYTES: usize = isize::MAX as usize;

#[used]
#[unsafe(link_section = ".init_array")]
static CONSTRUCTOR: extern "C" fn() = constructor;

#[used]
#[unsafe(link_section = ".fini_array")]
static DESTRUCTOR: extern "C" fn() = destructor;

/// Whether mimalloc serves in this process.
static IS_USED: AtomicBool = AtomicBool::new(false);
/// The interposer's `faultless_is_confined`, or null.
static CONFINED: AtomicPtr<c_void> = AtomicPtr::new(ptr::null_mut());

unsafe extern "C" {
    // mimalloc's constructor and destructor call these. The build omits both (MI_PRIM_HAS_PROCESS_ATTACH).
    fn _mi_auto_process_init();
    fn _mi_auto_process_done();
}

/// Initializes mimalloc unless the program keeps another allocator.
extern "C" fn constructor() {
    type Uses = extern "C" fn() -> bool;
    if let Some(found) = find(libc::RTLD_DEFAULT, c"faultless_uses_small") {
        // SAFETY: the interposer exports a function of this type under that name.
        let uses = unsafe { core::mem::transmute::<Void, Uses>(found) };
        if !uses() {
            return;
        }
    }
    IS_USED.store(true, Relaxed);
    CONFINED.store(find(libc::RTLD_DEFAULT, c"faultless_is_confined").unwrap_or(ptr::null_mut()), Relaxed);
    limit::apply();
    // SAFETY: no preconditions.
    unsafe { mi::mi_process_init() };
    region::take();
    // After the region, so that mimalloc does not reserve an arena for its own data.
    // SAFETY: no preconditions.
    unsafe { _mi_auto_process_init() };
}

extern "C" fn destructor() {
    if IS_USED.load(Relaxed) {
        // SAFETY: no preconditions; blocks stay where they are.
        unsafe { _mi_auto_process_done() };
    }
}

/// Whether the program confined its system calls.
fn is_confined() -> bool {
    let found = CONFINED.load(Relaxed);
    if found.is_null() {
        return false;
    }
    // SAFETY: the interposer exports a function of this type under that name.
    let is_confined = unsafe { core::mem::transmute::<Void, extern "C" fn() -> bool>(found) };
    is_confined()
}

fn find(scope: Void, name: &CStr) -> Option<Void> {
    // SAFETY: the name is a C string.
    let found = unsafe { libc::dlsym(scope, name.as_ptr()) };
    (!found.is_null()).then_some(found)
}

/// The definition of a function behind this library, or null.
///
/// # Safety
/// `name` must be a C string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn faultless_behind_small(name: *const c_char) -> Void {
    // SAFETY: forwarded.
    let found = unsafe { libc::dlsym(libc::RTLD_NEXT, name) };
    // dlsym looks at its return address, so this must not become a tail call.
    core::hint::black_box(found)
}

/// mimalloc's answer, with errno set if it is null.
fn answer(block: Void) -> Void {
    if block.is_null() { refuse() } else { block }
}

#[cold]
fn refuse() -> Void {
    calls::set_errno(libc::ENOMEM);
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
    answer(unsafe { mi::mi_malloc(len.max(ALIGN_BYTES)) })
}

/// calloc(3).
///
/// # Safety
/// None beyond C's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn calloc(count: usize, len: usize) -> Void {
    match count.checked_mul(len) {
        // SAFETY: forwarded.
        Some(bytes) if bytes <= MAX_BYTES => answer(unsafe { mi::mi_zalloc(bytes.max(ALIGN_BYTES)) }),
        _ => refuse(),
    }
}

/// realloc(3). A length of 0 frees, as in glibc.
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
        // musl answers with a block of no bytes.
        // SAFETY: no preconditions.
        return if is_glibc() { ptr::null_mut() } else { unsafe { malloc(0) } };
    }
    // SAFETY: forwarded.
    answer(unsafe { mi::mi_realloc(block, len.max(ALIGN_BYTES)) })
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
    let block = aligned(align, len);
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
    aligned_as(c"aligned_alloc", align, len)
}

/// memalign(3).
///
/// # Safety
/// None beyond C's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn memalign(align: usize, len: usize) -> Void {
    aligned_as(c"memalign", align, len)
}

/// `aligned_alloc` or `memalign`. Some C libraries round up an alignment that is no power of two, others refuse it with
/// EINVAL.
fn aligned_as(name: &CStr, align: usize, len: usize) -> Void {
    if !align.is_power_of_two() && !is_accepted(name, align) {
        return ptr::null_mut();
    }
    aligned(align, len)
}

/// Whether the C library's function accepts this alignment. Otherwise it sets errno.
#[cold]
fn is_accepted(name: &CStr, align: usize) -> bool {
    type Align = unsafe extern "C" fn(usize, usize) -> Void;
    type Free = unsafe extern "C" fn(Void);
    let (Some(call), Some(free)) = (find(libc::RTLD_NEXT, name), find(libc::RTLD_NEXT, c"free")) else {
        return true;
    };
    // SAFETY: both aligned_alloc and memalign are of this type.
    let call = unsafe { core::mem::transmute::<Void, Align>(call) };
    // SAFETY: any alignment may be asked for.
    let block = unsafe { call(align, 1) };
    // SAFETY: free is of this type.
    let free = unsafe { core::mem::transmute::<Void, Free>(free) };
    // SAFETY: null, or a block of the C library's that nobody uses.
    unsafe { free(block) };
    !block.is_null()
}

/// A block whose alignment is rounded up to a power of two.
fn aligned(align: usize, len: usize) -> Void {
    let Some(align) = align.max(ALIGN_BYTES).checked_next_power_of_two() else { return refuse() };
    if len.checked_add(align).is_none_or(|bytes| bytes > MAX_BYTES) {
        return refuse();
    }
    let least = if align > MAPPED_ALIGN_BYTES { MAPPED_BYTES } else { ALIGN_BYTES };
    // SAFETY: a power of two.
    answer(unsafe { mi::mi_malloc_aligned(len.max(least), align) })
}

/// valloc(3).
///
/// # Safety
/// None beyond C's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn valloc(len: usize) -> Void {
    aligned(page::size(), len)
}

/// pvalloc(3): whole pages.
///
/// # Safety
/// None beyond C's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pvalloc(len: usize) -> Void {
    let page = page::size();
    len.checked_next_multiple_of(page).map_or_else(refuse, |bytes| aligned(page, bytes))
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

fn is_glibc() -> bool {
    // SAFETY: the name is a C string.
    let found = unsafe { libc::dlsym(libc::RTLD_DEFAULT, c"gnu_get_libc_version".as_ptr()) };
    if found.is_null() {
        // Otherwise the program's next dlerror(3) would report this lookup.
        // SAFETY: no preconditions.
        unsafe { libc::dlerror() };
    }
    !found.is_null()
}
