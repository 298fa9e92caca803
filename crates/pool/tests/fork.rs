//! `fork`: the child's pool is consistent and free memory is not copied. For free memory the parent pays neither page
//! tables nor CoW faults.
#![cfg(not(miri))]

use std::sync::Mutex;

use faultless_os::counters::{Who, rusage};
use faultless_pool::{Failing, Kernel, Page, Policy, Pool, tuning};

const MIB: usize = 1 << 20;
/// Serializes the tests: children and faults count for the whole process.
static ALONE: Mutex<()> = Mutex::new(());

/// Forks. `child` gives the child's status, and `parent` runs while the child lives.
fn forked(pool: &Pool<Kernel>, child: impl FnOnce() -> bool, parent: impl FnOnce()) -> bool {
    pool.before_fork();
    // SAFETY: the child calls only the pool, which needs no lock of another thread, and _exit.
    let pid = unsafe { libc::fork() };
    if pid == 0 {
        pool.after_fork_in_child();
        let status = if child() { 0 } else { 1 };
        // SAFETY: leaves without running anything of the parent's.
        unsafe { libc::_exit(status) };
    }
    pool.after_fork_in_parent();
    assert!(pid > 0, "fork: {}", std::io::Error::last_os_error());
    parent();
    let mut status = 0;
    // SAFETY: the pointer is valid for one int.
    assert_eq!(unsafe { libc::waitpid(pid, &raw mut status, 0) }, pid);
    libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 0
}

fn pool(page: Page, failing: Failing) -> Pool<Kernel> {
    Pool::open(Kernel::failing(failing), Policy { page, ..Policy::default() }).unwrap()
}

/// `mib` of free, dirty memory.
fn leave_idle(pool: &Pool<Kernel>, mib: usize) {
    pool.alloc(mib * MIB).unwrap().fill(0xee);
}

fn is(bytes: &[u8], value: u8) -> bool {
    bytes.iter().step_by(512).all(|&byte| byte == value)
}

#[test]
fn parent_and_child_keep_what_is_in_use_and_the_child_starts_with_nothing_idle() {
    let _alone = ALONE.lock();
    for failing in [
        Failing::default(),
        Failing { map: 3, ..Failing::default() },
        Failing { advise: 9, ..Failing::default() },
    ] {
        // In an emulator's small address space, the injected failures already hit the first reservation.
        if failing != Failing::default() && !withholds() {
            continue;
        }
        let pool = pool(Page::Thp, failing);
        let mut block = pool.alloc(5 * MIB).unwrap();
        block.fill(7);
        leave_idle(&pool, 60);
        let again = pool.alloc(20 * MIB).unwrap();
        let child = || {
            let whole = is(&block, 7) && is(&again, 0xee);
            let idle = pool.stats().retained_bytes;
            let Some(zeroed) = pool.alloc_zeroed(50 * MIB) else { return false };
            let mut zeroed = zeroed.into_block();
            let zero = is(&zeroed, 0);
            zeroed.fill(1);
            drop(zeroed);
            whole
                && zero
                && idle < 4 * MIB
                && pool.alloc(30 * MIB).is_some_and(|mut block| {
                    block.fill(2);
                    is(&block, 2)
                })
        };
        let retained = pool.stats().retained_bytes;
        assert!(forked(&pool, child, || assert!(is(&block, 7))), "{failing:?}");
        if failing == Failing::default() {
            assert!(pool.stats().withheld_bytes as usize > 30 * MIB);
            assert_eq!(pool.stats().retained_bytes, retained, "the parent keeps its idle memory");
        }
        let mut zeroed = pool.alloc_zeroed(45 * MIB).unwrap().into_block();
        assert!(is(&zeroed, 0) && is(&block, 7) && is(&again, 0xee));
        zeroed.fill(3);
        let child = || is(&zeroed, 3) && is(&block, 7);
        assert!(forked(&pool, child, || ()), "what was idle once reaches the next child: {failing:?}");
    }
}

/// Whether the kernel knows MADV_DONTFORK. QEMU's user-mode emulation (7.2) ignores it, and loses moved pages too.
#[track_caller]
fn withholds() -> bool {
    let withholds = faultless_os::map::pages_can_move();
    if !withholds {
        faultless_wants::missing_feature("a kernel that is not emulated", "it ignores MADV_DONTFORK");
    }
    withholds
}

#[test]
fn the_parent_takes_no_cow_faults_for_what_was_free() {
    if !withholds() {
        return;
    }
    let _alone = ALONE.lock();
    let faults = || rusage(Who::Thread).unwrap().minor_faults;
    for mib in [6, 40] {
        let pool = pool(Page::Base, Failing::default());
        leave_idle(&pool, mib);
        let rewrite = || {
            let before = faults();
            leave_idle(&pool, mib);
            let taken = faults() - before;
            assert!(taken < 500, "{taken} faults for {mib} MiB that were resident");
        };
        assert!(forked(&pool, || true, rewrite));
    }
}

#[test]
fn a_child_of_a_child_is_whole_too() {
    let _alone = ALONE.lock();
    let pool = pool(Page::Thp, Failing::default());
    leave_idle(&pool, 30);
    let mut block = pool.alloc(3 * MIB).unwrap();
    block.fill(5);
    let child = || {
        leave_idle(&pool, 40);
        let grandchild = || pool.alloc_zeroed(40 * MIB).is_some_and(|zeroed| is(&zeroed, 0)) && is(&block, 5);
        forked(&pool, grandchild, || ()) && pool.alloc(40 * MIB).is_some_and(|again| is(&again, 0xee))
    };
    assert!(forked(&pool, child, || ()));
}

#[test]
fn a_block_across_memory_that_was_renewed_still_grows() {
    let _alone = ALONE.lock();
    let pool = pool(Page::Thp, Failing::default());
    let first = pool.alloc(9 * MIB).unwrap();
    leave_idle(&pool, 30);
    let child = || {
        let Some(mut block) = pool.alloc(40 * MIB) else { return false };
        block.fill(4);
        let _behind = pool.alloc(tuning::SLAB_BYTES);
        (2..5).all(|times| block.resize(times * 40 * MIB) && is(&block[..40 * MIB], 4))
            && first.len() == 9 * MIB
    };
    assert!(forked(&pool, child, || ()));
}

#[test]
fn a_pool_that_keeps_its_pages_gives_none_back_and_its_child_is_whole() {
    let _alone = ALONE.lock();
    let pool = pool(Page::Base, Failing::default());
    pool.keep();
    leave_idle(&pool, 40);
    let before = pool.stats().retained_bytes;
    assert_eq!(pool.purge_idle(usize::MAX), 0);
    let child = || pool.alloc(20 * MIB).is_some_and(|again| is(&again, 0xee));
    assert!(forked(&pool, child, || ()));
    assert_eq!((pool.stats().retained_bytes, pool.stats().withheld_bytes), (before, 0));
    let mut growing = pool.alloc(4 * MIB).unwrap();
    let _neighbour = pool.alloc(MIB).unwrap();
    assert!(growing.resize(20 * MIB));
    assert_eq!((pool.stats().grown_by_pages, pool.stats().grown_by_copy), (0, 1));
}
