//! Memory for experiments: one kind of page or the remedy, and touches that can't be optimised away.

use std::fs::File;
use std::hint::black_box;
use std::ops::Range;
use std::sync::atomic::{AtomicU8, Ordering};

use faultless_os::file::{self, FileMap};
use faultless_os::touch::Region;
use faultless_os::{advise, page};
use faultless_prof::price::work;

use crate::cell::{Cell, Refusal};
use crate::experiment::Phase;

/// Takes a file out of the page cache. `what` begins the refusal.
///
/// # Errors
/// Its pages stay: the file system lies in memory.
pub(super) fn forget(file: &File, len_bytes: usize, what: &str) -> Result<(), Refusal> {
    file::forget(file)?;
    if FileMap::new(file, len_bytes)?.cached_bytes() > 0 {
        let folder = std::env::temp_dir();
        return Err(Refusal(format!(
            "{what}: {} lies in memory, its files can't leave the page cache: set TMPDIR to a folder on a disk",
            folder.display()
        )));
    }
    Ok(())
}

/// Bytes of a THP.
///
/// # Errors
/// The machine has none.
pub(super) fn thp_bytes(cell: &Cell) -> Result<usize, Refusal> {
    let bytes = advise::pmd_bytes();
    check_thp(cell, bytes).map(|()| bytes)
}

/// Checks that there are THP or mTHP of this size, and that the kernel finds room for a few now.
///
/// # Errors
/// The machine has none, or memory is fragmented.
pub(super) fn check_thp(cell: &Cell, bytes: usize) -> Result<(), Refusal> {
    const FOLDER: &str = "/sys/kernel/mm/transparent_hugepage";
    if advise::thp_gives(bytes) {
        return probe_thp(bytes);
    }
    let kib = bytes >> 10;
    let remedy = if bytes != advise::pmd_bytes() {
        format!("echo madvise > {FOLDER}/hugepages-{kib}kB/enabled, as root, on Linux 6.8 or newer")
    } else if bytes > 0 {
        format!("echo madvise > {FOLDER}/enabled, as root")
    } else {
        "take a kernel that has them".to_owned()
    };
    Err(Refusal(format!("{cell}: there are no transparent huge pages of {kib} KiB: {remedy}")))
}

/// Checks that a few THP of this size come when they are touched.
fn probe_thp(bytes: usize) -> Result<(), Refusal> {
    const COUNT: usize = 4;
    let is_small = bytes < advise::pmd_bytes();
    let mut region = if is_small { Region::mthp(COUNT, bytes)? } else { Region::thp(COUNT * bytes, bytes)? };
    region.touch_write(if is_small { 2 * bytes } else { bytes });
    match region.resident_bytes() / bytes {
        COUNT => Ok(()),
        whole => Err(fragmented(whole, COUNT, bytes)),
    }
}

/// The kernel fell back to smaller pages.
pub(super) fn fragmented(whole: usize, count: usize, page_bytes: usize) -> Refusal {
    Refusal(work::fragmented(whole, count, page_bytes))
}

/// A phase that takes one fault per huge page. At least half of the pages must be huge; the rest may fall back
/// to base pages.
pub(super) fn mostly_huge(phase: Phase, base_pages: usize) -> Phase {
    let (least, most) = phase.faults.clone().into_inner();
    phase.faults(least..=most + (base_pages as u64).saturating_sub(least) / 2)
}

/// Writes a byte of untouched memory; returns how many bytes are resident then. That is everything where the
/// memory was populated, otherwise the one page of the write.
pub(super) fn resident_by_a_write(region: &mut Region) -> u64 {
    *black_box(&mut region.bytes_mut()[0]) = 1;
    region.resident_bytes() as u64
}

/// Memory from the hugetlb pool; the cell needs this many pages in all.
///
/// # Errors
/// The pool has too few pages.
pub(super) fn hugetlb(len_bytes: usize, page_bytes: usize, pages: usize) -> Result<Region, Refusal> {
    work::hugetlb(len_bytes, page_bytes, pages).map_err(Refusal)
}

/// The value of a page after its touch on turn 0, 1 or 2. It differs by page, so a sum over pages can't be
/// guessed.
pub(super) fn mark(page: usize, turn: u8) -> u8 {
    ((page.wrapping_mul(31) ^ page >> 8) as u8 >> 1) + 41 * turn
}

/// The sum that touching these pages must return.
pub(super) fn marks(pages: Range<usize>, turn: u8) -> u64 {
    pages.map(|page| u64::from(mark(page, turn))).sum()
}

/// One write per step; returns the sum of the values afterwards, which is [`marks`] of as many pages on the
/// first turn.
pub(super) fn write(memory: &mut [u8], step_bytes: usize) -> u64 {
    let slots = memory.iter_mut().step_by(step_bytes).enumerate();
    slots
        .map(|(page, slot)| {
            *black_box(&mut *slot) = mark(page, 0);
            u64::from(*black_box(slot))
        })
        .sum()
}

/// Writes to base pages of memory that threads share, or only reads them, which must find zero. Returns
/// [`marks`] of these pages.
pub(super) fn touch(memory: &[AtomicU8], pages: impl Iterator<Item = usize>, turn: u8, writes: bool) -> u64 {
    let page_bytes = page::size();
    let touch = |page| {
        let (slot, mark) = (&memory[page * page_bytes], mark(page, turn));
        if writes {
            slot.store(mark, Ordering::Relaxed);
            u64::from(black_box(slot).load(Ordering::Relaxed))
        } else {
            u64::from(black_box(slot).load(Ordering::Relaxed) ^ mark)
        }
    };
    pages.map(touch).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use faultless_os::touch::Populate;

    #[test]
    fn what_there_is_not_is_refused_with_the_remedy() {
        let cell = Cell::of("price");
        let refused = check_thp(&cell, 5 << 10).unwrap_err().0;
        assert!(refused.contains("hugepages-5kB/enabled, as root"), "{refused}");
    }

    #[test]
    fn every_page_is_touched_once_and_the_sum_says_which() {
        let mut memory = [0_u8; 10];
        assert_eq!(write(&mut memory, 3), marks(0..4, 0));
        assert_eq!([memory[3], memory[9], memory[8]], [mark(1, 0), mark(3, 0), 0]);
        let mut region = Region::base_pages(4 * page::size(), page::size()).unwrap();
        assert_eq!(touch(region.atomics(), 1..4, 2, false), marks(1..4, 2));
        assert_eq!(touch(region.atomics(), [1, 3].into_iter(), 2, true), marks(1..2, 2) + marks(3..4, 2));
        assert_eq!(region.read(3 * page::size()), mark(3, 2));
        assert_ne!(touch(region.atomics(), 1..4, 2, false), marks(1..4, 2), "it is not zero any more");
        assert_ne!(marks(0..512, 1), marks(0..512, 2));
    }

    #[test]
    fn half_of_the_pages_must_be_huge() {
        let of = |faults| mostly_huge(Phase::new("timed", 10, 0), 5120).faults.contains(&faults);
        assert_eq!([10, 2500, 2600, 5120].map(of), [true, true, false, false]);
    }

    #[test]
    fn what_a_write_gets_tells_populated_memory_from_new() {
        let len_bytes = 8 * page::size();
        let mut new = Region::base_pages(len_bytes, page::size()).unwrap();
        let mut populated = Region::populated(len_bytes, Populate::Writable).unwrap();
        assert_eq!(resident_by_a_write(&mut new), page::size() as u64);
        assert_eq!(resident_by_a_write(&mut populated), len_bytes as u64);
    }
}
