//! `faultless advise`: runs a program under the cures of its mechanisms, interleaved with the program as it is, and
//! gives a verdict; or shows the cures that a recording suggests.

mod allocators;
mod cures;
mod facts;
mod found;
mod pauses;
mod settings;

use std::ffi::OsString;
use std::io::IsTerminal;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use faultless_console::{Failure, INTERRUPTED, Outcome, emit, sink::Sink, span};
use faultless_os::spawn;
use faultless_report::advice as report;
use faultless_trace::advice::{self, Advice, Terms};
use faultless_trace::heaps::Heap;
use faultless_trace::measurement::Count;
use faultless_trace::observation::{Exit, Host};
use faultless_trace::program::Image;
use faultless_trace::why::Mechanism;

use self::facts::Facts;
use self::found::Found;
use self::pauses::Pauses;
use super::attach::{self, Target};
use super::bench::{self, Bench, Measured, TIME, Until};
use super::rounds::{Engine, Input, Stop};
use super::{run as pool, trace_file};
use crate::pager;

/// Fewer than 5 rounds tell large gains alone. More than 20 hardly narrow the interval.
const ROUNDS: RangeInclusive<u32> = 5..=20;

/// Run a program under each candidate cure and show which one wins.
///
/// The first run is recorded, and only cures that act on a mechanism found in it are tried. A warm-up round comes
/// next. Every round then runs the program once unchanged and once under each cure, in shuffled order. Ratios are taken
/// within a round. Cures that cannot win any more are dropped: after the warm-up those that take away no faults, later those
/// that an interval rules out. The time that is left goes to the others. Now and then each is
/// run once more to record the time in faults, and the memory that it holds shortly before its end. In a virtual machine whose
/// host takes free memory back, what helps runs twice more, each time after a pause; that comes on top of --time. Notes list
/// the programs in which the pool did not act. Ctrl-C ends the comparison and shows the results so far.
///
/// With -p or TRACE nothing is run: advise shows the mechanisms and their cures, with estimates. As root, -p slows each system
/// call of the machine by 0.1 to 0.4 us meanwhile. Without a command, advise runs the bundled chunk pipeline, the program
/// of "A queue of page faults".
#[derive(Debug, clap::Args)]
#[command(after_help = "\
EXAMPLES
  faultless advise -- python3 analysis.py
  faultless advise --time 2s --max-rss-increase 10 --json -- ./engine <queries.txt >advice.json
  faultless advise -p $(pidof redis-server) --for 10s
  faultless advise faultless.trace

The program's standard output is compared between runs, not shown. Its standard
input is read once and given to each run; if it is a terminal, runs read nothing.
Exit status: 0 a cure wins, 1 no cure is shown to help, 2 no comparison was
possible, 126 or 127 the program can't be executed or found, 130 interrupted.
With -p or TRACE: 0 a cure is suggested, 1 none is, 2 there is no recording.")]
pub(crate) struct Args {
    #[command(flatten)]
    running: attach::Args,
    /// Show the cures of this recording: a trace file, or perf.data of perf record.
    #[arg(value_name = "TRACE", conflicts_with = "command", value_hint = clap::ValueHint::FilePath)]
    trace: Vec<OsString>,
    /// End within about this time, the recorded run included, after 5 to 20 rounds. Three rounds of the
    /// program and of two cures are run even if they take longer [default: 40s].
    #[arg(long, value_name = "TIME", value_parser = span, conflicts_with = "runs")]
    time: Option<Duration>,
    /// Rounds to count, of every cure to the end.
    #[arg(long, short = 'n', value_name = "N", value_parser = clap::value_parser!(u32).range(3..=1000))]
    runs: Option<u32>,
    /// Reject a cure that raises peak memory by more than this many percent.
    #[arg(long, value_name = "P", default_value_t = 50.0, allow_negative_numbers = true)]
    max_rss_increase: f64,
    /// Do not compare what the runs print.
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
    if args.time.is_some_and(|time| time.is_zero()) {
        return Err(Failure("--time takes more than 0s".into()));
    }
    let svg = args.svg.as_deref().map(Sink::file).transpose()?;
    if args.running.is_given() {
        let words = args.trace.iter().chain(&args.command).cloned().collect();
        return match args.running.target(words)? {
            Target::Running(attach) => match Found::of_processes(attach) {
                Ok(found) => untried(found, args.json, svg),
                Err(stop) => stop.conclude(),
            },
            Target::Command(_) => Err(Failure("no process was named".into())),
        };
    }
    match args.trace.as_slice() {
        [] => tried(args, svg),
        [file] => {
            let recording = trace_file::load(Path::new(file))?;
            let exit = recording.footer.as_ref().map_or(Exit::Unknown, |footer| footer.exit);
            untried(Found::new(&recording, exit)?, args.json, svg)
        }
        [_, more, ..] => {
            Err(Failure(format!("{}: name one TRACE, or write -- before a command", more.display())))
        }
    }
}

