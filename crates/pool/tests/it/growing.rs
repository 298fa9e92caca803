//! Growing blocks get room behind them. When they are gone, other blocks get the room.

use faultless_pool::tuning::SLAB_BYTES;
use faultless_pool::{Fake, Policy, Pool};

/// Grows a block until it has room. Each time a neighbour is in its way.
fn grown<'p>(pool: &'p Pool<Fake>, len: usize) -> faultless_pool::Block<'p, Fake> {
    let mut block = pool.alloc(SLAB_BYTES / 2).unwrap();
    let mut neighbours = Vec::new();
    let mut now = SLAB_BYTES / 2;
    while now < len {
        neighbours.push(pool.alloc(SLAB_BYTES / 2).unwrap());
        now = (now + now / 2).min(len);
        assert!(block.resize(now));
    }
    block
}

#[test]
fn the_room_of_blocks_that_are_gone_is_used_again() {
    let slabs = if cfg!(miri) { 16 } else { 100 };
    let pool = Pool::open(Fake::new(slabs), Policy::default()).unwrap();
    // Each round takes three slabs at least, so the range is too short for rooms that stay.
    for round in 0..if cfg!(miri) { 2 } else { 100 } {
        let first = grown(&pool, 3 * SLAB_BYTES);
        if round % 3 == 0 {
            let mut second = grown(&pool, 5 * SLAB_BYTES);
            drop(first);
            assert!(second.resize(2 * SLAB_BYTES) && second.resize(6 * SLAB_BYTES));
        }
    }
    assert_eq!(pool.stats().refused, 0);
    assert!(pool.alloc(slabs * SLAB_BYTES / 2).is_some(), "half of the range is still in one piece");
}

#[test]
#[cfg_attr(miri, ignore = "the fake's 800 MiB take minutes")]
fn a_live_block_keeps_its_room() {
    let pool = Pool::open(Fake::new(400), Policy::default()).unwrap();
    let mut first = grown(&pool, 3 * SLAB_BYTES);
    let others: Vec<_> = (0..20).map(|_| pool.alloc(SLAB_BYTES).unwrap()).collect();
    let second = grown(&pool, 3 * SLAB_BYTES);
    let before = pool.stats().grown_in_place;
    assert!(first.resize(10 * SLAB_BYTES));
    assert_eq!(pool.stats().grown_in_place, before + 1, "nobody is in its way");
    drop((others, second));
}
