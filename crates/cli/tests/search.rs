//! `faultless grep PATTERN` as a user meets it: words, output, exit status.

use std::fs;
use std::io::Read;
use std::path::Path;
use std::process::{Command, Output, Stdio};

fn grep(folder: &Path, words: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_faultless"));
    command
        .arg("grep")
        .args(words)
        .current_dir(folder)
        .stdin(Stdio::null())
        .env_remove("FAULTLESS_GREP_OPTIONS");
    command
}

fn run(folder: &Path, words: &[&str]) -> (i32, String, String) {
    told(grep(folder, words).output().unwrap())
}

fn told(output: Output) -> (i32, String, String) {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code().unwrap(), text(&output.stdout), text(&output.stderr))
}

/// A tree with a database.
fn tree() -> tempfile::TempDir {
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
        (&["("][..], "-F takes it as text"),
        (&["a\\nb"], "-U matches line ends"),
        (&["a\\x00b"], "-a searches for NUL bytes"),
        (&[], "faultless grep PATTERN"),
        (&["-t", "nonsense", "x"], "nonsense"),
        (&["-g", "[", "x"], "'['"),
        (&["-f", "missing", "x"], "name a FILE of patterns"),
        (&["x", "missing"], "name what exists"),
        (&["--nonsense", "x"], "faultless grep --help"),
        (&["--path-separator=ab", "x"], "more than one byte"),
        (&["-g", "*.none", "x"], "no file was searched"),
    ] {
        let (code, _, said) = run(tree.path(), words);
        assert!(
            code == 2 && said.starts_with("faultless: ") && said.contains(remedy),
            "{words:?}: {code} {said}"
        );
    }
    let (code, found, _) = run(tree.path(), &["int one", ".", "missing"]);
    assert_eq!((code, found.as_str()), (2, "./a/one.c:int one;\n"), "matches, and what is missing");
    assert_eq!(run(tree.path(), &["-q", "int one", ".", "missing"]).0, 0);
    assert_eq!(run(tree.path(), &["--no-messages", "nowhere", "missing"]), (2, String::new(), String::new()));
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
    fs::write(tree.path().join("b/.h.c"), "int h;\n").unwrap();
    assert_eq!(found(&["-l", "-tc", "int"]), ["a/one.c", "a/two.h", "b/.h.c"], "a type counts before a dot");
    assert_eq!(found(&["-l", "-Tpy", "int"]), ["a/one.c", "a/two.h"]);
    fs::remove_file(tree.path().join("b/.h.c")).unwrap();
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
fn a_verb_can_be_looked_for_and_flags_may_come_first() {
    let tree = tree();
    fs::write(tree.path().join("a/verbs"), "build\nupdate\n").unwrap();
    assert_eq!(run(tree.path(), &["update"]).0, 0);
    assert_eq!(run(tree.path(), &["search", "build"]).1, "a/verbs:build\n");
    assert_eq!(run(tree.path(), &["-i", "BUILD"]).1, "a/verbs:build\n");
    assert_eq!(run(tree.path(), &["-n", "update"]).1, "a/verbs:2:update\n");
    assert_eq!(run(tree.path(), &["-e", "build", "-e", "update", "-c"]).1, "a/verbs:2\n");
}

#[test]
fn flags_in_the_environment_come_before_those_of_the_line() {
    let tree = tree();
    let with = |options: &str, words: &[&str]| {
        told(grep(tree.path(), words).env("FAULTLESS_GREP_OPTIONS", options).output().unwrap())
    };
    assert_eq!(with("-n --field-match-separator ' | '", &["four"]).1, "a/two.h | 1 | int four;\n");
    assert_eq!(with("-n", &["-N", "four"]).1, "a/two.h:int four;\n");
    assert_eq!(with("-i", &["search", "FOUR"]).1, "a/two.h:int four;\n");
    assert_eq!(with("'", &["four"]).0, 2);
}

#[test]
fn limits_hold_in_all_and_visual_studio_has_its_form() {
    let tree = tree();
    assert_eq!(run(tree.path(), &["--limit=2", "int"]).1, "a/one.c:int one;\na/one.c:int two;\n");
    assert_eq!(run(tree.path(), &["--limit=1", "-l", "int"]), (0, "a/one.c\n".into(), String::new()));
    assert_eq!(run(tree.path(), &["--limit=9", "four"]).1, "a/two.h:int four;\n");
    assert_eq!(run(tree.path(), &["--format=vs", "four"]).1, "a\\two.h(1):int four;\n");
    assert_eq!(run(tree.path(), &["--format=vs", "--column", "four"]).1, "a\\two.h(1,5):int four;\n");
}

#[test]
fn what_a_search_took_is_told_to_people_and_programs() {
    let tree = tree();
    let (_, _, text) = run(tree.path(), &["--stat", "four"]);
    for name in [
        "wall time",
        "CPU time",
        "minor faults",
        "peak RSS",
        "files searched",
        "chunks read",
        "text unpacked",
    ] {
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
    if Path::new("/dev/full").exists() {
        let full = fs::File::create("/dev/full").unwrap();
        let (code, _, said) = told(grep(tree.path(), &["int"]).stdout(full).output().unwrap());
        assert!(code == 2 && said.contains("standard output"), "{said}");
    }
}

#[test]
fn a_search_of_a_damaged_database_is_right_or_says_what_to_do() {
    let tree = tree();
    let folder = tree.path().join(".faultless/grep");
    let mut files = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let segment = files.find(|path| path.extension().is_some_and(|ending| ending == "segment")).unwrap();
    let sound = fs::read(&segment).unwrap();
    let searches: [&[&str]; 4] =
        [&["int"], &["int", "a"], &["--sort=path", "int"], &["-c", "--include-zero", "int", "a"]];
    let expected = searches.map(|words| run(tree.path(), words).1);
    let mut named = 0;
    for at in (0..sound.len()).step_by(17) {
        let mut bytes = sound.clone();
        bytes[at] ^= 0x40;
        fs::write(&segment, bytes).unwrap();
        for (words, expected) in searches.iter().zip(&expected) {
            let (code, found, said) = run(tree.path(), words);
            let is_right = found == *expected && code == 0;
            let is_told = code == 2 && said.contains("`faultless grep update`");
            assert!(is_right || is_told, "byte {at}, {words:?}: {code} {found} {said}");
            named += u32::from(said.contains("damaged"));
        }
    }
    assert!(named > 0);
}
