//! The kernel lab's charts: the document's page-fault test by cache lines touched, a line for each arm.
//!
//! In: cells of a record. Out: misses of the last level, path instructions and cleared bytes per fault, each in a chart
//! of its own.

use faultless_trace::measurement::median;

use crate::cell::Cell;
use crate::experiment::Chart;
use crate::results::{Quantities, values};

use super::session::{CLEARED, GUEST, LLC, PAGES, PATH, SECTION};

/// All charts.
pub const CHARTS: [Chart; 3] = [
    Chart {
        id: "kernel-misses",
        title: "Misses of the last-level cache per fault",
        y_label: "misses per fault, of 64 lines in a page",
        values: |cell, found| per_fault(cell, found, LLC),
        ..BY_LINES
    },
    Chart {
        id: "kernel-path",
        title: "Path instructions per fault",
        y_label: "instructions per fault, without iterations of rep stos and rep movs",
        values: |cell, found| per_fault(cell, found, PATH),
        ..BY_LINES
    },
    Chart {
        id: "kernel-cleared",
        title: "Bytes cleared per fault",
        y_label: "bytes per fault",
        values: |cell, found| per_fault(cell, found, CLEARED),
        ..BY_LINES
    },
];

const BY_LINES: Chart = Chart { x: "lines", x_label: "cache lines touched of 64 in a page", ..Chart::BLANK };

/// A quantity of the test by lines, with short per-CPU lists; nothing for other cells.
fn per_fault(cell: &Cell, found: &Quantities, quantity: &str) -> Vec<f64> {
    let is = |name: &str, value: &str| cell.text(name) == Ok(value);
    let pages = values(found, GUEST, PAGES).and_then(median).unwrap_or(0.0);
    if !(is("plan", "lines") && is("test", "pft") && is("pcp", "short")) || pages == 0.0 {
        return Vec::new();
    }
    values(found, SECTION, quantity).unwrap_or_default().iter().map(|value| value / pages).collect()
}

#[cfg(test)]
mod tests {
    use super::super::session::EXPERIMENT;
    use super::*;

    #[test]
    fn only_the_test_by_lines_is_drawn_per_fault() {
        let found: Quantities = [
            ((GUEST.to_owned(), PAGES.to_owned()), vec![10.0, 10.0]),
            ((SECTION.to_owned(), LLC.to_owned()), vec![640.0, 640.0]),
        ]
        .into();
        let cell = |words: &str| Cell::parse(EXPERIMENT, words.split(' ')).unwrap();
        let of = |words: &str| (CHARTS[0].values)(&cell(words), &found);
        assert_eq!(of("arm=on plan=lines test=pft lines=1 pcp=short"), [64.0, 64.0]);
        assert!(of("arm=on plan=lines test=pft lines=1 pcp=default").is_empty());
        assert!(of("arm=on plan=kinds test=kinds kind=thp").is_empty());
    }
}
