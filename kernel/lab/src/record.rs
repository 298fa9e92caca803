//! A record on disk: what was counted of each cell, as files.
//!
//! ```text
//! FOLDER/host.txt       the build and the machine, as `name: value` lines
//! FOLDER/samples.csv    experiment, cell, round, phase, quantity, value
//! FOLDER/notes.csv      experiment, cell, round, kind, text: what could not be counted
//! FOLDER/functions.csv  see `functions`
//! ```
//! A table may be compressed by gzip, as `samples.csv.gz`. Counts are exact, so the first run of a cell is the record
//! and the second only a check: later rounds of older records are skipped. `faultless lab` has the same tables, and does
//! not compare these.

use std::collections::BTreeMap;
use std::fmt;
use std::fs::{self, File};
use std::io::{ErrorKind, Read, Write as _};
use std::path::{Path, PathBuf};

use faultless_console::{Failure, reason};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// Name of the table of counts; a folder with it holds a record.
pub(crate) const SAMPLES: &str = "samples.csv";
const NOTES: &str = "notes.csv";
const HOST: &str = "host.txt";
/// The experiment of all rows.
const EXPERIMENT: &str = "kernel";
/// Kind of a note: what the guest or its kernel could not do.
const REFUSED: &str = "refused";

/// A test under an arm: `NAME=VALUE` words, `arm` and `plan` first.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Cell(pub(crate) String);

impl Cell {
    /// The value of a parameter.
    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.0.split(' ').find_map(|word| word.strip_prefix(name)?.strip_prefix('='))
    }

    /// Whether it has all these `NAME=VALUE` words.
    pub(crate) fn has(&self, words: &str) -> bool {
        words.split_whitespace().all(|word| self.0.split(' ').any(|own| own == word))
    }
}

impl fmt::Display for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Counts of a cell, by `PHASE QUANTITY`.
pub(crate) type Quantities = BTreeMap<String, f64>;

/// A record, as it is read or to be written.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Record {
    /// The build and the machine.
    pub(crate) facts: Vec<(String, String)>,
    /// The counts.
    pub(crate) cells: BTreeMap<Cell, Quantities>,
    /// What could not be counted, and why: cells, or arms with their plans.
    pub(crate) refused: Vec<(Cell, String)>,
}

/// A row of [`SAMPLES`]: experiment, cell, round, phase, quantity, value.
type Sample = (String, String, u32, String, String, f64);
/// A row of [`NOTES`]: experiment, cell, round, kind, text.
type Note = (String, String, u32, String, String);

impl Record {
    /// Reads a record.
    ///
    /// # Errors
    /// The folder holds none, or one of its tables is damaged.
    pub(crate) fn read(folder: &Path) -> Result<Self, Failure> {
        let mut record = Self {
            facts: facts(&fs::read_to_string(folder.join(HOST)).unwrap_or_default()),
            ..Self::default()
        };
        for (_, cell, round, phase, quantity, value) in read_table::<Sample>(folder, SAMPLES)? {
            if round == 1 {
                record.cells.entry(Cell(cell)).or_default().insert(format!("{phase} {quantity}"), value);
            }
        }
        if record.cells.is_empty() {
            let folder = folder.display();
            return Err(Failure(format!(
                "{folder}: has no cell of the kernel lab; name a record of faultless lab kernel run"
            )));
        }
        let notes = if has_table(folder, NOTES) { read_table::<Note>(folder, NOTES)? } else { Vec::new() };
        let refused = notes.into_iter().filter(|(_, _, round, kind, _)| kind == REFUSED && *round == 1);
        record.refused = refused.map(|(_, cell, _, _, text)| (Cell(cell), text)).collect();
        Ok(record)
    }

    /// Writes the record into a folder, the counts last: a folder without them holds no record.
    ///
    /// # Errors
    /// The folder can't be written.
    pub(crate) fn write(&self, folder: &Path) -> Result<(), Failure> {
        let facts: String = self.facts.iter().map(|(name, value)| format!("{name}: {value}\n")).collect();
        fs::write(folder.join(HOST), facts).map_err(|error| unwritable(folder, &error))?;
        let notes = self.refused.iter().map(|(cell, text)| (EXPERIMENT, &cell.0, 1, REFUSED, text));
        write_table(folder, NOTES, "experiment,cell,round,kind,text\n", notes)?;
        let samples = self.cells.iter().flat_map(|(cell, quantities)| {
            quantities.iter().map(|(name, value)| {
                let (phase, quantity) = name.split_once(' ').unwrap_or(("", name));
                (EXPERIMENT, &cell.0, 1, phase, quantity, value)
            })
        });
        write_table(folder, SAMPLES, "experiment,cell,round,phase,quantity,value\n", samples)
    }

    /// The first cell with all these `NAME=VALUE` words.
    pub(crate) fn find(&self, words: &str) -> Option<(&Cell, &Quantities)> {
        self.cells.iter().find(|(cell, _)| cell.has(words))
    }

