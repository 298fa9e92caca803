//! Flame graphs: interactive pictures (search, zoom) that load nothing from elsewhere.
//!
//! In: a run's weighted faults. Out: SVG, drawn by inferno, or its frames as JSON. Widths are time, faults, or bytes made resident.
//! A stack is the touching one, the allocating one, or the touching one on top of the allocating one.
//! [`difference`] draws two runs: one branch for the run after, coloured by change, and one for everything
//! that is gone.
//!
//! This module does not judge whether a difference is more than chance; [`diff`](faultless_trace::diff) does. Only
//! frames that lead to a changed row have a colour.

mod change;
mod colour;
mod fold;
mod kernel;
mod picture;
mod tower;

use std::collections::BTreeMap;

use faultless_trace::diff::{Class, Diff, DiffRow, Run};
use faultless_trace::findings::{FaultPath, lost_of};
use faultless_trace::measurement::{Bytes, Count, Nanos, Percent};
use faultless_trace::recording::Recording;
use faultless_trace::stat::lost_clause;
use serde_json::json;

use crate::selected;
use crate::table::{clip, shorten, wrap};
use crate::text;
use crate::tuning::KERNEL_SAMPLES;
use colour::Legend;
use fold::Fold;
use kernel::KernelFold;
use picture::Picture;

/// Room for a line of the head on a screen of 500 pixels.
const LINE_CHARS: usize = 64;
/// Room for a function's name in that line.
const NAME_CHARS: usize = 24;
/// Separates the commands of two runs.
const ARROW: &str = " -> ";

/// The width of a frame.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Measure {
    /// Time in faults, corrected.
    #[default]
    Time,
    /// Faults.
    Faults,
    /// Bytes that faults made resident.
    Bytes,
}

/// Which stack is drawn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Stack {
    /// The touching stack.
    #[default]
    Touch,
    /// The stack that allocated the touched block.
    Alloc,
    /// The touching stack on top of the allocating one.
    Both,
}

/// What to draw.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    /// The width of frames.
    pub measure: Measure,
    /// The stacks.
    pub stack: Stack,
    /// Leave out faults in kernel mode.
    pub user_only: bool,
    /// Leaves on top, their callers below.
    pub inverted: bool,
    /// With the runtime's scaffolding, and stems that all stacks share.
    pub whole: bool,
}

impl Measure {
    fn noun(self) -> &'static str {
        match self {
            Self::Time => "time",
            Self::Faults => "count",
            Self::Bytes => "bytes",
        }
    }

    /// The unit of a width in JSON.
    fn unit(self) -> &'static str {
        match self {
            Self::Time => "ns",
            Self::Faults => "faults",
            Self::Bytes => "bytes",
        }
    }

    fn show(self, value: f64) -> String {
        match self {
            Self::Time => Nanos(value).to_string(),
            Self::Faults => Count(value.round() as u64).of("fault"),
            Self::Bytes => Bytes(value.round() as u64).to_string(),
        }
    }
}

impl Stack {
    fn words(self) -> &'static str {
        match self {
            Self::Touch => "who touched",
            Self::Alloc => "who allocated",
            Self::Both => "allocated, touched",
        }
    }
}

/// Draws one run. `None` if there is nothing to draw: no fault, or no fault with a known time.
pub fn svg(run: &Run, settings: Settings) -> Option<String> {
    let fold = Fold::new(run, settings, true);
    Picture {
        title: title("Page faults", settings),
        lines: head(&[run], &subtitle(run, &fold, settings)),
        stacks: joined(&fold.stacks),
        colours: fold
            .origins
            .iter()
            .map(|(name, origin)| (name.clone(), colour::of_frame(name, *origin)))
            .collect(),
        legend: colour::legend(fold.origins.values().copied()),
        measure: settings.measure,
    }
    .draw()
}

