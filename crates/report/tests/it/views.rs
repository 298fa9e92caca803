//! One total: every view and export of a recording adds up to the same faults and the same time.

use std::io::Write;

use faultless_report::export::parquet::Table;
use faultless_report::export::{self, Weight};
use faultless_report::flame::{self, Settings};
use faultless_report::timeline::{Shown, html};
use faultless_report::{profile as report, stat};
use faultless_trace::Stat;
use faultless_trace::diff::Run;
use faultless_trace::findings::{Findings, Wanted};
use faultless_trace::measurement::{Count, Nanos};
use faultless_trace::recording::Recording;
use faultless_trace::stat::Interval;
use faultless_trace::timeline::Timeline;
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::Field;

use super::{recorded, scenario};

const WIDE: report::Layout =
    report::Layout { colour: false, width: Some(200), whole: false, only_tables: false };

fn recordings() -> Vec<(&'static str, Recording)> {
    let of = |observation: faultless_trace::Observation| {
        let mut recording = Recording { observation, ..Recording::default() };
        recording.header.host = recording.observation.host.clone();
        recording.header.command.clone_from(&recording.observation.command);
        recording
    };
    let on_a_day = |(name, mut recording): (&'static str, Recording)| {
        recording.header.begin_unix_ms = 1_700_000_000_000;
        (name, recording)
    };
    let all = vec![
        ("sampled", recorded::mixed(false)),
        ("cold", recorded::cold()),
        ("pipeline", of(scenario::pipeline_of(8))),
    ];
    all.into_iter().map(on_a_day).collect()
}

/// The sum of the last words of all lines.
fn folded(recording: &Recording, run: &Run, weight: Weight) -> f64 {
    let mut out = Vec::new();
    export::folded::write(recording, &run.profile, weight, &mut out).unwrap();
    let text = String::from_utf8(out).unwrap();
    text.lines().map(|line| line.rsplit(' ').next().unwrap().parse::<f64>().unwrap()).sum()
}

fn table(recording: &Recording, run: &Run) -> [f64; 2] {
    let mut out = Vec::new();
    export::csv::faults(recording, &run.profile, &mut out).unwrap();
    let text = String::from_utf8(out).unwrap();
    let mut lines = text.lines();
    let head: Vec<&str> = lines.next().unwrap().split(',').collect();
    let at = |name: &str| head.iter().position(|one| *one == name).unwrap();
    let (faults, cost) = (at("faults"), at("cost_ns"));
    lines.fold([0.0; 2], |[a, b], line| {
        let cells: Vec<&str> = line.split(',').collect();
        [a + cells[faults].parse::<f64>().unwrap(), b + cells[cost].parse::<f64>().unwrap()]
    })
}

fn lines(recording: &Recording, run: &Run) -> [f64; 2] {
    let mut out = Vec::new();
    export::jsonl::write(recording, &run.profile, &mut out).unwrap();
    let text = String::from_utf8(out).unwrap();
    text.lines().fold([0.0; 2], |[a, b], line| {
        let fault: serde_json::Value = serde_json::from_str(line).unwrap();
        [a + fault["faults"].as_f64().unwrap(), b + fault["cost_ns"].as_f64().unwrap()]
    })
}

/// Of each Parquet table of faults: its name, and the sums of its faults, CPU time and waits.
fn parquet(recording: &Recording) -> Vec<(&'static str, [f64; 3])> {
    let run = export::parquet::Run::new(recording, "here", None).unwrap();
    let sums = |table: Table, columns: [&str; 3]| {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&table.file(&run).unwrap()).unwrap();
        let rows = SerializedFileReader::new(file).unwrap();
        let mut sums = [0.0; 3];
        for row in rows.get_row_iter(None).unwrap() {
            for (name, field) in row.unwrap().get_column_iter() {
                let Some(at) = columns.iter().position(|column| column == name) else { continue };
                sums[at] += match field {
                    Field::Double(number) => *number,
                    Field::Long(number) => *number as f64,
                    Field::Null => 0.0,
                    field => panic!("{}: {name}: {field}", table.name()),
                };
            }
        }
        (table.name(), sums)
    };
    vec![
        sums(Table::Runs, ["faults", "fault_ns", "wait_ns"]),
        sums(Table::Kinds, ["faults", "time_ns", "wait_ns"]),
        sums(Table::Sites, ["faults", "time_ns", "wait_ns"]),
        sums(Table::Samples, ["faults", "fault_ns", "wait_ns"]),
    ]
}

