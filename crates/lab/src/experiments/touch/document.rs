//! The tables of "Prezeroing V2", our columns for them, and their points for the charts.
//!
//! The document's pages have 16 KiB and its cache lines 128 bytes (ia64), so rates beside ours are in memory, too. Its Wall
//! column is printed with a stray 0 behind the point (7.097 for 7.97); here it is computed from its own faults and their
//! rate. Only memory that faults has faults per second: the blocks of a pool have memory per second.

use super::super::memory::LINE_BYTES;
use super::is_pool;
use crate::cell::Cell;
use crate::experiment::{Chart, Column, DocumentPoint, DocumentRow};
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

const WITHOUT: &str = "without patch";
const PREZEROED: &str = "prezeroed";

/// Gb, Rep, Threads, CLine; User, System, Wall; flt/cpu/s, fault/wsec.
const fn row(arm: &'static str, of: [f64; 4], times: [&'static str; 3], rates: [f64; 2]) -> Theirs {
    let ([gb, rep, threads, lines], [per_cpu_s, per_wall_s]) = (of, rates);
    Theirs { arm, gb, rep, threads, lines, times, per_cpu_s, per_wall_s }
}

/// By threads; in the middle the one row with hardware that zeroes.
#[rustfmt::skip]
pub(crate) const BY_THREADS: [Theirs; 9] = [
    row(WITHOUT, [4.0, 3.0, 1.0, 1.0], ["0.146", "11.155", "11.030"], [69_584.896, 69_566.852]),
    row(WITHOUT, [4.0, 3.0, 2.0, 1.0], ["0.170", "14.909", "7.097"], [52_150.369, 98_643.687]),
    row(WITHOUT, [4.0, 3.0, 4.0, 1.0], ["0.181", "16.597", "5.079"], [46_869.167, 135_642.420]),
    row(WITHOUT, [4.0, 3.0, 8.0, 1.0], ["0.166", "23.239", "4.037"], [33_599.215, 179_791.120]),
    row("prezeroed by hardware", [1.0; 4], ["0.014", "0.110", "0.012"], [524_292.194, 517_665.538]),
    row(PREZEROED, [4.0, 3.0, 1.0, 1.0], ["0.183", "2.750", "2.093"], [268_077.996, 267_952.890]),
    row(PREZEROED, [4.0, 3.0, 2.0, 1.0], ["0.185", "4.876", "2.097"], [155_344.562, 263_967.292]),
    row(PREZEROED, [4.0, 3.0, 4.0, 1.0], ["0.150", "6.617", "2.097"], [116_205.793, 264_774.080]),
    row(PREZEROED, [4.0, 3.0, 8.0, 1.0], ["0.186", "13.693", "3.054"], [56_659.819, 221_701.073]),
];

/// By cache lines.
#[rustfmt::skip]
pub(crate) const BY_LINES: [Theirs; 8] = [
    row(PREZEROED, [1.0, 1.0, 1.0, 1.0], ["0.01", "0.12", "0.01"], [500_813.853, 497_925.891]),
    row(PREZEROED, [1.0, 1.0, 1.0, 2.0], ["0.01", "0.11", "0.01"], [493_453.103, 472_877.725]),
    row(PREZEROED, [1.0, 1.0, 1.0, 4.0], ["0.02", "0.10", "0.01"], [479_351.658, 471_507.415]),
    row(PREZEROED, [1.0, 1.0, 1.0, 8.0], ["0.01", "0.13", "0.01"], [424_742.054, 416_725.013]),
    row(PREZEROED, [1.0, 1.0, 1.0, 16.0], ["0.05", "0.12", "0.01"], [347_715.359, 336_983.834]),
    row(PREZEROED, [1.0, 1.0, 1.0, 32.0], ["0.12", "0.13", "0.02"], [258_112.286, 256_246.731]),
    row(PREZEROED, [1.0, 1.0, 1.0, 64.0], ["0.24", "0.14", "0.03"], [169_896.381, 168_189.283]),
    row(PREZEROED, [1.0, 1.0, 1.0, 128.0], ["0.49", "0.14", "0.06"], [102_300.257, 101_674.435]),
];

