//! A regular expression -> the grams that a line must have to match.
//!
//! In: patterns, as they are searched for. Out: a [`Query`] that holds of every text with a match, and of few others.
//!
//! From the inside out, each part of the expression is known by the strings that it may be, or else by those that it may begin and end
//! with and by what its middle needs; parts that follow each other are put together.
//!
//! What it does not do: look anything up (`select`).
//!
//! Reference: Cox, "Regular Expression Matching with a Trigram Index", 2012.

use std::collections::BTreeSet;

use regex_syntax::ParserBuilder;
use regex_syntax::hir::{Class, Hir, HirKind};

use crate::error::{Error, Result};
use crate::grams::Gram;

/// What must hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Query {
    /// Nothing is known.
    Any,
    /// Nothing matches.
    Nothing,
    Gram(Gram),
    And(Vec<Query>),
    Or(Vec<Query>),
}

impl Query {
    fn and(self, other: Self) -> Self {
        match (self, other) {
            (Self::Any, other) | (other, Self::Any) => other,
            (Self::Nothing, _) | (_, Self::Nothing) => Self::Nothing,
            (Self::And(mut all), Self::And(more)) => {
                all.extend(more);
                Self::And(all)
            }
            (Self::And(mut all), one) | (one, Self::And(mut all)) => {
                all.push(one);
                Self::And(all)
            }
            (one, other) if one == other => one,
            (one, other) => Self::And(vec![one, other]),
        }
    }

    /// Whether every match has one of a few literals.
    pub(crate) fn is_narrow(&self) -> bool {
        match self {
            Self::Any => false,
            Self::Nothing | Self::Gram(_) => true,
            Self::And(parts) => parts.iter().any(Self::is_narrow),
            Self::Or(parts) => parts.len() <= LITERALS_MAX && parts.iter().all(Self::is_narrow),
        }
    }

    fn or(self, other: Self) -> Self {
        match (self, other) {
            (Self::Nothing, other) | (other, Self::Nothing) => other,
            (Self::Any, _) | (_, Self::Any) => Self::Any,
            (Self::Or(mut all), Self::Or(more)) => {
                all.extend(more);
                Self::Or(all)
            }
            (Self::Or(mut all), one) | (one, Self::Or(mut all)) => {
                all.push(one);
                Self::Or(all)
            }
            (one, other) if one == other => one,
            (one, other) => Self::Or(vec![one, other]),
        }
    }
}

/// How patterns are to be read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reading {
    /// Case does not matter.
    pub ignore_case: bool,
    /// Characters, not bytes.
    pub unicode: bool,
    /// Lines may end in CR LF.
    pub crlf: bool,
    /// As text, not as expressions.
    pub fixed: bool,
}

/// What a text must have to match one of `expressions`.
pub(crate) fn query(expressions: &[Hir]) -> Query {
    expressions.iter().fold(Query::Nothing, |query, expression| query.or(Part::of(expression).finish()))
}

/// The expressions that `patterns` are.
///
/// # Errors
/// One is none.
pub(crate) fn parse<S: AsRef<str>>(patterns: &[S], reading: Reading) -> Result<Vec<Hir>> {
    patterns.iter().map(|pattern| expression(pattern.as_ref(), reading)).collect()
}

fn expression(pattern: &str, reading: Reading) -> Result<Hir> {
    let escaped = reading.fixed.then(|| regex_syntax::escape(pattern));
    let mut parser = ParserBuilder::new();
    parser
        .utf8(false)
        .multi_line(true)
        .unicode(reading.unicode)
        .case_insensitive(reading.ignore_case)
        .crlf(reading.crlf);
    let parsed = parser.build().parse(escaped.as_deref().unwrap_or(pattern));
    parsed.map_err(|error| Error::Pattern(error.to_string()))
}

/// Strings in lower case.
type Strings = BTreeSet<Vec<u8>>;

/// A matcher looks for so many literals at once without losing time.
const LITERALS_MAX: usize = 8;
/// More strings than this are not told apart.
const STRINGS_MAX: usize = 24;
/// More characters of a class than this are any.
const CHARS_MAX: usize = 40;
/// Copies of what is repeated that are looked at.
const COPIES_MAX: u32 = 3;
/// So much of a begin or end can be part of a gram with what is before or after it, bytes.
const EDGE_BYTES: usize = 2;

/// What is known of a part of an expression.
#[derive(Clone, Debug)]
struct Part {
    /// It is one of these. Otherwise it begins with one of `begins` and ends with one of `ends`.
    exact: Option<Strings>,
    begins: Strings,
    ends: Strings,
    /// What it needs; nothing that `exact` does not tell.
    query: Query,
}

impl Part {
    fn exact(strings: Strings) -> Self {
        Self { exact: Some(strings), begins: Strings::new(), ends: Strings::new(), query: Query::Any }
    }

    fn empty() -> Self {
        Self::exact(Strings::from([Vec::new()]))
    }

    fn any() -> Self {
        let nothing = Strings::from([Vec::new()]);
        Self { exact: None, begins: nothing.clone(), ends: nothing, query: Query::Any }
    }

