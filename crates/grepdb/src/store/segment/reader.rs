//! Reads a segment.
//!
//! In: a path. Out: chunks, their texts and files, and posting lists. It checks every byte that it returns, and
//! allocates nothing for a length that the file could not hold.
//!
//! It does not cache texts.

use std::fs::File;
use std::ops::{Deref, DerefMut, Range};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, OnceLock, PoisonError};

use super::chunk::{ChunkMeta, ChunkRun};
use super::header::{HEADER_BYTES, Header, HeaderError, Section};
use crate::encoding::{ByteReader, checksum};
use crate::error::{DamagedPart, Error, Result};
use crate::index::posting_list::{self, BlockDirectory, Candidates, PostingList};
use crate::index::trigram::Trigram;
use crate::store::compression;
use crate::store::file_entry::{self, FileEntry};
use crate::tuning::{CHUNK_BYTES, HALF_BYTES, TABLE_BLOCKS};

#[derive(Debug)]
pub(crate) struct Segment {
    path: PathBuf,
    file: File,
    header: Header,
    /// Cache of chunk table blocks. Block `n` is at `n` modulo the length.
    table: Vec<Mutex<Option<TableBlock>>>,
    /// Chunks of large files, ascending.
    pub(crate) large_files: Vec<ChunkRun>,
    /// Chunks of lines that cross the end of a chunk, ascending. All but the last of such a run hold nothing else.
    pub(crate) long_lines: Vec<ChunkRun>,
    /// `None` if it is damaged.
    directory: Option<BlockDirectory>,
    /// Read on first use. `None` if it is damaged.
    dictionary: OnceLock<Option<Vec<u8>>>,
}

/// Number and rows of a block of the chunk table. The rows are `None` if the block is damaged.
type TableBlock = (u32, Option<Vec<ChunkMeta>>);

/// A span of the text of a chunk. The same memory holds the dictionary before it, and the compressed blocks behind
/// it.
pub(crate) struct ChunkText<B> {
    room: B,
    text: Range<usize>,
}

impl<B: Deref<Target = [u8]>> ChunkText<B> {
    pub(crate) fn whole(room: B) -> Self {
        let text = 0..room.len();
        Self { room, text }
    }

    pub(crate) fn text(&self) -> &[u8] {
        &self.room[self.text.clone()]
    }

    /// At most its first `len` bytes.
    pub(crate) fn truncated(mut self, len: usize) -> Self {
        self.text.end = self.text.end.min(self.text.start + len);
        self
    }
}

