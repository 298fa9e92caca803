//! Bursts and the samples around them -> the excess time that a timed sample shows.
//!
//! The entry of a fault is written between its two time stamps. A recorder that runs for one fault in
//! hundreds finds its code and its ring out of the cache. It then takes longer than within a burst, or in the
//! calibration. One that runs for every 37th fault does not, so each sampling period has its own excess. Each
//! burst is compared with the samples nearest in time, because prices drift. The median over the bursts is the
//! excess. What is usual for a short or a long period counts as one more measurement, because a machine that
//! changes its speed disturbs single comparisons. A period without a burst has the excess of the period before
//! it, and the step of the readings where the period changed.
//!
//! A fault that only maps an existing page writes no page, so it leaves the recorder in the cache. Until bursts of
//! such faults are seen, its excess is 0, and the error of that is the usual excess.

use std::collections::{BTreeMap, HashMap};

use super::weigh::Weights;
use crate::fault::{Fault, Faults};
use crate::kind::{ALL, Kind};
use crate::measurement::{median, student_t, weighted_median};
use crate::tuning::{
    COLD_EARLY_EXCESS, COLD_EARLY_PERIOD_MAX, COLD_LATER_EXCESS, COLD_NEAR_SAMPLES, COLD_NEAR_SAMPLES_MAX,
    COLD_PRICE_MAX_NS, COLD_SPREAD, ONE_BURST_SHARE, PRICE_PRIOR_BURSTS, PRICED_FAULTS,
};

/// A time and a reading, both ns.
type Reading = (u64, f64);

/// The excess of a sample, and its error at 95 %, ns.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Excess {
    pub(super) ns: f64,
    pub(super) spread_ns: f64,
}

/// The excess of timed samples by sampling period.
#[derive(Default)]
pub(super) struct Excesses {
    by_kind: HashMap<(u64, Kind), Excess>,
    /// Of the kinds that only map a page, and of the others.
    by_group: HashMap<(u64, bool), Excess>,
    by_period: HashMap<u64, Excess>,
}

impl Excesses {
    pub(super) fn new(found: &Faults, weights: &Weights) -> Self {
        let bursts = ALL.map(|kind| bursts(found, weights, kind));
        let mut excesses = Self::default();
        let mut before: Option<(Vec<Reading>, Excess)> = None;
        for (period, samples) in by_period(found, weights) {
            let mut groups = [Vec::new(), Vec::new()];
            for kind in ALL {
                let own = readings(&samples, |fault| class(fault) == kind);
                let measured: Vec<_> =
                    bursts[kind as usize].iter().filter_map(|burst| burst.beside(&own)).collect();
                if let Some(excess) = Excess::of(&measured, period) {
                    excesses.by_kind.insert((period, kind), excess);
                }
                groups[usize::from(only_maps(kind))].extend(measured);
            }
            for (only_maps, group) in [false, true].into_iter().zip(&groups) {
                excesses
                    .by_group
                    .extend(Excess::of(group, period).map(|excess| ((period, only_maps), excess)));
            }
            let all = groups.concat();
            let samples = readings(&samples, |fault| fault.kind != Kind::Major);
            let usual = Excess::of(&all, period)
                .or_else(|| Excess::early(&samples, period))
                .unwrap_or_else(|| Excess::after(before.as_ref(), &samples));
            excesses.by_period.insert(period, usual);
            before = Some((samples, usual));
        }
        excesses
    }

    /// The excess of a sample. A kind without a burst has that of similar kinds, and without those of all kinds.
    pub(super) fn of(&self, period: u64, fault: &Fault) -> Excess {
        let kind = class(fault);
        let by_kind = self.by_kind.get(&(period, kind));
        let measured = by_kind.or_else(|| self.by_group.get(&(period, only_maps(kind))));
        let usual = || self.by_period.get(&period).copied().unwrap_or_default();
        match measured {
            Some(excess) => *excess,
            None if only_maps(kind) => Excess { ns: 0.0, spread_ns: usual().ns.hypot(usual().spread_ns) },
            None => usual(),
        }
    }
}

