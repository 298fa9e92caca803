//! Weighted faults -> stacks of names, root first, each with its weight.

use std::collections::{BTreeMap, HashMap};

use faultless_trace::diff::Run;
use faultless_trace::profile::Weighted;
use faultless_trace::recording::{Frame, Stacks};

use crate::tuning::STEM_FRAMES;

use super::colour::Origin;
use super::{Measure, Settings, Stack};

/// Separates the allocating stack from the touching one on top of it.
const TOUCHED_BY: &str = "touched by";

#[derive(Clone, Debug, Default)]
pub(super) struct Fold {
    /// Names, root first.
    pub(super) stacks: BTreeMap<Vec<String>, f64>,
    /// The origin of each name.
    pub(super) origins: HashMap<String, Origin>,
    pub(super) faults: f64,
    /// Waits: the part of the stacks that is no CPU time. 0 unless widths are time.
    pub(super) wait_ns: f64,
    /// Faults without a known stack.
    unknown: f64,
}

impl Fold {
    /// A frame without a function is named by its offset if `exact`, else by its file: offsets differ between
    /// builds.
    pub(super) fn new(run: &Run, settings: Settings, exact: bool) -> Self {
        let mut fold = Self::of(run, settings, exact, &|_| true);
        if exact && !settings.whole && !settings.inverted {
            fold.cut_stems();
        }
        // Kinds alone make no picture.
        if !run.profile.faults.is_empty() {
            fold.add_unplaced(run, settings);
        }
        fold
    }

    /// The stacks of some of a run's faults, as a difference names them.
    pub(super) fn part(run: &Run, settings: Settings, which: &[bool]) -> Self {
        Self::of(run, settings, false, &|index| which.get(index) == Some(&true))
    }

    fn of(run: &Run, settings: Settings, exact: bool, which: &dyn Fn(usize) -> bool) -> Self {
        let mut weights: HashMap<(Option<u32>, Owner), f64> = HashMap::new();
        let mut fold = Fold::default();
        let wanted = run.profile.faults.iter().enumerate().filter(|(index, _)| which(*index));
        for (_, fault) in wanted.filter(|(_, fault)| !(settings.user_only && fault.kernel)) {
            let weight = weight(run, fault, settings.measure);
            if !(fault.faults.is_finite() && weight.is_finite()) {
                continue;
            }
            fold.faults += fault.faults;
            fold.wait_ns += if settings.measure == Measure::Time { fault.wait_ns } else { 0.0 };
            let owner = owner(run, fault, settings.stack);
            let touch = fault.stack.filter(|_| settings.stack != Stack::Alloc);
            let shown = if settings.stack == Stack::Alloc { owner.stack() } else { touch };
            fold.unknown += if shown.is_none() { fault.faults } else { 0.0 };
            *weights.entry((touch, owner)).or_default() += weight;
        }
        let mut namer = Namer { run, exact, whole: settings.whole, origins: &mut fold.origins };
        for ((touch, owner), weight) in weights {
            let mut names = match (settings.stack, owner) {
                (Stack::Touch, _) => Vec::new(),
                (_, Owner::NoBlock) => namer.marker("[no recorded block]"),
                (_, Owner::Block(stack)) => namer.names(stack),
            };
            if settings.stack == Stack::Both {
                names.extend(namer.marker(TOUCHED_BY));
            }
            if settings.stack != Stack::Alloc {
                names.extend(namer.names(touch));
            }
            if settings.inverted {
                names.reverse();
            }
            *fold.stacks.entry(names).or_default() += weight;
        }
        fold
    }

    /// Callers that all stacks of a branch share tell nothing apart. They become one frame.
    fn cut_stems(&mut self) {
        let stacks = std::mem::take(&mut self.stacks);
        let mut from: Vec<(Vec<String>, f64)> = stacks.into_iter().collect();
        while !from.is_empty() {
            let first = from[0].0[0].clone();
            let len = from.iter().take_while(|(stack, _)| stack[0] == first).count();
            let rest = from.split_off(len);
            let stem = self.stem(&from);
            for (stack, weight) in from {
                let names = match &stem {
                    Some((frames, name)) => [std::slice::from_ref(name), &stack[*frames..]].concat(),
                    None => stack,
                };
                *self.stacks.entry(names).or_default() += weight;
            }
            from = rest;
        }
    }

    /// How many frames sorted stacks share, and the name of the frame that takes their place. The last frame
    /// of a stack stays.
    fn stem(&mut self, stacks: &[(Vec<String>, f64)]) -> Option<(usize, String)> {
        let (first, last) = (&stacks.first()?.0, &stacks.last()?.0);
        let shared = first.iter().zip(last).take_while(|(a, b)| a == b).count();
        let shortest = stacks.iter().map(|(stack, _)| stack.len()).min()?;
        let frames = shared.min(shortest.saturating_sub(1));
        (frames >= STEM_FRAMES).then(|| {
            let name = format!("{} > .. > {} ({frames} calls)", first[0], first[frames - 1]);
            let origin = self.origins.get(&first[frames - 1]).copied().unwrap_or(Origin::Program);
            self.origins.insert(name.clone(), origin);
            (frames, name)
        })
    }

