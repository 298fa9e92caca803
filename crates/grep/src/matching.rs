//! Queries for paths or lines: what matches, how well, and where; and how hits are printed.
//!
//! In: a query and lines. Out: hits in the order of the lines, or the best first. This module does not read lines.

use std::ops::Range;

use faultless_console::{Failure, wants_colour};
use faultless_grepdb::engine::mistake;
use nucleo_matcher::pattern::{AtomKind, CaseMatching, Normalization, Pattern};
use nucleo_matcher::{Config, Matcher, Utf32Str};
use regex::bytes::{Regex, RegexBuilder};

use crate::flags::looks::Color;

/// How a query is meant.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
enum Way {
    /// Regular expression for the whole path (qgrep's fp).
    #[default]
    Path,
    /// Regular expression for the name after the last slash (fn).
    Name,
    /// Words in the name, all required; a word with a slash may be anywhere in the path (fs).
    Words,
    /// Letters in this order; best results first (ff).
    Fuzzy,
}

#[derive(Clone, Debug, Default, clap::Args)]
#[group(skip)]
pub(crate) struct Matching {
    /// Kind of query.
    #[arg(long, value_enum, value_name = "WAY", default_value_t)]
    by: Way,
    /// Ignore case.
    #[arg(short, long)]
    ignore_case: bool,
    /// Show at most N results.
    #[arg(long, value_name = "N")]
    limit: Option<usize>,
    /// When to highlight the matching parts.
    #[arg(long, value_enum, value_name = "WHEN", default_value_t)]
    color: Color,
}

pub(crate) enum Filter {
    /// Expressions that must all match: in the name, or anywhere.
    All(Vec<(Regex, bool)>),
    Fuzzy(Box<Fuzzy>),
}

pub(crate) struct Fuzzy {
    pattern: Pattern,
    matcher: Matcher,
    chars: Vec<char>,
    at: Vec<u32>,
}

/// A line that matches a query.
pub(crate) struct Hit {
    pub(crate) line: Vec<u8>,
    /// Higher is better. 0 if the kind of query has no score.
    score: u32,
    /// Where it matches, if that is shown: ascending byte ranges.
    spans: Vec<Range<usize>>,
}

impl Matching {
    /// The filter of a query. The empty query matches all lines. Without `ignore_case` expressions are case-sensitive;
    /// words and letters are if they contain a capital.
    pub(crate) fn filter(&self, query: &str) -> Result<Filter, Failure> {
        let regex = |pattern: &str, ignore_case| {
            let regex = RegexBuilder::new(pattern).case_insensitive(ignore_case).build();
            // The error of the regular expression has four lines.
            regex.map_err(|error| Failure(mistake(pattern, true).unwrap_or_else(|| error.to_string())))
        };
        let word = |word: &str| {
            let ignore_case = self.ignore_case || !word.chars().any(char::is_uppercase);
            Ok((regex(&regex::escape(word), ignore_case)?, word.contains('/')))
        };
        Ok(match self.by {
            Way::Path | Way::Name => {
                Filter::All(vec![(regex(query, self.ignore_case)?, self.by == Way::Path)])
            }
            Way::Words => Filter::All(query.split_whitespace().map(word).collect::<Result<_, Failure>>()?),
            Way::Fuzzy => {
                let case = if self.ignore_case { CaseMatching::Ignore } else { CaseMatching::Smart };
                Filter::Fuzzy(Box::new(Fuzzy {
                    pattern: Pattern::new(query, case, Normalization::Smart, AtomKind::Fuzzy),
                    matcher: Matcher::new(Config::DEFAULT.match_paths()),
                    chars: Vec::new(),
                    at: Vec::new(),
                }))
            }
        })
    }

    /// The matching `lines` that pass `kept`, up to the limit: in their order, or the best first.
    pub(crate) fn hits(
        &self,
        filter: &mut Filter,
        lines: impl Iterator<Item = Vec<u8>>,
        kept: impl FnMut(&Hit) -> bool,
    ) -> Vec<Hit> {
        let (most, colors) = (self.limit.unwrap_or(usize::MAX), self.colors());
        let hits = lines.filter_map(|line| filter.hit(line, colors));
        match self.by {
            Way::Fuzzy => best(hits.collect()).into_iter().filter(kept).take(most).collect(),
            _ => hits.filter(kept).take(most).collect(),
        }
    }

    /// Sorts hits of several databases, the best first if the query ranks them. Keeps as many as the limit
    /// allows.
    pub(crate) fn best(&self, mut hits: Vec<Hit>) -> Vec<Hit> {
        if self.by == Way::Fuzzy {
            hits = best(hits);
        }
        hits.truncate(self.limit.unwrap_or(usize::MAX));
        hits
    }