/// Its kind; all of kernel mode are one.
fn class(fault: &Fault) -> Kind {
    if fault.kernel { Kind::KernelMode } else { fault.kind }
}

/// Whether a fault of this kind maps an existing page instead of filling a new one.
fn only_maps(kind: Kind) -> bool {
    matches!(kind, Kind::ZeroPageRead | Kind::FileRead | Kind::Shared)
}

/// Mean and standard deviation of a period's excess, as shares of the price.
fn usual_excess(period: u64) -> [f64; 2] {
    if period <= COLD_EARLY_PERIOD_MAX { COLD_EARLY_EXCESS } else { COLD_LATER_EXCESS }
}

impl Excess {
    /// The median over bursts. Its error is that of a mean, with a usual spread for few bursts. What is usual
    /// for the period counts as one more measurement.
    fn of(bursts: &[Beside], period: u64) -> Option<Self> {
        let ns = weighted_median(bursts.iter().map(|burst| (burst.excess_ns, burst.weight)).collect())?;
        let n = bursts.len() as f64;
        let apart: Vec<f64> = bursts.iter().map(|burst| (burst.excess_ns - ns).abs()).collect();
        // The standard deviation of a normal distribution with this median deviation: a burst beside a change of the
        // price is an outlier.
        let squares = n * (1.483 * median(&apart)?).powi(2);
        let usual: f64 = bursts
            .iter()
            .map(|burst| (COLD_SPREAD * burst.price_ns.min(COLD_PRICE_MAX_NS)).powi(2))
            .sum::<f64>()
            / n;
        let free = PRICE_PRIOR_BURSTS + n - 1.0;
        let variance = (PRICE_PRIOR_BURSTS * usual + squares) / free / n;
        let price_ns = (bursts.iter().map(|burst| burst.price_ns).sum::<f64>() / n).min(COLD_PRICE_MAX_NS);
        let [usual_ns, deviation_ns] = usual_excess(period).map(|share| share * price_ns);
        let trust = deviation_ns.powi(2) / (deviation_ns.powi(2) + variance);
        let spread_ns = student_t(free as usize) * (trust * variance).sqrt();
        Some(Self { ns: (trust * ns + (1.0 - trust) * usual_ns).max(0.0), spread_ns })
    }

    /// The excess of an early period without a burst.
    fn early(samples: &[Reading], period: u64) -> Option<Self> {
        let price_ns = middle(samples).unwrap_or(0.0).min(COLD_PRICE_MAX_NS);
        let [ns, deviation_ns] = usual_excess(period).map(|share| share * price_ns);
        (period <= COLD_EARLY_PERIOD_MAX).then_some(Self { ns, spread_ns: 1.96 * deviation_ns })
    }

    /// The excess of a period without a burst, by the step from the period before.
    fn after(before: Option<&(Vec<Reading>, Excess)>, samples: &[Reading]) -> Self {
        let step_ns = before.map_or(0.0, |(before, _)| step(before, samples));
        let before = before.map(|before| before.1).unwrap_or_default();
        let middle_ns = middle(samples).unwrap_or(0.0);
        let ns = (before.ns + step_ns).max(0.0);
        let spread_ns = before.spread_ns.hypot(ONE_BURST_SHARE * (middle_ns - ns).max(0.0));
        Self { ns, spread_ns }
    }
}

/// The timed samples by period, in the order of the periods' first samples.
fn by_period<'a>(found: &'a Faults, weights: &Weights) -> Vec<(u64, Vec<&'a Fault>)> {
    let mut periods: BTreeMap<u64, Vec<&Fault>> = BTreeMap::new();
    for ((fault, period), weight) in found.samples.iter().zip(&weights.samples) {
        if *weight > 0.0 && fault.reading_ns().is_some() {
            periods.entry(*period).or_default().push(fault);
        }
    }
    let mut periods: Vec<_> = periods.into_iter().collect();
    periods.sort_by_key(|(_, samples)| samples[0].enter_ns);
    periods
}

fn readings(samples: &[&Fault], is: impl Fn(&Fault) -> bool) -> Vec<Reading> {
    let ours = samples.iter().filter(|fault| is(fault));
    ours.filter_map(|fault| Some((fault.enter_ns, fault.reading_ns()? as f64))).collect()
}

