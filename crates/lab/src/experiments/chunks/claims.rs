//! What "A queue of page faults" says of its search, with the memory of its blocks from a pool and from the system.
//!
//! The document compares heaps that map each block anew (Windows in 32 bits; OSX with mmap), here `mmap`, and heaps that
//! keep blocks (Windows in 64 bits; OSX's malloc), here `malloc`. Unpacking and search are stand-ins, so the weight of the
//! faults beside them is matched: `passes` slow the rest down until it runs at the document's multiple of the speed of
//! faults.

use faultless_os::page;

use super::{BLOCK, COPIES, PACKED};
use crate::claim::{Cells, Claim, Here, Series, Unjudged, disturbed, short};
use crate::document::Document::Queue;

/// Workers of the document.
const THEIRS: usize = 8;
/// Bytes that it searches, and the speed of its faults: GB and GB/s.
const SEARCHED_GB: f64 = 0.466;
const FAULTS_GB_S: f64 = 5.7;
/// The bytes of its blocks over those that it searches.
const BLOCKS: f64 = 611.0 / 466.0;
/// The faults of one thread on OSX with mmap: 200 MB in 94 ms.
const OSX_GB_S: f64 = 2.0;

/// Pipelines with blocks from this memory and the shortest queue, by passes over each chunk.
fn passes<'a>(here: &Here<'a>, memory: &str, workers: usize) -> Cells<'a> {
    here.cells("chunks")
        .with("memory", memory)
        .with("workers", workers)
        .with("reader", "memory")
        .least("queue")
}

/// Those with a single pass and a queue of the document's length.
fn queued<'a>(here: &Here<'a>, memory: &str, workers: usize) -> Cells<'a> {
    let cells = here.cells("chunks").with("memory", memory).with("workers", workers).with("reader", "memory");
    cells.with("passes", 1).with("queue", 8)
}

/// The one with a single pass.
fn once<'a>(here: &Here<'a>, memory: &str, workers: usize) -> Cells<'a> {
    passes(here, memory, workers).with("passes", 1)
}

/// A pool whose reader reads a file and runs ahead as far as the document's queue lets it.
fn ahead<'a>(here: &Here<'a>, workers: usize) -> Cells<'a> {
    here.cells("chunks").with("memory", "pool").with("workers", workers).with("reader", "file")
}

/// Wall time with blocks from one memory, over that with another.
fn times(here: &Here, memory: &str, other: &str, workers: usize) -> Series {
    once(here, memory, workers).wall("timed") / once(here, other, workers).wall("timed")
}

/// Faults for each page of the blocks.
fn faults(cell: &Cells) -> Series {
    cell.faults("timed") / (cell.number("chunks") * (BLOCK / page::size()) as f64)
}

fn faults_of(here: &Here, memories: [&str; 2], workers: usize) -> String {
    let of = |memory| faults(&once(here, memory, workers)).median().map_or("-".into(), short);
    let [a, b] = memories;
    format!("faults per page: {a} {}, {b} {}", of(a), of(b))
}

/// The speed of map, touch and unmap on one thread, GB/s.
fn fault_speed(here: &Here) -> Series {
    let cell = once(here, "mmap", 1);
    cell.of("price", "price_bytes") / cell.of("price", "wall_ns")
}

/// At some number of passes: the pool's speed, GB/s, and how many times as long mmap takes.
struct Step {
    speed: Series,
    times: Series,
}

/// With a worker per processor, from the fastest to the slowest.
fn steps(here: &Here) -> Vec<Step> {
    let of = |pool: Cells| {
        let mmap = passes(here, "mmap", here.processors()).same("passes", &pool);
        let searched = pool.number("chunks") * (COPIES * PACKED) as f64;
        let wall = pool.wall("timed");
        Step { speed: searched / wall.clone(), times: mmap.wall("timed") / wall }
    };
    passes(here, "pool", here.processors()).each().map(of).collect()
}

/// How many times as long mmap takes where the pool runs at this multiple of the speed of faults: between the two measured
/// speeds around it. The faults of a chunk take the same time at each, so what they add is proportional to the speed.
fn at_speed(here: &Here, of_faults: f64) -> Series {
    let wanted = of_faults * fault_speed(here);
    let Some(speed) = wanted.median() else { return wanted };
    let steps = steps(here);
    let is_around = |pair: &&[Step]| match (pair[0].speed.median(), pair[1].speed.median()) {
        (Some(fast), Some(slow)) => (slow..=fast).contains(&speed),
        _ => false,
    };
    match steps.windows(2).find(is_around) {
        Some([fast, slow]) => {
            let place = (wanted - slow.speed.clone()) / (fast.speed.clone() - slow.speed.clone());
            slow.times.clone() + (fast.times.clone() - slow.times.clone()) * place
        }
        _ => Series::Lacking(format!(
            "{} GB/s lies beyond the speeds measured: `faultless lab chunks` with more `passes`",
            short(speed)
        )),
    }
}

