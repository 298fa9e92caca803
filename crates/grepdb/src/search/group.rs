//! The files that share a chunk.
//!
//! In: a chunk, and places in its text. Out: which file that is, and how much of the text has to be unpacked.
//!
//! What it does not do: read texts.

use std::ops::Range;

use crate::error::Result;
use crate::files::FileEntry;
use crate::grams::UNIT_BYTES;
use crate::segment::Segment;
use crate::tuning::{HALF_BYTES, UNITS};

/// The files of a chunk, read when they are asked for.
pub(super) struct Group<'s> {
    segment: &'s Segment,
    chunk: u32,
    known: Option<Known>,
}

/// Files, and where in the text they begin.
struct Known {
    entries: Vec<FileEntry>,
    begins: Vec<usize>,
}

/// Where the last unit that is wanted is one of the last of its chunk, all is unpacked: to ask where its files end costs as much.
const UNITS_SPARED_MIN: usize = 2;

impl<'s> Group<'s> {
    pub(super) fn new(segment: &'s Segment, chunk: u32) -> Self {
        Self { segment, chunk, known: None }
    }

    fn known(&mut self) -> Result<&Known> {
        let known = match self.known.take() {
            Some(known) => known,
            None => {
                let entries = self.segment.group(self.chunk)?;
                let mut next = 0;
                let begins = entries.iter().map(|entry| {
                    let begin = next;
                    next += entry.text_bytes as usize + usize::from(entry.ends_open);
                    begin
                });
                let begins = begins.collect();
                Known { entries, begins }
            }
        };
        Ok(self.known.insert(known))
    }

    /// The part of the text that holds all lines that begin in `units`: whole files.
    pub(super) fn span(&mut self, units: u16) -> Result<Range<usize>> {
        let all = self.segment.chunk(self.chunk)?.text_bytes as usize;
        let (first, last) = (units.trailing_zeros() as usize, UNITS - units.leading_zeros() as usize);
        // A unit's first line is known by the end of the one before.
        let (begin, end) = ((first * UNIT_BYTES).saturating_sub(1), last * UNIT_BYTES);
        let (spares_begin, spares_end) = (begin >= HALF_BYTES, last + UNITS_SPARED_MIN <= UNITS && end < all);
        if units == 0 || begin >= all || !spares_begin && !spares_end {
            return Ok(0..all);
        }
        let begins = &self.known()?.begins;
        // A line is in one file, and begins of files are those of lines.
        let at_or_before = begins.partition_point(|&file| file <= begin).saturating_sub(1);
        let next = begins.partition_point(|&file| file < end);
        Ok(begins.get(at_or_before).copied().unwrap_or(0)..begins.get(next).copied().unwrap_or(all))
    }

    /// The file whose text is `at`: its number, what is known of it, and its text.
    pub(super) fn at(&mut self, at: usize) -> Result<Option<(u32, &FileEntry, Range<usize>)>> {
        let first = self.segment.numbers(self.chunk)?.start;
        let Known { entries, begins } = self.known()?;
        let after = begins.partition_point(|&begin| begin <= at);
        // Of several that begin here all but the last are empty.
        let Some(number) = after.checked_sub(1) else { return Ok(None) };
        let span = begins[number]..begins[number] + entries[number].text_bytes as usize;
        let is_inside = span.end + usize::from(entries[number].ends_open) > at;
        Ok(is_inside.then(|| (first + number as u32, &entries[number], span)))
    }
}
