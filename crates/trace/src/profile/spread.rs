//! What a row's figures rest on -> how far they may be off, at 95 %.
//!
//! Counts: what was counted is exact. Samples vary as draws do (Wilson). What bursts say about faults beside them varies
//! from burst to burst (a ratio over clusters; Cochran 1977, ch. 6 and 9), with Student's t where there are few. How much
//! the samples and how much the bursts stand for in all is in doubt as well.
//!
//! Times: a count's doubt times the price; the price of what was not timed itself varies from burst to burst, by what was seen and,
//! where bursts are few, by what is usual; a row whose faults were not timed may cost what any other does; and every reading may
//! be off by [`CALIBRATION_SHARE`] and by [`OFFSET_SHARE`] of what was subtracted from it.

use super::{Basis, Weighted};
use crate::measurement::{share_interval, student_t};
use crate::stat::strata::KINDS;
use crate::stat::{Interval, Kind};
use crate::tuning::{
    CALIBRATED_HIGH, CALIBRATED_LOW, CALIBRATION_SHARE, LOST_IN_RUNS, OFFSET_SHARE, ONE_BURST_SHARE,
    PRICE_PRIOR_BURSTS, PRICED_FAULTS,
};

/// What one burst says of counts.
#[derive(Clone, Copy, Debug, Default)]
struct Burst {
    number: u32,
    /// Faults beside it that its own stand for.
    extra: f64,
}

/// What one burst, or a sample by itself, says of prices.
#[derive(Clone, Copy, Debug, Default)]
struct Look {
    burst: Option<u32>,
    timed: f64,
    /// Faults that the timed ones are like, and their time.
    alike: f64,
    sum_ns: f64,
}

/// Timed faults of a kind, major ones apart, which wait for a disk.
#[derive(Clone, Copy, Debug, Default)]
struct Timed {
    timed: f64,
    sum_ns: f64,
}

/// Sums over faults of a row, or of all.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tally {
    pub(crate) records: u64,
    pub(crate) faults: f64,
    pub(crate) time_ns: f64,
    by_samples: f64,
    /// Squares of what each sample stands for.
    by_samples_squared: f64,
    extra: f64,
    lost: f64,
    assumed_faults: f64,
    assumed_ns: f64,
    bursts: Vec<Burst>,
    looks: Vec<Look>,
    kinds: [Timed; KINDS],
}

impl Tally {
    /// Adds a fault; in the order of time.
    pub(crate) fn add(&mut self, fault: &Weighted, basis: &Basis) {
        self.records += 1;
        self.faults += fault.faults;
        self.time_ns += fault.cost_ns;
        self.assumed_ns += basis.assumed_ns;
        if let Some(ns) = basis.reading_ns {
            self.time(fault.kind, basis, ns);
        }
        let Some(number) = basis.burst else {
            self.by_samples += fault.faults;
            self.by_samples_squared += fault.faults * fault.faults;
            self.assumed_faults += fault.faults;
            return;
        };
        let extra = fault.faults - basis.exact;
        self.extra += extra;
        self.assumed_faults += extra;
        self.lost += (basis.exact * (basis.exact - 1.0)).max(0.0);
        if self.bursts.last().is_none_or(|burst| burst.number != number) {
            self.bursts.push(Burst { number, ..Burst::default() });
        }
        if let Some(burst) = self.bursts.last_mut() {
            burst.extra += extra;
        }
    }

    fn time(&mut self, kind: Kind, basis: &Basis, ns: f64) {
        if self.looks.last().is_none_or(|look| look.burst.is_none() || look.burst != basis.burst) {
            self.looks.push(Look { burst: basis.burst, ..Look::default() });
        }
        if let Some(look) = self.looks.last_mut() {
            look.timed += 1.0;
            (look.alike, look.sum_ns) = (look.alike + basis.alike, look.sum_ns + basis.alike * ns);
        }
        if kind != Kind::Major {
            let kind = &mut self.kinds[kind as usize];
            (kind.timed, kind.sum_ns) = (kind.timed + 1.0, kind.sum_ns + ns);
        }
    }

