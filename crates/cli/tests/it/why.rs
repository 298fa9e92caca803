//! The mechanism that `report` names first, of programs that each have one.

use std::process::Command;

use serde_json::Value;

use crate::interposed::compile;
use crate::{FAULTLESS, machine, text};

/// Program, its mechanism, and a part of what is said of its caller and of its cure; no cure if that is empty.
const PROGRAMS: [(&str, &str, &str, &str); 9] = [
    ("heap_top", "heap_top_trimmed", "brk <- ", "trim_threshold"),
    ("arena", "arena_trimmed", "", "trim_threshold"),
    ("large", "block_above_mmap_threshold", "munmap <- ", "mmap_max=0"),
    ("sparse", "block_above_mmap_threshold", "munmap <- ", ""),
    ("unmaps", "own_mapping", "munmap <- own", "keep the mapping"),
    ("advises", "own_mapping", "madvise <- own", "keep the mapping"),
    ("threads", "thread_churn", "", "keep threads"),
    ("copies", "copy_on_write", "", "fork"),
    ("reads_first", "read_before_write", "", "write before"),
];

#[test]
fn the_first_mechanism_is_the_programs_own() {
    if !machine::root("who gives memory back is told by tracepoints, which are for root")
        || !machine::recorder()
    {
        return;
    }
    let Some(program) = compile("mechanisms.c", &["-pthread", "-g", "-O1", "-fno-builtin"]) else { return };
    let folder = tempfile::tempdir().unwrap();
    let mut wrong = String::new();
    for (name, id, caller, cure) in PROGRAMS {
        let words = ["record", "--all", "--", program.to_str().unwrap(), name, "30"];
        let out = Command::new(FAULTLESS).args(words).current_dir(folder.path()).output().unwrap();
        assert_eq!(out.status.code(), Some(0), "{name}: {}", text(&out.stderr));
        let out =
            Command::new(FAULTLESS).args(["report", "--json"]).current_dir(folder.path()).output().unwrap();
        let findings: Value = serde_json::from_slice(&out.stdout).unwrap();
        let first = &findings["mechanisms"][0];
        let said = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let cures = first["cures"].as_array().cloned().unwrap_or_default();
        let is_right = first["id"] == id
            && said(&first["caller"]).contains(caller)
            && match cure {
                "" => cures.is_empty(),
                cure => cures.iter().any(|advised| said(&advised["how"]).contains(cure)),
            };
        if !is_right {
            wrong.push_str(&format!("{name}: {first:#}\n"));
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
}
