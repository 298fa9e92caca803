//! `run --small=mimalloc`: what only it does. `interpose`, `interpose_programs` and `unbreakable` try it beside the
//! other options.
//!
//! Guards against: a library that is named but missing; addresses and blocks that mimalloc takes from others;
//! short-lived threads; memory that is never given back; system calls that a sandbox forbids.

use faultless_wants as wants;

use crate::interposed::{Case, SMALL, compile, ended, run};

#[test]
fn it_comes_behind_the_interposer_and_before_what_the_user_preloads() {
    let script = "echo $LD_PRELOAD; grep -c small- /proc/$$/maps";
    let output = run(Case::pooled("sh", SMALL).args(&["-c", script]).env("LD_PRELOAD", "libm.so.6"));
    let (preload, mapped) = output.stdout.trim().split_once('\n').unwrap();
    let names: Vec<_> = preload.split(':').map(|path| path.rsplit('/').next().unwrap()).collect();
    assert!(names.len() == 3 && names[0].starts_with("preload-"), "{preload}");
    assert!(names[1].starts_with("small-") && names[2] == "libm.so.6", "{preload}");
    assert!(mapped.parse::<u32>().unwrap() > 0, "{mapped}");
    let plain = run(Case::pooled("sh", &["--small=next"]).args(&["-c", "echo $LD_PRELOAD"]));
    assert!(!plain.stdout.contains("small-"), "{}", plain.stdout);
}

#[test]
fn blocks_that_grow_page_by_page_come_to_the_pool() {
    let Some(program) = compile("grows.c", &[]) else { return };
    let output = run(Case::pooled(&program, &["--small=mimalloc", "--summary"]));
    assert_eq!(output.stdout, "grown\n");
    // Four blocks from 64 KiB to 8 MiB in steps of 16 KiB: 2032 steps, and a few of them copy.
    let grown = output.stderr.split("grown: ").nth(1).unwrap_or_else(|| panic!("{}", output.stderr));
    let in_place: u32 = grown.split(' ').next().unwrap().parse().unwrap();
    assert!(in_place > 1900, "{}", output.stderr);
}

#[test]
fn children_forked_while_threads_come_and_go_allocate_and_start_threads() {
    let Some(program) = compile("fork_threads.c", &["-pthread"]) else { return };
    assert_eq!(run(Case::pooled(&program, SMALL)).stdout, "ok\n");
}

/// The peak and what is resident at the end, in MiB.
fn memory(case: Case) -> [u64; 2] {
    let stdout = run(case).stdout;
    let words: Vec<_> = stdout.split_whitespace().collect();
    let ["peak", peak, "rest", rest] = words[..] else { panic!("{stdout}") };
    [peak, rest].map(|mib| mib.parse().unwrap())
}

#[test]
fn memory_at_the_peak_and_at_rest_is_near_glibcs() {
    let Some(program) = compile("small_mix.c", &["-pthread"]) else { return };
    for way in ["sparse", "phases", "threads", "beside", "grow"] {
        let [peak, rest] = memory(Case::plain(&program).args(&[way]));
        for policy in ["thp", "base"] {
            let options = ["--small=mimalloc", "--policy", policy];
            let [peak_small, rest_small] = memory(Case::pooled(&program, &options).args(&[way]));
            assert!(
                peak_small <= peak * 115 / 100 + 8,
                "{way} {policy}: peak {peak_small}, glibc's {peak} MiB"
            );
            assert!(rest_small <= rest + 32, "{way} {policy}: at rest {rest_small}, glibc's {rest} MiB");
        }
    }
}

#[test]
fn a_program_that_may_make_only_the_calls_of_glibcs_malloc_is_not_killed_for_a_purge() {
    let Some(program) = compile("small_mix.c", &["-pthread"]) else { return };
    if ended(Case::plain(&program).args(&["confined"])).stdout != "ok\n" {
        return wants::missing_feature("seccomp", "small_mix.c does not work without the pool");
    }
    assert_eq!(run(Case::pooled(&program, SMALL).args(&["confined"])).stdout, "ok\n");
}
