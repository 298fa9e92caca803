//! Which cure wins: rounds of runs in, a verdict out. Pure; the runs are made by the caller.
//!
//! Every round runs each arm once, in shuffled order, so the machine's drift hits all arms alike; only ratios to the
//! baseline of the same round are compared. What this does not do: run anything, or know how a cure is applied.

use serde::{Deserialize, Serialize};

use crate::measurement;
use crate::observation::{Exit, Host};
use crate::stat::Interval;
use crate::tuning;

/// A candidate: how the program was run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Arm {
    /// Short name: `pool`, `glibc thresholds`.
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
}

/// All runs of one arm; `runs[k]` belongs to round `k`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Series {
    /// The candidate.
    pub arm: Arm,
    /// One run per round.
    pub runs: Vec<Run>,
    /// CPU seconds in page faults, from a run apart that recorded single faults.
    pub fault_seconds: Option<f64>,
}

/// What one arm came to, beside the baseline.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Score {
    /// The candidate.
    pub arm: Arm,
    /// Median elapsed time in ns.
    pub wall_ns: f64,
    /// Median CPU time in ns.
    pub cpu_ns: f64,
    /// Median number of faults.
    pub faults: f64,
    /// CPU seconds in page faults.
    pub fault_seconds: Option<f64>,
    /// Median of the peak resident sets in bytes.
    pub peak_rss_bytes: f64,
    /// Elapsed time as a ratio to the baseline of the same round; `None` for the baseline.
    pub wall: Option<Interval>,
    /// CPU time likewise.
    pub cpu: Option<Interval>,
    /// What became of it.
    pub standing: Standing,
    /// The raw runs.
    pub runs: Vec<Run>,
}

/// What became of an arm.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Standing {
    /// It is what the others are compared with.
    Baseline,
    /// It helps.
    Helps,
    /// The interval does not exclude that it changes nothing.
    NoDifference,
    /// It costs time.
    Hurts,
    /// It helps, but takes more memory than was allowed.
    TooMuchMemory,
    /// The program did not do the same under it.
    Differs,
}

/// The answer of `faultless advise`. This is also its JSON document.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Advice {
    /// Version of this document's shape.
    pub schema: u32,
    /// The command.
    pub command: Vec<String>,
    /// The machine.
    pub host: Host,
    /// Rounds that were run and counted.
    pub rounds: u32,
    /// Memory that a cure may take more than the baseline, as a share.
    pub max_rss_increase: f64,
    /// All arms, baseline first.
    pub scores: Vec<Score>,
    /// Index of the winner in `scores`, or `None`: nothing helps.
    pub winner: Option<usize>,
    /// Things the reader must know to read the figures right.
    pub notes: Vec<String>,
}

/// Why programs can't be compared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The baseline itself ended differently from round to round.
    UnstableExit(Exit, Exit),
    /// The baseline printed different things from round to round.
    UnstableOutput,
    /// There is no baseline with a run.
    NoRuns,
}

impl std::fmt::Display for Refusal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::UnstableExit(a, b) => write!(
                f,
                "the program as it is ended differently from run to run ({a} and {b}): its runs can't be compared; \
                 give it input and arguments that make it end the same way"
            ),
            Self::UnstableOutput => f.write_str(
                "the program as it is printed different things from run to run: its runs may not do the same work; \
                 make its output repeatable (a fixed seed, no times), or pass --any-output to compare all the same",
            ),
            Self::NoRuns => f.write_str("no round was finished: nothing to compare"),
        }
    }
}

impl std::error::Error for Refusal {}

