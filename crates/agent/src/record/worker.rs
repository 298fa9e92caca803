//! One recording: `faultless record`, then `report` and `export`, each a child with a time limit.
//!
//! In: a [`Job`], which names a process. Out: [`Done`], and files in the [`Folder`]. The trace itself is removed. A child
//! ends with the agent; if the agent is killed, it ends by itself, and the next agent removes what it wrote.
//!
//! They are as nice as the agent. At nice 19 beside a load of 5 on two processors, a recording of 2 s had not ended after
//! 25 s, and all the while its events slowed the recorded program.

use std::fs;
use std::io::Read;
use std::path::Path;
use std::process::{Child, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed, Ordering::SeqCst};
use std::sync::mpsc::{Receiver, Sender};
use std::time::{Duration, Instant};

use faultless_console::program::Program as Starter;
use faultless_console::{Failure, reason};
use faultless_os::counters::{Who, rusage};
use faultless_os::procfs;

use super::folder::Folder;
use crate::args::Options;
use crate::board::Board;
use crate::count::Program;
use crate::found::Found;
use crate::identity::Identity;
use crate::tuning as t;

/// The program that records.
pub(super) const FAULTLESS: Starter =
    Starter { verb: "", file: "faultless", name: "faultless", package: "crates/cli" };

/// A process to record.
#[derive(Debug)]
pub(super) struct Job {
    pub(super) program: Program,
    pub(super) pid: u32,
    /// With the process id it identifies a process.
    pub(super) began: u64,
}

/// What became of it.
#[derive(Debug)]
pub(super) struct Done {
    pub(super) program: Program,
    /// CPU time that it took.
    pub(super) cpu: Duration,
    /// If it went well, what it found, and a profile in pprof's format if somebody wants one.
    pub(super) recorded: Option<Recorded>,
}

type Recorded = (Found, Option<Vec<u8>>);

/// Why there is no recording.
enum Missed {
    /// The process has ended.
    Gone,
    /// The agent ends.
    Ending,
    Failed(String),
}

/// The state of the thread.
pub(super) struct Worker {
    folder: Folder,
    wants_profile: bool,
    board: Arc<Board>,
    is_ending: Arc<AtomicBool>,
    /// The last one failed.
    is_out: bool,
}

impl Worker {
    /// As the flags say; `None` without `--record`.
    ///
    /// # Errors
    /// `faultless` is not installed, or the folder can't be written.
    pub(super) fn of(
        options: &Options,
        board: Arc<Board>,
        is_ending: Arc<AtomicBool>,
    ) -> Result<Option<Self>, Failure> {
        let Some(dir) = &options.record else { return Ok(None) };
        let folder = Folder::open(dir, u64::from(options.record_mib) << 20)?;
        FAULTLESS.output(&["--version"])?;
        board.own.recordings.bytes.store(folder.trim(), Relaxed);
        Ok(Some(Self { folder, wants_profile: options.pprof.is_some(), board, is_ending, is_out: false }))
    }

    /// Does jobs until there are no more.
    pub(super) fn work(mut self, jobs: &Receiver<Job>, done: &Sender<Done>) {
        for job in jobs {
            let before_ns = children_cpu_ns();
            let result = self.record(&job);
            let cpu_ns = children_cpu_ns();
            let own = &self.board.own.recordings;
            own.cpu_ns.store(cpu_ns, Relaxed);
            own.bytes.store(self.folder.trim(), Relaxed);
            let counter = match &result {
                Ok(_) => &own.kept,
                Err(Missed::Gone) => &own.gone,
                Err(Missed::Failed(_)) => &own.failed,
                Err(Missed::Ending) => return,
            };
            counter.fetch_add(1, Relaxed);
            self.say(result.as_ref().err());
            let cpu = Duration::from_nanos(cpu_ns.saturating_sub(before_ns));
            if done.send(Done { program: job.program, cpu, recorded: result.ok() }).is_err() {
                return;
            }
        }
    }

    /// Once an outage, not once a recording.
    fn say(&mut self, missed: Option<&Missed>) {
        match missed {
            Some(Missed::Failed(why)) if !self.is_out => {
                eprintln!("faultless: no recording: {why}; the next one is tried in its turn");
                self.is_out = true;
            }
            None if self.is_out => {
                eprintln!("faultless: recordings succeed again");
                self.is_out = false;
            }
            _ => {}
        }
    }

