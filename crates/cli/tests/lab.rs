//! `faultless lab` from outside: what it keeps, what it says when something is wrong, and what its records become.

#![allow(clippy::print_stderr, reason = "skips print their reason")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

fn lab(words: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_faultless"));
    command.arg("lab").args(words).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn said(words: &[&str]) -> (Option<i32>, String, String) {
    told(&lab(words).output().unwrap())
}

fn told(output: &Output) -> (Option<i32>, String, String) {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code(), text(&output.stdout), text(&output.stderr))
}

fn path(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// Samples of a record as they lie on disk.
fn samples(folder: &Path) -> String {
    fs::read_to_string(folder.join("samples.csv")).unwrap_or_default()
}

/// What both halves of [`record`] said.
struct Run {
    folder: tempfile::TempDir,
    interrupted: (Option<i32>, String, String),
    page: String,
    before: String,
    finished: (Option<i32>, String, String),
}

/// A record that was interrupted after a few samples, and gone on with to its end; made once.
fn record() -> &'static Run {
    static RUN: OnceLock<Run> = OnceLock::new();
    RUN.get_or_init(|| {
        let folder = tempfile::tempdir().unwrap();
        let at = folder.path().join("record");
        let words = ["touch", "--quick", "-o", path(&at)];
        let child = lab(&words).spawn().unwrap();
        let begin = Instant::now();
        while samples(&at).lines().count() < 2 {
            assert!(begin.elapsed() < Duration::from_secs(60), "no sample was taken");
            std::thread::sleep(Duration::from_millis(2));
        }
        assert!(Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap().success());
        let interrupted = told(&child.wait_with_output().unwrap());
        let page = fs::read_to_string(at.join("report.html")).unwrap_or_default();
        let before = samples(&at);
        let finished = said(&[&words[..], &["--json"]].concat());
        Run { folder, interrupted, page, before, finished }
    })
}

fn folder() -> PathBuf {
    record().folder.path().join("record")
}

#[test]
fn ctrl_c_keeps_what_there_is_and_the_same_command_goes_on() {
    let run = record();
    let (code, tables, said) = &run.interrupted;
    assert_eq!(*code, Some(130), "{said}");
    assert!(said.contains("interrupted; what was measured is kept in"), "{said}");
    assert!(tables.contains("cells, "), "{tables}");
    assert!(run.page.contains("Not whole."), "the page says nothing of the end");
    let (code, json, said) = &run.finished;
    assert_eq!(*code, Some(0), "{said}");
    let json: serde_json::Value = serde_json::from_str(json).unwrap();
    assert!(json["claims"].is_array() && json["violations"].as_array().unwrap().is_empty(), "{json}");
    let after = samples(&folder());
    assert!(after.starts_with(&run.before) && after.len() > run.before.len());
    assert!(!fs::read_to_string(folder().join("report.html")).unwrap().contains("Not whole."));
}

#[test]
fn a_record_becomes_a_page_and_files_for_every_chart() {
    let record = folder();
    let elsewhere = tempfile::tempdir().unwrap();
    let (page, charts) = (elsewhere.path().join("page.html"), elsewhere.path().join("charts"));
    let (code, text, said) =
        said(&["report", path(&record), "-o", path(&page), "--charts", path(&charts), "--json"]);
    assert_eq!(code, Some(0), "{said}");
    assert!(serde_json::from_str::<serde_json::Value>(&text).is_ok(), "{text}");
    let page = fs::read_to_string(page).unwrap();
    assert!(page.starts_with("<!DOCTYPE html>") && page.contains("First touch by threads"));
    assert!(page.contains("faultless lab touch --quick") && page.contains("must be"));
    let without_names = page.replace("http://www.w3.org/2000/svg", "");
    let fetches =
        ["http:", "https:", "src=", "@import", "url("].iter().any(|word| without_names.contains(word));
    assert!(!fetches, "the page needs something from elsewhere");
    let table = fs::read_to_string(charts.join("touch-first.csv")).unwrap();
    assert!(table.starts_with("line,from,threads,value,low,high\n") && table.lines().count() > 4, "{table}");
    assert!(fs::read_to_string(charts.join("touch-first.svg")).unwrap().contains("<style>"));
}

