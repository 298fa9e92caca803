//! Reads, weighs and exports any bytes that begin like a trace file. It must not panic, and must stay within the memory
//! that libFuzzer's `-malloc_limit_mb` and `-rss_limit_mb` allow (2 GiB by default).
#![no_main]

use std::io::sink;

use faultless_report::export::{Weight, csv, firefox, folded, jsonl, perfetto, pprof};
use faultless_trace::profile::Profile;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let Ok(recording) = faultless_trace::file::read(bytes) else { return };
    let profile = Profile::new(&recording);
    let written = [
        folded::write(&recording, &profile, Weight::Time, &mut sink()),
        jsonl::write(&recording, &profile, &mut sink()),
        csv::faults(&recording, &profile, &mut sink()),
        csv::stacks(&recording, &mut sink()),
        perfetto::write(&recording, &profile, &mut sink()),
        pprof::write(&recording, &profile, &mut sink()),
        firefox::write(&recording, &profile, Weight::Time, &mut sink()),
    ];
    assert!(written.iter().all(Result::is_ok));
});
