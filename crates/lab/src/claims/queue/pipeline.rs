//! What the cells of `chunks` say: ratios, prices, and whether price times count explains a difference.

use std::ops::RangeInclusive;

use faultless_trace::measurement::{median_interval, ratio as ratio_of};
use faultless_trace::stat::Interval;

use super::super::{Finding, NOT_MEASURED, Why, short, with_interval};
use super::CHUNKS;
use crate::process::MACHINE;
use crate::results::{DISTURBED, Quantities, Results, values};

/// Bytes of a block.
pub(super) const BLOCK_BYTES: usize = 640 << 10;

/// How many workers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Workers {
    One,
    /// One per processor.
    All,
}

/// How long the queue may become.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Queue {
    /// The shortest of the record.
    Short,
    /// The longest: the document's has no bound.
    Long,
}

/// A cell that was found.
pub(super) struct Found<'a> {
    quantities: &'a Quantities,
    pub(super) workers: usize,
    pub(super) queue: usize,
    pub(super) chunks: usize,
}

impl<'a> Found<'a> {
    /// Samples; none where it was not measured.
    pub(super) fn values(&self, phase: &str, quantity: &str) -> &'a [f64] {
        values(self.quantities, phase, quantity).unwrap_or_default()
    }

    /// Median of what a function makes of each sample.
    pub(super) fn median(&self, phase: &str, quantity: &str, made: impl Fn(f64) -> f64) -> Option<Interval> {
        let samples: Vec<f64> = self.values(phase, quantity).iter().map(|&value| made(value)).collect();
        median_interval(&samples)
    }
}

impl Found<'_> {
    /// Faults by the pages of all blocks.
    pub(super) fn faults_per_page(&self) -> Option<Interval> {
        let pages = (self.chunks * BLOCK_BYTES / faultless_os::page::size()) as f64;
        self.median("timed", "minor_faults", |faults| faults / pages)
    }
}

/// The cell of a source of memory.
pub(super) fn cell<'a>(
    results: &'a Results,
    memory: &str,
    workers: Workers,
    queue: Queue,
) -> Option<Found<'a>> {
    let all = results.cells(CHUNKS).filter(|(cell, _)| cell.text("memory").is_ok_and(|name| name == memory));
    let found = all.filter_map(|(cell, quantities)| {
        let [workers, queue, chunks] = ["workers", "queue", "chunks"].map(|name| cell.number(name).ok());
        Some(Found { quantities, workers: workers?, queue: queue?, chunks: chunks? })
    });
    let wanted = found.filter(|found| match workers {
        Workers::One => found.workers == 1,
        Workers::All => {
            found.values("timed", "processors").first().is_some_and(|&all| all as usize == found.workers)
        }
    });
    match queue {
        Queue::Short => wanted.min_by_key(|found| found.queue),
        Queue::Long => wanted.max_by_key(|found| found.queue),
    }
}

/// How many times the wall time of `b` that of `a` is.
pub(super) fn ratio(results: &Results, a: &str, b: &str, workers: Workers) -> Option<Interval> {
    let of = |memory| cell(results, memory, workers, Queue::Short);
    let (a, b) = (of(a)?, of(b)?);
    let (a, b) = (a.values("timed", "wall_ns"), b.values("timed", "wall_ns"));
    (!a.is_empty() && !b.is_empty()).then(|| ratio_of(a, b))
}

/// That `a` takes longer than `b`, by an effect of the document's size.
pub(super) fn slower(results: &Results, a: &str, b: &str, workers: Workers, times: f64) -> Finding {
    Finding::effect(ratio(results, a, b, workers), times, because(results, a, b, workers))
}

/// That `a` takes as long as `b`.
pub(super) fn alike(results: &Results, a: &str, b: &str, workers: Workers) -> Finding {
    let why = because(results, a, b, workers);
    let times = |found: &Interval| with_interval(found, 1.0, "times");
    Finding::bounded(ratio(results, a, b, workers), 0.95, 1.05, times, why)
}

/// What makes the difference between two sources of memory: the faults they take, and what a fault costs here.
fn because(results: &Results, a: &str, b: &str, workers: Workers) -> String {
    let faults = |memory| {
        let found = cell(results, memory, workers, Queue::Short)?.faults_per_page()?;
        Some(format!("{memory} {}", short(found.value)))
    };
    let (Some(a_faults), Some(b_faults)) = (faults(a), faults(b)) else { return String::new() };
    let price = price_us_per_mib(results).map_or(String::new(), |found| {
        format!(
            "; map, touch and unmap cost {} us per page here, 0.68 there",
            short(found.value * per_fault() / 1e3)
        )
    });
    let keeps = match [a, b].contains(&"malloc") {
        true => "; glibc raises its threshold at the first free and keeps most blocks from then on",
        false => "",
    };
    format!("faults per page: {a_faults}, {b_faults}{keeps}{price}")
}

/// ns per fault for us per MiB.
pub(super) fn per_fault() -> f64 {
    1e3 * faultless_os::page::size() as f64 / 1_048_576.0
}

