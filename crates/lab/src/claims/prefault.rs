//! The claims of the "Explicit Memset-Based Page Prefaulting Implementation Report".

use faultless_trace::measurement::{median_interval, ratio};
use faultless_trace::stat::Interval;

use super::{Claim, Finding, LONGER, NOT_MEASURED, Verdict, Why, shares_of_a_fault, short, with_interval};
use crate::experiment::{Cell, Document};
use crate::results::{Quantities, Results, values};

const DOCUMENT: Document = Document::Prefault;
const PREFAULT: &str = "prefault";
const PHASES: &str = "phases";
/// Operations of the report's benchmark.
const OPERATIONS: f64 = 1e6;

const MOVED: &str = "populating in the loop moves a fault to another place in the loop; only the set-up or keeping slabs takes it out";

pub(super) const CLAIMS: &[Claim] = &[
    DOCUMENT.claim(
        PREFAULT,
        "prefault-baseline-faults",
        "1,000,000 operations of random_mixed take 132,507 faults",
        "132,507",
        |results| {
            let kept = way(results, "kept", None).and_then(|(_, found)| {
                let faults = median_interval(values(found, "timed", "minor_faults")?)?.value;
                Some(format!("; with empty slabs used again it is {}", short(faults)))
            });
            let why = "543 bytes per operation, never used again, fill as many pages".to_owned();
            let of_faults = |found: &Interval| with_interval(found, 1.0, "faults");
            let why = why + &kept.unwrap_or_default();
            Finding::bounded(faults(results, "none"), 131_200.0, 133_900.0, of_faults, why)
        },
    ),
    DOCUMENT.claim(
        PREFAULT,
        "prefault-memset-faults",
        "with memset of each new slab the faults are the same",
        "132,831 / 132,507 = 1.002",
        |results| versus(results, "memset", "none", "minor_faults", 0.98..=1.02, MOVED),
    ),
    DOCUMENT.claim(
        PREFAULT,
        "prefault-off-faults",
        "with the memset switched off they are the same as with it",
        "132,835 / 132,831 = 1.000",
        |results| versus(results, "none", "memset", "minor_faults", 0.98..=1.02, MOVED),
    ),
    DOCUMENT.claim(
        PREFAULT,
        "prefault-baseline-rate",
        "the baseline does 4.01 million operations per second",
        "1,000,000 in 0.249 s = 4.01 M/s",
        |results| rate(results, "none"),
    ),
    DOCUMENT.claim(
        PREFAULT,
        "prefault-memset-rate",
        "with memset 3.71",
        "3.72, 3.74, 3.67: 3.71 M/s",
        |results| rate(results, "memset"),
    ),
    DOCUMENT.claim(
        PREFAULT,
        "prefault-off-rate",
        "with the memset switched off 3.92",
        "1,000,000 in 0.255 s = 3.92 M/s",
        |results| rate(results, "none"),
    ),
    DOCUMENT.claim(
        PREFAULT,
        "prefault-long-rate",
        "5,000,000 operations run at the same rate",
        "3.69 / 3.71 M/s = 0.995",
        |results| {
            let per_operation = |operations: f64| {
                let (_, found) = way(results, "memset", Some(operations))?;
                Some(values(found, "timed", "wall_ns")?.iter().map(|ns| ns / operations).collect::<Vec<_>>())
            };
            let (Some(short), Some(long)) = (per_operation(1e6), per_operation(5e6)) else {
                return Finding::unknown(LONGER);
            };
            let found = ratio(&short, &long);
            Finding::bounded(
                Some(found),
                0.9,
                1.1,
                |found| with_interval(found, 1.0, "times the rate"),
                "every operation is like the one before",
            )
        },
    ),
    DOCUMENT.claim(
        PREFAULT,
        "prefault-memset-slower",
        "memset makes it 7 to 8 % slower",
        "0.269 s / 0.249 s = 1.08",
        |results| {
            let why = "a memset writes all of each page, an object one byte of it; as many faults stand beside both";
            versus(results, "memset", "none", "wall_ns", 1.03..=1.15, why)
        },
    ),
    DOCUMENT.claim(
        PREFAULT,
        "prefault-off-faster",
        "without the memset it is faster than with it",
        "3.71 / 3.92 M/s: 0.95 of the time",
        |results| {
            let why =
                "no prefault over memset; the report's two runs without any, 4.01 and 3.92, differ by 2 % themselves";
            versus(results, "none", "memset", "wall_ns", 0.85..=0.99, why)
        },
    ),
    DOCUMENT.claim(
        PREFAULT,
        "prefault-kernel-share",
        "the kernel takes 60 to 70 % of the time",
        "60 to 70 %",
        |results| {
            let found = way(results, "none", None).and_then(|(_, found)| {
                let [user, system] =
                    ["user_ns", "system_ns"].map(|quantity| values(found, "timed", quantity));
                let shares: Vec<f64> =
                    user?.iter().zip(system?).map(|(user, system)| system / (user + system)).collect();
                median_interval(&shares)
            });
            let ours = found.map(|found| with_interval(&found, 100.0, "%"));
            Finding::not_comparable(ours, "the rest is hakmem's own work; our stand-in does hardly any beside its faults")
        },
    ),
    DOCUMENT.claim(
        PREFAULT,
        "prefault-map-populate",
        "MAP_POPULATE does not work on Linux 6.8",
        "no page resident",
        |results| {
            let share = resident(results, &[("way", "map-populate")], "look");
            let why = "all of it is resident as soon as mmap returns; the cells trap= show what makes it void: PROT_NONE, PROT_READ, MAP_NONBLOCK, MADV_DONTNEED, fork";
            is_broken(share, why)
        },
    ),
    DOCUMENT.claim(
        PREFAULT,
        "prefault-map-populate-size",
        "perhaps it works for small mappings only, not for 1 to 2 MB",
        "1 MB",
        |results| {
            let share = resident(results, &[("trap", "none")], "setup");
            let mib = results.find(PREFAULT, &[("trap", "none")]).and_then(|(cell, _)| cell.number("mib").ok());
            is_broken(share, &format!("the size does not matter: this is one call for {} MiB", mib.unwrap_or(0)))
        },
    ),
    DOCUMENT.claim(
        PREFAULT,
        "prefault-mprotect",
        "perhaps mprotect undoes MAP_POPULATE",
        "a question",
        |results| {
            let share = resident(results, &[("trap", "protected")], "setup");
            let after = writes(results, "protected")
                .map_or(String::new(), |found| format!("; writes then take {} faults per page", short(found)));
            let finding = is_broken(
                share,
                "rights taken and given back change no residency (before Linux 5.19 the writes fault once more)",
            );
            Finding { ours: finding.ours + &after, ..finding }
        },
    ),
    DOCUMENT.claim(
        PREFAULT,
        "prefault-munmap",
        "perhaps a munmap undoes it",
        "a question",
        |results| {
            let share = resident(results, &[("trap", "given-back")], "setup");
            is_broken(share, "shown with MADV_DONTNEED: what was given back is not resident, and faults again")
        },
    ),
    DOCUMENT.claim(
        PREFAULT,
        "prefault-populate-write",
        "MADV_POPULATE_WRITE (5.14) populates at once",
        "all of it",
        |results| {
            let share = resident(results, &[("way", "populate-write")], "look");
            Finding::bounded(
                share,
                0.999,
                1.0,
                |found| with_interval(found, 100.0, "% resident"),
                "looked at with mincore",
            )
        },
    ),
    DOCUMENT.claim(
        PREFAULT,
        "prefault-slab-faults",
        "a slab of 1 MB that is prefaulted takes 256 faults",
        "256",
        |results| {
            let found = way(results, "memset", None).and_then(|(_, found)| {
                let slabs = *values(found, "timed", "slabs")?.first()?;
                let per_slab: Vec<f64> =
                    values(found, "timed", "minor_faults")?.iter().map(|faults| faults / slabs).collect();
                median_interval(&per_slab)
            });
            Finding::bounded(
                found,
                254.0,
                258.0,
                |found| with_interval(found, 1.0, "faults"),
                "one per page of 4 KiB",
            )
        },
    ),
    DOCUMENT.claim(
        PREFAULT,
        "prefault-expected-faults",
        "if the memset worked the benchmark would take 256 faults",
        "256 instead of 132,500",
        |results| {
            let why = format!("{} slabs of 256 pages are mapped in the loop: a memset moves a fault, and saves none", slabs(results));
            Finding::bounded(faults(results, "memset"), 0.0, 300.0, |found| with_interval(found, 1.0, "faults"), why)
        },
    ),
    DOCUMENT.claim(
        PREFAULT,
        "prefault-user-faults",
        "of those faults all but 256 come from the program's own writes, although the slabs are prefaulted",
        "132,250 of 132,500 = 0.998",
        |results| {
            let found = way(results, "memset", None).and_then(|(_, found)| {
                let of = |quantity| values(found, "timed", quantity)?.first().copied();
                let slabs = of("slabs")? * of("slab_pages")?;
                let left: Vec<f64> = values(found, "timed", "minor_faults")?
                    .iter()
                    .map(|faults| (faults - slabs).max(0.0) / faults)
                    .collect();
                median_interval(&left)
            });
            let why = format!(
                "every fault is that of a slab as it is prefaulted, and there are {} slabs, not one: writes to a resident page take none",
                slabs(results)
            );
            Finding::bounded(found, 0.9, 1.0, |found| with_interval(found, 1.0, "of the faults"), why)
        },
    ),
    DOCUMENT.claim(
        PREFAULT,
        "prefault-prewarm",
        "slabs that are made resident before the clock starts make it 2 to 3 times as fast",
        "2 to 3",
        |results| {
            let why = Why::differs(
                "more than faults is left in the loop: unmapping of slabs",
                "the kernel's part of the loop is larger here than the report's 60 %",
            );
            versus(results, "none", "prewarm", "wall_ns", 2.0..=3.0, why)
        },
    ),
    DOCUMENT.claim(
        PREFAULT,
        "prefault-prewarm-faults",
        "no fault is left in the loop then",
        "0 of 132,500",
        |results| {
            versus(
                results,
                "prewarm",
                "none",
                "minor_faults",
                0.0..=0.01,
                "but as many as before in the set-up: counted there",
            )
        },
    ),
    DOCUMENT.claim(
        PREFAULT,
        "prefault-no-gain",
        "prefaulting by hand in the loop, a byte per page or all of them, makes it no faster",
        "0.93 to 0.98 of the rate",
        |results| {
            // The calls that populate were not measured there; they stand beside.
            const BY_HAND: usize = 2;
            let ways = ["touch", "memset", "map-populate", "populate-write"];
            let found: Vec<_> = ways
                .iter()
                .filter_map(|name| Some((*name, times(results, name, "none", "wall_ns")?)))
                .collect();
            let by_hand = found.get(..BY_HAND).unwrap_or_default();
            if by_hand.is_empty() {
                return Finding::unknown(NOT_MEASURED);
            }
            let ours: Vec<_> = found
                .iter()
                .map(|(name, found)| format!("{name} {}", with_interval(found, 1.0, "times")))
                .collect();
            let verdict = match () {
                () if by_hand.iter().any(|(_, found)| found.high < 0.95) => Verdict::Refuted,
                () if by_hand.iter().all(|(_, found)| found.low > 0.85) => Verdict::Reproduced,
                () => Verdict::CannotSay,
            };
            let why = "a touch is a fault wherever it is made; one call that populates saves the traps, and no more; holds above 0.85 times for touch and memset, not below 0.95";
            Finding { verdict, ours: format!("times as long: {}", ours.join(", ")), why: why.into() }
        },
    ),
    DOCUMENT.claim(
        PREFAULT,
        "prefault-thp-faults",
        "pages of 2 MB take a 512th of the faults",
        "512", |results| {
        let found = times(results, "touch", "thp", "minor_faults");
        let why = "the loop's few other faults count too";
        Finding::bounded(found, 400.0, 560.0, |found| with_interval(found, 1.0, "times fewer"), why)
    }),
    DOCUMENT.claim(
        PREFAULT,
        "prefault-hugetlb",
        "MAP_HUGETLB takes a 512th of the faults",
        "512", |results| {
        let found = times(results, "touch", "hugetlb", "minor_faults");
        if found.is_none() {
            return Finding::unknown("no hugetlb pages were reserved: echo 64 > /proc/sys/vm/nr_hugepages");
        }
        Finding::bounded(found, 400.0, 560.0, |found| with_interval(found, 1.0, "times fewer"), "as THP")
    }),
    DOCUMENT.claim(
        PREFAULT,
        "prefault-kernel-60",
        "faults gone, 60 % of the time is gone: 2 to 3 times as fast",
        "1 / (1 - 0.6) = 2.5",
        |results| {
            let ours = times(results, "none", "kept", "wall_ns").map(|found| with_interval(&found, 1.0, "times"));
            let why = "it follows from hakmem's 60 %, and our stand-in does hardly anything beside its faults; ours keeps empty slabs";
            Finding::not_comparable(ours, why)
        },
    ),
    DOCUMENT.claim(
        PHASES,
        "prefault-clear",
        "clearing pages takes 11.25 % of the time, so a fifth of the kernel's",
        "11.25 % / 60 % = 0.19",
        |results| share(results, &["zeroing_share"], 0.12..=0.28),
    ),
    DOCUMENT.claim(
        PHASES,
        "prefault-anonymous",
        "do_anonymous_page takes more than 20 %, a third of the kernel's time",
        "20 % / 60 % = 0.33",
        |results| {
            share(results, &["page_table_share"], 0.2..=0.5).without_verdict(
                "the report does not say whether with what it calls; ours is without: the work on the page table",
            )
        },
    ),
    DOCUMENT.claim(
        PHASES,
        "prefault-lru",
        "LRU and cgroups take 12 %, a fifth of the kernel's time",
        "12 % / 60 % = 0.2",
        |results| share(results, &["lru_share", "memcg_share"], 0.1..=0.3),
    ),
];

