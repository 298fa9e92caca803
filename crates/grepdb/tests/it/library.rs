//! The front door of the library: the matches that a callback gets, the ways to end a search, and its notices.
//!
//! Guards against: matches in another form than ripgrep's, callbacks after the end, and errors without a remedy.

use std::fs;
use std::ops::ControlFlow::{self, Break, Continue};
use std::path::PathBuf;
use std::process::{Command, Output};
use std::time::Duration;

use faultless_grepdb::{Case, Error, Index, Notice, Rules, SearchOptions, SearchSummary};

use crate::write;

fn tree(files: &[(&str, &[u8])]) -> (tempfile::TempDir, Index) {
    let root = tempfile::tempdir().unwrap();
    files.iter().for_each(|(path, text)| write(root.path(), path, text, 100));
    let (index, report) = Index::build(root.path(), &Rules::default(), |_| Continue(())).unwrap();
    assert_eq!(report.files, files.len() as u64);
    (root, index)
}

/// `path:number:line[spans]` of each match, by path.
fn found(index: &Index, pattern: &str, options: SearchOptions) -> (Vec<String>, SearchSummary) {
    let mut lines = Vec::new();
    let options = SearchOptions { sorted: true, ..options };
    let summary = index.search(pattern, &options, |found| {
        let line = String::from_utf8_lossy(found.line);
        lines.push(format!("{}:{}:{line:?}{:?}", found.path.display(), found.line_number, found.spans));
        Continue(())
    });
    let summary = summary.unwrap();
    assert_eq!(summary.matches, lines.len() as u64);
    (lines, summary)
}

fn lines(index: &Index, pattern: &str, options: SearchOptions) -> Vec<String> {
    found(index, pattern, options).0
}

const FILES: [(&str, &[u8]); 4] = [
    ("a.rs", b"fn one() {}\nfn two() {} // FN\n"),
    ("b/c.rs", b"no fn here, fnord\n"),
    ("b/d.txt", b"fn\n\nlast fn"),
    ("b/binary", b"fn \0"),
];

