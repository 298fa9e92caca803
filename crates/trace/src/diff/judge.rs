//! Estimates of several runs -> a difference with its interval, and whether it counts.
//!
//! Counts and prices are judged by one test, of two means whose variances are the sampling error and the variation
//! from run to run (`spread`). A difference counts if it exceeds both at once for all rows (Bonferroni), and reaches
//! the threshold. Exact counts have no sampling error. With one recording a side an allowance stands for the
//! variation from run to run; it decides, and is no part of the interval.
//!
//! A difference in time comes from counts at the mean price. If prices differ beyond chance, it also comes from
//! prices at the mean count. Otherwise both sides have one price, and its noise is in no row.
//!
//! Chance moves faults from row to row and adds none: what a row may have got by chance, other rows must have lost.
//! So with one recording a side that much of a difference says nothing. And if the counted whole has changed, some
//! row has: the row that changed most along with it needs less evidence ([`DIFF_WHOLE_ERROR`]).

use super::spread::{Spread, Value, common_spread, normal};
use super::table::{Estimate, Table, deviations};
use super::{Pair, Settings, Side};
use crate::measurement::Interval;
use crate::tuning::{
    DIFF_APPEARED_FAULTS, DIFF_ERROR, DIFF_FAULTS_SPREAD, DIFF_FEW_FAULTS_SPREAD, DIFF_PRICE_SPREAD,
    DIFF_PRIOR_RUNS, DIFF_WHOLE_ERROR, DIFF_WORTH_FAULTS, DIFF_WORTH_NS,
};

/// The judgement of a row.
#[derive(Clone, Copy, Debug)]
pub(super) struct Judged {
    pub(super) faults: Pair,
    pub(super) time_ns: Pair,
    /// Price of a fault after over before, apart from the machine's change; `None` if within chance.
    pub(super) price: Option<f64>,
}

/// A pair of figures, and its difference with the variation from run to run.
#[derive(Clone, Copy, Debug)]
pub(super) struct Compared {
    pub(super) pair: Pair,
    pub(super) judged: Interval,
}

/// The context for judging the rows of a table.
pub(super) struct Judge<'a> {
    table: &'a Table,
    /// Number of runs before.
    before: usize,
    prices: &'a [f64],
    threshold: f64,
    largest: (f64, f64),
    /// Rows that could be named.
    rows: f64,
    /// Allowed relative standard deviation from run to run: of faults, of their price.
    allowed: [f64; 2],
}

/// Probability beyond one end of the interval of one side.
pub(super) const ONE_TAIL: f64 = 0.025;

impl<'a> Judge<'a> {
    pub(super) fn new(table: &'a Table, prices: &'a [f64], before: usize, settings: &Settings) -> Self {
        let threshold = settings.threshold;
        let allowed = [DIFF_FAULTS_SPREAD, DIFF_PRICE_SPREAD];
        let mut judge =
            Self { table, before, prices, threshold, largest: table.largest(before), rows: 1.0, allowed };
        let could_count =
            |row: &&Vec<Estimate>| row.iter().any(|run| judge.size(run.faults, run.time_ns) >= threshold);
        let rows: Vec<_> = table.rows.iter().filter(could_count).collect();
        let faults: Vec<_> =
            rows.iter().map(|row| judge.sides(row, |run| (run.faults, run.faults_off))).collect();
        let priced: Vec<_> = rows.iter().map(|row| judge.priced(row)).collect();
        judge.rows = rows.len().max(1) as f64;
        for (allowed, sides) in judge.allowed.iter_mut().zip([faults, priced]) {
            *allowed = allowed.max(common_spread(sides.iter().flatten()));
        }
        judge
    }

    /// Probability beyond one end of the interval of a difference: two figures a row, and two ends each.
    fn tail(&self) -> f64 {
        DIFF_ERROR / 2.0 / (2.0 * self.rows)
    }

    /// The larger of the shares of the largest totals of faults and time.
    pub(super) fn size(&self, faults: f64, time_ns: f64) -> f64 {
        let share = |part: f64, whole: f64| if whole > 0.0 { part.abs() / whole } else { 0.0 };
        share(faults, self.largest.0).max(share(time_ns, self.largest.1))
    }

