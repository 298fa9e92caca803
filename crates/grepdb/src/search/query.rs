//! A regular expression -> a query for trigrams.
//!
//! In: patterns, as they are given to the matcher. Out: a [`TrigramQuery`] that every matching text satisfies, and
//! few other texts.
//!
//! The analysis works from the inside out. For each subexpression it knows the set of strings that can match; or else
//! the sets of prefixes and suffixes, and a query for the middle. Subexpressions in sequence are joined.
//!
//! If the case of letters does not matter, the sets of strings double with each letter. So the expression is analysed
//! twice: as it is, and in lower case, with every trigram in all its cases. The query with fewer trigrams is taken.
//!
//! It does not look up trigrams (`candidates`).
//!
//! Reference: Cox, "Regular Expression Matching with a Trigram Index", 2012.

use std::collections::BTreeSet;

use regex_syntax::ParserBuilder;
use regex_syntax::hir::{
    Capture, Class, ClassBytes, ClassBytesRange, ClassUnicode, ClassUnicodeRange, Hir, HirKind, Repetition,
};

use crate::error::{Error, Result};
use crate::index::trigram::Trigram;

/// A condition on the trigrams of a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum TrigramQuery {
    /// Every text satisfies it.
    Any,
    /// No text satisfies it.
    Nothing,
    Trigram(Trigram),
    And(Vec<TrigramQuery>),
    Or(Vec<TrigramQuery>),
}

impl TrigramQuery {
    fn and(self, other: Self) -> Self {
        match (self, other) {
            (Self::Any, other) | (other, Self::Any) => other,
            (Self::Nothing, _) | (_, Self::Nothing) => Self::Nothing,
            (one, other) if one == other => one,
            (Self::And(mut all), other) => {
                all.extend(if let Self::And(more) = other { more } else { vec![other] });
                Self::And(all)
            }
            (one, other) => Self::And(vec![one]).and(other),
        }
    }

    /// The number of trigrams to look up.
    pub(crate) fn trigrams(&self) -> usize {
        match self {
            Self::Any | Self::Nothing => 0,
            Self::Trigram(_) => 1,
            Self::And(parts) | Self::Or(parts) => parts.iter().map(Self::trigrams).sum(),
        }
    }

    /// Whether every match contains the same trigrams.
    fn has_no_alternative(&self) -> bool {
        match self {
            Self::Trigram(_) => true,
            Self::And(parts) => parts.iter().all(Self::has_no_alternative),
            Self::Any | Self::Nothing | Self::Or(_) => false,
        }
    }

    /// Whether every match contains one of a few literals.
    pub(crate) fn is_narrow(&self) -> bool {
        match self {
            Self::Any => false,
            Self::Nothing | Self::Trigram(_) => true,
            Self::And(parts) => parts.iter().any(Self::is_narrow),
            Self::Or(parts) => parts.len() <= LITERALS_MAX && parts.iter().all(Self::is_narrow),
        }
    }

    /// The same query for texts in any case.
    fn in_any_case(self) -> Self {
        let all = |parts: Vec<Self>| parts.into_iter().map(Self::in_any_case);
        match self {
            Self::Trigram(trigram) => {
                trigram.case_variants().into_iter().map(Self::Trigram).fold(Self::Nothing, Self::or)
            }
            Self::And(parts) => Self::And(all(parts).collect()),
            Self::Or(parts) => all(parts).fold(Self::Nothing, Self::or),
            Self::Any | Self::Nothing => self,
        }
    }

    /// Whether a text with these trigrams satisfies it.
    #[cfg(any(fuzzing, test))]
    pub(crate) fn holds(&self, trigrams: &BTreeSet<Trigram>) -> bool {
        match self {
            Self::Any => true,
            Self::Nothing => false,
            Self::Trigram(trigram) => trigrams.contains(trigram),
            Self::And(parts) => parts.iter().all(|part| part.holds(trigrams)),
            Self::Or(parts) => parts.iter().any(|part| part.holds(trigrams)),
        }
    }

