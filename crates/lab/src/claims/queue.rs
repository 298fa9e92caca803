//! The claims of "A queue of page faults".
//!
//! The document's pool and its "no pool" are compared on Windows and OSX, 32 and 64 bit. Here the heap that maps each block anew
//! (Windows, 32 bit; OSX with mmap) is `mmap`, and a heap that keeps them (Windows, 64 bit; OSX's malloc) is `malloc`.

mod heap;
mod pipeline;

use faultless_trace::stat::Interval;

use self::heap::{faults_per_page, mapped_from_kib, threshold};
use self::pipeline::{
    BLOCK_BYTES, Queue, Workers, cell, explained, if_undisturbed, price_us_per_mib, requested, slower, speed,
    unbounded,
};
use super::{Claim, Finding, NOT_MEASURED, short, with_interval};
use crate::experiment::Document;
use crate::results::Results;

const CHUNKS: &str = "chunks";
const THRESHOLD: &str = "threshold";

/// Why the differences between our allocators are not the document's.
const KEEPS: &str =
    "glibc raises its threshold when the first block is freed, and keeps blocks of 640 KiB from then on";
const MAPS: &str =
    "a mapping per block takes all faults again; how much that is depends on the price of a fault here";
const NO_WINDOWS: &str = "a constant of another system's heap, and no experiment here can read it";

const fn claim(
    id: &'static str,
    says: &'static str,
    figure: &'static str,
    experiment: &'static str,
    judge: fn(&Results) -> Finding,
) -> Claim {
    Claim { id, document: Document::Queue, says, figure, experiment, judge }
}

