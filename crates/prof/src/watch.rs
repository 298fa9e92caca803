//! One run from start to end: the loop that reads while the program runs.
//!
//! In: a plan and what may be used. Out: an [`Observation`]. One thread, which sleeps until the program ends or the next
//! reading is due; how often it reads follows from what a reading costs and whether anything happens.
//!
//! What it does not do: decide when single faults are recorded (`duty`), or what a record means (`trace`).

use std::time::Duration;

use faultless_os::counters::{now_ns, process_cpu_ns};
use faultless_os::schedule::Turns;
use faultless_os::spawn;
use faultless_trace::file::Line;
use faultless_trace::measurement::Count;
use faultless_trace::observation::{
    Counts, EventLoss, Exit, KernelSamples, Level, Observation, Record, SourceNote, Usage, Window,
};

use crate::drain::{Beside, Drain, Task};
use crate::duty::{Budget, Duty};
use crate::kernel::Stacks;
use crate::levels::Levels;
use crate::orphans::{self, Orphans};
use crate::pace::Pace;
use crate::session::{Ahead, KERNEL, Lane, PAIRS, Session, Shape, Watched};
use crate::subject::Subject;
use crate::windows::Windows;
use crate::{Failure, Kernel, Sources, calibrate, not_started, tuning as t, writing};

/// Runs `plan` to its end. `command` is its first word, for errors.
pub(crate) fn run(plan: &spawn::Plan, allow: Sources, command: &str) -> Result<Observation, Failure> {
    let end = (allow.pairs && allow.counters).then_some(Shape::BARE.end(1));
    let calibrated = if allow == Sources::COUNTERS { None } else { calibrate::run(end) };
    let calibration = calibrated.map(|(found, _)| found);
    // Without it orphans go to the next subreaper or init, and their usage is lost: a note less, no failure.
    let _ = spawn::adopt_orphans();
    let held = spawn::hold(plan)?;
    let fault_ns = calibration.map_or(t::FAULT_DEFAULT_NS, |found| found.truth_p50_ns);
    let session = Session::open(Watched::Held(held.pid()), allow, &Shape::BARE.sampled(fault_ns));
    let begin_ns = now_ns();
    let child = held.release().map_err(|error| not_started(command, error))?;
    let cost_ns = calibration.map_or(t::RECORD_COST_DEFAULT_NS, |found| found.record_cost_ns);
    let cost_ns = cost_ns.max(t::RECORD_COST_DEFAULT_NS / 4.0);
    let manner = Manner { allow, begin_ns, cost_ns, every_fault: false, stacks: None };
    let mut watch = Watch::new(session, child.pid() as u32, manner);
    while !child.ended_within(watch.pause_ns(), watch.wakers()) {
        watch.look();
    }
    let ended = watch.finish(Subject::Child(child))?;
    Ok(Observation {
        exit: ended.exit,
        usage: ended.usage,
        counts: ended.counts,
        calibration: calibrated.map(|(found, written)| writing::in_run(found, written, &ended.drain.writing)),
        windows: ended.windows,
        records: ended.drain.finish(),
        levels: ended.levels,
        kernel: ended.kernel,
        event_losses: ended.event_losses,
        sources: ended.sources,
        ..Observation::default()
    })
}

/// How a run is watched.
#[derive(Debug)]
pub(crate) struct Manner {
    pub(crate) allow: Sources,
    /// When it began.
    pub(crate) begin_ns: u64,
    /// What one recorded fault costs the program.
    pub(crate) cost_ns: f64,
    /// Recording never pauses.
    pub(crate) every_fault: bool,
    /// Samples hold stacks.
    pub(crate) stacks: Option<Beside>,
}

/// What is left at the end.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) exit: Exit,
    pub(crate) usage: Usage,
    pub(crate) counts: Counts,
    pub(crate) windows: Vec<Window>,
    pub(crate) levels: Vec<Level>,
    pub(crate) drain: Drain,
    pub(crate) kernel: Option<KernelSamples>,
    pub(crate) sources: Vec<SourceNote>,
    /// Records that the rings lost.
    pub(crate) lost: u64,
    /// What each event lost; `None` where the kernel does not tell.
    pub(crate) event_losses: Option<Vec<EventLoss>>,
    /// Faults of user mode only.
    pub(crate) user_only: bool,
}

