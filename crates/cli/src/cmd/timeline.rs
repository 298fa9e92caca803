//! `faultless timeline`: in: one or two trace files. Out: an HTML page to explore, or JSON.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use super::filter::FilterArgs;
use super::trace_file;
use faultless_console::{Failure, Outcome, emit, sink::Sink};
use faultless_report::timeline::{self as report, Shown};
use faultless_trace::measurement::Count;
use faultless_trace::recording::Recording;
use faultless_trace::timeline::Timeline;

/// The default page.
const PAGE: &str = "faultless-timeline.html";

/// Draw what each thread did over time: computing, in page faults, waiting.
///
/// Writes one self-contained HTML page. Two recordings, such as without and with a cure, share one time
/// scale.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
EXAMPLES
  faultless timeline
  faultless timeline before.trace after.trace -o both.html
  faultless timeline --json | jq '.runs[].lanes[] | {name, totals_ns}'

Exit status: 0 written, 2 a file can't be read or written.")]
pub(crate) struct Args {
    /// Trace file written by `faultless record`, or perf.data of `perf record -e page-faults -c 1 -g -d`.
    #[arg(value_name = "FILE", default_value = trace_file::DEFAULT, value_hint = clap::ValueHint::FilePath)]
    file: PathBuf,
    /// Second trace file, drawn below the first.
    #[arg(value_name = "FILE2", value_hint = clap::ValueHint::FilePath)]
    second: Option<PathBuf>,
    /// Write to OUT, atomically [default: faultless-timeline.html; with --json -, which is stdout].
    #[arg(short, long, value_name = "OUT", value_hint = clap::ValueHint::FilePath)]
    output: Option<PathBuf>,
    /// Write the lanes as JSON instead: states and faults of each thread.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    filter: FilterArgs,
}

pub(crate) fn run(args: Args) -> Outcome {
    let page = match (&args.output, args.json) {
        (Some(path), _) => Some(path.as_path()),
        (None, true) => None,
        (None, false) => Some(Path::new(PAGE)),
    };
    if page.and_then(Path::extension).is_some_and(|kind| kind == "svg") {
        return Err(Failure(
            "timeline writes a page, not a picture: name it -o FILE.html; flame draws SVG".into(),
        ));
    }
    let sink = page.map(Sink::file).transpose()?;
    let files: Vec<PathBuf> = std::iter::once(args.file).chain(args.second).collect();
    let recordings: Vec<Recording> =
        files.iter().map(|file| trace_file::load(file)).collect::<Result<_, Failure>>()?;
    let filter = args.filter.filter();
    let lay_out =
        |recording: &Recording| Ok(Timeline::of(recording, &args.filter.profile(recording)?, &filter));
    let timelines: Vec<Timeline> = recordings.iter().map(lay_out).collect::<Result<_, Failure>>()?;
    let names: Vec<String> = files.iter().map(|file| file.display().to_string()).collect();
    let shown: Vec<Shown<'_>> = (0..files.len())
        .map(|at| Shown { name: &names[at], timeline: &timelines[at], stacks: &recordings[at].stacks })
        .collect();
    let text = if args.json { report::json(&shown) } else { report::html(&shown) };
    let (Some(sink), Some(path)) = (sink, page) else {
        return emit(text.as_bytes(), ExitCode::SUCCESS);
    };
    sink.write(&text)?;
    let (lanes, events) = timelines
        .iter()
        .fold((0, 0), |sums, timeline| (sums.0 + timeline.lanes.len(), sums.1 + timeline.events()));
    eprintln!(
        "faultless: {}: {}, {}",
        path.display(),
        Count(lanes as u64).of("thread"),
        Count(events as u64).of("event")
    );
    Ok(ExitCode::SUCCESS)
}
