//! Every number that was chosen rather than found, with unit, reason and source.

/// Pages touched per block of the start-up calibration. A block takes about 0.05 ms, which scheduling rarely
/// interrupts.
pub(crate) const CALIBRATION_BLOCK_PAGES: usize = 32;
/// Blocks with the events, and as many without: 512 pages each, some 3 ms.
pub(crate) const CALIBRATION_ROUNDS: usize = 16;
/// Of these before the program starts, 1 ms: enough to know what a record costs, which bounds the recording.
pub(crate) const CALIBRATION_FIRST_ROUNDS: usize = 4;
/// Time from one round to the next while the program runs, ns. A round takes the recorder some 0.3 ms, which is 0.8 %
/// of a processor until all are taken, 1.2 s. Every 20 ms cost a program on all processors twice as much.
pub(crate) const CALIBRATION_PAUSE_NS: u64 = 40_000_000;
/// CPU time of a program, ns, from which on all missing rounds are taken at its end: they cost 0.5 % of it.
/// A shorter program gets all rounds of first touches, some 2 ms, and a part of the others. With a part of the first
/// too, the offset's interval was three times as wide.
pub(crate) const CALIBRATION_FULL_CPU_NS: f64 = 2e9;
/// The same for reads, and for writes to mapped pages. 16 rounds take some 8 ms. The offset of mapped pages
/// varied by 35 ns from run to run with 16 rounds, and by 50 ns with 8.
pub(crate) const CALIBRATION_OTHER_ROUNDS: usize = 8;
/// Share of a touch's price by which the offset may differ from an earlier calibration's, both in the first rounds; twice
/// as much for the price itself. Chosen: below the 7 % that no calibration is known better than (`CALIBRATION_SHARE` of
/// `trace`).
pub(crate) const CALIBRATION_AGREES_SHARE: f64 = 0.05;
/// Age of a program, ns, from which on it gets rounds of its own beside those that are kept: they cost 1 % of it at most.
pub(crate) const CALIBRATION_KEPT_NS: u64 = 1_000_000_000;
/// How often events are opened to measure what that costs every fault; the median counts. Each opening
/// patches the kernel's code, some 0.35 ms, so five were a third of the time before a program starts. With two,
/// one disturbed opening could make first touches look free (one test run in five).
pub(crate) const CALIBRATION_OPENINGS: usize = 3;
/// Huge pages touched twice after a run that may have had some: 0.4 to 2 ms in all.
pub(crate) const CALIBRATION_HUGE_PAGES: usize = 5;
/// Smallest ring of the calibration, pages. It holds the records of a block, or once those with stacks.
pub(crate) const CALIBRATION_RING_PAGES: usize = 16;
/// Faults per fault whose entry is written twice, in bursts and in the calibration. A prime, and more than
/// [`WRITE_COST_NEIGHBOURS`].
pub(crate) const WRITE_COST_PERIOD: u64 = 7;
/// Faults before and behind such a fault that it is compared with.
pub(crate) const WRITE_COST_NEIGHBOURS: usize = 4;
/// Faults further apart than this, ns, are no neighbours: the machine may have changed.
pub(crate) const WRITE_COST_GAP_NS: u64 = 1_000_000;
/// Fewest faults written twice from which a ratio is computed.
pub(crate) const WRITE_COST_MIN: usize = 16;
/// Most faults used: their median varies by 1 %.
pub(crate) const WRITE_COST_MAX: usize = 20_000;
/// Limits for the ratio between the writing time in a run and in the calibration. A guest whose processor
/// changes between two states showed a factor of two; the rest is noise.
pub(crate) const WRITE_COST_SLOWER: (f64, f64) = (0.4, 2.5);
/// Standard deviation of that ratio from run to run, before anything is known of a run (measured:
/// calibrations on a busy guest).
pub(crate) const WRITE_COST_SPREAD: f64 = 0.3;
/// Time between two reads of the calibration's ring: a block is written in about this.
pub(crate) const CALIBRATION_READ: std::time::Duration = std::time::Duration::from_micros(100);

