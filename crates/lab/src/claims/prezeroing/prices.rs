//! Prices taken from the results of the page-fault test and of zeroing, and the ways in which they are compared.
//!
//! In: results. Out: ns per page by round, ratios of them, findings.

use faultless_trace::measurement::{self, median_interval};
use faultless_trace::stat::Interval;

use crate::claims::{Finding, LONGER, NOT_MEASURED, Why, short, with_interval};
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
fn near(found: Option<Interval>, figure: f64, unit: &str, why: impl Into<Why>) -> Finding {
    Finding::bounded(found, figure * 0.75, figure * 1.25, |found| with_interval(found, 1.0, unit), why)
}

/// Faults per second of the clock against those of one thread.
pub(super) fn faster(results: &Results, priced: Priced, threads: &str, figure: f64) -> Finding {
    let one = priced(results, "1", ONE, Clock::Wall);
    let why = Why::differs(
        "here threads gain less: they wait for each other, or one has used up what the memory gives",
        "there one page-table lock for a whole process bounds the rate; today there is one per page table",
    );
    too_many(results, threads).unwrap_or_else(|| {
        near(ratio(one, priced(results, threads, ONE, Clock::Wall)), figure, "times one thread", why)
    })
}

/// CPU time per fault against that of one thread.
pub(super) fn dearer(results: &Results, priced: Priced, threads: &str, figure: f64) -> Finding {
    let many = priced(results, threads, ONE, Clock::Cpu);
    let why = Why::differs(
        "there waiting for the page-table lock and its cache line was CPU time; here threads hardly wait",
        "here threads wait longer for each other than there, and that is CPU time",
    );
    too_many(results, threads).unwrap_or_else(|| {
        near(ratio(many, priced(results, "1", ONE, Clock::Cpu)), figure, "times one thread", why)
    })
}

pub(super) fn gain(results: &Results, threads: &str, clock: Clock, figure: f64, why: &str) -> Finding {
    let (with, without) = (unzeroed(results, threads, ONE, clock), fault(results, threads, ONE, clock));
    too_many(results, threads).unwrap_or_else(|| near(ratio(without, with), figure, "times", why))
}

/// Faults per second of CPU time, beside those of another machine.
pub(super) fn per_cpu_s(ns: Option<Vec<f64>>) -> Finding {
    let rates = ns.map(|ns| ns.iter().map(|ns| 1e9 / ns).collect::<Vec<_>>());
    let found = rates.and_then(|rates| median_interval(&rates));
    let ours = found.map(|found| with_interval(&found, 1e-3, "thousand flt/cpu/s"));
    Finding::not_comparable(ours, "an Itanium of 2004, with pages of 16 KiB")
}

/// The rate on prezeroed pages with so many lines written, against one line.
pub(super) fn lines(results: &Results, lines: Lines, figure: f64) -> Finding {
    let lines = match lines {
        Lines::Of(lines) => lines.to_owned(),
        Lines::All => most_lines(results).map(|lines| lines.to_string()).unwrap_or_default(),
    };
    let Some(many) = unzeroed(results, "1", &lines, Clock::Cpu) else {
        let is_measured = most_lines(results).is_some();
        return Finding::unknown(if is_measured { LONGER } else { NOT_MEASURED });
    };
    let line = line_price(results).map_or("-".into(), |found| short(found.value));
    let why = format!(
        "a line costs {line} ns here and 58 there; what else a fault takes has not changed by as much"
    );
    let [low, high] = lost_in_part(figure);
    let of_one = |found: &Interval| with_interval(found, 1.0, "of the rate with one line");
    Finding::bounded(ratio(unzeroed(results, "1", ONE, Clock::Cpu), Some(many)), low, high, of_one, why)
}

/// What counts as a loss to a share: from half to one and a half of it, as factors go, give or take 5 %.
fn lost_in_part(share: f64) -> [f64; 2] {
    [share.powf(1.5) - 0.05, share.sqrt() + 0.05]
}

/// What zeroing ahead saves with all lines of a page written, by what it saves with one.
pub(super) fn saved_when_full(results: &Results, most: usize) -> Option<Interval> {
    let saved = |lines: &str| zeroing_ns(results, "1", lines, Clock::Cpu);
    let (full, one) = (saved(&most.to_string()), saved(ONE));
    // Not by `ratio`: that nothing or less is saved is an answer.
    let shares: Vec<f64> =
        full.iter().zip(one).filter(|(_, one)| *one > 0.0).map(|(full, one)| full / one).collect();
    median_interval(&shares)
}

pub(super) fn line_ns(results: &Results) -> Finding {
    let ours = line_price(results).map(|found| with_interval(&found, 1.0, "ns"));
    Finding::not_comparable(ours, "lines of 128 bytes in 2004; ours have 64, and prefetchers bring them in")
}

/// What the first write to one more line of a page costs, ns.
fn line_price(results: &Results) -> Option<Interval> {
    let most = most_lines(results).filter(|&most| most > 1)?;
    let price = |lines: &str| arm(results, "ahead", "1", lines, Clock::Cpu);
    let (one, all) = (price(ONE)?, price(&most.to_string())?);
    median_interval(
        &one.iter().zip(all).map(|(one, all)| (all - one) / (most - 1) as f64).collect::<Vec<_>>(),
    )
}

/// What zeroing takes and what a fault takes here.
pub(super) fn zeroing_and_fault(results: &Results) -> String {
    let ns = |found: Option<Vec<f64>>| {
        found.and_then(|ns| measurement::median(&ns)).map_or("-".into(), |ns| format!("{} ns", short(ns)))
    };
    let zeroing = ns(Some(zeroing_ns(results, "1", ONE, Clock::Cpu)));
    let fault = ns(fault(results, "1", ONE, Clock::Cpu));
    format!("a pool zeroes a page in {zeroing}, a fault takes {fault}; there 10,641 and 14,371 for 16 KiB")
}

fn zeroed<'a>(engine: &'a str, from: &'a str, order: &'a str) -> [(&'a str, &'a str); 3] {
    [("engine", engine), ("from", from), ("order", order)]
}

pub(super) fn zeroed_ns(results: &Results, engine: &str, from: &str, order: &str) -> Option<Vec<f64>> {
    results.find(ZEROING, &zeroed(engine, from, order)).map(|(_, found)| zeroing::zero_ns(found))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_loss_is_neither_none_nor_twice_as_much() {
        for share in [0.848, 0.694, 0.515, 0.339, 0.204] {
            let [low, high] = lost_in_part(share);
            assert!(
                (low..high).contains(&share) && high < 1.0 && low > share * share - 0.05,
                "{share}: {low} {high}"
            );
        }
        // What loses hardly anything there may lose nothing here.
        assert!(lost_in_part(0.985)[1] > 1.0);
    }
}
