mod memory;
mod waits;

use super::*;
use crate::observation::{Call, Map, Record, What, Window};
use crate::program::has_no_huge_pages;
use crate::recording::{Frame, Module, Name};

const PAGE: u64 = 4096;
const HEAP: u64 = 0x10_0000;

/// A recording of one process whose faults and calls happen in this order, a microsecond apart. Stack 0 is `fill` in the
/// program, stack 1 `brk` called by `free` called by `send` in the program.
fn recording(events: impl IntoIterator<Item = What>) -> Recording {
    let mut recording = Recording::default();
    let module = |path: &str| Module { path: path.to_owned(), ..Module::default() };
    recording.stacks.modules = vec![module("/bin/x"), module("/lib/libc.so.6")];
    let frame = |of, function: &str| Frame {
        module: Some(of),
        names: vec![Name { function: function.to_owned(), ..Name::default() }],
        ..Frame::default()
    };
    recording.stacks.frames =
        vec![frame(0, "fill"), frame(1, "brk"), frame(1, "__libc_free"), frame(0, "send")];
    recording.stacks.stacks = vec![vec![0], vec![1, 2, 3]];
    let host = &mut recording.observation.host;
    (host.page_bytes, host.thp_bytes) = (PAGE, 2 << 20);
    let heap =
        Map { begin: HEAP, len_bytes: 1 << 20, prot: 3, flags: 0x22, name: "[heap]".into(), file_offset: 0 };
    let mut records = vec![What::Exec, What::Map(heap)];
    records.extend(events);
    let at = |(time_ns, what)| Record { time_ns, pid: 1, tid: 1, what };
    recording.observation.records = (0..).step_by(1000).zip(records).map(at).collect();
    let end_ns = recording.observation.records.len() as u64 * 1000;
    let faults =
        recording.observation.records.iter().filter(|record| matches!(record.what, What::End { .. })).count()
            as u64;
    recording.observation.windows = vec![Window { begin_ns: 0, end_ns, faults, recorded: true, lost: 0 }];
    recording.observation.counts.user_faults = Some(faults);
    recording.observation.usage.minor_faults = faults;
    (recording.observation.usage.wall_ns, recording.observation.usage.user_ns) = (end_ns, end_ns);
    recording
}

/// The first mechanism of a recording.
fn first_of(recording: Recording) -> Mechanism {
    let findings = crate::findings::Findings::new(&recording, &Default::default()).unwrap();
    findings.mechanisms.into_iter().next().unwrap_or_default()
}

fn touch(page: u64) -> [What; 2] {
    let addr = HEAP + page * PAGE;
    let mapped_bytes = Some(0);
    [
        What::Enter {
            addr,
            ip: 1,
            kernel: false,
            access: Some(crate::observation::Access::Write),
            mapped_bytes,
        },
        What::End { addr, major: false, stack: Some(0), mapped_bytes: Some(PAGE) },
    ]
}

fn brk(pages: u64) -> What {
    let top = HEAP + pages * PAGE;
    What::Call {
        call: Call::Brk,
        args: [top, 0, 0, 0],
        result: Some(top as i64),
        ns: Some(300),
        off_ns: 100,
        stack: Some(1),
    }
}

fn given(recording: &Recording) -> (Profile, Given) {
    let profile = Profile::new(recording);
    let naming = crate::sites::Naming::new(recording, &profile);
    let given = Given::new(recording, &profile, &naming);
    (profile, given)
}

fn found(recording: &Recording) -> Vec<Mechanism> {
    crate::findings::Findings::new(recording, &Default::default()).unwrap().mechanisms
}

#[test]
fn a_page_that_the_heaps_top_gave_back_is_taken_again() {
    let round = || (0..4).flat_map(touch).chain([brk(0), brk(4)]);
    let recording = recording([brk(4)].into_iter().chain(round()).chain(round()));
    let (profile, given) = given(&recording);
    let [giver] = given.givers.as_slice() else { panic!("{:?}", given.givers) };
    assert_eq!((giver.call, giver.owner, giver.site.as_str()), (Call::Brk, owner::Owner::Malloc, "send"));
    assert_eq!((giver.calls, giver.ns, giver.bytes), (2, 400, 8.0 * PAGE as f64));
    assert_eq!((giver.resident_bytes, giver.kept_bytes), (8.0 * PAGE as f64, 4.0 * PAGE as f64));
    let taken: Vec<bool> = given.causes.iter().map(Option::is_some).collect();
    assert_eq!(taken, [false, false, false, false, true, true, true, true]);
    assert_eq!(profile.faults.len(), 8);
}

