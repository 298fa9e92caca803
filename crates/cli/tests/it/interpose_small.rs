//! `run --small=mimalloc`: what only it does. `interpose`, `interpose_programs` and `unbreakable` try it beside the
//! other options.
//!
//! Guards against: a library that is named but missing; addresses and blocks that mimalloc takes from others;
//! short-lived threads.

use crate::interposed::{Case, SMALL, compile, run};

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
