//! A run as a trace file: `observe`, with stacks, switches and samples, written while it happens.
//!
//! In: a [`Task`] to run or attach to, how much to record, and where the file goes. Out: the file, and what to tell of it.
//! Memory stays as it is however long the program runs; what the file holds is on its way to the disk within a second.
//!
//! What it does not do: name or move the file (`cli`), or read one.

use std::path::PathBuf;
use std::time::{SystemTime, UNIX_EPOCH};

use faultless_os::counters::{now_ns, process_cpu_ns};
use faultless_os::perf::Output;
use faultless_os::spawn;
use faultless_trace::file::Line;
use faultless_trace::observation::{Calibration, Counts, EventLoss, Exit, SourceNote, Usage};
use faultless_trace::recording::{Footer, Header, Settings};

use crate::allocations::Allocations;
use crate::attach::Attached;
use crate::drain::Beside;
use crate::session::{Locks, Session, Shape, Watched};
use crate::subject::{Running, Subject};
use crate::symbols::Kept;
use crate::tape::Tape;
use crate::watch::{Manner, Watch};
use crate::writing::Written;
use crate::{Failure, Kernel, Request, Sources, calibrate, facts, tuning as t, writing};

/// Name of the source of lock waits.
const LOCKS: &str = "waits for mmap_lock";

/// What to record.
pub enum Task {
    /// A command.
    Command(Request),
    /// A process that runs, with its threads and future children, until it ends or somebody asks us to end.
    Process(u32),
}

/// How much to record.
#[derive(Clone, Debug)]
pub struct Options {
    /// Every fault, whatever it costs; else bursts, and stacks of one in some.
    pub every_fault: bool,
    /// Also who allocates blocks of at least this length: in a command whose environment loads the interposer.
    pub alloc_from_bytes: Option<u64>,
    /// Samples of the CPU clock per second of CPU time; `None`: 199 where the kernel may be seen as well, else none.
    pub cpu_hertz: Option<u64>,
    /// Length of the file from which on no more single faults are recorded, bytes.
    pub max_bytes: u64,
    /// Largest ring per processor, pages; a power of two. `None`: 1024, or 4096 for every fault, where they may be locked.
    pub ring_pages: Option<usize>,
    /// A folder for names, so that the next recording need not look them up again; made where it is missing. Where that can't be, or others
    /// may write to it, none are kept.
    pub names: Option<PathBuf>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            every_fault: false,
            alloc_from_bytes: None,
            cpu_hertz: None,
            max_bytes: 2 << 30,
            ring_pages: None,
            names: None,
        }
    }
}

/// What is known while it runs.
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
    /// The faults that were counted, if each of them is in the file by itself and nothing was lost.
    pub complete: Option<u64>,
    /// Faults of user mode only are counted and recorded.
    pub user_only: bool,
    /// Records that the rings lost.
    pub lost: u64,
    /// What each event lost; `None` where the kernel does not tell.
    pub event_losses: Option<Vec<EventLoss>>,
    /// Length of the file in bytes.
    pub file_bytes: u64,
    /// What recording has cost, as far as is known: CPU time of the recorder, and what recorded faults took longer.
    pub cost_ns: f64,
    /// Why the file could not be written to its end.
    pub trouble: Option<std::io::Error>,
    /// The file had grown to its limit before the program ended.
    pub cut_short: bool,
    /// What became of each source.
    pub sources: Vec<SourceNote>,
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
    let allow = Sources { kernel: Kernel::No, ..Sources::default() };
    let end = Output::FaultStacks { period: 1, stack_bytes: t::STACK_BYTES };
    let calibrated = calibrate::run(Some(end));
    let calibration = calibrated.map(|(found, _)| found);
    let shape = shape(options, calibration.map_or(t::FAULT_DEFAULT_NS, |found| found.truth_p50_ns));
    let cost_ns = calibration.map_or(t::RECORD_COST_DEFAULT_NS, |found| found.record_cost_ns);
    let begin_unix = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let mut header = Header {
        tool: concat!("faultless ", env!("CARGO_PKG_VERSION")).into(),
        host: facts::host(),
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
    let allocations = options.alloc_from_bytes.map(Allocations::create).transpose()?;
    let (subject, mut session, attached) = match task {
        Task::Command(mut request) => {
            request.env.extend(allocations.iter().map(Allocations::variable));
            let (plan, words) = request.plan()?;
            // As in `watch::run`.
            let _ = spawn::adopt_orphans();
            let held = spawn::hold(&plan)?;
            let session = Session::open(Watched::Held(held.pid()), allow, &shape);
            // Who allocates is recorded without events as well.
            if session.lanes.is_empty() && allocations.is_none() {
                return Err(Failure::NotRecorded(session.denied()));
            }
            header.begin_ns = now_ns();
            let child = held.release().map_err(|error| crate::not_started(&words[0], error))?;
            header.command = words;
            (Subject::Child(child), session, None)
        }
        Task::Process(pid) => {
            let attached = Attached::find(pid)?;
            spawn::remember_requests_to_end();
            let session = Session::open(Watched::Running(&attached.tids), allow, &shape);
            if session.lanes.is_empty() {
                return Err(Failure::NotWatched(pid, session.denied()));
            }
            header.command = attached.command.clone();
            header.settings.attached = true;
            header.begin_ns = now_ns();
            session.begin();
            (Subject::Running(Running::new(pid, attached.stat)), session, Some(attached))
        }
    };
    if session.sees_locks {
        session.note(LOCKS, true, "");
    } else if !session.lanes.is_empty() {
        session.note(LOCKS, false, no_locks(faultless_os::host::user().0 == 0));
    }
    header.settings.user_only = session.user_only;
    header.settings.cpu_hertz = session.cpu_hertz;
    let manner = Manner {
        allow,
        begin_ns: header.begin_ns,
        cost_ns: cost_ns.max(t::RECORD_COST_DEFAULT_NS / 4.0),
        every_fault: options.every_fault,
        stacks: Some(Beside {
            cpu_hertz: session.cpu_hertz,
            allocations,
            kept: options.names.as_deref().and_then(Kept::open),
        }),
    };
    let begin_ns = header.begin_ns;
    let recorder_cpu_ns = process_cpu_ns();
    let tape = Tape::new(out, header, options.max_bytes);
    let mut watch = Watch::new(session, subject.pid(), manner);
    for record in attached.iter().flat_map(|attached| attached.records(begin_ns)) {
        watch.add(record);
    }
    let pace_bytes = if options.every_fault { u64::MAX } else { t::KEEP_ALL_BYTES };
    let (written, cut_short) = (Lines::default(), false);
    Recorder { watch, subject, tape, written, pace_bytes, cut_short, recorder_cpu_ns, cost_ns, calibrated }
        .run(progress)
}

