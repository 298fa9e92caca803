//! A regular expression without a literal worth looking for -> two or three kinds of bytes in a row that every match has.
//!
//! In: patterns, and text. Out: lines that may match. `[a-z]+_[0-9]+x[0-9]+` has a letter, `_` and a digit in a row: to look for these
//! sixteen bytes at a time takes a tenth of what the automaton takes.
//!
//! What it does not do: match.

use regex_syntax::hir::{Class, Hir, HirKind};

use crate::error::Result;
use crate::query::{Reading, parse};

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
}

/// Kinds in a row.
type Row = Vec<Kind>;

/// Longest row that is looked for, bytes.
const ROW_BYTES_MAX: usize = 3;
/// Kinds with more ranges than this take too long to tell.
const RANGES_MAX: usize = 4;
/// Rows that are tried.
const ROWS_MAX: usize = 12;

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
        if let (Some(ours), Some(theirs)) = (&self.exact, &next.exact) {
            return Self::exact([&ours[..], theirs].concat());
        }
        let (ours, theirs) = (self.exact.clone(), next.exact.clone());
        let (mut before, after) = (self.edges(), next.edges());
        before.rows.extend(after.rows);
        before.rows.push([&before.end[..], &after.begin].concat());
        Self {
            exact: None,
            begin: ours.map_or(before.begin, |ours| [ours, after.begin].concat()),
            end: theirs.map_or(after.end, |theirs| [before.end, theirs].concat()),
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
        Self { exact: None, begin: exact.clone(), end: exact.clone(), rows: vec![exact] }
    }
}

/// What is one or the other, as far as both go.
fn both(one: &Row, other: &Row) -> Row {
    one.iter().zip(other).map(|(one, other)| one.or(other)).collect()
}

/// What to look for.
#[derive(Clone, Debug)]
pub(crate) struct Sequences(Vec<Row>);

impl Sequences {
    /// Nothing is known.
    pub(crate) const NONE: Self = Self(Vec::new());

    /// Rows that every match of one of `patterns` has; none where there are several patterns.
    ///
    /// # Errors
    /// It is no regular expression.
    pub(crate) fn of<S: AsRef<str>>(patterns: &[S], reading: Reading) -> Result<Self> {
        let [pattern] = patterns else { return Ok(Self(Vec::new())) };
        let part = Part::of(&parse(pattern.as_ref(), reading)?).edges();
        let mut rows: Vec<Row> = Vec::new();
        for row in part.rows.iter().chain([&part.begin, &part.end]) {
            let len = row.len().min(ROW_BYTES_MAX);
            let windows = row
                .windows(len.max(1))
                .filter(|row| row.len() > 1 && row.iter().all(|kind| kind.ranges.len() <= RANGES_MAX));
            for row in windows {
                if !rows.iter().any(|known| known == row) && rows.len() < ROWS_MAX {
                    rows.push(row.to_vec());
                }
            }
        }
        Ok(Self(rows))
    }

    /// Begins to count them.
    pub(crate) fn counted(&self) -> Counted<'_> {
        Counted { rows: &self.0, counts: vec![0; self.0.len()], bytes: 0 }
    }
}

/// How often rows are found.
#[derive(Clone, Debug)]
pub(crate) struct Counted<'r> {
    rows: &'r [Row],
    counts: Vec<usize>,
    bytes: usize,
}

impl Counted<'_> {
    /// Those that have been rarest, with what `text` has of them, if the rarest is rare enough to be of use.
    pub(crate) fn rarest(&mut self, text: &[u8]) -> Option<Rarest> {
        self.bytes += text.len();
        for (count, row) in self.counts.iter_mut().zip(self.rows) {
            let mut at = 0;
            while let Some(found) = find(row, text, at, text.len()) {
                (*count, at) = (*count + 1, found + 1);
            }
        }
        let mut counted: Vec<(usize, &Row)> = self.counts.iter().copied().zip(self.rows).collect();
        counted.sort_by_key(|(count, _)| *count);
        let (least, row) = counted.first()?;
        let more = counted[1..].iter().take(MORE_ROWS).map(|(_, row)| (*row).clone()).collect();
        (least * BYTES_PER_HIT_MIN <= self.bytes).then(|| Rarest { row: (*row).clone(), more })
    }
}

