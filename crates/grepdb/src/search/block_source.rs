//! Memory for the texts of chunks: from the block pool, or for comparison from elsewhere.
//!
//! In: lengths. Out: a [`TextBlock`] per chunk, freed when it is dropped.
//!
//! It does not serve the index or the output, which are small.

use std::ops::{Deref, DerefMut};

use faultless_os::mapping::{Mapping, Pages};
use faultless_pool::{Kernel, process};

/// Where text blocks come from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BlockSource {
    /// The block pool of this process.
    #[default]
    Pool,
    /// malloc and free. The memory is zeroed, as safe Rust needs it.
    Malloc,
    /// mmap and munmap.
    Mmap,
    /// mmap with MAP_POPULATE, and munmap.
    Populate,
    /// mmap with transparent huge pages, and munmap.
    Thp,
}

pub(crate) enum TextBlock {
    Pool(faultless_pool::Block<'static, Kernel>),
    Heap(Vec<u8>),
    Mapping(Mapping),
}

impl BlockSource {
    /// A block of `len` bytes with any content. It comes from the heap if its source fails.
    pub(crate) fn block(self, len: usize) -> TextBlock {
        let mapped = |pages| Mapping::new(len, pages).ok().map(TextBlock::Mapping);
        let block = match self {
            Self::Pool => {
                process::pool(process::policy).and_then(|pool| pool.alloc(len)).map(TextBlock::Pool)
            }
            Self::Malloc => None,
            Self::Mmap => mapped(Pages::Touched),
            Self::Populate => mapped(Pages::Populated),
            Self::Thp => mapped(Pages::Thp),
        };
        block.unwrap_or_else(|| TextBlock::Heap(vec![0; len]))
    }
}

impl Deref for TextBlock {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Self::Pool(block) => block,
            Self::Heap(block) => block,
            Self::Mapping(block) => block,
        }
    }
}

impl DerefMut for TextBlock {
    fn deref_mut(&mut self) -> &mut [u8] {
        match self {
            Self::Pool(block) => block,
            Self::Heap(block) => block,
            Self::Mapping(block) => block,
        }
    }
}
