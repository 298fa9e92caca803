//! The watched process: a child that was started for the run, or a process that already ran.
//!
//! In: either. Out: its end, its exit status and its usage. The usage of a running process counts from the
//! attach. Its figures are read now and then, because at its end only its parent can ask.
//!
//! It does not start or attach (`monitor`, `attach`).

use std::os::fd::BorrowedFd;

use faultless_os::counters::Rusage;
use faultless_os::procfs::{self, Stat};
use faultless_os::spawn::{self, Child, Ending, ProcessHandle};
use faultless_trace::observation::Exit;

use crate::tuning as t;

/// The watched process.
#[derive(Debug)]
pub(crate) enum Subject {
    /// Started by us.
    Child(Child),
    /// Attached to.
    Running(Running),
}

/// A process that ran before.
#[derive(Debug)]
pub(crate) struct Running {
    process: ProcessHandle,
    begin: Stat,
    last: Stat,
    next_ns: u64,
}

impl Running {
    /// `pid`, with its figures when the recording began.
    pub(crate) fn new(pid: u32, begin: Stat) -> Self {
        Self { process: ProcessHandle::of(pid as i32), begin, last: begin, next_ns: 0 }
    }

    fn read(&mut self) {
        self.last = procfs::stat(self.process.pid() as u32).unwrap_or(self.last);
    }

    fn used(&self) -> Rusage {
        self.last.usage().since(self.begin.usage())
    }
}

impl Subject {
    /// Its process id.
    pub(crate) fn pid(&self) -> u32 {
        match self {
            Self::Child(child) => child.pid() as u32,
            Self::Running(running) => running.process.pid() as u32,
        }
    }

    /// As [`ProcessHandle::ended_within`]. For a running process, a request to end this recorder also counts.
    pub(crate) fn ended_within<'a>(
        &self,
        timeout_ns: u64,
        others: impl Iterator<Item = BorrowedFd<'a>>,
    ) -> bool {
        match self {
            Self::Child(child) => child.ended_within(timeout_ns, others),
            Self::Running(running) => {
                running.process.ended_within(timeout_ns, others) || spawn::asked_to_end()
            }
        }
    }

    /// Reads its figures if due.
    pub(crate) fn read_usage(&mut self, now_ns: u64) {
        if let Self::Running(running) = self
            && now_ns >= running.next_ns
        {
            running.next_ns = now_ns + t::USAGE_NS;
            running.read();
        }
    }

    /// Faults of a child before its exec.
    pub(crate) fn before_exec_faults(&self) -> u64 {
        if let Self::Child(child) = self { child.before_exec_faults() } else { 0 }
    }

    /// How it ended and what it used.
    ///
    /// # Errors
    /// Somebody else has reaped our child.
    pub(crate) fn finish(self) -> faultless_os::Result<(Exit, Rusage)> {
        match self {
            Self::Child(child) => {
                let (ending, usage) = child.wait()?;
                Ok((exit(ending), usage))
            }
            Self::Running(mut running) => {
                running.read();
                Ok((Exit::Unknown, running.used()))
            }
        }
    }
}

/// How a child ended, in the terms of an observation.
pub(crate) fn exit(ending: Ending) -> Exit {
    match ending {
        Ending::Status(status) => Exit::Status(status),
        Ending::Signal(signal) => Exit::Signal(signal),
    }
}
