//! The interposer under small C and C++ programs that check every answer of malloc, under all policies and
//! under stress.
//!
//! Guards against: wrong alignment; `calloc` memory that is not zero; content lost in `realloc`; blocks freed
//! by other threads; fork among threads; refusals without ENOMEM; crashes when the kernel refuses.

use faultless_wants as wants;

use crate::interposed::{
    Case, MORE_POLICIES, POLICIES, SMALL, SMALL_POLICIES, compile, ended, run, same_lines, scratch,
};
use crate::machine;

#[test]
fn every_corner_of_the_interface_behaves_as_in_c() {
    let Some(program) = compile("abi.c", &[]) else { return };
    assert_eq!(run(Case::plain(&program)).stdout, "ok\n", "the test program is right about glibc itself");
    for options in POLICIES.into_iter().chain(MORE_POLICIES).chain(SMALL_POLICIES) {
        assert_eq!(run(Case::pooled(&program, options)).stdout, "ok\n", "{options:?}");
    }
}

#[test]
fn every_refusal_and_every_errno_are_the_c_librarys() {
    let Some(program) = compile("answers.c", &[]) else { return };
    let expected = run(Case::plain(&program)).stdout;
    for options in [&["--policy", "thp"][..], &["--retain", "0"], &["--threshold", "1G"], SMALL] {
        let answered = run(Case::pooled(&program, options)).stdout;
        same_lines(&expected, &answered, &format!("{options:?}"));
    }
}

#[test]
fn a_block_that_is_freed_twice_is_reported_and_harms_nobody() {
    let Some(program) = compile("misuse.c", &["-pthread", "-O0", "-w"]) else { return };
    for options in [&["--policy", "thp"][..], &["--retain", "0"]] {
        let output = run(Case::pooled(&program, options));
        assert_eq!(output.stdout, "ok\n", "{options:?}");
        let told =
            output.stderr.matches("of a large block that was freed before, or of none: ignored").count();
        assert_eq!(told, 1, "{options:?}: {}", output.stderr);
    }
}

#[test]
fn with_strict_a_block_that_is_freed_twice_is_the_end() {
    const SIGABRT: i32 = 6;
    let Some(program) = compile("misuse.c", &["-pthread", "-O0", "-w"]) else { return };
    let output = ended(Case::pooled(&program, &["--strict"]));
    assert_eq!((output.status, output.stdout.as_str()), (-SIGABRT, ""), "{}", output.stderr);
    let line = "faultless: free of a large block that was freed before, or of none: aborting\n";
    assert_eq!(output.stderr, line);
    let Some(sound) = compile("abi.c", &[]) else { return };
    assert_eq!(run(Case::pooled(&sound, &["--strict"])).stdout, "ok\n");
}

#[test]
fn cpp_programs_compute_the_same() {
    let Some(program) = compile("objects.cpp", &["-pthread"]) else { return };
    let expected = run(Case::plain(&program)).stdout;
    assert!(expected.len() > 5);
    for options in [&["--policy", "thp"][..], &["--threshold", "16K", "--retain", "20M"], SMALL] {
        assert_eq!(run(Case::pooled(&program, options)).stdout, expected, "{options:?}");
    }
}

#[test]
fn another_allocator_behind_the_pool_serves_what_is_small() {
    let Some(stress) = compile("stress.c", &["-pthread"]) else { return };
    let Some(objects) = compile("objects.cpp", &["-pthread"]) else { return };
    for (name, package) in [
        ("libjemalloc.so.2", "libjemalloc2"),
        ("libtcmalloc_minimal.so.4", "libgoogle-perftools-dev"),
        ("libmimalloc.so.2", "libmimalloc2.0"),
    ] {
        let folders = ["/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib64", "/usr/lib"];
        let mut places = folders.map(|folder| format!("{folder}/{name}")).into_iter();
        let Some(library) = places.find(|path| std::path::Path::new(path).exists()) else {
            wants::missing_package(package, format_args!("no {name} in {folders:?}"));
            continue;
        };
        let case = Case::pooled(&stress, &[]).args(&["3", "600", "4"]).env("LD_PRELOAD", &library);
        assert_eq!(run(case).stdout, "ok\n", "{name}");
        if name.contains("mimalloc") {
            continue; // It aborts where the C++ program asks for more than there is, also without the pool.
        }
        let plain = run(Case::plain(&objects).env("LD_PRELOAD", &library)).stdout;
        assert_eq!(run(Case::pooled(&objects, &[]).env("LD_PRELOAD", &library)).stdout, plain, "{name}");
    }
}

