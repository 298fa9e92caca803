//! Rounds of runs -> a verdict on each cure, and which one to adopt.
//!
//! `rounds` gives the figures and ratios. This module does not know how a cure is applied.

mod halving;
mod label;
mod rivals;

use serde::{Deserialize, Serialize};

pub use halving::losers;

use crate::heaps::Heap;
use crate::measurement::{Count, Interval};
use crate::observation::Host;
use crate::rounds::{Alike, Arm, Difference, Figures, Mismatch, Run, Series, ratio, too_short};
use crate::tuning::{ADVISE_ERROR, ENOUGH_ROUNDS};
use crate::why::Mechanism;

/// What a verdict goes by.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Terms {
    /// Memory that a cure may take more than the baseline, as a share.
    pub max_rss_increase: f64,
    /// Only the exits of runs have to agree, not what they print.
    pub any_output: bool,
    /// What is expected of each arm, baseline first; of arms that are missing here, nothing.
    pub expected: Vec<Expected>,
    /// By arm: its time after a pause as a ratio to the program as it is, the smallest of several. Arms that are missing here
    /// did not run after one.
    pub after_pause: Vec<Option<f64>>,
}

/// What is known of an arm before it runs.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Expected {
    /// CPU time that it saves, by the mechanisms that suggest it, ns: at least, at most.
    pub saves_ns: Option<[f64; 2]>,
    /// It may save time without saving faults: in calls, waits or collections.
    pub is_beyond_faults: bool,
}

impl Terms {
    fn expected(&self, arm: usize) -> Expected {
        self.expected.get(arm).copied().unwrap_or_default()
    }

    fn after_pause(&self, arm: usize) -> Option<f64> {
        self.after_pause.get(arm).copied().flatten()
    }
}

/// The result of one arm, compared with the baseline.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Score {
    /// The candidate.
    pub arm: Arm,
    /// Its figures.
    #[serde(flatten)]
    pub figures: Figures,
    /// Elapsed time as a ratio to the fastest cure in the same round. `None` for the fastest cure, for a cure
    /// that does not help, and with too few rounds.
    pub beside_fastest: Option<Interval>,
    /// What became of it; `None` for the baseline.
    pub standing: Option<Standing>,
    /// Why it is not comparable.
    pub reason: Option<Reason>,
    /// The same in words, with the reason.
    pub label: String,
    /// The rounds after which it was dropped, because it could not win any more; 0: after the warm-up. `None`: it stayed to
    /// the end. A dropped arm has the figures of its own rounds.
    #[serde(default)]
    pub dropped_after: Option<u32>,
    /// CPU time that it should save, by the mechanisms of the recording that suggest it, ns: at least, at most.
    #[serde(default)]
    pub estimate_ns: Option<[f64; 2]>,
    /// CPU time that it saved, ns: the ends of the interval of its ratio, times the baseline's median. Below 0: it cost
    /// time.
    #[serde(default)]
    pub measured_ns: Option<[f64; 2]>,
    /// Elapsed time as a ratio to the program as it is, both after a pause in which the host of the machine took free memory
    /// back: the smallest of several. `None`: it did not run after one.
    #[serde(default)]
    pub after_pause: Option<f64>,
}

/// The verdict on an arm. A gain counts from 2 % on, a loss from 3 % on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Standing {
    /// It gains time.
    Helps,
    /// The intervals leave no room for a difference that counts.
    NoDifference,
    /// An interval contains a difference that counts, and none.
    NotCertain,
    /// It costs time.
    Hurts,
    /// Its times say nothing for it.
    NotComparable,
}

/// Why an arm is not comparable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reason {
    /// It gains time, but avoids hardly any faults. So the gain does not come from the cure.
    SameFaults,
    /// It gains time, but takes more memory than was allowed.
    TooMuchMemory,
    /// It gains time, but only on memory that the host of the machine has not taken back.
    OnlyWarm,
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
    /// The mechanisms of the program as it is, if a recording told who gives memory back.
    #[serde(default)]
    pub mechanisms: Vec<Mechanism>,
    /// The allocators and runtimes of the program as it is, if it was recorded.
    #[serde(default)]
    pub heaps: Vec<Heap>,
    /// Things the reader must know to read the figures right.
    pub notes: Vec<String>,
}

