//! Observations with one contradiction each: it is reported, the right source is believed, and the figure
//! follows.

use faultless_trace::observation::{EventLoss, KernelSamples, Level, Observation, Record, What};
use faultless_trace::reconcile::{Believed, Check};
use faultless_trace::stat::Kind;
use faultless_trace::{Stat, observation::Access};

use super::recorded;
use super::scenario::{self, ANON, MIB};

/// Every source, and no contradiction.
fn sound() -> Observation {
    let mut o = scenario::pipeline_of(8);
    o.records.insert(0, Record { time_ns: 0, pid: 1, tid: 1, what: What::Exec });
    o.counts.minor_faults = o.counts.all_faults.map(|all| all - 12);
    o.counts.huge_at_most = Some(0);
    o.event_losses = Some(Vec::new());
    o
}

fn checks(stat: &Stat) -> Vec<Check> {
    stat.disagreements.iter().map(|one| one.check).collect()
}

#[test]
fn a_sound_run_prints_none() {
    let all = [
        sound(),
        scenario::touch_loop(),
        scenario::bursts(),
        scenario::fork(),
        scenario::lost(),
        scenario::denied(true),
        scenario::denied(false),
        scenario::orphan(),
        scenario::pipeline_of(8),
        Observation::default(),
        recorded::mixed(false).observation,
        recorded::mixed(true).observation,
    ];
    for o in all {
        let stat = Stat::from_observation(&o);
        assert_eq!(stat.disagreements, [], "{:?}", o.command);
    }
}

type Plant = fn(&mut Observation);

const PLANTS: [(&str, Plant, Check, Believed); 8] = [
    ("wait4 has half", |o| o.usage.minor_faults /= 2, Check::EventsTotal, Believed::First),
    (
        "the counter fell",
        |o| o.levels.iter_mut().for_each(|level| level.faults *= 2),
        Check::Readings,
        Believed::Second,
    ),
    ("samples of too long a period", plant_samples, Check::Samples, Believed::Second),
    ("wait4 has no major fault", |o| o.usage.major_faults = 0, Check::Major, Believed::First),
    ("memory grew without faults", plant_growth, Check::Growth, Believed::Second),
    (
        "faults took longer than the kernel ran",
        |o| (o.usage.user_ns, o.usage.system_ns) = (o.usage.cpu_ns(), 1_000_000),
        Check::Time,
        Believed::Second,
    ),
    (
        "more CPU time than there was",
        |o| o.usage.user_ns += 100 * o.usage.wall_ns,
        Check::CpuTime,
        Believed::Neither,
    ),
    ("rings lost more than their events", |o| o.windows[0].lost = 3, Check::Losses, Believed::First),
];

fn plant_samples(o: &mut Observation) {
    let time_ns = o.windows[0].end_ns;
    let sample = |n: u64| Record {
        time_ns: time_ns + n,
        pid: 1,
        tid: 1,
        what: scenario::sample(ANON + n * MIB, Access::Write, None, 1_000_000),
    };
    o.records.extend((0..10).map(sample));
    o.records.sort_by_key(|record| record.time_ns);
}

fn plant_growth(o: &mut Observation) {
    let grown = |(n, level): (usize, &Level)| Level { anon_bytes: n as u64 * 64 * MIB, ..*level };
    o.levels = o.levels.iter().enumerate().map(grown).collect();
}

#[test]
fn each_planted_contradiction_is_told_and_names_the_source_that_is_believed() {
    for (name, plant, check, believed) in PLANTS {
        let mut o = sound();
        plant(&mut o);
        let stat = Stat::from_observation(&o);
        let found = stat.disagreements.iter().find(|one| one.check == check);
        let found = found.unwrap_or_else(|| panic!("{name}: {:?}", checks(&stat)));
        assert_eq!(found.believed, believed, "{name}: {found}");
        assert!(stat.notes.contains(&found.to_string()), "{name}: the reader is told");
        // One contradiction may be seen from two sides, as a wrong total is; it is never seen from everywhere.
        assert!(stat.disagreements.len() <= 3, "{name}: {:?}", checks(&stat));
    }
}

