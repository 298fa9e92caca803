//! One cell, measured: each phase between two looks at the clock and the counters, checked at once.
//!
//! In: a trial. Out: a [`Sample`]: the quantities of every phase, and what was wrong with it. It runs in a process of its
//! own, see `process`.

use std::hint::black_box;

use faultless_os::counters::{self, Rusage, Who};
use serde::{Deserialize, Serialize};

use crate::experiment::{Cell, Experiment, Notes, OWN_FAULTS, Phase, Refusal};

/// Accesses, of a cache line at the most, per ns and processor, beyond which nothing was done: four per cycle at 4 GHz.
pub const MOST_PER_NS: f64 = 16.0;

/// One quantity of one phase.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Value {
    /// The phase, or `machine` for what was seen of the machine meanwhile.
    pub phase: String,
    /// The quantity; its unit ends the name.
    pub quantity: String,
    /// The value.
    pub value: f64,
}

/// What one process measured of one cell.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Sample {
    /// All that was measured.
    pub values: Vec<Value>,
    /// What is wrong with it: counts that differ from what must be, phases that can't have happened.
    pub violations: Vec<String>,
    /// Why the machine can't do it; there are no values then.
    pub refused: Option<String>,
}

impl Sample {
    /// Adds one value.
    pub fn add(&mut self, phase: &str, quantity: &str, value: f64) {
        self.values.push(Value { phase: phase.into(), quantity: quantity.into(), value });
    }
}

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
    // The first look takes faults of its own: code that runs for the first time.
    let _ = Look::now()?;
    for (index, phase) in phases.iter().enumerate() {
        let mut notes = Notes::default();
        let begin = Look::now()?;
        let checksum = black_box(trial.run(black_box(index), &mut notes))?;
        let end = Look::now()?;
        let taken = end.since(&begin);
        taken.write(phase, sample);
        let own = notes.0.iter().find(|(name, _)| *name == OWN_FAULTS).map(|(_, faults)| *faults as u64);
        for (name, value) in notes.0 {
            sample.add(phase.name, name, value);
        }
        sample.violations.extend(violations(phase, &taken, own.unwrap_or(taken.faults()), checksum));
    }
    Ok(())
}

/// Clock and counters at one moment, or their difference.
#[derive(Clone, Copy, Debug)]
struct Look {
    wall_ns: u64,
    usage: Rusage,
}

impl Look {
    fn now() -> Result<Self, Refusal> {
        let usage = counters::rusage(Who::Process)?;
        Ok(Self { wall_ns: counters::now_ns(), usage })
    }

    fn since(&self, begin: &Self) -> Self {
        let (a, b) = (&begin.usage, &self.usage);
        Self {
            wall_ns: self.wall_ns - begin.wall_ns,
            usage: Rusage {
                user_ns: b.user_ns - a.user_ns,
                system_ns: b.system_ns - a.system_ns,
                minor_faults: b.minor_faults - a.minor_faults,
                major_faults: b.major_faults - a.major_faults,
                peak_rss_bytes: b.peak_rss_bytes,
            },
        }
    }

    fn faults(&self) -> u64 {
        self.usage.minor_faults + self.usage.major_faults
    }

    fn write(&self, phase: &Phase, sample: &mut Sample) {
        let usage = &self.usage;
        let quantities = [
            ("wall_ns", self.wall_ns),
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
fn violations(phase: &Phase, taken: &Look, faults: u64, checksum: u64) -> Vec<String> {
    let mut found = Vec::new();
    let name = phase.name;
    if !phase.faults.contains(&faults) {
        let (least, most) = (phase.faults.start(), phase.faults.end());
        found.push(format!("{name}: {faults} faults, must be {least} to {most}"));
    }
    let processors = std::thread::available_parallelism().map_or(1, std::num::NonZero::get) as f64;
    let least_ns = phase.work as f64 / (MOST_PER_NS * processors);
    if (taken.wall_ns as f64) < least_ns {
        let wall_ns = taken.wall_ns;
        found.push(format!("{name}: {wall_ns} ns for {} accesses: they were not made", phase.work));
    }
    match phase.checksum {
        Some(expected) if expected != checksum => {
            found
                .push(format!("{name}: returned {checksum}, must return {expected}: not all of it was done"));
        }
        _ => {}
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
        let taken = Look { wall_ns: 1, usage: Rusage { minor_faults: 9000, ..Rusage::default() } };
        assert_eq!(violations(&phase, &taken, PAGES as u64, 0), [""; 0]);
        assert!(violations(&phase, &taken, 9000, 0)[0].contains("9000 faults"));
    }

    #[test]
    fn what_is_too_fast_to_have_happened_is_caught() {
        let phase = Phase::new("copy", 0, 0).work(1 << 30);
        let taken = Look { wall_ns: 900, usage: Rusage::default() };
        assert!(violations(&phase, &taken, 0, 0)[0].contains("they were not made"));
    }
}
