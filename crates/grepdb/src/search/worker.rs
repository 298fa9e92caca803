//! A worker: searches one file after another, stored or on disk.
//!
//! In: the shared state. Out: matches, printed into output slots.
//!
//! It does not choose chunks (`candidates`), or take chunks apart (`chunk`, `large_file`).

use std::cell::Cell;
use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, ErrorKind, Read, Write};
use std::ops::Range;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::PoisonError;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use faultless_os::file::open_regular;
use grep_matcher::{LineMatchKind, Matcher};
use grep_regex::RegexMatcher;
use grep_searcher::Searcher;

use crate::error::{Error, Result};
use crate::search::cancel::CancellableReader;
use crate::search::disk_file::DiskFile;
use crate::search::output::OutputSlot;
use crate::search::prefilter::{NeedleStats, Prefilter};
use crate::search::print::{FileOutcome, Haystack, Printer};
use crate::search::request::Search;
use crate::search::shortcut::Answer;
use crate::search::state::{ChunkTask, SearchState};
use crate::store::file_entry::{FileEntry, FileKind};
use crate::tree::content::{TextReader, has_utf32_bom};
use crate::tuning as t;

/// The shortcut may answer this often in a text that it does not know. Beyond that it has to know more lines than not.
const OPEN_MAX: usize = 4;
/// Bytes behind a match that an assertion may look at: one character.
const LOOK_AHEAD_BYTES: usize = 4;
/// Texts in which prefilter and matcher are timed. Samples of all texts would cost up to a tenth of a search.
const TIMED_TEXTS: usize = 8 * t::TEXTS_PER_CHOICE;

pub(crate) struct Worker<'a, W> {
    pub(crate) state: &'a SearchState<'a, W>,
    /// For texts in memory: it needs no buffer.
    searcher: Searcher,
    /// For files on disk.
    disk_searcher: Option<Searcher>,
    /// For stored text that is read piece by piece.
    stream_searcher: Option<Searcher>,
    /// Text without a matching line has no output. The worker skips it.
    pub(crate) skips_text: bool,
    /// A line has the same output whatever lines are around it.
    pub(crate) is_plain: bool,
    /// The searcher needs the whole text of a file.
    pub(crate) is_multi_line: bool,
    /// How often files on disk could be read instead of the text of a chunk, and how often they could not.
    pub(crate) file_reads: (usize, usize),
    /// What to look for before the matcher runs. Chosen by the texts seen so far.
    prefilter: Option<Prefilter<'a>>,
    needle_stats: NeedleStats<'a>,
    /// How long it took to find the lines of samples, with a prefilter and without.
    sampled: (Duration, Duration),
    texts_seen: usize,
    /// Lines of the current text that the prefilter admitted.
    admitted: Cell<usize>,
    /// How often the shortcut found a line of the current text, and how often its answer was open.
    answers: Cell<(usize, usize)>,
    /// Lines of the current text, and whether they are all ASCII.
    seen: Cell<(Range<usize>, bool)>,
    /// Bytes of all texts that were asked whether they are ASCII.
    checked: Cell<usize>,
}

impl<'a, W: Write + Send> Worker<'a, W> {
    pub(crate) fn new(state: &'a SearchState<'a, W>) -> Self {
        let search = state.search;
        let searcher = search.searcher.clone().bom_sniffing(false).heap_limit(Some(1)).build();
        let is_multi_line = searcher.multi_line_with_matcher(search.matcher.any());
        // With CRLF line ends a pattern can match after a final \r. That is no line end, until the database adds its
        // \n.
        let skips_text = !searcher.invert_match()
            && !searcher.line_terminator().is_crlf()
            && !search.plan.may_end_at_cr
            && !search.every_file
            && !searcher.passthru()
            && !is_multi_line
            && search.matcher.any().line_terminator() == Some(searcher.line_terminator());
        let is_plain = skips_text
            && searcher.max_matches().is_none()
            && !searcher.stop_on_nonmatch()
            && (searcher.before_context(), searcher.after_context()) == (0, 0);
        Self {
            state,
            searcher,
            disk_searcher: None,
            stream_searcher: None,
            skips_text,
            is_plain,
            is_multi_line,
            file_reads: (0, 0),
            prefilter: None,
            needle_stats: search.plan.needles.stats(),
            sampled: Default::default(),
            texts_seen: 0,
            admitted: Cell::new(0),
            answers: Cell::default(),
            seen: Cell::default(),
            checked: Cell::new(0),
        }
    }

