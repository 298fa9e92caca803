//! The pool of the process while it is opened: what its policy says to make resident is, and children of `fork` that were made
//! meanwhile have a pool too. One test, since a process opens one pool.
#![cfg(not(miri))]
#![allow(clippy::print_stderr, reason = "skips print their reason")]

use faultless_pool::{Global, Page, Policy, Prefault, Retain, Scrub, process};

/// Much enough that opening takes a while.
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
fn a_global_allocator_with_a_policy_prewarms() {
    if !faultless_os::map::pages_can_move() {
        return eprintln!("skipped: this kernel is emulated, QEMU 7.2 knows no MADV_POPULATE_WRITE");
    }
    let block = vec![1_u8; 1 << 20];
    let stats = process::opened().unwrap().stats();
    assert_eq!((stats.stocked_bytes as usize, stats.fresh), (PREWARM, 0), "{stats:?}");
    assert_eq!(stats.retained_bytes, PREWARM - block.len());
}
