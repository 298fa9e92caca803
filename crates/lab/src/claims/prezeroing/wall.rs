//! The Wall columns of the document's tables, recomputed from its own faults and rates.

use super::prices::RATE;
use crate::claims::{Finding, NOT_MEASURED, Verdict, short};
use crate::experiments::fault_rate::table::Theirs;
pub(super) use crate::experiments::fault_rate::table::{BY_LINES, BY_THREADS};
use crate::results::Results;

/// Beside our table, whose Wall is measured, theirs recomputed.
pub(super) fn misprint(results: &Results, rows: &[Theirs]) -> Finding {
    if results.cells(RATE).next().is_none() {
        return Finding::unknown(NOT_MEASURED);
    }
    let verdict =
        if rows.iter().all(Theirs::is_printed_right) { Verdict::Reproduced } else { Verdict::Refuted };
    let seconds: Vec<_> = rows.iter().map(|row| short(row.wall_s())).collect();
    Finding {
        verdict,
        ours: format!("{} s", seconds.join(" ")),
        why: "recomputed from its own faults and rate: hundredths are printed behind a stray 0, as in 7.097 for 7.97".into(),
    }
}