    /// The judgements of all rows. `whole`: the faults of the program.
    pub(super) fn judged(&self, whole: &Pair) -> Vec<Judged> {
        let rows: Vec<Vec<Estimate>> = self.table.rows.iter().map(|runs| self.settled(runs)).collect();
        let seen: Vec<Compared> = rows.iter().map(|runs| self.faults(runs)).collect();
        let differences: Vec<f64> = seen.iter().map(|row| row.pair.difference.value).collect();
        let along = |at: &usize| whole.significant && differences[*at] / whole.difference.value >= 0.5;
        let most = (0..rows.len())
            .filter(along)
            .max_by(|a, b| differences[*a].abs().total_cmp(&differences[*b].abs()));
        let least = normal(DIFF_WHOLE_ERROR / self.rows) / normal(self.tail());
        let judge = |(at, seen): (usize, &Compared)| {
            let part = if most == Some(at) { least.min(1.0) } else { 1.0 };
            // With repeats what moves is in the variation from run to run.
            let moved = if rows[at].len() > 2 { 0.0 } else { moved(&rows, &differences, at) };
            let Interval { value, low, high } = seen.judged;
            let room = if value > 0.0 { value - low } else { high - value };
            let is_told = value.abs() - moved > part * room || self.has_appeared(&rows[at]);
            self.row(&rows[at], seen, is_told)
        };
        seen.iter().enumerate().map(judge).collect()
    }

    /// Whether a row is on one side only, and the start of each run, where every fault was recorded, shows it.
    fn has_appeared(&self, runs: &[Estimate]) -> bool {
        let (before, after) = runs.split_at(self.before);
        let is_without = |side: &[Estimate]| side.iter().all(|run| run.faults == 0.0);
        let is_with = |side: &[Estimate]| side.iter().all(|run| run.leading >= DIFF_APPEARED_FAULTS);
        is_without(before) && is_with(after) || is_with(before) && is_without(after)
    }

    /// The side without a row that has appeared has none of its faults, so none unseen.
    fn settled(&self, runs: &[Estimate]) -> Vec<Estimate> {
        let is_absent = |run: &Estimate| run.faults == 0.0 && self.has_appeared(runs);
        let settled = |run: &Estimate| if is_absent(run) { Estimate::default() } else { *run };
        runs.iter().map(settled).collect()
    }

    /// The judgement of the faults that were only counted.
    pub(super) fn counted(&self) -> Judged {
        let seen = self.faults(&self.table.counted);
        self.row(&self.table.counted, &seen, is_apart(&seen.judged))
    }

    fn row(&self, runs: &[Estimate], seen: &Compared, is_told: bool) -> Judged {
        let difference = seen.pair.difference.value.abs();
        let mean_faults = 0.5 * (seen.pair.before.value + seen.pair.after.value);
        let price_ns = mean_price(runs);
        let is_sure = is_told && is_enough(difference, price_ns);
        let is_worth = |part: f64, whole: f64| part > 0.0 && part >= self.threshold * whole;
        let faults = Pair { significant: is_sure && is_worth(difference, self.largest.0), ..seen.pair };
        let price = self.price(runs).filter(|price| {
            let apart_ns = price.after.value - price.before.value;
            is_worth(apart_ns.abs() * mean_faults, self.largest.1) && is_enough(mean_faults, apart_ns.abs())
        });
        let time = |run: &Estimate| {
            let each_ns = if run.faults > 0.0 { run.time_ns / run.faults } else { price_ns };
            let off = |end: usize| (each_ns * run.faults_off[end]).hypot(run.time_ns * run.price_off[end]);
            (run.time_ns, [off(0), off(1)])
        };
        let variance = self.allowed[0].powi(2) + self.allowed[1].powi(2);
        let sides = self.sides(runs, time);
        let times = sides.map(|side| Spread::new(&side, |mean| variance * mean * mean, DIFF_PRIOR_RUNS));
        let is_dear = is_sure && is_worth(difference * price_ns, self.largest.1);
        let time_ns = Pair { significant: is_dear || price.is_some(), ..compare(&times, self.tail()).pair };
        Judged { faults, time_ns, price: price.map(|price| price.after.value / price.before.value) }
    }

    /// The price of a fault, without the machine's change, if it differs by more than chance. The price of unchanged
    /// code may be a multiple in the next run, when the host takes memory back. So it needs repeats on both sides.
    fn price(&self, runs: &[Estimate]) -> Option<Pair> {
        let sides = self.priced(runs);
        if sides.iter().any(|side| side.len() < 2) {
            return None;
        }
        let allowed = |mean: f64| (self.allowed[1] * mean).powi(2);
        let Compared { pair, judged } =
            compare(&sides.map(|side| Spread::new(&side, allowed, DIFF_PRIOR_RUNS)), self.tail());
        is_apart(&judged).then_some(pair)
    }

    /// Faults of the whole program.
    pub(super) fn all_faults(&self, sides: &[Side]) -> Pair {
        let runs = self.table.totals.iter().zip(sides);
        // With repeats the variation from run to run shows.
        let is_single = sides.len() == 2;
        let runs = runs.map(|(run, side)| Estimate {
            faults: side.faults,
            shared: if is_single { run.shared } else { 0.0 },
            ..*run
        });
        let runs: Vec<_> = runs.collect();
        let Compared { pair, judged } = self.faults(&runs);
        Pair { significant: self.counts(&judged, self.largest.0), ..pair }
    }

