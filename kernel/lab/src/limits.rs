//! The limits that the patch must keep, each with its figure, a verdict and the test that it rests on.
//!
//! In: a record. Out: limits: held, failed, or not to be said since a cell is missing. A count has no noise, so a
//! verdict needs no interval.

use serde::Serialize;

use crate::figures::{Found, count, share};
use crate::plan::{self, Test};
use crate::record::Record;
use crate::session::{CLEARED, LLC, PATH, SCRUBBED};
use crate::tables::Table;

/// Whether a limit is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Verdict {
    /// The figure is within the limit.
    Holds,
    /// It is not.
    Fails,
    /// A cell is missing.
    CannotSay,
}

impl Verdict {
    fn word(self) -> &'static str {
        match self {
            Self::Holds => "holds",
            Self::Fails => "fails",
            Self::CannotSay => "cannot say",
        }
    }
}

/// One limit.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Limit {
    /// A word that names it.
    pub(crate) id: &'static str,
    /// The question.
    what: &'static str,
    /// The least and the most that hold.
    range: [f64; 2],
    figure: Option<f64>,
    /// How far the figure is out of the range; 0 within.
    beyond: Option<f64>,
    verdict: Verdict,
    /// The test that decides; the worst one of several.
    rests_on: String,
    /// The share of hits of that test, with the patch switched on.
    hits: Option<f64>,
    /// Zeroed pages that the scrubber had in stock for that test, cleared in the idle time before it.
    scrubbed_before: Option<f64>,
}

