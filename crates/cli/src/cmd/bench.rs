//! The runs of a comparison.
//!
//! In: the ways to run a program, or several programs, and their input. Out: the figures of every run: a warm-up
//! of each arm, then rounds. Recording would disturb timed runs, so separate runs give the time in faults and
//! the memory at the end. With [`Losers`], arms that can't win leave on the way, and the others get their time.
//!
//! It does not judge (`trace::advice`, `trace::compare`).

use std::ffi::OsString;
use std::io::IsTerminal;
use std::ops::RangeInclusive;
use std::time::{Duration, Instant};

use super::rounds::{Engine, Input, Job, Ran, Stop, Warm, shuffled};
use super::run::find;
use super::trace_file::denied;
use crate::pager;
use faultless_console::{Failure, sink::Sink};
use faultless_prof::{Kernel, Sources};
use faultless_report::table::{unbroken, wrap};
use faultless_trace::Stat;
use faultless_trace::measurement::Count;
use faultless_trace::observation::{Exit, Observation};
use faultless_trace::program::{Image, images};
use faultless_trace::rounds::{Alike, Arm, Run, Series};
use faultless_trace::stat::{Interval, Source};

/// The number of rounds, when the user names neither it nor a time, fits this time within its bounds.
pub(super) const TIME: Duration = Duration::from_secs(40);
/// From then on it is told how long the rounds will take: one warm-up of a short program says little.
const TOLD_AFTER: Duration = Duration::from_secs(2);
/// After this many rounds, one more run of each arm is recorded. Chosen: a quarter more time.
const RECORDED_EVERY: u32 = 4;
/// Recorded runs of each arm, if there are as many rounds. With three, the median holds even if one is an
/// outlier.
const RECORDED_MIN: u32 = 3;

/// After so many rounds, arms that can't win are dropped; first after the warm-up. Chosen: the first few rounds tell large
/// differences, and the rounds between two looks halve an interval's width.
const LOOKS: [u32; 4] = [3, 6, 10, 15];

/// A way to run a program: its description, its command, and variables of its environment.
pub(super) struct Way {
    pub(super) arm: Arm,
    pub(super) command: Vec<OsString>,
    pub(super) environment: Vec<(OsString, OsString)>,
}

/// What to compare.
pub(super) struct Bench {
    /// What runs, in words.
    pub(super) what: String,
    /// The first is the baseline.
    pub(super) ways: Vec<Way>,
    pub(super) input: Input,
    pub(super) virtual_machine: bool,
    /// Bounds of the number of rounds, when the user names none.
    pub(super) rounds: RangeInclusive<u32>,
    /// Within these bounds, as many rounds as end before.
    pub(super) until: Until,
}

/// When the rounds should end.
pub(super) enum Until {
    /// So long after the warm-up.
    After(Duration),
    /// So long after this moment. Arms that can't win are dropped early. What is half as long again ends after three rounds.
    Halving(Instant, Duration, Losers),
}

/// All arms, and those that are left, of which the first is the baseline -> those of them that can't win any more.
pub(super) type Losers = Box<dyn Fn(&[Series], &[usize]) -> Vec<usize>>;

/// The outcome of all rounds, or of those before an interrupt.
pub(super) struct Measured {
    /// Baseline first. Empty if no run ended; short if the warm-up was interrupted.
    pub(super) series: Vec<Series>,
    /// What ran.
    pub(super) ways: Vec<Way>,
    /// What each run read.
    pub(super) input: Input,
    /// How far the comparison got, if it was interrupted.
    pub(super) interrupted: Option<String>,
    /// Why no fault was timed.
    pub(super) untimed: Option<String>,
    /// The programs that ran in the warm-up of each arm; empty if they could not be seen.
    pub(super) images: Vec<Vec<Image>>,
}

/// One finished run.
struct Finished {
    run: Run,
    fault_seconds: Option<Interval>,
    end_bytes: Option<u64>,
    /// Why `fault_seconds` is only the number of faults times a calibrated price.
    untimed: Option<String>,
    images: Vec<Image>,
    stderr_tail: String,
}

