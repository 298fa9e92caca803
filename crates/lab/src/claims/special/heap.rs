//! From which block size on an allocator maps every block anew, by the cells of `threshold`.

use faultless_trace::measurement::median;
use faultless_trace::verdict::Verdict;

use crate::claims::finding::Finding;
use crate::results::{Quantities, Results, values};

const THRESHOLD: &str = "threshold";

/// Whether a settled allocator takes a fault for at least every second page of the block.
fn is_mapped(found: &Quantities) -> bool {
    let of = |quantity| median(values(found, "later", quantity)?);
    let per_page = || Some(of("minor_faults")? / (of("cycles")? * of("pages_per_cycle")?));
    per_page().is_some_and(|faults| faults > 0.5)
}

/// The smallest block that an allocator maps anew, in KiB. `Some(None)`: it keeps all blocks. `None`: not measured.
fn mapped_from_kib(results: &Results, allocator: &str) -> Option<Option<usize>> {
    let cells = results.cells(THRESHOLD).filter(|(cell, _)| cell.text("allocator") == Ok(allocator));
    let mut sizes: Vec<(usize, bool)> =
        cells.filter_map(|(cell, found)| Some((cell.number("kib").ok()?, is_mapped(found)))).collect();
    sizes.sort_unstable();
    (!sizes.is_empty()).then(|| sizes.iter().find(|(_, is_mapped)| *is_mapped).map(|(kib, _)| *kib))
}

/// The same as text.
pub(super) fn maps_from(results: &Results, allocator: &str) -> Option<String> {
    mapped_from_kib(results, allocator).map(|found| match found {
        Some(kib) => format!("{allocator} maps anew from {kib} KiB on"),
        None => format!("{allocator} keeps all sizes"),
    })
}

/// Whether most allocators map large blocks anew.
pub(super) fn most_map(results: &Results) -> Option<Finding> {
    let names = ["glibc", "glibc-fixed", "jemalloc", "mimalloc", "tcmalloc"];
    let found: Vec<_> = names.iter().filter_map(|name| mapped_from_kib(results, name)).collect();
    let mapping = found.iter().flatten().count();
    let ours: Vec<_> = names.iter().filter_map(|name| maps_from(results, name)).collect();
    (!found.is_empty()).then(|| Finding {
        verdict: if 2 * mapping > found.len() { Verdict::Reproduced } else { Verdict::Refuted },
        ours: ours.join(", "),
        why: format!(
            "{mapping} of {} map; of the sizes measured, up to 64 MiB; glibc's threshold rises by itself, to 32 MiB at the most",
            found.len()
        ),
    })
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
        assert_eq!(maps_from(&results, "glibc").unwrap(), "glibc maps anew from 40960 KiB on");
        assert_eq!(most_map(&results).unwrap().verdict, Verdict::Reproduced);
        let keeps = Results::of([cell(64, 0.0), cell(640, 0.0)].concat()).unwrap();
        assert_eq!(most_map(&keeps).unwrap().verdict, Verdict::Refuted);
    }
}
