//! Every number that was chosen rather than found, with unit, reason and source.

/// Pages touched per block of the start-up calibration. One block takes about 0.05 ms, below most scheduling noise.
pub(crate) const CALIBRATION_BLOCK_PAGES: usize = 32;
/// Blocks with the events, and as many without: 512 pages each, some 3 ms.
pub(crate) const CALIBRATION_ROUNDS: usize = 16;
/// The same of reads, and of pages that are mapped: with 16, some 8 ms, the offset of the latter moved by 35 ns from run to run, with 8 by 50.
pub(crate) const CALIBRATION_OTHER_ROUNDS: usize = 8;
/// Times that events are opened to see what that costs every fault: the median of them. Each patches the kernel's code, some 0.4 ms.
pub(crate) const CALIBRATION_OPENINGS: usize = 5;
/// The same for `doctor --check`, which takes it from the truth of each program.
pub(crate) const OPENINGS: usize = 200;
/// Huge pages touched after a run that may have had some, twice: 0.4 to 2 ms in all.
pub(crate) const CALIBRATION_HUGE_PAGES: usize = 5;
/// Least ring of the calibration, pages: the records of a block fit in, those with stacks once.
pub(crate) const CALIBRATION_RING_PAGES: usize = 16;
/// Faults of a burst, and of the calibration, per fault whose entry is written twice. A prime, and more than [`WRITING_NEIGHBOURS`].
pub(crate) const WRITING_PERIOD: u64 = 7;
/// Faults before and behind such a one that it is set beside.
pub(crate) const WRITING_NEIGHBOURS: usize = 4;
/// Time, ns, between faults that are no longer neighbours: the machine may have changed.
pub(crate) const WRITING_GAP_NS: u64 = 1_000_000;
/// Fewer of them tell nothing.
pub(crate) const WRITING_MIN: usize = 16;
/// Of so many the median varies by a hundredth.
pub(crate) const WRITING_MAX: usize = 20_000;
/// How much faster or slower than in the calibration writing may be taken to be: twice, as on a guest whose processor changes between two
/// states, and some chance.
pub(crate) const WRITING_SLOWER: (f64, f64) = (0.4, 2.5);
/// Standard deviation of that from run to run, before anything is known of a run (a busy guest: calibrations varied by so much).
pub(crate) const WRITING_SPREAD: f64 = 0.3;
/// Time between two readings of its ring: a block is written in about this.
pub(crate) const CALIBRATION_READ: std::time::Duration = std::time::Duration::from_micros(100);