#[test]
fn a_record_is_like_itself_and_changes_are_found() {
    /// How the lines of the cells begin that are left out.
    const REMOVED: &str = "touch,access=read mib=64 threads=1 ";
    let elsewhere = tempfile::tempdir().unwrap();
    let (a, b) = (folder(), elsewhere.path().join("changed"));
    let (code, text, _) = said(&["compare", path(&a), path(&a)]);
    assert_eq!(code, Some(0));
    assert!(text.contains("\n0 of ") && text.contains("the same cells in both"), "{text}");
    fs::create_dir(&b).unwrap();
    for file in ["plan.json", "host.txt", "notes.csv"] {
        fs::copy(a.join(file), b.join(file)).unwrap();
    }
    fs::write(b.join("host.txt"), "kernel: of another time\n").unwrap();
    let slower = |line: &str| match line.rsplit_once(",minor_faults,") {
        Some((head, value)) if head.contains("access=write") && head.ends_with("first") => {
            format!("{head},minor_faults,{}\n", value.parse::<f64>().unwrap() * 10.0)
        }
        _ => format!("{line}\n"),
    };
    let rows = samples(&a);
    let kept = rows.lines().filter(|line| !line.starts_with(REMOVED));
    fs::write(b.join("samples.csv"), kept.map(slower).collect::<String>()).unwrap();
    let page = elsewhere.path().join("page.html");
    let (code, json, said) = said(&["compare", path(&a), path(&b), "--json", "-o", path(&page)]);
    assert_eq!(code, Some(0), "{said}");
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    let first = &json["changes"][0];
    assert_eq!((first["kind"].as_str(), first["quantity"].as_str()), (Some("more"), Some("minor_faults")));
    assert!((first["ratio"]["value"].as_f64().unwrap() - 10.0).abs() < 0.1, "{first}");
    let removed = json["changes"].as_array().unwrap().iter().find(|change| change["kind"] == "removed");
    let cell = removed.and_then(|change| change["cell"].as_str()).unwrap_or_default();
    assert!(format!("touch,{cell}").starts_with(REMOVED), "{json}");
    let places = |name: &str| json["facts"].as_array().unwrap().iter().position(|fact| fact["name"] == name);
    assert!(places("kernel") < places("faultless"), "what differs comes first: {json}");
    assert!(fs::read_to_string(page).unwrap().contains("of another time"));
}

#[test]
fn wrong_words_are_answered_with_the_remedy() {
    let empty = tempfile::tempdir().unwrap();
    let nothing = path(empty.path());
    let record = folder();
    let record = path(&record);
    for (words, expected) in [
        (&["nonsense"][..], "there is no experiment nonsense; there are touch"),
        (&["report", nothing][..], "name the folder of a record of faultless lab"),
        (&["compare", nothing, nothing][..], "name the folder of a record of faultless lab"),
        (&["touch", "--quick", "-o", "/proc/nowhere"][..], "name a folder that can be written"),
        (&["stride", "--quick", "-o", record][..], "name another folder"),
        (&["report", record, "-o", "/proc/page.html"][..], "name a FILE that can be written"),
        (
            &["report", record, "-o", "/dev/null", "--charts", "/proc/charts"][..],
            "name a folder that can be written",
        ),
    ] {
        let (code, _, said) = said(words);
        assert_eq!(code, Some(2), "{words:?}: {said}");
        assert!(said.contains(expected) && said.lines().count() == 1, "{words:?}: {said}");
    }
    assert_eq!(fs::read_dir(empty.path()).unwrap().count(), 0, "nothing is left behind");
}

/// A file system of a few pages.
struct Small(PathBuf);

impl Small {
    fn mount(at: &Path) -> Option<Self> {
        let words = ["-t", "tmpfs", "-o", "size=32k", "tmpfs", path(at)];
        let done = Command::new("mount").args(words).stderr(Stdio::null()).status();
        done.is_ok_and(|status| status.success()).then(|| Self(at.to_owned()))
    }
}

impl Drop for Small {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(&self.0).status();
    }
}

#[test]
fn a_full_disk_keeps_whole_samples_and_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let Some(small) = Small::mount(folder.path()) else {
        eprintln!("skipped: a small file system can't be mounted here, which takes root");
        return;
    };
    let record = small.0.join("record");
    let (code, _, stderr) = said(&["touch", "--quick", "-o", path(&record)]);
    assert_eq!(code, Some(2), "{stderr}");
    assert!(
        stderr.contains("No space left on device") && stderr.contains("make room and start again"),
        "{stderr}"
    );
    let kept = samples(&record);
    assert!(kept.lines().count() > 1 && kept.ends_with('\n'), "{kept}");
    let elsewhere = tempfile::tempdir().unwrap();
    let page = elsewhere.path().join("page.html");
    let (code, _, stderr) = said(&["report", path(&record), "-o", path(&page)]);
    assert_eq!(code, Some(0), "{stderr}");
    assert!(fs::read_to_string(page).unwrap().contains("Not whole."));
}

#[test]
fn every_experiment_takes_the_faults_that_it_must() {
    let (code, text, said) = said(&["verify"]);
    assert_eq!(code, Some(0), "{text}{said}");
    assert!(text.contains(" 0 counts that can't be"), "{text}");
}
