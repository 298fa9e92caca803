//! Writes a segment.
//!
//! In: packed chunks, in order. Out: a complete file, synced to disk when [`SegmentWriter::finish`] returns.
//!
//! It does not compress, or change the manifest.

use std::fs::File;
use std::io::{BufWriter, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use super::chunk::{ChunkMeta, ChunkRun, HalfBlock};
use super::header::{HEADER_BYTES, Header, Section};
use crate::encoding::{checksum, packed};
use crate::error::{Error, Result};
use crate::index::posting_collector::PostingCollector;
use crate::index::trigram::Trigram;
use crate::store::file_entry::{self, FileEntry};
use crate::tuning as t;
use crate::tuning::HALVES;

/// A chunk before it is written.
#[derive(Debug)]
pub(crate) struct PackedChunk {
    pub(crate) blocks: [Vec<u8>; HALVES],
    pub(crate) text_bytes: u32,
    pub(crate) content: ChunkContent,
    pub(crate) trigrams: Vec<(Trigram, u16)>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ChunkContent {
    /// Whole files.
    Files(Vec<FileEntry>),
    /// The beginning of a large file. Its entry is known after its last chunk.
    LargeFile,
    /// A further part of a large file.
    LargeFilePart(PartBegin),
}

/// How a part of a large file begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PartBegin {
    /// With a line.
    Line,
    /// Within a line. The part before ends with these bytes.
    Within([u8; 2]),
}

pub(crate) struct SegmentWriter {
    path: PathBuf,
    out: BufWriter<File>,
    at: u64,
    chunks: Vec<ChunkMeta>,
    large_files: Vec<ChunkRun>,
    long_lines: Vec<ChunkRun>,
    file_tables: Vec<u8>,
    files: u32,
    /// First chunk of the large file whose entry is not known yet. The file tables from there on are missing.
    open_file: Option<usize>,
    text_bytes: u64,
    lists: PostingCollector,
    dictionary: Vec<u8>,
}

impl SegmentWriter {
    /// Creates the file at `path`, which must not exist.
    pub(crate) fn create(path: &Path, dictionary: Vec<u8>) -> Result<Self> {
        let file = File::create_new(path).map_err(Error::io("create", path))?;
        let mut writer = Self {
            path: path.to_path_buf(),
            out: BufWriter::with_capacity(1 << 20, file),
            at: 0,
            chunks: Vec::new(),
            large_files: Vec::new(),
            long_lines: Vec::new(),
            file_tables: Vec::new(),
            files: 0,
            open_file: None,
            text_bytes: 0,
            // A commit, or a failed build, removes every segment without a number.
            lists: PostingCollector::new(path.with_file_name("postings.segment"), t::POSTINGS_MAX),
            dictionary,
        };
        writer.write(&[0; HEADER_BYTES])?;
        Ok(writer)
    }

    /// Appends a chunk. [`end_large_file`](Self::end_large_file) must follow the last chunk of a large file.
    pub(crate) fn add(&mut self, packed: PackedChunk) -> Result<()> {
        let number = self.chunks.len() as u32;
        self.chunks.push(ChunkMeta {
            begin: self.at,
            halves: packed
                .blocks
                .each_ref()
                .map(|block| HalfBlock { packed_bytes: block.len() as u32, crc: checksum(block) }),
            text_bytes: packed.text_bytes,
            first_file: self.files,
            ..ChunkMeta::default()
        });
        match packed.content {
            ChunkContent::Files(files) => {
                self.add_file_table(number as usize, &files);
                self.files += files.len() as u32;
            }
            ChunkContent::LargeFile => {
                self.open_file = Some(number as usize);
                self.files += 1;
            }
            ChunkContent::LargeFilePart(begin) => {
                ChunkRun::go_on(&mut self.large_files, number);
                if begin != PartBegin::Line {
                    ChunkRun::go_on(&mut self.long_lines, number);
                }
            }
        }
        self.lists.add(packed.trigrams.into_iter())?;
        self.text_bytes += u64::from(packed.text_bytes);
        packed.blocks.iter().try_for_each(|block| self.write(block))
    }

    /// Sets the entry of the large file whose chunks were added last.
    pub(crate) fn end_large_file(&mut self, entry: FileEntry) {
        if let Some(first) = self.open_file.take() {
            self.add_file_table(first, &[entry]);
            (first + 1..self.chunks.len()).for_each(|chunk| self.add_file_table(chunk, &[]));
        }
    }

    fn add_file_table(&mut self, chunk: usize, files: &[FileEntry]) {
        let begin = self.file_tables.len();
        file_entry::encode_entries(files, &mut self.file_tables);
        let table = &self.file_tables[begin..];
        let chunk = &mut self.chunks[chunk];
        chunk.files_begin = begin as u32;
        chunk.files_bytes = table.len() as u32;
        chunk.files_crc = checksum(table);
    }

    /// Whether the next chunk must go to another segment.
    pub(crate) fn is_full(&self) -> bool {
        self.text_bytes >= t::SEGMENT_BYTES_MAX || self.file_tables.len() >= t::SEGMENT_FILES_BYTES_MAX
    }

    pub(crate) fn text_bytes(&self) -> u64 {
        self.text_bytes
    }

    /// Writes all tables, with `threads` threads, and syncs the file. Returns the number of files and the size of the
    /// segment, bytes.
    pub(crate) fn finish(mut self, threads: usize) -> Result<(u32, u64)> {
        let mut header = Header {
            files: self.files,
            chunks: self.chunks.len() as u32,
            text_bytes: self.text_bytes,
            ..Header::default()
        };
        let file_tables = std::mem::take(&mut self.file_tables);
        header.file_tables = Section { crc: 0, ..self.section(&file_tables)? };
        header.lists.begin = self.at;
        let directory = self.lists.finish(header.chunks, threads, |part| {
            self.at += part.len() as u64;
            self.out.write_all(part).map_err(Error::io("write", &self.path))
        })?;
        header.lists.len_bytes = self.at - header.lists.begin;
        let mut table = Vec::new();
        for block in self.chunks.chunks(ChunkMeta::BLOCK as usize) {
            let begin = table.len();
            block.iter().for_each(|chunk| chunk.encode(&mut table));
            let crc = checksum(&table[begin..]);
            table.extend(crc.to_le_bytes());
        }
        header.table = Section { crc: 0, ..self.section(&table)? };
        let [large_files, long_lines] = [&self.large_files, &self.long_lines].map(packed);
        header.large_files = self.section(&large_files)?;
        header.long_lines = self.section(&long_lines)?;
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
