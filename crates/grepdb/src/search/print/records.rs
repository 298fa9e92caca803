//! Matches as records: bytes that pass through the ordered output, and become a [`Match`] again at its end.
//!
//! In: matches in one file. Out: per match one record, which is written in one piece.
//!
//! ```text
//! record: path, line number, line, number of spans, spans    lengths and numbers as varints
//! ```
//! It does not leave the process.

use std::ffi::OsStr;
use std::io::{self, Write};
use std::ops::Range;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use grep_matcher::Matcher;
use grep_regex::RegexMatcher;
use grep_searcher::{Searcher, Sink, SinkMatch};

use crate::encoding::{ByteReader, put_varint};

/// Text after the matching lines that an assertion such as `\b` may look at, bytes. As in ripgrep's printers.
const LOOK_AHEAD_BYTES: usize = 128;

/// A matching line, with the places of the matches in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Match<'m> {
    /// Path of the file below the root of the tree.
    pub path: &'m Path,
    /// Number of the line, from 1.
    pub line_number: u64,
    /// The line with its line end, if it has one. If the pattern may match several lines, all lines of the match. Text
    /// in UTF-16 or UTF-32 comes in UTF-8; other text as it is on disk.
    pub line: &'m [u8],
    /// The matches as byte ranges of `line`: ascending, without overlaps. A range may be empty.
    pub spans: &'m [Range<usize>],
}

pub(super) struct RecordSink<'p> {
    /// Not generic: `faultless-grep` would have this code for each of its outputs, and needs none of it.
    pub(super) out: &'p mut dyn Write,
    pub(super) matcher: &'p RegexMatcher,
    pub(super) path: &'p [u8],
    pub(super) matched: bool,
}

impl Sink for RecordSink<'_> {
    type Error = io::Error;

    fn matched(&mut self, searcher: &Searcher, found: &SinkMatch<'_>) -> io::Result<bool> {
        self.matched = true;
        let spans = spans(searcher, self.matcher, found)?;
        let line = found.bytes();
        let mut record = Vec::with_capacity(self.path.len() + line.len() + 8 * (spans.len() + 3));
        put_bytes(&mut record, self.path);
        put_varint(&mut record, found.line_number().unwrap_or_default());
        put_bytes(&mut record, line);
        put_varint(&mut record, spans.len() as u64);
        for span in spans {
            put_varint(&mut record, span.start as u64);
            put_varint(&mut record, span.end as u64);
        }
        self.out.write_all(&record)?;
        Ok(true)
    }
}

/// The matches in the lines of `found`, as ranges of these lines.
fn spans(
    searcher: &Searcher,
    matcher: &RegexMatcher,
    found: &SinkMatch<'_>,
) -> io::Result<Vec<Range<usize>>> {
    let (buffer, lines) = (found.buffer(), found.bytes_range_in_buffer());
    let spans_lines = searcher.multi_line_with_matcher(matcher);
    let end = if spans_lines {
        buffer.len().min(lines.end + LOOK_AHEAD_BYTES)
    } else {
        lines.end - usize::from(found.bytes().last() == Some(&searcher.line_terminator().as_byte()))
    };
    let mut spans = Vec::new();
    let all = matcher.find_iter_at(&buffer[..end], lines.start, |found| {
        if spans_lines && found.start() >= lines.end {
            return false;
        }
        spans.push(found.start() - lines.start..found.end().min(lines.end) - lines.start);
        true
    });
    all.map_err(io::Error::other)?;
    Ok(spans)
}

fn next_bytes<'m>(records: &mut ByteReader<'m>) -> Option<&'m [u8]> {
    let len = records.len()?;
    records.take(len)
}

fn put_bytes(record: &mut Vec<u8>, bytes: &[u8]) {
    put_varint(record, bytes.len() as u64);
    record.extend_from_slice(bytes);
}

/// Reads the next record of `records`. Its spans go to `spans`.
pub(crate) fn next_record<'m, 'r: 'm>(
    records: &mut ByteReader<'r>,
    spans: &'m mut Vec<Range<usize>>,
) -> Option<Match<'m>> {
    let path = next_bytes(records)?;
    let line_number = records.varint()?;
    let line = next_bytes(records)?;
    spans.clear();
    for _ in 0..records.len()? {
        spans.push(records.len()?..records.len()?);
    }
    Some(Match { path: Path::new(OsStr::from_bytes(path)), line_number, line, spans })
}

#[cfg(test)]
mod tests {
    use grep_regex::RegexMatcherBuilder;
    use grep_searcher::SearcherBuilder;
    use proptest::prelude::*;

    use super::*;

    /// `line number, line, spans` of each record.
    type Found = Vec<(u64, Vec<u8>, Vec<Range<usize>>)>;

    fn found(matcher: &RegexMatcher, multi_line: bool, text: &[u8]) -> Found {
        let mut out = Vec::new();
        let mut sink = RecordSink { out: &mut out, matcher, path: b"src/a b.c", matched: false };
        let mut searcher = SearcherBuilder::new().multi_line(multi_line).build();
        searcher.search_slice(matcher, text, &mut sink).unwrap();
        let (mut records, mut spans, mut found) = (ByteReader(&out), Vec::new(), Found::new());
        while !records.0.is_empty() {
            let next = next_record(&mut records, &mut spans).unwrap();
            assert_eq!(next.path, Path::new("src/a b.c"));
            found.push((next.line_number, next.line.to_vec(), next.spans.to_vec()));
        }
        found
    }

    #[test]
    fn a_match_of_several_lines_is_one_record_and_sees_what_follows() {
        let matcher = RegexMatcher::new(r"b\nc\b").unwrap();
        let expected = [(3, b"cd b\nc\n".to_vec(), std::iter::once(3..6).collect::<Vec<_>>())];
        assert_eq!(found(&matcher, true, b"x\nab\ncd b\nc\nx\n")[..], expected[..]);
    }

    proptest! {
        #[test]
        fn the_spans_of_a_line_are_all_matches_in_it(text in "([abc\\n]{0,30}|a\\n){0,3}") {
            let mut builder = RegexMatcherBuilder::new();
            let matcher = builder.multi_line(true).line_terminator(Some(b'\n')).build("ab?|^$|c$").unwrap();
            let mut expected = Found::new();
            for (number, line) in (1..).zip(text.as_bytes().split_inclusive(|&byte| byte == b'\n')) {
                let mut spans = Vec::new();
                let text = line.strip_suffix(b"\n").unwrap_or(line);
                matcher.find_iter(text, |found| { spans.push(found.start()..found.end()); true }).unwrap();
                if !spans.is_empty() {
                    expected.push((number, line.to_vec(), spans));
                }
            }
            prop_assert_eq!(found(&matcher, false, text.as_bytes()), expected);
        }
    }
}