#[test]
fn forks_in_handlers_and_cancelled_threads_and_own_limits_go_on_as_without() {
    let both: &[&[&str]] = &[&[], SMALL];
    for (source, flags, said, all) in [
        // Handlers of fork allocate, and wait for threads that do.
        ("fork_handlers.c", &["-pthread"][..], "ok\n", both),
        // A signal handler forks wherever it came.
        ("fork_in_handler.c", &[], "ok\n", &[&[]]),
        // A thread that is cancelled in fork leaves the background thread to others.
        ("cancelled.c", &["-pthread"], "forked 1, cancelled 1\nforked again\n", &[&[]]),
        ("limit_itself.c", &[], "small 5000 large 20\n", both),
    ] {
        let Some(program) = compile(source, flags) else { return };
        assert_eq!(run(Case::plain(&program)).stdout, said, "{source} is right about glibc itself");
        for options in all {
            assert_eq!(run(Case::pooled(&program, options)).stdout, said, "{source} {options:?}");
        }
    }
}

#[test]
fn a_librarys_own_handlers_of_fork_find_the_pool_unlocked() {
    let flags = ["-DLIBRARY", "-shared", "-fPIC", "-pthread"];
    let Some(library) = compile("fork_library.c", &flags) else { return };
    let linked = ["-Wl,--no-as-needed", library.to_str().unwrap(), "-pthread"];
    let Some(program) = compile("fork_library.c", &linked) else { return };
    assert_eq!(run(Case::plain(&program)).stdout, "ok\n");
    assert_eq!(run(Case::pooled(&program, &[])).stdout, "ok\n");
}

#[test]
fn what_only_one_thread_may_do_is_done_with_a_background_thread_too() {
    let Some(program) = compile("alone.c", &[]) else { return };
    let expected = run(Case::plain(&program)).stdout;
    for options in [&["--decay", "40ms"][..], &["--prefault", "ahead", "--scrub", "ahead", "--decay", "5s"]] {
        let output = run(Case::pooled(&program, options).args(&["thread"]));
        assert_eq!(output.stdout, expected, "{options:?} {}", output.stderr);
    }
    assert_eq!(run(Case::pooled(&program, &["--decay", "never"])).stdout, expected);
}

#[test]
fn what_is_free_goes_back_however_it_came_about_while_the_program_only_waits() {
    let Some(program) = compile("decays.c", &[]) else { return };
    for way in ["fork", "forks", "unshare", "shrink", "shrink-fresh", "grow", "front"] {
        let case = Case::pooled(&program, &["--decay", "100ms"]).args(&[way]);
        assert_eq!(run(case).stdout, "gone\n", "{way}");
    }
}

#[test]
fn a_program_that_may_have_no_more_threads_runs_without_a_background_thread() {
    if !machine::other_users() {
        return;
    }
    let Some(program) = compile("alone.c", &[]) else { return };
    // In a place that this user can reach.
    let reachable = std::env::temp_dir().join(format!("faultless-alone-{}", std::process::id()));
    machine::copy_program(&program, &reachable);
    let words = ["--nproc=1", "setpriv", "--reuid=54321", "--regid=54321", "--clear-groups"];
    let case = Case::pooled("prlimit", &["--decay", "20ms", "--summary"]).args(&words);
    let output = run(case.args(&[&reachable]).args(&["end"]));
    std::fs::remove_file(&reachable).unwrap();
    assert!(output.stderr.contains("no background thread could be started"), "{}", output.stderr);
}

#[test]
fn a_thread_with_the_smallest_stack_opens_and_uses_the_pool() {
    let Some(program) = compile("small_stack.c", &["-pthread"]) else { return };
    assert_eq!(run(Case::plain(&program)).stdout, "ok\n");
    for options in
        [&[][..], &["--decay", "1ms"], &["--prefault", "ahead", "--scrub", "ahead"], &["--prewarm", "8M"]]
    {
        let output = run(Case::pooled(&program, options));
        assert_eq!(output.stdout, "ok\n", "{options:?} {}", output.stderr);
    }
}

#[test]
fn no_call_goes_deeper_into_the_stack_than_4_kib() {
    let Some(program) = compile("depth.c", &["-Wl,-z,now"]) else { return };
    for options in
        [&[][..], &["--retain", "0"], &["--decay", "1ms"], &["--prefault", "populate"], &["--prewarm", "8M"]]
    {
        for kib in ["100", "400", "2000", "40000"] {
            let deepest: usize =
                run(Case::pooled(&program, options).args(&[kib])).stdout.trim().parse().unwrap();
            assert!(deepest <= 4 << 10, "{options:?} {kib} KiB: {deepest}");
        }
    }
}

#[test]
fn exit_and_a_second_free_take_little_stack() {
    let Some(program) = compile("exits_on_little_stack.c", &["-pthread", "-O0"]) else { return };
    for way in ["exit", "twice", "handler"] {
        run(Case::pooled(&program, &[]).args(&[way]));
    }
    let folder = scratch("little-stack");
    let file = folder.to_str().unwrap();
    for options in [&["--summary"][..], &["--summary-format", "json"], &["--summary-file", file]] {
        run(Case::pooled(&program, options).args(&["exit"]));
    }
    std::fs::remove_file(&folder).unwrap();
}