impl Bench {
    /// The warm-up, then the rounds.
    pub(super) fn measure(self, runs: Option<u32>) -> Result<Measured, Stop> {
        for way in &self.ways {
            find(&way.command[0]).map_err(Stop::NotStarted)?;
        }
        let arms = self.ways.len();
        let engine = Engine::new(self.input, "{bar:30} {pos}/{len} {msg}", arms as u64);
        let mut session = Session {
            begin: Instant::now(),
            ways: &self.ways,
            engine,
            warm: Warm::new(self.virtual_machine),
            series: Vec::with_capacity(arms),
            left: (0..arms).collect(),
            rounds: None,
            untimed: None,
            images: Vec::with_capacity(arms),
        };
        // A user who names the rounds wants them of each arm.
        let until = if runs.is_some() { Until::After(Duration::ZERO) } else { self.until };
        let bounds = runs.map_or(self.rounds, |runs| runs..=runs);
        let ended = session.warm_up().and_then(|cost| {
            let (begin, time, halving) = match until {
                Until::After(time) => (Instant::now(), time, None),
                Until::Halving(begin, time, losers) => (begin, time, Some(losers)),
            };
            let (until, late) = (begin + time, begin + time * 3 / 2);
            session.rounds(&Plan { bounds, until, late, halving }, cost, |wanted, left| {
                tell(&self.what, wanted, left)
            })
        });
        let rounds = session.rounds;
        let Session { series, untimed, images, engine, .. } = session;
        let interrupted = match (ended, rounds) {
            (Ok(()), _) => None,
            (Err(stop @ (Stop::Failed(_) | Stop::NotStarted(_))), _) => return Err(stop),
            (Err(Stop::Interrupted), None) => {
                Some(format!("interrupted in the warm-up: one run of {} of {arms} arms", series.len()))
            }
            (Err(Stop::Interrupted), Some(rounds)) => {
                Some(format!("interrupted after {} of {rounds} rounds", series[0].runs.len()))
            }
        };
        Ok(Measured { series, ways: self.ways, input: engine.into_input(), interrupted, untimed, images })
    }
}

/// Without a terminal there is no bar: says how long the rounds will take.
fn tell(what: &str, rounds: u32, all: Duration) {
    if !std::io::stderr().is_terminal() {
        let rounds = Count(u64::from(rounds)).of("round");
        let text = format!("{what}: {rounds}, at most about {} more; --runs sets their number", about(all));
        say(&text);
    }
}

/// Says something on stderr, in lines that fit it.
pub(super) fn say(text: &str) {
    let width = unbroken(pager::columns(Some(&Sink::Stderr)));
    eprintln!("{}", wrap("faultless: ", text, width).join("\n"));
}

/// `0.6 s`, `31 s`.
fn about(time: Duration) -> String {
    let seconds = time.as_secs_f64();
    format!("{seconds:.*} s", usize::from(seconds < 9.95))
}

/// What a timed run and a recorded run take, on average over the arms.
#[derive(Clone, Copy, Default)]
struct Cost {
    timed: Duration,
    recorded: Duration,
}

impl Cost {
    /// Of the rounds of so many arms from `round` on, with the recorded runs among them.
    fn left(self, arms: usize, round: u32, rounds: u32) -> Duration {
        let recorded = (round..rounds).filter(|&round| is_recorded(round, rounds)).count();
        (self.timed * (rounds - round) + self.recorded * recorded as u32) * arms as u32
    }

    /// How many rounds end within this time, of which `round` are over.
    fn rounds_that_fit(self, arms: usize, round: u32, bounds: &RangeInclusive<u32>, time: Duration) -> u32 {
        let fits = |&rounds: &u32| rounds >= round && self.left(arms, round, rounds) <= time;
        bounds.clone().rev().find(fits).unwrap_or(round.max(*bounds.start()))
    }
}

/// How many rounds, and when they end.
struct Plan {
    bounds: RangeInclusive<u32>,
    until: Instant,
    /// With a halving, the rounds end then, if there were enough for an interval.
    late: Instant,
    halving: Option<Losers>,
}

