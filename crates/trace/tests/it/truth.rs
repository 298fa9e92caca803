//! Programs whose faults are known exactly: the answer must be right, and must admit unknown parts.

use faultless_trace::Stat;
use faultless_trace::observation::{Access, Level, What};
use faultless_trace::stat::{Kind, KindRow, Serialisation, Source};

use super::scenario::{self, ANON, MIB, PAGE, Script};

fn row(stat: &Stat, kind: Kind) -> Option<&KindRow> {
    stat.rows.iter().find(|r| r.kind == kind)
}

fn assert_adds_up(stat: &Stat) {
    let sum: u64 = stat.rows.iter().map(|r| r.faults).sum();
    let beyond = stat.beyond_wait4.map_or(0, |beyond| beyond.faults);
    assert_eq!(sum, stat.usage.minor_faults + stat.usage.major_faults + beyond, "{:#?}", stat.rows);
}

fn near(value: f64, truth: f64, part: f64) -> bool {
    (value - truth).abs() <= part * truth
}

#[test]
fn a_touch_loop_is_one_row_with_the_true_price() {
    let stat = Stat::from_observation(&scenario::touch_loop());
    assert_adds_up(&stat);
    assert_eq!((stat.rows.len(), stat.rows[0].kind, stat.rows[0].faults), (1, Kind::MmapFirstWrite, 16384));
    assert_eq!((stat.rows[0].source, stat.rows[0].interval), (Source::Counted, None));
    let time = stat.time.unwrap();
    // 1400 ns + 0..180 read, 300 subtracted.
    assert!(near(time.p50_ns, 1190.0, 0.01) && near(time.raw_p50_ns, 1490.0, 0.01), "{time:?}");
    assert!(near(time.seconds.value, 16384.0 * 1190e-9, 0.01), "{time:?}");
    assert!(near(time.us_per_mib.unwrap(), 256.0 * 1.19, 0.01), "{time:?}");
    assert!(time.p50_ns <= time.p90_ns && time.p90_ns <= time.p99_ns);
    // Faults near a counter reading may include an interrupt and are left out.
    assert!((14_000..16_384).contains(&time.timed), "{}", time.timed);
    assert!(
        matches!(stat.serialisation, Serialisation::CannotSay { ref why } if why == "only one thread faulted")
    );
    let curve = stat.avoidable.unwrap();
    assert!(curve.knee.is_none() && curve.points.iter().all(|p| p.high < 0.01), "{curve:?}");
}

#[test]
fn bursts_recorded_for_a_twentieth_of_the_time_give_the_whole() {
    let stat = Stat::from_observation(&scenario::bursts());
    assert_adds_up(&stat);
    assert_eq!(
        row(&stat, Kind::MmapFirstWrite).map(|r| (r.faults, r.source)),
        Some((8 * 16384, Source::Sampled))
    );
    assert_eq!(
        row(&stat, Kind::KernelOrPopulate).map(|r| (r.faults, r.source)),
        Some((100, Source::Remainder))
    );
    let time = stat.time.unwrap();
    assert!(near(time.seconds.value, (8.0 * 16384.0 + 100.0) * 1190e-9, 0.02), "{time:?}");
    assert!(time.seconds.low <= time.seconds.value && time.seconds.value <= time.seconds.high);
    assert!(time.timed < 8 * 16384 / 10, "a sample only: {}", time.timed);
    let knee = stat.avoidable.unwrap().knee.unwrap();
    assert!(near(knee.low, 0.875, 0.03) && near(knee.high, 0.875, 0.03), "{knee:?}");
    assert!((60..=64).contains(&(knee.keep_bytes >> 20)), "{knee:?}");
}

#[test]
fn both_sides_of_a_fork_pay_for_the_copies() {
    let stat = Stat::from_observation(&scenario::fork());
    assert_adds_up(&stat);
    assert_eq!(row(&stat, Kind::CowAfterFork).map(|r| (r.faults, r.source)), Some((4096, Source::Inferred)));
    assert_eq!(row(&stat, Kind::HeapFirstWrite).map(|r| r.faults), Some(2148));
}

