//! What to do next: the commands that answer the next question about this program, or that there is nothing to do.

use faultless_trace::Stat;

use super::section::headed;
use crate::palette::Palette;
use crate::table::{Align, SCREEN, columns};
use crate::tuning::{WORTH_FROM, WORTH_FROM_SECONDS};

/// One line, or one for each command.
pub(super) fn next(stat: &Stat, palette: Palette) -> Vec<String> {
    if stat.faults() == 0 {
        return Vec::new();
    }
    let time = stat.time.as_ref();
    if time.is_some_and(|time| time.share.high < WORTH_FROM || time.seconds.high < WORTH_FROM_SECONDS) {
        return vec![" Next: nothing. Page faults take too little time to be worth a change.".to_owned()];
    }
    const CURE: &str = "which cure helps";
    const SITE: &str = "which code faults";
    let words: Vec<String> = stat.command.iter().map(|word| quoted(word)).collect();
    let command = super::plain(&words.join(" "));
    // One that is cut off could not be run.
    let room = SCREEN - 3 - SITE.len() - 2 - "faultless advise -- ".len();
    let command = if command.chars().count() <= room { command } else { "COMMAND".to_owned() };
    let line = |what: &str, verb: &str| vec![what.to_owned(), format!("faultless {verb} -- {command}")];
    headed("Next", palette, columns(3, &[Align::Left; 2], &[line(CURE, "advise"), line(SITE, "record")]))
}

/// A word as a shell reads it back.
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
        let words = ["a.c", "-O2", "for i in $(seq 2)", "it's", ""];
        assert_eq!(words.map(quoted), ["a.c", "-O2", "'for i in $(seq 2)'", "'it'\\''s'", "''"]);
    }
}
