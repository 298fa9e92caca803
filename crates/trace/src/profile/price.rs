//! Timed faults -> the mean time by site and kind, and the kinds of sampled faults.
//!
//! A reading is corrected by the calibrated offset and by the time without a processor, and is never below 0. It is
//! capped at [`WAIT_LATENCY_RATIO`] medians of its kind: a longer fault waited. What a fault waited is known if switches
//! were recorded, and is no CPU time. A fault without a reading
//! takes a mean. The mean is of its stack and kind if enough were timed; else of its touching site and kind;
//! else of its kind; else of all; else the calibrated time of a first touch. Means are weighted, because a
//! program's start is recorded more densely.
//!
//! The kind of a sampled fault is known if the kernel reported the pages mapped before and after it.
//! Otherwise it follows from mapping and access, and from the faults recorded at its stack or its site at
//! about its time (`alike`). Without stacks the instruction stands for the stack.

use std::collections::HashMap;

use super::alike::Neighbours;
use super::cold::Excesses;
use super::weigh::{Weight, Weights};
use crate::fault::{Fault, Faults};
use crate::kind::{ALL, KINDS, Kind};
use crate::measurement::weighted_median;
use crate::observation::{Calibration, Observation};
use crate::recording::Stacks;
use crate::recording::touching::Touching;
use crate::tuning::{BURST_WORTH, HUGE_PRIOR_FAULTS, PRICED_FAULTS, THP_PRICE_RATIO, WAIT_LATENCY_RATIO};

/// Sum of times, sum of weights, and number.
#[derive(Clone, Copy, Debug, Default)]
struct Mean {
    sum: f64,
    weight: f64,
    timed: u64,
}

impl Mean {
    fn add(&mut self, ns: f64, weight: f64) {
        (self.sum, self.weight, self.timed) = (self.sum + ns * weight, self.weight + weight, self.timed + 1);
    }

    fn of(&self, at_least: u64) -> Option<f64> {
        (self.timed >= at_least.max(1) && self.weight > 0.0).then(|| self.sum / self.weight)
    }
}

/// What faults take.
pub(super) struct Prices {
    touching: Touching,
    /// Numbers of instructions, which stand for stacks if none are recorded.
    instructions: HashMap<u64, u32>,
    offset_ns: [f64; KINDS],
    /// The excess of a timed sample: a recorder that rarely runs is cold.
    cold: Excesses,
    /// The weight of faults in bursts beside timed samples.
    pub(super) burst_part: f64,
    cap_ns: [f64; KINDS],
    by_stack: HashMap<(u32, Kind), Mean>,
    by_site: HashMap<(u32, Kind), Mean>,
    by_kind: Vec<Mean>,
    tells_switches: bool,
    /// What faults of a kind wait.
    waits: Vec<Mean>,
    all: Mean,
    calibrated_ns: f64,
    calibrated_huge_ns: Option<f64>,
    kinds_by_stack: Neighbours,
    kinds_by_site: Neighbours,
}

impl Prices {
    pub(super) fn new(found: &Faults, weights: &Weights, observation: &Observation, stacks: &Stacks) -> Self {
        let calibration = observation.calibration.filter(Calibration::is_sound);
        let mut prices = Self {
            touching: Touching::new(stacks),
            instructions: HashMap::new(),
            offset_ns: ALL.map(|kind| calibration.map_or(0.0, |found| found.offset_ns_of(kind))),
            cold: Excesses::new(found, weights),
            burst_part: burst_part(found, weights),
            cap_ns: [f64::MAX; KINDS],
            by_stack: HashMap::new(),
            by_site: HashMap::new(),
            by_kind: vec![Mean::default(); KINDS],
            tells_switches: found.tells_switches,
            waits: vec![Mean::default(); KINDS],
            all: Mean::default(),
            calibrated_ns: calibration.map_or(0.0, |found| found.truth_p50_ns),
            calibrated_huge_ns: observation.counts.huge_ns.map(|ns| ns as f64),
            kinds_by_stack: Neighbours::new(),
            kinds_by_site: Neighbours::new(),
        };
        if stacks.stacks.is_empty() {
            prices.number_instructions(found);
        }
        prices.find_caps(found, weights);
        for (fault, weight) in found.faults.iter().zip(&weights.recorded).filter(|(_, w)| w.alike > 0.0) {
            prices.learn_kind(fault);
            prices.learn(fault, prices.reading_ns(fault), weight.alike * prices.burst_part);
        }
        for (sample, weight) in found.samples.iter().zip(&weights.samples).filter(|(_, w)| **w > 0.0) {
            let (fault, period) = sample;
            if fault.is_certain {
                prices.learn_kind(fault);
            }
            prices.learn(fault, prices.sample_ns(fault, *period), *weight);
        }
        prices.kinds_by_stack.sort();
        prices.kinds_by_site.sort();
        prices
    }

