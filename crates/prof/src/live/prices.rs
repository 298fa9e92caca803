//! What a fault costs while it is watched.
//!
//! In: readings of single faults, or what the kernel timed of each process; and the pair's offset ([`Calibration`]). Out: the mean time of a fault, overall and
//! per process. Waits are cut: a reading far above the median counts as an upper bound.
//!
//! It does not tell kinds of faults apart (`trace`).

use std::collections::{HashMap, VecDeque};

use faultless_trace::observation::Calibration;
use faultless_trace::stat::WAIT_LATENCY_RATIO;

use crate::tuning as t;

/// The current price of a fault.
#[derive(Debug, Default)]
pub(super) struct Prices {
    calibrated_ns: f64,
    offset_ns: f64,
    timed: VecDeque<(u32, f64)>,
    of_process: HashMap<u32, f64>,
    of_all: Option<f64>,
    /// Faults that the kernel timed in the last interval that had any, if it does.
    in_kernel: Option<u64>,
}

impl Prices {
    /// Only the start-up calibration so far.
    pub(super) fn new(calibration: Option<&Calibration>) -> Self {
        Self {
            calibrated_ns: calibration.map_or(0.0, |found| found.truth_p50_ns),
            offset_ns: calibration.map_or(0.0, Calibration::offset_ns),
            ..Self::default()
        }
    }

    /// Takes the readings of a burst.
    pub(super) fn add(&mut self, readings: Vec<(u32, f64)>) {
        if readings.is_empty() {
            return;
        }
        self.timed.extend(readings);
        self.timed.drain(..self.timed.len().saturating_sub(t::LIVE_TIMED_MAX));
        let mut all: Vec<f64> = self.timed.iter().map(|(_, ns)| *ns).collect();
        let middle = all.len() / 2;
        let most = *all.select_nth_unstable_by(middle, f64::total_cmp).1 * WAIT_LATENCY_RATIO;
        let mut sums: HashMap<u32, (f64, usize)> = HashMap::new();
        for (pid, ns) in &self.timed {
            let (sum, count) = sums.entry(*pid).or_default();
            (*sum, *count) = (*sum + (ns.min(most) - self.offset_ns).max(0.0), *count + 1);
        }
        let mean = |(sum, count): (f64, usize)| (count >= t::LIVE_TIMED_MIN).then(|| sum / count as f64);
        self.of_all = mean(sums.values().fold((0.0, 0), |all, one| (all.0 + one.0, all.1 + one.1)));
        self.of_process = sums.into_iter().filter_map(|(pid, one)| Some((pid, mean(one)?))).collect();
    }

    /// Takes what the kernel timed in an interval: by process, how many faults and how long they took, ns. An interval
    /// without faults leaves the prices.
    pub(super) fn measured(&mut self, timed: &[(u32, u64, f64)]) {
        let (faults, ns) = timed.iter().fold((0, 0.0), |all, of| (all.0 + of.1, all.1 + of.2));
        if faults > 0 {
            self.in_kernel = Some(faults);
            self.of_all = Some(ns / faults as f64);
            self.of_process = timed.iter().map(|&(pid, faults, ns)| (pid, ns / faults as f64)).collect();
        }
    }

    /// Nanoseconds per fault of a process; the overall price if too few of its faults were timed.
    pub(super) fn of(&self, pid: u32) -> f64 {
        self.of_process.get(&pid).copied().unwrap_or(self.of_all())
    }

    /// Nanoseconds per fault overall; the calibration if too few were timed.
    pub(super) fn of_all(&self) -> f64 {
        self.of_all.unwrap_or(self.calibrated_ns)
    }

    /// Timed faults behind [`Prices::of_all`]; 0: the price is the calibration's.
    pub(super) fn timed(&self) -> usize {
        self.in_kernel.map_or_else(|| self.of_all.map_or(0, |_| self.timed.len()), |faults| faults as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_has_its_own_price_once_enough_of_its_faults_were_timed() {
        let calibration = Calibration {
            truth_p50_ns: 1000.0,
            pair_p50_ns: 1200.0,
            record_cost_ns: 0.0,
            pages: 9,
            offset_error_ns: 0.0,
            read_offset_ns: None,
            mapped_offset_ns: None,
        };
        let mut prices = Prices::new(Some(&calibration));
        assert_eq!((prices.of_all(), prices.of(7), prices.timed()), (1000.0, 1000.0, 0));
        prices.add(vec![(7, 1700.0); t::LIVE_TIMED_MIN]);
        prices.add(vec![(8, 700.0); t::LIVE_TIMED_MIN - 1]);
        prices.add(vec![(9, 700.0)]);
        assert_eq!((prices.of(7), prices.of_all()), (1500.0, 1000.0));
        assert_eq!(prices.of(8), 1000.0, "one too few");
    }

    #[test]
    fn times_of_the_kernel_are_the_price_and_stay_while_nothing_faults() {
        let mut prices = Prices::new(None);
        prices.measured(&[(7, 10, 9_000.0), (8, 30, 15_000.0)]);
        assert_eq!((prices.of(7), prices.of(9), prices.timed()), (900.0, 600.0, 40));
        prices.measured(&[]);
        assert_eq!((prices.of(7), prices.timed()), (900.0, 40));
    }

    #[test]
    fn a_wait_counts_as_a_bound_and_old_readings_go() {
        let mut prices = Prices::new(None);
        prices.add(vec![(7, 1e12)]);
        prices.add(vec![(7, 1000.0); t::LIVE_TIMED_MIN]);
        assert!(prices.of(7) < 4000.0, "{}", prices.of(7));
        prices.add(vec![(7, 500.0); t::LIVE_TIMED_MAX]);
        assert_eq!((prices.of(7), prices.timed()), (500.0, t::LIVE_TIMED_MAX));
    }
}
