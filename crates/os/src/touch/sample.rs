//! Times first touches inside a program's own blocks.
//!
//! In: a slot and a value to store. Out: ticks of the stores that faulted. `getrusage(RUSAGE_THREAD)` counts
//! the faults around a batch. Of n timed stores with f faults the f slowest are kept, because a fault costs
//! at least ten times a store to a resident page. So resident pages drop out, with or without THP.

use std::cmp::Ordering;

use crate::counters::{self, Who};

/// Stores `value`, and returns how many ticks that took, including a page fault.
///
/// The store is volatile, so the compiler can't move it out of the interval. A fault is precise: the
/// processor repeats what follows the store, including the second reading.
#[inline]
pub fn time_write<T: Copy>(slot: &mut T, value: T) -> u64 {
    let begin = counters::tick();
    // SAFETY: `slot` is an exclusive reference, so valid and aligned for a write.
    unsafe { std::ptr::write_volatile(slot, value) };
    counters::tick().wrapping_sub(begin)
}

/// Loads from `slot`, and returns how many ticks that took, including a page fault. As [`time_write`].
#[inline]
pub fn time_read<T: Copy>(slot: &T) -> u64 {
    let begin = counters::tick();
    // SAFETY: `slot` is a reference, so valid, aligned and initialised for a read; T is Copy.
    std::hint::black_box(unsafe { std::ptr::read_volatile(slot) });
    counters::tick().wrapping_sub(begin)
}

/// The overhead in the results of [`time_write`] and [`time_read`]: the median of 1001 empty intervals, in
/// ticks. Subtract it from single times.
pub fn empty_ticks() -> u64 {
    let mut empty = [0_u64; 1001];
    for ticks in &mut empty {
        let begin = counters::tick();
        *ticks = counters::tick().wrapping_sub(begin);
    }
    empty.sort_unstable();
    empty[empty.len() / 2]
}

/// Samples kept by one [`Sampler`]. Beyond that, every second one is dropped and the rate halves. At 4 bytes
/// each this stays below glibc's mmap threshold, so the sampler does not disturb what it measures.
const KEPT: usize = 16 * 1024;

/// Timed stores in one batch at most.
const BATCH: usize = 256;

/// Collects first-touch times of one thread.
///
/// ```
/// use faultless_os::touch::Sampler;
/// let mut sampler = Sampler::new();
/// let mut block = vec![0_u8; 1 << 20];
/// sampler.begin();
/// for slot in block.iter_mut().step_by(faultless_os::page::size()).take(16) {
///     sampler.write(slot, 1);
/// }
/// sampler.end();
/// assert!(sampler.ticks().len() <= 16);
/// ```
#[derive(Debug)]
pub struct Sampler {
    kept: Vec<u32>,
    batch: Vec<u32>,
    /// The same, for [`Sampler::end`].
    sorted: Vec<u32>,
    faults_before: Option<u64>,
    /// One sample in `stride` is kept.
    stride: usize,
    seen: usize,
}

impl Default for Sampler {
    fn default() -> Self {
        Self::new()
    }
}

impl Sampler {
    /// An empty sampler. Allocates everything in advance.
    pub fn new() -> Self {
        Self {
            kept: Vec::with_capacity(KEPT),
            batch: Vec::with_capacity(BATCH),
            sorted: Vec::with_capacity(BATCH),
            faults_before: None,
            stride: 1,
            seen: 0,
        }
    }

    /// Starts a batch.
    pub fn begin(&mut self) {
        self.batch.clear();
        self.faults_before = thread_faults();
    }

    /// Stores `value` in `slot`, and records the time while the batch has room.
    #[inline]
    pub fn write<T: Copy>(&mut self, slot: &mut T, value: T) {
        let ticks = time_write(slot, value);
        if self.batch.len() < BATCH {
            self.batch.push(u32::try_from(ticks).unwrap_or(u32::MAX));
        }
    }

    /// Ends the batch: keeps as many of its slowest times as there were faults, in their order.
    ///
    /// Keep the caller's own faults out of a batch: they would let fast stores in.
    pub fn end(&mut self) {
        let (Some(before), Some(after)) = (self.faults_before.take(), thread_faults()) else { return };
        self.keep_faults(after - before);
    }

    /// Every second one of a sorted batch would be the same ranks again and again, so they stay in order.
    fn keep_faults(&mut self, faults: u64) {
        let fast = (self.batch.len() as u64).saturating_sub(faults) as usize;
        self.sorted.clear();
        self.sorted.extend_from_slice(&self.batch);
        self.sorted.sort_unstable();
        let Some(&slowest_fast) = fast.checked_sub(1).and_then(|last| self.sorted.get(last)) else {
            return (0..self.batch.len()).for_each(|index| self.keep(self.batch[index]));
        };
        // Among equal times it does not matter which one is kept.
        let mut equal_fast = self.sorted[..fast].iter().filter(|ticks| **ticks == slowest_fast).count();
        for index in 0..self.batch.len() {
            match self.batch[index].cmp(&slowest_fast) {
                Ordering::Less => {}
                Ordering::Equal if equal_fast > 0 => equal_fast -= 1,
                _ => self.keep(self.batch[index]),
            }
        }
    }

    /// The times kept so far, in ticks.
    pub fn ticks(&self) -> &[u32] {
        &self.kept
    }

    fn keep(&mut self, ticks: u32) {
        self.seen += 1;
        if !self.seen.is_multiple_of(self.stride) {
            return;
        }
        if self.kept.len() == KEPT {
            let mut index = 0;
            self.kept.retain(|_| {
                index += 1;
                index % 2 == 0
            });
            self.stride *= 2;
        }
        self.kept.push(ticks);
    }
}

fn thread_faults() -> Option<u64> {
    counters::rusage(Who::Thread).ok().map(|usage| usage.minor_faults)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::page;
    use crate::touch::Region;

    #[test]
    fn resident_pages_are_excluded() {
        let mut region = Region::base_pages(64 * page::size(), page::size()).unwrap();
        region.bytes_mut()[..32 * page::size()].fill(1);
        let mut sampler = Sampler::new();
        sampler.begin();
        for slot in region.bytes_mut().iter_mut().step_by(page::size()) {
            sampler.write(slot, 1);
        }
        sampler.end();
        assert!((32..40).contains(&sampler.ticks().len()), "{}", sampler.ticks().len());
    }

    #[test]
    fn of_a_batch_the_slowest_are_kept_in_their_order() {
        let kept = |ticks: &[u32], faults: u64| {
            let mut sampler = Sampler { batch: ticks.to_vec(), ..Sampler::new() };
            sampler.keep_faults(faults);
            sampler.kept
        };
        assert_eq!(kept(&[9, 1, 8, 1, 7], 3), [9, 8, 7]);
        assert_eq!(kept(&[9, 1, 8, 1, 7], 9), [9, 1, 8, 1, 7], "more faults than stores");
        assert_eq!(kept(&[5, 5, 5, 5], 1), [5]);
        assert_eq!(kept(&[5, 5, 5, 6], 0), []);
        assert_eq!(kept(&[], 2), []);
    }

    #[test]
    fn sampler_never_grows_and_keeps_the_whole_span() {
        let mut sampler = Sampler::new();
        for ticks in 0..(3 * KEPT as u32) {
            sampler.keep(ticks);
        }
        assert!(sampler.ticks().len() <= KEPT);
        assert_eq!(sampler.kept.capacity(), KEPT);
        assert!(sampler.ticks()[10] < 100, "early ones are still there");
        assert!(*sampler.ticks().last().unwrap() > 2 * KEPT as u32, "late ones are there");
    }
}
