//! A run as a trace file: like `observe`, with stacks, switches and samples, written while the program runs.
//!
//! In: a [`Task`] to run or attach to, how much to record, and where the file goes. Out: the file, and a
//! summary. Memory use does not grow with the length of the run. Data reach the file within a second.
//!
//! It does not name or move the file (`cli`), or read one.

use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use faultless_os::counters::{now_ns, process_cpu_ns};
use faultless_os::follow::Follower;
use faultless_os::perf::Output;
use faultless_os::spawn;
use faultless_trace::file::Line;
use faultless_trace::observation::{Counts, EventLoss, Exit, Record, SourceNote, Usage, What};
use faultless_trace::recording::{Footer, Header, Settings};

use crate::allocations::Allocations;
use crate::calibrate::Calibrator;
use crate::calls::{self, Points};
use crate::drain::StackOptions;
use crate::heaps;
use crate::monitor::{Monitor, Setup};
use crate::request::{Attach, Failure, Kernel, Request, Sources, not_started};
use crate::session::{Session, Watched};
use crate::shape::{Flushes, Locks, Shape};
use crate::subject::{self, Subject};
use crate::symbols::{NameCache, Runtimes, map_files};
use crate::trace_file::TraceFile;
use crate::{facts, tuning as t};

/// Name of the source of system calls.
const CALLS: &str = "calls that change the address space";
/// Name of the source of TLB flushes.
const FLUSHES: &str = "TLB flushes for other threads";
/// Name of the source of lock waits.
const LOCKS: &str = "waits for mmap_lock";

/// What to record.
pub enum Task {
    /// A command.
    Command(Request),
    /// Running processes.
    Running(Attach),
}

/// How much to record.
#[derive(Clone, Debug)]
pub struct Options {
    /// Every fault, whatever it costs; else bursts, and stacks of a sample of faults.
    pub every_fault: bool,
    /// Also record allocations of at least this length. The command's environment must load the interposer.
    pub alloc_from_bytes: Option<u64>,
    /// Samples of the CPU clock per second of CPU time; `None`: 199 if the kernel may be seen as well, else
    /// none.
    pub cpu_hertz: Option<u64>,
    /// At this length of the file, bytes, recording of single faults stops.
    pub max_bytes: u64,
    /// Largest ring per processor, pages; a power of two. `None`: 1024, or 4096 for every fault, if the
    /// kernel allows that.
    pub ring_pages: Option<usize>,
    /// Record who changes the address space: by tracepoints; where they can't be seen, by stopping a command at such calls.
    pub calls: bool,
    /// A folder that caches names for the next recording; made if missing. If that fails, or others may write
    /// to it, nothing is cached.
    pub names: Option<PathBuf>,
    /// Leave the functions of files without names: `symbols::debug_files` finds them afterwards. Code that was generated, the
    /// vdso and the kernel are named all the same, because nobody could later.
    pub leaves_files: bool,
    /// Runtimes that the command's environment makes write tables of their code: these are removed.
    pub runtimes: Runtimes,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            every_fault: false,
            alloc_from_bytes: None,
            cpu_hertz: None,
            max_bytes: 2 << 30,
            ring_pages: None,
            calls: false,
            names: None,
            leaves_files: false,
            runtimes: Runtimes::default(),
        }
    }
}

/// State of a recording while it runs.
#[derive(Clone, Copy, Debug, Default)]
pub struct Progress {
    /// Faults so far.
    pub faults: u64,
    /// Single faults in the file.
    pub recorded: u64,
    /// Bytes of the file.
    pub file_bytes: u64,
}

/// What was recorded.
#[derive(Debug)]
pub struct Recorded {
    /// How the program ended.
    pub exit: Exit,
    /// What it used.
    pub usage: Usage,
    /// Exact counts.
    pub counts: Counts,
    /// Single faults in the file, and samples that stand for many.
    pub recorded: u64,
    /// The number of counted faults, if each of them has a record of its own and nothing was lost.
    pub complete: Option<u64>,
    /// Only user-mode faults are counted and recorded.
    pub user_only: bool,
    /// Records that the rings lost.
    pub lost: u64,
    /// What each event lost; `None` where the kernel does not tell.
    pub event_losses: Option<Vec<EventLoss>>,
    /// Length of the file in bytes.
    pub file_bytes: u64,
    /// Known cost of the recording: CPU time of the recorder, and the extra time of recorded faults.
    pub cost_ns: f64,
    /// Why the file could not be written to its end.
    pub trouble: Option<std::io::Error>,
    /// The file had grown to its limit before the program ended.
    pub cut_short: bool,
    /// What became of each source.
    pub sources: Vec<SourceNote>,
    /// Processes whose table of generated code was read and removed: Python's, and others.
    pub tables: (u64, u64),
}

