//! Faults, samples and exact counts -> the number of faults of the run that each recorded or sampled fault
//! represents.
//!
//! A fault recorded in a window represents itself. If a window lost records or ends, its whole faults share
//! the exact count. Samples inside recorded windows add nothing and count for nothing.
//!
//! Elsewhere samples decide. A sample represents one period of its thread's faults. A thread's faults after
//! its last sample have none, and a short-lived thread may have no sample at all. So threads with few samples
//! are described by their faults in the bursts, each of which represents faults of the windows around it, as
//! in `strata`. The number of such faults is the exact count less the share of the other threads' samples.
//! Finally all unrecorded faults are scaled to the exact count.
//!
//! Major faults are all in the file and represent themselves. Faults of kernel mode have no exact count by
//! window: only their samples decide, or the bursts if there are too few.
//!
//! Weakness: a thread's tail is half a period for each processor that it ran on, and their number is not
//! known.

use std::collections::HashMap;

use super::strata::{Strata, Stratum};
use crate::fault::{Fault, Faults};
use crate::kind::Kind;
use crate::observation::Observation;
use crate::tuning::{COUNTERS_APART_SHARE, FEW_SAMPLES, POOL_FAULTS, SHORT_THREADS_RATIO};

/// The faults that a recorded fault represents.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Weight {
    /// Counted beside it.
    pub(super) exact: f64,
    /// Elsewhere.
    pub(super) extra: f64,
    /// Similar faults of its time, for means.
    pub(super) alike: f64,
}

impl Weight {
    pub(super) fn faults(&self) -> f64 {
        self.exact + self.extra
    }
}

/// Known bounds of the faults of huge pages.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Huge {
    /// Fewest, by the growth of memory and by the faults seen.
    pub least: f64,
    /// Most, by the machine's count and by the samples.
    pub most: f64,
}

/// The weights of all faults, in their order.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Weights {
    pub(super) recorded: Vec<Weight>,
    pub(super) samples: Vec<f64>,
    /// Error at 95 % of the faults that all samples together represent.
    pub(super) doubt: f64,
    /// Faults of huge pages that must exist although none was seen outside bursts.
    pub(super) huge_unseen: f64,
    /// Huge pages that khugepaged brought.
    pub(super) collapsed: f64,
    /// Faults of huge pages in user mode.
    pub(super) huge: Option<Huge>,
}

impl Weights {
    /// Unrecorded faults that these faults represent.
    fn unrecorded(&self, found: &Faults, is: impl Fn(&Fault) -> bool) -> f64 {
        let recorded = self.recorded.iter().zip(&found.faults).filter(|(_, fault)| is(fault));
        let sampled = self.samples.iter().zip(&found.samples).filter(|(_, (fault, _))| is(fault));
        recorded.map(|(weight, _)| weight.extra).sum::<f64>() + sampled.map(|(weight, _)| weight).sum::<f64>()
    }

    /// Multiplies the unrecorded faults that each fault represents.
    pub(super) fn scale(&mut self, found: &Faults, factor: impl Fn(&Fault) -> f64) {
        let recorded = self.recorded.iter_mut().zip(&found.faults);
        recorded.for_each(|(weight, fault)| weight.extra *= factor(fault));
        let sampled = self.samples.iter_mut().zip(&found.samples);
        sampled.for_each(|(weight, (fault, _))| *weight *= factor(fault));
    }
}

