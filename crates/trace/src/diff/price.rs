//! The change of price that all faults share: the machine's, not the program's.
//!
//! The price of a fault drifts by a third between phases of one machine. With three rows or more in all runs,
//! the shared change is the median over these rows, weighted by their time and by the precision of their
//! price. With fewer rows it is the change of the price of a first touch, calibrated at the start of each
//! run. If its interval excludes 1, rows are judged without it. Times stay as measured.

use serde::Serialize;

use super::Run;
use super::estimate::Estimate;
use super::spread::normal;
use super::table::Table;
use crate::measurement::{Interval, weighted_median};
use crate::tuning::{DIFF_CALIBRATION_APART, DIFF_PRICE_SPREAD, DIFF_PRICED_ROWS, DIFF_THRESHOLD};

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

/// Prices of all runs.
pub(super) struct Prices {
    /// By run, relative to the mean of those before.
    pub(super) runs: Vec<f64>,
    pub(super) common: Price,
    /// Rows and calibration disagree.
    pub(super) warning: Option<String>,
}

pub(super) fn prices(runs: &[&Run], table: &Table, before: usize) -> Prices {
    let calibrated: Option<Vec<f64>> = runs
        .iter()
        .map(|run| {
            Some(run.recording.header.calibration?.truth_p50_ns).filter(|ns| *ns > 0.0 && ns.is_finite())
        })
        .collect();
    let calibrated = calibrated.map(|prices| relative(&prices, before));
    let by_calibration = || calibrated.clone().map(|found| (found, DIFF_CALIBRATION_APART.ln_1p()));
    let (found, half, source) = match (of_rows(table, before), by_calibration()) {
        (Some((found, half)), _) => (found, half, PriceSource::Rows),
        (None, Some((found, half))) => (found, half, PriceSource::Calibration),
        (None, None) => (vec![1.0; runs.len()], 0.0, PriceSource::None),
    };
    let value = mean(&found[before..]);
    let ratio = Interval { value, low: value / half.exp(), high: value * half.exp() };
    let calibrated = calibrated.map(|prices| mean(&prices[before..]));
    let common = Price { ratio, source, calibrated };
    let apart = |calibrated: &f64| (value / calibrated).ln().abs() > DIFF_CALIBRATION_APART.ln_1p();
    let is_doubtful = source == PriceSource::Rows && common.is_told();
    let warning = calibrated.filter(|calibrated| is_doubtful && apart(calibrated)).map(|calibrated| {
        format!(
            "all rows alike have faults {value:.2} times as dear after, where a first touch calibrated at the start is \
             {calibrated:.2} times as dear: perhaps it is not the machine but what all rows have in common"
        )
    });
    // With repeats the rest shows in the spread.
    let is_used = common.is_told() || runs.len() > 2;
    Prices { runs: if is_used { found } else { vec![1.0; runs.len()] }, common, warning }
}

/// The weighted median over the rows that are large in all runs, and half the interval of the logarithm of
/// the ratio; `None` with too few rows.
fn of_rows(table: &Table, before: usize) -> Option<(Vec<f64>, f64)> {
    let is_large = |(run, all): (&Estimate, &Estimate)| {
        run.faults > 0.0 && run.time_ns > 0.0 && run.time_ns >= DIFF_THRESHOLD * all.time_ns
    };
    let rows = table.rows.iter().filter(|row| row.iter().zip(&table.totals).all(is_large));
    let mut moved: Vec<(Vec<f64>, f64, f64)> = Vec::new();
    for row in rows {
        let prices: Vec<f64> = row.iter().map(|run| run.time_ns / run.faults).collect();
        let of_side = |side: &[Estimate]| {
            let known = side.iter().map(|run| run.price_variance + DIFF_PRICE_SPREAD * DIFF_PRICE_SPREAD);
            known.sum::<f64>() / (side.len() * side.len()) as f64
        };
        let variance = of_side(&row[..before]) + of_side(&row[before..]);
        let shares = row.iter().zip(&table.totals).map(|(run, all)| run.time_ns / all.time_ns);
        let weight = shares.sum::<f64>() / row.len() as f64 / variance;
        moved.push((relative(&prices, before), weight, variance));
    }
    if moved.len() < DIFF_PRICED_ROWS {
        return None;
    }
    let of_run = |run: usize| {
        let prices = moved.iter().map(|(prices, weight, _)| (prices[run], *weight));
        weighted_median(prices.collect()).unwrap_or(1.0)
    };
    let found: Vec<f64> = (0..table.totals.len()).map(of_run).collect();
    let weights: f64 = moved.iter().map(|row| row.1).sum();
    let squares: f64 = moved.iter().map(|(_, weight, variance)| weight * weight * variance).sum();
    // A median varies by pi / 2 more than a mean.
    let deviation = (std::f64::consts::FRAC_PI_2 * squares).sqrt() / weights;
    Some((relative(&found, before), normal(0.025) * deviation))
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