/// Largest ring for faults and mappings per processor, pages. 512 KiB is the default limit for a normal user:
/// 6 ms of the fastest faulting seen. The kernel allocates and zeroes the whole ring: 2 MiB cost 1 ms per
/// processor at start.
pub(crate) const RING_PAGES_MAX: usize = 128;
/// A ring wakes the recorder when another 1/4 of it is full, in case timed polls come too late. The wake-up
/// happens inside a fault, which costs that fault 10 to 30 us (measured). A wake-up every 130 faults
/// lengthened faults by a fifth on average.
pub(crate) const WAKE_PART: usize = 4;
/// Time between two polls in a burst while the program faults fast, ns: a few hundred of the fastest faults.
pub(crate) const BURST_POLL_NS: u64 = 200_000;
/// Faults since the last poll from which on a program counts as faulting fast. A slower one does not overrun
/// the credit, and a poll costs some 20 us. Polls with more faults say nothing of what a plain one costs.
pub(crate) const BURST_FAULTS: u64 = 40;
/// Largest ring with stacks, pages (4 MiB): some 2 200 faults, 2 ms of the fastest faulting seen. The kernel
/// lets a normal user lock only [`RING_PAGES_MAX`].
pub(crate) const RECORD_RING_PAGES_MAX: usize = 1024;
/// The same if every fault is recorded, pages (16 MiB): some 10 ms, because unwinding falls behind while all
/// processors are busy.
pub(crate) const RECORD_ALL_RING_PAGES_MAX: usize = 4 * RECORD_RING_PAGES_MAX;
/// Shortest time between two copies of the rings, while every fault is recorded. A normal user's ring holds
/// some 280 faults: 1.4 ms of a program whose faults take 5 us because they are recorded.
pub(crate) const COPIER_PAUSE: std::time::Duration = std::time::Duration::from_micros(250);
/// Longest time per MiB of ring, at least one MiB: a program that begins to fault fast must not fill the ring
/// before the next copy.
pub(crate) const COPIER_PAUSE_PER_MIB: std::time::Duration = std::time::Duration::from_millis(1);
/// Longest time for any ring.
pub(crate) const COPIER_PAUSE_MAX: std::time::Duration = std::time::Duration::from_millis(4);
/// Part of a ring that fills between two copies. Copies every 0.3 ms interrupted one fault in 80 for some 12
/// us, so that faults read 6 % too long (measured).
pub(crate) const COPIER_PART: usize = 4;
/// At this age of a program, ns, its rings are no longer copied early. If the free credit is not spent by
/// then, the program faults slowly.
pub(crate) const COPIER_NS: u64 = 500_000_000;
/// Bytes copied early and not yet unwound, all processors together: 200 000 faults.
pub(crate) const COPIER_BYTES_MAX: usize = 256 << 20;
/// Capacity for copied bytes that is kept from one poll to the next, per processor.
pub(crate) const COPIED_BYTES_KEPT: usize = 4 << 20;
/// Lower bounds of the sampling period (faults per sample) outside bursts. The smallest bound is used that
/// costs a program that only faults no more than [`SAMPLE_SHARE`]. The period is a random prime between the
/// bound and 5/4 of it, drawn anew for each recording: a loop may run in step with one period, but not with
/// the next.
pub(crate) const SAMPLE_PERIODS: [u64; 4] = [97, 193, 389, 769];
/// Sampling period at the start of a run, without stacks. [`EARLY_SAMPLES`] samples cost 2 ms and stand for
/// 10 000 faults; their mean is accurate to about 5 %.
pub(crate) const EARLY_SAMPLE_PERIOD: u64 = 13;
/// How many samples are taken with [`EARLY_SAMPLE_PERIOD`].
pub(crate) const EARLY_SAMPLES: u64 = 770;
/// Sampling period at the start of a run, with stacks. Not 31: see [`ALLOCATOR_BATCHES`].
pub(crate) const EARLY_STACK_PERIOD: u64 = 37;
/// Batch sizes, in pages. The kernel refills a processor's list of free pages in such batches (`pcp->batch` in
/// mm/page_alloc.c, times powers of two). The fault that needs a new batch takes three times as long. No
/// sampling period may have a divisor in common with a batch size: with a period of 31, `record` sampled none
/// of these faults in most runs, and reported 7 % too little time (measured).
#[cfg(test)]
pub(crate) const ALLOCATOR_BATCHES: [u64; 2] = [31, 63];
/// How many samples are taken with [`EARLY_STACK_PERIOD`]; they cost the program 5 ms. The first 10 000 faults
/// are all recorded. So a program of 50 000 faults has about 1 100 samples, and a kind with a tenth of its
/// faults is known within 20 %. A period of 479 from the start gave 92 samples.
pub(crate) const EARLY_STACK_SAMPLES: u64 = 1_500;
/// Processes times the processors that each has run on, of which the kernel adds up faults (some 230 bytes each, 15 MiB
/// in all, while it times them).
pub(crate) const TIMED_PROCESSES_MAX: u32 = 1 << 16;
/// Ended processes that stay in that table, until one pass removes all of them.
pub(crate) const TIMED_GONE_MAX: usize = 1 << 10;
/// Blocks of touches from which the cost of timing in the kernel is known: 3 ms.
pub(crate) const TIMED_ROUNDS: usize = 16;
/// Cost of a sample to the program, ns: two records (measured). The recorder's side, on another
/// processor, takes 1.5 us.
pub(crate) const SAMPLE_COST_NS: f64 = 1_200.0;
/// Cost of a sample with its stack to the program, ns (measured). The recorder's side takes 5 us.
pub(crate) const STACK_SAMPLE_COST_NS: f64 = 4_000.0;
/// Share of its time that sampling may cost a program that only faults.
pub(crate) const SAMPLE_SHARE: f64 = 0.015;
/// Samples kept in memory before every second one is dropped, repeatedly (some 200 bytes each).
pub(crate) const SAMPLES_BEFORE_THINNING: u64 = 50_000;
/// Mismatched samples in a row that cause a realignment.
pub(crate) const APART_SAMPLES: u32 = 2;
/// Where events belong to processors, an entry so long before an end is of another fault, ns. Chosen: the longest faults fill
/// 2 MiB, which takes 0.1 to 0.6 ms; waits are known from the kernel's sums.
pub(crate) const SAMPLE_NS_MAX: u64 = 1_000_000;
/// Time, ns, for [`ALIGNS_MAX`] attempts at a realignment. Each interrupts the program for some 50 us: at
/// most 1.6 % of its time, and only until one succeeds.
pub(crate) const ALIGN_NS: u64 = 50_000_000;
/// See [`ALIGN_NS`]. An attempt fails if it falls into a fault. For a program that spends three quarters of
/// its time in faults, all 16 fail in one of 100 cases. With 4 attempts, one run in four lost the times of
/// half its samples (measured).
pub(crate) const ALIGNS_MAX: u32 = 16;
/// Bytes of stack copied per sample. Six frames of small functions take 256 (measured), six of real functions
/// about 1024. With 1536, the Python function that formats a string is in the copy: with 1024, a late recorder
/// found another one in its place. A copy of 2048 bytes instead of 1024 lengthens a recorded fault by 1.5 % (measured).
pub(crate) const STACK_BYTES: u32 = 1536;
/// Bytes above the copy that are read from the process, once per thread and poll. Reading 16 pages costs some
/// 10 us. 64 KiB hold the stacks of an interpreter or of a database's sort. Unlike a longer copy, this costs
/// the program nothing.
pub(crate) const STACK_REST_BYTES: usize = 64 << 10;
/// Stacks read in this way per poll: a hundred threads, 1 ms.
pub(crate) const STACK_RESTS_MAX: usize = 100;
/// Tails of stacks cached per process, so that deep recursion takes only some MiB.
pub(crate) const STACK_TAILS_MAX: usize = 10_000;
/// Bytes at the end of a copy that must at least be unchanged for the call to count as the same: eight words.
pub(crate) const STACK_SAME_BYTES: usize = 64;
/// What a recorded fault with its stack costs the recorder, ns: copied, unwound, decoded, written (measured:
/// 30 ms for 9 800 records, with the wake-ups).
pub(crate) const RECORD_DRAIN_COST_NS: f64 = 3_000.0;
/// Shortest wait for `mmap_lock` that is recorded, ns. Taking a free lock takes about a hundred ns.
pub(crate) const LOCK_WAIT_NS: u64 = 2_000;
/// TLB flushes per record. A prime. A record takes about a microsecond, half of what a flush takes.
pub(crate) const FLUSH_PERIOD: u64 = 11;
/// Time between two flushes of the trace file, ns: a killed recorder loses this much. Also between two reports of
/// progress, readings of an attached process's usage, and attempts to reap adopted orphans.
pub(crate) const SELDOM_NS: u64 = 500_000_000;
/// Smallest ring worth having, pages.
pub(crate) const RING_PAGES_MIN: usize = 8;
/// Processors that are tried if /sys does not list them.
pub(crate) const CPUS_MAX: u32 = 1024;
/// Ring for kernel stacks per processor, pages (256 KiB): about a second of samples.
pub(crate) const KERNEL_RING_PAGES: usize = 64;
/// Ring for kernel stacks of the calling thread, pages (8 MiB): some 25 000 samples, since it is not read
/// meanwhile.
pub(crate) const OWN_RING_PAGES: usize = 2048;
/// Kernel samples per second of CPU if asked for; a prime, so that it does not run in step with timers. They
/// cost 2 % of the program's CPU time (measured: a timer interrupt in a guest takes some 20 us).
pub(crate) const KERNEL_HERTZ: u64 = 997;
/// The same if they are only taken while cheap.
pub(crate) const KERNEL_CHEAP_HERTZ: u64 = 199;
/// Kernel samples needed for an answer: fewer give no share better than ±10 %.
pub(crate) const KERNEL_SAMPLES_MIN: u64 = 400;
/// CPU samples of the program, at the cheap rate, from which on reading /proc/kallsyms costs at most 1 %: it
/// takes 50 ms (measured, 122 000 symbols).
pub(crate) const KERNEL_SAMPLES_CHEAP: u64 = 1_000;

