//! Each cure fires on its pattern and not on the others.

use super::*;

const MIB: u64 = 1 << 20;

fn host() -> Host {
    Host { page_bytes: 4096, thp_bytes: 2 * MIB, thp: "madvise".into(), ..Host::default() }
}

fn exactly(value: f64) -> Interval {
    Interval { value, low: value, high: value }
}

fn row(faults: f64, kinds: &[(Kind, f64)]) -> SiteRow {
    let price_ns = 1000.0;
    SiteRow {
        label: "site".into(),
        faults: exactly(faults),
        time_ns: exactly(faults * price_ns),
        resident_bytes: faults * 4096.0,
        records: 1000,
        kinds: kinds.iter().map(|(kind, share)| (*kind, share * faults, share * faults * price_ns)).collect(),
        ..SiteRow::default()
    }
}

/// 100 MiB of blocks of this length, each freed at once.
fn lives(median_bytes: u64) -> BlockLives {
    BlockLives {
        blocks: 100 * MIB / median_bytes,
        bytes: 100 * MIB,
        median_bytes,
        median_life_ns: Some(1000),
        peak_bytes: median_bytes,
        live_early: 1,
        live_late: 1,
        first_ns: 0,
        last_ns: 1_000_000_000,
        ..BlockLives::default()
    }
}

/// A site of a run of a second, whose blocks were recorded.
fn seen<'a>(
    row: &'a SiteRow,
    lives: Option<&'a BlockLives>,
    (host, program): (&'a Host, &'a Program),
) -> Pattern<'a> {
    Pattern {
        program,
        asked_for_blocks: true,
        row,
        all: row,
        lives,
        blocks: true,
        host,
        run_ns: (0, 1_000_000_000),
        cpu_ns: 50_000_000,
        knee: None,
        most_avoidable: None,
    }
}

fn find(row: &SiteRow, all: &SiteRow, lives: Option<&BlockLives>, knee: Option<Point>) -> Remedy {
    let (host, program, blocks) = (host(), Program::default(), lives.is_some());
    let pattern = seen(row, lives, (&host, &program));
    remedy(&Pattern { all, blocks, asked_for_blocks: blocks, knee, ..pattern })
}

const PAGES: f64 = 25_600.0;

#[test]
fn blocks_that_come_back_are_for_the_thresholds_or_a_pool() {
    let site = SiteRow { refault: Some(0.9), ..row(PAGES, &[(Kind::MmapFirstWrite, 1.0)]) };
    for (bytes, cure) in [(200 << 10, Cure::Thresholds), (MIB, Cure::Thresholds), (16 * MIB, Cure::Pool)] {
        let found = find(&site, &site, Some(&lives(bytes)), None);
        assert_eq!(found.cure, Some(cure), "{bytes}");
        assert!(
            found.faults.low < 0.9 * PAGES
                && found.faults.high > 0.9 * PAGES
                && found.faults.low > 0.85 * PAGES
        );
        assert!((found.time_ns.value - 0.9 * PAGES * 1000.0).abs() < 1.0);
    }
    let heap = SiteRow { refault: Some(0.9), ..row(PAGES, &[(Kind::HeapFirstWrite, 1.0)]) };
    assert_eq!(find(&heap, &heap, Some(&lives(64 << 10)), None).cure, Some(Cure::Thresholds));
}

/// The cure of a site in a program whose memory comes from there.
fn of_memory(memory: Memory, pattern: Pattern<'_>) -> Remedy {
    remedy(&Pattern { program: &Program { memory }, ..pattern })
}

#[test]
fn the_setting_covers_the_largest_block_and_is_none_of_another_allocators() {
    let site = SiteRow { refault: Some(0.9), ..row(PAGES, &[(Kind::HeapFirstWrite, 1.0)]) };
    let (host, program) = (host(), Program::default());
    let of = |largest_bytes, memory| {
        let lives = BlockLives { largest_bytes, ..lives(MIB) };
        of_memory(memory, seen(&site, Some(&lives), (&host, &program)))
    };
    assert!(of(20 * MIB, Memory::Malloc).how.contains("mmap_threshold=33554432"));
    assert!(of(32 * MIB, Memory::Malloc).how.contains("mmap_max=0"));
    assert_eq!(of(MIB, Memory::Library("jemalloc")).cure, Some(Cure::Pool));
    assert_eq!(of(MIB, Memory::Java).cure, Some(Cure::Thresholds), "native blocks beside the Java heap");
    let unknown = of_memory(Memory::Malloc, seen(&site, None, (&host, &program)));
    assert!(unknown.how.contains("mmap_max=0"), "blocks of several sites: of any length");
}

