//! Two records beside each other: per cell, phase and quantity the ratio of the second to the first, and
//! whether it exceeds noise.
//!
//! In: results of both. Out: changes, the largest first; then cells that only one record has; then figures that did
//! not change. A change exceeds noise when the interval of the ratio lies wholly outside 1 ± 2 %. The difference
//! must also be larger than the cost of reading the clock, and larger than the few faults of any program.
//!
//! It does not read records, and it does not explain a change.

use std::collections::BTreeSet;

use faultless_trace::change::{Change, Direction};
use faultless_trace::measurement::{self, median_interval};
use faultless_trace::stat::Interval;

use crate::cell::Cell;
use crate::results::{Quantities, Results};
use crate::sample::MACHINE;

/// A ratio within this of 1 is not worth acting on.
pub const ABOUT_ONE: f64 = 0.02;
/// A smaller difference in ns does not count: reading the clock and scheduling take as much.
pub const NS: f64 = 20_000.0;
/// The same for user and system time. The kernel splits them by its ticks; this is one tick at 250 Hz.
pub const TICK_NS: f64 = 4e6;
/// The same in faults: a program takes as many for code and data that it uses for the first time.
pub const FAULTS: f64 = 32.0;
/// The same in bytes.
pub const BYTES: f64 = 1024.0 * 1024.0;
/// The upper end of the expected count. `trial` derives it from the cell and writes it beside the measured
/// count.
const BOUND: &str = "most_faults";

/// Compares `b` with `a`.
pub fn compare(a: &Results, b: &Results) -> Vec<Change> {
    let mut changes = Vec::new();
    let cells: BTreeSet<&Cell> = a.all().chain(b.all()).map(|(cell, _)| cell).collect();
    for cell in cells {
        match (a.cell(cell), b.cell(cell)) {
            (Some(a), Some(b)) => changes.extend(of_cell(cell, a, b)),
            (a, _) => {
                let kind = if a.is_some() { Direction::Removed } else { Direction::Added };
                changes.push(change(kind, cell, ("", "")));
            }
        }
    }
    changes.sort_by(|a, b| rank(a).total_cmp(&rank(b)));
    changes
}

fn of_cell(cell: &Cell, a: &Quantities, b: &Quantities) -> Vec<Change> {
    let names: BTreeSet<&(String, String)> = a.keys().chain(b.keys()).collect();
    let is_compared = |(phase, quantity): &&(String, String)| phase != MACHINE && quantity != BOUND;
    let compared = names.into_iter().filter(is_compared);
    compared.map(|name| of_figure(cell, name, a.get(name), b.get(name))).collect()
}

fn of_figure(cell: &Cell, name: &(String, String), a: Option<&Vec<f64>>, b: Option<&Vec<f64>>) -> Change {
    let figures = [a, b].map(|values| values.and_then(|values| median_interval(values)));
    let ratio = a.zip(b).and_then(|(a, b)| measurement::ratio_of_independent(b, a));
    let kind = match figures {
        [Some(a), Some(b)] => {
            let is_seen = (a.value - b.value).abs() > grain(&name.1);
            // A figure of 0 has no ratio: then the intervals must not overlap.
            let is_beyond = ratio.map_or(a.high < b.low || b.high < a.low, |ratio| away(&ratio) > 0.0);
            if !(is_seen && is_beyond) {
                Direction::Alike
            } else if b.value > a.value {
                Direction::More
            } else {
                Direction::Less
            }
        }
        [Some(_), None] => Direction::Removed,
        _ => Direction::Added,
    };
    Change { figures, ratio, ..change(kind, cell, (&name.0, &name.1)) }
}

/// Without figures.
fn change(kind: Direction, cell: &Cell, (phase, quantity): (&str, &str)) -> Change {
    Change {
        kind,
        experiment: cell.experiment.clone(),
        cell: cell.words().join(" "),
        phase: phase.into(),
        quantity: quantity.into(),
        figures: [None; 2],
        ratio: None,
    }
}

