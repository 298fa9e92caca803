//! Programs with an allocator of their own, and programs built with a sanitizer, under the interposer.
//!
//! Guards against blocks that reach an allocator that did not make them, and against sanitizers that refuse
//! to start, find less, or show a function of ours. Allocators and compilers that are not installed are
//! skipped.

use std::path::{Path, PathBuf};

use faultless_wants as wants;

use crate::interposed::{Case, Output, compile, compile_with, ended, run, same_lines};

const SMALL: &str = "--small=mimalloc";
const ALLOCATORS: [&str; 4] = ["jemalloc", "tcmalloc", "tcmalloc_minimal", "mimalloc"];

/// Compiles a C++ program with another allocator; `None`, with a reason, if that is not installed.
fn with_allocator(flags: &[&str]) -> Option<PathBuf> {
    compile_with("g++", "owners.cpp", &[&["-std=c++17", "-pthread"], flags].concat())
}

fn lines_about_small(stderr: &str) -> usize {
    stderr.matches("faultless: --small has no effect here: ").count()
}

/// Requires the same output from a program that keeps its allocator. `--small` must report once that it has
/// no effect.
fn keeps_its_allocator(program: &Path, named: &str) {
    let expected = run(Case::plain(program)).stdout;
    for options in [&[][..], &["--threshold", "16K"], &["--policy", "base", "--retain", "0"]] {
        let output = run(Case::pooled(program, options));
        assert_eq!(
            (output.stdout.as_str(), output.stderr.as_str()),
            (expected.as_str(), ""),
            "{named} {options:?}"
        );
    }
    let output = run(Case::pooled(program, &[SMALL]));
    assert_eq!(output.stdout, expected, "{named} {SMALL}");
    assert_eq!(lines_about_small(&output.stderr), 1, "{}", output.stderr);
    assert!(output.stderr.contains(named) && output.stderr.lines().count() == 1, "{}", output.stderr);
    // Only the first process of a tree reports it.
    let script = "\"$0\"; \"$0\"";
    let children = run(Case::pooled("sh", &[SMALL]).args(&["-c", script]).args(&[program]));
    assert_eq!((children.stdout, children.stderr), (expected.repeat(2), String::new()), "{named}");
    let again = "\"$0\" && exec \"$0\"";
    let output = run(Case::pooled("sh", &[SMALL]).args(&["-c", again]).args(&[program]));
    assert_eq!((output.stdout, lines_about_small(&output.stderr)), (expected.repeat(2), 1), "{named}");
}

#[test]
fn a_program_keeps_the_allocator_that_it_is_linked_with() {
    for name in ALLOCATORS {
        let library = format!("-l{name}");
        let Some(program) = with_allocator(&["-Wl,--no-as-needed", &library]) else { continue };
        keeps_its_allocator(&program, &format!("the program brings an allocator of its own, lib{name}.so"));
    }
}

#[test]
fn a_program_keeps_the_allocator_that_is_linked_into_it() {
    for name in ["jemalloc", "tcmalloc_minimal"] {
        let library = format!("-l:lib{name}.a");
        // The whole archive, because it precedes the object that needs it.
        let flags =
            ["-Wl,--whole-archive", &library, "-Wl,--no-whole-archive", "-Wl,--no-as-needed", "-ldl", "-lm"];
        let Some(program) = with_allocator(&flags) else { continue };
        keeps_its_allocator(&program, "the program defines malloc itself");
    }
}

