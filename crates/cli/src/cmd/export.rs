//! `faultless export`: in: a trace. Out: the same faults in the format of another tool.

mod parquet;

use std::io::{self, BufWriter, ErrorKind, IsTerminal, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use super::filter::{FilterArgs, say};
use super::trace_file;
use clap::ValueEnum;
use faultless_console::{Failure, Outcome, no_stdout, sink::Sink};
use faultless_report::export;
use faultless_trace::profile::Profile;
use faultless_trace::recording::Recording;

/// Write a trace in the format of another tool.
///
/// All formats hold the same faults with the same weights, so they add up to the same counts and times.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "EXAMPLES\n  faultless export --format firefox -o profile.json    # load it in profiler.firefox.com\n  \
                  faultless export --format perfetto -o run.pftrace    # open it in ui.perfetto.dev\n  \
                  faultless export --format pprof -o run.pb.gz && go tool pprof -top run.pb.gz\n  \
                  faultless export --format folded --weight faults | flamegraph.pl >flame.svg\n  \
                  faultless export --format jsonl | jq -r .mapping | sort | uniq -c\n  \
                  faultless export --format csv -o faults.csv perf.data\n  \
                  faultless export --format parquet -o fleet --service web *.trace    # for DuckDB and Spark"
)]
pub(crate) struct Args {
    /// Output format.
    #[arg(long, value_name = "FORMAT")]
    format: Format,
    /// Write to FILE, atomically [default: -, which is stdout]; for parquet a folder.
    #[arg(short, long, value_name = "FILE|DIR")]
    output: Option<PathBuf>,
    /// Weight of a stack in the formats with one figure a stack: firefox, folded.
    #[arg(long, value_name = "WEIGHT", default_value = "time")]
    weight: Weight,
    #[command(flatten)]
    parquet: parquet::Args,
    /// Trace file, or perf.data of perf record; for parquet any number of traces
    #[arg(value_name = "TRACE", default_value = trace_file::DEFAULT, value_hint = clap::ValueHint::FilePath)]
    traces: Vec<PathBuf>,
    #[command(flatten)]
    filter: FilterArgs,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Format {
    /// Processed profile of the Firefox Profiler (JSON)
    Firefox,
    /// Perfetto trace (protocol buffers)
    Perfetto,
    /// Profile of `go tool pprof` (protocol buffers, gzipped)
    Pprof,
    /// Folded stacks: `process;thread;root;...;leaf WEIGHT`, ns or faults
    Folded,
    /// JSON lines: one resolved fault a line
    Jsonl,
    /// Flat, typed table of faults; stacks by number (RFC 4180)
    Csv,
    /// Table of these stacks, one row a frame (RFC 4180)
    CsvStacks,
    /// Runs of many machines as columns: seven tables in a folder
    Parquet,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Weight {
    /// Time in faults
    Time,
    /// Number of faults
    Faults,
}

pub(crate) fn run(args: Args) -> Outcome {
    if args.format == Format::Parquet {
        return parquet::run(&args);
    }
    args.parquet.refuse()?;
    let [trace] = &args.traces[..] else {
        return Err(Failure("this format takes one trace; --format parquet takes many".to_owned()));
    };
    let sink = args.output.as_deref().map(Sink::file).transpose()?;
    let binary = matches!(args.format, Format::Perfetto | Format::Pprof);
    if binary && sink.is_none() && io::stdout().is_terminal() {
        return Err(Failure("this format is not for a terminal; name a file: -o FILE".to_owned()));
    }
    let recording = trace_file::load(trace)?;
    let profile = args.filter.profile(&recording)?;
    say(profile.selected.as_ref());
    let write = |out: &mut dyn Write| write(&args, &recording, &profile, out);
    match sink {
        Some(sink) => sink.fill(write)?,
        None => print(write)?,
    }
    Ok(ExitCode::SUCCESS)
}

fn write(args: &Args, recording: &Recording, profile: &Profile, out: &mut dyn Write) -> io::Result<()> {
    let weight = match args.weight {
        Weight::Time => export::Weight::Time,
        Weight::Faults => export::Weight::Faults,
    };
    match args.format {
        Format::Firefox => export::firefox::write(recording, profile, weight, out),
        Format::Perfetto => export::perfetto::write(recording, profile, out),
        Format::Pprof => export::pprof::write(recording, profile, out),
        Format::Folded => export::folded::write(recording, profile, weight, out),
        Format::Jsonl => export::jsonl::write(recording, profile, out),
        Format::Csv => export::csv::faults(recording, profile, out),
        Format::CsvStacks => export::csv::stacks(recording, out),
        // It writes files of its own.
        Format::Parquet => Ok(()),
    }
}

/// Writes to stdout. A reader that closes the pipe early (`| head`) is no failure.
fn print(write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> Result<(), Failure> {
    let mut out = BufWriter::new(io::stdout().lock());
    match write(&mut out).and_then(|()| out.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => Err(no_stdout(&error)),
        _ => Ok(()),
    }
}