impl Plan {
    /// How many rounds there will be of so many arms, of which `round` are over. A baseline alone is compared with nothing.
    fn rounds(&self, arms: usize, round: u32, cost: Cost) -> u32 {
        let now = Instant::now();
        let time = self.until.saturating_duration_since(now);
        match arms {
            1 => round.max(LOOKS[0]),
            _ if self.halving.is_some() && now > self.late => round.max(LOOKS[0]),
            _ => cost.rounds_that_fit(arms, round, &self.bounds, time),
        }
    }

    /// Whether recorded runs, which take this time, follow a round. Arms that will be dropped need none.
    fn allows_recording(&self, round: u32, time: Duration) -> bool {
        self.halving.is_none() || round >= LOOKS[0] && Instant::now() + time <= self.until
    }
}

/// Runs so far, and their time.
#[derive(Default)]
struct Spent {
    runs: u32,
    time: Duration,
}

impl Spent {
    /// The mean time of a run, with these.
    fn mean_with(&mut self, time: Duration, runs: usize) -> Duration {
        (self.runs, self.time) = (self.runs + runs as u32, self.time + time);
        self.time / self.runs.max(1)
    }
}

/// The runs of a comparison so far.
struct Session<'a> {
    begin: Instant,
    ways: &'a [Way],
    engine: Engine,
    warm: Warm,
    series: Vec<Series>,
    /// The arms that were not dropped.
    left: Vec<usize>,
    /// How many rounds there will be, once that is known.
    rounds: Option<u32>,
    untimed: Option<String>,
    images: Vec<Vec<Image>>,
}