#[test]
fn an_allocators_own_functions_take_every_block_of_a_program_that_is_linked_with_it() {
    let is_right = |program: Option<PathBuf>, name: &str| {
        let Some(program) = program else { return };
        assert_eq!(run(Case::plain(&program)).stdout, "ok\n", "{name}");
        for options in [&[][..], &["--threshold", "16K"], &[SMALL]] {
            assert_eq!(run(Case::pooled(&program, options)).stdout, "ok\n", "{name} {options:?}");
        }
    };
    for (name, kind) in [
        ("jemalloc", "-DJEMALLOC"),
        ("mimalloc", "-DMIMALLOC"),
        ("tcmalloc", "-DTCMALLOC"),
        ("tcmalloc_minimal", "-DTCMALLOC"),
    ] {
        let flags = [kind, "-O0", "-Wl,--no-as-needed", &format!("-l{name}")];
        is_right(compile_with("gcc", "extensions.c", &flags), name);
    }
    // The allocator in another library of the program.
    let parts = ["-Wl,--whole-archive", "-l:libjemalloc_pic.a", "-Wl,--no-whole-archive", "-lm"];
    let flags = [&["-DLIBRARY", "-DJEMALLOC", "-O0", "-shared", "-fPIC"][..], &parts].concat();
    let Some(library) = compile_with("gcc", "extensions.c", &flags) else { return };
    let flags = ["-DLINKED", "-O0", "-Wl,--no-as-needed", library.to_str().unwrap(), "-lstdc++"];
    is_right(compile_with("gcc", "extensions.c", &flags), "jemalloc in a library");
}

#[test]
fn an_allocator_that_the_user_preloads_serves_before_ours() {
    let Some(program) = with_allocator(&[]) else { return };
    for (name, package) in [
        ("libjemalloc.so.2", "libjemalloc2"),
        ("libtcmalloc.so.4", "libgoogle-perftools-dev"),
        ("libtcmalloc_minimal.so.4", "libgoogle-perftools-dev"),
        ("libmimalloc.so.2", "libmimalloc2.0"),
    ] {
        let plain = ended(Case::plain(&program).env("LD_PRELOAD", name));
        if !plain.stderr.is_empty() {
            wants::missing_package(package, &plain.stderr);
            continue;
        }
        for options in [&[][..], &[SMALL]] {
            let output = run(Case::pooled(&program, options).env("LD_PRELOAD", name));
            assert_eq!(output.stdout, plain.stdout, "{name} {options:?}");
            assert_eq!(lines_about_small(&output.stderr), options.len(), "{name}: {}", output.stderr);
        }
    }
}

#[test]
fn without_another_allocator_small_blocks_are_mimallocs_and_nothing_is_said() {
    let Some(program) = with_allocator(&[]) else { return };
    let output = run(Case::pooled(&program, &[SMALL]));
    assert_eq!((output.stdout.as_str(), output.stderr.as_str()), ("ok\n", ""));
    let statistics = run(Case::pooled(&program, &[SMALL]).env("MIMALLOC_SHOW_STATS", "1"));
    assert!(statistics.stderr.starts_with("subproc"), "{}", statistics.stderr);
}

#[test]
fn a_program_that_defines_malloc_goes_on_with_it() {
    for kind in ["-DARENA", "-DWRAPPER"] {
        let Some(program) = compile("own_malloc.c", &[kind, "-ldl"]) else { return };
        let expected = run(Case::plain(&program)).stdout;
        for options in [&[][..], &[SMALL], &["--threshold", "16K"]] {
            assert_eq!(run(Case::pooled(&program, options)).stdout, expected, "{kind} {options:?}");
        }
    }
}

/// A shell that starts a program with a malloc of its own, a static one, one without the environment, and one with it.
fn tree() -> Option<(&'static str, [PathBuf; 3])> {
    const SCRIPT: &str = "\"$0\" >/dev/null; \"$1\"; \"$1\"; env -i \"$2\"; \"$2\"";
    let own = compile("own_malloc.c", &["-DARENA", "-ldl"])?;
    let fixed = compile("takes_large.c", &["-static"])?;
    let usual = compile("takes_large.c", &[])?;
    Some((SCRIPT, [own, fixed, usual]))
}

fn name_of_file(program: &Path) -> &str {
    program.file_name().unwrap().to_str().unwrap()
}

