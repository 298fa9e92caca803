//! Made-up rounds -> the findings on them.

use super::text::{notes, text};
use super::*;

fn said(plain_ms: f64, ms: f64, spread: f64, copies: u64) -> Said {
    let interval = Interval { value: ms * 1e6, low: (ms - spread) * 1e6, high: (ms + spread) * 1e6 };
    Said {
        own: own(1.1 * plain_ms),
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

/// What is said of a run between two plain ones, which take 0.8 and 1.2 times as long as given.
fn between(plain_ms: f64, said: Said) -> Between {
    Between { said, plain_ns: [0.8, 1.2].map(|by| own(by * plain_ms).price_ns()) }
}

/// Rounds from pairs of times: that of the plain runs, and the reported one of the watched run.
fn rounds(stat_ms: [(f64, f64); 3], copies: u64) -> Rounds {
    let stat = stat_ms.map(|(plain_ms, ms)| between(plain_ms, said(plain_ms, ms, 1.0, copies))).into();
    let plain =
        stat_ms.iter().flat_map(|(plain_ms, _)| [0.8, 1.0, 1.2].map(|by| own(by * plain_ms))).collect();
    Rounds { stat, plain, ..Rounds::new(Warm::new(false)) }
}

#[test]
fn a_plain_run_with_the_interval_of_the_verb_is_the_yardstick() {
    // Intervals are 10 % wide to each side. The middle plain run is off by nothing, 5 % and 20 %.
    let plain = [10.0, 10.5, 8.0].into_iter().flat_map(|ms| [9.0, ms, 11.0].map(own)).collect();
    let row = row("x", &Rounds { plain, ..rounds([(10.0, 10.0); 3], 500) });
    assert_eq!((row.stat.plain_holds, row.stat.plain_intervals), (2, 3), "{:?}", row.stat);
    let needed = plain_half_width(std::slice::from_ref(&row)).unwrap();
    assert!(0.2 < needed && needed < 0.25, "1 / 0.8 is off by a quarter; {needed}");
    let (answer, verdict) = verdict(std::slice::from_ref(&row));
    let report = Report {
        schema: SCHEMA,
        verdict,
        answer,
        host: Host::default(),
        rounds: 3,
        is_interrupted: false,
        plain_half_width: Some(needed),
        programs: vec![row],
    };
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
        let watched = [10.0, 10.1, 10.2].map(|ms| between(10.0, said(10.0, ms, 1.0, 500)));
        row.record = arm(&row.faults, &watched, &[1.0; 3]);
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
        plain_half_width: None,
        programs: vec![ProgramReport {
            program: "huge pages between",
            cannot_say: Some("none".into()),
            ..ProgramReport::default()
        }],
    };
    assert!(text(&report).contains("huge pages between  cannot say: none"), "{}", text(&report));
}

#[test]
fn intervals_that_miss_fail_once_neither_chance_nor_the_machine_explains_it() {
    let steady = (190, 200);
    assert_eq!(enough_hold((90, 100), steady), Answer::Holds);
    assert_eq!(enough_hold((86, 100), steady), Answer::CannotSay);
    assert_eq!(enough_hold((80, 100), steady), Answer::Fails);
    assert_eq!(enough_hold((2, 3), steady), Answer::CannotSay);
    // Plain runs miss as often, and then less often.
    assert_eq!(enough_hold((80, 100), (160, 200)), Answer::CannotSay);
    assert_eq!(enough_hold((70, 100), (160, 200)), Answer::Fails);
    assert_eq!(enough_hold((80, 100), (0, 0)), Answer::CannotSay);
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
