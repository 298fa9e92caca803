//! The seam between a pool and its supplier of pages.
//!
//! Implementers: the kernel ([`Kernel`](crate::Kernel)), a fake on the heap ([`Fake`](crate::Fake)), and cost models.
//! Offsets and lengths are bytes, relative to the start of the reserved range, in whole granules.
//!
//! A backend of a pool that serves as `malloc` must not allocate from the heap and must not panic.

use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicU32, AtomicU64};

use crate::class::Run;
pub use crate::front::FRONT_WORDS;
use crate::policy::Page;
use crate::slabs::Slab;
use crate::tuning::GRANULE_BYTES;

/// A part of the reserved range, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// Distance from the start of the range.
    pub offset: usize,
    /// Length.
    pub len: usize,
}

impl Span {
    /// The bytes of a run of granules.
    pub(crate) fn of((start, count): Run) -> Self {
        Self { offset: start * GRANULE_BYTES, len: count * GRANULE_BYTES }
    }
}

/// Which part of a span is resident.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Residency {
    /// One bit per granule, lowest first: set if at least one page of it is resident.
    pub granules: u128,
    /// The resident bytes.
    pub bytes: usize,
}

/// A range and the tables that describe it. The tables are zero and become resident where they are used.
pub struct Reserved<B: Backend + ?Sized> {
    /// Length of the range in bytes: whole slabs.
    pub len: usize,
    /// Address of its start, aligned to a slab.
    pub base: usize,
    /// One entry per slab, usable up to the last [`Backend::extend`].
    pub slabs: B::Slabs,
    /// Nineteen words per 64 slabs: three bitmaps, and two bytes per slab.
    pub words: B::Words,
    /// One word per granule, usable up to the last [`Backend::extend`].
    pub blocks: B::Blocks,
    /// [`FRONT_WORDS`] words, aligned to a cache line: the slots of the front.
    pub slots: B::Slots,
}

/// How content was moved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moved {
    /// The pages changed their address; the old addresses read as zero.
    Pages,
    /// The bytes were copied; the old ones are still there.
    Copied,
    /// Not at all; the target must never be used again.
    Lost,
}

/// A lasting change of pages by the program, by what undoes it. Sets of them are the union of their bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Alteration {
    /// Children don't get the pages: MADV_DONTFORK.
    NotInherited = 1,
    /// Children get zeroes: MADV_WIPEONFORK.
    WipedInChildren = 1 << 1,
    /// Core dumps lack the pages: MADV_DONTDUMP.
    NotDumped = 1 << 2,
    /// Equal pages are shared: MADV_MERGEABLE.
    Merged = 1 << 3,
    /// Another order of access is expected: MADV_RANDOM, MADV_SEQUENTIAL.
    Order = 1 << 4,
    /// Guard pages: MADV_GUARD_INSTALL.
    Guarded = 1 << 5,
    /// The size of pages: MADV_HUGEPAGE, MADV_NOHUGEPAGE.
    PageSize = 1 << 6,
    /// Protection, locking, another mapping, or unknown: only a new mapping undoes it.
    Mapping = 1 << 7,
}

/// Supplier of pages.
pub trait Backend {
    /// The table of slabs.
    type Slabs: DerefMut<Target = [Slab]>;
    /// A table of words.
    type Words: DerefMut<Target = [u64]>;
    /// The table of blocks, shared by all threads.
    type Blocks: Deref<Target = [AtomicU32]>;
    /// The slots of the front, shared by all threads.
    type Slots: Deref<Target = [AtomicU64]>;

    /// Reserves addresses for `page` pages, and the tables.
    ///
    /// # Errors
    /// No range of useful length could be reserved.
    fn reserve(&self, page: Page) -> crate::Result<Reserved<Self>>;

    /// Whether address space costs nothing, so that growing blocks may get room behind them. Called when the first
    /// block grows.
    fn addresses_are_free(&self) -> bool;

    /// Makes slabs `from .. to` usable: their addresses and their table entries. One thread at a time.
    ///
    /// # Errors
    /// The kernel refused; nothing became usable.
    fn extend(&self, from: usize, to: usize) -> crate::Result<()>;

    /// Makes pages resident: those of free granules that are Reserved, or those of a block that is being handed out. The
    /// content of that block may be lost.
    ///
    /// # Errors
    /// The kernel refused. Part of the pages may be resident now; these read as zero.
    fn populate(&self, span: Span) -> crate::Result<()>;

