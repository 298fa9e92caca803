//! One run from start to end: the loop that reads while the program runs.
//!
//! In: a plan and what may be used. Out: an [`Observation`]. One thread, which sleeps until the program ends or the next
//! reading is due; how often it reads follows from what a reading costs and whether anything happens.
//!
//! What it does not do: decide when single faults are recorded (`duty`), or what a record means (`trace`).

use std::time::Duration;

use faultless_os::counters::{now_ns, process_cpu_ns};
use faultless_os::spawn::{self, Child, Ending};
use faultless_trace::observation::{Calibration, Exit, KernelSamples, Observation, Usage};

use crate::drain::{Drain, Task};
use crate::duty::Duty;
use crate::kernel::Stacks;
use crate::levels::Levels;
use crate::orphans::{self, Orphans};
use crate::pace::Pace;
use crate::session::{KERNEL, Session};
use crate::windows::Windows;
use crate::{Failure, Kernel, Sources, calibrate, not_started, tuning as t};

/// Runs `plan` to its end. `command` is its first word, for errors.
pub(crate) fn run(plan: &spawn::Plan, allow: Sources, command: &str) -> Result<Observation, Failure> {
    let calibration =
        if allow == Sources::COUNTERS { None } else { calibrate::run(allow.pairs && allow.counters) };
    // Without it orphans go to the next subreaper or init, and their usage is lost: a note less, no failure.
    let _ = spawn::adopt_orphans();
    let held = spawn::hold(plan)?;
    let session = Session::open(held.pid(), allow);
    let begin_ns = now_ns();
    let child = held.release().map_err(|error| not_started(command, error))?;
    let mut watch = Watch::new(session, allow, child.pid() as u32, begin_ns, calibration.as_ref());
    while !child.ended_within(watch.pause_ns(), watch.session.wakers()) {
        watch.look();
    }
    let mut observation = watch.finish(child)?;
    observation.calibration = calibration;
    Ok(observation)
}

struct Watch {
    session: Session,
    drain: Drain,
    duty: Duty,
    windows: Windows,
    levels: Option<Levels>,
    stacks: Stacks,
    kernel: Kernel,
    orphans: Orphans,
    pace: Pace,
    begin_ns: u64,
    faults: u64,
    readings: u64,
    discover_ns: u64,
    stacks_ns: u64,
    levels_ns: u64,
}

impl Watch {
    fn new(
        session: Session,
        allow: Sources,
        pid: u32,
        begin_ns: u64,
        calibration: Option<&Calibration>,
    ) -> Self {
        let cost_ns = calibration.map_or(t::RECORD_COST_DEFAULT_NS, |found| found.record_cost_ns);
        let levels = (allow.levels && !is_proc_hidden()).then(|| {
            let mut levels = Levels::default();
            levels.begin(pid);
            levels
        });
        Self {
            drain: Drain::new(&session.lanes),
            duty: Duty::new(cost_ns, begin_ns ^ u64::from(pid)),
            windows: Windows::begin(begin_ns, session.records_faults()),
            levels,
            stacks: Stacks::at(allow.kernel.hertz()),
            kernel: allow.kernel,
            orphans: Orphans::default(),
            pace: Pace::new(process_cpu_ns()),
            session,
            begin_ns,
            faults: 0,
            readings: 0,
            discover_ns: 0,
            stacks_ns: begin_ns + t::KERNEL_DRAIN_NS,
            levels_ns: begin_ns,
        }
    }

    /// How long to sleep until the next look.
    fn pause_ns(&self) -> u64 {
        if self.levels.is_some() || self.session.records_faults() {
            self.pace.pause_ns()
        } else if !self.session.kernel.is_empty() {
            t::KERNEL_DRAIN_NS
        } else {
            t::NOTHING_TO_READ_NS
        }
    }

    fn look(&mut self) {
        let now = now_ns();
        let new = self.empty_rings(u64::MAX);
        if now >= self.levels_ns {
            self.read_levels(now);
            // A look that records called for soon after is no reading.
            self.levels_ns = now + self.pace.pause_ns() / 2;
        }
        self.switch(now);
        if now >= self.stacks_ns {
            self.stacks_ns = now + t::KERNEL_DRAIN_NS;
            self.empty_kernel_rings();
        }
        self.orphans.tend(now);
        self.pace.looked(now - self.begin_ns, new >= t::BUSY_FAULTS, process_cpu_ns);
    }

    /// Takes records from the rings; faults up to `end_ns` if they are being recorded. Faults found.
    fn empty_rings(&mut self, end_ns: u64) -> u64 {
        let span = self.windows.recording_since().map_or(0..0, |begin_ns| begin_ns..end_ns);
        let drained = self.drain.take(&mut self.session.lanes, span);
        if self.duty.is_on() {
            // A lost record is one of the two of a fault, and has cost as much.
            self.duty.spend(drained.faults + drained.lost / 2);
        } else if drained.faults > 0 {
            // A process that was just being forked may have missed the switch.
            self.session.record_faults(false);
        }
        if drained.lost > 0 {
            self.windows.lose(drained.lost);
        }
        for task in drained.tasks {
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
        drained.faults
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
                self.session.record_faults(true);
                self.turn(true);
            } else {
                // The window ends before the events are switched off one processor after the other.
                let (time, faults) = self.read_counter();
                self.session.record_faults(false);
                self.empty_rings(time);
                self.windows.turn(time, faults, false);
            }
            self.duty.switched(now);
        } else if self.windows.recording_since().is_some_and(|begin| now - begin > t::RECORD_WINDOW_NS) {
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

    fn finish(mut self, child: Child) -> Result<Observation, Failure> {
        let end_ns = now_ns();
        self.empty_rings(u64::MAX);
        self.empty_kernel_rings();
        self.read_levels(end_ns);
        let counts = self.session.counts(child.before_exec_faults());
        let (ending, own) = child.wait()?;
        let found = std::mem::take(&mut self.orphans).finish();
        let usage = orphans::sum(own, found.usage);
        let wall_ns = end_ns - self.begin_ns;
        let kernel = self.name_stacks();
        self.note_the_rest(wall_ns, found);
        let windows = counts.user_faults.map(|faults| self.windows.finish(end_ns, faults));
        Ok(Observation {
            exit: match ending {
                Ending::Status(status) => Exit::Status(status),
                Ending::Signal(signal) => Exit::Signal(signal),
            },
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
            records: self.drain.finish(),
            levels: self.levels.map(Levels::finish).unwrap_or_default(),
            kernel,
            sources: self.session.notes,
            ..Observation::default()
        })
    }

    fn name_stacks(&mut self) -> Option<KernelSamples> {
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
        if self.levels.is_some() {
            let each = Duration::from_nanos(wall_ns / self.readings.max(1));
            let text = format!("{} readings, one in {each:.1?}", self.readings);
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
        text = format!("with {} processes that the program did not wait for", found.reaped);
    }
    if found.running > 0 {
        let join = if text.is_empty() { "with" } else { " and" };
        text += &format!("{join} {} that still run, as far as they had come", found.running);
    }
    session.note("wait4", true, &text);
}