/// Judges `series`, whose first is the baseline.
///
/// A cure helps when the 95 % interval of its elapsed or CPU time ratio lies below `1 - 2 %` and the other of the two
/// does not lie above `1 + 3 %`, and when it lowers the number of faults by 5 % or more: all cures act through faults, so
/// one that leaves them as they are has won by chance. The winner is the smallest elapsed-time ratio among them. Of several that are
/// as good as the fastest, the one that saves worthwhile memory wins, else the first: the caller lists the simpler cures first.
///
/// # Errors
/// [`Refusal`] when the baseline does not repeat itself; with `any_output` only its exit is held against it.
pub fn judge(
    command: Vec<String>,
    host: Host,
    series: Vec<Series>,
    max_rss_increase: f64,
    any_output: bool,
) -> Result<Advice, Refusal> {
    let base = series.first().filter(|base| !base.runs.is_empty()).ok_or(Refusal::NoRuns)?.clone();
    let first = base.runs[0];
    if let Some(other) = base.runs.iter().find(|run| run.exit != first.exit) {
        return Err(Refusal::UnstableExit(first.exit, other.exit));
    }
    let same_output = |run: &Run| {
        any_output || (run.stdout_hash, run.stdout_bytes) == (first.stdout_hash, first.stdout_bytes)
    };
    if !base.runs.iter().all(same_output) {
        return Err(Refusal::UnstableOutput);
    }
    let rounds = series.iter().map(|s| s.runs.len()).min().unwrap_or(0) as u32;
    let base_rss = median(&column(&base.runs, |run| run.peak_rss_bytes));
    let base_faults = median(&column(&base.runs, |run| run.faults));
    let scores: Vec<Score> = series
        .into_iter()
        .enumerate()
        .map(|(index, series)| {
            let differs = !series.runs.iter().all(|run| run.exit == first.exit && same_output(run));
            let mut score = score(series, (index > 0).then_some(&base.runs));
            score.standing = match (&score.wall, &score.cpu) {
                (Some(wall), Some(cpu)) if !differs => {
                    let acts = score.faults < base_faults * (1.0 - tuning::FEWER_FAULTS);
                    let more = score.peak_rss_bytes / base_rss - 1.0;
                    standing(wall, cpu, acts, more > max_rss_increase + tuning::SAME_MEMORY)
                }
                (Some(_), _) => Standing::Differs,
                _ => Standing::Baseline,
            };
            score
        })
        .collect();
    let winner = winner(&scores);
    let notes = doubts(&scores, rounds, winner.is_some());
    Ok(Advice { schema: 1, command, host, rounds, max_rss_increase, scores, winner, notes })
}

/// What a verdict from such runs cannot tell.
fn doubts(scores: &[Score], rounds: u32, won: bool) -> Vec<String> {
    let mut notes = Vec::new();
    let base = &scores[0];
    if rounds < tuning::ENOUGH_ROUNDS {
        notes.push(format!(
            "{rounds} rounds are few: the intervals are wide, and only a large gain can be told from chance; --runs takes more"
        ));
    }
    if base.wall_ns < tuning::SHORT_RUN_NS {
        notes.push(format!(
            "a run takes {:.1} ms, most of it to start the program: the figures say little about its work; give it more",
            base.wall_ns / 1e6
        ));
    }
    if !won {
        let undecided = scores[1..].iter().filter(|score| {
            let faster = score.wall.is_some_and(|ratio| ratio.value < 1.0 - tuning::UNDECIDED);
            let fewer = score.faults < base.faults * (1.0 - tuning::FEWER_FAULTS);
            score.standing == Standing::NoDifference && faster && fewer
        });
        let names: Vec<&str> = undecided.map(|score| score.arm.name.as_str()).collect();
        if !names.is_empty() {
            notes.push(format!(
                "not certain for {}: faster in the median, yet it may be chance",
                names.join(", ")
            ));
        }
    }
    notes
}

