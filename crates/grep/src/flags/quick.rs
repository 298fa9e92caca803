//! The flags of most searches, read without clap: building clap's description takes as long as the index
//! takes to find a word.
//!
//! In: the words of a search. Out: the same [`Args`] as clap's. `None` if only clap can read the words, or if
//! they are wrong.

use std::ffi::OsString;

use super::Args;
use super::types::TypeChange;

/// Reads words as clap would.
pub(crate) fn read(words: &[OsString]) -> Option<Args> {
    let mut args = Args::default();
    let mut named = Vec::new();
    let mut words = words.iter();
    while let Some(word) = words.next() {
        let text = word.to_str()?;
        if let Some(long) = text.strip_prefix("--") {
            (long.len() > 1 && switch(&mut args, long)).then_some(())?;
        } else if let Some(mut letters) = text.strip_prefix('-') {
            (!letters.is_empty() && letters.is_ascii()).then_some(())?;
            while !letters.is_empty() {
                let (letter, rest) = letters.split_at(1);
                letters = rest;
                if !switch(&mut args, letter) {
                    let value = match rest {
                        "" => words.next()?.to_str().filter(|value| !value.starts_with('-'))?,
                        _ => (!rest.starts_with('=')).then_some(rest)?,
                    };
                    option(&mut args, letter, value)?;
                    letters = "";
                }
            }
        } else {
            named.push(word.clone());
        }
    }
    let mut named = named.into_iter();
    (args.pattern, args.paths) = (named.next(), named.collect());
    Some(args)
}

/// Reads a flag without a value. False if `name` is no such flag.
fn switch(args: &mut Args, name: &str) -> bool {
    let Args { matching, which, looks, engine, .. } = args;
    match name {
        "i" | "ignore-case" | "s" | "case-sensitive" | "S" | "smart-case" => {
            matching.ignore_case = matches!(name, "i" | "ignore-case");
            matching.case_sensitive = matches!(name, "s" | "case-sensitive");
            matching.smart_case = matches!(name, "S" | "smart-case");
        }
        "F" | "fixed-strings" => matching.fixed_strings = true,
        "w" | "word-regexp" => (matching.word_regexp, matching.line_regexp) = (true, false),
        "x" | "line-regexp" => (matching.word_regexp, matching.line_regexp) = (false, true),
        "v" | "invert-match" => matching.invert_match = true,
        "l" | "files-with-matches" | "c" | "count" | "json" => {
            looks.files_with_matches = matches!(name, "l" | "files-with-matches");
            looks.count = matches!(name, "c" | "count");
            looks.json = name == "json";
        }
        "q" | "quiet" => looks.quiet = true,
        "o" | "only-matching" => looks.only_matching = true,
        "n" | "line-number" => (looks.line_number, looks.no_line_number) = (true, false),
        "N" | "no-line-number" => (looks.line_number, looks.no_line_number) = (false, true),
        "H" | "with-filename" => (looks.with_filename, looks.no_filename) = (true, false),
        "I" | "no-filename" => (looks.with_filename, looks.no_filename) = (false, true),
        "heading" => (looks.heading, looks.no_heading) = (true, false),
        "no-heading" => (looks.heading, looks.no_heading) = (false, true),
        "column" => (looks.column, looks.no_column) = (true, false),
        "fresh" => which.fresh = true,
        "brute-force" => engine.brute_force = true,
        _ => return false,
    }
    true
}

/// Reads a flag with a value. `None` if `letter` is no such flag, or if the value is wrong.
fn option(args: &mut Args, letter: &str, value: &str) -> Option<()> {
    let Args { matching, which, looks, engine, .. } = args;
    match letter {
        "e" => matching.patterns.push(value.into()),
        "m" => matching.max_count = Some(value.parse().ok()?),
        "g" => which.globs.push(value.into()),
        "t" => which.types.0.push(TypeChange::Select(value.into())),
        "A" => looks.after_context = Some(value.parse().ok()?),
        "B" => looks.before_context = Some(value.parse().ok()?),
        "C" => looks.context = Some(value.parse().ok()?),
        "j" => engine.threads = Some(value.parse().ok()?),
        _ => return None,
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;

    use clap::Parser;
    use proptest::prelude::*;

    use super::read;
    use crate::Search;

    const WORDS: &str = "-i -s -S -F -w -x -v -l -c -q -o -n -N -H -I -nH -inw -j2 -j -j=2 -e -efoo -e=foo -m1 -m -g -g!*.c -t -tc \
        -A2 -B -C+1 -C-1 -A=1 -je2 -in2 --ignore-case --smart-case --case-sensitive --fixed-strings --word-regexp --line-regexp \
        --invert-match --count --count-matches --json --quiet --heading --no-heading --column --fresh --brute-force --color=never \
        --threads=3 --ign --i --e --regexp --hidden -u -L -U -- - --help -h -V -0 -é foo 2 3x *.rs c . -5 ''";

    fn owned<'w>(words: impl IntoIterator<Item = &'w str>) -> Vec<OsString> {
        words.into_iter().map(|word| if word == "''" { "" } else { word }.into()).collect()
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 4_000, ..ProptestConfig::default() })]

        #[test]
        fn what_is_read_is_what_clap_reads(
            words in proptest::collection::vec(proptest::sample::select(WORDS.split_whitespace().collect::<Vec<_>>()), 0..6),
        ) {
            let words = owned(words);
            if let Some(quick) = read(&words) {
                let clap = Search::try_parse_from([OsString::from("search")].iter().chain(&words));
                let clap = clap.map_err(|error| TestCaseError::fail(error.to_string()))?;
                prop_assert_eq!(format!("{quick:?}"), format!("{:?}", clap.search));
            }
        }
    }

    #[test]
    fn most_searches_are_read() {
        for words in
            ["foo", "-j2 -nH foo", "-i -e foo -e bar src", "-lw foo -g *.rs", "-C 3 foo -t c . --no-heading"]
        {
            assert!(read(&owned(words.split(' '))).is_some(), "{words}");
        }
    }
}
