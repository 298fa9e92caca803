//! Estimates of several runs -> a difference with its interval, and whether it counts.
//!
//! Counts and prices are judged apart. A difference in time is that of counts at the mean price, and that of prices at the mean
//! count only where prices differ beyond chance: else both sides have one price, and its noise from run to run is in no row.
//!
//! Three kinds of noise add up. Sampling: samples vary as shares of a known whole do, and where faults recorded in bursts
//! stand for those beside them, a burst is one look (a ratio over clusters; Cochran 1977, ch. 6).
//! Where all faults were counted, samples only say whose they are: what is one row's too much is another's too little, and rows
//! have to agree with the whole (`whole`). How many
//! of them samples stand for and how many the bursts is in doubt as well ([`crate::profile::Profile::doubt`]).
//! Prices: faults of one row differ in what they cost, and those of one burst are dear or cheap together. From run to run: an
//! allowance stands for it with one recording a side; with repeats that is at least what all rows together spread, and a
//! row's own spread replaces it the more of them there are, as a prior worth [`DIFF_PRIOR_RUNS`] runs.
//! The allowance decides what is named. It is no part of the interval of one recording a side, which says what was not seen.
//! The intervals of differences are those of Student's t with Welch's degrees of freedom, widened so that they
//! hold for all rows that could be named (Bonferroni).

use super::spread::{Spread, common_spread, normal};
use super::table::Table;
use super::whole::{self, Change};
use super::{Pair, Settings};
use crate::profile::{Basis, Tally, Weighted};
use crate::stat::Interval;
use crate::tuning::{
    DIFF_APPEARED_FAULTS, DIFF_ERROR, DIFF_FAULTS_SPREAD, DIFF_PRICE_SPREAD, DIFF_PRIOR_RUNS,
};

/// Sums over the faults of a row in one run.
#[derive(Clone, Debug, Default)]
pub(super) struct Figure {
    faults: f64,
    time_ns: f64,
    /// Sum of w (w - 1) in bursts.
    sampling: f64,
    /// Faults that samples at large stand for, and the squares of what each does: both beside themselves.
    sampled: f64,
    sampled_squares: f64,
    /// Samples at large for each one that tells something new: more than 1 where they fall into step with the program.
    in_step: f64,
    /// The number of all of them is known.
    is_counted: bool,
    /// Faults of all of them by which samples may stand for too few or too many, at 95 %.
    doubt: f64,
    /// Sums of w^2, of w^2 p and of w^2 p^2, with p the price of the fault.
    squares: [f64; 3],
    /// Recorded ones among so many first faults as are recorded of every run.
    pub(super) leading: f64,
    /// Recorded ones in all.
    recorded: f64,
    /// By burst, the faults beside it that its own stand for.
    beside: Vec<(u32, f64)>,
    /// How well the price of those is known that were not timed.
    tally: Tally,
}

/// What a run says about a row.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Estimate {
    pub(super) faults: f64,
    pub(super) time_ns: f64,
    /// Of the faults those that were recorded, and those at the begin of the run of which all runs have each.
    recorded: f64,
    leading: f64,
    /// Variance of the faults by what was seen of this run.
    faults_variance: f64,
    /// Relative variance of what one of them takes.
    price_variance: f64,
    /// Variance of the faults of a row of this run that no sample fell into.
    unseen: f64,
}

impl Estimate {
    /// A row without faults in the run that this is the total of.
    pub(super) fn unseen(&self) -> Self {
        Self { faults_variance: self.unseen, unseen: self.unseen, ..Self::default() }
    }
}

impl Figure {
    /// Of a whole run; `is_counted`: how many faults it has is known, and samples only tell whose they are. `doubt` is that of
    /// its profile, `in_step` how many samples tell as much as one.
    pub(super) fn of_all(is_counted: bool, doubt: f64, in_step: f64) -> Self {
        Self { is_counted, doubt, in_step, ..Self::default() }
    }

