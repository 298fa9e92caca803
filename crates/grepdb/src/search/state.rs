//! The state that the workers of a search share: tasks, candidates, output and counters.

use std::io::Write;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::Receiver;
use std::sync::{Mutex, OnceLock, PoisonError};

use grep_printer::Stats;

use crate::error::{Error, Result};
use crate::index::posting_list::Candidates;
use crate::search::block_source::TextBlock;
use crate::search::cancel::CancellationToken;
use crate::search::disk_file::DiskFile;
use crate::search::output::{OrderedOutput, OutputSlot};
use crate::search::request::Search;
use crate::search::staleness::StalenessChecks;
use crate::store::database::Database;
use crate::store::segment::{ChunkText, Segment};
use crate::tuning::HALF_BYTES;

/// A chunk to search, or the first chunk of a large file. Kept small: a full scan holds one for each chunk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ChunkTask {
    pub(crate) segment: u32,
    pub(crate) first: u32,
    /// Numbers of the files to search. The range may reach beyond the chunk.
    pub(crate) files: Range<u32>,
}

/// A unit of work. Its number is its place in the output.
#[derive(Debug)]
pub(crate) enum Task {
    Chunk(ChunkTask),
    Disk(Box<DiskFile>),
}

/// Disk files that arrive while the search runs.
pub(crate) struct Arrivals {
    pub(crate) next: usize,
    pub(crate) files: Option<Receiver<DiskFile>>,
}

pub(crate) struct SearchState<'a, W> {
    pub(crate) search: &'a Search<'a>,
    pub(crate) database: &'a Database,
    pub(crate) tasks: Vec<Task>,
    /// By segment.
    pub(crate) candidates: Vec<Candidates>,
    /// The candidates are so few that the search may never need the large matcher.
    pub(crate) is_short: bool,
    pub(crate) next: AtomicUsize,
    /// Files that come after `tasks`.
    pub(crate) arrivals: Mutex<Arrivals>,
    pub(crate) stop: AtomicBool,
    pub(crate) files: AtomicU64,
    pub(crate) stats: Mutex<Stats>,
    pub(crate) files_with_matches: AtomicU64,
    pub(crate) text_bytes: AtomicU64,
    pub(crate) trouble: Mutex<Vec<Error>>,
    /// Files in the tree that no intact file table lists. The first worker that needs them walks the tree and takes all.
    pub(crate) unlisted: OnceLock<Mutex<Vec<Vec<u8>>>>,
    pub(crate) output: OrderedOutput<W>,
    pub(crate) checks: StalenessChecks,
}

impl<W> SearchState<'_, W> {
    /// Whether to begin no further text.
    pub(crate) fn is_stopped(&self) -> bool {
        let is_cancelled = |cancel: &CancellationToken| cancel.is_cancelled();
        self.stop.load(Ordering::Relaxed) || self.search.cancel.is_some_and(is_cancelled)
    }

    /// Records an error; damage of the same part only once.
    pub(crate) fn trouble(&self, error: Error) {
        push_unless_known(&mut self.trouble.lock().unwrap_or_else(PoisonError::into_inner), error);
    }

    pub(crate) fn chunk_text(&self, segment: &Segment, number: u32) -> Result<ChunkText<TextBlock>> {
        self.chunk_text_span(segment, number, 0..segment.chunk_meta(number)?.text_bytes as usize)
    }

    pub(crate) fn chunk_text_span(
        &self,
        segment: &Segment,
        number: u32,
        span: Range<usize>,
    ) -> Result<ChunkText<TextBlock>> {
        let len = (span.end - span.start / HALF_BYTES * HALF_BYTES) as u64;
        let text = segment.text(number, span, |bytes| self.search.block_source.block(bytes))?;
        self.text_bytes.fetch_add(len, Ordering::Relaxed);
        Ok(text)
    }
}

impl<W: Write> SearchState<'_, W> {
    /// Waits for the next disk file. Its output slot is the next in order.
    pub(crate) fn next_arrival(&self) -> Option<(DiskFile, OutputSlot<'_, W>)> {
        let mut arrivals = self.arrivals.lock().unwrap_or_else(PoisonError::into_inner);
        let file = arrivals.files.as_ref()?.recv().ok()?;
        arrivals.next += 1;
        Some((file, self.output.slot(arrivals.next - 1)))
    }
}

/// Adds `error` to `all`, unless it is damage of a part that is listed already.
pub(crate) fn push_unless_known(all: &mut Vec<Error>, error: Error) {
    if !all.iter().any(|known| known.is_same_damage(&error)) {
        all.push(error);
    }
}
