//! One run from start to end: the loop that reads while the program runs.
//!
//! In: the open events. Out: what they saw. One thread sleeps until the program ends or
//! the next reading is due. How often it reads depends on the cost of a reading and on activity.
//!
//! It does not decide when single faults are recorded (`budget`), or what a record means (`trace`).

mod ticks;

use std::collections::BTreeMap;
use std::time::Duration;

use faultless_os::counters::{now_ns, process_cpu_ns};
use faultless_os::procfs;
use faultless_os::schedule::ShortSlices;
use faultless_trace::file::Line;
use faultless_trace::measurement::Count;
use faultless_trace::observation::{
    Calibration, Counts, EventLoss, Exit, InKernel, KernelSamples, Level, Record, SourceNote, Usage, What,
    Window,
};

use crate::budget::{Budget, Limits};
use crate::calibrate::Calibrator;
use crate::drain::{Drain, StackOptions};
use crate::heaps;
use crate::in_kernel::Timed;
use crate::kernel::KernelStacks;
use crate::levels::Levels;
use crate::members::Task;
use crate::orphans::{OrphanUsage, Orphans};
use crate::poll_interval::PollInterval;
use crate::request::{Failure, Kernel, Sources};
use crate::session::{Copier, CpuBuffer, KERNEL, PAIRS, Session};
use crate::subject::Subject;
use crate::switches::Switches;
use crate::windows::Windows;
use crate::{tuning as t, write_cost};

pub use ticks::Ticker;
pub(crate) use ticks::Ticks;

/// How a run is watched.
pub(crate) struct Setup {
    pub(crate) allow: Sources,
    /// When it began.
    pub(crate) begin_ns: u64,
    /// A calibration under way; `None`: nothing is timed.
    pub(crate) calibrator: Option<Calibrator>,
    /// Recording never pauses.
    pub(crate) every_fault: bool,
    /// Samples hold stacks.
    pub(crate) stacks: Option<StackOptions>,
}

/// The results of a finished run.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) exit: Exit,
    pub(crate) usage: Usage,
    pub(crate) counts: Counts,
    /// How far the machine's counters rose.
    pub(crate) machine: BTreeMap<String, u64>,
    /// Adjusted to the run.
    pub(crate) calibration: Option<Calibration>,
    pub(crate) in_kernel: Option<InKernel>,
    pub(crate) windows: Vec<Window>,
    pub(crate) levels: Vec<Level>,
    pub(crate) end_bytes: Option<u64>,
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
pub(crate) struct Monitor {
    session: Session,
    calibrator: Option<Calibrator>,
    drain: Drain,
    budget: Budget,
    /// Runs while a burst may never end (`every_fault`), and in the first burst of a young program, whose
    /// stacks take longer to unwind than to fault.
    copier: Option<Copier>,
    every_fault: bool,
    has_stacks: bool,
    windows: Windows,
    levels: Option<Levels>,
    stacks: KernelStacks,
    kernel: Kernel,
    orphans: Orphans,
    interval: PollInterval,
    begin_ns: u64,
    faults: u64,
    /// The recorder's CPU time when the open burst began, and faults copied since.
    burst: (u64, u64),
    lost: u64,
    /// Samples copied so far.
    samples: u64,
    /// From this many samples on, they are taken less densely.
    early_samples: u64,
    readings: u64,
    discover_ns: u64,
    stacks_ns: u64,
    levels_ns: u64,
    align_ns: u64,
    /// `None`: all switches are wanted.
    switches: Option<Switches>,
    switched: u64,
    /// How often samples were realigned in the current [`t::ALIGN_NS`].
    aligns: u32,
    /// Recording is on, and many faults came since the last poll, or it has just begun.
    is_in_burst: bool,
    _slices: ShortSlices,
}

