//! The claims of "Oops All Page Faults!".

use super::{Claim, Finding, NOT_MEASURED, with_interval};
use crate::experiment::Document;
use crate::results::{Place, Results};

const EXPERIMENT: &str = "stride";
const DOCUMENT: Document = Document::Oops;

pub(super) const CLAIMS: &[Claim] = &[
    Claim {
        id: "oops-first-stride-pays",
        document: DOCUMENT,
        says: "with one array for both, stride 1 takes many times as long as stride 16 after it",
        figure: "368 ms / 32 ms = 11.5",
        experiment: EXPERIMENT,
        judge: |results| {
            let both = [("array", "shared")];
            let ratio = results.ratio(EXPERIMENT, (&both, "first", "wall_ns"), (&both, "second", "wall_ns"));
            Finding::bounded(
                ratio,
                4.0,
                f64::MAX,
                |found| with_interval(found, 1.0, "times"),
                "the first stride takes all the faults",
            )
        },
    },
    Claim {
        id: "oops-zeroed-alike",
        document: DOCUMENT,
        says: "with a zeroed array of its own, stride 16 takes about as long as stride 1",
        figure: "359 ms / 377 ms = 0.95",
        experiment: EXPERIMENT,
        judge: |results| {
            let ratio = strides(results, "zeroed", "16", "1");
            Finding::bounded(
                ratio,
                0.75,
                1.1,
                |found| with_interval(found, 1.0, "times"),
                "both take two faults per page, beside which the arithmetic is little",
            )
        },
    },
    Claim {
        id: "oops-zeroed-faults",
        document: DOCUMENT,
        says: "a zeroed array takes two faults per page: the zero page is read, then copied on write",
        figure: "131,145 faults for 65,536 pages = 2.00",
        experiment: EXPERIMENT,
        judge: |results| faults_per_page(results, "zeroed", "timed", 2.0),
    },
    Claim {
        id: "oops-ones-faults",
        document: DOCUMENT,
        says: "an array of ones takes one fault per page, all of them before the loop",
        figure: "131,146 faults for 2 x 65,536 pages = 1.00",
        experiment: EXPERIMENT,
        judge: |results| faults_per_page(results, "ones", "setup", 1.0),
    },
    Claim {
        id: "oops-ones-alike",
        document: DOCUMENT,
        says: "without faults in the loop strides 1 and 16 take the same time, that of fetching every cache line",
        figure: "26 ms / 29 ms = 0.90",
        experiment: EXPERIMENT,
        judge: |results| {
            let ratio = strides(results, "ones", "16", "1");
            Finding::bounded(
                ratio,
                0.6,
                1.1,
                |found| with_interval(found, 1.0, "times"),
                "where stride 16 is faster, the arithmetic of stride 1 is not hidden behind the memory",
            )
        },
    },
    Claim {
        id: "oops-ones-faster",
        document: DOCUMENT,
        says: "the loop is many times faster when the faults are gone from it",
        figure: "377 ms / 29 ms = 13",
        experiment: EXPERIMENT,
        judge: |results| between(results, ("zeroed", "1"), ("ones", "1"), 3.0),
    },
    Claim {
        id: "oops-prefaulted-alike",
        document: DOCUMENT,
        says: "prefaulting by hand, with zeroes, is as good as initialising to one",
        figure: "26 ms / 29 ms = 0.90",
        experiment: EXPERIMENT,
        judge: |results| {
            let (a, b) = ([("array", "prefaulted"), ("stride", "1")], [("array", "ones"), ("stride", "1")]);
            let ratio = results.ratio(EXPERIMENT, (&a, "timed", "wall_ns"), (&b, "timed", "wall_ns"));
            Finding::bounded(
                ratio,
                0.7,
                1.3,
                |found| with_interval(found, 1.0, "times"),
                "writing zeroes over zeroes is left out by nobody",
            )
        },
    },
];

fn strides(
    results: &Results,
    array: &str,
    top: &str,
    bottom: &str,
) -> Option<faultless_trace::stat::Interval> {
    let (a, b) = ([("array", array), ("stride", top)], [("array", array), ("stride", bottom)]);
    let (a, b): (Place, Place) = ((&a, "timed", "wall_ns"), (&b, "timed", "wall_ns"));
    results.ratio(EXPERIMENT, a, b)
}

fn between(
    results: &Results,
    (array, stride): (&str, &str),
    (other, at): (&str, &str),
    least: f64,
) -> Finding {
    let (a, b) = ([("array", array), ("stride", stride)], [("array", other), ("stride", at)]);
    let ratio = results.ratio(EXPERIMENT, (&a, "timed", "wall_ns"), (&b, "timed", "wall_ns"));
    Finding::bounded(
        ratio,
        least,
        f64::MAX,
        |found| with_interval(found, 1.0, "times"),
        "the price of a fault here decides by how much",
    )
}

/// The faults of a phase by pages of the array; exact but for a few of the program's own.
fn faults_per_page(results: &Results, array: &str, phase: &str, expected: f64) -> Finding {
    let Some((cell, _)) = results.find(EXPERIMENT, &[("array", array), ("stride", "1")]) else {
        return Finding::unknown(NOT_MEASURED);
    };
    let pages = cell.number("mib").map_or(1, |mib| (mib << 20) / faultless_os::page::size()) as f64;
    let faults = results.median(EXPERIMENT, &[("array", array), ("stride", "1")], phase, "minor_faults");
    let why = format!("{} faults for {pages} pages", faults.map_or(0.0, |faults| faults.value));
    let per_page = faults.map(|faults| faultless_trace::stat::Interval {
        value: faults.value / pages,
        low: faults.low / pages,
        high: faults.high / pages,
    });
    let (low, high) = (expected * 0.999, expected * 1.01);
    Finding::bounded(per_page, low, high, |found| with_interval(found, 1.0, "per page"), &why)
}
