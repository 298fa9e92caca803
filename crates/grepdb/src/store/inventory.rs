//! The inventory: all files of a database whose entry and text are intact and in date.
//!
//! In: an open database and its damage log. Out: files in path order.
//!
//! It does not look at the tree.

use crate::error::{Error, Result};
use crate::path::path_order;
use crate::store::damage_log::DamageLog;
use crate::store::database::Database;
use crate::store::file_entry::FileEntry;
use crate::store::manifest::SegmentMeta;

pub(crate) struct Inventory {
    /// In path order.
    pub(crate) files: Vec<InventoryFile>,
    /// The segments, with a tombstone for every file that is not in `files`.
    pub(crate) segments: Vec<SegmentMeta>,
    /// No file is missing because of damage.
    pub(crate) is_complete: bool,
}

pub(crate) struct InventoryFile {
    pub(crate) segment: usize,
    pub(crate) number: u32,
    pub(crate) entry: FileEntry,
}

impl Inventory {
    /// The files of `database`, without those whose text or entry is damaged.
    pub(crate) fn new(database: &Database, damage: &DamageLog) -> Result<Self> {
        let mut files = Vec::new();
        let mut segments = database.manifest.segments.clone();
        let mut is_complete = true;
        for (at, segment) in database.segments.iter().enumerate() {
            for (chunk, entries) in (0..).zip(segment.files_by_chunk()?) {
                let numbers = segment.file_numbers(chunk)?;
                let has_text =
                    !segment.chunks_of_file(chunk).any(|part| damage.has(segment.path(), Some(part)));
                let is_current = |number: &u32| !database.has_tombstone(at, *number);
                match entries {
                    Ok(entries) if has_text => {
                        let current = numbers.zip(entries).filter(|(number, _)| is_current(number));
                        files.extend(current.map(|(number, entry)| InventoryFile {
                            segment: at,
                            number,
                            entry,
                        }));
                    }
                    Ok(_) | Err(Error::Damaged { .. }) => {
                        is_complete = false;
                        segments[at].tombstones.extend(numbers.filter(is_current));
                    }
                    Err(error) => return Err(error),
                }
            }
        }
        // A single segment is in order already.
        if database.segments.len() > 1 {
            files.sort_by(|a, b| path_order(&a.entry.path, &b.entry.path));
        }
        Ok(Self { files, segments, is_complete })
    }
}

impl Database {
    pub(crate) fn inventory(&self) -> Result<Inventory> {
        Inventory::new(self, &DamageLog::read(&self.location.folder))
    }
}
