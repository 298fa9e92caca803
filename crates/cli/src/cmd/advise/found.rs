//! What a recording tells `advise`: the mechanisms, and the programs that ran.
//!
//! In: a run of the command, running processes, or a trace file. Out: [`Found`].

use std::ffi::OsString;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

use faultless_console::Failure;
use faultless_prof::{Attach, Options, Sources, Task};
use faultless_trace::findings::{Findings, Wanted};
use faultless_trace::heaps::Heap;
use faultless_trace::measurement::Nanos;
use faultless_trace::observation::{Exit, Host};
use faultless_trace::program::{Image, has_no_huge_pages, images};
use faultless_trace::recording::Recording;
use faultless_trace::why::{Mechanism, TRIED_FROM};

use super::super::record::{names_folder, record};
use super::super::rounds::{Engine, Job, Stop, recorded};

/// CPU time, ns, below which a run is mostly the start of its program, which no cure changes.
const SHORT_NS: u64 = 10_000_000;
/// Runs of an arm: the warm-up, and five rounds.
const ARM_RUNS: u64 = 6;
/// Runs of the baseline and two cures: two of one and one of each other in the warm-up, and three rounds.
const FEWEST_RUNS: u32 = 13;
/// The mechanism that a second run does not have.
const COLD: &str = "cold_guest_memory";
/// A program with fewer faults than this share of the one with most is none to cure.
const WEIGHTY_SHARE: f64 = 0.1;

/// What a recording tells.
pub(super) struct Found {
    pub(super) command: Vec<String>,
    pub(super) host: Host,
    /// The mechanisms behind the faults.
    pub(super) mechanisms: Vec<Mechanism>,
    /// The allocators and runtimes.
    pub(super) heaps: Vec<Heap>,
    /// Whether it tells who gives memory back.
    pub(super) is_whole: bool,
    /// The programs with most of the faults; none if they could not be seen.
    pub(super) images: Vec<Image>,
    /// It has switched huge pages off for itself.
    pub(super) no_huge_pages: bool,
    /// Largest resident set of a process, bytes.
    pub(super) peak_bytes: u64,
    pub(super) exit: Exit,
    pub(super) cpu_ns: u64,
    wall_ns: u64,
}

impl Found {
    /// One run of the command, and one more if the host of this virtual machine backed its memory only then; `None` if it
    /// can't be recorded. The runs will say so, if it is not only the recording that fails.
    /// Of one that runs for longer than `patience`, the user is told what else can be asked.
    pub(super) fn of_run(
        engine: &Engine,
        command: &[OsString],
        patience: Duration,
    ) -> Result<Option<Self>, Stop> {
        let (ended, waiting) = channel::<()>();
        let bar = engine.bar.clone();
        std::thread::spawn(move || {
            if waiting.recv_timeout(patience) == Err(RecvTimeoutError::Timeout) {
                bar.suspend(|| {
                    eprintln!(
                        "faultless: the first run takes longer than --time; of a program that never ends, \
                         advise -p PID names the cures"
                    );
                });
            }
        });
        let first = Self::of_one_run(engine, command)?;
        drop(ended);
        match first.as_ref().is_some_and(Self::is_cold) {
            true => Self::of_one_run(engine, command),
            false => Ok(first),
        }
    }

    fn is_cold(&self) -> bool {
        self.mechanisms.iter().any(|mechanism| mechanism.id == COLD)
    }

    fn of_one_run(engine: &Engine, command: &[OsString]) -> Result<Option<Self>, Stop> {
        let job = Job { command, environment: &[], allow: Sources::default() };
        match engine.record(job, &options()) {
            Ok(ran) => Ok(Self::new(&ran.seen, ran.exit).ok()),
            Err(Stop::Failed(_) | Stop::NotStarted(_)) => Ok(None),
            Err(stop) => Err(stop),
        }
    }

    /// Running processes.
    pub(super) fn of_processes(attach: Attach) -> Result<Self, Stop> {
        let (exit, recording) = recorded(|out| record(Task::Running(attach), &options(), out))?;
        Ok(Self::new(&recording, exit)?)
    }

    pub(super) fn new(recording: &Recording, exit: Exit) -> Result<Self, Failure> {
        let findings = Findings::new(recording, &Wanted::default()).map_err(Failure)?;
        let mut images = images(&recording.observation);
        let most = images.iter().map(|image| image.faults).max().unwrap_or(0);
        images.retain(|image| image.faults as f64 >= WEIGHTY_SHARE * most as f64);
        let usage = &recording.observation.usage;
        Ok(Self {
            command: findings.command,
            host: findings.host,
            mechanisms: findings.mechanisms,
            heaps: findings.heaps,
            is_whole: findings.giving_ns.is_some(),
            images,
            no_huge_pages: has_no_huge_pages(&recording.observation),
            peak_bytes: usage.peak_rss_bytes,
            exit,
            cpu_ns: findings.cpu_ns,
            wall_ns: usage.wall_ns,
        })
    }

    /// How many arms have a warm-up and the fewest rounds within this time; the baseline and two cures at least.
    pub(super) fn arms_within(&self, time: Duration) -> usize {
        let arms = time.as_nanos() / u128::from(self.wall_ns.max(1) * ARM_RUNS);
        usize::try_from(arms).unwrap_or(usize::MAX).max(3)
    }

    /// The time in which so many arms are tried.
    pub(super) fn time_of(&self, arms: usize) -> Duration {
        Duration::from_nanos(self.wall_ns * (1 + ARM_RUNS * arms as u64))
    }

    /// What to say of a run that is too long for this time.
    pub(super) fn too_long(&self, time: Duration) -> Option<String> {
        let fewest = Duration::from_nanos(self.wall_ns) * FEWEST_RUNS;
        let (run, all) = (Nanos(self.wall_ns as f64), Nanos(fewest.as_nanos() as f64));
        (fewest > time).then(|| {
            format!("a run takes {run}, so the fewest rounds, three beside two cures, take about {all}")
        })
    }

    /// What to say of a run that is too short.
    pub(super) fn too_short(&self) -> Option<String> {
        let cpu = Nanos(self.cpu_ns as f64);
        let why =
            format!("a run takes {cpu} of CPU time, most of it to start the program; give it more work");
        (self.cpu_ns < SHORT_NS).then_some(why)
    }

    /// The mechanisms that are worth an arm; `None` if who gives memory back is not known: then any may be.
    pub(super) fn worth_an_arm(&self) -> Option<Vec<&Mechanism>> {
        let is_worth = |one: &&Mechanism| {
            !one.is_over() && one.share.max(one.wait_ns / self.wall_ns.max(1) as f64) >= TRIED_FROM
        };
        if self.cpu_ns < SHORT_NS {
            return Some(Vec::new());
        }
        self.is_whole.then(|| self.mechanisms.iter().filter(is_worth).collect())
    }
}

fn options() -> Options {
    Options { names: names_folder(), calls: true, ..Options::default() }
}
