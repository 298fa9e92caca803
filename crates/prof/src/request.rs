//! What to run, how to watch it, and why that failed.
//!
//! In: the caller's words. Out: a plan to execute, or a [`Failure`] with the remedy.
//!
//! It does not start anything.

use std::ffi::OsString;
use std::fmt;
use std::os::fd::OwnedFd;
use std::time::Duration;

use faultless_os::spawn;

use crate::tuning as t;

/// What to run and how to watch it.
#[derive(Debug, Default)]
pub struct Request {
    /// The command and its arguments.
    pub command: Vec<OsString>,
    /// Variables added to or replaced in the environment.
    pub env: Vec<(OsString, OsString)>,
    /// Its stdin; `None`: ours.
    pub stdin: Option<OwnedFd>,
    /// Its stdout; `None`: ours.
    pub stdout: Option<OwnedFd>,
    /// Its stderr; `None`: ours.
    pub stderr: Option<OwnedFd>,
    /// What may be used.
    pub allow: Sources,
}

/// Running processes to watch, with their threads and future children.
#[derive(Debug, Default)]
pub struct Attach {
    /// At least one. A process that is named twice is watched once.
    pub pids: Vec<u32>,
    /// When to end. A request to end this process (SIGINT and the like) ends it as well.
    pub until: Until,
}

/// When to stop watching running processes.
#[derive(Debug, Default)]
pub enum Until {
    /// When all of them have ended.
    #[default]
    Ended,
    /// After this time, or when all of them have ended.
    Span(Duration),
    /// When this command has ended, which is started for that.
    Command(Request),
}

/// Sources of data that may be tried; by default all of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sources {
    /// Exact counts of perf events over the process tree.
    pub counters: bool,
    /// Recorded single faults; needs `counters`.
    pub pairs: bool,
    /// Kernel stacks from the CPU clock, given the rights.
    pub kernel: Kernel,
    /// The fault counter and resident memory over time.
    pub levels: bool,
    /// Every fault of running processes timed in the kernel by BPF, given the rights; needs `counters`. In place of pairs,
    /// which then only tell kinds.
    pub bpf: bool,
}

/// Whether kernel stacks are wanted. Their names cost about 50 ms of CPU once, after the program has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kernel {
    /// Not at all.
    No,
    /// If the program ran long enough for the cost not to matter.
    WhenCheap,
    /// At any cost.
    Always,
}

impl Kernel {
    /// Samples per second of the program's CPU time.
    pub(crate) fn hertz(self) -> u64 {
        match self {
            Self::No => 0,
            Self::WhenCheap => t::KERNEL_CHEAP_HERTZ,
            Self::Always => t::KERNEL_HERTZ,
        }
    }
}

impl Sources {
    /// Only `wait4`, which always works.
    pub const NONE: Self =
        Self { counters: false, pairs: false, kernel: Kernel::No, levels: false, bpf: false };
    /// Exact counts, and nothing that runs beside the program: for comparing runs.
    pub const COUNTERS: Self = Self { counters: true, ..Self::NONE };
}

impl Default for Sources {
    fn default() -> Self {
        Self { counters: true, pairs: true, kernel: Kernel::WhenCheap, levels: true, bpf: true }
    }
}

