//! Guards the one-pass stack against a pool that is simulated page by page for one amount at a time.

use proptest::prelude::*;

use super::*;
use crate::observation::Level;

/// The obvious pool: a real stack of page numbers, at most `most` high; returns faults that found a page.
fn page_by_page(flows: &[Flow], order: Order, most: usize) -> u64 {
    let (mut pool, mut avoided, mut next_page) = (std::collections::VecDeque::new(), 0, 0_u64);
    let mut fault =
        |pool: &mut std::collections::VecDeque<u64>| avoided += u64::from(pool.pop_back().is_some());
    let mut release = |pool: &mut std::collections::VecDeque<u64>| {
        pool.push_back(next_page);
        next_page += 1;
        if pool.len() > most {
            pool.pop_front();
        }
    };
    for flow in flows {
        match order {
            Order::FaultsFirst => {
                (0..flow.faults).for_each(|_| fault(&mut pool));
                (0..flow.releases).for_each(|_| release(&mut pool));
            }
            Order::ReleasesFirst => {
                (0..flow.releases).for_each(|_| release(&mut pool));
                (0..flow.faults).for_each(|_| fault(&mut pool));
            }
            Order::Mixed => {
                // Serve from the pool what is more than the releases, then alternate, then keep the rest.
                let both = flow.faults.min(flow.releases);
                (0..flow.faults - both).for_each(|_| fault(&mut pool));
                for _ in 0..both {
                    if pool.len() == most {
                        fault(&mut pool);
                        release(&mut pool);
                    } else {
                        release(&mut pool);
                        fault(&mut pool);
                    }
                }
                (0..flow.releases - both).for_each(|_| release(&mut pool));
            }
        }
    }
    avoided
}

/// Any interleaving of each interval's faults and releases: `true` is a release.
fn interleaved(intervals: &[Vec<bool>], most: u64) -> u64 {
    let (mut kept, mut avoided) = (0, 0);
    for release in intervals.iter().flatten() {
        if *release {
            kept = (kept + 1).min(most);
        } else if kept > 0 {
            kept -= 1;
            avoided += 1;
        }
    }
    avoided
}

fn some_flows() -> impl Strategy<Value = Vec<Flow>> {
    let flow = (0..30_u64, 0..30_u64).prop_map(|(faults, releases)| Flow { faults, releases });
    let one_sided = (0..60_u64, any::<bool>()).prop_map(|(n, release)| match release {
        true => Flow { faults: 0, releases: n },
        false => Flow { faults: n, releases: 0 },
    });
    prop::collection::vec(prop_oneof![flow, one_sided], 0..40)
}

proptest! {
    #[test]
    fn one_pass_equals_a_pool_simulated_page_by_page_for_every_amount(flows in some_flows()) {
        for order in [Order::FaultsFirst, Order::ReleasesFirst, Order::Mixed] {
            let avoided = kept_pages(&flows, order);
            let most = avoided.most_pages() + 2;
            for pages in (0..most.min(80)).chain([most, 10_000]) {
                prop_assert_eq!(avoided.with(pages), page_by_page(&flows, order, pages as usize), "{:?} {}", order, pages);
            }
        }
    }

    #[test]
    fn more_kept_never_avoids_less_and_mixed_is_the_best_order(flows in some_flows()) {
        let [first, last, mixed] =
            [Order::FaultsFirst, Order::ReleasesFirst, Order::Mixed].map(|order| kept_pages(&flows, order));
        for pages in 0..100 {
            prop_assert!(first.with(pages) <= first.with(pages + 1));
            prop_assert!(last.with(pages) <= last.with(pages + 1));
            prop_assert!(first.with(pages).max(last.with(pages)) <= mixed.with(pages));
        }
    }

    #[test]
    fn no_interleaving_beats_the_upper_bound(
        intervals in prop::collection::vec(prop::collection::vec(any::<bool>(), 0..20), 0..20),
        most in 1..20_u64,
    ) {
        let flow = |i: &Vec<bool>| {
            let releases = i.iter().filter(|r| **r).count() as u64;
            Flow { releases, faults: i.len() as u64 - releases }
        };
        let flows: Vec<Flow> = intervals.iter().map(flow).collect();
        prop_assert!(interleaved(&intervals, most) <= kept_pages(&flows, Order::Mixed).with(most));
    }

    #[test]
    fn the_plateau_is_what_is_left_beyond_the_first_touch_of_peak_memory(flows in some_flows()) {
        // Keep everything: a page is taken anew only when live memory exceeds its peak so far.
        let (mut live, mut peak, mut compulsory, mut faults) = (0_i64, 0_i64, 0, 0);
        let mut kept = Vec::new();
        for flow in &flows {
            // Only what is live can be released.
            let releases = (flow.releases as i64).min(live + flow.faults as i64);
            kept.push(Flow { faults: flow.faults, releases: releases as u64 });
            live += flow.faults as i64;
            faults += flow.faults;
            compulsory += (live - peak).max(0);
            peak = peak.max(live);
            live -= releases;
        }
        let avoided = kept_pages(&kept, Order::FaultsFirst);
        prop_assert_eq!(avoided.with(u64::MAX), faults - compulsory as u64);
    }

    #[test]
    fn sampled_bounds_are_ordered_rise_and_stay_shares(
        levels in prop::collection::vec((any::<u64>(), 0..1_u64 << 40, 0..1_u64 << 45), 8..60),
        share in -1.0..2.0f64,
    ) {
        let levels: Vec<Level> =
            levels.into_iter().map(|(time_ns, faults, anon_bytes)| Level { time_ns, faults, anon_bytes }).collect();
        let memory = Memory { levels: &levels, anonymous_share: share, ..steady(&levels) };
        if let Ok(curve) = curve(&memory) {
            for point in curve.points.iter().chain(&curve.knee) {
                prop_assert!(0.0 <= point.low && point.low <= point.high && point.high <= 1.0, "{:?}", point);
            }
            for pair in curve.points.windows(2) {
                prop_assert!(pair[0].low <= pair[1].low && pair[0].high <= pair[1].high);
            }
        }
    }
}

