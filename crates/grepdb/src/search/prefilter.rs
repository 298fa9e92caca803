//! A regular expression -> needles to look for in a text before the matcher runs.
//!
//! In: expressions, and text. Out: a [`Prefilter`]: literals or byte classes that every match contains, the rarest
//! first.
//!
//! `fooo?bar` contains `foo` and `bar`. A search for one of them takes a third of the time that the matcher needs for
//! `foobar` and `fooobar`. `[a-z]+_[0-9]+x[0-9]+` contains a letter, `_` and a digit. A search for these, 16 bytes at
//! a time, takes a tenth of the time of the automaton.
//!
//! It does not run the matcher.

use memchr::memmem::Finder;
use regex_syntax::hir::{Class, Hir, HirKind, Look};

use crate::search::byte_class::{ByteClass, ClassSequence, RANGES_MAX, SEQUENCE_LEN_MAX, find};

/// Needles that are tried.
const NEEDLES_MAX: usize = 12;
/// Classes kept at either edge of a subexpression. Patterns may have any length.
const EDGE_LEN_MAX: usize = 64;
/// Sequences kept of a subexpression.
const SEQUENCES_MAX: usize = 64;
/// Shorter literals are too frequent.
const LITERAL_BYTES_MIN: usize = 3;
/// Needles that are checked in a line with the rarest one.
const OTHERS_MAX: usize = 2;
/// A class sequence that occurs more often than once in this many bytes is no help.
const BYTES_PER_HIT_MIN: usize = 100;
/// The same for a literal. The matcher itself is fast with literals. 512 to 4096 differ by at most 4 % (nine
/// queries).
const BYTES_PER_LITERAL_MIN: usize = 1 << 10;

/// The class sequences in every match of a subexpression.
#[derive(Clone, Debug, Default)]
struct ExprInfo {
    /// The whole match. If this is `None`, only the other fields are known.
    exact: Option<ClassSequence>,
    prefix: ClassSequence,
    suffix: ClassSequence,
    /// Sequences anywhere in the match.
    inner: Vec<ClassSequence>,
}

impl ExprInfo {
    fn exact(sequence: ClassSequence) -> Self {
        Self { exact: Some(sequence), ..Self::default() }
    }

    fn new(hir: &Hir) -> Self {
        match hir.kind() {
            HirKind::Empty | HirKind::Look(_) => Self::exact(Vec::new()),
            HirKind::Literal(literal) => {
                Self::exact(literal.0.iter().map(|&byte| ByteClass::single(byte)).collect())
            }
            HirKind::Class(class) => Self::class(class),
            HirKind::Capture(capture) => Self::new(&capture.sub),
            HirKind::Concat(parts) => {
                parts.iter().fold(Self::exact(Vec::new()), |all, part| all.then(Self::new(part)))
            }
            HirKind::Alternation(parts) => parts.iter().map(Self::new).reduce(Self::or).unwrap_or_default(),
            HirKind::Repetition(repetition) if repetition.min == 0 => Self::default(),
            HirKind::Repetition(repetition) => {
                let one = Self::new(&repetition.sub);
                if repetition.max == Some(1) { one } else { one.without_exact() }
            }
        }
    }

    /// Only the first and the last byte of a character of several bytes have a neighbour outside the class.
    fn class(class: &Class) -> Self {
        let (class, is_one_byte) = ByteClass::of(class);
        let sequence = vec![class];
        if is_one_byte {
            Self::exact(sequence)
        } else {
            Self { prefix: sequence.clone(), suffix: sequence, ..Self::default() }
        }
    }

    fn then(self, next: Self) -> Self {
        if let (Some(ours), Some(theirs)) = (&self.exact, &next.exact)
            && ours.len() + theirs.len() <= EDGE_LEN_MAX
        {
            return Self::exact([&ours[..], theirs].concat());
        }
        let (ours, theirs) = (self.exact.clone(), next.exact.clone());
        let (mut before, after) = (self.without_exact(), next.without_exact());
        before.inner.extend(after.inner);
        before.inner.push([&before.suffix[..], &after.prefix].concat());
        before.inner.truncate(SEQUENCES_MAX);
        Self {
            exact: None,
            prefix: ours.map_or(before.prefix, |ours| prefix(&[ours, after.prefix].concat())),
            suffix: theirs.map_or(after.suffix, |theirs| suffix(&[before.suffix, theirs].concat())),
            inner: before.inner,
        }
    }

