//! The change of price that all faults share: the machine's, not the program's.
//!
//! The price of a fault drifts by a third between phases of one machine. With [`DIFF_PRICED_ROWS`] rows or more in
//! all runs, the shared change is the median over these rows, weighted by their time and precision. With fewer rows it is the
//! change of the price of a first touch, calibrated at the start of each run. If its interval excludes 1, rows are
//! judged without it. Times stay as measured.

use serde::Serialize;

use super::Run;
use super::judge::ONE_TAIL;
use super::spread::normal;
use super::table::{Estimate, Table};
use crate::measurement::{Interval, weighted_median};
use crate::tuning::{DIFF_PRICE_SPREAD, DIFF_PRICED_ROWS, DIFF_THRESHOLD};

/// Shared change of the price of a fault, after over before.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Price {
    /// The ratio with its 95 % interval.
    pub ratio: Interval,
    /// Its source.
    pub source: PriceSource,
    /// The ratio by the calibration at the start of the runs.
    pub calibrated: Option<f64>,
}

impl Price {
    /// It exceeds chance, and rows are judged without it.
    pub fn is_told(&self) -> bool {
        self.ratio.low > 1.0 || self.ratio.high < 1.0
    }
}

/// The source of the shared price.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum PriceSource {
    /// The median over rows.
    Rows,
    /// The calibration at the start.
    Calibration,
    /// Neither is known.
    None,
}

/// The shared price by run, relative to the mean of those before, and its change.
pub(super) fn prices(runs: &[&Run], table: &Table, before: usize) -> (Vec<f64>, Price) {
    let calibrated = |run: &&Run| {
        run.recording
            .header
            .calibration
            .map(|found| found.truth_p50_ns)
            .filter(|ns| *ns > 0.0 && ns.is_finite())
    };
    let calibrated: Option<Vec<f64>> = runs.iter().map(calibrated).collect();
    let calibrated = calibrated.map(|prices| relative(&prices, before));
    let (found, deviation, source) = match (of_rows(table, before), &calibrated) {
        (Some((found, deviation)), _) => (found, deviation, PriceSource::Rows),
        (None, Some(found)) => (found.clone(), DIFF_PRICE_SPREAD, PriceSource::Calibration),
        (None, None) => (vec![1.0; runs.len()], 0.0, PriceSource::None),
    };
    let value = mean(&found[before..]);
    let half = normal(ONE_TAIL) * deviation;
    let ratio = Interval { value, low: value * (-half).exp(), high: value * half.exp() };
    let common = Price { ratio, source, calibrated: calibrated.map(|prices| mean(&prices[before..])) };
    // With repeats the rest shows in the spread.
    let is_used = common.is_told() || runs.len() > 2;
    (if is_used { found } else { vec![1.0; runs.len()] }, common)
}

/// The weighted median over the rows that are large in all runs, and the standard deviation of the logarithm of
/// its change; `None` with too few.
fn of_rows(table: &Table, before: usize) -> Option<(Vec<f64>, f64)> {
    let is_large = |(run, all): (&Estimate, &Estimate)| {
        run.faults > 0.0 && run.time_ns > 0.0 && run.time_ns >= DIFF_THRESHOLD * all.time_ns
    };
    let large = table.rows.iter().filter(|row| row.iter().zip(&table.totals).all(is_large));
    let priced = large.map(|row| {
        let prices: Vec<f64> = row.iter().map(|run| run.time_ns / run.faults).collect();
        let of_side = |side: &[Estimate]| {
            let known = side.iter().map(|run| run.price_off[1].powi(2) + DIFF_PRICE_SPREAD.powi(2));
            known.sum::<f64>() / (side.len() * side.len()) as f64
        };
        let variance = of_side(&row[..before]) + of_side(&row[before..]);
        let shares = row.iter().zip(&table.totals).map(|(run, all)| run.time_ns / all.time_ns);
        (relative(&prices, before), shares.sum::<f64>() / variance, variance)
    });
    let priced: Vec<(Vec<f64>, f64, f64)> = priced.collect();
    if priced.len() < DIFF_PRICED_ROWS {
        return None;
    }
    let of_run = |run: usize| {
        let prices = priced.iter().map(|(prices, weight, _)| (prices[run], *weight));
        weighted_median(prices.collect()).unwrap_or(1.0)
    };
    let found: Vec<f64> = (0..table.totals.len()).map(of_run).collect();
    let weights: f64 = priced.iter().map(|row| row.1).sum();
    let squares: f64 = priced.iter().map(|(_, weight, variance)| weight * weight * variance).sum();
    // A median varies by pi / 2 more than a mean.
    let deviation = (std::f64::consts::FRAC_PI_2 * squares).sqrt() / weights;
    Some((relative(&found, before), deviation))
}

/// Prices divided by the mean before.
fn relative(prices: &[f64], before: usize) -> Vec<f64> {
    let base = mean(&prices[..before]);
    prices.iter().map(|price| price / base).collect()
}

/// Geometric: prices are ratios.
fn mean(prices: &[f64]) -> f64 {
    (prices.iter().map(|price| price.ln()).sum::<f64>() / prices.len() as f64).exp()
}
