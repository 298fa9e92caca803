//! Random programs under `faultless run`: a program must print the same and end in the same way as without.
//!
//! `FAULTLESS_FUZZ_SECONDS=1800` tries new programs for that long, each under all policies. The default is
//! some seconds, each program under one or two policies. `FAULTLESS_FUZZ_BASE=N` starts with another seed.
//!
//! Guards against combinations that other tests do not cover: fork, threads, signals, limits, locked and
//! protected pages, limits of control groups, and ways to exit. The last tests guard against a search that finds nothing because it
//! tests nothing.

#![allow(clippy::print_stderr, reason = "the long search prints what it does")]

mod driver;

use std::path::PathBuf;
use std::time::Duration;

use faultless_wants as wants;

use crate::interposed::group::MemoryGroup;
use crate::interposed::{MORE_POLICIES, POLICIES, compile, compile_with};
use driver::{ALTERED, Difference, Driver, Environment, NEAR_GROUP, Policy, Seed, Under};

/// Left out: with these, mlockall(2) also counts the addresses of mimalloc's first arena, as the help of
/// `run` says.
const SMALL: [&[&str]; 2] = [&["--small=mimalloc"], &["--small=mimalloc", "--decay", "20ms"]];

/// What the program maps for itself, from the pool and with huge pages.
const MAPPINGS: [&[&str]; 4] = [
    &["--mappings", "recycle"],
    &["--mappings", "thp", "--policy", "thp"],
    &["--mappings", "recycle", "--policy", "base", "--decay", "20ms"],
    &["--mappings", "recycle", "--prefault", "populate", "--retain", "20M", "--threshold", "16K"],
];

fn number(name: &str, otherwise: u64) -> u64 {
    std::env::var(name)
        .map_or(otherwise, |text| text.parse().unwrap_or_else(|_| panic!("{name}={text}: not a number")))
}

fn told(differences: &[Difference]) -> String {
    differences.iter().map(Difference::to_string).collect()
}

fn fuzzed() -> Option<PathBuf> {
    compile("fuzzed.c", &["-pthread"])
}

#[test]
fn a_random_program_is_never_different_with_the_pool() {
    let Some(program) = fuzzed() else { return };
    let no_options: &[&str] = &[];
    let all = [no_options].into_iter().chain(POLICIES).chain(MORE_POLICIES);
    search(Driver::new(program), &all.map(Policy).collect::<Vec<_>>(), number("FAULTLESS_FUZZ_SECONDS", 1));
}

#[test]
fn a_random_program_is_never_different_with_mappings_from_the_pool() {
    let Some(program) = fuzzed() else { return };
    search(Driver::new(program), &MAPPINGS.map(Policy), number("FAULTLESS_FUZZ_SECONDS", 1));
}

#[test]
fn a_random_program_is_never_different_with_mimalloc_for_small_blocks() {
    let Some(program) = fuzzed() else { return };
    let seconds = number("FAULTLESS_FUZZ_SECONDS", 8) / 8;
    search(Driver::new(program).without("lock"), &SMALL.map(Policy), seconds);
}

fn search(driver: Driver, policies: &[Policy], seconds: u64) {
    let (first, is_long) = (number("FAULTLESS_FUZZ_BASE", 1), seconds > 120);
    let some = |seed: u64| -> Vec<&dyn Under> {
        let count = if is_long { policies.len() } else { 1 + seed as usize % 2 };
        // The numbers of policies and of profiles have no common divisor, so in time each meets each.
        (0..count).map(|at| &policies[(seed as usize + at) % policies.len()] as &dyn Under).collect()
    };
    let most = if is_long { 20 } else { 3 };
    let (tried, differences) = driver.search(first, Duration::from_secs(seconds), most, some);
    eprintln!("{tried} programs");
    assert!(
        differences.is_empty(),
        "{tried} programs, {} differences\n{}",
        differences.len(),
        told(&differences)
    );
}

#[test]
fn a_random_musl_program_is_never_different_with_the_pool() {
    let Some(program) = compile_with("musl-gcc", "fuzzed.c", &["-pthread"]) else { return };
    let policies =
        [Policy(&[]), Policy(&["--small=mimalloc"]), Policy(&["--decay", "20ms", "--policy", "base"])];
    let some = |seed: u64| vec![&policies[seed as usize % 3] as &dyn Under];
    let (tried, differences) = Driver::new(program).without("lock").search(1, Duration::ZERO, 2, some);
    assert!(differences.is_empty(), "{tried} programs\n{}", told(&differences));
}

/// It is found within seconds, if nobody else wants the processors.
const PLANTED_LIMIT: Duration = Duration::from_secs(900);

/// Searches under an allocator with one mistake, with programs of these profiles.
fn planted(mistake: &str, nth: fn(u64) -> Seed) {
    let flags = [&format!("-D{mistake}") as &str, "-shared", "-fPIC", "-pthread"];
    let (Some(program), Some(library)) = (fuzzed(), compile("planted.c", &flags)) else { return };
    let variables = [("LD_PRELOAD", library.to_str().unwrap())];
    let broken = Environment(&variables);
    let driver = Driver::new(program).least_limit(Duration::from_secs(1)).programs(nth);
    let (tried, differences) = driver.search(1, PLANTED_LIMIT, 1, |_| vec![&broken as &dyn Under]);
    eprintln!("{mistake}: {tried} programs\n{}", told(&differences));
    assert!(!differences.is_empty(), "{mistake}: {tried} programs did not show it");
}

/// Many requests in a short time.
fn blocks(seed: u64) -> Seed {
    Seed { seed, operations: 150, profile: seed % 2 }
}

fn altered(seed: u64) -> Seed {
    Seed { seed, operations: 60, profile: ALTERED }
}

fn near_group(seed: u64) -> Seed {
    Seed { seed, operations: 60, profile: NEAR_GROUP }
}

#[test]
fn what_an_allocator_keeps_is_found() {
    planted("PAGES_STAY_ALTERED", altered);
    planted("THREAD_STAYS", Seed::nth);
    match MemoryGroup::new(1 << 30) {
        Ok(_) => planted("MEMORY_STAYS", near_group),
        Err(why) => wants::missing_feature("memory control groups", why),
    }
}

#[test]
fn what_an_allocator_spoils_or_never_returns_from_is_found() {
    planted("REALLOC_LOSES_A_BYTE", blocks);
    planted("FREE_HANGS", Seed::nth);
}
