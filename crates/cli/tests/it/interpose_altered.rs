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
fn what_was_protected_can_be_used_by_the_next() {
    for way in ["none", "read", "key", "guard"] {
        altered(way);
    }
}

#[test]
fn what_was_locked_is_not_locked_for_ever() {
    for way in ["lock", "lock2"] {
        altered(way);
    }
}

#[test]
fn what_children_were_to_get_otherwise_they_get_as_usual_of_the_next() {
    for way in ["dontfork", "wipe", "random"] {
        altered(way);
    }
}

#[test]
fn holes_and_other_mappings_in_a_block_go_with_it() {
    for way in ["unmap", "move", "away", "file", "file64"] {
        altered(way);
    }
}