    fn of(hir: &Hir) -> Self {
        match hir.kind() {
            HirKind::Empty | HirKind::Look(_) => Self::empty(),
            HirKind::Literal(literal) => Self::exact(Strings::from([literal.0.to_ascii_lowercase()])),
            HirKind::Class(class) => chars(class).map_or_else(Self::any, Self::exact),
            HirKind::Capture(capture) => Self::of(&capture.sub),
            HirKind::Concat(parts) => parts.iter().fold(Self::empty(), |all, part| all.then(Self::of(part))),
            HirKind::Alternation(parts) => {
                let nothing = Self::exact(Strings::new());
                parts.iter().fold(nothing, |any, part| any.or(Self::of(part)))
            }
            HirKind::Repetition(repetition) => {
                let one = Self::of(&repetition.sub);
                if repetition.min == 0 {
                    return if repetition.max == Some(1) { one.or(Self::empty()) } else { Self::any() };
                }
                let copies = repetition.min.min(COPIES_MAX);
                let all = (0..copies).fold(Self::empty(), |all, _| all.then(one.clone()));
                if repetition.max == Some(copies) { all } else { all.edges() }
            }
        }
    }

    /// This, then `next`.
    fn then(self, next: Self) -> Self {
        if let (Some(ours), Some(theirs)) = (&self.exact, &next.exact)
            && ours.len() * theirs.len() <= STRINGS_MAX
        {
            return Self::exact(crossed(ours, theirs));
        }
        let (ours, theirs) = (self.exact.clone(), next.exact.clone());
        let (before, after) = (self.edges(), next.edges());
        let spanning = grams(&crossed(&before.ends, &after.begins));
        Self {
            exact: None,
            begins: ours.map_or(before.begins, |ours| edges(&crossed(&ours, &after.begins), first)),
            ends: theirs.map_or(after.ends, |theirs| edges(&crossed(&before.ends, &theirs), last)),
            query: before.query.and(after.query).and(spanning),
        }
    }

    /// This, or `other`.
    fn or(self, other: Self) -> Self {
        if let (Some(ours), Some(theirs)) = (&self.exact, &other.exact)
            && ours.len() + theirs.len() <= STRINGS_MAX
        {
            return Self::exact(ours | theirs);
        }
        let (ours, theirs) = (self.edges(), other.edges());
        Self {
            exact: None,
            begins: edges(&(&ours.begins | &theirs.begins), first),
            ends: edges(&(&ours.ends | &theirs.ends), last),
            query: ours.query.or(theirs.query),
        }
    }

    /// Without exact strings: what they tell is in the rest.
    fn edges(self) -> Self {
        let Some(exact) = self.exact else { return self };
        Self {
            exact: None,
            begins: edges(&exact, first),
            ends: edges(&exact, last),
            query: self.query.and(grams(&exact)),
        }
    }

    fn finish(self) -> Query {
        self.edges().query
    }
}

/// The characters of a class that has few.
fn chars(class: &Class) -> Option<Strings> {
    let strings: Strings = match class {
        Class::Unicode(class) => {
            let chars = class.ranges().iter().flat_map(|range| range.start()..=range.end());
            let utf8 = |char: char| char.encode_utf8(&mut [0; 4]).as_bytes().to_ascii_lowercase();
            chars.take(CHARS_MAX + 1).map(utf8).collect()
        }
        Class::Bytes(class) => {
            let bytes = class.ranges().iter().flat_map(|range| range.start()..=range.end());
            bytes.take(CHARS_MAX + 1).map(|byte| vec![byte.to_ascii_lowercase()]).collect()
        }
    };
    (strings.len() <= STRINGS_MAX).then_some(strings)
}

/// Every one of `before`, followed by every one of `after`.
fn crossed(before: &Strings, after: &Strings) -> Strings {
    before.iter().flat_map(|before| after.iter().map(|after| [&before[..], after].concat())).collect()
}

fn first(string: &[u8]) -> &[u8] {
    &string[..string.len().min(EDGE_BYTES)]
}

fn last(string: &[u8]) -> &[u8] {
    &string[string.len().saturating_sub(EDGE_BYTES)..]
}

/// What is at one end of `strings`; anything where they are too many.
fn edges(strings: &Strings, edge: fn(&[u8]) -> &[u8]) -> Strings {
    let edges: Strings = strings.iter().map(|string| edge(string).to_vec()).collect();
    if edges.len() > STRINGS_MAX || edges.iter().any(Vec::is_empty) {
        return Strings::from([Vec::new()]);
    }
    edges
}

/// What a text has that holds one of `strings`.
fn grams(strings: &Strings) -> Query {
    if strings.len() > STRINGS_MAX * STRINGS_MAX {
        return Query::Any;
    }
    strings.iter().fold(Query::Nothing, |any, string| {
        let grams = string.windows(3).filter_map(|bytes| Gram::of(bytes.try_into().ok()?));
        any.or(grams.fold(Query::Any, |all, gram| all.and(Query::Gram(gram))))
    })
}

#[cfg(test)]
mod tests;
