//! `faultless grep PATTERN` against ripgrep and GNU grep, on a tree of odd files.
//!
//! Guards against lines that only one of them finds. RG names another ripgrep.

use std::path::Path;
use std::process::{Command, Output, Stdio};

use fastrand::Rng;
use faultless_wants as wants;

use crate::{corpus, grep, index, queries};

fn ripgrep() -> Command {
    let mut command = Command::new(std::env::var_os("RG").unwrap_or("rg".into()));
    // Without it ripgrep 13 leaves out the colours of -p.
    command.env("TERM", "xterm");
    // Mapped files are searched for NUL bytes at other positions.
    command.args(["--no-config", "--no-mmap"]);
    command
}

fn output(mut command: Command, folder: &Path, words: &[String]) -> Output {
    command.args(words).current_dir(folder).stdin(Stdio::null()).output().unwrap()
}

/// Whether ripgrep is older than version 14. Such a version stops elsewhere at NUL bytes. It has other rules
/// for words, and for `$` before CR LF. It refuses non-ASCII bytes without Unicode. In named folders, it
/// ignores .gitignore lines with a slash.
fn is_old() -> bool {
    let version = ripgrep().arg("--version").output().unwrap().stdout;
    let major = String::from_utf8_lossy(&version).split([' ', '.']).nth(1).and_then(|word| word.parse().ok());
    major.is_none_or(|major: u32| major < 14)
}

/// Whether there is a ripgrep to compare with.
#[track_caller]
fn has_ripgrep() -> bool {
    let is_there = std::env::var_os("RG").is_some() || wants::program("rg", "ripgrep");
    if is_there && is_old() {
        wants::missing_package(
            "ripgrep 14",
            "an older one, which reads some queries otherwise: those are left out",
        );
    }
    is_there
}

/// A tree with a database.
fn tree(rng: &mut Rng) -> tempfile::TempDir {
    let root = tempfile::tempdir().unwrap();
    corpus::write(root.path(), rng);
    build(root.path(), "build");
    root
}

fn build(root: &Path, verb: &str) {
    let built = index().arg(verb).current_dir(root).output().unwrap();
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
}

/// The output without differences that are allowed: the order of files, and times.
fn comparable(words: &[String], stdout: &[u8]) -> Vec<Vec<u8>> {
    let has = |flag: &str| words.iter().any(|word| word == flag);
    if has("--json") {
        return json(stdout);
    }
    let end = if has("-0l") || has("--null-data") { 0 } else { b'\n' };
    let lines = stdout.split(|&byte| byte == end).map(<[u8]>::to_vec);
    if has("--stats") {
        // The index skips files that need not be searched.
        return lines.filter(|line| line.ends_with(b"matches") || line.ends_with(b"matched lines")).collect();
    }
    let mut lines: Vec<Vec<u8>> = lines.collect();
    if has("--crlf") {
        // With one thread ripgrep ends these in CR LF, with several it does not.
        lines.iter_mut().filter(|line| line[..] == *b"--\r").for_each(|line| line.truncate(2));
    }
    // Ripgrep searches named paths one after another.
    if !has("--sort=path") || has("src") || has("build") {
        lines.sort_unstable();
    }
    lines
}

fn json(stdout: &[u8]) -> Vec<Vec<u8>> {
    let lines = stdout.split(|&byte| byte == b'\n').filter(|line| !line.is_empty());
    let mut lines: Vec<Vec<u8>> = lines
        .map(|line| serde_json::from_slice::<serde_json::Value>(line).unwrap())
        .filter(|line| line["type"] != "summary")
        .map(|mut line| {
            line["data"]["stats"]["elapsed"] = serde_json::Value::Null;
            line.to_string().into_bytes()
        })
        .collect();
    lines.sort_unstable();
    lines
}

/// The difference between the two, if any.
fn difference(folder: &Path, words: &[String], ours: &Output, theirs: &Output) -> Option<String> {
    let [mine, other] = [ours, theirs].map(|output| comparable(words, &output.stdout));
    if mine == other && ours.status.code() == theirs.status.code() {
        return None;
    }
    let only = |these: &[Vec<u8>], those: &[Vec<u8>]| -> Vec<String> {
        let only = these.iter().filter(|line| !those.contains(line)).take(3);
        only.map(|line| String::from_utf8_lossy(&line[..line.len().min(200)]).into_owned()).collect()
    };
    Some(format!(
        "in {}: {words:?}: {} and {} lines, status {:?} and {:?}; only ours {:?}, only theirs {:?}; {}",
        folder.display(),
        mine.len(),
        other.len(),
        ours.status.code(),
        theirs.status.code(),
        only(&mine, &other),
        only(&other, &mine),
        String::from_utf8_lossy(&ours.stderr),
    ))
}

/// Where searches begin.
const PARTS: &[&str] = &["", "", "", "", "src", "src/4", "names", "ends", "nul", "encoding"];

