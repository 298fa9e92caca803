//! Every number of this crate that someone chose, with its unit, the reason and the source.

/// Draws of a bootstrap. 1000 puts about 25 draws beyond each end of a 95 % interval (Efron & Tibshirani 1993, ch. 13).
pub(crate) const RESAMPLES: usize = 1000;

/// Values above which a median's bootstrap draws ranks (normal approximation, exact to a rank or two) and not values.
pub(crate) const RANK_BOOTSTRAP_FROM: usize = 256;

/// Seed of every bootstrap: the same input gives the same interval. No meaning.
pub(crate) const SEED: u64 = 0x00fa_0117_1e55;

/// Recorded faults pooled on each side of an unrecorded window. Fewer make the mix of kinds too noisy, more
/// reach too far in time. Chosen: with 50, a kind of 10 % is known to about ±4 points from each side.
pub(crate) const POOL_FAULTS: u64 = 50;

/// Share of the machine's huge-page faults that the program's memory must show to claim them all. Chosen:
/// memory also shrinks between two readings, and other programs rarely take any.
pub(crate) const HUGE_SHOWN_SHARE: f64 = 0.25;
/// Price of a huge-page fault without a timed one, in faults of base pages. Measured: 60 to 150 (by hand).
pub(crate) const THP_PRICE_RATIO: f64 = 100.0;

/// A reading above this many medians of its kind is a wait (a lock, reclaim, the hypervisor), and is capped
/// to it in means. Guest-cold pages, which are work, stay below 11.
pub const WAIT_LATENCY_RATIO: f64 = 100.0;

/// Base pages in a transparent huge page of unknown size: 2 MiB of 4 KiB.
pub(crate) const HUGE_PAGES: u64 = 512;
/// `MAP_STACK` of Linux on x86-64 and aarch64; perf does not pass it on today, a recorder may.
pub(crate) const MAP_STACK: u32 = 0x2_0000;
/// `MAP_SHARED`.
pub(crate) const MAP_SHARED: u32 = 0x01;
/// `PROT_WRITE`.
pub(crate) const PROT_WRITE: u32 = 0x2;
/// `PROT_EXEC`.
pub(crate) const PROT_EXEC: u32 = 0x4;

/// Bounds of the price of a fault relative to our own first touch, if nothing was timed. Kinds differ from
/// 0.2 (mapped file) to 1.6 (copy on write) times, cold guest memory by more (by hand).
pub(crate) const CALIBRATED_LOW: f64 = 0.5;
/// Upper end of the same.
pub(crate) const CALIBRATED_HIGH: f64 = 2.0;
/// Bounds of the mean price of a program's untimed faults, relative to the median of our own first touches.
/// Our touches find warm caches and pages just freed. Measured with events on and off on 24 programs: 1.06
/// (reads of the zero page) to 3.2 (sqlite3) times, most 1.8 to 2.5 (2-core EPYC guest, busy).
pub(crate) const UNTIMED_LOW: f64 = 0.75;
/// The usual mean price. By hand: 1.3 and 1.5 (job_cpu of the field cases).
pub(crate) const UNTIMED_USUAL: f64 = 1.5;
/// Upper end of the same.
pub(crate) const UNTIMED_HIGH: f64 = 4.0;
/// Upper bound of a huge-page fault, in the same unit: the upper end of the range behind [`THP_PRICE_RATIO`].
pub(crate) const UNTIMED_HUGE: f64 = 150.0;

/// Faults per bucket below which the serialisation verdict is refused (by hand).
pub(crate) const SERIAL_FAULTS: usize = 2000;
/// The low end of the ratio's interval must exceed this to say "serialised". Two hardware threads of one core alone
/// slow each other by up to a quarter; a lock held through the fault with two threads doubles it.
pub(crate) const SERIAL_RATIO: f64 = 1.25;

/// Samples of the fault path below which no phases are given (by hand: single phases wander below it).
pub(crate) const PHASE_SAMPLES: u64 = 400;

/// Samples of the CPU clock in the fault path from which on they bound the time in faults: a tenth of it. `record` as root of
/// a program that reads files into new memory notices.
pub(crate) const CLOCK_SAMPLES: u64 = 200;

