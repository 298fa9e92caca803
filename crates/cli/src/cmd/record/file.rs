//! The trace file while it grows: `FILE.part` beside FILE, renamed when it is complete.

use std::fs::{File, TryLockError};
use std::io::Write;
use std::path::{Path, PathBuf};

use faultless_console::{Failure, reason, sink::Sink};

/// The growing file.
#[derive(Debug)]
pub(super) struct PartFile {
    target: PathBuf,
    path: PathBuf,
    file: File,
}

impl PartFile {
    /// Creates the file, and discards what a killed recording left in it.
    ///
    /// # Errors
    /// FILE can't be replaced, or another recording writes it now.
    pub(super) fn create(target: &Path) -> Result<Self, Failure> {
        let target = Sink::replaceable(target)?;
        let mut path = target.clone().into_os_string();
        path.push(".part");
        let path = PathBuf::from(path);
        let failure = |error: std::io::Error| {
            let reason = reason(&error);
            Failure(format!("{}: {reason}; name another FILE with -o", path.display()))
        };
        let file = File::options().write(true).create(true).truncate(false).open(&path).map_err(failure)?;
        match file.try_lock() {
            Err(TryLockError::WouldBlock) => {
                let text = "another recording is being written there; name another FILE with -o";
                return Err(Failure(format!("{}: {text}", path.display())));
            }
            // Some file systems have no locks.
            Err(TryLockError::Error(_)) | Ok(()) => {}
        }
        file.set_len(0).map_err(failure)?;
        Ok(Self { target, path, file })
    }

    /// A writer to the file.
    ///
    /// # Errors
    /// No descriptor is left. The file is then removed.
    pub(super) fn out(&self) -> Result<Box<dyn Write>, Failure> {
        match self.file.try_clone() {
            Ok(file) => Ok(Box::new(file)),
            Err(error) => {
                let reason = reason(&error);
                // A failure matters as little as in `discard`.
                let _ = std::fs::remove_file(&self.path);
                Err(Failure(format!("{}: {reason}; raise the limit, `ulimit -n`", self.path.display())))
            }
        }
    }

    /// The path of the growing file.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Gives the complete file its name.
    pub(super) fn keep(self) -> Result<PathBuf, Failure> {
        let named = self.file.sync_all().and_then(|()| std::fs::rename(&self.path, &self.target));
        named.map_err(|error| {
            let (path, reason) = (self.path.display(), reason(&error));
            Failure(format!("{}: {reason}; what was recorded is in {path}", self.target.display()))
        })?;
        Ok(self.target)
    }

    /// Removes the file when nothing was recorded. Returns the path that it would have had.
    pub(super) fn discard(self) -> PathBuf {
        // If it can't be removed, it is empty, and the next recording reuses it.
        let _ = std::fs::remove_file(&self.path);
        self.target
    }
}
