//! Every number of this crate that someone chose, with its unit, the reason and the source.

/// Draws of a bootstrap. 1000 puts about 25 draws beyond each end of a 95 % interval (Efron & Tibshirani 1993, ch. 13).
pub(crate) const RESAMPLES: usize = 1000;

/// Values above which a median's bootstrap draws ranks (normal approximation, exact to a rank or two) and not values.
pub(crate) const RANK_BOOTSTRAP_FROM: usize = 256;

/// Seed of every bootstrap: the same input gives the same interval. No meaning.
pub(crate) const SEED: u64 = 0x00fa_0117_1e55;

/// Recorded faults that are pooled on each side of an unrecorded window: fewer make the mix of kinds too noisy, more
/// reach too far in time. Chosen: with 50, a kind of 10 % is known to about +-4 points from each side.
pub(crate) const POOL_FAULTS: u64 = 50;

/// Share of the machine's faults of huge pages that the program's memory must show for all of them to be taken for its own. Chosen: between
/// two readings memory also goes, and mostly nobody else takes any.
pub(crate) const HUGE_SHOWN_SHARE: f64 = 0.25;
/// What a fault of a huge page takes where none was timed, in faults of base pages. Measured: 60 to 150 (facts).
pub(crate) const THP_PRICE_RATIO: f64 = 100.0;

/// A reading above so many medians of its kind is a wait (a lock, reclaim, the hypervisor) and enters a mean as this.
/// Guest-cold pages, which are work, stay below 11.
pub const WAIT_LATENCY_RATIO: f64 = 100.0;

/// Base pages in a transparent huge page where its size is not known: 2 MiB of 4 KiB.
pub(crate) const HUGE_PAGES: u64 = 512;
/// `MAP_STACK` of Linux on x86-64 and aarch64; perf does not pass it on today, a recorder may.
pub(crate) const MAP_STACK: u32 = 0x2_0000;
/// `MAP_SHARED`.
pub(crate) const MAP_SHARED: u32 = 0x01;
/// `PROT_WRITE`.
pub(crate) const PROT_WRITE: u32 = 0x2;
/// `PROT_EXEC`.
pub(crate) const PROT_EXEC: u32 = 0x4;

/// Bounds of the price of a fault relative to our own first touch, when nothing was timed: kinds differ from 0.2
/// (mapped file) to 1.6 (CoW) times, cold guest memory by more (profiler.md 1.9).
pub(crate) const CALIBRATED_LOW: f64 = 0.5;
/// Upper end of the same.
pub(crate) const CALIBRATED_HIGH: f64 = 2.0;
/// Bounds of the mean of a program's faults relative to the median of our own first touches, where none of the program's was timed: our
/// touches find the caches warm and their pages just freed. Measured with events on and off: 24 programs, 1.06 (reads of the zero page) to
/// 3.2 (sqlite3) times, most from 1.8 to 2.5 (2-core EPYC guest, busy).
pub(crate) const UNTIMED_LOW: f64 = 0.5;
/// Upper end of the same.
pub(crate) const UNTIMED_HIGH: f64 = 4.0;
/// The most that a fault of a huge page takes, in the same. The upper end of what [`THP_PRICE_RATIO`] lies in.
pub(crate) const UNTIMED_HUGE: f64 = 150.0;

/// Faults per bucket below which the serialisation verdict is refused (profiler.md 5.9).
pub(crate) const SERIAL_FAULTS: usize = 2000;
/// The low end of the ratio's interval must exceed this to say "serialised". Two hardware threads of one core alone
/// slow each other by up to a quarter; a lock held through the fault with two threads doubles it.
pub(crate) const SERIAL_RATIO: f64 = 1.25;

/// Samples of the fault path below which no phases are given (profiler.md 1.4: single phases wander below it).
pub(crate) const PHASE_SAMPLES: u64 = 5000;

/// Readings of the counters below which no avoidable curve is drawn: the order of faults and releases is lost.
pub(crate) const CURVE_READINGS: usize = 8;
/// Of n looks at a program that all found the same, a part of 3/n of it may be unlike them with 95 % confidence (the rule of
/// three: Hanley & Lippman-Hand, JAMA 249, 1983).
pub(crate) const UNSEEN_PARTS: f64 = 3.0;
/// Share of faults, 0 to 1, between the bounds of a curve from which on a note says why they are far apart.
pub(crate) const WIDE_BOUNDS: f64 = 0.2;
/// Share of faults, 0 to 1, within which a point counts as having reached the plateau.
pub(crate) const KNEE_POINTS: f64 = 0.02;
/// Plateau below which no knee is named: nothing worth keeping memory for.
pub(crate) const KNEE_FROM: f64 = 0.05;
/// Largest error of a reading of resident memory that is assumed, in pages; the kernel batches 32 pages or two per
/// CPU on each CPU (`percpu_counter_batch`), and a program rarely leaves a rest on more than a few.
pub(crate) const RSS_NOISE_PAGES: u64 = 1024;

