//! `faultless stat`: in: a command. Out: the costs of its page faults, as text or JSON.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::ValueEnum;
use faultless_console::{Outcome, sink::Sink};
use faultless_prof::{Kernel, Request, Sources};
use faultless_trace::Stat;

use super::status;

/// Run a program and show what its page faults cost.
///
/// The program keeps its stdin, stdout, signals and exit status. The report appears on stderr after it has
/// ended.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Print one JSON document instead of the text.
    #[arg(long)]
    json: bool,
    /// Also list missing data with the reason, the sources, and how each figure was made.
    #[arg(long, conflicts_with = "json")]
    explain: bool,
    /// Write the report to FILE, whole or not at all, instead of stderr.
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Use only these sources of data, such as counters,pairs [default: all but those that the kernel
    /// refuses].
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    sources: Option<Vec<SourceArg>>,
    /// The program and its arguments.
    #[arg(required = true, trailing_var_arg = true, value_name = "CMD", value_hint = clap::ValueHint::CommandWithArguments)]
    command: Vec<OsString>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum SourceArg {
    /// Only the kernel's totals at the end (wait4), which are always available
    None,
    /// Exact counts of faults over the process tree (perf software events)
    Counters,
    /// Times of single faults, recorded in bursts; implies counters, by which they are scaled
    Pairs,
    /// Kernel stacks by CPU clock, as root; if named, also for short programs, at a cost of 50 ms
    Kernel,
    /// Faults and memory over time, for the avoidable curve
    Levels,
}

pub(crate) fn run(args: Args) -> Outcome {
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
    Ok(status::of(exit))
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
