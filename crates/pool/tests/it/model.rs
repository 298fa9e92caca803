//! Random programs of alloc, alloc_zeroed, resize and free, checked against a map of all blocks.
//!
//! Guards against: overlapping blocks, lost alignment, lost content, `alloc_zeroed` memory that is not zero, wrong
//! counters, and free memory retained beyond the bound. Runs on the fake (also under Miri) and on the kernel.

use std::collections::BTreeMap;

use faultless_pool::{Fake, Memory, Page, Policy, Pool, Prefault, Retain, tuning};
use proptest::prelude::*;

use crate::all_are;

#[derive(Clone, Debug)]
enum Step {
    Alloc { len: usize, align: usize, zeroed: bool },
    Resize { which: usize, len: usize },
    Free { which: usize },
    Scrub { bytes: usize },
    Stock { low: usize, high: usize },
    Idle,
    PurgeIdle { bytes: usize },
    PurgeToBound,
    Fork { child: bool },
}

struct Live {
    len: usize,
    tag: u8,
}

/// A pool and its expected blocks, by address.
struct Model<B: Memory> {
    pool: Pool<B>,
    retain: usize,
    live: BTreeMap<usize, Live>,
    tag: u8,
    /// Whether the kernel may refuse to purge.
    refusing: bool,
}

fn lens() -> impl Strategy<Value = usize> {
    prop_oneof![
        4 => 1_usize..200 << 10,
        2 => (0_usize..128).prop_map(|granules| granules * tuning::GRANULE_BYTES + 1),
        2 => 1_usize..9 << 20,
        1 => Just(tuning::SLAB_BYTES),
    ]
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let align = prop_oneof![4 => Just(1_usize), 2 => (4_u32..23).prop_map(|log2| 1 << log2)];
    let step = prop_oneof![
        5 => (lens(), align, any::<bool>()).prop_map(|(len, align, zeroed)| Step::Alloc { len, align, zeroed }),
        3 => (any::<usize>(), lens()).prop_map(|(which, len)| Step::Resize { which, len }),
        4 => any::<usize>().prop_map(|which| Step::Free { which }),
        1 => (0_usize..3 << 20).prop_map(|bytes| Step::Scrub { bytes }),
        1 => (0_usize..6 << 20, 0_usize..6 << 20).prop_map(|(low, more)| Step::Stock { low, high: low + more }),
        1 => Just(Step::Idle),
        1 => (0_usize..9 << 20).prop_map(|bytes| Step::PurgeIdle { bytes }),
        1 => Just(Step::PurgeToBound),
        1 => any::<bool>().prop_map(|child| Step::Fork { child }),
    ];
    proptest::collection::vec(step, 1..if cfg!(miri) { 20 } else { 120 })
}

fn policies() -> impl Strategy<Value = Policy> {
    let page = prop_oneof![Just(Page::Base), Just(Page::Thp)];
    let prefault = prop_oneof![4 => Just(Prefault::None), 1 => Just(Prefault::Populate)];
    let retain = prop_oneof![Just(0_usize), 0_usize..20 << 20, Just(1 << 40)];
    (page, prefault, retain).prop_map(|(page, prefault, bytes)| Policy {
        page,
        prefault,
        retain: Retain { bytes, ..Retain::default() },
        ..Policy::default()
    })
}

impl<B: Memory> Model<B> {
    fn new(pool: Pool<B>, policy: Policy) -> Self {
        Self { pool, retain: policy.retain.bytes, live: BTreeMap::new(), tag: 0, refusing: false }
    }

    fn pick(&self, which: usize) -> Option<usize> {
        self.live.keys().nth(which % self.live.len().max(1)).copied()
    }

    fn run(&mut self, steps: &[Step]) {
        for step in steps {
            match *step {
                Step::Alloc { len, align, zeroed } => self.alloc(len, align, zeroed),
                Step::Resize { which, len } => self.resize(which, len),
                Step::Free { which } => self.free(which),
                Step::Scrub { bytes } => self.scrub(bytes),
                Step::Stock { low, high } => self.stock(low, high),
                Step::Idle => assert!(self.refusing || self.pool.idle_since_last_call() <= self.retain),
                Step::PurgeIdle { bytes } => self.purge_idle(bytes),
                Step::PurgeToBound => self.pool.purge_to_bound(),
                Step::Fork { child } => self.fork(child),
            }
            self.check_accounts();
        }
        while !self.live.is_empty() {
            self.free(0);
        }
        self.check_accounts();
        assert_eq!(self.pool.stats().in_use_bytes, 0);
    }

    fn alloc(&mut self, len: usize, align: usize, zeroed: bool) {
        let Some(start) = self.pool.alloc_raw(len, align, zeroed) else { return };
        let start = start.as_ptr().expose_provenance();
        assert_eq!(start % align, 0, "alignment");
        assert!(self.pool.len_raw(start).unwrap() >= len);
        if zeroed {
            assert!(places(len).all(|at| read(start + at) == 0), "alloc_zeroed gave non-zero bytes");
        }
        self.insert(start, len);
    }

