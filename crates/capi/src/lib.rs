//! The C ABI of the pool. Its manual is `include/faultless.h`.
//!
//! In: handles, lengths and addresses of C callers. Out: addresses and results. Arguments are checked if they can be.
//! Nothing unwinds, aborts or prints.
//!
//! Out of scope: small blocks, and anything that the Rust crate lacks.

mod counters;
mod policy;
mod pools;

use std::ffi::{CStr, c_char, c_int, c_void};
use std::ptr;

use faultless_pool::{Kernel, Pool, process};

use crate::policy::CPolicy;
use crate::pools::NO_POOL;

/// A handle points to a pool.
pub type Handle = Pool<Kernel>;

const OK: c_int = 0;
const INVALID: c_int = 1;
const NO_MEMORY: c_int = 2;
const FOREIGN: c_int = 3;

/// The pool behind a handle.
///
/// # Safety
/// The handle is null or a live one.
unsafe fn pool(handle: *const Handle) -> Option<&'static Handle> {
    // SAFETY: a live handle points to a pool. The pool is only shared, and lives until nobody uses it any more.
    unsafe { handle.as_ref() }
}

/// An error as text, with the remedy.
#[unsafe(no_mangle)]
pub extern "C" fn faultless_error_text(error: c_int) -> *const c_char {
    let text: &CStr = match error {
        OK => c"no error",
        INVALID => c"invalid argument: see the function's description in faultless.h",
        NO_MEMORY => {
            c"the kernel refused memory or addresses: raise ulimit -v, the cgroup's memory limit or vm.overcommit_memory"
        }
        FOREIGN => c"no block in use of this pool begins at this address: freed already, or from elsewhere",
        _ => c"unknown error: newer than this library, or not from it",
    };
    text.as_ptr()
}

/// See faultless.h.
///
/// # Safety
/// `policy` is null or a policy of the size it begins with; `to` is null or a place for a handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn faultless_pool_create(policy: *const CPolicy, to: *mut *mut Handle) -> c_int {
    if to.is_null() {
        return INVALID;
    }
    // SAFETY: forwarded.
    let Some(policy) = unsafe { CPolicy::read(policy) }.and_then(CPolicy::policy) else { return INVALID };
    let handle = pools::create(policy);
    // SAFETY: a place for a handle, not null.
    unsafe { to.write(handle) };
    if handle == NO_POOL { NO_MEMORY } else { OK }
}

/// See faultless.h.
///
/// # Safety
/// Nothing may use the pool or its blocks any more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn faultless_pool_destroy(handle: *mut Handle) -> c_int {
    // SAFETY: forwarded; the handle is looked for before it is used.
    if unsafe { pools::destroy(handle) } { OK } else { INVALID }
}

/// See faultless.h.
#[unsafe(no_mangle)]
pub extern "C" fn faultless_process_pool() -> *mut Handle {
    process::pool(process::policy).map_or(NO_POOL, |pool| ptr::from_ref(pool).cast_mut())
}

/// See faultless.h.
///
/// # Safety
/// The handle is null or a live one; `resident` is null or a place for a number.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn faultless_prewarm(handle: *mut Handle, bytes: usize, resident: *mut usize) -> c_int {
    // SAFETY: forwarded.
    let Some(pool) = (unsafe { pool(handle) }) else { return INVALID };
    let populated = pool.prewarm(bytes);
    if !resident.is_null() {
        // SAFETY: a place for a number, not null.
        unsafe { resident.write(populated.resident) };
    }
    if populated.resident < bytes { NO_MEMORY } else { OK }
}

/// # Safety
/// As [`pool`].
unsafe fn alloc(handle: *mut Handle, align: usize, len: usize, zeroed: bool) -> *mut c_void {
    // SAFETY: forwarded.
    let pool = unsafe { pool(handle) }.filter(|_| align.is_power_of_two());
    let block = pool.and_then(|pool| process::serve(pool, |pool| pool.alloc_raw(len, align, zeroed)));
    block.map_or(ptr::null_mut(), |block| block.as_ptr().cast())
}

/// See faultless.h.
///
/// # Safety
/// The handle is null or a live one.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn faultless_alloc(handle: *mut Handle, len: usize) -> *mut c_void {
    // SAFETY: forwarded.
    unsafe { alloc(handle, 1, len, false) }
}

/// See faultless.h.
///
/// # Safety
/// The handle is null or a live one.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn faultless_zalloc(handle: *mut Handle, len: usize) -> *mut c_void {
    // SAFETY: forwarded.
    unsafe { alloc(handle, 1, len, true) }
}

/// See faultless.h.
///
/// # Safety
/// The handle is null or a live one.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn faultless_aligned_alloc(
    handle: *mut Handle,
    align: usize,
    len: usize,
) -> *mut c_void {
    // SAFETY: forwarded.
    unsafe { alloc(handle, align, len, false) }
}

/// See faultless.h.
///
/// # Safety
/// The handle is null or alive. `block` is null or points to the address of a block, which nothing else uses.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn faultless_realloc(
    handle: *mut Handle,
    block: *mut *mut c_void,
    len: usize,
) -> c_int {
    // SAFETY: forwarded.
    let Some(pool) = unsafe { pool(handle) }.filter(|_| !block.is_null()) else { return INVALID };
    // SAFETY: a place for an address.
    let old = unsafe { block.read() };
    let new = process::serve(pool, |pool| {
        if old.is_null() {
            return Ok(pool.alloc_raw(len, 1, false));
        }
        pool.len_raw(old.addr()).ok_or(FOREIGN)?;
        // SAFETY: the caller lets the block move.
        Ok(unsafe { pool.resize_raw(old.addr(), len) })
    });
    let new = match new {
        Ok(new) => new,
        Err(error) => return error,
    };
    let Some(new) = new else { return NO_MEMORY };
    // SAFETY: a place for an address.
    unsafe { block.write(new.as_ptr().cast()) };
    OK
}

/// See faultless.h.
///
/// # Safety
/// The handle is null or a live one; nothing uses the block any more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn faultless_free(handle: *mut Handle, block: *mut c_void) -> c_int {
    // SAFETY: forwarded.
    let Some(pool) = (unsafe { pool(handle) }) else { return INVALID };
    // SAFETY: the caller gives the block up; the pool checks whether it is one.
    let free = |pool: &Handle| unsafe { pool.free_raw(block.addr()) };
    if block.is_null() || process::serve(pool, free) { OK } else { FOREIGN }
}

/// See faultless.h.
///
/// # Safety
/// The handle is null or a live one.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn faultless_usable_size(handle: *mut Handle, block: *const c_void) -> usize {
    // SAFETY: forwarded.
    unsafe { pool(handle) }.and_then(|pool| pool.len_raw(block.addr())).unwrap_or(0)
}
