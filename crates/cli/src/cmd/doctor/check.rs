//! `faultless doctor --check`: what `stat` and `record` say of programs that time every one of their own touches.
//!
//! In: this machine. Out: for each program, the measured time divided by the true time, how many intervals hold, and
//! the largest error in the counts of kinds. The truth of a watched run is what the program timed in it, less what recording adds: by how
//! much the program's own time is longer there than in the plain runs before and behind, in the median of all rounds. So the truth moves
//! with the machine from run to run, and its level is that of plain runs. Faults that the program does not time, those of its start, are left out.
//!
//! What it does not do: correct anything.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::process::{Command, ExitCode, Stdio};

use faultless_prof::{Options, Request, Task, facts};
use faultless_report::table::{WIDTH, wrap};
use faultless_trace::Stat;
use faultless_trace::findings::{Findings, Wanted};
use faultless_trace::measurement::{Count, Nanos, Percent, interval_of, median};
use faultless_trace::observation::{Exit, Host};
use faultless_trace::sites::Group;
use faultless_trace::stat::{Interval, Kind};
use indicatif::{ProgressBar, ProgressStyle};
use serde::Serialize;

use crate::cmd::warm::Warm;
use crate::cmd::workload::timed::{Timed, Told};
use crate::cmd::{Failure, Outcome, emit};

/// Rounds; in each every program runs plain, under `stat` and under `record`. Chosen: 100 intervals and more for each verb.
const ROUNDS: usize = 10;
/// The median ratio of each program must lie between these.
const LIMITS: (f64, f64) = (0.93, 1.07);
/// At least this share of the 95 % intervals must hold the truth of their run.
const HOLDING_SHARE: f64 = 0.9;
/// The median half of the 95 % intervals must be at most this share of their value.
const HALF_WIDTH: f64 = 0.1;
/// Kinds of fewer of the faults are not looked at.
const KIND_SHARE: f64 = 0.1;
/// A kind's count that is off by more is told.
const KIND_ERROR: f64 = 0.2;
/// Plain runs of the same program that differ by more are told: something else was at work. A quiet guest has some 1.1.
const BUSY_SPREAD: f64 = 1.25;
/// Version of the JSON output; raised when a field changes its meaning or goes.
const SCHEMA: u32 = 2;

/// A program: its name, what it touches, pages in a round, rounds.
struct Program(&'static str, &'static str, u32, u32);

const PROGRAMS: [Program; 12] = [
    Program("first touch, 20 ms", "first-touch", 2048, 8),
    Program("first touch", "first-touch", 2048, 60),
    Program("first touch, 2 s", "first-touch", 65_536, 24),
    Program("zero page", "zero-page", 2048, 40),
    Program("copy after fork", "copy", 2048, 30),
    Program("huge and base pages", "thp", 2048, 50),
    Program("huge pages between", "mthp", 2048, 60),
    Program("file, read", "file-read", 16_384, 60),
    Program("file, private write", "file-write", 2048, 40),
    Program("two threads", "threads", 4000, 40),
    Program("phases", "phases", 8192, 1),
    Program("children", "children", 4000, 20),
];

/// Everything that is reported, as JSON has it.
#[derive(Debug, Serialize)]
struct Report {
    schema: u32,
    verdict: String,
    answer: Answer,
    host: Host,
    rounds: usize,
    programs: Vec<Row>,
}

/// Whether all is within the limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum Answer {
    Holds,
    Fails,
    /// A verb could time no faults, or the interval of a ratio reaches across a limit.
    CannotSay,
}

/// What was found of a program.
#[derive(Debug, Default, Serialize)]
struct Row {
    program: &'static str,
    /// Time in its touches, ns: the median of the plain runs.
    truth_ns: f64,
    /// The longest of those by the shortest.
    plain_spread: f64,
    /// Its faults by kind.
    faults: Vec<(Kind, u64)>,
    stat: Arm,
    record: Arm,
    /// Why there are no figures.
    cannot_say: Option<String>,
}