    fn resize(&mut self, which: usize, len: usize) {
        let Some(old) = self.pick(which) else { return };
        self.check_content(old);
        // SAFETY: the model alone uses the block.
        let Some(new) = (unsafe { self.pool.resize_raw(old, len) }) else { return };
        let new = new.as_ptr().expose_provenance();
        let Live { len: old_len, tag } = self.live.remove(&old).unwrap();
        for at in places(old_len).filter(|&at| at < len) {
            assert_eq!(read(new + at), tag, "resize lost byte {at} of {old_len}, now {len}");
        }
        self.insert(new, len);
    }

    fn free(&mut self, which: usize) {
        let Some(start) = self.pick(which) else { return };
        self.check_content(start);
        self.live.remove(&start);
        // SAFETY: the model has just forgotten the block.
        assert!(unsafe { self.pool.free_raw(start) });
        // SAFETY: nothing begins there any more, so nothing is freed.
        assert!(!unsafe { self.pool.free_raw(start) }, "a second free finds no block");
    }

    fn scrub(&mut self, bytes: usize) {
        let before = self.pool.stats();
        let done = self.pool.scrub_step(bytes);
        let after = self.pool.stats();
        assert_eq!(after.zeroed_bytes, before.zeroed_bytes + done, "what was scrubbed is zeroed");
        assert_eq!(after.retained_bytes, before.retained_bytes, "and no more is kept than before");
        assert_eq!(after.scrubbed_bytes, before.scrubbed_bytes + done as u64);
    }

    fn stock(&mut self, low: usize, high: usize) {
        let before = self.pool.stats();
        let done = self.pool.stock_step(low, high);
        let after = self.pool.stats();
        assert_eq!(after.retained_bytes, before.retained_bytes + done);
        assert_eq!(after.zeroed_bytes, before.zeroed_bytes + done);
        assert!(done == 0 || before.retained_bytes < high);
    }

    fn purge_idle(&mut self, bytes: usize) {
        let before = self.pool.stats();
        let done = self.pool.purge_idle(bytes);
        let after = self.pool.stats();
        assert_eq!(after.retained_bytes, before.retained_bytes - done);
        assert_eq!(after.purged_bytes, before.purged_bytes + done as u64);
    }

    /// Calls the fork handlers, of the parent or of the child, without a second process.
    fn fork(&mut self, child: bool) {
        let before = self.pool.stats();
        self.pool.before_fork();
        if child {
            self.pool.after_fork_in_child();
        } else {
            self.pool.after_fork_in_parent();
        }
        let after = self.pool.stats();
        assert!(child || self.refusing || after.retained_bytes == before.retained_bytes);
        assert!(after.retained_bytes <= before.retained_bytes);
    }

    fn insert(&mut self, start: usize, len: usize) {
        let before = self.live.range(..start).next_back();
        assert!(before.is_none_or(|(at, live)| at + live.len <= start), "overlap with the block before");
        let behind = self.live.range(start..).next();
        assert!(behind.is_none_or(|(&at, _)| start + len <= at), "overlap with the block behind");
        self.tag = self.tag % 250 + 1;
        for at in places(len) {
            write(start + at, self.tag);
        }
        self.live.insert(start, Live { len, tag: self.tag });
    }

    fn check_content(&self, start: usize) {
        let live = &self.live[&start];
        assert!(places(live.len).all(|at| read(start + at) == live.tag), "content changed");
    }

    fn check_accounts(&self) {
        let stats = self.pool.stats();
        let granules = |len: usize| len.next_multiple_of(tuning::GRANULE_BYTES);
        let in_use: usize = self.live.values().map(|live| granules(live.len.max(1))).sum();
        assert_eq!(stats.in_use_bytes, in_use, "bytes in use");
        assert!(
            self.refusing || stats.retained_bytes <= self.retain,
            "{} kept, {} allowed",
            stats.retained_bytes,
            self.retain
        );
        assert!(stats.peak_in_use_bytes >= in_use);
        assert!(stats.zeroed_bytes <= stats.retained_bytes);
    }
}

/// The offsets that are checked: both ends of every 4 KiB, and of the block. Under Miri of every granule, because the
/// fake moves no less.
fn places(len: usize) -> impl Iterator<Item = usize> {
    const STEP: usize = if cfg!(miri) { tuning::GRANULE_BYTES } else { 4096 };
    (0..len).step_by(STEP).flat_map(move |at| [at, (at + STEP - 1).min(len - 1)])
}

fn read(address: usize) -> u8 {
    // SAFETY: callers pass addresses inside live blocks.
    unsafe { *std::ptr::with_exposed_provenance::<u8>(address) }
}

