//! Mechanisms of who owns the memory, on recordings of one process.

use super::*;

const NONE: u64 = 0;
const READ_WRITE: u64 = 3;
const PRIVATE: u64 = 0x22;
const POPULATE: u64 = 0x8022;
const MIB: u64 = 1 << 20;
/// A place for mappings.
const AT: u64 = 0x7000_0000;

/// A call by `brk <- free <- send`, whatever it is.
fn call(call: Call, args: [u64; 4], result: u64) -> What {
    What::Call { call, args, result: Some(result as i64), ns: Some(300), off_ns: 0, stack: Some(1) }
}

fn mmap(at: u64, len: u64, prot: u64, flags: u64) -> What {
    call(Call::Mmap, [0, len, prot, flags], at)
}

fn munmap(at: u64, len: u64) -> What {
    call(Call::Munmap, [at, len, 0, 0], 0)
}

/// Faults of `fill` on pages of a mapping.
fn touches(at: u64, pages: std::ops::Range<u64>) -> impl Iterator<Item = What> {
    pages.flat_map(move |page| touch((at - HEAP) / PAGE + page))
}

/// The first mechanism, where such mappings are known.
fn first(events: Vec<What>) -> Mechanism {
    first_of(recording(mapped(events)))
}

fn mapped(events: Vec<What>) -> impl Iterator<Item = What> {
    let map = |begin, len_bytes| {
        What::Map(Map { begin, len_bytes, prot: 3, flags: 0x22, name: "//anon".into(), file_offset: 0 })
    };
    std::iter::once(map(AT, 1 << 30)).chain(events)
}

#[test]
fn a_populate_before_the_memory_may_be_accessed_is_told_apart() {
    let events = |prot, back: bool| {
        let mut events = vec![mmap(AT, MIB, prot, POPULATE)];
        events.extend(back.then(|| call(Call::Madvise, [AT, MIB, 4, 0], 0)));
        events.push(call(Call::Mprotect, [AT, MIB, READ_WRITE, 0], 0));
        events.extend(touches(AT, 0..64));
        events
    };
    let what = |prot, back| {
        let first = first(events(prot, back));
        (first.id, first.faults.value.round() as u64, first.what)
    };
    for (prot, back, part) in
        [(NONE, false, "PROT_NONE"), (1, false, "zero page"), (READ_WRITE, true, "given back")]
    {
        let (id, faults, what) = what(prot, back);
        assert!(id == "populate" && faults == 64 && what.contains(part), "{id} {faults} {what}");
    }
}

#[test]
fn populated_pages_are_in_a_row_though_they_never_fault() {
    let round = || [mmap(AT, MIB, READ_WRITE, POPULATE), munmap(AT, MIB)];
    let first = first((0..20).flat_map(|_| round()).collect());
    assert_eq!((first.id.as_str(), first.calls, first.faults.value), ("populate", 20, 0.0), "{first:?}");
    assert!(first.what.contains("20 MiB") && first.cures[0].how.contains("keep"), "{first:?}");
}

#[test]
fn a_buffer_that_doubles_grows_by_copies() {
    let mut events = Vec::new();
    for step in 0..6 {
        let (at, len) = (AT + (step << 24), (64 * PAGE) << step);
        events.push(mmap(at, len, READ_WRITE, PRIVATE));
        events.extend(touches(at, 0..16 << step));
        events.extend((step > 0).then(|| munmap(AT + ((step - 1) << 24), len / 2)));
    }
    let first = first(events);
    assert_eq!(first.id, "growth_by_copy", "{first:?}");
    assert!(first.cures.iter().any(|cure| cure.how.contains("reserve")));
}

#[test]
fn an_advice_on_the_heap_is_named_with_who_gave_it() {
    const THP: u64 = 2 << 20;
    let huge = |at| match touches(at, 0..1).collect::<Vec<_>>().as_slice() {
        [enter, What::End { addr, major, stack, .. }] => {
            [enter.clone(), What::End { addr: *addr, major: *major, stack: *stack, mapped_bytes: Some(THP) }]
        }
        _ => unreachable!(),
    };
    let faults = |top: fn(u64) -> What| {
        let mut events = vec![top(AT), top(AT + 64 * THP), call(Call::Madvise, [AT, 64 * THP, 14, 0], 0)];
        events.extend((0..16).flat_map(|page| huge(AT + page * THP)));
        let mut recording = recording(mapped(events));
        recording.observation.counts.huge_ns = Some(1000);
        first_of(recording)
    };
    let heap = |top| call(Call::Brk, [top, 0, 0, 0], top);
    let found = faults(heap);
    assert_eq!(
        (found.id.as_str(), found.faults.value.round()),
        ("huge_page_flag_outlives_block", 16.0),
        "{found:?}"
    );
    assert!(found.caller.unwrap().contains("send") && found.cures[0].how.contains("MADV_NOHUGEPAGE"));
    let own = faults(|at| mmap(at, 64 * THP, READ_WRITE, PRIVATE));
    assert_ne!(own.id, "huge_page_flag_outlives_block", "a mapping of its own takes the mark along");
}