    /// Bytes that got base pages although the policy asked for others.
    fn fallback_bytes(&self) -> u64 {
        0
    }

    /// The resident bytes of a span.
    fn resident_bytes(&self, span: Span) -> usize;

    /// The resident part of a span inside one slab; all of it if that cannot be known.
    fn residency(&self, span: Span) -> Residency;

    /// Whether [`Backend::advise`] has an effect.
    fn can_advise_thp(&self) -> bool {
        false
    }

    /// Makes later first touches in a span of whole slabs take huge pages, or base pages. Resident pages stay as they
    /// are.
    ///
    /// # Errors
    /// The kernel refused; part of the span may have the advice.
    fn advise(&self, _span: Span, _huge: bool) -> crate::Result<()> {
        Ok(())
    }

    /// What may still be charged to this process's control group; `None` without a limit.
    fn group_left_bytes(&self) -> Option<u64> {
        None
    }

    /// The memory still available, to the machine or to this process's control group.
    fn available_bytes(&self) -> usize {
        usize::MAX
    }

    /// The longest block that the kernel would ever grant a program.
    fn max_block_bytes(&self) -> usize {
        usize::MAX
    }

    /// The limit on this process's address space or private memory, if there is one.
    fn limit_bytes(&self) -> Option<usize> {
        None
    }

    /// Overwrites with zeroes, for memory that is used next.
    fn zero(&self, span: Span);

    /// Overwrites with zeroes, for memory that is used later.
    fn scrub(&self, span: Span) {
        self.zero(span);
    }

    /// Moves content. `by_pages` permits moving page tables. Source and target do not overlap.
    fn relocate(&self, from: Span, to: usize, by_pages: bool) -> Moved;

    /// Gives pages back to the kernel; the span reads as zero afterwards.
    ///
    /// # Errors
    /// The kernel refused, for example because pages are locked. Each byte is unchanged or zero.
    fn purge(&self, span: Span) -> crate::Result<()>;

    /// Lets the kernel take pages when memory is short. Each byte is unchanged or zero until it is written again.
    ///
    /// # Errors
    /// The kernel refused.
    fn offer(&self, _span: Span) -> crate::Result<()> {
        Ok(())
    }

    /// Leaves pages of free granules out of children forked later.
    ///
    /// # Errors
    /// The kernel refused; part of them may be left out.
    fn withhold(&self, span: Span) -> crate::Result<()>;

    /// Undoes [`Backend::withhold`].
    ///
    /// # Errors
    /// The kernel refused; part of them may still be left out.
    fn share(&self, span: Span) -> crate::Result<()>;

    /// Undoes alterations of a span that is being freed: a set of [`Alteration`] without `Mapping`. Without effect on the
    /// size of pages if [`Backend::advise`] has one.
    ///
    /// # Errors
    /// The kernel refused; part of them may be undone.
    fn restore(&self, _span: Span, _altered: u8) -> crate::Result<()> {
        Ok(())
    }

    /// From now on refuses to purge, to withhold and to renew, and moves no pages: somebody outside the kernel knows
    /// their frames.
    fn keep(&self) {}

    /// Whether [`Backend::keep`] was called.
    fn keeps(&self) -> bool {
        false
    }

    /// Maps a free span anew; it reads as zero.
    ///
    /// # Errors
    /// The kernel refused, and the span must never be used again.
    fn renew(&self, span: Span) -> crate::Result<()>;

    /// Gives up the addresses from a slab on. Nobody uses them before [`Backend::extend`].
    fn cut(&self, slabs: usize);

    /// Gives up the addresses of whole slabs for good.
    fn abandon(&self, _span: Span) {}

    /// Gives everything back. The pool that owns the backend is gone.
    fn release(&self);

    /// From now on makes only the system calls that every malloc makes (mmap, munmap, mremap), and reads no clock: a
    /// sandbox may kill the process for others. Memory is purged by mapping it anew. What it cannot know without a call
    /// it answers so that nothing depends on it.
    fn confine(&self) {}

    /// Whether it was confined.
    fn is_confined(&self) -> bool {
        false
    }

    /// Nanoseconds of a monotonic clock. A cost model's clock is virtual.
    fn now(&self) -> u64;
}