/// All speeds, in words.
fn speeds(here: &Here) -> String {
    let figure = |series: &Series| series.median().map_or("-".into(), short);
    let of = |step: &Step| format!("{} times at {} GB/s", figure(&step.times), figure(&step.speed));
    let all: Vec<String> = steps(here).iter().map(of).collect();
    format!(
        "mmap takes {} of the pool, faults alone run at {} GB/s",
        all.join(", "),
        figure(&fault_speed(here))
    )
}

/// Bytes that fault with mmap and not with the pool.
fn extra_bytes(here: &Here, workers: usize) -> Series {
    let of = |memory| once(here, memory, workers).faults("timed");
    (of("mmap") - of("pool")) * page::size() as f64
}

/// A time of a phase.
type Time = fn(&Cells, &str) -> Series;

fn wall(cell: &Cells, phase: &str) -> Series {
    cell.wall(phase)
}

fn cpu(cell: &Cells, phase: &str) -> Series {
    cell.cpu(phase)
}

/// Time that mmap takes more than the pool.
fn extra(here: &Here, workers: usize, time: Time) -> Series {
    time(&once(here, "mmap", workers), "timed") - time(&once(here, "pool", workers), "timed")
}

/// The same over what its faults cost at the price of one thread.
fn explained(here: &Here, workers: usize, time: Time) -> Series {
    let mmap = once(here, "mmap", workers);
    let price = time(&mmap, "price") / mmap.of("price", "price_bytes");
    extra(here, workers, time) / (price * extra_bytes(here, workers))
}

fn lost(here: &Here, workers: usize) -> String {
    let ms = (extra(here, workers, wall) / 1e6).median().map_or("-".into(), short);
    let cpu = explained(here, workers, cpu).median().map_or("-".into(), short);
    format!("{ms} ms more; of CPU time {cpu}, which does not depend on waiting")
}

fn idle(here: &Here, workers: usize) -> Option<String> {
    disturbed(&["mmap", "pool"].map(|memory| once(here, memory, workers)))
}

/// The share of the blocks' bytes that a pool requests.
fn requested(here: &Here, workers: usize) -> Series {
    let cell = ahead(here, workers);
    cell.of("timed", "requested_bytes") / cell.of("timed", "handed_out_bytes")
}

const TABLE: &str = "| Windows 32-bit | 120 ms | **204 ms** | 433 ms | 471 ms |";
const EXAGGERATES: &str = "ours does little besides faulting, so it exaggerates what faults cost; `bench/grep.py --scaling` decides";

pub(super) fn claims() -> Vec<Claim> {
    let mut claims = weights();
    claims.extend(explanations());
    claims.extend(requests());
    claims
}