impl Monitor {
    pub(crate) fn new(session: Session, pids: &[u32], setup: Setup) -> Self {
        let Setup { allow, begin_ns, calibrator, every_fault, stacks } = setup;
        let found = calibrator.as_ref().and_then(Calibrator::so_far);
        // What one recorded fault costs the program.
        let cost_ns = found.map_or(t::RECORD_COST_DEFAULT_NS, |found| found.record_cost_ns);
        let cost_ns = cost_ns.max(t::RECORD_COST_DEFAULT_NS / 4.0);
        // A burst lasts as long as it takes the recorder to wake up, and an unread ring overflows.
        let slices = ShortSlices::request(every_fault);
        let levels = (allow.levels && !procfs::is_hidden()).then(|| {
            let mut levels = Levels::default();
            pids.iter().for_each(|&pid| levels.begin(pid));
            levels
        });
        let has_stacks = stacks.is_some();
        let pid = pids.first().copied().unwrap_or_default();
        let limits = if has_stacks { Limits::STACKS } else { Limits::BARE };
        let budget = if every_fault {
            Budget::always()
        } else {
            Budget::new(cost_ns, limits, begin_ns ^ u64::from(pid))
        };
        let rings = session.buffers.iter().map(|buffer| buffer.ring.clone());
        let copier = (has_stacks && session.records_faults()).then(|| Copier::start(rings.collect()));
        let first = session.timed.is_none().then_some(pid);
        let drain = match stacks {
            Some(options) => Drain::with_stacks(&session.buffers, first, options),
            None => Drain::new(&session.buffers, first),
        };
        Self {
            drain,
            budget,
            copier,
            every_fault,
            has_stacks,
            windows: Windows::begin(begin_ns, session.records_faults()),
            levels,
            stacks: KernelStacks::at(allow.kernel.hertz()),
            kernel: allow.kernel,
            orphans: Orphans::default(),
            interval: PollInterval::new(process_cpu_ns()),
            session,
            calibrator,
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
            switches: (!has_stacks).then(|| Switches::begin(begin_ns)),
            switched: 0,
            aligns: 0,
            is_in_burst: true,
            _slices: slices,
        }
    }

