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
use termcolor::{Ansi, ColorSpec, NoColor, WriteColor};

use crate::search::line_matcher::LineMatcher;

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
pub struct OutputFormat(PrinterBuilder);

#[derive(Clone, Debug)]
enum PrinterBuilder {
    Plain(PlainFormat),
    Standard { builder: StandardBuilder, color: bool },
    Summary { builder: SummaryBuilder, color: bool },
    Json(JSONBuilder),
    Records,
}

/// Writes with or without colours.
pub(crate) enum ColorWriter<W: Write> {
    Plain(NoColor<W>),
    Ansi(Ansi<W>),
}

impl<W: Write> ColorWriter<W> {
    pub(crate) fn new(out: W, color: bool) -> Self {
        if color { Self::Ansi(Ansi::new(out)) } else { Self::Plain(NoColor::new(out)) }
    }
}

impl<W: Write> Write for ColorWriter<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Plain(out) => out.write(bytes),
            Self::Ansi(out) => out.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<W: Write> WriteColor for ColorWriter<W> {
    fn supports_color(&self) -> bool {
        matches!(self, Self::Ansi(_))
    }

    fn set_color(&mut self, spec: &ColorSpec) -> io::Result<()> {
        match self {
            Self::Plain(_) => Ok(()),
            Self::Ansi(out) => out.set_color(spec),
        }
    }

    fn set_hyperlink(&mut self, link: &termcolor::HyperlinkSpec<'_>) -> io::Result<()> {
        match self {
            Self::Plain(_) => Ok(()),
            Self::Ansi(out) => out.set_hyperlink(link),
        }
    }

    fn supports_hyperlinks(&self) -> bool {
        matches!(self, Self::Ansi(_))
    }

    fn reset(&mut self) -> io::Result<()> {
        match self {
            Self::Plain(_) => Ok(()),
            Self::Ansi(out) => out.reset(),
        }
    }

    fn is_synchronous(&self) -> bool {
        false
    }
}

/// Prints into one output slot.
pub(crate) enum Printer<W: Write> {
    Plain(PlainFormat, W),
    Standard(grep_printer::Standard<ColorWriter<W>>),
    Summary(grep_printer::Summary<ColorWriter<W>>),
    Json(grep_printer::JSON<W>),
    Records(W),
}

/// The text to search.
pub(crate) enum Haystack<'t> {
    /// Text in memory.
    Whole(&'t [u8]),
    /// A stream.
    Stream(&'t mut dyn io::Read),
    /// A file on disk.
    File(&'t std::fs::File),
}

/// The result of searching one file.
#[derive(Clone, Debug)]
pub(crate) struct FileOutcome {
    /// The file has a match; with inverted matching, a line without one.
    pub(crate) matched: bool,
    /// Counts, if the printer collects them.
    pub(crate) stats: Option<Stats>,
}

impl OutputFormat {
    /// Matches as records, for [`records::next_record`].
    pub(crate) const RECORDS: Self = Self(PrinterBuilder::Records);

    /// Nothing but what `format` says. The lines of stored text come straight from it.
    #[must_use]
    pub fn plain(format: PlainFormat) -> Self {
        Self(PrinterBuilder::Plain(format))
    }

    /// Lines with whatever `builder` adds to them.
    #[must_use]
    pub fn standard(builder: StandardBuilder, color: bool) -> Self {
        Self(PrinterBuilder::Standard { builder, color })
    }

    /// Counts or paths as `builder` writes them.
    #[must_use]
    pub fn summary(builder: SummaryBuilder, color: bool) -> Self {
        Self(PrinterBuilder::Summary { builder, color })
    }

    /// JSON lines.
    #[must_use]
    pub fn json(builder: JSONBuilder) -> Self {
        Self(PrinterBuilder::Json(builder))
    }

    pub(crate) fn printer<W: Write>(&self, out: W) -> Printer<W> {
        match &self.0 {
            PrinterBuilder::Plain(format) => Printer::Plain(*format, out),
            PrinterBuilder::Standard { builder, color } => {
                Printer::Standard(builder.build(ColorWriter::new(out, *color)))
            }
            PrinterBuilder::Summary { builder, color } => {
                Printer::Summary(builder.build(ColorWriter::new(out, *color)))
            }
            PrinterBuilder::Json(builder) => Printer::Json(builder.build(out)),
            PrinterBuilder::Records => Printer::Records(out),
        }
    }
}

impl<W: Write> Printer<W> {
    /// What to print straight from the text, and where.
    pub(crate) fn plain(&mut self) -> Option<(PlainFormat, &mut W)> {
        match self {
            Self::Plain(format, out) => Some((*format, out)),
            _ => None,
        }
    }

    /// Searches a text and prints its matches.
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
        match self {
            Self::Plain(PlainFormat::Lines(lines), out) if is_by_line(searcher, matcher, &text) => {
                let path = path.as_os_str().as_bytes();
                let mut sink = LineSink { out, lines: *lines, path, matched: false };
                search_haystack(searcher, matcher, text, &mut sink)?;
                Ok(FileOutcome { matched: sink.matched, stats: None })
            }
            Self::Plain(PlainFormat::Lines(lines), out) => standard(
                &mut StandardBuilder::new().path(lines.path).build_no_color(out),
                searcher,
                matcher,
                path,
                text,
            ),
            Self::Plain(format, out) => {
                summary(&mut format.builder().build_no_color(out), searcher, matcher, path, text)
            }
            Self::Standard(printer) => standard(printer, searcher, matcher, path, text),
            Self::Summary(printer) => summary(printer, searcher, matcher, path, text),
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

fn standard<W: WriteColor>(
    printer: &mut grep_printer::Standard<W>,
    searcher: &mut Searcher,
    matcher: &RegexMatcher,
    path: &Path,
    text: Haystack<'_>,
) -> io::Result<FileOutcome> {
    let mut sink = printer.sink_with_path(matcher, path);
    search_haystack(searcher, matcher, text, &mut sink)?;
    Ok(FileOutcome { matched: sink.has_match(), stats: sink.stats().cloned() })
}

fn summary<W: WriteColor>(
    printer: &mut grep_printer::Summary<W>,
    searcher: &mut Searcher,
    matcher: &RegexMatcher,
    path: &Path,
    text: Haystack<'_>,
) -> io::Result<FileOutcome> {
    let mut sink = printer.sink_with_path(matcher, path);
    search_haystack(searcher, matcher, text, &mut sink)?;
    Ok(FileOutcome { matched: sink.has_match(), stats: sink.stats().cloned() })
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
