//! `faultless grep PATTERN` as a user sees it: words, output, exit status.

use std::fs;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Command, Output, Stdio};

pub(crate) fn grep(folder: &Path, words: &[&str]) -> Command {
    let mut command = crate::either(words);
    command.current_dir(folder).stdin(Stdio::null());
    command
}

pub(crate) fn run(folder: &Path, words: &[&str]) -> (i32, String, String) {
    told(grep(folder, words).output().unwrap())
}

pub(crate) fn told(output: Output) -> (i32, String, String) {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code().unwrap(), text(&output.stdout), text(&output.stderr))
}

/// A tree with a database.
pub(crate) fn tree() -> tempfile::TempDir {
    let root = tempfile::tempdir().unwrap();
    for (path, text) in [
        ("a/one.c", "int one;\nint two;\nlong three;\n"),
        ("a/two.h", "int four;\n"),
        ("b/three.c", "long five;\n"),
        ("b/.hidden", "int hidden;\n"),
        (".gitignore", "*.log\n"),
        ("c/x.log", "int logged;\n"),
        (".git/HEAD", "ref\n"),
    ] {
        let path = root.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    fs::write(root.path().join("b/binary"), b"int \0 binary\n").unwrap();
    let built = run(root.path(), &["build"]);
    assert_eq!(built.0, 0, "{}", built.2);
    root
}

#[test]
fn the_status_is_0_with_a_match_1_without_and_2_for_a_mistake() {
    let tree = tree();
    assert_eq!(run(tree.path(), &["int one"]), (0, "a/one.c:int one;\n".into(), String::new()));
    assert_eq!(run(tree.path(), &["nowhere"]), (1, String::new(), String::new()));
    assert_eq!(run(tree.path(), &["-q", "int"]), (0, String::new(), String::new()));
    for (words, remedy) in [
        (&["foo("][..], "foo(: unclosed group at character 4; -F takes it as text"),
        (&["-e", "x", "-e", "ä\np)"], "ä\\np): unopened group at character 4; -F takes it as text"),
        (&["-e", "(?<a>x)", "-e", "(?<a>y)"], "faultless: duplicate capture group name; -F takes"),
        (&["\\p{Foo}"], "Unicode property not found at character 1; -F takes it as text"),
        (&["--regex-size-limit=1K", "\\w{99}"], "--regex-size-limit allows more"),
        (&["a\\nb"], "-U matches line ends"),
        (&["a\\x00b"], "-a searches for NUL bytes"),
        (&[], "faultless grep PATTERN"),
        (&["-t", "nonsense", "x"], "nonsense; --type-list lists them"),
        (&["--type-add", "nonsense", "x"], "write it like this: 'web:*.html'"),
        (&["-g", "[", "x"], "missing ']'; a backslash before"),
        (&["-E", "nonsense", "x"], "faultless: nonsense: no such encoding; name one"),
        (&["-f", "missing", "x"], "faultless: missing: No such file or directory; name a FILE of patterns"),
        (&["x", "missing"], "name what exists"),
        (&["--nonsense", "x"], "faultless grep --help"),
        (&["--path-separator=ab", "x"], "more than one byte"),
        (&["-g", "*.none", "x"], "no file was searched"),
    ] {
        let (code, _, said) = run(tree.path(), words);
        assert!(
            code == 2
                && said.starts_with("faultless: ")
                && said.contains(remedy)
                && said.lines().count() == 1,
            "{words:?}: {code} {said}"
        );
    }
    let (code, found, _) = run(tree.path(), &["int one", ".", "missing"]);
    assert_eq!((code, found.as_str()), (2, "./a/one.c:int one;\n"), "matches, and what is missing");
    assert_eq!(run(tree.path(), &["-q", "int one", ".", "missing"]).0, 0);
    assert_eq!(run(tree.path(), &["--no-messages", "nowhere", "missing"]), (2, String::new(), String::new()));
}

#[test]
fn standard_input_is_read_from_where_it_is() {
    let tree = tree();
    let with = |input: Stdio, words: &[&str]| told(grep(tree.path(), words).stdin(input).output().unwrap());
    let open = || fs::File::open(tree.path().join("a/one.c")).unwrap();
    assert_eq!(with(open().into(), &["-n", "int", "-"]).1, "1:int one;\n2:int two;\n");
    let mut rest = open();
    rest.read_exact(&mut [0; 9]).unwrap();
    let found = with(rest.into(), &["-nH", "int", "-", "a/two.h", "-"]);
    assert_eq!(found, (0, "<stdin>:1:int two;\na/two.h:1:int four;\n".into(), String::new()));
    let (ours, mut theirs) = UnixStream::pair().unwrap();
    theirs.write_all(b"no\nint\n").unwrap();
    drop(theirs);
    assert_eq!(with(OwnedFd::from(ours).into(), &["-n", "int", "-"]).1, "2:int\n");
    let (code, _, said) = with(fs::File::open(tree.path()).unwrap().into(), &["int", "-"]);
    assert_eq!(
        (code, said.as_str()),
        (2, "faultless: standard input: Is a directory; give a file or pipe\n")
    );
    let zeros = fs::File::open("/dev/zero").unwrap();
    assert_eq!(with(zeros.into(), &["-q", "--null-data", "^$", "-"]).0, 0, "an input without an end");
}

#[test]
fn a_current_folder_that_has_gone_is_named() {
    let gone = tempfile::tempdir().unwrap();
    let links = tempfile::tempdir().unwrap();
    let index = crate::index_link(links.path());
    for words in [
        format!("{} x", crate::PROGRAM),
        format!("{} build", index.display()),
        format!("{} info", index.display()),
    ] {
        let script = format!("rmdir \"$PWD\" && {words}");
        let folder = tempfile::tempdir_in(gone.path()).unwrap();
        let output = Command::new("sh").args(["-c", &script]).current_dir(folder.path()).output().unwrap();
        let (code, _, said) = told(output);
        let expected =
            "faultless: current folder: No such file or directory; change to a folder that exists\n";
        assert_eq!((code, said.as_str()), (2, expected), "{words}");
    }
}

#[test]
fn paths_are_shown_as_they_were_named() {
    let tree = tree();
    let absolute = tree.path().join("a");
    let shown = |folder: &str, words: &[&str]| run(&tree.path().join(folder), words).1;
    assert_eq!(shown("", &["-l", "four"]), "a/two.h\n");
    assert_eq!(shown("", &["-l", "four", "."]), "./a/two.h\n");
    assert_eq!(shown("", &["-l", "four", "a/"]), "a/two.h\n");
    assert_eq!(shown("a", &["-l", "four"]), "two.h\n");
    assert_eq!(shown("b", &["-l", "four", "../a"]), "../a/two.h\n");
    assert_eq!(shown("b", &["four"]), "");
    assert_eq!(
        shown("b", &["-l", "four", absolute.to_str().unwrap()]),
        format!("{}/two.h\n", absolute.display())
    );
    assert_eq!(shown("", &["four", "a/two.h"]), "int four;\n", "one file needs no name");
    assert_eq!(
        run(Path::new("/"), &["-l", "four", absolute.to_str().unwrap()]).2,
        "",
        "its database is found"
    );
}

#[test]
fn what_the_database_leaves_out_is_read_when_it_is_asked_for() {
    let tree = tree();
    let found = |words: &[&str]| {
        let mut found: Vec<String> = run(tree.path(), words).1.lines().map(str::to_owned).collect();
        found.sort();
        found
    };
    assert_eq!(found(&["-l", "int"]), ["a/one.c", "a/two.h"]);
    assert_eq!(found(&["-l", "--hidden", "int"]), ["a/one.c", "a/two.h", "b/.hidden"]);
    assert_eq!(found(&["-l", "--no-ignore", "int"]), ["a/one.c", "a/two.h", "c/x.log"]);
    assert_eq!(found(&["-l", "-a", "int"]), ["a/one.c", "a/two.h", "b/binary"]);
    assert_eq!(found(&["-l", "-uuu", "int"]), ["a/one.c", "a/two.h", "b/.hidden", "b/binary", "c/x.log"]);
    assert_eq!(found(&["-l", "-g.hidden", "int"]), ["b/.hidden"]);
    assert_eq!(found(&["int", "c/x.log"]), ["int logged;"]);
    assert_eq!(
        run(tree.path(), &["--sort=path", "-luuu", "int"]).1,
        "a/one.c\na/two.h\nb/.hidden\nb/binary\nc/x.log\n"
    );
    fs::remove_file(tree.path().join("b/binary")).unwrap();
    for flag in ["-a", "--binary"] {
        assert_eq!(
            run(tree.path(), &["-l", "--sort=path", flag, "int"]),
            (0, "a/one.c\na/two.h\n".into(), String::new())
        );
    }
}

#[test]
fn a_file_that_is_ignored_since_the_update_is_read_with_no_ignore() {
    let tree = tree();
    fs::write(tree.path().join(".gitignore"), "*.log\ntwo.*\n").unwrap();
    let found = |words: &[&str]| run(tree.path(), &[&["--sort=path", "-l", "int"], words].concat()).1;
    assert_eq!(found(&["--fresh"]), "a/one.c\n");
    assert_eq!(found(&["--fresh", "--no-ignore"]), "a/one.c\na/two.h\nc/x.log\n");
    assert!(run(tree.path(), &["update"]).0 == 0);
    assert_eq!(found(&["--no-ignore"]), "a/one.c\na/two.h\nc/x.log\n");
}

#[test]
fn a_named_folder_that_is_ignored_since_the_update_is_read() {
    let tree = tree();
    for number in 0..9 {
        fs::write(tree.path().join(format!("a/{number}.c")), "long text;\n").unwrap();
    }
    assert_eq!(run(tree.path(), &["build"]).0, 0);
    fs::write(tree.path().join(".gitignore"), "b/\n").unwrap();
    let expected = (0, "b/three.c\n".to_owned(), String::new());
    assert_eq!(run(tree.path(), &["--fresh", "-l", "five", "b"]), expected);
    assert_eq!(run(tree.path(), &["update"]).0, 0);
    assert_eq!(run(tree.path(), &["-l", "five", "b"]), expected);
    assert_eq!(run(tree.path(), &["-l", "five"]).0, 1);
}

#[test]
fn a_pattern_is_never_a_verb() {
    let tree = tempfile::tempdir().unwrap();
    fs::create_dir(tree.path().join("a")).unwrap();
    for verb in crate::VERBS.iter().chain(&["search", "grep", "index", "help", "man", "completions"]) {
        fs::write(tree.path().join("a/verbs"), format!("a {verb} b\n")).unwrap();
        let found = told(crate::grep().args([verb, "a"]).current_dir(tree.path()).output().unwrap());
        assert_eq!(found.1, format!("a/verbs:a {verb} b\n"));
    }
}

#[test]
fn flags_in_the_environment_come_before_those_of_the_line() {
    let tree = tree();
    let with = |options: &str, words: &[&str]| {
        told(grep(tree.path(), words).env("FAULTLESS_GREP_OPTIONS", options).output().unwrap())
    };
    assert_eq!(with("-n --field-match-separator ' | '", &["four"]).1, "a/two.h | 1 | int four;\n");
    assert_eq!(with("-n", &["-N", "four"]).1, "a/two.h:int four;\n");
    assert_eq!(with("-i", &["FOUR"]).1, "a/two.h:int four;\n");
    assert_eq!(with("'", &["four"]).0, 2);
    let broken = std::ffi::OsStr::from_bytes(b"-n\xff");
    let (code, _, said) =
        told(grep(tree.path(), &["four"]).env("FAULTLESS_GREP_OPTIONS", broken).output().unwrap());
    let expected = "faultless: FAULTLESS_GREP_OPTIONS: -n\u{fffd}: not UTF-8; write flags in UTF-8\n";
    assert_eq!((code, said.as_str()), (2, expected));
}

#[test]
fn limits_hold_in_all_and_visual_studio_has_its_form() {
    let tree = tree();
    assert_eq!(run(tree.path(), &["--limit=2", "int"]).1, "a/one.c:int one;\na/one.c:int two;\n");
    assert_eq!(run(tree.path(), &["--limit=1", "-l", "int"]), (0, "a/one.c\n".into(), String::new()));
    assert_eq!(run(tree.path(), &["--limit=1", "-l0", "int"]).1, "a/one.c\0");
    assert_eq!(run(tree.path(), &["--limit=1", "-0", "int"]).1, "a/one.c\0int one;\n");
    assert_eq!(run(tree.path(), &["--limit=1", "--null-data", "-I", "int", "a/two.h"]).1, "int four;\n\0");
    assert_eq!(run(tree.path(), &["--limit=9", "four"]).1, "a/two.h:int four;\n");
    assert_eq!(run(tree.path(), &["--format=vs", "four"]).1, "a\\two.h(1):int four;\n");
    assert_eq!(run(tree.path(), &["--format=vs", "--column", "four"]).1, "a\\two.h(1,5):int four;\n");
}

#[test]
fn flags_that_editors_give_ripgrep_are_known() {
    let tree = tree();
    for flag in ["--no-config", "--no-mmap", "--mmap", "--line-buffered", "--block-buffered"] {
        let found = run(tree.path(), &[flag, flag, "four"]);
        assert_eq!(found, (0, "a/two.h:int four;\n".into(), String::new()), "{flag}");
    }
    assert_eq!(run(tree.path(), &["--mmap", "--no-mmap", "--line-buffered", "--block-buffered", "x"]).0, 1);
}

#[test]
fn what_a_search_took_is_told_to_people_and_programs() {
    let tree = tree();
    let (_, _, text) = run(tree.path(), &["--stat", "four"]);
    for name in
        ["wall time", "CPU time", "minor faults", "peak RSS", "files searched", "chunks read", "text read"]
    {
        assert!(text.contains(name), "{name} in {text}");
    }
    let (_, _, json) = run(tree.path(), &["--stat=json", "four"]);
    let cost: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert!(cost["files_with_matches"] == 1 && cost["minor_faults"].as_u64() > Some(0), "{json}");
    let (code, json, _) = run(tree.path(), &["--stat=json", "--memory=all", "-j2", "four"]);
    let rows: Vec<serde_json::Value> = serde_json::from_str(&json).unwrap();
    assert_eq!((code, rows.len()), (0, 10), "five sources, with one and two threads");
    assert_eq!(run(tree.path(), &["--stat", "--memory=all", "("]).0, 2);
}

#[test]
fn a_reader_that_has_seen_enough_is_no_failure() {
    let tree = tree();
    fs::write(tree.path().join("large"), "int foo\n".repeat(500_000)).unwrap();
    run(tree.path(), &["update"]);
    let mut child =
        grep(tree.path(), &["int"]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    child.stdout.take().unwrap().read_exact(&mut [0; 10]).unwrap();
    let (code, _, said) = told(child.wait_with_output().unwrap());
    assert_eq!((code, said.as_str()), (0, ""));
}

#[test]
fn whatever_is_damaged_an_update_mends_it_and_until_then_the_files_are_read() {
    let tree = tree();
    let segment = tree.path().join(".faultless/grep/00000001.segment");
    let whole = fs::read(&segment).unwrap();
    let flipped = |at: usize| {
        let mut bytes = whole.clone();
        bytes[at] ^= 1;
        bytes
    };
    let mut all: Vec<Vec<u8>> = (whole.len() - 250..whole.len()).step_by(4).map(flipped).collect();
    all.extend([flipped(20), whole[..100].to_vec(), Vec::new()]);
    for bytes in all {
        fs::write(&segment, bytes).unwrap();
        let (code, out, said) = run(tree.path(), &["int one"]);
        assert_eq!(out, "a/one.c:int one;\n", "{said}");
        assert!(code == 0 || said.contains("faultless index update"), "{code}: {said}");
        // The names of binary files may be lost.
        assert_eq!(run(tree.path(), &["-a", "int one"]).1, "a/one.c:int one;\n");
    }
    let (code, _, said) = run(tree.path(), &["update"]);
    assert_eq!(code, 0, "{said}");
    assert_eq!(run(tree.path(), &["int one"]), (0, "a/one.c:int one;\n".into(), String::new()));
}

#[test]
fn a_binary_file_is_one_without_a_match_though_it_is_not_printed() {
    let tree = tree();
    fs::write(tree.path().join("image.rs"), b"\0").unwrap();
    assert_eq!(run(tree.path(), &["update"]).0, 0);
    for (kind, code) in [("rust", 0), ("c", 1)] {
        let words = ["--files-without-match", "-t", kind, "^"];
        assert_eq!(run(tree.path(), &words), (code, String::new(), String::new()));
    }
}

#[test]
fn an_output_that_is_full_is_told_with_a_limit_too() {
    let tree = tree();
    for words in [&["int"][..], &["--limit", "1", "int"]] {
        let full = fs::File::options().write(true).open("/dev/full").unwrap();
        let (code, _, said) = told(grep(tree.path(), words).stdout(full).output().unwrap());
        let expected = "faultless: standard output: No space left on device; ";
        assert!(code == 2 && said.starts_with(expected), "{words:?}: {said}");
    }
}

#[test]
fn separators_of_a_sorted_search_end_as_lines_do() {
    let tree = tree();
    for flags in [&["--fresh"][..], &["--max-filesize=1M"], &[]] {
        let shown = |more: &[&str]| {
            run(tree.path(), &[flags, &["--sort=path", "four|five", "a/two.h", "b"], more].concat()).1
        };
        let expected = "a/two.h:int four;\n--\r\nb/three.c:long five;\n";
        assert_eq!(shown(&["--crlf", "-A1"]), expected, "{flags:?}");
        assert_eq!(shown(&["-A1"]), expected.replace('\r', ""), "{flags:?}");
    }
    let words = ["--null-data", "--sort=path", "-A1", "fo.r|fi.e", "a/two.h", "b/three.c"];
    let found = "a/two.h:int four;\n\0--\0b/three.c:long five;\n\0";
    assert_eq!(run(tree.path(), &words).1, found);
}

#[test]
fn trees_are_separated_as_files_are() {
    let (one, two) = (tree(), tree());
    let words = ["-C1", "three", &one.path().display().to_string(), &two.path().display().to_string()];
    let text = run(one.path(), &words).1;
    assert_eq!(text.lines().filter(|line| *line == "--").count(), 1, "{text}");
}

#[test]
fn only_its_owner_may_read_a_database() {
    use std::os::unix::fs::PermissionsExt;

    let tree = tree();
    let mode = fs::metadata(tree.path().join(".faultless/grep")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o700);
}
