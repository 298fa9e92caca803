//! One worker: chunk after chunk.
//!
//! In: what all share. Out: matches, printed into pieces of the output.
//!
//! What it does not do: choose chunks.

use std::ffi::OsStr;
use std::io::{self, Read, Write};
use std::ops::Range;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::PoisonError;
use std::sync::atomic::Ordering;

use grep_matcher::{LineMatchKind, Matcher};
use grep_searcher::Searcher;

use super::group::Group;
use super::{Item, Shared, Work, lost};
use crate::content::Content;
use crate::error::{Error, Result};
use crate::files::{FileEntry, Kind};
use crate::grams::UNIT_BYTES;
use crate::memory::Block;
use crate::order::Piece;
use crate::print::{Found, Printer, Text};
use crate::segment::{Run, Segment, Unpacked};
use crate::sequence::{Counted, Rarest};
use crate::tuning as t;
use crate::tuning::{HALF_BYTES, UNITS};

pub(super) struct Worker<'a, W> {
    pub(super) shared: &'a Shared<'a, W>,
    /// For texts that are there as a whole: it has no buffer.
    searcher: Searcher,
    /// For files on disk.
    pub(super) live: Option<Searcher>,
    /// Lines without a match need not be told apart by file.
    skips: bool,
    /// What to look for before the pattern; chosen by the texts seen so far, of which there were so many.
    rarest: Option<Rarest<'a>>,
    counted: Counted<'a>,
    texts: usize,
}

impl<'a, W: Write + Send> Worker<'a, W> {
    pub(super) fn new(shared: &'a Shared<'a, W>) -> Self {
        let searcher = shared.search.searcher.clone().bom_sniffing(false).heap_limit(Some(1)).build();
        // With line ends of two bytes a text may match behind a last \r, which is no line end before the \n that the database adds.
        let skips = !searcher.invert_match()
            && !searcher.line_terminator().is_crlf()
            && !shared.search.every_file
            && !searcher.passthru()
            && !searcher.multi_line_with_matcher(shared.search.matcher)
            && shared.search.matcher.line_terminator() == Some(searcher.line_terminator());
        Self {
            shared,
            searcher,
            live: None,
            skips,
            rarest: None,
            counted: shared.search.needs.sequences.counted(),
            texts: 0,
        }
    }

    pub(super) fn run(mut self) {
        // Who has taken a number begins its piece, for others wait for it.
        while !self.shared.stop.load(Ordering::Relaxed) && !self.shared.order.has_failed() {
            let number = self.shared.next.fetch_add(1, Ordering::Relaxed);
            let result = match self.shared.works.get(number) {
                Some(Work::Stored(item)) => {
                    let piece = self.shared.order.piece(number);
                    match self.shared.database.segments[item.segment as usize].large(item.first) {
                        Some(run) => self.large(item, run, piece),
                        None if self.skips => self.chunk(item, piece),
                        None => self.every(item, piece),
                    }
                }
                Some(Work::Live(live)) => self.live(live, self.shared.order.piece(number)),
                None => {
                    let Some((live, piece)) = self.shared.next_live() else { break };
                    self.live(&live, piece)
                }
            };
            if let Err(error) = result {
                self.shared.trouble(error);
            }
        }
    }

    /// Files that share a chunk.
    fn chunk(&mut self, item: &Item, piece: Piece<'_, W>) -> Result<()> {
        let segment = &self.shared.database.segments[item.segment as usize];
        let mut files = Group::new(segment, item.first);
        let units = self.shared.units(item.segment, item.first);
        let unpacked = files.span(units).and_then(|span| {
            let begin = span.start;
            self.unpacked_part(segment, item.first, span).map(|block| (begin, block))
        });
        let (begin, block) = match unpacked {
            Err(damage @ Error::Damaged { .. }) => return self.lost(item, piece, damage),
            unpacked => unpacked?,
        };
        let text = block.text();
        self.choose(text);
        let mut printer = None;
        let mut piece = Some(piece);
        let mut at = 0;
        for lines in ranges(text, begin, units) {
            at = at.max(lines.start);
            while at < lines.end {
                let Some(found) = self.candidate(text, at, lines.end) else { break };
                at = found;
                // Text without a line end may match at its very end.
                let file = match files.at(begin + at.min(text.len() - 1)) {
                    // Nothing has been printed yet: names are asked for once.
                    Err(damage @ Error::Damaged { .. }) => {
                        return piece.take().map_or(Ok(()), |piece| self.lost(item, piece, damage));
                    }
                    file => file?,
                };
                let Some((number, entry, span)) = file else { break };
                let span = span.start - begin..span.end - begin;
                at = span.end + usize::from(entry.ends_open);
                if !self.is_wanted(item, number, entry) {
                    continue;
                }
                if printer.is_none() {
                    printer = piece
                        .take()
                        .map(|piece| self.shared.search.printing.printer(piece, self.shared.search.color));
                }
                let Some(printer) = &mut printer else { break };
                self.file(printer, entry, &text[span])?;
            }
            if self.shared.stop.load(Ordering::Relaxed) {
                break;
            }
        }
        Ok(())
    }

