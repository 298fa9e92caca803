//! Estimates of several runs -> a difference with its interval, and whether it counts.
//!
//! Counts and prices are judged separately. A difference in time comes from counts at the mean price. If
//! prices differ beyond chance, it also comes from prices at the mean count. Otherwise both sides have one
//! price, and its noise is in no row.
//!
//! Three kinds of noise add up:
//!
//! - Sampling. Samples vary as shares of a known whole. For faults in bursts that stand for others, each
//!   burst is a cluster (a ratio over clusters; Cochran 1977, ch. 6). If all faults were counted, an excess
//!   in one row is missing in another, and rows have to agree with the whole (`whole`). The split between
//!   samples and bursts is uncertain as well ([`crate::profile::Profile::doubt`]).
//! - Prices. Faults of one row differ in cost, and faults of one burst are similar.
//! - Variation from run to run. With one recording a side an allowance stands for it. With repeats the
//!   allowance is at least the common spread of all rows, and a prior worth [`DIFF_PRIOR_RUNS`] runs against
//!   a row's own spread.
//!
//! Chance moves faults from row to row and adds none. So the allowance is smaller for a row that threads share
//! if the whole has changed as much ([`DIFF_ADDED_RATIO`]), less the rows that are certainly new or gone.
//!
//! The allowance decides which rows are named. It is no part of the interval of one recording a side, which
//! covers sampling error only. Intervals of differences use Student's t with Welch's degrees of freedom. They
//! are widened to hold for all rows that could be named (Bonferroni).

use super::estimate::Estimate;
use super::spread::{Spread, common_spread, normal};
use super::table::Table;
use super::whole::{self, CountChange};
use super::{Pair, Settings};
use crate::measurement::Interval;
use crate::tuning::{
    DIFF_ADDED_RATIO, DIFF_APPEARED_FAULTS, DIFF_ERROR, DIFF_FAULTS_SPREAD, DIFF_FEW_FAULTS_SPREAD,
    DIFF_PRICE_SPREAD, DIFF_PRIOR_RUNS, DIFF_WORTH_FAULTS, DIFF_WORTH_NS,
};

/// The judgement of a row.
#[derive(Clone, Debug)]
pub(super) struct Judged {
    pub(super) faults: Pair,
    pub(super) time_ns: Pair,
    /// Price of a fault after over before, apart from the machine's change; `None` if within chance.
    pub(super) price: Option<f64>,
    /// See [`super::DiffRow::explains`].
    pub(super) explains: Option<Interval>,
}

impl Judged {
    pub(super) fn is_named(&self) -> bool {
        self.faults.significant || self.time_ns.significant
    }
}

/// A pair of figures, and the half width of its difference including the variation from run to run.
#[derive(Clone, Debug)]
struct Compared {
    pair: Pair,
    judged: f64,
}

/// The context for judging the rows of a table.
pub(super) struct Judge<'a> {
    /// Number of runs before.
    pub(super) before: usize,
    prices: &'a [f64],
    threshold: f64,
    largest: (f64, f64),
    /// Probability beyond one end of the interval of a difference.
    tail: f64,
    /// Allowed relative standard deviation from run to run: of faults, of their price.
    allowed: [f64; 2],
}

/// Probability beyond one end of the interval of one side.
const ONE_TAIL: f64 = 0.025;

impl<'a> Judge<'a> {
    pub(super) fn new(table: &Table, prices: &'a [f64], before: usize, settings: &Settings) -> Self {
        let threshold = settings.threshold;
        let largest = table.largest(before);
        let allowed = [DIFF_FAULTS_SPREAD, DIFF_PRICE_SPREAD];
        let mut judge = Self { before, prices, threshold, largest, tail: DIFF_ERROR / 2.0, allowed };
        let could_count =
            |row: &&Vec<Estimate>| row.iter().any(|run| judge.size(run.faults, run.time_ns) >= threshold);
        let rows: Vec<_> = table.rows.iter().filter(could_count).collect();
        let faults: Vec<_> = rows.iter().map(|row| judge.faults(row)).collect();
        let priced: Vec<_> = rows.iter().map(|row| judge.priced(row)).collect();
        for (allowed, sides) in judge.allowed.iter_mut().zip([faults, priced]) {
            *allowed = allowed.max(common_spread(sides.iter().flatten()));
        }
        // Two figures per row, and two ends each.
        judge.tail = DIFF_ERROR / 2.0 / (2 * rows.len().max(1)) as f64;
        judge
    }

