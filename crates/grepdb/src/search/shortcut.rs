//! A pattern -> what shows that a line matches it, without the matcher.
//!
//! In: an expression, and text. Out: where the first matching line is, if that can be told.
//!
//! It is for searches that need the lines, but not the matches in them. `[0-9]{4}-[0-9]{2}` is a sequence of byte
//! classes: a line that has it matches. A pattern that matches the empty string matches in every line.
//!
//! It does not look for what a match only must contain (`prefilter`).

use std::ops::Range;

use memchr::memmem::Finder;
use regex_syntax::hir::{Hir, HirKind, Look, Repetition};

use crate::search::byte_class::{
    ByteClass, ClassSequence, Progress, RANGES_MAX, SEQUENCE_LEN_MAX, find, find_few, has_few, is_at,
};

/// Bytes of a repeated part. Patterns may repeat without end.
const REPEATED_BYTES_MAX: usize = 64;
/// The first bytes of a line that are tested one by one.
const FIRST_BYTES: usize = 32;

/// Something that makes a line match.
#[derive(Clone, Debug)]
pub(crate) enum Shortcut {
    /// Every matching line has it. It may be empty.
    Literal(Box<Finder<'static>>),
    /// Every matching line has it. A class has few bytes, which may be rare.
    Rare(ClassSequence),
    /// Every matching line has it. It has at most [`SEQUENCE_LEN_MAX`] classes.
    Short(ClassSequence),
    /// Every matching line has it.
    Long(Steps),
    /// Every matching line begins with it. The needle has a line end before it.
    Begin(Box<Finder<'static>>),
    /// Every matching line has at least this many characters, and a line of as many that is all ASCII matches.
    Chars(usize),
    /// Other lines may match as well.
    OneOf(ByteClass),
}

/// What is known of the first matching line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    /// It holds this position.
    At(usize),
    /// There is none.
    Nowhere,
    /// Nothing.
    Open,
}

impl Shortcut {
    /// The shortcut for `expressions`. The matcher adds no condition to them.
    pub(crate) fn new(expressions: &[Hir]) -> Option<Self> {
        let [expression] = expressions else { return None };
        let literal = |bytes: &[u8]| Self::Literal(Box::new(Finder::new(bytes).into_owned()));
        if matches_every_line(expression) {
            return Some(literal(b""));
        }
        if let Some(begin) = literal_begin(expression) {
            let needle = [b"\n", &begin[..]].concat();
            return Some(Self::Begin(Box::new(Finder::new(&needle).into_owned())));
        }
        if let Some(chars) = chars(expression) {
            return Some(Self::Chars(chars));
        }
        if !expression.properties().look_set().is_empty() {
            return None;
        }
        let expression = shortest(expression);
        let Some(sequence) = sequence(&expression) else {
            let HirKind::Class(class) = expression.kind() else { return None };
            let class = ByteClass::of(class).0.ascii();
            return (class.ranges() > 0).then_some(Self::OneOf(class));
        };
        if sequence.iter().any(|class| class.contains(b'\n')) {
            return None;
        }
        let is_slow = sequence.iter().any(|class| class.ranges() > RANGES_MAX);
        match bytes(&sequence) {
            Some(bytes) => Some(literal(&bytes)),
            None if has_few(&sequence) => Some(Self::Rare(sequence)),
            // Short steps are no faster than the matcher.
            None if sequence.len() <= SEQUENCE_LEN_MAX => (!is_slow).then_some(Self::Short(sequence)),
            None => Steps::new(sequence).map(Self::Long),
        }
    }

    /// Whether it answers always.
    pub(crate) fn is_complete(&self) -> bool {
        matches!(self, Self::Literal(_) | Self::Short(_) | Self::Long(_) | Self::Begin(_))
    }

