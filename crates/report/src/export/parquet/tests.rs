//! The tables as a reader of the format finds them.

use std::io::Write;

use faultless_trace::observation::{Record, What};
use faultless_trace::profile::{Profile, Weighted};
use faultless_trace::recording::Frame;
use parquet::basic::{Compression, LogicalType, Repetition, Type};
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::Field;

use super::stacks::Stacks;
use super::{Run, SCHEMA, Table};
use crate::export::tests::{profile, recording};

fn read(table: Table, run: &Run<'_>) -> SerializedFileReader<std::fs::File> {
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(&table.file(run).unwrap()).unwrap();
    SerializedFileReader::new(file).unwrap()
}

/// The rows of a table as words: `column=value`.
fn rows(table: Table, run: &Run<'_>) -> Vec<Vec<String>> {
    let file = read(table, run);
    let words = |row: parquet::record::Row| {
        row.get_column_iter().map(|(name, field)| format!("{name}={field}")).collect::<Vec<String>>()
    };
    file.get_row_iter(None).unwrap().map(|row| words(row.unwrap())).collect()
}

#[test]
fn every_table_has_the_run_first_and_its_schema_in_the_metadata() {
    let recording = recording();
    let run = Run::new(&recording, "here", Some("1.4")).unwrap();
    assert!(run.id().len() == 32 && run.id().bytes().all(|digit| digit.is_ascii_hexdigit()), "{}", run.id());
    assert_eq!(run.date(), "2023-11-14");
    for table in Table::ALL {
        let file = read(table, &run);
        let metadata = file.metadata().file_metadata();
        let notes = metadata.key_value_metadata().unwrap();
        assert!(
            notes.iter().any(|note| note.key == "faultless.schema" && note.value.as_deref() == Some(SCHEMA))
        );
        let first = metadata.schema_descr().column(0);
        assert_eq!((first.name(), first.logical_type_ref()), ("run", Some(&LogicalType::String)));
        for row in rows(table, &run) {
            assert_eq!(row[0], format!("run=\"{}\"", run.id()), "{}", table.name());
        }
        for group in file.metadata().row_groups() {
            assert!(group.columns().iter().all(|column| column.compression() == Compression::LZ4_RAW));
        }
    }
}

#[test]
fn types_and_nulls_are_those_of_the_documentation() {
    let text = include_str!("../../../../cli/docs/parquet.md");
    let recording = recording();
    let run = Run::new(&recording, "here", None).unwrap();
    for table in Table::ALL {
        let section = text.split(&format!("### {}:", table.name())).nth(1).unwrap();
        let section = section.split("\n#").next().unwrap();
        let mut documented = Vec::new();
        for line in section.lines().filter(|line| line.starts_with("| `")) {
            let cells: Vec<&str> = line.split('|').map(str::trim).collect();
            documented.extend(cells[1].split(", ").map(|name| (name.trim_matches('`').to_owned(), cells[2])));
        }
        let file = read(table, &run);
        let columns = file.metadata().file_metadata().schema_descr().columns().to_vec();
        let found = columns.iter().map(|column| {
            let basic = column.self_type().get_basic_info();
            let name = match (column.physical_type(), column.logical_type_ref()) {
                (Type::BYTE_ARRAY, Some(LogicalType::String)) => "STRING",
                (Type::INT64, Some(LogicalType::Timestamp(_))) => "TIMESTAMP, UTC, us",
                (Type::INT64, None) => "INT64",
                (Type::INT32, None) => "INT32",
                (Type::DOUBLE, None) => "DOUBLE",
                (Type::BOOLEAN, None) => "BOOLEAN",
                other => panic!("{}: {other:?}", column.name()),
            };
            let may_be_null = if basic.repetition() == Repetition::OPTIONAL { " ?" } else { "" };
            (column.name().to_owned(), format!("{name}{may_be_null}"))
        });
        let found: Vec<(String, String)> = found.collect();
        let documented: Vec<(String, String)> =
            documented.into_iter().map(|(name, kind)| (name, kind.to_owned())).collect();
        assert_eq!(found, documented, "{}", table.name());
    }
}