fn compare(root: &Path, rng: &mut Rng, count: usize) {
    let (mut wrong, mut compared) = (Vec::new(), 0);
    let old = is_old();
    for _ in 0..count {
        let parts = if old { &PARTS[..7] } else { PARTS };
        let part = parts[rng.usize(..parts.len())];
        let folder = root.join(part);
        let mut words = queries::query(rng);
        match rng.u8(..8) {
            0 if part.is_empty() => words.extend(["src".into(), "nul/".into()]),
            1 if part.is_empty() => words.extend(["./ends".into(), "build".into(), ".hidden".into()]),
            2 if part.is_empty() && !old => words.push("nul/late".into()),
            3 if part.is_empty() && !old => words.extend(["names".into(), "src/7".into()]),
            _ => {}
        }
        // Every match of x* in a line of 3 MB, with the line, is too much output.
        if queries::shows_matches(&words) || rng.u8(..3) > 0 {
            words.push("-g!/long".into());
        } else {
            // ripgrep's read size grows with the longest line, and so does the position at which it notices a
            // NUL byte.
            words.push("-g!nul".into());
        }
        let is_byte_wise = words.iter().any(|word| word == "--no-unicode" || word.starts_with("(?-u"));
        let has_others = words.iter().any(|word| ["--crlf", "-w", "-wo"].contains(&word.as_str()));
        if old && (has_others || is_byte_wise && words.iter().any(|word| !word.is_ascii())) {
            continue;
        }
        if words.iter().any(|word| ["-uu", "-auu", "-."].contains(&word.as_str())) {
            words.push("-g!.faultless".into());
        }
        if old {
            words.extend(["-g!nul".into(), "-g!broken".into(), "-g!latin1".into()]);
        }
        let ours = output(grep(), &folder, &words);
        let theirs = output(ripgrep(), &folder, &words);
        wrong.extend(difference(&folder, &words, &ours, &theirs));
        compared += usize::from(!theirs.stdout.is_empty());
    }
    assert!(compared > count / 4, "{compared} of {count} queries were compared and found something");
    assert!(wrong.is_empty(), "{} of {count} queries:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn random_queries_find_what_ripgrep_finds_before_and_after_an_update() {
    if !has_ripgrep() {
        return;
    }
    let rng = &mut Rng::with_seed(20_141_220);
    let tree = tree(rng);
    compare(tree.path(), rng, 120);
    corpus::change(tree.path(), rng);
    build(tree.path(), "update");
    compare(tree.path(), rng, 60);
}

#[test]
fn without_a_database_it_finds_what_ripgrep_finds_and_says_so() {
    if !has_ripgrep() {
        return;
    }
    let rng = &mut Rng::with_seed(7);
    let tree = tempfile::tempdir().unwrap();
    corpus::write(tree.path(), rng);
    compare(tree.path(), rng, 60);
    let said = output(grep(), tree.path(), &["foobar".into()]).stderr;
    assert_eq!(said, b"faultless: no database here: the files are read; `faultless index init` makes one\n");
}

/// Words for GNU grep, and for us.
type Same = (&'static [&'static str], &'static [&'static str]);

#[test]
fn text_is_found_as_gnu_grep_finds_it_in_bytes() {
    if !wants::program("grep", "grep") {
        return;
    }
    let rng = &mut Rng::with_seed(1973);
    let tree = tree(rng);
    let queries: &[Same] = &[
        (&["-F", "foobar"], &["-F", "foobar"]),
        (&["-E", "fooo?bar"], &["fooo?bar"]),
        (&["-E", "-i", "the|and"], &["-i", "the|and"]),
        (&["-E", "^[a-f]+"], &["^[a-f]+"]),
        (&["-E", "bar$"], &["bar$"]),
        (&["-c", "-E", "int|x"], &["-c", "--include-zero", "int|x"]),
        (&["-l", "spin_lock"], &["-l", "spin_lock"]),
        (&["-L", "foo"], &["--files-without-match", "foo"]),
        (&["-v", "-E", "[a-z]"], &["-v", "[a-z]"]),
        (&["-w", "foo"], &["-w", "foo"]),
        (&["-x", "foo bar"], &["-x", "foo bar"]),
        (&["-o", "-E", "foo[a-z]*"], &["-o", "foo[a-z]*"]),
        (&["-A1", "-B2", "-F", "0x1f foobar"], &["-A1", "-B2", "-F", "0x1f foobar"]),
        (&["-b", "-o", "-F", "TODO"], &["-b", "-o", "-F", "TODO"]),
    ];
    for (gnu, words) in queries {
        let mut command = Command::new("grep");
        // We read a file with a byte order mark in its encoding; GNU grep reads its bytes.
        let without = ["--exclude-dir=.git", "--exclude-dir=.faultless", "--exclude=utf*"];
        command.env("LC_ALL", "C").args(["-a", "-r", "-n"]).args(without);
        let theirs = output(command, tree.path(), &gnu.iter().map(ToString::to_string).collect::<Vec<_>>());
        let ours = ["-a", "-uu", "-n", "--no-unicode", "-g!utf*", "-g!.git/"].iter().chain(*words);
        let ours: Vec<String> = ours.map(ToString::to_string).collect();
        let found = output(grep(), tree.path(), &ours);
        assert!(!theirs.stdout.is_empty(), "{gnu:?} finds nothing to compare");
        assert_eq!(difference(tree.path(), &ours, &found, &theirs), None);
    }
}
