//! The price of a first touch inside the workload itself, from timed fills of a few of its own fresh pages.
//!
//! In: blocks that the workload is about to fill anyway. Out: median and mean of the touches that faulted. In
//! each part of a sampled block, a few pages in the middle are filled one by one, and the first store to each
//! is timed. The rest is filled as usual, so caches see the same traffic as in other blocks. A store by itself
//! takes less time than one within a long fill (1.46 and 1.76 us on one guest), so the price is of the timed touches
//! only. With `--all-touches` these are all.

use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use faultless_os::page;
use faultless_os::touch::{Region, Sampler, empty_ticks};
use faultless_trace::stat::WAIT_LATENCY_RATIO;

/// Pages timed in one part of a sampled block: 64 KiB on 4 KiB pages, short enough to end within a time
/// slice.
pub(super) const PAGES: usize = 16;
/// Pages in a part of a sampled block. Each part has one group of timed pages.
const PART_PAGES: usize = 512;

static ALL_ARE_TIMED: AtomicBool = AtomicBool::new(false);

/// From now on every touch is timed.
pub(super) fn time_all() {
    ALL_ARE_TIMED.store(true, Relaxed);
}

/// Pages in a part of a sampled block, of which [`PAGES`] are timed.
pub(super) fn part_pages() -> usize {
    if ALL_ARE_TIMED.load(Relaxed) { PAGES } else { PART_PAGES }
}

/// First-touch times of all threads of a workload, in ticks.
#[derive(Debug, Default)]
pub(super) struct Truth {
    ticks: Vec<u32>,
}

impl Truth {
    /// Adds the samples of one thread.
    pub(super) fn add(&mut self, sampler: &Sampler) {
        self.ticks.extend_from_slice(sampler.ticks());
    }

    /// Number of samples.
    pub(super) fn len(&self) -> usize {
        self.ticks.len()
    }

    /// The median in nanoseconds, without the cost of reading the counter.
    pub(super) fn p50_ns(&self, tick_ns: f64) -> Option<f64> {
        let mut ticks = self.ticks.clone();
        let middle = ticks.len() / 2;
        (!ticks.is_empty()).then(|| {
            let median = u64::from(*ticks.select_nth_unstable(middle).1);
            median.saturating_sub(empty_ticks()) as f64 * tick_ns
        })
    }

    /// The mean. A touch counts as at most [`WAIT_LATENCY_RATIO`] medians: beyond that the program was not
    /// running.
    pub(super) fn mean_ns(&self, tick_ns: f64) -> Option<f64> {
        let most = self.p50_ns(tick_ns)? * WAIT_LATENCY_RATIO;
        let empty = empty_ticks();
        let times = self.ticks.iter().map(|ticks| u64::from(*ticks).saturating_sub(empty) as f64 * tick_ns);
        Some(times.map(|ns| ns.min(most)).sum::<f64>() / self.ticks.len() as f64)
    }
}

impl From<Sampler> for Truth {
    fn from(sampler: Sampler) -> Self {
        Self { ticks: sampler.ticks().to_vec() }
    }
}

/// Appends `count` elements to `block`, by [`extend_timed`] if the block is sampled.
pub(super) fn extend<T: Copy>(
    block: &mut Vec<T>,
    count: usize,
    sampler: &mut Sampler,
    is_sampled: bool,
    mut extend: impl FnMut(&mut Vec<T>, usize),
) {
    if is_sampled || ALL_ARE_TIMED.load(Relaxed) {
        extend_timed(block, count, sampler, extend);
    } else {
        extend(block, count);
    }
}

/// Appends `count` elements to `block`. In the middle of each part of [`part_pages`], [`PAGES`] pages are
/// timed.
///
/// `extend` appends exactly the requested number of elements. The block must have the capacity already.
pub(super) fn extend_timed<T: Copy>(
    block: &mut Vec<T>,
    count: usize,
    sampler: &mut Sampler,
    mut extend: impl FnMut(&mut Vec<T>, usize),
) {
    let end = block.len() + count;
    debug_assert!(end <= block.capacity(), "the block is there before it is filled");
    let page_elements = page::size() / size_of::<T>();
    let part_pages = part_pages();
    while block.len() < end {
        let part_end = end.min(block.len() + part_pages * page_elements);
        extend(block, (part_end - block.len()).saturating_sub(PAGES * page_elements) / 2);
        let left = part_end - block.len();
        let to_page = to_next_page(&block.spare_capacity_mut()[..left]);
        extend(block, to_page);
        sampler.begin();
        for _ in 0..PAGES.min((part_end - block.len()) / page_elements) {
            let slot = &mut block.spare_capacity_mut()[0];
            sampler.write(slot, MaybeUninit::zeroed());
            extend(block, page_elements);
        }
        sampler.end();
        extend(block, part_end - block.len());
    }
}

/// Elements from the start of `slots` to the next page boundary, or all if there is none inside.
pub(super) fn to_next_page<T>(slots: &[T]) -> usize {
    let begin = slots.as_ptr().addr();
    ((begin.next_multiple_of(page::size()) - begin) / size_of::<T>()).min(slots.len())
}

/// A private stock of untouched base pages, for workloads whose own blocks are too small to sample.
#[derive(Debug)]
pub(super) struct Probe {
    region: Option<Region>,
    next: usize,
}

impl Probe {
    /// A stock of `pages`, or an empty one if the kernel refuses.
    pub(super) fn new(pages: usize) -> Self {
        Self { region: Region::base_pages(pages * page::size(), page::size()).ok(), next: 0 }
    }

    /// Times `count` first touches, while the stock lasts.
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
        // Larger than glibc's largest mmap threshold (32 MiB), so certainly new.
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
        // There may be only one fault if THP back the block.
        let parts = (LEN * 8).div_ceil(PART_PAGES * page::size());
        assert!((1..=PAGES * parts).contains(&Truth::from(sampler).len()), "the block was new");
    }

    #[test]
    fn the_mean_counts_a_wait_as_a_hundred_medians() {
        let empty = u32::try_from(empty_ticks()).unwrap();
        let mut ticks = vec![1_000_000 + empty; 99];
        ticks.push(u32::MAX);
        let mean_ns = Truth { ticks }.mean_ns(1.0).unwrap();
        // The cost of reading the counter varies by some ticks.
        assert!((mean_ns - 1_990_000.0).abs() < 10_000.0, "{mean_ns}");
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
