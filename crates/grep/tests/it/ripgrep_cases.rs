//! Cases that ripgrep 15 decides: hidden files and types, NUL bytes, the order of named paths, buffers, JSON.
//!
//! Guards against answers that differ from its. They are written down here: the system's ripgrep may be older.

use std::fs;
use std::io::{Read, Write};
use std::path::Path;
use std::process::Stdio;

use serde_json::{Value, json};

use crate::search::{grep, run, told, tree};

/// The lines of stdout.
fn lines(folder: &Path, words: &[&str]) -> Vec<String> {
    run(folder, words).1.lines().map(str::to_owned).collect()
}

fn sorted(folder: &Path, words: &[&str]) -> Vec<String> {
    let mut lines = lines(folder, words);
    lines.sort();
    lines
}

/// The same files as [`tree`], without a database.
fn tree_without_database() -> tempfile::TempDir {
    let tree = tree();
    fs::remove_dir_all(tree.path().join(".faultless")).unwrap();
    tree
}

#[test]
fn of_two_types_the_later_one_decides() {
    for tree in [tree(), tree_without_database()] {
        let found = |words: &[&str]| sorted(tree.path(), &[words, &["-l", "int"]].concat());
        assert_eq!(found(&["-tc"]), ["a/one.c", "a/two.h"]);
        // Both types have *.h.
        assert_eq!(found(&["-Tcpp", "-tc"]), ["a/one.c", "a/two.h"]);
        assert_eq!(found(&["-tc", "--type-not=cpp"]), ["a/one.c"]);
        assert_eq!(found(&["-Tc", "--type=c"]), ["a/one.c", "a/two.h"]);
        assert_eq!(found(&["--type-add=c:*.x", "--type-clear=c", "--type-add=c:two.*", "-tc"]), ["a/two.h"]);
        assert_eq!(found(&["--type-clear=c", "--type-add=c:one.*", "-tc"]), ["a/one.c"]);
    }
}

#[test]
fn a_type_or_glob_selects_hidden_files_too() {
    let (stored, plain) = (tree(), tree_without_database());
    for tree in [&stored, &plain] {
        fs::write(tree.path().join("b/.four.c"), "int hidden four;\n").unwrap();
        fs::create_dir(tree.path().join(".d")).unwrap();
        fs::write(tree.path().join(".d/five.c"), "int hidden five;\n").unwrap();
    }
    // Without --hidden, only a walk of the tree finds those of a type. The help of -t and -g says so.
    assert_eq!(sorted(plain.path(), &["-l", "-tc", "int"]), ["a/one.c", "a/two.h", "b/.four.c"]);
    assert_eq!(sorted(stored.path(), &["-l", "-tc", "int"]), ["a/one.c", "a/two.h"]);
    for tree in [stored.path(), plain.path()] {
        let hidden = ["-l", "-tc", "--hidden", "-g!.faultless", "int"];
        assert_eq!(sorted(tree, &hidden), [".d/five.c", "a/one.c", "a/two.h", "b/.four.c"]);
        assert_eq!(
            sorted(tree, &["-l", "-Tc", "int", "b/.four.c"]),
            ["b/.four.c"],
            "a named file has any type"
        );
        assert_eq!(sorted(tree, &["-l", "-tc", "int", ".d"]), [".d/five.c"]);
        assert_eq!(sorted(tree, &["-l", "-Tc", "int", ".d"]), [""; 0]);
        for glob in [".four.c", "**/.four.c", "{.four.c,x}", "[.]four.c", "/b/.*"] {
            let found = sorted(tree, &["-l", "-g", glob, "int four|int hidden four"]);
            assert_eq!(found, ["b/.four.c"], "{glob}");
        }
    }
}

