//! Recordings with a known answer -> rows, whose intervals must contain it.

use std::collections::BTreeSet;

use faultless_trace::findings::{Findings, Wanted};
use faultless_trace::observation::{Access, EventLoss, Record, What};
use faultless_trace::profile::Profile;
use faultless_trace::recording::{Recording, Stacks};
use faultless_trace::sites::{Group, NO_STACK, SiteRow, Sites, THREADS_SHOWN};
use faultless_trace::stat::Kind;

use super::recorded::{Run, Truth, ends, mixed};
use super::scenario::{ANON, MIB, PAGE};

fn rows(recording: &Recording, by: Group) -> Sites {
    Sites::new(recording, &Profile::new(recording), by)
}

fn find<'a>(sites: &'a Sites, label: &str) -> &'a SiteRow {
    let found = sites.rows.iter().find(|row| row.label == label);
    found.unwrap_or_else(|| {
        panic!("no {label} in {:#?}", sites.rows.iter().map(|r| &r.label).collect::<Vec<_>>())
    })
}

/// Two long threads, one site that only faults in a short phase, and many short-lived threads.
fn run(duty: (u64, u64), seed: u64) -> (Recording, Vec<(String, Truth)>) {
    let mut run = Run::new("simulated", duty, seed);
    let names = ["often", "seldom", "phase", "short_lived", "dear"];
    let [often, seldom, phase, short, dear] = names.map(|name| run.stack(name, name == "often"));
    let mut page = 0;
    let rounds = 14 + run.rng.below(6);
    let mut tid = 100;
    for round in 0..rounds {
        let busy = 600 + run.rng.below(400);
        for n in 0..busy {
            page += 1;
            let addr = ANON + page * PAGE;
            let pick = run.rng.below(100);
            let stack = if round == rounds / 2 && n < 400 {
                phase
            } else if pick < 4 {
                seldom
            } else if pick < 10 {
                dear
            } else {
                often
            };
            run.write(1 + n as u32 % 2, stack, addr, if stack == dear { 6000 } else { 1000 });
        }
        for _ in 0..run.rng.below(12) {
            tid += 1;
            for _ in 0..20 + run.rng.below(60) {
                page += 1;
                run.write(tid, short, ANON + page * PAGE, 1500);
            }
        }
        let pause = run.rng.below(2_000_000) as u64;
        run.step(pause);
    }
    let (recording, truth) = run.finish();
    (recording, truth.into_iter().collect())
}

#[test]
fn with_every_fault_counts_are_exact_and_times_are_the_truth() {
    let (recording, truth) = run((1 << 50, 1 << 50), 3);
    let sites = rows(&recording, Group::Site);
    for (name, truth) in &truth {
        let row = find(&sites, name);
        assert!((row.faults.value - truth.faults).abs() < 1e-6, "{name}: {:?} {truth:?}", row.faults);
        assert_eq!((row.faults.low, row.faults.high), (row.faults.value, row.faults.value), "{name}");
        assert!(
            // Faults near a counter reading take the mean of similar faults.
            (row.time_ns.value / truth.time_ns - 1.0).abs() < 0.01,
            "{name}: {:?} {truth:?}",
            row.time_ns
        );
        assert!(row.time_ns.low < truth.time_ns && truth.time_ns < row.time_ns.high);
    }
}

#[test]
fn of_samples_and_bursts_rows_add_up_to_the_count_and_intervals_hold_the_truth() {
    let (recording, truth) = run((300_000, 3_000_000), 3);
    let sites = rows(&recording, Group::Site);
    let total: f64 = truth.iter().map(|(_, truth)| truth.faults).sum();
    let sum: f64 = sites.rows.iter().map(|row| row.faults.value).sum();
    assert!((sum - total).abs() < 1e-3, "{sum} {total}");
    for (name, truth) in &truth {
        let row = find(&sites, name);
        for (found, truth) in [(row.faults, truth.faults), (row.time_ns, truth.time_ns)] {
            assert!(found.low <= truth && truth <= found.high, "{name}: {truth:.0} not in {found:.0?}");
        }
    }
}

#[test]
fn many_threads_whose_names_differ_in_a_number_are_one_row() {
    let (mut recording, _) = run((1 << 50, 1 << 50), 3);
    let records = &mut recording.observation.records;
    let tids: BTreeSet<(u32, u32)> = records.iter().map(|record| (record.pid, record.tid)).collect();
    assert!(tids.len() > THREADS_SHOWN + 2);
    let named = |(pid, tid)| {
        let name = What::Name(if tid < 100 { format!("main-{tid}") } else { format!("worker-{tid}") });
        Record { time_ns: 0, pid, tid, what: name }
    };
    records.extend(tids.into_iter().map(named));
    let sites = rows(&recording, Group::Thread);
    let mut labels: Vec<&str> = sites.rows.iter().map(|row| row.label.as_str()).collect();
    labels.sort_unstable();
    assert_eq!(labels, ["main-1", "main-2", "worker-*"]);
}

#[test]
fn the_caller_of_memset_is_the_site_and_memset_is_kept_beside_it() {
    let sites = rows(&mixed(true), Group::Site);
    let row = find(&sites, "decode_chunk");
    assert_eq!(row.leaf.as_deref(), Some("memset"));
    assert_eq!(row.place.as_deref(), Some("src/program.c:22"));
    assert_eq!(row.allocated_by.as_deref(), Some("make_chunk"));
}