impl Session<'_> {
    /// One recorded run of each arm. Out: what a run takes. A baseline that fails is not worth a comparison.
    fn warm_up(&mut self) -> Result<Cost, Stop> {
        let (mut cost, mut around_run) = (Cost::default(), Duration::ZERO);
        for (index, way) in self.ways.iter().enumerate() {
            self.engine.bar.set_message(format!("warm-up: {}", way.arm.name));
            let arm = |warm_up| Series {
                arm: way.arm.clone(),
                warm_up,
                runs: vec![],
                fault_seconds: vec![],
                end_bytes: vec![],
                alike: Alike::Whole,
            };
            let is_new = self.ways[..index].iter().all(|before| before.command != way.command);
            let mut unrecorded = None;
            if is_new {
                // One unrecorded run first: its memory need is unknown yet, and it reads files from the disk.
                let begin = Instant::now();
                let first = self.run(way, Sources::NONE)?;
                around_run = begin.elapsed().saturating_sub(Duration::from_nanos(first.run.wall_ns));
                self.warm.learn(first.run.peak_rss_bytes);
                unrecorded = Some(first.run);
                self.series.push(arm(first.run));
            }
            let begin = Instant::now();
            self.warm.touch();
            let touched = begin.elapsed();
            let Finished { run, fault_seconds, end_bytes, untimed, images, stderr_tail } =
                self.run(way, RECORDED)?;
            self.untimed = self.untimed.take().or(untimed);
            self.images.push(images);
            self.warm.learn(run.peak_rss_bytes);
            if ended_by_user(run.exit) {
                return Err(
                    Failure(format!("the program was ended by {} in the warm-up round", run.exit)).into()
                );
            }
            if is_new && run.exit != Exit::Status(0) {
                self.tell_failure(way, run.exit, &stderr_tail);
            }
            self.series.truncate(index);
            let (fault_seconds, end_bytes) = (Vec::from_iter(fault_seconds), Vec::from_iter(end_bytes));
            let alike = unrecorded.map_or(Alike::Whole, |before| Alike::between(&before, &run));
            self.series.push(Series { fault_seconds, end_bytes, alike, ..arm(run) });
            self.engine.bar.inc(1);
            cost.recorded += begin.elapsed();
            cost.timed += touched + Duration::from_nanos(run.wall_ns) + around_run;
        }
        let arms = self.ways.len() as u32;
        Ok(Cost { timed: cost.timed / arms, recorded: cost.recorded / arms })
    }

    fn tell_failure(&self, way: &Way, exit: Exit, stderr_tail: &str) {
        let is_alone = self.ways.iter().all(|other| other.command == way.command);
        let name = if is_alone { "the program" } else { &way.arm.name };
        self.engine.bar.suspend(|| {
            eprintln!("faultless: {name} ends with {exit}; comparing such runs all the same");
            eprint!("{stderr_tail}");
        });
    }

    /// The rounds that count. An interrupted round leaves no timed run behind. `cost` is the warm-up's. `tell` gets the
    /// number of rounds and the time that is left, once enough has been seen.
    fn rounds(&mut self, plan: &Plan, mut cost: Cost, tell: impl Fn(u32, Duration)) -> Result<(), Stop> {
        let bar = self.engine.bar.clone();
        bar.reset();
        let (mut timed, mut recorded, mut is_told) = (Spent::default(), Spent::default(), false);
        self.drop_losers(plan);
        let (mut round, mut rounds) = (0, plan.rounds(self.left.len(), 0, cost));
        while round < rounds {
            self.rounds = Some(rounds);
            let (arms, left) = (self.left.len(), cost.left(self.left.len(), round, rounds));
            let recordings = (round..rounds).filter(|&round| is_recorded(round, rounds)).count();
            bar.set_length(bar.position() + (arms * ((rounds - round) as usize + recordings)) as u64);
            if !is_told && (self.begin.elapsed() >= TOLD_AFTER || round + 1 == rounds) {
                tell(rounds, left);
                is_told = true;
            }
            let about = format!("about {} left, round {} of {rounds}", about(left), round + 1);
            let begin = Instant::now();
            self.timed(&about)?;
            cost.timed = timed.mean_with(begin.elapsed(), arms);
            if is_recorded(round, rounds) && plan.allows_recording(round, cost.recorded * arms as u32) {
                let begin = Instant::now();
                self.recorded(recorded.runs == 0, &about)?;
                cost.recorded = recorded.mean_with(begin.elapsed(), arms);
            }
            round += 1;
            if LOOKS.contains(&round) && plan.halving.is_some() {
                self.drop_losers(plan);
                rounds = plan.rounds(self.left.len(), round, cost);
            }
        }
        Ok(())
    }

    /// A timed run of each arm that is left.
    fn timed(&mut self, about: &str) -> Result<(), Stop> {
        let mut timed = Vec::with_capacity(self.left.len());
        for index in shuffled(self.left.len()).into_iter().map(|at| self.left[at]) {
            timed.push((index, self.next(index, Sources::NONE, about)?.run));
        }
        timed.into_iter().for_each(|(index, run)| self.series[index].runs.push(run));
        Ok(())
    }

    /// A recorded run of each. The first replaces the warm-up's, which found nothing warm.
    fn recorded(&mut self, is_first: bool, about: &str) -> Result<(), Stop> {
        for index in shuffled(self.left.len()).into_iter().map(|at| self.left[at]) {
            let finished = self.next(index, RECORDED, about)?;
            let Series { fault_seconds, end_bytes, .. } = &mut self.series[index];
            if is_first {
                fault_seconds.clear();
                end_bytes.clear();
            }
            fault_seconds.extend(finished.fault_seconds);
            end_bytes.extend(finished.end_bytes);
        }
        Ok(())
    }

    fn drop_losers(&mut self, plan: &Plan) {
        let lost = plan.halving.as_ref().map(|losers| losers(&self.series, &self.left)).unwrap_or_default();
        self.left.retain(|arm| !lost.contains(arm));
    }

    /// A run of a round. The warm-up run ended without a signal, so a signal now comes from the user.
    fn next(&self, index: usize, allow: Sources, about: &str) -> Result<Finished, Stop> {
        let way = &self.ways[index];
        let with = if allow.pairs { ", recorded" } else { "" };
        self.engine.bar.set_message(format!("{about}: {}{with}", way.arm.name));
        self.warm.touch();
        let finished = self.run(way, allow)?;
        self.engine.bar.inc(1);
        if ended_by_user(finished.run.exit) { Err(Stop::Interrupted) } else { Ok(finished) }
    }

    fn run(&self, way: &Way, allow: Sources) -> Result<Finished, Stop> {
        let job = Job { command: &way.command, environment: &way.environment, allow };
        let Ran { seen, exit, stdout, stderr } = self.engine.observe(job)?;
        let usage = seen.usage;
        let run = Run {
            wall_ns: usage.wall_ns,
            cpu_ns: usage.cpu_ns(),
            system_ns: usage.system_ns,
            faults: usage.minor_faults + usage.major_faults,
            peak_rss_bytes: usage.peak_rss_bytes,
            exit,
            stdout_hash: stdout.hash,
            stdout_bytes: stdout.bytes,
            stdout_words: stdout.words,
        };
        let end_bytes = seen.end_bytes;
        // Without levels no curve is computed, which nobody reads here.
        let seen = Observation { levels: Vec::new(), ..seen };
        let time = if allow.pairs { Stat::from_observation(&seen).time } else { None };
        let is_calibrated = time.as_ref().is_some_and(|time| time.source == Source::Calibrated);
        let untimed = if is_calibrated { denied(&seen.sources) } else { None };
        let fault_seconds = time.map(|time| time.seconds);
        let images = images(&seen);
        Ok(Finished { run, fault_seconds, end_bytes, untimed, images, stderr_tail: stderr.tail })
    }
}

