//! The kernel lab's tables: the document's two with our rows beside its own, and what they rest on.
//!
//! In: results of a record of the kernel lab. Out: tables of text.
//! Path instructions, cleared bytes and misses of the last level have columns of their own. No figure adds them up. Counts
//! have no Wall: the virtual processors take turns on one clock. So where the document has seconds, our rows have
//! instructions.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::experiment::Table;
use crate::experiments::touch::document::{self, BY_LINES, BY_THREADS, Theirs};
use crate::results::Results;

use super::found::{Found, count, share, size};
use super::plan::{ARMS, PLANS};
use super::session::{CLEARED, EXPERIMENT, HIT, LAPS, LLC, MISS, PAGE_BYTES, PATH, SCRUBBED, STRINGS, USER};
use super::{limits, work};

/// All tables that a record has rows for.
pub fn tables(results: &Results) -> Vec<Table> {
    let all = [limits::table, by_lines, by_threads, ratios, kinds, stock, work::table, latency];
    all.iter().map(|table| table(results)).filter(|table| table.rows.iter().any(|row| !row.0)).collect()
}

/// The two rates of a row of the document.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Rates {
    /// Faults per second of CPU time.
    pub per_cpu_s: f64,
    /// Faults per second.
    pub per_wall_s: f64,
}

/// The document's rates, by its threads or lines and its arm.
pub fn document_rates() -> BTreeMap<String, BTreeMap<String, Rates>> {
    let mut all: BTreeMap<_, BTreeMap<_, _>> = BTreeMap::new();
    let threads = BY_THREADS.iter().map(|row| (format!("threads={}", row.threads), row));
    let lines = BY_LINES.iter().map(|row| (format!("lines={}", row.lines), row));
    for (name, row) in threads.chain(lines) {
        let rates = Rates { per_cpu_s: row.per_cpu_s, per_wall_s: row.per_wall_s };
        all.entry(name).or_default().insert(row.arm.replace(' ', "_"), rates);
    }
    all
}

/// Faults per thousand million instructions of the program and the kernel's path.
fn per_path(found: Found) -> f64 {
    found.pages() / (found.section(USER) + found.section(PATH)) * 1e9
}

/// Each test of the patched kernel beside the unpatched one.
fn ratios(results: &Results) -> Table {
    let mut rows = Vec::new();
    for plan in &PLANS {
        for test in plan.tests() {
            let of = |arm| Found::of_test(results, arm, plan.name, test);
            let (Some(base), off, on) = (of("base"), of("off"), of("on")) else { continue };
            if off.is_none() && on.is_none() {
                continue;
            }
            let ratio = |arm: Option<Found>, quantity: &str| {
                let ratio = arm.map(|arm| arm.per_page(quantity) / base.per_page(quantity));
                ratio.filter(|ratio| ratio.is_finite()).map_or(String::new(), |ratio| format!("{ratio:.3}"))
            };
            let texts = vec![
                test.to_owned(),
                ratio(off, PATH),
                ratio(on, PATH),
                ratio(off, CLEARED),
                ratio(on, CLEARED),
                ratio(off, LLC),
                ratio(on, LLC),
                share(on.and_then(Found::hits)),
            ];
            rows.push((false, texts));
        }
    }
    Table {
        id: "kernel-ratios",
        title: "The patched kernel beside the unpatched one",
        heads: &["", "path off", "on", "cleared off", "on", "LLC misses off", "on", "hits on"],
        rows,
        remark: "Ratios to the unpatched kernel, per base page: of path instructions, of cleared bytes and of misses of the \
                 last level. The scrubber works before each test, in idle time; its work is in the table of the stock. With \
                 several processors it also works beside the test, and is in these ratios.",
    }
}

const DOCUMENT_HEADS: [&str; 15] = [
    "",
    "page",
    "Gb",
    "Rep",
    "Threads",
    "CLine",
    "User",
    "System",
    "Wall",
    "flt/cpu/s",
    "fault/wsec",
    "path/flt",
    "cleared B/flt",
    "LLC misses/flt",
    "hits",
];

const DOCUMENT_REMARK: &str = "Counts of an emulated machine, not times. User and System of our rows are millions of \
    instructions, of System only the path: iterations of rep stos and rep movs are left out, their bytes are in the \
    column cleared B/flt. flt/cpu/s of our rows are faults per thousand million of these instructions. Our rows have no Wall \
    and no fault/wsec: the virtual processors take turns on one clock, so nobody waits. With several processors the scrubber works \
    beside the test, and System and cleared B/flt have its part. Wall of the document is its faults \
    by their rate: what it prints has a stray 0 behind the point (11.030s is 11.30 s). LLC: 8 MiB, simulated, without a \
    prefetcher. Hits: the share of pages that needed zeroes and were zero already.";