/// Weighs recorded and sampled faults.
pub(super) fn weights(found: &Faults, observation: &Observation) -> Weights {
    let counts = &observation.counts;
    let failed = counts.failed();
    let strata = Strata::new(found, failed > 0);
    let mut stratum_of: Vec<Option<&Stratum>> = vec![None; found.windows.len()];
    strata.strata.iter().for_each(|stratum| stratum_of[stratum.window] = Some(stratum));
    let stratum = |fault: &Fault| fault.window.and_then(|window| stratum_of[window]);
    let whole = found.ended_by_window();
    let is_whole = |fault: &Fault| {
        fault.duration_ns.is_some() || fault.window.is_none_or(|window| whole[window] == 0 && failed == 0)
    };

    let all_seen = all_seen(found, counts.user_faults, &whole);
    let mut weights = Weights {
        recorded: vec![Weight::default(); found.faults.len()],
        samples: vec![0.0; found.samples.len()],
        ..Weights::default()
    };
    for (weight, fault) in weights.recorded.iter_mut().zip(&found.faults) {
        if let Some(stratum) = stratum(fault).filter(|_| !fault.kernel && is_whole(fault)) {
            let ended = fault.window.map_or(0, |window| whole[window]);
            // Accesses that end in a signal never have an end. Their share is the same among counted and
            // recorded faults.
            let sharing = if ended == 0 || failed > 0 { stratum.recorded } else { ended };
            weight.exact = all_seen.unwrap_or(stratum.exact / sharing as f64);
            weight.extra = stratum.extra / sharing as f64;
            weight.alike = weight.exact + weight.extra;
        }
    }
    let exact: f64 = weights.recorded.iter().map(|w| w.exact).sum();
    let unrecorded: f64 = strata.strata.iter().map(|s| s.extra).sum::<f64>() + strata.undescribed;
    let total = counts.user_faults.map(|user| user.saturating_sub(failed) as f64);
    let unseen = match total {
        Some(total) => Some((total - exact).max(0.0)),
        None => (!found.windows.is_empty()).then_some(unrecorded),
    };
    let outside = |fault: &Fault| !fault.kernel && stratum(fault).is_none();
    let minor = found.samples.iter().filter(|(fault, _)| fault.kind != Kind::Major).count() as u64;
    let lost = lost_samples(observation, minor);
    let cpus = observation.host.cpus;
    spread(found, &mut weights, unseen, lost, cpus, &outside);
    kernel(found, &mut weights, observation, lost);
    majors(found, &mut weights, observation);
    weights
}

/// Every major fault is in the file, also outside bursts, so it represents itself. If some were lost, the
/// rest share the count. The surplus of its earlier weight goes to the minor faults.
fn majors(found: &Faults, weights: &mut Weights, observation: &Observation) {
    let unrecorded = |fault: &Fault| fault.window.is_none_or(|window| !found.windows[window].recorded);
    let each = lost_majors(found, weights, observation, &unrecorded);
    for kernel in [false, true] {
        let is = |fault: &Fault, major: bool| fault.kernel == kernel && (fault.kind == Kind::Major) == major;
        let mut surplus = 0.0;
        for (weight, fault) in weights.recorded.iter_mut().zip(&found.faults) {
            if is(fault, true) && weight.faults() > 0.0 {
                surplus += weight.faults() - each;
                *weight = Weight { exact: each, extra: 0.0, alike: each };
            }
        }
        for (weight, (fault, period)) in weights.samples.iter_mut().zip(&found.samples) {
            if is(fault, true) && unrecorded(fault) {
                let stands_for = *period as f64 * each;
                surplus += *weight - stands_for;
                *weight = stands_for;
            }
        }
        let given = weights.unrecorded(found, |fault| is(fault, false));
        if given > 0.0 {
            let scale = (1.0 + surplus / given).max(0.0);
            weights.scale(found, |fault| if is(fault, false) { scale } else { 1.0 });
        }
    }
}

/// Major faults counted per one in the file; 1 if none was lost.
fn lost_majors(
    found: &Faults,
    weights: &Weights,
    observation: &Observation,
    unrecorded: &dyn Fn(&Fault) -> bool,
) -> f64 {
    let losses = observation.event_losses.iter().flatten();
    let lost = losses.filter(|loss| loss.event.starts_with("major")).any(|loss| loss.lost > 0);
    let is_major = |fault: &Fault| fault.kind == Kind::Major;
    let recorded = weights.recorded.iter().zip(&found.faults);
    let recorded = recorded.filter(|(weight, fault)| is_major(fault) && weight.faults() > 0.0).count();
    let sampled = found.samples.iter().filter(|(fault, _)| is_major(fault) && unrecorded(fault));
    let seen = recorded as f64 + sampled.map(|(_, period)| *period as f64).sum::<f64>();
    match observation.counts.major_faults {
        Some(counted) if lost && seen > 0.0 => (counted as f64 / seen).max(1.0),
        _ => 1.0,
    }
}

