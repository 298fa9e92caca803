//! Bytes of a perf ring, as a kernel that is newer, older or broken might write them: parsed without a panic.
#![no_main]

use faultless_os::ring::{Raw, records};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    for record in records(bytes) {
        if let Raw::Sample(sample) = record {
            let _ = sample.string_registers();
            sample.chain().for_each(drop);
        }
    }
});
