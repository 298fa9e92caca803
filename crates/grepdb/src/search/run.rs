//! Runs a search: selects candidate chunks, starts workers, and collects the result.
//!
//! In: a [`Search`], a database, and files on disk. Out: printed matches and a [`SearchReport`].
//!
//! It does not search a text (`worker`).

use std::io::Write;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::Receiver;
use std::sync::{Mutex, OnceLock, PoisonError};

use faultless_os::schedule;
use grep_matcher::Matcher;
use grep_printer::Stats;

use crate::error::{Error, Result};
use crate::search::candidates::candidates;
use crate::search::chunk::{search_candidates, search_every_file};
use crate::search::disk_file::DiskFile;
use crate::search::large_file::search_large_file;
use crate::search::output::OrderedOutput;
use crate::search::request::Search;
use crate::search::sort::sort_tasks;
use crate::search::staleness::StalenessChecks;
use crate::search::state::{Arrivals, ChunkTask, SearchState, Task, push_unless_known};
use crate::search::worker::Worker;
use crate::store::damage_log::DamageLog;
use crate::store::database::Database;
use crate::tuning as t;

/// The result of a search.
#[derive(Debug, Default)]
pub struct SearchReport {
    /// There was a match.
    pub matched: bool,
    /// Files with a match.
    pub files_with_matches: u64,
    /// Files that were searched one by one.
    pub files: u64,
    /// Counts of the printers, if they were asked to count.
    pub stats: Stats,
    /// Candidate chunks.
    pub chunks: u64,
    /// All chunks.
    pub of_chunks: u64,
    /// Text that was read, bytes.
    pub text_bytes: u64,
    /// Files that had changed unnoticed and were searched on disk. More files may have changed.
    pub stale: u64,
    /// Files that were printed without a check on disk, because too many had a match.
    pub unchecked: u64,
    /// What could not be read. Text that was damaged has been searched on disk.
    pub trouble: Vec<Error>,
    /// Something was printed, now or before.
    pub has_printed: bool,
    /// Why the output failed.
    pub output_error: Option<std::io::ErrorKind>,
}

#[derive(Default)]
struct Selection {
    tasks: Vec<Task>,
    /// By segment.
    candidates: Vec<Vec<u16>>,
    chunks: u64,
    of_chunks: u64,
    subchunks: u64,
}

