//! The numbers that someone chose and that decide an answer: unit, reason and source. Numbers of one formula, and those
//! of an ABI, stand beside their use. The test that a comment names fails if the number is doubled.

/// Recorded faults pooled on each side of an unrecorded window. Fewer make the mix of kinds too noisy, more
/// reach too far in time. Chosen: with 50, a kind of 10 % is known to about ±4 points from each side.
/// Noticed by `an_unrecorded_window_has_the_mix_of_its_neighbours_and_not_of_the_whole_run`.
pub(crate) const POOL_FAULTS: u64 = 50;

/// Share of the machine's huge-page faults that the program's memory must show to claim them all. With a quarter, a
/// program of 30 beside one that takes 200 got 222.
/// Noticed by `faults_of_huge_pages_lie_between_what_memory_grew_by_and_what_the_machine_had`.
pub(crate) const HUGE_SHOWN_SHARE: f64 = 0.8;
/// Price of a huge-page fault without a timed one, in faults of base pages. Measured: 60 to 150 (by hand).
pub(crate) const THP_PRICE_RATIO: f64 = 100.0;

/// A reading above this many medians of its kind is a wait (a lock, reclaim, the hypervisor), and is capped
/// to it in means. Guest-cold pages, which are work, stay below 11.
pub const WAIT_LATENCY_RATIO: f64 = 100.0;

/// Bounds of the price of a fault relative to our own first touch, if nothing was timed. Kinds differ from
/// 0.2 (mapped file) to 1.6 (copy on write) times, cold guest memory by more (by hand).
pub(crate) const CALIBRATED_LOW: f64 = 0.5;
/// Upper end of the same.
pub(crate) const CALIBRATED_HIGH: f64 = 2.0;
/// Mean price of a program's untimed faults, relative to the median of our own first touches: least, usual, most.
/// Our touches find warm caches and pages just freed. Measured with events on and off on 24 programs: 1.06
/// (reads of the zero page) to 3.2 (sqlite3) times, most 1.8 to 2.5 (2-core EPYC guest, busy); by hand: 1.3 and 1.5
/// (job_cpu of the field cases).
/// Noticed by `without_events_the_price_of_the_calibration_is_used_and_named`.
pub(crate) const UNTIMED: [f64; 3] = [0.75, 1.5, 4.0];

/// Faults per bucket below which the serialisation verdict is refused (by hand).
/// Noticed by `too_little_is_refused_with_the_reason`.
pub(crate) const SERIAL_FAULTS: usize = 2000;
/// The low end of the ratio's interval must exceed this to say "serialised". Two hardware threads of one core alone
/// slow each other by up to a quarter; a lock held through the fault with two threads doubles it.
/// Noticed by `a_pipeline_shows_every_part_of_the_answer`.
pub(crate) const SERIAL_RATIO: f64 = 1.25;

/// Samples of the fault path below which no phases are given (by hand: single phases wander below it).
pub(crate) const PHASE_SAMPLES: u64 = 400;

/// Readings of the counters below which no avoidable curve is drawn: the order of faults and releases is lost.
pub(crate) const CURVE_READINGS: usize = 8;
/// Distance between the bounds of a curve, as a share of the faults, from which on a note explains it.
pub(crate) const WIDE_BOUNDS: f64 = 0.2;
/// Threads whose names differ in a number that are drawn and listed one by one; more are one lane, or one row. Chosen: half
/// a screen of lanes. Noticed by `many_threads_whose_names_differ_in_a_number_are_one_row`.
pub const THREADS_SHOWN: usize = 16;
/// Share of faults, 0 to 1, within which a point counts as having reached the plateau. With 0.02, one run in three of
/// NumPy temporaries asked for 49 MiB in place of 28, with 0.03 one in six; with 0.05 a program that needs 64 MiB was
/// told 60.
pub(crate) const KNEE_POINTS: f64 = 0.03;
/// Plateau below which no knee is named: nothing worth keeping memory for.
pub(crate) const KNEE_FROM: f64 = 0.05;
/// Largest assumed error of a reading of resident memory, in pages. The kernel batches 32 pages, or two per
/// CPU, on each CPU (`percpu_counter_batch`). A program rarely leaves a remainder on more than a few.
pub(crate) const RSS_NOISE_PAGES: u64 = 1024;

