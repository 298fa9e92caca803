//! A tree changes. What does an update read, and what do searches find before it?

use std::fs;
use std::ops::ControlFlow;
use std::path::Path;
use std::time::Duration;

use faultless_grepdb::engine::{Database, Location};
use faultless_grepdb::{Index, Notice, Rules, SearchOptions, UpdateReport};

use crate::write;

/// Waits until the times of all folders are settled.
fn settle() {
    std::thread::sleep(Duration::from_millis(40));
}

fn tree() -> tempfile::TempDir {
    let root = tempfile::tempdir().unwrap();
    for path in ["a/one.c", "a/two.c", "b/deep/three.c", "z.c"] {
        write(root.path(), path, format!("word in {path}\n"), 100);
    }
    settle();
    root
}

/// With enough other files that a few changes don't rewrite a segment.
fn large_tree() -> tempfile::TempDir {
    let root = tree();
    for number in 0..20 {
        write(root.path(), &format!("more/{number}"), "else\n", 100);
    }
    settle();
    root
}

fn build(root: &Path) -> UpdateReport {
    Index::build(root, &Rules::default(), |_| ControlFlow::Continue(())).unwrap().1
}

fn update(root: &Path) -> (u64, u64) {
    let updated = Index::open(root).unwrap().update(|_| ControlFlow::Continue(())).unwrap();
    (updated.read, updated.removed)
}

/// The lines with `word`, and the number of files that had changed unnoticed.
fn found(root: &Path, fresh: bool) -> (String, u64) {
    let mut lines = String::new();
    let options = SearchOptions { fresh, ..SearchOptions::default() };
    let searched = Index::open(root).unwrap().search("word", &options, |found| {
        lines += &format!("{}:{}", found.path.display(), String::from_utf8_lossy(found.line));
        ControlFlow::Continue(())
    });
    let summary = searched.unwrap();
    assert!(summary.trouble.is_empty());
    let stale = summary.notices.iter().map(|notice| match notice {
        Notice::Stale { files, .. } => files,
        other => panic!("{other}"),
    });
    (lines, stale.sum())
}

#[test]
fn an_update_reads_what_is_new_or_other_and_drops_what_is_gone() {
    let root = large_tree();
    let root = root.path();
    assert_eq!(build(root).read, 24);
    assert_eq!(update(root), (0, 0));
    write(root, "a/one.c", "another word\n", 50);
    assert_eq!(update(root), (1, 0));
    assert_eq!(update(root), (0, 0));
    write(root, "new/er/four.c", "word four\n", 50);
    fs::remove_file(root.join("z.c")).unwrap();
    assert_eq!(update(root), (1, 1));
    settle();
    fs::rename(root.join("b"), root.join("c")).unwrap();
    assert_eq!(update(root), (1, 1));
    let (out, stale) = found(root, true);
    assert_eq!((found(root, false).0, 0), (out.clone(), stale));
    assert_eq!(out.lines().count(), 4);
}

#[test]
fn rules_that_change_are_followed() {
    let root = large_tree();
    let root = root.path();
    build(root);
    settle();
    assert_eq!(update(root), (0, 0));
    write(root, "b/.ignore", "three.c\n", 90);
    assert_eq!(update(root), (0, 1), "a new ignore file");
    settle();
    assert_eq!(update(root), (0, 0));
    write(root, "b/.ignore", "four.c\n", 80);
    assert_eq!(update(root), (1, 0), "one that was written to");
    fs::create_dir(root.join(".git")).unwrap();
    write(root, ".gitignore", "one.c\n", 70);
    assert_eq!(update(root), (0, 1), "a repository");
    settle();
    write(root, "deeper/one.c", "word\n", 60);
    write(root, "deeper/two.c", "word\n", 60);
    assert_eq!(update(root), (1, 0), "rules hold in a new folder");
    write(root, ".git/info/exclude", "two.c\n", 50);
    assert_eq!(update(root), (0, 2), "a list of the repository");
}

#[test]
fn a_search_looks_at_what_it_names_and_says_what_has_changed() {
    let root = tree();
    let root = root.path();
    build(root);
    assert_eq!(found(root, false).1, 0);
    write(root, "a/one.c", "now two words\n", 50);
    write(root, "a/two.c", "nothing now\n", 50);
    fs::remove_file(root.join("z.c")).unwrap();
    let expected = "a/one.c:now two words\nb/deep/three.c:word in b/deep/three.c\n";
    assert_eq!(found(root, false), (expected.to_owned(), 3));
}

#[test]
fn a_tree_that_has_vanished_empties_no_database() {
    let root = tree();
    let kept = tempfile::tempdir().unwrap();
    let location = Location { folder: kept.path().join("db"), root: root.path().join("a") };
    Database::build(&location, &Rules::default(), 2, &mut |_| ControlFlow::Continue(())).unwrap();
    fs::rename(root.path().join("a"), root.path().join("c")).unwrap();
    let error =
        Database::update(&location, None, 2, &mut |_| ControlFlow::Continue(())).unwrap_err().to_string();
    assert!(error.starts_with("walk /"), "{error}");
    let database = Database::open(&location).unwrap().unwrap();
    assert!(database.files().unwrap().count() == 2);
}

/// Makes a random change in a tree, chosen by `dice`.
fn change(root: &Path, dice: &mut impl FnMut(u64) -> u64) {
    let folder = ["", "a", "a/b", "c", ".d"][dice(5) as usize];
    let name = ["x", "y.o", "z.c", ".hidden", ".ignore", ".gitignore", ".git/info/exclude"][dice(7) as usize];
    let path = root.join(folder).join(name);
    // A change that another change made impossible is skipped.
    let _ = match dice(6) {
        0 | 1 => fs::create_dir_all(path.parent().unwrap())
            .and_then(|()| fs::write(&path, ["*.o\n", "b\n", "x\ny.o\n", "!z.c\n"][dice(4) as usize])),
        2 => fs::remove_file(&path),
        3 => fs::remove_dir_all(root.join(["a/b", "c", ".git"][dice(3) as usize])),
        4 => fs::rename(root.join("a"), root.join("c")),
        _ => fs::rename(root.join("c/b"), root.join("a")),
    };
}

#[test]
fn what_is_remembered_never_hides_a_change() {
    let mut seed = 7_u64;
    let mut dice = move |sides: u64| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (seed >> 33) % sides
    };
    for round in 0..6 {
        let kept = tempfile::tempdir().unwrap();
        let root = tempfile::tempdir().unwrap();
        let location = |name: &str| Location { folder: kept.path().join(name), root: root.path().into() };
        let rules = Rules { hidden: dice(2) == 0, ..Rules::default() };
        Database::build(&location("old"), &rules, 2, &mut |_| ControlFlow::Continue(())).unwrap();
        for step in 0..12 {
            (0..=dice(4)).for_each(|_| change(root.path(), &mut dice));
            if dice(2) == 0 {
                settle();
            }
            Database::update(&location("old"), None, 2, &mut |_| ControlFlow::Continue(())).unwrap();
            Database::build(&location("new"), &rules, 2, &mut |_| ControlFlow::Continue(())).unwrap();
            let paths = |name| {
                let database = Database::open(&location(name)).unwrap().unwrap();
                let paths = database.files().unwrap().map(|file| String::from_utf8(file.path).unwrap());
                paths.collect::<Vec<_>>()
            };
            assert_eq!(paths("old"), paths("new"), "round {round}, step {step}");
        }
    }
}
