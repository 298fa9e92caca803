//! One run -> its avoidable curve. Collects the inputs as [`Memory`].

use std::collections::HashMap;

use super::growth::{Mix, growth_in_window};
use super::plateau::{plateau, unread};
use super::{Curve, Growth, Lifecycle, Memory};
use crate::fault::{Faults, find_window};
use crate::kind::{Kind, KindRow};
use crate::levels::lifecycle;
use crate::observation::{Observation, Window};
use crate::profile::{Profile, Strata, Weighted};
use crate::reconcile::Check;
use crate::tuning::{POOL_FAULTS, WIDE_BOUNDS};

/// Why the bounds of the avoidable curve are far apart.
pub(crate) const WIDE: &str = "the bounds of the avoidable share are far apart: too little is known of which faults take new pages, or of what \
                    processes held at their end";

/// The curve of a run with its notes; without a curve the first note says why.
pub(crate) fn avoidable(
    observation: &Observation,
    faults: &Faults,
    profile: &Profile,
) -> (Option<Curve>, Vec<String>) {
    let is_unread = profile.totals.disagreements.iter().any(|one| one.check == Check::Readings);
    let rows = &profile.totals.rows;
    if observation.levels.is_empty() || is_unread {
        return (None, Vec::new());
    }
    let host = &observation.host;
    let strata = Strata::new(faults, observation.counts.failed() > 0);
    let page_bytes = host.page_bytes.max(1);
    let page = page_bytes as f64;
    let bytes_of = |kind: Kind| kind.anonymous_bytes(page_bytes, host.thp_bytes);
    let lifecycle = lifecycle(observation);
    let forks =
        lifecycle.iter().filter_map(|event| if let Lifecycle::Fork(ns) = event { Some(*ns) } else { None });
    let forked_ns = forks.min().unwrap_or(u64::MAX);
    let mix = Mix::new(profile);
    let growth_in = |(index, window): (usize, &Window)| {
        let sampled = if window.recorded { None } else { mix.growth(window, &bytes_of) };
        sampled.or_else(|| growth_in_window(&strata, index, &bytes_of, page, forked_ns < window.end_ns))
    };
    let in_window: Vec<Option<Growth>> = faults.windows.iter().enumerate().map(growth_in).collect();
    let unknown = Growth { low_bytes: 0.0, high_bytes: page, fresh_share: 1.0 };
    let growth =
        |time_ns: u64| find_window(&faults.windows, time_ns).and_then(|w| in_window[w]).unwrap_or(unknown);
    let held_bytes = held_bytes(observation, &profile.faults, most_alive(&lifecycle));
    // A few bursts are too few to take the rows as shares of the run.
    let sampled = profile.basis.iter().filter(|basis| basis.burst.is_none()).count() as u64;
    let is_told = strata.is_complete() || sampled >= POOL_FAULTS;
    let plateau = plateau(rows, &profile.faults, observation);
    let memory = Memory {
        held_bytes: held_bytes.unwrap_or(u64::MAX),
        plateau: plateau.map_or((None, None), |[low, high]| (Some(low).filter(|_| is_told), Some(high))),
        levels: &observation.levels,
        page_bytes,
        cpus: host.cpus,
        lifecycle,
        growth: &growth,
        all_pages: rows.iter().map(|r| r.faults as f64).sum::<f64>() * fresh_bytes(rows, &bytes_of, page)
            / page,
        fresh_share: fresh_share(rows),
    };
    match super::curve(&memory) {
        Err(why) => (None, vec![why]),
        Ok(curve) => {
            let wide = curve.points.iter().any(|point| point.high - point.low > WIDE_BOUNDS);
            (Some(curve), Vec::from_iter(wide.then(|| WIDE.to_owned())))
        }
    }
}

