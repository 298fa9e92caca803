//! What the cells of `threshold` say: from which size on an allocator maps every block anew.

use faultless_trace::stat::Interval;

use super::THRESHOLD;
use super::pipeline::scaled;
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
    Some(scaled(&faults, 1.0 / touches))
}

/// The smallest block for which an allocator that has settled takes a fault for every second page; `Some(None)` if there is
/// none, `None` where nothing was measured.
pub(super) fn mapped_from_kib(results: &Results, allocator: &str) -> Option<Option<usize>> {
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

pub(super) fn threshold(results: &Results, allocator: &str) -> String {
    match mapped_from_kib(results, allocator) {
        Some(Some(kib)) => format!("maps anew from {kib} KiB on"),
        Some(None) => "keeps all sizes".into(),
        None => String::new(),
    }
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
        assert_eq!(threshold(&results, "glibc"), "maps anew from 40960 KiB on");
    }
}