/// What a recording suggests, without a run.
fn untried(found: Found, is_json: bool, svg: Option<Sink>) -> Outcome {
    let is_cured = found.mechanisms.iter().any(|mechanism| !mechanism.cures.is_empty());
    let why = if found.is_whole {
        "savings are estimates; faultless advise -- CMD measures them"
    } else {
        "no call that gives memory back was recorded, so mechanisms may be missing: record of a command has them, unless --no-calls, and of a running process as root with --calls"
    };
    let mut advice = Advice::nothing(found.command, found.host, found.mechanisms, why.to_owned());
    advice.heaps = found.heaps;
    let cut = "the recording has no end, so its CPU time is not known: shares are of the time recorded";
    advice.notes.extend((found.cpu_ns == 0).then(|| cut.to_owned()));
    show(&advice, is_json, svg, u8::from(!is_cured))
}

/// What an answer says beside the figures.
struct Subject {
    command: Vec<String>,
    host: Host,
    mechanisms: Vec<Mechanism>,
    heaps: Vec<Heap>,
    notes: Vec<String>,
}

/// Runs the program as it is and under its cures.
fn tried(args: Args, svg: Option<Sink>) -> Outcome {
    let begin = Instant::now();
    let (command, shown) = command(args.command)?;
    if let Some(reason) = pool::immune(&command[0]).filter(|_| args.every_cure) {
        return Err(Failure(format!("{reason}; no cure that advise knows acts in such a program")));
    }
    let engine = Engine::new(Input::capture()?, "recording {elapsed}", 1);
    let found = match args.every_cure {
        true => None,
        false => match Found::of_run(&engine, &command, args.time.unwrap_or(TIME)) {
            Ok(found) => found,
            Err(Stop::Interrupted) => return Ok(nothing_measured()),
            Err(stop) => return stop.conclude(),
        },
    };
    let input = engine.into_input();
    let facts = Facts::read(faultless_report::command(&shown), &command[0], found.as_ref());
    let worth = found.as_ref().and_then(Found::worth_an_arm);
    let (mut ways, mut expected) = cures::candidates(&facts, &command, worth.as_deref())?;
    let time = args.time.unwrap_or(TIME);
    let left = time.saturating_sub(begin.elapsed());
    let most = found.as_ref().map_or(usize::MAX, |found| found.arms_within(left));
    let enough = found.as_ref().map(|found| found.time_of(ways.len()).as_secs_f64().ceil());
    let left_out = match args.runs {
        None => cures::limit(&mut ways, &mut expected, most),
        Some(_) => Vec::new(),
    };
    let long = found.as_ref().filter(|_| args.runs.is_none() && ways.len() > 1);
    if let Some(long) = long.and_then(|found| found.too_long(left)) {
        bench::say(&long);
    }
    let exit = found.as_ref().map_or(Exit::Unknown, |found| found.exit);
    let short = found.as_ref().and_then(Found::too_short);
    let (mechanisms, heaps) = found.map(|found| (found.mechanisms, found.heaps)).unwrap_or_default();
    let host = faultless_prof::host();
    let virtual_machine = host.hypervisor.is_some();
    let enough = enough.map(|seconds| format!("; --time {seconds}s has enough")).unwrap_or_default();
    let late = (!left_out.is_empty())
        .then(|| format!("not tried for lack of time: {}{enough}", left_out.join("; ")));
    // Rounds that the user counts are all that is to run.
    let pauses = facts.reports_free_pages && args.runs.is_none() && pauses::has_time(time);
    let notes =
        facts.notes((ways.len() > 1).then_some(pauses)).into_iter().chain(short).chain(late).collect();
    let subject = Subject { command: shown, host, mechanisms, heaps, notes };
    if ways.len() == 1 {
        return show(&without_arms(subject, exit), args.json, svg, 1);
    }
    let pooled = ways.iter().position(cures::is_pooled);
    let terms = Terms {
        max_rss_increase: args.max_rss_increase / 100.0,
        any_output: args.any_output,
        expected,
        ..Terms::default()
    };
    let of_losers = terms.clone();
    let losers = Box::new(move |series: &[_], left: &[usize]| advice::losers(series, left, &of_losers));
    let bench = Bench {
        what: format!("{} as it is and under {}", facts.command, Count(ways.len() as u64 - 1).of("cure")),
        ways,
        input,
        virtual_machine,
        rounds: ROUNDS,
        until: Until::Halving(begin, time, losers),
    };
    let measured = match bench.measure(args.runs) {
        Ok(measured) => measured,
        Err(stop) => return stop.conclude(),
    };
    if measured.series.is_empty() {
        return Ok(nothing_measured());
    }
    let was_interrupted = measured.interrupted.is_some();
    let advice = verdict(subject, measured, terms, pooled, pauses.then_some(time / 2))?;
    let is_interrupted = was_interrupted || spawn::asked_to_end();
    let status = if is_interrupted { INTERRUPTED } else { u8::from(advice.winner.is_none()) };
    show(&advice, args.json, svg, status)
}

