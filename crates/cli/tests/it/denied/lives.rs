//! Short-lived threads and processes: counts add up to those of `wait4`, and faults missing from all figures
//! are reported.

use super::*;

/// A life cycle, and its expected counts.
struct Life {
    way: &'static [&'static str],
    /// First writes of anonymous pages by the program's own code.
    pages: u64,
    /// Other faults at most: loading each process, and stacks of threads.
    more: u64,
    status: i32,
}

const LIVES: [Life; 8] = [
    Life { way: &["short"], pages: 500 * 20, more: 2000, status: 0 },
    Life { way: &["many"], pages: 64 * 200, more: 1000, status: 0 },
    Life { way: &["exec", "10"], pages: 10 * 100, more: 1500, status: 0 },
    Life { way: &["vfork"], pages: 200 * 20, more: 20_000, status: 0 },
    Life { way: &["spawn"], pages: 100 * 20, more: 10_000, status: 0 },
    Life { way: &["kill"], pages: 2000, more: 500, status: 128 + 9 },
    Life { way: &["close"], pages: 2000 + 20 * 20, more: 500, status: 0 },
    Life { way: &["undumpable"], pages: 2000 + 20 * 20, more: 500, status: 0 },
];

/// First writes of anonymous memory while a process is loaded, at most.
const LOADING: u64 = 30;

/// Processes of a life cycle.
fn processes(life: &Life) -> u64 {
    match life.way[0] {
        "vfork" => 201,
        "spawn" => 101,
        "exec" => 10,
        _ => 1,
    }
}

/// Records that the rings lost, as the notes say.
fn lost_records(stat: &Value) -> u64 {
    let notes = stat["notes"].as_array().unwrap().iter().filter_map(Value::as_str);
    let lost = notes.filter_map(|note| note.strip_prefix("the rings lost ")?.split(" record").next());
    lost.map(|lost| lost.replace(' ', "").parse::<u64>().unwrap()).sum()
}

#[test]
fn rows_add_up_and_the_kind_that_was_touched_is_within_its_interval() {
    let Some(place) = Place::with(&["faults"]) else { return };
    let (events, host) = (has_events(&place), faultless_os::host::Host::read());
    // A shell that stops the recorder meanwhile, as a busy machine may: its rings have to do for the whole life.
    let late = ["sh", "-c", "kill -STOP $PPID; \"$0\" \"$@\"; code=$?; kill -CONT $PPID; exit $code"];
    for (life, before) in LIVES.iter().flat_map(|life| [(life, &[][..]), (life, &late)]) {
        let program = [before, &["./faults"], life.way].concat();
        let (stat, status) = place.stat(&[], FAULTLESS, &program);
        assert_eq!(status, Some(life.status), "{program:?}");
        assert_counts(&stat, life.pages, life.more);
        assert_eq!(source(&stat, "wait4"), (true, ""), "nothing is left running: {program:?}");
        if !events {
            continue;
        }
        let rows = stat["rows"].as_array().unwrap();
        let row = rows.iter().find(|row| row["kind"] == "mmap_first_write");
        let row = row.unwrap_or_else(|| panic!("{program:?}: {stat}"));
        let faults = row["faults"].as_u64().unwrap();
        let [low, high] = [0, 1].map(|end| row["interval"][end].as_u64().unwrap_or(faults));
        // One interval in twenty misses; such a run must not fail the test.
        let slack = (high - low) / 2 + faults / 50;
        let most = life.pages + LOADING * processes(life);
        assert!(low.saturating_sub(slack) <= most && life.pages <= high + slack, "{program:?}: {row}");
        let (_, note) = source(&stat, "fault pairs");
        // If all processors are busy, the recorder may start late and record most faults one by one. Then
        // there may be no samples. A lost fault has two records or more.
        let timed = stat["time"]["timed"].as_u64().unwrap();
        let lost = lost_records(&stat);
        // Before Linux 6.0 what was lost last is in no figure.
        if host.kernel.at_least(6, 0) != Some(true) {
            continue;
        }
        assert!(
            note.contains(" timed") || timed + lost / 2 > faults / 2,
            "{program:?}: {note}; {timed} of {faults}, {lost} records lost"
        );
    }
}

#[test]
fn a_daemon_left_behind_is_said() {
    let Some(place) = Place::with(&["faults"]) else { return };
    // Only events report a process that nobody waits for.
    if !has_events(&place) {
        return;
    }
    let (stat, status) = place.stat(&[], FAULTLESS, &["./faults", "daemon"]);
    assert_eq!(status, Some(0));
    let (_, note) = source(&stat, "wait4");
    assert!(note.contains("1 that had not ended, as far as they had come"), "{note}");
    // Its touches until then count: two rounds at least, unless it got no processor.
    assert_counts(&stat, 500, 1800);
    let out = place.run_held(&[FAULTLESS, "record", "-o", "x.trace", "--", "./faults", "daemon"]);
    let said = text(&out.stderr);
    if out.status.success() {
        assert!(said.contains("1 that had not ended, as far as they had come"), "{said}");
    } else {
        assert!(said.contains("can't be recorded"), "{said}");
    }
}

#[test]
fn a_recording_holds_all_that_wait4_counted() {
    let Some(place) = Place::with(&["faults"]) else { return };
    if !has_events(&place) {
        return;
    }
    // The others differ from these in nothing that a recording sees.
    for life in LIVES.iter().step_by(2) {
        let program = [&["./faults"], life.way].concat();
        let own = [FAULTLESS, "record", "-o", "x.trace", "--"];
        let out = place.run(&[&own[..], &program].concat());
        assert_eq!(out.status.code(), Some(life.status), "{}", text(&out.stderr));
        let out = place.run(&[FAULTLESS, "report", "--json", "x.trace"]);
        let report: Value = serde_json::from_slice(&out.stdout).unwrap();
        let faults = report["faults"].as_u64().unwrap();
        assert!((life.pages..life.pages + life.more).contains(&faults), "{program:?}: {faults}");
        let lost = report["coverage"]["lost"].as_u64().unwrap();
        let notes = report["notes"].to_string();
        assert_eq!(notes.contains("the rings lost"), lost > 0, "{notes}");
    }
}

#[test]
fn a_set_user_id_program_is_said_to_be_hidden() {
    let Some(place) = Place::with(&["faults"]) else { return };
    let Some(user) = as_user(3) else { return };
    if !has_events(&place) {
        return;
    }
    machine::copy_program(FAULTLESS, place.path("faultless"));
    std::fs::set_permissions(place.path("faults"), PermissionsExt::from_mode(0o4755)).unwrap();
    let user: Vec<&str> = user.iter().map(String::as_str).collect();
    let (stat, status) = place.stat(&user, "./faultless", &["./faults", "touch", "8000"]);
    assert_eq!(status, Some(0));
    assert_counts(&stat, 8000, 500);
    let notes = stat["notes"].to_string();
    if source(&stat, "page-faults:u").0 {
        assert!(notes.contains("the kernel took the events away, as from a set-user-ID program"), "{stat}");
    }
    let unknown = stat["rows"].as_array().unwrap().iter().find(|row| row["kind"] == "unknown");
    assert!(unknown.is_some_and(|row| row["faults"].as_u64().unwrap() >= 8000), "{stat}");
    assert_eq!(stat["time"]["source"], "calibrated", "a range");
}
