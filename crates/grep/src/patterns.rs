//! Flags -> the patterns to search for.
//!
//! In: [`Args`]. Out: patterns and the remaining paths; a [`LineMatcher`]; a [`QueryPlan`] for the
//! index; a [`SearcherBuilder`]. This module does not search.

use std::collections::HashSet;
use std::ffi::OsString;
use std::path::Path;

use faultless_grepdb::engine::{LineMatcher, PatternOptions, QueryPlan, mistake};
use grep_matcher::LineTerminator;
use grep_regex::RegexMatcherBuilder;
use grep_searcher::{BinaryDetection, Encoding, SearcherBuilder};

use crate::flags::Args;
use faultless_console::{Failure, reason};

/// The patterns, and the paths to search.
pub(crate) fn patterns(args: &Args) -> Result<(Vec<String>, Vec<OsString>), Failure> {
    let flags = &args.matching;
    if flags.patterns.is_empty() && flags.pattern_files.is_empty() {
        let pattern = args.pattern.clone().ok_or_else(|| {
            Failure("PATTERN is missing; write it like this: faultless grep PATTERN [PATH]...".into())
        })?;
        let pattern = pattern.into_string().map_err(|pattern| {
            let pattern = pattern.display();
            Failure(format!("{pattern}: the pattern is no UTF-8; write bytes like this: '(?-u:\\xFF)'"))
        })?;
        return Ok((vec![pattern], args.paths.clone()));
    }
    let mut patterns = flags.patterns.clone();
    for path in &flags.pattern_files {
        let lines = if path == Path::new("-") {
            grep_cli::patterns_from_stdin()
        } else {
            grep_cli::patterns_from_path(path)
        };
        // The error names the file.
        patterns
            .extend(lines.map_err(|error| Failure(format!("{}; name a FILE of patterns", reason(&error))))?);
    }
    // A repeated pattern makes the automaton larger and finds nothing more.
    let mut seen = HashSet::new();
    patterns.retain(|pattern| seen.insert(pattern.clone()));
    Ok((patterns, args.pattern.iter().chain(&args.paths).cloned().collect()))
}

/// What NUL bytes do: in files found by a walk, and in named files.
pub(crate) fn binary(args: &Args) -> (BinaryDetection, BinaryDetection) {
    if args.which.text || args.matching.null_data {
        return (BinaryDetection::none(), BinaryDetection::none());
    }
    let found = if args.which.asks_binary() { BinaryDetection::convert(0) } else { BinaryDetection::quit(0) };
    (found, BinaryDetection::convert(0))
}

pub(crate) fn matcher(args: &Args, patterns: &[String]) -> Result<LineMatcher, Failure> {
    let flags = &args.matching;
    let mut builder = RegexMatcherBuilder::new();
    builder
        .multi_line(true)
        .unicode(!flags.no_unicode)
        .octal(false)
        .fixed_strings(flags.fixed_strings)
        .case_insensitive(flags.ignore_case)
        .case_smart(flags.smart_case)
        .whole_line(flags.line_regexp)
        .word(flags.word_regexp);
    if flags.multiline {
        builder.dot_matches_new_line(flags.multiline_dotall);
        if flags.crlf {
            builder.crlf(true).line_terminator(None);
        }
    } else {
        builder.line_terminator(Some(b'\n'));
        if flags.crlf {
            builder.crlf(true);
        }
        if flags.null_data {
            builder.line_terminator(Some(0));
        }
    }
    if let Some(limit) = flags.regex_size_limit {
        builder.size_limit(usize::try_from(limit).unwrap_or(usize::MAX));
    }
    if let Some(limit) = flags.dfa_size_limit {
        builder.dfa_size_limit(usize::try_from(limit).unwrap_or(usize::MAX));
    }
    if binary(args).1 != BinaryDetection::none() {
        builder.ban_byte(Some(0));
    }
    // A limit may refuse the patterns, which has to show at once.
    let is_one = flags.no_unicode || flags.regex_size_limit.is_some() || flags.dfa_size_limit.is_some();
    let build = if is_one { LineMatcher::new } else { LineMatcher::with_ascii };
    build(builder, patterns).map_err(|error| {
        if let Some(mistake) = patterns.iter().find_map(|pattern| mistake(pattern, !flags.no_unicode)) {
            return Failure(format!("{mistake}; -F takes it as text"));
        }
        let error = error.to_string();
        let remedy = match &error {
            error if error.contains("pattern contains \"\\0\"") => "-a searches for NUL bytes",
            error if error.contains("not allowed") => "-U matches line ends",
            error if error.contains("size limit") => "--regex-size-limit allows more",
            _ => "-F takes it as text",
        };
        // If the patterns are wrong only together, the error shows them in its first lines.
        let what = error.lines().last().unwrap_or_default().trim_start_matches("error: ");
        Failure(format!("{what}; {remedy}"))
    })
}

/// The query for the index.
pub(crate) fn query_plan(args: &Args, patterns: &[String]) -> Result<QueryPlan, Failure> {
    let flags = &args.matching;
    let looks = &args.looks;
    if flags.invert_match || looks.passthru || looks.files_without_match || looks.include_zero {
        return Ok(QueryPlan::FULL_SCAN);
    }
    let options = PatternOptions {
        // A query that ignores case finds no less. It is right for smart case too.
        ignore_case: flags.ignore_case || flags.smart_case,
        unicode: !flags.no_unicode,
        crlf: flags.crlf,
        fixed: flags.fixed_strings,
        by_line: !(flags.multiline || flags.null_data),
        is_plain: !(flags.smart_case || flags.word_regexp || flags.line_regexp),
    };
    let plan = QueryPlan::new(patterns, options)?;
    Ok(if args.engine.brute_force { plan.without_index() } else { plan })
}

pub(crate) fn searcher(args: &Args, line_number: bool) -> Result<SearcherBuilder, Failure> {
    let (flags, looks) = (&args.matching, &args.looks);
    let terminator = match (flags.crlf, flags.null_data) {
        (true, _) => LineTerminator::crlf(),
        (_, true) => LineTerminator::byte(0),
        _ => LineTerminator::byte(b'\n'),
    };
    let context = looks.context.unwrap_or(0);
    let mut builder = SearcherBuilder::new();
    builder
        .max_matches(flags.max_count)
        .line_terminator(terminator)
        .invert_match(flags.invert_match)
        .line_number(line_number)
        .multi_line(flags.multiline)
        .stop_on_nonmatch(flags.stop_on_nonmatch)
        .passthru(looks.passthru)
        .before_context(looks.before_context.unwrap_or(context))
        .after_context(looks.after_context.unwrap_or(context));
    match args.which.encoding.as_deref() {
        None | Some("auto") => {}
        Some("none") => {
            builder.bom_sniffing(false);
        }
        Some(label) => {
            let encoding = Encoding::new(label).map_err(|_| {
                let remedy = "name one that browsers know, such as latin1, utf-16le or shift_jis, or none";
                Failure(format!("{label}: no such encoding; {remedy}"))
            })?;
            builder.encoding(Some(encoding));
        }
    }
    Ok(builder)
}