fn theirs(row: &Theirs) -> (bool, Vec<String>) {
    let texts = vec![
        format!("document: {}", row.arm),
        size(document::PAGE_BYTES),
        row.gb.to_string(),
        row.rep.to_string(),
        row.threads.to_string(),
        row.lines.to_string(),
        format!("{} s", row.times[0]),
        format!("{} s", row.times[1]),
        format!("{:.2} s", row.wall_s()),
        count(row.per_cpu_s),
        count(row.per_wall_s),
    ];
    (true, filled(texts))
}

fn filled(mut texts: Vec<String>) -> Vec<String> {
    texts.resize(DOCUMENT_HEADS.len(), String::new());
    texts
}

/// One row of ours for a document's table; nothing if it was not measured.
fn ours(results: &Results, arm: &str, parameters: &[(&str, &str)]) -> Option<(bool, Vec<String>)> {
    let with_arm = [&[("arm", arm), ("test", "pft")], parameters].concat();
    let (cell, quantities) = results.find(EXPERIMENT, &with_arm)?;
    let found = Found(quantities);
    let number = |name: &str| cell.text(name).ok().and_then(|text| text.parse::<f64>().ok());
    let millions = |quantity: &str| format!("{:.1} M", found.section(quantity) / 1e6);
    let lists = cell.text("pcp").ok().filter(|lists| *lists != "default");
    let name = match lists {
        Some(lists) => format!("{arm}, per-CPU lists {lists}"),
        None => arm.to_owned(),
    };
    Some((
        false,
        vec![
            name,
            size(found.guest(PAGE_BYTES)),
            (number("mib")? / 1024.0).to_string(),
            number("rep").unwrap_or(1.0).to_string(),
            number("threads").unwrap_or(1.0).to_string(),
            number("lines")?.to_string(),
            millions(USER),
            millions(PATH),
            String::new(),
            count(per_path(found)),
            String::new(),
            count(found.per_page(PATH)),
            count(found.per_page(CLEARED)),
            count(found.per_page(LLC)),
            share(found.hits()),
        ],
    ))
}

fn by_threads(results: &Results) -> Table {
    let mut rows = Vec::new();
    for threads in ["1", "2", "4", "8"] {
        let of = |row: &&Theirs| row.threads.to_string() == threads;
        rows.extend(BY_THREADS.iter().filter(of).map(theirs));
        let cell = [("plan", "threads"), ("threads", threads)];
        rows.extend(ARMS.iter().filter_map(|arm| ours(results, arm.name, &cell)));
    }
    Table {
        id: "kernel-threads",
        title: "The document's table by threads, with ours",
        heads: &DOCUMENT_HEADS,
        rows,
        remark: DOCUMENT_REMARK,
    }
}

fn by_lines(results: &Results) -> Table {
    let mut rows = Vec::new();
    for lists in ["short", "default"] {
        for lines in ["1", "2", "4", "8", "16", "32", "64", "128"] {
            let of = |row: &&Theirs| row.lines.to_string() == lines && lists == "short";
            rows.extend(BY_LINES.iter().filter(of).map(theirs));
            let cell = [("plan", "lines"), ("lines", lines), ("pcp", lists)];
            rows.extend(ARMS.iter().filter_map(|arm| ours(results, arm.name, &cell)));
        }
    }
    Table {
        id: "kernel-lines",
        title: "The document's table by cache lines touched, with ours",
        heads: &DOCUMENT_HEADS,
        rows,
        remark: DOCUMENT_REMARK,
    }
}

/// Kinds of faults, from the plan.
const KINDS: [&str; 13] = [
    "populate",
    "zero-page",
    "write-after-read",
    "copy-on-write",
    "reuse",
    "fork",
    "shmem",
    "tmpfs-write",
    "page-tables",
    "munmap",
    "thp",
    "mthp-64k",
    "hugetlb",
];