pub(super) const COLUMNS: &[Column] = &[
    Column { head: "User s", values: |_, found| seconds(found, "user_ns") },
    Column { head: "System s", values: |_, found| seconds(found, "system_ns") },
    Column { head: "Wall s", values: |_, found| wall_ns(found, "first").iter().map(|ns| ns / 1e9).collect() },
    Column { head: "flt/cpu/s", values: |cell, found| of_faults(cell, per_cpu_s(found)) },
    Column { head: "fault/wsec", values: |cell, found| of_faults(cell, per_wall_s(found)) },
    Column { head: "GB/cpu/s", values: |cell, found| gb_per_s(cell, found, per_cpu_s) },
    Column { head: "GB/s", values: |cell, found| gb_per_s(cell, found, per_wall_s) },
];

/// Both tables, in these columns.
pub(super) fn rows() -> Vec<DocumentRow> {
    let row = |row: &Theirs| {
        let of = [
            ("memory", row.arm.to_owned()),
            ("mib", (row.gb * row.rep * 1024.0).to_string()),
            ("threads", row.threads.to_string()),
            ("lines", row.lines.to_string()),
        ];
        let [user, system, _] = row.times.map(|printed| printed.parse().ok());
        let rates = [row.per_cpu_s, row.per_wall_s];
        let gb = rates.map(|rate| rate * PAGE_BYTES / 1e9);
        let times = [user, system, Some(row.wall_s())].into_iter();
        (of.to_vec(), times.chain(rates.map(Some)).chain(gb.map(Some)).collect())
    };
    BY_THREADS.iter().chain(&BY_LINES).map(row).collect()
}

/// A time of the first touch, s.
fn seconds(found: &Quantities, quantity: &str) -> Vec<f64> {
    values(found, "first", quantity).unwrap_or_default().iter().map(|ns| ns / 1e9).collect()
}

/// Nothing of memory that does not fault.
fn of_faults(cell: &Cell, rates: Vec<f64>) -> Vec<f64> {
    if is_pool(cell) { Vec::new() } else { rates }
}

/// `flt/cpu/s`: pages by user and system time.
fn per_cpu_s(found: &Quantities) -> Vec<f64> {
    per_s(found, &cpu_ns(found, "first"))
}

/// `fault/wsec`: pages by elapsed time.
fn per_wall_s(found: &Quantities) -> Vec<f64> {
    per_s(found, wall_ns(found, "first"))
}

fn per_s(found: &Quantities, ns: &[f64]) -> Vec<f64> {
    let pages = values(found, "first", "pages").unwrap_or_default();
    pages.iter().zip(ns).map(|(pages, ns)| pages / ns * 1e9).collect()
}

/// Bytes of a page of the measured machine.
fn page_bytes(cell: &Cell, found: &Quantities) -> Option<f64> {
    Some(cell.mib("mib").ok()? as f64 / values(found, "first", "pages")?.first()?)
}

/// Pages per second, as memory.
fn gb_per_s(cell: &Cell, found: &Quantities, pages_per_s: fn(&Quantities) -> Vec<f64>) -> Vec<f64> {
    let Some(page_bytes) = page_bytes(cell, found) else { return Vec::new() };
    pages_per_s(found).into_iter().map(|rate| rate * page_bytes / 1e9).collect()
}

/// The same of the cells that differ in another parameter than the one that is 1.
fn drawn(cell: &Cell, found: &Quantities, one: &str, rate: fn(&Quantities) -> Vec<f64>) -> Vec<f64> {
    let is_drawn = (is_pool(cell) || cell.text("memory") == Ok("own")) && cell.text("beside") == Ok("none");
    if is_drawn && cell.text(one) == Ok("1") { gb_per_s(cell, found, rate) } else { Vec::new() }
}

