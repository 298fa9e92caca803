//! Prices taken from the results of the page-fault test and of zeroing, and the ways in which they are compared.
//!
//! In: results. Out: ns per page by round, ratios of them, findings.

use faultless_trace::measurement::{self, median_interval};
use faultless_trace::stat::Interval;

use crate::claims::{Finding, NOT_MEASURED, Verdict, short, with_interval};
use crate::experiment::Cell;
use crate::experiments::zeroing;
use crate::results::{Quantities, Results, cpu_ns, values};

pub(super) const RATE: &str = "fault-rate";
pub(super) const ZEROING: &str = "zeroing";
pub(super) const KERNEL: &str = "kernel";
pub(super) const ONE: &str = "1";
pub(super) const GAIN: &str = "our figure: a fault here, over the same less what zeroing takes; there zeroing was three quarters of a fault";

#[derive(Clone, Copy)]
pub(super) enum Clock {
    Wall,
    Cpu,
}

#[derive(Clone, Copy)]
pub(super) enum Lines {
    Of(&'static str),
    /// All of a page, however many that is.
    All,
}

/// ns per page of an arm of the test, by round, for a number of threads and lines.
pub(super) type Priced = fn(&Results, &str, &str, Clock) -> Option<Vec<f64>>;

pub(super) fn fault(results: &Results, threads: &str, lines: &str, clock: Clock) -> Option<Vec<f64>> {
    arm(results, KERNEL, threads, lines, clock)
}

/// What a fault would cost if the kernel had zeroed the page before.
pub(super) fn unzeroed(results: &Results, threads: &str, lines: &str, clock: Clock) -> Option<Vec<f64>> {
    let (fault, zeroing) =
        (fault(results, threads, lines, clock)?, zeroing_ns(results, threads, lines, clock));
    Some(fault.iter().zip(zeroing).map(|(fault, zeroing)| fault - zeroing).collect())
}

/// What zeroing a page costs while somebody waits for it.
pub(super) fn zeroing_ns(results: &Results, threads: &str, lines: &str, clock: Clock) -> Vec<f64> {
    let [on_get, ahead] =
        ["on-get", "ahead"].map(|name| arm(results, name, threads, lines, clock).unwrap_or_default());
    on_get.iter().zip(ahead).map(|(on_get, ahead)| on_get - ahead).collect()
}

pub(super) fn arm(
    results: &Results,
    name: &str,
    threads: &str,
    lines: &str,
    clock: Clock,
) -> Option<Vec<f64>> {
    let found = values_of(results, name, threads, lines)?;
    match clock {
        Clock::Wall => by_pages(found, values(found, "timed", "wall_ns")?),
        Clock::Cpu => by_pages(found, &cpu_ns(found, "timed")),
    }
}

/// CPU time per page of having zeroed ahead, and then of using it.
pub(super) fn with_scrubbing(results: &Results, lines: &str) -> Option<Vec<f64>> {
    let found = values_of(results, "ahead", "1", lines)?;
    let [scrub, timed] = ["scrub", "timed"].map(|phase| cpu_ns(found, phase));
    by_pages(found, &scrub.iter().zip(timed).map(|(scrub, timed)| scrub + timed).collect::<Vec<_>>())
}

/// CPU time per page of having zeroed it ahead.
pub(super) fn scrub_ns(results: &Results) -> Option<Vec<f64>> {
    let found = values_of(results, "ahead", "1", ONE)?;
    by_pages(found, &cpu_ns(found, "scrub"))
}

/// The kernel's share of the CPU time of a fault.
pub(super) fn system_ns(results: &Results, lines: &str) -> Option<Vec<f64>> {
    let found = values_of(results, KERNEL, "1", lines)?;
    by_pages(found, values(found, "timed", "system_ns")?)
}

/// What the next reader of a page pays that this engine zeroed.
pub(super) fn reader_ns(results: &Results, engine: &str) -> Option<Vec<f64>> {
    results.find(ZEROING, &zeroed(engine, "cold", "0")).map(|(_, found)| zeroing::reader_ns(found))
}

/// How many times as long a working set elsewhere takes that this engine zeroed beside.
pub(super) fn beside(results: &Results, engine: &str) -> Option<Vec<f64>> {
    results.find(ZEROING, &zeroed(engine, "cold", "0")).map(|(_, found)| zeroing::beside(found))
}

fn values_of<'a>(results: &'a Results, arm: &str, threads: &str, lines: &str) -> Option<&'a Quantities> {
    let parameters = [("arm", arm), ("threads", threads), ("lines", lines)];
    results.find(RATE, &parameters).map(|(_, found)| found)
}

