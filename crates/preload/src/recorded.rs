//! The C functions that may return a block, with the recorder: long blocks are recorded with their caller.
//!
//! In: C's arguments, padded to three, then the caller's registers from `entry`. Out: C's results, from `plain`. A call
//! that is not recorded ends in a jump, so that stack traces have no frame of this library.

use std::ffi::c_int;

use faultless_os::counters::now_ns;
use faultless_os::journal::Registers;

use crate::{Void, next, owner, plain, record};

/// Declares a function that `entry` jumps to. `$site` returns its caller.
macro_rules! recorded {
    ($(#[$doc:meta])* fn $name:ident($($arg:ident: $kind:ty),*; $site:ident) -> $result:ty $body:block) => {
        $(#[$doc])*
        pub(crate) unsafe extern "C" fn $name(
            $($arg: $kind,)*
            sp: usize,
            bp: usize,
            return_to: usize,
        ) -> $result {
            let $site = move || caller(sp, bp, return_to);
            $body
        }
    };
}

/// The caller's registers, from the fourth to sixth arguments.
fn caller(sp: usize, bp: usize, return_to: usize) -> Registers {
    // The address inside the call is looked up. The code behind the call may belong to another function.
    Registers { ip: return_to as u64 - 1, sp: sp as u64, bp: bp as u64, lr: return_to as u64 }
}

/// Records the result of a call unless it is null.
fn recorded(block: Void, len: usize, site: impl FnOnce() -> Registers) -> Void {
    if !block.is_null() {
        record::born(block, len, site());
    }
    block
}

recorded! {
    /// malloc(3).
    fn malloc(len: usize, _b: usize, _c: usize; site) -> Void {
        if !record::wants(len) {
            // SAFETY: forwarded.
            return unsafe { plain::malloc(len) };
        }
        // SAFETY: forwarded.
        recorded(unsafe { plain::malloc(len) }, len, site)
    }
}

recorded! {
    /// calloc(3).
    fn calloc(count: usize, len: usize, _c: usize; site) -> Void {
        let bytes = count.saturating_mul(len);
        if !record::wants(bytes) {
            // SAFETY: forwarded.
            return unsafe { plain::calloc(count, len) };
        }
        // SAFETY: forwarded.
        recorded(unsafe { plain::calloc(count, len) }, bytes, site)
    }
}

recorded! {
    /// realloc(3).
    fn realloc(block: Void, len: usize, _c: usize; site) -> Void {
        let was_known = record::is_known(block);
        if !was_known && !record::wants(len) {
            // SAFETY: forwarded.
            return unsafe { plain::realloc(block, len) };
        }
        if !was_known {
            // SAFETY: forwarded.
            return recorded(unsafe { plain::realloc(block, len) }, len, site);
        }
        let begin_ns = now_ns();
        // SAFETY: forwarded.
        let new = unsafe { plain::realloc(block, len) };
        if !new.is_null() && record::wants(len) {
            record::moved(block, new, len, begin_ns, site());
        } else if !new.is_null() || len == 0 {
            record::gone(block, begin_ns);
        }
        new
    }
}

recorded! {
    /// reallocarray(3).
    fn reallocarray(block: Void, count: usize, len: usize; site) -> Void {
        if owner::is_passive() {
            // SAFETY: forwarded.
            return unsafe { next::reallocarray(block, count, len) };
        }
        let Some(bytes) = count.checked_mul(len) else {
            next::set_errno(libc::ENOMEM);
            return std::ptr::null_mut();
        };
        let site = site();
        // SAFETY: forwarded.
        unsafe { realloc(block, bytes, 0, site.sp as usize, site.bp as usize, site.lr as usize) }
    }
}

recorded! {
    /// posix_memalign(3).
    fn posix_memalign(to: *mut Void, align: usize, len: usize; site) -> c_int {
        if !record::wants(len) {
            // SAFETY: forwarded.
            return unsafe { plain::posix_memalign(to, align, len) };
        }
        // SAFETY: forwarded.
        let error = unsafe { plain::posix_memalign(to, align, len) };
        if error == 0 {
            // SAFETY: the call has stored the block there.
            recorded(unsafe { *to }, len, site);
        }
        error
    }
}

recorded! {
    /// aligned_alloc(3). If the next malloc's own `operator new` calls it, its `operator delete` frees the block
    /// unseen.
    fn aligned_alloc(align: usize, len: usize, _c: usize; site) -> Void {
        if !record::wants(len) || next::has_aligned_new() {
            // SAFETY: forwarded.
            return unsafe { plain::aligned_alloc(align, len) };
        }
        // SAFETY: forwarded.
        recorded(unsafe { plain::aligned_alloc(align, len) }, len, site)
    }
}

recorded! {
    /// memalign(3).
    fn memalign(align: usize, len: usize, _c: usize; site) -> Void {
        if !record::wants(len) {
            // SAFETY: forwarded.
            return unsafe { plain::memalign(align, len) };
        }
        // SAFETY: forwarded.
        recorded(unsafe { plain::memalign(align, len) }, len, site)
    }
}

recorded! {
    /// valloc(3).
    fn valloc(len: usize, _b: usize, _c: usize; site) -> Void {
        if !record::wants(len) {
            // SAFETY: forwarded.
            return unsafe { plain::valloc(len) };
        }
        // SAFETY: forwarded.
        recorded(unsafe { plain::valloc(len) }, len, site)
    }
}

recorded! {
    /// pvalloc(3).
    fn pvalloc(len: usize, _b: usize, _c: usize; site) -> Void {
        if !record::wants(len) {
            // SAFETY: forwarded.
            return unsafe { plain::pvalloc(len) };
        }
        // SAFETY: forwarded.
        recorded(unsafe { plain::pvalloc(len) }, len, site)
    }
}
