//! Who owns a program's memory: the line of `report`, and the mechanisms of allocators and runtimes.

use std::path::Path;
use std::process::Command;

use faultless_wants as wants;
use serde_json::Value;

use crate::interposed::{compile, compile_with};
use crate::{FAULTLESS, machine, text};

/// Program, its mechanism, and parts of what is said of it, of its caller, and of its cure; no cure if that is empty.
const PROGRAMS: [[&str; 5]; 12] = [
    ["grow_copy", "growth_by_copy", "copies", "munmap <- ", "reserve"],
    ["grow_map", "growth_by_copy", "copies", "munmap <- grow_map", "reserve"],
    ["populate_none", "populate", "PROT_NONE", "mmap <- ", "POPULATE_WRITE"],
    ["populate_read", "populate", "zero page", "mmap <- ", "POPULATE_WRITE"],
    ["populate_back", "populate", "given back", "mmap <- ", "populate after"],
    ["populate_unmapped", "populate", "unmapped again", "mmap <- ", "keep the populated"],
    ["flag", "huge_page_flag_outlives_block", "outlives", "madvise <- ask", "MADV_NOHUGEPAGE"],
    ["flag_of_parts", "huge_page_flag_outlives_block", "outlives", "madvise <- ask", "MADV_NOHUGEPAGE"],
    ["learned", "threshold_learned", "learns", "munmap <- ", "trim_threshold"],
    ["learned_small", "threshold_learned", "learns", "munmap <- ", "trim_threshold"],
    ["starts", "first_touch", "nothing to cure", "", ""],
    ["keeper", "first_touch", "nothing to cure", "", ""],
];

/// `report --json` of a recording of these words under this environment, and the text of `report`.
fn reported(words: &[&str], environment: &[(&str, &str)]) -> (Value, String) {
    let folder = tempfile::tempdir().unwrap();
    let run = |words: &[&str]| {
        let environment = environment.iter().copied();
        Command::new(FAULTLESS).args(words).envs(environment).current_dir(folder.path()).output().unwrap()
    };
    let out = run(&[&["record", "--all", "--"], words].concat());
    assert!(out.status.success(), "{words:?}: {}", text(&out.stderr));
    (serde_json::from_slice(&run(&["report", "--json"]).stdout).unwrap(), text(&run(&["report"]).stdout))
}

