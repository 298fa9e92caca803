//! A backend on the heap, for tests: it runs under Miri and reads as the kernel's memory would.
//!
//! In: the number of slabs. Out: memory whose purged and moved parts read as zero. Nothing here is unsafe: the granules
//! are cells, so pointers into them stay valid while the fake writes. A cell is a granule and not a word, because Miri
//! checks every cell of a borrowed slice.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::atomic::{AtomicU32, AtomicU64};

use crate::backend::{Backend, FRONT_WORDS, Moved, Reserved, Residency, Span};
use crate::policy::Page;
use crate::slabs::{Slab, WORDS};
use crate::tuning::{GRANULE_BYTES, SLAB_BYTES, SLAB_GRANULES};

/// The content of a granule.
type Content = [u64; GRANULE_BYTES / 8];

#[derive(Debug)]
#[repr(C, align(16384))]
struct Granule(Cell<Content>);

const _: () = assert!(align_of::<Granule>() == GRANULE_BYTES);
const ZERO: Content = [0; GRANULE_BYTES / 8];

/// A range on the heap.
#[derive(Debug)]
pub struct Fake {
    memory: Rc<[Granule]>,
    /// Where `memory` begins. Miri checks all cells whenever it is borrowed.
    first: *const Granule,
    slabs: usize,
    clock: Cell<u64>,
    refuses_purge: Cell<bool>,
    loses_moves: Cell<bool>,
    ignores_populate: Cell<bool>,
    confined: Cell<bool>,
}

impl Fake {
    /// A range of `slabs` slabs.
    pub fn new(slabs: usize) -> Self {
        let granules = (slabs + 1) * SLAB_GRANULES;
        let memory: Rc<[Granule]> = (0..granules).map(|_| Granule(Cell::new(ZERO))).collect();
        Self {
            first: memory.as_ptr(),
            memory,
            slabs,
            clock: Cell::new(0),
            refuses_purge: Cell::new(false),
            loses_moves: Cell::new(false),
            ignores_populate: Cell::new(false),
            confined: Cell::new(false),
        }
    }

    /// Refuses every purge from now on, as the kernel does with locked pages.
    pub fn refuse_purge(&self) {
        self.refuses_purge.set(true);
    }

    /// Loses the target of every move from now on, as if another thread had mapped memory there.
    pub fn lose_moves(&self) {
        self.loses_moves.set(true);
    }

    /// Makes populating report success and do nothing from now on.
    pub fn ignore_populate(&self) {
        self.ignores_populate.set(true);
    }

    /// The memory at an offset. It may be written, because it consists of cells.
    pub(crate) fn start(&self, offset: usize) -> *mut u8 {
        self.first.cast_mut().cast::<u8>().wrapping_add(self.skip() + offset)
    }

    /// Bytes before the first slab.
    fn skip(&self) -> usize {
        let start = self.first.addr();
        start.next_multiple_of(SLAB_BYTES) - start
    }

    fn granules(&self, span: Span) -> &[Granule] {
        let first = (self.skip() + span.offset) / GRANULE_BYTES;
        &self.memory[first..first + span.len / GRANULE_BYTES]
    }
}

impl Backend for Fake {
    type Slabs = Vec<Slab>;
    type Words = Vec<u64>;
    type Blocks = Vec<AtomicU32>;
    type Slots = Vec<AtomicU64>;

    fn reserve(&self, _page: Page) -> crate::Result<Reserved<Self>> {
        Ok(Reserved {
            len: self.slabs * SLAB_BYTES,
            base: self.first.addr() + self.skip(),
            slabs: (0..self.slabs).map(|_| Slab::RESERVED).collect(),
            words: vec![0; self.slabs.div_ceil(64) * WORDS],
            blocks: (0..self.slabs * SLAB_GRANULES).map(|_| AtomicU32::new(0)).collect(),
            slots: (0..FRONT_WORDS).map(|_| AtomicU64::new(0)).collect(),
        })
    }

    fn addresses_are_free(&self) -> bool {
        true
    }

    fn extend(&self, _from: usize, _to: usize) -> crate::Result<()> {
        Ok(())
    }

    fn populate(&self, _span: Span) -> crate::Result<()> {
        Ok(())
    }

    fn resident_bytes(&self, span: Span) -> usize {
        if self.ignores_populate.get() { 0 } else { span.len }
    }

    fn residency(&self, span: Span) -> Residency {
        let granules = self.granules(span).iter().enumerate();
        let granules = granules
            .filter(|(_, granule)| granule.0.get() != ZERO)
            .fold(0_u128, |mask, (at, _)| mask | 1 << at);
        Residency { granules, bytes: granules.count_ones() as usize * GRANULE_BYTES }
    }

    fn zero(&self, span: Span) {
        self.granules(span).iter().for_each(|granule| granule.0.set(ZERO));
    }

    fn relocate(&self, from: Span, to: usize, by_pages: bool) -> Moved {
        if self.loses_moves.get() {
            return Moved::Lost;
        }
        let target = self.granules(Span { offset: to, len: from.len });
        for (granule, target) in self.granules(from).iter().zip(target) {
            target.0.set(granule.0.get());
            if by_pages {
                granule.0.set(ZERO);
            }
        }
        if by_pages { Moved::Pages } else { Moved::Copied }
    }

    fn purge(&self, span: Span) -> crate::Result<()> {
        if self.refuses_purge.get() {
            return Err(faultless_os::Error::new("madvise(MADV_DONTNEED", 22).into());
        }
        self.zero(span);
        Ok(())
    }

    /// Takes the pages at once, as the kernel may.
    fn offer(&self, span: Span) -> crate::Result<()> {
        self.purge(span)
    }

    fn withhold(&self, _span: Span) -> crate::Result<()> {
        Ok(())
    }

    fn share(&self, _span: Span) -> crate::Result<()> {
        Ok(())
    }

    fn renew(&self, span: Span) -> crate::Result<()> {
        self.zero(span);
        Ok(())
    }

    fn cut(&self, _slabs: usize) {}

    fn release(&self) {}

    fn confine(&self) {
        self.confined.set(true);
    }

    fn is_confined(&self) -> bool {
        self.confined.get()
    }

    fn now(&self) -> u64 {
        self.clock.replace(self.clock.get() + 1)
    }
}
