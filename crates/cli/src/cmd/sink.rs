//! Where a report goes: standard error, or a file that appears whole or not at all.

use std::fs::{File, OpenOptions};
use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};

use super::Failure;

/// Where the report goes; made before the program runs, so that hours of it are not lost to a typing error.
#[derive(Debug)]
pub(crate) enum Sink {
    /// Standard error.
    Stderr,
    /// A pipe, a terminal, `/dev/null`: nothing to keep whole.
    Direct(PathBuf, File),
    /// A file beside the final one, renamed over it at the end.
    Aside(Aside),
}

/// What is written beside a file that it will replace.
#[derive(Debug)]
pub(crate) struct Aside {
    file: File,
    path: PathBuf,
    target: PathBuf,
}

impl Sink {
    /// A file to be written whole at the end; where it can't be written, that is found out now.
    pub(crate) fn file(path: &Path) -> Result<Self, Failure> {
        let failure = |error| {
            Failure(format!("{}: {}; name a FILE that can be written", path.display(), reason(&error)))
        };
        // The file that a symbolic link points to is to be replaced, not the link.
        let target =
            path.canonicalize().unwrap_or_else(|_| dangling(path).unwrap_or_else(|| path.to_owned()));
        let mut kept_mode = None;
        if target.exists() {
            let file = OpenOptions::new().write(true).open(&target).map_err(failure)?;
            let metadata = file.metadata().map_err(failure)?;
            if !metadata.is_file() {
                return Ok(Self::Direct(target, file));
            }
            kept_mode = Some(metadata.permissions());
        }
        let mut name =
            target.file_name().ok_or_else(|| failure(io::ErrorKind::IsADirectory.into()))?.to_owned();
        name.push(format!(".{}.part", std::process::id()));
        let path = target.with_file_name(name);
        let file = OpenOptions::new().write(true).create_new(true).open(&path).map_err(failure)?;
        let aside = Aside { file, path, target };
        if let Some(mode) = kept_mode {
            // A report that its owner has closed to others stays so.
            aside.file.set_permissions(mode).map_err(failure)?;
        }
        Ok(Self::Aside(aside))
    }

    /// Whether the reader is a terminal that has not been told NO_COLOR.
    pub(crate) fn wants_colour(&self) -> bool {
        matches!(self, Self::Stderr) && io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none()
    }

    /// Writes the report and makes it durable.
    pub(crate) fn write(self, report: &str) -> Result<(), Failure> {
        let failure = |path: &Path, error| {
            Failure(format!("{}: {}; the report is lost", path.display(), reason(&error)))
        };
        match self {
            Self::Stderr => {
                // Nobody reads it any more: that is no failure of the program that was run.
                let _ = io::stderr().lock().write_all(report.as_bytes());
                Ok(())
            }
            Self::Direct(path, mut file) => {
                file.write_all(report.as_bytes()).map_err(|error| failure(&path, error))
            }
            Self::Aside(mut aside) => {
                aside.put(report.as_bytes()).map_err(|error| failure(&aside.target, error))
            }
        }
    }
}

impl Aside {
    fn put(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.file.write_all(bytes)?;
        self.file.sync_all()?;
        std::fs::rename(&self.path, &self.target)
    }
}

impl Drop for Aside {
    fn drop(&mut self) {
        // Gone already once it has been renamed.
        let _ = std::fs::remove_file(&self.path);
    }
}

/// Where a symbolic link points to whose file does not exist yet.
fn dangling(link: &Path) -> Option<PathBuf> {
    let to = std::fs::read_link(link).ok()?;
    Some(link.parent().unwrap_or(Path::new("")).join(to))
}

/// An I/O error without its number.
fn reason(error: &io::Error) -> String {
    let text = error.to_string();
    text.split(" (os error").next().unwrap_or_default().to_owned()
}