#[test]
fn memory_that_comes_back_to_the_site_that_gave_it_is_refaulted() {
    for every_fault in [true, false] {
        let sites = rows(&mixed(every_fault), Group::Alloc);
        let (chunk, table) = (find(&sites, "make_chunk"), find(&sites, "load_table"));
        // The first of 40 blocks is new.
        assert!((chunk.refault.unwrap() - 0.975).abs() < 0.02, "{chunk:?}");
        assert_eq!(table.refault, Some(0.0));
        let lives = chunk.lives.as_ref().unwrap();
        assert_eq!(
            (lives.blocks, lives.bytes, lives.median_bytes, lives.never_freed),
            (40, 40 * MIB, MIB, 0)
        );
        assert_eq!(table.lives.as_ref().unwrap().never_freed, 1);
        assert!((256.0 * 40.0 - chunk.faults.value).abs() < 0.2 * chunk.faults.value, "{chunk:?}");
    }
}

#[test]
fn what_was_lost_is_made_up_for_by_the_exact_count() {
    let (mut recording, truth) = run((1 << 50, 1 << 50), 5);
    let mut n = 0;
    recording.observation.records.retain(|record| {
        n += 1;
        !matches!(record.what, What::Enter { .. } | What::End { .. }) || n % 1000 < 700
    });
    recording.observation.windows[0].lost = 7;
    let sites = rows(&recording, Group::Site);
    let total: f64 = truth.iter().map(|(_, truth)| truth.faults).sum();
    assert!((sites.all.faults.value - total).abs() < 1e-3);
    for (name, truth) in &truth {
        let row = find(&sites, name);
        assert!(
            row.faults.low <= truth.faults && truth.faults <= row.faults.high,
            "{name}: {row:?} {truth:?}"
        );
    }
    let notes = Findings::new(&recording, &Wanted { top: 5, ..Wanted::default() }).unwrap().notes.join("\n");
    assert!(notes.contains("the rings lost"), "{notes}");
}

#[test]
fn samples_alone_are_taken_at_their_word_and_have_no_time() {
    let (mut recording, truth) = run((1_000_000, 20_000_000), 1);
    recording.footer = None;
    recording.header.calibration = None;
    let observation = &mut recording.observation;
    (observation.calibration, observation.windows) = (None, Vec::new());
    (observation.counts, observation.usage) = Default::default();
    observation.records.retain(|record| !matches!(record.what, What::Enter { .. } | What::End { .. }));
    let sites = rows(&recording, Group::Site);
    let often = truth.iter().find(|(name, _)| name == "often").unwrap().1;
    let row = find(&sites, "often");
    assert!(row.faults.low <= often.faults && often.faults <= row.faults.high, "{row:?} {often:?}");
    assert_eq!(sites.all.time_ns.value, 0.0);
    let findings = Findings::new(&recording, &Wanted { top: 5, ..Wanted::default() }).unwrap();
    assert!(findings.time_ns.is_none() && findings.exit.is_none());
    let notes = findings.notes.join("\n");
    assert!(notes.contains("no fault was timed") && notes.contains("did not finish"), "{notes}");
}

#[test]
fn a_major_fault_stands_for_itself_and_minor_ones_for_the_rest() {
    for complete in [true, false] {
        let mut recording = mixed(complete);
        let before = rows(&recording, Group::Kind).all.faults.value;
        ends(&mut recording).take(20).for_each(|major| *major = true);
        let all = rows(&recording, Group::Kind).all;
        let majors: f64 = all.kinds.iter().filter(|kind| kind.0 == Kind::Major).map(|kind| kind.1).sum();
        assert!((majors - 20.0).abs() < 1e-6, "{majors}");
        assert!((all.faults.value / before - 1.0).abs() < 1e-9, "{} of {before}", all.faults.value);
    }
}

#[test]
fn without_stacks_there_is_one_row_and_a_note() {
    let mut recording = mixed(true);
    recording.stacks = Stacks::default();
    for record in &mut recording.observation.records {
        if let What::End { stack, .. } = &mut record.what {
            *stack = None;
        }
    }
    let sites = rows(&recording, Group::Site);
    assert_eq!(sites.rows.iter().map(|row| row.label.as_str()).collect::<Vec<_>>(), [NO_STACK]);
    let notes = Findings::new(&recording, &Wanted::default()).unwrap().notes.join("\n");
    assert!(notes.contains("no stacks"), "{notes}");
}

#[test]
fn a_sampled_fault_has_the_kind_that_its_site_has() {
    let mut run = Run::new("reads and writes", (2_000_000, 40_000_000), 1);
    let stack = run.stack("probe", false);
    for page in 0..100_000 {
        run.fault(1, stack, ANON + page * PAGE, Access::Read, 500);
        run.fault(1, stack, ANON + page * PAGE, Access::Write, 1200);
    }
    let kinds = rows(&run.finish().0, Group::Kind);
    let writes = find(&kinds, "write after zero-page read");
    assert!((writes.faults.value - 100_000.0).abs() < 5_000.0, "{writes:?}");
    assert!((writes.time_ns.value - 120e6).abs() < 8e6, "{writes:?}");
}

#[test]
fn major_faults_that_were_lost_are_shared_among_those_that_are_there() {
    let mut recording = mixed(true);
    ends(&mut recording).take(20).for_each(|major| *major = true);
    recording.observation.counts.major_faults = Some(50);
    let majors = |recording: &Recording| -> f64 {
        let kinds = rows(recording, Group::Kind).all.kinds;
        kinds.iter().filter(|kind| kind.0 == Kind::Major).map(|kind| kind.1).sum()
    };
    assert!(
        (majors(&recording) - 20.0).abs() < 1e-6,
        "counted otherwise, but none was lost: {}",
        majors(&recording)
    );
    let loss = EventLoss { event: "major end".into(), cpu: 0, lost: 30 };
    recording.observation.event_losses = Some(vec![loss]);
    assert!((majors(&recording) - 50.0).abs() < 1e-6, "{}", majors(&recording));
}