    /// A printer into `slot`.
    pub(crate) fn printer<'o>(&self, slot: OutputSlot<'o, W>) -> Printer<OutputSlot<'o, W>> {
        self.state.search.format.printer(slot, self.state.search.color)
    }

    /// The first matching line of `text[from..to]`, which is whole lines.
    pub(crate) fn find_line(&self, text: &[u8], from: usize, to: usize) -> Option<Range<usize>> {
        if from >= to {
            return None;
        }
        let (known, open) = self.answers.get();
        if let Some(shortcut) =
            self.state.search.plan.shortcut.as_ref().filter(|_| open < known.max(OPEN_MAX))
        {
            match shortcut.ask(text, from, to) {
                Answer::At(hit) => {
                    self.answers.set((known + 1, open));
                    return Some(line_at(text, from, hit, to));
                }
                Answer::Nowhere => return None,
                Answer::Open => self.answers.set((known, open + 1)),
            }
        }
        self.find_by(self.prefilter.as_ref(), text, from, to)
    }

    /// The same without the shortcut.
    fn find_by(
        &self,
        prefilter: Option<&Prefilter<'_>>,
        text: &[u8],
        mut from: usize,
        to: usize,
    ) -> Option<Range<usize>> {
        let Some(prefilter) = prefilter.filter(|prefilter| prefilter.is_for(&text[..to])) else {
            return self.match_line(text, from, to);
        };
        // This text may have more lines with all needles than the sample.
        while !prefilter.admits_many(self.admitted.get(), from) {
            let hit = prefilter.find(text, from, to)?;
            let line = line_at(text, from, hit, to);
            from = line.end;
            if !prefilter.admits(&text[line.clone()]) {
                continue;
            }
            self.admitted.set(self.admitted.get() + 1);
            if self.match_line(text, line.start, line.end).is_some() {
                return Some(line);
            }
        }
        self.match_line(text, from, to)
    }

    /// The same without a prefilter.
    fn match_line(&self, text: &[u8], mut from: usize, to: usize) -> Option<Range<usize>> {
        while from < to {
            let (matcher, end) = self.matcher_at(text, from, to);
            let line = matcher.and_then(|matcher| match_line(matcher, text, from, end));
            if line.is_some() {
                return line;
            }
            from = end;
        }
        None
    }

    /// Whether the begin of a line is enough to tell that the line matches. No assertion looks further than
    /// [`LOOK_AHEAD_BYTES`] behind a match, so the rest of the line can't undo it.
    pub(crate) fn matches_begin(&self, begin: &[u8]) -> bool {
        let Search { matcher, plan, .. } = self.state.search;
        if plan.is_never_ascii && begin.is_ascii() {
            return false;
        }
        // The matcher cannot fail.
        let found = matcher.of(begin).find(begin).ok().flatten();
        found.is_some_and(|found| found.end() + LOOK_AHEAD_BYTES <= begin.len())
    }

    /// The matcher for the lines from `from`, unless none of them can match, and where they end.
    fn matcher_at(&self, text: &[u8], from: usize, to: usize) -> (Option<&'a RegexMatcher>, usize) {
        let Search { matcher, plan, .. } = self.state.search;
        let of_ascii = match matcher.ascii() {
            _ if plan.is_never_ascii => None,
            Some(ascii) if self.checked.get() < t::ASCII_CHECKED => Some(ascii),
            _ => return (Some(matcher.whole()), to),
        };
        let (mut lines, mut is_ascii) = self.seen.take();
        if !lines.contains(&from) {
            let least = from.saturating_add(t::ASCII_BYTES).min(to);
            let end = memchr::memchr(b'\n', &text[least - 1..to]).map_or(to, |end| least + end);
            (lines, is_ascii) = (from..end, text[from..end].is_ascii());
            self.checked.set(self.checked.get() + lines.len());
        }
        let end = lines.end.min(to);
        self.seen.set((lines, is_ascii));
        (if is_ascii { of_ascii } else { Some(matcher.whole()) }, end)
    }

    /// Counts `text`, and now and then chooses the prefilter anew.
    pub(crate) fn choose_prefilter(&mut self, text: &[u8]) {
        if self.skips_text && self.texts_seen.is_multiple_of(t::TEXTS_PER_CHOICE) {
            let sample = &text[..text.len().min(t::CHOICE_BYTES)];
            let rarest = self.needle_stats.choose(sample);
            // A search that reads few texts has no time to measure.
            self.prefilter = rarest.filter(|rarest| self.texts_seen == 0 || self.is_faster(rarest, sample));
        }
        self.texts_seen += 1;
        self.admitted.set(0);
        self.answers.set((0, 0));
        self.seen.take();
    }

    /// Whether lines of the samples so far and of `sample` are found sooner with `prefilter` than by the matcher alone.
    fn is_faster(&mut self, prefilter: &Prefilter<'_>, sample: &[u8]) -> bool {
        // A prefilter with a line end is for whole lines.
        let sample = &sample[..memchr::memrchr(b'\n', sample).map_or(sample.len(), |end| end + 1)];
        let time = |prefilter| {
            self.admitted.set(0);
            self.seen.take();
            let (begin, mut at) = (Instant::now(), 0);
            while let Some(line) = self.find_by(prefilter, sample, at, sample.len()) {
                at = line.end;
            }
            begin.elapsed()
        };
        // The large matcher is not built for a question.
        let may_time = self.state.search.matcher.ascii().is_none() || sample.is_ascii();
        if may_time && self.texts_seen <= TIMED_TEXTS {
            // The first run builds states of the automaton.
            let [with, without] =
                [Some(prefilter), None].map(|prefilter| time(prefilter).min(time(prefilter)));
            self.sampled = (self.sampled.0 + with, self.sampled.1 + without);
        }
        self.sampled.0 <= self.sampled.1
    }

    /// Searches the text of a stored file, or the file itself if it has changed.
    pub(crate) fn search_stored(
        &mut self,
        printer: &mut Printer<OutputSlot<'_, W>>,
        entry: &FileEntry,
        text: &[u8],
    ) -> Result<()> {
        if self.search_if_stale(printer, entry)? { Ok(()) } else { self.search_text(printer, entry, text) }
    }

    /// Searches the text of a stored file.
    pub(crate) fn search_text(
        &mut self,
        printer: &mut Printer<OutputSlot<'_, W>>,
        entry: &FileEntry,
        mut text: &[u8],
    ) -> Result<()> {
        let search = self.state.search;
        let outcome = if entry.kind == FileKind::LateBinary {
            self.search_stream(printer, entry, &mut text)
        } else {
            let path = (search.display_path)(&entry.path);
            let path = Path::new(OsStr::from_bytes(&path));
            printer.search(&mut self.searcher, search.matcher, path, Haystack::Whole(text))
        };
        self.record(outcome)
    }

    /// Searches a file on disk.
    pub(crate) fn search_disk_file(
        &mut self,
        printer: &mut Printer<OutputSlot<'_, W>>,
        disk_file: &DiskFile,
    ) -> Result<()> {
        let search = self.state.search;
        let opened = match disk_file.is_named {
            true => File::open(&disk_file.path),
            // Nobody waits for a pipe that took the place of a file.
            false => open_regular(&disk_file.path),
        };
        let file = match opened {
            // Removed since it was found.
            Err(error) if error.kind() == ErrorKind::NotFound && !disk_file.is_named => return Ok(()),
            file => file.map_err(Error::io("read", &disk_file.path))?,
        };
        let searcher = self.disk_searcher.get_or_insert_with(|| search.searcher.build());
        let binary = if disk_file.is_named { &search.binary_named } else { &search.binary };
        searcher.set_binary_detection(binary.clone());
        let path = Path::new(OsStr::from_bytes(&disk_file.display_path));
        let outcome = if !disk_file.has_encoding && has_utf32_bom(&file) {
            let mut text = TextReader::open(&disk_file.path).map_err(Error::io("read", &disk_file.path))?;
            printer.search(searcher, search.matcher, path, Haystack::Stream(&mut text))
        } else if let Some(cancel) = search.cancel {
            let mut file = CancellableReader { reader: &file, cancel };
            printer.search(searcher, search.matcher, path, Haystack::Stream(&mut file))
        } else {
            printer.search(searcher, search.matcher, path, Haystack::File(&file))
        };
        match outcome {
            Err(error) if !self.state.output.has_failed() => Err(Error::io("read", &disk_file.path)(error)),
            outcome => self.record(outcome),
        }
    }

    /// Checks whether the file of `entry` changed since the database read it. If so, searches it on disk, if it still
    /// exists, and returns true.
    pub(crate) fn search_if_stale(
        &mut self,
        printer: &mut Printer<OutputSlot<'_, W>>,
        entry: &FileEntry,
    ) -> Result<bool> {
        let location = &self.state.database.location;
        if !self.state.checks.is_stale(location, entry) {
            return Ok(false);
        }
        if let Some(file) = DiskFile::at(location, &entry.path, self.state.search.display_path) {
            self.search_disk_file(printer, &file)?;
        }
        Ok(true)
    }

    /// Searches the text of a stored file of this `kind` piece by piece.
    pub(crate) fn search_stream(
        &mut self,
        printer: &mut Printer<OutputSlot<'_, W>>,
        entry: &FileEntry,
        stream: &mut dyn Read,
    ) -> io::Result<FileOutcome> {
        let search = self.state.search;
        // The database has decoded byte order marks already.
        let new = || search.searcher.clone().bom_sniffing(false).build();
        let mut own;
        let searcher = if entry.kind == FileKind::LateBinary {
            // The result before a NUL byte depends on the size of the reads, which grows with the longest line so far.
            own = new();
            own.set_binary_detection(search.binary.clone());
            &mut own
        } else {
            self.stream_searcher.get_or_insert_with(new)
        };
        let path = (search.display_path)(&entry.path);
        printer.search(
            searcher,
            search.matcher,
            Path::new(OsStr::from_bytes(&path)),
            Haystack::Stream(stream),
        )
    }

    /// Counts a file that was searched.
    pub(crate) fn record(&self, outcome: io::Result<FileOutcome>) -> Result<()> {
        match outcome {
            Ok(outcome) => {
                self.state.files.fetch_add(1, Ordering::Relaxed);
                if let Some(stats) = outcome.stats {
                    *self.state.stats.lock().unwrap_or_else(PoisonError::into_inner) += stats;
                }
                if outcome.matched {
                    self.state.files_with_matches.fetch_add(1, Ordering::Relaxed);
                    self.state.stop.fetch_or(self.state.search.first_match_only, Ordering::Relaxed);
                }
                Ok(())
            }
            // The output has failed and keeps the reason. All workers stop.
            Err(_) if self.state.output.has_failed() => {
                self.state.stop.store(true, Ordering::Relaxed);
                Ok(())
            }
            Err(error) => Err(Error::Pattern(error.to_string())),
        }
    }

    /// Whether to search the stored text of file `number`.
    pub(crate) fn is_wanted(&self, task: &ChunkTask, number: u32, entry: &FileEntry) -> bool {
        let has_text = matches!(entry.kind, FileKind::Text | FileKind::LateBinary);
        has_text
            && task.files.contains(&number)
            && !self.state.database.overlay.contains(&entry.path)
            && !self.state.database.has_tombstone(task.segment as usize, number)
            && (self.state.search.is_wanted)(&entry.path)
    }
}

