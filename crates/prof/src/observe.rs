//! A command, running processes, or all processes -> an [`Observation`]: what `stat` measures.
//!
//! It opens the events, waits for the end, and reads the [`Monitor`] meanwhile. `record` watches in the same way and
//! writes a file (`record`).

use faultless_os::counters::now_ns;
use faultless_os::{procfs, spawn};
use faultless_trace::observation::{ALL_PROCESSES, Observation};

use crate::calibrate::Calibrator;
use crate::monitor::{Monitor, Setup, Ticker, Ticks};
use crate::request::{Attach, Failure, Kernel, Sources, Until, not_started};
use crate::session::{Session, Watched};
use crate::shape::Shape;
use crate::subject::{self, Attached, Subject};
use crate::{facts, tuning as t};

/// Runs `plan` to its end. `command` is its first word, for errors.
pub(crate) fn run(
    plan: &spawn::Plan,
    allow: Sources,
    command: &str,
    ticker: Option<Ticker<'_>>,
) -> Result<Observation, Failure> {
    let calibrator = calibrate(allow);
    // If this fails, orphans go to the next subreaper or init and their usage is lost.
    let _ = spawn::adopt_orphans();
    let held = spawn::hold(plan)?;
    let session = Session::open(Watched::Held(held.pid()), allow, &shape(calibrator.as_ref()));
    let begin_ns = now_ns();
    let child = held.release().map_err(|error| not_started(command, error))?;
    let setup = Setup { allow, begin_ns, calibrator, every_fault: false, stacks: None };
    let subject = Subject::Child(child);
    watch(Monitor::new(session, &subject.pids(), setup), subject, ticker)
}

/// Watches running processes.
pub(crate) fn attach(
    attach: Attach,
    allow: Sources,
    ticker: Option<Ticker<'_>>,
) -> Result<Observation, Failure> {
    let calibrator = calibrate(allow);
    let (attached, session, subject, begin_ns) =
        subject::attach(attach, allow, &shape(calibrator.as_ref()), Session::counts_faults)?;
    let setup = Setup { allow, begin_ns, calibrator, every_fault: false, stacks: None };
    let mut monitor = Monitor::new(session, &subject.pids(), setup);
    monitor.only_of(&subject.pids());
    for record in attached.iter().flat_map(|attached| attached.records(begin_ns)) {
        monitor.add(record);
    }
    let command = subject::command(&attached);
    Ok(Observation { command, attached: true, ..watch(monitor, subject, ticker)? })
}

/// Watches all processes of the machine.
pub(crate) fn machine(
    until: Until,
    allow: Sources,
    ticker: Option<Ticker<'_>>,
) -> Result<Observation, Failure> {
    // Memory of all processes over time would have to be read from as many files.
    let allow = Sources { kernel: Kernel::No, levels: false, ..allow };
    let calibrator = calibrate(allow);
    let (session, subject, begin_ns) = subject::machine(until, allow, &shape(calibrator.as_ref()))?;
    let setup = Setup { allow, begin_ns, calibrator, every_fault: false, stacks: None };
    let mut monitor = Monitor::new(session, &[], setup);
    for process in procfs::processes().into_iter().filter_map(|pid| Attached::find(pid).ok()) {
        process.records(begin_ns).for_each(|record| monitor.add(record));
    }
    let command = ALL_PROCESSES.map(String::from).to_vec();
    Ok(Observation { command, ..watch(monitor, subject, ticker)? })
}

/// Exact counts need none.
fn calibrate(allow: Sources) -> Option<Calibrator> {
    let end = (allow.pairs && allow.counters).then_some(Shape::BARE.end(1));
    if allow == Sources::COUNTERS { None } else { Calibrator::begin(end) }
}

/// Samples as dense as the price of a fault allows.
fn shape(calibrator: Option<&Calibrator>) -> Shape {
    let found = calibrator.and_then(Calibrator::so_far);
    Shape { switches: true, ..Shape::BARE }
        .sampled(found.map_or(t::FAULT_DEFAULT_NS, |found| found.truth_p50_ns))
}

/// Watches to the end.
fn watch(
    mut monitor: Monitor,
    mut subject: Subject,
    ticker: Option<Ticker<'_>>,
) -> Result<Observation, Failure> {
    // Read while the program runs: at the end it would wait for that.
    let host = facts::host();
    let mut ticks = ticker.map(|ticker| Ticks::new(ticker, &monitor));
    let left_ns = |ticks: &Option<Ticks<'_>>| ticks.as_ref().map_or(u64::MAX, Ticks::left_ns);
    while !subject.ended_within(monitor.pause_ns().min(left_ns(&ticks)), monitor.wakers()) {
        monitor.poll();
        subject.read_usage(now_ns());
        if let Some(ticks) = ticks.as_mut().filter(|ticks| ticks.left_ns() == 0) {
            ticks.tell(&monitor);
        }
    }
    let ended = monitor.finish(subject)?;
    Ok(Observation {
        host,
        exit: ended.exit,
        usage: ended.usage,
        counts: ended.counts,
        machine: ended.machine,
        calibration: ended.calibration,
        in_kernel: ended.in_kernel,
        windows: ended.windows,
        records: ended.drain.finish(),
        levels: ended.levels,
        end_bytes: ended.end_bytes,
        kernel: ended.kernel,
        event_losses: ended.event_losses,
        sources: ended.sources,
        ..Observation::default()
    })
}