    fn or(self, other: Self) -> Self {
        match (self, other) {
            (Self::Nothing, other) | (other, Self::Nothing) => other,
            (Self::Any, _) | (_, Self::Any) => Self::Any,
            (one, other) if one == other => one,
            (Self::Or(mut all), other) => {
                all.extend(if let Self::Or(more) = other { more } else { vec![other] });
                Self::Or(all)
            }
            (one, other) => Self::Or(vec![one]).or(other),
        }
    }
}

/// How to read patterns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PatternOptions {
    /// Ignore case.
    pub ignore_case: bool,
    /// Match characters instead of bytes.
    pub unicode: bool,
    /// Lines may end with CR LF.
    pub crlf: bool,
    /// Patterns are literal text.
    pub fixed: bool,
    /// The matcher takes `\n` out of classes: every match lies in one line, which it ends.
    pub by_line: bool,
    /// The matcher reads the patterns with these options and adds no condition, such as one on words.
    pub is_plain: bool,
}

/// The query for a match of one of `expressions`.
pub(crate) fn trigram_query(expressions: &[Hir]) -> TrigramQuery {
    let analysed = |case| {
        let query = |expression| ExprInfo::of(expression, case).finish();
        expressions.iter().map(query).fold(TrigramQuery::Nothing, TrigramQuery::or)
    };
    let exact = analysed(Case::Exact);
    // The other analysis could not find fewer trigrams.
    if exact.has_no_alternative() {
        return exact;
    }
    let folded = analysed(Case::Folded).in_any_case();
    if exact != TrigramQuery::Any && exact.trigrams() <= folded.trigrams() { exact } else { folded }
}

/// Whether an analysis tells upper from lower case.
#[derive(Clone, Copy)]
enum Case {
    Exact,
    /// All letters are in lower case.
    Folded,
}

impl Case {
    fn of(self, text: &[u8]) -> Vec<u8> {
        match self {
            Self::Exact => text.to_vec(),
            Self::Folded => text.to_ascii_lowercase(),
        }
    }
}

pub(crate) fn parse<S: AsRef<str>>(patterns: &[S], options: PatternOptions) -> Result<Vec<Hir>> {
    patterns.iter().map(|pattern| expression(pattern.as_ref(), options)).collect()
}

fn expression(pattern: &str, options: PatternOptions) -> Result<Hir> {
    let escaped = options.fixed.then(|| regex_syntax::escape(pattern));
    let mut parser = ParserBuilder::new();
    parser
        .utf8(false)
        .multi_line(true)
        .unicode(options.unicode)
        .case_insensitive(options.ignore_case)
        .crlf(options.crlf);
    let parsed = parser.build().parse(escaped.as_deref().unwrap_or(pattern));
    let parsed = parsed.map_err(|error| Error::Pattern(error.to_string()))?;
    Ok(if options.by_line { without_line_ends(parsed) } else { parsed })
}

/// Takes `\n` out of all classes. No trigram holds a line end, so `\s` would otherwise say nothing of its neighbours.
fn without_line_ends(hir: Hir) -> Hir {
    let all = |parts: Vec<Hir>| parts.into_iter().map(without_line_ends).collect();
    match hir.into_kind() {
        HirKind::Empty => Hir::empty(),
        HirKind::Literal(literal) => Hir::literal(literal.0),
        HirKind::Look(look) => Hir::look(look),
        HirKind::Class(Class::Unicode(mut class)) => {
            class.difference(&ClassUnicode::new([ClassUnicodeRange::new('\n', '\n')]));
            Hir::class(Class::Unicode(class))
        }
        HirKind::Class(Class::Bytes(mut class)) => {
            class.difference(&ClassBytes::new([ClassBytesRange::new(b'\n', b'\n')]));
            Hir::class(Class::Bytes(class))
        }
        HirKind::Repetition(part) => {
            Hir::repetition(Repetition { sub: Box::new(without_line_ends(*part.sub)), ..part })
        }
        HirKind::Capture(part) => {
            Hir::capture(Capture { sub: Box::new(without_line_ends(*part.sub)), ..part })
        }
        HirKind::Concat(parts) => Hir::concat(all(parts)),
        HirKind::Alternation(parts) => Hir::alternation(all(parts)),
    }
}