impl Advice {
    /// Without a comparison, because no cure acts on the program, for this reason.
    pub fn nothing(command: Vec<String>, host: Host, mechanisms: Vec<Mechanism>, reason: String) -> Self {
        Self {
            schema: SCHEMA,
            command,
            host,
            rounds: 0,
            max_rss_increase: 0.0,
            scores: Vec::new(),
            winner: None,
            level: Vec::new(),
            choice: None,
            mechanisms,
            heaps: Vec::new(),
            notes: vec![reason],
        }
    }
}

/// Version of the JSON document; rises when a field changes its meaning or goes.
const SCHEMA: u32 = 3;

/// What is not compared of the outputs.
fn not_compared(alike: Alike) -> Option<String> {
    let what = match alike {
        Alike::Whole => return None,
        Alike::Words => {
            "numbers in the program's output differ from run to run, so the rest of it was compared"
        }
        Alike::Unlike => "the program's output differs from run to run, so it was not compared",
    };
    Some(format!("{what}; its runs may not do the same work (a fixed seed would help)"))
}

/// Judges `series`, whose first is the baseline.
///
/// A cure helps if three conditions hold. The 95 % interval of its ratio of elapsed or CPU time lies below 98
/// %. The interval of the other time does not lie above 103 %. It lowers the number of faults by 5 % or more:
/// most cures act through faults, and one that leaves them unchanged won by chance. A cure of calls or waits may leave
/// them; then its gain must hold at an error that is divided among all cures.
///
/// The cures that help are then compared with the fastest of them, round by round. The cheapest of the level
/// cures wins; of equally cheap ones the first, because the caller lists what is simpler to apply first.
///
/// # Errors
/// The runs of the baseline end differently.
pub fn judge(command: Vec<String>, host: Host, series: Vec<Series>, terms: &Terms) -> Result<Advice, String> {
    let base = series.first().ok_or("the program did not run: nothing to compare")?;
    if let Some(Mismatch { exit: Some(other), .. }) = Mismatch::find(&base.runs, &base.runs, Alike::Unlike) {
        return Err(format!(
            "the program as it is ended differently from run to run ({} and {other}): its runs can't be compared; \
             give it input and arguments that make it end the same way",
            base.runs[0].exit
        ));
    }
    let unlike = if terms.any_output { None } else { not_compared(base.alike()) };
    let rounds = base.runs.len() as u32;
    let mut scores = scores(&series, terms);
    let (winner, level, choice) = rivals::choose(&mut scores);
    let notes = unlike.into_iter().chain(doubts(&scores, rounds)).collect();
    Ok(Advice {
        schema: SCHEMA,
        command,
        host,
        rounds,
        max_rss_increase: terms.max_rss_increase,
        scores,
        winner,
        level,
        choice,
        mechanisms: Vec::new(),
        heaps: Vec::new(),
        notes,
    })
}