    /// The first matching line of `text[from..to]`, which is whole lines.
    pub(crate) fn ask(&self, text: &[u8], from: usize, to: usize) -> Answer {
        let answer = |at: Option<usize>| at.map_or(Answer::Nowhere, Answer::At);
        match self {
            Self::Literal(literal) => answer(literal.find(&text[from..to]).map(|at| from + at)),
            Self::Rare(sequence) => {
                let last = (to + 1).saturating_sub(sequence.len());
                match find_few(sequence, text, from, last) {
                    Progress::Found(at) => answer(at),
                    // The matcher may know how to find some of its bytes.
                    Progress::GivenUp(_) => Answer::Open,
                }
            }
            Self::Short(sequence) => answer(find(sequence, &text[..to], from, to)),
            Self::Long(steps) => answer(steps.find(&text[..to], from)),
            Self::Begin(finder) if text[from..to].starts_with(&finder.needle()[1..]) => Answer::At(from),
            Self::Begin(finder) => answer(finder.find(&text[from..to]).map(|at| from + at + 1)),
            Self::Chars(chars) => match line_of(*chars, &text[..to], from) {
                None => Answer::Nowhere,
                Some(line) if text[line.clone()].is_ascii() => Answer::At(line.start),
                Some(_) => Answer::Open,
            },
            Self::OneOf(class) => {
                let first = text[from..to].iter().take(FIRST_BYTES);
                let mut first = first.take_while(|&&byte| byte != b'\n').zip(from..);
                first.find(|(byte, _)| class.contains(**byte)).map_or(Answer::Open, |(_, at)| Answer::At(at))
            }
        }
    }
}

/// A search for a long sequence of classes that looks at one byte in several.
///
/// Reference: Horspool, "Practical fast searching in strings", 1980.
#[derive(Clone, Debug)]
pub(crate) struct Steps {
    sequence: ClassSequence,
    /// For each byte the distance from the last class to the nearest one before that has it.
    by_byte: Box<[u8; 256]>,
    /// For each byte whether the last class has it.
    is_last: Box<[bool; 256]>,
}

impl Steps {
    fn new(sequence: ClassSequence) -> Option<Self> {
        let mut by_byte = Box::new([u8::try_from(sequence.len()).ok()?; 256]);
        let (last, before) = sequence.split_last()?;
        let mut is_last = Box::new([false; 256]);
        (0..=u8::MAX).for_each(|byte| is_last[byte as usize] = last.contains(byte));
        for (at, class) in before.iter().enumerate() {
            let step = (before.len() - at) as u8;
            (0..=u8::MAX).filter(|&byte| class.contains(byte)).for_each(|byte| by_byte[byte as usize] = step);
        }
        Some(Self { sequence, by_byte, is_last })
    }

