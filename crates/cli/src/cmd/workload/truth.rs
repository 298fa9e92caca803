//! What a first touch costs inside the workload itself: page-wise timed fills of a few of its own fresh blocks.
//!
//! In: blocks that the workload is about to fill anyway. Out: the median of the touches that faulted. The sampled block
//! is filled page by page, the first store of each page timed, the rest as usual, so that caches see the same traffic
//! as in blocks that are not sampled.

use std::mem::MaybeUninit;

use faultless_os::page;
use faultless_os::touch::{Region, Sampler, empty_ticks};

/// Pages timed in one sampled block: 64 KiB on 4 KiB pages, so that a batch ends before a time slice does.
pub(super) const PAGES: usize = 16;

/// First-touch times of all threads of a workload, in ticks.
#[derive(Debug, Default)]
pub(super) struct Truth {
    ticks: Vec<u32>,
}

impl Truth {
    /// Takes in what one thread has sampled.
    pub(super) fn add(&mut self, sampler: &Sampler) {
        self.ticks.extend_from_slice(sampler.ticks());
    }

    /// Number of samples.
    pub(super) fn len(&self) -> usize {
        self.ticks.len()
    }

    /// The median in nanoseconds, without what reading the counter costs; never a sum, because preemption falls into
    /// single samples.
    pub(super) fn p50_ns(&self, tick_ns: f64) -> Option<f64> {
        let mut ticks = self.ticks.clone();
        let middle = ticks.len() / 2;
        (!ticks.is_empty()).then(|| {
            let median = u64::from(*ticks.select_nth_unstable(middle).1);
            median.saturating_sub(empty_ticks()) as f64 * tick_ns
        })
    }
}

impl From<Sampler> for Truth {
    fn from(sampler: Sampler) -> Self {
        Self { ticks: sampler.ticks().to_vec() }
    }
}

/// Appends `count` copies-with-counter made by `next` to `block`, the first [`PAGES`] new pages timed.
///
/// `extend` appends exactly the asked number of elements; the capacity must already be there.
pub(super) fn extend_timed<T: Copy>(
    block: &mut Vec<T>,
    count: usize,
    sampler: &mut Sampler,
    mut extend: impl FnMut(&mut Vec<T>, usize),
) {
    let end = block.len() + count;
    debug_assert!(end <= block.capacity(), "the block is there before it is filled");
    let to_page = to_next_page(&block.spare_capacity_mut()[..count]);
    extend(block, to_page);
    sampler.begin();
    let page_elements = page::size() / size_of::<T>();
    for _ in 0..PAGES {
        let len = page_elements.min(end - block.len());
        if len < page_elements {
            break;
        }
        let slot = &mut block.spare_capacity_mut()[0];
        sampler.write(slot, MaybeUninit::zeroed());
        extend(block, len);
    }
    sampler.end();
    extend(block, end - block.len());
}

/// Elements from the begin of `slots` to the next page boundary, all of them where there is none inside.
pub(super) fn to_next_page<T>(slots: &[T]) -> usize {
    let begin = slots.as_ptr().addr();
    ((begin.next_multiple_of(page::size()) - begin) / size_of::<T>()).min(slots.len())
}

/// A private stock of untouched base pages, for workloads whose own blocks are too small to be told apart.
#[derive(Debug)]
pub(super) struct Probe {
    region: Option<Region>,
    next: usize,
}

impl Probe {
    /// A stock of `pages`; none where the kernel refuses.
    pub(super) fn new(pages: usize) -> Self {
        Self { region: Region::base_pages(pages * page::size(), page::size()).ok(), next: 0 }
    }

    /// Times `count` first touches, as long as the stock lasts.
    pub(super) fn touch(&mut self, sampler: &mut Sampler, count: usize) {
        let Some(region) = &mut self.region else { return };
        sampler.begin();
        for slot in region.bytes_mut().iter_mut().step_by(page::size()).skip(self.next).take(count) {
            sampler.write(slot, 1);
        }
        sampler.end();
        self.next += count;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timed_filling_writes_the_same_content() {
        // Beyond glibc's largest mmap threshold (32 MiB), so certainly new.
        const LEN: usize = (40 << 20) / 8;
        let (mut plain, mut timed) = (Vec::<u64>::new(), Vec::<u64>::with_capacity(LEN));
        let fill = |block: &mut Vec<u64>, count: usize| {
            let at = block.len() as u64;
            block.extend((0..count as u64).map(|index| at + index));
        };
        fill(&mut plain, LEN);
        let mut sampler = Sampler::new();
        extend_timed(&mut timed, LEN, &mut sampler, fill);
        assert!(plain == timed);
        // One fault where THP backs the block unasked.
        assert!((1..=PAGES).contains(&Truth::from(sampler).len()), "the block was new");
    }

    #[test]
    fn small_blocks_are_filled_untimed() {
        let mut block = Vec::<u8>::with_capacity(10);
        extend_timed(&mut block, 10, &mut Sampler::new(), |block, n| block.resize(block.len() + n, 3));
        assert_eq!(block, [3; 10]);
    }

    #[test]
    fn the_probe_gives_one_sample_per_page_until_it_is_used_up() {
        let (mut probe, mut sampler) = (Probe::new(6), Sampler::new());
        for _ in 0..4 {
            probe.touch(&mut sampler, 2);
        }
        assert_eq!(Truth::from(sampler).len(), 6);
    }
}
