//! `faultless doctor --check`: how true the figures of `stat` and `record` are for programs that time each of
//! their touches.
//!
//! In: this machine. Out: for each program, the measured time divided by the true time, how many intervals
//! hold, and the largest error in the counts of kinds.
//!
//! The truth of a watched run comes from a plain run after it. A plain run beside it, on the same processor, would
//! share its caches: figures were then up to 20 % too high. Faults that the program does not time, such as faults at
//! its start, are left out.
//! A standing workload does not time all of its touches; the mean of those that it times stands for the others.
//!
//! The machine's speed changes between runs, and no interval of one run knows that. As a yardstick, the plain run
//! before a watched run is judged as if it were a measurement with an interval as wide as the verb's.
//!
//! It does not correct anything.

mod report;
mod text;

use std::ffi::OsString;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::process::{Command, ExitCode, Stdio};

use faultless_console::{Failure, INTERRUPTED, Outcome, emit};
use faultless_os::spawn;
use faultless_prof::{Options, Request, Task, facts};
use faultless_trace::Stat;
use faultless_trace::findings::{Findings, Wanted};
use faultless_trace::measurement::{Percent, interval_of, median, share_interval};
use faultless_trace::observation::{Exit, Host};
use faultless_trace::sites::Group;
use faultless_trace::stat::{Interval, Kind};
use indicatif::{ProgressBar, ProgressStyle};

use crate::cmd::warm::Warm;
use crate::cmd::workload::StandingTimes;
use crate::cmd::workload::timed::TimedTouches;

use report::{Accuracy, Answer, HALF_WIDTH, HOLDING_SHARE, KIND_SHARE, ProgramReport, Report, SCHEMA};

/// Rounds. In each, every program runs under `stat` and under `record`, each time followed by a plain run. Chosen:
/// at least 100 intervals for each verb.
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

/// A watched run and the plain run after it.
struct Said {
    /// The program's own times in the watched run; they contain the overhead of recording.
    own: OwnTimes,
    /// The times of the plain run.
    plain: OwnTimes,
    /// Those of the plain run before the watched one. `None` in a program's first run.
    before: Option<OwnTimes>,
    time_ns: Option<Interval>,
    /// Faults of each kind, and their time in ns, as the verb reports them.
    kinds: Vec<(Kind, u64, f64)>,
}

/// One program's rounds.
struct Rounds {
    warm: Warm,
    last_plain: Option<OwnTimes>,
    stat: Vec<Said>,
    record: Vec<Said>,
}

impl Rounds {
    fn new(warm: Warm) -> Self {
        Self { warm, last_plain: None, stat: Vec::new(), record: Vec::new() }
    }