#[test]
fn memory_that_nobody_touched_is_not_given_back() {
    let recording = recording([brk(8)].into_iter().chain(touch(0)).chain([brk(4), brk(8)]).chain(touch(5)));
    let (_, given) = given(&recording);
    assert_eq!((given.givers[0].calls, given.givers[0].resident_bytes), (1, 0.0));
    assert_eq!(given.causes, [None, Some(0)], "its range was given back all the same");
}

#[test]
fn a_block_that_comes_back_elsewhere_takes_what_was_given_back_last() {
    let unmap = What::Call {
        call: Call::Munmap,
        args: [HEAP, 2 * PAGE, 0, 0],
        result: Some(0),
        ns: None,
        off_ns: 0,
        stack: Some(1),
    };
    let events = (0..2).flat_map(touch).chain([unmap]).chain((8..11).flat_map(touch));
    let (_, given) = given(&recording(events));
    assert_eq!(given.causes, [None, None, Some(0), Some(0), None]);
}

#[test]
fn a_call_that_failed_gives_nothing_back() {
    let failed = What::Call {
        call: Call::Munmap,
        args: [HEAP, 2 * PAGE, 0, 0],
        result: Some(-22),
        ns: None,
        off_ns: 0,
        stack: Some(1),
    };
    let (_, given) = given(&recording(touch(0).into_iter().chain([failed]).chain(touch(1))));
    assert!(given.givers.is_empty() && given.is_known);
}

#[test]
fn a_trimmed_heap_is_named_with_who_takes_and_who_gives() {
    let round = || (0..4).flat_map(touch).chain([brk(0), brk(4)]);
    let recording = recording([brk(4)].into_iter().chain((0..20).flat_map(|_| round())));
    let findings = crate::findings::Findings::new(&recording, &Default::default()).unwrap();
    let first = &findings.mechanisms[0];
    assert_eq!((first.id.as_str(), first.calls), ("heap_top_trimmed", 20), "{:?}", findings.mechanisms);
    assert_eq!(first.taken_in, ["fill"]);
    assert_eq!(first.caller.as_deref(), Some("brk <- free <- send"));
    assert!(first.cures[0].how.contains("trim_threshold") && first.when.is_none(), "{first:?}");
    assert_eq!(findings.giving_ns, Some(20.0 * 200.0));
    // All is given back each time, and taken again each time but the first.
    let (given, taken) = (findings.given_bytes_per_s.unwrap(), findings.taken_bytes_per_s.unwrap());
    assert!(given > 0.0 && (taken / given - 0.95).abs() < 1e-9, "{taken} of {given} bytes/s");
}

#[test]
fn the_page_of_mechanisms_is_made_of_their_files() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../MECHANISMS.md");
    if std::env::var_os("FAULTLESS_WRITE_DOCS").is_some() {
        std::fs::write(path, documentation()).unwrap();
    }
    let page = std::fs::read_to_string(path).unwrap();
    assert_eq!(page, documentation(), "FAULTLESS_WRITE_DOCS=1 cargo test -p faultless-trace writes it anew");
    let mut ids: Vec<&str> = RULES.iter().chain([&fresh::RULE]).map(|rule| rule.id).collect();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), RULES.len() + 1, "each has a name of its own");
}

/// The first mechanism of a recording without calls, with what keeping memory avoids by the readings.
fn without_calls(recording: &Recording, knee: Option<Point>) -> Mechanism {
    let profile = Profile::new(recording);
    let grouping = Grouping::new(recording, &profile);
    let run_ns = (0, recording.observation.usage.wall_ns);
    let run = Run {
        run_ns,
        cpu_ns: run_ns.1 as f64,
        lost: false,
        knee,
        most_avoidable: None,
        memory: Memory::Malloc,
        no_huge_pages: has_no_huge_pages(&recording.observation),
    };
    let (found, giving) = mechanisms(recording, &profile, &grouping, run);
    assert_eq!(giving, None);
    found.into_iter().next().expect("a mechanism")
}

