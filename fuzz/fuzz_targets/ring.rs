//! Parses the bytes of a perf ring of a newer, older or broken kernel. It must not panic.
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