/// Whether the first sentence prints this time.
fn answer_tells(text: &str, seconds: Interval) -> bool {
    let line = text.lines().find(|line| line.contains("CPU time (")).unwrap();
    let words: Vec<&str> = line.split_whitespace().collect();
    let told = |number: &str, unit: &str| {
        let unit =
            [("us", 1e-6), ("ms", 1e-3), ("s", 1.0)].into_iter().find(|(name, _)| *name == unit).unwrap().1;
        number.parse::<f64>().unwrap() * unit
    };
    let near = |told: f64, value: f64| (told / value - 1.0).abs() < 0.05;
    match words[..] {
        ["About", value, unit, ..] | [value, "±", _, unit, ..] | [value, unit, ..] => {
            near(told(value, unit), seconds.value)
        }
        _ => false,
    }
}

#[test]
fn every_view_prints_the_same_time_and_the_same_faults() {
    for (name, recording) in recordings() {
        let run = Run::new(recording.clone());
        let totals = &run.profile.totals;
        let seconds = totals.time.as_ref().unwrap().seconds;
        // Text and pages differ in thin blanks and colours, not in digits.
        let (time, faults) = (Nanos(totals.time_ns()).to_string(), Count(totals.faults()).to_string());
        let plain = |text: String| text.replace('\u{202f}', " ");

        let text = stat::text(&Stat::from_observation(&recording.observation), false, None);
        assert!(answer_tells(&text, seconds), "{name}: {seconds:?}: {text}");
        let last = text.lines().find(|line| line.contains(" 100 % ") && line.contains(" all")).unwrap();
        assert!(last.contains(&faults), "{name}: {faults}: {last}");
        let findings = Findings::new(&recording, &Wanted { top: 9, ..Wanted::default() }).unwrap();
        let text = report::text(&findings, WIDE);
        assert!(answer_tells(&text, seconds), "{name}: {seconds:?}: {text}");
        let text = report::explain(&findings, WIDE);
        assert!(text.contains(&format!("{faults} faults")), "{name}: {text}");
        let timeline = Timeline::new(&recording, &run.profile);
        let page = plain(html(&[Shown { name, timeline: &timeline, stacks: &recording.stacks }]));
        let wait_ns: f64 = findings.wait_ns;
        let waits = match wait_ns > 0.0 {
            true => format!(", and {} of waits", Nanos(wait_ns)),
            false => String::new(),
        };
        let answer = format!("{time} in {faults} page faults{waits}</strong>");
        assert!(page.contains(&answer), "{name}: {answer}");
        let in_table = format!("data-name=\"in faults:\">{time}<small>");
        assert!(page.contains(&in_table), "{name}: the table of the timeline: {in_table}");
        let frames = flame::json(&run, Settings::default()).unwrap();
        let frames: serde_json::Value = serde_json::from_str(&frames).unwrap();
        let of = |name: &str| frames[name].as_f64().unwrap();
        assert_eq!(
            Nanos(of("whole") - of("wait_ns")).to_string(),
            Nanos(seconds.value * 1e9).to_string(),
            "{name}"
        );
        let picture = flame::svg(&run, Settings::default()).unwrap();
        let head = format!("{time} in {faults} faults{waits}");
        let picture = plain(picture);
        // The head of a picture is wrapped.
        let shown = picture.contains(&format!("{time} in {faults} faults"))
            && (wait_ns == 0.0 || picture.contains(&Nanos(wait_ns).to_string()));
        assert!(shown, "{name}: {head}");

        let near = |view: &str, value: f64, truth: f64, rounded: f64| {
            assert!(
                (value - truth).abs() <= rounded + 1e-6 * truth,
                "{name}: {view}: {value} is not {truth}"
            );
        };
        let stacks = run.profile.faults.len() as f64;
        near(
            "folded",
            folded(&recording, &run, Weight::Faults),
            totals.faults() as f64,
            0.5 * stacks.min(200.0),
        );
        near("folded", folded(&recording, &run, Weight::Time), totals.time_ns() + wait_ns, 200.0);
        for (view, [faults, cost_ns]) in
            [("csv", table(&recording, &run)), ("jsonl", lines(&recording, &run))]
        {
            near(view, faults, totals.faults() as f64, 1.0);
            near(view, cost_ns, totals.time_ns() + wait_ns, 1.0);
        }
        for (table, [faults, cpu_ns, waits_ns]) in parquet(&recording) {
            near(table, faults, totals.faults() as f64, 1e-3);
            near(table, cpu_ns, totals.time_ns(), 1.0);
            near(table, waits_ns, wait_ns, 1.0);
        }
    }
}
