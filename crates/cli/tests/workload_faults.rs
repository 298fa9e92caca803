//! The workloads really fault. Guards against writes that the compiler removes. A separate program, because
//! the usage of children is summed over the whole test process.

use std::process::Command;

use faultless_os::counters::{Who, rusage};
use faultless_os::host::Host;
use faultless_os::page;

fn faults(arguments: &[&str]) -> u64 {
    let before = rusage(Who::Children).unwrap().minor_faults;
    let output = Command::new(env!("CARGO_BIN_EXE_faultless")).args(arguments).output().unwrap();
    assert!(output.status.success());
    rusage(Who::Children).unwrap().minor_faults - before
}

#[test]
fn workloads_fault_as_often_as_their_size_says() {
    let thp = Host::read().thp.and_then(|thp| thp.enabled);
    if thp.as_deref() == Some("always") {
        return faultless_wants::missing_feature(
            "THP not always",
            "transparent_hugepage/enabled is always, faults are not per base page",
        );
    }
    let start = faults(&["workload"]);
    let pages = |mib: u64| (mib << 20) / page::size() as u64;
    // The workload, and the MiB that it touches for the first time with any allocator.
    for (arguments, mib) in [
        (&["workload", "touch-once", "--mib", "64"][..], 64),
        (&["workload", "growth", "--max-mib", "64"], 64),
        (&["workload", "bursts", "--bursts", "1", "--blocks", "64"], 64),
    ] {
        let found = faults(arguments);
        assert!(found >= pages(mib), "{arguments:?}: {found} faults for {mib} MiB");
        assert!(found < start + pages(mib) * 12 / 10 + 2000, "{arguments:?}: {found} faults for {mib} MiB");
    }
    // One block, and at most a dozen pages for each thread's own state. glibc keeps the block, and so must
    // its replacement.
    for prefix in [&[][..], &["run", "--", env!("CARGO_BIN_EXE_faultless")]] {
        let (plain, churn) = (
            faults(&[prefix, &["workload"]].concat()),
            faults(&[prefix, &["workload", "thread-churn"]].concat()),
        );
        assert!(
            churn < plain + pages(2) + 200 * 12,
            "{prefix:?}: {churn} faults, {plain} of them without threads"
        );
    }
}
