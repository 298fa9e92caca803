//! Figures that the claims of this document are judged by: ratios of phases, of numbers of threads, of bandwidths.
//!
//! In: results. Out: intervals, nothing where a cell was not measured.

use std::ops::RangeInclusive;

use faultless_os::page;
use faultless_trace::measurement::{self, median_interval};
use faultless_trace::stat::Interval;

use crate::claims::{Finding, NOT_MEASURED, Why, with_interval};
use crate::experiment::Cell;
use crate::results::{Quantities, Results, values, wall_ns};

/// Names and values of parameters.
pub(super) type Parameters<'a> = &'a [(&'a str, &'a str)];
type Found<'a> = (&'a Cell, &'a Quantities);

/// The document's touches too were faster with up to 4 threads than with one: machines with no more processors can't tell.
pub(super) fn beyond_the_valley(results: &Results, finding: Finding) -> Finding {
    match processors(results, "touch") {
        Some(count) if count <= VALLEY => finding.without_verdict(format!(
            "there too around 4 threads were faster than one, and more were slower; here are {count} processors"
        )),
        _ => finding,
    }
}

/// Processors with which the document's touches were still faster than with one.
const VALLEY: f64 = 4.0;

/// Cells of `copy` that copy.
pub(super) const COPIED: Parameters = &[("kind", "copy")];
/// Cells of `touch` that write new memory with nothing before or beside.
pub(super) const WRITTEN: Parameters = &[("access", "write"), ("lock", "no"), ("mappers", "0")];
/// The same, by one thread.
pub(super) const ALONE: Parameters =
    &[("access", "write"), ("lock", "no"), ("mappers", "0"), ("threads", "1")];

/// The cell of the largest size that has these parameters.
pub(super) fn largest<'a>(
    results: &'a Results,
    experiment: &'a str,
    wanted: Parameters,
) -> Option<Found<'a>> {
    let has =
        |cell: &Cell| wanted.iter().all(|(name, value)| cell.text(name).is_ok_and(|found| found == *value));
    let cells = results.cells(experiment).filter(|(cell, _)| has(cell));
    cells.max_by_key(|(cell, _)| cell.number("mib").unwrap_or(0))
}

/// The same with a number of threads, and of the size of `like`.
fn threads<'a>(results: &'a Results, wanted: Parameters, count: usize, like: &'a Cell) -> Option<Found<'a>> {
    let (count, mib) = (count.to_string(), like.text("mib").ok()?);
    let wanted = [wanted, &[("threads", count.as_str()), ("mib", mib)]].concat();
    largest(results, &like.experiment, &wanted)
}

/// The samples of a quantity; none where there are none. Wall time is that of the phase's own threads.
pub(super) fn samples<'a>(found: Found<'a>, phase: &str, quantity: &str) -> &'a [f64] {
    match quantity {
        "wall_ns" => wall_ns(found.1, phase),
        _ => values(found.1, phase, quantity).unwrap_or_default(),
    }
}

/// `a / b`, paired by round; nothing where no round has both.
pub(super) fn over(a: &[f64], b: &[f64]) -> Option<Interval> {
    let has_both = a.iter().zip(b).any(|(a, b)| *a > 0.0 && *b > 0.0);
    has_both.then(|| measurement::ratio(a, b))
}

/// A verdict on a ratio.
pub(super) fn times(found: Option<Interval>, low: f64, high: f64, why: impl Into<Why>) -> Finding {
    Finding::bounded(found, low, high, |found| with_interval(found, 1.0, "times"), why)
}

/// Our best copy, beside that of another processor.
pub(super) fn best_copy(results: &Results) -> Finding {
    let ours = peak(results, "copy", "warm").map(|found| with_interval(&found, 1.0, "GB/s"));
    Finding::not_comparable(ours, "another processor and other memory")
}

/// Faults per page of the second touch.
pub(super) fn second_faults(results: &Results) -> Option<Interval> {
    let found = largest(results, "touch", ALONE)?;
    let faults = samples(found, "second", "minor_faults").iter().map(|faults| faults / pages(found.0));
    median_interval(&faults.collect::<Vec<_>>())
}

