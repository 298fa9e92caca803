//! Trees with entries that no text editor makes.

use std::fs;
use std::os::unix::fs::symlink;
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::Command;

use grep_printer::StandardBuilder;

use super::{PATTERNS, Pattern, build, same_lines, scanned, searched, searched_as, update, write};
use crate::Rules;
use crate::build::cut::chunks;
use crate::engine::{Database, DiskFile, Location, OutputFormat};
use crate::tree::walk::{TreeFile, walk};
use crate::tuning::{CHUNK_BYTES, CHUNK_FILES_MAX};

#[test]
fn pipes_sockets_and_links_are_no_files_and_nobody_waits_for_them() {
    let root = tempfile::tempdir().unwrap();
    write(root.path(), b"a/file", b"needle\n", 100);
    let made = Command::new("mkfifo").arg(root.path().join("a/pipe")).status();
    assert!(made.unwrap().success());
    let _socket = UnixListener::bind(root.path().join("a/socket")).unwrap();
    symlink("file", root.path().join("a/link")).unwrap();
    symlink("nowhere", root.path().join("a/broken")).unwrap();
    symlink("..", root.path().join("a/loop")).unwrap();
    let built = build(root.path());
    assert_eq!((built.files, built.trouble.len()), (1, 0));
    same_lines(root.path(), PATTERNS.into_iter());
}

#[test]
fn a_root_that_is_a_link_is_the_tree_that_it_leads_to() {
    let folder = tempfile::tempdir().unwrap();
    write(&folder.path().join("tree"), b"a/file", b"needle\n", 100);
    let link = folder.path().join("link");
    symlink("tree", &link).unwrap();
    build(&link);
    same_lines(&link, PATTERNS.into_iter());
    same_lines(&folder.path().join("tree"), PATTERNS.into_iter());
    assert_eq!(update(&link).read, 0);
}

#[test]
fn names_of_any_bytes_and_of_any_length_are_kept() {
    let root = tempfile::tempdir().unwrap();
    let deep: Vec<u8> = [b"d".repeat(250), b"\xff\xfe".to_vec()].join(&b'/');
    write(root.path(), &deep, b"needle\n", 100);
    write(root.path(), b"with\nnewline", b"nothing\n", 100);
    let mut folder = "x".repeat(200);
    for _ in 0..10 {
        folder = format!("{folder}/{}", "y".repeat(200));
    }
    write(root.path(), format!("{folder}/file").as_bytes(), b"needle\n", 100);
    assert_eq!(build(root.path()).files, 3);
    let (lines, searched) = searched(root.path(), PATTERNS[0]).unwrap();
    assert_eq!((lines.len(), searched.files_with_matches, searched.trouble.len()), (2, 2, 0));
}

#[test]
fn a_file_is_taken_as_it_is_when_it_is_read_whatever_its_length_was_before() {
    let root = tempfile::tempdir().unwrap();
    let lens = [0, 1, CHUNK_BYTES / 2, CHUNK_BYTES - 1, CHUNK_BYTES, 3 * CHUNK_BYTES];
    for now in lens {
        for before in lens {
            let mut text = b"needle\n".repeat(now / 7);
            text.resize(now, b'z');
            write(root.path(), b"a", b"needle\n", 100);
            write(root.path(), b"b", &text, 100);
            write(root.path(), b"c", b"needle\n", 100);
            let mut walked = walk(root.path(), &Rules::default(), 1).unwrap();
            walked.files[1].size_bytes = before as u64;
            let chunks = chunks(root.path(), &walked.files);
            let files: Vec<_> = chunks.iter().flat_map(|(_, files)| files).collect();
            let texts: Vec<u64> = files.iter().map(|file| file.text_bytes).collect();
            assert_eq!(texts, [7, now as u64, 7], "{before} bytes before");
            assert!(chunks.iter().all(|&(len, _)| len <= CHUNK_BYTES));
            let lines: u64 = files.iter().map(|file| file.text_bytes + u64::from(file.ends_open)).sum();
            assert_eq!(lines, chunks.iter().map(|&(len, _)| len as u64).sum::<u64>());
        }
    }
}

