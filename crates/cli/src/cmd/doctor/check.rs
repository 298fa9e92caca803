//! `faultless doctor --check`: how true the figures of `stat` and `record` are for programs that time each of
//! their touches.
//!
//! In: this machine. Out: for each program, the measured time divided by the true time, how many intervals
//! hold, and the largest error in the counts of kinds.
//!
//! The truth of a watched run is the mean of the plain runs before and after it. A plain run beside it, on the same
//! processor, would share its caches: figures were then up to 20 % too high. Faults that the program does not time,
//! such as faults at its start, are left out.
//! A standing workload does not time all of its touches; the mean of those that it times stands for the others.
//!
//! The machine's speed changes between runs, and no interval of one run knows that. As a yardstick, the middle one of
//! a round's three plain runs is judged as if it were a measurement with an interval as wide as the verb's. Where
//! plain runs miss as often as the verb does, the answer is that this machine cannot say.
//!
//! It does not correct anything.

mod report;
mod text;

use std::ffi::OsString;
use std::process::ExitCode;

use faultless_console::{Failure, INTERRUPTED, Outcome, emit};
use faultless_os::spawn;
use faultless_prof::{Options, Sources, facts};
use faultless_trace::Stat;
use faultless_trace::findings::{Findings, Wanted};
use faultless_trace::measurement::{Percent, median, median_interval, percentile, share_interval};
use faultless_trace::observation::Host;
use faultless_trace::sites::Group;
use faultless_trace::stat::{Interval, Kind};

use crate::cmd::rounds::{Engine, Input, Job, Ran, Stop, Warm};
use crate::cmd::workload::StandingTimes;
use crate::cmd::workload::timed::TimedTouches;

use report::{Accuracy, Answer, HALF_WIDTH, HOLDING_SHARE, KIND_SHARE, ProgramReport, Report, Round, SCHEMA};

/// Rounds. In each, every program runs under `stat` and under `record`, with a plain run before, between and after.
/// Chosen: at least 100 intervals for each verb.
const ROUNDS: usize = 10;
/// A program: its name, and the words after `workload`. The standing workload `mixed` is left out: it times too
/// few pages, and they are not its own.
struct TimedProgram(&'static str, &'static str);

static PROGRAMS: [TimedProgram; 21] = [
    TimedProgram("first touch, 20 ms", "timed first-touch --pages 2048 --rounds 8"),
    TimedProgram("first touch", "timed first-touch --pages 2048 --rounds 60"),
    TimedProgram("first touch, 2 s", "timed first-touch --pages 65536 --rounds 24"),
    TimedProgram("zero page", "timed zero-page --pages 2048 --rounds 40"),
    TimedProgram("copy after fork", "timed copy --pages 2048 --rounds 30"),
    TimedProgram("huge and base pages", "timed thp --pages 2048 --rounds 50"),
    TimedProgram("huge pages between", "timed mthp --pages 2048 --rounds 60"),
    TimedProgram("file, read", "timed file-read --pages 16384 --rounds 60"),
    TimedProgram("file, private write", "timed file-write --pages 2048 --rounds 40"),
    TimedProgram("two threads", "timed threads --pages 4000 --rounds 40"),
    TimedProgram("phases", "timed phases --pages 8192"),
    TimedProgram("children", "timed children --pages 4000 --rounds 20"),
    TimedProgram("chunk-pipeline", "chunk-pipeline --json --all-touches"),
    TimedProgram("temporaries", "temporaries --json --all-touches --total-mib 1024"),
    TimedProgram("calloc-sparse", "calloc-sparse --json --all-touches"),
    TimedProgram("calloc-full", "calloc-full --json --all-touches"),
    TimedProgram("growth", "growth --json --all-touches --max-mib 512"),
    TimedProgram("bursts", "bursts --json --all-touches --bursts 1"),
    TimedProgram("idle-bursts", "idle-bursts --json --all-touches --bursts 2 --blocks 250 --idle-ms 100"),
    TimedProgram(
        "thread-churn",
        "thread-churn --json --all-touches --threads 10 --blocks 2 --block-kib 33000",
    ),
    TimedProgram("touch-once", "touch-once --json --all-touches"),
];

/// Touches that a program timed itself.
#[derive(Clone, Debug, Default)]
struct OwnTimes {
    faults: u64,
    /// Time of all of them, ns.
    ns: f64,
    /// By kind, if the program knows them.
    kinds: Vec<(Kind, u64)>,
}

