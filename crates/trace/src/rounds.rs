//! Rounds of runs -> the figures of each arm, and their ratios to the first arm's.
//!
//! Every round runs each arm once, in shuffled order, so drift of the machine affects all arms alike. Each run is
//! compared only with the first arm's run of its round. This module runs nothing, and does not know what an arm is
//! for (`advice`, `compare`).

mod fault_time;

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::measurement::{Interval, Nanos, median, median_interval, paired_interval};
use crate::observation::Exit;
use crate::tuning::{ADVISE_ERROR, MAX_LOSS, MIN_GAIN, SHORT_RUN_NS};

pub use fault_time::FaultTime;

/// A way to run a program.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Arm {
    /// Short name: `pool`, `glibc thresholds`; in `compare` the command.
    pub name: String,
    /// What it changes, in one sentence.
    pub what: String,
    /// The command line or setting that adopts it.
    pub adopt: String,
}

/// One run of one arm.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Run {
    /// Elapsed time.
    pub wall_ns: u64,
    /// User and system CPU time.
    pub cpu_ns: u64,
    /// System CPU time alone.
    pub system_ns: u64,
    /// Minor and major faults.
    pub faults: u64,
    /// Largest resident set of a single process, in bytes.
    pub peak_rss_bytes: u64,
    /// How it ended.
    pub exit: Exit,
    /// A hash of all it wrote to standard output.
    pub stdout_hash: u64,
    /// How many bytes those were.
    pub stdout_bytes: u64,
    /// A hash of that without its numbers.
    #[serde(default)]
    pub stdout_words: u64,
}

/// In what the outputs of runs agree.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Alike {
    /// In all.
    #[default]
    Whole,
    /// In all but numbers.
    Words,
    /// In nothing.
    Unlike,
}

impl Alike {
    /// In what two runs agree.
    pub fn between(one: &Run, other: &Run) -> Self {
        let agrees = |alike: &Self| alike.part(one) == alike.part(other);
        [Self::Whole, Self::Words].into_iter().find(agrees).unwrap_or(Self::Unlike)
    }

    /// The part of an output in which others agree so.
    fn part(self, run: &Run) -> [u64; 2] {
        match self {
            Self::Whole => [run.stdout_hash, run.stdout_bytes],
            Self::Words => [run.stdout_words, 0],
            Self::Unlike => [0; 2],
        }
    }
}

/// All runs of one arm; `runs[k]` belongs to round `k`. An arm with fewer runs than the first was dropped.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Series {
    /// The arm.
    pub arm: Arm,
    /// The run before all rounds. It fills caches; it is shown only if no round was finished.
    pub warm_up: Run,
    /// One run per round.
    pub runs: Vec<Run>,
    /// CPU seconds in page faults, one interval for each run that recorded single faults. Those runs are not
    /// in `runs`.
    pub fault_seconds: Vec<Interval>,
    /// What the program's processes held before they ended, one figure for each of those runs that could be read.
    pub end_bytes: Vec<u64>,
    /// In what runs before the warm-up agree with it.
    #[serde(default)]
    pub alike: Alike,
}

impl Series {
    /// In what all its runs agree.
    pub(crate) fn alike(&self) -> Alike {
        let with_first = self.runs.iter().map(|run| Alike::between(run, &self.warm_up));
        with_first.fold(self.alike, Alike::max)
    }

    /// The rounds, or the warm-up if the other arm had no round.
    fn like(&self, other: &Self) -> &[Run] {
        if other.runs.is_empty() { std::slice::from_ref(&self.warm_up) } else { &self.runs }
    }

    pub(crate) fn column(&self, of: fn(&Run) -> u64) -> Vec<f64> {
        column(&self.runs, of)
    }
}

/// How runs of an arm differ from the first arm's. The times of such an arm say nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mismatch {
    /// How many runs differ.
    pub runs: u32,
    /// How the first of them ended; `None`: as the first arm's, but they printed something else.
    pub exit: Option<Exit>,
}

impl Mismatch {
    /// The runs that ended otherwise than the first of `base`. If there are none, those that printed something else, where
    /// runs are `alike`.
    pub(crate) fn find(runs: &[Run], base: &[Run], alike: Alike) -> Option<Self> {
        let first = base.first()?;
        let ended: Vec<Exit> = runs.iter().map(|run| run.exit).filter(|exit| *exit != first.exit).collect();
        let others = runs.iter().filter(|run| alike.part(run) != alike.part(first)).count();
        let (runs, exit) =
            if ended.is_empty() { (others, None) } else { (ended.len(), ended.first().copied()) };
        (runs > 0).then_some(Self { runs: runs as u32, exit })
    }
}

