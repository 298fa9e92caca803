//! The answer of `faultless stat`, as text.
//!
//! In: a [`Stat`]. Out: the answer in a sentence; what the program used; faults by kind; what to do next.
//! These fit the first screen of 24 lines of 80 columns. Below come the time of one fault, what is avoidable,
//! whether threads wait, and the kernel's phases. Empty blocks are not printed; [`explain`] says why they are
//! empty, and how the figures came about. It decides nothing: the [`Stat`] holds every figure.
//!
//! In its JSON, the faults of all `rows` add up to `usage.minor_faults + usage.major_faults`, and
//! `beyond_wait4.faults` if the events counted more than `wait4`.

mod explain;
mod next;
mod repeated;
mod rows;
mod section;
mod sentence;
mod tick;

use faultless_trace::Stat;

pub(crate) use explain::{Basis, explanation, told};
pub(crate) use next::{NOTHING, takes_little};
pub use repeated::repeated;
pub(crate) use section::{headed, kernel_lines, verdict_lines};
pub(crate) use sentence::{lost, share};
pub use tick::tick;

use crate::palette::Palette;
use crate::table::{SCREEN, WIDTH, clip, up_to, wrap};
use crate::text;

/// The last line of an incomplete answer.
pub(crate) const EXPLAINS: &str = " --explain says what is missing and why";

/// The report as text, with ANSI styles if `colour`. At most `columns` wide, but 60 to 80. `None`: 80.
///
/// ```
/// use faultless_trace::{Observation, Stat};
/// let stat = Stat::from_observation(&Observation::default());
/// assert!(faultless_report::stat::text(&stat, false, None).contains("no page faults"));
/// ```
pub fn text(stat: &Stat, colour: bool, columns: Option<usize>) -> String {
    let palette = Palette(colour);
    let mut sections = answer(stat, palette, columns);
    sections.push(told(&stat.notes, &stat.details, palette, up_to(SCREEN, columns)));
    if !stat.missing.is_empty() {
        sections.push(vec![palette.faint(EXPLAINS)]);
    }
    page(sections)
}

/// The same, at most 100 columns wide or narrower, with all kinds, what is missing and how to get it, the state of each
/// source, and how the figures came about.
pub fn explain(stat: &Stat, colour: bool, columns: Option<usize>) -> String {
    let (palette, width) = (Palette(colour), up_to(WIDTH, columns));
    let mut sections = answer(stat, palette, columns);
    let basis = Basis {
        missing: &stat.missing,
        sources: &stat.sources,
        rests_on: rests_on(stat),
        notes: &stat.notes,
    };
    sections.extend(explanation(&basis, vec![rows::sources(stat, palette, width)], palette, width));
    page(sections)
}

fn answer(stat: &Stat, palette: Palette, columns: Option<usize>) -> Vec<Vec<String>> {
    let width = up_to(SCREEN, columns);
    let command =
        if stat.command.is_empty() { "(no command)".to_owned() } else { text::command(&stat.command) };
    let answer = sentence::answer(stat);
    vec![
        vec![palette.faint(&format!(" faultless stat: {}", clip(&command, width - 17)))],
        wrap(" ", &answer, width).into_iter().map(|line| palette.strong(&line)).collect(),
        section::usage(stat, palette, width),
        rows::rows(stat, palette, width),
        next::next(stat, palette, columns),
        section::time(stat, palette, width),
        section::avoidable(stat, palette, width),
        section::serialisation(stat, palette, width),
        section::kernel(stat, palette, width),
    ]
}

/// Sections with an empty line before each.
pub(crate) fn page(sections: Vec<Vec<String>>) -> String {
    let mut lines = Vec::new();
    for section in sections.into_iter().filter(|section| !section.is_empty()) {
        lines.push(String::new());
        lines.extend(section);
    }
    lines.push(String::new());
    lines.join("\n") + "\n"
}

/// What the time rests on, in sentences.
fn rests_on(stat: &Stat) -> Vec<String> {
    let mut said = Vec::new();
    if let Some(time) = &stat.time {
        said.extend(section::timing(time));
    }
    if let Some(curve) = &stat.avoidable {
        said.push(section::reading(curve));
    }
    if stat.recorder_ns > 0 {
        said.push(section::added(stat.recorder_ns));
    }
    said
}