    /// The first place in `text[from..to]`, whole lines, that is in a line that may match.
    fn candidate(&self, text: &[u8], mut from: usize, to: usize) -> Option<usize> {
        let matcher = self.shared.search.matcher;
        let candidate = |line: Range<usize>| match matcher.find_candidate_line(&text[line.clone()]) {
            Ok(Some(LineMatchKind::Confirmed(at) | LineMatchKind::Candidate(at))) => Some(line.start + at),
            _ => None,
        };
        let Some(rarest) = &self.rarest else { return candidate(from..to) };
        while let Some(hit) = rarest.find(text, from, to) {
            let begin = memchr::memrchr(b'\n', &text[from..hit]).map_or(from, |end| from + end + 1);
            let end = memchr::memchr(b'\n', &text[hit..to]).map_or(to, |end| hit + end + 1);
            if rarest.allows(&text[begin..end])
                && let Some(found) = candidate(begin..end)
            {
                return Some(found);
            }
            from = end;
        }
        None
    }

    /// Chooses anew what to look for, now and then.
    fn choose(&mut self, text: &[u8]) {
        if self.skips && self.texts.is_multiple_of(t::TEXTS_PER_CHOICE) {
            self.rarest = self.counted.rarest(&text[..text.len().min(t::CHOICE_BYTES)]);
        }
        self.texts += 1;
    }

    /// A file that has several chunks.
    fn large(&mut self, item: &Item, run: Run, piece: Piece<'_, W>) -> Result<()> {
        let segment = &self.shared.database.segments[item.segment as usize];
        let entry = match segment.group(item.first) {
            Err(damage @ Error::Damaged { .. }) => return self.lost(item, piece, damage),
            group => group?.pop(),
        };
        let Some(entry) = entry else { return Ok(()) };
        let number = segment.numbers(item.first)?.start;
        if !self.is_wanted(item, number, &entry) {
            return Ok(());
        }
        if !self.may_match(segment, item, run)? {
            return Ok(());
        }
        let mut printer = self.shared.search.printing.printer(piece, self.shared.search.color);
        if self.is_other(&mut printer, &entry)? {
            return Ok(());
        }
        let mut parts = Parts {
            worker: self,
            segment,
            chunks: run.numbers(),
            entry: &entry,
            left: entry.text_bytes,
            unpacked: None,
            at: 0,
            live: None,
            trouble: None,
        };
        let mut searcher = parts.worker.for_stream(entry.kind);
        let search = parts.worker.shared.search;
        let path = (search.shown)(&entry.path);
        let path = Path::new(OsStr::from_bytes(&path));
        let found = printer.search(&mut searcher, search.matcher, path, Text::Stream(&mut parts));
        if let Some(trouble) = parts.trouble.take() {
            self.shared.trouble(trouble);
        }
        self.note(found)
    }

