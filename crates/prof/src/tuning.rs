//! Every number that was chosen rather than found, with unit, reason and source.

/// Pages touched per block of the start-up calibration. One block takes about 0.05 ms, below most scheduling noise.
pub(crate) const CALIBRATION_BLOCK_PAGES: usize = 32;
/// Blocks with the events, and as many without. 192 pages each: the median moves by 1 to 2 % from run to run, and
/// the whole costs about 1 ms of CPU (measured on a 2-core EPYC guest).
pub(crate) const CALIBRATION_ROUNDS: usize = 6;
/// Ring of the calibration, pages: two records of 64 bytes for each page of a block fit several times.
pub(crate) const CALIBRATION_RING_PAGES: usize = 16;

/// Largest ring for faults and mappings per processor, pages (512 KiB, what a normal user may lock by default): 6 ms of
/// the fastest faulting seen. The kernel allocates and zeroes it whole: 2 MiB cost 1 ms per processor at start.
pub(crate) const RING_PAGES_MAX: usize = 128;
/// So many bytes of records call for a look at once: about 130 faults, a burst. Less would wake us more often, and a wake-up
/// costs 27 us (measured); more would let a burst overrun its credit.
pub(crate) const WAKE_BYTES: u32 = 16 << 10;
/// Smallest ring worth having, pages.
pub(crate) const RING_PAGES_MIN: usize = 8;
/// Processors that are tried where /sys does not list them.
pub(crate) const CPUS_MAX: u32 = 1024;
/// Ring for kernel stacks per processor, pages (256 KiB): about a second of samples.
pub(crate) const KERNEL_RING_PAGES: usize = 64;
/// Ring for kernel stacks of the calling thread, pages (8 MiB): some 25 000 samples, since nobody reads it meanwhile.
pub(crate) const OWN_RING_PAGES: usize = 2048;
/// Kernel samples per second of CPU where they are asked for; a prime, so that it does not run in step with timers. Costs
/// 2 % of the program's CPU time (measured: a timer interrupt in a guest takes some 20 us).
pub(crate) const KERNEL_HERTZ: u64 = 997;
/// The same where they are only taken if they are cheap.
pub(crate) const KERNEL_CHEAP_HERTZ: u64 = 199;
/// Fewer kernel samples than this tell nothing: no share from them would be better than +-10 %.
pub(crate) const KERNEL_SAMPLES_MIN: u64 = 400;
/// CPU samples of the program, at the cheap rate, from which on the 50 ms to read /proc/kallsyms (measured, 122 000 symbols)
/// are 1 % or less.
pub(crate) const KERNEL_SAMPLES_CHEAP: u64 = 1_000;

/// Cost that recording may cause before it is paced, ns: about 700 faults, a program's start.
pub(crate) const RECORD_FREE_NS: f64 = 1_300_000.0;
/// CPU time of the program, ns, in which recording may cost more and pauses are short: a program of some ten milliseconds
/// has phases too.
pub(crate) const EARLY_CPU_NS: u64 = 60_000_000;
/// Share of the program's CPU time that recording may cost in it: 1.8 ms in all.
pub(crate) const EARLY_SHARE: f64 = 0.030;
/// Mean pause between bursts in it, ns.
pub(crate) const EARLY_PAUSE_NS: u64 = 3_000_000;
/// Credit needed to begin a burst in it, ns: some fifty faults.
pub(crate) const EARLY_BURST_NS: f64 = 80_000.0;
/// Share of the program's CPU time that recording may cost after that.
pub(crate) const RECORD_SHARE: f64 = 0.008;
/// Credit that a quiet program can save up, ns: about 16 000 faults.
pub(crate) const RECORD_CREDIT_MAX_NS: f64 = 20_000_000.0;
/// Credit needed to begin a burst, ns: above a hundred faults, enough to be worth two switches; more bursts narrow the
/// interval more than longer ones.
pub(crate) const RECORD_BURST_NS: f64 = 250_000.0;
/// Mean pause between bursts, ns; drawn from half to one and a half of it so as not to lock on to the program's phases.
pub(crate) const RECORD_PAUSE_NS: u64 = 19_000_000;
/// Longest recorded window, ns: windows are split so that a figure can be scaled near where it was measured.
pub(crate) const RECORD_WINDOW_NS: u64 = 10_000_000;
/// From this many recorded faults on, the share falls in inverse proportion, to bound memory on long runs.
pub(crate) const RECORD_FAULTS_FULL_SHARE: f64 = 200_000.0;
/// What our own side of a recorded fault costs, ns: two records copied, sorted, decoded and stored, and a share of the
/// wake-ups (measured: 5.5 ms for 3 600 faults).
pub(crate) const DRAIN_COST_NS: f64 = 1_500.0;
/// What a recorded fault costs the program where calibration has no figure, ns (facts: 1.2 us).
pub(crate) const RECORD_COST_DEFAULT_NS: f64 = 1_200.0;

/// Shortest time between two readings of the levels, ns.
pub(crate) const TICK_MIN_NS: u64 = 500_000;
/// Longest, ns, in the first [`EARLY_CPU_NS`].
pub(crate) const TICK_EARLY_NS: u64 = 2_000_000;
/// Longest, ns, where a reading is cheap, however little happens.
pub(crate) const TICK_MAX_NS: u64 = 20_000_000;
/// Longest at all, ns, however much a reading costs: with hundreds of processes it takes milliseconds.
pub(crate) const TICK_COSTLY_NS: u64 = 1_000_000_000;
/// Share of one processor that reading the levels may take, the wake-ups for it included.
pub(crate) const TICK_SHARE: f64 = 0.005;
/// Readings between two looks at our own CPU clock.
pub(crate) const TICKS_PER_COST_CHECK: u32 = 16;
/// Levels kept before every second one is dropped and the tick is doubled (24 bytes each).
pub(crate) const LEVELS_MAX: usize = 400_000;
/// Mappings and tasks kept; a program that maps without end would fill the memory (about 150 bytes each).
pub(crate) const TASK_RECORDS_MAX: usize = 1_000_000;
/// Time between two attempts to reap adopted orphans, ns.
pub(crate) const REAP_NS: u64 = 500_000_000;
/// Time between two readings of the kernel stacks' rings, ns.
pub(crate) const KERNEL_DRAIN_NS: u64 = 100_000_000;
/// Sleep between two looks where nothing is read while the program runs, ns.
pub(crate) const NOTHING_TO_READ_NS: u64 = 1_000_000_000;
/// Time between two walks through /proc for new children, where no event tells of them, ns.
pub(crate) const DISCOVER_NS: u64 = 10_000_000;
/// So many faults since the last look call for the next one soon.
pub(crate) const BUSY_FAULTS: u64 = 100;

/// A writer of the allocation journal that has not said who it is this long after it took a place is taken for dead, ns: it says so
/// within a few instructions.
pub(crate) const JOURNAL_NAMELESS_NS: u64 = 100_000_000;
/// A living writer that has not finished by then was stopped, or left by longjmp, ns: it finishes within a microsecond of
/// its own time.
pub(crate) const JOURNAL_UNFINISHED_NS: u64 = 1_000_000_000;
