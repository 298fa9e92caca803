//! Memory for an allocator of small blocks behind this library: one region, with the pages that the policy chooses.
//!
//! In: a length, and the allocator's functions around fork. Out: addresses that are zero, writable and not resident
//! yet. The region does not belong to the pool and is never given back. If addresses or memory are limited (`ulimit
//! -v`, `vm.overcommit_memory=2`), there is no region, and the allocator maps its own memory.

use std::ptr;

use faultless_os::{advise, map};
use faultless_pool::Page;
use faultless_pool::tuning::{HEAD_SLABS, SLAB_BYTES};

use crate::{Void, begin, behind, pool};

/// Bytes at the start of the region that never use THP, as in the pool. mimalloc gives each size of blocks 64 or 512
/// KiB of its own, and a huge page would make that resident at once. This costs a large program 512 faults, once. At
/// the peak it saves a program of a few blocks 3.6 of 5.6 MiB, sqlite3 4 of 28, gcc 5 of 75. Source: trials on the
/// EPYC guest of the records.
const HEAD_BYTES: usize = HEAD_SLABS * SLAB_BYTES;
/// Bytes after the head that may use THP. It is the most that a program pays that writes little of its blocks: with 62
/// MiB, one that wrote an eighth had a peak of 174 MiB, glibc 142.
const HUGE_BYTES: usize = 46 << 20;

/// `len` bytes for mimalloc's first arena, or null. Registers `before` and `after` to be called around fork.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn faultless_region(
    len: usize,
    before: unsafe extern "C" fn(),
    after: unsafe extern "C" fn(),
) -> Void {
    begin();
    behind::register(before, after);
    if map::address_space_limit().is_some() || map::commit_is_strict() {
        return ptr::null_mut();
    }
    let Ok(start) = map::reserve(len, SLAB_BYTES) else { return ptr::null_mut() };
    // SAFETY: reserved above.
    if unsafe { map::make_usable(start, len) }.is_err() {
        // SAFETY: reserved above, and nobody knows it.
        let _ = unsafe { map::release(start, len) };
        return ptr::null_mut();
    }
    if pool::page() == Some(Page::Thp) && HEAD_BYTES + HUGE_BYTES <= len {
        // SAFETY: inside the region.
        let _ = unsafe { advise::thp(start + HEAD_BYTES, HUGE_BYTES) };
    }
    start as Void
}

/// Whether the program confined its system calls. The allocator then makes none that `free` of glibc does not.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn faultless_is_confined() -> bool {
    pool::is_confined()
}
