//! `export --format parquet`: the tables add up to `report`, DuckDB answers the questions of the documentation, and of
//! several traces the damaged one is named.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;

use faultless_wants as wants;
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::Field;
use serde_json::Value;

use crate::traced::Traces;
use crate::{FAULTLESS, machine, text};

const TABLES: [&str; 7] = ["frames", "kinds", "mechanisms", "prices", "runs", "samples", "sites"];

/// Exports in a folder: exit status and stderr.
fn export(folder: &Path, words: &str) -> (Option<i32>, String) {
    let words = format!("export --format parquet -o fleet {words}");
    let out = Command::new(FAULTLESS).args(words.split(' ')).current_dir(folder).output().unwrap();
    assert!(out.stdout.is_empty());
    (out.status.code(), text(&out.stderr))
}

/// All files below a folder.
fn files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() { found.extend(files(&path)) } else { found.push(path) }
    }
    found.sort();
    found
}

/// The sums of all columns of numbers, and the number of rows.
fn sums(folder: &Path, table: &str) -> BTreeMap<String, f64> {
    let mut sums = BTreeMap::new();
    for file in files(&folder.join("fleet").join(table)) {
        let reader = SerializedFileReader::new(File::open(file).unwrap()).unwrap();
        for row in reader.get_row_iter(None).unwrap() {
            *sums.entry("rows".to_owned()).or_default() += 1.0;
            for (name, field) in row.unwrap().get_column_iter() {
                let number = match field {
                    Field::Double(number) => *number,
                    Field::Long(number) => *number as f64,
                    Field::Int(number) => f64::from(*number),
                    _ => continue,
                };
                *sums.entry(name.clone()).or_default() += number;
            }
        }
    }
    sums
}

fn near(what: &str, value: f64, truth: f64) {
    assert!((value - truth).abs() <= 1e-6 * truth.abs() + 1e-3, "{what}: {value} is not {truth}");
}

/// The tables of a trace have the figures of its report.
fn adds_up(folder: &Path, trace: &str) {
    assert_eq!(export(folder, &format!("--service web {trace}")).0, Some(0));
    let report =
        Command::new(FAULTLESS).args(["report", "--json", trace]).current_dir(folder).output().unwrap();
    let report: Value = serde_json::from_slice(&report.stdout).unwrap();
    let faults = report["faults"].as_f64().unwrap();
    let cpu_ns = report["time_ns"]["value"].as_f64().unwrap();
    let wait_ns = report["wait_ns"].as_f64().unwrap();
    for (table, time) in
        [("runs", "fault_ns"), ("kinds", "time_ns"), ("sites", "time_ns"), ("samples", "fault_ns")]
    {
        let sums = sums(folder, table);
        near(&format!("{trace}: faults of {table}"), sums["faults"], faults);
        near(&format!("{trace}: CPU time of {table}"), sums[time], cpu_ns);
        near(&format!("{trace}: waits of {table}"), sums["wait_ns"], wait_ns);
    }
    let mechanisms = report["mechanisms"].as_array().unwrap();
    let found = sums(folder, "mechanisms");
    near("mechanisms", found.get("rows").copied().unwrap_or(0.0), mechanisms.len() as f64);
    let of = |row: &Value| row["fault_ns"]["value"].as_f64().unwrap();
    let (time, waits) = (found.get("time_ns"), found.get("wait_ns"));
    let time = time.zip(waits).map_or(0.0, |(time, waits)| time + waits);
    near("time of mechanisms", time, mechanisms.iter().map(of).sum());
}

#[test]
fn the_tables_of_a_trace_add_up_to_its_report() {
    let traces = Traces::new();
    adds_up(&traces.path(""), "old");
    let path = |table: &str| files(&traces.path("fleet").join(table))[0].clone();
    for table in TABLES {
        let path = path(table);
        let part = path.strip_prefix(traces.path("fleet")).unwrap().parent().unwrap().display().to_string();
        let begin = format!("{table}/date=2023-11-14/service=web/host=");
        assert!(part.starts_with(&begin), "{part}");
    }
    let run = path("runs").file_name().unwrap().to_owned();
    assert!(TABLES.iter().all(|table| path(table).file_name() == Some(&run)), "one name in all tables");
    export(&traces.path(""), "--service web old");
    assert_eq!(files(&traces.path("fleet")).len(), TABLES.len(), "replaced");
}

