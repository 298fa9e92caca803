//! A running system or program, sampled again and again.
//!
//! In: everything, a process with its descendants, or a command to start. Out: an [`Interval`] for each poll:
//! exact faults and CPU time by process and thread, what a fault costs, which code touches, and how much is
//! avoidable. If the kernel refuses a source, [`Live::notes`] says so.
//!
//! Faults come from `/proc`, which everyone may read. Sites come from sampled events: of all processes as
//! root, else of one's own program. The price comes from a calibration at start, and from bursts of event
//! pairs if those can be opened.
//!
//! It does not keep a history, sort, show (`cli`), or decide when to poll.

mod events;
mod memory;
mod names;
mod prices;
mod tasks;

use std::collections::HashMap;

use faultless_os::activity::Activity;
use faultless_os::counters::now_ns;
use faultless_os::procfs;
use faultless_os::spawn::{self, Child};
use faultless_trace::observation::{Exit, SourceNote};
use faultless_trace::stat::Point;

use crate::calibrate::Calibrator;
use crate::request::{Failure, Request, not_started};
use crate::session::{Watched, online_cpus};
use crate::shape::Shape;
use crate::subject::exit;
use crate::{facts, tuning as t};
use events::{Events, Hit, Hits};
use memory::Followed;
use names::{Location, Names};
use prices::Prices;
use tasks::{Change, Tasks};

/// What happened between two looks.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Interval {
    /// When it began, CLOCK_MONOTONIC in ns.
    pub begin_ns: u64,
    /// When it ended.
    pub end_ns: u64,
    /// Processors.
    pub cpus: u32,
    /// Faults of everything that is watched, including processes that began and ended in the interval.
    pub faults: u64,
    /// The major ones among them.
    pub major_faults: u64,
    /// CPU time of everything that is watched, ns.
    pub cpu_ns: u64,
    /// Time in faults, ns; each fault has the price of its process.
    pub fault_ns: f64,
    /// What a fault costs on average, ns.
    pub price_ns: f64,
    /// Timed faults behind that price; 0: the price is the calibration's.
    pub timed: usize,
    /// Processes, in no order.
    pub processes: Vec<Task>,
    /// Threads, only of the processes with most faults, in no order.
    pub threads: Vec<Task>,
    /// Code that touches, most first.
    pub sites: Vec<Site>,
    /// Samples that the rings lost.
    pub lost: u64,
    /// What was watched has ended; how, if it is a command of ours.
    pub ended: Option<Option<Exit>>,
}

/// A process or a thread in an interval.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Task {
    /// Process.
    pub pid: u32,
    /// Thread; in a list of processes, the process itself.
    pub tid: u32,
    /// Its name.
    pub name: String,
    /// When it began, in clock ticks since boot: tells it from a later one with the same number.
    pub began: u64,
    /// Minor and major faults.
    pub faults: u64,
    /// The major ones.
    pub major_faults: u64,
    /// CPU time, ns.
    pub cpu_ns: u64,
    /// Time in minor faults, ns.
    pub fault_ns: f64,
    /// Resident anonymous memory in bytes, if the process is followed.
    pub anon_bytes: Option<u64>,
    /// The share of faults that keeping freed pages would have avoided, if the process is followed.
    pub avoidable: Option<Point>,
}

/// A function of a process.
#[derive(Clone, Debug, PartialEq)]
pub struct Site {
    /// Process.
    pub pid: u32,
    /// The function that touches; `[kernel]` for a system call.
    pub function: String,
    /// The function that called it.
    pub caller: Option<String>,
    /// The file it is in.
    pub module: String,
    /// Faults, estimated from samples.
    pub faults: f64,
}

/// Whose threads to read. Reading all of them may take longer than a poll should.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Threads {
    /// Nobody's.
    No,
    /// Those of the processes with most faults.
    Busiest,
    /// Those of this process.
    Of(u32),
}

