//! `faultless index filter`.

use std::io::BufRead;
use std::process::ExitCode;

use crate::matching::Matching;
use faultless_console::{Failure, Outcome, emit};

/// Filter lines of standard input as `files` filters paths.
#[derive(Debug, clap::Args)]
#[command(after_help = "EXAMPLE\n  git ls-files | faultless index filter --by fuzzy schdcore")]
pub(crate) struct Args {
    /// Query.
    query: String,
    #[command(flatten)]
    matching: Matching,
    /// End lines with NUL in input and output.
    #[arg(short = '0', long)]
    null: bool,
}

pub(crate) fn run(args: Args) -> Outcome {
    let mut filter = args.matching.filter(&args.query)?;
    let end = if args.null { 0 } else { b'\n' };
    let mut failed = None;
    let lines =
        std::io::stdin().lock().split(end).map_while(|line| line.map_err(|error| failed = Some(error)).ok());
    let hits = args.matching.hits(&mut filter, lines, |_| true);
    if let Some(error) = failed {
        return Err(Failure(format!("standard input: {error}")));
    }
    let mut out = Vec::new();
    hits.iter().for_each(|hit| args.matching.show(hit, end, &mut out));
    emit(&out, if hits.is_empty() { ExitCode::from(1) } else { ExitCode::SUCCESS })
}
