//! Rounds of several commands -> the cost of each command as a ratio to the first.
//!
//! Every round runs each command once, in shuffled order. Each run is compared only with the first command's run of
//! its round. This module does not run anything.

use serde::{Deserialize, Serialize};

use crate::advice::{FaultTime, Run, Series, column};
use crate::measurement::{Count, Interval, Percent, median, median_interval, paired_interval};
use crate::observation::{Exit, Host};
use crate::tuning;

/// The answer of `faultless compare`. This is also its JSON document.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Comparison {
    /// Version of this document's shape.
    pub schema: u32,
    /// The machine.
    pub host: Host,
    /// Rounds that were finished; with 0 the figures are those of the warm-up.
    pub rounds: u32,
    /// Probability that the interval of a ratio misses the true ratio. All commands share it.
    pub error: f64,
    /// The commands, in the order in which they were given.
    pub commands: Vec<Compared>,
    /// Things the reader must know to read the figures right.
    pub notes: Vec<String>,
}

/// The figures of one command.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Compared {
    /// The command, as it was given.
    pub command: String,
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
    /// CPU time in page faults; `None` if no run recorded them.
    pub fault_time: Option<FaultTime>,
    /// Runs, of all rounds, that did not end with status 0.
    pub failed: u32,
    /// How such a run ended.
    pub failure: Option<Exit>,
    /// The raw runs.
    pub runs: Vec<Run>,
}

/// A quantity of a command.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Quantity {
    /// Median over the rounds, with its 95 % interval.
    pub median: Interval,
    /// The quantity as a ratio to the first command's, round by round: the Hodges-Lehmann estimate with its exact
    /// interval (Wilcoxon's signed ranks). `None` for the first command, and with too few rounds.
    pub ratio: Option<Interval>,
}

/// What a ratio says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Difference {
    /// Less than the first command.
    Less,
    /// More.
    More,
    /// The interval contains 1 and leaves no room for a difference of 3 %.
    None,
    /// The interval contains 1 and more.
    NotShown,
}

impl Quantity {
    /// What the ratio says; `None` without one.
    pub fn difference(&self) -> Option<Difference> {
        let Interval { low, high, .. } = self.ratio?;
        Some(if high < 1.0 {
            Difference::Less
        } else if low > 1.0 {
            Difference::More
        } else if low >= 1.0 - tuning::MAX_LOSS && high <= 1.0 + tuning::MAX_LOSS {
            Difference::None
        } else {
            Difference::NotShown
        })
    }

    /// Whether it differs as another quantity does.
    fn goes_with(&self, other: &Self) -> bool {
        let shown =
            |of: &Self| of.difference().filter(|of| matches!(of, Difference::Less | Difference::More));
        shown(other).is_some() && shown(self) == shown(other)
    }

    fn of(runs: &[Run], base: Option<&[Run]>, error: f64, of: fn(&Run) -> u64) -> Self {
        let own = column(runs, of);
        Self {
            median: median_interval(&own).unwrap_or_default(),
            ratio: base.and_then(|base| paired_interval(&own, &column(base, of), error)),
        }
    }
}

impl Compared {
    /// The time differs as the user time does, and not as the system time, which holds the faults.
    pub fn computes(&self) -> bool {
        self.user_ns.goes_with(&self.wall_ns) && !self.system_ns.goes_with(&self.wall_ns)
    }
}

impl Comparison {
    /// Compares `series` with the first of them.
    pub fn new(host: Host, series: Vec<Series>) -> Self {
        let rounds = series.iter().map(|one| one.runs.len()).min().unwrap_or(0);
        // Of several ratios, any may be off by chance.
        let error = tuning::COMPARE_ERROR / series.len().saturating_sub(1).max(1) as f64;
        let base: Vec<Run> = series.first().map(|first| first.runs.clone()).unwrap_or_default();
        let commands: Vec<Compared> = series
            .into_iter()
            .enumerate()
            .map(|(index, one)| compared(one, (index > 0).then_some(base.as_slice()), error))
            .collect();
        let notes = doubts(&commands, rounds as u32, error);
        Self { schema: 1, host, rounds: rounds as u32, error, commands, notes }
    }
}

fn compared(series: Series, base: Option<&[Run]>, error: f64) -> Compared {
    let Series { arm, warm_up, runs, fault_seconds } = series;
    let shown = if runs.is_empty() { vec![warm_up] } else { runs };
    let figure = |of| Quantity::of(&shown, base, error, of);
    let cpu_ns = figure(|run| run.cpu_ns);
    let failures = || shown.iter().filter(|run| run.exit != Exit::Status(0));
    Compared {
        wall_ns: figure(|run| run.wall_ns),
        cpu_ns,
        user_ns: figure(|run| run.cpu_ns.saturating_sub(run.system_ns)),
        system_ns: figure(|run| run.system_ns),
        faults: figure(|run| run.faults),
        peak_rss_bytes: figure(|run| run.peak_rss_bytes),
        fault_time: FaultTime::of(&fault_seconds, cpu_ns.median.value / 1e9),
        failed: failures().count() as u32,
        failure: failures().next().map(|run| run.exit),
        command: arm.name,
        runs: shown,
    }
}