    /// Descriptors that become readable when the rings need a poll.
    pub(crate) fn wakers(&self) -> impl Iterator<Item = std::os::fd::BorrowedFd<'_>> {
        self.session.wakers()
    }

    /// A record that no ring held.
    pub(crate) fn add(&mut self, record: Record) {
        self.drain.add(record);
    }

    /// CPU time of the watched processes so far.
    fn cpu_ns(&self) -> Option<u64> {
        let counted_ns = self.session.cpu_ns();
        counted_ns
            .or_else(|| self.session.timed.as_ref().and(self.levels.as_ref()).map(Levels::cpu_ns_by_proc))
    }

    /// Keeps only records of these processes and their descendants, if the rings hold those of others.
    pub(crate) fn only_of(&mut self, pids: &[u32]) {
        if self.session.timed.is_some() {
            self.drain.members.only(pids);
        }
    }

    /// Faults so far, at the last reading.
    pub(crate) fn faults(&self) -> u64 {
        self.faults
    }

    /// New settled lines of a trace file.
    pub(crate) fn take_lines(&mut self) -> impl Iterator<Item = Line> {
        let levels = self.levels.as_mut().map(Levels::take).unwrap_or_default();
        let windows = self.windows.take_settled().map(Line::Window);
        self.drain.take_lines().chain(windows).chain(levels.into_iter().map(Line::Level))
    }

    /// The file has become long: from now on most faults get no record of their own.
    pub(crate) fn throttle(&mut self) {
        self.budget.throttle();
    }

    /// Stops recording single faults and samples: there is no room for them.
    pub(crate) fn silence(&mut self) {
        if self.windows.recording_since().is_some() {
            let (time, faults) = self.read_counter();
            self.copy_rings();
            self.digest(time);
            self.windows.begin_next(time, faults, false);
        }
        self.budget.stop();
        self.copier = None;
        self.session.buffers.iter().for_each(CpuBuffer::silence);
    }

    /// How long to sleep until the next poll.
    pub(crate) fn pause_ns(&self) -> u64 {
        if self.is_in_burst {
            t::BURST_POLL_NS
        } else if self.levels.is_some() || !self.session.buffers.is_empty() {
            self.interval.pause_ns()
        } else if !self.session.kernel.is_empty() {
            t::KERNEL_DRAIN_NS
        } else {
            t::TICK_COSTLY_NS
        }
    }

    /// Reads what is due, and switches recording.
    pub(crate) fn poll(&mut self) {
        let now = now_ns();
        let new = self.copy_rings();
        let was_on = self.budget.is_on();
        // End an overdrawn burst before anything is unwound.
        if was_on {
            self.switch(now);
        }
        self.digest(u64::MAX);
        if now >= self.levels_ns {
            // Unwinding may have taken its time.
            self.read_levels(now_ns());
            // A poll shortly after this one, called for by records, reads no levels.
            self.levels_ns = now + self.interval.pause_ns() / 2;
        }
        if now >= self.stacks_ns {
            self.stacks_ns = now + t::KERNEL_DRAIN_NS;
            self.empty_kernel_rings();
        }
        self.orphans.reap_ended(now);
        if !self.every_fault && now - self.begin_ns > t::COPIER_NS {
            self.copier = None;
        }
        let is_burst = self.budget.is_on() && self.session.records_faults();
        if !is_burst && self.drain.samples.is_apart() {
            self.align_samples(now);
        }
        // Begin a burst last, so that none of our own work interrupts the program in it.
        if !was_on {
            self.switch(now);
        }
        self.is_in_burst = self.budget.is_on() && (new >= t::BURST_FAULTS || !was_on);
        let calibrates = !self.budget.is_on() && self.calibrator.as_mut().is_some_and(|it| it.advance(now));
        self.interval.polled(now - self.begin_ns, new >= t::BURST_FAULTS || calibrates, process_cpu_ns);
    }

    /// Realigns the samples. If a fault is under way, its end comes without an entry and the attempt fails; a
    /// few more follow at once.
    fn align_samples(&mut self, now: u64) {
        if now >= self.align_ns {
            (self.align_ns, self.aligns) = (now + t::ALIGN_NS, 0);
        }
        if self.aligns < t::ALIGNS_MAX {
            self.aligns += 1;
            self.session.align_samples();
        }
    }

    /// Copies records from the rings. Returns the number of faults.
    fn copy_rings(&mut self) -> u64 {
        let found = self.drain.copy(&self.session.buffers);
        if self.budget.is_on() {
            // A lost record is one of a fault's two, and cost as much.
            self.budget.spend(found.faults + found.lost / 2);
            self.burst.1 += found.faults;
        } else if found.faults > 0 {
            // A process that was being forked may have missed the switch.
            self.session.record_faults(false);
        }
        self.lost += found.lost;
        self.samples += found.samples;
        self.switched += found.switches;
        if self.session.samples_densely() && self.samples >= self.early_samples {
            self.session.thin_samples();
        }
        found.faults
    }

    /// Makes records of what was copied; keeps faults up to `end_ns` if recording is on.
    fn digest(&mut self, end_ns: u64) {
        let span = self.windows.recording_since().map_or(0..0, |begin_ns| begin_ns..end_ns);
        let digest = self.drain.digest(span);
        let switched = std::mem::take(&mut self.switched);
        if let Some(on) = self.switches.as_mut().and_then(|it| it.seen(now_ns(), switched, digest.waited)) {
            self.session.record_switches(on);
        }
        digest.losses.into_iter().for_each(|(lost, begin_ns)| self.windows.lose(lost, begin_ns));
        for task in digest.tasks {
            self.session.follow(task);
            match task {
                Task::Fork(pid) => self.orphans.began(pid),
                Task::Exec(pid) if self.has_stacks => self.note_settings(pid, now_ns()),
                Task::Exit(pid) => self.orphans.ended(pid),
                Task::Exec(_) | Task::StrangerExit(_) => {}
            }
            match (&mut self.levels, task) {
                (Some(levels), Task::Fork(pid)) => levels.fork(pid),
                (Some(levels), Task::Exec(pid)) => levels.exec(pid),
                (Some(levels), Task::Exit(pid)) => levels.exit(pid),
                (Some(_), Task::StrangerExit(_)) | (None, _) => {}
            }
        }
    }

    /// Notes the settings of allocators and runtimes with which a process began.
    fn note_settings(&mut self, pid: u32, time_ns: u64) {
        let settings = heaps::of_process(pid);
        if !settings.is_empty() {
            self.drain.add(Record { time_ns, pid, tid: pid, what: What::Settings(settings) });
        }
    }

    fn empty_kernel_rings(&mut self) {
        for buffer in &mut self.session.kernel {
            self.stacks.drain(&mut buffer.ring);
        }
    }

    fn read_levels(&mut self, now: u64) {
        let Some(levels) = &mut self.levels else { return };
        if self.session.buffers.is_empty() && now >= self.discover_ns {
            self.discover_ns = now + t::DISCOVER_NS;
            levels.discover();
            levels.members().for_each(|pid| self.orphans.began(pid));
        }
        self.faults = self.session.user_faults().unwrap_or_else(|| levels.faults_by_proc());
        self.readings += 1;
        let changed = levels.read(now, self.faults);
        self.interval.level_read(changed, levels.thinned());
        let without = if self.has_stacks { levels.without_huge_pages() } else { Vec::new() };
        for pid in without {
            self.drain.add(Record { time_ns: now, pid, tid: pid, what: What::NoHugePages });
        }
    }

    /// Switches recording on or off, or begins a new window if the open one has become long.
    fn switch(&mut self, now: u64) {
        if !self.session.records_faults() {
            return;
        }
        let session = &self.session;
        let elapsed = now - self.begin_ns;
        if self.budget.should_switch(now, || session.cpu_ns().unwrap_or(elapsed)) {
            let on = !self.budget.is_on();
            if on {
                self.burst = (process_cpu_ns(), 0);
                self.session.record_faults(true);
                self.begin_window(true);
            } else {
                // The window ends before the events are switched off, processor by processor.
                let (time, faults) = self.read_counter();
                self.session.record_faults(false);
                self.copier = None;
                self.copy_rings();
                self.digest(time);
                self.windows.begin_next(time, faults, false);
                let (begin_ns, recorded) = self.burst;
                self.budget.learn(recorded, process_cpu_ns().saturating_sub(begin_ns));
            }
            self.budget.switched(now);
        } else if self.budget.is_on() && now.saturating_sub(self.windows.begin_ns()) > t::RECORD_WINDOW_NS {
            self.begin_window(true);
        }
    }

    fn begin_window(&mut self, recorded: bool) {
        let (time, faults) = self.read_counter();
        self.windows.begin_next(time, faults, recorded);
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
    pub(crate) fn finish(mut self, mut subject: Subject) -> Result<Ended, Failure> {
        // A process that still runs, attached to or a descendant, is no longer watched.
        self.session.end();
        subject.stop();
        // At once: who is waited for later is in no reading of the parent's.
        let unreaped_ns = self.orphans.unreaped_cpu_ns();
        let end_ns = now_ns();
        self.copy_rings();
        self.drain.settle();
        self.digest(u64::MAX);
        self.empty_kernel_rings();
        self.read_levels(end_ns);
        let own_faults = subject.before_exec_faults() + self.drain.journal_faults();
        let machine = self.session.machine();
        let counts = self.session.counts(own_faults, &machine);
        let event_losses = self.session.event_losses();
        let in_kernel = self.session.timed.as_ref().map(Timed::found);
        self.session.close_tracepoints();
        let is_child = matches!(subject, Subject::Child(_));
        let is_running = matches!(subject, Subject::Running(_));
        let (exit, own) = subject.finish()?;
        let orphans = std::mem::take(&mut self.orphans);
        // No event counts the time of children then.
        let cpu_ns = (in_kernel.is_some() && is_running).then(|| own.cpu_ns() + unreaped_ns);
        // Only descendants of our own child fall to us.
        let found = if is_child { orphans.finish() } else { OrphanUsage::default() };
        let counts = Counts { running: found.running, cpu_ns: counts.cpu_ns.or(cpu_ns), ..counts };
        let usage = own.plus(found.usage);
        let wall_ns = end_ns - self.begin_ns;
        let kernel = self.name_stacks();
        self.note_the_rest(wall_ns, found);
        let windows = counts.user_faults.map(|faults| self.windows.finish(end_ns, faults));
        // The calibration needs the room of the rings.
        self.session.buffers.clear();
        let calibrated =
            self.calibrator.and_then(|calibrator| calibrator.finish(usage.user_ns + usage.system_ns));
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
            machine,
            calibration: calibrated
                .map(|(found, written)| write_cost::in_run(found, written, &self.drain.write_costs)),
            in_kernel,
            windows: windows.unwrap_or_default(),
            end_bytes: self.levels.as_ref().and_then(|levels| levels.end_bytes(self.begin_ns, end_ns)),
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

    fn note_the_rest(&mut self, wall_ns: u64, found: OrphanUsage) {
        note_wait4(&mut self.session, found);
        if let Some(note) = self.drain.samples.note() {
            self.session.add_to_note(PAIRS, &note);
        }
        if self.switches.as_ref().is_some_and(|switches| switches.paused) {
            self.session.add_to_note(PAIRS, "most switches between threads left out, as no fault waited");
        }
        if self.levels.is_some() {
            let each = Duration::from_nanos(wall_ns / self.readings.max(1));
            let text = format!("{}, one in {each:.1?}", Count(self.readings).of("reading"));
            self.session.note("/proc/PID/statm", true, &text);
        } else if procfs::is_hidden() {
            let text = "/proc is hidden: memory over time and the avoidable curve can't be known; mount it (mount -t proc proc /proc)";
            self.session.note("/proc/PID/statm", false, text);
        } else {
            self.session.note("/proc/PID/statm", false, "not asked for");
        }
        if self.drain.omitted > 0 {
            let (more, first) = (self.drain.omitted, t::TASK_RECORDS_MAX);
            let text = format!("{more} mappings and tasks beyond the first {first} left out");
            self.session.note(SourceNote::LEFT_OUT, true, &text);
        }
    }
}

fn note_wait4(session: &mut Session, found: OrphanUsage) {
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