fn steady(levels: &[Level]) -> Memory<'_> {
    Memory {
        levels,
        page_bytes: 4096,
        cpus: 2,
        lifecycle: Vec::new(),
        bytes_per_fault: &|_| 4096.0,
        unseen_pages: 0.0,
        anonymous_share: 1.0,
    }
}

/// Levels of `n` bursts of `pages` pages each, read `steps` times while they rise and while they fall.
fn bursts(n: u64, pages: u64, steps: u64) -> Vec<Level> {
    let mut levels = vec![Level::default()];
    for burst in 0..n {
        for step in 1..=steps {
            let touched = pages * step / steps;
            levels.push(Level {
                time_ns: levels.len() as u64 * 500_000,
                faults: burst * pages + touched,
                anon_bytes: touched * 4096,
            });
        }
        for step in 1..=steps {
            let left = pages - pages * step / steps;
            let faults = (burst + 1) * pages;
            levels.push(Level { time_ns: levels.len() as u64 * 500_000, faults, anon_bytes: left * 4096 });
        }
    }
    levels
}

#[test]
fn eight_equal_bursts_need_only_the_first() {
    let levels = bursts(8, 128_000, 40);
    let curve = curve(&steady(&levels)).unwrap();
    let knee = curve.knee.unwrap();
    assert!((knee.low - 0.875).abs() < 0.021 && (knee.high - 0.875).abs() < 0.021, "{knee:?}");
    assert_eq!(knee.keep_bytes, 512 * MIB, "500 MiB would do, 512 can be remembered");
    let last = curve.points.last().unwrap();
    assert!(
        last.keep_bytes == 512 * MIB && (last.low - 0.875).abs() < 1e-9 && (last.high - 0.875).abs() < 1e-9
    );
    assert!((curve.points[4].low - 7.0 * 32.0 / 4000.0).abs() < 0.001, "{:?}", curve.points[4]);
}

#[test]
fn a_program_that_touches_everything_once_can_avoid_nothing() {
    let levels = bursts(1, 100_000, 40);
    let curve = curve(&steady(&levels)).unwrap();
    assert_eq!(curve.knee, None);
    assert_eq!(curve.points, [Point { keep_bytes: MIB, low: 0.0, high: 0.0 }]);
}

#[test]
fn what_a_dying_child_gives_back_can_not_be_kept() {
    // A parent with 100 MiB forks; the child's copy is counted again at once, touched by nobody, and goes at its end.
    let level = |i: u64, faults, mib: u64| Level { time_ns: i * 1_000_000, faults, anon_bytes: mib * MIB };
    let mut levels: Vec<Level> = (0..10).map(|i| level(i, 2560 * i, 10 * i)).collect();
    levels.extend((10..20).map(|i| level(i, 25_600, 200)));
    levels.extend((20..40).map(|i| level(i, 25_600 + 1280 * (i - 20), 100 + 5 * (i - 20))));
    let naive = curve(&steady(&levels)).unwrap();
    assert!(naive.knee.is_some(), "without the records of processes it looks avoidable");
    let lifecycle = vec![flow::Lifecycle::Fork(9_500_000), flow::Lifecycle::End(19_800_000)];
    let curve = curve(&Memory { lifecycle, ..steady(&levels) }).unwrap();
    assert_eq!(curve.knee, None);
    assert!(curve.points[0].high < 0.001, "{:?}", curve.points);
}

#[test]
fn noise_of_the_counters_is_not_a_release() {
    let noisy =
        |i: u64| Level { time_ns: i, faults: i * 100, anon_bytes: i * 100 * 4096 + (i % 2) * 60 * 4096 };
    let levels: Vec<Level> = (0..1000).map(noisy).collect();
    let last = *curve(&steady(&levels)).unwrap().points.last().unwrap();
    assert!(last.high < 0.002, "{last:?}");
}

#[test]
fn too_few_readings_are_refused_in_words() {
    assert!(curve(&steady(&[Level::default(); 3])).unwrap_err().contains("3 times"));
    assert!(curve(&steady(&[Level::default(); 30])).is_err());
}
