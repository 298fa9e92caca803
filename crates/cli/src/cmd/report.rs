//! `faultless report`: in: a trace file. Out: tables of sites and kinds with their cures, as text or JSON.

use std::io;
use std::path::{Path, PathBuf};

use super::filter::FilterArgs;
use super::trace_file::{TraceArg, needs_allocations};
use crate::pager;
use clap::ValueEnum;
use faultless_console::{Failure, Outcome, deliver, sink::Sink, wants_colour};
use faultless_report::profile::{self, Layout};
use faultless_trace::diff::Run;
use faultless_trace::findings::{Findings, Sort, Wanted};
use faultless_trace::sites::Group;
use faultless_trace::tree::Shape;

/// The default page.
const PAGE: &str = "faultless-report.html";

/// Show where a recorded program lost time to page faults, and how to avoid it.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "EXAMPLES
  faultless record -- ./program && faultless report
  faultless report --tree                        # who called whom
  faultless report --by alloc --sort refault     # who allocated, refaults first
  faultless report --html                        # everything on one page",
    after_long_help = "EXAMPLES
  faultless record -- ./program && faultless report
  faultless report --tree                        # who called whom
  faultless report --by alloc --sort refault     # who allocated, refaults first
  faultless report --by stack --site decode --time 1s..2s --top 50 run.trace
  faultless report --html                        # everything on one page
  faultless report --json | jq '.tables[0].sites.rows[0]'

FIGURES
  626 ± 44 ms  estimate and half-width of its 95 % interval
  12 to 40 ms  the interval alone, if its half-width exceeds 30 %
  memory       memory that the faults made resident
  refault      share of faults on pages that an earlier block of the same
               allocating site had covered and given back
  Shares are of the whole run, also with filters.

On a terminal a pager shows the report: FAULTLESS_PAGER, else PAGER, else less."
)]
pub(crate) struct Args {
    #[command(flatten)]
    trace: TraceArg,
    /// Show only this table
    #[arg(long, value_name = "GROUP")]
    by: Option<GroupArg>,
    /// Show call trees instead; --by alloc: of who allocated
    ///
    /// Without --by alloc they are of who touched.
    #[arg(long)]
    tree: bool,
    /// Turn trees around: from touching functions to callers
    #[arg(long, requires = "tree")]
    inverted: bool,
    /// Do not shorten names and stacks
    ///
    /// In trees, also keep the frames of language runtimes.
    #[arg(long)]
    whole: bool,
    /// Sort rows by this
    #[arg(long, value_name = "ORDER", default_value = "time")]
    sort: SortArg,
    /// Rows per table
    #[arg(long, value_name = "N", default_value = "10")]
    top: usize,
    /// Also list sources, what is missing, and methods
    ///
    /// Missing data has its reason, and each figure how it was computed.
    #[arg(long, conflicts_with = "json")]
    explain: bool,
    /// Print one JSON document instead of the tables
    #[arg(long)]
    json: bool,
    /// Write one page with all [file: faultless-report.html]
    ///
    /// It has tables, flame graph, timeline and cures. --output names another file.
    #[arg(long, conflicts_with_all = ["json", "explain", "by", "tree"])]
    html: bool,
    /// Write the report to FILE [default: -, which is stdout]
    ///
    /// It is written atomically.
    #[arg(short, long, value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    output: Option<PathBuf>,
    /// Print to a terminal without a pager
    #[arg(long)]
    no_pager: bool,
    #[command(flatten)]
    filter: FilterArgs,
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
    let page_file = args.html.then_some(Path::new(PAGE));
    let sink = args.output.as_deref().or(page_file).map(Sink::file).transpose()?;
    if args.tree && !matches!(args.by, None | Some(GroupArg::Site | GroupArg::Alloc)) {
        return Err(Failure(
            "a tree is of who touched, or of who allocated: report --tree --by alloc".into(),
        ));
    }
    let recording = args.trace.load()?;
    if matches!(args.by, Some(GroupArg::Alloc)) {
        needs_allocations(&recording, "see who touched: --by site")?;
    }
    let shape =
        Shape { alloc: matches!(args.by, Some(GroupArg::Alloc)), inverted: args.inverted, whole: args.whole };
    let wanted = Wanted {
        by: args.by.map(group),
        sort: sort(args.sort),
        top: args.top,
        filter: args.filter.filter(),
        tree: args.tree.then_some(shape),
    };
    let findings = Findings::new(&recording, &wanted).map_err(Failure)?;
    if args.html {
        let profile = args.filter.profile(&recording)?;
        let document = profile::html(&Run { recording, profile }, &findings, &wanted.filter);
        let done = deliver(&document, sink)?;
        if args.output.is_none() {
            eprintln!("faultless: {PAGE}");
        }
        return Ok(done);
    }
    if args.json {
        return deliver(&faultless_report::json(&findings), sink);
    }
    let layout = Layout {
        colour: sink.is_none() && wants_colour(&io::stdout()),
        width: pager::columns(sink.as_ref()),
        whole: args.whole,
        only_tables: args.by.is_some() || args.tree,
    };
    let text = if args.explain { profile::explain } else { profile::text };
    pager::page(&text(&findings, layout), sink, !args.no_pager)
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
