//! `faultless workload` as a user runs it. `advise` compares programs by their output. Guards against a
//! checksum that depends on the allocator, its settings or timing.

use std::process::{Command, Output};

use crate::text;

/// Small sizes: seconds for all of them together, in a debug build.
const SMALL: [&str; 10] = [
    "chunk-pipeline --chunks 64",
    "temporaries --total-mib 16 --max-mib 4",
    "mixed --ops 20000",
    "calloc-sparse --blocks 12 --block-kib 512 --ring 3",
    "calloc-full --blocks 12 --block-kib 512 --ring 3",
    "growth --max-mib 8",
    "bursts --bursts 2 --blocks 20",
    "idle-bursts --bursts 2 --blocks 20 --idle-ms 10",
    "thread-churn --threads 6 --blocks 3 --block-kib 512",
    "touch-once --mib 8",
];

/// Settings of glibc that change the source of blocks; other libraries ignore them.
const TUNABLES: [&str; 4] = [
    "",
    "glibc.malloc.hugetlb=1",
    "glibc.malloc.mmap_max=0:glibc.malloc.trim_threshold=1099511627776",
    "glibc.malloc.perturb=165:glibc.malloc.mmap_threshold=4096",
];

fn faultless(arguments: &str, tunables: &str) -> Output {
    Command::new(env!("CARGO_BIN_EXE_faultless"))
        .args(arguments.split_whitespace())
        .env("GLIBC_TUNABLES", tunables)
        .output()
        .unwrap()
}

fn name(workload: &str) -> &str {
    workload.split(' ').next().unwrap()
}

#[test]
fn checksum_is_the_same_with_every_allocator_setting() {
    for workload in SMALL {
        let outputs = TUNABLES.map(|tunables| faultless(&format!("workload {workload}"), tunables));
        for output in &outputs {
            assert!(output.status.success(), "{workload}: {}", text(&output.stderr));
            assert_eq!(text(&output.stdout), text(&outputs[0].stdout), "{workload}");
        }
        let line = text(&outputs[0].stdout);
        let hex = line.trim_end().strip_prefix(&format!("{} checksum ", name(workload)));
        let sum = u64::from_str_radix(hex.expect("NAME checksum HEX"), 16);
        assert!(hex.unwrap().len() == 16 && sum.is_ok_and(|sum| sum != 0), "{line}");
    }
}

#[test]
fn idle_time_leaves_the_checksum_alone_and_a_seed_does_not() {
    let checksum = |workload: &str| {
        let line = text(&faultless(&format!("workload {workload}"), "").stdout);
        line.trim_end().rsplit(' ').next().map(str::to_owned).unwrap()
    };
    assert_eq!(checksum(SMALL[6]), checksum(SMALL[7]));
    assert_ne!(checksum("mixed --ops 20000"), checksum("mixed --ops 20000 --seed 43"));
}

#[test]
fn times_go_to_stderr_in_one_line_unless_quiet() {
    let output = faultless("workload touch-once --mib 8", "");
    let line = text(&output.stderr);
    assert_eq!(line.lines().count(), 1, "{line}");
    assert!(line.contains(" ms, ") && line.contains("us/MiB"), "{line}");
    assert!(line.contains("first touch p50 ") && line.contains("resident pages excluded"), "{line}");
    assert!(faultless("workload touch-once --mib 8 --quiet", "").stderr.is_empty());
}

#[test]
fn json_carries_the_same_checksum_and_the_truth() {
    let line = text(&faultless("workload --json touch-once --mib 8", "").stdout);
    let json: serde_json::Value = serde_json::from_str(&line).unwrap();
    assert_eq!(json["schema"], 1);
    let plain = text(&faultless("workload touch-once --mib 8", "").stdout);
    assert!(plain.contains(json["checksum"].as_str().unwrap()));
    assert_eq!(json["processed_bytes"], 8 << 20);
    assert!(json["first_touch_p50_ns"].as_f64().is_some_and(|ns| ns > 10.0), "{line}");
}

#[test]
fn without_a_name_all_are_listed() {
    let output = faultless("workload", "");
    assert!(output.status.success());
    let list = text(&output.stdout);
    for workload in SMALL {
        let listed = list.lines().any(|line| line.split(' ').next() == Some(name(workload)));
        assert!(listed, "{} is not in\n{list}", name(workload));
    }
    assert_eq!(list.lines().count(), SMALL.len());
}

#[test]
fn wrong_names_and_values_are_told_and_end_with_2() {
    for (arguments, word) in [
        ("workload chunk-pipelin", "chunk-pipeline"),
        ("workload nosuch", "there are chunk-pipeline, temporaries, "),
        ("workload bursts --blocks 0", "--blocks"),
        ("workload mixed --max-size 15", "--max-size"),
        ("workload mixed --seed 0", "--seed"),
        ("workload growth --max-mib x", "--max-mib"),
        ("workload calloc-full --ring=-1", "--ring"),
        ("workload temporaries --element f16", "f32"),
    ] {
        let output = faultless(arguments, "");
        assert_eq!(output.status.code(), Some(2), "{arguments}");
        assert!(text(&output.stderr).contains(word), "{arguments}: {}", text(&output.stderr));
        assert!(output.stdout.is_empty(), "{arguments}");
    }
}