    fn is_empty(&self) -> bool {
        self.stat.is_empty() && self.record.is_empty()
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
    let text = if json { serde_json::to_string_pretty(&report)? + "\n" } else { text::text(&report) };
    let code = match report.answer {
        _ if report.is_interrupted => INTERRUPTED,
        Answer::Holds => 0,
        Answer::Fails | Answer::CannotSay => 1,
    };
    emit(text.as_bytes(), ExitCode::from(code))
}

/// All rounds of all programs. In a round each program runs under both verbs, which take turns in going
/// first.
fn take(programs: &[&'static TimedProgram], host: &Host) -> Result<Vec<Rounds>, Failure> {
    let bar = ProgressBar::new((ROUNDS * programs.len()) as u64);
    if let Ok(style) = ProgressStyle::with_template("checking {bar:30} {pos}/{len} {msg}") {
        bar.set_style(style);
    }
    let warm = || Warm::new(host.hypervisor.is_some());
    let mut rounds: Vec<Rounds> = programs.iter().map(|_| Rounds::new(warm())).collect();
    spawn::remember_requests_to_end();
    'rounds: for round in 0..ROUNDS {
        for (&program, rounds) in programs.iter().zip(&mut rounds) {
            bar.set_message(program.0);
            if program.cannot_run(host).is_none() {
                for turn in 0..2 {
                    rounds.warm.touch();
                    let is_stat = (round + turn) % 2 == 0;
                    let said = program.said(is_stat, &mut rounds.warm);
                    // Ctrl-C reached the program too, and ended it.
                    if spawn::asked_to_end() {
                        break 'rounds;
                    }
                    let said = said?;
                    let said = Said { before: rounds.last_plain.replace(said.plain.clone()), ..said };
                    if is_stat { &mut rounds.stat } else { &mut rounds.record }.push(said);
                }
            }
            bar.inc(1);
        }
    }
    bar.finish_and_clear();
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

    /// Runs it under a verb, and then plain.
    fn said(&self, is_stat: bool, warm: &mut Warm) -> Result<Said, Failure> {
        let said = if is_stat { self.stat(warm) } else { self.record() }?;
        Ok(Said { plain: self.plain()?, ..said })
    }

    /// Runs it unwatched.
    fn plain(&self) -> Result<OwnTimes, Failure> {
        let words = self.command()?;
        let output = Command::new(&words[0])
            .args(&words[1..])
            .stdin(Stdio::null())
            .stderr(Stdio::inherit())
            .output()?;
        self.ended_well(output.status.code())?;
        OwnTimes::of(&output.stdout)
    }

    /// The request to run it, and the file that takes its output.
    fn request(&self) -> Result<(Request, File), Failure> {
        let told = tempfile::tempfile()?;
        let stdout = Some(told.try_clone()?.into());
        Ok((Request { command: self.command()?, stdout, ..Request::default() }, told))
    }

    fn stat(&self, warm: &mut Warm) -> Result<Said, Failure> {
        let (request, told) = self.request()?;
        let observation = faultless_prof::observe(request)?;
        self.ended_well(status(observation.exit))?;
        warm.learn(2 * observation.usage.peak_rss_bytes);
        Ok(Said::of_stat(&Stat::from_observation(&observation), OwnTimes::of(&whole(told)?)?))
    }

    fn record(&self) -> Result<Said, Failure> {
        let (request, told) = self.request()?;
        let file = tempfile::tempfile()?;
        let out = Box::new(file.try_clone()?);
        let recorded = faultless_prof::record(Task::Command(request), &Options::default(), out, &mut |_| {})?;
        if let Some(error) = recorded.trouble {
            return Err(error.into());
        }
        self.ended_well(status(recorded.exit))?;
        let recording = faultless_trace::file::read(&whole(file)?)?;
        let wanted = Wanted { by: Some(Group::Kind), top: usize::MAX, ..Wanted::default() };
        Ok(Said::of_record(
            &Findings::new(&recording, &wanted).map_err(Failure)?,
            OwnTimes::of(&whole(told)?)?,
        ))
    }

    fn ended_well(&self, status: Option<i32>) -> Result<(), Failure> {
        let how = match status {
            Some(0) => return Ok(()),
            Some(status) => format!("ended with status {status}"),
            None => "was ended by a signal".into(),
        };
        Err(Failure(format!(
            "--check: the program {:?} {how}, so there are no figures; run it again",
            self.0
        )))
    }
}

/// The whole content of a file.
fn whole(mut file: File) -> Result<Vec<u8>, Failure> {
    let mut bytes = Vec::new();
    file.seek(SeekFrom::Start(0))?;
    file.read_to_end(&mut bytes)?;
    Ok(bytes)
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
        Self {
            own,
            plain: OwnTimes::default(),
            before: None,
            time_ns: stat.time.as_ref().map(|time| time.seconds.times(1e9)),
            kinds,
        }
    }

