//! A regular expression -> what every match has in a row: bytes, or kinds of bytes.
//!
//! In: expressions, and text. Out: lines that may match. `fooo?bar` has `foo` and `bar`: to look for one of them takes a third of what
//! matchers take to look for `foobar` and `fooobar`. `[a-z]+_[0-9]+x[0-9]+` has a letter, `_` and a digit: to look for these sixteen bytes
//! at a time takes a tenth of what the automaton takes.
//!
//! What it does not do: match.

use memchr::memmem::Finder;
use regex_syntax::hir::{Class, Hir, HirKind};

/// A kind of byte.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Kind {
    /// First and last, ascending and apart.
    ranges: Vec<(u8, u8)>,
}

impl Kind {
    fn of(ranges: impl Iterator<Item = (u8, u8)>) -> Self {
        let mut all: Vec<_> = ranges.collect();
        all.sort_unstable();
        let mut ranges: Vec<(u8, u8)> = Vec::new();
        for (first, last) in all {
            match ranges.last_mut() {
                Some(before) if first <= before.1.saturating_add(1) => before.1 = before.1.max(last),
                _ => ranges.push((first, last)),
            }
        }
        Self { ranges }
    }

    fn or(&self, other: &Self) -> Self {
        Self::of(self.ranges.iter().chain(&other.ranges).copied())
    }

    /// The byte that it is, and no other.
    fn byte(&self) -> Option<u8> {
        match self.ranges[..] {
            [(first, last)] if first == last => Some(first),
            _ => None,
        }
    }
}

/// Kinds in a row.
type Row = Vec<Kind>;

/// Longest row that is looked for, bytes.
const ROW_BYTES_MAX: usize = 3;
/// Kinds with more ranges than this take too long to tell.
const RANGES_MAX: usize = 4;
/// Rows that are tried.
const ROWS_MAX: usize = 12;
/// Kinds at an edge of a part that are remembered, and rows of it: patterns may be of any length.
const EDGE_KINDS_MAX: usize = 64;
const PART_ROWS_MAX: usize = 64;
/// Shorter literals are too frequent.
const LITERAL_BYTES_MIN: usize = 3;

/// What is known of a part of an expression.
#[derive(Clone, Debug, Default)]
struct Part {
    /// It is this, and nothing else.
    exact: Option<Row>,
    /// It begins with this, and ends with that.
    begin: Row,
    end: Row,
    /// It holds these.
    rows: Vec<Row>,
}

impl Part {
    fn exact(row: Row) -> Self {
        Self { exact: Some(row), ..Self::default() }
    }

    fn of(hir: &Hir) -> Self {
        match hir.kind() {
            HirKind::Empty | HirKind::Look(_) => Self::exact(Vec::new()),
            HirKind::Literal(literal) => {
                Self::exact(literal.0.iter().map(|&byte| Kind { ranges: vec![(byte, byte)] }).collect())
            }
            HirKind::Class(class) => Self::class(class),
            HirKind::Capture(capture) => Self::of(&capture.sub),
            HirKind::Concat(parts) => {
                parts.iter().fold(Self::exact(Vec::new()), |all, part| all.then(Self::of(part)))
            }
            HirKind::Alternation(parts) => parts.iter().map(Self::of).reduce(Self::or).unwrap_or_default(),
            HirKind::Repetition(repetition) if repetition.min == 0 => Self::default(),
            HirKind::Repetition(repetition) => {
                let one = Self::of(&repetition.sub);
                if repetition.max == Some(1) { one } else { one.edges() }
            }
        }
    }

    /// Characters beyond ASCII are several bytes, all of them high: only what is beside them is next to something.
    fn class(class: &Class) -> Self {
        let (kind, single) = match class {
            Class::Bytes(class) => {
                (Kind::of(class.ranges().iter().map(|range| (range.start(), range.end()))), true)
            }
            Class::Unicode(class) => {
                let byte = |char: char| if char.is_ascii() { char as u8 } else { 0xff };
                let low = class.ranges().iter().filter(|range| range.start().is_ascii());
                let low = low.map(|range| (range.start() as u8, byte(range.end()).min(0x7f)));
                let is_high = class.ranges().iter().any(|range| !range.end().is_ascii());
                (Kind::of(low.chain(is_high.then_some((0x80, 0xff)))), !is_high)
            }
        };
        let row = vec![kind];
        if single { Self::exact(row) } else { Self { begin: row.clone(), end: row, ..Self::default() } }
    }

