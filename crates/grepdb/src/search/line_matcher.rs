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

/// Bytes of an automaton for each byte of its pattern, at most, if nothing in it is counted: `\w`, the largest class of
/// two bytes, takes 39 KB.
const BYTES_PER_BYTE: usize = 20 << 10;
/// Patterns whose automaton may be larger could exceed its limit of 100 MiB, and that is an error to tell at once.
const PATTERN_BYTES_MAX: usize = (50 << 20) / BYTES_PER_BYTE;

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
        // What this refuses `builder` may take, or else refuses with the better reason.
        let ascii = builder.clone().unicode(false).build_many(patterns);
        let Some(ascii) = ascii.ok().filter(|_| !may_differ(patterns)) else {
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

    pub(crate) fn of(&self, text: &[u8]) -> &RegexMatcher {
        self.ascii.as_ref().filter(|_| text.is_ascii()).unwrap_or_else(|| self.whole())
    }

    /// Either matcher: for what does not depend on a text.
    pub(crate) fn any(&self) -> &RegexMatcher {
        self.ascii.as_ref().unwrap_or_else(|| self.whole())
    }
}

/// Whether patterns may name characters that are not ASCII, or count something in braces. Without case some characters
/// match ASCII: U+212A is a k.
fn may_differ(patterns: &[impl AsRef<str>]) -> bool {
    let names = |pattern: &str| ["{", r"\x", r"\u", r"\U"].iter().any(|part| pattern.contains(part));
    let differs = |pattern: &str| !pattern.is_ascii() || names(pattern);
    patterns.iter().any(|pattern| differs(pattern.as_ref()))
        || patterns.iter().map(|pattern| pattern.as_ref().len()).sum::<usize>() > PATTERN_BYTES_MAX
}

#[cfg(test)]
mod tests {
    use super::*;
    use grep_matcher::Matcher;
    use proptest::prelude::*;
    use regex_automata::nfa::thompson::{NFA, WhichCaptures};

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
        for pattern in [r"\p{Greek}", "[é]", "\u{212a}", r"\u{212a}", r"\xe9", "a{4294967295}", "("] {
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
        let atoms = [r"\w", r"\W", r"\D", r"\S", "[^a]", r"\B", "k", r"(?i)\W", r"[\w--\d]"];
        for (atom, form) in atoms.iter().flat_map(|atom| ["", "*", "+", "?", "|a"].map(|form| (atom, form))) {
            let pattern = format!("(?:{atom}{form})+{atom}");
            let hir = regex_syntax::ParserBuilder::new().utf8(false).build().parse(&pattern).unwrap();
            for reverse in [false, true] {
                let config = NFA::config().utf8(false).reverse(reverse).which_captures(WhichCaptures::None);
                let built = NFA::compiler().configure(config).build_from_hir(&hir).unwrap();
                assert!(built.memory_usage() <= BYTES_PER_BYTE * pattern.len(), "{pattern}");
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