#[test]
fn the_summary_of_a_tree_says_in_which_process_the_pool_did_not_act_and_why() {
    let Some((script, programs)) = tree() else { return };
    let output = run(Case::pooled("sh", &["--summary"]).args(&["-c", script]).args(&programs));
    assert_eq!(output.stdout, "taken\n".repeat(4));
    let passive: Vec<_> = output.stderr.lines().filter(|line| line.contains("did not act")).collect();
    let [line] = passive[..] else { panic!("{}", output.stderr) };
    assert!(line.ends_with("]: the pool did not act: the program defines malloc itself"), "{line}");
    // The kernel cuts the name of a process.
    let own = &name_of_file(&programs[0])[..15];
    assert!(line.starts_with(&format!("faultless: {own}[")), "{line}");
    // The shell ends through _exit, and env becomes a program without the environment.
    let reports = output.stderr.lines().filter(|line| line.contains("large blocks: "));
    assert_eq!(reports.count(), 1, "{}", output.stderr);
    let json = run(Case::pooled(&programs[0], &["--summary-format", "json"])).stderr;
    let report: serde_json::Value = serde_json::from_str(&json).unwrap_or_else(|_| panic!("{json}"));
    assert_eq!(report["pool_open"], 0, "{json}");
}

#[test]
fn advise_lists_the_programs_of_a_tree_in_which_the_pool_did_not_act() {
    let Some((script, [own, fixed, usual])) = tree() else { return };
    let words = ["advise", "--every-cure", "--runs", "3", "--any-output", "--json", "--", "sh", "-c", script];
    let output =
        ended(Case::plain(crate::interposed::faultless()).args(&words).args(&[&own, &fixed, &usual]));
    let advice: serde_json::Value =
        serde_json::from_str(&output.stdout).unwrap_or_else(|_| panic!("{}", output.stderr));
    let notes: Vec<_> =
        advice["notes"].as_array().unwrap().iter().map(|note| note.as_str().unwrap()).collect();
    let of_pool: Vec<_> = notes.iter().copied().filter(|note| note.starts_with("no pool in ")).collect();
    if of_pool.is_empty() && notes.iter().any(|note| note.contains("no fault was timed")) {
        return wants::missing_feature("perf events", "the programs of a tree can't be seen");
    }
    let [own, fixed, usual] = [own, fixed, usual].map(|path| path.display().to_string());
    assert_eq!(
        of_pool,
        [
            format!("no pool in 1 of 7 programs that ran: {own} defines malloc itself"),
            format!(
                "no pool in 2 of 7 programs that ran: {fixed} is statically linked: it has no loader for the pool"
            ),
            format!(
                "no pool in 1 of 7 programs that ran: {usual} ran without it: a script replaced its LD_PRELOAD, or its container lacks the file"
            ),
        ]
    );
}

#[test]
fn advise_tries_no_cure_on_a_program_that_defines_malloc() {
    let Some(program) = compile("own_malloc.c", &["-DARENA", "-ldl"]) else { return };
    let output = ended(Case::plain(crate::interposed::faultless()).args(&["advise", "--"]).args(&[&program]));
    assert_eq!((output.status, output.stderr.as_str()), (1, ""));
    assert!(
        output.stdout.starts_with("Nothing was tried: ") && output.stdout.contains(" defines malloc itself"),
        "{}",
        output.stdout
    );
}

