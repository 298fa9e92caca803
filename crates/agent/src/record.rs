//! Recordings, in turn: of the program whose faults took most CPU time since its last one.
//!
//! In: each round. Out: what the last recording of each program found, Parquet files in the folder, and profiles for
//! [`Receivers`]. One recording at a time, by `faultless` as a child ([`worker`]): a crash or a large debug file costs the
//! agent nothing. The pause after one is so long that its CPU time stays within the budget.

mod folder;
mod worker;

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::mpsc::{Receiver, SyncSender, channel, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use faultless_console::Failure;
use faultless_prof::live::{Interval, Task};

use crate::args::Options;
use crate::board::Board;
use crate::count::Program;
use crate::found::{Found, Recorded};
use crate::members::Members;
use crate::push::Receivers;
use crate::tuning as t;
use worker::{Done, Job, Worker};

/// The recordings of a machine; without `--record` there are none.
pub(crate) struct Recorder {
    thread: Option<Thread>,
    top: usize,
    recorded: HashMap<Program, Recorded>,
    /// CPU time in faults since a program was recorded, ns.
    debts: HashMap<Program, f64>,
}

/// The thread that records.
struct Thread {
    jobs: SyncSender<Job>,
    done: Receiver<Done>,
    handle: JoinHandle<()>,
    is_busy: bool,
    /// When the next recording may begin.
    next: Instant,
    /// CPU time per time.
    budget: f64,
}

impl Recorder {
    /// Begins to record, if that is asked for.
    ///
    /// # Errors
    /// `faultless` is not installed, the folder can't be written, or no thread can be started.
    pub(crate) fn start(
        options: &Options,
        board: &Arc<Board>,
        is_ending: &Arc<AtomicBool>,
    ) -> Result<Self, Failure> {
        let thread = match Worker::of(options, board.clone(), is_ending.clone())? {
            Some(worker) => Some(Thread::start(worker, options.record_budget / 100.0)?),
            None => None,
        };
        let top = usize::from(options.top);
        Ok(Self { thread, top, recorded: HashMap::new(), debts: HashMap::new() })
    }

    /// Takes a round: collects what was recorded meanwhile, and begins the next recording if it is time.
    pub(crate) fn round(
        &mut self,
        interval: &Interval,
        members: &Members,
        receivers: &Receivers,
        time_ns: u64,
    ) {
        let Some(thread) = &mut self.thread else { return };
        for (program, found, profile) in thread.collect() {
            if let Some(profile) = profile {
                receivers.put_recording(&program, time_ns, profile);
            }
            self.recorded.insert(program, Recorded { time_ns, found, idle: 0 });
            let oldest = self.recorded.iter().min_by_key(|(_, recorded)| recorded.time_ns);
            if let Some((oldest, _)) = oldest.filter(|_| self.recorded.len() > self.top) {
                self.recorded.remove(&oldest.clone());
            }
        }
        let running = running(interval, members);
        self.recorded.retain(|program, recorded| {
            recorded.idle = if running.contains_key(program) { 0 } else { recorded.idle + 1 };
            recorded.idle < t::KEEP_ROUNDS
        });
        let length_ns = interval.end_ns.saturating_sub(interval.begin_ns) as f64;
        let next = next(&mut self.debts, &running, t::RECORD_FROM * length_ns);
        let Some((program, task)) = next.filter(|_| thread.is_free()) else { return };
        self.debts.insert(program.clone(), 0.0);
        thread.begin(Job { program, pid: task.pid, began: task.began });
    }

    /// The last recordings, by program.
    pub(crate) fn recorded(&self) -> &HashMap<Program, Recorded> {
        &self.recorded
    }

    /// Waits for the end of a recording, which has been asked to end.
    pub(crate) fn end(self) {
        if let Some(Thread { jobs, handle, .. }) = self.thread {
            drop(jobs);
            let _ = handle.join();
        }
    }
}

impl Thread {
    fn start(worker: Worker, budget: f64) -> Result<Self, Failure> {
        // One job at a time.
        let (jobs, taken) = sync_channel(1);
        let (send, done) = channel();
        let work = move || worker.work(&taken, &send);
        let handle = std::thread::Builder::new().name("record".into()).spawn(work)?;
        Ok(Self { jobs, done, handle, is_busy: false, next: Instant::now(), budget })
    }

    fn is_free(&self) -> bool {
        !self.is_busy && Instant::now() >= self.next
    }

    fn begin(&mut self, job: Job) {
        self.is_busy = self.jobs.try_send(job).is_ok();
    }

    /// What has been recorded since the last call, with profiles in pprof's format.
    fn collect(&mut self) -> Vec<(Program, Found, Option<Vec<u8>>)> {
        let mut all = Vec::new();
        for Done { program, cpu, recorded } in self.done.try_iter() {
            self.is_busy = false;
            self.next = Instant::now() + pause(cpu, self.budget);
            all.extend(recorded.map(|(found, profile)| (program, found, profile)));
        }
        all
    }
}

/// How long to rest after a recording that took so much CPU time.
fn pause(cpu: Duration, budget: f64) -> Duration {
    cpu.div_f64(budget)
}

/// What the programs of a round spent in faults, ns, and the process of each that spent most; `faultless` itself is left out.
fn running<'a>(interval: &'a Interval, members: &Members) -> HashMap<Program, (f64, &'a Task)> {
    let mut running: HashMap<Program, (f64, &Task)> = HashMap::new();
    // Those that record end a moment after a recording.
    for task in interval.processes.iter().filter(|task| task.name != worker::FAULTLESS.file) {
        let Some(path) = members.last(task.pid) else { continue };
        let (ns, most) = running.entry((path.clone(), task.name.clone())).or_insert((0.0, task));
        *ns += task.fault_ns;
        if task.fault_ns > most.fault_ns {
            *most = task;
        }
    }
    running
}