/// Base pages per fault of new memory where the kernel was asked for pages of 64 KiB.
pub(super) fn pages_of_64k(results: &Results) -> Finding {
    let of_pages = |found: &Interval| with_interval(found, 1.0, "pages per fault");
    let found = largest(results, "price", &[("kind", "touch"), ("page", "64k")]).and_then(|found| {
        let faults = samples(found, "timed", "minor_faults").iter().map(|faults| bytes(found.0) / faults);
        median_interval(&faults.collect::<Vec<_>>()).map(in_pages)
    });
    if found.is_some() {
        return Finding::bounded(
            found,
            14.0,
            16.1,
            of_pages,
            "mTHP of 64 KiB, which Linux has off by default",
        );
    }
    let around = &[("how", "fault"), ("cache", "warm"), ("threads", "1")];
    let files = bytes_per_fault(results, "filemap", around).map(in_pages).map(|found| of_pages(&found));
    let Some(files) = files else { return Finding::unknown(NOT_MEASURED) };
    let why = "new memory comes so on Linux as mTHP (6.8), which is off here: \
               echo madvise > /sys/kernel/mm/transparent_hugepage/hugepages-64kB/enabled; ours is of files, fault-around";
    Finding { ours: format!("{files} of a file"), ..Finding::unknown(why) }
}

/// CPU time of a phase of `touch` by one thread: what others do to the processors meanwhile is not in it.
pub(super) fn us_per_page(results: &Results, phase: &str) -> Option<Interval> {
    let found = largest(results, "touch", ALONE)?;
    let per_page = |ns: &f64| ns / 1e3 / pages(found.0);
    median_interval(&samples(found, phase, "own_cpu_ns").iter().map(per_page).collect::<Vec<_>>())
}

fn pages(cell: &Cell) -> f64 {
    bytes(cell) / page::size() as f64
}

fn bytes(cell: &Cell) -> f64 {
    cell.number("mib").map_or(0, |mib| mib << 20) as f64
}

/// A time of one phase of a cell of `touch` over that of another.
pub(super) fn phases(
    results: &Results,
    wanted: Parameters,
    time: &str,
    a: &str,
    b: &str,
) -> Option<Interval> {
    let found = largest(results, "touch", wanted)?;
    over(samples(found, a, time), samples(found, b, time))
}

/// One quantity of a phase over another.
pub(super) fn quotient(
    results: &Results,
    experiment: &str,
    wanted: Parameters,
    phase: &str,
    a: &str,
    b: &str,
) -> Option<Interval> {
    let found = largest(results, experiment, wanted)?;
    let (a, b) = (samples(found, phase, a), samples(found, phase, b));
    // Not by `ratio`, which takes 0 for not measured.
    median_interval(&a.iter().zip(b).map(|(a, b)| a / b).collect::<Vec<_>>())
}

/// The resident share of what is mapped.
pub(super) fn resident(results: &Results, phase: &str, low: f64, high: f64) -> Finding {
    let found = quotient(results, "touch", ALONE, phase, "resident_bytes", "mapped_bytes");
    Finding::bounded(found, low, high, |found| with_interval(found, 100.0, "% resident"), "mincore's answer")
}

/// Bytes that a fault of the first reading or touching made resident.
pub(super) fn bytes_per_fault(results: &Results, experiment: &str, wanted: Parameters) -> Option<Interval> {
    let found = largest(results, experiment, wanted)?;
    let faults = samples(found, "first", "minor_faults").iter().map(|faults| bytes(found.0) / faults);
    median_interval(&faults.collect::<Vec<_>>())
}

/// Bytes as pages of the documents' machines, 4 KiB.
pub(super) fn in_pages(found: Interval) -> Interval {
    const PAGE_BYTES: f64 = (4 << 10) as f64;
    let [value, low, high] = [found.value, found.low, found.high].map(|bytes| bytes / PAGE_BYTES);
    Interval { value, low, high }
}

pub(super) fn inverse(found: Interval) -> Interval {
    Interval { value: 1.0 / found.value, low: 1.0 / found.high, high: 1.0 / found.low }
}

/// Processors of the machine that was measured.
pub(super) fn processors(results: &Results, experiment: &str) -> Option<f64> {
    let mut noted = results.cells(experiment).flat_map(|found| {
        found.1.iter().filter(|((_, quantity), _)| quantity == "processors").flat_map(|(_, values)| values)
    });
    noted.next().copied()
}

/// Wall time of one thread over that of as many as there are processors; nothing with one processor.
pub(super) fn speedup(
    results: &Results,
    experiment: &str,
    wanted: Parameters,
    phase: &str,
) -> Option<Interval> {
    let (one, all) = one_and_all(results, experiment, wanted)?;
    over(samples(one, phase, "wall_ns"), samples(all, phase, "wall_ns"))
}

fn one_and_all<'a>(
    results: &'a Results,
    experiment: &'a str,
    wanted: Parameters,
) -> Option<(Found<'a>, Found<'a>)> {
    let count = processors(results, experiment).filter(|count| *count > 1.0)? as usize;
    let one = largest(results, experiment, &[wanted, &[("threads", "1")]].concat())?;
    Some((one, threads(results, wanted, count, one.0)?))
}

/// The speedup of the first touch by number of processors: 1 where nothing is lost.
pub(super) fn per_processor(results: &Results) -> Option<Interval> {
    let count = processors(results, "touch")?;
    let found = speedup(results, "touch", WRITTEN, "first")?;
    Some(Interval { value: found.value / count, low: found.low / count, high: found.high / count })
}

