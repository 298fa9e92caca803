//! Time in faults of one arm, estimated in several recorded runs -> one figure with an interval.

use serde::{Deserialize, Serialize};

use crate::measurement::{Interval, median, median_interval};

/// CPU time in page faults.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct FaultTime {
    /// Median of the runs, in seconds. The interval covers the error of one estimate and the spread between
    /// runs; with a single run only the error.
    pub seconds: Interval,
    /// Recorded runs.
    pub runs: u32,
}

impl FaultTime {
    /// Joins `runs`, each of which took `cpu_seconds`; `None` without runs.
    ///
    /// The calibration's error is the same in all runs, so it does not shrink with their number. It is added
    /// to the interval of the median as an independent error. No run spends more than its CPU time in faults.
    pub(crate) fn of(runs: &[Interval], cpu_seconds: f64) -> Option<Self> {
        let values: Vec<f64> = runs.iter().map(|run| run.value).collect();
        let Interval { value, low, high } = median_interval(&values)?;
        let own = |end: fn(&Interval) -> f64| {
            median(&runs.iter().map(|run| (end(run) - run.value).abs()).collect::<Vec<f64>>()).unwrap_or(0.0)
        };
        let seconds = match runs {
            [only] => *only,
            _ => Interval {
                value,
                low: (value - (value - low).hypot(own(|run| run.low))).max(0.0),
                high: value + (high - value).hypot(own(|run| run.high)),
            },
        };
        let seconds = seconds.map(|end| end.min(cpu_seconds));
        Some(Self { seconds, runs: runs.len() as u32 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(value: f64, error: f64) -> Interval {
        Interval { value, low: value - error, high: value + error }
    }

    #[test]
    fn the_interval_is_wider_than_a_runs_own_and_than_the_spread() {
        let time = FaultTime::of(&[run(0.19, 0.02), run(0.22, 0.02), run(0.26, 0.02)], 9.0).unwrap();
        let spread = median_interval(&[0.19, 0.22, 0.26]).unwrap();
        assert_eq!((time.seconds.value, time.runs), (0.22, 3));
        assert!(time.seconds.low < spread.low && time.seconds.low < 0.20, "{time:?}");
        assert!(time.seconds.high > spread.high && time.seconds.high > 0.24, "{time:?}");
        let alike = FaultTime::of(&[run(0.2, 0.05); 9], 9.0).unwrap().seconds;
        assert!((alike.low - 0.15).abs() < 1e-9 && (alike.high - 0.25).abs() < 1e-9, "{alike:?}");
    }

    #[test]
    fn a_run_that_is_far_off_is_not_the_figure_one_run_has_its_own_interval_and_none_has_nothing() {
        let runs = [0.052, 0.21, 0.23, 0.22, 0.24].map(|seconds| run(seconds, 0.01));
        assert_eq!(FaultTime::of(&runs, 9.0).unwrap().seconds.value, 0.22);
        let more = FaultTime::of(&runs, 0.23).unwrap().seconds;
        assert_eq!(more.high, 0.23, "no more time than the run took");
        let one = FaultTime::of(&[run(0.2, 0.05)], 9.0).unwrap();
        assert_eq!((one.seconds, one.runs), (run(0.2, 0.05), 1));
        assert_eq!(FaultTime::of(&[], 9.0), None);
    }
}
