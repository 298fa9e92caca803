//! Patterns -> a matcher for any text, and a small one for text that is all ASCII.
//!
//! In: patterns, and how they are read. Out: the matcher for a text.
//!
//! With Unicode, `\w` has 140,000 characters: the matcher of `\w+_x\(` takes 6 ms to build, and that of ASCII 0.14 ms
//! (Intel guest). In a text that is all ASCII both find the same, and most lines of most trees are. So the large one
//! waits for the first other text.
//!
//! It does not choose texts (`worker`).

use std::sync::OnceLock;

use grep_regex::{Error, RegexMatcher, RegexMatcherBuilder};

/// Patterns whose automaton may be larger could exceed its limit of 100 MiB, and that is an error to tell at once.
const MOST_BYTES: usize = 50 << 20;
/// Bytes of an automaton for each byte of its pattern, at most: `\w`, the largest class of two bytes, takes 39 KB.
const PER_BYTE: usize = 20 << 10;

/// Matches the patterns of a search.
#[derive(Debug)]
pub struct LineMatcher {
    builder: RegexMatcherBuilder,
    /// What `whole` is built from.
    patterns: Vec<String>,
    ascii: Option<RegexMatcher>,
    whole: OnceLock<RegexMatcher>,
}

impl LineMatcher {
    /// Matches any of the patterns as `builder` reads them.
    ///
    /// # Errors
    /// As [`RegexMatcherBuilder::build_many`].
    pub fn new(builder: RegexMatcherBuilder, patterns: &[impl AsRef<str>]) -> Result<Self, Error> {
        let whole = OnceLock::from(builder.build_many(patterns)?);
        Ok(Self { builder, patterns: Vec::new(), ascii: None, whole })
    }

    /// The same, fast for ASCII, if `builder` reads the patterns with Unicode and keeps the limits of its automata.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn with_ascii(builder: RegexMatcherBuilder, patterns: &[impl AsRef<str>]) -> Result<Self, Error> {
        if names_others(patterns) || most_bytes(patterns) > MOST_BYTES {
            return Self::new(builder, patterns);
        }
        // What this refuses, such as `\p{Greek}`, `builder` may take, or else refuses with the better reason.
        let Ok(ascii) = builder.clone().unicode(false).build_many(patterns) else {
            return Self::new(builder, patterns);
        };
        let patterns = patterns.iter().map(|pattern| pattern.as_ref().to_owned()).collect();
        Ok(Self { builder, patterns, ascii: Some(ascii), whole: OnceLock::new() })
    }

    /// The matcher for any text.
    pub(crate) fn whole(&self) -> &RegexMatcher {
        self.whole.get_or_init(|| {
            let built = self.builder.build_many(&self.patterns);
            built.expect("patterns that are right in ASCII, of a small automaton")
        })
    }

    /// The matcher for text that is all ASCII, if it has one of its own.
    pub(crate) fn ascii(&self) -> Option<&RegexMatcher> {
        self.ascii.as_ref()
    }

    /// The matcher for `text`.
    pub(crate) fn of(&self, text: &[u8]) -> &RegexMatcher {
        self.ascii.as_ref().filter(|_| text.is_ascii()).unwrap_or_else(|| self.whole())
    }

    /// Either matcher: for what does not depend on a text.
    pub(crate) fn any(&self) -> &RegexMatcher {
        self.ascii.as_ref().unwrap_or_else(|| self.whole())
    }
}

/// Whether a pattern may name characters that are not ASCII. Without case some match ASCII: U+212A is a k.
fn names_others(patterns: &[impl AsRef<str>]) -> bool {
    let escapes = [r"\x", r"\u", r"\U"];
    let names = |pattern: &str| !pattern.is_ascii() || escapes.iter().any(|escape| pattern.contains(escape));
    patterns.iter().any(|pattern| names(pattern.as_ref()))
}

/// An upper bound of an automaton's size: its pattern, and each repetition that is counted, written out.
fn most_bytes(patterns: &[impl AsRef<str>]) -> usize {
    let one = |pattern: &str| {
        let counts = pattern.split('{').skip(1).map(|rest| {
            let counted = rest.split('}').next().unwrap_or(rest).split(',');
            let most = counted.map(|number| match number.trim() {
                "" => 0,
                number => number.parse().unwrap_or(usize::MAX),
            });
            most.max().unwrap_or_default().saturating_add(1)
        });
        counts.fold(pattern.len().saturating_mul(PER_BYTE), usize::saturating_mul)
    };
    patterns.iter().map(|pattern| one(pattern.as_ref())).fold(0, usize::saturating_add)
}

