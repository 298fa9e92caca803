//! Weighted faults -> a call tree: each function with the faults and the time of everything above it.
//!
//! Callers first, or touching functions first (`inverted`). The stacks are the touching ones or the
//! allocating ones. The children of a node and its own faults add up to the node; the root is all selected
//! faults, those without a stack included.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};

use crate::kind::Kind;
use crate::profile::{Profile, Selection, Weighted};
use crate::recording::Recording;
use crate::sites::{NO_BLOCK, NO_STACK};

/// How to build a tree.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Shape {
    /// Stacks of who allocated instead of who touched.
    pub alloc: bool,
    /// Leaves first.
    pub inverted: bool,
    /// With the runtime's scaffolding.
    pub whole: bool,
}

/// A function in the tree. A tree is a list of them: each is followed by its children, the most time first.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Node {
    /// How many callers it has in the tree; 0 for the root.
    pub depth: u32,
    /// Its name.
    pub name: String,
    /// Faults of it and all that it leads to.
    pub faults: f64,
    /// Faults of it alone.
    pub own_faults: f64,
    /// Time of it and all that it leads to, waits for the disk included, ns.
    pub time_ns: f64,
    /// Time of it alone, ns.
    pub own_ns: f64,
}

impl Node {
    /// The tree of the selected faults. The root's name is `all`.
    pub fn tree(recording: &Recording, profile: &Profile, selection: &Selection, shape: Shape) -> Vec<Self> {
        let mut stacks: HashMap<Option<Option<u32>>, (f64, f64)> = HashMap::new();
        let faults = profile.faults.iter().enumerate().filter(|(index, _)| selection.holds(*index));
        for (_, fault) in faults {
            let sum = stacks.entry(key(profile, fault, shape)).or_default();
            *sum = (sum.0 + fault.faults, sum.1 + fault.time_ns());
        }
        let beyond = profile.totals.beyond.iter().enumerate();
        let beyond = beyond.filter(|(index, _)| selection.holds_beyond(*index)).map(|(_, beyond)| beyond);
        let mut root = Building::default();
        for (stack, sum) in stacks {
            root.add(names(recording, stack, shape), sum);
        }
        for (kind, faults, seconds) in beyond {
            root.add(
                vec![format!("[{}]", Kind::words(*kind))],
                (*faults as f64, seconds.unwrap_or(0.0) * 1e9),
            );
        }
        let mut tree = Vec::new();
        root.list("all".to_owned(), 0, &mut tree);
        tree
    }
}

/// The stack to show; the outer `None`: memory that no recorded block holds.
fn key(profile: &Profile, fault: &Weighted, shape: Shape) -> Option<Option<u32>> {
    match shape.alloc {
        false => Some(fault.stack),
        true => profile.blocks.blocks.get(fault.block? as usize).map(|block| block.stack),
    }
}

/// In the order of the tree, below its root.
fn names(recording: &Recording, stack: Option<Option<u32>>, shape: Shape) -> Vec<String> {
    let stacks = &recording.stacks;
    let Some(stack) = stack else { return vec![NO_BLOCK.to_owned()] };
    let shown = stack.map(|stack| stacks.shown(stack, shape.whole)).unwrap_or_default();
    if shown.is_empty() {
        return vec![NO_STACK.to_owned()];
    }
    let mut names: Vec<String> = shown.into_iter().map(|shown| stacks.label(shown)).collect();
    if !shape.inverted {
        names.reverse();
    }
    names
}

/// A node whose children are found by name.
#[derive(Default)]
struct Building {
    faults: f64,
    time_ns: f64,
    children: HashMap<String, Building>,
}

impl Building {
    fn add(&mut self, names: Vec<String>, (faults, time_ns): (f64, f64)) {
        let mut node = self;
        (node.faults, node.time_ns) = (node.faults + faults, node.time_ns + time_ns);
        for name in names {
            node = node.children.entry(name).or_default();
            (node.faults, node.time_ns) = (node.faults + faults, node.time_ns + time_ns);
        }
    }

    /// Appends it and its children.
    fn list(self, name: String, depth: u32, tree: &mut Vec<Node>) {
        let sum = |of: fn(&Building) -> f64| self.children.values().map(of).sum::<f64>();
        let own_faults = (self.faults - sum(|child| child.faults)).max(0.0);
        let own_ns = (self.time_ns - sum(|child| child.time_ns)).max(0.0);
        tree.push(Node { depth, name, faults: self.faults, own_faults, time_ns: self.time_ns, own_ns });
        let mut children: Vec<(String, Building)> = self.children.into_iter().collect();
        children.sort_by(|(name, a), (other, b)| {
            let by_size = b.time_ns.total_cmp(&a.time_ns).then(b.faults.total_cmp(&a.faults));
            by_size.then_with(|| name.cmp(other))
        });
        for (name, child) in children {
            child.list(name, depth + 1, tree);
        }
    }
}
