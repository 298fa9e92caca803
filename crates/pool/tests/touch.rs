//! Large blocks of which the program touches little cost little: to keep, and to make zero again.
#![cfg(not(miri))]

use faultless_pool::{Kernel, Page, Policy, Pool, Scrub};

const MIB: usize = 1 << 20;

fn pool(page: Page) -> Pool<Kernel> {
    Pool::open(Kernel::default(), Policy { page, ..Policy::default() }).unwrap()
}

/// A zeroed block of which only the ends are touched.
fn sparse(pool: &Pool<Kernel>, len: usize) {
    let mut block = pool.alloc_zeroed(len).unwrap().into_block();
    assert!(block.iter().step_by(2 * MIB).all(|&byte| byte == 0));
    (block[0], block[len - 1]) = (1, 1);
}

#[test]
fn what_was_never_touched_is_not_kept() {
    let pool = pool(Page::Base);
    let mut block = pool.alloc(64 * MIB).unwrap();
    (block[0], block[64 * MIB - 1]) = (1, 1);
    drop(block);
    let stats = pool.stats();
    assert_eq!(stats.retained_bytes, 2 * (16 << 10));
    assert_eq!(stats.untouched_bytes as usize, 64 * MIB - 2 * (16 << 10));
    sparse(&pool, 64 * MIB);
    assert_eq!(pool.stats().cleared_bytes, 2 * (16 << 10), "the rest is zero already");
}

#[test]
fn what_was_never_touched_is_not_overwritten_either() {
    let policy = Policy { page: Page::Base, scrub: Scrub::OnFree, ..Policy::default() };
    let pool = Pool::open(Kernel::default(), policy).unwrap();
    let mut block = pool.alloc(64 * MIB).unwrap();
    block[MIB] = 7;
    let start = block.as_ptr();
    drop(block);
    assert_eq!(pool.stats().retained_bytes, 16 << 10);
    let again = pool.alloc(64 * MIB).unwrap();
    assert!(again.as_ptr() == start && again[MIB] == 0);
}

#[test]
fn a_block_that_was_touched_all_over_is_kept_and_zeroed() {
    let pool = pool(Page::Thp);
    pool.alloc(64 * MIB).unwrap().fill(7);
    assert_eq!((pool.stats().retained_bytes, pool.stats().untouched_bytes), (64 * MIB, 0));
    let zeroed = pool.alloc_zeroed(64 * MIB).unwrap();
    assert!(zeroed.iter().all(|&byte| byte == 0));
    assert_eq!((pool.stats().cleared_bytes as usize, pool.stats().renewed_bytes), (64 * MIB, 0));
}

#[test]
fn where_blocks_are_hardly_touched_dirty_pages_are_given_back_instead_of_zeroed() {
    let pool = pool(Page::Thp);
    let mut dirty = pool.alloc(64 * MIB).unwrap();
    dirty.fill(7);
    drop(dirty);
    let dirty = pool.alloc(64 * MIB).unwrap();
    for _ in 0..5 {
        let block = pool.alloc_zeroed(64 * MIB).unwrap();
        assert_eq!(block[32 * MIB], 0);
    }
    drop(dirty);
    let before = pool.stats().renewed_bytes;
    let zeroed = pool.alloc_zeroed(64 * MIB).unwrap();
    assert_eq!((pool.stats().renewed_bytes - before) as usize, 64 * MIB);
    assert!(zeroed.iter().all(|&byte| byte == 0));
}
