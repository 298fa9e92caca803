//! The kernel as supplier of pages.
//!
//! In: spans of one reserved range. Out: system calls. Decides nothing but how far to halve a reservation.
//!
//! The range and the table of slabs are PROT_NONE until [`Backend::extend`]: no memory, no commit charge.

use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering::Relaxed};

use faultless_os::{advise, counters, map, page, zero};

use crate::backend::{Backend, FRONT_WORDS, Moved, Reserved, Span};
use crate::block::Memory;
use crate::class::run;
use crate::error::Error;
use crate::lists::WORDS;
use crate::policy::tuning::{
    GRANULE_BYTES, HEAD_SLABS, LIMITED_SHARE, RESERVE_BYTES, RESERVE_MIN_BYTES, SLAB_BYTES, SLAB_GRANULES,
};
use crate::policy::{Page, Prefault};
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
    range: Area,
    words: Area,
    slabs: Area,
    blocks: Area,
    backing: AtomicU8,
    /// Bytes that got base pages where others were asked for.
    fallback_bytes: AtomicU64,
    /// Whether pages can be moved; after a refusal it is not asked again, since every refusal may cost the target, see
    /// `relocate`.
    movable: AtomicU8,
    failing: Failing,
    calls: [AtomicU32; 4],
}

/// Addresses of this value: from where, how many bytes.
#[derive(Debug, Default)]
struct Area {
    start: AtomicUsize,
    len: AtomicUsize,
}

impl Area {
    fn set(&self, start: usize, len: usize) {
        self.start.store(start, Relaxed);
        self.len.store(len, Relaxed);
    }

    fn start(&self) -> usize {
        self.start.load(Relaxed)
    }

    /// Gives up everything behind the first `kept` bytes, whole pages, which nobody may use again. Of threads that do so at the
    /// same time each gives up a part of its own.
    fn cut(&self, kept: usize) {
        let had = self.len.fetch_min(kept, Relaxed);
        if kept < had {
            // SAFETY: `reserve` reserved it for this value, and who calls this knows that nothing goes there again.
            let _ = unsafe { map::release(self.start() + kept, had - kept) };
        }
    }
}

/// Zero-initialised entries in memory from the kernel.
#[derive(Debug)]
pub struct Table<T> {
    start: NonNull<T>,
    len: usize,
}

// SAFETY: a table owns its entries like a Vec does.
unsafe impl<T: Send> Send for Table<T> {}

// SAFETY: a shared table gives shared entries only, as a shared slice does.
unsafe impl<T: Sync> Sync for Table<T> {}