/// A cell by its way; the one of the report's benchmark unless another number of operations is wanted.
fn way<'a>(results: &'a Results, way: &str, operations: Option<f64>) -> Option<(&'a Cell, &'a Quantities)> {
    let of = |cell: &Cell| cell.number("operations").map_or(0.0, |count| count as f64);
    let mut found =
        results.cells(PREFAULT).filter(|(cell, _)| cell.text("way").is_ok_and(|name| name == way));
    found.find(|(cell, _)| match operations {
        Some(wanted) => of(cell) == wanted,
        None => of(cell) <= OPERATIONS,
    })
}

/// Faults of the loop, for as many operations as the report's.
fn faults(results: &Results, name: &str) -> Option<Interval> {
    let (cell, found) = way(results, name, None)?;
    let scale = OPERATIONS / cell.number("operations").ok()? as f64;
    let faults: Vec<f64> =
        values(found, "timed", "minor_faults")?.iter().map(|faults| faults * scale).collect();
    median_interval(&faults)
}

/// How many slabs the loop maps, for as many operations as the report's.
fn slabs(results: &Results) -> String {
    let slabs = way(results, "memset", None).and_then(|(cell, found)| {
        let scale = OPERATIONS / cell.number("operations").ok()? as f64;
        Some(values(found, "timed", "slabs")?.first()? * scale)
    });
    slabs.map_or("-".into(), short)
}

