//! Guards the one-pass stack against a pool that is simulated page by page for one amount at a time.

use proptest::prelude::*;

use super::*;
use crate::observation::Level;

/// A reference pool: a stack of at most `most` page numbers. Returns the number of faults that found a page.
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
                // The pool serves the faults beyond the releases, then both alternate, then it keeps the
                // rest.
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

fn some_flows() -> impl Strategy<Value = Vec<Flow>> {
    let flow = (0..30_u64, 0..30_u64).prop_map(|(faults, releases)| Flow { faults, releases });
    let one_sided = (0..60_u64, any::<bool>()).prop_map(|(n, release)| {
        if release { Flow { faults: 0, releases: n } } else { Flow { faults: n, releases: 0 } }
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
}

fn steady(levels: &[Level]) -> Memory<'_> {
    Memory {
        levels,
        page_bytes: 4096,
        cpus: 2,
        lifecycle: Vec::new(),
        held_bytes: u64::MAX,
        plateau: (None, None),
        growth: &|_| Growth { low_bytes: 4096.0, high_bytes: 4096.0, fresh_share: 1.0 },
        all_pages: levels.iter().map(|l| l.faults).max().unwrap_or(0) as f64,
        fresh_share: 1.0,
    }
}

#[test]
fn no_more_is_avoidable_than_faults_that_take_pages() {
    // Eight bursts. Each fault takes 16 pages, where 1 is assumed; a fifth of the faults is of files.
    let mut levels = bursts(8, 6400, 50);
    levels.iter_mut().for_each(|level| level.faults /= 16);
    let growth = |_| Growth { low_bytes: 65_536.0, high_bytes: 65_536.0, fresh_share: 1.0 };
    let all_pages = levels.last().unwrap().faults as f64;
    let memory = Memory { growth: &growth, all_pages, fresh_share: 0.8, ..steady(&levels) };
    let plateau = *curve(&memory).unwrap().points.last().unwrap();
    assert!((plateau.high - 0.8 * 7.0 / 8.0).abs() < 0.02, "{plateau:?}");
}

#[test]
fn to_keep_as_much_as_was_ever_resident_is_to_keep_all() {
    // A block of 1 MiB is allocated and freed twenty times between two readings, after the program's start.
    let mut levels = vec![Level::default()];
    for n in 1..=40 {
        levels.push(Level { time_ns: n * 2_000_000, faults: 500 + n * 20 * 256, anon_bytes: 500 * 4096 });
    }
    let of = |held_bytes| curve(&Memory { held_bytes, ..steady(&levels) }).unwrap().knee.unwrap();
    let (unknown, known) = (of(u64::MAX), of(3 << 20));
    assert!(unknown.keep_bytes > 16 << 20, "{unknown:?}");
    assert_eq!(known.keep_bytes, 3 << 20);
    assert!(known.low >= unknown.low && known.low > 0.9, "{known:?} {unknown:?}");
}

#[test]
fn no_more_is_kept_than_was_held_whatever_is_easy_to_remember() {
    // 20 MiB taken and given back again and again between readings: 66 MiB would round to 72, 33 to 36.
    let mut levels = vec![Level::default()];
    for n in 1..=40 {
        levels.push(Level { time_ns: n * 2_000_000, faults: n * 20 * 5120, anon_bytes: 500 * 4096 });
    }
    for held_bytes in [33 * MIB, 66 * MIB, 74 * MIB + 800_000, 5 * MIB + 200_000] {
        let knee = curve(&Memory { held_bytes, ..steady(&levels) }).unwrap().knee.unwrap();
        assert_eq!(knee.keep_bytes, held_bytes);
        assert!(knee.low > 0.9, "{knee:?}");
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
fn what_a_dying_child_gives_back_can_not_be_kept() {
    // A parent with 100 MiB forks. The child's copy counts again at once, is never touched, and goes when the
    // child ends.
    let level = |i: u64, faults, mib: u64| Level { time_ns: i * 1_000_000, faults, anon_bytes: mib * MIB };
    let mut levels: Vec<Level> = (0..10).map(|i| level(i, 2560 * i, 10 * i)).collect();
    levels.extend((10..20).map(|i| level(i, 25_600, 200)));
    levels.extend((20..40).map(|i| level(i, 25_600 + 1280 * (i - 20), 100 + 5 * (i - 20))));
    let naive = curve(&steady(&levels)).unwrap();
    assert!(naive.knee.is_some(), "without the records of processes it looks avoidable");
    let lifecycle = vec![Lifecycle::Fork(9_500_000), Lifecycle::End(19_800_000)];
    let curve = curve(&Memory { lifecycle, ..steady(&levels) }).unwrap();
    assert_eq!(curve.knee, None);
    // Faults on memory that came and went in between may have been avoidable.
    assert!(curve.points[0].low == 0.0 && curve.points[0].high < 0.06, "{:?}", curve.points);
}

#[test]
fn copies_of_a_files_pages_come_and_go_and_none_is_avoidable() {
    let levels = bursts(8, 10_000, 40);
    let growth = |_| Growth { low_bytes: 4096.0, high_bytes: 4096.0, fresh_share: 0.0 };
    assert!(curve(&Memory { growth: &growth, ..steady(&levels) }).unwrap_err().contains("no anonymous"));
}

#[test]
fn memory_that_could_not_be_read_has_no_curve() {
    let levels: Vec<Level> = (0..100).map(|i| Level { time_ns: i, faults: i * 100, anon_bytes: 0 }).collect();
    assert!(curve(&steady(&levels)).unwrap_err().contains("/proc"));
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
