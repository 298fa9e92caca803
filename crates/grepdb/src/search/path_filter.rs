//! Filters lines, mostly paths, by a query.
//!
//! In: a query and its kind. Out: for each line whether it matches, how well, and where.
//!
//! It does not read, sort or print lines.

use std::ops::Range;

use nucleo_matcher::pattern::{AtomKind, CaseMatching, Normalization, Pattern};
use nucleo_matcher::{Config, Matcher, Utf32Str};
use regex::bytes::{Regex, RegexBuilder};

use crate::error::{Error, Result};
use crate::search::query::mistake;

/// The kind of a query.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PathQueryKind {
    /// A regular expression for the whole path.
    #[default]
    Path,
    /// A regular expression for the part after the last slash.
    Name,
    /// Words that must all be in the name. A word with a slash must be in the path.
    Words,
    /// Letters that must occur in this order in the path.
    Fuzzy,
}

/// A match in a line.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PathMatch {
    /// Higher is better. 0 if the kind of query has no score.
    pub score: u32,
    /// Where it matches: ascending byte ranges. Empty without [`PathFilter::spans`].
    pub spans: Vec<Range<usize>>,
}

/// A compiled query.
pub struct PathFilter {
    what: CompiledQuery,
    spans: bool,
}

enum CompiledQuery {
    Path(Regex),
    Name(Regex),
    Words(Vec<(Regex, bool)>),
    Fuzzy(Box<Fuzzy>),
}

struct Fuzzy {
    pattern: Pattern,
    matcher: Matcher,
    chars: Vec<char>,
    at: Vec<u32>,
}

impl PathFilter {
    /// Compiles `query`. Without `ignore_case` regular expressions are case-sensitive; words and letters are if they
    /// contain a capital.
    ///
    /// # Errors
    /// It is not a regular expression.
    pub fn new(query: &str, by: PathQueryKind, ignore_case: bool) -> Result<Self> {
        let regex = |pattern: &str, ignore_case| {
            let regex = RegexBuilder::new(pattern).case_insensitive(ignore_case).build();
            // The error of the regular expression has four lines.
            regex.map_err(|error| Error::Pattern(mistake(pattern, true).unwrap_or_else(|| error.to_string())))
        };
        let has_capital = |word: &str| word.chars().any(char::is_uppercase);
        let word = |word: &str| {
            Ok((regex(&regex::escape(word), ignore_case || !has_capital(word))?, word.contains('/')))
        };
        let what = match by {
            PathQueryKind::Path => CompiledQuery::Path(regex(query, ignore_case)?),
            PathQueryKind::Name => CompiledQuery::Name(regex(query, ignore_case)?),
            PathQueryKind::Words => {
                CompiledQuery::Words(query.split_whitespace().map(word).collect::<Result<_>>()?)
            }
            PathQueryKind::Fuzzy => {
                let case = if ignore_case { CaseMatching::Ignore } else { CaseMatching::Smart };
                CompiledQuery::Fuzzy(Box::new(Fuzzy {
                    pattern: Pattern::new(query, case, Normalization::Smart, AtomKind::Fuzzy),
                    matcher: Matcher::new(Config::DEFAULT.match_paths()),
                    chars: Vec::new(),
                    at: Vec::new(),
                }))
            }
        };
        Ok(Self { what, spans: false })
    }

    /// Whether to report spans.
    #[must_use]
    pub fn spans(self, spans: bool) -> Self {
        Self { spans, ..self }
    }

    /// The match in `line`, if there is one.
    pub fn find(&mut self, line: &[u8]) -> Option<PathMatch> {
        let name = memchr::memrchr(b'/', line).map_or(0, |slash| slash + 1);
        let mut spans = Vec::new();
        let mut score = 0;
        match &mut self.what {
            CompiledQuery::Path(regex) => find(regex, line, 0, self.spans, &mut spans)?,
            CompiledQuery::Name(regex) => find(regex, line, name, self.spans, &mut spans)?,
            CompiledQuery::Words(words) => {
                for (word, anywhere) in words {
                    find(word, line, if *anywhere { 0 } else { name }, self.spans, &mut spans)?;
                }
            }
            CompiledQuery::Fuzzy(fuzzy) => score = fuzzy.hit(line, self.spans, &mut spans)?,
        }
        Some(PathMatch { score, spans: joined(spans) })
    }
}

/// Searches `line[from..]` for `regex`. With `tell` it adds every span to `spans`.
fn find(regex: &Regex, line: &[u8], from: usize, tell: bool, spans: &mut Vec<Range<usize>>) -> Option<()> {
    let line = &line[from..];
    if tell {
        let before = spans.len();
        let found = regex.find_iter(line).map(|found| from + found.start()..from + found.end());
        spans.extend(found);
        return (spans.len() > before).then_some(());
    }
    regex.is_match(line).then_some(())
}

impl Fuzzy {
    fn hit(&mut self, line: &[u8], tell: bool, spans: &mut Vec<Range<usize>>) -> Option<u32> {
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

    const PATHS: [&str; 4] =
        ["kernel/sched/core.c", "kernel/sched/core_sched.c", "fs/ext4/Makefile", "net/core/sched.h"];

    fn hits(query: &str, by: PathQueryKind) -> Vec<&'static str> {
        let mut filter = PathFilter::new(query, by, false).unwrap();
        let mut hits: Vec<_> =
            PATHS.iter().filter_map(|path| Some((filter.find(path.as_bytes())?, *path))).collect();
        hits.sort_by_key(|(hit, _)| std::cmp::Reverse(hit.score));
        hits.into_iter().map(|(_, path)| path).collect()
    }

    #[test]
    fn case_counts_in_expressions_and_where_there_is_a_capital() {
        assert_eq!(hits("make", PathQueryKind::Path), [""; 0]);
        assert_eq!(hits("make", PathQueryKind::Words), ["fs/ext4/Makefile"]);
        assert_eq!(hits("MAKE", PathQueryKind::Words), [""; 0]);
        assert!(PathFilter::new("make", PathQueryKind::Path, true).unwrap().find(b"Makefile").is_some());
        let error = PathFilter::new("a(", PathQueryKind::Path, false).map(|_| ()).unwrap_err();
        assert_eq!(error.to_string(), "a(: unclosed group at character 2");
    }

    #[test]
    fn a_hit_says_where() {
        let spans = |query, by, line: &str| -> Vec<(usize, usize)> {
            let mut filter = PathFilter::new(query, by, false).unwrap().spans(true);
            let spans = filter.find(line.as_bytes()).unwrap().spans;
            spans.into_iter().map(|span| (span.start, span.end)).collect()
        };
        assert_eq!(spans("c", PathQueryKind::Path, "c/bcc"), [(0, 1), (3, 5)]);
        assert_eq!(spans("c", PathQueryKind::Name, "c/bcc"), [(3, 5)]);
        assert_eq!(spans("bc cd", PathQueryKind::Words, "a/bcde"), [(2, 5)]);
        assert_eq!(spans("öc", PathQueryKind::Fuzzy, "a/ö/c"), [(2, 4), (5, 6)]);
    }
}