/// Times by the pages of the timed phase.
fn by_pages(found: &Quantities, times: &[f64]) -> Option<Vec<f64>> {
    let pages = values(found, "timed", "pages")?;
    Some(times.iter().zip(pages).map(|(time, pages)| time / pages).collect())
}

pub(super) fn ratio(a: Option<Vec<f64>>, b: Option<Vec<f64>>) -> Option<Interval> {
    let (a, b) = (a.filter(|a| !a.is_empty())?, b.filter(|b| !b.is_empty())?);
    Some(measurement::ratio(&a, &b))
}

/// The threads with which the test was made, and the most lines.
fn numbers(results: &Results, parameter: &str) -> Option<usize> {
    let number = |(cell, _): (&Cell, _)| cell.number(parameter).ok();
    results.cells(RATE).filter_map(number).max()
}

pub(super) fn most_lines(results: &Results) -> Option<usize> {
    numbers(results, "lines")
}

/// Why so many threads can't tell here: the test is made with up to twice as many as there are processors.
fn too_many(results: &Results, threads: &str) -> Option<Finding> {
    let most = numbers(results, "threads")?;
    let processors = most.div_ceil(2);
    let wanted: usize = threads.parse().ok()?;
    (wanted > processors)
        .then(|| Finding::unknown(format!("takes {wanted} processors; {processors} are here")))
}

/// Within a quarter of the document's figure.
fn near(found: Option<Interval>, figure: f64, unit: &str, why: &str) -> Finding {
    Finding::bounded(found, figure * 0.75, figure * 1.25, |found| with_interval(found, 1.0, unit), why)
}

/// Faults per second of the clock against those of one thread.
pub(super) fn faster(results: &Results, priced: Priced, threads: &str, figure: f64) -> Finding {
    let one = priced(results, "1", ONE, Clock::Wall);
    let why = "there one page-table lock for a whole process bounds the rate; today there is one per page table, and faults \
               do not wait for mmap";
    too_many(results, threads).unwrap_or_else(|| {
        near(ratio(one, priced(results, threads, ONE, Clock::Wall)), figure, "times one thread", why)
    })
}

/// CPU time per fault against that of one thread.
pub(super) fn dearer(results: &Results, priced: Priced, threads: &str, figure: f64) -> Finding {
    let many = priced(results, threads, ONE, Clock::Cpu);
    let why = "waiting for the page-table lock and its cache line was CPU time there";
    too_many(results, threads).unwrap_or_else(|| {
        near(ratio(many, priced(results, "1", ONE, Clock::Cpu)), figure, "times one thread", why)
    })
}

pub(super) fn gain(results: &Results, threads: &str, clock: Clock, figure: f64, why: &str) -> Finding {
    let (with, without) = (unzeroed(results, threads, ONE, clock), fault(results, threads, ONE, clock));
    too_many(results, threads).unwrap_or_else(|| near(ratio(without, with), figure, "times", why))
}

/// An absolute rate: the same within a factor of two.
pub(super) fn per_cpu_s(ns: Option<Vec<f64>>, figure: f64) -> Finding {
    let rates = ns.map(|ns| ns.iter().map(|ns| 1e9 / ns).collect::<Vec<_>>());
    let why = "another machine, 20 years later, and pages a quarter of the size where they are 4 KiB";
    let found = rates.and_then(|rates| median_interval(&rates));
    Finding::bounded(
        found,
        figure / 2.0,
        figure * 2.0,
        |found| with_interval(found, 1e-3, "thousand flt/cpu/s"),
        why,
    )
}

