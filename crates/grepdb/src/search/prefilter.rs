//! A regular expression -> what to look for in a text before the matcher runs.
//!
//! In: expressions, and text. Out: a [`Prefilter`] that finds a place in every matching line, and in few others.
//!
//! `[a-z]+_[0-9]+x[0-9]+` contains a letter, `_` and a digit: a search for these takes a tenth of the time of the
//! automaton. A line that has what the whole of an expression asks for needs no matcher: any line for `x*`, four vowels
//! for `[aeiou]{4}`.
//!
//! Where literals are a part of an expression the matcher itself looks for them.

use memchr::memmem::Finder;
use regex_syntax::hir::{Hir, HirKind, Look, Repetition};

use crate::search::byte_class::{ByteClass, Run, SEQUENCE_LEN_MAX, Sequence};

/// Classes with more ranges take too long to test.
const RANGES_MAX: usize = 4;
/// Classes kept of a part that matches nothing else.
const PART_LEN_MAX: usize = 64;
/// Such parts kept. Patterns may have any length.
const PARTS_MAX: usize = 64;
/// Copies of a repeated subexpression that are looked at.
const COPIES_MAX: u32 = SEQUENCE_LEN_MAX as u32;
/// Sequences that are sought, one after the other, until one is rare in a text.
const SEQUENCES_MAX: usize = 3;
/// A sequence that is expected at a larger share of all places is no help.
const SHARE_MAX: f64 = 0.05;

/// What every matching line has.
#[derive(Clone, Debug)]
pub(crate) struct Prefilter {
    sought: Sought,
    /// A line that has it, and is all ASCII, matches.
    is_enough: bool,
}

#[derive(Clone, Debug)]
enum Sought {
    /// Every line has it.
    Nothing,
    /// The expression is a literal. The matcher looks for it as fast, but takes as long to start in each line.
    Literal(Box<Finder<'static>>),
    /// Every line has each of them. The first is expected to be the rarest.
    Sequences(Vec<Sequence>),
    Run(Run),
}

impl Prefilter {
    /// The prefilter that needs no matcher, for any text.
    pub(crate) fn complete(expressions: &[Hir]) -> Option<Self> {
        let [expression] = expressions else { return None };
        let sought = match expression.kind() {
            _ if matches_every_line(expression) => Sought::Nothing,
            HirKind::Literal(literal) if !literal.0.contains(&b'\n') => {
                Sought::Literal(Box::new(Finder::new(&literal.0).into_owned()))
            }
            _ => return None,
        };
        Some(Self { sought, is_enough: true })
    }

    /// Any other prefilter. Several expressions have nothing in common. `is_plain`: the matcher adds no condition.
    pub(crate) fn new(expressions: &[Hir], is_plain: bool) -> Option<Self> {
        let [expression] = expressions else { return None };
        let expression = shortest(expression);
        if let Some((run, is_all)) = run(&expression) {
            return Some(Self { sought: Sought::Run(run), is_enough: is_plain && is_all });
        }
        let mut parts = parts(&expression);
        if let (Some(last), HirKind::Concat(all)) = (parts.last_mut(), expression.kind())
            && !last.is_empty()
            && all.last().is_some_and(|last| *last.kind() == HirKind::Look(Look::EndLF))
        {
            last.push(ByteClass::single(b'\n'));
        }
        let has_looks = !expression.properties().look_set().is_empty();
        let all = match (&parts[..], expression.kind()) {
            ([class, _], HirKind::Class(_)) => Some(class),
            ([classes], _) if is_sequence(classes) && !has_looks => Some(classes),
            _ => None,
        };
        let sequences = match all {
            Some(classes) if classes.iter().all(ByteClass::is_single) => Vec::new(),
            Some(classes) => vec![Sequence::new(classes)],
            None => rarest(&parts),
        };
        let is_enough = is_plain && all.is_some();
        (!sequences.is_empty()).then_some(Self { sought: Sought::Sequences(sequences), is_enough })
    }

    /// Ways to search. The first is expected to be the best, but others may be better for some texts.
    pub(crate) fn ways(&self) -> usize {
        match &self.sought {
            Sought::Sequences(sequences) => sequences.len(),
            Sought::Nothing | Sought::Literal(_) | Sought::Run(_) => 1,
        }
    }

    /// A place in the first line of `text` that may match. `text` is whole lines.
    pub(crate) fn find(&self, way: usize, text: &[u8]) -> Option<usize> {
        match &self.sought {
            Sought::Nothing => Some(0),
            Sought::Literal(literal) => literal.find(text),
            // A last line without a line end lacks what may be sought.
            Sought::Sequences(sequences) => sequences[way].find(text).or_else(|| {
                (!self.is_enough && !text.ends_with(b"\n")).then(|| text.len().saturating_sub(1))
            }),
            Sought::Run(run) => run.find(text),
        }
    }

