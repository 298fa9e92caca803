//! Things that a program must not notice of `faultless run`: its exit, refusals, limits, memory, and other
//! threads.
//!
//! Each program of `programs/unbreakable` first runs unchanged, which defines the right result, and then with
//! the pool. Guards against a thread or a limit of the pool that the program notices, against memory that
//! becomes resident untouched, and against freed memory that stays.

use std::path::{Path, PathBuf};
use std::time::Duration;

use faultless_wants as wants;

use crate::interposed::group::MemoryGroup;
use crate::interposed::{Case, SMALL, compile, finish, how};

/// Far more than any of these programs takes on a busy machine, and less than the longest decay.
const LIMIT: Duration = Duration::from_secs(600);
/// The control group of small containers.
const GROUP_BYTES: u64 = 700_000_000;

const DEFAULT: &[&str] = &[];

fn program(name: &str) -> Option<PathBuf> {
    compile(&format!("unbreakable/{name}.c"), &["-pthread"])
}

/// A command's exit and output.
fn ended(case: Case) -> (String, String) {
    let (status, output) = finish(case, LIMIT);
    (how(status), output.stdout)
}

/// The output of a program that must succeed.
fn printed(case: Case) -> String {
    let (how, stdout) = ended(case);
    assert_eq!(how, "status 0", "{stdout}");
    stdout
}

fn numbers(text: &str) -> Vec<u64> {
    text.split_whitespace()
        .map(|word| word.parse().unwrap_or_else(|_| panic!("not numbers: {text}")))
        .collect()
}

/// A group of 700 MB, or the reason why there is none on standard error.
#[track_caller]
fn group() -> Option<MemoryGroup> {
    let group = MemoryGroup::new(GROUP_BYTES);
    if let Err(reason) = &group {
        wants::missing_feature("memory control groups", reason);
    }
    group.ok()
}

fn in_group(case: Case, group: Option<&MemoryGroup>) -> Case {
    match group {
        Some(group) => case.group(group.path()),
        None => case,
    }
}

/// Fails with all findings, so that one run of the tests shows everything.
fn none(wrong: &[String]) {
    let some = &wrong[..wrong.len().min(16)];
    assert!(wrong.is_empty(), "{} differences, among them\n{}", wrong.len(), some.join("\n"));
}

#[test]
fn a_process_ends_with_the_last_of_its_own_threads() {
    let Some(program) = program("ends") else { return };
    let mut wrong = Vec::new();
    // With the last three a thread of the pool's that waited for the decay would be seen.
    let all: [&[&str]; 5] = [
        DEFAULT,
        &["--decay", "1s"],
        &["--small=mimalloc", "--decay", "1000s"],
        &["--decay", "1000s"],
        &["--prefault", "ahead", "--decay", "1000s"],
    ];
    for way in ["main", "worker", "last", "term", "kill"] {
        let plain = ended(Case::plain(&program).args(&[way]));
        let right =
            if way == "term" || way == "kill" { ("signal 15", "") } else { ("status 0", "exit handler\n") };
        assert_eq!((plain.0.as_str(), plain.1.as_str()), right, "{way}");
        for options in all {
            let here = ended(Case::pooled(&program, options).args(&[way]));
            if here != plain {
                wrong.push(format!("{way} {options:?}: {here:?} instead of {plain:?}"));
            }
        }
    }
    none(&wrong);
}

/// The lines of `here` that differ from those of `plain`.
fn compare_lines(wrong: &mut Vec<String>, what: &str, plain: &str, here: &(String, String)) {
    let (how, lines) = here;
    if how != "status 0" {
        wrong.push(format!("{what}: {how} after {} lines", lines.lines().count()));
    } else if lines.lines().count() != plain.lines().count() {
        wrong.push(format!(
            "{what}: {} lines, without the pool {}",
            lines.lines().count(),
            plain.lines().count()
        ));
    }
    for (plain, here) in plain.lines().zip(lines.lines()).filter(|(plain, here)| plain != here) {
        wrong.push(format!("{what}: {here}, without the pool {plain}"));
    }
}

