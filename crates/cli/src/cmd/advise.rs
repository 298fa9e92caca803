//! `faultless advise`: runs a program under every candidate cure, interleaved with the program as it is, and
//! gives a verdict.

mod cures;

use std::ffi::OsString;
use std::io::IsTerminal;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::process::ExitCode;

use faultless_console::{Failure, INTERRUPTED, Outcome, emit, sink::Sink};
use faultless_prof::{Options, Sources};
use faultless_report::advice as report;
use faultless_trace::advice::{self, Advice};
use faultless_trace::findings::{Findings, Wanted};
use faultless_trace::measurement::Count;
use faultless_trace::program::Image;
use faultless_trace::why::Mechanism;

use self::cures::Facts;
use super::bench::{Bench, Measured, Way};
use super::record::names_folder;
use super::rounds::{Engine, Input, Job, Stop};
use super::run as pool;
use crate::pager;

/// A bootstrap over fewer than 7 rounds says little. More than 20 rounds hardly narrow the interval.
const ROUNDS: RangeInclusive<u32> = 7..=20;

/// Run a program under each candidate cure and show which one wins.
///
/// The first run is recorded, and only cures that act on a mechanism found in it are tried. A warm-up round comes
/// next. Every round then runs the program once unchanged and once under each cure, in
/// shuffled order. Ratios are taken within a round. In about one round in four, and in three at least, each is
/// run once more to record the time in faults, and the memory that it holds shortly before its end. All takes about 40
/// seconds, or 11 runs of each if that is longer: two minutes for a program of two seconds. Notes list the programs in
/// which the pool did not act. Ctrl-C ends the comparison and shows the results so far. Without
/// a command, advise runs the bundled chunk pipeline, the program of "A queue of page faults".
#[derive(Debug, clap::Args)]
#[command(after_help = "\
EXAMPLES
  faultless advise
  faultless advise -- python3 analysis.py
  faultless advise --runs 30 --max-rss-increase 10 --json -- ./engine <queries.txt >advice.json

The program's standard output is compared between runs, not shown. Its standard
input is read once and given to each run; if it is a terminal, runs read nothing.
Exit status: 0 a cure wins, 1 no cure is shown to help, 2 no comparison was
possible, 126 or 127 the program can't be executed or found, 130 interrupted.")]
pub(crate) struct Args {
    /// Rounds to count [default: as many as fit into 40 seconds, but 7 to 20].
    #[arg(long, short = 'n', value_name = "N", value_parser = clap::value_parser!(u32).range(3..=1000))]
    runs: Option<u32>,
    /// Reject a cure that raises peak memory by more than this many percent.
    #[arg(long, value_name = "P", default_value_t = 50.0, allow_negative_numbers = true)]
    max_rss_increase: f64,
    /// Compare the runs even if their outputs differ.
    #[arg(long)]
    any_output: bool,
    /// Do not record: try every cure that can reach the program.
    #[arg(long)]
    every_cure: bool,
    /// Print one JSON document instead of the table.
    #[arg(long)]
    json: bool,
    /// Also write the comparison to FILE, as an SVG picture.
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
    /// The program and its arguments.
    #[arg(last = true, value_name = "CMD")]
    command: Vec<OsString>,
}

