//! The claims of "A queue of page faults".
//!
//! The document's pool and its "no pool" are compared on Windows and OSX, 32 and 64 bit. Here the heap that maps each block anew
//! (Windows, 32 bit; OSX with mmap) is `mmap`, and a heap that keeps them (Windows, 64 bit; OSX's malloc) is `malloc`.
//! Unpacking and search are stand-ins, so how much a heap's faults weigh beside them is a matter of this machine.

mod heap;
mod pipeline;

use faultless_trace::measurement::ratio;
use faultless_trace::stat::Interval;

use self::heap::{faults_per_page, growth, mapping, threshold};
use self::pipeline::{
    BLOCK_BYTES, Queue, Workers, alike, cell, explained, if_many, if_undisturbed, price_us_per_mib,
    requested, slower, speed, times_in_ms, unbounded,
};
use super::{Claim, Finding, NOT_MEASURED, Why, short, with_interval};
use crate::experiment::Document;

const DOCUMENT: Document = Document::Queue;
const CHUNKS: &str = "chunks";
const THRESHOLD: &str = "threshold";

const LAPTOP: &str = "a laptop of 2014, with Windows 7";
const WINDOWS_HEAP: &str = "a constant of the heap of Windows; ours is the smallest of the sizes measured";

pub(super) const CLAIMS: &[Claim] = &[
    DOCUMENT.claim(
        CHUNKS,
        "queue-times",
        "the search takes 100 to 131 ms with the pool and eight workers, 404 to 570 ms with one",
        "131 113 120 100 ms, 570 510 433 404 ms",
        |results| {
            let why = "laptops of 2014, another program; ours is the pool with a worker per processor, and with one, for 932 chunks";
            Finding::not_comparable(times_in_ms(results, "pool"), why)
        },
    ),
    DOCUMENT.claim(
        CHUNKS,
        "queue-osx32-8",
        "OSX 32-bit, a worker per processor: without the pool slower",
        "142 ms / 131 ms = 1.08",
        |r| slower(r, "malloc", "pool", Workers::All, 1.08),
    ),
    DOCUMENT.claim(
        CHUNKS,
        "queue-osx32-1",
        "OSX 32-bit, one worker: without the pool slower",
        "610 ms / 570 ms = 1.07",
        |r| slower(r, "malloc", "pool", Workers::One, 1.07),
    ),
    DOCUMENT.claim(
        CHUNKS,
        "queue-osx64-8",
        "OSX 64-bit, a worker per processor: without the pool slower",
        "124 ms / 113 ms = 1.10",
        |r| slower(r, "malloc", "pool", Workers::All, 1.10),
    ),
    DOCUMENT.claim(
        CHUNKS,
        "queue-osx64-1",
        "OSX 64-bit, one worker: without the pool slower",
        "543 ms / 510 ms = 1.06",
        |r| slower(r, "malloc", "pool", Workers::One, 1.06),
    ),
    DOCUMENT.claim(
        CHUNKS,
        "queue-win32-8",
        "Windows 32-bit, a worker per processor: the pool is almost twice as fast as blocks from the kernel",
        "204 ms / 120 ms = 1.70",
        |r| slower(r, "mmap", "pool", Workers::All, 1.70),
    ),
    DOCUMENT.claim(
        CHUNKS,
        "queue-win32-1",
        "Windows 32-bit, one worker: the pool is faster than blocks from the kernel",
        "471 ms / 433 ms = 1.09",
        |r| slower(r, "mmap", "pool", Workers::One, 1.09),
    ),
    DOCUMENT.claim(
        CHUNKS,
        "queue-win64-8",
        "Windows 64-bit, a worker per processor: where the heap keeps blocks the pool still wins a fifth",
        "120 ms / 100 ms = 1.20",
        |r| slower(r, "malloc", "pool", Workers::All, 1.20),
    ),
    DOCUMENT.claim(
        CHUNKS,
        "queue-win64-1",
        "Windows 64-bit, one worker: where the heap keeps blocks the pool wins nothing",
        "404 ms / 404 ms = 1.00",
        |r| alike(r, "malloc", "pool", Workers::One),
    ),
    DOCUMENT.claim(
        CHUNKS,
        "queue-osx-mmap-8",
        "OSX with mmap and munmap per block, a worker per processor: the pool wins much",
        "165 ms / 107 ms = 1.54",
        |r| slower(r, "mmap", "pool", Workers::All, 1.54),
    ),
    DOCUMENT.claim(
        CHUNKS,
        "queue-osx-mmap-1",
        "OSX with mmap and munmap per block, one worker",
        "604 ms / 510 ms = 1.18",
        |r| slower(r, "mmap", "pool", Workers::One, 1.18),
    ),
    DOCUMENT.claim(
        CHUNKS,
        "queue-osx-cache-8",
        "OSX's malloc keeps large blocks, so mmap is slower than malloc, a worker per processor",
        "165 ms / 124 ms = 1.33",
        |r| slower(r, "mmap", "malloc", Workers::All, 1.33),
    ),
    DOCUMENT.claim(
        CHUNKS,
        "queue-osx-cache-1",
        "the same with one worker",
        "604 ms / 543 ms = 1.11",
        |r| slower(r, "mmap", "malloc", Workers::One, 1.11),
    ),
    DOCUMENT.claim(
        CHUNKS,
        "queue-64-bit",
        "64 bit is faster than 32 bit: more registers",
        "113/131, 510/570, 100/120, 404/433 ms: 0.83 to 0.93",
        |_| Finding::unknown("faultless has no 32-bit build; that is arithmetic, not faults"),
    ),
    DOCUMENT.claim(
        CHUNKS,
        "queue-scaling",
        "eight workers take a quarter of the time of one",
        "570/131, 510/113, 433/120, 404/100 ms: 3.6 to 4.5",
        |results| {
            let (one, all) = (
                cell(results, "pool", Workers::One, Queue::Short),
                cell(results, "pool", Workers::All, Queue::Short),
            );
            let (Some(one), Some(all)) = (one, all) else { return Finding::unknown(NOT_MEASURED) };
            let found = ratio(one.values("timed", "wall_ns"), all.values("timed", "wall_ns"));
            let why = "one thread reads for all workers, and bounds what more of them bring";
            let times = |found: &Interval| with_interval(found, 1.0, "times");
            if_many(&all, 8, Finding::bounded(Some(found), 3.0, 6.0, times, why))
        },
    ),
    DOCUMENT.claim(
        CHUNKS,
        "queue-processing",
        "the search goes through 466 MB in about 100 ms with eight workers",
        "4.7 GB/s",
        |results| {
            let ours = speed(results, Workers::All).map(|found| with_interval(&found, 1.0, "GB/s"));
            let why =
                "another program: ours only copies and hashes, to be as fast as where the document sees faults";
            Finding::not_comparable(ours, why)
        },
    ),
    DOCUMENT.claim(
        CHUNKS,
        "queue-6-gb-s",
        "page faults begin to be noticeable once the rest processes 6 GB/s",
        "6 GB/s",
        |results| {
            let (found, speed) =
                (pipeline::ratio(results, "mmap", "pool", Workers::All), speed(results, Workers::All));
            let speed = speed.map_or(0.0, |found| found.value);
            let why = format!("mmap over pool at our {} GB/s; a tenth more is noticeable", short(speed));
            let times = |found: &Interval| with_interval(found, 1.0, "times");
            let finding = Finding::bounded(found, 1.1, f64::MAX, times, why);
            // What can't be noticed at less than that speed may be noticed at it.
            if finding.verdict == super::Verdict::Refuted && speed < 6.0 {
                return finding
                    .without_verdict(format!("nothing is noticed at {} GB/s, and ours is no faster", short(speed)));
            }
            finding
        },
    ),
    DOCUMENT.claim(
        CHUNKS,
        "queue-data",
        "466 MB of sources in 932 chunks are 122 MB compressed, a ratio of about 4",
        "3.8; 500 KB and 131 KB per chunk",
        |_| {
            Finding::unknown("not comparable: the sources of Linux 3.19 by LZ4; our blocks are made 512 and 128 KiB")
        },
    ),
    DOCUMENT.claim(
        CHUNKS,
        "queue-requests-none",
        "without the pool all blocks are asked of the system",
        "about 600 MB for 932 blocks of 640 KiB, which are 611 MB",
        |results| {
            let share = cell(results, "mmap", Workers::All, Queue::Short).and_then(|found| {
                let all = *found.values("timed", "handed_out_bytes").first()?;
                let page = faultless_os::page::size() as f64;
                found.median("timed", "minor_faults", |faults| faults * page / all)
            });
            let bytes = |found: &Interval| with_interval(found, 1.0, "of the bytes");
            Finding::bounded(share, 0.97, 1.05, bytes, "by the pages that faulted")
        },
    ),
    DOCUMENT.claim(
        CHUNKS,
        "queue-requests-less",
        "with the pool and one worker some requests are met from the free list",
        "300 MB of 600 MB asked of the system: below 1",
        |results| {
            let share = requested(results, "pool", Workers::One);
            let bytes = |found: &Interval| with_interval(found, 1.0, "of the bytes");
            Finding::bounded(share, 0.0, 0.97, bytes, "asked of the system, with a queue that has no bound")
        },
    ),
    DOCUMENT.claim(
        CHUNKS,
        "queue-requests-8",
        "with the pool and eight workers a sixth is asked of the system",
        "100 MB / 600 MB = 0.17",
        |results| {
            let Some(found) = unbounded(results, "pool", Workers::All) else {
                return Finding::unknown(NOT_MEASURED);
            };
            let share = requested(results, "pool", Workers::All);
            let why = "the reader is ahead of the workers by so many blocks";
            let bytes = |found: &Interval| with_interval(found, 1.0, "of the bytes");
            if_many(&found, 8, Finding::bounded(share, 0.05, 0.35, bytes, why))
        },
    ),
    DOCUMENT.claim(
        CHUNKS,
        "queue-requests-1",
        "with the pool and one worker half is asked of the system",
        "300 MB / 600 MB = 0.5",
        |results| {
            let share = requested(results, "pool", Workers::One);
            let ours = share.map(|found| with_interval(&found, 1.0, "of the bytes"));
            let why = "how far a reader gets ahead of one worker: theirs reads a file, ours copies from memory";
            Finding::not_comparable(ours, why)
        },
    ),
    DOCUMENT.claim(
        CHUNKS,
        "queue-requests-grow",
        "one worker is slower, so the queue is longer and the pool asks for more than with eight",
        "300 MB / 100 MB = 3",
        |results| {
            let pool = |workers| unbounded(results, "pool", workers);
            let (Some(one), Some(all)) = (pool(Workers::One), pool(Workers::All)) else {
                return Finding::unknown(NOT_MEASURED);
            };
            let asked = |cell: &pipeline::Found| cell.values("timed", "requested_bytes").to_vec();
            let found = ratio(&asked(&one), &asked(&all));
            if_many(&all, 8, Finding::effect(Some(found), 3.0, "one worker over all"))
        },
    ),
    DOCUMENT.claim(
        CHUNKS,
        "queue-faults",
        "without the pool every page of every block faults",
        "152,000 faults for 932 blocks of 160 pages = 1.02 per page",
        |results| {
            let found = cell(results, "mmap", Workers::All, Queue::Short).and_then(|cell| cell.faults_per_page());
            let per_page = |found: &Interval| with_interval(found, 1.0, "per page");
            Finding::bounded(found, 0.99, 1.05, per_page, "one per page of 4 KiB, and a few of the threads' own")
        },
    ),
    DOCUMENT.claim(
        CHUNKS,
        "queue-block",
        "a request of 640 KiB is served with a block of 768 KiB",
        "768 / 640 = 1.2",
        |results| {
            let found = cell(results, "pool", Workers::One, Queue::Short)
                .and_then(|cell| cell.median("setup", "block_bytes", |bytes| bytes / BLOCK_BYTES as f64));
            let why = "qgrep's own pool; ours cuts blocks in granules of 16 KiB, and 640 KiB are 40 of them";
            Finding::not_comparable(found.map(|found| with_interval(&found, 1.0, "times")), why)
        },
    ),
    DOCUMENT.claim(CHUNKS, "queue-price", "page faults cost 175 us per MB", "175 us", |results| {
        let ours = price_us_per_mib(results).map(|found| with_interval(&found, 1.0, "us per MiB"));
        Finding::not_comparable(ours, LAPTOP)
    }),
    DOCUMENT.claim(CHUNKS, "queue-fault-ns", "that is 680 ns per fault", "175 us / 256 = 684 ns", |results| {
        let found = price_us_per_mib(results).map(|found| found.times(pipeline::per_fault()));
        let why = "that laptop's price by pages; ours is map, first touch and unmap on one thread";
        Finding::not_comparable(found.map(|found| with_interval(&found, 1.0, "ns")), why)
    }),
    DOCUMENT.claim(
        CHUNKS,
        "queue-fault-gb-s",
        "page faults come at 5.7 GB/s at the most",
        "1 MB / 175 us = 5.7 GB/s",
        |results| {
            const MIB: f64 = 1_048_576.0;
            let found = price_us_per_mib(results).map(|found| Interval {
                value: MIB / found.value / 1e3,
                low: MIB / found.high / 1e3,
                high: MIB / found.low / 1e3,
            });
            let ours = found.map(|found| with_interval(&found, 1.0, "GB/s"));
            Finding::not_comparable(ours, "that laptop's price turned over")
        },
    ),
    DOCUMENT.claim(
        THRESHOLD,
        "queue-grows",
        "the cost of blocks from the system grows with their size, not with their number",
        "175 us per MB whatever the block",
        |results| {
            let why = "time per page of the largest block over that of 640 KiB, each from the system: glibc with a fixed threshold";
            let times = |found: &Interval| with_interval(found, 1.0, "times");
            Finding::bounded(growth(results), 0.5, 2.0, times, why)
        },
    ),
    DOCUMENT.claim(
        CHUNKS,
        "queue-explains-8",
        "price times bytes is the time that the pool saves with eight workers (here one per processor)",
        "500 x 175 us = 87 ms, for 204 - 120 = 84 ms: 0.97 of it",
        |results| {
            let why = Why::differs(
                "the price is taken on one thread: workers fault at the same time, so the clock shows only a part of it",
                "the clock shows more than the price: threads that map and unmap also wait for each other",
            );
            if_undisturbed(results, explained(results, Workers::All, "wall_ns", 0.75..=1.3, why))
        },
    ),
    DOCUMENT.claim(
        CHUNKS,
        "queue-explains-1",
        "the same with one worker, 'exactly equal'",
        "38 ms for 200 MB, which are 35 ms: 1.09 of it; but 600 less 300 MB are 300, 52 ms: 0.72",
        |results| {
            let why = Why::differs(
                "reader and worker fault side by side, 32 and 128 pages per block",
                "the clock shows more than the price: threads that map and unmap also wait for each other",
            );
            if_undisturbed(results, explained(results, Workers::One, "wall_ns", 0.75..=1.3, why))
        },
    ),
    DOCUMENT.claim(
        CHUNKS,
        "queue-explains-cpu",
        "price times bytes is the difference: the argument again, in CPU time, which does not depend on who waits for whom",
        "0.97 to 1.09",
        |results| {
            let why = Why::differs(
                "a fault in the pipeline costs less CPU time than those of the price, one after the other",
                "a fault in the pipeline costs more CPU time than alone: threads share the lock that mmap and munmap take",
            );
            explained(results, Workers::All, "cpu_ns", 0.75..=1.3, why)
        },
    ),
    DOCUMENT.claim(
        CHUNKS,
        "queue-serialised",
        "the kernel handles page faults one at a time: the difference with eight workers is that of one thread",
        "84 ms / 87 ms = 0.97",
        |results| {
            let why = Why::differs(
                "processors that fault side by side share the price; Linux takes a lock per mapping (6.4) or shares one",
                "",
            );
            if_undisturbed(results, explained(results, Workers::All, "wall_ns", 0.85..=f64::MAX, why))
        },
    ),
    DOCUMENT.claim(
        CHUNKS,
        "queue-osx-parallel",
        "OSX seems to fault in parallel: eight workers lose less per MB than one",
        "500 MB in 58 ms, 8.4 GB/s, over 200 MB in 94 ms, 2 GB/s: 4.2; but with 300 MB 2.7",
        |results| {
            let (Some(one), Some(all), Some(cell)) = (
                pipeline::extra_bytes_per_ns(results, Workers::One),
                pipeline::extra_bytes_per_ns(results, Workers::All),
                cell(results, "mmap", Workers::All, Queue::Short),
            ) else {
                return Finding::unknown(NOT_MEASURED);
            };
            let why = "reader and one worker are two threads that fault already";
            let finding = Finding::effect(Some(ratio(&all, &one)), 2.7, why);
            if_many(&cell, 4, if_undisturbed(results, finding))
        },
    ),
    DOCUMENT.claim(
        THRESHOLD,
        "queue-threshold-x86",
        "the heap goes to the kernel from 508 KiB on: 65,024 units of 8 bytes",
        "65,024 x 8 = 508 KiB",
        |results| Finding::not_comparable(threshold(results, "glibc-fixed"), WINDOWS_HEAP),
    ),
    DOCUMENT.claim(
        THRESHOLD,
        "queue-threshold-x64",
        "on x64 the units have 16 bytes, so the cutoff is about 1 MB",
        "65,280 x 16 = 1020 KiB",
        |results| Finding::not_comparable(threshold(results, "glibc"), WINDOWS_HEAP),
    ),
    DOCUMENT.claim(
        THRESHOLD,
        "queue-kept",
        "below its threshold a heap pays for a block of 640 KiB only once",
        "64-bit: pool and no pool both 404 ms",
        |results| {
            let why = "glibc, which raised its threshold when the first block was freed";
            let per_page = |found: &Interval| with_interval(found, 1.0, "faults per page and cycle");
            Finding::bounded(faults_per_page(results, "glibc", "640", "later"), 0.0, 0.02, per_page, why)
        },
    ),
    DOCUMENT.claim(
        THRESHOLD,
        "queue-mapped",
        "above its threshold a heap pays for it every time",
        "32-bit: 152,000 faults, one per page",
        |results| {
            let why = "glibc with its threshold fixed at 128 KiB";
            let per_page = |found: &Interval| with_interval(found, 1.0, "faults per page and cycle");
            Finding::bounded(faults_per_page(results, "glibc-fixed", "640", "later"), 0.98, 1.05, per_page, why)
        },
    ),
    DOCUMENT.claim(
        THRESHOLD,
        "queue-above",
        "most heaps fall back to virtual memory above certain sizes",
        "508 KiB or 1 MB",
        mapping,
    ),
    DOCUMENT.claim(
        CHUNKS,
        "queue-cache-miss",
        "a miss of the last cache is 100 times as dear as a hit of the first, or more",
        "100",
        |_| Finding::unknown("a latency of caches, not of faults: no experiment here takes it"),
    ),
];
