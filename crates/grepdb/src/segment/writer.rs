//! Chunks -> the file of a segment.
//!
//! In: packed chunks in order. Out: a complete file, on the disk when [`Writer::finish`] returns.
//!
//! What it does not do: pack, or make anybody know of the file.

use std::fs::File;
use std::io::{BufWriter, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use super::header::{HEADER_BYTES, Header, Section};
use super::{Chunk, Half, Run};
use crate::bytes::checksum;
use crate::error::{Error, Result};
use crate::files::{self, FileEntry};
use crate::grams::Gram;
use crate::index::Collector;
use crate::tuning as t;
use crate::tuning::HALVES;

/// A chunk as it will be written.
#[derive(Debug, Default)]
pub(crate) struct Packed {
    /// Of each half of the text.
    pub(crate) blocks: [Vec<u8>; HALVES],
    pub(crate) text_bytes: u32,
    /// Those that begin in it.
    pub(crate) files: Vec<FileEntry>,
    pub(crate) grams: Vec<(Gram, u16)>,
    pub(crate) continues: bool,
    pub(crate) cuts_line: bool,
}

/// A segment that grows.
pub(crate) struct Writer {
    path: PathBuf,
    out: BufWriter<File>,
    at: u64,
    chunks: Vec<Chunk>,
    runs: Vec<Run>,
    groups: Vec<u8>,
    files: u32,
    text_bytes: u64,
    lists: Collector,
    dictionary: Vec<u8>,
}

impl Writer {
    /// Begins the file at `path`, which must not exist.
    ///
    /// # Errors
    /// It can't be written.
    pub(crate) fn create(path: &Path, dictionary: Vec<u8>) -> Result<Self> {
        let file = File::create_new(path).map_err(Error::io("create", path))?;
        let mut writer = Self {
            path: path.to_path_buf(),
            out: BufWriter::with_capacity(1 << 20, file),
            at: 0,
            chunks: Vec::new(),
            runs: Vec::new(),
            groups: Vec::new(),
            files: 0,
            text_bytes: 0,
            lists: Collector::new(),
            dictionary,
        };
        writer.write(&[0; HEADER_BYTES])?;
        Ok(writer)
    }

    /// Appends a chunk.
    ///
    /// # Errors
    /// It can't be written.
    pub(crate) fn add(&mut self, packed: Packed) -> Result<()> {
        let files_begin = self.groups.len() as u32;
        files::encode(&packed.files, &mut self.groups);
        let group = &self.groups[files_begin as usize..];
        let chunk = Chunk {
            begin: self.at,
            halves: packed
                .blocks
                .each_ref()
                .map(|block| Half { packed_bytes: block.len() as u32, crc: checksum(block) }),
            text_bytes: packed.text_bytes,
            files_begin,
            files_bytes: group.len() as u32,
            files_crc: checksum(group),
            first_file: self.files,
        };
        let number = self.chunks.len() as u32;
        if packed.continues {
            match self.runs.last_mut().filter(|run| run.first + run.chunks == number) {
                Some(run) => run.chunks += 1,
                None => self.runs.push(Run { first: number - 1, chunks: 2, cuts_line: false }),
            }
            if let Some(run) = self.runs.last_mut() {
                run.cuts_line |= packed.cuts_line;
            }
        }
        self.lists.add(packed.grams.into_iter());
        self.chunks.push(chunk);
        self.files += packed.files.len() as u32;
        self.text_bytes += u64::from(packed.text_bytes);
        packed.blocks.iter().try_for_each(|block| self.write(block))
    }

    /// The next chunk belongs into another segment.
    pub(crate) fn is_full(&self) -> bool {
        self.text_bytes >= t::SEGMENT_BYTES_MAX || self.groups.len() >= t::SEGMENT_FILES_BYTES_MAX
    }

    /// Text so far, bytes.
    pub(crate) fn text_bytes(&self) -> u64 {
        self.text_bytes
    }

    /// Writes the rest, which so many threads make, and waits until all is on the disk. Files in it, and bytes of the file.
    ///
    /// # Errors
    /// It can't be written.
    pub(crate) fn finish(mut self, threads: usize) -> Result<(u32, u64)> {
        let mut header = Header {
            files: self.files,
            chunks: self.chunks.len() as u32,
            text_bytes: self.text_bytes,
            ..Header::default()
        };
        let groups = std::mem::take(&mut self.groups);
        header.groups = Section { crc: 0, ..self.section(&groups)? };
        let (lists, directory) =
            std::mem::replace(&mut self.lists, Collector::new()).finish(header.chunks, threads);
        header.lists = Section { crc: 0, ..self.section(&lists)? };
        let mut table = Vec::new();
        for block in self.chunks.chunks(Chunk::BLOCK as usize) {
            let begin = table.len();
            block.iter().for_each(|chunk| chunk.encode(&mut table));
            let crc = checksum(&table[begin..]);
            table.extend(crc.to_le_bytes());
        }
        header.table = Section { crc: 0, ..self.section(&table)? };
        header.runs = self.section(&Run::encode(&self.runs))?;
        header.directory = self.section(directory.encode())?;
        let dictionary = std::mem::take(&mut self.dictionary);
        header.dictionary = self.section(&dictionary)?;
        let path = &self.path;
        self.out.seek(SeekFrom::Start(0)).map_err(Error::io("write", path))?;
        self.out.write_all(&header.encode()).map_err(Error::io("write", path))?;
        self.out.flush().map_err(Error::io("write", path))?;
        self.out.get_ref().sync_data().map_err(Error::io("write", path))?;
        Ok((self.files, self.at))
    }

    fn section(&mut self, bytes: &[u8]) -> Result<Section> {
        let begin = self.at;
        self.write(bytes)?;
        Ok(Section { begin, len_bytes: bytes.len() as u64, crc: checksum(bytes) })
    }

    fn write(&mut self, bytes: &[u8]) -> Result<()> {
        self.at += bytes.len() as u64;
        self.out.write_all(bytes).map_err(Error::io("write", &self.path))
    }
}
