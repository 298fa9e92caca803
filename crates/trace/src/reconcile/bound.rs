//! Observation -> the most time that its faults can have had, by its CPU time, its system time and the clock's samples.

use crate::clock::fault_share;
use crate::observation::Observation;
use crate::tuning::{RECORDER_CERTAIN, TICK_NS, TICK_SPREADS};

/// The most time that faults can have had.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct TimeBound {
    pub(crate) ns: f64,
    /// The estimate behind the bound, if there is one: it takes the place of a time beyond the bound.
    pub(crate) likely_ns: Option<f64>,
    pub(crate) source: &'static str,
}

/// Faults run in the kernel, except for the trap, so their time is part of the system time, and of what samples of the
/// CPU clock show in the fault path. The kernel is assumed to split CPU time by its tick. Then two ticks of each process
/// may be on the wrong side, and ticks scatter as draws do. The sum of user and system time is always exact.
pub(crate) fn time_bound(
    observation: &Observation,
    cpu_ns: f64,
    recorder_ns: f64,
    faults: f64,
) -> Option<TimeBound> {
    if cpu_ns <= 0.0 {
        return None;
    }
    let usage = observation.usage;
    let all_ns = usage.cpu_ns() as f64;
    let unwaited_ns = (observation.counts.cpu_ns.unwrap_or(0) as f64 - all_ns).max(0.0);
    let offset_ns = observation.calibration.map_or(0.0, |found| found.offset_ns());
    let trap_ns = faults * (-offset_ns).max(0.0);
    let system_ns = usage.system_ns as f64;
    let part = if all_ns > 0.0 { system_ns / all_ns } else { 1.0 };
    let scatter_ns = TICK_SPREADS * (part * (1.0 - part) * all_ns * TICK_NS).sqrt();
    // Without records of forks the processes are not known, and the ticks scatter at least.
    let ticks_ns = processes(observation).unwrap_or(1) as f64 * 2.0 * TICK_NS;
    let ns = system_ns - RECORDER_CERTAIN * recorder_ns + unwaited_ns + trap_ns + ticks_ns.max(scatter_ns);
    let clock_ns = observation.kernel.as_ref().and_then(fault_share).map(|share| share.times(all_ns));
    let bound = |ns: f64, source| TimeBound { ns: ns.max(0.0), likely_ns: None, source };
    let bounds = [
        Some(bound(cpu_ns, "the CPU time")),
        Some(bound(ns, "the system time, with the traps and the error of the kernel's clock")),
        clock_ns.map(|clock_ns| TimeBound {
            ns: clock_ns.high + trap_ns,
            likely_ns: Some(clock_ns.value + trap_ns),
            source: "the samples of the CPU clock in the fault path",
        }),
    ];
    bounds.into_iter().flatten().min_by(|a, b| a.ns.total_cmp(&b.ns))
}

/// Processes of the run; `None` without records of forks.
pub(super) fn processes(observation: &Observation) -> Option<u64> {
    let forks = observation.records.iter().filter(|record| record.begins_process());
    (!observation.records.is_empty()).then(|| 1 + forks.count() as u64)
}
