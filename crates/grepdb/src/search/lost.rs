//! Files whose part of the database is damaged, searched where they came from.
//!
//! In: chunks that can't be read. Out: matches in their files as they are in the tree now. Where not even the names are known, all
//! files of the tree that no other part of the database names are searched, once.
//!
//! What it does not do: mend (`update`).

use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::path::Path;
use std::sync::{Mutex, OnceLock, PoisonError};

use super::run::Worker;
use super::{Item, Live, Shared};
use crate::content::Content;
use crate::database::Database;
use crate::error::{Error, Result};
use crate::files::FileEntry;
use crate::order::Piece;
use crate::walk::{full, mtime_ns, walk};

/// Files of the tree that no sound part of the database names.
#[derive(Debug, Default)]
pub(crate) struct Lost(OnceLock<Mutex<Vec<Vec<u8>>>>);

impl Lost {
    /// All of them; nothing for who asks later.
    fn take<W>(&self, shared: &Shared<'_, W>) -> Vec<Vec<u8>> {
        let files = self.0.get_or_init(|| {
            let found =
                unknown(shared.database, (shared.search.threads)(), &mut |error| shared.trouble(error));
            Mutex::new(found.unwrap_or_else(|error| {
                shared.trouble(error);
                Vec::new()
            }))
        });
        std::mem::take(&mut *files.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Walks the tree for files that `database` does not name, and that are not searched on disk anyway.
fn unknown(database: &Database, threads: usize, trouble: &mut dyn FnMut(Error)) -> Result<Vec<Vec<u8>>> {
    let mut known = BTreeSet::new();
    for (at, segment) in database.segments.iter().enumerate() {
        for (chunk, group) in (0..).zip(segment.groups()?) {
            let is_live = |number: u32| !database.is_dead(at, number);
            match (segment.numbers(chunk), group) {
                (Ok(numbers), Ok(group)) => {
                    let live = group.into_iter().zip(numbers).filter(|(_, number)| is_live(*number));
                    known.extend(live.map(|(entry, _)| entry.path));
                }
                (Ok(numbers), Err(_)) if !numbers.clone().any(is_live) => {}
                (Ok(_), Err(error)) | (Err(error), _) => trouble(error),
            }
        }
    }
    let walked = walk(&database.place.root, &database.manifest.rules, threads)?;
    // Live files are searched all the same: whoever looked at all of them has found these already.
    let is_lost = |path: &Vec<u8>| !known.contains(path) && !database.live.has(path);
    Ok(walked.files.into_iter().map(|found| found.path).filter(is_lost).collect())
}

impl<W: Write + Send> Worker<'_, W> {
    /// Searches the files of `item` in the tree, because of `damage`.
    pub(super) fn lost(&mut self, item: &Item, piece: Piece<'_, W>, damage: Error) -> Result<()> {
        let (segment, first) = (&self.shared.database.segments[item.segment as usize], item.first);
        let is_dead = |number| self.shared.database.is_dead(item.segment as usize, number);
        let numbers = segment.numbers(first);
        if numbers.as_ref().is_ok_and(|numbers| numbers.clone().all(is_dead)) {
            return Ok(());
        }
        self.shared.trouble(damage);
        let paths = match numbers.and_then(|numbers| Ok((numbers, segment.group(first)?))) {
            Ok((numbers, group)) => {
                let wanted =
                    numbers.zip(group).filter(|(number, entry)| self.is_wanted(item, *number, entry));
                wanted.map(|(_, entry)| entry.path).collect()
            }
            Err(error) => {
                self.shared.trouble(error);
                let mut lost = self.shared.lost.take(self.shared);
                lost.retain(|path| (self.shared.search.wanted)(path));
                lost
            }
        };
        let mut printer = self.shared.search.printing.printer(piece, self.shared.search.color);
        for path in paths {
            if let Some(live) = Live::at(&self.shared.database.place, &path, self.shared.search.shown)
                && let Err(error) = self.live_file(&mut printer, &live)
            {
                self.shared.trouble(error);
            }
        }
        Ok(())
    }
}

/// The rest of a file, after the bytes that have been searched already.
///
/// # Errors
/// It can't be read, or is not what it was.
pub(super) fn rest(root: &Path, entry: &FileEntry, searched: u64) -> Result<Content> {
    let path = full(root, &entry.path);
    let read = || -> std::io::Result<Content> {
        let metadata = path.metadata()?;
        if (metadata.len(), mtime_ns(&metadata)) != (entry.size_bytes, entry.mtime_ns) {
            return Err(std::io::Error::other("it has changed; `faultless grep update` reads it"));
        }
        let mut content = Content::open(&path)?;
        std::io::copy(&mut Read::by_ref(&mut content).take(searched), &mut std::io::sink())?;
        Ok(content)
    };
    read().map_err(Error::io("read", &path))
}
