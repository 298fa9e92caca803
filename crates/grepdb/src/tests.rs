//! Compares the whole crate with a plain scan: on trees that change, and on damaged databases.

mod changes;
mod damage;
mod long_lines;
mod unusual;

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::ops::ControlFlow;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::mpsc::Receiver;
use std::time::{Duration, SystemTime};

use grep_printer::StandardBuilder;
use grep_regex::RegexMatcherBuilder;
use grep_searcher::{BinaryDetection, SearcherBuilder};

use crate::engine::{
    BlockSource, Database, DiskFile, LineFormat, LineMatcher, Location, OutputFormat, PatternOptions,
    PlainFormat, QueryPlan, Search, SearchReport,
};
use crate::tree::content::BINARY_PREFIX_BYTES;
use crate::{Rules, UpdateReport};

/// A pattern, and how to match it.
#[derive(Clone, Copy, Debug)]
struct Pattern {
    text: &'static str,
    ignore_case: bool,
    /// Matches may span several lines.
    multi_line: bool,
}

/// At least one of each kind that the index treats differently.
const PATTERNS: [Pattern; 15] = {
    const fn line(text: &'static str) -> Pattern {
        Pattern { text, ignore_case: false, multi_line: false }
    }
    [
        line("needle"),
        line("needle$"),
        line("^needle"),
        line("foo_bar|Nadel"),
        line(r"ne+dle\b.*alpha"),
        line("zz"),
        line("z"),
        line("^$"),
        line("nowhere_at_all"),
        line(r"[n-p]eedle"),
        line(r"[a-z]\s+$"),
        Pattern { text: "NADEL", ignore_case: true, multi_line: false },
        Pattern { text: r"needle\nfoo_bar", ignore_case: false, multi_line: true },
        Pattern { text: r"(?s)needle.{1,40}foo_bar", ignore_case: false, multi_line: true },
        Pattern { text: r"alpha\s+Nadel", ignore_case: false, multi_line: true },
    ]
};

impl Pattern {
    fn builder(self) -> RegexMatcherBuilder {
        let mut builder = RegexMatcherBuilder::new();
        builder.multi_line(true).unicode(true).case_insensitive(self.ignore_case);
        if !self.multi_line {
            builder.line_terminator(Some(b'\n'));
        }
        builder
    }

    fn searcher(self) -> SearcherBuilder {
        let mut searcher = SearcherBuilder::new();
        searcher.binary_detection(BinaryDetection::none()).bom_sniffing(false).line_number(true);
        searcher.multi_line(self.multi_line);
        searcher
    }
}

/// Printed lines by file.
type Lines = BTreeMap<String, Vec<String>>;

fn lines(out: &[u8]) -> Lines {
    let mut lines = Lines::new();
    for line in String::from_utf8_lossy(out).lines() {
        let path = line.split(':').next().unwrap_or_default();
        lines.entry(path.into()).or_default().push(line.into());
    }
    lines
}

fn build(root: &Path) -> UpdateReport {
    Database::build(&Location::in_tree(root), &Rules::default(), 2, &mut |_| ControlFlow::Continue(()))
        .unwrap()
}

fn update(root: &Path) -> UpdateReport {
    Database::update(&Location::in_tree(root), None, 2, &mut |_| ControlFlow::Continue(())).unwrap()
}

/// The lines that the database finds.
fn searched(root: &Path, pattern: Pattern) -> crate::Result<(Lines, SearchReport)> {
    searched_in(&Database::open(&Location::in_tree(root))?.expect("a database"), pattern)
}

fn searched_in(database: &Database, pattern: Pattern) -> crate::Result<(Lines, SearchReport)> {
    let lines = PlainFormat::Lines(LineFormat { path: true, number: true });
    searched_as(database, pattern, &OutputFormat::Plain(lines), None)
}

/// The same in another format, with more files on disk.
fn searched_as(
    database: &Database,
    pattern: Pattern,
    format: &OutputFormat,
    disk_files: Option<Receiver<DiskFile>>,
) -> crate::Result<(Lines, SearchReport)> {
    let reading = PatternOptions {
        ignore_case: pattern.ignore_case,
        unicode: true,
        by_line: !pattern.multi_line,
        is_plain: true,
        ..PatternOptions::default()
    };
    let search = Search {
        matcher: &LineMatcher::with_ascii(pattern.builder(), &[pattern.text]).unwrap(),
        plan: QueryPlan::new(&[pattern.text], reading)?,
        searcher: &pattern.searcher(),
        format,
        separator: b"",
        follows_output: false,
        at_once: false,
        binary: BinaryDetection::none(),
        binary_named: BinaryDetection::none(),
        every_file: false,
        sorted: false,
        folders: &[],
        is_wanted: &|_| true,
        display_path: &<[u8]>::to_vec,
        threads: &|| 2,
        block_source: BlockSource::Pool,
        first_match_only: false,
        cancel: None,
    };
    let (out, searched) = search.run(database, disk_files, Vec::new())?;
    Ok((lines(&out), searched))
}

/// The lines that a plain scan finds.
fn scanned(root: &Path, pattern: Pattern) -> Lines {
    let matcher = pattern.builder().build(pattern.text).unwrap();
    let mut searcher = pattern.searcher().build();
    let mut printer = StandardBuilder::new().build_no_color(Vec::new());
    for path in files(root) {
        let text = std::fs::read(root.join(&path)).unwrap();
        if !text[..text.len().min(BINARY_PREFIX_BYTES)].contains(&0) {
            let sink = printer.sink_with_path(&matcher, &path);
            searcher.search_slice(&matcher, &text, sink).unwrap();
        }
    }
    lines(printer.get_mut().get_ref())
}

/// The regular files of a tree, without the database.
fn files(root: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders = vec![PathBuf::new()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(root.join(&folder)).unwrap().flatten() {
            let path = folder.join(entry.file_name());
            let kind = entry.file_type().unwrap();
            if kind.is_dir() && entry.file_name() != ".faultless" {
                folders.push(path);
            } else if kind.is_file() {
                found.push(path);
            }
        }
    }
    found.sort();
    found
}

/// Writes a file with a modification time `age` seconds ago, so that its time is settled.
fn write(root: &Path, path: &[u8], text: &[u8], age: u64) {
    let path = root.join(OsStr::from_bytes(path));
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(&path, text).unwrap();
    let file = std::fs::File::options().write(true).open(&path).unwrap();
    file.set_modified(SystemTime::now() - Duration::from_secs(age)).unwrap();
}

/// Asserts that the database and a plain scan find the same lines for each pattern, without errors.
fn same_lines(root: &Path, patterns: impl Iterator<Item = Pattern>) {
    for pattern in patterns {
        let (lines, searched) = searched(root, pattern).unwrap();
        assert!(searched.trouble.is_empty(), "{pattern:?}: {:?}", searched.trouble);
        assert_same(&lines, &scanned(root, pattern), pattern);
    }
}

/// Reports only the first difference: lines may be long.
fn assert_same(found: &Lines, truth: &Lines, pattern: Pattern) {
    if found == truth {
        return;
    }
    let brief = |line: &String| format!("{:.100} ({} bytes)", line, line.len());
    for path in found.keys().chain(truth.keys()) {
        let (found, truth) = (found.get(path), truth.get(path));
        if found != truth {
            let brief = |lines: Option<&Vec<String>>| -> Vec<String> {
                lines.into_iter().flatten().take(10).map(brief).collect()
            };
            panic!("{pattern:?} in {path}: {:?} instead of {:?}", brief(found), brief(truth));
        }
    }
}