fn score(series: Series, base: Option<&Vec<Run>>) -> Score {
    let Series { arm, runs, fault_seconds } = series;
    let ratio =
        |of: fn(&Run) -> u64| base.map(|base| measurement::ratio(&column(&runs, of), &column(base, of)));
    Score {
        wall_ns: median(&column(&runs, |run| run.wall_ns)),
        cpu_ns: median(&column(&runs, |run| run.cpu_ns)),
        faults: median(&column(&runs, |run| run.faults)),
        peak_rss_bytes: median(&column(&runs, |run| run.peak_rss_bytes)),
        wall: ratio(|run| run.wall_ns),
        cpu: ratio(|run| run.cpu_ns),
        standing: Standing::Baseline,
        arm,
        fault_seconds,
        runs,
    }
}

fn median(values: &[f64]) -> f64 {
    measurement::median(values).unwrap_or(0.0)
}

fn column(runs: &[Run], of: impl Fn(&Run) -> u64) -> Vec<f64> {
    runs.iter().map(|run| of(run) as f64).collect()
}

fn standing(wall: &Interval, cpu: &Interval, acts: bool, too_much_memory: bool) -> Standing {
    let wins = |ratio: &Interval| ratio.high < 1.0 - tuning::MIN_GAIN;
    let loses = |ratio: &Interval| ratio.low > 1.0 + tuning::MAX_LOSS;
    if loses(wall) || loses(cpu) {
        Standing::Hurts
    } else if !acts || (!wins(wall) && !wins(cpu)) {
        Standing::NoDifference
    } else if too_much_memory {
        Standing::TooMuchMemory
    } else {
        Standing::Helps
    }
}

