//! What a pool may do, as a few enums, and every tuning number of this crate.
//!
//! In: nothing. Out: plain values. No decision is taken here.

use faultless_os::page::Order;

/// Which pages back the pool. What the machine does not have falls back to base pages, and is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Page {
    /// Base pages only.
    Base,
    /// Transparent huge pages of this order, smaller than a PMD (Linux 6.8). The kernel's settings choose the sizes: this
    /// one must be enabled for `madvise` and the PMD size must not, or the kernel takes that.
    Mthp(Order),
    /// THP for all slabs but the first few, see [`tuning::HEAD_SLABS`].
    #[default]
    Thp,
    /// Pages from the hugetlb pool, as far as it has some. For programs that do not fork, or only to exec: a child shares what
    /// is in use until one of both writes; then each such page needs another one of the hugetlb pool, and the kernel kills
    /// the child where that has none. Wholly free slabs, from 8 MiB on, are left out of children, take nothing from
    /// the hugetlb pool there, and are base pages from then on; fewer are shared like those in use.
    Hugetlb,
}

/// When pages become resident, and how. Every way but the first is checked by residency, see
/// [`Stats::populate_missing_bytes`](crate::Stats::populate_missing_bytes). Costs are for 4 KiB of guest-warm base pages on a
/// Zen 5 guest with Linux 6.18, 1447 ns for a touch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Prefault {
    /// At the first touch, by whoever touches: nothing is moved and nothing removed.
    #[default]
    None,
    /// One byte per page when a block is handed out: moves every fault to one place and removes none.
    Touch,
    /// Every byte when a block is handed out: as `Touch`, and writes what the program will write again (100 to 125 ns more).
    Memset,
    /// A new mapping with MAP_POPULATE over a block that is not wholly resident: one call instead of a fault per page, the same work in the
    /// kernel (about 1650 ns), and a new mapping. The kernel populates it before it can be advised, so the block has base pages
    /// whatever the policy says, counted in [`Stats::fallback_bytes`](crate::Stats::fallback_bytes), unless THP are `always` on.
    MapPopulate,
    /// MADV_POPULATE_WRITE (Linux 5.14) when a block is handed out: one call, the same work in the kernel (1326 ns, 8 % less).
    Populate,
    /// The keeper makes free memory resident before it is asked for, on an idle processor: removes the faults from the
    /// program's time and leaves them in the machine's. From less than `low` free resident bytes on, up to `high`.
    Ahead {
        /// Bytes below which it begins.
        low: usize,
        /// Bytes at which it ends.
        high: usize,
    },
}

impl Prefault {
    /// Whether whoever asks for a block waits until it is resident.
    pub(crate) fn is_at_get(self) -> bool {
        !matches!(self, Self::None | Self::Ahead { .. })
    }
}

/// When dirty memory is overwritten with zeroes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Scrub {
    /// When somebody asks for zeroed memory, with stores that leave it in the cache.
    #[default]
    OnGet,
    /// The keeper does it ahead of need, on an idle processor, with stores that go round the cache: when less than `start`
    /// free bytes are known to be zero, until `stop` are.
    Ahead {
        /// Bytes below which it begins.
        start: usize,
        /// Bytes at which it ends.
        stop: usize,
    },
    /// When a block is freed, before anybody else can have it: for secrets.
    OnFree,
}

/// How many bytes of free blocks may stay resident, and for how long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retain {
    /// The bound in bytes; 0 keeps nothing.
    pub bytes: usize,
    /// The time in ns after which memory that nobody needed has gone back, down to [`tuning::FLOOR_BYTES`]; `None`: never. While
    /// the keeper sleeps [`tuning::FRONT_STEP_BYTES`] more in each of [`tuning::SHARDS`] parts of the front call nobody, and what lies
    /// in partly used slabs stays.
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
    /// Which pages back it.
    pub page: Page,
    /// When they become resident.
    pub prefault: Prefault,
    /// When they are zeroed.
    pub scrub: Scrub,
    /// Bytes that opening the pool makes resident, by [`Pool::prewarm`](crate::Pool::prewarm): they do not decay. More than
    /// [`Retain::bytes`] lets be kept is not made resident.
    pub prewarm: usize,
    /// How much stays resident when free.
    pub retain: Retain,
}

