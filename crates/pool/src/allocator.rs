//! A pool as an allocator for collections, by `allocator-api2`'s trait, the stable form of `std::alloc::Allocator`.
//!
//! In: layouts. Out: blocks of whole granules. It is meant for a few large collections, not for many small ones.
//! `allocator_api2::vec::Vec`, `hashbrown` and others take `&Pool`.

use std::alloc::Layout;
use std::ptr::NonNull;

use allocator_api2::alloc::{AllocError, Allocator};

use crate::block::Memory;
use crate::pool::Pool;
use crate::tuning::GRANULE_BYTES;

/// ```
/// # #[cfg(not(miri))] {
/// use allocator_api2::vec::Vec;
/// use faultless_pool::{Kernel, Policy, Pool};
/// let pool = Pool::open(Kernel::default(), Policy::default())?;
/// let mut numbers = Vec::with_capacity_in(1 << 20, &pool);
/// numbers.extend(0_u32..1 << 20);
/// assert_eq!(pool.stats().in_use_bytes, 4 << 20);
/// # }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
// SAFETY: a block keeps its address until it is freed, even if the reference to the pool moves. All copies of the
// reference are the same pool. The trait demands nothing else.
unsafe impl<B: Memory> Allocator for &Pool<B> {
    fn allocate(&self, layout: Layout) -> Result<NonNull<[u8]>, AllocError> {
        self.block(layout, false)
    }

    fn allocate_zeroed(&self, layout: Layout) -> Result<NonNull<[u8]>, AllocError> {
        self.block(layout, true)
    }

    unsafe fn deallocate(&self, start: NonNull<u8>, layout: Layout) {
        if layout.size() > 0 {
            // SAFETY: the caller gives up a block of this allocator. A block of length 0 is not in the pool.
            unsafe { self.free_raw(start.addr().get()) };
        }
    }

    unsafe fn grow(&self, start: NonNull<u8>, old: Layout, new: Layout) -> Result<NonNull<[u8]>, AllocError> {
        // SAFETY: the caller's promises are the same.
        unsafe { self.resized(start, old, new) }
    }

    unsafe fn grow_zeroed(
        &self,
        start: NonNull<u8>,
        old: Layout,
        new: Layout,
    ) -> Result<NonNull<[u8]>, AllocError> {
        // SAFETY: the caller's promises are the same.
        let block = unsafe { self.resized(start, old, new) }?;
        let rest = block.cast::<u8>().as_ptr().wrapping_add(old.size());
        // SAFETY: the block has `new.size()` bytes; the first `old.size()` of them, which are not more, are the old
        // content.
        unsafe { rest.write_bytes(0, new.size() - old.size()) };
        Ok(block)
    }

    unsafe fn shrink(
        &self,
        start: NonNull<u8>,
        old: Layout,
        new: Layout,
    ) -> Result<NonNull<[u8]>, AllocError> {
        // SAFETY: the caller's promises are the same.
        unsafe { self.resized(start, old, new) }
    }
}

impl<B: Memory> Pool<B> {
    fn block(&self, layout: Layout, zeroed: bool) -> Result<NonNull<[u8]>, AllocError> {
        if layout.size() == 0 {
            let nowhere = NonNull::new(std::ptr::without_provenance_mut(layout.align())).ok_or(AllocError)?;
            return Ok(NonNull::slice_from_raw_parts(nowhere, 0));
        }
        let start = self.alloc_raw(layout.size(), layout.align(), zeroed).ok_or(AllocError)?;
        Ok(NonNull::slice_from_raw_parts(start, layout.size()))
    }

    /// A block with another layout and the content of `start`, as much of it as fits.
    ///
    /// # Safety
    /// `start` was handed out with the layout `old` and is not used any more if this succeeds.
    unsafe fn resized(
        &self,
        start: NonNull<u8>,
        old: Layout,
        new: Layout,
    ) -> Result<NonNull<[u8]>, AllocError> {
        // A block that the pool moves is aligned to granules only.
        if old.size() > 0 && new.size() > 0 && new.align() <= GRANULE_BYTES {
            // SAFETY: the caller gives the block up for the one returned.
            let moved = unsafe { self.resize_raw(start.addr().get(), new.size()) }.ok_or(AllocError)?;
            return Ok(NonNull::slice_from_raw_parts(moved, new.size()));
        }
        let block = self.block(new, false)?;
        let len = old.size().min(new.size());
        // SAFETY: both have at least `len` bytes, and the pool hands no byte out twice.
        unsafe { block.cast::<u8>().copy_from_nonoverlapping(start, len) };
        // SAFETY: the caller gives the old block up.
        unsafe { self.deallocate(start, old) };
        Ok(block)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Fake, Policy};

    fn layout(size: usize, align: usize) -> Layout {
        Layout::from_size_align(size, align).unwrap()
    }

    #[test]
    fn a_vec_grows_and_shrinks_in_the_pool() {
        let pool = Pool::open(Fake::new(2), Policy::default()).unwrap();
        let mut numbers = allocator_api2::vec::Vec::new_in(&pool);
        numbers.extend(0_u32..20_000);
        numbers.truncate(100);
        numbers.shrink_to_fit();
        assert!(numbers.iter().copied().eq(0..100));
        assert_eq!(pool.stats().in_use_bytes, GRANULE_BYTES);
        drop(numbers);
        assert_eq!(pool.stats().in_use_bytes, 0);
    }

    #[test]
    fn nothing_is_allocated_for_no_bytes() {
        let pool = Pool::open(Fake::new(1), Policy::default()).unwrap();
        let (pool, none, some) = (&pool, layout(0, 64), layout(100, 64));
        let nowhere = pool.allocate(none).unwrap().cast::<u8>();
        assert_eq!((nowhere.addr().get() % 64, pool.stats().in_use_bytes), (0, 0));
        // SAFETY: handed out with this layout.
        let block = unsafe { pool.grow(nowhere, none, some) }.unwrap().cast::<u8>();
        // SAFETY: handed out with this layout.
        let nowhere = unsafe { pool.shrink(block, some, none) }.unwrap().cast::<u8>();
        // SAFETY: handed out with this layout.
        unsafe { pool.deallocate(nowhere, none) };
        assert_eq!(pool.stats().in_use_bytes, 0);
    }
}
