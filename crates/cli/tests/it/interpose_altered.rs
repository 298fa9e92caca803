//! Blocks whose pages the program has protected, locked, advised, unmapped or replaced, under the interposer.
//!
//! Guards against reuse of these pages: the next user would crash, read other data, or write into a file. And against
//! the opposite: an advice on each block must not make each block fresh.

use std::path::Path;

use faultless_wants as wants;

use crate::interposed::{Case, compile, ended, run, scratch};
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
    let protected = ["none", "read", "key", "guard", "own-guard"];
    let locked = ["lock", "lock2"];
    let advised = ["dontfork", "own-dontfork", "wipe", "nodump", "merge", "random"];
    let replaced = ["unmap", "move", "away", "file", "file64"];
    let raw = ["raw-none", "raw-dontfork", "raw-lock", "raw-unmap", "raw-move", "raw-file"];
    for way in protected.into_iter().chain(locked).chain(advised).chain(replaced).chain(raw) {
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

/// The numbers that `advised.c` prints; `None` if the kernel refuses the advice.
fn numbers(program: &Path, options: &[&str], words: [&str; 2]) -> Option<Vec<i64>> {
    let output = ended(Case::pooled(program, options).args(&words));
    assert!([0, 3].contains(&output.status), "{words:?} {}", output.stderr);
    (output.status == 0).then(|| output.stdout.split_whitespace().map(|word| word.parse().unwrap()).collect())
}

#[test]
fn blocks_that_are_advised_each_time_keep_their_pages() {
    let Some(program) = compile("advised.c", &[]) else { return };
    for advice in ["dontfork", "wipe", "nodump", "merge", "sequential", "huge", "nohuge"] {
        match numbers(&program, &["--policy", "base"], ["reuse", advice]).as_deref() {
            Some([pages, faults]) => assert!(faults * 4 < *pages, "{advice}: {faults} faults, {pages} pages"),
            _ => wants::missing_feature(
                "what altered.c does to pages",
                format_args!("{advice} is unknown to this kernel"),
            ),
        }
    }
}

#[test]
fn huge_pages_that_a_program_wanted_for_one_block_end_with_it() {
    let Some(program) = compile("advised.c", &[]) else { return };
    for options in [&[][..], &["--policy", "base"]] {
        let [plain, advised] = ["none", "huge"].map(|advice| numbers(&program, options, ["sparse", advice]));
        let (Some(plain), Some(advised)) = (plain, advised) else {
            return wants::missing_feature("THP", "MADV_HUGEPAGE is refused");
        };
        assert!(advised[0] <= plain[0] + 32, "{options:?}: {advised:?} MiB for {plain:?}");
    }
}

#[test]
fn a_part_of_a_hugetlb_page_is_refused_and_not_replaced() {
    let Some(program) = compile("advised.c", &[]) else { return };
    const EINVAL: i64 = 22;
    match numbers(&program, &["--policy", "hugetlb"], ["part", "none"]).as_deref() {
        Some([0, 0]) => wants::missing_feature("hugetlb", "vm.nr_hugepages is 0"),
        found => assert_eq!(found, Some(&[EINVAL, EINVAL][..]), "as run --help says"),
    }
}

#[test]
fn under_a_registration_cache_no_page_goes_away() {
    let flags = ["-shared", "-fPIC"];
    let Some(library) = compile("registers.c", &flags) else { return };
    let Some(plain) = compile("registers.c", &["-ldl"]) else { return };
    let folder = scratch("libraries");
    std::fs::create_dir_all(&folder).unwrap();
    let placed = |name: &str, from: &Path| {
        std::fs::copy(from, folder.join(name)).unwrap();
        folder.join(name).to_str().unwrap().to_owned()
    };
    let [harmless, cache] = ["libucmm.so", "libucm-0a1b.so.0"].map(|name| placed(name, &library));
    let Some(linked) = compile("registers.c", &["-ldl", "-Wl,--no-as-needed", &cache]) else { return };
    let Some(plugin) = compile("registers.c", &[&flags[..], &["-Wl,--no-as-needed", &cache]].concat()) else {
        return;
    };
    let plugin = placed("plugin.so", &plugin);
    for (program, words, answer) in [
        (&plain, &["6000"][..], "gone\n"),
        (&plain, &["6000", &harmless], "gone\n"),
        (&plain, &["20", &cache], "kept\n"),
        (&plain, &["20", &plugin, &harmless], "kept\n"),
        (&linked, &["20"], "kept\n"),
    ] {
        for policy in ["thp", "base"] {
            let case =
                Case::pooled(program, &["--decay", "100ms", "--policy", policy, "--summary"]).args(words);
            let output = run(case);
            assert_eq!(output.stdout, answer, "{words:?} {policy}");
            let is_said = output.stderr.contains("a registration cache is loaded");
            assert_eq!(is_said, answer == "kept\n", "{}", output.stderr);
        }
    }
    std::fs::remove_dir_all(&folder).unwrap();
}