/// CPU time of the first touch by twice as many threads as processors over that of one.
pub(super) fn overhead(results: &Results) -> Option<Interval> {
    let one = largest(results, "touch", ALONE)?;
    let many = threads(results, WRITTEN, 2 * processors(results, "touch")? as usize, one.0)?;
    over(samples(many, "first", "own_cpu_ns"), samples(one, "first", "own_cpu_ns"))
}

/// First touch by all processors over mlock by one thread, of the same size.
pub(super) fn unlocked(results: &Results) -> Option<Interval> {
    let count = processors(results, "touch").filter(|count| *count > 1.0)? as usize;
    let locked = largest(results, "touch", &[("lock", "yes"), ("threads", &count.to_string())])?;
    let touched = threads(results, WRITTEN, count, locked.0)?;
    over(samples(touched, "first", "wall_ns"), samples(locked, "lock", "wall_ns"))
}

/// A cold file over a warm one, both read through a mapping by one thread.
pub(super) fn cold_file(results: &Results) -> Option<Interval> {
    let of = |cache| largest(results, "filemap", &[("how", "fault"), ("cache", cache), ("threads", "1")]);
    over(samples(of("cold")?, "first", "wall_ns"), samples(of("warm")?, "first", "wall_ns"))
}

/// The best of `copy` over all numbers of threads, by round, GB/s: only of the largest size.
fn best(results: &Results, kind: &str, phase: &str) -> Option<Vec<f64>> {
    let (cell, _) = largest(results, "copy", &[("kind", kind)])?;
    let mib = cell.text("mib").ok()?;
    let cells = results
        .cells("copy")
        .filter(|(cell, _)| cell.text("kind") == Ok(kind) && cell.text("mib") == Ok(mib));
    let rounds: Vec<Vec<f64>> = cells
        .map(|found| samples(found, phase, "wall_ns").iter().map(|ns| bytes(found.0) / ns).collect())
        .collect();
    let least = rounds.iter().map(Vec::len).min()?;
    Some((0..least).map(|round| rounds.iter().map(|cell| cell[round]).fold(0.0, f64::max)).collect())
}

/// The best of all numbers of threads, GB/s.
pub(super) fn peak(results: &Results, kind: &str, phase: &str) -> Option<Interval> {
    median_interval(&best(results, kind, phase)?)
}

/// The best warm copy, counted `count` times, of the best that is read or written.
pub(super) fn of_limit(results: &Results, count: f64) -> Option<Interval> {
    let copied: Vec<f64> = best(results, "copy", "warm")?.iter().map(|rate| rate * count).collect();
    let (read, written) = (best(results, "read", "timed")?, best(results, "write", "timed")?);
    let limit: Vec<f64> = read.iter().zip(&written).map(|(read, written)| read.max(*written)).collect();
    over(&copied, &limit)
}

/// The best cold copy over the best warm one.
pub(super) fn cold_peak(results: &Results) -> Option<Interval> {
    over(&best(results, "copy", "cold")?, &best(results, "copy", "warm")?)
}

/// The gain by threads of the cold copy over that of the warm one.
pub(super) fn gain(results: &Results) -> Option<Interval> {
    let (one, all) = one_and_all(results, "copy", COPIED)?;
    let gains = |phase| quotients(samples(one, phase, "wall_ns"), samples(all, phase, "wall_ns"));
    over(&gains("cold"), &gains("warm"))
}

/// `a / b` of each round.
pub(super) fn quotients(a: &[f64], b: &[f64]) -> Vec<f64> {
    a.iter().zip(b).map(|(a, b)| a / b).collect()
}

/// The number of threads that is fastest, of those that were measured at the largest size.
pub(super) fn fastest(results: &Results, experiment: &str, wanted: Parameters, phase: &str) -> Option<usize> {
    let (one, count) = largest(results, experiment, wanted).zip(processors(results, experiment))?;
    let median = |threads_count: usize| {
        let found = threads(results, wanted, threads_count, one.0)?;
        measurement::median(samples(found, phase, "wall_ns"))
    };
    let measured =
        (1..=2 * count as usize).filter_map(|threads_count| Some((median(threads_count)?, threads_count)));
    measured.min_by(|a, b| a.0.total_cmp(&b.0)).map(|(_, fastest)| fastest)
}

