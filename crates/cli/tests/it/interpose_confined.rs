//! Programs that forbid themselves system calls or the clock, under the interposer.
//!
//! Guards against calls that a malloc does not make: the kernel kills the program for them.

use faultless_wants as wants;

use crate::interposed::{Case, compile, ended, run};

/// Policies that purge, populate, zero or advise.
const POLICIES: [&[&str]; 8] = [
    &[],
    &["--policy", "base", "--decay", "20ms"],
    &["--retain", "0"],
    &["--prefault", "populate"],
    &["--prefault", "ahead", "--scrub", "ahead", "--decay", "30ms"],
    &["--policy", "mthp-64K"],
    &["--policy", "hugetlb"],
    &["--summary"],
];

#[test]
fn a_program_that_locks_itself_in_is_not_killed_for_calls_of_ours() {
    let Some(program) = compile("sandboxed.c", &[]) else { return };
    for how in ["filter", "privileged", "fork", "strict", "clock"] {
        for when in ["early", "late"] {
            let plain = ended(Case::plain(&program).args(&[when, how]));
            if plain.stdout != "ok\n" {
                wants::missing_feature(
                    how,
                    format_args!("sandboxed.c ends with {} without the pool", plain.status),
                );
                continue;
            }
            // The strict mode has no call that could give memory back.
            let allowed = |options: &&&[&str]| how != "strict" || !options.contains(&"--retain");
            for options in POLICIES.iter().filter(allowed) {
                let output = run(Case::pooled(&program, options).args(&[when, how]));
                assert_eq!(output.stdout, "ok\n", "{when} {how} {options:?}");
                let is_told = options == &["--summary"] && how != "strict";
                let told = output.stderr.matches(" large blocks: ").count();
                assert_eq!(told, usize::from(is_told), "{when} {how}: {}", output.stderr);
            }
        }
    }
}
