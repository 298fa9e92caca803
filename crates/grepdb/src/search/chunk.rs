//! Searches a chunk that holds several files.
//!
//! In: a chunk and its candidate subchunks. Out: matches in its files.
//!
//! If text without a match has no output, the chunk is searched as one text, and only files with a match are looked up.
//! Otherwise every file is searched.
//!
//! It does not search files of several chunks (`large_file`).

use std::io::Write;
use std::ops::Range;
use std::sync::atomic::Ordering;

use crate::error::{Error, Result};
use crate::index::trigram::SUBCHUNK_BYTES;
use crate::search::chunk_files::ChunkFiles;
use crate::search::damaged::search_on_disk;
use crate::search::output::OutputSlot;
use crate::search::plain::PlainFile;
use crate::search::print::Printer;
use crate::search::state::ChunkTask;
use crate::search::worker::Worker;
use crate::tuning::SUBCHUNKS;

/// Searches the files of a chunk that have a matching line.
pub(super) fn search_candidates<'o, W: Write + Send>(
    worker: &mut Worker<'o, W>,
    task: &ChunkTask,
    slot: OutputSlot<'o, W>,
) -> Result<()> {
    let state = worker.state;
    let segment = &state.database.segments[task.segment as usize];
    let mut files = ChunkFiles::new(segment, task.first);
    let mask = state.candidates[task.segment as usize][task.first as usize];
    let read = files.span(mask).and_then(|span| {
        let begin = span.start;
        Ok((begin, state.chunk_text_span(segment, task.first, span)?))
    });
    let (begin, text) = match read {
        Err(damage @ Error::Damaged { .. }) => return search_on_disk(worker, task, slot, damage),
        read => read?,
    };
    let text = text.text();
    let finder = worker.lines_of(text);
    let mut printer = None;
    let mut slot = Some(slot);
    let mut at = 0;
    // The file of the last match, the end of its text, and the next file.
    let mut current: Option<(PlainFile, usize, usize)> = None;
    'text: for lines in candidate_spans(text, begin, mask) {
        at = at.max(lines.start);
        while at < lines.end {
            if let Some((file, end, next)) = &mut current
                && at < *end
                && let Some((_, out)) = printer.as_mut().and_then(Printer::plain)
            {
                let to = lines.end.min(*end);
                let is_done = file.search(worker, out, &finder, finder.find(at, to), to);
                at = if is_done || to == *end { *next } else { to };
                if is_done && state.search.first_match_only {
                    break 'text;
                }
                continue;
            }
            let Some(found) = finder.find(at, lines.end) else { break };
            if let Some((file, ..)) = current.take() {
                finish(worker, file, &mut printer)?;
                if state.stop.load(Ordering::Relaxed) {
                    return Ok(());
                }
            }
            let file = match files.at(begin + found.start) {
                // The file table is read once, before anything is printed. So the slot is still there.
                Err(damage @ Error::Damaged { .. }) => {
                    return slot.take().map_or(Ok(()), |slot| search_on_disk(worker, task, slot, damage));
                }
                file => file?,
            };
            let Some((number, entry, span)) = file else { break };
            let span = span.start - begin..span.end - begin;
            at = span.end + usize::from(entry.ends_open);
            if !worker.is_wanted(task, number, entry) {
                continue;
            }
            if printer.is_none() {
                printer = slot.take().map(|slot| worker.printer(slot));
            }
            let Some(printer) = &mut printer else { break };
            if worker.search_if_stale(printer, entry)? {
                continue;
            }
            match PlainFile::of(worker, printer, entry) {
                Some(file) if found.start < span.end => {
                    current = Some((file.begin_at(span.start), span.end, at));
                    // The line again, without the line end that the database adds to the end of a file.
                    at = found.start;
                }
                _ => worker.search_text(printer, entry, &text[span])?,
            }
        }
        if state.is_stopped() {
            break;
        }
    }
    match current {
        Some((file, ..)) => finish(worker, file, &mut printer),
        None => Ok(()),
    }
}

/// Ends a file that was printed straight from the text.
fn finish<'o, W: Write + Send>(
    worker: &Worker<'o, W>,
    file: PlainFile,
    printer: &mut Option<Printer<'o, W>>,
) -> Result<()> {
    let Some((_, out)) = printer.as_mut().and_then(Printer::plain) else { return Ok(()) };
    worker.record(file.finish(out))
}

/// Searches every file of a chunk, empty ones included.
pub(super) fn search_every_file<'o, W: Write + Send>(
    worker: &mut Worker<'o, W>,
    task: &ChunkTask,
    slot: OutputSlot<'o, W>,
) -> Result<()> {
    let segment = &worker.state.database.segments[task.segment as usize];
    let read = segment.files_of_chunk(task.first).and_then(|entries| {
        Ok((entries, segment.file_numbers(task.first)?, worker.state.chunk_text(segment, task.first)?))
    });
    let (entries, numbers, text) = match read {
        Err(damage @ Error::Damaged { .. }) => return search_on_disk(worker, task, slot, damage),
        read => read?,
    };
    let text = text.text();
    let mut printer = worker.printer(slot);
    let mut begin = 0;
    for (number, entry) in numbers.zip(&entries) {
        let end = begin + entry.text_bytes as usize;
        if worker.is_wanted(task, number, entry) && !worker.search_if_stale(&mut printer, entry)? {
            worker.search_text(&mut printer, entry, &text[begin..end])?;
        }
        begin = end + usize::from(entry.ends_open);
    }
    Ok(())
}

/// The lines that begin in the subchunks of `mask`, as ranges of `text`. `text` begins at byte `begin` of the chunk.
pub(super) fn candidate_spans(text: &[u8], begin: usize, mask: u16) -> impl Iterator<Item = Range<usize>> {
    let line_from = move |at: usize| match at.saturating_sub(begin) {
        0 => 0,
        at if at > text.len() => text.len(),
        // The first line that begins at or after `at`.
        at => memchr::memchr(b'\n', &text[at - 1..]).map_or(text.len(), |end| at + end),
    };
    let mut subchunk = 0;
    std::iter::from_fn(move || {
        while subchunk < SUBCHUNKS && mask & 1 << subchunk == 0 {
            subchunk += 1;
        }
        let first = subchunk;
        while subchunk < SUBCHUNKS && mask & 1 << subchunk != 0 {
            subchunk += 1;
        }
        let end = if subchunk == SUBCHUNKS { text.len() } else { line_from(subchunk * SUBCHUNK_BYTES) };
        (first < SUBCHUNKS).then(|| line_from(first * SUBCHUNK_BYTES)..end)
    })
}
