//! Standard input -> a file that can be opened by its path.
//!
//! In: descriptor 0, from where it is: who has read the beginning of it meant that. Out: a pipe, filled while it is read.
//!
//! What it does not do: search. `/dev/stdin` opens a file anew from its beginning, and a socket not at all.

use std::fs::File;
use std::io::{ErrorKind, PipeReader, pipe};
use std::os::fd::{AsFd, AsRawFd};
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use faultless_console::{Failure, reason};

/// Standard input; its path leads to it as long as this lives.
pub(crate) struct Stdin {
    pipe: PipeReader,
    trouble: Arc<OnceLock<String>>,
}

impl Stdin {
    pub(crate) fn new() -> Result<Self, Failure> {
        // Not through the standard library's buffer, which `interactive` holds.
        let mut input = File::from(std::io::stdin().as_fd().try_clone_to_owned()?);
        let (pipe, mut to) = pipe()?;
        let trouble = Arc::new(OnceLock::new());
        let told = trouble.clone();
        std::thread::Builder::new().spawn(move || match std::io::copy(&mut input, &mut to) {
            Err(error) if error.kind() != ErrorKind::BrokenPipe => {
                // Before the end of the pipe, so whoever sees that sees this.
                told.get_or_init(|| format!("standard input: {}; give a file or pipe", reason(&error)));
            }
            _ => {}
        })?;
        Ok(Self { pipe, trouble })
    }

    pub(crate) fn path(&self) -> PathBuf {
        format!("/proc/self/fd/{}", self.pipe.as_raw_fd()).into()
    }

    /// What kept it from being read.
    pub(crate) fn trouble(&self) -> Option<&String> {
        self.trouble.get()
    }
}
