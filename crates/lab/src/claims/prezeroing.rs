//! The claims of "Prezeroing V2: Why and When it works".
//!
//! Its tables compare a kernel that zeroes at the fault with one that has zeroed before. Here no program can have the second,
//! so its price is taken from three arms: the fault of this kernel, less what zeroing takes (a pool that zeroes on get, less
//! one that has zeroed ahead). The document's pages are 16 KiB, of 128 lines of 128 bytes.

mod prices;
mod wall;

use faultless_trace::stat::Interval;

use super::{Claim, Finding, NOT_MEASURED, parts_of_a_fault, shares_of_a_fault, with_interval};
use crate::experiment::Document;
use prices::*;
use wall::{BY_LINES, BY_THREADS, misprint};

const DOCUMENT: Document = Document::Prezeroing;
const PHASES: &str = "phases";

pub(super) const CLAIMS: &[Claim] = &[
    DOCUMENT.claim(
        PHASES,
        "prezero-zeroing-largest",
        "zeroing the page is the most expensive operation of a page fault, but for locking",
        "no figure; more than any other part",
        |results| {
            let parts = parts_of_a_fault(results);
            let of = |wanted: &str| parts.iter().find(|(name, _)| *name == wanted).map(|(_, share)| *share);
            let Some(zeroing) = of("zeroing") else {
                return Finding::unknown("not measured in this record: needs root");
            };
            let others = parts.iter().filter(|(name, _)| !["zeroing", "locks", "other"].contains(name));
            let largest = others.map(|(_, share)| *share).fold(0.0, f64::max);
            let times = zeroing / largest.max(f64::MIN_POSITIVE);
            let found = Interval { value: times, low: times, high: times };
            let ours = |found: &Interval| with_interval(found, 1.0, "times the largest other part");
            Finding::bounded(Some(found), 1.0, f64::MAX, ours, format!("a fault is {}", shares_of_a_fault(results)))
        },
    ),
    DOCUMENT.claim(
        RATE,
        "prezero-zeroing-dominates",
        "zeroing takes most of a page fault",
        "10.6 of 14.4 us = 0.74 (from the rates with and without)",
        |results| {
            let share =
                ratio(Some(zeroing_ns(results, "1", ONE, Clock::Cpu)), fault(results, "1", ONE, Clock::Cpu));
            let why = zeroing_and_fault(results);
            Finding::bounded(share, 0.5, f64::MAX, |found| with_interval(found, 1.0, "of a fault"), why)
        },
    ),
    DOCUMENT.claim(
        RATE,
        "prezero-lines-of-a-page",
        "zeroing loads and writes back all 128 cache lines of a page",
        "128 lines x 128 bytes = 16 KiB",
        |results| match most_lines(results) {
            None => Finding::unknown(NOT_MEASURED),
            Some(lines) => Finding::not_comparable(
                Some(format!("{lines} lines per page")),
                "pages and lines of that machine; which lines a kernel loads and writes back is not counted here",
            ),
        },
    ),
    DOCUMENT.claim(
        RATE,
        "prezero-first-pair",
        "one thread gets 7.5 times the faults per second of CPU time",
        "524,292 / 69,585 = 7.53",
        |results| {
            gain(
                results,
                "1",
                Clock::Cpu,
                7.53,
                "that pair is 1 GB with zeroing hardware against 3 x 4 GB; like for like it is 3.85",
            )
        },
    ),
    DOCUMENT.claim(
        RATE,
        "prezero-first-pair-wall",
        "and 7.4 times the faults per second of the clock",
        "517,666 / 69,567 = 7.44",
        |results| gain(results, "1", Clock::Wall, 7.44, "the same pair by the clock; like for like it is 3.85"),
    ),
    DOCUMENT.claim(
        RATE,
        "prezero-rate-without",
        "a CPU second is 69,585 faults on pages zeroed at the fault",
        "69,584.896 flt/cpu/s",
        |results| per_cpu_s(fault(results, "1", ONE, Clock::Cpu)),
    ),
    DOCUMENT.claim(
        RATE,
        "prezero-rate-with",
        "a CPU second is 268,078 faults on prezeroed pages",
        "268,077.996 flt/cpu/s",
        |results| per_cpu_s(unzeroed(results, "1", ONE, Clock::Cpu)),
    ),
    DOCUMENT.claim(
        RATE,
        "prezero-hardware",
        "with zeroing hardware, and enough zeroed pages, twice as many",
        "524,292 / 268,078 = 1.96",
        |_| {
            Finding::unknown(
                "no device that zeroes memory is used here; a pool's blocks are all zeroed before the test",
            )
        },
    ),
    DOCUMENT.claim(
        RATE,
        "prezero-system-time",
        "nearly all of the test's CPU time is the kernel's",
        "11.155 of 11.301 s = 0.987",
        |results| {
            let system = system_ns(results, ONE);
            let share = ratio(system, fault(results, "1", ONE, Clock::Cpu));
            Finding::bounded(
                share,
                0.9,
                f64::MAX,
                |found| with_interval(found, 1.0, "of the CPU time"),
                "the kernel over user and system time: a touch is one store, a fault hundreds of instructions",
            )
        },
    ),
    // The table without the patch, by threads.
    DOCUMENT.claim(
        RATE,
        "prezero-without-2-wall",
        "without prezeroing 2 threads fault 1.4 times as fast as 1",
        "98,644 / 69,567 = 1.42",
        |r| faster(r, fault, "2", 1.418),
    ),
    DOCUMENT.claim(
        RATE,
        "prezero-without-4-wall",
        "without prezeroing 4 threads fault twice as fast as 1",
        "135,642 / 69,567 = 1.95",
        |r| faster(r, fault, "4", 1.950),
    ),
    DOCUMENT.claim(
        RATE,
        "prezero-without-8-wall",
        "without prezeroing 8 threads fault 2.6 times as fast as 1",
        "179,791 / 69,567 = 2.58",
        |r| faster(r, fault, "8", 2.584),
    ),
    DOCUMENT.claim(
        RATE,
        "prezero-without-2-cpu",
        "without prezeroing a fault costs a third more CPU time with 2 threads",
        "69,585 / 52,150 = 1.33",
        |r| dearer(r, fault, "2", 1.334),
    ),
    DOCUMENT.claim(
        RATE,
        "prezero-without-4-cpu",
        "without prezeroing a fault costs half as much CPU time again with 4 threads",
        "69,585 / 46,869 = 1.48",
        |r| dearer(r, fault, "4", 1.485),
    ),
    DOCUMENT.claim(
        RATE,
        "prezero-without-8-cpu",
        "without prezeroing a fault costs twice the CPU time with 8 threads",
        "69,585 / 33,599 = 2.07",
        |r| dearer(r, fault, "8", 2.071),
    ),
    // The table with it.
    DOCUMENT.claim(
        RATE,
        "prezero-with-2-wall",
        "on prezeroed pages 2 threads are no faster than 1",
        "263,967 / 267,953 = 0.99",
        |r| faster(r, unzeroed, "2", 0.985),
    ),
    DOCUMENT.claim(
        RATE,
        "prezero-with-4-wall",
        "on prezeroed pages 4 threads are no faster than 1",
        "264,774 / 267,953 = 0.99",
        |r| faster(r, unzeroed, "4", 0.988),
    ),
    DOCUMENT.claim(
        RATE,
        "prezero-with-8-wall",
        "on prezeroed pages 8 threads are slower than 1",
        "221,701 / 267,953 = 0.83",
        |r| faster(r, unzeroed, "8", 0.827),
    ),
    DOCUMENT.claim(
        RATE,
        "prezero-with-2-cpu",
        "on prezeroed pages a fault costs 1.7 times the CPU time with 2 threads",
        "268,078 / 155,345 = 1.73",
        |r| dearer(r, unzeroed, "2", 1.726),
    ),
    DOCUMENT.claim(
        RATE,
        "prezero-with-4-cpu",
        "on prezeroed pages a fault costs 2.3 times the CPU time with 4 threads",
        "268,078 / 116,206 = 2.31",
        |r| dearer(r, unzeroed, "4", 2.307),
    ),
    DOCUMENT.claim(
        RATE,
        "prezero-with-8-cpu",
        "on prezeroed pages a fault costs 4.7 times the CPU time with 8 threads",
        "268,078 / 56,660 = 4.73",
        |r| dearer(r, unzeroed, "8", 4.731),
    ),
    // The gain from the one to the other.
    DOCUMENT.claim(
        RATE,
        "prezero-gain-1",
        "prezeroing makes one thread 3.9 times as fast",
        "267,953 / 69,567 = 3.85",
        |r| gain(r, "1", Clock::Wall, 3.852, GAIN),
    ),
    DOCUMENT.claim(
        RATE,
        "prezero-gain-2",
        "prezeroing makes 2 threads 2.7 times as fast",
        "263,967 / 98,644 = 2.68",
        |r| gain(r, "2", Clock::Wall, 2.676, GAIN),
    ),
    DOCUMENT.claim(
        RATE,
        "prezero-gain-4",
        "prezeroing makes 4 threads twice as fast",
        "264,774 / 135,642 = 1.95",
        |r| gain(r, "4", Clock::Wall, 1.952, GAIN),
    ),
    DOCUMENT.claim(
        RATE,
        "prezero-gain-8",
        "prezeroing makes 8 threads faster by a quarter",
        "221,701 / 179,791 = 1.23",
        |r| gain(r, "8", Clock::Wall, 1.233, GAIN),
    ),
    DOCUMENT.claim(
        RATE,
        "prezero-gain-1-cpu",
        "prezeroing gives one thread 3.9 times the faults per CPU second",
        "268,078 / 69,585 = 3.85",
        |r| gain(r, "1", Clock::Cpu, 3.853, GAIN),
    ),
    DOCUMENT.claim(
        RATE,
        "prezero-gain-2-cpu",
        "prezeroing gives 2 threads 3.0 times the faults per CPU second",
        "155,345 / 52,150 = 2.98",
        |r| gain(r, "2", Clock::Cpu, 2.979, GAIN),
    ),
    DOCUMENT.claim(
        RATE,
        "prezero-gain-4-cpu",
        "prezeroing gives 4 threads 2.5 times the faults per CPU second",
        "116,206 / 46,869 = 2.48",
        |r| gain(r, "4", Clock::Cpu, 2.479, GAIN),
    ),
    DOCUMENT.claim(
        RATE,
        "prezero-gain-8-cpu",
        "prezeroing gives 8 threads 1.7 times the faults per CPU second",
        "56,660 / 33,599 = 1.69",
        |r| gain(r, "8", Clock::Cpu, 1.686, GAIN),
    ),
    // The table by cache lines.
    DOCUMENT.claim(
        RATE,
        "prezero-lines-2",
        "with 2 cache lines written per prezeroed page the rate is 0.99 of that with 1",
        "493,453 / 500,814 = 0.99",
        |r| lines(r, Lines::Of("2"), 0.985),
    ),
    DOCUMENT.claim(
        RATE,
        "prezero-lines-4",
        "with 4 lines written the rate is 0.96 of that with 1",
        "479,352 / 500,814 = 0.96",
        |r| lines(r, Lines::Of("4"), 0.957),
    ),
    DOCUMENT.claim(
        RATE,
        "prezero-lines-8",
        "with 8 lines written the rate is 0.85 of that with 1",
        "424,742 / 500,814 = 0.85",
        |r| lines(r, Lines::Of("8"), 0.848),
    ),
    DOCUMENT.claim(
        RATE,
        "prezero-lines-16",
        "with 16 lines written the rate is 0.69 of that with 1",
        "347,715 / 500,814 = 0.69",
        |r| lines(r, Lines::Of("16"), 0.694),
    ),
    DOCUMENT.claim(
        RATE,
        "prezero-lines-32",
        "with 32 lines written the rate is 0.52 of that with 1",
        "258,112 / 500,814 = 0.52",
        |r| lines(r, Lines::Of("32"), 0.515),
    ),
    DOCUMENT.claim(
        RATE,
        "prezero-lines-64",
        "with 64 lines written, half of a page there, the rate is 0.34 of that with 1",
        "169,896 / 500,814 = 0.34",
        |r| lines(r, Lines::Of("64"), 0.339),
    ),
    DOCUMENT.claim(
        RATE,
        "prezero-lines-all",
        "with all lines of a page written the rate is a fifth of that with 1",
        "102,300 / 500,814 = 0.20",
        |r| lines(r, Lines::All, 0.204),
    ),
    DOCUMENT.claim(
        RATE,
        "prezero-line-ns",
        "the first write to a line of a prezeroed page costs 58 ns of user time",
        "(0.49 s - 0.01 s) / 65,536 / 127 = 58 ns",
        line_ns,
    ),
    DOCUMENT.claim(
        RATE,
        "prezero-system-flat",
        "the kernel's time does not depend on the lines that are written",
        "0.14 s / 0.12 s = 1.17",
        |results| {
            let Some(most) = most_lines(results) else { return Finding::unknown(NOT_MEASURED) };
            let system = |lines: &str| system_ns(results, lines);
            let found = ratio(system(&most.to_string()), system(ONE));
            Finding::bounded(
                found,
                0.8,
                1.25,
                |found| with_interval(found, 1.0, "times"),
                "system time with all lines written over that with one: the kernel zeroes the whole page either way",
            )
        },
    ),
    DOCUMENT.claim(
        RATE,
        "prezero-no-gain-when-full",
        "prezeroing brings nothing where all lines of a page are written",
        "no influence on lmbench: 0 of what it brings with one line",
        |results| {
            let Some(most) = most_lines(results) else { return Finding::unknown(NOT_MEASURED) };
            let why = "who writes all lines finds them in the cache after zeroing, and loads them where it was done before";
            let ours = |found: &Interval| with_interval(found, 1.0, "of the time saved with one line");
            Finding::bounded(saved_when_full(results, most), f64::MIN, 0.5, ours, why)
        },
    ),
    DOCUMENT.claim(
        RATE,
        "prezero-moved-when-full",
        "where all lines are written zeroing ahead is work that is only moved",
        "no figure",
        |results| {
            let Some(most) = most_lines(results) else { return Finding::unknown(NOT_MEASURED) };
            let most = most.to_string();
            let on_get = arm(results, "on-get", "1", &most, Clock::Cpu);
            let found = ratio(on_get, with_scrubbing(results, &most));
            Finding::bounded(
                found,
                0.0,
                1.05,
                |found| with_interval(found, 1.0, "times the CPU time, zeroing on get"),
                "zeroing on get over zeroing ahead and then writing: ahead of need the page passes through memory twice",
            )
        },
    ),
    DOCUMENT.claim(
        RATE,
        "prezero-scrubber",
        "the scrub daemon is hardly noticed",
        "no figure; taken for a quarter of a fault",
        |results| {
            let scrub = scrub_ns(results);
            let found = ratio(scrub, fault(results, "1", ONE, Clock::Cpu));
            Finding::bounded(
                found,
                0.0,
                0.25,
                |found| with_interval(found, 1.0, "of a fault"),
                "CPU time of zeroing a page ahead, over a fault",
            )
        },
    ),
    DOCUMENT.claim(
        RATE,
        "prezero-wall-column",
        "the Wall column of the tables by threads",
        "11.030 7.097 5.079 4.037, 0.012, 2.093 2.097 2.097 3.054 s",
        |results| misprint(results, &BY_THREADS),
    ),
    DOCUMENT.claim(
        RATE,
        "prezero-wall-column-lines",
        "the Wall column of the table by cache lines",
        "0.01 0.01 0.01 0.01 0.01 0.02 0.03 0.06 s",
        |results| misprint(results, &BY_LINES),
    ),
    // What is said about zeroing itself.
    DOCUMENT.claim(
        ZEROING,
        "prezero-hot-is-cheaper",
        "pages that are in the cache are better zeroed hot, when they are needed",
        "no figure",
        |results| {
            let price = |from: &str| zeroed_ns(results, "cached", from, "0");
            Finding::bounded(
                ratio(price("cold"), price("hot")),
                1.2,
                f64::MAX,
                |found| with_interval(found, 1.0, "times, cold to hot"),
                "CPU time per page of zeroing what is in no cache, over what was just used",
            )
        },
    ),
    DOCUMENT.claim(
        ZEROING,
        "prezero-reader-finds-hot",
        "zeroes written to a hot page are overwritten in the cache and never reach memory",
        "no figure",
        |results| {
            let reader = |engine: &str| reader_ns(results, engine);
            Finding::bounded(
                ratio(reader("non-temporal"), reader("cached")),
                1.5,
                f64::MAX,
                |found| with_interval(found, 1.0, "times, reading after stores round the cache"),
                "who reads next finds the zeroes in the cache, or waits for memory",
            )
        },
    ),
    DOCUMENT.claim(
        ZEROING,
        "prezero-aggregated",
        "zeroing many pages in one go, by a higher order, is faster",
        "no figure",
        |results| {
            let price = |order: &str| zeroed_ns(results, "cached", "cold", order);
            Finding::bounded(
                ratio(price("0"), price("9")),
                1.1,
                f64::MAX,
                |found| with_interval(found, 1.0, "times, order 0 to order 9"),
                "prefetchers follow long runs; these pages are base pages, so the TLB gains nothing",
            )
        },
    ),
    DOCUMENT.claim(
        ZEROING,
        "prezero-offload-spares-caches",
        "zeroing that does not go through the CPU's caches leaves its data there",
        "no figure",
        |results| {
            let beside = |engine: &str| beside(results, engine);
            Finding::bounded(
                ratio(beside("cached"), beside("non-temporal")),
                1.1,
                f64::MAX,
                |found| {
                    with_interval(found, 1.0, "times, a working set elsewhere after stores through the cache")
                },
                "stores round the cache stand for the hardware of the document",
            )
        },
    ),
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::claims::Verdict;
    use crate::record::Row as Raw;
    use crate::results::Results;

    /// Three rounds of an arm with one thread: ns per page of the timed phase.
    fn rows(arm: &str, threads: usize, lines: usize, ns: f64) -> Vec<Raw> {
        let value = |quantity: &str, value: f64, round| Raw {
            experiment: RATE.into(),
            cell: format!("arm={arm} mib=64 threads={threads} lines={lines}"),
            round,
            phase: "timed".into(),
            quantity: quantity.into(),
            value,
        };
        let round = |round| {
            let pages = 1000.0;
            [
                ("pages", pages),
                ("wall_ns", ns * pages),
                ("user_ns", 0.1 * ns * pages),
                ("system_ns", 0.9 * ns * pages),
            ]
            .map(|(quantity, ns)| value(quantity, ns, round))
        };
        (1..=3).flat_map(round).collect()
    }

    fn find(id: &str, results: &Results) -> Finding {
        let claim = CLAIMS.iter().find(|claim| claim.id == id).unwrap();
        (claim.judge)(results)
    }

    /// The document's own figures, per 16 KiB page.
    fn theirs() -> Results {
        let arms = |threads, lines, fault, zeroing| {
            [("kernel", fault), ("on-get", zeroing + 100.0), ("ahead", 100.0)]
                .map(|(arm, ns)| rows(arm, threads, lines, ns))
                .concat()
        };
        let all = [arms(1, 1, 14_371.0, 10_641.0), arms(2, 1, 10_137.0, 6349.0), arms(4, 1, 7372.0, 3595.0)];
        Results::of(all.concat()).unwrap()
    }

    #[test]
    fn the_documents_own_figures_reproduce_its_claims() {
        let results = theirs();
        for id in ["prezero-zeroing-dominates", "prezero-gain-1"] {
            assert_eq!(find(id, &results).verdict, Verdict::Reproduced, "{id} {:?}", find(id, &results));
        }
        for id in ["prezero-without-2-wall", "prezero-with-2-wall", "prezero-gain-2"] {
            assert_eq!(find(id, &results).verdict, Verdict::Reproduced, "{id} {:?}", find(id, &results));
        }
        assert_eq!(find("prezero-first-pair", &results).verdict, Verdict::Refuted);
        let rate = find("prezero-rate-without", &results);
        assert_eq!((rate.verdict, rate.ours.as_str()), (Verdict::CannotSay, "69.6 thousand flt/cpu/s"));
    }

    #[test]
    fn threads_beyond_the_processors_tell_nothing() {
        let found = find("prezero-gain-4", &theirs());
        assert_eq!(found.verdict, Verdict::CannotSay);
        assert!(found.why.contains("takes 4 processors; 2 are here"), "{}", found.why);
    }

    #[test]
    fn what_zeroing_ahead_saves_is_compared_with_one_line_and_with_all() {
        let arms = |lines, on_get, ahead| {
            [rows("on-get", 1, lines, on_get), rows("ahead", 1, lines, ahead)].concat()
        };
        let verdict = |on_get_full| {
            let results =
                Results::of([arms(1, 700.0, 100.0), arms(64, on_get_full, 1000.0)].concat()).unwrap();
            find("prezero-no-gain-when-full", &results).verdict
        };
        // 600 ns are saved with one line: 50, nothing, less than nothing, or 500 of them with all.
        assert_eq!(
            [1050.0, 1000.0, 900.0, 1500.0].map(verdict),
            [Verdict::Reproduced, Verdict::Reproduced, Verdict::Reproduced, Verdict::Refuted]
        );
    }

    #[test]
    fn zeroing_is_held_against_the_largest_other_part_of_a_fault() {
        let verdict = |zeroing: f64| {
            let shares = [("zeroing_share", zeroing), ("page_table_share", 0.2), ("locks_share", 0.5)];
            let rows = shares.map(|(quantity, value)| Raw {
                experiment: PHASES.into(),
                cell: "page=base samples=450".into(),
                round: 1,
                phase: "names".into(),
                quantity: quantity.into(),
                value,
            });
            find("prezero-zeroing-largest", &Results::of(rows.to_vec()).unwrap())
        };
        assert_eq!(verdict(0.3).verdict, Verdict::Reproduced);
        assert_eq!(verdict(0.05).verdict, Verdict::Refuted);
        assert!(verdict(0.05).why.starts_with("a fault is locks 50.0 %, page table 20.0 %, zeroing 5.00 %"));
    }

    #[test]
    fn the_wall_column_is_refuted_by_the_documents_own_rates() {
        let found = find("prezero-wall-column", &theirs());
        assert_eq!(found.verdict, Verdict::Refuted);
        assert!(found.ours.starts_with("11.3 7.97 5.80 4.37 0.13 2.93 2.98 2.97 3.55"), "{}", found.ours);
        assert!(find("prezero-wall-column-lines", &theirs()).ours.ends_with("0.39 0.64 s"));
    }
}