#[test]
fn the_tables_of_a_real_recording_add_up_to_its_report() {
    if !machine::recorder() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let words = ["record", "-o", "real", "--", FAULTLESS, "workload", "--quiet", "touch-once", "--mib=64"];
    let out = Command::new(FAULTLESS).args(words).current_dir(folder.path()).output().unwrap();
    assert!(out.status.success(), "{}", text(&out.stderr));
    adds_up(folder.path(), "real");
}

#[test]
fn of_several_traces_the_unreadable_one_is_named_and_the_rest_is_written() {
    let traces = Traces::new();
    fs::write(traces.path("text"), "hello").unwrap();
    let cut = fs::read(traces.path("new")).unwrap();
    fs::write(traces.path("cut"), &cut[..cut.len() / 2]).unwrap();
    let (status, said) = export(&traces.path(""), "--host a/b --release 1.4 old text cut nowhere");
    assert_eq!(status, Some(1), "{said}");
    assert!(
        said.contains("faultless: text: no trace file") && said.contains("faultless: nowhere: "),
        "{said}"
    );
    assert!(said.contains("faultless: cut: missing: "), "{said}");
    assert!(said.ends_with("faultless: fleet: 2 runs; 3 traces damaged or without an end\n"), "{said}");
    let runs = files(&traces.path("fleet/runs"));
    assert_eq!(runs.len(), 2);
    assert!(runs[0].display().to_string().contains("/service=program/host=a%2Fb/"), "{runs:?}");
    assert_eq!(files(&traces.path("fleet")).len(), 2 * TABLES.len(), "nothing is left beside them");
}

#[test]
fn wrong_words_are_one_line_with_a_remedy() {
    let traces = Traces::new();
    fs::write(traces.path("text"), "hello").unwrap();
    for (words, remedy) in [
        ("--format parquet old", "-o DIR"),
        ("--format parquet -o - old", "-o DIR"),
        ("--format parquet -o fleet text", "no trace file"),
        ("--format parquet -o fleet --kind heap old", "leave the filters out"),
        ("--format parquet -o fleet --service= old", "an empty name"),
        ("--format parquet -o text/fleet old", "name a DIR"),
        ("--format csv --service web old", "--format parquet"),
        ("--format csv old new", "--format parquet"),
    ] {
        let said = traces.refused(&format!("export {words}"));
        assert!(said.contains(remedy), "{words}: {said}");
    }
    assert!(!traces.path("fleet").exists());
}

/// Runs Python with DuckDB in a folder: what it prints. `None`: there is none.
fn duckdb(folder: &Path, script: &str) -> Option<String> {
    if !wants::program("python3", "python3") {
        return None;
    }
    let python =
        |script: &str| Command::new("python3").args(["-c", script]).current_dir(folder).output().unwrap();
    let has = python("import duckdb");
    if !has.status.success() {
        wants::missing_feature("duckdb", text(&has.stderr));
        return None;
    }
    let out = python(script);
    assert!(out.status.success(), "{}", text(&out.stderr));
    Some(text(&out.stdout))
}

#[test]
fn duckdb_answers_the_questions_of_the_documentation() {
    let traces = Traces::new();
    assert_eq!(export(&traces.path(""), "--service web=1&2 old").0, Some(0));
    assert_eq!(export(&traces.path(""), "--release 2 new").0, Some(0));
    let questions = include_str!("../../docs/parquet.md").split("```sql\n").skip(1);
    let questions: Vec<&str> = questions.map(|rest| rest.split("```").next().unwrap()).collect();
    assert_eq!(questions.len(), 3);
    for question in questions {
        let script = format!(
            "import duckdb\nfor row in duckdb.sql(\"\"\"{question}\"\"\").fetchall(): print(*row, sep='|')"
        );
        let Some(rows) = duckdb(&traces.path(""), &script) else { return };
        let is_about_prices = question.contains("prices");
        let services = ["web=1&2|", "program|"];
        assert!(
            is_about_prices || services.iter().all(|service| rows.contains(service)),
            "{question}: {rows}"
        );
    }
    let count = "import duckdb\nprint(*[duckdb.sql(f\"SELECT count(DISTINCT run) FROM \
                 read_parquet('fleet/{table}/**/*.parquet', hive_partitioning = true)\").fetchall()[0][0] \
                 for table in ['runs', 'kinds', 'sites', 'samples', 'frames']])";
    assert_eq!(duckdb(&traces.path(""), count).as_deref(), Some("2 2 2 2 2\n"));
}
