//! `faultless index files`.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

use faultless_grepdb::{Database, FileKind};

use crate::matching::Matching;
use crate::place::{self, Chosen, Which};
use faultless_console::{Failure, Outcome, emit};

/// At most this many printed paths are checked on disk: some 20 ms.
const CHECKS_MAX: u64 = 10_000;

/// Find files by path in the database.
///
/// Shows text files below the current folder, with relative paths; with --project, all of the project.
#[derive(Debug, clap::Args)]
#[command(after_help = "EXAMPLES\n  faultless index files                           all\n  \
    faultless index files 'ext4/.*\\.c$'             by an expression for the path\n  \
    faultless index files --by words 'sched core'   by words in the name\n  \
    faultless index files --by fuzzy schdcore       the best first")]
pub(crate) struct Args {
    /// Query [default: all files].
    query: Option<String>,
    #[command(flatten)]
    matching: Matching,
    #[command(flatten)]
    which: Which,
    /// Compare with the disk first: include new files, exclude deleted ones.
    ///
    /// Without --fresh, the first 10,000 results are checked for deletion. A message counts the unchecked
    /// ones if a checked file was deleted, or on a terminal.
    #[arg(long)]
    fresh: bool,
    /// End paths with NUL instead of a line end.
    #[arg(short = '0', long)]
    null: bool,
}

pub(crate) fn run(args: Args) -> Outcome {
    let (out, code) = answer(&args)?;
    emit(&out, code)
}

/// The output.
pub(crate) fn answer(args: &Args) -> Result<(Vec<u8>, ExitCode), Failure> {
    let here = place::here()?;
    let mut filter = args.matching.filter(args.query.as_deref().unwrap_or_default())?;
    let mut found = Vec::new();
    for chosen in args.which.chosen()? {
        let database = if args.fresh { Arc::new(chosen.refreshed()?) } else { chosen.opened()? };
        let (mut looks, mut gone, mut unlooked) = (0, 0, 0);
        let hits = args.matching.hits(&mut filter, paths(&database, &chosen, &here)?, |found| {
            if args.fresh || looks == CHECKS_MAX {
                unlooked += u64::from(!args.fresh);
                return true;
            }
            looks += 1;
            let is_there = here.join(OsStr::from_bytes(&found.line)).symlink_metadata().is_ok();
            gone += u64::from(!is_there);
            is_there
        });
        let warnings = [place::gone(&database, gone), place::unlooked(unlooked, gone)];
        warnings.iter().flatten().for_each(|warning| eprintln!("{warning}"));
        found.extend(hits);
    }
    let found = args.matching.best(found);
    let mut out = Vec::new();
    found.iter().for_each(|found| args.matching.show(found, if args.null { 0 } else { b'\n' }, &mut out));
    Ok((out, if found.is_empty() { ExitCode::from(1) } else { ExitCode::SUCCESS }))
}

/// The files of `database`, with the paths that are printed.
fn paths(
    database: &Database,
    chosen: &Chosen,
    here: &Path,
) -> Result<impl Iterator<Item = Vec<u8>> + use<>, Failure> {
    let root = database.location().root.as_path();
    let whole = chosen.project.is_some();
    let (before, within) = place::prefix(root, here);
    let root = [root.as_os_str().as_bytes(), b"/"].concat();
    let files = database.files()?.filter(|entry| matches!(entry.kind, FileKind::Text | FileKind::LateBinary));
    Ok(files.filter_map(move |entry| match entry.path.strip_prefix(&within[..]) {
        Some(rest) if before.is_empty() => Some(rest.to_vec()),
        Some(_) => Some([&before[..], &entry.path].concat()),
        // The file is not below the current folder.
        None => whole.then(|| [&root[..], &entry.path].concat()),
    }))
}
