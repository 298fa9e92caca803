//! The background thread on the real kernel: it gives memory back while the program sleeps, and works ahead of need.
//!
//! Guards against: memory that stays, threads that stay, a stop that hangs, and work without an idle processor.

#![cfg(not(miri))]

use std::time::{Duration, Instant};

use faultless_pool::{Kernel, Page, Policy, Pool, Prefault, Retain, Scrub, tuning};

const MS: u64 = 1_000_000;
const SLAB: usize = tuning::SLAB_BYTES;

fn pool(policy: Policy) -> &'static Pool<Kernel> {
    Box::leak(Box::new(Pool::open(Kernel::default(), policy).unwrap()))
}

fn decaying(decay_ms: u64) -> Policy {
    Policy { retain: Retain { decay_ns: Some(decay_ms * MS), ..Retain::default() }, ..Policy::default() }
}

/// Soon enough to wait for it.
const QUICK_MS: u64 = 200;
/// Longer than any test: the thread stays where there is something to give back.
const SLOW_MS: u64 = 3_600_000;
/// Longer than a busy machine keeps anybody waiting.
const LONG: Duration = Duration::from_secs(120);

/// Writes and frees so many slabs.
fn burst(pool: &'static Pool<Kernel>, slabs: usize) {
    let mut blocks: Vec<_> = (0..slabs).map(|_| pool.alloc(SLAB).unwrap()).collect();
    blocks.iter_mut().for_each(|block| block.fill(1));
    drop(blocks);
    if pool.wants_thread() {
        pool.start_thread();
    }
}