/// Largest ring for faults and mappings per processor, pages (512 KiB, what a normal user may lock by default): 6 ms of
/// the fastest faulting seen. The kernel allocates and zeroes it whole: 2 MiB cost 1 ms per processor at start.
pub(crate) const RING_PAGES_MAX: usize = 128;
/// Part of a ring that calls for a look by itself, where looks in time have failed. It interrupts the program, within a fault, which
/// costs that fault 10 to 30 us (measured): a look in each 130 faults lengthened them by a fifth in the mean.
pub(crate) const WAKE_PART: usize = 4;
/// Time between two looks while a program faults fast and its faults are recorded, ns: some hundred of the fastest.
pub(crate) const BURST_LOOK_NS: u64 = 200_000;
/// Faults recorded since the last look from which on it faults fast: who faults more slowly does not overrun the credit, and a look costs
/// some 20 us.
pub(crate) const BURST_FAULTS: u64 = 40;
/// The same where stacks come along, pages (4 MiB): some 3 000 faults, 3 ms of the fastest faulting seen. A normal user gets
/// [`RING_PAGES_MAX`], which is what the kernel lets him lock.
pub(crate) const RECORD_RING_PAGES_MAX: usize = 1024;
/// The same where every fault is recorded, pages (16 MiB): some ten ms, for who unwinds while all processors are busy falls behind.
pub(crate) const RECORD_ALL_RING_PAGES_MAX: usize = 4 * RECORD_RING_PAGES_MAX;
/// Least time between two copies of the rings where every fault is recorded, or still is: a normal user's holds some 400 faults, 2 ms of a program
/// that takes 5 us for each because it is recorded.
pub(crate) const SPOOL_PAUSE: std::time::Duration = std::time::Duration::from_micros(250);
/// The most for each MiB of ring, one at least: a program that begins to fault fast does not fill it before the next copy.
pub(crate) const SPOOL_PAUSE_PER_MIB: std::time::Duration = std::time::Duration::from_millis(1);
/// The most for any ring.
pub(crate) const SPOOL_PAUSE_MAX: std::time::Duration = std::time::Duration::from_millis(4);
/// Part of a ring that is filled between two copies. A copy in 0.3 ms interrupted one fault in 80 for some 12 us, so that faults read 6 % too
/// long (measured).
pub(crate) const SPOOL_PART: usize = 4;
/// Age of a program, ns, from which on its rings are no longer copied ahead: who has not spent the free credit by then faults slowly.
pub(crate) const AHEAD_NS: u64 = 500_000_000;
/// Bytes that are copied ahead of who unwinds, all processors together: 200 000 faults.
pub(crate) const SPOOL_BYTES_MAX: usize = 256 << 20;
/// Room for copied bytes that is kept from one look to the next, per processor.
pub(crate) const COPIED_BYTES_KEPT: usize = 4 << 20;
/// Least faults per sample outside bursts; the least of these that costs no more than [`SAMPLE_SHARE`] of a program that does
/// nothing but fault. The period is a prime between it and 5/4 of it, drawn anew for each recording: a loop that runs in step with one
/// does not with the next.
pub(crate) const SAMPLE_PERIODS: [u64; 4] = [97, 193, 389, 769];
/// The same at first, where no stacks come along: [`EARLY_SAMPLES`] of them cost 2 ms, and stand for 10 000 faults with a mean that is
/// within some 5 %.
pub(crate) const EARLY_SAMPLE_PERIOD: u64 = 13;
/// Samples so taken.
pub(crate) const EARLY_SAMPLES: u64 = 770;
/// See [`EARLY_SAMPLE_PERIOD`], where stacks come along.
pub(crate) const EARLY_STACK_PERIOD: u64 = 31;
/// Samples so taken: 5 ms of the program. The first 10 000 faults are recorded whole; a program of 50 000 then has some 1 300 samples, so
/// that a kind of a tenth of its faults is known within 20 %. With one of 479 from the start it had 92.
pub(crate) const EARLY_STACK_SAMPLES: u64 = 1_500;
/// What a sampled fault costs the program, ns: two records (measured); our side, on another processor, takes 1.5 us.
pub(crate) const SAMPLE_COST_NS: f64 = 1_200.0;
/// The same with its stack, ns (measured); our side takes 5 us.
pub(crate) const STACK_SAMPLE_COST_NS: f64 = 4_000.0;
/// Share of a program that does nothing but fault.
pub(crate) const SAMPLE_SHARE: f64 = 0.015;
/// Samples kept in memory before one in two is left out, and again (some 200 bytes each).
pub(crate) const SAMPLES_BEFORE_THINNING: u64 = 50_000;
/// Samples in a row whose entry was of another fault, from which on they begin anew.
pub(crate) const APART_SAMPLES: u32 = 2;
/// Time, ns, in which that is tried [`ALIGNS_MAX`] times: each interrupts the program for some 50 us, so 1.6 % of it at most, and only until
/// one succeeds.
pub(crate) const ALIGN_NS: u64 = 50_000_000;
/// See [`ALIGN_NS`]. One fails when it falls into a fault; of a program that is in one three quarters of its time all fail in one of 100 cases.
/// With 4 tries half of the samples of one run in four stayed without a time (measured).
pub(crate) const ALIGNS_MAX: u32 = 16;
/// Time, ns, from which on faults are made up for that sampled events missed while they were off: it takes 50 us where nothing else wants
/// the processor.
pub(crate) const SAMPLES_OFF_NS: u64 = 500_000;
/// Bytes of stack copied per sample: six frames of small functions lie in 256 (facts), those of real ones in about this.
pub(crate) const STACK_BYTES: u32 = 1024;
/// So much of what lies above is read from the process, once per thread and look: 16 pages cost some 10 us, and 64 KiB hold the
/// stacks of an interpreter or a sort in a data base. On the program's side it costs nothing, as a longer copy would.
pub(crate) const STACK_REST_BYTES: usize = 64 << 10;
/// Stacks read so per look: a hundred threads, 1 ms.
pub(crate) const STACK_RESTS_MAX: usize = 100;
/// Ends of stacks kept per process, so that a deep recursion takes no more than some MiB.
pub(crate) const STACK_TAILS_MAX: usize = 10_000;
/// Bytes at the end of a copy that are taken to show that it is still the same call: eight words.
pub(crate) const STACK_SAME_BYTES: usize = 64;
/// Our own side of a recorded fault with its stack, ns: copied, unwound, decoded, written (measured: 30 ms for 9 800 records, with the
/// wake-ups).
pub(crate) const RECORD_DRAIN_COST_NS: f64 = 3_000.0;
/// Shortest wait for `mmap_lock` that is written down, ns: taking a free lock looks like some hundred.
pub(crate) const LOCK_WAIT_NS: u64 = 2_000;
/// Time between two writings of what waits for the trace file, ns: what a killed recorder loses.
pub(crate) const FLUSH_NS: u64 = 500_000_000;
/// Time between two readings of what an attached process has used, ns.
pub(crate) const USAGE_NS: u64 = 500_000_000;
/// Time between two reports of progress, ns.
pub(crate) const PROGRESS_NS: u64 = 500_000_000;
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
/// The same where stacks come along, ns: eight to twelve thousand faults, by what the calibration says of one, so that
/// the recording of a short program holds all.
pub(crate) const STACKS_FREE_NS: f64 = 50_000_000.0;
/// Length of the file from which on recording is paced though free cost is left, bytes. A fault takes 50 of them, with a new stack and its
/// names a thousand: a job of 2 246 faults in an interpreter has 2.3 MB (measured).
pub(crate) const KEEP_ALL_BYTES: u64 = 8 << 20;
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
/// The same where stacks come along: each fault tells more, and costs more.
pub(crate) const STACKS_SHARE: f64 = 0.012;
/// Credit that a quiet program can save up, ns: about 16 000 faults.
pub(crate) const RECORD_CREDIT_MAX_NS: f64 = 20_000_000.0;
/// Credit needed to begin a burst, ns: above a hundred faults, enough to be worth two switches; more bursts narrow the
/// interval more than longer ones.
pub(crate) const RECORD_BURST_NS: f64 = 250_000.0;
/// The same where stacks come along: some 25 faults. They tell what samples read too much, and many short bursts tell it better than few
/// long ones: with 300 us and [`RECORD_PAUSE_NS`] a program of 0.2 s had one to four bursts, and `record` said 0.59 to 1.09 times its time
/// in 40 runs.
pub(crate) const STACKS_BURST_NS: f64 = 120_000.0;
/// Mean pause between bursts, ns; drawn from half to one and a half of it so as not to lock on to the program's phases.
pub(crate) const RECORD_PAUSE_NS: u64 = 19_000_000;
/// The same where stacks come along.
pub(crate) const STACKS_PAUSE_NS: u64 = 8_000_000;
/// Longest recorded window, ns: windows are split so that a figure can be scaled near where it was measured.
pub(crate) const RECORD_WINDOW_NS: u64 = 10_000_000;
/// From this many recorded faults on, the share falls in inverse proportion, to bound memory on long runs.
pub(crate) const RECORD_FAULTS_FULL_SHARE: f64 = 200_000.0;
/// What our own side of a recorded fault costs, ns: two records copied, sorted, decoded and stored, and a share of the
/// wake-ups (measured: 5.5 ms for 3 600 faults).
pub(crate) const DRAIN_COST_NS: f64 = 1_500.0;
/// What a first touch takes where calibration has no figure, ns.
pub(crate) const FAULT_DEFAULT_NS: f64 = 1_000.0;
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

