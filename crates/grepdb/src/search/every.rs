//! A chunk of which every file is looked at, for files or lines without a match are of interest.
//!
//! In: a chunk. Out: what the printers make of its files, the empty ones too.
//!
//! What it does not do: large files.

use std::io::Write;

use super::Item;
use super::run::Worker;
use crate::error::{Error, Result};
use crate::order::Piece;

impl<W: Write + Send> Worker<'_, W> {
    pub(super) fn every(&mut self, item: &Item, piece: Piece<'_, W>) -> Result<()> {
        let segment = &self.shared.database.segments[item.segment as usize];
        let read = segment.group(item.first).and_then(|entries| {
            Ok((entries, segment.numbers(item.first)?, self.unpacked(segment, item.first)?))
        });
        let (entries, numbers, block) = match read {
            Err(damage @ Error::Damaged { .. }) => return self.lost(item, piece, damage),
            read => read?,
        };
        let text = block.text();
        let search = self.shared.search;
        let mut printer = search.printing.printer(piece, search.color);
        let mut begin = 0;
        for (number, entry) in numbers.zip(&entries) {
            let end = begin + entry.text_bytes as usize;
            if self.is_wanted(item, number, entry) {
                self.file(&mut printer, entry, &text[begin..end])?;
            }
            begin = end + usize::from(entry.ends_open);
        }
        Ok(())
    }
}
