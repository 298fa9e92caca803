//! `faultless index change`.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use faultless_grepdb::engine::Database;

use crate::databases::Which;
use crate::progress::counted;
use faultless_console::{Failure, Outcome};

/// Mark changed files, so that searches read them from the disk until the next update.
///
/// For editors and build tools that know of a change. Files outside the database are reported.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    which: Which,
    /// Changed files; deleted ones too.
    #[arg(required = true, value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    files: Vec<PathBuf>,
}

pub(crate) fn run(args: Args) -> Outcome {
    let files = args.files.iter().map(|file| whole(file.as_path())).collect::<Result<Vec<_>, _>>()?;
    let mut marked = 0;
    for chosen in args.which.chosen()? {
        marked = marked.max(Database::mark_changed(&chosen.location, &files)?);
    }
    if marked < files.len() {
        eprintln!(
            "faultless: outside the database: {} of {}; `faultless index info --list-skipped` tells why",
            files.len() - marked,
            counted(files.len() as u64, "file")
        );
        return Ok(ExitCode::from(1));
    }
    Ok(ExitCode::SUCCESS)
}

/// The path that a walk would give the file. The file may be gone, but its folder exists.
fn whole(file: &Path) -> Result<PathBuf, Failure> {
    let file = std::path::absolute(file)?;
    let (Some(folder), Some(name)) = (file.parent(), file.file_name()) else { return Ok(file) };
    Ok(folder.canonicalize().map_or(file.clone(), |folder| folder.join(name)))
}
