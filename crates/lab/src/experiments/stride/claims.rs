//! What "Oops All Page Faults!" says of its loops, and "A queue of page faults" of caches.

use super::{ELEMENT, plateau};
use crate::claim::{Cells, Claim, Here, Series, Unjudged, short};
use crate::document::Document::{Oops, Queue};

/// The loop of a stride over an array of its own.
fn array<'a>(here: &Here<'a>, array: &str, stride: usize) -> Cells<'a> {
    here.cells("stride").with("array", array).with("stride", stride)
}

/// Time of stride 16 over that of stride 1.
fn sixteen_over_one(here: &Here, of: &str) -> Series {
    array(here, of, 16).wall("timed") / array(here, of, 1).wall("timed")
}

/// Faults of a phase with stride 1, for each page of the array.
fn faults_per_page(here: &Here, of: &str, phase: &str) -> Series {
    let cell = array(here, of, 1);
    cell.faults(phase) / cell.pages()
}

/// The number of faults behind [`faults_per_page`].
fn counted(of: &'static str, phase: &'static str) -> impl Fn(&Here) -> String {
    move |here| {
        let cell = array(here, of, 1);
        let number = |series: Series| series.median().map_or_else(|| "-".to_owned(), short);
        format!("{} faults for {} pages", number(cell.faults(phase)), number(cell.pages()))
    }
}

/// Faults of all phases that use the array.
fn all_faults(cell: &Cells, phases: &[&str]) -> Series {
    phases
        .iter()
        .map(|phase| cell.faults(phase))
        .reduce(|sum, faults| sum + faults)
        .unwrap_or(Series::Number(0.0))
}

/// Bytes at which a longer stride begins to save time: the end of the plateau, round by round.
fn line_bytes(here: &Here) -> Series {
    let all = here.cells("stride").with("array", "prefaulted");
    let each = all.each().filter_map(|cell| match (cell.number("stride"), cell.wall("timed")) {
        (Series::Number(stride), Series::Rounds(rounds)) => Some((stride as usize, rounds)),
        _ => None,
    });
    let each: Vec<_> = each.collect();
    if each.len() < 6 {
        return Series::Lacking(
            "too few strides in this record: `faultless lab stride` measures eleven".into(),
        );
    }
    let of_round = |round: &u32| {
        let points = each.iter().filter_map(|(stride, rounds)| Some((*stride, *rounds.get(round)?)));
        let (_, last) = plateau(&points.collect::<Vec<_>>())?;
        Some((*round, (last * ELEMENT) as f64))
    };
    Series::Rounds(each[0].1.keys().filter_map(of_round).collect())
}

/// More than the last cache of any processor of today.
const MEMORY_KIB: f64 = 524_288.0;

/// Loads that wait for each other.
fn chain<'a>(here: &Here<'a>) -> Cells<'a> {
    here.cells("stride").with("array", "chain")
}

/// CPU time of a load.
fn load(cell: &Cells) -> Series {
    cell.cpu("timed") / cell.of("timed", "loads")
}

