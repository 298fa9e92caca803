//! The figures of one test under one arm: a cell's quantities, and what follows from them.
//!
//! In: results of a record, an arm, and a test of a plan. Out: figures per base page, the share of hits, and the
//! scrubber's work before the test and beside it. Texts of figures for tables.

use std::collections::BTreeMap;

use faultless_trace::measurement::{Bytes, Count, median};

use crate::results::{Quantities, Results, values};

use super::plan::{ARMS, PLANS};
use super::session::{
    CLEAR_LLC, CLEARED, EXPERIMENT, GUEST, HIT, L1, L2, LAPS, LLC, MISS, PAGES, PATH, SCRUBBED, SECTION,
    SETTLE, STRINGS, USER,
};

/// With a smaller share of the pages, a test does not ask for zeroes: its page tables do.
const LEAST_ASKED: f64 = 0.01;

/// A cell's quantities.
#[derive(Clone, Copy, Debug)]
pub(super) struct Found<'a>(pub(super) &'a Quantities);

impl<'a> Found<'a> {
    /// The first cell with these parameters.
    pub(super) fn of(results: &'a Results, parameters: &[(&str, &str)]) -> Option<Self> {
        results.find(EXPERIMENT, parameters).map(|(_, found)| Self(found))
    }

    /// A test of a plan under an arm.
    pub(super) fn of_test(results: &'a Results, arm: &str, plan: &str, test: &str) -> Option<Self> {
        Self::of(results, &parameters(&[("arm", arm), ("plan", plan)], test))
    }

    /// The idle time before a test, by the test's number in its plan, from 1.
    pub(super) fn before(results: &'a Results, arm: &str, plan: &str, number: usize) -> Option<Self> {
        let number = number.to_string();
        let named = [("arm", arm), ("plan", plan), ("test", SETTLE), ("before", &number)];
        Self::of(results, &named)
    }

    /// The median of a quantity.
    pub(super) fn value(self, phase: &str, quantity: &str) -> Option<f64> {
        median(values(self.0, phase, quantity)?)
    }

    /// What the plugin counted of it.
    pub(super) fn section(self, quantity: &str) -> f64 {
        self.value(SECTION, quantity).unwrap_or(0.0)
    }

    /// What the guest counted of it.
    pub(super) fn guest(self, quantity: &str) -> f64 {
        self.value(GUEST, quantity).unwrap_or(0.0)
    }

    /// Base pages that the test made present.
    pub(super) fn pages(self) -> f64 {
        self.guest(PAGES)
    }

    /// What the plugin counted, for each base page.
    pub(super) fn per_page(self, quantity: &str) -> f64 {
        self.section(quantity) / self.pages()
    }

    /// A percentile of single faults, such as `path` and `p99`.
    pub(super) fn lap(self, what: &str, at: &str) -> f64 {
        self.value(LAPS, &format!("{what}_{at}")).unwrap_or(f64::NAN)
    }

    /// Of the pages that needed zeroes, the share that held them already. `None` without the patch, or if too few pages
    /// needed zeroes.
    pub(super) fn hits(self) -> Option<f64> {
        let (hit, miss) = (self.guest(HIT), self.guest(MISS));
        (hit + miss >= LEAST_ASKED * self.pages()).then(|| hit / (hit + miss))
    }
}

/// The parameters of a test of a plan.
pub(super) fn parameters<'a>(named: &[(&'a str, &'a str)], test: &'a str) -> Vec<(&'a str, &'a str)> {
    let words = test.split_whitespace().filter_map(|word| word.split_once('='));
    named.iter().copied().chain(words).collect()
}

/// Figures by test, arm and name. A test's name has `_` between its words.
pub type Figures = BTreeMap<String, BTreeMap<&'static str, BTreeMap<&'static str, f64>>>;

/// All figures that the tables are made of, as numbers.
pub fn figures(results: &Results) -> Figures {
    let mut figures = Figures::new();
    for plan in &PLANS {
        for (index, test) in plan.tests().enumerate() {
            for arm in &ARMS {
                let Some(found) = Found::of_test(results, arm.name, plan.name, test) else { continue };
                let before = Found::before(results, arm.name, plan.name, index + 1);
                let of_test = figures.entry(test.replace(' ', "_")).or_default();
                of_test.insert(arm.name, numbers(found, before));
            }
        }
    }
    figures
}

/// The figures of one test under one arm. `before` is the idle time before it.
fn numbers(found: Found, before: Option<Found>) -> BTreeMap<&'static str, f64> {
    let per_page = [PATH, USER, CLEARED, STRINGS, L1, L2, LLC, CLEAR_LLC];
    let mut numbers: BTreeMap<_, _> = per_page.map(|quantity| (quantity, found.per_page(quantity))).into();
    numbers.insert(PAGES, found.pages());
    for (name, what, at) in [
        ("path_p50", "path", "p50"),
        ("path_p99", "path", "p99"),
        ("clear_bytes_p50", "clear_bytes", "p50"),
        ("clear_bytes_p99", "clear_bytes", "p99"),
        ("clear_bytes_max", "clear_bytes", "max"),
    ] {
        numbers.insert(name, found.lap(what, at));
    }
    if let Some(hits) = found.hits() {
        let (hit, meanwhile) = (found.guest(HIT), found.guest(SCRUBBED));
        let before = before.map_or(0.0, |before| before.guest(SCRUBBED));
        numbers.insert("hit_percent", hits * 100.0);
        numbers.insert(HIT, hit);
        numbers.insert(MISS, found.guest(MISS));
        numbers.insert("scrubbed_before", before);
        numbers.insert("scrubbed_meanwhile", meanwhile);
        numbers.insert("zeroed_per_hit", (before + meanwhile) / hit);
    }
    // JSON has no infinity.
    numbers.retain(|_, number| number.is_finite());
    numbers
}

/// Whether a figure of a test is compared between two records. Others are parts or extremes of these.
pub(crate) fn is_compared(phase: &str, quantity: &str) -> bool {
    let figures: &[&str] = match phase {
        SECTION => &[PATH, CLEARED, STRINGS, LLC],
        GUEST => &[HIT],
        LAPS => &["path_p50", "path_p99"],
        _ => &[],
    };
    figures.contains(&quantity)
}

/// A count with about three digits.
pub(super) fn count(value: f64) -> String {
    match value {
        value if !value.is_finite() => "-".to_owned(),
        0.0 => "0".to_owned(),
        value if value >= 100.0 => Count(value.round() as u64).to_string(),
        value if value >= 1.0 => format!("{value:.1}"),
        value => format!("{value:.3}"),
    }
}

/// A share in percent; nothing for none.
pub(super) fn share(value: Option<f64>) -> String {
    value.filter(|value| value.is_finite()).map_or(String::new(), |value| format!("{:.1} %", value * 100.0))
}

/// A size with its unit.
pub(super) fn size(bytes: f64) -> String {
    Bytes(bytes.max(0.0).round() as u64).to_string()
}