/// Readings of the counters below which no avoidable curve is drawn: the order of faults and releases is lost.
pub(crate) const CURVE_READINGS: usize = 8;
/// If n bursts all found the same, a part of 3/n of the program may differ from them with 95 % confidence
/// (the rule of three: Hanley & Lippman-Hand, JAMA 249, 1983).
pub(crate) const UNSEEN_PARTS: f64 = 3.0;
/// Distance between the bounds of a curve, as a share of the faults, from which on a note explains it.
pub(crate) const WIDE_BOUNDS: f64 = 0.2;
/// Threads whose names differ in a number that are drawn and listed one by one; more are one lane, or one row. Chosen: half
/// a screen of lanes. Noticed by `many_threads_whose_names_differ_in_a_number_are_one_row`.
pub const THREADS_SHOWN: usize = 16;
/// Share of faults, 0 to 1, within which a point counts as having reached the plateau.
pub(crate) const KNEE_POINTS: f64 = 0.02;
/// Plateau below which no knee is named: nothing worth keeping memory for.
pub(crate) const KNEE_FROM: f64 = 0.05;
/// Largest assumed error of a reading of resident memory, in pages. The kernel batches 32 pages, or two per
/// CPU, on each CPU (`percpu_counter_batch`). A program rarely leaves a remainder on more than a few.
pub(crate) const RSS_NOISE_PAGES: u64 = 1024;

/// Least share of the time that a cure must win. Less is not worth a line in a start script, and among
/// several cures one wins a little by chance.
pub(crate) const MIN_GAIN: f64 = 0.02;

/// Share of CPU time that a cure may cost if it wins elapsed time, or the reverse. Chosen.
pub(crate) const MAX_LOSS: f64 = 0.03;

/// Share of the faults that a cure must avoid to have acted at all.
pub(crate) const FEWER_FAULTS: f64 = 0.05;

/// Probability that the interval of a cure's ratio misses the true ratio: that of every printed interval.
pub(crate) const ADVISE_ERROR: f64 = 0.05;

/// Probability of calling a cure slower than an equally fast one, for any number of cures. Chosen: below the
/// 5 % of the printed intervals, because a false name also changes the recommendation. With 10 rounds that
/// vary by 5 %, a cure that takes 10 % less time is still recognised 95 times in 100.
pub(crate) const FALSELY_SLOWER: f64 = 0.03;
/// Among level cures, one that surely takes this share less CPU time or memory is preferred ...
pub(crate) const WORTHWHILE_SHARE: f64 = 0.05;
/// ... if it saves this many bytes: below that memory decides nothing.
pub(crate) const WORTHWHILE_BYTES: f64 = (32_u64 << 20) as f64;

/// How long before the noted time of a counter reading a fault may be interrupted by it, ns: the time is
/// noted halfway through. Measured in bursts of 100 faults: of those that ended in the last 20 us one in
/// three took over 5 us, of the others one in a hundred.
pub(crate) const READING_NS: u64 = 30_000;
/// The same after it, ns.
pub(crate) const READING_BEHIND_NS: u64 = 20_000;

/// Recorded faults in one piece of a long recorded window. Enough for a mix of kinds, and few enough that a
/// program's start (about 1000 faults of the loader and the libraries) is a piece of its own.
pub(crate) const PIECE_FAULTS: usize = 200;
/// Share of peak memory that counts as no difference: runs of one program differ by page tables and a stack
/// page.
pub(crate) const SAME_MEMORY: f64 = 0.01;
/// Rounds below which a verdict has a warning: with fewer than 6, no interval of ranks around a median
/// reaches 95 %.
pub(crate) const ENOUGH_ROUNDS: u32 = 7;
/// CPU time, ns, below which fork, exec and the loader dominate a run: they take 1 to 3 ms on the
/// machines tried.
pub(crate) const SHORT_RUN_NS: f64 = 10e6;