#[test]
fn lines_that_end_in_nul_hold_line_feeds() {
    let (stored, plain) = (tree(), tree_without_database());
    for tree in [stored.path(), plain.path()] {
        fs::write(tree.join("r"), b"foo\na\0bar\nfoo b\0\0foo c\0").unwrap();
        let found = |words: &[&str]| run(tree, &[&["--null-data"], words, &["r"]].concat()).1;
        assert_eq!(found(&["foo"]), "foo\na\0bar\nfoo b\0foo c\0");
        assert_eq!(found(&["-n", "^foo"]), "1:foo\na\x002:bar\nfoo b\x004:foo c\0");
        assert_eq!(found(&["-nx", ""]), "3:\0");
        assert_eq!(found(&["-vc", "foo"]), "1\0");
        assert_eq!(found(&["-A1", "-m1", "foo"]), "foo\na\0bar\nfoo b\0");
        assert_eq!(found(&["-o", "b\\w*"]), "bar\0b\0");
        let (code, _, said) = run(tree, &["--null-data", "a\\x00", "r"]);
        assert!(code == 2 && !said.is_empty(), "a line never holds its end");
    }
}

#[test]
fn with_one_thread_or_sorted_paths_are_searched_as_they_were_named() {
    let (stored, plain) = (tree(), tree_without_database());
    for tree in [stored.path(), plain.path()] {
        for path in ["b/four.c", "top"] {
            fs::write(tree.join(path), "int late;\n").unwrap();
        }
        for flag in ["--sort=path", "-j1"] {
            let found = |paths: &[&str]| {
                lines(tree, &[&["-l", "--hidden", flag, "int four|int late"], paths].concat())
            };
            assert_eq!(found(&["b", "a"]), ["b/four.c", "a/two.h"]);
            assert_eq!(found(&["top", "b", "a/two.h", "a"]), ["top", "b/four.c", "a/two.h", "a/two.h"]);
            assert_eq!(found(&["top", "./top", "a/two.h"]), ["top", "./top", "a/two.h"]);
            assert_eq!(found(&["a", "b", "a"]), ["a/two.h", "b/four.c", "a/two.h"]);
        }
        let sorted = lines(tree, &["-l", "--sort=path", "--hidden", "int", "b", "a"]);
        assert_eq!(sorted, ["b/.hidden", "b/four.c", "a/one.c", "a/two.h"]);
    }
}

#[test]
fn a_file_is_shown_once_for_each_path_that_names_it() {
    let (stored, plain) = (tree(), tree_without_database());
    for tree in [stored.path(), plain.path()] {
        let found = |paths: &[&str]| sorted(tree, &[&["-l", "four"], paths].concat());
        assert_eq!(found(&["a", "a"]), ["a/two.h", "a/two.h"]);
        assert_eq!(found(&["a", "./a"]), ["./a/two.h", "a/two.h"]);
        assert_eq!(found(&[".", "a"]), ["./a/two.h", "a/two.h"]);
        assert_eq!(found(&["a/two.h", "a/two.h"]), ["a/two.h", "a/two.h"]);
        assert_eq!(found(&["--fresh", "a", "a"]), ["a/two.h", "a/two.h"]);
        assert_eq!(run(tree, &["-C1", "three", "a", "a"]).1.matches("--\n").count(), 1);
    }
    let said = run(plain.path(), &["four", "a", "a", "b"]).2;
    assert_eq!(said.lines().count(), 1, "a missing database is reported once: {said}");
}

#[test]
fn a_line_of_a_slow_input_is_written_at_once_if_asked_for() {
    let tree = tree();
    for words in [
        &["--line-buffered", "-I", "int", "-"][..],
        &["--line-buffered", "-I", "int", "a/two.h", "-"],
        &["--line-buffered", "-o", "int.*", "-"],
        &["--block-buffered", "--line-buffered", "-n", "-I", "--no-line-number", "int", "-"],
    ] {
        let (mut found, to) = std::io::pipe().unwrap();
        let mut child = grep(tree.path(), words).stdin(Stdio::piped()).stdout(to).spawn().unwrap();
        let mut input = child.stdin.take().unwrap();
        if words.ends_with(&["a/two.h", "-"]) {
            let mut line = [0; 10];
            found.read_exact(&mut line).unwrap();
            assert_eq!(&line, b"int four;\n");
        }
        for number in 0..3 {
            let expected = format!("int {number}\n");
            input.write_all(format!("no\n{expected}").as_bytes()).unwrap();
            let mut line = [0; 6];
            found.read_exact(&mut line).unwrap();
            assert_eq!(&line, expected.as_bytes());
        }
        drop(input);
        assert!(child.wait().unwrap().success());
    }
}