/// What the pool gains.
fn weights() -> Vec<Claim> {
    vec![
        Claim::between(
            ("queue-win32-8", Queue),
            ["in 32-bit on Windows using the custom pool increases our performance almost two-fold", "204 ms / 120 ms = 1.70"],
            (1.35, 2.05, "times"),
            |here| at_speed(here, SEARCHED_GB / 0.120 / FAULTS_GB_S),
        )
        .processors(THEIRS)
        .stand_in("unpacking and search are a copy and a hash")
        .beside(speeds)
        .why("mmap over the pool where it searches 0.68 times as fast as faults run, as there; a half more or less of the gain"),
        Claim::between(
            ("queue-osx-mmap-8", Queue),
            ["| MacOSX 64-bit<br>Using `mmap` | 107 ms | 165 ms | 510 ms | 604 ms |", "165 ms / 107 ms = 1.54"],
            (1.27, 1.81, "times"),
            |here| at_speed(here, SEARCHED_GB / 0.107 / OSX_GB_S),
        )
        .processors(THEIRS)
        .stand_in("unpacking and search are a copy and a hash")
        .beside(speeds)
        .why("the same where the pool searches 2.2 times as fast as the faults of one thread run, as there"),
        Claim::between(
            ("queue-osx-cache-8", Queue),
            [
                "large allocations are cached (see `LARGE_CACHE`) under certain circumstances, which can explain why using `mmap` \
                 results in a noticeable performance difference when disabling allocation pooling",
                "165 ms / 124 ms = 1.33",
            ],
            (1.16, 1.5, "times"),
            |here| times(here, "mmap", "malloc", here.processors()),
        )
        .processors(THEIRS)
        .stand_in(EXAGGERATES)
        .beside(|here| faults_of(here, ["mmap", "malloc"], here.processors()))
        .why("mmap over malloc; glibc raises its threshold at the first free and then keeps most blocks"),
        Claim::between(
            ("queue-6-gb-s", Queue),
            [
                "page faults at 5.7 Gb/s start to be noticeable once your processing itself performs at 6 Gb/s",
                "more than 124 ms / 113 ms = 1.10, which is \"not significant\", at 6 / 5.7 = 1.05",
            ],
            (1.10, 1.0 + 6.0 / FAULTS_GB_S * BLOCKS, "times"),
            |here| at_speed(here, 6.0 / FAULTS_GB_S),
        )
        .beside(speeds)
        .why(
            "mmap over the pool where it searches 1.05 times as fast as faults run; at the most each fault adds its full price, \
             one after the other",
        ),
        Claim::between(
            ("queue-scaling", Queue),
            [
                "| Windows 64-bit | 100 ms | 120 ms | 404 ms | 404 ms |",
                "570/131, 510/113, 433/120, 404/100 ms: 3.6 to 4.5",
            ],
            (3.6, 4.5, "times"),
            |here| once(here, "pool", 1).wall("timed") / once(here, "pool", here.processors()).wall("timed"),
        )
        .processors(THEIRS)
        .stand_in("one thread reads for all workers, and ours search faster than qgrep")
        .why("one worker over one per processor, with the pool"),
        Claim::between(
            ("queue-faults", Queue),
            [
                "it's 152k faults in our case which, given a 4k page size, means that every single allocation we perform is \
                 initially using non-committed pages so we have to pay the page fault cost",
                "about 600 MB requested, 152,000 faults for 932 blocks of 160 pages = 1.02",
            ],
            (0.99, 1.05, "per page"),
            |here| faults(&once(here, "mmap", here.processors())),
        )
        .why("a block from mmap each; one fault per page, and a few of the threads' own"),
        Claim::between(
            ("queue-kept", Queue),
            [
                "once we allocate and use the pages they will stay mapped into our address space so we'll only pay the page \
                 fault cost once",
                "64-bit: pool and no pool both 404 ms",
            ],
            (0.0, 0.02, "per page"),
            |here| faults(&queued(here, "malloc", here.processors())),
        )
        .beside(|here| {
            let pool = faults(&queued(here, "pool", here.processors())).median().map_or("-".into(), short);
            format!("{pool} with the pool")
        })
        .why("blocks from glibc in the document's pattern, a queue of 8 chunks; its heaps are Windows's and OSX's"),
    ]
}

/// What faults explain.
fn explanations() -> Vec<Claim> {
    vec![
        Claim::between(
            ("queue-explains-8", Queue),
            [
                "which for 500 Mb (600 Mb without pool vs 100 Mb with pool) is... wait for it... 87 ms. Which is suspiciously \
                 close to the observed timing difference (204 ms - 120 ms) for 8 threads",
                "84 ms, for 500 x 175 us = 87 ms: 0.97 of it",
            ],
            (0.8, 1.2, "of it"),
            |here| explained(here, here.processors(), wall),
        )
        .processors(THEIRS)
        .unless(|here| idle(here, here.processors()))
        .beside(|here| lost(here, here.processors()))
        .why("what mmap takes more than the pool over its faults at the price of one thread; 500 MB are two figures to 100 MB"),
        Claim::between(
            ("queue-explains-1", Queue),
            [
                "For 1 thread the memory difference is 200 Mb, and the timing difference is 38 ms which is exactly equal to 471 ms \
                 - 433 ms!",
                "38 ms for 200 MB, which are 35 ms: 1.09 of it; but 600 less 300 MB are 300, 52 ms: 0.72",
            ],
            (0.72, 1.39, "of it"),
            |here| explained(here, 1, wall),
        )
        .unless(|here| idle(here, 1))
        .beside(|here| lost(here, 1))
        .why("the same with one worker; the bounds are the document's other reading, 0.72, and as far on the other side of 1"),
        Claim::between(
            ("queue-osx-parallel", Queue),
            [
                "disabling the pool with 8 threads results in extra 58 ms for extra 500 Mb of allocated memory (8.4 Gb/s), whereas \
                 disabling the pool with 1 thread results in 94 ms cost for 200 Mb of memory (2 Gb/s), so the processing seems to \
                 scale with the number of cores",
                "8.4 over 2 GB/s: 4.2; but with 300 MB 2.7",
            ],
            (2.7_f64.sqrt(), 8.0, "times"),
            |here| {
                let speed = |workers| extra_bytes(here, workers) / extra(here, workers, wall);
                speed(here.processors()) / speed(1)
            },
        )
        .processors(THEIRS)
        .unless(|here| idle(here, here.processors()).or_else(|| idle(here, 1)))
        .why("bytes that fault in the time that they cost, a worker per processor over one, which faults beside the reader"),
    ]
}

