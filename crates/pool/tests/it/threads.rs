//! Many threads on one pool: blocks change hands, one thread frees twice, and reclaim runs meanwhile.
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::mpsc;

use faultless_pool::{Block, Kernel, Page, Policy, Pool, Prefault, Retain, ZeroedBlock};

const STEPS: usize = 400;

/// Every 4 KiB of a block begins with its tag.
fn mark(block: &mut Block<'_, Kernel>, tag: u8) {
    block.iter_mut().step_by(4096).for_each(|byte| *byte = tag);
}

fn check(block: &Block<'_, Kernel>, tag: u8) {
    assert!(block.iter().step_by(4096).all(|&byte| byte == tag), "another thread wrote into the block");
}

fn next(state: &mut u64) -> usize {
    *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    (*state >> 33) as usize
}

/// One thread's program. Blocks come from other threads and go to them, through channels.
fn work<'p>(
    pool: &'p Pool<Kernel>,
    number: u8,
    to: mpsc::Sender<(Block<'p, Kernel>, u8)>,
    from: mpsc::Receiver<(Block<'p, Kernel>, u8)>,
) {
    let mut random = u64::from(number) * 77 + 1;
    let mut live: Vec<(Block<'_, Kernel>, u8)> = Vec::new();
    for step in 0..STEPS {
        let tag = (step % 251) as u8 ^ number << 5;
        let len = match next(&mut random) % 8 {
            0 => 1 + next(&mut random) % (9 << 20),
            1..=3 => 640 << 10,
            _ => 1 + next(&mut random) % (300 << 10),
        };
        if live.len() < 6 {
            let zeroed = next(&mut random).is_multiple_of(3);
            let block =
                if zeroed { pool.alloc_zeroed(len).map(ZeroedBlock::into_block) } else { pool.alloc(len) };
            let mut block = block.expect("the range has room");
            assert!(!zeroed || block.iter().step_by(4096).all(|&byte| byte == 0), "not zero");
            mark(&mut block, tag);
            live.push((block, tag));
        }
        let which = next(&mut random) % live.len();
        match next(&mut random) % 8 {
            0 => {
                let (block, tag) = &mut live[which];
                let old = block.len();
                assert!(block.resize(len));
                let kept = block[..old.min(len)].iter().step_by(4096).all(|byte| byte == tag);
                assert!(kept, "resize lost content");
                mark(block, *tag);
            }
            1..=3 => to.send(live.swap_remove(which)).unwrap(),
            _ => {
                let (block, tag) = live.swap_remove(which);
                check(&block, tag);
            }
        }
        if let Ok((block, tag)) = from.try_recv() {
            check(&block, tag);
        }
    }
    drop(to);
    from.into_iter().for_each(|(block, tag)| check(&block, tag));
}

/// Four threads in a ring, and one that reclaims.
fn stress(policy: Policy) {
    let pool = Pool::open(Kernel::default(), policy).unwrap();
    let ended = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !ended.load(Relaxed) {
                pool.scrub_step(1 << 20);
                pool.stock_step(4 << 20, 8 << 20);
                let idle = pool.idle_since_last_call();
                pool.purge_idle(idle / 2);
                pool.purge_to_bound();
                std::thread::yield_now();
            }
        });
        let (mut sends, receives): (Vec<_>, Vec<_>) = (0..4).map(|_| mpsc::channel()).unzip();
        sends.rotate_left(1);
        let pool = &pool;
        let threads: Vec<_> = sends
            .into_iter()
            .zip(receives)
            .zip(0..)
            .map(|((to, from), number)| scope.spawn(move || work(pool, number, to, from)))
            .collect();
        let results: Vec<_> = threads.into_iter().map(|thread| thread.join()).collect();
        ended.store(true, Relaxed);
        assert!(results.iter().all(Result::is_ok), "a thread panicked");
    });
    let stats = pool.stats();
    assert_eq!((stats.in_use_bytes, stats.double_frees, stats.unknown_frees), (0, 0, 0));
    assert!(stats.retained_bytes <= policy.retain.bytes);
}

#[test]
fn blocks_change_hands_while_memory_is_reclaimed() {
    stress(Policy::default());
    stress(Policy { page: Page::Base, ..Policy::default() });
    stress(Policy {
        prefault: Prefault::Populate,
        retain: Retain { bytes: 8 << 20, ..Retain::default() },
        ..Policy::default()
    });
    stress(Policy { retain: Retain { bytes: 0, ..Retain::default() }, ..Policy::default() });
}

#[test]
fn of_threads_that_free_the_same_block_one_is_right_and_the_pool_is_whole() {
    let pool = Pool::open(Kernel::default(), Policy::default()).unwrap();
    let right = AtomicU64::new(0);
    for _ in 0..500 {
        let block = pool.alloc_raw(100 << 10, 1, false).unwrap().as_ptr() as usize;
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    // SAFETY: nobody uses the block; that it is freed twice is what the pool has to notice.
                    right.fetch_add(unsafe { pool.free_raw(block) }.into(), Relaxed);
                });
            }
        });
    }
    let stats = pool.stats();
    assert_eq!((right.into_inner(), stats.double_frees + stats.unknown_frees), (500, 500));
    assert_eq!(stats.in_use_bytes, 0);
    let (first, second) = (pool.alloc(100 << 10).unwrap(), pool.alloc(100 << 10).unwrap());
    assert_ne!(first.as_ptr(), second.as_ptr());
}

#[test]
fn what_is_no_block_is_told_and_counted() {
    let pool = Pool::open(Kernel::default(), Policy::default()).unwrap();
    let block = pool.alloc_raw(100 << 10, 1, false).unwrap().as_ptr() as usize;
    let (base, len) = pool.range();
    for address in [block + 1, block + (16 << 10), base + len - (16 << 10), base + len, 0] {
        // SAFETY: no block begins there, so nothing is freed.
        assert!(!unsafe { pool.free_raw(address) }, "{address:#x}");
    }
    assert_eq!(pool.stats().unknown_frees, 5);
    assert_eq!(pool.len_raw(block), Some(112 << 10));
}
