//! Skips: a test process -> a line in a file -> the summary.
//!
//! Each run of cargo has one file in the folder for temporary files. Its name holds cargo's process id and
//! start time, so an old file is never taken for this run's. A test that cargo did not start writes no file.

use std::fmt;
use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};

/// The begin of each file's name.
const PREFIX: &str = "faultless-skipped-";

/// What a test lacks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    /// Something that can be installed.
    Package,
    /// The kernel, the hardware, or a right.
    Feature,
    /// A variable that asks for the test.
    Request,
}

impl Kind {
    pub(crate) const ALL: [Self; 3] = [Self::Package, Self::Feature, Self::Request];

    /// The word in files.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Package => "package",
            Self::Feature => "feature",
            Self::Request => "request",
        }
    }

    pub(crate) fn from_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.word() == word)
    }
}

/// A test, or a part of one, that skipped.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Record {
    pub(crate) kind: Kind,
    /// The package, feature or variable that is missing.
    pub(crate) what: String,
    /// The crate of the test.
    pub(crate) package: String,
    pub(crate) test: String,
    /// File, line and column of the skip.
    pub(crate) location: String,
    pub(crate) why: String,
}

impl fmt::Display for Record {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { kind, what, package, test, location, why } = self;
        write!(f, "{package} {test} ({location}): no {} {what}: {why}", kind.word())
    }
}

impl Record {
    /// Appends the record to this run's file, if cargo runs this test. In one write, because test processes
    /// run in parallel.
    pub(crate) fn keep(&self) {
        let Some(path) = file() else { return };
        let file = OpenOptions::new().create(true).append(true).open(&path);
        let written = file.and_then(|mut file| file.write_all(self.line().as_bytes()));
        if let Err(error) = written {
            eprintln!("{}: {error}: the summary will lack this", path.display());
        }
    }

    fn line(&self) -> String {
        let fields = [self.kind.word(), &self.what, &self.package, &self.test, &self.location, &self.why];
        let fields = fields.map(|field| field.split_whitespace().collect::<Vec<_>>().join(" "));
        fields.join("\t") + "\n"
    }

    fn parse(line: &str) -> Option<Self> {
        let fields: Vec<&str> = line.split('\t').collect();
        let [kind, what, package, test, location, why] = fields[..] else { return None };
        let [what, package, test, location, why] = [what, package, test, location, why].map(str::to_owned);
        Some(Self { kind: Kind::from_word(kind)?, what, package, test, location, why })
    }
}

/// All records of this run, without duplicates, sorted by kind. Removes this file, and the files of finished
/// runs.
pub(crate) fn take() -> Vec<Record> {
    let text = file().and_then(|path| {
        let text = fs::read_to_string(&path).ok();
        let _ = fs::remove_file(path);
        text
    });
    sweep(&std::env::temp_dir());
    records(&text.unwrap_or_default())
}

fn records(text: &str) -> Vec<Record> {
    let mut records: Vec<Record> = text.lines().filter_map(Record::parse).collect();
    records.sort();
    records.dedup();
    records
}

/// Removes the files of runs without a summary, such as `cargo test -p faultless-os`.
fn sweep(folder: &Path) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let Some(run) = name.to_str().and_then(|name| name.strip_prefix(PREFIX)) else { continue };
        let pid = run.split('-').next().and_then(|pid| pid.parse().ok());
        let is_over = pid.is_none_or(|pid| Process::read(pid).is_none_or(|process| process.run() != run));
        if is_over {
            let _ = fs::remove_file(entry.path());
        }
    }
}

/// This run's file. `None` if no cargo is above this process.
fn file() -> Option<PathBuf> {
    let mut process = Process::read(std::process::id())?;
    while process.parent != 0 {
        process = Process::read(process.parent)?;
        if process.name == "cargo" {
            return Some(std::env::temp_dir().join(format!("{PREFIX}{}", process.run())));
        }
    }
    None
}

/// A process, from `/proc/PID/stat` (proc_pid_stat(5)).
#[derive(Debug, PartialEq, Eq)]
struct Process {
    pid: u32,
    parent: u32,
    name: String,
    /// In clock ticks since the boot.
    started: u64,
}

impl Process {
    fn read(pid: u32) -> Option<Self> {
        Self::parse(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
    }

    /// The name is in brackets. It may hold brackets and blanks.
    fn parse(stat: &str) -> Option<Self> {
        let (pid, rest) = stat.split_once(" (")?;
        let (name, rest) = rest.rsplit_once(") ")?;
        let fields: Vec<&str> = rest.split_whitespace().collect();
        // In the line, field 4 is the parent and field 22 the start. The remaining text begins with field 3,
        // the state.
        let (parent, started) = (fields.get(1)?.parse().ok()?, fields.get(19)?.parse().ok()?);
        Some(Self { pid: pid.parse().ok()?, parent, name: name.to_owned(), started })
    }

    fn run(&self) -> String {
        format!("{}-{}", self.pid, self.started)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record() -> Record {
        let [what, package, test, location, why] =
            ["ripgrep", "faultless-grep", "it_is_faster", "a.rs:1:2", "not on the PATH"].map(str::to_owned);
        Record { kind: Kind::Package, what, package, test, location, why }
    }

    #[test]
    fn a_record_is_one_line_and_comes_back_whatever_its_reason_holds() {
        let lines = Record { why: "two\nlines\tand a tab ".into(), ..record() };
        assert_eq!(lines.line().matches('\n').count(), 1);
        let found = Record::parse(lines.line().trim_end()).unwrap();
        assert_eq!(found, Record { why: "two lines and a tab".into(), ..record() });
    }

    #[test]
    fn what_a_test_records_twice_counts_once_and_a_torn_line_is_left_out() {
        let line = record().line();
        let text = format!("{line}{line}package\tripg");
        assert_eq!(records(&text), [record()]);
    }

    #[test]
    fn a_process_is_read_with_brackets_and_blanks_in_its_name() {
        let stat = "7 (a) (b c)) S 5 7 7 0 -1 4194304 1 2 3 4 5 6 7 8 20 0 1 0 4242 9 9";
        let expected = Process { pid: 7, parent: 5, name: "a) (b c)".into(), started: 4242 };
        assert_eq!(Process::parse(stat), Some(expected));
        assert_eq!(Process::read(std::process::id()).unwrap().parent, std::os::unix::process::parent_id());
    }

    #[test]
    fn files_of_runs_that_are_over_are_swept_away_and_no_others() {
        let folder = tempfile::tempdir().unwrap();
        let running = Process::read(std::process::id()).unwrap().run();
        let names =
            [format!("{PREFIX}{running}"), "notes".into(), format!("{PREFIX}{}-1", std::process::id())];
        for name in &names {
            fs::write(folder.path().join(name), "").unwrap();
        }
        sweep(folder.path());
        let is_there = names.map(|name| folder.path().join(name).exists());
        assert_eq!(is_there, [true, true, false]);
    }
}
