//! The kernel as supplier of pages.
//!
//! In: spans of one range. Out: system calls. The only decision here is where the range lies.
//!
//! [`Backend::extend`] maps the range and its tables piece by piece. The rest of the range is not even reserved; it
//! lies far from where the kernel places other mappings. So it counts against no limit (`ulimit -v`, mlockall(2)) and
//! no commit charge. Each piece is mapped only where nothing is mapped (MAP_FIXED_NOREPLACE). Another mapping in the
//! way ends the range.

mod inject;

use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering::Relaxed};

use faultless_os::advise::Advice;
use faultless_os::{advise, counters, map, page, pressure, zero};

use crate::backend::{Alteration, Backend, FRONT_WORDS, Moved, Reserved, Residency, Span};
use crate::block::Memory;
use crate::class::run;
use crate::error::Error;
use crate::policy::Page;
use crate::slabs::{Slab, WORDS};
use crate::tuning::{GRANULE_BYTES, HEAD_SLABS, RANGE_BYTES, RANGE_MIN_BYTES, SLAB_BYTES, SLAB_GRANULES};
#[cfg(feature = "inject-failures")]
pub use inject::Failing;
use inject::{Call, Injector};

/// The kernel. One value reserves one range.
#[derive(Debug, Default)]
pub struct Kernel {
    range: Area,
    words: Area,
    slabs: Area,
    blocks: Area,
    backing: AtomicU8,
    /// Bytes that got base pages although the policy asked for others.
    fallback_bytes: AtomicU64,
    /// Whether page tables can be moved. After a refusal there are no more attempts, because each may cost the target;
    /// see `relocate`.
    movable: AtomicU8,
    confined: AtomicBool,
    /// Whether pages must stay where they are; see [`Backend::keep`].
    keeps: AtomicBool,
    injector: Injector,
}