fn said(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// Whether the cures of a mechanism are these.
fn has_cure(mechanism: &Value, cure: &str) -> bool {
    let cures = mechanism["cures"].as_array().map_or(&[][..], Vec::as_slice);
    match cure {
        "" => cures.is_empty(),
        cure => cures.iter().any(|advised| said(&advised["how"]).contains(cure)),
    }
}

fn is_possible() -> bool {
    machine::root("who gives memory back is told by tracepoints, which are for root") && machine::recorder()
}

#[test]
fn the_first_mechanism_is_the_programs_own() {
    if !is_possible() {
        return;
    }
    let Some(program) = compile("heaps.c", &["-pthread", "-g", "-O1", "-fno-builtin"]) else { return };
    let mut wrong = String::new();
    for [name, id, what, caller, cure] in PROGRAMS {
        let (findings, _) = reported(&[program.to_str().unwrap(), name, "30"], &[]);
        let first = &findings["mechanisms"][0];
        let is_right = first["id"] == *id
            && said(&first["what"]).contains(what)
            && said(&first["caller"]).contains(caller)
            && has_cure(first, cure);
        if !is_right {
            wrong.push_str(&format!("{name}: {:#}\n", findings["mechanisms"]));
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
}

#[test]
fn a_preloaded_allocator_is_named_with_its_settings_and_its_purges() {
    let Some(library) = library("libjemalloc.so.2", "libjemalloc2").filter(|_| is_possible()) else { return };
    let Some(program) = compile("mechanisms.c", &["-pthread", "-g", "-O1", "-fno-builtin"]) else { return };
    let conf = "dirty_decay_ms:0,muzzy_decay_ms:0";
    let environment = [("LD_PRELOAD", library.as_str()), ("MALLOC_CONF", conf), ("PASSWORD", "swordfish")];
    let program = program.to_str().unwrap();
    let (findings, report) = reported(&[program, "heap_top", "200"], &environment);
    let first = &findings["mechanisms"][0];
    assert!(
        first["id"] == "allocator_purge" && has_cure(first, "MALLOC_CONF=dirty_decay_ms:-1"),
        "{first:#}"
    );
    let heap = &findings["heaps"][0];
    assert!(heap["name"] == "jemalloc" && said(&heap["version"]).starts_with('5'), "{:#}", findings["heaps"]);
    assert!(report.contains("memory: jemalloc 5") && report.contains(conf), "{report}");
    assert!(!format!("{findings}").contains("swordfish"));

    let (findings, _) = reported(&[program, "large", "20"], &environment[..1]);
    let first = &findings["mechanisms"][0];
    assert!(first["id"] == "oversize_blocks" && has_cure(first, "oversize_threshold:0"), "{first:#}");
}

/// A library by its file name.
fn library(name: &str, package: &str) -> Option<String> {
    let folders = ["/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib", "/usr/lib64"];
    let found = folders.iter().map(|folder| format!("{folder}/{name}")).find(|path| Path::new(path).exists());
    if found.is_none() {
        wants::missing_package(package, format_args!("no {name}"));
    }
    found
}

#[test]
fn where_the_pool_cant_act_the_report_says_so_before_any_run() {
    if !machine::recorder() {
        return;
    }
    if let Some(program) = compile_with("cc", "mechanisms.c", &["-pthread", "-static"]) {
        let (findings, report) = reported(&[program.to_str().unwrap(), "heap_top", "30"], &[]);
        assert!(findings["heaps"][0]["hidden"].is_string(), "{:#}", findings["heaps"]);
        assert!(report.contains("statically: the pool can't act there"), "{report}");
    }
    if wants::program("go", "golang-go") {
        let folder = tempfile::tempdir().unwrap();
        let source = folder.path().join("x.go");
        std::fs::write(
            &source,
            "package main\nfunc main() { x := make([]byte, 1<<24); for i := range x { x[i] = 1 } }\n",
        )
        .unwrap();
        let built =
            Command::new("go").args(["build", "-o", "x", "x.go"]).current_dir(&folder).output().unwrap();
        assert!(built.status.success(), "{}", text(&built.stderr));
        let (_, report) = reported(&[folder.path().join("x").to_str().unwrap()], &[("GOGC", "50")]);
        assert!(report.contains("memory: Go 1.") && report.contains(", GOGC=50"), "{report}");
        assert!(report.contains("Go allocates without malloc: the pool can't act there"), "{report}");
    }
}

#[test]
fn settings_of_a_child_are_its_own() {
    if !machine::recorder() {
        return;
    }
    let Some(program) = compile("mechanisms.c", &["-pthread", "-g", "-O1", "-fno-builtin"]) else { return };
    let tunables =
        "GLIBC_TUNABLES=glibc.malloc.mmap_threshold=33554432:glibc.malloc.trim_threshold=4294967296";
    let words = format!("{tunables} {} heap_top 1000", program.display());
    let (findings, _) = reported(&["sh", "-c", &format!("{words}; true")], &[]);
    let mut heaps = findings["heaps"].as_array().unwrap().iter();
    let is_set = heaps.any(|heap| heap["name"] == "glibc" && heap["settings"][0] == tunables);
    assert!(is_set, "{:#}", findings["heaps"]);
}

#[test]
fn the_c_library_of_musl_is_named() {
    if !machine::recorder() {
        return;
    }
    let Some(program) = compile_with("musl-gcc", "mechanisms.c", &["-pthread", "-fno-builtin"]) else {
        return;
    };
    let (findings, _) = reported(&[program.to_str().unwrap(), "heap_top", "30"], &[]);
    assert_eq!(findings["heaps"][0]["name"], "musl", "{:#}", findings["heaps"]);
}
