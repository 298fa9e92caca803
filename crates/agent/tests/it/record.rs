//! Recordings: by the real `faultless`, and by scripts in its place that fail in the ways a program can.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};

use faultless_trace::measurement::Interval;
use faultless_trace::why::{Advised, Mechanism};
use tempfile::TempDir;

use crate::agent::{Agent, Metrics, PROGRAM, until};
use crate::push::Collector;

/// Recordings as often as polls.
const OFTEN: [&str; 2] = ["--record-budget", "100"];

/// Something that loses most of its time to faults, until it is dropped.
struct Load(Child);

impl Load {
    fn start() -> Self {
        Self(crate::groups::load(2_000, 1_000_000, 0))
    }

    /// The label of its program.
    fn label(&self) -> String {
        let name = fs::read_to_string(format!("/proc/{}/comm", self.0.id())).unwrap();
        format!("program=\"{}\"", name.trim())
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// An agent that finds a script in the place of `faultless`, and the folder of its recordings.
pub(crate) struct Scripted {
    pub(crate) agent: Agent,
    folder: TempDir,
    _load: Load,
}

impl Scripted {
    /// The script runs with `verb` and `out`, the file or folder that it is to write. `steps` are lines of its `case`.
    fn start(steps: &str, more: &[&str]) -> Self {
        let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        let agent = folder.path().join("faultless-agent");
        fs::hard_link(PROGRAM, &agent).unwrap();
        let script = format!(
            "#!/bin/sh\ncd {}\nverb=$1\nwhile [ $# -gt 0 ]; do [ \"$1\" = -o ] && out=$2; shift; done\n\
             case $verb in\n{steps}\nesac\n",
            folder.path().display()
        );
        let faultless = folder.path().join("faultless");
        fs::write(&faultless, script).unwrap();
        fs::set_permissions(&faultless, fs::Permissions::from_mode(0o755)).unwrap();
        let load = Load::start();
        let dir = folder.path().join("dir");
        let words = [&["--record", dir.to_str().unwrap()][..], &OFTEN, more].concat();
        let agent = Agent::start_of(&agent, &words);
        Self { agent, folder, _load: load }
    }

    /// Each recording finds one mechanism, and has a cure.
    pub(crate) fn of_one_mechanism(more: &[&str]) -> Self {
        let saves_ns = Interval { low: 4e8, value: 5e8, high: 6e8 };
        let cure = Advised { how: "A=\"1\"".into(), saves_ns, ..Advised::default() };
        let found = Mechanism {
            id: "heap_top_trimmed".into(),
            share: 0.3,
            cures: vec![cure],
            ..Mechanism::default()
        };
        let findings = serde_json::json!({
            "cpu_ns": 2_000_000_000_u64,
            "avoidable": {"keep_bytes": 1 << 20, "low": 0.6, "high": 0.8},
            // One mechanism of two callers.
            "mechanisms": [found, found],
            "given_bytes_per_s": 3e6,
            "taken_bytes_per_s": 2e6,
        });
        let report = format!("report) cat >\"$out\" <<'END'\n{findings}\nEND\n;;");
        Self::start(&format!("record) echo >\"$out\";;\n{report}\nexport) ;;"), more)
    }

    fn left(&self) -> PathBuf {
        self.folder.path().join("dir/.recording")
    }
}

fn recordings(metrics: &Metrics, result: &str) -> f64 {
    metrics.sum("faultless_agent_recordings_total", &[result]).unwrap()
}

#[test]
fn what_a_recording_finds_becomes_metrics_of_its_program() {
    let Scripted { agent, .. } = &Scripted::of_one_mechanism(&[]);
    let mut found = Metrics::default();
    until("a recording", || {
        found = agent.scrape();
        found.sum("faultless_recorded_timestamp_seconds", &[]).is_some()
    });
    let of = |name: &str, labels: &[&str]| {
        let is_it =
            |series: &str| series.starts_with(name) && labels.iter().all(|label| series.contains(label));
        found.series.iter().find(|(series, _)| is_it(series)).map(|(_, value)| *value)
    };
    let mechanism = "mechanism=\"heap_top_trimmed\"";
    assert_eq!(
        of("faultless_mechanism_cpu_share", &[mechanism, "program=", "service=", "cgroup="]),
        Some(0.6)
    );
    let saved = |bound| of("faultless_mechanism_saving_share", &[mechanism, r#"cure="A=\"1\"""#, bound]);
    assert_eq!((saved(r#"bound="low""#), saved(r#"bound="high""#)), (Some(0.4), Some(0.6)));
    assert_eq!(of("faultless_avoidable_share", &["bound=\"low\""]), Some(0.6));
    assert_eq!(of("faultless_given_back_bytes_per_second", &[]), Some(3e6));
    assert_eq!(of("faultless_taken_again_bytes_per_second", &[]), Some(2e6));
    assert!(recordings(&found, "kept") >= 1.0);
    assert!(found.get("faultless_agent_recordings_cpu_seconds_total").is_some_and(|s| s > 0.0));
}

#[test]
fn a_recorder_that_is_killed_or_fails_is_counted_said_once_and_the_polls_go_on() {
    let Scripted { agent, .. } = &Scripted::start("record) kill -9 $$;;", &[]);
    let said = agent.says("no recording");
    assert!(said.contains("`faultless record`: signal: 9"), "{said}");
    let mut found = Metrics::default();
    until("three failures", || {
        found = agent.scrape();
        recordings(&found, "failed") >= 3.0
    });
    assert!(found.sum("faultless_recorded_timestamp_seconds", &[]).is_none(), "nothing was recorded");
    assert!(agent.said().iter().all(|line| !line.contains("no recording")), "once");
}

#[test]
fn a_recorder_that_hangs_ends_with_the_agent_and_leaves_nothing() {
    let mut scripted = Scripted::start("record) echo x >\"$out\"; echo $$ >pid; exec sleep 600;;", &[]);
    let pid = scripted.folder.path().join("pid");
    until("a recording", || fs::read_to_string(&pid).is_ok_and(|text| text.ends_with('\n')));
    let child = format!("/proc/{}", fs::read_to_string(&pid).unwrap().trim());
    assert!(Path::new(&child).exists() && scripted.left().exists());
    let score = fs::read_to_string(format!("{child}/oom_score_adj")).unwrap();
    assert_eq!(score.trim(), "1000", "where memory is short it goes before the agent");
    scripted.agent.signal("TERM");
    assert_eq!(scripted.agent.ended(), Some(0));
    assert!(!Path::new(&child).exists() && !scripted.left().exists());
}

/// `faultless` beside the agent, and the right to see stacks; `false`, noted, without.
fn can_record() -> bool {
    if !Path::new(PROGRAM).with_file_name("faultless").exists() {
        faultless_wants::missing_package("faultless", "`cargo build -p faultless` puts it beside the agent");
        return false;
    }
    let output = Command::new(PROGRAM).args(["--once", "--interval", "1s"]).output().unwrap();
    let metrics = Metrics::parse(&String::from_utf8(output.stdout).unwrap());
    let is_seen = metrics.sum("faultless_agent_source", &["stacks of faults"]) == Some(1.0);
    if !is_seen {
        faultless_wants::missing_feature("perf events of the whole machine", "no stacks of faults");
    }
    is_seen
}

#[test]
fn the_real_program_says_why_a_load_faults_and_keeps_parquet_and_a_profile() {
    if !can_record() {
        return;
    }
    let collector = Collector::start(&[200]);
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path().join("recordings");
    let load = Load::start();
    let words = ["--record", dir.to_str().unwrap(), OFTEN[0], OFTEN[1], "--pprof", &collector.url];
    let agent = Agent::start(&words);
    let label = load.label();
    let mut found = Metrics::default();
    // On a busy machine a recording may have lost its calls; the next one has them.
    until("a recording of the load with its calls", || {
        found = agent.scrape();
        found.sum("faultless_given_back_bytes_per_second", &[&label]).is_some()
    });
    let share = found.sum("faultless_mechanism_cpu_share", &[&label]).unwrap();
    assert!(share > 0.3, "all of it is in faults: {share}");
    let [given, taken] = ["given_back", "taken_again"]
        .map(|name| found.sum(&format!("faultless_{name}_bytes_per_second"), &[&label]).unwrap_or(0.0));
    assert!(given > 1e6 && taken > 0.5 * given, "{taken} of {given} bytes a second");
    let (_, head, body) = collector.taken.recv().unwrap();
    assert!(head.starts_with("POST /ingest?name=") && head.contains("&format=pprof"), "{head}");
    assert_eq!(body[..2], [0x1f, 0x8b], "gzipped, as pprof files are");
    assert!(fs::read_dir(dir.join("runs")).unwrap().next().is_some(), "no table of runs");
    assert!(found.get("faultless_agent_recorded_bytes").is_some_and(|bytes| bytes > 0.0));
}

/// A file system that is unmounted at the end.
struct Mount(TempDir);

impl Mount {
    /// Of so many KiB; `None`, noted, without the right.
    fn of_kib(kib: u32) -> Option<Self> {
        let mount = Self(tempfile::tempdir().unwrap());
        let mut command = Command::new("mount");
        command.args(["-t", "tmpfs", "-o", &format!("size={kib}k"), "tmpfs"]).arg(mount.0.path());
        if !command.output().is_ok_and(|output| output.status.success()) {
            faultless_wants::missing_feature("mounts", "no tmpfs");
            return None;
        }
        Some(mount)
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(self.0.path()).output();
    }
}

#[test]
fn a_full_disk_is_survived_and_said_once() {
    if !can_record() {
        return;
    }
    let Some(mount) = Mount::of_kib(64) else { return };
    let _load = Load::start();
    let agent = Agent::start(&["--record", mount.0.path().to_str().unwrap(), OFTEN[0], OFTEN[1]]);
    agent.says("no recording");
    until("two failures", || recordings(&agent.scrape(), "failed") >= 2.0);
    assert!(agent.said().iter().all(|line| !line.contains("no recording")), "once");
    // The agent's folder has nothing left but itself.
    drop(agent);
    assert!(fs::read_dir(mount.0.path()).unwrap().all(|entry| entry.unwrap().path().is_dir()));
}
