//! Searches a file that fills several chunks.
//!
//! In: the run of its chunks. Out: its matches. The chunks are searched one after another, so a file of any size needs
//! the memory of one chunk, or of its longest line. A search across line ends needs the whole text.
//!
//! It does not read or decompress (`large_text`).

use std::io::Write;
use std::ops::Range;

use crate::error::{Error, Result};
use crate::index::posting_list::Candidates;
use crate::search::chunk::candidate_spans;
use crate::search::damaged::search_on_disk;
use crate::search::large_text::LargeText;
use crate::search::output::OutputSlot;
use crate::search::plain::PlainFile;
use crate::search::print::Printer;
use crate::search::state::ChunkTask;
use crate::search::worker::Worker;
use crate::store::file_entry::{FileEntry, FileKind};
use crate::store::segment::{ChunkRun, Segment};

/// Of a line that fills so many chunks, the begin is searched first if one match is enough.
const LONG_LINE_CHUNKS: usize = 4;

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
    let mut text = LargeText::new(state, segment, run, &entry);
    let groups = || candidate_groups(segment, run, &state.candidates[task.segment as usize]);
    if let Some(file) = PlainFile::of(worker, &mut printer, &entry) {
        let run = PlainRun { text, entry: &entry, file, next: run.first, has_checked: false };
        return run.search(worker, &mut printer, groups());
    }
    // Where every chunk is a candidate, the search itself is as quick.
    let spares_some = groups().map(|(chunks, _)| chunks.len()).sum::<usize>() < run.chunks as usize;
    if worker.skips_text && spares_some && !has_match(worker, &mut text, groups())? {
        return Ok(());
    }
    if worker.search_if_stale(&mut printer, &entry)? {
        return Ok(());
    }
    if worker.is_multi_line && entry.kind == FileKind::Text {
        return worker.search_text(&mut printer, &entry, text.of(run.numbers())?.text());
    }
    let mut stream = text.stream();
    let outcome = worker.search_stream(&mut printer, &entry, &mut stream);
    worker.record(outcome)
}

/// The chunks of `run` to search, in groups of whole lines, each with its candidate subchunks.
fn candidate_groups(
    segment: &Segment,
    run: ChunkRun,
    candidates: &Candidates,
) -> impl Iterator<Item = (Range<u32>, u16)> {
    segment.line_groups(run).filter_map(|group| {
        let (first, last) = (group.start, group.end - 1);
        let mask = candidates[last as usize];
        // Only the last chunk of a long line holds other lines as well.
        let (chunks, mask) = match candidates[first as usize] & 1 {
            1 if first < last => (group, u16::MAX),
            _ => (last..last + 1, mask),
        };
        (mask != 0).then_some((chunks, mask))
    })
}

/// Whether the file has a matching line. Only then is it searched from its first line.
fn has_match<W: Write + Send>(
    worker: &mut Worker<'_, W>,
    text: &mut LargeText<'_, W>,
    groups: impl Iterator<Item = (Range<u32>, u16)>,
) -> Result<bool> {
    for (chunks, mask) in groups {
        if worker.state.is_stopped() {
            return Ok(false);
        }
        // The search meets the error again, and looks first whether the file has changed.
        let Ok(text) = text.of(chunks) else { return Ok(true) };
        let finder = worker.lines_of(text.text());
        if candidate_spans(text.text(), 0, mask).any(|lines| finder.find(lines.start, lines.end).is_some()) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// A search that prints straight from the text.
struct PlainRun<'r, W> {
    text: LargeText<'r, W>,
    entry: &'r FileEntry,
    file: PlainFile,
    /// The first chunk that is neither searched nor left out for good.
    next: u32,
    has_checked: bool,
}

enum Ended {
    Chunks,
    /// The rest of the file does not matter.
    File,
    /// The file has changed, and was searched on disk.
    Stale,
}

impl<'o, W: Write + Send> PlainRun<'_, W> {
    fn search(
        mut self,
        worker: &mut Worker<'o, W>,
        printer: &mut Printer<'o, W>,
        groups: impl Iterator<Item = (Range<u32>, u16)>,
    ) -> Result<()> {
        for (chunks, mask) in groups {
            if worker.state.is_stopped() {
                break;
            }
            match self.chunks(worker, printer, chunks, mask) {
                Ok(Ended::Chunks) => {}
                Ok(Ended::File) => break,
                Ok(Ended::Stale) => return Ok(()),
                Err(_) if !self.has_checked && worker.search_if_stale(printer, self.entry)? => return Ok(()),
                Err(error) => {
                    worker.state.trouble(error);
                    break;
                }
            }
        }
        let Some((_, out)) = printer.plain() else { return Ok(()) };
        worker.record(self.file.finish(out))
    }

    fn chunks(
        &mut self,
        worker: &mut Worker<'o, W>,
        printer: &mut Printer<'o, W>,
        chunks: Range<u32>,
        mask: u16,
    ) -> Result<Ended> {
        if !self.file.counts_lines() {
            self.next = chunks.start;
        }
        if chunks.len() >= LONG_LINE_CHUNKS && self.file.needs_one_match() {
            let begin = self.text.of(chunks.start..chunks.start + 1)?;
            if worker.matches_begin(begin.text()) {
                if worker.search_if_stale(printer, self.entry)? {
                    return Ok(Ended::Stale);
                }
                self.file.count_match();
                return Ok(Ended::File);
            }
        }
        let text = self.text.of(chunks.clone())?;
        let text = text.text();
        let finder = worker.lines_of(text);
        for lines in candidate_spans(text, 0, mask) {
            let to = lines.end.min(text.len());
            let Some(first) = finder.find(lines.start, to) else { continue };
            if !std::mem::replace(&mut self.has_checked, true)
                && worker.search_if_stale(printer, self.entry)?
            {
                return Ok(Ended::Stale);
            }
            // Line ends before the first match are counted only now.
            while self.file.counts_lines() && self.next < chunks.start {
                self.file.next_piece(self.text.of(self.next..self.next + 1)?.text());
                self.next += 1;
            }
            let Some((_, out)) = printer.plain() else { return Ok(Ended::File) };
            if self.file.search(worker, out, &finder, Some(first), to) {
                return Ok(Ended::File);
            }
        }
        // Before the first match it is open whether line ends matter.
        if self.has_checked && self.next == chunks.start {
            self.file.next_piece(text);
            self.next = chunks.end;
        }
        Ok(Ended::Chunks)
    }
}
