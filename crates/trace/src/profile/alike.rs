//! Faults of known kind -> the kind of a sampled fault of the same stack or site.
//!
//! It is drawn at random from the faults nearest in time, because a program has phases.

use std::collections::HashMap;

use crate::fault::Fault;
use crate::kind::Kind;
use crate::measurement::Rng;
use crate::tuning::{NEIGHBOURS, PRICED_FAULTS};

/// Time and kind of faults, by stack or site and by their kind without a history.
#[derive(Debug)]
pub(super) struct Neighbours {
    of: HashMap<(u32, Kind), Vec<(u64, Kind)>>,
    lots: Rng,
}

impl Neighbours {
    pub(super) fn new() -> Self {
        Self { of: HashMap::new(), lots: Rng::seeded() }
    }

    /// Adds a fault of known kind.
    pub(super) fn add(&mut self, at: (u32, Kind), fault: &Fault) {
        self.of.entry(at).or_default().push((fault.enter_ns, fault.kind));
    }

    /// To be called once all are added.
    pub(super) fn sort(&mut self) {
        self.of.values_mut().for_each(|faults| faults.sort_by_key(|(time_ns, _)| *time_ns));
    }

    /// The kind of a fault there at this time; `None` with too few known faults.
    pub(super) fn near(&mut self, at: (u32, Kind), time_ns: u64) -> Option<Kind> {
        let faults = self.of.get(&at).filter(|faults| faults.len() as u64 >= PRICED_FAULTS)?;
        let near = NEIGHBOURS.min(faults.len());
        let behind = faults.partition_point(|(ns, _)| *ns < time_ns);
        let from = behind.saturating_sub(near / 2).min(faults.len() - near);
        Some(faults[from + self.lots.below(near)].1)
    }
}
