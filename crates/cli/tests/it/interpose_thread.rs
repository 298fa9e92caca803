//! The background thread of the interposer, as a program and its other libraries see it.
//!
//! Guards against: functions of other libraries on a thread that has no thread-local variables; libraries that signal all
//! threads and wait; processes that end later, or with another status, because the thread is their last one.

use std::process::Command;

use faultless_wants as wants;

use crate::interposed::{Case, SMALL, compile, ended, run};

/// What the thread may call of the C library: what compilers make of copies and comparisons. Nobody hooks these for
/// their effect.
const ALLOWED: [&str; 5] = ["memcpy", "memmove", "memset", "bcmp", "strlen"];

/// What keeps all of the thread's work going.
const POLICIES: [&[&str]; 3] = [
    &["--decay", "50ms"],
    &["--decay", "50ms", "--policy", "base"],
    &["--prefault", "ahead", "--scrub", "ahead", "--stock", "4M-64M", "--decay", "200ms"],
];

/// The functions that a library takes from others.
fn imported(library: &str) -> Option<Vec<String>> {
    let listed = Command::new("nm").args(["-D", "--undefined-only", library]).output();
    let listed = match listed {
        Ok(output) if output.status.success() => String::from_utf8(output.stdout).unwrap(),
        other => {
            wants::missing_package("binutils", format_args!("nm: {other:?}"));
            return None;
        }
    };
    let names = listed.lines().filter_map(|line| line.trim().strip_prefix("U ")?.split('@').next());
    Some(names.map(String::from).collect())
}

#[test]
fn the_thread_calls_no_function_that_another_library_may_define() {
    if cfg!(not(target_arch = "x86_64")) {
        return wants::missing_feature("hooks.c", "written for x86-64");
    }
    let Some(imported) = imported(env!("FAULTLESS_PRELOAD")) else { return };
    // dlsym would call itself. syscall is the interposer's own, and calls the next one.
    let hooked =
        imported.iter().map(String::as_str).filter(|name| !ALLOWED.contains(name) && *name != "dlsym");
    let hooked: Vec<_> = hooked.chain(["syscall", "madvise", "mmap", "munmap"]).collect();
    assert!(hooked.len() > 10, "{hooked:?}");
    let hooks: String = hooked.iter().map(|name| format!("HOOK({name}) ")).collect();
    let flags = ["-shared", "-fPIC", &format!("-DHOOKS={hooks}"), "-ldl"];
    let Some(library) = compile("hooks.c", &flags) else { return };
    let Some(program) = compile("works_behind.c", &[]) else { return };
    for options in POLICIES {
        let case = Case::pooled(&program, options).env("LD_PRELOAD", library.to_str().unwrap());
        assert_eq!(run(case).stdout, "ok\n", "{options:?}");
    }
}

#[test]
fn libraries_that_wrap_the_c_library_work() {
    let Some(program) = compile("works_behind.c", &[]) else { return };
    let Some(forking) = compile("fork_threads.c", &["-pthread"]) else { return };
    let folders = ["/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib64", "/usr/lib"];
    for (name, package) in [
        ("faketime/libfaketime.so.1", "faketime"),
        ("libuid_wrapper.so", "libuid-wrapper"),
        ("torsocks/libtorsocks.so", "torsocks"),
    ] {
        let mut places = folders.map(|folder| format!("{folder}/{name}")).into_iter();
        let Some(library) = places.find(|path| std::path::Path::new(path).exists()) else {
            wants::missing_package(package, format_args!("no {name} in {folders:?}"));
            continue;
        };
        let works = |program, options: &[&str]| {
            let case = Case::pooled(program, options).env("LD_PRELOAD", &library).env("UID_WRAPPER", "1");
            assert_eq!(run(case.env("FAKETIME", "-100d")).stdout, "ok\n", "{name} {options:?}");
        };
        for options in POLICIES {
            works(&program, options);
        }
        works(&program, SMALL);
        works(&forking, SMALL);
    }
}

#[test]
fn mimalloc_calls_no_function_that_ends_in_the_kernel() {
    const ALLOWED: [&str; 15] = [
        // What mimalloc prints is asked for. sysconf(3) gives the length of a page.
        "__environ",
        "__errno_location",
        "dlerror",
        "dlsym",
        "environ",
        "fputs",
        "memcpy",
        "memset",
        "pthread_key_create",
        "pthread_key_delete",
        "pthread_setspecific",
        "stderr",
        "stdout",
        "strtol",
        "sysconf",
    ];
    let Some(imported) = imported(env!("FAULTLESS_SMALL")) else { return };
    let others: Vec<_> = imported.iter().filter(|name| !ALLOWED.contains(&name.as_str())).collect();
    assert!(!imported.is_empty() && others.is_empty(), "{others:?}");
}

#[test]
fn who_signals_all_threads_and_waits_for_them_waits_for_none_of_ours() {
    let Some(program) = compile("signals_all.c", &[]) else { return };
    assert_eq!(run(Case::plain(&program)).stdout, "ok\n", "the test program is right about glibc itself");
    for options in [&[][..], &["--decay", "600s"], &["--prefault", "ahead", "--decay", "600s"]] {
        let output = ended(Case::pooled(&program, options).args(&["thread"]));
        assert_eq!((output.status, output.stdout.as_str()), (0, "ok\n"), "{options:?}");
    }
}

#[test]
fn the_status_of_a_process_is_that_of_its_own_last_thread() {
    let Some(program) = compile("ends.c", &["-pthread"]) else { return };
    for way in ["main", "instruction", "thread"] {
        let expected = ended(Case::plain(&program).args(&[way])).status;
        assert!(expected > 0, "{way}: {expected}");
        for options in [&[][..], &["--decay", "600s"], &["--decay", "never"]] {
            let begin = std::time::Instant::now();
            let status = ended(Case::pooled(&program, options).args(&[way])).status;
            assert_eq!(status, expected, "{way} {options:?}");
            assert!(begin.elapsed().as_secs() < 300, "{way} {options:?}: it ends with its last thread");
        }
    }
}
