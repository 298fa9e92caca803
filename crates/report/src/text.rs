//! What several texts need: harmless names and commands, JSON, a table of strings.

use std::collections::{BTreeMap, HashMap};

use faultless_trace::measurement::Nanos;
use serde::Serialize;

/// Text from a trace, without characters that a terminal obeys.
pub(crate) fn plain(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect()
}

/// A document as indented JSON, ending in a newline.
///
/// Its `schema` rises when a field changes its meaning or goes; new fields don't raise it. Units end the names (`_ns`,
/// `_bytes`); `seconds` are seconds. Shares go from 0 to 1. `low` and `high` are the ends of a 95 % interval. Absent
/// figures are `null`.
pub fn json(document: &impl Serialize) -> String {
    // Only maps with keys that are not strings can fail. There is none.
    serde_json::to_string_pretty(document).map_or_else(|_| "null\n".to_owned(), |json| json + "\n")
}

/// A named document as a line of JSON: `{"tick": {...}}`.
pub fn json_line(name: &str, document: &impl Serialize) -> String {
    serde_json::to_string(&BTreeMap::from([(name, document)])).unwrap_or_default() + "\n"
}

/// A command as one line that a shell reads back: words that it would split or expand are quoted.
pub fn command(words: &[String]) -> String {
    let words: Vec<String> = words.iter().map(|word| quoted(word)).collect();
    words.join(" ")
}

/// A command to give again, behind `--`: all of it if it has at most `room` characters. A part would be another command,
/// so a longer one is `CMD`, and the second text says what that is. So is a running process that has set its title, and
/// several processes.
pub(crate) fn again(words: &[String], room: usize) -> (String, Option<&'static str>) {
    let is_title = |word: &String| {
        let (name, rest) = word.split_once(' ').unwrap_or((word, ""));
        !name.contains('/') && (!rest.is_empty() || name.ends_with(']'))
    };
    let whole = if words.first().is_some_and(is_title) { String::new() } else { command(words) };
    match whole.chars().count() {
        0 => ("CMD".to_owned(), Some("CMD: the program and its arguments")),
        len if len <= room => (whole, None),
        _ => ("CMD".to_owned(), Some("CMD: the same command, with all its arguments")),
    }
}

/// Text in one line: control characters as a shell writes them, `\n` and `\x1b`.
pub(crate) fn escaped(text: &str) -> String {
    let escape = |c: char| match c {
        '\n' => "\\n".to_owned(),
        '\t' => "\\t".to_owned(),
        '\r' => "\\r".to_owned(),
        c if c.is_ascii_control() => format!("\\x{:02x}", u32::from(c)),
        c if c.is_control() => format!("\\u{:04x}", u32::from(c)),
        c => c.to_string(),
    };
    text.chars().map(escape).collect()
}

/// `, and 12 ms of waits`: for a disk or a lock.
pub(crate) fn and_waits(ns: f64) -> String {
    if ns > 0.0 { format!(", and {} of waits", Nanos(ns)) } else { String::new() }
}

/// Strings, each once, and the index of each.
#[derive(Default)]
pub(crate) struct Strings {
    pub(crate) table: Vec<String>,
    indices: HashMap<String, i64>,
}

impl Strings {
    pub(crate) fn index(&mut self, text: &str) -> i64 {
        if let Some(&index) = self.indices.get(text) {
            return index;
        }
        let index = self.table.len() as i64;
        self.table.push(text.to_owned());
        self.indices.insert(text.to_owned(), index);
        index
    }
}

fn quoted(word: &str) -> String {
    let is_bare = |c: char| c.is_ascii_alphanumeric() || "_./=:,@%+-".contains(c);
    if !word.is_empty() && word.chars().all(is_bare) {
        word.to_owned()
    } else if word.contains(char::is_control) {
        format!("$'{}'", escaped(&word.replace('\\', "\\\\").replace('\'', "\\'")))
    } else {
        format!("'{}'", word.replace('\'', "'\\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_that_has_no_room_is_a_word_that_is_explained() {
        let words = ["sort", "a b"].map(str::to_owned);
        assert_eq!(again(&words, 10), ("sort 'a b'".to_owned(), None));
        let (cmd, why) = again(&words, 9);
        assert!(cmd == "CMD" && why.unwrap().starts_with("CMD: the same command"));
        assert_eq!(again(&[], 9).0, "CMD");
        for title in ["redis-server *:7391", "nginx: master process /usr/sbin/nginx", "sh[17]"] {
            assert_eq!(again(&[title.to_owned()], 90).0, "CMD", "a process title is no command");
        }
        assert_eq!(again(&["/opt/my app/run".to_owned()], 90).0, "'/opt/my app/run'");
    }

    #[test]
    fn a_word_is_quoted_where_a_shell_would_split_or_expand_it() {
        let words = ["a.c", "-O2", "for i in $(seq 2)", "it's", "", "a\u{1b}[2Jb", "a\nit's \\n\u{85}"];
        let line = command(&words.map(str::to_owned));
        let controls = r"$'a\x1b[2Jb' $'a\nit\'s \\n\u0085'";
        assert_eq!(line, format!(r"a.c -O2 'for i in $(seq 2)' 'it'\''s' '' {controls}"));
    }
}
