//! One cell, measured: each phase between two readings of the clock and the counters, checked at once.
//!
//! In: a trial. Out: a [`Sample`]: the quantities of every phase, and what was wrong. It runs in its own
//! process, see `process`.
//!
//! CPU time is `cpu_ns`, by the clock of the process. Its parts `user_ns` and `system_ns` come from getrusage(2).
//! The kernel splits the time by its ticks, so the parts are useful from [`SPLIT_NS`] on. All three lag by up to a
//! tick for a thread that still runs on another processor. Phases of several threads therefore note `own_cpu_ns`, by
//! the threads' own clocks.

use std::hint::black_box;

use faultless_os::counters::{self, Rusage, Who};

use crate::cell::{Cell, Refusal};
use crate::experiment::{Experiment, Notes, Phase};
use crate::sample::Sample;
use crate::sample::{OWN_CPU, OWN_FAULTS};

/// CPU time of a phase from which on user and system time can be told apart: ten ticks at 250 Hz.
pub const SPLIT_NS: f64 = 40e6;

/// Measures a cell in this process, which must be fresh.
pub fn measure(experiment: &dyn Experiment, cell: &Cell) -> Sample {
    let mut sample = Sample::default();
    if let Err(refusal) = try_measure(experiment, cell, &mut sample) {
        sample = Sample { refused: Some(refusal.0), ..Sample::default() };
    }
    sample
}

fn try_measure(experiment: &dyn Experiment, cell: &Cell, sample: &mut Sample) -> Result<(), Refusal> {
    let mut trial = experiment.trial(cell)?;
    let phases = trial.phases();
    // The first reading takes faults of its own: code that runs for the first time.
    Reading::begin()?;
    Reading::end()?;
    for (index, phase) in phases.iter().enumerate() {
        let mut notes = Notes::default();
        let begin = Reading::begin()?;
        let checksum = black_box(trial.run(black_box(index), &mut notes))?;
        let end = Reading::end()?;
        let taken = end.since(&begin);
        taken.write(phase, sample);
        sample.violations.extend(violations(phase, &taken, &notes, checksum));
        for (name, value) in notes.0 {
            sample.add(phase.name, name, value);
        }
    }
    Ok(())
}

/// Clocks and counters at one moment, or their difference.
#[derive(Clone, Copy, Debug, Default)]
struct Reading {
    wall_ns: u64,
    cpu_ns: u64,
    usage: Rusage,
}

impl Reading {
    /// Reads the clocks last, so that reading the counters is not timed.
    fn begin() -> Result<Self, Refusal> {
        let usage = counters::rusage(Who::Process)?;
        let cpu_ns = counters::process_cpu_ns();
        Ok(Self { wall_ns: counters::now_ns(), cpu_ns, usage })
    }

    /// Reads the clocks first.
    fn end() -> Result<Self, Refusal> {
        let wall_ns = counters::now_ns();
        let cpu_ns = counters::process_cpu_ns();
        Ok(Self { wall_ns, cpu_ns, usage: counters::rusage(Who::Process)? })
    }

    fn since(&self, begin: &Self) -> Self {
        Self {
            wall_ns: self.wall_ns - begin.wall_ns,
            cpu_ns: self.cpu_ns - begin.cpu_ns,
            usage: self.usage.since(begin.usage),
        }
    }

    fn faults(&self) -> u64 {
        self.usage.minor_faults + self.usage.major_faults
    }

    fn write(&self, phase: &Phase, sample: &mut Sample) {
        let usage = &self.usage;
        let quantities = [
            ("wall_ns", self.wall_ns),
            ("cpu_ns", self.cpu_ns),
            ("user_ns", usage.user_ns),
            ("system_ns", usage.system_ns),
            ("minor_faults", usage.minor_faults),
            ("major_faults", usage.major_faults),
            ("peak_rss_bytes", usage.peak_rss_bytes),
            ("expected_faults", *phase.faults.start()),
            ("most_faults", *phase.faults.end()),
        ];
        for (quantity, value) in quantities {
            sample.add(phase.name, quantity, value as f64);
        }
    }
}

/// What can't be right about a phase.
fn violations(phase: &Phase, taken: &Reading, notes: &Notes, checksum: u64) -> Vec<String> {
    let mut found = Vec::new();
    let name = phase.name;
    let faults = notes.of(OWN_FAULTS).map_or(taken.faults(), |faults| faults as u64);
    if !phase.faults.contains(&faults) {
        let (least, most) = (phase.faults.start(), phase.faults.end());
        found.push(format!("{name}: {faults} faults, must be {least} to {most}"));
    }
    let spent_ns = notes.of(OWN_CPU).unwrap_or(taken.wall_ns as f64 * phase.threads as f64);
    let least_ns = phase.least_ns;
    if spent_ns < least_ns {
        found.push(format!("{name}: {spent_ns:.0} ns, takes {least_ns:.0} at least: it was not done"));
    }
    if let Some(expected) = phase.checksum.filter(|&expected| expected != checksum) {
        found.push(format!("{name}: returned {checksum}, must return {expected}: not all of it was done"));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGES: usize = 512;

    #[test]
    fn faults_that_a_phase_counted_itself_are_held_against_it() {
        let phase = Phase::new("first", PAGES, 0);
        let usage = Rusage { minor_faults: 9000, ..Rusage::default() };
        let taken = Reading { wall_ns: 1, usage, ..Reading::default() };
        let own = Notes(vec![(OWN_FAULTS, PAGES as f64)]);
        assert_eq!(violations(&phase, &taken, &own, 0), [""; 0]);
        assert!(violations(&phase, &taken, &Notes::default(), 0)[0].contains("9000 faults"));
    }

    #[test]
    fn a_phase_shorter_than_a_tick_has_its_cpu_time() {
        const SHORT_NS: u64 = 300_000;
        let (begin, begin_ns) = (Reading::begin().unwrap(), counters::thread_cpu_ns());
        while counters::thread_cpu_ns() - begin_ns < SHORT_NS {}
        let taken = Reading::end().unwrap().since(&begin);
        assert!(taken.cpu_ns >= SHORT_NS && taken.wall_ns >= SHORT_NS, "{taken:?}");
    }

    #[test]
    fn what_is_too_fast_to_have_happened_is_caught() {
        let taken = Reading { wall_ns: 900, ..Reading::default() };
        let of = |phase: Phase, notes| violations(&phase, &taken, &notes, 0).concat();
        let copy = |threads| Phase::new("copy", 0, threads).work(16_000);
        assert!(of(copy(0), Notes::default()).contains("900 ns, takes 1000 at least"));
        assert_eq!(of(copy(2), Notes::default()), "", "two threads have twice the time");
        assert!(of(copy(2), Notes(vec![(OWN_CPU, 999.0)])).contains("it was not done"));
        assert!(of(Phase::new("touch", 0, 0).touches(4000), Notes::default()).contains("it was not done"));
    }
}
