//! Rounds of runs -> a verdict on each cure, and which one to adopt.
//!
//! Every round runs each arm once, in shuffled order, so drift of the machine affects all arms alike. Each
//! run is compared only with the baseline of its round. This module does not run anything, and does not know
//! how a cure is applied.

mod fault_time;
mod label;
mod rivals;

use serde::{Deserialize, Serialize};

use crate::measurement::{self, Count, Interval};
use crate::observation::{Exit, Host};
use crate::tuning;

pub use fault_time::FaultTime;

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
    /// The run before all rounds. It fills caches; it is shown only if no round was finished.
    pub warm_up: Run,
    /// One run per round.
    pub runs: Vec<Run>,
    /// CPU seconds in page faults, one interval for each run that recorded single faults. Those runs are not
    /// in `runs`.
    pub fault_seconds: Vec<Interval>,
}

/// The result of one arm, compared with the baseline.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Score {
    /// The candidate.
    pub arm: Arm,
    /// Median elapsed time in ns.
    pub wall_ns: f64,
    /// Median CPU time in ns.
    pub cpu_ns: f64,
    /// Median number of faults, with its interval over the rounds.
    pub faults: Interval,
    /// CPU time in page faults; `None` if no run recorded them.
    pub fault_time: Option<FaultTime>,
    /// Median of the peak resident sets in bytes.
    pub peak_rss_bytes: f64,
    /// Elapsed time as a ratio to the baseline of the same round. `None` for the baseline, and without a
    /// finished round.
    pub wall: Option<Interval>,
    /// CPU time likewise.
    pub cpu: Option<Interval>,
    /// Elapsed time as a ratio to the fastest cure in the same round. `None` for the fastest cure, for a cure
    /// that does not help, and with too few rounds.
    pub beside_fastest: Option<Interval>,
    /// What became of it.
    pub standing: Standing,
    /// The same in words, with the reason.
    pub label: String,
    /// The raw runs.
    pub runs: Vec<Run>,
}

/// The verdict on an arm. A gain counts from 2 % on, a loss from 3 % on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Standing {
    /// The arm that the others are compared with.
    Baseline,
    /// It helps.
    Helps,
    /// It gains time, but perhaps too little to count.
    SmallGain,
    /// The intervals contain 1 and leave no room for a difference that counts.
    NoDifference,
    /// An interval contains 1 and a difference that counts.
    NotCertain,
    /// It costs time, but perhaps too little to count.
    SmallLoss,
    /// It costs time.
    Hurts,
    /// It gains time, but avoids hardly any faults. So the gain does not come from the cure.
    SameFaults,
    /// It gains time, but takes more memory than was allowed.
    TooMuchMemory,
    /// The program did not do the same under it.
    Differs,
    /// No round was finished.
    NotJudged,
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
    /// Rounds that were run and counted; with 0 the scores show the warm-up and nothing is judged.
    pub rounds: u32,
    /// Memory that a cure may take more than the baseline, as a share.
    pub max_rss_increase: f64,
    /// All arms, baseline first.
    pub scores: Vec<Score>,
    /// Index in `scores` of the cure to adopt; `None` if no cure is shown to help.
    pub winner: Option<usize>,
    /// The winner and the cures that these rounds do not tell from it; empty without a winner.
    pub level: Vec<usize>,
    /// If several cures are level: their names, and why the winner was chosen.
    pub choice: Option<String>,
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
    /// There is no baseline.
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
            Self::NoRuns => f.write_str("the program did not run: nothing to compare"),
        }
    }
}

impl std::error::Error for Refusal {}

/// Judges `series`, whose first is the baseline.
///
/// A cure helps if three conditions hold. The 95 % interval of its ratio of elapsed or CPU time lies below 98
/// %. The interval of the other time does not lie above 103 %. It lowers the number of faults by 5 % or more:
/// all cures act through faults, so one that leaves them unchanged won by chance.
///
/// The cures that help are then compared with the fastest of them, round by round. The cheapest of the level
/// cures wins. Otherwise the first one wins, because the caller lists simpler cures first.
///
/// # Errors
/// [`Refusal`] if the runs of the baseline differ; with `any_output` only their exit has to agree.
pub fn judge(
    command: Vec<String>,
    host: Host,
    series: Vec<Series>,
    max_rss_increase: f64,
    any_output: bool,
) -> Result<Advice, Refusal> {
    let base = series.first().ok_or(Refusal::NoRuns)?.clone();
    let first = base.runs.first().copied().unwrap_or(base.warm_up);
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
    let mut scores = Vec::with_capacity(series.len());
    for one in series {
        let differs = !one.runs.iter().all(|run| run.exit == first.exit && same_output(run));
        let mut score = score(one, (!scores.is_empty()).then_some(&base.runs));
        let judged = match scores.first() {
            None => (Standing::Baseline, String::new()),
            Some(base) => label::judged(&score, base, differs, max_rss_increase),
        };
        (score.standing, score.label) = judged;
        scores.push(score);
    }
    let (winner, level, choice) = rivals::choose(&mut scores);
    let notes = doubts(&scores, rounds);
    Ok(Advice { schema: 2, command, host, rounds, max_rss_increase, scores, winner, level, choice, notes })
}

