//! Test programs that others wrote for memory, under the interposer: mimalloc's test-stress and CPython's own tests of
//! what holds memory.
//!
//! Guards against: an allocation pattern that nobody here thought of. Minutes, so they are asked for:
//! `FAULTLESS_TEST_MIMALLOC`, the path of mimalloc's sources, and `FAULTLESS_TEST_CPYTHON=1`.

#![allow(clippy::print_stderr, reason = "skips print their reason")]

mod interposed;
#[path = "interposed/real.rs"]
#[allow(dead_code, reason = "only the search for installed programs is used")]
mod real;

use std::path::PathBuf;
use std::process::Command;

use interposed::{Case, compile, run, scratch};
use real::installed;

/// Modules of CPython's test suite that allocate, grow, share, map or free much.
const MODULES: [&str; 16] = [
    "test_array",
    "test_bigmem",
    "test_buffer",
    "test_bytes",
    "test_bz2",
    "test_deque",
    "test_gc",
    "test_io",
    "test_json",
    "test_list",
    "test_lzma",
    "test_memoryview",
    "test_mmap",
    "test_picklebuffer",
    "test_unicode",
    "test_zlib",
];

/// Ways to run the pool in that stress all of it.
const WAYS: [&[&str]; 4] = [
    &[],
    &["--policy", "base", "--threshold", "16K"],
    &["--retain", "0"],
    &["--retain", "8M", "--prefault", "populate"],
];

/// test-stress, linked with nothing: plain malloc, with very large objects. Threads hand objects to each other, check
/// what they hold when they free it, end and are made again.
#[test]
fn mimallocs_stress_test_finds_nothing() {
    let Some(sources) = std::env::var_os("FAULTLESS_TEST_MIMALLOC") else {
        eprintln!("skipped: FAULTLESS_TEST_MIMALLOC does not say where mimalloc's sources are");
        return;
    };
    let source = PathBuf::from(sources).join("test/test-stress.c");
    let flags = ["-pthread", "-DUSE_STD_MALLOC=1", "-DALLOW_LARGE=true"];
    let Some(program) = compile(&source.to_string_lossy(), &flags) else { return };
    for options in WAYS {
        // Threads, share of the load in percent, times that all threads end and are made again.
        for arguments in [["16", "25", "30"], ["3", "100", "20"]] {
            let output = run(Case::pooled(&program, options).args(&arguments));
            assert!(output.stdout.contains("iterations left:   0"), "{options:?}: {}", output.stdout);
        }
    }
}

#[test]
fn cpythons_tests_of_memory_pass_as_without_the_pool() {
    if std::env::var_os("FAULTLESS_TEST_CPYTHON").is_none() {
        eprintln!("skipped: FAULTLESS_TEST_CPYTHON is not set");
        return;
    }
    let Some(python) = interpreter() else { return };
    for module in MODULES {
        if passes(&python, module, Some(&[])) && passes(&python, module, Some(WAYS[1])) {
            continue;
        }
        assert!(!passes(&python, module, None), "{module} fails only with the pool");
        eprintln!("not judged: {module} fails without the pool as well");
    }
}

/// The interpreter itself, which may stand behind a script, where its test suite is installed.
fn interpreter() -> Option<PathBuf> {
    let python = installed("python3")?;
    let script = "import test.test_bytes, sys; print(sys.executable)";
    let output = Command::new(python).args(["-c", script]).output().unwrap();
    if !output.status.success() {
        eprintln!("skipped: Python's test suite is not installed");
        return None;
    }
    Some(String::from_utf8(output.stdout).unwrap().trim_end().into())
}

fn passes(python: &PathBuf, module: &str, pool: Option<&[&str]>) -> bool {
    let directory = scratch("cpython");
    std::fs::create_dir_all(&directory).unwrap();
    let mut command = match pool {
        None => Command::new(python),
        Some(options) => {
            let mut command = Command::new(env!("CARGO_BIN_EXE_faultless"));
            command.arg("run").args(options).arg("--").arg(python);
            command
        }
    };
    // Its own limit: a module that hangs is ended with the stacks of all threads.
    let arguments = ["-m", "test", "--timeout", "120", module];
    let output = command.args(arguments).current_dir(&directory).output().unwrap();
    std::fs::remove_dir_all(&directory).unwrap();
    output.status.success()
}
