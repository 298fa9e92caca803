//! Memory for an allocator of small blocks behind this library: one region, under the pool's choice of pages.
//!
//! In: a length, and what the allocator has to do around fork. Out: addresses that are zero, writable and not resident
//! yet. The region is not the pool's afterwards and is never given back. Where addresses or memory are promised one by one
//! (`ulimit -v`, `vm.overcommit_memory=2`) there is none, and the allocator takes from the kernel what it needs.

use std::ptr;

use faultless_os::{advise, map};
use faultless_pool::Page;
use faultless_pool::tuning::{HEAD_SLABS, SLAB_BYTES};

use crate::{Void, begin, large};

/// Bytes at the start of the region that never use THP, as many as in the pool: mimalloc gives each size of blocks 64 or
/// 512 KiB of its own, which huge pages would make resident as a whole. Costs a large program 512 faults once; of the
/// peak it saves a program of a few blocks 3.6 of 5.6 MiB, sqlite3 4 of 28, gcc 5 of 75. Source: trials while this was
/// written, on the machine of record/2026-11-21-epyc-2cpu.
const HEAD_BYTES: usize = HEAD_SLABS * SLAB_BYTES;

/// `len` bytes for mimalloc's first arena, or null; from now on `before` and `after` are called around fork.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn faultless_region(
    len: usize,
    before: unsafe extern "C" fn(),
    after: unsafe extern "C" fn(),
) -> Void {
    begin();
    large::behind(before, after);
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
    if large::page() == Some(Page::Thp) && HEAD_BYTES < len {
        // SAFETY: inside the region.
        let _ = unsafe { advise::thp(start + HEAD_BYTES, len - HEAD_BYTES) };
    }
    start as Void
}
