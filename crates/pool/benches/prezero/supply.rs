//! Where blocks come from: the kernel or a pool, behind one face.
//!
//! In: an arm. Out: zeroed blocks as byte slices, given back when dropped; and how many faults a get of one and its touch
//! must take, from first principles.

use std::time::Duration;

use faultless_os::touch::{Advice, Region};
use faultless_os::{advise, page};
use faultless_pool::{Block, Kernel, Policy, Pool, Retain, Scrub, tuning};

use crate::cell::{Arm, Setting};

/// Zeroed bytes that the keeper is to have ready, and as many again that it may zero: more than the last-level cache of most
/// machines, so that what it hands out was evicted meanwhile.
const STOCK_BYTES: usize = 64 << 20;
/// Zeroed bytes below which zeroing begins.
const START_BYTES: usize = STOCK_BYTES / 4 * 3;
/// Time between two looks of a scrubber of the program's own: an eighth of what it takes to use the stock up
/// at the price of zeroing, and a hundredth of a processor.
const LOOK: Duration = Duration::from_micros(200);

/// Somebody who hands out zeroed blocks.
pub(crate) trait Supply: Sync {
    /// A block, freed when dropped.
    type Block: Bytes;
    /// A block of `len` zeroes.
    fn get(&self, len: usize) -> Self::Block;
    /// Faults of one get and the touch of every page.
    fn faults(&self, len: usize) -> usize;
}

/// A block's memory.
pub(crate) trait Bytes {
    /// All of it, perhaps more than was asked for.
    fn bytes(&mut self) -> &mut [u8];
}

impl Bytes for Region {
    fn bytes(&mut self) -> &mut [u8] {
        self.bytes_mut()
    }
}

impl Bytes for Block<'_, Kernel> {
    fn bytes(&mut self) -> &mut [u8] {
        self
    }
}

/// The kernel: `mmap`, `mprotect`, `madvise`, and `munmap` at the end.
pub(crate) struct Fresh {
    /// Bytes of the page that is asked for.
    page: usize,
}

impl Fresh {
    pub(crate) fn new(arm: Arm) -> Self {
        let pmd = advise::pmd_bytes();
        let is_huge = arm == Arm::Thp && advise::thp_gives(pmd);
        Self { page: if is_huge { pmd } else { page::size() } }
    }
}

impl Supply for Fresh {
    type Block = Region;

    fn get(&self, len: usize) -> Region {
        let mut region = Region::new(len.next_multiple_of(self.page), self.page).expect("addresses");
        let all = 0..region.len_bytes();
        let advice = if self.page > page::size() { Advice::HugePage } else { Advice::NoHugePage };
        // Kernels without THP answer EINVAL, and have base pages anyway.
        let _ = region.advise(all, advice);
        region
    }

    /// One for every page.
    fn faults(&self, len: usize) -> usize {
        len.div_ceil(self.page)
    }
}

/// A pool as the library has it, with a keeper where the policy asks for one.
pub(crate) struct Pooled(pub(crate) &'static Pool<Kernel>);

impl Pooled {
    pub(crate) fn new(arm: Arm) -> Self {
        let scrub = match arm {
            Arm::Ahead => Scrub::Ahead { start: START_BYTES, stop: STOCK_BYTES },
            _ => Scrub::OnGet,
        };
        // Nothing decays: only scrubbing is measured.
        let policy =
            Policy { scrub, retain: Retain { decay_ns: None, ..Retain::default() }, ..Policy::default() };
        let pool = Pool::open(Kernel::default(), policy).expect("addresses");
        Self(Box::leak(Box::new(pool)))
    }

    /// Bytes that an arm's pool holds besides the blocks in use.
    pub(crate) fn spare_bytes(arm: Arm) -> usize {
        if matches!(arm, Arm::Ahead | Arm::Thread) { 2 * STOCK_BYTES } else { 0 }
    }

    /// Keeps the stock between the marks as the keeper does, but on any processor it gets; never ends.
    pub(crate) fn scrub_always(&self) {
        loop {
            let mut idle = self.0.stats().zeroed_bytes >= START_BYTES;
            while !idle {
                idle =
                    self.0.scrub_step(tuning::SLAB_BYTES) == 0 || self.0.stats().zeroed_bytes >= STOCK_BYTES;
            }
            std::thread::sleep(LOOK);
        }
    }

    /// Makes everything resident that the setting will use, and dirty, as after a burst of work.
    pub(crate) fn warm(&self, arm: Arm, setting: Setting, pools: usize) {
        let len = setting.block_kib << 10;
        let bytes = setting.alive * setting.threads / pools * len + Self::spare_bytes(arm);
        let more = 2 * tuning::SLAB_BYTES;
        self.0.prewarm(bytes + more);
        let mut blocks: Vec<_> = (0..bytes.div_ceil(len) + 1).map(|_| self.get(len)).collect();
        for block in &mut blocks {
            assert!(block.iter().all(|&byte| byte == 0), "a zeroed block is zero");
            block.fill(1);
        }
    }
}

impl Supply for Pooled {
    type Block = Block<'static, Kernel>;

    fn get(&self, len: usize) -> Block<'static, Kernel> {
        let block = self.0.alloc_zeroed(len).expect("the pool has room").into_block();
        if self.0.wants_keeper() {
            self.0.keep();
        }
        block
    }

    /// None: all of it was made resident before.
    fn faults(&self, _len: usize) -> usize {
        0
    }
}
