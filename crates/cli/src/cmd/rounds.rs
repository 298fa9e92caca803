//! Commands that run again and again: the engine behind `compare`, `advise`, `check` and `doctor --check`.
//!
//! In: the input of all runs, and a command. Out: what was seen of each run, with what the command wrote. The engine also
//! knows the order of a round, guest-warm memory, requests to end, and the bar.
//!
//! It does not choose the runs, and it does not judge.

mod input;
mod output;
mod warm;

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read, Seek, Write};
use std::process::ExitCode;

use faultless_console::{Failure, INTERRUPTED, Outcome, reason};
use faultless_os::spawn;
use faultless_prof::{Options, Recorded, Request, Sources, Task};
use faultless_trace::observation::{Exit, Observation};
use faultless_trace::recording::Recording;
use indicatif::{ProgressBar, ProgressStyle};

use super::status;
pub(super) use input::Input;
use output::Drain;
pub(super) use output::Written;
pub(super) use warm::Warm;

/// Runs commands, one at a time.
pub(super) struct Engine {
    input: Input,
    /// Shown on a terminal; the caller counts its steps.
    pub(super) bar: ProgressBar,
}

/// A command, and variables of its environment.
pub(super) struct Job<'a> {
    pub(super) command: &'a [OsString],
    pub(super) environment: &'a [(OsString, OsString)],
    /// The sources that may watch it.
    pub(super) allow: Sources,
}

/// A run that ended.
pub(super) struct Ran<T> {
    pub(super) seen: T,
    pub(super) exit: Exit,
    pub(super) stdout: Written,
    pub(super) stderr: Written,
}

impl<T> Ran<T> {
    /// What was seen, and what the program printed, if it ended with status 0. Else its figures say nothing: they are
    /// those of another path through the program. `so` says that, and the remedy.
    pub(super) fn success(self, program: &str, so: &str) -> Result<(T, Written), Failure> {
        let how = match self.exit {
            Exit::Status(0) => return Ok((self.seen, self.stdout)),
            Exit::Status(status) => format!("with status {status}"),
            other => format!("by {other}"),
        };
        let last = self.stderr.tail.lines().rev().find(|line| !line.trim().is_empty());
        let last = last.map(|line| format!(" (it says: {})", line.trim())).unwrap_or_default();
        Err(Failure(format!("{program} ended {how}{last}, so {so}")))
    }
}

/// Why runs ended early.
pub(super) enum Stop {
    /// The user asked to end.
    Interrupted,
    /// A program did not start.
    NotStarted(faultless_prof::Failure),
    /// A run was not possible.
    Failed(Failure),
}

impl<E: Into<Failure>> From<E> for Stop {
    fn from(error: E) -> Self {
        Self::Failed(error.into())
    }
}

impl Stop {
    /// The end of a verb that has nothing to compare.
    pub(super) fn conclude(self) -> Outcome {
        match self {
            Self::Interrupted => Ok(ExitCode::from(INTERRUPTED)),
            Self::NotStarted(failure) => status::not_started(failure),
            Self::Failed(failure) => Err(failure),
        }
    }

    /// The same in words, for a verb whose status only says that there is no answer.
    pub(super) fn failure(self) -> Failure {
        match self {
            Self::Interrupted => Failure("interrupted".into()),
            Self::NotStarted(failure) => failure.into(),
            Self::Failed(failure) => failure,
        }
    }
}

impl Engine {
    /// From now on, a request to end is remembered. `template` is the bar's, of `steps` steps.
    pub(super) fn new(input: Input, template: &str, steps: u64) -> Self {
        spawn::remember_requests_to_end();
        let bar = ProgressBar::new(steps);
        bar.set_style(
            ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar()),
        );
        Self { input, bar }
    }

    /// The input, for another engine.
    pub(super) fn into_input(self) -> Input {
        self.bar.finish_and_clear();
        self.input
    }

    /// One run, observed.
    pub(super) fn observe(&self, job: Job<'_>) -> Result<Ran<Observation>, Stop> {
        self.run(job, |request| {
            let observation = faultless_prof::observe(request).map_err(Stop::NotStarted)?;
            Ok((observation.exit, observation))
        })
    }

    /// One run, recorded. The recording is read back whole.
    pub(super) fn record(&self, job: Job<'_>, options: &Options) -> Result<Ran<Recording>, Stop> {
        self.run(job, |request| {
            recorded(|out| faultless_prof::record(Task::Command(request), options, out, &mut |_| ()))
        })
    }

    /// One run, watched by `watch`, which also says how it ended. A run in which the user asked to end is none.
    fn run<T>(
        &self,
        job: Job<'_>,
        watch: impl FnOnce(Request) -> Result<(Exit, T), Stop>,
    ) -> Result<Ran<T>, Stop> {
        if spawn::asked_to_end() {
            return Err(Stop::Interrupted);
        }
        let (stdout, written) = Drain::open()?;
        let (stderr, said) = Drain::open()?;
        let (exit, seen) = watch(Request {
            command: job.command.to_vec(),
            env: job.environment.to_vec(),
            stdin: Some(self.input.open()?.into()),
            stdout: Some(stdout.into()),
            stderr: Some(stderr.into()),
            allow: job.allow,
        })?;
        if spawn::asked_to_end() {
            return Err(Stop::Interrupted);
        }
        Ok(Ran { seen, exit, stdout: written.finish()?, stderr: said.finish()? })
    }
}

/// A file that is gone with its last descriptor: in the folder of temporary files, or in memory if that can't be written.
fn unnamed_file() -> io::Result<File> {
    file_on_disk().or_else(|refused| tempfile::tempfile_in("/dev/shm").map_err(|_| refused))
}

/// A file that is gone with its last descriptor, in the folder of temporary files.
pub(super) fn file_on_disk() -> io::Result<File> {
    tempfile::tempfile().map_err(|refused| {
        let folder = std::env::temp_dir();
        let why = reason(&refused);
        io::Error::other(format!("{}: {why}; name a folder that can be written in TMPDIR", folder.display()))
    })
}

/// What `record` writes, read back whole, and how the program ended.
pub(super) fn recorded(
    record: impl FnOnce(Box<dyn Write>) -> Result<Recorded, faultless_prof::Failure>,
) -> Result<(Exit, Recording), Stop> {
    let mut file = unnamed_file()?;
    let recorded = record(Box::new(file.try_clone()?)).map_err(Stop::NotStarted)?;
    recorded.trouble.map_or(Ok(()), Err)?;
    let mut bytes = Vec::new();
    file.rewind()?;
    file.read_to_end(&mut bytes)?;
    Ok((recorded.exit, faultless_trace::file::read(&bytes).map_err(Failure)?))
}

/// The numbers below `count` in a new random order, that of one round.
pub(super) fn shuffled(count: usize) -> Vec<usize> {
    let mut order: Vec<usize> = (0..count).collect();
    fastrand::shuffle(&mut order);
    order
}
