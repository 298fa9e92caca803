//! The kernel as supplier of pages.
//!
//! In: spans of one range. Out: system calls. Decides nothing but where the range lies.
//!
//! The range and its tables are mapped piece by piece, by [`Backend::extend`]: what was not needed yet is only an intention, far from
//! where the kernel puts other mappings. So it counts against no limit (`ulimit -v`, mlockall(2)) and is not charged. Each piece
//! is mapped where nothing is (MAP_FIXED_NOREPLACE); what another mapping has taken ends the range.

use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering::Relaxed};

use faultless_os::{advise, counters, map, page, pressure, zero};

use crate::backend::{Backend, FRONT_WORDS, Moved, Reserved, Span, Touched};
use crate::block::Memory;
use crate::class::run;
use crate::error::Error;
use crate::lists::WORDS;
use crate::policy::tuning::{
    GRANULE_BYTES, HEAD_SLABS, RANGE_BYTES, RANGE_MIN_BYTES, SLAB_BYTES, SLAB_GRANULES,
};
use crate::policy::{Page, Prefault};
use crate::state::Slab;

/// The calls that can be made to fail, for tests: each counts its calls and fails from the given one on (0: never).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Failing {
    /// mmap, but for the range and its tables.
    pub map: u32,
    /// mmap of a further piece of the range or of a table.
    pub extend: u32,
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

/// Addresses of this value: from where, and how many bytes of them are mapped.
#[derive(Debug, Default)]
struct Area {
    start: AtomicUsize,
    mapped: AtomicUsize,
}

impl Area {
    fn set(&self, start: usize, mapped: usize) {
        self.start.store(start, Relaxed);
        self.mapped.store(mapped, Relaxed);
    }

    fn start(&self) -> usize {
        self.start.load(Relaxed)
    }

    /// Maps whole pages up to `len`. One thread at a time.
    fn reach(&self, len: usize) -> crate::Result<()> {
        let mapped = self.mapped.load(Relaxed);
        if mapped < len {
            map::anonymous_at(self.start() + mapped, len - mapped)?;
            self.mapped.store(len, Relaxed);
        }
        Ok(())
    }

