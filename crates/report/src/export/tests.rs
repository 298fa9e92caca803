//! One recording in every format, with hostile names.

use std::io::Write;
use std::path::Path;
use std::process::Command;

use faultless_trace::observation::{Level, Observation, Record, What};
use faultless_trace::profile::{Blocks, Profile, Weighted};
use faultless_trace::recording::{Frame, Header, Module, Name, Recording, Stacks};
use faultless_trace::stat::Kind;

use super::*;

fn name(function: &str, file: Option<&str>, line: Option<u32>) -> Name {
    Name { function: function.to_owned(), file: file.map(str::to_owned), line }
}

/// Two threads and three stacks. One stack has an inlined frame, one a frame without a name, and one refers
/// to frames that do not exist.
pub(super) fn recording() -> Recording {
    let frame = |module, address, names| Frame { module, address, names };
    let stacks = Stacks {
        modules: vec![
            Module {
                path: "/usr/bin/pro gram".to_owned(),
                build_id: Some("c0ffee".to_owned()),
                ..Module::default()
            },
            Module { path: "/lib/libc.so.6".to_owned(), ..Module::default() },
        ],
        frames: vec![
            frame(
                Some(0),
                0x1234,
                vec![
                    name("copy<a;b, \"q\">", Some("in,line.h"), Some(7)),
                    name("fill\nit", Some("a.c"), Some(12)),
                ],
            ),
            frame(Some(0), 0x2000, vec![name("main", Some("a.c"), Some(40))]),
            frame(Some(1), 0x88, vec![]),
            frame(Some(9), 0x99, vec![]),
        ],
        stacks: vec![vec![0, 1], vec![2, 1], vec![77, 3], vec![]],
    };
    let record = |time_ns, tid, what| Record { time_ns, pid: 10, tid, what };
    let records = vec![
        record(1_000_000, 10, What::Name("pro\"gram".to_owned())),
        record(1_000_100, 11, What::Name("wor;ker\u{1b}".to_owned())),
        record(1_000_200, 10, What::Alloc { addr: 0x7000, len_bytes: 8192, stack: Some(1) }),
        record(1_000_300, 11, What::Switch { out: false, preempted: false }),
        record(1_500_000, 11, What::LockWait { write: true, wait_ns: 400_000, by: None }),
        record(1_600_000, 10, What::Cpu { kernel: false, stack: Some(0) }),
        record(1_700_000, 11, What::Switch { out: true, preempted: true }),
        record(1_900_000, 10, What::Free { addr: 0x7000 }),
    ];
    let level = |time_ns, faults, anon_bytes| Level { time_ns, faults, anon_bytes };
    let levels = vec![level(1_000_000, 5, 1 << 20), level(2_000_000, 25, 3 << 20)];
    Recording {
        header: Header {
            command: vec!["/usr/bin/pro gram".to_owned()],
            begin_ns: 1_000_000,
            begin_unix_ms: 1_700_000_000_000,
            ..Header::default()
        },
        observation: Observation { records, levels, ..Observation::default() },
        stacks,
        ..Recording::default()
    }
}

#[allow(clippy::needless_update, reason = "a profile may get more fields")]
pub(super) fn profile(recording: &Recording) -> Profile {
    let fault = |time_ns, tid, stack, kind, faults, cost_ns| Weighted {
        time_ns,
        pid: 10,
        tid,
        addr: 0x7f00_0000_0000 + time_ns,
        stack,
        block: None,
        kind,
        mapping: 0,
        kernel: false,
        faults,
        cost_ns,
        wait_ns: 0.0,
    };
    let faults = vec![
        Weighted {
            block: Some(0),
            addr: 0x7010,
            ..fault(1_100_000, 10, Some(0), Kind::MmapFirstWrite, 1.0, 1500.4)
        },
        fault(1_101_000, 10, Some(0), Kind::MmapFirstWrite, 1.0, 2500.4),
        fault(1_200_000, 11, Some(1), Kind::Major, 97.0, 97_000.0),
        Weighted {
            kernel: true,
            mapping: 1,
            ..fault(1_200_500, 11, Some(2), Kind::FileRead, 97.0, 48_500.0)
        },
        fault(1_800_000, 11, None, Kind::Unplaced, 3.0, 0.0),
    ];
    Profile {
        faults,
        blocks: Blocks::new(&recording.observation),
        mappings: vec!["//anon".to_owned(), "/tmp/a \"b\",c".to_owned()],
        ..Profile::default()
    }
}