#[test]
fn a_start_that_maps_files_does_not_speak_for_what_comes_later() {
    for on_ns in [1_200_000, 4_000_000] {
        for files in [300, 5000] {
            let mut s = Script::new("start", on_ns, 40_000_000);
            s.program(1);
            s.map(1, 0x7e00_0000_0000, 64 * MIB, 5, "/usr/lib/libbig.so");
            for page in 0..files {
                s.fault(1, 0x7e00_0000_0000 + page * PAGE, Access::Read);
            }
            s.map(1, ANON, 512 * MIB, 3, "//anon");
            s.touch(1, ANON, 100_000);
            let stat = Stat::from_observation(&s.finish(0));
            for (kind, truth) in [(Kind::FileRead, files), (Kind::MmapFirstWrite, 100_000)] {
                let row = row(&stat, kind).unwrap();
                let (low, high) = row.interval.unwrap();
                assert!((low..=high).contains(&truth), "{on_ns} {files}: {truth} is not in {row:?}");
            }
        }
    }
}

#[test]
fn what_a_program_held_when_it_replaced_itself_could_not_have_been_kept() {
    let mut s = Script::new("exec", 1 << 40, 1 << 41);
    for _ in 0..5 {
        s.push(1, 1, What::Exec);
        s.program(1);
        s.map(1, ANON, 64 * MIB, 3, "//anon");
        s.touch(1, ANON, 4000);
    }
    let curve = Stat::from_observation(&s.finish(0)).avoidable.unwrap();
    assert!(curve.points.iter().all(|p| p.low == 0.0 && p.high < 0.05), "{curve:?}");
}

/// 64 MiB touched, then faulted once more without a page being taken: by a forked parent, or as reads of the zero page before.
fn faults_twice(on_ns: u64, forks: bool) -> Stat {
    let mut s = Script::new("twice", on_ns, 40_000_000);
    s.program(1);
    s.map(1, ANON, 64 * MIB, 3, "//anon");
    if forks {
        s.touch(1, ANON, 16384);
        s.push(2, 2, What::Fork { parent: 1 });
    }
    (0..16384)
        .for_each(|page| s.fault(1, ANON + page * PAGE, if forks { Access::Write } else { Access::Read }));
    if !forks {
        s.touch(1, ANON, 16384);
    }
    Stat::from_observation(&s.finish(0))
}

#[test]
fn copies_after_a_fork_and_zero_page_reads_are_not_avoidable_however_little_is_recorded() {
    for on_ns in [1_000_000, 4_000_000, 40_000_000] {
        for forks in [true, false] {
            let stat = faults_twice(on_ns, forks);
            let plateau = *stat.avoidable.as_ref().unwrap().points.last().unwrap();
            assert!(plateau.low < 0.01, "{on_ns} {forks}: {plateau:?} {:#?}", stat.rows);
        }
    }
    let all = faults_twice(40_000_000, true).avoidable.unwrap();
    assert!(all.points.iter().all(|p| p.high < 0.01), "with all recorded there is no doubt: {all:?}");
}

#[test]
fn lost_records_change_neither_counts_nor_price() {
    let (lost, whole) =
        (Stat::from_observation(&scenario::lost()), Stat::from_observation(&scenario::bursts()));
    assert_adds_up(&lost);
    assert_eq!(
        row(&lost, Kind::MmapFirstWrite).unwrap().faults,
        row(&whole, Kind::MmapFirstWrite).unwrap().faults
    );
    let (a, b) = (lost.time.unwrap(), whole.time.unwrap());
    assert!(near(a.seconds.value, b.seconds.value, 0.01) && a.timed < b.timed, "{a:?} {b:?}");
    assert!(lost.notes.iter().any(|n| n.contains("rings lost")), "{:?}", lost.notes);
}

#[test]
fn without_events_the_price_of_the_calibration_is_used_and_named() {
    let stat = Stat::from_observation(&scenario::denied(true));
    assert_adds_up(&stat);
    assert_eq!(stat.rows[0].kind, Kind::Unknown);
    let time = stat.time.unwrap();
    assert_eq!((time.source, time.timed), (Source::Calibrated, 0));
    assert!(near(time.seconds.value, (8.0 * 16384.0 + 100.0) * 1.5 * 1190e-9, 0.01));
    assert!(time.seconds.low < 0.6 * time.seconds.value);
    assert_eq!(stat.rows[0].seconds_interval, Some((time.seconds.low, time.seconds.high)));
    assert!(stat.avoidable.unwrap().knee.is_some(), "the curve needs /proc only");
}