/// The program that has spent most since its last recording, of those that spend at least so much now, and its process.
/// So each costly one has its turn.
fn next<'a>(
    debts: &mut HashMap<Program, f64>,
    running: &HashMap<Program, (f64, &'a Task)>,
    least_ns: f64,
) -> Option<(Program, &'a Task)> {
    debts.retain(|program, _| running.contains_key(program));
    for (program, (ns, _)) in running {
        *debts.entry(program.clone()).or_default() += ns;
    }
    let costly = running.iter().filter(|(_, (ns, _))| *ns >= least_ns);
    let (program, (_, task)) = costly.max_by(|(a, _), (b, _)| debts[*a].total_cmp(&debts[*b]))?;
    Some((program.clone(), task))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_costly_program_has_its_turn_and_a_cheap_one_none() {
        let tasks =
            [(1, 9.0), (2, 4.0), (3, 0.5)].map(|(pid, fault_ns)| Task { pid, fault_ns, ..Task::default() });
        let running: HashMap<Program, (f64, &Task)> =
            tasks.iter().map(|task| (("/".into(), task.pid.to_string()), (task.fault_ns, task))).collect();
        let mut debts = HashMap::new();
        let mut turn = || {
            let (program, task) = next(&mut debts, &running, 1.0)?;
            debts.insert(program, 0.0);
            Some(task.pid)
        };
        let turns: Vec<_> = (0..6).filter_map(|_| turn()).collect();
        assert_eq!(turns, [1, 1, 2, 1, 1, 2], "two of 9 ns against one of 4, and never 0.5");
        assert!(next(&mut debts, &HashMap::new(), 1.0).is_none() && debts.is_empty(), "all have ended");
    }

    #[test]
    fn a_recording_is_followed_by_a_rest_within_the_budget() {
        assert_eq!(pause(Duration::from_millis(500), 0.005), Duration::from_secs(100));
    }
}