/// What to do beside counting while a machine is watched for long.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Long {
    /// Sites, from rare samples and with little time for names.
    pub samples: bool,
    /// Time every fault in the kernel, if that is allowed: 0.3 us each. Else short bursts are timed: 0.03 us each.
    pub every_fault: bool,
}

/// A system or a program that is being watched.
#[derive(Debug)]
pub struct Live {
    whole: bool,
    root: Option<u32>,
    /// Whether the busiest processes' memory is followed.
    follows: bool,
    /// Whether the kernel may time every fault.
    times_all: bool,
    /// It is a command of ours, which the events watch from its start.
    started: bool,
    child: Option<Child>,
    exit: Option<Exit>,
    cpus: Vec<u32>,
    events: Events,
    period: u64,
    prices: Prices,
    tasks: Tasks,
    followed: Vec<Followed>,
    names: Names,
    notes: Vec<SourceNote>,
    ticks: u64,
    tick_ns: u64,
    last: Totals,
}

/// Counters at the last poll.
#[derive(Clone, Copy, Debug, Default)]
struct Totals {
    time_ns: u64,
    /// Faults and major faults of the machine or the command, if these are counted.
    faults: Option<(u64, u64)>,
    activity: Option<Activity>,
}

const STACKS: &str = "stacks of faults";
const PAIRS: &str = "fault pairs";

impl Live {
    /// Watches all processes.
    pub fn of_system() -> Self {
        let mut live = Self::new(None, false);
        let cpus = live.cpus.clone();
        live.open(Watched::Machine(&cpus));
        live.begin()
    }

    /// Watches all processes for months: counts, times and prices, and nobody's memory.
    pub fn of_system_for_long(long: Long) -> Self {
        let period = if long.samples { t::LIVE_PERIOD_LONG } else { t::LIVE_PERIOD_NONE };
        let mut live = Self { follows: false, times_all: long.every_fault, period, ..Self::new(None, false) };
        live.names.budget_ns = t::LIVE_NAMES_LONG_NS;
        let cpus = live.cpus.clone();
        live.open(Watched::Machine(&cpus));
        live.begin()
    }

    /// Watches a running process and its descendants.
    ///
    /// # Errors
    /// There is no such process, or it is a kernel thread; the text says which.
    pub fn of_process(pid: u32) -> Result<Self, String> {
        let Some(found) = procfs::running(pid, None).filter(|_| procfs::living(pid).is_some()) else {
            return Err(format!(
                "process {pid}: there is none (any more); `faultless top` lists those that run"
            ));
        };
        if found.stat.of_kernel {
            return Err(format!(
                "process {pid}: {} is a thread of the kernel, which takes no page faults; name a program's process",
                found.name
            ));
        }
        let mut live = Self::new(Some(pid), false);
        live.open(Watched::Running(&live.threads(pid)));
        Ok(live.begin())
    }

    /// Starts a command and watches it.
    ///
    /// # Errors
    /// The command did not start.
    pub fn of_command(request: Request) -> Result<Self, Failure> {
        let (plan, words) = request.plan()?;
        let held = spawn::hold(&plan)?;
        let mut live = Self::new(Some(held.pid() as u32), true);
        live.open(Watched::Held(held.pid()));
        let live = live.begin();
        let child = held.release().map_err(|error| not_started(&words[0], error))?;
        Ok(Self { child: Some(child), ..live })
    }

    fn new(root: Option<u32>, started: bool) -> Self {
        Self {
            whole: root.is_none(),
            root,
            follows: true,
            times_all: true,
            started,
            child: None,
            exit: None,
            cpus: online_cpus(0),
            events: Events::default(),
            period: if root.is_none() { t::LIVE_PERIOD_SYSTEM } else { t::LIVE_PERIOD_PROGRAM },
            prices: Prices::default(),
            tasks: Tasks::new(root),
            followed: root.map(Followed::new).into_iter().collect(),
            names: Names::new(),
            notes: Vec::new(),
            ticks: 0,
            tick_ns: 0,
            last: Totals::default(),
        }
    }