#[test]
fn what_is_too_large_is_refused_as_without() {
    let Some(program) = program("oversized") else { return };
    let mut wrong = Vec::new();
    let group = group();
    for group in [None].into_iter().chain(group.as_ref().map(Some)) {
        let plain = printed(in_group(Case::plain(&program), group));
        assert!(group.is_some() || plain.contains(": block") && plain.contains(": null"), "{plain}");
        for options in [DEFAULT, SMALL] {
            let here = ended(in_group(Case::pooled(&program, options), group));
            let what = format!("{options:?}, in a group: {}", group.is_some());
            compare_lines(&mut wrong, &what, &plain, &here);
        }
    }
    none(&wrong);
}

#[test]
fn an_address_space_limit_leaves_95_percent_of_what_it_leaves_without() {
    let Some(program) = program("measures") else { return };
    let names = ["largest block", "sum of 1 MiB", "sum of 64 MiB", "largest block after use"];
    let mut wrong = Vec::new();
    for kib in ["1000000", "4000000"] {
        let plain = numbers(&printed(Case::plain(&program).limited("-v", kib)));
        for options in [DEFAULT, SMALL] {
            let (how, text) = ended(Case::pooled(&program, options).limited("-v", kib));
            if how != "status 0" {
                wrong.push(format!("{kib} {options:?}: {how}"));
                continue;
            }
            assert_eq!((plain.len(), numbers(&text).len()), (names.len(), names.len()), "{text}");
            for ((name, plain), here) in names.iter().zip(&plain).zip(numbers(&text)) {
                // mimalloc reserves addresses in steps of 32 MiB.
                let kept = if options == SMALL && kib == "1000000" { 92 } else { 95 };
                if here * 100 < plain * kept {
                    wrong.push(format!(
                        "ulimit -v {kib} {options:?}, {name}: {here} MiB, without {plain} MiB"
                    ));
                }
            }
        }
    }
    none(&wrong);
}

#[test]
fn threads_have_their_stacks_under_an_address_space_limit() {
    let Some(program) = program("many_threads") else { return };
    let plain = printed(Case::plain(&program).limited("-v", "1500000"));
    assert_eq!(plain, "64 threads, 64 blocks\n");
    for options in [DEFAULT, SMALL] {
        assert_eq!(printed(Case::pooled(&program, options).limited("-v", "1500000")), plain, "{options:?}");
    }
}

#[test]
fn what_large_blocks_have_left_under_an_address_space_limit_is_there_for_all_else() {
    let Some(program) = program("after_large") else { return };
    let mut wrong = Vec::new();
    for words in
        [["all", "small"], ["all", "stacks"], ["most", "small"], ["most", "stacks"], ["most", "maps"]]
    {
        let plain = numbers(&printed(Case::plain(&program).args(&words).limited("-v", "1000000")))[0];
        assert!(plain > 50, "{words:?}: {plain}");
        // mimalloc keeps addresses, as the help of `run` says: 13 stacks of 121.
        for (options, kept) in [(DEFAULT, 95), (SMALL, 88)] {
            let here = printed(Case::pooled(&program, options).args(&words).limited("-v", "1000000"));
            if numbers(&here)[0] * 100 < plain * kept {
                wrong.push(format!("{words:?} {options:?}: {here}, without {plain}"));
            }
        }
    }
    none(&wrong);
}

/// Compares the peak resident MiB of a sparse program under the pool with a bound. Returns a failure, if any.
fn sparse(
    program: &Path,
    group: Option<&MemoryGroup>,
    words: [&str; 3],
    bound: fn(u64) -> u64,
) -> Option<String> {
    let plain = numbers(&printed(in_group(Case::plain(program).args(&words), group)))[0];
    let case = Case::pooled(program, &["--decay", "200ms"]).args(&words);
    let (how, text) = ended(in_group(case, group));
    let words = words.join(" ");
    if how != "status 0" {
        return Some(format!("{words}: {how} {text}"));
    }
    let (here, most) = (numbers(&text)[0], bound(plain));
    (here > most).then(|| format!("{words}: {here} MiB, without {plain} MiB, at most {most} MiB"))
}

