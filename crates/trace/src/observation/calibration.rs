//! The error of a measured fault: how far the times of a fault's records are from what it takes.

use serde::{Deserialize, Serialize};

use crate::kind::Kind;
use crate::measurement::Interval;
use crate::tuning::OFFSET_SHARE;

/// Found at start by faulting private pages with and without the events.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Calibration {
    /// Median time of a first touch with no event open, by the time-stamp counter or clock, in ns.
    pub truth_p50_ns: f64,
    /// Median entry-to-end time as the event pair reads it, in ns.
    pub pair_p50_ns: f64,
    /// Overhead of one recorded fault for the program, in ns.
    pub record_cost_ns: f64,
    /// Pages touched for each of the above.
    pub pages: u32,
    /// Half-width of the 95 % interval of the offset, in ns: what the rounds of the calibration and the cost of
    /// a record in the run leave open.
    #[serde(default)]
    pub offset_error_ns: f64,
    /// [`offset_ns`](Self::offset_ns) of a fault that maps an existing page: the zero page.
    #[serde(default)]
    pub read_offset_ns: Option<f64>,
    /// [`offset_ns`](Self::offset_ns) of a write to a page that was mapped.
    #[serde(default)]
    pub mapped_offset_ns: Option<f64>,
}

impl Calibration {
    /// The calibration for a run with slower records. `slower`: cost of a record in this run / in the
    /// calibration, with its interval. `again`: mean number of further entries per fault.
    ///
    /// An offset is the cost of a record minus the trap outside the two time stamps. Only the cost slows down. On one guest that changed between two states, offsets went from -210 to -90 ns and
    /// `written_ns` from 124 to some 240.
    #[must_use]
    pub fn in_run(self, slower: Interval, written_ns: f64, again: f64) -> Self {
        let written_in_run = |slower: f64, offset_ns: f64| {
            (slower - 1.0) * offset_ns.max(written_ns) + again * slower * written_ns
        };
        let there = |offset_ns: f64| offset_ns + written_in_run(slower.value, offset_ns);
        let [low, high] = [slower.low, slower.high].map(|slower| written_in_run(slower, self.offset_ns()));
        Self {
            pair_p50_ns: self.truth_p50_ns + there(self.offset_ns()),
            offset_error_ns: self.offset_error_ns.hypot((high - low) / 2.0),
            read_offset_ns: self.read_offset_ns.map(there),
            mapped_offset_ns: self.mapped_offset_ns.map(there),
            ..self
        }
    }

    /// Whether its figures can be times of faults: below a second.
    pub(crate) fn is_sound(&self) -> bool {
        [self.pair_p50_ns, self.truth_p50_ns].iter().all(|ns| (0.0..1e9).contains(ns))
    }

    /// The amount to subtract from the time between entry and end; may be negative.
    pub fn offset_ns(&self) -> f64 {
        self.pair_p50_ns - self.truth_p50_ns
    }

    /// How far the offset may be off, ns: what its measurement leaves open, and what no measurement shows.
    pub(crate) fn offset_doubt_ns(&self) -> f64 {
        self.offset_error_ns.hypot(OFFSET_SHARE * self.offset_ns())
    }

    /// The offset for a kind of fault. A fault that clears no page leaves the recorder in the caches. A page
    /// that is already mapped takes longer to record.
    pub(crate) fn offset_ns_of(&self, kind: Kind) -> f64 {
        let own_ns = match kind {
            Kind::ZeroPageRead | Kind::FileRead => self.read_offset_ns,
            Kind::CowAfterFork | Kind::WriteAfterZeroRead => self.mapped_offset_ns,
            _ => None,
        };
        own_ns.unwrap_or_else(|| self.offset_ns())
    }
}