    /// Faults that no recorded fault stands for get a frame by their kind, so widths add up to the totals.
    fn add_unplaced(&mut self, run: &Run, settings: Settings) {
        let unplaced = run.profile.unplaced();
        for fault in unplaced.iter().filter(|fault| !(settings.user_only && fault.kernel)) {
            self.faults += fault.faults;
            let weight = weight(run, fault, settings.measure);
            if weight > 0.0 {
                let name = format!("[{}]", fault.kind.words());
                self.origins.insert(name.clone(), Origin::Marker);
                *self.stacks.entry(vec![name]).or_default() += weight;
            }
        }
    }

    /// The sum of folds, each divided by its number.
    pub(super) fn sum(parts: impl Iterator<Item = (Self, f64)>) -> Self {
        let mut sum = Fold::default();
        for (part, divisor) in parts {
            for (stack, weight) in part.stacks {
                *sum.stacks.entry(stack).or_default() += weight / divisor;
            }
        }
        sum
    }

    pub(super) fn whole(&self) -> f64 {
        self.stacks.values().sum()
    }

    /// Share of the faults with a known stack, 0 to 1.
    pub(super) fn known_share(&self) -> f64 {
        if self.faults > 0.0 { 1.0 - self.unknown / self.faults } else { 1.0 }
    }
}

fn weight(run: &Run, fault: &Weighted, measure: Measure) -> f64 {
    match measure {
        Measure::Time => fault.time_ns(),
        Measure::Faults => fault.faults,
        Measure::Bytes => {
            fault.faults * run.recording.header.host.bytes_made_resident(fault.kind).unwrap_or(0.0)
        }
    }
}

/// The block whose memory was touched.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Owner {
    NoBlock,
    Block(Option<u32>),
}

impl Owner {
    fn stack(self) -> Option<u32> {
        match self {
            Self::NoBlock => None,
            Self::Block(stack) => stack,
        }
    }
}

fn owner(run: &Run, fault: &Weighted, shown: Stack) -> Owner {
    let block = fault.block.and_then(|block| run.profile.blocks.blocks.get(block as usize));
    match block {
        Some(block) if shown != Stack::Touch => Owner::Block(block.stack),
        _ => Owner::NoBlock,
    }
}

struct Namer<'a> {
    run: &'a Run,
    exact: bool,
    whole: bool,
    origins: &'a mut HashMap<String, Origin>,
}

impl Namer<'_> {
    /// Root first.
    fn names(&mut self, stack: Option<u32>) -> Vec<String> {
        let stacks = &self.run.recording.stacks;
        let mut names = Vec::new();
        let shown = stack.map(|stack| stacks.shown(stack, self.whole)).unwrap_or_default();
        for (frame, function) in shown {
            let file = file(stacks, frame);
            let name = match function {
                Some(function) => clean(&function.function),
                None if self.exact => clean(&stacks.place(frame)),
                None => clean(&format!("[{}]", file.trim_matches(['[', ']']))),
            };
            let origin = Origin::of_file(file, self.program());
            self.origins.entry(name.clone()).or_insert(origin);
            names.push(name);
        }
        if names.is_empty() {
            return self.marker("[no stack]");
        }
        names.reverse();
        names
    }

    fn marker(&mut self, name: &str) -> Vec<String> {
        self.origins.insert(name.to_owned(), Origin::Marker);
        vec![name.to_owned()]
    }

    fn program(&self) -> &str {
        let command = self.run.recording.header.command.first().map_or("", String::as_str);
        command.rsplit('/').next().unwrap_or(command)
    }
}

fn file<'a>(stacks: &'a Stacks, frame: &Frame) -> &'a str {
    let module = frame.module.and_then(|module| stacks.modules.get(module as usize));
    module.map_or("unknown", |module| module.short_name())
}

/// A name that fits in a folded line: no `;`, no control character, and no number at its end, which would
/// read as a weight.
pub(super) fn clean(name: &str) -> String {
    let safe = |c: char| if c == ';' || c.is_control() { ':' } else { c };
    let name: String = name.trim().chars().map(safe).collect();
    match name.rsplit_once(' ') {
        Some((front, last)) if last.parse::<f64>().is_ok() => format!("{front}_{last}"),
        _ if name.is_empty() => "[no name]".to_owned(),
        _ => name,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_can_not_break_a_line_of_stacks() {
        assert_eq!(clean("fill<[u8; 8]>\n"), "fill<[u8: 8]>");
        assert_eq!(clean("operator 12"), "operator_12");
        assert_eq!((clean(" \u{1b}[m "), clean("")), (":[m".into(), "[no name]".into()));
    }
}