/// What is recorded where a fault takes `fault_ns`.
fn shape(options: &Options, fault_ns: f64) -> Shape {
    let most = if options.every_fault { t::RECORD_ALL_RING_PAGES_MAX } else { t::RECORD_RING_PAGES_MAX };
    let shape = Shape {
        stack_bytes: t::STACK_BYTES,
        period: 0,
        early_period: 0,
        cpu_hertz: options.cpu_hertz,
        locks: Locks::find(),
        switches: true,
        ring_pages: options.ring_pages.unwrap_or(most),
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
    watch: Watch,
    subject: Subject,
    tape: Tape,
    written: Lines,
    /// Length of the file from which on recording is paced.
    pace_bytes: u64,
    cut_short: bool,
    recorder_cpu_ns: u64,
    cost_ns: f64,
    calibrated: Option<(Calibration, Option<Written>)>,
}

impl Recorder {
    fn run(mut self, progress: &mut dyn FnMut(&Progress)) -> Result<Recorded, Failure> {
        let mut progress_ns = 0;
        while !self.subject.ended_within(self.watch.pause_ns(), self.watch.wakers()) {
            self.watch.look();
            let now_ns = now_ns();
            self.subject.look(now_ns);
            self.write(now_ns);
            if now_ns >= progress_ns {
                progress_ns = now_ns + t::PROGRESS_NS;
                progress(&Progress {
                    faults: self.watch.faults(),
                    recorded: self.written.entries + self.written.samples,
                    file_bytes: self.tape.written_bytes(),
                });
            }
        }
        self.finish()
    }

    fn write(&mut self, now_ns: u64) {
        let (written, tape) = (&mut self.written, &mut self.tape);
        let wanted = |line: &Line| !self.cut_short || !is_fault(line);
        let lines = self.watch.take_lines().filter(wanted);
        tape.write(lines.inspect(|line| written.add(line)));
        tape.flush_at(now_ns);
        if tape.written_bytes() >= self.pace_bytes {
            self.pace_bytes = u64::MAX;
            self.watch.pace();
        }
        if tape.is_full() && !self.cut_short {
            self.cut_short = true;
            self.watch.silence();
        }
    }

    fn finish(mut self) -> Result<Recorded, Failure> {
        // The program has ended: who asks us to end now would lose counts and names.
        spawn::remember_requests_to_end();
        let mut last = self.watch.finish(self.subject)?;
        let cut_short = self.cut_short;
        let records: Vec<Line> =
            last.drain.take_lines().filter(|line| !cut_short || !is_fault(line)).collect();
        records.iter().for_each(|line| self.written.add(line));
        self.tape.write(records);
        self.tape.write(last.windows.into_iter().map(Line::Window));
        self.tape.write(last.levels.into_iter().map(Line::Level));
        let (names, notes) = last.drain.name_stacks();
        self.tape.write(names);
        last.sources.extend(notes);
        let recorder_cpu_ns = process_cpu_ns().saturating_sub(self.recorder_cpu_ns);
        let user_only = last.user_only;
        let footer = Footer {
            exit: last.exit,
            usage: last.usage,
            counts: last.counts,
            kernel: last.kernel,
            sources: last.sources.clone(),
            recorder_cpu_ns,
            event_losses: last.event_losses.clone(),
            calibration: self
                .calibrated
                .map(|(found, written)| writing::in_run(found, written, &last.drain.writing)),
        };
        self.tape.write([Line::Footer(Box::new(footer))]);
        let (file_bytes, trouble) = self.tape.finish();
        let recorded = self.written.entries + self.written.samples;
        let cost_ns = recorder_cpu_ns as f64 + recorded as f64 * self.cost_ns;
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
        })
    }
}

/// Whether it is a single fault, or a sample of many.
fn is_fault(line: &Line) -> bool {
    matches!(line, Line::Enter(..) | Line::Sample(..))
}

/// Why there are no tracepoints of waits, and what would change that.
fn no_locks(is_root: bool) -> &'static str {
    match is_root {
        true => {
            "no tracepoints mmap_lock:*; `mount -t tracefs tracefs /sys/kernel/tracing`, where the kernel has them (5.11, CONFIG_TRACING)"
        }
        false => "the tracepoints mmap_lock:* are for root",
    }
}

/// `kernel.perf_event_max_sample_rate`.
fn most_hertz() -> Option<u64> {
    std::fs::read_to_string("/proc/sys/kernel/perf_event_max_sample_rate").ok()?.trim().parse().ok()
}