    /// Time of the whole program. With one recording it has the interval of every view.
    pub(super) fn all_time(&self, sides: &[Side]) -> Pair {
        let times: Vec<Value> =
            sides.iter().map(|side| (side.time_ns.value, deviations(&side.time_ns))).collect();
        let (before, after) = times.split_at(self.before);
        let allowed = |mean: f64| (self.allowed[1] * mean).powi(2);
        let spreads = [before, after].map(|side| Spread::new(side, allowed, DIFF_PRIOR_RUNS));
        let significant = self.counts(&compare(&spreads, self.tail()).judged, self.largest.1);
        Pair { significant, ..compare(&spreads, ONE_TAIL).pair }
    }

    fn counts(&self, judged: &Interval, largest: f64) -> bool {
        is_apart(judged) && judged.value.abs() >= self.threshold * largest
    }

    fn faults(&self, runs: &[Estimate]) -> Compared {
        let shared = runs.iter().map(|run| run.shared * run.shared).sum::<f64>() / runs.len() as f64;
        let allowed = |mean: f64| {
            (self.allowed[0] * mean).powi(2) + DIFF_FEW_FAULTS_SPREAD.powi(2) * mean.max(1.0) + shared
        };
        // Without repeats only the allowance is known, so it has no degrees of freedom to estimate.
        let sides = self.sides(runs, |run| (run.faults, run.faults_off));
        let mut sides = sides.map(|side| Spread::new(&side, allowed, f64::INFINITY));
        for (side, runs) in sides.iter_mut().zip(<[_; 2]>::from(runs.split_at(self.before))) {
            side.least = runs.iter().map(|run| run.certain).sum::<f64>() / runs.len() as f64;
        }
        compare(&sides, self.tail())
    }

    fn sides(&self, runs: &[Estimate], value: impl Fn(&Estimate) -> Value) -> [Vec<Value>; 2] {
        let (before, after) = runs.split_at(self.before);
        [before, after].map(|side| side.iter().map(&value).collect())
    }

    /// Price of a fault in each run that has some.
    fn priced(&self, runs: &[Estimate]) -> [Vec<Value>; 2] {
        let mut sides = [Vec::new(), Vec::new()];
        for (at, (run, common)) in runs.iter().zip(self.prices).enumerate() {
            if run.faults > 0.0 && run.time_ns > 0.0 {
                let price = run.time_ns / run.faults / common;
                sides[usize::from(at >= self.before)].push((price, run.price_off.map(|off| price * off)));
            }
        }
        sides
    }
}

/// The interval excludes 0.
fn is_apart(difference: &Interval) -> bool {
    difference.low > 0.0 || difference.high < 0.0
}

/// The test: two means and their difference, with `tail` beyond each of its ends.
pub(super) fn compare([a, b]: &[Spread; 2], tail: f64) -> Compared {
    let judged = b.less(a).interval(tail);
    let [a, b] = [a, b].map(Spread::measured);
    let positive = |interval: Interval| Interval { low: interval.low.max(0.0), ..interval };
    let [before, after] = [a, b].map(|side| positive(side.interval(ONE_TAIL)));
    let Interval { value, low, high } = b.less(&a).interval(tail);
    // What is certain of one side bounds the difference.
    let [most_before, most_after] = [a, b].map(|side| side.interval(tail).high);
    let difference =
        Interval { value, low: low.max(b.least - most_before), high: high.min(most_after - a.least) };
    Compared { pair: Pair { before, after, difference, significant: false }, judged }
}

/// Faults that chance may have moved to or from a row: as many as other rows lost or got, of those that may move
/// from one of the two to the other.
fn moved(rows: &[Vec<Estimate>], differences: &[f64], at: usize) -> f64 {
    let movable = |row: usize| rows[row].iter().map(|run| run.movable).fold(0.0, f64::max);
    let is_other = |row: &usize| differences[*row] * differences[at] < 0.0;
    let between = |row: usize| differences[row].abs().min(movable(row).max(movable(at)));
    (0..rows.len()).filter(is_other).map(between).sum()
}

/// Whether so many faults at this price, ns, are enough for a name, and take long enough if any was timed.
fn is_enough(faults: f64, price_ns: f64) -> bool {
    faults >= DIFF_WORTH_FAULTS && (price_ns <= 0.0 || faults * price_ns >= DIFF_WORTH_NS)
}

/// Mean price of a fault over all runs, ns.
fn mean_price(runs: &[Estimate]) -> f64 {
    let sum = |of: fn(&Estimate) -> f64| runs.iter().filter(|run| run.time_ns > 0.0).map(of).sum::<f64>();
    let faults = sum(|run| run.faults);
    if faults > 0.0 { sum(|run| run.time_ns) / faults } else { 0.0 }
}
