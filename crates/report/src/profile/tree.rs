//! A call tree as lines. A function that is the only one of its caller stands below it without a further
//! indent, so deep stacks stay narrow. Functions below 1 % share one line.

use faultless_trace::measurement::{Count, Nanos, Percent};
use faultless_trace::tree::Node;

use crate::palette::Palette;
use crate::stat::headed;
use crate::table::{Align, Names, columns};
use crate::text::plain;
use crate::tuning::TREE_SHARE;

/// A name has at least this room.
const NAME: usize = 12;

/// A line before its columns are laid out.
struct Line {
    figures: [String; 3],
    branch: String,
    name: String,
}

pub(super) fn lines(tree: &[Node], names: Names, palette: Palette) -> Vec<String> {
    let Some(root) = tree.first() else { return Vec::new() };
    if root.faults <= 0.0 {
        return Vec::new();
    }
    let mut lines = Vec::new();
    list(tree, root, "", "", &mut lines);
    let is_timed = root.time_ns > 0.0;
    let mut cells = vec![["time", "share", "faults"].map(str::to_owned).to_vec()];
    cells.extend(lines.iter().map(|line| line.figures.to_vec()));
    if !is_timed {
        cells.iter_mut().for_each(|cells| drop(cells.remove(0)));
    }
    let align = vec![Align::Right; cells[0].len()];
    let figures = columns(3, &align, &cells);
    let begin = figures.iter().map(|line| line.chars().count()).max().unwrap_or(0) + 2;
    let pad = |line: &str| format!("{line:<begin$}");
    let mut text = vec![palette.faint(&format!("{}function", pad(&figures[0])))];
    for (figures, Line { branch, name, .. }) in figures[1..].iter().zip(&lines) {
        let depth = branch.chars().count();
        let branch = match names {
            // The branches nearest to the name tell most.
            Names::Within(width) => {
                branch.chars().skip((begin + depth + NAME).saturating_sub(width)).collect()
            }
            _ => branch.clone(),
        };
        let name = names.fit(&plain(name), begin + branch.chars().count());
        text.push(format!("{}{}{name}", pad(figures), palette.faint(&branch)));
    }
    headed("Call tree", palette, text)
}

/// Appends a node and what is below it. `branch` is drawn before the node's name, `below` before those of
/// its children.
fn list(tree: &[Node], root: &Node, branch: &str, below: &str, lines: &mut Vec<Line>) {
    let Some(node) = tree.first() else { return };
    lines.push(line(node.time_ns, node.faults, root, branch, node.name.clone()));
    let mut children = children(tree);
    let small = children.iter().position(|child| share(&child[0], root) < TREE_SHARE);
    let rest = children.split_off(small.unwrap_or(children.len()));
    let rest_share: f64 = rest.iter().map(|child| share(&child[0], root)).sum();
    let has_rest = rest_share >= TREE_SHARE;
    let is_chain = children.len() == 1 && !has_rest && share_own(node, root) < TREE_SHARE;
    if is_chain {
        return list(children[0], root, below, below, lines);
    }
    for (index, child) in children.iter().enumerate() {
        let is_last = index + 1 == children.len() && !has_rest;
        let (bend, down) = if is_last { ("└ ", "  ") } else { ("├ ", "│ ") };
        list(child, root, &format!("{below}{bend}"), &format!("{below}{down}"), lines);
    }
    if has_rest {
        let sum = |of: fn(&Node) -> f64| rest.iter().map(|child| of(&child[0])).sum::<f64>();
        let name = format!("{} below {:.0} %", Count(rest.len() as u64).of("other"), 100.0 * TREE_SHARE);
        let (ns, faults) = (sum(|node| node.time_ns), sum(|node| node.faults));
        lines.push(line(ns, faults, root, &format!("{below}└ "), name));
    }
}

/// The subtrees below the first node.
fn children(tree: &[Node]) -> Vec<&[Node]> {
    let (depth, mut from, mut children) = (tree[0].depth, 1, Vec::new());
    while tree.get(from).is_some_and(|node| node.depth > depth) {
        let len = tree[from + 1..].iter().take_while(|node| node.depth > depth + 1).count() + 1;
        children.push(&tree[from..from + len]);
        from += len;
    }
    children
}

fn line(time_ns: f64, faults: f64, root: &Node, branch: &str, name: String) -> Line {
    let share = if root.time_ns > 0.0 { time_ns / root.time_ns } else { faults / root.faults };
    let figures =
        [Nanos(time_ns).to_string(), Percent(share).to_string(), Count(faults.round() as u64).to_string()];
    Line { figures, branch: branch.to_owned(), name }
}

fn share(node: &Node, root: &Node) -> f64 {
    if root.time_ns > 0.0 { node.time_ns / root.time_ns } else { node.faults / root.faults }
}

fn share_own(node: &Node, root: &Node) -> f64 {
    if root.time_ns > 0.0 { node.own_ns / root.time_ns } else { node.own_faults / root.faults }
}
