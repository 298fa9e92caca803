//! The pool of a prototype kernel, counted in an emulator: rows that the model predicts from a few counts.
//!
//! In: the counts below, taken once with a prototype of the patch for Debian's 6.12 (one virtual instruction
//! is one ns; 1 GiB; the scrubber looks ten times a second and runs at the lowest priority). Out: hit ratios,
//! and pages zeroed per hit, as ranges beside what was counted.
//!
//! Ranges: how far the kernel has tuned its per-CPU lists down from their limit, an eighth of the memory; the
//! scrubber's share of a processor.

use faultless_trace::stat::Interval;
use serde::Serialize;

use super::memory::Saturation;
use super::model::{Model, Outcome, Scrub, Section, Service, Work, Zone};
use super::parallel;
use super::range::{Draws, Range, interval};
use crate::Refusal;

/// Pages of the guest's memory, and of a MiB.
const PAGES: u32 = 262_144;
const MIB: u32 = 256;
/// The memory of a loop is this many times smaller in the model, and so are its blocks and batches.
const SMALLER: u32 = 8;
/// Virtual ns of a fault that hits, and of one that misses besides.
const HIT_NS: f64 = 1931.0;
const CLEAR_NS: f64 = 3989.0;
const UNMAP_NS: f64 = 542.0;
/// Between two looks of the scrubber. Smaller memory is faulted in less time, so they follow faster.
const POLL_NS: f64 = 100e6;
/// Between two passes, so that the scrubber can catch up.
const PAUSE_NS: f64 = 1e9;
/// The limit of the per-CPU lists with `vm.percpu_pagelist_high_fraction=1000`.
const SMALL_LIST: u32 = 262;

/// The subject of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Figure {
    /// The share of hits in the second pass.
    SecondPass,
    /// The share of hits in the whole run.
    HitRatio,
    /// Pages zeroed for each hit.
    ZeroedPerHit,
}

/// A row: its name, its subject, and the count.
struct Row {
    name: &'static str,
    figure: Figure,
    counted: f64,
    set_up: SetUp,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SetUp {
    /// One program faults so many MiB, unmaps, and begins again.
    Loop { mib: u32, passes: u32, has_small_lists: bool },
    /// Four threads map and unmap 1 to 2048 pages on two processors.
    Churn,
}

const fn again(mib: u32, has_small_lists: bool) -> SetUp {
    SetUp::Loop { mib, passes: 2, has_small_lists }
}

const STEADY: SetUp = SetUp::Loop { mib: 256, passes: 10, has_small_lists: true };

/// The error of the counts: the hit ratios follow from instructions per fault.
pub(super) const COUNTED_WITHIN: f64 = 0.01;

/// The hit ratios follow from instructions per fault: 5495 and 3329 of about 5860 and 5930 without a hit.
const ROWS: [Row; 6] = [
    Row {
        name: "64 MiB again, per-CPU lists tuned",
        figure: Figure::SecondPass,
        counted: 0.09,
        set_up: again(64, false),
    },
    Row {
        name: "256 MiB again, per-CPU lists tuned",
        figure: Figure::SecondPass,
        counted: 0.65,
        set_up: again(256, false),
    },
    Row {
        name: "256 MiB again, small per-CPU lists",
        figure: Figure::SecondPass,
        counted: 0.995,
        set_up: again(256, true),
    },
    Row {
        name: "loop of 256 MiB, zeroed per hit",
        figure: Figure::ZeroedPerHit,
        counted: 1.29,
        set_up: STEADY,
    },
    Row { name: "churn, hit ratio", figure: Figure::HitRatio, counted: 0.014, set_up: SetUp::Churn },
    Row { name: "churn, zeroed per hit", figure: Figure::ZeroedPerHit, counted: 9.0, set_up: SetUp::Churn },
];

/// A row beside its prediction.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Predicted {
    /// The subject of the row.
    pub row: &'static str,
    /// The model's range.
    pub predicted: Interval,
    /// The count.
    pub counted: f64,
}

