//! The figures of one test under one arm: a cell's quantities, and what follows from them.
//!
//! In: a record, an arm, and a test of a plan. Out: figures per base page, the share of hits, and the scrubber's work
//! before the test and beside it. Texts of figures for tables.

use std::collections::BTreeMap;

use faultless_trace::measurement::Count;

use crate::plan::{self, ARMS, Test};
use crate::record::{Quantities, Record};
use crate::session::{CLEAR_LLC, CLEARED, HIT, L1, L2, LLC, MISS, PAGES, PATH, SCRUBBED, STRINGS, USER};

/// With a smaller share of the pages, a test does not ask for zeroes: its page tables do.
const LEAST_ASKED: f64 = 0.01;

/// A cell's quantities.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Found<'a>(&'a Quantities);

impl<'a> Found<'a> {
    /// The first cell with these `NAME=VALUE` words.
    pub(crate) fn of(record: &'a Record, words: &str) -> Option<Self> {
        record.find(words).map(|(_, found)| Self(found))
    }

    /// A test of a plan under an arm.
    pub(crate) fn of_test(record: &'a Record, arm: &str, plan: &str, test: &str) -> Option<Self> {
        // The first word is the program.
        let parameters = test.split_once(' ').map_or("", |(_, parameters)| parameters);
        Self::of(record, &format!("arm={arm} plan={plan} {parameters}"))
    }

    /// The idle time before a test, by the test's number in its plan; nothing for an arm that does not scrub.
    pub(crate) fn before(record: &'a Record, arm: &str, plan: &str, number: usize) -> Option<Self> {
        let words = format!("arm={arm} plan={plan} test=settle before={number}");
        plan::scrubs(arm).then(|| Self::of(record, &words)).flatten()
    }

    fn value(self, phase: &str, quantity: &str) -> Option<f64> {
        self.0.get(&format!("{phase} {quantity}")).copied()
    }

    /// What the guest counted of it.
    pub(crate) fn guest(self, quantity: &str) -> f64 {
        self.value("guest", quantity).unwrap_or(0.0)
    }

    /// Base pages that the test made present.
    pub(crate) fn pages(self) -> f64 {
        self.guest(PAGES)
    }

    /// What the plugin counted, for each base page.
    pub(crate) fn per_page(self, quantity: &str) -> f64 {
        self.value("section", quantity).unwrap_or(0.0) / self.pages()
    }

    /// A percentile of single faults, such as `path_p99`.
    pub(crate) fn lap(self, quantity: &str) -> f64 {
        self.value("laps", quantity).unwrap_or(f64::NAN)
    }

    /// Of the pages that needed zeroes, the share that held them already. `None` without the patch, or if too few pages
    /// needed zeroes.
    pub(crate) fn hits(self) -> Option<f64> {
        let (hit, miss) = (self.guest(HIT), self.guest(MISS));
        (hit + miss >= LEAST_ASKED * self.pages()).then(|| hit / (hit + miss))
    }
}

/// Figures by test, arm and name. A test's name has `_` between its words.
pub(crate) type Figures = BTreeMap<String, BTreeMap<&'static str, BTreeMap<&'static str, f64>>>;

/// All figures of a record.
pub(crate) fn figures(record: &Record) -> Figures {
    let mut figures = Figures::new();
    for Test { plan, number, words } in plan::tests() {
        for arm in &ARMS {
            let Some(found) = Found::of_test(record, arm.name, plan, &words) else { continue };
            let of_test = figures.entry(words.replace(' ', "_")).or_default();
            of_test.insert(arm.name, numbers(found, Found::before(record, arm.name, plan, number)));
        }
    }
    figures
}

/// The figures of one test under one arm. `before` is the idle time before it.
fn numbers(found: Found, before: Option<Found>) -> BTreeMap<&'static str, f64> {
    let per_page = [PATH, USER, CLEARED, STRINGS, L1, L2, LLC, CLEAR_LLC];
    let laps = ["path_p50", "path_p99", "clear_bytes_p50", "clear_bytes_p99", "clear_bytes_max"];
    let mut numbers: BTreeMap<_, _> = per_page.map(|quantity| (quantity, found.per_page(quantity))).into();
    numbers.extend(laps.map(|quantity| (quantity, found.lap(quantity))));
    numbers.insert(PAGES, found.pages());
    if let Some(hits) = found.hits() {
        let (hit, meanwhile) = (found.guest(HIT), found.guest(SCRUBBED));
        let before = before.map_or(0.0, |before| before.guest(SCRUBBED));
        numbers.extend([
            ("hit_percent", hits * 100.0),
            (HIT, hit),
            (MISS, found.guest(MISS)),
            ("scrubbed_before", before),
            ("scrubbed_meanwhile", meanwhile),
            ("zeroed_per_hit", (before + meanwhile) / hit),
        ]);
    }
    // JSON has no infinity.
    numbers.retain(|_, number| number.is_finite());
    numbers
}

/// A count with about three digits.
pub(crate) fn count(value: f64) -> String {
    match value {
        value if !value.is_finite() => "-".to_owned(),
        0.0 => "0".to_owned(),
        value if value >= 100.0 => Count(value.round() as u64).to_string(),
        value if value >= 1.0 => format!("{value:.1}"),
        value => format!("{value:.3}"),
    }
}

/// A share in percent; nothing for none.
pub(crate) fn share(value: Option<f64>) -> String {
    value.filter(|value| value.is_finite()).map_or(String::new(), |value| format!("{:.1} %", value * 100.0))
}
