//! The file of a segment -> its chunks.
//!
//! In: a path. Out: chunks, their texts and files, and which chunks may hold a gram. Every byte that is handed out has been checked,
//! and no length is believed that the file could not hold.
//!
//! What it does not do: keep texts.

use std::fs::File;
use std::ops::{Deref, DerefMut, Range};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, OnceLock, PoisonError};

use super::header::{HEADER_BYTES, Header, Section, Wrong};
use super::{Chunk, Run};
use crate::bytes::{Bytes, checksum};
use crate::damage::Part;
use crate::error::{Error, Result};
use crate::files::{self, FileEntry};
use crate::grams::Gram;
use crate::index::{self, Directory, List, Units};
use crate::text;
use crate::tuning::{CHUNK_BYTES, HALF_BYTES, TABLE_BLOCKS};

/// An open segment.
#[derive(Debug)]
pub(crate) struct Segment {
    path: PathBuf,
    file: File,
    header: Header,
    /// Blocks of the table that were read last, each where its number modulo the length is.
    table: Vec<Mutex<Option<Block>>>,
    /// Large files, in order.
    pub(crate) runs: Vec<Run>,
    /// `None` where it is damaged.
    directory: Option<Directory>,
    /// Read when it is needed; `None` where it is damaged.
    dictionary: OnceLock<Option<Vec<u8>>>,
}

/// A block of the table: its number, and its rows; `None` where it is damaged.
type Block = (u32, Option<Vec<Chunk>>);

/// A part of the text of a chunk. What it refers back to lies before it, the block behind it.
pub(crate) struct Unpacked<B> {
    room: B,
    text: Range<usize>,
}

impl<B: Deref<Target = [u8]>> Unpacked<B> {
    pub(crate) fn text(&self) -> &[u8] {
        &self.room[self.text.clone()]
    }
}

