//! A record on disk: raw samples, append-only.
//!
//! ```text
//! FOLDER/host.txt     the machine, for people
//! FOLDER/plan.json    what was asked for: experiments, effort, version
//! FOLDER/samples.csv  experiment, cell, round, phase, quantity, value
//! FOLDER/notes.csv    experiment, cell, round, kind, text: violation, refused, ended
//! ```
//! A sample is there completely or not at all. Its rows are written in one piece. A torn end (a full disk, a crash)
//! is cut off when the record is opened again. In: samples. Out: the samples for `results`, and how often each cell
//! was measured.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::cell::{Cell, Refusal};
use crate::renamed::{self, Names};
use crate::results::Results;
pub use crate::row::{ENDED, FINISHED, INTERRUPTED, Note, OUT_OF_TIME, REFUSED, Row, VIOLATION};
use crate::sample::Sample;

/// What a record was made with. A resumed record needs the same.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Asked {
    /// Version of this file.
    pub schema: u32,
    /// Version of faultless.
    pub version: String,
    /// The effort, as a word.
    pub effort: String,
    /// The experiments.
    pub experiments: Vec<String>,
    /// Parameters that were chosen for them, as `NAME=VALUES`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub parameters: Vec<String>,
    /// Seed of the shuffling.
    pub seed: u64,
}

/// Files of a record beside `plan.json`, including those derived from the samples.
const OURS: [&str; 4] = ["samples.csv", "notes.csv", "host.txt", "report.html"];

/// Version of `plan.json` and the two tables.
pub const SCHEMA: u32 = 1;

/// Wall times of the samples of a cell, ns, by phase.
pub type WallTimes = BTreeMap<String, Vec<f64>>;

/// A record that is being written.
#[derive(Debug)]
pub struct Record {
    folder: PathBuf,
    samples: File,
    notes: File,
    rounds: BTreeMap<Cell, u32>,
    wall_ns: BTreeMap<Cell, WallTimes>,
    refused: BTreeSet<Cell>,
    /// Locked while this record is open.
    _plan: File,
}

impl Record {
    /// Begins a record in a folder, or resumes the record there.
    ///
    /// # Errors
    /// The folder can't be written, holds other files, or a record that was made with something else.
    pub fn open(folder: &Path, asked: &Asked, host: &str) -> Result<Self, Refusal> {
        let failed = |error: io::Error| {
            Refusal(format!("{}: {error}; name a folder that can be written", folder.display()))
        };
        std::fs::create_dir_all(folder).map_err(failed)?;
        let plan = folder.join("plan.json");
        match std::fs::read_to_string(&plan) {
            Ok(text) => {
                let there = parse_asked(&plan, &text)?;
                let same = Asked { seed: asked.seed, ..there.clone() } == *asked;
                if !same {
                    let (there, asked) = (described(&there), described(asked));
                    let folder = folder.display();
                    return Err(Refusal(format!(
                        "{folder}: holds a record of {there}, not of {asked}; name another folder"
                    )));
                }
                let machine = std::fs::read_to_string(folder.join("host.txt")).map_err(failed)?;
                if let Some((there, here)) = differing(&machine, host) {
                    let folder = folder.display();
                    return Err(Refusal(format!(
                        "{folder}: holds a record of another machine or setting, {there} and not {here}; name another folder"
                    )));
                }
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                if let Some(name) = OURS.into_iter().find(|name| folder.join(name).exists()) {
                    return Err(Refusal(format!(
                        "{}: is there already, and is no record's; name another folder",
                        folder.join(name).display()
                    )));
                }
                write_whole(&folder.join("host.txt"), host.as_bytes()).map_err(failed)?;
                write_whole(&plan, (serde_json::to_string_pretty(asked)? + "\n").as_bytes())
                    .map_err(failed)?;
            }
            Err(error) => return Err(failed(error)),
        }
        let plan = File::open(&plan).map_err(failed)?;
        if let Err(TryLockError::WouldBlock) = plan.try_lock() {
            let folder = folder.display();
            return Err(Refusal(format!(
                "{folder}: another faultless lab writes there; wait for it, or name another folder"
            )));
        }
        let samples = open_table(&folder.join("samples.csv"), "experiment,cell,round,phase,quantity,value\n")
            .map_err(failed)?;
        let notes =
            open_table(&folder.join("notes.csv"), "experiment,cell,round,kind,text\n").map_err(failed)?;
        let mut record = Self {
            folder: folder.into(),
            samples,
            notes,
            rounds: BTreeMap::new(),
            wall_ns: BTreeMap::new(),
            refused: BTreeSet::new(),
            _plan: plan,
        };
        for row in read_rows(folder)? {
            let cell = Cell::parse(&row.experiment, row.cell.split_whitespace())?;
            record.remember(&cell, row.round, &row.phase, &row.quantity, row.value);
        }
        Ok(record)
    }

