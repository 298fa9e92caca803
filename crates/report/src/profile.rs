//! The answer of `faultless report` for people (`text`) and for programs (`json`).
//!
//! The text begins with the answer, in a sentence; tables follow, by who touched and who allocated, by kind, mapping and
//! thread; then what to do about the largest sites, and the kernel's side. What has no answer is not printed; [`explain`] says why,
//! and what the figures rest on. It decides nothing: every figure is in the [`Findings`], and the JSON document holds all of them.

mod section;
mod sentence;

use faultless_trace::findings::Findings;

use crate::command;
use crate::palette::Palette;
use crate::stat::{Basis, EXPLAINS, explanation, page, plain, told};
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
    let (palette, width) = (Palette(colour), fitting(width));
    let mut sections = answer(findings, palette, width);
    sections.push(told(&findings.notes, &findings.details, palette, width));
    if !findings.missing.is_empty() {
        sections.push(vec![palette.faint(EXPLAINS)]);
    }
    page(sections)
}

/// The same, with what is missing and what would bring it, what became of the sources, and how the figures came about.
pub fn explain(findings: &Findings, colour: bool, width: Option<usize>) -> String {
    let (palette, width) = (Palette(colour), fitting(width));
    let mut sections = answer(findings, palette, width);
    let basis = Basis {
        missing: &findings.missing,
        sources: &findings.sources,
        rests_on: Vec::from_iter(section::coverage(findings)),
        notes: &findings.notes,
    };
    sections.extend(explanation(&basis, Vec::new(), palette, width));
    page(sections)
}

fn fitting(width: Option<usize>) -> usize {
    width.map_or(WIDTH, |width| width.clamp(NARROWEST, WIDEST))
}

fn answer(findings: &Findings, palette: Palette, width: usize) -> Vec<Vec<String>> {
    let command = match findings.command.is_empty() {
        true => "(no command)".to_owned(),
        false => command::line(&findings.command),
    };
    let answer = sentence::answer(findings);
    let mut tables: Vec<Vec<String>> =
        findings.tables.iter().map(|table| section::table(findings, table, palette, width)).collect();
    tables.insert(1.min(tables.len()), section::remedies(findings, palette, width));
    let mut sections = vec![
        vec![palette.faint(&format!(" faultless report: {}", clip(&command, width - 20)))],
        wrap(" ", &answer, width).into_iter().map(|line| palette.strong(&line)).collect(),
    ];
    sections.extend(tables);
    sections.extend([
        section::beyond(findings, palette),
        section::threads(findings, palette, width),
        section::kernel(findings, palette),
    ]);
    sections
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