/// Least share of the time that a cure must win. Less is not worth a line in a start script, and among
/// several cures one wins a little by chance.
pub(crate) const MIN_GAIN: f64 = 0.02;

/// Share of CPU time that a cure may cost if it wins elapsed time, or the reverse. Chosen.
/// Noticed by `the_label_follows_the_intervals_and_names_the_threshold_that_decides`.
pub(crate) const MAX_LOSS: f64 = 0.03;

/// Share of the faults that a cure must avoid to have acted at all.
/// Noticed by `what_keeps_a_gain_from_being_recommended_is_said`.
pub(crate) const FEWER_FAULTS: f64 = 0.05;

/// Time of a cure after a pause, beside the program as it is after one, from which on it is not recommended. Chosen: two runs
/// after pauses differ by up to a tenth. Noticed by `what_helps_on_warm_memory_alone_is_not_recommended`.
pub(crate) const SLOWER_AFTER_PAUSE: f64 = 1.2;

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

/// How long before the noted time of a counter reading a fault may be interrupted by it, ns: the time is noted halfway
/// through. Measured in bursts of 100 faults: of those that ended in the last 20 us one in three took over 5 us, of the
/// others one in a hundred.
/// Noticed by `a_touch_loop_is_one_row_with_the_true_price`.
pub(crate) const READING_NS: u64 = 30_000;
/// The same after it, ns.
/// Noticed by `text_of_a_short_run_gives_ranges` of `report`.
pub(crate) const READING_BEHIND_NS: u64 = 20_000;
/// A longer fault is not changed by a reading, which adds some 5 us, ns. Most faults of 5 ms hold one.
pub(crate) const READING_HARMS_NS: u64 = 50_000;

/// Recorded faults in one piece of a long recorded window. Enough for a mix of kinds, and few enough that a
/// program's start (about 1000 faults of the loader and the libraries) is a piece of its own.
pub(crate) const PIECE_FAULTS: usize = 200;
/// Share of peak memory that counts as no difference: runs of one program differ by page tables and a stack
/// page.
pub(crate) const SAME_MEMORY: f64 = 0.01;
/// Rounds below which a verdict has a warning: with fewer than 6, no interval of ranks around a median
/// reaches 95 %.
/// Noticed by `few_rounds_and_short_runs_are_said_to_be_so`.
pub(crate) const ENOUGH_ROUNDS: u32 = 7;
/// CPU time, ns, below which fork, exec and the loader dominate a run: they take 1 to 3 ms on the
/// machines tried.
pub(crate) const SHORT_RUN_NS: f64 = 10e6;

