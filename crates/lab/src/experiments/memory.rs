//! Memory of experiments: one kind of page or the remedy, and touches of it that can't be optimised away.

use std::hint::black_box;
use std::sync::atomic::{AtomicU8, Ordering};

use faultless_os::advise;
use faultless_os::touch::Region;

use crate::experiment::{Cell, Refusal};

/// Bytes of a THP.
///
/// # Errors
/// There are none here.
pub(super) fn thp_bytes(cell: &Cell) -> Result<usize, Refusal> {
    let bytes = advise::pmd_bytes();
    check_thp(cell, bytes).map(|()| bytes)
}

/// Whether there are THP of this size, or mTHP.
///
/// # Errors
/// There are none here.
pub(super) fn check_thp(cell: &Cell, bytes: usize) -> Result<(), Refusal> {
    const FOLDER: &str = "/sys/kernel/mm/transparent_hugepage";
    if advise::thp_gives(bytes) {
        return Ok(());
    }
    let kib = bytes >> 10;
    let remedy = match bytes == advise::pmd_bytes() {
        true if bytes == 0 => "take a kernel that has them".to_owned(),
        true => format!("echo madvise > {FOLDER}/enabled, as root"),
        false => format!("echo madvise > {FOLDER}/hugepages-{kib}kB/enabled, as root, on Linux 6.8 or newer"),
    };
    Err(Refusal(format!("{cell}: there are no transparent huge pages of {kib} KiB: {remedy}")))
}

/// Memory from the hugetlb pool, of which the cell needs so many pages in all.
///
/// # Errors
/// The pool has too few pages.
pub(super) fn hugetlb(len_bytes: usize, page_bytes: usize, pages: usize) -> Result<Region, Refusal> {
    Region::hugetlb(len_bytes, page_bytes).map_err(|error| {
        let kib = page_bytes >> 10;
        let file = format!("/sys/kernel/mm/hugepages/hugepages-{kib}kB/nr_hugepages");
        Refusal(format!("{error}: {pages} pages are needed: echo {pages} > {file}, as root"))
    })
}

/// One write per step; the sum of what is there afterwards, a one for each.
pub(super) fn write(memory: &mut [u8], step_bytes: usize) -> u64 {
    let slots = memory.iter_mut().step_by(step_bytes);
    slots
        .map(|slot| {
            *black_box(&mut *slot) = 1;
            u64::from(*black_box(slot))
        })
        .sum()
}

/// The same for slots of memory that threads share; only reads where it is not to be written.
pub(super) fn touch<'a>(slots: impl Iterator<Item = &'a AtomicU8>, writes: bool) -> u64 {
    slots
        .map(|slot| {
            if writes {
                slot.store(1, Ordering::Relaxed);
            }
            u64::from(black_box(slot).load(Ordering::Relaxed))
        })
        .sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_there_is_not_is_refused_with_the_remedy() {
        let cell = Cell::of("price");
        let refused = check_thp(&cell, 5 << 10).unwrap_err().0;
        assert!(refused.contains("hugepages-5kB/enabled, as root"), "{refused}");
        let refused = hugetlb(1 << 40, 2 << 20, 1 << 19).unwrap_err().0;
        assert!(refused.contains("echo 524288 > ") && refused.contains("nr_hugepages, as root"), "{refused}");
    }

    #[test]
    fn every_slot_is_touched_once() {
        let mut memory = [0_u8; 10];
        assert_eq!((write(&mut memory, 3), memory.iter().filter(|&&byte| byte == 1).count()), (4, 4));
        let shared = [0, 7, 0].map(AtomicU8::new);
        assert_eq!(touch(shared.iter(), false), 7);
        assert_eq!(touch(shared.iter().step_by(2), true), 2);
    }
}
