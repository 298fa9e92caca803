//! Trace files of made-up programs, for the verbs that read them.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use faultless_trace::file::{Line, Writer};
use faultless_trace::observation::{Calibration, Exit, Host, KernelSamples, Record, What};
use faultless_trace::recording::{Footer, Frame, Header, Module, Name, Settings, Stacks};

pub(crate) type Site = (&'static str, u64, u64);

pub(crate) const OLD: [Site; 4] =
    [("decode", 600, 900), ("index", 300, 800), ("load", 200, 1500), ("rest", 300, 700)];
const NEW: [Site; 4] = [("decode", 1200, 900), ("rank", 300, 800), ("load", 200, 1500), ("rest", 300, 700)];

/// Writes a complete recording of functions, each with a number of faults of this many ns.
pub(crate) fn trace(path: &Path, sites: &[Site], user_only: bool) {
    write(path, sites, user_only, None);
}

/// The same with kernel stacks: functions that a fault calls, each with a number of samples.
pub(crate) fn trace_with_kernel(path: &Path, functions: &[(&str, u64)]) {
    let stack = |leaf: &str| [leaf, "handle_mm_fault", "exc_page_fault"].map(str::to_owned).to_vec();
    let stacks: Vec<(Vec<String>, u64)> =
        functions.iter().map(|(leaf, count)| (stack(leaf), *count)).collect();
    let total = functions.iter().map(|function| function.1).sum();
    write(path, &OLD, false, Some(KernelSamples { period_ns: 1_000_000, total, stacks }));
}

fn write(path: &Path, sites: &[Site], user_only: bool, kernel: Option<KernelSamples>) {
    let calibration = Calibration {
        truth_p50_ns: 700.0,
        pair_p50_ns: 900.0,
        record_cost_ns: 600.0,
        pages: 100,
        offset_error_ns: 0.0,
        read_offset_ns: None,
        mapped_offset_ns: None,
    };
    let header = Header {
        tool: "test".into(),
        command: vec!["./program".into()],
        host: Host { page_bytes: 4096, ..Host::default() },
        calibration: Some(calibration),
        settings: Settings { every_fault: true, user_only, ..Settings::default() },
        begin_unix_ms: 1_700_000_000_000,
        ..Header::default()
    };
    let frame = |name: &str| Frame {
        module: Some(0),
        address: 16,
        names: vec![Name { function: name.into(), ..Name::default() }],
    };
    let mut stacks = Stacks {
        modules: vec![Module { path: "/opt/program".into(), ..Module::default() }],
        frames: vec![frame("main")],
        stacks: vec![],
    };
    for (at, site) in sites.iter().enumerate() {
        stacks.frames.push(frame(site.0));
        stacks.stacks.push(vec![at as u32 + 1, 0]);
    }
    let mut writer = Writer::new(fs::File::create(path).unwrap(), header).unwrap();
    writer.stacks(&stacks).unwrap();
    let (mut time_ns, mut addr) = (1_000_000, 0x7f00_0000_0000);
    for (at, (_, faults, price_ns)) in sites.iter().enumerate() {
        for _ in 0..*faults {
            let mut record = |time_ns, what| writer.record(Record { time_ns, pid: 7, tid: 7, what }).unwrap();
            record(time_ns, What::Enter { addr, ip: 16, kernel: false, access: None, mapped_bytes: None });
            record(
                time_ns + price_ns + 200,
                What::End { addr, major: false, stack: Some(at as u32), mapped_bytes: None },
            );
            time_ns += 5000;
            addr += 4096;
        }
    }
    let footer = Footer { exit: Exit::Status(0), kernel, ..Footer::default() };
    writer.line(&Line::Footer(Box::new(footer))).unwrap();
    writer.finish().unwrap();
}

pub(crate) struct Traces(tempfile::TempDir);

impl Traces {
    pub(crate) fn new() -> Self {
        let traces = Self(tempfile::tempdir().unwrap());
        trace(&traces.path("old"), &OLD, false);
        trace(&traces.path("new"), &NEW, false);
        traces
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn faultless(&self, words: &str) -> Output {
        let words = words.split_whitespace();
        Command::new(env!("CARGO_BIN_EXE_faultless")).args(words).current_dir(self.0.path()).output().unwrap()
    }

    pub(crate) fn out(&self, words: &str) -> String {
        let output = self.faultless(words);
        assert!(output.status.success(), "{words}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }

    pub(crate) fn refused(&self, words: &str) -> String {
        let output = self.faultless(words);
        assert_eq!(output.status.code(), Some(2), "{words}");
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(output.stdout.is_empty() && said.lines().count() == 1, "{words}: {said}");
        said
    }
}
