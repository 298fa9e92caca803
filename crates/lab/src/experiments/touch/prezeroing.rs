//! What "Prezeroing V2" says of its page-fault test.

use super::document::{BY_LINES, BY_THREADS};
use crate::claim::{Cells, Claim, Here, Series, Unjudged, short};
use crate::document::Document::Prezeroing;

/// The phase that the document reports.
const TIMED: &str = "first";

/// Pages that come zeroed from the kernel or from a pool, of the size that pools have.
fn zeroed<'a>(here: &Here<'a>, memory: &str) -> Cells<'a> {
    let cells = |memory| {
        let cells = here.cells("touch").with("access", "write").with("memory", memory);
        cells.with("lock", "no").with("beside", "none")
    };
    cells(memory).same("mib", &cells(AHEAD).most("mib"))
}

/// Threads that write a line of each.
fn threads<'a>(here: &Here<'a>, memory: &str, threads: usize) -> Cells<'a> {
    zeroed(here, memory).with("lines", 1).with("threads", threads)
}

/// One thread that writes all lines of each page.
fn full<'a>(here: &Here<'a>, memory: &str) -> Cells<'a> {
    zeroed(here, memory).with("threads", 1).most("lines")
}

/// Threads that fault in parts of one mapping, of the largest size that one thread touched, too.
fn one_mapping<'a>(here: &Here<'a>, threads: usize) -> Cells<'a> {
    let cells = || {
        let cells = here.cells("touch").with("access", "write").with("memory", "shared").with("lines", 1);
        cells.with("lock", "no").with("beside", "none")
    };
    cells().with("threads", threads).same("mib", &cells().with("threads", 1).most("mib"))
}

/// CPU time of a page, ns.
fn cpu_ns(cell: &Cells) -> Series {
    cell.cpu(TIMED) / cell.pages()
}

/// How many times as fast as one thread.
fn speedup(here: &Here, count: usize) -> Series {
    let [one, many] = [1, count].map(|count| threads(here, ARMS[0], count));
    (one.wall(TIMED) / one.pages()) / (many.wall(TIMED) / many.pages())
}

/// CPU time that a pool takes to zero a page on request, ns.
fn zeroing_ns([on_get, ahead]: [Cells; 2]) -> Series {
    cpu_ns(&on_get) - cpu_ns(&ahead)
}

/// CPU time of a fault without the zeroing, as near as a program comes to the document's patch, ns.
fn unzeroed_ns([kernel, on_get, ahead]: [Cells; 3]) -> Series {
    cpu_ns(&kernel) - zeroing_ns([on_get, ahead])
}

/// The three ways to a zeroed page.
const ARMS: [&str; 3] = ["own", "zeroed-on-get", AHEAD];
const AHEAD: &str = "zeroed-ahead";

/// A row of the table without the patch.
struct Row {
    threads: usize,
    quote: &'static str,
    /// Faults a second, and CPU time of a fault, over those of one thread: a name, the figure, and the quotient.
    wall: (&'static str, &'static str, f64),
    cpu: (&'static str, &'static str, f64),
}

const ROWS: [Row; 3] = [
    Row {
        threads: 2,
        quote: "4 3 2 0.170s 14.909s 7.097s 52150.369 98643.687",
        wall: ("prezero-without-2-wall", "98,644 / 69,567 = 1.42", 1.418),
        cpu: ("prezero-without-2-cpu", "69,585 / 52,150 = 1.33", 1.334),
    },
    Row {
        threads: 4,
        quote: "4 3 4 0.181s 16.597s 5.079s 46869.167 135642.420",
        wall: ("prezero-without-4-wall", "135,642 / 69,567 = 1.95", 1.950),
        cpu: ("prezero-without-4-cpu", "69,585 / 46,869 = 1.48", 1.485),
    },
    Row {
        threads: 8,
        quote: "4 3 8 0.166s 23.239s 4.037s 33599.215 179791.120",
        wall: ("prezero-without-8-wall", "179,791 / 69,567 = 2.58", 2.584),
        cpu: ("prezero-without-8-cpu", "69,585 / 33,599 = 2.07", 2.071),
    },
];

/// From half to one and a half of an effect, as factors go: the document has one run of each on one machine.
fn around(times: f64) -> [f64; 2] {
    [times.sqrt(), times.powf(1.5)]
}

