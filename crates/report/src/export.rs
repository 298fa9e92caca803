//! A recording in the formats of other tools.
//!
//! In: a [`Recording`] and its [`Profile`]. Out: bytes, written to a stream in one pass. Only [`firefox`]
//! builds its document in memory, because its format is a single JSON document. Every format holds the same
//! weighted faults, so all of them add up to the same counts and times. Nothing is estimated here. The module
//! of a format says what the format leaves out.
//!
//! | module | for |
//! |---|---|
//! | [`firefox`] | profiler.firefox.com, samply |
//! | [`perfetto`] | ui.perfetto.dev, trace_processor |
//! | [`pprof`] | `go tool pprof`, Pyroscope, Parca, speedscope |
//! | [`folded`] | flamegraph.pl, inferno, speedscope |
//! | [`jsonl`] | jq, scripts |
//! | [`csv`] | pandas, spreadsheets |
//! | [`parquet`] | DuckDB, Spark: runs of many machines |

pub mod csv;
pub mod firefox;
pub mod folded;
pub mod jsonl;
mod names;
pub mod parquet;
pub mod perfetto;
pub mod pprof;

use faultless_trace::profile::{Block, Profile, Weighted};
use faultless_trace::recording::Recording;

/// The weight of a sample, for formats with one figure per sample.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Weight {
    /// Time in faults, ns.
    #[default]
    Time,
    /// Faults.
    Faults,
}

impl Weight {
    /// ns, or faults.
    fn of(self, fault: &Weighted) -> f64 {
        match self {
            Self::Time => fault.time_ns(),
            Self::Faults => fault.faults,
        }
    }
}

/// The block that was touched, if allocations were recorded.
fn block<'a>(profile: &'a Profile, fault: &Weighted) -> Option<&'a Block> {
    profile.blocks.blocks.get(fault.block? as usize)
}

fn mapping<'a>(profile: &'a Profile, fault: &Weighted) -> &'a str {
    profile.mappings.get(fault.mapping as usize).map_or("", String::as_str)
}

/// The first instant of a recording, ns. Formats that count from zero begin here.
fn begin_ns(recording: &Recording) -> u64 {
    let observation = &recording.observation;
    let first = observation.records.first().map(|record| record.time_ns);
    let level = observation.levels.first().map(|level| level.time_ns);
    let header = Some(recording.header.begin_ns).filter(|&ns| ns > 0);
    [first, level, header].into_iter().flatten().min().unwrap_or(0)
}

/// Rounds figures to whole numbers. It carries each rounding error to the next figure, so the sum is exact.
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

/// The nearest whole number; 0 for NaN and negative figures.
fn whole(value: f64) -> i64 {
    value.round().clamp(0.0, i64::MAX as f64) as i64
}

#[cfg(test)]
mod tests;
