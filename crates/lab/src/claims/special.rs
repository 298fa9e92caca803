//! Judges and texts of single claims that no formula can express.
//!
//! In: results. Out: a finding, nothing where the cells were not measured.

mod heap;
mod speed;
mod waits;

use faultless_trace::measurement::median;
use faultless_trace::verdict::Verdict;

use super::finding::{Bounds, Finding, short};
use super::rounds::Rounds;
use crate::experiments::touch::document::{BY_LINES, BY_THREADS, Theirs};
use crate::results::{Results, values};

/// A finding, and the figure and bounds behind it where rounds can decide.
pub(super) struct Told {
    pub(super) finding: Finding,
    pub(super) weighed: Option<(Rounds, Bounds)>,
}

/// A judge of its own; nothing where the cells were not measured.
pub(super) type Judge = fn(&Results) -> Option<Told>;

/// The judges by name.
const JUDGES: [(&str, Judge); 5] = [
    ("most-heaps-map", heap::most_map),
    ("noticeable-speed", speed::noticeable),
    ("process-wide-lock", waits::judge),
    ("wall-column-by-threads", |results| wall_column(results, &BY_THREADS)),
    ("wall-column-by-lines", |results| wall_column(results, &BY_LINES)),
];

type Text = fn(&Results) -> Option<String>;

/// Texts for `{NAME}`; nothing where the cells were not measured.
const TEXTS: [(&str, Text); 4] = [
    ("fault_parts", |results| Some(fault_parts(results))),
    ("lock_shares", |results| Some(lock_shares(results))),
    ("glibc_maps_from", |results| heap::maps_from(results, "glibc")),
    ("glibc_fixed_maps_from", |results| heap::maps_from(results, "glibc-fixed")),
];

/// The judge of that name.
pub(super) fn judge(name: &str) -> Option<Judge> {
    JUDGES.into_iter().find(|(known, _)| *known == name).map(|(_, judge)| judge)
}

/// Whether there is a text of that name.
pub(super) fn has_text(name: &str) -> bool {
    TEXTS.iter().any(|(known, _)| *known == name)
}

/// The text of that name, if there is such a name; nothing in it where the cells were not measured.
pub(super) fn text(name: &str, results: &Results) -> Option<Option<String>> {
    TEXTS.into_iter().find(|(known, _)| *known == name).map(|(_, text)| text(results))
}

/// The shares of a first touch in the kernel, the largest first.
fn fault_parts(results: &Results) -> String {
    let Some((_, found)) = results.find("phases", &[("page", "base")]) else { return String::new() };
    let shares = found.iter().filter(|((phase, name), _)| phase == "names" && name.ends_with("_share"));
    // The share of all samples that lie in faults is not a part of a fault, and each lock is a part of the locks.
    let parts = shares.filter(|((_, name), _)| name != "fault_share" && !name.ends_with("_lock_share"));
    let mut parts: Vec<_> = parts
        .filter_map(|((_, name), samples)| Some((name.trim_end_matches("_share"), median(samples)?)))
        .collect();
    parts.sort_by(|a, b| b.1.total_cmp(&a.1));
    let parts =
        parts.iter().map(|(name, share)| format!("{} {} %", name.replace('_', " "), short(share * 100.0)));
    parts.collect::<Vec<_>>().join(", ")
}

/// What a page costs at locks, by threads that touch one mapping: `; sampled, 1 thread: 1 690 ns, 13.3 % of it at
/// locks`. Nothing where the kernel was not sampled.
fn lock_shares(results: &Results) -> String {
    let mut cells: Vec<_> =
        results.cells("phases").filter(|(cell, _)| cell.text("page") == Ok("base")).collect();
    cells.sort_by(|(a, _), (b, _)| a.natural_cmp(b));
    let of = |found, name| median(values(found, "names", name)?);
    let parts = cells.into_iter().filter_map(|(cell, found)| {
        let threads = cell.number("threads").ok()?;
        let (cost_ns, share) = (of(found, "fault_ns")?, of(found, "locks_share")?);
        let noun = if threads == 1 { "thread" } else { "threads" };
        Some(format!("{threads} {noun} {cost_ns:.0} ns, {} % of it at locks", short(share * 100.0)))
    });
    let parts: Vec<String> = parts.collect();
    if parts.is_empty() {
        String::new()
    } else {
        format!("; CPU time per page, sampled: {}", parts.join("; "))
    }
}

/// Whether the Wall column of a table of the document is the quotient of its own faults and rates.
fn wall_column(results: &Results, rows: &[Theirs]) -> Option<Told> {
    results.find("touch", &[("memory", "zeroed-on-get")])?;
    let is_right = rows.iter().all(Theirs::is_printed_right);
    let seconds: Vec<_> = rows.iter().map(|row| short(row.wall_s())).collect();
    let finding = Finding {
        verdict: if is_right { Verdict::Reproduced } else { Verdict::Refuted },
        ours: format!("{} s", seconds.join(" ")),
        why: "recomputed from the document's own faults and rate: hundredths are printed behind a stray 0, as in 7.097 for 7.97".into(),
    };
    Some(Told { finding, weighed: None })
}