impl Row {
    /// Both figures say how much longer a fault takes because others fault, too. By the clock that is the number of threads
    /// over their speed.
    fn claims(&self) -> [Claim; 2] {
        let Self { threads: count, quote, wall: (wall_id, wall, times), cpu: (cpu_id, cpu, longer) } = *self;
        let [fastest, slowest] = around(count as f64 / times).map(|waiting| count as f64 / waiting);
        let [low, high] = around(longer);
        let disturbed = move |here: &Here| {
            let is_disturbed = [1, count].iter().any(|count| threads(here, ARMS[0], *count).is_disturbed());
            is_disturbed
                .then(|| "other programs used the processors meanwhile: an idle machine decides".to_owned())
        };
        [
            Claim::between(
                (wall_id, Prezeroing),
                [quote, wall],
                (slowest, fastest, "times one thread"),
                move |here| speedup(here, count),
            )
            .beside(move |here| in_one_mapping(here, count))
            .processors(count)
            .unless(disturbed)
            .why("each thread in a mapping of its own; bounds from half to one and a half of the waiting there, where a process \
                  had one page-table lock; today each page table has one"),
            Claim::between(
                (cpu_id, Prezeroing),
                [quote, cpu],
                (low, high, "times the CPU time of one thread"),
                move |here| cpu_ns(&threads(here, ARMS[0], count)) / cpu_ns(&threads(here, ARMS[0], 1)),
            )
            .processors(count)
            .unless(disturbed)
            .why("CPU time of a fault; bounds from half to one and a half of the effect there, where waiting for the one \
                  page-table lock of a process took CPU time"),
        ]
    }
}

fn in_one_mapping(here: &Here, threads: usize) -> String {
    let [one, many] = [1, threads].map(|threads| one_mapping(here, threads).wall("first"));
    (one / many).median().map_or_else(String::new, |times| format!("{} in one mapping", short(times)))
}

pub(super) fn claims() -> Vec<Claim> {
    ROWS.iter().flat_map(Row::claims).collect()
}

pub(super) fn unjudged() -> Vec<Unjudged> {
    let mut unjudged = with_the_patch();
    unjudged.extend(by_lines());
    unjudged.extend(of_that_machine());
    unjudged
}

const NO_KERNEL: &str = "no kernel that zeroes ahead ran here: ours is a fault less what a pool takes to zero a page; `kernel/prezero` \
                         on real processors decides, and `faultless lab kernel` counts its instructions and misses";

fn with_the_patch() -> Vec<Unjudged> {
    let gain = |here: &Here| {
        let arms = || ARMS.map(|arm| threads(here, arm, 1));
        cpu_ns(&arms()[0]) / unzeroed_ns(arms())
    };
    vec![
        Unjudged::new(
            Prezeroing,
            [
                "4 3 1 0.183s 2.750s 2.093s268077.996 267952.890",
                "with the patch 3.85, 2.68, 1.95, 1.23 times the faults a second, by 1, 2, 4 and 8 threads; 3.85, 2.98, 2.48, \
                 1.69 a CPU second",
            ],
            NO_KERNEL,
        )
        .here("times, one thread", gain),
        Unjudged::new(
            Prezeroing,
            [
                "4 3 8 0.186s 13.693s 3.054s 56659.819 221701.073",
                "with the patch 2, 4 and 8 threads fault 0.99, 0.99 and 0.83 times as fast as one, for 1.73, 2.31 and 4.73 \
                 times the CPU time",
            ],
            NO_KERNEL,
        )
        .here("times the CPU time, two threads", |here| {
            let of = |count| unzeroed_ns(ARMS.map(|arm| threads(here, arm, count)));
            of(2) / of(1)
        }),
        Unjudged::new(
            Prezeroing,
            [
                "1 1 1 0.014s 0.110s 0.012s524292.194 517665.538",
                "524,292 / 69,585 = 7.53; without that hardware 500,814: 1.05 of it",
            ],
            "it compares 1 GB that a device has zeroed with 3 times 4 GB without the patch; no device zeroes memory here",
        ),
        Unjudged::new(
            Prezeroing,
            [
                "4 3 2 0.170s 14.909s 7.097s 52150.369 98643.687",
                "Wall 7.097 s; but 3 times 4 GB in pages of 16 KiB, at 98,644 a second, are 7.97 s",
            ],
            "arithmetic, not a measurement: a 0 stands behind each point; without it 7.097 is 7.97, and all 17 rows agree, \
             cut off",
        )
        .here("rows with the Wall of their own faults and rate", |_| {
            let rows = BY_THREADS.iter().chain(&BY_LINES);
            Series::Number(rows.filter(|row| row.is_printed_right()).count() as f64)
        }),
    ]
}

