//! The claims of "Oops All Page Faults!".

use faultless_trace::measurement::{median_interval, ratio};
use faultless_trace::stat::Interval;

use super::{Claim, Finding, LONGER, NOT_MEASURED, Why, short, with_interval};
use crate::experiment::{Cell, Document};
use crate::results::{Results, values};

const DOCUMENT: Document = Document::Oops;
const STRIDE: &str = "stride";

pub(super) const CLAIMS: &[Claim] = &[
    DOCUMENT.claim(
        STRIDE,
        "oops-line",
        "a cache line has 64 bytes: from stride 16 on twice the stride is half the lines",
        "64 bytes",
        |results| {
            let (Some(line), Some(beyond)) = (wall(results, "ones", "16"), wall(results, "ones", "32")) else {
                return Finding::unknown(if wall(results, "ones", "16").is_some() { LONGER } else { NOT_MEASURED });
            };
            let why = "stride 16 over 32, without faults; 1 is what fetching lines in pairs makes of it";
            Finding::effect(Some(ratio(line, beyond)), 2.0, why)
        },
    ),
    DOCUMENT.claim(
        STRIDE,
        "oops-first-stride-pays",
        "with one array for both, stride 1 takes many times as long as stride 16 after it",
        "368 ms / 32 ms = 11.5",
        |results| {
            let both = [("array", "shared")];
            let found = results.ratio(STRIDE, (&both, "first", "wall_ns"), (&both, "second", "wall_ns"));
            Finding::effect(found, 11.5, "the first stride takes all the faults")
        },
    ),
    DOCUMENT.claim(
        STRIDE,
        "oops-shared-faults",
        "both loops on one array take 131,145 faults: two per page",
        "131,145 faults for 65,536 pages = 2.00",
        |results| {
            let why = "a read maps the zero page, the write after it copies; 131,145 are 2 x 65,536 and 73 of the program's own";
            faults_per_page(results, ("shared", "1"), &["setup", "first", "second"], 2.0, why)
        },
    ),
    DOCUMENT.claim(
        STRIDE,
        "oops-second-stride-free",
        "a page that is backed by memory faults no more: the second stride takes none",
        "0 of 131,145 faults",
        |results| faults_per_page(results, ("shared", "1"), &["second"], 0.0, "faults of stride 16 after stride 1"),
    ),
    DOCUMENT.claim(
        STRIDE,
        "oops-fault-rate",
        "the program takes 273,724 faults per second, 298,211 with an array per stride",
        "273.724 and 298.211 K/sec",
        |results| {
            let Some((_, found)) = find(results, "shared", "1") else { return Finding::unknown(NOT_MEASURED) };
            let of = |quantity| values(found, "first", quantity).unwrap_or_default();
            let rates: Vec<f64> =
                of("minor_faults").iter().zip(of("wall_ns")).map(|(faults, ns)| faults / ns * 1e6).collect();
            let ours = median_interval(&rates).map(|found| with_interval(&found, 1.0, "K/sec"));
            Finding::not_comparable(ours, "the price of a fault of another machine; ours is of the first loop alone")
        },
    ),
    DOCUMENT.claim(
        STRIDE,
        "oops-twice-the-arrays",
        "an array per stride takes twice the faults",
        "262,219 / 131,145 = 2.00",
        |results| {
            let per_page = |array: &str, stride: &str, phases: &[&str]| {
                phases.iter().map(|phase| per_page(results, array, stride, phase)).sum::<Option<f64>>()
            };
            let apart = ["1", "16"].map(|stride| per_page("zeroed", stride, &["setup", "timed"]));
            let ([Some(one), Some(sixteen)], Some(both)) =
                (apart, per_page("shared", "1", &["setup", "first", "second"]))
            else {
                return Finding::unknown(NOT_MEASURED);
            };
            let value = (one + sixteen) / both;
            let found = Interval { value, low: value, high: value };
            let why = "stride 16 faults on its own array as stride 1 does: every page has a 16th element";
            Finding::bounded(Some(found), 1.98, 2.02, |found| with_interval(found, 1.0, "times"), why)
        },
    ),
    DOCUMENT.claim(
        STRIDE,
        "oops-zeroed-alike",
        "with a zeroed array of its own, stride 16 takes about as long as stride 1",
        "359 ms / 377 ms = 0.95, 396 ms / 405 ms = 0.98",
        |results| {
            let why = Why::differs(
                "both take two faults per page, but the arithmetic of stride 1 is no little thing beside them here",
                "both take two faults per page, and stride 16 nothing that would take longer: a matter of the rounds",
            );
            let found = versus(results, ("zeroed", "16"), ("zeroed", "1"));
            Finding::bounded(found, 0.75, 1.1, |found| with_interval(found, 1.0, "times"), why)
        },
    ),
    DOCUMENT.claim(
        STRIDE,
        "oops-igor",
        "Igor's loops took 80 ms on older hardware, these take 350",
        "350 ms / 80 ms = 4.4",
        |results| {
            let Some((cell, _)) = find(results, "zeroed", "1") else { return Finding::unknown(NOT_MEASURED) };
            let mib = cell.number("mib").unwrap_or(1) as f64;
            let per_ns = |array| {
                let samples = wall(results, array, "1")?;
                let found = median_interval(samples)?;
                Some(with_interval(&found, 256.0 / mib / 1e6, "ms"))
            };
            let ours = per_ns("zeroed").zip(per_ns("ones"));
            let ours = ours.map(|(with, without)| format!("{with} with faults, {without} without, for 256 MiB"));
            Finding::not_comparable(ours, "two other machines; what the faults do to the loop is the claim oops-ones-faster")
        },
    ),
    DOCUMENT.claim(
        STRIDE,
        "oops-lazy",
        "zeroed memory costs nothing when it is asked for: no page has memory yet",
        "no faults",
        |results| faults_per_page(results, ("zeroed", "1"), &["setup"], 0.0, "faults of the set-up"),
    ),
    DOCUMENT.claim(
        STRIDE,
        "oops-zeroed-faults",
        "the loop on a zeroed array takes two faults per page: the zero page is read, then copied on write",
        "262,219 faults for 2 x 65,536 pages = 2.00",
        |results| {
            let why = "a read maps the zero page, the write after it copies; 262,219 are 4 x 65,536 and 75 of the program's own";
            faults_per_page(results, ("zeroed", "1"), &["timed"], 2.0, why)
        },
    ),
    DOCUMENT.claim(
        STRIDE,
        "oops-ones-faults",
        "an array of ones takes one fault per page, all of them before the loop",
        "131,146 faults for 2 x 65,536 pages = 1.00",
        |results| {
            let why = "its first access is a write; 131,146 are 2 x 65,536, an array per stride, and 74 of the program's own";
            faults_per_page(results, ("ones", "1"), &["setup"], 1.0, why)
        },
    ),
    DOCUMENT.claim(
        STRIDE,
        "oops-ones-loop",
        "the loop on an array of ones takes no fault",
        "\"free\" in terms of faults",
        |results| faults_per_page(results, ("ones", "1"), &["timed"], 0.0, "faults of the loop"),
    ),
    DOCUMENT.claim(
        STRIDE,
        "oops-major-faults",
        "none of the faults is a major one",
        "0",
        |results| {
            let cells = results.cells(STRIDE).flat_map(|(_, found)| found);
            let major = cells.filter(|((_, quantity), _)| quantity == "major_faults").flat_map(|(_, values)| values);
            let Some(most) = major.copied().reduce(f64::max) else { return Finding::unknown(NOT_MEASURED) };
            let found = Interval { value: most, low: most, high: most };
            let ours = |found: &Interval| with_interval(found, 1.0, "in a phase at the most");
            Finding::bounded(Some(found), 0.0, 0.0, ours, "anonymous memory without swap has nothing to read")
        },
    ),
    DOCUMENT.claim(
        STRIDE,
        "oops-ones-alike",
        "without faults in the loop strides 1 and 16 take the same time, that of fetching every cache line",
        "26 ms / 29 ms = 0.90",
        |results| alike(results, "ones"),
    ),
    DOCUMENT.claim(
        STRIDE,
        "oops-ones-faster",
        "the loop is many times faster when the faults are gone from it",
        "377 ms / 29 ms = 13",
        |results| {
            let why = "stride 1 with two faults per page over the same without: the price of a fault here decides by how much";
            Finding::effect(versus(results, ("zeroed", "1"), ("ones", "1")), 13.0, why)
        },
    ),
    DOCUMENT.claim(
        STRIDE,
        "oops-prefaulted-faults",
        "a zero written to every 4 KiB takes all the faults: nobody optimises it away",
        "one fault per page of 4 KiB",
        |results| {
            faults_per_page(results, ("prefaulted", "1"), &["setup"], 1.0, "a write to a page that has no memory yet")
        },
    ),
    DOCUMENT.claim(
        STRIDE,
        "oops-prefaulted-strides",
        "after that strides 1 and 16 take the same time",
        "23 ms / 26 ms = 0.88",
        |results| alike(results, "prefaulted"),
    ),
    DOCUMENT.claim(
        STRIDE,
        "oops-prefaulted-alike",
        "prefaulting by hand, with zeroes, is as good as initialising to one",
        "26 ms / 29 ms = 0.90",
        |results| {
            let found = versus(results, ("prefaulted", "1"), ("ones", "1"));
            let why = "the same loop on pages that are all there";
            Finding::bounded(found, 0.7, 1.3, |found| with_interval(found, 1.0, "times"), why)
        },
    ),
];