/// The loop's state.
pub(crate) struct Watch {
    session: Session,
    drain: Drain,
    duty: Duty,
    /// Where bursts never end, and in the first one of a young program, whose stacks take longer to unwind than to fault.
    ahead: Option<Ahead>,
    every_fault: bool,
    windows: Windows,
    levels: Option<Levels>,
    stacks: Stacks,
    kernel: Kernel,
    orphans: Orphans,
    pace: Pace,
    begin_ns: u64,
    faults: u64,
    /// Our own CPU time when the open burst began, and faults copied since.
    burst: (u64, u64),
    lost: u64,
    /// Samples copied so far.
    samples: u64,
    /// From so many on they are taken less densely.
    early_samples: u64,
    readings: u64,
    discover_ns: u64,
    stacks_ns: u64,
    levels_ns: u64,
    align_ns: u64,
    /// Times that samples began anew since [`t::ALIGN_NS`] before then.
    aligns: u32,
    /// Faults are being recorded, and there were many since the last look, or it has just begun.
    is_in_burst: bool,
    _turns: Turns,
}

impl Watch {
    pub(crate) fn new(session: Session, pid: u32, manner: Manner) -> Self {
        let Manner { allow, begin_ns, cost_ns, every_fault, stacks } = manner;
        // A burst is as long as it takes us to wake up; and a ring that nobody reads overflows.
        let turns = Turns::short(every_fault);
        let levels = (allow.levels && !is_proc_hidden()).then(|| {
            let mut levels = Levels::default();
            levels.begin(pid);
            levels
        });
        let has_stacks = stacks.is_some();
        let budget = if has_stacks { Budget::STACKS } else { Budget::BARE };
        let duty =
            if every_fault { Duty::always() } else { Duty::new(cost_ns, budget, begin_ns ^ u64::from(pid)) };
        let rings = session.lanes.iter().map(|lane| lane.ring.clone());
        let ahead = has_stacks.then(|| Ahead::start(rings.collect()));
        let drain = match stacks {
            Some(beside) => Drain::with_stacks(&session.lanes, pid, beside),
            None => Drain::new(&session.lanes, pid),
        };
        Self {
            drain,
            duty,
            ahead,
            every_fault,
            windows: Windows::begin(begin_ns, session.records_faults()),
            levels,
            stacks: Stacks::at(allow.kernel.hertz()),
            kernel: allow.kernel,
            orphans: Orphans::default(),
            pace: Pace::new(process_cpu_ns()),
            session,
            begin_ns,
            faults: 0,
            burst: (process_cpu_ns(), 0),
            lost: 0,
            samples: 0,
            early_samples: if has_stacks { t::EARLY_STACK_SAMPLES } else { t::EARLY_SAMPLES },
            readings: 0,
            discover_ns: 0,
            stacks_ns: begin_ns + t::KERNEL_DRAIN_NS,
            levels_ns: begin_ns,
            align_ns: begin_ns,
            aligns: 0,
            is_in_burst: true,
            _turns: turns,
        }
    }