/// Least difference that a diff names, as a share of the larger total. A smaller one is not worth acting on.
pub(crate) const DIFF_THRESHOLD: f64 = 0.01;
/// Least time in faults, ns, whose difference gets a name: 10 to 40 base faults. Chosen: in a program as short
/// as `go env` chance moves 3 to 13 of 1 000 faults from one function to another.
pub(crate) const DIFF_WORTH_NS: f64 = 30_000.0;
/// Least number of faults whose difference gets a name. Chosen: one fault that waited takes as long, and
/// address randomisation moves one or two.
pub(crate) const DIFF_WORTH_FAULTS: f64 = 4.0;
/// Probability of naming any row in a diff of a program with itself. The target is 1 in 20; a fifth of it
/// leaves room for errors of the model.
pub(crate) const DIFF_ERROR: f64 = 0.01;
/// Probability of naming a wrong row for a change of the whole that was counted. Some row has changed, so more may be
/// risked. Chosen.
pub(crate) const DIFF_WHOLE_ERROR: f64 = 0.05;
/// Assumed relative standard deviation of a row's faults from run to run, before repeats are known. Measured: in
/// six complete recordings each of 13 programs of one thread, rows of 500 faults and more had 0 to 0.005, most 0.
pub(crate) const DIFF_FAULTS_SPREAD: f64 = 0.003;
/// The same times the root of the row's faults, for small rows: the loader's and the environment's pages depend on
/// random addresses. Measured there: rows of 60 to 500 faults had standard deviations of 0 to 8, most below 6.
pub(crate) const DIFF_FEW_FAULTS_SPREAD: f64 = 0.3;
/// The same for the part of a row that each thread but the largest of a process has, or that generated code leads to: chance
/// distributes the work, and decides when a background compiler is done. Chosen: rows of node compared with itself
/// differed by up to 2.1 times.
pub(crate) const DIFF_CHANCE_SPREAD: f64 = 0.2;
/// Standard deviation of the price of a row's faults from run to run, without the change that all rows share.
/// Measured: complete recordings of one program on a busy machine of 2 processors differed by 0.06. The
/// tails are long, and one recording a side does not show them.
pub(crate) const DIFF_PRICE_SPREAD: f64 = 0.1;
/// The weight of these two assumptions against repeats, in runs.
pub(crate) const DIFF_PRIOR_RUNS: f64 = 4.0;
/// Rows in all runs from which on the median of their price changes is the shared one: of two, one may have
/// changed.
pub(crate) const DIFF_PRICED_ROWS: usize = 3;
/// Recorded faults that make a row new for certain, if the other side has none although it recorded every
/// fault. With this many expected, chance gives none in 1 of 20 000 cases (Poisson).
pub(crate) const DIFF_APPEARED_FAULTS: f64 = 10.0;
/// Samples of the kernel in the fault path that a recording needs for its functions to be compared. With them a
/// share of 10 % is known to 2.6 % of the whole.
pub(crate) const DIFF_KERNEL_SAMPLES: u64 = 500;
/// Assumed relative standard deviation from run to run of the share of a function of the kernel. Twelve runs of two
/// programs on a quiet machine: 0 to 0.20 beyond what drawing explains, most below 0.12. On a busy one up to 0.65.
pub(crate) const DIFF_KERNEL_SPREAD: f64 = 0.2;
/// Share of records lost above which a diff warns.
pub(crate) const DIFF_LOST: f64 = 0.01;
/// Least samples that describe a thread. With fewer, the parts before its first and after its last sample are
/// too large, and equal in threads that do the same.
pub(crate) const FEW_SAMPLES: u64 = 5;
/// Share of all faults that may lack an end in a complete recording: threads killed in a fault, signals.
pub(crate) const ALL_SEEN_SHARE: f64 = 0.001;
/// Timed faults that give a price of their own. Chosen: with 8 the mean is known to about a third of its
/// spread.
pub(crate) const PRICED_FAULTS: u64 = 8;
/// The weight of the calibrated price of a huge-page fault, in timed faults. Chosen: prices of one program
/// vary by a half. The calibration is off by as much, because it does not know the program's caches.
pub(crate) const HUGE_PRIOR_FAULTS: f64 = 2.0;
/// Tolerated ratio between two estimates of the faults of short-lived threads. Beyond it the direct one
/// bounds the other, which includes every uncounted tail (one for each processor that a thread ran on).
pub(crate) const SHORT_THREADS_RATIO: f64 = 2.0;
/// Relative error of a measured time from the reading itself: the recorder disturbs caches, and readings
/// drift. By hand: pair over truth was 1.15 to 1.22 in four repeats. `doctor --check`: programs of 2
/// s, with hardly any other error, were off by up to this.
pub(crate) const CALIBRATION_SHARE: f64 = 0.07;
/// Relative error of the subtracted offset: the same four repeats.
pub(crate) const OFFSET_SHARE: f64 = 0.15;
/// Faults nearest in time from which the kind of a sampled one is drawn. Chosen: enough for shares, near
/// enough for phases.
pub(crate) const NEIGHBOURS: usize = 16;
/// Samples that a burst is compared with to find the excess of a cold recorder, at least. Chosen: enough for a
/// median, near enough for equal prices.
pub(crate) const COLD_NEAR_SAMPLES: usize = 16;
/// The same, at most. Samples within a millisecond of a burst read up to 1 us longer than others (measured), so
/// frequent ones are taken from 10 ms around it.
pub(crate) const COLD_NEAR_SAMPLES_MAX: usize = 256;
/// Standard deviation of the excess between bursts of one run, as a share of the price (measured: 8 to 12 %).
pub(crate) const COLD_SPREAD: f64 = 0.12;
/// Largest sampling period after which the recorder is still warm: the periods of a run's start.
pub(crate) const COLD_EARLY_PERIOD_MAX: u64 = 40;
/// Mean and standard deviation of the excess of such a period, as shares of the price (measured: medians of -10
/// to +10 % in ten programs with a period of 13, six of them below 3 %).
pub(crate) const COLD_EARLY_EXCESS: [f64; 2] = [0.0, 0.05];
/// The same of a longer period (measured: 7, 8, 12 and 26 % in four programs with a period of some 100). A rarely
/// used recorder can read up to 1 us too long.
pub(crate) const COLD_LATER_EXCESS: [f64; 2] = [0.13, 0.2];
/// The weight of a burst for prices, in timed samples: its faults are alike. Chosen.
pub(crate) const BURST_WORTH: f64 = 4.0;
/// The weight of the usual spread of prices, [`ONE_BURST_SHARE`], in bursts. Chosen: with twice as many
/// bursts a spread is known to a quarter.
pub(crate) const PRICE_PRIOR_BURSTS: f64 = 4.0;
/// Error share of a price known from one burst only. Chosen: phases of a program differ by more than faults
/// within one.
pub(crate) const ONE_BURST_SHARE: f64 = 0.3;

