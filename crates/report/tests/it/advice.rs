//! Fixed runs of cures -> text, JSON and picture.

use faultless_report::advice::{svg, text};
use faultless_report::compare;
use faultless_report::json;
use faultless_trace::advice::{Advice, Expected, Terms, judge};
use faultless_trace::compare::Comparison;
use faultless_trace::observation::{Exit, Host};
use faultless_trace::rounds::{Arm, Run, Series};
use faultless_trace::stat::Interval;

/// Means of an arm's runs: elapsed ms, CPU ms, faults, ms in faults, peak MiB.
struct Means(f64, f64, f64, f64, f64);

/// `rounds` runs that scatter by a few percent, always the same.
fn series(name: &str, means: &Means, rounds: usize) -> Series {
    let Means(wall, cpu, faults, in_faults, rss) = *means;
    let noise = |round: usize, step: usize| 1.0 + 0.01 * ((round * (step + name.len() % 5) % 7) as f64 - 3.0);
    let run = |round: usize| Run {
        wall_ns: (wall * 1e6 * noise(round, 3)) as u64,
        cpu_ns: (cpu * 1e6 * noise(round, 5)) as u64,
        system_ns: 0,
        faults: (faults + 3.0 * (round % 4) as f64) as u64,
        peak_rss_bytes: (rss * f64::from(1 << 20)) as u64,
        exit: Exit::Status(0),
        stdout_hash: 1,
        stdout_bytes: 3,
        stdout_words: 1,
    };
    let recorded = |round: usize| {
        let seconds = in_faults / 1e3 * (1.0 + 2.0 * (noise(round, 4) - 1.0));
        Interval { value: seconds, low: seconds * 0.9, high: seconds * 1.1 }
    };
    let arm = Arm {
        name: name.into(),
        what: format!("what {name} does"),
        adopt: format!("adopt {} -- ./engine", name.replace(' ', "-")),
    };
    Series {
        arm,
        warm_up: run(90),
        runs: (0..rounds).map(run).collect(),
        fault_seconds: (0..(rounds / 4).max(1)).map(recorded).collect(),
        end_bytes: vec![((rss - 4.0) * f64::from(1 << 20)) as u64; (rounds / 4).max(1)],
        alike: faultless_trace::rounds::Alike::Whole,
    }
}

fn advice(arms: &[(&str, Means)], rounds: usize) -> Advice {
    let series = arms.iter().map(|(name, means)| series(name, means, rounds)).collect();
    judge(vec!["./engine".into()], Host::default(), series, &terms()).unwrap()
}

fn terms() -> Terms {
    Terms { max_rss_increase: 0.5, ..Terms::default() }
}

/// Two equally good cures, and one each that is slower, gains little, needs too much memory, has the same
/// faults, is uncertain, or breaks the program.
pub(super) fn everything() -> Advice {
    let arms = [
        ("as it is", Means(263.0, 422.0, 116_312.0, 223.0, 21.5)),
        ("glibc thresholds", Means(119.0, 152.0, 4_673.0, 13.9, 21.7)),
        ("glibc huge pages", Means(257.0, 411.0, 2_544.0, 94.5, 22.6)),
        ("pool", Means(73.2, 115.0, 700.0, 1.91, 22.4)),
        ("pool + huge heap", Means(72.2, 113.0, 701.0, 2.45, 22.4)),
        ("greedy", Means(70.0, 110.0, 600.0, 1.5, 40.0)),
        ("lucky", Means(200.0, 300.0, 116_000.0, 222.0, 21.5)),
        ("fatal", Means(5.0, 4.0, 100.0, 0.1, 2.5)),
        ("other words", Means(5.0, 4.0, 100.0, 0.1, 2.5)),
    ];
    let mut series: Vec<Series> = arms.iter().map(|(name, means)| series(name, means, 12)).collect();
    series[7].runs[3].exit = Exit::Signal(11);
    series[8].runs.iter_mut().for_each(|run| run.stdout_hash = 2);
    series[4].end_bytes.iter_mut().for_each(|bytes| *bytes += 40 << 20);
    series[2].runs.truncate(6);
    let mut expected = vec![Expected::default(); 2];
    expected[1].saves_ns = Some([2.1e8, 2.6e8]);
    let terms = Terms { expected, ..terms() };
    let mut advice = judge(vec!["./engine".into()], Host::default(), series, &terms).unwrap();
    advice.notes.push("a note of the caller".into());
    advice
}

