//! Prints matching lines as `PATH:NUMBER:LINE`, without colours.
//!
//! In: matches in one file. Out: the same bytes as from `grep_printer::Standard`. That printer asks the kernel for
//! the real path of every file with a match, which takes longer than searching the file.
//!
//! It does not print context or anything beside the matching line.

use std::io::{self, Write};

use grep_searcher::{Searcher, Sink, SinkMatch};

/// What precedes a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LineFormat {
    /// The path.
    pub path: bool,
    /// The line number, from 1.
    pub number: bool,
}

impl LineFormat {
    /// Writes a line.
    pub(in crate::search) fn write(
        self,
        out: &mut impl Write,
        path: &[u8],
        number: Option<u64>,
        line: &[u8],
    ) -> io::Result<()> {
        if self.path {
            out.write_all(path)?;
            out.write_all(b":")?;
        }
        if let Some(number) = number.filter(|_| self.number) {
            out.write_all(decimal(number, &mut [0; 21]))?;
        }
        out.write_all(line)?;
        if line.last() == Some(&b'\n') { Ok(()) } else { out.write_all(b"\n") }
    }
}

pub(super) struct LineSink<'p, W> {
    pub(super) out: &'p mut W,
    pub(super) lines: LineFormat,
    pub(super) path: &'p [u8],
    pub(super) matched: bool,
}

impl<W: Write> Sink for LineSink<'_, W> {
    type Error = io::Error;

    fn matched(&mut self, _: &Searcher, found: &SinkMatch<'_>) -> io::Result<bool> {
        self.matched = true;
        self.lines.write(self.out, self.path, found.line_number(), found.bytes())?;
        Ok(true)
    }
}

/// `number` in decimal, and a colon.
fn decimal(mut number: u64, digits: &mut [u8; 21]) -> &[u8] {
    let mut at = digits.len() - 1;
    digits[at] = b':';
    loop {
        at -= 1;
        digits[at] = b'0' + (number % 10) as u8;
        number /= 10;
        if number == 0 {
            return &digits[at..];
        }
    }
}

#[cfg(test)]
mod tests {
    use grep_printer::StandardBuilder;
    use grep_regex::RegexMatcher;
    use grep_searcher::SearcherBuilder;
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn numbers_are_written_out() {
        for number in [0, 7, 10, 99_999, u64::MAX] {
            assert_eq!(decimal(number, &mut [0; 21]), format!("{number}:").as_bytes());
        }
    }

    proptest! {
        #[test]
        fn the_standard_printer_writes_the_same(
            text in "([abc\\n]{0,30}|a\\n){0,3}",
            path in any::<bool>(), number in any::<bool>(), invert_match in any::<bool>(),
        ) {
            let matcher = RegexMatcher::new_line_matcher("ab|^$|c$").unwrap();
            let mut searcher = SearcherBuilder::new().line_number(number).invert_match(invert_match).build();
            let mut out = Vec::new();
            let lines = LineFormat { path, number };
            let mut sink = LineSink { out: &mut out, lines, path: b"src/a b.c", matched: false };
            searcher.search_slice(&matcher, text.as_bytes(), &mut sink).unwrap();
            let mut printer = StandardBuilder::new().path(path).build_no_color(Vec::new());
            let mut sink = printer.sink_with_path(&matcher, "src/a b.c");
            searcher.search_slice(&matcher, text.as_bytes(), &mut sink).unwrap();
            prop_assert_eq!(out, printer.into_inner().into_inner());
        }
    }
}