#[test]
fn a_child_of_a_fork_while_the_pool_was_opened_has_a_pool() {
    let Some(program) = compile("fork_while_opening.c", &["-pthread"]) else { return };
    let options = ["--policy", "base", "--prewarm", "256M"];
    assert_eq!(run(Case::pooled(&program, &options)).stdout, "parent 1 child 1\n");
}

#[test]
fn what_a_child_of_vfork_forbids_itself_its_parent_still_has() {
    let Some(program) = compile("limits_child.c", &[]) else { return };
    let output = run(Case::pooled(&program, &["--summary"]));
    assert_eq!(output.stdout, "status 0\n");
    assert!(output.stderr.contains(" 0 large requests went to the next malloc"), "{}", output.stderr);
    assert!(!output.stderr.contains("no background thread"), "{}", output.stderr);
}

#[test]
fn a_library_whose_constructor_waits_for_a_thread_with_the_first_large_block_is_loaded() {
    let Some(library) = compile("waits_in_constructor.c", &["-shared", "-fPIC", "-pthread"]) else { return };
    let Some(program) = compile("loads.c", &["-ldl"]) else { return };
    for options in [&[][..], SMALL] {
        assert_eq!(run(Case::pooled(&program, options).args(&[&library])).stdout, "loaded\n", "{options:?}");
    }
}

#[test]
fn the_shadow_map_holds_in_every_policy() {
    let Some(program) = compile("stress.c", &["-pthread"]) else { return };
    for (seed, options) in POLICIES.into_iter().chain(MORE_POLICIES).chain(SMALL_POLICIES).enumerate() {
        let seed = seed.to_string();
        let case = Case::pooled(&program, options).args(&["4", "300", &seed]);
        assert_eq!(run(case).stdout, "ok\n", "{options:?}");
    }
}

#[test]
fn the_shadow_map_holds_when_the_kernel_refuses() {
    let Some(program) = compile("stress.c", &["-pthread"]) else { return };
    let failures =
        ["mmap:1", "mmap:2", "extend:1", "extend:2", "extend:3", "extend:5", "madvise:1", "mremap:1"];
    for (failure, retain) in failures.into_iter().zip(["0", "1G"].into_iter().cycle()) {
        let case = Case::plain(&program).args(&["3", "300", "7", "9000000"]);
        let case = case.failing(failure).env("FAULTLESS_RETAIN", retain);
        assert_eq!(run(case).stdout, "ok\n", "{failure}, retain {retain}");
    }
    for failure in ["extend:1", "madvise:1"] {
        let case = Case::plain(&program).args(&["3", "300", "7", "9000000"]);
        assert_eq!(run(case.failing_with_small(failure)).stdout, "ok\n", "{failure}");
    }
}

#[test]
fn failures_are_injected_by_an_interposer_for_tests_and_by_no_other() {
    let Some(program) = compile("stress.c", &["-pthread"]) else { return };
    let case = Case::plain(&program).args(&["3", "500", "7", "9000000"]).env("FAULTLESS_SUMMARY", "1");
    let failing = run(case.failing("mmap:1")).stderr;
    assert!(failing.contains("the pool could not be opened"), "{failing}");
    let shipped = std::fs::read(env!("FAULTLESS_PRELOAD")).unwrap();
    let has = |word: &[u8]| shipped.windows(word.len()).any(|bytes| bytes == word);
    assert!(has(b"FAULTLESS_RETAIN") && !has(b"FAULTLESS_FAIL"));
}

#[test]
fn the_shadow_map_holds_under_limits_of_addresses_and_of_data() {
    let Some(program) = compile("stress.c", &["-pthread"]) else { return };
    for (flag, kib) in [("-v", "150000"), ("-v", "3000000"), ("-d", "60000")] {
        for options in [&[][..], SMALL] {
            let case = Case::pooled(&program, options).args(&["3", "300", "9", "40000000"]);
            assert_eq!(run(case.limited(flag, kib)).stdout, "ok\n", "{options:?} ulimit {flag} {kib}");
        }
    }
}

#[test]
fn a_program_with_as_many_mappings_as_the_kernel_allows_loses_nothing() {
    let Some(program) = compile("many_maps.c", &[]) else { return };
    for (options, when) in [(["--policy", "base"], "used-before"), (["--retain", "0"], "at-once")] {
        let output = run(Case::pooled(&program, &options).args(&[when]));
        assert_eq!(output.stdout, "ok\n", "{options:?} {when}: {}", output.stderr);
    }
}
