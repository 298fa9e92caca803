//! Bursts beside the samples around them -> what a timed sample reads too much.
//!
//! The entry of a fault is written between its two time stamps. A recorder that is used for one fault in hundreds finds its code and its
//! ring out of the cache, and takes longer for that than within a burst, or in the calibration. Each burst is set beside the samples that
//! are nearest to it in time, since prices drift; the median over the bursts is the excess.

use super::weigh::Weights;
use crate::fault::{Fault, Faults};
use crate::measurement::{median, weighted_percentile};
use crate::stat::Kind;
use crate::tuning::{COLD_NEAR_SAMPLES, PRICED_FAULTS};

/// What timed samples of a kind read too much, ns; 0 where too little is known.
pub(super) fn excess_ns(found: &Faults, weights: &Weights, kind: Kind) -> f64 {
    let is_ours = |fault: &Fault| fault.kind == kind && !fault.kernel;
    let sampled = found.samples.iter().zip(&weights.samples).filter(|(_, weight)| **weight > 0.0);
    let samples: Vec<(u64, f64)> = sampled
        .filter(|((fault, _), _)| is_ours(fault))
        .filter_map(|((fault, _), _)| Some((fault.enter_ns, fault.reading_ns()? as f64)))
        .collect();
    if samples.len() < COLD_NEAR_SAMPLES {
        return 0.0;
    }
    let recorded = found.faults.iter().zip(&weights.recorded).filter(|(fault, _)| is_ours(fault));
    let timed: Vec<(usize, u64, f64, f64)> = recorded
        .filter_map(|(fault, weight)| {
            Some((fault.window?, fault.enter_ns, fault.reading_ns()? as f64, weight.alike))
        })
        .collect();
    let bursts = timed.chunk_by(|a, b| a.0 == b.0).filter(|burst| burst.len() as u64 >= PRICED_FAULTS);
    let mut excesses: Vec<(f64, f64)> = bursts
        .filter_map(|burst| {
            let readings: Vec<f64> = burst.iter().map(|(.., ns, _)| *ns).collect();
            let around: Vec<f64> = near(&samples, burst[0].1).iter().map(|(_, ns)| *ns).collect();
            Some((median(&around)? - median(&readings)?, burst.iter().map(|(.., alike)| alike).sum()))
        })
        .collect();
    excesses.sort_by(|a, b| a.0.total_cmp(&b.0));
    weighted_percentile(&excesses, 0.5).unwrap_or(0.0).max(0.0)
}

/// The samples nearest to a time, of samples by time.
fn near(samples: &[(u64, f64)], time_ns: u64) -> &[(u64, f64)] {
    let at = samples.partition_point(|(ns, _)| *ns < time_ns);
    let from = at.saturating_sub(COLD_NEAR_SAMPLES / 2).min(samples.len() - COLD_NEAR_SAMPLES);
    &samples[from..from + COLD_NEAR_SAMPLES]
}