    fn or(self, other: Self) -> Self {
        if let (Some(ours), Some(theirs)) = (&self.exact, &other.exact)
            && ours.len() == theirs.len()
        {
            return Self::exact(union(ours, theirs));
        }
        let (ours, theirs) = (self.without_exact(), other.without_exact());
        let reversed = |sequence: &ClassSequence| sequence.iter().rev().cloned().collect::<ClassSequence>();
        Self {
            exact: None,
            prefix: union(&ours.prefix, &theirs.prefix),
            suffix: reversed(&union(&reversed(&ours.suffix), &reversed(&theirs.suffix))),
            inner: Vec::new(),
        }
    }

    /// Moves `exact` into the other fields.
    fn without_exact(self) -> Self {
        let Some(exact) = self.exact else { return self };
        Self { exact: None, prefix: prefix(&exact), suffix: suffix(&exact), inner: vec![exact] }
    }
}

fn prefix(sequence: &[ByteClass]) -> ClassSequence {
    sequence[..sequence.len().min(EDGE_LEN_MAX)].to_vec()
}

fn suffix(sequence: &[ByteClass]) -> ClassSequence {
    sequence[sequence.len().saturating_sub(EDGE_LEN_MAX)..].to_vec()
}

/// The classes of both, position by position, up to the length of the shorter.
fn union(one: &ClassSequence, other: &ClassSequence) -> ClassSequence {
    one.iter().zip(other).map(|(one, other)| one.union(other)).collect()
}

/// Something that every match contains.
#[derive(Clone, Debug)]
enum Needle {
    Classes(ClassSequence),
    Literal(Box<Finder<'static>>),
}

impl Needle {
    /// The first position in `text[from..to]` at which it begins. The match may end beyond `to`.
    fn find(&self, text: &[u8], from: usize, to: usize) -> Option<usize> {
        match self {
            Self::Classes(sequence) => find(sequence, text, from, to),
            Self::Literal(literal) => {
                let end = text.len().min(to + literal.needle().len() - 1);
                Some(from + literal.find(text.get(from..end)?)?)
            }
        }
    }
}

/// All needles of a pattern.
#[derive(Clone, Debug)]
pub(crate) struct NeedleSet {
    needles: Vec<Needle>,
    /// One of them ends with a line end. A last line without one may match, too.
    has_line_end: bool,
    /// A needle that occurs more often than once in this many bytes is no help.
    bytes_per_hit_min: usize,
}

impl NeedleSet {
    pub(crate) const NONE: Self = Self { needles: Vec::new(), has_line_end: false, bytes_per_hit_min: 1 };

    /// The needles of `expressions`: literals if `has_literals`, else class sequences. Several expressions have none
    /// in common. `by_line`: every match lies in one line, which it ends.
    pub(crate) fn new(expressions: &[Hir], has_literals: bool, by_line: bool) -> Self {
        let [expression] = expressions else { return Self::NONE };
        let info = ExprInfo::new(expression);
        // For a single literal the matcher does the same itself.
        if has_literals && info.exact.is_some() {
            return Self::NONE;
        }
        let info = info.without_exact();
        let sequences = info.inner.iter().chain([&info.prefix, &info.suffix]);
        if has_literals {
            let needles = literals(sequences);
            return Self { needles, has_line_end: false, bytes_per_hit_min: BYTES_PER_LITERAL_MIN };
        }
        let at_end = (by_line && ends_line(expression) && !info.suffix.is_empty()).then(|| {
            let known = info.suffix.len().saturating_sub(SEQUENCE_LEN_MAX - 1);
            [&info.suffix[known..], &[ByteClass::single(b'\n')]].concat()
        });
        Self {
            needles: windows(at_end.iter().chain(sequences)),
            has_line_end: at_end.is_some(),
            bytes_per_hit_min: BYTES_PER_HIT_MIN,
        }
    }

