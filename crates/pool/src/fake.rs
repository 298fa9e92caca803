//! A backend on the heap, for tests: runs under Miri, and reads as the kernel's memory would.
//!
//! In: the number of slabs. Out: memory whose purged and moved-away parts read as zero. Nothing here is unsafe: the
//! bytes are atomics, so pointers into them stay valid while the fake writes.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

use crate::backend::{Backend, Moved, Reserved, Span};
use crate::policy::Page;
use crate::policy::tuning::SLAB_BYTES;
use crate::state::Slab;

/// A range on the heap.
#[derive(Debug)]
pub struct Fake {
    memory: Arc<[AtomicU64]>,
    slabs: usize,
    clock: AtomicU64,
    refuses_purge: AtomicBool,
}

impl Fake {
    /// A range of `slabs` slabs.
    pub fn new(slabs: usize) -> Self {
        let words = (slabs + 1) * SLAB_BYTES / 8;
        let memory = (0..words).map(|_| AtomicU64::new(0)).collect();
        Self { memory, slabs, clock: AtomicU64::new(0), refuses_purge: AtomicBool::new(false) }
    }

    /// From now on every purge is refused, as the kernel does with locked pages.
    pub fn refuse_purge(&self) {
        self.refuses_purge.store(true, Relaxed);
    }

    /// The memory at an offset; it may be written through, being atomics.
    pub(crate) fn start(&self, offset: usize) -> *mut u8 {
        self.memory.as_ptr().cast_mut().cast::<u8>().wrapping_add(self.skip() + offset)
    }

    /// Bytes before the first aligned one.
    fn skip(&self) -> usize {
        let start = self.memory.as_ptr().addr();
        start.next_multiple_of(SLAB_BYTES) - start
    }

    fn words(&self, span: Span) -> &[AtomicU64] {
        let first = (self.skip() + span.offset) / 8;
        &self.memory[first..first + span.len / 8]
    }
}

impl Backend for Fake {
    type Slabs = Vec<Slab>;
    type Words = Vec<u64>;

    fn reserve(&self, _page: Page) -> crate::Result<Reserved<Vec<Slab>, Vec<u64>>> {
        Ok(Reserved {
            len: self.slabs * SLAB_BYTES,
            base: self.memory.as_ptr().addr() + self.skip(),
            slabs: (0..self.slabs).map(|_| Slab::RESERVED).collect(),
            words: vec![0; self.slabs.div_ceil(64) * 2],
            roomy: true,
        })
    }

    fn extend(&self, _from: usize, _to: usize) -> crate::Result<()> {
        Ok(())
    }

    fn populate(&self, _span: Span) -> crate::Result<()> {
        Ok(())
    }

    fn zero(&self, span: Span) {
        self.words(span).iter().for_each(|word| word.store(0, Relaxed));
    }

    fn relocate(&self, from: Span, to: usize, by_pages: bool) -> Moved {
        let target = self.words(Span { offset: to, len: from.len });
        for (word, target) in self.words(from).iter().zip(target) {
            let value = if by_pages { word.swap(0, Relaxed) } else { word.load(Relaxed) };
            target.store(value, Relaxed);
        }
        if by_pages { Moved::Pages } else { Moved::Copied }
    }

    fn purge(&self, span: Span) -> crate::Result<()> {
        if self.refuses_purge.load(Relaxed) {
            return Err(faultless_os::Error::new("madvise(MADV_DONTNEED", 22).into());
        }
        self.zero(span);
        Ok(())
    }

    fn release(&self) {}

    fn now(&self) -> u64 {
        self.clock.fetch_add(1, Relaxed)
    }
}
