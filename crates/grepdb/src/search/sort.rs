//! Sorts the tasks of a search by path, if they come from several segments or from the disk.
//!
//! In: candidate chunks and disk files. Out: both in path order, chunks split into runs of files. A chunk is
//! decompressed once per run. It has several runs only where files changed since the database was built.

use crate::error::Result;
use crate::path::path_order;
use crate::search::state::{ChunkTask, Task};
use crate::store::database::Database;

/// `tasks` in path order.
pub(super) fn sort_tasks(database: &Database, tasks: Vec<Task>) -> Result<Vec<Task>> {
    let mut files: Vec<(Vec<u8>, Task)> = Vec::new();
    for task in tasks {
        let task = match task {
            Task::Disk(file) => {
                files.push((file.tree_path.clone(), Task::Disk(file)));
                continue;
            }
            Task::Chunk(task) => task,
        };
        let segment = &database.segments[task.segment as usize];
        let numbers = segment.file_numbers(task.first);
        match numbers.and_then(|numbers| Ok(numbers.zip(segment.files_of_chunk(task.first)?))) {
            // The search of this chunk notices the damage too, and reads its files on disk.
            Err(error) if error.is_damage() => files.push((Vec::new(), Task::Chunk(task))),
            entries => files.extend(entries?.map(|(number, entry)| {
                (entry.path, Task::Chunk(ChunkTask { files: number..number + 1, ..task.clone() }))
            })),
        }
    }
    files.sort_by(|a, b| path_order(&a.0, &b.0));
    Ok(files.into_iter().fold(Vec::new(), |mut tasks, (_, next)| {
        match (tasks.last_mut(), &next) {
            (Some(Task::Chunk(run)), Task::Chunk(next)) if continues(run, next) => {
                run.files.end = next.files.end;
            }
            _ => tasks.push(next),
        }
        tasks
    }))
}

/// Whether `next` directly follows the files of `run` in the same chunk.
fn continues(run: &ChunkTask, next: &ChunkTask) -> bool {
    (run.segment, run.first, run.files.end) == (next.segment, next.first, next.files.start)
}
