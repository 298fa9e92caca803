//! Opening the pool of the process: it prewarms, and children forked meanwhile have a pool too. There is one test,
//! because a process opens one pool.
#![cfg(not(miri))]
#![allow(clippy::print_stderr, reason = "skips print their reason")]

mod child;

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use faultless_pool::{Global, Page, Policy, Pool, Prefault, Retain, Scrub, process};

use child::in_child;

/// Enough that opening takes a while.
const PREWARM: usize = 256 << 20;

#[global_allocator]
static GLOBAL: Global = Global::new().with_policy(Policy {
    page: Page::Base,
    prefault: Prefault::None,
    scrub: Scrub::OnGet,
    prewarm: PREWARM,
    retain: Retain { bytes: 2 * PREWARM, decay_ns: None },
});

#[test]
fn a_pool_that_is_being_opened_prewarms_and_is_not_missed_by_a_child() {
    if !faultless_os::map::pages_can_move() {
        return faultless_wants::missing_feature(
            "a kernel that is not emulated",
            "QEMU 7.2 knows no MADV_POPULATE_WRITE",
        );
    }
    let opening = AtomicBool::new(false);
    let (meanwhile, stats) = std::thread::scope(|scope| {
        let opener = scope.spawn(|| {
            opening.store(true, Relaxed);
            let block = vec![1_u8; 1 << 20];
            (process::opened().map(Pool::stats), block.len())
        });
        while !opening.load(Relaxed) {
            std::hint::spin_loop();
        }
        std::thread::sleep(Duration::from_millis(5));
        let was_open = process::opened().is_some();
        let status = in_child(|| {
            // The child has only this thread, so no other thread is opening a pool.
            process::pool(Policy::default).is_some_and(|pool| pool.alloc(1 << 20).is_some())
        });
        assert_eq!(status, 0, "the child has a pool of its own");
        (!was_open, opener.join().unwrap())
    });
    if !meanwhile {
        eprintln!("the pool was open before the fork: nothing was shown of that");
    }
    let (Some(stats), len) = stats else { panic!("no pool") };
    assert_eq!((stats.stocked_bytes as usize, stats.fresh), (PREWARM, 0), "{stats:?}");
    assert_eq!(stats.retained_bytes, PREWARM - len);
    let again = in_child(|| process::opened().is_some_and(|pool| pool.alloc(1 << 20).is_some()));
    assert_eq!(again, 0, "a child of the opened pool has that");
}
