//! Size classes: bytes to granules, and runs of granules inside one slab by mask arithmetic.
//!
//! In: a length, or a mask with one bit per granule of a slab. Out: counts and masks. Pure.
//!
//! Searching a mask for `k` ones in a row takes log2(k) shifts and ands. The position is a count of trailing zeros.

use crate::tuning::{GRANULE_BYTES, SLAB_GRANULES};

/// A run of granules: the first one, and how many.
pub(crate) type Run = (usize, usize);

/// The granules that `len` bytes take; at least one. `None` if no range could hold them.
pub(crate) fn granules(len: usize) -> Option<usize> {
    if len > isize::MAX as usize {
        return None;
    }
    Some(len.div_ceil(GRANULE_BYTES).max(1))
}

/// The granule that begins at an offset in bytes; `None` if none does.
pub(crate) fn granule_at(offset: usize) -> Option<usize> {
    offset.is_multiple_of(GRANULE_BYTES).then_some(offset / GRANULE_BYTES)
}

/// The part of a run in each of its slabs, as (slab, first granule in it, count).
pub(crate) fn pieces((start, count): Run) -> impl Iterator<Item = (usize, usize, usize)> {
    let end = start + count;
    let mut at = start;
    std::iter::from_fn(move || {
        if at >= end {
            return None;
        }
        let (slab, first) = (at / SLAB_GRANULES, at % SLAB_GRANULES);
        let len = (SLAB_GRANULES - first).min(end - at);
        at += len;
        Some((slab, first, len))
    })
}

/// A mask of `count` ones from bit `first` on, without the bits past the slab.
pub(crate) fn run(first: usize, count: usize) -> u128 {
    let ones = if count >= SLAB_GRANULES { u128::MAX } else { (1 << count) - 1 };
    if first >= SLAB_GRANULES { 0 } else { ones << first }
}

/// The bits at which a run of `count` ones begins.
pub(crate) fn starts(mask: u128, count: usize) -> u128 {
    if count > SLAB_GRANULES {
        return 0;
    }
    let (mut starts, mut have) = (mask, 1);
    while have < count {
        let step = have.min(count - have);
        starts &= starts >> step;
        have += step;
    }
    starts
}

/// The length of the longest run of ones.
pub(crate) fn longest(mask: u128) -> usize {
    let (mut starts, mut have) = (mask, (mask != 0) as usize);
    while (1..SLAB_GRANULES).contains(&have) {
        let longer = starts & (starts >> have);
        if longer == 0 {
            break;
        }
        starts = longer;
        have *= 2;
    }
    let mut step = have / 2;
    while step > 0 {
        let longer = starts & (starts >> step);
        if longer != 0 {
            starts = longer;
            have += step;
        }
        step /= 2;
    }
    have.min(SLAB_GRANULES)
}

/// The granules of a slab that are aligned to `align` granules (a power of two).
pub(crate) fn aligned(align: usize) -> u128 {
    match align {
        0 | 1 => u128::MAX,
        2 => u128::MAX / 3,
        4 => u128::MAX / 15,
        8 => u128::MAX / 255,
        16 => u128::MAX / 0xffff,
        32 => u128::MAX / 0xffff_ffff,
        64 => u128::MAX / 0xffff_ffff_ffff_ffff,
        _ => 1,
    }
}

/// The runs of ones in a mask, as (first, count), lowest first.
pub(crate) fn runs(mut mask: u128) -> impl Iterator<Item = (usize, usize)> {
    std::iter::from_fn(move || {
        if mask == 0 {
            return None;
        }
        let first = mask.trailing_zeros() as usize;
        let count = (!(mask >> first)).trailing_zeros() as usize;
        mask &= !run(first, count);
        Some((first, count))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn naive_starts(mask: u128, count: usize) -> u128 {
        (0..=128 - count)
            .filter(|&at| mask & run(at, count) == run(at, count))
            .fold(0, |found, at| found | 1 << at)
    }

    fn masks() -> impl Iterator<Item = u128> {
        let mut state = 0x9e37_79b9_7f4a_7c15_u128;
        let rounds = if cfg!(miri) { 4 } else { 60 };
        (0..rounds).map(move |round| {
            state = state.wrapping_mul(0x2360_ed05_1fc6_5da4_4385_df64_9fcc_f645).wrapping_add(1);
            let mixed = state ^ (state >> 64);
            if round % 3 == 0 { mixed } else { mixed | mixed << 1 | mixed << 3 | mixed << 9 }
        })
    }

    #[test]
    fn starts_agree_with_looking_at_every_place() {
        for mask in masks().chain([0, 1, u128::MAX, u128::MAX << 1, 1 << 127]) {
            for count in [1, 2, 3, 4, 5, 7, 8, 15, 31, 40, 64, 100, 127, 128] {
                assert_eq!(starts(mask, count), naive_starts(mask, count), "{mask:#x} {count}");
            }
        }
    }

    #[test]
    fn the_longest_run_is_found() {
        for mask in masks().chain([1, u128::MAX, u128::MAX >> 1, u128::MAX >> 63, 0b0110, 0b111_0110]) {
            assert_eq!(Some(longest(mask)), runs(mask).map(|(_, count)| count).max(), "{mask:#x}");
        }
        assert_eq!(longest(0), 0);
    }

    #[test]
    fn runs_put_together_are_the_mask() {
        for mask in masks().chain([0, u128::MAX]) {
            assert_eq!(runs(mask).fold(0, |all, (first, count)| all | run(first, count)), mask);
        }
    }

    #[test]
    fn aligned_places_are_the_multiples() {
        for align in [1, 2, 4, 8, 16, 32, 64, 128] {
            let naive = (0..128).step_by(align).fold(0_u128, |mask, at| mask | 1 << at);
            assert_eq!(aligned(align), naive, "{align}");
        }
    }

    #[test]
    fn a_run_is_cut_at_slab_borders() {
        assert!(pieces((127, 130)).eq([(0, 127, 1), (1, 0, 128), (2, 0, 1)]));
    }

    #[test]
    fn lengths_round_up_and_absurd_ones_are_refused() {
        assert_eq!(granules(0), Some(1));
        assert_eq!(granules(GRANULE_BYTES), Some(1));
        assert_eq!(granules(GRANULE_BYTES + 1), Some(2));
        assert_eq!(granules(usize::MAX), None);
    }
}
