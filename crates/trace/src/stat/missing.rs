//! Parts that an answer lacks -> each with the reason and the remedy.
//!
//! A part is not missing if the question does not apply, as with serialisation in a program with one thread.
//! Nor is it missing if it was not requested.

use serde::{Deserialize, Serialize};

use super::serial::ONE_THREAD;
use super::{Kind, Serialisation, Source, Stat};
use crate::observation::SourceNote;

/// A missing part of the answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Missing {
    /// Which.
    pub part: Part,
    /// The reason, and the remedy.
    pub why: String,
}

/// Parts of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Part {
    /// Faults by kind.
    Kinds,
    /// Kernel-mode faults, separate from pages that the kernel populated.
    KernelMode,
    /// The program's own time of a fault.
    Time,
    /// The avoidable curve.
    Avoidable,
    /// Whether threads wait for each other.
    Threads,
    /// Waits for the lock of the address space, in recordings.
    LockWaits,
    /// The kernel's time, or its phases.
    Kernel,
}

impl Part {
    /// As a reader sees it.
    pub fn words(self) -> &'static str {
        match self {
            Self::Kinds => "faults by kind",
            Self::KernelMode => "faults in kernel mode",
            Self::Time => "time of the program's own faults",
            Self::Avoidable => "avoidable faults",
            Self::Threads => "whether threads wait for each other",
            Self::LockWaits => "waits for mmap_lock",
            Self::Kernel => "time in the kernel by phase",
        }
    }
}

/// Why times of the kernel's own say nothing about threads.
const UNDER_WAY: &str =
    "BPF does not tell how many faults are under way; --sources counters,pairs,levels records single faults";

/// The missing parts, in the order of the answer.
///
/// `no_curve`: why there is no avoidable curve; `None` if there is one, or memory was not read. `no_phases`: the same of
/// the phases of the kernel.
pub(super) fn missing(known: &Stat, no_curve: Option<String>, no_phases: Option<String>) -> Vec<Missing> {
    let has = |kind| known.rows.iter().any(|row| row.kind == kind);
    let denied = |name: &str| denied(&known.sources, name);
    let events = || denied("page-faults:u").or_else(|| denied("fault pairs"));
    let untimed = known.time.as_ref().is_none_or(|time| time.source == Source::Calibrated);
    let is_measured = known.time.as_ref().is_some_and(|time| time.source == Source::Measured);
    let threads = match &known.serialisation {
        Serialisation::CannotSay { why } if why != ONE_THREAD && is_measured => Some(UNDER_WAY.to_owned()),
        Serialisation::CannotSay { why } if why != ONE_THREAD && !untimed => {
            Some(format!("{why}; a longer run may bring them"))
        }
        _ => None,
    };
    let found = [
        (Part::Kinds, events().filter(|_| has(Kind::Unknown) || has(Kind::UserUnknown))),
        (Part::KernelMode, denied("page-faults in kernel mode").filter(|_| has(Kind::KernelOrPopulate))),
        (Part::Time, events().filter(|_| untimed)),
        (
            Part::Avoidable,
            no_curve.or_else(|| denied("/proc/PID/statm").filter(|_| known.avoidable.is_none())),
        ),
        (Part::Threads, threads),
        (Part::Kernel, no_phases.or_else(|| denied("cpu-clock").filter(|_| known.kernel.is_none()))),
    ];
    if known.rows.is_empty() {
        return Vec::new();
    }
    found.into_iter().filter_map(|(part, why)| Some(Missing { part, why: why? })).collect()
}

/// Why no source with this prefix was used; `None` if one was used, or not requested.
pub(crate) fn denied(sources: &[SourceNote], name: &str) -> Option<String> {
    let refused = |source: &&SourceNote| {
        !source.used && source.source.starts_with(name) && source.note != SourceNote::NOT_ASKED_FOR
    };
    sources.iter().find(refused).map(|source| source.note.clone())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn note(source: &str, used: bool, note: &str) -> SourceNote {
        SourceNote { source: source.to_owned(), used, note: note.to_owned() }
    }

    #[test]
    fn only_what_was_asked_for_and_refused_is_denied() {
        let sources = [
            note("page-faults:u", false, "Permission denied"),
            note("fault pairs", true, "in bursts"),
            note("cpu-clock with kernel stacks", false, SourceNote::NOT_ASKED_FOR),
        ];
        assert_eq!(denied(&sources, "page-faults:u").as_deref(), Some("Permission denied"));
        assert_eq!(
            ["fault pairs", "cpu-clock", "statm"].map(|name| denied(&sources, name)),
            [None, None, None]
        );
    }
}