/// Each arm beside the first.
fn scores(series: &[Series], terms: &Terms) -> Vec<Score> {
    let mut scores: Vec<Score> = Vec::with_capacity(series.len());
    let alike = series.first().filter(|_| !terms.any_output).map_or(Alike::Unlike, Series::alike);
    for (index, one) in series.iter().enumerate() {
        let base = series.first().filter(|_| index > 0);
        let Expected { saves_ns, is_beyond_faults } = terms.expected(index);
        let figures = Figures::of(one, base, ADVISE_ERROR, alike);
        let arm = one.arm.clone();
        let mut score = Score {
            arm,
            beside_fastest: None,
            standing: None,
            reason: None,
            label: String::new(),
            dropped_after: base
                .filter(|base| one.runs.len() < base.runs.len())
                .map(|_| one.runs.len() as u32),
            estimate_ns: saves_ns,
            measured_ns: None,
            after_pause: terms.after_pause(index),
            figures,
        };
        if let (Some(first), Some(base)) = (scores.first(), base) {
            let is_sure = is_beyond_faults && gains_surely(one, base, series.len() - 1);
            let base_ns = first.figures.cpu_ns.median.value;
            let ratio = score.figures.cpu_ns.ratio.filter(|ratio| ratio.high < f64::MAX);
            // No cure saves more than the whole.
            score.estimate_ns = saves_ns.map(|ends| ends.map(|end| end.min(base_ns)));
            score.measured_ns = ratio.map(|ratio| [ratio.high, ratio.low].map(|end| base_ns * (1.0 - end)));
            label::judge(&mut score, &first.figures, terms.max_rss_increase, is_sure);
            label::after_pause(&mut score);
        }
        scores.push(score);
    }
    scores
}

/// Whether an arm gains time at an error that is divided among all arms, so that chance gives none of them a gain.
fn gains_surely(arm: &Series, base: &Series, arms: usize) -> bool {
    let error = ADVISE_ERROR / arms.max(1) as f64;
    let times: [fn(&Run) -> u64; 2] = [|run| run.wall_ns, |run| run.cpu_ns];
    times.into_iter().any(|of| {
        let [arm, base] = [arm, base].map(|series| series.column(of));
        ratio(&arm, &base, error).is_some_and(|ratio| Difference::that_counts(&ratio) == Difference::Less)
    })
}

