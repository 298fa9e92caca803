//! Made-up rounds -> the findings on them.

use super::text::{notes, text};
use super::*;

fn said(plain_ms: f64, ms: f64, spread: f64, copies: u64) -> Said {
    let interval = Interval { value: ms * 1e6, low: (ms - spread) * 1e6, high: (ms + spread) * 1e6 };
    Said {
        own: own(1.1 * plain_ms),
        plain: own(plain_ms),
        before: None,
        time_ns: Some(interval),
        kinds: vec![(Kind::MmapFirstWrite, 1000, ms * 0.7e6), (Kind::CowAfterFork, copies, ms * 0.3e6)],
    }
}

/// Touches that a program timed itself.
fn own(ms: f64) -> OwnTimes {
    OwnTimes {
        faults: 1500,
        ns: ms * 1e6,
        kinds: vec![(Kind::MmapFirstWrite, 1000), (Kind::CowAfterFork, 500)],
    }
}

/// Rounds from pairs of times: that of the plain run, and the reported one of the watched run.
fn rounds(stat_ms: [(f64, f64); 3], copies: u64) -> Rounds {
    let stat = stat_ms.map(|(plain_ms, ms)| said(plain_ms, ms, 1.0, copies)).into();
    Rounds { stat, ..Rounds::new(Warm::new(false)) }
}

#[test]
fn a_machine_that_slows_down_for_a_run_is_no_error_and_what_recording_adds_is() {
    // The second round takes twice as long.
    let row = row("x", &rounds([(10.0, 10.4), (20.0, 21.2), (10.0, 10.5)], 500));
    assert_eq!((row.truth_ns, row.spread), (10e6, 2.0));
    let arm = &row.stat;
    assert!((arm.lengthened - 1.1).abs() < 1e-9, "{arm:?}");
    let (least, most) = arm.extremes.unwrap();
    assert!((least - 1.04).abs() < 1e-9 && (most - 1.06).abs() < 1e-9, "{arm:?}");
    assert!((arm.ratio.unwrap().value - 1.05).abs() < 1e-9, "{arm:?}");
    assert_eq!((arm.holds, arm.intervals), (2, 3), "the second is off by 1.2 ms");
    assert_eq!(row.record.ratio, None);
    assert!(notes(&row).is_empty());
    let (answer, verdict) = verdict(&[row]);
    assert!(
        answer == Answer::CannotSay
            && verdict.contains("stat measures 1.05")
            && verdict.contains("record could time no faults"),
        "{verdict}"
    );
}

#[test]
fn a_plain_run_with_the_interval_of_the_verb_is_the_yardstick() {
    // Intervals are 10 % wide to each side. The plain run before is off by nothing, 5 % and 20 %.
    let said: Vec<Said> = [None, Some(10.0), Some(10.5), Some(8.0)]
        .map(|before_ms| Said { before: before_ms.map(own), ..said(10.0, 10.0, 1.0, 500) })
        .into();
    let mut row = row("x", &rounds([(10.0, 10.0); 3], 500));
    row.stat = arm(&row.faults, &said);
    assert_eq!((row.stat.plain_holds, row.stat.plain_intervals), (2, 3), "{:?}", row.stat);
    let (answer, verdict) = verdict(std::slice::from_ref(&row));
    let programs = vec![row];
    let host = Host::default();
    let report = Report { schema: SCHEMA, verdict, answer, host, rounds: 4, is_interrupted: false, programs };
    let text = text(&report).replace('\n', " ");
    assert!(text.contains("says the truth in 2 of 3 rounds"), "{text}");
}

#[test]
fn a_kind_that_is_not_seen_is_told() {
    let row = row("x", &rounds([(10.0, 10.0); 3], 0));
    assert_eq!(notes(&row), ["x, stat: 0 instead of 500 (copy on write after fork), off by 100 %"]);
}

#[test]
fn a_ratio_within_the_limits_holds_one_outside_fails_and_one_across_cannot_say() {
    let answer = |ms: [f64; 3]| {
        let mut row = row("x", &rounds(ms.map(|ms| (10.0, ms)), 500));
        row.record = arm(&row.faults, &[said(10.0, 10.1, 1.0, 500)]);
        (row.stat.answer(), verdict(&[row]).0)
    };
    assert_eq!(answer([9.9, 10.0, 10.1]), (Answer::Holds, Answer::Holds));
    assert_eq!(answer([11.9, 12.0, 12.1]), (Answer::Fails, Answer::Fails));
    assert_eq!(answer([9.6, 10.6, 10.9]), (Answer::CannotSay, Answer::CannotSay));
}

#[test]
fn what_cannot_run_says_why() {
    let report = Report {
        schema: SCHEMA,
        verdict: "x".into(),
        answer: Answer::Holds,
        host: Host::default(),
        rounds: ROUNDS,
        is_interrupted: false,
        programs: vec![ProgramReport {
            program: "huge pages between",
            cannot_say: Some("none".into()),
            ..ProgramReport::default()
        }],
    };
    assert!(text(&report).contains("huge pages between  cannot say: none"), "{}", text(&report));
}

#[test]
fn intervals_that_miss_fail_once_they_are_more_than_chance_makes_of_enough() {
    assert_eq!(enough_hold(90, 100), Answer::Holds);
    assert_eq!(enough_hold(86, 100), Answer::CannotSay);
    assert_eq!(enough_hold(80, 100), Answer::Fails);
    assert_eq!(enough_hold(2, 3), Answer::CannotSay);
}

#[test]
fn of_a_standing_workload_the_mean_of_the_timed_touches_stands_for_all() {
    let own = OwnTimes::of(br#"{"schema":1,"name":"x","faults":1000,"first_touch_mean_ns":2000.0}"#).unwrap();
    assert_eq!((own.faults, own.ns, own.kinds.len()), (1000, 2e6, 0));
    assert!(OwnTimes::of(br#"{"schema":1,"faults":0,"first_touch_mean_ns":null}"#).is_err());
    // The verb reports 1500 faults, 500 of them outside the body: the touches make up two thirds of the time.
    let said = Said { own: own.clone(), ..said(0.0, 3.0, 0.3, 500) };
    let touches = said.of_touches().unwrap();
    assert!((touches.value - 2e6).abs() < 1.0, "{touches:?}");
}
