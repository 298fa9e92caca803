//! The table of all work: what a test costs with the patch when the scrubber's work is charged to it.
//!
//! In: results of a record. Out: a table. The scrubber clears the pages that a test gave back in the idle time
//! behind it. That time is charged to the test, less the unpatched kernel's.

use crate::experiment::Table;
use crate::results::Results;

use super::found::{Found, count};
use super::plan::{ARMS, PLANS};
use super::session::{CLEARED, LLC, PATH};

/// The table of all work.
pub(super) fn table(results: &Results) -> Table {
    let mut rows = Vec::new();
    for plan in PLANS.iter().filter(|plan| plan.vcpus == 1) {
        // The idle time behind a test comes before the next one; numbers begin with 1.
        for (index, test) in plan.tests().enumerate() {
            for arm in ARMS.iter().filter(|arm| arm.scrubs()) {
                rows.extend(row(results, arm.name, plan.name, (index + 2, test)).map(|texts| (false, texts)));
            }
        }
    }
    Table {
        id: "kernel-work",
        title: "All work, with the scrubber's work charged to the test",
        heads: &[
            "",
            "path base",
            "at fault",
            "scrubber",
            "all/base",
            "cleared B base",
            "at fault",
            "scrubber",
            "all/base",
            "LLC misses base",
            "at fault",
            "scrubber",
            "all/base",
        ],
        rows,
        remark: "Per base page of the test: of the unpatched kernel, of the patched kernel at the fault, and of its scrubber in \
                 the idle time behind the test, less what the unpatched kernel does in that time. all/base: both parts by \
                 the unpatched kernel's. In steady state the scrubber clears each page that a test gives back, also those \
                 that nobody asks for as zeroes: copy-on-write and tmpfs-write clear nothing without the patch. Plans with \
                 one processor only. The last test of a boot has no idle time behind it.",
    }
}

fn row(results: &Results, arm: &str, plan: &str, (next, test): (usize, &str)) -> Option<Vec<String>> {
    let of = |arm: &str| Found::of_test(results, arm, plan, test);
    let behind = |arm: &str| Found::before(results, arm, plan, next);
    let (base, patched, idle, scrub) = (of("base")?, of(arm)?, behind("base")?, behind(arm)?);
    let mut texts = vec![format!("{test}, {arm}")];
    for quantity in [PATH, CLEARED, LLC] {
        let charged = (scrub.section(quantity) - idle.section(quantity)).max(0.0) / patched.pages();
        let (without, with) = (base.per_page(quantity), patched.per_page(quantity));
        let ratio = (with + charged) / without;
        texts.extend([without, with, charged].map(count));
        texts.push(if ratio.is_finite() { format!("{ratio:.2}") } else { "-".to_owned() });
    }
    Some(texts)
}

#[cfg(test)]
mod tests {
    use super::super::session::{EXPERIMENT, GUEST, PAGES, SECTION};
    use super::*;
    use crate::record::Row;

    #[test]
    fn the_scrubbers_idle_time_is_charged_less_the_unpatched_kernels() {
        let test = "plan=lines test=pft mib=64 lines=1 pcp=short";
        let settle = "plan=lines test=settle ms=5000 before=2";
        let of = |arm: &str, cell: &str, path: f64, cleared: f64, pages: f64| {
            let figures = [(SECTION, PATH, path), (SECTION, CLEARED, cleared), (GUEST, PAGES, pages)];
            figures.map(|(phase, quantity, value)| Row {
                experiment: EXPERIMENT.into(),
                cell: format!("arm={arm} {cell}"),
                round: 1,
                phase: phase.into(),
                quantity: quantity.into(),
                value,
            })
        };
        let rows = [
            of("base", test, 20_000.0, 40_960.0, 10.0),
            of("base", settle, 500.0, 0.0, 0.0),
            of("on", test, 21_000.0, 0.0, 10.0),
            of("on", settle, 1_500.0, 45_056.0, 0.0),
        ];
        let table = table(&Results::of(rows.concat()).unwrap());
        let texts = &table.rows[0].1;
        let expected = ["2 000", "2 100", "100", "1.10", "4 096", "0", "4 506", "1.10", "0", "0", "0", "-"];
        assert_eq!(texts[1..], expected);
        assert_eq!(texts.len(), table.heads.len());
    }
}