/// A part of the address space: its start, and how many bytes of it are mapped.
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

    /// Unmaps everything behind the first `kept` bytes (whole pages). Nobody may use it until it is mapped again.
    fn cut(&self, kept: usize) {
        let had = self.mapped.fetch_min(kept, Relaxed);
        if kept < had {
            // SAFETY: `reach` mapped it for this value, and the callers know that nobody uses it.
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

// SAFETY: a table owns its entries, as a Vec does.
unsafe impl<T: Send> Send for Table<T> {}

// SAFETY: a shared table gives only shared entries, as a shared slice does.
unsafe impl<T: Sync> Sync for Table<T> {}

impl<T> Deref for Table<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        // SAFETY: `reserve` mapped `len` entries for this table alone; all-zero is a valid Slab, u64,
        // AtomicU32 and AtomicU64; nobody reads entries before they are mapped, see Core::require_usable and
        // Blocks::extend_to.
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
    /// A kernel whose calls fail on demand, for tests.
    #[cfg(feature = "inject-failures")]
    pub fn failing(failing: Failing) -> Self {
        Self { injector: Injector::new(failing), ..Self::default() }
    }

    /// Chooses the addresses of the range and, before it, of its tables. Maps the first page of the tables. Returns the
    /// length of the range.
    ///
    /// A range has a cell of addresses for itself: twice as long, aligned, and nothing is mapped in it. The cell lies
    /// well below `near`, where the kernel places mappings now, so these can grow towards it for a long time. Two
    /// ranges thus never meet, even if two libraries of a process have a pool each. The position in the cell is as
    /// random as `near`.
    fn place(&self, near: usize) -> crate::Result<usize> {
        let mut len = RANGE_BYTES;
        loop {
            self.injector.permit(Call::Map)?;
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
        self.injector.permit(Call::Extend)?;
        area.reach(len)
    }

    /// Prepares slabs, except for the first few, for the pages of the policy; unless the pool itself chooses pages.
    fn back_slabs(&self, from: usize, to: usize) {
        let from = if self.backing.load(Relaxed) == CHOSEN { to } else { from.max(HEAD_SLABS) };
        if from < to {
            self.back(self.range.start() + from * SLAB_BYTES, (to - from) * SLAB_BYTES);
        }
    }

    fn is_hugetlb(&self) -> bool {
        self.backing.load(Relaxed) == HUGETLB
    }

    /// Whether the kernel moves page tables. The first call tries it, before a block depends on it.
    fn moves_pages(&self) -> bool {
        if self.movable.load(Relaxed) == UNTRIED {
            self.movable.store(if map::pages_can_move() { MOVABLE } else { IMMOVABLE }, Relaxed);
        }
        self.movable.load(Relaxed) == MOVABLE
    }

    /// Prepares usable, untouched slabs for the pages of the policy. Counts the bytes that get base pages instead.
    fn back(&self, start: usize, len: usize) {
        let backed = match self.backing.load(Relaxed) {
            BASE | UNASKED => return,
            THP if self.injector.permit(Call::Advise).is_ok() => {
                // SAFETY: callers pass usable parts of the range.
                unsafe { advise::thp(start, len) }.map_or(0, |()| len)
            }
            HUGETLB => self.back_by_hugetlb(start, len),
            _ => 0,
        };
        self.fallback_bytes.fetch_add((len - backed) as u64, Relaxed);
    }

    /// Maps hugetlb pages into slabs, in pieces as large as the hugetlb pool allows. Returns the bytes that got some.
    fn back_by_hugetlb(&self, start: usize, len: usize) -> usize {
        let (mut done, mut piece) = (0, len);
        while done < len && piece > 0 && self.injector.permit(Call::Map).is_ok() {
            // SAFETY: a slab is a hugetlb page of the usual size; nobody has used the slabs yet.
            match unsafe { map::hugetlb_at(start + done, piece, SLAB_BYTES) } {
                Ok(()) => done += piece,
                // The target may be unmapped now. Mapped anew it has base pages.
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

    /// Whether madvise(2) may be called for anything but giving memory back.
    fn permit_advice(&self) -> crate::Result<()> {
        if self.is_confined() {
            return Err(faultless_os::Error::new("madvise in a sandbox", EPERM).into());
        }
        self.injector.permit(Call::Advise)
    }

    /// Demands that pages may change.
    fn require_change(&self, call: &'static str) -> crate::Result<()> {
        if self.keeps() { Err(faultless_os::Error::new(call, EPERM).into()) } else { Ok(()) }
    }

    /// The address of a span, if it is mapped.
    fn address(&self, span: Span) -> Option<usize> {
        let end = span.offset.checked_add(span.len)?;
        (end <= self.range.mapped.load(Relaxed)).then(|| self.range.start() + span.offset)
    }
}

/// Values of [`Kernel::backing`]: base pages.
const BASE: u8 = 0;
/// Huge pages in all slabs.
const THP: u8 = 1;
const HUGETLB: u8 = 2;
/// The machine lacks the pages of the policy.
const LACKING: u8 = 3;
/// Huge pages in the slabs that the pool advises.
const CHOSEN: u8 = 4;
/// Huge pages without advice.
const UNASKED: u8 = 5;

/// The backing for a policy on this machine.
fn backing(policy: Page) -> u8 {
    match policy {
        Page::Base => BASE,
        Page::Thp if advise::thp_comes_unasked(advise::pmd_bytes()) => UNASKED,
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

/// Values of [`Kernel::movable`]; zero before the first attempt.
const UNTRIED: u8 = 0;
const MOVABLE: u8 = 1;
const IMMOVABLE: u8 = 2;
// Of the kernel: no addresses; not for hugetlb pages; a move of several mappings. Our own: forbidden by `keep` or `confine`.
const ENOMEM: i32 = 12;
const EINVAL: i32 = 22;
const EFAULT: i32 = 14;
const EPERM: i32 = 1;

/// What undoes an alteration.
const INVERSES: [(Alteration, Advice); 6] = [
    (Alteration::NotInherited, Advice::DoFork),
    (Alteration::WipedInChildren, Advice::KeepOnFork),
    (Alteration::NotDumped, Advice::DoDump),
    (Alteration::Merged, Advice::Unmergeable),
    (Alteration::Order, Advice::Normal),
    (Alteration::Guarded, Advice::GuardRemove),
];

impl Backend for Kernel {
    type Slabs = Table<Slab>;
    type Words = Table<u64>;
    type Blocks = Table<AtomicU32>;
    type Slots = Table<AtomicU64>;

    fn reserve(&self, policy: Page) -> crate::Result<Reserved<Self>> {
        if page::size() > GRANULE_BYTES {
            return Err(Error::PageTooLarge { page_bytes: page::size() });
        }
        // One mapping: the front's slots, then the words of the slab table.
        let words_max = WORDS * (RANGE_BYTES / SLAB_BYTES).div_ceil(64);
        let word_bytes = whole_pages((FRONT_WORDS + words_max) * size_of::<u64>());
        self.injector.permit(Call::Map)?;
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

    fn max_block_bytes(&self) -> usize {
        map::memory_and_swap_bytes().unwrap_or(usize::MAX)
    }

    fn limit_bytes(&self) -> Option<usize> {
        map::address_space_limit()
    }

    fn addresses_are_free(&self) -> bool {
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
        self.permit_advice()?;
        let Some(start) = self.address(span) else { return Ok(()) };
        // SAFETY: inside the range, which this value owns.
        unsafe { advise::populate(start, span.len) }.map_err(Error::from)
    }

    fn fallback_bytes(&self) -> u64 {
        self.fallback_bytes.load(Relaxed)
    }

    fn resident_bytes(&self, span: Span) -> usize {
        if self.is_confined() {
            return span.len;
        }
        self.address(span).map_or(0, |start| map::resident_bytes(start, span.len))
    }

    fn can_advise_thp(&self) -> bool {
        self.backing.load(Relaxed) == CHOSEN
    }

    fn advise(&self, span: Span, huge: bool) -> crate::Result<()> {
        self.permit_advice()?;
        let Some(start) = self.address(span) else { return Ok(()) };
        let advised = if huge {
            // SAFETY: inside the range, which this value owns.
            unsafe { advise::thp(start, span.len) }
        } else {
            // SAFETY: as above.
            unsafe { advise::base(start, span.len) }
        };
        if advised.is_err() && huge {
            self.fallback_bytes.fetch_add(span.len as u64, Relaxed);
        }
        advised.map_err(Error::from)
    }

    fn group_left_bytes(&self) -> Option<u64> {
        pressure::group().map(|group| group.left_bytes())
    }

    fn available_bytes(&self) -> usize {
        if self.is_confined() {
            return usize::MAX;
        }
        let available = self.group_left_bytes().into_iter().chain(pressure::available_bytes()).min();
        available.map_or(usize::MAX, |bytes| bytes as usize)
    }

    fn residency(&self, span: Span) -> Residency {
        let all = Residency { granules: run(0, span.len / GRANULE_BYTES), bytes: span.len };
        let Some(start) = self.address(span).filter(|_| !self.is_confined()) else { return all };
        let page_log2 = page::size().trailing_zeros();
        // One byte per page; pages have at least 4 KiB.
        let mut pages = [0_u8; SLAB_BYTES >> 12];
        let Some(pages) = pages.get_mut(..span.len >> page_log2) else { return all };
        if map::residency(start, pages).is_err() {
            return all;
        }
        let granule = |at: usize| at >> (GRANULE_BYTES.trailing_zeros() - page_log2);
        let touched = pages.iter().enumerate().filter(|(_, flags)| **flags & 1 == 1);
        touched.fold(Residency { granules: 0, bytes: 0 }, |all, (at, _)| Residency {
            granules: all.granules | run(granule(at), 1),
            bytes: all.bytes + page::size(),
        })
    }

    fn zero(&self, span: Span) {
        if self.address(span).is_some() {
            // SAFETY: inside the range; the pool zeroes only usable granules of a block that it is handing out.
            unsafe { zero::CACHED.zero(self.pointer(span.offset).as_ptr(), span.len) };
        }
    }

    fn scrub(&self, span: Span) {
        if self.address(span).is_some() {
            // The first choice of an engine reads the clock.
            let engine = if self.is_confined() { zero::CACHED } else { zero::ahead() };
            // SAFETY: inside the range; usable granules that the pool has claimed. The engine is present.
            unsafe { engine.zero(self.pointer(span.offset).as_ptr(), span.len) };
        }
    }

    fn relocate(&self, from: Span, to: usize, by_pages: bool) -> Moved {
        let target = self.address(Span { offset: to, len: from.len });
        let (Some(source), Some(target)) = (self.address(from), target) else { return Moved::Lost };
        // hugetlb pages never move this way, and kernels up to 6.16 unmap whole pages at the target before they refuse.
        let may_move = by_pages && !self.is_hugetlb() && !self.is_confined() && !self.keeps();
        if may_move && self.moves_pages() && self.injector.permit(Call::Remap).is_ok() {
            // SAFETY: both spans belong to blocks of the calling thread and do not overlap (the pool's contract).
            match unsafe { map::move_pages(source, target, from.len) } {
                Ok(()) => return Moved::Pages,
                Err(error) => {
                    // EFAULT: these pages are several mappings. Others may move.
                    if error.errno != EFAULT {
                        self.movable.store(IMMOVABLE, Relaxed);
                    }
                    // The refusal may have unmapped the target, and another thread may have mapped memory of its own
                    // there since.
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
        self.require_change("madvise(MADV_DONTNEED")?;
        // The kernel purges whole hugetlb pages only. For a part of one it does nothing and reports success.
        if self.is_hugetlb() && !(span.offset | span.len).is_multiple_of(SLAB_BYTES) {
            return Err(faultless_os::Error::new("madvise of a part of a hugetlb page", EINVAL).into());
        }
        self.injector.permit(Call::Advise)?;
        let Some(start) = self.address(span) else { return Ok(()) };
        if self.is_confined() {
            // SAFETY: inside the range; the pool purges only free granules.
            return unsafe { map::renew(start, span.len) }.map_err(Error::from);
        }
        // SAFETY: as above.
        unsafe { advise::purge(start, span.len) }.map_err(Error::from)
    }

    fn offer(&self, span: Span) -> crate::Result<()> {
        self.require_change("madvise(MADV_FREE")?;
        self.permit_advice()?;
        let Some(start) = self.address(span) else { return Ok(()) };
        // SAFETY: inside the range; the pool offers only free granules.
        unsafe { advise::offer(start, span.len) }.map_err(Error::from)
    }

    fn withhold(&self, span: Span) -> crate::Result<()> {
        self.require_change("madvise(MADV_DONTFORK")?;
        self.permit_advice()?;
        let Some(start) = self.address(span) else { return Ok(()) };
        // SAFETY: inside the range; the pool withholds only free slabs.
        unsafe { advise::dont_fork(start, span.len) }.map_err(Error::from)
    }

    fn share(&self, span: Span) -> crate::Result<()> {
        if self.is_confined() {
            return Ok(()); // nothing was withheld
        }
        self.injector.permit(Call::Advise)?;
        let Some(start) = self.address(span) else { return Ok(()) };
        // SAFETY: inside the range, which this value owns.
        unsafe { advise::do_fork(start, span.len) }.map_err(Error::from)
    }

    fn restore(&self, span: Span, altered: u8) -> crate::Result<()> {
        let Some(start) = self.address(span) else { return Ok(()) };
        let pages = match self.backing.load(Relaxed) {
            // The pool's choice, or pages that refuse the advice.
            CHOSEN | HUGETLB => None,
            THP | UNASKED => Some((Alteration::PageSize, Advice::HugePage)),
            _ => Some((Alteration::PageSize, Advice::NoHugePage)),
        };
        for (alteration, inverse) in INVERSES.into_iter().chain(pages) {
            if altered & alteration as u8 != 0 {
                self.injector.permit(Call::Advise)?;
                // SAFETY: inside the range; the pool restores only what is being freed.
                unsafe { advise::advise(start, span.len, inverse) }?;
            }
        }
        Ok(())
    }

    fn keep(&self) {
        self.keeps.store(true, Relaxed);
    }

    fn keeps(&self) -> bool {
        self.keeps.load(Relaxed)
    }

    fn renew(&self, span: Span) -> crate::Result<()> {
        self.require_change("mmap(MAP_FIXED")?;
        self.injector.permit(Call::Map)?;
        let Some(start) = self.address(span) else { return Ok(()) };
        // SAFETY: inside the range; the pool renews only free slabs.
        unsafe { map::renew(start, span.len) }?;
        // The rest of the hugetlb pool is needed for copies of pages in use: the kernel kills a process that finds
        // none.
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

    fn confine(&self) {
        if !self.is_hugetlb() {
            self.backing.store(BASE, Relaxed);
        }
        self.confined.store(true, Relaxed);
    }

    fn is_confined(&self) -> bool {
        self.confined.load(Relaxed)
    }

    fn now(&self) -> u64 {
        if self.is_confined() {
            return 0;
        }
        counters::kernel_now_ns()
    }
}

// SAFETY: `extend` makes the range readable and writable zero memory before the pool hands any of it out. Only the
// calls of `Backend` access it.
unsafe impl Memory for Kernel {
    fn pointer(&self, offset: usize) -> NonNull<u8> {
        pointer(self.range.start() + offset)
    }
}

/// Cells that are tried for a range.
const CELLS: usize = 32;

/// A multiple of a slab below `most` (a power of two), as random as the address.
fn scattered(address: usize, most: usize) -> usize {
    // Fibonacci hashing. The lowest bits of a page's address are always zero.
    let mixed = (address >> 12).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 16;
    mixed & (most - 1) & !(SLAB_BYTES - 1)
}

/// Like `page::round_up`, without a division that could panic.
fn whole_pages(len: usize) -> usize {
    (len + page::size() - 1) & !(page::size() - 1)
}

/// The lengths in bytes of the slab table and of the block table.
fn table_bytes(slabs: usize) -> (usize, usize) {
    (whole_pages(slabs * size_of::<Slab>()), whole_pages(slabs * SLAB_GRANULES * size_of::<AtomicU32>()))
}

fn pointer<T>(address: usize) -> NonNull<T> {
    NonNull::new(address as *mut T).unwrap_or(NonNull::dangling())
}