fn find<'a>(
    results: &'a Results,
    array: &str,
    stride: &str,
) -> Option<(&'a Cell, &'a crate::results::Quantities)> {
    results.find(STRIDE, &[("array", array), ("stride", stride)])
}

/// Wall times of a loop.
fn wall<'a>(results: &'a Results, array: &str, stride: &str) -> Option<&'a [f64]> {
    values(find(results, array, stride)?.1, "timed", "wall_ns")
}

/// How many times as long the loop of one array and stride takes as that of another.
fn versus(results: &Results, a: (&str, &str), b: (&str, &str)) -> Option<Interval> {
    Some(ratio(wall(results, a.0, a.1)?, wall(results, b.0, b.1)?))
}

/// Stride 16 over stride 1 where no fault is in the loop.
fn alike(results: &Results, array: &str) -> Finding {
    let per_element = find(results, array, "1").and_then(|(cell, _)| {
        let elements = (cell.number("mib").ok()? << 20) as f64 / 4.0;
        Some(median_interval(wall(results, array, "1")?)?.value / elements)
    });
    let ns = per_element.map_or("-".into(), short);
    let why = Why::differs(
        &format!("stride 1 takes {ns} ns per element here: its arithmetic is not hidden behind the memory"),
        "stride 16 fetches the same lines as stride 1, and here no faster",
    );
    let times = |found: &Interval| with_interval(found, 1.0, "times");
    Finding::bounded(versus(results, (array, "16"), (array, "1")), 0.6, 1.1, times, why)
}

