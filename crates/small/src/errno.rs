//! The calling thread's errno. `calls` redirects mimalloc's own accesses to it.

use core::ffi::c_int;

unsafe extern "C" {
    fn __real___errno_location() -> *mut c_int;
}

/// The address of the calling thread's errno. It differs between threads.
pub(crate) fn location() -> *mut c_int {
    // SAFETY: no preconditions.
    unsafe { __real___errno_location() }
}

/// Sets the calling thread's errno.
pub(crate) fn set(value: c_int) {
    // SAFETY: the C library's location of this thread's errno is valid.
    unsafe { *location() = value };
}
