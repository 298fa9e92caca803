//! Sums over the faults of a row in one run -> an estimate of its faults and their time, with its variance.

use crate::profile::{Basis, Tally, Weighted};

/// Sums over the faults of a row in one run.
#[derive(Clone, Debug, Default)]
pub(super) struct Figure {
    faults: f64,
    time_ns: f64,
    /// The sum of w (w - 1) in bursts.
    sampling: f64,
    /// Faults that samples represent beyond themselves, and the sum of their squares per sample.
    sampled: f64,
    sampled_squares: f64,
    /// Samples per independent one: more than 1 if sampling aliases with the program.
    in_step: f64,
    /// The number of all of them is known.
    is_counted: bool,
    /// Error at 95 % of the faults that all samples together represent.
    doubt: f64,
    /// Sums of w^2, of w^2 p and of w^2 p^2, with p the price of the fault.
    squares: [f64; 3],
    /// Recorded faults at the start of the run, up to the length that every run recorded completely.
    pub(super) leading: f64,
    /// All recorded faults.
    recorded: f64,
    /// By burst, the faults that it represents beyond its own.
    beside: Vec<(u32, f64)>,
    /// For the price of faults that were not timed.
    tally: Tally,
}

/// The estimate of a row in one run.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Estimate {
    pub(super) faults: f64,
    pub(super) time_ns: f64,
    /// Recorded faults, and the leading ones of them ([`Figure::leading`]).
    pub(super) recorded: f64,
    pub(super) leading: f64,
    /// Sampling variance of the faults.
    pub(super) faults_variance: f64,
    /// Relative variance of the price of one.
    pub(super) price_variance: f64,
    /// Variance of the faults of a row of this run without any sample.
    pub(super) unseen: f64,
    /// Relative standard deviation from run to run to allow because chance decides which row gets these
    /// faults: threads or processes share the work, or code was generated at run time.
    pub(super) chance: f64,
    /// The same if no other row has lost or gained these faults.
    pub(super) chance_alone: f64,
    /// Relative standard deviation from run to run of faults that come from other rows or go there: most are of a
    /// kind for which chance decides which code takes them.
    pub(super) moved: f64,
    /// The independent samples that it rests on.
    pub(super) hits: f64,
    /// Faults of the run per independent sample; 1 if every fault was recorded.
    pub(super) per_hit: f64,
}

impl Estimate {
    /// A row without faults in the run with this total.
    pub(super) fn unseen(&self) -> Self {
        Self { faults_variance: self.unseen, unseen: self.unseen, per_hit: self.per_hit, ..Self::default() }
    }

    /// Time with its variance; `price_ns` is the price for a row without samples.
    pub(super) fn time(&self, price_ns: f64) -> (f64, f64) {
        let each_ns = if self.faults > 0.0 { self.time_ns / self.faults } else { price_ns };
        let of_count = each_ns * each_ns * self.faults_variance;
        (self.time_ns, of_count + self.time_ns * self.time_ns * self.price_variance)
    }
}

impl Figure {
    /// The figure of a whole run. `is_counted`: its number of faults is exact, and samples only share it out.
    /// `doubt` comes from its profile; `in_step` is the number of samples per independent one.
    pub(super) fn of_all(is_counted: bool, doubt: f64, in_step: f64) -> Self {
        Self { is_counted, doubt, in_step, ..Self::default() }
    }

    /// Adds a fault, in the order of time; `burst` is its run of recorded windows.
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
        // If the whole was counted, no fault of it can have been missed.
        let is_whole = all.is_counted && self.faults >= all.faults;
        Estimate {
            faults: self.faults,
            time_ns: self.time_ns,
            recorded: self.recorded,
            leading: self.leading,
            faults_variance: if is_whole { 0.0 } else { self.faults_variance(all) },
            price_variance: self.price_variance(all),
            unseen: Figure::default().faults_variance(all),
            chance: 0.0,
            chance_alone: 0.0,
            moved: 0.0,
            hits: self.sampled / (all.per_hit() - 1.0).max(1.0),
            per_hit: all.per_hit(),
        }
    }

    fn faults_variance(&self, all: &Figure) -> f64 {
        // One missed fault is added: as many as a fault in a burst represents.
        let missed = if all.faults > 0.0 { all.sampling / all.faults } else { 0.0 };
        let in_bursts =
            self.bursts_sampling_variance(all) + self.bursts_variance(all) + missed * (missed + 1.0);
        self.samples_variance(all) + in_bursts + self.doubt_variance(all)
    }

    /// Relative variance of the price: faults differ in cost, and most of them may not have been timed.
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

    /// Sampling variance: a share of a known whole, with two more hits and two more misses so that 0 and all
    /// have a width (Agresti & Coull 1998). If the whole is not known, its variance is added.
    fn samples_variance(&self, all: &Figure) -> f64 {
        const MORE: f64 = 4.0;
        if all.sampled <= 0.0 {
            return 0.0;
        }
        let samples = all.sampled / (all.per_hit() - 1.0);
        let share = self.sampled / all.sampled;
        let wide = (share * samples + MORE / 2.0) / (samples + MORE);
        let of_share = wide * (1.0 - wide) / (samples + MORE);
        let of_whole = if all.is_counted { 0.0 } else { share * share / samples };
        all.sampled * all.sampled * (of_share + of_whole)
    }

    /// Faults per sample, by Kish's effective number: samples represent different numbers of faults.
    fn per_hit(&self) -> f64 {
        let beside = if self.sampled > 0.0 { self.sampled_squares / self.sampled } else { 0.0 };
        1.0 + beside * self.in_step.max(1.0)
    }

    /// The same for faults in bursts: a share s has (1 - s)^2 of its own variance and s^2 of the others'.
    fn bursts_sampling_variance(&self, all: &Figure) -> f64 {
        let share = if all.is_counted && all.faults > 0.0 { self.faults / all.faults } else { 0.0 };
        (self.sampling * (1.0 - 2.0 * share) + all.sampling * share * share).max(0.0)
    }

    /// Faults that bursts represent beyond their own.
    fn beside_bursts(&self) -> f64 {
        self.beside.iter().map(|burst| burst.1).sum()
    }

    /// The uncertain faults belong to rows that samples describe, or to rows that bursts describe.
    fn doubt_variance(&self, all: &Figure) -> f64 {
        const SIGMAS: f64 = 1.96;
        if all.doubt <= 0.0 {
            return 0.0;
        }
        let part = |own: f64, all: f64| if all > 0.0 { own / all } else { 0.0 };
        let shifted = part(self.beside_bursts(), all.beside_bursts()) - part(self.sampled, all.sampled);
        (shifted * all.doubt / SIGMAS).powi(2)
    }

    /// Variance of this row's share between bursts.
    fn bursts_variance(&self, all: &Figure) -> f64 {
        let whole = all.beside_bursts();
        let bursts = all.beside.len() as f64;
        if whole <= 0.0 || bursts < 2.0 {
            return 0.0;
        }
        let part = self.beside_bursts() / whole;
        let mut own = self.beside.iter().peekable();
        let square = |burst: &(u32, f64)| {
            let mine = own.next_if(|mine| mine.0 == burst.0).map_or(0.0, |mine| mine.1);
            (mine - part * burst.1).powi(2)
        };
        all.beside.iter().map(square).sum::<f64>() * bursts / (bursts - 1.0)
    }
}