    /// Adds a fault, in the order of time; `burst`: the stretch of recorded windows that it is in.
    pub(super) fn add(&mut self, fault: &Weighted, basis: &Basis, burst: Option<u32>) {
        let (weight, cost_ns) = (fault.faults, fault.cost_ns);
        if !(weight.is_finite() && cost_ns.is_finite() && weight > 0.0) {
            return;
        }
        self.faults += weight;
        self.time_ns += cost_ns;
        self.tally.add(fault, basis);
        let beside = (weight - 1.0).max(0.0);
        match burst {
            Some(_) => {
                self.recorded += 1.0;
                self.sampling += weight * beside;
            }
            None => {
                self.sampled += beside;
                self.sampled_squares += beside * beside;
            }
        }
        if let Some(burst) = burst.filter(|_| beside > 0.0) {
            match self.beside.last_mut().filter(|last| last.0 == burst) {
                Some(last) => last.1 += beside,
                None => self.beside.push((burst, beside)),
            }
        }
        let squares = [weight * weight, weight * cost_ns, cost_ns * cost_ns];
        self.squares.iter_mut().zip(squares).for_each(|(sum, square)| *sum += square);
    }

    /// `all` is the whole run.
    pub(super) fn estimate(&self, all: &Figure) -> Estimate {
        // Of a whole that was counted nothing can have been missed.
        let is_whole = all.is_counted && self.faults >= all.faults;
        Estimate {
            faults: self.faults,
            time_ns: self.time_ns,
            recorded: self.recorded,
            leading: self.leading,
            faults_variance: if is_whole { 0.0 } else { self.faults_variance(all) },
            price_variance: self.price_variance(all),
            unseen: Figure::default().faults_variance(all),
        }
    }

    fn faults_variance(&self, all: &Figure) -> f64 {
        // What a fault in a burst stands for is added, as if one had been missed.
        let missed = if all.faults > 0.0 { all.sampling / all.faults } else { 0.0 };
        let in_bursts =
            self.bursts_sampling_variance(all) + self.bursts_variance(all) + missed * (missed + 1.0);
        self.samples_variance(all) + in_bursts + self.doubt_variance(all)
    }
}

impl Figure {
    /// Relative variance of the price: faults differ in what they take, and most of them may not have been timed.
    fn price_variance(&self, all: &Figure) -> f64 {
        const SIGMAS: f64 = 1.96;
        if self.time_ns <= 0.0 {
            return 0.0;
        }
        let [weights, prices, squared] = self.squares;
        let mean_ns = self.time_ns / self.faults;
        let around_mean = squared - 2.0 * mean_ns * prices + mean_ns * mean_ns * weights;
        let (cheaper_ns, dearer_ns) = self.tally.assumed_spread_ns(&all.tally);
        let assumed = (cheaper_ns.max(dearer_ns) / SIGMAS).powi(2);
        (around_mean.max(0.0) + assumed) / self.time_ns.powi(2)
    }

    /// What samples leave open: their share of a known whole, with two hits and two misses more so that none and all say
    /// what they can (Agresti & Coull 1998); of a whole that is not known its own variance as well.
    fn samples_variance(&self, all: &Figure) -> f64 {
        const MORE: f64 = 4.0;
        if all.sampled <= 0.0 {
            return 0.0;
        }
        // Kish's effective number: samples stand for unlike numbers of faults.
        let samples = all.sampled * all.sampled / all.sampled_squares / all.in_step.max(1.0);
        let share = self.sampled / all.sampled;
        let wide = (share * samples + MORE / 2.0) / (samples + MORE);
        let of_share = wide * (1.0 - wide) / (samples + MORE);
        let of_whole = if all.is_counted { 0.0 } else { share * share / samples };
        all.sampled * all.sampled * (of_share + of_whole)
    }

