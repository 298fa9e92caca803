//! The files of a chunk, by their position in its text.
//!
//! In: a chunk, its candidate subchunks, and positions. Out: the span of text to decompress, and the file at a
//! position.
//!
//! It does not decompress.

use std::ops::Range;

use crate::error::Result;
use crate::index::trigram::SUBCHUNK_BYTES;
use crate::store::file_entry::FileEntry;
use crate::store::segment::Segment;
use crate::tuning::{HALF_BYTES, SUBCHUNKS};

/// If fewer subchunks than this follow the last candidate, the chunk is decompressed to its end. Reading the file
/// table would cost as much.
const SPARED_SUBCHUNKS_MIN: usize = 2;

/// The files of a chunk, read on first use.
pub(super) struct ChunkFiles<'s> {
    segment: &'s Segment,
    chunk: u32,
    /// Each file with its number and the begin of its text.
    known: Option<Vec<(u32, FileEntry, usize)>>,
}

impl<'s> ChunkFiles<'s> {
    pub(super) fn new(segment: &'s Segment, chunk: u32) -> Self {
        Self { segment, chunk, known: None }
    }

    fn known(&mut self) -> Result<&[(u32, FileEntry, usize)]> {
        let known = match self.known.take() {
            Some(known) => known,
            None => {
                let numbers = self.segment.file_numbers(self.chunk)?;
                let mut next = 0;
                let files = numbers.zip(self.segment.files_of_chunk(self.chunk)?).map(|(number, entry)| {
                    let begin = next;
                    next += entry.text_bytes as usize + usize::from(entry.ends_open);
                    (number, entry, begin)
                });
                files.collect()
            }
        };
        Ok(self.known.insert(known))
    }

    /// The span of whole files that contains every line which begins in the subchunks of `mask`.
    pub(super) fn span(&mut self, mask: u16) -> Result<Range<usize>> {
        let all = self.segment.chunk_meta(self.chunk)?.text_bytes as usize;
        let (first, last) = (mask.trailing_zeros() as usize, SUBCHUNKS - mask.leading_zeros() as usize);
        // Whether a line begins at `first` shows in the byte before it.
        let (begin, end) = ((first * SUBCHUNK_BYTES).saturating_sub(1), last * SUBCHUNK_BYTES);
        let (spares_begin, spares_end) =
            (begin >= HALF_BYTES, last + SPARED_SUBCHUNKS_MIN <= SUBCHUNKS && end < all);
        if mask == 0 || begin >= all || !spares_begin && !spares_end {
            return Ok(0..all);
        }
        let files = self.known()?;
        // A line lies in one file, and a file begins with a line. So whole files contain whole lines.
        let at_or_before = files.partition_point(|&(.., file)| file <= begin).saturating_sub(1);
        let next = files.partition_point(|&(.., file)| file < end);
        let begin_of = |at: usize| files.get(at).map(|&(.., begin)| begin);
        Ok(begin_of(at_or_before).unwrap_or(0)..begin_of(next).unwrap_or(all))
    }

    /// The file at position `at`: number, entry, and span of its text.
    pub(super) fn at(&mut self, at: usize) -> Result<Option<(u32, &FileEntry, Range<usize>)>> {
        let files = self.known()?;
        // Of several files that begin here, only the last is not empty.
        let last = files.partition_point(|&(.., begin)| begin <= at).checked_sub(1);
        Ok(last.and_then(|last| {
            let (number, entry, begin) = &files[last];
            let span = *begin..begin + entry.text_bytes as usize;
            let is_inside = span.end + usize::from(entry.ends_open) > at;
            is_inside.then_some((*number, entry, span))
        }))
    }
}