#[test]
fn a_run_keeps_its_number_and_another_host_has_another() {
    let recording = recording();
    let id = |host| Run::new(&recording, host, None).unwrap().id().to_owned();
    assert_eq!(id("a"), id("a"));
    assert_ne!(id("a"), id("b"));
    let mut later = recording.clone();
    later.header.begin_ns += 1;
    assert_ne!(Run::new(&later, "a", None).unwrap().id(), id("a"));
    // Whoever changes this writes every run a second time.
    assert_eq!(
        format!("{:032x}", super::fnv1a(b"foobar".iter().copied())),
        "343e1662793c64bf6f0d3597ba446f18"
    );
}

#[test]
fn a_stack_has_a_row_a_function_and_a_place_without_a_name_its_offset() {
    let mut recording = recording();
    let sample = What::Sample {
        addr: 0x7010,
        ip: 1,
        kernel: false,
        major: false,
        access: None,
        stack: Some(0),
        weight: 1,
        mapped_bytes: None,
    };
    recording.observation.records.push(Record { time_ns: 2_000_000, pid: 10, tid: 10, what: sample });
    let run = Run::new(&recording, "here", None).unwrap();
    let samples = rows(Table::Samples, &run);
    // By the rule of the documentation, in another language. Whoever changes it splits each stack of a fleet in two.
    const STACK: &str = "stack=4589154729041028515";
    assert!(samples[0].contains(&STACK.to_owned()), "{samples:?}");
    assert!(samples[0].contains(&"time_ns=1000000".to_owned()), "since the begin: {samples:?}");
    let frames = rows(Table::Frames, &run);
    let of = |at: usize, word: &str| assert!(frames[at].contains(&word.to_owned()), "{:?}", frames[at]);
    of(0, STACK);
    of(0, "depth=0");
    of(0, "function=\"copy<a;b, \"q\">\"");
    of(0, "line=7");
    of(1, "depth=1");
    of(1, "address=4660");
    of(1, "build_id=\"c0ffee\"");
    of(2, "function=\"main\"");
}

#[test]
fn a_stack_has_one_number_wherever_the_code_outside_of_files_lies() {
    let mut recording = recording();
    let name = recording.stacks.frames[1].names[0].clone();
    let code = |address| Frame { module: None, address, names: vec![name.clone()] };
    recording.stacks.frames = vec![code(0x1000), code(0x2000), Frame { module: Some(0), ..code(0x2000) }];
    recording.stacks.stacks = vec![vec![0], vec![1], vec![2]];
    let profile = Profile {
        faults: [0, 1, 2]
            .map(|stack| Weighted { stack: Some(stack), ..profile(&recording).faults[0].clone() })
            .into(),
        ..Profile::default()
    };
    let stacks = Stacks::new(&recording.stacks, &profile);
    assert_eq!(stacks.numbers[&0], stacks.numbers[&1]);
    assert_ne!(stacks.numbers[&0], stacks.numbers[&2], "another module");
    assert_eq!(stacks.frames.len(), 2);
}

#[test]
fn what_nobody_knows_is_null_and_a_recording_without_a_day_is_refused() {
    let mut recording = recording();
    let run = Run::new(&recording, "here", None).unwrap();
    let row = &read(Table::Runs, &run).get_row_iter(None).unwrap().next().unwrap().unwrap();
    let of = |name: &str| row.get_column_iter().find(|(column, _)| *column == name).unwrap().1.clone();
    for name in ["cpu_ns", "release", "calls_ns", "is_guest", "kept_bytes"] {
        assert_eq!(of(name), Field::Null, "{name}");
    }
    assert_eq!(of("command"), Field::Str("'/usr/bin/pro gram'".into()));
    assert_eq!(of("build_id"), Field::Str("c0ffee".into()));
    assert_eq!(of("is_whole"), Field::Bool(false), "it has no end");
    assert_eq!(of("begin"), Field::TimestampMicros(1_700_000_000_000_000));
    recording.header.begin_unix_ms = 0;
    assert!(Run::new(&recording, "here", None).unwrap_err().contains("faultless record"));
}
