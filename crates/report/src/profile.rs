//! The answer of `faultless report`, as text and as JSON.
//!
//! In: [`Findings`]. Out: the answer in a sentence; then tables by touching and allocating site, by kind,
//! mapping and thread; then what to do about the largest sites, and the kernel's time. Empty sections are not
//! printed; [`explain`] says why they are empty, and how the figures came about. It decides nothing:
//! [`Findings`] holds every figure.

mod section;
mod sentence;

use faultless_trace::findings::Findings;

use crate::palette::Palette;
use crate::stat::{Basis, EXPLAINS, explanation, page, told};
use crate::table::{WIDTH, clip, wrap};
use crate::text;

/// Tables are never laid out for fewer characters.
const NARROWEST: usize = 72;
/// Tables are never laid out for more characters: longer lines are hard to read.
const WIDEST: usize = 160;

/// The report as text, with ANSI styles if `colour`. At most `width` columns wide: 100 if unknown, 72 at
/// least.
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

/// The same, with what is missing and how to get it, the state of each source, and how the figures came
/// about.
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
    let command = if findings.command.is_empty() {
        "(no command)".to_owned()
    } else {
        text::command(&findings.command)
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

/// [`Findings`] as JSON.
///
/// `schema` is [`Findings::SCHEMA`]. It rises when a field changes its meaning or goes; new fields don't
/// raise it. Units end the names. Shares go from 0 to 1. `low` and `high` are the ends of a 95 % interval.
/// Absent figures are `null`. The rows of a table add up to its `all`, with three exceptions: rows counted by
/// `left_out`, rows that a filter hides, and rows of less than half a fault.
pub fn json(findings: &Findings) -> String {
    text::json(findings)
}
