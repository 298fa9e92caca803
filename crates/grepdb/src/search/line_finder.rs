//! Finds the matching lines of a text in memory.
//!
//! In: a matcher, a prefilter, and the text of a chunk, which is whole lines. Out: the first matching line of a part.
//!
//! What it does depends on the text and the pattern alone: a search does the same work each time.
//!
//! It does not print, and knows no files.

use std::cell::Cell;
use std::ops::Range;

use grep_matcher::{LineMatchKind, Matcher};
use grep_regex::RegexMatcher;

use crate::search::line_matcher::LineMatcher;
use crate::search::prefilter::Prefilter;
use crate::tuning as t;

pub(crate) struct LineFinder<'a> {
    text: &'a [u8],
    matcher: &'a LineMatcher,
    /// The matcher for lines that are all ASCII, if it is worth asking.
    ascii: Option<&'a RegexMatcher>,
    prefilter: Option<&'a Prefilter>,
    /// How the prefilter searches, since which position, and how many lines it has admitted for the matcher.
    way: Cell<(usize, usize, usize)>,
    /// The lines that were looked at last, and whether they are all ASCII.
    seen: Cell<(Range<usize>, bool)>,
}

impl<'a> LineFinder<'a> {
    /// With `is_short` the search may never need the large matcher.
    pub(crate) fn new(
        text: &'a [u8],
        matcher: &'a LineMatcher,
        prefilter: Option<&'a Prefilter>,
        is_short: bool,
    ) -> Self {
        let ascii = matcher.ascii().filter(|_| is_short);
        Self { text, matcher, ascii, prefilter, way: Cell::default(), seen: Cell::default() }
    }

    pub(crate) fn text(&self) -> &'a [u8] {
        self.text
    }

    /// The first matching line of `text[from..to]`, which is whole lines.
    pub(crate) fn find(&self, mut from: usize, to: usize) -> Option<Range<usize>> {
        if from >= to {
            return None;
        }
        let Some(prefilter) = self.prefilter else { return self.match_line(from, to) };
        let (mut way, mut since, mut admitted) = self.way.get();
        let found = loop {
            if way == prefilter.ways() {
                break self.match_line(from, to);
            }
            let Some(hit) = prefilter.find(way, &self.text[from..to]) else { break None };
            let line = line_at(self.text, from, from + hit, to);
            if prefilter.is_enough(&self.text[line.clone()]) {
                break Some(line);
            }
            admitted += 1;
            if admitted > t::ADMITTED_MIN && admitted * t::BYTES_PER_ADMITTED > line.end.saturating_sub(since)
            {
                (way, since, admitted) = (way + 1, line.end, 0);
            }
            if self.match_line(line.start, line.end).is_some() {
                break Some(line);
            }
            from = line.end;
        };
        self.way.set((way, since, admitted));
        found
    }

    /// The same without the prefilter.
    fn match_line(&self, mut from: usize, to: usize) -> Option<Range<usize>> {
        while from < to {
            let (matcher, end) = self.matcher_at(from, to);
            let line = match_line(matcher, self.text, from, end);
            if line.is_some() {
                return line;
            }
            from = end;
        }
        None
    }

    /// The matcher for the lines from `from`, and where they end.
    fn matcher_at(&self, from: usize, to: usize) -> (&'a RegexMatcher, usize) {
        let Some(ascii) = self.ascii else { return (self.matcher.whole(), to) };
        let (mut lines, mut is_ascii) = self.seen.take();
        if !lines.contains(&from) {
            let least = from.saturating_add(t::ASCII_BYTES).min(to);
            let end = memchr::memchr(b'\n', &self.text[least - 1..to]).map_or(to, |end| least + end);
            (lines, is_ascii) = (from..end, self.text[from..end].is_ascii());
        }
        let end = lines.end.min(to);
        self.seen.set((lines, is_ascii));
        (if is_ascii { ascii } else { self.matcher.whole() }, end)
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