    /// Faults and time with their intervals, as a part of `all`.
    pub(crate) fn intervals(&self, all: &Tally, doubt: f64, offset_ns: f64) -> (Interval, Interval) {
        let (below, above) =
            if self.records == all.records { (0.0, 0.0) } else { self.count_spread(all, doubt) };
        let faults = Interval {
            value: self.faults,
            low: (self.faults - below).max(0.0),
            high: (self.faults + above).min(all.faults.max(self.faults)),
        };
        let price_ns = self.price_ns();
        let (cheaper, dearer) = self.assumed_spread_ns(all);
        let reading = self.reading_spread_ns(offset_ns);
        let half = |count: f64, price_ns_off: f64| (count * price_ns).hypot(price_ns_off).hypot(reading);
        let time = Interval {
            value: self.time_ns,
            low: (self.time_ns - half(below, cheaper)).max(0.0),
            high: self.time_ns + half(above, dearer),
        };
        (faults, time)
    }

    /// What a fault that was not timed is taken to take, ns.
    fn price_ns(&self) -> f64 {
        match self.assumed_faults {
            n if n > 0.0 => self.assumed_ns / n,
            _ if self.faults > 0.0 => self.time_ns / self.faults,
            _ => 0.0,
        }
    }

    /// What faults that were not timed may take less and more in all, ns.
    pub(crate) fn assumed_spread_ns(&self, all: &Tally) -> (f64, f64) {
        let (cheaper, dearer) = self.price_spread(self.price_ns(), all);
        (self.assumed_ns * cheaper, self.assumed_ns * dearer)
    }

    /// What all may take less or more because every reading may be off, ns.
    pub(crate) fn reading_spread_ns(&self, offset_ns: f64) -> f64 {
        (CALIBRATION_SHARE * self.time_ns).hypot(OFFSET_SHARE * offset_ns.abs() * self.faults)
    }

    fn count_spread(&self, all: &Tally, doubt: f64) -> (f64, f64) {
        // Kish's effective number: samples stand for unlike numbers of faults.
        let samples = all.by_samples.powi(2) / all.by_samples_squared.max(f64::MIN_POSITIVE);
        let hits = self.by_samples / all.by_samples.max(f64::MIN_POSITIVE) * samples;
        let share = share_interval(hits, samples);
        let by_samples =
            [share.value - share.low, share.high - share.value].map(|part| part * all.by_samples);
        // Records are lost in runs, not one by one.
        let lost = LOST_IN_RUNS * 1.96 * self.lost.sqrt();
        let part = |own: f64, all: f64| if all > 0.0 { own / all * doubt } else { 0.0 };
        let shifted = match all.extra > 0.0 {
            true => part(self.extra, all.extra) - part(self.by_samples, all.by_samples),
            false => part(self.by_samples, all.by_samples),
        };
        let beside = self.extra_spread(all).hypot(shifted);
        let [below, above] = by_samples.map(|part| part.hypot(lost).hypot(beside));
        (below, above)
    }

    /// Of what the bursts stand for beside them, how much the row's part may be off.
    fn extra_spread(&self, all: &Tally) -> f64 {
        let looks = all.bursts.iter().filter(|burst| burst.extra > 0.0).count();
        if all.extra <= 0.0 {
            return 0.0;
        }
        if looks < 2 {
            return self.extra.max(all.extra - self.extra);
        }
        let part = self.extra / all.extra;
        let mut own = self.bursts.iter().peekable();
        let square = |burst: &Burst| {
            let mine = own.next_if(|mine| mine.number == burst.number).map_or(0.0, |mine| mine.extra);
            (mine - part * burst.extra).powi(2)
        };
        let squares: f64 = all.bursts.iter().map(square).sum();
        let looks_f = looks as f64;
        student_t(looks - 1) * (looks_f / (looks_f - 1.0) * squares).sqrt()
    }

