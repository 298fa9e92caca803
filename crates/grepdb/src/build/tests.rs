//! Builds of large files: every number of threads writes the same bytes, in bounded memory.

use std::io::Read;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::build::cut::OpenFile;
use crate::build::segments::{BuildPlan, Progress, build_segments};
use crate::error::{Error, Result};
use crate::store::file_entry::FileKind;
use crate::store::segment::Segment;
use crate::tree::content::open_text;
use crate::tree::rules::Rules;
use crate::tree::walk::{TreeFile, walk};
use crate::tuning as t;

const CHUNK: usize = t::CHUNK_BYTES;

/// Lines that no two files share.
fn text(seed: u64, len: usize, line: usize) -> Vec<u8> {
    let mut rng = fastrand::Rng::with_seed(seed);
    let mut text: Vec<u8> = (0..len).map(|_| rng.lowercase() as u8).collect();
    text.iter_mut().skip(line).step_by(line).for_each(|byte| *byte = b'\n');
    text
}

/// Small files between large ones of every kind, in path order.
fn tree(root: &Path) {
    let put = |name: &str, text: &[u8]| std::fs::write(root.join(name), text).unwrap();
    for (n, lines) in ["a", "c", "e", "g", "i"].into_iter().zip(1..) {
        (0..3 * lines).for_each(|at| put(&format!("{n}{at}"), &text(lines as u64, 100 * at, 40)));
    }
    put("b", &text(20, 9 * CHUNK, 60));
    put("d late NUL", &[text(21, 2 * CHUNK, 60), b"\0\n".to_vec()].concat());
    put("f long lines", &text(22, 5 * CHUNK, 3 * CHUNK / 2));
    put("h one line", &text(23, 3 * CHUNK, usize::MAX / 2));
    put("h one piece", &text(24, CHUNK - 1, usize::MAX / 2));
    put("j last", &text(25, 12 * CHUNK + 5, 60));
}

/// Path, kind and length of a file's text.
type Entry = (String, FileKind, u64);

/// The segments of a build, and the files in them.
fn built(
    root: &Path,
    files: &[TreeFile],
    open: OpenFile<'_>,
    threads: usize,
    progress: &mut dyn FnMut(Progress) -> ControlFlow<()>,
) -> Result<(Vec<Vec<u8>>, Vec<Entry>)> {
    let folder = tempfile::tempdir().unwrap();
    let segment_path = |number: u64| folder.path().join(number.to_string());
    let plan = BuildPlan { root, files, open, threads, number: 0, segment_path: &segment_path };
    let (mut segments, mut entries) = (Vec::new(), Vec::new());
    for written in build_segments(&plan, progress)? {
        let path = segment_path(written.meta.number);
        segments.push(std::fs::read(&path).unwrap());
        let segment = Segment::open(&path)?;
        segment.check(|_| true, &mut |error| panic!("{error}"))?;
        for chunk in segment.files_by_chunk()? {
            entries.extend(
                chunk?
                    .into_iter()
                    .map(|entry| (String::from_utf8(entry.path).unwrap(), entry.kind, entry.text_bytes)),
            );
        }
    }
    Ok((segments, entries))
}

fn go_on(_: Progress) -> ControlFlow<()> {
    ControlFlow::Continue(())
}

#[test]
fn every_number_of_threads_writes_the_same_bytes() {
    let root = tempfile::tempdir().unwrap();
    tree(root.path());
    let files = walk(root.path(), &Rules::default(), 1).unwrap().files;
    let (segments, entries) = built(root.path(), &files, &open_text, 1, &mut go_on).unwrap();
    assert!(segments.len() > 1);
    assert_eq!(entries.len(), files.len());
    for (file, (path, kind, text_bytes)) in files.iter().zip(&entries) {
        let expected = if path == "d late NUL" { FileKind::LateBinary } else { FileKind::Text };
        assert_eq!((path.as_bytes(), *kind, *text_bytes), (&file.path[..], expected, file.size_bytes));
    }
    for threads in [2, 4, 9] {
        let other = built(root.path(), &files, &open_text, threads, &mut go_on).unwrap();
        assert!(other.0 == segments, "{threads} threads");
    }
}

