//! The kernel as supplier of pages.
//!
//! In: spans of one reserved range. Out: system calls. Decides nothing but how far to halve a reservation.
//!
//! The range and the table of slabs are PROT_NONE until [`Backend::extend`]: no memory, no commit charge.

use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU8, AtomicU32, AtomicUsize, Ordering::Relaxed};

use faultless_os::{advise, counters, map, page};

use crate::backend::{Backend, Moved, Reserved, Span};
use crate::block::Memory;
use crate::error::Error;
use crate::lists::MAPS;
use crate::policy::Page;
use crate::policy::tuning::{
    GRANULE_BYTES, HEAD_SLABS, LIMITED_SHARE, RESERVE_BYTES, RESERVE_MIN_BYTES, SLAB_BYTES,
};
use crate::state::Slab;

/// The calls that can be made to fail, for tests: each counts its calls and fails from the given one on (0: never).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Failing {
    /// mmap.
    pub map: u32,
    /// mprotect.
    pub protect: u32,
    /// madvise.
    pub advise: u32,
    /// mremap.
    pub remap: u32,
}

/// The kernel; one value reserves one range.
#[derive(Debug, Default)]
pub struct Kernel {
    base: AtomicUsize,
    len: AtomicUsize,
    /// Bytes of the table of slabs, and of the words before it.
    table_bytes: AtomicUsize,
    word_bytes: AtomicUsize,
    table: AtomicUsize,
    thp: AtomicUsize,
    /// Whether pages can be moved; after a refusal it is not asked again, since every refusal may cost the target, see
    /// `relocate`.
    movable: AtomicU8,
    failing: Failing,
    calls: [AtomicU32; 4],
}

/// Zero-initialised entries in memory from the kernel.
#[derive(Debug)]
pub struct Table<T> {
    start: NonNull<T>,
    len: usize,
}

// SAFETY: a table owns its entries like a Vec does.
unsafe impl<T: Send> Send for Table<T> {}

impl<T> Deref for Table<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        // SAFETY: `reserve` mapped `len` entries for this table alone; all-zero is a valid Slab and a valid u64; entries
        // that are not usable yet are never read, see Core::reach.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.len) }
    }
}

impl<T> DerefMut for Table<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        // SAFETY: as in `deref`; `&mut self` excludes other references.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.len) }
    }
}

impl Kernel {
    /// A kernel whose calls fail on demand.
    pub fn failing(failing: Failing) -> Self {
        Self { failing, ..Self::default() }
    }

    /// Counts a call; whether it may be made.
    fn may(&self, call: usize, fails_from: u32) -> crate::Result<()> {
        let number = match self.calls.get(call) {
            Some(calls) => calls.fetch_add(1, Relaxed) + 1,
            None => 0,
        };
        if fails_from != 0 && number >= fails_from {
            return Err(faultless_os::Error::new("injected", ENOMEM).into());
        }
        Ok(())
    }

    fn may_advise(&self) -> crate::Result<()> {
        self.may(2, self.failing.advise)
    }

    fn reserve_range(&self) -> crate::Result<(usize, usize)> {
        let limit = map::address_space_limit().map_or(RESERVE_BYTES, |limit| limit / LIMITED_SHARE);
        let mut len = RESERVE_BYTES.min(limit) / SLAB_BYTES * SLAB_BYTES;
        loop {
            let error = match self.may(0, self.failing.map) {
                Ok(()) => match map::reserve(len, SLAB_BYTES) {
                    Ok(base) => return Ok((base, len)),
                    Err(error) => error.into(),
                },
                Err(error) => error,
            };
            len = len / 2 / SLAB_BYTES * SLAB_BYTES;
            if len < RESERVE_MIN_BYTES {
                return Err(error);
            }
        }
    }

    fn make_usable(&self, start: usize, len: usize) -> crate::Result<()> {
        self.may(1, self.failing.protect)?;
        // SAFETY: callers pass parts of ranges that `reserve` reserved for this value.
        unsafe { map::make_usable(start, len) }.map_err(Error::from)
    }

    /// Whether the kernel moves pages, tried out before the first block depends on it.
    fn moves_pages(&self) -> bool {
        if self.movable.load(Relaxed) == UNTRIED {
            self.movable.store(if map::pages_can_move() { MOVABLE } else { IMMOVABLE }, Relaxed);
        }
        self.movable.load(Relaxed) == MOVABLE
    }

    /// The address of a span, if it lies in the range.
    fn address(&self, span: Span) -> Option<usize> {
        let end = span.offset.checked_add(span.len)?;
        (end <= self.len.load(Relaxed)).then(|| self.base.load(Relaxed) + span.offset)
    }
}

/// What [`Kernel::movable`] says; zero before anything was tried.
const UNTRIED: u8 = 0;
const MOVABLE: u8 = 1;
const IMMOVABLE: u8 = 2;
/// What an injected failure reports.
const ENOMEM: i32 = 12;

impl Backend for Kernel {
    type Slabs = Table<Slab>;
    type Words = Table<u64>;

