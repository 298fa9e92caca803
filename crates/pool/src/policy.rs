//! What a pool may do, as a few enums, and every tuning number of this crate.
//!
//! In: nothing. Out: plain values. No decision is taken here.

/// Which pages back the pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Page {
    /// Base pages only.
    Base,
    /// THP for all slabs but the first few, see [`tuning::HEAD_SLABS`].
    #[default]
    Thp,
}

/// When pages become resident.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Prefault {
    /// At the first touch.
    #[default]
    None,
    /// When a block is handed out: one call instead of a fault per page, and no fault later.
    Populate,
}

/// How many bytes of free blocks may stay resident.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retain {
    /// The bound in bytes; 0 keeps nothing.
    pub bytes: usize,
}

impl Default for Retain {
    fn default() -> Self {
        Self { bytes: tuning::RETAIN_BYTES }
    }
}

/// The policy of a pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Policy {
    /// Which pages back it.
    pub page: Page,
    /// When they become resident.
    pub prefault: Prefault,
    /// How much stays resident when free.
    pub retain: Retain,
}

/// The tuning numbers: unit, reason, source.
pub mod tuning {
    /// Bytes per granule, the unit in which blocks are cut: wastes at most 20 % of a 64 KiB block and lets one
    /// 128-bit mask describe a slab. Source: facts/pool-blueprint.md.
    pub const GRANULE_BYTES: usize = 16 << 10;
    /// Granules per slab: one mask. A slab is 2 MiB, what a THP maps on x86-64 and on aarch64 with 4 KiB pages.
    pub const SLAB_GRANULES: usize = 128;
    /// Bytes per slab.
    pub const SLAB_BYTES: usize = GRANULE_BYTES * SLAB_GRANULES;
    /// Slabs at the start of the range that never use THP: a program with one 64 KiB block must not pay for zeroing
    /// 2 MiB (90 us and 2 MiB resident). Two slabs cost a large program 1024 faults, once.
    pub const HEAD_SLABS: usize = 2;
    /// Bytes of addresses asked for first, halved until the kernel agrees; page tables grow only with use.
    pub const RESERVE_BYTES: usize = 1 << 40;
    /// Bytes of addresses below which a pool is not worth having.
    pub const RESERVE_MIN_BYTES: usize = 64 << 20;
    /// With a limit on address space, the pool takes at most one part in this many: the rest is the program's.
    pub const LIMITED_SHARE: usize = 4;
    /// Slabs made usable at a time (64 MiB): a call of about 1 us per step, and under `vm.overcommit_memory=2` at most
    /// this much is charged ahead of need.
    pub const STEP_SLABS: usize = 32;
    /// Bytes of free blocks kept resident by default. On smaller machines callers pass a share of the memory.
    pub const RETAIN_BYTES: usize = 4 << 30;
    /// That share: one part in this many of the memory that the process may use.
    pub const RETAIN_SHARE: usize = 4;
    /// Resident bytes, in use and free together, stay below the peak in use times 5/4 plus this many bytes: what
    /// fragmentation adds is bounded, while a program that swings below its peak never refaults.
    pub const SLACK_BYTES: usize = 32 << 20;
    /// Parts of the front: threads on different processors rarely meet in one. A power of two.
    pub const SHARDS: usize = 4;
    /// Blocks that a part of the front holds: one cache line of words, looked through in 3 ns.
    pub const SLOTS: usize = 8;
    /// Largest block in the front (8 MiB): above it the lock and the search are nothing beside touching the block.
    pub const FRONT_BLOCK_BYTES: usize = 8 << 20;
    /// Bytes that the front holds at most: 25 blocks of 640 KiB per processor, or two of the largest.
    pub const FRONT_BYTES: usize = 64 << 20;
    /// It is at most one part in this many of what may be kept.
    pub const FRONT_SHARE: usize = 4;
    /// Slabs looked at for a run in a special state, zeroed or dirty: a search that may find none must end.
    pub const TRIES: usize = 16;
    /// A block that grows for this many-th time gets addresses behind it.
    pub const GROWN_OFTEN: u32 = 2;
    /// Room behind such a block, in multiples of its length; addresses cost nothing.
    pub const ROOM_FACTOR: usize = 16;
    /// Room is at most one part in this many of the addresses that are left.
    pub const ROOM_SHARE: usize = 16;
    /// Slabs given back or made resident in one call (32 MiB): what nobody else can have meanwhile, for 0.2 ms of giving
    /// back, 3 ms of populating. Source: facts/allocators.md section 4.
    pub const ERRAND_SLABS: usize = 16;
    /// Dirty runs of partly used slabs that are zeroed ahead of need, in granules: first those of at least 1 MiB, and none
    /// below the smallest block that is worth it.
    pub const SCRUB_GRANULES: [usize; 3] = [64, 16, 4];
    /// Without a keeper `free` gives pages back at the bound; with one, only beyond this many times the bound, should the
    /// keeper not get a processor.
    pub const UNATTENDED: usize = 2;
    /// Bytes of wholly free slabs from which on they are left out of children: below, copying their page tables is cheaper
    /// than the calls. Source: facts/allocators.md section 7.
    pub const WITHHOLD_BYTES: usize = 8 << 20;
    /// Runs of slabs that are left out at most: each is a mapping of its own meanwhile, and two calls.
    pub const WITHHOLD_RUNS: usize = 64;
    /// Smallest block (4 MiB), in granules, of which it is looked up at its end what was ever touched: 2 ns per page. A
    /// large block may be a table of which the program used a little, and zeroing all of it for the next one would make
    /// it all resident.
    pub const SPARSE_GRANULES: usize = 256;
    /// Blocks of a size of which less than one part in this many was touched are sparse: giving dirty pages back instead of
    /// zeroing them costs a tenth, and a touch twice as much. Source: facts/allocators.md section 4, THP.
    pub const SPARSE_SHARE: usize = 4;
    /// Moves of page tables before growing blocks are copied instead: each may leave two more mappings behind, and
    /// `vm.max_map_count` is 65530.
    pub const MOVES: u16 = 1 << 12;
}