    /// A fact about the build or the machine; empty if it is not known.
    pub(crate) fn fact(&self, name: &str) -> &str {
        self.facts.iter().find(|(found, _)| found == name).map_or("", |(_, value)| value)
    }
}

/// Facts that are written as `name: value` lines.
pub(crate) fn facts(text: &str) -> Vec<(String, String)> {
    let lines = text.lines().filter_map(|line| line.split_once(':'));
    lines.map(|(name, value)| (name.trim().to_owned(), value.trim().to_owned())).collect()
}

fn packed(folder: &Path, name: &str) -> PathBuf {
    folder.join(format!("{name}.gz"))
}

/// Whether a folder has a table.
pub(crate) fn has_table(folder: &Path, name: &str) -> bool {
    folder.join(name).exists() || packed(folder, name).exists()
}

/// The rows of a table.
///
/// # Errors
/// It is not there, or a row is damaged.
pub(crate) fn read_table<T: DeserializeOwned>(folder: &Path, name: &str) -> Result<Vec<T>, Failure> {
    let path = folder.join(name);
    let unusable = |error: &dyn fmt::Display| {
        Failure(format!("{}: {error}; name the folder of a record of faultless lab kernel", path.display()))
    };
    let mut text = String::new();
    let read = match (File::open(&path), File::open(packed(folder, name))) {
        (Err(missing), Ok(packed)) if missing.kind() == ErrorKind::NotFound => {
            flate2::read::GzDecoder::new(packed).read_to_string(&mut text)
        }
        (file, _) => file.and_then(|mut file| file.read_to_string(&mut text)),
    };
    read.map_err(|error| unusable(&reason(&error)))?;
    csv::Reader::from_reader(text.as_bytes())
        .deserialize()
        .collect::<Result<_, _>>()
        .map_err(|error| unusable(&error))
}

/// Writes a table below its line of heads; an older one is replaced.
///
/// # Errors
/// The folder can't be written.
pub(crate) fn write_table(
    folder: &Path,
    name: &str,
    heads: &str,
    rows: impl Iterator<Item = impl Serialize>,
) -> Result<(), Failure> {
    let path = folder.join(name);
    let mut writer = csv::WriterBuilder::new().has_headers(false).from_writer(heads.as_bytes().to_vec());
    for row in rows {
        writer.serialize(row)?;
    }
    let bytes = writer.into_inner().map_err(|error| Failure(error.to_string()))?;
    let written =
        File::create(&path).and_then(|mut file| file.write_all(&bytes).and_then(|()| file.sync_all()));
    written.map_err(|error| unwritable(&path, &error))
}

/// The failure of a path that can't be written.
pub(crate) fn unwritable(path: &Path, error: &std::io::Error) -> Failure {
    Failure(format!("{}: {}; name a folder that can be written", path.display(), reason(error)))
}

#[cfg(test)]
impl Record {
    /// A record of cells, each with its quantities as `PHASE QUANTITY`.
    pub(crate) fn of(cells: &[(&str, &[(&str, f64)])]) -> Self {
        let quantities =
            |all: &[(&str, f64)]| all.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect();
        let cells = cells.iter().map(|(cell, all)| (Cell((*cell).to_owned()), quantities(all)));
        Self { cells: cells.collect(), ..Self::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_read_as_it_was_written_and_later_rounds_are_skipped() {
        let folder = tempfile::tempdir().unwrap();
        let cell = "arm=base plan=lines test=pft mib=64 lines=16";
        let mut record = Record::of(&[(cell, &[("section path_instructions", 3.0), ("guest pages", 2.0)])]);
        record.facts = vec![("kernel".into(), "6.12.117".into())];
        record.refused = vec![(Cell("arm=on plan=kinds".into()), "the kernel has no x, y".into())];
        record.write(folder.path()).unwrap();
        assert_eq!(Record::read(folder.path()).unwrap(), record);
        let samples = fs::read_to_string(folder.path().join(SAMPLES)).unwrap();
        let again =
            samples.lines().skip(1).map(|line| line.replace(",1,", ",2,").replace("3.0", "4.0") + "\n");
        fs::write(folder.path().join(SAMPLES), samples.clone() + &again.collect::<String>()).unwrap();
        assert_eq!(Record::read(folder.path()).unwrap(), record);
        fs::remove_file(folder.path().join(NOTES)).unwrap();
        assert!(Record::read(folder.path()).unwrap().refused.is_empty());
    }

    #[test]
    fn a_cell_is_found_by_whole_words() {
        let record = Record::of(&[("arm=base lines=16", &[]), ("arm=base lines=1", &[])]);
        let (cell, _) = record.find("lines=1").unwrap();
        assert_eq!(
            (cell.get("lines"), cell.get("line"), cell.has("arm=base lines=1")),
            (Some("1"), None, true)
        );
        assert!(record.find("arm=on").is_none());
    }
}