impl Segment {
    pub(crate) fn open(path: &Path) -> Result<Self> {
        let file = File::open(path).map_err(Error::io("open", path))?;
        let mut bytes = [0; HEADER_BYTES];
        let damaged = || Error::Damaged { path: path.to_path_buf(), part: DamagedPart::Segment };
        match file.read_exact_at(&mut bytes, 0) {
            Err(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => return Err(damaged()),
            read => read.map_err(Error::io("read", path))?,
        }
        let header = Header::decode(&bytes).map_err(|wrong| match wrong {
            HeaderError::Damaged => damaged(),
            HeaderError::Version(found) => Error::Version { path: path.to_path_buf(), found },
        })?;
        let len = file.metadata().map_err(Error::io("read", path))?.len();
        if !header.fits(len) {
            return Err(damaged());
        }
        let mut segment = Self {
            path: path.to_path_buf(),
            file,
            header,
            table: (0..header.chunks.div_ceil(ChunkMeta::BLOCK).min(TABLE_BLOCKS))
                .map(|_| Mutex::default())
                .collect(),
            large_files: Vec::new(),
            long_lines: Vec::new(),
            directory: None,
            dictionary: OnceLock::new(),
        };
        let runs = |segment: &Self, section| {
            let bytes = segment.section(section, DamagedPart::Segment)?;
            ChunkRun::decode(&bytes, header.chunks).ok_or_else(damaged)
        };
        segment.large_files = runs(&segment, header.large_files)?;
        segment.long_lines = runs(&segment, header.long_lines)?;
        // Without a directory every chunk is a candidate.
        let directory = unless_damaged(segment.section(header.directory, DamagedPart::Index))?;
        segment.directory = directory.and_then(|rows| BlockDirectory::decode(rows, header.lists.len_bytes));
        Ok(segment)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Number of files, out-of-date ones included.
    pub(crate) fn files(&self) -> u32 {
        self.header.files
    }

    /// Text in all its chunks, bytes.
    pub(crate) fn text_bytes(&self) -> u64 {
        self.header.text_bytes
    }

    pub(crate) fn chunks(&self) -> u32 {
        self.header.chunks
    }

    pub(crate) fn chunk_meta(&self, at: u32) -> Result<ChunkMeta> {
        let damaged = || self.damaged(DamagedPart::Segment);
        let number = at / ChunkMeta::BLOCK;
        if at >= self.header.chunks {
            return Err(damaged());
        }
        let block = &self.table[number as usize % self.table.len()];
        let mut block = block.lock().unwrap_or_else(PoisonError::into_inner);
        let rows = match block.take() {
            Some((is, rows)) if is == number => rows,
            _ => unless_damaged(self.read_table_block(number))?.flatten(),
        };
        let (_, rows) = block.insert((number, rows));
        rows.as_ref().and_then(|rows| rows.get((at % ChunkMeta::BLOCK) as usize)).copied().ok_or_else(damaged)
    }

    /// Reads block `number` of the chunk table. Returns `None` if its contents are impossible.
    fn read_table_block(&self, number: u32) -> Result<Option<Vec<ChunkMeta>>> {
        let first = number * ChunkMeta::BLOCK;
        let rows = ChunkMeta::BLOCK.min(self.header.chunks - first) as usize;
        let mut bytes = vec![0; rows * ChunkMeta::BYTES + ChunkMeta::CRC_BYTES];
        let begin =
            u64::from(number) * (ChunkMeta::BLOCK as usize * ChunkMeta::BYTES + ChunkMeta::CRC_BYTES) as u64;
        self.read(&mut bytes, self.header.table.begin + begin, DamagedPart::Segment)?;
        let (rows, crc) = bytes.split_at(rows * ChunkMeta::BYTES);
        Ok((checksum(rows).to_le_bytes() == crc).then(|| chunks(rows, &self.header)).flatten())
    }

    fn dictionary(&self) -> Result<&[u8]> {
        if self.dictionary.get().is_none() {
            let _ = self
                .dictionary
                .set(unless_damaged(self.section(self.header.dictionary, DamagedPart::Dictionary))?);
        }
        self.dictionary.get().and_then(Option::as_deref).ok_or_else(|| self.damaged(DamagedPart::Dictionary))
    }

    /// The chunks of the file that begins in chunk `at`. Empty if chunk `at` continues a file.
    pub(crate) fn chunks_of_file(&self, at: u32) -> Range<u32> {
        match ChunkRun::containing(&self.large_files, at) {
            Some(run) if run.first == at => run.numbers(),
            Some(_) => at..at,
            None => at..at + 1,
        }
    }

    /// The run of the large file that begins in chunk `at`, if there is one.
    pub(crate) fn large_file(&self, at: u32) -> Option<ChunkRun> {
        ChunkRun::containing(&self.large_files, at).filter(|run| run.first == at)
    }

    /// The chunks of a large file, grouped so that no line crosses the end of a group.
    pub(crate) fn line_groups(&self, file: ChunkRun) -> impl Iterator<Item = Range<u32>> {
        let (mut next, end) = (file.first, file.numbers().end);
        std::iter::from_fn(move || {
            let line = ChunkRun::containing(&self.long_lines, next);
            let group = next..line.map_or(next + 1, |line| line.numbers().end.min(end));
            next = group.end;
            (group.start < end).then_some(group)
        })
    }

    /// Numbers of the files that begin in chunk `at`.
    pub(crate) fn file_numbers(&self, at: u32) -> Result<Range<u32>> {
        let next = at + 1;
        let end =
            if next == self.header.chunks { self.header.files } else { self.chunk_meta(next)?.first_file };
        Ok(self.chunk_meta(at)?.first_file..end)
    }

    pub(crate) fn index_bytes(&self) -> u64 {
        self.header.lists.len_bytes + self.header.directory.len_bytes
    }

    /// Reads and decompresses `span` of the text of chunk `at`, into memory from `room`. `room` gets the number of
    /// bytes.
    pub(crate) fn text<B: DerefMut<Target = [u8]>>(
        &self,
        at: u32,
        span: Range<usize>,
        room: impl FnOnce(usize) -> B,
    ) -> Result<ChunkText<B>> {
        let (chunk, part) = (self.chunk_meta(at)?, DamagedPart::Text(at));
        let dictionary = self.dictionary()?;
        let numbers = span.start / HALF_BYTES..span.end.div_ceil(HALF_BYTES);
        let halves = chunk.halves.get(numbers.clone()).ok_or_else(|| self.damaged(part))?;
        let before: u64 = chunk.halves[..numbers.start].iter().map(|half| u64::from(half.packed_bytes)).sum();
        let mut packed_bytes: usize = halves.iter().map(|half| half.packed_bytes as usize).sum();
        let begin = numbers.start * HALF_BYTES;
        let end = dictionary.len() + span.end - begin;
        let mut room = room(end + packed_bytes);
        let (decompressed, packed) = room.split_at_mut(end);
        self.read(packed, chunk.begin + before, part)?;
        // The dictionary must lie right before each half. That place later holds the end of the half before, so the
        // last half comes first.
        for (number, half) in numbers.zip(halves).rev() {
            let text = chunk.half(number);
            let at = text.start - begin;
            let room = &mut decompressed[at..end.min(dictionary.len() + text.end - begin)];
            room[..dictionary.len()].copy_from_slice(dictionary);
            let is_whole = room.len() == dictionary.len() + text.len();
            let block = &packed[packed_bytes - half.packed_bytes as usize..packed_bytes];
            packed_bytes -= block.len();
            let sound = checksum(block) == half.crc
                && compression::decompress(block, room, dictionary.len(), is_whole);
            if !sound {
                return Err(self.damaged(part));
            }
        }
        let text = dictionary.len() + span.start - begin..end;
        Ok(ChunkText { room, text })
    }

    /// The entries of the files that begin in chunk `at`.
    pub(crate) fn files_of_chunk(&self, at: u32) -> Result<Vec<FileEntry>> {
        let chunk = self.chunk_meta(at)?;
        let mut bytes = vec![0; chunk.files_bytes as usize];
        self.read(
            &mut bytes,
            self.header.file_tables.begin + u64::from(chunk.files_begin),
            DamagedPart::Files(at),
        )?;
        self.entries(at, &bytes)
    }

    /// The entries of each chunk, or the damage.
    pub(crate) fn files_by_chunk(&self) -> Result<Vec<Result<Vec<FileEntry>>>> {
        let mut bytes = vec![0; self.header.file_tables.len_bytes as usize];
        self.read(&mut bytes, self.header.file_tables.begin, DamagedPart::Segment)?;
        let entries = |at| {
            let chunk = self.chunk_meta(at)?;
            let begin = chunk.files_begin as usize;
            self.entries(at, &bytes[begin..begin + chunk.files_bytes as usize])
        };
        Ok((0..self.chunks()).map(entries).collect())
    }

    /// The posting list of `trigram`; `None` if no chunk has it.
    pub(crate) fn posting_list(&self, trigram: Trigram) -> Result<Option<PostingList>> {
        let damaged = || self.damaged(DamagedPart::Index);
        let Some(block) = self.directory.as_ref().ok_or_else(damaged)?.block(trigram) else {
            return Ok(None);
        };
        let block = block.ok_or_else(damaged)?;
        posting_list::find_list(block, &self.list_block(block)?, trigram).ok_or_else(damaged)
    }

    pub(crate) fn mark(&self, list: &PostingList, candidates: &mut Candidates) -> Result<()> {
        list.mark(self.header.chunks, candidates).ok_or_else(|| self.damaged(DamagedPart::Index))
    }

    /// Reads the whole segment, without chunks that have no file for which `is_live` holds. Reports damaged parts to
    /// `each`.
    #[cfg(any(fuzzing, test))]
    pub(crate) fn check(&self, is_live: impl Fn(u32) -> bool, each: &mut impl FnMut(Error)) -> Result<()> {
        let mut hear = |result: Result<()>| match result {
            Err(error @ Error::Damaged { .. }) => {
                each(error);
                Ok(())
            }
            other => other,
        };
        hear(self.check_index())?;
        for (first, entries) in (0..).zip(self.files_by_chunk()?) {
            if !self.file_numbers(first)?.any(&is_live) {
                continue;
            }
            hear(entries.map(drop))?;
            for at in self.chunks_of_file(first) {
                let len = self.chunk_meta(at)?.text_bytes as usize;
                hear(self.text(at, 0..len, |bytes| vec![0; bytes]).map(drop))?;
            }
        }
        Ok(())
    }

    #[cfg(any(fuzzing, test))]
    fn check_index(&self) -> Result<()> {
        let damaged = || self.damaged(DamagedPart::Index);
        for block in self.directory.as_ref().ok_or_else(damaged)?.blocks() {
            let block = block.ok_or_else(damaged)?;
            let bytes = self.list_block(block)?;
            if !posting_list::is_valid(block, &bytes, self.header.chunks) {
                return Err(damaged());
            }
        }
        Ok(())
    }

    fn list_block(&self, block: posting_list::ListBlock) -> Result<Vec<u8>> {
        let mut bytes = vec![0; block.len_bytes as usize];
        self.read(&mut bytes, self.header.lists.begin + block.begin, DamagedPart::Index)?;
        Ok(bytes)
    }

    /// Decodes and checks the file table of chunk `at`.
    fn entries(&self, at: u32, bytes: &[u8]) -> Result<Vec<FileEntry>> {
        let numbers = self.file_numbers(at)?;
        let there: u64 = self
            .chunks_of_file(at)
            .map(|at| Ok(u64::from(self.chunk_meta(at)?.text_bytes)))
            .sum::<Result<u64>>()?;
        let sound = checksum(bytes) == self.chunk_meta(at)?.files_crc;
        let entries = sound.then(|| file_entry::decode_entries(bytes)).flatten();
        let is_all = |entries: &Vec<FileEntry>| {
            let text_bytes = entries.iter().try_fold(0_u64, |sum, entry| {
                sum.checked_add(entry.text_bytes)?.checked_add(entry.ends_open.into())
            });
            entries.len() == numbers.len() && text_bytes == Some(there)
        };
        entries.filter(is_all).ok_or_else(|| self.damaged(DamagedPart::Files(at)))
    }

    fn section(&self, section: Section, part: DamagedPart) -> Result<Vec<u8>> {
        let mut bytes = vec![0; section.len_bytes as usize];
        self.read(&mut bytes, section.begin, part)?;
        if checksum(&bytes) == section.crc { Ok(bytes) } else { Err(self.damaged(part)) }
    }

    /// Fills `bytes` from offset `begin`. If the file ends earlier, `part` is damaged.
    fn read(&self, bytes: &mut [u8], begin: u64, part: DamagedPart) -> Result<()> {
        match self.file.read_exact_at(bytes, begin) {
            Err(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => Err(self.damaged(part)),
            read => read.map_err(Error::io("read", &self.path)),
        }
    }

    fn damaged(&self, part: DamagedPart) -> Error {
        Error::Damaged { path: self.path.clone(), part }
    }
}

/// `None` if the result is damage.
fn unless_damaged<T>(result: Result<T>) -> Result<Option<T>> {
    match result {
        Err(Error::Damaged { .. }) => Ok(None),
        other => other.map(Some),
    }
}

/// Decodes rows of the chunk table. Returns `None` if a row is impossible.
fn chunks(rows: &[u8], header: &Header) -> Option<Vec<ChunkMeta>> {
    /// Maximum compression ratio of LZ4.
    const COMPRESSION_RATIO_MAX: usize = 255;

    let mut files = 0;
    let mut chunks = Vec::with_capacity(rows.len() / ChunkMeta::BYTES);
    for row in rows.chunks_exact(ChunkMeta::BYTES) {
        let chunk = ChunkMeta::decode(&mut ByteReader(row))?;
        let packed: u64 = chunk.halves.iter().map(|half| u64::from(half.packed_bytes)).sum();
        let mut halves = chunk.halves.iter().enumerate();
        let table_end = u64::from(chunk.files_begin) + u64::from(chunk.files_bytes);
        let fits = chunk.begin.checked_add(packed)? <= header.file_tables.begin
            && chunk.text_bytes as usize <= CHUNK_BYTES
            && halves
                .all(|(at, half)| chunk.half(at).len() <= half.packed_bytes as usize * COMPRESSION_RATIO_MAX)
            && table_end <= header.file_tables.len_bytes
            && (files..=header.files).contains(&chunk.first_file);
        if !fits {
            return None;
        }
        files = chunk.first_file;
        chunks.push(chunk);
    }
    Some(chunks)
}
