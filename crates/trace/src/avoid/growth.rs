//! The faults of a window -> the resident memory that one of them adds, with bounds.
//!
//! Samples come at all times, so they describe unrecorded windows as well ([`Mix`]). With too few samples the
//! recorded windows on both sides have to do ([`growth_in_window`]).

use super::Growth;
use crate::kind::{ALL, Kind};
use crate::measurement::share_interval;
use crate::observation::Window;
use crate::profile::{Profile, Strata, Stratum, Weighted};
use crate::tuning::POOL_FAULTS;

/// If n bursts all found the same, a part of 3/n of the program may differ from them with 95 % confidence
/// (the rule of three: Hanley & Lippman-Hand, JAMA 249, 1983).
const UNSEEN_PARTS: f64 = 3.0;

/// Sampled faults of user mode, in the order of time.
pub(super) struct Mix<'a>(Vec<&'a Weighted>);

impl<'a> Mix<'a> {
    pub(super) fn new(profile: &'a Profile) -> Self {
        let both = profile.faults.iter().zip(&profile.basis);
        let at_large = both.filter(|(fault, basis)| basis.burst.is_none() && !fault.kernel);
        Self(at_large.map(|(fault, _)| fault).collect())
    }

    /// Growth in an unrecorded window, from the samples in it, and from the nearest ones if those are few.
    /// `value` gives the bytes that a fault of each kind adds. `None` with too few samples in all.
    pub(super) fn growth(&self, window: &Window, value: &impl Fn(Kind) -> f64) -> Option<Growth> {
        let at = |ns: u64| self.0.partition_point(|fault| fault.time_ns < ns);
        let from = at(window.begin_ns);
        let to = at(window.end_ns).max(from);
        let missing = (POOL_FAULTS as usize).saturating_sub(to - from);
        let (from, to) =
            (from.saturating_sub(missing.div_ceil(2)), (to + missing.div_ceil(2)).min(self.0.len()));
        let near = self.0.get(from..to).filter(|near| near.len() as u64 >= POOL_FAULTS)?;
        let sum = |of: &dyn Fn(&Weighted) -> f64| near.iter().map(|fault| of(fault)).sum::<f64>();
        let faults = sum(&|fault| fault.faults);
        let taking = sum(&|fault| if value(fault.kind) > 0.0 { fault.faults } else { 0.0 });
        let bytes = sum(&|fault| value(fault.kind) * fault.faults);
        let fresh = sum(&|fault| if fault.kind.is_fresh() { value(fault.kind) * fault.faults } else { 0.0 });
        if faults <= 0.0 {
            return None;
        }
        let number = near.len() as f64;
        let share = share_interval(taking / faults * number, number);
        let each = if taking > 0.0 { bytes / taking } else { value(Kind::FirstTouch) };
        Some(Growth {
            low_bytes: share.low * each,
            high_bytes: share.high * each,
            fresh_share: if bytes > 0.0 { fresh / bytes } else { 1.0 },
        })
    }
}

/// Growth in a window, from recorded faults. `value` gives the bytes that a fault of each kind adds, `page`
/// those of a first touch. An unrecorded window lies between its neighbours. After a fork it may differ from
/// both, by as much as this number of bursts can have missed: copies come in one go. With a single burst
/// nothing is known.
pub(super) fn growth_in_window(
    strata: &Strata,
    window: usize,
    value: &impl Fn(Kind) -> f64,
    page: f64,
    forked: bool,
) -> Option<Growth> {
    let pool = strata.strata.get(strata.described_by.get(window)?.clone())?;
    let next = pool.partition_point(|s| s.window < window);
    if let Some(own) = pool.get(next).filter(|s| s.window == window) {
        return growth(std::slice::from_ref(own), value);
    }
    let (before, after) = pool.split_at(next);
    let sides = [growth(before, value), growth(after, value)];
    let around = sides.into_iter().flatten().reduce(|a, b| Growth {
        low_bytes: a.low_bytes.min(b.low_bytes),
        high_bytes: a.high_bytes.max(b.high_bytes),
        fresh_share: f64::midpoint(a.fresh_share, b.fresh_share),
    })?;
    let bursts = bursts(strata);
    let missed = match bursts {
        0 | 1 => 1.0,
        _ if forked => (UNSEEN_PARTS / bursts as f64).min(1.0),
        _ => 0.0,
    };
    Some(Growth {
        low_bytes: around.low_bytes * (1.0 - missed),
        high_bytes: around.high_bytes.max(page.min(around.high_bytes + missed * page)),
        ..around
    })
}

/// The number of bursts that represent unrecorded windows. A burst is a run of adjacent recorded windows.
fn bursts(strata: &Strata) -> usize {
    let stretches = strata.strata.chunk_by(|a, b| a.window + 1 == b.window);
    stretches.filter(|stretch| stretch.iter().map(|s| s.extra).sum::<f64>() > 0.0).count()
}

/// Memory that each recorded fault of these windows adds; `None` without any.
fn growth(pool: &[Stratum], value: &impl Fn(Kind) -> f64) -> Option<Growth> {
    let sum = |of: &dyn Fn(&Stratum) -> f64| pool.iter().map(of).sum::<f64>();
    let of_kind = |kind: Kind| sum(&|s| s.kinds[kind as usize] as f64 * value(kind));
    let recorded = sum(&|s| s.recorded as f64);
    let bytes: f64 = ALL.into_iter().map(of_kind).sum();
    let fresh = bytes - ALL.into_iter().filter(|kind| !kind.is_fresh()).map(of_kind).sum::<f64>();
    (recorded > 0.0).then(|| Growth {
        low_bytes: bytes / recorded,
        high_bytes: bytes / recorded,
        fresh_share: if bytes > 0.0 { fresh / bytes } else { 1.0 },
    })
}
