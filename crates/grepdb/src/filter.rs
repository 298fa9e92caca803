//! Lines -> those that a query is about: paths mostly.
//!
//! In: a query and how it is meant. Out: for each line whether it hits, how well, and where.
//!
//! What it does not do: read lines, sort them, or print.

use std::ops::Range;

use nucleo_matcher::pattern::{AtomKind, CaseMatching, Normalization, Pattern};
use nucleo_matcher::{Config, Matcher, Utf32Str};
use regex::bytes::{Regex, RegexBuilder};

use crate::error::{Error, Result};

/// What a query is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum By {
    /// A regular expression for the whole path.
    #[default]
    Path,
    /// A regular expression for what follows the last slash.
    Name,
    /// Words that all must be in the name; one with a slash in it must be in the path.
    Words,
    /// Letters that come in this order in the path; the best first.
    Fuzzy,
}

/// A line that hits.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Hit {
    /// How well: more is better; 0 where the query does not tell.
    pub score: u32,
    /// Where, as ranges of bytes in order. Only with [`Filter::spans`].
    pub spans: Vec<Range<usize>>,
}

/// A query.
pub struct Filter {
    what: What,
    spans: bool,
}

enum What {
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

impl Filter {
    /// The query `query`. Without `ignore_case` an expression minds the case, and words and letters do where they have a capital.
    ///
    /// # Errors
    /// It is no regular expression.
    pub fn new(query: &str, by: By, ignore_case: bool) -> Result<Self> {
        let regex = |pattern: &str, ignore_case| {
            let regex = RegexBuilder::new(pattern).case_insensitive(ignore_case).build();
            regex.map_err(|error| Error::Pattern(error.to_string()))
        };
        let has_capital = |word: &str| word.chars().any(char::is_uppercase);
        let word = |word: &str| {
            Ok((regex(&regex::escape(word), ignore_case || !has_capital(word))?, word.contains('/')))
        };
        let what = match by {
            By::Path => What::Path(regex(query, ignore_case)?),
            By::Name => What::Name(regex(query, ignore_case)?),
            By::Words => What::Words(query.split_whitespace().map(word).collect::<Result<_>>()?),
            By::Fuzzy => {
                let case = if ignore_case { CaseMatching::Ignore } else { CaseMatching::Smart };
                What::Fuzzy(Box::new(Fuzzy {
                    pattern: Pattern::new(query, case, Normalization::Smart, AtomKind::Fuzzy),
                    matcher: Matcher::new(Config::DEFAULT.match_paths()),
                    chars: Vec::new(),
                    at: Vec::new(),
                }))
            }
        };
        Ok(Self { what, spans: false })
    }

    /// Also says where.
    #[must_use]
    pub fn spans(self, spans: bool) -> Self {
        Self { spans, ..self }
    }

    /// Whether `line` hits.
    pub fn hit(&mut self, line: &[u8]) -> Option<Hit> {
        let name = memchr::memrchr(b'/', line).map_or(0, |slash| slash + 1);
        let mut spans = Vec::new();
        let mut score = 0;
        match &mut self.what {
            What::Path(regex) => find(regex, line, 0, self.spans, &mut spans)?,
            What::Name(regex) => find(regex, line, name, self.spans, &mut spans)?,
            What::Words(words) => {
                for (word, anywhere) in words {
                    find(word, line, if *anywhere { 0 } else { name }, self.spans, &mut spans)?;
                }
            }
            What::Fuzzy(fuzzy) => score = fuzzy.hit(line, self.spans, &mut spans)?,
        }
        Some(Hit { score, spans: joined(spans) })
    }
}

/// Whether `regex` is in `line` from `from` on.
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

/// In order, those that touch as one, none of them empty.
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

    fn hits(query: &str, by: By) -> Vec<&'static str> {
        let mut filter = Filter::new(query, by, false).unwrap();
        let mut hits: Vec<_> =
            PATHS.iter().filter_map(|path| Some((filter.hit(path.as_bytes())?, *path))).collect();
        hits.sort_by_key(|(hit, _)| std::cmp::Reverse(hit.score));
        hits.into_iter().map(|(_, path)| path).collect()
    }

    #[test]
    fn a_query_is_about_the_path_the_name_words_or_letters() {
        assert_eq!(hits("sched/.*c$", By::Path), &PATHS[..2]);
        assert_eq!(hits("^core", By::Name), &PATHS[..2]);
        assert_eq!(hits("sched core", By::Words), ["kernel/sched/core_sched.c"]);
        assert_eq!(hits("core/ sched", By::Words), ["net/core/sched.h"]);
        assert_eq!(hits("schdcore", By::Fuzzy)[0], "kernel/sched/core.c");
        assert_eq!(hits("xyz", By::Fuzzy), [""; 0]);
    }

    #[test]
    fn case_counts_in_expressions_and_where_there_is_a_capital() {
        assert_eq!(hits("make", By::Path), [""; 0]);
        assert_eq!(hits("make", By::Words), ["fs/ext4/Makefile"]);
        assert_eq!(hits("MAKE", By::Words), [""; 0]);
        assert!(Filter::new("make", By::Path, true).unwrap().hit(b"Makefile").is_some());
        assert!(Filter::new("(", By::Path, false).is_err());
    }

    #[test]
    fn a_hit_says_where() {
        let spans = |query, by, line: &str| -> Vec<(usize, usize)> {
            let mut filter = Filter::new(query, by, false).unwrap().spans(true);
            let spans = filter.hit(line.as_bytes()).unwrap().spans;
            spans.into_iter().map(|span| (span.start, span.end)).collect()
        };
        assert_eq!(spans("c", By::Path, "c/bcc"), [(0, 1), (3, 5)]);
        assert_eq!(spans("c", By::Name, "c/bcc"), [(3, 5)]);
        assert_eq!(spans("bc cd", By::Words, "a/bcde"), [(2, 5)]);
        assert_eq!(spans("öc", By::Fuzzy, "a/ö/c"), [(2, 4), (5, 6)]);
    }
}
