//! The limits that the patch must keep, each with its figure, a verdict and the tests that it rests on.
//!
//! In: results of a record. Out: limits: held, failed, or not to be said since a cell is missing. A count has no noise,
//! so a verdict needs no interval.

use serde::Serialize;

use crate::experiment::Table;
use crate::results::Results;

use super::found::{Found, count, share};
use super::plan::{self, PLANS};
use super::session::{CLEARED, LLC, PATH};

/// Whether a limit is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// The figure is within the limit.
    Holds,
    /// It is not.
    Fails,
    /// A cell is missing.
    CannotSay,
}

impl Verdict {
    /// A word or two.
    pub fn word(self) -> &'static str {
        match self {
            Self::Holds => "holds",
            Self::Fails => "fails",
            Self::CannotSay => "cannot say",
        }
    }
}

/// One limit.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Limit {
    /// A word that names it.
    pub id: &'static str,
    /// The question.
    pub what: &'static str,
    /// The least and the most that hold.
    pub range: [f64; 2],
    /// The figure.
    pub figure: Option<f64>,
    /// How far the figure is out of the range; 0 within.
    pub beyond: Option<f64>,
    /// Whether it is within.
    pub verdict: Verdict,
    /// The test that decides; the worst one of several.
    pub rests_on: String,
    /// The share of hits of that test, with the patch switched on.
    pub hits: Option<f64>,
    /// Zeroed pages that the scrubber had in stock for that test, cleared in the idle time before it.
    pub scrubbed_before: Option<f64>,
}

/// Which tests a limit rests on.
type Tests = fn(&str) -> bool;

const SHORT_LISTS: Tests = |test| test.starts_with("pft mib=64 lines=") && test.ends_with("pcp=short");
const DEFAULT_LISTS: Tests = |test| test.starts_with("pft mib=64 lines=") && test.ends_with("pcp=default");
const THREADS: Tests = |test| test.starts_with("pft mib=64 rep=");
const KINDS: Tests = |test| test.starts_with("kinds ");

/// The ratio of an arm's figure to the unpatched kernel's, and where it is asked for.
struct Ratio {
    id: &'static str,
    what: &'static str,
    arm: &'static str,
    quantity: &'static str,
    tests: Tests,
    range: [f64; 2],
}

const RATIOS: [Ratio; 15] = [
    Ratio {
        id: "misses-line-1",
        what: "LLC misses at 1 line, on / base",
        arm: "on",
        quantity: LLC,
        tests: |test| test == "pft mib=64 lines=1 pcp=short",
        range: [0.0, 0.2],
    },
    Ratio {
        id: "misses-line-1-default",
        what: "the same with the kernel's own per-CPU lists",
        arm: "on",
        quantity: LLC,
        tests: |test| test == "pft mib=64 lines=1 pcp=default",
        range: [0.0, 0.2],
    },
    Ratio {
        id: "misses-line-64",
        what: "LLC misses at 64 lines, on / base",
        arm: "on",
        quantity: LLC,
        tests: |test| test == "pft mib=64 lines=64 pcp=short",
        range: [0.95, 1.05],
    },
    Ratio {
        id: "misses-line-64-default",
        what: "the same with the kernel's own per-CPU lists",
        arm: "on",
        quantity: LLC,
        tests: |test| test == "pft mib=64 lines=64 pcp=default",
        range: [0.95, 1.05],
    },
    Ratio {
        id: "misses-line-64-empty",
        what: "LLC misses at 64 lines, on / base, caches empty before",
        arm: "on",
        quantity: LLC,
        tests: |test| test == "pft mib=64 lines=64 cache=empty pcp=short",
        range: [0.95, 1.05],
    },
    Ratio {
        id: "misses-line-64-empty-default",
        what: "the same with the kernel's own per-CPU lists",
        arm: "on",
        quantity: LLC,
        tests: |test| test == "pft mib=64 lines=64 cache=empty pcp=default",
        range: [0.95, 1.05],
    },
    Ratio {
        id: "path",
        what: "path instructions at 1 to 64 lines, on / base",
        arm: "on",
        quantity: PATH,
        tests: SHORT_LISTS,
        range: [0.0, 1.1],
    },
    Ratio {
        id: "path-default",
        what: "the same with the kernel's own per-CPU lists, at 1 and 64 lines",
        arm: "on",
        quantity: PATH,
        tests: DEFAULT_LISTS,
        range: [0.0, 1.1],
    },
    Ratio {
        id: "path-threads",
        what: "path instructions of 1 to 8 threads, on / base",
        arm: "on",
        quantity: PATH,
        tests: THREADS,
        range: [0.0, 1.1],
    },
    Ratio {
        id: "path-kinds",
        what: "path instructions of every other kind of fault, on / base",
        arm: "on",
        quantity: PATH,
        tests: KINDS,
        range: [0.0, 1.1],
    },
    Ratio {
        id: "off",
        what: "path instructions at 1 to 64 lines, off / base",
        arm: "off",
        quantity: PATH,
        tests: SHORT_LISTS,
        range: [0.0, 1.01],
    },
    Ratio {
        id: "off-default",
        what: "the same with the kernel's own per-CPU lists, at 1 and 64 lines",
        arm: "off",
        quantity: PATH,
        tests: DEFAULT_LISTS,
        range: [0.0, 1.01],
    },
    Ratio {
        id: "off-threads",
        what: "path instructions of 1 to 8 threads, off / base",
        arm: "off",
        quantity: PATH,
        tests: THREADS,
        range: [0.0, 1.01],
    },
    Ratio {
        id: "off-kinds",
        what: "path instructions of every other kind of fault, off / base",
        arm: "off",
        quantity: PATH,
        tests: KINDS,
        range: [0.0, 1.01],
    },
    Ratio {
        id: "init-on-alloc-thp",
        what: "bytes cleared for a THP, init-on-alloc / base",
        arm: "init-on-alloc",
        quantity: CLEARED,
        tests: |test| test == THP,
        range: [0.0, 1.05],
    },
];