/// Reasons to doubt a verdict from such runs.
fn doubts(scores: &[Score], rounds: u32) -> Vec<String> {
    let stayed = scores.iter().filter(|score| score.dropped_after.is_none());
    let is_compared = stayed.clone().count() > 1 || scores.len() == 1;
    let few = ((2..ENOUGH_ROUNDS).contains(&rounds) && is_compared).then(|| {
        format!(
            "{} few: the intervals are wide, and only a large gain can be told from chance; --runs takes more",
            Count(u64::from(rounds)).are("round")
        )
    });
    let once = stayed.clone().any(|score| score.figures.fault_time.is_some_and(|time| time.runs == 1));
    let dropped = (stayed.count() < scores.len()).then(|| {
        "cures that could not win any more were dropped; their figures are those of their own rounds, and the rounds that \
         chose the others count for these too"
            .to_owned()
    });
    let once = once
        .then(|| "time in faults comes from one run: how much it varies from run to run is not known".into());
    let short = too_short(scores.iter().take(1).map(|score| &score.figures));
    few.into_iter().chain(short).chain(dropped).chain(once).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rounds::tests::series as runs;

    /// Arms other than the baseline fault less.
    pub(super) fn series(name: &str, wall_ms: &[u64], rss_mib: u64) -> Series {
        let wall_ns: Vec<u64> = wall_ms.iter().map(|ms| ms * 1_000_000).collect();
        runs(name, &wall_ns, if name == "as it is" { 1000 } else { 100 }, rss_mib)
    }

    fn advise(series: Vec<Series>) -> Result<Advice, String> {
        judge(vec!["x".into()], Host::default(), series, &terms())
    }

    pub(super) fn terms() -> Terms {
        Terms { max_rss_increase: 0.5, ..Terms::default() }
    }

    const BASE: [u64; 8] = [100, 104, 99, 101, 150, 98, 103, 100];

    /// The winner, and what became of an arm beside a program that takes `BASE` and 20 MiB.
    fn beside_base(arm: Series) -> (Option<usize>, Option<Standing>, Option<Reason>) {
        let advice = advise(vec![series("as it is", &BASE, 20), arm]).unwrap();
        (advice.winner, advice.scores[1].standing, advice.scores[1].reason)
    }

    #[test]
    fn only_a_cure_that_wins_by_its_faults_and_within_the_memory_allowed_is_picked() {
        use Standing::*;
        let cured = BASE.map(|ms| ms / 3);
        assert_eq!(beside_base(series("pool", &cured, 22)), (Some(1), Some(Helps), None));
        let noise = [101, 99, 103, 97, 120, 102, 99, 104];
        assert_eq!(beside_base(series("pool", &noise, 20)), (None, Some(NotCertain), None));
        let mut lucky = series("pool", &cured, 20);
        lucky.runs.iter_mut().for_each(|run| run.faults = 990);
        assert_eq!(beside_base(lucky), (None, Some(NotComparable), Some(Reason::SameFaults)));
        let greedy = series("pool", &cured, 31);
        assert_eq!(beside_base(greedy), (None, Some(NotComparable), Some(Reason::TooMuchMemory)));
    }

    #[test]
    fn what_helps_on_warm_memory_alone_is_not_recommended() {
        let judged = |ratio| {
            let arms = ["as it is", "a", "b"].map(|name| series(name, &BASE, 20));
            let [base, mut a, mut b] = arms;
            for (arm, part) in [(&mut a, 4), (&mut b, 2)] {
                arm.runs
                    .iter_mut()
                    .for_each(|run| (run.wall_ns, run.cpu_ns) = (run.wall_ns / part, run.cpu_ns / part));
            }
            let terms = Terms { after_pause: vec![None, ratio], ..terms() };
            judge(vec![], Host::default(), vec![base, a, b], &terms).unwrap()
        };
        let shown = |ratio| {
            let advice = judged(ratio);
            (advice.winner, advice.scores[1].reason, advice.scores[1].label.clone())
        };
        assert_eq!(shown(None), (Some(1), None, "faster".into()));
        assert_eq!(
            shown(Some(1.15)),
            (Some(1), None, "faster; after a pause, 1.15 times as long as unchanged".into())
        );
        let (winner, reason, label) = shown(Some(1.25));
        assert_eq!((winner, reason), (Some(2), Some(Reason::OnlyWarm)));
        assert_eq!(label, "faster; not recommended: after a pause, 1.25 times as long as unchanged");
    }

    #[test]
    fn a_cure_of_calls_or_waits_may_leave_the_faults_if_chance_does_not_explain_its_gain() {
        let judged = |rounds: usize, is_beyond_faults| {
            let mut arms = vec![series("as it is", &BASE[..rounds], 20), series("b", &BASE[..rounds], 20)];
            arms.push(series("c", &BASE.map(|ms| ms / 2)[..rounds], 20));
            arms[2].runs.iter_mut().for_each(|run| run.faults = 1000);
            let expected = Expected { is_beyond_faults, saves_ns: Some([4e7, 6e7]) };
            let terms = Terms { expected: vec![Expected::default(), expected, expected], ..terms() };
            judge(vec![], Host::default(), arms, &terms).unwrap()
        };
        let advice = judged(8, true);
        let cure = &advice.scores[2];
        assert_eq!((advice.winner, cure.reason, cure.estimate_ns), (Some(2), None, Some([4e7, 6e7])));
        let [low, high] = cure.measured_ns.unwrap();
        assert!(low > 4.8e7 && high < 5.3e7, "half of 100 ms: {low} to {high}");
        assert_eq!(judged(8, false).scores[2].reason, Some(Reason::SameFaults));
        assert_eq!(judged(6, true).scores[2].reason, Some(Reason::SameFaults), "six rounds are too few");
    }

    #[test]
    fn an_arm_with_fewer_rounds_was_dropped_has_their_figures_and_is_not_level() {
        let mut early = series("a", &BASE.map(|ms| ms / 3), 20);
        early.runs.truncate(3);
        let mut never = series("b", &BASE, 20);
        never.runs.clear();
        let fast = series("c", &BASE.map(|ms| ms / 4), 20);
        let advice = advise(vec![series("as it is", &BASE, 20), early, never, fast]).unwrap();
        assert_eq!((advice.rounds, advice.winner, advice.level), (8, Some(3), vec![3]));
        let after = |arm: usize| (advice.scores[arm].dropped_after, advice.scores[arm].label.as_str());
        assert_eq!(after(1), (Some(3), "faster; slower than c in its rounds; dropped after 3 rounds"));
        assert_eq!(after(2), (Some(0), "it takes away hardly any faults; dropped after the warm-up"));
        assert_eq!(after(3), (None, "faster"));
        assert!(advice.notes.join("\n").contains("were dropped"), "{:?}", advice.notes);
    }

    #[test]
    fn a_page_more_is_not_more_memory() {
        let mut cured = series("pool", &BASE.map(|ms| ms / 2), 20);
        cured.runs.iter_mut().for_each(|run| run.peak_rss_bytes += 4096);
        let arms = vec![series("as it is", &BASE, 20), cured];
        let judged = judge(vec!["x".into()], Host::default(), arms, &Terms::default());
        assert_eq!(judged.unwrap().winner, Some(1));
    }

    #[test]
    fn few_rounds_and_short_runs_are_said_to_be_so() {
        let base = series("as it is", &BASE, 20);
        assert_eq!(advise(vec![base.clone(), series("pool", &BASE, 20)]).unwrap().notes, [""; 0]);
        let few =
            |ms: &[u64]| advise(vec![series("as it is", &[5, 6, 7], 20), series("pool", ms, 20)]).unwrap();
        let notes = few(&[2, 9, 3]).notes.join("\n");
        assert!(notes.contains("3 rounds are few") && notes.contains("a run takes 6.00 ms"), "{notes}");
    }

    #[test]
    fn without_rounds_the_warm_up_is_shown_and_nothing_judged() {
        let mut arms = vec![series("as it is", &[100], 20), series("pool", &[30], 20)];
        arms.iter_mut().for_each(|arm| arm.runs.clear());
        arms[0].fault_seconds = vec![Interval { value: 0.05, low: 0.04, high: 0.06 }];
        let advice = advise(arms).unwrap();
        let pool = &advice.scores[1];
        assert_eq!((advice.rounds, advice.winner, pool.figures.wall_ns.median.value), (0, None, 30e6));
        assert_eq!((pool.reason, pool.figures.wall_ns.ratio), (Some(Reason::NotJudged), None));
        let [note] = &advice.notes[..] else { panic!("{:?}", advice.notes) };
        assert!(note.contains("comes from one run"), "{note}");
        let alone = advise(vec![series("as it is", &BASE, 20)]).unwrap();
        assert_eq!((alone.rounds, alone.winner, alone.scores.len()), (8, None, 1));
    }

    #[test]
    fn a_program_that_prints_something_else_is_not_compared() {
        let mut other = series("pool", &BASE.map(|ms| ms / 2), 20);
        other.runs[3].stdout_hash = 8;
        assert_eq!(beside_base(other.clone()), (None, Some(Standing::NotComparable), Some(Reason::Differs)));
        let arms =
            vec![series("as it is", &BASE, 20), other.clone(), series("env", &BASE.map(|ms| ms / 2), 20)];
        let advice = advise(arms).unwrap();
        assert_eq!((advice.winner, advice.level), (Some(2), vec![2]));
        assert_eq!(advice.scores[1].label, "not compared: 1 of 8 runs printed something else");
        let noted = |base: Series| {
            let pool = series("pool", &BASE.map(|ms| ms / 2), 10);
            let advice = advise(vec![base, pool]).unwrap();
            assert_eq!(advice.winner, Some(1));
            advice.notes[0].clone()
        };
        let mut words = series("as it is", &BASE, 20);
        words.runs[3].stdout_hash = 8;
        assert!(noted(words.clone()).starts_with("numbers in the program's output"));
        words.runs[3].stdout_words = 8;
        assert!(noted(words).contains("was not compared"));
        assert!(advise(vec![]).unwrap_err().contains("did not run"));
    }
}
