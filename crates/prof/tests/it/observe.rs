//! Programs that fault a known number of times, observed.

use std::ffi::OsString;
use std::fs::File;

use faultless_prof::{Request, Sources, observe};
use faultless_trace::observation::{Access, Exit, Observation, What};
use faultless_wants as wants;

use crate::program::program;

fn request(words: &[&str], allow: Sources) -> Request {
    Request { command: words.iter().map(OsString::from).collect(), allow, ..Request::default() }
}

fn run(mode: &str, pages: u32, allow: Sources) -> Option<Observation> {
    let program = program()?;
    let pages = pages.to_string();
    let stdout = Some(File::create("/dev/null").unwrap().into());
    let request = request(&[program.to_str().unwrap(), mode, &pages], allow);
    let found = observe(Request { stdout, ..request }).unwrap();
    assert_eq!(found.exit, Exit::Status(0));
    Some(found)
}

/// Whether a source was used; if not, why.
fn source(found: &Observation, source: &str) -> Result<(), String> {
    let note = found.sources.iter().find(|note| note.source == source);
    let note = note.unwrap_or_else(|| panic!("{source} is not among {:?}", found.sources));
    if note.used { Ok(()) } else { Err(format!("{source}: {}", note.note)) }
}

/// Whether a requested source was used; if not, the test skips.
#[track_caller]
fn used(found: &Observation, name: &str) -> bool {
    source(found, name).map_err(|why| wants::missing_feature("perf events", why)).is_ok()
}

#[test]
fn counts_reconcile_with_wait4_on_a_tree_of_threads_children_and_an_orphan() {
    const PAGES: u32 = 3000;
    let Some(found) = run("tree", PAGES, Sources::default()) else { return };
    // Events alone tell of an orphan.
    if !used(&found, "page-faults:u") {
        return;
    }
    let total = found.usage.minor_faults + found.usage.major_faults;
    assert!(total >= 6 * u64::from(PAGES), "wait4 holds the orphan's faults too: {total}");
    let before = found.counts.before_exec_faults;
    assert!(before > 0 && before < 500, "{before}");
    let user = found.counts.user_faults.unwrap();
    assert!((6 * u64::from(PAGES)..=total - before).contains(&user), "{user} of {total}");
    if let Some(all) = found.counts.all_faults {
        let rest = (total - before).checked_sub(all).expect("no more faults than wait4 has");
        assert!(rest < 100, "exec and fork populate a few pages without a trap, not {rest}");
    }
}

#[test]
fn windows_hold_every_fault_and_records_lie_in_recorded_windows() {
    let Some(found) = run("touch", 60_000, Sources::default()) else { return };
    if !used(&found, "fault pairs") {
        return;
    }
    assert!(found.windows.windows(2).all(|pair| pair[0].end_ns == pair[1].begin_ns));
    let counted: u64 = found.windows.iter().map(|window| window.faults).sum();
    assert_eq!(Some(counted), found.counts.user_faults);
    let entries = found.records.iter().filter(|record| matches!(record.what, What::Enter { .. })).count();
    assert!(entries < 60_000, "60 000 faults in a row are not all recorded");
    // Only who comes too late for the rings does not pause.
    let lost = found.event_losses.iter().flatten().any(|loss| loss.lost > 0);
    assert!(lost || found.windows.iter().any(|window| !window.recorded), "{:?}", found.windows);
    let inside =
        |time_ns: u64| found.windows.iter().any(|w| w.recorded && (w.begin_ns..w.end_ns).contains(&time_ns));
    let mut faults = 0;
    for record in &found.records {
        if matches!(record.what, What::Enter { .. } | What::End { .. }) {
            faults += 1;
            assert!(inside(record.time_ns), "a fault at {} outside", record.time_ns);
        }
    }
    assert!(faults > 1000, "{faults} records");
    assert!(found.records.is_sorted_by_key(|record| record.time_ns));
    assert!(
        found.records.iter().any(|record| matches!(&record.what, What::Map(map) if map.name == "//anon"))
    );
}

#[cfg(target_arch = "x86_64")]
#[test]
fn stores_of_a_touch_loop_are_seen_as_writes() {
    let Some(found) = run("touch", 20_000, Sources::default()) else { return };
    if !used(&found, "fault pairs") {
        return;
    }
    let accesses = found.records.iter().filter_map(|record| match record.what {
        What::Enter { access, kernel: false, .. } => Some(access),
        _ => None,
    });
    let (all, writes) = accesses
        .fold((0, 0), |(all, writes), access| (all + 1, writes + u32::from(access == Some(Access::Write))));
    assert!(writes * 10 > all * 9, "{writes} writes of {all}");
}

#[test]
fn counting_alone_needs_no_reading_while_the_program_runs() {
    let Some(found) = run("touch", 5000, Sources::COUNTERS) else { return };
    assert!(found.levels.is_empty() && found.calibration.is_none());
    assert!(found.records.is_empty());
    if used(&found, "page-faults:u") {
        assert!(found.counts.user_faults.unwrap() >= 5000);
    }
}
