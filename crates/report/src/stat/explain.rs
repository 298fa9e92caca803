//! What `--explain` adds to the answers of `stat` and `report`.
//!
//! In: a [`Basis`]. Out: sections: what is missing, why, and how to get it; the state of each source; how the
//! figures came about, with all notes. Without `--explain` only the notes that change how figures are read
//! are printed.

use faultless_trace::observation::SourceNote;
use faultless_trace::stat::Missing;

use super::section::headed;
use crate::palette::Palette;
use crate::table::{hang, wrap};
use crate::text::plain;

/// What an answer rests on.
pub(crate) struct Basis<'a> {
    pub(crate) missing: &'a [Missing],
    pub(crate) sources: &'a [SourceNote],
    /// Sentences.
    pub(crate) rests_on: Vec<String>,
    pub(crate) notes: &'a [String],
}

/// The sections, with `tables` among them.
pub(crate) fn explanation(
    basis: &Basis<'_>,
    tables: Vec<Vec<String>>,
    palette: Palette,
    width: usize,
) -> Vec<Vec<String>> {
    let mut sections = vec![missing(basis.missing, palette, width)];
    sections.extend(tables);
    let is_told = |note: &&String| basis.missing.iter().any(|missing| missing.why.starts_with(note.as_str()));
    let notes = basis.notes.iter().filter(|note| !is_told(note));
    let said: Vec<String> = basis.rests_on.iter().chain(notes).cloned().collect();
    sections
        .extend([sources(basis, palette, width), list("How the figures came about", &said, palette, width)]);
    sections
}

/// The notes that change how figures are read.
pub(crate) fn told(notes: &[String], details: &[String], palette: Palette, width: usize) -> Vec<String> {
    let told: Vec<String> = notes.iter().filter(|note| !details.contains(note)).cloned().collect();
    list("Notes", &told, palette, width)
}

fn missing(missing: &[Missing], palette: Palette, width: usize) -> Vec<String> {
    if missing.is_empty() {
        return vec![" Missing: nothing".to_owned()];
    }
    // Parts that are missing for the same reason share a line.
    let mut told: Vec<(&str, Vec<&str>)> = Vec::new();
    for missing in missing {
        match told.iter_mut().find(|(why, _)| *why == missing.why) {
            Some((_, parts)) => parts.push(missing.part.words()),
            None => told.push((&missing.why, vec![missing.part.words()])),
        }
    }
    let lines = told.into_iter().flat_map(|(why, parts)| {
        let text = format!("{}: {}", parts.join("; "), plain(why));
        hang("   ", 5, &text, width).into_iter().map(|line| palette.warn(&line))
    });
    headed("Missing", palette, lines.collect())
}

/// The state of each source. A reason that the missing parts give is not repeated.
fn sources(basis: &Basis<'_>, palette: Palette, width: usize) -> Vec<String> {
    let sources = basis.sources;
    let is_told = |source: &SourceNote| basis.missing.iter().any(|missing| missing.why == source.note);
    let longest = sources.iter().map(|s| s.source.chars().count()).max().unwrap_or(0);
    let mut lines = Vec::new();
    for source in sources {
        let state = if source.used { "used    " } else { "not used" };
        let first = format!("   {state}  {:<longest$}  ", plain(&source.source));
        let note = if is_told(source) { "see Missing" } else { &source.note };
        let wrapped = wrap(&first, &plain(note), width);
        lines.extend(wrapped.into_iter().map(|l| if source.used { l } else { palette.warn(&l) }));
    }
    headed("Sources", palette, lines)
}

fn list(head: &str, texts: &[String], palette: Palette, width: usize) -> Vec<String> {
    let lines = texts.iter().flat_map(|text| wrap("   - ", &plain(text), width)).collect();
    headed(head, palette, lines)
}

#[cfg(test)]
mod tests {
    use super::*;
    use faultless_trace::stat::Part;

    #[test]
    fn one_reason_is_told_once() {
        let why = "perf_event_open(): Permission denied".to_owned();
        let missing = [Part::KernelMode, Part::Kernel].map(|part| Missing { part, why: why.clone() });
        let source = |name: &str| SourceNote { source: name.into(), used: false, note: why.clone() };
        let sources = [source("page-faults in kernel mode too"), source("cpu-clock")];
        let basis = Basis { missing: &missing, sources: &sources, rests_on: Vec::new(), notes: &[] };
        let text = explanation(&basis, Vec::new(), Palette(false), 100).concat().join("\n");
        assert_eq!(text.matches("Permission denied").count(), 1, "{text}");
        assert!(
            text.contains("faults in kernel mode; time in the kernel by phase: perf_event_open()"),
            "{text}"
        );
    }
}