    /// The same of faults in bursts: a share s varies with (1 - s)^2 of its own variance and s^2 of the others'.
    fn bursts_sampling_variance(&self, all: &Figure) -> f64 {
        let share = if all.is_counted && all.faults > 0.0 { self.faults / all.faults } else { 0.0 };
        (self.sampling * (1.0 - 2.0 * share) + all.sampling * share * share).max(0.0)
    }

    /// Faults that what is seen in bursts stands for beside them.
    fn beside_bursts(&self) -> f64 {
        self.beside.iter().map(|burst| burst.1).sum()
    }

    /// What is in doubt goes from rows that samples tell of to rows that bursts tell of, or back.
    fn doubt_variance(&self, all: &Figure) -> f64 {
        const SIGMAS: f64 = 1.96;
        if all.doubt <= 0.0 {
            return 0.0;
        }
        let part = |own: f64, all: f64| if all > 0.0 { own / all } else { 0.0 };
        let shifted = part(self.beside_bursts(), all.beside_bursts()) - part(self.sampled, all.sampled);
        (shifted * all.doubt / SIGMAS).powi(2)
    }

    /// How much what bursts say of this row differs from burst to burst.
    fn bursts_variance(&self, all: &Figure) -> f64 {
        let whole = all.beside_bursts();
        let looks = all.beside.len() as f64;
        if whole <= 0.0 || looks < 2.0 {
            return 0.0;
        }
        let part = self.beside_bursts() / whole;
        let mut own = self.beside.iter().peekable();
        let square = |burst: &(u32, f64)| {
            let mine = own.next_if(|mine| mine.0 == burst.0).map_or(0.0, |mine| mine.1);
            (mine - part * burst.1).powi(2)
        };
        all.beside.iter().map(square).sum::<f64>() * looks / (looks - 1.0)
    }
}

/// What is said of a row.
#[derive(Clone, Debug)]
pub(super) struct Judged {
    pub(super) faults: Pair,
    pub(super) time_ns: Pair,
    /// What one of its faults takes has changed, by more than chance.
    pub(super) is_price_changed: bool,
    /// How far `time_ns` may be off.
    doubts: Doubts,
}

impl Judged {
    pub(super) fn is_named(&self) -> bool {
        self.faults.significant || self.time_ns.significant
    }
}

/// Half widths of an interval of time: `price_ns` times what the count may be off by, and what prices may be off by in all.
#[derive(Clone, Copy, Debug, Default)]
struct Doubt {
    count: f64,
    price_ns: f64,
    priced_ns: f64,
}

impl Doubt {
    fn half_ns(&self) -> f64 {
        (self.count * self.price_ns).hypot(self.priced_ns)
    }
}

/// Of a row before, after, of the difference as it was measured, and of the difference as it has to be judged: with what a
/// program differs from itself.
#[derive(Clone, Copy, Debug, Default)]
struct Doubts {
    before: Doubt,
    after: Doubt,
    measured: Doubt,
    judged: Doubt,
}

/// A pair of counts or prices, and the half width of its difference as it has to be judged.
#[derive(Clone, Debug)]
struct Compared {
    pair: Pair,
    judged: f64,
}

/// Knows what is needed to judge a row of a table.
pub(super) struct Judge<'a> {
    /// Runs before.
    pub(super) before: usize,
    prices: &'a [f64],
    threshold: f64,
    /// Times stay as they were measured.
    raw_times: bool,
    largest: (f64, f64),
    /// Probability beyond one end of the interval of a difference.
    tail: f64,
    /// Relative standard deviation from run to run to allow for: of faults, of their price.
    allowed: [f64; 2],
}

/// Probability beyond one end of the interval of one side.
const ONE_TAIL: f64 = 0.025;

