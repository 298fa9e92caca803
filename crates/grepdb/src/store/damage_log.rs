//! The damage log: parts of a database that a search or a check found damaged, for the next update to rebuild.
//!
//! In: errors. Out: lines in the file `damaged` beside the manifest, and a set to look them up in.
//!
//! It does not detect damage (`segment`), search around it (`search`), or repair it (`fresh`).

use std::collections::BTreeSet;
use std::fs::{self, OpenOptions};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};

use crate::error::{DamagedPart, Error};

const NAME: &str = "damaged";
/// Bytes of a log that are read. Damage beyond this limit will be found again.
const LOG_BYTES_MAX: u64 = 1 << 20;

/// Names of damaged segment files, each with the number of a chunk, or `None` for the whole segment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct DamageLog(BTreeSet<(String, Option<u32>)>);

impl DamageLog {
    /// Reads the log in `folder`. Lines that can't be read are skipped: that damage will be found again.
    pub(crate) fn read(folder: &Path) -> Self {
        let mut text = String::new();
        if let Ok(file) = fs::File::open(path(folder)) {
            let _ = file.take(LOG_BYTES_MAX).read_to_string(&mut text);
        }
        let lines = text.lines().filter_map(|line| {
            let (name, chunk) = line.split_once(' ')?;
            match chunk {
                "*" => Some((name.to_owned(), None)),
                chunk => Some((name.to_owned(), Some(chunk.parse().ok()?))),
            }
        });
        Self(lines.collect())
    }

    /// Adds the damage among `errors` to the log in `folder`. Does nothing if the folder can't be written.
    pub(crate) fn append<'e>(folder: &Path, errors: impl IntoIterator<Item = &'e Error>) {
        let new = Self::from_errors(errors);
        if new.0.is_empty() {
            return;
        }
        let known = Self::read(folder);
        let line = |(name, chunk): &(String, Option<u32>)| match chunk {
            Some(chunk) => format!("{name} {chunk}\n"),
            None => format!("{name} *\n"),
        };
        let lines: String = new.0.difference(&known.0).map(line).collect();
        if let Ok(mut file) = OpenOptions::new().create(true).append(true).open(path(folder)) {
            let _ = file.write_all(lines.as_bytes());
        }
    }

    /// Removes the log in `folder`: everything in it has been rebuilt.
    pub(crate) fn clear(folder: &Path) {
        // A log that stays behind names segments that no longer exist.
        let _ = fs::remove_file(path(folder));
    }

    /// The damage that an update can't notice on its own. It always notices unreadable segments and file tables.
    fn from_errors<'e>(errors: impl IntoIterator<Item = &'e Error>) -> Self {
        let damaged = errors.into_iter().filter_map(|error| {
            let Error::Damaged { path, part } = error else { return None };
            let chunk = match part {
                DamagedPart::Text(chunk) => Some(*chunk),
                DamagedPart::Index | DamagedPart::Dictionary => None,
                DamagedPart::Manifest | DamagedPart::Segment | DamagedPart::Files(_) => return None,
            };
            Some((path.file_name()?.to_str()?.to_owned(), chunk))
        });
        Self(damaged.collect())
    }

    /// Whether the text of `chunk` in the segment at `path` is damaged; without `chunk`, whether the whole segment must be
    /// rebuilt.
    pub(crate) fn has(&self, path: &Path, chunk: Option<u32>) -> bool {
        let name = path.file_name().and_then(|name| name.to_str());
        name.is_some_and(|name| self.0.contains(&(name.to_owned(), chunk)))
    }
}

fn path(folder: &Path) -> PathBuf {
    folder.join(NAME)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn damaged(path: &str, part: DamagedPart) -> Error {
        Error::Damaged { path: path.into(), part }
    }

    #[test]
    fn what_was_logged_is_known_until_it_is_cleared() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        let text = |chunk| damaged("x/1.segment", DamagedPart::Text(chunk));
        assert_eq!(DamageLog::read(folder), DamageLog::default());
        DamageLog::append(folder, &[text(7), damaged("x/2.segment", DamagedPart::Index)]);
        DamageLog::append(folder, &[text(7), text(8)]);
        let log = DamageLog::read(folder);
        assert!(log.has(Path::new("y/1.segment"), Some(7)) && log.has(Path::new("1.segment"), Some(8)));
        assert!(!log.has(Path::new("2.segment"), Some(7)) && log.has(Path::new("2.segment"), None));
        assert_eq!(fs::read_to_string(path(folder)).unwrap().lines().count(), 3);
        DamageLog::clear(folder);
        assert_eq!(DamageLog::read(folder), DamageLog::default());
    }

    #[test]
    fn a_log_that_makes_no_sense_says_nothing() {
        let folder = tempfile::tempdir().unwrap();
        for text in [&b"\xff\xfe"[..], b"1.segment", b"1.segment -1\n", b"1.segment 99999999999999\n\n \n"] {
            fs::write(path(folder.path()), text).unwrap();
            let log = DamageLog::read(folder.path());
            assert!(!log.has(Path::new("1.segment"), None) && !log.has(Path::new("1.segment"), Some(1)));
        }
    }

    #[test]
    fn a_folder_that_may_not_be_written_is_left_alone() {
        DamageLog::append(Path::new("/nowhere/at/all"), &[damaged("1.segment", DamagedPart::Index)]);
    }
}
