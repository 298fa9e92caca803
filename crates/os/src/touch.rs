//! First touches: one access per page, by read or by write, on memory that is owned here.
//!
//! In: lengths, offsets, advice. Out: resident pages, and how long single touches took. [`Region`] is an
//! anonymous private mapping, with the few calls that measuring page faults needs. [`Sampler`] times the
//! touches of a program's own blocks. [`HeldCopy`] keeps a forked copy of the address space alive.
//! [`Toucher`] and [`Churner`] do the same work in separate processes.
//!
//! It does not decide how much to touch, or turn times into statistics (`prof`).

mod apart;
mod child;
mod pages;
mod sample;
mod timed;

use std::ops::Range;
use std::ptr::{self, NonNull};
use std::sync::atomic::AtomicU8;

use crate::error::{Error, Result};
use crate::{advise, map, page};

pub use crate::advise::Advice;
pub use apart::{Churner, Touched, Toucher};
pub use child::HeldCopy;
pub use sample::{Sampler, empty_ticks, time_read, time_write};
pub use timed::{Touch, time_first_touches, time_groups, time_touches};

/// An owned anonymous private mapping, unmapped on drop. All zero until written.
///
/// ```
/// use faultless_os::{page, touch::Region};
/// let mut region = Region::new(16 * page::size(), page::size())?;
/// region.touch_write(page::size());
/// assert_eq!(region.read(0), 1);
/// # Ok::<(), faultless_os::Error>(())
/// ```
#[derive(Debug)]
pub struct Region {
    base: NonNull<u8>,
    len_bytes: usize,
}

// SAFETY: a Region is the only owner of its mapping, as a Box is of its memory; no thread-bound state.
unsafe impl Send for Region {}

impl Region {
    /// Maps `len_bytes` (rounded up to whole pages) at a multiple of `align_bytes`. Nothing is resident yet.
    ///
    /// # Errors
    /// ENOMEM if the address space or a limit has no room; EINVAL if `align_bytes` is no power of two.
    pub fn new(len_bytes: usize, align_bytes: usize) -> Result<Self> {
        let len_bytes = page::round_up(len_bytes.max(1));
        let align_bytes = align_bytes.max(page::size());
        if !align_bytes.is_power_of_two() {
            return Err(Error::new("mmap", libc::EINVAL));
        }
        let start = map::reserve(len_bytes, align_bytes)?;
        let region = Self::own(start, len_bytes)?;
        // SAFETY: reserved above, and not shared.
        unsafe { map::make_usable(start, len_bytes) }?;
        Ok(region)
    }

    /// The same, one base page behind a multiple of `align_bytes`, where page tables can't be moved as a
    /// whole.
    ///
    /// # Errors
    /// As for [`new`](Self::new).
    pub fn beside(len_bytes: usize, align_bytes: usize) -> Result<Self> {
        let mut region = Self::new(len_bytes.saturating_add(page::size()), align_bytes)?;
        let start = region.base.as_ptr().addr();
        // SAFETY: the first page of a mapping of at least two that was made above and is not shared.
        unsafe { map::release(start, page::size()) }?;
        region.len_bytes -= page::size();
        // SAFETY: the second page of that mapping.
        region.base = unsafe { region.base.add(page::size()) };
        Ok(region)
    }

    /// The same region without its head and its tail, which are unmapped, as an aligning allocator does it.
    ///
    /// # Errors
    /// ENOMEM as the kernel answers; what could not be unmapped stays mapped.
    ///
    /// # Panics
    /// When `range` is not inside the region, is empty, or is not of whole pages.
    pub fn trim(self, range: Range<usize>) -> Result<Self> {
        self.check(&range);
        assert!(
            !range.is_empty() && [range.start, range.end].iter().all(|end| end.is_multiple_of(page::size()))
        );
        let whole = std::mem::ManuallyDrop::new(self);
        let start = whole.base.as_ptr().addr();
        let kept = Self::own(start + range.start, range.len())?;
        for part in [0..range.start, range.end..whole.len_bytes] {
            if !part.is_empty() {
                // SAFETY: whole pages of this mapping, whose only owner we are, outside the part that is kept.
                unsafe { map::release(start + part.start, part.len()) }?;
            }
        }
        Ok(kept)
    }

    /// Maps `len_bytes` (rounded up to whole pages) with MAP_POPULATE.
    ///
    /// # Errors
    /// As for [`map::populated`].
    pub fn populated(len_bytes: usize) -> Result<Self> {
        let len_bytes = page::round_up(len_bytes.max(1));
        Self::own(map::populated(len_bytes)?, len_bytes)
    }

    /// Takes all rights on the region away, see [`map::protect`].
    ///
    /// # Errors
    /// As there; the region is dropped, since it may be inaccessible.
    pub fn protect(self) -> Result<Protected> {
        // SAFETY: this mapping is ours, not borrowed, and not used until it has its rights again.
        unsafe { map::protect(self.base.as_ptr().addr(), self.len_bytes) }?;
        Ok(Protected(self))
    }

