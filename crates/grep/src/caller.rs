//! Who asked for a search: this process's user, or a client of the service.
//!
//! In: streams and a folder. Out: where a search prints, and which folder it is about.

use std::fmt::Display;
use std::fs::File;
use std::io::{self, ErrorKind, IsTerminal, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;

use faultless_console::{Failure, reason};
use faultless_grepdb::Notice;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// Who asked.
pub(crate) struct Caller {
    pub(crate) folder: PathBuf,
    /// The environment allows colour on a terminal.
    pub(crate) likes_colour: bool,
    stdout: File,
    stderr: File,
    /// The connection of a client.
    client: Option<UnixStream>,
}

impl Caller {
    /// The user of this process.
    pub(crate) fn this_process() -> Result<Self, Failure> {
        let file = |stream: io::Result<OwnedFd>| stream.map(File::from);
        Ok(Self {
            folder: here()?,
            likes_colour: likes_colour(),
            stdout: file(io::stdout().as_fd().try_clone_to_owned())?,
            stderr: file(io::stderr().as_fd().try_clone_to_owned())?,
            client: None,
        })
    }

    /// A client of the service.
    pub(crate) fn client(
        folder: PathBuf,
        likes_colour: bool,
        [stdout, stderr]: [OwnedFd; 2],
        client: UnixStream,
    ) -> Self {
        Self { folder, likes_colour, stdout: stdout.into(), stderr: stderr.into(), client: Some(client) }
    }

    /// Whether it is another process, whose current folder differs.
    pub(crate) fn is_elsewhere(&self) -> bool {
        self.client.is_some()
    }

    pub(crate) fn sees_output(&self) -> bool {
        self.stdout.is_terminal()
    }

    /// Prints a line on stderr, if that can be written.
    pub(crate) fn tell(&self, message: &dyn Display) {
        let _ = (&self.stderr).write_all(format!("{message}\n").as_bytes());
    }

    /// Prints notices about a result. Without a terminal, files that were not checked are reported only if a checked one
    /// had changed.
    pub(crate) fn tell_all(&self, notices: &[Notice]) {
        let is_minor = |notice: &Notice| matches!(notice, Notice::Unchecked { .. });
        if self.stderr.is_terminal() || !notices.iter().all(is_minor) {
            notices.iter().for_each(|notice| self.tell(&format_args!("faultless: {notice}")));
        }
    }

    pub(crate) fn stdout(&self) -> io::Result<Stdout> {
        let client = self.client.as_ref().map(UnixStream::try_clone).transpose()?;
        Ok(Stdout { file: self.stdout.try_clone()?, client })
    }
}

/// The current folder of this process.
pub(crate) fn here() -> Result<PathBuf, Failure> {
    std::env::current_dir().map_err(|error| {
        Failure(format!("current folder: {}; change to a folder that exists", reason(&error)))
    })
}

/// Whether the environment of this process allows colour on a terminal.
pub(crate) fn likes_colour() -> bool {
    std::env::var_os("TERM").is_some_and(|term| term != "dumb") && std::env::var_os("NO_COLOR").is_none()
}

/// The destination of matches. Without its client it is closed.
pub(crate) struct Stdout {
    file: File,
    client: Option<UnixStream>,
}

impl Write for Stdout {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.client.as_ref().is_some_and(has_gone) {
            return Err(ErrorKind::BrokenPipe.into());
        }
        self.file.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

fn has_gone(client: &UnixStream) -> bool {
    let mut polls = [PollFd::new(client, PollFlags::RDHUP)];
    poll(&mut polls, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })).is_ok() && !polls[0].revents().is_empty()
}