impl Search<'_> {
    /// Searches `database`, and `disk_files` as they arrive, and prints into `out`.
    ///
    /// # Errors
    /// The search is impossible. All other errors are in the report.
    pub fn run<W: Write + Send>(
        &self,
        database: &Database,
        mut disk_files: Option<Receiver<DiskFile>>,
        out: W,
    ) -> Result<(W, SearchReport)> {
        let mut trouble = Vec::new();
        let Selection { mut tasks, candidates, chunks, of_chunks, subchunks } =
            self.select(database, &mut trouble);
        let disk_task = |file| Task::Disk(Box::new(file));
        let chunk_tasks = tasks.len();
        let in_overlay = database.overlay.in_tree().filter(|path| (self.is_wanted)(path));
        let in_overlay =
            in_overlay.filter_map(|path| DiskFile::at(&database.location, path, self.display_path));
        tasks.extend(in_overlay.map(disk_task));
        let sorts_all = self.sorted && (database.segments.len() > 1 || disk_files.is_some());
        let has_changes = tasks.len() > chunk_tasks;
        if sorts_all {
            tasks.extend(disk_files.take().into_iter().flatten().map(disk_task));
        }
        if sorts_all || has_changes {
            tasks = sort_tasks(database, tasks)?;
        }
        // Starting a thread takes longer than searching a few chunks.
        let threads_max = if disk_files.is_some() { usize::MAX } else { tasks.len() / t::ITEMS_PER_THREAD };
        let threads = if threads_max > 1 { (self.threads)().min(threads_max) } else { 1 };
        let has_work = !tasks.is_empty() || disk_files.is_some();
        let (follows, at_once) = (self.follows_output, self.at_once);
        let output = OrderedOutput::new(out, self.separator, follows, t::OUTPUT_WAITS_BYTES, at_once);
        let state = SearchState {
            search: self,
            database,
            next: AtomicUsize::new(0),
            arrivals: Mutex::new(Arrivals { next: tasks.len(), files: disk_files }),
            tasks,
            candidates,
            is_short: subchunks <= t::SHORT_SUBCHUNKS,
            stop: AtomicBool::new(false),
            files: AtomicU64::new(0),
            stats: Mutex::new(Stats::new()),
            files_with_matches: AtomicU64::new(0),
            text_bytes: AtomicU64::new(0),
            trouble: Mutex::new(trouble),
            unlisted: OnceLock::new(),
            output,
            checks: StalenessChecks::new(database.overlay.is_complete(), chunks),
        };
        std::thread::scope(|scope| {
            let (state, processor) = (&state, schedule::here());
            for _ in 1..threads {
                scope.spawn(move || {
                    processor.into_iter().for_each(schedule::leave);
                    run_worker(Worker::new(state));
                });
                // Lets the new thread move to another processor.
                std::thread::yield_now();
            }
            if has_work {
                run_worker(Worker::new(state));
            }
        });
        let files_with_matches = state.files_with_matches.load(Ordering::Relaxed);
        let (out, has_printed, output_error) = state.output.finish();
        let trouble = state.trouble.into_inner().unwrap_or_else(PoisonError::into_inner);
        DamageLog::append(&database.location.folder, &trouble);
        let report = SearchReport {
            matched: files_with_matches > 0,
            files_with_matches,
            files: state.files.load(Ordering::Relaxed),
            stats: state.stats.into_inner().unwrap_or_else(PoisonError::into_inner),
            chunks,
            of_chunks,
            text_bytes: state.text_bytes.load(Ordering::Relaxed),
            stale: state.checks.stale(),
            unchecked: state.checks.unchecked(),
            trouble,
            has_printed,
            output_error,
        };
        Ok((out, report))
    }

    /// Asks the index of every segment for candidate chunks.
    fn select(&self, database: &Database, trouble: &mut Vec<Error>) -> Selection {
        // If the pattern can't match a line end, every match lies in one line.
        let by_line = self.matcher.any().line_terminator().is_some();
        let mut selection = Selection::default();
        for (at, segment) in database.segments.iter().enumerate() {
            let mut report = |error| push_unless_known(trouble, error);
            let mut masks = candidates(segment, &self.plan.query, by_line, &mut report);
            selection.of_chunks += masks.len() as u64;
            if !self.folders.is_empty() {
                segment.retain_below(self.folders, &mut masks);
            }
            let mut large_files = segment.large_files.iter().peekable();
            let mut first = 0;
            while first < segment.chunks() {
                let count = large_files.next_if(|run| run.first == first).map_or(1, |run| run.chunks);
                if masks[first as usize..][..count as usize].iter().any(|&mask| mask != 0) {
                    let task = ChunkTask { segment: at as u32, first, files: 0..u32::MAX };
                    selection.tasks.push(Task::Chunk(task));
                    selection.chunks += u64::from(count);
                }
                first += count;
            }
            selection.subchunks += masks.iter().map(|mask| u64::from(mask.count_ones())).sum::<u64>();
            selection.candidates.push(masks);
        }
        selection
    }
}

/// Works on one task after another until none is left or the search stops.
fn run_worker<W: Write + Send>(mut worker: Worker<'_, W>) {
    let state = worker.state;
    while !state.is_stopped() && !state.output.has_failed() {
        // The others wait for this number, so its slot must be opened.
        let number = state.next.fetch_add(1, Ordering::Relaxed);
        let result = match state.tasks.get(number) {
            Some(Task::Chunk(task)) => {
                let slot = state.output.slot(number);
                match state.database.segments[task.segment as usize].large_file(task.first) {
                    Some(run) => search_large_file(&mut worker, task, run, slot),
                    None if worker.skips_text => search_candidates(&mut worker, task, slot),
                    None => search_every_file(&mut worker, task, slot),
                }
            }
            Some(Task::Disk(file)) => {
                let mut printer = worker.printer(state.output.slot(number));
                worker.search_disk_file(&mut printer, file)
            }
            None => {
                let Some((file, slot)) = state.next_arrival() else { break };
                let mut printer = worker.printer(slot);
                worker.search_disk_file(&mut printer, &file)
            }
        };
        if let Err(error) = result {
            state.trouble(error);
        }
    }
}
