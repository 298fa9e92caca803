//! Answers any valid observation. The rows must add up, and the text must not panic.
#![no_main]

use faultless_trace::{Observation, Stat};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let Ok(observation) = serde_json::from_slice::<Observation>(bytes) else { return };
    let stat = Stat::from_observation(&observation);
    let waited = observation.usage.minor_faults.saturating_add(observation.usage.major_faults);
    let total = waited.saturating_add(stat.beyond_wait4.map_or(0, |beyond| beyond.faults));
    let rows = stat.rows.iter().fold(0_u64, |sum, row| sum.saturating_add(row.faults));
    assert_eq!(rows, total);
    let _ = faultless_report::stat::text(&stat, true, None);
});