    /// The larger of the shares of the largest totals of faults and time.
    pub(super) fn size(&self, faults: f64, time_ns: f64) -> f64 {
        let share = |part: f64, whole: f64| if whole > 0.0 { part.abs() / whole } else { 0.0 };
        share(faults, self.largest.0).max(share(time_ns, self.largest.1))
    }

    /// The judgements of all rows.
    pub(super) fn rows(&self, table: &Table) -> Vec<Judged> {
        let by_chance = |runs: &Vec<Estimate>| self.compare_faults(runs, most(runs, |run| run.chance));
        let mut seen: Vec<Compared> = table.rows.iter().map(by_chance).collect();
        let z = normal(self.tail);
        let change = |(row, runs): (&Compared, &Vec<Estimate>)| row.change(z, self.appeared(row, runs));
        let mut rows: Vec<CountChange> = seen.iter().zip(&table.rows).map(change).collect();
        let least = self.threshold * self.largest.0;
        let all_ns = mean_price(&table.totals);
        let is_named = |change: &CountChange| {
            let apart = change.difference().abs();
            apart >= least
                && is_enough(apart, all_ns)
                && (apart > z * change.judged().sqrt() || change.certain >= least)
        };
        let whole = self.compare_faults(&table.totals, 0.0).change(z, 0.0);
        // Chance moves faults from row to row, and adds none.
        let sure: f64 = rows.iter().filter(|row| row.certain > 0.0).map(CountChange::difference).sum();
        let added = if table.is_counted { whole.difference() - sure } else { 0.0 };
        let is_added =
            |difference: f64| difference * added > 0.0 && difference.abs() <= DIFF_ADDED_RATIO * added.abs();
        for (at, row) in rows.iter_mut().enumerate() {
            let runs = &table.rows[at];
            if row.certain == 0.0 && is_added(row.difference()) {
                seen[at] = self.compare_faults(runs, most(runs, |run| run.chance_alone));
                *row = seen[at].change(z, 0.0);
            } else {
                row.moved = (most(runs, |run| run.moved) * row.before.max(row.after)).powi(2);
            }
        }
        let alone = table.is_counted.then(|| whole::settle(&mut rows, &whole, is_named)).flatten();
        let judge = |(at, seen): (usize, Compared)| {
            let settled = &rows[at];
            let explains = Interval::around(settled.difference(), z * settled.measured().sqrt());
            let by_samples = half(seen.pair.difference);
            let fits = (explains.value - seen.pair.difference.value).abs() <= by_samples;
            let explains = (alone == Some(at) && fits && half(explains) < by_samples).then_some(explains);
            self.row(&table.rows[at], seen, settled, explains)
        };
        seen.into_iter().enumerate().map(judge).collect()
    }

    /// For a row on one side only: the least number of faults that is certain; else 0. Two kinds of evidence
    /// count: leading faults, if the other side recorded all of its own; and more samples than the other side
    /// can have missed.
    fn appeared(&self, seen: &Compared, runs: &[Estimate]) -> f64 {
        let (before, after) = runs.split_at(self.before);
        let is_before = before.iter().any(|run| run.faults > 0.0);
        let ([without, with], side) =
            if is_before { ([after, before], seen.pair.before) } else { ([before, after], seen.pair.after) };
        if without.iter().any(|run| run.faults > 0.0) {
            return 0.0;
        }
        let is_sure = with.iter().all(|run| run.leading >= DIFF_APPEARED_FAULTS);
        let least = with.iter().map(|run| run.recorded).fold(f64::INFINITY, f64::min);
        let recorded = if is_sure { least } else { 0.0 };
        // Samples for each fault, all runs of a side together.
        let density = |side: &[Estimate]| side.iter().map(|run| run.per_hit.recip()).sum::<f64>();
        let hits: f64 = with.iter().map(|run| run.hits).sum();
        let missed = (density(with) / (density(with) + density(without))).powf(hits);
        let sampled = if missed < self.tail { side.low } else { 0.0 };
        recorded.max(sampled)
    }