#[cfg(test)]
mod tests {
    use super::*;
    use grep_matcher::Matcher;
    use proptest::prelude::*;
    use regex_automata::nfa::thompson::NFA;

    fn builder() -> RegexMatcherBuilder {
        let mut builder = RegexMatcherBuilder::new();
        builder.multi_line(true).line_terminator(Some(b'\n'));
        builder
    }

    fn matches(matcher: &RegexMatcher, text: &[u8]) -> Vec<(usize, usize)> {
        let mut found = Vec::new();
        let all = matcher.find_iter(text, |at| {
            found.push((at.start(), at.end()));
            true
        });
        all.map(|()| found).unwrap()
    }

    #[test]
    fn the_large_matcher_waits_for_text_that_needs_it() {
        let matcher = LineMatcher::with_ascii(builder(), &[r"\w+;"]).unwrap();
        assert_eq!(matches(matcher.of(b"a word;"), b"a word;"), [(2, 7)]);
        assert!(matcher.whole.get().is_none());
        let text = "ein Maß;".as_bytes();
        assert_eq!(matches(matcher.of(text), text), [(4, 9)]);
        assert!(matcher.whole.get().is_some());
    }

    #[test]
    fn what_may_be_refused_is_built_at_once() {
        for pattern in
            [r"\p{Greek}", "[é]", "\u{212a}", r"\u{212a}", r"\xe9", r"(?:\w{500}){9}", "a{4294967295}", "("]
        {
            let mut builder = builder();
            builder.case_insensitive(true);
            match LineMatcher::with_ascii(builder.clone(), &[pattern]) {
                Ok(matcher) => assert!(matcher.ascii().is_none(), "{pattern}"),
                Err(_) => assert!(builder.build(pattern).is_err(), "{pattern}"),
            }
        }
    }

    /// `expect` in `whole` relies on it.
    #[test]
    fn no_automaton_is_larger_than_said() {
        let atoms = [
            r"\w",
            r"\W",
            r"\d",
            r"\D",
            r"\s",
            r"\S",
            ".",
            "[^a]",
            r"\b",
            r"\B",
            "k",
            "[a-z]",
            r"(?i)\W",
            r"[\w--\d]",
        ];
        let forms = ["", "*", "?", "{7}", "{3,}", "{2,5}", "{0}", "{0,1}", "|a"];
        for (atom, form) in atoms.iter().flat_map(|atom| forms.map(|form| (atom, form))) {
            for pattern in [format!("{atom}{form}"), format!("(?:{atom}{form}){{3}}{atom}")] {
                let hir = regex_syntax::ParserBuilder::new().utf8(false).build().parse(&pattern).unwrap();
                for reverse in [false, true] {
                    let config = NFA::config().utf8(false).reverse(reverse);
                    let config = config.which_captures(regex_automata::nfa::thompson::WhichCaptures::None);
                    let built = NFA::compiler().configure(config).build_from_hir(&hir).unwrap();
                    assert!(built.memory_usage() <= most_bytes(&[&pattern]), "{pattern}");
                }
            }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(200))]
        #[test]
        fn both_find_the_same_in_ascii(
            parts in proptest::collection::vec(
                r"(\\[wWdDsSbB]|\[\^?[ak_-]\]|[aks0_. ]|\(a\|\\w\)|\u{212a}|\u{17f}|\\x\{212a\}|\\u017F|\\xe9)[*+?]?",
                1..6,
            ),
            ignore_case: bool,
            word: bool,
            text in "[aksKS0_. \t\x0b\x7f\n-]{0,40}",
        ) {
            let mut builder = builder();
            builder.case_insensitive(ignore_case).word(word);
            let matcher = LineMatcher::with_ascii(builder, &[parts.concat()]).unwrap();
            let ascii = matcher.any();
            for line in text.as_bytes().split(|&byte| byte == b'\n') {
                prop_assert_eq!(matches(ascii, line), matches(matcher.whole(), line));
            }
        }
    }
}
