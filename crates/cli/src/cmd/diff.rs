//! `faultless diff`: in: recordings of two sides. Out: a table, JSON, a page or a flame graph of the
//! differences.

use std::path::PathBuf;

use super::filter::FilterArgs;
use super::trace_file::load;
use crate::pager;
use clap::ValueEnum;
use faultless_console::{Failure, Outcome, sink::Sink, wants_colour};
use faultless_report::diff as report;
use faultless_report::flame::{self, Measure, Stack};
use faultless_trace::diff::{By, Class, Diff, KernelDiff, Run, Settings};
use faultless_trace::filter::Filter;

/// Compare recordings: what was added, removed, grown or shrunk.
///
/// Rows are matched by name, so two builds of a program can be compared. One recording a side shows changed
/// counts. Several recordings a side also measure the program's own variation. To detect a changed
/// price per fault takes about seven a side.
#[derive(Debug, clap::Args)]
#[command(after_help = "EXAMPLES\n  faultless diff old.trace new.trace\n  \
                  faultless diff --only added,removed old.trace new.trace\n  \
                  faultless diff old1.trace old2.trace old3.trace --against new1.trace new2.trace new3.trace\n  \
                  faultless diff --by kernel old.trace new.trace\n  \
                  faultless diff --by stack --html change.html --flame change.svg old.trace new.trace")]
