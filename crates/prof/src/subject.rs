//! Whom a run is about: a child that was started for it, or a process that ran before.
//!
//! In: either. Out: when it ends, how, and what it used. Of a running process only what it used since: its figures are read
//! now and then, for when it ends nobody but its parent can ask.
//!
//! What it does not do: start or attach (`watch`, `attach`).

use std::os::fd::BorrowedFd;

use faultless_os::counters::Rusage;
use faultless_os::procfs::{self, Stat};
use faultless_os::spawn::{self, Child, Ending, Life};
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
    life: Life,
    begin: Stat,
    last: Stat,
    next_ns: u64,
}

impl Running {
    /// `pid`, which was like `begin` when the watch began.
    pub(crate) fn new(pid: u32, begin: Stat) -> Self {
        Self { life: Life::of(pid as i32), begin, last: begin, next_ns: 0 }
    }

    fn read(&mut self) {
        self.last = procfs::stat(self.life.pid() as u32).unwrap_or(self.last);
    }

    fn used(&self) -> Rusage {
        let (begin, last) = (&self.begin, &self.last);
        let minor = |stat: &Stat| stat.minor_faults + stat.children_minor_faults;
        let major = |stat: &Stat| stat.major_faults + stat.children_major_faults;
        Rusage {
            user_ns: last.user_ns.saturating_sub(begin.user_ns),
            system_ns: last.system_ns.saturating_sub(begin.system_ns),
            minor_faults: minor(last).saturating_sub(minor(begin)),
            major_faults: major(last).saturating_sub(major(begin)),
            peak_rss_bytes: 0,
        }
    }
}

impl Subject {
    /// Its process id.
    pub(crate) fn pid(&self) -> u32 {
        match self {
            Self::Child(child) => child.pid() as u32,
            Self::Running(running) => running.life.pid() as u32,
        }
    }

    /// As [`Life::ended_within`]; a running process is also over when somebody asks us to end.
    pub(crate) fn ended_within<'a>(
        &self,
        timeout_ns: u64,
        others: impl Iterator<Item = BorrowedFd<'a>>,
    ) -> bool {
        match self {
            Self::Child(child) => child.ended_within(timeout_ns, others),
            Self::Running(running) => running.life.ended_within(timeout_ns, others) || spawn::asked_to_end(),
        }
    }

    /// Reads its figures if it is time to.
    pub(crate) fn look(&mut self, now_ns: u64) {
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

/// How a child ended, as it is written down.
pub(crate) fn exit(ending: Ending) -> Exit {
    match ending {
        Ending::Status(status) => Exit::Status(status),
        Ending::Signal(signal) => Exit::Signal(signal),
    }
}
