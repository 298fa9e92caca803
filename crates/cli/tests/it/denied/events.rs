//! perf_event_open(2) denied by a sandbox. To a program, `kernel.perf_event_paranoid` of 3 and 4 looks the
//! same.

use super::*;

/// The error that the call returns, and the message about it.
const REFUSALS: [(&str, &str); 3] = [
    ("1", "start the container with --cap-add=PERFMON"),
    ("13", "kernel.perf_event_paranoid is"),
    ("38", "the kernel lacks perf events or a sandbox hides them"),
];

const PROGRAM: [&str; 3] = ["sh", "-c", "./faults touch 8000; exit 7"];

#[test]
fn counts_are_exact_and_time_is_a_range_with_the_reason_said_once() {
    let Some(place) = Place::with(&["denies", "faults"]) else { return };
    for (errno, reason) in REFUSALS {
        let denies = ["./denies", errno];
        let (stat, status) = place.stat(&denies, FAULTLESS, &PROGRAM);
        assert_eq!(status, Some(7));
        assert_counts(&stat, 8000, 1500);
        let seconds = &stat["time"]["seconds"];
        let [low, high] = ["low", "high"].map(|end| seconds[end].as_f64().unwrap());
        assert_eq!(stat["time"]["source"], "calibrated");
        assert!(0.0 < low && 1.3 * low <= high, "{seconds}");
        assert!(stat["rows"].as_array().unwrap().iter().all(|row| row["p50_ns"].is_null()), "{stat}");

        let out = place.run(&[&denies, &[FAULTLESS, "stat", "--"][..], &PROGRAM].concat());
        let said = text(&out.stderr);
        assert_eq!((out.status.code(), said.matches("perf_event_open()").count()), (Some(7), 1), "{said}");
        let words = said.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(words.contains(reason), "{said}");
        let answer = said.lines().find(|line| line.contains("went to page") || line.contains("CPU time ("));
        let answer = answer.unwrap_or_else(|| panic!("no answer: {said}"));
        assert!(answer.trim().starts_with("About ") && !answer.contains('±'), "{said}");
        let row = said.lines().find(|line| line.contains("kind unknown")).unwrap();
        assert!(row.contains(" to ") && row.contains(" - "), "a range, and no price of each: {row}");
    }
}

#[test]
fn nothing_is_recorded_and_the_program_does_not_run_in_vain() {
    let Some(place) = Place::with(&["denies"]) else { return };
    std::fs::create_dir(place.path("out")).unwrap();
    for (errno, reason) in REFUSALS {
        let record = ["record", "-o", "out/x.trace", "--", "touch", "out/witness"];
        let out = place.run(&[&["./denies", errno, FAULTLESS], &record[..]].concat());
        let said = text(&out.stderr);
        assert_eq!((out.status.code(), said.lines().count()), (Some(2), 1), "{said}");
        assert!(said.contains(reason) && said.contains("faultless stat"), "{said}");
        assert_eq!(place.names("out"), [] as [PathBuf; 0], "neither a trace nor what the program writes");
        let own = std::process::id().to_string();
        let out = place.run(&["./denies", errno, FAULTLESS, "record", "-o", "out/x.trace", "-p", &own]);
        let said = text(&out.stderr);
        assert_eq!((out.status.code(), said.lines().count()), (Some(2), 1), "{said}");
        assert!(said.contains(reason), "{said}");
        assert_eq!(place.names("out"), [] as [PathBuf; 0]);
    }
}

#[test]
fn who_allocates_is_recorded_without_events() {
    let Some(place) = Place::with(&["denies"]) else { return };
    let program = [FAULTLESS, "workload", "--quiet", "calloc-full"];
    let record = [FAULTLESS, "record", "--alloc", "-o", "x.trace", "--"];
    let out = place.run(&[&["./denies", "1"], &record[..], &program].concat());
    let said = text(&out.stderr);
    assert_eq!(out.status.code(), Some(0), "{said}");
    assert_eq!(said.matches("perf_event_open()").count(), 1, "{said}");
    let out = place.run(&[FAULTLESS, "report", "--json", "x.trace"]);
    let report: Value = serde_json::from_slice(&out.stdout).unwrap();
    assert!(report["coverage"]["blocks"].as_u64().unwrap() > 0, "{report}");
}

#[test]
fn the_live_view_the_doctor_and_the_adviser_say_what_they_lack() {
    let Some(place) = Place::with(&["denies", "faults"]) else { return };
    let run = |errno: &str, words: &[&str]| place.run(&[&["./denies", errno, FAULTLESS], words].concat());
    let words = |bytes: &[u8]| text(bytes).split_whitespace().collect::<Vec<_>>().join(" ");
    for (errno, reason) in REFUSALS {
        let out = run(errno, &["top", "--once", "-d", "0.2", "-p", &std::process::id().to_string()]);
        let said = words(&out.stdout);
        assert_eq!(out.status.code(), Some(0), "{}", text(&out.stderr));
        assert!(said.contains("(calibrated)") && said.contains(reason), "{said}");
    }
    let (errno, reason) = REFUSALS[0];
    let out = run(errno, &["advise", "-n", "3", "--", "./faults", "touch", "2000"]);
    let said = words(&out.stdout);
    assert!(matches!(out.status.code(), Some(0 | 1)), "{}", text(&out.stderr));
    assert!(said.contains("note: no fault was timed") && said.contains(reason), "{said}");
    let out = run(errno, &["doctor"]);
    let said = words(&out.stdout);
    assert_eq!(out.status.code(), Some(0), "{}", text(&out.stderr));
    assert!(said.contains("no time single faults of user mode: perf_event_open()"), "{said}");
    assert!(said.contains("seccomp profile"), "{said}");
}

/// One line names one setting of the container; what needs no perf events works without it.
#[test]
fn a_container_of_docker_gets_the_counts_and_the_one_setting_that_gives_the_rest() {
    let Some(place) = Place::with(&["denies", "faults"]) else { return };
    let denies = ["./denies", "docker"];
    let (stat, status) = place.stat(&denies, FAULTLESS, &["./faults", "touch", "8000"]);
    assert_eq!(status, Some(0));
    assert_counts(&stat, 8000, 1500);
    assert!(stat["time"]["seconds"]["low"].as_f64().unwrap() > 0.0, "{stat}");
    for (words, status, settings) in [
        (&["stat", "--", "./faults", "touch", "8000"][..], 0, 1),
        (&["record", "--", "true"], 2, 1),
        (&["check", "--update", "-r", "1", "--", "./faults", "touch", "8000"], 0, 1),
        (&["run", "--", "./faults", "touch", "8000"], 0, 0),
        (&["top", "--once", "-d", "0.3"], 0, 0),
    ] {
        let out = place.run(&[&denies[..], &[FAULTLESS], words].concat());
        let said = text(&out.stderr).split_whitespace().collect::<Vec<_>>().join(" ");
        assert_eq!(out.status.code(), Some(status), "{words:?}: {said}");
        assert_eq!(
            said.matches("start the container with --cap-add=PERFMON").count(),
            settings,
            "{words:?}: {said}"
        );
    }
}