/// Reasons to doubt a verdict from such runs.
fn doubts(scores: &[Score], rounds: u32) -> Vec<String> {
    let mut notes = Vec::new();
    let base = &scores[0];
    if (2..tuning::ENOUGH_ROUNDS).contains(&rounds) {
        notes.push(format!(
            "{} few: the intervals are wide, and only a large gain can be told from chance; --runs takes more",
            Count(u64::from(rounds)).are("round")
        ));
    }
    if base.cpu_ns < tuning::SHORT_RUN_NS {
        notes.push(format!(
            "a run takes {:.1} ms of CPU time, most of it to start the program: the figures say little about its work; give it \
             more",
            base.cpu_ns / 1e6
        ));
    }
    if scores.iter().any(|score| score.fault_time.is_some_and(|time| time.runs == 1)) {
        notes.push(
            "time in faults comes from one run: how much it varies from run to run is not known".into(),
        );
    }
    notes
}

fn score(series: Series, base: Option<&Vec<Run>>) -> Score {
    let Series { arm, warm_up, runs, fault_seconds } = series;
    let shown = if runs.is_empty() { &[warm_up][..] } else { &runs };
    let median = |of: fn(&Run) -> u64| measurement::median(&column(shown, of)).unwrap_or(0.0);
    let ratio = |of: fn(&Run) -> u64| {
        base.filter(|_| !runs.is_empty())
            .map(|base| measurement::ratio(&column(&runs, of), &column(base, of)))
    };
    Score {
        wall_ns: median(|run| run.wall_ns),
        cpu_ns: median(|run| run.cpu_ns),
        peak_rss_bytes: median(|run| run.peak_rss_bytes),
        faults: measurement::median_interval(&column(shown, |run| run.faults)).unwrap_or_default(),
        fault_time: FaultTime::of(&fault_seconds, median(|run| run.cpu_ns) / 1e9),
        wall: ratio(|run| run.wall_ns),
        cpu: ratio(|run| run.cpu_ns),
        beside_fastest: None,
        standing: Standing::NotJudged,
        label: String::new(),
        arm,
        runs,
    }
}

pub(crate) fn column(runs: &[Run], of: impl Fn(&Run) -> u64) -> Vec<f64> {
    runs.iter().map(|run| of(run) as f64).collect()
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// Arms other than the baseline fault less.
    pub(super) fn series(name: &str, wall_ms: &[u64], rss_mib: u64) -> Series {
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
        Series {
            arm,
            warm_up: run(&wall_ms[0]),
            runs: wall_ms.iter().map(run).collect(),
            fault_seconds: vec![],
        }
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
        assert_eq!((advice.winner, &advice.scores[1].standing), (None, &Standing::NotCertain));
    }

    #[test]
    fn a_cure_that_leaves_the_faults_as_they_are_has_won_by_chance() {
        let mut lucky = series("pool", &BASE.map(|ms| ms * 9 / 10), 20);
        lucky.runs.iter_mut().for_each(|run| run.faults = 990);
        let advice = advise(vec![series("as it is", &BASE, 20), lucky]).unwrap();
        assert_eq!((advice.winner, &advice.scores[1].standing), (None, &Standing::SameFaults));
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
    }

    #[test]
    fn without_rounds_the_warm_up_is_shown_and_nothing_judged() {
        let mut arms = vec![series("as it is", &[100], 20), series("pool", &[30], 20)];
        arms.iter_mut().for_each(|arm| arm.runs.clear());
        arms[0].fault_seconds = vec![Interval { value: 0.05, low: 0.04, high: 0.06 }];
        let advice = advise(arms).unwrap();
        assert_eq!((advice.rounds, advice.winner, advice.scores[1].wall_ns), (0, None, 30e6));
        assert_eq!((advice.scores[1].standing, advice.scores[1].wall), (Standing::NotJudged, None));
        assert!(
            advice.notes.len() == 1 && advice.notes[0].contains("comes from one run"),
            "{:?}",
            advice.notes
        );
        let alone = advise(vec![series("as it is", &BASE, 20)]).unwrap();
        assert_eq!((alone.rounds, alone.winner, alone.scores.len()), (8, None, 1));
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