    fn number_instructions(&mut self, found: &Faults) {
        for fault in found.faults.iter().chain(found.samples.iter().map(|(fault, _)| fault)) {
            let next = self.instructions.len() as u32;
            self.instructions.entry(fault.ip).or_insert(next);
        }
    }

    /// The touching stack, or the instruction if no stacks are recorded.
    fn stack(&self, fault: &Fault) -> Option<u32> {
        fault.stack.or_else(|| self.instructions.get(&fault.ip).copied())
    }

    fn find_caps(&mut self, found: &Faults, weights: &Weights) {
        let mut readings: Vec<Vec<(f64, f64)>> = vec![Vec::new(); KINDS];
        for (fault, weight) in found.faults.iter().zip(&weights.recorded) {
            if let Some(ns) = self.corrected_ns(fault) {
                readings[fault.kind as usize].push((ns.max(0.0), weight.alike));
            }
        }
        for (cap, readings) in self.cap_ns.iter_mut().zip(readings) {
            if let Some(p50) = weighted_median(readings).filter(|p50| *p50 > 0.0) {
                *cap = p50 * WAIT_LATENCY_RATIO;
            }
        }
    }

    /// Learns the kind of a fault at its stack and site. Its own end shows whether a page is huge.
    fn learn_kind(&mut self, fault: &Fault) {
        if matches!(fault.kind, Kind::Major | Kind::Thp) {
            return;
        }
        let (place, stack) = (fault.kind_without_past, self.stack(fault));
        let site = stack.and_then(|stack| self.touching.frame(stack));
        if let Some(stack) = stack {
            self.kinds_by_stack.add((stack, place), fault);
        }
        if let Some(site) = site {
            self.kinds_by_site.add((site, place), fault);
        }
    }

    fn learn(&mut self, fault: &Fault, reading_ns: Option<f64>, weight: f64) {
        let kind = fault.kind;
        let stack = self.stack(fault);
        let site = stack.and_then(|stack| self.touching.frame(stack));
        let Some(ns) = reading_ns else { return };
        let wait_ns = self.own_wait_ns(fault).unwrap_or(0.0);
        self.waits[kind as usize].add(wait_ns, weight);
        if let Some(stack) = stack {
            self.by_stack.entry((stack, kind)).or_default().add(ns, weight);
        }
        if let Some(site) = site {
            self.by_site.entry((site, kind)).or_default().add(ns, weight);
        }
        self.by_kind[kind as usize].add(ns, weight);
        if kind != Kind::Major {
            self.all.add(ns, weight);
        }
    }

    /// As [`Prices::reading_ns`], for a sample.
    pub(super) fn sample_ns(&self, fault: &Fault, period: u64) -> Option<f64> {
        Some((self.reading_ns(fault)? - self.cold.of(period, fault).ns).max(0.0))
    }

    /// Error at 95 % of the time of a sampled fault that all samples of its period share, ns.
    pub(super) fn shared_spread_ns(&self, fault: &Fault, period: u64) -> f64 {
        if fault.kind == Kind::Major { 0.0 } else { self.cold.of(period, fault).spread_ns }
    }

    /// The corrected time of a recorded fault, ns, if it is representative.
    fn reading_ns(&self, fault: &Fault) -> Option<f64> {
        Some(self.corrected_ns(fault)?.clamp(0.0, self.cap_ns[fault.kind as usize]))
    }