/// What a verb said of a program.
#[derive(Debug, Default, Serialize)]
struct Arm {
    /// Seconds in faults by the truth: the median of the rounds, with its 95 % interval.
    ratio: Option<Interval>,
    /// The least and the most of the rounds.
    extremes: Option<(f64, f64)>,
    /// The program's own time in a watched run by that in a plain one: what recording adds.
    lengthened: f64,
    /// Rounds whose interval holds the truth.
    holds: usize,
    /// Rounds in which there was an interval.
    intervals: usize,
    /// Half of the interval by its value, the median of the rounds.
    half_width: f64,
    /// The kind that is off most: by how much of its count, and the count that was said, of the round in the middle.
    worst: Option<(Kind, f64, u64)>,
}

/// What a verb said in one round.
struct Said {
    /// What the program timed in that run, recording included, ns.
    own_ns: f64,
    time_ns: Option<Interval>,
    /// Faults of each kind, and their time, ns.
    kinds: Vec<(Kind, u64, f64)>,
}

/// One program's rounds.
#[derive(Default)]
struct Rounds {
    truth: Vec<Told>,
    stat: Vec<Said>,
    record: Vec<Said>,
}

/// Runs it. Status 1 where something lies outside the limits.
pub(super) fn run(only: &str, json: bool) -> Outcome {
    let programs: Vec<&Program> = PROGRAMS.iter().filter(|program| program.0.contains(only)).collect();
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
    let text = match json {
        true => serde_json::to_string_pretty(&report)? + "\n",
        false => text(&report),
    };
    emit(text.as_bytes(), if report.answer == Answer::Holds { ExitCode::SUCCESS } else { ExitCode::from(1) })
}

/// All rounds of all programs; in a round each runs plain, under `stat` and under `record`, one right after the other.
fn take(programs: &[&Program], host: &Host) -> Result<Vec<Rounds>, Failure> {
    let bar = ProgressBar::new((ROUNDS * programs.len()) as u64);
    if let Ok(style) = ProgressStyle::with_template("checking {bar:30} {pos}/{len} {msg}") {
        bar.set_style(style);
    }
    let mut rounds: Vec<Rounds> = programs.iter().map(|_| Rounds::default()).collect();
    let mut warm = Warm::new(host.hypervisor.is_some());
    for _ in 0..ROUNDS {
        for (program, rounds) in programs.iter().zip(&mut rounds) {
            bar.set_message(program.0);
            if program.cannot_run(host).is_none() {
                program.round(rounds, &mut warm)?;
            }
            bar.inc(1);
        }
    }
    bar.finish_and_clear();
    Ok(rounds)
}

impl Program {
    fn cannot_run(&self, host: &Host) -> Option<&'static str> {
        match self.1 {
            "thp" if host.thp == "never" || host.thp_bytes == 0 => Some("there are no huge pages here"),
            "mthp" if host.mthp_bytes.is_empty() => Some("no size between is switched on"),
            _ => None,
        }
    }

    fn words(&self) -> Result<Vec<std::ffi::OsString>, Failure> {
        let Self(_, what, pages, rounds) = self;
        let program = std::env::current_exe()?.into_os_string();
        let words =
            ["workload", "timed", what, "--pages", &pages.to_string(), "--rounds", &rounds.to_string()]
                .map(Into::into);
        Ok([program].into_iter().chain(words).collect())
    }

    fn round(&self, rounds: &mut Rounds, warm: &mut Warm) -> Result<(), Failure> {
        let words = self.words()?;
        warm.touch();
        let output = Command::new(&words[0])
            .args(&words[1..])
            .stdin(Stdio::null())
            .stderr(Stdio::inherit())
            .output()?;
        self.ended_well(output.status.code())?;
        rounds.truth.push(serde_json::from_slice(&output.stdout)?);
        let request = |told: &File| -> Result<Request, Failure> {
            let stdout = Some(told.try_clone()?.into());
            Ok(Request { command: words.clone(), stdout, ..Request::default() })
        };
        warm.touch();
        let told = tempfile::tempfile()?;
        let observation = faultless_prof::observe(request(&told)?)?;
        self.ended_well(status(observation.exit))?;
        warm.learn(observation.usage.peak_rss_bytes);
        let stat = Said::of_stat(&Stat::from_observation(&observation));
        rounds.stat.push(Said { own_ns: own_ns(told)?, ..stat });
        warm.touch();
        let told = tempfile::tempfile()?;
        let (exit, record) = Said::of_record(request(&told)?)?;
        self.ended_well(status(exit))?;
        rounds.record.push(Said { own_ns: own_ns(told)?, ..record });
        Ok(())
    }

    /// Ctrl-C reaches the program too: then the check ends as well.
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

