//! What a pool may do, as a few enums.
//!
//! In: nothing. Out: plain values. No decision is taken here.

use faultless_os::page::Order;

use crate::tuning;

/// Which pages back the pool. A machine that lacks them provides base pages; [`Stats::fallback_bytes`] counts these.
///
/// [`Stats::fallback_bytes`]: crate::Stats::fallback_bytes
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Page {
    /// Base pages only.
    Base,
    /// Transparent huge pages of this order, smaller than a PMD (Linux 6.8). The kernel's settings choose the size.
    /// `madvise` must be enabled for this order and disabled for the PMD size, because the kernel takes the largest
    /// enabled size.
    Mthp(Order),
    /// THP for all slabs but the first, see [`tuning::HEAD_SLABS`].
    #[default]
    Thp,
    /// Pages from the hugetlb pool while it has some. For programs that never fork, or fork only to exec.
    ///
    /// A child shares the pages of blocks until one side writes. Each such page then needs another page of the hugetlb
    /// pool. If the pool has none, the kernel kills the child. Wholly free slabs are withheld from the child if they
    /// are at least 8 MiB. They take nothing from the hugetlb pool, and they have base pages from then on.
    Hugetlb,
}

/// When pages become resident.
///
/// The pool checks residency afterwards, see [`Stats::populate_missing_bytes`](crate::Stats::populate_missing_bytes).
/// The lab's experiment `prefault` shows why there are no other ways: touching and overwriting a block move its faults
/// and remove none, and MAP_POPULATE costs more than MADV_POPULATE_WRITE.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Prefault {
    /// At the first touch by the program.
    #[default]
    None,
    /// When a block is handed out, by one call of MADV_POPULATE_WRITE (Linux 5.14). The kernel does the same work
    /// without the traps: 1326 ns per base page instead of 1447 (Zen 5 guest, Linux 6.18, guest-warm).
    Populate,
    /// Ahead of need, by the background thread, on an idle processor. The faults move out of the program's time. Begins
    /// when fewer than `low` free bytes are resident and ends at `high`.
    Ahead {
        /// Low watermark in bytes.
        low: usize,
        /// High watermark in bytes.
        high: usize,
    },
}

/// When dirty memory is overwritten with zeroes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Scrub {
    /// When zeroed memory is requested, with stores that leave it in the cache.
    #[default]
    OnGet,
    /// Ahead of need, by the background thread, on an idle processor, with stores that bypass the cache. Begins when
    /// fewer than `start` free bytes are zeroed and ends at `stop`.
    Ahead {
        /// Low watermark in bytes.
        start: usize,
        /// High watermark in bytes.
        stop: usize,
    },
    /// When a block is freed, before it can be handed out again: for secrets.
    OnFree,
}

/// How many bytes of free blocks may stay resident, and for how long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retain {
    /// The bound in bytes; 0 retains nothing.
    pub bytes: usize,
    /// The time in ns after which idle memory has gone back, down to [`tuning::FLOOR_BYTES`]; `None`: never.
    ///
    /// While the background thread sleeps, up to [`tuning::FRONT_STEP_BYTES`] more in each of [`tuning::SHARDS`] shards
    /// of the front do not wake it.
    pub decay_ns: Option<u64>,
}

impl Default for Retain {
    fn default() -> Self {
        Self { bytes: tuning::RETAIN_BYTES, decay_ns: Some(tuning::DECAY_NS) }
    }
}

/// The policy of a pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Policy {
    /// Which pages back the pool.
    pub page: Page,
    /// When they become resident.
    pub prefault: Prefault,
    /// When they are zeroed.
    pub scrub: Scrub,
    /// Bytes that opening the pool makes resident, by [`Pool::prewarm`](crate::Pool::prewarm). They do not decay.
    /// [`Retain::bytes`] bounds them.
    pub prewarm: usize,
    /// How much stays resident when free.
    pub retain: Retain,
}