/// The same as JSON: the whole, and each stack of frames from the root of the picture on with its width. `None` as for
/// [`svg`]. The widths add up to `whole`; a filter's part of the run is `selected`.
pub fn json(run: &Run, settings: Settings) -> Option<String> {
    let fold = Fold::new(run, settings, true);
    let header = &run.recording.header;
    let document = json!({
        "schema": 1,
        "command": header.command,
        "unit": settings.measure.unit(),
        "stack": settings.stack.words(),
        "inverted": settings.inverted,
        "user_only": header.settings.user_only || settings.user_only,
        "selected": run.profile.selected,
        "whole": fold.whole(),
        "faults": fold.faults,
        "wait_ns": fold.wait_ns,
        "stacks_known": fold.known_share(),
        "stacks": widths(&fold.stacks),
    });
    (fold.whole() > 0.0).then(|| text::json(&document))
}

/// Draws the kernel's functions in the fault path, by CPU time. `None` if the recording has no kernel stacks there:
/// only root's recordings have them.
pub fn kernel(recording: &Recording, inverted: bool) -> Option<String> {
    let fold = fold_kernel(recording, inverted)?;
    let command = shorten(&text::command(&recording.header.command), LINE_CHARS);
    let few = if fold.samples < KERNEL_SAMPLES { ", too few for shares" } else { "" };
    let samples = Count(fold.samples).of("sample");
    let facts = format!("{samples} of the CPU clock in the fault path{few}: {}", fold.parts());
    let mut lines = vec![command];
    lines.extend(wrap("", &facts, LINE_CHARS));
    let locks = fold.locks();
    if !locks.is_empty() {
        lines.extend(wrap("", &format!("locks: {locks}"), LINE_CHARS));
    }
    Picture {
        title: "The kernel in page faults by time".to_owned(),
        lines,
        colours: fold.colours(),
        stacks: joined(&fold.stacks),
        legend: KernelFold::legend(),
        measure: Measure::Time,
    }
    .draw()
}

/// The same as JSON, with each stack's CPU time in ns, and the samples of each part and lock.
pub fn kernel_json(recording: &Recording, inverted: bool) -> Option<String> {
    let fold = fold_kernel(recording, inverted)?;
    let [parts, locks] = fold.parts_json();
    Some(text::json(&json!({
        "schema": 1,
        "command": recording.header.command,
        "unit": Measure::Time.unit(),
        "stack": "kernel",
        "inverted": inverted,
        "samples": fold.samples,
        "parts": parts,
        "locks": locks,
        "whole": fold.stacks.values().sum::<f64>(),
        "stacks": widths(&fold.stacks),
    })))
}

/// Stacks as inferno reads them.
fn joined(stacks: &BTreeMap<Vec<String>, f64>) -> Vec<(String, f64)> {
    stacks.iter().map(|(stack, weight)| (stack.join(";"), *weight)).collect()
}

/// Stacks as JSON.
fn widths(stacks: &BTreeMap<Vec<String>, f64>) -> Vec<serde_json::Value> {
    stacks.iter().map(|(frames, width)| json!({ "frames": frames, "width": width })).collect()
}

fn fold_kernel(recording: &Recording, inverted: bool) -> Option<KernelFold> {
    let fold = KernelFold::new(&FaultPath::of(recording)?, inverted);
    (fold.samples > 0).then_some(fold)
}

