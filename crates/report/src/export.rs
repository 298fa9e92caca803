//! A recording in the formats of other tools, written to a stream.
//!
//! In: a [`Recording`] and the [`Profile`] of it. Out: bytes, in one pass; what is large is never held as a whole but by
//! [`firefox`], whose format is one JSON document. Every format takes the same weighted faults, so all of them add up to the
//! same counts and times. Nothing is estimated or left out here but what a format can't say, which its module tells.
//!
//! | module | for |
//! |---|---|
//! | [`firefox`] | profiler.firefox.com, samply |
//! | [`perfetto`] | ui.perfetto.dev, trace_processor |
//! | [`pprof`] | `go tool pprof`, Pyroscope, Parca, speedscope |
//! | [`folded`] | flamegraph.pl, inferno, speedscope |
//! | [`jsonl`] | jq, scripts |
//! | [`csv`] | pandas, DuckDB, Parquet converters |

pub mod csv;
pub mod firefox;
pub mod folded;
pub mod jsonl;
mod names;
pub mod perfetto;
pub mod pprof;

use faultless_trace::profile::{Block, Profile, Weighted};
use faultless_trace::recording::Recording;

/// What a sample weighs in formats that hold one figure.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Weight {
    /// Time in faults, ns.
    #[default]
    Time,
    /// Faults.
    Faults,
}

impl Weight {
    /// The weight of a fault: ns, or faults.
    fn of(self, fault: &Weighted) -> f64 {
        match self {
            Self::Time => fault.cost_ns,
            Self::Faults => fault.faults,
        }
    }
}

/// The block that was touched, where allocations were recorded.
fn block<'a>(profile: &'a Profile, fault: &Weighted) -> Option<&'a Block> {
    profile.blocks.blocks.get(fault.block? as usize)
}

/// The name of the mapping that was touched.
fn mapping<'a>(profile: &'a Profile, fault: &Weighted) -> &'a str {
    profile.mappings.get(fault.mapping as usize).map_or("", String::as_str)
}

/// The first instant of a recording, ns: times of formats that count from zero begin here.
fn begin_ns(recording: &Recording) -> u64 {
    let observation = &recording.observation;
    let first = observation.records.first().map(|record| record.time_ns);
    let level = observation.levels.first().map(|level| level.time_ns);
    let header = Some(recording.header.begin_ns).filter(|&ns| ns > 0);
    [first, level, header].into_iter().flatten().min().unwrap_or(0)
}

/// Figures as whole numbers that add up to the whole number next to the sum of the figures: what one is rounded by the next ones have.
#[derive(Clone, Copy, Debug, Default)]
struct Rounding {
    sum: f64,
    given: i64,
}

impl Rounding {
    fn next(&mut self, value: f64) -> i64 {
        self.sum += value.max(0.0);
        let number = whole(self.sum) - self.given;
        self.given += number;
        number
    }
}

/// A figure as the whole number next to it; what is no number, or below zero, is none.
fn whole(value: f64) -> i64 {
    value.round().clamp(0.0, i64::MAX as f64) as i64
}

#[cfg(test)]
mod tests;
