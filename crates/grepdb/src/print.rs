//! Matches of a file -> text, as ripgrep prints them.
//!
//! In: the builders of ripgrep's own printers. Out: a [`Printer`] for a piece of output.
//!
//! What it does not do: choose colours or layout (`cli`).

mod lines;

use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use grep_printer::{JSONBuilder, StandardBuilder, Stats, SummaryBuilder};
use grep_regex::RegexMatcher;
use grep_searcher::Searcher;
pub use lines::Lines;
use lines::LinesSink;
use termcolor::{Ansi, ColorSpec, NoColor, WriteColor};

/// How matches are shown.
#[derive(Clone, Debug)]
pub enum Printing {
    /// Lines; where they say so and the text is at hand, in the plain form.
    Standard(StandardBuilder, Option<Lines>),
    /// Counts or paths.
    Summary(SummaryBuilder),
    /// JSON lines.
    Json(JSONBuilder),
}

/// Writes with or without colours.
pub(crate) enum Paint<W: Write> {
    Plain(NoColor<W>),
    Ansi(Ansi<W>),
}

impl<W: Write> Paint<W> {
    pub(crate) fn new(out: W, color: bool) -> Self {
        if color { Self::Ansi(Ansi::new(out)) } else { Self::Plain(NoColor::new(out)) }
    }
}

impl<W: Write> Write for Paint<W> {
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

impl<W: Write> WriteColor for Paint<W> {
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

/// Prints into one piece of output.
pub(crate) enum Printer<W: Write> {
    Standard(grep_printer::Standard<Paint<W>>, Option<Lines>),
    Summary(grep_printer::Summary<Paint<W>>),
    Json(grep_printer::JSON<Paint<W>>),
}

/// A file's text.
pub(crate) enum Text<'t> {
    /// All of it.
    Whole(&'t [u8]),
    /// As it comes.
    Stream(&'t mut dyn io::Read),
    /// On disk, as it is.
    File(&'t std::fs::File),
}

/// What came of a file.
#[derive(Clone, Debug)]
pub(crate) struct Found {
    /// What was looked for.
    pub(crate) matched: bool,
    /// Where they are kept.
    pub(crate) stats: Option<Stats>,
}

impl Printing {
    pub(crate) fn printer<W: Write>(&self, out: W, color: bool) -> Printer<W> {
        let out = Paint::new(out, color);
        match self {
            Self::Standard(builder, lines) => Printer::Standard(builder.build(out), lines.filter(|_| !color)),
            Self::Summary(builder) => Printer::Summary(builder.build(out)),
            Self::Json(builder) => Printer::Json(builder.build(out)),
        }
    }
}

impl<W: Write> Printer<W> {
    /// Searches a file and prints what is found.
    pub(crate) fn search(
        &mut self,
        searcher: &mut Searcher,
        matcher: &RegexMatcher,
        path: &Path,
        text: Text<'_>,
    ) -> io::Result<Found> {
        match self {
            Self::Standard(printer, Some(lines)) if matches!(text, Text::Whole(_)) => {
                let path = path.as_os_str().as_bytes();
                let mut sink = LinesSink { out: printer.get_mut(), lines: *lines, path, matched: false };
                run(searcher, matcher, text, &mut sink)?;
                Ok(Found { matched: sink.matched, stats: None })
            }
            Self::Standard(printer, _) => {
                let mut sink = printer.sink_with_path(matcher, path);
                run(searcher, matcher, text, &mut sink)?;
                Ok(Found { matched: sink.has_match(), stats: sink.stats().cloned() })
            }
            Self::Summary(printer) => {
                let mut sink = printer.sink_with_path(matcher, path);
                run(searcher, matcher, text, &mut sink)?;
                Ok(Found { matched: sink.has_match(), stats: sink.stats().cloned() })
            }
            Self::Json(printer) => {
                let mut sink = printer.sink_with_path(matcher, path);
                run(searcher, matcher, text, &mut sink)?;
                Ok(Found { matched: sink.has_match(), stats: Some(sink.stats().clone()) })
            }
        }
    }
}

fn run<S: grep_searcher::Sink<Error = io::Error>>(
    searcher: &mut Searcher,
    matcher: &RegexMatcher,
    text: Text<'_>,
    sink: S,
) -> io::Result<()> {
    match text {
        Text::Whole(text) => searcher.search_slice(matcher, text, sink),
        Text::Stream(text) => searcher.search_reader(matcher, text, sink),
        Text::File(file) => searcher.search_file(matcher, file, sink),
    }
}