    fn of_record(findings: &Findings, own: OwnTimes) -> Self {
        let rows = findings.tables.iter().flat_map(|table| &table.sites.rows);
        let kinds = rows
            .flat_map(|row| &row.kinds)
            .filter(|(kind, ..)| *kind != Kind::Major)
            .map(|(kind, faults, ns)| (*kind, faults.round() as u64, *ns));
        let beyond = findings.beyond.iter();
        let beyond = beyond.map(|(kind, faults, seconds)| (*kind, *faults, seconds.unwrap_or(0.0) * 1e9));
        Self {
            own,
            plain: OwnTimes::default(),
            before: None,
            time_ns: findings.time_ns,
            kinds: kinds.chain(beyond).collect(),
        }
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

/// `None` after a signal.
fn status(exit: Exit) -> Option<i32> {
    if let Exit::Status(status) = exit { Some(status) } else { None }
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
    Report { schema: SCHEMA, verdict, answer, host, rounds: ROUNDS, is_interrupted, programs: rows }
}

fn row(program: &'static str, rounds: &Rounds) -> ProgramReport {
    let plain: Vec<&OwnTimes> = rounds.stat.iter().chain(&rounds.record).map(|said| &said.plain).collect();
    let Some(truth_ns) = median(&plain.iter().map(|own| own.ns).collect::<Vec<f64>>()) else {
        return ProgramReport { program, ..ProgramReport::default() };
    };
    // Every run has the same counts, except for pages that the kernel happened to map early.
    let faults = plain[plain.len() / 2].kinds.clone();
    let (stat, record) = (arm(&faults, &rounds.stat), arm(&faults, &rounds.record));
    let prices: Vec<f64> = plain.iter().map(|own| own.price_ns()).collect();
    let spread = ends(&prices).map_or(0.0, |(low, high)| high / low);
    ProgramReport { program, truth_ns, spread, stat, record, faults, cannot_say: None }
}

/// Smallest and largest value.
fn ends(values: &[f64]) -> Option<(f64, f64)> {
    values.iter().copied().reduce(f64::min).zip(values.iter().copied().reduce(f64::max))
}

fn arm(faults: &[(Kind, u64)], said: &[Said]) -> Accuracy {
    // Of each round: the measured time divided by the truth, the overhead of recording, and the plain run before
    // with the verb's relative interval, divided by the truth.
    type Round = (Interval, f64, Option<Interval>);
    let rounds: Vec<Round> = said
        .iter()
        .filter_map(|said| {
            let price_ns = said.plain.price_ns();
            let truth_ns = price_ns * said.own.faults as f64;
            let time = said.of_touches().filter(|time| time.value > 0.0 && truth_ns > 0.0)?;
            let before =
                said.before.as_ref().map(|before| time.times(before.price_ns() / price_ns / time.value));
            Some((time.times(1.0 / truth_ns), said.own.ns / truth_ns, before))
        })
        .collect();
    let median_of = |rounds: &[&Round], figure: &dyn Fn(&Round) -> f64| {
        median(&rounds.iter().map(|round| figure(round)).collect::<Vec<f64>>()).unwrap_or(f64::NAN)
    };
    let ratio = interval_of(&rounds, |rounds| median_of(rounds, &|(time, ..)| time.value));
    let lengthened = median_of(&rounds.iter().collect::<Vec<_>>(), &|round| round.1);
    let ratios: Vec<Interval> = rounds.iter().map(|(time, ..)| *time).collect();
    let plain: Vec<Interval> = rounds.iter().filter_map(|(.., before)| *before).collect();
    let holds =
        |ratios: &[Interval]| ratios.iter().filter(|ratio| ratio.low <= 1.0 && 1.0 <= ratio.high).count();
    let half_widths = ratios.iter().map(|ratio| (ratio.high - ratio.low) / 2.0 / ratio.value);
    let mut worst: Vec<_> = said.iter().filter_map(|said| said.worst(faults)).collect();
    worst.sort_by(|a, b| a.1.total_cmp(&b.1));
    Accuracy {
        ratio,
        extremes: ends(&ratios.iter().map(|ratio| ratio.value).collect::<Vec<f64>>()),
        lengthened: if rounds.is_empty() { 1.0 } else { lengthened },
        holds: holds(&ratios),
        intervals: rounds.len(),
        plain_holds: holds(&plain),
        plain_intervals: plain.len(),
        half_width: median(&half_widths.collect::<Vec<f64>>()).unwrap_or(0.0),
        worst: worst.get(worst.len() / 2).copied(),
    }
}

/// Whether enough intervals hold. With few intervals, chance could explain a shortfall, so the answer is
/// open.
fn enough_hold(holds: usize, of: usize) -> Answer {
    let share = share_interval(holds as f64, of as f64);
    if share.value >= HOLDING_SHARE {
        Answer::Holds
    } else if share.high < HOLDING_SHARE {
        Answer::Fails
    } else {
        Answer::CannotSay
    }
}

/// The answer, and the first line of the report.
fn verdict(rows: &[ProgramReport]) -> (Answer, String) {
    let mut answers = Vec::new();
    let mut said = |verb: &str, arm: &dyn Fn(&ProgramReport) -> &Accuracy| {
        let arms: Vec<&Accuracy> = rows.iter().map(arm).filter(|arm| arm.ratio.is_some()).collect();
        if arms.is_empty() {
            answers.push(Answer::CannotSay);
            return format!("{verb} could time no faults here");
        }
        let ratios: Vec<f64> = arms.iter().filter_map(|arm| arm.ratio).map(|ratio| ratio.value).collect();
        let (least, most) = ends(&ratios).unwrap_or_default();
        let (holds, of) =
            arms.iter().fold((0, 0), |(holds, of), arm| (holds + arm.holds, of + arm.intervals));
        let half_width = median(&arms.iter().map(|arm| arm.half_width).collect::<Vec<f64>>()).unwrap_or(0.0);
        answers.extend(arms.iter().map(|arm| arm.answer()));
        answers.push(enough_hold(holds, of));
        answers.push(if half_width <= HALF_WIDTH { Answer::Holds } else { Answer::Fails });
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
