//! The answer of `faultless report`, as text.
//!
//! In: [`Findings`]. Out: the answer in a sentence; then the mechanisms and their cures; then tables by touching
//! and allocating site, by kind, mapping and thread; then the kernel's time. Empty sections are not
//! printed; [`explain`] says why they are empty, and how the figures came about. It decides nothing:
//! [`Findings`] holds every figure.
//!
//! In its JSON, the rows of a table add up to its `all`, with three exceptions: rows counted by `left_out`, rows
//! that a filter hides, and rows of less than half a fault.

mod page;
mod section;
mod sentence;
mod tree;
mod went;

use std::iter;

use faultless_trace::findings::Findings;

pub use page::html;

use crate::palette::Palette;
use crate::selected;
use crate::stat::{Basis, EXPLAINS, explanation, headed, page, told};
use crate::table::{Names, clip, fitting, wrap};
use crate::text;
use crate::why;

/// How to lay out the text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Layout {
    /// With ANSI styles.
    pub colour: bool,
    /// At most so many columns, 60 at least. `None`: 100, and names in tables are never cut.
    pub width: Option<usize>,
    /// Names are whole, however long.
    pub whole: bool,
    /// Only the table or tree that was asked for.
    pub only_tables: bool,
}

/// The report as text.
///
/// ```
/// use faultless_report::profile::{self, Layout};
/// use faultless_trace::findings::{Findings, Wanted};
/// let recording = faultless_trace::recording::Recording::default();
/// let findings = Findings::new(&recording, &Wanted::default()).unwrap();
/// assert!(profile::text(&findings, Layout::default()).contains("no page faults"));
/// ```
pub fn text(findings: &Findings, layout: Layout) -> String {
    let (palette, width) = (Palette(layout.colour), fitting(layout.width));
    let mut sections = answer(findings, palette, layout);
    if !layout.only_tables {
        sections.push(told(&findings.notes, &findings.details, palette, width));
        if !findings.missing.is_empty() {
            sections.push(vec![palette.faint(EXPLAINS)]);
        }
    }
    page(sections)
}

/// The same, with what is missing and how to get it, the state of each source, and how the figures came
/// about.
pub fn explain(findings: &Findings, layout: Layout) -> String {
    let (palette, width) = (Palette(layout.colour), fitting(layout.width));
    let mut sections = answer(findings, palette, layout);
    let basis = Basis {
        missing: &findings.missing,
        sources: &findings.sources,
        rests_on: Vec::from_iter(section::coverage(findings)),
        notes: &findings.notes,
    };
    sections.extend(explanation(&basis, Vec::new(), palette, width));
    page(sections)
}

fn answer(findings: &Findings, palette: Palette, layout: Layout) -> Vec<Vec<String>> {
    let width = fitting(layout.width);
    let names = match (layout.whole, layout.width) {
        (false, Some(_)) => Names::Within(width),
        (false, None) => Names::Short,
        (true, _) => Names::Whole,
    };
    let table = |table| section::table(findings, table, names, palette, width);
    let mut tables: Vec<Vec<String>> = findings.tables.iter().map(table).collect();
    tables.extend(findings.tree.as_ref().map(|tree| tree::lines(tree, names, palette)));
    let shown = findings.selected.as_ref().map(|selected| wrap(" ", &selected::sentence(selected), width));
    if layout.only_tables {
        return shown.into_iter().chain(tables).collect();
    }
    let command = match findings.command.is_empty() {
        true => "(no command)".to_owned(),
        false => text::command(&findings.command),
    };
    let answer = sentence::answer(findings);
    let mut sections = vec![
        vec![palette.faint(&format!(" faultless report: {}", clip(&command, width - 20)))],
        wrap(" ", &answer, width).into_iter().map(|line| palette.strong(&line)).collect(),
    ];
    sections.push(why::heaps(&findings.heaps, width));
    let mut lines = why::lines(&findings.mechanisms, why::whole(findings.cpu_ns), palette, width);
    let heads = iter::once("   Next: ").chain(iter::repeat("         "));
    lines.extend(heads.zip(section::next(findings, width)).flat_map(|(head, step)| wrap(head, &step, width)));
    sections.push(headed("Why", palette, lines));
    sections.extend(shown);
    sections.extend(tables);
    sections.extend([
        section::beyond(findings, palette),
        section::threads(findings, palette, width),
        section::kernel(findings, palette, width),
    ]);
    sections
}