#[test]
fn without_calls_memory_that_comes_back_is_found_by_its_faults_its_blocks_or_the_readings() {
    let again = without_calls(&recording((0..9).flat_map(|_| (0..4).flat_map(touch))), None);
    assert_eq!((again.id.as_str(), again.faults.value.round()), ("taken_again", 32.0), "{again:?}");
    assert!(again.cures[0].how.starts_with("GLIBC_TUNABLES="), "{again:?}");

    let round = |page: u64| {
        let addr = HEAP + page * PAGE;
        let born = What::Alloc { addr, len_bytes: 4 * PAGE, stack: Some(1) };
        std::iter::once(born).chain((page..page + 4).flat_map(touch)).chain([What::Free { addr }])
    };
    let blocks = without_calls(&recording((0..9).flat_map(|block| round(4 * block))), None);
    assert_eq!((blocks.id.as_str(), blocks.faults.value.round()), ("taken_again", 32.0), "{blocks:?}");

    let fresh = recording((0..40).flat_map(touch));
    let knee = Point { keep_bytes: 8 * PAGE, low: 0.8, high: 0.9 };
    let curve = without_calls(&fresh, Some(knee));
    let [cure, _] = curve.cures.as_slice() else { panic!("{curve:?}") };
    assert_eq!((curve.id.as_str(), cure.keeps_bytes), ("taken_again", Some(8.0 * PAGE as f64)));
    // The program itself may give it back, which malloc's settings don't change.
    assert!((cure.saves_ns.value / curve.fault_ns.value - 0.45).abs() < 0.01, "{cure:?}");
    assert_eq!(cure.saves_ns.low, 0.0, "{cure:?}");
    let unknown = without_calls(&fresh, None);
    assert!(unknown.id == "first_touch" && unknown.what.contains("was not recorded"), "{unknown:?}");
}

#[test]
fn blocks_that_pile_up_and_are_freed_in_the_end_wait_in_a_queue() {
    let addr = |block: u64| HEAP + block * (2 << 20);
    let born = |block| What::Alloc { addr: addr(block), len_bytes: 2 << 20, stack: Some(1) };
    let made = (0..60).flat_map(|block| std::iter::once(born(block)).chain(touch(512 * block)));
    let queue =
        without_calls(&recording(made.chain((0..60).map(|block| What::Free { addr: addr(block) }))), None);
    assert_eq!((queue.id.as_str(), queue.faults.value.round()), ("growing_queue", 60.0), "{queue:?}");
    assert!(queue.cures[0].how.contains("bound the queue"), "{queue:?}");
}

#[test]
fn memory_that_fills_huge_pages_is_for_huge_pages() {
    let with = |thp: &str, step: u64, first: Option<What>| {
        let map = Map {
            begin: 2 << 20,
            len_bytes: 8 << 20,
            prot: 3,
            flags: 0x22,
            name: "//anon".into(),
            file_offset: 0,
        };
        let touches = (256..256 + 1024 * step).step_by(step as usize).flat_map(touch);
        let mut recording = recording(std::iter::once(What::Map(map)).chain(first).chain(touches));
        recording.observation.host.thp = thp.to_owned();
        without_calls(&recording, None)
    };
    let of = |thp, step| with(thp, step, None);
    let dense = of("madvise", 1);
    assert!(dense.id == "first_touch" && dense.cures[0].how.starts_with("huge pages"), "{dense:?}");
    assert!(of("never", 1).cures.is_empty() && of("madvise", 2).cures.is_empty());
    let off = with("madvise", 1, Some(What::NoHugePages));
    assert!(off.cures.is_empty() && off.what.contains("has switched huge pages off"), "{off:?}");
}

#[test]
fn the_calls_of_a_giver_are_counted_once() {
    let round = || (0..4).flat_map(touch).chain([brk(0), brk(4)]);
    let recording = recording([brk(4)].into_iter().chain((0..20).flat_map(|_| round())));
    let profile = Profile::new(&recording);
    let grouping = Grouping::new(&recording, &profile);
    let given = Given::new(&recording, &profile, grouping.naming());
    let run = Run {
        run_ns: (0, 1_000_000),
        cpu_ns: 1e6,
        lost: false,
        knee: None,
        most_avoidable: None,
        memory: Memory::Malloc,
        no_huge_pages: has_no_huge_pages(&recording.observation),
    };
    let naming = grouping.naming();
    let scene = Scene { recording: &recording, profile: &profile, naming, grouping: &grouping, given, run };
    let mut counted = vec![false; scene.given.givers.len()];
    let half = |first: bool| Claim {
        faults: Faults::These((0..80).map(|index| (index < 40) == first).collect()),
        givers: vec![0],
        ..Claim::default()
    };
    let found = [true, false].map(|first| {
        let of: Vec<bool> = (0..80).map(|index| (index < 40) == first).collect();
        mechanism(&scene, &heap_top::RULE, half(first), &of, &mut counted).unwrap()
    });
    assert_eq!(found.map(|found| (found.calls, found.call_ns)), [(20, Some(4_000.0)), (0, None)]);
}