pub(super) const CLAIMS: &[Claim] = &[
    claim(
        "queue-osx32-8",
        "OSX 32-bit, a worker per processor: without the pool slower",
        "142 ms / 131 ms = 1.08",
        CHUNKS,
        |r| slower(r, "malloc", "pool", Workers::All, 1.02..=1.25, KEEPS),
    ),
    claim(
        "queue-osx32-1",
        "OSX 32-bit, one worker: without the pool slower",
        "610 ms / 570 ms = 1.07",
        CHUNKS,
        |r| slower(r, "malloc", "pool", Workers::One, 1.02..=1.25, KEEPS),
    ),
    claim(
        "queue-osx64-8",
        "OSX 64-bit, a worker per processor: without the pool slower",
        "124 ms / 113 ms = 1.10",
        CHUNKS,
        |r| slower(r, "malloc", "pool", Workers::All, 1.02..=1.25, KEEPS),
    ),
    claim(
        "queue-osx64-1",
        "OSX 64-bit, one worker: without the pool slower",
        "543 ms / 510 ms = 1.06",
        CHUNKS,
        |r| slower(r, "malloc", "pool", Workers::One, 1.02..=1.25, KEEPS),
    ),
    claim(
        "queue-win32-8",
        "Windows 32-bit, a worker per processor: the pool is almost twice as fast as blocks from the kernel",
        "204 ms / 120 ms = 1.70",
        CHUNKS,
        |r| slower(r, "mmap", "pool", Workers::All, 1.4..=2.5, MAPS),
    ),
    claim(
        "queue-win32-1",
        "Windows 32-bit, one worker: a little faster",
        "471 ms / 433 ms = 1.09",
        CHUNKS,
        |r| slower(r, "mmap", "pool", Workers::One, 1.03..=1.25, MAPS),
    ),
    claim(
        "queue-win64-8",
        "Windows 64-bit, a worker per processor: where the heap keeps blocks the pool still wins a fifth",
        "120 ms / 100 ms = 1.20",
        CHUNKS,
        |r| slower(r, "malloc", "pool", Workers::All, 1.1..=1.4, KEEPS),
    ),
    claim(
        "queue-win64-1",
        "Windows 64-bit, one worker: where the heap keeps blocks the pool wins nothing",
        "404 ms / 404 ms = 1.00",
        CHUNKS,
        |r| slower(r, "malloc", "pool", Workers::One, 0.95..=1.05, KEEPS),
    ),
    claim(
        "queue-osx-mmap-8",
        "OSX with mmap and munmap per block, a worker per processor: the pool wins much",
        "165 ms / 107 ms = 1.54",
        CHUNKS,
        |r| slower(r, "mmap", "pool", Workers::All, 1.3..=2.5, MAPS),
    ),
    claim(
        "queue-osx-mmap-1",
        "OSX with mmap and munmap per block, one worker",
        "604 ms / 510 ms = 1.18",
        CHUNKS,
        |r| slower(r, "mmap", "pool", Workers::One, 1.1..=1.4, MAPS),
    ),
    claim(
        "queue-osx-cache-8",
        "OSX's malloc keeps large blocks, so mmap is slower than malloc, a worker per processor",
        "165 ms / 124 ms = 1.33",
        CHUNKS,
        |r| {
            slower(
                r,
                "mmap",
                "malloc",
                Workers::All,
                1.15..=2.0,
                "glibc's malloc gave blocks back while other threads held memory above them: see its faults in the table",
            )
        },
    ),
    claim("queue-osx-cache-1", "the same with one worker", "604 ms / 543 ms = 1.11", CHUNKS, |r| {
        slower(
            r,
            "mmap",
            "malloc",
            Workers::One,
            1.03..=1.3,
            "a fault is a larger share of our time than of that laptop's",
        )
    }),
    claim(
        "queue-64-bit",
        "64 bit is faster than 32 bit: more registers",
        "113/131, 510/570, 100/120, 404/433 ms: 0.83 to 0.93",
        CHUNKS,
        |_| Finding::unknown("faultless has no 32-bit build; that is arithmetic, not faults"),
    ),
    claim(
        "queue-scaling",
        "eight workers take a quarter of the time of one",
        "404 ms / 100 ms = 4.0",
        CHUNKS,
        |results| {
            let (one, all) = (
                cell(results, "pool", Workers::One, Queue::Short),
                cell(results, "pool", Workers::All, Queue::Short),
            );
            let (Some(one), Some(all)) = (one, all) else { return Finding::unknown(NOT_MEASURED) };
            let found = faultless_trace::measurement::ratio(
                one.values("timed", "wall_ns"),
                all.values("timed", "wall_ns"),
            );
            if all.workers < 8 {
                return Finding {
                    ours: format!("{} with {} workers", with_interval(&found, 1.0, "times"), all.workers),
                    ..Finding::unknown("eight workers need eight processors and one for the reader")
                };
            }
            Finding::bounded(
                Some(found),
                3.0,
                8.5,
                |found| with_interval(found, 1.0, "times"),
                "the reader is one thread",
            )
        },
    ),
    claim(
        "queue-processing",
        "the search goes through 466 MB in about 100 ms with eight workers",
        "4.7 GB/s",
        CHUNKS,
        |results| {
            let ours = speed(results, Workers::All)
                .map_or(String::new(), |found| with_interval(&found, 1.0, "GB/s"));
            Finding {
                ours,
                ..Finding::unknown("unpacking and search are stand-ins here, made as fast as the document's")
            }
        },
    ),
    claim(
        "queue-6-gb-s",
        "page faults begin to be noticeable once the rest processes 6 GB/s",
        "6 GB/s",
        CHUNKS,
        |results| {
            let Some(found) = pipeline::ratio(results, "mmap", "pool", Workers::All) else {
                return Finding::unknown(NOT_MEASURED);
            };
            let speed = speed(results, Workers::All).map_or(0.0, |found| found.value);
            let ours =
                |found: &Interval| format!("{} at {} GB/s", with_interval(found, 1.0, "times"), short(speed));
            Finding::bounded(
                Some(found),
                1.1,
                f64::MAX,
                ours,
                "how much time mapping each block adds at our speed",
            )
        },
    ),
    claim(
        "queue-data",
        "466 MB of sources in 932 chunks are 122 MB compressed, a ratio of about 4",
        "3.8; 500 KB and 131 KB per chunk",
        CHUNKS,
        |_| Finding::unknown("the sources of Linux 3.19 and LZ4; our blocks have the same 512 and 128 KiB"),
    ),
    claim(
        "queue-requests-none",
        "without the pool all blocks are asked of the system",
        "about 600 MB for 932 blocks of 640 KiB = 1.0",
        CHUNKS,
        |results| {
            let share = cell(results, "mmap", Workers::All, Queue::Short).and_then(|found| {
                let all = *found.values("timed", "handed_out_bytes").first()?;
                found.median("timed", "requested_bytes", |bytes| bytes / all)
            });
            Finding::bounded(
                share,
                0.97,
                1.03,
                |found| with_interval(found, 1.0, "of the bytes"),
                "932 x 640 KiB are 611 MB",
            )
        },
    ),
    claim(
        "queue-requests-8",
        "with the pool and eight workers a sixth of it",
        "100 MB / 600 MB = 0.17",
        CHUNKS,
        |results| {
            let share = requested(results, "pool", Workers::All);
            let why = "it is what the reader is ahead of the workers at the most: with fewer processors than eight they stay behind";
            Finding::bounded(share, 0.05, 0.35, |found| with_interval(found, 1.0, "of the bytes"), why)
        },
    ),
    claim(
        "queue-requests-1",
        "with the pool and one worker half of it: a slower worker leaves a longer queue",
        "300 MB / 600 MB = 0.5",
        CHUNKS,
        |results| {
            let share = requested(results, "pool", Workers::One);
            let why = "our reader copies 128 KiB from memory and is further ahead than one that reads a file; the queue has no bound";
            Finding::bounded(share, 0.3, 0.7, |found| with_interval(found, 1.0, "of the bytes"), why)
        },
    ),
    claim(
        "queue-requests-grow",
        "one worker makes the pool ask for more than eight do",
        "300 MB / 100 MB = 3",
        CHUNKS,
        |results| {
            let pool = |workers| unbounded(results, "pool", workers);
            let (Some(one), Some(all)) = (pool(Workers::One), pool(Workers::All)) else {
                return Finding::unknown(NOT_MEASURED);
            };
            let asked = |cell: &pipeline::Found| cell.values("timed", "requested_bytes").to_vec();
            let found = faultless_trace::measurement::ratio(&asked(&one), &asked(&all));
            let why = "with few processors the workers stay behind the reader either way";
            Finding::bounded(Some(found), 1.5, 6.0, |found| with_interval(found, 1.0, "times"), why)
        },
    ),
    claim(
        "queue-faults",
        "without the pool every page of every block faults",
        "152,000 faults for 600 MB = 1.04 per 4 KiB",
        CHUNKS,
        |results| {
            let found = cell(results, "mmap", Workers::All, Queue::Short).map(|cell| {
                let pages = (cell.chunks * BLOCK_BYTES / faultless_os::page::size()) as f64;
                cell.median("timed", "minor_faults", |faults| faults / pages)
            });
            Finding::bounded(
                found.flatten(),
                0.99,
                1.06,
                |found| with_interval(found, 1.0, "per page"),
                "exactly one, and a few of the threads'",
            )
        },
    ),
    claim(
        "queue-block",
        "a request of 640 KiB is served with a block of 768 KiB",
        "768 / 640 = 1.2",
        CHUNKS,
        |results| {
            let found = cell(results, "pool", Workers::One, Queue::Short)
                .and_then(|cell| cell.median("setup", "block_bytes", |bytes| bytes / BLOCK_BYTES as f64));
            let why = "our pool cuts blocks in granules of 16 KiB, and 640 KiB are 40 of them";
            Finding::bounded(found, 1.15, 1.25, |found| with_interval(found, 1.0, "times"), why)
        },
    ),
    claim("queue-price", "page faults cost 175 us per MB", "175 us", CHUNKS, |results| {
        let found = price_us_per_mib(results);
        Finding::bounded(
            found,
            140.0,
            210.0,
            |found| with_interval(found, 1.0, "us per MiB"),
            "map, first touch and unmap; shadow paging makes a fault dear here",
        )
    }),
    claim("queue-fault-ns", "that is 680 ns per fault", "680 ns", CHUNKS, |results| {
        let found = price_us_per_mib(results).map(|found| pipeline::scaled(&found, per_fault()));
        Finding::bounded(
            found,
            544.0,
            816.0,
            |found| with_interval(found, 1.0, "ns"),
            "the same figure by pages",
        )
    }),
    claim(
        "queue-fault-gb-s",
        "page faults come at 5.7 GB/s at the most",
        "1 MB / 175 us = 5.7 GB/s",
        CHUNKS,
        |results| {
            const MIB: f64 = 1_048_576.0;
            let found = price_us_per_mib(results);
            let found = found.map(|found| Interval {
                value: MIB / found.value / 1e3,
                low: MIB / found.high / 1e3,
                high: MIB / found.low / 1e3,
            });
            Finding::bounded(
                found,
                4.6,
                6.9,
                |found| with_interval(found, 1.0, "GB/s"),
                "one thread; the same figure turned over",
            )
        },
    ),
    claim(
        "queue-explains-8",
        "price times bytes is the time that the pool saves with eight workers",
        "87 ms for 84 ms = 0.97 of it",
        CHUNKS,
        |results| {
            let why = "the price is taken on one thread: several workers fault at the same time, so wall time is saved only by a part of it";
            if_undisturbed(results, explained(results, Workers::All, "wall_ns", 0.75..=1.3, why))
        },
    ),
    claim(
        "queue-explains-1",
        "the same with one worker, 'exactly equal'",
        "38 ms for 200 MB; but 200 x 175 us are 35 ms: 1.09 of it",
        CHUNKS,
        |results| {
            let why = "reader and worker fault side by side, 32 and 128 pages per block";
            if_undisturbed(results, explained(results, Workers::One, "wall_ns", 0.75..=1.3, why))
        },
    ),
    claim(
        "queue-explains-cpu",
        "price times bytes is the difference: the argument again, in CPU time, which does not depend on who waits for whom",
        "0.97 to 1.09",
        CHUNKS,
        |results| {
            let why = "what is above 1: memory that is new is also cold, and mmap's lock is shared";
            explained(results, Workers::All, "cpu_ns", 0.75..=1.3, why)
        },
    ),
    claim(
        "queue-serialised",
        "the kernel handles page faults one at a time: the difference with eight workers is that of one thread",
        "84 ms / 87 ms = 0.97",
        CHUNKS,
        |results| {
            let why = "0.5 is what two processors that fault side by side make of it; Linux takes a lock per mapping (6.4) or shares one";
            if_undisturbed(results, explained(results, Workers::All, "wall_ns", 0.85..=f64::MAX, why))
        },
    ),
    claim(
        "queue-osx-parallel",
        "OSX seems to fault in parallel: eight workers lose less per MB than one",
        "8.4 GB/s against 2 GB/s = 4.2",
        CHUNKS,
        |results| {
            let (Some(one), Some(all)) = (
                pipeline::extra_bytes_per_ns(results, Workers::One),
                pipeline::extra_bytes_per_ns(results, Workers::All),
            ) else {
                return Finding::unknown(NOT_MEASURED);
            };
            let found = faultless_trace::measurement::ratio(&all, &one);
            let why = "one worker and the reader are two threads that fault already: with two processors there is no room for more";
            let finding =
                Finding::bounded(Some(found), 1.5, 8.5, |found| with_interval(found, 1.0, "times"), why);
            if_undisturbed(results, finding)
        },
    ),
    claim(
        "queue-threshold-x86",
        "the heap goes to the kernel from 508 KiB on: 65,024 units of 8 bytes",
        "65,024 x 8 = 508 KiB",
        THRESHOLD,
        |results| Finding { ours: threshold(results, "glibc-fixed"), ..Finding::unknown(NO_WINDOWS) },
    ),
    claim(
        "queue-threshold-x64",
        "on x64 the units have 16 bytes, so the cutoff is about 1 MB",
        "65,280 x 16 = 1020 KiB",
        THRESHOLD,
        |results| Finding { ours: threshold(results, "glibc"), ..Finding::unknown(NO_WINDOWS) },
    ),
    claim(
        "queue-kept",
        "below its threshold a heap pays for a block of 640 KiB only once",
        "64-bit: pool and no pool both 404 ms",
        THRESHOLD,
        |results| {
            let found = faults_per_page(results, "glibc", "640", "later");
            Finding::bounded(
                found,
                0.0,
                0.02,
                |found| with_interval(found, 1.0, "faults per page and cycle"),
                "glibc, after the first two",
            )
        },
    ),
    claim(
        "queue-mapped",
        "above its threshold a heap pays for it every time",
        "32-bit: 152,000 faults, one per page",
        THRESHOLD,
        |results| {
            let found = faults_per_page(results, "glibc-fixed", "640", "later");
            Finding::bounded(
                found,
                0.98,
                1.05,
                |found| with_interval(found, 1.0, "faults per page and cycle"),
                "glibc with its threshold fixed at 128 KiB",
            )
        },
    ),
    claim(
        "queue-above",
        "most heaps fall back to virtual memory above certain sizes",
        "508 KiB or 1 MB",
        THRESHOLD,
        |results| {
            let names = ["glibc", "glibc-fixed", "jemalloc", "mimalloc", "tcmalloc"];
            let found: Vec<_> =
                names.iter().filter_map(|name| Some((*name, mapped_from_kib(results, name)?))).collect();
            if found.is_empty() {
                return Finding::unknown(NOT_MEASURED);
            }
            let mapping = found.iter().filter(|(_, kib)| kib.is_some()).count();
            let ours = names.iter().filter(|name| found.iter().any(|(found, _)| found == *name));
            let ours: Vec<_> = ours.map(|name| format!("{name} {}", threshold(results, name))).collect();
            let verdict =
                if 2 * mapping > found.len() { super::Verdict::Reproduced } else { super::Verdict::Refuted };
            Finding {
                verdict,
                ours: ours.join(", "),
                why: "up to 64 MiB; glibc's rises to 32 MiB by itself".into(),
            }
        },
    ),
    claim(
        "queue-cache-miss",
        "a miss of the last cache is 100 times as dear as a hit of the first, or more",
        "100",
        CHUNKS,
        |_| Finding::unknown("no experiment here takes the latency of caches"),
    ),
];

/// ns per fault for us per MiB.
fn per_fault() -> f64 {
    1e3 * faultless_os::page::size() as f64 / 1_048_576.0
}