impl<'a> Judge<'a> {
    pub(super) fn new(table: &Table, prices: &'a [f64], before: usize, settings: &Settings) -> Self {
        let &Settings { threshold, raw_times, .. } = settings;
        let largest = table.largest(before, prices);
        let allowed = [DIFF_FAULTS_SPREAD, DIFF_PRICE_SPREAD];
        let mut judge =
            Self { before, prices, threshold, raw_times, largest, tail: DIFF_ERROR / 2.0, allowed };
        let could_count = |row: &&Vec<Estimate>| {
            let mut runs = row.iter().zip(prices);
            runs.any(|(run, price)| judge.size(run.faults, run.time_ns / price) >= threshold)
        };
        let rows: Vec<_> = table.rows.iter().filter(could_count).collect();
        let faults: Vec<_> = rows.iter().map(|row| judge.faults(row)).collect();
        let priced: Vec<_> = rows.iter().map(|row| judge.priced(row)).collect();
        for (allowed, sides) in judge.allowed.iter_mut().zip([faults, priced]) {
            *allowed = allowed.max(common_spread(sides.iter().flatten()));
        }
        // Two figures each, and two ends.
        judge.tail = DIFF_ERROR / 2.0 / (2 * rows.len().max(1)) as f64;
        judge
    }

    /// Share of the largest total: of faults or of time, which is more.
    pub(super) fn size(&self, faults: f64, time_ns: f64) -> f64 {
        let share = |part: f64, whole: f64| if whole > 0.0 { part.abs() / whole } else { 0.0 };
        share(faults, self.largest.0).max(share(time_ns, self.largest.1))
    }

    /// What became of all rows.
    pub(super) fn rows(&self, table: &Table) -> Vec<Judged> {
        let mut faults: Vec<Compared> = table.rows.iter().map(|runs| self.compare_faults(runs)).collect();
        if table.is_counted {
            let z = normal(self.tail);
            let change = |(row, runs): (&Compared, &Vec<Estimate>)| row.change(z, self.appeared(runs));
            let mut rows: Vec<Change> = faults.iter().zip(&table.rows).map(change).collect();
            let is_named = |change: &Change| {
                let apart = change.difference().abs();
                let least = self.threshold * self.largest.0;
                apart >= least && (apart > z * change.judged().sqrt() || change.certain >= least)
            };
            whole::settle(&mut rows, &self.compare_faults(&table.totals).change(z, 0.0), is_named);
            faults.iter_mut().zip(&rows).for_each(|(faults, row)| faults.settle(row, z));
        }
        table.rows.iter().zip(faults).map(|(runs, faults)| self.row(runs, faults)).collect()
    }

    /// Least faults of a row that is on one side only for certain: all of the begin of the other side was recorded, where this side has
    /// some. 0 for others.
    fn appeared(&self, runs: &[Estimate]) -> f64 {
        let (before, after) = runs.split_at(self.before);
        let [without, with] =
            if before.iter().all(|run| run.faults <= 0.0) { [before, after] } else { [after, before] };
        let is_sure = without.iter().all(|run| run.faults <= 0.0)
            && with.iter().all(|run| run.leading >= DIFF_APPEARED_FAULTS);
        if is_sure { with.iter().map(|run| run.recorded).fold(f64::INFINITY, f64::min) } else { 0.0 }
    }

