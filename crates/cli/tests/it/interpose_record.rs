//! The allocation recorder in many kinds of programs: the journal holds all allocations and frees, and the
//! program behaves the same.
//!
//! Guards against: missing, invented or misattributed allocations, frees and moves; truncated stacks;
//! uncounted losses; a recorder that changes a program's behaviour.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::interposed::{Case, compile, run};
use faultless_os::journal::{Entry, Kind, Next, QueueId, Reader, Registers, Writer};

const PRELOAD: &str = env!("FAULTLESS_PRELOAD");
const MARKER: u64 = 0x5afe_5afe_1234_5678;
/// Slots of the journal with and without a stack.
const LONG_SLOTS: usize = 4096;
/// Twice what fits into a journal: a program may write as fast as it is read.
const ENTRIES: usize = 1 << 14;

struct Seen {
    writer: Writer,
    entry: Entry,
    caller: Option<(Registers, Vec<u8>)>,
}

fn variable(reader: &Reader) -> String {
    format!("{}:64K", reader.path())
}

/// Records a program, with blocks from its own malloc.
fn recorded(program: &Path, reader: &Reader) -> Case {
    let case = Case::plain(program).env("LD_PRELOAD", PRELOAD).env("FAULTLESS_RECORD", &variable(reader));
    case.env("FAULTLESS_THRESHOLD", "never")
}

/// All entries that the journal holds now, and perhaps later ones, sorted by time. Unfinished entries are
/// dropped.
fn all(reader: &mut Reader) -> Vec<Seen> {
    let mut seen = Vec::new();
    let mut stack = Vec::new();
    for lane in [QueueId::Long, QueueId::Short] {
        for _ in 0..ENTRIES {
            match reader.next(lane, &mut stack) {
                Next::Nothing => break,
                Next::Unfinished { .. } => reader.give_up(lane),
                Next::Entry(_, entry, _) if entry.kind == Kind::POPULATED => {}
                Next::Entry(writer, entry, caller) => {
                    let caller = caller.map(|caller| (caller.registers, caller.stack.to_vec()));
                    seen.push(Seen { writer, entry, caller });
                }
            }
        }
    }
    seen.sort_by_key(|seen| seen.entry.time_ns);
    seen
}

fn told(entry: &Entry) -> String {
    match entry.kind {
        Kind::BORN => format!("A {:x} {:x}", entry.addr, entry.len_bytes),
        Kind::DIED => format!("F {:x}", entry.addr),
        Kind::MOVED => format!("M {:x} {:x} {:x}", entry.from, entry.addr, entry.len_bytes),
        other => panic!("{other:?}"),
    }
}

fn by_thread(lines: impl Iterator<Item = (u32, String)>) -> BTreeMap<u32, Vec<String>> {
    let mut threads = BTreeMap::<u32, Vec<String>>::new();
    lines.for_each(|(tid, line)| threads.entry(tid).or_default().push(line));
    threads
}

/// Checks that the journal agrees with the program's own account.
fn check(stdout: &str, reader: &mut Reader) {
    let expected = by_thread(stdout.lines().map(|line| {
        let (tid, event) = line.split_once(' ').unwrap();
        (tid.parse().unwrap(), event.to_owned())
    }));
    let seen = all(reader);
    assert_eq!(reader.lost(), 0);
    let found = by_thread(seen.iter().map(|seen| (seen.writer.tid, told(&seen.entry))));
    assert_eq!(expected.len(), 1 + 4 + 2, "the program's own account");
    let mut started = 0;
    for (tid, expected) in &expected {
        // Long blocks of the C library itself are not in the account.
        assert_eq!(found.get(tid), Some(expected), "thread {tid}");
        started += 1;
    }
    assert_eq!(found.len(), started);
    for seen in seen {
        let Some((registers, stack)) = seen.caller else {
            assert_eq!(seen.entry.kind, Kind::DIED);
            continue;
        };
        assert!(seen.entry.begin_ns <= seen.entry.time_ns);
        let marked = stack.chunks_exact(8).any(|word| u64::from_ne_bytes(word.try_into().unwrap()) == MARKER);
        assert!(marked, "{} bytes from {:x}", stack.len(), registers.sp);
        assert!(registers.ip != 0 && registers.sp.is_multiple_of(8));
    }
}

#[test]
fn every_birth_death_and_move_is_recorded_once_with_its_stack() {
    let Some(program) = compile("recorded.c", &["-pthread"]) else { return };
    let mut reader = Reader::create().unwrap();
    let stdout = run(recorded(&program, &reader)).stdout;
    check(&stdout, &mut reader);
}

#[test]
fn blocks_of_the_pool_are_recorded_as_well() {
    let Some(program) = compile("recorded.c", &["-pthread"]) else { return };
    for options in [&[][..], &["--policy", "base", "--retain", "5M"], &["--threshold", "1M"]] {
        let mut reader = Reader::create().unwrap();
        let case = Case::pooled(&program, options).env("FAULTLESS_RECORD", &variable(&reader));
        check(&run(case).stdout, &mut reader);
    }
}

