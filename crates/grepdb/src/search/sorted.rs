//! Work in the order of paths, where it comes from several segments and the disk.
//!
//! In: chunks that may match, and live files. Out: both as runs of files, in order. A chunk between whose files others come is unpacked
//! more than once: that happens where something has changed since the database was built, and there only.
//!
//! What it does not do: search.

use super::{Item, Work};
use crate::database::Database;
use crate::error::Result;
use crate::files::by_path;

/// Puts `works` in order.
///
/// # Errors
/// The files of a chunk can't be read.
pub(super) fn works(database: &Database, works: Vec<Work>) -> Result<Vec<Work>> {
    let mut files: Vec<(Vec<u8>, Work)> = Vec::new();
    for work in works {
        let item = match work {
            Work::Live(live) => {
                files.push((live.place.clone(), Work::Live(live)));
                continue;
            }
            Work::Stored(item) => item,
        };
        let segment = &database.segments[item.segment as usize];
        match segment.numbers(item.first).and_then(|numbers| Ok(numbers.zip(segment.group(item.first)?))) {
            // Whoever searches it finds out, too, and reads what is lost.
            Err(error) if error.is_damage() => files.push((Vec::new(), Work::Stored(item))),
            entries => files.extend(entries?.map(|(number, entry)| {
                (entry.path, Work::Stored(Item { files: number..number + 1, ..item.clone() }))
            })),
        }
    }
    files.sort_by(|a, b| by_path(&a.0, &b.0));
    Ok(files.into_iter().fold(Vec::new(), |mut works, (_, next)| {
        match (works.last_mut(), &next) {
            (Some(Work::Stored(run)), Work::Stored(next)) if goes_on(run, next) => {
                run.files.end = next.files.end;
            }
            _ => works.push(next),
        }
        works
    }))
}

/// `next` is the file after those of `run`, in the same chunk.
fn goes_on(run: &Item, next: &Item) -> bool {
    (run.segment, run.first, run.files.end) == (next.segment, next.first, next.files.start)
}