fn within(limit: Duration, what: impl Fn() -> bool) -> bool {
    let begin = Instant::now();
    while !what() {
        if begin.elapsed() > limit {
            return false;
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    true
}

#[test]
fn an_idle_program_gives_its_memory_back_and_the_next_burst_does_not_pay_for_it() {
    let quick = pool(decaying(QUICK_MS));
    for _ in 0..3 {
        let begin = Instant::now();
        burst(quick, 60);
        let retained_bytes = quick.stats().retained_bytes;
        let is_early = begin.elapsed() < Duration::from_millis(QUICK_MS / 4);
        assert!(!is_early || retained_bytes >= 40 * SLAB, "not at once");
        let decayed = || quick.stats().retained_bytes <= tuning::FLOOR_BYTES;
        assert!(within(LONG, decayed), "{:?}", quick.stats());
    }
    assert!(within(LONG, || !quick.has_thread()), "it ends when nothing is left to do");
    // On a busy machine a burst may take as long as the decay: with a longer one it does not.
    let pays = |decay_ms: u64| {
        let pool = pool(decaying(decay_ms));
        burst(pool, 60);
        assert!(within(LONG, || pool.stats().retained_bytes <= tuning::FLOOR_BYTES), "{:?}", pool.stats());
        let paid = || {
            std::thread::sleep(Duration::from_millis(100));
            let purged = pool.stats().purged_bytes;
            burst(pool, 60);
            pool.stats().purged_bytes != purged
        };
        let has_paid = (0..5).all(|_| paid());
        assert!(pool.stop_thread());
        assert!(!pool.has_thread());
        has_paid
    };
    assert!(![QUICK_MS, 2000, 20_000].into_iter().all(pays), "free and malloc give nothing back");
}

#[test]
fn a_stopped_thread_starts_again_only_when_allowed() {
    let pool = pool(decaying(SLOW_MS));
    burst(pool, 40);
    assert!(pool.has_thread());
    assert!(pool.stop_thread());
    pool.start_thread();
    assert!(!pool.has_thread());
    pool.allow_thread();
    burst(pool, 40);
    assert!(pool.has_thread());
    pool.refuse_thread();
    assert!(pool.is_thread_refused() && !pool.has_thread());
    burst(pool, 50);
    assert!(!pool.wants_thread() && !pool.has_thread());
}

#[test]
fn what_is_retained_wants_a_thread_again_after_a_stop_and_after_fork() {
    for decay_ms in [SLOW_MS, QUICK_MS] {
        let pool = pool(decaying(decay_ms));
        let is_small = || pool.stats().retained_bytes <= tuning::FLOOR_BYTES;
        let is_wanted = || pool.wants_thread() || decay_ms == QUICK_MS && is_small();
        burst(pool, 60);
        assert!(pool.stop_thread());
        pool.allow_thread();
        assert!(is_wanted());
        pool.start_thread();
        pool.before_fork();
        assert!(!pool.has_thread());
        pool.after_fork_in_parent();
        assert!(pool.wants_thread() || is_small());
        pool.start_thread();
        assert!(decay_ms == SLOW_MS || within(LONG, is_small));
        assert!(pool.stop_thread());
        pool.allow_thread();
        assert!(!is_small() || !pool.wants_thread(), "nothing is left to do");
    }
}

#[test]
fn threads_that_swing_while_the_background_thread_is_stopped_and_started_lose_nothing() {
    let pool = pool(Policy {
        scrub: Scrub::Ahead { start: 8 * SLAB, stop: 16 * SLAB },
        prefault: Prefault::Ahead { low: 4 * SLAB, high: 8 * SLAB },
        retain: Retain { decay_ns: Some(80 * MS), ..Retain::default() },
        ..Policy::default()
    });
    let end = Instant::now() + Duration::from_secs(2);
    std::thread::scope(|scope| {
        for seed in 1..3_u8 {
            scope.spawn(move || {
                while Instant::now() < end {
                    let mut blocks: Vec<_> = (1..20)
                        .map(|at| pool.alloc_zeroed(at * SLAB / 7 * seed as usize).unwrap().into_block())
                        .collect();
                    for block in &mut blocks {
                        assert!(block.iter().step_by(1009).all(|&byte| byte == 0));
                        block.fill(seed);
                    }
                    assert!(blocks.iter().all(|block| block.iter().step_by(997).all(|&byte| byte == seed)));
                    if pool.wants_thread() {
                        pool.start_thread();
                    }
                }
            });
        }
        scope.spawn(move || {
            while Instant::now() < end {
                assert!(pool.stop_thread());
                pool.allow_thread();
                std::thread::sleep(Duration::from_millis(7));
            }
        });
    });
    assert!(pool.stop_thread());
    assert_eq!(pool.stats().in_use_bytes, 0);
}

#[test]
fn a_populated_block_is_resident_and_zero_where_asked() {
    for page in [Page::Base, Page::Thp] {
        let pool = pool(Policy { prefault: Prefault::Populate, page, ..Policy::default() });
        for _ in 0..3 {
            let mut block = pool.alloc_zeroed(5 * SLAB + 3 * tuning::GRANULE_BYTES).unwrap().into_block();
            assert_eq!(faultless_os::map::resident_bytes(block.as_ptr().addr(), block.len()), block.len());
            assert!(block.iter().all(|&byte| byte == 0), "{page:?}");
            block.fill(3);
        }
        let stats = pool.stats();
        assert_eq!((stats.populate_missing_bytes, stats.populate_failures), (0, 0), "{page:?}");
        assert!(stats.populated_bytes >= 5 * SLAB as u64);
    }
}

#[test]
fn pages_that_the_machine_lacks_are_replaced_and_counted() {
    let order = faultless_os::page::Order(1);
    for page in [Page::Hugetlb, Page::Mthp(order)] {
        let pool = pool(Policy { page, ..Policy::default() });
        let mut block = pool.alloc_zeroed(10 * SLAB).unwrap().into_block();
        block.fill(5);
        assert!(block.iter().all(|&byte| byte == 5));
        drop(block);
        assert!(pool.stats().fallback_bytes > 0 || has(page), "{page:?}");
    }
}

#[test]
fn populating_asks_for_huge_pages_first() {
    let thp = faultless_os::advise::pmd_bytes();
    if !faultless_os::advise::thp_gives(thp) || faultless_os::advise::thp_comes_unasked(thp) {
        return faultless_wants::missing_feature("THP", "not for the asking: none, or all");
    }
    let pool = pool(Policy { prefault: Prefault::Populate, page: Page::Thp, ..Policy::default() });
    let _block = pool.alloc(8 * SLAB).unwrap();
    assert_eq!(pool.stats().fallback_bytes, 0);
}

/// Whether this machine has these pages.
fn has(page: Page) -> bool {
    match page {
        Page::Mthp(order) => faultless_os::advise::thp_gives(order.len_bytes()),
        _ => std::fs::read_to_string("/proc/sys/vm/nr_hugepages").is_ok_and(|text| text.trim() != "0"),
    }
}

extern "C" fn asks_for_a_thread(pool: *mut libc::c_void) -> libc::c_int {
    // SAFETY: the pool of the test below, which lives for ever.
    let pool: &'static Pool<Kernel> = unsafe { &*pool.cast::<Pool<Kernel>>() };
    pool.start_thread();
    i32::from(pool.has_thread())
}

#[test]
fn a_child_of_vfork_starts_no_thread_and_its_parent_does() {
    let pool = pool(decaying(SLOW_MS));
    let mut stack = vec![0_u128; 16 << 10];
    let flags = libc::CLONE_VM | libc::CLONE_VFORK | libc::SIGCHLD;
    let argument = std::ptr::from_ref(pool).cast_mut().cast();
    // SAFETY: the child runs on its own stack, which is there until it has ended: this thread waits (CLONE_VFORK).
    let child =
        unsafe { libc::clone(asks_for_a_thread, stack.as_mut_ptr_range().end.cast(), flags, argument) };
    assert!(child > 0, "clone: {}", std::io::Error::last_os_error());
    let mut status = 0;
    // SAFETY: `status` is a place for one integer.
    assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
    assert_eq!(status, 0, "the child's status");
    assert!(!pool.has_thread());
    burst(pool, 60);
    assert!(pool.has_thread());
}