/// The test of huge pages.
const THP: &str = "kinds kind=thp mib=32";

/// All limits, also those that no cell was measured for.
pub fn limits(results: &Results) -> Vec<Limit> {
    let mut limits: Vec<Limit> = RATIOS.iter().map(|ratio| ratio.limit(results)).collect();
    limits.insert(limits.len() - 1, thp(results));
    limits
}

impl Ratio {
    fn limit(&self, results: &Results) -> Limit {
        let mut worst: Option<(f64, Limit)> = None;
        for plan in &PLANS {
            for (index, test) in plan.tests().enumerate().filter(|(_, test)| (self.tests)(test)) {
                let of = |arm| Found::of_test(results, arm, plan.name, test);
                let (Some(base), Some(patched)) = (of("base"), of(self.arm)) else { continue };
                let figure = patched.per_page(self.quantity) / base.per_page(self.quantity);
                let out = out(figure, self.range);
                if !figure.is_finite() || worst.as_ref().is_some_and(|(least, _)| out <= *least) {
                    continue;
                }
                let place = (plan.name, index + 1, test);
                worst = Some((out, self.limit_of(results, figure, place, patched)));
            }
        }
        worst.map_or_else(|| missing(self.id, self.what, self.range), |(_, limit)| limit)
    }

    fn limit_of(&self, results: &Results, figure: f64, place: (&str, usize, &str), patched: Found) -> Limit {
        let (plan, number, test) = place;
        Limit {
            hits: is_on(self.arm).then(|| patched.hits()).flatten(),
            scrubbed_before: is_on(self.arm).then(|| stock(results, self.arm, plan, number)).flatten(),
            ..judged(self.id, self.what, self.range, figure, test)
        }
    }
}

/// A page table of the guest, which is x86-64.
const TABLE_BYTES: f64 = (4 << 10) as f64;

/// A THP fault clears its page table's page at most.
fn thp(results: &Results) -> Limit {
    const ID: &str = "thp-clears";
    const WHAT: &str = "bytes cleared by a THP fault, on, at most; of them 4 096 are its page table";
    let range = [0.0, TABLE_BYTES];
    let plan = plan::plan("kinds").filter(|plan| plan.tests().any(|test| test == THP));
    let found = Found::of_test(results, "on", "kinds", THP);
    let (Some(plan), Some(found)) = (plan, found) else { return missing(ID, WHAT, range) };
    let figure = found.lap("clear_bytes", "max");
    let number = plan.tests().position(|test| test == THP).unwrap_or(0) + 1;
    if !figure.is_finite() {
        return missing(ID, WHAT, range);
    }
    Limit {
        hits: found.hits(),
        scrubbed_before: stock(results, "on", plan.name, number),
        ..judged(ID, WHAT, range, figure, THP)
    }
}