/// Why a program could not be observed. It never ran.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    /// The command has no words.
    Empty,
    /// A word or variable holds a NUL byte.
    Nul,
    /// There is no such command.
    NotFound(String),
    /// It is a file whose interpreter (`#!` line or dynamic loader) is missing.
    NoInterpreter(String),
    /// There is no right to execute it.
    NotExecutable(String),
    /// It is a folder.
    Folder(String),
    /// The kernel would not execute it for another reason.
    Exec(String, faultless_os::Error),
    /// There is no process of this number.
    NoProcess(u32),
    /// It is a kernel thread, which has no memory of its own.
    KernelThread(u32),
    /// There is no right to look into it: the process, and its user if that is another one.
    NoRight(u32, Option<u32>),
    /// No event could be opened on this process, and why.
    NotWatched(u32, String),
    /// No event could be opened on the whole machine, and why.
    MachineNotWatched(String),
    /// No single fault of a command can be recorded, and why. The command did not run.
    NotRecorded(String),
    /// More samples per second than the kernel allows; the kernel's limit.
    TooOften(u64),
    /// The kernel would not fork, or the child was reaped elsewhere.
    Os(faultless_os::Error),
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => f.write_str("no command given; write it after --"),
            Self::Nul => f.write_str("the command or its environment holds a NUL byte"),
            Self::NotFound(command) => {
                write!(f, "{command}: no such command; check the spelling, or PATH, or give its path")
            }
            Self::NoInterpreter(command) => {
                write!(
                    f,
                    "{command}: the file is there, but its interpreter or loader is not; see `file {command}`"
                )
            }
            Self::NotExecutable(command) => {
                write!(f, "{command}: no right to execute it; `chmod +x` it, or name its interpreter first")
            }
            Self::Folder(command) => write!(f, "{command}: a folder, not a program; name a program in it"),
            Self::Exec(command, error) => write!(f, "{command}: {error}"),
            Self::NoProcess(pid) => write!(f, "{pid}: no such process; `ps -e` lists those that run"),
            Self::KernelThread(pid) => {
                write!(f, "{pid}: a thread of the kernel takes no page faults; name a process of a program")
            }
            Self::NoRight(pid, Some(user)) => write!(
                f,
                "{pid}: no right to watch it: it belongs to user {user}; run as that user or as root"
            ),
            Self::NoRight(pid, None) => write!(
                f,
                "{pid}: no right to watch it: a set-user-ID program, or one that closed itself; run as root (in a container: with CAP_SYS_PTRACE)"
            ),
            Self::NotWatched(pid, why) => write!(f, "{pid}: {why}"),
            Self::MachineNotWatched(why) => write!(f, "the whole machine can't be watched: {why}"),
            Self::NotRecorded(why) => {
                write!(f, "single faults can't be recorded: {why}; `faultless stat` counts them without")
            }
            Self::TooOften(most) => write!(
                f,
                "more samples per second than the {most} that kernel.perf_event_max_sample_rate allows; ask for fewer, or raise it"
            ),
            Self::Os(error) if error.is_out_of_descriptors() => {
                write!(f, "cannot start the program: {error}; raise the limit, `ulimit -n`")
            }
            Self::Os(error) => write!(f, "cannot start the program: {error}"),
        }
    }
}

impl std::error::Error for Failure {}

impl From<faultless_os::Error> for Failure {
    fn from(error: faultless_os::Error) -> Self {
        Self::Os(error)
    }
}

impl Request {
    /// What to execute, and its words as text.
    pub(crate) fn plan(self) -> Result<(spawn::Plan, Vec<String>), Failure> {
        if self.command.first().is_none_or(|word| word.is_empty()) {
            return Err(Failure::Empty);
        }
        let plan = spawn::Plan::new(&self.command, &self.env).map_err(|_| Failure::Nul)?;
        let words = self.command.iter().map(|word| word.to_string_lossy().into_owned()).collect();
        Ok((plan.redirect([self.stdin, self.stdout, self.stderr]), words))
    }
}

/// A failed exec of `command` in the user's terms.
pub fn not_started(command: &str, error: faultless_os::Error) -> Failure {
    let command = command.to_owned();
    match std::io::Error::from(error).kind() {
        _ if error.call != "execve" => Failure::Os(error),
        std::io::ErrorKind::NotFound if command.contains('/') && std::path::Path::new(&command).exists() => {
            Failure::NoInterpreter(command)
        }
        std::io::ErrorKind::NotFound => Failure::NotFound(command),
        std::io::ErrorKind::PermissionDenied if std::path::Path::new(&command).is_dir() => {
            Failure::Folder(command)
        }
        std::io::ErrorKind::PermissionDenied => Failure::NotExecutable(command),
        _ => Failure::Exec(command, error),
    }
}
