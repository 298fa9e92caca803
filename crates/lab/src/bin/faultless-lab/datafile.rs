//! `faultless lab datafile`: random data for the experiment `files`, on a disk of the user's choice.
//!
//! In: a path and a length. Out: the whole file, on the disk, or none: what was begun is taken away again, also after Ctrl-C.

use std::fs::File;
use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use faultless_lab::datafile;
use faultless_os::spawn;

use faultless_console::{Failure, INTERRUPTED, Outcome, reason};

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// New file.
    file: PathBuf,
    /// Length in MiB; `files` reads 16 with --quick, 1024 with --full, else 128.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1 << 24))]
    mib: u64,
}

/// Writes the file.
pub(crate) fn run(args: &Args) -> Outcome {
    let path = &args.file;
    let failed =
        |error: io::Error, remedy: &str| Failure(format!("{}: {}; {remedy}", path.display(), reason(&error)));
    let file = File::create_new(path).map_err(|error| match error.kind() {
        io::ErrorKind::AlreadyExists => failed(error, "name a file that does not exist yet"),
        _ => failed(error, "name a file in a folder that can be written"),
    })?;
    spawn::remember_requests_to_end();
    let written = datafile::write(&mut UntilAsked(&file), args.mib << 20, fastrand::u64(..))
        .and_then(|_| file.sync_all());
    let Err(error) = written else { return Ok(ExitCode::SUCCESS) };
    let _ = std::fs::remove_file(path);
    if spawn::asked_to_end() {
        eprintln!("faultless: interrupted; {} is not kept", path.display());
        return Ok(ExitCode::from(INTERRUPTED));
    }
    Err(failed(error, "make room, or write less with --mib"))
}

/// A file until somebody asks to end: then an error.
struct UntilAsked<'a>(&'a File);

impl Write for UntilAsked<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if spawn::asked_to_end() { Err(io::Error::other("interrupted")) } else { self.0.write(bytes) }
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_written_whole_and_never_over_another() {
        let folder = tempfile::tempdir().unwrap();
        let args = Args { file: folder.path().join("random"), mib: 1 };
        assert!(run(&args).is_ok());
        assert_eq!(std::fs::metadata(&args.file).unwrap().len(), 1 << 20);
        let failure = run(&args).unwrap_err().to_string();
        assert!(failure.contains("random") && failure.contains("does not exist yet"), "{failure}");
    }

    #[test]
    fn a_folder_that_is_not_there_is_told() {
        let file = tempfile::tempdir().unwrap().path().join("none/random");
        let failure = run(&Args { file, mib: 1 }).unwrap_err().to_string();
        assert!(failure.contains("name a file in a folder that can be written"), "{failure}");
    }
}