/// The first line of `text[from..to]` that `matcher` matches.
fn match_line(matcher: &RegexMatcher, text: &[u8], mut from: usize, to: usize) -> Option<Range<usize>> {
    while from < to {
        // The matcher cannot fail.
        let found = matcher.find_candidate_line(&text[from..to]).ok().flatten()?;
        let (LineMatchKind::Confirmed(at) | LineMatchKind::Candidate(at)) = found;
        // An empty match behind the last line end is in no line.
        if from + at == to && text[to - 1] == b'\n' {
            return None;
        }
        let line = line_at(text, from, from + at, to);
        if matches!(found, LineMatchKind::Confirmed(_)) {
            return Some(line);
        }
        let without_end = text[line.clone()].strip_suffix(b"\n").unwrap_or(&text[line.clone()]);
        if matcher.is_match(without_end).is_ok_and(|is_match| is_match) {
            return Some(line);
        }
        from = line.end;
    }
    None
}

/// The line of `text[from..to]` with position `at`. `from` is the begin of a line.
fn line_at(text: &[u8], from: usize, at: usize, to: usize) -> Range<usize> {
    let begin = memchr::memrchr(b'\n', &text[from..at]).map_or(from, |end| from + end + 1);
    let end = memchr::memchr(b'\n', &text[at..to]).map_or(to, |end| at + end + 1);
    begin..end
}
