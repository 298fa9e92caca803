//! The C ABI of the pool. Its manual is `include/faultless.h`.
//!
//! In: handles, lengths and addresses of C callers. Out: addresses and results, always: what can be checked is checked, and
//! nothing unwinds, aborts or prints.
//!
//! What it does not do: small blocks, or anything that the Rust crate doesn't.

mod counters;
mod pools;

use std::ffi::{CStr, c_char, c_int, c_void};
use std::ptr;

use faultless_pool::{Kernel, Page, Policy, Pool, Prefault, process};

use crate::pools::NO_POOL;

/// What a handle points to.
pub type Handle = Pool<Kernel>;

const OK: c_int = 0;
const INVALID: c_int = 1;
const NO_MEMORY: c_int = 2;
const FOREIGN: c_int = 3;

/// No policy will be longer: a size beyond is garbage, and following it would read what is not the caller's.
const POLICY_BYTES: usize = 1024;

/// `faultless_policy`. Members that a caller does not have yet are zero.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct CPolicy {
    size: usize,
    page: u32,
    prefault: u32,
    retain_bytes: u64,
}

impl CPolicy {
    /// Reads as much of a policy as the caller has; `None` if the caller's is longer and the rest is not zero.
    ///
    /// # Safety
    /// `from` is null or points to a policy of the size that it begins with.
    unsafe fn read(from: *const Self) -> Option<Self> {
        let mut policy = Self::default();
        if from.is_null() {
            return Some(policy);
        }
        // SAFETY: the caller's policy begins with its size.
        let size = unsafe { from.cast::<usize>().read() };
        if !(size_of::<usize>()..=POLICY_BYTES).contains(&size) {
            return None;
        }
        let known = size.min(size_of::<Self>());
        // SAFETY: both have at least `known` bytes, and every bit pattern is a valid policy.
        unsafe { (&raw mut policy).cast::<u8>().copy_from_nonoverlapping(from.cast(), known) };
        for at in known..size {
            // SAFETY: inside the caller's policy.
            if unsafe { from.cast::<u8>().add(at).read() } != 0 {
                return None;
            }
        }
        Some(policy)
    }

    fn policy(self) -> Option<Policy> {
        let mut policy = process::policy();
        policy.page = match self.page {
            0 => Page::Thp,
            1 => Page::Base,
            _ => return None,
        };
        policy.prefault = match self.prefault {
            0 => Prefault::None,
            1 => Prefault::Populate,
            _ => return None,
        };
        policy.retain.bytes = match self.retain_bytes {
            0 => policy.retain.bytes,
            u64::MAX => 0,
            bytes => usize::try_from(bytes).unwrap_or(usize::MAX),
        };
        Some(policy)
    }
}

/// The pool behind a handle.
///
/// # Safety
/// The handle is null or a live one.
unsafe fn pool<'a>(handle: *const Handle) -> Option<&'a Handle> {
    // SAFETY: a live handle points to a pool, which is only ever shared.
    unsafe { handle.as_ref() }
}

/// An error in words, with the remedy.
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

/// # Safety
/// As [`pool`].
unsafe fn alloc(handle: *mut Handle, align: usize, len: usize, zeroed: bool) -> *mut c_void {
    // SAFETY: forwarded.
    let pool = unsafe { pool(handle) }.filter(|_| align.is_power_of_two());
    let block = pool.and_then(|pool| pool.alloc_raw(len, align, zeroed));
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
/// The handle is null or a live one; `block` is null or a place for an address; nothing else uses the block there.
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
    let new = match () {
        () if old.is_null() => pool.alloc_raw(len, 1, false),
        () if pool.len_raw(old.addr()).is_none() => return FOREIGN,
        // SAFETY: the caller lets the block move.
        () => unsafe { pool.resize_raw(old.addr(), len) },
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
    // SAFETY: the caller gives the block up; the pool looks whether it is one.
    if block.is_null() || unsafe { pool.free_raw(block.addr()) } { OK } else { FOREIGN }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn structures_are_as_long_as_the_c_compiler_makes_them() {
        // tests/abi.c prints the same sizes.
        assert_eq!((size_of::<CPolicy>(), size_of::<counters::CStat>()), (24, 32));
    }
}
