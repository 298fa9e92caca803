//! Reads any bytes that begin like perf.data. It must not panic, or make more records than the bytes can hold.
#![no_main]

use faultless_trace::profile::Profile;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let Ok(recording) = faultless_prof::perfdata::read(bytes) else { return };
    // The shortest record has 8 bytes and becomes two at most.
    assert!(recording.observation.records.len() <= bytes.len() / 4);
    let _ = Profile::new(&recording);
});
