//! From which block size on an allocator maps every block anew, by the cells of `threshold`.

use crate::cell::Cell;
use crate::claims::finding::{Bounds, Finding, MORE_ROUNDS, Side, joined, with_interval};
use crate::claims::rounds::Rounds;
use crate::results::Results;

const THRESHOLD: &str = "threshold";

/// From here on a settled allocator maps the block anew: a fault for at least every second page.
const MAPS: f64 = 0.5;

/// Faults per page and cycle of a settled allocator, by round.
fn faults_per_page(results: &Results, cell: &Cell) -> Option<Rounds> {
    let of = |quantity| Rounds::of(results, cell, "later", &[quantity]);
    let pages = of("cycles")?.with(&of("pages_per_cycle")?, |cycles, pages| cycles * pages);
    Some(of("minor_faults")?.with(&pages, |faults, pages| faults / pages))
}

/// The cells of an allocator by their size in KiB, with the faults per page.
fn sizes(results: &Results, allocator: &str) -> Vec<(usize, Rounds)> {
    let cells = results.cells(THRESHOLD).filter(|(cell, _)| cell.text("allocator") == Ok(allocator));
    let mut sizes: Vec<(usize, Rounds)> = cells
        .filter_map(|(cell, _)| Some((cell.number("kib").ok()?, faults_per_page(results, cell)?)))
        .collect();
    sizes.sort_unstable_by_key(|(kib, _)| *kib);
    sizes
}

/// The smallest block that an allocator maps anew, in KiB. `Some(None)`: it keeps all blocks. `None`: not measured.
fn mapped_from_kib(results: &Results, allocator: &str) -> Option<Option<usize>> {
    let sizes = sizes(results, allocator);
    let is_mapped = |rounds: &Rounds| rounds.median().is_some_and(|faults| faults > MAPS);
    (!sizes.is_empty()).then(|| sizes.iter().find(|(_, rounds)| is_mapped(rounds)).map(|(kib, _)| *kib))
}

/// The same as text.
pub(super) fn maps_from(results: &Results, allocator: &str) -> Option<String> {
    mapped_from_kib(results, allocator).map(|found| match found {
        Some(kib) => format!("{allocator} maps anew from {kib} KiB on"),
        None => format!("{allocator} keeps all sizes"),
    })
}

/// Whether most allocators map large blocks anew: their share, round by round.
pub(super) fn most_map(results: &Results) -> Option<Finding> {
    let names = ["glibc", "glibc-fixed", "jemalloc", "mimalloc", "tcmalloc"];
    let most_faults = |name: &&str| {
        let sizes = sizes(results, name).into_iter().map(|(_, rounds)| rounds);
        sizes.reduce(|a, b| a.or_larger(&b))
    };
    let found: Vec<Rounds> = names.iter().filter_map(most_faults).collect();
    let count = found.len();
    let maps = |rounds: Rounds| rounds.map(|faults| f64::from(u8::from(faults > MAPS)) / count as f64);
    let share = found.into_iter().map(maps).reduce(|a, b| a.with(&b, |a, b| a + b))?;
    let ours: Vec<_> = names.iter().filter_map(|name| maps_from(results, name)).collect();
    // More than half.
    let bounds = Bounds { low: 0.51, high: f64::MAX };
    let interval = share.interval()?;
    let side = bounds.side(&interval);
    let across = match side {
        Side::Across => MORE_ROUNDS,
        _ => "",
    };
    let why = "of the sizes measured, up to 64 MiB; glibc's threshold rises by itself, to 32 MiB at the most";
    Some(Finding {
        verdict: side.verdict(),
        ours: format!("{}: {}", with_interval(&interval, &format!("of {count} allocators")), ours.join(", ")),
        why: joined(&[across, why, &bounds.text("of the allocators")]),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::Row;
    use faultless_trace::verdict::Verdict;

    /// Three rounds of a cell whose blocks have ten pages, in two cycles.
    fn cell(allocator: &str, kib: usize, faults: [f64; 3]) -> Vec<Row> {
        let of = |quantity: &str, values: [f64; 3]| {
            let row = |(round, value)| Row {
                experiment: THRESHOLD.into(),
                cell: format!("allocator={allocator} kib={kib}"),
                round,
                phase: "later".into(),
                quantity: quantity.into(),
                value,
            };
            (1..).zip(values).map(row).collect::<Vec<_>>()
        };
        [of("minor_faults", faults), of("cycles", [2.0; 3]), of("pages_per_cycle", [10.0; 3])].concat()
    }

    #[test]
    fn the_size_at_which_an_allocator_changes_is_found() {
        let of = |kib, faults| cell("glibc", kib, [faults; 3]);
        let results = Results::of([of(64, 0.0), of(640, 1.0), of(40_960, 20.0)].concat()).unwrap();
        assert_eq!(mapped_from_kib(&results, "glibc"), Some(Some(40_960)));
        assert_eq!(mapped_from_kib(&results, "jemalloc"), None);
        assert_eq!(maps_from(&results, "glibc").unwrap(), "glibc maps anew from 40960 KiB on");
        assert_eq!(most_map(&results).unwrap().verdict, Verdict::Reproduced);
        let keeps = Results::of([of(64, 0.0), of(640, 0.0)].concat()).unwrap();
        assert_eq!(most_map(&keeps).unwrap().verdict, Verdict::Refuted);
    }

    #[test]
    fn a_majority_that_changes_from_round_to_round_is_none() {
        let of = |tcmalloc| {
            let one = |name, faults| cell(name, 64, faults);
            let rows = [one("glibc", [20.0; 3]), one("jemalloc", [0.0; 3]), one("tcmalloc", tcmalloc)];
            most_map(&Results::of(rows.concat()).unwrap()).unwrap()
        };
        let found = of([20.0, 0.0, 20.0]);
        assert_eq!(found.verdict, Verdict::CannotSay, "{found:?}");
        assert!(found.why.contains("decided by") && found.ours.contains("of 3 allocators ["), "{found:?}");
        assert_eq!(
            [[20.0; 3], [0.0; 3]].map(|faults| of(faults).verdict),
            [Verdict::Reproduced, Verdict::Refuted]
        );
    }
}