/// Records `task` into `out`. `progress` is called about twice a second.
///
/// # Errors
/// The command did not start, or single faults can't be recorded.
pub fn record(
    task: Task,
    options: &Options,
    out: Box<dyn std::io::Write>,
    progress: &mut dyn FnMut(&Progress),
) -> Result<Recorded, Failure> {
    if let Some(most) = most_hertz().filter(|&most| options.cpu_hertz.is_some_and(|hertz| hertz > most)) {
        return Err(Failure::TooOften(most));
    }
    spawn::outlive_file_limit();
    let is_timed = matches!(task, Task::Running(_)) && !options.every_fault;
    let allow = Sources { kernel: Kernel::No, bpf: is_timed, ..Sources::default() };
    let end = Output::FaultStacks { period: 1, stack_bytes: t::STACK_BYTES };
    let calibrator = Calibrator::begin(Some(end));
    let calibration = calibrator.as_ref().and_then(Calibrator::so_far);
    let shape = shape(options, calibration.map_or(t::FAULT_DEFAULT_NS, |found| found.truth_p50_ns));
    let begin_unix = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let mut header = Header {
        tool: facts::TOOL.into(),
        host: facts::host(),
        host_name: facts::host_name(),
        calibration,
        begin_unix_ms: begin_unix.as_millis() as u64,
        settings: Settings {
            every_fault: options.every_fault,
            sample_period: shape.period,
            stack_bytes: shape.stack_bytes,
            alloc_from_bytes: options.alloc_from_bytes,
            ..Settings::default()
        },
        ..Header::default()
    };
    let follows = options.calls && shape.calls.is_none() && matches!(task, Task::Command(_));
    let has_journal = follows || options.alloc_from_bytes.is_some();
    let allocations = has_journal.then(|| Allocations::create(options.alloc_from_bytes)).transpose()?;
    let (mut follower, mut settings) = (None, Vec::new());
    let (subject, mut session, attached) = match task {
        Task::Command(mut request) => {
            request.env.extend(allocations.iter().filter_map(Allocations::variable));
            let (plan, words) = request.plan()?;
            settings = heaps::of_plan(&plan, &words);
            let plan = plan.filtered(follows.then(calls::filter));
            // As in `observe::run`.
            let _ = spawn::adopt_orphans();
            let held = spawn::hold(&plan)?;
            let session = Session::open(Watched::Held(held.pid()), allow, &shape);
            // Allocations are recorded without events as well.
            if session.buffers.is_empty() && options.alloc_from_bytes.is_none() {
                return Err(Failure::NotRecorded(session.denied()));
            }
            header.begin_ns = now_ns();
            let follow = |journal: &Allocations| journal.follow(held.pid());
            follower = allocations.as_ref().filter(|_| follows).map(follow);
            let released = match &follower {
                Some(Ok(_)) => held.release_filtered(),
                _ => held.release(),
            };
            let child = released.map_err(|error| not_started(&words[0], error))?;
            header.command = words;
            (Subject::Child(child), session, Vec::new())
        }
        Task::Running(attach) => {
            let (attached, session, subject, begin_ns) =
                subject::attach(attach, allow, &shape, Session::samples_faults)?;
            header.command = subject::command(&attached);
            header.settings.attached = true;
            header.begin_ns = begin_ns;
            (subject, session, attached)
        }
    };
    if session.sees_locks {
        session.note(LOCKS, true, "");
    } else if !session.buffers.is_empty() {
        let why =
            if session.timed.is_some() { LOCKS_ASIDE } else { no_locks(faultless_os::host::user().0 == 0) };
        session.note(LOCKS, false, why);
    }
    if session.sees_flushes || !session.buffers.is_empty() {
        let is_root = faultless_os::host::user().0 == 0;
        session.note(
            FLUSHES,
            session.sees_flushes,
            if session.sees_flushes { "" } else { no_flushes(is_root) },
        );
    }
    match &follower {
        _ if session.sees_calls => session.note(CALLS, true, ""),
        Some(Ok(_)) => session.note(CALLS, true, FOLLOWED),
        Some(Err(error)) => {
            session.note(CALLS, false, &format!("{error}: another tracer, or a sandbox, forbids it"))
        }
        None if !options.calls => {
            session.note(CALLS, false, if attached.is_empty() { SourceNote::NOT_ASKED_FOR } else { NO_CALLS })
        }
        None => session.note(CALLS, false, no_calls(faultless_os::host::user().0 == 0)),
    }
    header.settings.user_only = session.user_only;
    header.settings.cpu_hertz = session.cpu_hertz;
    let setup = Setup {
        allow,
        begin_ns: header.begin_ns,
        calibrator,
        every_fault: options.every_fault,
        stacks: Some(StackOptions {
            cpu_hertz: session.cpu_hertz,
            allocations,
            names: options.names.as_deref().and_then(NameCache::open),
            leaves_files: options.leaves_files,
        }),
    };
    let begin_ns = header.begin_ns;
    let recorder_cpu_ns = process_cpu_ns();
    let file = TraceFile::new(out, header, options.max_bytes);
    let mut monitor = Monitor::new(session, &subject.pids(), setup);
    if !attached.is_empty() {
        monitor.only_of(&subject.pids());
    }
    // A short program has ended before its environment could be read.
    if let Some(&pid) = subject.pids().first().filter(|_| !settings.is_empty()) {
        monitor.add(Record { time_ns: begin_ns, pid, tid: pid, what: What::Settings(settings) });
    }
    for record in attached.iter().flat_map(|attached| attached.records(begin_ns)) {
        monitor.add(record);
    }
    let throttle_bytes = if options.every_fault { u64::MAX } else { t::KEEP_ALL_BYTES };
    let (written, cut_short) = (Lines::default(), false);
    Recorder {
        monitor,
        subject,
        file,
        written,
        throttle_bytes,
        cut_short,
        recorder_cpu_ns,
        runtimes: (options.runtimes, begin_unix.as_millis() as u64),
        follower: follower.and_then(Result::ok),
    }
    .run(progress)
}

