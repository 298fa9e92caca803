//! The watched process: a child that was started for the run, or a process that already ran.
//!
//! In: a child or a process id. Out: its end, its exit status and its usage. The usage of a running process
//! counts from the attach. Its figures are read now and then, because at its end only its parent can ask. For
//! a process id also whether it can be watched, or a [`Failure`] that says which right is missing.
//!
//! It does not start a program or open events (`monitor`, `session`).

use std::os::fd::BorrowedFd;

use faultless_os::counters::Rusage;
use faultless_os::procfs::{self, Stat};
use faultless_os::spawn::{self, Child, Ending, ProcessHandle};
use faultless_trace::observation::{Exit, Map, Record, What};

use crate::request::Failure;
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

/// A process as it was when we attached.
#[derive(Debug)]
pub(crate) struct Attached {
    pub(crate) pid: u32,
    pub(crate) stat: Stat,
    /// Its command line; its name where it has none.
    pub(crate) command: Vec<String>,
    pub(crate) tids: Vec<i32>,
}

impl Attached {
    /// Looks at `pid`.
    pub(crate) fn find(pid: u32) -> Result<Self, Failure> {
        let stat = procfs::stat(pid).ok_or(Failure::NoProcess(pid))?;
        if stat.of_kernel {
            return Err(Failure::KernelThread(pid));
        }
        let tids: Vec<i32> = procfs::threads(pid).into_iter().map(|tid| tid as i32).collect();
        // A process that has ended stays in /proc until its parent waits for it.
        if tids.is_empty() || stat.has_ended() {
            return Err(Failure::NoProcess(pid));
        }
        let own_user = procfs::owner(std::process::id());
        if procfs::mappings(pid).is_none() {
            let other = procfs::owner(pid).filter(|&user| own_user != Some(user));
            return Err(Failure::NoRight(pid, other));
        }
        let command = procfs::command(pid).filter(|words| !words.is_empty());
        let command = command.or_else(|| Some(vec![procfs::name(pid, pid)?])).unwrap_or_default();
        Ok(Self { pid, stat, command, tids })
    }

    /// Its mappings and the names of its threads, as records with this time.
    pub(crate) fn records(&self, time_ns: u64) -> impl Iterator<Item = Record> {
        let pid = self.pid;
        let record = move |tid, what| Record { time_ns, pid, tid, what };
        let maps = procfs::mappings(pid).unwrap_or_default().into_iter().map(move |map| {
            let name = if map.name.is_empty() { "//anon".to_owned() } else { map.name };
            let (begin, len_bytes, file_offset) = (map.begin, map.len_bytes, map.file_offset);
            let map = Map { begin, len_bytes, prot: map.prot, flags: map.flags, name, file_offset };
            record(pid, What::Map(map))
        });
        let names = self
            .tids
            .iter()
            .filter_map(move |&tid| Some(record(tid as u32, What::Name(procfs::name(pid, tid as u32)?))));
        maps.chain(names)
    }
}