/// What the pool requests. qgrep's queue of that month took 256 MB of chunks, so its reader was 409 blocks ahead at most.
fn requests() -> Vec<Claim> {
    const QUOTE: &str = "when the pool is used, we can satisfy some requests using the free list so we end up requesting ~100 Mb \
                         with 8 threads and ~300 Mb with 1 thread";
    vec![
        Claim::between(
            ("queue-requests-1", Queue),
            [QUOTE, "300 MB of 600: 0.50"],
            (250.0 / 650.0, 350.0 / 550.0, "of the bytes"),
            |here| requested(here, 1),
        )
        .why("what a pool requests of the bytes of all blocks, with a reader of a file; both figures are to 100 MB"),
        Claim::between(
            ("queue-requests-8", Queue),
            [QUOTE, "100 MB of 600: 0.17"],
            (50.0 / 650.0, 150.0 / 550.0, "of the bytes"),
            |here| requested(here, here.processors()),
        )
        .processors(THEIRS)
        .stand_in("our workers search faster than qgrep's, so the reader gets less far ahead")
        .why("the same with a worker per processor"),
        Claim::between(
            ("queue-requests-grow", Queue),
            [
                "since with 1 thread the data processing is slower so worker threads return allocated blocks to the pool more \
                 slowly and we end up with a larger queue of chunks",
                "300 MB / 100 MB = 3",
            ],
            (250.0 / 150.0, 350.0 / 50.0, "times"),
            |here| requested(here, 1) / requested(here, here.processors()),
        )
        .processors(THEIRS)
        .stand_in("our workers search faster than qgrep's, so the reader gets less far ahead")
        .why("one worker over one per processor"),
    ]
}

pub(super) fn unjudged() -> Vec<Unjudged> {
    vec![
        Unjudged::new(
            Queue,
            [
                "On my laptop it takes around 100 ms to find the matches using 8 threads",
                "with the pool 131 113 120 100 ms by 8 threads, 570 510 433 404 ms by one; 466 MB in 100 ms are 4.7 GB/s",
            ],
            "laptops of 2014 and another program, which would decide; ours only copies and hashes",
        )
        .here("ms for 932 chunks, a worker per processor", |here| {
            let cell = once(here, "pool", here.processors());
            cell.wall("timed") * super::DOCUMENT_CHUNKS as f64 / cell.number("chunks") / 1e6
        }),
        Unjudged::new(
            Queue,
            [
                "| MacOSX 32-bit | 131 ms | 142 ms | 570 ms | 610 ms |",
                "heaps that keep blocks, without the pool: OSX 1.06 to 1.10, Windows 64-bit 1.20 and 1.00",
            ],
            EXAGGERATES,
        )
        .here("times with malloc, one worker", |here| times(here, "malloc", "pool", 1)),
        Unjudged::new(
            Queue,
            [TABLE, "heaps that map blocks anew, one thread: 471 / 433 ms = 1.09; OSX with mmap 604 / 510 = 1.18, over malloc 1.11"],
            EXAGGERATES,
        )
        .here("times with mmap, one worker", |here| times(here, "mmap", "pool", 1)),
        Unjudged::new(
            Queue,
            [
                "Switching to 64-bit improves performance since we have more registers so compiler can optimize inner loops better",
                "113/131, 510/570, 100/120, 404/433 ms: 0.83 to 0.93",
            ],
            "arithmetic, not faults: qgrep built for 32 and for 64 bits would decide",
        ),
        Unjudged::new(
            Queue,
            [
                "`qgrep` has to scan through 466 Mb of source data that is compressed to 122 Mb in 932 chunks",
                "a ratio of 3.8; blocks of 768 KiB for 640: 1.2",
            ],
            "qgrep's own data and pool; ours has 512 and 128 KiB by construction, and cuts blocks in granules of 16 KiB",
        ),
        Unjudged::new(
            Queue,
            [
                "you will pay 175 &mu;s for every megabyte of pagefaults (so ~680 ns for one page fault)",
                "175 us per MB, 684 ns per page, 5.7 GB/s",
            ],
            "a laptop of 2014 with Windows 7, which would decide; ours is map, first touch and unmap on one thread",
        )
        .here("us per MiB", |here| f64::from(1 << 20) / 1e3 / fault_speed(here)),
    ]
}
