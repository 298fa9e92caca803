//! Estimates of several runs -> a difference with its interval, and whether it counts.
//!
//! Three kinds of noise add up. Sampling: a fault that stands for w others adds w (w - 1) to the variance of the count, and
//! where faults recorded in bursts stand for those beside them, a burst is one look (a ratio over clusters; Cochran 1977, ch. 6).
//! Where all faults were counted, samples only say whose they are: what is one row's too much is another's too little. How many
//! of them samples stand for and how many the bursts is in doubt as well ([`crate::profile::Profile::doubt`]).
//! Prices: faults of one row differ in what they cost, and those of one burst are dear or cheap together. From run to run: an
//! allowance stands for it with one recording a side; with repeats that is at least what all rows together spread, and a
//! row's own spread replaces it the more of them there are, as a prior worth [`DIFF_PRIOR_RUNS`] runs.
//! The intervals of differences are those of Student's t with Welch's degrees of freedom, widened so that they
//! hold for all rows that could be named (Bonferroni).

use super::{Pair, Table};
use crate::profile::Weighted;
use crate::stat::Interval;
use crate::tuning::{DIFF_ERROR, DIFF_FAULTS_SPREAD, DIFF_PRIOR_RUNS, DIFF_TIME_SPREAD, ONE_BURST_SHARE};

/// Sums over the faults of a row in one run.
#[derive(Clone, Debug, Default)]
pub(super) struct Figure {
    faults: f64,
    time_ns: f64,
    /// Sum of w (w - 1).
    sampling: f64,
    /// Faults that samples at large stand for.
    sampled: f64,
    /// The number of all of them is known.
    is_counted: bool,
    /// Faults of all of them by which samples may stand for too few or too many, at 95 %.
    doubt: f64,
    /// Sums of w^2, of w^2 p and of w^2 p^2, with p the price of the fault.
    squares: [f64; 3],
    /// By burst, the faults beside it that its own stand for, and their time.
    beside: Vec<(u32, f64, f64)>,
    /// Time of faults that were not recorded singly.
    extrapolated_ns: f64,
}

/// What a run says about a row.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Estimate {
    pub(super) faults: f64,
    pub(super) time_ns: f64,
    /// Variances by what was seen of this run.
    faults_variance: f64,
    time_variance: f64,
    /// Variances of a row of this run that no sample fell into.
    unseen: (f64, f64),
}

impl Estimate {
    /// A row without faults in the run that this is the total of.
    pub(super) fn unseen(&self) -> Self {
        let (faults_variance, time_variance) = self.unseen;
        Self { faults: 0.0, time_ns: 0.0, faults_variance, time_variance, unseen: self.unseen }
    }
}

impl Figure {
    /// Of a whole run; `is_counted`: how many faults it has is known, and samples only tell whose they are. `doubt` is that of
    /// its profile.
    pub(super) fn of_all(is_counted: bool, doubt: f64) -> Self {
        Self { is_counted, doubt, ..Self::default() }
    }

    /// Adds a fault, in the order of time; `burst`: the stretch of recorded windows that it is in.
    pub(super) fn add(&mut self, fault: &Weighted, burst: Option<u32>) {
        let (weight, cost_ns) = (fault.faults, fault.cost_ns);
        if !(weight.is_finite() && cost_ns.is_finite() && weight > 0.0) {
            return;
        }
        self.faults += weight;
        self.time_ns += cost_ns;
        self.sampling += weight * (weight - 1.0).max(0.0);
        let (beside, beside_ns) = ((weight - 1.0).max(0.0), cost_ns * (1.0 - 1.0 / weight).max(0.0));
        self.extrapolated_ns += beside_ns;
        self.sampled += if burst.is_none() { weight } else { 0.0 };
        if let Some(burst) = burst.filter(|_| beside > 0.0) {
            match self.beside.last_mut().filter(|last| last.0 == burst) {
                Some(last) => (last.1, last.2) = (last.1 + beside, last.2 + beside_ns),
                None => self.beside.push((burst, beside, beside_ns)),
            }
        }
        let squares = [weight * weight, weight * cost_ns, cost_ns * cost_ns];
        self.squares.iter_mut().zip(squares).for_each(|(sum, square)| *sum += square);
    }

    /// `all` is the whole run: what a sample of it stands for is added, as if one had been missed.
    pub(super) fn estimate(&self, all: &Figure) -> Estimate {
        let price = |figure: &Figure| if figure.faults > 0.0 { figure.time_ns / figure.faults } else { 0.0 };
        let missed = if all.faults > 0.0 { all.sampling / all.faults } else { 0.0 };
        let missed = missed * (missed + 1.0);
        let unseen = (missed, missed * price(all) * price(all));
        let mean_ns = price(self);
        let sampling = self.sampling_variance(all) + self.bursts_variance(all) + self.doubt_variance(all);
        let [weights, prices, squared] = self.squares;
        let around_mean = squared - 2.0 * mean_ns * prices + mean_ns * mean_ns * weights;
        Estimate {
            faults: self.faults,
            time_ns: self.time_ns,
            faults_variance: sampling + unseen.0,
            time_variance: sampling * mean_ns * mean_ns
                + around_mean.max(0.0)
                + unseen.1
                + self.price_variance() * self.extrapolated_ns.powi(2),
            unseen,
        }
    }
}