/// The weight of each fault if every fault of the run was recorded and none lost. It is not exactly 1: a
/// window's count is read while faults go on, and may be off by a few.
fn all_seen(found: &Faults, user_faults: Option<u64>, whole: &[u64]) -> Option<f64> {
    let whole: u64 = whole.iter().sum();
    let complete = found.windows.iter().all(|window| window.recorded && window.lost == 0);
    (complete && whole > 0).then_some(())?;
    Some(user_faults? as f64 / whole as f64).filter(|each| (each - 1.0).abs() < COUNTERS_APART_SHARE)
}

/// Samples of minor faults taken per sample seen, at least 1.
fn lost_samples(observation: &Observation, seen: u64) -> f64 {
    let losses = observation.event_losses.iter().flatten();
    let lost: u64 = losses.filter(|loss| loss.event == "sample").map(|loss| loss.lost).sum();
    if seen == 0 { 1.0 } else { 1.0 + lost as f64 / seen as f64 }
}

/// Spreads the unrecorded faults over samples and bursts.
fn spread(
    found: &Faults,
    weights: &mut Weights,
    unseen: Option<f64>,
    lost: f64,
    cpus: u32,
    outside: &dyn Fn(&Fault) -> bool,
) {
    let mut of_thread: HashMap<(u32, u32), u64> = HashMap::new();
    let minor = || found.samples.iter().filter(|(f, _)| f.kind != Kind::Major);
    minor().for_each(|(f, _)| *of_thread.entry((f.pid, f.tid)).or_default() += 1);
    let is_long = |f: &Fault| of_thread.get(&(f.pid, f.tid)).is_some_and(|n| *n >= FEW_SAMPLES);
    for (weight, (fault, period)) in weights.samples.iter_mut().zip(&found.samples) {
        *weight = if outside(fault) { *period as f64 * lost } else { 0.0 };
    }
    let Some(unseen) = unseen else {
        // Without counts, samples and recorded faults keep their own weights.
        weights.recorded.iter_mut().for_each(|weight| weight.extra = 0.0);
        return;
    };
    let period = found.samples.iter().map(|(_, period)| *period).max().unwrap_or(0) as f64;
    let all: f64 = weights.recorded.iter().map(|w| w.exact).sum::<f64>() + unseen;
    let unseen_part = if all > 0.0 { unseen / all } else { 0.0 };
    let long_threads = of_thread.values().filter(|n| **n >= FEW_SAMPLES).count() as f64;
    let samples_of = |long: bool, weights: &Weights| -> f64 {
        let pairs = weights.samples.iter().zip(&found.samples);
        pairs.filter(|(_, (fault, _))| is_long(fault) == long).map(|(weight, _)| weight).sum()
    };
    let long = samples_of(true, weights) + long_threads * period / 2.0 * unseen_part;
    // The samples of a thread are off by part of a period at each begin and end of a burst.
    let ends = 2.0
        * found.windows.chunk_by(|a, b| a.recorded == b.recorded).filter(|w| w[0].recorded).count() as f64;
    let noise = 1.96 * period * ((ends + 1.0) * long_threads / 12.0).sqrt();
    // And by half a period for every further processor that it ran on.
    let tails = long_threads * period / 2.0 * cpus.saturating_sub(1) as f64 * unseen_part;
    let mut left = (unseen - long).max(0.0);
    let (mut evidence, mut seen) = (0.0, 0_u64);
    for (weight, fault) in weights.recorded.iter_mut().zip(&found.faults) {
        if is_long(fault) {
            weight.extra = 0.0;
        }
        evidence += weight.extra;
        seen += u64::from(weight.extra > 0.0);
    }
    if seen >= POOL_FAULTS || samples_of(false, weights) == 0.0 {
        // The bursts describe the short-lived threads.
        let pairs = weights.samples.iter_mut().zip(&found.samples);
        pairs.filter(|(_, (fault, _))| !is_long(fault)).for_each(|(weight, _)| *weight = 0.0);
        left = left.max((evidence / SHORT_THREADS_RATIO).min(noise));
    } else {
        left = (left - samples_of(false, weights)).max(0.0);
    }
    if left > evidence * SHORT_THREADS_RATIO {
        left = (left - tails).max(evidence * SHORT_THREADS_RATIO);
    }
    let scale = if evidence > 0.0 { left / evidence } else { 0.0 };
    weights.recorded.iter_mut().for_each(|weight| weight.extra *= scale);
    if weights.samples.iter().any(|weight| *weight > 0.0) {
        // The unexplained rest belongs to threads that nothing saw; its owners are a guess.
        let given = weights.recorded.iter().map(|weight| weight.extra).sum::<f64>();
        weights.doubt = noise + tails + (left - given).max(0.0);
    }
    let given = weights.unrecorded(found, |_| true);
    if given > 0.0 {
        weights.scale(found, |_| unseen / given);
    } else {
        // Without evidence the rest is assumed to be like the recorded faults.
        let exact: f64 = weights.recorded.iter().map(|w| w.exact).sum();
        let scale = if exact > 0.0 { unseen / exact } else { 0.0 };
        weights.recorded.iter_mut().for_each(|weight| weight.extra = weight.exact * scale);
    }
}

