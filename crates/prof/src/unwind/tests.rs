//! Stacks of real programs, which print their own registers, stack and mappings.

use std::path::{Path, PathBuf};
use std::process::Command;

use faultless_trace::recording::{Header, Recording, Stacks};
use faultless_wants as wants;
use proptest::prelude::*;

use super::*;
use crate::elf::Elf;

const SOURCE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/stack.c");
const EXECUTABLE: u32 = 5;

/// What the program printed of itself.
struct Captured {
    registers: [u64; 4],
    dump: Vec<u8>,
    maps: Vec<Map>,
}

impl Captured {
    fn stack<'a>(&'a self, dump: &'a [u8], chain: &'a [u64]) -> UserStack<'a> {
        let [ip, sp, bp, lr] = self.registers;
        UserStack { ip, sp, bp, lr, dump, chain, kernel_chain: &[] }
    }
}

/// Compiles the program; `None` without a compiler.
#[track_caller]
fn compile(folder: &Path, flags: &[&str]) -> Option<PathBuf> {
    if !wants::program("cc", "gcc") {
        return None;
    }
    let out = folder.join("program");
    let built = Command::new("cc").args(flags).args(["-g", SOURCE, "-o"]).arg(&out).output().unwrap();
    let said = String::from_utf8_lossy(&built.stderr);
    if !built.status.success() && flags.contains(&"-static") {
        wants::missing_package("libc6-dev", format_args!("no static C library: {said}"));
        return None;
    }
    assert!(built.status.success(), "{flags:?}: {said}");
    Some(out)
}

fn run(program: &Path, deep: &str) -> Captured {
    let text = String::from_utf8(Command::new(program).arg(deep).output().unwrap().stdout).unwrap();
    let mut lines = text.lines();
    let registers: Vec<u64> = words(lines.next().unwrap()).collect();
    let hex = lines.next().unwrap();
    let dump =
        (0..hex.len()).step_by(2).map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap()).collect();
    Captured { registers: registers.try_into().unwrap(), dump, maps: lines.map(map).collect() }
}

fn words(line: &str) -> impl Iterator<Item = u64> {
    line.split(' ').map(|word| u64::from_str_radix(word, 16).unwrap())
}

/// A line of /proc/PID/maps.
fn map(line: &str) -> Map {
    let fields: Vec<&str> = line.splitn(6, ' ').collect();
    let (begin, end) = fields[0].split_once('-').unwrap();
    let (begin, end) = (words(begin).next().unwrap(), words(end).next().unwrap());
    let prot = if fields[1].contains('x') { EXECUTABLE } else { 1 };
    let name = fields[5].trim().to_owned();
    let file_offset = words(fields[2]).next().unwrap();
    Map { begin, len_bytes: end - begin, prot, flags: 2, name, file_offset }
}

fn unwinder_of(captured: &Captured, pid: u32) -> Unwinder {
    let mut unwinder = Unwinder::default();
    captured.maps.iter().for_each(|map| unwinder.map(pid, map));
    unwinder
}

fn stacks(lines: Vec<Line>) -> Stacks {
    let mut stacks = Stacks::default();
    for line in lines {
        match line {
            Line::Module(number, module) => {
                assert_eq!(number as usize, stacks.modules.len());
                stacks.modules.push(module);
            }
            Line::Frame(number, frame) => {
                assert_eq!(number as usize, stacks.frames.len());
                assert!(frame.module.is_none_or(|module| (module as usize) < stacks.modules.len()));
                stacks.frames.push(frame);
            }
            Line::Stack(number, frames) => {
                assert_eq!(number as usize, stacks.stacks.len());
                assert!(frames.iter().all(|frame| (*frame as usize) < stacks.frames.len()));
                stacks.stacks.push(frames);
            }
            Line::Symbol(frame, names) => stacks.frames[frame as usize].names = names,
            other => panic!("{other:?}"),
        }
    }
    stacks
}

fn named(unwinder: &mut Unwinder) -> Stacks {
    let mut lines = unwinder.take_lines();
    lines.extend(unwinder.name().0);
    stacks(lines)
}

fn line_with(mark: &str) -> u32 {
    let source = std::fs::read_to_string(SOURCE).unwrap();
    source.lines().position(|line| line.ends_with(mark)).unwrap() as u32 + 1
}