    /// The folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// How often a cell was measured.
    pub fn rounds(&self, cell: &Cell) -> u32 {
        self.rounds.get(cell).copied().unwrap_or(0)
    }

    /// The wall times of a cell.
    pub fn wall_ns(&self, cell: &Cell) -> Option<&WallTimes> {
        self.wall_ns.get(cell)
    }

    fn remember(&mut self, cell: &Cell, round: u32, phase: &str, quantity: &str, value: f64) {
        let rounds = self.rounds.entry(cell.clone()).or_default();
        *rounds = round.max(*rounds);
        if quantity == "wall_ns" {
            let phases = self.wall_ns.entry(cell.clone()).or_default();
            phases.entry(phase.to_owned()).or_default().push(value);
        }
    }

    /// Whether the machine refused a cell since this record was opened. An earlier run's refusals do not count:
    /// its reason may be gone.
    pub fn is_refused(&self, cell: &Cell) -> bool {
        self.refused.contains(cell)
    }

    /// Adds one sample of a cell.
    ///
    /// # Errors
    /// It can't be written; earlier samples are kept.
    pub fn add(&mut self, cell: &Cell, sample: &Sample) -> Result<(), Refusal> {
        let round = self.rounds(cell) + 1;
        let words = cell.words().join(" ");
        for text in &sample.violations {
            self.note(cell, round, VIOLATION, text)?;
        }
        if let Some(text) = &sample.refused {
            self.note(cell, round, REFUSED, text)?;
            self.refused.insert(cell.clone());
            return Ok(());
        }
        let rows = sample.values.iter().map(|value| Row {
            experiment: cell.experiment.clone(),
            cell: words.clone(),
            round,
            phase: value.phase.clone(),
            quantity: value.quantity.clone(),
            value: value.value,
        });
        append(&mut self.samples, rows).map_err(|error| self.lost("samples.csv", &error))?;
        self.rounds.insert(cell.clone(), round);
        for value in &sample.values {
            self.remember(cell, round, &value.phase, &value.quantity, value.value);
        }
        Ok(())
    }

    /// Notes how a run ended.
    ///
    /// # Errors
    /// It can't be written.
    pub fn end(&mut self, how: &str) -> Result<(), Refusal> {
        self.note(&Cell::of(""), 0, ENDED, how)?;
        self.sync()
    }

    /// Makes what was written durable.
    ///
    /// # Errors
    /// The disk refuses.
    pub fn sync(&self) -> Result<(), Refusal> {
        self.samples
            .sync_all()
            .and_then(|()| self.notes.sync_all())
            .map_err(|error| self.lost("samples.csv", &error))
    }

    /// Adds a remark about a cell.
    fn note(&mut self, cell: &Cell, round: u32, kind: &str, text: &str) -> Result<(), Refusal> {
        let note = Note {
            experiment: cell.experiment.clone(),
            cell: cell.words().join(" "),
            round,
            kind: kind.into(),
            text: text.replace(['\n', '\r'], " "),
        };
        append(&mut self.notes, std::iter::once(note)).map_err(|error| self.lost("notes.csv", &error))
    }

    fn lost(&self, file: &str, error: &io::Error) -> Refusal {
        let path = self.folder.join(file);
        Refusal(format!(
            "{}: {error}; what was measured before is kept, make room and start again to go on",
            path.display()
        ))
    }
}

fn described(asked: &Asked) -> String {
    format!("{asked} by {}", asked.version)
}

impl fmt::Display for Asked {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(&self.experiments.join(", "))?;
        if !self.parameters.is_empty() {
            write!(f, " with {}", self.parameters.join(" "))?;
        }
        write!(f, " at {} effort", self.effort)
    }
}

