//! The files of a chunk, by their position in its text.
//!
//! In: a chunk, and positions. Out: the file at a position, and the span of text to decompress.
//!
//! It does not read texts.

use std::ops::Range;

use crate::error::Result;
use crate::index::trigram::SUBCHUNK_BYTES;
use crate::store::file_entry::FileEntry;
use crate::store::segment::Segment;
use crate::tuning::{HALF_BYTES, SUBCHUNKS};

/// The files of a chunk, read on first use.
pub(super) struct ChunkFiles<'s> {
    segment: &'s Segment,
    chunk: u32,
    known: Option<LoadedFiles>,
}

/// Entries, and the positions of their texts.
struct LoadedFiles {
    entries: Vec<FileEntry>,
    begins: Vec<usize>,
}

/// If fewer subchunks than this follow the last candidate, the chunk is decompressed to its end. Reading the file
/// table would cost as much.
const SPARED_SUBCHUNKS_MIN: usize = 2;

impl<'s> ChunkFiles<'s> {
    pub(super) fn new(segment: &'s Segment, chunk: u32) -> Self {
        Self { segment, chunk, known: None }
    }

    fn known(&mut self) -> Result<&LoadedFiles> {
        let known = match self.known.take() {
            Some(known) => known,
            None => {
                let entries = self.segment.files_of_chunk(self.chunk)?;
                let mut next = 0;
                let begins = entries.iter().map(|entry| {
                    let begin = next;
                    next += entry.text_bytes as usize + usize::from(entry.ends_open);
                    begin
                });
                let begins = begins.collect();
                LoadedFiles { entries, begins }
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
        let begins = &self.known()?.begins;
        // A line lies in one file, and a file begins with a line. So whole files contain whole lines.
        let at_or_before = begins.partition_point(|&file| file <= begin).saturating_sub(1);
        let next = begins.partition_point(|&file| file < end);
        Ok(begins.get(at_or_before).copied().unwrap_or(0)..begins.get(next).copied().unwrap_or(all))
    }

    /// The file at position `at`: number, entry, and span of its text.
    pub(super) fn at(&mut self, at: usize) -> Result<Option<(u32, &FileEntry, Range<usize>)>> {
        let first = self.segment.file_numbers(self.chunk)?.start;
        let LoadedFiles { entries, begins } = self.known()?;
        let after = begins.partition_point(|&begin| begin <= at);
        // Of several files that begin here, only the last is not empty.
        let Some(number) = after.checked_sub(1) else { return Ok(None) };
        let span = begins[number]..begins[number] + entries[number].text_bytes as usize;
        let is_inside = span.end + usize::from(entries[number].ends_open) > at;
        Ok(is_inside.then(|| (first + number as u32, &entries[number], span)))
    }
}
