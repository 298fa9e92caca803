//! The runs of a program under `check`. In: a command. Out: the figures of each run, and one recorded run by site.
//!
//! A run that does not end with status 0 is no answer: its counts are those of another path through the program.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::io::{Read, Seek};

use faultless_console::Failure;
use faultless_prof::{Kernel, Options, Request, Sources, Task};
use faultless_trace::Stat;
use faultless_trace::budget::{self, Reading};
use faultless_trace::diff::Run;
use faultless_trace::file;
use faultless_trace::observation::{Exit, Host, SourceNote};

use crate::cmd::record::names_folder;
use crate::cmd::rounds::{Engine, Input, Job, Stop};

/// Counts, single faults, and memory over time. Kernel stacks only tell times.
const SOURCES: Sources = Sources { counters: true, pairs: true, kernel: Kernel::No, levels: true };

/// Makes Python 3.12 and later write the names of its functions (`-X perf`).
const PYTHON: &str = "PYTHONPERFSUPPORT";

/// A program that runs several times.
pub(super) struct Program<'a> {
    command: &'a [OsString],
    pub(super) engine: Engine,
}

impl<'a> Program<'a> {
    pub(super) fn new(command: &'a [OsString], runs: u32) -> Result<Self, Failure> {
        let engine = Engine::new(Input::capture()?, "{bar:30} run {pos} of {len}", u64::from(runs));
        Ok(Self { command, engine })
    }

    /// The figures of one run.
    pub(super) fn observe(&self) -> Result<(Host, Vec<SourceNote>, Reading), Stop> {
        let observation = self.run(&[], |request| {
            let observation = faultless_prof::observe(request)?;
            Ok((observation.exit, observation))
        })?;
        let reading = Reading::of(&Stat::from_observation(&observation));
        Ok((observation.host, observation.sources, reading))
    }

    /// Faults by function and caller, from a run of which every fault is recorded.
    pub(super) fn sites(&self) -> Result<BTreeMap<String, u64>, Stop> {
        let mut trace = tempfile::tempfile()?;
        let out = Box::new(trace.try_clone()?);
        let options = Options { every_fault: true, names: names_folder(), ..Options::default() };
        self.run(&[(PYTHON.into(), "1".into())], |request| {
            let recorded = faultless_prof::record(Task::Command(request), &options, out, &mut |_| ())?;
            Ok((recorded.exit, ()))
        })?;
        let mut bytes = Vec::new();
        trace.rewind()?;
        trace.read_to_end(&mut bytes)?;
        let recording = file::read(&bytes)?;
        remove_maps(recording.observation.records.iter().map(|record| record.pid).collect());
        Ok(budget::sites(&Run::new(recording)))
    }

    /// Runs it, watched by `way`, which also returns how it ended.
    fn run<T>(
        &self,
        environment: &[(OsString, OsString)],
        way: impl FnOnce(Request) -> Result<(Exit, T), Failure>,
    ) -> Result<T, Stop> {
        let job = Job { command: self.command, environment, allow: SOURCES };
        let ran = self.engine.run(job, |request| way(request).map_err(Stop::Failed))?;
        let how = match ran.seen {
            (Exit::Status(0), seen) => return Ok(seen),
            (Exit::Status(status), _) => format!("with status {status}"),
            (other, _) => format!("by {other}"),
        };
        let last = ran.stderr.tail.lines().rev().find(|line| !line.trim().is_empty());
        let last = last.map(|line| format!(" (it says: {})", line.trim())).unwrap_or_default();
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