/// Share of the time that a cure must win at least: less is not worth a line in a start script, and with several cures tried
/// one of them wins a little by chance.
pub(crate) const MIN_GAIN: f64 = 0.02;

/// Share of CPU time that a cure may cost where it wins elapsed time, or the other way round. Chosen.
pub(crate) const MAX_LOSS: f64 = 0.03;

/// Share of the faults that a cure must take away to have acted at all.
pub(crate) const FEWER_FAULTS: f64 = 0.05;

/// Probability that a cure is called slower than another one that is as fast, whatever their number. Chosen: below the 5 % of
/// the printed intervals, since a false name also changes the recommendation; with 10 rounds that vary by 5 % a cure that takes
/// 10 % less time is still told from the other 95 times in 100.
pub(crate) const FALSELY_SLOWER: f64 = 0.03;
/// Of cures that are level, one that certainly takes this share less of the CPU time or of the memory is preferred ...
pub(crate) const WORTHWHILE_SHARE: f64 = 0.05;
/// ... if it saves so many bytes of memory: below that nobody chooses by memory.
pub(crate) const WORTHWHILE_BYTES: f64 = (32_u64 << 20) as f64;

/// How long before the noted time of a reading of a counter a fault may be interrupted by it, ns: the note is made halfway through.
/// In bursts of 100 faults one in three of those that ended in the last 20 us took over 5 us, and of others one in a hundred (measured).
pub(crate) const READING_NS: u64 = 30_000;
/// The same behind it, ns.
pub(crate) const READING_BEHIND_NS: u64 = 20_000;

/// Recorded faults in one piece of a long recorded window: enough for a mix of kinds, few enough that a program's start
/// (about 1000 faults of the loader and the libraries) is a piece of its own.
pub(crate) const PIECE_FAULTS: usize = 200;
/// Share of peak memory that counts as none: page tables, a page more of the stack. Reason: runs of the same program differ by it.
pub(crate) const SAME_MEMORY: f64 = 0.01;
/// Rounds below which a verdict comes with a warning: with fewer than 6 no interval of ranks around a median reaches 95 %.
pub(crate) const ENOUGH_ROUNDS: u32 = 7;
/// Elapsed nanoseconds below which a run is mostly fork, exec and the loader: those take 1 to 3 ms on the machines tried.
pub(crate) const SHORT_RUN_NS: f64 = 10e6;

