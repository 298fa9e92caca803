//! What all faults of a run were dearer than those of another: the machine, not the program.
//!
//! The price of a fault drifts by a third between phases of one machine. Where three rows or more are in all runs, the
//! median of how their prices moved is common to them and is taken out; where they are fewer, the price of a first touch
//! that was calibrated at the start of each run.

use serde::Serialize;

use super::judge::Estimate;
use super::table::Table;
use super::{Run, Settings};
use crate::measurement::median;
use crate::tuning::{DIFF_CALIBRATION_APART, DIFF_PRICED_ROWS, DIFF_THRESHOLD};

/// What faults after were dearer than those before, all alike.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Price {
    /// Times as dear; 1 where nothing was taken out.
    pub ratio: f64,
    /// Where it is from.
    pub source: Source,
    /// What the calibration at the start of the runs says.
    pub calibrated: Option<f64>,
}

/// Where the common price is from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Source {
    /// The median over rows.
    Rows,
    /// The calibration at the start.
    Calibration,
    /// Nothing: times are as they were measured.
    None,
}

/// Prices of all runs.
pub(super) struct Prices {
    /// Of each, with 1 for those before, in the mean.
    pub(super) runs: Vec<f64>,
    pub(super) common: Price,
    /// Rows and calibration disagree.
    pub(super) warning: Option<String>,
}

pub(super) fn prices(runs: &[&Run], table: &Table, before: usize, settings: &Settings) -> Prices {
    let calibrated: Option<Vec<f64>> = runs
        .iter()
        .map(|run| {
            Some(run.recording.header.calibration?.truth_p50_ns).filter(|ns| *ns > 0.0 && ns.is_finite())
        })
        .collect();
    let calibrated = calibrated.map(|prices| relative(&prices, before));
    let by_rows = of_rows(table, before).filter(|_| !settings.raw_times);
    let by_calibration = calibrated.clone().filter(|_| !settings.raw_times);
    let (found, source) = match (by_rows, by_calibration) {
        (Some(found), _) => (found, Source::Rows),
        (None, Some(found)) => (found, Source::Calibration),
        (None, None) => (vec![1.0; runs.len()], Source::None),
    };
    let ratio = mean(&found[before..]);
    let calibrated = calibrated.map(|prices| mean(&prices[before..]));
    let apart = |calibrated: &f64| (ratio / calibrated).ln().abs() > DIFF_CALIBRATION_APART.ln_1p();
    let warning = calibrated.filter(|c| source == Source::Rows && apart(c)).map(|calibrated| {
        format!(
            "all rows alike have faults {ratio:.2} times as dear after, where a first touch calibrated at the start is \
             {calibrated:.2} times as dear: perhaps it is not the machine but what all rows have in common; --raw-times \
             leaves it in"
        )
    });
    Prices { runs: found, common: Price { ratio, source, calibrated }, warning }
}

/// The median over the rows that are large in all runs; `None` where they are too few.
fn of_rows(table: &Table, before: usize) -> Option<Vec<f64>> {
    let is_large = |(run, all): (&Estimate, &Estimate)| {
        run.faults > 0.0 && run.time_ns > 0.0 && run.time_ns >= DIFF_THRESHOLD * all.time_ns
    };
    let rows = table.rows.iter().filter(|row| row.iter().zip(&table.totals).all(is_large));
    let moved: Vec<Vec<f64>> = rows
        .map(|row| {
            let prices: Vec<f64> = row.iter().map(|run| run.time_ns / run.faults).collect();
            relative(&prices, before)
        })
        .collect();
    if moved.len() < DIFF_PRICED_ROWS {
        return None;
    }
    let of_run = |run: usize| median(&moved.iter().map(|row| row[run]).collect::<Vec<_>>());
    let found: Option<Vec<f64>> = (0..table.totals.len()).map(of_run).collect();
    found.map(|prices| relative(&prices, before))
}

/// Divided by the mean of those before.
fn relative(prices: &[f64], before: usize) -> Vec<f64> {
    let base = mean(&prices[..before]);
    prices.iter().map(|price| price / base).collect()
}

/// Geometric: prices are ratios.
fn mean(prices: &[f64]) -> f64 {
    (prices.iter().map(|price| price.ln()).sum::<f64>() / prices.len() as f64).exp()
}