    fn open(&mut self, watched: Watched<'_>) {
        self.events = Events::open(watched, self.period, self.times_all);
        let refusal = self.events.refusal();
        let note = refusal.as_ref().map(|why| match self.root.and_then(other_user) {
            Some(user) => format!("the process belongs to user {user}; run as that user or as root"),
            None => why.clone(),
        });
        self.notes = [STACKS, PAIRS]
            .map(|source| SourceNote {
                source: source.into(),
                used: refusal.is_none(),
                note: note.clone().unwrap_or_default(),
            })
            .into();
        // Without pairs, that is for the price before the first fault.
        let calibrator = Calibrator::begin(refusal.is_none().then(|| Shape::BARE.end(1)));
        let calibration = calibrator.and_then(|calibrator| calibrator.finish(u64::MAX)).unzip().0;
        self.prices = Prices::new(calibration.as_ref());
    }

    /// Those of a process, as many as can be watched.
    fn threads(&self, pid: u32) -> Vec<i32> {
        let most = (t::LIVE_THREADS_MAX / self.cpus.len()).max(1);
        procfs::threads(pid).into_iter().take(most).map(|tid| tid as i32).collect()
    }

    fn begin(mut self) -> Self {
        self.tasks.read();
        let pids: Vec<u32> = self.root.into_iter().collect();
        self.tasks.read_threads(&pids);
        // Samples from the calibration belong to no interval.
        self.events.take();
        self.last = self.totals();
        self.tick_ns = self.last.time_ns;
        self
    }

    /// What became of each source of data.
    pub fn notes(&self) -> &[SourceNote] {
        &self.notes
    }

    /// Why the kernel does not time every fault, if that was tried.
    pub fn no_bpf(&self) -> Option<&str> {
        self.events.no_bpf()
    }

    /// From now on each poll names all its sites, however long that takes. Meant for a single snapshot, not
    /// for a view that must stay responsive.
    pub fn name_all(&mut self) {
        self.names.budget_ns = u64::MAX;
    }

    /// Time until the next [`Live::tick`] is due, ns.
    pub fn pause_ns(&self) -> u64 {
        (self.tick_ns + t::LIVE_TICK_NS).saturating_sub(now_ns())
    }

    /// If due, empties the rings and reads the memory of followed processes. Every few ticks it also spends 5
    /// ms timing single faults.
    pub fn tick(&mut self) {
        if self.pause_ns() > 0 {
            return;
        }
        self.tick_ns = now_ns();
        self.ticks += 1;
        let has_pairs = self.events.refusal().is_none() && !self.events.times_all();
        let is_burst = self.ticks % t::LIVE_BURST_TICKS == 1 && has_pairs;
        let readings = if is_burst { self.events.burst() } else { self.events.drain() };
        self.prices.add(readings);
        for followed in &mut self.followed {
            followed.read(self.tick_ns);
        }
    }

    /// Focuses on one process: reads its threads from now on. If the whole system's stacks are denied, it
    /// opens this process's.
    pub fn focus(&mut self, pid: u32) {
        self.tasks.read_threads(&[pid]);
        if self.whole && self.notes.iter().any(|note| note.source == STACKS && !note.used) {
            self.period = t::LIVE_PERIOD_PROGRAM;
            self.events = Events::open(Watched::Running(&self.threads(pid)), self.period, self.times_all);
        }
    }

