//! Expressions become the expected queries, and no match is ever lost.

use proptest::prelude::*;

use super::*;
use crate::index::trigram::TrigramExtractor;
use crate::search::query_plan::QueryPlan;

fn of(pattern: &str) -> TrigramQuery {
    trigram_query(&parse(&[pattern], PatternOptions { unicode: true, ..PatternOptions::default() }).unwrap())
}

/// The query for all trigrams of `text`.
fn all(text: &str) -> TrigramQuery {
    trigrams(&Strings::from([text.as_bytes().to_vec()]))
}

#[test]
fn literals_need_all_their_grams() {
    assert_eq!(of("foobar"), all("foobar"));
    assert_eq!(of("FooBar"), all("FooBar"));
    assert_eq!(of("fo"), TrigramQuery::Any);
    assert_eq!(of(""), TrigramQuery::Any);
}

#[test]
fn where_case_does_not_matter_each_gram_is_asked_for_in_all_its_cases() {
    let any = |text: &str| {
        let cases = Trigram::of(text.as_bytes().try_into().unwrap()).unwrap().case_variants();
        TrigramQuery::Or(cases.into_iter().map(TrigramQuery::Trigram).collect())
    };
    assert_eq!(of("(?i)ab_c"), any("ab_").and(any("b_c")));
    // A few strings are fewer than eight cases of each trigram.
    assert_eq!(of("[Aa]bc"), all("Abc").or(all("abc")));
    assert!(of("(?i)unbelievable_claim").trigrams() <= 8 * 20);
}

#[test]
fn what_may_be_missing_is_not_asked_for() {
    assert_eq!(of("fooo?bar"), all("foobar").or(all("fooobar")));
    assert_eq!(of("foo.*bar"), all("foo").and(all("bar")));
    assert_eq!(of("(abc)*"), TrigramQuery::Any);
    assert_eq!(of("(abc)+"), all("abc"));
    assert_eq!(of("abc|xy"), TrigramQuery::Any);
    assert_eq!(of("abc|xyz"), all("abc").or(all("xyz")));
}

#[test]
fn what_spans_two_parts_is_asked_for() {
    assert_eq!(of(r"\w+_lock\(.*irq"), all("_lock(").and(all("irq")));
    // This class has 104 characters. None of them is left out.
    assert_eq!(of("[A-Ta-tα-ωé]xy"), TrigramQuery::Any);
    assert_eq!(of("[ab]cd"), all("acd").or(all("bcd")));
    assert_eq!(of("x{2,}yz"), all("xxy").and(all("xyz")));
}

#[test]
fn lines_are_no_part_of_grams() {
    assert_eq!(of(r"ab\ncd"), TrigramQuery::Any);
    assert_eq!(of(r"abc\nxyz"), all("abc").and(all("xyz")));
    assert_eq!(of("^abc$"), all("abc"));
}

#[test]
fn a_class_that_may_end_lines_says_something_of_its_neighbours() {
    let options = PatternOptions { by_line: true, ..PatternOptions::default() };
    let query = trigram_query(&parse(&[r"(?-u:\s)+xy"], options).unwrap());
    assert_eq!(
        query,
        ["\txy", "\x0bxy", "\x0cxy", "\rxy", " xy"]
            .map(all)
            .into_iter()
            .fold(TrigramQuery::Nothing, TrigramQuery::or)
    );
    assert_eq!(of(r"\s+xy"), TrigramQuery::Any);
}

#[test]
fn a_wrong_pattern_is_refused_and_a_fixed_one_is_none() {
    assert!(parse(&["("], PatternOptions::default()).is_err());
    let fixed = PatternOptions { fixed: true, ..PatternOptions::default() };
    assert_eq!(trigram_query(&parse(&["a(b"], fixed).unwrap()), all("a(b"));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    /// Expressions and texts share a small alphabet, so that matches are frequent.
    #[test]
    fn no_match_is_ever_lost(
        patterns in proptest::collection::vec(expression(), 1..3),
        line in "[abcABkKsSéÉſK .]{0,14}",
        ignore_case in any::<bool>(),
        unicode in any::<bool>(),
        by_line in any::<bool>(),
    ) {
        let options = PatternOptions { ignore_case, unicode, by_line, is_plain: true, ..PatternOptions::default() };
        // Some classes need Unicode.
        let Ok(expressions) = parse(&patterns, options) else { return Ok(()) };
        let query = trigram_query(&expressions);
        let mut extractor = TrigramExtractor::new();
        let found: BTreeSet<Trigram> = extractor.extract(line.as_bytes()).into_iter().map(|(trigram, _)| trigram).collect();
        for pattern in &patterns {
            let regex = regex_automata::meta::Builder::new()
                .syntax(regex_automata::util::syntax::Config::new().utf8(false).multi_line(true).unicode(unicode).case_insensitive(ignore_case))
                .build(pattern);
            let Ok(regex) = regex else { continue };
            if regex.is_match(line.as_bytes()) {
                prop_assert!(query.holds(&found), "{:?} in {:?}: {:?}", pattern, line, query);
                let plan = QueryPlan::new(&[pattern], options).unwrap();
                prop_assert!(plan.admits(line.as_bytes()), "{:?} in {:?}: {:?}", pattern, line, plan);
            }
        }
    }
}

fn expression() -> impl Strategy<Value = String> {
    let leaf = prop_oneof![
        8 => "[abcABkKsSé.]{1,4}".prop_map(|text| regex_syntax::escape(&text)),
        1 => Just(".".to_owned()),
        1 => Just("[abc]".to_owned()),
        1 => Just("[^a]".to_owned()),
        1 => Just("[a-zé]".to_owned()),
        1 => Just("[A-Ta-tK-Z0-9ſ-ƀ_éÉ]".to_owned()),
        1 => Just("[A-Za-z0-9_]".to_owned()),
        1 => Just(r"\w".to_owned()),
        1 => Just(r"\s".to_owned()),
        1 => Just(r"\b".to_owned()),
        1 => Just("^".to_owned()),
        1 => Just("$".to_owned()),
        1 => Just("(?i:kbs)".to_owned()),
    ];
    leaf.prop_recursive(4, 24, 4, |inner| {
        prop_oneof![
            4 => proptest::collection::vec(inner.clone(), 1..4).prop_map(|parts| parts.concat()),
            2 => proptest::collection::vec(inner.clone(), 1..4).prop_map(|parts| format!("(?:{})", parts.join("|"))),
            2 => (inner, proptest::sample::select(&["*", "+", "?", "{2}", "{2,}", "{1,3}", "{5,}", "{0}"][..]))
                .prop_map(|(inner, times)| format!("(?:{inner}){times}")),
        ]
    })
}