/// 3000 MiB of zeroes; the program touches little of it. Nobody else may touch the rest, even when the memory
/// is reused.
#[test]
fn zeroed_memory_stays_as_sparse_as_its_program_uses_it() {
    let Some(program) = program("sparse") else { return };
    let group = group();
    let all = [
        ["calloc", "every-2M", "0"],
        ["calloc", "every-64K", "0"],
        ["calloc", "some", "0"],
        ["many-zeroed", "every-64K", "0"],
        ["again", "some", "0"],
        ["later", "every-2M", "400"],
    ];
    let run = |words: [&str; 3]| sparse(&program, group.as_ref(), words, |plain| plain * 6 / 5 + 8);
    none(&all.into_iter().filter_map(run).collect::<Vec<_>>());
}

#[test]
fn memory_stays_nearly_as_sparse_as_its_program_uses_it() {
    let Some(program) = program("sparse") else { return };
    let group = group();
    let all = [
        ["malloc", "every-2M", "0"],
        ["malloc", "every-64K", "0"],
        ["malloc", "some", "0"],
        ["many", "every-64K", "0"],
        ["realloc", "some", "0"],
        ["steps", "every-2M", "0"],
    ];
    // Many blocks may waste no more than the first: 16 MiB, plus the pool's own memory.
    let bound = |way: &str| -> fn(u64) -> u64 {
        if way == "many" { |plain| plain + 20 } else { |plain| plain + 3000 / 8 }
    };
    let run = |words: [&str; 3]| sparse(&program, group.as_ref(), words, bound(words[0]));
    none(&all.into_iter().filter_map(run).collect::<Vec<_>>());
}

#[test]
fn freed_memory_of_a_program_that_locks_all_of_it_goes_back() {
    let Some(program) = program("locks") else { return };
    let text = printed(Case::plain(&program).args(&["all", "100", "0"]));
    if text == "refused\n" {
        return wants::missing_feature("RLIMIT_MEMLOCK", "this user may not lock 400 MiB");
    }
    let plain = numbers(&text);
    let resident = |options: &[&str], ms: &str, most: u64| {
        numbers(&printed(Case::pooled(&program, options).args(&["all", ms, &most.to_string()])))
    };
    // When `free` returns, the pool's thread may still be returning part of it.
    let at_once = resident(&["--retain", "0"], "500", plain[0] + 16)[1];
    // 32 MiB are always retained.
    let most = plain[1] + 32 + 16;
    let decayed = resident(&["--decay", "500ms"], "9000", most);
    assert!(at_once <= plain[0] + 16, "--retain 0: {at_once} MiB, without {} MiB", plain[0]);
    assert!(decayed[0] > most, "nothing was kept that could go back: {} MiB", decayed[0]);
    assert!(decayed[1] <= most, "after the decay time: {} MiB, without {} MiB", decayed[1], plain[1]);
}

#[test]
fn a_user_may_lock_all_memory_of_a_small_program() {
    let Some(program) = program("locks") else { return };
    let mut wrong = Vec::new();
    for way in ["fresh", "used", "freed"] {
        let plain = printed(Case::plain(&program).args(&[way]));
        if plain != "0\n" {
            wants::missing_feature("RLIMIT_MEMLOCK", format_args!("{way}: errno {plain} without the pool"));
            continue;
        }
        // With --small=mimalloc the addresses of its first arena count too; see the help of `run`.
        let here = printed(Case::pooled(&program, DEFAULT).args(&[way]));
        if here != plain {
            wrong.push(format!("{way}: errno {}", here.trim()));
        }
    }
    none(&wrong);
}

/// One reading that `idles` takes of itself.
#[derive(Clone, Copy, Debug)]
struct Reading {
    ms: u64,
    resident_mib: u64,
    threads: u64,
}