#[test]
fn small_blocks_on_a_heap_that_is_trimmed_are_for_the_thresholds_and_not_for_run() {
    let site = row(PAGES, &[(Kind::HeapFirstWrite, 1.0)]);
    let (host, program) = (host(), Program::default());
    let knee = Some(Point { keep_bytes: 24 * MIB, low: 0.97, high: 0.97 });
    let of =
        |memory, blocks| of_memory(memory, Pattern { knee, blocks, ..seen(&site, None, (&host, &program)) });
    for blocks in [false, true] {
        let found = of(Memory::Malloc, blocks);
        assert_eq!(found.cure, Some(Cure::Thresholds));
        assert!(found.how.contains("mmap_max=0") && found.why.contains("97 % of all faults"), "{found:?}");
        let found = of(Memory::Library("tcmalloc"), blocks);
        assert!(!found.how.contains("GLIBC") && !found.how.contains("record --alloc"), "{found:?}");
    }
    let small = SiteRow { refault: Some(0.9), ..row(PAGES, &[(Kind::MmapFirstWrite, 1.0)]) };
    let lives = lives(8 << 10);
    let found = remedy(&seen(&small, Some(&lives), (&host, &program)));
    assert!(found.cure == Some(Cure::Pool) && !found.how.contains("run --"), "{found:?}");
}

#[test]
fn nothing_is_printed_that_does_not_reach_the_programs_memory() {
    let hidden = [Memory::Own, Memory::Static, Memory::Go, Memory::Java];
    let (host, program) = (host(), Program::default());
    let knee = Some(Point { keep_bytes: 24 * MIB, low: 0.9, high: 0.95 });
    let first = row(PAGES, &[(Kind::MmapFirstWrite, 1.0)]);
    let again = SiteRow { again: 0.9, ..first.clone() };
    for memory in hidden {
        for (row, knee) in [(&first, None), (&first, knee), (&again, None)] {
            let pattern = seen(row, None, (&host, &program));
            let found =
                of_memory(memory, Pattern { knee, blocks: false, asked_for_blocks: false, ..pattern });
            let said = format!("{} {}", found.why, found.how);
            let reaches = said.contains("GLIBC") || said.contains("run --") || said.contains("alloc shows");
            assert!(!reaches && !said.contains("advise"), "{memory:?}: {said}");
            assert_eq!(said.contains("GODEBUG"), memory == Memory::Go && found.cure.is_some(), "{said}");
        }
    }
    let unknown = Pattern { blocks: false, asked_for_blocks: false, ..seen(&again, None, (&host, &program)) };
    let asked = Pattern { asked_for_blocks: true, ..unknown };
    let [unknown, asked] = [unknown, asked].map(|pattern| remedy(&pattern).how);
    assert!(unknown.contains("record --alloc") && !unknown.contains("GLIBC"), "it may be its own mapping");
    assert!(asked.contains("MADV_FREE") && !asked.contains("record --alloc"), "{asked}");
    assert!(asked.contains("glibc.malloc.trim_threshold"), "malloc trims the arenas of threads so: {asked}");
}

#[test]
fn a_spawn_is_named_only_for_copies_around_one_and_advise_where_it_can_act() {
    let copies = row(PAGES, &[(Kind::CowAfterFork, 1.0)]);
    let spawned = SiteRow { spawned: 0.8, ..copies.clone() };
    let found = [&copies, &spawned].map(|row| find(row, row, None, None));
    assert_eq!(found.each_ref().map(|found| found.why.contains("vfork")), [false, true]);
    assert!(!may_be_cured(&found));
    let first = row(PAGES, &[(Kind::MmapFirstWrite, 1.0)]);
    assert!(may_be_cured(&[find(&copies, &copies, None, None), find(&first, &first, None, None)]));
}