fn pages(cell: &Cell) -> f64 {
    cell.number("mib").map_or(1, |mib| (mib << 20) / faultless_os::page::size()) as f64
}

/// The median of a phase's faults by the pages of the array.
fn per_page(results: &Results, array: &str, stride: &str, phase: &str) -> Option<f64> {
    let (cell, found) = find(results, array, stride)?;
    Some(median_interval(values(found, phase, "minor_faults")?)?.value / pages(cell))
}

/// The faults of phases together by pages of the array; exact but for a few of the program's own.
fn faults_per_page(
    results: &Results,
    (array, stride): (&str, &str),
    phases: &[&str],
    expected: f64,
    why: &str,
) -> Finding {
    let Some((cell, found)) = find(results, array, stride) else { return Finding::unknown(NOT_MEASURED) };
    let columns: Vec<&[f64]> =
        phases.iter().filter_map(|phase| values(found, phase, "minor_faults")).collect();
    if columns.len() < phases.len() {
        return Finding::unknown(NOT_MEASURED);
    }
    let rounds = columns.iter().map(|samples| samples.len()).min().unwrap_or(0);
    let sums: Vec<f64> =
        (0..rounds).map(|round| columns.iter().map(|samples| samples[round]).sum()).collect();
    let pages = pages(cell);
    let by_page = median_interval(&sums.iter().map(|faults| faults / pages).collect::<Vec<_>>());
    let (low, high) = (expected * 0.999, expected * 1.01 + 0.01);
    let per_page = |found: &Interval| with_interval(found, 1.0, "per page");
    let finding = Finding::bounded(by_page, low, high, per_page, why);
    let faults = median_interval(&sums).map_or(0.0, |faults| faults.value);
    Finding {
        ours: format!("{}: {} faults for {} pages", finding.ours, short(faults), short(pages)),
        ..finding
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::claims::Verdict;
    use crate::record::Row;

    /// Three rounds of a phase.
    fn rows(array: &str, stride: u32, phase: &str, [ms, faults]: [f64; 2]) -> Vec<Row> {
        let row = |round: u32, quantity: &str, value: f64| Row {
            experiment: STRIDE.into(),
            cell: format!("array={array} mib=256 stride={stride}"),
            round,
            phase: phase.into(),
            quantity: quantity.into(),
            value,
        };
        let round = |round| {
            [
                row(round, "wall_ns", ms * 1e6 * (1.0 + f64::from(round) / 1e3)),
                row(round, "minor_faults", faults),
                row(round, "major_faults", 0.0),
            ]
        };
        (1..=3).flat_map(round).collect()
    }

    /// The document's figures; some faults of the program's own go with the first loop.
    fn document(second_faults: f64) -> Results {
        let pages = 65_536.0 * 4096.0 / faultless_os::page::size() as f64;
        let mut all = vec![
            rows("shared", 1, "setup", [0.1, 0.0]),
            rows("shared", 1, "first", [368.0, 2.0 * pages + 73.0]),
            rows("shared", 1, "second", [32.0, second_faults]),
        ];
        for (stride, zeroed, ones, prefaulted) in [(1, 377.0, 29.0, 26.0), (16, 359.0, 26.0, 23.0)] {
            all.push(rows("zeroed", stride, "setup", [0.1, 0.0]));
            all.push(rows("zeroed", stride, "timed", [zeroed, 2.0 * pages + 37.0]));
            all.push(rows("ones", stride, "setup", [100.0, pages + 37.0]));
            all.push(rows("ones", stride, "timed", [ones, 0.0]));
            all.push(rows("prefaulted", stride, "setup", [100.0, pages]));
            all.push(rows("prefaulted", stride, "timed", [prefaulted, 0.0]));
        }
        Results::of(all.concat()).unwrap()
    }

    fn judged(results: &Results, id: &str) -> Finding {
        (CLAIMS.iter().find(|claim| claim.id == id).unwrap().judge)(results)
    }

    #[test]
    fn the_documents_own_figures_reproduce_its_claims() {
        let results = document(0.0);
        for claim in CLAIMS {
            let finding = (claim.judge)(&results);
            let expected = match claim.id {
                "oops-line" | "oops-fault-rate" | "oops-igor" => Verdict::CannotSay,
                _ => Verdict::Reproduced,
            };
            assert_eq!(finding.verdict, expected, "{} {finding:?}", claim.id);
        }
        assert_eq!(judged(&results, "oops-line").why, LONGER);
    }

    #[test]
    fn a_second_stride_that_faults_refutes_that_it_is_free() {
        let results = document(2000.0);
        assert_eq!(judged(&results, "oops-second-stride-free").verdict, Verdict::Refuted);
        assert_eq!(judged(&results, "oops-shared-faults").verdict, Verdict::Refuted);
    }

    #[test]
    fn lines_are_told_by_the_time_beyond_stride_16() {
        let judged = |beyond| {
            let all = [rows("ones", 16, "timed", [26.0, 0.0]), rows("ones", 32, "timed", [beyond, 0.0])];
            judged(&Results::of(all.concat()).unwrap(), "oops-line").verdict
        };
        assert_eq!([13.0, 26.0].map(judged), [Verdict::Reproduced, Verdict::Refuted]);
    }
}