    /// Its first address, for queries to the kernel.
    pub fn start(&self) -> usize {
        self.base.as_ptr().addr()
    }

    /// How many of its bytes are resident.
    pub fn resident_bytes(&self) -> usize {
        map::resident_bytes(self.base.as_ptr().addr(), self.len_bytes)
    }

    fn own(start: usize, len_bytes: usize) -> Result<Self> {
        let base = NonNull::new(ptr::with_exposed_provenance_mut(start));
        Ok(Self { base: base.ok_or(Error::new("mmap", libc::ENOMEM))?, len_bytes })
    }

    /// Length in bytes.
    pub fn len_bytes(&self) -> usize {
        self.len_bytes
    }

    /// `madvise(2)` for a part of the region.
    ///
    /// # Errors
    /// As the kernel answers; EINVAL also for an advice that this kernel does not know.
    ///
    /// # Panics
    /// When `range` is not inside the region.
    pub fn advise(&mut self, range: Range<usize>, advice: Advice) -> Result<()> {
        self.check(&range);
        let begin = self.base.as_ptr().addr() + range.start;
        // SAFETY: the range is inside this mapping and borrowed mutably; what is lost is only this region's content.
        unsafe { advise::advise(begin, range.len(), advice) }
    }

    /// `mlock(2)` for the whole region: this thread makes every page resident, and they stay so until the
    /// drop.
    ///
    /// # Errors
    /// ENOMEM: more than RLIMIT_MEMLOCK (`ulimit -l`), or no memory; EPERM: the limit is 0; EAGAIN: some pages could not
    /// be locked.
    pub fn lock(&mut self) -> Result<()> {
        // SAFETY: the mapping is ours; locking changes no content.
        let rc = unsafe { libc::mlock(self.base.as_ptr().cast(), self.len_bytes) };
        if rc == 0 { Ok(()) } else { Err(Error::last_for("mlock", self.len_bytes)) }
    }

    /// The content as atomics, for threads that share it in interleaved parts.
    pub fn atomics(&mut self) -> &[AtomicU8] {
        let base = self.base.as_ptr().cast::<AtomicU8>();
        // SAFETY: an AtomicU8 is laid out as a u8, and the exclusive borrow excludes other access to the bytes.
        unsafe { std::slice::from_raw_parts(base, self.len_bytes) }
    }

    /// Reads the byte at `offset`; never optimised away.
    ///
    /// # Panics
    /// When `offset` is outside.
    pub fn read(&self, offset: usize) -> u8 {
        assert!(offset < self.len_bytes, "offset inside the region");
        // SAFETY: the assertion above.
        let at = unsafe { self.base.as_ptr().add(offset) };
        // SAFETY: inside a readable mapping; anonymous memory is initialised to zero by the kernel.
        unsafe { at.read_volatile() }
    }

    /// One read per `step_bytes`. Returns the sum, so that nothing is optimised away.
    pub fn touch_read(&self, step_bytes: usize) -> u64 {
        (0..self.len_bytes).step_by(step_bytes.max(1)).map(|offset| u64::from(self.read(offset))).sum()
    }

    /// One write per `step_bytes`.
    pub fn touch_write(&mut self, step_bytes: usize) {
        for slot in self.bytes_mut().iter_mut().step_by(step_bytes.max(1)) {
            // SAFETY: `slot` is an exclusive reference to a byte.
            unsafe { ptr::write_volatile(slot, 1) };
        }
    }

    /// The content. Each page reads as zero until it is written.
    pub fn bytes(&self) -> &[u8] {
        // SAFETY: the mapping is readable, initialised by the kernel, and borrowed with `self`.
        unsafe { std::slice::from_raw_parts(self.base.as_ptr(), self.len_bytes) }
    }

    /// The content.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: the mapping is readable, writable, initialised by the kernel, and borrowed mutably with `self`.
        unsafe { std::slice::from_raw_parts_mut(self.base.as_ptr(), self.len_bytes) }
    }

    /// Moves the pages into the place of `target`, without copying (`mremap`).
    ///
    /// # Errors
    /// EINVAL when `target` has another length; ENOMEM as the kernel answers.
    pub fn relocate(&mut self, target: Region) -> Result<()> {
        if target.len_bytes != self.len_bytes {
            return Err(Error::new("mremap", libc::EINVAL));
        }
        let target = std::mem::ManuallyDrop::new(target);
        let (from, to) = (self.base.as_ptr(), target.base.as_ptr());
        let flags = libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED;
        // SAFETY: `from` is our mapping; at `to` exactly the mapping of `target` is replaced, whose only owner we are.
        let moved = unsafe { libc::mremap(from.cast(), self.len_bytes, self.len_bytes, flags, to) };
        if moved == libc::MAP_FAILED {
            return Err(Error::last_for("mremap", self.len_bytes));
        }
        self.base = target.base;
        Ok(())
    }

    fn check(&self, range: &Range<usize>) {
        assert!(range.start <= range.end && range.end <= self.len_bytes, "range inside the region");
    }
}

