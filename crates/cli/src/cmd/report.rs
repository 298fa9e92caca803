//! `faultless report`: in: a trace file. Out: tables of sites and kinds with their cures, as text or JSON.

use std::io::{self, IsTerminal};
use std::path::PathBuf;

use super::trace_file::TraceArg;
use clap::ValueEnum;
use faultless_console::{Outcome, deliver, sink::Sink, wants_colour};
use faultless_report::profile;
use faultless_trace::findings::{Findings, Sort, Wanted};
use faultless_trace::sites::Group;

/// Show where a recorded program lost time to page faults, and how to avoid it.
#[derive(Debug, clap::Args)]
#[command(after_help = "EXAMPLES
  faultless record -- ./program && faultless report
  faultless report --by alloc --sort refault        # who allocated, the most given back and faulted again first
  faultless report --by stack --filter decode --top 50 run.trace
  faultless report --json | jq '.tables[0].sites.rows[0]'

Times and counts are followed by how far they may be off (95 %); where that is more than 30 %, the range stands alone. `memory` is what the faults made resident; `refault` the
share of faults on pages that an earlier block of the same allocating site had covered and given back.")]
pub(crate) struct Args {
    #[command(flatten)]
    trace: TraceArg,
    /// Show only this table
    #[arg(long, value_name = "GROUP")]
    by: Option<GroupArg>,
    /// Sort rows by this
    #[arg(long, value_name = "ORDER", default_value = "time")]
    sort: SortArg,
    /// Rows per table
    #[arg(long, value_name = "N", default_value = "10")]
    top: usize,
    /// Show only rows whose name, file or leaf function contains TEXT
    #[arg(long, value_name = "TEXT")]
    filter: Option<String>,
    /// Also list missing data with the reason, the sources, and how each figure was made
    #[arg(long, conflicts_with = "json")]
    explain: bool,
    /// Print one JSON document instead of the tables
    #[arg(long)]
    json: bool,
    /// Write the report to FILE, whole or not at all, instead of stdout
    #[arg(short, long, value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    output: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum GroupArg {
    /// Function and line that touched
    Site,
    /// Function that touched
    Function,
    /// Whole stack
    Stack,
    /// Function and line that allocated (record --alloc)
    Alloc,
    /// Kind of the fault
    Kind,
    /// Mapping: a file, the heap, anonymous memory
    Mapping,
    /// Name of the thread
    Thread,
    /// Process
    Process,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum SortArg {
    /// Time in faults
    Time,
    /// Number of faults
    Faults,
    /// Memory made resident
    Bytes,
    /// Faults on memory that the same site had just given back
    Refault,
}

pub(crate) fn run(args: Args) -> Outcome {
    let sink = args.output.as_deref().map(Sink::file).transpose()?;
    let recording = args.trace.load()?;
    let wanted = Wanted {
        by: args.by.map(group),
        sort: sort(args.sort),
        top: args.top,
        filter: args.filter.filter(|text| !text.is_empty()),
    };
    let findings = Findings::new(&recording, &wanted);
    let to_terminal = sink.is_none() && io::stdout().is_terminal();
    let report = if args.json {
        profile::json(&findings)
    } else {
        let colour = sink.is_none() && wants_colour(&io::stdout());
        let width = terminal_size::terminal_size_of(io::stdout()).map(|(width, _)| usize::from(width.0));
        let width = width.filter(|_| to_terminal);
        let text = if args.explain { profile::explain } else { profile::text };
        text(&findings, colour, width)
    };
    deliver(&report, sink)
}

fn group(by: GroupArg) -> Group {
    match by {
        GroupArg::Site => Group::Site,
        GroupArg::Function => Group::Function,
        GroupArg::Stack => Group::Stack,
        GroupArg::Alloc => Group::Alloc,
        GroupArg::Kind => Group::Kind,
        GroupArg::Mapping => Group::Mapping,
        GroupArg::Thread => Group::Thread,
        GroupArg::Process => Group::Process,
    }
}

fn sort(by: SortArg) -> Sort {
    match by {
        SortArg::Time => Sort::Time,
        SortArg::Faults => Sort::Faults,
        SortArg::Bytes => Sort::Bytes,
        SortArg::Refault => Sort::Refault,
    }
}