/// `failed: status 139`.
impl fmt::Display for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.exit {
            None => f.write_str("other output"),
            Some(exit @ Exit::Status(0)) => write!(f, "ended: {exit}"),
            Some(exit) => write!(f, "failed: {exit}"),
        }
    }
}

/// A quantity of an arm.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Quantity {
    /// Median over the rounds, with its 95 % interval.
    pub median: Interval,
    /// The quantity as a ratio to the first arm's, round by round: the Hodges-Lehmann estimate with its exact
    /// interval (Wilcoxon's signed ranks). `None` for the first arm, for an arm with a mismatch, and with too few
    /// rounds.
    pub ratio: Option<Interval>,
}

/// The figures of an arm.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Figures {
    /// Elapsed time, ns.
    pub wall_ns: Quantity,
    /// User and system CPU time, ns.
    pub cpu_ns: Quantity,
    /// User time of it, ns.
    #[serde(default)]
    pub user_ns: Quantity,
    /// System time of it, ns. Faults are part of it.
    #[serde(default)]
    pub system_ns: Quantity,
    /// Minor and major faults.
    pub faults: Quantity,
    /// Largest resident set of a single process, bytes.
    pub peak_rss_bytes: Quantity,
    /// Median of the resident anonymous memory of all its processes shortly before their end; `None` if no run was read
    /// then.
    #[serde(default)]
    pub end_bytes: Option<u64>,
    /// CPU time in page faults; `None` if no run recorded them.
    pub fault_time: Option<FaultTime>,
    /// How its runs differ from the first arm's.
    #[serde(default)]
    pub mismatch: Option<Mismatch>,
    /// The raw runs; without a finished round, the warm-up's.
    pub runs: Vec<Run>,
}

impl Figures {
    /// Of the rounds, or of the warm-up if there was no round; `base`: the first arm, and `None` for that arm itself.
    pub(crate) fn of(series: &Series, base: Option<&Series>, error: f64, alike: Alike) -> Self {
        let base = base.map(|base| base.like(series));
        let runs = series.like(series).to_vec();
        let mismatch = base.and_then(|base| Mismatch::find(&runs, base, alike));
        let base = base.filter(|_| mismatch.is_none() && !series.runs.is_empty());
        let quantity = |of: fn(&Run) -> u64| Quantity {
            median: median_interval(&column(&runs, of)).unwrap_or_default(),
            ratio: base.and_then(|base| ratio(&column(&runs, of), &column(base, of), error)),
        };
        let cpu_ns = quantity(|run| run.cpu_ns);
        let end_bytes: Vec<f64> = series.end_bytes.iter().map(|bytes| *bytes as f64).collect();
        Self {
            wall_ns: quantity(|run| run.wall_ns),
            cpu_ns,
            user_ns: quantity(|run| run.cpu_ns.saturating_sub(run.system_ns)),
            system_ns: quantity(|run| run.system_ns),
            faults: quantity(|run| run.faults),
            peak_rss_bytes: quantity(|run| run.peak_rss_bytes),
            end_bytes: median(&end_bytes).map(|bytes| bytes.round() as u64),
            mismatch,
            fault_time: FaultTime::of(&series.fault_seconds, cpu_ns.median.value / 1e9),
            runs,
        }
    }

    pub(crate) fn column(&self, of: fn(&Run) -> u64) -> Vec<f64> {
        column(&self.runs, of)
    }
}

fn column(runs: &[Run], of: fn(&Run) -> u64) -> Vec<f64> {
    runs.iter().map(|run| of(run) as f64).collect()
}

/// How many times `a` is `b`, round by round. Too few rounds for the exact interval still have one of 95 %, from the
/// median of their ratios; a single round has the interval 0 to `f64::MAX`.
pub(crate) fn ratio(a: &[f64], b: &[f64], error: f64) -> Option<Interval> {
    let of_median = || {
        let ratios: Vec<f64> = a.iter().zip(b).map(|(a, b)| a / b).collect();
        median_interval(&ratios).filter(|_| error >= ADVISE_ERROR)
    };
    paired_interval(a, b, error).or_else(of_median)
}

/// What a ratio says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Difference {
    /// Less than the first arm.
    Less,
    /// More.
    More,
    /// The interval leaves no room for a difference that counts.
    None,
    /// The interval contains a difference that counts, and none.
    NotCertain,
}

impl Difference {
    /// Any difference that the interval shows.
    pub fn of(ratio: &Interval) -> Self {
        match ratio {
            ratio if ratio.high < 1.0 => Self::Less,
            ratio if ratio.low > 1.0 => Self::More,
            ratio => Self::that_counts(ratio),
        }
    }

