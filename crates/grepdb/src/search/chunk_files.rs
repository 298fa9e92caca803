//! The files of a chunk, by their position in its text.
//!
//! In: a chunk, its candidate subchunks, and positions. Out: the span of text to decompress, and the file at a
//! position. Where few files are candidates, their bytes on disk are read instead.
//!
//! It does not decompress.

use std::ops::Range;
use std::sync::atomic::Ordering;

use faultless_os::file::read_cached;

use crate::error::Result;
use crate::index::trigram::SUBCHUNK_BYTES;
use crate::search::block_source::TextBlock;
use crate::search::staleness::open_as_known;
use crate::search::state::SearchState;
use crate::store::file_entry::FileEntry;
use crate::store::segment::Segment;
use crate::tree::content::has_mark;
use crate::tuning::{FILE_READ_BYTES, FILE_READ_PART, HALF_BYTES, SUBCHUNKS};

/// The files of a chunk, read on first use.
pub(super) struct ChunkFiles<'s> {
    segment: &'s Segment,
    chunk: u32,
    known: Option<LoadedFiles>,
}

/// Entries with their numbers, and the positions of their texts.
pub(super) struct LoadedFiles {
    entries: Vec<(u32, FileEntry)>,
    begins: Vec<usize>,
}

impl LoadedFiles {
    /// Files one behind the other.
    fn new(entries: Vec<(u32, FileEntry)>) -> Self {
        let mut next = 0;
        let begins = entries.iter().map(|(_, entry)| {
            let begin = next;
            next += len_bytes(entry);
            begin
        });
        let begins = begins.collect();
        Self { entries, begins }
    }

    /// Length of their texts.
    fn len_bytes(&self) -> usize {
        self.entries.iter().map(|(_, entry)| len_bytes(entry)).sum()
    }
}

/// Length of the text of a file in its chunk, with the line end that the database adds.
fn len_bytes(entry: &FileEntry) -> usize {
    entry.text_bytes as usize + usize::from(entry.ends_open)
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
                let numbers = self.segment.file_numbers(self.chunk)?;
                LoadedFiles::new(numbers.zip(self.segment.files_of_chunk(self.chunk)?).collect())
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

    /// The files that hold the subchunks of `mask`, if they are so few that reading them is quicker than decompression.
    pub(super) fn few(
        &mut self,
        mask: u16,
        is_wanted: impl Fn(u32, &FileEntry) -> bool,
    ) -> Result<Option<LoadedFiles>> {
        let span = self.span(mask)?;
        let spared_bytes = span.end - span.start / HALF_BYTES * HALF_BYTES;
        let LoadedFiles { entries, begins } = self.known()?;
        let is_candidate = |begin: usize, len: usize| {
            let [first, last] = [begin, begin + len - 1].map(|at| (at / SUBCHUNK_BYTES).min(SUBCHUNKS - 1));
            mask >> first & ((2 << (last - first)) - 1) as u16 != 0
        };
        let few = entries.iter().zip(begins).filter(|((number, entry), begin)| {
            let len = entry.text_bytes as usize;
            len > 0 && is_candidate(**begin, len) && is_wanted(*number, entry)
        });
        let few = LoadedFiles::new(few.map(|(file, _)| file.clone()).collect());
        let cost_bytes = few.entries.len() * FILE_READ_BYTES + few.len_bytes() / FILE_READ_PART;
        Ok((cost_bytes <= spared_bytes).then_some(few))
    }

    /// The texts of `few`, read from disk, if the page cache holds them and they are as the database knows them. The
    /// chunk consists of these files from then on.
    pub(super) fn read<W>(&mut self, few: LoadedFiles, state: &SearchState<'_, W>) -> Option<TextBlock> {
        let len = few.len_bytes();
        let mut text = state.search.block_source.block(len);
        for ((_, entry), &begin) in few.entries.iter().zip(&few.begins) {
            let end = begin + entry.text_bytes as usize;
            let file = open_as_known(&state.database.location, entry)?;
            if !read_cached(&file, &mut text[begin..end], 0) || has_mark(&text[begin..end]) {
                return None;
            }
            text[end..end + usize::from(entry.ends_open)].fill(b'\n');
        }
        state.text_bytes.fetch_add(len as u64, Ordering::Relaxed);
        self.known = Some(few);
        Some(text)
    }

    /// The file at position `at`: number, entry, and span of its text.
    pub(super) fn at(&mut self, at: usize) -> Result<Option<(u32, &FileEntry, Range<usize>)>> {
        let LoadedFiles { entries, begins } = self.known()?;
        let after = begins.partition_point(|&begin| begin <= at);
        // Of several files that begin here, only the last is not empty.
        let Some(last) = after.checked_sub(1) else { return Ok(None) };
        let (number, entry) = &entries[last];
        let span = begins[last]..begins[last] + entry.text_bytes as usize;
        let is_inside = span.end + usize::from(entry.ends_open) > at;
        Ok(is_inside.then_some((*number, entry, span)))
    }
}