/// The shape to record with where a fault takes `fault_ns`.
fn shape(options: &Options, fault_ns: f64) -> Shape {
    let most = if options.every_fault { t::RECORD_ALL_RING_PAGES_MAX } else { t::RECORD_RING_PAGES_MAX };
    let shape = Shape {
        stack_bytes: t::STACK_BYTES,
        cpu_hertz: options.cpu_hertz,
        locks: Locks::find(),
        flushes: Flushes::find(),
        calls: if options.calls { Points::find() } else { None },
        switches: true,
        ring_pages: options.ring_pages.unwrap_or(most),
        ..Shape::BARE
    };
    if options.every_fault { shape } else { shape.sampled(fault_ns) }
}

/// What the file holds.
#[derive(Clone, Copy, Debug, Default)]
struct Lines {
    entries: u64,
    samples: u64,
}

impl Lines {
    fn add(&mut self, line: &Line) {
        match line {
            Line::Enter(..) => self.entries += 1,
            Line::Sample(..) => self.samples += 1,
            _ => {}
        }
    }
}

struct Recorder {
    monitor: Monitor,
    subject: Subject,
    file: TraceFile,
    written: Lines,
    /// At this length of the file recording is throttled.
    throttle_bytes: u64,
    cut_short: bool,
    recorder_cpu_ns: u64,
    /// What was asked for, and when the recording began, milliseconds since 1970.
    runtimes: (Runtimes, u64),
    follower: Option<Follower>,
}

impl Recorder {
    fn run(mut self, progress: &mut dyn FnMut(&Progress)) -> Result<Recorded, Failure> {
        let mut progress_ns = 0;
        while !self.subject.ended_within(self.monitor.pause_ns(), self.monitor.wakers()) {
            self.monitor.poll();
            let now_ns = now_ns();
            self.subject.read_usage(now_ns);
            self.write(now_ns);
            if now_ns >= progress_ns {
                progress_ns = now_ns + t::SELDOM_NS;
                progress(&Progress {
                    faults: self.monitor.faults(),
                    recorded: self.written.entries + self.written.samples,
                    file_bytes: self.file.written_bytes(),
                });
            }
        }
        self.finish()
    }

    fn write(&mut self, now_ns: u64) {
        let (written, file) = (&mut self.written, &mut self.file);
        let wanted = |line: &Line| !self.cut_short || !is_fault(line);
        let lines = self.monitor.take_lines().filter(wanted);
        file.write(lines.inspect(|line| written.add(line)));
        file.flush_at(now_ns);
        if file.written_bytes() >= self.throttle_bytes {
            self.throttle_bytes = u64::MAX;
            self.monitor.throttle();
        }
        if file.is_full() && !self.cut_short {
            self.cut_short = true;
            self.monitor.silence();
        }
    }