/// The results of a record, without the samples that can't be right.
///
/// # Errors
/// It can't be read, or is not a record.
pub fn read(folder: &Path) -> Result<Results, Refusal> {
    let notes = read_notes(folder)?;
    let wrong: BTreeSet<_> = notes
        .iter()
        .filter(|note| note.kind == VIOLATION)
        .map(|note| (note.experiment.as_str(), note.cell.as_str(), note.round))
        .collect();
    let mut rows = read_rows(folder)?;
    rows.retain(|row| !wrong.contains(&(row.experiment.as_str(), row.cell.as_str(), row.round)));
    let mut results = Results::of(rows)?;
    (results.notes, results.lacks) = (notes, lacks(folder));
    results.is_torn = ["samples.csv", NOTES]
        .iter()
        .any(|name| std::fs::read(folder.join(name)).is_ok_and(|bytes| whole_len(&bytes) < bytes.len()));
    Ok(results)
}

/// What a record was made with. If it was stored without that, only the experiments of its samples are known.
///
/// # Errors
/// It can't be read, or is not a record.
pub fn asked(folder: &Path, results: &Results) -> Result<Asked, Refusal> {
    if !results.lacks.contains(&PLAN) {
        let mut asked = read_asked(folder)?;
        for name in &mut asked.experiments {
            *name = renamed::experiment(name).to_owned();
        }
        return Ok(asked);
    }
    let unknown = || "unknown".to_owned();
    let experiments: BTreeSet<&str> = results.all().map(|(cell, _)| cell.experiment.as_str()).collect();
    let experiments = experiments.into_iter().map(str::to_owned).collect();
    Ok(Asked {
        schema: SCHEMA,
        version: unknown(),
        effort: unknown(),
        experiments,
        parameters: Vec::new(),
        seed: 0,
    })
}

/// The samples of a record.
///
/// # Errors
/// It can't be read, or is not a record.
pub(crate) fn read_rows(folder: &Path) -> Result<Vec<Row>, Refusal> {
    let rows: Vec<Row> = read_table(&folder.join("samples.csv"))?;
    let mut names = Names::default();
    let mut kept = Vec::with_capacity(rows.len());
    for mut row in rows {
        row.phase = renamed::phase(&row.experiment, &row.phase).to_owned();
        if names.renew(&mut row.experiment, &mut row.cell, &mut row.round)? {
            kept.push(row);
        }
    }
    Ok(kept)
}

/// The notes of a record; none if it has samples only.
///
/// # Errors
/// It can't be read, or is not a record.
pub(crate) fn read_notes(folder: &Path) -> Result<Vec<Note>, Refusal> {
    if lacks(folder).contains(&NOTES) {
        return Ok(Vec::new());
    }
    let notes: Vec<Note> = read_table(&folder.join(NOTES))?;
    let (mut names, mut kept) = (Names::default(), Vec::new());
    for mut note in notes {
        let is_whole = note.experiment.is_empty();
        if is_whole || names.renew(&mut note.experiment, &mut note.cell, &mut note.round)? {
            kept.push(note);
        }
    }
    Ok(kept)
}

pub(crate) const PLAN: &str = "plan.json";
/// The table of notes.
pub const NOTES: &str = "notes.csv";

/// The files that a record was stored without, though it has samples.
pub(crate) fn lacks(folder: &Path) -> Vec<&'static str> {
    let has = |name: &str| folder.join(name).exists() || packed(&folder.join(name)).exists();
    [PLAN, NOTES].into_iter().filter(|name| !has(name) && has("samples.csv")).collect()
}

/// What a record was made with.
///
/// # Errors
/// It can't be read, or is not a record.
pub(crate) fn read_asked(folder: &Path) -> Result<Asked, Refusal> {
    let path = folder.join(PLAN);
    let text = std::fs::read_to_string(&path).map_err(|error| unreadable(&path, &error))?;
    parse_asked(&path, &text)
}

fn parse_asked(path: &Path, text: &str) -> Result<Asked, Refusal> {
    let asked: Asked = serde_json::from_str(text).map_err(|error| unreadable(path, &error))?;
    match asked.schema {
        SCHEMA => Ok(asked),
        other => Err(Refusal(format!(
            "{}: schema {other} of faultless {}, where this one reads {SCHEMA}; use that version",
            path.display(),
            asked.version
        ))),
    }
}