/// The recording above in a format.
pub(super) fn bytes(
    write: impl Fn(&Recording, &Profile, &mut dyn Write) -> std::io::Result<()>,
    recording: &Recording,
) -> Vec<u8> {
    let profile = if recording == &Recording::default() { Profile::default() } else { profile(recording) };
    let mut out = Vec::new();
    write(recording, &profile, &mut out).unwrap();
    out
}

fn text(write: impl Fn(&Recording, &Profile, &mut dyn Write) -> std::io::Result<()>) -> String {
    String::from_utf8(bytes(write, &recording())).unwrap()
}

#[test]
fn folded_stacks_hold_one_line_per_stack_whatever_the_names() {
    insta::assert_snapshot!("folded-time", text(|r, p, out| folded::write(r, p, Weight::Time, out)));
    insta::assert_snapshot!("folded-faults", text(|r, p, out| folded::write(r, p, Weight::Faults, out)));
}

#[test]
fn json_lines_resolve_everything() {
    let lines = text(jsonl::write);
    assert!(lines.lines().all(|line| serde_json::from_str::<serde_json::Value>(line).is_ok()));
    insta::assert_snapshot!("jsonl", lines);
}

#[test]
fn tables_have_the_same_number_of_fields_in_every_row() {
    let (faults, stacks) = (text(csv::faults), text(|r, _, out| csv::stacks(r, out)));
    for table in [&faults, &stacks] {
        let mut rows = ::csv::Reader::from_reader(table.as_bytes());
        assert!(rows.records().all(|row| row.is_ok()));
    }
    insta::assert_snapshot!("csv", faults);
    insta::assert_snapshot!("csv-stacks", stacks);
}

#[test]
fn an_empty_recording_is_a_valid_file_of_every_format() {
    let empty = Recording::default();
    assert!(bytes(|r, p, out| folded::write(r, p, Weight::Time, out), &empty).is_empty());
    assert!(bytes(jsonl::write, &empty).is_empty());
    assert!(bytes(csv::faults, &empty).starts_with(b"time_ns,"));
    assert!(bytes(perfetto::write, &empty).is_empty());
    assert!(bytes(pprof::write, &empty).starts_with(&[0x1f, 0x8b]));
    assert!(bytes(|r, p, out| firefox::write(r, p, Weight::Time, out), &empty).starts_with(b"{"));
}

#[test]
fn go_tool_pprof_reads_the_profile() {
    if !faultless_wants::program("go", "golang-go") {
        return;
    }
    // Go 1.25 and later build the tool when it is first used.
    let tools = Command::new("go").args(["env", "GOTOOLDIR"]).output().unwrap().stdout;
    let is_built = Path::new(String::from_utf8_lossy(&tools).trim()).join("pprof").exists();
    if !is_built && !faultless_wants::asked("FAULTLESS_TEST_PPROF", "go builds pprof first: a minute of CPU")
    {
        return;
    }
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(&bytes(pprof::write, &recording())).unwrap();
    let pprof = ["tool", "pprof", "-top", "-sample_index=time"];
    let said = Command::new("go").args(pprof).arg(file.path()).output().unwrap();
    let (top, errors) = (String::from_utf8_lossy(&said.stdout), String::from_utf8_lossy(&said.stderr));
    if errors.contains("no such tool") {
        return faultless_wants::missing_package("golang-go", errors);
    }
    assert!(said.status.success(), "{errors}");
    assert!(top.contains("libc.so.6+0x88"), "{top}");
    assert!(top.contains("97us"), "{top}");
}

#[test]
fn whole_numbers_add_up_to_the_whole() {
    let mut rounding = super::Rounding::default();
    let parts = [0.4, 0.4, 0.4, 10.3, 0.0, 0.5, 0.99];
    let given: Vec<i64> = parts.iter().map(|part| rounding.next(*part)).collect();
    assert_eq!(given.iter().sum::<i64>(), 13);
    assert!(given.iter().zip(parts).all(|(given, part)| (*given as f64 - part).abs() <= 1.0), "{given:?}");
}