    /// Become readable when there is something worth reading.
    pub(crate) fn wakers(&self) -> impl Iterator<Item = std::os::fd::BorrowedFd<'_>> {
        self.session.wakers()
    }

    /// A record that no ring held.
    pub(crate) fn add(&mut self, record: Record) {
        self.drain.add(record);
    }

    /// Faults so far, at the last reading.
    pub(crate) fn faults(&self) -> u64 {
        self.faults
    }

    /// What is new and settled, as lines of a trace file.
    pub(crate) fn take_lines(&mut self) -> impl Iterator<Item = Line> {
        let levels = self.levels.as_mut().map(Levels::take).unwrap_or_default();
        let windows = self.windows.take_settled().map(Line::Window);
        self.drain.take_lines().chain(windows).chain(levels.into_iter().map(Line::Level))
    }

    /// The file has become long: from now on most faults are in no record of their own.
    pub(crate) fn pace(&mut self) {
        self.duty.pace();
    }

    /// No more single faults and samples from now on: there is no room for them.
    pub(crate) fn silence(&mut self) {
        if self.windows.recording_since().is_some() {
            let (time, faults) = self.read_counter();
            self.copy_rings();
            self.digest(time);
            self.windows.turn(time, faults, false);
        }
        self.duty.stop();
        self.ahead = None;
        self.session.lanes.iter().for_each(Lane::silence);
    }

    /// How long to sleep until the next look.
    pub(crate) fn pause_ns(&self) -> u64 {
        if self.is_in_burst {
            t::BURST_LOOK_NS
        } else if self.levels.is_some() || self.session.records_faults() {
            self.pace.pause_ns()
        } else if !self.session.kernel.is_empty() {
            t::KERNEL_DRAIN_NS
        } else {
            t::NOTHING_TO_READ_NS
        }
    }

    /// Reads what is due, and switches.
    pub(crate) fn look(&mut self) {
        let now = now_ns();
        let new = self.copy_rings();
        let was_on = self.duty.is_on();
        // A burst that has spent its credit ends before anybody takes time to unwind it.
        if was_on {
            self.switch(now);
        }
        self.digest(u64::MAX);
        if now >= self.levels_ns {
            // Unwinding may have taken its time.
            self.read_levels(now_ns());
            // A look that records called for soon after is no reading.
            self.levels_ns = now + self.pace.pause_ns() / 2;
        }
        if now >= self.stacks_ns {
            self.stacks_ns = now + t::KERNEL_DRAIN_NS;
            self.empty_kernel_rings();
        }
        self.orphans.tend(now);
        if !self.every_fault && now - self.begin_ns > t::AHEAD_NS {
            self.ahead = None;
        }
        if !self.duty.is_on() && self.drain.is_apart() {
            self.align_samples(now);
        }
        // Nothing of ours is to interrupt the program in a burst, so it begins when all else is done.
        if !was_on {
            self.switch(now);
        }
        self.is_in_burst = self.duty.is_on() && (new >= t::BURST_FAULTS || !was_on);
        self.pace.looked(now - self.begin_ns, new >= t::BUSY_FAULTS, process_cpu_ns);
    }

    /// Begins samples anew. A fault that was under way has an end and no entry: such a try fails, and some more follow at once.
    fn align_samples(&mut self, now: u64) {
        if now >= self.align_ns {
            (self.align_ns, self.aligns) = (now + t::ALIGN_NS, 0);
        }
        if self.aligns < t::ALIGNS_MAX {
            self.aligns += 1;
            self.session.align_samples();
        }
    }

    /// Copies records from the rings. Faults found.
    fn copy_rings(&mut self) -> u64 {
        let found = self.drain.copy(&self.session.lanes);
        if self.duty.is_on() {
            // A lost record is one of the two of a fault, and has cost as much.
            self.duty.spend(found.faults + found.lost / 2);
            self.burst.1 += found.faults;
        } else if found.faults > 0 {
            // A process that was just being forked may have missed the switch.
            self.session.record_faults(false);
        }
        self.lost += found.lost;
        self.samples += found.samples;
        if self.session.samples_densely() && self.samples >= self.early_samples {
            self.session.thin_samples();
        }
        found.faults
    }

    /// Makes records of what was copied; faults up to `end_ns` if they are being recorded.
    fn digest(&mut self, end_ns: u64) {
        let span = self.windows.recording_since().map_or(0..0, |begin_ns| begin_ns..end_ns);
        let digest = self.drain.digest(span);
        digest.losses.into_iter().for_each(|(lost, begin_ns)| self.windows.lose(lost, begin_ns));
        for task in digest.tasks {
            match task {
                Task::Fork(pid) => self.orphans.began(pid),
                Task::Exec(_) => {}
                Task::Exit(pid) => self.orphans.ended(pid),
            }
            match (&mut self.levels, task) {
                (Some(levels), Task::Fork(pid)) => levels.fork(pid),
                (Some(levels), Task::Exec(pid)) => levels.exec(pid),
                (Some(levels), Task::Exit(pid)) => levels.exit(pid),
                (None, _) => {}
            }
        }
    }

    fn empty_kernel_rings(&mut self) {
        for lane in &mut self.session.kernel {
            self.stacks.drain(&mut lane.ring);
        }
    }

    fn read_levels(&mut self, now: u64) {
        let Some(levels) = &mut self.levels else { return };
        if self.session.lanes.is_empty() && now >= self.discover_ns {
            self.discover_ns = now + t::DISCOVER_NS;
            levels.discover();
            levels.members().for_each(|pid| self.orphans.began(pid));
        }
        self.faults = self.session.user_faults().unwrap_or_else(|| levels.faults_by_proc());
        self.readings += 1;
        let changed = levels.read(now, self.faults);
        self.pace.saw(changed, levels.thinned());
    }

    /// Turns recording on or off, or begins a new window when the open one has become long.
    fn switch(&mut self, now: u64) {
        if !self.session.records_faults() {
            return;
        }
        let session = &self.session;
        let elapsed = now - self.begin_ns;
        if self.duty.should_switch(now, || session.cpu_ns().unwrap_or(elapsed)) {
            let on = !self.duty.is_on();
            if on {
                self.burst = (process_cpu_ns(), 0);
                self.session.record_faults(true);
                self.turn(true);
            } else {
                // The window ends before the events are switched off one processor after the other.
                let (time, faults) = self.read_counter();
                self.session.record_faults(false);
                self.ahead = None;
                self.copy_rings();
                self.digest(time);
                self.windows.turn(time, faults, false);
                let (begin_ns, recorded) = self.burst;
                self.duty.learn(recorded, process_cpu_ns().saturating_sub(begin_ns));
            }
            self.duty.switched(now);
        } else if self.duty.is_on() && now.saturating_sub(self.windows.begin_ns()) > t::RECORD_WINDOW_NS {
            self.turn(true);
        }
    }

    fn turn(&mut self, recorded: bool) {
        let (time, faults) = self.read_counter();
        self.windows.turn(time, faults, recorded);
    }

    /// The user-mode fault counter, and the time halfway through reading it.
    fn read_counter(&mut self) -> (u64, u64) {
        let before = now_ns();
        if let Some(faults) = self.session.user_faults() {
            self.faults = faults;
        }
        (before.midpoint(now_ns()), self.faults)
    }

    /// Reads what is left once the program has ended.
    pub(crate) fn finish(mut self, subject: Subject) -> Result<Ended, Failure> {
        // What still runs, a process that we attached to or a descendant, goes on unseen.
        self.session.end();
        let end_ns = now_ns();
        self.copy_rings();
        self.drain.settle();
        self.digest(u64::MAX);
        self.empty_kernel_rings();
        self.read_levels(end_ns);
        let counts = self.session.counts(subject.before_exec_faults());
        let event_losses = self.session.event_losses();
        self.session.close_tracepoints();
        let is_child = matches!(subject, Subject::Child(_));
        let (exit, own) = subject.finish()?;
        let orphans = std::mem::take(&mut self.orphans);
        // Descendants of a process that is not ours never fall to us.
        let found = if is_child { orphans.finish() } else { orphans::Found::default() };
        let counts = Counts { running: found.running, ..counts };
        let usage = orphans::sum(own, found.usage);
        let wall_ns = end_ns - self.begin_ns;
        let kernel = self.name_stacks();
        self.note_the_rest(wall_ns, found);
        let windows = counts.user_faults.map(|faults| self.windows.finish(end_ns, faults));
        Ok(Ended {
            exit,
            usage: Usage {
                wall_ns,
                user_ns: usage.user_ns,
                system_ns: usage.system_ns,
                minor_faults: usage.minor_faults,
                major_faults: usage.major_faults,
                peak_rss_bytes: usage.peak_rss_bytes,
            },
            counts,
            windows: windows.unwrap_or_default(),
            levels: self.levels.map(Levels::finish).unwrap_or_default(),
            drain: self.drain,
            kernel,
            user_only: self.session.user_only,
            sources: self.session.notes,
            lost: self.lost,
            event_losses,
        })
    }

    fn name_stacks(&mut self) -> Option<KernelSamples> {
        if self.session.cpu_hertz > 0 && !self.session.user_only {
            self.session.notes.retain(|note| note.source != KERNEL);
            let samples = self.drain.kernel_samples();
            // The samples are in the file with their stacks, few or many.
            self.session.note(KERNEL, true, samples.as_ref().err().map_or("", String::as_str));
            return samples.ok();
        }
        if self.session.kernel.is_empty() {
            return None;
        }
        match std::mem::take(&mut self.stacks).finish(self.kernel == Kernel::Always) {
            Ok(samples) => Some(samples),
            Err(why) => {
                self.session.notes.retain(|note| note.source != KERNEL);
                self.session.note(KERNEL, false, &why);
                None
            }
        }
    }

    fn note_the_rest(&mut self, wall_ns: u64, found: orphans::Found) {
        note_wait4(&mut self.session, found);
        if let Some(told) = self.drain.drift.told() {
            self.session.add_to_note(PAIRS, &told);
        }
        if self.levels.is_some() {
            let each = Duration::from_nanos(wall_ns / self.readings.max(1));
            let text = format!("{}, one in {each:.1?}", Count(self.readings).of("reading"));
            self.session.note("/proc/PID/statm", true, &text);
        } else if is_proc_hidden() {
            let text = "/proc is hidden: memory over time and the avoidable curve can't be known; mount it (mount -t proc proc /proc)";
            self.session.note("/proc/PID/statm", false, text);
        } else {
            self.session.note("/proc/PID/statm", false, "not asked for");
        }
        if self.drain.omitted > 0 {
            let (more, first) = (self.drain.omitted, t::TASK_RECORDS_MAX);
            let text = format!("{more} mappings and tasks beyond the first {first} left out");
            self.session.note("mappings", true, &text);
        }
    }
}

/// Whether this process can't see itself in /proc, as in a chroot without it.
fn is_proc_hidden() -> bool {
    faultless_os::procfs::stat(std::process::id()).is_none()
}

fn note_wait4(session: &mut Session, found: orphans::Found) {
    let mut text = String::new();
    if found.reaped > 0 {
        text = format!("with {} that the program did not wait for", Count(found.reaped).of("process"));
    }
    if found.running > 0 {
        let join = if text.is_empty() { "with" } else { " and" };
        text += &format!("{join} {} that had not ended, as far as they had come", found.running);
    }
    session.note("wait4", true, &text);
}