/// Share of a site's faults that a pattern must explain for its cure to be named. Chosen: the larger part.
pub(crate) const PATTERN_SHARE: f64 = 0.5;
/// Share below which a pattern counts as absent.
pub(crate) const ABSENT_SHARE: f64 = 0.2;
/// Share of a block's memory that counts as touched whole.
pub(crate) const WHOLE_SHARE: f64 = 0.8;
/// glibc's M_MMAP_THRESHOLD at start, in bytes (mallopt(3)); every freed block raises it, up to 32 MiB.
pub(crate) const MMAP_THRESHOLD_BYTES: u64 = 128 << 10;
/// Blocks up to this many times the threshold are served by raising it. Larger ones fragment the heap and
/// need a pool. Chosen.
pub(crate) const ABOVE_THRESHOLD: u64 = 8;
/// Length from which on `faultless run` serves a block, in bytes (its `--threshold`).
pub(crate) const RUN_FROM_BYTES: u64 = 64 << 10;
/// Growth of a site's live blocks, from the first third of its run to the last, that shows a filling queue.
pub(crate) const QUEUE_GROWTH: f64 = 1.5;
/// Live blocks below which nothing is called a queue.
pub(crate) const QUEUE_BLOCKS: u64 = 16;
/// Bytes alive at once below which a queue is not worth a bound.
pub(crate) const QUEUE_BYTES: u64 = 32 << 20;
/// Huge pages that a block must hold for huge pages to be named: a smaller one is mostly edge.
pub(crate) const THP_PER_BLOCK: u64 = 2;
/// Part of a run within which blocks must be born to be part of its start.
pub(crate) const START_PART: f64 = 0.2;
/// Share of a site's time that huge pages save: at least, likely, at most. Zeroing stays: a fault takes 60 to
/// 150 times as long as one of a base page, instead of 512 times (by hand).
pub(crate) const THP_SAVES: [f64; 3] = [0.6, 0.8, 0.9];
/// Share of a site's time that populating saves: the traps, not the zeroing. 0.83 of the cycles remained
/// (by hand).
pub(crate) const POPULATE_SAVES: [f64; 3] = [0.0, 0.15, 0.4];
/// The sites with the most time for which cures are sought.
pub(crate) const CURED_SITES: usize = 5;
/// Records from which on the lack of a cure is a finding: a site with a tenth of the faults is known within
/// 5 points (Wilson).
pub(crate) const JUDGED_RECORDS: u64 = 200;
/// Share of the faults' time below which a site without a cure is not reported. Chosen: too small to matter.
pub(crate) const UNCURED_SHARE: f64 = 0.05;
/// Share of the time that the named call sites must make up.
pub(crate) const MOST_SHARE: f64 = 0.9;
/// Call sites that the answer may count; more are no answer.
pub(crate) const MOST_SITES: usize = 10;
/// Share of time at unnamed places that is worth a note.
pub(crate) const UNNAMED_SHARE: f64 = 0.05;
/// Share of lost records that may change what a reader concludes. Chosen.
pub(crate) const LOST_SHARE: f64 = 0.02;
/// Share of the faults possibly from unseen threads that is worth a note.
pub(crate) const DOUBT_SHARE: f64 = 0.05;
/// Block addresses of one length class inspected near a faulting address. Live blocks do not overlap, so
/// those before the right one are dead: an allocator reuses few places for one length. Only damaged files
/// have more.
pub(crate) const NEAR_BLOCKS_MAX: usize = 1024;
/// Forks through which a block is searched in parents; a longer chain exists only in damaged files.
pub(crate) const FORKS_MAX: usize = 64;
/// Time before a block's recorded birth in which touches of its memory belong to its creation, in ns: calloc
/// of 100 MiB takes about that long.
pub(crate) const BEFORE_BIRTH_NS: u64 = 100_000_000;

