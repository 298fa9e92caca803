//! Reclaim and work ahead of need: purging idle memory, zeroing, populating, prewarming.

use faultless_pool::{Fake, Memory, Policy, Pool, Retain, tuning};

use crate::all_are;

const SLAB: usize = tuning::SLAB_BYTES;

fn pool(slabs: usize) -> Pool<Fake> {
    Pool::open(Fake::new(slabs), Policy::default()).unwrap()
}

/// Leaves memory that was used and is free.
fn leave_idle<B: Memory>(pool: &Pool<B>, len: usize) {
    pool.alloc(len).unwrap().fill(1);
}

#[cfg_attr(miri, ignore = "more memory than Miri likes")]
#[test]
fn only_what_a_whole_window_did_not_need_is_idle() {
    let pool = pool(4);
    leave_idle(&pool, 3 * SLAB);
    assert_eq!(pool.idle_since_last_call(), 0, "it came in this window");
    leave_idle(&pool, SLAB);
    assert_eq!(pool.idle_since_last_call(), 2 * SLAB, "one slab was needed in between");
    assert_eq!(pool.idle_since_last_call(), 3 * SLAB);
    assert_eq!(pool.purge_idle(2 * SLAB), 2 * SLAB);
    assert_eq!((pool.stats().retained_bytes, pool.idle_since_last_call()), (SLAB, SLAB));
}

#[test]
fn the_slab_unused_for_longest_goes_first() {
    let pool = pool(4);
    let mut blocks = [(); 3].map(|()| pool.alloc(SLAB).unwrap());
    blocks.iter_mut().for_each(|block| block.fill(1));
    let [first, second, third] = blocks;
    let freed_first = second.as_ptr();
    drop(second);
    drop((first, third));
    assert_eq!(pool.purge_idle(1), SLAB);
    let kept = [pool.alloc(SLAB).unwrap(), pool.alloc(SLAB).unwrap()];
    assert!(kept.iter().all(|block| block.as_ptr() != freed_first), "the first freed is not resident");
    assert_eq!(pool.stats().fresh, 3, "and these two are");
}

#[cfg_attr(miri, ignore = "more memory than Miri likes")]
#[test]
fn a_scrubbed_block_is_handed_out_zeroed_without_zeroing_it_again() {
    let pool = pool(3);
    let mut blocks = [pool.alloc(SLAB).unwrap(), pool.alloc(SLAB).unwrap()];
    blocks.iter_mut().for_each(|block| block.fill(7));
    drop(blocks);
    pool.idle_since_last_call();
    assert_eq!(pool.scrub_step(usize::MAX), SLAB, "a slab at a time");
    let dirty = pool.alloc(SLAB).unwrap();
    assert_eq!(pool.stats().zeroed_bytes, SLAB, "who needs no zeroes takes the dirty one");
    let zeroed = pool.alloc_zeroed(SLAB).unwrap();
    assert!(zeroed.iter().step_by(1 << 10).all(|&byte| byte == 0));
    assert_eq!((pool.stats().cleared_bytes, pool.stats().zeroed_hits), (0, 1));
    assert_eq!(pool.scrub_step(usize::MAX), 0, "nothing is left");
    drop((dirty, zeroed));
}

#[test]
fn runs_in_partly_used_slabs_are_scrubbed_too() {
    let pool = pool(1);
    let blocks: Vec<_> = (0..4).map(|_| pool.alloc(tuning::GRANULE_BYTES * 8).unwrap()).collect();
    let [_first, mut second, _third, fourth] = <[_; 4]>::try_from(blocks).ok().unwrap();
    second.fill(9);
    drop((second, fourth));
    assert_eq!(pool.scrub_step(usize::MAX), 0, "what was freed a moment ago stays as it is");
    pool.idle_since_last_call();
    assert_eq!(pool.scrub_step(usize::MAX) + pool.scrub_step(usize::MAX), 16 * tuning::GRANULE_BYTES);
    assert!(
        pool.alloc_zeroed(tuning::GRANULE_BYTES * 8).unwrap().iter().step_by(1 << 10).all(|&byte| byte == 0)
    );
    assert_eq!(pool.stats().cleared_bytes, 0);
}

#[cfg_attr(miri, ignore = "more memory than Miri likes")]
#[test]
fn the_stock_fills_to_its_high_mark_and_waits_for_the_low_one() {
    let pool = pool(64);
    let fill = || std::iter::from_fn(|| Some(pool.stock_step(4 * SLAB, 20 * SLAB)).filter(|&n| n > 0)).sum();
    let filled: usize = fill();
    assert_eq!(filled, 20 * SLAB);
    let blocks: Vec<_> = (0..15).map(|_| pool.alloc_zeroed(SLAB).unwrap()).collect();
    assert_eq!((pool.stats().fresh, pool.stats().cleared_bytes), (0, 0));
    assert_eq!(pool.stock_step(4 * SLAB, 20 * SLAB), 0, "5 slabs are enough");
    let _two = pool.alloc(2 * SLAB);
    assert_eq!(fill(), 17 * SLAB);
    drop(blocks);
}

