//! For any pattern and any line: if the pattern matches, the query plan admits the line.
#![no_main]

use faultless_grepdb::engine::{PatternOptions, QueryPlan};
use grep_matcher::Matcher;
use grep_regex::RegexMatcherBuilder;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: (&str, &[u8], u8)| {
    let (pattern, line, flags) = input;
    let line = line.split(|&byte| byte == b'\n').next().unwrap_or_default();
    let has = |bit: u8| flags & 1 << bit != 0;
    let is_plain = !has(4);
    let options =
        PatternOptions { ignore_case: has(0), unicode: has(1), crlf: has(2), fixed: has(3), by_line: has(5), is_plain };
    let matcher = RegexMatcherBuilder::new()
        .multi_line(true)
        .case_insensitive(options.ignore_case)
        .unicode(options.unicode)
        .crlf(options.crlf)
        .fixed_strings(options.fixed)
        .word(has(4))
        .size_limit(1 << 20)
        .build(pattern);
    let Ok(matcher) = matcher else { return };
    let Ok(plan) = QueryPlan::new(&[pattern], options) else { return };
    if matcher.is_match(line).unwrap_or(false) {
        assert!(plan.admits(line), "{pattern:?} matches {line:?}, which is passed over: {plan:?}");
    }
});