impl Segment {
    /// Opens the segment at `path`.
    ///
    /// # Errors
    /// It can't be read, its header is damaged, or it is of another version.
    pub(crate) fn open(path: &Path) -> Result<Self> {
        let file = File::open(path).map_err(Error::io("open", path))?;
        let mut bytes = [0; HEADER_BYTES];
        let damaged = || Error::Damaged { path: path.to_path_buf(), part: Part::Segment };
        match file.read_exact_at(&mut bytes, 0) {
            Err(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => return Err(damaged()),
            read => read.map_err(Error::io("read", path))?,
        }
        let header = Header::decode(&bytes).map_err(|wrong| match wrong {
            Wrong::Damaged => damaged(),
            Wrong::Version(found) => Error::Version { path: path.to_path_buf(), found },
        })?;
        let len = file.metadata().map_err(Error::io("read", path))?.len();
        if !header.fits(len) {
            return Err(damaged());
        }
        let mut segment = Self {
            path: path.to_path_buf(),
            file,
            header,
            table: (0..header.chunks.div_ceil(Chunk::BLOCK).min(TABLE_BLOCKS))
                .map(|_| Mutex::default())
                .collect(),
            runs: Vec::new(),
            directory: None,
            dictionary: OnceLock::new(),
        };
        let runs = segment.section(header.runs, Part::Segment)?;
        segment.runs = Run::decode(&runs, header.chunks).ok_or_else(damaged)?;
        // Without it there is still a way to find everything.
        let directory = sound(segment.section(header.directory, Part::Index))?;
        segment.directory = directory.and_then(|rows| Directory::decode(rows, header.lists.len_bytes));
        Ok(segment)
    }

    /// Where it lies.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// How many files it has, out of date or not.
    pub(crate) fn files(&self) -> u32 {
        self.header.files
    }

    /// Text in all its chunks, bytes.
    pub(crate) fn text_bytes(&self) -> u64 {
        self.header.text_bytes
    }

    /// How many chunks it has.
    pub(crate) fn chunks(&self) -> u32 {
        self.header.chunks
    }

    /// What is known of chunk number `at`.
    ///
    /// # Errors
    /// It can't be read, or is damaged.
    pub(crate) fn chunk(&self, at: u32) -> Result<Chunk> {
        let damaged = || self.damaged(Part::Segment);
        let number = at / Chunk::BLOCK;
        if at >= self.header.chunks {
            return Err(damaged());
        }
        let block = &self.table[number as usize % self.table.len()];
        let mut block = block.lock().unwrap_or_else(PoisonError::into_inner);
        let rows = match block.take() {
            Some((is, rows)) if is == number => rows,
            _ => sound(self.block(number))?.flatten(),
        };
        let (_, rows) = block.insert((number, rows));
        rows.as_ref().and_then(|rows| rows.get((at % Chunk::BLOCK) as usize)).copied().ok_or_else(damaged)
    }

    /// Whether what is known of `chunks` is sound.
    ///
    /// # Errors
    /// As [`chunk`](Self::chunk).
    pub(crate) fn knows(&self, mut chunks: Range<u32>) -> Result<()> {
        chunks.try_for_each(|at| self.chunk(at).map(drop))
    }

    /// Block `number` of the table; `None` where it can't be true.
    fn block(&self, number: u32) -> Result<Option<Vec<Chunk>>> {
        let first = number * Chunk::BLOCK;
        let rows = Chunk::BLOCK.min(self.header.chunks - first) as usize;
        let mut bytes = vec![0; rows * Chunk::BYTES + Chunk::CRC_BYTES];
        let begin = u64::from(number) * (Chunk::BLOCK as usize * Chunk::BYTES + Chunk::CRC_BYTES) as u64;
        self.read(&mut bytes, self.header.table.begin + begin, Part::Segment)?;
        let (rows, crc) = bytes.split_at(rows * Chunk::BYTES);
        Ok((checksum(rows).to_le_bytes() == crc).then(|| chunks(rows, &self.header)).flatten())
    }

    fn dictionary(&self) -> Result<&[u8]> {
        if self.dictionary.get().is_none() {
            let _ = self.dictionary.set(sound(self.section(self.header.dictionary, Part::Dictionary))?);
        }
        self.dictionary.get().and_then(Option::as_deref).ok_or_else(|| self.damaged(Part::Dictionary))
    }

    /// The chunk number `at`, with those that go on with its file; nothing where it goes on itself.
    pub(crate) fn run(&self, at: u32) -> Range<u32> {
        match self.around(at) {
            Some(run) if run.first == at => run.numbers(),
            Some(_) => at..at,
            None => at..at + 1,
        }
    }

    /// The chunks of the large file that begins with chunk number `at`, if one does.
    pub(crate) fn large(&self, at: u32) -> Option<Run> {
        self.around(at).filter(|run| run.first == at)
    }

    /// The large file that chunk number `at` is of, if it is of one.
    fn around(&self, at: u32) -> Option<Run> {
        let before = self.runs.partition_point(|run| run.first <= at);
        before.checked_sub(1).map(|before| self.runs[before]).filter(|run| run.numbers().contains(&at))
    }

    /// Numbers of the files that begin in chunk number `at`.
    ///
    /// # Errors
    /// As [`chunk`](Self::chunk).
    pub(crate) fn numbers(&self, at: u32) -> Result<Range<u32>> {
        let next = at + 1;
        let end = if next == self.header.chunks { self.header.files } else { self.chunk(next)?.first_file };
        Ok(self.chunk(at)?.first_file..end)
    }

    /// Its index, bytes.
    pub(crate) fn index_bytes(&self) -> u64 {
        self.header.lists.len_bytes + self.header.directory.len_bytes
    }

    /// The part `span` of the text of chunk number `at`, unpacked into what `room` gives when it is told how much.
    ///
    /// # Errors
    /// It can't be read, or is damaged.
    pub(crate) fn text<B: DerefMut<Target = [u8]>>(
        &self,
        at: u32,
        span: Range<usize>,
        room: impl FnOnce(usize) -> B,
    ) -> Result<Unpacked<B>> {
        let (chunk, part) = (self.chunk(at)?, Part::Text(at));
        let dictionary = self.dictionary()?;
        let numbers = span.start / HALF_BYTES..span.end.div_ceil(HALF_BYTES);
        let halves = chunk.halves.get(numbers.clone()).ok_or_else(|| self.damaged(part))?;
        let before: u64 = chunk.halves[..numbers.start].iter().map(|half| u64::from(half.packed_bytes)).sum();
        let mut packed_bytes: usize = halves.iter().map(|half| half.packed_bytes as usize).sum();
        let begin = numbers.start * HALF_BYTES;
        let end = dictionary.len() + span.end - begin;
        let mut room = room(end + packed_bytes);
        let (unpacked, packed) = room.split_at_mut(end);
        self.read(packed, chunk.begin + before, part)?;
        // The dictionary has to lie before each of them, where afterwards the half before it lies: so the last is the first.
        for (number, half) in numbers.zip(halves).rev() {
            let text = chunk.half(number);
            let at = text.start - begin;
            let room = &mut unpacked[at..end.min(dictionary.len() + text.end - begin)];
            room[..dictionary.len()].copy_from_slice(dictionary);
            let is_whole = room.len() == dictionary.len() + text.len();
            let block = &packed[packed_bytes - half.packed_bytes as usize..packed_bytes];
            packed_bytes -= block.len();
            let sound = checksum(block) == half.crc && text::unpack(block, room, dictionary.len(), is_whole);
            if !sound {
                return Err(self.damaged(part));
            }
        }
        let text = dictionary.len() + span.start - begin..end;
        Ok(Unpacked { room, text })
    }

    /// The files that begin in chunk number `at`.
    ///
    /// # Errors
    /// They can't be read, or are damaged.
    pub(crate) fn group(&self, at: u32) -> Result<Vec<FileEntry>> {
        let chunk = self.chunk(at)?;
        let mut bytes = vec![0; chunk.files_bytes as usize];
        self.read(&mut bytes, self.header.groups.begin + u64::from(chunk.files_begin), Part::Files(at))?;
        self.entries(at, &bytes)
    }

    /// The files of each chunk, or that they are damaged.
    ///
    /// # Errors
    /// They can't be read.
    pub(crate) fn groups(&self) -> Result<Vec<Result<Vec<FileEntry>>>> {
        let mut bytes = vec![0; self.header.groups.len_bytes as usize];
        self.read(&mut bytes, self.header.groups.begin, Part::Segment)?;
        let group = |at| {
            let chunk = self.chunk(at)?;
            let begin = chunk.files_begin as usize;
            self.entries(at, &bytes[begin..begin + chunk.files_bytes as usize])
        };
        Ok((0..self.chunks()).map(group).collect())
    }

    /// The list of `gram`; `None` where no chunk has it.
    ///
    /// # Errors
    /// It can't be read, or is damaged.
    pub(crate) fn list(&self, gram: Gram) -> Result<Option<List>> {
        let damaged = || self.damaged(Part::Index);
        let Some(block) = self.directory.as_ref().ok_or_else(damaged)?.block(gram) else { return Ok(None) };
        let block = block.ok_or_else(damaged)?;
        index::list(block, &self.lists(block)?, gram).map_err(|index::Damaged| damaged())
    }

    /// Marks the units that `list` names.
    ///
    /// # Errors
    /// It is damaged.
    pub(crate) fn mark(&self, list: &List, units: &mut Units) -> Result<()> {
        list.mark(self.header.chunks, units).ok_or_else(|| self.damaged(Part::Index))
    }

    /// Reads everything but chunks without any file of which `is_live` holds, and hands over what is damaged.
    ///
    /// # Errors
    /// It can't be read.
    pub(crate) fn check(&self, is_live: impl Fn(u32) -> bool, each: &mut impl FnMut(Error)) -> Result<()> {
        let mut hear = |result: Result<()>| match result {
            Err(error @ Error::Damaged { .. }) => {
                each(error);
                Ok(())
            }
            other => other,
        };
        hear(self.check_index())?;
        for (first, group) in (0..).zip(self.groups()?) {
            if !self.numbers(first)?.any(&is_live) {
                continue;
            }
            hear(group.map(drop))?;
            for at in self.run(first) {
                let len = self.chunk(at)?.text_bytes as usize;
                hear(self.text(at, 0..len, |bytes| vec![0; bytes]).map(drop))?;
            }
        }
        Ok(())
    }

    fn check_index(&self) -> Result<()> {
        let damaged = || self.damaged(Part::Index);
        for block in self.directory.as_ref().ok_or_else(damaged)?.blocks() {
            let block = block.ok_or_else(damaged)?;
            let bytes = self.lists(block)?;
            if !index::is_sound(block, &bytes, self.header.chunks) {
                return Err(damaged());
            }
        }
        Ok(())
    }

    fn lists(&self, block: index::Block) -> Result<Vec<u8>> {
        let mut bytes = vec![0; block.len_bytes as usize];
        self.read(&mut bytes, self.header.lists.begin + block.begin, Part::Index)?;
        Ok(bytes)
    }

    /// The files of chunk number `at`, which have its text.
    fn entries(&self, at: u32, bytes: &[u8]) -> Result<Vec<FileEntry>> {
        let numbers = self.numbers(at)?;
        let there: u64 =
            self.run(at).map(|at| Ok(u64::from(self.chunk(at)?.text_bytes))).sum::<Result<u64>>()?;
        let sound = checksum(bytes) == self.chunk(at)?.files_crc;
        let entries = sound.then(|| files::decode(bytes)).flatten();
        let is_all = |entries: &Vec<FileEntry>| {
            let text_bytes = entries.iter().try_fold(0_u64, |sum, entry| {
                sum.checked_add(entry.text_bytes)?.checked_add(entry.ends_open.into())
            });
            entries.len() == numbers.len() && text_bytes == Some(there)
        };
        entries.filter(is_all).ok_or_else(|| self.damaged(Part::Files(at)))
    }

    fn section(&self, section: Section, part: Part) -> Result<Vec<u8>> {
        let mut bytes = vec![0; section.len_bytes as usize];
        self.read(&mut bytes, section.begin, part)?;
        if checksum(&bytes) == section.crc { Ok(bytes) } else { Err(self.damaged(part)) }
    }

    /// Reads what lies at `begin`; where the file ends before, it is damaged.
    fn read(&self, bytes: &mut [u8], begin: u64, part: Part) -> Result<()> {
        match self.file.read_exact_at(bytes, begin) {
            Err(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => Err(self.damaged(part)),
            read => read.map_err(Error::io("read", &self.path)),
        }
    }

    fn damaged(&self, part: Part) -> Error {
        Error::Damaged { path: self.path.clone(), part }
    }
}

/// `None` for what is damaged.
fn sound<T>(result: Result<T>) -> Result<Option<T>> {
    match result {
        Err(Error::Damaged { .. }) => Ok(None),
        other => other.map(Some),
    }
}

/// Rows of a table that can be true.
fn chunks(rows: &[u8], header: &Header) -> Option<Vec<Chunk>> {
    /// LZ4 makes no byte out of less than a 255th.
    const UNPACKED_MAX: usize = 255;

    let mut files = 0;
    let mut chunks = Vec::with_capacity(rows.len() / Chunk::BYTES);
    for row in rows.chunks_exact(Chunk::BYTES) {
        let chunk = Chunk::decode(&mut Bytes(row))?;
        let packed: u64 = chunk.halves.iter().map(|half| u64::from(half.packed_bytes)).sum();
        let mut halves = chunk.halves.iter().enumerate();
        let group_end = u64::from(chunk.files_begin) + u64::from(chunk.files_bytes);
        let fits = chunk.begin.checked_add(packed)? <= header.groups.begin
            && chunk.text_bytes as usize <= CHUNK_BYTES
            && halves.all(|(at, half)| chunk.half(at).len() <= half.packed_bytes as usize * UNPACKED_MAX)
            && group_end <= header.groups.len_bytes
            && (files..=header.files).contains(&chunk.first_file);
        if !fits {
            return None;
        }
        files = chunk.first_file;
        chunks.push(chunk);
    }
    Some(chunks)
}
