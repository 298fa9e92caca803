//! The tables of "Prezeroing V2" as the document prints them, with our rows beside its own.
//!
//! In: the document's rows, and measured cells. Out: tables of text, and the document's points for the charts.
//! The document's pages have 16 KiB and its cache lines 128 bytes (ia64), so the charts show memory, not pages.
//! Its Wall column is printed with a stray 0 behind the point (7.097 for 7.97); here it is recomputed from its
//! own faults and their rate.

use faultless_trace::measurement::{Count, median};

use super::{ARMS, LINE_BYTES, per_cpu_s, per_wall_s};
use crate::cell::Cell;
use crate::experiment::{DocumentRow, Measured, Table};
use crate::results::{Quantities, cpu_ns, values, wall_ns};

/// A row of the document.
#[derive(Clone, Copy)]
pub(crate) struct Theirs {
    /// The document's arm.
    pub(crate) arm: &'static str,
    /// Memory, GiB.
    pub(crate) gb: f64,
    /// Repetitions.
    pub(crate) rep: f64,
    /// Threads.
    pub(crate) threads: f64,
    /// Cache lines written, of 128 per page.
    pub(crate) lines: f64,
    /// User, System and Wall as printed, s.
    pub(crate) times: [&'static str; 3],
    /// Faults per second of CPU time.
    pub(crate) per_cpu_s: f64,
    /// Faults per second.
    pub(crate) per_wall_s: f64,
}

/// Bytes of its pages, and of its cache lines.
pub(crate) const PAGE_BYTES: f64 = 16_384.0;
const THEIR_LINE_BYTES: f64 = 128.0;
const PAGES_PER_GB: f64 = 65_536.0;

impl Theirs {
    /// Seconds that follow from the document's own count of faults and their rate.
    pub(crate) fn wall_s(&self) -> f64 {
        self.gb * self.rep * PAGES_PER_GB / self.per_wall_s
    }

    /// Whether the printed column agrees.
    pub(crate) fn is_printed_right(&self) -> bool {
        self.times[2].parse::<f64>().is_ok_and(|printed_s| (printed_s / self.wall_s() - 1.0).abs() < 0.01)
    }
}

const fn with_threads(arm: &'static str, threads: f64, times: [&'static str; 3], rates: [f64; 2]) -> Theirs {
    row(arm, (4.0, 3.0, threads, 1.0), times, rates)
}

