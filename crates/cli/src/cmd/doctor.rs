//! `faultless doctor`: what this machine does to page faults, measured first.
//!
//! In: the price list (`prof::price`) and the facts (`os::host`). Out: a verdict in the first line; the
//! prices; the settings that affect faults and what each means here; the capabilities of faultless here. The
//! exit status is 0 whatever the findings. Files that a container hides are left out, not guessed. `check` is
//! separate: it tests whether the measurements are true.
//!
//! It does not change anything.

mod capability;
mod check;
mod huge;
mod machine;
mod memory;
mod row;
mod text;
mod verdict;

use std::io::IsTerminal;
use std::process::ExitCode;

use faultless_os::host::Host;
use faultless_prof::facts;
use faultless_prof::price::{self, Outcome, Price, Prices};
use faultless_trace::observation::Host as HostRecord;
use indicatif::{ProgressBar, ProgressStyle};
use serde::Serialize;

use capability::Capability;
use row::Row;

/// Measure what page faults cost on this machine, and list the settings that affect them.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Print one JSON document instead of the text.
    #[arg(long)]
    json: bool,
    /// Check for some minutes how far `stat` and `record` can be trusted here.
    ///
    /// Both verbs watch programs that time their own touches. With TEXT, only programs whose name contains it
    /// run, as in --check=fork. Exit status: 0 certainly within the limits, else 1.
    #[arg(long, value_name = "TEXT", num_args = 0..=1, require_equals = true, default_missing_value = "")]
    check: Option<String>,
}

/// Version of the JSON output. It rises when a field changes its meaning or disappears.
const SCHEMA: u32 = 1;

/// The report, as JSON has it.
#[derive(Debug, Serialize)]
struct Report {
    schema: u32,
    verdict: String,
    host: HostRecord,
    prices: Vec<PriceRecord>,
    /// Share of a first touch that clearing takes: cache-hot, cache-cold.
    clearing_share: Option<(f64, f64)>,
    /// Price of a first touch per byte: base pages divided by THP.
    thp_gain: Option<f64>,
    settings: Vec<Row>,
    capabilities: Vec<Capability>,
}

#[derive(Debug, Serialize)]
struct PriceRecord {
    id: String,
    what: String,
    page_bytes: u64,
    median_ns: Option<f64>,
    mad_ns: Option<f64>,
    min_ns: Option<f64>,
    /// Resolution of the clock.
    resolution_ns: Option<f64>,
    rounds: usize,
    cannot_say: Option<String>,
}

pub(crate) fn run(args: Args) -> super::Outcome {
    if let Some(only) = &args.check {
        return check::run(only, args.json);
    }
    let host = Host::read();
    let prices = measure(&host);
    let report = report(&host, prices);
    let text = match args.json {
        true => serde_json::to_string_pretty(&report)? + "\n",
        false => text::render(&report, text::width()),
    };
    super::emit(text.as_bytes(), ExitCode::SUCCESS)
}

/// Measures, with a progress bar on a terminal. The bar draws only between rounds: a thread of its own would
/// be charged to the measured calls.
fn measure(host: &Host) -> Prices {
    let bar = match std::io::stderr().is_terminal() {
        true => ProgressBar::new(0),
        false => ProgressBar::hidden(),
    };
    if let Ok(style) = ProgressStyle::with_template("measuring the price of faults {bar:30} {pos}/{len}") {
        bar.set_style(style);
    }
    let prices = price::measure(host, |done, all| {
        bar.set_length(all as u64);
        bar.set_position(done as u64);
    });
    bar.finish_and_clear();
    prices
}

fn report(host: &Host, prices: Prices) -> Report {
    Report {
        schema: SCHEMA,
        verdict: verdict::line(host, &prices),
        host: facts::shorten(host),
        clearing_share: prices.clearing_share(),
        thp_gain: prices.thp_gain(),
        settings: row::all(host, &prices),
        capabilities: capability::all(host),
        prices: prices.list.into_iter().map(PriceRecord::from).collect(),
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_without_any_file_is_still_reported() {
        let report = report(&Host::default(), Prices::default());
        assert!(report.verdict.contains("could not be measured"), "{}", report.verdict);
        let text = text::render(&report, 1000);
        assert!(text.starts_with(&report.verdict));
        assert!(text.contains("What faultless can do here"));
    }
}