    /// A gain counts from [`MIN_GAIN`] on, a loss from [`MAX_LOSS`] on. The ends are rounded as they are printed.
    pub(crate) fn that_counts(ratio: &Interval) -> Self {
        let printed = |end: f64| (end * 1000.0).round();
        let (low, high) = (printed(ratio.low), printed(ratio.high));
        let (gain, loss) = (printed(1.0 - MIN_GAIN), printed(1.0 + MAX_LOSS));
        match () {
            () if high < gain => Self::Less,
            () if low > loss => Self::More,
            () if low >= gain && high <= loss => Self::None,
            () => Self::NotCertain,
        }
    }
}

/// A warning if the runs are so short that they say little.
pub(crate) fn too_short<'a>(arms: impl Iterator<Item = &'a Figures>) -> Option<String> {
    let cpu_ns = median(&arms.map(|arm| arm.cpu_ns.median.value).collect::<Vec<f64>>())?;
    (cpu_ns < SHORT_RUN_NS).then(|| {
        format!(
            "a run takes {} of CPU time, most of it to start the program; give it more work",
            Nanos(cpu_ns)
        )
    })
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// Runs that take so many ns each.
    pub(crate) fn series(name: &str, wall_ns: &[u64], faults: u64, rss_mib: u64) -> Series {
        let arm = Arm { name: name.into(), what: String::new(), adopt: String::new() };
        let run = |&wall_ns: &u64| Run {
            wall_ns,
            cpu_ns: wall_ns,
            system_ns: 0,
            faults,
            peak_rss_bytes: rss_mib << 20,
            exit: Exit::Status(0),
            stdout_hash: 7,
            stdout_bytes: 3,
            stdout_words: 3,
        };
        Series {
            arm,
            warm_up: run(&wall_ns[0]),
            runs: wall_ns.iter().map(run).collect(),
            fault_seconds: vec![],
            end_bytes: vec![],
            alike: Alike::Whole,
        }
    }

    #[test]
    fn a_ratio_has_an_exact_interval_or_one_of_95_percent_or_none() {
        let of = |rounds: usize, error| ratio(&vec![2.0; rounds], &vec![1.0; rounds], error);
        assert_eq!(of(1, ADVISE_ERROR), Some(Interval { value: 2.0, low: 0.0, high: f64::MAX }));
        for (rounds, error) in [(3, ADVISE_ERROR), (6, ADVISE_ERROR), (8, 0.01)] {
            let found = of(rounds, error).unwrap();
            assert!((found.low - 2.0).abs() < 1e-9 && (found.high - 2.0).abs() < 1e-9, "{found:?}");
        }
        assert_eq!(of(7, 0.01), None);
        assert_eq!(ratio(&[], &[], ADVISE_ERROR), None);
    }

    #[test]
    fn an_arm_that_ends_or_prints_otherwise_has_no_ratio_and_tells_why() {
        let base = series("a", &[9; 8], 5, 1);
        let of = |change: &dyn Fn(&mut Run), alike| {
            let mut arm = series("b", &[3; 8], 5, 1);
            arm.runs.iter_mut().skip(6).for_each(change);
            let figures = Figures::of(&arm, Some(&base), ADVISE_ERROR, alike);
            let ratios =
                [figures.wall_ns, figures.faults, figures.peak_rss_bytes].map(|of| of.ratio.is_some());
            assert!(ratios == [figures.mismatch.is_none(); 3], "{ratios:?}");
            figures.mismatch.map(|mismatch| (mismatch.runs, mismatch.to_string()))
        };
        let said = |words: &str| Some((2, words.to_owned()));
        assert_eq!(of(&|run| run.exit = Exit::Signal(11), Alike::Unlike), said("failed: signal 11"));
        assert_eq!(of(&|run| run.exit = Exit::Status(139), Alike::Whole), said("failed: status 139"));
        assert_eq!(of(&|run| run.stdout_bytes = 2, Alike::Whole), said("other output"));
        assert_eq!(of(&|run| run.stdout_hash = 2, Alike::Words), None);
        assert_eq!(of(&|run| run.stdout_words = 2, Alike::Words), said("other output"));
        assert_eq!(of(&|run| run.stdout_words = 2, Alike::Unlike), None);
        assert_eq!(of(&|_| (), Alike::Whole), None);
    }

    #[test]
    fn common_drift_cancels_in_paired_rounds() {
        let slow: Vec<f64> = (0..12).map(|i| f64::from(1 << i)).collect();
        let fast: Vec<f64> = slow.iter().map(|v| v / 3.0).collect();
        let found = ratio(&slow, &fast, ADVISE_ERROR).unwrap();
        assert!((found.low - 3.0).abs() < 1e-9 && (found.high - 3.0).abs() < 1e-9, "{found:?}");
    }
}
