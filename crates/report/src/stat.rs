//! The answer of `faultless stat` for people (`text`) and for programs (`json`).
//!
//! The text begins with the answer, in a sentence; tables follow: faults by kind, time, what could be avoided, whether
//! threads wait, the kernel's phases, where each figure came from, and what to know. It decides nothing: every figure
//! is in the [`Stat`], and the JSON document holds all of them.

mod section;
mod sentence;

use faultless_trace::Stat;

pub(crate) use section::{headed, kernel_lines, verdict_lines};
pub(crate) use sentence::{between, is_range, share, share_with_spread};

use crate::palette::Palette;
use crate::table::{WIDTH, clip, wrap};

/// The report as text, at most 100 columns wide, ending in a newline; with ANSI styles when `colour`.
///
/// ```
/// use faultless_trace::{Observation, Stat};
/// let stat = Stat::from_observation(&Observation::default());
/// assert!(faultless_report::stat::text(&stat, false).contains("no page faults"));
/// ```
pub fn text(stat: &Stat, colour: bool) -> String {
    let palette = Palette(colour);
    let command = if stat.command.is_empty() { "(no command)".to_owned() } else { stat.command.join(" ") };
    // A terminal would obey what is in there.
    let command: String = command.chars().map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect();
    let mut lines = vec![String::new(), palette.faint(&format!(" faultless stat: {}", clip(&command, 80)))];
    lines.push(String::new());
    let answer = sentence::answer(stat);
    lines.extend(wrap(" ", &answer, WIDTH).into_iter().map(|line| palette.strong(&line)));
    let sections = [
        section::rows(stat, palette),
        section::time(stat, palette),
        section::avoidable(stat, palette),
        section::serialisation(stat, palette),
        section::kernel(stat, palette),
        section::sources(stat, palette),
        section::notes(stat, palette),
    ];
    for section in sections.into_iter().filter(|s| !s.is_empty()) {
        lines.push(String::new());
        lines.extend(section);
    }
    lines.push(String::new());
    lines.join("\n") + "\n"
}

/// The report as JSON: [`Stat`] field by field, indented, ending in a newline.
///
/// `schema` is [`Stat::SCHEMA`] and rises when a field changes its meaning or goes; new fields may come without that.
/// Units end the names (`_ns`, `_bytes`); `seconds` are seconds, `share`, `low` and `high` of shares go from 0 to 1.
/// The faults of all `rows` add up to `usage.minor_faults + usage.major_faults`, and `beyond_wait4.faults` where the events
/// counted more than `wait4`. Absent figures are `null`.
pub fn json(stat: &Stat) -> String {
    // Only maps with keys that are not strings can fail, and there is none.
    serde_json::to_string_pretty(stat).map_or_else(|_| "null\n".to_owned(), |json| json + "\n")
}
