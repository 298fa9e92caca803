//! What of a database is not what was written, and a note of it for the next update.
//!
//! In: what a search or a check came upon. Out: lines in a small file beside the manifest, and what an update has to write anew.
//!
//! What it does not do: find damage (`segment`), search in spite of it (`search`), or mend it (`update`).

use std::collections::BTreeSet;
use std::fmt;
use std::fs::{self, OpenOptions};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};

use crate::error::Error;

/// Part of a file of the database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// What there is.
    Manifest,
    /// What a segment can't be read without: its header, its table of chunks, or the file itself.
    Segment,
    /// Lists of grams: without them all chunks may match.
    Index,
    /// What all texts of a segment need.
    Dictionary,
    /// Text of the chunk of this number.
    Text(u32),
    /// Names of the files in it.
    Files(u32),
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Manifest => f.write_str("the list of segments"),
            Self::Segment => f.write_str("the segment"),
            Self::Index => f.write_str("the index"),
            Self::Dictionary => f.write_str("the dictionary"),
            Self::Text(chunk) => write!(f, "chunk {chunk}"),
            Self::Files(chunk) => write!(f, "the list of files of chunk {chunk}"),
        }
    }
}

/// Name of the note.
const NAME: &str = "damaged";
/// More of a note is not read, bytes: what it does not tell will be found again.
const NOTE_BYTES_MAX: u64 = 1 << 20;

/// What an update writes anew, by the names of files of the database.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Damage(BTreeSet<(String, Option<u32>)>);

impl Damage {
    /// The damage among `errors`, as far as an update has to be told: an unreadable segment or list of files it sees itself.
    fn of<'e>(errors: impl IntoIterator<Item = &'e Error>) -> Self {
        let damaged = errors.into_iter().filter_map(|error| {
            let Error::Damaged { path, part } = error else { return None };
            let chunk = match part {
                Part::Text(chunk) => Some(*chunk),
                Part::Index | Part::Dictionary => None,
                Part::Manifest | Part::Segment | Part::Files(_) => return None,
            };
            Some((path.file_name()?.to_str()?.to_owned(), chunk))
        });
        Self(damaged.collect())
    }

    /// All of the file at `path` is to be written anew.
    pub(crate) fn has_all_of(&self, path: &Path) -> bool {
        self.has(path, None)
    }

    /// The text of a chunk of the file at `path` is lost.
    pub(crate) fn has_chunk(&self, path: &Path, chunk: u32) -> bool {
        self.has(path, Some(chunk))
    }

    fn has(&self, path: &Path, chunk: Option<u32>) -> bool {
        let name = path.file_name().and_then(|name| name.to_str());
        name.is_some_and(|name| self.0.contains(&(name.to_owned(), chunk)))
    }
}

/// The note in `folder`. What can't be read of it will be found again.
pub(crate) fn noted(folder: &Path) -> Damage {
    let mut text = String::new();
    if let Ok(file) = fs::File::open(folder.join(NAME)) {
        let _ = file.take(NOTE_BYTES_MAX).read_to_string(&mut text);
    }
    let lines = text.lines().filter_map(|line| {
        let (name, chunk) = line.split_once(' ')?;
        match chunk {
            "*" => Some((name.to_owned(), None)),
            chunk => Some((name.to_owned(), Some(chunk.parse().ok()?))),
        }
    });
    Damage(lines.collect())
}

/// Adds the damage among `errors` to the note in `folder`, where that may be written.
pub(crate) fn note<'e>(folder: &Path, errors: impl IntoIterator<Item = &'e Error>) {
    let new = Damage::of(errors);
    if new.0.is_empty() {
        return;
    }
    let known = noted(folder);
    let line = |(name, chunk): &(String, Option<u32>)| match chunk {
        Some(chunk) => format!("{name} {chunk}\n"),
        None => format!("{name} *\n"),
    };
    let lines: String = new.0.difference(&known.0).map(line).collect();
    if let Ok(mut file) = OpenOptions::new().create(true).append(true).open(path(folder)) {
        let _ = file.write_all(lines.as_bytes());
    }
}

/// Everything that was noted in `folder` has been written anew.
pub(crate) fn forget(folder: &Path) {
    // What stays names what is no more.
    let _ = fs::remove_file(path(folder));
}

fn path(folder: &Path) -> PathBuf {
    folder.join(NAME)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn damaged(path: &str, part: Part) -> Error {
        Error::Damaged { path: path.into(), part }
    }

    #[test]
    fn what_was_noted_is_known_until_it_is_forgotten() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(noted(folder.path()), Damage::default());
        note(folder.path(), &[damaged("x/1.segment", Part::Text(7)), damaged("x/2.segment", Part::Index)]);
        note(folder.path(), &[damaged("x/1.segment", Part::Text(7)), damaged("x/1.segment", Part::Text(8))]);
        let damage = noted(folder.path());
        assert!(damage.has_chunk(Path::new("y/1.segment"), 7) && damage.has_chunk(Path::new("1.segment"), 8));
        assert!(!damage.has_chunk(Path::new("2.segment"), 7) && damage.has_all_of(Path::new("2.segment")));
        assert_eq!(fs::read_to_string(path(folder.path())).unwrap().lines().count(), 3);
        forget(folder.path());
        assert_eq!(noted(folder.path()), Damage::default());
    }

    #[test]
    fn a_note_that_makes_no_sense_says_nothing() {
        let folder = tempfile::tempdir().unwrap();
        for text in [&b"\xff\xfe"[..], b"1.segment", b"1.segment -1\n", b"1.segment 99999999999999\n\n \n"] {
            fs::write(path(folder.path()), text).unwrap();
            let damage = noted(folder.path());
            assert!(
                !damage.has_all_of(Path::new("1.segment")) && !damage.has_chunk(Path::new("1.segment"), 1)
            );
        }
    }

    #[test]
    fn a_folder_that_may_not_be_written_is_left_alone() {
        note(Path::new("/nowhere/at/all"), &[damaged("1.segment", Part::Index)]);
    }
}