impl Said {
    fn of_stat(stat: &Stat) -> Self {
        let kinds =
            stat.rows.iter().map(|row| (row.kind, row.faults, row.seconds.unwrap_or(0.0) * 1e9)).collect();
        Self { own_ns: 0.0, time_ns: stat.time.as_ref().map(|time| time.seconds.times(1e9)), kinds }
    }

    fn of_record(request: Request) -> Result<(Exit, Self), Failure> {
        let mut file = tempfile::tempfile()?;
        let out = Box::new(file.try_clone()?);
        let recorded = faultless_prof::record(Task::Command(request), &Options::default(), out, &mut |_| {})?;
        if let Some(error) = recorded.trouble {
            return Err(error.into());
        }
        let mut bytes = Vec::new();
        file.seek(SeekFrom::Start(0))?;
        file.read_to_end(&mut bytes)?;
        let recording = faultless_trace::file::read(&bytes)?;
        let wanted = Wanted { by: Some(Group::Kind), top: usize::MAX, ..Wanted::default() };
        let findings = Findings::new(&recording, &wanted);
        let rows = findings.tables.iter().flat_map(|table| &table.sites.rows);
        let kinds = rows
            .flat_map(|row| &row.kinds)
            .filter(|(kind, ..)| *kind != Kind::Major)
            .map(|(kind, faults, ns)| (*kind, faults.round() as u64, *ns));
        let beyond = findings.beyond.iter();
        let beyond = beyond.map(|(kind, faults, seconds)| (*kind, *faults, seconds.unwrap_or(0.0) * 1e9));
        let kinds = kinds.chain(beyond).collect();
        Ok((recorded.exit, Self { own_ns: 0.0, time_ns: findings.time_ns, kinds }))
    }

    fn faults(&self, wanted: Kind) -> u64 {
        self.kinds.iter().filter(|(kind, ..)| *kind == wanted).map(|(_, faults, _)| faults).sum()
    }

    /// The time without that of faults which the program did not time: its start, and that of its children.
    fn of_touches(&self, faults: &[(Kind, u64)]) -> Option<Interval> {
        let all_ns: f64 = self.kinds.iter().map(|(.., ns)| ns).sum();
        let own_ns: f64 = faults
            .iter()
            .map(|&(wanted, timed)| {
                let ns: f64 = self.kinds.iter().filter(|(kind, ..)| *kind == wanted).map(|(.., ns)| ns).sum();
                ns * (timed as f64 / self.faults(wanted).max(1) as f64).min(1.0)
            })
            .sum();
        let part = if all_ns > 0.0 { own_ns / all_ns } else { 1.0 };
        Some(self.time_ns?.times(part))
    }