    /// Shares by which the price of what was not timed may be lower and higher than `price_ns`.
    fn price_spread(&self, price_ns: f64, all: &Tally) -> (f64, f64) {
        let timed: f64 = self.looks.iter().map(|look| look.timed).sum();
        let sum_ns: f64 = self.looks.iter().map(|look| look.sum_ns).sum();
        if timed < PRICED_FAULTS as f64 || sum_ns <= 0.0 {
            return all.foreign_price_spread(price_ns);
        }
        let all_looks: Vec<&Look> = self.looks.iter().filter(|look| look.alike > 0.0).collect();
        let alike: f64 = all_looks.iter().map(|look| look.alike).sum();
        let mean_ns = sum_ns / alike;
        // Kish's effective number: looks that stand for few faults tell little.
        let looks = alike * alike / all_looks.iter().map(|look| look.alike * look.alike).sum::<f64>();
        let free = looks - 1.0;
        // Looks at regular times follow a price that drifts (memory that a hypervisor backs at first touch), and neighbours alone tell
        // how far one of them may be off: successive differences (Wolter 2007, ch. 8).
        let (mut seen, mut weight) = (0.0, 0.0);
        for (a, b) in all_looks.iter().zip(all_looks.iter().skip(1)) {
            let apart = (a.sum_ns / a.alike - b.sum_ns / b.alike) / mean_ns;
            let both = a.alike.min(b.alike);
            (seen, weight) = (seen + both * apart * apart / 2.0, weight + both);
        }
        let seen = if weight > 0.0 { seen / weight } else { 0.0 };
        let variance =
            (PRICE_PRIOR_BURSTS * ONE_BURST_SHARE.powi(2) + free * seen) / (PRICE_PRIOR_BURSTS + free);
        let half = student_t((PRICE_PRIOR_BURSTS + free) as usize) * (variance / looks).sqrt();
        (half.min(1.0), half)
    }

    /// The same where the price is that of others, or of the calibration: it may be any of those seen.
    fn foreign_price_spread(&self, price_ns: f64) -> (f64, f64) {
        if price_ns <= 0.0 {
            return (0.0, 0.0);
        }
        let known = self.kinds.iter().filter(|kind| kind.timed >= PRICED_FAULTS as f64);
        let means = known.map(|kind| kind.sum_ns / kind.timed / price_ns);
        let (low, high) = means
            .fold((CALIBRATED_LOW, CALIBRATED_HIGH), |(low, high), mean| (low.min(mean), high.max(mean)));
        (1.0 - low, high - 1.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A row with bursts of 50 faults that took so long each, one look at a time.
    fn row(means_ns: &[f64]) -> Tally {
        let look = |(number, mean_ns): (usize, &f64)| Look {
            burst: Some(number as u32),
            timed: 50.0,
            alike: 50.0,
            sum_ns: 50.0 * mean_ns,
        };
        Tally { looks: means_ns.iter().enumerate().map(look).collect(), ..Tally::default() }
    }

    fn half(means_ns: &[f64]) -> f64 {
        row(means_ns).price_spread(1000.0, &Tally::default()).1
    }

    #[test]
    fn few_bursts_leave_more_doubt_than_many_and_unlike_ones_more_than_like_ones() {
        let steady = [1000.0; 40];
        assert!((0.5..1.0).contains(&half(&steady[..1])), "{}", half(&steady[..1]));
        assert!(half(&steady[..1]) > half(&steady[..4]) && half(&steady[..4]) > half(&steady));
        assert!(half(&steady) < 0.06, "{}", half(&steady));
        let wild: Vec<f64> = (0..40).map(|look| if look % 2 == 0 { 500.0 } else { 1500.0 }).collect();
        assert!(half(&wild) > 0.15, "{}", half(&wild));
    }

    #[test]
    fn a_price_that_drifts_is_known_better_than_one_that_jumps() {
        let drift: Vec<f64> = (0..40).map(|look| if look < 15 { 11_000.0 } else { 1_800.0 }).collect();
        let jumps: Vec<f64> = (0..40).map(|look| if look % 8 < 3 { 11_000.0 } else { 1_800.0 }).collect();
        assert!(half(&drift) < half(&jumps) / 2.0, "{} {}", half(&drift), half(&jumps));
    }

    #[test]
    fn a_row_that_was_not_timed_may_cost_what_any_kind_does() {
        let mut all = Tally::default();
        all.kinds[Kind::ZeroPageRead as usize] = Timed { timed: 100.0, sum_ns: 1_000_000.0 };
        let (cheaper, dearer) = Tally::default().price_spread(1000.0, &all);
        assert_eq!((cheaper, dearer), (1.0 - CALIBRATED_LOW, 9.0));
    }
}