/// Whether the number of threads that is fastest lies in a range; only machines that have more processors can tell.
pub(super) fn best_threads(
    results: &Results,
    experiment: &str,
    wanted: Parameters,
    phase: &str,
    range: RangeInclusive<usize>,
) -> Finding {
    let Some(count) = processors(results, experiment) else {
        return Finding::unknown(NOT_MEASURED);
    };
    if count < *range.end() as f64 {
        let needed = range.end();
        return Finding::unknown(format!("it takes {needed} processors to tell, and here are {count}"));
    }
    let Some(fastest) = fastest(results, experiment, wanted, phase) else {
        return Finding::unknown(NOT_MEASURED);
    };
    let found = fastest as f64;
    let found = Interval { value: found, low: found, high: found };
    let (low, high) = (*range.start() as f64, *range.end() as f64);
    let why = "the fastest of the numbers of threads that were measured";
    Finding::bounded(Some(found), low, high, |found| with_interval(found, 1.0, "threads"), why)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::Row;

    fn row(experiment: &str, cell: &str, phase: &str, quantity: &str, value: f64) -> Row {
        let (experiment, cell) = (experiment.into(), cell.into());
        Row { experiment, cell, round: 1, phase: phase.into(), quantity: quantity.into(), value }
    }

    #[test]
    fn the_largest_size_is_the_one_that_is_judged() {
        let cell = |mib| format!("access=write mib={mib} threads=1 lock=no mappers=0 flush=no");
        let rows = [64, 512].map(|mib| row("touch", &cell(mib), "first", "own_cpu_ns", f64::from(mib) * 1e6));
        let results = Results::of(rows.to_vec()).unwrap();
        assert_eq!(largest(&results, "touch", ALONE).unwrap().0.number("mib"), Ok(512));
        let pages = (512 << 20) / page::size();
        assert_eq!(us_per_page(&results, "first").unwrap().value, 512_000.0 / pages as f64);
    }

    #[test]
    fn the_best_of_all_numbers_of_threads_is_taken_round_by_round() {
        let cell = |threads| format!("kind=copy mib=1 threads={threads}");
        let mut rows = vec![row("copy", &cell(1), "warm", "wall_ns", 1000.0)];
        rows.push(row("copy", &cell(2), "warm", "wall_ns", 500.0));
        rows.push(row("copy", &cell(2), "cold", "wall_ns", 2000.0));
        rows.push(row("copy", &cell(1), "cold", "wall_ns", 1000.0));
        let results = Results::of(rows).unwrap();
        assert_eq!(peak(&results, "copy", "warm").unwrap().value, f64::from(1 << 20) / 500.0);
        assert_eq!(cold_peak(&results).unwrap().value, 0.5);
    }

    #[test]
    fn new_memory_that_comes_a_page_at_a_time_is_not_64_kib() {
        let rows = |faults: f64| {
            vec![row("price", "kind=touch page=64k mib=16", "timed", "minor_faults", faults); 3]
        };
        let verdict = |faults| pages_of_64k(&Results::of(rows(faults)).unwrap()).verdict;
        assert_eq!(verdict(256.0), crate::claims::Verdict::Reproduced);
        assert_eq!(verdict(4096.0), crate::claims::Verdict::Refuted);
        let file =
            vec![row("filemap", "how=fault cache=warm mib=16 threads=1", "first", "minor_faults", 256.0)];
        let finding = pages_of_64k(&Results::of(file).unwrap());
        assert_eq!(finding.verdict, crate::claims::Verdict::CannotSay);
        assert!(finding.ours.contains("of a file"), "{finding:?}");
    }

    #[test]
    fn with_four_processors_the_document_was_faster_too() {
        let judged = |count| {
            let results = Results::of(vec![row("touch", "mib=1", "look", "processors", count)]).unwrap();
            let one = Interval { value: 0.7, low: 0.7, high: 0.7 };
            beyond_the_valley(&results, times(Some(one), 1.0, f64::MAX, "")).verdict
        };
        assert_eq!(
            [4.0, 8.0].map(judged),
            [crate::claims::Verdict::CannotSay, crate::claims::Verdict::Refuted]
        );
    }

    #[test]
    fn few_processors_can_not_tell_about_many_threads() {
        let cell = |threads| format!("kind=copy mib=1 threads={threads}");
        let rows = |count| {
            let mut rows = vec![row("copy", &cell(1), "setup", "processors", count)];
            let walls = [(1, 100.0), (4, 30.0), (10, 20.0), (16, 25.0)];
            rows.extend(walls.map(|(threads, ns)| row("copy", &cell(threads), "warm", "wall_ns", ns)));
            Results::of(rows).unwrap()
        };
        let judged = |count| best_threads(&rows(count), "copy", COPIED, "warm", 8..=12);
        assert!(judged(2.0).why.contains("it takes 12 processors"));
        assert_eq!(judged(16.0).verdict, crate::claims::Verdict::Reproduced);
        assert_eq!(judged(16.0).ours, "10.0 threads");
        assert_eq!(fastest(&rows(16.0), "copy", COPIED, "warm"), Some(10));
    }
}