#[test]
fn malloc_learns_from_the_first_block_that_it_unmaps() {
    let mut events = vec![mmap(AT, MIB, READ_WRITE, PRIVATE)];
    events.extend(touches(AT, 0..200));
    events.extend([munmap(AT, MIB), call(Call::Brk, [HEAP, 0, 0, 0], HEAP)]);
    events.push(call(Call::Brk, [HEAP + MIB, 0, 0, 0], HEAP + MIB));
    events.extend((0..200).flat_map(touch));
    events.extend((0..3000).map(|_| call(Call::Mprotect, [0; 4], 0)));
    let found = first(events);
    let said = format!("{found:?}");
    assert!(found.id == "threshold_learned" && found.when.is_some(), "{said}");
    assert!(found.cures[0].how.contains("trim_threshold"), "{said}");
}

#[test]
fn what_only_starts_has_nothing_to_cure() {
    let mut events: Vec<What> = (0..200).flat_map(touch).collect();
    events.push(call(Call::Mprotect, [0; 4], 0));
    let steady = first(events.clone());
    events.extend((0..3000).map(|_| call(Call::Mprotect, [0; 4], 0)));
    let start = first(events);
    assert_eq!((steady.id.as_str(), start.id.as_str()), ("first_touch", "first_touch"));
    assert!(start.what.contains("nothing to cure") && !steady.what.contains("nothing"), "{}", start.what);
}

#[test]
fn a_rate_that_rises_or_falls_is_told_with_both_rates() {
    let when = |quarters: [u64; 4]| {
        let quarter = |(number, faults): (u64, u64)| {
            let touched: Vec<What> = (0..faults).flat_map(move |page| touch(number * 2_000 + page)).collect();
            let rest = (touched.len()..8_000).map(|_| call(Call::Mprotect, [0; 4], 0)).collect();
            [touched, rest].concat()
        };
        let found = first((0..).zip(quarters).flat_map(quarter).collect());
        assert!(found.id == "first_touch" && !found.ends_early, "{found:?}");
        found.when
    };
    assert!(when([900, 400, 700, 1_200]).unwrap().contains("rate rises: "));
    assert!(when([900, 1_200, 700, 400]).unwrap().contains("rate falls: "));
    for level in [[900; 4], [1_300, 700, 500, 600], [100, 100, 200, 300]] {
        assert_eq!(when(level), None, "{level:?}");
    }
}

#[test]
fn blocks_beyond_jemallocs_classes_are_purged_at_once() {
    let purges = |len: u64| {
        let round = move |_| {
            let mut round = vec![mmap(AT, len, READ_WRITE, PRIVATE)];
            round.extend(touches(AT, 0..32));
            round.push(call(Call::Madvise, [AT, len, 4, 0], 0));
            round
        };
        let mut recording = recording(mapped((0..8).flat_map(round).collect()));
        recording.stacks.modules[1].path = "/opt/libjemalloc.so.2".into();
        recording
    };
    let large = first_of(purges(16 * MIB));
    assert!(
        large.id == "oversize_blocks" && large.cures[0].how.contains("oversize_threshold:0"),
        "{large:?}"
    );
    assert_eq!(first_of(purges(MIB)).id, "allocator_purge");
    let mut inside = purges(MIB);
    inside.stacks.modules[1].path = "/site-packages/duckdb.so".into();
    inside.stacks.frames[1].names[0].function = "duckdb_je_extent_dalloc_wrapper".into();
    assert_eq!(first_of(inside).id, "allocator_purge");
    let mut prefixed = purges(MIB);
    let mark = crate::recording::Mark {
        file: "/opt/libjemalloc.so.2".into(),
        name: "jemalloc".into(),
        variable: Some("JE_MALLOC_CONF".into()),
        version: None,
    };
    prefixed.footer = Some(crate::recording::Footer { marks: vec![mark], ..Default::default() });
    let variable = first_of(prefixed).cures[0].variable.clone().unwrap();
    assert_eq!(variable.0, "JE_MALLOC_CONF");
}

#[test]
fn blocks_of_numpy_and_of_node_are_told_from_others() {
    let blocks = |file: &str, function: &str| {
        let round = |_| {
            let mut round = vec![mmap(AT, MIB, READ_WRITE, PRIVATE)];
            round.extend(touches(AT, 0..32));
            round.push(munmap(AT, MIB));
            round
        };
        let mut recording = recording(mapped((0..20).flat_map(round).collect()));
        recording.stacks.modules.push(Module { path: file.to_owned(), ..Module::default() });
        recording.stacks.frames[3].module = Some(2);
        recording.stacks.frames[3].names[0].function = function.to_owned();
        first_of(recording).id
    };
    assert_eq!(blocks("/numpy/_core/_multiarray_umath.so", "x"), "numpy_temporaries");
    assert_eq!(blocks("/usr/bin/node", "v8::internal::BackingStore::~BackingStore()"), "v8_buffers");
    assert_eq!(blocks("/bin/x", "x"), "block_above_mmap_threshold");
}

