//! Matches of a file -> text, as ripgrep prints them.
//!
//! In: the builders of ripgrep's own printers. Out: a [`Printer`] for one output slot.
//!
//! It does not choose colours or layout (`cli`).

pub(super) mod lines;
pub(crate) mod records;

use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use grep_matcher::LineTerminator;
use grep_printer::{JSONBuilder, StandardBuilder, Stats, SummaryBuilder, SummaryKind};
use grep_regex::RegexMatcher;
use grep_searcher::Searcher;
pub use lines::LineFormat;
use lines::LineSink;
use records::RecordSink;
use termcolor::{Ansi, NoColor, WriteColor};

use crate::search::line_matcher::LineMatcher;
use crate::search::output::OutputSlot;

/// What is printed of a file with a match.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PlainFormat {
    /// Matching lines.
    Lines(LineFormat),
    /// The number of matching lines.
    Count {
        /// The path, before the number.
        path: bool,
    },
    /// The path.
    Path,
    /// Nothing: the exit status tells.
    Nothing,
}

impl PlainFormat {
    /// Writes counts and paths.
    fn builder(self) -> SummaryBuilder {
        let (kind, path) = match self {
            Self::Count { path } => (SummaryKind::Count, path),
            Self::Path => (SummaryKind::PathWithMatch, true),
            Self::Lines(_) | Self::Nothing => (SummaryKind::QuietWithMatch, true),
        };
        let mut builder = SummaryBuilder::new();
        builder.kind(kind).path(path);
        builder
    }
}

/// How matches are printed.
#[derive(Clone, Debug)]
pub enum OutputFormat {
    /// Nothing but what it says. The lines of stored text come straight from it.
    Plain(PlainFormat),
    /// Lines with whatever `builder` adds to them.
    Standard {
        /// Makes ripgrep's printer.
        builder: StandardBuilder,
        /// With colours.
        color: bool,
    },
    /// Counts or paths as `builder` writes them.
    Summary {
        /// Makes ripgrep's printer.
        builder: SummaryBuilder,
        /// With colours.
        color: bool,
    },
    /// JSON lines.
    Json(JSONBuilder),
    /// Matches for a callback, as bytes between threads.
    Records,
}

pub(crate) enum Printer<'o, W: Write> {
    Plain(PlainFormat, OutputSlot<'o, W>),
    Standard(grep_printer::Standard<Box<dyn WriteColor + 'o>>),
    Summary(grep_printer::Summary<Box<dyn WriteColor + 'o>>),
    Json(grep_printer::JSON<OutputSlot<'o, W>>),
    Records(OutputSlot<'o, W>),
}

pub(crate) enum Haystack<'t> {
    Whole(&'t [u8]),
    Stream(&'t mut dyn io::Read),
    File(&'t std::fs::File),
}

#[derive(Clone, Debug)]
pub(crate) struct FileOutcome {
    /// The file has a match; with inverted matching, a line without one.
    pub(crate) matched: bool,
    /// Counts, if the printer collects them.
    pub(crate) stats: Option<Stats>,
}

impl OutputFormat {
    pub(crate) fn printer<'o, W: Write>(&self, out: OutputSlot<'o, W>) -> Printer<'o, W> {
        let colored = |out, color| -> Box<dyn WriteColor + 'o> {
            if color { Box::new(Ansi::new(out)) } else { Box::new(NoColor::new(out)) }
        };
        match self {
            Self::Plain(format) => Printer::Plain(*format, out),
            Self::Standard { builder, color } => Printer::Standard(builder.build(colored(out, *color))),
            Self::Summary { builder, color } => Printer::Summary(builder.build(colored(out, *color))),
            Self::Json(builder) => Printer::Json(builder.build(out)),
            Self::Records => Printer::Records(out),
        }
    }
}

impl<'o, W: Write> Printer<'o, W> {
    /// What to print straight from the text, and where.
    pub(crate) fn plain(&mut self) -> Option<(PlainFormat, &mut OutputSlot<'o, W>)> {
        match self {
            Self::Plain(format, out) => Some((*format, out)),
            _ => None,
        }
    }

    pub(crate) fn search(
        &mut self,
        searcher: &mut Searcher,
        matcher: &LineMatcher,
        path: &Path,
        text: Haystack<'_>,
    ) -> io::Result<FileOutcome> {
        let matcher = match text {
            Haystack::Whole(text) => matcher.of(text),
            Haystack::Stream(_) | Haystack::File(_) => matcher.whole(),
        };
        // Sinks of ripgrep's printers have no common trait.
        macro_rules! search_with {
            ($printer:ident) => {{
                let mut sink = $printer.sink_with_path(matcher, path);
                search_haystack(searcher, matcher, text, &mut sink)?;
                Ok(FileOutcome { matched: sink.has_match(), stats: sink.stats().cloned() })
            }};
        }
        match self {
            Self::Plain(PlainFormat::Lines(lines), out) if is_by_line(searcher, matcher, &text) => {
                let path = path.as_os_str().as_bytes();
                let mut sink = LineSink { out, lines: *lines, path, matched: false };
                search_haystack(searcher, matcher, text, &mut sink)?;
                Ok(FileOutcome { matched: sink.matched, stats: None })
            }
            Self::Plain(PlainFormat::Lines(lines), out) => {
                let mut printer = StandardBuilder::new().path(lines.path).build_no_color(out);
                search_with!(printer)
            }
            Self::Plain(format, out) => {
                let mut printer = format.builder().build_no_color(out);
                search_with!(printer)
            }
            Self::Standard(printer) => search_with!(printer),
            Self::Summary(printer) => search_with!(printer),
            Self::Json(printer) => {
                let mut sink = printer.sink_with_path(matcher, path);
                search_haystack(searcher, matcher, text, &mut sink)?;
                Ok(FileOutcome { matched: sink.has_match(), stats: Some(sink.stats().clone()) })
            }
            Self::Records(out) => {
                let path = path.as_os_str().as_bytes();
                let mut sink = RecordSink { out, matcher, path, matched: false };
                search_haystack(searcher, matcher, text, &mut sink)?;
                Ok(FileOutcome { matched: sink.matched, stats: None })
            }
        }
    }
}

/// Whether each match is a line of text in memory, and nothing else is printed.
fn is_by_line(searcher: &Searcher, matcher: &RegexMatcher, text: &Haystack<'_>) -> bool {
    matches!(text, Haystack::Whole(_))
        && (searcher.before_context(), searcher.after_context()) == (0, 0)
        && !searcher.passthru()
        && searcher.line_terminator() == LineTerminator::byte(b'\n')
        && !searcher.multi_line_with_matcher(matcher)
}

fn search_haystack<S: grep_searcher::Sink<Error = io::Error>>(
    searcher: &mut Searcher,
    matcher: &RegexMatcher,
    text: Haystack<'_>,
    sink: S,
) -> io::Result<()> {
    match text {
        Haystack::Whole(text) => searcher.search_slice(matcher, text, sink),
        Haystack::Stream(text) => searcher.search_reader(matcher, text, sink),
        Haystack::File(file) => searcher.search_file(matcher, file, sink),
    }
}
