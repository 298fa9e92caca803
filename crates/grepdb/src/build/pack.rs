//! Files -> packed chunks.
//!
//! In: the files of one job. Out: one chunk, or all chunks of a large file, with file entries.
//!
//! It does not write, or know of other jobs.

use std::io::{ErrorKind, Read};
use std::path::Path;

use crate::index::trigram::TrigramExtractor;
use crate::path::disk_path;
use crate::store::compression::Compressor;
use crate::store::file_entry::{FileEntry, FileKind};
use crate::store::segment::PackedChunk;
use crate::tree::content::{BINARY_PREFIX_BYTES, TextReader};
use crate::tree::walk::TreeFile;
use crate::tuning::{CHUNK_BYTES, HALF_BYTES, HALVES};

/// Size of a piece, bytes. With a line end it fills a chunk.
const PIECE_BYTES: usize = CHUNK_BYTES - 1;

/// Minimum buffer for a read.
const READ_BYTES_MIN: usize = 1 << 10;

/// Packs the files of one thread. Holds some MiB.
pub(crate) struct ChunkPacker<'a> {
    root: &'a Path,
    extractor: TrigramExtractor,
    compressor: Compressor<'a>,
    text: Vec<u8>,
    piece: Vec<u8>,
    files: Vec<FileEntry>,
    done: Vec<PackedChunk>,
}

impl<'a> ChunkPacker<'a> {
    /// # Errors
    /// Out of memory.
    pub(crate) fn new(root: &'a Path, dictionary: &'a [u8]) -> std::io::Result<Self> {
        Ok(Self {
            root,
            extractor: TrigramExtractor::new(),
            compressor: Compressor::new(dictionary)?,
            text: Vec::with_capacity(CHUNK_BYTES),
            piece: Vec::with_capacity(CHUNK_BYTES),
            files: Vec::new(),
            done: Vec::new(),
        })
    }

    /// The chunks of `files`.
    ///
    /// # Errors
    /// The compression fails. A file that can't be read is no error: its entry says so.
    pub(crate) fn pack(&mut self, files: &[TreeFile]) -> std::io::Result<Vec<PackedChunk>> {
        for file in files {
            let mut entry = FileEntry {
                path: file.path.clone(),
                size_bytes: file.size_bytes,
                mtime_ns: file.mtime_ns,
                kind: FileKind::Unreadable,
                text_bytes: 0,
                ends_open: false,
            };
            self.piece.clear();
            let reader = TextReader::open(&disk_path(self.root, &file.path));
            let expected_bytes = usize::try_from(file.size_bytes).unwrap_or(PIECE_BYTES);
            let first_piece =
                reader.and_then(|mut reader| self.read(&mut reader, expected_bytes).map(|()| reader));
            let is_recorded = match first_piece {
                Ok(reader) => self.take(&mut entry, reader)?,
                Err(_) => false,
            };
            if !is_recorded {
                self.files.push(entry);
            }
        }
        self.end_chunk(false, false)?;
        Ok(std::mem::take(&mut self.done))
    }

    /// Fills `piece` from a file of about `expected_bytes`.
    fn read(&mut self, reader: &mut TextReader, expected_bytes: usize) -> std::io::Result<()> {
        loop {
            let len = self.piece.len();
            // One byte more than expected: the read that returns it shows that the file has grown.
            let wanted = (expected_bytes.saturating_sub(len) + 1).max(READ_BYTES_MIN).min(PIECE_BYTES - len);
            self.piece.resize(len + wanted, 0);
            let read = reader.read(&mut self.piece[len..]);
            self.piece.truncate(len + read.as_ref().map_or(0, |&read| read));
            match read {
                // End of the file, or of the buffer.
                Ok(0) => return Ok(()),
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Takes a file whose first piece has been read. Returns whether a chunk has its entry already.
    fn take(&mut self, entry: &mut FileEntry, reader: TextReader) -> std::io::Result<bool> {
        let first = &self.piece[..self.piece.len().min(BINARY_PREFIX_BYTES)];
        if memchr::memchr(0, first).is_some() {
            entry.kind = FileKind::Binary;
            return Ok(false);
        }
        entry.kind = FileKind::Text;
        if self.piece.len() == PIECE_BYTES {
            return self.take_large(entry, reader);
        }
        self.take_small(entry)?;
        Ok(false)
    }

    fn take_small(&mut self, entry: &mut FileEntry) -> std::io::Result<()> {
        if self.text.len() + self.piece.len() >= CHUNK_BYTES {
            self.end_chunk(false, false)?;
        }
        self.count_piece(entry);
        entry.ends_open = self.piece.last().is_some_and(|&last| last != b'\n');
        self.text.append(&mut self.piece);
        if entry.ends_open {
            self.text.push(b'\n');
        }
        Ok(())
    }

    /// Makes a chunk of every piece. The first one gets the entry of the file.
    fn take_large(&mut self, entry: &mut FileEntry, mut reader: TextReader) -> std::io::Result<bool> {
        self.end_chunk(false, false)?;
        let first = self.done.len();
        let mut cut_before = false;
        loop {
            let is_last = self.piece.len() < PIECE_BYTES;
            let line_end = memchr::memrchr(b'\n', &self.piece).map(|at| at + 1);
            let len = if is_last { self.piece.len() } else { line_end.unwrap_or(self.piece.len()) };
            let cuts = !is_last && line_end.is_none();
            let rest = self.piece.split_off(len);
            self.count_piece(entry);
            self.text.append(&mut self.piece);
            self.piece = rest;
            entry.ends_open = is_last && self.text.last().is_some_and(|&last| last != b'\n');
            if entry.ends_open {
                self.text.push(b'\n');
            }
            let continues = self.done.len() > first;
            self.end_chunk(continues, cuts || cut_before)?;
            cut_before = cuts;
            if is_last {
                break;
            }
            if self.read(&mut reader, PIECE_BYTES).is_err() {
                // Half a file is no file.
                self.done.truncate(first);
                (entry.kind, entry.text_bytes, entry.ends_open) = (FileKind::Unreadable, 0, false);
                return Ok(false);
            }
        }
        self.done[first].files.push(entry.clone());
        Ok(true)
    }

    fn count_piece(&self, entry: &mut FileEntry) {
        if memchr::memchr(0, &self.piece).is_some() {
            entry.kind = FileKind::LateBinary;
        }
        entry.text_bytes += self.piece.len() as u64;
    }

    /// Packs the text so far into a chunk.
    fn end_chunk(&mut self, continues: bool, cuts_line: bool) -> std::io::Result<()> {
        if self.text.is_empty() && self.files.is_empty() {
            return Ok(());
        }
        let mut blocks = <[Vec<u8>; HALVES]>::default();
        for (half, block) in self.text.chunks(HALF_BYTES).zip(&mut blocks) {
            block.reserve(half.len() / 3);
            self.compressor.compress(half, block)?;
        }
        self.done.push(PackedChunk {
            blocks,
            text_bytes: self.text.len() as u32,
            files: std::mem::take(&mut self.files),
            trigrams: self.extractor.extract(&self.text),
            continues,
            cuts_line,
        });
        self.text.clear();
        Ok(())
    }
}