impl<T> Deref for Table<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        // SAFETY: `reserve` mapped `len` entries for this table alone; all-zero is a valid Slab, u64,
        // AtomicU32 and AtomicU64; entries that are not usable yet are never read, see Core::reach and Blocks::reach.
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

    /// Advises THP for slabs, but for the first few.
    fn back_slabs(&self, from: usize, to: usize) {
        let from = from.max(HEAD_SLABS);
        if from < to {
            self.back(self.range.start() + from * SLAB_BYTES, (to - from) * SLAB_BYTES);
        }
    }

    fn is_hugetlb(&self) -> bool {
        self.backing.load(Relaxed) == HUGETLB
    }

    /// Whether the kernel moves pages, tried out before the first block depends on it.
    fn moves_pages(&self) -> bool {
        if self.movable.load(Relaxed) == UNTRIED {
            self.movable.store(if map::pages_can_move() { MOVABLE } else { IMMOVABLE }, Relaxed);
        }
        self.movable.load(Relaxed) == MOVABLE
    }

    /// Sees to it that usable slabs, not touched yet, get the pages that were asked for, as far as there are any.
    fn back(&self, start: usize, len: usize) {
        let backed = match self.backing.load(Relaxed) {
            BASE => return,
            // SAFETY: callers pass usable parts of the range.
            THP if self.may_advise().is_ok() => unsafe { advise::thp(start, len) }.map_or(0, |()| len),
            HUGETLB => self.back_by_hugetlb(start, len),
            _ => 0,
        };
        self.fallback_bytes.fetch_add((len - backed) as u64, Relaxed);
    }

    /// Puts hugetlb pages into slabs, in pieces as large as the hugetlb pool allows; how many bytes got some.
    fn back_by_hugetlb(&self, start: usize, len: usize) -> usize {
        let (mut done, mut piece) = (0, len);
        while done < len && piece > 0 && self.may(0, self.failing.map).is_ok() {
            // SAFETY: a slab is a hugetlb page of the usual size; nobody has used the slabs yet.
            match unsafe { map::hugetlb_at(start + done, piece, SLAB_BYTES) } {
                Ok(()) => done += piece,
                // The target may be gone; mapped anew it has base pages.
                Err(error) if error.call != "mmap(MAP_HUGETLB" => {
                    let _ = map::restore(start + done, piece);
                    return done;
                }
                Err(_) => piece = piece / 2 / SLAB_BYTES * SLAB_BYTES,
            }
            piece = piece.min(len - done);
        }
        done
    }

    /// Usable bytes were mapped anew and populated before they could be advised, so that they have base pages, but where THP need no
    /// advice. What goes back of them has what was asked for the next time.
    fn lose_backing(&self, start: usize, len: usize) {
        let lost = match self.backing.load(Relaxed) {
            THP => {
                if self.may_advise().is_ok() {
                    // SAFETY: callers pass usable parts of the range.
                    let _ = unsafe { advise::thp(start, len) };
                }
                !advise::thp_comes_unasked(advise::pmd_bytes())
            }
            backing => backing == HUGETLB,
        };
        if lost {
            self.fallback_bytes.fetch_add(len as u64, Relaxed);
        }
    }

    /// The address of a span, if it lies in the range.
    fn address(&self, span: Span) -> Option<usize> {
        let end = span.offset.checked_add(span.len)?;
        (end <= self.range.len.load(Relaxed)).then(|| self.range.start() + span.offset)
    }
}

/// What [`Kernel::backing`] says.
const BASE: u8 = 0;
const THP: u8 = 1;
const HUGETLB: u8 = 2;
/// What was asked for is not to be had.
const LACKING: u8 = 3;

/// What a policy means on this machine.
fn backing(policy: Page) -> u8 {
    match policy {
        Page::Base => BASE,
        Page::Thp => THP,
        Page::Hugetlb => HUGETLB,
        // The kernel takes the largest size that is enabled and fits.
        Page::Mthp(order) => {
            let is_largest = advise::thp_gives(order.len_bytes()) && !advise::thp_gives(advise::pmd_bytes());
            if is_largest { THP } else { LACKING }
        }
    }
}

/// What [`Kernel::movable`] says; zero before anything was tried.
const UNTRIED: u8 = 0;
const MOVABLE: u8 = 1;
const IMMOVABLE: u8 = 2;
/// What an injected failure reports.
const ENOMEM: i32 = 12;
/// What the kernel says of calls that hugetlb pages don't allow.
const EINVAL: i32 = 22;

impl Backend for Kernel {
    type Slabs = Table<Slab>;
    type Words = Table<u64>;
    type Blocks = Table<AtomicU32>;
    type Slots = Table<AtomicU64>;

    fn reserve(&self, policy: Page) -> crate::Result<Reserved<Self>> {
        if page::size() > GRANULE_BYTES {
            return Err(Error::PageTooLarge { page_bytes: page::size() });
        }
        let (base, len) = self.reserve_range()?;
        self.range.set(base, len);
        let slabs = len / SLAB_BYTES;
        let words = slabs.div_ceil(64) * WORDS;
        // The front's slots, and the words behind them.
        let word_bytes = whole_pages((FRONT_WORDS + words) * size_of::<u64>());
        let (slab_bytes, block_bytes) = table_bytes(slabs);
        self.may(0, self.failing.map)?;
        let tables = map::reserve(word_bytes + slab_bytes + block_bytes, page::size())?;
        self.words.set(tables, word_bytes);
        self.slabs.set(tables + word_bytes, slab_bytes);
        self.blocks.set(tables + word_bytes + slab_bytes, block_bytes);
        self.make_usable(tables, word_bytes)?;
        self.backing.store(backing(policy), Relaxed);
        Ok(Reserved {
            len,
            base,
            slabs: Table { start: pointer(self.slabs.start()), len: slabs },
            slots: Table { start: pointer(tables), len: FRONT_WORDS },
            words: Table { start: pointer(tables + FRONT_WORDS * size_of::<u64>()), len: words },
            blocks: Table { start: pointer(self.blocks.start()), len: slabs * SLAB_GRANULES },
        })
    }

