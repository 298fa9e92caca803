//! `faultless lab` from outside: its records, its failures, and its pages.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

fn lab(words: &[&str]) -> Command {
    lab_by("env", &[], words)
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

/// Waits for something that comes soon.
fn until(what: impl Fn() -> bool) {
    let begin = Instant::now();
    while !what() {
        assert!(begin.elapsed() < Duration::from_secs(600), "it never came");
        std::thread::sleep(Duration::from_millis(2));
    }
}

fn send(signal: &str, child: &Child) {
    let words = [format!("-{signal}"), child.id().to_string()];
    assert!(Command::new("kill").args(words).status().unwrap().success());
}

/// `faultless lab` by way of another program, which becomes it after it has changed what a child inherits.
fn lab_by(program: &str, before: &[&str], words: &[&str]) -> Command {
    let mut command = Command::new(program);
    command.args(before).args([env!("CARGO_BIN_EXE_faultless-lab")]).args(words);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// The same, with files of at most `kib`. The kernel reports the limit by an error and not by a signal.
fn lab_on_a_short_disk(kib: usize, words: &[&str]) -> Output {
    // A block is 512 bytes (POSIX). In bash it is 1024, unless bash is called sh.
    let script = format!("trap '' XFSZ; ulimit -f {}; exec \"$0\" \"$@\"", kib * 2);
    lab_by("sh", &["-c", &script], words).output().unwrap()
}

/// What both halves of [`record`] said.
struct Run {
    folder: PathBuf,
    interrupted: (Option<i32>, String, String),
    page: String,
    before: String,
    finished: (Option<i32>, String, String),
}

/// A record that was interrupted after a few samples and then resumed. It is made once.
fn record() -> &'static Run {
    static RUN: OnceLock<Run> = OnceLock::new();
    RUN.get_or_init(|| {
        // A static is never dropped: the next run removes the folder of this one.
        let at = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("lab-record");
        let _ = fs::remove_dir_all(&at);
        let words = ["touch", "--quick", "-o", path(&at)];
        let child = lab(&words).spawn().unwrap();
        until(|| samples(&at).lines().count() > 1);
        send("TERM", &child);
        let interrupted = told(&child.wait_with_output().unwrap());
        let page = fs::read_to_string(at.join("report.html")).unwrap_or_default();
        let before = samples(&at);
        let finished = said(&[&words[..], &["--json"]].concat());
        Run { folder: at, interrupted, page, before, finished }
    })
}

fn folder() -> PathBuf {
    record().folder.clone()
}

#[test]
fn an_interrupted_run_keeps_what_there_is_and_the_same_command_goes_on() {
    let run = record();
    let (code, tables, said) = &run.interrupted;
    assert_eq!(*code, Some(130), "{said}");
    assert!(said.contains("interrupted; what was measured is kept in"), "{said}");
    assert!(tables.contains("cell, ") || tables.contains("cells, "), "{tables}");
    assert!(tables.contains("\ntouch: What do the first and the second touch"), "{tables}");
    assert!(run.page.contains("Not whole."), "the page says nothing of the end");
    let (code, json, said) = &run.finished;
    assert_eq!(*code, Some(0), "{said}");
    let json: serde_json::Value = serde_json::from_str(json).unwrap();
    assert!(json["claims"].is_array() && json["violations"].as_array().unwrap().is_empty(), "{json}");
    let after = samples(&folder());
    assert!(after.starts_with(&run.before) && after.len() > run.before.len());
    assert!(!fs::read_to_string(folder().join("report.html")).unwrap().contains("Not whole."));
}

/// The last line of a record's notes.
fn last_note(folder: &Path) -> String {
    let notes = fs::read_to_string(folder.join("notes.csv")).unwrap();
    notes.lines().last().unwrap_or_default().to_owned()
}

#[test]
fn ctrl_c_is_noted_in_the_record() {
    let able = Command::new("env").args(["--default-signal=INT", "true"]).stderr(Stdio::null()).status();
    if !able.is_ok_and(|status| status.success()) {
        return faultless_wants::missing_package(
            "coreutils",
            "env(1) can't undo that these tests may run with SIGINT ignored; that of GNU coreutils 8.31 can",
        );
    }
    let folder = tempfile::tempdir().unwrap();
    let words = ["touch", "--quick", "-o", path(folder.path())];
    let child = lab_by("env", &["--default-signal=INT"], &words).spawn().unwrap();
    until(|| samples(folder.path()).lines().count() > 1);
    send("INT", &child);
    let (code, _, said) = told(&child.wait_with_output().unwrap());
    assert_eq!(code, Some(130), "{said}");
    assert!(last_note(folder.path()).contains("interrupted"), "{}", last_note(folder.path()));
}

#[test]
fn a_job_in_the_background_that_ignores_ctrl_c_goes_on_and_can_be_ended() {
    let folder = tempfile::tempdir().unwrap();
    let words = ["touch", "--quick", "-o", path(folder.path())];
    let script = "trap '' INT; exec \"$0\" \"$@\"";
    let child = lab_by("sh", &["-c", script], &words).spawn().unwrap();
    let rows = || samples(folder.path()).lines().count();
    until(|| rows() > 1);
    send("INT", &child);
    let before = rows();
    // The sample that was being taken, and one that was begun afterwards.
    until(|| rows() > before + 100);
    send("TERM", &child);
    let (code, _, said) = told(&child.wait_with_output().unwrap());
    assert_eq!(code, Some(130), "{said}");
    assert!(last_note(folder.path()).contains("interrupted"), "{}", last_note(folder.path()));
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
    const REMOVED: &str = "touch,access=write memory=own lines=1 mib=64 threads=1 lock=no beside=none ";
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
        Some((head, value)) if head.contains("memory=shared") && head.ends_with("first") => {
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
fn a_record_that_was_stored_without_notes_and_plan_is_reported_and_says_so() {
    let elsewhere = tempfile::tempdir().unwrap();
    let (a, page) = (elsewhere.path().join("samples-only"), elsewhere.path().join("page.html"));
    fs::create_dir(&a).unwrap();
    for name in ["samples.csv", "host.txt"] {
        fs::copy(folder().join(name), a.join(name)).unwrap();
    }
    let (code, text, errors) = said(&["report", path(&a), "-o", path(&page)]);
    assert_eq!(code, Some(0), "{errors}");
    assert!(errors.contains("without plan.json and notes.csv"), "{errors}");
    assert!(text.contains("refused cells are not known") && !text.contains("0 cells refused"), "{text}");
    assert!(fs::read_to_string(page).unwrap().contains("without plan.json and notes.csv"));
    let (code, _, errors) = said(&["report", path(&elsewhere.path().join("none"))]);
    assert!(code == Some(2) && errors.contains("name the folder of a record"), "{errors}");
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

/// Checks the message and the record of a run that could not write all of it.
fn assert_kept_and_marked(record: &Path, output: &Output, why: &str) {
    let (code, _, stderr) = told(output);
    assert_eq!(code, Some(2), "{stderr}");
    assert!(stderr.contains(why) && stderr.contains("make room and start again"), "{stderr}");
    assert_eq!(stderr.lines().count(), 1, "{stderr}");
    let kept = samples(record);
    assert!(kept.lines().count() > 1 && kept.ends_with('\n'), "{kept}");
    let elsewhere = tempfile::tempdir().unwrap();
    let page = elsewhere.path().join("page.html");
    let (code, _, stderr) = said(&["report", path(record), "-o", path(&page)]);
    assert_eq!(code, Some(0), "{stderr}");
    assert!(fs::read_to_string(page).unwrap().contains("Not whole."));
}

#[test]
fn a_record_that_can_not_grow_keeps_whole_samples_and_says_why_it_ended() {
    let folder = tempfile::tempdir().unwrap();
    let output = lab_on_a_short_disk(16, &["touch", "--quick", "-o", path(folder.path())]);
    assert_kept_and_marked(folder.path(), &output, "samples.csv: File too large");
    let note = last_note(folder.path());
    assert!(note.contains("stopped by an error") && note.contains("samples.csv"), "{note}");
}

#[test]
fn every_experiment_takes_the_faults_that_it_must() {
    let (code, text, said) = said(&["verify"]);
    assert_eq!(code, Some(0), "{text}{said}");
    assert!(text.contains(" 0 counts that can't be"), "{text}");
}

#[test]
fn the_list_is_no_wider_than_the_reader_and_names_every_document() {
    let list = |columns: Option<&str>| {
        let mut command = lab(&["list"]);
        command.env_remove("COLUMNS").envs(columns.map(|columns| ("COLUMNS", columns)));
        told(&command.output().unwrap()).1
    };
    let (narrow, whole) = (list(Some("60")), list(None));
    assert!(narrow.lines().all(|line| line.chars().count() <= 60), "{narrow}");
    let words = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    assert_eq!(words(&narrow), words(&whole));
}

#[test]
fn an_experiment_has_a_help_and_its_documents_name() {
    let (code, text, _) = said(&["scale", "--help"]);
    assert_eq!(code, Some(0));
    assert!(text.starts_with("Where do page faults of several threads wait"), "{text}");
    assert!(text.contains("\n  threads     threads, or processes [default: 1,"), "{text}");
    assert!(text.contains("[default: interleaved,own,process,shared]"), "{text}");
    let (_, list, _) = said(&["list"]);
    assert!(list.contains("also: pipeline") && list.contains("also: random-mixed"), "{list}");
}

#[test]
fn the_kept_verdicts_are_those_of_this_program() {
    let records = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../record/lab");
    let elsewhere = tempfile::tempdir().unwrap();
    let mut count = 0;
    for record in fs::read_dir(records).unwrap().map(|record| record.unwrap().path()) {
        let Ok(kept) = fs::read_to_string(record.join("verdicts.json")) else { continue };
        let kept: serde_json::Value = serde_json::from_str(&kept).unwrap();
        let page = elsewhere.path().join("page.html");
        let (code, text, errors) = said(&["report", path(&record), "-o", path(&page), "--json"]);
        assert_eq!(code, Some(0), "{errors}");
        let found: serde_json::Value = serde_json::from_str(&text).unwrap();
        for part in ["claims", "unjudged"] {
            let [kept, found] = [&kept, &found].map(|all| all[part].as_array().unwrap());
            assert_eq!(kept.len(), found.len(), "{}: `faultless lab report --json` anew", record.display());
            kept.iter().zip(found).for_each(|(kept, found)| assert_eq!(kept, found));
        }
        count += 1;
    }
    assert!(count > 0);
}

/// Cells of a reader's choice, under the document's name for its program, in the document's columns.
#[test]
fn cells_of_ones_own_are_a_table_a_list_and_a_document() {
    let folder = tempfile::tempdir().unwrap();
    let of = |form: &[&str]| {
        let words =
            ["fault-rate", "mib=4", "threads=1,2", "memory=own", "--rounds", "2", "-o", path(folder.path())];
        let (code, text, errors) = said(&[&words, form].concat());
        assert_eq!(code, Some(0), "{errors}");
        text
    };
    let table = of(&[]);
    let head: Vec<&str> = table.lines().next().unwrap().split_whitespace().collect();
    let columns = ["User", "s", "System", "s", "Wall", "s", "flt/cpu/s", "fault/wsec", "GB/cpu/s", "GB/s"];
    assert_eq!(head, [&["memory", "lines", "mib", "threads"], &columns[..]].concat());
    let theirs = table.lines().filter(|line| line.starts_with("document")).count();
    let ours: Vec<&str> = table.lines().filter(|line| line.starts_with("here")).collect();
    assert_eq!((theirs, ours.len()), (17, 2), "{table}");
    assert!(table.contains("2 cells, 4 samples ("), "{table}");
    let json: serde_json::Value = serde_json::from_str(&of(&["--json"])).unwrap();
    assert!(json["figures"].as_array().unwrap().iter().any(|figure| figure["quantity"] == "minor_faults"));
    let page = fs::read_to_string(folder.path().join("report.html")).unwrap();
    assert!(page.contains("fault-rate with mib=4 threads=1,2 memory=own"), "the page says what was asked");
}

/// The kernel lab is started with all words as they are; a record of it belongs to it.
#[test]
fn the_kernel_lab_is_a_program_of_its_own() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let [own, other] = ["faultless-lab", "faultless-kernel-lab"].map(|name| folder.path().join(name));
    fs::hard_link(env!("CARGO_BIN_EXE_faultless-lab"), &own).unwrap();
    let kernel = || {
        let words = ["kernel", "diff", "--only", "added", "a", "-h"];
        told(&Command::new(&own).env("PATH", "/nowhere").args(words).output().unwrap())
    };
    let (code, _, errors) = kernel();
    assert!(code == Some(2) && errors.contains("`cargo install --path kernel/lab` installs it"), "{errors}");
    assert_eq!(errors.lines().count(), 1, "{errors}");
    fs::write(&other, "#!/bin/sh\necho \"$@\"\nexit 7\n").unwrap();
    fs::set_permissions(&other, fs::Permissions::from_mode(0o755)).unwrap();
    assert_eq!(kernel(), (Some(7), "diff --only added a -h\n".into(), String::new()));
    let row = "experiment,cell,round,phase,quantity,value\nkernel,arm=base,1,section,llc_misses,1\n";
    fs::write(folder.path().join("samples.csv"), row).unwrap();
    let (code, _, errors) = said(&["compare", path(folder.path()), path(folder.path())]);
    assert!(code == Some(2) && errors.contains("`faultless lab kernel diff`"), "{errors}");
}

#[test]
fn cells_that_can_not_be_are_one_line() {
    for (words, expected) in [
        (
            &["random-mixed", "size=1"][..],
            "prefault has no parameter size; it has way, operations, work, trap, mib",
        ),
        (&["touch", "copy", "mib=4"], "NAME=VALUE chooses cells of one experiment: name one"),
        (&["touch", "threads=2..1"], "touch: threads=2..1: a range is written FIRST..LAST"),
        (&["touch", "--rounds", "0"], "0"),
        (&["copy", "kind=none"], "kind=none: takes copy, read, write or read-scrub"),
        (&["copy", "kind=copy", "kind=read"], "kind is given twice: write kind=copy,read"),
        (&["nothing"], "there is no experiment nothing; there are touch, copy,"),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let into = folder.path().join("none");
        let (code, _, errors) = said(&[words, &["-o", path(&into)]].concat());
        assert!(!into.exists(), "{words:?} left a folder");
        assert_eq!(code, Some(2), "{errors}");
        assert!(errors.contains(expected) && errors.lines().count() == 1, "{errors}");
    }
}

#[test]
fn cells_that_are_all_refused_leave_the_reason_and_no_page() {
    let folder = tempfile::tempdir().unwrap();
    let into = folder.path().join("none");
    for _ in 0..2 {
        let words = ["price", "page=hugetlb", "mib=1048576", "--rounds", "1", "-o", path(&into)];
        let (code, text, errors) = said(&words);
        assert_eq!(code, Some(2), "{errors}");
        assert_eq!(errors.lines().count(), 1, "{errors}");
        assert!(errors.contains("left out: price kind=touch") && errors.contains("nr_hugepages"), "{errors}");
        assert!(text.starts_with("0 cells, 0 samples"), "{text}");
    }
    assert!(!into.join("report.html").exists());
}

#[test]
fn one_round_has_no_interval_and_a_foreign_table_is_no_record() {
    let folder = tempfile::tempdir().unwrap();
    let words = ["touch", "mib=1", "threads=1", "--rounds", "1", "--json", "-o", path(folder.path())];
    let (code, json, errors) = said(&words);
    assert_eq!(code, Some(0), "{errors}");
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    let figures = json["figures"].as_array().unwrap();
    assert!(!figures.is_empty() && figures.iter().all(|figure| figure["interval"].is_null()), "{json}");
    let other = tempfile::tempdir().unwrap();
    fs::write(other.path().join("samples.csv"), "name,value\na,1\n").unwrap();
    let (code, _, errors) = said(&["report", path(other.path())]);
    assert_eq!(code, Some(2), "{errors}");
    assert!(errors.contains("name the folder of a record of faultless lab"), "{errors}");
}
