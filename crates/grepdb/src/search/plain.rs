//! Prints the matching lines of a stored file straight from its text.
//!
//! In: the text of one file, in pieces of whole lines. Out: lines, a count or a path in an output slot, as ripgrep's
//! printers write them without context and colours.
//!
//! It searches every line once: the first matching line of a chunk says which file to begin, and where. Counts and
//! paths format no line.

use std::io::{self, Write};
use std::ops::Range;
use std::sync::atomic::Ordering;

use crate::search::line_finder::LineFinder;
use crate::search::output::OutputSlot;
use crate::search::print::lines::LineFormat;
use crate::search::print::{FileOutcome, PlainFormat, Printer};
use crate::search::worker::Worker;
use crate::store::file_entry::{FileEntry, FileKind};

pub(crate) struct PlainFile {
    format: PlainFormat,
    /// The path as it is printed. A colon follows in lines and counts.
    path: Vec<u8>,
    matches: u64,
    /// Line ends before position `counted` of the current text.
    line_ends: u64,
    counted: usize,
}

impl PlainFile {
    /// The file of `entry`, if its lines can be printed straight from the text.
    pub(crate) fn of<W: Write + Send>(
        worker: &Worker<'_, W>,
        printer: &mut Printer<'_, W>,
        entry: &FileEntry,
    ) -> Option<Self> {
        let (format, _) = printer.plain().filter(|_| worker.is_plain && entry.kind == FileKind::Text)?;
        let path = (worker.state.search.display_path)(&entry.path);
        Some(Self { format, path, matches: 0, line_ends: 0, counted: 0 })
    }

    /// The same file in a chunk whose text has it at `begin`.
    pub(crate) fn begin_at(self, begin: usize) -> Self {
        Self { counted: begin, ..self }
    }

    /// Takes `found`, the first matching line, and searches the lines behind it up to `to`. Returns whether the rest of
    /// the file does not matter.
    pub(crate) fn search<W: Write + Send>(
        &mut self,
        worker: &Worker<'_, W>,
        out: &mut OutputSlot<'_, W>,
        lines: &LineFinder<'_>,
        found: Option<Range<usize>>,
        to: usize,
    ) -> bool {
        let mut next = found;
        while let Some(line) = next {
            self.matches += 1;
            let end = line.end;
            if let PlainFormat::Lines(format) = self.format {
                self.print(out.buffer(), format, &lines.text()[..to], line);
                if out.written().is_err() {
                    // The output has failed and keeps the reason. All workers stop.
                    worker.state.stop.store(true, Ordering::Relaxed);
                    return true;
                }
            }
            if self.needs_one_match() {
                return true;
            }
            next = lines.find(end, to);
        }
        false
    }

    fn print(&mut self, out: &mut Vec<u8>, format: LineFormat, text: &[u8], line: Range<usize>) {
        if format.number {
            if self.counted < line.start {
                self.line_ends += line_ends(&text[self.counted..line.start]);
            }
            self.line_ends += 1;
            self.counted = line.end;
        }
        // Memory takes any line.
        let _ = format.write(out, &self.path, Some(self.line_ends), &text[line]);
    }

    /// Whether line ends of text without a match have to be counted.
    pub(crate) fn counts_lines(&self) -> bool {
        matches!(self.format, PlainFormat::Lines(LineFormat { number: true, .. }))
    }

    /// Whether one match in the file is enough.
    pub(crate) fn needs_one_match(&self) -> bool {
        matches!(self.format, PlainFormat::Path | PlainFormat::Nothing)
    }

    /// Counts a match in a line that is not known as a whole.
    pub(crate) fn count_match(&mut self) {
        self.matches += 1;
    }

    /// Ends `text`. The file goes on with the next piece.
    pub(crate) fn next_piece(&mut self, text: &[u8]) {
        if self.counts_lines() && self.counted < text.len() {
            self.line_ends += line_ends(&text[self.counted..]);
        }
        self.counted = 0;
    }

    pub(crate) fn finish<W: Write>(self, out: &mut OutputSlot<'_, W>) -> io::Result<FileOutcome> {
        let matched = self.matches > 0;
        match self.format {
            _ if !matched => {}
            PlainFormat::Lines(_) | PlainFormat::Nothing => {}
            PlainFormat::Path => {
                out.write_all(&self.path)?;
                out.write_all(b"\n")?;
            }
            PlainFormat::Count { path: true } => {
                out.write_all(&self.path)?;
                writeln!(out, ":{}", self.matches)?;
            }
            PlainFormat::Count { path: false } => writeln!(out, "{}", self.matches)?,
        }
        Ok(FileOutcome { matched, stats: None })
    }
}

fn line_ends(text: &[u8]) -> u64 {
    memchr::memchr_iter(b'\n', text).count() as u64
}
