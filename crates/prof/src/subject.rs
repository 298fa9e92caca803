//! Whom a run watches: a child that was started for it, or processes that already ran.
//!
//! In: a child or process ids. Out: the end, the exit status and the usage. The usage of a running process
//! counts from the attach. Its figures are read now and then, because at its end only its parent can ask. For
//! a process id also whether it can be watched, or a [`Failure`] that says which right is missing.
//!
//! It does not start a program or open events (`monitor`, `session`).

use std::iter;
use std::os::fd::BorrowedFd;

use faultless_os::activity::Activity;
use faultless_os::counters::{Rusage, now_ns};
use faultless_os::procfs::{self, Stat};
use faultless_os::spawn::{self, Child, Ending, ProcessHandle};
use faultless_trace::observation::{Exit, Map, Record, SourceNote, What};

use crate::facts;
use crate::heaps;
use crate::request::{Attach, Failure, Sources, Until, not_started};
use crate::session::{Attempt, Session, Watched, online_cpus};
use crate::shape::Shape;
use crate::tuning as t;

/// Whom a run watches.
#[derive(Debug)]
pub(crate) enum Subject {
    /// Started by us.
    Child(Child),
    /// Attached to.
    Running(Running),
    /// All processes. The process that is waited for is this one, which goes on.
    Machine(Running, Before),
}

/// The machine's counters at the begin.
#[derive(Debug)]
pub(crate) struct Before {
    faults: Option<[u64; 2]>,
    activity: Option<Activity>,
    /// What was used from then to the end.
    used: Option<Rusage>,
}

impl Before {
    fn now() -> Self {
        Self { faults: facts::vmstat(["pgfault", "pgmajfault"]), activity: Activity::now(), used: None }
    }

    /// What all processes used since. Peak memory is not known.
    fn used(&self) -> Rusage {
        let now = Self::now();
        let since =
            |index: usize| now.faults.zip(self.faults).map_or(0, |(now, then)| now[index] - then[index]);
        let times = now.activity.zip(self.activity).map(|(now, then)| now.times_since(&then));
        let (user_ns, system_ns) = times.unwrap_or_default();
        let major_faults = since(1);
        let minor_faults = since(0).saturating_sub(major_faults);
        Rusage { user_ns, system_ns, minor_faults, major_faults, peak_rss_bytes: 0 }
    }
}

/// Processes that ran before.
#[derive(Debug)]
pub(crate) struct Running {
    processes: Vec<Process>,
    /// So many of them, from the first on, have ended.
    ended: usize,
    end: End,
    next_ns: u64,
}

/// When watching ends, unless we are asked to end before.
#[derive(Debug)]
enum End {
    /// With the last process.
    Last,
    /// At this time, or with the last process.
    At(u64),
    /// With a command that was started beside them.
    With(Child),
}

impl End {
    fn exit(self) -> faultless_os::Result<Exit> {
        match self {
            Self::With(command) => Ok(exit(command.wait()?.0)),
            Self::Last | Self::At(_) => Ok(Exit::Unknown),
        }
    }
}

#[derive(Debug)]
struct Process {
    handle: ProcessHandle,
    begin: Stat,
    last: Stat,
    peak_rss_bytes: u64,
}

impl Process {
    fn read(&mut self) {
        let pid = self.handle.pid() as u32;
        self.last = procfs::stat(pid).unwrap_or(self.last);
        // An exec begins a new peak.
        self.peak_rss_bytes = self.peak_rss_bytes.max(procfs::peak_rss_bytes(pid).unwrap_or(0));
    }

    fn used(&self) -> Rusage {
        Rusage { peak_rss_bytes: self.peak_rss_bytes, ..self.last.usage().since(self.begin.usage()) }
    }
}

impl Running {
    /// `attached`, from `begin_ns` on. Starts the command that says when to end.
    pub(crate) fn begin(attached: &[Attached], until: Until, begin_ns: u64) -> Result<Self, Failure> {
        let end = match until {
            Until::Ended => End::Last,
            Until::Span(span) => End::At(begin_ns.saturating_add(span.as_nanos() as u64)),
            Until::Command(request) => {
                let (plan, words) = request.plan()?;
                End::With(spawn::hold(&plan)?.release().map_err(|error| not_started(&words[0], error))?)
            }
        };
        let processes = attached.iter().map(|attached| {
            // Opening the events has taken its time.
            let begin = procfs::stat(attached.pid).unwrap_or(attached.stat);
            let handle = ProcessHandle::of(attached.pid as i32);
            Process { handle, begin, last: begin, peak_rss_bytes: 0 }
        });
        Ok(Self { processes: processes.collect(), ended: 0, end, next_ns: 0 })
    }

