//! `faultless index files`.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;

use faultless_grepdb::Notice;
use faultless_grepdb::engine::Database;

use crate::caller::Caller;
use crate::databases::{Chosen, Which};
use crate::matching::Matching;
use faultless_console::{Failure, emit};

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
    /// Without --fresh, the first 10,000 results are checked for deletion. A message gives the number
    /// of unchecked ones, if a checked file was deleted or on a terminal.
    #[arg(long)]
    fresh: bool,
    /// End paths with NUL instead of a line end.
    #[arg(short = '0', long)]
    null: bool,
}

/// Returns the exit status.
pub(crate) fn run(args: Args) -> Result<u8, Failure> {
    let caller = Caller::this_process()?;
    let here = caller.folder.clone();
    let mut filter = args.matching.filter(args.query.as_deref().unwrap_or_default())?;
    let mut hits = Vec::new();
    for chosen in args.which.chosen()? {
        let database = if args.fresh { Arc::new(chosen.refreshed(&caller)?) } else { chosen.opened()? };
        let (mut checks, mut gone, mut unchecked) = (0, 0, 0);
        let of_database = args.matching.hits(&mut filter, paths(&database, &chosen, &here)?, |hit| {
            if args.fresh || checks == CHECKS_MAX {
                unchecked += u64::from(!args.fresh);
                return true;
            }
            checks += 1;
            let is_there = here.join(OsStr::from_bytes(&hit.line)).symlink_metadata().is_ok();
            gone += u64::from(!is_there);
            is_there
        });
        caller.tell_all(&Notice::of_paths(&database, gone, unchecked));
        hits.extend(of_database);
    }
    let hits = args.matching.best(hits);
    let mut out = Vec::new();
    hits.iter().for_each(|hit| args.matching.show(hit, if args.null { 0 } else { b'\n' }, &mut out));
    emit(&out, u8::from(hits.is_empty()))
}

/// The files of `database`, with the paths that are printed.
fn paths(
    database: &Database,
    chosen: &Chosen,
    here: &Path,
) -> Result<impl Iterator<Item = Vec<u8>> + use<>, Failure> {
    let root = database.location().root.as_path();
    let whole = chosen.project.is_some();
    let (before, within) = prefixes(root, here);
    let root = [root.as_os_str().as_bytes(), b"/"].concat();
    let files = database.files()?.filter(|entry| entry.kind.has_text());
    Ok(files.filter_map(move |entry| match entry.path.strip_prefix(&within[..]) {
        Some(rest) if before.is_empty() => Some(rest.to_vec()),
        Some(_) => Some([&before[..], &entry.path].concat()),
        // The file is not below the current folder.
        None => whole.then(|| [&root[..], &entry.path].concat()),
    }))
}

/// Returns two prefixes. The first goes before each printed path of the tree at `root`, seen from `here`:
/// nothing, the way down to `root`, or all of `root`. The second begins the tree paths of the files below
/// `here`.
fn prefixes(root: &Path, here: &Path) -> (Vec<u8>, Vec<u8>) {
    let folder = |path: &Path| match path.as_os_str().as_encoded_bytes() {
        [] => Vec::new(),
        path if path.ends_with(b"/") => path.to_vec(),
        path => [path, b"/"].concat(),
    };
    match (root.strip_prefix(here), here.strip_prefix(root)) {
        (Ok(way), _) => (folder(way), Vec::new()),
        (_, Ok(below)) => (Vec::new(), folder(below)),
        _ => (folder(root), Vec::new()),
    }
}
