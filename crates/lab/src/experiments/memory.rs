//! Memory for experiments: one kind of page or the remedy, and touches that can't be optimised away.

use std::fs::File;
use std::hint::black_box;
use std::ops::Range;

use faultless_os::file::{self, FileMap};
use faultless_os::touch::Region;
use faultless_os::{advise, page};
use faultless_prof::price::work;

use crate::cell::{Cell, Refusal};
use crate::experiment::{Notes, Phase};

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
        whole => Err(Refusal(work::fragmented(whole, COUNT, bytes))),
    }
}

/// A phase that takes one fault per huge page. At least half of the pages must be huge; the rest may fall back
/// to base pages.
pub(super) fn mostly_huge(phase: Phase, base_pages: usize) -> Phase {
    let least = *phase.faults.start();
    phase.up_to((base_pages as u64).saturating_sub(least) / 2)
}

/// Writes a byte of untouched memory; returns how many bytes are resident then. That is everything where the
/// memory was populated, otherwise the one page of the write.
pub(super) fn resident_by_a_write(region: &mut Region) -> u64 {
    *black_box(&mut region.bytes_mut()[0]) = 1;
    region.resident_bytes() as u64
}

/// Notes how much of these mappings is resident.
pub(super) fn note_resident(regions: &[Region], notes: &mut Notes) {
    let resident: usize = regions.iter().map(Region::resident_bytes).sum();
    notes.add("resident_bytes", resident as f64);
    notes.add("mapped_bytes", regions.iter().map(Region::len_bytes).sum::<usize>() as f64);
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

/// Bytes of a cache line: the shortest of today's processors. Where lines are longer, fewer are accessed than asked for.
pub(super) const LINE_BYTES: usize = 64;

/// The accesses to a page.
#[derive(Clone, Copy, Debug)]
pub(super) struct Access {
    /// To so many lines, from the first on.
    pub(super) lines: usize,
    /// Whether they write [`mark`] of the page, or only read, which must find zero.
    pub(super) writes: bool,
    /// The turn of the mark.
    pub(super) turn: u8,
}

/// Accesses the first byte of the first lines of each page. `at` reads the byte at an offset, after writing the value if
/// there is one. Returns [`marks`] of these pages for each line, if the memory was zero before: the second byte of each
/// line is added. It is read last, since reading would map the zero page.
pub(super) fn touch(
    pages: impl Iterator<Item = usize>,
    Access { lines, writes, turn }: Access,
    mut at: impl FnMut(usize, Option<u8>) -> u8,
) -> u64 {
    let page_bytes = page::size();
    let mut sum = 0;
    for page in pages {
        let mark = mark(page, turn);
        for line in 0..lines {
            let offset = page * page_bytes + line * LINE_BYTES;
            let value =
                if writes { black_box(at(offset, Some(mark))) } else { black_box(at(offset, None)) ^ mark };
            sum += u64::from(value) + u64::from(black_box(at(offset + 1, None)));
        }
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;

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
        let mut pages = vec![0_u8; 4 * page::size()];
        let mut touched = |turn, writes, lines| {
            touch(1..4, Access { lines, writes, turn }, |at, value| {
                value.into_iter().for_each(|value| pages[at] = value);
                pages[at]
            })
        };
        assert_eq!(touched(2, false, 2), 2 * marks(1..4, 2));
        assert_eq!([touched(2, true, 1), touched(1, true, 3)], [marks(1..4, 2), 3 * marks(1..4, 1)]);
        assert_ne!(touched(2, false, 1), marks(1..4, 2), "it is not zero any more");
        pages.fill(1);
        let mut dirty = |at: usize, value: Option<u8>| {
            value.into_iter().for_each(|value| pages[at] = value);
            pages[at]
        };
        let access = Access { lines: 1, writes: true, turn: 1 };
        assert_eq!(touch(0..4, access, &mut dirty), marks(0..4, 1) + 4, "nobody had zeroed it");
        assert_ne!(marks(0..512, 1), marks(0..512, 2));
    }

    #[test]
    fn half_of_the_pages_must_be_huge() {
        let of = |faults| mostly_huge(Phase::new("timed", 10, 0), 5120).faults.contains(&faults);
        assert_eq!([10, 2500, 2600, 5120].map(of), [true, true, false, false]);
    }
}
