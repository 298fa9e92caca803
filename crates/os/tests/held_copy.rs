//! CoW under a forked copy. It has a test program of its own, because a fork write-protects the memory of
//! every other test in the process.

use faultless_os::counters::{Who, rusage};
use faultless_os::page;
use faultless_os::touch::{Advice, HeldCopy, Region};

fn write_faults(region: &mut Region) -> u64 {
    let before = rusage(Who::Thread).unwrap().minor_faults;
    region.touch_write(page::size());
    rusage(Who::Thread).unwrap().minor_faults - before
}

#[test]
fn writes_under_a_held_copy_are_faults_again_unless_kept_out_of_it() {
    let len = 64 * page::size();
    let [mut shared, mut own] = [0, 1].map(|_| {
        let mut region = Region::base_pages(len, page::size()).unwrap();
        region.touch_write(page::size());
        region
    });
    own.advise(0..len, Advice::DontFork).unwrap();
    let copy = HeldCopy::new().unwrap();
    let (copied, kept) = (write_faults(&mut shared), write_faults(&mut own));
    drop(copy);
    assert!(copied >= 64, "{copied}");
    assert!(kept < 16, "{kept}");
}