/// The same finding, but no verdict where there were fewer workers than a claim is about.
pub(super) fn if_many(found: &Found, workers: usize, finding: Finding) -> Finding {
    if found.workers >= workers {
        return finding;
    }
    let here = found.workers;
    finding.without_verdict(format!("takes {workers} processors, a worker on each; ours is with {here}"))
}

/// Median wall times with a worker per processor and with one, for as many chunks as the document's.
pub(super) fn times_in_ms(results: &Results, memory: &str) -> Option<String> {
    const CHUNKS: f64 = 932.0;
    let ms = |workers| {
        let found = cell(results, memory, workers, Queue::Short)?;
        let scale = CHUNKS / found.chunks as f64 / 1e6;
        found.median("timed", "wall_ns", |ns| ns * scale)
    };
    let [all, one] = [ms(Workers::All)?, ms(Workers::One)?].map(|found| with_interval(&found, 1.0, "ms"));
    Some(format!("{all}, {one}"))
}

/// Share of the bytes handed out that was asked of the system, where the queue has no bound, as in the document.
pub(super) fn requested(results: &Results, memory: &str, workers: Workers) -> Option<Interval> {
    let found = unbounded(results, memory, workers)?;
    let all = *found.values("timed", "handed_out_bytes").first()?;
    found.median("timed", "requested_bytes", |bytes| bytes / all)
}

/// The cell whose queue has room for all chunks.
pub(super) fn unbounded<'a>(results: &'a Results, memory: &str, workers: Workers) -> Option<Found<'a>> {
    cell(results, memory, workers, Queue::Long).filter(|found| found.queue >= found.chunks)
}

/// GB of unpacked data per second with the pool.
pub(super) fn speed(results: &Results, workers: Workers) -> Option<Interval> {
    let found = cell(results, "pool", workers, Queue::Short)?;
    let unpacked = (found.chunks * BLOCK_BYTES / 5 * 4) as f64;
    found.median("timed", "wall_ns", |ns| unpacked / ns)
}

/// What mapping, touching and unmapping cost on one thread, us per MiB.
pub(super) fn price_us_per_mib(results: &Results) -> Option<Interval> {
    let found = cell(results, "mmap", Workers::One, Queue::Short)?;
    let mib = *found.values("price", "price_bytes").first()? / 1_048_576.0;
    found.median("price", "wall_ns", |ns| ns / 1e3 / mib)
}

/// Round by round: time that mmap takes more than the pool, and bytes that fault more.
fn extra(results: &Results, workers: Workers, quantity: &str) -> Option<(Vec<f64>, Vec<f64>)> {
    let of = |memory| cell(results, memory, workers, Queue::Short);
    let (mmap, pool) = (of("mmap")?, of("pool")?);
    let less = |a: &[f64], b: &[f64]| -> Vec<f64> { a.iter().zip(b).map(|(a, b)| a - b).collect() };
    let time = less(mmap.values("timed", quantity), pool.values("timed", quantity));
    let faults = less(mmap.values("timed", "minor_faults"), pool.values("timed", "minor_faults"));
    let page = faultless_os::page::size() as f64;
    (!time.is_empty()).then(|| (time, faults.into_iter().map(|faults| faults * page).collect()))
}

/// Bytes per ns: what mmap faults more than the pool by the time it takes longer.
pub(super) fn extra_bytes_per_ns(results: &Results, workers: Workers) -> Option<Vec<f64>> {
    let (time, bytes) = extra(results, workers, "wall_ns")?;
    Some(bytes.iter().zip(time).map(|(bytes, ns)| bytes / ns).collect())
}

/// The time that mmap takes longer than the pool, by price times bytes.
pub(super) fn explained(
    results: &Results,
    workers: Workers,
    quantity: &str,
    bounds: RangeInclusive<f64>,
    why: Why,
) -> Finding {
    let found = extra(results, workers, quantity).and_then(|(time, bytes)| {
        let priced = cell(results, "mmap", workers, Queue::Short)?;
        let priced_bytes = *priced.values("price", "price_bytes").first()?;
        let prices = priced.values("price", quantity).iter().map(|ns| ns / priced_bytes);
        let predicted: Vec<f64> = prices.zip(&bytes).map(|(price, bytes)| price * bytes).collect();
        let (value, by) = (median_interval(&time)?.value, median_interval(&predicted)?.value);
        Some((ratio_of(&time, &predicted), value, by))
    });
    let Some((found, value, by)) = found else { return Finding::unknown(NOT_MEASURED) };
    let of_it = |found: &Interval| with_interval(found, 1.0, "of it");
    let finding = Finding::bounded(Some(found), *bounds.start(), *bounds.end(), of_it, why);
    let ours = format!("{}: {} for {} predicted", finding.ours, with_unit(value), with_unit(by));
    Finding { ours, ..finding }
}

