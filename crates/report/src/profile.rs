//! The answer of `faultless report` for people (`text`) and for programs (`json`).
//!
//! The text begins with the answer, in a sentence; tables follow, by who touched and who allocated, by kind, mapping and
//! thread; then what to do about the largest sites, the kernel's side, and what the figures rest on. It decides nothing:
//! every figure is in the [`Findings`], and the JSON document holds all of them.

mod section;
mod sentence;

use faultless_trace::findings::Findings;

use crate::palette::Palette;
use crate::table::{WIDTH, clip, wrap};

/// Narrowest width that tables are laid out for, in characters.
const NARROWEST: usize = 72;
/// Widest; longer lines are hard to read.
const WIDEST: usize = 160;

/// The report as text, ending in a newline; with ANSI styles when `colour`, at most `width` columns wide (100 where it is not
/// known, and never below 72).
///
/// ```
/// use faultless_report::profile;
/// use faultless_trace::findings::{Findings, Wanted};
/// let findings = Findings::new(&faultless_trace::recording::Recording::default(), &Wanted::default());
/// assert!(profile::text(&findings, false, None).contains("no page faults"));
/// ```
pub fn text(findings: &Findings, colour: bool, width: Option<usize>) -> String {
    let palette = Palette(colour);
    let width = width.map_or(WIDTH, |width| width.clamp(NARROWEST, WIDEST));
    let command = match findings.command.is_empty() {
        true => "(no command)".to_owned(),
        false => plain(&findings.command.join(" ")),
    };
    let head = format!(" faultless report: {}", clip(&command, width - 20));
    let mut lines = vec![String::new(), palette.faint(&head), String::new()];
    let answer = sentence::answer(findings);
    lines.extend(wrap(" ", &answer, width).into_iter().map(|line| palette.strong(&line)));
    let mut sections: Vec<Vec<String>> =
        findings.tables.iter().map(|table| section::table(findings, table, palette, width)).collect();
    sections.insert(1.min(sections.len()), section::remedies(findings, palette, width));
    sections.extend([
        section::beyond(findings, palette),
        section::threads(findings, palette, width),
        section::kernel(findings, palette),
        section::coverage(findings, palette, width),
        section::notes(findings, palette, width),
    ]);
    for section in sections.into_iter().filter(|section| !section.is_empty()) {
        lines.push(String::new());
        lines.extend(section);
    }
    lines.push(String::new());
    lines.join("\n") + "\n"
}

/// The report as JSON: [`Findings`] field by field, indented, ending in a newline.
///
/// `schema` is [`Findings::SCHEMA`] and rises when a field changes its meaning or goes; new fields may come without that.
/// Units end the names; shares go from 0 to 1; `low` and `high` are the ends of a 95 % interval. The rows of a table add up
/// to its `all` where neither `left_out` nor a filter took some away, but for those of less than half a fault, which have none. Absent figures are `null`.
pub fn json(findings: &Findings) -> String {
    // Only maps with keys that are not strings can fail, and there is none.
    serde_json::to_string_pretty(findings).map_or_else(|_| "null\n".to_owned(), |json| json + "\n")
}

/// Text out of a trace, without what a terminal would obey.
fn plain(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect()
}
