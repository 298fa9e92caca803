//! The tables of a record: the limits of the patch, and every test under every arm.
//!
//! In: a record. Out: tables of text. Path instructions, cleared bytes and misses of the last level have columns of
//! their own, and no figure adds them up. Counts are not times: the virtual processors take turns on one clock.

use faultless_report::table::{Align, WIDTH, columns, wrap};

use crate::figures::{Found, count, share};
use crate::limits;
use crate::plan::{self, ARMS, Test};
use crate::record::Record;
use crate::session::{CLEARED, HIT, LLC, PATH, SCRUBBED, STRINGS};

/// A table as text.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Table {
    pub(crate) title: String,
    pub(crate) heads: &'static [&'static str],
    pub(crate) rows: Vec<Vec<String>>,
    /// How to read it.
    pub(crate) remark: String,
}

impl Table {
    /// Its title, aligned columns, and the remark, wrapped. Without rows it has no columns either.
    pub(crate) fn text(&self) -> String {
        let heads = self.heads.iter().map(|head| (*head).to_owned()).collect();
        let rows: Vec<Vec<String>> = std::iter::once(heads).chain(self.rows.iter().cloned()).collect();
        let mut align = vec![Align::Right; self.heads.len()];
        align[0] = Align::Left;
        let mut lines = vec![self.title.clone()];
        if !self.rows.is_empty() {
            lines.extend(columns(2, &align, &rows));
        }
        lines.extend(wrap("  ", &self.remark, WIDTH));
        lines.join("\n") + "\n"
    }
}

/// All tables that a record has rows for.
pub(crate) fn tables(record: &Record) -> Vec<Table> {
    [limits::table(record), tests(record)].into_iter().filter(|table| !table.rows.is_empty()).collect()
}

/// Every test under every arm.
fn tests(record: &Record) -> Table {
    let mut rows = Vec::new();
    for Test { plan, number, words } in plan::tests() {
        let of = |arm| Found::of_test(record, arm, plan, &words);
        for arm in ARMS.map(|arm| arm.name) {
            let Some(found) = of(arm) else { continue };
            let base = of("base").filter(|_| arm != "base");
            let before = Found::before(record, arm, plan, number);
            rows.push(test_row(format!("{words}, {arm}"), found, base, before));
        }
    }
    Table {
        title: "Every test, per base page".into(),
        heads: &[
            "",
            "path",
            "by base",
            "cleared B",
            "by base",
            "other strings B",
            "LLC misses",
            "by base",
            "hits",
            "scrubbed before",
            "meanwhile",
            "zeroed per hit",
        ],
        rows,
        remark: "Path: the kernel's instructions without the iterations of rep stos and rep movs, whose bytes are in the columns \
                 cleared B and other strings B. LLC: 8 MiB, simulated, without a prefetcher. By base: the ratio to the \
                 unpatched kernel. Hits: the share of pages that needed zeroes and were zero already. A huge page counts as its base pages; page-tables touches one page \
                 in 2 MiB, so each counts a page of data and one of the page table. With init_on_alloc=1, a page that is \
                 cleared twice shows twice its bytes. Scrubbed before, in pages: what the scrubber cleared in the 5 s of \
                 virtual time before the test, that is what the test before it dirtied, in the first test of a boot all \
                 memory. Meanwhile: in the pauses of a test, and on other processors beside it. hot: the same little memory \
                 is mapped, touched and unmapped. dry: half of the memory comes back dirty without idle time."
            .into(),
    }
}

fn test_row(name: String, found: Found, base: Option<Found>, before: Option<Found>) -> Vec<String> {
    let of_base = |quantity: &str| {
        let ratio = base.map(|base| found.per_page(quantity) / base.per_page(quantity));
        ratio.filter(|ratio| ratio.is_finite()).map_or(String::new(), |ratio| format!("{ratio:.3}"))
    };
    let mut texts = vec![name, count(found.per_page(PATH)), of_base(PATH)];
    texts.extend([count(found.per_page(CLEARED)), of_base(CLEARED), count(found.per_page(STRINGS))]);
    texts.extend([count(found.per_page(LLC)), of_base(LLC), share(found.hits())]);
    if let Some(before) = before {
        let (before, meanwhile) = (before.guest(SCRUBBED), found.guest(SCRUBBED));
        let per_hit = found.hits().map_or(String::new(), |_| count((before + meanwhile) / found.guest(HIT)));
        texts.extend([count(before), count(meanwhile), per_hit]);
    }
    texts
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tables_of(plan: &str) -> Vec<Table> {
        let pft = |path, cleared, hit| {
            [
                ("guest pages", 100.0),
                ("section path_instructions", path),
                ("section cleared_bytes", cleared),
                ("section llc_misses", 6400.0),
                ("guest zero_hit", hit),
                ("guest zero_miss", if hit > 0.0 { 100.0 - hit } else { 0.0 }),
            ]
        };
        let of = |arm: &str| format!("arm={arm} plan={plan} test=pft mib=64 lines=1 pcp=short");
        tables(&Record::of(&[
            (&of("base"), &pft(200_000.0, 409_600.0, 0.0)),
            (&of("on"), &pft(190_000.0, 40_960.0, 90.0)),
            ("arm=on plan=lines test=settle ms=5000 before=1", &[("guest zero_scrubbed", 2000.0)]),
        ]))
    }

    #[test]
    fn a_test_stands_beside_the_unpatched_kernels_and_has_the_scrubbers_work() {
        let [limits, tests] = &tables_of("lines")[..] else { panic!("two tables") };
        assert_eq!(limits.title, "The limits of the patch");
        let name = "pft mib=64 lines=1 pcp=short";
        let base = ["2 000", "", "4 096", "", "0", "64.0", "", ""];
        assert_eq!(
            (&tests.rows[0][0], &tests.rows[0][1..]),
            (&format!("{name}, base"), &base.map(String::from)[..])
        );
        let on = ["1 900", "0.950", "410", "0.100", "0", "64.0", "1.000", "90.0 %", "2 000", "0", "22.2"];
        assert_eq!(tests.rows[1][1..], on, "2000 pages zeroed for 90 hits");
        assert_eq!(tests.rows[1].len(), tests.heads.len());
        assert!(tests.text().starts_with("Every test, per base page\n     "));
    }

    #[test]
    fn tables_without_a_row_are_left_out() {
        assert!(tables(&Record::default()).is_empty());
        assert!(tables_of("none").is_empty());
    }
}