fn kinds(results: &Results) -> Table {
    let row = |kind: &str| {
        let of = |arm: &str| Found::of(results, &[("arm", arm), ("kind", kind)]);
        let each = |arms: &[&str], quantity: &str| -> Vec<String> {
            let text = |found: Found| count(found.per_page(quantity));
            arms.iter().map(|arm| of(arm).map_or(String::new(), text)).collect()
        };
        of("base")?;
        let mut texts = vec![kind.to_owned()];
        texts.extend(each(&["base", "off", "on", "init-on-alloc"], PATH));
        texts.extend(each(&["base", "on", "init-on-alloc"], CLEARED));
        texts.extend(each(&["base"], STRINGS));
        texts.extend(each(&["base", "on"], LLC));
        texts.push(share(of("on").and_then(Found::hits)));
        Some((false, texts))
    };
    Table {
        id: "kernel-kinds",
        title: "Kinds of faults, per base page",
        heads: &[
            "",
            "path base",
            "off",
            "on",
            "init-on-alloc",
            "cleared B base",
            "on",
            "init-on-alloc",
            "other strings B base",
            "LLC misses base",
            "on",
            "hits on",
        ],
        rows: KINDS.iter().filter_map(|kind| row(kind)).collect(),
        remark: "Path instructions, bytes and misses of the last level for each base page made present, or unmapped, or \
                 shared by fork. A huge page counts as its base pages. page-tables touches one page in 2 MiB, so each \
                 counts a page of data and one of the page table. With init_on_alloc=1, a page that is cleared twice shows \
                 twice its bytes.",
    }
}

/// What the scrubber did for each test, and what the test got of it.
fn stock(results: &Results) -> Table {
    let mut rows = Vec::new();
    for plan in &PLANS {
        for (index, test) in plan.tests().enumerate() {
            let arms = ARMS.iter().filter(|arm| arm.scrubs());
            rows.extend(arms.filter_map(|arm| stock_row(results, arm.name, plan.name, (index + 1, test))));
        }
    }
    Table {
        id: "kernel-stock",
        title: "The stock of zeroed pages: hits, and the work charged to the scrubber",
        heads: &[
            "",
            "hits",
            "pages hit",
            "cleared at fault",
            "scrubbed before",
            "meanwhile",
            "zeroed per hit",
            "scrub path/page",
            "scrub LLC/page",
            "path/page",
            "cleared B/page",
            "LLC misses/page",
        ],
        rows,
        remark: "In pages. Before each test the machine is idle for 5 s of virtual time: the scrubber clears what \
                 the test before it dirtied, in the first test of a boot all memory. Scrub path and misses are of this idle \
                 time, with the timer's interrupts. Meanwhile: in the pauses of a test, and on other processors beside it. dry: half \
                 of the memory comes back dirty without idle time. hot: the same little memory is mapped, touched and \
                 unmapped, so pages come back over per-CPU lists.",
    }
}

/// With fewer scrubbed pages, the timer's interrupts are most of the idle time's instructions.
const LEAST_SCRUBBED: f64 = 1000.0;
/// With a smaller share of hits, the test has no use for zeroed pages.
const LEAST_HIT: f64 = 0.01;

/// One row: a test by its number in the plan.
fn stock_row(
    results: &Results,
    arm: &str,
    plan: &str,
    (number, test): (usize, &str),
) -> Option<(bool, Vec<String>)> {
    let scrub = Found::before(results, arm, plan, number)?;
    let found = Found::of_test(results, arm, plan, test)?;
    let (hit, miss) = (found.guest(HIT), found.guest(MISS));
    let (pages, meanwhile) = (scrub.guest(SCRUBBED), found.guest(SCRUBBED));
    let per_page = |quantity: &str| {
        if pages >= LEAST_SCRUBBED { count(scrub.section(quantity) / pages) } else { String::new() }
    };
    let per_hit =
        if hit >= LEAST_HIT * found.pages() { count((pages + meanwhile) / hit) } else { String::new() };
    let texts = vec![
        format!("{test}, {arm}"),
        share(found.hits()),
        count(hit),
        count(miss),
        count(pages),
        count(meanwhile),
        per_hit,
        per_page(PATH),
        per_page(LLC),
        count(found.per_page(PATH)),
        count(found.per_page(CLEARED)),
        count(found.per_page(LLC)),
    ];
    Some((false, texts))
}

fn latency(results: &Results) -> Table {
    let mut rows = Vec::new();
    for plan in &PLANS {
        for test in plan.tests() {
            for arm in &ARMS {
                let Some(found) = Found::of_test(results, arm.name, plan.name, test) else { continue };
                let Some(laps) = found.value(LAPS, "count") else { continue };
                let lap = |what: &str, at: &str| found.lap(what, at);
                let mut texts = vec![format!("{test}, {}", arm.name), count(laps)];
                for at in ["p50", "p90", "p99", "max"] {
                    texts.push(count(lap("path", at)));
                }
                texts.extend(["p50", "p99", "max"].map(|at| count(lap("clear_bytes", at))));
                texts.extend(["p50", "p99", "max"].map(|at| count(lap("llc_misses", at))));
                rows.push((false, texts));
            }
        }
    }
    Table {
        id: "kernel-latency",
        title: "Single faults: latency in virtual time",
        heads: &[
            "",
            "faults",
            "path p50",
            "p90",
            "p99",
            "max",
            "cleared B p50",
            "p99",
            "max",
            "LLC misses p50",
            "p99",
            "max",
        ],
        rows,
        remark: "From one touched page to the next, with the program's own instructions. One instruction takes 1 ns of \
                 virtual time, and so does each byte that rep stos clears: that is the emulator's price, not a processor's. \
                 So the two parts stand apart.",
    }
}

