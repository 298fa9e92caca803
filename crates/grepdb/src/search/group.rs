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
use crate::tuning::UNITS;

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

    /// How much of the text holds all lines that begin in `units`, and their files whole.
    pub(super) fn text_until(&mut self, units: u16) -> Result<usize> {
        let all = self.segment.chunk(self.chunk)?.text_bytes as usize;
        let units = UNITS - units.leading_zeros() as usize;
        if units + UNITS_SPARED_MIN > UNITS || units * UNIT_BYTES >= all {
            return Ok(all);
        }
        let begins = &self.known()?.begins;
        // A line is in one file, and begins of files are those of lines.
        let next = begins.partition_point(|&begin| begin < units * UNIT_BYTES);
        Ok(begins.get(next).copied().unwrap_or(all))
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