/// Least difference that a diff names, as a share of the larger total. A smaller one is not worth acting on.
/// Noticed by `exact_counts_show_a_small_growth_of_a_large_row`.
pub(crate) const DIFF_THRESHOLD: f64 = 0.01;
/// Least time in faults, ns, whose difference gets a name: 10 to 40 base faults. Chosen: in a program as short
/// as `go env` chance moves 3 to 13 of 1 000 faults from one function to another.
/// Noticed by `what_is_small_is_not_worth_a_word`.
pub(crate) const DIFF_WORTH_NS: f64 = 30_000.0;
/// Least number of faults whose difference gets a name. Chosen: one fault that waited takes as long, and
/// address randomisation moves one or two.
/// Noticed by `fewer_than_four_faults_get_no_name`.
pub(crate) const DIFF_WORTH_FAULTS: f64 = 4.0;
/// Probability of naming any row in a diff of a program with itself. The target is 1 in 20; a fifth of it
/// leaves room for errors of the model.
pub(crate) const DIFF_ERROR: f64 = 0.01;
/// Probability of naming a wrong row for a change of the whole that was counted. Some row has changed, so more may be
/// risked. Chosen.
pub(crate) const DIFF_WHOLE_ERROR: f64 = 0.05;
/// Assumed relative standard deviation of a row's faults from run to run, before repeats are known. Measured: in
/// six complete recordings each of 13 programs of one thread, rows of 500 faults and more had 0 to 0.005, most 0.
/// Noticed by `exact_counts_show_a_small_growth_of_a_large_row`.
pub(crate) const DIFF_FAULTS_SPREAD: f64 = 0.003;
/// The same times the root of the row's faults, for small rows: the loader's and the environment's pages depend on
/// random addresses. Measured there: rows of 60 to 500 faults had standard deviations of 0 to 8, most below 6.
/// Noticed by `fewer_than_four_faults_get_no_name`.
pub(crate) const DIFF_FEW_FAULTS_SPREAD: f64 = 0.3;
/// The same for the part of a row that each thread but the largest of a process has, or that generated code leads to: chance
/// distributes the work, and decides when a background compiler is done. Chosen: rows of node compared with itself
/// differed by up to 2.1 times.
/// Noticed by `work_that_threads_share_is_named_if_the_whole_grew_by_it`.
pub(crate) const DIFF_CHANCE_SPREAD: f64 = 0.2;
/// Standard deviation of the price of a row's faults from run to run, without the change that all rows share.
/// Measured: complete recordings of one program on a busy machine of 2 processors differed by 0.06. The
/// tails are long, and one recording a side does not show them.
/// Noticed by `one_recording_a_side_blames_no_site_for_a_price`.
pub(crate) const DIFF_PRICE_SPREAD: f64 = 0.1;
/// The weight of these two assumptions against repeats, in runs.
pub(crate) const DIFF_PRIOR_RUNS: f64 = 4.0;
/// Rows in all runs from which on the median of their price changes is the shared one: of two, one may have
/// changed.
/// Noticed by `a_price_is_common_only_if_rows_that_weigh_say_so`.
pub(crate) const DIFF_PRICED_ROWS: usize = 3;
/// Recorded faults that make a row new for certain, if the other side has none although it recorded every
/// fault. With this many expected, chance gives none in 1 of 20 000 cases (Poisson).
pub(crate) const DIFF_APPEARED_FAULTS: f64 = 10.0;
/// Samples of the kernel in the fault path that a recording needs for its functions to be compared. With them a
/// share of 10 % is known to 2.6 % of the whole.
/// Noticed by `too_few_samples_are_refused_with_the_remedy`.
pub(crate) const DIFF_KERNEL_SAMPLES: u64 = 500;
/// Assumed relative standard deviation from run to run of the share of a function of the kernel. Twelve runs of two
/// programs on a quiet machine: 0 to 0.20 beyond what drawing explains, most below 0.12. On a busy one up to 0.65.
/// Noticed by `functions_that_were_added_removed_grown_and_shrunk_are_named`.
pub(crate) const DIFF_KERNEL_SPREAD: f64 = 0.2;
/// Least samples that describe a thread. With fewer, the parts before its first and after its last sample are
/// too large, and equal in threads that do the same.
pub(crate) const FEW_SAMPLES: u64 = 5;
/// Timed faults that give a price of their own. Chosen: with 8 the mean is known to about a third of its
/// spread.
/// Noticed by `what_samples_read_too_much_is_found_also_where_prices_drift`.
pub(crate) const PRICED_FAULTS: u64 = 8;
/// The weight of the calibrated price of a huge-page fault, in timed faults. Chosen: prices of one program
/// vary by a half. The calibration is off by as much, because it does not know the program's caches.
/// Noticed by `few_timed_huge_pages_are_set_beside_the_calibrated_price_and_many_stand_alone`.
pub(crate) const HUGE_PRIOR_FAULTS: f64 = 2.0;
/// Tolerated ratio between two estimates of the faults of short-lived threads. Beyond it the direct one
/// bounds the other, which includes every uncounted tail (one for each processor that a thread ran on).
pub(crate) const SHORT_THREADS_RATIO: f64 = 2.0;
/// Relative error of a measured time from the reading itself: the recorder disturbs caches, and readings
/// drift. By hand: pair over truth was 1.15 to 1.22 in four repeats. `doctor --check`: programs of 2
/// s, with hardly any other error, were off by up to this.
/// Noticed by `major_faults_are_exact_and_huge_pages_bounded_by_the_machine`.
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
/// Noticed by `rare_samples_read_too_much_and_frequent_ones_do_not`.
pub(crate) const COLD_SPREAD: f64 = 0.12;
/// Largest sampling period after which the recorder is still warm: the periods of a run's start.
pub(crate) const COLD_EARLY_PERIOD_MAX: u64 = 40;
/// Mean and standard deviation of the excess of such a period, as shares of the price (measured: medians of -10
/// to +10 % in ten programs with a period of 13, six of them below 3 %).
pub(crate) const COLD_EARLY_EXCESS: [f64; 2] = [0.0, 0.05];
/// The same of a longer period (measured: 7, 8, 12 and 26 % in four programs with a period of some 100). A rarely
/// used recorder can read up to 1 us too long.
/// Noticed by `what_samples_read_too_much_is_found_also_where_prices_drift`.
pub(crate) const COLD_LATER_EXCESS: [f64; 2] = [0.13, 0.2];
/// Price, ns, above which the excess no longer grows with it: it is the recorder's own time (measured: 40 to 460 ns at
/// prices of 550 to 1,300; one more fault of 11 us does not make it 1 us).
/// Noticed by `a_dear_fault_makes_the_doubt_about_the_recorder_no_larger`.
pub(crate) const COLD_PRICE_MAX_NS: f64 = 1_500.0;
/// The weight of a burst for prices, in timed samples: its faults are alike. Chosen.
pub(crate) const BURST_WORTH: f64 = 4.0;
/// The weight of the usual spread of prices, [`ONE_BURST_SHARE`], in bursts. Chosen: with twice as many
/// bursts a spread is known to a quarter.
pub(crate) const PRICE_PRIOR_BURSTS: f64 = 4.0;
/// Error share of a price known from one burst only. Chosen: phases of a program differ by more than faults
/// within one.
pub(crate) const ONE_BURST_SHARE: f64 = 0.3;