/// The sources of a recorded run: counts, single faults, and resident memory for that of the end.
const RECORDED: Sources =
    Sources { counters: true, pairs: true, kernel: Kernel::No, levels: true, bpf: false };

/// How many of these rounds are followed by recorded runs.
fn recorded(rounds: u32) -> u32 {
    (rounds / RECORDED_EVERY).max(RECORDED_MIN).min(rounds)
}

/// Whether `round`, counted from 0, is followed by recorded runs. The first is; the others are evenly spaced.
fn is_recorded(round: u32, rounds: u32) -> bool {
    round * recorded(rounds) % rounds < recorded(rounds)
}

/// Whether the user ended the run, not the program.
fn ended_by_user(exit: Exit) -> bool {
    const BY_USER: [i32; 4] = [1, 2, 3, 15]; // SIGHUP, SIGINT, SIGQUIT, SIGTERM: the same on every Linux
    matches!(exit, Exit::Signal(signal) if BY_USER.contains(&signal))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_fourth_round_is_recorded_the_first_among_them_and_three_at_least() {
        let which = |rounds: u32| -> Vec<u32> { (0..rounds).filter(|&r| is_recorded(r, rounds)).collect() };
        assert_eq!(which(3), [0, 1, 2]);
        assert_eq!(which(7), [0, 3, 5]);
        assert_eq!(which(20), [0, 4, 8, 12, 16]);
        assert!((1..=1000).all(|rounds| which(rounds).len() as u32 == recorded(rounds)));
    }

    #[test]
    fn rounds_and_recorded_runs_fit_the_budget_within_bounds_and_their_time_is_told() {
        let cost = |timed, recorded| {
            let [timed, recorded] = [timed, recorded].map(Duration::from_millis);
            Cost { timed, recorded }
        };
        let time = Duration::from_secs(40);
        let fit = |timed, recorded, round| cost(timed, recorded).rounds_that_fit(2, round, &(7..=20), time);
        assert_eq!((fit(0, 0, 0), fit(4_500, 4_500, 0), fit(1_200, 1_800, 0)), (20, 7, 12));
        assert_eq!(
            (fit(4_500, 4_500, 10), fit(1_200, 1_800, 6)),
            (13, 19),
            "rounds that are over take no time"
        );
        // Recording a short run takes longer than the run.
        assert_eq!(about(cost(60, 300).left(1, 0, 8)), "1.4 s");
        assert_eq!(about(cost(1_000, 1_500).left(2, 0, 20)), "55 s");
    }
}
