//! A worker: searches one file after another, stored or on disk.
//!
//! In: the shared state. Out: matches, printed into output slots.
//!
//! It does not choose chunks (`candidates`), or take chunks apart (`chunk`, `large_file`).

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::PoisonError;
use std::sync::atomic::Ordering;

use faultless_os::file::open_regular;
use grep_matcher::Matcher;
use grep_searcher::Searcher;

use crate::error::{Error, Result};
use crate::search::cancel::CancellableReader;
use crate::search::disk_file::DiskFile;
use crate::search::line_finder::LineFinder;
use crate::search::output::OutputSlot;
use crate::search::print::{FileOutcome, Haystack, Printer};
use crate::search::request::Search;
use crate::search::state::{ChunkTask, SearchState};
use crate::store::file_entry::{FileEntry, FileKind};
use crate::tree::content::{has_utf32_bom, open_text};

/// Bytes behind a match that an assertion may look at: one character.
const LOOK_AHEAD_BYTES: usize = 4;

pub(crate) struct Worker<'a, W> {
    pub(crate) state: &'a SearchState<'a, W>,
    /// For texts in memory: it needs no buffer.
    searcher: Searcher,
    disk_searcher: Option<Searcher>,
    /// For stored text that is read piece by piece.
    stream_searcher: Option<Searcher>,
    /// Text without a matching line has no output. The worker skips it.
    pub(crate) skips_text: bool,
    /// A line has the same output whatever lines are around it.
    pub(crate) is_plain: bool,
    /// The searcher needs the whole text of a file.
    pub(crate) is_multi_line: bool,
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
        }
    }

    pub(crate) fn printer<'o>(&self, slot: OutputSlot<'o, W>) -> Printer<'o, W> {
        self.state.search.format.printer(slot)
    }

    pub(crate) fn lines_of<'t>(&self, text: &'t [u8]) -> LineFinder<'t>
    where
        'a: 't,
    {
        let Search { matcher, plan, .. } = self.state.search;
        LineFinder::new(text, matcher, plan.prefilter.as_ref(), self.state.is_short)
    }

    /// Whether the begin of a line is enough to tell that the line matches. No assertion looks further than
    /// [`LOOK_AHEAD_BYTES`] behind a match, so the rest of the line can't undo it.
    pub(crate) fn matches_begin(&self, begin: &[u8]) -> bool {
        // The matcher cannot fail.
        let found = self.state.search.matcher.of(begin).find(begin).ok().flatten();
        found.is_some_and(|found| found.end() + LOOK_AHEAD_BYTES <= begin.len())
    }

    pub(crate) fn search_text(
        &mut self,
        printer: &mut Printer<'_, W>,
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

    pub(crate) fn search_disk_file(
        &mut self,
        printer: &mut Printer<'_, W>,
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
            let mut text = open_text(&disk_file.path).map_err(Error::io("read", &disk_file.path))?;
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
        printer: &mut Printer<'_, W>,
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
        printer: &mut Printer<'_, W>,
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
        entry.kind.has_text()
            && task.files.contains(&number)
            && !self.state.database.overlay.contains(&entry.path)
            && !self.state.database.has_tombstone(task.segment as usize, number)
            && (self.state.search.is_wanted)(&entry.path)
    }
}