/// The mistake in a regular expression, and its character. `None` if the expression is valid.
#[must_use]
pub fn mistake(pattern: &str, unicode: bool) -> Option<String> {
    let error = ParserBuilder::new().unicode(unicode).utf8(false).build().parse(pattern).err()?;
    let (what, begin) = match &error {
        regex_syntax::Error::Parse(error) => (error.kind().to_string(), error.span().start.offset),
        regex_syntax::Error::Translate(error) => (error.kind().to_string(), error.span().start.offset),
        _ => return None,
    };
    let at = pattern[..begin].chars().count() + 1;
    Some(format!("{}: {what} at character {at}", pattern.replace('\n', "\\n")))
}

type Strings = BTreeSet<Vec<u8>>;

/// Matchers search for this many literals at once without losing speed.
const LITERALS_MAX: usize = 8;
/// Larger sets of strings are given up, and larger character classes count as any character. `[A-Za-z0-9_]` has 63.
const STRINGS_MAX: usize = 63;
/// Trigrams of a set of strings that are looked up.
const ALTERNATIVES_MAX: usize = 576;
/// Copies of a repeated subexpression that are analysed.
const COPIES_MAX: u32 = 3;
/// Bytes of a prefix or suffix that can form a trigram with their neighbours.
const EDGE_BYTES: usize = 2;

/// The strings and trigrams in every match of a subexpression.
#[derive(Clone, Debug)]
struct ExprInfo {
    /// All possible matches. If this is `None`, a match begins with one of `prefixes` and ends with one of
    /// `suffixes`.
    exact: Option<Strings>,
    prefixes: Strings,
    suffixes: Strings,
    /// The query for the whole subexpression, without what `exact` says.
    query: TrigramQuery,
}

impl ExprInfo {
    fn exact(strings: Strings) -> Self {
        Self {
            exact: Some(strings),
            prefixes: Strings::new(),
            suffixes: Strings::new(),
            query: TrigramQuery::Any,
        }
    }

    fn empty() -> Self {
        Self::exact(Strings::from([Vec::new()]))
    }

    fn any() -> Self {
        let nothing = Strings::from([Vec::new()]);
        Self { exact: None, prefixes: nothing.clone(), suffixes: nothing, query: TrigramQuery::Any }
    }

    fn of(hir: &Hir, case: Case) -> Self {
        let of = |hir| Self::of(hir, case);
        match hir.kind() {
            HirKind::Empty | HirKind::Look(_) => Self::empty(),
            HirKind::Literal(literal) => Self::exact(Strings::from([case.of(&literal.0)])),
            HirKind::Class(class) => chars(class, case).map_or_else(Self::any, Self::exact),
            HirKind::Capture(capture) => of(&capture.sub),
            HirKind::Concat(parts) => parts.iter().fold(Self::empty(), |all, part| all.then(of(part))),
            HirKind::Alternation(parts) => {
                let nothing = Self::exact(Strings::new());
                parts.iter().fold(nothing, |any, part| any.or(of(part)))
            }
            HirKind::Repetition(repetition) => {
                let one = of(&repetition.sub);
                if repetition.min == 0 {
                    return if repetition.max == Some(1) { one.or(Self::empty()) } else { Self::any() };
                }
                let copies = repetition.min.min(COPIES_MAX);
                let all = (0..copies).fold(Self::empty(), |all, _| all.then(one.clone()));
                if repetition.max == Some(copies) { all } else { all.without_exact() }
            }
        }
    }