#[test]
fn memory_that_a_mapping_hides_is_given_back_by_that_mapping_and_not_by_the_one_that_commits_again() {
    const OVER: u64 = 0x32;
    let over = |prot| call(Call::Mmap, [AT, MIB, prot, OVER], AT);
    let mut events = vec![over(READ_WRITE)];
    for _ in 0..4 {
        events.extend(touches(AT, 0..64));
        events.extend([over(NONE), over(READ_WRITE)]);
    }
    let (_, given) = given(&recording(mapped(events)));
    let [giver] = &given.givers[..] else { panic!("{:?}", given.givers) };
    assert_eq!((giver.calls, giver.resident_bytes), (4, (4 * 64 * PAGE) as f64));
    assert_eq!(given.causes.iter().flatten().count(), 3 * 64, "all but the first touches");
}

#[test]
fn the_java_heap_is_known_by_who_mapped_it() {
    let mut events = vec![mmap(AT, 64 * MIB, READ_WRITE, PRIVATE)];
    events.extend(touches(AT, 0..200));
    events.push(call(Call::Mprotect, [0; 4], 0));
    let mut recording = recording(mapped(events));
    recording.stacks.modules.push(Module { path: "/jdk/lib/server/libjvm.so".into(), ..Module::default() });
    recording.stacks.stacks[1] = vec![1, 3];
    recording.stacks.frames[3].module = Some(2);
    recording.observation.host.thp = "madvise".into();
    let found = first_of(recording);
    assert_eq!(found.id, "java_heap_growth", "{found:?}");
    assert!(
        found.cures[0].how.contains("UseTransparentHugePages")
            && found.cures[1].how.contains("AlwaysPreTouch")
    );
}

#[test]
fn the_counter_tells_an_early_end_where_records_were_lost() {
    let mut recording = recording((0..200).flat_map(touch).chain([call(Call::Mprotect, [0; 4], 0)]));
    recording.losses.push(crate::recording::Loss { cpu: Some(0), begin_ns: 1, end_ns: 2, lost: 50 });
    let level = |time_ns, faults| crate::observation::Level { time_ns, faults, anon_bytes: 0 };
    recording.observation.levels = vec![level(1000, 100), level(20_000, 245), level(400_000, 250)];
    let early = first_of(recording.clone());
    assert!(
        early.what.contains("nothing to cure") && early.when.unwrap().contains("98 % of all faults before"),
        "{}",
        early.what
    );
    recording.observation.levels[1].faults = 200;
    assert_eq!(first_of(recording).when, None);
}

#[test]
fn a_file_or_shared_memory_that_is_mapped_anew_each_time_is_told_from_one_that_is_kept() {
    let found = |name: &str, prot: u32, rounds: u64| {
        let own = |call, args, result| What::Call {
            call,
            args,
            result: Some(result),
            ns: Some(300),
            off_ns: 0,
            stack: Some(0),
        };
        let map = Map { begin: AT, len_bytes: MIB, prot, flags: 1, name: name.to_owned(), file_offset: 0 };
        let round = move |_| {
            let mut round =
                vec![own(Call::Mmap, [0, MIB, u64::from(prot), 1], AT as i64), What::Map(map.clone())];
            round.extend(touches(AT, 0..64));
            round.push(own(Call::Munmap, [AT, MIB, 0, 0], 0));
            round
        };
        let found = first((0..rounds).flat_map(round).collect());
        (found.id, found.what.split(" is ").next().unwrap_or_default().to_owned(), found.calls)
    };
    let remapped = |what: &str, calls| ("file_remapped".to_owned(), what.to_owned(), calls);
    assert_eq!(found("/memfd:m", 3, 8), remapped("shared memory", 8));
    assert_eq!(found("/data/x", 1, 8), remapped("a file", 8));
    assert_eq!(found("/memfd:m", 3, 2).0, "file_pages");
}

#[test]
fn fresh_memory_that_the_program_maps_is_told_from_mallocs() {
    let found = |stack| {
        let mmap = What::Call {
            call: Call::Mmap,
            args: [0, 8 * MIB, READ_WRITE, PRIVATE],
            result: Some(AT as i64),
            ns: Some(300),
            off_ns: 0,
            stack: Some(stack),
        };
        first([mmap].into_iter().chain(touches(AT, 0..900)).collect()).id
    };
    assert_eq!((found(0).as_str(), found(1).as_str()), ("first_touch_of_mappings", "first_touch"));
}