    /// What happened since the last poll.
    pub fn poll(&mut self, threads: Threads) -> Interval {
        // First: whatever is read after the end is complete.
        let ended = self.ended();
        let now = self.totals();
        let before = std::mem::replace(&mut self.last, now);
        let mut processes = self.tasks.read();
        // Watching takes faults too, which nobody asks for.
        let own = processes.iter().position(|change| self.is_own(change.pid));
        let own = own.map(|own| processes.remove(own)).unwrap_or_default();
        processes.sort_by_key(|change| std::cmp::Reverse(change.faults));
        let threaded: Vec<u32> = match threads {
            Threads::No => Vec::new(),
            Threads::Busiest => processes.iter().take(t::LIVE_THREADED).map(|change| change.pid).collect(),
            Threads::Of(pid) => vec![pid],
        };
        let threads = self.tasks.read_threads(&threaded);
        let (hits, lost) = self.events.take();
        if let Some(timed) = self.events.timed() {
            self.prices.measured(&timed);
        }
        self.names.begin_interval(|pid| self.tasks.runs(pid));
        let anonymous = self.anonymous_shares(&hits);
        let seconds = now.time_ns.saturating_sub(before.time_ns).max(1) as f64 / 1e9;
        self.follow(&processes, seconds);
        let of_all: u64 = processes.iter().map(|change| change.faults).sum();
        let majors: u64 = processes.iter().map(|change| change.major_faults).sum();
        let counted = now.faults.zip(before.faults).map(|(now, before)| {
            let since = |now: u64, before: u64, own: u64| now.saturating_sub(before).saturating_sub(own);
            (
                since(now.0, before.0, own.faults).max(of_all),
                since(now.1, before.1, own.major_faults).max(majors),
            )
        });
        let (faults, major_faults) = counted.unwrap_or((of_all, majors));
        let processes: Vec<Task> =
            processes.into_iter().map(|change| self.process(change, &anonymous)).collect();
        let known_ns: f64 = processes.iter().map(|task| task.fault_ns).sum();
        let busy = now.activity.zip(before.activity).filter(|_| self.whole);
        let cpu_ns = processes.iter().map(|task| task.cpu_ns).sum();
        Interval {
            begin_ns: before.time_ns,
            end_ns: now.time_ns,
            cpus: self.cpus.len() as u32,
            faults,
            major_faults,
            cpu_ns: busy
                .map_or(cpu_ns, |(now, before)| now.busy_ns_since(&before).saturating_sub(own.cpu_ns)),
            fault_ns: known_ns + (faults - of_all) as f64 * self.prices.of_all(),
            price_ns: self.prices.of_all(),
            timed: self.prices.timed(),
            threads: threads.into_iter().map(|change| self.task(change)).collect(),
            processes,
            sites: self.sites(hits),
            lost,
            ended,
        }
    }

    /// Whether `pid` is this process and only the whole machine was asked for.
    fn is_own(&self, pid: u32) -> bool {
        self.whole && pid == std::process::id()
    }

    /// How the command ended, if it has.
    pub fn exit(&self) -> Option<Exit> {
        self.exit
    }

    /// Whether the command has ended, or the process and its descendants had ended at the last poll.
    pub fn has_ended(&mut self) -> bool {
        self.ended().is_some()
    }

    fn totals(&self) -> Totals {
        let of_command = || self.events.faults().filter(|_| self.started).map(|faults| (faults, 0));
        Totals {
            time_ns: now_ns(),
            faults: if self.whole { machine_faults() } else { of_command() },
            activity: if self.whole { Activity::now() } else { None },
        }
    }

    /// Share of each process's sampled faults in anonymous memory.
    fn anonymous_shares(&mut self, hits: &HashMap<Hit, Hits>) -> HashMap<u32, f64> {
        let mut sums: HashMap<u32, (u64, u64)> = HashMap::new();
        for (hit, hits) in hits.iter().filter(|(hit, _)| self.followed.iter().any(|one| one.pid() == hit.pid))
        {
            let file = self.names.is_file(hit.pid, hits.addr);
            let (anonymous, all) = sums.entry(hit.pid).or_default();
            *anonymous += if file { 0 } else { hits.count };
            *all += hits.count;
        }
        sums.into_iter().map(|(pid, (anonymous, all))| (pid, anonymous as f64 / all.max(1) as f64)).collect()
    }