/// Nothing helps, in too few rounds.
fn nothing(rounds: usize) -> Advice {
    let mean = || Means(100.0, 99.0, 5_000.0, 9.0, 21.5);
    advice(&[("as it is", mean()), ("pool", Means(101.0, 99.5, 400.0, 0.8, 22.0)), ("other", mean())], rounds)
}

fn shown(advice: &Advice) -> String {
    let text = text(advice, false, None);
    for line in text.lines() {
        assert!(line.chars().count() <= 100, "{} columns: {line}", line.chars().count());
        assert_eq!(line, line.trim_end());
    }
    text
}

#[test]
fn text_of_every_standing() {
    insta::assert_snapshot!("advice", shown(&everything()));
}

#[test]
fn a_narrow_reader_gets_narrow_lines_with_every_word() {
    let note = "a note that is longer than sixty characters, which is what a narrow terminal has";
    let narrow = |shown: &dyn Fn(Option<usize>) -> String| {
        let (narrow, wide) = (shown(Some(60)), shown(None));
        for line in narrow.lines() {
            assert!(line.chars().count() <= 60, "{} columns: {line}", line.chars().count());
            assert_eq!(line, line.trim_end());
        }
        let [mut words, mut all] = [&narrow, &wide].map(|text| text.split_whitespace().collect::<Vec<_>>());
        words.sort_unstable();
        all.sort_unstable();
        assert_eq!(words, all, "{narrow}");
    };
    let mut everything = everything();
    everything.notes.push(note.into());
    for advice in [everything, nothing(8), nothing(1), nothing(0)] {
        narrow(&|width| text(&advice, false, width));
    }
    let (short, long) = (Means(263.0, 422.0, 116_312.0, 223.0, 21.5), Means(73.2, 115.0, 700.0, 1.91, 22.4));
    let series = vec![series("./engine --old", &short, 12), series("./engine --new", &long, 12)];
    let mut broken = series.clone();
    broken[1].runs[3].exit = Exit::Status(3);
    narrow(&|width| compare::text(&Comparison::new(Host::default(), &broken), false, width));
    broken.swap(0, 1);
    broken.push(broken[1].clone());
    let said = compare::text(&Comparison::new(Host::default(), &broken), false, None);
    assert!(said.starts_with("B: no verdict, for runs of A ended differently.\nC: no verdict"), "{said}");
    let mut comparison = Comparison::new(Host::default(), &series);
    comparison.commands[1].prints_otherwise = true;
    comparison.notes.push(note.into());
    narrow(&|width| compare::text(&comparison, false, width));
    let wide = compare::text(&comparison, false, None);
    assert!(wide.lines().any(|line| line.starts_with("  CPU") && line.contains(" ms to ")), "{wide}");
}

#[test]
fn less_cpu_time_alone_is_a_share_and_no_speed() {
    let arms = [
        ("as it is", Means(100.0, 100.0, 116_312.0, 60.0, 21.5)),
        ("pool", Means(104.0, 80.0, 700.0, 1.91, 21.5)),
    ];
    let said = text(&advice(&arms, 12), false, None);
    let head = said.lines().next().unwrap();
    assert!(
        head.starts_with("pool: ") && head.contains(" % less CPU time (") && !head.contains('x'),
        "{head}"
    );
    let share: f64 = head[6..].split(' ').next().unwrap().parse().unwrap();
    assert!((18.0..=22.0).contains(&share), "{head}");
}

#[test]
fn text_of_nothing_that_helps() {
    insta::assert_snapshot!("advice_nothing", shown(&nothing(8)));
}

#[test]
fn text_of_one_round_and_of_none() {
    insta::assert_snapshot!("advice_one_round", shown(&nothing(1)));
    insta::assert_snapshot!("advice_no_round", shown(&nothing(0)));
}

#[test]
fn json_holds_the_intervals_and_the_labels() {
    let mut advice = everything();
    advice.scores.iter_mut().for_each(|score| score.figures.runs.truncate(1));
    insta::assert_snapshot!("advice.json", json(&advice));
}

#[test]
fn pictures_have_ends_only_where_there_are_some() {
    insta::assert_snapshot!("advice.svg", svg(&everything()));
    assert!(!svg(&nothing(1)).contains("inf") && !svg(&nothing(0)).contains("NaN"));
}