/// The lines of stdout, without times.
fn objects(folder: &Path, words: &[&str], input: &[u8]) -> Vec<Value> {
    let mut child = grep(folder, words)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // A search of files alone does not read it.
    let _ = child.stdin.take().unwrap().write_all(input);
    let (code, found, said) = told(child.wait_with_output().unwrap());
    assert!(code < 2 && !said.contains("panic"), "{words:?}: {code} {said}");
    found.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn json_has_the_lines_and_replacements_of_ripgrep() {
    let tree = tree();
    let found = objects(tree.path(), &["--json", "-A1", "-r", "<$0>", "fo+", "-"], b"a\nfoo fo\n\xffb\nc\n");
    let expected = [
        json!({"type": "begin", "data": {"path": {"text": "<stdin>"}}}),
        json!({"type": "match", "data": {
        "path": {"text": "<stdin>"}, "lines": {"text": "foo fo\n"}, "line_number": 2, "absolute_offset": 2,
        "submatches": [
            {"match": {"text": "foo"}, "replacement": {"text": "<foo>"}, "start": 0, "end": 3},
            {"match": {"text": "fo"}, "replacement": {"text": "<fo>"}, "start": 4, "end": 6},
        ]}}),
        json!({"type": "context", "data": {
            "path": {"text": "<stdin>"}, "lines": {"bytes": "/2IK"}, "line_number": 3, "absolute_offset": 9,
            "submatches": []}}),
    ];
    assert_eq!(found[..3], expected);
    assert_eq!((&found[3]["type"], &found[4]["type"], found.len()), (&json!("end"), &json!("summary"), 5));
    assert_eq!(found[3]["data"]["stats"]["matches"], 2);
    let of = |words: &[&str]| objects(tree.path(), words, b"a\nfoo fo\n\xffb\nc\n");
    assert_eq!(of(&["--json", "-o", "fo+", "-"])[1]["data"]["lines"]["text"], "foo fo\n", "-o has no effect");
    let inverted = of(&["--json", "-v", "fo+", "-"]);
    assert_eq!(inverted[1]["data"]["submatches"], json!([]));
    let quiet = of(&["--json", "-q", "fo+", "-"]);
    assert_eq!((quiet.len(), &quiet[0]["type"]), (1, &json!("summary")));
}

#[test]
fn json_is_whole_whatever_else_is_asked_for() {
    use std::os::unix::ffi::OsStrExt;

    let tree = tree();
    fs::write(tree.path().join(std::ffi::OsStr::from_bytes(b"n\xff.c")), b"int foo\xff\n\nfoo foo\r\nend")
        .unwrap();
    let flags: [&[&str]; 14] = [
        &["-A1"],
        &["-B1"],
        &["-C1"],
        &["-m1"],
        &["-m1", "-A2"],
        &["--stats"],
        &["-v"],
        &["-U"],
        &["-U", "-v"],
        &["--passthru"],
        &["-r", "$0$1"],
        &["-o", "-r", ""],
        &["--null-data"],
        &["--crlf"],
    ];
    let next = |step: usize| flags.iter().zip(flags.iter().cycle().skip(step));
    for (one, two) in next(0).chain(next(3)).chain(next(5)) {
        for pattern in ["foo", "x*", "^$", "(?s:.)", "(?-u:\\xff)|int", "$"] {
            let words = [&["--json"][..], one, two, &["-e", pattern]].concat();
            let found = objects(tree.path(), &words, b"");
            let count = |kind: &str| found.iter().filter(|object| object["type"] == kind).count();
            assert_eq!(count("begin"), count("end"), "{words:?}");
            assert_eq!(count("summary"), 1, "{words:?}");
        }
    }
}

#[test]
fn a_search_for_no_line_does_not_report_missing_paths() {
    let tree = tree();
    for words in
        [&["-m0", "int", "missing"][..], &["-m0", "-v", "int", "missing"], &["-f/dev/null", "missing"]]
    {
        assert_eq!(run(tree.path(), words), (1, String::new(), String::new()));
    }
}

#[test]
fn of_multiline_and_stop_on_nonmatch_the_last_counts() {
    let tree = tree();
    assert_eq!(run(tree.path(), &["-U", "--stop-on-nonmatch", "one;\\nint", "a"]).0, 2);
    assert_eq!(run(tree.path(), &["--stop-on-nonmatch", "-Uc", "one;\\nint", "a/one.c"]).1, "1\n");
}