/// Share of the faults, or of a probability, from which on a pattern is taken to hold. Chosen: the larger part.
/// Noticed by `without_calls_memory_that_comes_back_is_found_by_its_faults_its_blocks_or_the_readings`.
pub(crate) const PATTERN_SHARE: f64 = 0.5;
/// Share of a block's memory that counts as touched whole.
/// Noticed by `memory_that_fills_huge_pages_is_for_huge_pages`.
pub(crate) const WHOLE_SHARE: f64 = 0.8;
/// Growth of a site's live blocks, from the first third of its run to the last, that shows a filling queue.
pub(crate) const QUEUE_GROWTH: f64 = 1.5;
/// Live blocks below which nothing is called a queue.
pub(crate) const QUEUE_BLOCKS: u64 = 16;
/// Bytes alive at once below which a queue is not worth a bound.
/// Noticed by `blocks_that_pile_up_and_are_freed_in_the_end_wait_in_a_queue`.
pub(crate) const QUEUE_BYTES: u64 = 32 << 20;
/// Share of a site's time that huge pages save: at least, likely, at most. Zeroing stays: a fault takes 60 to
/// 150 times as long as one of a base page, instead of 512 times (by hand).
/// Noticed by `memory_that_fills_huge_pages_is_for_huge_pages`.
pub(crate) const THP_SAVES: [f64; 3] = [0.6, 0.8, 0.9];
/// Share of a site's time that populating saves: the traps, not the zeroing. 0.83 of the cycles remained
/// (by hand).
pub(crate) const POPULATE_SAVES: [f64; 3] = [0.0, 0.15, 0.4];
/// Sites for which cures are sought, and that `check` names, at most.
pub(crate) const NAMED_SITES: usize = 5;
/// Records from which on the lack of a cure is a finding, and samples of the CPU clock from which on their share bounds
/// the time in faults: a share of a tenth is known within 5 points (Wilson).
pub(crate) const JUDGED_RECORDS: u64 = 200;
/// Share of the faults or of their time from which on a note says what is not known of them, or a
/// place. Chosen.
pub(crate) const NOTED_SHARE: f64 = 0.05;
/// Share of the time that the named call sites must make up.
/// Noticed by `call_sites_make_their_share_of_the_time_that_the_answer_names`.
pub(crate) const MOST_SHARE: f64 = 0.9;
/// Call sites that the answer may count; more are no answer.
pub(crate) const MOST_SITES: usize = 10;
/// Share of lost records that may change what a reader concludes. Chosen.
pub(crate) const LOST_SHARE: f64 = 0.02;
/// Time before a block's recorded birth in which touches of its memory belong to its creation, in ns: calloc
/// of 100 MiB takes about that long.
pub(crate) const BEFORE_BIRTH_NS: u64 = 100_000_000;