fn middle(readings: &[Reading]) -> Option<f64> {
    median(&readings.iter().map(|(_, ns)| *ns).collect::<Vec<_>>())
}

/// How much longer the first samples of a period read than the last ones of the period before.
fn step(before: &[Reading], samples: &[Reading]) -> f64 {
    let first = &samples[..samples.len().min(COLD_NEAR_SAMPLES)];
    let last = &before[before.len().saturating_sub(COLD_NEAR_SAMPLES)..];
    match first.len().min(last.len()) as u64 {
        PRICED_FAULTS.. => middle(first).zip(middle(last)).map_or(0.0, |(first, last)| first - last),
        _ => 0.0,
    }
}

/// A burst beside samples: their excess, its price, and its weight.
#[derive(Clone)]
struct Beside {
    excess_ns: f64,
    price_ns: f64,
    weight: f64,
}

/// A burst of faults of one kind.
struct Burst {
    begin_ns: u64,
    /// Median reading.
    middle_ns: f64,
    /// The faults that it represents.
    weight: f64,
}

impl Burst {
    /// The nearest of these samples. `None` if they are further from the burst than from each other: prices may have
    /// changed.
    fn beside(&self, samples: &[Reading]) -> Option<Beside> {
        let near = near(samples, self.begin_ns)?;
        let (first_ns, last_ns) = (near[0].0, near[near.len() - 1].0);
        let apart_ns = last_ns - first_ns;
        if self.begin_ns + apart_ns < first_ns || self.begin_ns > last_ns + apart_ns {
            return None;
        }
        let excess_ns = middle(near)? - self.middle_ns;
        Some(Beside { excess_ns, price_ns: self.middle_ns, weight: self.weight })
    }
}

/// The bursts of a kind.
fn bursts(found: &Faults, weights: &Weights, kind: Kind) -> Vec<Burst> {
    let recorded = found.faults.iter().zip(&weights.recorded);
    let timed: Vec<(usize, u64, f64, f64)> = recorded
        .filter(|(fault, _)| class(fault) == kind)
        .filter_map(|(fault, weight)| {
            Some((fault.window?, fault.enter_ns, fault.reading_ns()? as f64, weight.alike))
        })
        .collect();
    let bursts = timed.chunk_by(|a, b| a.0 == b.0).filter(|burst| burst.len() as u64 >= PRICED_FAULTS);
    bursts
        .filter_map(|burst| {
            let readings: Vec<f64> = burst.iter().map(|(.., ns, _)| *ns).collect();
            let weight = burst.iter().map(|(.., alike)| alike).sum();
            Some(Burst { begin_ns: burst[0].1, middle_ns: median(&readings)?, weight })
        })
        .collect()
}