    /// `settled` combines counts and samples and decides; `seen` is shown.
    fn row(
        &self,
        runs: &[Estimate],
        seen: Compared,
        settled: &CountChange,
        explains: Option<Interval>,
    ) -> Judged {
        let priced = self.priced(runs);
        let prices = (priced.iter().all(|side| !side.is_empty())).then(|| {
            let sides = [0, 1].map(|side| Spread::new(&priced[side], self.allowed[1], DIFF_PRIOR_RUNS));
            self.compare(&sides)
        });
        let faults_mean = 0.5 * (seen.pair.before.value + seen.pair.after.value);
        let price = prices.filter(|Compared { pair, judged }| {
            let apart = pair.difference.value.abs();
            apart > *judged
                && apart * faults_mean >= self.threshold * self.largest.1
                && is_enough(faults_mean, apart)
        });
        let apart = settled.difference().abs();
        let price_ns = mean_price(runs);
        let is_sure = is_enough(apart, price_ns)
            && (settled.certain > 0.0 || apart > normal(self.tail) * settled.judged().sqrt());
        let is_worth = |part: f64, whole: f64| part > 0.0 && part >= self.threshold * whole;
        let faults = Pair { significant: is_sure && is_worth(apart, self.largest.0), ..seen.pair };
        let is_dear = is_sure && is_worth(apart * price_ns, self.largest.1);
        let times = |side: &[Estimate]| side.iter().map(|run| run.time(price_ns)).collect::<Vec<_>>();
        let (before, after) = runs.split_at(self.before);
        let allowed = self.allowed[0].hypot(self.allowed[1]);
        let times = [before, after].map(|side| Spread::new(&times(side), allowed, DIFF_PRIOR_RUNS));
        let time_ns = Pair { significant: is_dear || price.is_some(), ..self.compare(&times).pair };
        let price = price.map(|found| found.pair.after.value / found.pair.before.value);
        Judged { faults, time_ns, price, explains }
    }

    /// Faults of the whole program. The table knows their precision.
    pub(super) fn all_faults(&self, table: &Table, faults: &[f64]) -> Pair {
        let runs = table.totals.iter().zip(faults);
        let runs: Vec<_> = runs.map(|(run, faults)| Estimate { faults: *faults, ..*run }).collect();
        let Compared { pair, judged } = self.compare_faults(&runs, 0.0);
        let apart = pair.difference.value.abs();
        Pair { significant: apart > judged && apart >= self.threshold * self.largest.0, ..pair }
    }

    /// Time of the whole program. With one recording it has the interval of every view.
    pub(super) fn all_time(&self, times: &[Interval]) -> Pair {
        let (before, after) = times.split_at(self.before);
        let deviation = |time: &Interval| 0.5 * (time.high - time.low) / normal(ONE_TAIL);
        let side = |side: &[Interval]| {
            let runs: Vec<_> = side.iter().map(|time| (time.value, deviation(time).powi(2))).collect();
            Spread::new(&runs, self.allowed[1], DIFF_PRIOR_RUNS)
        };
        let shown = |side: &[Interval], spread: &Spread| match side {
            [one] => *one,
            _ => positive(spread.measured().interval(ONE_TAIL)),
        };
        let sides = [side(before), side(after)];
        let (before, after) = (shown(before, &sides[0]), shown(after, &sides[1]));
        let value = after.value - before.value;
        let difference = Interval {
            value,
            low: value - (after.value - after.low).hypot(before.high - before.value),
            high: value + (after.high - after.value).hypot(before.value - before.low),
        };
        let judged = self.compare(&sides).judged;
        let significant = value.abs() > judged && value.abs() >= self.threshold * self.largest.1;
        Pair { before, after, difference, significant }
    }