    fn record(&self, job: &Job) -> Result<Recorded, Missed> {
        let is_there = || procfs::running(job.pid, None).is_some_and(|found| found.began == job.began);
        if !is_there() {
            return Err(Missed::Gone);
        }
        let scratch = self.folder.scratch()?;
        let [trace, findings, profile] = ["trace", "findings", "profile"].map(|name| scratch.0.join(name));
        let (pid, span) = (job.pid.to_string(), format!("{}ms", t::RECORD_SPAN.as_millis()));
        let record = ["record", "-p", &pid, "--calls", "--for", &span, "--max-size", t::RECORD_SIZE];
        self.run(&record, &trace, None).map_err(|missed| match missed {
            Missed::Failed(_) if !is_there() => Missed::Gone,
            missed => missed,
        })?;
        self.run(&["report", "--json", "--by", "kind"], &findings, Some(&trace))?;
        let service = Identity::of(&job.program.0).service;
        let export = ["export", "--format", "parquet", "--service", &service, "--host", self.folder.host()];
        self.run(&export, self.folder.dir(), Some(&trace))?;
        let profile = match self.wants_profile {
            true => {
                self.run(&["export", "--format", "pprof"], &profile, Some(&trace))?;
                Some(fs::read(profile)?)
            }
            false => None,
        };
        let found = serde_json::from_slice(&fs::read(findings)?);
        let found = found.map_err(|error| {
            Missed::Failed(format!(
                "{error} in what `faultless report` says; install it and the agent together"
            ))
        })?;
        Ok((found, profile))
    }

    /// Runs `faultless` to its end.
    fn run(&self, words: &[&str], out: &Path, trace: Option<&Path>) -> Result<(), Missed> {
        let mut command = FAULTLESS.command();
        command.args(words).arg("-o").arg(out).args(trace).stdin(Stdio::null()).stdout(Stdio::null());
        let mut child = command.stderr(Stdio::piped()).spawn()?;
        // Where memory is short, it goes first.
        let _ = fs::write(format!("/proc/{}/oom_score_adj", child.id()), "1000");
        let ended = self.ended(&mut child);
        if ended.is_err() {
            let _ = child.kill().and_then(|()| child.wait());
        }
        let status = ended?;
        if status.success() {
            return Ok(());
        }
        let mut said = String::new();
        let _ = child.stderr.take().map(|mut stderr| stderr.read_to_string(&mut said));
        let last = said.lines().last().unwrap_or_default().trim_start_matches("faultless: ");
        let last = if last.is_empty() { status.to_string() } else { last.to_owned() };
        Err(Missed::Failed(format!("`faultless {}`: {last}", words[0])))
    }

    /// How it ended, within its time and before the agent.
    fn ended(&self, child: &mut Child) -> Result<ExitStatus, Missed> {
        /// Between two looks.
        const SLICE: Duration = Duration::from_millis(50);
        let begin = Instant::now();
        loop {
            if let Some(status) = child.try_wait()? {
                return Ok(status);
            }
            if self.is_ending.load(SeqCst) {
                return Err(Missed::Ending);
            }
            if begin.elapsed() > t::RECORD_MAX {
                return Err(Missed::Failed(format!("it took more than {} s", t::RECORD_MAX.as_secs())));
            }
            std::thread::sleep(SLICE);
        }
    }
}

impl From<std::io::Error> for Missed {
    fn from(error: std::io::Error) -> Self {
        Self::Failed(reason(&error))
    }
}

fn children_cpu_ns() -> u64 {
    rusage(Who::Children).unwrap_or_default().cpu_ns()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_that_is_gone_or_whose_number_is_used_again_is_not_recorded() {
        let dir = tempfile::tempdir().unwrap();
        let folder = Folder::open(dir.path(), 1).unwrap();
        let (board, is_ending) = (Arc::new(Board::new()), Arc::default());
        let worker = Worker { folder, wants_profile: false, board, is_ending, is_out: false };
        let own = procfs::running(std::process::id(), None).unwrap();
        for (pid, began) in [(u32::MAX, own.began), (std::process::id(), own.began - 1)] {
            let job = Job { program: ("/".into(), String::new()), pid, began };
            assert!(matches!(worker.record(&job), Err(Missed::Gone)), "{job:?}");
        }
    }
}
