//! Every number of this crate that we chose, with its unit, reason and source.

/// Half-width of an interval, as a share of the figure. A smaller one is printed behind the figure; with a
/// larger one the range is printed alone. Our choice: a reader takes the 40 of "40 ± 15" for the answer, and
/// may then be wrong by more than a third.
pub(crate) const SPREAD_MAX: f64 = 0.3;
/// Half-width, as a share of the figure. Below it three digits show no difference.
pub(crate) const SPREAD_SHOWN: f64 = 0.001;
/// Ratio of the ends of a count's interval. From it on, the count may be nothing.
pub(crate) const NOTHING_RATIO: f64 = 10.0;
/// Share of all faults. From it on, a row is shown even if it may be nothing. Chosen: its range says where to
/// look.
pub(crate) const NEGLIGIBLE_BELOW: f64 = 0.1;
/// Share of the time, 0 to 1. From it on, a row is shown even if it may be nothing. Chosen: a table that
/// leaves out a tenth or more gives no answer.
pub(crate) const NEGLIGIBLE_TIME: f64 = 0.02;
/// Rows of `stat` by kind. Chosen: a screen of 24 lines has room for them, the answer, and what to do next.
pub(crate) const KINDS_SHOWN: usize = 8;
/// Share of faults and of their time. Smaller kinds share a line. Chosen: nobody acts on less.
pub(crate) const KIND_FROM: f64 = 0.01;
/// Upper bound of the avoidable share, 0 to 1. Below it hardly any fault is avoidable, whatever the lower
/// bound.
pub(crate) const UNKNOWN_FROM: f64 = 0.1;
/// Upper bound of the share of CPU time in faults, 0 to 1. Below it there is nothing to do. Chosen: a cure
/// removes about half of them, and a gain below 2 % does not count.
pub(crate) const WORTH_FROM: f64 = 0.03;
/// The same for the time, in seconds. Chosen: less than the variation from run to run.
pub(crate) const WORTH_FROM_SECONDS: f64 = 1e-3;
/// Faults that read from the disk. Fewer, or fewer than [`KIND_FROM`] of all, are not in the first sentence. Chosen: ten
/// of a hard disk's reads take some 50 ms.
pub(crate) const MAJORS_FROM: u64 = 10;
/// What untimed faults may take, as a share of the CPU time. Less is not in the first sentence. Chosen: as much as makes a
/// cure worth trying.
pub(crate) const UNTIMED_FROM: f64 = WORTH_FROM;
/// Waits of faults, as a share of the elapsed time, or of the time in faults where a recording has no other. Shorter ones
/// have no word. Chosen: a user notices no less.
pub(crate) const WAITS_FROM: f64 = 0.01;
/// Share of the time of a run that is in no call site. Less has no word. Chosen: no sum of shares misses it.
pub(crate) const UNPLACED_FROM: f64 = 0.05;
/// Share of the whole. Smaller functions of a call tree share a line. Chosen as [`KIND_FROM`].
pub(crate) const TREE_SHARE: f64 = 0.01;
/// Frames that all stacks share, from which on a flame graph draws them as one. Chosen: three fit anywhere.
pub(crate) const STEM_FRAMES: usize = 4;
/// Processes of which a timeline says how many threads were in faults at once. Chosen: one line of text.
pub(crate) const SHARERS_SHOWN: usize = 3;
/// Frames too narrow to see, one on another, that a flame graph draws; one frame stands for those on top. Chosen: enough to
/// zoom into, and no taller than the head of the picture.
pub(crate) const TOWER_FRAMES: usize = 4;
/// Samples of the CPU clock in the fault path. With fewer a picture of the kernel says so: a third of 30 has an interval of 19
/// to 51 % (Wilson).
pub(crate) const KERNEL_SAMPLES: u64 = 30;
/// Groups of threads in the picture that opens a page. Chosen: a screen has room for them and for what to do.
pub(crate) const GROUPS_DRAWN: usize = 8;
