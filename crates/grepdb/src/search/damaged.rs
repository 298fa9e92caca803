//! Searches the files of a damaged part of the database on disk.
//!
//! In: a chunk that can't be read. Out: matches in its files as they are now. If their names are lost as well, it
//! searches, once, every file of the tree that no intact file table lists.
//!
//! It does not repair the database (`fresh`).

use std::collections::BTreeSet;
use std::io::Write;
use std::sync::{Mutex, PoisonError};

use crate::error::{Error, Result};
use crate::search::disk_file::DiskFile;
use crate::search::output::OutputSlot;
use crate::search::state::{ChunkTask, SearchState};
use crate::search::worker::Worker;
use crate::store::database::Database;
use crate::tree::walk::walk;

/// Searches the files of `task` on disk, because of `damage`.
pub(super) fn search_on_disk<'o, W: Write + Send>(
    worker: &mut Worker<'o, W>,
    task: &ChunkTask,
    slot: OutputSlot<'o, W>,
    damage: Error,
) -> Result<()> {
    let state = worker.state;
    let (segment, first) = (&state.database.segments[task.segment as usize], task.first);
    let has_tombstone = |number| state.database.has_tombstone(task.segment as usize, number);
    let numbers = segment.file_numbers(first);
    if numbers.as_ref().is_ok_and(|numbers| numbers.clone().all(has_tombstone)) {
        return Ok(());
    }
    state.trouble(damage);
    let paths = match numbers.and_then(|numbers| Ok((numbers, segment.files_of_chunk(first)?))) {
        Ok((numbers, entries)) => {
            let wanted =
                numbers.zip(entries).filter(|(number, entry)| worker.is_wanted(task, *number, entry));
            wanted.map(|(_, entry)| entry.path).collect()
        }
        Err(error) => {
            state.trouble(error);
            let mut unlisted = take_unlisted(state);
            unlisted.retain(|path| (state.search.is_wanted)(path));
            unlisted
        }
    };
    let mut printer = worker.printer(slot);
    for path in paths {
        if state.is_stopped() {
            break;
        }
        if let Some(file) = DiskFile::at(&state.database.location, &path, state.search.display_path)
            && let Err(error) = worker.search_disk_file(&mut printer, &file)
        {
            state.trouble(error);
        }
    }
    Ok(())
}

/// All unlisted files for the first caller; nothing for later ones.
fn take_unlisted<W>(state: &SearchState<'_, W>) -> Vec<Vec<u8>> {
    let files = state.unlisted.get_or_init(|| {
        let found = unlisted(state.database, (state.search.threads)(), &mut |error| state.trouble(error));
        Mutex::new(found.unwrap_or_else(|error| {
            state.trouble(error);
            Vec::new()
        }))
    });
    std::mem::take(&mut *files.lock().unwrap_or_else(PoisonError::into_inner))
}

/// Walks the tree for files that no intact file table of `database` lists. Leaves out those in the overlay: they are
/// searched anyway.
fn unlisted(database: &Database, threads: usize, trouble: &mut dyn FnMut(Error)) -> Result<Vec<Vec<u8>>> {
    let mut listed = BTreeSet::new();
    for (at, segment) in database.segments.iter().enumerate() {
        for (chunk, entries) in (0..).zip(segment.files_by_chunk()?) {
            let is_current = |number: u32| !database.has_tombstone(at, number);
            match (segment.file_numbers(chunk), entries) {
                (Ok(numbers), Ok(entries)) => {
                    let current = entries.into_iter().zip(numbers).filter(|(_, number)| is_current(*number));
                    listed.extend(current.map(|(entry, _)| entry.path));
                }
                (Ok(numbers), Err(_)) if !numbers.clone().any(is_current) => {}
                (Ok(_), Err(error)) | (Err(error), _) => trouble(error),
            }
        }
    }
    let walked = walk(&database.location.root, &database.manifest.rules, threads)?;
    // A complete overlay contains every file that only the tree has, so all of these are searched already.
    let is_unlisted = |path: &Vec<u8>| !listed.contains(path) && !database.overlay.contains(path);
    Ok(walked.files.into_iter().map(|file| file.path).filter(is_unlisted).collect())
}