/// `len_bytes` bytes of lines, then an error.
struct BrokenText<'a> {
    len_bytes: u64,
    /// Bytes that were read.
    read_bytes: &'a AtomicU64,
}

impl Read for BrokenText<'_> {
    fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
        let len = into.len().min(usize::try_from(self.len_bytes).unwrap());
        if len == 0 && !into.is_empty() {
            return Err(std::io::Error::other("a damaged disk"));
        }
        into[..len].iter_mut().enumerate().for_each(|(at, byte)| *byte = b"a line\n"[at % 7]);
        self.len_bytes -= len as u64;
        self.read_bytes.fetch_add(len as u64, Ordering::Relaxed);
        Ok(len)
    }
}

#[test]
fn a_large_file_that_can_not_be_read_to_its_end_is_unreadable() {
    static READ_BYTES: AtomicU64 = AtomicU64::new(0);
    let root = tempfile::tempdir().unwrap();
    tree(root.path());
    let files = walk(root.path(), &Rules::default(), 1).unwrap().files;
    let is_broken = |path: &Path| path.ends_with("b") || path.ends_with("j last");
    let broken = |path: &Path| {
        if is_broken(path) {
            let text = BrokenText { len_bytes: 5 * CHUNK as u64, read_bytes: &READ_BYTES };
            Ok(Box::new(text) as Box<dyn Read + Send>)
        } else {
            open_text(path)
        }
    };
    let missing = |path: &Path| {
        if is_broken(path) { Err(std::io::ErrorKind::NotFound.into()) } else { open_text(path) }
    };
    let expected = built(root.path(), &files, &missing, 1, &mut go_on).unwrap();
    let unreadable = expected.1.iter().filter(|(_, kind, _)| *kind == FileKind::Unreadable).count();
    assert_eq!(unreadable, 2);
    for threads in [1, 4] {
        assert!(built(root.path(), &files, &broken, threads, &mut go_on).unwrap() == expected);
    }
    assert!(READ_BYTES.load(Ordering::Relaxed) >= 4 * 5 * CHUNK as u64);
}

#[test]
fn little_of_an_endless_file_waits_in_memory_and_a_build_of_it_can_be_cancelled() {
    static READ_BYTES: AtomicU64 = AtomicU64::new(0);
    let root = tempfile::tempdir().unwrap();
    let endless = |path: &Path| {
        assert!(path.starts_with(root.path()));
        Ok(Box::new(BrokenText { len_bytes: 1 << 40, read_bytes: &READ_BYTES }) as Box<dyn Read + Send>)
    };
    let files: Vec<_> =
        (0..3).map(|n| TreeFile { path: vec![b'a' + n], size_bytes: 1 << 40, mtime_ns: 0 }).collect();
    for (files, threads) in [(&files[..1], 1), (&files[..1], 4), (&files[..], 2)] {
        READ_BYTES.store(0, Ordering::Relaxed);
        // Those ahead, in other files and in this one, and what each thread holds.
        let chunks_max = 2 * t::CHUNKS_AHEAD * threads + 4 * threads;
        let mut calls = 0;
        let built = built(root.path(), files, &endless, threads, &mut |progress| {
            calls += 1;
            if calls % 10 == 1 {
                // Here the threads get ahead of the writer.
                std::thread::sleep(std::time::Duration::from_millis(200));
            }
            let waits = READ_BYTES.load(Ordering::Relaxed) - progress.bytes;
            assert!(waits <= (chunks_max * CHUNK) as u64, "{} chunks", waits / CHUNK as u64);
            if calls == 50 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        });
        assert!(matches!(built, Err(Error::Cancelled)));
        assert_eq!(calls, 50);
    }
}
