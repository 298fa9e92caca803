//! `faultless flame`: in: a trace, or two. Out: a flame graph as SVG, or its frames as JSON.

use std::io::IsTerminal;
use std::path::PathBuf;

use super::filter::{FilterArgs, say};
use super::trace_file::{TraceArg, load, needs_allocations};
use clap::ValueEnum;
use faultless_console::{Failure, Outcome, deliver, sink::Sink};
use faultless_report::flame::{self, Measure, Stack};
use faultless_trace::diff::{By, Diff, Run, Settings};

/// Draw a flame graph of who caused the page faults.
///
/// The result is an interactive picture for a browser: click to zoom, press Ctrl-F to search. Callers are on
/// top. The width of a frame is time in faults, the number of faults, or the bytes that they made resident.
#[derive(Debug, clap::Args)]
#[command(after_help = "EXAMPLES\n  faultless flame -o faults.svg\n  \
                  faultless flame --inverted --thread worker -o workers.svg\n  \
                  faultless flame --by bytes --stack both run.trace -o owners.svg\n  \
                  faultless flame --kernel -o kernel.svg\n  \
                  faultless flame --json | jq '.stacks | max_by(.width)'\n  \
                  faultless flame old.trace --diff new.trace -o change.svg")]
pub(crate) struct Args {
    #[command(flatten)]
    trace: TraceArg,
    /// Width of a frame.
    #[arg(long, value_name = "MEASURE", default_value = "time")]
    by: MeasureArg,
    /// Stack to draw.
    #[arg(long, value_name = "STACK", default_value = "touch")]
    stack: StackArg,
    /// Draw the changes from FILE to FILE2, vanished frames included.
    #[arg(long, value_name = "FILE2", value_hint = clap::ValueHint::FilePath)]
    diff: Option<PathBuf>,
    /// Draw touching functions first, their callers below them.
    #[arg(long, conflicts_with = "diff")]
    inverted: bool,
    /// Draw the kernel's functions in page faults, by CPU time: work and locks; needs a recording of root's
    #[arg(long, conflicts_with_all = ["by", "stack", "diff", "whole", "FilterArgs"])]
    kernel: bool,
    /// Draw all frames: how runtimes start and call, and stems that all stacks share.
    #[arg(long)]
    whole: bool,
    /// Print the stacks with their widths as one JSON document instead; the changes are in diff --json.
    #[arg(long, conflicts_with = "diff")]
    json: bool,
    /// Write the picture to FILE, atomically [default: -, which is stdout].
    #[arg(short, long, value_name = "FILE.svg")]
    output: Option<PathBuf>,
    #[command(flatten)]
    filter: FilterArgs,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum MeasureArg {
    /// Time in faults
    Time,
    /// Number of faults
    Faults,
    /// Bytes that faults made resident
    Bytes,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum StackArg {
    /// Who touched the memory
    Touch,
    /// Who allocated it; needs a recording made with --alloc
    Alloc,
    /// Who allocated it, with who touched it on top
    Both,
}

pub(crate) fn run(args: Args) -> Outcome {
    if args.output.is_none() && !args.json && std::io::stdout().is_terminal() {
        return Err(Failure("a picture would fill the terminal; name a file for it: -o FILE.svg".into()));
    }
    let sink = args.output.as_deref().map(Sink::file).transpose()?;
    let settings = flame::Settings {
        measure: match args.by {
            MeasureArg::Time => Measure::Time,
            MeasureArg::Faults => Measure::Faults,
            MeasureArg::Bytes => Measure::Bytes,
        },
        stack: match args.stack {
            StackArg::Touch => Stack::Touch,
            StackArg::Alloc => Stack::Alloc,
            StackArg::Both => Stack::Both,
        },
        user_only: args.filter.user_only(),
        inverted: args.inverted,
        whole: args.whole,
    };
    let recording = args.trace.load()?;
    if args.kernel {
        let draw = if args.json { flame::kernel_json } else { flame::kernel };
        let picture = draw(&recording, args.inverted).ok_or_else(|| {
            let remedy = "record as root, with -F 199 if it is attached to, a program that takes faults for a tenth of a second";
            Failure(format!("the recording holds no kernel stacks of page faults; {remedy}"))
        })?;
        return deliver(&picture, sink);
    }
    if settings.stack != Stack::Touch && args.diff.is_none() {
        needs_allocations(&recording, "draw --stack touch")?;
    }
    let filter = args.filter.of_any_mode();
    let select = |recording| Run::selected(recording, &filter).map_err(Failure);
    let before = [select(recording)?];
    say(before[0].profile.selected.as_ref());
    let picture = match &args.diff {
        None if args.json => flame::json(&before[0], settings),
        None => flame::svg(&before[0], settings),
        Some(path) => {
            let after = [select(load(path)?)?];
            say(after[0].profile.selected.as_ref());
            let by = if settings.stack == Stack::Touch { By::Function } else { By::Alloc };
            let how = Settings { by, user_only: args.filter.user_only(), ..Settings::default() };
            let diff = Diff::new(&before, &after, &how).map_err(Failure)?;
            diff.warnings.iter().for_each(|warning| eprintln!("faultless: warning: {warning}"));
            flame::difference(&diff, &before, &after, settings)
        }
    };
    let picture = picture.ok_or_else(|| {
        let faults = before[0].profile.faults.iter().any(|fault| !(args.filter.user_only() && fault.kernel));
        Failure(nothing(if faults { settings.measure } else { Measure::Faults }).into())
    })?;
    deliver(&picture, sink)
}

/// Why there is no picture.
fn nothing(measure: Measure) -> &'static str {
    match measure {
        Measure::Time => {
            "no fault with a known time was recorded, so there is nothing to draw; try --by faults"
        }
        Measure::Faults => {
            "no fault was recorded, so there is nothing to draw; record a program that touches memory"
        }
        Measure::Bytes => "no fault that made memory resident was recorded; try --by faults",
    }
}
