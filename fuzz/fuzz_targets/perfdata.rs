//! Any bytes that begin like perf.data are read: no panic, no more records than there are bytes for.
#![no_main]

use faultless_trace::profile::Profile;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let Ok(recording) = faultless_prof::perfdata::read(bytes) else { return };
    // The shortest record has 8 bytes and becomes two at most.
    assert!(recording.observation.records.len() <= bytes.len() / 4);
    let _ = Profile::new(&recording);
});