/// What a verb said of a watched run.
#[derive(Clone, Debug)]
struct Said {
    /// The program's own times in the watched run; they contain the overhead of recording.
    own: OwnTimes,
    time_ns: Option<Interval>,
    /// Faults of each kind, and their time in ns, as the verb reports them.
    kinds: Vec<(Kind, u64, f64)>,
}

/// A watched run between two plain ones.
struct Between {
    said: Said,
    /// Price of a fault in the plain run before and in the one after, ns.
    plain_ns: [f64; 2],
}

/// One program's rounds.
struct Rounds {
    warm: Warm,
    stat: Vec<Between>,
    record: Vec<Between>,
    /// The plain runs, three a round.
    plain: Vec<OwnTimes>,
}

impl Rounds {
    fn new(warm: Warm) -> Self {
        Self { warm, stat: Vec::new(), record: Vec::new(), plain: Vec::new() }
    }

    fn is_empty(&self) -> bool {
        self.stat.is_empty() && self.record.is_empty()
    }

    /// One more round of a program: plain, watched, plain, watched, plain.
    fn take(&mut self, program: &TimedProgram, engine: &Engine, stat_first: bool) -> Result<(), Stop> {
        self.warm.touch();
        let mut before = program.plain(engine)?;
        for is_stat in [stat_first, !stat_first] {
            self.warm.touch();
            let said = if is_stat { program.stat(engine, &mut self.warm) } else { program.record(engine) }?;
            let after = program.plain(engine)?;
            let between = Between { said, plain_ns: [before.price_ns(), after.price_ns()] };
            if is_stat { &mut self.stat } else { &mut self.record }.push(between);
            self.plain.push(before);
            before = after;
        }
        self.plain.push(before);
        Ok(())
    }
}

/// Runs the check. The status is 1 if something is outside the limits.
pub(super) fn run(only: &str, json: bool) -> Outcome {
    let programs: Vec<&'static TimedProgram> =
        PROGRAMS.iter().filter(|program| program.0.contains(only)).collect();
    if programs.is_empty() {
        let names: Vec<&str> = PROGRAMS.iter().map(|program| program.0).collect();
        return Err(Failure(format!(
            "--check: no program's name has {only:?} in it; there are: {}",
            names.join("; ")
        )));
    }
    let host = facts::host();
    let rounds = take(&programs, &host)?;
    let report = report(&programs, host, rounds);
    if report.is_interrupted {
        eprintln!("faultless: interrupted; figures are of the rounds until then");
    }
    let text = if json { faultless_report::json(&report) } else { text::text(&report) };
    let code = match report.answer {
        _ if report.is_interrupted => INTERRUPTED,
        Answer::Holds => 0,
        Answer::Fails | Answer::CannotSay => 1,
    };
    emit(text.as_bytes(), ExitCode::from(code))
}

/// All rounds of all programs, or those until Ctrl-C. In a round each program runs under both verbs, which take turns in
/// going first.
fn take(programs: &[&'static TimedProgram], host: &Host) -> Result<Vec<Rounds>, Failure> {
    let steps = (ROUNDS * programs.len()) as u64;
    let engine = Engine::new(Input::Null, "checking {bar:30} {pos}/{len} {msg}", steps);
    let warm = || Warm::new(host.hypervisor.is_some());
    let mut rounds: Vec<Rounds> = programs.iter().map(|_| Rounds::new(warm())).collect();
    'rounds: for round in 0..ROUNDS {
        for (&program, rounds) in programs.iter().zip(&mut rounds) {
            engine.bar.set_message(program.0);
            if program.cannot_run(host).is_none() {
                match rounds.take(program, &engine, round % 2 == 0) {
                    Err(Stop::Interrupted) => break 'rounds,
                    taken => taken.map_err(Stop::failure)?,
                }
            }
            engine.bar.inc(1);
        }
    }
    engine.bar.finish_and_clear();
    Ok(rounds)
}