/// The tuning numbers: unit, reason, source.
pub mod tuning {
    /// Bytes per granule, the unit in which blocks are cut: wastes at most 20 % of a 64 KiB block and lets one
    /// 128-bit mask describe a slab. Size classes, tried beside it, kept a third more than glibc at its peak.
    pub const GRANULE_BYTES: usize = 16 << 10;
    /// Granules per slab: one mask. A slab is 2 MiB, what a THP maps on x86-64 and on aarch64 with 4 KiB pages.
    pub const SLAB_GRANULES: usize = 128;
    /// Bytes per slab.
    pub const SLAB_BYTES: usize = GRANULE_BYTES * SLAB_GRANULES;
    /// Slabs at the start of the range that never use THP: a program with one 64 KiB block must not pay for zeroing
    /// 2 MiB (90 us and 2 MiB resident). One slab costs a large program 512 faults, once.
    pub const HEAD_SLABS: usize = 1;
    /// Slabs of fresh memory that get huge pages before anything is known of how the program touches it, at least (16 MiB) and at most
    /// (128 MiB): the least is what a block may waste that is not worth looking after, the most is touched in 3 to 12 ms, in which
    /// the keeper has looked at its middle. Source: a THP takes 50 us (Zen 5 guest) to 195 us (Intel guest).
    pub const TRUST_SLABS_MIN: usize = 8;
    /// See [`TRUST_SLABS_MIN`].
    pub const TRUST_SLABS_MAX: usize = 64;
    /// In between, one part in this many of what is handed out.
    pub const TRUST_SHARE: usize = 16;
    /// The same of large zeroed memory, of which programs often touch little.
    pub const TRUST_SLABS_ZEROED: usize = 3;
    /// Of what was found to be dense, one part in this many may be wasted on trust: glibc's memory and an eighth.
    pub const PROVEN_SHARE: usize = 8;
    /// Slabs that get huge pages once others were found to be dense, in multiples of these.
    pub const WINDOW_FACTOR: usize = 4;
    /// The least of these windows (64 MiB): a program fills it in 3 to 16 ms.
    pub const WINDOW_SLABS_MIN: usize = 32;
    /// It is no more than one part in this many of the memory that is left, to the machine or the control group.
    pub const LEFT_SHARE: usize = 8;
    /// Slabs from which on it is asked how much is left (32 MiB): the answer takes 30 us, touching them takes 1 to 3 ms.
    pub const LEFT_SLABS: usize = 16;
    /// Slabs that are sampled beside the probe, for programs that do not touch their memory from front to back.
    pub const SAMPLES: usize = 8;
    /// A slab is dense when no more than one part in this many of it is missing.
    pub const DENSE_SHARE: usize = 4;
    /// A slab is dense, too, when this part of it is resident from its beginning on: somebody is filling it.
    pub const BEGUN_SHARE: usize = 8;
    /// The least and the longest time in ns between two looks at a program that touches fresh memory, and after how long without
    /// anything new there are no more: a look takes 10 us of an idle processor.
    pub const WATCH_MIN_NS: u64 = 100_000;
    /// See [`WATCH_MIN_NS`].
    pub const WATCH_MAX_NS: u64 = 8_000_000;
    /// See [`WATCH_MIN_NS`].
    pub const WATCH_END_NS: u64 = 200_000_000;
    /// Bytes of addresses that the range may come to, halved until there is a place for it.
    pub const RANGE_BYTES: usize = 1 << 40;
    /// Bytes of addresses below which a pool is not worth having.
    pub const RANGE_MIN_BYTES: usize = 64 << 20;
    /// Where addresses or private memory are limited (`ulimit -v`, `-d`), free memory is at most one part in this many of the limit: the
    /// program must get nearly as much as without a pool.
    pub const LIMITED_SHARE: usize = 32;
    /// Slabs made usable at a time (64 MiB): a call of about 1 us per step, and under `vm.overcommit_memory=2` at most
    /// this much is charged ahead of need.
    pub const STEP_SLABS: usize = 32;
    /// Bytes from which a block comes from the pool where small ones come from elsewhere: glibc maps blocks from 128 KiB
    /// on by itself, and the waste of whole granules is 20 % at 64 KiB. Source: mallopt(3), M_MMAP_THRESHOLD.
    pub const THRESHOLD_BYTES: usize = 64 << 10;
    /// Bytes of free blocks kept resident by default. On smaller machines callers pass a share of the memory.
    pub const RETAIN_BYTES: usize = 4 << 30;
    /// That share: one part in this many of the memory that the process may use.
    pub const RETAIN_SHARE: usize = 4;
    /// Resident bytes, in use and free together, stay below the peak in use times 5/4 plus this many bytes: what
    /// fragmentation adds is bounded, while a program that swings below its peak never refaults.
    pub const SLACK_BYTES: usize = 32 << 20;
    /// Parts of the front: threads on different processors rarely meet in one. A power of two.
    pub const SHARDS: usize = 4;
    /// Blocks that a part of the front holds of one length, or of lengths that share a line: one cache line of words, looked
    /// through in 3 ns.
    pub const SLOTS: usize = 8;
    /// Lengths in granules below which each has a line of its own (512 KiB); above, those up to twice as long share one. A
    /// power of two.
    pub const FRONT_LENGTHS: usize = 32;
    /// Largest block in the front (8 MiB): above it the lock and the search are nothing beside touching the block.
    pub const FRONT_BLOCK_BYTES: usize = 8 << 20;
    /// Bytes that the front holds at most: per part 8 blocks of 640 KiB and more of other lengths, or two of the largest.
    pub const FRONT_BYTES: usize = 64 << 20;
    /// It is at most one part in this many of what may be kept.
    pub const FRONT_SHARE: usize = 4;
    /// Bytes that a part of the front takes, while the keeper sleeps, before it is looked again whether it has to be called:
    /// little beside [`FLOOR_BYTES`], and few looks until a program has come to its peak.
    pub const FRONT_STEP_BYTES: usize = 1 << 20;
    /// Largest alignment in bytes, what an entry of the third level of page tables maps. Slabs that it skips are entered into
    /// the tables one by one under the lock: 512 of them at the most, some 10 us.
    pub const ALIGN_BYTES: usize = 1 << 30;
    /// Slabs looked at for a run in a special state, zeroed or dirty: a search that may find none must end.
    pub const TRIES: usize = 16;
    /// A block that grows for this many-th time gets addresses behind it.
    pub const GROWN_OFTEN: u32 = 2;
    /// Room behind such a block, in multiples of its length; addresses cost nothing.
    pub const ROOM_FACTOR: usize = 16;
    /// Room is at most one part in this many of the addresses that are left.
    pub const ROOM_SHARE: usize = 16;
    /// Slabs given back or made resident in one call (32 MiB): what nobody else can have meanwhile, for 0.2 ms of giving
    /// back, 1.5 ms of populating (THP on a Zen 5 guest).
    pub const ERRAND_SLABS: usize = 16;
    /// Dirty runs of partly used slabs that are zeroed ahead of need, in granules: first those of at least 1 MiB, and none
    /// below the smallest block that is worth it.
    pub const SCRUB_GRANULES: [usize; 3] = [64, 16, 4];
    /// Without a keeper `free` gives pages back at the bound; with one, only beyond this many times the bound, should the
    /// keeper not get a processor.
    pub const UNATTENDED: usize = 2;
    /// Bytes of wholly free slabs from which on they are left out of children: below, copying their page tables is cheaper
    /// than the calls: 31 us per MiB of base pages on a Zen 5 guest.
    pub const WITHHOLD_BYTES: usize = 8 << 20;
    /// Runs of slabs that are left out at most: each is a mapping of its own meanwhile, and two calls.
    pub const WITHHOLD_RUNS: usize = 64;
    /// Smallest block (1 MiB), in granules, of which it is looked up at its end what was ever touched: 2 ns per page. A
    /// large block may be a table of which the program used a little, and zeroing all of it for the next one would make
    /// it all resident.
    pub const SPARSE_GRANULES: usize = 64;
    /// Shortest gap in it (256 KiB), in granules, that counts as never touched: each costs two calls.
    pub const GAP_GRANULES: usize = 16;
    /// Blocks of a size of which less than one part in this many was touched are sparse: giving dirty pages back instead of
    /// zeroing them costs a tenth, and a touch twice as much. Source: THP on a Zen 5 guest.
    pub const SPARSE_SHARE: usize = 4;
    /// Moves of page tables before growing blocks are copied instead: each may leave two more mappings behind, and
    /// `vm.max_map_count` is 65530.
    pub const MOVES: u16 = 1 << 12;
    /// Bytes of free memory that never decay: less is not worth a thread (16 huge pages, 3 ms to fault in again).
    pub const FLOOR_BYTES: usize = 32 << 20;
    /// Time in ns after which memory that nobody needed has gone back. Source: what DuckDB and mimalloc 3 settled on.
    pub const DECAY_NS: u64 = 1_000_000_000;
    /// The same in a guest that gives free pages back to its host: the next touch of each is a fault in both, 4 to 8 times the
    /// price on a Zen 5 guest.
    pub const DECAY_REPORTING_NS: u64 = 10_000_000_000;
    /// Ticks per decay time: the keeper's looks, but where it works ahead of need and looks more often.
    pub const TICKS: u64 = 16;
    /// Ticks during which memory must have been needed by nobody before any goes back: a program that swings faster than a quarter of
    /// the decay time keeps all of it.
    pub const QUIET_TICKS: usize = 4;
    /// Parts in which the rest goes back, one a tick: all has gone by the end of the decay time, wherever in a tick it was freed.
    pub const PARTS: usize = 11;
    /// The least time between two ticks in ns.
    pub const TICK_MIN_NS: u64 = 5_000_000;
    /// The time between two ticks without a decay time, and between two looks for an idle processor, in ns.
    pub const TICK_NS: u64 = 50_000_000;
    /// Share of the last 10 s in which tasks waited for memory, in hundredths of a percent, from which on everything idle
    /// goes back at once. Source: judgement; `faultless doctor` warns from there on too.
    pub const MEMORY_WAITING: u32 = 500;
    /// The same for processors, from which on nothing is done ahead of need.
    pub const CPU_WAITING: u32 = 2000;
    /// A control group is near its limit when less than one part in this many is left.
    pub const NEAR_SHARE: u64 = 16;
    /// Slabs zeroed between two looks at whether a processor is idle: 8 times some 25 us of work, for 5 us of looking.
    pub const SCRUB_STEPS: usize = 8;
    /// Bytes zeroed or stocked per look at the most, lest the keeper be the one who uses the idle processor up.
    pub const AHEAD_BYTES: usize = 256 << 20;
}
