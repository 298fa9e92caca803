//! Kinds of page faults, and a row: how many faults of one kind there were, and how that is known.
//!
//! Every analysis and every view counts by these kinds. `fault::kind` decides which kind a fault has.

use serde::{Deserialize, Serialize};

/// Kinds of faults, by the touched memory and the kernel's work.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
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
    /// Kernel mode and populate together: without rights they can't be told apart.
    KernelOrPopulate,
    /// Needed I/O.
    Major,
    /// No event could be opened, or the kernel took them away: nothing is known but that it happened.
    #[default]
    Unknown,
    /// Our own: of our child before it ran the command, and of the allocation recorder's journal; part of `wait4`'s
    /// figure.
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
            Self::BeforeExec => "faultless's own",
        }
    }

    /// Whether it is the first touch of anonymous memory in base pages.
    pub(crate) fn is_first_touch(self) -> bool {
        FIRST_TOUCHES.contains(&self)
    }

    /// Whether a fault of this kind takes a page that kept memory could have served. A mapping gets bss,
    /// stacks and copies of files only once.
    pub(crate) fn is_fresh(self) -> bool {
        use Kind::{
            BeforeExec, BssFirstWrite, CowAfterFork, FilePrivateWrite, FileRead, Major, Shared, Stack,
            ZeroPageRead,
        };
        !matches!(
            self,
            BeforeExec
                | BssFirstWrite
                | CowAfterFork
                | FilePrivateWrite
                | FileRead
                | Major
                | Shared
                | Stack
                | ZeroPageRead
        )
    }

    /// Whether it is a minor fault taken in user mode.
    pub(crate) fn is_user(self) -> bool {
        use Kind::{BeforeExec, KernelMode, KernelOrPopulate, Major, Populate, Unknown};
        !matches!(self, BeforeExec | KernelMode | KernelOrPopulate | Major | Populate | Unknown)
    }

    /// Resident anonymous memory that a fault adds. A copy after a fork replaces a page that was counted already; swapped
    /// and file pages that a major fault brings are not fresh.
    pub(crate) fn anonymous_bytes(self, page_bytes: u64, thp_bytes: u64) -> f64 {
        match self {
            Self::Thp => thp_bytes.max(page_bytes) as f64,
            Self::ZeroPageRead
            | Self::CowAfterFork
            | Self::FileRead
            | Self::Shared
            | Self::Major
            | Self::BeforeExec => 0.0,
            _ => page_bytes as f64,
        }
    }
}

/// Number of kinds; a kind is an index below it.
pub(crate) const KINDS: usize = Kind::BeforeExec as usize + 1;

/// All kinds, by index.
pub(crate) const ALL: [Kind; KINDS] = [
    Kind::MmapFirstWrite,
    Kind::HeapFirstWrite,
    Kind::BssFirstWrite,
    Kind::FirstTouch,
    Kind::Thp,
    Kind::ZeroPageRead,
    Kind::WriteAfterZeroRead,
    Kind::CowAfterFork,
    Kind::Stack,
    Kind::FileRead,
    Kind::FilePrivateWrite,
    Kind::Shared,
    Kind::Unplaced,
    Kind::UserUnknown,
    Kind::KernelMode,
    Kind::Populate,
    Kind::KernelOrPopulate,
    Kind::Major,
    Kind::Unknown,
    Kind::BeforeExec,
];

/// Kinds that are the first touch of anonymous memory in base pages.
pub(crate) const FIRST_TOUCHES: [Kind; 4] =
    [Kind::MmapFirstWrite, Kind::HeapFirstWrite, Kind::BssFirstWrite, Kind::FirstTouch];

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
    /// The kernel's total less all other rows.
    Remainder,
}

/// Faults of one kind.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct KindRow {
    /// Which kind.
    pub kind: Kind,
    /// Faults; exact where `source` is `Counted` or `Remainder`, else the best estimate.
    pub faults: u64,
    /// 95 % interval of a sampled count.
    pub interval: Option<(u64, u64)>,
    /// CPU seconds in them, if known.
    pub seconds: Option<f64>,
    /// 95 % interval of `seconds`.
    #[serde(default)]
    pub seconds_interval: Option<(f64, f64)>,
    /// Median time of one, corrected, in ns, if known.
    pub p50_ns: Option<f64>,
    /// Where the count comes from.
    pub source: Source,
}

impl KindRow {
    /// A row with a count and nothing else.
    pub(crate) fn new(kind: Kind, faults: u64, source: Source) -> Self {
        Self { kind, faults, interval: None, seconds: None, seconds_interval: None, p50_ns: None, source }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_is_at_its_index() {
        assert!(ALL.iter().enumerate().all(|(index, kind)| *kind as usize == index));
    }
}