/// The stack of a program compiled with these flags.
fn labels(flags: &[&str]) -> Option<Vec<String>> {
    let folder = tempfile::tempdir().unwrap();
    Some(labels_of(&compile(folder.path(), flags)?))
}

/// The stack of this program. Checks that each function has the line of its call.
fn labels_of(program: &Path) -> Vec<String> {
    let captured = run(program, "0");
    let mut unwinder = unwinder_of(&captured, 7);
    let stack = unwinder.stack(7, &captured.stack(&captured.dump, &[])).unwrap();
    let stacks = named(&mut unwinder);
    for (function, mark) in
        [("inlined", "// in inlined"), ("a", "// in a"), ("b", "// in b"), ("main", "// in main")]
    {
        let name = stacks.names(stack).find(|name| name.function == function);
        let name = name.unwrap_or_else(|| panic!("{function} in {:?}", stacks.labels(stack)));
        assert!(name.file.as_deref().is_some_and(|file| file.ends_with("tests/stack.c")), "{name:?}");
        assert_eq!(name.line, Some(line_with(mark)), "{name:?}");
    }
    stacks.labels(stack)
}

const EXPECTED: [&str; 6] = ["capture", "inlined", "a", "b", "c", "main"];

#[test]
fn callers_are_found_without_frame_pointers() {
    let Some(labels) = labels(&["-O2", "-fomit-frame-pointer"]) else { return };
    assert_eq!(labels[..6], EXPECTED, "{labels:?}");
    assert_eq!(labels.last().unwrap(), "_start");
}

#[test]
fn callers_are_found_with_frame_pointers_alone() {
    let folder = tempfile::tempdir().unwrap();
    let flags = ["-O2", "-fno-omit-frame-pointer", "-fno-asynchronous-unwind-tables"];
    let Some(program) = compile(folder.path(), &flags) else { return };
    if !wants::program("objcopy", "binutils") {
        return;
    }
    let cut = Command::new("objcopy").args(["-R", ".debug_frame", "-R", ".eh_frame"]).arg(&program).status();
    assert!(cut.unwrap().success());
    let labels = labels_of(&program);
    assert_eq!(labels[..6], EXPECTED, "{labels:?}");
}

#[test]
fn callers_are_found_by_debug_frames_and_without_the_index_of_eh_frames() {
    for flags in [
        &["-O2", "-fomit-frame-pointer", "-fno-asynchronous-unwind-tables"][..],
        &["-O2", "-fomit-frame-pointer", "-Wl,--no-eh-frame-hdr"],
        &["-O2", "-fomit-frame-pointer", "-static", "-no-pie"],
    ] {
        if let Some(labels) = labels(flags) {
            assert_eq!(labels[..6], EXPECTED, "{flags:?} {labels:?}");
        }
    }
}

#[test]
fn a_copy_that_ends_early_is_continued_with_the_chain_of_frame_pointers() {
    let folder = tempfile::tempdir().unwrap();
    let Some(program) = compile(folder.path(), &["-O2", "-fno-omit-frame-pointer"]) else { return };
    let captured = run(&program, "9");
    let mut unwinder = unwinder_of(&captured, 7);
    let whole = unwinder.stack(7, &captured.stack(&captured.dump, &[])).unwrap();
    // The kernel's chain: return addresses by frame pointers, then junk.
    let [ip, sp, mut bp, _] = captured.registers;
    let word = |at: u64| {
        let offset = at.checked_sub(sp)? as usize;
        Some(u64::from_ne_bytes(captured.dump.get(offset..offset + 8)?.try_into().unwrap()))
    };
    let mut chain = vec![u64::MAX - 511, ip];
    while let (Some(caller), Some(next)) = (word(bp + 8), word(bp)) {
        chain.push(caller);
        bp = next;
    }
    chain.push(0x1234);
    let short = &captured.dump[..2048];
    let cut = unwinder.stack(7, &captured.stack(short, &[])).unwrap();
    let spliced = unwinder.stack(7, &captured.stack(short, &chain)).unwrap();
    let without = unwinder.stack(7, &captured.stack(&[], &chain)).unwrap();
    let stacks = named(&mut unwinder);
    let count = |stack| stacks.labels(stack).iter().filter(|label| *label == "deep").count();
    assert_eq!((count(whole), count(spliced), count(without)), (10, 10, 10));
    assert!(count(cut) < 4);
    for stack in [whole, spliced] {
        let labels = stacks.labels(stack);
        assert_eq!(labels[..4], EXPECTED[..4]);
        assert!(labels.iter().any(|label| label == "main"));
    }
}