    /// `chance`: the relative standard deviation from run to run to allow at least.
    fn compare_faults(&self, runs: &[Estimate], chance: f64) -> Compared {
        let side = |side: Vec<(f64, f64)>| {
            let faults = side.iter().map(|run| run.0).sum::<f64>() / side.len() as f64;
            let few = DIFF_FEW_FAULTS_SPREAD / faults.max(1.0).sqrt();
            // Without repeats only the allowance is known, so it has no degrees of freedom to estimate.
            Spread::new(&side, self.allowed[0].max(chance).hypot(few), f64::INFINITY)
        };
        let sides = self.faults(runs).map(side);
        self.compare(&sides)
    }

    fn compare(&self, [a, b]: &[Spread; 2]) -> Compared {
        let judged = half(b.less(a).interval(self.tail));
        let (a, b) = (a.measured(), b.measured());
        let pair = Pair {
            before: positive(a.interval(ONE_TAIL)),
            after: positive(b.interval(ONE_TAIL)),
            difference: b.less(&a).interval(self.tail),
            significant: false,
        };
        Compared { pair, judged }
    }

    /// Faults of the runs of both sides with their variances.
    fn faults(&self, runs: &[Estimate]) -> [Vec<(f64, f64)>; 2] {
        let (before, after) = runs.split_at(self.before);
        [before, after].map(|side| side.iter().map(|run| (run.faults, run.faults_variance)).collect())
    }

    /// Price of a fault in each run that has some, with its variance.
    fn priced(&self, runs: &[Estimate]) -> [Vec<(f64, f64)>; 2] {
        let mut sides = [Vec::new(), Vec::new()];
        for (at, (run, common)) in runs.iter().zip(self.prices).enumerate() {
            if run.faults > 0.0 && run.time_ns > 0.0 {
                let price = run.time_ns / run.faults / common;
                sides[usize::from(at >= self.before)].push((price, price * price * run.price_variance));
            }
        }
        sides
    }
}

impl Compared {
    /// `z` standard deviations are half the interval of the difference.
    fn change(&self, z: f64, certain: f64) -> CountChange {
        const ONE_SIDE: f64 = 1.96;
        let Pair { before, after, difference, .. } = self.pair;
        let measured = (half(difference) / z).powi(2);
        let sides = [before, after].map(|side| (half(side) / ONE_SIDE).powi(2));
        let scale = measured / (sides[0] + sides[1]).max(f64::MIN_POSITIVE);
        CountChange {
            before: before.value,
            after: after.value,
            seen: sides.map(|side| side * scale),
            own: ((self.judged / z).powi(2) - measured).max(0.0),
            moved: 0.0,
            certain,
        }
    }
}

/// Whether so many faults at this price, ns, are enough for a name, and take long enough if any was timed.
fn is_enough(faults: f64, price_ns: f64) -> bool {
    faults >= DIFF_WORTH_FAULTS && (price_ns <= 0.0 || faults * price_ns >= DIFF_WORTH_NS)
}

fn most(runs: &[Estimate], of: fn(&Estimate) -> f64) -> f64 {
    runs.iter().map(of).fold(0.0, f64::max)
}

/// Mean price of a fault over all runs, ns.
fn mean_price(runs: &[Estimate]) -> f64 {
    let sum = |of: fn(&Estimate) -> f64| runs.iter().filter(|run| run.time_ns > 0.0).map(of).sum::<f64>();
    let faults = sum(|run| run.faults);
    if faults > 0.0 { sum(|run| run.time_ns) / faults } else { 0.0 }
}

fn half(interval: Interval) -> f64 {
    interval.high - interval.value
}

fn positive(interval: Interval) -> Interval {
    Interval { low: interval.low.max(0.0), ..interval }
}
