//! Memory tests of other projects under the interposer: mimalloc's test-stress and CPython's own tests of
//! modules that hold memory.
//!
//! Guards against: allocation patterns that our tests lack. They take minutes, so they run only on request:
//! set `FAULTLESS_TEST_MIMALLOC` to the path of mimalloc's sources, and `FAULTLESS_TEST_CPYTHON=1`.

use std::path::PathBuf;
use std::process::Command;

use faultless_wants as wants;

use crate::interposed::{Case, compile, run, scratch};
use crate::text;

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

/// Ways to run the pool that stress all of it.
const WAYS: [&[&str]; 4] = [
    &[],
    &["--policy", "base", "--threshold", "16K"],
    &["--retain", "0"],
    &["--retain", "8M", "--prefault", "populate"],
];

/// test-stress on plain malloc, with very large objects. Threads pass objects to each other, check their
/// content on free, end and restart.
#[test]
fn mimallocs_stress_test_finds_nothing() {
    const SOURCES: &str = "FAULTLESS_TEST_MIMALLOC";
    if !wants::asked(SOURCES, "minutes, and mimalloc's sources") {
        return;
    }
    let sources = std::env::var_os(SOURCES).unwrap();
    let source = PathBuf::from(sources).join("test/test-stress.c");
    let flags = ["-pthread", "-DUSE_STD_MALLOC=1", "-DALLOW_LARGE=true"];
    let Some(program) = compile(&source.to_string_lossy(), &flags) else { return };
    for options in WAYS {
        // Threads, load in percent, number of restarts of all threads.
        for arguments in [["16", "25", "30"], ["3", "100", "20"]] {
            let output = run(Case::pooled(&program, options).args(&arguments));
            assert!(output.stdout.contains("iterations left:   0"), "{options:?}: {}", output.stdout);
        }
    }
}

#[test]
fn cpythons_tests_of_memory_pass_as_without_the_pool() {
    if !wants::asked("FAULTLESS_TEST_CPYTHON", "minutes") {
        return;
    }
    let Some(python) = interpreter() else { return };
    for module in MODULES {
        if passes(&python, module, Some(&[])) && passes(&python, module, Some(WAYS[1])) {
            continue;
        }
        assert!(!passes(&python, module, None), "{module} fails only with the pool");
        wants::missing_feature(
            "CPython's own tests",
            format_args!("{module} fails without the pool as well"),
        );
    }
}

/// The interpreter itself, which may be behind a script, if its test suite is installed.
#[track_caller]
fn interpreter() -> Option<PathBuf> {
    let python = wants::path_of("python3", "python3")?;
    let script = "import test.test_bytes, sys; print(sys.executable)";
    let output = Command::new(python).args(["-c", script]).output().unwrap();
    if !output.status.success() {
        wants::missing_package("libpython3-testsuite", text(&output.stderr));
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
    // Its own limit: it ends a hanging module with the stacks of all threads.
    let arguments = ["-m", "test", "--timeout", "120", module];
    let output = command.args(arguments).current_dir(&directory).output().unwrap();
    std::fs::remove_dir_all(&directory).unwrap();
    output.status.success()
}
