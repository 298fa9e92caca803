//! Times first touches group by group: where a hypervisor backs memory lazily, whole groups of pages cost clearly more.

use crate::{counters, page};

/// Writes once to every base page of memory that begins at one; the CPU time of each whole group of `group_bytes`, ns per
/// page.
///
/// # Panics
/// When a group is no whole number of base pages.
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
    use crate::touch::Region;

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