    fn is_roomy(&self) -> bool {
        map::address_space_limit().is_none() && !map::commit_is_strict()
    }

    fn extend(&self, from: usize, to: usize) -> crate::Result<()> {
        let ((slabs, blocks), (slabs_end, blocks_end)) = (table_bytes(from), table_bytes(to));
        for (area, from, to) in [(&self.slabs, slabs, slabs_end), (&self.blocks, blocks, blocks_end)] {
            // The page that both ends share was made usable before.
            if from < to {
                self.make_usable(area.start() + from, to - from)?;
            }
        }
        let base = self.range.start();
        self.make_usable(base + from * SLAB_BYTES, (to - from) * SLAB_BYTES)?;
        self.back_slabs(from, to);
        Ok(())
    }

    fn populate(&self, span: Span) -> crate::Result<()> {
        self.may_advise()?;
        let Some(start) = self.address(span) else { return Ok(()) };
        // SAFETY: inside the range, which this value owns.
        unsafe { advise::populate(start, span.len) }.map_err(Error::from)
    }

    fn prefault(&self, span: Span, way: Prefault) -> crate::Result<()> {
        let Some(start) = self.address(span) else { return Ok(()) };
        match way {
            Prefault::Touch => {
                let mut offset = 0;
                while offset < span.len {
                    // SAFETY: inside the range; usable granules of a block that is being handed out.
                    unsafe { self.pointer(span.offset + offset).write_volatile(0) };
                    offset += page::size();
                }
            }
            Prefault::Memset => self.zero(span),
            // Where a commit limit may refuse it, what was there before could be lost.
            Prefault::MapPopulate if self.is_roomy() => {
                self.may(0, self.failing.map)?;
                // SAFETY: as above; nobody needs the content.
                if let Err(error) = unsafe { map::populated_at(start, span.len) } {
                    let _ = map::restore(start, span.len);
                    return Err(error.into());
                }
                self.lose_backing(start, span.len);
            }
            _ => return self.populate(span),
        }
        Ok(())
    }

    fn fallback_bytes(&self) -> u64 {
        self.fallback_bytes.load(Relaxed)
    }

    fn resident_bytes(&self, span: Span) -> usize {
        self.address(span).map_or(0, |start| map::resident_bytes(start, span.len))
    }

    fn touched(&self, span: Span) -> u128 {
        let all = run(0, span.len / GRANULE_BYTES);
        let Some(start) = self.address(span) else { return all };
        let page_log2 = page::size().trailing_zeros();
        // The smallest pages have 4 KiB: as many bytes as a slab can have pages.
        let mut pages = [0_u8; SLAB_BYTES >> 12];
        let Some(pages) = pages.get_mut(..span.len >> page_log2) else { return all };
        if map::residency(start, pages).is_err() {
            return all;
        }
        let granule = |at: usize| at >> (GRANULE_BYTES.trailing_zeros() - page_log2);
        let touched = pages.iter().enumerate().filter(|(_, flags)| **flags & 1 == 1);
        touched.fold(0, |mask, (at, _)| mask | run(granule(at), 1))
    }

    fn zero(&self, span: Span) {
        if self.address(span).is_some() {
            // SAFETY: inside the range; the pool zeroes only usable granules of a block it is handing out.
            unsafe { zero::CACHED.zero(self.pointer(span.offset).as_ptr(), span.len) };
        }
    }