    fn then(self, next: Self) -> Self {
        if let (Some(ours), Some(theirs)) = (&self.exact, &next.exact)
            && ours.len() + theirs.len() <= EDGE_KINDS_MAX
        {
            return Self::exact([&ours[..], theirs].concat());
        }
        let (ours, theirs) = (self.exact.clone(), next.exact.clone());
        let (mut before, after) = (self.edges(), next.edges());
        before.rows.extend(after.rows);
        before.rows.push([&before.end[..], &after.begin].concat());
        before.rows.truncate(PART_ROWS_MAX);
        Self {
            exact: None,
            begin: ours.map_or(before.begin, |ours| begin(&[ours, after.begin].concat())),
            end: theirs.map_or(after.end, |theirs| end(&[before.end, theirs].concat())),
            rows: before.rows,
        }
    }

    fn or(self, other: Self) -> Self {
        if let (Some(ours), Some(theirs)) = (&self.exact, &other.exact)
            && ours.len() == theirs.len()
        {
            return Self::exact(both(ours, theirs));
        }
        let (ours, theirs) = (self.edges(), other.edges());
        let reversed = |row: &Row| row.iter().rev().cloned().collect::<Row>();
        Self {
            exact: None,
            begin: both(&ours.begin, &theirs.begin),
            end: reversed(&both(&reversed(&ours.end), &reversed(&theirs.end))),
            rows: Vec::new(),
        }
    }

    fn edges(self) -> Self {
        let Some(exact) = self.exact else { return self };
        Self { exact: None, begin: begin(&exact), end: end(&exact), rows: vec![exact] }
    }
}

/// The first kinds of `row`, as many as are remembered.
fn begin(row: &[Kind]) -> Row {
    row[..row.len().min(EDGE_KINDS_MAX)].to_vec()
}

/// The last ones.
fn end(row: &[Kind]) -> Row {
    row[row.len().saturating_sub(EDGE_KINDS_MAX)..].to_vec()
}

/// What is one or the other, as far as both go.
fn both(one: &Row, other: &Row) -> Row {
    one.iter().zip(other).map(|(one, other)| one.or(other)).collect()
}

/// What stands in a row.
#[derive(Clone, Debug)]
enum Sequence {
    Kinds(Row),
    Bytes(Box<Finder<'static>>),
}

impl Sequence {
    /// The first place in `text[from..to]` where it begins. What follows `to` is looked at as well.
    fn find(&self, text: &[u8], from: usize, to: usize) -> Option<usize> {
        match self {
            Self::Kinds(row) => find(row, text, from, to),
            Self::Bytes(bytes) => {
                let end = text.len().min(to + bytes.needle().len() - 1);
                Some(from + bytes.find(text.get(from..end)?)?)
            }
        }
    }
}

/// What to look for.
#[derive(Clone, Debug)]
pub(crate) struct Sequences {
    all: Vec<Sequence>,
    /// One that is found more often is no help.
    bytes_per_hit_min: usize,
}

impl Sequences {
    /// Nothing is known.
    pub(crate) const NONE: Self = Self { all: Vec::new(), bytes_per_hit_min: 1 };

    /// What every match of one of `expressions` has, which have literals or not; nothing where there are several.
    pub(crate) fn of(expressions: &[Hir], has_literals: bool) -> Self {
        let [expression] = expressions else { return Self::NONE };
        let part = Part::of(expression);
        // For what is one literal, matchers themselves look so.
        if has_literals && part.exact.is_some() {
            return Self::NONE;
        }
        let part = part.edges();
        let rows = part.rows.iter().chain([&part.begin, &part.end]);
        let bytes_per_hit_min = if has_literals { BYTES_PER_LITERAL_MIN } else { BYTES_PER_HIT_MIN };
        let all = if has_literals { literals(rows) } else { windows(rows) };
        Self { all, bytes_per_hit_min }
    }

    /// Begins to count them.
    pub(crate) fn counted(&self) -> Counted<'_> {
        Counted { sequences: self, counts: vec![0; self.all.len()], bytes: 0 }
    }
}

/// Bytes in `rows`.
fn literals<'r>(rows: impl Iterator<Item = &'r Row>) -> Vec<Sequence> {
    let mut literals: Vec<Vec<u8>> = Vec::new();
    for row in rows {
        let bytes: Vec<Option<u8>> = row.iter().map(Kind::byte).collect();
        for run in bytes.split(Option::is_none) {
            let literal: Vec<u8> = run.iter().copied().flatten().collect();
            let is_of_use = literals.len() < ROWS_MAX && literal.len() >= LITERAL_BYTES_MIN;
            if is_of_use && !literals.contains(&literal) {
                literals.push(literal);
            }
        }
    }
    literals.iter().map(|literal| Sequence::Bytes(Box::new(Finder::new(literal).into_owned()))).collect()
}

