//! The tuning numbers of this crate, each with unit, reason and source.

/// Bytes per granule, the unit of blocks. A 64 KiB block wastes at most 20 %, and one 128-bit mask describes a slab.
/// Size classes, tried instead, took a third more memory at the peak than glibc.
pub const GRANULE_BYTES: usize = 16 << 10;
/// Granules per slab: one mask. A slab is 2 MiB, the size of a THP on x86-64 and on aarch64 with 4 KiB pages.
pub(crate) const SLAB_GRANULES: usize = 128;
/// Bytes per slab.
pub const SLAB_BYTES: usize = GRANULE_BYTES * SLAB_GRANULES;
/// Slabs at the start of the range that never use THP. Otherwise a program with one 64 KiB block would pay for zeroing
/// 2 MiB (90 us, and 2 MiB resident). One slab costs a large program 512 faults, once.
pub const HEAD_SLABS: usize = 1;
/// New slabs that take huge pages on trust (8 MiB). A block may waste that much. A program touches them in 0.2 to 0.8
/// ms, and the background thread inspects one of them meanwhile. Source: a THP takes 50 us (Zen 5 guest) to 195 us
/// (Intel guest).
pub(crate) const TRUST_SLABS: usize = 4;
/// One part in this many of the dense slabs may be wasted on trust: no more than glibc's memory and an eighth.
pub(crate) const PROVEN_SHARE: usize = 8;
/// The next window of an extent is this many times as long as its dense part.
pub(crate) const WINDOW_FACTOR: usize = 4;
/// The least length of such a window, in slabs (64 MiB). A program fills it in 3 to 16 ms.
pub(crate) const WINDOW_SLABS_MIN: usize = 32;
/// Slabs from which on the available memory is looked up (32 MiB). The lookup takes 30 us; touching them takes 1 to 3
/// ms.
pub(crate) const AVAILABLE_SLABS: usize = 16;
/// Slabs that are sampled: of fresh memory beside the probe, for programs that do not touch it from front to back; and of
/// a long block that ends.
pub(crate) const SAMPLES: usize = 8;
/// A slab is dense if at most one part in this many of it is not resident.
pub(crate) const DENSE_SHARE: usize = 4;
/// A slab is also dense if the first part in this many of it is resident: the program is filling it. With an eighth,
/// blocks of 1.6 MB that are used to a quarter passed for dense.
pub(crate) const BEGUN_SHARE: usize = 2;
/// The least time in ns between two inspections of fresh memory. An inspection takes 10 us of an idle processor.
pub(crate) const POLL_MIN_NS: u64 = 100_000;
/// The longest time in ns between two inspections.
pub(crate) const POLL_MAX_NS: u64 = 8_000_000;
/// The time in ns without new evidence after which the inspections end.
pub(crate) const POLL_END_NS: u64 = 200_000_000;
/// Bytes of addresses in the range. The number is halved until there is a place for the range.
pub(crate) const RANGE_BYTES: usize = 1 << 40;
/// Bytes of addresses below which a pool is not useful.
pub(crate) const RANGE_MIN_BYTES: usize = 64 << 20;
/// Under a limit on addresses or private memory (`ulimit -v`, `-d`), free memory is at most one part in this many of
/// the limit. The program must get nearly as much as without a pool.
pub(crate) const LIMITED_SHARE: usize = 32;
/// Slabs made usable at a time (64 MiB): a call of about 1 us per step. Under `vm.overcommit_memory=2` this much may be
/// charged ahead of need.
pub const STEP_SLABS: usize = 32;
/// Bytes from which a block comes from the pool, where another allocator serves the small ones. glibc maps blocks of
/// 128 KiB and more, and rounding to granules wastes 20 % at 64 KiB. Source: mallopt(3), M_MMAP_THRESHOLD.
pub const THRESHOLD_BYTES: usize = 64 << 10;
/// Bytes of free blocks that stay resident by default. On smaller machines callers pass a share of the memory.
pub const RETAIN_BYTES: usize = 4 << 30;
/// That share: one part in this many of the memory that the process may use.
pub const RETAIN_SHARE: usize = 4;
/// Resident bytes, in use and free together, stay below 9/8 of the peak in use plus [`SLACK_BYTES`]. This bounds
/// fragmentation, and a program that swings below its peak never refaults.
pub(crate) const PEAK_SHARE: usize = 8;
/// See [`PEAK_SHARE`].
pub(crate) const SLACK_BYTES: usize = 4 << 20;
/// Fresh memory of which less than one part in this many is untouched counts as touched.
pub(crate) const DOUBT_SHARE: usize = 8;
/// The pool holds at most one part in this many of what a control group leaves free. The kernel can take the rest. A
/// quarter was too much: `malloc 450; free; mmap 500` in a group of 512 MiB was killed.
pub(crate) const GROUP_SHARE: usize = 16;
/// A block that fills all but one part in this many of its alignment leaves no gap worth base pages.
pub(crate) const FULL_SHARE: usize = 4;
/// Shards of the front: threads on different processors rarely share one. A power of two.
pub const SHARDS: usize = 4;
/// Blocks that a shard holds of one length, or of lengths that share a line: one cache line of words, searched in 3 ns.
pub(crate) const SLOTS: usize = 8;
/// Lengths in granules below which each length has a line of its own (512 KiB). Above, all lengths within a doubling
/// share one. A power of two.
pub(crate) const FRONT_LENGTHS: usize = 32;
/// Largest block in the front (8 MiB). For larger blocks the lock and the search cost nothing compared with touching
/// them.
pub(crate) const FRONT_BLOCK_BYTES: usize = 8 << 20;
/// Most bytes in the front: per shard 8 blocks of 640 KiB and more of other lengths, or two of the largest.
pub(crate) const FRONT_BYTES: usize = 64 << 20;
/// The front has at most one part in this many of the bytes that may be retained.
pub(crate) const FRONT_SHARE: usize = 4;
/// Bytes that a shard takes before it checks again whether to wake the background thread. Small compared with
/// [`FLOOR_BYTES`], and few checks until a program reaches its peak.
pub const FRONT_STEP_BYTES: usize = 1 << 20;
/// Largest alignment in bytes: one entry of the third level of page tables. The pool files the skipped slabs one by one
/// under the lock: at most 512, which takes some 10 us.
pub const ALIGN_BYTES: usize = 1 << 30;
/// Slabs searched for a zeroed or dirty run, because there may be none.
pub(crate) const TRIES: usize = 16;
/// A block that grows for this many-th time gets room behind it.
pub(crate) const GROWN_OFTEN: u32 = 2;
/// Room behind such a block, in multiples of its length. Addresses cost nothing.
pub(crate) const ROOM_FACTOR: usize = 16;
/// Room is at most one part in this many of the remaining addresses.
pub(crate) const ROOM_SHARE: usize = 16;
/// Slabs in one claim (32 MiB). Nobody else can take them for 0.2 ms while they are purged, or 1.5 ms while they are
/// populated (THP on a Zen 5 guest).
pub(crate) const CLAIM_SLABS: usize = 16;
/// Lengths in granules of the dirty runs to scrub in partly used slabs: at least 1 MiB first, then shorter ones, down
/// to the smallest block of the pool.
pub(crate) const SCRUB_GRANULES: [usize; 3] = [64, 16, 4];
/// Bytes of wholly free slabs from which on children do not get them. The calls take some 5 us; for a slab of base
/// pages, copying the page table takes 20 us, and the parent's next use 512 CoW faults (Zen 5 guest).
pub(crate) const WITHHOLD_BYTES: usize = SLAB_BYTES;
/// Most runs of slabs to withhold. Each is a mapping of its own meanwhile, and takes two calls.
pub(crate) const WITHHOLD_RUNS: usize = 64;
/// Smallest block, in granules (1 MiB), whose residency is looked up when it ends: 2 ns per page. It may be a table of
/// which the program used a little. Zeroing all of it for the next block would make all of it resident.
pub(crate) const SPARSE_GRANULES: usize = 64;
/// Zeroed blocks of this many granules (32 MiB) take memory that is not resident. glibc maps such blocks anew, too.
/// Source: mallopt(3), DEFAULT_MMAP_THRESHOLD_MAX.
pub(crate) const LARGE_GRANULES: usize = 2048;
/// Shortest untouched gap in such a block, in granules (256 KiB), that goes back. Each gap takes two calls.
pub(crate) const GAP_GRANULES: usize = 16;
/// A block is sparse if less than one part in this many of it was touched. Purging dirty pages costs a tenth of zeroing
/// them, and a touch twice as much. Source: THP on a Zen 5 guest.
pub(crate) const SPARSE_SHARE: usize = 4;
/// Moves of page tables after which growing blocks are copied instead. Each move may leave two more mappings behind,
/// and `vm.max_map_count` is 65530.
pub(crate) const MOVES: u16 = 1 << 12;
/// Bytes of free memory that never decay: less is not worth a thread (8 huge pages, 1.5 ms to fault in again).
pub const FLOOR_BYTES: usize = 16 << 20;
/// Time in ns after which idle memory has gone back. Source: the defaults of DuckDB and mimalloc 3.
pub const DECAY_NS: u64 = 1_000_000_000;
/// The same in a guest that gives free pages back to its host. The next touch of such a page faults in both, at 4 to 8
/// times the price on a Zen 5 guest.
pub(crate) const DECAY_REPORTING_NS: u64 = 10_000_000_000;
/// Ticks per decay time. The background thread has one round per tick, or several with work ahead of need.
pub(crate) const TICKS: u64 = 16;
/// Ticks during which memory must be idle before any of it goes. A program that swings faster than a quarter of the
/// decay time keeps all of it.
pub(crate) const QUIET_TICKS: usize = 4;
/// Parts in which idle memory goes, one per tick. All of it has gone at the end of the decay time, even if it was freed
/// in the middle of a tick.
pub(crate) const PARTS: usize = 11;
/// The least time between two ticks in ns.
pub(crate) const TICK_MIN_NS: u64 = 5_000_000;
/// The time in ns between two ticks without a decay time, between two checks for an idle processor, and between two
/// checks whether the thread has to end. So long may a process outlive its last own thread, or libpsx wait. A check
/// takes 15 us.
pub const TICK_NS: u64 = 50_000_000;
/// Share of the last 10 s in which tasks waited for memory, in hundredths of a percent, from which on all idle memory
/// goes at once. Source: judgement; `faultless doctor` warns from the same share on.
pub(crate) const MEMORY_WAITING: u32 = 500;
/// The same share for processors, from which on nothing is done ahead of need.
pub(crate) const CPU_WAITING: u32 = 2000;
/// A control group is near its limit if less than one part in this many is left.
pub(crate) const NEAR_SHARE: u64 = 16;
/// Slabs scrubbed between two checks for an idle processor: 8 times some 25 us of work, for a check of 5 us.
pub(crate) const SCRUB_STEPS: usize = 8;
/// Most bytes scrubbed or stocked per round, so that the background thread does not keep the idle processor busy by
/// itself.
pub(crate) const AHEAD_BYTES: usize = 256 << 20;
