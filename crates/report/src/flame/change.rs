//! Two sets of stacks -> one set that shows what changed.
//!
//! There are two branches. `after` holds all stacks of the run after. `no longer` holds stacks that went or
//! shrank, weighted by their loss. A frame that changed enough says so in its name, because inferno colours
//! frames by name. A frame is marked only if a part of it changed beyond chance.

use std::collections::{BTreeMap, HashMap};

use inferno::flamegraph::color::Color;

type Stacks = BTreeMap<Vec<String>, f64>;

const AFTER: &str = "after";
const NO_LONGER: &str = "no longer: less than before";

const ADDED: [u8; 3] = [216, 96, 200];
const REMOVED: [u8; 3] = [64, 164, 156];
const GROWN: [u8; 3] = [232, 88, 72];
const SHRUNK: [u8; 3] = [92, 140, 224];
const SAME: [u8; 3] = [224, 226, 229];

pub(super) const LEGEND: [([u8; 3], &str); 5] = [
    (ADDED, "only after"),
    (GROWN, "grown"),
    (SAME, "no change beyond chance"),
    (SHRUNK, "shrunk"),
    (REMOVED, "only before"),
];

pub(super) struct Changes {
    pub(super) stacks: Vec<(String, f64)>,
    pub(super) colours: Vec<(String, Color)>,
}

/// The weights of a frame, with all frames above it.
#[derive(Clone, Copy, Debug, Default)]
struct Weights {
    before: f64,
    after: f64,
    /// The parts of both that changed beyond chance.
    lost: f64,
    gained: f64,
}

/// Marks the frames that changed by at least `threshold`, a share of the larger whole. Before and after: all stacks,
/// and the part of them that changed beyond chance.
pub(super) fn changes(all: [&Stacks; 2], changed: [&Stacks; 2], threshold: f64) -> Changes {
    let [before, after] = all;
    let mut frames: HashMap<&[String], Weights> = HashMap::new();
    add(&mut frames, before, |frame| &mut frame.before);
    add(&mut frames, after, |frame| &mut frame.after);
    add(&mut frames, changed[0], |frame| &mut frame.lost);
    add(&mut frames, changed[1], |frame| &mut frame.gained);
    let whole = before.values().sum::<f64>().max(after.values().sum());
    let mut changes = Changes { stacks: Vec::new(), colours: Vec::new() };
    let mut colours: HashMap<String, Color> = HashMap::new();
    let mut line = |branch: &str, stack: &[String]| {
        let mut names = vec![branch.to_owned()];
        let mut mark = None;
        for len in 1..=stack.len() {
            let mut weights = frames[&stack[..len]];
            if branch == NO_LONGER {
                // A stack that grew as a whole still lost this part: this branch has no red.
                weights.after = weights.after.min(weights.before);
                weights.gained = weights.gained.min(weights.lost);
            }
            let (suffix, colour) = marked(weights, threshold * whole, &mut mark);
            names.push(format!("{}{suffix}", stack[len - 1]));
            colours.entry(names[len].clone()).or_insert(colour);
        }
        names.join(";")
    };
    for (stack, weight) in after {
        changes.stacks.push((line(AFTER, stack), *weight));
    }
    for (stack, weight) in before {
        let gone = weight - after.get(stack).copied().unwrap_or(0.0);
        // For a stack on both sides, noise would fill this branch with slivers.
        if gone > if after.contains_key(stack) { threshold * whole } else { 0.0 } {
            changes.stacks.push((line(NO_LONGER, stack), gone));
        }
    }
    changes.colours = colours.into_iter().collect();
    changes.colours.extend([AFTER, NO_LONGER].map(|name| (name.to_owned(), rgb(SAME))));
    changes
}

fn add<'a>(
    frames: &mut HashMap<&'a [String], Weights>,
    stacks: &'a Stacks,
    to: fn(&mut Weights) -> &mut f64,
) {
    for (stack, weight) in stacks {
        (1..=stack.len()).for_each(|len| *to(frames.entry(&stack[..len]).or_default()) += weight);
    }
}

/// The suffix of a frame's name, and its colour. `mark` holds for all frames above one that exists on one
/// side only.
fn marked(weights: Weights, least: f64, mark: &mut Option<(&'static str, [u8; 3])>) -> (String, Color) {
    let told = weights.gained - weights.lost;
    let change = weights.after - weights.before;
    let is_told = told.abs() >= least && change.abs() >= least && told * change > 0.0;
    if mark.is_none() && is_told {
        *mark = match weights {
            Weights { before: 0.0, .. } => Some((" [added]", ADDED)),
            Weights { after: 0.0, .. } => Some((" [removed]", REMOVED)),
            _ => None,
        };
    }
    if let Some((suffix, colour)) = *mark {
        return (suffix.to_owned(), rgb(colour));
    }
    if !is_told {
        return (String::new(), rgb(SAME));
    }
    let share = change / weights.before;
    let strength = (change.abs() / weights.before.max(weights.after)).sqrt();
    let full = if change > 0.0 { GROWN } else { SHRUNK };
    let mix = |full: u8, same: u8| (f64::from(same) + strength * (f64::from(full) - f64::from(same))) as u8;
    let suffix =
        if share < 10.0 { format!(" [{:+.0}%]", share * 100.0) } else { format!(" [x{:.0}]", share + 1.0) };
    (suffix, rgb([mix(full[0], SAME[0]), mix(full[1], SAME[1]), mix(full[2], SAME[2])]))
}

fn rgb([r, g, b]: [u8; 3]) -> Color {
    Color { r, g, b }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stacks(lines: &[(&str, f64)]) -> Stacks {
        lines.iter().map(|(line, weight)| (line.split(' ').map(str::to_owned).collect(), *weight)).collect()
    }

    #[test]
    fn what_chance_explains_has_no_colour() {
        let before = stacks(&[("main noise", 100.0), ("main grown", 50.0), ("main gone", 10.0)]);
        let after = stacks(&[("main noise", 140.0), ("main grown", 90.0), ("main new", 10.0)]);
        let changed = [stacks(&[("main grown", 50.0)]), stacks(&[("main grown", 90.0)])];
        let found = changes([&before, &after], [&changed[0], &changed[1]], 0.01);
        let lines: Vec<&str> = found.stacks.iter().map(|line| line.0.as_str()).collect();
        assert_eq!(
            lines,
            [
                "after;main [+50%];grown [+80%]",
                "after;main [+50%];new",
                "after;main [+50%];noise",
                "no longer: less than before;main;gone",
            ]
        );
        let colour = |name: &str| found.colours.iter().find(|frame| frame.0 == name).unwrap().1;
        assert!(["noise", "new", "gone", "main"].iter().all(|name| colour(name) == rgb(SAME)));
        assert_ne!(colour("grown [+80%]"), rgb(SAME));
    }

    #[test]
    fn what_is_only_on_one_side_is_there_and_says_so() {
        let before = stacks(&[("main a", 100.0), ("main old leaf", 50.0), ("main b", 80.0)]);
        let after = stacks(&[("main a", 200.0), ("main new", 30.0), ("main b", 80.1)]);
        let found = changes([&before, &after], [&before, &after], 0.01);
        let lines: Vec<&str> = found.stacks.iter().map(|line| line.0.as_str()).collect();
        assert_eq!(
            lines,
            [
                "after;main [+35%];a [+100%]",
                "after;main [+35%];b",
                "after;main [+35%];new [added]",
                "no longer: less than before;main;old [removed];leaf [removed]",
            ]
        );
        assert_eq!(found.stacks[3].1, 50.0);
    }
}
