//! Programs on hugetlb pages, which forbid some calls. If the machine's hugetlb pool is empty, they run on base pages.
use std::sync::Barrier;

use faultless_pool::tuning::{GRANULE_BYTES, HEAD_SLABS, SLAB_BYTES};
use faultless_pool::{Backend, Kernel, Page, Policy, Pool, Retain, Span};

use crate::all_are;

const HUGETLB: Policy = Policy {
    page: Page::Hugetlb,
    retain: Retain { bytes: 0, decay_ns: None },
    prefault: faultless_pool::Prefault::None,
    scrub: faultless_pool::Scrub::OnGet,
    prewarm: 0,
};

#[test]
fn a_part_of_a_hugetlb_page_is_not_given_back() {
    let kernel = Kernel::default();
    kernel.reserve(Page::Hugetlb).unwrap();
    kernel.extend(0, HEAD_SLABS + 2).unwrap();
    let offset = HEAD_SLABS * SLAB_BYTES;
    let purged = |offset, len| kernel.purge(Span { offset, len }).is_ok();
    assert!(!purged(offset, GRANULE_BYTES), "the kernel would say yes and do nothing");
    assert!(!purged(offset, SLAB_BYTES + GRANULE_BYTES));
    assert!(purged(offset, 2 * SLAB_BYTES));
    kernel.release();
}

#[test]
fn zeroed_memory_is_zero_after_less_than_a_page_was_freed() {
    let pool = Pool::open(Kernel::default(), HUGETLB).unwrap();
    let _head = pool.alloc(HEAD_SLABS * SLAB_BYTES).unwrap();
    let mut block = pool.alloc(SLAB_BYTES / 4).unwrap();
    let _neighbour = pool.alloc(SLAB_BYTES / 4).unwrap();
    block.fill(7);
    drop(block);
    assert!(all_are(&pool.alloc_zeroed(SLAB_BYTES / 4).unwrap(), 0));
}

#[test]
fn threads_that_need_more_of_the_range_at_once_lose_nothing() {
    for _ in 0..10 {
        let pool = Pool::open(Kernel::default(), HUGETLB).unwrap();
        let barrier = Barrier::new(4);
        let work = |tag: u8| {
            barrier.wait();
            let mut blocks: Vec<_> = (0..30).map(|_| pool.alloc(SLAB_BYTES / 2).unwrap()).collect();
            blocks.iter_mut().for_each(|block| block.fill(tag));
            assert!(blocks.iter().all(|block| all_are(block, tag)));
        };
        std::thread::scope(|scope| {
            for tag in 1..5 {
                let work = &work;
                scope.spawn(move || work(tag));
            }
        });
    }
}
