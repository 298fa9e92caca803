//! Figures of one run, compared with each other -> the disagreements, and the source to believe.
//!
//! In: `Facts`, a run and its figures. Out: [`Disagreement`]s, none for a sound run. A check reports only a difference
//! beyond the known error of both sources. `profile::totals` then cuts or widens the figure.
//!
//! Nothing here corrects a figure or compares runs.

mod bound;
mod checks;

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::measurement::{Bytes, Count, Nanos};

pub(crate) use bound::{TimeBound, time_bound};
pub(crate) use checks::{Facts, check};

/// Two sources that can't both be right.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Disagreement {
    /// Which check found it.
    pub check: Check,
    /// One source with its figure.
    pub first: SourceFigure,
    /// The other one.
    pub second: SourceFigure,
    /// Which of them the totals follow.
    pub believed: Believed,
    /// Why, and what was done.
    pub why: String,
}

/// The figures that a check compares.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Check {
    /// Events against `wait4`, for a single process.
    EventsTotal,
    /// The counter at the last reading of memory against the counter at the end.
    Readings,
    /// Samples times their period against the counter.
    Samples,
    /// Major faults of the events against `wait4`'s.
    Major,
    /// Memory that faults made resident against the growth that was read.
    Growth,
    /// Time in faults against the CPU time that they can have had.
    Time,
    /// CPU time against elapsed time.
    CpuTime,
    /// Records lost by the rings against those lost by the events.
    Losses,
}

/// A source and its figure.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SourceFigure {
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

impl fmt::Display for SourceFigure {
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