/// Faults of kernel mode.
fn kernel(found: &Faults, weights: &mut Weights, observation: &Observation, lost: f64) {
    let counts = &observation.counts;
    let total = counts.all_faults.zip(counts.user_faults).map(|(all, user)| all.saturating_sub(user) as f64);
    let complete = !found.windows.is_empty() && found.windows.iter().all(|window| window.recorded);
    let sampled = found.samples.iter().filter(|(fault, _)| fault.kernel).count() as u64;
    let recorded = found.faults.iter().filter(|fault| fault.kernel && fault.duration_ns.is_some()).count();
    let by_samples = !complete && (sampled >= FEW_SAMPLES || recorded == 0);
    let users: f64 =
        weights.recorded.iter().map(Weight::faults).sum::<f64>() + weights.samples.iter().sum::<f64>();
    let seen = found.faults.iter().filter(|fault| !fault.kernel).count().max(1) as f64;
    let unscaled = if complete { 1.0 } else { (users / seen).max(1.0) };
    for (weight, (fault, period)) in weights.samples.iter_mut().zip(&found.samples) {
        if fault.kernel {
            *weight = if by_samples { *period as f64 * lost } else { 0.0 };
        }
    }
    for (weight, fault) in weights.recorded.iter_mut().zip(&found.faults) {
        if fault.kernel && fault.duration_ns.is_some() {
            weight.alike = unscaled;
            weight.exact = if complete { 1.0 } else { 0.0 };
            weight.extra = if complete || by_samples { 0.0 } else { unscaled };
        }
    }
    let pairs = weights.samples.iter().zip(&found.samples);
    let mut given: f64 = pairs.filter(|(_, (fault, _))| fault.kernel).map(|(weight, _)| weight).sum();
    let pairs = weights.recorded.iter().zip(&found.faults);
    given += pairs.filter(|(_, fault)| fault.kernel).map(|(weight, _)| weight.faults()).sum::<f64>();
    let Some(scale) = total.filter(|total| *total > 0.0 && given > 0.0).map(|total| total / given) else {
        return;
    };
    let pairs = weights.samples.iter_mut().zip(&found.samples);
    pairs.filter(|(_, (fault, _))| fault.kernel).for_each(|(weight, _)| *weight *= scale);
    for (weight, _) in weights.recorded.iter_mut().zip(&found.faults).filter(|(_, fault)| fault.kernel) {
        (weight.exact, weight.extra) = (weight.exact * scale, weight.extra * scale);
    }
}
