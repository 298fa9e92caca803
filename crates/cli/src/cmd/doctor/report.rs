//! The report of `faultless doctor`, as JSON has it.

use faultless_prof::price::{Outcome, Price};
use faultless_trace::observation::Host;
use serde::Serialize;

use super::capability::Capability;
use super::row::Row;

/// Version of the JSON output. It rises when a field changes its meaning or disappears.
pub(super) const SCHEMA: u32 = 1;

/// The report, as JSON has it.
#[derive(Debug, Serialize)]
pub(super) struct Report {
    pub(super) schema: u32,
    pub(super) verdict: String,
    pub(super) host: Host,
    pub(super) prices: Vec<PriceRecord>,
    /// Share of a first touch that clearing takes: cache-hot, cache-cold.
    pub(super) clearing_share: Option<(f64, f64)>,
    /// Price of a first touch per byte: base pages divided by THP.
    pub(super) thp_gain: Option<f64>,
    pub(super) settings: Vec<Row>,
    pub(super) capabilities: Vec<Capability>,
}

#[derive(Debug, Serialize)]
pub(super) struct PriceRecord {
    pub(super) id: String,
    pub(super) what: String,
    pub(super) page_bytes: u64,
    pub(super) median_ns: Option<f64>,
    pub(super) mad_ns: Option<f64>,
    pub(super) min_ns: Option<f64>,
    /// Resolution of the clock.
    pub(super) resolution_ns: Option<f64>,
    pub(super) rounds: usize,
    pub(super) cannot_say: Option<String>,
}

impl From<Price> for PriceRecord {
    fn from(price: Price) -> Self {
        let (summary, cannot_say) = match price.outcome {
            Outcome::Measured(summary) => (Some(summary), None),
            Outcome::CannotSay(reason) => (None, Some(reason)),
        };
        Self {
            id: price.id,
            what: price.what,
            page_bytes: price.page_bytes,
            median_ns: summary.map(|summary| summary.median),
            mad_ns: summary.map(|summary| summary.mad),
            min_ns: summary.map(|summary| summary.min),
            resolution_ns: summary.map(|_| price.resolution_ns),
            rounds: summary.map_or(0, |summary| summary.n),
            cannot_say,
        }
    }
}