impl Figure {
    /// Relative variance of the price that is carried over from bursts: what they differ by, and what few of them do not tell.
    fn price_variance(&self) -> f64 {
        let (faults, time_ns) =
            self.beside.iter().fold((0.0, 0.0), |sum, burst| (sum.0 + burst.1, sum.1 + burst.2));
        if time_ns <= 0.0 {
            return ONE_BURST_SHARE.powi(2);
        }
        let mean_ns = time_ns / faults;
        let apart = self.beside.iter().map(|burst| (burst.2 - mean_ns * burst.1).powi(2)).sum::<f64>();
        let squares = self.beside.iter().map(|burst| burst.1 * burst.1).sum::<f64>();
        let looks = self.beside.len() as f64;
        let seen = if looks > 1.0 { apart * looks / (looks - 1.0) } else { 0.0 };
        seen / (time_ns * time_ns) + ONE_BURST_SHARE.powi(2) * squares / (faults * faults)
    }

    /// What samples leave open: a share s of a known whole varies with (1 - s)^2 of its own variance and s^2 of the others'.
    fn sampling_variance(&self, all: &Figure) -> f64 {
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
        if all.doubt <= 0.0 || self.faults >= all.faults {
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
        let square = |burst: &(u32, f64, f64)| {
            let mine = own.next_if(|mine| mine.0 == burst.0).map_or(0.0, |mine| mine.1);
            (mine - part * burst.1).powi(2)
        };
        all.beside.iter().map(square).sum::<f64>() * looks / (looks - 1.0)
    }
}

/// Knows what is needed to judge a row of a table.
pub(super) struct Judge<'a> {
    /// Runs before.
    pub(super) before: usize,
    prices: &'a [f64],
    threshold: f64,
    largest: (f64, f64),
    /// Probability beyond one end of the interval of a difference.
    tail: f64,
    /// Relative standard deviation from run to run to allow for: of faults, of time.
    allowed: [f64; 2],
}