/// The command to run, and as it is shown.
fn command(words: Vec<OsString>) -> Result<(Vec<OsString>, Vec<String>), Failure> {
    if words.is_empty() {
        let shown = [&facts::own_name(), "workload", "chunk-pipeline"].map(String::from).into();
        return Ok((bundled_workload()?, shown));
    }
    let shown = words.iter().map(|word| word.to_string_lossy().into_owned()).collect();
    Ok((words, shown))
}

/// The answer if no cure can act, which costs no run.
fn without_arms(Subject { command, host, mut mechanisms, heaps, notes }: Subject, exit: Exit) -> Advice {
    mechanisms.iter_mut().for_each(|one| one.cures.retain(|cure| cure.variable.is_none()));
    let reason = "no mechanism was found on which a setting or another malloc acts".to_owned();
    let mut advice = Advice::nothing(command, host, mechanisms, reason);
    advice.heaps = heaps;
    let failed = !matches!(exit, Exit::Status(0) | Exit::Unknown);
    advice.notes.extend(failed.then(|| format!("the program ends with {exit}")));
    advice.notes.extend(notes);
    advice
}

/// The answer of the runs. `pooled`: an arm of the pool. `for_pauses`: the time of runs after pauses, if there are any.
fn verdict(
    Subject { command, host, mechanisms, heaps, notes }: Subject,
    Measured { series, ways, input, interrupted, untimed, images }: Measured,
    mut terms: Terms,
    pooled: Option<usize>,
    for_pauses: Option<Duration>,
) -> Result<Advice, Failure> {
    let judge =
        |terms: &Terms| advice::judge(command.clone(), host.clone(), series.clone(), terms).map_err(Failure);
    let mut advice = judge(&terms)?;
    if let Some(time) = for_pauses.filter(|_| interrupted.is_none()) {
        advice = Pauses::new(&ways, input, Instant::now() + time).ask(advice, &mut terms, judge)?;
    }
    (advice.mechanisms, advice.heaps) = (mechanisms, heaps);
    advice.notes.splice(0..0, interrupted);
    advice.notes.extend(untimed.map(|why| {
        format!("no fault was timed, so time in faults is their number times a calibrated price, by half to four times; {why}")
    }));
    advice.notes.extend(without_pool(pooled.and_then(|arm| images.get(arm)).map_or(&[], Vec::as_slice)));
    advice.notes.extend(notes);
    Ok(advice)
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