/// The same finding, but no verdict where other programs had a part of the processors: threads that wait for a processor look
/// as if they waited for each other.
pub(super) fn if_undisturbed(results: &Results, finding: Finding) -> Finding {
    let is_quiet = ["mmap", "pool"].iter().all(|memory| {
        cell(results, memory, Workers::All, Queue::Short).is_some_and(|found| {
            let share =
                |quantity| median_interval(found.values(MACHINE, quantity)).map_or(0.0, |found| found.value);
            share("others_share") + share("steal_share") <= DISTURBED
        })
    });
    if is_quiet {
        return finding;
    }
    let why =
        "other programs had a part of the processors, and waiting for one looks like waiting for each other";
    finding.without_verdict(why)
}

fn with_unit(ns: f64) -> String {
    format!("{} ms", short(ns / 1e6))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::claims::Verdict;
    use crate::record::Row;

    fn rows(memory: &str, wall_ms: f64, faults: f64, price_us_per_mib: f64) -> Vec<Row> {
        let row = |phase: &str, quantity: &str, value: f64| Row {
            experiment: CHUNKS.into(),
            cell: format!("memory={memory} workers=8 queue=8 chunks=932"),
            round: 1,
            phase: phase.into(),
            quantity: quantity.into(),
            value,
        };
        let rounds = |round, offset: f64| {
            let mut found = vec![
                row("timed", "processors", 8.0),
                row("timed", "wall_ns", (wall_ms + offset) * 1e6),
                row("timed", "minor_faults", faults),
                row("price", "price_bytes", 1_048_576.0),
                row("price", "wall_ns", price_us_per_mib * 1e3),
            ];
            found.iter_mut().for_each(|row| row.round = round);
            found
        };
        (1..=8).flat_map(|round| rounds(round, f64::from(round) / 10.0)).collect()
    }

    /// 600 MB against 100 MB, as the document has it.
    fn document_rows() -> Vec<Row> {
        let page = faultless_os::page::size() as f64;
        let faults = |mib: f64| mib * 1_048_576.0 / page;
        [rows("mmap", 204.0, faults(600.0), 175.0), rows("pool", 120.0, faults(100.0), 175.0)].concat()
    }

    fn document() -> Results {
        Results::of(document_rows()).unwrap()
    }

    #[test]
    fn the_documents_own_figures_reproduce_its_argument() {
        let finding = explained(&document(), Workers::All, "wall_ns", 0.75..=1.3, "".into());
        assert_eq!(finding.verdict, Verdict::Reproduced, "{finding:?}");
        assert!(finding.ours.contains("84.0 ms for 87.5 ms"), "{finding:?}");
        let found = ratio(&document(), "mmap", "pool", Workers::All).unwrap();
        assert!((found.value - 1.7).abs() < 0.01, "{found:?}");
    }

    #[test]
    fn a_pool_that_saves_more_than_there_holds_and_one_that_saves_nothing_does_not() {
        let judged = |mmap_ms| {
            let rows = [rows("mmap", mmap_ms, 149_120.0, 175.0), rows("pool", 120.0, 7456.0, 175.0)].concat();
            slower(&Results::of(rows).unwrap(), "mmap", "pool", Workers::All, 1.7)
        };
        assert_eq!(
            [204.0, 500.0, 125.0].map(|ms| judged(ms).verdict),
            [Verdict::Reproduced, Verdict::Reproduced, Verdict::Refuted]
        );
        assert!(
            judged(204.0).why.starts_with("faults per page: mmap 1.00, pool 0.05"),
            "{}",
            judged(204.0).why
        );
    }

    #[test]
    fn two_workers_can_not_tell_about_eight() {
        let results = document();
        let found = cell(&results, "mmap", Workers::All, Queue::Short).unwrap();
        let finding = Finding { verdict: Verdict::Refuted, ours: "1".into(), why: String::new() };
        assert_eq!(if_many(&found, 8, finding.clone()).verdict, Verdict::Refuted);
        let few = if_many(&found, 9, finding);
        assert_eq!((few.verdict, few.ours.as_str()), (Verdict::CannotSay, "1"));
        assert!(few.why.contains("ours is with 8"), "{}", few.why);
    }

    #[test]
    fn threads_that_wait_for_a_processor_prove_no_lock() {
        let judged = |results: &Results| {
            let finding = explained(results, Workers::All, "wall_ns", 0.75..=1.3, "".into());
            if_undisturbed(results, finding).verdict
        };
        assert_eq!(judged(&document()), Verdict::Reproduced);
        let mut rows = document_rows();
        let busy: Vec<Row> = rows
            .iter()
            .filter(|row| row.quantity == "processors")
            .map(|row| Row {
                phase: MACHINE.into(),
                quantity: "others_share".into(),
                value: 0.6,
                ..row.clone()
            })
            .collect();
        rows.extend(busy);
        assert_eq!(judged(&Results::of(rows).unwrap()), Verdict::CannotSay);
    }

    #[test]
    fn cells_that_are_missing_say_nothing() {
        assert!(cell(&document(), "mmap", Workers::One, Queue::Long).is_none());
        assert_eq!(
            explained(&document(), Workers::One, "wall_ns", 0.0..=1.0, "".into()).verdict,
            Verdict::CannotSay
        );
    }
}