/// Least difference that a diff names, as a share of the larger total: below it nobody acts.
pub(crate) const DIFF_THRESHOLD: f64 = 0.01;
/// Probability that any row of a diff of a program with itself is named. 1 in 20 is asked for; five times less leaves room for
/// what the model does not know.
pub(crate) const DIFF_ERROR: f64 = 0.01;
/// Relative standard deviation of a row's faults from run to run that is assumed before repeats tell. Chosen: programs that do
/// the same again have the same faults but for the loader, threads and the environment.
pub(crate) const DIFF_FAULTS_SPREAD: f64 = 0.01;
/// The same of a row whose faults several threads of a process take, or to which generated code leads: which thread takes which piece
/// of work is chance, and so is when a compiler in the background is done. Chosen: rows of node beside itself were up to 2.1 times apart.
pub(crate) const DIFF_CHANCE_SPREAD: f64 = 0.2;
/// The same of what a fault of a row takes, once what is common to all rows is taken out. Measured: rows of one program recorded whole again and
/// again on a busy machine of 2 processors were apart by 0.06; its tails are long, which one recording a side does not cover.
pub(crate) const DIFF_PRICE_SPREAD: f64 = 0.1;
/// How many runs those two assumptions are worth against repeats.
pub(crate) const DIFF_PRIOR_RUNS: f64 = 4.0;
/// Rows in all runs from which on the median of how their prices moved says what is common: of two, one may have changed.
pub(crate) const DIFF_PRICED_ROWS: usize = 3;
/// Calibrated prices further apart than this share are warned of: more than they scatter from start to start.
pub(crate) const DIFF_CALIBRATION_APART: f64 = 0.2;
/// Periods of samples that a row lasts from which on it is a phase of the program. Chosen: a program whose passes are as long as a
/// period, or as two, can be sampled in step, and none of its rows lasts longer than a pass.
pub(crate) const DIFF_PHASE_PERIODS: f64 = 2.0;
/// Times as likely as with any other row that the counts of all rows must be if one row is to be named for what the whole was counted to
/// have grown by. From 20 on evidence is called strong (Kass & Raftery 1995).
pub(crate) const DIFF_RIVAL_ODDS: f64 = 20.0;
/// Recorded faults from which on a row is new for certain, if the other side has none of it where it has every fault: of as many, chance
/// leaves none in 1 of 20 000 (Poisson).
pub(crate) const DIFF_APPEARED_FAULTS: f64 = 10.0;
/// Share of records lost above which a diff warns.
pub(crate) const DIFF_LOST: f64 = 0.01;
/// Samples of a thread from which on they speak for it: below, what it did before its first one and after its last one is
/// too large a part of it, and always the same part where many threads do the same.
pub(crate) const FEW_SAMPLES: u64 = 5;
/// Share of all faults that may lack an end in a recording that is still said to hold all: threads that are killed in a fault, signals.
pub(crate) const ALL_SEEN_SHARE: f64 = 0.001;
/// Timed faults from which on their mean is a price of their own. Chosen: with 8 a mean is known to about a third of its spread.
pub(crate) const PRICED_FAULTS: u64 = 8;
/// Timed faults of huge pages that the calibrated price of one counts for. Chosen: prices of one program vary by a half, and the calibration
/// is off by as much, since it does not know what of the program's memory is in the caches.
pub(crate) const HUGE_PRIOR_FAULTS: f64 = 2.0;
/// Times that two estimates of the faults of short-lived threads may be apart: beyond it the direct one bounds the other,
/// which takes in every tail that nobody counts (one for each processor that a thread ran on).
pub(crate) const SHORT_THREADS_RATIO: f64 = 2.0;
/// Share of a measured time that the reading itself may be off by: the recorder disturbs caches and readings drift
/// (profiler.md 1.1: pair over truth 1.15 to 1.22 in four repeats; `doctor --check`: programs of 2 s, whose intervals hold little else, were
/// off by up to this).
pub(crate) const CALIBRATION_SHARE: f64 = 0.07;
/// Share of the subtracted offset that it may be off by: the same four repeats.
pub(crate) const OFFSET_SHARE: f64 = 0.15;
/// Faults nearest in time that a sampled one of unknown kind is taken to be like. Chosen: enough for shares, near enough for phases.
pub(crate) const NEIGHBOURS: usize = 16;
/// Samples that a burst is set beside to see what a cold recorder adds. Chosen: enough for a median, near enough that prices are the same.
pub(crate) const COLD_NEAR_SAMPLES: usize = 16;
/// Timed samples that a burst is worth for prices: its faults are alike. Chosen.
pub(crate) const BURST_WORTH: f64 = 4.0;
/// Bursts that the usual spread of prices between bursts, [`ONE_BURST_SHARE`], counts for beside those seen. Chosen: half of what makes
/// a spread of their own known to a quarter.
pub(crate) const PRICE_PRIOR_BURSTS: f64 = 4.0;
/// Share that a price may be off by that is known from one burst only. Chosen: phases of a program differ by more than faults in one.
pub(crate) const ONE_BURST_SHARE: f64 = 0.3;