pub(super) fn claims() -> Vec<Claim> {
    const ALIKE: (f64, f64, &str) = (0.6, 1.1, "times stride 1");
    vec![
        Claim::between(
            ("oops-line", Oops),
            [
                "access of an index in an array will actually pull into the CPU caches a (typically) 64 byte contiguous chunk \
                 of memory",
                "64 bytes",
            ],
            (64.0, 128.0, "bytes"),
            line_bytes,
        )
        .why("the longest stride of the plateau on which fewer elements take as long: a line, or two where the processor fetches lines \
             in pairs"),
        Claim::at_least(
            ("oops-first-stride-pays", Oops),
            [
                "our first stride iteration (stride=1) is incurring page faults as it traverses the array, because that is the \
                 first time our program accesses that memory",
                "368 ms / 32 ms = 11.5",
            ],
            (11.5_f64.sqrt(), "times", "how much dearer depends on the machine's price of a fault"),
            |here| {
                let cell = array(here, "shared", 1);
                cell.wall("first") / cell.wall("second")
            },
        )
        .why("time of stride 1 over that of stride 16 after it, on one array"),
        Claim::between(
            ("oops-shared-faults", Oops),
            ["131,145 page-faults:u", "131,145 faults for 65,536 pages = 2.00"],
            (1.998, 2.03, "per page"),
            |here| {
                let cell = array(here, "shared", 1);
                all_faults(&cell, &["setup", "first", "second"]) / cell.pages()
            },
        )
        .why("a read maps the zero page, the write after it copies it; 131,145 are 2 x 65,536 and 73 of the program's own"),
        Claim::between(
            ("oops-second-stride-free", Oops),
            [
                "Once a virtual memory page is backed by physical memory, there are no more page faults to be had for accessing \
                 that chunk",
                "0 of 131,145 faults",
            ],
            (0.0, 0.01, "per page"),
            |here| faults_per_page(here, "shared", "second"),
        )
        .beside(counted("shared", "second"))
        .why("faults of stride 16 after stride 1"),
        Claim::between(
            ("oops-twice-the-arrays", Oops),
            ["we’re seeing double the number of page faults", "262,219 / 131,145 = 2.00"],
            (1.98, 2.02, "times"),
            |here| {
                let own = |stride| all_faults(&array(here, "zeroed", stride), &["setup", "timed"]);
                (own(1) + own(16)) / all_faults(&array(here, "shared", 1), &["setup", "first", "second"])
            },
        )
        .why("stride 16 faults on its own array as stride 1 does: every page has a 16th element"),
        Claim::between(
            ("oops-zeroed-alike", Oops),
            [
                "both loops complete in around the same amount of time!",
                "359 ms / 377 ms = 0.95, 396 ms / 405 ms = 0.98",
            ],
            (0.75, 1.1, "times stride 1"),
            |here| sixteen_over_one(here, "zeroed"),
        )
        .why("both take two faults per page; below the bounds, the arithmetic of stride 1 takes a noticeable time beside them"),
        Claim::between(
            ("oops-zeroed-faults", Oops),
            [
                "we are triggering two of them per 4KiB chunk of our array",
                "262,219 faults for 2 x 65,536 pages = 2.00",
            ],
            (1.998, 2.03, "per page"),
            |here| faults_per_page(here, "zeroed", "timed"),
        )
        .beside(counted("zeroed", "timed")),
        Claim::between(
            ("oops-ones-faults", Oops),
            [
                "we know we can expect one page fault per page",
                "131,146 faults for 2 x 65,536 pages = 1.00",
            ],
            (0.999, 1.02, "per page"),
            |here| faults_per_page(here, "ones", "setup"),
        )
        .beside(counted("ones", "setup"))
        .why("its first access is a write; 131,146 are 2 x 65,536, an array per stride, and 74 of the program's own"),
        Claim::between(
            ("oops-ones-loop", Oops),
            [
                "The writes in the workload function are essentially “free” in terms of page faults",
                "\"free\" in terms of faults",
            ],
            (0.0, 0.01, "per page"),
            |here| faults_per_page(here, "ones", "timed"),
        )
        .beside(counted("ones", "timed")),
        Claim::between(
            ("oops-major-faults", Oops),
            ["0 major-faults:u", "0"],
            (0.0, 0.0, "in a phase at the most"),
            |here| {
                let cells = here.cells("stride");
                let phases = ["setup", "timed", "first", "second"];
                cells.highest(|cell| Series::largest(phases.map(|phase| cell.of(phase, "major_faults"))))
            },
        )
        .why("anonymous memory without swap has nothing to read"),
        Claim::between(
            ("oops-ones-alike", Oops),
            [
                "since fetching every element or every 16th element will fetch & cache the same number of lines/elements, both \
                 loops finish in the same time",
                "26 ms / 29 ms = 0.90",
            ],
            ALIKE,
            |here| sixteen_over_one(here, "ones"),
        )
        .why("both strides fetch every line; below the bounds, the arithmetic of stride 1 does not hide behind the memory"),
        Claim::at_least(
            ("oops-ones-faster", Oops),
            ["the overhead of triggering page faults is quite noticeable", "377 ms / 29 ms = 13"],
            (13_f64.sqrt(), "times", "how much depends on the machine's price of a fault"),
            |here| array(here, "zeroed", 1).wall("timed") / array(here, "ones", 1).wall("timed"),
        )
        .why("stride 1 with two faults per page over stride 1 without"),
        Claim::between(
            ("oops-prefaulted-faults", Oops),
            [
                "if we make a write into the vector at each 4KiB page boundary, we should trigger all the necessary page faults",
                "one fault per page of 4 KiB",
            ],
            (0.999, 1.02, "per page"),
            |here| faults_per_page(here, "prefaulted", "setup"),
        )
        .beside(counted("prefaulted", "setup"))
        .why("a write to a page that has no memory yet"),
        Claim::between(
            ("oops-zeroes-written", Oops),
            [
                "writing 0s is optimized away neither by the compiler nor the operating system",
                "one fault per page of 4 KiB",
            ],
            (0.999, 1.02, "per page"),
            |here| faults_per_page(here, "zeroes", "setup"),
        )
        .beside(counted("zeroes", "setup"))
        .why("a zeroed vector of the language's own, with a zero written to each page, as the document has it"),
        Claim::between(
            ("oops-prefaulted-strides", Oops),
            ["(stride=1) duration: 26ms (stride=16) duration: 23ms", "23 ms / 26 ms = 0.88"],
            ALIKE,
            |here| sixteen_over_one(here, "prefaulted"),
        )
        .why("the same loops as with ones"),
        Claim::between(
            ("oops-prefaulted-alike", Oops),
            ["Running this version confirms the hypothesis", "26 ms / 29 ms = 0.90"],
            (0.7, 1.3, "times"),
            |here| array(here, "zeroes", 1).wall("timed") / array(here, "ones", 1).wall("timed"),
        )
        .why("the same loop on pages that a zero was written to, over pages of ones"),
        Claim::at_least(
            ("queue-cache-miss", Queue),
            ["the last-level cache miss is 100x or more expensive than a first-level cache hit", "100x or more"],
            (100.0, "times", "the document's own \"or more\""),
            |here| load(&chain(here).whose("kib", |kib| kib >= MEMORY_KIB).most("kib")) / load(&chain(here).least("kib")),
        )
        .why("loads from 512 MiB or more over loads from 16 KiB, in huge pages; what the TLB still costs is part of it"),
    ]
}