#[cfg(test)]
mod tests {
    use super::super::session::{GUEST, PAGES, SECTION, rows};
    use super::*;
    use crate::record::Row;

    const PAGE: f64 = 4096.0;

    fn pft(arm: &str, of: &str, path: f64, cleared: f64, hit: Option<f64>) -> Vec<Row> {
        let mut figures = vec![
            (GUEST, PAGES, 100.0),
            (GUEST, PAGE_BYTES, PAGE),
            (SECTION, USER, 1000.0),
            (SECTION, PATH, path),
            (SECTION, CLEARED, cleared),
            (SECTION, LLC, 6400.0),
            (LAPS, "count", 100.0),
            (LAPS, "path_p50", 1800.0),
        ];
        if let Some(hit) = hit {
            figures.push((GUEST, HIT, hit));
            figures.push((GUEST, MISS, 100.0 - hit));
        }
        rows(&format!("arm={arm} {of}"), &figures)
    }

    const LINES: &str = "plan=lines test=pft mib=64 lines=1 pcp=short";

    fn results() -> Results {
        let settle = rows(
            "arm=on plan=lines test=settle ms=5000 before=1",
            &[(SECTION, PATH, 40_000.0), (GUEST, SCRUBBED, 2000.0), (SECTION, LLC, 128_000.0)],
        );
        let all = [
            pft("base", LINES, 200_000.0, 100.0 * PAGE, None),
            pft("on", LINES, 190_000.0, 10.0 * PAGE, Some(90.0)),
            settle,
        ];
        Results::of(all.concat()).unwrap()
    }

    fn table<'a>(tables: &'a [Table], id: &str) -> &'a Table {
        tables.iter().find(|table| table.id == id).unwrap()
    }

    #[test]
    fn our_rows_stand_behind_the_documents_with_everything_apart() {
        let tables = tables(&results());
        let lines = table(&tables, "kernel-lines");
        let ours: Vec<&Vec<String>> = lines.rows.iter().filter(|row| !row.0).map(|row| &row.1).collect();
        assert_eq!(lines.rows.iter().position(|row| !row.0), Some(1), "behind the document's first row");
        assert_eq!(ours[0][0], "base, per-CPU lists short");
        assert_eq!(ours[0][11..], ["2 000", "4 096", "64.0", ""]);
        assert_eq!(ours[1][11..], ["1 900", "410", "64.0", "90.0 %"]);
        assert_eq!((ours[0][8].as_str(), ours[0][10].as_str()), ("", ""), "counts have no wall");
        assert!(lines.rows.iter().all(|row| row.1.len() == lines.heads.len()));
    }

    #[test]
    fn the_patched_kernel_stands_beside_the_unpatched_one() {
        let tables = tables(&results());
        let texts = &table(&tables, "kernel-ratios").rows[0].1;
        assert_eq!(
            texts[..],
            ["pft mib=64 lines=1 pcp=short", "", "0.950", "", "0.100", "", "1.000", "90.0 %"]
        );
    }

    #[test]
    fn the_scrubbers_work_is_charged_to_the_hits() {
        let tables = tables(&results());
        let stock = table(&tables, "kernel-stock");
        let texts = &stock.rows[0].1;
        assert_eq!(texts[..4], ["pft mib=64 lines=1 pcp=short, on", "90.0 %", "90.0", "10.0"]);
        assert_eq!(texts[6], "22.2", "2000 pages zeroed for 90 hits");
        assert_eq!(texts[7..9], ["20.0", "64.0"]);
        assert_eq!(stock.heads.len(), texts.len());
    }

    #[test]
    fn tables_without_a_row_of_ours_are_left_out() {
        let ids: Vec<&str> = tables(&results()).iter().map(|table| table.id).collect();
        assert_eq!(ids, ["kernel-limits", "kernel-lines", "kernel-ratios", "kernel-stock", "kernel-latency"]);
        assert!(tables(&Results::default()).is_empty());
    }
}
