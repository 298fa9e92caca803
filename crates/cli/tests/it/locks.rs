//! Waits for the lock of the address space, as a user reads of them. Guards against a call's wait that is said to be a
//! fault's.

use std::process::Command;

use faultless_wants as wants;
use serde_json::Value;

use crate::interposed::compile;
use crate::{FAULTLESS, machine, text};

#[test]
fn a_wait_for_mmap_lock_is_the_calls_that_waited() {
    if !machine::root("the tracepoints mmap_lock:* are for root") || !machine::recorder() {
        return;
    }
    let Some(program) = compile("lock_waits.c", &["-pthread"]) else { return };
    let folder = tempfile::tempdir().unwrap();
    // A mount of its own, so that no other test sees tracepoints.
    let script = "mount -t tracefs none /sys/kernel/tracing; exec \"$@\"";
    let words = ["-m", "sh", "-c", script, "sh", FAULTLESS, "record", "--", program.to_str().unwrap()];
    let out = Command::new("unshare").args(words).current_dir(folder.path()).output().unwrap();
    assert_eq!(out.status.code(), Some(0), "{}", text(&out.stderr));
    let report = |words: &[&str]| {
        let out = Command::new(FAULTLESS).arg("report").args(words).current_dir(folder.path()).output();
        text(&out.unwrap().stdout)
    };
    let findings: Value = serde_json::from_str(&report(&["--json"])).unwrap();
    let sources = findings["sources"].as_array().unwrap();
    let locks = sources.iter().find(|source| source["source"] == "waits for mmap_lock").unwrap();
    if locks["used"] == false {
        return wants::missing_feature("tracepoints", &locks["note"]);
    }
    let by = |waits: &Value| -> Vec<String> {
        let by = waits["by"].as_array().unwrap().iter();
        by.map(|one| one[0].as_str().unwrap().to_owned()).collect()
    };
    let [reading, writing] = [0, 1].map(|write| by(&findings["lock_waits"][write]));
    assert_eq!(reading.first().map(String::as_str), Some("mincore"), "{findings}");
    assert!(["mprotect", "madvise"].iter().all(|call| writing.iter().any(|by| by == call)), "{writing:?}");
    assert!(!writing.iter().any(|by| by == "faults" || by == "mincore"), "{writing:?}");
    let said = report(&[]);
    assert!(said.contains("mmap_lock for reading: ") && said.contains(": mincore "), "{said}");
}