impl TimedProgram {
    fn cannot_run(&self, host: &Host) -> Option<&'static str> {
        match self.1.split(' ').nth(1) {
            Some("thp") if host.thp == "never" || host.thp_bytes == 0 => Some("there are no huge pages here"),
            Some("mthp") if host.mthp_bytes.is_empty() => Some("no size between is switched on"),
            _ => None,
        }
    }

    fn command(&self) -> Result<Vec<OsString>, Failure> {
        let program = std::env::current_exe()?.into_os_string();
        Ok([program, "workload".into()].into_iter().chain(self.1.split(' ').map(Into::into)).collect())
    }

    /// Runs it unwatched.
    fn plain(&self, engine: &Engine) -> Result<OwnTimes, Stop> {
        Ok(self
            .own(engine.observe(Job {
                command: &self.command()?,
                environment: &[],
                allow: Sources::NONE,
            })?)?
            .0)
    }

    fn stat(&self, engine: &Engine, warm: &mut Warm) -> Result<Said, Stop> {
        let job = Job { command: &self.command()?, environment: &[], allow: Sources::default() };
        let (own, observation) = self.own(engine.observe(job)?)?;
        warm.learn(2 * observation.usage.peak_rss_bytes);
        Ok(Said::of_stat(&Stat::from_observation(&observation), own))
    }

    fn record(&self, engine: &Engine) -> Result<Said, Stop> {
        let job = Job { command: &self.command()?, environment: &[], allow: Sources::default() };
        let (own, recording) = self.own(engine.record(job, &Options::default())?)?;
        let wanted = Wanted { by: Some(Group::Kind), top: usize::MAX, ..Wanted::default() };
        Ok(Said::of_record(&Findings::new(&recording, &wanted).map_err(Failure)?, own))
    }

    /// The program's own times, and what was seen.
    fn own<T>(&self, ran: Ran<T>) -> Result<(OwnTimes, T), Failure> {
        let name = format!("--check: the program {:?}", self.0);
        let (seen, printed) = ran.success(&name, "there are no figures; run it again")?;
        Ok((OwnTimes::of(printed.tail.as_bytes())?, seen))
    }
}

impl OwnTimes {
    /// Reads a program's output: touches by kind from a timed program, the mean of its samples from a
    /// standing workload.
    fn of(printed: &[u8]) -> Result<Self, Failure> {
        if let Ok(told) = serde_json::from_slice::<TimedTouches>(printed) {
            let kinds: Vec<(Kind, u64)> = told.iter().map(|(kind, timed)| (*kind, timed.faults)).collect();
            let faults = kinds.iter().map(|(_, faults)| faults).sum();
            return Ok(Self { faults, ns: told.values().map(|timed| timed.ns).sum(), kinds });
        }
        let StandingTimes { faults, first_touch_mean_ns } = serde_json::from_slice(printed)?;
        let price_ns = first_touch_mean_ns
            .ok_or_else(|| Failure("--check: a workload touched no new page, so there is no truth".into()))?;
        Ok(Self { faults, ns: faults as f64 * price_ns, kinds: Vec::new() })
    }

    fn price_ns(&self) -> f64 {
        self.ns / self.faults.max(1) as f64
    }
}

impl Said {
    fn of_stat(stat: &Stat, own: OwnTimes) -> Self {
        let kinds =
            stat.rows.iter().map(|row| (row.kind, row.faults, row.seconds.unwrap_or(0.0) * 1e9)).collect();
        Self { own, time_ns: stat.time.as_ref().map(|time| time.seconds.times(1e9)), kinds }
    }

    fn of_record(findings: &Findings, own: OwnTimes) -> Self {
        let rows = findings.tables.iter().flat_map(|table| &table.sites.rows);
        let kinds = rows
            .flat_map(|row| &row.kinds)
            .filter(|(kind, ..)| *kind != Kind::Major)
            .map(|(kind, faults, ns)| (*kind, faults.round() as u64, *ns));
        let beyond = findings.beyond.iter();
        let beyond = beyond.map(|(kind, faults, seconds)| (*kind, *faults, seconds.unwrap_or(0.0) * 1e9));
        Self { own, time_ns: findings.time_ns, kinds: kinds.chain(beyond).collect() }
    }

    fn faults(&self, wanted: Kind) -> u64 {
        self.kinds.iter().filter(|(kind, ..)| *kind == wanted).map(|(_, faults, _)| faults).sum()
    }

    /// The reported time, scaled down to the touches that the program timed. Process starts are left out.
    fn of_touches(&self) -> Option<Interval> {
        let all_ns: f64 = self.kinds.iter().map(|(.., ns)| ns).sum();
        let part = |timed: u64, said: u64| (timed as f64 / said.max(1) as f64).min(1.0);
        let own_ns: f64 = self
            .own
            .kinds
            .iter()
            .map(|&(wanted, timed)| {
                let ns: f64 = self.kinds.iter().filter(|(kind, ..)| *kind == wanted).map(|(.., ns)| ns).sum();
                ns * part(timed, self.faults(wanted))
            })
            .sum();
        let part = if self.own.kinds.is_empty() {
            part(self.own.faults, self.kinds.iter().map(|(_, faults, _)| faults).sum())
        } else if all_ns > 0.0 {
            own_ns / all_ns
        } else {
            1.0
        };
        Some(self.time_ns?.times(part))
    }

