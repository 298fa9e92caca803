//! Memory for an allocator of small blocks behind this library: one region, under the pool's choice of pages.
//!
//! In: a length, and what the allocator has to do around fork. Out: addresses that are zero, writable and not resident yet. The region is not the pool's afterwards and
//! is never given back. Where addresses or memory are promised one by one (`ulimit -v`, `vm.overcommit_memory=2`) there is
//! none, and the allocator takes from the kernel what it needs.

use std::ptr;

use faultless_os::{advise, map};
use faultless_pool::Page;
use faultless_pool::tuning::SLAB_BYTES;

use crate::{Void, begin, large};

/// mimalloc cuts an arena into parts of this many bytes, each for blocks of about one size: the first for those up to
/// 10 KiB, the second for those up to 64 KiB.
const PART_BYTES: usize = 32 << 20;
/// Bytes at the start of these two parts that never use THP, so that a short program doesn't pay for zeroing 2 MiB
/// twice, nor for keeping them. Costs a large program 4096 faults once, some 2 ms; saves sqlite3 and gcc 2 to 5 MiB of
/// their peak. Source: record of the first trials, docs of `run --small`.
const HEAD_BYTES: usize = 8 << 20;

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
    if large::page() == Some(Page::Thp) {
        for (from, to) in [(HEAD_BYTES, PART_BYTES), (PART_BYTES + HEAD_BYTES, len)] {
            if to <= len && from < to {
                // SAFETY: inside the region.
                let _ = unsafe { advise::thp(start + from, to - from) };
            }
        }
    }
    start as Void
}
