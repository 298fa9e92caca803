//! The one seam: what a pool asks of whoever supplies its pages.
//!
//! Implementers: the kernel ([`Kernel`](crate::Kernel)), a fake on the heap ([`Fake`](crate::Fake)), and cost models.
//! All offsets and lengths are bytes relative to the start of the reserved range, whole granules.
//!
//! No implementation may allocate from the heap or panic when the pool is to serve as `malloc`.

use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicU32, AtomicU64};

pub use crate::front::FRONT_WORDS;
use crate::policy::{Page, Prefault};
use crate::state::Slab;

/// A piece of the reserved range, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// Distance from the start of the range.
    pub offset: usize,
    /// Length.
    pub len: usize,
}

/// What of a span is resident.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Touched {
    /// The granules that are so in part at least, the first one lowest.
    pub granules: u128,
    /// The bytes that are.
    pub bytes: usize,
}

/// A range and the tables that describe it; the tables are zero and become resident only where they are used.
pub struct Reserved<B: Backend + ?Sized> {
    /// Length of the range in bytes: whole slabs.
    pub len: usize,
    /// Address of its start, aligned to a slab.
    pub base: usize,
    /// One entry per slab; usable as far as [`Backend::extend`] has been called.
    pub slabs: B::Slabs,
    /// Nineteen words per 64 slabs: three bitmaps, and two bytes per slab.
    pub words: B::Words,
    /// One word per granule; usable as far as [`Backend::extend`] has been called.
    pub blocks: B::Blocks,
    /// [`FRONT_WORDS`] words, aligned to a cache line: blocks that were freed a moment ago.
    pub slots: B::Slots,
}

/// How a move of content went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moved {
    /// The pages changed their address; the old addresses read as zero.
    Pages,
    /// The bytes were copied; the old ones are still there.
    Copied,
    /// Neither; the target must never be used again.
    Lost,
}

/// Supplier of pages.
pub trait Backend {
    /// The table of slabs.
    type Slabs: DerefMut<Target = [Slab]>;
    /// A table of words.
    type Words: DerefMut<Target = [u64]>;
    /// The table of blocks, which several threads use at a time.
    type Blocks: Deref<Target = [AtomicU32]>;
    /// The slots of the front, which several threads use at a time.
    type Slots: Deref<Target = [AtomicU64]>;

    /// Reserves addresses for `page` pages and the tables.
    ///
    /// # Errors
    /// Nothing large enough could be reserved.
    fn reserve(&self, page: Page) -> crate::Result<Reserved<Self>>;

    /// Whether addresses are free of charge, so that growing blocks may get room behind them. Asked when the first does.
    fn is_roomy(&self) -> bool;

    /// Makes slabs `from .. to` usable: their addresses and their entries in the tables. One thread at a time.
    ///
    /// # Errors
    /// The kernel refused; nothing changed that matters.
    fn extend(&self, from: usize, to: usize) -> crate::Result<()>;

    /// Makes the pages of free, Reserved granules resident.
    ///
    /// # Errors
    /// The kernel refused; they may be resident in part and still read as zero.
    fn populate(&self, span: Span) -> crate::Result<()>;

    /// Makes the pages of a block that is being handed out resident; nobody needs its content.
    ///
    /// # Errors
    /// As for [`Backend::populate`].
    fn prefault(&self, span: Span, _way: Prefault) -> crate::Result<()> {
        self.populate(span)
    }

    /// Bytes that got base pages where the policy asked for others.
    fn fallback_bytes(&self) -> u64 {
        0
    }

    /// How many bytes are resident; asked of what was populated.
    fn resident_bytes(&self, span: Span) -> usize;

    /// What of a span inside one slab is resident. All of it where that can't be known.
    fn touched(&self, span: Span) -> Touched;

    /// Whether it makes a difference which slabs [`Backend::advise`] names.
    fn chooses_pages(&self) -> bool {
        false
    }

    /// From now on first touches in a span of whole slabs take huge pages, or base pages. What is resident stays as it is.
    ///
    /// # Errors
    /// The kernel refused; part of the span may have the advice.
    fn advise(&self, _span: Span, _huge: bool) -> crate::Result<()> {
        Ok(())
    }

    /// The bytes of memory that are left, to the machine or to this process's control group.
    fn left_bytes(&self) -> usize {
        usize::MAX
    }

    /// The longest block that the kernel would ever let a program have.
    fn most_bytes(&self) -> usize {
        usize::MAX
    }

    /// The limit on this process's addresses or private memory, if there is one.
    fn limit_bytes(&self) -> Option<usize> {
        None
    }

    /// Overwrites with zeroes, for somebody who is about to use the memory.
    fn zero(&self, span: Span);

    /// Overwrites with zeroes ahead of need.
    fn scrub(&self, span: Span) {
        self.zero(span);
    }

    /// Moves content. `by_pages` permits moving page tables; source and target do not overlap.
    fn relocate(&self, from: Span, to: usize, by_pages: bool) -> Moved;

    /// Gives the pages back; the span reads as zero afterwards.
    ///
    /// # Errors
    /// The kernel refused, for locked pages for instance; of each byte the content is as it was, or zero.
    fn purge(&self, span: Span) -> crate::Result<()>;

    /// Leaves pages of free granules out of children that are forked from now on.
    ///
    /// # Errors
    /// The kernel refused; part of them may be left out.
    fn withhold(&self, span: Span) -> crate::Result<()>;

    /// Children get them again.
    ///
    /// # Errors
    /// The kernel refused; part of them may still be left out.
    fn share(&self, span: Span) -> crate::Result<()>;

    /// Maps a span anew, in a child that it was withheld from; it reads as zero.
    ///
    /// # Errors
    /// The kernel refused, and the span must never be used again.
    fn renew(&self, span: Span) -> crate::Result<()>;

    /// Gives up the addresses from a slab on, which nobody uses before they are made usable again.
    fn cut(&self, slabs: usize);

    /// Gives up the addresses of whole slabs, which nobody uses ever again.
    fn abandon(&self, _span: Span) {}

    /// Gives everything back. The pool that owns the backend is gone.
    fn release(&self);

    /// Nanoseconds of a clock that does not go back; a cost model's is virtual.
    fn now(&self) -> u64;
}
