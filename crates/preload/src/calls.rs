//! The next definitions of the C functions, other than malloc's, that this library interposes.
//!
//! In: nothing. Out: functions. The next definition may belong to a sanitizer or to a library that the user preloads.
//! Before `find`, each function makes the system call itself: a lookup at the first call could happen in a signal
//! handler.

use std::ffi::{CStr, c_int, c_long, c_uint, c_ulong};
use std::sync::atomic::{
    AtomicPtr,
    Ordering::{Acquire, Release},
};

use crate::{Void, next};

/// Declares functions, each with its system call, and `find`.
macro_rules! calls {
    ($($(#[$doc:meta])* $name:ident, $slot:ident, $number:path, ($($arg:ident: $kind:ty),*) -> $result:ty;)*) => {
        $(
            static $slot: AtomicPtr<libc::c_void> = AtomicPtr::new(std::ptr::null_mut());

            $(#[$doc])*
            ///
            /// # Safety
            /// As the C function of that name.
            pub(crate) unsafe extern "C" fn $name($($arg: $kind),*) -> $result {
                let found = $slot.load(Acquire);
                if found.is_null() {
                    // SAFETY: the caller keeps the contract of the system call.
                    return unsafe { next::system_call($number, [$($arg as usize),*]) } as $result;
                }
                // SAFETY: found under that name. Variadic integer arguments are passed in registers, as others are.
                let function: unsafe extern "C" fn($($kind),*) -> $result = unsafe { std::mem::transmute(found) };
                // SAFETY: the caller keeps the contract of the C function.
                unsafe { function($($arg),*) }
            }
        )*

        /// Finds the next definitions. Every C library has these functions.
        pub(crate) fn find() {
            $(
                let name = concat!(stringify!($name), "\0");
                let name = CStr::from_bytes_until_nul(name.as_bytes()).unwrap_or_default();
                // SAFETY: the name is a C string; RTLD_NEXT starts behind the object this code is in.
                $slot.store(unsafe { libc::dlsym(libc::RTLD_NEXT, name.as_ptr()) }, Release);
            )*
        }
    };
}

calls! {
    /// mprotect(2)
    mprotect, MPROTECT, libc::SYS_mprotect, (address: usize, len: usize, rights: c_int) -> c_int;
    /// madvise(2)
    madvise, MADVISE, libc::SYS_madvise, (address: usize, len: usize, advice: c_int) -> c_int;
    /// mlock(2)
    mlock, MLOCK, libc::SYS_mlock, (address: usize, len: usize) -> c_int;
    /// mmap(2)
    mmap, MMAP, libc::SYS_mmap,
        (address: usize, len: usize, rights: c_int, flags: c_int, file: c_int, offset: c_long) -> Void;
    /// vmsplice(2)
    vmsplice, VMSPLICE, libc::SYS_vmsplice,
        (pipe: c_int, parts: *const libc::iovec, count: usize, flags: c_uint) -> isize;
    /// munmap(2)
    munmap, MUNMAP, libc::SYS_munmap, (address: usize, len: usize) -> c_int;
    /// mremap(2)
    mremap, MREMAP, libc::SYS_mremap,
        (from: usize, len: usize, new_len: usize, flags: c_int, to: usize) -> Void;
    /// prctl(2)
    prctl, PRCTL, libc::SYS_prctl,
        (option: c_int, second: c_ulong, third: c_ulong, fourth: c_ulong, fifth: c_ulong) -> c_int;
}
