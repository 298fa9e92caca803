//! The lanes of a timeline -> the rows of its picture and table: a thread each, or all threads of one name where they are
//! many.

use std::collections::HashMap;

use faultless_trace::sites::{THREADS_SHOWN, stem};
use faultless_trace::timeline::{Spent, Timeline};

/// A row.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Group {
    /// The name of its threads; numbers that differ are stars.
    pub(crate) name: String,
    /// Indices into [`Timeline::lanes`].
    pub(crate) lanes: Vec<usize>,
}

impl Group {
    /// Life, faults, and what the life was spent on.
    pub(crate) fn sums(&self, timeline: &Timeline) -> (u64, Spent) {
        let lanes = || self.lanes.iter().map(|&lane| &timeline.lanes[lane]);
        let faults: f64 = lanes().map(|lane| lane.fault_count).sum();
        (faults.round() as u64, lanes().map(|lane| lane.spent()).sum())
    }
}

/// All rows: single threads in the order of their lanes, then those of one name.
pub(crate) fn groups(timeline: &Timeline) -> Vec<Group> {
    let mut names: HashMap<String, usize> = HashMap::new();
    let mut groups: Vec<Group> = Vec::new();
    for (index, lane) in timeline.lanes.iter().enumerate() {
        let stem = stem(&lane.name);
        let at = *names.entry(stem.clone()).or_insert_with(|| {
            groups.push(Group { name: lane.name.clone(), lanes: Vec::new() });
            groups.len() - 1
        });
        groups[at].lanes.push(index);
        if groups[at].name != lane.name {
            groups[at].name = stem;
        }
    }
    let (many, few): (Vec<_>, Vec<_>) =
        groups.into_iter().partition(|group| group.lanes.len() > THREADS_SHOWN);
    let mut single: Vec<usize> = few.into_iter().flat_map(|group| group.lanes).collect();
    single.sort_unstable();
    let alone = |lane: usize| Group { name: timeline.lanes[lane].name.clone(), lanes: vec![lane] };
    single.into_iter().map(alone).chain(many).collect()
}