/// Cost of recording before it is throttled, ns: about 700 faults, a program's start.
pub(crate) const RECORD_FREE_NS: f64 = 1_300_000.0;
/// The same with stacks, ns: eight to twelve thousand faults by the calibration's cost, so that the recording
/// of a short program is complete.
pub(crate) const STACKS_FREE_NS: f64 = 50_000_000.0;
/// Length of the file, bytes, from which on recording is throttled even with free credit left. A fault takes
/// 50 bytes, or a thousand with a new stack and its names. A job of 2 246 faults in an interpreter takes 2.3
/// MB (measured).
pub(crate) const KEEP_ALL_BYTES: u64 = 8 << 20;
/// CPU time of the program, ns, in which recording may cost more and pauses are short. Programs of some ten
/// milliseconds have phases too.
pub(crate) const EARLY_CPU_NS: u64 = 60_000_000;
/// Share of the program's CPU time that recording may cost in that time: 1.8 ms in all.
pub(crate) const EARLY_SHARE: f64 = 0.030;
/// Mean pause between bursts in that time, ns.
pub(crate) const EARLY_PAUSE_NS: u64 = 3_000_000;
/// Credit needed to begin a burst in that time, ns: some fifty faults.
pub(crate) const EARLY_BURST_NS: f64 = 80_000.0;
/// Share of the program's CPU time that recording may cost after that.
pub(crate) const RECORD_SHARE: f64 = 0.008;
/// The same with stacks: each fault tells more, and costs more.
pub(crate) const STACKS_SHARE: f64 = 0.012;
/// Credit that a quiet program can save up, ns: about 16 000 faults.
pub(crate) const RECORD_CREDIT_MAX_NS: f64 = 20_000_000.0;
/// Credit needed to begin a burst, ns: some 45 faults, or 25 with stacks. Many short bursts narrow the interval, and
/// correct the bias of samples, more than few long ones: with twice the credit and pauses of 19 ms, a program of 0.3 s
/// was known to 18 % instead of 16 % (medians of 15 runs). With 300 us one of 0.2 s had one to four bursts, and in 40
/// runs `record` reported 0.59 to 1.09 times its true fault time.
pub(crate) const RECORD_BURST_NS: f64 = 120_000.0;
/// Mean pause between bursts, ns. Pauses are drawn from half to one and a half of it, so that they don't
/// follow the program's phases.
pub(crate) const RECORD_PAUSE_NS: u64 = 12_000_000;
/// The same with stacks.
pub(crate) const STACKS_PAUSE_NS: u64 = 8_000_000;
/// Longest recorded window, ns. Windows are split so that a figure is scaled near where it was measured.
pub(crate) const RECORD_WINDOW_NS: u64 = 10_000_000;
/// From this many recorded faults on, the share falls in inverse proportion, to bound memory on long runs.
pub(crate) const RECORD_FAULTS_FULL_SHARE: f64 = 200_000.0;
/// What a recorded fault costs the recorder, ns: two records copied, sorted, decoded and stored, and a share
/// of the wake-ups (measured: 5.5 ms for 3 600 faults).
pub(crate) const DRAIN_COST_NS: f64 = 1_500.0;
/// What a first touch takes where calibration has no figure, ns.
pub(crate) const FAULT_DEFAULT_NS: f64 = 1_000.0;
/// What a recorded fault costs the program where calibration has no figure, ns (measured: 1.2 us).
pub(crate) const RECORD_COST_DEFAULT_NS: f64 = 1_200.0;

