//! The destination of output: full devices, closed pipes, all kinds of `-o FILE`. Guards against lost reports
//! and litter.

use std::fs::{self, File, OpenOptions, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use faultless_wants as wants;

use crate::faultless;

fn stat_into(file: &Path, words: &[&str]) -> Command {
    let mut command = faultless(&["stat", "--sources", "none", "-o"]);
    command.arg(file).arg("--").args(words).stderr(Stdio::piped());
    command
}

fn folder() -> tempfile::TempDir {
    tempfile::tempdir().unwrap()
}

fn names(folder: &Path) -> Vec<String> {
    let name = |entry: std::io::Result<fs::DirEntry>| entry.unwrap().file_name().into_string().unwrap();
    fs::read_dir(folder).unwrap().map(name).collect()
}

fn is_report(file: &Path) -> bool {
    fs::read_to_string(file).unwrap().contains("faultless stat: ")
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// What is said of the output itself. Without a build of the whole workspace other programs are missing too.
fn of_output(output: &Output) -> String {
    let is_of_output = |line: &&str| !line.starts_with("faultless: completions left out: ");
    stderr(output).lines().filter(is_of_output).map(|line| format!("{line}\n")).collect()
}

#[test]
fn a_full_device_is_one_line_with_the_remedy() {
    for words in [&["man"][..], &["completions", "bash"], &["workload"]] {
        let full = OpenOptions::new().write(true).open("/dev/full").unwrap();
        let output = faultless(words).stdout(full).stderr(Stdio::piped()).output().unwrap();
        let said = of_output(&output);
        assert_eq!(output.status.code(), Some(2), "{words:?}: {said}");
        assert!(said.starts_with("faultless: standard output: No space left on device; "), "{said}");
        assert_eq!(said.lines().count(), 1, "{said}");
    }
}

#[test]
fn a_closed_pipe_is_no_failure() {
    for words in [&["man"][..], &["completions", "zsh"]] {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let output = faultless(words).stdout(writer).stderr(Stdio::piped()).output().unwrap();
        assert_eq!((output.status.code(), of_output(&output)), (Some(0), String::new()), "{words:?}");
    }
}

/// Starts a program that runs until killed, and waits until it runs.
fn started(folder: &Path) -> Child {
    let (runs, report) = (folder.join("runs"), folder.join("report"));
    let script = format!("echo >{}; exec sleep 1000", runs.display());
    let child = stat_into(&report, &["sh", "-c", &script]).spawn().unwrap();
    let begin = Instant::now();
    while !runs.exists() {
        assert!(begin.elapsed() < Duration::from_secs(300), "the program does not start");
        std::thread::sleep(Duration::from_millis(5));
    }
    child
}

#[test]
fn until_the_report_is_complete_nothing_lies_beside_its_file() {
    for signal in ["-INT", "-TERM", "-KILL"] {
        let folder = folder();
        let mut child = started(folder.path());
        assert_eq!(names(folder.path()), ["runs"]);
        let pid = child.id().to_string();
        // A killed faultless can't end its child, so the test does.
        let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
        assert!(Command::new("kill").args([signal, &pid]).status().unwrap().success());
        child.wait().unwrap();
        if signal == "-KILL" {
            for child in children.split_whitespace() {
                let _ = Command::new("kill").args(["-KILL", child]).stderr(Stdio::null()).status();
            }
            assert_eq!(names(folder.path()), ["runs"], "{signal}");
        } else {
            let mut found = names(folder.path());
            found.sort();
            assert_eq!(found, ["report", "runs"], "{signal}");
            assert!(is_report(&folder.path().join("report")));
        }
    }
}

/// Runs as an ordinary user, who is bound by the mode of a folder.
fn as_user(mut command: Command) -> std::io::Result<Output> {
    const NOBODY: u32 = 65534;
    if fs::metadata("/proc/self").unwrap().uid() == 0 {
        command.uid(NOBODY).gid(NOBODY);
    }
    command.output()
}

#[test]
fn a_writable_file_in_a_closed_folder_is_written() {
    let folder = folder();
    let file = folder.path().join("report");
    fs::write(&file, "old".repeat(10_000)).unwrap();
    fs::set_permissions(&file, Permissions::from_mode(0o666)).unwrap();
    fs::set_permissions(folder.path(), Permissions::from_mode(0o555)).unwrap();
    let written = as_user(stat_into(&file, &["true"]));
    let witness = folder.path().join("witness");
    let refused = as_user(stat_into(&folder.path().join("new"), &["touch", witness.to_str().unwrap()]));
    fs::set_permissions(folder.path(), Permissions::from_mode(0o755)).unwrap();
    let (written, refused) = match (written, refused) {
        (Ok(written), Ok(refused)) => (written, refused),
        (Err(error), _) | (_, Err(error)) => {
            return wants::missing_feature(
                "a target folder for all",
                format_args!("no ordinary user can run faultless: {error}"),
            );
        }
    };
    assert_eq!(written.status.code(), Some(0), "{}", stderr(&written));
    assert!(is_report(&file) && !fs::read_to_string(&file).unwrap().contains("old"));
    assert_eq!(refused.status.code(), Some(2));
    let said = stderr(&refused);
    assert!(said.contains("/new: Permission denied; name a FILE that can be written"), "{said}");
    assert!(said.lines().count() == 1 && !witness.exists(), "the program has not run: {said}");
}

#[test]
fn a_new_report_has_the_mode_of_the_old_one_which_stays_where_nothing_ran() {
    let folder = folder();
    let file = folder.path().join("report");
    fs::write(&file, "old").unwrap();
    fs::set_permissions(&file, Permissions::from_mode(0o600)).unwrap();
    assert!(stat_into(&file, &["true"]).status().unwrap().success());
    assert_eq!(file.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(stat_into(&file, &["faultless-no-such"]).output().unwrap().status.code(), Some(127));
    assert!(is_report(&file));
    assert_eq!(names(folder.path()), ["report"]);
}

#[test]
fn a_file_with_another_name_or_owner_keeps_both() {
    let folder = folder();
    let (file, other) = (folder.path().join("report"), folder.path().join("other"));
    fs::write(&file, "old").unwrap();
    fs::hard_link(&file, &other).unwrap();
    if let Err(error) = std::os::unix::fs::chown(&file, Some(65534), None) {
        wants::missing_feature("root", format_args!("the owner can't be changed: {error}"));
    }
    let owner = fs::metadata(&file).unwrap().uid();
    assert!(stat_into(&file, &["true"]).status().unwrap().success());
    assert!(is_report(&other) && fs::metadata(&file).unwrap().uid() == owner);
    assert_eq!(names(folder.path()).len(), 2);
}

#[test]
fn a_report_into_the_programs_own_output_comes_behind_it() {
    let folder = folder();
    let out = folder.path().join("out");
    for target in ["/dev/stdout", out.to_str().unwrap()] {
        let mut command = stat_into(Path::new(target), &["echo", "from the program"]);
        assert!(command.stdout(File::create(&out).unwrap()).status().unwrap().success());
        let text = fs::read_to_string(&out).unwrap();
        assert!(text.starts_with("from the program\n") && is_report(&out), "{target}: {text}");
    }
    let pipe = stat_into(Path::new("/dev/stdout"), &["true"]).output().unwrap();
    assert!(String::from_utf8_lossy(&pipe.stdout).contains("faultless stat: "), "{}", stderr(&pipe));
}

#[test]
fn a_fifo_gets_the_report() {
    let folder = folder();
    let fifo = folder.path().join("fifo");
    assert!(Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    let mut child = stat_into(&fifo, &["true"]).spawn().unwrap();
    assert!(is_report(&fifo));
    assert!(child.wait().unwrap().success());
    assert_eq!(names(folder.path()), ["fifo"]);
}

#[test]
fn what_names_a_folder_is_refused_and_links_lead_to_their_end() {
    let folder = folder();
    for target in [PathBuf::from(format!("{}/new/", folder.path().display())), folder.path().to_owned()] {
        let output = stat_into(&target, &["true"]).output().unwrap();
        assert_eq!(output.status.code(), Some(2));
        assert!(
            stderr(&output).to_lowercase().contains("is a directory; name a file"),
            "{}",
            stderr(&output)
        );
    }
    let [first, second, end] = ["first", "second", "end"].map(|name| folder.path().join(name));
    std::os::unix::fs::symlink("second", &first).unwrap();
    std::os::unix::fs::symlink("end", &second).unwrap();
    assert!(stat_into(&first, &["true"]).status().unwrap().success());
    assert!(first.is_symlink() && second.is_symlink() && is_report(&end));
}

#[test]
fn a_dash_is_stdout_for_every_verb_and_its_help_says_so() {
    let folder = folder();
    let run = |words: &[&str]| {
        let output = faultless(words).current_dir(folder.path()).output().unwrap();
        assert!(output.status.success(), "{words:?}: {}", stderr(&output));
        (String::from_utf8_lossy(&output.stdout).into_owned(), stderr(&output))
    };
    crate::traced::trace(&folder.path().join("faultless.trace"), &crate::traced::OLD, false);
    for (words, begins) in [
        (&["report"][..], "\n faultless report: "),
        (&["diff", "faultless.trace", "faultless.trace"], " None of 4 call sites changed"),
        (&["flame"], "<?xml"),
        (&["flame", "--json"], "{\n"),
        (&["timeline"], "<!DOCTYPE html>"),
        (&["timeline", "--json"], "{"),
        (&["export", "--format", "folded"], "program;program;main;"),
        (&["stat", "--sources", "none", "--", "true"], "\n faultless stat: true"),
        (&["stat", "--sources", "none", "--json", "--", "true"], "{\n"),
    ] {
        let [verb, rest @ ..] = words else { unreachable!() };
        let shown = run(&[&[verb, "-o", "-"], rest].concat()).0;
        assert!(shown.starts_with(begins), "{words:?}: {}", &shown[..shown.len().min(300)]);
        let help = run(&[verb, "-h"]).0.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(
            help.contains("stdout") && (help.contains("-, which is") || help.contains("- for stdout")),
            "{help}"
        );
    }
    let (out, err) = run(&["stat", "--sources", "none", "--json", "--", "true"]);
    assert!(out.is_empty() && err.starts_with("{\n"), "without -o as perf stat does it: {err}");
    assert_eq!(names(folder.path()), ["faultless.trace"]);
}
