//! Real programs under `vm.overcommit_memory=2`, which charges every private writable byte when it is mapped.
//! Also requests that are too large under modes 1 and 2.
//!
//! The setting belongs to the whole machine, so this test runs only as root and on request:
//! `FAULTLESS_TEST_OVERCOMMIT=1 cargo test -p faultless --test strict_commit`. It changes the setting while
//! one program runs, with a commit limit so high that no other process reaches it.

#[allow(dead_code, reason = "only a part of it is used here")]
#[path = "it/interposed/mod.rs"]
mod interposed;

use std::fs;
use std::sync::{Mutex, PoisonError};

use faultless_wants as wants;
use interposed::{Case, compile, real, run};

const MODE: &str = "/proc/sys/vm/overcommit_memory";
const LIMIT: &str = "/proc/sys/vm/overcommit_kbytes";
/// The ratio defines the limit unless a number of bytes does. Writing either sets the other to 0.
const RATIO: &str = "/proc/sys/vm/overcommit_ratio";

/// Two tests can't change the setting at once.
static ONE: Mutex<()> = Mutex::new(());

/// Sets a mode of overcommitment until dropped.
struct Mode(Vec<(&'static str, String)>);

impl Mode {
    fn new(mode: &str) -> std::io::Result<Self> {
        let read = |knob: &'static str| fs::read_to_string(knob).map(|value| (knob, value));
        let mut found = vec![read(MODE)?];
        let by_size = read(LIMIT)?;
        found.push(if by_size.1.trim() == "0" { read(RATIO)? } else { by_size });
        let set = Self(found);
        // 1 TiB. The test is about the kernel's decision on each request, not about the limit.
        fs::write(LIMIT, (1_u64 << 30).to_string())?;
        fs::write(MODE, mode)?;
        Ok(set)
    }
}

impl Drop for Mode {
    fn drop(&mut self) {
        for (knob, value) in &self.0 {
            let _ = fs::write(knob, value.trim());
        }
    }
}

fn strictly(case: Case) -> interposed::Output {
    in_mode("2", case)
}

fn in_mode(mode: &str, case: Case) -> interposed::Output {
    let mode = Mode::new(mode).unwrap();
    let output = run(case);
    drop(mode);
    output
}

/// Whether the setting may be changed; otherwise the test skips.
#[track_caller]
fn is_allowed() -> bool {
    if !wants::asked("FAULTLESS_TEST_OVERCOMMIT", "it changes vm.overcommit_memory of the whole machine") {
        return false;
    }
    let tried = Mode::new("2").map(drop);
    if let Err(error) = &tried {
        wants::missing_feature("vm.overcommit_memory", error);
    }
    tried.is_ok()
}

/// Lengths from 1 GiB to 16 TiB. Without a limit nearly all succeed; with strict accounting none beyond the
/// commit limit.
#[test]
fn what_is_too_large_is_refused_as_without_in_every_mode() {
    let _one = ONE.lock().unwrap_or_else(PoisonError::into_inner);
    if !is_allowed() {
        return;
    }
    let Some(program) = compile("unbreakable/oversized.c", &[]) else { return };
    for mode in ["1", "2"] {
        let plain = in_mode(mode, Case::plain(&program)).stdout;
        for options in [&[][..], &["--small=mimalloc"]] {
            let here = in_mode(mode, Case::pooled(&program, options)).stdout;
            let differs = plain.lines().zip(here.lines()).find(|(plain, here)| plain != here);
            assert_eq!(differs, None, "mode {mode} {options:?}: without the pool, and with");
            assert_eq!(plain.len(), here.len(), "mode {mode} {options:?}: {here}");
        }
    }
}

#[test]
fn real_programs_and_the_shadow_map_hold_under_strict_overcommit() {
    let _one = ONE.lock().unwrap_or_else(PoisonError::into_inner);
    if !is_allowed() {
        return;
    }
    let knobs = || [MODE, LIMIT, RATIO].map(|knob| fs::read_to_string(knob).unwrap());
    let before = knobs();
    let programs =
        [real::python(), real::sqlite(), real::node(), real::sort(), real::xz(), real::git(), real::gcc()];
    for real in programs.into_iter().flatten() {
        let expected = run(real.plain()).stdout;
        let small = &["--small=mimalloc"];
        for options in [&[][..], &["--policy", "base", "--retain", "0"], &["--prefault", "populate"], small] {
            let output = strictly(real.pooled(options));
            assert!(output.stdout == expected, "{} {options:?}: other output", real.name);
        }
    }
    if let Some(program) = compile("objects.cpp", &["-pthread"]) {
        let expected = run(Case::plain(&program)).stdout;
        assert_eq!(strictly(Case::pooled(&program, &[])).stdout, expected);
    }
    if let Some(program) = compile("stress.c", &["-pthread"]) {
        for (flag, kib) in [("-v", "unlimited"), ("-d", "200000"), ("-v", "400000")] {
            for options in [&[][..], &["--small=mimalloc"]] {
                let case = Case::pooled(&program, options).args(&["3", "600", "5", "40000000"]);
                assert_eq!(
                    strictly(case.limited(flag, kib)).stdout,
                    "ok\n",
                    "{options:?} ulimit {flag} {kib}"
                );
            }
        }
    }
    if let Some(program) = compile("threads_in_limit.c", &["-pthread"]) {
        let case = Case::pooled(&program, &["--small=mimalloc"]).limited("-v", "1500000");
        assert_eq!(strictly(case).stdout, "64 threads\n0 blocks refused\n");
    }
    assert_eq!(knobs(), before, "the machine is as it was");
}