    /// Statistics without any text yet.
    pub(crate) fn stats(&self) -> NeedleStats<'_> {
        NeedleStats { needles: self, counts: vec![0; self.needles.len()], bytes: 0 }
    }
}

/// Whether an expression has `$` at its end.
fn ends_line(hir: &Hir) -> bool {
    let HirKind::Concat(parts) = hir.kind() else { return false };
    parts.last().is_some_and(|last| *last.kind() == HirKind::Look(Look::EndLF))
}

/// The literals in `sequences`.
fn literals<'s>(sequences: impl Iterator<Item = &'s ClassSequence>) -> Vec<Needle> {
    let mut literals: Vec<Vec<u8>> = Vec::new();
    for sequence in sequences {
        let bytes: Vec<Option<u8>> = sequence.iter().map(ByteClass::byte).collect();
        for run in bytes.split(Option::is_none) {
            let literal: Vec<u8> = run.iter().copied().flatten().collect();
            let is_useful = literals.len() < NEEDLES_MAX && literal.len() >= LITERAL_BYTES_MIN;
            if is_useful && !literals.contains(&literal) {
                literals.push(literal);
            }
        }
    }
    literals.iter().map(|literal| Needle::Literal(Box::new(Finder::new(literal).into_owned()))).collect()
}

/// Two or three consecutive classes of `sequences`, or single classes if there is nothing longer.
fn windows<'s>(sequences: impl Iterator<Item = &'s ClassSequence> + Clone) -> Vec<Needle> {
    let longest = sequences.clone().map(Vec::len).max().unwrap_or_default();
    let mut windows: Vec<&[ByteClass]> = Vec::new();
    for sequence in sequences.filter(|sequence| sequence.len() >= longest.clamp(1, 2)) {
        for window in sequence.windows(sequence.len().min(SEQUENCE_LEN_MAX)) {
            let is_useful =
                windows.len() < NEEDLES_MAX && window.iter().all(|class| class.ranges() <= RANGES_MAX);
            if is_useful && !windows.contains(&window) {
                windows.push(window);
            }
        }
    }
    windows.into_iter().map(|window| Needle::Classes(window.to_vec())).collect()
}

/// How often each needle occurs in the texts so far.
#[derive(Clone, Debug)]
pub(crate) struct NeedleStats<'n> {
    needles: &'n NeedleSet,
    counts: Vec<usize>,
    bytes: usize,
}

impl<'n> NeedleStats<'n> {
    /// Counts the needles in `text`, then chooses the rarest ones. Returns `None` if even the rarest is too frequent
    /// to help.
    pub(crate) fn choose(&mut self, text: &[u8]) -> Option<Prefilter<'n>> {
        self.bytes += text.len();
        let count_max = self.bytes / self.needles.bytes_per_hit_min;
        for (count, needle) in self.counts.iter_mut().zip(&self.needles.needles) {
            let mut at = 0;
            // Counting a needle beyond the limit would take as long as the search itself.
            while *count <= count_max
                && let Some(found) = needle.find(text, at, text.len())
            {
                (*count, at) = (*count + 1, found + 1);
            }
        }
        let mut by_count: Vec<(usize, &Needle)> =
            self.counts.iter().copied().zip(&self.needles.needles).collect();
        by_count.sort_by_key(|(count, _)| *count);
        let (least, rarest) = *by_count.first()?;
        let others = by_count[1..].iter().take(OTHERS_MAX).map(|(_, needle)| *needle).collect();
        (least <= count_max).then_some(Prefilter { rarest, others, set: self.needles })
    }
}

/// The rarest needles of a pattern.
#[derive(Clone, Debug)]
pub(crate) struct Prefilter<'n> {
    rarest: &'n Needle,
    others: Vec<&'n Needle>,
    set: &'n NeedleSet,
}

/// A line that the prefilter admits costs this many times as much as a hit, because the matcher runs as well.
const ADMITTED_COST: usize = 4;
/// Lines that say little yet.
const FEW_LINES: usize = 8;