/// Two or three kinds in `rows`.
fn windows<'r>(rows: impl Iterator<Item = &'r Row>) -> Vec<Sequence> {
    let mut windows: Vec<&[Kind]> = Vec::new();
    for row in rows.filter(|row| row.len() > 1) {
        for window in row.windows(row.len().min(ROW_BYTES_MAX)) {
            let is_of_use =
                windows.len() < ROWS_MAX && window.iter().all(|kind| kind.ranges.len() <= RANGES_MAX);
            if is_of_use && !windows.contains(&window) {
                windows.push(window);
            }
        }
    }
    windows.into_iter().map(|window| Sequence::Kinds(window.to_vec())).collect()
}

/// How often sequences are found.
#[derive(Clone, Debug)]
pub(crate) struct Counted<'s> {
    sequences: &'s Sequences,
    counts: Vec<usize>,
    bytes: usize,
}

impl<'s> Counted<'s> {
    /// Those that have been rarest, with what `text` has of them, if the rarest is rare enough to be of use.
    pub(crate) fn rarest(&mut self, text: &[u8]) -> Option<Rarest<'s>> {
        self.bytes += text.len();
        let most = self.bytes / self.sequences.bytes_per_hit_min;
        for (count, sequence) in self.counts.iter_mut().zip(&self.sequences.all) {
            let mut at = 0;
            // To count on what is no help would take as long as to search.
            while *count <= most
                && let Some(found) = sequence.find(text, at, text.len())
            {
                (*count, at) = (*count + 1, found + 1);
            }
        }
        let mut counted: Vec<(usize, &Sequence)> =
            self.counts.iter().copied().zip(&self.sequences.all).collect();
        counted.sort_by_key(|(count, _)| *count);
        let (least, rarest) = *counted.first()?;
        let more = counted[1..].iter().take(MORE).map(|(_, sequence)| *sequence).collect();
        (least <= most).then_some(Rarest { rarest, more })
    }
}

/// What is looked for.
#[derive(Clone, Debug)]
pub(crate) struct Rarest<'s> {
    rarest: &'s Sequence,
    more: Vec<&'s Sequence>,
}

impl Rarest<'_> {
    /// The first place in `text[from..to]` where the rarest begins. What follows `to` is looked at as well.
    pub(crate) fn find(&self, text: &[u8], from: usize, to: usize) -> Option<usize> {
        self.rarest.find(text, from, to)
    }

    /// Whether `line` has the others too.
    pub(crate) fn allows(&self, line: &[u8]) -> bool {
        self.more.iter().all(|sequence| sequence.find(line, 0, line.len()).is_some())
    }
}

/// Further sequences that a line with the rarest is asked for.
const MORE: usize = 2;
/// Kinds that are found more often than this are no help.
const BYTES_PER_HIT_MIN: usize = 100;
/// Nor are literals: matchers find those fast enough by themselves. 512 to 4096 make no difference of more than 4 % (nine queries).
const BYTES_PER_LITERAL_MIN: usize = 1 << 10;

/// Bytes that are looked at before anybody asks whether there was a hit.
const BLOCK_BYTES: usize = 256;

/// The first place in `text[from..to]` where `row` begins.
fn find(row: &Row, text: &[u8], from: usize, to: usize) -> Option<usize> {
    let mut at = from;
    let last = (text.len() + 1).saturating_sub(row.len()).min(to);
    while at + BLOCK_BYTES + ROW_BYTES_MAX <= last {
        let block = &text[at..at + BLOCK_BYTES + ROW_BYTES_MAX];
        let mut hits = [u8::MAX; BLOCK_BYTES];
        for (offset, kind) in row.iter().enumerate() {
            kind.keep(&block[offset..offset + BLOCK_BYTES], &mut hits);
        }
        if hits.iter().fold(0, |any, hit| any | hit) != 0
            && let Some(hit) = memchr::memchr(u8::MAX, &hits)
        {
            return Some(at + hit);
        }
        at += BLOCK_BYTES;
    }
    (at..last).find(|&at| row.iter().zip(&text[at..]).all(|(kind, &byte)| kind.has(byte)))
}

impl Kind {
    fn has(&self, byte: u8) -> bool {
        self.ranges.iter().any(|&(first, last)| (first..=last).contains(&byte))
    }

    /// Clears the hits whose byte is of another kind. Written so that the compiler takes sixteen at a time.
    fn keep(&self, bytes: &[u8], hits: &mut [u8; BLOCK_BYTES]) {
        let Ok(bytes) = <&[u8; BLOCK_BYTES]>::try_from(bytes) else { return };
        if let [(first, last)] = self.ranges[..] {
            for (hit, byte) in hits.iter_mut().zip(bytes) {
                *hit &= in_range(*byte, first, last);
            }
            return;
        }
        let mut any = [0; BLOCK_BYTES];
        for &(first, last) in &self.ranges {
            for (any, byte) in any.iter_mut().zip(bytes) {
                *any |= in_range(*byte, first, last);
            }
        }
        hits.iter_mut().zip(any).for_each(|(hit, any)| *hit &= any);
    }
}