    fn row(&self, runs: &[Estimate], faults: Compared) -> Judged {
        let priced = self.priced(runs);
        let (price, pooled_share) = self.pooled(runs);
        let prices = (priced.iter().all(|side| !side.is_empty())).then(|| {
            let sides = [0, 1].map(|side| Spread::new(&priced[side], self.allowed[1], DIFF_PRIOR_RUNS));
            self.compare(&sides)
        });
        let faults_mean = 0.5 * (faults.pair.before.value + faults.pair.after.value);
        let is_price_changed = prices.as_ref().is_some_and(|prices| {
            let apart = prices.pair.difference.value.abs();
            apart > prices.judged && apart * faults_mean >= self.threshold * self.largest.1
        });
        let (price, doubts) = match prices.filter(|_| is_price_changed || self.raw_times) {
            Some(prices) => apart(&faults, &prices, faults_mean),
            None => {
                let quantile = |tail| normal(tail) * pooled_share;
                let doubt = |count: f64, of: f64, tail: f64| Doubt {
                    count,
                    price_ns: price,
                    priced_ns: (of * price * quantile(tail)).abs(),
                };
                let Pair { before, after, difference, .. } = faults.pair;
                let doubts = Doubts {
                    before: doubt(half(before), before.value, ONE_TAIL),
                    after: doubt(half(after), after.value, ONE_TAIL),
                    measured: doubt(half(difference), difference.value, self.tail),
                    judged: doubt(faults.judged, difference.value, self.tail),
                };
                ([price; 2], doubts)
            }
        };
        let faults = self.decide(faults, self.largest.0);
        let times = [faults.before.value * price[0], faults.after.value * price[1]];
        Judged { faults, time_ns: self.time(times, &doubts.half_ns()), is_price_changed, doubts }
    }

    /// Faults and time of all rows together. Rows that are not named are taken to be the same on both sides, but for what is missing from
    /// the count.
    pub(super) fn all(&self, totals: &[Estimate], rows: &[Judged]) -> (Pair, Pair) {
        let faults = self.compare_faults(totals);
        let Pair { before, after, difference, .. } = faults.pair;
        let (mean_ns, mean_share) = self.pooled(totals);
        let named = || rows.iter().filter(|row| self.raw_times || row.is_named());
        let sum = |of: &dyn Fn(&Judged) -> f64| named().map(of).sum::<f64>();
        let rest = difference.value - sum(&|row| row.faults.difference.value);
        let change_ns = sum(&|row| row.time_ns.difference.value) + rest * mean_ns;
        let before_ns = rows.iter().map(|row| row.time_ns.before.value).sum::<f64>();
        // What is one row's too much is another's too little: of the whole only the difference of their prices stays.
        let apart = |doubt: &Doubt| (doubt.count * (doubt.price_ns - mean_ns)).hypot(doubt.priced_ns);
        let together =
            |whole: f64, rest: f64, of: fn(&Doubts) -> &Doubt, rows: &mut dyn Iterator<Item = &Judged>| {
                let rows: f64 = rows.map(|row| apart(of(&row.doubts)).powi(2)).sum();
                (whole * mean_ns).hypot(rest * mean_ns * mean_share).hypot(rows.sqrt())
            };
        let (rest, z) = (rest.abs(), normal(self.tail));
        let halves = [
            together(half(before), 0.0, |doubts| &doubts.before, &mut rows.iter()),
            together(half(after), 0.0, |doubts| &doubts.after, &mut rows.iter()),
            together(half(difference), rest * z, |doubts| &doubts.measured, &mut named()),
            together(faults.judged, rest * z, |doubts| &doubts.judged, &mut named()),
        ];
        let time_ns = self.time([before_ns, (before_ns + change_ns).max(0.0)], &halves);
        (self.decide(faults, self.largest.0), time_ns)
    }

    fn decide(&self, Compared { pair, judged }: Compared, largest: f64) -> Pair {
        let apart = pair.difference.value.abs();
        Pair { significant: apart > judged && apart >= self.threshold * largest, ..pair }
    }

    fn time(&self, [before, after]: [f64; 2], halves: &[f64; 4]) -> Pair {
        let positive = |interval: Interval| Interval { low: interval.low.max(0.0), ..interval };
        let pair = Pair {
            before: positive(around(before, halves[0])),
            after: positive(around(after, halves[1])),
            difference: around(after - before, halves[2]),
            significant: false,
        };
        self.decide(Compared { pair, judged: halves[3] }, self.largest.1)
    }

    fn compare_faults(&self, runs: &[Estimate]) -> Compared {
        // Without repeats the allowance is all that is known of what runs differ by: it is taken at its word.
        let sides = self.faults(runs).map(|side| Spread::new(&side, self.allowed[0], f64::INFINITY));
        self.compare(&sides)
    }

