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
use crate::search::plain::PlainFile;
use crate::search::print::{Haystack, Printer};
use crate::search::state::{ChunkTask, SearchState};
use crate::search::worker::Worker;
use crate::store::file_entry::FileEntry;
use crate::store::segment::{ChunkRun, ChunkText, Segment};
use crate::tree::content::TextReader;
use crate::tuning::CHUNK_BYTES;

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
    if !worker.is_wanted(task, number, &entry) {
        return Ok(());
    }
    let mut printer = worker.printer(slot);
    if let Some(file) = PlainFile::of(worker, &mut printer, &entry).filter(|_| !run.cuts_line) {
        let run = PlainRun { segment, run, entry: &entry, file, next: run.first, has_checked: false };
        return run.search(worker, &mut printer, task.segment);
    }
    if !may_match(worker, segment, task, run)? {
        return Ok(());
    }
    if worker.search_if_stale(&mut printer, &entry)? {
        return Ok(());
    }
    let mut reader = RunReader::new(state, segment, run.numbers(), &entry);
    let mut searcher = worker.stream_searcher(entry.kind);
    let path = (state.search.display_path)(&entry.path);
    let path = Path::new(OsStr::from_bytes(&path));
    let outcome = printer.search(&mut searcher, state.search.matcher, path, Haystack::Stream(&mut reader));
    reader.report();
    worker.record(outcome)
}

/// Whether the file has a matching line. Only then is it searched from its first line.
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
        if candidate_spans(text, 0, mask)
            .any(|lines| worker.find_line(text, lines.start, lines.end).is_some())
        {
            return Ok(true);
        }
    }
    Ok(false)
}

/// A search that prints straight from the chunks. No line crosses the end of a chunk.
struct PlainRun<'r, 's> {
    segment: &'s Segment,
    run: ChunkRun,
    entry: &'r FileEntry,
    file: PlainFile,
    /// The first chunk that is neither searched nor left out for good.
    next: u32,
    has_checked: bool,
}

/// How the search of a chunk ended.
enum Ended {
    Chunk,
    /// The rest of the file does not matter.
    File,
    /// The file has changed, and was searched on disk.
    Stale,
}

impl PlainRun<'_, '_> {
    fn search<'o, W: Write + Send>(
        mut self,
        worker: &mut Worker<'o, W>,
        printer: &mut Printer<OutputSlot<'o, W>>,
        segment: u32,
    ) -> Result<()> {
        for number in self.run.numbers() {
            let mask = worker.state.candidate_mask(segment, number);
            if mask == 0 {
                continue;
            }
            match self.chunk(worker, printer, number, mask) {
                Ok(Ended::Chunk) => {}
                Ok(Ended::File) => break,
                Ok(Ended::Stale) => return Ok(()),
                Err(Error::Damaged { .. }) => {
                    self.rest(worker, printer)?;
                    break;
                }
                Err(error) => return Err(error),
            }
        }
        let Some((_, out)) = printer.plain() else { return Ok(()) };
        worker.record(self.file.finish(out))
    }

    fn chunk<'o, W: Write + Send>(
        &mut self,
        worker: &mut Worker<'o, W>,
        printer: &mut Printer<OutputSlot<'o, W>>,
        number: u32,
        mask: u16,
    ) -> Result<Ended> {
        let state = worker.state;
        if !self.file.counts_lines() {
            self.next = number;
        }
        let text = state.chunk_text(self.segment, number)?;
        let is_last = number + 1 == self.run.numbers().end;
        let text = text.text();
        // Without the line end that the database adds.
        let text = &text[..text.len() - usize::from(is_last && self.entry.ends_open)];
        worker.choose_prefilter(text);
        for lines in candidate_spans(text, 0, mask) {
            let to = lines.end.min(text.len());
            let Some(first) = worker.find_line(text, lines.start, to) else { continue };
            if !std::mem::replace(&mut self.has_checked, true)
                && worker.search_if_stale(printer, self.entry)?
            {
                return Ok(Ended::Stale);
            }
            // Line ends before the first match are counted only now.
            while self.file.counts_lines() && self.next < number {
                self.file.next_piece(state.chunk_text(self.segment, self.next)?.text());
                self.next += 1;
            }
            let Some((_, out)) = printer.plain() else { return Ok(Ended::File) };
            if self.file.search(worker, out, &text[..to], first.start) {
                return Ok(Ended::File);
            }
        }
        // Before the first match it is open whether line ends matter.
        if self.has_checked && self.next == number {
            self.file.next_piece(text);
            self.next = number + 1;
        }
        Ok(Ended::Chunk)
    }

    /// Searches the rest of the file, from chunk `next`, as a stream: on disk behind the damage.
    fn rest<'o, W: Write + Send>(
        &mut self,
        worker: &mut Worker<'o, W>,
        printer: &mut Printer<OutputSlot<'o, W>>,
    ) -> Result<()> {
        if !std::mem::replace(&mut self.has_checked, true) && worker.search_if_stale(printer, self.entry)? {
            return Ok(());
        }
        let mut reader = RunReader::new(worker.state, self.segment, self.run.numbers(), self.entry);
        while reader.chunks.start < self.next {
            reader.left_bytes -= u64::from(self.segment.chunk_meta(reader.chunks.start)?.text_bytes);
            reader.chunks.start += 1;
        }
        let Some((_, out)) = printer.plain() else { return Ok(()) };
        let (mut text, mut len) = (vec![0; CHUNK_BYTES], 0);
        loop {
            let read = reader.read(&mut text[len..]).map_err(Error::io("read", self.segment.path()))?;
            len += read;
            let whole = match memchr::memrchr(b'\n', &text[..len]) {
                Some(end) if read > 0 => end + 1,
                _ if read > 0 => 0,
                _ => len,
            };
            if self.file.search(worker, out, &text[..whole], 0) || read == 0 {
                break;
            }
            self.file.next_piece(&text[..whole]);
            text.copy_within(whole..len, 0);
            len -= whole;
            if len == text.len() {
                text.resize(2 * len, 0);
            }
        }
        reader.report();
        Ok(())
    }
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

impl<'a, W> RunReader<'a, W> {
    fn new(
        state: &'a SearchState<'a, W>,
        segment: &'a Segment,
        chunks: Range<u32>,
        entry: &'a FileEntry,
    ) -> Self {
        let left_bytes = entry.text_bytes;
        Self { state, segment, chunks, entry, left_bytes, text: None, at: 0, on_disk: None, trouble: None }
    }

    /// Reports what could not be read.
    fn report(&mut self) {
        if let Some(trouble) = self.trouble.take() {
            self.state.trouble(trouble);
        }
    }

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