/// The first fact about the machine in which two descriptions differ, apart from date and command.
fn differing<'a>(there: &'a str, here: &'a str) -> Option<(&'a str, &'a str)> {
    let facts = |text: &'a str| {
        text.lines().filter(|line| !line.starts_with("command:") && !line.starts_with("begun:"))
    };
    let trimmed = |line: &'a str| line.trim();
    facts(there).map(trimmed).zip(facts(here).map(trimmed)).find(|(there, here)| there != here)
}

fn read_table<T: for<'de> Deserialize<'de>>(path: &Path) -> Result<Vec<T>, Refusal> {
    let text = read_text(path).map_err(|error| unreadable(path, &error))?;
    let whole = &text[..whole_len(text.as_bytes())];
    if !whole.is_empty() && !whole.starts_with(HEADS) {
        return Err(unreadable(path, &io::Error::other(format!("does not begin with {HEADS}"))));
    }
    csv::Reader::from_reader(whole.as_bytes())
        .deserialize()
        .collect::<Result<_, _>>()
        .map_err(|error| unreadable(path, &error))
}

/// The first columns of samples and notes.
const HEADS: &str = "experiment,cell,round";

/// The same table, compressed.
fn packed(path: &Path) -> PathBuf {
    path.with_extension("csv.gz")
}

/// A table's text. If only the file compressed by gzip is there, it is that one's.
fn read_text(path: &Path) -> io::Result<String> {
    match (std::fs::read_to_string(path), File::open(packed(path))) {
        (Err(missing), Ok(packed)) if missing.kind() == io::ErrorKind::NotFound => {
            let mut text = String::new();
            flate2::read::GzDecoder::new(packed).read_to_string(&mut text)?;
            Ok(text)
        }
        (read, _) => read,
    }
}

fn unreadable(path: &Path, error: &dyn std::error::Error) -> Refusal {
    Refusal(format!("{}: {error}; name the folder of a record of faultless lab", path.display()))
}

/// The text up to the last whole line.
fn whole_len(bytes: &[u8]) -> usize {
    bytes.iter().rposition(|&byte| byte == b'\n').map_or(0, |at| at + 1)
}

fn open_table(path: &Path, header: &str) -> io::Result<File> {
    let mut file = OpenOptions::new().read(true).append(true).create(true).open(path)?;
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes)?;
    let whole = whole_len(&bytes);
    if whole < bytes.len() {
        file.set_len(whole as u64)?;
    }
    if whole == 0 {
        file.write_all(header.as_bytes())?;
    }
    Ok(file)
}

fn append<T: Serialize>(file: &mut File, rows: impl Iterator<Item = T>) -> io::Result<()> {
    let mut writer = csv::WriterBuilder::new().has_headers(false).from_writer(Vec::new());
    for row in rows {
        writer.serialize(row)?;
    }
    let bytes = writer.into_inner().map_err(|error| io::Error::other(error.to_string()))?;
    let before = file.metadata()?.len();
    let written = file.write_all(&bytes);
    if written.is_err() {
        // A part of a sample is worse than none. If it can't be cut off now, the next opening of the record
        // does it.
        let _ = file.set_len(before);
    }
    written
}

