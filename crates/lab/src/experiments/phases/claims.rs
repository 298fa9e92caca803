//! What two documents say of the parts of a page fault.

use crate::claim::{Cells, Claim, Here, Series, Unjudged, short};
use crate::document::Document::{Prefault, Prezeroing};

/// First touches by the fewest threads: cells are in rising order.
fn touches<'a>(here: &Here<'a>) -> Cells<'a> {
    here.cells("phases")
}

/// The parts that a document may mean by an operation, locks left out.
const OTHERS: [&str; 5] =
    ["page_allocation_share", "memcg_share", "lru_share", "page_table_share", "entry_share"];

/// A part's share of a fault.
fn share(here: &Here, part: &str) -> Series {
    touches(here).of("names", part)
}

/// The sum of parts; a part without a sample is none.
fn percent(here: &Here, parts: &[&str]) -> Series {
    let sum = |sum: Series, part: &&str| sum + share(here, part).or(0.0);
    100.0 * parts[1..].iter().fold(share(here, parts[0]), sum)
}

/// All parts, the largest first.
fn parts(here: &Here) -> String {
    let all = OTHERS.iter().chain(&["zeroing_share", "locks_share", "other_share"]);
    let mut all: Vec<(&str, f64)> =
        all.filter_map(|part| Some((part.trim_end_matches("_share"), share(here, part).median()?))).collect();
    all.sort_by(|a, b| b.1.total_cmp(&a.1));
    let each =
        all.iter().map(|(part, share)| format!("{} {} %", part.replace('_', " "), short(100.0 * share)));
    each.collect::<Vec<_>>().join(", ")
}

pub(super) fn claims() -> Vec<Claim> {
    vec![
        Claim::at_least(
            ("prezero-zeroing-largest", Prezeroing),
            [
                "The most expensive operation in the page fault handler is (apart of SMP locking overhead) the zeroing of the \
                 page",
                "no figure; more than any other part",
            ],
            (1.0, "times the largest other part", "by how much the document does not say"),
            |here| {
                let others = OTHERS.into_iter().map(|part| share(here, part));
                share(here, "zeroing_share") / Series::largest(others)
            },
        )
        .beside(parts)
        .why("a part is what `faultless stat` sorts into it by its functions, in first touches; there a page has 16 KiB"),
    ]
}

pub(super) fn unjudged() -> Vec<Unjudged> {
    const PROFILE: &str = "a profile of another machine, of all the kernel's time, mapping and freeing included; ours is of \
                           the fault path alone";
    vec![
        Unjudged::new(
            Prezeroing,
            [
                "The most expensive operation in the page fault handler is (apart of SMP locking overhead) the zeroing of the \
                 page",
                "10.6 of 14.4 us by its rates with and without: 74 % of a fault",
            ],
            "a price of that machine, whose pages have 16 KiB; prezero-zeroing-largest judges the words",
        )
        .here("% of a fault", |here| percent(here, &["zeroing_share"])),
        Unjudged::new(
            Prefault,
            ["clear_page_erms: 11.25% - Zeroing newly faulted pages", "11.25 of 60 % = 19 % of the kernel's time"],
            PROFILE,
        )
        .here("% of the fault path", |here| percent(here, &["zeroing_share"])),
        Unjudged::new(
            Prefault,
            ["do_anonymous_page: 20%+ - Page fault handler", "20 of 60 % = 33 % of the kernel's time"],
            "the report does not say whether this includes the functions that it calls, so PERF_ANALYSIS_INDEX_20251204.md \
             decides; ours includes them: with the clearing, the page's allocation and its accounting",
        )
        .here("% of the fault path", |here| {
            let called = ["page_table_share", "zeroing_share", "page_allocation_share", "memcg_share", "lru_share"];
            percent(here, &called)
        }),
        Unjudged::new(
            Prefault,
            ["LRU/cgroup: 12% - Memory accounting", "12 of 60 % = 20 % of the kernel's time"],
            PROFILE,
        )
        .here("% of the fault path", |here| percent(here, &["memcg_share", "lru_share"])),
    ]
}
