//! The report of `faultless doctor --check`, as JSON has it, and the limits that it is judged by.

use faultless_trace::observation::Host;
use faultless_trace::stat::{Interval, Kind};
use serde::Serialize;

/// The median ratio of each program must lie between these.
pub(super) const LIMITS: (f64, f64) = (0.93, 1.07);
/// At least this share of the 95 % intervals must hold the truth of their run.
pub(super) const HOLDING_SHARE: f64 = 0.9;
/// The median half of the 95 % intervals must be at most this share of their value.
pub(super) const HALF_WIDTH: f64 = 0.1;
/// Kinds with a smaller share of the faults are ignored.
pub(super) const KIND_SHARE: f64 = 0.1;
/// Larger relative errors of a kind's count are reported.
pub(super) const KIND_ERROR: f64 = 0.2;
/// Version of the JSON output. It rises when a field changes its meaning or disappears.
pub(super) const SCHEMA: u32 = 5;

/// The report, as JSON has it.
#[derive(Debug, Serialize)]
pub(super) struct Report {
    pub(super) schema: u32,
    pub(super) verdict: String,
    pub(super) answer: Answer,
    pub(super) host: Host,
    pub(super) rounds: usize,
    /// The user ended the check early.
    pub(super) is_interrupted: bool,
    /// The half-width that 90 % of the intervals around plain runs need to contain the truth.
    pub(super) plain_half_width: Option<f64>,
    pub(super) programs: Vec<ProgramReport>,
}

/// Whether all is within the limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Answer {
    Holds,
    Fails,
    /// A verb could time no faults, the interval of a ratio crosses a limit, or chance or the machine's own
    /// changes could explain that intervals miss or are wide.
    CannotSay,
}

/// The findings on a program.
#[derive(Debug, Default, Serialize)]
pub(super) struct ProgramReport {
    pub(super) program: &'static str,
    /// Time in its touches, ns: the median of the plain runs.
    pub(super) truth_ns: f64,
    /// Price of a fault in the slowest plain run divided by that in the fastest.
    pub(super) spread: f64,
    /// Its faults by kind.
    pub(super) faults: Vec<(Kind, u64)>,
    pub(super) stat: Accuracy,
    pub(super) record: Accuracy,
    /// Of each round, the price of a fault in the middle plain run divided by the mean of the other two.
    pub(super) plain_ratios: Vec<f64>,
    /// Why there are no figures.
    pub(super) cannot_say: Option<String>,
}

/// The findings on a program under one verb.
#[derive(Debug, Default, Serialize)]
pub(super) struct Accuracy {
    /// Measured time in faults divided by the true time: median of the rounds, with its 95 % interval.
    pub(super) ratio: Option<Interval>,
    /// Smallest and largest of the rounds.
    pub(super) extremes: Option<(f64, f64)>,
    /// Price of a fault by the program's own clock: in the watched run, divided by the truth. This is the
    /// overhead of recording.
    pub(super) lengthened: f64,
    /// Rounds whose interval contains the truth.
    pub(super) holds: usize,
    /// Rounds with an interval.
    pub(super) intervals: usize,
    /// Rounds in which an interval as wide around the middle plain run contains the mean of the other two.
    pub(super) plain_holds: usize,
    /// Rounds with three plain runs.
    pub(super) plain_intervals: usize,
    /// Half-width of the interval divided by its value: median of the rounds.
    pub(super) half_width: f64,
    /// The kind with the largest error, the relative error, and the reported count; all from the median
    /// round.
    pub(super) worst: Option<(Kind, f64, u64)>,
    /// What the others are computed from.
    pub(super) rounds: Vec<Round>,
}

/// A watched run between two plain ones.
#[derive(Debug, Serialize)]
pub(super) struct Round {
    /// Faults that the program timed in the watched run.
    pub(super) faults: u64,
    /// Their time, as the verb reports it. `None` if it could time no faults.
    pub(super) measured_ns: Option<Interval>,
    /// Price of a fault by the program's own clock in the plain run before.
    pub(super) before_ns: f64,
    /// In the watched run.
    pub(super) watched_ns: f64,
    /// In the plain run after.
    pub(super) after_ns: f64,
}

impl Accuracy {
    /// Whether the ratio lies within the limits.
    pub(super) fn answer(&self) -> Answer {
        match self.ratio {
            Some(ratio) if ratio.low >= LIMITS.0 && ratio.high <= LIMITS.1 => Answer::Holds,
            Some(ratio) if ratio.high < LIMITS.0 || ratio.low > LIMITS.1 => Answer::Fails,
            _ => Answer::CannotSay,
        }
    }
}