#[test]
fn huge_pages_of_the_java_heap_are_a_cure() {
    let program = Program { memory: Memory::Java };
    let site = row(PAGES, &[(Kind::MmapFirstWrite, 1.0)]);
    for (thp, cure) in [("madvise", Some(Cure::Thp)), ("always", Some(Cure::Thp)), ("never", None)] {
        let host = Host { thp: thp.into(), ..host() };
        let found = remedy(&seen(&site, None, (&host, &program)));
        assert_eq!(found.cure, cure, "{thp}");
        assert_eq!(found.how.contains("-XX:+UseTransparentHugePages"), cure.is_some(), "{found:?}");
        assert_eq!(why_none(&[found], 1000, 1000).is_none(), cure.is_some());
    }
}

#[test]
fn huge_pages_are_named_only_where_a_request_gets_them() {
    let site = SiteRow { refault: Some(0.0), ..row(PAGES, &[(Kind::MmapFirstWrite, 1.0)]) };
    let (program, lives) = (Program::default(), lives(50 * MIB));
    for (thp, cure) in [("madvise", Some(Cure::Thp)), ("always", None), ("never", None)] {
        let host = Host { thp: thp.into(), ..host() };
        assert_eq!(remedy(&seen(&site, Some(&lives), (&host, &program))).cure, cure, "{thp}");
    }
    let host = host();
    let found = of_memory(Memory::Library("jemalloc"), seen(&site, Some(&lives), (&host, &program)));
    assert!(found.how.contains("MADV_HUGEPAGE") && !found.how.contains("GLIBC"), "{found:?}");
}

#[test]
fn without_blocks_the_avoidable_curve_speaks_for_a_pool() {
    let site = row(PAGES, &[(Kind::MmapFirstWrite, 1.0)]);
    let knee = Point { keep_bytes: 24 * MIB, low: 0.9, high: 0.95 };
    let found = find(&site, &site, None, Some(knee));
    assert_eq!(found.cure, Some(Cure::Pool));
    assert!((found.faults.low / PAGES - 0.9).abs() < 1e-9 && (found.faults.high / PAGES - 0.95).abs() < 1e-9);
    let all = row(PAGES * 4.0, &[(Kind::MmapFirstWrite, 1.0)]);
    let found = find(&site, &all, None, Some(knee));
    assert!((found.faults.low / PAGES - 0.6).abs() < 1e-9 && found.faults.high == PAGES, "{found:?}");
    assert_eq!(find(&site, &site, None, Some(Point { low: 0.1, ..knee })).cure, None);
    assert!(found.how.contains("record --alloc"), "{found:?}");
    let (host, program) = (host(), Program::default());
    let pattern = Pattern { knee: Some(knee), ..seen(&site, None, (&host, &program)) };
    assert!(remedy(&pattern).how.contains("does not reach it"), "mapped by the program itself");
    let first = SiteRow { refault: Some(0.0), ..site.clone() };
    assert_eq!(find(&first, &first, None, Some(knee)).cure, None, "its own blocks did not come back");
}

#[test]
fn reads_of_the_zero_page_that_are_written_later() {
    let site = row(PAGES, &[(Kind::ZeroPageRead, 0.5), (Kind::WriteAfterZeroRead, 0.5)]);
    let found = find(&site, &site, None, None);
    assert_eq!(found.cure, Some(Cure::WriteFirst));
    assert!((found.faults.value - PAGES / 2.0).abs() < 1.0);
    let only_read = row(PAGES, &[(Kind::ZeroPageRead, 1.0)]);
    assert_eq!(
        find(&only_read, &only_read, None, None).cure,
        None,
        "nobody writes: one fault each is needed"
    );
}

#[test]
fn no_cure_saves_more_than_the_site_takes() {
    let mut site = row(PAGES, &[(Kind::ZeroPageRead, 0.5), (Kind::WriteAfterZeroRead, 0.5)]);
    site.kinds[0].2 *= 10.0;
    let found = find(&site, &site, None, None);
    assert_eq!(found.cure, Some(Cure::WriteFirst));
    assert_eq!((found.time_ns.value, found.time_ns.high), (site.time_ns.value, site.time_ns.high));
}

#[test]
fn pages_given_back_inside_a_mapping_that_stays() {
    let site = SiteRow { again: 0.8, ..row(PAGES, &[(Kind::MmapFirstWrite, 1.0)]) };
    assert_eq!(find(&site, &site, None, None).cure, Some(Cure::MadvFree));
    let freed = SiteRow { refault: Some(0.9), ..site };
    assert_eq!(find(&freed, &freed, Some(&lives(16 * MIB)), None).cure, Some(Cure::Pool));
}