/// How many times the loop's figure of `b` that of `a` is. No fault at all counts as one.
fn times(results: &Results, a: &str, b: &str, quantity: &str) -> Option<Interval> {
    let of = |name| {
        let (_, found) = way(results, name, None)?;
        Some(values(found, "timed", quantity)?.iter().map(|value| value.max(1.0)).collect::<Vec<_>>())
    };
    Some(ratio(&of(a)?, &of(b)?))
}

fn versus(
    results: &Results,
    a: &str,
    b: &str,
    quantity: &str,
    bounds: std::ops::RangeInclusive<f64>,
    why: impl Into<Why>,
) -> Finding {
    let found = times(results, a, b, quantity);
    Finding::bounded(found, *bounds.start(), *bounds.end(), |found| with_interval(found, 1.0, "times"), why)
}

/// Million operations per second.
fn rate(results: &Results, name: &str) -> Finding {
    let found = way(results, name, None).and_then(|(cell, found)| {
        let count = cell.number("operations").ok()? as f64;
        let rates: Vec<f64> = values(found, "timed", "wall_ns")?.iter().map(|ns| count * 1e3 / ns).collect();
        median_interval(&rates)
    });
    let ours = found.map(|found| with_interval(&found, 1.0, "M/s"));
    Finding::not_comparable(ours, "another machine, and hakmem; ours is a stand-in with the same pages")
}