#[test]
fn a_program_with_its_own_malloc_is_not_killed_for_the_summary_once_it_confined_itself() {
    let Some(program) = compile("own_confined.c", &[]) else { return };
    let plain = ended(Case::plain(&program));
    if (plain.status, plain.stdout.as_str()) != (0, "ok\n") {
        return wants::missing_feature("seccomp", "own_confined.c does not work without the pool");
    }
    let file = crate::interposed::scratch("confined");
    for options in [&["--summary"][..], &["--summary-file", file.to_str().unwrap()]] {
        let itself = run(Case::pooled(&program, options));
        assert_eq!((itself.stdout.as_str(), itself.stderr.as_str()), ("ok\n", ""), "{options:?}");
        assert!(!file.exists(), "{options:?}");
    }
    let child = run(Case::pooled(&program, &["--summary"]).args(&["child"]));
    assert_eq!(child.stdout, "ok\n");
    assert_eq!(child.stderr.lines().count(), 1, "the parent's alone: {}", child.stderr);
    let free = run(Case::pooled(&program, &["--summary"]).args(&["free"])).stderr;
    let heads: std::collections::BTreeSet<_> =
        free.lines().filter_map(|line| line.split_once("]: ")).collect();
    assert_eq!((heads.len(), free.lines().count()), (2, 2), "each has its own number: {free}");
}

#[test]
fn a_program_that_only_takes_mallocs_address_gets_blocks_from_the_pool() {
    // A program that is not position-independent exports the address of its jump to malloc.
    for flags in [&["-DADDRESS", "-no-pie", "-fno-pie"][..], &["-DADDRESS"]] {
        let Some(program) = compile("own_malloc.c", flags) else { return };
        for options in [&["--summary"][..], &["--summary", SMALL]] {
            let output = run(Case::pooled(&program, options));
            assert!(
                output.stderr.contains(" dirty, ") && !output.stderr.contains("--small"),
                "{}",
                output.stderr
            );
            assert_eq!(output.stdout, "taken and called\n0 wrong\n");
        }
    }
}

const ADDRESS: &[&str] = &["none", "leak", "overflow", "double-free", "use-after-free"];
const ADDRESS_AND_UNDEFINED: &[&str] = &["none", "leak", "integer", "double-free", "use-after-free"];
const LEAK: &[&str] = &["none", "leak"];
const MEMORY: &[&str] = &["none", "branch"];
const THREAD: &[&str] = &["none", "race"];
const UNDEFINED: &[&str] = &["none", "integer"];

/// Compiler, flags, and the mistakes in `sanitized.c` that the sanitizer finds.
const SANITIZERS: [(&str, &[&str], &[&str]); 15] = [
    ("gcc", &["-fsanitize=address"], ADDRESS),
    ("gcc", &["-fsanitize=address", "-DDEFAULTS"], ADDRESS),
    ("gcc", &["-fsanitize=address", "-static-libasan"], ADDRESS),
    ("gcc", &["-fsanitize=leak"], LEAK),
    ("gcc", &["-fsanitize=thread"], THREAD),
    ("gcc", &["-fsanitize=thread", "-static-libtsan"], THREAD),
    ("gcc", &["-fsanitize=undefined"], UNDEFINED),
    ("gcc", &["-fsanitize=address,undefined"], ADDRESS_AND_UNDEFINED),
    ("clang", &["-fsanitize=address"], ADDRESS),
    ("clang", &["-fsanitize=address", "-shared-libsan"], ADDRESS),
    ("clang", &["-fsanitize=leak"], LEAK),
    ("clang", &["-fsanitize=memory"], MEMORY),
    ("clang", &["-fsanitize=thread"], THREAD),
    ("clang", &["-fsanitize=undefined"], UNDEFINED),
    ("clang", &["-fsanitize=address,undefined"], ADDRESS_AND_UNDEFINED),
];

/// A sanitizer's report without addresses and process numbers.
fn comparable(stderr: &str) -> String {
    let mut text = String::new();
    let is_dump = |line: &str| line.starts_with("=>") || line.starts_with("  0x");
    // The unwinder may print random words above a program's first frame.
    for line in stderr.lines().filter(|line| !is_dump(line) && !line.contains("<unknown module>")) {
        for word in line.split_inclusive([' ', '(', ')', ',', '+']) {
            let varies = ["0x", "==", "[0x", "pid=", "tid="].iter().any(|begin| word.starts_with(begin));
            text += if varies { "# " } else { word };
        }
        text.push('\n');
    }
    text
}