#[test]
fn blocks_that_pile_up() {
    let site = SiteRow { refault: Some(0.05), ..row(PAGES, &[(Kind::MmapFirstWrite, 1.0)]) };
    let queue = BlockLives { live_early: 4, live_late: 40, peak_bytes: 40 * MIB, ..lives(MIB) };
    let found = find(&site, &site, Some(&queue), None);
    assert_eq!((found.cure, found.faults.low), (Some(Cure::BoundedQueue), 0.0));
    let kept = BlockLives { never_freed: queue.blocks, ..queue };
    assert_ne!(find(&site, &site, Some(&kept), None).cure, Some(Cure::BoundedQueue), "a table, not a queue");
}

#[test]
fn large_blocks_touched_whole_and_once() {
    let site = SiteRow { refault: Some(0.0), ..row(PAGES, &[(Kind::MmapFirstWrite, 1.0)]) };
    let found = find(&site, &site, Some(&lives(50 * MIB)), None);
    assert_eq!(found.cure, Some(Cure::Thp));
    assert!(found.time_ns.low < found.time_ns.value && found.time_ns.value < found.faults.value * 1000.0);
    let sparse = SiteRow { resident_bytes: site.resident_bytes / 10.0, ..site.clone() };
    assert_eq!(find(&sparse, &sparse, Some(&lives(50 * MIB)), None).cure, None);
    let table = BlockLives { never_freed: 100, last_ns: 1000, median_life_ns: None, ..lives(MIB) };
    assert_eq!(find(&site, &site, Some(&table), None).cure, Some(Cure::Prefault));
}

#[test]
fn nothing_is_an_answer() {
    let small = SiteRow { refault: Some(0.9), ..row(100.0, &[(Kind::MmapFirstWrite, 1.0)]) };
    let found = find(&small, &small, Some(&lives(16 * MIB)), None);
    assert!(found.cure.is_none() && found.why == NOT_WORTH, "{found:?}");
    for kind in [Kind::FileRead, Kind::CowAfterFork, Kind::Stack, Kind::MmapFirstWrite] {
        let site = row(PAGES, &[(kind, 1.0)]);
        assert_eq!(find(&site, &site, None, None).cure, None, "{kind:?}");
    }
}

#[test]
fn keeping_saves_no_more_than_the_curve_says() {
    let site = SiteRow { refault: Some(0.9), ..row(PAGES, &[(Kind::MmapFirstWrite, 1.0)]) };
    let (host, lives, program) = (host(), lives(16 * MIB), Program::default());
    let pattern = |most_avoidable| Pattern { most_avoidable, ..seen(&site, Some(&lives), (&host, &program)) };
    assert_eq!(remedy(&pattern(Some(1.0))), remedy(&pattern(None)));
    assert!(remedy(&pattern(Some(0.3))).faults.high <= 0.36 * PAGES);
    let small = Pattern { cpu_ns: 100_000_000, ..pattern(Some(0.001)) };
    assert_eq!(remedy(&small).cure, None, "the curve knows of nothing to keep");
}

#[test]
fn a_headline_has_the_reason_that_no_site_has_a_cure() {
    let small = SiteRow { refault: Some(0.9), ..row(10.0, &[(Kind::MmapFirstWrite, 1.0)]) };
    let file = row(PAGES, &[(Kind::FileRead, 1.0)]);
    let large = SiteRow { refault: Some(0.9), ..row(PAGES, &[(Kind::MmapFirstWrite, 1.0)]) };
    let lives = lives(16 * MIB);
    let of = |row: &SiteRow| find(row, &large, Some(&lives), None);
    let why_none = |remedies: &[Remedy]| super::why_none(remedies, 200, 20_000);
    assert_eq!(
        why_none(&[of(&small), of(&small)]).unwrap(),
        "a cure of each would save less than 2.0 % of the CPU time"
    );
    assert_eq!(
        why_none(&[of(&file), of(&small)]).unwrap(),
        "pages of files or of shared memory, mapped at their first use (the largest site)"
    );
    assert!(why_none(&[]).unwrap().starts_with("each makes less than 5"));
    assert_eq!(why_none(&[of(&file), of(&large)]), None);
    let few = |records, faults| super::why_none(&[of(&small)], records, faults).unwrap();
    assert_eq!(few(107, 319_639), "107 of 319 639 faults were recorded, too few to judge one");
    assert!(few(107, 107).starts_with("a cure of each"), "all were recorded");
}
