//! Columns and charts of `touch`.

use faultless_os::page;

use super::{document, is_pool};
use crate::cell::Cell;
use crate::experiment::{Chart, Column, DocumentRow};
use crate::results::{Quantities, cpu_ns, us_per_page, wall_ms, wall_ns};

pub(super) const COLUMNS: &[Column] = &[
    Column { head: "touch 1 ms", values: |_, found| wall_ms(found, "first") },
    Column { head: "touch 1 us/page", values: |cell, found| us_per_page(cell, found, "first") },
    Column { head: "touch 2 ms", values: |_, found| wall_ms(found, "second") },
    Column { head: "touch 2 us/page", values: |cell, found| us_per_page(cell, found, "second") },
    Column { head: "lock ms", values: |_, found| wall_ms(found, "lock") },
    Column { head: "lock us/page", values: |cell, found| us_per_page(cell, found, "lock") },
];

/// 377 ms for 2000 MB, by the release build and one thread.
pub(super) fn theirs() -> Vec<DocumentRow> {
    let of = [("access", "read".to_owned()), ("mib", "2000".to_owned()), ("threads", "1".to_owned())];
    vec![(of.to_vec(), vec![Some(377.0), None, None, None, None, None])]
}

pub(super) const SCALE_COLUMNS: &[Column] = &[
    Column {
        head: "us/page of a thread",
        values: |cell, found| us_of_a_thread(cell, wall_ns(found, "first")),
    },
    Column { head: "CPU us/page", values: |cell, found| us(cell, &cpu_ns(found, "first")) },
];

pub(super) const CHARTS: &[Chart] = &[
    Chart {
        id: "touch-first",
        title: "First touch by threads",
        x: "threads",
        x_label: "threads",
        y_label: "us per page, all threads together",
        values: |cell, found| of_plain(cell, found, "first"),
        // 377 ms for the 512,000 pages of 2000 MB, by one thread.
        document: || vec![("Windows 10, release build", 1.0, 0.736)],
        ..Chart::BLANK
    },
    Chart {
        id: "touch-second",
        title: "Second touch by threads",
        x: "threads",
        x_label: "threads",
        y_label: "us per page, all threads together",
        values: |cell, found| of_plain(cell, found, "second"),
        // 13 ms: the debug build, whose C library had written the memory.
        document: || vec![("Windows 10, debug build", 1.0, 0.0254)],
        ..Chart::BLANK
    },
    Chart {
        id: "scale-threads",
        title: "First touch by what the threads share",
        x: "threads",
        x_label: "threads",
        y_label: "us per page of a thread",
        values: |cell, found| match is_plain(cell) && !is_pool(cell) {
            true => us_of_a_thread(cell, wall_ns(found, "first")),
            false => Vec::new(),
        },
        ..Chart::BLANK
    },
    document::WALL_BY_THREADS,
    document::CPU_BY_THREADS,
    document::CPU_BY_LINES,
];

/// Whether nothing but the touches goes on, each of one line.
fn is_plain(cell: &Cell) -> bool {
    let plain = [("lines", "1"), ("lock", "no"), ("beside", "none")];
    plain.iter().all(|(name, value)| cell.text(name) == Ok(value))
}

fn of_plain(cell: &Cell, found: &Quantities, phase: &str) -> Vec<f64> {
    match is_plain(cell) && cell.text("memory") == Ok("shared") {
        true => us(cell, wall_ns(found, phase)),
        false => Vec::new(),
    }
}

/// Of each page, us.
fn us(cell: &Cell, ns: &[f64]) -> Vec<f64> {
    let pages = cell.mib("mib").map_or(1, |bytes| bytes / page::size()) as f64;
    ns.iter().map(|ns| ns / 1e3 / pages).collect()
}

/// The same for the pages of one thread: without waiting, it stays the same up to the number of processors.
fn us_of_a_thread(cell: &Cell, ns: &[f64]) -> Vec<f64> {
    let threads = cell.number("threads").unwrap_or(1) as f64;
    us(cell, ns).into_iter().map(|us| us * threads).collect()
}