#[test]
fn more_small_files_than_a_chunk_may_have_are_several_chunks() {
    let root = tempfile::tempdir().unwrap();
    for n in 0..CHUNK_FILES_MAX + 10 {
        write(root.path(), format!("{}/{n}", n % 10).as_bytes(), b"", 100);
    }
    write(root.path(), b"last", b"needle\n", 100);
    assert_eq!(build(root.path()).files as usize, CHUNK_FILES_MAX + 11);
    let pattern = PATTERNS[0];
    let (lines, searched) = searched(root.path(), pattern).unwrap();
    assert_eq!(lines, scanned(root.path(), pattern));
    assert!(searched.of_chunks >= 2 && Database::check(&Location::in_tree(root.path())).unwrap().is_empty());
}

#[test]
fn a_folder_that_vanishes_takes_its_files_with_it() {
    let root = tempfile::tempdir().unwrap();
    for n in 0..300 {
        write(root.path(), format!("{n}/file").as_bytes(), b"needle\n", 100);
    }
    build(root.path());
    std::thread::scope(|scope| {
        scope.spawn(|| {
            (0..300).rev().for_each(|n| fs::remove_dir_all(root.path().join(n.to_string())).unwrap())
        });
        for _ in 0..5 {
            update(root.path());
        }
    });
    update(root.path());
    same_lines(root.path(), PATTERNS.into_iter());
}

#[test]
fn files_without_a_length_that_have_text_are_read() {
    let text = fs::read_to_string("/proc/self/status").unwrap();
    let files = [TreeFile { path: b"status".to_vec(), size_bytes: 0, mtime_ns: 0 }];
    let chunks = chunks(Path::new("/proc/self"), &files);
    let there = chunks[0].0 as i64;
    assert!((there - text.len() as i64).abs() < 200 && there > 0, "{there} of {}", text.len());
}

#[test]
fn nobody_waits_for_a_pipe_that_took_the_place_of_a_file_after_it_was_found() {
    let root = tempfile::tempdir().unwrap();
    write(root.path(), b"file", b"needle\n", 100);
    build(root.path());
    let location = Location::in_tree(root.path());
    let file = DiskFile::at(&location, b"file", &<[u8]>::to_vec).unwrap();
    fs::remove_file(root.path().join("file")).unwrap();
    assert!(Command::new("mkfifo").arg(root.path().join("file")).status().unwrap().success());
    let (to, disk_files) = std::sync::mpsc::channel();
    to.send(file).unwrap();
    drop(to);
    let database = Database::open(&location).unwrap().unwrap();
    let lines = OutputFormat::Standard { builder: StandardBuilder::new(), color: false };
    let (found, searched) = searched_as(&database, PATTERNS[0], &lines, Some(disk_files)).unwrap();
    assert!(found.is_empty(), "{found:?}");
    assert!(searched.trouble[0].to_string().contains("not a regular file"), "{searched:?}");
}

#[test]
fn whatever_goes_before_the_matcher_no_line_is_lost() {
    let root = tempfile::tempdir().unwrap();
    let texts =
        ["serene, \nno; \t\na line of thirty-three characters\n", "Größe\nSER ſer\n", "a, b\nshort;\n"];
    for number in 0..12 {
        // Each text fills more than half a chunk, and some have few lines of interest.
        let kinds: &[&str] = if number % 4 == 0 { &texts } else { &texts[number % 3..][..1] };
        let text = kinds.concat().repeat(60) + &"x\n".repeat(CHUNK_BYTES / 4) + "ser;\n";
        write(root.path(), format!("{number:02}").as_bytes(), text.as_bytes(), 100);
    }
    build(root.path());
    let patterns = [r"[;,]\s+$", "ser", "[^ -~]", "^.{30,}$", ".{5}", r"\w+\s*;", "[a-z]{4}-[a-z]", "x*"];
    same_lines(
        root.path(),
        patterns.into_iter().map(|text| Pattern { text, ignore_case: true, multi_line: false }),
    );
}