/// The samples nearest to a time: a quarter of all within limits. Samples are sorted by time.
fn near(samples: &[Reading], time_ns: u64) -> Option<&[Reading]> {
    let number = (samples.len() / 4).clamp(COLD_NEAR_SAMPLES, COLD_NEAR_SAMPLES_MAX);
    let last_from = samples.len().checked_sub(number)?;
    let at = samples.partition_point(|(ns, _)| *ns < time_ns);
    let from = at.saturating_sub(number / 2).min(last_from);
    Some(&samples[from..from + number])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observation::Window;
    use crate::profile::weigh::Weight;

    /// Twenty bursts of ten faults, with twenty samples around each that read longer by `excess_ns`.
    fn run(
        period: impl Fn(u64) -> u64,
        excess_ns: impl Fn(u64) -> u64,
        price_ns: impl Fn(u64) -> u64,
    ) -> (Faults, Weights) {
        let mut found = Faults::default();
        for burst in 0..20_u64 {
            let begin_ns = burst * 1_000_000;
            for (recorded, begin_ns) in [(true, begin_ns), (false, begin_ns + 100_000)] {
                found.windows.push(Window { begin_ns, end_ns: begin_ns, faults: 0, recorded, lost: 0 });
            }
            let window = Some(found.windows.len() - 2);
            let at = |ns, more| Fault::timed(Kind::Stack, begin_ns + ns, price_ns(burst) + more);
            found.faults.extend((0..10).map(|n| Fault { window, ..at(n * 5_000, 0) }));
            found
                .samples
                .extend((0..20).map(|n| (at(100_000 + n * 40_000, excess_ns(burst)), period(burst))));
        }
        let recorded = vec![Weight { exact: 1.0, extra: 0.0, alike: 1.0 }; found.faults.len()];
        let weights = Weights { recorded, samples: vec![97.0; found.samples.len()], ..Weights::default() };
        (found, weights)
    }

    /// What is usual moves a measured excess a little.
    fn assert_near(ns: f64, expected_ns: f64) {
        assert!((ns - expected_ns).abs() <= 0.03 * expected_ns, "{ns} instead of {expected_ns}");
    }

    fn excess_of((found, weights): &(Faults, Weights), period: u64, kind: Kind) -> f64 {
        Excesses::new(found, weights).of(period, &Fault::timed(kind, 0, 0)).ns
    }

    #[test]
    fn what_samples_read_too_much_is_found_also_where_prices_drift() {
        let excess_ns = |run: (Faults, Weights)| excess_of(&run, 97, Kind::Stack);
        assert_near(excess_ns(run(|_| 97, |_| 300, |_| 1_000)), 300.0);
        let drifts = |burst| if burst < 15 { 1_000 } else { 9_000 };
        assert_near(excess_ns(run(|_| 97, |_| 300, drifts)), 300.0);
        assert!(excess_ns(run(|_| 97, |_| 0, |_| 1_000)) < 5.0);
    }

    #[test]
    fn rare_samples_read_too_much_and_frequent_ones_do_not() {
        let period = |burst| if burst < 15 { 31 } else { 787 };
        let found = run(period, |burst| if burst < 15 { 0 } else { 700 }, |_| 1_000);
        assert_eq!(excess_of(&found, 31, Kind::Stack), 0.0);
        assert_near(excess_of(&found, 787, Kind::Stack), 700.0);
    }

    #[test]
    fn a_fault_that_fills_no_page_reads_too_much_only_if_bursts_of_such_faults_show_it() {
        let (mut found, weights) = run(|_| 97, |_| 300, |_| 1_000);
        let excess = Excesses::new(&found, &weights).of(97, &Fault::timed(Kind::ZeroPageRead, 0, 0));
        assert_eq!(excess.ns, 0.0);
        assert!(excess.spread_ns >= 300.0, "{excess:?}");
        let samples = found.samples.iter_mut().map(|(fault, _)| fault);
        for fault in found.faults.iter_mut().chain(samples) {
            fault.kind = Kind::FileRead;
        }
        assert_near(excess_of(&(found, weights), 97, Kind::ZeroPageRead), 300.0);
    }

    #[test]
    fn faults_of_kernel_mode_are_compared_with_bursts_of_kernel_mode() {
        let (mut found, weights) = run(|_| 97, |_| 300, |_| 1_000);
        let samples = found.samples.iter_mut().map(|(fault, _)| fault);
        found.faults.iter_mut().chain(samples).for_each(|fault| fault.kernel = true);
        let kernel = Fault { kernel: true, ..Fault::timed(Kind::Stack, 0, 0) };
        assert_near(Excesses::new(&found, &weights).of(97, &kernel).ns, 300.0);
    }

    #[test]
    fn a_dear_fault_makes_the_doubt_about_the_recorder_no_larger() {
        let (found, weights) = run(|_| 97, |_| 300, |_| 11_000);
        let excess = Excesses::new(&found, &weights).of(97, &Fault::timed(Kind::Stack, 0, 0));
        assert!(excess.spread_ns < 100.0, "{excess:?}");
    }

    #[test]
    fn nothing_is_taken_off_where_nothing_is_known() {
        let (mut found, weights) = run(|_| 97, |_| 300, |_| 1_000);
        found.samples.truncate(COLD_NEAR_SAMPLES - 1);
        assert_eq!(excess_of(&(found, weights), 97, Kind::Stack), 0.0);
        assert_eq!(excess_of(&(Faults::default(), Weights::default()), 97, Kind::Stack), 0.0);
    }
}