    /// The kind whose count is off most, by how much of it, and what was said.
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

/// What a program has printed of its touches, ns in all.
fn own_ns(mut told: File) -> Result<f64, Failure> {
    told.seek(SeekFrom::Start(0))?;
    Ok(sum_ns(&serde_json::from_reader(told)?))
}

fn sum_ns(told: &Told) -> f64 {
    told.values().map(|timed| timed.ns).sum()
}

/// `None`: a signal.
fn status(exit: Exit) -> Option<i32> {
    if let Exit::Status(status) = exit { Some(status) } else { None }
}

fn report(programs: &[&Program], host: Host, rounds: Vec<Rounds>) -> Report {
    let rows: Vec<Row> = programs
        .iter()
        .zip(rounds)
        .map(|(program, rounds)| Row {
            cannot_say: program.cannot_run(&host).map(Into::into),
            ..row(program.0, &rounds)
        })
        .collect();
    let (answer, verdict) = verdict(&rows);
    Report { schema: SCHEMA, verdict, answer, host, rounds: ROUNDS, programs: rows }
}

fn row(program: &'static str, rounds: &Rounds) -> Row {
    let plain: Vec<f64> = rounds.truth.iter().map(sum_ns).collect();
    let Some(truth_ns) = median(&plain) else {
        return Row { program, ..Row::default() };
    };
    // The counts are the same in every run, except for pages that the kernel happened to map early.
    let told = &rounds.truth[rounds.truth.len() / 2];
    let faults: Vec<(Kind, u64)> = told.iter().map(|(kind, Timed { faults, .. })| (*kind, *faults)).collect();
    let (stat, record) = (arm(&plain, &faults, &rounds.stat), arm(&plain, &faults, &rounds.record));
    let plain_spread = ends(&plain).map_or(0.0, |(low, high)| high / low);
    Row { program, truth_ns, plain_spread, stat, record, faults, cannot_say: None }
}

/// The least and the most.
fn ends(values: &[f64]) -> Option<(f64, f64)> {
    values.iter().copied().reduce(f64::min).zip(values.iter().copied().reduce(f64::max))
}

/// `plain`: what the program timed in plain runs, the first of which was before the first of the watched ones.
fn arm(plain: &[f64], faults: &[(Kind, u64)], said: &[Said]) -> Arm {
    let rounds: Vec<(&Said, Interval, f64)> = said
        .iter()
        .enumerate()
        .filter_map(|(round, said)| {
            let time = said.of_touches(faults).filter(|time| time.value > 0.0 && said.own_ns > 0.0)?;
            let around = &plain[round.min(plain.len().checked_sub(1)?)..plain.len().min(round + 2)];
            Some((said, time, said.own_ns * around.len() as f64 / around.iter().sum::<f64>()))
        })
        .collect();
    let median_of = |rounds: &[&(&Said, Interval, f64)], figure: &dyn Fn(&(&Said, Interval, f64)) -> f64| {
        median(&rounds.iter().map(|round| figure(round)).collect::<Vec<f64>>()).unwrap_or(f64::NAN)
    };
    let lengthened_of = |rounds: &[&(&Said, Interval, f64)]| median_of(rounds, &|round| round.2);
    let ratio = interval_of(&rounds, |rounds| {
        median_of(rounds, &|(said, time, _)| time.value / said.own_ns) * lengthened_of(rounds)
    });
    let lengthened = lengthened_of(&rounds.iter().collect::<Vec<_>>());
    let ratios: Vec<f64> =
        rounds.iter().map(|(said, time, _)| time.value / said.own_ns * lengthened).collect();
    let holds = rounds.iter().filter(|(said, time, _)| {
        let truth_ns = said.own_ns / lengthened;
        time.low <= truth_ns && truth_ns <= time.high
    });
    let half_widths = rounds.iter().map(|(_, time, _)| (time.high - time.low) / 2.0 / time.value);
    let mut worst: Vec<_> = said.iter().filter_map(|said| said.worst(faults)).collect();
    worst.sort_by(|a, b| a.1.total_cmp(&b.1));
    Arm {
        ratio,
        extremes: ends(&ratios),
        lengthened: if rounds.is_empty() { 1.0 } else { lengthened },
        holds: holds.count(),
        intervals: rounds.len(),
        half_width: median(&half_widths.collect::<Vec<f64>>()).unwrap_or(0.0),
        worst: worst.get(worst.len() / 2).copied(),
    }
}

impl Arm {
    /// Whether the ratio lies within the limits.
    fn answer(&self) -> Answer {
        match self.ratio {
            Some(ratio) if ratio.low >= LIMITS.0 && ratio.high <= LIMITS.1 => Answer::Holds,
            Some(ratio) if ratio.high < LIMITS.0 || ratio.low > LIMITS.1 => Answer::Fails,
            _ => Answer::CannotSay,
        }
    }
}

/// The answer, and the first line.
fn verdict(rows: &[Row]) -> (Answer, String) {
    let mut answers = Vec::new();
    let mut said = |verb: &str, arm: &dyn Fn(&Row) -> &Arm| {
        let arms: Vec<&Arm> = rows.iter().map(arm).filter(|arm| arm.ratio.is_some()).collect();
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
        if (holds as f64) < HOLDING_SHARE * of as f64 || half_width > HALF_WIDTH {
            answers.push(Answer::Fails);
        }
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

fn text(report: &Report) -> String {
    let host = &report.host;
    let head = format!(
        "Measured time divided by the true time: median of {} rounds with its 95 % interval, and how many of the verb's own intervals hold the \
         truth. Limits: medians from {} to {}, {} of the intervals, and a median half-width of at most {}. The truth of a run is the program's own \
         time in it, less what recording adds in the median.",
        report.rounds,
        LIMITS.0,
        LIMITS.1,
        Percent(HOLDING_SHARE),
        Percent(HALF_WIDTH)
    );
    let mut lines = wrap("", &report.verdict, WIDTH);
    lines.extend(wrap("", &format!("Linux {}, {}, {} processors", host.kernel, host.cpu, host.cpus), WIDTH));
    lines.push(String::new());
    lines.extend(wrap("", &head, WIDTH));
    lines.push(String::new());
    let column = report.programs.iter().map(|row| row.program.len()).max().unwrap_or(0).max("program".len());
    lines.push(format!(
        "{:column$}  {:>9}  {:>21}  {:>11}  {:>21}  {:>11}",
        "program", "truth", "stat", "hold", "record", "hold"
    ));
    for row in &report.programs {
        if let Some(reason) = &row.cannot_say {
            lines.push(format!("{:column$}  cannot say: {reason}", row.program));
            continue;
        }
        let truth = Nanos(row.truth_ns).to_string();
        let (stat, record) = (cells(&row.stat), cells(&row.record));
        lines.push(format!(
            "{:column$}  {truth:>9}  {:>21}  {:>11}  {:>21}  {:>11}",
            row.program, stat.0, stat.1, record.0, record.1
        ));
    }
    let spreads: Vec<f64> =
        report.programs.iter().map(|row| row.plain_spread).filter(|spread| *spread > 0.0).collect();
    if let Some(spread) = median(&spreads).filter(|spread| *spread > BUSY_SPREAD) {
        let busy = format!(
            "The machine was busy: of the plain runs of a program the longest took {spread:.2} times as long as the shortest. On a quiet one more \
             intervals hold."
        );
        lines.push(String::new());
        lines.extend(wrap("", &busy, WIDTH));
    }
    let notes = report.programs.iter().flat_map(notes);
    let notes: Vec<String> = notes.flat_map(|note| wrap("  ", &note, WIDTH)).collect();
    if !notes.is_empty() {
        lines.extend([
            String::new(),
            format!("Counts of kinds that are off by more than {}", Percent(KIND_ERROR)),
        ]);
        lines.extend(notes);
    }
    lines.join("\n") + "\n"
}

fn cells(arm: &Arm) -> (String, String) {
    match arm.ratio {
        Some(Interval { value, low, high }) => {
            let half_width = Percent(arm.half_width).to_string();
            let holds = format!("{}/{} ± {half_width:>4}", arm.holds, arm.intervals);
            (format!("{value:.2} ({low:.2} to {high:.2})"), holds)
        }
        None => ("not known".into(), "-".into()),
    }
}

/// Kinds whose counts are off.
fn notes(row: &Row) -> Vec<String> {
    let off = [("stat", &row.stat), ("record", &row.record)].map(|(verb, arm)| {
        let (kind, error, said) = arm.worst.filter(|(_, error, _)| *error > KIND_ERROR)?;
        let (_, faults) = row.faults.iter().find(|(found, _)| *found == kind)?;
        Some(format!(
            "{}, {verb}: {} instead of {} ({}), off by {}",
            row.program,
            Count(said),
            Count(*faults),
            kind.words(),
            Percent(error)
        ))
    });
    off.into_iter().flatten().collect()
}

#[cfg(test)]
mod tests;
