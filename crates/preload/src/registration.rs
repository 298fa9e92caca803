//! Registration caches: libraries that hand frames of the program's memory to a device and remember them after `free`.
//!
//! In: the names of the loaded objects. Out: a pool that keeps its pages where they are, if such a library is loaded.
//!
//! A cache (RDMA: UCX, libfabric, Open MPI; CUDA) must hear of every page that goes away. It hooks munmap, madvise and
//! mremap of the C library: it patches the calls of the loaded objects, or the functions themselves. The pool calls the
//! kernel directly, and its thread could not run such a hook. So in these programs the pool purges nothing and moves no
//! page tables. Freed memory then stays until the program ends.
//!
//! A library linked to the program is there when our constructor runs. One that dlopen(3) loads is recognised by its
//! name, or at the next dlopen, which these libraries all make before they register memory: UCX, libfabric and Open MPI
//! load their transports, libibverbs its drivers, CUDA its compiler. What was purged until then was registered nowhere.
//! libibverbs alone registers nothing without a driver, and libpcap is linked to it.

use std::ffi::{CStr, c_char, c_int};

use crate::objects::iterate;
use crate::{Void, pool};

/// The beginnings of the files' names.
const CACHES: [&[u8]; 9] = [
    b"libucm",
    b"libucs",
    b"libfabric",
    b"libopen-pal",
    b"libopal",
    b"libcuda.",
    b"libmlx4",
    b"libmlx5",
    b"libefa",
];
/// A part of the names of libibverbs's drivers.
const DRIVER: &[u8] = b"-rdmav";

/// Looks for a registration cache among the loaded objects, and in the name of one that is about to be loaded.
pub(crate) fn look(about_to_load: *const c_char) {
    if pool::keeps() {
        return;
    }
    // SAFETY: the callback gets a null pointer and ignores it.
    if is_cache(about_to_load) || unsafe { iterate(is_loaded_cache, std::ptr::null_mut()) } != 0 {
        pool::keep();
    }
}

unsafe extern "C" fn is_loaded_cache(object: *mut libc::dl_phdr_info, _: usize, _: Void) -> c_int {
    // SAFETY: dl_iterate_phdr(3) passes a valid description.
    is_cache(unsafe { (*object).dlpi_name }).into()
}

/// Whether a path names a registration cache. Wheels of Python have a hash behind the name: `libucm-52639bee.so.0`.
fn is_cache(path: *const c_char) -> bool {
    if path.is_null() {
        return false;
    }
    // SAFETY: the loader and the callers of dlopen(3) pass C strings.
    let path = unsafe { CStr::from_ptr(path) }.to_bytes();
    let name = path.rsplit(|&byte| byte == b'/').next().unwrap_or(path);
    let names = |prefix: &[u8]| {
        name.strip_prefix(prefix)
            .is_some_and(|rest| prefix.ends_with(b".") || matches!(rest, [b'.' | b'-', ..]))
    };
    CACHES.into_iter().any(names) || name.windows(DRIVER.len()).any(|part| part == DRIVER)
}