    /// The kind with the largest relative error, that error, and the reported count.
    fn worst(&self, faults: &[(Kind, u64)]) -> Option<(Kind, f64, u64)> {
        let all: u64 = faults.iter().map(|(_, faults)| faults).sum();
        let looked_at = faults.iter().filter(|(_, faults)| *faults as f64 >= KIND_SHARE * all as f64);
        let errors = looked_at.map(|&(kind, faults)| {
            let said = self.faults(kind);
            (kind, (said as f64 / faults.max(1) as f64 - 1.0).abs(), said)
        });
        errors.max_by(|a, b| a.1.total_cmp(&b.1))
    }
}

fn report(programs: &[&TimedProgram], host: Host, rounds: Vec<Rounds>) -> Report {
    let rows: Vec<ProgramReport> = programs
        .iter()
        .zip(rounds)
        .map(|(program, rounds)| ProgramReport {
            cannot_say: program
                .cannot_run(&host)
                .or_else(|| rounds.is_empty().then_some("interrupted"))
                .map(Into::into),
            ..row(program.0, &rounds)
        })
        .collect();
    let (answer, verdict) = verdict(&rows);
    let is_interrupted = spawn::asked_to_end();
    let plain_half_width = plain_half_width(&rows);
    Report {
        schema: SCHEMA,
        verdict,
        answer,
        host,
        rounds: ROUNDS,
        is_interrupted,
        plain_half_width,
        programs: rows,
    }
}

fn row(program: &'static str, rounds: &Rounds) -> ProgramReport {
    let plain = &rounds.plain;
    let Some(truth_ns) = median(&plain.iter().map(|own| own.ns).collect::<Vec<f64>>()) else {
        return ProgramReport { program, ..ProgramReport::default() };
    };
    // Every run has the same counts, except for pages that the kernel happened to map early.
    let faults = plain[plain.len() / 2].kinds.clone();
    let prices: Vec<f64> = plain.iter().map(OwnTimes::price_ns).collect();
    let plain_ratios: Vec<f64> = prices.chunks_exact(3).map(|of| of[1] / mean([of[0], of[2]])).collect();
    let (stat, record) =
        (arm(&faults, &rounds.stat, &plain_ratios), arm(&faults, &rounds.record, &plain_ratios));
    let spread = ends(&prices).map_or(0.0, |(low, high)| high / low);
    ProgramReport { program, truth_ns, spread, stat, record, faults, plain_ratios, cannot_say: None }
}

fn mean([a, b]: [f64; 2]) -> f64 {
    f64::midpoint(a, b)
}

/// Smallest and largest value.
fn ends(values: &[f64]) -> Option<(f64, f64)> {
    values.iter().copied().reduce(f64::min).zip(values.iter().copied().reduce(f64::max))
}

/// `plain_ratios`: of each round, the middle plain run divided by the mean of the other two.
fn arm(faults: &[(Kind, u64)], watched: &[Between], plain_ratios: &[f64]) -> Accuracy {
    let rounds: Vec<Round> = watched.iter().map(Round::of).collect();
    let with = rounds.iter().enumerate().filter_map(|(at, round)| Some((at, round, round.ratio()?)));
    let with: Vec<(usize, &Round, Interval)> = with.collect();
    let ratios: Vec<Interval> = with.iter().map(|(.., ratio)| *ratio).collect();
    let values: Vec<f64> = ratios.iter().map(|ratio| ratio.value).collect();
    let ratio = median_interval(&values);
    let lengthened = median(&with.iter().map(|(_, round, _)| round.lengthened()).collect::<Vec<f64>>());
    let plain: Vec<Interval> = with
        .iter()
        .filter_map(|(at, _, ratio)| Some(ratio.times(plain_ratios.get(*at)? / ratio.value)))
        .collect();
    let holds =
        |ratios: &[Interval]| ratios.iter().filter(|ratio| ratio.low <= 1.0 && 1.0 <= ratio.high).count();
    let half_widths = ratios.iter().map(|ratio| (ratio.high - ratio.low) / 2.0 / ratio.value);
    let mut worst: Vec<_> = watched.iter().filter_map(|between| between.said.worst(faults)).collect();
    worst.sort_by(|a, b| a.1.total_cmp(&b.1));
    Accuracy {
        ratio,
        extremes: ends(&values),
        lengthened: lengthened.unwrap_or(1.0),
        holds: holds(&ratios),
        intervals: ratios.len(),
        plain_holds: holds(&plain),
        plain_intervals: plain.len(),
        half_width: median(&half_widths.collect::<Vec<f64>>()).unwrap_or(0.0),
        worst: worst.get(worst.len() / 2).copied(),
        rounds,
    }
}

