//! Blocks that are zero, as a type.
//!
//! In: a block whose bytes are all zero. Out: a view that can only be read, so the promise holds for as long as the type
//! does; whoever wants to write takes the [`Block`] out of it.

use std::ops::Deref;

use crate::block::{Block, Memory};

/// A block of zeroes, owned.
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
    /// Only for a block that has just come from the pool, zeroed.
    pub(crate) fn new(block: Block<'p, B>) -> Self {
        Self(block)
    }

    /// The block, to be written; from now on its type promises nothing.
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
