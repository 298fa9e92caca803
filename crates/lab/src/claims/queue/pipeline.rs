//! What the cells of `chunks` say: ratios, prices, and whether price times count explains a difference.

use std::ops::RangeInclusive;

use faultless_trace::measurement::{median_interval, ratio as ratio_of};
use faultless_trace::stat::Interval;

use super::super::{Finding, NOT_MEASURED, Verdict, with_interval};
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

    /// User and system time of each sample, or what else it has.
    fn time(&self, phase: &str, quantity: &str) -> Vec<f64> {
        if quantity != "cpu_ns" {
            return self.values(phase, quantity).to_vec();
        }
        let (user, system) = (self.values(phase, "user_ns"), self.values(phase, "system_ns"));
        user.iter().zip(system).map(|(user, system)| user + system).collect()
    }

    /// Median of what a function makes of each sample.
    pub(super) fn median(&self, phase: &str, quantity: &str, made: impl Fn(f64) -> f64) -> Option<Interval> {
        let samples: Vec<f64> = self.values(phase, quantity).iter().map(|&value| made(value)).collect();
        median_interval(&samples)
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

/// Judges [`ratio`].
pub(super) fn slower(
    results: &Results,
    a: &str,
    b: &str,
    workers: Workers,
    bounds: RangeInclusive<f64>,
    why: &str,
) -> Finding {
    let found = ratio(results, a, b, workers);
    Finding::bounded(found, *bounds.start(), *bounds.end(), |found| with_interval(found, 1.0, "times"), why)
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

/// The same interval in another unit.
pub(super) fn scaled(found: &Interval, by: f64) -> Interval {
    Interval { value: found.value * by, low: found.low * by, high: found.high * by }
}

/// Round by round: time that mmap takes more than the pool, and bytes that fault more.
fn extra(results: &Results, workers: Workers, quantity: &str) -> Option<(Vec<f64>, Vec<f64>)> {
    let of = |memory| cell(results, memory, workers, Queue::Short);
    let (mmap, pool) = (of("mmap")?, of("pool")?);
    let less = |a: &[f64], b: &[f64]| -> Vec<f64> { a.iter().zip(b).map(|(a, b)| a - b).collect() };
    let time = less(&mmap.time("timed", quantity), &pool.time("timed", quantity));
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
    why: &str,
) -> Finding {
    let found = extra(results, workers, quantity).and_then(|(time, bytes)| {
        let priced = cell(results, "mmap", workers, Queue::Short)?;
        let priced_bytes = *priced.values("price", "price_bytes").first()?;
        let prices = priced.time("price", quantity).into_iter().map(|ns| ns / priced_bytes);
        let predicted: Vec<f64> = prices.zip(&bytes).map(|(price, bytes)| price * bytes).collect();
        let (value, by) = (median_interval(&time)?.value, median_interval(&predicted)?.value);
        Some((ratio_of(&time, &predicted), value, by))
    });
    let Some((found, value, by)) = found else { return Finding::unknown(NOT_MEASURED) };
    let ours = |found: &Interval| {
        format!(
            "{}: {} for {} predicted",
            with_interval(found, 1.0, "of it"),
            with_unit(value),
            with_unit(by)
        )
    };
    Finding::bounded(Some(found), *bounds.start(), *bounds.end(), ours, why)
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
    Finding { verdict: Verdict::CannotSay, why: why.into(), ..finding }
}

fn with_unit(ns: f64) -> String {
    format!("{} ms", super::super::short(ns / 1e6))
}

#[cfg(test)]
mod tests {
    use super::*;
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
        let finding = explained(&document(), Workers::All, "wall_ns", 0.75..=1.3, "");
        assert_eq!(finding.verdict, Verdict::Reproduced, "{finding:?}");
        assert!(finding.ours.contains("84.0 ms for 87.5 ms"), "{finding:?}");
        let found = ratio(&document(), "mmap", "pool", Workers::All).unwrap();
        assert!((found.value - 1.7).abs() < 0.01, "{found:?}");
    }

    #[test]
    fn threads_that_wait_for_a_processor_prove_no_lock() {
        let judged = |results: &Results| {
            let finding = explained(results, Workers::All, "wall_ns", 0.75..=1.3, "");
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
            explained(&document(), Workers::One, "wall_ns", 0.0..=1.0, "").verdict,
            Verdict::CannotSay
        );
    }
}
