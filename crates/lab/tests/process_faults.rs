//! An experiment that counts the faults of the whole process, in a test program of its own.

use faultless_lab::{Cell, experiments, trial};

const LOCK_SHARES: [&str; 5] =
    ["mmap_lock_share", "page_table_lock_share", "zone_lock_share", "lru_lock_share", "other_lock_share"];
const COSTS: [&str; 3] = ["zeroing_ns", "locks_ns", "rest_ns"];

#[test]
fn first_touches_are_faults_most_samples_lie_in_them_and_parts_add_up_for_any_number_of_threads() {
    // A busy machine takes up to a fifth fewer samples than were asked for.
    for (threads, samples) in [(1, 450), (1, 7000), (3, 7000)] {
        let cell = Cell::of("phases").with("page", "base").with("threads", threads).with("samples", samples);
        let sample = trial::measure(experiments::find("phases").unwrap(), &cell);
        if let Some(why) = sample.refused {
            return faultless_wants::missing_feature("perf events", why);
        }
        assert_eq!(sample.violations, [""; 0]);
        let value = |name: &str| {
            let found = sample.values.iter().find(|value| value.quantity == name);
            found.map(|value| value.value)
        };
        assert!(value("fault_share").unwrap() > 0.5, "{sample:?}");
        // Few samples give no shares.
        let Some(locks) = value("locks_share") else {
            assert_eq!(samples, 450, "{sample:?}");
            continue;
        };
        let of_locks: f64 = LOCK_SHARES.iter().filter_map(|name| value(name)).sum();
        assert!((of_locks - locks).abs() < 1e-9, "{sample:?}");
        let cost: f64 = COSTS.iter().filter_map(|name| value(name)).sum();
        assert!((cost / value("fault_ns").unwrap() - 1.0).abs() < 1e-9 && cost > 50.0, "{sample:?}");
    }
}
