//! What the cells of `threshold` say: from which size on an allocator maps every block anew.

use faultless_trace::stat::Interval;

use super::THRESHOLD;
use crate::claims::{Finding, NOT_MEASURED, Verdict};
use crate::experiment::Cell;
use crate::results::{Results, values};

/// Faults per page and cycle of a block size in KiB.
pub(super) fn faults_per_page(
    results: &Results,
    allocator: &str,
    kib: &str,
    phase: &str,
) -> Option<Interval> {
    let (_, found) = results.find(THRESHOLD, &[("allocator", allocator), ("kib", kib)])?;
    let of = |quantity| values(found, phase, quantity)?.first().copied();
    let touches = of("cycles")? * of("pages_per_cycle")?;
    let faults = faultless_trace::measurement::median_interval(values(found, phase, "minor_faults")?)?;
    Some(faults.times(1.0 / touches))
}

/// The smallest block for which an allocator that has settled takes a fault for every second page; `Some(None)` if there is
/// none, `None` where nothing was measured.
fn mapped_from_kib(results: &Results, allocator: &str) -> Option<Option<usize>> {
    let mut kibs: Vec<usize> = results
        .cells(THRESHOLD)
        .filter(|(cell, _)| cell.text("allocator").is_ok_and(|name| name == allocator))
        .filter_map(|(cell, _)| cell.number("kib").ok())
        .collect();
    kibs.sort_unstable();
    if kibs.is_empty() {
        return None;
    }
    let is_mapped = |kib: &usize| {
        faults_per_page(results, allocator, &kib.to_string(), "later").is_some_and(|found| found.value > 0.5)
    };
    Some(kibs.into_iter().find(is_mapped))
}

/// From which size on an allocator maps; nothing where it was not measured.
pub(super) fn threshold(results: &Results, allocator: &str) -> Option<String> {
    mapped_from_kib(results, allocator).map(|found| match found {
        Some(kib) => format!("{allocator} maps anew from {kib} KiB on"),
        None => format!("{allocator} keeps all sizes"),
    })
}

/// Whether most allocators map large blocks anew.
pub(super) fn mapping(results: &Results) -> Finding {
    let names = ["glibc", "glibc-fixed", "jemalloc", "mimalloc", "tcmalloc"];
    let found: Vec<_> = names.iter().filter_map(|name| mapped_from_kib(results, name)).collect();
    if found.is_empty() {
        return Finding::unknown(NOT_MEASURED);
    }
    let mapping = found.iter().flatten().count();
    let verdict = if 2 * mapping > found.len() { Verdict::Reproduced } else { Verdict::Refuted };
    let ours: Vec<_> = names.iter().filter_map(|name| threshold(results, name)).collect();
    let why = format!(
        "{mapping} of {} map; of the sizes measured, up to 64 MiB; glibc's threshold rises by itself, to 32 MiB at the most",
        found.len()
    );
    Finding { verdict, ours: ours.join(", "), why }
}

/// Time per page of the largest block over that of 640 KiB, where the heap maps both anew.
pub(super) fn growth(results: &Results) -> Option<Interval> {
    const SMALL_KIB: usize = 640;
    let fixed = |cell: &Cell| cell.text("allocator").is_ok_and(|name| name == "glibc-fixed");
    let kibs = results.cells(THRESHOLD).filter(|(cell, _)| fixed(cell));
    let most = kibs.filter_map(|(cell, _)| cell.number("kib").ok()).max().filter(|&kib| kib > SMALL_KIB)?;
    let per_page = |kib: usize| {
        let kib = kib.to_string();
        let (_, found) = results.find(THRESHOLD, &[("allocator", "glibc-fixed"), ("kib", kib.as_str())])?;
        let of = |quantity| values(found, "later", quantity)?.first().copied();
        let pages = of("cycles")? * of("pages_per_cycle")?;
        Some(values(found, "later", "wall_ns")?.iter().map(|ns| ns / pages).collect::<Vec<_>>())
    };
    Some(faultless_trace::measurement::ratio(&per_page(most)?, &per_page(SMALL_KIB)?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::Row;

    fn row(allocator: &str, kib: usize, quantity: &str, value: f64) -> Row {
        Row {
            experiment: THRESHOLD.into(),
            cell: format!("allocator={allocator} kib={kib}"),
            round: 1,
            phase: "later".into(),
            quantity: quantity.into(),
            value,
        }
    }

    #[test]
    fn the_size_at_which_an_allocator_changes_is_found() {
        let cell = |kib, faults| {
            [
                row("glibc", kib, "minor_faults", faults),
                row("glibc", kib, "cycles", 2.0),
                row("glibc", kib, "pages_per_cycle", 10.0),
            ]
        };
        let results = Results::of([cell(64, 0.0), cell(640, 1.0), cell(40_960, 20.0)].concat()).unwrap();
        assert_eq!(mapped_from_kib(&results, "glibc"), Some(Some(40_960)));
        assert_eq!(mapped_from_kib(&results, "jemalloc"), None);
        assert_eq!(threshold(&results, "glibc").unwrap(), "glibc maps anew from 40960 KiB on");
        assert_eq!(mapping(&results).verdict, Verdict::Reproduced);
        let keeps = Results::of([cell(64, 0.0), cell(640, 0.0)].concat()).unwrap();
        assert_eq!(mapping(&keeps).verdict, Verdict::Refuted);
    }

    #[test]
    fn blocks_that_cost_by_their_pages_cost_the_same_per_page() {
        let cell = |kib: usize, ns_per_page: f64| {
            let pages = kib as f64 / 4.0;
            [
                row("glibc-fixed", kib, "wall_ns", 2.0 * pages * ns_per_page),
                row("glibc-fixed", kib, "cycles", 2.0),
                row("glibc-fixed", kib, "pages_per_cycle", pages),
            ]
        };
        let results = Results::of([cell(640, 1600.0), cell(40_960, 1760.0)].concat()).unwrap();
        assert!((growth(&results).unwrap().value - 1.1).abs() < 1e-9);
    }
}