    fn ended_within<'a>(&mut self, timeout_ns: u64, others: impl Iterator<Item = BorrowedFd<'a>>) -> bool {
        let left_ns = match &self.end {
            // A signal that asks us to end goes to the command as well.
            End::With(command) => return command.ended_within(timeout_ns, others),
            End::At(end_ns) => end_ns.saturating_sub(now_ns()),
            End::Last => u64::MAX,
        };
        if let Some(first) = self.processes.get(self.ended) {
            first.handle.ended_within(timeout_ns.min(left_ns), others);
        }
        let left = &self.processes[self.ended..];
        self.ended += left.iter().take_while(|process| process.handle.ended_within(0, iter::empty())).count();
        self.ended == self.processes.len() || left_ns == 0 || spawn::asked_to_end()
    }
}

impl Subject {
    /// Process ids.
    pub(crate) fn pids(&self) -> Vec<u32> {
        match self {
            Self::Child(child) => vec![child.pid() as u32],
            Self::Running(running) => {
                running.processes.iter().map(|process| process.handle.pid() as u32).collect()
            }
            Self::Machine(..) => Vec::new(),
        }
    }

    /// As [`ProcessHandle::ended_within`]. For running processes, the end of the time and a request to end this
    /// recorder also count.
    pub(crate) fn ended_within<'a>(
        &mut self,
        timeout_ns: u64,
        others: impl Iterator<Item = BorrowedFd<'a>>,
    ) -> bool {
        match self {
            Self::Child(child) => child.ended_within(timeout_ns, others),
            Self::Running(running) | Self::Machine(running, _) => running.ended_within(timeout_ns, others),
        }
    }

    /// Reads its figures if due.
    pub(crate) fn read_usage(&mut self, now_ns: u64) {
        if let Self::Running(running) = self
            && now_ns >= running.next_ns
        {
            running.next_ns = now_ns + t::SELDOM_NS;
            running.processes.iter_mut().for_each(Process::read);
        }
    }

    /// Faults of a child before its exec.
    pub(crate) fn before_exec_faults(&self) -> u64 {
        if let Self::Child(child) = self { child.before_exec_faults() } else { 0 }
    }

    /// Reads the figures of what ran before for the last time: nothing is watched any more.
    pub(crate) fn stop(&mut self) {
        match self {
            Self::Child(_) => {}
            Self::Running(running) => running.processes.iter_mut().for_each(Process::read),
            Self::Machine(_, before) => before.used = Some(before.used()),
        }
    }

    /// How it ended and what it used. Call [`Subject::stop`] before.
    ///
    /// # Errors
    /// Somebody else has reaped our child.
    pub(crate) fn finish(self) -> faultless_os::Result<(Exit, Rusage)> {
        match self {
            Self::Child(child) => {
                let (ending, usage) = child.wait()?;
                Ok((exit(ending), usage))
            }
            Self::Running(running) => {
                let used = running.processes.iter().map(Process::used).reduce(Rusage::plus);
                Ok((running.end.exit()?, used.unwrap_or_default()))
            }
            Self::Machine(running, before) => {
                let used = before.used.unwrap_or_else(|| before.used());
                Ok((running.end.exit()?, used))
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
    /// Whether its mappings can be read. perf_event_open(2) may be allowed without: CAP_PERFMON is enough for it.
    shows_maps: bool,
}

/// Opens a session on running processes and begins it, if that sees enough. Out: the processes as they were, the
/// session, the subject and the time.
pub(crate) fn attach(
    attach: Attach,
    allow: Sources,
    shape: &Shape,
    is_enough: impl Fn(&Session) -> bool,
) -> Result<(Vec<Attached>, Session, Subject, u64), Failure> {
    let mut pids = attach.pids;
    pids.sort_unstable();
    pids.dedup();
    // Before the processes are looked at: it takes some ten milliseconds.
    let attempt = Attempt::make(allow);
    let (attached, gone) = find_all(&pids)?;
    let first = *pids.first().ok_or(Failure::Empty)?;
    spawn::remember_requests_to_end();
    let tids: Vec<i32> = attached.iter().flat_map(|attached| attached.tids.iter().copied()).collect();
    let found: Vec<u32> = attached.iter().map(|attached| attached.pid).collect();
    // Processes that are attached to one by one share no events, so each switch between two stops a timer and starts
    // another: 2 us (measured).
    let of_threads = || {
        let shape = Shape { cpu_hertz: shape.cpu_hertz.or(Some(0)), ..*shape };
        Session::open(Watched::Running(&tids), allow, &shape)
    };
    let mut session = Session::timed_or(attempt, Some(&found), allow, shape, of_threads);
    for pid in gone {
        session.note(&format!("process {pid}"), false, "it had ended before it could be watched");
    }
    let hidden: Vec<u32> =
        attached.iter().filter(|process| !process.shows_maps).map(|process| process.pid).collect();
    if !is_enough(&session) {
        let refused = hidden.first().map(|&pid| no_right(pid));
        return Err(refused.unwrap_or_else(|| Failure::NotWatched(first, session.denied())));
    }
    if !hidden.is_empty() {
        session.note(SourceNote::MAPPINGS, false, &no_mappings(&hidden));
    }
    let begin_ns = now_ns();
    let running = Running::begin(&attached, attach.until, begin_ns)?;
    session.begin();
    Ok((attached, session, Subject::Running(running), begin_ns))
}

/// There is no right to watch it, and whose it is.
fn no_right(pid: u32) -> Failure {
    let own_user = procfs::owner(std::process::id());
    Failure::NoRight(pid, procfs::owner(pid).filter(|&user| own_user != Some(user)))
}

/// What is not known of processes whose mappings can't be read.
fn no_mappings(pids: &[u32]) -> String {
    let pids: Vec<String> = pids.iter().map(u32::to_string).collect();
    format!(
        "no right to read /proc/{}/maps: faults in memory that was mapped before have no kind, and code has no \
         names; CAP_SYS_PTRACE shows them",
        pids.join(",")
    )
}

/// Looks at all of them. One of several may have ended since somebody listed them, as a server's workers do; these are
/// returned too.
fn find_all(pids: &[u32]) -> Result<(Vec<Attached>, Vec<u32>), Failure> {
    let (mut found, mut gone) = (Vec::new(), Vec::new());
    for &pid in pids {
        match Attached::find(pid) {
            Ok(attached) => found.push(attached),
            Err(Failure::NoProcess(_)) if pids.len() > 1 => gone.push(pid),
            Err(failure) => return Err(failure),
        }
    }
    match (found.is_empty(), gone.first()) {
        (true, Some(&pid)) => Err(Failure::NoProcess(pid)),
        _ => Ok((found, gone)),
    }
}

/// Opens a session on all processes and begins it. Out: the session and the time.
pub(crate) fn machine(
    until: Until,
    allow: Sources,
    shape: &Shape,
) -> Result<(Session, Subject, u64), Failure> {
    spawn::remember_requests_to_end();
    let cpus = online_cpus(0);
    let of_processors = || Session::open(Watched::Machine(&cpus), allow, shape);
    let session = Session::timed_or(Attempt::make(allow), None, allow, shape, of_processors);
    if !session.counts_faults() {
        let needs = "it needs root, CAP_PERFMON, or kernel.perf_event_paranoid at 0 or below";
        let is_user = faultless_os::host::user().0 != 0;
        return Err(Failure::MachineNotWatched(if is_user { needs.into() } else { session.denied() }));
    }
    let begin_ns = now_ns();
    let own = Attached::find(std::process::id())?;
    let running = Running::begin(&[own], until, begin_ns)?;
    let before = Before::now();
    session.begin();
    Ok((session, Subject::Machine(running, before), begin_ns))
}

/// The command of one process; names and numbers of several.
pub(crate) fn command(attached: &[Attached]) -> Vec<String> {
    match attached {
        [one] => one.command.clone(),
        several => several.iter().map(|process| format!("{}[{}]", process.name(), process.pid)).collect(),
    }
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
        if procfs::living(pid).is_none() {
            return Err(Failure::NoProcess(pid));
        }
        let command = procfs::command(pid).filter(|words| !words.is_empty());
        let command = command.or_else(|| Some(vec![procfs::name(pid, pid)?])).unwrap_or_default();
        Ok(Self { pid, stat, command, tids, shows_maps: procfs::mappings(pid).is_some() })
    }

    fn name(&self) -> String {
        procfs::name(self.pid, self.pid).unwrap_or_default()
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
        let settings = Some(heaps::of_process(pid)).filter(|settings| !settings.is_empty());
        maps.chain(names).chain(settings.map(|settings| record(pid, What::Settings(settings))))
    }
}