    fn scrub(&self, span: Span) {
        if self.address(span).is_some() {
            // SAFETY: inside the range; usable granules that the pool has set aside. The engine is present.
            unsafe { zero::ahead().zero(self.pointer(span.offset).as_ptr(), span.len) };
        }
    }

    fn relocate(&self, from: Span, to: usize, by_pages: bool) -> Moved {
        let target = self.address(Span { offset: to, len: from.len });
        let (Some(source), Some(target)) = (self.address(from), target) else { return Moved::Lost };
        // hugetlb pages never move so, and kernels up to 6.16 unmap whole ones at the target before they say it.
        if by_pages && !self.is_hugetlb() && self.moves_pages() && self.may(3, self.failing.remap).is_ok() {
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
        // Of a hugetlb page the kernel gives back all or nothing, and says yes to either.
        if self.is_hugetlb() && !(span.offset | span.len).is_multiple_of(SLAB_BYTES) {
            return Err(faultless_os::Error::new("madvise of a part of a hugetlb page", EINVAL).into());
        }
        self.may_advise()?;
        let Some(start) = self.address(span) else { return Ok(()) };
        // SAFETY: inside the range; the pool purges only free granules.
        unsafe { advise::purge(start, span.len) }.map_err(Error::from)
    }

    fn withhold(&self, span: Span) -> crate::Result<()> {
        self.may_advise()?;
        let Some(start) = self.address(span) else { return Ok(()) };
        // SAFETY: inside the range; the pool withholds only free slabs.
        unsafe { advise::dont_fork(start, span.len) }.map_err(Error::from)
    }

    fn share(&self, span: Span) -> crate::Result<()> {
        self.may_advise()?;
        let Some(start) = self.address(span) else { return Ok(()) };
        // SAFETY: inside the range, which this value owns.
        unsafe { advise::do_fork(start, span.len) }.map_err(Error::from)
    }

    fn renew(&self, span: Span) -> crate::Result<()> {
        self.may(0, self.failing.map)?;
        let Some(start) = self.address(span) else { return Ok(()) };
        // SAFETY: inside the range; the pool renews only free slabs.
        unsafe { map::renew(start, span.len) }?;
        // What the hugetlb pool has left is needed for copies of pages in use: who finds none is killed.
        if self.is_hugetlb() {
            self.fallback_bytes.fetch_add(span.len as u64, Relaxed);
            return Ok(());
        }
        self.back_slabs(span.offset / SLAB_BYTES, (span.offset + span.len) / SLAB_BYTES);
        Ok(())
    }

    fn narrow(&self, slabs: usize) {
        let (slab_bytes, block_bytes) = table_bytes(slabs);
        self.range.cut(slabs * SLAB_BYTES);
        self.slabs.cut(slab_bytes);
        self.blocks.cut(block_bytes);
    }

    fn release(&self) {
        [&self.range, &self.words, &self.slabs, &self.blocks].into_iter().for_each(|area| area.cut(0));
    }

    fn now(&self) -> u64 {
        counters::now_ns()
    }
}

// SAFETY: `extend` makes the range readable and writable zero memory before the pool hands any of it out; nothing but
// zero, relocate and purge touch it.
unsafe impl Memory for Kernel {
    fn pointer(&self, offset: usize) -> NonNull<u8> {
        pointer(self.range.start() + offset)
    }
}

/// As `page::round_up`, without a division that could panic.
fn whole_pages(len: usize) -> usize {
    (len + page::size() - 1) & !(page::size() - 1)
}

/// Bytes of the tables for that many slabs: of slabs, of blocks.
fn table_bytes(slabs: usize) -> (usize, usize) {
    (whole_pages(slabs * size_of::<Slab>()), whole_pages(slabs * SLAB_GRANULES * size_of::<AtomicU32>()))
}

fn pointer<T>(address: usize) -> NonNull<T> {
    NonNull::new(address as *mut T).unwrap_or(NonNull::dangling())
}