#[cfg_attr(miri, ignore = "more memory than Miri likes")]
#[test]
fn prewarmed_memory_is_resident_and_outlives_a_free() {
    let pool = pool(80);
    let bytes = 70 * SLAB;
    let populated = pool.prewarm(bytes);
    assert_eq!((populated.asked, populated.resident), (bytes, bytes));
    leave_idle(&pool, SLAB);
    assert_eq!(pool.stats().retained_bytes, bytes);
    assert_eq!(pool.stats().fresh, 0);
}

#[cfg_attr(miri, ignore = "more memory than Miri likes")]
#[test]
fn no_more_is_prewarmed_than_may_be_kept() {
    let retain = Retain { bytes: 8 * SLAB, ..Retain::default() };
    let pool = Pool::open(Fake::new(40), Policy { retain, ..Policy::default() }).unwrap();
    let populated = pool.prewarm(30 * SLAB);
    assert_eq!((populated.asked, populated.resident), (6 * SLAB, 6 * SLAB), "and two slabs are the front's");
    pool.purge_to_bound();
    assert_eq!((pool.stats().retained_bytes, pool.stats().purges), (6 * SLAB, 0));
    assert_eq!(pool.prewarm(SLAB).asked, 0, "so much is kept already");
}

#[test]
fn a_populate_that_did_nothing_is_seen_and_counted() {
    let fake = Fake::new(4);
    fake.ignore_populate();
    let pool = Pool::open(fake, Policy::default()).unwrap();
    let populated = pool.prewarm(3 * SLAB);
    assert_eq!((populated.asked, populated.resident), (3 * SLAB, 0));
    assert_eq!((pool.stats().populate_missing_bytes, pool.stats().retained_bytes), (3 * SLAB as u64, 0));
    assert_eq!(pool.stock_step(SLAB, SLAB), 0);
}

#[cfg_attr(miri, ignore = "more memory than Miri likes")]
#[test]
fn what_is_free_beside_a_block_goes_back_too() {
    let pool = pool(9);
    let blocks: Vec<_> = (0..72).map(|_| pool.alloc(SLAB / 8).unwrap()).collect();
    let (kept, freed): (Vec<_>, Vec<_>) =
        blocks.into_iter().enumerate().partition(|(at, _)| at.is_multiple_of(8));
    drop(freed);
    assert_eq!(pool.stats().retained_bytes, 63 * SLAB / 8);
    assert_eq!(pool.purge_idle(usize::MAX), 63 * SLAB / 8);
    assert_eq!((pool.stats().retained_bytes, pool.stats().in_use_bytes), (0, 9 * SLAB / 8));
    drop(kept);
}

#[cfg_attr(miri, ignore = "more memory than Miri likes")]
#[test]
fn wholly_free_slabs_go_before_parts() {
    let pool = pool(4);
    let filled = |len| {
        let mut block = pool.alloc(len).unwrap();
        block.fill(1);
        block
    };
    let [kept, freed, whole] = [SLAB / 2, SLAB / 2, SLAB].map(filled);
    drop(freed);
    drop(whole);
    assert_eq!((pool.purge_idle(1), pool.purge_idle(1), pool.purge_idle(1)), (SLAB, SLAB / 2, 0));
    drop(kept);
}

#[cfg_attr(miri, ignore = "more memory than Miri likes")]
#[test]
fn what_may_be_kept_bounds_every_state() {
    let policy = Policy { retain: Retain { bytes: 4 * SLAB, ..Default::default() }, ..Policy::default() };
    let pool = Pool::open(Fake::new(40), policy).unwrap();
    for len in [SLAB / 16, SLAB / 4, SLAB, 3 * SLAB] {
        let blocks: Vec<_> = (0..12).map(|_| pool.alloc(len).unwrap()).collect();
        let (kept, freed): (Vec<_>, Vec<_>) = blocks.into_iter().enumerate().partition(|(at, _)| at % 3 == 0);
        drop(freed);
        assert!(pool.stats().retained_bytes <= 4 * SLAB, "{len}");
        drop(kept);
        assert!(pool.stats().retained_bytes <= 4 * SLAB, "{len}");
    }
}

/// Checks free memory after the kernel refused to purge it: all of it is still there, and none of it counts as zero.
#[cfg(not(miri))]
fn stays_dirty(pool: &Pool<faultless_pool::Kernel>) {
    assert_eq!(pool.purge_idle(usize::MAX), 0);
    let stats = pool.stats();
    assert_eq!((stats.retained_bytes, stats.zeroed_bytes, stats.purged_bytes), (2 * SLAB, 0, 0));
    assert!(stats.purge_failures > 0);
    assert!(all_are(&pool.alloc_zeroed(2 * SLAB).unwrap(), 0));
    assert_eq!((pool.stats().cleared_bytes as usize, pool.stats().renewed_bytes), (2 * SLAB, 0));
}

#[cfg(not(miri))]
#[test]
fn what_the_kernel_does_not_take_back_stays_resident_and_dirty() {
    let base = Policy { page: faultless_pool::Page::Base, ..Policy::default() };
    let failing = faultless_pool::Failing { advise: 1, ..Default::default() };
    let pool = Pool::open(faultless_pool::Kernel::failing(failing), base).unwrap();
    leave_idle(&pool, 2 * SLAB);
    stays_dirty(&pool);
}