    /// Whether `line`, in which something was found, needs no matcher. A character of several bytes may count as one.
    pub(crate) fn is_enough(&self, line: &[u8]) -> bool {
        self.is_enough && (matches!(self.sought, Sought::Nothing | Sought::Literal(_)) || line.is_ascii())
    }
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

/// The run that an expression such as `[0-9]{7,}`, `\w` or `^.{80,}$` asks for, and whether it asks for nothing else.
/// A sequence is faster for few bytes of a simple class.
fn run(expression: &Hir) -> Option<(Run, bool)> {
    let (parts, anchors) = match expression.kind() {
        HirKind::Concat(parts) => {
            // `$` before the run, or `^` behind it, forbids a match.
            let is = |part: Option<&Hir>, look| part.is_some_and(|part| *part.kind() == HirKind::Look(look));
            let anchors = [is(parts.first(), Look::StartLF), is(parts.last(), Look::EndLF)];
            (&parts[usize::from(anchors[0])..parts.len() - usize::from(anchors[1])], anchors)
        }
        _ => (std::slice::from_ref(expression), [false; 2]),
    };
    let [part] = parts else { return None };
    let (part, least, is_open) = match part.kind() {
        HirKind::Repetition(part) => (&*part.sub, part.min as usize, part.max.is_none()),
        _ => (part, 1, false),
    };
    let HirKind::Class(class) = part.kind() else { return None };
    let (class, is_one_byte) = ByteClass::of(class);
    let is_short = least == 1 || is_one_byte && least <= SEQUENCE_LEN_MAX;
    if least == 0 || is_short && class.ranges() <= RANGES_MAX {
        return None;
    }
    let is_all = anchors == [false; 2] || class == ByteClass::line() && (is_open || anchors != [true; 2]);
    Some((Run::new(&class, least), is_all))
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

/// The bytes of every match, by their classes, in their order. Anything may stand between two parts, or nothing.
fn parts(expression: &Hir) -> Vec<Vec<ByteClass>> {
    match expression.kind() {
        HirKind::Empty | HirKind::Look(_) => vec![Vec::new()],
        HirKind::Literal(literal) => vec![literal.0.iter().map(|&byte| ByteClass::single(byte)).collect()],
        HirKind::Class(class) => match ByteClass::of(class) {
            (class, true) => vec![vec![class]],
            // The first and the last byte of a character.
            (class, false) => vec![vec![class.clone()], vec![class]],
        },
        HirKind::Capture(capture) => parts(&capture.sub),
        HirKind::Concat(all) => all.iter().map(parts).reduce(joined).unwrap_or_default(),
        HirKind::Repetition(repetition) if repetition.min > 0 => {
            let one = parts(&repetition.sub);
            let copies = repetition.min.min(COPIES_MAX);
            let all = (1..copies).fold(one.clone(), |all, _| joined(all, one.clone()));
            if repetition.max == Some(copies) { all } else { [all.clone(), all].concat() }
        }
        HirKind::Repetition(_) | HirKind::Alternation(_) => vec![Vec::new(); 2],
    }
}

/// `next` behind `all`.
fn joined(mut all: Vec<Vec<ByteClass>>, next: Vec<Vec<ByteClass>>) -> Vec<Vec<ByteClass>> {
    let mut next = next.into_iter().peekable();
    if let Some(last) = all.last_mut()
        && let Some(first) = next.next_if(|first| last.len() + first.len() <= PART_LEN_MAX)
    {
        last.extend(first);
    }
    all.extend(next);
    all.drain(1..1 + all.len().saturating_sub(PARTS_MAX));
    all
}

/// Whether one [`Sequence`] can hold all of `classes`.
fn is_sequence(classes: &[ByteClass]) -> bool {
    (1..=SEQUENCE_LEN_MAX).contains(&classes.len())
        && classes.iter().all(|class| class.ranges() <= RANGES_MAX)
}

/// The sequences in `parts` that are expected to be rare, the rarest first.
fn rarest(parts: &[Vec<ByteClass>]) -> Vec<Sequence> {
    let windows = parts.iter().flat_map(|part| part.windows(part.len().clamp(1, SEQUENCE_LEN_MAX)));
    let windows = windows.filter(|window| is_sequence(window));
    let mut by_share: Vec<(f64, Sequence)> = Vec::new();
    for window in windows {
        let next = (window.iter().map(ByteClass::share).product(), Sequence::new(window));
        if next.0 <= SHARE_MAX && !by_share.contains(&next) {
            by_share.push(next);
        }
    }
    by_share.sort_by(|a, b| a.0.total_cmp(&b.0));
    by_share.into_iter().take(SEQUENCES_MAX).map(|(_, sequence)| sequence).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::search::query::{PatternOptions, parse};

    fn of(pattern: &str) -> Option<Prefilter> {
        let options = PatternOptions { unicode: true, by_line: true, ..PatternOptions::default() };
        let expressions = parse(&[pattern], options).unwrap();
        Prefilter::complete(&expressions).or_else(|| Prefilter::new(&expressions, true))
    }

    /// Where `line` has what is sought, and whether it then needs no matcher.
    fn found(pattern: &str, line: &str) -> Option<(usize, bool)> {
        let prefilter = of(pattern).unwrap_or_else(|| panic!("{pattern} has no prefilter"));
        let line = format!("{line}\n");
        prefilter.find(0, line.as_bytes()).map(|at| (at, prefilter.is_enough(line.as_bytes())))
    }

    #[test]
    fn what_is_all_that_a_pattern_asks_for_is_enough() {
        for (pattern, line, at) in [
            ("x*", "", 0),
            ("é", "aé", 1),
            ("^x?", "é", 0),
            (r"\w+", "\t+y", 2),
            ("(?:[ab])x*", "--b", 2),
            ("[A-Z][0-9]?", "xB", 1),
            ("[aeiou]{4,}", "aexioaou", 3),
            ("[0-9]{7,}", "123456a1234567", 7),
            ("^.{3,}$", "abc", 0),
            (".{3}", "abcd", 0),
        ] {
            assert_eq!(found(pattern, line), Some((at, true)), "{pattern}");
        }
        assert_eq!(found("[0-9]{7,}", "123456"), None);
        assert_eq!(found(".{3}", "é1"), Some((0, false)), "three bytes, two characters");
        assert_eq!(found("^.{2,3}$", "abcd"), Some((0, false)), "more than it allows");
        assert_eq!(found("^[0-9]{5,}$", "a12345"), Some((1, false)));
        for never in ["$.{2,}", "${2}.{2,}", ".{2,}^"] {
            assert!(of(never).is_none_or(|prefilter| !prefilter.is_enough(b"abcd")), "{never}");
        }
    }

    #[test]
    fn the_rarest_of_what_stands_side_by_side_is_sought() {
        assert_eq!(found("[a-z]+_[0-9]+x[0-9]+", "ab_12_2x1"), Some((6, false)));
        assert_eq!(found(r"[a-z]*\([0-9]\b", "a(b(3"), Some((3, false)));
        assert_eq!(found(r"\p{Greek}+", "aΣ"), Some((1, false)));
        assert_eq!(found(r"[;,]\s+$", "a, b; "), Some((5, false)), "a line end");
        assert_eq!(
            of("[;,]$").unwrap().find(0, b"a\na"),
            Some(2),
            "the matcher sees a last line without one"
        );
        for pattern in ["a*bc", r"\b[a-z]{2}\b", "(ab|cd)", "(int)", "^$"] {
            assert!(of(pattern).is_none(), "{pattern}");
        }
    }

    #[test]
    fn what_is_kept_of_a_long_pattern_is_bounded() {
        let long = format!("x?{}{}", "pointer_[ab]".repeat(2_000), "(?:[ab]c?)".repeat(500));
        let options = PatternOptions { unicode: true, ..PatternOptions::default() };
        let parts = parts(&parse(&[long], options).unwrap()[0]);
        assert!(parts.len() <= PARTS_MAX && parts.iter().all(|part| part.len() <= PART_LEN_MAX));
    }

    /// Parts of patterns, each with how often it comes.
    fn pattern() -> impl Strategy<Value = String> {
        let part = proptest::sample::select(
            &[
                "a", "b", "_", "x", "é", "[0-9]", "[a-d_]", "[ab]", "[^a]", ".", "ab_", r"\w", "[a-é]",
                "[a0_x2]", "(a|b)", "(ab|é)", "^", "$", r"\b",
            ][..],
        );
        let times =
            proptest::sample::select(&["", "", "*", "+", "?", "{2}", "{3}", "{5}", "{1,2}", "{2,}"][..]);
        let part = (part, times, any::<bool>()).prop_map(|(part, times, group)| {
            if group { format!("({part}{times})") } else { format!("{part}{times}") }
        });
        proptest::collection::vec(part, 1..5).prop_map(|parts| parts.concat())
    }

    proptest! {
        #[test]
        fn a_matching_line_has_it_and_no_other_line_has_enough(
            line in "(aab|bab|ab_|aba|a_b|aaa|bbb|[ab_x0-9é]){0,8}",
            before in 0_usize..300,
            pattern in pattern(),
        ) {
            let regex = regex_automata::meta::Regex::new(&format!("(?m:{pattern})")).unwrap();
            let line = format!("{}{line}", " ".repeat(before));
            if let Some(prefilter) = of(&pattern) {
                let is_match = regex.is_match(&line);
                for (way, line) in (0..prefilter.ways()).flat_map(|way| [(way, line.clone()), (way, format!("{line}\n"))]) {
                    let is_found = prefilter.find(way, line.as_bytes()).is_some();
                    prop_assert!(is_found || !is_match);
                    prop_assert!(is_match || !is_found || !prefilter.is_enough(line.as_bytes()));
                }
            }
        }
    }
}