/// Longest tick of a kernel that splits CPU time by ticks, ns: USER_HZ of 100 is the slowest in use (time(7)).
pub(crate) const TICK_NS: f64 = 10e6;
/// Standard deviations by which ticks may scatter between user and system time. 3 is one case in 700: a note
/// must not come from chance.
pub(crate) const TICK_SPREADS: f64 = 3.0;
/// Share of the recorder's calibrated cost that is certainly in the system time. Chosen: a busy machine calibrates up to 1.3 times too much.
pub(crate) const RECORDER_CERTAIN: f64 = 0.7;
/// Possible difference between counters that are read one after another, in faults ...
pub(crate) const COUNTERS_APART: u64 = 64;
/// ... and as a share of their counts: a program of several threads goes on meanwhile.
pub(crate) const COUNTERS_APART_SHARE: f64 = 0.001;
/// Share of all faults, 0 to 1, that sites may save beyond the avoidable curve. Chosen: each reading of
/// memory is off by some dozens of pages, and changes between two readings are not seen.
pub(crate) const CURVE_OFF: f64 = 0.05;
/// Probability that some interval of `compare` misses its ratio. Chosen: one false alarm in a hundred.
/// Noticed by `equal_figures_are_no_difference_and_few_rounds_say_nothing`.
pub(crate) const COMPARE_ERROR: f64 = 0.01;

/// Least room of a budget above the largest of its runs, as a share of the median. By hand: 20 runs of gcc lay within 0.4 %,
/// four of sort within 0.01 %. A regression of 5 % exceeds it.
/// Kinds with less than this share of the faults are not in a budget.
pub(crate) const GATE_SHARE: f64 = 0.01;
/// The same in faults, for small programs. Chosen: a longer environment or path takes a page or two of stack, and a rebuilt
/// library a few of code.
pub(crate) const GATE_PAGES: f64 = 32.0;
/// The same for resident memory, in pages for each processor. Source: each processor keeps up to 32 pages of a counter to
/// itself (`percpu_counter_batch` of Linux 6.2), for the counters of anonymous and of file memory.
pub(crate) const GATE_RSS_PAGES: f64 = 64.0;
/// Room for a budget of another host, as a share. Chosen: glibc and kernels of three years differ by less in programs of
/// some thousand faults.
/// Noticed by `a_budget_of_another_host_has_more_room_and_a_site_that_grew_exceeds_it`.
pub(crate) const GATE_HOST_SHARE: f64 = 0.1;
/// Least room of an estimate (a kind of fault, memory taken again), as a share of all faults.
/// Noticed by `the_same_figures_pass_and_a_twentieth_more_does_not`.
pub(crate) const GATE_ESTIMATE_SHARE: f64 = 0.02;
/// Sites with less than this share of the faults are not in a budget.
pub(crate) const GATE_SITE_SHARE: f64 = 0.002;
/// A site that grew by less than this share of the growth of all faults is not named.
/// Noticed by `the_site_that_grew_is_named_first_and_those_that_did_not_are_not`.
pub(crate) const GATE_GROWTH_SHARE: f64 = 0.1;
