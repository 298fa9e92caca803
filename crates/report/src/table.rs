//! Cells -> aligned lines; running text -> wrapped lines. Widths are in characters, which is right for the
//! letters used here. Styles are applied after padding.

mod names;

pub(crate) use names::{Names, shorten};

/// The widest line of a report, in characters: longer lines are hard to read.
pub const WIDTH: usize = 100;

/// Tables are never laid out for fewer characters.
const NARROWEST: usize = 60;
/// Tables are never laid out for more characters: longer lines are hard to read.
const WIDEST: usize = 160;

/// The width of an unresized terminal.
pub const SCREEN: usize = 80;

/// The side at which the cells of a column are flush.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Align {
    /// Words.
    Left,
    /// Figures.
    Right,
}

/// Lays out rows in columns, two blanks apart, after `indent` blanks. Lines have no trailing blanks. Rows may
/// have different lengths.
pub fn columns(indent: usize, align: &[Align], rows: &[Vec<String>]) -> Vec<String> {
    let mut widths = vec![0; align.len()];
    for row in rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.chars().count());
        }
    }
    let line = |row: &Vec<String>| {
        let mut line = " ".repeat(indent);
        for ((cell, width), align) in row.iter().zip(&widths).zip(align) {
            match align {
                Align::Left => line.push_str(&format!("{cell:<width$}  ")),
                Align::Right => line.push_str(&format!("{cell:>width$}  ")),
            }
        }
        line.trim_end().to_owned()
    };
    rows.iter().map(line).collect()
}

/// The width to lay out for, where the reader has so many columns, if known: `most` at most, and [`NARROWEST`] at least.
pub(crate) fn up_to(most: usize, columns: Option<usize>) -> usize {
    columns.map_or(most, |columns| columns.clamp(NARROWEST, most))
}

/// The same for tables, which may be wider than text.
pub(crate) fn fitting(columns: Option<usize>) -> usize {
    columns.map_or(WIDTH, |columns| columns.clamp(NARROWEST, WIDEST))
}

/// The width of a line to copy, which may be longer than one to read.
pub(crate) fn to_copy(columns: Option<usize>) -> usize {
    columns.map_or(SCREEN, |columns| columns.clamp(NARROWEST, WIDEST))
}

/// The width of lines that are broken only where the reader has so few columns, and at least 60.
pub fn unbroken(columns: Option<usize>) -> usize {
    columns.map_or(usize::MAX, |columns| columns.max(NARROWEST))
}

/// As [`columns`], but a row takes several lines of about as many columns each if one would be wider than `width`.
pub(crate) fn folded(indent: usize, align: &[Align], rows: &[Vec<String>], width: usize) -> Vec<Vec<String>> {
    let mut parts = 1;
    loop {
        let many = align.len().div_ceil(parts).max(1);
        let block = |from: usize| {
            let to = (from + many).min(align.len());
            let rows: Vec<Vec<String>> = rows.iter().map(|row| row[from..to].to_vec()).collect();
            columns(indent + usize::from(from > 0) * 2, &align[from..to], &rows)
        };
        let blocks: Vec<Vec<String>> = (0..align.len()).step_by(many).map(block).collect();
        if many == 1 || blocks.iter().flatten().all(|line| line.chars().count() <= width) {
            return (0..rows.len())
                .map(|row| blocks.iter().map(|lines| lines[row].clone()).collect())
                .collect();
        }
        parts += 1;
    }
}

/// Cells `gap` blanks apart, after `indent` blanks, in as many lines of at most `width` as that takes.
pub(crate) fn flowing(indent: usize, gap: usize, cells: &[String], width: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for cell in cells {
        match lines.last_mut() {
            Some(line) if line.chars().count() + gap + cell.chars().count() <= width => {
                line.push_str(&" ".repeat(gap));
                line.push_str(cell);
            }
            _ => lines.push(" ".repeat(indent) + cell),
        }
    }
    lines
}

/// Breaks text into lines of at most `width`. The first begins with `first`, the others with as many blanks.
pub fn wrap(first: &str, text: &str, width: usize) -> Vec<String> {
    hang(first, first.chars().count(), text, width)
}

/// The same with `indent` blanks. A word that is longer than a line is broken behind `:` or `/`, and nowhere else.
pub fn hang(first: &str, indent: usize, text: &str, width: usize) -> Vec<String> {
    let (mut lines, mut line) = (Vec::new(), first.to_owned());
    let mut empty = true;
    let room = width.saturating_sub(indent.max(first.chars().count()));
    for (word, goes_on) in words(text).iter().flat_map(|word| pieces(word, room)) {
        if goes_on || !empty && line.chars().count() + 1 + word.chars().count() > width {
            lines.push(std::mem::replace(&mut line, " ".repeat(indent)));
            empty = true;
        }
        if !empty {
            line.push(' ');
        }
        line.push_str(&word);
        empty = false;
    }
    lines.push(line.trim_end().to_owned());
    lines
}

/// A word in pieces of at most `room` characters, and whether a piece goes on with the word.
fn pieces(word: &str, room: usize) -> Vec<(String, bool)> {
    if word.chars().count() <= room {
        return vec![(word.to_owned(), false)];
    }
    let mut pieces: Vec<(String, bool)> = Vec::new();
    for part in word.split_inclusive([':', '/']) {
        match pieces.last_mut() {
            Some((piece, _)) if piece.chars().count() + part.chars().count() <= room => piece.push_str(part),
            _ => pieces.push((part.to_owned(), !pieces.is_empty())),
        }
    }
    pieces
}