    pub(crate) fn show(&self, hit: &Hit, end: u8, out: &mut Vec<u8>) {
        let mut at = 0;
        for span in &hit.spans {
            out.extend_from_slice(&hit.line[at..span.start]);
            out.extend_from_slice(b"\x1b[1m\x1b[31m");
            out.extend_from_slice(&hit.line[span.clone()]);
            out.extend_from_slice(b"\x1b[0m");
            at = span.end;
        }
        out.extend_from_slice(&hit.line[at..]);
        out.push(end);
    }

    fn colors(&self) -> bool {
        match self.color {
            Color::Auto => wants_colour(&std::io::stdout()),
            Color::Always | Color::Ansi => true,
            Color::Never => false,
        }
    }
}

/// The best first. Of two equally good ones the shorter comes first.
fn best(mut hits: Vec<Hit>) -> Vec<Hit> {
    hits.sort_by_key(|hit| (std::cmp::Reverse(hit.score), hit.line.len()));
    hits
}

impl Filter {
    /// The match in `line`, if there is one. With `tell` it says where.
    fn hit(&mut self, line: Vec<u8>, tell: bool) -> Option<Hit> {
        let name = line.iter().rposition(|&byte| byte == b'/').map_or(0, |slash| slash + 1);
        let mut spans = Vec::new();
        let mut score = 0;
        match self {
            Self::All(expressions) => {
                for (regex, anywhere) in expressions {
                    let from = if *anywhere { 0 } else { name };
                    if !regex.is_match(&line[from..]) {
                        return None;
                    }
                    if tell {
                        let found = regex.find_iter(&line[from..]);
                        spans.extend(found.map(|found| from + found.start()..from + found.end()));
                    }
                }
            }
            Self::Fuzzy(fuzzy) => score = fuzzy.score(&line, tell, &mut spans)?,
        }
        Some(Hit { line, score, spans: joined(spans) })
    }
}

impl Fuzzy {
    fn score(&mut self, line: &[u8], tell: bool, spans: &mut Vec<Range<usize>>) -> Option<u32> {
        let line = String::from_utf8_lossy(line);
        let text = Utf32Str::new(&line, &mut self.chars);
        if !tell {
            return self.pattern.score(text, &mut self.matcher);
        }
        self.at.clear();
        let score = self.pattern.indices(text, &mut self.matcher, &mut self.at)?;
        self.at.sort_unstable();
        let chars: Vec<(usize, char)> = line.char_indices().collect();
        let places = self.at.iter().filter_map(|&at| chars.get(at as usize));
        spans.extend(places.map(|&(begin, char)| begin..begin + char.len_utf8()));
        Some(score)
    }
}

/// Sorts spans, merges those that overlap or touch, and drops empty ones.
fn joined(mut spans: Vec<Range<usize>>) -> Vec<Range<usize>> {
    spans.retain(|span| !span.is_empty());
    spans.sort_unstable_by_key(|span| span.start);
    let mut all: Vec<Range<usize>> = Vec::with_capacity(spans.len());
    for span in spans {
        match all.last_mut().filter(|last| last.end >= span.start) {
            Some(last) => last.end = last.end.max(span.end),
            None => all.push(span),
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The spans in `line`, if it matches.
    fn spans(by: Way, query: &str, line: &str) -> Option<Vec<Range<usize>>> {
        let mut filter = Matching { by, ..Matching::default() }.filter(query).unwrap();
        filter.hit(line.into(), true).map(|hit| hit.spans)
    }

    #[test]
    fn case_counts_in_expressions_and_where_there_is_a_capital() {
        let path = "fs/ext4/Makefile";
        assert_eq!(spans(Way::Path, "make", path), None);
        assert!(spans(Way::Words, "make", path).is_some());
        assert_eq!(spans(Way::Words, "MAKE", path), None);
        let any_case = Matching { ignore_case: true, ..Matching::default() };
        assert!(any_case.filter("make").unwrap().hit(path.into(), false).is_some());
        let error = any_case.filter("a(").map(drop).unwrap_err();
        assert_eq!(error.to_string(), "a(: unclosed group at character 2");
    }

    #[test]
    fn a_hit_says_where() {
        assert_eq!(spans(Way::Path, "c", "c/bcc").unwrap(), [0..1, 3..5]);
        assert_eq!(spans(Way::Name, "c", "c/bcac").unwrap(), [3..4, 5..6]);
        assert_eq!(spans(Way::Words, "bc cd", "a/bcdebc").unwrap(), [2..5, 6..8]);
        assert_eq!(spans(Way::Fuzzy, "öc", "a/ö/c").unwrap(), [2..4, 5..6]);
    }
}
