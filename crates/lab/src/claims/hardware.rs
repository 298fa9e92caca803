//! The claims of "Bringing The Hardware And Windows To Its Limits": first touches and copies, on Windows 10, in 2017.

mod judge;
mod serial;

use super::{Claim, Finding, with_interval};
use crate::experiment::Document;

const DOCUMENT: Document = Document::Hardware;
/// Pages of the document's 2000 MB.
const DOCUMENT_PAGES: f64 = 512_000.0;

pub(super) const CLAIMS: &[Claim] = &[
    Claim {
        id: "hardware-first-touch",
        document: DOCUMENT,
        says: "one thread touches 2000 MB of new memory in 377 ms (release build)",
        figure: "377 ms / 512,000 pages = 0.74 us per page",
        experiment: "touch",
        judge: |results| {
            let found = judge::us_per_page(results, "first");
            let ours = |found: &_| with_interval(found, 1.0, "us per page");
            let why = "within a factor of two counts; written here, since reading new memory maps one shared zero page on Linux";
            Finding::bounded(found, 0.37, 1.5, ours, why)
        },
    },
    Claim {
        id: "hardware-touch-written",
        document: DOCUMENT,
        says: "memory that was written before (debug build) is touched in 13 ms",
        figure: "13 ms / 512,000 pages = 0.025 us per page",
        experiment: "touch",
        judge: |results| {
            let found = judge::us_per_page(results, "second");
            let ours = |found: &_| with_interval(found, 1e3, "ns per page");
            Finding::bounded(
                found,
                0.0,
                0.05,
                ours,
                "at most twice the document's counts: its loop was not optimised, ours is",
            )
        },
    },
    Claim {
        id: "hardware-second-touch",
        document: DOCUMENT,
        says: "the second touch of 2000 MB takes 0 ms",
        figure: "0 ms",
        experiment: "touch",
        judge: |results| {
            let found = judge::us_per_page(results, "second");
            let ours = |found: &_| with_interval(found, DOCUMENT_PAGES / 1e3, "ms for 2000 MB");
            let why = "the listing stops the clock without calling Touch again; here it is called, and returns what it read";
            Finding::bounded(found, 0.0, 1e3 / DOCUMENT_PAGES, ours, why)
        },
    },
    Claim {
        id: "hardware-30-times",
        document: DOCUMENT,
        says: "touching new memory takes 30 times as long as touching memory that was written before",
        figure: "377 ms / 13 ms = 29",
        experiment: "touch",
        judge: |results| {
            let found = judge::phases(results, judge::ALONE, "own_cpu_ns", "first", "second");
            judge::times(
                found,
                10.0,
                f64::MAX,
                "from ten times on counts: what is beside the fault is an access to the cache or to memory",
            )
        },
    },
    Claim {
        id: "hardware-committed",
        document: DOCUMENT,
        says: "new memory is committed but not resident",
        figure: "2000 MB committed, working set about 0",
        experiment: "touch",
        judge: |results| judge::resident(results, "map", 0.0, 0.01),
    },
    Claim {
        id: "hardware-resident",
        document: DOCUMENT,
        says: "touched memory is resident, all of it",
        figure: "2000 MB",
        experiment: "touch",
        judge: |results| judge::resident(results, "look", 0.99, 1.0),
    },
    Claim {
        id: "hardware-reserve",
        document: DOCUMENT,
        says: "getting the addresses is a super fast operation, the expensive part is the touch",
        figure: "-",
        experiment: "touch",
        judge: |results| {
            let found = judge::phases(results, judge::ALONE, "wall_ns", "first", "map");
            judge::times(
                found,
                100.0,
                f64::MAX,
                "the touch of all pages over the calls that map them; a hundredfold counts",
            )
        },
    },
    Claim {
        id: "hardware-page-bytes",
        document: DOCUMENT,
        says: "one byte in 4 KiB is touched, and each of these touches is a fault",
        figure: "4 KiB per fault",
        experiment: "touch",
        judge: |results| {
            let found = judge::bytes_per_fault(results, "touch", judge::ALONE);
            let ours = |found: &_| with_interval(found, 1.0 / 1024.0, "KiB per fault");
            Finding::bounded(
                found,
                3900.0,
                4100.0,
                ours,
                "with THP off and base pages of 4 KiB; other machines have 16 or 64 KiB",
            )
        },
    },
    Claim {
        id: "hardware-commit-limit",
        document: DOCUMENT,
        says: "all programs together can commit the physical memory and the page file",
        figure: "1.00 of memory and swap",
        experiment: "touch",
        judge: |results| {
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
    },
    Claim {
        id: "hardware-x86",
        document: DOCUMENT,
        says: "an x86 process can allocate only 4 GB",
        figure: "4 GB",
        experiment: "touch",
        judge: |_| Finding::unknown("faultless is built for 64 bits only"),
    },
    Claim {
        id: "hardware-hard-faults",
        document: DOCUMENT,
        says: "hard faults are slow, very slow, beside soft ones",
        figure: "-",
        experiment: "filemap",
        judge: |results| {
            let found = judge::cold_file(results);
            let why = "a file read through a mapping, out of the page cache over in it; readahead makes most faults soft; threefold counts";
            judge::times(found, 3.0, f64::MAX, why)
        },
    },
    Claim {
        id: "hardware-copy-i7",
        document: DOCUMENT,
        says: "threads copy into warm memory with at most 9.3 GB/s on an i7-4770K",
        figure: "9.3 GB/s",
        experiment: "copy",
        judge: |results| judge::other_machine(judge::peak(results, "copy", "warm")),
    },
    Claim {
        id: "hardware-copy-e5",
        document: DOCUMENT,
        says: "and with at most 10.3 GB/s on an E5-2623 v3",
        figure: "10.3 GB/s",
        experiment: "copy",
        judge: |results| judge::other_machine(judge::peak(results, "copy", "warm")),
    },
    Claim {
        id: "hardware-copy-xeon",
        document: DOCUMENT,
        says: "and with at most 40.8 GB/s on a Xeon Gold 6148",
        figure: "40.8 GB/s",
        experiment: "copy",
        judge: |results| judge::other_machine(judge::peak(results, "copy", "warm")),
    },
    Claim {
        id: "hardware-copy-margin",
        document: DOCUMENT,
        says: "the best copy is off by a large margin from the memory's bandwidth",
        figure: "9.3 / 25.6 = 0.36 and 10.3 / 59 = 0.17",
        experiment: "copy",
        judge: |results| {
            let why = "of the best that all threads read or write here; what the memory could do in theory can't be asked";
            judge::times(judge::of_limit(results, 1.0), 0.0, 0.75, why)
        },
    },
    Claim {
        id: "hardware-copy-twice",
        document: DOCUMENT,
        says: "counted twice, as read and as written, a copy comes near the memory's bandwidth",
        figure: "18 / 25.6 = 0.70",
        experiment: "copy",
        judge: |results| {
            let why = "of the best that all threads read or write here; where reading is served by the cache in part, a copy is not";
            judge::times(judge::of_limit(results, 2.0), 0.5, 1.1, why)
        },
    },
    Claim {
        id: "hardware-module",
        document: DOCUMENT,
        says: "without one of its memory modules a machine copies half as fast",
        figure: "9.3 to 4.7 GB/s",
        experiment: "copy",
        judge: |_| Finding::unknown("needs a screwdriver"),
    },
    Claim {
        id: "hardware-copy-threads",
        document: DOCUMENT,
        says: "more threads copy faster into warm memory, up to a point",
        figure: "40.8 GB/s by 10 threads",
        experiment: "copy",
        judge: |results| {
            let found = judge::speedup(results, "copy", &[("kind", "copy")], "warm");
            judge::times(
                found,
                1.05,
                f64::MAX,
                "all processors over one thread; where one thread can use all of the memory's bandwidth, it holds not",
            )
        },
    },
    Claim {
        id: "hardware-copy-10",
        document: DOCUMENT,
        says: "up to 10 threads each still add to the bandwidth of copying (Xeon Gold)",
        figure: "10 threads",
        experiment: "copy",
        judge: |results| judge::best_threads(results, "copy", &[("kind", "copy")], "warm", 8..=12),
    },
    Claim {
        id: "hardware-copy-gain",
        document: DOCUMENT,
        says: "into new memory parallel copying gains far less than into warm memory",
        figure: "-",
        experiment: "copy",
        judge: |results| {
            let why = "the gain of all processors over one thread, cold over warm; below 0.9 counts";
            judge::times(judge::gain(results), 0.0, 0.9, why)
        },
    },
    Claim {
        id: "hardware-touch-degrades",
        document: DOCUMENT,
        says: "the first touch gets slower with more threads",
        figure: "slower than one thread",
        experiment: "touch",
        judge: |results| {
            let found = judge::speedup(results, "touch", judge::WRITTEN, "first").map(judge::inverse);
            judge::times(found, 1.0, f64::MAX, "time of as many threads as processors over that of one")
        },
    },
    Claim {
        id: "hardware-touch-4",
        document: DOCUMENT,
        says: "4 threads touch new memory fastest",
        figure: "4 threads",
        experiment: "touch",
        judge: |results| judge::best_threads(results, "touch", judge::WRITTEN, "first", 3..=5),
    },
    Claim {
        id: "hardware-touch-overhead",
        document: DOCUMENT,
        says: "with 1 to 40 threads the work of touching stays the same and the overhead of the lock explodes",
        figure: "1 to 40 threads",
        experiment: "touch",
        judge: |results| {
            let why =
                "CPU time of twice as many threads as processors over that of one; twice as much counts";
            judge::times(judge::overhead(results), 2.0, f64::MAX, why)
        },
    },
    Claim {
        id: "hardware-process-lock",
        document: DOCUMENT,
        says: "soft faults take a process-wide lock, which makes them mostly single-threaded",
        figure: "-",
        experiment: "scale",
        judge: serial::judge,
    },
    Claim {
        id: "hardware-virtuallock",
        document: DOCUMENT,
        says: "VirtualLock, which faults in from one thread, is much better than touching from many",
        figure: "-",
        experiment: "touch",
        judge: |results| {
            let why = "first touch by all processors over mlock by one thread; mlock leaves out the trap of each fault, not the rest";
            judge::times(judge::unlocked(results), 1.25, f64::MAX, why)
        },
    },
    Claim {
        id: "hardware-creators-peak",
        document: DOCUMENT,
        says: "copying into new memory never gets near the memory's bandwidth (Creators Update)",
        figure: "6.5 / 9.3 GB/s = 0.70",
        experiment: "copy",
        judge: |results| {
            judge::times(
                judge::cold_peak(results),
                0.0,
                0.8,
                "best of all numbers of threads, cold over warm; up to 0.8 counts",
            )
        },
    },
    Claim {
        id: "hardware-fall-peak",
        document: DOCUMENT,
        says: "copying into new memory reaches the memory's bandwidth with 3 threads (Fall Creators Update)",
        figure: "9.x / 9.3 GB/s = 1.0 with 3 of 4 cores",
        experiment: "copy",
        judge: |results| {
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
                    "best of all numbers of threads, cold over warm; 0.9 counts",
                ),
            }
        },
    },
    Claim {
        id: "hardware-fall-distributes",
        document: DOCUMENT,
        says: "soft faults are fully distributed across threads (Fall Creators Update)",
        figure: "-",
        experiment: "touch",
        judge: |results| {
            let why = "gain of as many threads as processors over one, per processor; 0.8 counts";
            judge::times(judge::per_processor(results), 0.8, f64::MAX, why)
        },
    },
    Claim {
        id: "hardware-fall-43",
        document: DOCUMENT,
        says: "one thread's soft faults are 43 % faster with the Fall Creators Update",
        figure: "43 %",
        experiment: "touch",
        judge: |_| {
            Finding::unknown(
                "two versions of Windows; `faultless lab compare` sets two records of different kernels side by side",
            )
        },
    },
    Claim {
        id: "hardware-fall-factor",
        document: DOCUMENT,
        says: "soft faults became faster by nearly a factor of two",
        figure: "2",
        experiment: "touch",
        judge: |_| {
            Finding::unknown(
                "two versions of Windows; `faultless lab compare` sets two records of different kernels side by side",
            )
        },
    },
    Claim {
        id: "hardware-64k",
        document: DOCUMENT,
        says: "64 KB at a time: page tables are updated 16 times less often",
        figure: "16 pages per fault",
        experiment: "filemap",
        judge: |results| {
            let cell = &[("how", "fault"), ("cache", "warm"), ("threads", "1")];
            let found = judge::bytes_per_fault(results, "filemap", cell).map(judge::in_pages);
            let ours = |found: &_| with_interval(found, 1.0, "pages per fault");
            let why = "Linux does it for files (fault-around), for new memory only with mTHP; faults of the program itself count here too";
            Finding::bounded(found, 14.0, 16.1, ours, why)
        },
    },
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
    fn prices_of_a_touch_are_judged_in_the_documents_unit() {
        assert_eq!(verdict("hardware-first-touch", 700.0, 5.0), Verdict::Reproduced);
        assert_eq!(verdict("hardware-first-touch", 250.0, 5.0), Verdict::Refuted);
        assert_eq!(verdict("hardware-touch-written", 700.0, 25.0), Verdict::Reproduced);
        assert_eq!(verdict("hardware-touch-written", 700.0, 90.0), Verdict::Refuted);
        assert_eq!(verdict("hardware-30-times", 700.0, 25.0), Verdict::Reproduced);
        assert_eq!(verdict("hardware-30-times", 100.0, 25.0), Verdict::Refuted);
    }
}
