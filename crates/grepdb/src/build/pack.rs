//! Files -> packed chunks.
//!
//! In: the files of one job. Out: one chunk, or those of a large file; with what became of each file.
//!
//! What it does not do: write, or know of other jobs.

use std::io::{ErrorKind, Read};
use std::path::Path;

use crate::content::{BINARY_WITHIN_BYTES, Content};
use crate::files::{FileEntry, Kind};
use crate::grams::Finder;
use crate::segment::Packed;
use crate::text::Packer;
use crate::tuning::{CHUNK_BYTES, HALF_BYTES, HALVES};
use crate::walk::{Found, full};

/// Most text that is read at once: with a line end it is a chunk.
const PIECE_BYTES: usize = CHUNK_BYTES - 1;

/// Least room that is offered to a read.
const READ_BYTES_MIN: usize = 1 << 10;

/// Packs the files of one thread. Holds some MiB.
pub(super) struct ChunkPacker<'a> {
    root: &'a Path,
    finder: Finder,
    packer: Packer<'a>,
    text: Vec<u8>,
    piece: Vec<u8>,
    files: Vec<FileEntry>,
    done: Vec<Packed>,
}

impl<'a> ChunkPacker<'a> {
    /// # Errors
    /// No memory.
    pub(super) fn new(root: &'a Path, dictionary: &'a [u8]) -> std::io::Result<Self> {
        Ok(Self {
            root,
            finder: Finder::new(),
            packer: Packer::new(dictionary)?,
            text: Vec::with_capacity(CHUNK_BYTES),
            piece: Vec::with_capacity(CHUNK_BYTES),
            files: Vec::new(),
            done: Vec::new(),
        })
    }

    /// The chunks of `files`.
    ///
    /// # Errors
    /// The compression fails; of a file that can't be read the entry says so.
    pub(super) fn pack(&mut self, files: &[Found]) -> std::io::Result<Vec<Packed>> {
        for file in files {
            let mut entry = FileEntry {
                path: file.path.clone(),
                size_bytes: file.size_bytes,
                mtime_ns: file.mtime_ns,
                kind: Kind::Unreadable,
                text_bytes: 0,
                ends_open: false,
            };
            self.piece.clear();
            let content = Content::open(&full(self.root, &file.path));
            let expected_bytes = usize::try_from(file.size_bytes).unwrap_or(PIECE_BYTES);
            let begun =
                content.and_then(|mut content| self.read(&mut content, expected_bytes).map(|()| content));
            let is_noted = match begun {
                Ok(content) => self.take(&mut entry, content)?,
                Err(_) => false,
            };
            if !is_noted {
                self.files.push(entry);
            }
        }
        self.end_chunk(false, false)?;
        Ok(std::mem::take(&mut self.done))
    }

    /// Fills the rest of the piece from a file of which so many bytes are expected.
    fn read(&mut self, content: &mut Content, expected_bytes: usize) -> std::io::Result<()> {
        loop {
            let len = self.piece.len();
            // One byte more tells whether that was all.
            let wanted = (expected_bytes.saturating_sub(len) + 1).max(READ_BYTES_MIN).min(PIECE_BYTES - len);
            self.piece.resize(len + wanted, 0);
            let read = content.read(&mut self.piece[len..]);
            self.piece.truncate(len + read.as_ref().map_or(0, |&read| read));
            match read {
                // There is no more, or no room for more.
                Ok(0) => return Ok(()),
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Takes a file of which the first piece has been read. Whether its entry has been kept as well.
    fn take(&mut self, entry: &mut FileEntry, content: Content) -> std::io::Result<bool> {
        let first = &self.piece[..self.piece.len().min(BINARY_WITHIN_BYTES)];
        if memchr::memchr(0, first).is_some() {
            entry.kind = Kind::Binary;
            return Ok(false);
        }
        entry.kind = Kind::Text;
        if self.piece.len() == PIECE_BYTES {
            return self.take_large(entry, content);
        }
        self.take_small(entry)?;
        Ok(false)
    }

    fn take_small(&mut self, entry: &mut FileEntry) -> std::io::Result<()> {
        if self.text.len() + self.piece.len() >= CHUNK_BYTES {
            self.end_chunk(false, false)?;
        }
        self.note(entry);
        entry.ends_open = self.piece.last().is_some_and(|&last| last != b'\n');
        self.text.append(&mut self.piece);
        if entry.ends_open {
            self.text.push(b'\n');
        }
        Ok(())
    }

    /// Every piece is a chunk; the first keeps the file's entry.
    fn take_large(&mut self, entry: &mut FileEntry, mut content: Content) -> std::io::Result<bool> {
        self.end_chunk(false, false)?;
        let first = self.done.len();
        let mut cut_before = false;
        loop {
            let is_last = self.piece.len() < PIECE_BYTES;
            let line_end = memchr::memrchr(b'\n', &self.piece).map(|at| at + 1);
            let len = if is_last { self.piece.len() } else { line_end.unwrap_or(self.piece.len()) };
            let cuts = !is_last && line_end.is_none();
            let rest = self.piece.split_off(len);
            self.note(entry);
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
            if self.read(&mut content, PIECE_BYTES).is_err() {
                // What was read of it is no file.
                self.done.truncate(first);
                (entry.kind, entry.text_bytes, entry.ends_open) = (Kind::Unreadable, 0, false);
                return Ok(false);
            }
        }
        self.done[first].files.push(entry.clone());
        Ok(true)
    }

    fn note(&self, entry: &mut FileEntry) {
        if memchr::memchr(0, &self.piece).is_some() {
            entry.kind = Kind::LateBinary;
        }
        entry.text_bytes += self.piece.len() as u64;
    }

    /// What has come together is a chunk.
    fn end_chunk(&mut self, continues: bool, cuts_line: bool) -> std::io::Result<()> {
        if self.text.is_empty() && self.files.is_empty() {
            return Ok(());
        }
        let mut blocks = <[Vec<u8>; HALVES]>::default();
        for (half, block) in self.text.chunks(HALF_BYTES).zip(&mut blocks) {
            block.reserve(half.len() / 3);
            self.packer.pack(half, block)?;
        }
        self.done.push(Packed {
            blocks,
            text_bytes: self.text.len() as u32,
            files: std::mem::take(&mut self.files),
            grams: self.finder.find(&self.text),
            continues,
            cuts_line,
        });
        self.text.clear();
        Ok(())
    }
}