/// The rows that are looked for.
#[derive(Clone, Debug)]
pub(crate) struct Rarest {
    row: Row,
    more: Vec<Row>,
}

impl Rarest {
    /// The first place in `text[from..to]` where the rarest begins. What follows `to` is looked at as well.
    pub(crate) fn find(&self, text: &[u8], from: usize, to: usize) -> Option<usize> {
        find(&self.row, text, from, to)
    }

    /// Whether `line` has the others too.
    pub(crate) fn allows(&self, line: &[u8]) -> bool {
        self.more.iter().all(|row| find(row, line, 0, line.len()).is_some())
    }
}

/// Further rows that a line with the rarest is asked for.
const MORE_ROWS: usize = 2;
/// A row that is found more often than this is no help.
const BYTES_PER_HIT_MIN: usize = 100;

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

    fn of(pattern: &str) -> Sequences {
        let reading = Reading { unicode: true, ..Reading::default() };
        Sequences::of(&[pattern], reading).unwrap()
    }

    fn kind(ranges: &[(char, char)]) -> Kind {
        Kind::of(ranges.iter().map(|&(first, last)| (first as u8, last as u8)))
    }

    #[test]
    fn what_stands_next_to_each_other_in_every_match_is_found() {
        let (letter, digit) = (kind(&[('a', 'z')]), kind(&[('0', '9')]));
        let byte = |byte: char| kind(&[(byte, byte)]);
        let Sequences(rows) = of("[a-z]+_[0-9]+x[0-9]+");
        assert!(rows.contains(&vec![letter.clone(), byte('_'), digit.clone()]), "{rows:?}");
        assert!(rows.contains(&vec![digit.clone(), byte('x'), digit]), "{rows:?}");
        assert!(of("a*b?").0.is_empty());
        assert!(of(r"(ab|cd)e").0.contains(&vec![
            kind(&[('a', 'a'), ('c', 'c')]),
            kind(&[('b', 'b'), ('d', 'd')]),
            byte('e')
        ]));
    }

    #[test]
    fn the_rarest_is_chosen_and_none_where_all_are_frequent() {
        let text = [&b"abc ".repeat(500)[..], b"x_1"].concat();
        let rarest = of("[a-z]+_[0-9]").counted().rarest(&text).unwrap();
        assert_eq!(rarest.find(&text, 0, text.len()), Some(2_000));
        assert!(of("[a-z][a-z]").counted().rarest(&text).is_none());
    }

    proptest! {
        #[test]
        fn a_line_that_matches_has_every_row(
            line in "[ab_x0-9é]{0,12}",
            pattern in proptest::sample::select(&[
                "[a-z]+_[0-9]+x[0-9]+", "(a|b_)x", "[^a]b", r"\d\w", r"(a0|b1)+x?_", "(?i)a[xk]", "a.b", "é[0-9]", "[é-ü]a", r"(_|x)\b", "a{2}b", "(ab?)+0",
            ][..]),
            before in 0_usize..300,
        ) {
            let regex = regex_automata::meta::Regex::new(pattern).unwrap();
            if regex.is_match(line.as_bytes()) {
                let text = [" ".repeat(before).as_bytes(), line.as_bytes(), &[b' '; 300]].concat();
                for row in of(pattern).0 {
                    prop_assert!(find(&row, &text, 0, text.len()).is_some(), "{:?} in {:?}", row, line);
                    prop_assert!(find(&row, line.as_bytes(), 0, line.len()).is_some());
                }
            }
        }

        #[test]
        fn blocks_and_bytes_find_the_same(text in proptest::collection::vec(proptest::sample::select(&b"ab_x09 "[..]), 0..900)) {
            for row in of("[a-b_]+_[0-9]+x[0-9]+").0 {
                let found = find(&row, &text, 0, text.len());
                let truth = text.windows(row.len()).position(|bytes| row.iter().zip(bytes).all(|(kind, &byte)| kind.has(byte)));
                prop_assert_eq!(found, truth);
            }
        }
    }
}