/// Share of a site's faults that a pattern must explain for its cure to be named. Chosen: the larger part.
pub(crate) const PATTERN_SHARE: f64 = 0.5;
/// Share below which a pattern counts as absent.
pub(crate) const ABSENT_SHARE: f64 = 0.2;
/// Share of a block's memory from which on it counts as touched whole.
pub(crate) const WHOLE_SHARE: f64 = 0.8;
/// glibc's M_MMAP_THRESHOLD at start, in bytes (mallopt(3)); every freed block raises it, up to 32 MiB.
pub(crate) const MMAP_THRESHOLD_BYTES: u64 = 128 << 10;
/// Blocks up to so many times the threshold are served by raising it; larger ones fragment the heap: a pool is for those. Chosen.
pub(crate) const ABOVE_THRESHOLD: u64 = 8;
/// Times by which a site's live blocks must have grown from the first third of its run to the last to be a queue that fills.
pub(crate) const QUEUE_GROWTH: f64 = 1.5;
/// Live blocks below which nothing is called a queue.
pub(crate) const QUEUE_BLOCKS: u64 = 16;
/// Bytes alive at once below which a queue is not worth a bound.
pub(crate) const QUEUE_BYTES: u64 = 32 << 20;
/// Huge pages that a block must hold for huge pages to be named: a smaller one has more edge than middle.
pub(crate) const THP_PER_BLOCK: u64 = 2;
/// Part of a run within which blocks must be born to be part of its start.
pub(crate) const START_PART: f64 = 0.2;
/// What a huge page's fault saves of the time of the faults that it stands for, at least, likely, at most: zeroing stays
/// (60 to 150 times one of a base page instead of 512: profiler.md 1.9, 5.3).
pub(crate) const THP_SAVES: [f64; 3] = [0.6, 0.8, 0.9];
/// What populating saves of the time of faults: the trap, not the zeroing; 0.83 of the cycles remained (profiler.md 1.9).
pub(crate) const POPULATE_SAVES: [f64; 3] = [0.0, 0.15, 0.4];
/// Sites that are looked at for cures.
pub(crate) const CURED_SITES: usize = 5;
/// Share of the faults' time below which a site without a cure is not spoken of. Chosen: nobody asks what to do about less.
pub(crate) const UNCURED_SHARE: f64 = 0.05;
/// Share of the time that the named call sites of the answer must make up.
pub(crate) const MOST_SHARE: f64 = 0.9;
/// Call sites that the answer may count; more are no answer.
pub(crate) const MOST_SITES: usize = 10;
/// Share of time at places without a name from which on that is worth a note.
pub(crate) const UNNAMED_SHARE: f64 = 0.05;
/// Times by which lost records make counts vary more than records lost one by one would: rings lose runs. Chosen.
pub(crate) const LOST_IN_RUNS: f64 = 4.0;
/// Share of the faults that may be of threads which nobody saw from which on that is worth a note.
pub(crate) const DOUBT_SHARE: f64 = 0.05;
/// Addresses at which blocks of one class of lengths began, near a faulting one, that are looked at. Blocks that live do not overlap,
/// so those before the right one are dead: an allocator reuses few places for the same length. More are found in damaged files only.
pub(crate) const NEAR_BLOCKS_MAX: usize = 1024;
/// Forks through which a block is looked for in parents: a chain that goes on ends in a damaged file.
pub(crate) const FORKS_MAX: usize = 64;
/// Time before its recorded birth from which on what happens in a block's memory is part of its making, in ns: calloc of
/// 100 MiB takes about that long.
pub(crate) const BEFORE_BIRTH_NS: u64 = 100_000_000;

/// Longest tick of a kernel that splits CPU time by ticks, ns: USER_HZ of 100 is the slowest in use (time(7)).
pub(crate) const TICK_NS: f64 = 10e6;
/// Ticks of a process that may be on the wrong side: one at each end.
pub(crate) const TICKS_A_PROCESS: f64 = 2.0;
/// Standard deviations by which ticks may scatter between user and system time: 3 are one in 700, and a note must not be chance.
pub(crate) const TICK_SPREADS: f64 = 3.0;
/// Share of the recorder's calibrated cost that is certainly in the system time. Chosen: a busy machine calibrates up to 1.3 times too much.
pub(crate) const RECORDER_CERTAIN: f64 = 0.7;
/// Faults that counters may be apart by which are read one after another ...
pub(crate) const COUNTERS_APART: u64 = 64;
/// ... and the same as a share of what they count: a program of several threads goes on while they are read.
pub(crate) const COUNTERS_APART_SHARE: f64 = 0.001;
/// Share by which sums of rounded figures may be apart.
pub(crate) const ROUNDED_SHARE: f64 = 0.01;
/// Bytes that one fault of a file maps at most: `fault_around_bytes` is 64 KiB, and a large folio may be mapped whole.
pub(crate) const FAULT_AROUND_BYTES: f64 = (2_u64 << 20) as f64;
/// Bytes that the largest resident size (`ru_maxrss`) may have from before exec: it starts with what our own child had.
pub(crate) const OWN_IMAGE_BYTES: f64 = (64_u64 << 20) as f64;
/// Bytes that khugepaged may add without a fault in each of its rounds: 4096 pages are scanned in one (`pages_to_scan`), and 511 of
/// 512 in a huge page may be new (`max_ptes_none`).
pub(crate) const KHUGEPAGED_BYTES: f64 = (16_u64 << 20) as f64;
/// Time from one of its rounds to the next, ns (`scan_sleep_millisecs`).
pub(crate) const KHUGEPAGED_NS: f64 = 10e9;
/// Share of all faults, 0 to 1, that sites may save beyond the avoidable curve. Chosen: the curve's readings of memory are off by some
/// dozens of pages each, and what lies between two of them is not seen.
pub(crate) const CURVE_OFF: f64 = 0.05;
