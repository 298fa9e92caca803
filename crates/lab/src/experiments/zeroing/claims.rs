//! What "Prezeroing V2" says of zeroing itself: of hot memory, of large blocks, and beside a program.

use crate::claim::{Cells, Claim, Here, Series, Unjudged};
use crate::document::Document::Prezeroing;

/// An engine that zeroes blocks of one order, from memory in the caches or in none.
fn engine<'a>(here: &Here<'a>, engine: &str, from: &str, order: usize) -> Cells<'a> {
    here.cells("zeroing").with("engine", engine).with("from", from).with("order", order)
}

/// One thread that reads the most memory, alone or beside a thread that zeroes other memory.
fn reading<'a>(here: &Here<'a>, kind: &str) -> Cells<'a> {
    here.cells("copy").with("kind", kind).with("threads", 1).most("mib")
}

/// CPU time of zeroing a base page, ns.
fn zero_ns(cell: &Cells) -> Series {
    cell.cpu("zero") / cell.of("zero", "pages")
}

/// CPU time of reading a base page that was just zeroed, ns.
fn reader_ns(cell: &Cells) -> Series {
    (cell.cpu("reader") - cell.cpu("zero")) / cell.of("zero", "pages")
}

/// How many times as long a working set elsewhere takes while blocks are zeroed.
fn beside(cell: &Cells) -> Series {
    cell.of("beside", "set_cpu_ns") / cell.of("alone", "set_cpu_ns")
}

/// Where the document has no figure, more than this is a difference: its own two runs of 1 GB, one thread and one line,
/// 524,292 and 500,814 faults per CPU second, differ by 4.7 %.
const ALIKE: f64 = 1.05;
const NO_FIGURE: &str = "no figure; its own runs of one test differ by 5 %";
const OPEN: &str = "by how much the document does not say";

pub(super) fn claims() -> Vec<Claim> {
    vec![
        Claim::at_least(
            ("prezero-hot-is-cheaper", Prezeroing),
            [
                "Pages that have recently been touched and that soon will be touched again are better hot zeroed since the \
                 zeroing will largely be done to cachelines already in the cpu caches",
                NO_FIGURE,
            ],
            (ALIKE, "times, cold to hot", OPEN),
            |here| zero_ns(&engine(here, "cached", "cold", 0)) / zero_ns(&engine(here, "cached", "hot", 0)),
        )
        .why("CPU time of zeroing a page that is in no cache, over one in the nearest; whether it pays, prezero-hot-only-moved says"),
        Claim::between(
            ("prezero-hot-only-moved", Prezeroing),
            ["Approaches like that will only shift processing a bit and not yield performance benefits", NO_FIGURE],
            (1.0 / ALIKE, ALIKE, "times the time of zeroing when needed"),
            |here| {
                let hot = engine(here, "cached", "hot", 3);
                hot.cpu("early") / hot.cpu("reader")
            },
        )
        .stand_in("ours is the caches' part of it, without the lists of a kernel")
        .why("CPU time of zeroing and reading blocks of order 3 that are in the cache: each zeroed before its predecessor is \
              read, over each zeroed when needed"),
        Claim::at_least(
            ("prezero-aggregated", Prezeroing),
            [
                "Aggregating zeroing operations to only apply to pages of higher order, which results in many pages that will \
                 later become order 0 to be zeroed in one go",
                NO_FIGURE,
            ],
            (ALIKE, "times, order 0 to order 9", OPEN),
            |here| zero_ns(&engine(here, "cached", "cold", 0)) / zero_ns(&engine(here, "cached", "cold", 9)),
        )
        .why("CPU time for each page of memory in no cache, mapped by base pages: a part of it is the TLB's"),
        Claim::at_least(
            ("prezero-offload-spares-caches", Prezeroing),
            [
                "Hardware support for offloading zeroing from the cpu. This avoids the invalidation of the cpu caches by \
                 extensive zeroing operations",
                NO_FIGURE,
            ],
            (ALIKE, "times, through the cache to round it", OPEN),
            |here| {
                let of = |name| beside(&engine(here, name, "cold", 0));
                of("cached") / of("non-temporal")
            },
        )
        .stand_in("non-temporal stores are not a device that zeroes memory")
        .why("how much longer a working set elsewhere takes between blocks that are zeroed"),
        Claim::between(
            ("prezero-scrubber", Prezeroing),
            ["The scrub daemon is hardly noticable", NO_FIGURE],
            (1.0 / ALIKE, ALIKE, "times as long"),
            |here| reading(here, "read-scrub").wall("timed") / reading(here, "read").wall("timed"),
        )
        .stand_in(
            "ours is the worst case, a thread that only reads memory beside one that zeroes without a pause; the daemon stops \
             when enough pages are zero",
        )
        .why("beside a thread that zeroes other memory, over the same alone; takes two processors"),
    ]
}

pub(super) fn unjudged() -> Vec<Unjudged> {
    vec![
        Unjudged::new(
            Prezeroing,
            [
                "the zeroes written to a hot zeroed page will then be overwritten by the application in the cpu cache and thus \
                 the zeros will never make it to memory!",
                "no figure",
            ],
            "of writes to memory: the memory controller counts them (uncore_imc of perf), not in a guest; ours is the time of \
             the next reader, after stores round the cache over after stores through it",
        )
        .here("times", |here| {
            let of = |name| reader_ns(&engine(here, name, "cold", 0));
            of("non-temporal") / of("cached")
        }),
    ]
}