impl Round {
    fn of(Between { said, plain_ns: [before_ns, after_ns] }: &Between) -> Self {
        Self {
            faults: said.own.faults,
            measured_ns: said.of_touches(),
            before_ns: *before_ns,
            watched_ns: said.own.price_ns(),
            after_ns: *after_ns,
        }
    }

    fn truth_ns(&self) -> f64 {
        mean([self.before_ns, self.after_ns])
    }

    /// The measured time divided by the true time.
    fn ratio(&self) -> Option<Interval> {
        let truth_ns = self.truth_ns() * self.faults as f64;
        let measured_ns = self.measured_ns.filter(|time| time.value > 0.0 && truth_ns > 0.0)?;
        Some(measured_ns.times(1.0 / truth_ns))
    }

    fn lengthened(&self) -> f64 {
        self.watched_ns / self.truth_ns()
    }
}

/// Whether enough intervals hold. Chance could explain a shortfall, and so could the machine: then the answer is
/// open.
fn enough_hold(holds: (usize, usize), plain: (usize, usize)) -> Answer {
    let share = |(holds, of): (usize, usize)| share_interval(holds as f64, of as f64);
    let (verb, plain) = (share(holds), share(plain));
    if verb.value >= HOLDING_SHARE {
        Answer::Holds
    } else if verb.high < plain.value.min(HOLDING_SHARE) {
        Answer::Fails
    } else {
        Answer::CannotSay
    }
}

/// Whether intervals are narrow enough. No interval that holds can be narrower than the machine's own changes.
fn narrow_enough(half_width: f64, plain_half_width: f64) -> Answer {
    if half_width <= HALF_WIDTH {
        Answer::Holds
    } else if plain_half_width > HALF_WIDTH {
        Answer::CannotSay
    } else {
        Answer::Fails
    }
}

/// The half-width that an interval around a plain run needs to contain the truth as often as it must.
fn plain_half_width(rows: &[ProgramReport]) -> Option<f64> {
    let off = rows.iter().flat_map(|row| &row.plain_ratios).map(|ratio| (1.0 - ratio.recip()).abs());
    percentile(&off.collect::<Vec<f64>>(), HOLDING_SHARE)
}

/// The answer, and the first line of the report.
fn verdict(rows: &[ProgramReport]) -> (Answer, String) {
    let mut answers = Vec::new();
    let plain_half_width = plain_half_width(rows).unwrap_or(0.0);
    let mut said = |verb: &str, arm: &dyn Fn(&ProgramReport) -> &Accuracy| {
        let arms: Vec<&Accuracy> = rows.iter().map(arm).filter(|arm| arm.ratio.is_some()).collect();
        if arms.is_empty() {
            answers.push(Answer::CannotSay);
            return format!("{verb} could time no faults here");
        }
        let ratios: Vec<f64> = arms.iter().filter_map(|arm| arm.ratio).map(|ratio| ratio.value).collect();
        let (least, most) = ends(&ratios).unwrap_or_default();
        let sum = |of: fn(&Accuracy) -> usize| arms.iter().map(|arm| of(arm)).sum::<usize>();
        let (holds, of) = (sum(|arm| arm.holds), sum(|arm| arm.intervals));
        let plain = (sum(|arm| arm.plain_holds), sum(|arm| arm.plain_intervals));
        let half_width = median(&arms.iter().map(|arm| arm.half_width).collect::<Vec<f64>>()).unwrap_or(0.0);
        answers.extend(arms.iter().map(|arm| arm.answer()));
        answers.push(enough_hold((holds, of), plain));
        answers.push(narrow_enough(half_width, plain_half_width));
        let ratio = match (format!("{least:.2}"), format!("{most:.2}")) {
            (least, most) if least == most => least,
            (least, most) => format!("{least} to {most}"),
        };
        format!(
            "{verb} measures {ratio} times the true time, and {holds} of its {of} intervals hold (± {})",
            Percent(half_width)
        )
    };
    let said = [said("stat", &|row| &row.stat), said("record", &|row| &row.record)].join("; ");
    let answer = [Answer::Fails, Answer::CannotSay].into_iter().find(|answer| answers.contains(answer));
    let answer = answer.unwrap_or(Answer::Holds);
    let word = match answer {
        Answer::Holds => "Holds",
        Answer::Fails => "Fails",
        Answer::CannotSay => "Cannot say",
    };
    (answer, format!("{word}: {said}."))
}

#[cfg(test)]
mod tests;
