//! Blocks: memory of a pool, as byte slices or raw pointers.
//!
//! In: lengths. Out: a [`Block`], a byte slice that returns to the pool when dropped; a [`ZeroedBlock`]; or raw
//! pointers, for implementers of `malloc`. Only a [`Memory`] backend makes them, so a simulated address cannot be
//! dereferenced.

use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;

use crate::backend::Backend;
use crate::fake::Fake;
use crate::pool::Pool;

/// A backend whose usable addresses are memory.
///
/// # Safety
/// Let an offset lie inside the usable part of the range. [`Memory::pointer`] must be valid for reads and writes of
/// initialised bytes up to the end of that part, until [`Backend::release`]. The backend must access a span only inside
/// the calls of [`Backend`].
pub unsafe trait Memory: Backend {
    /// The memory at an offset.
    fn pointer(&self, offset: usize) -> NonNull<u8>;
}

// SAFETY: the fake's memory is initialised, lives as long as the fake, allows mutation through shared references, and
// is accessed only by the calls of `Backend`.
unsafe impl Memory for Fake {
    fn pointer(&self, offset: usize) -> NonNull<u8> {
        NonNull::new(self.start(offset)).unwrap_or(NonNull::dangling())
    }
}

/// Memory of a pool, owned.
///
/// ```
/// # #[cfg(not(miri))] {
/// use faultless_pool::{Kernel, Policy, Pool};
/// let pool = Pool::open(Kernel::default(), Policy::default())?;
/// let mut block = pool.alloc(640 << 10).ok_or("refused")?;
/// block.fill(1);
/// assert_eq!(block.iter().map(|&byte| byte as usize).sum::<usize>(), 640 << 10);
/// # }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Block<'p, B: Memory> {
    pool: &'p Pool<B>,
    offset: usize,
    len: usize,
}

// SAFETY: a block is the only way to its bytes. So another thread than its maker may use it if the pool may be shared,
// which the bounds demand.
unsafe impl<B: Memory + Sync + Send> Send for Block<'_, B> where Pool<B>: Sync {}

impl<B: Memory> Pool<B> {
    /// A block of `len` bytes with arbitrary content. `None` if the pool cannot serve it.
    pub fn alloc(&self, len: usize) -> Option<Block<'_, B>> {
        self.alloc_at(len, 1, false).map(|offset| Block { pool: self, offset, len })
    }

    /// A block of `len` zeroes. `None` if the pool cannot serve it.
    pub fn alloc_zeroed(&self, len: usize) -> Option<ZeroedBlock<'_, B>> {
        self.alloc_at(len, 1, true).map(|offset| ZeroedBlock(Block { pool: self, offset, len }))
    }

    /// At least `len` bytes, aligned to `align`: a power of two up to [`ALIGN_BYTES`](crate::tuning::ALIGN_BYTES). Free
    /// the block with [`Pool::free_raw`].
    pub fn alloc_raw(&self, len: usize, align: usize, zeroed: bool) -> Option<NonNull<u8>> {
        self.alloc_at(len, align, zeroed).map(|offset| self.backend().pointer(offset))
    }

    /// The usable length of the block that begins at an address; `None` if none does.
    pub fn len_raw(&self, address: usize) -> Option<usize> {
        self.len_at(address.wrapping_sub(self.range().0))
    }

    /// Frees a block. If none begins at the address, returns false and does nothing.
    ///
    /// # Safety
    /// Nothing may use the block any more.
    pub unsafe fn free_raw(&self, address: usize) -> bool {
        self.free_at(address.wrapping_sub(self.range().0))
    }

    /// A mapping of `len` zeroes, for implementers of mmap(2); `len` is whole pages. Give it back with
    /// [`Pool::unmap_raw`]. `None` if the pool can't serve it, or would keep nothing of it.
    pub fn map_raw(&self, len: usize) -> Option<NonNull<u8>> {
        self.map_at(len).map(|offset| self.backend().pointer(offset))
    }

    /// Frees a mapping; false if none of exactly this length begins at the address. `anew`: its pages are mapped anew
    /// and not kept.
    ///
    /// # Safety
    /// Nothing may use the mapping any more.
    pub unsafe fn unmap_raw(&self, address: usize, len: usize, anew: bool) -> bool {
        self.unmap_at(address.wrapping_sub(self.range().0), len, anew)
    }

    /// Changes the length of a block and keeps its content. On `None` nothing changed.
    ///
    /// # Safety
    /// Nothing else may use the block. If the address changes, the old one is free.
    pub unsafe fn resize_raw(&self, address: usize, len: usize) -> Option<NonNull<u8>> {
        let offset = self.resize_at(address.wrapping_sub(self.range().0), len)?;
        Some(self.backend().pointer(offset))
    }
}

impl<B: Memory> Block<'_, B> {
    /// Changes the length and keeps the content; new bytes are arbitrary. If refused, returns false and changes
    /// nothing.
    pub fn resize(&mut self, len: usize) -> bool {
        let Some(offset) = self.pool.resize_at(self.offset, len) else { return false };
        self.offset = offset;
        self.len = len;
        true
    }
}

impl<B: Memory> Deref for Block<'_, B> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        let start = self.pool.backend().pointer(self.offset);
        // SAFETY: the pool gave this block `len` usable bytes that belong to nobody else (pool model test), and Memory
        // promises initialised memory.
        unsafe { std::slice::from_raw_parts(start.as_ptr(), self.len) }
    }
}

impl<B: Memory> DerefMut for Block<'_, B> {
    fn deref_mut(&mut self) -> &mut [u8] {
        let start = self.pool.backend().pointer(self.offset);
        // SAFETY: as in `deref`; `&mut self` excludes other references through this block.
        unsafe { std::slice::from_raw_parts_mut(start.as_ptr(), self.len) }
    }
}

impl<B: Memory> Drop for Block<'_, B> {
    fn drop(&mut self) {
        self.pool.free_at(self.offset);
    }
}

/// A block of zeroes, owned. It can only be read, so it stays zero; [`ZeroedBlock::into_block`] makes it writable.
///
/// ```
/// # #[cfg(not(miri))] {
/// use faultless_pool::{Block, Kernel, Policy, Pool};
/// let pool = Pool::open(Kernel::default(), Policy::default())?;
/// let zeroes = pool.alloc_zeroed(640 << 10).ok_or("refused")?;
/// assert!(zeroes.iter().all(|&byte| byte == 0));
/// let mut block = zeroes.into_block();
/// block[7] = 1;
/// # }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct ZeroedBlock<'p, B: Memory>(Block<'p, B>);

impl<'p, B: Memory> ZeroedBlock<'p, B> {
    /// The block, writable.
    pub fn into_block(self) -> Block<'p, B> {
        self.0
    }
}

impl<B: Memory> Deref for ZeroedBlock<'_, B> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.0
    }
}

impl<'p, B: Memory> From<ZeroedBlock<'p, B>> for Block<'p, B> {
    fn from(zeroed: ZeroedBlock<'p, B>) -> Self {
        zeroed.into_block()
    }
}
