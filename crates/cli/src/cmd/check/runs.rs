//! The runs of a program under `check`. In: a command. Out: the figures of each run, and one recorded run by site.
//!
//! A run that does not end with status 0 is no answer: its counts are those of another path through the program.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::io::{Read, Seek};

use faultless_console::Failure;
use faultless_os::spawn;
use faultless_prof::{Kernel, Options, Request, Sources, Task};
use faultless_trace::Stat;
use faultless_trace::budget::{self, Reading};
use faultless_trace::diff::Run;
use faultless_trace::file;
use faultless_trace::observation::{Exit, Host, SourceNote};
use indicatif::{ProgressBar, ProgressStyle};

use crate::cmd::bench::{Drain, Input};
use crate::cmd::record::names_folder;

/// Counts, single faults, and memory over time. Kernel stacks only tell times.
const SOURCES: Sources = Sources { counters: true, pairs: true, kernel: Kernel::No, levels: true };

/// Makes Python 3.12 and later write the names of its functions (`-X perf`).
const PYTHON: &str = "PYTHONPERFSUPPORT";

/// A program that runs several times.
pub(super) struct Program<'a> {
    command: &'a [OsString],
    input: Input,
}

/// Why there is no answer.
pub(super) enum Stop {
    /// The user asked to end.
    Interrupted,
    /// It is not possible.
    Failed(Failure),
}

impl<E: Into<Failure>> From<E> for Stop {
    fn from(error: E) -> Self {
        Self::Failed(error.into())
    }
}

impl<'a> Program<'a> {
    pub(super) fn new(command: &'a [OsString]) -> Result<Self, Failure> {
        spawn::remember_requests_to_end();
        Ok(Self { command, input: Input::capture()? })
    }

    /// A bar for `runs` runs.
    pub(super) fn progress(&self, runs: u32) -> ProgressBar {
        let style = ProgressStyle::with_template("{bar:30} run {pos} of {len}");
        let bar = ProgressBar::new(u64::from(runs));
        bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
        bar
    }

    /// The figures of one run.
    pub(super) fn observe(&self) -> Result<(Host, Vec<SourceNote>, Reading), Stop> {
        let mut found = None;
        self.run(Vec::new(), |request| {
            let observation = faultless_prof::observe(request)?;
            let exit = observation.exit;
            found = Some(observation);
            Ok(exit)
        })?;
        let observation = found.unwrap_or_default();
        let reading = Reading::of(&Stat::from_observation(&observation));
        Ok((observation.host, observation.sources, reading))
    }

    /// Faults by function and caller, from a run of which every fault is recorded.
    pub(super) fn sites(&self) -> Result<BTreeMap<String, u64>, Stop> {
        let mut trace = tempfile::tempfile()?;
        let out = Box::new(trace.try_clone()?);
        let options = Options { every_fault: true, names: names_folder(), ..Options::default() };
        self.run(vec![(PYTHON.into(), "1".into())], |request| {
            Ok(faultless_prof::record(Task::Command(request), &options, out, &mut |_| ())?.exit)
        })?;
        let mut bytes = Vec::new();
        trace.rewind()?;
        trace.read_to_end(&mut bytes)?;
        let recording = file::read(&bytes)?;
        remove_maps(recording.observation.records.iter().map(|record| record.pid).collect());
        Ok(budget::sites(&Run::new(recording)))
    }

    /// Runs it by `way`, which returns how it ended.
    fn run(
        &self,
        env: Vec<(OsString, OsString)>,
        way: impl FnOnce(Request) -> Result<Exit, Failure>,
    ) -> Result<(), Stop> {
        if spawn::asked_to_end() {
            return Err(Stop::Interrupted);
        }
        let (stdout, written) = Drain::open()?;
        let (stderr, said) = Drain::open()?;
        let exit = way(Request {
            command: self.command.to_vec(),
            env,
            stdin: Some(self.input.open()?.into()),
            stdout: Some(stdout.into()),
            stderr: Some(stderr.into()),
            allow: SOURCES,
        })?;
        if spawn::asked_to_end() {
            return Err(Stop::Interrupted);
        }
        written.finish()?;
        let said = said.finish()?.tail;
        if exit == Exit::Status(0) {
            return Ok(());
        }
        let last = said.lines().rev().find(|line| !line.trim().is_empty());
        let last = last.map(|line| format!(" (it says: {})", line.trim())).unwrap_or_default();
        let how = match exit {
            Exit::Status(status) => format!("with status {status}"),
            other => format!("by {other}"),
        };
        let name = self.command.first().map(|name| name.to_string_lossy()).unwrap_or_default();
        Err(Failure(format!("{name} ended {how}{last}, so its counts say nothing; mend the command")).into())
    }
}

/// Removes the tables of names that Python left in /tmp for us.
fn remove_maps(pids: BTreeSet<u32>) {
    for pid in pids {
        // Most processes are no Python and left none.
        let _ = std::fs::remove_file(format!("/tmp/perf-{pid}.map"));
    }
}