    /// Follows the memory of the busiest processes; the least busy make room. `processes` has the busiest
    /// first.
    fn follow(&mut self, processes: &[Change], seconds: f64) {
        if !self.follows {
            return;
        }
        self.followed.retain(|one| self.tasks.runs(one.pid()));
        let rank = |pid| processes.iter().position(|change| change.pid == pid).unwrap_or(usize::MAX);
        for change in processes.iter().take(t::LIVE_FOLLOWED) {
            let known = self.followed.iter().any(|one| one.pid() == change.pid);
            if known || (change.faults as f64) < t::LIVE_FOLLOW_FROM * seconds {
                continue;
            }
            if self.followed.len() >= t::LIVE_FOLLOWED {
                self.followed.sort_by_key(|one| rank(one.pid()));
                self.followed.truncate(t::LIVE_FOLLOWED - 1);
            }
            self.followed.push(Followed::new(change.pid));
        }
    }

    fn process(&self, change: Change, anonymous: &HashMap<u32, f64>) -> Task {
        let followed = self.followed.iter().find(|one| one.pid() == change.pid);
        let share = anonymous.get(&change.pid).copied();
        Task {
            anon_bytes: followed.and_then(Followed::anon_bytes),
            avoidable: followed.and_then(|one| one.avoidable(self.cpus.len() as u32, share)),
            ..self.task(change)
        }
    }

    fn task(&self, change: Change) -> Task {
        let minor = change.faults - change.major_faults.min(change.faults);
        Task {
            pid: change.pid,
            tid: change.tid,
            fault_ns: minor as f64 * self.prices.of(change.pid),
            name: change.name,
            began: change.began,
            faults: change.faults,
            major_faults: change.major_faults,
            cpu_ns: change.cpu_ns,
            anon_bytes: None,
            avoidable: None,
        }
    }

    fn sites(&mut self, hits: HashMap<Hit, Hits>) -> Vec<Site> {
        let mut hits: Vec<_> = hits
            .into_iter()
            .filter(|(hit, _)| !self.is_own(hit.pid) && (self.whole || self.tasks.runs(hit.pid)))
            .collect();
        hits.sort_by_key(|(hit, hits)| (std::cmp::Reverse(hits.count), hit.pid, hit.ip, hit.caller));
        hits.truncate(t::LIVE_SITES_MAX);
        let mut sums: HashMap<(u32, Location, Option<String>), f64> = HashMap::new();
        for (hit, hits) in hits {
            let kernel = || Location { function: "[kernel]".into(), module: "[kernel]".into() };
            let location = if hit.ip == 0 { kernel() } else { self.names.locate(hit.pid, hit.ip) };
            let caller = (hit.caller != 0).then(|| self.names.locate(hit.pid, hit.caller));
            // An address outside every mapping is junk that a function without a frame pointer left there.
            let caller = caller.filter(|caller| !caller.module.is_empty()).map(|caller| caller.function);
            *sums.entry((hit.pid, location, caller)).or_default() += (hits.count * self.period) as f64;
        }
        let site = |((pid, location, caller), faults): ((u32, Location, Option<String>), f64)| Site {
            pid,
            function: location.function,
            caller,
            module: location.module,
            faults,
        };
        let mut sites: Vec<Site> = sums.into_iter().map(site).collect();
        sites.sort_by(|a, b| b.faults.total_cmp(&a.faults).then_with(|| a.function.cmp(&b.function)));
        sites
    }

    fn ended(&mut self) -> Option<Option<Exit>> {
        if self.child.as_ref().is_some_and(|child| child.ended_within(0, std::iter::empty())) {
            let ending = self.child.take().and_then(|child| child.wait().ok());
            self.exit = ending.map(|(ending, _)| exit(ending));
        }
        let gone = self.child.is_none() && self.root.is_some_and(|_| self.tasks.pids().is_empty());
        (self.exit.is_some() || gone).then_some(self.exit)
    }
}

/// The owner of the process, if only that user and root may look into it.
fn other_user(pid: u32) -> Option<u32> {
    let own = procfs::owner(std::process::id()).filter(|&user| user != 0)?;
    procfs::owner(pid).filter(|&user| user != own)
}

/// Faults and major faults since the machine was started, from `/proc/vmstat`.
fn machine_faults() -> Option<(u64, u64)> {
    facts::vmstat(["pgfault", "pgmajfault"]).map(|[faults, major]| (faults, major))
}

#[cfg(test)]
mod tests;