    /// Whether a line of a large file may match; only then it is gone through from its first line.
    fn may_match(&mut self, segment: &Segment, item: &Item, run: Run) -> Result<bool> {
        if !self.skips || run.cuts_line {
            return Ok(true);
        }
        for number in run.numbers() {
            let units = self.shared.units(item.segment, number);
            if units == 0 {
                continue;
            }
            let block = match self.unpacked(segment, number) {
                // To be read from the tree.
                Err(Error::Damaged { .. }) => return Ok(true),
                block => block?,
            };
            let text = block.text();
            self.choose(text);
            if ranges(text, 0, units).any(|lines| self.candidate(text, lines.start, lines.end).is_some()) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    pub(super) fn file(
        &mut self,
        printer: &mut Printer<Piece<'_, W>>,
        entry: &FileEntry,
        mut text: &[u8],
    ) -> Result<()> {
        if self.is_other(printer, entry)? {
            return Ok(());
        }
        let search = self.shared.search;
        let path = (search.shown)(&entry.path);
        let path = Path::new(OsStr::from_bytes(&path));
        let found = if entry.kind == Kind::LateBinary {
            printer.search(&mut self.for_stream(entry.kind), search.matcher, path, Text::Stream(&mut text))
        } else {
            printer.search(&mut self.searcher, search.matcher, path, Text::Whole(text))
        };
        self.note(found)
    }

    /// A searcher of a file of this `kind` that is read bit by bit. What it finds before NUL bytes depends on how much is read at once,
    /// which grows with the longest line that it has seen: so each file has its own.
    fn for_stream(&self, kind: Kind) -> Searcher {
        let search = self.shared.search;
        // Marks have been understood when the database was built.
        let mut searcher = search.searcher.clone().bom_sniffing(false).build();
        if kind == Kind::LateBinary {
            searcher.set_binary_detection(search.binary.clone());
        }
        searcher
    }

    pub(super) fn note(&self, found: io::Result<Found>) -> Result<()> {
        match found {
            Ok(found) => {
                self.shared.files.fetch_add(1, Ordering::Relaxed);
                if let Some(stats) = found.stats {
                    *self.shared.stats.lock().unwrap_or_else(PoisonError::into_inner) += stats;
                }
                if found.matched {
                    self.shared.files_with_matches.fetch_add(1, Ordering::Relaxed);
                    self.shared.stop.fetch_or(self.shared.search.only_whether, Ordering::Relaxed);
                }
                Ok(())
            }
            // The output takes no more: all stop, and the order knows why.
            Err(_) if self.shared.order.has_failed() => {
                self.shared.stop.store(true, Ordering::Relaxed);
                Ok(())
            }
            Err(error) => Err(Error::Pattern(error.to_string())),
        }
    }

    pub(super) fn is_wanted(&self, item: &Item, number: u32, entry: &FileEntry) -> bool {
        let has_text = matches!(entry.kind, Kind::Text | Kind::LateBinary);
        has_text
            && item.files.contains(&number)
            && !self.shared.database.live.has(&entry.path)
            && !self.shared.database.is_dead(item.segment as usize, number)
            && (self.shared.search.wanted)(&entry.path)
    }

    /// A chunk, read and unpacked.
    pub(super) fn unpacked(&self, segment: &Segment, number: u32) -> Result<Unpacked<Block>> {
        self.unpacked_part(segment, number, 0..segment.chunk(number)?.text_bytes as usize)
    }

    /// A part of a chunk.
    fn unpacked_part(&self, segment: &Segment, number: u32, span: Range<usize>) -> Result<Unpacked<Block>> {
        let len = (span.end - span.start / HALF_BYTES * HALF_BYTES) as u64;
        let unpacked = segment.text(number, span, |bytes| self.shared.search.memory.block(bytes))?;
        self.shared.text_bytes.fetch_add(len, Ordering::Relaxed);
        Ok(unpacked)
    }
}

/// The lines that begin in `units` of a chunk, as ranges of `text`, which begins at `begin` of it.
fn ranges(text: &[u8], begin: usize, units: u16) -> impl Iterator<Item = Range<usize>> {
    let line_from = move |at: usize| match at.saturating_sub(begin) {
        0 => 0,
        at if at > text.len() => text.len(),
        // The line that begins at or after `at`.
        at => memchr::memchr(b'\n', &text[at - 1..]).map_or(text.len(), |end| at + end),
    };
    let mut unit = 0;
    std::iter::from_fn(move || {
        while unit < UNITS && units & 1 << unit == 0 {
            unit += 1;
        }
        let first = unit;
        while unit < UNITS && units & 1 << unit != 0 {
            unit += 1;
        }
        let end = if unit == UNITS { text.len() } else { line_from(unit * UNIT_BYTES) };
        (first < UNITS).then(|| line_from(first * UNIT_BYTES)..end)
    })
}

/// The chunks of a file, one after another.
struct Parts<'a, 'w, W> {
    worker: &'a Worker<'w, W>,
    segment: &'a Segment,
    chunks: Range<u32>,
    entry: &'a FileEntry,
    /// Bytes that have not been read.
    left: u64,
    unpacked: Option<Unpacked<Block>>,
    at: usize,
    /// The file itself, after a chunk that is damaged.
    live: Option<Content>,
    trouble: Option<Error>,
}

impl<W: Write + Send> Parts<'_, '_, W> {
    /// Unpacks the next chunk, or turns to the file itself where it is damaged. Whether there is one.
    fn next(&mut self) -> bool {
        let Some(chunk) = self.chunks.next() else { return false };
        (self.unpacked, self.at) = (None, 0);
        match self.worker.unpacked(self.segment, chunk) {
            Ok(unpacked) => self.unpacked = Some(unpacked),
            Err(error) => {
                let is_damage = error.is_damage();
                self.trouble = Some(error);
                if is_damage {
                    let searched = self.entry.text_bytes - self.left;
                    match lost::rest(&self.worker.shared.database.place.root, self.entry, searched) {
                        Ok(content) => self.live = Some(content),
                        Err(error) => self.worker.shared.trouble(error),
                    }
                }
            }
        }
        self.unpacked.is_some() || self.live.is_some()
    }
}

/// Gives as much as is asked for, as a file does: where ripgrep finds a NUL byte depends on it.
impl<W: Write + Send> Read for Parts<'_, '_, W> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let mut given = 0;
        while given < into.len() && self.left > 0 {
            if let Some(live) = &mut self.live {
                return Ok(given + live.read(&mut into[given..])?);
            }
            let rest = self.unpacked.as_ref().map_or(&[][..], |unpacked| &unpacked.text()[self.at..]);
            if rest.is_empty() {
                if !self.next() {
                    break;
                }
                continue;
            }
            let len = rest.len().min(into.len() - given);
            let len = len.min(usize::try_from(self.left).unwrap_or(usize::MAX));
            into[given..given + len].copy_from_slice(&rest[..len]);
            (self.at, self.left, given) = (self.at + len, self.left - len as u64, given + len);
        }
        Ok(given)
    }
}