fn by_lines() -> Vec<Unjudged> {
    const LAST_ROW: &str = "1 1 1 128 0.49s 0.14s 0.06s102300.257 101674.435";
    vec![
        Unjudged::new(
            Prezeroing,
            [LAST_ROW, "0.99, 0.96, 0.85, 0.69, 0.52, 0.34, 0.20 of the rate of one line, with 2 to 128 lines written"],
            NO_KERNEL,
        )
        .here("of the rate of one line, all lines written", |here| {
            unzeroed_ns(ARMS.map(|arm| threads(here, arm, 1))) / unzeroed_ns(ARMS.map(|arm| full(here, arm)))
        }),
        Unjudged::new(
            Prezeroing,
            [LAST_ROW, "(0.49 - 0.01) s / 65,536 / 127 = 58 ns of user time for each further line"],
            "that machine's memory, and lines of 128 bytes; ours is of a pool's pages, with lines of 64",
        )
        .here("ns", |here| {
            let all = full(here, AHEAD);
            (cpu_ns(&all) - cpu_ns(&threads(here, AHEAD, 1))) / (all.number("lines") - 1.0)
        }),
        Unjudged::new(
            Prezeroing,
            [LAST_ROW, "0.14 / 0.12 s = 1.17 of the kernel's time with all lines written"],
            "rows of pages that were zeroed before; this kernel zeroes the whole page, however many lines are written then",
        )
        .here("times", |here| {
            let system_ns = |cell: &Cells| cell.of(TIMED, "system_ns") / cell.pages();
            system_ns(&full(here, ARMS[0])) / system_ns(&threads(here, ARMS[0], 1))
        }),
        Unjudged::new(
            Prezeroing,
            [
                "zeroing of pages makes no sense if the application touches all cache lines of a page allocated (there is no \
                 influence of prezeroing on benchmarks like lmbench for that reason)",
                "no influence",
            ],
            NO_KERNEL,
        )
        .here("of the time that zeroing ahead saves a pool with one line written, all lines written", |here| {
            let [_, on_get, ahead] = ARMS;
            zeroing_ns([full(here, on_get), full(here, ahead)])
                / zeroing_ns([threads(here, on_get, 1), threads(here, ahead, 1)])
        }),
        Unjudged::new(
            Prezeroing,
            [
                "all cachelines of the faulted page (on Altix that means all 128 cachelines of 128 byte each) must be loaded \
                 and later written back",
                "128 lines of 128 bytes = 16 KiB",
            ],
            "lines that a kernel loads and writes back are not counted here, and the emulated cache of `faultless lab kernel` \
             loads a line for each store by construction: counters of the memory controller decide, which a guest lacks",
        ),
    ]
}

fn of_that_machine() -> Vec<Unjudged> {
    vec![
        Unjudged::new(
            Prezeroing,
            [
                "4 3 1 0.146s 11.155s 11.030s 69584.896 69566.852",
                "69,585 faults a CPU second without the patch, 268,078 with it",
            ],
            "an Itanium of 2004 with pages of 16 KiB; ours is without",
        )
        .here("thousand", |here| 1e6 / cpu_ns(&threads(here, ARMS[0], 1))),
        Unjudged::new(
            Prezeroing,
            ["4 3 1 0.146s 11.155s 11.030s 69584.896 69566.852", "11.155 of 11.301 s = 0.987 is the kernel's"],
            "it depends on the price of a fault, 14 us there",
        )
        .here("of the CPU time", |here| {
            let kernel = threads(here, ARMS[0], 1);
            kernel.of(TIMED, "system_ns") / kernel.pages() / cpu_ns(&kernel)
        }),
        Unjudged::new(
            Prezeroing,
            ["The single thread performance does just show minor increases", "no figure"],
            "of anticipatory prefaulting, a patch that kernels with and without it decide; ours is the nearest of today: what one \
             thread gains by faults of 64 KiB (mTHP) over base pages",
        )
        .here("times less CPU time", |here| {
            let price = |page| here.cells("price").with("kind", "touch").with("page", page).most("mib");
            let [base, large] = ["base", "64k"].map(price);
            let large_bytes = large.of("timed", "pages") * f64::from(64 << 10);
            (base.cpu("timed") / base.bytes()) / (large.cpu("timed") / large_bytes)
        }),
        Unjudged::new(
            Prezeroing,
            [
                "The patches increasing the page fault rate (introduction of atomic pte operations and anticipatory \
                 prefaulting) do so by reducing the locking overhead and are therefore mainly of interest for applications \
                 running in SMP systems with a high number of cpus",
                "no figure; minor increases of one thread, significant ones of many",
            ],
            "two other patches of that time: kernels with and without them decide, and this kernel is one",
        ),
    ]
}
