//! Real programs under `vm.overcommit_memory=2`, where every private writable byte is charged when it is mapped.
//!
//! The setting is the whole machine's, so this runs only as root and when asked for:
//! `FAULTLESS_TEST_OVERCOMMIT=1 cargo test -p faultless --test strict_commit`. It holds the setting while one program runs,
//! with a commit limit so far away that no other process meets it.

#![allow(clippy::print_stderr, reason = "skips print their reason")]

mod interposed;
#[path = "interposed/real.rs"]
mod real;

use std::fs;

use interposed::{Case, compile, run};

const MODE: &str = "/proc/sys/vm/overcommit_memory";
const LIMIT: &str = "/proc/sys/vm/overcommit_kbytes";
/// The ratio is what the limit is when it is given in no other way; writing either sets the other to 0.
const RATIO: &str = "/proc/sys/vm/overcommit_ratio";

/// Strict accounting until dropped.
struct Strict(Vec<(&'static str, String)>);

impl Strict {
    fn new() -> std::io::Result<Self> {
        let read = |knob: &'static str| fs::read_to_string(knob).map(|value| (knob, value));
        let mut found = vec![read(MODE)?];
        let by_size = read(LIMIT)?;
        found.push(if by_size.1.trim() == "0" { read(RATIO)? } else { by_size });
        let strict = Self(found);
        // 1 TiB: what the kernel does with each request is what is tried here, not what happens at the limit.
        fs::write(LIMIT, (1_u64 << 30).to_string())?;
        fs::write(MODE, "2")?;
        Ok(strict)
    }
}

impl Drop for Strict {
    fn drop(&mut self) {
        for (knob, value) in &self.0 {
            let _ = fs::write(knob, value.trim());
        }
    }
}

fn strictly(case: Case) -> interposed::Output {
    let strict = Strict::new().unwrap();
    let output = run(case);
    drop(strict);
    output
}

/// One test, so that no two hold the setting at once.
#[test]
fn real_programs_and_the_shadow_map_hold_under_strict_overcommit() {
    if std::env::var_os("FAULTLESS_TEST_OVERCOMMIT").is_none() {
        eprintln!(
            "skipped: changes vm.overcommit_memory of the whole machine; FAULTLESS_TEST_OVERCOMMIT=1 asks for it"
        );
        return;
    }
    if let Err(error) = Strict::new().map(drop) {
        eprintln!("skipped: {MODE}: {error}");
        return;
    }
    let knobs = || [MODE, LIMIT, RATIO].map(|knob| fs::read_to_string(knob).unwrap());
    let before = knobs();
    for real in real::all() {
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
    assert_eq!(knobs(), before, "the machine is as it was");
}
