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
mod report;
mod row;
mod text;
mod verdict;

use std::io::IsTerminal;
use std::process::ExitCode;

use faultless_console::{Outcome, emit};
use faultless_os::host::Host;
use faultless_prof::facts;
use faultless_prof::price::{self, Prices};
use indicatif::{ProgressBar, ProgressStyle};

use report::{PriceRecord, Report, SCHEMA};
use row::Row;

/// Measure what page faults cost on this machine, and list the settings that affect them.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
EXAMPLES
  faultless doctor
  faultless doctor --json | jq '.prices'
  faultless doctor --check                       # some minutes: how far stat is right here
  faultless doctor --check=fork")]
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

pub(crate) fn run(args: Args) -> Outcome {
    if let Some(only) = &args.check {
        return check::run(only, args.json);
    }
    let host = Host::read();
    let prices = measure(&host);
    let report = report(&host, prices);
    let text = if args.json { faultless_report::json(&report) } else { text::render(&report, text::width()) };
    emit(text.as_bytes(), ExitCode::SUCCESS)
}

/// All rows that apply, the urgent ones first.
fn rows(host: &Host, prices: &Prices) -> Vec<Row> {
    let rules = huge::RULES.iter().chain(machine::RULES).chain(memory::RULES);
    let mut rows: Vec<Row> = rules.filter_map(|rule| rule(host, prices)).collect();
    rows.sort_by_key(|row| row.grade);
    rows
}

/// Measures, with a progress bar on a terminal. The bar draws only between rounds: a thread of its own would
/// be charged to the measured calls.
fn measure(host: &Host) -> Prices {
    let bar = if std::io::stderr().is_terminal() { ProgressBar::new(0) } else { ProgressBar::hidden() };
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
        settings: rows(host, &prices),
        capabilities: capability::all(host),
        prices: prices.list.into_iter().map(PriceRecord::from).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::row::Grade;
    use super::*;

    #[test]
    fn no_row_is_urgent_where_nothing_is_known() {
        let rows = rows(&Host::default(), &Prices::default());
        let urgent: Vec<_> = rows.iter().filter(|row| row.grade == Grade::Act).collect();
        assert!(urgent.is_empty(), "{urgent:?}");
    }

    #[test]
    fn every_row_of_this_machine_has_a_meaning_and_a_source() {
        for row in rows(&Host::read(), &Prices::default()) {
            assert!(!row.meaning.is_empty() && !row.source.is_empty(), "{row:?}");
            assert!(row.grade != Grade::Act || row.advice.is_some(), "urgent without advice: {row:?}");
        }
    }

    #[test]
    fn a_machine_without_any_file_is_still_reported() {
        let mut report = report(&Host::default(), Prices::default());
        assert!(report.verdict.contains("could not be measured"), "{}", report.verdict);
        let text = text::render(&report, 1000);
        assert!(text.starts_with(&report.verdict));
        assert!(text.contains("What faultless can do here"));
        assert!(text.contains("unknown processors"));
        report.host.cpus = 1;
        assert!(text::render(&report, 1000).contains("1 processor,"));
    }
}
