//! Commands that run again and again: the engine behind `compare`, `advise`, `check` and `doctor --check`.
//!
//! In: the input of all runs, a command, and a way to watch it. Out: what was seen of each run, with what the command
//! wrote. The engine also knows the order of a round, guest-warm memory, requests to end, and the bar.
//!
//! It does not choose the runs, and it does not judge.

mod input;
mod output;
mod warm;

use std::ffi::OsString;
use std::process::ExitCode;

use faultless_console::{Failure, INTERRUPTED, Outcome};
use faultless_os::spawn;
use faultless_prof::{Request, Sources};
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
    pub(super) stdout: Written,
    pub(super) stderr: Written,
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

    /// One run, watched by `watch`. A run in which the user asked to end is none.
    pub(super) fn run<T>(
        &self,
        job: Job<'_>,
        watch: impl FnOnce(Request) -> Result<T, Stop>,
    ) -> Result<Ran<T>, Stop> {
        if spawn::asked_to_end() {
            return Err(Stop::Interrupted);
        }
        let (stdout, written) = Drain::open()?;
        let (stderr, said) = Drain::open()?;
        let seen = watch(Request {
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
        Ok(Ran { seen, stdout: written.finish()?, stderr: said.finish()? })
    }
}

/// The numbers below `count` in a new random order, that of one round.
pub(super) fn shuffled(count: usize) -> Vec<usize> {
    let mut order: Vec<usize> = (0..count).collect();
    fastrand::shuffle(&mut order);
    order
}
