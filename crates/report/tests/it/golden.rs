//! Fixed observation -> text, JSON, SVG. `cargo insta review` shows what a change does to them.

use faultless_report::json;
use faultless_report::stat::{explain, text};
use faultless_report::svg::{self, Bar};
use faultless_trace::observation::Access;
use faultless_trace::{Observation, Stat};

use super::scenario;

fn stat(observation: &Observation) -> Stat {
    Stat::from_observation(observation)
}

fn assert_fits(text: &str, width: usize) {
    for line in text.lines() {
        assert!(line.chars().count() <= width, "{} columns: {line}", line.chars().count());
        assert_eq!(line, line.trim_end());
    }
}

/// The answer, what the program used, the kinds and what to do next are on the first screen.
fn assert_first_screen(text: &str) {
    let screen: Vec<&str> = text.lines().take(24).collect();
    let at = |begin: &str| screen.iter().position(|line| line.starts_with(begin));
    let shown = screen.join("\n");
    assert!(shown.contains(" wall   ") && shown.contains(" peak RSS") && shown.contains("kind\n"), "{text}");
    let next = at(" Next").unwrap_or_else(|| panic!("nothing to do next on the first screen: {text}"));
    assert!(next + 2 < screen.len() || screen[next].starts_with(" Next:"), "{text}");
}

macro_rules! text_is {
    ($name:literal, $observation:expr) => {{
        let stat = stat(&$observation);
        let text = text(&stat, false, None);
        assert_fits(&text, 80);
        if stat.faults() > 0 {
            assert_first_screen(&text);
        }
        insta::assert_snapshot!($name, text);
    }};
}

macro_rules! explanation_is {
    ($name:literal, $observation:expr) => {{
        let text = explain(&stat(&$observation), false, None);
        assert_fits(&text, 100);
        insta::assert_snapshot!($name, text);
    }};
}

/// 1,700 faults, one kind after the other. Few are recorded, so little is known of each.
fn short() -> Observation {
    let mut script = scenario::Script::new("short --kinds=4", 60_000, 500_000);
    script.program(1);
    script.map(1, scenario::ANON, 8 * scenario::MIB, 3, "//anon");
    for page in 0..340 {
        script.fault(1, scenario::CODE + page % 0x100 * scenario::PAGE, Access::Execute);
    }
    for page in 0..340 {
        script.touch(1, scenario::CODE + 0x10_0000 + page % 16 * scenario::PAGE, 1);
    }
    script.touch(1, scenario::HEAP, 680);
    script.touch(1, scenario::ANON, 340);
    script.finish(40)
}

/// The short program as root, with 14,000 samples of kernel time.
fn short_as_root() -> Observation {
    let full = scenario::pipeline();
    let mut observation = short();
    observation.host.root = true;
    observation.counts.all_faults = observation.counts.user_faults.map(|user| user + 30);
    (observation.kernel, observation.sources) = (full.kernel, full.sources);
    if let Some(kernel) = &mut observation.kernel {
        kernel.period_ns = 250;
    }
    observation
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
fn text_of_a_short_run_gives_ranges() {
    text_is!("short", short());
    let text = text(&stat(&short()), false, None);
    assert!(text.lines().any(|line| line.starts_with(" About ")), "{text}");
}

#[test]
fn text_of_a_short_run_as_root_has_the_kernels_side() {
    text_is!("short_root", short_as_root());
    assert!(text(&stat(&short_as_root()), false, None).contains("Kernel (9 000 samples"));
    assert!(!text(&stat(&short()), false, None).contains("Kernel"));
}

#[test]
fn a_program_with_one_thread_has_no_block_of_threads() {
    let shown = text(&stat(&scenario::bursts()), false, None);
    assert!(!shown.contains("Threads") && !shown.contains("cannot say"), "{shown}");
    let missing = stat(&scenario::bursts()).missing;
    assert!(missing.is_empty(), "it is not missing, either: {missing:?}");
    assert!(text(&stat(&scenario::pipeline()), false, None).contains("Threads"));
}

#[test]
fn the_last_line_says_where_to_learn_what_is_missing() {
    let last = |text: &str| text.trim_end().lines().next_back().unwrap_or_default().to_owned();
    let shown = text(&stat(&scenario::denied(true)), false, None);
    assert_eq!(last(&shown), " --explain says what is missing and why");
    assert_eq!(shown.matches("seccomp").count(), 1, "why there are no times is said at once: {shown}");
    assert!(!text(&stat(&scenario::pipeline()), false, None).contains("--explain"), "nothing is missing");
}

#[test]
fn explanation_of_everything_and_of_what_is_denied() {
    explanation_is!("pipeline_explained", scenario::pipeline());
    explanation_is!("denied_explained", scenario::denied(true));
    explanation_is!("short_explained", short());
}

#[test]
fn text_of_an_overcount() {
    text_is!("orphan", scenario::orphan());
}

#[test]
fn a_narrow_reader_gets_narrow_lines_and_still_one_a_kind() {
    let figures = |text: &str| {
        let is_figure = |word: &&str| word.starts_with(|c: char| c.is_ascii_digit());
        let mut found: Vec<String> = text.split_whitespace().filter(is_figure).map(str::to_owned).collect();
        found.sort();
        found
    };
    let observations = [
        scenario::pipeline(),
        scenario::bursts(),
        scenario::denied(true),
        scenario::denied(false),
        scenario::orphan(),
        short_as_root(),
        Observation::default(),
    ];
    for observation in observations {
        let stat = stat(&observation);
        let narrow = text(&stat, false, Some(60));
        assert_fits(&narrow, 60);
        let wide = text(&stat, false, None);
        let other: Vec<String> =
            figures(&narrow).into_iter().filter(|figure| !figures(&wide).contains(figure)).collect();
        assert!(other.is_empty(), "{other:?}: {narrow}");
        for kind in stat.rows.iter().map(|row| row.kind.words()) {
            let is_told = |text: &str| text.lines().any(|line| line.ends_with(kind));
            assert_eq!(is_told(&narrow), is_told(&wide), "{kind}: {narrow}");
        }
        let head = |line: &&str| line.contains("faults") && line.contains("time") && line.ends_with("kind");
        assert!(stat.rows.is_empty() || narrow.lines().any(|line| head(&line)), "a row is a line: {narrow}");
        assert_fits(&explain(&stat, false, Some(60)), 60);
        assert_eq!(text(&stat, false, Some(300)), text(&stat, false, None), "a wide reader gets the same");
    }
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
