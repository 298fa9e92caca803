//! A large block that the program hardly touches costs little: to retain, and to zero again.
use faultless_pool::{Kernel, Page, Policy, Pool, Scrub};

use crate::all_are;

const MIB: usize = 1 << 20;

fn pool(page: Page) -> Pool<Kernel> {
    Pool::open(Kernel::default(), Policy { page, ..Policy::default() }).unwrap()
}

/// Makes a zeroed block and touches only its ends.
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
    assert_eq!((stats.retained_bytes, stats.untouched_bytes as usize), (0, 64 * MIB), "nor is so little");
    sparse(&pool, 64 * MIB);
    assert_eq!(pool.stats().cleared_bytes, 0, "it is zero already");
}

fn of_secrets() -> Pool<Kernel> {
    let policy = Policy { page: Page::Base, scrub: Scrub::OnFree, ..Policy::default() };
    Pool::open(Kernel::default(), policy).unwrap()
}

#[test]
fn a_block_that_shrinks_is_wiped_where_its_end_was_written() {
    let pool = of_secrets();
    let mut block = pool.alloc(64 * MIB).unwrap();
    (block[0], block[40 * MIB]) = (1, 7);
    assert!(block.resize(MIB));
    let stats = pool.stats();
    assert_eq!((stats.retained_bytes, stats.scrubbed_bytes), (0, 0), "it went back");
    assert!(block.resize(MIB / 2));
    assert_eq!(pool.stats().scrubbed_bytes as usize, MIB / 2, "of little nobody asks what was touched");
    assert!(all_are(&pool.alloc(63 * MIB).unwrap(), 0));
    assert_eq!(block[0], 1);
}

#[test]
fn where_a_block_was_copied_from_nothing_stays() {
    let pool = of_secrets();
    let mut block = pool.alloc(8 * MIB).unwrap();
    let _behind = pool.alloc(MIB);
    (block[0], block[8 * MIB - 1]) = (1, 7);
    assert!(block.resize(16 * MIB));
    let stats = pool.stats();
    assert_eq!((stats.grown_by_copy, stats.retained_bytes, stats.scrubbed_bytes), (1, 0, 0));
    assert!(all_are(&pool.alloc(8 * MIB).unwrap(), 0));
    assert_eq!((block[0], block[8 * MIB - 1]), (1, 7));
}

#[test]
fn a_secret_is_wiped_where_it_was_written_and_nothing_else_becomes_resident() {
    let pool = of_secrets();
    let mut block = pool.alloc(64 * MIB).unwrap();
    block[40 * MIB..41 * MIB].fill(7);
    drop(block);
    assert_eq!((pool.stats().retained_bytes, pool.stats().scrubbed_bytes), (MIB, MIB as u64));
    assert!(all_are(&pool.alloc(64 * MIB).unwrap(), 0));
}

#[test]
fn many_short_gaps_cost_no_calls() {
    let pool = pool(Page::Base);
    let mut block = pool.alloc(64 * MIB).unwrap();
    for at in (0..64 * MIB).step_by(32 << 10) {
        (block[at], block[at + (4 << 10)]) = (7, 7);
    }
    drop(block);
    assert_eq!((pool.stats().untouched_bytes, pool.stats().retained_bytes), (0, 64 * MIB));
    assert!(all_are(&pool.alloc_zeroed(64 * MIB).unwrap(), 0));
}

#[test]
fn a_block_that_was_touched_all_over_is_kept_and_zeroed() {
    let pool = pool(Page::Thp);
    pool.alloc(16 * MIB).unwrap().fill(7);
    assert_eq!((pool.stats().retained_bytes, pool.stats().untouched_bytes), (16 * MIB, 0));
    let zeroed = pool.alloc_zeroed(16 * MIB).unwrap();
    assert!(all_are(&zeroed, 0));
    assert_eq!((pool.stats().cleared_bytes as usize, pool.stats().renewed_bytes), (16 * MIB, 0));
}

#[test]
fn where_blocks_are_hardly_touched_dirty_pages_are_given_back_instead_of_zeroed() {
    let pool = pool(Page::Thp);
    let mut dirty = pool.alloc(16 * MIB).unwrap();
    dirty.fill(7);
    drop(dirty);
    let dirty = pool.alloc(16 * MIB).unwrap();
    for _ in 0..5 {
        let block = pool.alloc_zeroed(16 * MIB).unwrap();
        assert_eq!(block[8 * MIB], 0);
    }
    drop(dirty);
    let before = pool.stats().renewed_bytes;
    let zeroed = pool.alloc_zeroed(16 * MIB).unwrap();
    assert_eq!((pool.stats().renewed_bytes - before) as usize, 16 * MIB);
    assert!(all_are(&zeroed, 0));
}

#[test]
fn large_zeroed_memory_is_not_resident_before_it_is_touched() {
    let pool = pool(Page::Base);
    pool.alloc(64 * MIB).unwrap().fill(7);
    let zeroed = pool.alloc_zeroed(64 * MIB).unwrap();
    assert!(all_are(&zeroed[..MIB], 0));
    let stats = pool.stats();
    assert_eq!((stats.cleared_bytes, stats.fresh), (0, 2));
    assert!(stats.retained_bytes <= 16 * MIB, "what it did not take is more than was ever needed");
}