/// The rate on prezeroed pages with so many lines written, against one line.
pub(super) fn lines(results: &Results, lines: Lines, figure: f64) -> Finding {
    let lines = match lines {
        Lines::Of(lines) => lines.to_owned(),
        Lines::All => most_lines(results).map(|lines| lines.to_string()).unwrap_or_default(),
    };
    let found = ratio(unzeroed(results, "1", ONE, Clock::Cpu), unzeroed(results, "1", &lines, Clock::Cpu));
    let why =
        "a line costs a few ns here and 58 there; the rest of a fault has not become cheaper by as much";
    near(found, figure, "of the rate with one line", why)
}

pub(super) fn line_ns(results: &Results) -> Finding {
    let Some(most) = most_lines(results).filter(|&most| most > 1) else {
        return Finding::unknown(NOT_MEASURED);
    };
    let [one, all] = [ONE, &most.to_string()].map(|lines| arm(results, "ahead", "1", lines, Clock::Cpu));
    let ns = one.zip(all).map(|(one, all)| {
        one.iter().zip(all).map(|(one, all)| (all - one) / (most - 1) as f64).collect::<Vec<_>>()
    });
    let found = ns.and_then(|ns| median_interval(&ns));
    Finding::bounded(
        found,
        29.0,
        116.0,
        |found| with_interval(found, 1.0, "ns"),
        "lines of 64 bytes that prefetchers bring in, one after the other",
    )
}

fn zeroed<'a>(engine: &'a str, from: &'a str, order: &'a str) -> [(&'a str, &'a str); 3] {
    [("engine", engine), ("from", from), ("order", order)]
}

pub(super) fn zeroed_ns(results: &Results, engine: &str, from: &str, order: &str) -> Option<Vec<f64>> {
    results.find(ZEROING, &zeroed(engine, from, order)).map(|(_, found)| zeroing::zero_ns(found))
}

/// Rows of the document: GB in all, Wall as printed, fault/wsec.
pub(super) type Row = (f64, f64, f64);

pub(super) const THREADS: [Row; 9] = [
    (12.0, 11.030, 69_566.852),
    (12.0, 7.097, 98_643.687),
    (12.0, 5.079, 135_642.420),
    (12.0, 4.037, 179_791.120),
    (1.0, 0.012, 517_665.538),
    (12.0, 2.093, 267_952.890),
    (12.0, 2.097, 263_967.292),
    (12.0, 2.097, 264_774.080),
    (12.0, 3.054, 221_701.073),
];
pub(super) const CACHE_LINES: [Row; 8] = [
    (1.0, 0.01, 497_925.891),
    (1.0, 0.01, 472_877.725),
    (1.0, 0.01, 471_507.415),
    (1.0, 0.01, 416_725.013),
    (1.0, 0.01, 336_983.834),
    (1.0, 0.02, 256_246.731),
    (1.0, 0.03, 168_189.283),
    (1.0, 0.06, 101_674.435),
];

/// Seconds that the document's own count of faults and their rate make.
fn wall_s((gb, _, rate): Row) -> f64 {
    const PAGES_PER_GB: f64 = 65_536.0;
    gb * PAGES_PER_GB / rate
}

/// Beside our table, whose Wall is measured, theirs recomputed.
pub(super) fn misprint(results: &Results, rows: &[Row]) -> Finding {
    if results.cells(RATE).next().is_none() {
        return Finding::unknown(NOT_MEASURED);
    }
    let is_printed_right = rows.iter().all(|row| (row.1 / wall_s(*row) - 1.0).abs() < 0.01);
    let verdict = if is_printed_right { Verdict::Reproduced } else { Verdict::Refuted };
    let seconds: Vec<_> = rows.iter().map(|row| short(wall_s(*row))).collect();
    Finding {
        verdict,
        ours: format!("{} s", seconds.join(" ")),
        why: "recomputed from its own faults and rate: hundredths are printed behind a stray 0, as in 7.097 for 7.97".into(),
    }
}