    fn reserve(&self, policy: Page) -> crate::Result<Reserved<Table<Slab>, Table<u64>>> {
        if page::size() > GRANULE_BYTES {
            return Err(Error::PageTooLarge { page_bytes: page::size() });
        }
        let (base, len) = self.reserve_range()?;
        let slabs = len / SLAB_BYTES;
        let words = slabs.div_ceil(64) * MAPS;
        let slab_bytes = whole_pages(slabs * size_of::<Slab>());
        let word_bytes = whole_pages(words * size_of::<u64>());
        self.may(0, self.failing.map)?;
        let table = map::reserve(word_bytes + slab_bytes, page::size())?;
        self.make_usable(table, word_bytes)?;
        self.base.store(base, Relaxed);
        self.len.store(len, Relaxed);
        self.table.store(table + word_bytes, Relaxed);
        self.table_bytes.store(slab_bytes, Relaxed);
        self.word_bytes.store(word_bytes, Relaxed);
        self.thp.store((policy == Page::Thp) as usize, Relaxed);
        Ok(Reserved {
            len,
            base,
            slabs: Table { start: pointer(table + word_bytes), len: slabs },
            words: Table { start: pointer(table), len: words },
        })
    }

    fn is_roomy(&self) -> bool {
        map::address_space_limit().is_none() && !map::commit_is_strict()
    }

    fn extend(&self, from: usize, to: usize) -> crate::Result<()> {
        let entry = size_of::<Slab>();
        let first = (from * entry) & !(page::size() - 1);
        self.make_usable(self.table.load(Relaxed) + first, whole_pages(to * entry) - first)?;
        let base = self.base.load(Relaxed);
        self.make_usable(base + from * SLAB_BYTES, (to - from) * SLAB_BYTES)?;
        let begin = from.max(HEAD_SLABS);
        if self.thp.load(Relaxed) != 0 && begin < to && self.may_advise().is_ok() {
            // SAFETY: this part of the range was made usable above.
            let _ = unsafe { advise::thp(base + begin * SLAB_BYTES, (to - begin) * SLAB_BYTES) };
        }
        Ok(())
    }

    fn populate(&self, span: Span) -> crate::Result<()> {
        self.may_advise()?;
        let Some(start) = self.address(span) else { return Ok(()) };
        // SAFETY: inside the range, which this value owns.
        unsafe { advise::populate(start, span.len) }.map_err(Error::from)
    }

    fn resident_bytes(&self, span: Span) -> usize {
        self.address(span).map_or(0, |start| map::resident_bytes(start, span.len))
    }

    fn zero(&self, span: Span) {
        if self.address(span).is_some() {
            // SAFETY: inside the range; the pool zeroes only usable granules of a block it is handing out.
            unsafe { self.pointer(span.offset).write_bytes(0, span.len) };
        }
    }

    fn relocate(&self, from: Span, to: usize, by_pages: bool) -> Moved {
        let target = self.address(Span { offset: to, len: from.len });
        let (Some(source), Some(target)) = (self.address(from), target) else { return Moved::Lost };
        if by_pages && self.moves_pages() && self.may(3, self.failing.remap).is_ok() {
            // SAFETY: both spans belong to blocks of the calling thread and do not overlap (the pool's contract).
            match unsafe { map::move_pages(source, target, from.len) } {
                Ok(()) => return Moved::Pages,
                Err(_) => {
                    self.movable.store(IMMOVABLE, Relaxed);
                    // The refusal may have unmapped the target, and another thread may have mapped something of its
                    // own there since.
                    if map::restore(target, from.len).is_err() {
                        return Moved::Lost;
                    }
                }
            }
        }
        let source = self.pointer(from.offset);
        // SAFETY: as above, and both are usable.
        unsafe { source.copy_to_nonoverlapping(self.pointer(to), from.len) };
        Moved::Copied
    }

    fn purge(&self, span: Span) -> crate::Result<()> {
        self.may_advise()?;
        let Some(start) = self.address(span) else { return Ok(()) };
        // SAFETY: inside the range; the pool purges only free granules.
        unsafe { advise::purge(start, span.len) }.map_err(Error::from)
    }

    fn narrow(&self, slabs: usize) {
        let (range, table) = (slabs * SLAB_BYTES, whole_pages(slabs * size_of::<Slab>()));
        for (start, length, kept) in [(&self.base, &self.len, range), (&self.table, &self.table_bytes, table)]
        {
            let had = length.load(Relaxed);
            if kept < had {
                length.store(kept, Relaxed);
                // SAFETY: whole pages behind the last slab that was made usable; the pool never goes there again.
                let _ = unsafe { map::release(start.load(Relaxed) + kept, had - kept) };
            }
        }
    }

    fn release(&self) {
        let (base, len) = (self.base.swap(0, Relaxed), self.len.swap(0, Relaxed));
        let (table, word_bytes) = (self.table.swap(0, Relaxed), self.word_bytes.load(Relaxed));
        if base != 0 && len > 0 {
            // SAFETY: the pool is gone, so nothing uses its range.
            let _ = unsafe { map::release(base, len) };
        }
        if table != 0 {
            // SAFETY: the pool is gone, so nothing uses its tables.
            let _ = unsafe { map::release(table - word_bytes, word_bytes + self.table_bytes.load(Relaxed)) };
        }
    }

    fn now(&self) -> u64 {
        counters::now_ns()
    }
}

// SAFETY: `extend` makes the range readable and writable zero memory before the pool hands any of it out; nothing but
// zero, relocate and purge touch it.
unsafe impl Memory for Kernel {
    fn pointer(&self, offset: usize) -> NonNull<u8> {
        pointer(self.base.load(Relaxed) + offset)
    }
}

/// As `page::round_up`, without a division that could panic.
fn whole_pages(len: usize) -> usize {
    (len + page::size() - 1) & !(page::size() - 1)
}

fn pointer<T>(address: usize) -> NonNull<T> {
    NonNull::new(address as *mut T).unwrap_or(NonNull::dangling())
}
