//! The figures of one run, beside each other -> what disagrees, which source is wrong, and which one is believed.
//!
//! In: `Facts`, every figure of a run that a second source bounds. Out: [`Disagreement`]s, none for a sound run. A check
//! speaks only beyond the known error of both of its sources. What it says is also done: `totals` cuts or widens the figure.
//!
//! What it does not do: correct (`totals` does), or compare runs.

mod checks;
mod facts;
#[cfg(test)]
mod tests;

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::measurement::{Bytes, Count, Nanos};

pub(crate) use checks::check;
pub(crate) use facts::{Facts, is_user, time_bound};

/// Two sources that can't both be right.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Disagreement {
    /// Which check found it.
    pub check: Check,
    /// One source with its figure.
    pub first: Said,
    /// The other one.
    pub second: Said,
    /// Which of them the totals follow.
    pub believed: Believed,
    /// Why, and what was done.
    pub why: String,
}

/// What is held against what.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Check {
    /// Rows of kinds against `wait4`'s total.
    RowsTotal,
    /// Events against `wait4` where there was one process only.
    EventsTotal,
    /// Rows of user-mode kinds against the counter of user mode.
    RowsUser,
    /// Handled faults, minor and major, against faults begun.
    Handled,
    /// Counts of the windows against the counter of user mode.
    Windows,
    /// Single records against the counts of their windows.
    Records,
    /// The counter at the last reading of memory against the counter at the end.
    Readings,
    /// All faults against those of user mode.
    KernelMode,
    /// Samples times their period against the counter.
    Samples,
    /// Major faults of the events against `wait4`'s.
    Major,
    /// Huge pages found against those of the machine.
    HugePages,
    /// Memory that faults made resident against the growth that was read.
    Growth,
    /// The same against the largest resident size.
    PeakMemory,
    /// Time of the kinds against the time of all.
    KindsTime,
    /// Time in faults against the CPU time that they can have had.
    Time,
    /// CPU time against elapsed time.
    CpuTime,
    /// Lost records as the rings told against what the events lost.
    Losses,
}

/// A source and what it says.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Said {
    /// Which source, as a reader knows it.
    pub source: String,
    /// Its figure, in `unit`.
    pub value: f64,
    /// What the figure is.
    pub unit: Unit,
}

/// What a figure is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Unit {
    /// Faults.
    Faults,
    /// Records.
    Records,
    /// Bytes.
    Bytes,
    /// Nanoseconds.
    Ns,
}

/// Which source the totals follow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Believed {
    /// The first.
    First,
    /// The second.
    Second,
    /// Nothing tells which is wrong.
    Neither,
}

impl fmt::Display for Said {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let whole = self.value.max(0.0).round() as u64;
        write!(f, "{}: ", self.source)?;
        match self.unit {
            Unit::Faults => f.write_str(&Count(whole).of("fault")),
            Unit::Records => f.write_str(&Count(whole).of("record")),
            Unit::Bytes => write!(f, "{}", Bytes(whole >> 10 << 10)),
            Unit::Ns => write!(f, "{}", Nanos(self.value)),
        }
    }
}

impl fmt::Display for Disagreement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let believed = match self.believed {
            Believed::First => &self.first.source,
            Believed::Second => &self.second.source,
            Believed::Neither => "neither",
        };
        write!(
            f,
            "two sources disagree ({}; {}). Believed: {believed}. {}",
            self.first, self.second, self.why
        )
    }
}