/// Longest tick of a kernel that splits CPU time by ticks, ns: USER_HZ of 100 is the slowest in use (time(7)).
pub(crate) const TICK_NS: f64 = 10e6;
/// Ticks of a process that may be on the wrong side: one at each end.
pub(crate) const TICKS_A_PROCESS: f64 = 2.0;
/// Standard deviations by which ticks may scatter between user and system time. 3 is one case in 700: a note
/// must not come from chance.
pub(crate) const TICK_SPREADS: f64 = 3.0;
/// Share of the recorder's calibrated cost that is certainly in the system time. Chosen: a busy machine calibrates up to 1.3 times too much.
pub(crate) const RECORDER_CERTAIN: f64 = 0.7;
/// Possible difference between counters that are read one after another, in faults ...
pub(crate) const COUNTERS_APART: u64 = 64;
/// ... and as a share of their counts: a program of several threads goes on meanwhile.
pub(crate) const COUNTERS_APART_SHARE: f64 = 0.001;
/// Possible difference between sums of rounded figures, as a share.
pub(crate) const ROUNDED_SHARE: f64 = 0.01;
/// Share of all faults, 0 to 1, that sites may save beyond the avoidable curve. Chosen: each reading of
/// memory is off by some dozens of pages, and changes between two readings are not seen.
pub(crate) const CURVE_OFF: f64 = 0.05;
/// Probability that some interval of `compare` misses its ratio. Chosen: one false alarm in a hundred.
pub(crate) const COMPARE_ERROR: f64 = 0.01;

/// Least room of a budget above the largest of its runs, as a share of the median. By hand: 20 runs of gcc lay within 0.4 %,
/// four of sort within 0.01 %. A regression of 5 % exceeds it.
pub(crate) const GATE_SHARE: f64 = 0.01;
/// The same in faults, for small programs. Chosen: a longer environment or path takes a page or two of stack, and a rebuilt
/// library a few of code.
pub(crate) const GATE_PAGES: f64 = 32.0;
/// The same for resident memory, in pages for each processor. Source: each processor keeps up to 32 pages of a counter to
/// itself (`percpu_counter_batch` of Linux 6.2), for the counters of anonymous and of file memory.
pub(crate) const GATE_RSS_PAGES: f64 = 64.0;
/// Room for a budget of another host, as a share. Chosen: glibc and kernels of three years differ by less in programs of
/// some thousand faults.
pub(crate) const GATE_HOST_SHARE: f64 = 0.1;
/// Least room of an estimate (a kind of fault, memory taken again), as a share of all faults.
pub(crate) const GATE_ESTIMATE_SHARE: f64 = 0.02;
/// Kinds with less than this share of the faults are not in a budget.
pub(crate) const GATE_KIND_SHARE: f64 = 0.01;
/// Sites with less than this share of the faults are not in a budget.
pub(crate) const GATE_SITE_SHARE: f64 = 0.002;
/// A site that grew by less than this share of the growth of all faults is not named.
pub(crate) const GATE_GROWTH_SHARE: f64 = 0.1;
/// Sites that are named at most.
pub(crate) const GATE_SITES: usize = 5;