/// Share of a mapping that is resident.
fn resident(results: &Results, parameters: &[(&str, &str)], phase: &str) -> Option<Interval> {
    let (_, found) = results.find(PREFAULT, parameters)?;
    let mapped = *values(found, phase, "mapped_bytes")?.first()?;
    let shares: Vec<f64> =
        values(found, phase, "resident_bytes")?.iter().map(|bytes| bytes / mapped).collect();
    median_interval(&shares)
}

/// Whether something leaves pages that are not resident.
fn is_broken(share: Option<Interval>, why: &str) -> Finding {
    Finding::bounded(share, 0.0, 0.99, |found| with_interval(found, 100.0, "% resident"), why)
}

/// Faults per page of writing to memory that was populated.
fn writes(results: &Results, trap: &str) -> Option<f64> {
    let (cell, found) = results.find(PREFAULT, &[("trap", trap)])?;
    let pages = ((cell.number("mib").ok()? << 20) / faultless_os::page::size()) as f64;
    Some(median_interval(values(found, "write", "minor_faults")?)?.value / pages)
}

/// The share of some phases of the kernel together.
fn share(results: &Results, names: &[&str], bounds: std::ops::RangeInclusive<f64>) -> Finding {
    let Some((_, found)) = results.find(PHASES, &[("page", "base")]) else {
        return Finding::unknown("not measured in this record: needs root");
    };
    let shares: Vec<&[f64]> = names.iter().filter_map(|name| values(found, "names", name)).collect();
    let rounds = shares.iter().map(|samples| samples.len()).min().unwrap_or(0);
    let sums: Vec<f64> = (0..rounds).map(|round| shares.iter().map(|samples| samples[round]).sum()).collect();
    let of_path = |found: &Interval| with_interval(found, 100.0, "% of the fault path");
    Finding::bounded(
        median_interval(&sums),
        *bounds.start(),
        *bounds.end(),
        of_path,
        format!("all of it: {}", shares_of_a_fault(results)),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::Row;

    fn row(cell: &str, round: u32, phase: &str, quantity: &str, value: f64) -> Row {
        Row {
            experiment: PREFAULT.into(),
            cell: cell.into(),
            round,
            phase: phase.into(),
            quantity: quantity.into(),
            value,
        }
    }

    fn judged(results: &Results, id: &str) -> Finding {
        (CLAIMS.iter().find(|claim| claim.id == id).unwrap().judge)(results)
    }

    #[test]
    fn the_reports_own_figures_reproduce_its_claims() {
        let way = |name: &str, seconds: f64, faults: f64| {
            let cell = format!("way={name} operations=1000000");
            let rows = |round: u32| {
                let value = seconds * (1.0 + f64::from(round) / 1000.0);
                [
                    row(&cell, round, "timed", "wall_ns", value * 1e9),
                    row(&cell, round, "timed", "minor_faults", faults),
                ]
            };
            (1..=8).flat_map(rows).collect::<Vec<_>>()
        };
        let results =
            Results::of([way("none", 0.249, 132_507.0), way("memset", 0.269, 132_831.0)].concat()).unwrap();
        for id in ["prefault-memset-slower", "prefault-memset-faults", "prefault-baseline-faults"] {
            assert_eq!(judged(&results, id).verdict, Verdict::Reproduced, "{id}");
        }
        let rate = judged(&results, "prefault-baseline-rate");
        assert_eq!(rate.verdict, Verdict::CannotSay);
        assert!(rate.ours.starts_with("4.00 M/s"), "{}", rate.ours);
        assert_eq!(judged(&results, "prefault-expected-faults").verdict, Verdict::Refuted);
    }

    #[test]
    fn resident_memory_refutes_that_populating_is_broken() {
        let cell = "way=map-populate operations=1000000";
        let rows =
            |round| ["mapped_bytes", "resident_bytes"].map(|bytes| row(cell, round, "look", bytes, 100.0));
        let results = Results::of((1..=3).flat_map(rows).collect()).unwrap();
        let finding = judged(&results, "prefault-map-populate");
        assert_eq!((finding.verdict, finding.ours.as_str()), (Verdict::Refuted, "100 % resident"));
    }
}
