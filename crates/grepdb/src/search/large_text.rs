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
use std::path::Path;
use std::sync::atomic::Ordering;

use faultless_os::file::read_cached;

use crate::error::{Error, Result};
use crate::path::disk_path;
use crate::search::block_source::TextBlock;
use crate::search::staleness::{is_as_known, open_as_known};
use crate::search::state::SearchState;
use crate::store::file_entry::FileEntry;
use crate::store::segment::{ChunkRun, ChunkText, Segment};
use crate::tree::content::{MARK_BYTES, TextReader, has_mark, open_text};
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
    /// The text on disk, and how much of it was read, after a damaged chunk.
    on_disk: Option<(u64, TextReader)>,
}

impl<'a, W> LargeText<'a, W> {
    pub(super) fn new(
        state: &'a SearchState<'a, W>,
        segment: &'a Segment,
        run: ChunkRun,
        entry: &'a FileEntry,
    ) -> Self {
        Self { state, segment, run, entry, begins: vec![0], file: None, on_disk: None }
    }

    /// The text of `chunks`, without the line end that the database adds to a file. If it is damaged, it comes from the
    /// file on disk.
    pub(super) fn of(&mut self, chunks: Range<u32>) -> Result<ChunkText<TextBlock>> {
        let (begin, end) = (self.begin(chunks.start)?, self.begin(chunks.end)?.min(self.entry.text_bytes));
        let len = end.saturating_sub(begin) as usize;
        let damage = match self.stored(chunks, begin, len) {
            Err(error) if error.is_damage() => error,
            text => return text,
        };
        self.state.trouble(damage);
        let mut room = self.state.search.block_source.block(len);
        let path = disk_path(&self.state.database.location.root, &self.entry.path);
        self.read_on_disk(&path, begin, &mut room).map_err(Error::io("read", &path))?;
        Ok(ChunkText::whole(room))
    }

    /// `len` bytes of text from `begin`, where `chunks` begin.
    fn stored(&mut self, chunks: Range<u32>, begin: u64, len: usize) -> Result<ChunkText<TextBlock>> {
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

    /// Fills `into` with text from `begin`. Fails if the file has changed. What is read is mostly behind what was read
    /// before.
    fn read_on_disk(&mut self, path: &Path, begin: u64, into: &mut [u8]) -> io::Result<()> {
        let (at, mut text) = match self.on_disk.take().filter(|(at, _)| *at <= begin) {
            Some(on_disk) => on_disk,
            None if is_as_known(self.entry, &path.metadata()?) => (0, open_text(path)?),
            None => return Err(io::Error::other("it has changed; `faultless index update` reads it")),
        };
        io::copy(&mut Read::by_ref(&mut text).take(begin - at), &mut io::sink())?;
        text.read_exact(into)?;
        self.on_disk = Some((begin + into.len() as u64, text));
        Ok(())
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

    /// All of the text, as a stream.
    pub(super) fn stream(self) -> TextStream<'a, W> {
        TextStream { at: 0, chunk: self.run.first, text: None, large: self }
    }
}

/// Reads the text of a large file, chunk by chunk.
pub(super) struct TextStream<'a, W> {
    large: LargeText<'a, W>,
    at: u64,
    chunk: u32,
    /// The text of a chunk, and the chunk.
    text: Option<(u32, ChunkText<TextBlock>)>,
}

impl<W> TextStream<'_, W> {
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
            None => (self.chunk, self.large.of(self.chunk..self.chunk + 1)?),
        };
        into[..len].copy_from_slice(&text.1.text()[(self.at - begin) as usize..][..len]);
        self.text = Some(text);
        Ok(len)
    }
}

/// Fills the whole buffer if it can, as a file does. Where ripgrep notices a NUL byte depends on it.
impl<W> Read for TextStream<'_, W> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let mut given = 0;
        while given < into.len() && self.at < self.large.entry.text_bytes && !self.large.state.is_stopped() {
            match self.read_part(&mut into[given..]) {
                Ok(len) => (given, self.at) = (given + len, self.at + len as u64),
                Err(error) => {
                    self.large.state.trouble(error);
                    self.at = self.large.entry.text_bytes;
                }
            }
        }
        Ok(given)
    }
}