#[test]
fn what_a_full_journal_has_no_room_for_is_counted() {
    let Some(program) = compile("allocates.c", &["-pthread"]) else { return };
    let mut reader = Reader::create().unwrap();
    let blocks = LONG_SLOTS + 904;
    run(recorded(&program, &reader).args(&[blocks.to_string()]));
    assert_eq!(reader.lost(), 904);
    let seen = all(&mut reader);
    assert_eq!(seen.iter().filter(|seen| seen.entry.kind == Kind::BORN).count(), LONG_SLOTS);
    assert_eq!(seen.iter().filter(|seen| seen.entry.kind == Kind::DIED).count(), blocks);
    run(recorded(&program, &reader).args(&["10"]));
    assert_eq!((all(&mut reader).len(), reader.lost()), (20, 904), "there is room again");
}

#[test]
fn a_program_that_is_killed_in_the_midst_leaves_a_journal_for_others() {
    let Some(program) = compile("allocates.c", &["-pthread"]) else { return };
    let mut reader = Reader::create().unwrap();
    for _ in 0..6 {
        let mut command = Command::new(&program);
        command.env("LD_PRELOAD", PRELOAD).env("FAULTLESS_THRESHOLD", "never").stdin(Stdio::null());
        let mut child = command.env("FAULTLESS_RECORD", variable(&reader)).spawn().unwrap();
        let begin = Instant::now();
        let mut seen = Vec::new();
        while seen.is_empty() || begin.elapsed() < Duration::from_millis(20) {
            seen = all(&mut reader);
        }
        child.kill().unwrap();
        child.wait().unwrap();
        all(&mut reader);
    }
    let lost = reader.lost();
    run(recorded(&program, &reader).args(&["100"]));
    assert_eq!((all(&mut reader).len(), reader.lost()), (200, lost));
}

#[test]
fn a_journal_that_is_not_there_or_none_changes_nothing() {
    let Some(program) = compile("abi.c", &[]) else { return };
    let gone = Reader::create().unwrap().path();
    for value in [gone.as_str(), "/nowhere", "/dev/null", "/etc/passwd", "", ":", "/proc/self/mem"] {
        let case = Case::plain(&program).env("LD_PRELOAD", PRELOAD).env("FAULTLESS_THRESHOLD", "never");
        let output = run(case.env("FAULTLESS_RECORD", &format!("{value}:64K")));
        assert_eq!((output.stdout.as_str(), output.stderr.as_str()), ("ok\n", ""), "{value}");
    }
    let output = run(Case::plain(&program).env("LD_PRELOAD", PRELOAD).env("FAULTLESS_RECORD", "nonsense"));
    assert!(output.stderr.contains("ignored: expected PATH:SIZE"), "{}", output.stderr);
}

#[test]
fn programs_behave_the_same_while_they_are_recorded() {
    let sources: [(&str, &[&str], &[&str]); 6] = [
        ("abi.c", &[], &[]),
        ("objects.cpp", &["-pthread"], &[]),
        ("fork_handlers.c", &["-pthread"], &[]),
        ("small_stack.c", &["-pthread"], &[]),
        ("stress.c", &["-pthread"], &["4", "200", "5"]),
        ("sandboxed.c", &[], &["early", "filter"]),
    ];
    for (source, flags, args) in sources {
        let Some(program) = compile(source, flags) else { return };
        let expected = run(Case::plain(&program).args(args)).stdout;
        let reader = Reader::create().unwrap();
        assert_eq!(run(recorded(&program, &reader).args(args)).stdout, expected, "{source}");
        let case = Case::pooled(&program, &[]).args(args).env("FAULTLESS_RECORD", &variable(&reader));
        assert_eq!(run(case).stdout, expected, "{source}, with the pool");
    }
}

#[test]
fn a_block_of_the_pool_that_is_freed_twice_is_not_asked_for_its_length() {
    let Some(program) = compile("misuse.c", &["-pthread", "-O0", "-w"]) else { return };
    let reader = Reader::create().unwrap();
    assert_eq!(run(Case::pooled(&program, &[]).env("FAULTLESS_RECORD", &variable(&reader))).stdout, "ok\n");
}

#[test]
fn profilers_find_the_probes_of_blocks() {
    let notes = Command::new("readelf").args(["-nW", PRELOAD]).output();
    let notes = match notes {
        Ok(output) if output.status.success() => String::from_utf8(output.stdout).unwrap(),
        other => return faultless_wants::missing_package("binutils", format_args!("readelf: {other:?}")),
    };
    let probes = notes.split("stapsdt").filter(|note| note.contains("Provider: otel_memory"));
    let mut found = [0, 0];
    for note in probes {
        let arguments = note.lines().find_map(|line| line.trim().strip_prefix("Arguments:")).unwrap();
        match note.contains("Name: alloc") {
            true => assert_eq!(arguments.split_whitespace().count(), 3, "{note}"),
            false => {
                assert!(note.contains("Name: free") && arguments.split_whitespace().count() == 1, "{note}")
            }
        }
        found[usize::from(note.contains("Name: free"))] += 1;
    }
    assert!(found[0] > 0 && found[1] > 0, "{notes}");
}
