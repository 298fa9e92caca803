//! Files -> the texts of chunks.
//!
//! In: the files of one job. Out: the text of each chunk, in order, with file entries. Small files share a chunk. A
//! larger file is cut into pieces at line ends. Its entry follows after its last piece.
//!
//! It holds one chunk and one piece of a file in memory. It does not pack (`pack`), or know of other jobs.

use std::io::{ErrorKind, Read, Result};
use std::ops::ControlFlow;
use std::path::Path;

use crate::path::disk_path;
use crate::store::file_entry::{FileEntry, FileKind};
use crate::store::segment::{ChunkContent, PartBegin};
use crate::tree::content::{BINARY_PREFIX_BYTES, TextReader};
use crate::tree::walk::TreeFile;
use crate::tuning::CHUNK_BYTES;

/// Size of a piece, bytes. With a line end it fills a chunk.
const PIECE_BYTES: usize = CHUNK_BYTES - 1;

const READ_BYTES_MIN: usize = 1 << 10;

pub(crate) type OpenFile<'a> = &'a (dyn Fn(&Path) -> Result<TextReader> + Sync);

/// What the cutter hands over.
pub(crate) enum Cut<'a> {
    /// A chunk. The text may be taken.
    Chunk(&'a mut Vec<u8>, ChunkContent),
    /// All chunks of a large file were handed over.
    LargeFileEnd(FileEntry),
    /// A large file can't be read further, but chunks of it were handed over. Holds its index.
    ReadError(usize),
}

pub(crate) struct FileCutter<'a> {
    root: &'a Path,
    open: OpenFile<'a>,
    text: Vec<u8>,
    /// Entries of the files in it.
    files: Vec<FileEntry>,
    /// Text of a file that was read, but is in no chunk yet.
    piece: Vec<u8>,
}

impl<'a> FileCutter<'a> {
    pub(crate) fn new(root: &'a Path, open: OpenFile<'a>) -> Self {
        Self { root, open, text: Vec::new(), files: Vec::new(), piece: Vec::new() }
    }

    /// Hands the chunks of `files`, which come with their indexes, to `each`. It does not open a file for which
    /// `is_unreadable` holds. A file that can't be read is no error: its entry says so. A break of `each` ends the work.
    pub(crate) fn cut<'f>(
        &mut self,
        files: impl IntoIterator<Item = (usize, &'f TreeFile)>,
        is_unreadable: impl Fn(usize) -> bool,
        each: &mut impl FnMut(Cut<'_>) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        for (at, file) in files {
            let mut entry = FileEntry {
                path: file.path.clone(),
                size_bytes: file.size_bytes,
                mtime_ns: file.mtime_ns,
                kind: FileKind::Unreadable,
                ..FileEntry::default()
            };
            self.piece.clear();
            let reader = if is_unreadable(at) { None } else { self.begin(file).ok() };
            if let Some(mut reader) = reader {
                let first = &self.piece[..self.piece.len().min(BINARY_PREFIX_BYTES)];
                if memchr::memchr(0, first).is_some() {
                    entry.kind = FileKind::Binary;
                } else if self.piece.len() < PIECE_BYTES {
                    self.take_small(&mut entry, each)?;
                } else if self.take_large(&mut entry, &mut reader, each)?.is_ok() {
                    each(Cut::LargeFileEnd(entry))?;
                    continue;
                } else {
                    return each(Cut::ReadError(at));
                }
            }
            self.files.push(entry);
        }
        self.end_chunk(each)
    }

    fn begin(&mut self, file: &TreeFile) -> Result<TextReader> {
        let mut reader = (self.open)(&disk_path(self.root, &file.path))?;
        self.read(&mut reader, usize::try_from(file.size_bytes).unwrap_or(PIECE_BYTES))?;
        Ok(reader)
    }