    /// CPU time. Without switches a major fault's is not known, and counts as none.
    fn corrected_ns(&self, fault: &Fault) -> Option<f64> {
        fault.reading_ns()?;
        if fault.kind == Kind::Major && !self.tells_switches {
            return Some(0.0);
        }
        let offset_ns = self.offset_ns[fault.kind as usize];
        // A trap from kernel mode has next to nothing outside the two time stamps.
        Some(fault.on_cpu_ns() as f64 - if fault.kernel { offset_ns.max(0.0) } else { offset_ns })
    }

    /// How long a fault waited, ns, if that is known. Without switches a major fault's whole time is a wait.
    fn own_wait_ns(&self, fault: &Fault) -> Option<f64> {
        let is_major = fault.kind == Kind::Major;
        if self.tells_switches && (is_major || fault.duration_ns.is_some()) {
            return Some(fault.blocked_ns as f64);
        }
        let reading_ns = fault.reading_ns()?;
        Some(if is_major { reading_ns.saturating_sub(fault.preempted_ns) as f64 } else { 0.0 })
    }

    /// How long a fault like this one waits, ns: as long as itself, or the mean of its kind.
    pub(super) fn wait_ns(&self, fault: &Fault, kind: Kind) -> f64 {
        let of_kind = || self.waits[kind as usize].of(1).unwrap_or(0.0);
        self.own_wait_ns(fault).unwrap_or_else(of_kind)
    }

    /// Mean time of a fault like this one, if it is of this kind, ns; 0 if nothing is known.
    pub(super) fn mean_ns(&self, fault: &Fault, kind: Kind) -> f64 {
        let stack = self.stack(fault);
        let by_stack = || self.by_stack.get(&(stack?, kind))?.of(PRICED_FAULTS);
        let by_site = || self.by_site.get(&(self.touching.frame(stack?)?, kind))?.of(PRICED_FAULTS);
        let by_kind = |at_least| self.by_kind[kind as usize].of(at_least);
        let others = || match kind {
            Kind::Major => by_kind(1),
            Kind::Thp => Some(self.few_huge_ns()),
            _ => self.all.of(1),
        };
        by_stack()
            .or_else(by_site)
            .or_else(|| by_kind(PRICED_FAULTS))
            .or_else(others)
            .unwrap_or(self.calibrated_ns)
    }

    /// Time of a fault of a huge page with few or no timed ones, ns: the calibrated price counts like
    /// [`HUGE_PRIOR_FAULTS`] of them.
    fn few_huge_ns(&self) -> f64 {
        let others_ns = || THP_PRICE_RATIO * self.all.of(1).unwrap_or(self.calibrated_ns);
        let prior_ns = self.calibrated_huge_ns.unwrap_or_else(others_ns);
        let seen = &self.by_kind[Kind::Thp as usize];
        let timed = seen.timed as f64;
        (seen.of(1).unwrap_or(0.0) * timed + prior_ns * HUGE_PRIOR_FAULTS) / (timed + HUGE_PRIOR_FAULTS)
    }

    /// For a recorded fault: the time of all faults that it represents, its own time, and the assumed part of
    /// the first, ns.
    pub(super) fn cost(&self, fault: &Fault, weight: &Weight) -> (f64, Option<f64>, f64) {
        let reading_ns = self.reading_ns(fault);
        let assumed = if reading_ns.is_some() { weight.extra } else { weight.faults() };
        let assumed_ns = if assumed > 0.0 { assumed * self.mean_ns(fault, fault.kind) } else { 0.0 };
        (reading_ns.map_or(0.0, |ns| ns * weight.exact) + assumed_ns, reading_ns, assumed_ns)
    }

    /// The kind of a sampled fault.
    pub(super) fn kind_of_sample(&mut self, fault: &Fault) -> Kind {
        let (Some(stack), place) = (self.stack(fault), fault.kind_without_past) else {
            return fault.kind_without_past;
        };
        if matches!(fault.kind, Kind::Major | Kind::Thp) || fault.is_certain {
            return fault.kind;
        }
        let site = self.touching.frame(stack);
        let by_stack = self.kinds_by_stack.near((stack, place), fault.enter_ns);
        by_stack.or_else(|| self.kinds_by_site.near((site?, place), fault.enter_ns)).unwrap_or(place)
    }
}

