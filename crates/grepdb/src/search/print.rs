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

use grep_printer::{JSONBuilder, StandardBuilder, Stats, SummaryBuilder};
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

/// How matches are printed.
#[derive(Clone, Debug)]
pub struct OutputFormat(PrinterBuilder);

#[derive(Clone, Debug)]
enum PrinterBuilder {
    Standard(StandardBuilder, Option<LineFormat>),
    Summary(SummaryBuilder, Option<PlainFormat>),
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
    Standard(grep_printer::Standard<ColorWriter<W>>, Option<LineFormat>),
    Summary(grep_printer::Summary<ColorWriter<W>>, Option<PlainFormat>),
    Json(grep_printer::JSON<ColorWriter<W>>),
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

    /// Lines. With a [`LineFormat`], stored text is printed by a faster printer, unless there are colours.
    #[must_use]
    pub fn standard(builder: StandardBuilder, lines: Option<LineFormat>) -> Self {
        Self(PrinterBuilder::Standard(builder, lines))
    }

    /// Counts or paths. A [`PlainFormat`] has the same effect.
    #[must_use]
    pub fn summary(builder: SummaryBuilder, plain: Option<PlainFormat>) -> Self {
        Self(PrinterBuilder::Summary(builder, plain))
    }

    /// JSON lines.
    #[must_use]
    pub fn json(builder: JSONBuilder) -> Self {
        Self(PrinterBuilder::Json(builder))
    }

    pub(crate) fn printer<W: Write>(&self, out: W, color: bool) -> Printer<W> {
        match &self.0 {
            PrinterBuilder::Standard(builder, lines) => {
                Printer::Standard(builder.build(ColorWriter::new(out, color)), lines.filter(|_| !color))
            }
            PrinterBuilder::Summary(builder, plain) => {
                Printer::Summary(builder.build(ColorWriter::new(out, color)), plain.filter(|_| !color))
            }
            PrinterBuilder::Json(builder) => Printer::Json(builder.build(ColorWriter::new(out, color))),
            PrinterBuilder::Records => Printer::Records(out),
        }
    }
}

impl<W: Write> Printer<W> {
    /// What to print straight from the text, and where.
    pub(crate) fn plain(&mut self) -> Option<(PlainFormat, &mut W)> {
        let (format, out) = match self {
            Self::Standard(printer, lines) => (PlainFormat::Lines((*lines)?), printer.get_mut()),
            Self::Summary(printer, plain) => ((*plain)?, printer.get_mut()),
            Self::Json(_) | Self::Records(_) => return None,
        };
        match out {
            ColorWriter::Plain(out) => Some((format, out.get_mut())),
            ColorWriter::Ansi(_) => None,
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
            Self::Standard(printer, Some(lines)) if matches!(text, Haystack::Whole(_)) => {
                let path = path.as_os_str().as_bytes();
                let mut sink = LineSink { out: printer.get_mut(), lines: *lines, path, matched: false };
                search_haystack(searcher, matcher, text, &mut sink)?;
                Ok(FileOutcome { matched: sink.matched, stats: None })
            }
            Self::Standard(printer, _) => {
                let mut sink = printer.sink_with_path(matcher, path);
                search_haystack(searcher, matcher, text, &mut sink)?;
                Ok(FileOutcome { matched: sink.has_match(), stats: sink.stats().cloned() })
            }
            Self::Summary(printer, _) => {
                let mut sink = printer.sink_with_path(matcher, path);
                search_haystack(searcher, matcher, text, &mut sink)?;
                Ok(FileOutcome { matched: sink.has_match(), stats: sink.stats().cloned() })
            }
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