impl Prefilter<'_> {
    /// Whether it admits every line of `text` that matches.
    pub(crate) fn is_for(&self, text: &[u8]) -> bool {
        !self.set.has_line_end || text.ends_with(b"\n")
    }

    /// Whether this many admitted lines in this many bytes are too many to help.
    pub(crate) fn admits_many(&self, lines: usize, bytes: usize) -> bool {
        lines > FEW_LINES && lines * self.set.bytes_per_hit_min * ADMITTED_COST > bytes
    }

    /// The first position in `text[from..to]` at which the rarest needle begins. The match may end beyond `to`.
    pub(crate) fn find(&self, text: &[u8], from: usize, to: usize) -> Option<usize> {
        self.rarest.find(text, from, to)
    }

    /// Whether `line`, which contains the rarest needle, contains the others too.
    pub(crate) fn admits(&self, line: &[u8]) -> bool {
        self.others.iter().all(|needle| needle.find(line, 0, line.len()).is_some())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::search::query::{PatternOptions, parse};

    fn parsed(pattern: &str) -> Vec<Hir> {
        parse(&[pattern], PatternOptions { unicode: true, ..PatternOptions::default() }).unwrap()
    }

    fn of(pattern: &str, has_literals: bool) -> NeedleSet {
        NeedleSet::new(&parsed(pattern), has_literals, false)
    }

    fn sequences(pattern: &str) -> Vec<ClassSequence> {
        let classes =
            |needle| if let Needle::Classes(classes) = needle { classes } else { panic!("{needle:?}") };
        of(pattern, false).needles.into_iter().map(classes).collect()
    }

    fn literals(pattern: &str) -> Vec<String> {
        let text = |sequence: &_| match sequence {
            Needle::Literal(bytes) => String::from_utf8(bytes.needle().to_vec()).unwrap(),
            Needle::Classes(_) => panic!("{sequence:?}"),
        };
        of(pattern, true).needles.iter().map(text).collect()
    }

    fn class(ranges: &[(char, char)]) -> ByteClass {
        ByteClass::new(ranges.iter().map(|&(first, last)| (first as u8, last as u8)))
    }

    #[test]
    fn what_stands_next_to_each_other_in_every_match_is_found() {
        let (letter, digit) = (class(&[('a', 'z')]), class(&[('0', '9')]));
        let byte = |byte: char| class(&[(byte, byte)]);
        let found = sequences("[a-z]+_[0-9]+x[0-9]+");
        assert!(found.contains(&vec![letter.clone(), byte('_'), digit.clone()]), "{found:?}");
        assert!(found.contains(&vec![digit.clone(), byte('x'), digit]), "{found:?}");
        assert!(sequences("a*b?").is_empty());
        assert!(sequences(r"(ab|cd)e").contains(&vec![
            class(&[('a', 'a'), ('c', 'c')]),
            class(&[('b', 'b'), ('d', 'd')]),
            byte('e')
        ]));
    }

    #[test]
    fn a_line_end_is_a_needle_with_what_comes_before_it() {
        let by_line = PatternOptions { by_line: true, ..PatternOptions::default() };
        let set = |pattern| NeedleSet::new(&parse(&[pattern], by_line).unwrap(), false, true);
        let needles = set(r"[;,][ \t\n]+$");
        let prefilter_of = |text: &[u8]| needles.stats().choose(text).is_some();
        assert!(prefilter_of(&b"a, b;\n".repeat(200)) && !prefilter_of(&b"a, \n".repeat(200)));
        let text = [&b"a, b;\n".repeat(200)[..], b"a, \n", b"b;\n"].concat();
        let mut stats = needles.stats();
        let prefilter = stats.choose(&text).unwrap();
        assert_eq!(prefilter.find(&text, 0, text.len()), Some(1202));
        // A last line without a line end may match, too.
        assert!(prefilter.is_for(&text) && !prefilter.is_for(b"a, "));
        for pattern in ["[;,]?$", "$", "a|b$"] {
            assert!(
                !set(pattern).needles.iter().any(|needle| needle.find(b"x;\n", 0, 3).is_some()),
                "{pattern}"
            );
        }
        // A needle of these is the class before the line end, alone.
        for pattern in [r"[;,]\s*$", r"[;,]+$[ab]"] {
            let needs_end =
                |needle: &Needle| needle.find(b"x;\n", 0, 3).is_some() && needle.find(b"x;", 0, 2).is_none();
            assert!(!set(pattern).needles.iter().any(needs_end), "{pattern}");
        }
    }

    #[test]
    fn the_rarest_is_chosen_and_none_where_all_are_frequent() {
        let text = [&b"abc ".repeat(500)[..], b"x_1"].concat();
        let (rare, frequent) = (of("[a-z]+_[0-9]", false), of("[a-z][a-z]", false));
        assert_eq!(rare.stats().choose(&text).unwrap().find(&text, 0, text.len()), Some(2_000));
        assert!(frequent.stats().choose(&text).is_none());
        assert_eq!(sequences("[^ -~]").len(), 1, "a single class, if there is nothing longer");
    }

    #[test]
    fn what_is_known_of_a_long_pattern_is_bounded() {
        let long = "x?".to_owned() + &"pointer_[ab]".repeat(2_000);
        let part = ExprInfo::new(&parsed(&long)[0]);
        let longest = part.inner.iter().map(Vec::len).max();
        assert!(part.inner.len() <= SEQUENCES_MAX && longest <= Some(2 * EDGE_LEN_MAX));
        assert!(part.prefix.len() <= EDGE_LEN_MAX && part.suffix.len() == EDGE_LEN_MAX);
        assert!(literals(&long).contains(&"pointer_".to_owned()));
    }

    #[test]
    fn literals_are_looked_for_where_they_are_rare_and_not_all_there_is() {
        assert_eq!(literals("fooo?bar"), ["foo", "bar"]);
        assert_eq!(literals(r"\w+_lock\(.*irq"), ["_lock(", "irq"]);
        assert!(literals("foobar").is_empty() && literals("(?i)foo.*bar").is_empty());
        assert_eq!(literals("foo.*(bar|a_bar|b[ae]r)"), ["foo"]);
        assert!(literals("(foobar?)?").is_empty());
        let text = [&b"foo ".repeat(2_000)[..], b"bar"].concat();
        let sequences = of("fooo?bar", true);
        let rarest = sequences.stats().choose(&text).unwrap();
        assert_eq!(rarest.find(&text, 0, text.len()), Some(8_000));
        // A hit begins before the end and may continue beyond it.
        assert_eq!((rarest.find(&text, 0, 8_000), rarest.find(&text, 0, 8_001)), (None, Some(8_000)));
        assert!(rarest.admits(b"foo bar") && !rarest.admits(b"bar"));
        assert!(sequences.stats().choose(&b"foo bar".repeat(500)).is_none());
    }

    proptest! {
        #[test]
        fn a_line_that_matches_has_every_needle(
            line in "(aab|bab|ab_|aba|a_b|aaa|bbb|[ab_x0-9é]){0,8}",
            pattern in proptest::sample::select(&[
                "[a-z]+_[0-9]+x[0-9]+", "(a|b_)x", "[^a]b", r"\d\w", r"(a0|b1)+x?_", "(?i)a[xk]", "a.b", "é[0-9]", "[é-ü]a", r"(_|x)\b", "a{2}b", "(ab?)+0",
                "aba?", "(ab_)+x?", "a{3}|b{3}", ".*a_bx?[0-9]", "(aab|bab)_?",
                "aab[0-9]?|bbb_?", "(aba|b_)x?[ab]",
            ][..]),
            before in 0_usize..300,
        ) {
            let regex = regex_automata::meta::Regex::new(pattern).unwrap();
            if regex.is_match(line.as_bytes()) {
                let text = [" ".repeat(before).as_bytes(), line.as_bytes(), &[b' '; 300]].concat();
                for needle in [false, true].into_iter().flat_map(|has_literals| of(pattern, has_literals).needles) {
                    prop_assert!(needle.find(&text, 0, text.len()).is_some(), "{:?} in {:?}", needle, line);
                    prop_assert!(needle.find(line.as_bytes(), 0, line.len()).is_some());
                }
            }
        }
    }
}
