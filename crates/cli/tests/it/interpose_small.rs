//! `run --small=mimalloc`: small C and C++ programs that check every answer of malloc, and real programs.
//!
//! Guards against: answers of mimalloc that differ from glibc's; blocks freed by the wrong allocator;
//! short-lived threads; fork among threads; refusals without ENOMEM; a library that is named but missing.

use crate::interposed::{Case, compile, compile_with, real, run, same_lines};

const SMALL: &str = "--small=mimalloc";

#[test]
fn it_comes_behind_the_interposer_and_before_what_the_user_preloads() {
    let script = "echo $LD_PRELOAD; grep -c small- /proc/$$/maps";
    let output = run(Case::pooled("sh", &[SMALL]).args(&["-c", script]).env("LD_PRELOAD", "libm.so.6"));
    let (preload, mapped) = output.stdout.trim().split_once('\n').unwrap();
    let names: Vec<_> = preload.split(':').map(|path| path.rsplit('/').next().unwrap()).collect();
    assert!(names.len() == 3 && names[0].starts_with("preload-"), "{preload}");
    assert!(names[1].starts_with("small-") && names[2] == "libm.so.6", "{preload}");
    assert!(mapped.parse::<u32>().unwrap() > 0, "{mapped}");
    let plain = run(Case::pooled("sh", &["--small=next"]).args(&["-c", "echo $LD_PRELOAD"]));
    assert!(!plain.stdout.contains("small-"), "{}", plain.stdout);
}

#[test]
fn every_corner_of_the_interface_behaves_as_in_glibc() {
    let Some(program) = compile("abi.c", &[]) else { return };
    for options in [&[SMALL][..], &[SMALL, "--threshold", "16K"], &[SMALL, "--threshold", "1G"]] {
        assert_eq!(run(Case::pooled(&program, options)).stdout, "ok\n", "{options:?}");
    }
}

#[test]
fn every_refusal_and_every_errno_are_the_c_librarys() {
    let Some(program) = compile("answers.c", &[]) else { return };
    let expected = run(Case::plain(&program)).stdout;
    for options in [&[SMALL][..], &[SMALL, "--threshold", "16K"], &[SMALL, "--threshold", "1G"]] {
        same_lines(&expected, &run(Case::pooled(&program, options)).stdout, &format!("{options:?}"));
    }
}

#[test]
fn an_address_space_limit_leaves_room_for_the_stacks_of_threads() {
    let Some(program) = compile("threads_in_limit.c", &["-pthread"]) else { return };
    for kib in ["800000", "1500000", "2500000"] {
        let outside = run(Case::pooled(&program, &[SMALL]).limited("-v", kib)).stdout;
        assert_eq!(outside, "64 threads\n0 blocks refused\n", "ulimit -v {kib}");
        let inside = run(Case::pooled(&program, &[SMALL]).args(&[kib])).stdout;
        assert_eq!(inside, "64 threads\n0 blocks refused\n", "setrlimit, {kib}");
    }
}

#[test]
fn blocks_that_grow_page_by_page_come_to_the_pool() {
    let Some(program) = compile("grows.c", &[]) else { return };
    let output = run(Case::pooled(&program, &[SMALL, "--summary"]));
    assert_eq!(output.stdout, "grown\n");
    // Four blocks from 64 KiB to 8 MiB in steps of 16 KiB: 2032 steps, and a few of them copy.
    let grown = output.stderr.split("grown: ").nth(1).unwrap_or_else(|| panic!("{}", output.stderr));
    let in_place: u32 = grown.split(' ').next().unwrap().parse().unwrap();
    assert!(in_place > 1900, "{}", output.stderr);
}

#[test]
fn cpp_programs_compute_the_same() {
    let Some(program) = compile("objects.cpp", &["-pthread"]) else { return };
    let expected = run(Case::plain(&program)).stdout;
    for options in [&[SMALL][..], &[SMALL, "--threshold", "1G"], &[SMALL, "--policy", "base"]] {
        assert_eq!(run(Case::pooled(&program, options)).stdout, expected, "{options:?}");
    }
}

#[test]
fn the_shadow_map_holds() {
    let Some(program) = compile("stress.c", &["-pthread"]) else { return };
    for (seed, threshold) in ["16K", "64K", "1M", "1G"].into_iter().enumerate() {
        let case = Case::pooled(&program, &[SMALL, "--threshold", threshold]);
        assert_eq!(run(case.args(&["4", "1500", &seed.to_string()])).stdout, "ok\n", "{threshold}");
    }
}

#[test]
fn the_shadow_map_holds_when_the_kernel_refuses() {
    let Some(program) = compile("stress.c", &["-pthread"]) else { return };
    for (flag, kib) in
        [("-v", "150000"), ("-v", "400000"), ("-v", "3000000"), ("-d", "60000"), ("-d", "200000")]
    {
        let case = Case::pooled(&program, &[SMALL]).args(&["3", "600", "9", "40000000"]);
        assert_eq!(run(case.limited(flag, kib)).stdout, "ok\n", "ulimit {flag} {kib}");
    }
    for failure in ["mmap:1", "extend:1", "extend:2", "madvise:1"] {
        let case = Case::plain(&program).args(&["3", "500", "7", "9000000"]);
        assert_eq!(run(case.failing_with_small(failure)).stdout, "ok\n", "{failure}");
    }
}

#[test]
fn handlers_of_fork_may_allocate_and_wait_for_those_who_do() {
    let Some(program) = compile("fork_handlers.c", &["-pthread"]) else { return };
    assert_eq!(run(Case::pooled(&program, &[SMALL])).stdout, "ok\n");
}

#[test]
fn children_forked_while_threads_come_and_go_allocate_and_start_threads() {
    let Some(program) = compile("fork_threads.c", &["-pthread"]) else { return };
    assert_eq!(run(Case::pooled(&program, &[SMALL])).stdout, "ok\n");
}

#[test]
fn a_program_that_limits_its_own_address_space_loses_nothing() {
    let Some(program) = compile("limit_itself.c", &[]) else { return };
    assert_eq!(run(Case::pooled(&program, &[SMALL])).stdout, "small 5000 large 20\n");
}

#[test]
fn musl_programs_run_on_it() {
    let Some(program) = compile_with("musl-gcc", "stress.c", &["-pthread"]) else { return };
    let output = run(Case::pooled(&program, &[SMALL, "--summary"]).args(&["3", "800", "5", "3000000"]));
    assert_eq!(output.stdout, "ok\n");
    assert!(output.stderr.contains("large blocks: "), "{}", output.stderr);
}

#[test]
fn real_programs_print_the_same() {
    for real in real::all() {
        let expected = run(real.plain()).stdout;
        assert!(!expected.is_empty(), "{} printed nothing to compare", real.name);
        for options in [&[SMALL][..], &[SMALL, "--policy", "base", "--retain", "0"]] {
            assert!(run(real.pooled(options)).stdout == expected, "{} {options:?}: other output", real.name);
        }
    }
}