#[test]
fn without_events_memory_that_faults_of_base_pages_cant_have_brought_is_of_huge_pages() {
    let mut observation = scenario::denied(true);
    observation.usage.minor_faults = 600;
    (observation.host.page_bytes, observation.host.thp_bytes) = (4096, 2 << 20);
    (observation.counts.huge_at_most, observation.counts.huge_ns) = (Some(300), Some(200_000));
    let level = |time_ns, faults, anon_bytes| Level { time_ns, faults, anon_bytes };
    observation.levels = vec![level(0, 0, 0), level(1_000_000_000, 600, 256 << 21)];
    let seconds = Stat::from_observation(&observation).time.unwrap().seconds;
    assert!(near(seconds.value, 256.0 * 200e-6, 0.2), "{seconds:?}");
    assert!(seconds.low > 0.02 && seconds.high < 0.15, "{seconds:?}");
}

#[test]
fn without_even_a_calibration_there_is_no_time_and_a_note() {
    let stat = Stat::from_observation(&scenario::denied(false));
    assert_adds_up(&stat);
    assert!(stat.time.is_none() && stat.rows.iter().all(|r| r.seconds.is_none()));
    assert!(stat.notes.iter().any(|n| n.contains("nothing is known of time")), "{:?}", stat.notes);
}

#[test]
fn children_that_nobody_waited_for_are_in_the_answer() {
    let mut observation = scenario::orphan();
    observation.counts.cpu_ns = Some(observation.usage.cpu_ns() + 5_000_000);
    let stat = Stat::from_observation(&observation);
    assert_adds_up(&stat);
    let beyond = stat.beyond_wait4.unwrap();
    assert_eq!((beyond.faults, beyond.cpu_ns), (6391, 5_000_000));
    assert!(stat.recorder_ns > 0, "recording its faults has cost it time");
    assert_eq!(stat.cpu_ns() + stat.recorder_ns, observation.usage.cpu_ns() + 5_000_000);
    assert_eq!(row(&stat, Kind::BeforeExec).map(|r| (r.faults, r.seconds)), Some((7, None)));
    assert_eq!(row(&stat, Kind::MmapFirstWrite).unwrap().faults, 16384);
    assert!(near(stat.time.unwrap().seconds.value, 16384.0 * 1190e-9, 0.01), "their time is in it");
    assert!(stat.notes.iter().any(|n| n.contains("nobody waited for")), "{:?}", stat.notes);
}

#[test]
fn accesses_that_end_in_a_signal_are_of_no_kind() {
    let mut observation = scenario::touch_loop();
    // A collector's barrier: half of the recorded accesses were refused, and no end was seen for them.
    let mut entries = 0;
    observation.records.retain(|record| {
        entries += u64::from(matches!(record.what, What::Enter { .. }));
        !matches!(record.what, What::End { .. }) || entries % 2 == 0
    });
    observation.counts.minor_faults = Some(8192);
    observation.counts.major_faults = Some(0);
    observation.usage.minor_faults = 8192;
    let stat = Stat::from_observation(&observation);
    assert_adds_up(&stat);
    assert_eq!((stat.rows[0].faults, stat.beyond_wait4), (8192, None));
    assert!(stat.notes.iter().any(|n| n.contains("ended in a signal")), "{:?}", stat.notes);
}

#[test]
fn a_pipeline_shows_every_part_of_the_answer() {
    let stat = Stat::from_observation(&scenario::pipeline());
    assert_adds_up(&stat);
    for kind in [
        Kind::MmapFirstWrite,
        Kind::HeapFirstWrite,
        Kind::BssFirstWrite,
        Kind::ZeroPageRead,
        Kind::WriteAfterZeroRead,
        Kind::FileRead,
        Kind::KernelMode,
        Kind::Populate,
        Kind::Major,
        Kind::BeforeExec,
    ] {
        assert!(row(&stat, kind).is_some_and(|r| r.faults > 0), "{kind:?} in {:#?}", stat.rows);
    }
    let Serialisation::Serialised { threads: 2, ratio } = stat.serialisation else {
        panic!("{:?}", stat.serialisation)
    };
    assert!(ratio.low > 1.25, "{ratio:?}");
    assert!(stat.kernel.unwrap().phases.is_some());
    let knee = stat.avoidable.unwrap().knee.unwrap();
    assert!((20..=24).contains(&(knee.keep_bytes >> 20)) && knee.low > 0.8, "{knee:?}");
}

#[test]
fn nothing_observed_is_an_empty_answer() {
    let stat = Stat::from_observation(&faultless_trace::Observation::default());
    assert!(stat.rows.is_empty() && stat.time.is_none() && stat.avoidable.is_none() && stat.notes.is_empty());
}