/// The summary of ThreadSanitizer's report. The rest has threads in random order.
fn finding(stderr: &str) -> String {
    stderr.lines().filter(|line| line.starts_with("SUMMARY: ")).map(|line| format!("{line}\n")).collect()
}

#[test]
fn sanitizers_start_and_find_the_same_in_the_same_words() {
    for (compiler, flags, mistakes) in SANITIZERS {
        let shared =
            (compiler == "clang" && flags.contains(&"-shared-libsan")).then(clang_libraries).flatten();
        let all = [&["-g", "-pthread"], flags, shared.as_deref().as_slice()].concat();
        let Some(program) = compile_with(compiler, "sanitized.c", &all) else { continue };
        let is_of_threads = flags.contains(&"-fsanitize=thread");
        for (at, mistake) in mistakes.iter().enumerate() {
            let plain = ended(Case::plain(&program).args(&[mistake]));
            if *mistake == "none" && plain.status != 0 {
                wants::missing_feature("sanitizers", format_args!("{compiler} {flags:?}: {}", plain.stderr));
                break;
            }
            let as_child = ["-c", "\"$0\" \"$1\"; exit $?"];
            let program = program.to_str().unwrap();
            let ways = [
                ("directly", Case::pooled(program, &[]).args(&[mistake])),
                ("as a child", Case::pooled("sh", &[]).args(&as_child).args(&[program, mistake])),
                ("with --small", Case::pooled("sh", &[SMALL]).args(&as_child).args(&[program, mistake])),
            ];
            assert!(
                *mistake == "none" || !plain.stderr.is_empty(),
                "{compiler} {flags:?} finds no {mistake}"
            );
            // Starting is tried in all ways, and each mistake in one of them.
            for (_, (way, case)) in ways.into_iter().enumerate().filter(|way| at == 0 || at % 3 == way.0) {
                let what = format!("{compiler} {flags:?} {mistake} {way}");
                let pooled = ended(case);
                ends_the_same(&plain, &pooled, is_of_threads, &what);
                if let Some(name) = name_of(flags).filter(|_| at == 0 && way == "directly") {
                    let line = format!("is built with {name}, which has to see every block");
                    assert!(pooled.stderr.contains(&line), "{what}: {}", pooled.stderr);
                    assert_eq!(pooled.stderr.lines().count(), 1, "{what}: {}", pooled.stderr);
                }
            }
        }
    }
}

/// The sanitizer that `run` says a program has been built with.
fn name_of(flags: &[&str]) -> Option<&'static str> {
    match flags {
        ["-fsanitize=address"] => Some("AddressSanitizer"),
        ["-fsanitize=thread"] => Some("ThreadSanitizer"),
        ["-fsanitize=leak"] => Some("LeakSanitizer"),
        ["-fsanitize=memory"] => Some("MemorySanitizer"),
        _ => None,
    }
}

fn ends_the_same(plain: &Output, pooled: &Output, is_of_threads: bool, what: &str) {
    let said = &pooled.stderr;
    assert_eq!((pooled.status, &pooled.stdout), (plain.status, &plain.stdout), "{what}: {said}");
    let said = said.lines().filter(|line| !line.starts_with("faultless: "));
    let said: String = said.map(|line| format!("{line}\n")).collect();
    if is_of_threads {
        same_lines(&finding(&plain.stderr), &finding(&said), what)
    } else {
        same_lines(&comparable(&plain.stderr), &comparable(&said), what)
    }
}

/// The linker flag for clang's shared sanitizer libraries.
fn clang_libraries() -> Option<String> {
    let output = std::process::Command::new("clang").arg("-print-runtime-dir").output().ok()?;
    let folder = String::from_utf8(output.stdout).ok()?;
    Some(format!("-Wl,-rpath={}", folder.trim()))
}
