//! `faultless stat`.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::ValueEnum;
use faultless_prof::{Kernel, Request, Sources};
use faultless_trace::Stat;
use faultless_trace::observation::Exit;

use super::sink::Sink;

/// Run a program and tell what its page faults cost.
///
/// The program keeps its stdin, stdout, signals and exit status. The report goes to stderr when it has ended.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Report as JSON.
    #[arg(long)]
    json: bool,
    /// Also tell what is missing, why, and what would bring it; what became of each source; how the figures came about.
    #[arg(long, conflicts_with = "json")]
    explain: bool,
    /// Write the report to FILE instead of stderr; it appears there whole or not at all.
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Use only these sources of data; what the kernel refuses is left out by itself, and --explain names it.
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    sources: Option<Vec<SourceArg>>,
    /// The program and its arguments.
    #[arg(required = true, trailing_var_arg = true, value_name = "CMD", value_hint = clap::ValueHint::CommandWithArguments)]
    command: Vec<OsString>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum SourceArg {
    /// Only the kernel's totals at the end (wait4), which are always there
    None,
    /// Exact counts of faults over the process tree (perf software events)
    Counters,
    /// The time of single faults, recorded in bursts; with counters, which it is scaled by
    Pairs,
    /// Kernel stacks by CPU clock, as root; named like this also for short programs, where it costs 50 ms
    Kernel,
    /// Faults and memory over time, for the avoidable curve
    Levels,
}

/// Runs the verb.
pub(crate) fn run(args: Args) -> super::Outcome {
    let sink = args.output.as_deref().map_or(Ok(Sink::Stderr), Sink::file)?;
    let allow = args.sources.as_deref().map_or_else(Sources::default, sources);
    let observation =
        faultless_prof::observe(Request { command: args.command, allow, ..Request::default() })?;
    let exit = observation.exit;
    let stat = Stat::from_observation(&observation);
    let report = if args.json {
        faultless_report::stat::json(&stat)
    } else if args.explain {
        faultless_report::stat::explain(&stat, sink.wants_colour())
    } else {
        faultless_report::stat::text(&stat, sink.wants_colour())
    };
    sink.write(&report)?;
    Ok(code(exit))
}

fn sources(list: &[SourceArg]) -> Sources {
    let has = |source| list.contains(&source);
    Sources {
        counters: has(SourceArg::Counters) || has(SourceArg::Pairs),
        pairs: has(SourceArg::Pairs),
        kernel: if has(SourceArg::Kernel) { Kernel::Always } else { Kernel::No },
        levels: has(SourceArg::Levels),
    }
}

/// The program's status as a shell gives it; 0 where it is not known.
pub(super) fn code(exit: Exit) -> ExitCode {
    match exit {
        Exit::NotStarted => ExitCode::from(2),
        Exit::Unknown => ExitCode::SUCCESS,
        Exit::Status(status) => ExitCode::from(status as u8),
        Exit::Signal(signal) => ExitCode::from(128_u8.saturating_add(signal as u8)),
    }
}