fn is_on(arm: &str) -> bool {
    plan::arm(arm).is_some_and(plan::Arm::scrubs)
}

fn stock(results: &Results, arm: &str, plan: &str, number: usize) -> Option<f64> {
    Found::before(results, arm, plan, number)
        .and_then(|before| before.value(super::session::GUEST, super::session::SCRUBBED))
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
    let (verdict, rests_on) = (Verdict::CannotSay, "no such cell in the record".to_owned());
    Limit {
        id,
        what,
        range,
        figure: None,
        beyond: None,
        verdict,
        rests_on,
        hits: None,
        scrubbed_before: None,
    }
}

/// The limits as a table; without a figure, it has no rows.
pub(super) fn table(results: &Results) -> Table {
    let limits = limits(results);
    let is_known = limits.iter().any(|limit| limit.figure.is_some());
    let row = |limit: &Limit| {
        let texts = vec![
            limit.what.to_owned(),
            bounds(limit.range),
            limit.figure.map_or(String::new(), number),
            limit.verdict.word().to_owned(),
            limit.rests_on.clone(),
            share(limit.hits),
            limit.scrubbed_before.map_or(String::new(), count),
        ];
        (false, texts)
    };
    Table {
        id: "kernel-limits",
        title: "The limits of the patch",
        heads: &["", "limit", "figure", "verdict", "rests on", "hits", "scrubbed before"],
        rows: if is_known { limits.iter().map(row).collect() } else { Vec::new() },
        remark: "Of several tests, the row has the worst one. pcp: the setting of the per-CPU lists. Scrubbed before: pages \
                 cleared in the idle time before the test, beside those that were left of the test before it. The last row is \
                 of the unpatched kernel: it fails where init_on_alloc=1 clears a huge page twice.",
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
    use super::super::session::{self, GUEST, HIT, LAPS, MISS, PAGES, SECTION};
    use super::*;
    use crate::record::Row;

    fn rows(cell: &str, path: f64, misses: f64) -> Vec<Row> {
        let figures = [
            (SECTION, PATH, path),
            (SECTION, LLC, misses),
            (GUEST, PAGES, 10.0),
            (GUEST, HIT, 9.0),
            (GUEST, MISS, 1.0),
            (LAPS, "clear_bytes_max", misses),
        ];
        session::rows(cell, &figures)
    }

    fn limit(rows: &[Vec<Row>], id: &str) -> Limit {
        let limits = limits(&Results::of(rows.concat()).unwrap());
        limits.into_iter().find(|limit| limit.id == id).unwrap()
    }

    #[test]
    fn a_limit_holds_fails_or_cannot_be_said() {
        let line =
            |arm: &str, lines: u32| format!("arm={arm} plan=lines test=pft mib=64 lines={lines} pcp=short");
        let record = [
            rows(&line("base", 1), 1000.0, 640.0),
            rows(&line("on", 1), 1090.0, 20.0),
            rows(&line("off", 1), 1011.0, 640.0),
            rows(&line("base", 2), 1000.0, 640.0),
            rows(&line("on", 2), 1110.0, 40.0),
            rows("arm=on plan=kinds test=kinds kind=thp mib=32", 10.0, TABLE_BYTES),
        ];
        let found = limit(&record, "misses-line-1");
        assert_eq!(
            (found.verdict, found.figure, found.hits),
            (Verdict::Holds, Some(20.0 / 640.0), Some(0.9))
        );
        assert_eq!(found.beyond, Some(0.0));
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
        assert!(table(&Results::default()).rows.is_empty());
        let base = rows("arm=base plan=lines test=pft mib=64 lines=1 pcp=short", 1.0, 1.0);
        assert!(table(&Results::of(base).unwrap()).rows.is_empty());
    }
}
