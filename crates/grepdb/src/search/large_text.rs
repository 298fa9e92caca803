//! The text of a large file.
//!
//! In: its entry and chunks. Out: the text of some of the chunks, or all of it as a stream. If the file is as the
//! database knows it and the page cache holds it, its bytes are read instead of the chunks. That takes a quarter of the
//! time of decompression.
//!
//! It does not search (`large_file`).

use std::fs::File;
use std::io::{self, Read};
use std::ops::Range;
use std::sync::atomic::Ordering;

use faultless_os::file::read_cached;

use crate::error::{Error, Result};
use crate::search::block_source::TextBlock;
use crate::search::damaged::rest_on_disk;
use crate::search::staleness::open_as_known;
use crate::search::state::SearchState;
use crate::store::file_entry::FileEntry;
use crate::store::segment::{ChunkRun, ChunkText, Segment};
use crate::tree::content::{MARK_BYTES, TextReader, has_mark};
use crate::tuning::CHUNKS_PER_FILE_READ;

pub(super) struct LargeText<'a, W> {
    state: &'a SearchState<'a, W>,
    segment: &'a Segment,
    run: ChunkRun,
    entry: &'a FileEntry,
    /// Where the first chunks begin in the text, as far as that was asked for.
    begins: Vec<u64>,
    /// The file, once it was asked for, if its bytes are the text.
    file: Option<Option<File>>,
}

impl<'a, W> LargeText<'a, W> {
    pub(super) fn new(
        state: &'a SearchState<'a, W>,
        segment: &'a Segment,
        run: ChunkRun,
        entry: &'a FileEntry,
    ) -> Self {
        Self { state, segment, run, entry, begins: vec![0], file: None }
    }

    /// The text of `chunks`, without the line end that the database adds to a file.
    pub(super) fn of(&mut self, chunks: Range<u32>) -> Result<ChunkText<TextBlock>> {
        let (begin, end) = (self.begin(chunks.start)?, self.begin(chunks.end)?.min(self.entry.text_bytes));
        let len = end.saturating_sub(begin) as usize;
        let (state, segment) = (self.state, self.segment);
        if self.file().is_some() {
            let mut room = state.search.block_source.block(len);
            if self.read_file(chunks.start, &mut room, begin) {
                return Ok(ChunkText::whole(room));
            }
        }
        if chunks.len() == 1 {
            return state.chunk_text(segment, chunks.start).map(|text| text.truncated(len));
        }
        let mut room = state.search.block_source.block(len);
        let mut rest = &mut room[..];
        for chunk in chunks {
            let text = state.chunk_text(segment, chunk)?.truncated(rest.len());
            let (part, after) = rest.split_at_mut(text.text().len());
            part.copy_from_slice(text.text());
            rest = after;
        }
        Ok(ChunkText::whole(room))
    }

    /// Where `chunk` begins in the text. One behind the last chunk ends the text and an added line end.
    fn begin(&mut self, chunk: u32) -> Result<u64> {
        let at = (chunk - self.run.first) as usize;
        while self.begins.len() <= at {
            let before = self.run.first + self.begins.len() as u32 - 1;
            let bytes = u64::from(self.segment.chunk_meta(before)?.text_bytes);
            self.begins.push(self.begins[self.begins.len() - 1] + bytes);
        }
        Ok(self.begins[at])
    }

    fn file(&mut self) -> Option<&File> {
        let open = || {
            let mut head = [0; MARK_BYTES];
            open_as_known(&self.state.database.location, self.entry)
                .filter(|file| read_cached(file, &mut head, 0) && !has_mark(&head))
        };
        self.file.get_or_insert_with(open).as_ref()
    }

    /// Fills `into` with text from `begin`, which lies in `chunk`, if the page cache holds it.
    fn read_file(&mut self, chunk: u32, into: &mut [u8], begin: u64) -> bool {
        let may_read = (chunk + 1).is_multiple_of(CHUNKS_PER_FILE_READ);
        let is_read = may_read && self.file().is_some_and(|file| read_cached(file, into, begin));
        if is_read {
            self.state.text_bytes.fetch_add(into.len() as u64, Ordering::Relaxed);
        }
        is_read
    }

    /// The text from `chunk` on, as a stream.
    pub(super) fn stream(mut self, chunk: u32) -> Result<TextStream<'a, W>> {
        let at = self.begin(chunk)?;
        Ok(TextStream { large: self, at, chunk, text: None, on_disk: None, trouble: None })
    }
}

/// Reads the text of a large file, chunk by chunk.
pub(super) struct TextStream<'a, W> {
    large: LargeText<'a, W>,
    at: u64,
    chunk: u32,
    /// The text of a chunk, and the chunk.
    text: Option<(u32, ChunkText<TextBlock>)>,
    /// The rest of the file on disk, after a damaged chunk.
    on_disk: Option<TextReader>,
    trouble: Option<Error>,
}

impl<W> TextStream<'_, W> {
    pub(super) fn report(&mut self) {
        if let Some(trouble) = self.trouble.take() {
            self.large.state.trouble(trouble);
        }
    }

    /// Fills a part of `into`, at least one byte. Returns how much.
    fn read_part(&mut self, into: &mut [u8]) -> Result<usize> {
        while self.large.begin(self.chunk + 1)? <= self.at {
            self.chunk += 1;
        }
        let (begin, end) = (self.large.begin(self.chunk)?, self.large.begin(self.chunk + 1)?);
        let end = end.min(self.large.entry.text_bytes);
        let len = into.len().min((end - self.at) as usize);
        if self.large.read_file(self.chunk, &mut into[..len], self.at) {
            return Ok(len);
        }
        let text = match self.text.take().filter(|(chunk, _)| *chunk == self.chunk) {
            Some(text) => text,
            None => (self.chunk, self.large.state.chunk_text(self.large.segment, self.chunk)?),
        };
        into[..len].copy_from_slice(&text.1.text()[(self.at - begin) as usize..][..len]);
        self.text = Some(text);
        Ok(len)
    }

    /// Opens the file on disk, because of `damage`.
    fn go_on_on_disk(&mut self, damage: Error) {
        let (state, entry) = (self.large.state, self.large.entry);
        if damage.is_damage() {
            match rest_on_disk(&state.database.location.root, entry, self.at) {
                Ok(rest) => self.on_disk = Some(rest),
                Err(error) => state.trouble(error),
            }
        }
        self.trouble = Some(damage);
    }
}

/// Fills the whole buffer if it can, as a file does. Where ripgrep notices a NUL byte depends on it.
impl<W> Read for TextStream<'_, W> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let mut given = 0;
        while given < into.len() && self.at < self.large.entry.text_bytes {
            if let Some(on_disk) = &mut self.on_disk {
                return Ok(given + on_disk.read(&mut into[given..])?);
            }
            if self.trouble.is_some() || self.large.state.is_stopped() {
                break;
            }
            match self.read_part(&mut into[given..]) {
                Ok(len) => (given, self.at) = (given + len, self.at + len as u64),
                Err(error) => self.go_on_on_disk(error),
            }
        }
        Ok(given)
    }
}