/// A [`Region`] that threads touch together, again and again: all access is by atomics.
#[derive(Debug)]
pub struct Shared(Region);

// SAFETY: the bytes are reached through atomics only; no method hands out a plain reference to them.
unsafe impl Sync for Shared {}

impl Shared {
    /// Shares a region.
    pub fn new(region: Region) -> Self {
        Self(region)
    }

    /// The content.
    pub fn atomics(&self) -> &[AtomicU8] {
        let base = self.0.base.as_ptr().cast::<AtomicU8>();
        // SAFETY: an AtomicU8 is laid out as a u8, and nothing but atomics reaches the bytes.
        unsafe { std::slice::from_raw_parts(base, self.0.len_bytes) }
    }

    /// Gives all pages back (MADV_DONTNEED). They read as zero, like after a store of another thread.
    ///
    /// # Errors
    /// As the kernel answers.
    pub fn give_back(&self) -> Result<()> {
        // SAFETY: the whole mapping, which is ours; its content is reached by atomics only, and may change.
        unsafe { advise::advise(self.0.start(), self.0.len_bytes, Advice::DontNeed) }
    }
}

/// A [`Region`] without its rights. Its content is unreachable until they are given back.
#[derive(Debug)]
pub struct Protected(Region);

impl Protected {
    /// The region with its rights.
    ///
    /// # Errors
    /// As for [`map::make_usable`]; the region is dropped.
    pub fn give_back(self) -> Result<Region> {
        // SAFETY: the mapping is ours; more rights on it break no assumption.
        unsafe { map::make_usable(self.0.start(), self.0.len_bytes) }?;
        Ok(self.0)
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        // SAFETY: this mapping is ours, and no longer used. A failure (ENOMEM at `max_map_count`) leaves
        // address space behind, never memory with another owner, so it is not reported.
        let _ = unsafe { map::release(self.base.as_ptr().addr(), self.len_bytes) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::counters::{Who, rusage};

    fn faults(work: impl FnOnce()) -> u64 {
        let before = rusage(Who::Thread).unwrap().minor_faults;
        work();
        rusage(Who::Thread).unwrap().minor_faults - before
    }

    fn base_pages(pages: usize) -> Region {
        Region::base_pages(pages * page::size(), page::size()).unwrap()
    }

    #[test]
    fn region_is_aligned_as_asked_and_zero() {
        let region = Region::new(3 << 20, 2 << 20).unwrap();
        assert_eq!(region.base.as_ptr().addr() % (2 << 20), 0);
        assert_eq!(region.touch_read(page::size()), 0);
    }

    #[test]
    fn each_page_is_one_fault_when_written_and_none_when_written_again() {
        let mut region = base_pages(256);
        let first = faults(|| region.touch_write(page::size()));
        assert!((256..256 + 8).contains(&first), "{first}");
        let again = faults(|| region.touch_write(page::size()));
        assert!(again < 8, "{again}");
    }

    #[test]
    fn read_then_write_faults_twice_per_page() {
        let mut region = base_pages(256);
        let both = faults(|| {
            assert_eq!(region.touch_read(page::size()), 0);
            region.touch_write(page::size());
        });
        assert!((512..512 + 16).contains(&both), "{both}");
    }

    #[test]
    fn given_back_pages_read_zero_and_fault_again() {
        let mut region = base_pages(64);
        region.touch_write(page::size());
        region.advise(0..region.len_bytes(), Advice::DontNeed).unwrap();
        assert_eq!(region.touch_read(page::size()), 0);
    }

    #[test]
    fn a_locked_region_takes_no_faults_any_more() {
        let mut region = base_pages(64);
        if let Err(error) = region.lock() {
            return faultless_wants::missing_feature("RLIMIT_MEMLOCK", error);
        }
        let count = faults(|| region.touch_write(page::size()));
        assert!(count < 8, "{count}");
    }

    #[test]
    fn relocated_region_keeps_its_content_without_faults() {
        let mut region = base_pages(64);
        region.touch_write(page::size());
        let target = Region::new(region.len_bytes(), 2 << 20).unwrap();
        region.relocate(target).unwrap();
        let mut sum = 0;
        let count = faults(|| sum = region.touch_read(page::size()));
        assert_eq!(sum, 64);
        assert!(count < 8, "{count}");
    }

    #[test]
    #[should_panic(expected = "range inside")]
    fn advice_outside_is_refused() {
        let mut region = base_pages(1);
        let _ = region.advise(0..page::size() * 2, Advice::DontNeed);
    }
}
