//! The answer of `faultless stat`: counts by kind, time, the avoidable curve, and the verdict on serialisation.
//!
//! This file is the shape of the answer; `answer` computes it from an [`Observation`](crate::Observation).

mod answer;
mod kernel;
pub(crate) mod kinds;
pub(crate) mod missing;
mod mix;
pub(crate) mod rows;
mod serial;
pub(crate) mod strata;
pub(crate) mod time;

use serde::{Deserialize, Serialize};

use crate::observation::{Exit, Host, SourceNote, Usage};
use crate::reconcile::Disagreement;

pub use crate::tuning::WAIT_LATENCY_RATIO;
pub use kernel::kernel_time;
pub use missing::{Missing, Part};
pub use time::bytes_made_resident;

/// What one run lost to page faults. This is also the JSON document of `stat --json`.
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
    /// What `wait4` leaves out and the events counted; `None` when nothing.
    pub beyond_wait4: Option<BeyondWait4>,
    /// CPU time that recording has added to the program's, as calibrated, ns; in `usage` too.
    #[serde(default)]
    pub recorder_ns: u64,
    /// One row per kind; the faults of all rows add up to `usage.minor_faults + usage.major_faults` and
    /// `beyond_wait4.faults` exactly.
    pub rows: Vec<Row>,
    /// How long faults took, or `None` with a note where nothing was known.
    pub time: Option<FaultTime>,
    /// Share of the faults that keeping freed pages would have saved, by how much is kept.
    pub avoidable: Option<Curve>,
    /// Whether the faults of several threads wait for each other.
    pub serialisation: Serialisation,
    /// Where kernel time went, as root; `None` with a note when refused.
    pub kernel: Option<KernelTime>,
    /// Which sources were used, which were denied, and what would change that.
    pub sources: Vec<SourceNote>,
    /// Sources of these figures that can't both be right, and which is believed; each is in `notes` too.
    #[serde(default)]
    pub disagreements: Vec<Disagreement>,
    /// Things the reader must know to read the figures right.
    pub notes: Vec<String>,
    /// Those of `notes` that say how figures came about, and change nothing in how they are read.
    #[serde(skip)]
    pub details: Vec<String>,
    /// Parts of the answer that could not be given, and why.
    #[serde(default)]
    pub missing: Vec<Missing>,
}

impl Stat {
    /// Faults of all rows.
    pub fn faults(&self) -> u64 {
        self.rows.iter().fold(0, |sum, row| sum.saturating_add(row.faults))
    }

    /// CPU time of all processes, without what recording has added.
    pub fn cpu_ns(&self) -> u64 {
        let all_ns = self.usage.cpu_ns().saturating_add(self.beyond_wait4.map_or(0, |beyond| beyond.cpu_ns));
        all_ns.saturating_sub(self.recorder_ns)
    }
}

/// Of processes that nobody waited for, such as children of a program that ignores SIGCHLD: the kernel drops their usage.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct BeyondWait4 {
    /// Faults, at least.
    pub faults: u64,
    /// CPU time, where it was counted.
    pub cpu_ns: u64,
}

/// A figure with the interval that holds it with 95 % confidence.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Interval {
    /// Best estimate.
    pub value: f64,
    /// Lower end.
    pub low: f64,
    /// Upper end.
    pub high: f64,
}

impl Interval {
    /// The interval of so many times the figure.
    pub fn times(self, factor: f64) -> Self {
        Self { value: self.value * factor, low: self.low * factor, high: self.high * factor }
    }
}

/// How a figure came about, from best to worst.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Source {
    /// Counted by the kernel, every one.
    Counted,
    /// From recorded single faults, scaled to the exact count of their span of time.
    Sampled,
    /// From recorded faults and a rule that can be wrong; the rule is in METHODOLOGY.md.
    Inferred,
    /// The count times the price of a fault that was measured at start on this machine.
    Calibrated,
    /// What is left when all other rows are taken from the kernel's total.
    Remainder,
}

/// Faults of one kind.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// Which kind.
    pub kind: Kind,
    /// Faults; exact where `source` is `Counted` or `Remainder`, else the best estimate.
    pub faults: u64,
    /// 95 % interval of a sampled count.
    pub interval: Option<(u64, u64)>,
    /// CPU seconds in them, where known.
    pub seconds: Option<f64>,
    /// 95 % interval of `seconds`.
    #[serde(default)]
    pub seconds_interval: Option<(f64, f64)>,
    /// Median time of one, corrected, in ns, where known.
    pub p50_ns: Option<f64>,
    /// Where the count comes from.
    pub source: Source,
}

