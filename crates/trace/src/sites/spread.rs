//! What a row's figures rest on -> how far they may be off, at 95 %.
//!
//! Counts: what was counted is exact. Samples vary as draws do (Wilson). What bursts say about faults beside them varies
//! from burst to burst (a ratio over clusters; Cochran 1977, ch. 6 and 9), with Student's t where there are few. How much
//! the samples and how much the bursts stand for in all is in doubt as well.
//!
//! Times: a count's doubt times the price; the price of what was not timed itself varies from burst to burst; and every
//! reading may be off by [`CALIBRATION_SHARE`] and by [`OFFSET_SHARE`] of what was subtracted from it.

use crate::measurement::{share_interval, student_t};
use crate::profile::{Basis, Weighted};
use crate::stat::Interval;
use crate::tuning::{
    CALIBRATED_HIGH, CALIBRATED_LOW, CALIBRATION_SHARE, LOST_IN_RUNS, OFFSET_SHARE, ONE_BURST_SHARE,
};

/// What one burst says.
#[derive(Clone, Copy, Debug, Default)]
struct Burst {
    number: u32,
    /// Faults beside it that its own stand for.
    extra: f64,
    timed: f64,
    sum_ns: f64,
}

/// Sums over faults of a row, or of all.
#[derive(Clone, Debug, Default)]
pub(super) struct Tally {
    pub(super) records: u64,
    pub(super) faults: f64,
    pub(super) time_ns: f64,
    samples: u64,
    by_samples: f64,
    extra: f64,
    lost: f64,
    assumed_faults: f64,
    assumed_ns: f64,
    bursts: Vec<Burst>,
}

impl Tally {
    /// Adds a fault; in the order of time.
    pub(super) fn add(&mut self, fault: &Weighted, basis: &Basis) {
        self.records += 1;
        self.faults += fault.faults;
        self.time_ns += fault.cost_ns;
        self.assumed_ns += basis.assumed_ns;
        let Some(number) = basis.burst else {
            self.samples += 1;
            self.by_samples += fault.faults;
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
            if let Some(ns) = basis.reading_ns {
                (burst.timed, burst.sum_ns) = (burst.timed + 1.0, burst.sum_ns + ns);
            }
        }
    }

    /// Faults and time with their intervals, as a part of `all`.
    pub(super) fn intervals(&self, all: &Tally, doubt: f64, offset_ns: f64) -> (Interval, Interval) {
        let (below, above) =
            if self.records == all.records { (0.0, 0.0) } else { self.count_spread(all, doubt) };
        let faults = Interval {
            value: self.faults,
            low: (self.faults - below).max(0.0),
            high: (self.faults + above).min(all.faults.max(self.faults)),
        };
        let price_ns = match self.assumed_faults {
            n if n > 0.0 => self.assumed_ns / n,
            _ if self.faults > 0.0 => self.time_ns / self.faults,
            _ => 0.0,
        };
        let (cheaper, dearer) = self.price_spread(all);
        let reading = (CALIBRATION_SHARE * self.time_ns).hypot(OFFSET_SHARE * offset_ns.abs() * self.faults);
        let half = |count: f64, price: f64| (count * price_ns).hypot(self.assumed_ns * price).hypot(reading);
        let time = Interval {
            value: self.time_ns,
            low: (self.time_ns - half(below, cheaper)).max(0.0),
            high: self.time_ns + half(above, dearer),
        };
        (faults, time)
    }

    fn count_spread(&self, all: &Tally, doubt: f64) -> (f64, f64) {
        let share = share_interval(self.samples, all.samples);
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

    /// Shares by which the price of what was not timed may be lower and higher.
    fn price_spread(&self, all: &Tally) -> (f64, f64) {
        let timed: f64 = self.bursts.iter().map(|burst| burst.timed).sum();
        if timed == 0.0 {
            // The price is that of others, or of the calibration.
            let known = all.bursts.iter().any(|burst| burst.timed > 0.0) || all.time_ns > 0.0;
            return if known { (1.0 - CALIBRATED_LOW, CALIBRATED_HIGH - 1.0) } else { (0.0, 0.0) };
        }
        let mean_ns = self.bursts.iter().map(|burst| burst.sum_ns).sum::<f64>() / timed;
        let looks: Vec<&Burst> = self.bursts.iter().filter(|burst| burst.timed > 0.0).collect();
        let n = looks.len() as f64;
        if looks.len() < 2 || mean_ns <= 0.0 {
            return (ONE_BURST_SHARE, ONE_BURST_SHARE);
        }
        let squares: f64 = looks.iter().map(|b| (b.sum_ns - mean_ns * b.timed).powi(2)).sum();
        let half = student_t(looks.len() - 1) * (n / (n - 1.0) * squares).sqrt() / (mean_ns * timed);
        (half.min(1.0), half.min(CALIBRATED_HIGH))
    }
}
