//! Rounds of several commands -> the cost of each command as a ratio to the first.
//!
//! `rounds` gives the figures and ratios.

use serde::{Deserialize, Serialize};

use crate::measurement::{Count, Percent};
use crate::observation::{Exit, Host};
use crate::rounds::{Alike, Difference, Figures, Mismatch, Quantity, Series, too_short};
use crate::tuning::COMPARE_ERROR;

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

/// One command.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Compared {
    /// The command, as it was given.
    pub command: String,
    /// Its figures.
    #[serde(flatten)]
    pub figures: Figures,
    /// Runs, of all rounds, that did not end with status 0.
    pub failed: u32,
    /// How such a run ended.
    pub failure: Option<Exit>,
    /// The first command printed the same in each run, and this one something else.
    #[serde(default)]
    pub prints_otherwise: bool,
}

impl Compared {
    /// The time differs as the user time does, and not as the system time, which holds the faults.
    pub fn computes(&self) -> bool {
        let shown = |of: &Quantity| {
            let difference = of.ratio.as_ref().map(Difference::of);
            difference.filter(|of| matches!(of, Difference::Less | Difference::More))
        };
        let Figures { wall_ns, user_ns, system_ns, .. } = &self.figures;
        let wall = shown(wall_ns);
        wall.is_some() && shown(user_ns) == wall && shown(system_ns) != wall
    }
}

/// Of several ratios, any may be off by chance: the share of the error for each of so many commands.
fn error(commands: usize) -> f64 {
    COMPARE_ERROR / commands.saturating_sub(1).max(1) as f64
}

/// The fewest rounds in which so many commands have intervals: if all are of one sign, the probability is 2^(1-n).
pub fn least_rounds(commands: usize) -> u32 {
    (1.0 - error(commands).log2().floor()) as u32
}

impl Comparison {
    /// Compares `series` with the first of them.
    pub fn new(host: Host, series: &[Series]) -> Self {
        let rounds = series.iter().map(|one| one.runs.len()).min().unwrap_or(0) as u32;
        let error = error(series.len());
        let base = series.first().map(|first| first.runs.as_slice()).unwrap_or_default();
        // Of a command that ends now so, now so, no run stands for the others.
        let unsteady = Mismatch::find(base, base, Alike::Unlike);
        let prints_alike = Mismatch::find(base, base, Alike::Whole).is_none();
        let compared = |(index, one): (usize, &Series)| {
            let beside = series.first().filter(|_| index > 0 && unsteady.is_none());
            let figures = Figures::of(one, beside, error, Alike::Unlike);
            let figures = Figures { mismatch: figures.mismatch.or(unsteady), ..figures };
            let failures: Vec<Exit> =
                figures.runs.iter().map(|run| run.exit).filter(|exit| *exit != Exit::Status(0)).collect();
            let (failed, failure) = (failures.len() as u32, failures.first().copied());
            let prints_otherwise = prints_alike
                && Mismatch::find(&figures.runs, base, Alike::Whole).is_some_and(|one| one.exit.is_none());
            Compared { command: one.arm.name.clone(), figures, failed, failure, prints_otherwise }
        };
        let commands: Vec<Compared> = series.iter().enumerate().map(compared).collect();
        let few = (1..least_rounds(series.len())).contains(&rounds).then(|| {
            format!(
                "{} too few for an interval that holds in {} of comparisons",
                Count(u64::from(rounds)).are("round"),
                Percent(1.0 - error)
            )
        });
        let short = too_short(commands.iter().map(|command| &command.figures));
        let notes = few.into_iter().chain(short).collect();
        Self { schema: 1, host, rounds, error, commands, notes }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measurement::Rng;
    use crate::rounds::tests::series as runs;

    fn series(name: &str, wall_ns: &[u64], faults: u64) -> Series {
        runs(name, wall_ns, faults, 1)
    }

    fn compare(series: Vec<Series>) -> Comparison {
        Comparison::new(Host::default(), &series)
    }

    fn difference(of: Quantity) -> Option<Difference> {
        of.ratio.as_ref().map(Difference::of)
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
        let wall = found.commands[1].figures.wall_ns;
        let ratio = wall.ratio.unwrap();
        assert!(ratio.low < 1.0 / 3.0 && 1.0 / 3.0 < ratio.high && ratio.high < 0.5, "{ratio:?}");
        assert_eq!(difference(wall), Some(Difference::Less));
        assert_eq!(difference(found.commands[0].figures.wall_ns), None);
        let faults = found.commands[1].figures.faults.ratio.unwrap();
        assert!((faults.low - 1.0 / 60.0).abs() < 1e-9 && (faults.high - 1.0 / 60.0).abs() < 1e-9);
    }

    #[test]
    fn equal_figures_are_no_difference_and_few_rounds_say_nothing() {
        let same = compare(vec![series("a", &[9_000_000; 12], 5), series("b", &[9_000_000; 12], 5)]);
        assert_eq!(difference(same.commands[1].figures.faults), Some(Difference::None));
        let few = compare(vec![series("a", &[9_000_000; 4], 5), series("b", &[7_000_000; 4], 5)]);
        assert_eq!(difference(few.commands[1].figures.wall_ns), None);
        assert!(few.notes[0].starts_with("4 rounds are too few"), "{:?}", few.notes);
        assert_eq!([2, 3, 4, 7, 20].map(least_rounds), [8, 9, 10, 11, 12]);
        for commands in [2, 4, 20] {
            let of = |rounds: u32| {
                let wall_ns = vec![9_000_000; rounds as usize];
                compare((0..commands).map(|_| series("a", &wall_ns, 5)).collect()).commands[1]
                    .figures
                    .wall_ns
                    .ratio
            };
            let least = least_rounds(commands);
            assert!(of(least).is_some() && of(least - 1).is_none(), "{commands} commands");
        }
    }

    #[test]
    fn failed_runs_are_counted_and_leave_no_ratio() {
        let sound = || series("a", &[9_000_000; 12], 5);
        let mut failing = series("b", &[3_000_000; 12], 5);
        failing.runs[3].exit = Exit::Status(3);
        let found = compare(vec![failing.clone(), sound()]);
        assert!(found.commands.iter().all(|one| one.figures.mismatch.is_some()), "A ends now so, now so");
        failing.runs.iter_mut().for_each(|run| run.exit = Exit::Status(3));
        let alike = compare(vec![failing.clone(), failing.clone()]);
        assert!(alike.commands[1].figures.wall_ns.ratio.is_some(), "both end with 3");
        failing.runs.iter_mut().skip(1).for_each(|run| run.exit = Exit::Status(0));
        let found = compare(vec![sound(), failing]);
        assert_eq!(found.commands[1].figures.wall_ns.ratio, None);
        assert!(!found.commands[1].prints_otherwise);
        assert_eq!((found.commands[1].failed, found.commands[1].failure), (1, Some(Exit::Status(3))));
        assert_eq!((found.commands[0].failed, found.commands[0].failure), (0, None));
        let mut other = sound();
        other.runs.iter_mut().for_each(|run| run.stdout_hash = 1);
        let found = compare(vec![sound(), other]);
        assert!(found.commands[1].prints_otherwise && found.commands[1].figures.wall_ns.ratio.is_some());
    }
}