/// Thread switches recorded without one in a fault, from which on they are left out: 2 ms of the program's time.
pub(crate) const SWITCHES_MOST: u64 = 2_000;
/// How long they then are left out, from their begin on, ns: 0.5 % of a program that switches without end.
pub(crate) const SWITCHES_NS: u64 = 500_000_000;

/// Shortest time between two readings of the levels, ns.
pub(crate) const TICK_MIN_NS: u64 = 500_000;
/// Longest, ns, in the first [`EARLY_CPU_NS`].
pub(crate) const TICK_EARLY_NS: u64 = 2_000_000;
/// Longest time, ns, if a reading is cheap, however little happens.
pub(crate) const TICK_MAX_NS: u64 = 20_000_000;
/// Longest time in any case, ns: with hundreds of processes a reading takes milliseconds. Also where nothing is read.
pub(crate) const TICK_COSTLY_NS: u64 = 1_000_000_000;
/// Share of one processor that reading the levels may take, the wake-ups for it included.
pub(crate) const TICK_SHARE: f64 = 0.005;
/// Readings between two checks of the recorder's own CPU clock.
pub(crate) const TICKS_PER_COST_CHECK: u32 = 16;
/// Levels kept before every second one is dropped and the tick is doubled (24 bytes each).
pub(crate) const LEVELS_MAX: usize = 400_000;
/// Memory at the end is that of a reading in the last one part in this many of a run. Chosen: with [`TICK_MAX_NS`], every
/// run of 200 ms has one.
pub(crate) const END_SHARE: u64 = 10;
/// Mappings and tasks kept; a program that maps without end would fill the memory (about 150 bytes each).
pub(crate) const TASK_RECORDS_MAX: usize = 1_000_000;
/// Time between two readings of the kernel stacks' rings, ns.
pub(crate) const KERNEL_DRAIN_NS: u64 = 100_000_000;
/// Time between two searches of /proc for new children, if no event reports them, ns.
pub(crate) const DISCOVER_NS: u64 = 10_000_000;