    /// This subexpression, followed by `next`.
    fn then(self, next: Self) -> Self {
        if let (Some(ours), Some(theirs)) = (&self.exact, &next.exact)
            && ours.len() * theirs.len() <= STRINGS_MAX
        {
            return Self::exact(crossed(ours, theirs));
        }
        let (ours, theirs) = (self.exact.clone(), next.exact.clone());
        let (before, after) = (self.without_exact(), next.without_exact());
        let spanning = trigrams(&crossed(&before.suffixes, &after.prefixes));
        Self {
            exact: None,
            prefixes: ours
                .map_or(before.prefixes, |ours| shortened(&crossed(&ours, &after.prefixes), prefix)),
            suffixes: theirs
                .map_or(after.suffixes, |theirs| shortened(&crossed(&before.suffixes, &theirs), suffix)),
            query: before.query.and(after.query).and(spanning),
        }
    }

    /// This subexpression, or `other`.
    fn or(self, other: Self) -> Self {
        if let (Some(ours), Some(theirs)) = (&self.exact, &other.exact)
            && ours.len() + theirs.len() <= STRINGS_MAX
        {
            return Self::exact(ours | theirs);
        }
        let (ours, theirs) = (self.without_exact(), other.without_exact());
        Self {
            exact: None,
            prefixes: shortened(&(&ours.prefixes | &theirs.prefixes), prefix),
            suffixes: shortened(&(&ours.suffixes | &theirs.suffixes), suffix),
            query: ours.query.or(theirs.query),
        }
    }

    /// Moves `exact` into the other fields.
    fn without_exact(self) -> Self {
        let Some(exact) = self.exact else { return self };
        Self {
            exact: None,
            prefixes: shortened(&exact, prefix),
            suffixes: shortened(&exact, suffix),
            query: self.query.and(trigrams(&exact)),
        }
    }

    fn finish(self) -> TrigramQuery {
        self.without_exact().query
    }
}

/// The characters of a small class.
fn chars(class: &Class, case: Case) -> Option<Strings> {
    // Characters are counted before folding makes some of them equal.
    let strings: Vec<Vec<u8>> = match class {
        Class::Unicode(class) => {
            let chars = class.ranges().iter().flat_map(|range| range.start()..=range.end());
            let utf8 = |char: char| case.of(char.encode_utf8(&mut [0; 4]).as_bytes());
            chars.take(STRINGS_MAX + 1).map(utf8).collect()
        }
        Class::Bytes(class) => {
            let bytes = class.ranges().iter().flat_map(|range| range.start()..=range.end());
            bytes.take(STRINGS_MAX + 1).map(|byte| case.of(&[byte])).collect()
        }
    };
    (strings.len() <= STRINGS_MAX).then(|| Strings::from_iter(strings))
}

/// Every concatenation of one of `before` and one of `after`.
fn crossed(before: &Strings, after: &Strings) -> Strings {
    before.iter().flat_map(|before| after.iter().map(|after| [&before[..], after].concat())).collect()
}

fn prefix(string: &[u8]) -> &[u8] {
    &string[..string.len().min(EDGE_BYTES)]
}

fn suffix(string: &[u8]) -> &[u8] {
    &string[string.len().saturating_sub(EDGE_BYTES)..]
}

/// The prefixes or suffixes of `strings`. Too many of them become one empty string, which says nothing.
fn shortened(strings: &Strings, edge: fn(&[u8]) -> &[u8]) -> Strings {
    let edges: Strings = strings.iter().map(|string| edge(string).to_vec()).collect();
    if edges.len() > STRINGS_MAX || edges.iter().any(Vec::is_empty) {
        return Strings::from([Vec::new()]);
    }
    edges
}

/// The query for a text that contains one of `strings`.
fn trigrams(strings: &Strings) -> TrigramQuery {
    if strings.len() > ALTERNATIVES_MAX {
        return TrigramQuery::Any;
    }
    strings.iter().fold(TrigramQuery::Nothing, |any, string| {
        let trigrams = string.windows(3).filter_map(|bytes| Trigram::of(bytes.try_into().ok()?));
        any.or(trigrams.fold(TrigramQuery::Any, |all, trigram| all.and(TrigramQuery::Trigram(trigram))))
    })
}

#[cfg(test)]
mod tests;
