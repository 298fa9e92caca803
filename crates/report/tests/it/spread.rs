//! No text prints a spread that is larger than a share of its figure.
//!
//! The rule is written down a second time here, and read from the printed text on both sides of each `±`.

/// The largest half-width that a text may print, as a share of the figure.
const MOST: f64 = 0.3;

/// Checks every `±` of a text and returns their number.
pub(crate) fn assert_narrow(text: &str) -> usize {
    let mut found = 0;
    for line in text.lines() {
        for (at, sign) in line.match_indices('±') {
            let (before, after) = (&line[..at], &line[at + sign.len()..]);
            let value = last_figure(before).unwrap_or_else(|| panic!("no figure before ± in: {line}"));
            let half = first_figure(after).unwrap_or_else(|| panic!("no figure after ± in: {line}"));
            // A tolerance for figures exactly at the limit.
            assert!(half <= MOST * value + 1e-9, "{value} ± {half} in: {line}");
            found += 1;
        }
    }
    found
}

/// The figure at the begin of a text, with its groups of three digits: one blank between groups, more before
/// a column.
fn first_figure(text: &str) -> Option<f64> {
    let mut words = text.trim_start().split(char::is_whitespace);
    let mut digits = number(words.next()?)?.to_owned();
    for group in words.take_while(|word| is_group(word)) {
        digits.push_str(group);
    }
    digits.parse().ok()
}

/// The figure at the end of a text.
fn last_figure(text: &str) -> Option<f64> {
    let mut words: Vec<&str> = text.trim_end().split(char::is_whitespace).collect();
    let mut digits = number(words.pop()?.trim_start_matches('('))?.to_owned();
    while is_group(digits.get(..3).unwrap_or("")) && !digits.contains('.') {
        let Some(more) = words.pop().map(|word| word.trim_start_matches('(')).filter(|word| is_leading(word))
        else {
            break;
        };
        digits.insert_str(0, more);
        if more.len() < 3 {
            break;
        }
    }
    digits.parse().ok()
}

fn number(word: &str) -> Option<&str> {
    let word = word.trim_end_matches([',', ';', ')']);
    word.parse::<f64>().is_ok().then_some(word)
}

fn is_group(word: &str) -> bool {
    word.len() == 3 && word.bytes().all(|byte| byte.is_ascii_digit())
}

fn is_leading(word: &str) -> bool {
    (1..=3).contains(&word.len()) && word.bytes().all(|byte| byte.is_ascii_digit())
}

#[test]
fn a_spread_above_the_limit_is_found() {
    assert_eq!(
        assert_narrow("626 ± 44 ms of 3.05 s (21 ± 1 %), 6 287 ± 687 and 1 006 287 ± 12 345 faults"),
        4
    );
    assert_eq!(assert_narrow("220 ± 25 us           0.5 %  7  51 ± 5    204 KiB"), 2);
    for wide in ["43 % of it, 43 ± 57 %", "1.00 ± 0.31 s", "6 287 ± 6 000", "(287 ± 100 %)"] {
        assert!(std::panic::catch_unwind(|| assert_narrow(wide)).is_err(), "{wide}");
    }
}