#[test]
fn a_match_has_path_number_line_and_spans() {
    let (_root, index) = tree(&FILES);
    let plain = SearchOptions::default();
    let expected = [
        r#"a.rs:1:"fn one() {}\n"[0..2]"#,
        r#"a.rs:2:"fn two() {} // FN\n"[0..2]"#,
        r#"b/c.rs:1:"no fn here, fnord\n"[3..5, 12..14]"#,
        r#"b/d.txt:1:"fn\n"[0..2]"#,
        r#"b/d.txt:3:"last fn"[5..7]"#,
    ];
    let (all, summary) = found(&index, "fn", plain.clone());
    assert_eq!(all, expected);
    assert!(summary.is_complete && summary.notices.is_empty() && summary.trouble.is_empty());
    assert_eq!(summary.files_with_matches, 3);
    assert_eq!(lines(&index, "^$", plain.clone()), [r#"b/d.txt:2:"\n"[0..0]"#]);
    assert_eq!(lines(&index, "fn$", plain), [&expected[3..4], &expected[4..]].concat());
}

#[test]
fn options_change_what_matches() {
    let (_root, index) = tree(&FILES);
    let plain = SearchOptions::default;
    let of = |case| SearchOptions { case, ..plain() };
    assert_eq!(lines(&index, "// fn", of(Case::Sensitive)).len(), 0);
    assert_eq!(lines(&index, "// fn", of(Case::Insensitive)).len(), 1);
    assert_eq!(
        (lines(&index, "LAST", of(Case::Smart)).len(), lines(&index, "last", of(Case::Smart)).len()),
        (0, 1)
    );
    assert_eq!(lines(&index, "one()", SearchOptions { fixed_strings: true, ..plain() }).len(), 1);
    let words = lines(&index, "fn", SearchOptions { word: true, ..plain() });
    assert!(words[2].ends_with("[3..5]"), "not in fnord: {words:?}");
    let multi_line = lines(&index, r"\{\}\nfn", SearchOptions { multi_line: true, ..plain() });
    assert_eq!(multi_line, [r#"a.rs:1:"fn one() {}\nfn two() {} // FN\n"[9..14]"#]);
    let globs = |globs: &[&str]| SearchOptions {
        globs: globs.iter().map(|glob| (*glob).into()).collect(),
        ..plain()
    };
    assert_eq!(lines(&index, "fn", globs(&["*.rs"])).len(), 3);
    assert_eq!(lines(&index, "fn", globs(&["*.rs", "!b"])).len(), 2);
}

/// A tree whose search takes several tasks and threads.
fn large_tree() -> (tempfile::TempDir, Index) {
    let text = b"a needle in this line\nand none here\n".repeat(8_000);
    let files: Vec<(String, &[u8])> = (0..20).map(|n| (format!("{n}.txt"), &text[..])).collect();
    let files: Vec<(&str, &[u8])> = files.iter().map(|(path, text)| (&path[..], *text)).collect();
    tree(&files)
}

#[test]
fn a_search_ends_at_the_limit_at_break_and_when_it_is_cancelled() {
    let (_root, index) = large_tree();
    let plain = SearchOptions { threads: Some(4), ..SearchOptions::default() };
    let mut calls = 0;
    let mut search = |options: &SearchOptions, end: &mut (dyn FnMut(u64) -> ControlFlow<()> + Send)| {
        calls = 0;
        let summary = index.search("needle", options, |_| {
            calls += 1;
            end(calls)
        });
        let summary = summary.unwrap();
        assert_eq!(summary.matches, calls);
        (calls, summary.is_complete)
    };
    assert_eq!(search(&plain, &mut |_| Continue(())), (160_000, true));
    let limited = SearchOptions { limit: Some(7), ..plain.clone() };
    assert_eq!(search(&limited, &mut |_| Continue(())), (7, false));
    let none = SearchOptions { limit: Some(0), ..plain.clone() };
    assert_eq!(search(&none, &mut |_| Continue(())), (0, false));
    assert_eq!(search(&plain, &mut |calls| if calls == 9 { Break(()) } else { Continue(()) }), (9, false));
    let token = plain.cancel.clone();
    let cancelling = &mut |calls| {
        if calls == 11 {
            token.cancel();
        }
        Continue(())
    };
    assert_eq!(search(&plain, cancelling), (11, false));
    assert_eq!(search(&plain, &mut |_| Continue(())), (0, false), "a cancelled token stays cancelled");
}

#[test]
fn another_thread_ends_a_search() {
    let (_root, index) = large_tree();
    let options = SearchOptions { threads: Some(4), ..SearchOptions::default() };
    let (first, seen) = std::sync::mpsc::channel();
    let (cancelled, waits) = std::sync::mpsc::channel();
    std::thread::scope(|scope| {
        let token = options.cancel.clone();
        scope.spawn(move || {
            seen.recv().unwrap();
            token.cancel();
            cancelled.send(()).unwrap();
        });
        let summary = index.search("needle", &options, move |_| {
            first.send(()).unwrap();
            waits.recv().unwrap();
            Continue(())
        });
        let summary = summary.unwrap();
        assert_eq!((summary.matches, summary.is_complete), (1, false));
    });
    // The same where nothing matches: some of these searches is the one that ends.
    let options = SearchOptions { multi_line: true, ..SearchOptions::default() };
    let token = options.cancel.clone();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            std::thread::sleep(Duration::from_millis(50));
            token.cancel();
        });
        while index.search(r"[a-z]\s+\d", &options, |_| Continue(())).unwrap().is_complete {}
    });
}