const fn with_lines(lines: f64, times: [&'static str; 3], rates: [f64; 2]) -> Theirs {
    row(PREZEROED, (1.0, 1.0, 1.0, lines), times, rates)
}

const fn row(
    arm: &'static str,
    (gb, rep, threads, lines): (f64, f64, f64, f64),
    times: [&'static str; 3],
    [per_cpu_s, per_wall_s]: [f64; 2],
) -> Theirs {
    Theirs { arm, gb, rep, threads, lines, times, per_cpu_s, per_wall_s }
}

const WITHOUT: &str = "without patch";
const PREZEROED: &str = "prezeroed";

/// By threads; in the middle the one row with hardware that zeroes.
pub(crate) const BY_THREADS: [Theirs; 9] = [
    with_threads(WITHOUT, 1.0, ["0.146", "11.155", "11.030"], [69_584.896, 69_566.852]),
    with_threads(WITHOUT, 2.0, ["0.170", "14.909", "7.097"], [52_150.369, 98_643.687]),
    with_threads(WITHOUT, 4.0, ["0.181", "16.597", "5.079"], [46_869.167, 135_642.420]),
    with_threads(WITHOUT, 8.0, ["0.166", "23.239", "4.037"], [33_599.215, 179_791.120]),
    row(
        "prezeroed by hardware",
        (1.0, 1.0, 1.0, 1.0),
        ["0.014", "0.110", "0.012"],
        [524_292.194, 517_665.538],
    ),
    with_threads(PREZEROED, 1.0, ["0.183", "2.750", "2.093"], [268_077.996, 267_952.890]),
    with_threads(PREZEROED, 2.0, ["0.185", "4.876", "2.097"], [155_344.562, 263_967.292]),
    with_threads(PREZEROED, 4.0, ["0.150", "6.617", "2.097"], [116_205.793, 264_774.080]),
    with_threads(PREZEROED, 8.0, ["0.186", "13.693", "3.054"], [56_659.819, 221_701.073]),
];

/// By cache lines.
pub(crate) const BY_LINES: [Theirs; 8] = [
    with_lines(1.0, ["0.01", "0.12", "0.01"], [500_813.853, 497_925.891]),
    with_lines(2.0, ["0.01", "0.11", "0.01"], [493_453.103, 472_877.725]),
    with_lines(4.0, ["0.02", "0.10", "0.01"], [479_351.658, 471_507.415]),
    with_lines(8.0, ["0.01", "0.13", "0.01"], [424_742.054, 416_725.013]),
    with_lines(16.0, ["0.05", "0.12", "0.01"], [347_715.359, 336_983.834]),
    with_lines(32.0, ["0.12", "0.13", "0.02"], [258_112.286, 256_246.731]),
    with_lines(64.0, ["0.24", "0.14", "0.03"], [169_896.381, 168_189.283]),
    with_lines(128.0, ["0.49", "0.14", "0.06"], [102_300.257, 101_674.435]),
];

/// Both tables as rows of a [`Sheet`](crate::experiment::Sheet).
pub(super) fn document_rows() -> Vec<DocumentRow> {
    let row = |row: &Theirs| {
        let of = [
            ("arm", row.arm.to_owned()),
            ("mib", (row.gb * row.rep * 1024.0).to_string()),
            ("threads", row.threads.to_string()),
            ("lines", row.lines.to_string()),
        ];
        let seconds = |printed: &str| printed.trim_end_matches('s').parse().ok();
        let [user, system, _] = row.times.map(seconds);
        (of.to_vec(), vec![user, system, Some(row.wall_s()), Some(row.per_cpu_s), Some(row.per_wall_s)])
    };
    BY_THREADS.iter().chain(&BY_LINES).map(row).collect()
}

/// A point of a chart: line, x, y.
type Point = (&'static str, f64, f64);

/// GB per second by threads.
pub(super) const fn points_by_threads(is_wall: bool) -> [Point; 9] {
    let mut points = [("", 0.0, 0.0); 9];
    let mut at = 0;
    while at < points.len() {
        let row = BY_THREADS[at];
        let rate = if is_wall { row.per_wall_s } else { row.per_cpu_s };
        points[at] = (row.arm, row.threads, rate * PAGE_BYTES / 1e9);
        at += 1;
    }
    points
}

/// GB per second of CPU time by the written share of a page, in percent.
pub(super) const fn points_by_lines() -> [Point; 8] {
    let mut points = [("", 0.0, 0.0); 8];
    let mut at = 0;
    while at < points.len() {
        let row = BY_LINES[at];
        points[at] = (row.arm, written_percent(row), row.per_cpu_s * PAGE_BYTES / 1e9);
        at += 1;
    }
    points
}

const fn written_percent(row: Theirs) -> f64 {
    row.lines * THEIR_LINE_BYTES / PAGE_BYTES * 100.0
}

const HEADS: [&str; 13] = [
    "",
    "page",
    "Gb",
    "Rep",
    "Threads",
    "CLine",
    "User s",
    "System s",
    "Wall s",
    "as printed",
    "flt/cpu/s",
    "fault/wsec",
    "GB/s",
];

const REMARK: &str = "Rates are in pages of each machine's own size, GB/s in memory. CLine: cache lines written of each page, of 128 \
                      bytes in the document and 64 here. Wall of the document is its faults by their rate: what it prints has \
                      a stray 0 behind the point. Ours are medians; on-get and ahead get their pages from a pool and do not \
                      fault; User and System are told apart from a quarter of a second of both over all rounds on.";

/// CPU time over all rounds from which on the kernel's ticks tell user and system time apart.
const SPLIT_NS: f64 = 250e6;

/// A row, the document's or ours.
#[derive(Clone)]
struct Row {
    is_document: bool,
    arm: String,
    page_bytes: f64,
    gb: f64,
    rep: f64,
    threads: f64,
    lines: f64,
    written_percent: f64,
    /// User, system.
    cpu: [String; 2],
    wall_s: f64,
    printed: String,
    per_cpu_s: f64,
    per_wall_s: f64,
}

impl From<Theirs> for Row {
    fn from(row: Theirs) -> Self {
        Self {
            is_document: true,
            arm: format!("document: {}", row.arm),
            page_bytes: PAGE_BYTES,
            gb: row.gb,
            rep: row.rep,
            threads: row.threads,
            lines: row.lines,
            written_percent: written_percent(row),
            cpu: [row.times[0], row.times[1]].map(Into::into),
            wall_s: row.wall_s(),
            printed: row.times[2].into(),
            per_cpu_s: row.per_cpu_s,
            per_wall_s: row.per_wall_s,
        }
    }
}

impl Row {
    /// Nothing where a figure is missing.
    fn of(cell: &Cell, found: &Quantities) -> Option<Self> {
        let timed = |quantity| values(found, "timed", quantity).unwrap_or_default();
        let (bytes, pages) = (cell.mib("mib").ok()? as f64, median(timed("pages"))?);
        let number = |name| cell.number(name).ok().map(|number| number as f64);
        let lines = number("lines")?;
        Some(Self {
            is_document: false,
            arm: cell.text("arm").ok()?.to_owned(),
            page_bytes: bytes / pages,
            gb: bytes / f64::from(1 << 30),
            rep: 1.0,
            threads: number("threads")?,
            lines,
            written_percent: lines * LINE_BYTES as f64 * pages / bytes * 100.0,
            cpu: split(median(&cpu_ns(found, "timed"))?, timed("user_ns"), timed("system_ns")),
            wall_s: median(wall_ns(found, "timed"))? / 1e9,
            printed: String::new(),
            per_cpu_s: median(&per_cpu_s(found))?,
            per_wall_s: median(&per_wall_s(found))?,
        })
    }

    fn texts(&self) -> Vec<String> {
        let [user, system] = self.cpu.clone();
        vec![
            self.arm.clone(),
            format!("{:.0} KiB", self.page_bytes / 1024.0),
            self.gb.to_string(),
            self.rep.to_string(),
            self.threads.to_string(),
            self.lines.to_string(),
            user,
            system,
            seconds(self.wall_s),
            self.printed.clone(),
            Count(self.per_cpu_s.round() as u64).to_string(),
            Count(self.per_wall_s.round() as u64).to_string(),
            format!("{:.2}", self.per_wall_s * self.page_bytes / 1e9),
        ]
    }
}

/// User and system time of a run, by their shares over all runs; together where they are too short to be told
/// apart.
fn split(cpu_ns: f64, user: &[f64], system: &[f64]) -> [String; 2] {
    let [user_ns, system_ns] = [user, system].map(|part| part.iter().sum::<f64>());
    let both_ns = user_ns + system_ns;
    if both_ns < SPLIT_NS {
        return [String::new(), format!("both {}", seconds(cpu_ns / 1e9))];
    }
    [user_ns, system_ns].map(|part| seconds(cpu_ns * part / both_ns / 1e9))
}

fn seconds(value: f64) -> String {
    if value < 0.1 { format!("{value:.4}") } else { format!("{value:.3}") }
}

/// Both tables, without those that have no row of ours.
pub(super) fn tables(cells: &Measured) -> Vec<Table> {
    let of = |theirs: &[Theirs], parameter: &str, order: fn(&Row) -> f64| {
        let drawn = cells.iter().filter(|(cell, _)| cell.text(parameter) == Ok("1"));
        let mut ours: Vec<Row> = drawn.filter_map(|(cell, found)| Row::of(cell, found)).collect();
        ours.sort_by_key(|row| ARMS.iter().position(|(arm, _)| *arm == row.arm));
        let is_there = !ours.is_empty();
        let mut rows: Vec<Row> = theirs.iter().map(|row| Row::from(*row)).chain(ours).collect();
        // The document's rows stay before ours of the same place.
        rows.sort_by(|a, b| order(a).total_cmp(&order(b)));
        is_there.then(|| rows.iter().map(|row| (row.is_document, row.texts())).collect())
    };
    let table = |id, title, rows| Table { id, title, heads: &HEADS, rows, remark: REMARK };
    let by_threads = of(&BY_THREADS, "lines", |row| row.threads)
        .map(|rows| table("fault-rate-table-threads", "The document's table by threads, with ours", rows));
    let by_lines = of(&BY_LINES, "threads", |row| row.written_percent)
        .map(|rows| table("fault-rate-table-lines", "The document's table by cache lines, with ours", rows));
    by_threads.into_iter().chain(by_lines).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cell(arm: &str, threads: usize, lines: usize) -> Cell {
        let cell = Cell::of("fault-rate").with("arm", arm).with("mib", 512);
        cell.with("threads", threads).with("lines", lines)
    }

    fn found(cpu_ns: f64, rounds: usize) -> Quantities {
        let figures = [
            ("pages", 131_072.0),
            ("wall_ns", 0.2e9),
            ("cpu_ns", cpu_ns),
            ("user_ns", cpu_ns / 4.0),
            ("system_ns", cpu_ns * 3.0 / 4.0),
        ];
        let figure =
            |(name, value): (&str, f64)| (("timed".to_owned(), name.to_owned()), vec![value; rounds]);
        figures.map(figure).into()
    }

    #[test]
    fn our_rows_stand_behind_the_documents_of_the_same_threads_and_share() {
        let (kernel, two, four) = (cell("kernel", 1, 1), cell("kernel", 2, 1), cell("kernel", 1, 4));
        let long = found(0.4e9, 3);
        let tables = tables(&[(&kernel, &long), (&two, &long), (&four, &long)]);
        let [threads, lines] = &tables[..] else { panic!("{}", tables.len()) };
        let column = |table: &Table, at: usize| -> Vec<String> {
            table.rows.iter().map(|(_, texts)| texts[at].clone()).collect()
        };
        let ours =
            |table: &Table| -> Vec<usize> { (0..table.rows.len()).filter(|at| !table.rows[*at].0).collect() };
        assert_eq!((threads.rows.len(), ours(threads)), (11, vec![3, 6]));
        // A line of 64 bytes in 4 KiB equals two lines of 128 in 16 KiB.
        assert_eq!((lines.rows.len(), ours(lines)), (10, vec![2, 5]));
        assert!(tables.iter().flat_map(|table| &table.rows).all(|(_, texts)| texts.len() == HEADS.len()));
        assert_eq!(column(threads, 11)[3], "655 360");
        assert_eq!(&threads.rows[3].1[6..8], ["0.100", "0.300"]);
    }

    #[test]
    fn the_documents_wall_is_recomputed() {
        let texts = Row::from(BY_THREADS[1]).texts();
        assert_eq!(&texts[8..10], ["7.972", "7.097"]);
        assert!(!BY_THREADS[1].is_printed_right());
    }

    #[test]
    fn short_times_are_not_told_apart() {
        let row = Row::of(&cell("ahead", 1, 1), &found(12e6, 3)).unwrap();
        assert_eq!(row.cpu, [String::new(), "both 0.0120".to_owned()]);
        assert!(tables(&[]).is_empty());
    }
}
