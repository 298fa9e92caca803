//! Bursts and the samples around them -> the excess time that a timed sample shows.
//!
//! The entry of a fault is written between its two time stamps. A recorder that runs for one fault in
//! hundreds finds its code and its ring out of the cache. It then takes longer than within a burst, or in the
//! calibration. Each burst is compared with the samples nearest in time, because prices drift. The median
//! over the bursts is the excess.

use super::weigh::Weights;
use crate::fault::{Fault, Faults};
use crate::kind::{ALL, KINDS, Kind};
use crate::measurement::{median, weighted_median};
use crate::tuning::{COLD_NEAR_SAMPLES, PRICED_FAULTS};

/// The excess of timed samples of each kind, ns. A kind with too few samples has the excess of all kinds; 0
/// if that is not known either.
pub(super) fn excesses_ns(found: &Faults, weights: &Weights) -> [f64; KINDS] {
    let of_kinds = ALL.map(|kind| excesses(found, weights, kind));
    let usual_ns = weighted_median(of_kinds.iter().flatten().copied().collect()).unwrap_or(0.0);
    of_kinds.map(|excesses| weighted_median(excesses).unwrap_or(usual_ns).max(0.0))
}

/// The excess of samples of a kind over each burst of it, and the weight of the burst.
fn excesses(found: &Faults, weights: &Weights, kind: Kind) -> Vec<(f64, f64)> {
    let is_ours = |fault: &Fault| fault.kind == kind && !fault.kernel;
    let sampled = found.samples.iter().zip(&weights.samples).filter(|(_, weight)| **weight > 0.0);
    let samples: Vec<(u64, f64)> = sampled
        .filter(|((fault, _), _)| is_ours(fault))
        .filter_map(|((fault, _), _)| Some((fault.enter_ns, fault.reading_ns()? as f64)))
        .collect();
    if samples.len() < COLD_NEAR_SAMPLES {
        return Vec::new();
    }
    let recorded = found.faults.iter().zip(&weights.recorded).filter(|(fault, _)| is_ours(fault));
    let timed: Vec<(usize, u64, f64, f64)> = recorded
        .filter_map(|(fault, weight)| {
            Some((fault.window?, fault.enter_ns, fault.reading_ns()? as f64, weight.alike))
        })
        .collect();
    let bursts = timed.chunk_by(|a, b| a.0 == b.0).filter(|burst| burst.len() as u64 >= PRICED_FAULTS);
    let beside = |burst: &[(usize, u64, f64, f64)]| {
        let readings: Vec<f64> = burst.iter().map(|(.., ns, _)| *ns).collect();
        let around: Vec<f64> = near(&samples, burst[0].1).iter().map(|(_, ns)| *ns).collect();
        Some((median(&around)? - median(&readings)?, burst.iter().map(|(.., alike)| alike).sum()))
    };
    bursts.filter_map(beside).collect()
}

/// The samples nearest to a time; `samples` are sorted by time.
fn near(samples: &[(u64, f64)], time_ns: u64) -> &[(u64, f64)] {
    let at = samples.partition_point(|(ns, _)| *ns < time_ns);
    let from = at.saturating_sub(COLD_NEAR_SAMPLES / 2).min(samples.len() - COLD_NEAR_SAMPLES);
    &samples[from..from + COLD_NEAR_SAMPLES]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observation::Window;
    use crate::profile::weigh::Weight;

    /// Twenty bursts of ten faults, with twenty samples around each that read longer by `excess_ns`.
    fn run(excess_ns: u64, price_ns: impl Fn(u64) -> u64) -> (Faults, Weights) {
        let mut found = Faults::default();
        for burst in 0..20_u64 {
            let begin_ns = burst * 1_000_000;
            for (recorded, begin_ns) in [(true, begin_ns), (false, begin_ns + 100_000)] {
                found.windows.push(Window { begin_ns, end_ns: begin_ns, faults: 0, recorded, lost: 0 });
            }
            let window = Some(found.windows.len() - 2);
            let at = |ns, more| Fault::timed(Kind::Stack, begin_ns + ns, price_ns(burst) + more);
            found.faults.extend((0..10).map(|n| Fault { window, ..at(n * 5_000, 0) }));
            found.samples.extend((0..20).map(|n| (at(100_000 + n * 40_000, excess_ns), 97)));
        }
        let recorded = vec![Weight { exact: 1.0, extra: 0.0, alike: 1.0 }; found.faults.len()];
        let weights = Weights { recorded, samples: vec![97.0; found.samples.len()], ..Weights::default() };
        (found, weights)
    }

    fn excess_of(found: &Faults, weights: &Weights, kind: Kind) -> f64 {
        excesses_ns(found, weights)[kind as usize]
    }

    #[test]
    fn what_samples_read_too_much_is_found_also_where_prices_drift() {
        let excess_ns = |(found, weights): (Faults, Weights)| excess_of(&found, &weights, Kind::Stack);
        assert_eq!(excess_ns(run(300, |_| 1_000)), 300.0);
        assert_eq!(excess_ns(run(300, |burst| if burst < 15 { 1_000 } else { 9_000 })), 300.0);
        assert_eq!(excess_ns(run(0, |_| 1_000)), 0.0);
    }

    #[test]
    fn a_kind_of_which_too_little_is_known_reads_as_much_too_much_as_the_others() {
        let (found, weights) = run(300, |_| 1_000);
        assert_eq!(excess_of(&found, &weights, Kind::Major), 300.0);
    }

    #[test]
    fn nothing_is_taken_off_where_nothing_is_known() {
        let (mut found, weights) = run(300, |_| 1_000);
        found.samples.truncate(COLD_NEAR_SAMPLES - 1);
        assert_eq!(excess_of(&found, &weights, Kind::Stack), 0.0);
        assert_eq!(excess_of(&Faults::default(), &Weights::default(), Kind::Stack), 0.0);
    }
}
