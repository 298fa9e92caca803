//! A command as one line that a shell reads back.

use crate::stat::plain;

/// Quotes words that a shell would split or expand. Replaces control characters.
pub(crate) fn line(words: &[String]) -> String {
    let words: Vec<String> = words.iter().map(|word| quoted(word)).collect();
    plain(&words.join(" "))
}

fn quoted(word: &str) -> String {
    let is_bare = |c: char| c.is_ascii_alphanumeric() || "_./=:,@%+-".contains(c);
    match !word.is_empty() && word.chars().all(is_bare) {
        true => word.to_owned(),
        false => format!("'{}'", word.replace('\'', "'\\''")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_is_quoted_where_a_shell_would_split_or_expand_it() {
        let words = ["a.c", "-O2", "for i in $(seq 2)", "it's", "", "a\u{1b}[2Jb"];
        let line = line(&words.map(str::to_owned));
        assert_eq!(line, "a.c -O2 'for i in $(seq 2)' 'it'\\''s' '' 'a\u{fffd}[2Jb'");
    }
}