/// Frames of a stack that are kept: what is deeper is recursion.
pub(crate) const STACK_FRAMES_MAX: usize = 512;
/// Longest section of unwind information that is read, bytes: Chromium has some 20 MB.
pub(crate) const UNWIND_SECTION_BYTES_MAX: u64 = 256 << 20;
/// Longest vdso that is read, bytes; they have some 8 KiB.
pub(crate) const VDSO_BYTES_MAX: u64 = 1 << 20;
/// Most bytes that are read of a table of generated code: some two million functions.
pub(crate) const JIT_MAP_BYTES_MAX: u64 = 128 << 20;
/// Longest file of names that is kept from one recording to the next, bytes: the kernel's 122 000 functions take 4.5 MB.
pub(crate) const KEPT_FILE_BYTES_MAX: u64 = 16 << 20;
/// All of them together, bytes: those of some hundred programs with debug information.
pub(crate) const KEPT_BYTES_MAX: u64 = 64 << 20;
/// Files of them: to look at each takes some 2 us after each recording that found something new.
pub(crate) const KEPT_FILES_MAX: usize = 1_000;
/// Threads that look up names.
pub(crate) const NAMING_THREADS_MAX: usize = 4;
/// Live view: faults per stack where the whole machine is watched: a prime, so that it does not run in step with a loop. Costs a
/// program that only faults 1 to 3 % (profiler.md 1.2: p97).
pub(crate) const LIVE_PERIOD_SYSTEM: u64 = 97;
/// The same where one program is watched: 5 to 12 % of such a program, in exchange for sites of a slow one.
pub(crate) const LIVE_PERIOD_PROGRAM: u64 = 31;
/// Ring for stacks per processor, pages (256 KiB): a tick at a million faults per second, several times.
pub(crate) const LIVE_STACK_RING_PAGES: usize = 64;
/// Ring for pairs per processor, pages (128 KiB): a burst of a thousand faults.
pub(crate) const LIVE_PAIR_RING_PAGES: usize = 32;
/// Events on single threads at most, as descriptors; the usual limit for a process is 1024.
pub(crate) const LIVE_EVENTS_MAX: usize = 768;
/// Time between two looks at the rings and at the memory of the busiest, ns.
pub(crate) const LIVE_TICK_NS: u64 = 100_000_000;
/// Length of a burst of pairs, ns, and ticks from one to the next: 1 % of the time, so 1 % of what pairs cost all the time.
pub(crate) const LIVE_BURST_NS: u64 = 5_000_000;
/// See [`LIVE_BURST_NS`].
pub(crate) const LIVE_BURST_TICKS: u64 = 5;
/// Timed faults kept for the price, 16 bytes each.
pub(crate) const LIVE_TIMED_MAX: usize = 8_192;
/// Timed faults needed for a price of their own: the mean of fewer moves by more than a tenth.
pub(crate) const LIVE_TIMED_MIN: usize = 50;
/// Processes whose memory is followed for the avoidable share: a reading of one takes some 30 us, so 5 ms per second in all.
pub(crate) const LIVE_FOLLOWED: usize = 16;
/// Faults per second from which on a process is followed.
pub(crate) const LIVE_FOLLOW_FROM: f64 = 50.0;
/// Readings of a process's memory that are kept: 30 s.
pub(crate) const LIVE_LEVELS_MAX: usize = 300;
/// Sites that are named in one interval; the rest is rare, and a name that is new costs up to milliseconds.
pub(crate) const LIVE_SITES_MAX: usize = 200;
/// Time for new names in one interval, ns: a view that stands still for longer is felt. A large file takes most of it once.
pub(crate) const LIVE_NAMES_NS: u64 = 200_000_000;
/// Processes whose threads are read, the busiest: a thread takes some 20 us.
pub(crate) const LIVE_THREADED: usize = 8;
/// Mappings copied for forked processes at most while perf.data is read: 1 GiB or so. A build of an hour copies a tenth of it.
pub(crate) const COPIED_MAPPINGS_MAX: usize = 1 << 24;
/// A writer of the allocation journal that has not said who it is this long after it took a place is taken for dead, ns: it says so
/// within a few instructions.
pub(crate) const JOURNAL_NAMELESS_NS: u64 = 100_000_000;
/// A living writer that has not finished by then was stopped, or left by longjmp, ns: it finishes within a microsecond of
/// its own time.
pub(crate) const JOURNAL_UNFINISHED_NS: u64 = 1_000_000_000;
/// Entries taken in one look from each part of the allocation journal: twice what fits, so that all that stood there is taken, and
/// a program that writes as fast as we read does not keep us from the rest.
pub(crate) const JOURNAL_LOOK_ENTRIES: u32 = 1 << 14;
