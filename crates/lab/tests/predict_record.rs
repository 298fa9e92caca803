//! `faultless lab predict --record` and `faultless lab report --kernel` from outside, on a cut record.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

fn lab(words: &[&str]) -> (Option<i32>, String, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_faultless-lab")).args(words).output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code(), text(&output.stdout), text(&output.stderr))
}

fn record() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/predict/record")
}

const SMALL: [&str; 7] = ["predict", "--threads", "1", "--nodes", "1", "--samples", "4"];

/// A copy of the record with one table changed.
fn changed(table: &str, change: impl Fn(String) -> String) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for entry in fs::read_dir(record()).unwrap() {
        let entry = entry.unwrap();
        fs::copy(entry.path(), folder.path().join(entry.file_name())).unwrap();
    }
    let path = folder.path().join(table);
    fs::write(&path, change(fs::read_to_string(&path).unwrap())).unwrap();
    folder
}

#[test]
fn one_thread_equals_its_count_and_held_out_rows_stand_beside_theirs() {
    let record = record();
    let words = [&SMALL[..], &["--json", "--record", record.to_str().unwrap()]].concat();
    let (code, text, said) = lab(&words);
    assert_eq!(code, Some(0), "{said}");
    let json: serde_json::Value = serde_json::from_str(&text).unwrap();
    let sums = json["record"]["sums"].as_array().unwrap();
    assert_eq!(sums.len(), 4);
    for sum in sums {
        let (counted, predicted) = (sum["counted"].as_f64().unwrap(), sum["predicted"].as_f64().unwrap());
        assert!((counted - predicted).abs() < 0.5, "{sum}");
    }
    // The path is the count's, less what is certain to be under the zone lock.
    assert_eq!(json["parameters"]["path_instructions"][1].as_f64(), Some(1823.2), "{}", json["parameters"]);
    let rows = json["record"]["rows"].as_array().unwrap();
    let row = |cell: &str, figure: &str| {
        let found =
            rows.iter().find(|row| row["cell"].as_str().unwrap().contains(cell) && row["figure"] == figure);
        found.unwrap_or_else(|| panic!("{cell}: {rows:?}"))
    };
    for (cell, counted) in [("test=churn", 0.47), ("test=hot", 0.0), ("threads=2", 0.998)] {
        let row = row(cell, "hit-ratio");
        assert!((row["counted"].as_f64().unwrap() - counted).abs() < 0.01, "{row}");
        assert_eq!(row["holds"], true, "{row}");
    }
}

#[test]
fn a_count_that_the_model_does_not_give_is_not_held() {
    // All faults of the loop hit.
    let change = |text: String| {
        let is_hot = |line: &str| line.contains("test=hot") && line.contains("zero_miss");
        let line =
            |line: &str| if is_hot(line) { line.replace("zero_miss", "zero_hit") } else { line.to_owned() };
        text.lines().map(line).collect::<Vec<_>>().join("\n") + "\n"
    };
    let folder = changed("samples.csv", change);
    let words = [&SMALL[..], &["--record", folder.path().to_str().unwrap()]].concat();
    let (code, text, said) = lab(&words);
    assert_eq!(code, Some(0), "{said}");
    let row = text.lines().find(|line| line.contains("test=hot")).unwrap();
    assert!(row.trim_end().ends_with("no"), "{row}");
}

#[test]
fn a_model_stands_beside_the_verdicts_of_a_record() {
    let folder = tempfile::tempdir().unwrap();
    let cell = "fault-rate,arm=kernel threads=1 lines=1,1,timed,";
    fs::write(
        folder.path().join("samples.csv"),
        format!("experiment,cell,round,phase,quantity,value\n{cell}thread_cpu_ns,1\n{cell}pages,1\n"),
    )
    .unwrap();
    fs::write(folder.path().join("notes.csv"), "experiment,cell,round,kind,text\n,,0,ended,finished\n")
        .unwrap();
    let plan = fs::read_to_string(record().join("plan.json")).unwrap();
    fs::write(folder.path().join("plan.json"), plan.replace("kernel", "fault-rate")).unwrap();
    let (folder, kernel) = (folder.path().to_str().unwrap(), record());
    let (code, plain, said) = lab(&["report", folder]);
    assert_eq!(code, Some(0), "{said}");
    assert!(!plain.contains("modelled"), "{plain}");
    let (code, text, said) = lab(&["report", folder, "--kernel", kernel.to_str().unwrap()]);
    assert_eq!(code, Some(0), "{said}");
    for expected in [
        "modelled, agrees   zeroing loads and writes back all 128 cache lines of a page",
        "modelled, differs  prezeroing makes one thread 3.9 times as fast",
        "rests on kernel arm=base lines=1 pcp=short",
        "modelled, agrees; ",
    ] {
        assert!(text.contains(expected), "{expected}: {text}");
    }
    let page = fs::read_to_string(Path::new(folder).join("report.html")).unwrap();
    assert!(page.contains("verdict-differs"), "a filter for each verdict");
}

#[test]
fn wrong_records_are_answered_in_one_line() {
    let cut = changed("functions.csv", |text| text[..text.len() - 3].to_owned() + ",");
    let unpatched = changed("samples.csv", |text| text.replace("arm=base plan=lines", "arm=base plan=other"));
    for (folder, expected) in [
        ("/nowhere", "/nowhere"),
        (cut.path().to_str().unwrap(), "functions.csv"),
        (unpatched.path().to_str().unwrap(), "has no cell arm=base plan=lines; name a record"),
    ] {
        let (code, _, said) = lab(&[&SMALL[..], &["--record", folder]].concat());
        assert_eq!(code, Some(2), "{folder}: {said}");
        assert!(said.contains(expected) && said.trim_end().lines().count() == 1, "{folder}: {said}");
    }
}