/// All bits, or none.
fn in_range(byte: u8, first: u8, last: u8) -> u8 {
    u8::from(byte.wrapping_sub(first) <= last - first).wrapping_neg()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::query::{Reading, parse};

    fn parsed(pattern: &str) -> Vec<Hir> {
        parse(&[pattern], Reading { unicode: true, ..Reading::default() }).unwrap()
    }

    fn of(pattern: &str, has_literals: bool) -> Sequences {
        Sequences::of(&parsed(pattern), has_literals)
    }

    fn rows(pattern: &str) -> Vec<Row> {
        let kinds = |sequence| if let Sequence::Kinds(row) = sequence { row } else { panic!("{sequence:?}") };
        of(pattern, false).all.into_iter().map(kinds).collect()
    }

    fn literals(pattern: &str) -> Vec<String> {
        let text = |sequence: &_| match sequence {
            Sequence::Bytes(bytes) => String::from_utf8(bytes.needle().to_vec()).unwrap(),
            Sequence::Kinds(_) => panic!("{sequence:?}"),
        };
        of(pattern, true).all.iter().map(text).collect()
    }

    fn kind(ranges: &[(char, char)]) -> Kind {
        Kind::of(ranges.iter().map(|&(first, last)| (first as u8, last as u8)))
    }

    #[test]
    fn what_stands_next_to_each_other_in_every_match_is_found() {
        let (letter, digit) = (kind(&[('a', 'z')]), kind(&[('0', '9')]));
        let byte = |byte: char| kind(&[(byte, byte)]);
        let found = rows("[a-z]+_[0-9]+x[0-9]+");
        assert!(found.contains(&vec![letter.clone(), byte('_'), digit.clone()]), "{found:?}");
        assert!(found.contains(&vec![digit.clone(), byte('x'), digit]), "{found:?}");
        assert!(rows("a*b?").is_empty());
        assert!(rows(r"(ab|cd)e").contains(&vec![
            kind(&[('a', 'a'), ('c', 'c')]),
            kind(&[('b', 'b'), ('d', 'd')]),
            byte('e')
        ]));
    }

    #[test]
    fn the_rarest_is_chosen_and_none_where_all_are_frequent() {
        let text = [&b"abc ".repeat(500)[..], b"x_1"].concat();
        let (rare, frequent) = (of("[a-z]+_[0-9]", false), of("[a-z][a-z]", false));
        assert_eq!(rare.counted().rarest(&text).unwrap().find(&text, 0, text.len()), Some(2_000));
        assert!(frequent.counted().rarest(&text).is_none());
    }

    #[test]
    fn what_is_known_of_a_long_pattern_is_bounded() {
        let long = "x?".to_owned() + &"pointer_[ab]".repeat(2_000);
        let part = Part::of(&parsed(&long)[0]);
        let longest = part.rows.iter().map(Vec::len).max();
        assert!(part.rows.len() <= PART_ROWS_MAX && longest <= Some(2 * EDGE_KINDS_MAX));
        assert!(part.begin.len() <= EDGE_KINDS_MAX && part.end.len() == EDGE_KINDS_MAX);
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
        let rarest = sequences.counted().rarest(&text).unwrap();
        assert_eq!(rarest.find(&text, 0, text.len()), Some(8_000));
        // A hit begins before the end, and may go on behind it.
        assert_eq!((rarest.find(&text, 0, 8_000), rarest.find(&text, 0, 8_001)), (None, Some(8_000)));
        assert!(rarest.allows(b"foo bar") && !rarest.allows(b"bar"));
        assert!(sequences.counted().rarest(&b"foo bar".repeat(500)).is_none());
    }

    proptest! {
        #[test]
        fn a_line_that_matches_has_every_row(
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
                for sequence in [false, true].into_iter().flat_map(|has_literals| of(pattern, has_literals).all) {
                    prop_assert!(sequence.find(&text, 0, text.len()).is_some(), "{:?} in {:?}", sequence, line);
                    prop_assert!(sequence.find(line.as_bytes(), 0, line.len()).is_some());
                }
            }
        }

        #[test]
        fn blocks_and_bytes_find_the_same(text in proptest::collection::vec(proptest::sample::select(&b"ab_x09 "[..]), 0..900)) {
            for row in rows("[a-b_]+_[0-9]+x[0-9]+") {
                let found = find(&row, &text, 0, text.len());
                let truth = text.windows(row.len()).position(|bytes| row.iter().zip(bytes).all(|(kind, &byte)| kind.has(byte)));
                prop_assert_eq!(found, truth);
            }
        }
    }
}