    /// Fills `piece` from a file of about `expected_bytes`.
    fn read(&mut self, reader: &mut TextReader, expected_bytes: usize) -> Result<()> {
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

    fn take_small(
        &mut self,
        entry: &mut FileEntry,
        each: &mut impl FnMut(Cut<'_>) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        if self.text.len() + self.piece.len() >= CHUNK_BYTES {
            self.end_chunk(each)?;
        }
        entry.kind = FileKind::Text;
        count_text(entry, &self.piece);
        entry.ends_open = self.piece.last().is_some_and(|&last| last != b'\n');
        self.text.append(&mut self.piece);
        if entry.ends_open {
            self.text.push(b'\n');
        }
        ControlFlow::Continue(())
    }

    /// Makes a chunk of every piece. Returns the error of a read.
    fn take_large(
        &mut self,
        entry: &mut FileEntry,
        reader: &mut TextReader,
        each: &mut impl FnMut(Cut<'_>) -> ControlFlow<()>,
    ) -> ControlFlow<(), Result<()>> {
        self.end_chunk(each)?;
        entry.kind = FileKind::Text;
        let mut begin = None;
        loop {
            let is_last = self.piece.len() < PIECE_BYTES;
            let line_end = memchr::memrchr(b'\n', &self.piece).map(|at| at + 1);
            let len = if is_last { self.piece.len() } else { line_end.unwrap_or(self.piece.len()) };
            std::mem::swap(&mut self.text, &mut self.piece);
            self.piece.clear();
            self.piece.extend_from_slice(&self.text[len..]);
            self.text.truncate(len);
            count_text(entry, &self.text);
            entry.ends_open = is_last && self.text.last().is_some_and(|&last| last != b'\n');
            if entry.ends_open {
                self.text.push(b'\n');
            }
            if !self.text.is_empty() {
                let content = begin.map_or(ChunkContent::LargeFile, ChunkContent::LargeFilePart);
                // A piece without a line end has room for more than one byte.
                begin = Some(match self.text[..] {
                    [.., b'\n'] | [_] | [] => PartBegin::Line,
                    [.., before, last] => PartBegin::Within([before, last]),
                });
                each(Cut::Chunk(&mut self.text, content))?;
                self.text.clear();
            }
            if is_last {
                return ControlFlow::Continue(Ok(()));
            }
            if let Err(error) = self.read(reader, PIECE_BYTES) {
                return ControlFlow::Continue(Err(error));
            }
        }
    }

    /// Hands over the chunk of the files so far, if there are any.
    fn end_chunk(&mut self, each: &mut impl FnMut(Cut<'_>) -> ControlFlow<()>) -> ControlFlow<()> {
        if !self.files.is_empty() {
            let content = ChunkContent::Files(std::mem::take(&mut self.files));
            each(Cut::Chunk(&mut self.text, content))?;
            self.text.clear();
        }
        ControlFlow::Continue(())
    }
}

fn count_text(entry: &mut FileEntry, text: &[u8]) {
    if memchr::memchr(0, text).is_some() {
        entry.kind = FileKind::LateBinary;
    }
    entry.text_bytes += text.len() as u64;
}

/// For each chunk of `files` the length of its text, and the entries of the files that begin in it.
#[cfg(test)]
pub(crate) fn chunks(root: &Path, files: &[TreeFile]) -> Vec<(usize, Vec<FileEntry>)> {
    let mut chunks: Vec<(usize, Vec<FileEntry>)> = Vec::new();
    let mut large = 0;
    let _ = FileCutter::new(root, &crate::tree::content::open_text).cut(
        files.iter().enumerate(),
        |_| false,
        &mut |cut| {
            match cut {
                Cut::Chunk(text, ChunkContent::Files(files)) => chunks.push((text.len(), files)),
                Cut::Chunk(text, content) => {
                    if content == ChunkContent::LargeFile {
                        large = chunks.len();
                    }
                    chunks.push((text.len(), Vec::new()));
                }
                Cut::LargeFileEnd(entry) => chunks[large].1.push(entry),
                Cut::ReadError(at) => panic!("file {at} can't be read"),
            }
            ControlFlow::Continue(())
        },
    );
    chunks
}
