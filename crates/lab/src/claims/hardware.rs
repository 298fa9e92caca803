//! The claims of "Bringing The Hardware And Windows To Its Limits": first touches and copies, on Windows 10, in 2017.

mod judge;
mod serial;

use super::{Claim, Finding, Why, with_interval};
use crate::experiment::Document;

const DOCUMENT: Document = Document::Hardware;
/// Pages of the document's 2000 MB.
const DOCUMENT_PAGES: f64 = 512_000.0;

pub(super) const CLAIMS: &[Claim] = &[
    DOCUMENT.claim(
        "touch",
        "hardware-first-touch",
        "one thread touches 2000 MB of new memory in 377 ms (release build)",
        "377 ms / 512,000 pages = 0.74 us per page",
        |results| {
            let ours = judge::us_per_page(results, "first").map(|found| with_interval(&found, 1.0, "us per page"));
            let why = "the price of a fault of Windows 10 in 2017; ours is a write, for a read maps one shared zero page";
            Finding::not_comparable(ours, why)
        },
    ),
    DOCUMENT.claim(
        "touch",
        "hardware-touch-written",
        "memory that was written before (debug build) is touched in 13 ms",
        "13 ms / 512,000 pages = 0.025 us per page",
        |results| {
            let ours =
                judge::us_per_page(results, "second").map(|found| with_interval(&found, 1e3, "ns per page"));
            Finding::not_comparable(ours, "an access to another machine's memory, in a loop that was not optimised")
        },
    ),
    DOCUMENT.claim(
        "touch",
        "hardware-second-touch",
        "the second touch of 2000 MB takes 0 ms",
        "0 ms",
        |results| {
            let found = judge::us_per_page(results, "second");
            let ours = |found: &_| with_interval(found, DOCUMENT_PAGES / 1e3, "ms for 2000 MB");
            let why = "the listing stops the clock without calling Touch again; here it is called, and returns what it read: an access per page takes time";
            Finding::bounded(found, 0.0, 1e3 / DOCUMENT_PAGES, ours, why)
        },
    ),
    DOCUMENT.claim(
        "touch",
        "hardware-30-times",
        "touching new memory takes 30 times as long as touching memory that was written before",
        "377 ms / 13 ms = 29",
        |results| {
            let found = judge::phases(results, judge::ALONE, "own_cpu_ns", "first", "second");
            Finding::effect(found, 29.0, "CPU time of the first touch, a fault, over that of the second, an access")
        },
    ),
    DOCUMENT.claim(
        "touch",
        "hardware-no-interference",
        "once it was touched memory is accessed without any interference of the operating system",
        "no further fault",
        |results| {
            let found = judge::second_faults(results);
            let ours = |found: &_| with_interval(found, 1.0, "faults per page");
            Finding::bounded(found, 0.0, 0.01, ours, "faults of the second touch; the program's own count too")
        },
    ),
    DOCUMENT.claim(
        "touch",
        "hardware-committed",
        "new memory is committed but not resident",
        "2000 MB committed, working set about 0",
        |results| judge::resident(results, "map", 0.0, 0.01),
    ),
    DOCUMENT.claim(
        "touch",
        "hardware-resident",
        "touched memory is resident, all of it",
        "2000 MB",
        |results| judge::resident(results, "look", 0.99, 1.0),
    ),
    DOCUMENT.claim(
        "touch",
        "hardware-reserve",
        "getting the addresses is a super fast operation, the expensive part is the touch",
        "no figure",
        |results| {
            let found = judge::phases(results, judge::ALONE, "wall_ns", "first", "map");
            judge::times(
                found,
                100.0,
                f64::MAX,
                "the touch of all pages over the calls that map them",
            )
        },
    ),
    DOCUMENT.claim(
        "touch",
        "hardware-page-bytes",
        "one byte in 4 KiB is touched, and each of these touches is a fault",
        "4 KiB per fault",
        |results| {
            let found = judge::bytes_per_fault(results, "touch", judge::ALONE);
            let ours = |found: &_| with_interval(found, 1.0 / 1024.0, "KiB per fault");
            Finding::bounded(
                found,
                3900.0,
                4100.0,
                ours,
                "with THP off; a base page has 4 KiB on x86-64, elsewhere also 16 or 64",
            )
        },
    ),
    DOCUMENT.claim(
        "touch",
        "hardware-commit-limit",
        "all programs together can commit the physical memory and the page file",
        "1.00 of memory and swap",
        |results| {
            let found = judge::quotient(
                results,
                "touch",
                judge::ALONE,
                "look",
                "commit_limit_bytes",
                "memory_and_swap_bytes",
            );
            let why = "CommitLimit is vm.overcommit_ratio (50) per cent of memory, and swap; only vm.overcommit_memory=2 enforces it";
            judge::times(found, 0.99, 1.01, why)
        },
    ),
    DOCUMENT.claim(
        "touch",
        "hardware-x86",
        "an x86 process can allocate only 4 GB",
        "4 GB",
        |_| Finding::unknown("faultless is built for 64 bits only"),
    ),
    DOCUMENT.claim(
        "filemap",
        "hardware-hard-faults",
        "hard faults are slow, very slow, beside soft ones",
        "no figure",
        |results| {
            let found = judge::cold_file(results);
            let why = "a file read through a mapping, out of the page cache over in it; readahead makes most faults soft";
            judge::times(found, 3.0, f64::MAX, why)
        },
    ),
    DOCUMENT.claim(
        "copy",
        "hardware-copy-i7",
        "threads copy into warm memory with at most 9.3 GB/s on an i7-4770K",
        "9.3 GB/s",
        judge::best_copy,
    ),
    DOCUMENT.claim(
        "copy",
        "hardware-copy-e5",
        "and with at most 10.3 GB/s on an E5-2623 v3",
        "10.3 GB/s",
        judge::best_copy,
    ),
    DOCUMENT.claim(
        "copy",
        "hardware-copy-xeon",
        "and with at most 40.8 GB/s on a Xeon Gold 6148",
        "40.8 GB/s",
        judge::best_copy,
    ),
    DOCUMENT.claim(
        "copy",
        "hardware-copy-margin",
        "the best copy is off by a large margin from the memory's bandwidth",
        "9.3 / 25.6 = 0.36 and 10.3 / 59 = 0.17",
        |results| {
            let why = "over the best that all threads read or write here; what the memory could do in theory can't be asked";
            judge::times(judge::of_limit(results, 1.0), 0.0, 0.75, why)
        },
    ),
    DOCUMENT.claim(
        "copy",
        "hardware-copy-twice",
        "counted twice, as read and as written, a copy comes near the memory's bandwidth",
        "18 / 25.6 = 0.70",
        |results| {
            let why = "over the best that all threads read or write here: a copy stores round the cache, and what is read or written is partly in it";
            judge::times(judge::of_limit(results, 2.0), 0.5, 1.1, why)
        },
    ),
    DOCUMENT.claim(
        "copy",
        "hardware-module",
        "without one of its memory modules a machine copies half as fast",
        "9.3 to 4.7 GB/s",
        |_| Finding::unknown("takes a memory module out of the machine"),
    ),
    DOCUMENT.claim(
        "copy",
        "hardware-copy-threads",
        "more threads copy faster into warm memory, up to a point",
        "40.8 GB/s by 10 threads",
        |results| {
            let found = judge::speedup(results, "copy", judge::COPIED, "warm");
            judge::times(
                found,
                1.05,
                f64::MAX,
                Why::differs("here one thread alone uses nearly all of the memory's bandwidth", ""),
            )
        },
    ),
    DOCUMENT.claim(
        "copy",
        "hardware-copy-10",
        "up to 10 threads each still add to the bandwidth of copying (Xeon Gold)",
        "10 threads",
        |results| {
            let ours = judge::fastest(results, "copy", judge::COPIED, "warm");
            let ours = ours.map(|count| format!("{count} threads are fastest of the numbers measured"));
            Finding::not_comparable(ours, "where the memory of that machine is fully used")
        },
    ),
    DOCUMENT.claim(
        "copy",
        "hardware-copy-gain",
        "into new memory parallel copying gains far less than into warm memory",
        "no figure",
        |results| {
            let why = "the gain of all processors over one thread: into new memory, over into warm; where warm copies are bound by the memory, cold ones gain more";
            judge::times(judge::gain(results), 0.0, 0.9, why)
        },
    ),
    DOCUMENT.claim(
        "touch",
        "hardware-touch-degrades",
        "the first touch gets slower with more threads",
        "slower than one thread",
        |results| {
            let found = judge::speedup(results, "touch", judge::WRITTEN, "first").map(judge::inverse);
            let why = "time of a thread per processor over that of one thread, for the same memory";
            judge::beyond_the_valley(results, judge::times(found, 1.0, f64::MAX, why))
        },
    ),
    DOCUMENT.claim(
        "touch",
        "hardware-touch-4",
        "4 threads touch new memory fastest",
        "4 threads",
        |results| judge::best_threads(results, "touch", judge::WRITTEN, "first", 3..=5),
    ),
    DOCUMENT.claim(
        "touch",
        "hardware-touch-overhead",
        "with 1 to 40 threads the work of touching stays the same and the overhead of the lock explodes",
        "1 to 40 threads",
        |results| {
            let why =
                "CPU time of twice as many threads as processors, over that of one, for the same memory";
            judge::beyond_the_valley(results, judge::times(judge::overhead(results), 2.0, f64::MAX, why))
        },
    ),
    DOCUMENT.claim(
        "scale",
        "hardware-process-lock",
        "soft faults take a process-wide lock, which makes them mostly single-threaded",
        "no figure",
        serial::judge,
    ),
    DOCUMENT.claim(
        "touch",
        "hardware-virtuallock",
        "VirtualLock, which faults in from one thread, is much better than touching from many",
        "no figure",
        |results| {
            let why = "first touch by all processors over mlock by one thread, which saves the trap of each fault, not the rest";
            judge::beyond_the_valley(results, judge::times(judge::unlocked(results), 1.25, f64::MAX, why))
        },
    ),
    DOCUMENT.claim(
        "copy",
        "hardware-creators-peak",
        "copying into new memory never gets near the memory's bandwidth (Creators Update)",
        "6.5 / 9.3 GB/s = 0.70",
        |results| {
            judge::times(
                judge::cold_peak(results),
                0.0,
                0.8,
                "best of all numbers of threads, into new over into warm memory",
            )
        },
    ),
    DOCUMENT.claim(
        "copy",
        "hardware-fall-peak",
        "copying into new memory reaches the memory's bandwidth with 3 threads (Fall Creators Update)",
        "9.x / 9.3 GB/s = 1.0 with 3 of 4 cores",
        |results| {
            let found = judge::cold_peak(results);
            match (judge::processors(results, "copy"), &found) {
                (Some(processors), Some(ratio)) if processors < 3.0 && ratio.low < 0.9 => Finding {
                    ours: with_interval(ratio, 1.0, "times"),
                    ..Finding::unknown(format!("it takes 3 processors to tell, and here are {processors}"))
                },
                _ => judge::times(
                    found,
                    0.9,
                    f64::MAX,
                    "best of all numbers of threads, into new over into warm memory",
                ),
            }
        },
    ),
    DOCUMENT.claim(
        "touch",
        "hardware-fall-distributes",
        "soft faults are fully distributed across threads (Fall Creators Update)",
        "no figure",
        |results| {
            let why = "gain of a thread per processor over one thread, divided by the processors";
            judge::times(judge::per_processor(results), 0.8, f64::MAX, why)
        },
    ),
    DOCUMENT.claim(
        "touch",
        "hardware-fall-43",
        "one thread's soft faults are 43 % faster with the Fall Creators Update",
        "43 %",
        |_| {
            Finding::unknown(
                "two versions of Windows; `faultless lab compare` sets records of two kernels side by side",
            )
        },
    ),
    DOCUMENT.claim(
        "touch",
        "hardware-fall-factor",
        "soft faults became faster by nearly a factor of two",
        "2",
        |_| {
            Finding::unknown(
                "two versions of Windows; `faultless lab compare` sets records of two kernels side by side",
            )
        },
    ),
    DOCUMENT.claim(
        "price",
        "hardware-64k",
        "new memory comes 64 KB at a time: page tables are updated 16 times less often",
        "16 pages per fault",
        judge::pages_of_64k,
    ),
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::claims::Verdict;
    use crate::record::Row;
    use crate::results::Results;

    /// Verdict on a claim where one thread needs so many ns of CPU time for the first and the second touch of each page.
    fn verdict(id: &str, first_ns: f64, second_ns: f64) -> Verdict {
        let pages = (64 << 20) as f64 / faultless_os::page::size() as f64;
        let mut rows = Vec::new();
        for round in 1..=3 {
            for (phase, ns) in [("first", first_ns), ("second", second_ns)] {
                rows.push(Row {
                    experiment: "touch".into(),
                    cell: "access=write mib=64 threads=1 lock=no mappers=0 flush=no".into(),
                    round,
                    phase: phase.into(),
                    quantity: "own_cpu_ns".into(),
                    value: ns * pages * (1.0 + 0.001 * f64::from(round)),
                });
            }
        }
        let claim = CLAIMS.iter().find(|claim| claim.id == id).unwrap();
        (claim.judge)(&Results::of(rows).unwrap()).verdict
    }

    #[test]
    fn a_second_touch_that_was_made_takes_time() {
        assert_eq!(verdict("hardware-second-touch", 700.0, 5.0), Verdict::Refuted);
        assert_eq!(verdict("hardware-second-touch", 700.0, 0.1), Verdict::Reproduced);
    }

    #[test]
    fn a_price_of_windows_is_not_refuted_by_ours_but_a_relation_is() {
        assert_eq!(verdict("hardware-first-touch", 700.0, 25.0), Verdict::CannotSay);
        assert_eq!(verdict("hardware-touch-written", 700.0, 25.0), Verdict::CannotSay);
        assert_eq!(verdict("hardware-30-times", 700.0, 25.0), Verdict::Reproduced);
        assert_eq!(verdict("hardware-30-times", 100.0, 25.0), Verdict::Refuted);
    }
}