pub(crate) struct Args {
    /// The recording before and the one after; with --against, all recordings before.
    #[arg(required = true, value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    files: Vec<PathBuf>,
    /// The recordings after.
    #[arg(long, value_name = "FILE", num_args = 1.., value_hint = clap::ValueHint::FilePath)]
    against: Vec<PathBuf>,
    /// Group rows by this.
    #[arg(long, value_name = "ROW", default_value = "function")]
    by: ByArg,
    /// Show only these classes, such as added,grown [default: all changes in the table; everything in JSON
    /// and on the page].
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    only: Vec<ClassArg>,
    /// Ignore differences below this percentage of the larger total.
    #[arg(long, value_name = "PERCENT", default_value_t = 1.0, value_parser = percent)]
    threshold: f64,
    /// Print one JSON document instead of the table.
    #[arg(long)]
    json: bool,
    /// Write the report to FILE, atomically [default: -, which is stdout].
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Also write an HTML page with all rows to sort, search and filter.
    #[arg(long, value_name = "FILE.html")]
    html: Option<PathBuf>,
    /// Also draw the difference as a flame graph (SVG).
    #[arg(long, value_name = "FILE.svg")]
    flame: Option<PathBuf>,
    /// Print to a terminal without a pager.
    #[arg(long)]
    no_pager: bool,
    /// Compare only such faults. With --user-only a recording of root and one of a user compare.
    #[command(flatten)]
    filter: FilterArgs,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum ByArg {
    /// Innermost function that touched, with its caller; runtime libraries skipped
    Function,
    /// Whole touching stack
    Stack,
    /// Innermost function that allocated the block; needs recordings made with --alloc
    Alloc,
    /// File or kind of memory
    Mapping,
    /// Function of the kernel, by its share of the time in faults; needs recordings of root
    Kernel,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum ClassArg {
    /// Only after
    Added,
    /// Only before
    Removed,
    /// More after
    Grown,
    /// Less after
    Shrunk,
    /// No difference detected
    Unchanged,
}

impl From<ClassArg> for Class {
    fn from(class: ClassArg) -> Self {
        match class {
            ClassArg::Added => Self::Added,
            ClassArg::Removed => Self::Removed,
            ClassArg::Grown => Self::Grown,
            ClassArg::Shrunk => Self::Shrunk,
            ClassArg::Unchanged => Self::Unchanged,
        }
    }
}

pub(crate) fn run(args: Args) -> Outcome {
    let (before, after) = sides(&args)?;
    let sink = |path: &Option<PathBuf>| path.as_deref().map(Sink::file).transpose();
    let (output, page, picture) = (sink(&args.output)?, sink(&args.html)?, sink(&args.flame)?);
    let only: Vec<Class> = match (args.only.as_slice(), args.json) {
        ([], true) => Class::ALL.to_vec(),
        ([], false) => Class::ALL[..4].to_vec(),
        (only, _) => only.iter().copied().map(Class::from).collect(),
    };
    let columns = pager::columns(output.as_ref());
    let colour = output.is_none() && wants_colour(&std::io::stdout());
    let by = match args.by {
        ByArg::Function => By::Function,
        ByArg::Stack => By::Stack,
        ByArg::Alloc => By::Alloc,
        ByArg::Mapping => By::Mapping,
        ByArg::Kernel => {
            if let Some(flag) = unfit(&args) {
                return Err(Failure(format!("--by kernel gives a table or JSON: leave {flag} out")));
            }
            let all = Filter::default();
            let diff = KernelDiff::new(&runs(before, &all)?, &runs(after, &all)?, args.threshold / 100.0)
                .map_err(Failure)?;
            let text = match args.json {
                true => report::kernel_json(&diff, &only),
                false => report::kernel_text(&diff, &only, colour, columns),
            };
            return pager::page(&text, output, !args.no_pager && !args.json);
        }
    };
    let user_only = args.filter.user_only();
    let filter = args.filter.of_any_mode();
    let (before, after) = (runs(before, &filter)?, runs(after, &filter)?);
    let settings = Settings { by, threshold: args.threshold / 100.0, user_only };
    let diff = Diff::new(&before, &after, &settings).map_err(Failure)?;
    if let Some(sink) = page {
        sink.write(&report::html(&diff))?;
    }
    if let Some(sink) = picture {
        let stack = if by == By::Alloc { Stack::Both } else { Stack::Touch };
        let draw = |measure| {
            let settings = flame::Settings { measure, stack, user_only, ..flame::Settings::default() };
            flame::difference(&diff, &before, &after, settings)
        };
        let drawn = draw(Measure::Time).or_else(|| draw(Measure::Faults));
        sink.write(&drawn.ok_or_else(|| Failure("no side holds a fault: there is no flame graph".into()))?)?;
    }
    let text =
        if args.json { report::json(&diff, &only) } else { report::text(&diff, &only, colour, columns) };
    pager::page(&text, output, !args.no_pager && !args.json)
}

/// A flag that means nothing for functions of the kernel.
fn unfit(args: &Args) -> Option<&'static str> {
    let is_filtered = args.filter.filter() != Filter::default();
    let flags =
        [("--html", args.html.is_some()), ("--flame", args.flame.is_some()), ("the filters", is_filtered)];
    flags.into_iter().find(|flag| flag.1).map(|flag| flag.0)
}

fn sides(args: &Args) -> Result<(&[PathBuf], &[PathBuf]), Failure> {
    match (args.files.as_slice(), args.against.as_slice()) {
        ([before, after], []) => Ok((std::slice::from_ref(before), std::slice::from_ref(after))),
        (files, []) => Err(Failure(format!(
            "diff needs two recordings, or --against, and was given {}; write it like this: faultless diff BEFORE AFTER, or \
             with several of each side: faultless diff BEFORE... --against AFTER...",
            files.len()
        ))),
        (before, after) => Ok((before, after)),
    }
}

fn runs(files: &[PathBuf], filter: &Filter) -> Result<Vec<Run>, Failure> {
    files.iter().map(|path| Run::selected(load(path)?, filter).map_err(Failure)).collect()
}

fn percent(text: &str) -> Result<f64, String> {
    let percent: f64 = text.trim_end_matches('%').parse().map_err(|_| "not a number".to_owned())?;
    let fits = (0.0..=100.0).contains(&percent);
    if fits { Ok(percent) } else { Err("give a share from 0 to 100".to_owned()) }
}
