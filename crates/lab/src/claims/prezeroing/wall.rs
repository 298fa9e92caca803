//! The Wall columns of the document's tables, recomputed from its own faults and rates.

use super::prices::RATE;
use crate::claims::{Finding, NOT_MEASURED, Verdict, short};
use crate::results::Results;

/// Rows of the document: GB in all, Wall as printed, fault/wsec.
pub(super) type Row = (f64, f64, f64);

pub(super) const THREADS: [Row; 9] = [
    (12.0, 11.030, 69_566.852),
    (12.0, 7.097, 98_643.687),
    (12.0, 5.079, 135_642.420),
    (12.0, 4.037, 179_791.120),
    (1.0, 0.012, 517_665.538),
    (12.0, 2.093, 267_952.890),
    (12.0, 2.097, 263_967.292),
    (12.0, 2.097, 264_774.080),
    (12.0, 3.054, 221_701.073),
];
pub(super) const CACHE_LINES: [Row; 8] = [
    (1.0, 0.01, 497_925.891),
    (1.0, 0.01, 472_877.725),
    (1.0, 0.01, 471_507.415),
    (1.0, 0.01, 416_725.013),
    (1.0, 0.01, 336_983.834),
    (1.0, 0.02, 256_246.731),
    (1.0, 0.03, 168_189.283),
    (1.0, 0.06, 101_674.435),
];

/// Seconds that the document's own count of faults and their rate make.
fn wall_s((gb, _, rate): Row) -> f64 {
    const PAGES_PER_GB: f64 = 65_536.0;
    gb * PAGES_PER_GB / rate
}

/// Beside our table, whose Wall is measured, theirs recomputed.
pub(super) fn misprint(results: &Results, rows: &[Row]) -> Finding {
    if results.cells(RATE).next().is_none() {
        return Finding::unknown(NOT_MEASURED);
    }
    let is_printed_right = rows.iter().all(|row| (row.1 / wall_s(*row) - 1.0).abs() < 0.01);
    let verdict = if is_printed_right { Verdict::Reproduced } else { Verdict::Refuted };
    let seconds: Vec<_> = rows.iter().map(|row| short(wall_s(*row))).collect();
    Finding {
        verdict,
        ours: format!("{} s", seconds.join(" ")),
        why: "recomputed from its own faults and rate: hundredths are printed behind a stray 0, as in 7.097 for 7.97".into(),
    }
}
