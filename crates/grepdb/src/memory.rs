//! Where the blocks that texts are unpacked into come from: the pool, or what others do.
//!
//! In: lengths. Out: a [`Block`] for each chunk that is looked at, given back when it has been.
//!
//! What it does not do: the index, and what is printed: that is small.

use std::ops::{Deref, DerefMut};

use faultless_os::mapping::{Mapping, Pages};
use faultless_pool::{Kernel, process};

/// Who gives blocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Memory {
    /// The block pool of this process.
    #[default]
    Pool,
    /// malloc and free, zeroed as Rust needs it.
    Malloc,
    /// mmap and munmap.
    Mmap,
    /// The same with MAP_POPULATE.
    Populate,
    /// The same with huge pages.
    Thp,
}

/// Bytes.
pub(crate) enum Block {
    Pool(faultless_pool::Block<'static, Kernel>),
    Heap(Vec<u8>),
    Mapping(Mapping),
}

impl Memory {
    /// A block of `len` bytes, of any content. Where its giver refuses, it is from the heap.
    pub(crate) fn block(self, len: usize) -> Block {
        let mapped = |pages| Mapping::new(len, pages).ok().map(Block::Mapping);
        let block = match self {
            Self::Pool => process::pool(process::policy).and_then(|pool| pool.alloc(len)).map(Block::Pool),
            Self::Malloc => None,
            Self::Mmap => mapped(Pages::Touched),
            Self::Populate => mapped(Pages::Populated),
            Self::Thp => mapped(Pages::Thp),
        };
        block.unwrap_or_else(|| Block::Heap(vec![0; len]))
    }
}

impl Deref for Block {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Self::Pool(block) => block,
            Self::Heap(block) => block,
            Self::Mapping(block) => block,
        }
    }
}

impl DerefMut for Block {
    fn deref_mut(&mut self) -> &mut [u8] {
        match self {
            Self::Pool(block) => block,
            Self::Heap(block) => block,
            Self::Mapping(block) => block,
        }
    }
}