fn winner(scores: &[Score]) -> Option<usize> {
    let helps = |&index: &usize| scores[index].standing == Standing::Helps;
    let wall = |index: usize| scores[index].wall.map_or(1.0, |ratio| ratio.value);
    let fastest = (1..scores.len()).filter(helps).min_by(|&a, &b| wall(a).total_cmp(&wall(b)))?;
    let fastest_rss = scores[fastest].peak_rss_bytes;
    let as_good = |&index: &usize| {
        let rival = |of: fn(&Run) -> u64| {
            measurement::ratio(&column(&scores[index].runs, of), &column(&scores[fastest].runs, of))
        };
        let (wall, cpu) = (rival(|run| run.wall_ns), rival(|run| run.cpu_ns));
        let same = |ratio: Interval| ratio.low <= 1.0 && ratio.value <= 1.0 + tuning::AS_GOOD;
        same(wall) && same(cpu)
    };
    let saves_memory = |index: usize| {
        let saved = fastest_rss - scores[index].peak_rss_bytes;
        saved > fastest_rss * tuning::WORTHWHILE_SHARE && saved > tuning::WORTHWHILE_BYTES
    };
    let equals: Vec<usize> = (1..scores.len()).filter(helps).filter(as_good).collect();
    let smallest = equals.iter().copied().filter(|&index| saves_memory(index));
    let smallest = smallest.min_by(|&a, &b| scores[a].peak_rss_bytes.total_cmp(&scores[b].peak_rss_bytes));
    smallest.or(equals.first().copied()).or(Some(fastest))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Arms other than the baseline fault less.
    fn series(name: &str, wall_ms: &[u64], rss_mib: u64) -> Series {
        let arm = Arm { name: name.into(), what: String::new(), adopt: String::new() };
        let run = |&ms: &u64| Run {
            wall_ns: ms * 1_000_000,
            cpu_ns: ms * 1_000_000,
            system_ns: 0,
            faults: if name == "as it is" { 1000 } else { 100 },
            peak_rss_bytes: rss_mib << 20,
            exit: Exit::Status(0),
            stdout_hash: 7,
            stdout_bytes: 3,
        };
        Series { arm, runs: wall_ms.iter().map(run).collect(), fault_seconds: None }
    }

    fn advise(series: Vec<Series>) -> Result<Advice, Refusal> {
        judge(vec!["x".into()], Host::default(), series, 0.5, false)
    }

    const BASE: [u64; 8] = [100, 104, 99, 101, 150, 98, 103, 100];

    #[test]
    fn a_cure_that_wins_every_round_is_picked() {
        let cured = BASE.map(|ms| ms / 3);
        let advice = advise(vec![series("as it is", &BASE, 20), series("pool", &cured, 22)]).unwrap();
        assert_eq!(advice.winner, Some(1));
        let wall = advice.scores[1].wall.unwrap();
        assert!(wall.low <= wall.value && wall.value <= wall.high && wall.high < 0.4, "{wall:?}");
    }

    #[test]
    fn noise_is_not_a_win() {
        let same = [101, 99, 103, 97, 120, 102, 99, 104];
        let advice = advise(vec![series("as it is", &BASE, 20), series("pool", &same, 20)]).unwrap();
        assert_eq!((advice.winner, &advice.scores[1].standing), (None, &Standing::NoDifference));
    }

    #[test]
    fn a_cure_that_leaves_the_faults_as_they_are_has_won_by_chance() {
        let mut lucky = series("pool", &BASE.map(|ms| ms * 9 / 10), 20);
        lucky.runs.iter_mut().for_each(|run| run.faults = 990);
        let advice = advise(vec![series("as it is", &BASE, 20), lucky]).unwrap();
        assert_eq!((advice.winner, &advice.scores[1].standing), (None, &Standing::NoDifference));
    }

    #[test]
    fn more_memory_than_allowed_is_no_cure() {
        let advice = advise(vec![series("as it is", &BASE, 20), series("pool", &BASE.map(|ms| ms / 2), 31)]);
        let advice = advice.unwrap();
        assert_eq!((advice.winner, &advice.scores[1].standing), (None, &Standing::TooMuchMemory));
    }

    #[test]
    fn a_page_more_is_not_more_memory() {
        let mut cured = series("pool", &BASE.map(|ms| ms / 2), 20);
        cured.runs.iter_mut().for_each(|run| run.peak_rss_bytes += 4096);
        let judged =
            judge(vec!["x".into()], Host::default(), vec![series("as it is", &BASE, 20), cured], 0.0, false);
        assert_eq!(judged.unwrap().winner, Some(1));
    }

    #[test]
    fn few_rounds_and_short_runs_are_said_to_be_so() {
        let base = series("as it is", &BASE, 20);
        assert_eq!(advise(vec![base.clone(), series("pool", &BASE, 20)]).unwrap().notes, [""; 0]);
        let few =
            |ms: &[u64]| advise(vec![series("as it is", &[5, 6, 7], 20), series("pool", ms, 20)]).unwrap();
        let notes = few(&[2, 9, 3]).notes.join("\n");
        assert!(notes.contains("3 rounds are few") && notes.contains("a run takes 6.0 ms"), "{notes}");
        assert!(notes.contains("not certain for pool"), "{notes}");
        assert!(!few(&[5, 6, 7]).notes.join("\n").contains("not certain"));
    }

    #[test]
    fn of_equals_the_one_that_saves_memory_wins_else_the_first() {
        let fast = [50, 51, 49, 50, 52, 50, 51, 49];
        let rival = [51, 50, 50, 49, 52, 51, 50, 50];
        let arms =
            |rss| vec![series("as it is", &BASE, 400), series("a", &rival, 500), series("b", &fast, rss)];
        assert_eq!(advise(arms(500)).unwrap().winner, Some(1));
        assert_eq!(advise(arms(420)).unwrap().winner, Some(2));
    }

    #[test]
    fn a_program_that_prints_something_else_is_not_compared() {
        let mut other = series("pool", &BASE.map(|ms| ms / 2), 20);
        other.runs[3].stdout_hash = 8;
        let advice = advise(vec![series("as it is", &BASE, 20), other.clone()]).unwrap();
        assert_eq!((advice.winner, &advice.scores[1].standing), (None, &Standing::Differs));
        assert_eq!(advise(vec![other, series("pool", &BASE, 20)]), Err(Refusal::UnstableOutput));
        assert_eq!(advise(vec![]), Err(Refusal::NoRuns));
    }
}
