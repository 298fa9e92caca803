//! Real programs under the interposer: the same output as without, even when the kernel refuses memory.
//!
//! Guards against: defects that a real allocation pattern reveals and a test program does not. A missing
//! program is skipped with its reason.

use faultless_wants as wants;

use crate::interposed::real::{self, Real};
use crate::interposed::{Case, compile, compile_with, run, scratch};
use crate::{FAULTLESS, machine, text};

/// Runs a program without the pool and with it in all ways, and compares standard output.
fn same(real: Option<Real>) {
    let Some(real) = real else { return };
    let expected = run(real.plain()).stdout;
    assert!(!expected.is_empty(), "{} printed nothing to compare", real.name);
    for options in [
        &["--policy", "base", "--retain", "0"][..],
        &["--threshold", "16K"],
        &["--small=mimalloc", "--policy", "thp"],
    ] {
        assert!(run(real.pooled(options)).stdout == expected, "{} {options:?}: other output", real.name);
    }
    for failure in ["mmap:1", "extend:2,madvise:1,mremap:1"] {
        let case = real.plain().failing(failure).env("FAULTLESS_RETAIN", "1M");
        assert!(run(case).stdout == expected, "{} with {failure}: other output", real.name);
    }
}

#[test]
fn python_prints_the_same() {
    same(real::python());
}

#[test]
fn python_prints_the_same_under_an_address_space_limit() {
    let Some(python) = real::python() else { return };
    let plain = run(python.plain().limited("-v", "2000000")).stdout;
    assert_eq!(run(python.pooled(&[]).limited("-v", "2000000")).stdout, plain);
}

#[test]
fn sqlite_prints_the_same() {
    same(real::sqlite());
}

#[test]
fn node_prints_the_same() {
    same(real::node());
}

#[test]
fn sort_and_xz_print_the_same() {
    same(real::sort());
    same(real::xz());
}

#[test]
fn git_prints_the_same() {
    same(real::git());
}

#[test]
fn gcc_makes_the_same_object() {
    same(real::gcc());
}

#[test]
fn a_status_a_signal_and_standard_input_pass_through() {
    let status = |script: &str| {
        let mut command = std::process::Command::new(FAULTLESS);
        command.args(["run", "--", "sh", "-c", script]).status().unwrap()
    };
    assert_eq!(status("exit 7").code(), Some(7));
    assert_eq!(std::os::unix::process::ExitStatusExt::signal(&status("kill -TERM $$")), Some(15));
}

#[test]
fn what_is_no_command_is_one_line() {
    for command in ["", "--sumary"] {
        let mut faultless = std::process::Command::new(env!("CARGO_BIN_EXE_faultless"));
        let output = faultless.args(["run", "--", command]).output().unwrap();
        let message = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{command}: {message}");
        assert_eq!(message.lines().count(), 1, "{message}");
        if command.starts_with('-') {
            assert!(message.contains("no such option") && message.contains("--help"), "{message}");
        }
    }
}

#[test]
fn a_static_program_is_run_with_a_word_that_nothing_can_be_done() {
    let directory = scratch("static");
    std::fs::create_dir_all(&directory).unwrap();
    let (source, program) = (directory.join("s.c"), directory.join("s"));
    std::fs::write(&source, "#include <stdio.h>\n#include <stdlib.h>\n#include <string.h>\nint main(void){for(int i=0;i<100;i++){memset(malloc(1<<20),i,1<<20);}puts(\"hi\");return 0;}\n").unwrap();
    let built = std::process::Command::new("cc").arg("-static").arg("-o").args([&program, &source]).output();
    match built {
        Ok(built) if built.status.success() => {}
        Ok(built) => return wants::missing_package("libc6-dev", text(&built.stderr)),
        Err(error) => return wants::missing_package("gcc", error),
    }
    let output = run(Case::pooled(&program, &[]));
    assert_eq!(output.stdout, "hi\n");
    assert!(output.stderr.contains("statically linked"), "{}", output.stderr);
    // stat and advise ask the same check.
    let said = |words: &[&str]| {
        let faultless = std::process::Command::new(FAULTLESS).args(words).arg("--").arg(&program).output();
        let out = faultless.unwrap();
        text(&out.stdout) + &text(&out.stderr)
    };
    let (stat, advise) = (said(&["stat"]), said(&["advise"]));
    assert!(advise.contains("statically linked"), "{advise}");
    assert!(stat.contains("statically linked") && stat.contains("faultless record -- "), "{stat}");
    assert!(!stat.contains("faultless advise -- "), "{stat}");
    std::fs::remove_dir_all(&directory).unwrap();
}

#[test]
fn a_program_that_becomes_another_user_still_finds_the_interposer() {
    if !machine::other_users() {
        return;
    }
    let command = ["--reuid=65534", "--regid=65534", "--clear-groups", "sort", "/etc/passwd"];
    let output = run(Case::pooled("setpriv", &["--summary"]).args(&command));
    assert!(output.stderr.contains("faultless: sort["), "{}", output.stderr);
    assert!(!output.stderr.contains("ld.so"), "{}", output.stderr);
}

#[test]
fn the_summary_never_lands_in_a_file_of_the_program() {
    let Some(program) = compile("takes_descriptors.c", &[]) else { return };
    let file = scratch("taken");
    let output = run(Case::pooled(&program, &["--summary"]).args(&[&file]));
    let written = std::fs::read_to_string(&file).unwrap();
    std::fs::remove_file(&file).unwrap();
    assert_eq!(written, "of the program\n");
    assert!(!output.stderr.contains("large blocks"), "{}", output.stderr);
}

#[test]
fn children_of_a_script_that_use_musl_or_no_loader_run_and_nothing_complains() {
    let musl = compile_with("musl-gcc", "stress.c", &["-pthread"]);
    let still = compile_with("cc", "abi.c", &["-static"]);
    let programs: Vec<_> = [musl, still].into_iter().flatten().collect();
    for program in programs {
        let script = "\"$0\" 2 300 3 3000000 && sort /etc/passwd >/dev/null";
        let output = run(Case::pooled("sh", &[]).args(&["-c", script]).args(&[&program]));
        assert_eq!((output.stdout.as_str(), output.stderr.as_str()), ("ok\n", ""), "{}", program.display());
    }
}

#[test]
fn a_musl_program_gets_its_large_blocks_from_the_pool() {
    let Some(program) = compile_with("musl-gcc", "stress.c", &["-pthread"]) else { return };
    for options in [&["--summary"][..], &["--summary", "--small=mimalloc"]] {
        let output = run(Case::pooled(&program, options).args(&["3", "800", "5", "3000000"]));
        assert_eq!(output.stdout, "ok\n");
        assert!(output.stderr.contains("large blocks: "), "{}", output.stderr);
    }
}