/// Memory that was there before a process was attached to did not grow, and khugepaged's came without a fault.
#[test]
fn memory_from_before_and_from_khugepaged_contradicts_no_fault() {
    let mut o = sound();
    plant_growth(&mut o);
    o.counts.huge_collapsed = Some(32 * o.levels.len() as u64);
    assert_eq!(checks(&Stat::from_observation(&o)), []);
    let mut o = sound();
    o.levels.iter_mut().for_each(|level| level.anon_bytes += 1 << 30);
    assert_eq!(checks(&Stat::from_observation(&o)), []);
}

/// Samples of the CPU clock in the fault path bound the time, and leave it an interval. What records the faults is no part of it.
#[test]
fn times_beyond_the_cpu_clocks_samples_are_cut_to_them() {
    let mut o = sound();
    let before = Stat::from_observation(&o).time.unwrap();
    let stack =
        |leaf: &str, n| ([leaf, "handle_mm_fault", "asm_exc_page_fault"].map(str::to_owned).to_vec(), n);
    let percent = (before.share.value * 100.0) as u64;
    let of = |percent: u64, recording| {
        let stacks = vec![stack("clear_page_erms", 40 * percent), stack("perf_swevent_event", recording)];
        Some(KernelSamples { period_ns: o.usage.cpu_ns() / 4_000, total: 4_000, stacks })
    };
    (o.kernel, o.usage.system_ns) = (of(percent / 2, 2_000 - 20 * percent), o.usage.system_ns);
    let stat = Stat::from_observation(&o);
    let (cut, ratio) = (stat.time.as_ref().unwrap().seconds, before.seconds.value / 2.0);
    assert!((cut.value / ratio - 1.0).abs() < 0.1, "{cut:?}, half of {before:?}");
    assert!(cut.low < 0.99 * cut.value && cut.value < 0.99 * cut.high, "{cut:?}");
    assert_eq!(checks(&stat), [Check::Time]);
}

#[test]
fn events_that_lost_records_are_believed_over_stretches_that_look_whole() {
    let mut o = scenario::touch_loop();
    o.event_losses = Some(vec![EventLoss { event: "minor end".into(), cpu: 0, lost: 40 }]);
    assert_eq!(checks(&Stat::from_observation(&o)), [Check::Losses]);
    o.event_losses = Some(vec![EventLoss { event: "cpu clock".into(), cpu: 0, lost: 40 }]);
    assert_eq!(checks(&Stat::from_observation(&o)), [], "samples of the CPU clock are no faults");
}

#[test]
fn seconds_are_cut_to_the_system_time_and_the_rows_with_them() {
    let mut o = sound();
    (o.usage.user_ns, o.usage.system_ns) = (o.usage.cpu_ns(), 1_000_000);
    let (before, stat) = (Stat::from_observation(&sound()), Stat::from_observation(&o));
    let seconds = stat.time.as_ref().unwrap().seconds;
    assert!(seconds.high < before.time.unwrap().seconds.low, "{seconds:?}");
    assert!(seconds.low <= seconds.value && seconds.value <= seconds.high);
    let rows: f64 = stat.rows.iter().filter_map(|row| row.seconds).sum();
    assert!((rows - seconds.value).abs() < 0.001 * seconds.value);
}

#[test]
fn an_interval_is_widened_to_hold_both_sources() {
    let interval = |o: &Observation, kind| {
        let row = Stat::from_observation(o).rows.into_iter().find(|row| row.kind == kind).unwrap();
        row.interval.map_or((row.faults, row.faults), |interval| interval)
    };
    for plant in [plant_samples as Plant, plant_growth] {
        let mut o = sound();
        plant(&mut o);
        let (sound, wide) = (interval(&sound(), Kind::FileRead), interval(&o, Kind::FileRead));
        assert!(wide.1 - wide.0 > sound.1 - sound.0, "{sound:?} {wide:?}");
    }
}