/// Predicts all rows.
///
/// # Errors
/// A run fails.
pub(crate) fn predictions(samples: usize, seed: u64) -> Result<Vec<Predicted>, Refusal> {
    let mut last: Option<(SetUp, Vec<Outcome>)> = None;
    let mut predicted = Vec::new();
    for row in &ROWS {
        // Rows about the same runs lie beside each other.
        let known = last.take().filter(|(set_up, _)| *set_up == row.set_up);
        let outcomes = match known {
            Some((_, outcomes)) => outcomes,
            None => {
                let draws = Draws::new(samples, 4, seed);
                parallel::map(samples, |index| model(row.set_up, &draws, index).run())?
            }
        };
        let values: Vec<f64> = outcomes.iter().map(|outcome| figure(row.figure, outcome)).collect();
        let predicted_range = interval(&values, 1.0).unwrap_or_default();
        predicted.push(Predicted { row: row.name, predicted: predicted_range, counted: row.counted });
        last = Some((row.set_up, outcomes));
    }
    Ok(predicted)
}

fn figure(figure: Figure, outcome: &Outcome) -> f64 {
    let ratio = |(faults, hits): (u64, u64)| hits as f64 / faults.max(1) as f64;
    match figure {
        Figure::SecondPass => outcome.passes.get(1).copied().map_or(f64::NAN, ratio),
        Figure::HitRatio => outcome.hit_ratio(),
        Figure::ZeroedPerHit => outcome.zeroed as f64 / outcome.hits.max(1) as f64,
    }
}

fn model(set_up: SetUp, draws: &Draws, index: usize) -> Model {
    let mut sample = draws.sample(index);
    let tuned = sample.take(Range::new(1.0 / 12.0, 1.0 / 8.0));
    let list = |share: f64| (share * tuned * f64::from(PAGES)) as u32;
    let (threads, processors, high, stop_order, smaller) = match set_up {
        SetUp::Loop { mib, passes, has_small_lists } => {
            let high = if has_small_lists { SMALL_LIST } else { list(1.0) };
            (vec![Work::passes(passes, mib * MIB / SMALLER)], 1, high, 9, SMALLER)
        }
        SetUp::Churn => {
            let work = Work::uniform(256, (1, 2048));
            // Four threads move between two processors and their lists: from none to their full share.
            (vec![work; 4], 2, list(sample.take(Range::new(0.01, 0.25))), 3, 1)
        }
    };
    let less = smaller.ilog2() as u8;
    let scrub = Scrub {
        per_node: 1,
        start_order: stop_order - less,
        stop_order: stop_order - less,
        page_ns: CLEAR_NS,
        idle_share: sample.take(Range::new(0.5, 1.0)),
        busy_share: sample.take(Range::new(0.015, 0.2)),
        poll_ns: Some(POLL_NS / f64::from(smaller)),
    };
    Model {
        threads,
        has_barrier: false,
        unmaps_apart: false,
        pause_ns: if set_up == SetUp::Churn { 0.0 } else { PAUSE_NS },
        nodes: 1,
        processors,
        service: Service::Fixed,
        path_ns: HIT_NS,
        clear_ns: CLEAR_NS,
        touch_ns: 0.0,
        free_ns: UNMAP_NS,
        lock: Section::default(),
        lock_threads: 4,
        zone: Zone {
            lock: Section::default(),
            batch: 63 / smaller,
            high: high / smaller,
            pages: PAGES / smaller,
            most_order: 10 - less,
            zeroed: 1.0,
            is_apart: false,
            is_prefilled: false,
            dirty: 0,
        },
        saturation: Saturation::Streams(1e9),
        far_times: 1.0,
        scrub: Some(scrub),
        seed: index as u64,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_prototypes_pool_is_predicted_in_kind() {
        let rows = predictions(1, 1).unwrap();
        let of = |name: &str| rows.iter().find(|row| row.row.starts_with(name)).unwrap().predicted;
        let tuned = of("256 MiB again, per-CPU lists tuned");
        let (less, more) = (of("64 MiB again"), of("256 MiB again, small"));
        assert!(less.high < tuned.low && tuned.high < more.low, "{rows:#?}");
        assert!(of("churn, hit").high < 0.1, "{rows:#?}");
    }
}
