//! The answers of several runs of one command -> the median of each figure, and how far the runs lie apart.
//!
//! It compares nothing with another command (`compare`).

use serde::{Deserialize, Serialize};

use crate::kind::{ALL, Kind};
use crate::measurement::percentile;
use crate::observation::Exit;
use crate::stat::{KindRow, Stat};

/// The answer of `stat -r N`. This is also its JSON document.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Repeated {
    /// Version of this document's shape.
    pub schema: u32,
    /// CPU seconds in page faults; `None` if a run gave none.
    pub seconds: Option<Spread>,
    /// The same as a share of the CPU time, from 0 to 1.
    pub share: Option<Spread>,
    /// Faults.
    pub faults: Spread,
    /// Elapsed time, ns.
    pub wall_ns: Spread,
    /// User and system CPU time less what recording added, ns.
    pub cpu_ns: Spread,
    /// Largest resident set of a single process, bytes.
    pub peak_rss_bytes: Spread,
    /// Kinds that some run took, in the order of their time.
    pub kinds: Vec<KindSpread>,
    /// Runs that a signal ended before they had done their work: in no spread.
    #[serde(default)]
    pub killed: u64,
    /// The answer of each run, in order; also of those that a signal ended.
    pub runs: Vec<Stat>,
}

/// A figure over the runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Spread {
    /// The middle value.
    pub median: f64,
    /// The smallest.
    pub min: f64,
    /// The largest.
    pub max: f64,
}

/// Faults of one kind over the runs.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct KindSpread {
    /// The kind.
    pub kind: Kind,
    /// Their number.
    pub faults: Spread,
    /// Their CPU seconds; `None` if a run with such faults gave none.
    pub seconds: Option<Spread>,
}

impl Spread {
    /// `None` without values.
    pub fn of(values: &[f64]) -> Option<Self> {
        Some(Self {
            median: percentile(values, 0.5)?,
            min: percentile(values, 0.0)?,
            max: percentile(values, 1.0)?,
        })
    }
}

impl Repeated {
    /// The spread of the runs that no signal ended; `None` without one.
    pub fn new(runs: Vec<Stat>) -> Option<Self> {
        let ended: Vec<&Stat> = runs.iter().filter(|run| !matches!(run.exit, Exit::Signal(_))).collect();
        let all = |of: fn(&Stat) -> f64| Spread::of(&ended.iter().map(|run| of(run)).collect::<Vec<_>>());
        let some = |of: fn(&Stat) -> Option<f64>| {
            Spread::of(&ended.iter().map(|run| of(run)).collect::<Option<Vec<_>>>()?)
        };
        let mut kinds: Vec<KindSpread> = ALL.into_iter().filter_map(|kind| of_kind(&ended, kind)).collect();
        let order =
            |spread: &KindSpread| (spread.seconds.map(|seconds| seconds.median), spread.faults.median);
        kinds.sort_by(|a, b| order(b).partial_cmp(&order(a)).unwrap_or(std::cmp::Ordering::Equal));
        Some(Self {
            schema: 1,
            seconds: some(|run| Some(run.time.as_ref()?.seconds.value)),
            share: some(|run| Some(run.time.as_ref()?.share.value)),
            faults: all(|run| run.faults() as f64)?,
            wall_ns: all(|run| run.usage.wall_ns as f64)?,
            cpu_ns: all(|run| run.cpu_ns() as f64)?,
            peak_rss_bytes: all(|run| run.usage.peak_rss_bytes as f64)?,
            kinds,
            killed: (runs.len() - ended.len()) as u64,
            runs,
        })
    }

    /// How the last run that did not end with status 0 ended; else how all did.
    pub fn exit(&self) -> Exit {
        let failed = self.runs.iter().rev().find(|run| run.exit != Exit::Status(0));
        failed.or(self.runs.last()).map_or(Exit::Unknown, |run| run.exit)
    }
}

fn of_kind(runs: &[&Stat], kind: Kind) -> Option<KindSpread> {
    let row = |run: &Stat| -> Option<KindRow> { run.rows.iter().find(|row| row.kind == kind).cloned() };
    let faults = |run: &Stat| row(run).map_or(0.0, |row| row.faults as f64);
    let seconds = |run: &Stat| row(run).map_or(Some(0.0), |row| row.seconds);
    let faults = Spread::of(&runs.iter().map(|run| faults(run)).collect::<Vec<_>>())?;
    let seconds = runs.iter().map(|run| seconds(run)).collect::<Option<Vec<_>>>();
    (faults.max > 0.0).then(|| KindSpread { kind, faults, seconds: seconds.and_then(|all| Spread::of(&all)) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Observation;
    use crate::observation::Usage;

    fn ended(faults: u64, wall_ns: u64, exit: Exit) -> Stat {
        let usage = Usage { wall_ns, minor_faults: faults, user_ns: 9_000_000, ..Usage::default() };
        Stat::from_observation(&Observation { usage, exit, ..Observation::default() })
    }

    fn run(faults: u64, wall_ns: u64, status: i32) -> Stat {
        ended(faults, wall_ns, Exit::Status(status))
    }

    #[test]
    fn each_figure_has_its_median_and_its_ends() {
        let found = Repeated::new(vec![run(7, 30, 0), run(5, 10, 3), run(6, 20, 0)]).unwrap();
        assert_eq!(found.faults, Spread { median: 6.0, min: 5.0, max: 7.0 });
        assert_eq!(found.wall_ns, Spread { median: 20.0, min: 10.0, max: 30.0 });
        let of_kinds: f64 = found.kinds.iter().map(|kind| kind.faults.median).sum();
        assert_eq!(of_kinds, 6.0);
        assert_eq!(
            (found.exit(), Repeated::new(vec![run(7, 30, 0)]).unwrap().exit()),
            (Exit::Status(3), Exit::Status(0))
        );
    }
}