#[test]
fn a_changed_file_is_searched_as_it_is_and_a_notice_says_so() {
    let (root, index) = tree(&FILES);
    write(root.path(), "a.rs", b"fn three() {}\n", 50);
    write(root.path(), "new.rs", b"fn four() {}\n", 50);
    let globs = vec!["*.rs".into()];
    let options = SearchOptions { globs, word: true, ..SearchOptions::default() };
    let (all, summary) = found(&index, r"fn \w+\(", options.clone());
    assert_eq!(all, [r#"a.rs:1:"fn three() {}\n"[0..9]"#]);
    assert!(matches!(summary.notices[..], [Notice::Stale { files: 1, .. }]), "{:?}", summary.notices);
    let said = summary.notices[0].to_string();
    assert!(
        said.starts_with("1 file of this result has changed") && said.contains("`faultless index update`"),
        "{said}"
    );
    let (all, summary) = found(&index, r"fn \w+\(", SearchOptions { fresh: true, ..options.clone() });
    assert_eq!((all.len(), summary.notices.len()), (2, 0));
    let updated = index.update(|_| Continue(())).unwrap();
    assert_eq!((updated.read, updated.files), (2, 5));
    let (all, summary) = found(&index, r"fn \w+\(", options);
    assert_eq!((all.len(), summary.notices.len()), (2, 0), "the index sees the update");
}

#[test]
fn an_error_says_what_and_where_and_the_remedy() {
    let (root, index) = tree(&FILES);
    assert_eq!(Index::open(root.path().join("b")).unwrap().root(), index.root());
    let search = |pattern, options| index.search(pattern, &options, |_| Continue(())).unwrap_err();
    let error = search("a(b", SearchOptions::default());
    assert!(
        matches!(&error, Error::Pattern(why) if why.starts_with("a(b: unclosed group at character 2")),
        "{error}"
    );
    let error = search("a", SearchOptions { globs: vec!["[".into()], ..SearchOptions::default() });
    assert!(matches!(&error, Error::Pattern(why) if why.starts_with("glob [: ")), "{error}");
    let error = Index::open(tempfile::tempdir().unwrap().path()).unwrap_err().to_string();
    assert!(error.ends_with("no database here or above; `faultless index init` makes one"), "{error}");
    let nowhere = root.path().join("nowhere");
    let error = Index::open(&nowhere).unwrap_err();
    assert!(matches!(&error, Error::Io { path, .. } if *path == nowhere), "{error}");
    fs::write(root.path().join(".faultless/grep/manifest"), "damaged").unwrap();
    let error = search("a", SearchOptions::default());
    assert!(error.to_string().contains("`faultless index build`"), "{error}");
}

#[test]
fn an_update_that_is_cancelled_leaves_the_database_as_it_was() {
    let (root, index) = tree(&FILES);
    write(root.path(), "new.rs", b"fn four() {}\n", 50);
    assert!(matches!(index.update(|_| Break(())), Err(Error::Cancelled)));
    assert_eq!(lines(&index, "fn four", SearchOptions::default()).len(), 0);
    let build = Index::build(root.path(), &Rules::default(), |_| Break(()));
    assert!(matches!(build, Err(Error::Cancelled)));
    assert_eq!(lines(&index, "fn one", SearchOptions::default()).len(), 1);
    assert_eq!(index.update(|_| Continue(())).unwrap().read, 1);
    assert_eq!(lines(&index, "fn four", SearchOptions::default()).len(), 1);
}

/// Runs an example: cargo has built it beside this test.
fn example(name: &str, words: &[&str]) -> Output {
    let test = std::env::current_exe().unwrap();
    let folder: PathBuf = test.ancestors().nth(2).unwrap().join("examples");
    Command::new(folder.join(name)).args(words).output().unwrap()
}

#[test]
fn the_example_of_a_search_prints_lines() {
    let root = tempfile::tempdir().unwrap();
    FILES.iter().for_each(|(path, text)| write(root.path(), path, text, 100));
    let folder = root.path().to_str().unwrap();
    for _ in 0..2 {
        let output = example("search", &[folder, r"fn \w+\("]);
        let said = String::from_utf8(output.stdout).unwrap();
        assert_eq!(said, "a.rs:1:fn one() {}\na.rs:2:fn two() {} // FN\n");
        assert!(output.status.success() && output.stderr.is_empty());
    }
    assert_eq!(example("search", &[folder, "nowhere"]).status.code(), Some(1));
    let wrong = example("search", &[folder, "("]);
    assert_eq!(wrong.status.code(), Some(2));
    assert!(String::from_utf8(wrong.stderr).unwrap().contains("unclosed group"));
}

#[test]
fn the_example_of_a_cancelled_search_counts_what_was_found_in_time() {
    let (root, _) = large_tree();
    let folder = root.path().to_str().unwrap();
    let said = |milliseconds| {
        String::from_utf8(example("cancel", &[folder, "needle", milliseconds]).stdout).unwrap()
    };
    assert_eq!(said("600000"), "160000 lines\n");
    assert!(said("0").starts_with("at least "), "{}", said("0"));
}
