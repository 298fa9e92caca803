//! Blocks whose pages the program has protected, locked, advised, unmapped or replaced, under the interposer.
//!
//! Guards against reuse of these pages: the next user would crash, read other data, or write into a file.

use faultless_wants as wants;

use crate::interposed::{Case, compile, ended, run};
use crate::machine;

/// Runs `altered.c` in one way. Root has no limit on locked memory, so the program then becomes another user.
#[track_caller]
fn altered(way: &str) {
    let Some(program) = compile("altered.c", &[]) else { return };
    // A place that the other user can reach.
    let reachable = std::env::temp_dir().join(format!("faultless-altered-{}-{way}", std::process::id()));
    machine::copy_program(&program, &reachable);
    let words = if faultless_os::host::user().0 == 0 { vec![way, "other-user"] } else { vec![way] };
    let plain = run(Case::plain(&reachable).args(&words)).stdout;
    let mut found = Vec::new();
    for options in [&[][..], &["--policy", "base"], &["--retain", "0"], &["--decay", "20ms"]] {
        let output = ended(Case::pooled(&reachable, options).args(&words));
        found.push((options, output.status, output.stdout));
    }
    std::fs::remove_file(&reachable).unwrap();
    if plain.starts_with("unknown") {
        return wants::missing_feature("what altered.c does to pages", format_args!("{way}: {plain}"));
    }
    assert_eq!(plain, "ok\n", "the test program is right about glibc itself");
    for (options, status, stdout) in found {
        assert_eq!((status, stdout.as_str()), (0, "ok\n"), "{way} {options:?}");
    }
}

#[test]
fn whatever_a_program_did_to_the_pages_of_a_block_the_next_has_them_as_usual() {
    let protected = ["none", "read", "key", "guard"];
    let locked = ["lock", "lock2"];
    let not_for_children = ["dontfork", "wipe", "random"];
    let replaced = ["unmap", "move", "away", "file", "file64"];
    for way in protected.into_iter().chain(locked).chain(not_for_children).chain(replaced) {
        altered(way);
    }
}

#[test]
fn what_a_pipe_holds_of_a_freed_block_stays_as_it_was() {
    let Some(program) = compile("spliced.c", &[]) else { return };
    for options in [&[][..], &["--policy", "base"]] {
        assert_eq!(run(Case::pooled(&program, options)).stdout, "0 wrong\n", "{options:?}");
    }
}