#[test]
fn a_stripped_program_keeps_the_places_and_the_exported_names() {
    let folder = tempfile::tempdir().unwrap();
    let Some(program) = compile(folder.path(), &["-O2", "-rdynamic"]) else { return };
    if !wants::program("strip", "binutils") {
        return;
    }
    assert!(Command::new("strip").arg(&program).status().unwrap().success());
    let captured = run(&program, "0");
    let mut unwinder = unwinder_of(&captured, 7);
    let stack = unwinder.stack(7, &captured.stack(&captured.dump, &[])).unwrap();
    let labels = named(&mut unwinder).labels(stack);
    assert!(
        ["a", "b", "c", "main"].iter().all(|name| labels.iter().any(|label| label == name)),
        "{labels:?}"
    );
}

#[test]
fn a_file_that_was_replaced_gives_no_names_and_a_recording_is_named_by_build_id() {
    let folder = tempfile::tempdir().unwrap();
    let flags = ["-O2", "-Wl,--build-id"];
    let Some(program) = compile(folder.path(), &flags) else { return };
    let captured = run(&program, "0");
    let mut unwinder = unwinder_of(&captured, 7);
    let stack = unwinder.stack(7, &captured.stack(&captured.dump, &[])).unwrap();
    let bare = stacks(unwinder.take_lines());
    let mut recording = Recording { stacks: bare.clone(), header: Header::default(), ..Recording::default() };
    crate::symbols::name_recording(&mut recording);
    assert_eq!(recording.stacks.labels(stack)[..6], EXPECTED);
    compile(folder.path(), &["-O1", "-Wl,--build-id", "-DOTHER"]).unwrap();
    recording.stacks = bare;
    crate::symbols::name_recording(&mut recording);
    assert!(!recording.stacks.labels(stack).contains(&"main".to_owned()));
    let (symbols, _) = unwinder.name();
    let own = |line: &Line| matches!(line, Line::Symbol(_, names) if names.iter().any(|name| name.function == "main"));
    assert!(!symbols.iter().any(own));
}

#[test]
fn a_child_has_the_mappings_of_its_parent_until_it_runs_another_program() {
    let mut unwinder = Unwinder::default();
    let code =
        Map { begin: 0x5000, len_bytes: 0x1000, prot: 5, name: "/none/such".to_owned(), ..Map::default() };
    unwinder.map(1, &code);
    unwinder.fork(2, 1);
    unwinder.fork(1, 1);
    let stack = UserStack {
        ip: 0x5040,
        kernel_chain: &[u64::MAX - 127, 0xffff_8000_0000_0010],
        ..UserStack::default()
    };
    let parent = unwinder.stack(1, &stack).unwrap();
    assert_eq!(unwinder.stack(2, &stack), Some(parent));
    unwinder.exec(2);
    // The registers are those of the old program, and its code is gone.
    let exec = unwinder.stack(2, &stack).unwrap();
    let elsewhere = unwinder.stack(2, &UserStack { ip: 0x6040, ..stack }).unwrap();
    unwinder.map(2, &Map { begin: 0x8000, name: "/new".to_owned(), ..code });
    let begun = unwinder.stack(2, &UserStack { ip: 0x8010, ..UserStack::default() }).unwrap();
    let other = unwinder.stack(2, &stack).unwrap();
    unwinder.exit(1);
    assert_eq!(unwinder.stack(2, &UserStack::default()), None);
    let stacks = stacks(unwinder.take_lines());
    assert_eq!(stacks.labels(parent), ["[kernel]+0xffff800000000010", "such+0x40"]);
    assert_eq!(exec, elsewhere);
    assert_eq!(stacks.labels(exec), ["[kernel]+0xffff800000000010", "[exec]"]);
    assert_eq!(stacks.labels(begun), ["new+0x10"]);
    assert_eq!(stacks.labels(other), ["[kernel]+0xffff800000000010", "[unknown]+0x5040"]);
}

