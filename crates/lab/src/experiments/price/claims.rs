//! What "Bringing The Hardware And Windows To Its Limits" says of larger pages, and "A queue of page faults" of remapping.

use faultless_os::page;

use crate::claim::{Cells, Claim, Here, Series, Unjudged};
use crate::document::Document::{Hardware, Queue};

fn work<'a>(here: &Here<'a>, kind: &str, page: &str) -> Cells<'a> {
    here.cells("price").with("kind", kind).with("page", page).most("mib")
}

/// Time of a page.
fn price(here: &Here, kind: &str) -> Series {
    let cell = work(here, kind, "base");
    cell.wall("timed") / cell.of("timed", "pages")
}

pub(super) fn claims() -> Vec<Claim> {
    vec![
        Claim::between(
            ("hardware-64k", Hardware),
            [
                "by default the page size has been increased from 4 KB to 64 KB which means that the kernel needs to update 16 \
                 times less often the page table structures",
                "16 pages per fault",
            ],
            (15.0, 16.1, "pages per fault"),
            |here| {
                let cell = work(here, "touch", "64k");
                let pages = cell.of("timed", "pages") * f64::from(1 << 16) / page::size() as f64;
                pages / cell.faults("timed")
            },
        )
        .why(
            "not by default: Linux has mTHP of 64 KiB since 6.8 and gives them once root switches them on, with \
             echo madvise > /sys/kernel/mm/transparent_hugepage/hugepages-64kB/enabled",
        ),
    ]
}

pub(super) fn unjudged() -> Vec<Unjudged> {
    let remapping = Unjudged::new(
        Queue,
        [
            "Slow single-core page remapping makes certain interesting approaches like C4 garbage collector infeasible",
            "no figure",
        ],
        "without a figure nothing can be held against it: C4 remaps page after page beside running threads, each of which \
         flushes its TLB; ours is one mremap of all pages on one thread",
    );
    vec![remapping.here("of a first touch", |here| price(here, "mremap-beside") / price(here, "touch"))]
}