pub(crate) fn run(args: Args) -> Outcome {
    if !args.max_rss_increase.is_finite() || args.max_rss_increase < 0.0 {
        return Err(Failure("--max-rss-increase takes a percentage of 0 or more".into()));
    }
    let svg = args.svg.as_deref().map(Sink::file).transpose()?;
    let bundled = args.command.is_empty();
    let command = if bundled { bundled_workload()? } else { args.command };
    let shown: Vec<String> = if bundled {
        [&cures::own_name(), "workload", "chunk-pipeline"].map(String::from).into()
    } else {
        command.iter().map(|word| word.to_string_lossy().into_owned()).collect()
    };
    let immune = pool::immune(&command[0]);
    if let Some(reason) = immune.as_ref().filter(|_| args.every_cure) {
        return Err(Failure(format!("{reason}; no cure that advise knows acts in such a program")));
    }
    let engine = Engine::new(Input::capture()?, "recording {elapsed}", 1);
    let mechanisms = match args.every_cure {
        true => None,
        false => match mechanisms(&engine, &command) {
            Ok(found) => found,
            Err(Stop::Interrupted) => return Ok(nothing_measured()),
            Err(stop) => return stop.conclude(),
        },
    };
    let input = engine.into_input();
    let facts = Facts::read(faultless_report::command(&shown), &command[0]);
    let host = faultless_prof::host();
    let virtual_machine = host.hypervisor.is_some();
    let ways = cures::candidates(&facts, &command, mechanisms.as_deref())?;
    if ways.len() == 1 {
        let reason = immune.unwrap_or("no mechanism was found on which one could act".to_owned());
        let mut advice = Advice::nothing(shown, host, mechanisms.unwrap_or_default(), reason);
        advice.notes.extend(facts.unknown());
        return show(&advice, args.json, svg, 1);
    }
    let is_pooled = |way: &Way| way.environment.iter().any(|(name, _)| name == "LD_PRELOAD");
    let pooled = ways.iter().position(is_pooled);
    let bench = Bench {
        what: format!("{} as it is and under {}", facts.command, Count(ways.len() as u64 - 1).of("cure")),
        ways,
        input,
        virtual_machine,
        rounds: ROUNDS,
        same_output: !args.any_output,
    };
    let Measured { series, interrupted, untimed, images } = match bench.measure(args.runs) {
        Ok(measured) => measured,
        Err(stop) => return stop.conclude(),
    };
    if series.is_empty() {
        return Ok(nothing_measured());
    }
    let mut advice = advice::judge(shown, host, series, args.max_rss_increase / 100.0, args.any_output)
        .map_err(Failure)?;
    advice.mechanisms = mechanisms.unwrap_or_default();
    let status = match (&interrupted, advice.winner) {
        (Some(_), _) => INTERRUPTED,
        (None, winner) => u8::from(winner.is_none()),
    };
    advice.notes.splice(0..0, interrupted);
    advice.notes.extend(untimed.map(|why| {
        format!("no fault was timed, so time in faults is their number times a calibrated price, by half to four times; {why}")
    }));
    advice.notes.extend(without_pool(pooled.and_then(|arm| images.get(arm)).map_or(&[], Vec::as_slice)));
    advice.notes.extend(facts.unknown());
    show(&advice, args.json, svg, status)
}

fn show(advice: &Advice, is_json: bool, svg: Option<Sink>, status: u8) -> Outcome {
    if let Some(file) = svg {
        file.write(&report::svg(advice))?;
    }
    let text = if is_json {
        faultless_report::json(advice)
    } else {
        report::text(advice, std::io::stdout().is_terminal(), pager::columns(None))
    };
    emit(text.as_bytes(), ExitCode::from(status))
}

fn nothing_measured() -> ExitCode {
    eprintln!("faultless: interrupted before the first run ended: nothing was measured");
    ExitCode::from(INTERRUPTED)
}

/// The mechanisms of the program as it is, from one recorded run; `None` if that does not tell who gives memory back.
fn mechanisms(engine: &Engine, command: &[OsString]) -> Result<Option<Vec<Mechanism>>, Stop> {
    let options = Options { names: names_folder(), calls: true, ..Options::default() };
    let job = Job { command, environment: &[], allow: Sources::default() };
    let recording = match engine.record(job, &options) {
        Ok(ran) => ran.seen,
        // The runs will say so, if it is not only the recording that fails.
        Err(Stop::Failed(_) | Stop::NotStarted(_)) => return Ok(None),
        Err(stop) => return Err(stop),
    };
    let findings = Findings::new(&recording, &Wanted::default()).ok();
    Ok(findings.filter(|found| found.giving_ns.is_some()).map(|found| found.mechanisms))
}

/// A line for each program of a pool's arm in which the pool did not act, and why.
fn without_pool(images: &[Image]) -> Vec<String> {
    let mut reasons: Vec<(String, u64)> = Vec::new();
    for reason in images.iter().filter_map(pool::out_of_reach) {
        match reasons.iter_mut().find(|(known, _)| *known == reason) {
            Some((_, count)) => *count += 1,
            None => reasons.push((reason, 1)),
        }
    }
    let all = Count(images.len() as u64).of("program");
    reasons.iter().map(|(reason, count)| format!("no pool in {count} of {all} that ran: {reason}")).collect()
}

fn bundled_workload() -> Result<Vec<OsString>, Failure> {
    let own = std::env::current_exe()?;
    Ok([own.as_os_str(), "workload".as_ref(), "--quiet".as_ref(), "chunk-pipeline".as_ref()]
        .map(OsString::from)
        .into())
}