/// Kinds of faults: what was touched, and what the kernel had to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// First write to private memory of mmap (malloc's large blocks included).
    MmapFirstWrite,
    /// First write to the brk heap.
    HeapFirstWrite,
    /// First write to bss.
    BssFirstWrite,
    /// First touch of anonymous memory, read or write not known.
    FirstTouch,
    /// A fault that mapped a whole transparent huge page.
    Thp,
    /// A read that mapped the zero page.
    ZeroPageRead,
    /// A write to a page that a read had mapped to the zero page.
    WriteAfterZeroRead,
    /// A write to a page shared with another process since fork.
    CowAfterFork,
    /// Stack growth, main thread and others.
    Stack,
    /// File-backed: code and read-only data.
    FileRead,
    /// File-backed, private, written: a copy is made (data segments).
    FilePrivateWrite,
    /// Shared memory and shared file mappings.
    Shared,
    /// Recorded, but in no mapping that is known.
    Unplaced,
    /// Counted in user mode; nothing more is known.
    UserUnknown,
    /// Taken in kernel mode, as `read` into fresh memory does.
    KernelMode,
    /// Done by the kernel without a trap: MAP_POPULATE, MADV_POPULATE, mlock, get_user_pages.
    Populate,
    /// Kernel mode and populate together, where rights do not allow to tell them apart.
    KernelOrPopulate,
    /// Needed I/O.
    Major,
    /// No event could be opened, or the kernel took them away: nothing is known but that it happened.
    Unknown,
    /// Taken by faultless's own child before it ran the command; part of `wait4`'s figure.
    BeforeExec,
}

impl Kind {
    /// As a reader sees it.
    pub fn words(self) -> &'static str {
        match self {
            Self::MmapFirstWrite => "first write, mmap",
            Self::HeapFirstWrite => "first write, heap",
            Self::BssFirstWrite => "first write, bss",
            Self::FirstTouch => "first touch",
            Self::Thp => "transparent huge page",
            Self::ZeroPageRead => "zero-page read",
            Self::WriteAfterZeroRead => "write after zero-page read",
            Self::CowAfterFork => "copy on write after fork",
            Self::Stack => "stack",
            Self::FileRead => "file: code, read-only data",
            Self::FilePrivateWrite => "file: private write",
            Self::Shared => "shared memory",
            Self::Unplaced => "in no known mapping",
            Self::UserUnknown => "user mode, kind unknown",
            Self::KernelMode => "taken in kernel mode",
            Self::Populate => "populated without a trap",
            Self::KernelOrPopulate => "in kernel mode or populated",
            Self::Major => "major (I/O)",
            Self::Unknown => "kind unknown",
            Self::BeforeExec => "before the command ran",
        }
    }
}

/// How long faults took.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FaultTime {
    /// Where the figures come from.
    pub source: Source,
    /// Faults timed.
    pub timed: u64,
    /// Median, corrected, in ns.
    pub p50_ns: f64,
    /// 90th percentile, corrected, in ns.
    pub p90_ns: f64,
    /// 99th percentile, corrected, in ns.
    pub p99_ns: f64,
    /// Median as read, before correction, in ns.
    pub raw_p50_ns: f64,
    /// What was subtracted from each reading, in ns.
    pub offset_ns: f64,
    /// CPU seconds in faults.
    pub seconds: Interval,
    /// The same as a share of the program's CPU time, 0 to 1.
    pub share: Interval,
    /// Microseconds per MiB of memory that faults made resident, where that is known.
    pub us_per_mib: Option<f64>,
}

/// The avoidable curve.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Curve {
    /// Where the releases come from: `Sampled` has bounds that differ.
    pub source: Source,
    /// Points by rising `keep_bytes`.
    pub points: Vec<Point>,
    /// The smallest amount that reaches (nearly) all that can be avoided.
    pub knee: Option<Point>,
    /// Number of readings of the counters.
    pub readings: u64,
}

/// Had the program kept at most `keep_bytes` of freed pages ...
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Point {
    /// Kept at most, in bytes.
    pub keep_bytes: u64,
    /// ... at least this share of its faults need not have happened, 0 to 1 ...
    pub low: f64,
    /// ... and at most this share.
    pub high: f64,
}

/// Do faults of several threads wait for each other?
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "verdict")]
pub enum Serialisation {
    /// They do: median latency with `threads` faults in flight is `ratio` times that of one alone.
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

/// Kernel CPU time by what it was for, from samples of the CPU clock.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct KernelTime {
    /// Samples in all, user mode included.
    pub samples: u64,
    /// Samples in the page-fault path. How long that takes is [`Stat::time`], which samples do not say as well: they hold the
    /// recorder, and fall behind what runs with interrupts off.
    pub fault_samples: u64,
    /// Seconds in unmapping, exit and madvise that releases pages.
    pub release_seconds: Interval,
    /// Share of the time in faults by phase, 0 to 1; `None` when there are too few samples.
    pub phases: Option<Vec<PhaseShare>>,
}

/// One phase of the fault path.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PhaseShare {
    /// `zeroing`, `page allocation`, `memcg`, `LRU`, `page table`, `locks`, `entry`, `other`.
    pub phase: String,
    /// Share with its interval.
    pub share: Interval,
}
