//! The agent's loop: polls, counts, publishes, until a signal ends it.
//!
//! In: the flags. Out: metrics on the [`Board`] and in the queues of [`Receivers`]. Nothing that fails later ends it: a
//! source that the kernel refuses is missing, and its metric says so.

use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed, Ordering::SeqCst};
use std::time::{Duration, Instant, SystemTime};

use faultless_console::{Failure, Outcome, emit, reason};
use faultless_os::cgroups::Groups;
use faultless_os::counters::process_cpu_ns;
use faultless_prof::live::{Live, Long, Threads};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use crate::amounts::Amounts;
use crate::args::Options;
use crate::board::Board;
use crate::count::{Count, Program};
use crate::families::{self, State};
use crate::ledger::Ledger;
use crate::machine::Machine;
use crate::members::Members;
use crate::pace::Pace;
use crate::push::Receivers;
use crate::record::Recorder;
use crate::serve::Server;
use crate::text::Format;
use crate::tuning as t;

/// Runs the agent.
///
/// # Errors
/// An address, a file or a flag is wrong: what a user can change. All later failures are survived.
pub(crate) fn run(options: &Options) -> Outcome {
    if faultless_os::procfs::is_hidden() {
        return Err(Failure(faultless_os::procfs::HIDDEN.into()));
    }
    let is_ending = signals()?;
    let board = Arc::new(Board::new());
    let server = if options.once { None } else { Some(Server::bind(options)?) };
    let receivers = Receivers::start(options, &board.own)?;
    let recorder = Recorder::start(options, &board, &is_ending)?;
    let mut watch = Watch::begin(options, board.clone(), recorder);
    if let Some(server) = server {
        let (scheme, address) = (server.scheme(), server.address()?);
        server.start(board.clone()).map_err(|error| Failure(format!("no thread: {}", reason(&error))))?;
        eprintln!(
            "faultless: {scheme}://{address}/metrics, a poll every {} s",
            options.interval.as_secs_f64()
        );
    }
    watch.say_sources();
    loop {
        watch.pause(&is_ending);
        // The last poll begins after the request to end.
        let is_last = is_ending.load(SeqCst);
        watch.poll(&receivers);
        if options.once {
            return emit(board.text(Format::Prometheus).as_bytes(), ExitCode::SUCCESS);
        }
        if is_last {
            break;
        }
    }
    watch.recorder.end();
    receivers.end();
    Ok(ExitCode::SUCCESS)
}

/// Becomes true with the first request to end. A second one ends the process at once. SIGHUP does nothing: the agent
/// has no terminal and no file to read again.
fn signals() -> Result<Arc<AtomicBool>, Failure> {
    let is_ending = Arc::new(AtomicBool::new(false));
    for signal in [SIGTERM, SIGINT] {
        signal_hook::flag::register_conditional_default(signal, is_ending.clone())?;
        signal_hook::flag::register(signal, is_ending.clone())?;
    }
    signal_hook::flag::register(SIGHUP, Arc::new(AtomicBool::new(false)))?;
    Ok(is_ending)
}

/// All state of the polls.
struct Watch {
    live: Live,
    count: Count,
    groups: Ledger<Arc<str>>,
    programs: Ledger<Program>,
    unseen: Amounts,
    lost: u64,
    pace: Pace,
    recorder: Recorder,
    board: Arc<Board>,
    begin_ns: u64,
    last: Instant,
    cpu_ns: u64,
}

impl Watch {
    fn begin(options: &Options, board: Arc<Board>, recorder: Recorder) -> Self {
        let top = usize::from(options.top);
        let long = Long { samples: options.pyroscope.is_some(), every_fault: options.every_fault };
        let live = Live::of_system_for_long(long);
        let count = Count::new(Members::new(Groups::find()));
        board.own.interval_ns.store(options.interval.as_nanos() as u64, Relaxed);
        Self {
            live,
            count,
            groups: Ledger::new(top),
            programs: Ledger::new(top),
            unseen: Amounts::default(),
            lost: 0,
            pace: Pace::new(options.interval, options.budget),
            recorder,
            board,
            begin_ns: unix_ns(),
            last: Instant::now(),
            cpu_ns: process_cpu_ns(),
        }
    }

    /// Names the sources that are missing, with the remedy.
    fn say_sources(&self) {
        if let Some(why) = self.live.no_bpf() {
            eprintln!("faultless: --every-fault: faults are timed in short bursts instead ({why})");
        }
        if let Some(note) = self.live.notes().iter().find(|note| !note.used) {
            eprintln!(
                "faultless: faults can't be timed ({}); each counts at the price measured in the agent",
                note.note
            );
        }
    }

    /// Sleeps until the next poll is due, with a tick now and then, or until the end.
    fn pause(&mut self, is_ending: &AtomicBool) {
        /// A request to end is noticed within this time.
        const SLICE: Duration = Duration::from_millis(500);
        let tick = self.pace.interval / t::TICKS;
        let mut ticked = self.last;
        loop {
            let left = self.pace.interval.saturating_sub(self.last.elapsed());
            if left.is_zero() || is_ending.load(SeqCst) {
                return;
            }
            std::thread::sleep(left.min(SLICE).min(tick));
            if ticked.elapsed() >= tick {
                ticked = Instant::now();
                self.live.tick();
            }
        }
    }

    /// Polls and publishes.
    fn poll(&mut self, receivers: &Receivers) {
        let interval = self.live.poll(Threads::No);
        let round = self.count.round(&interval);
        let time_ns = unix_ns();
        self.groups.add(time_ns, round.groups);
        self.programs.add(time_ns, round.programs);
        self.unseen += round.unseen;
        self.lost += interval.lost;
        self.recorder.round(&interval, self.count.members(), receivers, time_ns);
        let state = State {
            begin_ns: self.begin_ns,
            groups: &self.groups,
            programs: &self.programs,
            recorded: self.recorder.recorded(),
            unseen: self.unseen,
            machine: Machine::now(),
            price_ns: interval.price_ns,
            timed: interval.timed,
            lost: self.lost,
            cpus: interval.cpus,
            notes: self.live.notes(),
        };
        let families = Arc::new(families::of(&state));
        self.board.set(families.clone());
        self.settle();
        receivers.put_metrics(&families, &self.board.own, time_ns);
        receivers.put_sites(&interval, self.count.members(), time_ns);
    }

    /// Accounts for the interval, and sets the next one.
    fn settle(&mut self) {
        let cpu_ns = process_cpu_ns();
        let took = Duration::from_nanos(cpu_ns - self.cpu_ns);
        if let Some(said) = self.pace.took(took, self.last.elapsed()) {
            eprintln!("faultless: {said}");
        }
        self.board.own.polled(took.as_nanos() as u64, self.pace.interval);
        (self.cpu_ns, self.last) = (cpu_ns, Instant::now());
    }
}

fn unix_ns() -> u64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_nanos() as u64)
}