/// Reasons to doubt the figures.
fn doubts(commands: &[Compared], rounds: u32, error: f64) -> Vec<String> {
    let mut notes = Vec::new();
    let unknown = commands.iter().skip(1).any(|command| command.wall_ns.ratio.is_none());
    if rounds > 0 && unknown {
        notes.push(format!(
            "{} too few for an interval that holds in {} of comparisons; --runs takes more",
            Count(u64::from(rounds)).are("round"),
            Percent(1.0 - error)
        ));
    }
    let cpu_ns: Vec<f64> = commands.iter().map(|command| command.cpu_ns.median.value).collect();
    if median(&cpu_ns).is_some_and(|cpu_ns| cpu_ns < tuning::SHORT_RUN_NS) {
        notes.push("most of such short runs is the start of the programs; give them more work".into());
    }
    notes
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::advice::Arm;
    use crate::measurement::Rng;

    fn series(name: &str, wall_ns: &[u64], faults: u64) -> Series {
        let arm = Arm { name: name.into(), what: String::new(), adopt: String::new() };
        let run = |&wall_ns: &u64| Run {
            wall_ns,
            cpu_ns: wall_ns,
            system_ns: 0,
            faults,
            peak_rss_bytes: 1 << 20,
            exit: Exit::Status(0),
            stdout_hash: 0,
            stdout_bytes: 0,
        };
        Series {
            arm,
            warm_up: run(&wall_ns[0]),
            runs: wall_ns.iter().map(run).collect(),
            fault_seconds: vec![],
        }
    }

    fn compare(series: Vec<Series>) -> Comparison {
        Comparison::new(Host::default(), series)
    }

    /// Rounds of a command that takes `ms`, on a machine that slows down and is disturbed.
    fn noisy(ms: f64, rounds: u64, rng: &mut Rng) -> Vec<u64> {
        let run = |round: u64, rng: &mut Rng| {
            let burst = if rng.below(8) == 0 { 1.3 } else { 1.0 };
            let jitter = 1.0 + rng.below(1000) as f64 / 20_000.0;
            (ms * 1e6 * (1.0 + round as f64 / 50.0) * burst * jitter) as u64
        };
        (0..rounds).map(|round| run(round, rng)).collect()
    }

    #[test]
    fn a_faster_command_is_faster_and_its_ratio_in_the_interval() {
        let mut rng = Rng::from_seed(1);
        let slow = series("a", &noisy(300.0, 12, &mut rng), 60_000);
        let fast = series("b", &noisy(100.0, 12, &mut rng), 1_000);
        let found = compare(vec![slow, fast]);
        let wall = found.commands[1].wall_ns;
        let ratio = wall.ratio.unwrap();
        assert!(ratio.low < 1.0 / 3.0 && 1.0 / 3.0 < ratio.high && ratio.high < 0.5, "{ratio:?}");
        assert_eq!(wall.difference(), Some(Difference::Less));
        assert_eq!(found.commands[0].wall_ns.difference(), None);
        let faults = found.commands[1].faults.ratio.unwrap();
        assert!((faults.low - 1.0 / 60.0).abs() < 1e-9 && (faults.high - 1.0 / 60.0).abs() < 1e-9);
    }

    #[test]
    fn equal_figures_are_no_difference_and_few_rounds_say_nothing() {
        let same = compare(vec![series("a", &[9_000_000; 12], 5), series("b", &[9_000_000; 12], 5)]);
        assert_eq!(same.commands[1].faults.difference(), Some(Difference::None));
        let few = compare(vec![series("a", &[9_000_000; 4], 5), series("b", &[7_000_000; 4], 5)]);
        assert_eq!(few.commands[1].wall_ns.difference(), None);
        assert!(few.notes[0].starts_with("4 rounds are too few"), "{:?}", few.notes);
    }

    #[test]
    fn failed_runs_are_counted() {
        let mut failing = series("b", &[9_000_000; 12], 5);
        failing.runs[3].exit = Exit::Status(3);
        let found = compare(vec![series("a", &[9_000_000; 12], 5), failing]);
        assert_eq!((found.commands[1].failed, found.commands[1].failure), (1, Some(Exit::Status(3))));
        assert_eq!((found.commands[0].failed, found.commands[0].failure), (0, None));
    }
}