fn readings(text: &str) -> Vec<Reading> {
    let reading = |line: &str| match numbers(line)[..] {
        [ms, resident_mib, threads] => Reading { ms, resident_mib, threads },
        _ => panic!("{line}"),
    };
    text.lines().filter(|line| !line.starts_with("unshare")).map(reading).collect()
}

/// Checks how 1 GiB was returned. Without a decay time, either default may apply.
fn decayed(text: &str, decay_ms: Option<u64>) -> Vec<String> {
    let readings = readings(text);
    let (first, last) = (readings[0], readings[readings.len() - 1]);
    let most = (first.resident_mib / 10).max(32);
    let end = readings.iter().find(|reading| reading.resident_mib <= most).map(|reading| reading.ms);
    let falls: Vec<u64> = readings
        .windows(2)
        .filter(|pair| pair[1].resident_mib + 4 <= pair[0].resident_mib)
        .map(|pair| pair[1].ms)
        .collect();
    let decay_ms = decay_ms.unwrap_or(if end.is_some_and(|ms| ms < 2500) { 1000 } else { 10_000 });
    let mut wrong = Vec::new();
    let mut demand = |is_right: bool, what: String| wrong.extend((!is_right).then_some(what));
    demand(first.resident_mib > 500, format!("{first:?}: nothing was kept"));
    demand(
        end.is_some_and(|ms| ms <= decay_ms * 3 / 2 + 500),
        format!("at most {most} MiB since {end:?} ms"),
    );
    demand(falls.len() >= 5, format!("it fell at {falls:?} ms: fewer than 5 steps"));
    demand(
        falls.first().is_some_and(|&ms| ms < decay_ms / 2),
        format!("it began to fall at {:?} ms", falls.first()),
    );
    demand(last.threads == 1, format!("{last:?}: not alone"));
    demand(text.ends_with("unshare 0\n"), format!("{:?}", text.lines().last()));
    wrong
}

#[test]
fn freed_memory_goes_back_in_steps_and_who_gives_it_back_is_gone_then() {
    let Some(program) = program("idles") else { return };
    let plain = printed(Case::plain(&program).args(&["1000"]));
    if !plain.ends_with("unshare 0\n") {
        return wants::missing_feature("user namespaces", plain);
    }
    // On a busy machine both the reclaim and the readings may be late by more than a short decay time.
    let first_right = |options: &[[&str; 2]], decays_ms: [Option<u64>; 3]| {
        let mut wrong = Vec::new();
        for (options, decay_ms) in options.iter().zip(decays_ms) {
            let options = if decay_ms.is_some() { &options[..] } else { DEFAULT };
            let case = Case::pooled(&program, options).args(&[decay_ms.unwrap_or(10_000).to_string()]);
            let text = printed(case);
            assert!(readings(&text).iter().all(|reading| reading.threads <= 2), "{options:?}: {text}");
            wrong = decayed(&text, decay_ms).iter().map(|what| format!("{options:?}: {what}")).collect();
            if wrong.is_empty() {
                break;
            }
        }
        none(&wrong);
    };
    let longer = [["--decay", "1s"], ["--decay", "6s"], ["--decay", "40s"]];
    first_right(&longer, [Some(1000), Some(6000), Some(40_000)]);
    first_right(&longer, [None; 3]);
}

#[test]
fn a_program_that_frees_little_is_alone() {
    let Some(program) = program("idles") else { return };
    assert_eq!(printed(Case::plain(&program).args(&["little"])), "1\n");
    for options in [DEFAULT, &["--decay", "50ms"]] {
        assert_eq!(printed(Case::pooled(&program, options).args(&["little"])), "1\n", "{options:?}");
    }
}

#[test]
fn a_process_is_alone_when_it_forks_and_so_is_its_child() {
    let Some(program) = program("forks") else { return };
    let plain = printed(Case::plain(&program));
    assert_eq!(plain, "parent 1, child 1\n");
    for options in [DEFAULT, &["--decay", "20ms"]] {
        assert_eq!(printed(Case::pooled(&program, options)), plain, "{options:?}");
    }
}
