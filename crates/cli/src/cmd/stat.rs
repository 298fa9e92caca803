//! `faultless stat`: in: a command or running processes. Out: the costs of their page faults, as text or JSON.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::ValueEnum;
use faultless_console::{Outcome, sink::Sink, span};
use faultless_os::spawn;
use faultless_prof::{Kernel, Request, Sources, Ticker};
use faultless_trace::Stat;
use faultless_trace::observation::{Exit, Tick};
use faultless_trace::repeat::Repeated;

use super::attach::{self, Target};
use super::run::immune;
use super::status;
use crate::pager;

/// Show what the page faults of a program cost.
///
/// The program keeps its stdin, stdout, signals and exit status. The report appears on stderr after it has
/// ended.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "EXAMPLES\n  faultless stat -- python3 script.py\n  faultless stat -r 10 -- python3 script.py\n  faultless stat -p $(pidof redis-server) --for 10s\n  \
    faultless stat -p 1234,1235 -- sleep 10         # as perf stat takes it\n  \
    faultless stat -I 1s -- ./engine queries.txt\n  faultless stat -a -- sleep 10                    # the whole machine"
)]
pub(crate) struct Args {
    /// Print one JSON document instead of the text, also on stderr, as perf stat does; -o - for stdout.
    #[arg(long)]
    json: bool,
    /// Also list the sources, missing data with the reason, and how each figure was computed.
    #[arg(long, conflicts_with = "json")]
    explain: bool,
    /// Write the report to FILE, atomically, instead of stderr; - for stdout.
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Use only these sources of data, such as counters,pairs [default: all that the kernel allows].
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    sources: Option<Vec<SourceArg>>,
    /// Run the program N times and show the median of each figure, with the smallest and the largest.
    #[arg(short, long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000), conflicts_with_all = ["explain", "pid", "cgroup", "all_cpus"])]
    repeat: Option<u32>,
    /// While the program runs, print a line on stderr at this interval, such as 1s (a line of JSON with --json).
    #[arg(short = 'I', long, value_name = "TIME", value_parser = interval, conflicts_with = "repeat")]
    interval: Option<Duration>,
    /// Watch the whole machine until CMD ends, the time of --for has passed, or Ctrl-C. Needs root or CAP_PERFMON.
    #[arg(short, long, conflicts_with_all = ["pid", "cgroup"])]
    all_cpus: bool,
    #[command(flatten)]
    running: attach::Args,
    /// The program and its arguments.
    #[arg(required_unless_present_any = ["pid", "cgroup", "all_cpus"], trailing_var_arg = true, value_name = "CMD", value_hint = clap::ValueHint::CommandWithArguments)]
    command: Vec<OsString>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum SourceArg {
    /// Only the kernel's totals at the end (wait4), which are always available
    None,
    /// Exact counts of faults over the process tree (perf software events)
    Counters,
    /// Times of single faults, recorded in bursts and scaled by the counters; implies counters
    Pairs,
    /// Kernel stacks, sampled by the CPU clock, as root; if named, of short programs too, for 50 ms more
    Kernel,
    /// Faults and memory over time, for the avoidable curve
    Levels,
    /// Every fault of running processes timed in the kernel, as root; implies counters
    Bpf,
}

pub(crate) fn run(args: Args) -> Outcome {
    let sink = args.output.as_deref().map_or(Ok(Sink::Stderr), Sink::file)?;
    let allow = args.sources.as_deref().map_or_else(Sources::default, sources);
    let target = match args.all_cpus {
        true => None,
        false => Some(args.running.target(args.command.clone())?),
    };
    if let (Some(Target::Command(command)), Some(runs)) = (&target, args.repeat) {
        let repeated = match repeat(command, runs, allow) {
            Ok(Ok(repeated)) => repeated,
            Ok(Err(exit)) => {
                eprintln!("faultless: no run ended by itself: nothing was measured");
                return Ok(status::of(exit));
            }
            Err(failure) => return status::not_started(failure),
        };
        let report = if args.json {
            faultless_report::json(&repeated)
        } else {
            faultless_report::stat::repeated(&repeated, sink.wants_colour(), pager::columns(Some(&sink)))
        };
        sink.write(&report)?;
        return Ok(status::of(repeated.exit()));
    }
    let mut told = 0;
    let mut tell = |tick: &Tick| {
        let line = match args.json {
            true => faultless_report::json_line("tick", tick),
            false => faultless_report::stat::tick(tick, told == 0),
        };
        told += 1;
        eprint!("{line}");
    };
    let ticker = args.interval.map(|every| Ticker { every, tell: &mut tell });
    let observation = match target {
        Some(Target::Command(command)) => {
            let request = Request { command, allow, ..Request::default() };
            faultless_prof::observe_with(request, ticker)
        }
        Some(Target::Running(attach)) => faultless_prof::observe_running(attach, allow, ticker),
        None => faultless_prof::observe_machine(args.running.until(args.command), allow, ticker),
    };
    let observation = match observation {
        Ok(observation) => observation,
        Err(failure) => return status::not_started(failure),
    };
    let exit = observation.exit;
    let stat = Stat::from_observation(&observation);
    let immune = stat.command.first().and_then(|name| immune(name.as_ref()));
    let stat = Stat { immune, ..stat };
    let report = if args.json && args.interval.is_some() {
        // Every line is a document.
        faultless_report::json_line("stat", &stat)
    } else if args.json {
        faultless_report::json(&stat)
    } else if args.explain {
        faultless_report::stat::explain(&stat, sink.wants_colour(), pager::columns(Some(&sink)))
    } else {
        faultless_report::stat::text(&stat, sink.wants_colour(), pager::columns(Some(&sink)))
    };
    sink.write(&report)?;
    Ok(status::of(exit))
}

/// `1s`, `500ms`; a bare number is milliseconds, as perf stat takes it. At least 10 ms.
fn interval(text: &str) -> Result<Duration, String> {
    const LEAST: Duration = Duration::from_millis(10);
    let found = text.parse().map(Duration::from_millis).or_else(|_| span(text))?;
    if found < LEAST { Err("the least is 10ms; a number without a unit is in ms".into()) } else { Ok(found) }
}

/// Runs the command several times. A request to end keeps the finished runs. If no run ended by itself: how
/// the last one ended.
fn repeat(
    command: &[OsString],
    runs: u32,
    allow: Sources,
) -> Result<Result<Repeated, Exit>, faultless_prof::Failure> {
    spawn::remember_requests_to_end();
    let (mut stats, mut exit) = (Vec::new(), Exit::Unknown);
    for _ in 0..runs {
        let request = Request { command: command.to_vec(), allow, ..Request::default() };
        let stat = Stat::from_observation(&faultless_prof::observe(request)?);
        exit = stat.exit;
        if spawn::asked_to_end() {
            eprintln!("faultless: interrupted after {} of {runs} runs", stats.len());
            break;
        }
        stats.push(stat);
    }
    Ok(Repeated::new(stats).ok_or(exit))
}

fn sources(list: &[SourceArg]) -> Sources {
    let has = |source| list.contains(&source);
    Sources {
        counters: has(SourceArg::Counters) || has(SourceArg::Pairs) || has(SourceArg::Bpf),
        pairs: has(SourceArg::Pairs),
        kernel: if has(SourceArg::Kernel) { Kernel::Always } else { Kernel::No },
        levels: has(SourceArg::Levels),
        bpf: has(SourceArg::Bpf),
    }
}
