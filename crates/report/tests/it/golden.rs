//! Fixed observation -> text, JSON, SVG. `cargo insta review` shows what a change does to them.

use faultless_report::stat::{json, text};
use faultless_report::svg::{self, Bar};
use faultless_trace::{Observation, Stat};

use super::scenario;

fn stat(observation: &Observation) -> Stat {
    Stat::from_observation(observation)
}

fn assert_fits(text: &str) {
    for line in text.lines() {
        assert!(line.chars().count() <= 100, "{} columns: {line}", line.chars().count());
        assert_eq!(line, line.trim_end());
    }
}

macro_rules! text_is {
    ($name:literal, $observation:expr) => {{
        let text = text(&stat(&$observation), false);
        assert_fits(&text);
        insta::assert_snapshot!($name, text);
    }};
}

#[test]
fn text_of_everything_at_once() {
    text_is!("pipeline", scenario::pipeline());
}

#[test]
fn text_of_a_sampled_run_as_a_user() {
    text_is!("bursts", scenario::bursts());
}

#[test]
fn text_where_all_events_are_denied() {
    text_is!("denied", scenario::denied(true));
    text_is!("denied_uncalibrated", scenario::denied(false));
}

#[test]
fn text_of_an_overcount() {
    text_is!("orphan", scenario::orphan());
}

#[test]
fn text_of_nothing() {
    text_is!("empty", Observation::default());
}

#[test]
fn json_of_a_fork() {
    insta::assert_snapshot!("fork.json", json(&stat(&scenario::fork())));
}

#[test]
fn colour_changes_no_letter() {
    let stat = stat(&scenario::pipeline());
    let coloured = text(&stat, true);
    assert!(coloured.contains("\x1b[1m"));
    let mut plain = String::new();
    let mut rest = coloured.as_str();
    while let Some((before, after)) = rest.split_once('\x1b') {
        plain.push_str(before);
        rest = after.split_once('m').map_or("", |(_, after)| after);
    }
    assert_eq!(plain + rest, text(&stat, false));
}

#[test]
fn picture_of_the_avoidable_curve() {
    insta::assert_snapshot!("pipeline.svg", svg::avoidable(&stat(&scenario::pipeline())));
    insta::assert_snapshot!("bursts.svg", svg::avoidable(&stat(&scenario::bursts())));
    insta::assert_snapshot!("empty.svg", svg::avoidable(&Stat::from_observation(&Observation::default())));
}

#[test]
fn picture_of_cures_compared() {
    let bar = |label: &str, value: f64, spread: f64, note: &str, highlight| Bar {
        label: label.into(),
        value,
        low: value - spread,
        high: value + spread,
        note: note.into(),
        highlight,
    };
    let bars = [
        bar("as it is", 4.21, 0.12, "4.21 s", false),
        bar("faultless run --policy thp", 1.18, 0.05, "1.18 s   3.6x, 3.3 to 3.8", true),
        bar("faultless run", 1.52, 0.3, "1.52 s   2.8x, 2.2 to 3.4", false),
        bar("GLIBC_TUNABLES=glibc.malloc.hugetlb=1", 2.6, 0.4, "2.60 s   1.6x, 1.4 to 1.9", false),
        bar("THP for the whole process", 4.4, 0.9, "4.40 s   no difference", false),
    ];
    let picture = svg::bars(
        "chunk-pipeline: less time under faultless run",
        "elapsed seconds, median of 10 rounds",
        &bars,
    );
    insta::assert_snapshot!("bars.svg", picture);
}