    fn find(&self, text: &[u8], from: usize) -> Option<usize> {
        let last = self.sequence.len() - 1;
        let mut end = from + last;
        while let Some(&byte) = text.get(end) {
            let step = self.by_byte[byte as usize];
            if self.is_last[byte as usize] && is_at(&self.sequence, text, end - last) {
                return Some(end - last);
            }
            end += usize::from(step);
        }
        None
    }
}

/// How many characters a line needs for an expression that asks for nothing else, such as `^.{80,}$`.
fn chars(expression: &Hir) -> Option<usize> {
    let (parts, begins, ends) = match expression.kind() {
        HirKind::Concat(parts) => {
            let is_at =
                |part: Option<&Hir>, look| part.is_some_and(|part| *part.kind() == HirKind::Look(look));
            let (begins, ends) = (is_at(parts.first(), Look::StartLF), is_at(parts.last(), Look::EndLF));
            (&parts[usize::from(begins)..parts.len() - usize::from(ends)], begins, ends)
        }
        _ => (std::slice::from_ref(expression), false, false),
    };
    let [part] = parts else { return None };
    let HirKind::Repetition(repetition) = part.kind() else { return None };
    let HirKind::Class(class) = repetition.sub.kind() else { return None };
    let any = ByteClass::new([(0, 0x7f)].into_iter()).ascii();
    let is_open = repetition.max.is_none() || !(begins && ends);
    (is_open && repetition.min > 1 && ByteClass::of(class).0.ascii() == any)
        .then_some(repetition.min as usize)
}

/// The first line of `text[from..]` with at least this many bytes.
fn line_of(bytes: usize, text: &[u8], from: usize) -> Option<Range<usize>> {
    let mut begin = from;
    loop {
        // Of several line ends in the first bytes, the last one tells that no line before it is long.
        match memchr::memrchr(b'\n', text.get(begin..begin.checked_add(bytes)?)?) {
            Some(end) => begin += end + 1,
            None => {
                let rest = memchr::memchr(b'\n', &text[begin + bytes..]);
                return Some(begin..rest.map_or(text.len(), |rest| begin + bytes + rest));
            }
        }
    }
}

/// The literal after the `^` of an expression that is nothing else.
fn literal_begin(expression: &Hir) -> Option<Vec<u8>> {
    let HirKind::Concat(parts) = expression.kind() else { return None };
    let (first, rest) = parts.split_first()?;
    if *first.kind() != HirKind::Look(Look::StartLF) {
        return None;
    }
    let rest = rest.iter().map(sequence).collect::<Option<Vec<_>>>()?.concat();
    bytes(&rest).filter(|bytes| !bytes.contains(&b'\n'))
}

/// The literal that a sequence is, if each class has one byte.
fn bytes(sequence: &[ByteClass]) -> Option<Vec<u8>> {
    sequence.iter().map(ByteClass::byte).collect()
}

/// Whether `expression` matches the empty string at the begin of each line, or at its end.
fn matches_every_line(expression: &Hir) -> bool {
    let is_empty =
        |hir: &Hir| hir.properties().minimum_len() == Some(0) && hir.properties().look_set().is_empty();
    let is_anchor = |hir: &Hir, anchor| *hir.kind() == HirKind::Look(anchor);
    match expression.kind() {
        HirKind::Look(look) => matches!(look, Look::StartLF | Look::EndLF),
        HirKind::Concat(parts) if is_anchor(&parts[0], Look::StartLF) => parts[1..].iter().all(is_empty),
        HirKind::Concat(parts) if is_anchor(&parts[parts.len() - 1], Look::EndLF) => {
            parts[..parts.len() - 1].iter().all(is_empty)
        }
        _ => is_empty(expression),
    }
}

/// The sequence of bytes that `expression` matches, if it matches one and nothing else.
fn sequence(expression: &Hir) -> Option<ClassSequence> {
    match expression.kind() {
        HirKind::Literal(literal) => Some(literal.0.iter().map(|&byte| ByteClass::single(byte)).collect()),
        HirKind::Class(class) => {
            let (class, is_one_byte) = ByteClass::of(class);
            is_one_byte.then(|| vec![class])
        }
        HirKind::Capture(capture) => sequence(&capture.sub),
        HirKind::Concat(parts) => {
            parts.iter().map(sequence).collect::<Option<Vec<_>>>().map(|parts| parts.concat())
        }
        HirKind::Repetition(repetition) if repetition.max == Some(repetition.min) => {
            let one = sequence(&repetition.sub)?;
            let copies = repetition.min as usize;
            (copies.saturating_mul(one.len()) <= REPEATED_BYTES_MAX).then(|| vec![one; copies].concat())
        }
        _ => None,
    }
}

/// An expression that matches in the same lines, with as few repetitions at its ends as it allows.
fn shortest(expression: &Hir) -> Hir {
    let fewest = |part: &Hir| match part.kind() {
        HirKind::Repetition(repetition) => {
            let (min, max) = (repetition.min, Some(repetition.min));
            Hir::repetition(Repetition { min, max, ..repetition.clone() })
        }
        _ => part.clone(),
    };
    match expression.kind() {
        HirKind::Capture(capture) => shortest(&capture.sub),
        HirKind::Concat(parts) => {
            let mut parts = parts.clone();
            // Behind a part that may be absent the next one is at the end.
            let is_gone = |part: &mut Hir| {
                *part = fewest(part);
                matches!(part.kind(), HirKind::Empty)
            };
            let _ = parts.iter_mut().all(is_gone);
            let _ = parts.iter_mut().rev().all(is_gone);
            Hir::concat(parts)
        }
        _ => fewest(expression),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::search::query::{PatternOptions, parse};

    fn ask(pattern: &str, text: &str) -> Option<Answer> {
        let options = PatternOptions { unicode: true, ..PatternOptions::default() };
        let shortcut = Shortcut::new(&parse(&[pattern], options).unwrap())?;
        Some(shortcut.ask(text.as_bytes(), 0, text.len()))
    }

    #[test]
    fn lines_are_found_without_the_matcher() {
        let at = |at| Some(Answer::At(at));
        assert_eq!((ask("abc", "\nab\nxabc\n"), ask("abc", "ab\nc")), (at(5), Some(Answer::Nowhere)));
        assert_eq!((ask("x*", "\n"), ask("(ab)*", "x")), (at(0), at(0)));
        assert_eq!(
            (ask("^", "x"), ask("$", "x"), ask("^x?", "y"), ask("x*$", "y")),
            (at(0), at(0), at(0), at(0))
        );
        let date = "[0-9]{4}-[0-9]{2}-[0-9]{2}";
        assert_eq!((ask(date, "on 2024-05-17\n"), ask(date, "2024-05\n17")), (at(3), Some(Answer::Nowhere)));
        assert_eq!(
            (ask("[a-z]+[0-9]", "--a0"), ask("(?:a|b)x*", "--b"), ask("é", "xé")),
            (at(2), at(2), at(1))
        );
        assert_eq!((ask(".", "x\n"), ask(r"\w+", "\t+y")), (at(0), at(2)));
        assert_eq!(
            (ask("^ab", "ab\n"), ask("^ab", "xab\nab"), ask("^ab", "xab\na\nb")),
            (at(0), at(4), Some(Answer::Nowhere))
        );
        let vowels = "[aeiou]{4,}";
        assert_eq!((ask(vowels, "aexioaou"), ask(vowels, "ae\nioa")), (at(3), Some(Answer::Nowhere)));
        let long = "^.{3,}$";
        assert_eq!((ask(long, "ab\n\nxabc\n"), ask(".{3}", "ab\nc\n")), (at(4), Some(Answer::Nowhere)));
        let number = "[0-9]{7,}";
        assert_eq!((ask(number, "123456a1234567"), ask(number, "123456\n7")), (at(7), Some(Answer::Nowhere)));
    }

    #[test]
    fn what_needs_the_matcher_is_left_to_it() {
        let open = Some(Answer::Open);
        assert_eq!((ask("[0-9]{4}-[0-9]", &"-".repeat(2_000)), ask(".", "\nx")), (open, open));
        assert_eq!((ask(r"\bx", "x"), ask("^x+", "x"), ask("aa|bb", "ab")), (None, None, None));
        assert_eq!((ask("^$", "x"), ask("^x*$", "y"), ask(r"x*\b", "x")), (None, None, None));
        assert_eq!((ask(".{3}", "é1"), ask("^.{2,3}$", "ab"), ask("[^a]{2}$", "ab")), (open, None, None));
        assert_eq!((ask("[^a]b", "xb"), ask("[é-ü]", "é")), (None, None), "characters of several bytes");
    }

    /// Parts of patterns, each with how often it comes.
    fn pattern() -> impl Strategy<Value = String> {
        let part = proptest::sample::select(
            &[
                "a", "b", "_", "x", "é", "[0-9]", "[a-d_]", "[ab]", "[^a]", ".", "ab_", r"\w", "[a-é]",
                "[a0_x2]", "(a|b)", "^", "$",
            ][..],
        );
        let times =
            proptest::sample::select(&["", "", "*", "+", "?", "{2}", "{3}", "{5}", "{1,2}", "{2,}"][..]);
        let part = (part, times, any::<bool>()).prop_map(|(part, times, group)| {
            if group { format!("({part}{times})") } else { format!("{part}{times}") }
        });
        proptest::collection::vec(part, 1..4).prop_map(|parts| parts.concat())
    }

    proptest! {
        #[test]
        fn the_matcher_says_the_same(
            line in "(aab|bab|ab_|aba|a_b|aaa|bbb|[ab_x0-9é]){0,8}",
            other in "[ab_x0-9é]{0,4}",
            pattern in pattern(),
        ) {
            let Ok(regex) = regex_automata::meta::Regex::new(&format!("(?m:{pattern})")) else { return Ok(()) };
            let text = format!("{other}\n{line}");
            let first = regex.find(&text).map(|found| text[..found.start()].contains('\n'));
            // What matches a line end is not for a search by line.
            let spans_lines = regex.find_iter(&text).any(|found| text[found.range()].contains('\n'));
            match ask(&pattern, &text) {
                _ if spans_lines => {}
                Some(Answer::At(at)) => prop_assert_eq!(first, Some(text[..at].contains('\n'))),
                Some(Answer::Nowhere) => prop_assert_eq!(first, None),
                Some(Answer::Open) | None => {}
            }
        }
    }
}
