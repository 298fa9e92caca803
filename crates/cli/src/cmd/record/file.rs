//! The trace file while it grows: `FILE.part` beside FILE, renamed once it is whole.

use std::fs::{File, TryLockError};
use std::io::Write;
use std::path::{Path, PathBuf};

use crate::cmd::Failure;
use crate::cmd::sink::{self, Sink};

/// The part.
#[derive(Debug)]
pub(super) struct Part {
    target: PathBuf,
    path: PathBuf,
    file: File,
}

impl Part {
    /// Creates it; what a killed recording left there goes.
    ///
    /// # Errors
    /// FILE can't be replaced, or another recording writes it now.
    pub(super) fn create(target: &Path) -> Result<Self, Failure> {
        let target = Sink::replaceable(target)?;
        let mut path = target.clone().into_os_string();
        path.push(".part");
        let path = PathBuf::from(path);
        let failure = |error: std::io::Error| {
            let reason = sink::reason(&error);
            Failure(format!("{}: {reason}; name another FILE with -o", path.display()))
        };
        let file = File::options().write(true).create(true).truncate(false).open(&path).map_err(failure)?;
        match file.try_lock() {
            Err(TryLockError::WouldBlock) => {
                let text = "another recording is being written there; name another FILE with -o";
                return Err(Failure(format!("{}: {text}", path.display())));
            }
            // Where a file system has no locks.
            Err(TryLockError::Error(_)) | Ok(()) => {}
        }
        file.set_len(0).map_err(failure)?;
        Ok(Self { target, path, file })
    }

    /// Where to write.
    ///
    /// # Errors
    /// No descriptor is left; then there is no part either.
    pub(super) fn out(&self) -> Result<Box<dyn Write>, Failure> {
        match self.file.try_clone() {
            Ok(file) => Ok(Box::new(file)),
            Err(error) => {
                let reason = sink::reason(&error);
                // As in `discard`.
                let _ = std::fs::remove_file(&self.path);
                Err(Failure(format!("{}: {reason}; raise the limit, `ulimit -n`", self.path.display())))
            }
        }
    }

    /// Its path.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// It is whole: it gets its name.
    pub(super) fn keep(self) -> Result<PathBuf, Failure> {
        let named = self.file.sync_all().and_then(|()| std::fs::rename(&self.path, &self.target));
        named.map_err(|error| {
            let (path, reason) = (self.path.display(), sink::reason(&error));
            Failure(format!("{}: {reason}; what was recorded is in {path}", self.target.display()))
        })?;
        Ok(self.target)
    }

    /// Nothing was recorded: where it would have been.
    pub(super) fn discard(self) -> PathBuf {
        // What can't be removed is empty, and the next recording takes it.
        let _ = std::fs::remove_file(&self.path);
        self.target
    }
}