/// The most that processes held at once of what they can have kept: each its peak, or what it took by faults.
/// `None` without a known peak.
fn held_bytes(observation: &Observation, faults: &[Weighted], alive: u64) -> Option<u64> {
    let host = &observation.host;
    let peak = Some(observation.usage.peak_rss_bytes).filter(|peak| *peak > 0)?;
    let unread = unread(observation);
    let largest = host.mthp_bytes.iter().copied().max().unwrap_or(0).max(host.page_bytes);
    let mut taken: HashMap<u32, f64> = HashMap::new();
    for fault in faults.iter().filter(|fault| fault.kind.is_fresh() && !unread.contains(&fault.pid)) {
        let bytes = if fault.kind == Kind::Thp { host.thp_bytes.max(largest) } else { largest };
        *taken.entry(fault.pid).or_default() += fault.faults * bytes as f64;
    }
    let sum = taken.values().map(|bytes| bytes.min(peak as f64)).sum::<f64>() as u64;
    // All that are attached to may be there at once.
    let at_once = if observation.attached { u64::MAX } else { peak.saturating_mul(alive) };
    Some(if taken.is_empty() { at_once } else { at_once.min(sum.max(peak)) })
}

/// Processes that were there at once, at most.
fn most_alive(lifecycle: &[Lifecycle]) -> u64 {
    let mut events: Vec<(u64, bool)> = lifecycle
        .iter()
        .filter_map(|event| match *event {
            Lifecycle::Fork(ns) => Some((ns, true)),
            Lifecycle::End(ns) => Some((ns, false)),
            Lifecycle::Exec(_) => None,
        })
        .collect();
    // At the same instant the new one comes first.
    events.sort_by_key(|(ns, is_fork)| (*ns, !is_fork));
    let (mut alive, mut most) = (1_u64, 1);
    for (_, is_fork) in events {
        alive = if is_fork { alive + 1 } else { alive.saturating_sub(1) };
        most = most.max(alive);
    }
    most
}

/// Share of all faults that kept memory could have served at most.
fn fresh_share(rows: &[KindRow]) -> f64 {
    let high = |row: &KindRow| row.interval.map_or(row.faults, |(_, high)| high) as f64;
    let fresh: f64 = rows.iter().filter(|row| row.kind.is_fresh()).map(high).sum();
    let all: f64 = rows.iter().map(|row| row.faults as f64).sum();
    if all > 0.0 { (fresh / all).min(1.0) } else { 0.0 }
}

/// Mean memory per fault of these rows that takes any; `page` without such faults.
fn fresh_bytes(rows: &[KindRow], bytes_of: &impl Fn(Kind) -> f64, page: f64) -> f64 {
    let fresh = rows.iter().filter(|r| r.kind.is_fresh()).map(|r| (bytes_of(r.kind), r.faults as f64));
    let (sum, faults) =
        fresh.fold((0.0, 0.0), |(sum, n), (bytes, faults)| (sum + bytes * faults, n + faults));
    if faults > 0.0 { sum / faults } else { page }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observation::{Host, Record, Usage, What};

    const MIB: u64 = 1 << 20;

    #[test]
    fn a_process_that_takes_little_does_not_add_a_peak() {
        // The program holds 5 MiB; its child forks another that takes 1 MiB and ends.
        let fork = |pid, parent| Record { time_ns: 1, pid, tid: pid, what: What::Fork { parent } };
        let run = Observation {
            host: Host { page_bytes: 4096, ..Host::default() },
            usage: Usage { peak_rss_bytes: 5 * MIB, ..Usage::default() },
            records: vec![fork(2, 1), fork(3, 2)],
            ..Observation::default()
        };
        let fault = |pid, faults| Weighted { pid, kind: Kind::MmapFirstWrite, faults, ..Weighted::default() };
        let faults = [fault(1, 100_000.0), fault(2, 20.0), fault(3, 256.0)];
        assert_eq!(held_bytes(&run, &faults, 3), Some(6 * MIB + 20 * 4096));
        let attached = Observation { attached: true, ..run };
        assert_eq!(held_bytes(&attached, &faults, 3), Some(5 * MIB));
    }
}