/// Timed samples are spread evenly over the run, and faults of a burst are alike. So the more samples there
/// are, the less a burst counts.
fn burst_part(found: &Faults, weights: &Weights) -> f64 {
    let sampled = found.samples.iter().zip(&weights.samples);
    let timed = sampled.filter(|((fault, _), weight)| **weight > 0.0 && fault.reading_ns().is_some()).count();
    let bursts =
        found.windows.chunk_by(|a, b| a.recorded == b.recorded).filter(|part| part[0].recorded).count();
    (BURST_WORTH * bursts as f64 / timed.max(1) as f64).min(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sample_without_an_entry_is_a_huge_page_only_where_its_end_says_so() {
        // Of the faults of one instruction every second is of a huge page, and known to be.
        let fault = |kind, time_ns, is_certain| Fault {
            ip: 7,
            kind_without_past: Kind::MmapFirstWrite,
            is_certain,
            ..Fault::timed(kind, time_ns, 1_000)
        };
        let kinds = [Kind::MmapFirstWrite, Kind::Thp];
        let known = (0..1_000_u64).map(|n| (fault(kinds[n as usize % 2], n, true), 1)).collect();
        let found = Faults { samples: known, ..Faults::default() };
        let weights = Weights { samples: vec![1.0; 1_000], ..Weights::default() };
        let mut prices = Prices::new(&found, &weights, &Observation::default(), &Stacks::default());
        for n in 0..1_000 {
            for kind in kinds {
                assert_eq!(prices.kind_of_sample(&fault(kind, n, false)), kind);
            }
        }
    }

    #[test]
    fn what_a_fault_waited_is_no_cpu_time_and_a_major_ones_is_known_by_switches() {
        let fault = |kind| Fault { blocked_ns: 700, preempted_ns: 100, ..Fault::timed(kind, 0, 1_000) };
        let of = |tells_switches, kind| {
            let found = Faults { tells_switches, ..Faults::default() };
            let prices =
                Prices::new(&found, &Weights::default(), &Observation::default(), &Stacks::default());
            (prices.reading_ns(&fault(kind)), prices.wait_ns(&fault(kind), kind))
        };
        assert_eq!(of(true, Kind::FileRead), (Some(200.0), 700.0));
        assert_eq!(of(true, Kind::Major), (Some(200.0), 700.0));
        assert_eq!(of(false, Kind::Major), (Some(0.0), 900.0));
    }

    #[test]
    fn a_trap_outside_the_time_stamps_is_added_in_user_mode_only() {
        let none = (Faults::default(), Weights::default());
        let mut prices = Prices::new(&none.0, &none.1, &Observation::default(), &Stacks::default());
        prices.offset_ns = [-150.0; KINDS];
        let of = |kernel| prices.reading_ns(&Fault { kernel, ..Fault::timed(Kind::Stack, 0, 1_000) });
        assert_eq!((of(false), of(true)), (Some(1_150.0), Some(1_000.0)));
    }

    #[test]
    fn few_timed_huge_pages_are_set_beside_the_calibrated_price_and_many_stand_alone() {
        let mean_ns = |timed: u64, calibrated_ns: Option<u64>| {
            let huge = (0..timed).map(|n| (Fault::timed(Kind::Thp, n, 100_000), 1));
            let base = (0..100).map(|n| (Fault::timed(Kind::MmapFirstWrite, n, 1_000), 1));
            let found = Faults { samples: huge.chain(base).collect(), ..Faults::default() };
            let weights = Weights { samples: vec![1.0; timed as usize + 100], ..Weights::default() };
            let mut observation = Observation::default();
            observation.counts.huge_ns = calibrated_ns;
            let prices = Prices::new(&found, &weights, &observation, &Stacks::default());
            prices.mean_ns(&Fault { ip: 1, ..Fault::timed(Kind::Thp, 0, 1) }, Kind::Thp)
        };
        assert_eq!(mean_ns(0, Some(180_000)), 180_000.0);
        assert_eq!(mean_ns(2, Some(180_000)), 140_000.0);
        assert_eq!(mean_ns(6, Some(180_000)), 120_000.0);
        assert_eq!(mean_ns(8, Some(180_000)), 100_000.0);
        // Without a calibrated price: this many times the price of other faults.
        assert_eq!(mean_ns(0, None), 1_000.0 * THP_PRICE_RATIO);
    }
}