impl<'a> Judge<'a> {
    pub(super) fn new(table: &Table, prices: &'a [f64], before: usize, threshold: f64) -> Self {
        let largest = table.largest(before, prices);
        let allowed = [DIFF_FAULTS_SPREAD, DIFF_TIME_SPREAD];
        let mut judge = Self { before, prices, threshold, largest, tail: DIFF_ERROR / 2.0, allowed };
        let could_count = |row: &&Vec<Estimate>| {
            let mut runs = row.iter().zip(prices);
            runs.any(|(run, price)| judge.size(run.faults, run.time_ns / price) >= threshold)
        };
        let rows: Vec<_> = table.rows.iter().filter(could_count).map(|row| judge.values(row)).collect();
        for (figure, allowed) in judge.allowed.iter_mut().enumerate() {
            *allowed = allowed.max(common_spread(rows.iter().map(|row| row[figure].split_at(before))));
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

    /// Faults and time of the runs of a row.
    pub(super) fn pairs(&self, runs: &[Estimate]) -> (Pair, Pair) {
        let [faults, time] = self.values(runs);
        (
            self.pair(&faults, self.allowed[0], self.largest.0),
            self.pair(&time, self.allowed[1], self.largest.1),
        )
    }

    /// Faults and time with their variances.
    fn values(&self, runs: &[Estimate]) -> [Vec<(f64, f64)>; 2] {
        let faults = runs.iter().map(|run| (run.faults, run.faults_variance));
        let priced = runs.iter().zip(self.prices);
        let time = priced.map(|(run, price)| (run.time_ns / price, run.time_variance / (price * price)));
        [faults.collect(), time.collect()]
    }

    /// `runs` are values with their variances, `spread` the relative standard deviation to allow from run to run.
    fn pair(&self, runs: &[(f64, f64)], spread: f64, largest: f64) -> Pair {
        const ONE_TAIL: f64 = 0.025;
        let (before, after) = runs.split_at(self.before);
        let (a, b) = (Spread::new(before, spread), Spread::new(after, spread));
        let both = Spread {
            mean: b.mean - a.mean,
            known: a.known + b.known,
            guessed: a.guessed + b.guessed,
            freedom: welch((a.guessed, a.freedom), (b.guessed, b.freedom)),
        };
        let difference = both.interval(self.tail);
        let excludes_0 = difference.low > 0.0 || difference.high < 0.0;
        let significant = excludes_0 && difference.value.abs() >= self.threshold * largest;
        let positive = |interval: Interval| Interval { low: interval.low.max(0.0), ..interval };
        let (before, after) = (positive(a.interval(ONE_TAIL)), positive(b.interval(ONE_TAIL)));
        Pair { before, after, difference, significant }
    }
}

/// A mean and the variance of it: of what is known, and of what runs differ by, with its degrees of freedom.
struct Spread {
    mean: f64,
    known: f64,
    guessed: f64,
    freedom: f64,
}

impl Spread {
    fn new(runs: &[(f64, f64)], spread: f64) -> Self {
        let n = runs.len() as f64;
        let mean = runs.iter().map(|run| run.0).sum::<f64>() / n;
        let within = runs.iter().map(|run| run.1).sum::<f64>() / n;
        let squares: f64 = runs.iter().map(|run| (run.0 - mean).powi(2)).sum();
        // What runs differ by beyond what each is uncertain of itself.
        let between = (squares - (n - 1.0) * within).max(0.0);
        let allowed = (spread * mean).powi(2);
        let freedom = DIFF_PRIOR_RUNS + n - 1.0;
        let guessed = (DIFF_PRIOR_RUNS * allowed + between) / freedom;
        Self { mean, known: within / n, guessed: guessed / n, freedom }
    }

    fn interval(&self, tail: f64) -> Interval {
        let variance = self.known + self.guessed;
        // The known part has no end of freedom.
        let freedom =
            if self.guessed > 0.0 { self.freedom * (variance / self.guessed).powi(2) } else { f64::INFINITY };
        let half = student(tail, freedom) * variance.sqrt();
        Interval { value: self.mean, low: self.mean - half, high: self.mean + half }
    }
}

type Values<'a> = &'a [(f64, f64)];

/// Relative standard deviation from run to run over all rows, beyond what each run is uncertain of; 0 without repeats.
fn common_spread<'a>(rows: impl Iterator<Item = (Values<'a>, Values<'a>)>) -> f64 {
    let sides = rows.flat_map(|(before, after)| [before, after]);
    let (squares, freedom) =
        sides.filter(|side| side.iter().all(|run| run.0 > 0.0)).fold((0.0, 0.0), |sum, side| {
            let Spread { mean, guessed, .. } = Spread::new(side, 0.0);
            let n = side.len() as f64;
            // Back from the variance of a mean, with a prior that allows nothing, to squares.
            (sum.0 + guessed * n * (DIFF_PRIOR_RUNS + n - 1.0) / (mean * mean), sum.1 + n - 1.0)
        });
    if freedom > 0.0 { (squares / freedom).sqrt() } else { 0.0 }
}

/// Degrees of freedom of the sum of two variances (Welch 1947).
fn welch(a: (f64, f64), b: (f64, f64)) -> f64 {
    let part = |(variance, freedom): (f64, f64)| variance * variance / freedom;
    let parts = part(a) + part(b);
    if parts > 0.0 { (a.0 + b.0).powi(2) / parts } else { a.1 + b.1 }
}

/// The value that Student's t exceeds with probability `tail` below 0.5: an expansion in 1 / freedom around the normal
/// quantile (Abramowitz & Stegun 26.7.5), good to 2 % from 4 degrees of freedom on.
fn student(tail: f64, freedom: f64) -> f64 {
    let z = normal(tail);
    let square = z * z;
    let terms = [
        (square + 1.0) / 4.0,
        ((5.0 * square + 16.0) * square + 3.0) / 96.0,
        (((3.0 * square + 19.0) * square + 17.0) * square - 15.0) / 384.0,
        ((((79.0 * square + 776.0) * square + 1482.0) * square - 1920.0) * square - 945.0) / 92160.0,
    ];
    let sum = terms.iter().rev().fold(0.0, |sum, term| (sum + term) / freedom);
    z + z * sum
}

/// The same of the normal distribution (Abramowitz & Stegun 26.2.23), good to 0.0005.
fn normal(tail: f64) -> f64 {
    let t = (-2.0 * tail.max(f64::MIN_POSITIVE).ln()).sqrt();
    let above = (0.010_328 * t + 0.802_853) * t + 2.515_517;
    let below = ((0.001_308 * t + 0.189_269) * t + 1.432_788) * t + 1.0;
    t - above / below
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_those_of_the_tables() {
        for (tail, freedom, expected) in
            [(0.025, f64::INFINITY, 1.960), (0.025, 10.0, 2.228), (0.0005, 8.0, 5.041), (0.0005, 4.0, 8.610)]
        {
            let found = student(tail, freedom);
            assert!((found / expected - 1.0_f64).abs() < 0.02, "{found} for {expected}");
        }
    }

    #[test]
    fn repeats_replace_the_allowance() {
        let one = Spread::new(&[(1000.0, 0.0)], 0.05);
        let alike = Spread::new(&[(1000.0, 0.0); 5], 0.05);
        let apart = Spread::new(&[(500.0, 0.0), (1000.0, 0.0), (1500.0, 0.0), (1000.0, 0.0)], 0.05);
        let width = |spread: &Spread| spread.interval(0.025).high - spread.mean;
        assert!(width(&alike) < 0.4 * width(&one), "{} of {}", width(&alike), width(&one));
        assert!(width(&apart) > 2.0 * width(&one), "{} of {}", width(&apart), width(&one));
    }
}