    fn finish(mut self) -> Result<Recorded, Failure> {
        // The program has ended: ending now would lose counts and names.
        spawn::remember_requests_to_end();
        let mut last = self.monitor.finish(self.subject)?;
        if let Some(follower) = self.follower {
            follower.finish();
        }
        let cut_short = self.cut_short;
        let records: Vec<Line> =
            last.drain.take_lines().filter(|line| !cut_short || !is_fault(line)).collect();
        records.iter().for_each(|line| self.written.add(line));
        self.file.write(records);
        self.file.write(last.windows.into_iter().map(Line::Window));
        self.file.write(last.levels.into_iter().map(Line::Level));
        let (names, notes) = last.drain.name_stacks();
        self.file.write(names);
        last.sources.extend(notes);
        let (runtimes, begin_unix_ms) = self.runtimes;
        let tables = last.drain.pids().map_or((0, 0), |pids| {
            map_files::remove(Path::new(map_files::FOLDER), pids, begin_unix_ms, runtimes)
        });
        let recorder_cpu_ns = process_cpu_ns().saturating_sub(self.recorder_cpu_ns);
        let user_only = last.user_only;
        let footer = Footer {
            exit: last.exit,
            usage: last.usage,
            counts: last.counts,
            machine: last.machine,
            kernel: last.kernel,
            sources: last.sources.clone(),
            recorder_cpu_ns,
            event_losses: last.event_losses.clone(),
            calibration: last.calibration,
            marks: last.drain.marks(),
            in_kernel: last.in_kernel,
        };
        self.file.write([Line::Footer(Box::new(footer))]);
        let (file_bytes, trouble) = self.file.finish();
        let recorded = self.written.entries + self.written.samples;
        let each_ns = last.calibration.map_or(t::RECORD_COST_DEFAULT_NS, |found| found.record_cost_ns);
        let cost_ns = recorder_cpu_ns as f64 + recorded as f64 * each_ns;
        Ok(Recorded {
            exit: last.exit,
            usage: last.usage,
            counts: last.counts,
            recorded,
            complete: last.counts.recordable().filter(|&counted| {
                last.lost == 0
                    && last.event_losses.iter().flatten().all(|event| event.lost == 0)
                    && counted == self.written.entries
                    && trouble.is_none()
            }),
            user_only,
            lost: last.lost,
            event_losses: last.event_losses,
            file_bytes,
            cost_ns,
            cut_short: self.cut_short && trouble.is_none(),
            trouble,
            sources: last.sources,
            tables,
        })
    }
}

/// Whether it is a single fault, or a sample of many.
fn is_fault(line: &Line) -> bool {
    matches!(line, Line::Enter(..) | Line::Sample(..))
}

/// Why they are not traced beside faults that the kernel times.
const LOCKS_ASIDE: &str = "not while the kernel times faults for all processes; --all records them";

/// Why lock waits can't be traced, and what would change that.
fn no_locks(is_root: bool) -> &'static str {
    if is_root {
        "no tracepoints mmap_lock:*; the kernel has none (before 5.11, CONFIG_TRACING), or a container hides them (CAP_SYS_ADMIN)"
    } else {
        "the tracepoints mmap_lock:* are for root"
    }
}

/// Why TLB flushes can't be traced, and what is known all the same.
fn no_flushes(is_root: bool) -> &'static str {
    if is_root {
        "no tracepoint tlb:tlb_flush; the kernel has none (x86 only), or a container hides it (CAP_SYS_ADMIN)"
    } else {
        "the tracepoint tlb:tlb_flush is for root: who interrupts whom is judged by calls and /proc/interrupts"
    }
}

/// How they are seen without tracepoints.
const FOLLOWED: &str =
    "by seccomp and ptrace, some 5 us of the program a call; root sees the time of all, a user that of forks";

/// Why those of running processes are left out unless they are asked for.
const NO_CALLS: &str = "left out, as that slows all system calls of the machine: record -p --calls, as root";

/// Why system calls can't be traced.
fn no_calls(is_root: bool) -> &'static str {
    if is_root {
        "no tracepoints raw_syscalls:*; the kernel has none (CONFIG_FTRACE_SYSCALLS), or a container hides them (CAP_SYS_ADMIN)"
    } else {
        "the tracepoints raw_syscalls:* are for root"
    }
}

/// `kernel.perf_event_max_sample_rate`.
fn most_hertz() -> Option<u64> {
    std::fs::read_to_string("/proc/sys/kernel/perf_event_max_sample_rate").ok()?.trim().parse().ok()
}