/// GB per second of the document's rows, by threads.
fn by_threads(rate: fn(&Theirs) -> f64) -> Vec<DocumentPoint> {
    BY_THREADS.iter().map(|row| (row.arm, row.threads, rate(row) * PAGE_BYTES / 1e9)).collect()
}

/// The same of CPU time, by the written share of a page in percent.
fn by_lines() -> Vec<DocumentPoint> {
    let written = |row: &Theirs| row.lines * THEIR_LINE_BYTES / PAGE_BYTES * 100.0;
    BY_LINES.iter().map(|row| (row.arm, written(row), row.per_cpu_s * PAGE_BYTES / 1e9)).collect()
}

pub(super) const WALL_BY_THREADS: Chart = Chart {
    id: "fault-rate-threads",
    title: "Zeroed memory per second of the clock, by threads",
    x: "threads",
    x_label: "threads",
    y_label: "GB/s: fault/wsec times the page, 16 KiB in the document",
    values: |cell, found| drawn(cell, found, "lines", per_wall_s),
    document: || by_threads(|row| row.per_wall_s),
    ..Chart::BLANK
};

pub(super) const CPU_BY_THREADS: Chart = Chart {
    id: "fault-rate-cpu",
    title: "Zeroed memory per second of CPU time, by threads",
    x: "threads",
    x_label: "threads",
    y_label: "GB/s: flt/cpu/s times the page, 16 KiB in the document",
    values: |cell, found| drawn(cell, found, "lines", per_cpu_s),
    document: || by_threads(|row| row.per_cpu_s),
    ..Chart::BLANK
};

pub(super) const CPU_BY_LINES: Chart = Chart {
    id: "fault-rate-lines",
    title: "Zeroed memory per second of CPU time, by cache lines written",
    x: "lines",
    x_label: "percent of each page written: its lines of 64 bytes here, of 128 in the document",
    y_label: "GB/s: flt/cpu/s times the page, 16 KiB in the document",
    values: |cell, found| drawn(cell, found, "threads", per_cpu_s),
    place: |cell, found| {
        let page_bytes = page_bytes(cell, found)?;
        Some(cell.number("lines").ok()? as f64 * LINE_BYTES as f64 / page_bytes * 100.0)
    },
    document: by_lines,
    ..Chart::BLANK
};

#[cfg(test)]
mod tests {
    use super::super::SHEET;
    use super::*;

    #[test]
    fn the_documents_wall_is_recomputed() {
        assert!((BY_THREADS[1].wall_s() - 7.972).abs() < 1e-3 && !BY_THREADS[1].is_printed_right());
    }

    #[test]
    fn only_memory_that_faults_has_faults_per_second() {
        let found: Quantities = [("pages", 131_072.0), ("wall_ns", 0.2e9), ("cpu_ns", 0.4e9)]
            .map(|(name, value)| (("first".to_owned(), name.to_owned()), vec![value; 3]))
            .into();
        let figures = |memory: &str| {
            let cell = SHEET.cell(&format!("memory={memory} mib=512 threads=2"));
            let of = |column: &Column| (column.values)(&cell, &found).first().copied();
            COLUMNS.iter().map(of).collect::<Vec<_>>()
        };
        let (gb_per_cpu_s, gb_per_s) = (Some(1.342_177_28), Some(2.684_354_56));
        let own = [None, None, Some(0.2), Some(327_680.0), Some(655_360.0), gb_per_cpu_s, gb_per_s];
        assert_eq!(figures("own"), own);
        assert_eq!(figures("zeroed-ahead"), [None, None, Some(0.2), None, None, gb_per_cpu_s, gb_per_s]);
        assert!(rows().iter().all(|(_, figures)| figures.len() == COLUMNS.len()));
    }
}
