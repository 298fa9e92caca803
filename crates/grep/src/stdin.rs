//! Standard input -> a file with a path.
//!
//! In: descriptor 0, from its current position on. Out: a pipe, filled while it is read. `/dev/stdin` would
//! not do: it opens a file from its beginning, and can't open a socket.

use std::fs::File;
use std::io::{ErrorKind, PipeReader, pipe};
use std::os::fd::{AsFd, AsRawFd};
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use faultless_console::{Failure, reason};

/// Standard input. Its path is valid as long as this lives.
pub(crate) struct Stdin {
    pipe: PipeReader,
    trouble: Arc<OnceLock<String>>,
}

impl Stdin {
    pub(crate) fn new() -> Result<Self, Failure> {
        // Not through the standard library's buffer, which `interactive` locks.
        let mut input = File::from(std::io::stdin().as_fd().try_clone_to_owned()?);
        let (pipe, mut to) = pipe()?;
        let trouble = Arc::new(OnceLock::new());
        let told = trouble.clone();
        std::thread::Builder::new().spawn(move || match std::io::copy(&mut input, &mut to) {
            Err(error) if error.kind() != ErrorKind::BrokenPipe => {
                // Set before the pipe ends: a reader that sees the end sees this too.
                told.get_or_init(|| format!("standard input: {}; give a file or pipe", reason(&error)));
            }
            _ => {}
        })?;
        Ok(Self { pipe, trouble })
    }

    pub(crate) fn path(&self) -> PathBuf {
        format!("/proc/self/fd/{}", self.pipe.as_raw_fd()).into()
    }

    /// The error that ended the reading.
    pub(crate) fn trouble(&self) -> Option<&String> {
        self.trouble.get()
    }
}
