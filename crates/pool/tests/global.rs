//! `Global` as this program's own allocator: large blocks come from the pool, and keep content and alignment.
//!
//! Guards against: blocks freed to the wrong allocator, content lost when a block crosses the threshold, memory that is
//! not zero, and a child of `fork` that waits for a lock of a missing thread.

#![cfg(not(miri))]

mod child;

use std::alloc::{Layout, alloc, alloc_zeroed, dealloc, realloc};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use faultless_pool::tuning::THRESHOLD_BYTES;
use faultless_pool::{Global, Kernel, Pool, process};

use child::in_child;

#[global_allocator]
static GLOBAL: Global = Global::new();

fn in_pool(start: *const u8) -> bool {
    process::opened().is_some_and(|pool| pool.len_raw(start.addr()).is_some())
}

/// Waits until the pool is open. While one test opens it, the blocks of other tests come from the system.
fn opened() -> &'static Pool<Kernel> {
    while process::pool(process::policy).is_none() {
        std::thread::yield_now();
    }
    process::opened().unwrap()
}

#[test]
fn only_large_blocks_come_from_the_pool() {
    opened();
    let (small, large) = (vec![1_u8; THRESHOLD_BYTES - 1], vec![1_u8; THRESHOLD_BYTES]);
    assert!(!in_pool(small.as_ptr()));
    assert!(in_pool(large.as_ptr()));
}

#[test]
fn content_survives_every_crossing_of_the_threshold() {
    opened();
    let mut bytes: Vec<u8> = (0..100_u8).collect();
    for len in [50 << 10, 64 << 10, 3 << 20, 40 << 10, 33 << 10, 31 << 10, 9 << 20, 100] {
        bytes.resize(len, 7);
        bytes.shrink_to_fit();
        assert!(bytes.iter().copied().take(100).eq(0..100), "{len}");
        assert!(bytes.iter().skip(100).all(|&byte| byte == 7), "{len}");
        let expected =
            (len >= THRESHOLD_BYTES).then_some(true).or((len < THRESHOLD_BYTES / 2).then_some(false));
        assert!(expected.is_none_or(|expected| in_pool(bytes.as_ptr()) == expected), "{len}");
    }
}

#[test]
fn alignments_up_to_many_slabs_are_kept_by_realloc() {
    opened();
    for log2 in [3, 12, 15, 20, 22, 24] {
        let layout = Layout::from_size_align(THRESHOLD_BYTES, 1 << log2).unwrap();
        // SAFETY: the layout is not empty.
        let first = unsafe { alloc(layout) };
        assert!(first.addr().is_multiple_of(layout.align()) && in_pool(first), "{log2}");
        // SAFETY: the block has these bytes.
        unsafe { first.write_bytes(9, THRESHOLD_BYTES) };
        // SAFETY: handed out with this layout.
        let second = unsafe { realloc(first, layout, 5 << 20) };
        assert!(second.addr().is_multiple_of(layout.align()), "{log2}");
        // SAFETY: the block has 5 MiB, the first of them copied.
        let kept = unsafe { std::slice::from_raw_parts(second, THRESHOLD_BYTES) };
        assert!(kept.iter().all(|&byte| byte == 9), "{log2}");
        // SAFETY: handed out with this layout.
        unsafe { dealloc(second, Layout::from_size_align(5 << 20, layout.align()).unwrap()) };
    }
}

#[test]
fn zeroed_memory_is_zero_where_dirty_memory_was() {
    let layout = Layout::from_size_align(300 << 10, 8).unwrap();
    for _ in 0..4 {
        // SAFETY: the layout is not empty.
        let block = unsafe { alloc_zeroed(layout) };
        // SAFETY: the block has these bytes, and they are initialised.
        let bytes = unsafe { std::slice::from_raw_parts_mut(block, layout.size()) };
        assert!(bytes.iter().all(|&byte| byte == 0));
        bytes.fill(0xaa);
        // SAFETY: handed out with this layout.
        unsafe { dealloc(block, layout) };
    }
}

#[test]
fn blocks_may_be_freed_by_other_threads() {
    let blocks: Vec<_> = (0..64).map(|at| vec![at as u8; 80 << 10]).collect();
    std::thread::scope(|scope| {
        for block in blocks {
            scope.spawn(move || assert!(block.iter().all(|&byte| byte == block[0])));
        }
    });
}

#[test]
fn a_child_of_fork_can_allocate_whatever_other_threads_were_doing() {
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while !done.load(Relaxed) {
                    std::hint::black_box(vec![1_u8; 70 << 10]);
                }
            });
        }
        for _ in 0..100 {
            let status = in_child(|| vec![3_u8; 200 << 10].iter().all(|&byte| byte == 3));
            assert_eq!(status, 0, "the child ended well");
        }
        done.store(true, Relaxed);
    });
}
