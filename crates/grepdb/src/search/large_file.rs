//! Searches a file that fills several chunks.
//!
//! In: the run of its chunks. Out: its matches. The chunks are decompressed one after another, so a file of any size
//! needs the memory of one chunk.

use std::ffi::OsStr;
use std::io::{self, Read, Write};
use std::ops::Range;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use crate::error::{Error, Result};
use crate::search::block_source::TextBlock;
use crate::search::chunk::candidate_spans;
use crate::search::damaged::{rest_on_disk, search_on_disk};
use crate::search::output::OutputSlot;
use crate::search::print::Haystack;
use crate::search::state::{ChunkTask, SearchState};
use crate::search::worker::Worker;
use crate::store::file_entry::FileEntry;
use crate::store::segment::{ChunkRun, ChunkText, Segment};
use crate::tree::content::TextReader;

/// Searches the file in `run`.
pub(super) fn search_large_file<'o, W: Write + Send>(
    worker: &mut Worker<'o, W>,
    task: &ChunkTask,
    run: ChunkRun,
    slot: OutputSlot<'o, W>,
) -> Result<()> {
    let state = worker.state;
    let segment = &state.database.segments[task.segment as usize];
    let entry = match segment.files_of_chunk(task.first) {
        Err(damage @ Error::Damaged { .. }) => return search_on_disk(worker, task, slot, damage),
        entries => entries?.pop(),
    };
    let Some(entry) = entry else { return Ok(()) };
    let number = segment.file_numbers(task.first)?.start;
    if !worker.is_wanted(task, number, &entry) || !may_match(worker, segment, task, run)? {
        return Ok(());
    }
    let mut printer = worker.printer(slot);
    if worker.search_if_stale(&mut printer, &entry)? {
        return Ok(());
    }
    let mut reader = RunReader {
        state,
        segment,
        chunks: run.numbers(),
        entry: &entry,
        left_bytes: entry.text_bytes,
        text: None,
        at: 0,
        on_disk: None,
        trouble: None,
    };
    let mut searcher = worker.stream_searcher(entry.kind);
    let path = (state.search.display_path)(&entry.path);
    let path = Path::new(OsStr::from_bytes(&path));
    let outcome = printer.search(&mut searcher, state.search.matcher, path, Haystack::Stream(&mut reader));
    if let Some(trouble) = reader.trouble.take() {
        state.trouble(trouble);
    }
    worker.record(outcome)
}

/// Whether the file has a candidate line. Only then is it searched from its first line.
fn may_match<W: Write + Send>(
    worker: &mut Worker<'_, W>,
    segment: &Segment,
    task: &ChunkTask,
    run: ChunkRun,
) -> Result<bool> {
    if !worker.skips_text || run.cuts_line {
        return Ok(true);
    }
    for number in run.numbers() {
        if worker.state.is_stopped() {
            return Ok(false);
        }
        let mask = worker.state.candidate_mask(task.segment, number);
        if mask == 0 {
            continue;
        }
        let text = match worker.state.chunk_text(segment, number) {
            // The search will read it on disk.
            Err(Error::Damaged { .. }) => return Ok(true),
            text => text?,
        };
        let text = text.text();
        worker.choose_prefilter(text);
        let has_candidate =
            |lines: Range<usize>| worker.find_candidate(text, lines.start, lines.end).is_some();
        if candidate_spans(text, 0, mask).any(has_candidate) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Reads the text of a large file, chunk by chunk.
struct RunReader<'a, W> {
    state: &'a SearchState<'a, W>,
    segment: &'a Segment,
    chunks: Range<u32>,
    entry: &'a FileEntry,
    left_bytes: u64,
    text: Option<ChunkText<TextBlock>>,
    /// Bytes of `text` that have been read.
    at: usize,
    /// The rest of the file on disk, after a damaged chunk.
    on_disk: Option<TextReader>,
    trouble: Option<Error>,
}

impl<W> RunReader<'_, W> {
    /// Decompresses the next chunk, or opens the file on disk if the chunk is damaged. Returns whether there is more
    /// text.
    fn next_chunk(&mut self) -> bool {
        let Some(chunk) = self.chunks.next().filter(|_| !self.state.is_stopped()) else { return false };
        (self.text, self.at) = (None, 0);
        match self.state.chunk_text(self.segment, chunk) {
            Ok(text) => self.text = Some(text),
            Err(error) => {
                let is_damage = error.is_damage();
                self.trouble = Some(error);
                if is_damage {
                    let searched_bytes = self.entry.text_bytes - self.left_bytes;
                    match rest_on_disk(&self.state.database.location.root, self.entry, searched_bytes) {
                        Ok(rest) => self.on_disk = Some(rest),
                        Err(error) => self.state.trouble(error),
                    }
                }
            }
        }
        self.text.is_some() || self.on_disk.is_some()
    }
}

/// Fills the whole buffer if it can, as a file does. Where ripgrep notices a NUL byte depends on it.
impl<W> Read for RunReader<'_, W> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let mut given = 0;
        while given < into.len() && self.left_bytes > 0 {
            if let Some(on_disk) = &mut self.on_disk {
                return Ok(given + on_disk.read(&mut into[given..])?);
            }
            let rest = self.text.as_ref().map_or(&[][..], |text| &text.text()[self.at..]);
            if rest.is_empty() {
                if !self.next_chunk() {
                    break;
                }
                continue;
            }
            let len = rest.len().min(into.len() - given);
            let len = len.min(usize::try_from(self.left_bytes).unwrap_or(usize::MAX));
            into[given..given + len].copy_from_slice(&rest[..len]);
            (self.at, self.left_bytes, given) = (self.at + len, self.left_bytes - len as u64, given + len);
        }
        Ok(given)
    }
}