#[test]
fn our_own_interposer_is_left_out_at_the_leaf_only() {
    let mut unwinder = Unwinder::default();
    let map = |begin, name: &str| Map {
        begin,
        len_bytes: 0x1000,
        prot: 5,
        name: name.to_owned(),
        ..Map::default()
    };
    unwinder.map(1, &map(0x5000, "/x/libfaultless_preload-1.so"));
    unwinder.map(1, &map(0x8000, "/x/program"));
    let stack = |ip, chain| UserStack { ip, chain, ..UserStack::default() };
    let below = unwinder.stack(1, &stack(0x5001, &[0x5001, 0x5101, 0x8001, 0x5201])).unwrap();
    let alone = unwinder.stack(1, &stack(0x5001, &[])).unwrap();
    let stacks = stacks(unwinder.take_lines());
    assert_eq!(stacks.labels(below), ["program+0x0", "libfaultless_preload-1.so+0x200"]);
    assert_eq!(stacks.labels(alone), ["libfaultless_preload-1.so+0x1"]);
    for (path, ours) in [
        ("/var/cache/faultless/preload-86a4.so", true),
        ("/tmp/faultless-1000/preload-86a4.so", true),
        ("/opt/other/preload-86a4.so", false),
        ("/var/cache/faultless/other.so", false),
    ] {
        assert_eq!(is_interposer(path), ours, "{path}");
    }
}

/// This test's own stack, copied up to here.
#[cfg(target_arch = "x86_64")]
#[test]
fn the_rest_of_a_copy_is_what_stands_there_if_the_frame_at_its_end_has_not_changed() {
    let mut words = [7_u64; 64];
    words[60] = 8;
    let sp = words.as_ptr() as u64;
    let mut live = StackReader::default();
    // The frame begins at word 8, with the return address into it below; a word of the copy was another.
    let mut rest = |changed: usize, frame: u64| {
        let mut copied = words;
        copied[changed] = 9;
        let dump: Vec<u8> = copied[..32].iter().flat_map(|word| word.to_ne_bytes()).collect();
        live.rest(std::process::id(), &UserStack { sp, dump: &dump, ..UserStack::default() }, sp + frame * 8)
    };
    let (bytes, begin) = rest(6, 8).unwrap();
    assert_eq!(
        (&bytes[60 * 8..61 * 8], begin),
        (&8_u64.to_ne_bytes()[..], 0),
        "only functions below it went on"
    );
    assert_eq!(rest(7, 8), None, "it calls another function");
    assert_eq!(rest(8, 8), None, "a call of the same code, with other words in its frame");
    assert_eq!(rest(31, 8), None);
    assert_eq!(rest(24, 32), None, "one word is too few to tell");
    std::hint::black_box(&words);
}

#[test]
fn the_vdso_is_read_from_memory() {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    let Some(line) = maps.lines().find(|line| line.ends_with("[vdso]")) else {
        return wants::missing_feature("vdso", "it is not mapped");
    };
    let vdso = map(line);
    let mut unwinder = Unwinder::default();
    unwinder.map(u32::MAX, &vdso);
    let known = (0..vdso.len_bytes).step_by(64).filter(|offset| {
        let stack = UserStack { ip: vdso.begin + offset, ..UserStack::default() };
        unwinder.stack(u32::MAX, &stack).is_some()
    });
    assert!(known.count() > 10);
    let stacks = named(&mut unwinder);
    let clock = stacks
        .frames
        .iter()
        .flat_map(|frame| &frame.names)
        .any(|name| name.function.contains("clock_gettime"));
    assert!(clock, "{stacks:?}");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn a_damaged_file_is_no_panic(changes in prop::collection::vec((0_usize..0x2000, any::<u8>()), 1..40), keep in 0_usize..200_000) {
        let mut bytes = std::fs::read("/bin/true").unwrap();
        for (at, byte) in changes {
            let at = at % bytes.len();
            bytes[at] = byte;
        }
        bytes.truncate(keep);
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("damaged");
        std::fs::write(&file, &bytes).unwrap();
        let mut unwinder = Unwinder::default();
        let name = file.to_str().unwrap().to_owned();
        unwinder.map(9, &Map { begin: 0x1_0000, len_bytes: 1 << 20, prot: 5, name, ..Map::default() });
        let dump: Vec<u8> = (0..64_u64).flat_map(|word| (0x1_0000 + word * 997).to_ne_bytes()).collect();
        for ip in (0x1_0000..0x11_0000).step_by(40_009) {
            unwinder.stack(9, &UserStack { ip, sp: 0x7000, bp: 0x7010, dump: &dump, ..UserStack::default() });
        }
        named(&mut unwinder);
        Elf::of_bytes(&bytes);
    }
}
