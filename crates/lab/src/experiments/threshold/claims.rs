//! What "A queue of page faults" says of heaps and their thresholds.

use crate::claim::{Cells, Claim, Here, Series, Unjudged};
use crate::document::Document::Queue;

/// Allocators, each once: the same with a fixed threshold is no other heap.
const ALLOCATORS: [&str; 4] = ["glibc", "jemalloc", "mimalloc", "tcmalloc"];
/// With fewer of them "most" means nothing.
const LEAST: usize = 3;
/// The document's block.
const BLOCK_KIB: usize = 640;

/// Blocks of all sizes from an allocator.
fn blocks<'a>(here: &Here<'a>, allocator: &str) -> Cells<'a> {
    here.cells("threshold").with("allocator", allocator)
}

/// The document's block.
fn block<'a>(here: &Here<'a>, allocator: &str) -> Cells<'a> {
    blocks(here, allocator).with("kib", BLOCK_KIB)
}

/// 1 where an allocator unmaps a block of some size as it is freed.
fn unmaps(cells: &Cells) -> Series {
    cells.highest(|cell| cell.of("last", "is_unmapped"))
}

/// Of each allocator that was measured, whether it unmaps.
fn measured<'a>(here: &Here<'a>) -> Vec<(&'static str, Cells<'a>)> {
    let all = ALLOCATORS.map(|name| (name, blocks(here, name))).into_iter();
    all.filter(|(_, cells)| unmaps(cells).median().is_some()).collect()
}

/// The share of the allocators that unmap large blocks.
fn share(here: &Here) -> Series {
    let found = measured(here);
    let sum = found.iter().map(|(_, cells)| unmaps(cells)).reduce(|sum, next| sum + next);
    sum.unwrap_or_else(|| unmaps(&blocks(here, ALLOCATORS[0]))) / found.len().max(1) as f64
}

/// The smallest measured block that an allocator unmaps, KiB.
fn unmaps_from(cells: &Cells) -> Option<f64> {
    let is_unmapped = |cell: &Cells| unmaps(cell).median().is_some_and(|value| value > 0.5);
    cells.each().find(is_unmapped)?.number("kib").median()
}

/// The same of each allocator, in words.
fn each(here: &Here) -> String {
    let words = |(name, cells): (&str, Cells)| match unmaps_from(&cells) {
        Some(kib) => format!("{name} from {kib} KiB on"),
        None => format!("{name} never"),
    };
    measured(here).into_iter().map(words).collect::<Vec<_>>().join(", ")
}

/// The power of the block's size with which the time of a cycle grows.
fn exponent(here: &Here) -> Series {
    let (small, large) = (block(here, "glibc-fixed"), blocks(here, "glibc-fixed").most("kib"));
    let time = |cell: &Cells| cell.wall("later") / cell.of("later", "cycles");
    let size = large.number("kib") / BLOCK_KIB as f64;
    (time(&large) / time(&small)).map(f64::ln) / size.map(f64::ln)
}

pub(super) fn claims() -> Vec<Claim> {
    vec![
        Claim::between(
            ("queue-grows", Queue),
            [
                "as Bruce Dawson's post suggests this overhead grows with the total requested size",
                "84 ms for 500 MB, 38 ms for 200 MB: the power 0.87 of the size",
            ],
            (0.87, 1.13, "as the power of the size"),
            exponent,
        )
        .why(
            "time of a cycle by the block's size, from 640 KiB to the largest, each from the system: 1 is per byte, 0 is per \
             call; glibc with a fixed threshold",
        ),
        Claim::between(
            ("queue-above", Queue),
            [
                "Most heap implementations fall back to using virtual memory allocation above certain size",
                "508 KiB or 1 MB, and VirtualFree on deallocation",
            ],
            (0.51, 1.0, "of the allocators"),
            share,
        )
        .unless(|here| {
            let count = measured(here).len();
            let names = ALLOCATORS.join(", ");
            if share(here).median() == Some(0.5) {
                return Some("half of them, so one allocator more decides".into());
            }
            (count < LEAST).then(|| format!("{count} of {names} were measured, and most takes {LEAST}: install them"))
        })
        .beside(each)
        .why("whether a block's addresses are unmapped when it is freed, in the sizes measured; purging its pages is not that"),
    ]
}

pub(super) fn unjudged() -> Vec<Unjudged> {
    vec![
        Unjudged::new(
            Queue,
            [
                "the threshold - which is actually 65024 for x86 and 65280 for x64 - is defined in terms of allocation size \
                 granularity, which is 8 on x86 and 16 on x64",
                "508 KiB and 1020 KiB",
            ],
            "constants of the heap of Windows 7, which would decide",
        )
        .here("KiB, the smallest block that glibc unmaps", |here| {
            let cells = blocks(here, "glibc");
            unmaps_from(&cells).map_or_else(|| unmaps(&cells), Series::Number)
        }),
    ]
}
