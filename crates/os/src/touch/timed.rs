//! Times first touches of new memory.
//!
//! In: the number of pages, or a block. Out: the time of each page, or of each group of pages. Where a
//! hypervisor backs memory lazily, whole groups cost clearly more.

use super::{Region, time_read, time_write};
use crate::error::Result;
use crate::{counters, page};

/// A touch that faults, of a private base page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Touch {
    /// A write to a new page.
    Write,
    /// A read of a new page, which maps the zero page.
    Read,
    /// A write to a page that has been read.
    WriteAfterRead,
}

/// Writes to `pages` new private base pages, and appends the [`tick`](counters::tick)s of each touch to
/// `ticks`. Then it writes each whole page, which passes through the caches as a program's data do.
///
/// Give `ticks` enough capacity, or its growth is measured too.
///
/// # Errors
/// As for [`Region::new`].
pub fn time_first_touches(pages: usize, ticks: &mut Vec<u64>) -> Result<()> {
    time_touches(Touch::Write, pages, ticks, || {})
}

/// The same for any touch. Calls `begin` before the first timed one.
///
/// # Errors
/// As for [`Region::new`].
pub fn time_touches(touch: Touch, pages: usize, ticks: &mut Vec<u64>, begin: impl FnOnce()) -> Result<()> {
    let mut region = Region::base_pages(pages * page::size(), page::size())?;
    if touch == Touch::WriteAfterRead {
        region.touch_read(page::size());
    }
    begin();
    for page in region.bytes_mut().chunks_exact_mut(page::size()) {
        if touch == Touch::Read {
            ticks.push(time_read(&page[0]));
        } else {
            ticks.push(time_write(&mut page[0], 1));
            std::hint::black_box(page).fill(1);
        }
    }
    Ok(())
}

/// Writes once to every base page of page-aligned memory. Returns the CPU time of each whole group of
/// `group_bytes`, ns per page.
///
/// # Panics
/// If a group is no whole number of base pages.
pub fn time_groups(memory: &mut [u8], group_bytes: usize) -> Vec<f64> {
    assert!(group_bytes > 0 && group_bytes.is_multiple_of(page::size()), "groups of whole pages");
    let pages = (group_bytes / page::size()) as f64;
    let mut times = Vec::with_capacity(memory.len() / group_bytes);
    for group in memory.chunks_mut(group_bytes) {
        let begin_ns = counters::process_cpu_ns();
        for slot in group.iter_mut().step_by(page::size()) {
            *std::hint::black_box(slot) = 1;
        }
        if group.len() == group_bytes {
            times.push((counters::process_cpu_ns() - begin_ns) as f64 / pages);
        }
    }
    times
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_page_is_touched_and_every_whole_group_timed() {
        let group_bytes = 16 * page::size();
        let mut region = Region::new(3 * group_bytes + page::size(), page::size()).unwrap();
        let times = time_groups(region.bytes_mut(), group_bytes);
        assert_eq!(times.len(), 3);
        assert!(times.iter().all(|&ns| ns > 0.0), "{times:?}");
        assert_eq!(region.touch_read(page::size()), 3 * 16 + 1);
    }
}