    fn compare(&self, [a, b]: &[Spread; 2]) -> Compared {
        let judged = half(b.less(a).interval(self.tail));
        let (a, b) = (a.measured(), b.measured());
        let positive = |interval: Interval| Interval { low: interval.low.max(0.0), ..interval };
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

    /// What a fault takes in each run that has some, with its variance.
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

    /// What a fault takes in all runs together, ns, and by which share of that it may be off, as a standard deviation.
    fn pooled(&self, runs: &[Estimate]) -> (f64, f64) {
        let (mut faults, mut time_ns, mut variance) = (0.0, 0.0, 0.0);
        for (run, common) in runs.iter().zip(self.prices).filter(|(run, _)| run.time_ns > 0.0) {
            let ns = run.time_ns / common;
            (faults, time_ns) = (faults + run.faults, time_ns + ns);
            variance += ns * ns * run.price_variance;
        }
        if time_ns > 0.0 { (time_ns / faults, variance.sqrt() / time_ns) } else { (0.0, 0.0) }
    }
}

impl Compared {
    /// `z` standard deviations are half an interval of the difference.
    fn change(&self, z: f64, certain: f64) -> Change {
        const ONE_SIDE: f64 = 1.96;
        let Pair { before, after, difference, .. } = self.pair;
        let measured = (half(difference) / z).powi(2);
        let sides = [before, after].map(|side| (half(side) / ONE_SIDE).powi(2));
        let scale = measured / (sides[0] + sides[1]).max(f64::MIN_POSITIVE);
        Change {
            before: before.value,
            after: after.value,
            seen: sides.map(|side| side * scale),
            own: ((self.judged / z).powi(2) - measured).max(0.0),
            certain,
        }
    }

    /// The same the other way.
    fn settle(&mut self, change: &Change, z: f64) {
        const ONE_SIDE: f64 = 1.96;
        let [before, after] = change.seen.map(|variance| ONE_SIDE * variance.sqrt());
        let side = |value: f64, half: f64| Interval { low: (value - half).max(0.0), ..around(value, half) };
        self.pair.before = side(change.before, before);
        self.pair.after = side(change.after, after);
        self.pair.difference = around(change.difference(), z * change.measured().sqrt());
        self.judged = z * change.judged().sqrt();
        if change.certain > 0.0 {
            // However few it has beyond them.
            self.judged = self.judged.min((change.difference().abs() - change.certain).max(0.0));
        }
    }
}

impl Doubts {
    fn half_ns(&self) -> [f64; 4] {
        [self.before, self.after, self.measured, self.judged].map(|doubt| doubt.half_ns())
    }
}

/// Each side at its own price: the difference in time is that of counts at the mean price and that of prices at the mean count.
fn apart(faults: &Compared, prices: &Compared, faults_mean: f64) -> ([f64; 2], Doubts) {
    let (before, after) = (prices.pair.before, prices.pair.after);
    let mean_ns = 0.5 * (before.value + after.value);
    let doubt = |count: f64, price_ns: f64, priced_ns: f64| Doubt { count, price_ns, priced_ns };
    let Pair { before: few, after: many, difference, .. } = faults.pair;
    let doubts = Doubts {
        before: doubt(half(few), before.value, few.value * half(before)),
        after: doubt(half(many), after.value, many.value * half(after)),
        measured: doubt(half(difference), mean_ns, faults_mean * half(prices.pair.difference)),
        judged: doubt(faults.judged, mean_ns, faults_mean * prices.judged),
    };
    ([before.value, after.value], doubts)
}

fn half(interval: Interval) -> f64 {
    interval.high - interval.value
}

pub(super) fn around(value: f64, half: f64) -> Interval {
    Interval { value, low: value - half, high: value + half }
}