/// Bytes at the begin of a table of generated code that tell which runtime wrote it. Chosen: Python's first
/// functions, and V8's builtins, stand there.
pub(crate) const MAP_BEGIN_BYTES: u64 = 64 << 10;

/// Frames of a stack that are kept; deeper stacks are recursion.
pub(crate) const STACK_FRAMES_MAX: usize = 512;
/// Longest section of unwind information that is read, bytes: Chromium has some 20 MB.
pub(crate) const UNWIND_SECTION_BYTES_MAX: u64 = 256 << 20;
/// Longest vdso that is read, bytes; they have some 8 KiB.
pub(crate) const VDSO_BYTES_MAX: u64 = 1 << 20;
/// Longest table of generated code that is read, bytes: some two million functions.
pub(crate) const JIT_MAP_BYTES_MAX: u64 = 128 << 20;
/// Longest file in the name cache, bytes: the kernel's 122 000 functions take 4.5 MB.
pub(crate) const NAME_CACHE_FILE_BYTES_MAX: u64 = 16 << 20;
/// All files in the name cache together, bytes: about a hundred programs with debug information.
pub(crate) const NAME_CACHE_BYTES_MAX: u64 = 64 << 20;
/// Most files in the name cache. All are checked after each recording that found new names; a check takes
/// about 2 us a file.
pub(crate) const NAME_CACHE_FILES_MAX: usize = 1_000;
/// Threads that look up names.
pub(crate) const NAMING_THREADS_MAX: usize = 4;
/// Live view: sampling period of stacks (faults per stack) while the whole machine is watched. It is a prime,
/// so it does not run in step with a loop. A program that only faults loses 1 to 3 % (measured).
pub(crate) const LIVE_PERIOD_SYSTEM: u64 = 97;
/// The same where a machine is watched for months: 100,000 faults a second make 150 samples in 15 s.
pub(crate) const LIVE_PERIOD_LONG: u64 = 9_973;
/// The same where no sample is wanted: longer than any machine counts.
pub(crate) const LIVE_PERIOD_NONE: u64 = 1 << 60;
/// The same for one program. A program that only faults loses 5 to 12 %; one with few faults still gets sites.
pub(crate) const LIVE_PERIOD_PROGRAM: u64 = 37;
/// Most threads of a process that are watched, times processors: each takes six descriptors, and the usual hard limit
/// is half a million.
pub(crate) const LIVE_THREADS_MAX: usize = 768;
/// Time between two reads of the rings and of the busiest processes' memory, ns.
pub(crate) const LIVE_TICK_NS: u64 = 100_000_000;
/// Length of a burst of pairs, ns. With [`LIVE_BURST_TICKS`], pairs are on for 1 % of the time, so they cost
/// 1 % of their full cost.
pub(crate) const LIVE_BURST_NS: u64 = 5_000_000;
/// Ticks from one burst to the next.
pub(crate) const LIVE_BURST_TICKS: u64 = 5;
/// Timed faults kept for the price, 16 bytes each.
pub(crate) const LIVE_TIMED_MAX: usize = 8_192;
/// Timed faults needed for a process's own price: the mean of fewer varies by more than a tenth.
pub(crate) const LIVE_TIMED_MIN: usize = 50;
/// Most processes whose memory is followed for the avoidable share. A reading takes about 30 us; all of them
/// take 5 ms per second.
pub(crate) const LIVE_FOLLOWED: usize = 16;
/// Faults per second from which on a process is followed.
pub(crate) const LIVE_FOLLOW_FROM: f64 = 50.0;
/// Readings of a process's memory that are kept: 30 s.
pub(crate) const LIVE_LEVELS_MAX: usize = 300;
/// Sites named in one interval. The rest is rare, and a new name can cost milliseconds.
pub(crate) const LIVE_SITES_MAX: usize = 200;
/// Time for new names in one interval, ns, so that the view stays responsive. A large file takes most of it
/// once.
pub(crate) const LIVE_NAMES_NS: u64 = 200_000_000;
/// The same where a machine is watched for months.
pub(crate) const LIVE_NAMES_LONG_NS: u64 = 10_000_000;
/// Most names that are kept. Then all are forgotten, and the symbol tables behind them.
pub(crate) const LIVE_NAMES_MAX: usize = 10_000;
/// Files whose symbol tables are kept, bytes together. Then the tables are forgotten, and the names stay. A table takes
/// up to a tenth of its file.
pub(crate) const LIVE_FILES_BYTES_MAX: u64 = 256 << 20;
/// Most processes whose threads are read, busiest first. Reading a thread takes about 20 us.
pub(crate) const LIVE_THREADED: usize = 8;
/// Most mappings copied for forked processes while perf.data is read: about 1 GiB. A build of an hour copies
/// a tenth of it.
pub(crate) const COPIED_MAPPINGS_MAX: usize = 1 << 24;
/// A writer of the allocation journal must identify itself within this time after its claim, ns, else it
/// counts as dead. It does so within a few instructions.
pub(crate) const JOURNAL_NAMELESS_NS: u64 = 100_000_000;
/// A living writer that has not finished by then was stopped, or left by longjmp, ns. It finishes within a
/// microsecond of its own time.
pub(crate) const JOURNAL_UNFINISHED_NS: u64 = 1_000_000_000;
/// Most entries that a poll takes from each queue of the allocation journal: twice its capacity. So a poll
/// takes all that was queued before it, and a fast writer can't keep the recorder busy forever.
pub(crate) const JOURNAL_POLL_ENTRIES: u32 = 1 << 14;
