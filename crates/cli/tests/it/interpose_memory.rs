//! `run`: memory at the peak and at rest, against plain glibc.
//!
//! Guards against: free memory that stays because it lies beside a block; room for sizes that nothing asks for again;
//! huge pages over gaps and over memory that was dense once; kept memory that gets a control group killed.

use faultless_wants as wants;

use crate::interposed::group::MemoryGroup;
use crate::interposed::{Case, compile, run};

/// The peak and what is resident at rest, in MiB.
fn memory(case: Case) -> [u64; 2] {
    let stdout = run(case).stdout;
    let words: Vec<_> = stdout.split_whitespace().collect();
    let ["peak", peak, "rest", rest] = words[..] else { panic!("{stdout}") };
    [peak, rest].map(|mib| mib.parse().unwrap())
}

/// Compares a mix with its plain run.
fn is_near_glibcs(mix: &str, options: &[&str], spare: u64) {
    let Some(program) = compile("memory_mixes.c", &[]) else { return };
    let plain = memory(Case::plain(&program).args(&[mix, "1"]));
    let pooled = memory(Case::pooled(&program, options).args(&[mix, "1"]));
    let words = format!("{mix} {options:?}: {pooled:?} MiB, plain {plain:?}");
    assert!(pooled[0] <= plain[0] * 115 / 100 + spare, "peak of {words}");
    assert!(pooled[1] <= plain[1] + 32, "rest of {words}");
}

#[test]
fn what_is_free_beside_a_block_goes_back() {
    for mix in ["beside", "beside-large"] {
        is_near_glibcs(mix, &["--decay", "300ms"], 8);
        is_near_glibcs(mix, &["--decay", "300ms", "--policy", "base"], 8);
    }
}

#[test]
fn free_memory_is_bounded_also_beside_blocks() {
    let Some(program) = compile("memory_mixes.c", &[]) else { return };
    let [_, kept] =
        memory(Case::pooled(&program, &["--retain", "16M", "--decay", "never"]).args(&["beside", "0"]));
    let [_, plain] = memory(Case::plain(&program).args(&["beside", "0"]));
    assert!(kept <= plain + 16 + 8, "{kept} MiB, plain {plain}");
}

#[test]
fn what_growing_vectors_free_is_not_kept_beyond_the_need() {
    for mix in ["doubling", "copying", "growing"] {
        is_near_glibcs(mix, &["--decay", "300ms"], 10);
    }
}

#[test]
fn vectors_that_grow_in_turn_are_known_by_their_untouched_ends() {
    for policy in ["base", "thp"] {
        is_near_glibcs("in-turn", &["--decay", "300ms", "--policy", policy], 8);
    }
}

#[test]
fn huge_pages_do_not_fill_gaps() {
    is_near_glibcs("aligned", &["--decay", "300ms"], 8);
}

#[test]
fn memory_that_is_touched_here_and_there_stays_sparse() {
    for mix in ["sparse", "sparse-zeroed"] {
        is_near_glibcs(mix, &["--decay", "300ms"], 12);
    }
}

#[test]
fn what_was_dense_once_is_sparse_again_after_it_went_back() {
    is_near_glibcs("dense-sparse", &["--decay", "300ms"], 32);
    is_near_glibcs("dense-sparse", &["--retain", "0"], 12);
}

#[test]
fn no_process_of_a_control_group_dies_of_what_is_kept() {
    let Some(program) = compile("memory_mixes.c", &[]) else { return };
    let group = match MemoryGroup::new(256 << 20) {
        Ok(group) => group,
        Err(why) => return wants::missing_feature("memory control groups", why),
    };
    for policy in ["thp", "base"] {
        let case = Case::pooled(&program, &["--policy", policy]).args(&["then-mapped", "0"]);
        let [peak, _] = memory(case.group(group.path()));
        assert!((200..=256).contains(&peak), "{policy}: {peak} MiB");
    }
}