fn write(address: usize, value: u8) {
    // SAFETY: callers pass addresses inside live blocks.
    unsafe { *std::ptr::with_exposed_provenance_mut::<u8>(address) = value }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: if cfg!(miri) { 2 } else { ProptestConfig::default().cases.min(40) },
        max_shrink_iters: 2000,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]


    #[test]
    fn random_programs_keep_the_promises_on_the_fake(steps in steps(), policy in policies()) {
        let pool = Pool::open(Fake::new(12), policy).unwrap();
        Model::new(pool, policy).run(&steps);
    }

    #[cfg(not(miri))]
    #[test]
    fn random_programs_keep_the_promises_on_the_kernel(steps in steps(), policy in policies()) {
        let pool = Pool::open(faultless_pool::Kernel::default(), policy).unwrap();
        Model::new(pool, policy).run(&steps);
    }

    #[cfg(not(miri))]
    #[test]
    fn random_programs_survive_a_kernel_that_refuses(
        steps in steps(), policy in policies(), extend in 1_u32..9, remap in 1_u32..3, map in 3_u32..6, advise in 0_u32..12
    ) {
        let failing = faultless_pool::Failing { map, extend, remap, advise };
        let pool = Pool::open(faultless_pool::Kernel::failing(failing), policy).unwrap();
        Model { refusing: advise > 0, ..Model::new(pool, policy) }.run(&steps);
    }
}

/// Short enough for Miri, which checks every access to blocks and tables.
#[test]
fn a_fixed_program_keeps_the_promises_on_the_fake() {
    let policy = Policy { retain: Retain { bytes: 64 << 10, ..Retain::default() }, ..Policy::default() };
    let alloc = |len, align, zeroed| Step::Alloc { len, align, zeroed };
    let steps = [
        alloc(20 << 10, 1, false),
        alloc(40 << 10, 32 << 10, true),
        alloc(16 << 10, 1, false),
        Step::Resize { which: 0, len: 50 << 10 },
        Step::Free { which: 1 },
        alloc(30 << 10, 1, true),
        Step::Resize { which: 1, len: 1 },
        Step::Free { which: 0 },
        alloc(64 << 10, 1, true),
    ];
    Model::new(Pool::open(Fake::new(1), policy).unwrap(), policy).run(&steps);
}

#[test]
fn a_block_is_a_slice_that_keeps_its_content_when_it_grows() {
    let pool = Pool::open(Fake::new(1), Policy::default()).unwrap();
    let mut block = pool.alloc_zeroed(16 << 10).unwrap().into_block();
    let neighbour = pool.alloc(16 << 10).unwrap();
    block[100] = 7;
    assert!(block.resize(40 << 10));
    assert_eq!((block.len(), block[100], block[101]), (40 << 10, 7, 0));
    assert!(!block.resize(1 << 40));
    assert_eq!(block[100], 7, "a refusal changes nothing");
    drop((block, neighbour));
    assert_eq!(pool.stats().in_use_bytes, 0);
}

#[test]
fn a_lost_move_leaves_the_block_and_the_accounts_as_they_were() {
    let fake = Fake::new(1);
    fake.lose_moves();
    let pool = Pool::open(fake, Policy::default()).unwrap();
    let mut block = pool.alloc_zeroed(16 << 10).unwrap().into_block();
    let neighbour = pool.alloc(16 << 10).unwrap();
    block[100] = 7;
    let before = pool.stats();
    assert!(!block.resize(40 << 10));
    assert_eq!((block.len(), block[100]), (16 << 10, 7));
    let after = pool.stats();
    assert_eq!((after.in_use_bytes, after.retained_bytes), (before.in_use_bytes, before.retained_bytes));
    let other = pool.alloc_zeroed(40 << 10).unwrap();
    assert!(all_are(&other, 0), "elsewhere than the place that was lost");
    drop((block, neighbour, other));
    assert_eq!(pool.stats().in_use_bytes, 0);
}

#[test]
fn a_refused_purge_is_counted_and_ends() {
    let fake = Fake::new(1);
    fake.refuse_purge();
    let policy = Policy { retain: Retain { bytes: 0, ..Retain::default() }, ..Policy::default() };
    let pool = Pool::open(fake, policy).unwrap();
    drop(pool.alloc(16 << 10));
    assert!(pool.stats().purge_failures > 0);
    let block = pool.alloc_zeroed(16 << 10).unwrap();
    assert!(all_are(&block, 0), "what could not be purged is still dirty");
}

#[cfg(not(miri))]
#[test]
fn an_alignment_that_would_skip_thousands_of_slabs_is_refused() {
    let pool = Pool::open(faultless_pool::Kernel::default(), Policy::default()).unwrap();
    assert_eq!(pool.alloc_raw(64 << 10, 2 * faultless_pool::tuning::ALIGN_BYTES, false), None);
    assert_eq!((pool.stats().refused, pool.stats().in_use_bytes), (1, 0));
    assert!(pool.alloc_raw(64 << 10, 1 << 25, false).is_some());
}
