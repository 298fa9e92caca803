//! The answer of `faultless stat`: counts by kind, time, the avoidable curve, and the verdict on serialisation.
//!
//! This file is the shape of the answer; `answer` computes it from an [`Observation`](crate::Observation).

mod answer;
pub(crate) mod missing;
mod serial;

use serde::{Deserialize, Serialize};

use crate::observation::{Exit, Host, SourceNote, Usage};
use crate::reconcile::Disagreement;

pub use crate::avoid::{Curve, Point};
pub use crate::clock::{
    KernelTime, LOCKS, PhaseShare, kernel_time, lock_of, phase_of_function, phase_of_stack,
};
pub use crate::kind::{Kind, KindRow, Source};
pub use crate::measurement::Interval;
pub use crate::profile::{BeyondWait4, FaultTime};
pub use crate::tuning::WAIT_LATENCY_RATIO;
pub use answer::{lost_clause, lost_records};
pub use missing::{Missing, Part};

/// The loss of one run to page faults. This is also the JSON document of `stat --json`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Stat {
    /// Version of this document's shape.
    pub schema: u32,
    /// The command and its arguments.
    pub command: Vec<String>,
    /// How it ended.
    pub exit: Exit,
    /// The machine.
    pub host: Host,
    /// `wait4`.
    pub usage: Usage,
    /// Counted by the events, but missing from `wait4`; `None` if nothing is.
    pub beyond_wait4: Option<BeyondWait4>,
    /// CPU time that recording added to the program's, as calibrated, ns; part of `usage`.
    #[serde(default)]
    pub recorder_ns: u64,
    /// One row per kind; the faults of all rows add up to `usage.minor_faults + usage.major_faults` and
    /// `beyond_wait4.faults` exactly.
    pub rows: Vec<KindRow>,
    /// Time of the faults; `None` with a note if nothing is known.
    pub time: Option<FaultTime>,
    /// How long faults waited, as for a disk or a lock, ns: no CPU time. `None` if switches were not recorded.
    #[serde(default)]
    pub wait_ns: Option<f64>,
    /// Share of the faults that keeping freed pages would have saved, by how much is kept.
    pub avoidable: Option<Curve>,
    /// Whether the faults of several threads wait for each other.
    pub serialisation: Serialisation,
    /// Kernel time by phase, as root; `None` with a note if refused.
    pub kernel: Option<KernelTime>,
    /// The sources that were used, those that were denied, and the remedy.
    pub sources: Vec<SourceNote>,
    /// Contradictory sources of these figures, and the one believed; each is in `notes` too.
    #[serde(default)]
    pub disagreements: Vec<Disagreement>,
    /// Things the reader must know to read the figures right.
    pub notes: Vec<String>,
    /// The notes about method. They do not change how to read the figures.
    #[serde(skip)]
    pub details: Vec<String>,
    /// Why `faultless run`, and so every cure of `advise`, can't act in the program. The caller knows it: the program's file
    /// tells.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub immune: Option<String>,
    /// Parts of the answer that could not be given, and why.
    #[serde(default)]
    pub missing: Vec<Missing>,
}

impl Stat {
    /// Faults of all rows.
    pub fn faults(&self) -> u64 {
        self.rows.iter().fold(0, |sum, row| sum.saturating_add(row.faults))
    }

    /// CPU time of all processes, less the time that recording added.
    pub fn cpu_ns(&self) -> u64 {
        let all_ns = self.usage.cpu_ns().saturating_add(self.beyond_wait4.map_or(0, |beyond| beyond.cpu_ns));
        all_ns.saturating_sub(self.recorder_ns)
    }
}

/// Do faults of several threads wait for each other?
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "verdict")]
pub enum Serialisation {
    /// They do: the median latency with `threads` faults in flight is `ratio` times the latency of a single
    /// one.
    Serialised {
        /// Most faults in flight with enough samples.
        threads: u32,
        /// Ratio of medians with its interval.
        ratio: Interval,
    },
    /// They do not, within the interval.
    Independent {
        /// Most faults in flight with enough samples.
        threads: u32,
        /// Ratio of medians with its interval.
        ratio: Interval,
    },
    /// Cannot say.
    CannotSay {
        /// Why.
        why: String,
    },
}