pub(super) fn unjudged() -> Vec<Unjudged> {
    vec![
        Unjudged::new(
            Oops,
            [
                "The kernel is aware that the request for memory is coming from calloc(), and optimizes this path by not \
                 actually writing any zeroes",
                "no faults",
            ],
            "half of it is glibc's doing: calloc maps fresh memory for such a size and knows that it is zero; ours is what is \
             resident right after mmap",
        )
        .here("% resident", |here| {
            let cell = array(here, "zeroed", 1);
            100.0 * cell.of("setup", "resident_bytes") / cell.of("setup", "mapped_bytes")
        }),
        Unjudged::new(
            Oops,
            ["131,145 page-faults:u # 273.724 K/sec", "273.724 and 298.211 K/sec"],
            "the price of a fault on another machine; ours is the first loop alone",
        )
        .here("K/sec", |here| {
            let cell = array(here, "shared", 1);
            1e6 * cell.faults("first") / cell.wall("first")
        }),
        Unjudged::new(
            Oops,
            [
                "Our iterations are taking ~350ms, which is significantly slower than the iterations in Igor’s experiments - his \
                 loops completed in ~80ms",
                "350 ms / 80 ms = 4.4",
            ],
            "two other machines; oops-ones-faster judges the effect of the faults",
        ),
    ]
}