/// Writes a file that appears completely or not at all.
fn write_whole(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let folder = path.parent().unwrap_or(Path::new("."));
    // Less the umask, as for any new file.
    let rights = std::fs::Permissions::from_mode(0o666);
    let mut aside = tempfile::Builder::new().permissions(rights).tempfile_in(folder)?;
    aside.write_all(bytes)?;
    aside.as_file().sync_all()?;
    aside.persist(path)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::Effort;

    fn asked(effort: Effort) -> Asked {
        Asked {
            schema: SCHEMA,
            version: "0".into(),
            effort: effort.word().into(),
            experiments: vec!["touch".into()],
            parameters: Vec::new(),
            seed: 7,
        }
    }

    fn sample(value: f64) -> Sample {
        let mut sample = Sample::default();
        sample.add("first", "wall_ns", value);
        sample.add("first", "minor_faults", 3.0);
        sample
    }

    #[test]
    fn a_torn_end_is_cut_off() {
        let folder = tempfile::tempdir().unwrap();
        let mut record = Record::open(folder.path(), &asked(Effort::Quick), "host").unwrap();
        record.add(&Cell::of("touch"), &sample(1.0)).unwrap();
        drop(record);
        let path = folder.path().join("samples.csv");
        let mut torn = OpenOptions::new().append(true).open(&path).unwrap();
        torn.write_all(b"touch,,2,first,wall").unwrap();
        assert_eq!(read_rows(folder.path()).unwrap().len(), 2);
        assert!(read(folder.path()).unwrap().is_torn);
        let mut record = Record::open(folder.path(), &asked(Effort::Quick), "host").unwrap();
        record.add(&Cell::of("touch"), &sample(2.0)).unwrap();
        assert_eq!(read_rows(folder.path()).unwrap().len(), 4);
    }

    #[test]
    fn another_plan_and_other_folders_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        Record::open(folder.path(), &asked(Effort::Quick), "host").unwrap();
        let refusal = Record::open(folder.path(), &asked(Effort::Full), "host").unwrap_err();
        assert!(
            refusal.0.contains("touch at quick effort") && refusal.0.contains("name another folder"),
            "{refusal}"
        );
        assert!(
            read_rows(&folder.path().join("none")).unwrap_err().0.contains("name the folder of a record")
        );
    }

    #[test]
    fn files_of_somebody_else_are_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        for name in OURS {
            let file = folder.path().join(name);
            std::fs::write(&file, "a,b\n1,2\n3,4").unwrap();
            let refusal = Record::open(folder.path(), &asked(Effort::Quick), "host").unwrap_err();
            assert!(refusal.0.contains(name) && refusal.0.contains("name another folder"), "{refusal}");
            assert_eq!(std::fs::read_to_string(&file).unwrap(), "a,b\n1,2\n3,4");
            std::fs::remove_file(&file).unwrap();
        }
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    }

    #[test]
    fn two_can_not_write_one_record() {
        let folder = tempfile::tempdir().unwrap();
        let first = Record::open(folder.path(), &asked(Effort::Quick), "host").unwrap();
        let refusal = Record::open(folder.path(), &asked(Effort::Quick), "host").unwrap_err();
        assert!(refusal.0.contains("another faultless lab writes there"), "{refusal}");
        drop(first);
        Record::open(folder.path(), &asked(Effort::Quick), "host").unwrap();
    }

    #[test]
    fn another_machine_and_another_schema_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let host = |kernel| format!("kernel:   {kernel}\ncommand:  faultless lab -o {kernel}\n");
        Record::open(folder.path(), &asked(Effort::Quick), &host("6.1")).unwrap();
        Record::open(folder.path(), &asked(Effort::Quick), &host("6.1").replace("-o", "-q")).unwrap();
        let refusal = Record::open(folder.path(), &asked(Effort::Quick), &host("6.12")).unwrap_err();
        assert!(refusal.0.contains("kernel:   6.1 and not kernel:   6.12"), "{refusal}");
        let newer = Asked { schema: SCHEMA + 1, ..asked(Effort::Quick) };
        std::fs::write(folder.path().join("plan.json"), serde_json::to_string(&newer).unwrap()).unwrap();
        assert!(
            read_asked(folder.path())
                .unwrap_err()
                .0
                .contains("schema 2 of faultless 0, where this one reads 1")
        );
    }

    #[test]
    fn what_the_machine_can_not_do_is_tried_again_by_the_next_run() {
        let folder = tempfile::tempdir().unwrap();
        let refused = Sample { refused: Some("no\nhugetlb, pages".into()), ..Sample::default() };
        let mut record = Record::open(folder.path(), &asked(Effort::Quick), "host").unwrap();
        record.add(&Cell::of("touch"), &refused).unwrap();
        assert!(record.is_refused(&Cell::of("touch")));
        drop(record);
        let record = Record::open(folder.path(), &asked(Effort::Quick), "host").unwrap();
        assert!(!record.is_refused(&Cell::of("touch")));
        assert_eq!(read_notes(folder.path()).unwrap()[0].text, "no hugetlb, pages");
    }
}