/// The largest difference of a quantity that does not count.
fn grain(quantity: &str) -> f64 {
    let grains =
        [("user_ns", TICK_NS), ("system_ns", TICK_NS), ("_ns", NS), ("_faults", FAULTS), ("_bytes", BYTES)];
    grains.into_iter().find(|(unit, _)| quantity.ends_with(unit)).map_or(0.0, |(_, grain)| grain)
}

/// How far an interval lies from 1, as a logarithm; 0 where it contains 1 or comes close to it.
fn away(ratio: &Interval) -> f64 {
    let end = if ratio.low > 1.0 { ratio.low } else { 1.0 / ratio.high.max(f64::MIN_POSITIVE) };
    (end.ln() - ABOUT_ONE.ln_1p()).max(0.0)
}

fn rank(change: &Change) -> f64 {
    match change.kind {
        Direction::More | Direction::Less => -change.ratio.as_ref().map_or(f64::MAX, away),
        Direction::Added | Direction::Removed => 1.0,
        Direction::Alike => 2.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::Row;

    fn results(rows: &[(&str, &str, &str, &[f64])]) -> Results {
        let row = |(cell, phase, quantity, values): &(&str, &str, &str, &[f64])| {
            let row = |(index, value): (usize, &f64)| Row {
                experiment: "touch".into(),
                cell: (*cell).into(),
                round: index as u32 + 1,
                phase: (*phase).into(),
                quantity: (*quantity).into(),
                value: *value,
            };
            values.iter().enumerate().map(row).collect::<Vec<_>>()
        };
        Results::of(rows.iter().flat_map(row).collect()).unwrap()
    }

    #[test]
    fn what_changed_most_comes_first_and_noise_is_alike() {
        let a = results(&[
            ("threads=1", "first", "wall_ns", &[1e6, 1.01e6, 0.99e6, 1e6]),
            ("threads=2", "first", "wall_ns", &[1e6, 1.01e6, 0.99e6, 1e6]),
            ("threads=4", "first", "wall_ns", &[1e6, 1.4e6, 0.7e6, 1e6]),
            ("threads=8", "first", "wall_ns", &[1e6]),
        ]);
        let b = results(&[
            ("threads=1", "first", "wall_ns", &[0.5e6, 0.51e6, 0.49e6, 0.5e6]),
            ("threads=2", "first", "wall_ns", &[4e6, 4.1e6, 3.9e6, 4e6]),
            ("threads=4", "first", "wall_ns", &[1.1e6, 1.5e6, 0.8e6, 1e6]),
            ("threads=16", "first", "wall_ns", &[1e6]),
        ]);
        let found: Vec<_> = compare(&a, &b).into_iter().map(|change| (change.kind, change.cell)).collect();
        let cell = |threads| format!("threads={threads}");
        let (ends, middle) = ([&found[..2], &found[4..]].concat(), &found[2..4]);
        assert_eq!(
            ends,
            [(Direction::More, cell(2)), (Direction::Less, cell(1)), (Direction::Alike, cell(4))]
        );
        assert!(
            middle.contains(&(Direction::Added, cell(16))) && middle.contains(&(Direction::Removed, cell(8)))
        );
    }

    #[test]
    fn a_few_faults_and_microseconds_are_nothing_and_from_none_to_many_is_more() {
        let a = results(&[
            ("", "second", "minor_faults", &[2.0; 5]),
            ("", "second", "wall_ns", &[900.0; 5]),
            ("", "third", "minor_faults", &[0.0; 5]),
        ]);
        let b = results(&[
            ("", "second", "minor_faults", &[9.0; 5]),
            ("", "second", "wall_ns", &[2_900.0; 5]),
            ("", "third", "minor_faults", &[512.0; 5]),
        ]);
        let changes = compare(&a, &b);
        assert_eq!(changes[0].kind, Direction::More);
        assert_eq!((changes[0].phase.as_str(), changes[0].quantity.as_str()), ("third", "minor_faults"));
        assert_eq!((changes[0].ratio, changes.len()), (None, 3));
        assert!(changes[1..].iter().all(|change| change.kind == Direction::Alike));
    }
}
