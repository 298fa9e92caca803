//! What "Bringing The Hardware And Windows To Its Limits" says of larger pages, and "A queue of page faults" of remapping.

use faultless_os::page;

use crate::claim::{Cells, Claim, Here, Series};
use crate::experiment::Document::{Hardware, Queue};

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
        Claim::between(
            ("queue-remapping", Queue),
            [
                "Slow single-core page remapping makes certain interesting approaches like C4 garbage collector infeasible",
                "no figure but that of a fault, 680 ns: 1.0 of it",
            ],
            (0.5, 2.0, "of a first touch"),
            |here| price(here, "mremap-beside") / price(here, "touch"),
        )
        .why(
            "mremap of a page, one page-table entry at a time, over a first touch, on one thread; the document takes the one for \
             the other; beside running threads each move also flushes their TLBs",
        ),
    ]
}