/// The words of a text. A figure with its groups of digits, its spread and its unit is one word.
pub(crate) fn words(text: &str) -> Vec<String> {
    const UNITS: [&str; 10] = ["B", "KiB", "MiB", "GiB", "TiB", "ns", "us", "ms", "s", "%"];
    let mut words: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        let bare = word.trim_end_matches(['.', ',', ';', ':', ')']);
        let is_unit = UNITS.contains(&bare);
        let is_group = bare.len() == 3 && bare.bytes().all(|byte| byte.is_ascii_digit());
        let is_continued = is_unit || is_group || word == "±";
        let is_spread = word.starts_with(|c: char| c.is_ascii_digit());
        let joins = |last: &str| {
            is_continued && last.ends_with(|c: char| c.is_ascii_digit()) || is_spread && last.ends_with('±')
        };
        match words.last_mut() {
            Some(last) if joins(last) => {
                last.push(' ');
                last.push_str(word);
            }
            _ => words.push(word.to_owned()),
        }
    }
    words
}

/// Shortens text to `width` characters. Dots replace the end.
pub(crate) fn clip(text: &str, width: usize) -> String {
    if text.chars().count() <= width {
        return text.to_owned();
    }
    let mut clipped: String = text.chars().take(width.saturating_sub(3)).collect();
    clipped.push_str("...");
    clipped
}

/// A bar in eighths of a character: `share` (0 to 1) of `width`.
pub(crate) fn bar(share: f64, width: usize) -> String {
    const EIGHTHS: [&str; 8] = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];
    let eighths = (share.clamp(0.0, 1.0) * width as f64 * 8.0).round() as usize;
    format!("{}{}", "█".repeat(eighths / 8), EIGHTHS[eighths % 8])
}

/// A bar to `low`, then a shade to `high`.
pub(crate) fn bar_between(low: f64, high: f64, width: usize) -> String {
    let bar = bar(low, width);
    let shade = (high.clamp(0.0, 1.0) * width as f64).round() as usize;
    let shade = shade.saturating_sub(bar.chars().count());
    bar + &"░".repeat(shade)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_their_widest_cell() {
        let rows = [vec!["a".to_owned(), "1".to_owned()], vec!["bcd".to_owned(), "10".to_owned()]];
        assert_eq!(columns(1, &[Align::Left, Align::Right], &rows), [" a     1", " bcd  10"]);
    }

    #[test]
    fn a_row_that_is_too_wide_takes_several_lines() {
        let rows =
            [["time", "share", "faults"], ["1 ms", "9 %", "7"]].map(|row| row.map(str::to_owned).to_vec());
        let folded = |width| folded(1, &[Align::Right; 3], &rows, width);
        assert_eq!(folded(20)[1], [" 1 ms    9 %       7"]);
        assert_eq!(folded(19), [[" time  share", "   faults"], [" 1 ms    9 %", "        7"]]);
        assert_eq!(folded(4)[0], [" time", "   share", "   faults"]);
    }

    #[test]
    fn cells_flow_into_as_many_lines_as_they_need() {
        let cells = ["12 ms wall", "3 ms user", "4 ms system"].map(str::to_owned);
        assert_eq!(flowing(1, 3, &cells, 40), [" 12 ms wall   3 ms user   4 ms system"]);
        assert_eq!(flowing(1, 3, &cells, 24), [" 12 ms wall   3 ms user", " 4 ms system"]);
        assert_eq!([Some(9), Some(99), None].map(|columns| up_to(80, columns)), [60, 80, 80]);
    }

    #[test]
    fn long_text_hangs_under_its_first_word() {
        let lines = wrap("note: ", &"word ".repeat(40), WIDTH);
        assert!(lines.len() == 3 && lines.iter().all(|l| l.chars().count() <= WIDTH));
        assert!(lines[1].starts_with("      word"));
        assert_eq!(wrap("- ", &"x".repeat(300), WIDTH).len(), 1, "a word is never broken");
        assert_eq!(wrap("-> ", "X=aa:bb:cc, or", 9), ["-> X=aa:", "   bb:cc,", "   or"]);
        assert_eq!(wrap("name  ", "", WIDTH), ["name"]);
        let figure = wrap("", &format!("{} 480 MiB.", "x".repeat(94)), WIDTH);
        assert_eq!(hang("- ", 4, "aa bb cc", 7), ["- aa bb", "    cc"]);
        assert_eq!(figure[1], "480 MiB.", "a figure and its unit stay together");
        assert_eq!(words("saves 10 857 ± 1 736 faults"), ["saves", "10 857 ± 1 736", "faults"]);
    }

    #[test]
    fn bars_end_in_eighths() {
        assert_eq!((bar(0.5, 3), bar(7.0, 2), bar(f64::NAN, 2)), ("█▌".into(), "██".into(), String::new()));
        assert_eq!((bar_between(0.5, 0.5, 4), bar_between(0.25, 0.75, 4)), ("██".into(), "█░░".into()));
    }
}