/// The ratio of an arm's figure to the unpatched kernel's, and where it is asked for.
struct Ratio {
    id: &'static str,
    what: &'static str,
    arm: &'static str,
    quantity: &'static str,
    /// Begin and end of the tests' words.
    tests: [&'static str; 2],
    range: [f64; 2],
}

const fn ratio(
    id: &'static str,
    what: &'static str,
    (arm, quantity): (&'static str, &'static str),
    tests: [&'static str; 2],
    range: [f64; 2],
) -> Ratio {
    Ratio { id, what, arm, quantity, tests, range }
}

/// The test of huge pages.
const THP: &str = "kinds kind=thp mib=32";
const ALIKE: [f64; 2] = [0.95, 1.05];
const FEW: [f64; 2] = [0.0, 0.2];
const MORE: [f64; 2] = [0.0, 1.1];
const SAME: [f64; 2] = [0.0, 1.01];
const DEFAULT: &str = "the same with the kernel's own per-CPU lists";
const DEFAULT_ALL: &str = "the same with the kernel's own per-CPU lists, at 1 and 64 lines";

// A table: one limit a line.
#[rustfmt::skip]
const RATIOS: [Ratio; 15] = [
    ratio("misses-line-1", "LLC misses at 1 line, on / base", ("on", LLC), ["pft mib=64 lines=1 pcp=short", ""], FEW),
    ratio("misses-line-1-default", DEFAULT, ("on", LLC), ["pft mib=64 lines=1 pcp=default", ""], FEW),
    ratio("misses-line-64", "LLC misses at 64 lines, on / base", ("on", LLC), ["pft mib=64 lines=64 pcp=short", ""], ALIKE),
    ratio("misses-line-64-default", DEFAULT, ("on", LLC), ["pft mib=64 lines=64 pcp=default", ""], ALIKE),
    ratio("misses-line-64-empty", "LLC misses at 64 lines, on / base, caches empty before", ("on", LLC), ["pft mib=64 lines=64 cache=empty pcp=short", ""], ALIKE),
    ratio("misses-line-64-empty-default", DEFAULT, ("on", LLC), ["pft mib=64 lines=64 cache=empty pcp=default", ""], ALIKE),
    ratio("path", "path instructions at 1 to 64 lines, on / base", ("on", PATH), ["pft mib=64 lines=", "pcp=short"], MORE),
    ratio("path-default", DEFAULT_ALL, ("on", PATH), ["pft mib=64 lines=", "pcp=default"], MORE),
    ratio("path-threads", "path instructions of 1 to 8 threads, on / base", ("on", PATH), ["pft mib=64 rep=", ""], MORE),
    ratio("path-kinds", "path instructions of every other kind of fault, on / base", ("on", PATH), ["kinds ", ""], MORE),
    ratio("off", "path instructions at 1 to 64 lines, off / base", ("off", PATH), ["pft mib=64 lines=", "pcp=short"], SAME),
    ratio("off-default", DEFAULT_ALL, ("off", PATH), ["pft mib=64 lines=", "pcp=default"], SAME),
    ratio("off-threads", "path instructions of 1 to 8 threads, off / base", ("off", PATH), ["pft mib=64 rep=", ""], SAME),
    ratio("off-kinds", "path instructions of every other kind of fault, off / base", ("off", PATH), ["kinds ", ""], SAME),
    ratio("init-on-alloc-thp", "bytes cleared for a THP, init-on-alloc / base", ("init-on-alloc", CLEARED), [THP, ""], [0.0, 1.05]),
];

/// All limits, also those that no cell was measured for.
pub(crate) fn limits(record: &Record) -> Vec<Limit> {
    let mut limits: Vec<Limit> = RATIOS.iter().map(|ratio| ratio.limit(record)).collect();
    limits.insert(limits.len() - 1, thp(record));
    limits
}

impl Ratio {
    /// The limit by the worst of its tests.
    fn limit(&self, record: &Record) -> Limit {
        let [begin, end] = self.tests;
        let mut worst = (f64::NEG_INFINITY, missing(self.id, self.what, self.range));
        let is_asked = |test: &Test| test.words.starts_with(begin) && test.words.ends_with(end);
        for Test { plan, number, words } in plan::tests().filter(is_asked) {
            let of = |arm| Found::of_test(record, arm, plan, &words);
            let (Some(base), Some(patched)) = (of("base"), of(self.arm)) else { continue };
            let figure = patched.per_page(self.quantity) / base.per_page(self.quantity);
            let out = out(figure, self.range);
            if figure.is_finite() && out > worst.0 {
                let limit = judged(self.id, self.what, self.range, figure, &words);
                worst = (out, limit.with_stock(patched, Found::before(record, self.arm, plan, number)));
            }
        }
        worst.1
    }
}

impl Limit {
    /// What an arm that scrubs had in stock for a test.
    fn with_stock(self, test: Found, before: Option<Found>) -> Self {
        let Some(before) = before else { return self };
        Self { hits: test.hits(), scrubbed_before: Some(before.guest(SCRUBBED)), ..self }
    }
}

/// A page table of the guest, which is x86-64.
const TABLE_BYTES: f64 = (4 << 10) as f64;

/// A THP fault clears its page table's page at most.
fn thp(record: &Record) -> Limit {
    const ID: &str = "thp-clears";
    const WHAT: &str = "bytes cleared by a THP fault, on, at most; of them 4 096 are its page table";
    let range = [0.0, TABLE_BYTES];
    let found = plan::tests().find(|test| test.words == THP).and_then(|test| {
        let found = Found::of_test(record, "on", test.plan, THP)?;
        let figure = Some(found.lap("clear_bytes_max")).filter(|figure| figure.is_finite())?;
        let before = Found::before(record, "on", test.plan, test.number);
        Some(judged(ID, WHAT, range, figure, THP).with_stock(found, before))
    });
    found.unwrap_or_else(|| missing(ID, WHAT, range))
}

/// How far a figure is out of the range, or how near its end, as a negative number.
fn out(figure: f64, [least, most]: [f64; 2]) -> f64 {
    (figure - most).max(least - figure)
}

fn judged(id: &'static str, what: &'static str, range: [f64; 2], figure: f64, test: &str) -> Limit {
    let beyond = out(figure, range).max(0.0);
    let verdict = if beyond == 0.0 { Verdict::Holds } else { Verdict::Fails };
    let (figure, beyond, rests_on) = (Some(figure), Some(beyond), test.to_owned());
    Limit { figure, beyond, verdict, rests_on, ..missing(id, what, range) }
}

fn missing(id: &'static str, what: &'static str, range: [f64; 2]) -> Limit {
    Limit {
        id,
        what,
        range,
        figure: None,
        beyond: None,
        verdict: Verdict::CannotSay,
        rests_on: "no such cell in the record".to_owned(),
        hits: None,
        scrubbed_before: None,
    }
}

/// The limits as a table; without a figure, it has no rows.
pub(crate) fn table(record: &Record) -> Table {
    let limits = limits(record);
    let is_known = limits.iter().any(|limit| limit.figure.is_some());
    let row = |limit: Limit| {
        vec![
            limit.what.to_owned(),
            bounds(limit.range),
            limit.figure.map_or(String::new(), number),
            limit.verdict.word().to_owned(),
            limit.rests_on,
            share(limit.hits),
            limit.scrubbed_before.map_or(String::new(), count),
        ]
    };
    Table {
        title: "The limits of the patch".into(),
        heads: &["", "limit", "figure", "verdict", "rests on", "hits", "scrubbed before"],
        rows: if is_known { limits.into_iter().map(row).collect() } else { Vec::new() },
        remark: "Of several tests, the row has the worst one. pcp: the setting of the per-CPU lists. Scrubbed before: pages \
                 cleared in the idle time before the test, beside those that were left of the test before it. The last row is \
                 of the unpatched kernel: it fails where init_on_alloc=1 clears a huge page twice."
            .into(),
    }
}

fn bounds([least, most]: [f64; 2]) -> String {
    if least == 0.0 {
        format!("<= {}", number(most))
    } else {
        format!("{} to {}", number(least), number(most))
    }
}

/// Ratios with three digits behind the point, counts without.
fn number(value: f64) -> String {
    if value >= 100.0 { count(value) } else { format!("{value:.3}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limit(cells: &[(String, [f64; 2])], id: &str) -> Limit {
        let quantities = |[path, misses]: [f64; 2]| {
            [
                ("section path_instructions", path),
                ("section llc_misses", misses),
                ("guest pages", 10.0),
                ("guest zero_hit", 9.0),
                ("guest zero_miss", 1.0),
                ("laps clear_bytes_max", misses),
            ]
        };
        let all: Vec<_> = cells.iter().map(|(cell, figures)| (cell.as_str(), quantities(*figures))).collect();
        let all: Vec<(&str, &[_])> = all.iter().map(|(cell, figures)| (*cell, &figures[..])).collect();
        limits(&Record::of(&all)).into_iter().find(|limit| limit.id == id).unwrap()
    }

    #[test]
    fn a_limit_holds_fails_or_cannot_be_said() {
        let line =
            |arm: &str, lines: u32| format!("arm={arm} plan=lines test=pft mib=64 lines={lines} pcp=short");
        let record = [
            (line("base", 1), [1000.0, 640.0]),
            (line("on", 1), [1090.0, 20.0]),
            ("arm=on plan=lines test=settle ms=5000 before=1".into(), [0.0; 2]),
            (line("off", 1), [1011.0, 640.0]),
            (line("base", 2), [1000.0, 640.0]),
            (line("on", 2), [1110.0, 40.0]),
            ("arm=on plan=kinds test=kinds kind=thp mib=32".into(), [10.0, TABLE_BYTES]),
        ];
        let found = limit(&record, "misses-line-1");
        assert_eq!(
            (found.verdict, found.figure, found.hits, found.beyond),
            (Verdict::Holds, Some(20.0 / 640.0), Some(0.9), Some(0.0))
        );
        let found = limit(&record, "path");
        assert_eq!(
            (found.verdict, found.rests_on.as_str()),
            (Verdict::Fails, "pft mib=64 lines=2 pcp=short")
        );
        assert_eq!(limit(&record, "off").verdict, Verdict::Fails);
        assert_eq!(limit(&record, "misses-line-64").verdict, Verdict::CannotSay);
        assert_eq!(limit(&record, "thp-clears").verdict, Verdict::Holds);
        assert_eq!(limit(&record[..2], "thp-clears").verdict, Verdict::CannotSay);
    }

    #[test]
    fn a_record_without_a_figure_has_no_table_of_limits() {
        assert!(table(&Record::default()).rows.is_empty());
    }
}