    /// Gives up everything behind the first `kept` bytes, whole pages, which nobody may use until they are mapped again.
    fn cut(&self, kept: usize) {
        let had = self.mapped.fetch_min(kept, Relaxed);
        if kept < had {
            // SAFETY: `reach` mapped it for this value, and who calls this knows that nobody uses it.
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
        // AtomicU32 and AtomicU64; entries that are not mapped yet are never read, see Core::reach and Blocks::reach.
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

    /// Finds a place for a range and, before it, its tables, and maps the first page of these; the length of the range.
    ///
    /// A range has a cell of addresses for itself, twice as long, in which nothing is mapped: below `near`, where the kernel puts
    /// mappings now, so that these can grow towards it for long. Two ranges so never meet, not even when two libraries of a
    /// process have a pool each. Where in the cell it lies is as random as `near` is.
    fn place(&self, near: usize) -> crate::Result<usize> {
        let mut len = RANGE_BYTES;
        loop {
            self.may(0, self.failing.map)?;
            let (slab_bytes, block_bytes) = table_bytes(len / SLAB_BYTES);
            // A cell is as long as it is aligned: a power of two.
            let first = near & !(2 * len - 1);
            let cells = (1..=CELLS).filter_map(|below| first.checked_sub(below * 2 * len));
            let tried = match cells.filter(|&cell| cell > 0).find(|&cell| map::is_free(cell, 2 * len)) {
                None => Err(faultless_os::Error::new("mmap", ENOMEM)),
                Some(cell) => {
                    let tables = cell + scattered(near, len / 2);
                    map::anonymous_at(tables, page::size()).map(|()| tables)
                }
            };
            match tried {
                Ok(tables) => {
                    self.slabs.set(tables, page::size());
                    self.blocks.set(tables + slab_bytes, 0);
                    self.range
                        .set((tables + slab_bytes + block_bytes + SLAB_BYTES - 1) & !(SLAB_BYTES - 1), 0);
                    return Ok(len);
                }
                Err(error) if len <= RANGE_MIN_BYTES => return Err(error.into()),
                Err(_) => len /= 2,
            }
        }
    }

    /// Maps a further piece of an area.
    fn reach(&self, area: &Area, len: usize) -> crate::Result<()> {
        self.may(1, self.failing.extend)?;
        area.reach(len)
    }

    /// Sees to it that slabs, but for the first few, get the pages that were asked for where the pool does not choose.
    fn back_slabs(&self, from: usize, to: usize) {
        let from = if self.backing.load(Relaxed) == CHOSEN { to } else { from.max(HEAD_SLABS) };
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
                    let _ = map::anonymous_at(start + done, piece);
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
            THP | CHOSEN => {
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

    /// The address of a span, if it is mapped.
    fn address(&self, span: Span) -> Option<usize> {
        let end = span.offset.checked_add(span.len)?;
        (end <= self.range.mapped.load(Relaxed)).then(|| self.range.start() + span.offset)
    }
}

/// What [`Kernel::backing`] says.
const BASE: u8 = 0;
/// Huge pages wherever the kernel has them.
const THP: u8 = 1;
const HUGETLB: u8 = 2;
/// What was asked for is not to be had.
const LACKING: u8 = 3;
/// Huge pages for the slabs that the pool names.
const CHOSEN: u8 = 4;

/// What a policy means on this machine.
fn backing(policy: Page) -> u8 {
    match policy {
        Page::Base => BASE,
        Page::Thp if advise::thp_comes_unasked(advise::pmd_bytes()) => BASE,
        Page::Thp if advise::thp_gives(advise::pmd_bytes()) => CHOSEN,
        Page::Thp => LACKING,
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
        // The front's slots, and the words behind them.
        let words_max = WORDS * (RANGE_BYTES / SLAB_BYTES).div_ceil(64);
        let word_bytes = whole_pages((FRONT_WORDS + words_max) * size_of::<u64>());
        self.may(0, self.failing.map)?;
        let words = map::anonymous(word_bytes)?;
        self.words.set(words, word_bytes);
        let len = self.place(words)?;
        self.backing.store(backing(policy), Relaxed);
        let slabs = len / SLAB_BYTES;
        Ok(Reserved {
            len,
            base: self.range.start(),
            slabs: Table { start: pointer(self.slabs.start()), len: slabs },
            slots: Table { start: pointer(words), len: FRONT_WORDS },
            words: Table {
                start: pointer(words + FRONT_WORDS * size_of::<u64>()),
                len: slabs.div_ceil(64) * WORDS,
            },
            blocks: Table { start: pointer(self.blocks.start()), len: slabs * SLAB_GRANULES },
        })
    }

    fn most_bytes(&self) -> usize {
        map::memory_and_swap_bytes().unwrap_or(usize::MAX)
    }

    fn limit_bytes(&self) -> Option<usize> {
        map::address_space_limit()
    }

    fn is_roomy(&self) -> bool {
        map::address_space_limit().is_none() && !map::commit_is_strict()
    }

    fn extend(&self, from: usize, to: usize) -> crate::Result<()> {
        let (slab_bytes, block_bytes) = table_bytes(to);
        self.reach(&self.slabs, slab_bytes)?;
        self.reach(&self.blocks, block_bytes)?;
        self.reach(&self.range, to * SLAB_BYTES)?;
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
                    let _ = map::anonymous_at(start, span.len);
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

    fn chooses_pages(&self) -> bool {
        self.backing.load(Relaxed) == CHOSEN
    }

    fn advise(&self, span: Span, huge: bool) -> crate::Result<()> {
        self.may_advise()?;
        let Some(start) = self.address(span) else { return Ok(()) };
        let advised = match huge {
            // SAFETY: inside the range, which this value owns.
            true => unsafe { advise::thp(start, span.len) },
            // SAFETY: as above.
            false => unsafe { advise::base(start, span.len) },
        };
        if advised.is_err() && huge {
            self.fallback_bytes.fetch_add(span.len as u64, Relaxed);
        }
        advised.map_err(Error::from)
    }

    fn left_bytes(&self) -> usize {
        let group = pressure::group().map(|group| group.left_bytes());
        let left = group.into_iter().chain(pressure::available_bytes()).min();
        left.map_or(usize::MAX, |left| left as usize)
    }

    fn touched(&self, span: Span) -> Touched {
        let all = Touched { granules: run(0, span.len / GRANULE_BYTES), bytes: span.len };
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
        touched.fold(Touched { granules: 0, bytes: 0 }, |all, (at, _)| Touched {
            granules: all.granules | run(granule(at), 1),
            bytes: all.bytes + page::size(),
        })
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
                    if map::anonymous_at(target, from.len).is_err() {
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

    fn cut(&self, slabs: usize) {
        self.range.cut(slabs * SLAB_BYTES);
    }

    fn abandon(&self, span: Span) {
        if let Some(start) = self.address(span) {
            // SAFETY: inside the range; the pool has set these slabs aside for good.
            let _ = unsafe { map::release(start, span.len) };
        }
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

/// Cells that are looked at for a range.
const CELLS: usize = 32;

/// A multiple of a slab below `most`, a power of two, that follows from an address as randomly as that is.
fn scattered(address: usize, most: usize) -> usize {
    // Fibonacci hashing; the lowest bits of an address are always zero.
    let mixed = (address >> 12).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 16;
    mixed & (most - 1) & !(SLAB_BYTES - 1)
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