/// Draws two sides, each the mean of its runs. `diff` compares them and holds the totals. `None` if there is
/// nothing to draw.
pub fn difference(diff: &Diff, before: &[Run], after: &[Run], settings: Settings) -> Option<String> {
    let fold =
        |runs: &[Run]| Fold::sum(runs.iter().map(|run| (Fold::new(run, settings, false), runs.len() as f64)));
    let (a, b) = (fold(before), fold(after));
    let runs: Vec<&Run> = before.iter().chain(after).collect();
    let has_changed = diff.has_changed(&runs);
    let changed = |runs: &[Run], has_changed: &[Vec<bool>]| {
        let parts = runs.iter().zip(has_changed);
        Fold::sum(parts.map(|(run, which)| (Fold::part(run, settings, which), runs.len() as f64)))
    };
    let (changed_before, changed_after) = has_changed.split_at(before.len());
    let (lost, gained) = (changed(before, changed_before), changed(after, changed_after));
    let change::Changes { stacks, colours } =
        change::changes([&a.stacks, &b.stacks], [&lost.stacks, &gained.stacks], diff.threshold);
    let sides = |[before, after]: [f64; 2]| {
        format!("{} before, {} after", settings.measure.show(before), settings.measure.show(after))
    };
    let mut facts = Vec::new();
    match settings.measure {
        Measure::Time => {
            facts.push(sides([diff.time_ns.before.value, diff.time_ns.after.value]));
            if diff.major.time_ns != [0.0; 2] {
                facts.push(format!("waits for the disk {}", sides(diff.major.time_ns)));
            }
        }
        Measure::Faults => facts.push(sides([diff.faults.before.value, diff.faults.after.value])),
        Measure::Bytes => facts.push(sides([a.whole(), b.whole()])),
    }
    if diff.user_only {
        facts.push("user mode only (:u)".to_owned());
    }
    facts.push(beyond_chance(diff));
    Picture {
        title: title("Changed faults", settings),
        lines: head(&runs, &facts.join(", ")),
        stacks,
        colours,
        legend: Legend(change::LEGEND.to_vec()),
        measure: settings.measure,
    }
    .draw()
}

/// The changes beyond chance: those that have a colour.
fn beyond_chance(diff: &Diff) -> String {
    const NAMES_MAX: usize = 4;
    let changed = diff.rows.iter().filter(|row| row.class != Class::Unchanged);
    let leaf =
        |row: &DiffRow| clip(&fold::clean(row.name.split(" <- ").next().unwrap_or_default()), NAME_CHARS);
    let names: Vec<String> = changed.map(leaf).collect();
    let shown = names.iter().take(NAMES_MAX).map(String::as_str).collect::<Vec<_>>().join(", ");
    match names.len() {
        0 => "nothing by more than chance".to_owned(),
        n if n > NAMES_MAX => format!("by more than chance: {shown} and {} more", n - NAMES_MAX),
        _ => format!("by more than chance: {shown}"),
    }
}

/// One line that leaves room for the search box on a narrow screen.
fn title(lead: &str, settings: Settings) -> String {
    format!("{lead} by {}: {}", settings.measure.noun(), settings.stack.words())
}

/// The commands, and the facts, in lines for a narrow screen.
fn head(runs: &[&Run], facts: &str) -> Vec<String> {
    let mut commands: Vec<String> =
        runs.iter().map(|run| text::command(&run.recording.header.command)).collect();
    commands.dedup();
    if commands.len() > 2 {
        commands.drain(1..commands.len() - 1);
    }
    let each = LINE_CHARS / commands.len().max(1);
    commands.iter_mut().for_each(|command| *command = shorten(command, each.saturating_sub(ARROW.len())));
    let mut lines = vec![commands.join(ARROW)];
    lines.extend(wrap("", facts, LINE_CHARS));
    lines
}

fn subtitle(run: &Run, fold: &Fold, settings: Settings) -> String {
    let header = &run.recording.header;
    let mut facts = vec![settings.measure.show(fold.whole() - fold.wait_ns)];
    if settings.measure != Measure::Faults {
        facts[0].push_str(&format!(" in {}", Measure::Faults.show(fold.faults)));
    }
    facts[0].push_str(&text::and_waits(fold.wait_ns));
    if let Some(selected) = &run.profile.selected {
        facts.push(format!("{}: {}", selected.words, selected::figures(selected)));
    }
    if settings.inverted {
        facts.push("callers below".to_owned());
    }
    if header.settings.user_only || settings.user_only {
        facts.push("user mode only (:u)".to_owned());
    }
    let recorded = Count(run.profile.faults.len() as u64);
    facts.push(match header.settings.every_fault {
        true => "every fault recorded".to_owned(),
        false => format!("{recorded} of them recorded"),
    });
    if fold.known_share() < 1.0 {
        facts.push(format!("stacks known of {}", Percent(fold.known_share())));
    }
    let (lost, seen) = (lost_of(&run.recording), run.profile.basis.len() as u64);
    facts.extend(
        lost_clause(lost, seen).or_else(|| (lost > 0).then(|| format!("{} lost", Count(lost).of("record")))),
    );
    facts.join(", ")
}
